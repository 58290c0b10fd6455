"""The agent: a worker of Dask's distributed that does what replayer's calls ask, and nothing else.

A worker of distributed runs whatever function it is sent, by some two dozen handlers.  This one
has none of them, and unpickles nothing.  It is started by `replayer agent` on a host that ssh has
led to, reads on stdin for whom it works, and ends when that is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import socket
import sys
import tempfile
import threading
from typing import TYPE_CHECKING, Any

from replayer.cluster import calls, needed, settings
from replayer.errors import Impossible, ReplayerError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from ssl import SSLContext

    from distributed.security import Security

    from replayer.cluster.working import Working

MARK = "replayer-agent "
"""What the one line begins with that an agent prints: a login shell may print others."""
_TRY_SECONDS = 3.0
_NEVER_MS = 3_600_000.0
_HANDLERS = {"identity", "terminate"}
_STREAMED = {"close", "worker-status-change", "remove-worker"}
_STDIN, _STDOUT, _STDERR = range(3)


def main() -> int:
    """Be an agent until whoever started it is gone; return the exit status."""
    order = _read_order()
    try:
        needed()
        settings.configured()
        asyncio.run(_live(order))
    except (ReplayerError, OSError, RuntimeError) as error:
        # Dask says in a RuntimeError that a worker did not start, and why in its cause.
        _print({"error": str(error.__cause__ or error)})
        return 1
    return 0


def _read_order() -> dict[str, Any]:
    """Return what the coordinating replayer wrote on stdin: one line of JSON."""
    refused = Impossible(
        "`replayer agent` is started by replayer itself, on the hosts of --clients and --watch: on "
        "stdin it reads for whom it works, and that was not there"
    )
    if os.isatty(_STDIN):
        raise refused
    data = b""
    while not data.endswith(b"\n"):
        piece = os.read(_STDIN, 1 << 16)
        if not piece:
            raise refused
        data += piece
    try:
        order: dict[str, Any] = json.loads(data)
        order["key"], order["certificate"], order["candidates"]
    except (ValueError, KeyError, TypeError):
        raise refused from None
    return order


async def _live(order: dict[str, Any]) -> None:
    """Join the scheduler, say so, and stay until stdin ends or the lease."""
    loop, left = asyncio.get_running_loop(), asyncio.Event()
    threading.Thread(target=_await_end, args=(loop, left), daemon=True).start()
    security = settings.security(settings.Secret(order["certificate"], order["key"]))
    context = security.get_connection_args("worker")["ssl_context"]
    scheduler, own = _route(_candidates(order), context)
    worker = await _joined(scheduler, own, str(order["name"]), security, left.set)
    _print({"address": worker.address})
    _go_silent()
    await left.wait()
    with contextlib.suppress(Exception):
        await worker.working.end()
    # Nothing is left to do in order: the child is gone, and the scheduler sees the end.
    os._exit(0)


def _candidates(order: dict[str, Any]) -> list[tuple[str, int]]:
    """Return where the scheduler may be, the likeliest first: from where ssh came."""
    by_ssh = os.environ.get("SSH_CONNECTION", "").split()[:1]
    same = ["127.0.0.1"] if order.get("network") == calls.network() else []
    hosts = dict.fromkeys([*same, *by_ssh, *order["candidates"]])
    return [(host.split("%")[0], int(order["port"])) for host in hosts]


def _route(candidates: Sequence[tuple[str, int]], context: SSLContext) -> tuple[str, str]:
    """Return the scheduler's host and port, and the own address from which it can be reached."""
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


async def _joined(scheduler: str, own: str, name: str, security: Security, leave: Any) -> Any:
    """Return the worker once the scheduler knows it."""
    kind = _worker_class()
    folder = tempfile.mkdtemp(prefix="replayer-agent-")
    try:
        worker = kind(
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
            death_timeout=settings.START_SECONDS,
        )
    finally:
        # It is for data that a worker spills; Python would look for modules in it.
        shutil.rmtree(folder, ignore_errors=True)
    worker.take_up(leave)
    await worker
    return worker


def _worker_class() -> Any:
    """Return the class, whose base is loaded only by a process that is an agent."""
    from distributed import Worker  # noqa: PLC0415

    from replayer.cluster.working import Working  # noqa: PLC0415

    settings.without_pickles()

    class AgentWorker(Worker):  # type: ignore[misc]
        """A worker with one handler."""

        working: Working
        handlers: dict[str, Any]
        stream_handlers: dict[str, Any]

        def take_up(self, leave: Any) -> None:
            """Have one handler, and be quiet: no tick, no heartbeat, no search for lost data."""
            with contextlib.suppress(ValueError):
                sys.path.remove(self.local_directory)
            self.working = Working(leave)
            for name in self.handlers.keys() - _HANDLERS:
                del self.handlers[name]
            self.handlers["replayer"] = self.replayer
            for name in self.stream_handlers.keys() - _STREAMED:
                self.stream_handlers[name] = _ignored
            for callback in self.periodic_callbacks.values():
                callback.callback_time = _NEVER_MS

        async def replayer(self, call: str, arguments: dict[str, Any]) -> dict[str, Any]:
            """Answer one of replayer's calls."""
            return await calls.answer(self.working, call, arguments)

        def start_http_server(self, *_: object, **__: object) -> None:
            """Start none: whoever asks would be answered, without TLS."""

    return AgentWorker


def _ignored(**_: object) -> None:
    """Do not do what a scheduler asks that has tasks."""


def _await_end(loop: asyncio.AbstractEventLoop, left: asyncio.Event) -> None:
    """Wait in a thread for the end of stdin: whoever started this agent is gone then."""
    with contextlib.suppress(OSError):
        while os.read(_STDIN, 1 << 12):
            pass
    loop.call_soon_threadsafe(left.set)


def _print(words: dict[str, Any]) -> None:
    text = f"{MARK}{json.dumps(words)}\n"
    with contextlib.suppress(OSError):
        os.write(_STDOUT, text.encode())


def _go_silent() -> None:
    """Write nowhere from now on: nobody reads it, and a full pipe would hold up the agent."""
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123
        for fd in (_STDOUT, _STDERR):
            os.dup2(nowhere.fileno(), fd)
