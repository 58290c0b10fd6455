"""Conversion of stamps (times as servers write them in logs) to nanoseconds since 1970 in UTC.

The abbreviation of a zone means what PostgreSQL's own list gives for it.  An abbreviation that is
not in the list is taken as UTC and remembered, so that a note can report it.
"""

import calendar
import re
from datetime import UTC, datetime, timedelta

_HOURS = {
    **dict.fromkeys(("UTC", "GMT", "Z", "WET", "UCT", "Universal", "Zulu", ""), 0.0),
    **dict.fromkeys(("CET", "BST", "WEST", "MEZ", "WAT"), 1.0),
    **dict.fromkeys(("CEST", "EET", "SAST", "IST", "MESZ", "CAT"), 2.0),
    **dict.fromkeys(("EEST", "MSK", "TRT", "EAT", "IDT"), 3.0),
    **dict.fromkeys(("MSD", "GST"), 4.0),
    **dict.fromkeys(("PKT", "UZT", "YEKT"), 5.0),
    "NPT": 5.75,
    **dict.fromkeys(("WIB", "ICT", "NOVT"), 7.0),
    **dict.fromkeys(("HKT", "SGT", "PHT", "AWST", "WITA", "MYT"), 8.0),
    **dict.fromkeys(("JST", "KST", "WIT"), 9.0),
    "ACST": 9.5,
    **dict.fromkeys(("AEST", "VLAT"), 10.0),
    "ACDT": 10.5,
    "AEDT": 11.0,
    "NZST": 12.0,
    "NZDT": 13.0,
    "NDT": -2.5,
    **dict.fromkeys(("BRT", "ART", "ADT", "UYT", "CLST"), -3.0),
    "NST": -3.5,
    **dict.fromkeys(("EDT", "AST", "CLT", "VET", "BOT"), -4.0),
    **dict.fromkeys(("EST", "CDT", "COT", "PET"), -5.0),
    **dict.fromkeys(("CST", "MDT"), -6.0),
    **dict.fromkeys(("MST", "PDT"), -7.0),
    **dict.fromkeys(("PST", "AKDT"), -8.0),
    "AKST": -9.0,
    "HST": -10.0,
}
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d\d?):?(\d\d)?(?::?(\d\d))?\Z")
_REST = re.compile(r"(?:[.,](\d{1,9}))? ?(\S{0,40})\Z")
_MOST = 4096
_YEARS = 1980, 2200
_SECOND = 10**9
STAMP = r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d"
ZONE = r"(?:[A-Z][A-Za-z_/]{0,30}|[+-]\d\d?(?::?\d\d){0,2})"
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class StampReader:
    """A converter of stamps (times in a log) to nanoseconds; it caches repeated parts of stamps."""

    def __init__(self) -> None:
        self.unknown: set[str] = set()
        """Abbreviations of zones that are not in the list."""
        self._seconds: dict[str, int] = {}
        self._rests: dict[str, int] = {}

    def ns(self, stamp: str) -> int:
        """Return a stamp such as 2026-05-16 05:11:50.269 CEST in nanoseconds since 1970 in UTC.

        Raises ValueError for a text that is no such stamp.
        """
        second = self._seconds.get(stamp[:19])
        if second is None:
            second = self._second(stamp[:19])
        rest = self._rests.get(stamp[19:])
        if rest is None:
            rest = self._rest(stamp[19:])
        return second + rest

    def epoch(self, text: str) -> int:
        """Return nanoseconds since 1970 for a text of seconds since 1970 with a fraction.

        Raises ValueError for a text that is no such number.
        """
        whole, _, fraction = text.partition(".")
        if len(whole) > 10:
            raise ValueError(f"{text!r} is not a time")
        return int(whole) * _SECOND + int((fraction + "0" * 9)[:9])

    def _second(self, text: str) -> int:
        moment = datetime.fromisoformat(text).replace(tzinfo=None)
        if not _YEARS[0] <= moment.year <= _YEARS[1]:
            raise ValueError(f"{text!r} is of a time without such servers")
        if len(self._seconds) >= _MOST:
            self._seconds.clear()
        made = self._seconds[text] = calendar.timegm(moment.timetuple()) * _SECOND
        return made

    def _rest(self, text: str) -> int:
        match = _REST.match(text)
        if match is None:
            raise ValueError(f"{text!r} is not an end of a time")
        fraction, zone = match.groups()
        if len(self._rests) >= _MOST:
            self._rests.clear()
        made = int(f"{fraction or 0:0<9}") - self._offset(zone)
        self._rests[text] = made
        return made

    def _offset(self, zone: str) -> int:
        if (match := _OFFSET.match(zone)) is not None:
            sign, *parts = match.groups("0")
            hours, minutes, seconds = map(int, parts)
            return (hours * 3600 + minutes * 60 + seconds) * (_SECOND if sign == "+" else -_SECOND)
        hours_ = _HOURS.get(zone)
        if hours_ is None:
            self.unknown.add(zone)
            return 0
        return int(hours_ * 3600) * _SECOND


class Yearless:
    """A converter of syslog's stamps, which have no year, such as Feb 11 13:15:39.

    `written` is the time of the last write to the log file, or None for now.  The first stamp is of
    the latest year in which its day is at most one day after that write.  The year goes up by one
    from December to January.
    """

    def __init__(self, written: datetime | None) -> None:
        # Stamps are in local time, which may be a day ahead of UTC.
        self._latest = (written or datetime.now(UTC)) + timedelta(days=1)
        self._year = self._latest.year
        self._last = ""
        self._last_ns = 0
        self._last_month = 0

    def ns(self, stamp: str) -> int:
        """Return the time of a stamp such as Feb 11 13:15:39, in nanoseconds since 1970.

        Stamps must come in the order of the log.  Raises ValueError for a text that is no stamp.
        """
        if stamp == self._last:
            return self._last_ns
        month = MONTHS.index(stamp[:3]) + 1
        hour, minute, second = map(int, stamp[-8:].split(":"))
        latest = self._latest.month, self._latest.day
        if not self._last_month and (month, int(stamp[4:6])) > latest:
            self._year -= 1
        if self._last_month == 12 and month == 1:
            self._year += 1
        self._last_month = month
        day = int(stamp[4:6])
        moment = datetime(self._year, month, day, hour, minute, second, tzinfo=UTC)
        self._last, self._last_ns = stamp, calendar.timegm(moment.timetuple()) * _SECOND
        return self._last_ns
