"""What an agent works on: one child process at a time, and the lease of who asked for it."""

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
from replayer.errors import ReplayerError

if TYPE_CHECKING:
    from collections.abc import Callable

_LOOK_SECONDS = 0.25
_INTERRUPTED_SECONDS = 1.5
_FIRST_LEASE_SECONDS = 60.0
"""Other agents may take their time to start before the first beat."""
_OPENING_SECONDS = 2.0
_HEARD = {"ready", "working"}
"""States in which the child answers a beat."""
_MOST_BYTES = 4 << 20
"""Of what jobs say, in one answer to a beat."""


@dataclass(slots=True)
class _Processors:
    """Ticks of all processors of this host, as /proc/stat counts them."""

    busy: int = 0
    all: int = 0
    agent: float = 0.0

    @classmethod
    def now(cls) -> _Processors:
        """Read them, and the CPU seconds of this process."""
        try:
            words = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]
        except OSError:
            words = []
        ticks = [int(word) for word in words]
        idle = sum(ticks[3:5])
        return cls(sum(ticks) - idle, sum(ticks), time.process_time())

    def since(self, before: _Processors) -> tuple[float | None, float]:
        """Return the busy share since then, and this process's CPU seconds."""
        passed = self.all - before.all
        share = (self.busy - before.busy) / passed if passed > 0 else None
        return share, self.agent - before.agent


@dataclass(slots=True)
class _State:
    """What is known of the child; the thread that listens to it changes it."""

    name: str = "none"
    kind: str = ""
    sentence: str = ""
    trace: str = ""
    opened: int = 0
    result: bytes = b""
    reports: list[bytes] = field(default_factory=list)
    forgotten: int = 0
    """Reports that were taken, and are no longer in the list."""
    heard: float = 0.0
    before: _Processors = field(default_factory=_Processors)
    cpu_share: float | None = None
    agent_cpu: float = 0.0

    def after(self, taken: int) -> list[bytes]:
        """Forget what was taken, and return what came after it, as much as one answer carries."""
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
    """The child of an agent, if it has one, and the lease of the host that coordinates."""

    def __init__(self, leave: Callable[[], None], *, ours: bool = True) -> None:
        """`leave` is called when it is over: it ends the agent, and never somebody's worker."""
        self._loop = asyncio.get_running_loop()
        self._leave, self._ours = leave, ours
        self._state = _State()
        self._number = 0
        self._kind = ""
        """Of the latest child: what is said of another is nobody's."""
        self._change = asyncio.Event()
        self._process: shell.Conversation | None = None
        self._pipe: connection.Connection[Any, Any] | None = None
        self._sending = threading.Lock()
        self._until = time.monotonic() + _FIRST_LEASE_SECONDS
        self._lease = self._loop.create_task(self._watch_lease())

    @property
    def result(self) -> bytes:
        """Return the packed results; raises ReplayerError when there are none."""
        if self._state.name != "done":
            raise ReplayerError("results were asked for before they were there")
        return self._state.result

    def beaten(self) -> None:
        """Renew the lease, and have the child do so."""
        self._until = time.monotonic() + LEASE_SECONDS
        if self._state.name not in {"none", "done", "failed"}:
            self._send("beat")

    async def changed(self, seen: str, seconds: float, taken: float = math.inf) -> None:
        """Wait until the state is no longer the one that was seen, or so many seconds.

        What a run says after the first `taken` reports is not waited with: somebody looks at it.
        """
        deadline = self._loop.time() + seconds
        while not self._news(seen, taken) and (left := deadline - self._loop.time()) > 0:
            self._change.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._change.wait(), left)

    def is_latest(self, number: int) -> bool:
        """Tell whether that is the child there is."""
        return number == self._number

    async def begun(self, seconds: float) -> None:
        """Wait so many seconds, or until another child has been begun.

        Whoever has none here is told nothing, and need not ask more often than to be heard.
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
        """Return the state of that child, and what its jobs said after the first `taken` reports.

        Whoever did not begin it is told that nothing is known of it.
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
            "silent": time.monotonic() - state.heard if state.name in _HEARD else 0.0,
            "cpu_share": share,
            "agent_cpu": agent,
        }

    async def begin(self, kind: str, work: str, packed: bytes, processes: int) -> int:
        """Start the child and return its number; raises ReplayerError where there is one."""
        if kind not in {worker_process.SHARE, worker_process.RUN}:
            raise ReplayerError(f"an agent cannot begin a {kind!r}")
        if self._process is not None:
            raise ReplayerError("this host already works for a replayer")
        self._number += 1
        self._kind = kind
        self._change.set()
        ours, theirs = connection.Pipe()
        self._state = state = _State("preparing", kind, heard=time.monotonic())
        # A program: multiprocessing lets the workers of Dask's nannies have no children.  From this
        # thread: the kernel tells the child of the end of the thread that started it.
        module = interpreter.module(child_process.__name__)
        whose = child_process.OURS if self._ours else child_process.SOMEBODYS
        words = [str(theirs.fileno()), str(os.getpid()), whose, *packing.PACKAGES]
        try:
            self._process = shell.start([*module, *words], passed=[theirs.fileno()])
        finally:
            theirs.close()
        self._pipe = ours
        threading.Thread(target=self._listen, args=(ours, state), daemon=True).start()
        # More than a pipe holds waits until the child has loaded what it needs to read it.
        await asyncio.to_thread(self._send, "begin", kind, work, packed, processes)
        return self._number

    async def open(self, instant: int) -> int:
        """Open the barrier at an instant of this host's CLOCK_MONOTONIC; return when it was."""
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
        """Ask the child to stop in order, as that signal does."""
        self._send("interrupt", number)

    async def end(self) -> None:
        """End the child; one that runs gets a moment to give back what it took."""
        process, pipe = self._process, self._pipe
        if process is None or pipe is None:
            return
        # How it ends is not how its work went: from here on nothing is known of it.
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
        """End the agent, a moment after its answer."""
        self._loop.call_later(0.05, self._leave)

    def stop(self) -> None:
        """Watch no lease any more, and end the child, if there is one."""
        self._lease.cancel()
        self._ending = self._loop.create_task(self.end())

    async def _watch_lease(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if time.monotonic() > self._until:
                with contextlib.suppress(OSError):
                    await self.end()
                self._leave()
                return

    def _send(self, *words: Any) -> None:
        pipe = self._pipe
        if pipe is None:
            return
        with self._sending, contextlib.suppress(OSError):  # the thread that listens says so
            pipe.send_bytes(msgpack.packb(words))

    def _listen(self, pipe: connection.Connection[Any, Any], state: _State) -> None:
        """Take in what the child says, in a thread of its own: it may be stopped in a message."""
        try:
            while True:
                word, *contents = msgpack.unpackb(pipe.recv_bytes())
                self._take_in(state, word, contents)
        except (EOFError, OSError):
            if state.name not in {"done", "failed"}:
                state.sentence = "its process that worked for replayer was killed"
                self._become(state, "failed")

    def _take_in(self, state: _State, word: str, contents: list[Any]) -> None:
        state.heard = time.monotonic()
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
        with contextlib.suppress(RuntimeError):  # the loop has ended, and so does the agent
            self._loop.call_soon_threadsafe(self._change.set)
