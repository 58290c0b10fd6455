"""An agent's connection to the coordinator's Dask scheduler, which it keeps as long as it works."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
from typing import TYPE_CHECKING, Any

from replayer.cluster import agent_line, dask_settings, remote_calls, tls
from replayer.cluster.agent_worker import AgentWorker
from replayer.errors import ReplayerError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from ssl import SSLContext

    from distributed.security import Security

_TRY_SECONDS = 3.0
_STDIN, _STDOUT, _STDERR = range(3)


async def serve_agent(order: dict[str, Any]) -> None:
    """Join the scheduler, print the agent's address, and serve calls until the agent has to end.

    `order` is the coordinator's message: the agent's name, its key and certificates, and the
    addresses of the scheduler. The agent ends when stdin is closed, when the scheduler is gone, or
    when the lease expires; then the whole process exits. Raises ReplayerError if the scheduler
    cannot be reached.
    """
    loop, left = asyncio.get_running_loop(), asyncio.Event()
    threading.Thread(target=_await_end, args=(loop, left), daemon=True).start()
    tls.without_pickles()
    own = dask_settings.Secret(order["certificate"], order["key"], order["authority"])
    security = tls.security(own)
    context = security.get_connection_args("worker")["ssl_context"]
    scheduler, address = _route(_candidates(order), context)
    worker = await _joined(scheduler, address, str(order["name"]), security, left.set)
    agent_line.print_line({"address": worker.address})
    _go_silent()
    # A worker closes itself when its scheduler is gone, even if ssh is still there.
    ends = [asyncio.create_task(left.wait()), asyncio.create_task(worker.finished())]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    with contextlib.suppress(Exception):
        await worker.working.end()
    # No cleanup is left to do: the child is gone, and the scheduler sees the end.
    os._exit(0)


def _candidates(order: dict[str, Any]) -> list[tuple[str, int]]:
    """Return possible addresses of the scheduler as (host, port), the likeliest first.

    `order` is the message with which the coordinator started this agent. The addresses are
    127.0.0.1 if the scheduler is in the same network namespace of this machine, then the address
    from which ssh came, then those of the key `candidates` of `order`.
    """
    by_ssh = os.environ.get("SSH_CONNECTION", "").split()[:1]
    same = ["127.0.0.1"] if order.get("network") == remote_calls.network() else []
    hosts = dict.fromkeys([*same, *by_ssh, *order["candidates"]])
    return [(host.split("%")[0], int(order["port"])) for host in hosts]


def _route(candidates: Sequence[tuple[str, int]], context: SSLContext) -> tuple[str, str]:
    """Return the scheduler's address, and this host's IP address in the connection to it.

    The first address has the form `tls://host:port`. `context` is for the TLS connection. Raises
    ReplayerError if no candidate (host, port) can be reached.
    """
    for host, port in candidates:
        try:
            with (
                socket.create_connection((host, port), _TRY_SECONDS) as plain,
                context.wrap_socket(plain) as secured,
            ):
                return f"tls://{_bracketed(host)}:{port}", secured.getsockname()[0]
        except OSError:
            continue
    tried = ", ".join(f"{host}:{port}" for host, port in candidates)
    raise ReplayerError(
        f"it cannot reach the host that called it, which was tried at {tried}: let connections "
        f"through between the hosts"
    )


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


async def _joined(
    scheduler: str, own: str, name: str, security: Security, leave: Callable[[], None]
) -> AgentWorker:
    """Start the Dask worker that serves as agent; return it when the scheduler has registered it.

    `scheduler` is the address of the scheduler, `own` the IP address at which the worker listens.
    `leave` is called when the agent has to end.
    """
    with dask_settings.scratch() as folder:
        worker = AgentWorker(
            scheduler,
            name=name,
            nthreads=1,
            host=f"tls://{_bracketed(own)}",
            security=security,
            memory_limit=0,
            local_directory=folder,
            needs_workdir=False,
            extensions={},
            metrics={},
            startup_information={},
            death_timeout=dask_settings.START_SECONDS,
        )
    worker.take_up(leave)
    await worker
    return worker


def _await_end(loop: asyncio.AbstractEventLoop, left: asyncio.Event) -> None:
    """Wait for the end of stdin, then set `left` in the loop's thread.

    At the end of stdin the process that started this agent is gone. A separate thread calls this.
    """
    with contextlib.suppress(OSError):
        while os.read(_STDIN, 1 << 12):
            pass
    loop.call_soon_threadsafe(left.set)


def _go_silent() -> None:
    """Discard all later output: no process reads it, and a full pipe would block the agent."""
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123
        for fd in (_STDOUT, _STDERR):
            os.dup2(nowhere.fileno(), fd)
