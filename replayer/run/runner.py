"""The runner: it performs a request and yields the Run after each step, so no result is lost."""

import contextlib
import os
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from replayer import __version__
from replayer.analysis.advice import warnings
from replayer.analysis.advice.leading_metrics import leaders
from replayer.engines.engine import Engine
from replayer.errors import HostLost, Interrupted, ReplayerError, Skip
from replayer.journal import home
from replayer.machine import free_space, machine_facts
from replayer.machine.host import Host, layers
from replayer.model import EngineFacts, Fact, Outcome, Run, Status, StepResult, StepSpec, Workload
from replayer.results.store import FORMAT, identify
from replayer.run import step_collectors, step_plugin
from replayer.run.context import Context, Progress
from replayer.run.event_stream.events import Begin
from replayer.run.event_stream.live_statistics import pulse
from replayer.run.plan import resume
from replayer.run.plan import workload as workload_file
from replayer.run.time_promise import NO_PROMISE, TimePromise
from replayer.servers import log_events
from replayer.servers.open import Server, open_server
from replayer.signals import interruption
from replayer.watch import active_collectors, calibration
from replayer.watch.client_pools import LOCAL_CLIENTS, Clients
from replayer.watch.sampler import Sampler


@dataclass(frozen=True)
class RunRequest:
    """The request of a run: the workload and all options that `replayer run` was called with."""

    workload: Workload
    engine: Engine
    label: str = ""
    notes: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    url: str | None = None
    bindir: Path | None = None
    data_dir: Path | None = None
    ask: Callable[[str], str] | None = None
    """Asks the user for the password of a server at a URL."""
    sizing: Mapping[str, Any] | None = None
    """The purpose of a run that sizes a machine; None for any other run."""
    following: Callable[[Run], StepSpec | None] | None = None
    """Returns the step that follows from all findings so far, None after the last one."""
    enough: Callable[[Run], bool] | None = None
    """Returns True if the findings so far make the remaining steps needless."""
    promise: TimePromise = NO_PROMISE
    """The promised duration of the run."""
    host: Host = field(default_factory=Host)
    resumed: Run | None = None
    """The cut run that is resumed; None for a new one."""
    clients: Clients = LOCAL_CLIENTS
    """The hosts whose processes are the sessions of the database."""
    watched: str = ""
    """The database's host, if the run works there and was requested from another host; else ""."""
    collectors: tuple[str, ...] = field(default_factory=active_collectors.chosen)
    """The names of the active collectors that watch the steps of the run."""

    @property
    def needs_database(self) -> bool:
        """Return whether any step works on a database."""
        return any(map(_needs_database, self.workload.steps))

    @property
    def measures_machine(self) -> bool:
        """Return whether another run on this machine at the same time would change any result."""
        return bool(self.collectors) or any(map(_measures_machine, self.workload.steps))


def _measures_machine(spec: StepSpec) -> bool:
    return step_plugin.load(spec.step).measures_machine(spec)


def _needs_database(spec: StepSpec) -> bool:
    return step_plugin.load(spec.step).needs_database(spec)


@dataclass(frozen=True)
class _Stage:
    """The objects that all steps of a run share, such as the server and the progress display."""

    order: RunRequest
    server: Server | None
    progress: Progress
    unwatched: set[str] = field(default_factory=set)
    """Collectors already reported as not watching: each is reported once in a run."""

    @property
    def storage(self) -> Path:
        """Return a folder on the disk under test.

        It is the folder of the server's files, or the one that the user named, or that of replayer.
        """
        folder = self.server.data_directory() if self.server is not None else None
        return folder or self.order.data_dir or home()

    def unread(self, failures: Mapping[str, str]) -> tuple[str, ...]:
        """Return a sentence for each failed collector that this run has not reported yet.

        `failures` maps the name of a collector to the reason why it could not watch.
        """
        fresh = [name for name in failures if name not in self.unwatched]
        self.unwatched.update(fresh)
        return tuple(f"{name} was not watched: {failures[name]}" for name in fresh)

    def begun(self, spec: StepSpec, repeat: int, device: str | None) -> None:
        """Send the event that a step begins to the programs that watch the run."""
        self.progress.tell(
            Begin(name=spec.name, repeat=repeat, step=spec.step, device=device or "")
        )

    def context(self, run: Run, sampler: Sampler, repeat: int = 1) -> Context:
        """Return the objects that one step may use; `repeat` is the number of the repeat from 1."""
        return Context(
            host=self.order.host,
            workload=self.order.workload,
            progress=self.progress,
            sampler=sampler,
            storage=self.order.data_dir or home(),
            database_server=self.server,
            repeat=repeat,
            done=run.steps,
            clients=self.order.clients,
            promise=self.order.promise,
        )


def execute(order: RunRequest, progress: Progress) -> Generator[Run]:
    """Run every step of every repeat, and yield the Run so far.

    It is yielded at the begin, as soon as host and engine are known, after each step, and at the
    end. The last Run has the final status. If a step fails, the error is raised after the Run that
    records it was yielded. A step that cannot be done here is `skipped` with its reason.
    """
    taken_up = order.resumed is not None
    order.promise.begin()
    run = _begin(order) if order.resumed is None else resume.begun(order.resumed)
    if not taken_up:
        yield run
    try:
        with contextlib.ExitStack() as stack:
            server = stack.enter_context(_server(order)) if order.needs_database else None
            stage = _Stage(order, server, progress)
            run = _located(run, stage)
            run = _ready(run, stage)
            # Every change since the first part of a resumed run was refused before this line, so
            # that its stored file stays unchanged until here.
            taken_up = False
            yield run
            try:
                planned = resume.missing(run, workload_file.turns(order.workload))
                while (turn := next(planned, None) or _following(order, run)) is not None:
                    if order.enough is not None and order.enough(run):
                        break
                    repeat, spec = turn
                    result, error = _perform(spec, stage, run, repeat)
                    run = run.model_copy(update={"steps": (*run.steps, result)})
                    if error is not None:
                        raise error
                    yield run
            finally:
                run = _left(run, server)
        run = _controlled(run, "after")
    except (ReplayerError, Interrupted) as error:
        failure = interruption() or error
        if taken_up:
            raise failure from error
        yield ended(run, _status(failure), str(failure))
        raise failure from error
    yield ended(run, Status.DONE, "")


def _located(run: Run, stage: _Stage) -> Run:
    """Return the run with the facts of its host, and of the disk and the folder of its data.

    Raises Impossible for a resumed run of another machine, boot or disk, or of this machine with
    other settings.
    """
    order = stage.order
    host = machine_facts.read_facts(order.host, stage.storage)
    if stage.server is None:
        # The facts of an engine have the folder of its data.
        host["data.directory"] = os.path.realpath(stage.storage)
    if not run.host:
        # A run that is resumed has none if it was cut off before this.
        return run.model_copy(update={"host": host})
    resume.refuse_other_host(run, host)
    return run


def _ready(run: Run, stage: _Stage) -> Run:
    """Return the run with the facts of its database, ready for its first step.

    Raises Impossible for steps that cannot be done here, and for a resumed run of another database.
    """
    order, server = stage.order, stage.server
    for spec in order.workload.steps:
        _check(spec, stage.context(run, Sampler(order.host, None)))
    if not run.control:
        run = _controlled(run, "before")
    engine = None if server is None else _started(server)
    if order.resumed is not None:
        resume.refuse_other_engine(run, engine)
    return run.model_copy(update={"engine": engine})


def _left(run: Run, server: Server | None) -> Run:
    """Return the run with facts on the objects that replayer has left in the server, if any."""
    left = {} if server is None else server.list_leftovers()
    if run.engine is None or not left:
        return run
    engine = run.engine.model_copy(update={"facts": {**run.engine.facts, **left}})
    return run.model_copy(update={"engine": engine})


def _controlled(run: Run, when: str) -> Run:
    return run.model_copy(
        update={"control": {**run.control, **calibration.measure(when, run.control)}}
    )


def _following(order: RunRequest, run: Run) -> tuple[int, StepSpec] | None:
    spec = None if order.following is None else order.following(run)
    return None if spec is None else (1, spec)


def _begin(order: RunRequest) -> Run:
    now = datetime.now(UTC)
    return Run(
        format=FORMAT,
        id=identify(now, order.workload.name, order.label),
        version=__version__,
        label=order.label,
        notes=order.notes,
        tags=dict(order.tags),
        started=now.isoformat(timespec="seconds"),
        status=Status.RUNNING,
        host={},
        engine=None,
        workload=workload_file.facts(order.workload),
        cluster=_cluster(order),
        sizing=None if order.sizing is None else dict(order.sizing),
    )


def _cluster(order: RunRequest) -> dict[str, Fact]:
    facts: dict[str, Fact] = {}
    if order.clients.names:
        facts["hosts"] = tuple(sorted(order.clients.names))
    if order.watched:
        facts["database"] = order.watched
    return facts


def ended(run: Run, status: Status, error: str) -> Run:
    """Return the run as ended: with its status, error, end time and warnings.

    It also gets its leading metrics, the main numbers that comparisons judge first.
    """
    finished = datetime.now(UTC).isoformat(timespec="seconds")
    run = run.model_copy(update={"status": status, "error": error, "finished": finished})
    return run.model_copy(update={"advice": warnings.on(run), "leading": leaders(run)})


def _server(order: RunRequest) -> contextlib.AbstractContextManager[Server]:
    return open_server(
        order.engine,
        url=order.url,
        bindir=order.bindir,
        data_dir=order.data_dir,
        settings=order.workload.settings,
        ask=order.ask,
        alone=order.measures_machine,
    )


def _started(server: Server) -> EngineFacts:
    """Start the server and return its facts; if the server was lost, the error names the reason."""
    try:
        server.start()
        return server.facts()
    except ReplayerError as error:
        lost = server.describe_loss()
        if lost:
            raise ReplayerError(f"{lost} before the first step") from error
        raise


def _check(spec: StepSpec, context: Context) -> None:
    """Raise Impossible if a step cannot be done; called for each step before the first one starts.

    A step that must be skipped raises nothing here: it is skipped when its turn comes.
    """
    with contextlib.suppress(Skip):
        step_plugin.load(spec.step).check(spec, context)


def _perform(
    spec: StepSpec, stage: _Stage, run: Run, repeat: int
) -> tuple[StepResult, ReplayerError | Interrupted | None]:
    """Run one step; return its result and the error that ended it, if one did."""
    step = step_plugin.load(spec.step)
    host = stage.order.host
    started, clock = datetime.now(UTC), time.monotonic_ns()
    status, reason = Status.DONE, ""
    failure: ReplayerError | Interrupted | None = None
    device = host.device_of(stage.storage)
    names = stage.order.collectors if step.HAS_WINDOW else ()
    watched = step_collectors.recordings(names, host, device, stage.server)
    sampler = Sampler(host, device, watcher=watched, layers=layers(host, stage.storage))
    context = stage.context(run, sampler, repeat)
    stage.begun(spec, repeat, device)
    context.promise_anew(context.still(), "the steps so far took longer than planned")
    try:
        with watched:
            try:
                with sampler, pulse(sampler, stage.server, stage.progress):
                    step.run(spec, context)
            finally:
                watched.end()
                with stage.progress.task(f"{spec.name}: account"):
                    step_collectors.keep(context.findings, watched)
    except Skip as skip:
        status, reason = Status.SKIPPED, str(skip)
    except (ReplayerError, Interrupted) as error:
        failure = interruption() or _with_shortage(error, stage.storage)
        status, reason = _status(failure), str(failure)
    lost = stage.server.describe_loss() if stage.server is not None else ""
    if lost and not isinstance(failure, Interrupted):
        # A measurement across a crash and its recovery is not the one that was asked for.
        failure = ReplayerError(f"{lost} in the middle of this step")
        status, reason = Status.FAILED, str(failure)
    # A step that was cut short keeps the findings that it had by then.
    outcome = _marked(context.findings.outcome(), stage)
    unread = stage.unread({**sampler.failures(), **watched.failures})
    outcome = outcome.model_copy(update={"notes": (*outcome.notes, *unread)})
    result = StepResult(
        **{name: getattr(outcome, name) for name in Outcome.model_fields},
        step=spec.step,
        name=spec.name,
        repeat=repeat,
        status=status,
        reason=reason,
        started=started.isoformat(timespec="milliseconds"),
        elapsed=(time.monotonic_ns() - clock) / 1e9,
        spec=spec.model_dump(mode="json"),
    )
    return result, failure


def _with_shortage(error: ReplayerError | Interrupted, folder: Path) -> ReplayerError | Interrupted:
    """Return the error of a step, with the free bytes if the disk of its data is nearly full.

    A database may report a full disk as a failed write.
    """
    words = free_space.shortage(folder)
    return ReplayerError(f"{error}{words}") if words and type(error) is ReplayerError else error


def _marked(outcome: Outcome, stage: _Stage) -> Outcome:
    """Return the outcome with the server's own actions, such as checkpoints, marked in its series.

    The series is the list of values for each second of the step.
    """
    if outcome.series is None or stage.server is None:
        return outcome
    return outcome.model_copy(update={"series": log_events.marked(outcome.series, stage.server)})


def _status(error: ReplayerError | Interrupted) -> Status:
    if isinstance(error, Interrupted):
        return Status.INTERRUPTED
    return Status.PARTIAL if isinstance(error, HostLost) else Status.FAILED
