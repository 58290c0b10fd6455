"""Install the servers of `make test-slow`: PostgreSQL 13, 14, 16 and 17, MySQL 9; and Python 3.13.

PostgreSQL comes as Maven artifacts (tests/servers/pom.xml), MySQL from Debian's unstable release
and Python from Debian 13 by debootstrap, each from where this machine's own mvn and apt get things.
What is there stays; what cannot be had is said, and its tests are skipped, or fail where
$REPLAYER_REQUIRE names it.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from tests.ready_made import locked
from tests.servers import NAMES, home, programs

_POM = Path(__file__).with_name("pom.xml")
_NEEDED = ("usr/share/mysql", "usr/share/mysql-8.0", "usr/lib/mysql/plugin")
"""What mysqld looks for beside itself: messages, character sets, components."""


def main() -> int:
    """Install what is missing; return 0 also where something cannot be had."""
    folder = home()
    folder.mkdir(parents=True, exist_ok=True)
    # Servers run as other users than root.
    folder.chmod(0o755)
    # A second one waits, and finds what the first has installed.
    with (
        locked(folder / ".lock"),
        tempfile.TemporaryDirectory(prefix=".draft-", dir=folder) as draft,
    ):
        Path(draft).chmod(0o755)
        for kind, install in (("postgresql", postgresql), ("mysql", mysql), ("python", python)):
            missing = [one for one in NAMES if one.startswith(kind) and not there(one)]
            try:
                if missing:
                    install(Path(draft), missing)
            except (OSError, subprocess.CalledProcessError) as error:
                print(f"{', '.join(missing)}: not installed: {reason(error)}", file=sys.stderr)
    for name in filter(there, NAMES):
        print(f"{name} is in {programs(name)}")
    return 0


def there(name: str) -> bool:
    """Tell whether a server's programs are installed."""
    return programs(name).is_dir()


def reason(error: Exception) -> str:
    """Return why something could not be had, as one line."""
    printed = (getattr(error, "stderr", "") or getattr(error, "stdout", "") or "").strip()
    return " ".join(f"{error} {printed[-500:]}".split())


def called(*words: object) -> str:
    """Run a program and return what it printed."""
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, check=True, cwd="/"
    )
    return done.stdout


def postgresql(draft: Path, missing: list[str]) -> None:
    """Take the programs out of the archives in Maven's jars."""
    called("mvn", "-B", "-q", "-f", _POM, "dependency:copy", f"-DoutputDirectory={draft}")
    for name in missing:
        with zipfile.ZipFile(draft / f"{name}.jar") as jar:
            (archive,) = [one for one in jar.namelist() if one.endswith(".txz")]
            jar.extract(archive, draft)
        with tarfile.open(draft / archive) as programs_of:
            programs_of.extractall(draft / name, filter="data")
        (draft / name).chmod(0o755)
        (draft / name).rename(home() / name)


def mysql(draft: Path, missing: list[str]) -> None:
    """Take mysqld out of Debian's unstable release."""
    (name,) = missing
    program = "usr/sbin/mysqld"
    from_debian(draft, name, "sid", "mysql-server-core", program=program, needed=_NEEDED)


def python(draft: Path, missing: list[str]) -> None:
    """Take Python, without pip, out of Debian 13."""
    (name,) = missing
    program, needed = "usr/bin/python3.13", ["usr/lib/python3.13"]
    from_debian(draft, name, "trixie", "python3", program=program, needed=needed)


def from_debian(
    draft: Path, name: str, release: str, package: str, *, program: str, needed: Sequence[str]
) -> None:
    """Take a program, its libraries and what it needs beside itself out of another Debian release.

    It is told to use these libraries and their loader, so that it runs on this one.
    """
    system, target = draft / f"{name}-system", draft / name
    called("debootstrap", "--variant=minbase", f"--include={package}", release, system, mirror())
    for folder in needed:
        if (system / folder).is_dir():
            shutil.copytree(
                system / folder, target / Path(folder).relative_to("usr"), symlinks=True
            )
    (target / "bin").mkdir(parents=True)
    (target / "libraries").mkdir()
    copied = target / "bin" / Path(program).name
    shutil.copy2(system / program, copied)
    parts = [
        f"/{path.relative_to(system)}"
        for path in (system / "usr/lib").glob("python*/lib-dynload/*.so")
    ]
    printed = called("chroot", system, "ldd", f"/{program}", *parts)
    for path in set(re.findall(r"(/\S+)(?: \(0x|$)", printed)):
        shutil.copy(system / path.lstrip("/"), target / "libraries")
    libraries = home() / name / "libraries"
    loader = next((target / "libraries").glob("ld-linux*"))
    called(
        "patchelf", "--set-interpreter", libraries / loader.name, "--force-rpath",
        "--set-rpath", libraries, copied,
    )  # fmt: skip
    shutil.rmtree(system)
    target.rename(home() / name)


def mirror() -> str:
    """Return where apt gets this machine's own Debian release."""
    text = Path("/etc/os-release").read_text(encoding="utf-8")
    release = re.search(r"^VERSION_CODENAME=(\S+)$", text, re.MULTILINE)
    if release is None:
        raise OSError("this is not a Debian")
    sites = called(
        "apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages",
        "Origin: Debian", f"Release: {release[1]}",
    ).split()  # fmt: skip
    if not sites:
        raise OSError("apt has no index of this Debian release")
    return sites[0]


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main())
