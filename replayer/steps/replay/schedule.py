"""The plan of a replay: which actions of a capture run, when, in which order, in which process."""

import contextlib
import os
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from replayer.capture.action import (
    UNKNOWN,
    Action,
    CommitPlace,
    Fingerprint,
    LoggedSession,
    LoggedStatement,
)
from replayer.engines import wires
from replayer.engines.wire_session import encode_text
from replayer.steps.replay.commit_order import (
    WHOLE_TABLE,
    RowChange,
    Sequenced,
    client_number,
)
from replayer.steps.replay.copy_files import FAILS, NONE
from replayer.steps.replay.read_only import ReadOnlyTest
from replayer.steps.replay.replay_counts import number_of
from replayer.steps.replay.row_keys import RowKeys
from replayer.steps.replay.spec import Spec
from replayer.steps.replay.spool import Spool
from replayer.steps.replay.uncertain_order import UncertainOrder
from replayer.steps.replay.work import (
    CONNECT,
    DISCONNECT,
    EXTENDED,
    FED,
    FORGETS,
    IMPOSED,
    IN_ORDER,
    NAMED,
    NOWHERE,
    PARTS,
    WHOLE,
    Blocked,
    Prepared,
    Record,
    ReplayJob,
    SessionColumns,
)
from replayer.steps.replay.work import Place as Chunk
from replayer.watch.workers import Descriptor

_SECOND = 10**9
_LONGEST_PAUSE = _SECOND
"""Longest pause, in ns, in which no session of the capture does anything, with idle = "skip"."""
_RATE_OF_A_PROCESS = 8_000
"""Statements a second that one process can send on time, with reserve for a busy minute."""
_CORES_OF_A_PROCESS = 4
_FORGETS = re.compile(r"\s*(?:deallocate|discard)\b", re.IGNORECASE)
_INTO = re.compile(r"\binto\b", re.IGNORECASE)
_MOST_NAMED = 5
_MOST_HASH = (1 << 63) - 1
_MOST_HELD = 1 << 16
"""Limit of records in memory that wait for a full chunk; then shorter chunks are written."""
_NO_NAME = "one that the log does not name"
_ONLY_BEGINS = re.compile(
    r"\s*(?:begin|start\s+transaction)\b(?![^;]*\bsnapshot\b)[^;]*;?\s*", re.IGNORECASE
)
_ROWLESS = frozenset({"ddl", "other"})
"""Kinds of statements without tables in their text that change no row: CREATE FUNCTION, LOCK."""
_SHOWN = 60
"""Characters of a statement that is named."""
_COUNTED = frozenset({"select", "insert", "update", "delete"})
_MOST_PARAMETERS = 0xFFFF
"""Most parameters of a statement, whose number has two bytes in each protocol."""
_ORDERED = re.compile(r"\border\s+by\b", re.IGNORECASE)


@dataclass(frozen=True)
class ReplaySchedule:
    """The complete work of a replay."""

    jobs: tuple[ReplayJob, ...]
    fingerprints: tuple[Fingerprint, ...]
    planned: tuple[int, ...]
    """Statements that are to run, for each fingerprint."""
    actions: int
    seconds: float
    """Time from the begin to the last intended start; at speed 0 that of the capture."""
    sessions: int
    databases: tuple[str, ...]
    """Databases that the log names for the sessions, those with the most sessions first."""
    at_once: int
    """Most sessions at the same time."""
    others: tuple[str, ...]
    """Databases that were left out, those with the most statements first."""
    left_out: Mapping[str, int]
    """Reason why statements do not run -> number of statements."""
    errors_logged: bool
    """True if the log shows which statements failed."""
    part_s: float
    """Length of each of the PARTS of the capture, in seconds."""


@dataclass(slots=True)
class _Session:
    """A session while its records are collected."""

    process: int
    place: int
    """Place among the sessions of its process."""
    pending: list[Record] = field(default_factory=list)
    last: Chunk = NOWHERE
    """Place of its last chunk of records in the spool."""
    needs: int = UNKNOWN
    """In the order of commits: the ranks that a transaction waits for which has only begun."""
    opened: int = -1
    """In serial order: place in `pending` of the first record of its open transaction."""


@dataclass(eq=False)
class _Process:
    """The work of one process, while it is collected."""

    spool: Spool
    sessions: SessionColumns = field(default_factory=SessionColumns)
    first_ns: "array[int]" = field(default_factory=lambda: array("q"))
    """Start of each session in the capture, in ns."""
    last_ns: "array[int]" = field(default_factory=lambda: array("q"))


class Planner:
    """Collects the records of a capture; its memory grows only by some bytes for each session."""

    def __init__(
        self,
        spec: Spec,
        conninfo: Callable[[LoggedSession], str],
        processes: int,
        wire: wires.Wire,
        *,
        errors_logged: bool = True,
        span_ns: int = 0,
        folder: Path | None = None,
        blocked: Blocked | None = None,
        rows: RowKeys | None = None,
        coarse_ns: int = 0,
    ) -> None:
        """Begin a plan; `coarse_ns` is by how much the times of the log may be wrong, in ns."""
        self._spec = spec
        self._blocked = blocked
        self._rows = rows
        self.uncertain = UncertainOrder(rows, coarse_ns)
        """The rows whose changes have no certain order in the log, if the order is kept."""
        self._conninfo = conninfo
        self._described: dict[int, LoggedSession] = {}
        self._wire = wire
        self._binds = wires.has_own(wire, "encode_values")
        self._reading = ReadOnlyTest(wire.LANGUAGE) if spec.read_only else None
        with contextlib.ExitStack() as made:
            self._processes = [_Process(_spool(made, folder)) for _ in range(processes)]
            self._close = made.pop_all().close
        self.feeds: tuple[Descriptor, ...] = ()
        """Files with data for COPY FROM STDIN."""
        self._count = self._held = 0
        self._order = Sequenced()
        self._sessions: dict[int, _Session | None] = {}
        self._places: dict[int, int] = {}
        self._fingerprints: list[Fingerprint] = []
        self._planned: list[int] = []
        self._prepared: dict[tuple[str, str], int] = {}
        self._flags: dict[int, int] = {}
        self._counted: dict[int, bool] = {}
        """Place of a fingerprint -> whether logs and servers count its rows in the same way."""
        self._left_out: Counter[str] = Counter()
        self._databases: Counter[str] = Counter()
        self._others: Counter[str] = Counter()
        """Database that was not chosen -> number of its statements."""
        self._of_others: dict[int, str] = {}
        self._actions = 0
        self._errors_logged = errors_logged
        self._part_ns = span_ns // PARTS + 1
        self._last_start = 0
        self._skipped_ns = self._busy_until = 0
        self._from_ns = round((spec.begin or 0) * _SECOND)
        self._until_ns = None if spec.until is None else round(spec.until * _SECOND)

    def close(self) -> None:
        """Close the spools."""
        self._close()

    def describe(self, session: LoggedSession) -> None:
        """Take the description of a session (user, database) before its first action."""
        self._described[session.number] = session

    def add(
        self,
        action: Action,
        statement: LoggedStatement | None,
        place: CommitPlace,
        feed: int = NONE,
    ) -> None:
        """Add the next action to the plan.

        Actions must come in the order of their starts, which count from the start of the capture.
        `feed` is the place in `feeds` of the data for a COPY FROM STDIN, or as in copy_files.py.
        """
        since = action.start_ns
        if since < self._from_ns or (self._until_ns is not None and since >= self._until_ns):
            if statement is not None:
                self._left_out["before from or after until"] += 1
            return
        if statement and self._reading and not self._reading.only(statement.text):
            self._left_out["it may write"] += 1
            return
        if len(action.parameters or ()) > _MOST_PARAMETERS:
            self._left_out["it has more parameters than a server takes"] += 1
            return
        session = self._session(action, since)
        ends = action.does == "disconnect"
        if session is None:
            if statement is not None:
                self._others[self._of_others[action.session]] += 1
        else:
            record = self._record(action, statement, place, self._intended(action, since))
            record = self._sent(record, action, statement, feed)
            record = self._begun(session, record, statement)
            self._put(session, record)
            self._place(session, record, action, statement)
            process = self._processes[session.process]
            end = since + max(0, action.duration_ns)
            process.last_ns[session.place] = max(process.last_ns[session.place], end)
            if ends:
                self._write(session)
        if ends:
            self._of_others.pop(action.session, None)
            del self._sessions[action.session]

    def _sent(
        self, record: Record, action: Action, statement: LoggedStatement | None, feed: int
    ) -> Record:
        """Return a record as it is sent: made to fail as in the log, or with the data of a file.

        `feed` is the place of the file in `feeds`, or as in copy_files.py.  A statement that is
        made to fail takes no data.
        """
        ordered = self._spec.order != "none"
        seconds = action.duration_ns / _SECOND
        if statement and (
            feed == FAILS or (ordered and self._wire.is_by_others(action.sqlstate, seconds))
        ):
            return self._impose(record, action, statement.fingerprint)
        if feed >= 0:
            return record._replace(flags=record.flags | (feed + 1) << FED)
        return record

    def _begun(
        self, session: _Session, record: Record, statement: LoggedStatement | None
    ) -> Record:
        """Return a record that waits, if it only begins a transaction, with its next statement.

        A transaction has no snapshot and no lock before that.
        """
        if session.needs >= 0 and record.needs < 0:
            record = record._replace(needs=session.needs)
        session.needs = UNKNOWN
        begins = statement is not None and _ONLY_BEGINS.fullmatch(statement.text)
        if begins and record.ends < 0 and self._spec.order == "commit":
            session.needs, record = record.needs, record._replace(needs=UNKNOWN)
        return record

    def leave_out(self, left_out: Mapping[str, int]) -> None:
        """Count statements that were not added, by the reason."""
        self._left_out.update(left_out)

    def _intended(self, action: Action, since: int) -> int:
        """Return the intended start of an action, in ns since the begin of the replay."""
        start = since - self._from_ns
        if self._spec.idle == "skip":
            pause = start - self._busy_until
            if pause > _LONGEST_PAUSE:
                self._skipped_ns += pause - _LONGEST_PAUSE
            self._busy_until = max(self._busy_until, start + max(0, action.duration_ns))
            start -= self._skipped_ns
        start = round(start / (self._spec.speed or 1))
        self._last_start = max(self._last_start, start)
        return start

    def _session(self, action: Action, since: int) -> _Session | None:
        """Return the session of an action, None if it is left out; create it if it is new."""
        if action.session in self._sessions:
            return self._sessions[action.session]
        number = action.session
        one = self._described.pop(number, LoggedSession(number))
        made = None
        if self._spec.database not in {"", one.database}:
            self._of_others[number] = one.database or _NO_NAME
        if self._spec.database in {"", one.database}:
            self._databases[one.database] += 1
            number = self._count % len(self._processes)
            self._count += 1
            process = self._processes[number]
            before = action.does != "connect"
            place = process.sessions.add(action.session, self._conninfo(one), before=before)
            process.first_ns.append(since)
            process.last_ns.append(0)
            made = _Session(number, place)
        self._sessions[action.session] = made
        return made

    def _record(
        self, action: Action, statement: LoggedStatement | None, place: CommitPlace, start_ns: int
    ) -> Record:
        chain, turn = place.chain, place.turn
        if self._spec.order != "commit":
            chain = turn = UNKNOWN
        if statement is None:
            does = CONNECT if action.does == "connect" else DISCONNECT
            return Record(does, -1, b"", start_ns, -1, place.ends, -1, -1, 0, -1, 0, -1, 0)
        fingerprint = self._fingerprint(statement.fingerprint)
        self._planned[fingerprint] += 1
        flags = self._flags[fingerprint]
        values = action.parameters or ()
        named = -1
        if action.does == "simple" or not self._binds:
            does, payload = WHOLE, self._wire.encode_query(statement.text)
        elif action.name:
            does, payload = NAMED, self._wire.encode_values(values)
            known = (action.name, statement.text)
            named = self._prepared.setdefault(known, len(self._prepared))
        else:
            does, payload = WHOLE, self._wire.encode_bound(statement.text, values)
        flags |= 0 if action.does == "simple" else EXTENDED
        logged = number_of(action.sqlstate)
        rows = action.rows if self._counted[fingerprint] else UNKNOWN
        part = min(PARTS - 1, action.start_ns // self._part_ns)
        source_ns = UNKNOWN if action.sqlstate else action.duration_ns
        return Record(
            *(does, fingerprint, payload, start_ns, place.needs, place.ends),
            *(chain, turn, logged, named, flags, rows, part, source_ns),
        )

    def _impose(self, record: Record, action: Action, fingerprint: Fingerprint) -> Record:
        """Return a record that fails as the statement did, when it did, and waits for no turn.

        The failed statement changed nothing except the state of its transaction.  If it ran in the
        replay, it could succeed, or make another session fail in its place.
        """
        begins, ends = fingerprint.kind == "begin", fingerprint.kind == "commit"
        payload = self._wire.encode_failure(action.sqlstate, begins=begins, ends=ends)
        end = record.start_ns + round(max(0, action.duration_ns) / (self._spec.speed or 1))
        return record._replace(
            does=WHOLE, payload=payload, start_ns=end, chain=UNKNOWN, turn=UNKNOWN, named=-1,
            flags=record.flags & ~EXTENDED | IMPOSED,
        )  # fmt: skip

    def _fingerprint(self, fingerprint: Fingerprint) -> int:
        place = self._places.get(fingerprint.number)
        if place is None:
            place = self._places[fingerprint.number] = len(self._fingerprints)
            self._fingerprints.append(fingerprint)
            self._planned.append(0)
            ordered = IN_ORDER if _ORDERED.search(fingerprint.text) else 0
            forgets = FORGETS if _FORGETS.match(fingerprint.text) else 0
            self._flags[place] = ordered | forgets
            into = fingerprint.kind == "select" and _INTO.search(fingerprint.text)
            self._counted[place] = fingerprint.kind in _COUNTED and not into
            if fingerprint.writes:
                self.uncertain.add_form(fingerprint.writes, fingerprint.text)
        return place

    def _put(self, session: _Session, record: Record) -> None:
        """Add a record to its session; write a chunk when there are enough records."""
        self._actions += 1
        self._processes[session.process].sessions.begin(session.place, record.start_ns)
        self._held += 1
        pending = session.pending
        if self._spec.order == "serial":
            if record.needs >= 0:
                session.opened = len(pending)
            if record.ends >= 0 and session.opened >= 0:
                pending.append(record)
                # In serial order it begins when all transactions that ended before it have ended.
                first = pending[session.opened]
                pending[session.opened] = first._replace(needs=record.ends)
                session.opened = -1
                self._note_order(session, record)
                return
        pending.append(record)
        self._note_order(session, record)
        if len(pending) >= Spool.CHUNK and session.opened < 0:
            self._write(session)
        elif self._held >= _MOST_HELD:
            for one in self._sessions.values():
                if one is not None and one.opened < 0:
                    self._write(one)
            # The records that are left belong to open transactions.
            self._held = 0

    def _write(self, session: _Session) -> None:
        """Write the pending records of a session as one chunk."""
        if not session.pending:
            return
        process = self._processes[session.process]
        chunk = process.spool.write(session.pending, session.last)
        if session.last == NOWHERE:
            process.sessions.set_first(session.place, chunk)
        session.last = chunk
        self._held -= len(session.pending)
        session.pending.clear()

    def _note_order(self, session: _Session, record: Record) -> None:
        if self._spec.order == "none":
            return
        owner = client_number(session.process, session.place, len(self._processes))
        if record.ends >= 0:
            self._order.ends(record.ends, owner)

    def _place(
        self,
        session: _Session,
        record: Record,
        action: Action,
        statement: LoggedStatement | None,
    ) -> None:
        """Note the turn of a change, and the end of a transaction."""
        if statement is not None and record.chain >= 0:
            self._take_turn(session, record, action, statement)
        if record.ends >= 0:
            self.uncertain.end_transaction(action.session, action.start_ns)

    def _take_turn(
        self, session: _Session, record: Record, action: Action, statement: LoggedStatement
    ) -> None:
        """Note the turn of a change, and the row that it is for."""
        owner = client_number(session.process, session.place, len(self._processes))
        start_ns, end_ns = action.start_ns, action.start_ns + max(0, action.duration_ns)
        kind, row = WHOLE_TABLE, 0
        writes = statement.fingerprint.writes
        alone = record.needs >= 0 and record.ends >= 0
        if self._rows is not None and writes is None and statement.fingerprint.kind not in _ROWLESS:
            self.uncertain.add_hidden(
                *(statement.fingerprint.text[:_SHOWN], (start_ns, end_ns)),
                alone=alone,
                session=action.session,
            )
        elif self._rows is not None and record.chain > 0 and writes:
            key = self._rows.find(writes, statement.text, action.parameters or ())
            if key is not None:
                kind, row = self._order.kind(key.columns), hash(key) & _MOST_HASH
            elif self._rows.appends(writes, statement.text):
                # As many rows as changes: none waits for another one.
                kind, row = self._order.kind(()), record.turn
            self.uncertain.add_change(
                *(writes, statement.text, key, (start_ns, end_ns)),
                alone=alone,
                session=action.session,
            )
        self._order.takes(record.chain, record.turn, owner, RowChange(kind, row, start_ns, end_ns))

    @contextlib.contextmanager
    def schedule(self) -> Iterator[ReplaySchedule]:
        """Yield the complete work, which is valid while the `with` block runs."""
        for session in self._sessions.values():
            if session is not None:
                self._write(session)
        for process in self._processes:
            process.spool.flush()
        with contextlib.ExitStack() as stack:
            shared = None
            if self._spec.order != "none":
                most = max(len(one.sessions) for one in self._processes)
                shared = stack.enter_context(self._order.shared(len(self._processes), most))
            prepared = tuple(
                Prepared(encode_text(name), encode_text(text)) for name, text in self._prepared
            )
            limits = shares(self._spec.sessions, len(self._processes))
            jobs = []
            for number, (process, limit) in enumerate(zip(self._processes, limits, strict=True)):
                slots = _most_at_once([process])
                if limit is not None and self._spec.order == "none" and not self._spec.speed:
                    # Each session has its own connection; the sessions run one after the other.
                    slots, limit = min(slots, limit), None  # noqa: PLW2901 - none is needed
                jobs.append(
                    ReplayJob(
                        process=number,
                        wire=wires.name_of(self._wire.SCHEME),
                        spool=Descriptor(process.spool.fd),
                        sessions=process.sessions,
                        prepared=prepared,
                        order=shared,
                        blocked=self._blocked,
                        order_timeout=self._spec.order_timeout,
                        speed=self._spec.speed,
                        verify=self._spec.verify,
                        slots=slots,
                        connections=limit,
                        read_only=self._spec.read_only,
                        feeds=self.feeds,
                    )
                )
            yield ReplaySchedule(
                jobs=tuple(job for job in jobs if job.sessions),
                fingerprints=tuple(self._fingerprints),
                planned=tuple(self._planned),
                actions=self._actions,
                seconds=self._last_start / 1e9,
                sessions=self._count,
                databases=tuple(name for name, _ in self._databases.most_common() if name),
                at_once=_most_at_once(self._processes),
                others=tuple(name for name, _ in self._others.most_common()),
                left_out={**self._left_out, **self._of_another_database()},
                errors_logged=self._errors_logged,
                part_s=self._part_ns / 1e9,
            )

    def _of_another_database(self) -> dict[str, int]:
        """Return the number of statements of databases that were not chosen, by the reason."""
        if not self._others:
            return {}
        named = [f"{name} {many:,}" for name, many in self._others.most_common(_MOST_NAMED)]
        more = len(self._others) - _MOST_NAMED
        named += [f"{more:,} more databases"] if more > 0 else []
        return {f"they are of another database ({', '.join(named)})": self._others.total()}


def processes_for(speed: float, per_second: float, sessions: int) -> int:
    """Return the number of processes of a replay: few, as each of them has to be woken.

    `per_second` is the highest rate of statements in the capture.
    """
    if speed:
        wanted = int(per_second * speed / _RATE_OF_A_PROCESS) + 1
        wanted = min(wanted, os.cpu_count() or 1)
    else:
        wanted = (os.cpu_count() or 1) // _CORES_OF_A_PROCESS
    return max(1, min(wanted, sessions))


def shares(whole: int | None, parts: int) -> list[int | None]:
    """Divide a number of connections into shares, at least 1 each; None has no limit."""
    if whole is None:
        return [None] * parts
    return [max(1, (whole + part) // parts) for part in range(parts)]


def _most_at_once(processes: Sequence[_Process]) -> int:
    """Return the largest number of sessions that the capture had at the same time."""
    begins = np.concatenate([np.frombuffer(one.first_ns, np.int64) for one in processes])
    ends = np.concatenate([np.frombuffer(one.last_ns, np.int64) for one in processes])
    # A session that ends at the instant another begins counts as present.
    before = np.searchsorted(np.sort(ends), np.sort(begins), "left")
    return int((np.arange(1, len(begins) + 1) - before).max(initial=0))


def _spool(made: contextlib.ExitStack, folder: Path | None) -> Spool:
    spool = Spool(folder)
    made.callback(spool.close)
    return spool
