"""The place where the jobs of a step's sessions run: processes of this host, or client hosts.

The jobs of all client hosts start at the same time. A step gets a pool from its context and does
not know whether its processes are local. Jobs that share memory or a descriptor with each other or
with the step (a Counter, a memfd) cannot run on another host.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, Self, TypeVar

from replayer.watch.workers import Awaited, Work, WorkerPool

Accounts = TypeVar("Accounts")

_LEAST_LEAD = 0.02
_REHEARSALS = 2.5
"""The time reserved for reading counters just before the start, in durations of a trial reading."""


class ClientShare(Protocol):
    """One client host's part in the work of a pool; a value that is not known is None."""

    @property
    def name(self) -> str:
        """Return the name of the host."""
        ...

    @property
    def start_us(self) -> float | None:
        """Return by how many microseconds the host started too late; None if not known."""
        ...

    @property
    def bound_us(self) -> float | None:
        """Return the greatest possible error of `start_us`, in microseconds; None if not known."""
        ...

    @property
    def drift_ppm(self) -> float | None:
        """Return the drift of the host's clock in parts per million; None if not known.

        It is positive if the clock runs fast.
        """
        ...

    @property
    def first_s(self) -> float | None:
        """Return the seconds from the start to the end of the host's first job; None if unknown."""
        ...

    @property
    def last_s(self) -> float | None:
        """Return the seconds from the start to the end of the host's last job; None if unknown."""
        ...

    @property
    def cores(self) -> int | None:
        """Return the number of the host's processors; None if not known."""
        ...

    @property
    def cpu_share(self) -> float | None:
        """Return the share of the host's processor time that all programs used during the jobs.

        None if it is not known.
        """
        ...

    @property
    def replayer_cores(self) -> float | None:
        """Return the average number of processors that the host's workers used during the jobs.

        None if it is not known.
        """
        ...

    @property
    def agent_cpu_s(self) -> float | None:
        """Return the CPU seconds of the agent on the host during the jobs; None if unknown."""
        ...

    @property
    def lost(self) -> bool:
        """Return whether the connection to the host was lost before its jobs were done."""
        ...

    @property
    def heard_s(self) -> float | None:
        """Return when the host's last answer came, in seconds since the start; None if unknown."""
        ...


class Pool(Protocol):
    """Jobs that start together, on one host or several; all times are of this host's clock."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...

    @property
    def usage(self) -> tuple[float, float]:
        """Return the workers' user and system CPU seconds, from the start to each worker's end."""
        ...

    @property
    def first_done_ns(self) -> int | None:
        """Return when the first job was done, in CLOCK_MONOTONIC ns; None if no job is done."""
        ...

    @property
    def last_done_ns(self) -> int | None:
        """Return when the latest job was done, in CLOCK_MONOTONIC ns; None if no job is done."""
        ...

    @property
    def shares(self) -> Sequence[ClientShare]:
        """Return the share of each client host, also of a lost one; () without client hosts."""
        ...

    def ready(self, timeout: float = ...) -> None:
        """Wait until every job is prepared and waits at the barrier for the common start.

        Raises ReplayerError if that takes longer than `timeout` seconds.
        """
        ...

    def approach(self, lead: float) -> None:
        """Agree with all client hosts on the instant of the start, then wait for it.

        The wait ends `lead` seconds before the start. A pool without client hosts does not wait.
        """
        ...

    def open(self) -> int:
        """Start all jobs at once; return the instant in CLOCK_MONOTONIC nanoseconds."""
        ...

    def reports(self, timeout: float = ...) -> Iterator[Any]:
        """Yield the jobs' reports until all are done; None after `timeout` seconds without one.

        Raises HostLost if a client host is lost.
        """
        ...

    def results(self, timeout: float | None = None) -> list[Any]:
        """Wait until all jobs are done and return their results in the order of the jobs.

        Raises ReplayerError if a job failed, or after `timeout` seconds; for None there is no
        limit.
        """
        ...


class Clients(Protocol):
    """The hosts whose processes are the clients of a database."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the hosts; () if this host is the only client.

        With n hosts, host i % n does job i.
        """
        ...

    @property
    def cores(self) -> int:
        """Return the number of processors of all client hosts together; 0 without client hosts."""
        ...

    def pool(
        self, work: Work, jobs: Sequence[Any], *, processes: int, awaited: Awaited | None = None
    ) -> Pool:
        """Return a pool that does `jobs` with `processes` processes, divided among all hosts.

        `work` is the function that is called for each job. A host that has a job has at least one
        process. `awaited` is the server whose answers the jobs need, None if there is none.
        """
        ...


class LocalClients:
    """The clients of a run without client hosts: this host does all jobs."""

    names: tuple[str, ...] = ()
    cores = 0

    def pool(
        self, work: Work, jobs: Sequence[Any], *, processes: int, awaited: Awaited | None = None
    ) -> Pool:
        """Return a pool that does `jobs` with `processes` processes of this host."""
        return WorkerPool(work, jobs, processes=processes, awaited=awaited)


LOCAL_CLIENTS = LocalClients()


def opened(pool: Pool, clients: Clients, accounts: Callable[[], Accounts]) -> tuple[Accounts, int]:
    """Start a pool's jobs; return what `accounts` returned just before, and when they started.

    `accounts` reads counters. The start is in CLOCK_MONOTONIC nanoseconds. The client hosts agree
    on it some seconds before, and nothing is measured during these seconds. So `accounts` is first
    called once as a trial: its duration shows how long before the start the real call must begin.
    """
    if clients.names:
        begun = time.monotonic()
        accounts()
        pool.approach(_LEAST_LEAD + _REHEARSALS * (time.monotonic() - begun))
    return accounts(), pool.open()
