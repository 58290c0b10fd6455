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
from replayer.steps.replay.commit_order import client_number
from replayer.steps.replay.copy_files import NONE
from replayer.steps.replay.intended_times import IntendedTimes
from replayer.steps.replay.planned_order import PlannedOrder
from replayer.steps.replay.record_encoder import RecordEncoder
from replayer.steps.replay.row_keys import RowKeys
from replayer.steps.replay.send_test import SendTest
from replayer.steps.replay.spec import Spec
from replayer.steps.replay.spool import Spool
from replayer.steps.replay.uncertain_order import UncertainOrder
from replayer.steps.replay.work import (
    NOWHERE,
    Blocked,
    Record,
    ReplayJob,
    SessionColumns,
)
from replayer.steps.replay.work import Place as Chunk
from replayer.watch.workers import Descriptor

_RATE_OF_A_PROCESS = 8_000
"""Statements a second that one process can send on time, with reserve for a busy minute."""
_CORES_OF_A_PROCESS = 4
_MOST_NAMED = 5
_MOST_HELD = 1 << 16
"""Largest number of records in memory: at this number, chunks that are not full are written."""
_NO_NAME = "one that the log does not name"
_ONLY_BEGINS = re.compile(
    r"\s*(?:begin|start\s+transaction)\b(?![^;]*\bsnapshot\b)[^;]*;?\s*", re.IGNORECASE
)


@dataclass(frozen=True)
class ReplaySchedule:
    """The complete plan of a replay: the jobs of its processes, and facts about what they run."""

    jobs: tuple[ReplayJob, ...]
    fingerprints: tuple[Fingerprint, ...]
    planned: tuple[int, ...]
    """Number of statements that are to run, for each of `fingerprints`."""
    actions: int
    seconds: float
    """Time from the begin to the last intended start; at speed 0 that of the capture."""
    sessions: int
    databases: tuple[str, ...]
    """Databases that the log names for the sessions, those with the most sessions first."""
    at_once: int
    """Largest number of sessions that the capture had at the same time."""
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
    """A captured session while its records (actions to replay) are collected."""

    process: int
    place: int
    """Place among the sessions of its process."""
    pending: list[Record] = field(default_factory=list)
    last: Chunk = NOWHERE
    """Place of its last chunk of records in the spool."""
    needs: int = UNKNOWN
    """In the order of commits: the ranks that the next statement waits for in place of a BEGIN."""
    opened: int = -1
    """In serial order: place in `pending` of the first record of its open transaction."""


@dataclass(eq=False)
class _Process:
    """The work of one worker process, while the plan is made."""

    spool: Spool
    sessions: SessionColumns = field(default_factory=SessionColumns)
    first_ns: "array[int]" = field(default_factory=lambda: array("q"))
    """Start of each session in the capture, in ns."""
    last_ns: "array[int]" = field(default_factory=lambda: array("q"))


class Planner:
    """Makes the plan of a replay; memory grows by bytes for each session and ordered change."""

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
        """Begin a plan for some worker processes.

        `conninfo` makes a session's connection string.  `span_ns` is the length of the capture, and
        the log's times may be wrong by `coarse_ns`, both in ns.  The spools are in `folder`.
        """
        self._spec = spec
        self._blocked = blocked
        self._order = PlannedOrder(rows, coarse_ns, kept=spec.order != "none")
        self._conninfo = conninfo
        self._described: dict[int, LoggedSession] = {}
        self._wire = wire
        self._encoder = RecordEncoder(spec, wire, span_ns)
        self._sending = SendTest(wire.LANGUAGE, read_only=spec.read_only)
        with contextlib.ExitStack() as made:
            self._processes = [_Process(_spool(made, folder)) for _ in range(processes)]
            self._close = made.pop_all().close
        self.feeds: tuple[Descriptor, ...] = ()
        """Files with data for COPY FROM STDIN."""
        self._held = 0
        self._sessions: dict[int, _Session | None] = {}
        self._left_out: Counter[str] = Counter()
        self._databases: Counter[str] = Counter()
        """Database -> number of its sessions."""
        self._others: Counter[str] = Counter()
        """Database that was not chosen -> number of its statements."""
        self._of_others: dict[int, str] = {}
        self._actions = 0
        self._errors_logged = errors_logged
        self._times = IntendedTimes(spec)

    def close(self) -> None:
        """Close the spools (files with the records), which deletes them."""
        self._close()

    def describe(self, session: LoggedSession) -> None:
        """Store the description of a session (user, database), before its first action."""
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
        `feed` is what CopyFiles.feed returned for the statement.
        """
        since = action.start_ns
        if not self._times.has(action, statement, place):
            if statement is not None:
                self._left_out["before from or after until"] += 1
            return
        if reason := self._sending.refusal(action, statement):
            self._left_out[reason] += 1
            return
        session = self._session(action, since)
        ends = action.does == "disconnect"
        if session is None:
            if statement is not None:
                self._others[self._of_others[action.session]] += 1
        else:
            start = self._times.start(since, action.duration_ns)
            # Not the start of the record: that of an imposed one is later.
            self._processes[session.process].sessions.begin(session.place, start)
            record = self._encoder.encode(action, statement, place, start, feed)
            record = self._begun(session, record, statement)
            self._put(session, record)
            owner = client_number(session.process, session.place, len(self._processes))
            self._order.note(owner, record, action, statement)
            process = self._processes[session.process]
            end = since + max(0, action.duration_ns)
            process.last_ns[session.place] = max(process.last_ns[session.place], end)
            if ends:
                self._write(session)
        if ends:
            self._sending.end(action.session)
            self._of_others.pop(action.session, None)
            del self._sessions[action.session]

    def _begun(
        self, session: _Session, record: Record, statement: LoggedStatement | None
    ) -> Record:
        """Return `record`, without its wait for other transactions if it only begins one.

        The next record of the session gets that wait: before its first statement, a transaction
        has no snapshot and no lock.
        """
        if session.needs >= 0 and record.needs < 0:
            record = record._replace(needs=session.needs)
        session.needs = UNKNOWN
        begins = statement is not None and _ONLY_BEGINS.fullmatch(statement.text)
        if begins and record.ends < 0 and self._spec.order == "commit":
            session.needs, record = record.needs, record._replace(needs=UNKNOWN)
        return record

    def uncertain(self) -> UncertainOrder:
        """Return the changes that have no certain order in the log, of the actions added so far."""
        for form in self._encoder.forms.values():
            if form.fingerprint.writes:
                self._order.uncertain.add_form(form.fingerprint.writes, form.fingerprint.text)
        return self._order.uncertain

    def leave_out(self, left_out: Mapping[str, int]) -> None:
        """Count statements that were not added; `left_out` is reason -> number of statements."""
        self._left_out.update(left_out)

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
            number = self._databases.total() % len(self._processes)
            self._databases[one.database] += 1
            process = self._processes[number]
            before = action.does != "connect"
            place = process.sessions.add(action.session, self._conninfo(one), before=before)
            process.first_ns.append(since)
            process.last_ns.append(0)
            made = _Session(number, place)
        self._sessions[action.session] = made
        return made

    def _put(self, session: _Session, record: Record) -> None:
        """Add a record; in serial order, set `needs` of a whole transaction; write full chunks."""
        self._actions += 1
        self._held += 1
        pending = session.pending
        if self._spec.order == "serial":
            if record.needs >= 0:
                session.opened = len(pending)
            if record.ends >= 0 and session.opened >= 0:
                pending.append(record)
                # The transaction begins when all that ended before it in the source have ended.
                first = pending[session.opened]
                pending[session.opened] = first._replace(needs=record.ends)
                session.opened = -1
                return
        pending.append(record)
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

    @contextlib.contextmanager
    def schedule(self) -> Iterator[ReplaySchedule]:
        """Yield the complete plan, with a job for each process; valid during the `with` block."""
        for session in self._sessions.values():
            if session is not None:
                self._write(session)
        for process in self._processes:
            process.spool.flush()
        with contextlib.ExitStack() as stack:
            shared = None
            if self._spec.order != "none":
                most = max(len(one.sessions) for one in self._processes)
                shared = stack.enter_context(
                    self._order.sequenced.shared(len(self._processes), most)
                )
            prepared = tuple(self._encoder.prepared())
            forms = tuple(self._encoder.forms.values())
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
                fingerprints=tuple(form.fingerprint for form in forms),
                planned=tuple(form.planned for form in forms),
                actions=self._actions,
                seconds=self._times.last_ns / 1e9,
                sessions=self._databases.total(),
                databases=tuple(name for name, _ in self._databases.most_common() if name),
                at_once=_most_at_once(self._processes),
                others=tuple(name for name, _ in self._others.most_common()),
                left_out={**self._left_out, **self._of_another_database()},
                errors_logged=self._errors_logged,
                part_s=self._encoder.part_ns / 1e9,
            )

    def _of_another_database(self) -> dict[str, int]:
        """Return reason -> number of statements left out because they are of another database."""
        if not self._others:
            return {}
        named = [f"{name} {many:,}" for name, many in self._others.most_common(_MOST_NAMED)]
        more = len(self._others) - _MOST_NAMED
        named += [f"{more:,} more databases"] if more > 0 else []
        return {f"they are of another database ({', '.join(named)})": self._others.total()}


def processes_for(speed: float, per_second: float, sessions: int) -> int:
    """Return the number of worker processes of a replay: few, as each of them has to be woken.

    `per_second` is the highest rate of statements in the capture.  `speed` is the key of the step:
    0 is as fast as the server answers.  `sessions` is the largest number of processes allowed, as
    each needs a connection.
    """
    if speed:
        wanted = int(per_second * speed / _RATE_OF_A_PROCESS) + 1
        wanted = min(wanted, os.cpu_count() or 1)
    else:
        wanted = (os.cpu_count() or 1) // _CORES_OF_A_PROCESS
    return max(1, min(wanted, sessions))


def shares(whole: int | None, parts: int) -> list[int | None]:
    """Divide `whole` connections among `parts` processes, at least 1 for each; None is no limit."""
    if whole is None:
        return [None] * parts
    return [max(1, (whole + part) // parts) for part in range(parts)]


def _most_at_once(processes: Sequence[_Process]) -> int:
    """Return the largest number of sessions of `processes` that the capture had at one time."""
    begins = np.concatenate([np.frombuffer(one.first_ns, np.int64) for one in processes])
    ends = np.concatenate([np.frombuffer(one.last_ns, np.int64) for one in processes])
    # A session that ends at the instant another begins counts as present.
    before = np.searchsorted(np.sort(ends), np.sort(begins), "left")
    return int((np.arange(1, len(begins) + 1) - before).max(initial=0))


def _spool(made: contextlib.ExitStack, folder: Path | None) -> Spool:
    spool = Spool(folder)
    made.callback(spool.close)
    return spool
