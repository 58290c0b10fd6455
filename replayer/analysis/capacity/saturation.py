"""Saturation: the resource that limits throughput first, by the laws of queueing networks.

Utilization law, U = X * D: if a resource is busy by U at X statements per second, one statement has
the demand D = U / X. So the throughput cannot exceed X <= capacity / D. Little's law, N = X * (R +
Z): sessions = throughput * (response + time between two statements). (Denning and Buzen, 1978;
Lazowska et al., Quantitative System Performance, 1984.) The limiting resource is the one that is
busiest at the load at which throughput no longer grows.  It is confirmed by the queues in which
sessions wait.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from statistics import fmean, median
from typing import TYPE_CHECKING

import numpy as np

from replayer.lazy_import import Later

if TYPE_CHECKING:
    from scipy import special
else:
    # Few commands measure a curve, and it takes a fifth of a second to load.
    special = Later("scipy.special")

SATURATED = 0.85
"""A resource whose utilization is below this share does not limit anything."""
FLAT = 0.95
"""The curve is flat from the first level with at least this share of the highest throughput."""
LITTLE = 0.02
"""Little's law must hold at every level, with an error of at most this share of the sessions."""
_BUSY_AT_LIMIT = 0.5
_FULL_MEMORY = 0.97
_MAJORITY = 0.5
_MANY = 1 / 3
_LEVEL = 0.975
_MANY_OTHERS = 0.1
"""The use of a resource by other work is reported from this share of its whole use on."""


class WaitReason(StrEnum):
    """The queue in which a database session waits, as the server and the clients report it."""

    CPU = "CPU"
    READS = "device reads"
    WRITES = "device writes"
    LOG = "log flushes"
    LOCKS = "row locks"
    INTERNAL = "the server's own locks"
    CLIENTS = "their turn between clients and server"
    """The session waits in a client's process, or in the server's before it has the statement."""
    UNTOLD = "what the server does not name"
    """The server reports only that a statement is running."""
    OTHER = "something else"


@dataclass(frozen=True, slots=True)
class ResourceUse:
    """The use of a resource, such as CPU cores, during one measured level (number of sessions).

    `busy` and `capacity` are in the resource's own unit.
    """

    busy: float
    capacity: float | None
    """The whole amount of the resource; None if not known, as then is the utilization."""
    unit: str
    lines: frozenset[WaitReason]
    """The queues in which sessions wait for the resource."""
    own: float | None = None
    """The part of `busy` for the work that is measured; None if all of it was."""
    ceiling: str = ""
    """The origin of `capacity`: `quota of the cgroup`, `probe of 8 KiB random reads at depth 16`.
    """
    stopped: float | None = None
    """The share of the time in which the resource was used up; None if that is not counted."""
    through: frozenset[str] = frozenset()
    """Resources through which this one is used: if one of them is full, it is the limit."""
    held: bool = False
    """True if work occupies the resource, such as memory: a demand has no meaning."""

    @property
    def utilization(self) -> float | None:
        """Return busy / capacity, 0 to about 1; None if the capacity is not known or 0."""
        return self.busy / self.capacity if self.capacity else None


@dataclass(frozen=True, slots=True)
class LevelPoint:
    """The measurements of one repeat at one level (number of sessions) of load.

    They are throughput, response time, and the use of resources and the sessions in queues.
    """

    sessions: int
    throughput: float
    """Completed statements per second."""
    response: float
    """The mean time in seconds from the start of a statement to its answer."""
    in_flight: float
    """The mean number of sessions with a running statement.

    It is counted, and not computed from `throughput` and `response`.
    """
    uses: Mapping[str, ResourceUse] = field(default_factory=dict)
    """Name of a resource -> its use."""
    standing: Mapping[WaitReason, float] = field(default_factory=dict)
    """Mean number of sessions in each queue; empty if the server could not be asked."""

    @property
    def little(self) -> float:
        """Return the error of Little's law, N = X (R + Z), as a share of the N sessions.

        X is the throughput, R the response time, and Z the time between two statements of a
        session.  X Z is the number of sessions that have no running statement.
        """
        return abs(self.throughput * self.response - self.in_flight) / self.sessions


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of values of several repeats, and its 95 percent interval by Student's t.

    The interval of a single value is infinite.
    """

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Mean":
        """Return the mean of values, one for each repeat, and its 95 percent interval."""
        value = fmean(values)
        if len(values) < 2:
            return cls(value, -math.inf, math.inf)
        error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
        reach = float(special.stdtrit(len(values) - 1, _LEVEL)) * error
        return cls(value, value - reach, value + reach)


@dataclass(frozen=True, slots=True)
class Load:
    """The use of one resource over all measured levels (numbers of sessions), with its limit."""

    name: str
    unit: str
    demand: Mean | None
    """The mean demand of a statement, in the resource's unit times seconds; None if `held`."""
    bound: float | None
    """The highest throughput that the resource allows; None if its capacity is not known."""
    busiest: Mean | None
    """The utilization above the knee, or at the highest level if throughput still grows there."""
    stopped: float | None
    """The share of the time in which the resource was used up; None if that is not counted."""
    others: float
    """The share of the use, at the same levels, that was for other work than the measured one."""
    ceiling: str
    lines: frozenset[WaitReason]
    through: frozenset[str]
    held: bool

    def full(self, least: float) -> bool:
        """Return whether the resource limits work: its utilization is at least the share `least`.

        Returns False if the utilization is not known.  A resource that work occupies rather than
        uses for a time, such as memory, must be almost full.
        """
        least = max(least, _FULL_MEMORY) if self.held else least
        return self.busiest is not None and self.busiest.value >= least


@dataclass(frozen=True, slots=True)
class Saturation:
    """The resource that limits a database's throughput first, and the proof of that."""

    resource: str | None
    """The name of the resource; None if it is unclear which one it is."""
    proof: str
    """One sentence: the observations, or why it is unclear."""
    knee: int
    """The first level with nearly the highest throughput; the highest level if none is flat."""
    flat: bool
    """True if a level above the knee was measured."""
    highest: Mean
    """The mean throughput at the knee and at the levels above it."""
    loads: tuple[Load, ...]
    """All resources, the busiest first; those of unknown capacity last."""


def knee(points: Sequence[LevelPoint]) -> int:
    """Return the smallest number of sessions with at least 95 percent of the highest throughput.

    Numbers of sessions are compared by the median throughput of their repeats.
    """
    middle = {level: median(p.throughput for p in same) for level, same in _by_level(points)}
    most = max(middle.values())
    return min(level for level, value in middle.items() if value >= FLAT * most)


def first(points: Sequence[LevelPoint]) -> Saturation:
    """Return the resource that limits throughput first as the number of sessions grows.

    `points` are all repeats of all levels, at least one.
    """
    at, top = knee(points), max(point.sessions for point in points)
    # Only levels above the knee show queues: for serial work, as on a hot row, the knee is at one
    # session, and that one never waits.
    beyond = [point for point in points if point.sessions > at]
    flat = beyond or [point for point in points if point.sessions == at]
    why = "throughput still grows at the highest level" if at == top else ""
    judged = _saturation(points, flat, SATURATED, why)
    highest = Mean.of([point.throughput for point in points if point.sessions >= at])
    return replace(judged, knee=at, highest=highest)


def at_limit(points: Sequence[LevelPoint], limit: Sequence[LevelPoint]) -> Saturation:
    """Return the limiting resource at a rate of statements that the server could not sustain.

    `limit` are the measurements at that rate, at least one; `points` are those at all rates.  An
    objective for latencies fails before a resource is busy all the time.  Therefore a resource with
    a utilization of at least one half may be the limit here.
    """
    return _saturation(points, limit, _BUSY_AT_LIMIT, "")


def at_highest(points: Sequence[LevelPoint], highest: Sequence[LevelPoint]) -> Saturation:
    """Return the use of each resource at the highest rate of statements, if none was too high.

    `highest` are the measurements at that rate, at least one; `points` are those at all rates.  The
    field `resource` of the result is None, as nothing was at its limit.
    """
    return _saturation(points, highest, math.inf, "nothing failed")


def _saturation(
    points: Sequence[LevelPoint], flat: Sequence[LevelPoint], least: float, why_open: str
) -> Saturation:
    loads = _loads(points, flat)
    resource, proof = _judged(loads, flat, least, why_open)
    return Saturation(
        resource=resource,
        proof=proof,
        knee=min(point.sessions for point in flat),
        flat=not why_open,
        highest=Mean.of([point.throughput for point in flat]),
        loads=tuple(loads),
    )


def _by_level(points: Iterable[LevelPoint]) -> list[tuple[int, list[LevelPoint]]]:
    levels: dict[int, list[LevelPoint]] = {}
    for point in points:
        levels.setdefault(point.sessions, []).append(point)
    return sorted(levels.items())


def _loads(points: Sequence[LevelPoint], flat: Sequence[LevelPoint]) -> list[Load]:
    names = dict.fromkeys(name for point in points for name in point.uses)
    loads = [_load(name, points, flat) for name in names]
    return sorted(loads, key=lambda load: -(load.busiest.value if load.busiest else -1.0))


def _load(name: str, points: Sequence[LevelPoint], flat: Sequence[LevelPoint]) -> Load:
    """Return the use of the resource `name` over all levels.

    Its demand per statement is computed from all measurements, `points`.  Its utilization is
    computed from `flat`: the measurements at which throughput no longer grows.
    """
    known = [(p.uses[name], p.throughput) for p in points if name in p.uses and p.throughput > 0]
    uses = [point.uses[name] for point in flat if name in point.uses]
    shares = [share for use in uses if (share := use.utilization) is not None]
    stops = [use.stopped for use in uses if use.stopped is not None]
    like = next(point.uses[name] for point in points if name in point.uses)
    demands = [_own(use) / throughput for use, throughput in known]
    demand = None if like.held or not demands else Mean.of(demands)
    return Load(
        name=name,
        unit=like.unit,
        demand=demand,
        bound=_bound(demand, uses),
        busiest=Mean.of(shares) if shares else None,
        stopped=fmean(stops) if stops else None,
        others=_others(uses),
        ceiling=like.ceiling,
        lines=like.lines,
        through=like.through,
        held=like.held,
    )


def _own(use: ResourceUse) -> float:
    return use.busy if use.own is None else use.own


def _others(uses: Sequence[ResourceUse]) -> float:
    """Return the share, from 0 to 1, of a resource's use that was not for the measured work."""
    busy = sum(use.busy for use in uses)
    return max(0.0, 1 - sum(_own(use) for use in uses) / busy) if busy else 0.0


def _bound(demand: Mean | None, uses: Sequence[ResourceUse]) -> float | None:
    """Return the highest throughput that a resource allows if other work uses as much of it as now.

    It is in statements per second; None if the demand or the capacity is not known.  `demand` is
    the resource's use per statement, in its unit times seconds.
    """
    left = [use.capacity - use.busy + _own(use) for use in uses if use.capacity]
    if demand is None or demand.value <= 0 or not left:
        return None
    return fmean(left) / demand.value


def _judged(
    loads: Sequence[Load], flat: Sequence[LevelPoint], least: float, why_open: str
) -> tuple[str | None, str]:
    """Return (limiting resource, sentence of proof), or (None, sentence on why it is unclear).

    `flat` are the measurements at which throughput no longer grows.  `loads` are all resources, the
    busiest first.  A resource may be the limit if its utilization is at least `least`.  `why_open`
    is a known reason why it is unclear; "" for none.
    """
    busy = {load.name for load in loads if load.full(least)}
    full = [load for load in loads if load.name in busy and not load.through & busy]
    if not full:
        return _by_line_alone(loads, flat, why_open)
    standing = _standing(flat)
    # Other work may fill a resource, too.  It is not the limit of sessions in other queues.
    most = [load for load in full if _has_most(load, flat, standing)]
    lead, *others = most or full
    rivals = [load for load in others if _meet(load, lead)]
    if rivals:
        names = " and ".join(_words(load) for load in (lead, *rivals))
        return None, f"unclear: {names} are within their intervals"
    if standing and not most and not _has_longest(lead, flat, standing):
        longest = max(standing, key=lambda line: standing[line].value)
        where = f"{standing[longest].value:.0%} of the sessions waited for {longest.value}"
        return None, f"unclear: {_words(lead)}, but {where}"
    return lead.name, _proof(lead, loads, flat)


def _meet(one: Load, other: Load) -> bool:
    """Return whether the intervals of two utilizations overlap."""
    assert one.busiest is not None
    assert other.busiest is not None
    return one.busiest.high >= other.busiest.low and other.busiest.high >= one.busiest.low


def _standing(flat: Sequence[LevelPoint]) -> dict[WaitReason, Mean]:
    """Return queue -> the mean share of the working sessions that wait in it.

    `flat` are the measurements that are used.  It is {} if the server could not be asked.
    """
    lines = dict.fromkeys(line for point in flat for line in point.standing)
    return {line: Mean.of(_shares(flat, {line})) for line in lines}


def _shares(flat: Sequence[LevelPoint], lines: Collection[WaitReason]) -> list[float]:
    """Return the share of the working sessions in the queues `lines`, for each point of `flat`.

    A point is the measurement of one repeat.  Those without observed queues are left out.
    """
    return [
        sum(amount for line, amount in point.standing.items() if line in lines) / everybody
        for point in flat
        if (everybody := sum(point.standing.values()))
    ]


def _here(load: Load, flat: Sequence[LevelPoint]) -> Mean | None:
    """Return the mean share of the working sessions that wait for a resource; None if not known.

    `flat` are the measurements that are used.
    """
    shares = _shares(flat, load.lines)
    return Mean.of(shares) if shares else None


def _longest_other(load: Load, standing: Mapping[WaitReason, Mean]) -> Mean:
    others = [mean for line, mean in standing.items() if line not in load.lines]
    return max(others, key=lambda mean: mean.value, default=Mean(0.0, 0.0, 0.0))


def _has_longest(
    load: Load, flat: Sequence[LevelPoint], standing: Mapping[WaitReason, Mean]
) -> bool:
    """Return whether more sessions wait for a resource than in any queue of another resource.

    `load` is the use of the resource.  `standing` is queue -> share of the sessions in it.
    """
    here = _here(load, flat)
    return here is not None and here.value > _longest_other(load, standing).value


def _has_most(load: Load, flat: Sequence[LevelPoint], standing: Mapping[WaitReason, Mean]) -> bool:
    """Return whether at least a third of the working sessions wait for a resource.

    They must also be at least twice as many as in any queue of another resource.  `load` is the use
    of the resource.  `standing` is queue -> share of the sessions in it.
    """
    here, other = _here(load, flat), _longest_other(load, standing)
    return here is not None and here.value >= max(_MANY, 2 * other.value)


def _by_line_alone(
    loads: Sequence[Load], flat: Sequence[LevelPoint], why_open: str
) -> tuple[str | None, str]:
    """Return (limiting resource, proof) from the queues alone, or (None, why it is unclear).

    `flat` are the measurements at which throughput no longer grows.  `why_open` is a known reason
    why it is unclear; "" for none.  This is for the case that no resource of known capacity is
    full.  Then a resource of unknown capacity is the limit if at least half of the working sessions
    wait for it.
    """
    busiest = next((load for load in loads if load.busiest is not None), None)
    most = f"the busiest resource is {_words(busiest)}" if busiest else "no capacity is known"
    if why_open:
        return None, f"unclear: {why_open}, and {most}"
    for load in loads:
        here = _here(load, flat) if load.busiest is None and load.demand else None
        if here is not None and here.value >= _MAJORITY:
            return load.name, (
                f"{load.name}: {here.value:.0%} of the sessions waited for it; its ceiling "
                f"is not known, and {most}"
            )
    return None, f"unclear: nothing is full, and {most}"


def _proof(lead: Load, loads: Sequence[Load], flat: Sequence[LevelPoint]) -> str:
    """Return a line of proof: utilization of the limiting resource `lead` and of the next busiest.

    It ends with the share of the sessions that waited for `lead`, if this is known.
    """
    parts = [_words(lead)]
    runner_up = next((o for o in loads if o is not lead and o.busiest is not None), None)
    if runner_up is not None:
        parts.append(f"next is {_words(runner_up)}")
    here = _here(lead, flat)
    if here is not None:
        parts.append(f"{here.value:.0%} of the sessions waited for it")
    return "; ".join(parts)


def _words(load: Load) -> str:
    """Return a resource's utilization as text, with its interval and the origin of the capacity.

    For example: `device reads 99.6 % busy (99.1 to 100.0) of the limit of the cgroup`.
    """
    busiest = load.busiest
    assert busiest is not None
    interval = (
        f" ({100 * busiest.low:.1f} to {100 * busiest.high:.1f})"
        if math.isfinite(busiest.high)
        else ""
    )
    of = f" of the {load.ceiling}" if load.ceiling else ""
    others = f", {load.others:.0%} of it by others" if load.others >= _MANY_OTHERS else ""
    stopped = f", used up in {load.stopped:.0%} of its periods" if load.stopped else ""
    return f"{load.name} {100 * busiest.value:.1f} % busy{interval}{of}{stopped}{others}"
