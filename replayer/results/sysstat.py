"""Parts that imports of sysstat's tools share: date orders, JSON that may be cut off, devices."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from replayer.errors import Impossible, NotFound, nearest
from replayer.results import mirrors
from replayer.results.imported import ImportSource, quoted, words
from replayer.results.intervals import IntervalRows

_CLOCK = re.compile(r"(?:^|[ T])([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:\s?([AaPp])\.?[Mm]\b\.?)?")
_ZONE_NAME = r"[A-Z]{3,5}"
_BEFORE_CLOCK = re.compile(rf".*\d.*|.*:|{_ZONE_NAME}")
"""A date, `Time:` in any language, or a zone; any other word may be a mark of half a day."""
_AFTER_CLOCK = re.compile(rf"(?:Z|\s?[+-]\d\d(?::?\d\d)?|\s{_ZONE_NAME})?\s*")
_BETWEEN_NUMBERS = r"(?:[:.]|[^\x00-\x7f]{1,8}\s?)"
_ANY_CLOCK = re.compile(
    rf"(?<!\d)\d{{1,2}}(?:(?:{_BETWEEN_NUMBERS}\d\d){{2}}(?!\d)|:\d\d(?!\S))|\bkl\. \d"
)
"""A time of day in a form of any locale: 13.30.32, 09時00分00秒, kl. 13.30."""
KIB, MIB, SECTOR = 1 << 10, 1 << 20, 512
"""Bytes in the units of sysstat's columns."""
_ZONE = re.compile(r"\d([+-]\d\d):?(\d\d)$")
_DATE = re.compile(r"(\d{1,4})([-/.])(\d{1,2})\2(\d{1,4})")
DAY = 86400
_STATISTICS = re.compile(r'"statistics"\s{0,20}:\s{0,20}\[')
_NEXT = re.compile(r"[\s,]{0,80}(?=[{\]])")
_PAIR = re.compile(r'"(nodename|release|number-of-cpus|date|file-date|timezone)"\s{0,9}:'
                   r'\s{0,9}("[^"\n]{0,200}"|\d{1,9})')  # fmt: skip
_RESTART = re.compile(r'"boot"\s{0,9}:\s{0,9}(\{[^{}]{0,300}\})')
_DECODER = json.JSONDecoder()
# sar of sysstat before 12.4 writes devMAJOR-MINOR, with the numbers of Linux's devices.txt.
_NOT_DISKS = re.compile(r"(loop|ram|zram|sr|fd)\d|dev(1|2|7|11)-\d+$")
_STACKED = re.compile(r"(dm-|md|drbd|bcache|zd)\d|dev(9|147)-\d+$|(?!dev\d+-\d+$).+-.+")
_CACHED = re.compile(r"zd\d")
"""Volumes of ZFS, whose cache and compression spare its disks reads and writes."""
_TIMES = ("read_await_ms", "write_await_ms", "queue_depth")
_ARRAY = re.compile(r"md\d+|dev9-\d+")
_DISK = re.compile(
    r"(sd|hd|vd|xvd|dasd|rssd|fio)[a-z]{1,3}\d*|(nvme\d+n|mmcblk|pmem|rbd|nbd)\d+(p\d+)?"
    r"|(cciss|ida)[/!]c\d+d\d+(p\d+)?|dev\d+-\d+"
)
"""Names that the kernel gives to disks; a multipath device or a volume may have any other name."""
_DYNAMIC = re.compile(r"dev(23[4-9]|24\d|25[0-4])-\d+")
"""Majors that Linux deals out at boot, to virtio's disks as well as to volumes."""
_PART = re.compile(r"(.*?)(p?)(\d+)$")
_CLEARLY = 1.1
"""A device that moves so many times the bytes of the disks is not on top of them."""
_NUMBERED = re.compile(r"(dev(?:8|6[5-9]|7[01]|12[89]|13[0-5]|202)-)(\d{1,7})")
"""Disks of SCSI and Xen: of 16 minors each, the first is the disk, the others are partitions."""


def find_clock(stamp: str) -> re.Match[str] | None:
    """Return the match of the time of day in a stamp: hour, minute, second, and A or P or None.

    None if there is no time, or if it may be of half a day with another mark than AM or PM, such as
    02:31:04 μμ of a Greek locale.
    """
    clock = _CLOCK.search(stamp)
    if clock is None:
        return None
    before = stamp[: clock.start(1)].split()
    known = not before or _BEFORE_CLOCK.fullmatch(before[-1])
    return clock if known and (clock[4] or _AFTER_CLOCK.fullmatch(stamp[clock.end() :])) else None


def has_any_clock(line: str) -> bool:
    """Return whether a line has a time of day in the form of any locale, known or not."""
    return _ANY_CLOCK.search(line) is not None


class Orders(NamedTuple):
    """The positions of year, month and day in a date, from 0."""

    year: int
    month: int
    day: int


_ISO, _AMERICAN, _EUROPEAN = Orders(0, 1, 2), Orders(2, 0, 1), Orders(2, 1, 0)


def order_of(dates: Iterable[str]) -> Orders:
    """Return the order of year, month and day in a file's dates, which depends on the locale.

    It is the order in which the dates are closest together.  A single 11/12/26 is taken for 12
    November, as in sysstat's own order; 31/12/26 can only be in December.
    """
    parts = [match.groups() for text in dict.fromkeys(dates) if (match := _DATE.search(text))]
    if parts and all(len(one[0]) == 4 for one in parts):
        return _ISO
    best, shortest = _AMERICAN, None
    for order in (_EUROPEAN, _AMERICAN) if _dotted(parts) else (_AMERICAN, _EUROPEAN):
        days = [day for one in parts if (day := _day(one, order)) is not None]
        if len(days) < len(parts) or not days:
            continue
        length = max(days) - min(days)
        if shortest is None or length < shortest:
            best, shortest = order, length
    return best


def _dotted(parts: Sequence[Sequence[str]]) -> bool:
    return bool(parts) and parts[0][1] == "."


def _day(parts: Sequence[str], order: Orders) -> datetime | None:
    numbers = [int(parts[i]) for i in (0, 2, 3)]
    year = numbers[order.year]
    try:
        return datetime(year + 2000 * (year < 100), numbers[order.month], numbers[order.day],
                        tzinfo=UTC)  # fmt: skip
    except ValueError:
        return None


class StampSequence:
    """The stamps of a file, converted one after the other to seconds since 1970."""

    def __init__(self, order: Orders) -> None:
        """Begin a sequence whose dates have this order of year, month and day."""
        self._order = order
        self._day: datetime | None = None
        self._last = 0.0
        self.zoned = True
        """True as long as every stamp so far had a time zone."""

    def date(self, text: str) -> None:
        """Keep the date in `text`, such as a heading, for later stamps that have no date."""
        if (match := _DATE.search(text)) and (day := _day(match.groups(), self._order)):
            self._day = day

    def seconds(self, stamp: str) -> float:
        """Return a stamp as seconds since 1970.

        A stamp without a date is of the next day if its time is more than half a day before that of
        the last stamp.  Raises ValueError if `stamp` is not a time, or if its date is not known.
        """
        clock = find_clock(stamp)
        if clock is None:
            raise ValueError(f"{quoted(stamp)} is not a time")
        dated = _DATE.search(stamp[: clock.start() + 1])
        if dated:
            self.date(dated[0])
        if self._day is None:
            raise ValueError(f"{quoted(stamp)} has no date")
        second = second_of_day(clock)
        if not dated and second < self._last - DAY / 2:
            self._day += timedelta(days=1)
        self._last = second
        zone = _ZONE.search(stamp)
        self.zoned &= zone is not None
        offset = 60 * (60 * int(zone[1]) + int(zone[1][0] + zone[2])) if zone else 0
        return self._day.timestamp() + second - offset


def second_of_day(clock: re.Match[str]) -> int:
    """Return the seconds from midnight to a time that `find_clock` found."""
    hour = int(clock[1])
    if clock[4]:
        hour = hour % 12 + 12 * (clock[4] in "Pp")
    return hour * 3600 + int(clock[2]) * 60 + int(clock[3])


class Restart(NamedTuple):
    """A start of the machine, as sadf reports it."""

    stamp: Mapping[str, Any]


def statistics(
    file: ImportSource,
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any] | Restart]]:
    """Yield (facts of a machine, one entry of the machine's statistics or a Restart).

    JSON that is cut off or broken is read up to that place, and `file.unread` gets a sentence.
    Raises Impossible if the file is not sysstat's JSON.
    """
    text = file.data.decode("utf-8", errors="replace")
    begin = _STATISTICS.search(text)
    if begin is None:
        raise Impossible(f"{file.name} is JSON, but not that of sysstat's iostat or sadf")
    before = 0
    while begin is not None:
        about = dict(_pairs(text[before : begin.start()]))
        at = begin.end()
        while (match := _NEXT.match(text, at)) and text[match.end()] == "{":
            try:
                one, at = _DECODER.raw_decode(text, match.end())
            except (ValueError, RecursionError):
                file.unread.say("its JSON is cut off or broken: what stands before that was taken")
                return
            yield about, one
        before = at
        begin = _STATISTICS.search(text, at)
        end = begin.start() if begin else len(text)
        yield from ((about, Restart(stamp)) for stamp in _restarts(text[at:end]))


def _pairs(text: str) -> Iterator[tuple[str, str | int]]:
    for match in _PAIR.finditer(text[-4000:]):
        number = match[2].isdigit()
        yield match[1], int(match[2]) if number else words(match[2].strip('"'))


def _restarts(text: str) -> Iterator[Mapping[str, Any]]:
    for match in _RESTART.finditer(text):
        try:
            yield json.loads(match[1])
        except ValueError:
            continue


def disks(names: Sequence[str], wanted: Sequence[str], file: str) -> list[str]:
    """Return the devices whose values are added up: those in `wanted`, else all disks of `names`.

    Each request must be counted once.  A partition's requests are counted at its disk, too, and
    those of a volume, a RAID, a multipath or a loop device at the disks below.  So these devices
    are left out.  Raises NotFound, with `file` as the file's name, for a wanted device that is not
    in `names`, and Impossible if numbers instead of names do not show which devices are disks.
    """
    for name in wanted:
        if name not in names:
            raise NotFound(f"{file} has no device {words(name)!r}{nearest(name, names)}")
    if wanted:
        return list(dict.fromkeys(wanted))
    own = [name for name in names if not _NOT_DISKS.match(name)]
    plain = [name for name in own if not _STACKED.match(name)]
    real = [name for name in plain if _DISK.fullmatch(name)] or plain or own
    if len({(match := _DYNAMIC.fullmatch(name)) and match[1] for name in real}) > 1:
        raise _unknown(file, real, " (`lsblk` prints these numbers as MAJ:MIN)")
    return [name for name in real if not _is_part(name, real)]


def _unknown(file: str, names: Sequence[str], hint: str = "") -> Impossible:
    return Impossible(
        f"{file} does not show which of {words(', '.join(names[:20]))} are disks, and which are "
        f"volumes on top of them: name the disks with --device{hint}"
    )


class DeviceLists:
    """The lists of devices that one start of a tool wrote; iostat and sar omit idle ones by -z."""

    def __init__(self) -> None:
        """Begin without a list."""
        self._seen: set[str] = set()
        self._short = False
        self.omit_idle = False
        """True if a device was missing after it had been listed.

        One that appears and stays was connected then: before, its load is not known.
        """

    def add(self, names: Iterable[str]) -> None:
        """Add the list of a report; that of the last report may be cut off, and shows nothing."""
        self.omit_idle |= self._short
        present = {name for name in names if not _NOT_DISKS.match(name)}
        self._seen |= present
        self._short = len(present) < len(self._seen)


class DiskRows:
    """The disks that are added up in each row of a profile, `wanted` ones or all."""

    def __init__(self, file: str, wanted: Sequence[str]) -> None:
        """Begin without a row; `file` is the name of the tool's file."""
        self._file = file
        self.wanted = wanted
        self._chosen: dict[tuple[str, ...], list[str]] = {}
        self.names: dict[str, None] = {}
        """The devices of all lists."""
        self.notes: list[str] = []
        """Notes on the choice of the `wanted` disks."""
        self._empty: list[tuple[DeviceLists, int]] = []
        self._moved = mirrors.BytesMoved()
        self.lists = DeviceLists()
        """The lists of the current start of the tool."""

    def choose(self, moved: Mapping[str, tuple[float, float]], row: int) -> list[str]:
        """Return the disks to add up of the list of a row, [] if none of them is in it.

        `moved` has the bytes that each device of the list read and wrote, per second.
        Raises Impossible if the list does not show which devices are disks.
        """
        names = list(moved)
        self.lists.add(names)
        if not self.wanted:
            self._moved.add(moved, row)
        self.names |= dict.fromkeys(names)
        key = tuple(names)
        if key not in self._chosen:
            self._chosen[key] = (
                [name for name in names if name in self.wanted]
                if self.wanted
                else disks(names, (), self._file)
            )
        if not self._chosen[key]:
            self._empty.append((self.lists, row))
        return self._chosen[key]

    def with_arrays(self) -> "DiskRows | None":
        """Return the disks to use instead, with arrays in the place of disks that hold copies.

        Returns None if no disk is known to hold copies, or if the devices are `wanted` ones.
        Raises Impossible if the lists do not show which devices are disks, or if a device that is
        not one of the disks moved more bytes than they did.
        """
        if self.wanted:
            return None
        chosen = disks(list(self.names), (), self._file)
        most = _CLEARLY * sum(map(self._moved.total, chosen))
        own = [
            name
            for name in self.names
            if not _NOT_DISKS.match(name)
            and not _CACHED.match(name)
            and name not in chosen
            and self._moved.total(name) > most
        ]
        if own:
            raise _unknown(self._file, [*own, *chosen])
        arrays = [name for name in self.names if _ARRAY.fullmatch(name)]
        mirrored = self._moved.mirrored(arrays, chosen)
        self.notes = mirrored.notes
        if mirrored.devices == chosen:
            return None
        instead = DiskRows(self._file, mirrored.devices)
        instead.notes = mirrored.notes
        return instead

    def finish(self, rows: IntervalRows, columns: Iterable[str]) -> tuple[list[str], list[str]]:
        """Return (the disks of all rows, notes); idle rows get 0 where `columns` have no value.

        Raises NotFound if no row has a wanted disk, Impossible as `choose` does.
        """
        names = list(self.names)
        chosen = disks(names, self.wanted, self._file)
        notes = note_of_choice("devices", names, chosen) + self.notes
        idle = [row for lists, row in self._empty if lists.omit_idle]
        if chosen and idle:
            rows.fill(idle, columns, 0.0)
            notes.append(
                f"{len(idle):,} intervals list none of the disks, as if -z had left out idle ones: "
                f"their load is taken as 0"
            )
        if any(map(_ARRAY.fullmatch, chosen)):
            # Kernels before 5.9 count no times of a software RAID.
            untimed = [
                name
                for name in _TIMES
                if name in rows.values and not any(value > 0 for value in rows.values[name])
            ]
            for name in untimed:
                del rows.values[name]
            if untimed:
                notes.append(
                    "its kernel does not time the requests of md: their waits are not known"
                )
        return chosen, notes


def note_of_choice(kind: str, names: Sequence[str], chosen: Sequence[str]) -> list[str]:
    """Return a note that names what was added up of `names`, [] if it was all of them."""
    if len(names) <= len(chosen):
        return []
    some = f"{', '.join(names[:20])}{', …' if len(names) > 20 else ''}"
    return [f"taken of the {kind} {some}: {', '.join(chosen[:20]) or 'none'}"]


def _is_part(name: str, names: Sequence[str]) -> bool:
    if numbered := _NUMBERED.fullmatch(name):
        minor = int(numbered[2])
        return minor % 16 > 0 and f"{numbered[1]}{minor - minor % 16}" in names
    match = _PART.match(name)
    # nvme0n1p1 is a partition of nvme0n1, and sda1 one of sda.
    return match is not None and match[1] != name and match[1] in names
