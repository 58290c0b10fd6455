"""Demand of one statement on each resource, and how much load each resource allows.

That load is a multiple of the required rate of statements.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from replayer.analysis.capacity.saturation import Mean
from replayer.load import resources
from replayer.sizing.findings import Loaded, ResourceRow
from replayer.sizing.target import Fit

_OWN = frozenset({resources.CLIENTS})
"""Resources that belong to replayer, not to the database."""


def rows(
    table: Iterable[Mapping[str, Any]],
    demands: Callable[[str], Sequence[float]],
    rate: float,
    load: Loaded,
    busy: Mapping[str, float] | None = None,
) -> Iterator[ResourceRow]:
    """Yield a row for each resource: what `rate` statements a second need, and the supply.

    `table` has a row for each resource: its demand by one statement, and the statements a second
    that it allows.  `demands` returns, for the name of a resource, how much of it one statement
    needed in each trial, which is one run of the load at one rate.  `load` is the result of the
    search for the highest rate.  `busy` is resource -> the share of it that was in use at the
    highest rate with which the machine kept up.
    """
    for row in table:
        name, demand = str(row["resource"]), row.get("demand")
        if name in _OWN or not demand:
            continue
        unit = str(row["unit"]).removesuffix(" / (1/s)")
        bound = row.get("bound_per_second")
        multiple, low, high = _allowed(name, bound, rate, demands(name), load)
        yield ResourceRow(
            resource=name,
            unit=unit,
            required=demand * rate,
            here=None if bound is None else demand * bound,
            multiple=multiple,
            low=low,
            high=high,
            fit=_by_interval(low, high),
            proof=str(row.get("ceiling") or "measured under the load"),
            kind="load",
            decides=False,
            busy=None if busy is None else busy.get(name),
        )


def _allowed(
    name: str, bound: float | None, rate: float, demands: Sequence[float], load: Loaded
) -> tuple[float | None, float | None, float | None]:
    """Return (multiple of the required rate that a resource allows, low end, high end of interval).

    `bound` is the statements a second that it allows, `rate` the required ones, `demands` its use
    by one statement in each trial.  The limiting resource allows the multiple that the load
    sustained.  Every other resource allows at least that.  A value is None where it is not known.
    """
    if name == load.first and load.multiple is not None:
        return load.multiple, load.low, load.high
    if bound is None:
        return None, None, None
    least, sure = load.multiple or 0.0, load.low or 0.0
    multiple = max(least, bound / rate)
    mean = Mean.of(demands) if len(demands) > 1 else None
    if mean is None or not mean.low > 0:
        return multiple, max(sure, 0.0), None
    low, high = (multiple * mean.value / end for end in (mean.high, mean.low))
    return multiple, max(sure, low), max(multiple, high)


def _by_interval(low: float | None, high: float | None) -> Fit:
    if low is not None and low >= 1:
        return Fit.FITS
    if high is not None and high < 1:
        return Fit.DOES_NOT_FIT
    return Fit.UNCLEAR
