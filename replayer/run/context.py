"""The objects that a step may use: database, server, host, sampler, progress display."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from replayer.engines.connection import Database
from replayer.engines.engine import Engine
from replayer.errors import Skip
from replayer.machine import machine_facts
from replayer.machine.host import Host, layers
from replayer.model import StepResult, Workload
from replayer.run.client_hosts import ClientHosts
from replayer.run.event_stream.events import Event, Figures, tidy
from replayer.run.step_recorder import StepRecorder
from replayer.run.time_promise import NO_PROMISE, TimePromise
from replayer.servers.open import Server
from replayer.watch import interference
from replayer.watch.client_pools import LOCAL_CLIENTS, Clients, Pool
from replayer.watch.interference import AccountMark
from replayer.watch.sampler import Sampler
from replayer.watch.workers import Awaited, Work


class Task(Protocol):
    """One line of progress."""

    def advance(self, done: float) -> None:
        """Add `done` to the amount that is done, in the unit of the task's total."""
        ...

    def update(
        self, *, done: float | None = None, total: float | None = None, note: str | None = None
    ) -> None:
        """Set the amount done, the total, or the words behind the bar; None changes nothing."""
        ...


class Progress(Protocol):
    """The output of a run: lines on stderr, and events that other programs read."""

    def task(
        self, title: str, total: float | None = None
    ) -> contextlib.AbstractContextManager[Task]:
        """Show and yield one line of progress, which is removed when the `with` block ends.

        `total` is the amount of all work, in any unit; None if it is not known.
        """
        ...

    def say(self, text: str) -> None:
        """Print one line above the progress bars."""
        ...

    def tell(self, event: Event) -> None:
        """Send an event to the programs that watch the run; print nothing."""
        ...


@dataclass
class Context:
    """The objects that one step may use; the runner makes a new Context for every execution."""

    host: Host
    workload: Workload
    progress: Progress
    sampler: Sampler
    """Samples the kernel's counters during the step; `sampler.mark()` sets an end of a window."""
    storage: Path
    """A folder on the disk under test, for steps that make their own files."""
    database_server: Server | None = None
    """None if no step of the workload needs a database."""
    repeat: int = 1
    done: Sequence[StepResult] = field(default_factory=tuple)
    """The results of the steps of this run that have ended."""
    clients: Clients = LOCAL_CLIENTS
    """The hosts whose processes are the sessions of the database."""
    findings: StepRecorder = field(default_factory=StepRecorder)
    """The findings of this step; they are kept even if the step is cut short."""
    promise: TimePromise = NO_PROMISE
    """The promised duration of the run."""

    @property
    def server(self) -> Server:
        """Return the database's server; raise Skip in a run without a database."""
        if self.database_server is None:
            raise Skip("this run has no database")
        return self.database_server

    @property
    def engine(self) -> Engine:
        """Return the engine of the database, adapted to the version of its server.

        Raises Skip in a run without a database.
        """
        return self.server.engine

    def still(self) -> float:
        """Return the least time in seconds from the begin of this step to the end of this repeat.

        It is the sum over this step and the steps of this repeat that follow. The seconds of each
        follow from its keys, and are 0 if its keys set no time.
        """
        done = {step.name for step in self.done if step.repeat == self.repeat}
        steps = (step for step in self.workload.steps if self.repeat == 1 or not step.once)
        return sum(step.lasts() for step in steps if step.name not in done)

    def promise_anew(self, left: float, why: str) -> None:
        """Print a new expected duration of the run if the promised one can no longer be kept.

        `left` is the number of seconds that the run still needs; `why` is the reason for the delay.
        """
        if words := self.promise.renewed(left, why):
            self.progress.say(words)

    def figures(self, **values: float) -> None:
        """Report live figures of the step to the programs that watch the run; call this repeatedly.

        The names of the figures are keys of events.FIGURES.
        """
        self.progress.tell(Figures(values=tidy(values)))

    def account(self) -> AccountMark:
        """Return the present CPU and traffic counters of the server and of all other processes."""
        pids = interference.pids_of(self.server)
        return interference.point(self.host, pids, self.sampler.layers)

    @contextlib.contextmanager
    def watching(self, device: str | None, path: Path | None = None) -> Iterator[Sampler]:
        """Yield the sampler of a disk: the step's own one, or a new one if the disk is another one.

        A sampler copies the kernel's counters every second. The facts of the run describe only the
        disk of the database's files. So the facts of another disk are added to the step; `path` is
        a file on that disk.
        """
        below = None if path is None else layers(self.host, path)
        if device == self.sampler.device and below in (None, self.sampler.layers):
            yield self.sampler
            return
        if device is not None:
            facts = machine_facts.read_device_facts(self.host, device, path)
            self.findings.facts |= {name: fact for name, fact in facts.items() if fact is not None}
        watcher = self.sampler.watcher
        with Sampler(self.host, device, watcher=watcher, layers=below) as sampler:
            yield sampler

    @contextlib.contextmanager
    def pool(
        self,
        work: Work,
        jobs: Sequence[Any],
        *,
        processes: int,
        window: str,
        awaited: Awaited | None = None,
    ) -> Iterator[tuple[Pool, ClientHosts]]:
        """Yield the pool of processes for the sessions' jobs, and the client hosts that do them.

        `work` is called for each of the `jobs`, in `processes` processes. `window` is the name of
        the measured time, for the table of hosts. `awaited` is the server whose answers the jobs
        need. The caller records the hosts' shares (`ClientHosts.record`) after a window; if the
        window is cut short, this method records them. Use a WorkerPool instead, which never leaves
        this host, for work without network or with memory that the jobs share.
        """
        sessions = [getattr(job, "sessions", 1) for job in jobs]
        hosts = ClientHosts(self.clients, sessions, window)
        with self.clients.pool(work, jobs, processes=processes, awaited=awaited) as pool:
            try:
                yield pool, hosts
            except BaseException:
                hosts.record(self.findings, pool.shares, None)
                raise

    @contextlib.contextmanager
    def database(self) -> Iterator[Database]:
        """Yield a connection to the database; start its server if needed. Close it at the end."""
        url = self.server.start()
        database = Database(self.engine, url)
        try:
            yield database
        finally:
            database.close()

    def data_directory(self) -> Path:
        """Return the folder of the server's files; raise Skip if they are not on this machine."""
        folder = self.server.data_directory()
        if folder is None:
            raise Skip(self.server.explain_missing_files().why)
        return folder
