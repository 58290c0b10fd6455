"""The documents as tests read them: their commands, their links, and what is run of them.

A block of commands is fenced by ```sh, and the comment above it, which no reader sees, says whether
it is run:

    <!-- runs: quick -->                 it ends with 0, as a script of the shell
    <!-- runs: slow, with A for B -->    so in `make test-slow`; A stands where the reader has B
    <!-- not run: REASON -->             its commands are parsed, and runs planned by --dry-run

A is a word or one of @postgres and @disk, which the test that runs it has.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EVERY = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
SHELLS = ("sh", "bash", "shell", "console")
_FENCE = re.compile(
    r"^(?:<!-- ([^\n]*) -->\n)?( *)```(\S*)[^\n]*\n(.*?)^\2```$", re.DOTALL | re.MULTILINE
)
_SHOWN = re.compile(r"^`(~/\S+)`\n\n```\S*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_MARK = re.compile(r"(runs: quick|runs: slow|not run: )(.*)")
_SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A block of commands in a document."""

    document: Path
    line: int
    script: str
    how: str
    """`runs: quick`, `runs: slow`, `not run` or, where no comment says it, nothing."""
    why: str = ""
    """The reason why it is not run."""
    instead: tuple[tuple[str, str], ...] = ()
    """(what stands in the document, what is run in its place)."""

    @property
    def name(self) -> str:
        """Return what a test of it is called."""
        return f"{self.document.stem}-{self.line}"


def text_of(document: Path) -> str:
    """Return a document's text."""
    return document.read_text(encoding="utf-8")


def blocks(document: Path) -> Iterator[Block]:
    """Yield a document's blocks of commands."""
    text = text_of(document)
    for fence in _FENCE.finditer(text):
        if fence[3] in SHELLS:
            script = re.sub(f"^{fence[2]}", "", fence[4], flags=re.MULTILINE)
            yield _block(document, text.count("\n", 0, fence.start(4)), script, fence[1] or "")


def _block(document: Path, line: int, script: str, comment: str) -> Block:
    mark = _MARK.fullmatch(comment)
    if mark is None:
        return Block(document, line, script, "")
    if mark[1] == "not run: ":
        return Block(document, line, script, "not run", mark[2])
    pairs = [pair.split(" for ") for pair in mark[2].removeprefix(", with ").split(", ") if pair]
    return Block(document, line, script, mark[1], "", tuple((b, a) for a, b in pairs))


def fenced(document: Path, language: str) -> list[str]:
    """Return what is fenced in a document as of a language."""
    return [fence[4] for fence in _FENCE.finditer(text_of(document)) if fence[3] == language]


def files_shown(document: Path) -> dict[str, str]:
    """Return path -> text of the files that a document shows, each below a line of its name."""
    return dict(_SHOWN.findall(text_of(document)))


def prose(document: Path) -> str:
    """Return a document without its fenced blocks and comments."""
    return re.sub(r"<!--.*?-->", "", _FENCE.sub("", text_of(document)), flags=re.DOTALL)


def spans(document: Path) -> list[str]:
    """Return what stands between backquotes in a document's prose, each on one line."""
    return [" ".join(span.split()) for span in _SPAN.findall(prose(document))]


def links(document: Path) -> list[str]:
    """Return where a document's links lead."""
    return _LINK.findall(prose(document))


def anchors(document: Path) -> set[str]:
    """Return the names that headings get where Markdown is shown."""
    titles = _HEADING.findall(_FENCE.sub("", text_of(document)))
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}
