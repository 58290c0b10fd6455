"""The commands of the documents, run as a reader types them."""

import functools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import documents
from tests.command import Replayer
from tests.documents import EVERY, ROOT, Block

FIXTURES = ROOT / "tests" / "fixtures"
BLOCKS = [block for document in EVERY for block in documents.blocks(document)]
LOG = "2026-11-20 15:45:{:02d}.000 UTC [100] app@shop LOG:  duration: 1.0 ms  statement: {}\n"
PYTHON = '#!/bin/sh\nexec {} -m {} "$@"\n'


def runs(how: str) -> list[pytest.ParameterSet]:
    """Return parameters for the blocks of commands that are run so."""
    return [pytest.param(one, id=one.name) for one in BLOCKS if one.how == how]


ELSEWHERE = re.compile(r"://|--clients|--cross-check|/dev/|/mnt/|monday")
"""In a run that wants other hosts, disks or files than there are here."""


def planned() -> list[pytest.ParameterSet]:
    """Return parameters for the runs of blocks that are not run."""
    return [
        pytest.param(line, id=f"{block.name}-{number}")
        for block in BLOCKS
        for number, line in enumerate(block.script.splitlines())
        if block.how == "not run" and line.startswith("replayer run ")
        if not ELSEWHERE.search(line)
    ]


def minutes(text: str) -> str:
    """Return what iostat would have printed, had it seen one second of a file for three minutes."""
    begin, end = (text.index(f"11/22/26 00:08:0{number}") for number in (6, 7))
    return text[:begin] + "".join(
        text[begin:end].replace("00:08:06", f"00:{8 + number // 60:02d}:{number % 60:02d}")
        for number in range(6, 186)
    )


class Reader:
    """Somebody in a folder who has a few results, logs and a profile, and types."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # The server of other tests may be running in theirs.
        home = str(folder / "home")
        self.variables = {"HOME": str(folder), "REPLAYER_HOME": home, "REPLAYER_RESULTS": ""}
        self.write("postgresql.log", "".join(LOG.format(n, f"SELECT {n}") for n in range(9)))
        self.write("logs/postgresql.log", (folder / "postgresql.log").read_text())
        self.write("iostat.txt", minutes((FIXTURES / "profiles/iostat/extended.txt").read_text()))
        self.write("machines.csv", (ROOT / "docs/sample/machines.csv").read_text())
        run = json.loads((FIXTURES / "runs/format-2.json").read_text())
        for number, label in enumerate(("stock", "uek")):
            name = f"20261120-15450{number}-demo-{label}-3f2a"
            # Two runs that began at one instant would be copies of one.
            began = f"2026-11-20T15:45:0{number}+00:00"
            text = json.dumps({**run, "id": name, "label": label, "started": began})
            self.write(f"results/{name}.json", text)
        for name, module in (("replayer", "replayer"), ("pytest", "pytest")):
            self.write(f".venv/bin/{name}", PYTHON.format(sys.executable, module)).chmod(0o755)
        (folder / "tests").symlink_to(ROOT / "tests")

    def write(self, name: str, text: str) -> Path:
        """Write a file into the folder, and return its path."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def types(self, script: str) -> str:
        """Run a script of the shell; each of its commands must end with 0."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
            env={
                **os.environ,
                **self.variables,
                "PATH": f"{self.folder}/.venv/bin:{os.environ['PATH']}",
                "PYTHONPATH": str(ROOT),
            },
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def readers() -> Iterator[Callable[[Path], Reader]]:
    """Return a function that returns the reader of a document, who stays in one folder."""
    home = Path(tempfile.mkdtemp(prefix="replayer-docs-", dir="/tmp"))
    home.chmod(0o755)
    there: dict[Path, Reader] = {}

    def reader_of(document: Path) -> Reader:
        if document not in there:
            folder = home / document.stem
            folder.mkdir()
            there[document] = Reader(folder)
            for name, text in documents.files_shown(document).items():
                there[document].write(name.removeprefix("~/"), text)
        return there[document]

    yield reader_of
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def stand_in(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Return a function that returns what stands in for what a reader has."""

    def find(word: str) -> str:
        if word == "@postgres":
            url = request.getfixturevalue("server").start()
            return str(url.set(drivername="postgresql").render_as_string(hide_password=False))
        if word == "@disk":
            folder = Path(tempfile.mkdtemp(prefix="replayer-disk-", dir="/tmp"))
            folder.chmod(0o755)
            request.addfinalizer(lambda: shutil.rmtree(folder, ignore_errors=True))
            return str(folder / "replayer")
        if word == "@mariadb":
            request.getfixturevalue("mariadbd")
            return "mariadb"
        if word == "@postgres15":
            return str(request.getfixturevalue("postgres15"))
        assert word[0] != "@", word
        return word

    return find


def _quoted(word: str, _replaced: re.Match[str]) -> str:
    return shlex.quote(word)


def script_of(block: Block, stand_in: Callable[[str], str]) -> str:
    """Return a block's script with what the test has in place of what a reader has."""
    script = block.script
    for theirs, mine in block.instead:
        script = re.sub(
            rf"(?<=[\s=]){re.escape(theirs)}(?=\s)",
            functools.partial(_quoted, stand_in(mine)),
            script,
        )
    return script


@pytest.mark.slow
@pytest.mark.parametrize("block", runs("runs: quick"))
def test_commands_run(
    block: Block, readers: Callable[[Path], Reader], stand_in: Callable[[str], str]
) -> None:
    """What takes seconds ends with 0, in the order in which it stands in its document."""
    readers(block.document).types(script_of(block, stand_in))


@pytest.mark.slow
@pytest.mark.parametrize("block", runs("runs: slow"))
def test_commands_that_take_long_run(
    block: Block, readers: Callable[[Path], Reader], stand_in: Callable[[str], str]
) -> None:
    """So does what takes longer, with what is told before it in its document."""
    reader = readers(block.document)
    if "monday.replay" in block.script:
        reader.types("replayer convert logs --out monday.replay")
    reader.types(script_of(block, stand_in))


@pytest.mark.parametrize("command", planned())
def test_runs_that_are_not_run_can_be_planned(
    command: str, readers: Callable[[Path], Reader], replayer: Replayer
) -> None:
    """Workload, keys and values of a run that takes too long here are understood."""
    reader = readers(EVERY[0])
    words = shlex.split(command, comments=True)
    variables: dict[str, Any] = reader.variables
    replayer(*words[1:], "--dry-run", folder=reader.folder, **variables)
