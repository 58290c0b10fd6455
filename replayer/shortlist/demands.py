"""The needs of one machine that runs the databases of several profiles together.

Needs are added up minute by minute if the profiles share most of their time.  If they were made on
different days, and each covers a day or more, they are added up by the time of day.  In time that
one profile lacks, it is taken to need its most, as an upper bound.  Otherwise only bounds are
known: a need is at least the largest of the profiles' busiest minutes, and at most the sum of these
minutes.  This is so, too, if the profiles' values are averages over different times, and if the
times of only some of the profiles are in UTC: those of the others are of zones that are not known.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from replayer.analysis.profiles import rolling_windows
from replayer.analysis.profiles.rolling_windows import MINUTE
from replayer.analysis.profiles.usage import DAY, NAMED
from replayer.errors import Impossible
from replayer.results.profile import SERVER_ID, ProfileSource, ResourceProfile, WorkingSet
from replayer.sizing import requirement
from replayer.sizing.requirement import Need, Requirement
from replayer.units import show_duration

_TOGETHER = 0.95
"""Share of the longest profile's time that all profiles must cover to be added up by time."""
_SAME_DAYS = 0.5
"""Share of its time from which on a profile is of the same days as another, and not moved."""
_ALIKE = 1.1
"""Rows of two profiles may differ in length by this factor to be added up, if they are longer than
the windows: within a long row, nothing is known of the time of another's short one."""
_ROUNDED = 1e-6
"""Share by which bounds may differ and still be the same: rounding errors of sums."""
_CPU = ("server_cpu", "cpu")
_COMPARED = (
    *("cpu", "memory", "iops", "read_iops", "write_iops", "mbps", "read_mbps", "write_mbps"),
    *("wal_syncs", "net_in", "net_out", "database"),
)
"""Resources that catalogues have, in the order in which they are shown."""
ESSENTIAL = ("cpu", "memory", "iops")
"""Resources without which no machine can be proven to fit."""


Load = tuple[Requirement, ResourceProfile]
"""A requirement, and the profile that it is made of."""


class DemandOptions(NamedTuple):
    """The margin that a machine must have, and the busiest windows that it must sustain.

    Loads are multiplied by `growth` and by 1 + `headroom`.  Of all windows of `window` seconds, the
    one at the percentile `percentile` is required: 100 is the busiest window.
    """

    growth: float = 1.0
    headroom: float = 0.0
    percentile: float = 100.0
    window: float = MINUTE


class Demand(NamedTuple):
    """The required amount of one resource; `arithmetic` is its calculation in words."""

    name: str
    title: str
    unit: str
    required: float
    """With growth and headroom; the upper bound, where only bounds are known."""
    least: float
    """The lower bound; the same as `required` where the demand is exact."""
    arithmetic: str


class Demands(NamedTuple):
    """The needs of databases that share one machine; `rows` is name of a resource -> demand."""

    rows: Mapping[str, Demand]
    known: Load | None
    """The requirement of all profiles together in the time that all of them have, and the sum of
    the profiles as one profile; None where that is too little time."""
    exact: Load | None
    """The same with the time that only some of the profiles have, in which the others are taken to
    need their most.  None where only bounds are known."""
    missing: tuple[str, ...]
    """Titles of resources that are not in each of the profiles."""
    source_memory: float | None
    """Bytes of memory of the source machines together; None where one of them is not known."""
    probes: Mapping[str, float]
    """Metric of a probe -> speed at the sources; {} where the sources differ or it is not known."""
    notes: tuple[str, ...]
    alone: tuple[tuple[Requirement, ResourceProfile], ...]
    """Each profile with its requirement."""


def gather(profiles: Mapping[str, ResourceProfile], asked: DemandOptions) -> Demands:
    """Return the demands of the databases of all profiles together; `profiles` is name -> profile.

    Raise Impossible for options out of range, for a profile without load, and for one that does not
    cover any whole window.  Raise it, too, for two profiles of one server.
    """
    _check_servers(profiles)
    alone = {name: _required(one, asked) for name, one in profiles.items()}
    known = list(profiles.values())
    bounds: _Bounds | None
    notes: list[str]
    if len(known) == 1:
        both = (next(iter(alone.values())), known[0])
        bounds, notes = _Bounds(both, both), []
    else:
        bounds, notes = _together(profiles, asked)
    rows = dict(_rows(list(alone.values()), bounds))
    is_bounded = any(one.least < one.required for one in rows.values())
    if bounds is not None and bounds.high is not None and is_bounded:
        notes = [*notes, _GAPS]
    memories = [one.source.memory_bytes for one in known]
    speeds = [one.source.probes for one in known]
    return Demands(
        rows=rows,
        known=None if bounds is None else bounds.low,
        exact=None if bounds is None else bounds.high,
        missing=tuple(_title(name) for name in _COMPARED if name not in rows),
        source_memory=None if None in memories else float(sum(filter(None, memories))),
        probes=speeds[0] if all(one == speeds[0] for one in speeds) else {},
        notes=(*notes, *_notes(alone)),
        alone=tuple((alone[name], one) for name, one in profiles.items()),
    )


class _Bounds(NamedTuple):
    """All databases together, as a sum of their profiles."""

    low: Load
    """In the time that all profiles have."""
    high: Load | None
    """In the time that any profile has: where one has no values, it is taken to need its most.
    None if nothing is known of most of the time."""


_BOUNDS = (
    "the profiles share only a part of their time: a need is at least what they needed together in "
    "it, and at most the sum of their busiest minutes"
)
_GAPS = (
    "in some time a profile has no values, and is taken to need its most then: where two amounts "
    "are given, the need is between them"
)


_BETWEEN = "a need is at least the largest of their busiest minutes, and at most the sum of them"
_APART = f"the profiles were not made at the same time, and are shorter than a day: {_BETWEEN}"
_OF_ONE_ZONE = (
    "the times of the profiles are local, of zones that are not known: they are taken to be of one "
    "zone"
)
_LITTLE = f"the profiles share too little time, or were idle in it: {_BETWEEN}"


def _check_servers(profiles: Mapping[str, ResourceProfile]) -> None:
    """Raise Impossible if two profiles are of one server: each has all databases of its server."""
    known: dict[object, str] = {}
    for name, one in profiles.items():
        identity = one.source.facts.get(SERVER_ID)
        if identity is not None and identity in known:
            raise Impossible(
                f"{known[identity]} and {name} are of one server, and each is of all its "
                f"databases, whichever its URL names: they would count twice",
                "give one of them",
            )
        known[identity] = name


def _required(profile: ResourceProfile, asked: DemandOptions) -> Requirement:
    return requirement.of(
        profile,
        growth=asked.growth,
        headroom=asked.headroom,
        percentile=asked.percentile,
        window=asked.window,
    )


def _title(name: str) -> str:
    resource = NAMED[name]
    return f"{resource.title}, MB" if resource.unit == "MB/s" else resource.title


def _need(wanted: Requirement, name: str) -> Need | None:
    if name == "cpu":
        return next((one for key in _CPU if (one := wanted.need(key))), None)
    return wanted.need(name)


def _rows(alone: Sequence[Requirement], bounds: _Bounds | None) -> Iterator[tuple[str, Demand]]:
    for name in _COMPARED:
        if name == "database":
            sizes = [one.database_bytes for one in alone]
            if all(size is not None for size in sizes):
                total = float(sum(filter(None, sizes)))
                if total > 0:
                    yield name, Demand(name, _title(name), "bytes", total, total, "")
            continue
        parts = [_need(one, name) for one in alone]
        needs = [part for part in parts if part is not None]
        if len(needs) == len(parts) and any(need.required > 0 for need in needs):
            yield name, _demand(name, needs, bounds)


def _demand(name: str, needs: Sequence[Need], bounds: _Bounds | None) -> Demand:
    """Return the demand for a resource, from each profile's need and those of all together.

    It is not less than the need of any one of them.
    """
    low, high = (
        None if of is None else _need(of[0], name)
        for of in ((bounds.low, bounds.high) if bounds else (None, None))
    )
    most = sum(need.required for need in needs)
    least = max((*needs, low) if low else needs, key=lambda need: need.required)
    words = f"at most {' + '.join(need.arithmetic for need in needs)}"
    if high is not None:
        if high.required < most:
            words = f"at most {high.arithmetic}"
        most = max(least.required, min(most, high.required))
    at_least = min(most, least.required)
    if most <= at_least * (1 + _ROUNDED):
        at_least, words = most, least.arithmetic
    titles = {need.title for need in needs}
    title = _title(name) if name != "cpu" else titles.pop() if len(titles) == 1 else "CPU"
    return Demand(name, title, needs[0].unit, most, at_least, words)


def _notes(alone: Mapping[str, Requirement]) -> Iterator[str]:
    for name, wanted in alone.items():
        before = f"{name}: " if len(alone) > 1 else ""
        for note in wanted.notes:
            # Notes on how a load imitates the work are about no catalogue.
            if "averages over" in note or "others" in note:
                yield f"{before}{note}"


# Profiles as one


def _together(
    profiles: Mapping[str, ResourceProfile], asked: DemandOptions
) -> tuple[_Bounds | None, list[str]]:
    """Return the requirements of several profiles together, and sentences on them.

    There are none if it is not known which of the profiles' times are the same.
    """
    local = [name for name, one in profiles.items() if not one.has_zone]
    known = list(profiles.values())
    if not local:
        return _in_one_zone(known, asked)
    if len(local) == len(known):
        bounds, notes = _in_one_zone(known, asked)
        return bounds, [*notes, *[_OF_ONE_ZONE] * (bounds is not None)]
    unknown = (
        f"times of {', '.join(local)} are local, of a zone that is not known, and the others are "
        f"in UTC (iostat writes the zone with S_TIME_FORMAT=ISO): {_BETWEEN}"
    )
    return None, [unknown]


def _in_one_zone(
    known: Sequence[ResourceProfile], asked: DemandOptions
) -> tuple[_Bounds | None, list[str]]:
    """Return the requirements of several profiles together, and sentences on them.

    Their times are of one zone.  There are none if the profiles share too little time.
    """
    shifts = _shifts(known)
    own = map(requirement.without_others, known)
    moved = [replace(one, ends=one.ends + by) for one, by in zip(own, shifts, strict=True)]
    shared = min(float(one.ends[-1]) for one in moved) - max(_begin(one) for one in moved)
    lengths = [rolling_windows.quantile(one.spans, one.spans, 95.0) for one in moved]
    window = max(asked.window, *lengths)
    if shared < max(MINUTE, *lengths):
        return None, [_APART]
    differ = window > _ALIKE * max(asked.window, min(lengths))
    low, high = _sums(moved, window)
    asked = asked._replace(window=min(window, DAY))
    way = _way(shifts)
    try:
        least = (_required(low, asked), low)
        bounds = _Bounds(least, least if high is low else (_required(high, asked), high))
    except Impossible:
        # Each is known alone: only what they share is too short, or without load.
        return None, [way, _LITTLE]
    if differ:
        averages = f"averages over {show_duration(min(lengths))} and {show_duration(max(lengths))}"
        return bounds._replace(high=None), [f"the profiles have {averages}: {_BETWEEN}"]
    if shared < _TOGETHER * max(one.whole_seconds for one in known):
        return bounds._replace(high=None), [way, _BOUNDS]
    return bounds, [way]


def _way(shifts: Sequence[float]) -> str:
    """Return a sentence on how the profiles are added up; `shifts` are in seconds."""
    days = [round(by / DAY) for by in shifts if by]
    if not days:
        return "needs of the databases are added up minute by minute, at the times of the profiles"
    return (
        f"the profiles were made on different days: they are laid over each other by the time of "
        f"day, {len(days)} of them moved by {', '.join(f'{day:+d}' for day in days)} days"
    )


def _begin(one: ResourceProfile) -> float:
    return float(one.ends[0] - one.spans[0])


def _shifts(known: Sequence[ResourceProfile]) -> list[float]:
    """Return by how many seconds to move each profile so that all are from the same day.

    These are whole days.  Nothing is moved if any profile is much shorter than a day.  Profiles
    that share most of their time are moved together: what happens in both at once stays together.
    """
    if any(one.whole_seconds < _TOGETHER * DAY for one in known):
        return [0.0] * len(known)
    shifts: list[float] = []
    for one in known:
        alike = (by for by, two in zip(shifts, known, strict=False) if _of_same_days(one, two))
        days = round((_begin(known[0]) - _begin(one)) / DAY)
        shifts.append(next(alike, days * DAY))
    return shifts


def _of_same_days(one: ResourceProfile, two: ResourceProfile) -> bool:
    shared = min(one.ends[-1], two.ends[-1]) - max(_begin(one), _begin(two))
    longest = max(one.ends[-1] - _begin(one), two.ends[-1] - _begin(two))
    return bool(shared >= _SAME_DAYS * longest)


def _sums(
    known: Sequence[ResourceProfile], window: float
) -> tuple[ResourceProfile, ResourceProfile]:
    """Return the sums of the columns that all profiles have: the least and the most that they are.

    Rows begin and end where those of any profile do, to the second.  In the first sum, a column is
    known where all profiles know it.  In the second, it is known where any of them does; the others
    have there the largest mean of their windows of `window` seconds.
    """
    sides = [side for one in known for side in (one.ends, one.ends - one.spans)]
    edges: rolling_windows.Numbers = np.unique(np.rint(np.concatenate(sides)))
    has_own = any(requirement.has_own_cpu(one) for one in known)
    parts = [
        _columns(one, edges, window, "server_cpu_cores" if has_own else "cpu_cores")
        for one in known
    ]
    names = [
        name for name in parts[0] if name not in _NOT_ADDED and all(name in part for part in parts)
    ]
    low, high, has_gaps = {}, {}, False
    for name in names:
        means = np.array([part[name].means for part in parts])
        most = np.array([[part[name].most] for part in parts])
        unknown = np.isnan(means)
        has_gaps |= bool(unknown.any())
        low[name] = means.sum(axis=0)
        high[name] = np.where(
            unknown.all(axis=0), np.nan, np.where(unknown, most, means).sum(axis=0)
        )
    sets = [one.working_set for one in known]
    sizes = [one.bytes for one in sets if one is not None and one.bytes is not None]
    cores, memory = ([getattr(one.source, key) for one in known] for key in _MACHINE)
    made = ResourceProfile(
        ProfileSource(
            kind="csv",
            place=f"{len(known)} databases together",
            averaged_seconds=window,
            cores=None if None in cores else sum(cores),
            memory_bytes=None if None in memory else sum(memory),
        ),
        ends=edges[1:],
        spans=np.diff(edges),
        working_set=WorkingSet(bytes=sum(sizes), method="the sum of the databases'")
        if len(sizes) == len(known)
        else None,
    )
    least = replace(made, columns=low)
    return least, replace(made, columns=high) if has_gaps else least


_MACHINE = ("cores", "memory_bytes")
_NOT_ADDED = frozenset({"blocks_read"})
"""Reads of others are known of each profile alone: one that misses many blocks must not hide them
in the sum, whose blocks may be of several sizes."""
_CPU_COLUMNS = ("server_cpu_cores", "cpu_cores")


class _Column(NamedTuple):
    """A column of a profile, laid over other rows."""

    means: rolling_windows.Numbers
    most: float
    """The largest mean of its windows; NaN where all means are known."""


def _most(rows: rolling_windows.Signal, window: float) -> float:
    means = rolling_windows.covering(rows, window).means
    return float(means.max() if len(means) else rows.values.max())


def _columns(
    one: ResourceProfile, edges: rolling_windows.Numbers, window: float, cpu: str
) -> dict[str, _Column]:
    """Return column -> the means of a profile's column between each two neighbouring `edges`.

    A mean is not known if less than four fifths of its time are.  There is one column of CPU,
    named `cpu`: that of the server if it is known as long as that of the host, or that of the host.
    """
    own_cpu = "server_cpu_cores" if requirement.has_own_cpu(one) else "cpu_cores"
    made = {}
    for name, values in one.columns.items():
        rows = rolling_windows.signal(one.ends, one.spans, values)
        if not len(rows.ends) or (name in _CPU_COLUMNS and name != own_cpu):
            continue
        known = rolling_windows.known_shares(rows, edges) >= rolling_windows.ENOUGH
        means = np.where(known, rolling_windows.grid(rows, edges)[0], np.nan)
        most = math.nan if known.all() else _most(rows, window)
        made[cpu if name == own_cpu else name] = _Column(means, most)
    return made
