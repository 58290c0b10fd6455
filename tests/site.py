"""The documents as a site with search, in the folder site/: `make site`.

    python -m tests.site [FOLDER]

README is its first page.  Links between the documents lead to its pages; links to other files of
the project are kept as they are if the site has the file, and are plain text if it does not.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONFIGURATION = ROOT / "zensical.toml"
_FRONT = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md"} | {
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
}
"""Documents of the root -> pages of the site."""
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def assemble(pages: Path) -> None:
    """Write all pages and their pictures into a folder."""
    shutil.copytree(ROOT / "docs", pages, dirs_exist_ok=True)
    for document in (ROOT / "docs").glob("*.md"):
        _write(document, pages / document.name, pages)
    for name, page in _FRONT.items():
        _write(ROOT / name, pages / page, pages)


def _write(document: Path, page: Path, pages: Path) -> None:
    text = document.read_text(encoding="utf-8")

    def lead(link: re.Match[str]) -> str:
        picture, title, target = link.groups()
        if "://" in target or target.startswith("#"):
            return link[0]
        path, _, anchor = target.partition("#")
        leads_to = (document.parent / path).resolve().relative_to(ROOT)
        name = _FRONT.get(str(leads_to), str(leads_to).removeprefix("docs/"))
        if not (pages / name).exists() and name not in _FRONT.values():
            return f"{picture}{title}"
        return f"{picture}[{title}]({name}{'#' * bool(anchor)}{anchor})"

    page.write_text(_LINK.sub(lead, text), encoding="utf-8")


def build(folder: Path) -> None:
    """Build the site into a folder, which must be empty or an earlier site."""
    if folder.exists() and any(folder.iterdir()) and not (folder / "search.json").exists():
        sys.exit(f"{folder} is not empty, and no site: name another folder")
    with tempfile.TemporaryDirectory(prefix="replayer-site-") as work:
        assemble(Path(work) / "docs")
        shutil.copy(CONFIGURATION, work)
        site = tomllib.loads(CONFIGURATION.read_text(encoding="utf-8"))["project"]["site_dir"]
        program = Path(sys.executable).with_name("zensical")
        done = subprocess.run([program, "build", "--clean", "--strict"], cwd=work, check=False)
        if done.returncode:
            sys.exit(done.returncode)
        shutil.copytree(Path(work) / site, folder, dirs_exist_ok=True)


if __name__ == "__main__":
    build(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "site").resolve())
