"""`run --resume`: what is missing of a run that was cut is done, into the same file."""

import contextlib
import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from replayer import journal
from replayer.errors import ReplayerError
from replayer.model import Run, Status
from replayer.results import store
from tests.command import Replayer
from tests.known import known

pytestmark = pytest.mark.slow

PROBE = """
repeat = 3
[[step]]
step = "probe"
name = "first"
probe = "cpu"
duration = "200ms"
once = true
[[step]]
step = "probe"
name = "cpu"
probe = "cpu"
duration = "200ms"
"""
SLEEPY = PROBE.replace("200ms", "3s").replace("3s", "200ms", 1)
BUILT = """
repeat = 2
[[step]]
step = "build"
once = true
rows = 3072
[[step]]
step = "walk"
[[step]]
step = "probe"
probe = "cpu"
duration = "1s"
"""


def stored(tmp_path: Path) -> Path | None:
    """Return the only result's file, None if there is none yet."""
    return next(iter((tmp_path / "results").glob("2*.json")), None)


def cut(
    replayer: Replayer, text: str, steps: int, number: int = signal.SIGKILL, *words: object
) -> tuple[Path, Run]:
    """Start a run and kill it once so many steps are stored; return its file and that run."""
    (replayer.folder / "w.toml").write_text(text)
    started = replayer.start("run", "w.toml", "--label", "stock", *words)
    path, found = None, 0
    while path is None or found < steps:
        assert started.poll() is None, started.communicate()
        time.sleep(0.02)
        path = stored(replayer.folder)
        # It is reserved before anything is in it.
        with contextlib.suppress(ReplayerError):
            found = 0 if path is None else len(store.load(path).steps)
    started.send_signal(number)
    started.communicate()
    return path, store.load(path)


def turns(run: Run) -> list[tuple[int, str]]:
    """Return the repeat and the name of each step of a run, in order."""
    return [(step.repeat, step.name) for step in run.steps]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_what_is_missing_is_done_into_the_same_file(
    replayer: Replayer, tmp_path: Path, number: signal.Signals
) -> None:
    """Steps that were whole stay as they are, the one that was cut is done anew, and no other."""
    path, before = cut(replayer, SLEEPY, 2, number)
    whole = [step for step in before.steps if step.status is Status.DONE]
    replayer("run", "--resume", "latest")
    after = store.load(path)

    assert stored(tmp_path) == path
    assert len(list((tmp_path / "results").iterdir())) == 1
    assert turns(after) == [(1, "first"), (1, "cpu"), (2, "cpu"), (3, "cpu")]
    assert list(after.steps[: len(whole)]) == whole
    assert {step.status for step in after.steps} == {Status.DONE}
    assert (after.status, after.error, after.id, after.label) == (
        Status.DONE,
        "",
        before.id,
        "stock",
    )
    assert len(after.resumed) == 1
    assert after.writer == ""
    assert [m.metric for m in after.leading] == ["cpu.events", "cpu.events"] or after.leading


def test_a_database_of_replayers_own_goes_on_where_it_was(
    replayer: Replayer, tmp_path: Path, own_home: Path
) -> None:
    """The table that was built once is there: it is not built again, and the walks go on."""
    path, before = cut(replayer, BUILT, 2)
    replayer("run", "--resume", path)
    after = store.load(path)

    assert turns(after) == [(1, "build"), (1, "walk"), (1, "probe"), (2, "walk"), (2, "probe")]
    assert after.steps[:2] == before.steps[:2]
    assert after.status is Status.DONE
    assert "none of its steps is missing" in replayer("run", "--resume", path, status=2).err


def test_a_run_goes_on_with_its_engine_in_its_folder(
    replayer: Replayer, server_home: Path, mariadbd: Path
) -> None:
    """The command that is printed after a cut names neither; another engine is refused at once."""
    data = server_home / "cut-data"
    words = ("--engine", "mariadb", "--data-dir", data)
    path, before = cut(replayer, BUILT, 2, signal.SIGKILL, *words)
    refused = replayer("run", "--resume", path, "--engine", "postgres", status=2).err
    replayer("run", "--resume", path)
    after = store.load(path)

    assert "its database was mariadb and not postgres: leave out --engine" in refused
    assert turns(after) == [(1, "build"), (1, "walk"), (1, "probe"), (2, "walk"), (2, "probe")]
    assert after.steps[:2] == before.steps[:2]
    assert known(after.engine).facts["data.directory"] == str(data / "data")


def another_boot(run: Run) -> Run:
    """Return the run as one of the boot before."""
    return run.model_copy(update={"host": {**run.host, "boot.id": "another"}})


def another_host(run: Run) -> Run:
    """Return the run as one of another machine."""
    return run.model_copy(update={"host": {**run.host, "host.name": "db7"}})


def another_disk(run: Run) -> Run:
    """Return the run as an older replayer's of another disk: it stored no folder."""
    facts = {key: value for key, value in run.host.items() if key != "data.directory"}
    return run.model_copy(update={"host": {**facts, "device.name": "nvme77n1"}})


def another_version(run: Run) -> Run:
    """Return the run as one of an older replayer."""
    return run.model_copy(update={"version": "0.0.1"})


def of_several_hosts(run: Run) -> Run:
    """Return the run as one whose sessions were on other hosts."""
    return run.model_copy(update={"cluster": {"hosts": ("a", "b")}})


def being_written(run: Run) -> Run:
    """Return the run as one that this process writes."""
    return run.model_copy(update={"writer": journal.identity(os.getpid())})


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of a run of three repeats."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "w.toml").write_text(PROBE)
    Replayer(folder, {"REPLAYER_RESULTS": None})("run", "w.toml")
    path = stored(folder)
    assert path is not None
    return path


@pytest.fixture
def interrupted(tmp_path: Path, whole: Path) -> Path:
    """Return the file of a run of three repeats that has two."""
    shutil.copytree(whole.parents[1], tmp_path, dirs_exist_ok=True)
    path = tmp_path / "results" / whole.name
    run = store.load(path)
    store.save(path, run.model_copy(update={"steps": run.steps[:3], "status": Status.INTERRUPTED}))
    return path


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (another_boot, "boot.id"),
        (another_host, "db7"),
        (another_disk, "device.name was nvme77n1"),
        (another_version, "0.0.1"),
        (of_several_hosts, "several hosts"),
        (being_written, f"process {os.getpid()}"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_under_other_circumstances_it_is_refused(
    replayer: Replayer, interrupted: Path, changed: Callable[[Run], Run], reason: str
) -> None:
    """One sentence with what is not the same, and the file stays as it was."""
    store.save(interrupted, changed(store.load(interrupted)))
    before = interrupted.read_bytes()
    _, err = replayer("run", "--resume", interrupted, status=2)

    assert err.count("replayer: error: ") == 1
    assert reason in err
    assert interrupted.read_bytes() == before


def test_what_was_asked_for_is_not_asked_again(replayer: Replayer, interrupted: Path) -> None:
    """Options that would change the work are refused, each by its name."""
    _, err = replayer("run", "smoke", "--resume", interrupted, "--set", "a.b=1", status=2)

    assert "--set" in err
    assert "smoke" in err


def test_probes_go_on_in_the_folder_that_they_had(
    replayer: Replayer, interrupted: Path, tmp_path: Path
) -> None:
    """It need not be given again, and another folder is refused: it may be another disk."""
    ours, other = tmp_path / "ours", tmp_path / "other"
    ours.mkdir()
    other.mkdir()
    run = store.load(interrupted)
    there = run.model_copy(update={"host": {**run.host, "data.directory": str(ours)}})
    store.save(interrupted, there)
    _, err = replayer("run", "--resume", interrupted, "--data-dir", other, status=2)
    replayer("run", "--resume", interrupted)

    assert f"the data folder is another one (data.directory was {ours} and is {other})" in err
    assert store.load(interrupted).host == there.host
    assert store.load(interrupted).status is Status.DONE


def test_a_run_that_was_cut_before_it_was_ready_gets_the_facts_of_its_machine(
    replayer: Replayer, interrupted: Path
) -> None:
    """Nothing was measured before, so there is no other machine to be."""
    run = store.load(interrupted)
    empty = run.model_copy(update={"steps": (), "host": {}, "control": {}})
    store.save(interrupted, empty)
    replayer("run", "--resume", interrupted)

    assert store.load(interrupted).host["boot.id"] == run.host["boot.id"]


def test_two_who_take_up_one_run_do_not_both_write_it(
    replayer: Replayer, interrupted: Path
) -> None:
    """One of them goes on, and the other is refused or finds nothing missing any more."""
    both = [replayer.start("run", "--resume", interrupted) for _ in range(2)]
    ends = [(one.communicate()[1], one.returncode) for one in both]
    after = store.load(interrupted)

    assert sorted(status for _, status in ends) == [0, 2], ends
    assert len(turns(after)) == len(set(turns(after))) == 4
    assert len(after.resumed) == 1


def test_another_servers_settings_are_refused(
    replayer: Replayer, tmp_path: Path, own_home: Path
) -> None:
    """A run whose server is set otherwise now would hold figures of two servers."""
    path, _ = cut(replayer, BUILT, 2)
    changed = json.loads(path.read_text())
    changed["engine"]["settings"]["shared_buffers"] = "77MB"
    path.write_text(json.dumps(changed))
    before = path.read_bytes()
    _, err = replayer("run", "--resume", path, status=2)

    assert "engine.settings.shared_buffers was 77MB" in err
    assert path.read_bytes() == before
