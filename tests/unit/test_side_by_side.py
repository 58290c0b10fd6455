"""report.documents.side_by_side: one page of several engines, the answer first."""

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
