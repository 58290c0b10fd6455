"""report.documents.side_by_side: one page of several engines, the answer first."""

from collections.abc import Sequence
from itertools import permutations

import pytest

from replayer.model import Cold, Measurement, Run, Status, StepResult
from replayer.report.documents import side_by_side
from tests.known import known


def on(run: Run, title: str, seconds: float, *, got: str = "cold", own: int = 1 << 20) -> Run:
    """Return the run as that of an engine whose cold scan took so long."""
    scanned = next(step for step in run.steps if step.step == "scan")
    cold = Cold.model_validate(
        {"asked": "cold", "got": got, "method": "", "proof": "", "own_bytes": own}
    )
    elapsed = {"metric": "scan.elapsed", "value": seconds, "unit": "s", "better": "less"}
    measured = (Measurement.model_validate(elapsed),)
    changes = {"cold": cold, "measurements": measured, "status": Status.DONE}
    engine = known(run.engine).model_copy(update={"name": title, "version": "1"})
    return with_step(run.model_copy(update={"engine": engine}), scanned.name, **changes)


def with_step(run: Run, name: str, **changes: object) -> Run:
    """Return the run with a step changed."""
    steps = [one.model_copy(update=changes) if one.name == name else one for one in run.steps]
    return run.model_copy(update={"steps": tuple(steps)})


def step_of(run: Run, name: str) -> StepResult:
    """Return a step of a run."""
    return next(step for step in run.steps if step.name == name)


def test_the_answer_has_the_proven_scans_first(stored: Run) -> None:
    """In the order of their times; one that no device proves is named last, as such."""
    runs = [
        on(stored, "Slow", 9.0),
        on(stored, "Warm", 1.0, got="lukewarm"),
        on(stored, "Fast", 3.0),
    ]

    answer = side_by_side.line_up(runs).headline

    assert answer.index("Fast") < answer.index("Slow") < answer.index("not proven cold")
    assert answer.index("not proven cold") < answer.index("Warm")


def test_a_walk_says_how_it_was_dealt(stored: Run) -> None:
    """One large file in ranges, many files whole: which it was is decisive for a walk's numbers."""
    walk = step_of(stored, "walk")
    runs = [
        with_step(on(stored, name, 1.0), "walk", facts={**walk.facts, "dealt": dealt})
        for name, dealt in (("One", "50 ranges"), ("Many", "whole files"))
    ]

    rows = {row[0]: row[1:] for row in side_by_side.line_up(runs).rows}

    assert rows["walk, dealt"] == ("50 ranges", "whole files")


@pytest.mark.parametrize("reason", ["One: it has no sort key", "it has no sort key"])
def test_a_skipped_step_names_its_engine_once(stored: Run, reason: str) -> None:
    """A reason that is the engine's own begins with its title already."""
    run = with_step(on(stored, "One", 1.0), "walk", status=Status.SKIPPED, reason=reason)

    notes = side_by_side.line_up([run, on(stored, "Two", 2.0)]).notes

    assert notes[0] == "One: walk: skipped: it has no sort key"


def repeated(run: Run, title: str, times: Sequence[float | None], **scan: str | int) -> Run:
    """Return the run as that of an engine with a scan of each time; None is one that failed."""
    plain = run.model_copy(update={"steps": (step_of(run, "scan"),), "advice": (), "sizing": None})
    one = on(plain, title, 1.0)
    scans = [
        step_of(on(plain, title, seconds, **scan), "scan")  # type: ignore[arg-type]
        if seconds is not None
        else step_of(plain, "scan").model_copy(update={"status": Status.FAILED, "reason": "lost"})
        for seconds in times
    ]
    steps = tuple(each.model_copy(update={"repeat": n}) for n, each in enumerate(scans, 1))
    return one.model_copy(update={"steps": steps})


@pytest.mark.parametrize("order", sorted(set(permutations([10.0, 1.0, 1.0]))))
def test_the_repeats_of_an_engine_are_one_median(stored: Run, order: Sequence[float]) -> None:
    """The headline and the table have it once for each engine, whichever repeat was the first."""
    runs = [repeated(stored, "Fast", order), repeated(stored, "Slow", [3.0] * 3)]
    found = side_by_side.line_up(runs)
    rows = {row[0]: row[1:] for row in found.rows}

    assert "Fast in 1.00 s, Slow in 3.00 s, each proven cold" in found.headline
    assert found.headline.endswith("; medians of 3.")
    assert rows["scan, time"] == ("1.00 s", "3.00 s")
    assert rows["scan, repeats"] == ("medians of 3", "medians of 3")


@pytest.mark.parametrize("order", sorted(permutations([None, 2.0, 4.0]), key=str))
def test_repeats_that_failed_are_named_next_to_the_median(
    stored: Run, order: Sequence[float | None]
) -> None:
    """The table had `failed` if the first repeat did, and the headline a time."""
    found = side_by_side.line_up([repeated(stored, "Some", order), repeated(stored, "All", [9.0])])
    rows = {row[0]: row[1:] for row in found.rows}

    assert rows["scan, time"] == ("3.00 s", "9.00 s")
    assert rows["scan, repeats"] == ("medians of 2, 1 failed", "")
    assert "Some in 3.00 s, All in 9.00 s" in found.headline
    assert found.headline.endswith("; medians of 1 to 2.")


def test_a_scan_of_which_one_repeat_is_not_proven_is_not_proven(stored: Run) -> None:
    """How many are not is named, in the headline and in the table."""
    cold, warm = (
        repeated(stored, "Some", [1.0, 1.0], got=got).steps for got in ("cold", "lukewarm")
    )
    some = repeated(stored, "Some", [1.0]).model_copy(update={"steps": (*cold, warm[0])})
    found = side_by_side.line_up([some, repeated(stored, "All", [9.0] * 3)])
    rows = {row[0]: row[1:] for row in found.rows}

    assert "All in 9.00 s, each proven cold" in found.headline
    assert "; not proven cold: Some in 1.00 s (1 of 3); medians of 3." in found.headline
    proof = "cold in 2 of 3, NOT COLD: lukewarm in 1 of 3, 1.00 MiB of disk"
    assert rows["scan, proof"][0] == proof
