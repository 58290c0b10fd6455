"""What a command loads before it does its work, which every test of the command line pays for."""

import contextlib
import functools
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import pytest

from replayer import registry
from replayer.results import store
from tests.captured import Capture
from tests.ready_made import copy, ready_data
from tests.slow_case import slow

FIXTURE = Path(__file__).parents[1] / "fixtures" / "runs" / f"format-{store.FORMAT}.json"
PROGRAM = """
import json, sys
called = []
def note(event, details):
    if event == "subprocess.Popen":
        called.append(list(map(str, details[1])))
sys.addaudithook(note)
from replayer.__main__ import main
try:
    main(sys.argv[2:])
except SystemExit:
    pass
with open(sys.argv[1], "w") as file:
    json.dump({"modules": sorted(sys.modules), "called": called}, file)
"""
LISTING = {"pydantic", "rich"}
REPORTING = LISTING | {"hdrhistogram"}
MEASURING = REPORTING | {"numpy"}
USED = {
    "--version": set(),
    "--help": set(),
    "help": set(),
    "list": LISTING,
    "list workloads -v": LISTING,
    "list engines": LISTING,
    "list engines -v": LISTING,
    "list steps": LISTING,
    "list probes": LISTING,
    "list collectors": LISTING,
    "list runs -v": LISTING,
    "runs list": LISTING,
    "runs show latest": REPORTING,
    "show latest": REPORTING,
    "compare stock uek": MEASURING,
    "check": MEASURING,
    "clean --help": MEASURING,
    "plan --help": MEASURING,
    "capture --help": MEASURING,
    "watch --help": MEASURING,
    "run --help": MEASURING | {"zstandard"},
    "run demo --dry-run": MEASURING | {"zstandard"},
    "size --help": MEASURING | {"zstandard", "msgpack"},
    "metrics latest": MEASURING | {"prometheus-client"},
}
"""Command -> the libraries that it uses, and no other may be loaded."""
FIRST = (
    *("--help", "list engines", "list steps", "runs list", "show latest", "compare stock uek"),
    *("check", "plan --help", "run demo --dry-run", "size --help"),
)
"""Those of the quick tests: one of each kind."""
REPLAYING = MEASURING | {"zstandard", "msgpack", "sqlalchemy", "psycopg"}
"""Of a replay, in replayer's own process; one that only reads parses SQL besides."""


class Start(NamedTuple):
    """What a command loaded, and the programs that it called, with their arguments."""

    modules: list[str]
    called: list[list[str]]


Started = Callable[[str], Start]
"""`started`: runs a command by itself."""
Loaded = Callable[[str], list[str]]
"""`loaded`: runs a command and returns the modules it has loaded."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a results folder with a run of each of two labels."""
    folder = tmp_path_factory.mktemp("results")
    stored = json.loads(FIXTURE.read_text())
    del stored["sizing"]
    for number, label in enumerate(("stock", "uek")):
        started = f"2026-11-20T15:45:0{number}+00:00"
        stored |= {"id": f"20261120-15450{number}-demo-{label}-3f2a", "label": label}
        stored |= {"started": started}
        (folder / f"{stored['id']}.json").write_text(json.dumps(stored, indent=1))
    return folder


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory, results: Path) -> Started:
    """Return a function that runs a command by itself and returns what that took."""
    folder = tmp_path_factory.mktemp("start")

    @functools.cache
    def call(words: str) -> Start:
        notes = folder / "modules.json"
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, notes, *words.split()],
            cwd=folder,
            env={**os.environ, "REPLAYER_RESULTS": str(results)},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout
        return Start(**json.loads(notes.read_text()))

    return call


@pytest.fixture(scope="module")
def loaded(started: Started) -> Loaded:
    """Return a function that runs a command by itself and returns the modules it has loaded."""
    return lambda words: started(words).modules


@functools.cache
def required() -> Mapping[str, str]:
    """Return module -> the library that it belongs to, of those that pyproject.toml names."""
    found: dict[str, str] = {}
    for requirement in metadata.requires("replayer") or ():
        library = re.split(r"[^\w-]", requirement)[0].lower()
        # Of the others the lists of files need not be read, which takes seconds.
        with contextlib.suppress(metadata.PackageNotFoundError):
            files = metadata.distribution(library).read_text("RECORD") or ""
            found |= dict.fromkeys(re.findall(r"^\w+", files, re.MULTILINE), library)
    return found


def libraries(modules: Iterable[str]) -> set[str]:
    """Return the libraries, as pyproject.toml names them, that these modules belong to."""
    return {required()[top] for name in modules if (top := name.partition(".")[0]) in required()}


def test_the_libraries_are_known() -> None:
    """Whatever replayer asks for is found by the names under which it is imported."""
    modules = ("scipy.special", "sqlglot", "sqlalchemy", "psycopg", "pymysql", "distributed.core")

    assert len(libraries(modules)) == len(modules)
    assert libraries(("hdrh.codec", "pyhdrh", "json")) == {"hdrhistogram"}


@pytest.mark.parametrize("words", [each if each in FIRST else slow(each) for each in USED])
def test_only_libraries_that_are_used_are_loaded(loaded: Loaded, words: str) -> None:
    """However busy the machine is, a start takes no time for what its command does not use."""
    modules = loaded(words)

    assert "replayer.cli.command_parser" in modules
    assert libraries(modules) <= USED[words]


@pytest.mark.slow
def test_a_replay_loads_and_starts_only_what_it_uses(
    started: Started, tmp_path: Path, server_home: Path
) -> None:
    """From its start to its end, with a server of its own: no parser of SQL, no other engine.

    It starts the server, with a look at its version and at its user's rights, and the control.
    """
    capture = Capture()
    for session in range(4):
        capture.session(session)
        for number in range(6):
            capture.runs(session, 0.01 * number, f"SELECT {number} + {session}")
    path = capture.write(tmp_path / "few.replay")
    data = copy(ready_data("postgres"), server_home / "few")

    modules, called = started(f"run {path} --without all --data-dir {data}")

    programs = Counter(Path(words[0]).name for words in called if "-S" not in words)
    assert libraries(modules) <= REPLAYING
    assert "replayer.steps.replay.step" in modules
    assert programs <= Counter({"postgres": 1, "pg_ctl": 1, "test": 3})
    assert programs["pg_ctl"] == 1


@pytest.mark.parametrize("words", [words for words in USED if words.startswith("list")])
def test_a_list_imports_no_plugin(loaded: Loaded, words: str) -> None:
    """What a plug-in is, is read from its file, also where an engine's verbs are checked.

    An engine names its wire by its scheme, for which the wires are asked, and its guest must be
    whole; none loads its driver or library.
    """
    asked = {"commands", "engines.wires", "engines.guests"}
    kinds = [kind for kind in registry.KINDS if kind not in asked]

    assert not [
        name for name in loaded(words) for kind in kinds if name.startswith(f"replayer.{kind}.")
    ]
