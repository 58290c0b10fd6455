"""The headline of a run: which of its steps are in it."""

from collections.abc import Sequence
from typing import Any

import pytest

from replayer.model import Better, Measurement, Run, StepResult
from replayer.report.documents.summary import summarise
from tests.made import altered

METRICS = {
    "flush": ("flush.elapsed", 0.12, "s", Better.LESS),
    "ramp": ("ramp.throughput", 1234.0, "1/s", Better.MORE),
    "capacity": ("capacity.multiple", 1.5, "times", Better.MORE),
    "scan": ("scan.elapsed", 2.0, "s", Better.LESS),
    "own": ("own.rate", 20.0, "1/s", Better.MORE),
}
"""Kind of step -> its metric: name, value, unit, and which value is better."""
RESULTS = {
    "build": "Built 1,000,000 rows at 5,000 rows/s",
    "ramp": "ramp: throughput 1,234/s",
    "capacity": "capacity: multiple 1.50 times",
    "scan": "The database scanned the table in 2.00 s",
    "own": "own: rate 20/s",
    "flush": "flush: elapsed 120 ms",
}
"""Kind of step -> the words of a headline on it."""


def done(run: Run, kind: str, *, once: bool = False) -> StepResult:
    """Return a finished step of a kind."""
    if kind == "build":
        values = (("build.rows", 1e6, "rows"), ("build.rows_per_second", 5e3, "rows/s"))
        measured = [(*value, Better.MORE) for value in values]
    else:
        measured = [METRICS[kind]]
    measurements = tuple(
        Measurement(metric=metric, value=value, unit=unit, better=better)
        for metric, value, unit, better in measured
    )
    plain: dict[str, Any] = {
        **dict.fromkeys(("account", "cold", "ledger")),
        "facts": {},
        "tables": {},
    }
    changes = {"step": kind, "name": kind, "measurements": measurements, "spec": {"once": once}}
    return altered(run.steps[0], **plain, **changes)


@pytest.mark.parametrize(
    ("once", "own", "named"),
    [
        (["build"], ["flush"], ["build"]),
        (["flush"], ["build"], ["build"]),
        (["build", "flush"], ["ramp"], ["ramp"]),
        (["build"], ["flush", "ramp"], ["ramp"]),
        ([], ["scan", "capacity", "ramp", "own"], ["scan", "capacity", "ramp", "own"]),
        ([], ["capacity", "build"], ["capacity", "build"]),
        ([], ["build", "flush"], ["build"]),
        ([], ["flush"], ["flush"]),
        (["flush"], [], ["flush"]),
    ],
)
def test_a_headline_has_every_result_before_what_prepares_and_times_of_preparation(
    stored: Run, once: Sequence[str], own: Sequence[str], named: Sequence[str]
) -> None:
    """A step without words of its own has its figures, if it is run for one of them."""
    steps = [done(stored, kind, once=True) for kind in once] + [done(stored, kind) for kind in own]
    found = summarise([altered(stored, steps=tuple(steps), sizing=None)])

    assert found.headline.what == ". ".join(RESULTS[kind] for kind in named)
