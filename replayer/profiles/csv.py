"""csv: a header with replayer's column names, for data that databases and clouds record.

Columns of a CSV, in any order:

    time                 the end of the interval: ISO 8601, 20261127, 202611271000, 20261127100000,
                         or s, ms, us or ns since 1970
    begin                its start, instead of the end or in addition to it
    seconds              its length, if that is not the time since the previous row
    cores                processors of the machine; an empty cell is as in the row before
    cpu_percent          use of all processors together, if cpu_cores is not known
    memory_total_bytes   memory of the machine; an empty cell is as in the row before
    memory_free_bytes    available part of that memory, if memory_bytes is not known
    NAME_max             the busiest minute in the row, next to the row's mean in NAME (also
                         cpu_percent_max)
"""

import csv
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from replayer import units
from replayer.errors import Impossible, nearest
from replayer.results import imported, intervals
from replayer.results.imported import ImportSource, words
from replayer.results.profile import KNOWN, MOST_ROWS, ResourceProfile

SIGN = re.compile(
    # SQL*Plus begins with an empty line.
    r"\A\s{0,80}(?![\s{\[]|Linux )(?=[^\n]{0,4000}[,;\t])[^\n]{0,4000}?\b(time|begin)\b",
    re.IGNORECASE,
)

_OWN = ("cores", "cpu_percent", "cpu_percent_max", "memory_total_bytes", "memory_free_bytes")
_TIMES = ("time", "begin", "seconds")
_MAX = "_max"
_MINUTE = 60.0
_BARE = re.compile(r"\d{1,19}(\.\d{1,15})?")
_DATES = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
"""Number of digits -> a date without separators, with or without a time."""
_OLDEST = datetime(1990, 1, 1, tzinfo=UTC).timestamp()
"""Seconds; no recording is older.  From then to the end of next year, a number has one meaning."""
_SERIAL_ZERO = datetime(1899, 12, 30, tzinfo=UTC).timestamp()
"""Seconds; the day 0 of Excel."""
_DAY = 86400
_LONGEST = 1e8
"""Seconds; a smaller number is taken as it stands: some recordings count from their begin."""
_UNITS = (1.0, 1e3, 1e6, 1e9)
"""Units since 1970 in a second."""
_NONE = frozenset({"", "-", "nan", "null", "none", "n/a", "na"})
_NAMED = 8

Floats = NDArray[np.float64]


@dataclass(slots=True)
class _Header:
    """The delimiter, and the position of each known column."""

    delimiter: str
    places: dict[str, int]


def read(file: ImportSource, devices: Sequence[str]) -> ResourceProfile:
    """Return the profile of a file; raise Impossible if `devices` are given, as a CSV has none."""
    if devices:
        raise Impossible(f"{file.name} is a CSV, which has no devices: leave out --device")
    lines = file.lines()
    header = _header(file, next(lines, (1, ""))[1])
    reader = _Reader(header)
    for number, line in _cells(file, header, lines):
        try:
            reader.add(line)
        except (ValueError, IndexError, OverflowError):
            file.unread.line(number, header.delimiter.join(line))
    if reader.bad:
        file.unread.say(f"{reader.bad:,} cells are no number: they are left out")
    return reader.profile(file)


def _cells(
    file: ImportSource, header: _Header, lines: Iterator[tuple[int, str]]
) -> Iterator[tuple[int, list[str]]]:
    at = 1

    def texts() -> Iterator[str]:
        nonlocal at
        for number, line in lines:
            at = number
            yield line

    rows = csv.reader(texts(), delimiter=header.delimiter)
    while True:
        try:
            row = next(rows, None)
        except csv.Error as error:
            file.unread.say(f"line {at} is not a CSV: {words(error)}")
            continue
        if row is None:
            return
        yield at, row


def _header(file: ImportSource, line: str) -> _Header:
    """Return the known columns of the first line; raise Impossible if none of them is a time."""
    delimiter = max(",;\t", key=line.count)
    names = [_plain(name) for name in next(csv.reader([line], delimiter=delimiter), [])]
    known = {*_TIMES, *_OWN, *KNOWN, *(f"{name}{_MAX}" for name in KNOWN)}
    places = {name: i for i, name in reversed(list(enumerate(names))) if name in known}
    if not {"time", "begin"} & set(places):
        raise Impossible(
            f"{file.name} has no column named time or begin in its first line: "
            f"`replayer profile --help` shows what the header must be"
        )
    unknown = [name for name in names if name and name not in known]
    if unknown:
        some = ", ".join(_suggested(name, known) for name in unknown[:_NAMED])
        more = f" and {len(unknown) - _NAMED} more" if len(unknown) > _NAMED else ""
        file.unread.say(f"{len(unknown)} of {len(names)} columns are not known: {some}{more}")
    return _Header(delimiter, places)


def _plain(name: str) -> str:
    return re.sub(r"\W+", "_", name.strip().lower()).strip("_")


def _suggested(name: str, known: set[str]) -> str:
    close = nearest(name[:60], known)
    return f"{words(name)}{close.rstrip('?') if close.startswith(' -') else ''}"


class _Reader:
    """A reader of rows, and the rows that it has read so far."""

    def __init__(self, header: _Header) -> None:
        self.header = header
        self.rows = intervals.IntervalRows()
        self.zoned = True
        self.newest = datetime(datetime.now(UTC).year + 2, 1, 1, tzinfo=UTC).timestamp()
        self.times: list[float] = []
        """The times that are written as numbers, in seconds since 1970."""
        self.odd_time = ""
        """The first number in the column of the times that is no time; "" without one."""
        self.bad = 0
        self.separators = units.NumberSeparators(header.delimiter)
        self.columns = {n: i for n, i in header.places.items() if n not in _TIMES}

    def add(self, line: Sequence[str]) -> None:
        """Add a row of the CSV; raise ValueError or IndexError if the row has no time."""
        places = self.header.places
        begin = self._time(line[places["begin"]]) if "begin" in places else math.nan
        span = math.nan
        if "seconds" in places:
            span = self._number(line[places["seconds"]], measured=False)
        if "time" in places:
            end = self._time(line[places["time"]])
            span = end - begin if "begin" in places and math.isnan(span) else span
        else:
            if "seconds" in places and not span > 0:
                raise ValueError("a row that has its begin only, where others have their length")
            # Without lengths the begin stands for the end here, see profile().
            end = begin if math.isnan(span) else begin + span
        values = {name: self._number(line[i]) for name, i in self.columns.items() if i < len(line)}
        self.rows.add(end, values, span)

    def _time(self, text: str) -> float:
        """Return a time in seconds since 1970; raise ValueError if its form is not known."""
        text = text.strip()
        if _BARE.fullmatch(text):
            self.times.append(self._bare_time(text))
            return self.times[-1]
        when = datetime.fromisoformat(text)
        if when.tzinfo is None:
            self.zoned = False
            when = when.replace(tzinfo=UTC)
        return when.timestamp()

    def _bare_time(self, text: str) -> float:
        number = float(text)
        if (seconds := _date(text)) is not None and self._is_plausible(seconds):
            self.zoned = False
            return seconds
        for factor in _UNITS:
            if self._is_plausible(number / factor):
                return number / factor
        if number < _LONGEST:
            return number
        self.odd_time = self.odd_time or text
        raise ValueError("a number that is no time")

    def _is_plausible(self, seconds: float) -> bool:
        return _OLDEST <= seconds < self.newest

    def _check_times(self, name: str) -> list[str]:
        """Return a note on times without a date; raise Impossible if no number is a time."""
        times = self.times
        remedy = "write them as 2026-11-27 10:00:00, or as seconds since 1970"
        if self.odd_time and not self.rows.ends:
            raise Impossible(
                f"{name} has times such as {self.odd_time}, which is no time from 1990 to next "
                f"year: {remedy}"
            )
        if times and all(self._is_plausible(_SERIAL_ZERO + time * _DAY) for time in times):
            raise Impossible(
                f"{name} has times such as {times[0]:.10g}, as Excel counts days since 1900: "
                f"{remedy}"
            )
        if times and max(times) < _OLDEST:
            some = f"{times[0]:.10g}, without a date"
            return [f"{name} has times such as {some}: they are taken for seconds since 1970"]
        return []

    def _number(self, text: str, *, measured: bool = True) -> float:
        """Return a number of 0 or more, or NaN for an empty cell or one that is not a number."""
        text = text.strip()
        if text.lower() in _NONE:
            return math.nan
        try:
            value = imported.number(self.separators.plain(text, measured=measured))
        except ValueError:
            value = -1.0
        if value >= 0:
            return value
        self.bad += 1
        return math.nan

    def profile(self, file: ImportSource) -> ResourceProfile:
        """Return the profile of all rows that were added; `file` is the CSV that they are from.

        Raises Impossible if there is no profile, if numbers may have separators of thousands, or if
        the numbers in the column of the times are no times.
        """
        self.separators.check(file.name)
        places = self.header.places
        notes = [*self._check_times(file.name), *self._derive(file)]
        source = {
            "kind": "csv",
            "place": file.name,
            "cores": _middle(self._values("cores")),
            "memory_bytes": _whole(_middle(self._values("memory_total_bytes"))),
        }
        begins = "time" not in places and "seconds" not in places
        made = intervals.profile(
            file, self.rows, source, in_order=False, zoned=self.zoned, begins=begins, notes=notes
        )
        return _expanded(made)

    def _values(self, name: str) -> Floats:
        """Return a column of the file, one value for each row; NaN where it has none."""
        return np.array(self.rows.values.get(name, np.full(len(self.rows.ends), np.nan)))

    def _derive(self, file: ImportSource) -> list[str]:
        """Add cpu_cores and memory_bytes, computed from columns that only a CSV has.

        Return notes on them.  A value that the file has is kept.
        """
        machine = {name: self._values(name) for name in ("cores", "memory_total_bytes")}
        cores, memory = (_filled(values, self.rows.ends) for values in machine.values())
        for suffix in ("", _MAX):
            self._complete(f"cpu_cores{suffix}", self._values(f"cpu_percent{suffix}") / 100 * cores)
        used = memory - self._values("memory_free_bytes")
        if beyond := int((used < 0).sum()):
            file.unread.say(
                f"{beyond:,} rows have more free memory than memory: their memory is left out"
            )
        self._complete("memory_bytes", np.where(used >= 0, used, np.nan))
        notes = [
            f"{name} is empty in some rows: they are taken to have that of the row before"
            for name, values in machine.items()
            if np.isfinite(values).any() and np.isnan(values).any()
        ]
        if self._lacks("cpu_cores", "cpu_percent"):
            notes.append("cpu_percent is of an unknown number of processors: add a column cores")
        if self._lacks("memory_bytes", "memory_free_bytes"):
            notes.append("memory_free_bytes is of an unknown memory: add memory_total_bytes")
        return notes

    def _complete(self, name: str, computed: Floats) -> None:
        """Use computed values in the rows in which the file has none of this column."""
        if np.isfinite(computed).any():
            given = self._values(name)
            self.rows.values[name] = np.where(np.isfinite(given), given, computed).tolist()

    def _lacks(self, name: str, given: str) -> bool:
        """Return whether no value of a column is known, although the one `given` for it is."""
        known, asked = (np.isfinite(self._values(one)).any() for one in (name, given))
        return bool(asked and not known)


def _date(text: str) -> float | None:
    """Return a date without separators in seconds since 1970, as if in UTC; None if it is none."""
    digits, _, fraction = text.partition(".")
    # `.0` follows where dates were kept as numbers.
    if len(digits) not in _DATES or fraction.strip("0"):
        return None
    try:
        return datetime.strptime(digits, _DATES[len(digits)]).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _filled(values: Floats, ends: Sequence[float]) -> Floats:
    """Return a column of the machine; in rows without a value it is that of the row before in time.

    In rows before the first value it is the first one.  Without any value all are NaN.
    """
    order = np.argsort(ends, kind="stable")
    known = np.flatnonzero(np.isfinite(values[order]))
    if not known.size:
        return values
    last = np.searchsorted(known, np.arange(len(values)), side="right") - 1
    filled = np.empty_like(values)
    filled[order] = values[order][known[np.maximum(0, last)]]
    return filled


def _middle(values: Floats) -> float | None:
    known = np.sort(values[np.isfinite(values)])
    return float(known[len(known) // 2]) if known.size else None


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _expanded(profile: ResourceProfile) -> ResourceProfile:
    """Split each row with a known busiest minute into minutes: the busiest first, the others equal.

    The mean of a row stays the same.  The data does not show which minute was the busiest, nor
    whether it was the same minute for two columns.  The maxima of all columns are put into the same
    minute, because a machine must be able to sustain all of them at once.
    """
    peaks = {name.removesuffix(_MAX): v for name, v in profile.columns.items() if _is_max(name)}
    means = {name: v for name, v in profile.columns.items() if not _is_max(name)}
    if not peaks:
        return profile
    many = np.maximum(1, np.round(profile.spans / _MINUTE).astype(int))
    known = np.any([np.isfinite(values) for values in peaks.values()], axis=0)
    many = np.where(known, many, 1)
    if many.sum() > MOST_ROWS:
        raise Impossible(f"{profile.source.place} has more minutes than replayer reads")
    row = np.repeat(np.arange(len(many)), many)
    nth = np.arange(len(row)) - np.repeat(np.cumsum(many) - many, many)
    spans = (profile.spans / many)[row]
    ends = (profile.ends - profile.spans)[row] + spans * (nth + 1)
    columns = {
        name: _peaked(means.get(name), peaks.get(name), many)[row, np.minimum(nth, 1)]
        for name in KNOWN
        if name in means or name in peaks
    }
    note = (
        "of each row only its mean and its busiest minute are known: the minutes between are "
        "taken to be alike, so that percentiles of minutes may lie higher than shown"
    )
    source = profile.source.model_copy(update={"averaged_seconds": float(np.median(spans))})
    return replace(
        profile, source=source, ends=ends, spans=spans, columns=columns,
        notes=(*profile.notes, note),
    )  # fmt: skip


def _is_max(name: str) -> bool:
    return name.endswith(_MAX) and name not in KNOWN


def _peaked(mean: Floats | None, peak: Floats | None, many: NDArray[np.int_]) -> Floats:
    """Return two values for each row: that of its busiest minute, and that of each other minute.

    The result is float64[n, 2].  `mean` and `peak` are a column's mean and maximum in each row, and
    `many` is the row's number of minutes.  A column may lack one of the two, not both.  Without
    `peak`, both values are the mean.  Without `mean`, the second value is NaN.
    """
    if mean is None:
        assert peak is not None
        return np.column_stack((peak, np.full(len(peak), np.nan)))
    if peak is None:
        return np.column_stack((mean, mean))
    most = np.where(np.isfinite(peak), np.fmax(peak, mean), mean)
    # The busiest minute of a row of one minute is the row: its mean, or its maximum without one.
    most = np.where((many == 1) & np.isfinite(mean), mean, most)
    rest = (mean * many - most) / np.maximum(1, many - 1)
    return np.column_stack((most, np.maximum(0.0, rest)))
