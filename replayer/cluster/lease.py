"""The state of an agent: its only child process, which does the work, and the lease.

The coordinator, the replayer that commands the agent, renews the lease by heartbeats. When the
lease expires, the child process is ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import signal
import threading
import time
from dataclasses import dataclass, field
from multiprocessing import connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgpack

from replayer import interpreter, shell
from replayer.cluster import child_process, packing, worker_process
from replayer.cluster.dask_settings import LEASE_SECONDS
from replayer.cluster.silence import LOOK_SECONDS, SilenceClock
from replayer.errors import ReplayerError

if TYPE_CHECKING:
    from collections.abc import Callable

_INTERRUPTED_SECONDS = 1.5
_FIRST_LEASE_SECONDS = 60.0
"""The time until the first heartbeat must come: other agents may need this long to start."""
_OPENING_SECONDS = 2.0
_HEARD = {"ready", "working"}
"""States in which the child process answers heartbeats, so that its silence can be measured."""
_MOST_BYTES = 4 << 20
"""The limit, in bytes, of the jobs' reports in one answer to a heartbeat."""


@dataclass(slots=True)
class _Processors:
    """Ticks of all processors of this host, from /proc/stat, and the agent's own CPU seconds."""

    busy: int = 0
    all: int = 0
    agent: float = 0.0

    @classmethod
    def now(cls) -> _Processors:
        """Return the ticks and the CPU seconds of this process so far."""
        try:
            words = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]
        except OSError:
            words = []
        ticks = [int(word) for word in words]
        idle = sum(ticks[3:5])
        return cls(sum(ticks) - idle, sum(ticks), time.process_time())

    def since(self, before: _Processors) -> tuple[float | None, float]:
        """Return the busy share of the processors, and this process's CPU seconds, since `before`.

        The share is None if no tick has passed.
        """
        passed = self.all - before.all
        share = (self.busy - before.busy) / passed if passed > 0 else None
        return share, self.agent - before.agent


@dataclass(slots=True)
class _State:
    """The state of the child process as last reported; the listening thread changes it."""

    name: str = "none"
    kind: str = ""
    sentence: str = ""
    trace: str = ""
    opened: int = 0
    result: bytes = b""
    reports: list[bytes] = field(default_factory=list)
    forgotten: int = 0
    """The number of reports that the coordinator has fetched, so that they were dropped."""
    before: _Processors = field(default_factory=_Processors)
    cpu_share: float | None = None
    agent_cpu: float = 0.0

    def after(self, taken: int) -> list[bytes]:
        """Drop the first `taken` of all reports so far; return the next, at most about 4 MiB."""
        known = max(0, taken - self.forgotten)
        del self.reports[:known]
        self.forgotten += known
        size = 0
        for many, report in enumerate(list(self.reports), 1):
            size += len(report)
            if size > _MOST_BYTES:
                return self.reports[:many]
        return list(self.reports)


class Lease:
    """The child process of an agent, if it has one, and the lease that heartbeats renew."""

    def __init__(self, leave: Callable[[], None], *, ours: bool = True) -> None:
        """Take `leave`, which is called when the work is over or the lease has expired.

        `leave` ends the agent, or removes replayer from a worker of a user's Dask cluster. `ours`
        is False for such a worker.
        """
        self._loop = asyncio.get_running_loop()
        self._leave, self._ours = leave, ours
        self._state = _State()
        self._number = 0
        self._kind = ""
        """The kind of the latest child's work: `share` or `run`."""
        self._change = asyncio.Event()
        self._process: shell.Conversation | None = None
        self._pipe: connection.Connection[Any, Any] | None = None
        self._sending = threading.Lock()
        self._seconds = _FIRST_LEASE_SECONDS
        self._coordinator, self._child = SilenceClock(), SilenceClock()
        self._lease = self._loop.create_task(self._watch_lease())

    @property
    def result(self) -> bytes:
        """Return the child's results as bytes; raise ReplayerError if its work is not done."""
        if self._state.name != "done":
            raise ReplayerError("results were asked for before they were there")
        return self._state.result

    def beaten(self) -> None:
        """Renew the lease, and send a heartbeat to the child."""
        self._seconds = LEASE_SECONDS
        self._coordinator.heard()
        if self._state.name not in {"none", "done", "failed"}:
            self._send("beat")

    async def changed(self, seen: str, seconds: float, taken: float = math.inf) -> None:
        """Wait until the name of the child's state differs from `seen`, for at most `seconds`.

        If the child executes a whole run, the wait also ends as soon as the child has sent more
        than `taken` reports in all, because a user waits for them.
        """
        deadline = self._loop.time() + seconds
        while not self._news(seen, taken) and (left := deadline - self._loop.time()) > 0:
            self._change.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._change.wait(), left)

    def is_latest(self, number: int) -> bool:
        """Return whether `number` is the number of the latest child process, which `begin` gave."""
        return number == self._number

    async def begun(self, seconds: float) -> None:
        """Wait for `seconds`, or until another child is started.

        This delays the answer to a heartbeat of a coordinator that did not start the present child.
        Such a coordinator only renews the lease, and sends a new heartbeat after each answer.
        """
        before, deadline = self._number, self._loop.time() + seconds
        while self._number == before and (left := deadline - self._loop.time()) > 0:
            self._change.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._change.wait(), left)

    def _news(self, seen: str, taken: float) -> bool:
        state = self._state
        fresh = state.forgotten + len(state.reports) > taken
        return state.name != seen or (state.kind == worker_process.RUN and fresh)

    def said(self, number: int, taken: int) -> dict[str, Any]:
        """Return the answer to a heartbeat: the state of child `number`, and its new reports.

        These are the reports after the first `taken`. If `number` is not that of the present child,
        the answer is {"child": 0}.
        """
        if number != self._number:
            return {"child": 0}
        state = self._state
        reports = state.after(taken)
        share, agent = state.cpu_share, state.agent_cpu
        if state.name == "working":
            share, agent = _Processors.now().since(state.before)
        return {
            "child": number,
            "state": state.name,
            "sentence": state.sentence,
            "trace": state.trace,
            "opened": state.opened,
            "reports": reports,
            "first": state.forgotten,
            "more": len(reports) < len(state.reports),
            "silent": self._child.seconds if state.name in _HEARD else 0.0,
            "cpu_share": share,
            "agent_cpu": agent,
        }

    async def begin(self, kind: str, work: str, packed: bytes, processes: int) -> int:
        """Start the child process and return its number; raise ReplayerError if one exists.

        `kind` is "share" for a part of a pool's jobs, or "run" for a whole run. `work` is the name
        `module:function` of the function to call. `packed` is the list of jobs, or the run's order,
        as bytes made by `packing`. `processes` is the number of worker processes of a share.
        """
        if kind not in {worker_process.SHARE, worker_process.RUN}:
            raise ReplayerError(f"an agent cannot begin a {kind!r}")
        if self._process is not None:
            raise ReplayerError("this host already works for a replayer")
        self._number += 1
        self._kind = kind
        self._change.set()
        ours, theirs = connection.Pipe()
        self._state = state = _State("preparing", kind)
        self._child.heard()
        # The child is started as a program, because multiprocessing allows no children in workers
        # that Dask's nannies have started. It is started from this thread, because the kernel
        # signals to the child the end of the thread that started it.
        module = interpreter.module(child_process.__name__)
        whose = child_process.OURS if self._ours else child_process.SOMEBODYS
        words = [str(theirs.fileno()), str(os.getpid()), whose, *packing.PACKAGES]
        try:
            self._process = shell.start([*module, *words], passed=[theirs.fileno()])
        finally:
            theirs.close()
        self._pipe = ours
        threading.Thread(target=self._listen, args=(ours, state), daemon=True).start()
        # If this is more than a pipe holds, it waits until the child has loaded the modules to read
        # it.
        await asyncio.to_thread(self._send, "begin", kind, work, packed, processes)
        return self._number

    async def open(self, instant: int) -> int:
        """Make the child start its jobs at `instant`; return when they really started.

        Both are in ns of this host's CLOCK_MONOTONIC. Raises ReplayerError if the child was not
        ready, failed, or did not start in time.
        """
        if self._state.name != "ready":
            raise ReplayerError(
                self._state.sentence or "this host was to start before it was ready"
            )
        self._send("open", instant)
        await self.changed("ready", (instant - time.monotonic_ns()) / 1e9 + _OPENING_SECONDS)
        if self._state.name in {"ready", "failed"}:
            raise ReplayerError(self._state.sentence or "this host did not start when it was to")
        return self._state.opened

    def interrupt(self, number: int = signal.SIGINT) -> None:
        """Make the child send itself the signal `number`, so that it cleans up and stops."""
        self._send("interrupt", number)

    async def end(self) -> None:
        """End the child, if there is one; if it executes a run, it first gets 1.5 s to clean up."""
        process, pipe = self._process, self._pipe
        if process is None or pipe is None:
            return
        # Its end is not a result of its work: from here on the child is unknown.
        self._number += 1
        if self._kind == worker_process.RUN and self._state.name not in {"done", "failed"}:
            self.interrupt()
            await self.changed(self._state.name, _INTERRUPTED_SECONDS)
        process.kill()
        await asyncio.to_thread(process.wait)
        self._process = self._pipe = None
        self._state = _State()
        pipe.close()

    def leave(self) -> None:
        """End the agent a moment later, so that the answer to the present call is still sent."""
        self._loop.call_later(0.05, self._leave)

    def stop(self) -> None:
        """Stop watching the lease, and end the child, if there is one."""
        self._lease.cancel()
        self._ending = self._loop.create_task(self.end())

    async def _watch_lease(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self._child.look()
            if self._coordinator.look() > self._seconds:
                with contextlib.suppress(OSError):
                    await self.end()
                self._leave()
                return

    def _send(self, *words: Any) -> None:
        pipe = self._pipe
        if pipe is None:
            return
        with self._sending, contextlib.suppress(OSError):  # the listening thread reports this
            pipe.send_bytes(msgpack.packb(words))

    def _listen(self, pipe: connection.Connection[Any, Any], state: _State) -> None:
        """Read the child's messages in a separate thread.

        A read may block: the child may be stopped in the middle of a message.
        """
        try:
            while True:
                word, *contents = msgpack.unpackb(pipe.recv_bytes())
                self._take_in(state, word, contents)
        except (EOFError, OSError):
            if state.name not in {"done", "failed"}:
                state.sentence = "its process that worked for replayer was killed"
                self._become(state, "failed")

    def _take_in(self, state: _State, word: str, contents: list[Any]) -> None:
        self._child.heard()
        if word == "said":
            state.reports.append(contents[0])
            if state.kind == worker_process.RUN:
                self._become(state, state.name)
        elif word == "opened":
            state.opened, state.before = contents[0], _Processors.now()
            self._become(state, "working")
        elif word == "ready":
            self._become(state, "ready")
        elif word == "done":
            state.cpu_share, state.agent_cpu = _Processors.now().since(state.before)
            state.result = contents[0]
            self._become(state, "done")
        elif word == "failed":
            state.sentence, state.trace = contents
            self._become(state, "failed")

    def _become(self, state: _State, name: str) -> None:
        state.name = name
        with contextlib.suppress(RuntimeError):  # the loop has ended, and the agent ends too
            self._loop.call_soon_threadsafe(self._change.set)
