"""Use of each resource in a profile: percentiles, busiest minute, and completeness.

A profile is a server's use of resources over time, in rows of averages.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from replayer.analysis.profiles import rolling_windows
from replayer.analysis.profiles.rolling_windows import (
    MINUTE,
    Numbers,
    Signal,
    WindowPercentiles,
    Windows,
)
from replayer.results.profile import SELDOM, SELDOM_SECONDS, ResourceProfile
from replayer.units import show, show_duration

DAY = 86400.0
_MOSTLY = 0.95
"""A resource that is known for less than this share of the time makes a profile incomplete.

The same is true of a profile that is shorter than this share of a day.
"""


class Resource(NamedTuple):
    """A quantity in reports, such as device reads: the sum of some columns of a profile."""

    name: str
    title: str
    unit: str
    """A unit that units.show knows, or cores, MB/s or ms."""
    columns: tuple[str, ...]
    """The columns that are added up; the resource is known only in rows that have all of them."""
    also: tuple[str, ...] = ()
    """Columns that are also added, in rows that have them."""
    weight: str = ""
    """The column by which the means of this resource are weighted; "" for time only."""
    load: bool = True
    """True if the resource grows with the load; memory and size of data do not."""


RESOURCES = (
    Resource("cpu", "CPU of the host", "cores", ("cpu_cores",)),
    Resource("server_cpu", "CPU of the server", "cores", ("server_cpu_cores",)),
    Resource("steal", "CPU stolen by the hypervisor", "cores", ("cpu_steal",), load=False),
    Resource("memory", "memory in use", "bytes", ("memory_bytes",), load=False),
    Resource("transactions", "transactions", "1/s", ("commits",), ("rollbacks",)),
    Resource("statements", "statements", "1/s", ("statements",)),
    Resource("read_iops", "device reads", "1/s", ("read_iops",)),
    Resource("write_iops", "device writes", "1/s", ("write_iops",)),
    Resource("iops", "device reads and writes", "1/s", ("read_iops", "write_iops")),
    Resource("read_mbps", "device reads", "MB/s", ("read_mbps",)),
    Resource("write_mbps", "device writes", "MB/s", ("write_mbps",)),
    Resource("mbps", "device reads and writes", "MB/s", ("read_mbps", "write_mbps")),
    Resource("read_await", "wait for a read", "ms", ("read_await_ms",), (), "read_iops", False),
    Resource("write_await", "wait for a write", "ms", ("write_await_ms",), (), "write_iops", False),
    Resource("blocks", "blocks asked of the buffers", "1/s", ("blocks_hit", "blocks_read")),
    Resource("blocks_read", "blocks not in the buffers", "1/s", ("blocks_read",)),
    Resource("wal", "log", "MB/s", ("wal_mbps",)),
    Resource("wal_syncs", "log syncs", "1/s", ("wal_syncs",)),
    Resource("temp", "temporary files", "MB/s", ("temp_mbps",)),
    Resource(
        "rows_written",
        "rows written",
        "1/s",
        ("tuples_inserted",),
        ("tuples_updated", "tuples_deleted"),
    ),
    Resource("net_in", "network, received", "MB/s", ("net_in_mbps",)),
    Resource("net_out", "network, sent", "MB/s", ("net_out_mbps",)),
    Resource("sessions", "sessions", "sessions", ("sessions",)),
    Resource("sessions_active", "sessions active", "sessions", ("sessions_active",)),
    Resource("sessions_waiting", "sessions waiting", "sessions", ("sessions_waiting",)),
    Resource("lock_waits", "locks waited for", "locks", ("lock_waits",)),
    Resource("database", "size of the data", "bytes", ("database_bytes",), load=False),
)
NAMED: Mapping[str, Resource] = {resource.name: resource for resource in RESOURCES}
LEADING = ("transactions", "statements", "iops", "mbps", "cpu", "server_cpu")
"""The first of these resources that is known and not always 0 defines the busiest minute."""


class Usage(NamedTuple):
    """The known use of one resource in a profile: percentiles for windows of several lengths."""

    resource: Resource
    share: float
    """The share, 0 to 1, of the profile's time in which the resource is known."""
    resolution: float
    """The median time in seconds, weighted by time, over which a value is averaged."""
    spreads: Mapping[float, WindowPercentiles]
    """Length of a window in seconds -> percentiles, for the known lengths."""
    unknown: Mapping[float, str]
    """Length of a window in seconds -> the reason why it is not known."""


class ProfileWindow(NamedTuple):
    """One window of a profile, from `begin` to `end` in seconds since 1970.

    `columns` has the mean of each column that is known in this window.
    """

    begin: float
    end: float
    columns: Mapping[str, float]

    def value(self, resource: Resource) -> float | None:
        """Return a resource's mean over the window, in its own unit; None if it is not known."""
        if not all(name in self.columns for name in resource.columns):
            return None
        names = (*resource.columns, *(name for name in resource.also if name in self.columns))
        return sum(self.columns[name] for name in names)


def signal(profile: ResourceProfile, resource: Resource) -> Signal:
    """Return a resource's values over time; rows in which it is not known are left out."""
    values = _sum(profile, resource.columns)
    for name in resource.also:
        values = values + np.nan_to_num(profile.column(name), nan=0.0)
    weights = profile.column(resource.weight) if resource.weight in profile.columns else None
    rows = rolling_windows.signal(profile.ends, profile.spans, values, weights)
    if profile.source.kind == "live" and not SELDOM.isdisjoint(resource.columns):
        return rolling_windows.joined(rows, max(SELDOM_SECONDS, profile.source.averaged_seconds))
    return rows


def _sum(profile: ResourceProfile, names: Sequence[str]) -> Numbers:
    total = profile.column(names[0])
    for name in names[1:]:
        total = total + profile.column(name)
    return total


def usages(
    profile: ResourceProfile, lengths: Sequence[float] = rolling_windows.WINDOWS
) -> tuple[Usage, ...]:
    """Return the use of each resource that the profile knows.

    `lengths` are those of the windows, in seconds, over which means are taken.
    """
    known = ((resource, signal(profile, resource)) for resource in RESOURCES)
    return tuple(_usage(profile, one, rows, lengths) for one, rows in known if len(rows.ends))


def usage(
    profile: ResourceProfile, name: str, lengths: Sequence[float] = rolling_windows.WINDOWS
) -> Usage:
    """Return the use of the resource `name`, such as `cpu`; it may be unknown all the time.

    `lengths` are those of the windows, in seconds, over which means are taken.
    """
    return _usage(profile, NAMED[name], signal(profile, NAMED[name]), lengths)


def _usage(
    profile: ResourceProfile, resource: Resource, rows: Signal, lengths: Sequence[float]
) -> Usage:
    """Return the use of a resource, with percentiles for each length of window that is known.

    `rows` are the resource's values over time, and `lengths` are in seconds.
    """
    spreads: dict[float, WindowPercentiles] = {}
    unknown: dict[float, str] = {}
    for length in lengths:
        reason = rolling_windows.reason_unknown(rows, length)
        made = rolling_windows.covering(rows, length)
        measured = None if reason else rolling_windows.spread(made)
        if measured is None:
            unknown[length] = reason or "the profile is shorter than that, or has too many gaps"
        else:
            spreads[length] = measured
    whole = profile.whole_seconds
    share = min(1.0, rows.seconds / whole) if whole else 0.0
    return Usage(resource, share, rolling_windows.resolution(rows), spreads, unknown)


def leading(profile: ResourceProfile) -> Resource | None:
    """Return the resource that defines the busiest minute, such as transactions; None if none does.

    It is the first one in the list LEADING that is known and not always 0.
    """
    for name in LEADING:
        rows = signal(profile, NAMED[name])
        if len(rows.ends) and rows.values.any():
            return NAMED[name]
    return None


def level_windows(profile: ResourceProfile, resource: Resource) -> Windows:
    """Return a resource's means over rolling windows of one minute, in its own unit.

    If the rows of the profile are longer than a minute, the windows are as long as the rows.
    """
    return finest(signal(profile, resource), MINUTE)


def finest(rows: Signal, length: float) -> Windows:
    """Return the means over the shortest windows, of at least `length` seconds, that rows show.

    They are of `length`, or of the median length of the rows if that is longer.  A row that is
    longer than this is a window itself.  Where rows are shorter than this, windows of `length`
    count in no percentile, but the largest mean may be theirs.
    """
    resolution = rolling_windows.resolution(rows)
    if not resolution > length:
        return rolling_windows.covering(rows, length)
    made = rolling_windows.covering(rows, resolution)
    return made.with_candidates(rolling_windows.sliding(rows, length))


def moment(
    profile: ResourceProfile,
    resource: Resource,
    *,
    percentile: float = 100.0,
    window: float = MINUTE,
) -> ProfileWindow | None:
    """Return the window of time in which a resource's mean is largest, or is at `percentile`.

    `percentile` is from 0 to 100, where 100 is the largest mean.  If rows are longer than `window`
    seconds, the window is as long as a row.  Returns None if nothing is known.
    """
    means = finest(signal(profile, resource), window)
    if not means.shares.any():
        return None
    chosen = rolling_windows.at_quantile(means, percentile)
    end = float(means.ends[chosen])
    return at(profile, end - float(means.lengths[chosen]), end)


def at(profile: ResourceProfile, begin: float, end: float) -> ProfileWindow:
    """Return the part of a profile from `begin` to `end`, with the mean of each column in it.

    Both times are in seconds since 1970.  A column is left out if it is known for less than four
    fifths of the time between them.
    """
    inside = np.flatnonzero((profile.ends > begin) & (profile.ends - profile.spans < end))
    part = slice(int(inside[0]), int(inside[-1]) + 1) if inside.size else slice(0, 0)
    ends, spans = profile.ends[part], profile.spans[part]
    columns = {}
    for name, values in profile.columns.items():
        weight = _WEIGHTS.get(name, "")
        weights = profile.column(weight)[part] if weight in profile.columns else None
        rows = rolling_windows.signal(ends, spans, values[part], weights)
        mean = rolling_windows.mean_between(rows, begin, end)
        if mean is not None:
            columns[name] = mean
    return ProfileWindow(begin, end, columns)


_WEIGHTS = {name: one.weight for one in RESOURCES if one.weight for name in one.columns}


class Grade(StrEnum):
    """The degree to which a profile supports a verdict on whether a machine suffices for it."""

    WHOLE = "whole"
    """All deciding resources are known, minute by minute, for at least most of a day."""
    PARTIAL = "partial"
    """A verdict is possible, except for the resources that the reasons name."""
    POOR = "poor"
    """The most important resources are not known: a verdict could use only the others."""


class NeedCoverage(NamedTuple):
    """A quantity that a verdict needs, and the share of the time, 0 to 1, for which it is known."""

    title: str
    share: float
    without: str
    """The consequence for a verdict if the quantity is not known."""


class Completeness(NamedTuple):
    """The completeness of a profile: a grade, the known share of each quantity, and reasons."""

    grade: Grade
    parts: tuple[NeedCoverage, ...]
    reasons: tuple[str, ...]
    """The reasons why the profile is not whole, with their consequences for a verdict."""


_PARTS = (
    # (title, columns of which any one is enough, the consequence if none is known)
    ("CPU", ("cpu_cores", "server_cpu_cores"), "whether the CPU suffices is not tested"),
    ("memory", ("memory_bytes",), "whether the memory suffices is not tested"),
    ("device reads", ("read_iops",), "its reads are guessed from the database's, if known"),
    ("device writes", ("write_iops",), "the device's writes are those that the mix makes"),
    ("device bytes", ("read_mbps",), "the device's throughput is not compared"),
    ("transactions", ("commits",), "the rate is that of its other work"),
    ("kinds of work", ("tuples_inserted", "inserts"), "the share of writes is guessed"),
    ("buffer hits", ("blocks_hit",), "the hit ratio is not compared, reads are guessed"),
    ("log", ("wal_mbps",), "bytes and syncs of the log are those that the mix makes"),
    ("sessions", ("sessions_active", "sessions"), "the number of sessions is guessed"),
    ("network", ("net_in_mbps", "net_out_mbps"), "whether the network suffices is not tested"),
)  # fmt: skip
_LEAST = (("CPU",), ("device reads", "transactions", "buffer hits"))
"""Groups of titles: for any verdict, one quantity of each group must be known."""


def completeness(profile: ResourceProfile) -> Completeness:
    """Return the completeness of a profile: the known share of each quantity, and a grade."""
    parts = [
        NeedCoverage(title, max(profile.coverage(name) for name in names), without)
        for title, names, without in _PARTS
    ]
    reasons = [
        *contradictions(profile),
        *_missing(parts),
        *_short(profile),
        *_coarse(profile),
        *_unknown_set(profile),
    ]
    shares = {part.title: part.share for part in parts}
    possible = all(any(shares[title] > 0 for title in titles) for titles in _LEAST)
    grade = Grade.POOR if not possible else Grade.PARTIAL if reasons else Grade.WHOLE
    return Completeness(grade, tuple(parts), tuple(reasons))


_OF_MACHINE = (("cpu", "cores"), ("server_cpu", "cores"), ("memory", "memory_bytes"))
"""(resource, fact of the machine that the use of the resource cannot exceed)."""
_BEYOND = 1.1
"""The busiest minute may exceed that fact by this factor, because clocks are not exact."""


def contradictions(profile: ResourceProfile) -> Iterator[str]:
    """Yield a sentence for each resource of which a profile shows more use than the machine has.

    It is tested for CPU and memory, by the busiest minute, which may exceed the machine by 10
    percent.  One of the two numbers must be wrong then.
    """
    for name, fact in _OF_MACHINE:
        resource, whole = NAMED[name], getattr(profile.source, fact)
        most = moment(profile, resource)
        used = None if most is None else most.value(resource)
        if whole and used is not None and used > _BEYOND * whole:
            yield (
                f"{resource.title}: {show(used, resource.unit)} were in use, and the machine has "
                f"{show(whole, resource.unit)}: one of the two is wrong"
            )


def _missing(parts: Iterable[NeedCoverage]) -> Iterable[str]:
    for part in parts:
        if part.share <= 0:
            yield f"{part.title}: not in it, so {part.without}"
        elif part.share < _MOSTLY:
            yield (
                f"{part.title}: known for {part.share:.0%} of the time: what the rest needed is "
                f"not in the requirement"
            )


def _short(profile: ResourceProfile) -> Iterable[str]:
    whole = profile.whole_seconds
    if whole < _MOSTLY * DAY:
        hours = f"{whole / 3600:.1f} h" if whole >= 3600 else f"{whole / 60:.1f} min"
        yield f"it is of {hours}: what else a day or a month's end needs is not in it"


def _coarse(profile: ResourceProfile) -> Iterable[str]:
    known = [rolling_windows.coarsest(signal(profile, one)) for one in RESOURCES]
    longest = max((seconds for seconds in known if math.isfinite(seconds)), default=0.0)
    if longest > MINUTE * 1.1:
        yield (
            f"values are averages over up to {show_duration(longest)}: a minute in one of them may "
            f"have needed several times as much, and it is not known"
        )


def _unknown_set(profile: ResourceProfile) -> Iterable[str]:
    known = profile.working_set
    if known is None or known.bytes is None:
        yield (
            "working set: not known, so the data is taken to be in use as a whole"
            if profile.source.database_bytes or "database_bytes" in profile.columns
            else "working set: not known, and the size of the data neither, so neither is tested"
        )


class Ratios(NamedTuple):
    """Ratios that describe a profile's kind of work, over its whole time; None if not known.

    Examples are reads per request to the device, statements per transaction, and the hit ratio.
    """

    reads_of_requests: float | None
    """The device's reads / (reads + writes)."""
    reads_of_bytes: float | None
    """Bytes read from the device / (bytes read + bytes written)."""
    read_bytes: float | None
    """Average bytes of one read of the device."""
    write_bytes: float | None
    """Average bytes of one write of the device."""
    hit_ratio: float | None
    """Blocks found in the server's buffers / all blocks that were asked for."""
    rollbacks: float | None
    """Share of the transactions that were rolled back."""
    statements: float | None
    """Statements per transaction."""
    rows_read: float | None
    """Rows read by scans per transaction."""
    rows_written: float | None
    """Rows inserted, updated or deleted per transaction."""
    wal_bytes: float | None
    """Bytes of log per transaction."""
    cpu_seconds: float | None
    """CPU seconds per transaction: of the server's processes, or of the host if these are not
    known separately."""


_ENDED = ("commits", "rollbacks")


def ratios(profile: ResourceProfile) -> Ratios:
    """Return the ratios that describe a profile's kind of work, such as statements per transaction.

    A ratio is None if its columns are not in the profile, or if the divisor is 0.
    """
    ended = _ENDED if "rollbacks" in profile.columns else _ENDED[:1]
    cpu = "server_cpu_cores" if "server_cpu_cores" in profile.columns else "cpu_cores"

    def ratio(above: Sequence[str], below: Sequence[str], factor: float = 1.0) -> float | None:
        over = _sum(profile, above)
        under = _sum(profile, below)
        known = np.isfinite(over) & np.isfinite(under)
        total = float((under * profile.spans)[known].sum())
        return factor * float((over * profile.spans)[known].sum()) / total if total else None

    return Ratios(
        reads_of_requests=ratio(["read_iops"], ["read_iops", "write_iops"]),
        reads_of_bytes=ratio(["read_mbps"], ["read_mbps", "write_mbps"]),
        read_bytes=ratio(["read_mbps"], ["read_iops"], 1e6),
        write_bytes=ratio(["write_mbps"], ["write_iops"], 1e6),
        hit_ratio=ratio(["blocks_hit"], ["blocks_hit", "blocks_read"]),
        rollbacks=ratio(["rollbacks"], _ENDED),
        statements=ratio(["statements"], ended),
        rows_read=ratio(["tuples_returned"], ended),
        rows_written=ratio(["tuples_inserted", "tuples_updated", "tuples_deleted"], ended),
        wal_bytes=ratio(["wal_mbps"], ended, 1e6),
        cpu_seconds=ratio([cpu], ended),
    )


_KINDS = ("selects", "inserts", "updates", "deletes")
_WRITTEN = {"tuples_inserted": "rows inserted", "tuples_updated": "rows updated",
            "tuples_deleted": "rows deleted"}  # fmt: skip


def kinds(profile: ResourceProfile) -> dict[str, float]:
    """Return kind of statement, such as selects -> its share, 0 to 1, of all; {} if not known.

    If statements were not counted, the shares are those of the rows written.
    """
    if profile.statements:
        return {one.kind: one.share for one in profile.statements}
    for names in ({name: name for name in _KINDS}, _WRITTEN):
        means = {title: profile.mean(name) for name, title in names.items()}
        known = {title: mean for title, mean in means.items() if mean > 0}
        if known:
            return {title: mean / sum(known.values()) for title, mean in known.items()}
    return {}


def clock(second: float) -> str:
    """Return a time in seconds since 1970 as date and time of day, in UTC.

    Imported stamps without a zone are treated as UTC, so they appear as in their file.
    """
    try:
        return datetime.fromtimestamp(round(second), UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, OSError, ValueError):
        return f"second {second:.0f}"
