"""general_log of MySQL and MariaDB: each command as it arrives, without its duration."""

import re
from collections.abc import Iterable, Iterator
from functools import partial

from replayer.capture.action import Action
from replayer.capture.clock import Clock
from replayer.capture.inputs import CUT, LONGEST_LINE, Input
from replayer.capture.logs import Order
from replayer.capture.mysql import (
    LOCAL,
    REPLICATION,
    SILENT,
    STARTED,
    Assembly,
    Spread,
    actions,
    dated,
)

ENGINE = "mysql"
RANK = 1
_COMMANDS = (
    "Query|Execute|Prepare|Connect|Quit|Init DB|Close stmt|Reset stmt|Change user|Field List|Fetch"
    "|Ping|Statistics|Long Data|Set option|Reset Connection|Reset connection|Refresh|Kill|Debug"
    "|Processlist|Process List|Binlog Dump|Binlog Dump GTID|Register Slave|Register Replica"
    "|Connect Out|Shutdown|Sleep|Daemon|Error|Time|Delayed insert|Table Dump|Create DB|Drop DB"
    "|Clone|Bulk_execute|Bulk execute|Slave_worker|Slave_IO"
    "|Slave_SQL|Subscribe Group Replication Stream"
)
_BEGIN = (
    r"(?:(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d))"
    r"|(\d{6} [ \d]\d:\d\d:\d\d)|)"
    rf"\t+(?=[ \d]{{5}}) *(\d+) ({_COMMANDS}) *(?=\t|$)"
)
_ENTRY = re.compile(rf"{_BEGIN}(?:\t(.*))?", re.DOTALL)
_ENTRIES = re.compile(rf"^{_BEGIN}", re.MULTILINE)
_HEADINGS = re.compile(r"Tcp port: .*|Time\s+Id\s+Command\s+Argument\s*")
_WHO = re.compile(r"(\S*)@(\S*)(?: as \S+)? on ?(.*?)(?: using \S+)?\Z", re.DOTALL)


def fits(head: str) -> bool:
    """Tell whether a log has an entry in its beginning, or only its headings so far."""
    return _ENTRIES.search(head) is not None


def began(head: str, order: Order) -> int | None:  # noqa: ARG001 - layouts share one face
    """Return the time of the first entry that has one."""
    clock = Clock()
    for match in _ENTRIES.finditer(head):
        if match[1] or match[2]:
            try:
                return clock.ns(match[1] or dated(match[2]))
            except ValueError:
                continue
    return None


def read(inputs: Iterable[Input], order: Order) -> Iterator[list[Action]]:
    """Yield what clients did, in the order in which the server heard of it."""
    order.reading.silent = True
    order.reading.notes[SILENT] = None
    return actions(_Log(order), inputs, order.advance)


class _Log:
    """The entries of a log, some of which have several lines."""

    def __init__(self, order: Order) -> None:
        self.assembly = Assembly(order.reading, order.announce)
        self.spread = Spread()
        self._reading = order.reading
        self._coarse = False
        self._clock = Clock()
        self._time_ns = 0
        self._head: tuple[int, str, str] | None = None
        self._text: list[str] = []
        self._size = 0

    def take(self, line: str) -> None:
        """Take a line: it begins an entry, or goes on with one."""
        match = _ENTRY.fullmatch(line)
        if match is None:
            self._go_on(line)
            return
        self.finish()
        if match[1] or match[2]:
            try:
                self._time_ns = self._clock.ns(match[1] or dated(match[2]))
            except ValueError:
                self._reading.hurt(f"{match[1] or match[2]} is no time")
                return
        if not self._time_ns:
            self._reading.foreign += 1
            return
        if match[2] and not self._coarse:
            self._reading.notes[LOCAL] = None
            self._reading.coarse = self._coarse = True
        self._head = (self._time_ns, match[3], match[4])
        self._text = [match[5] or ""]
        self._size = len(self._text[0])

    def finish(self) -> None:
        """Take the last entry as it is."""
        if self._head is None:
            return
        (time_ns, thread, command), self._head = self._head, None
        self._reading.entries += 1
        text = "\n".join(self._text)
        if self._coarse:
            self.spread.add(time_ns, partial(self._done, thread, command, text))
        else:
            self._done(thread, command, text, time_ns)

    def _go_on(self, line: str) -> None:
        started = STARTED.fullmatch(line)
        if started:
            self.finish()
            self.spread.finish()
            self._reading.version = started[2]
            self.assembly.restarted(self._time_ns)
        elif self._head is not None:
            if self._size <= LONGEST_LINE:
                self._size += len(line)
                self._text.append(line if self._size <= LONGEST_LINE else CUT)
        elif line and not _HEADINGS.fullmatch(line):
            self._reading.foreign += 1

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
        elif command in ("Connect", "Change user"):
            self._connect(thread, time_ns, text)
        elif command == "Quit":
            assembly.disconnect(thread, time_ns)
        elif command.startswith(("Binlog Dump", "Register", "Slave", "Connect Out")):
            assembly.skip(REPLICATION)

    def _connect(self, thread: str, time_ns: int, text: str) -> None:
        if text.startswith("Access denied"):
            self.assembly.refused(thread, time_ns)
            return
        who = _WHO.match(text)
        user, database = (who[1], who[3]) if who else ("", "")
        self.assembly.connect(thread, time_ns, user, database.strip())
