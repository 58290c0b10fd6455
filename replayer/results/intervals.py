"""Conversion of other tools' rows to a profile: sorted, without duplicates, with marked gaps.

A row holds a tool's values for the time up to a stamp, or from a stamp on.  Tools rarely report how
long that time is.  It is taken as the time since the stamp before, or until the next one, unless
this is much longer than the usual distance between the rows nearby.  Then there is a gap, and the
usual distance is taken.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from replayer.errors import Impossible
from replayer.results.imported import ImportSource
from replayer.results.profile import (
    COLUMNS,
    MOST_ROWS,
    NO_ZONE,
    Gap,
    ProfileSource,
    ResourceProfile,
)

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

HOUR = 3600.0
_LATE = 1.5
"""Number of usual intervals; if a row comes later than that, there is a gap before it."""
_NEAR = 9
"""Number of neighbouring distances between rows; their median is the usual interval."""
_JITTER = 0.1
"""Share of a row by which it may overlap the row before: tools are late, and stamps are rounded."""
_ROUNDED = 1.0
"""Seconds by which a row may overlap in addition."""
_FEW, _FEW_SHARE = 3, 0.01
"""A file of one server may have so many rows that overlap others and differ, and such a share."""
_MOSTLY = 0.4
"""Share of the rows: a file with more of them of the same hour as others is not of one server."""
_MOST_GAPS = 10_000
_LEAST = 0.01
"""Seconds; a row that is nearer than this to the row before has the same stamp."""
_OLDEST, _NEWEST = -2e9, 1e11
"""Limits of plausible stamps, in seconds since 1970: no server's clock is outside of them."""


@dataclass(slots=True)
class IntervalRows:
    """Rows that were read from a file, in the order of the file."""

    ends: list[float] = field(default_factory=list)
    """The end of each row, in seconds since 1970."""
    spans: list[float] = field(default_factory=list)
    """Seconds that each row covers; NaN where the tool does not report it."""
    values: dict[str, list[float]] = field(default_factory=dict)
    """Name of a column of a profile -> one value for each row; NaN where the row has none."""

    def add(self, end: float, values: Mapping[str, float], span: float = np.nan) -> None:
        """Add a row that ends at `end`, in seconds since 1970, and covers `span` seconds.

        `values` has column -> value.  A `span` of NaN is not known.  Raises ValueError for an
        implausible stamp or span, Impossible if there are too many rows.
        """
        if not _OLDEST < end < _NEWEST or span <= 0:
            raise ValueError("no clock stands there")
        if len(self.ends) >= MOST_ROWS:
            raise Impossible(f"there are more rows than replayer reads, {MOST_ROWS:,}")
        for name, value in values.items():
            if name not in self.values:
                self.values[name] = [np.nan] * len(self.ends)
            self.values[name].append(value)
        self.ends.append(end)
        self.spans.append(span)
        for column in self.values.values():
            if len(column) < len(self.ends):
                column.append(np.nan)

    def fill(self, rows: Sequence[int], columns: Iterable[str], value: float) -> None:
        """Set these columns to `value` in those of the rows, counted from 0, that have none."""
        for values in (self.values[name] for name in columns if name in self.values):
            for row in rows:
                if row < len(values) and np.isnan(values[row]):
                    values[row] = value


def profile(
    file: ImportSource,
    rows: IntervalRows,
    source: Mapping[str, object],
    *,
    in_order: bool,
    zoned: bool,
    begins: bool = False,
    notes: Sequence[str] = (),
) -> ResourceProfile:
    """Return the profile of a file's rows.

    `source` has the fields of ProfileSource that are known, except averaged_seconds.
    `in_order`: the tool wrote each row when it had measured it.  A stamp before the previous one
    then means that the clock was set back.
    `zoned`: stamps are in UTC, so they do not go back at the end of summer time.
    `begins`: the stamps in `rows.ends` are the begins of the rows, whose lengths are not known.
    Columns of the rows that are called NAME_max become columns of the profile, too.
    Raises Impossible, in one sentence, if there is no row, no known value, only one row of unknown
    length, or if the rows are of several servers.
    """
    if not rows.ends:
        raise Impossible(f"{file.name} has no row with a time and a value")
    order = _Order(file.name, rows, zoned=zoned, in_order=in_order)
    columns = {
        name: np.array(rows.values[name])[order.chosen]
        for name in (f"{column.name}{suffix}" for suffix in ("", "_max") for column in COLUMNS)
        if name in rows.values
    }
    columns = {name: values for name, values in columns.items() if np.isfinite(values).any()}
    if not columns:
        raise Impossible(f"{file.name} has no value of anything that a profile knows")
    stated = np.array(rows.spans)[order.chosen]
    if not in_order:
        _refuse_several(file.name, order.ends, _overlapping(order.ends, stated))
    convert = _spans_of_begins if begins else _spans
    ends, spans, gaps = convert(file.name, order.ends, stated)
    gaps += order.gaps
    return ResourceProfile(
        ProfileSource.model_validate({**source, "averaged_seconds": float(np.median(spans))}),
        ends=ends,
        spans=spans,
        columns=columns,
        gaps=tuple(sorted(gaps, key=lambda gap: gap.begin)),
        notes=(*notes, *order.notes),
    )


class _Order:
    """The rows to use, in the order of time: `chosen` are their indexes, `ends` their stamps.

    The stamps are corrected for summer time and for steps of the clock.
    """

    def __init__(self, name: str, rows: IntervalRows, *, zoned: bool, in_order: bool) -> None:
        self.gaps: list[Gap] = []
        self.notes: list[str] = []
        ends = np.array(rows.ends)
        if not zoned:
            self.notes.append(f"{name} {NO_ZONE}: they are shown as they stand")
            ends = self._without_summer_time(ends, rows)
        if in_order:
            ends = self._without_steps(ends)
        chosen = np.argsort(ends, kind="stable")
        moved = int((np.diff(ends) < 0).sum())
        if moved:
            self.notes.append(f"rows were not in the order of time in {moved:,} places: sorted")
        ends = ends[chosen]
        first = np.concatenate(([True], np.diff(ends) > _LEAST))
        if not first.all():
            if not in_order:
                _refuse_several(name, ends, _differing(rows, chosen, first))
            many = int((~first).sum())
            self.notes.append(f"{many:,} rows have the time of another one: the first was taken")
        self.chosen = chosen[first]
        self.ends = ends[first]

    def _without_summer_time(self, ends: Floats, rows: IntervalRows) -> Floats:
        """Return the stamps; add an hour to those after the end of summer time, so that all rise.

        Local time goes back by an hour at that end.  If no such end is found, the stamps are
        returned unchanged.
        """
        distances = np.diff(ends)
        usual = _usual(distances)
        back = np.flatnonzero(np.abs(distances + HOUR - usual) <= max(1.0, usual / 2))
        # A file whose times go back at several places is not sorted at all.
        if len(back) != 1 or (distances < 0).sum() > 1 or usual > HOUR:
            return ends
        row = int(back[0])
        if not distances[row] and all(_alike(v[row], v[row + 1]) for v in rows.values.values()):
            return ends  # hourly rows, one of which was written twice
        self.notes.append(
            f"its times go back by an hour after {_clock(ends[row])}, which is taken for the end "
            f"of summer time: later ones are counted on"
        )
        return np.concatenate((ends[: row + 1], ends[row + 1 :] + HOUR))

    def _without_steps(self, ends: Floats) -> Floats:
        """Return the stamps, changed so that they also rise where the clock was set back.

        All later stamps are shifted by the same time.  The first of them then comes one usual
        interval after the row before.  The clock's step is recorded as a gap of zero length.
        """
        distances = np.diff(ends)
        usual = _usual(distances)
        steps = np.flatnonzero(distances < -_LEAST)
        moved = ends.copy()
        for row in steps[:_MOST_GAPS]:
            moved[row + 1 :] += usual - distances[row]
        for row in steps[:_MOST_GAPS]:
            words = (
                f"the clock was set back by {-distances[row]:,.0f} s, to {_clock(ends[row + 1])}"
            )
            self.gaps.append(Gap(begin=moved[row], end=moved[row], reason=words))
        return moved


def _differing(rows: IntervalRows, chosen: NDArray[np.intp], first: Mask) -> Mask:
    """Return which of the rows have other values than the first row of the same time.

    `chosen` has the rows in the order of time, and `first` is True for the first of each time.
    """
    of = chosen[first][np.cumsum(first) - 1]
    differ = np.zeros(len(chosen), dtype=bool)
    for values in map(np.array, rows.values.values()):
        differ |= np.abs(values[chosen] - values[of]) > 0  # False where one is not known
    return differ


def _overlapping(ends: Floats, stated: Floats) -> Mask:
    """Return which rows overlap the row before them by more than jitter.

    `ends` rise, and `stated` are the spans that the tool reports, or NaN.
    """
    since = np.diff(ends, prepend=-np.inf)
    return stated - since > _ROUNDED + _JITTER * stated


def _refuse_several(name: str, ends: Floats, doubled: Mask) -> None:
    """Raise Impossible if so many rows are `doubled` that they are not of one server.

    Those are rows of a time of which other rows have other values.  A clock that was set back by an
    hour, as at the end of summer time, makes some that lie within an hour.
    """
    at = ends[doubled]
    if len(at) <= max(_FEW, _FEW_SHARE * len(ends)):
        return
    if at[-1] - at[0] <= HOUR and len(at) < _MOSTLY * len(ends):
        return
    raise Impossible(
        f"{name} has {len(at):,} rows that overlap others and differ from them, as at "
        f"{_clock(at[0])}: it is of several instances or hosts, its times lack their "
        f"seconds, or its averages overlap",
        "export one of them, or their sums, with full times",
    )


def _alike(one: float, other: float) -> bool:
    return one == other or (np.isnan(one) and np.isnan(other))


def _usual(distances: Floats) -> float:
    rising = distances[distances > _LEAST]
    return float(np.median(rising)) if len(rising) else 1.0


def _spans(name: str, ends: Floats, stated: Floats) -> tuple[Floats, Floats, list[Gap]]:
    """Return (ends, spans, gaps) of the rows; `stated` are the spans that the tool reports, or NaN.

    If the tool reports no span, it is the time since the row before, or the usual interval if that
    time is much longer.  Raises Impossible if there is only one row, of unknown length.
    """
    if len(ends) == 1 and not np.isfinite(stated[0]):
        raise Impossible(
            f"{name} has one row only, and does not say over how many seconds its values are "
            f"averages"
        )
    distances = np.diff(ends)
    usual = _near_medians(distances) if len(distances) else np.empty(0)
    usual = np.concatenate((usual[:1], usual))
    since = np.concatenate(([np.inf], distances))
    guessed = np.where(since <= _LATE * usual, since, usual) if len(distances) else stated
    spans = np.where(np.isfinite(stated), np.minimum(stated, since), guessed)
    missing = since[1:] - spans[1:]
    late = np.flatnonzero(missing > spans[1:] * (_LATE - 1))[:_MOST_GAPS]
    gaps = [
        Gap(
            begin=float(ends[row]),
            end=float(ends[row + 1] - spans[row + 1]),
            reason=f"there are no rows for {missing[row]:,.0f} s",
        )
        for row in late
    ]
    return ends, spans, gaps


def _spans_of_begins(name: str, begins: Floats, stated: Floats) -> tuple[Floats, Floats, list[Gap]]:
    """Return (ends, spans, gaps) of the rows with these begins, as `_spans` does of ends.

    A row lasts until the next one begins.  Seen backwards in time, this is the time since the row
    before, and a begin is an end.
    """
    _, spans, gaps = _spans(name, -begins[::-1], stated[::-1])
    gaps = [gap.model_copy(update={"begin": -gap.end, "end": -gap.begin}) for gap in gaps]
    return begins + spans[::-1], spans[::-1], gaps


def _near_medians(distances: Floats) -> Floats:
    """Return for each distance the median of the distances near it, which is the usual distance."""
    width = min(_NEAR, len(distances))
    around = np.lib.stride_tricks.sliding_window_view(distances, width)
    medians = np.median(around, axis=1)
    before = (len(distances) - len(medians)) // 2
    return np.pad(medians, (before, len(distances) - len(medians) - before), mode="edge")


def _clock(second: float) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%d %H:%M:%S")
