"""Assembly of clients' actions from the entries of a PostgreSQL log.

A statement may be one entry (`duration: 1.2 ms  statement: …`, at its end).  It may also be two:
`statement: …` at its start, and `duration: 1.2 ms` at its end, or the error that it ended with.  A
failed statement may have only an error.  Parse and bind have separate entries if they took long
enough; their time is a part of the execute that follows.
"""

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from replayer.capture import error_states, fingerprint, holes, patience
from replayer.capture.action import UNKNOWN, Action, Does, LoggedSession
from replayer.capture.application_names import ApplicationNames, NamedSession, known_name
from replayer.capture.entry import HOLED, LogEntry, ReadCounts
from replayer.capture.inputs import CUT
from replayer.capture.logged_parameters import LoggedParameters, has_places
from replayer.capture.stamps import StampReader
from replayer.capture.virtual_transactions import SessionTransactions

FAST_PATH = "fast-path calls, which libpq makes for large objects"
CUT_TEXT = "statements that could not be read whole"
FETCHES = "further fetches from a portal: replayed, its execute returns all rows at once"
REPLICATION = "replication connections"
OWN = "sessions in which replayer itself looked on"
OWN_NAMES = frozenset({"replayer capture", "replayer profile"})
"""The application_name of sessions of `replayer capture` and `replayer profile`."""
REFUSED = "connections that the server refused"

_EXTENDED = re.compile(r" {1,2}(?:(parse|bind)|(?:execute( fetch from)?)) (.*?): ", re.DOTALL)
_LOGGED = re.compile(r"execute( fetch from)? (.*?): ", re.DOTALL)
_STATEMENT = re.compile(r"(?:duration: [\d.]* ?m?s? *)?(?:statement: |execute |\Z)")
"""The beginning of a message about a statement, which may be cut after its duration."""
_TRANSLATED = re.compile(r"(?!duration)[^\W\d][^:\d\n]{1,30}\s?[:\uff1a]? ?\d+[.,]\d{3} ms\b")
"""A duration in a message that is not in English, as with another lc_messages."""
_AUTHORIZED = re.compile(
    r"(?:replication )?connection authorized: user=(?P<user>.*?)(?: database=(?P<database>.*?))?"
    r"(?: application_name=(?P<application>.*?))?(?: SSL enabled.*| GSS .*| identity=.*)?\Z"
)
_STARTING = re.compile(r"starting PostgreSQL (\d{1,2}(?:\.\d{1,2}|beta\d|rc\d|devel)?)")
_MOST_SESSIONS = 50_000
"""Limit on the sessions known at once: a log may not have the ends of sessions."""
_LONGEST_NS = 10**17
"""Three years, in nanoseconds: a longer duration is damage."""
_MOST_REMEMBERED = 8192
_LONGEST_REMEMBERED = 1024
_Origin = tuple[str, str, str, str]
"""User, database, host and application_name of a session, as an entry has them."""
_IGNORE, _EXECUTE, _BIND, _FETCH, _PARSE = range(5)


class _Sent(NamedTuple):
    """A statement that a client sent, without its end; `start_ns` counts from 1970."""

    does: Does
    text: str
    name: str
    parameters: tuple[str | None, ...] | None
    start_ns: int
    query_id: int
    transaction: int


class _Known:
    """The state of one session of the log: its open statement, its waits, its known timeouts."""

    __slots__ = (
        *("begun", "bound", "bound_ns", "connected", "free_ns", "local_ns", "named", "number"),
        *("origin", "patience_ns", "planned_ns", "received_ns", "transactions", "waits_ns"),
    )

    def __init__(self, origin: _Origin) -> None:
        self.number = 0
        self.named: NamedSession | None = None
        """The session with its name; None until it is connected."""
        self.origin = origin
        self.connected = False
        self.received_ns = UNKNOWN
        self.planned_ns = 0
        """Nanoseconds of the logged parses and binds since the last execution."""
        self.free_ns = 0
        """Nanoseconds since 1970 from which on the session can begin another action."""
        self.begun: _Sent | None = None
        self.bound: tuple[str, str, tuple[str | None, ...] | None] | None = None
        """Name, text and parameters of the statement that was bound and not yet executed."""
        self.bound_ns = 0
        """Time of the entry of the bind in `bound`, in nanoseconds since 1970."""
        self.waits_ns = 0
        """Nanoseconds since 1970 at which the session last began to wait for a lock; 0 if never."""
        self.patience_ns: dict[str, int] = {}
        """First word of a timeout's name -> nanoseconds, if the session itself set it."""
        self.local_ns: dict[str, int] = {}
        """First word of a timeout's name -> nanoseconds, set by SET LOCAL for the transaction."""
        self.transactions = SessionTransactions()


class SessionAssembly:
    """A converter from PostgreSQL's log entries to clients' actions in the order of their ends."""

    def __init__(self, reading: ReadCounts, announce: Callable[[LoggedSession], None]) -> None:
        self._reading, self._names = reading, ApplicationNames(announce)
        self._known: dict[str, _Known] = {}
        self._ended: list[Action] = []
        self._extended: dict[str, tuple[int, str, str]] = {}
        self._others: dict[str, None] = {}
        """Sessions that are not replayed: replication, and replayer's own."""
        self._lost: dict[str, None] = {}
        """Sessions that the server ended; an entry of their disconnection may follow."""
        self._first_ns = UNKNOWN
        self._connections = False
        self._values = LoggedParameters()
        """The reader of DETAIL, whose limit is log_parameter_max_length."""
        self._values_of_failed = LoggedParameters()
        """The reader of CONTEXT, whose limit is log_parameter_max_length_on_error."""
        self._patience_ns = {"deadlock": patience.DEADLOCK_NS}
        """First word of a timeout's name -> nanoseconds, for sessions that did not set it."""

    def take(self, entries: Iterable[LogEntry]) -> list[Action]:
        """Process the next entries of the log, and return the actions that ended with them."""
        self._ended = []
        if self._first_ns == UNKNOWN:
            entries = self._looked_at(list(entries))
        for entry in entries:
            self._reading.entries += 1
            self._reading.pass_time(entry.time_ns)
            if entry.severity == "LOG":
                message = entry.message
                if message.startswith("duration: "):
                    self._duration(entry, message)
                else:
                    self._logged(entry, message)
            elif entry.severity in {"ERROR", "FATAL", "PANIC"}:
                self._failed(entry)
            elif entry.severity.startswith(HOLED):
                self._broken_off(entry)
        return self._ended

    def finish(self) -> list[Action]:
        """Return the actions that had begun but not ended when the log ended."""
        self._ended = []
        for state in self._known.values():
            self._give_up(state, max(state.free_ns, state.begun.start_ns if state.begun else 0))
        self._known.clear()
        if note := self._names.note():
            self._reading.notes[note] = None
        return self._ended

    def _broken_off(self, entry: LogEntry) -> None:
        """Count the statement of an entry that a hole (a lost part of the log) cut off.

        Statements of all sessions that had begun may have ended in it: add them without an end.
        """
        begun = entry.session in self._known and self._known[entry.session].begun
        failed = entry.severity.endswith(("ERROR", "FATAL", "PANIC"))
        if not begun and (failed or entry.statement or _STATEMENT.match(entry.message)):
            self._reading.skip(holes.LOST)
        for state in self._known.values():
            self._give_up(state, entry.time_ns)
            state.bound = None

    def _looked_at(self, entries: list[LogEntry]) -> list[LogEntry]:
        """Return the log's first entries; note the first time, and if one logs a connection."""
        if entries:
            self._first_ns = entries[0].time_ns
            self._connections = any(
                entry.message.startswith(("connection received", "connection authorized"))
                for entry in entries
            )
        return entries

    def _duration(self, entry: LogEntry, message: str) -> None:
        """Process an entry whose `message` begins with a duration.

        The server writes it at the end of a statement, of a parse or of a bind.
        """
        stop = message.find(" ms", 10)
        rest = message[stop + 3 :]
        try:
            duration = round(float(message[10:stop]) * 1e6)
        except (ValueError, OverflowError):
            return
        if not 0 <= duration <= _LONGEST_NS:
            return
        if rest.startswith("  statement: "):
            self._add(entry, "simple", rest[13:], duration)
        elif not rest:
            self._alone(entry, duration)
        else:
            self._extended_end(entry, rest, duration)

    def _extended_end(self, entry: LogEntry, rest: str, duration: int) -> None:
        known = self._extended.get(rest)
        what, name, text = known if known is not None else self._understood(rest)
        if what == _EXECUTE:
            self._add(entry, "extended", text, duration, name)
        elif what == _BIND:
            self._bound(entry, name, text, duration)
        elif what == _PARSE:
            self._parsed(entry, duration)
        elif what == _FETCH:
            self._reading.skip(FETCHES)
        elif rest.startswith(" statement: "):
            self._add(entry, "simple", rest[12:], duration)
        elif rest.startswith("  fastpath "):
            self._reading.skip(FAST_PATH)

    def _understood(self, rest: str) -> tuple[int, str, str]:
        """Return (kind, name, statement) of an entry of a parse, bind, execute or fetch.

        `rest` is the message after its duration.  Return (_IGNORE, "", "") for any other entry.
        """
        made = _IGNORE, "", ""
        if (match := _EXTENDED.match(rest)) is not None:
            step, fetch, name = match.groups()
            what = {"bind": _BIND, "parse": _PARSE}.get(step, _IGNORE if step else _EXECUTE)
            made = _FETCH if fetch else what, _prepared(name), rest[match.end() :]
        if len(rest) <= _LONGEST_REMEMBERED:
            if len(self._extended) >= _MOST_REMEMBERED:
                self._extended.clear()
            self._extended[rest] = made
        return made

    def _logged(self, entry: LogEntry, message: str) -> None:
        """Process an entry of severity LOG that does not begin with a duration."""
        if message.startswith("statement: "):
            self._begin(entry, "simple", message[11:])
        elif message.startswith("execute "):
            match = _LOGGED.match(message)
            if match is not None and match[1]:
                self._reading.skip(FETCHES)
            elif match is not None:
                self._begin(entry, "extended", message[match.end() :], _prepared(match[2]))
        elif message.startswith("fastpath function call: "):
            self._reading.skip(FAST_PATH)
        elif "connection" in message:
            self._connection(entry, message)
        else:
            self._take_note(entry, message)

    def _take_note(self, entry: LogEntry, message: str) -> None:
        """Process a message about the server itself, or about a session that waits."""
        if message.startswith("process "):
            self._waited(entry, message)
        elif message.startswith("database system is ready"):
            self._restarted(entry)
        elif (match := _STARTING.match(message)) is not None:
            self._reading.version = match[1]
        elif (changed := patience.changed(message)) is not None:
            self._patience_ns[changed.name] = changed.ns
        elif " ms" in message and _TRANSLATED.match(message):
            self._reading.translated += 1

    def _waited(self, entry: LogEntry, message: str) -> None:
        """Note when a session began to wait for a lock, if the `message` of an entry reports it."""
        waited, state = patience.waited_ns(message), self._known.get(entry.session)
        if waited is not None and state is not None:
            state.waits_ns = entry.time_ns - waited

    def _connection(self, entry: LogEntry, message: str) -> None:
        if message.startswith("connection received: "):
            self._close(entry.session, entry.time_ns)
            self._others.pop(entry.session, None)
            self._lost.pop(entry.session, None)
            if len(self._known) >= _MOST_SESSIONS:
                self._forget(entry.time_ns)
            state = self._known[entry.session] = _Known(_origin(entry))
            state.received_ns = entry.time_ns
            self._connections = True
        elif (match := _AUTHORIZED.match(message)) is not None:
            if message.startswith("replication"):
                self._known.pop(entry.session, None)
                self._others[entry.session] = None
                self._reading.skip(REPLICATION)
            else:
                self._connected(entry, match)
        elif message.startswith("disconnection: "):
            self._disconnected(entry)

    def _disconnected(self, entry: LogEntry) -> None:
        """End the session of an entry; begin it first if the log has no earlier entry of it."""
        if entry.session in self._others or entry.session in self._lost:
            self._others.pop(entry.session, None)
            self._lost.pop(entry.session, None)
            return
        self._of(entry, entry.time_ns)
        self._close(entry.session, entry.time_ns)

    def _connected(self, entry: LogEntry, match: re.Match[str]) -> None:
        """Begin a session whose connection `entry` logs; `match` has its user and database."""
        self._connections = True
        self._others.pop(entry.session, None)
        if (known_name(entry.application) or match["application"]) in OWN_NAMES:
            self._known.pop(entry.session, None)
            self._leave_out(entry)
            return
        state = self._known.get(entry.session)
        if state is None or state.connected:
            self._close(entry.session, entry.time_ns)
            state = self._known[entry.session] = _Known(_origin(entry))
        state.origin = _origin(entry)
        asked = match.groupdict("")
        self._open(
            state,
            LoggedSession(
                self._reading.sessions,
                known_name(entry.user) or asked["user"],
                known_name(entry.database) or asked["database"] or asked["user"],
                known_name(entry.application) or asked["application"],
            ),
            entry.time_ns if state.received_ns == UNKNOWN else state.received_ns,
            entry.time_ns,
        )

    def _leave_out(self, entry: LogEntry) -> None:
        """Ignore all further entries of the session of `entry`, because replayer itself made it."""
        self._others[entry.session] = None
        self._reading.skip(OWN)

    def _open(self, state: _Known, session: LoggedSession, start_ns: int, end_ns: int) -> None:
        state.number, state.connected = session.number, True
        state.named = self._names.begin(session)
        state.free_ns = end_ns + 1
        self._reading.sessions += 1
        duration = end_ns - start_ns if end_ns > start_ns else UNKNOWN
        self._ended.append(Action(session.number, "connect", start_ns, duration))

    def _forget(self, end: int) -> None:
        """End the half of the known sessions that are idle longest, at `end` in ns since 1970."""
        idle = sorted(self._known, key=lambda key: self._known[key].free_ns)
        for key in idle[: len(idle) // 2]:
            self._close(key, end)

    def _of(self, entry: LogEntry, start_ns: int) -> _Known | None:
        """Return the session of an entry; begin it before `start_ns` if this is its first entry.

        Returns None for a session that is not replayed.
        """
        state = self._known.get(entry.session)
        if state is not None and state.connected:
            if state.origin == (entry.user, entry.database, entry.remote, entry.application):
                return state
            if _same(state.origin, entry) and state.named is not None:
                self._names.follow(state.named, entry.application)
                state.origin = *state.origin[:3], entry.application
                return state
            # The process number was used again, in a log without the ends of sessions.
            self._close(entry.session, start_ns)
            state = None
        if entry.session in self._others:
            return None
        if entry.application in OWN_NAMES:
            self._leave_out(entry)
            return None
        if len(self._known) >= _MOST_SESSIONS:
            self._forget(start_ns)
        self._lost.pop(entry.session, None)
        received = UNKNOWN if state is None else state.received_ns
        before = received == UNKNOWN and self._began_before(entry)
        state = self._known[entry.session] = _Known(_origin(entry))
        state.transactions.cut = before
        names = known_name(entry.user), known_name(entry.database), known_name(entry.application)
        session = LoggedSession(self._reading.sessions, *names, (), before)
        end = start_ns - 1
        self._open(state, session, end if received == UNKNOWN else min(received, end), end)
        return state

    def _began_before(self, entry: LogEntry) -> bool:
        if entry.number > 1:
            return True
        if "." in entry.session and (start := _session_start(entry.session)):
            return start * 10**9 + 10**9 <= self._first_ns
        return self._connections

    def _add(self, entry: LogEntry, does: Does, text: str, duration: int, name: str = "") -> None:
        """Add a statement that ended with `entry`; `duration` is in ns, without parse and bind."""
        end = entry.time_ns
        state = self._of(entry, end - duration)
        if state is None:
            return
        duration += state.planned_ns if does == "extended" else 0
        start = end - duration
        if state.begun is not None:
            self._give_up(state, start)
        state.bound = None
        parameters = None
        if does == "extended":
            parameters, reason = self._values.read(entry.detail, text)
            if reason:
                self._skip(state, reason, end)
                return
        number = state.transactions.number(entry.vxid, at_end=does == "simple")
        sent = _Sent(does, text, name, parameters, start, entry.query_id, number)
        self._put(state, sent, duration, end)

    def _put(self, state: _Known, sent: _Sent, duration: int, end: int, sqlstate: str = "") -> None:
        does, text, name, parameters, start, query_id, transaction = sent
        if CUT in text:
            self._skip(state, CUT_TEXT, end)
            return
        # Stamps are coarser than durations, so let an action begin after its session's last one.
        start = max(start, state.free_ns)
        state.free_ns = start + max(duration, 1)
        state.planned_ns = 0
        if not sqlstate and "timeout" in text and (given := patience.given(text)) is not None:
            (state.local_ns if given.local else state.patience_ns)[given.name] = given.ns
        elif state.local_ns and fingerprint.ends_transaction(text, "postgres"):
            state.local_ns.clear()
        self._reading.statements += 1
        self._ended.append(
            Action(state.number, does, start, duration, text, name, parameters, sqlstate, UNKNOWN,
                   query_id, transaction)
        )  # fmt: skip

    def _skip(self, state: _Known, reason: str, end: int) -> None:
        self._reading.skip(reason)
        state.free_ns = max(state.free_ns, end)

    def _begin(self, entry: LogEntry, does: Does, text: str, name: str = "") -> None:
        """Process an entry that is written at the start of a statement; keep it until its end."""
        state = self._of(entry, entry.time_ns)
        if state is None:
            return
        self._give_up(state, entry.time_ns)
        state.bound = None
        parameters = None
        if does == "extended":
            parameters, reason = self._values.read(entry.detail, text)
            if reason:
                self._skip(state, reason, entry.time_ns)
                return
        number = state.transactions.number(entry.vxid)
        state.begun = _Sent(does, text, name, parameters, entry.time_ns, entry.query_id, number)

    def _alone(self, entry: LogEntry, duration: int) -> None:
        """Process an entry with a duration (in ns) only, which ends the session's begun statement.

        If none had begun, it belongs to a parse or a bind, and is ignored.
        """
        state = self._known.get(entry.session)
        if state is not None and state.begun is not None:
            sent, state.begun = state.begun, None
            sent = sent._replace(
                start_ns=min(sent.start_ns, entry.time_ns - duration),
                query_id=entry.query_id or sent.query_id,
            )
            self._put(state, sent, duration, entry.time_ns)

    def _give_up(self, state: _Known, end: int) -> None:
        """Add the session's begun statement, if any, without a duration: its end is not logged."""
        if state.begun is not None:
            sent, state.begun = state.begun, None
            self._put(state, sent, UNKNOWN, end)

    def _parsed(self, entry: LogEntry, duration: int) -> None:
        """Note the duration of a parse, in ns; it becomes a part of its statement's duration."""
        state = self._of(entry, entry.time_ns - duration)
        if state is not None:
            state.planned_ns = duration

    def _bound(self, entry: LogEntry, name: str, text: str, duration: int) -> None:
        state = self._of(entry, entry.time_ns)
        if state is not None:
            state.planned_ns += duration
            self._give_up(state, entry.time_ns)
            state.bound = name, text, self._values.read(entry.detail, text)[0]
            state.bound_ns = entry.time_ns

    def _failed(self, entry: LogEntry) -> None:
        """Process an entry of an error, which may be the only entry of its statement."""
        state = self._known.get(entry.session)
        sent = state.begun if state is not None else None
        if (
            state is not None
            and sent is not None
            and (entry.statement or entry.severity == "ERROR")
            and entry.statement in {sent.text, ""}
        ):
            state.begun = None
            duration = max(entry.time_ns - sent.start_ns, 0)
            self._put(state, sent, duration, entry.time_ns, error_states.state_of(entry))
        elif entry.statement:
            self._error(entry)
        if entry.severity != "ERROR":
            if state is not None and not state.connected:
                self._reading.skip(REFUSED)
                del self._known[entry.session]
            self._close(entry.session, entry.time_ns)
            if len(self._lost) >= _MOST_SESSIONS:
                self._lost.clear()
            self._lost[entry.session] = None

    def _error(self, entry: LogEntry) -> None:
        """Add a statement of which the log has nothing but the error."""
        state = self._of(entry, entry.time_ns)
        if state is None:
            return
        self._give_up(state, entry.time_ns)
        text, name = entry.statement, ""
        does: Does = "simple"
        parameters: tuple[str | None, ...] | None = None
        code = error_states.state_of(entry)
        start = self._start_of_failed(state, entry, code)
        bound, state.bound = state.bound, None
        if bound is not None and bound[1] == text and bound[2] is not None:
            does, (name, _, parameters) = "extended", bound
        elif has_places(text):
            does = "extended"
            parameters, reason = self._values_of_failed.read(entry.context, text)
            if reason:
                self._skip(state, reason, entry.time_ns)
                return
        number = state.transactions.number(entry.vxid)
        sent = _Sent(does, text, name, parameters, start, entry.query_id, number)
        duration = entry.time_ns - start or UNKNOWN
        self._put(state, sent, duration, entry.time_ns, code)

    def _start_of_failed(self, state: _Known, entry: LogEntry, code: str) -> int:
        """Return the probable start, in ns since 1970, of a statement with only its error logged.

        This is the earliest known time: the bind of its values, or the start of a wait for a lock.
        If no wait is logged, the wait is as long as the timeout that ended the statement.  `code`
        is the SQLSTATE of its error.
        """
        end = entry.time_ns
        known = [end]
        if state.bound is not None and state.bound[1] == entry.statement:
            known.append(state.bound_ns)
        waited = end - state.waits_ns
        if state.waits_ns < state.free_ns:
            waited = self._patience_of(state, entry, code)
        # Stamps are cut to milliseconds: it began after the statements that it waited for, not at
        # the same time.
        known.append(end - max(0, waited - patience.RESOLUTION_NS))
        # It cannot have begun before its session's last action ended.
        return max(min(known), min(state.free_ns, end))

    def _patience_of(self, state: _Known, entry: LogEntry, code: str) -> int:
        """Return the length of the timeout that ended a statement, in ns; 0 if no known one did."""
        which = patience.ended(entry.message, code)
        own = state.local_ns.get(which) or state.patience_ns.get(which)
        return own or self._patience_ns.get(which, 0)

    def _close(self, key: str, end: int) -> None:
        """End the session with the id `key`, if it is known, at `end` in ns since 1970."""
        state = self._known.pop(key, None)
        if state is None:
            return
        self._give_up(state, end)
        if state.connected:
            self._ended.append(Action(state.number, "disconnect", max(end, state.free_ns)))

    def _restarted(self, entry: LogEntry) -> None:
        """End all sessions, because the server was started again."""
        for key in list(self._known):
            self._close(key, entry.time_ns)
        self._others.clear()


def note_zones(clock: StampReader, reading: ReadCounts) -> None:
    """Add a note to `reading` for each unknown time zone in the stamps, which is taken as UTC."""
    for zone in sorted(clock.unknown):
        reading.notes[f"time zone {zone!r} is not known: its times are taken as UTC"] = None


def _prepared(name: str) -> str:
    """Return the statement's name in the text `name/portal` of an entry; "" if it is unnamed."""
    name = name.partition("/")[0]
    return "" if name == "<unnamed>" else name


def _origin(entry: LogEntry) -> _Origin:
    return entry.user, entry.database, entry.remote, entry.application


def _same(origin: _Origin, entry: LogEntry) -> bool:
    """Return whether user, database and host of a session (`origin`) and an entry do not differ.

    A value that is not logged fits any other.
    """
    new = known_name(entry.user), known_name(entry.database), known_name(entry.remote)
    pairs = zip(map(known_name, origin[:3]), new, strict=True)
    return all(not one or not two or one == two for one, two in pairs)


def _session_start(session: str) -> int:
    """Return the start of a session, in seconds since 1970, from its id; 0 if the id has none."""
    try:
        return int(session.partition(".")[0], 16)
    except ValueError:
        return 0
