"""`replayer ab` as a user runs it: a planted difference, and a machine that is as it was before."""

import json
import signal
from pathlib import Path

import pytest

from replayer import factors
from replayer.machine import processes
from tests.command import Replayer
from tests.waiting import wait_until

READS = """
description = "reads at a rate"
[[step]]
step = "probe"
name = "reads"
probe = "io"
size = "4M"
direct = false
warm_up = "0s"
duration = "300ms"
rate = 100
"""


@pytest.fixture
def reads(replayer: Replayer) -> str:
    """Return the path of a workload whose result follows from a key: reads at a fixed rate."""
    (replayer.folder / "reads.toml").write_text(READS)
    return "./reads.toml"


def _runs(trial: int) -> bool:
    """Return whether a run of a trial is under way."""
    family = "".join(map(processes.arguments, processes.family(trial)))
    return "\0run\0./reads.toml\0" in family


@pytest.mark.slow
def test_a_planted_difference_is_settled(replayer: Replayer, reads: str) -> None:
    """It ends by itself, with the factor named, the size, the page, and status 3 for worse."""
    ended = replayer(
        *("ab", reads, "--a", "reads.rate=200", "--html", "ab.html", "--fail-if-worse"), status=3
    )

    assert "settled after" in ended.err
    answer = " ".join(ended.out.split())
    assert " is slower than reads.rate=200 in these runs: " in answer
    assert "IOPS 0.50" in answer.rpartition(" in these runs: ")[2]
    assert "is worse than reads.rate=200 in these runs, within one boot: reads: io.iops" in (
        ended.err
    )
    assert "<html" in (replayer.folder / "ab.html").read_text()


@pytest.mark.slow
def test_two_runs_of_each_are_compared(replayer: Replayer, reads: str) -> None:
    """With --runs it ends there; the runs are stored under their labels, and can be resumed."""
    words = ("ab", reads, "--b", "reads.rate=200", "--runs", "2", "--json")
    compared = json.loads(replayer(*words, "--seed", "1").out)
    again = replayer(*words, "--resume")

    assert compared["base"]["name"] == "as it is"
    assert [len(compared[side]["runs"]) for side in ("base", "other")] == [2, 2]
    assert "4 runs of this trial were found" in again.err
    (page,) = (replayer.folder / "results").glob("ab-*.html")
    assert f"written: {page.relative_to(replayer.folder)}" in again.err
    assert json.loads(again.out)["rows"] == compared["rows"]


def test_a_dry_run_prints_the_commands_and_does_nothing(replayer: Replayer, reads: str) -> None:
    """Both commands are there, as they will be run; no result is written."""
    ended = replayer("ab", reads, "--b", "reads.rate=7", "--runs", "3", "--dry-run")

    assert "replayer run ./reads.toml --set reads.rate=7" in ended.out
    assert "3 runs of each variant: " in ended.out
    assert not (replayer.folder / "results").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "both variants are"),
        (("--a", "reads.rate=7", "--b", "reads.rate=7"), "both variants are 'reads.rate=7'"),
        (("--b", "reads.rat=1"), "unknown key 'rat' - did you mean rate?"),
        (("--b", "redas.rate=1"), "no step 'redas' - did you mean reads?"),
        (("--b", "kernel=1.2.3", "--for", "1h"), "is for a trial within one boot"),
        (("--b", "reads.rate=1", "--within", "0%"), "--within 0%: it must be a percentage above 0"),
        (("--b", "reads.rate=1", "--runs", "0"), "--runs 0: it must be a whole number"),
        (("--b", "cpu_set=999999"), "the processors 999999 cannot be chosen"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    replayer: Replayer, reads: str, words: tuple[str, ...], sentence: str
) -> None:
    """It is found before any run."""
    ended = replayer("ab", reads, *words, status=2)

    assert sentence in ended.err
    assert not (replayer.folder / "results").exists()


@pytest.mark.slow
def test_a_run_that_was_refused_was_a_wrong_request(replayer: Replayer, own_home: Path) -> None:
    """The server itself refuses a setting that does not exist: the status is that of `run`."""
    (replayer.folder / "built.toml").write_text('[[step]]\nstep = "build"\nrows = 6\n')
    words = ("--a", "pg.nosuch=1", "--b", "pg.nosuch=2", "--runs", 1)
    ended = replayer("ab", "./built.toml", *words, status=2)

    assert "refused the setting nosuch" in ended.err


@pytest.mark.alone
@pytest.mark.usefixtures("settings_of_the_machine")
@pytest.mark.root
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_machine_is_as_before_after_an_end(
    replayer: Replayer, reads: str, number: signal.Signals, tmp_path: Path
) -> None:
    """Ctrl-C gives back at once; after a kill the next command does, and no run or file stays."""
    place = factors.place_at(tmp_path, "")
    affinity = factors.load("rq_affinity")
    before = affinity.current(place)
    if affinity.unavailable(place):
        pytest.skip(affinity.unavailable(place))
    level = "2" if before != "2" else "1"
    both = f"rq_affinity={level}"
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    trial = replayer.start(
        *("ab", reads, "--a", f"{both} reads.duration=60s", "--b", f"{both} reads.duration=61s"),
        *("--data-dir", str(tmp_path)),
        TMPDIR=str(scratch),
    )
    # Both levels are tried before the first run, which takes a minute.
    wait_until(lambda: _runs(trial.pid))
    assert affinity.current(place) == level
    trial.send_signal(number)
    _, err = trial.communicate(timeout=60)

    if number == signal.SIGINT:
        assert trial.returncode == 130, err
    else:
        after = replayer("run", reads, "--set", "reads.duration=100ms")
        assert "the setting rq_affinity of the kernel was given back" in after.err
    assert affinity.current(place) == before
    assert not list(scratch.iterdir())


@pytest.mark.alone
@pytest.mark.usefixtures("settings_of_the_machine")
@pytest.mark.root
@pytest.mark.slow
def test_a_run_whose_level_another_program_changed_never_counts(
    replayer: Replayer, reads: str, tmp_path: Path
) -> None:
    """It was stored before that was seen: what is resumed leaves it out."""
    place = factors.place_at(tmp_path, "")
    affinity = factors.load("rq_affinity")
    before = affinity.current(place)
    if affinity.unavailable(place):
        pytest.skip(affinity.unavailable(place))
    level, foreign = (one for one in "012" if one != before)
    (path,) = Path("/").glob(f"{place.disk}/queue/rq_affinity".lstrip("/"))
    both = f"rq_affinity={level}"
    words = ("ab", reads, "--a", f"{both} reads.rate=200", "--b", f"{both} reads.rate=100")
    more = ("--runs", "1", "--data-dir", str(tmp_path), "--set", "reads.duration=1s")
    trial = replayer.start(*words, *more)
    try:
        wait_until(lambda: _runs(trial.pid))
        path.write_text(foreign)
        _, err = trial.communicate(timeout=60)
    finally:
        path.write_text(before or "")
    stored = list((replayer.folder / "results").glob("*.json"))

    assert "another program meanwhile" in err
    assert len(stored) == 1
    again = replayer(*words, *more, "--resume")
    assert "0 runs of this trial were found" in again.err
