"""Candidates of a search: those that cannot share a data folder, and builds of commits."""

import math
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from replayer import shell
from replayer.errors import Impossible, ReplayerError
from replayer.experiments import candidate_search, neighbours
from replayer.experiments.candidate_search import (
    CandidateSearch,
    CommitBuild,
    SearchCandidate,
    SearchState,
)
from replayer.experiments.search_answer import SearchAnswer
from replayer.experiments.variant import RunOptions, Variant
from replayer.factors import FactorPlace
from replayer.model import Better, Run, Temperature
from replayer.report.documents import search as report
from replayer.results import store
from replayer.results.measured_runs import MeasuredValue
from tests.fixture_types import RunOf
from tests.made import altered, reached
from tests.waiting import wait_until


def test_other_server_programs_have_their_own_data_folders() -> None:
    """Those of the same server share the one that was given."""
    programs = [
        SearchCandidate(one, Variant(one, ("--pg-bindir", one))) for one in ("/old", "/new")
    ]
    settings = [SearchCandidate(one, Variant(one, ("--set", one))) for one in ("a.b=1", "a.b=2")]

    alone = candidate_search.with_own_data(programs, Path("/data"))
    assert [one.variant.arguments[-2:] for one in alone] == [
        ("--data-dir", "/data/variant-1"),
        ("--data-dir", "/data/variant-2"),
    ]
    assert candidate_search.with_own_data(settings, Path("/data")) == settings


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """Return a repository with two commits."""
    path = tmp_path / "toy"
    git = ["git", "-C", str(path), "-c", "user.name=n", "-c", "user.email=n@example.org"]
    shell.run(["git", "init", "-q", path])
    for number in range(2):
        (path / "number").write_text(str(number))
        shell.run([*git, "add", "number"])
        shell.run([*git, "commit", "-qm", f"commit {number}"])
    return path


def test_another_command_makes_another_build(toy: Path) -> None:
    """A build of an earlier command is never measured as that of this one."""
    folder = toy.parent / "builds"
    (commit, _) = candidate_search.commits(toy, "HEAD~1..HEAD")
    builds = [CommitBuild(toy, f"echo {word} > made", folder) for word in ("first", "second")]
    for build in (*builds, builds[0]):
        build.perform(commit)

    made = [(build.place(commit) / "made").read_text() for build in builds]
    assert made == ["first\n", "second\n"]


def test_a_clone_that_a_kill_left_half_made_never_reaches_the_repository_around_it(
    toy: Path,
) -> None:
    """Git would take the repository that the folder of results lies in, which is only read."""
    (commit, newest) = candidate_search.commits(toy, "HEAD~1..HEAD")
    build = CommitBuild(toy, "true", toy / "results" / "builds")
    place = build.place(commit)
    (place.parent / f"{place.name}.new").mkdir(parents=True)
    build.perform(commit)
    assert (place / "number").read_text() == "0"
    for one in (place / ".git", place / ".replayer-built"):
        shutil.rmtree(one) if one.is_dir() else one.unlink()

    with pytest.raises(ReplayerError, match="not a git repository"):
        build.perform(commit)
    assert shell.run(["git", "-C", toy, "rev-parse", "HEAD"]).strip() == newest
    assert shell.run(["git", "-C", toy, "symbolic-ref", "HEAD"]).startswith("refs/heads/")


@pytest.mark.root
def test_a_build_that_another_user_placed_is_not_used(toy: Path) -> None:
    """Its programs would run with the rights of the search."""
    (commit, _) = candidate_search.commits(toy, "HEAD~1..HEAD")
    build = CommitBuild(toy, "true", toy.parent / "builds")
    place = build.place(commit)
    place.mkdir(parents=True)
    (place / ".replayer-built").touch()
    os.chown(place, 65534, -1)

    with pytest.raises(Impossible, match=r"the clone .* is not root's alone"):
        build.perform(commit)


def test_a_build_ends_with_a_replayer_that_is_killed(toy: Path) -> None:
    """It went on for hours, with all that it had started."""
    (commit, _) = candidate_search.commits(toy, "HEAD~1..HEAD")
    command = "sleep 3600 & echo $! > ../child; echo $$ > ../shell; sleep 3600"
    code = f"""
from pathlib import Path
from replayer.experiments.candidate_search import CommitBuild
builds = Path({str(toy.parent / "builds")!r})
CommitBuild(Path({str(toy)!r}), {command!r}, builds).perform({commit!r})
"""
    files = [toy.parent / "builds" / name for name in ("child", "shell")]
    with subprocess.Popen([sys.executable, "-c", code]) as build:
        wait_until(lambda: all(file.exists() and file.read_text().strip() for file in files))
        pids = [int(file.read_text()) for file in files]
        build.kill()
    wait_until(lambda: not any(_runs(pid) for pid in pids))


def _runs(pid: int) -> bool:
    """Return whether a process is there and not yet only waits to be collected."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_runs_that_others_disturbed_are_counted_after_a_resume(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stored: Run
) -> None:
    """Of a search among kernels each run is another process's."""
    variants = [SearchCandidate(name, Variant(name)) for name in ("a", "b")]
    search = CandidateSearch("s", "smoke", tuple(variants), FactorPlace(), RunOptions(tmp_path))
    tags = {candidate_search.TAG: "s", candidate_search.CANDIDATE: "a"}
    store.save(tmp_path / f"{stored.id}.json", stored.model_copy(update={"tags": tags}))
    monkeypatch.setattr(neighbours, "spoilt", lambda _: "cc1 used 40%")
    state = candidate_search.begin(search)
    candidate_search.take_up(search, state)

    assert (len(state.values), state.busy) == (1, 1)


@pytest.mark.parametrize("better", [Better.LESS, Better.MORE])
@pytest.mark.parametrize("change", [-0.1, 0.0, 0.1])
def test_what_did_not_change_is_not_worse(
    monkeypatch: pytest.MonkeyPatch, better: Better, change: float
) -> None:
    """Whether more or less of the metric is better."""
    monkeypatch.setattr(SearchState, "change", change)
    state = object.__new__(SearchState)
    state.better = better

    assert state.is_worse is (change > 0 if better is Better.LESS else change < 0)


def _sentences(tmp_path: Path, ends: tuple[tuple[float, float], ...]) -> tuple[SearchAnswer, str]:
    """Return the answer after these values of the first and the last of three, and its report."""
    candidates = tuple(SearchCandidate(name, Variant(name)) for name in ("a", "b", "c"))
    search = CandidateSearch("s", "smoke", candidates, FactorPlace(), RunOptions(tmp_path))
    state = candidate_search.begin(search)
    for pair in ends:
        for number, value in zip((0, 2), pair, strict=True):
            state.add(number, MeasuredValue("cpu.events", value, "passes/s", Better.MORE))
    candidate_search.due(state)
    answer = SearchAnswer.of_state(search, state)
    return answer, repr(report.document(answer))


def test_no_place_and_no_cost_is_named_before_the_ends_are_shown_to_differ(tmp_path: Path) -> None:
    """What is not known is printed with the interval of the ends' difference."""
    answer, text = _sentences(tmp_path, ((100, 103), (104, 99), (101, 100)))

    assert "c was not shown to differ from a in cpu.events (" in text
    assert answer.ends_low is not None
    assert answer.ends_high is not None
    assert answer.ends_low < 0 < answer.ends_high
    assert (answer.left, answer.runs_left, answer.found, answer.worse) == ((), None, None, None)
    assert not any(words in text for words in ("places are left", "more runs", "Where the change"))


def test_ends_that_are_alike_are_printed_with_the_most_that_they_differ(tmp_path: Path) -> None:
    """So many equal values show it; the search is over."""
    answer, text = _sentences(tmp_path, ((100, 100.1), (100.1, 100), (100, 100), (100, 100.1)))

    assert answer.reason == "alike"
    assert "a and c do not differ in cpu.events by more than 0." in text


def test_a_change_below_the_noise_is_never_denied(tmp_path: Path) -> None:
    """The ends count as equal at a noise of 20 percent, though the last is slower by 10."""
    logs = np.random.default_rng(4).normal(0, 0.2, (100, 2))
    pairs = [(100 * math.exp(first), 90 * math.exp(last)) for first, last in logs]
    answer, text = _sentences(tmp_path, tuple(pairs))

    assert answer.reason == "alike"
    assert answer.ends_low is not None
    assert answer.ends_low < -0.1
    assert "a larger change is excluded, a smaller one may be there" in text
    assert "nothing to find" not in text


def test_ends_that_differ_have_places_and_a_cost(tmp_path: Path) -> None:
    """The places are those between them."""
    answer, text = _sentences(tmp_path, ((100, 50), (101, 50.5)))

    assert "2 of 2 places are left with 95 %: b, c" in text
    assert answer.left == ("b", "c")
    assert answer.runs_left


def test_the_change_and_the_noise_are_those_of_the_values(tmp_path: Path) -> None:
    """What is expected before any run chooses the next one, and is no part of the size."""
    candidates = tuple(SearchCandidate(name, Variant(name)) for name in ("a", "b", "c"))
    search = CandidateSearch("s", "smoke", candidates, FactorPlace(), RunOptions(tmp_path))
    state = candidate_search.begin(search)
    assert state.change == 0
    off = (-0.003, 0.003, 0.003, -0.003, 0.0, 0.0)
    while (number := candidate_search.due(state)) is not None:
        value = (500 if number else 1000) * math.exp(off[len(state.values)])
        state.add(number, MeasuredValue("cpu.events", value, "passes/s", Better.MORE))
    answer = SearchAnswer.of_state(search, state)

    assert answer.found == "b"
    assert answer.change == pytest.approx(-0.5, abs=0.003)
    assert answer.noise is not None
    assert 0.002 < answer.noise < 0.005


COLD, LUKEWARM = Temperature.COLD, Temperature.LUKEWARM


@pytest.mark.parametrize(
    ("stored", "due", "counted", "ended"),
    [
        ([LUKEWARM] * 4 + [COLD], [LUKEWARM], 5, False),
        ([COLD] * 4, [LUKEWARM, COLD], 5, False),
        ([LUKEWARM] * 4, [COLD, LUKEWARM], 5, False),
        ([COLD], [LUKEWARM, LUKEWARM], 1, True),
        ([COLD, LUKEWARM, LUKEWARM], [LUKEWARM], 3, False),
    ],
)
def test_a_search_goes_on_in_the_state_that_most_runs_reached(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    run_of: RunOf,
    *,
    stored: list[Temperature],
    due: list[Temperature],
    counted: int,
    ended: bool,
) -> None:
    """A run that alone read otherwise is left out, and measured again once."""
    candidates = tuple(SearchCandidate(name, Variant(name)) for name in "abcdef")
    search = CandidateSearch("s", "smoke", candidates, FactorPlace(), RunOptions(tmp_path))
    tags = {candidate_search.TAG: "s"}

    def keep(got: Temperature, candidate: str) -> Run:
        named = {**tags, candidate_search.CANDIDATE: candidate}
        run = reached(got)(altered(run_of([1000.0]), tags=named))
        store.save(tmp_path / f"{run.id}.json", run)
        return run

    for got, name in zip(stored, "afafa", strict=False):
        keep(got, name)
    state, said = candidate_search.begin(search), list[str]()
    candidate_search.take_up(search, state)
    temperatures = iter(due)

    def measure(_workload: str, variant: Variant, *_: object) -> Run:
        return keep(next(temperatures), variant.label)

    monkeypatch.setattr(candidate_search, "measure_applied", measure)
    stop = replace(search, most=len(state.values) + 1)
    candidate_search.perform(stop, state, said.append)

    assert (len(state.values), state.error is not None) == (counted, ended)
    assert sum("is left out, and done again" in line for line in said) == len(due) - 1
    assert next(temperatures, None) is None


def test_runs_that_did_not_read_alike_end_a_search_and_a_resume_leaves_them_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, run_of: RunOf
) -> None:
    """As in a comparison: a cold read that was hot is no candidate that is faster."""
    candidates = tuple(SearchCandidate(name, Variant(name)) for name in ("a", "b"))
    search = CandidateSearch("s", "smoke", candidates, FactorPlace(), RunOptions(tmp_path))

    def measure(_workload: str, variant: Variant, options: RunOptions, _place: object) -> Run:
        fast = variant.label == "b"
        run = altered(run_of([4000.0 if fast else 1000.0]), tags=dict(options.tags))
        run = reached(Temperature.HOT if fast else Temperature.COLD)(run)
        store.save(tmp_path / f"{run.id}.json", run)
        return run

    monkeypatch.setattr(candidate_search, "measure_applied", measure)
    state = candidate_search.begin(search)
    candidate_search.perform(search, state, lambda _: None)
    again = candidate_search.begin(search)
    candidate_search.take_up(search, again)

    assert "asked cold, got hot, in 1 of 2 runs, which do not count" in state.reason
    assert [state.values, again.values] == [[(0, 1000.0)]] * 2


def test_runs_that_all_read_alike_are_searched(tmp_path: Path, run_of: RunOf) -> None:
    """Where the cache cannot be emptied, each run is as warm as the others."""
    candidates = tuple(SearchCandidate(name, Variant(name)) for name in ("a", "b"))
    search = CandidateSearch("s", "smoke", candidates, FactorPlace(), RunOptions(tmp_path))
    state = candidate_search.begin(search)
    for number in (0, 1):
        run = reached(Temperature.LUKEWARM)(run_of([1000.0]))
        state.count(run, number, MeasuredValue("sessions.riops", 1e3, "1/s", Better.MORE))

    assert len(state.values) == 2
