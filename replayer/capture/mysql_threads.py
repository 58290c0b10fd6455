"""Assembly of the actions of MySQL's and MariaDB's clients from the entries of their logs.

The general log has statements when they arrive, without durations.  The slow log has them when they
have ended.  Both logs show a prepared statement with its values written into the text.  The
statement is replayed in that form.  An EXECUTE that was sent as text is in the general log twice.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from replayer.capture.action import Action, LoggedSession
from replayer.capture.entry import ReadCounts
from replayer.capture.holes import HOLE
from replayer.capture.inputs import CUT, Input
from replayer.capture.readings import GAP

LOADED = "LOAD DATA LOCAL: its data is not in the log"
CUT_TEXT = "statements cut by a limit of length"
HIDDEN = "statements whose password the server does not log"
PREPARED = "PREPARE as text: its executions are in the slow log with their values"
REFUSED = "connections that the server refused"
REPLICATION = "replication connections"
THROTTLED = "statements that the server left out of its log"
NO_TIME = "statements before the first time that the log has"
EXECUTED = "executions of prepared statements of which the log has no text"
INSIDE = "statements inside of stored routines whose CALL is not in the log"
NO_SESSION = "statements of which the log does not say whose they are"

LOCAL = (
    "the log does not say in which zone its times are: they are taken as UTC, which moves all alike"
)
ONE_SESSION = (
    "the log does not say which connection sent a statement: those of one user at one host are "
    "replayed as one session"
)
STARTED = re.compile(r"(\S.*?), Version: (\S+) .*(?:started with:|embedded library)\s*")
"""The first line that a server writes when it begins a log."""

_SECRET = re.compile(r"<secret>|\bidentified\b[^;]*\bas\s+'<")
_GAP = GAP["mysql"]
_LOCAL = re.compile(
    rf"{_GAP}load\s+(?:data|xml)\s+(?:low_priority\s+|concurrent\s+)?local\b",
    re.IGNORECASE,
)
_USE = re.compile(rf"{_GAP}use\s+(`(?:[^`]|``)+`|[^\s;/#]+){_GAP};?{_GAP}\Z", re.IGNORECASE)
_EXECUTES = re.compile(rf"{_GAP}execute\b(?P<immediate>\s+immediate\b)?", re.IGNORECASE)
_CUT_AT = 60_000
"""Length from which on a text that ends with CUT was cut; in a shorter text, CUT is a NUL."""
_MOST_HELD = 50_000
_PREPARE = re.compile(
    rf"({_GAP}prepare\s+\S+\s+from\s*)(?:\.\.\.|(?P<variable>@\w+)){_GAP};?{_GAP}",
    re.IGNORECASE,
)
"""A PREPARE as MySQL 8 and later log it, without its text, which may contain a password.

MariaDB logs the name of a variable if the text is in one.
"""
_PREPARES = re.compile(rf"{_GAP}(?:(?:deallocate|drop)\s+)?prepare\b", re.IGNORECASE)
STATES = {
    **dict.fromkeys((1048, 1062, 1169, 1216, 1217, 1451, 1452, 1557, 1586), "23000"),
    **dict.fromkeys((1205,), "HY000"),
    **dict.fromkeys((1213, 1614), "40001"),
    **dict.fromkeys((1044, 1049, 1064, 1065, 1113, 1142, 1143, 1149, 1305, 1370), "42000"),
    **dict.fromkeys((1051, 1109, 1146), "42S02"),
    **dict.fromkeys((1050,), "42S01"),
    **dict.fromkeys((1054, 1247), "42S22"),
    **dict.fromkeys((1060,), "42S21"),
    **dict.fromkeys((1317,), "70100"),
    **dict.fromkeys((1045,), "28000"),
    **dict.fromkeys((1046,), "3D000"),
    **dict.fromkeys((1136, 1222), "21S01"),
    **dict.fromkeys((1242,), "21000"),
    **dict.fromkeys((1264, 1690), "22003"),
    **dict.fromkeys((1406,), "22001"),
    **dict.fromkeys((1292,), "22007"),
    **dict.fromkeys((1365,), "22012"),
}
"""Number of an error -> its SQLSTATE; all other errors have HY000."""


SILENT = "the log does not say which statements failed"
RESET = "reset connection"
"""The command, in small letters, with which pools give a session back; servers write both."""


class StampSpreader:
    """A queue of events from a log whose stamps have whole seconds.

    Events with the same stamp get times spread evenly over that second, in the order of the log.
    """

    def __init__(self) -> None:
        self._time_ns = 0
        self._held: list[Callable[[int], None]] = []

    def add(self, time_ns: int, done: Callable[[int], None]) -> None:
        """Hold an event until an event of another second is added, then call `done` with its time.

        `time_ns`, the event's stamp, and the time given to `done` are nanoseconds since 1970.
        """
        if time_ns != self._time_ns or len(self._held) >= _MOST_HELD:
            self.finish()
            self._time_ns = time_ns
        self._held.append(done)

    def finish(self) -> None:
        """Call the function of each event that is still held with the event's time.

        Times are nanoseconds since 1970, spread evenly over the second of the events.
        """
        held, self._held = self._held, []
        for place, done in enumerate(held):
            done(self._time_ns + place * 1_000_000_000 // len(held))


@dataclass(frozen=True, slots=True)
class _Due:
    """The session that a connected thread begins with its next statement, if one follows."""

    since_ns: int
    """Time from which on it may begin, in nanoseconds since 1970."""
    user: str
    database: str
    """The database with which it connects."""
    used: str
    """The database in which it is."""


class _Known:
    """The state of one session of a MySQL server while its log is read."""

    __slots__ = ("database", "immediate", "last_ns", "logged", "preparing", "twice")

    def __init__(self, logged: LoggedSession) -> None:
        self.logged, self.database = logged, logged.database
        self.last_ns = 0
        self.preparing: Action | None = None
        """A PREPARE whose text comes with the next command."""
        self.twice = False
        """True if the next command may repeat the last one, an EXECUTE."""
        self.immediate = False
        """True if that EXECUTE is EXECUTE IMMEDIATE, which prepares its text first."""


class ThreadAssembly:
    """A converter of log entries to actions; each thread (connection) of a server is a session."""

    def __init__(self, reading: ReadCounts, announce: Callable[[LoggedSession], None]) -> None:
        self._reading, self._announce = reading, announce
        self._known: dict[str, _Known] = {}
        self._due: dict[str, _Due] = {}
        """Thread -> its next session, since its last one ended; no such thread is in _known."""
        self._count = 0
        self._ended: list[Action] = []

    def taken(self) -> list[Action]:
        """Return the actions that were made since the last call of this method."""
        ended, self._ended = self._ended, []
        return ended

    def restarted(self, time_ns: int) -> None:
        """End all sessions at `time_ns`, in nanoseconds since 1970, because the server restarted.

        A restarted server numbers its threads from the beginning.
        """
        for thread in list(self._known):
            self.disconnect(thread, time_ns)
        self._due.clear()

    def connect(self, thread: str, time_ns: int, user: str, database: str) -> None:
        """Begin a session for a thread; if the thread has a session already, end that one first.

        `time_ns` is in nanoseconds since 1970.
        """
        self.disconnect(thread, time_ns)
        self._open(thread, time_ns, user, database, before=False)

    def change_user(self, thread: str, time_ns: int, user: str, database: str) -> None:
        """End the session of a thread, if it has one; its next statement begins another user's.

        `time_ns` is in nanoseconds since 1970.
        """
        self.disconnect(thread, time_ns)
        self._due[thread] = _Due(time_ns, user, database, database)

    def reset(self, thread: str, time_ns: int) -> None:
        """End the session of a thread, if it has one; its next statement begins one like it.

        It is in the same database.  The server has rolled back the open transaction, and forgotten
        what the session had: its variables, temporary tables, locks and prepared statements.
        `time_ns` is in nanoseconds since 1970.
        """
        known = self._known.get(thread)
        # Without a statement there is nothing to forget.
        if known is None or not known.last_ns:
            return
        self.disconnect(thread, time_ns)
        user, database = known.logged.user, known.logged.database
        self._due[thread] = _Due(time_ns, user, database, known.database)

    def follow_user(self, thread: str, time_ns: int, user: str, database: str) -> None:
        """End the session of a thread, and begin one, if it is the session of another user.

        Call it before a statement of a log without the command that changes the user.  `user` is ""
        if the log does not have it.  `time_ns` is in nanoseconds since 1970.
        """
        known = self._known.get(thread)
        if known is not None and user and known.logged.user not in ("", user):
            self.connect(thread, time_ns, user, database)

    def disconnect(self, thread: str, time_ns: int) -> None:
        """End the session of a thread, if it has one, at `time_ns` in nanoseconds since 1970."""
        self._due.pop(thread, None)
        known = self._known.pop(thread, None)
        if known is not None:
            self._release(known)
            # Times of whole seconds do not show the order within a second.
            end_ns = max(time_ns, known.last_ns)
            self._ended.append(Action(known.logged.number, "disconnect", end_ns))

    def break_off(self) -> None:
        """Forget which command each session is expected to send next.

        It is for a hole, a lost part of the log, in which that command may have been.
        """
        for known in self._known.values():
            self._release(known)
            known.twice = False

    def refused(self, thread: str, time_ns: int) -> None:
        """Count a connection that the server refused, and end the session of its thread, if any.

        `time_ns` is in nanoseconds since 1970.
        """
        self._reading.skip(REFUSED)
        self.disconnect(thread, time_ns)

    def skip(self, reason: str) -> None:
        """Add one to the number of things in the log that are not replayed for this `reason`."""
        self._reading.skip(reason)

    def use(self, thread: str, time_ns: int, database: str) -> None:
        """Add a USE statement to a thread's session; `time_ns` is in nanoseconds since 1970."""
        known = self._of(thread, time_ns, "", before=True)
        self._release(known)
        known.database = database
        quoted = database.replace("`", "``")
        self._put(known, Action(known.logged.number, "simple", time_ns, text=f"USE `{quoted}`"))

    def prepare(self, thread: str, time_ns: int, text: str) -> None:
        """Process an entry of the command Prepare, which has the text of a PREPARE statement.

        In logs of MySQL 8, the PREPARE statement itself stands in the entry before, without that
        text.  The statement is added with the text.  Without such a statement, nothing is done.
        `time_ns` is in nanoseconds since 1970.
        """
        known = self._of(thread, time_ns, "", before=True)
        known.twice = known.twice and known.immediate
        preparing, known.preparing = known.preparing, None
        if preparing is not None and (match := _PREPARE.fullmatch(preparing.text)):
            quoted = text.replace("\\", "\\\\").replace("'", "\\'")
            self._put(known, preparing._replace(text=f"{match[1].rstrip()} '{quoted}'"))

    def execute(self, thread: str, time_ns: int, text: str) -> None:
        """Add the execution of a prepared statement; `text` is the statement with its values.

        An EXECUTE that the client sent as text has two entries.  The second one is ignored.
        `time_ns` is in nanoseconds since 1970.
        """
        known = self._of(thread, time_ns, "", before=True)
        self._release(known)
        twice, known.twice = known.twice, False
        if not twice and self._whole(text):
            self._put(known, Action(known.logged.number, "simple", time_ns, text=text))

    def query(
        self, thread: str, action: Action, database: str | None = None, user: str = ""
    ) -> None:
        """Add a statement of a thread; begin a session if the thread has none.

        The number of the session in `action` is not set yet.  `database` is the database in which
        the statement ran, and `user` its user, if the log has them for each statement; else they
        are None and "".
        """
        logged = database is not None
        known = self._of(thread, action.start_ns, database or "", user, before=not logged)
        if not self._whole(action.text):
            return
        if database is not None and database != known.database:
            self.use(thread, action.start_ns, database)
        action = action._replace(session=known.logged.number)
        if match := _USE.match(action.text):
            known.database = match[1].strip("`").replace("``", "`")
        executes = _EXECUTES.match(action.text)
        self._release(known)
        known.twice = executes is not None
        known.immediate = executes is not None and executes["immediate"] is not None
        if logged and _PREPARES.match(action.text):
            self._reading.skip(PREPARED)
        elif _PREPARE.fullmatch(action.text):
            known.preparing = action
        else:
            self._put(known, action)

    def _release(self, known: _Known) -> None:
        """Add a PREPARE of a variable whose text did not follow; forget one without a text."""
        preparing, known.preparing = known.preparing, None
        match = _PREPARE.fullmatch(preparing.text) if preparing is not None else None
        if preparing is not None and match is not None and match["variable"]:
            self._put(known, preparing)

    def _whole(self, text: str) -> bool:
        """Return whether the statement `text` can be replayed; if not, count it by the reason.

        It cannot if its text is cut, if its data is not in the log, or if its password is hidden.
        """
        reason = ""
        if text.endswith(CUT) and len(text) > _CUT_AT:
            reason = CUT_TEXT
        elif _LOCAL.match(text):
            reason = LOADED
        elif "<" in text and _SECRET.search(text):
            reason = HIDDEN
        if reason:
            self._reading.skip(reason)
        return not reason

    def _put(self, known: _Known, action: Action) -> None:
        known.last_ns = action.start_ns + max(0, action.duration_ns)
        self._reading.statements += 1
        self._ended.append(action)

    def _of(
        self, thread: str, time_ns: int, database: str, user: str = "", *, before: bool
    ) -> _Known:
        """Return the session of a thread; begin the one that is due, or else one of the `user`."""
        if (known := self._known.get(thread)) is not None:
            return known
        if (due := self._due.pop(thread, None)) is None:
            return self._open(thread, time_ns, user, database, before=before)
        time_ns = max(time_ns, due.since_ns)
        known = self._open(thread, time_ns, due.user, due.database, before=False)
        if due.used != due.database:
            self.use(thread, time_ns, due.used)
        return known

    def _open(self, thread: str, time_ns: int, user: str, database: str, *, before: bool) -> _Known:
        logged = LoggedSession(self._count, user, database, began_before=before)
        known = self._known[thread] = _Known(logged)
        self._count += 1
        self._reading.sessions += 1
        self._announce(logged)
        self._ended.append(Action(logged.number, "connect", time_ns))
        return known


class EntryAssembly(Protocol):
    """The interface of a reader that makes entries from the lines of one kind of MySQL log."""

    assembly: ThreadAssembly
    spread: StampSpreader

    def begin(self, head: str) -> None:
        """Detect the format of a log file from `head`, the beginning of its text."""

    def take(self, line: str) -> None:
        """Process the next line of the log."""

    def finish(self) -> None:
        """Complete the last entry, because the log file ends."""

    def break_off(self) -> None:
        """Count the last entry as lost, unless it is complete: a hole (a lost part) follows."""


def actions(
    log: EntryAssembly, inputs: Iterable[Input], advance: Callable[[int], None]
) -> Iterator[list[Action]]:
    """Yield lists of clients' actions in the order of the log; `log` makes them from the lines.

    `advance` is called with the number of bytes of each piece of a file that was read.
    """
    for source in inputs:
        log.begin(source.head())
        for lines in source.lines(advance):
            holed = lines[-1].endswith(HOLE)
            if holed:
                lines[-1] = lines[-1].removesuffix(HOLE)
            for line in lines:
                log.take(line)
            if holed:
                log.break_off()
                log.assembly.break_off()
            yield log.assembly.taken()
        log.finish()
    log.spread.finish()
    log.assembly.break_off()
    yield log.assembly.taken()


def dated(stamp: str) -> str:
    """Return the time `241122  3:05:07`, for example, as `2024-11-22 03:05:07.0`.

    MySQL before 5.7 writes times in the first form; StampReader reads the second form.
    """
    day, clock = stamp.split()
    clock, _, fraction = clock.partition(".")
    return f"20{day[:2]}-{day[2:4]}-{day[4:]} {clock:0>8}.{fraction[:9] or 0}"
