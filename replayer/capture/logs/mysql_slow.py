"""slow_query_log of MySQL, MariaDB and Percona: statements when they have ended."""

import re
from collections.abc import Iterable, Iterator
from functools import partial

from replayer.capture import holes
from replayer.capture.action import UNKNOWN, Action
from replayer.capture.entry import ReadCounts
from replayer.capture.inputs import CUT, LONGEST_LINE, Input
from replayer.capture.logs import ReadRequest
from replayer.capture.mysql_threads import (
    EXECUTED,
    INSIDE,
    LOCAL,
    NO_SESSION,
    NO_TIME,
    ONE_SESSION,
    RESET,
    SILENT,
    STARTED,
    STATES,
    THROTTLED,
    StampSpreader,
    ThreadAssembly,
    actions,
    dated,
)
from replayer.capture.open_texts import OpenText
from replayer.capture.readings import GAP
from replayer.capture.stamps import StampReader

ENGINE = "mysql"
RANK = 2
_TIME = re.compile(
    r"# Time: (?:(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d))"
    r"|(\d{6} +\d{1,2}:\d\d:\d\d(?:\.\d{1,10})?))\s*"
)
_TIME_AND_USER = re.compile(r"(# Time: [\dTZ:.+ -]{14,40}?) *(# User@Host: .*)")
"""The time and the user on one line, as some patched servers of 5.0 write them."""
_USER = re.compile(r"# User@Host: (.*?)\[.*?\] @ (.*?)(?:\s+Id: +(\d+))?\s*")
_HEAD = re.compile(
    r"^# (?:Time: \d{4}|Time: \d{6} |User@Host: .*\[.*\] @ |Query_time: .* Lock_time: )",
    re.MULTILINE,
)
_COST = re.compile(r"^# Query_time: +\d", re.MULTILINE)
_NAMELESS = re.compile(r"# (?:Thread_id|Query_time): +\d.*")
"""The beginning of an entry without a line about the user, which a server can be set to omit."""
_BEGINS = ("# Time: ", "# User@Host: ", "# Thread_id: ", "# Query_time: ")
"""Beginnings of the first line of an entry."""
_PAIR = re.compile(r"(\w+): ?(\S*)")
_STAMP = re.compile(r"SET (?:\w+=\d+,)*timestamp=(\d{1,11}(?:\.\d{1,9})?);")
_USE = re.compile(r"use (.*);", re.IGNORECASE)
_COMMAND = re.compile(r"# administrator command: (.*?);?")
_GAP = GAP["mysql"]
_EXPLAINED = "# explain: "
"""Begin of a line of MariaDB's plan, in the head between two lines that are only #."""
_WARNINGS = "# Warnings"
"""The line before a statement's warnings, with which the head of MariaDB's entry ends.

A warning may have values of the statement, and these several lines.
"""
_RETURNS = re.compile(
    rf"{_GAP}(?:\({_GAP})*+(?:select|show|with|desc|explain|values|table|check|analyze)\b",
    re.IGNORECASE,
)
_HEADINGS = re.compile(r"(?i:tcp port): .*|Time\s+Id\s+Command\s+Argument\s*|/\*.*\*/;?")
_TEXTLESS = frozenset({"Execute", "Fetch"})
_ERRORS = {"Errno", "Last_errno"}
_NAMES_ROUTINES = {"QC_hit", "Rows_affected"}
"""Facts of each entry of MariaDB since 10.3, which has no entry of the command Change user.

It marks a statement inside of a stored routine.  MySQL and older versions of MariaDB do not.  Such
a statement has the user who defined the routine, so there another user may be no changed one.
"""
_SECOND = 1_000_000_000
_LONGEST_NS = 10**17
"""Three years, in ns: a longer time is an overflow; old servers then wrote 18446744073709 s."""
_QUARTER_NS = 900 * _SECOND
_STARTS_STAMPED = ("4.", "5.0.")
"""Versions of MySQL whose SET timestamp is the start of a statement; later ones write its end."""

_Inside = tuple[int, int, int]
"""Number of statements, start of the first in ns since 1970, and their durations in ns together."""


def fits(head: str) -> bool:
    """Return whether `head`, the beginning of a log, has an entry of a slow_query_log."""
    return _HEAD.search(head) is not None and _COST.search(head) is not None


def find_start(head: str, order: ReadRequest) -> int | None:  # noqa: ARG001 - layouts share one face
    """Return the first time in the beginning of the log, in ns since 1970; None without one."""
    for line in head.split("\n"):
        try:
            if match := _TIME.fullmatch(line):
                return StampReader().ns(match[1] or dated(match[2]))
            if match := _STAMP.fullmatch(line):
                return StampReader().epoch(match[1])
        except ValueError:
            continue
    return None


def read(inputs: Iterable[Input], order: ReadRequest) -> Iterator[list[Action]]:
    """Yield lists of clients' actions in the order of their ends."""
    return actions(_Log(order), inputs, order.advance)


class _Log:
    """A reader that makes entries from the lines of a slow_query_log.

    An entry has a head, which is lines that begin with #, and then the lines of its statement.
    """

    def __init__(self, order: ReadRequest) -> None:
        self.assembly = ThreadAssembly(order.reading, order.announce)
        self.spread = StampSpreader()
        self._reading = order.reading
        self._clock = StampReader()
        self._time_ns = 0
        """Time of the last line that had a time, exact or not."""
        self._exact = False
        self._resumed = False
        """True if the line with the exact time of the next entries was lost in a hole."""
        self._database = ""
        """Database of the last `use` of any session: the log has `use` only where it changes."""
        self._facts: dict[str, str] = {}
        self._stamp_ns = 0
        self._text: list[str] | None = None
        """Lines of the statement; None before the first entry and within the head of an entry."""
        self._size = 0
        self._open = OpenText(order.reading)
        self._zone_ns = 0
        """Nanoseconds by which the local times of stamps with whole seconds are ahead of UTC."""
        self._zoned = False
        self._routines = _Routines(order.reading)

    def begin(self, head: str) -> None:
        """Compute the time zone of a file from the entries in `head`, its beginning.

        An entry may have both a local time and a UTC time.  If none does, the zone of the earlier
        file stays in use; in the first file, local times are then taken as UTC.
        """
        local_ns = 0
        for line in head.split("\n"):
            try:
                if match := _TIME.match(line):
                    local_ns = self._clock.ns(dated(match[2])) if match[2] else 0
                elif local_ns and (match := _STAMP.fullmatch(line.rstrip("\r"))):
                    ahead = local_ns - self._clock.epoch(match[1])
                    self._zone_ns = round(ahead / _QUARTER_NS) * _QUARTER_NS
                    self._zoned = True
                    return
            except ValueError:
                continue

    def take(self, line: str) -> None:
        """Process the next line of the log: of an entry's head (with #), or of its statement."""
        if self._text and (line.startswith(_BEGINS) or STARTED.fullmatch(line)):
            if self._open.goes_on(self._text):
                self._statement(line)
                return
            if self._open.since:
                self._divide()
                self.take(line)
                return
        if line == "#" or line.startswith("# "):
            if both := _TIME_AND_USER.fullmatch(line):
                self.take(both[1])
                self.take(both[2])
                return
            if self._headed(line):
                return
        elif STARTED.fullmatch(line):
            self._begun(line)
            return
        if self._text is None and not self._facts:
            if line and not _HEADINGS.fullmatch(line):
                self._reading.foreign += 1
            return
        self._statement(line)

    def finish(self) -> None:
        """Complete the entry of the last lines, and add its statement to the clients' actions."""
        while self._open.since:
            self._divide()
        text, facts, stamp_ns = self._text, self._facts, self._stamp_ns
        self._text, self._facts, self._stamp_ns, self._size = None, {}, 0, 0
        if text is None or "Query_time" not in facts:
            return
        self._reading.entries += 1
        duration = _duration(facts["Query_time"])
        try:
            exact, moment = self._moment(facts, max(duration, 0), stamp_ns)
        except (ValueError, OverflowError):
            exact, moment = False, 0
        if not moment or "thread" not in facts:
            if not _COMMAND.fullmatch("\n".join(text)):
                self._reading.skip(NO_SESSION if moment else NO_TIME)
            return
        if not self._reading.silent and not _ERRORS & facts.keys():
            self._reading.silent = True
            self._reading.notes[SILENT] = None
        facts.setdefault("Schema", self._database)
        done = partial(self._done, "\n".join(text).removesuffix(";"), facts, duration)
        if exact or self._resumed:
            self.spread.finish()
            done(max(moment, self._time_ns))
            return
        self._reading.coarse = True
        if not stamp_ns and not self._zoned:
            self._reading.notes[LOCAL] = None
        self.spread.add(moment, done)

    def _divide(self) -> None:
        """Take back those lines of the last text that were wrongly taken for a part of it."""
        if rest := self._open.give_back(self._text or []):
            self.finish()
            for line in rest:
                self.take(line)

    def _moment(self, facts: dict[str, str], duration: int, stamp_ns: int) -> tuple[bool, int]:
        """Return (whether the time of a statement is exact, that time in nanoseconds since 1970).

        `facts` are the head of its entry, `duration` its duration in ns, `stamp_ns` the time of its
        SET timestamp.  The time is that of the statement's end, but in MariaDB's logs that of its
        start.  If the entry has a line `Start`, or a SET timestamp of MySQL before 5.1, which is
        the time of the start, the duration is added to it.
        """
        if "Start" in facts:
            return True, self._clock.ns(facts["Start"]) + duration
        if self._exact or not (stamp_ns or self._time_ns):
            return self._exact, self._time_ns
        if stamp_ns and self._reading.version.startswith(_STARTS_STAMPED):
            return False, stamp_ns + duration
        return False, stamp_ns or self._time_ns - self._zone_ns

    def break_off(self) -> None:
        """Count the last entry as lost, unless it is complete: a hole (a lost part) follows."""
        while self._open.since:
            self._divide()
        if self._text and self._text[-1].endswith(";"):
            self.finish()
        elif self._facts:
            self._reading.skip(holes.LOST)
        self._text, self._facts, self._stamp_ns, self._size = None, {}, 0, 0
        self._resumed = self._exact or self._resumed
        self._exact = False

    def _headed(self, line: str) -> bool:
        """Process a line with # if it is of an entry's head; return False if of a statement."""
        if match := _TIME.fullmatch(line):
            self.finish()
            try:
                self._time_ns = self._clock.ns(match[1] or dated(match[2]))
                # Entries are written when statements have ended, in the order of these times.
                self._reading.pass_time(self._time_ns)
            except ValueError:
                self._reading.hurt(f"{line[8:]} is not a time")
            self._exact, self._resumed = match[1] is not None, False
            return True
        if match := _USER.fullmatch(line):
            self.finish()
            self._facts = {"user": match[1], "thread": match[3] or f"{match[1]}@{match[2]}"}
            if not match[3]:
                self._facts["shared"] = ""
            return True
        ended = self._text is not None and self._text[-1:] and self._text[-1].endswith(";")
        if (ended or (self._text is None and not self._facts)) and _NAMELESS.fullmatch(line):
            self.finish()
            self._facts = {"user": ""}
        # A head ends with SET timestamp.
        in_head = self._text is None and self._facts and not self._stamp_ns
        if not in_head or _COMMAND.fullmatch(line):
            return False
        self._note(line)
        return True

    def _note(self, line: str) -> None:
        """Store the facts in a line of an entry's head; a plan and warnings have none."""
        if line == _WARNINGS:
            self._facts[_WARNINGS] = ""
        if _WARNINGS in self._facts or line.startswith(_EXPLAINED):
            return
        pairs = dict(_PAIR.findall(line))
        self._facts.update(pairs)
        if "Thread_id" in pairs:
            self._facts["thread"] = pairs["Thread_id"]
            self._facts.pop("shared", None)

    def _begun(self, line: str) -> None:
        self.finish()
        self.spread.finish()
        match = STARTED.fullmatch(line)
        assert match is not None, "the caller saw it"
        self._reading.version = match[2]
        self._database = ""
        self.assembly.restarted(self._time_ns)

    def _statement(self, line: str) -> None:
        # After the server's own `use` and SET timestamp comes what a client sent.
        if self._text is None and not self._stamp_ns:
            if match := _USE.fullmatch(line):
                self._database = match[1].strip("`")
                return
            if match := _STAMP.fullmatch(line):
                self._stamp_ns = self._clock.epoch(match[1])
                return
            if _WARNINGS in self._facts:
                return
        if self._text is None:
            self._text = []
        if self._size <= LONGEST_LINE:
            self._size += len(line)
            self._text.append(line if self._size <= LONGEST_LINE else CUT)

    def _done(self, text: str, facts: dict[str, str], duration: int, moment: int) -> None:
        thread = facts["thread"]
        start = moment if "QC_hit" in facts else moment - max(duration, 0)
        if "Stored_routine" in facts:
            self._routines.add(thread, start, max(duration, 0))
            return
        self._routines.leave(thread, start, max(duration, 0))
        if match := _COMMAND.fullmatch(text):
            self._command(match[1], facts, start + max(duration, 0))
            return
        if "shared" in facts:
            self._reading.notes[ONE_SESSION] = None
        if text.startswith("throttle: "):
            self.assembly.skip(THROTTLED)
            return
        if facts.keys() >= _NAMES_ROUTINES:
            self.assembly.follow_user(thread, start, facts["user"], facts["Schema"])
        action = Action(
            0, "simple", start, duration, text, sqlstate=_state(facts), rows=_rows(text, facts)
        )
        self.assembly.query(thread, action, facts["Schema"], facts["user"])

    def _command(self, command: str, facts: dict[str, str], end_ns: int) -> None:
        """Process an administrator command of a thread; `end_ns` is in nanoseconds since 1970."""
        thread = facts["thread"]
        if command in _TEXTLESS:
            self.assembly.skip(EXECUTED)
        if "shared" in facts:
            return  # the other connections of the user go on
        if command == "Quit":
            self.assembly.disconnect(thread, end_ns)
        elif command == "Change user" and _error(facts):
            self.assembly.refused(thread, end_ns)
        elif command == "Change user":
            self.assembly.change_user(thread, end_ns, facts["user"], facts["Schema"])
        elif command.lower() == RESET:
            self.assembly.reset(thread, end_ns)


class _Routines:
    """The statements inside of stored routines, until the statement that has the routine."""

    def __init__(self, reading: ReadCounts) -> None:
        self._reading = reading
        self._inside: dict[str, _Inside] = {}
        """Thread -> its statements inside of a routine."""

    def add(self, thread: str, start: int, duration: int) -> None:
        """Count a statement of a stored routine as not replayed; times are in nanoseconds."""
        count, first, total = self._inside.get(thread, (0, start, 0))
        self._inside[thread] = (count + 1, min(first, start), total + duration)
        self._reading.skip(INSIDE)

    def leave(self, thread: str, start: int, duration: int) -> None:
        """Process a thread's next statement after those inside of a stored routine, if any.

        If it is the one that has the routine, a CALL for example, it is replayed with all of them.
        Percona's logs have no such statement.  Times are in nanoseconds.
        """
        count, first, total = self._inside.pop(thread, (0, 0, 0))
        # Times of whole seconds do not show the order of begins.
        if count and (duration >= total if self._reading.coarse else start <= first):
            self._reading.unskip(INSIDE, count)


def _duration(text: str) -> int:
    """Return a duration in nanoseconds, from text in seconds; UNKNOWN for an invalid one."""
    try:
        duration = round(float(text) * _SECOND)
    except (ValueError, OverflowError):
        return UNKNOWN
    return duration if 0 <= duration <= _LONGEST_NS else UNKNOWN


def _error(facts: dict[str, str]) -> int:
    """Return the number of the error of an entry; 0 if it has none."""
    return int(facts.get("Errno") or facts.get("Last_errno") or 0)


def _state(facts: dict[str, str]) -> str:
    """Return the SQLSTATE of the error of an entry; "" if it has none."""
    error = _error(facts)
    return STATES.get(error, "HY000") if error else ""


def _rows(text: str, facts: dict[str, str]) -> int:
    """Return how many rows a statement returned or changed; UNKNOWN if the log does not have it.

    `facts` are name -> text in the head of the statement's entry.
    """
    if facts.get("QC_hit") == "Yes":
        return UNKNOWN  # the server does not count rows that its query cache returns
    returned = facts.get("Rows_sent", "")
    if returned.isdigit() and (int(returned) or _RETURNS.match(text)):
        return int(returned)
    changed = facts.get("Rows_affected", "")
    return int(changed) if changed.isdigit() else UNKNOWN
