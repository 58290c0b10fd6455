"""The place where the jobs of sessions run: processes of this host, or client hosts.

On client hosts all jobs have one common start. A step gets a pool from its context and does not
know which kind it has. Jobs that share memory or a descriptor with each other or with the step (a
Counter, a memfd) cannot run on another host.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, Self, TypeVar

from replayer.watch.workers import Awaited, Work, WorkerPool

Accounts = TypeVar("Accounts")

_LEAST_LEAD = 0.02
_REHEARSALS = 2.5
"""The time for the accounts before the start, as a multiple of the time of their first reading."""


class ClientShare(Protocol):
    """One client host's share of a pool; None stands for an unknown value."""

    @property
    def name(self) -> str:
        """Return the name of the host."""
        ...

    @property
    def start_us(self) -> float | None:
        """Return the delay of its start, in microseconds of the pool's clock."""
        ...

    @property
    def bound_us(self) -> float | None:
        """Return the greatest possible error of that delay, in microseconds."""
        ...

    @property
    def drift_ppm(self) -> float | None:
        """Return the drift of its clock, in parts per million: positive if it is the faster one."""
        ...

    @property
    def first_s(self) -> float | None:
        """Return when its first job was done, in seconds since the start."""
        ...

    @property
    def last_s(self) -> float | None:
        """Return when its last job was done, in seconds since the start."""
        ...

    @property
    def cores(self) -> int | None:
        """Return the number of its processors."""
        ...

    @property
    def cpu_share(self) -> float | None:
        """Return the busy share of its processors while the jobs worked, whatever the cause."""
        ...

    @property
    def replayer_cores(self) -> float | None:
        """Return the average number of processors that its workers used meanwhile."""
        ...

    @property
    def agent_cpu_s(self) -> float | None:
        """Return the CPU seconds that its agent used meanwhile."""
        ...

    @property
    def lost(self) -> bool:
        """Return whether it was lost before its jobs were done."""
        ...

    @property
    def heard_s(self) -> float | None:
        """Return when its last answer came, in seconds since the start."""
        ...


class Pool(Protocol):
    """Jobs that start together, with WorkerPool's interface; all times are of this host's clock."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...

    @property
    def usage(self) -> tuple[float, float]:
        """Return user and system CPU seconds of the workers, from the start to each one's end."""
        ...

    @property
    def first_done_ns(self) -> int | None:
        """Return when the first job was done, as CLOCK_MONOTONIC nanoseconds."""
        ...

    @property
    def last_done_ns(self) -> int | None:
        """Return when the last job was done, as CLOCK_MONOTONIC nanoseconds."""
        ...

    @property
    def shares(self) -> Sequence[ClientShare]:
        """Return each client host's share, also after a loss; () for this host alone."""
        ...

    def ready(self, timeout: float = ...) -> None:
        """Wait until every job waits at the barrier."""
        ...

    def approach(self, lead: float) -> None:
        """Agree on the start with every host and return `lead` seconds before it; here at once."""
        ...

    def open(self) -> int:
        """Start all jobs at once; return the instant in CLOCK_MONOTONIC nanoseconds."""
        ...

    def reports(self, timeout: float = ...) -> Iterator[Any]:
        """Yield the jobs' reports until all are done, and None after a silent `timeout` (s).

        Raises HostLost.
        """
        ...

    def results(self, timeout: float | None = None) -> list[Any]:
        """Wait until all are done and return their results in the order of the jobs."""
        ...


class Clients(Protocol):
    """The hosts whose processes are the clients of a database."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the hosts: host i modulo their number does job i; () is this host alone."""
        ...

    @property
    def cores(self) -> int:
        """Return the number of processors of all of them."""
        ...

    def pool(
        self, work: Work, jobs: Sequence[Any], *, processes: int, awaited: Awaited | None = None
    ) -> Pool:
        """Return a pool of `processes` on all hosts; each host with a job has at least one."""
        ...


class LocalClients:
    """This host, as its own and only client."""

    names: tuple[str, ...] = ()
    cores = 0

    def pool(
        self, work: Work, jobs: Sequence[Any], *, processes: int, awaited: Awaited | None = None
    ) -> Pool:
        """Return a pool of processes of this host."""
        return WorkerPool(work, jobs, processes=processes, awaited=awaited)


LOCAL_CLIENTS = LocalClients()


def opened(pool: Pool, clients: Clients, accounts: Callable[[], Accounts]) -> tuple[Accounts, int]:
    """Open the barrier; return what `accounts` read just before, and when it was opened.

    The instant is in CLOCK_MONOTONIC nanoseconds. With client hosts the start is agreed on some
    seconds ahead, and nothing is measured during these. So the accounts are first read once without
    use, to know how long before the start the real reading has to begin.
    """
    if clients.names:
        begun = time.monotonic()
        accounts()
        pool.approach(_LEAST_LEAD + _REHEARSALS * (time.monotonic() - begun))
    return accounts(), pool.open()
