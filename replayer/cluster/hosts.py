"""The hosts of one run, for callers that are not asynchronous.

    with connect_hosts(["a", "b"], watch="db") as hosts:
        with hosts.pool(work, jobs, processes=16) as pool:    # on a and b
            ...

A separate thread holds all connections. A run may be sent to one of the hosts and command the other
hosts from there: it gets `hosts.passport()`, and connects to them with `rejoined(passport)`.
"""

from __future__ import annotations

import contextlib
import signal
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from replayer.cluster import dask_settings, packing, require_libraries, worker_process
from replayer.cluster.dask_settings import CALL_SECONDS, Secret
from replayer.cluster.event_loop import EventLoop
from replayer.cluster.member import Member, own, refuse_other
from replayer.cluster.pool import ClusterPool
from replayer.errors import HostLost, Impossible, ReplayerError
from replayer.lazy_import import Later

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Self

    from replayer.cluster import dask_backend
    from replayer.cluster.host_clock import Offset
    from replayer.cluster.remote_calls import HostDescription
    from replayer.watch.workers import Awaited, Work
else:
    # Dask takes 0.3 s to load, and a run on one host does not need it.
    dask_backend = Later("replayer.cluster.dask_backend")

_WATCHED = "database: "
"""The prefix of an agent's name on the database's host.

The same host may have another agent, as a client.
"""


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """The data with which a run that was sent to another host connects to its client hosts."""

    clients: tuple[tuple[str, str, Secret | None], ...] = field(repr=False)
    """(name, address, certificate with which to command it) of each agent."""


class Hosts:
    """The agents of one run: those of the client hosts, and perhaps one on the database's host."""

    def __init__(
        self, loop: EventLoop, members: Sequence[Member], delegated: Mapping[str, Secret | None]
    ) -> None:
        """Take the members, which have an agent each, and the certificates for a remote run.

        `delegated` is name of member -> the certificate with which a run that was sent to another
        host commands the member; None for a connection without encryption.
        """
        self._loop, self._delegated = loop, delegated
        self._members = {member.name: member for member in members}
        self.database: Member | None = self._members.pop(
            next((name for name in self._members if name.startswith(_WATCHED)), ""), None
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the client hosts; of n clients, number i % n does job i of a pool."""
        return tuple(self._members)

    @property
    def watched(self) -> str:
        """Return the name of the database's host if it has an agent, else ""."""
        return self.database.name.removeprefix(_WATCHED) if self.database else ""

    @property
    def cores(self) -> int:
        """Return the number of processors of all clients together."""
        return sum(member.about.cores for member in self._members.values() if member.about)

    @property
    def members(self) -> tuple[Member, ...]:
        """Return the client hosts, without the host of the database."""
        return tuple(self._members.values())

    def about(self, name: str) -> HostDescription:
        """Return the description that a host gives of itself."""
        member = self._member(name)
        assert member.about is not None, "it has joined"
        return member.about

    def offset(self, name: str) -> Offset:
        """Measure and return the offset of a host's clock from this host's clock."""
        return self._loop.run(self._member(name).offset())

    def ask(self, name: str, op: str, *, timeout: float = CALL_SECONDS, **arguments: Any) -> Any:
        """Ask the agent on the host `name` to do the operation `op`; return its answer, a dict.

        `op` is the name of an operation in remote_calls, such as `ping`, and `arguments` are its
        arguments. Raises HostLost if there is no answer within `timeout` seconds, and
        ReplayerError with the host's message if the operation failed.
        """
        return self._loop.run(self._member(name).ask(op, timeout=timeout, **arguments))

    def watch(self, name: str) -> None:
        """Make the client `name` the host of the database, and remove it from the clients."""
        self.database = self._members.pop(name)

    def pool(
        self, work: Work, jobs: Sequence[Any], *, processes: int, awaited: Awaited | None = None
    ) -> ClusterPool:
        """Return a pool that does `jobs` with `processes` processes, divided among all clients.

        `work` is the function that is called for each job. A client that has a job has at least one
        process. `awaited` is the server whose answers the jobs need, None if there is none.
        """
        return ClusterPool(
            self.members, self._loop, work, jobs, processes=processes, awaited=awaited
        )

    def passport(self) -> ClientCredentials:
        """Return the credentials with which a run on the database's host reaches the clients."""
        return ClientCredentials(
            tuple(
                (one.name, one.address, self._delegated[one.name]) for one in self._members.values()
            )
        )

    def run(self, work: Callable[..., Any], order: Any, on: str = "") -> RemoteRun:
        """Return a context in which `work(order, link)` runs on another host.

        The host is the client `on`, or that of the database if `on` is "". `order` is any value
        that `packing` can send. By `link`, a worker_process.ReportLink, the function sends reports.
        Raises Impossible if `on` is "" and the database's host has no agent.
        """
        if not on and self.database is None:
            raise Impossible("no host of the database was named: name it with --watch HOST")
        member = self._members[on] if on else self.database
        assert member is not None
        return RemoteRun(member, self._loop, work, order)

    def _member(self, name: str) -> Member:
        if self.database is not None and name == self.watched and name not in self._members:
            return self.database
        return self._members[name]


class RemoteRun:
    """A function that runs on another host during the `with` block: its reports and its result."""

    def __init__(
        self, member: Member, loop: EventLoop, work: Callable[..., Any], order: Any
    ) -> None:
        self._member, self._loop = member, loop
        self._work, self._order = packing.name_of(work), packing.pack(order)

    def __enter__(self) -> Self:
        self._loop.run(self._member.begin(worker_process.RUN, self._work, self._order, 1))
        return self

    def __exit__(self, *exception: object) -> None:
        self._loop.run(self._member.release())

    def receive_messages(self, timeout: float = 1.0) -> Iterator[Any]:
        """Yield the function's reports until it has ended, and None for a pause in the reports.

        A None comes after every `timeout` seconds without a report. After the last report, raises
        HostLost if the host is lost, or ReplayerError with the message with which the function
        failed.
        """
        member = self._member
        while True:
            state, lost = member.state, member.lost
            while member.reports:
                yield packing.unpack(member.reports.popleft())
            if lost:
                raise HostLost(lost)
            if state == "failed":
                raise member.failure()
            if state == "done":
                return
            if not self._loop.wait(timeout):
                yield None

    def interrupt(self, number: int = signal.SIGINT) -> None:
        """Send a signal to the process of the function, so that it cleans up and stops.

        The reports that the function then sends can still be read.
        """
        self._loop.run(self._member.ask("interrupt", number=int(number)))

    def result(self) -> Any:
        """Return the value that the function returned; raise ReplayerError if it has not ended."""
        return packing.unpack(self._loop.run(self._member.collected()))


@contextlib.contextmanager
def connect_hosts(clients: Sequence[str], *, watch: str = "", cluster: str = "") -> Iterator[Hosts]:
    """Start an agent on each host, and yield the hosts; the agents end with the `with` block.

    `clients` are the names of the client hosts, and `watch` is that of the database's host, "" for
    none. `cluster` is the address of the scheduler of a user's Dask cluster; its workers are then
    the clients. Raises Impossible or ReplayerError with the reason, such as a missing library, a
    failure of ssh, or a host that lacks this version of replayer.
    """
    wanted = _wanted(clients, watch)
    if cluster and clients:
        raise Impossible("--clients and --cluster both name the clients: give one of them")
    _load()
    with contextlib.ExitStack() as stack:
        loop = stack.enter_context(_loop())
        members, delegated = _borrowed(stack, loop, cluster) if cluster else ([], {})
        if wanted:
            agents, their = _launched(stack, loop, wanted)
            members, delegated = [*members, *agents], {**delegated, **their}
        joined = stack.enter_context(_joined(loop, members))
        yield Hosts(loop, joined, delegated)


@contextlib.contextmanager
def rejoined(passport: ClientCredentials) -> Iterator[Hosts]:
    """Yield the client hosts of a run that was sent to this host.

    `passport` is the result of `Hosts.passport` on the host that sent the run. The agents of the
    client hosts go on after the `with` block.
    """
    _load()
    with _loop() as loop:
        members = [_member(loop, *client) for client in passport.clients]
        with _joined(loop, members, end=False) as joined:
            yield Hosts(loop, joined, {name: secret for name, _, secret in passport.clients})


def _load() -> None:
    """Configure and load Dask's distributed; raise Impossible if it is not installed.

    This takes 0.3 s, so a run on one host does not do it.
    """
    require_libraries()
    dask_settings.configured()
    dask_backend.without_pickles()


def _launched(
    stack: contextlib.ExitStack, loop: EventLoop, wanted: Sequence[tuple[str, str]]
) -> tuple[list[Member], dict[str, Secret | None]]:
    """Start an agent of replayer on each host of `wanted`: (name of the agent, name of the host).

    Returns the agents as members in this order. Also returns name of agent -> the certificate with
    which a run that was sent to another host commands the agent.
    """
    for _, host in wanted:
        dask_backend.refuse_odd(host)
    roles = dask_backend.new_roles(name for name, _ in wanted)
    cluster = stack.enter_context(_entered(loop, dask_backend.launch_agents(wanted, roles)))
    agents = [(name, cluster.workers[name]) for name, _ in wanted]
    return [
        _member(loop, name, agent.address, roles.toward(name), ended=agent.ended)
        for name, agent in agents
    ], {name: roles.delegated(name) for name, _ in wanted}


def _borrowed(
    stack: contextlib.ExitStack, loop: EventLoop, cluster: str
) -> tuple[list[Member], dict[str, Secret | None]]:
    """Make workers of a user's own Dask cluster take part in the run, and return them as members.

    `cluster` is the address of its scheduler. Also returns name of worker -> the certificate with
    which a run that was sent to another host commands the worker.
    """
    workers, secret = stack.enter_context(_entered(loop, dask_backend.borrowed(cluster)))
    members = [_member(loop, name, address, secret) for name, address in workers.items()]
    return members, dict.fromkeys(workers, secret)


def _wanted(clients: Sequence[str], watch: str) -> list[tuple[str, str]]:
    twice = {host for host in clients if clients.count(host) > 1}
    if twice:
        raise Impossible(f"--clients names {min(twice)} twice")
    wanted = [(host, host) for host in clients]
    return [*wanted, (f"{_WATCHED}{watch}", watch)] if watch else wanted


@contextlib.contextmanager
def _loop() -> Iterator[EventLoop]:
    loop = EventLoop()
    try:
        yield loop
    finally:
        loop.close()


@contextlib.contextmanager
def _entered(loop: EventLoop, context: Any) -> Iterator[Any]:
    value = loop.run(context.__aenter__(), patient=True)
    try:
        yield value
    finally:
        loop.run(context.__aexit__(None, None, None))


def _member(
    loop: EventLoop,
    name: str,
    address: str,
    secret: Secret | None,
    *,
    ended: Callable[[], str | None] = lambda: None,
) -> Member:
    async def made() -> Member:
        connection_to = dask_backend.connection_to(address, secret, CALL_SECONDS)
        return Member(name, address, connection_to, changed=loop.ring, ended=ended)

    return loop.run(made())


@contextlib.contextmanager
def _joined(
    loop: EventLoop, members: Sequence[Member], *, end: bool = True
) -> Iterator[list[Member]]:
    """Connect to the members, the hosts with agents, and yield them; disconnect at the end.

    Raises ReplayerError if a member has another version of replayer. If `end` is true, the agents
    are also ended.
    """
    try:
        loop.together([member.join() for member in members])
        here = own()
        for member in members:
            assert member.about is not None
            refuse_other(here, member.about, member.host)
        yield list(members)
    finally:
        with contextlib.suppress(ReplayerError, TimeoutError):
            loop.together([member.leave(agent=end) for member in members])
