"""Start an agent on each host, by the system's ssh, and a scheduler here that knows them.

Dask's own SSHCluster reads only a part of ssh's configuration. It also puts its settings, including
the private key, on the command line of the other host, where `ps` shows them to every user.
Replayer uses OpenSSH as the user has configured it, and sends the key through ssh's stdin.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import select
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from distributed.core import Status
from distributed.deploy.spec import ProcessInterface, SpecCluster
from distributed.scheduler import Scheduler

from replayer import shell
from replayer.cluster import dask_settings, remote_calls, reply, ssh, tls
from replayer.cluster.agent_line import MARK
from replayer.errors import Impossible, ReplayerError, one_line

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from replayer.cluster.dask_settings import Secret

_CLOSE_SECONDS = 1.0
"""The time for an agent to end; a hanging host is not waited for any longer."""
_LAST_WORDS_SECONDS = 0.5
_WORDS_BYTES = 4096
_CONVERSATIONS = 32
"""Agents are started by ssh on at most this many hosts at the same time."""
_ADDRESS = re.compile(r"tls://(\[[0-9A-Fa-f:.]+(%[\w.-]+)?\]|[\w.-]+):\d{1,5}")
_ASKED = {
    "identity",
    "register-worker",
    "heartbeat_worker",
    "unregister",
    "subscribe_worker_status",
    "get_metadata",
    "set_metadata",
    "retire_workers",
    "terminate",
}
"""The requests that the scheduler accepts: those of workers and of the SpecCluster.

Dask's other requests are for its clients.
"""


class OwnScheduler(Scheduler):  # type: ignore[misc]
    """A scheduler that only keeps the list of agents: it accepts no tasks and no functions."""

    def __init__(self, **options: Any) -> None:
        with dask_settings.scratch() as folder:
            super().__init__(local_directory=folder, needs_workdir=False, **options)
        self.blocked_handlers = [name for name in self.handlers if name not in _ASKED]

    async def listen(self, *where: Any, **options: Any) -> None:
        """Listen on every address of this host.

        This process itself connects to its scheduler by the loopback address, whatever the routes
        are.
        """
        await super().listen(*where, default_host="127.0.0.1", **options)

    def start_http_server(self, *_: object, **__: object) -> None:
        """Start no HTTP server: it would answer any client, without TLS."""


class SshAgent(ProcessInterface):  # type: ignore[misc]
    """An agent on one host, and the ssh process that started it and with which it ends."""

    def __init__(
        self, scheduler: str, *, name: str, host: str, secret: Secret, talking: ThreadPoolExecutor
    ) -> None:
        super().__init__(scheduler=scheduler, name=name)
        self._name, self._host, self._talking = name, host, talking
        self._port = scheduler.rpartition(":")[2]
        self._secret = secret
        self._process: shell.Conversation | None = None
        self._starting = threading.Lock()
        self._unwanted = False
        self._last_words = b""

    async def start(self) -> None:
        """Start the agent and wait until it has joined the scheduler.

        Raises ReplayerError with the reason if it cannot work on its host.
        """
        loop = asyncio.get_running_loop()
        self.address = await loop.run_in_executor(self._talking, self._start)
        await super().start()

    async def close(self) -> None:
        """End the agent: close its stdin, and kill the ssh process if that still runs after 1 s."""
        # A thread may be starting ssh just now. It would then wait for an answer that is no longer
        # wanted.
        with self._starting:
            self._unwanted = True
        if self.status == Status.created and self._process is not None:
            # Another thread still waits for it.
            self._process.kill()
        if self.status != Status.closed:
            await asyncio.get_running_loop().run_in_executor(self._talking, self._end)
            await super().close()

    def ended(self) -> str | None:
        """Return the last line of the ssh process's stderr if ssh has ended, else None."""
        if self._process is None or self._process.poll() is None:
            return None
        return self._reason()

    def _start(self) -> str:
        command = [*ssh.words(), "--", self._host, ssh.remote("agent", "REPLAYER_AGENT")]
        with self._starting:
            if self._unwanted:
                raise ReplayerError(f"no agent was started on {self._host}: it was ended before")
            self._process = process = shell.converse(command)
        assert process.stdin is not None
        try:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(self._order())
            return self._address(self._answer(process))
        except BaseException:
            self._end()
            raise

    def _address(self, answer: reply.Reply) -> str:
        if "error" in answer:
            words = one_line(answer["error"])
            raise ReplayerError(f"no agent can work on {self._host}: {words}")
        address = answer.get("address")
        if not isinstance(address, str) or not _ADDRESS.fullmatch(address):
            raise ReplayerError(
                f"no agent can work on {self._host}: its address is reported as "
                f"{one_line(address)!r}, and an agent's address begins with tls://"
            )
        return address

    def _order(self) -> bytes:
        order = {
            "name": self._name,
            "certificate": self._secret.certificate,
            "key": self._secret.key,
            "authority": self._secret.authority,
            "port": self._port,
            "candidates": remote_calls.addresses(),
            "network": remote_calls.network(),
        }
        return json.dumps(order).encode() + b"\n"

    def _answer(self, process: shell.Conversation) -> reply.Reply:
        """Return the agent's one line of JSON; lines that a login shell prints before are skipped.

        Raises ReplayerError with ssh's message if no such line came in time.
        """
        assert process.stdout is not None
        deadline = time.monotonic() + dask_settings.START_SECONDS
        try:
            answer = reply.read(process.stdout.fileno(), MARK.encode(), dask_settings.START_SECONDS)
        except reply.InvalidReply as error:
            raise ReplayerError(f"no agent could be started on {self._host}: {error}") from error
        if answer is None:
            late = time.monotonic() >= deadline
            waited = f" within {dask_settings.START_SECONDS:.0f} s" if late else ""
            raise ReplayerError(
                f"no agent could be started on {self._host}{waited}: {self._reason()}"
            )
        return answer

    def _reason(self) -> str:
        """Return the last line of ssh's stderr, which ssh or the remote program wrote."""
        assert self._process is not None
        stderr = self._process.stderr
        shell.wait_until_ended(self._process, within=_LAST_WORDS_SECONDS)
        while stderr is not None and not stderr.closed and select.select([stderr], [], [], 0)[0]:
            piece = os.read(stderr.fileno(), 1 << 16)
            if not piece:
                break
            self._last_words = (self._last_words + piece)[-_WORDS_BYTES:]
        lines = self._last_words.decode(errors="replace").strip().splitlines()
        return one_line(lines[-1].strip()) if lines else "ssh printed nothing"

    def _end(self) -> None:
        process = self._process
        if process is None:
            return
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        if not shell.wait_until_ended(process, within=_CLOSE_SECONDS):
            process.kill()
            process.wait()
        self._reason()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


@contextlib.asynccontextmanager
async def launch_agents(
    hosts: Sequence[tuple[str, str]], roles: tls.Roles
) -> AsyncIterator[SpecCluster]:
    """Start an agent for each (name of agent, host) of `hosts`; yield Dask's cluster of the agents.

    The agents end with the `with` block. `roles` has their certificates.
    """
    security = tls.security(roles.coordinator)
    talking = ThreadPoolExecutor(_CONVERSATIONS, thread_name_prefix="replayer-ssh")
    # Its extensions are for tasks, and one of them sends a pickle to every worker.
    options = {"extensions": {}, "dashboard": False, "security": security}
    address = {"host": "0.0.0.0", "protocol": "tls", "port": 0}  # noqa: S104 - TLS, by certificate
    agents = {
        name: {
            "cls": SshAgent,
            "options": {"host": host, "secret": roles.agents[name], "talking": talking},
        }
        for name, host in hosts
    }
    cluster = SpecCluster(
        agents,
        {"cls": OwnScheduler, "options": {**options, **address}},
        asynchronous=True,
        security=security,
        name="replayer",
    )
    try:
        await cluster
        yield cluster
    finally:
        await _closed(cluster)
        talking.shutdown(wait=False)


async def _closed(cluster: SpecCluster) -> None:
    """End all agents at once, also those that failed to start."""
    with contextlib.suppress(Exception):
        await asyncio.gather(
            *(agent.close() for agent in cluster._created),  # noqa: SLF001 - also those that failed
            return_exceptions=True,
        )
    with contextlib.suppress(Exception):
        await asyncio.wait_for(cluster._close(), _CLOSE_SECONDS)  # noqa: SLF001 - close() is this
        return
    _cut(cluster)


def _cut(cluster: SpecCluster) -> None:
    """Close every connection of the cluster that is still open, without waiting for the other end.

    This is needed if a host hangs or if this machine is busy.
    """
    scheduler = cluster.scheduler
    with contextlib.suppress(Exception):
        scheduler.stop()
    connections = [
        *getattr(cluster.scheduler_comm, "comms", ()),
        *getattr(scheduler, "_comms", ()),
        *getattr(scheduler, "stream_comms", {}).values(),
    ]
    for connection in connections:
        with contextlib.suppress(Exception):
            connection.abort()
    with contextlib.suppress(Exception):
        cluster.status = type(cluster.status).closed


def refuse_odd(host: str) -> None:
    """Raise Impossible if `host` is not a host's name but something like `-oProxyCommand=...`."""
    if not re.fullmatch(r"[\w\[][\w.@:%\[\]-]*", host):
        raise Impossible(f"{host!r} is not the name of a host, as ssh takes it")
