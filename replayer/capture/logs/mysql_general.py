"""general_log of MySQL and MariaDB: each command as it arrives, without its duration."""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from replayer.capture import holes
from replayer.capture.action import Action
from replayer.capture.inputs import CUT, LONGEST_LINE, Input
from replayer.capture.logs import ReadRequest
from replayer.capture.mysql_threads import (
    LOCAL,
    NO_TIME,
    REPLICATION,
    RESET,
    SILENT,
    STARTED,
    StampSpreader,
    ThreadAssembly,
    actions,
    dated,
)
from replayer.capture.open_texts import OpenText
from replayer.capture.stamps import StampReader

ENGINE = "mysql"
RANK = 1
_NAMES = (
    *("Query", "Execute", "Prepare", "Connect", "Quit", "Init DB", "Close stmt", "Reset stmt"),
    *("Change user", "Field List", "Fetch", "Ping", "Statistics", "Long Data", "Set option"),
    *("Reset Connection", "Reset connection", "Refresh", "Kill", "Debug", "Processlist"),
    *("Process List", "Binlog Dump", "Binlog Dump GTID", "Register Slave", "Register Replica"),
    *("Connect Out", "Shutdown", "Sleep", "Daemon", "Error", "Time", "Delayed insert"),
    *("Table Dump", "Create DB", "Drop DB", "Clone", "Bulk_execute", "Bulk execute"),
    *("Slave_worker", "Slave_IO", "Slave_SQL", "Subscribe Group Replication Stream"),
)
_COMMANDS = "|".join(sorted(_NAMES, key=len, reverse=True))
_SENT = frozenset({"Query", "Execute"})
"""Commands that are statements."""
_TEXTS = _SENT | {"Prepare"}
"""Commands whose argument is an SQL text."""
_STAMP = (
    r"(?:(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d))"
    r"|(\d{6} +\d{1,2}:\d\d:\d\d(?:\.\d{1,10})?))"
)
_BEGIN = (
    rf"(?:{_STAMP}[\t ]+(\d+) ({_COMMANDS})(?=[\t ]|$)"
    rf"|\t+(?=[ \d]{{5}}) *(\d+) ({_COMMANDS})(?= *(?:\t|$)))"
)
"""The beginning of an entry.

Tabs separate the fields.  Early servers of 5.7 write blanks after the stamp.  Servers before 5.1
write blanks after the command, too.
"""
_ENTRY = re.compile(rf"{_BEGIN} *\t?(.*)", re.DOTALL)
_ENTRIES = re.compile(rf"^{_BEGIN}", re.MULTILINE)
_PADDED = re.compile(rf"[\t ]{{5,}}(\d+) ({_COMMANDS})( *)(.*)", re.DOTALL)
"""An entry without a stamp from a server before 5.1, whose commands have _WIDTH columns."""
_WIDTH = 12
_PADDED_BEGIN = re.compile(rf"^{_STAMP}[\t ]+\d+ (?:{_COMMANDS}) +[^\s\t]", re.MULTILINE)
_HEADINGS = re.compile(r"(?i:tcp port): .*|Time\s+Id\s+Command\s+Argument\s*")
_WHO = re.compile(r"(\S*)@(\S*)(?: as \S*)? on ?(.*?)(?: using \S+)?\Z", re.DOTALL)


def fits(head: str) -> bool:
    """Return whether `head`, the beginning of a log, has an entry of a general_log."""
    return _ENTRIES.search(head) is not None


def find_start(head: str, order: ReadRequest) -> int | None:  # noqa: ARG001 - layouts share one face
    """Return the first time in the beginning of the log, in ns since 1970; None without one."""
    clock = StampReader()
    for match in _ENTRIES.finditer(head):
        if match[1] or match[2]:
            try:
                return clock.ns(match[1] or dated(match[2]))
            except ValueError:
                continue
    return None


def read(inputs: Iterable[Input], order: ReadRequest) -> Iterator[list[Action]]:
    """Yield lists of clients' actions in the order in which their commands arrived."""
    order.reading.silent = True
    order.reading.notes[SILENT] = None
    return actions(_Log(order), inputs, order.advance)


class _Log:
    """A reader that makes entries from the lines of a general_log; an entry may have several."""

    def __init__(self, order: ReadRequest) -> None:
        self.assembly = ThreadAssembly(order.reading, order.announce)
        self.spread = StampSpreader()
        self._reading = order.reading
        self._coarse = False
        self._clock = StampReader()
        self._time_ns = 0
        self._head: tuple[int, str, str] | None = None
        self._text: list[str] = []
        self._size = 0
        self._padded = False
        self._open = OpenText(order.reading)

    def begin(self, head: str) -> None:
        """Detect from a file's beginning (`head`) if blanks separate commands from arguments."""
        self._padded = _PADDED_BEGIN.search(head) is not None

    def take(self, line: str) -> None:
        """Process the next line of the log, which begins or continues an entry."""
        match = _ENTRY.fullmatch(line)
        if match is not None:
            precise, coarse, thread, command, other, other_command, text = match.groups()
            thread, command = thread or other, command or other_command
        elif self._padded and (padded := _blank_separated(line)) is not None:
            precise = coarse = None
            thread, command, text = padded
        else:
            self._go_on(line)
            return
        if self._is_inside():
            self._add(line)
            return
        if self._open.since:
            self._divide()
            self.take(line)
            return
        self.finish()
        if precise or coarse:
            try:
                self._time_ns = self._clock.ns(precise or dated(coarse or ""))
            except ValueError:
                self._reading.hurt(f"{precise or coarse} is not a time")
                self._lose(command, NO_TIME)
                return
        if not self._time_ns:
            self._lose(command, NO_TIME)
            return
        if coarse and not self._coarse:
            self._reading.notes[LOCAL] = None
            self._reading.coarse = self._coarse = True
        self._head = (self._time_ns, thread, command)
        self._text = [text]
        self._size = len(text)

    def break_off(self) -> None:
        """Count the last entry as lost: the hole (a lost part of the log) may have cut it off."""
        while self._open.since:
            self._divide()
        if self._head is not None:
            self._lose(self._head[2], holes.LOST)
            self._head = None

    def _lose(self, command: str, reason: str) -> None:
        self._reading.entries += 1
        if command in _SENT:
            self._reading.skip(reason)

    def finish(self) -> None:
        """Complete the entry of the last lines, and pass its command to the assembly of actions."""
        while self._open.since:
            self._divide()
        if self._head is None:
            return
        (time_ns, thread, command), self._head = self._head, None
        self._reading.entries += 1
        self._reading.pass_time(time_ns)
        text = "\n".join(self._text)
        if self._coarse:
            self.spread.add(time_ns, partial(self._done, thread, command, text))
        else:
            self._done(thread, command, text, time_ns)

    def _divide(self) -> None:
        """Take back those lines of the last text that were wrongly taken for a part of it."""
        if rest := self._open.give_back(self._text):
            self.finish()
            for line in rest:
                self.take(line)

    def _is_inside(self) -> bool:
        """Return whether the text of the last entry is still open, so that the next line is of it.

        Else that entry is complete, and the next line may begin another one.
        """
        return self._head is not None and self._head[2] in _TEXTS and self._open.goes_on(self._text)

    def _go_on(self, line: str) -> None:
        started = STARTED.fullmatch(line)
        if started and not self._is_inside():
            self.finish()
            self.spread.finish()
            self._reading.version = started[2]
            self.assembly.restarted(self._time_ns)
        elif self._head is not None:
            self._add(line)
        elif line and not _HEADINGS.fullmatch(line):
            self._reading.foreign += 1

    def _add(self, line: str) -> None:
        """Add a line to the text of the last entry, up to the greatest length."""
        if self._size <= LONGEST_LINE:
            self._size += len(line)
            self._text.append(line if self._size <= LONGEST_LINE else CUT)

    def _done(self, thread: str, command: str, text: str, time_ns: int) -> None:
        assembly = self.assembly
        if command == "Query":
            assembly.query(thread, Action(0, "simple", time_ns, text=text))
        elif command == "Execute":
            assembly.execute(thread, time_ns, text)
        elif command == "Prepare":
            assembly.prepare(thread, time_ns, text)
        elif command == "Init DB":
            assembly.use(thread, time_ns, text)
        elif command == "Connect":
            self._log_in(assembly.connect, thread, time_ns, text)
        elif command == "Change user":
            self._log_in(assembly.change_user, thread, time_ns, text)
        elif command.lower() == RESET:
            assembly.reset(thread, time_ns)
        elif command == "Quit":
            assembly.disconnect(thread, time_ns)
        elif command.startswith(("Binlog Dump", "Register", "Slave", "Connect Out")):
            assembly.skip(REPLICATION)

    def _log_in(
        self, begin: Callable[[str, int, str, str], None], thread: str, time_ns: int, text: str
    ) -> None:
        """Call `begin` with the user and the database in the `text` of an entry.

        Count the entry if the server refused the user.  `time_ns` is in nanoseconds since 1970.
        """
        if text.startswith("Access denied"):
            self.assembly.refused(thread, time_ns)
            return
        who = _WHO.match(text)
        user, database = (who[1], who[3]) if who else ("", "")
        begin(thread, time_ns, user, database.strip())


def _blank_separated(line: str) -> tuple[str, str, str] | None:
    """Return (thread, command, argument) of a line with blanks between them.

    Returns None for a line that is not the beginning of such an entry.
    """
    match = _PADDED.fullmatch(line)
    if match is None:
        return None
    thread, command, blanks, text = match.groups()
    whole = not text or len(command) + len(blanks) >= _WIDTH
    return (thread, command, text) if whole else None
