"""What counts as done in a trial of a search for the highest rate, and what is noted of it."""

from types import SimpleNamespace
from typing import Any

import pytest

from replayer.analysis.capacity import capacity_search
from replayer.analysis.capacity.capacity_search import SearchLimits, SearchTrial
from replayer.run.step_recorder import StepRecorder
from replayer.steps.capacity import outcome
from replayer.steps.capacity.outcome import CapacityTrial
from replayer.steps.capacity.step import outcome_of
from replayer.watch.histogram import Latencies


def level_of(completed: float, failures: int) -> Any:
    """Return a level of 20 s at 100 statements a second, none of which waited at its end."""
    return SimpleNamespace(
        offered=100.0, completed=completed, failures=failures, seconds=20.0, sustained=True,
        reason="", response_by_kind={"update": Latencies()}, response=Latencies(), others=None,
        activity=SimpleNamespace(stepped=0.0),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("completed", "failures", "ended", "reason"),
    [
        (
            0.0,
            2000,
            SearchTrial.FAILED,
            "0 of 2,000 statements were done within 20.0 s, and 2,000 ",
        ),
        (80.0, 400, SearchTrial.FAILED, "1,600 of 2,000 statements were done"),
        (95.0, 100, SearchTrial.HELD, ""),
    ],
)
def test_a_refused_statement_is_not_done(
    completed: float, failures: int, ended: SearchTrial, reason: str
) -> None:
    """A deadlock, or a lock that came too late, is in no percentile and is no work either."""
    found, why = outcome_of("p99=20ms", level_of(completed, failures))

    assert found is ended
    assert why.startswith(reason)


def test_refused_statements_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of all trials of the search, and those of the hold."""
    monkeypatch.setattr(outcome, "_columns", lambda _: {})
    spec: Any = SimpleNamespace(rate=100.0, slo="p99=20ms")
    point: Any = None
    trials = [
        CapacityTrial(1.0, level_of(95.0, refused), point, SearchTrial.HELD, "")
        for refused in (100, 20)
    ]
    found = capacity_search.so_far([(1.0, SearchTrial.HELD)] * 2, SearchLimits())
    findings = StepRecorder()
    outcome.record(spec, findings, found, trials, cut_short=True)
    held = level_of(95.0, 100)
    held.sustained = False
    outcome.record_hold(findings, CapacityTrial(1.0, held, point, SearchTrial.HELD, ""))

    refused = [note for note in findings.notes if "refused" in note]
    assert [note.split(" statements")[0] for note in refused] == ["120", "100"]
