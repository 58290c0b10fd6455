"""Profile -> requirement: the busiest minute of each resource, times growth, times headroom.

The load imitates the work of one minute: the busiest one of the leading resource, which the user
may choose.  The busiest minute of another resource may be a different one; its value stands in that
resource's need, which is the required amount of it.
"""

import collections
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from replayer.analysis.profiles import rolling_windows, usage
from replayer.analysis.profiles.rolling_windows import MINUTE, Numbers
from replayer.analysis.profiles.usage import NAMED, ProfileWindow, Resource
from replayer.errors import Impossible, NotFound, nearest
from replayer.load.mix import UNTESTED
from replayer.model import Noun
from replayer.results.profile import KNOWN, ResourceProfile, TableUse
from replayer.sizing import workload_mix
from replayer.sizing.workload_mix import StatementLoad
from replayer.units import show, show_duration

_NEEDED = (
    *("cpu", "server_cpu", "memory", "transactions", "statements"),
    *("read_iops", "write_iops", "iops", "read_mbps", "write_mbps", "mbps"),
    *("wal", "wal_syncs", "net_in", "net_out", "sessions", "sessions_active", "database"),
)
"""Resources of which a machine must offer a required amount."""
_APART = 1.25
"""A resource's value in its own busiest window, divided by its mean in the window that the load
imitates: a larger ratio is reported."""
_MOST = collections.defaultdict(lambda: 1e12, {"bytes": 1e18})
"""Unit -> an amount that no machine exceeds."""
_WRITES = ("write_iops", "write_mbps")
_READS = ("read_iops", "iops", "read_mbps", "mbps")
_BLOCK = 8192
_BY_OTHERS = 0.25
"""Share of a device's reads: if the database cannot have done more than this share of them, other
programs are named as their cause."""
OTHERS_READ = "others read that disk"
"""Part of the note of a requirement that leaves out what others read."""
_ENOUGH = 0.9
"""The server's own CPU is used if it is known for at least this share of the host's known time."""
_CLEAR_CORES = 0.05
"""Cores that others use on the source's host: fewer are not reported."""
_APART_SHARES = 0.1
"""A part of the data is hot if its share of the accesses exceeds its share of the bytes by this."""
_LEAST_HOT = 0.001


class Need(Noun):
    """The required amount of one resource, with its arithmetic."""

    name: str
    title: str
    unit: str
    measured: float
    """The value in the busiest window of this resource, or at the percentile; windows are ranked
    by what the database did."""
    begin: float
    end: float
    """End of that window; both are seconds since 1970."""
    growth: float
    headroom: float
    required: float
    meanwhile: float | None
    """The resource's mean in the window that the load imitates; None where that is not known."""
    others: float = 0.0
    """The part of `measured` that other programs on the source's machine did: not required."""

    @property
    def arithmetic(self) -> str:
        """Return the arithmetic of the required value, in words."""
        measured = show(self.measured, self.unit)
        if self.others:
            measured = f"({measured} - {show(self.others, self.unit)} by others)"
        if self.growth == 1 and not self.headroom:
            own = show(self.required, self.unit)
            return f"{measured} = {own}" if self.others else measured
        terms = [measured]
        terms += [f"{self.growth:g} growth"] if self.growth != 1 else []
        terms += [f"{1 + self.headroom:g} headroom"] if self.headroom else []
        return f"{' x '.join(terms)} = {show(self.required, self.unit)}"


class Requirement(Noun):
    """The resources that a machine must offer so that a database fits on it."""

    growth: float
    headroom: float
    """A share: 0.3 is 30 %."""
    percentile: float
    """The percentile of the windows; 100 is the busiest one."""
    window: float
    """Seconds; not shorter than the interval over which the profile's values are averages."""
    asked_window: float = MINUTE
    """Seconds of the windows of all needs, where the profile's values are no longer averages."""
    leading: str
    """The name of the resource whose busiest window the load imitates."""
    begin: float
    end: float
    """End of that window; both are seconds since 1970."""
    needs: tuple[Need, ...]
    work: StatementLoad
    """As measured: without growth and headroom."""
    transactions: float | None
    """Transactions a second, as measured; None where they are not counted."""
    cpu_seconds_per_transaction: float | None
    working_set_bytes: int | None
    working_set_method: str
    database_bytes: int | None
    cores: float | None
    """Cores of the source."""
    memory_bytes: int | None
    """Memory of the source."""
    probes: dict[str, float]
    notes: tuple[str, ...]
    """Notes on the requirement, including the assumptions about the work."""
    not_tested: tuple[str, ...]
    """Resources that are not in the profile, or that no load can use."""

    @property
    def factor(self) -> float:
        """Return the factor by which measured rates are multiplied."""
        return self.growth * (1 + self.headroom)

    def need(self, name: str) -> Need | None:
        """Return the need of a resource; None where the profile does not know it."""
        return next((one for one in self.needs if one.name == name), None)

    def rate(self, table_blocks: int) -> float:
        """Return how many statements a second are required; growth and headroom are included.

        `table_blocks` is the number of blocks of one table: a scan reads all of them.
        """
        return self.factor * self.work.rate(table_blocks)


_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%")


def parse_share(text: str) -> float:
    """Return a headroom such as `30%` as a share; raise Impossible for other text."""
    match = _PERCENT.fullmatch(text.strip())
    if match is None:
        raise Impossible(f"--headroom is {text!r}: it must be a percentage such as 30%")
    return float(match[1]) / 100


def of(
    profile: ResourceProfile,
    *,
    growth: float = 1.0,
    headroom: float = 0.0,
    percentile: float = 100.0,
    window: float = MINUTE,
    by: str = "",
) -> Requirement:
    """Return the requirement of a profile; `by` names the leading resource, or is "" for the first.

    The load imitates the busiest `window` seconds of the leading resource, or, with a `percentile`
    below 100, those at this percentile.  `growth` is a factor, `headroom` a share (0.3 is 30 %).
    Raise Impossible, in one sentence, for factors out of range and for a profile without load;
    raise NotFound for a resource that does not exist.
    """
    _check(growth, headroom, percentile, window)
    own = without_others(profile)
    leader = _leader(own, by)
    moment = _imitated(own, leader, percentile, window)
    done = workload_mix.of(
        moment.columns,
        statements=profile.statements,
        block_bytes=profile.source.block_bytes,
        hot=hot_share(profile.tables),
    )
    scale = _Scale(growth, headroom)
    needs = tuple(_needs(profile, own, moment, scale, percentile, window))
    rate = workload_mix.transactions(moment.columns)
    return Requirement(
        growth=growth,
        headroom=headroom,
        percentile=percentile,
        window=moment.end - moment.begin,
        asked_window=window,
        leading=leader.name,
        begin=moment.begin,
        end=moment.end,
        needs=needs,
        work=done,
        transactions=rate,
        cpu_seconds_per_transaction=done.cpu_cores / rate if done.cpu_cores and rate else None,
        working_set_bytes=_working_set(profile),
        working_set_method=_method(profile),
        database_bytes=_database_bytes(profile),
        cores=profile.source.cores,
        memory_bytes=profile.source.memory_bytes,
        probes=dict(profile.source.probes),
        notes=(
            *usage.contradictions(profile),
            *_averaged(profile, moment, needs, window),
            *_of_others(profile, own, percentile, window),
            *_notes(leader, needs),
            *_on_the_host(profile, needs),
            *done.assumptions,
        ),
        not_tested=tuple(_not_tested(profile, moment.columns)),
    )


def _check(growth: float, headroom: float, percentile: float, window: float) -> None:
    check_margin(growth, headroom)
    if not 0 < percentile <= 100:
        raise Impossible(f"percentile is {percentile:g}: it must be above 0 and at most 100")
    if not 1 <= window <= 86400:
        raise Impossible(f"window is {window:g} s: it must be from 1 s to 24 h")


def check_margin(growth: float, headroom: float) -> None:
    """Raise Impossible for a growth or a headroom that no requirement can have."""
    if not 0 < growth <= 1000:
        raise Impossible(f"growth is {growth:g}: it must be above 0, such as 1.5, and at most 1000")
    if not 0 <= headroom <= 100:
        raise Impossible(f"headroom is {headroom:.0%}: it must be 0% or more, such as 30%")


def _refuse_wild(columns: Mapping[str, float]) -> None:
    """Raise Impossible if a column of a profile has a value that no machine has ever had.

    `columns` is column -> mean in the busiest window.
    """
    wild = next(
        (name for name, value in columns.items() if not value <= _MOST[KNOWN[name].unit]), ""
    )
    if wild:
        raise Impossible(
            f"{wild} is {columns[wild]:.3g} {KNOWN[wild].unit} in the profile's busiest window, "
            f"and no machine does so much: something else wrote that file"
        )


def _leader(profile: ResourceProfile, by: str) -> Resource:
    if by:
        if by not in NAMED:
            raise NotFound(f"there is no resource {by!r}{nearest(by, NAMED)}")
        return NAMED[by]
    leader = usage.leading(profile)
    if leader is None:
        raise Impossible(
            "nothing was read, written, committed or computed in this profile, so that no size "
            "follows from it: profile the source while it is in use"
        )
    return leader


def _imitated(
    profile: ResourceProfile, leader: Resource, percentile: float, window: float
) -> ProfileWindow:
    """Return the window that the load imitates; raise Impossible if there is none, or a wild one.

    It is the one at the percentile of the windows of `window` seconds, by the resource `leader`.
    """
    moment = usage.moment(profile, leader, percentile=percentile, window=window)
    if moment is None:
        raise _without_window(profile, leader, window)
    _refuse_wild(moment.columns)
    return moment


def _without_window(profile: ResourceProfile, leader: Resource, window: float) -> Impossible:
    """Return the error that no window of `window` seconds of a resource is known as a whole."""
    short = profile.whole_seconds < window
    return Impossible(
        f"no {show_duration(window)} of {leader.title} is known in this profile as a whole, "
        f"which has {show_duration(profile.whole_seconds)}",
        f"profile the source {'for longer' if short else 'without gaps'}, or give `size` a "
        f"shorter --window",
    )


class _Scale(NamedTuple):
    """Growth and headroom, by which measured loads are multiplied; memory and data are not."""

    growth: float = 1.0
    headroom: float = 0.0


def _needs(  # noqa: PLR0917 - what a need is made of
    profile: ResourceProfile,
    own: ResourceProfile,
    moment: ProfileWindow,
    scale: _Scale,
    percentile: float,
    window: float,
) -> Iterable[Need]:
    """Yield the needs of a profile; `own` is the same profile without the reads of others."""
    has_own = has_own_cpu(profile)
    for name in _NEEDED:
        if name == ("cpu" if has_own else "server_cpu"):
            continue
        resource = NAMED[name]
        most = usage.moment(own, resource, percentile=percentile, window=window)
        left = None if most is None else most.value(resource)
        if most is None or left is None:
            continue
        growth, headroom = scale if resource.load else _Scale()
        others = _others(profile, most, resource)
        yield Need(
            name=name,
            title=resource.title,
            unit=resource.unit,
            measured=left + others,
            begin=most.begin,
            end=most.end,
            growth=growth,
            headroom=headroom,
            required=left * growth * (1 + headroom),
            meanwhile=moment.value(resource),
            others=others,
        )


def has_own_cpu(profile: ResourceProfile) -> bool:
    """Return whether the CPU of the server alone is known for about as long as that of the host."""
    own = profile.coverage("server_cpu_cores")
    return own > 0 and own >= _ENOUGH * profile.coverage("cpu_cores")


def without_others(profile: ResourceProfile) -> ResourceProfile:
    """Return a profile with only those reads of the device that the database can have done.

    The database reads the blocks that it missed, each by one request at most.  It also reads its
    temporary files, about as often as they are written.  Reads above that are others', and are
    taken out of their rows, unless they are a small part of all reads.  Rows in which one of these
    columns is not known are left as they are.
    """
    if not {"blocks_read", "read_mbps"} <= profile.columns.keys() or not profile.ends.size:
        return profile
    ends, spans = profile.ends, profile.spans
    size = profile.source.block_bytes or _BLOCK
    # A server may count blocks some seconds after the disk has read them, so rows of seconds are
    # compared by the minute.
    middles = ends - spans / 2 - (ends[0] - spans[0])
    _, minutes = np.unique(np.floor(middles / MINUTE), return_inverse=True)
    columns = dict(profile.columns)
    with np.errstate(over="ignore"):
        temporary = np.nan_to_num(profile.column("temp_mbps")) * 1e6 / size
        blocks = profile.column("blocks_read") + temporary
        for name, limit in (("read_iops", blocks), ("read_mbps", blocks * size / 1e6)):
            reads = profile.column(name)
            known = np.isfinite(reads + limit + profile.column("read_mbps"))
            done, own = (
                np.bincount(minutes, np.where(known, values * spans, 0.0)).astype(np.float64)
                for values in (reads, limit)
            )
            own = _counted_in_time(own, done)
            shares = np.ones_like(done)
            np.divide(own, done, out=shares, where=done - own > _BY_OTHERS * done)
            columns[name] = np.where(known, reads * shares[minutes], reads)
    return replace(profile, columns={name: columns[name] for name in profile.columns})


def _counted_in_time(own: Numbers, done: Numbers) -> Numbers:
    """Return the reads that the database can have done in each minute, `own`, moved to their time.

    PostgreSQL counts the blocks of a statement at its end, which may be many minutes late.  `done`
    are the reads of the device.  Where `own` is more than twice as many, the surplus over what is
    counted usually, and in the minute after, is moved to the minutes just before in which the
    device read more than was counted.  Blocks of a statement that has not ended are not counted.
    """
    # Blocks that were in the page cache are counted, too, and no device read them: but in most
    # minutes, and not only in the one in which a statement ends.
    usual = np.maximum(np.append(own[1:], 0.0), np.median(own))
    moved, late = own.copy(), 0.0
    for minute in reversed(range(len(done))):
        missing = float(done[minute] - moved[minute])
        if missing > 0:
            used = min(late, missing)
            moved[minute] += used
            late -= used
        else:
            surplus = own[minute] - max(done[minute], usual[minute])
            late = max(0.0, float(surplus)) if own[minute] > 2 * done[minute] else 0.0
    return moved


def _others(profile: ResourceProfile, own: ProfileWindow, resource: Resource) -> float:
    """Return how much of a resource others used in a window, in the resource's unit.

    `own` is that window of the profile without the reads of others.
    """
    left = own.value(resource)
    whole = usage.at(profile, own.begin, own.end).value(resource)
    return 0.0 if left is None or whole is None else max(0.0, whole - left)


def hot_share(tables: Iterable[TableUse]) -> str:
    """Return the hot share of the data and its share of the accesses, as `10%/90%`.

    Tables are taken whole, and sorted by accesses a byte, most first.  They are split in two where
    the two shares are furthest apart.  Return "" if the two shares differ too little for a hot
    part.  The distribution inside a table is not known.
    """
    used = [(one.bytes, one.blocks_hit + one.blocks_read) for one in tables if one.bytes]
    used.sort(key=lambda one: one[1] / one[0], reverse=True)
    bytes_, accesses = np.cumsum(np.array(used, dtype=np.float64).reshape(-1, 2), axis=0).T
    if not accesses.size or not accesses[-1] > 0:
        return ""
    size, got = bytes_ / bytes_[-1], accesses / accesses[-1]
    knee = int(np.argmax(got - size))
    if got[knee] - size[knee] < _APART_SHARES:
        return ""
    return f"{max(size[knee], _LEAST_HOT):.2%}/{got[knee]:.1%}"


def _database_bytes(profile: ResourceProfile) -> int | None:
    if profile.source.database_bytes is not None:
        return profile.source.database_bytes
    sizes = usage.signal(profile, NAMED["database"]).values
    return int(sizes[-1]) if len(sizes) else None


def _working_set(profile: ResourceProfile) -> int | None:
    known = profile.working_set
    if known is not None and known.bytes is not None:
        return known.bytes
    return _database_bytes(profile)


def _method(profile: ResourceProfile) -> str:
    known = profile.working_set
    if known is not None and known.bytes is not None:
        return known.method
    if _database_bytes(profile) is None:
        return "neither it nor the size of the data is known"
    return "not known, so that it is taken to be all of the data"


def _averaged(
    profile: ResourceProfile, moment: ProfileWindow, needs: Iterable[Need], window: float
) -> Iterable[str]:
    """Yield a sentence if values that the needs are based on are averages over too long a time."""
    length = moment.end - moment.begin
    if length > window * 1.1:
        yield (
            f"the profile's values are averages over {show_duration(length)}, so this is the "
            f"busiest {show_duration(length)}: a minute in it may have needed several times as much"
        )
        return
    rows = (rolling_windows.coarsest(usage.signal(profile, NAMED[one.name])) for one in needs)
    longest = max((*rows, *(one.end - one.begin for one in needs)), default=0.0)
    if longest > window * 1.1:
        yield (
            f"a part of the profile's values are averages over up to {show_duration(longest)}: a "
            f"minute in it may have needed several times as much"
        )


def _of_others(
    profile: ResourceProfile, own: ResourceProfile, percentile: float, window: float
) -> Iterable[str]:
    """Yield a sentence for each resource that others used in the busiest window of the device.

    `own` is the profile without the reads of others.
    """
    for resource in (NAMED[name] for name in _READS):
        most = usage.moment(profile, resource, percentile=percentile, window=window)
        whole = None if most is None else most.value(resource)
        if most is None or whole is None:
            continue
        others = _others(profile, usage.at(own, most.begin, most.end), resource)
        if others:
            yield (
                f"{resource.title} ({resource.unit}): {show(others, resource.unit)} of the "
                f"{show(whole, resource.unit)} at {usage.clock(most.end)} were not the database's, "
                f"which missed fewer blocks than that: {OTHERS_READ}, and that is not required here"
            )


def _notes(leader: Resource, needs: Iterable[Need]) -> Iterable[str]:
    for need in needs:
        if not NAMED[need.name].load or need.meanwhile is None:
            continue
        left = need.measured - need.others
        if left > _APART * need.meanwhile and need.name != leader.name:
            times = left / need.meanwhile if need.meanwhile else math.inf
            many = f"{times:.3g} times as much as" if times < 1000 else "far more than"
            yield (
                f"{need.title} ({need.unit}): at {usage.clock(need.end)} it was {many} in the "
                f"window that the load imitates: `--by {need.name}` imitates that one"
            )


def _on_the_host(profile: ResourceProfile, needs: Iterable[Need]) -> Iterable[str]:
    """Yield sentences on load of other programs at the source, which the needs may include."""
    writes = [need.title for need in needs if need.name in _WRITES]
    if writes and profile.source.kind == "live":
        yield (
            f"{writes[0]}: of all programs on that disk, as no kernel counts whose they were; what "
            f"others wrote is in this need"
        )
    own = next((need for need in needs if need.name == "server_cpu"), None)
    if own is None:
        return
    whole = usage.at(profile, own.begin, own.end).value(NAMED["cpu"])
    if whole is not None and whole - own.measured > _CLEAR_CORES:
        yield (
            f"CPU: the source's host used {show(whole, 'cores')} in the minute of the most, and "
            f"{show(own.measured, 'cores')} of them were the server's: the rest was others' load, "
            f"and is not required here"
        )


def _not_tested(profile: ResourceProfile, columns: Mapping[str, float]) -> Iterable[str]:
    yield from UNTESTED
    for part in usage.completeness(profile).parts:
        if part.share <= 0:
            yield f"{part.title}: not in the profile, so {part.without}"
    if not usage.signal(profile, NAMED["cpu"]).seconds and "server_cpu_cores" not in columns:
        yield "the CPU that the source's transactions cost, which is not known"
    if columns.get("temp_mbps"):
        yield f"temporary files, of which the source wrote {columns['temp_mbps']:.3g} MB/s"
    if columns.get("lock_waits") or columns.get("sessions_waiting_lock"):
        yield "locks of the application, for which sessions of the source waited"
    if columns.get("net_in_mbps") or columns.get("net_out_mbps"):
        yield "the network between the application and the database"
    if _working_set(profile) is None:
        yield "the size of the working set, which is not known"
