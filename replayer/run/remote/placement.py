"""The hosts that take part in a run, and the place of the run: this host or the database's host."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from replayer.cluster import remote_calls
from replayer.errors import Impossible
from replayer.lazy_import import Later
from replayer.model import Run
from replayer.run.context import Progress
from replayer.run.plan.request import refuse_idle, refuse_loopback
from replayer.run.remote.caller import execute_there, found_database, refuse_other
from replayer.run.remote.order_message import refuse_staying
from replayer.run.runner import RunRequest, execute
from replayer.servers import remote
from replayer.watch.client_pools import LOCAL_CLIENTS

if TYPE_CHECKING:
    from replayer.cluster import hosts
else:
    # A run on one host does without msgpack.
    hosts = Later("replayer.cluster.hosts")


@dataclass(frozen=True)
class Placement:
    """The hosts that the user named on the command line for a run."""

    clients: tuple[str, ...] = ()
    """The hosts whose processes are the sessions, by the names that ssh knows."""
    watch: str = ""
    """The host of the database."""
    cluster: str = ""
    """The address of a scheduler that the user runs, whose workers are the clients."""


@contextlib.contextmanager
def placed_run(order: RunRequest, wanted: Placement, progress: Progress) -> Iterator[Iterator[Run]]:
    """Yield an iterator of the Runs of a request, done on this host or on the database's host.

    The replayer processes on other hosts end with the `with` block. Raises Impossible if a host
    cannot be what the user named it for: a client or the database's host.
    """
    if wanted == Placement():
        yield execute(order, progress)
        return
    if wanted.clients or wanted.cluster:
        refuse_idle(order.workload, _options(wanted))
    if order.url is None and order.needs_database:
        raise Impossible(
            "a server that replayer starts is reached on this host alone: for "
            f"{_options(wanted)} give --engine the URL of a running server"
        )
    if wanted.watch:
        refuse_staying(replace(order, watched=wanted.watch))
    if order.url is not None:
        # The other hosts lack the password that this user keeps in files and variables.
        url = remote.with_password(order.engine, order.url, ask=order.ask)
        order = replace(order, url=url)
    with _agents(order, wanted, progress) as (asked, agents):
        runs = execute_there(asked, agents, progress) if asked.watched else execute(asked, progress)
        # The generator holds work of the agents, so it is closed before the agents are released.
        with contextlib.closing(runs):
            yield runs


@contextlib.contextmanager
def _agents(
    order: RunRequest, wanted: Placement, progress: Progress
) -> Iterator[tuple[RunRequest, Any]]:
    """Yield the request, completed with the hosts that take part, and the agents on these hosts.

    An agent is a replayer process on another host. All agents end with the `with` block.
    """
    with contextlib.ExitStack() as stack:
        agents = stack.enter_context(_connected(wanted, progress))
        watched = wanted.watch
        if watched:
            refuse_other(replace(order, watched=watched), agents)
        elif watched := found_database(order, agents):
            if wanted.cluster:
                agents.watch(watched)
            else:
                # The database's host gets a second agent, next to the one that is a client.
                stack.close()
                agents = stack.enter_context(_connected(replace(wanted, watch=watched), progress))
        refuse_loopback(order, [name for name in agents.names if _elsewhere(agents, name)])
        clients = agents if agents.names else LOCAL_CLIENTS
        yield replace(order, clients=clients, watched=watched), agents


@contextlib.contextmanager
def _connected(wanted: Placement, progress: Progress) -> Iterator[Any]:
    names = ", ".join(filter(None, dict.fromkeys((*wanted.clients, wanted.watch, wanted.cluster))))
    with contextlib.ExitStack() as stack:
        with progress.task(f"start agents on {names}"):
            somebodys = {"cluster": wanted.cluster} if wanted.cluster else {}
            agents = hosts.connect_hosts(wanted.clients, watch=wanted.watch, **somebodys)
            connected = stack.enter_context(agents)
        yield connected


def _elsewhere(agents: Any, name: str) -> bool:
    """Return whether a client is on another machine than this one."""
    return bool(agents.about(name).machine != remote_calls.network())


def _options(wanted: Placement) -> str:
    options = {
        "--clients": wanted.clients,
        "--watch": wanted.watch,
        "--cluster": wanted.cluster,
    }
    return " and ".join(option for option, value in options.items() if value)
