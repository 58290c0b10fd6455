"""What the documents promise is there: commands, options, files, and where links lead."""

import importlib.util
import io
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import redirect_stderr
from pathlib import Path

import pytest

from replayer.cli.command_parser import every, parser
from tests import documents
from tests.documents import EVERY, ROOT

BLOCKS = [block for document in EVERY for block in documents.blocks(document)]
NOT_OURS = {
    "cp",
    "export",
    "iostat",
    "sadf",
    "ssh",
    "aws",
    "az",
    "gcloud",
    "mkdir",
    "cat",
    "mail",
    "sysctl",
}
"""Others' programs, of which nothing is checked."""
GIVES_BACK = re.compile(
    r"run\.recovery import|run import recovery|followed_run import"
    r'|registry\.load\("commands", "run"\)\.run\('
)
"""The imports of a command that gives back what a killed one left, or its call of `run`."""
TYPED = re.compile(r"(?:\.venv/bin/)?replayer(?: |$)")
SERVICES = set(
    re.findall(r"^  ([a-z-]+):$", (ROOT / "docker-compose.yml").read_text(), re.MULTILINE)
)


def commands(script: str) -> Iterator[list[str]]:
    """Yield the words of each command of a script: of a pipe, of both its ends."""
    for line in script.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|;<>&")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, "|"]:
            if set(word) <= set("|;<>&"):
                if words and not set(words[0]) <= set("<>"):
                    yield words
                words = [word] if set(word) <= set("<>") else []
            else:
                words.append(word)


def without_environment(words: list[str]) -> list[str]:
    """Return a command without the variables that are set for it."""
    while re.match(r"[A-Z_]+=", words[0]):
        words = words[1:]
    return words


def complaint(words: list[str], *, mention: bool = False) -> str:
    """Return why replayer's own command line does not take these words; "" if it does.

    A mention of a command may leave out what it cannot do without.
    """
    stderr = io.StringIO()
    try:
        with redirect_stderr(stderr):
            parser().parse_args(words)
    except SystemExit as end:
        printed = stderr.getvalue()
        excused = mention and ("are required" in printed or "is required" in printed)
        return "" if not end.code or excused else printed.splitlines()[-1]
    return ""


def check(words: list[str], where: object, *, mention: bool = False) -> None:
    """Assert that a command can be typed."""
    words = without_environment(words)
    program = words[0].removeprefix(".venv/bin/")
    if program == "replayer":
        assert complaint(words[1:], mention=mention) == "", where
    elif program == "make":
        done = subprocess.run(
            ["make", "--dry-run", "-C", ROOT, *words[1:]],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (where, done.stderr)
    elif program in {"docker", "docker-compose"}:
        check_compose(words, where, mention=mention)
    elif program == "pip":
        extra = re.fullmatch(r"replayer\[(\w+)\]", words[-1])
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        assert extra is None or extra[1] in project["optional-dependencies"], where
    elif program in {"python", "python3"} and words[1] == "-m":
        assert importlib.util.find_spec(words[2]), where
    elif program in {"pytest", "ruff", "mypy", "lint-imports"}:
        for word in words[1:]:
            path = word.partition("::")[0]
            assert "/" not in path or (ROOT / path).exists(), (where, path)
    else:
        assert program in NOT_OURS, (where, words)


def check_compose(words: list[str], where: object, *, mention: bool = False) -> None:
    """Assert that a command of compose names services that are there."""
    words = words[1 + (words[0] == "docker") :]
    if "replayer" in words:
        rest = words[words.index("replayer") + 1 :]
        assert complaint(rest, mention=mention) == "", where
        words = words[: words.index("replayer") + 1]
    verb = next((n for n, word in enumerate(words) if word in {"up", "run", "exec"}), None)
    if verb is not None:
        named = [word for word in words[verb + 1 :] if word[0] != "-"]
        assert not named or named[-1] in SERVICES or named[0] in SERVICES, (where, named)


@pytest.mark.parametrize("document", EVERY, ids=lambda path: path.name)
def test_every_block_of_commands_says_whether_it_is_run(document: Path) -> None:
    """What nobody runs says why, so that none is passed over; and a block is marked as commands."""
    for block in documents.blocks(document):
        assert block.how, f"{document.name}:{block.line} does not say whether it is run"
        assert block.how != "not run" or len(block.why.split()) > 2, block
        assert all(theirs in block.script for theirs, _ in block.instead), block
    for plain in documents.fenced(document, ""):
        lines = plain.splitlines()
        typed = [
            line for line in lines if TYPED.match(line) or line.startswith(("make ", "docker "))
        ]
        assert not typed, (document.name, typed)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)
def test_every_command_can_be_typed(block: documents.Block) -> None:
    """Each command of each block is one that the command line, make or compose understands."""
    for words in commands(block.script):
        check(words, (block.name, words))


@pytest.mark.parametrize("document", EVERY, ids=lambda path: path.name)
def test_commands_in_sentences_can_be_typed(document: Path) -> None:
    """What stands between backquotes as a command has a name and options that are there."""
    for span in documents.spans(document):
        typed = re.split(r" ?(?:…|\.\.\.)", span)[0]
        for words in commands(typed) if TYPED.match(typed) or "| replayer" in typed else ():
            check(words, (document.name, span), mention=True)
        if typed.startswith(("make ", "docker compose ", "python -m tests")):
            for words in commands(typed):
                check(words, (document.name, span), mention=True)


@pytest.fixture(scope="module")
def options() -> set[str]:
    """Return every option of every command."""
    top = parser()
    parsers = [top, *(one for _, one in every(top))]
    return {name for one in parsers for name in one._option_string_actions}


OTHERS_OPTIONS = {"--wait", "--profile", "--kernel", "--cut", "--job", "--panic", "--seed"}
"""Of docker compose, of tests.kernel_lab and of `make bench`."""


@pytest.mark.parametrize("document", EVERY, ids=lambda path: path.name)
def test_options_in_sentences_are_there(document: Path, options: set[str]) -> None:
    """An option that is only mentioned can be given to some command."""
    for span in documents.spans(document):
        named = set(re.findall(r"(?:^|(?<= ))--[a-z][a-z-]*", span))
        ours = span.startswith(("--", "run ", "compare ")) or TYPED.match(span)
        assert not ours or named <= options | OTHERS_OPTIONS, (document.name, span)


@pytest.mark.parametrize("document", EVERY, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    """A link leads to a file that is there, and to a heading that is in it."""
    for link in documents.links(document):
        if link.startswith(("https://", "http://")):
            continue
        name, _, anchor = link.partition("#")
        target = (document.parent / name).resolve() if name else document
        assert target.exists(), (document.name, link)
        assert not anchor or anchor in documents.anchors(target), (document.name, link)


def test_files_that_are_named_are_there() -> None:
    """A path of the repository between backquotes is one that is there."""
    for document in EVERY:
        for span in documents.spans(document):
            if "NAME" not in span and re.fullmatch(
                r"(replayer|tests|schemas|workloads|docs)/[\w./-]*", span
            ):
                assert (ROOT / span).exists(), (document.name, span)


def test_every_package_is_explained_to_contributors() -> None:
    """Who adds a folder says what it holds; the table has the order of the layers."""
    text = documents.text_of(ROOT / "CONTRIBUTING.md")
    named = re.findall(r"`replayer/(\w+)/`", text.partition("\n## Contracts")[0])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    folders = [
        name
        for layer in layers
        for name in layer.split(" | ")
        if (ROOT / "replayer" / name).is_dir()
    ]

    assert named == folders


def test_every_page_is_reached_from_the_readme_which_is_short() -> None:
    """Who begins at the README finds all pages, and is through with it in minutes."""
    readme = EVERY[0]
    linked = {(ROOT / link.partition("#")[0]).resolve() for link in documents.links(readme)}

    assert set(EVERY[1:]) <= linked
    assert len(documents.text_of(readme).splitlines()) <= 150


def test_the_readme_says_where_all_commands_are() -> None:
    """A new command is found by those who read the README, without an edit of it."""
    assert "replayer --help" in documents.spans(EVERY[0])


def test_the_commands_that_give_back_after_a_kill_are_named() -> None:
    """The administrator reads of each command that does so, and of no other."""
    commands = sorted((ROOT / "replayer" / "commands").glob("*.py"))
    giving = {path.stem for path in commands if GIVES_BACK.search(path.read_text())}
    text = " ".join((ROOT / "docs" / "administrator.md").read_text().split())
    named = text.partition("After a SIGKILL")[2].partition("Commands that only read")[0]

    assert set(re.findall(r"`([a-z]+)[^`]*`", named)) == giving
