"""The needs of one machine that runs the databases of several profiles together.

Needs are added up minute by minute if the profiles share most of their time.  If they were made on
different days, and each covers a day or more, they are added up by the time of day.  Otherwise
only bounds are known: a need is at least the largest of the profiles' busiest minutes, and at most
the sum of these minutes.
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
from replayer.results.profile import ProfileSource, ResourceProfile, WorkingSet
from replayer.sizing import requirement
from replayer.sizing.requirement import Need, Requirement

_TOGETHER = 0.95
"""Share of the longest profile's time that all profiles must cover to be added up by time."""
_SAME_DAYS = 0.5
"""Share of its time from which on a profile is of the same days as another, and not moved."""
_CPU = ("server_cpu", "cpu")
_COMPARED = (
    *("cpu", "memory", "iops", "read_iops", "write_iops", "mbps", "read_mbps", "write_mbps"),
    *("wal_syncs", "net_in", "net_out", "database"),
)
"""Resources that catalogues have, in the order in which they are shown."""
ESSENTIAL = ("cpu", "memory", "iops")
"""Resources without which no machine can be proven to fit."""


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
    exact: tuple[Requirement, ResourceProfile] | None
    """The requirement of all profiles together, and the sum of the profiles as one profile; None
    where only bounds are known."""
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
    cover any whole window.
    """
    alone = {name: _required(one, asked) for name, one in profiles.items()}
    together, notes = _together(profiles)
    exact = None
    if together is not None:
        try:
            exact = (_required(together, asked), together)
        except Impossible:
            # Each is known alone: only what they share is too short, or without load.
            if len(profiles) == 1:
                raise
            notes = [*notes, _LITTLE]
    whole = exact is not None and _covers(exact[1], profiles)
    rows = dict(_rows(list(alone.values()), exact[0] if exact else None, whole=whole))
    if exact is not None and not whole:
        notes = [*notes, _BOUNDS]
    memories = [one.source.memory_bytes for one in profiles.values()]
    speeds = [one.source.probes for one in profiles.values()]
    return Demands(
        rows=rows,
        exact=exact if whole else None,
        missing=tuple(_title(name) for name in _COMPARED if name not in rows),
        source_memory=None if None in memories else float(sum(filter(None, memories))),
        probes=speeds[0] if all(one == speeds[0] for one in speeds) else {},
        notes=(*notes, *_notes(alone)),
        alone=tuple((alone[name], one) for name, one in profiles.items()),
    )


_BOUNDS = (
    "the profiles share only a part of their time: a need is at least what they needed together in "
    "it, and at most the sum of their busiest minutes"
)


_BETWEEN = "a need is at least the largest of their busiest minutes, and at most the sum of them"
_APART = f"the profiles were not made at the same time, and are shorter than a day: {_BETWEEN}"
_LITTLE = f"the profiles share too little time, or were idle in it: {_BETWEEN}"


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


def _rows(
    alone: Sequence[Requirement], together: Requirement | None, *, whole: bool
) -> Iterator[tuple[str, Demand]]:
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
        if len(needs) < len(parts) or not any(need.required > 0 for need in needs):
            continue
        shared = None if together is None else _need(together, name)
        if shared is not None and whole:
            yield name, _exact(name, shared)
            continue
        most = sum(need.required for need in needs)
        least = max(need.required for need in needs)
        if shared is not None:
            least = min(most, max(least, shared.required))
        words = " + ".join(need.arithmetic for need in needs)
        yield name, Demand(name, _title(name), needs[0].unit, most, least, f"at most {words}")


def _exact(name: str, need: Need) -> Demand:
    title = need.title if name == "cpu" else _title(name)
    return Demand(name, title, need.unit, need.required, need.required, need.arithmetic)


def _notes(alone: Mapping[str, Requirement]) -> Iterator[str]:
    for name, wanted in alone.items():
        before = f"{name}: " if len(alone) > 1 else ""
        for note in wanted.notes:
            # Notes on how a load imitates the work are about no catalogue.
            if "averages over" in note or "others" in note:
                yield f"{before}{note}"


# Profiles as one


def _together(
    profiles: Mapping[str, ResourceProfile],
) -> tuple[ResourceProfile | None, list[str]]:
    """Return the sum of the profiles over the time that all of them cover, and sentences on it.

    The sum is None if that time is too short.
    """
    known = list(profiles.values())
    if len(known) == 1:
        return known[0], []
    shifts = _shifts(known)
    moved = [replace(one, ends=one.ends + by) for one, by in zip(known, shifts, strict=True)]
    begin = max(_begin(one) for one in moved)
    end = min(float(one.ends[-1]) for one in moved)
    step = max(1.0, *(one.source.averaged_seconds for one in moved))
    if end - begin < max(MINUTE, step):
        return None, [_APART]
    days = [round(by / DAY) for by in shifts if by]
    words = "needs of the databases are added up minute by minute, at the times of the profiles"
    if days:
        words = (
            f"the profiles were made on different days: they are laid over each other by the time "
            f"of day, {len(days)} of them moved by {', '.join(f'{day:+d}' for day in days)} days"
        )
    return _sum(moved, begin, end, step), [words]


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


def _sum(
    known: Sequence[ResourceProfile], begin: float, end: float, step: float
) -> ResourceProfile:
    """Return one profile with the sums of the columns that all of the profiles have.

    It has a row for each `step` seconds from `begin` to `end`, in seconds since 1970.
    """
    edges = begin + step * np.arange(math.floor((end - begin) / step + 1e-9) + 1, dtype=np.float64)
    parts = [_columns(one, edges) for one in known]
    names = [name for name in parts[0] if all(name in part for part in parts)]
    sets = [one.working_set for one in known]
    sizes = [one.bytes for one in sets if one is not None and one.bytes is not None]
    cores, memory = ([getattr(one.source, key) for one in known] for key in _MACHINE)
    return ResourceProfile(
        ProfileSource(
            kind="csv",
            place=f"{len(known)} databases together",
            averaged_seconds=step,
            cores=None if None in cores else sum(cores),
            memory_bytes=None if None in memory else sum(memory),
        ),
        ends=edges[1:],
        spans=np.full(len(edges) - 1, step),
        columns={name: np.sum([part[name] for part in parts], axis=0) for name in names},
        working_set=WorkingSet(bytes=sum(sizes), method="the sum of the databases'")
        if len(sizes) == len(known)
        else None,
    )


_MACHINE = ("cores", "memory_bytes")


def _columns(
    one: ResourceProfile, edges: rolling_windows.Numbers
) -> dict[str, rolling_windows.Numbers]:
    """Return column -> the means of a profile's column between each two neighbouring `edges`.

    There is one column of CPU, `server_cpu_cores`.  If the profile does not have it, it gets the
    values of the host's CPU.
    """
    made = {}
    for name, values in one.columns.items():
        rows = rolling_windows.signal(one.ends, one.spans, values)
        if len(rows.ends):
            made[name] = rolling_windows.grid(rows, edges)[0]
    if "server_cpu_cores" not in made and "cpu_cores" in made:
        made["server_cpu_cores"] = made["cpu_cores"]
    made.pop("cpu_cores", None)
    return made


def _covers(one: ResourceProfile, profiles: Mapping[str, ResourceProfile]) -> bool:
    """Return whether `one`, the sum of the profiles, covers nearly as much time as the longest."""
    longest = max(each.whole_seconds for each in profiles.values())
    return one.whole_seconds >= _TOGETHER * longest
