"""The charts of a profile: its resources over the time of day, and the minutes above each level."""

from collections.abc import Iterator, Sequence

import numpy as np

from replayer.analysis.profiles import rolling_windows, usage
from replayer.analysis.profiles.usage import NAMED, Resource
from replayer.report.document import Curve, Figure, TimeSeries
from replayer.results.profile import ResourceProfile

_POINTS = 2000
"""The most points of a line."""
_GAPS = 200
_PANELS = (
    # (title of the panel, its resources)
    ("per second", ("transactions", "statements")),
    ("cores", ("cpu", "server_cpu", "steal")),
    ("device, 1/s", ("read_iops", "write_iops")),
    ("device, MB/s", ("read_mbps", "write_mbps")),
    ("blocks/s", ("blocks", "blocks_read")),
    ("log, MB/s", ("wal",)),
    ("sessions", ("sessions", "sessions_active", "sessions_waiting")),
    ("memory, bytes", ("memory",)),
    ("network, MB/s", ("net_in", "net_out")),
)
_DECIDING = ("transactions", "cpu", "iops", "mbps", "net_out", "sessions_active")
_APART = 0.02
"""A line of the largest values is drawn if, at one point, it exceeds the mean by this share.

It is a share of the maximum.
"""
_SEVERAL = 1.5
"""A point that is this many times as long as a row of the profile has several rows in it."""
_SHORTEST = 0.02
"""A level is drawn only if the resource exceeds it for at least this many minutes a day."""
_ROUND = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 86400)
_UNITS = {"1/s": "per s"}


def name_length(seconds: float) -> str:
    """Return the length of a window in a readable form: `5 min`, `30 s`."""
    return f"{seconds / 60:g} min" if seconds >= 60 else f"{seconds:g} s"


def name_resource(resource: Resource) -> str:
    """Return a resource's title, with its unit unless the title or the numbers show the unit."""
    title, unit = resource.title, resource.unit
    return title if unit in {"bytes", "sessions", "locks"} else f"{title}, {_UNITS.get(unit, unit)}"


def edges(profile: ResourceProfile, most: int) -> rolling_windows.Numbers:
    """Return the limits of at most `most` equal parts of the profile's time, in seconds since 1970.

    No part is shorter than the time over which a value of the profile is averaged.
    """
    least = max(profile.source.averaged_seconds, profile.whole_seconds / most)
    # A minute is easier to read than 43 s.
    length = next((one for one in _ROUND if one >= least * (1 - 1e-9)), least)
    many = max(1, int(np.ceil(profile.whole_seconds / length - 1e-6)))
    begin = float(profile.ends[0] - profile.spans[0])
    return begin + length * np.arange(many + 1, dtype=np.float64)


def over_time(profile: ResourceProfile) -> Iterator[TimeSeries]:
    """Yield the chart of the resources over the time of day; nothing if no resource is known."""
    limits = edges(profile, _POINTS)
    panels = [(title, list(_lines(profile, limits, names))) for title, names in _PANELS]
    if not any(lines for _, lines in panels):
        return
    begin, length = float(limits[0]), float(limits[1] - limits[0])
    yield TimeSeries(
        "Over time",
        begin,
        (limits[1:] - begin).tolist(),
        [(title, lines) for title, lines in panels if lines],
        marks=[(gap.begin - begin, gap.reason) for gap in profile.gaps[:_GAPS]],
        note=f"Each point is of {name_length(round(length))}." if length > 1 else "",
    )


def _lines(
    profile: ResourceProfile, edges: rolling_windows.Numbers, names: Sequence[str]
) -> Iterator[Curve]:
    """Yield a line of each resource's means, and one of its largest values if these are higher.

    `names` are the resources.  A point is the time between two of `edges`, in seconds since 1970.
    A point that has only one row of the profile has no separate largest value.
    """
    several = edges[1] - edges[0] > _SEVERAL * profile.source.averaged_seconds
    for color, name in enumerate(names):
        means, most = rolling_windows.grid(usage.signal(profile, NAMED[name]), edges)
        if np.isnan(means).all():
            continue
        title = name_resource(NAMED[name])
        yield Curve(title, (), means.tolist(), color=color)
        if several and np.nanmax(most - means) > _APART * np.nanmax(most):
            yield Curve(f"{title}, most", (), most.tolist(), color=color, style={"dash": 2})


def exceedance(profile: ResourceProfile, of: str) -> Iterator[Figure]:
    """Yield a chart of the minutes for which each resource is above each level.

    A level is a percentage of the resource's maximum.  Nothing is yielded if no resource is known.
    `of` follows the word "minutes" in the chart's title, such as `a day`.
    """
    curves: list[Curve] = []
    for name in _DECIDING:
        made = usage.level_windows(profile, NAMED[name])
        levels, minutes = rolling_windows.exceedance(made)
        if not levels or not levels[-1] > 0:
            continue
        points = [(m, 100 * v / levels[-1]) for v, m in zip(levels, minutes, strict=True)]
        points = [point for point in points if point[0] >= _SHORTEST]
        if len(points) > 1:
            x, y = zip(*points, strict=True)
            number = len(curves)
            style = {"dash": number}
            curves.append(Curve(name_resource(NAMED[name]), x, y, "line", number, style=style))
    if curves:
        yield Figure(
            "levels",
            f"For how many minutes {of} it is above so much of its most",
            curves,
            x=f"minutes {of}",
            y="% of its most",
            axes={"zero": True, "log_x": True},
        )
