"""Where the jobs of sessions run: in processes of this host, or on client hosts with one start.

A step asks its context for a pool and does not know which it has.  What cannot leave this host are
jobs that share memory or a descriptor with each other or with the step: a Counter, a memfd.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from replayer.watch.workers import Awaited, Work, WorkerPool

Accounts = TypeVar("Accounts")

_LEAST_LEAD = 0.02
_REHEARSALS = 2.5
"""So many times as long as the accounts took before is left for them before the start."""


class ClientShare(Protocol):
    """What is known of one client host's part in a pool; None is what is not."""

    @property
    def name(self) -> str:
        """The host."""
        ...

    @property
    def start_us(self) -> float | None:
        """How much later than agreed it began, in microseconds of the pool's clock."""
        ...

    @property
    def bound_us(self) -> float | None:
        """By how much that may be wrong."""
        ...

    @property
    def drift_ppm(self) -> float | None:
        """By how much its clock ran faster than the pool's."""
        ...

    @property
    def first_s(self) -> float | None:
        """When its first job was done, in seconds since the start."""
        ...

    @property
    def last_s(self) -> float | None:
        """When its last job was done."""
        ...

    @property
    def cores(self) -> int | None:
        """Its processors."""
        ...

    @property
    def cpu_share(self) -> float | None:
        """The share of their time that was busy, with whatever, while the jobs worked."""
        ...

    @property
    def replayer_cores(self) -> float | None:
        """Processors that its workers used meanwhile."""
        ...

    @property
    def agent_cpu_s(self) -> float | None:
        """CPU seconds that its agent used meanwhile."""
        ...

    @property
    def lost(self) -> bool:
        """Whether it was lost before its jobs were done."""
        ...

    @property
    def heard_s(self) -> float | None:
        """When it was last heard, in seconds since the start."""
        ...


class Pool(Protocol):
    """Jobs that start together, as WorkerPool has them; all times are of this host's clock."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    @property
    def usage(self) -> tuple[float, float]:
        """User and system CPU seconds of the workers, from the start to each one's end."""
        ...

    @property
    def first_done_ns(self) -> int | None:
        """When the first job was done."""
        ...

    @property
    def last_done_ns(self) -> int | None:
        """When the last job was done."""
        ...

    @property
    def shares(self) -> Sequence[ClientShare]:
        """What is known of each client host, also after one was lost; () on this host."""
        ...

    def ready(self, timeout: float = ...) -> None:
        """Wait until every job waits at the barrier."""
        ...

    def approach(self, lead: float) -> None:
        """Agree on the start with every host and return `lead` seconds before it; here at once."""
        ...

    def open(self) -> int:
        """Let everybody go at once and return when that was, as CLOCK_MONOTONIC nanoseconds."""
        ...

    def reports(self, timeout: float = ...) -> Iterator[Any]:
        """Yield what the jobs report until all are done, and None after `timeout` s of silence.

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
        """The hosts: job i is done by host i modulo their number; () is this one alone."""
        ...

    @property
    def cores(self) -> int:
        """Processors of all of them."""
        ...

    def pool(
        self, work: Work, jobs: Sequence[Any], *, processes: int, awaited: Awaited | None = None
    ) -> Pool:
        """Return a pool of `processes` over all hosts, one of each host that has a job at least."""
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

    With client hosts the start is agreed on some seconds ahead, in which nothing is measured: the
    accounts are read once in vain, to know how long before the start they have to be begun.
    """
    if clients.names:
        begun = time.monotonic()
        accounts()
        pool.approach(_LEAST_LEAD + _REHEARSALS * (time.monotonic() - begun))
    return accounts(), pool.open()
