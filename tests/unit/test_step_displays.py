"""What the steps' own displays print of a result, in a few words."""

from typing import Any

import pytest

from replayer.model import StepResult
from replayer.report.documents import step_layout
from replayer.run.display import Brief
from replayer.steps.buffers import display as of_buffers

UNITS = {
    "build": ("build.rows_per_second", "rows/s", {"build.rows": 3.0}),
    "ranges": ("ranges.completed", "ranges/s", {}),
    "replay": ("replay.statements", "statements/s", {}),
    "sessions": ("sessions.riops", "blocks/s", {}),
    "sessions of a load": ("sessions.completed", "statements/s", {"sessions.offered": 1.0}),
}
"""Kind of step -> the metric with its rate, the rate's unit, and what else it measured."""


def result_of(step: str, values: dict[str, float], **changed: Any) -> StepResult:
    """Return a result of a step that measured these values; its contents can be set."""
    plain = {
        "step": step,
        "name": step,
        "repeat": 1,
        "status": "done",
        "started": "2026-11-20T10:00:00+00:00",
        "elapsed": 1.0,
        "spec": {},
        "measurements": tuple(
            {"metric": metric, "value": value, "unit": "1/s", "better": "more"}
            for metric, value in values.items()
        ),
    }
    return StepResult.model_validate({**plain, **changed})


def brief_at(kind: str, rate: float) -> Brief:
    """Return a step in one line that came to this rate."""
    metric, _, others = UNITS[kind]
    facts = {"sessions.sustained": True} if kind == "sessions of a load" else {}
    result = result_of(kind.partition(" ")[0], {metric: rate, **others}, facts=facts)
    return step_layout.of(result).brief


@pytest.mark.parametrize("kind", UNITS)
@pytest.mark.parametrize(
    ("rate", "digits"),
    [(0.037, "0.0370"), (0.5, "0.500"), (9.54, "9.54"), (391_685.4, "391,685")],
)
def test_a_rate_of_a_step_in_one_line_has_three_digits(kind: str, rate: float, digits: str) -> None:
    """A load of one statement in two seconds is not 0 statements/s: the answer has its rate."""
    brief = brief_at(kind, rate)
    shown = f"{digits} {UNITS[kind][1]}"

    assert shown in brief.results[0]
    assert shown in brief.clause


def test_buffers_that_missed_one_block_of_many_did_not_find_all() -> None:
    """One block of 100,000 was read from the disk: 100 % would deny that."""
    row = {
        "buffers_bytes": 1 << 30,
        "hit_share": 0.99999,
        "full": True,
        "doubt": "",
        "completed_per_second": 9.0,
        "device_reads_per_second": None,
        "seconds": 6.0,
    }

    (shown,) = of_buffers.form(result_of("buffers", {}, tables={"buffers": (row,)})).brief.results
    assert shown == "99.999 % in 1.00 GiB"
