"""Run a capture again: the same statements in the same sessions.

`replayer run FILE.replay` is a workload with this one step.  Every session of the capture gets its
own connection, its prepared statements stay prepared, and the server chooses the types of its
parameters.  At a speed above 0 each action has an intended start that is never moved.  The replay
records how late each action began, and whether the server or replayer was the reason.
"""

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from replayer import journal
from replayer.analysis.differences import divergence
from replayer.capture.action import language_of
from replayer.capture.archive import ArchiveReader
from replayer.capture.implicit_transactions import differing
from replayer.conditions import temperature
from replayer.engines.connection import Database
from replayer.engines.verbs import VerbName
from replayer.errors import Impossible, Interrupted, ReplayerError
from replayer.load import machine_usage, other_sessions, resources
from replayer.load.other_sessions import OthersActivity
from replayer.model import Cold, Replayed, Temperature
from replayer.results import store
from replayer.run.context import Context, Task
from replayer.run.event_stream.rates import Rates
from replayer.steps.replay import plans, replay_target, worker
from replayer.steps.replay.choice import Choice
from replayer.steps.replay.copy_files import CopyFiles
from replayer.steps.replay.outcome import ReplayWindow, record
from replayer.steps.replay.replay_counts import First, ReplayCounts
from replayer.steps.replay.replay_statistics import GIVEN_UP, ReplayProgress
from replayer.steps.replay.row_keys import RowKeys, guarded_columns
from replayer.steps.replay.schedule import Planner, ReplaySchedule, processes_for
from replayer.steps.replay.spec import Spec
from replayer.steps.replay.work import Blocked
from replayer.steps.replay.worker import WorkerResult
from replayer.tables import relations
from replayer.watch.workers import WorkerPool

OPTIONS = ("i_will_change", "database", "source")
_FILES = VerbName("replay/files")
_SETTLE = VerbName("mix/settle")
_WAITS = VerbName("replay/waits")
_BLOCKED = VerbName("replay/blocked")
_GUARDED = VerbName("replay/guarded")
_EFFECTS = VerbName("replay/effects")
_ASKED_EVERY = 0.25
"""Seconds between two samples of what the sessions wait for."""
_MERGED_AT = 32
_MOST_NAMED = 5
_MOST_UNCERTAIN = 1_000
"""Most rows and tables, and most statements, without a certain order that the result names."""
_FINE_NS = 1_000_000
"""Coarsest resolution of a log's times at which the order of its changes counts as certain."""
_PREPARING = 600.0
_NO_COPIES = (
    "copy_from: the capture holds no COPY FROM STDIN; one that an older replayer made never does, "
    "so that its logs have to be converted again"
)


def run_here_reason(_spec: Spec) -> str:
    """Return the error words for a run on another host: a replay runs where its capture is."""
    return "a replay is run where its capture lies"


def measures_machine(spec: Spec) -> bool:
    """Return whether the replay needs the server for itself.

    It does if the caches have to be in some state, or if its database is made from a dump or a
    copy: a server has only one such database.
    """
    return spec.cold is not Temperature.UNKNOWN or bool(spec.restore)


def check(spec: Spec, context: Context) -> None:
    """Raise Impossible for a file that is not a capture, or a database that may not be changed."""
    with _capture(spec) as capture, CopyFiles(spec.copy_from) as copy_files:
        engine = capture.summary.source.engine
        copy_files.check(capture.summary.copies)
    language = language_of(engine)
    if language != (replay_target.wire_of(context).LANGUAGE or language):
        raise Impossible(
            f"{spec.file} was captured on {engine}, and {context.engine.title} speaks another "
            f"language: replay it on a server of its kind"
        )
    _control(spec)
    if spec.source:
        plans.check(spec.source, context)
    replay_target.check(spec, context)


def check_files(spec: Spec) -> None:
    """Raise Impossible if the capture has nothing that the keys choose, or if a file is missing."""
    with _capture(spec) as capture, CopyFiles(spec.copy_from) as copy_files:
        copy_files.check(capture.summary.copies)
        choice = Choice(spec, language_of(capture.summary.source.engine))
        if choice.asked:
            choice.look(capture.blocks())
    if "/" in spec.restore and not Path(spec.restore).exists():
        raise Impossible(f"restore = {spec.restore!r}: there is no such file or folder")


def run(spec: Spec, context: Context) -> None:
    """Prepare the database, plan and run the replay, and compare it with the log or another run."""
    check(spec, context)
    context.findings.writes = not spec.read_only
    with contextlib.ExitStack() as stack:
        capture = stack.enter_context(_capture(spec))
        # Two replays have the same work if the digests are equal, in whatever folder the file is.
        context.findings.facts["replay.capture"] = capture.digest
        database = stack.enter_context(replay_target.opened(spec, context))
        context.findings.facts["replay.server"] = replay_target.describe(context)
        cold = _bring(spec, context, database)
        if spec.cold is Temperature.COLD and context.server.can_stop:
            # The server was stopped to empty its caches, which ended the connection.
            database = stack.enter_context(
                contextlib.closing(replay_target.reopened(context, database.url))
            )
        copy_files = stack.enter_context(CopyFiles(spec.copy_from))
        copy_files.check(capture.summary.copies)
        planner = _planned(spec, context, database, capture, copy_files)
        stack.callback(planner.close)
        schedule = stack.enter_context(planner.schedule())
        _check_schedule(spec, schedule)
        _Replay(spec, context, database, schedule, cold).run()
        plans.record(context, capture, database.url, spec.source)


def _check_schedule(spec: Spec, schedule: ReplaySchedule) -> None:
    if not schedule.jobs and spec.database and spec.database not in schedule.databases:
        names = ", ".join(schedule.others[:_MOST_NAMED]) or "none that is known"
        raise Impossible(
            f"{spec.file} has no session of the database {spec.database}: those that it has are of "
            f"{names}"
        )
    if not schedule.jobs:
        raise Impossible(f"{spec.file} has no action that is to be replayed")
    few = spec.sessions is not None and spec.sessions < schedule.at_once
    if few and spec.order == "commit":
        raise Impossible(
            f"sessions = {spec.sessions}: {schedule.at_once:,} sessions at a time were captured, "
            f"and in the order of commits each needs a connection: leave the key out, or use "
            f"order = 'serial'"
        )


def _capture(spec: Spec) -> ArchiveReader:
    if not spec.file:
        raise Impossible("the step replay needs the key file: a path to a .replay file")
    return ArchiveReader(Path(spec.file))


def _control(spec: Spec) -> tuple[Replayed, ...]:
    """Return the results of the earlier run that the key `against` names, one for each fingerprint.

    Return () if the key names none.  Raise Impossible if that run has no replay.
    """
    if not spec.against:
        return ()
    run = store.load(store.find(spec.against, store.folder()))
    replays = [step.replayed for step in run.steps if step.replayed]
    if not replays:
        raise Impossible(f"against = {spec.against!r}: that run replayed nothing")
    return replays[0]


def _bring(spec: Spec, context: Context, database: Database) -> Cold:
    """Bring the caches to the state that the key `cold` asks for, and return the state reached.

    If the files of the database are not on this host, nothing is done, and the result has the
    reason.
    """
    folder = context.server.data_directory()
    if folder is None or context.engine.verb(_FILES) is None:
        why, todo = context.server.explain_missing_files()
        unknown = Temperature.UNKNOWN
        return Cold(asked=spec.cold, got=unknown, method="nothing", proof="", why=why, todo=todo)
    files = relations.files(database, folder, _FILES)
    if spec.cold is Temperature.COLD and context.server.can_stop:
        database.close()
    return temperature.make(spec.cold, context.server, files, context.host)


def _planned(
    spec: Spec, context: Context, database: Database, capture: ArchiveReader, copy_files: CopyFiles
) -> Planner:
    """Return the planner of the replay, after adding every action of the capture that is to run.

    `copy_files` has the data for COPY FROM STDIN.  Notes on changes without a certain order are
    recorded.
    """
    summary = capture.summary
    seconds = max(1e-3, summary.span_ns / 1e9)
    busiest = max(summary.busiest_minute_statements / 60, summary.statements / seconds)
    # Each process has a connection at least.
    most = min(summary.sessions, spec.sessions or summary.sessions)
    processes = processes_for(spec.speed, busiest, most)
    wire = replay_target.wire_of(context)
    conninfo = replay_target.Conninfo(spec, database)
    planner = Planner(
        spec,
        conninfo,
        processes,
        wire,
        errors_logged=summary.source.errors_logged,
        span_ns=summary.span_ns,
        folder=journal.home(),
        blocked=_blocked(spec, database),
        rows=_row_keys(spec, context, database),
        coarse_ns=summary.source.resolution_ns if summary.source.resolution_ns > _FINE_NS else 0,
    )
    try:
        if spec.order != "none":
            capture.check_order()
        _add_all(planner, Choice(spec, wire.LANGUAGE), copy_files, capture, context)
        planner.feeds = copy_files.descriptors()
        if spec.copy_from and not summary.copies:
            context.findings.note(_NO_COPIES)
    except BaseException:
        planner.close()
        raise
    uncertain = planner.uncertain()
    for note in (conninfo.note(), *differing(summary.skipped), *uncertain.sentences()):
        if note:
            context.findings.note(note)
    for named in uncertain.named(_MOST_UNCERTAIN):
        context.findings.row("uncertain_order", **named._asdict())
    return planner


def _add_all(
    planner: Planner,
    choice: Choice,
    copy_files: CopyFiles,
    capture: ArchiveReader,
    context: Context,
) -> None:
    """Add the chosen actions to the planner, but no COPY without data; count what is left out."""
    if choice.asked:
        with context.progress.task("look for what is chosen"):
            choice.look(capture.blocks())
    with context.progress.task("plan the replay", capture.summary.actions) as task:
        for block in capture.blocks():
            for session in block.sessions:
                planner.describe(session)
                choice.describe(session)
            for row in range(len(block)):
                what = block.action(row), block.statement(row), block.place(row)
                kept = not choice.asked or choice.keeps(*what)
                failed = bool(what[0].sqlstate)
                feed = copy_files.feed(what[1], failed=failed, kept=kept)
                if kept and feed is not None:
                    planner.add(*what, feed)
            task.advance(len(block))
    planner.leave_out(choice.left_out())
    planner.leave_out(copy_files.left_out())
    for sentence in (*choice.notes(), copy_files.unused()):
        if sentence:
            context.findings.note(sentence)


def _blocked(spec: Spec, database: Database) -> Blocked | None:
    """Return the engine's query for lock waits, with a way to connect to the database.

    Return None if the key `order` is "none", or if the engine has no such query.
    """
    verb = database.engine.verb(_BLOCKED)
    if spec.order == "none" or verb is None:
        return None
    (statement,) = verb.statements()
    return Blocked(database.connector(), statement)


def _row_keys(spec: Spec, context: Context, database: Database) -> RowKeys | None:
    """Return the object that finds the row of a change by the database's unique indexes.

    Return None if the order is not that of commits, or the engine cannot query its indexes.
    """
    verb = context.engine.verb(_GUARDED)
    if spec.order != "commit" or verb is None:
        return None
    rows = database.execute(verb)
    names = ((str(row["table_name"]), str(row["column_name"])) for row in rows)
    effects = context.engine.verb(_EFFECTS)
    found = [] if effects is None else database.execute(effects)
    return RowKeys(
        guarded_columns(names),
        [(str(row["table_name"]), str(row["effect"]), str(row["affected"])) for row in found],
    )


class _Replay:
    """A replay in progress, seen from the process that starts and watches the worker processes."""

    def __init__(
        self, spec: Spec, context: Context, database: Database, schedule: ReplaySchedule, cold: Cold
    ) -> None:
        self._spec = spec
        self._context = context
        self._database = database
        self._schedule = schedule
        self._cold = cold
        self._tallies: list[ReplayCounts] = []
        self._waiting = resources.Waiting()
        self._ended = 0.0
        self._rates = Rates(context.progress)

    def run(self) -> None:
        """Run the replay, and record its results; if an error ends it, record what ran until then.

        Raises ReplayerError if no session got a connection.
        """
        schedule, context = self._schedule, self._context
        jobs = schedule.jobs
        others = other_sessions.look(self._database)
        # Never on client hosts: the jobs share the plan and the order in this host's memory.
        with WorkerPool(
            worker.work, jobs, processes=len(jobs), awaited=self._database.waiting()
        ) as pool:
            with context.progress.task(f"connect {schedule.sessions:,} sessions"):
                pool.ready(timeout=_PREPARING + schedule.sessions)
            counted = machine_usage.counted(self._database)
            before = machine_usage.moment(context)
            opened_ns = pool.open()
            results: list[WorkerResult] = []
            try:
                self._watch(pool)
                results = pool.results()
            finally:
                after = machine_usage.moment(context)
                window = ReplayWindow(
                    schedule=schedule,
                    tally=ReplayCounts.of(self._tallies),
                    begin_ns=before.mark_ns,
                    end_ns=after.mark_ns,
                    opened_ns=opened_ns,
                    seconds=max((one.ended for one in results), default=self._ended),
                    cpu=sum(sum(one.cpu) for one in results),
                    whole=bool(results),
                )
                if results:
                    lasted = max(window.seconds, 1e-9)
                    cpu = [sum(times) for times in zip(*(r.cpu for r in results), strict=True)]
                    spent = machine_usage.ClientUse(cpu[0], cpu[1], lasted, len(results))
                    window = replace(
                        window,
                        use=machine_usage.use(context, before, after, opened_ns, spent),
                        activity=self._activity(counted, opened_ns),
                        queues=self._waiting.queues(),
                    )
                record(self._spec, context, window, self._cold)
                self._note_others(others, window)
        self._hold_against(window)
        self._check(window, results)

    def _note_others(self, before: OthersActivity | None, window: ReplayWindow) -> None:
        """Record notes on the work of sessions that were in the database before the replay.

        `before` is the count of their work before the replay.
        """
        if window.activity is not None:
            after = other_sessions.look(self._database)
            moved = other_sessions.work_between(before, after, known_before=True)
            self._context.findings.notes += other_sessions.notes(moved, window.activity)

    def _watch(self, pool: WorkerPool) -> None:
        """Add up the counts that worker processes report, until all are done; show progress."""
        total = self._schedule.actions
        done_by: dict[int, ReplayProgress] = {}
        self._rates = Rates(self._context.progress)
        asked = time.monotonic()
        with self._context.progress.task("replay", total) as task:
            for report in pool.reports(timeout=_ASKED_EVERY):
                if isinstance(report, ReplayProgress):
                    self._take(report, done_by)
                    self._show(task, done_by)
                if time.monotonic() - asked >= _ASKED_EVERY:
                    self._ask()
                    asked = time.monotonic()

    def _ask(self) -> None:
        """Ask the server which waits its sessions are in now, and add the answer to the samples."""
        verb = self._database.engine.verb(_WAITS)
        if verb is None:
            return
        (statement,) = verb.statements()
        try:
            rows = self._database.fetch(statement, verb=verb.name)
        except Interrupted:
            raise
        except ReplayerError:
            # If the server is lost, the worker processes report it.
            return
        self._waiting.add({str(row["wait"]): row.real("sessions") for row in rows})

    def _take(self, part: ReplayProgress, done_by: dict[int, ReplayProgress]) -> None:
        self._tallies.append(part.tally)
        if len(self._tallies) >= _MERGED_AT:
            self._tallies = [ReplayCounts.of(self._tallies)]
        self._ended = max(self._ended, part.seconds)
        done_by[part.process] = part

    def _show(self, task: Task, done_by: Mapping[int, ReplayProgress]) -> None:
        done = sum(one.done for one in done_by.values())
        behind = max(one.behind for one in done_by.values())
        rate = done / max(1e-9, self._ended)
        late = f", {behind:.1f} s behind" if behind > 0.1 else ""
        task.update(done=done, note=f"{rate:,.0f}/s{late}")
        self._rates.count({"statements": done}, behind=behind)

    def _activity(
        self, counted: machine_usage.Counted, opened_ns: int
    ) -> machine_usage.Activity | None:
        """Return the server's work in the replay, by its counters; None if it cannot be asked.

        On a server whose counters move late, it first waits until they are up to date.  `counted`
        are the counters before the replay, which began at `opened_ns`.
        """
        try:
            verb = self._database.engine.verb(_SETTLE)
            if verb is not None:
                self._database.execute(verb)
            return machine_usage.activity(counted, machine_usage.counted(self._database), opened_ns)
        except ReplayerError:
            return None

    def _hold_against(self, window: ReplayWindow) -> None:
        """Record the answers that differ from the log, or from the run that `against` names.

        Each difference is a row of the table `divergences`.
        """
        findings, spec = self._context.findings, self._spec
        sides: list[tuple[str, Iterator[divergence.Divergence]]] = []
        logged = self._schedule.errors_logged
        if logged or any(one.held_rows is not None for one in findings.replayed):
            divergences = divergence.against_log(findings.replayed, errors_logged=logged)
            sides.append(("log", divergences))
        if spec.against:
            control = _control(spec)
            why = divergence.not_comparable(findings.replayed, control)
            if why:
                findings.note(why)
            else:
                sides.append((spec.against, divergence.against_run(findings.replayed, control)))
        for side, divergences in sides:
            kept = list(divergences)
            real = sum(one.counts for one in kept)
            findings.facts[f"replay.divergences.{'log' if side == 'log' else 'run'}"] = real
            for one in kept:
                findings.row("divergences", against=side, **_columns(one, side, window))

    def _check(self, window: ReplayWindow, results: list[WorkerResult]) -> None:
        """Raise ReplayerError if all sessions were given up, because none got a connection."""
        given_up = window.tally.happened.get(GIVEN_UP, 0)
        if given_up and given_up >= self._schedule.sessions:
            reason = next((one.refusal for one in results if one.refusal), "it printed nothing")
            raise ReplayerError(
                f"the server took none of the {given_up:,} sessions any more: {reason}"
            )


def _columns(one: divergence.Divergence, side: str, window: ReplayWindow) -> dict[str, Any]:
    """Return a divergence as a row of the table `divergences`.

    `side` is "log", or the name of the run with which the answers were compared.
    """
    errors = one.what == "errors"
    first = _first(window, one) if errors or side == "log" else None
    where = one.where
    return {
        "fingerprint": one.replayed.fingerprint,
        "what": one.what,
        "ours": one.ours,
        "theirs": one.theirs,
        "executions": one.replayed.executions,
        "answers": one.answers,
        "follow": one.replayed.consequences if errors else one.replayed.rows_follow,
        "first_s": None if first is None else round(first.seconds, 3),
        "session": None if first is None else first.session,
        "from_s": None if where is None else round(where.begin, 3),
        "until_s": None if where is None else round(where.end, 3),
        "sessions": None if where is None else where.named,
        "why": ", ".join(one.replayed.varies) if one.what == "varying" else "",
        "text": one.replayed.text,
    }


def _first(window: ReplayWindow, one: divergence.Divergence) -> First | None:
    """Return the time and session of the first occurrence of a divergence; None if not known.

    A divergence is an error, the absence of an error that the log has, or other rows.
    """
    wanted = {"": 1, "here": 1, "otherwise": 1, "there": -1}[one.failed] * (one.what == "errors")
    firsts = [
        first
        for (place, code), first in window.tally.first.items()
        if (code > 0) - (code < 0) == wanted and _number(window, place) == one.replayed.fingerprint
    ]
    return min(firsts, key=lambda first: first.seconds, default=None)


def _number(window: ReplayWindow, place: int) -> str:
    return f"{window.schedule.fingerprints[place].number & (1 << 64) - 1:016x}"
