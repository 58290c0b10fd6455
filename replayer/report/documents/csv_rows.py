"""The rows of a CSV report: one for each measurement of runs, or metric of a comparison."""

from collections.abc import Iterator, Sequence

from replayer.analysis.attribution.explanation import AccountPart, Why
from replayer.analysis.capacity.client_hosts import last_window
from replayer.analysis.differences.comparison import Comparison
from replayer.analysis.differences.samples import Side
from replayer.model import Better, StepResult

_RUN = (
    *("group", "label", "run", "started", "kernel", "workload", "step", "repeat", "status"),
    *("metric", "value", "unit", "better"),
)
_ROW = ("step", "metric", "unit", "better", "base", "other", "ratio", "low", "high", "p")
_OF_A_HOST = {
    "per_second": "1/s",
    "share": "of all",
    "start_us": "us",
    "bound_us": "us",
    "first_done_s": "s",
    "last_done_s": "s",
    "cpu_share": "of its processors",
    "client_cores": "cores",
    "agent_cpu_s": "s",
}
"""Quantity of a client host -> its unit."""
_COMPARED = (*_ROW, "p_holm", "verdict", "more")
_SHIFTED = ("shift", "shift_low", "shift_high")
"""Columns that exist only with an account: the shift of one of its parts, in the row's unit."""


def measured(sides: Sequence[Side]) -> Iterator[Sequence[object]]:
    """Yield the rows of a CSV on groups of runs: headings, then a row for every measurement.

    Each repeat of a step has its own rows, and rows for each client host follow them.
    """
    yield _RUN
    for side in sides:
        for run in side.runs:
            kernel = run.host.get("kernel.release") or ""
            head = (side.name, run.label, run.id, run.started, kernel, run.workload.name)
            for step in run.steps:
                what = (step.name, step.repeat, step.status.value)
                for m in step.measurements:
                    yield (*head, *what, m.metric, m.value, m.unit, m.better.value)
                for metric, value, unit in _client_hosts(step):
                    yield (*head, *what, metric, value, unit, Better.NEITHER.value)


def _client_hosts(step: StepResult) -> Iterator[tuple[str, float, str]]:
    """Yield (metric, value, unit) for each number about a client host in the step's last window.

    The metric is `hosts.<host>.<quantity>`.
    """
    for row in last_window(step)[0]:
        for key, unit in _OF_A_HOST.items():
            if row.get(key) is not None:
                yield f"hosts.{row['host']}.{key}", row[key], unit


def compared(comparison: Comparison) -> Iterator[Sequence[object]]:
    """Yield the rows of a comparison's CSV: the headings, then a row for each metric.

    At the end there is a row for each part of the time per operation of each step that has accounts
    (divisions of its time into parts) on both sides.
    """
    names = comparison.base.name, comparison.other.name
    shifted = _SHIFTED if comparison.why else ()
    yield (*_COMPARED, "base_group", "other_group", *shifted)
    for row in comparison.rows:
        keys = row.model_dump(mode="json")
        yield (*(keys[name] for name in _COMPARED), *names, *(None for _ in shifted))
    for why in comparison.why:
        yield from (_part(why, part, names) for part in (why.whole, *why.parts) if part)


def _part(why: Why, part: AccountPart, names: tuple[str, str]) -> Sequence[object]:
    """Return the CSV row of one part of a step's time per operation, such as its CPU time.

    The row has the difference between the sides in seconds, but no ratio.  Its metric is
    `<step>.time.<part>`.  `names` are the names of the two sides.
    """
    keys = part.model_dump(mode="json") | {
        "step": why.step,
        "metric": f"{why.step}.time.{part.part}",
        "unit": f"s/{why.operation}",
        "better": Better.LESS.value,
        "p_holm": part.p,
        "verdict": part.change.value,
    }
    row = {key: value for key, value in keys.items() if key not in ("low", "high", "p")}
    return (*(row.get(name) for name in _COMPARED), *names, part.shift, part.low, part.high)
