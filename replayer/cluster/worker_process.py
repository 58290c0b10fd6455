"""The child process of an agent, which does its work: a share of a pool's jobs, or a whole run.

The agent itself only communicates, so that it answers even if the work keeps the host busy. This
process ends with its agent: if the agent dies, the kernel sends a signal. If the agent forwards no
heartbeat for some seconds, because it is stopped or cut off, this process ends by itself, and kills
the agent as well.

The messages in the pipe are msgpack, one list for each message. A share calls `work(job, barrier,
report)` for every job, in a WorkerPool; a run calls `work(order, ReportLink)`.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any

import msgpack

from replayer import signals
from replayer.cluster import packing
from replayer.cluster.dask_settings import LEASE_SECONDS
from replayer.cluster.silence import LOOK_SECONDS, SilenceClock
from replayer.errors import Interrupted, ReplayerError
from replayer.watch import workers
from replayer.watch.workers import WorkerPool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing import connection

SHARE, RUN = "share", "run"
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals that the coordinating host may send."""
_SPIN_NS = 200_000
"""The last part of a wait, in which a thread spins.

It is short, because several agents on one host would otherwise wait for each other.
"""
_READY_SECONDS = 3600.0
"""A limit that is never reached: the coordinator decides how long it waits for this process."""
_GRACE_SECONDS = 1.5
"""The time that a run has to clean up when the agent or the heartbeats have ended."""


def main(pipe: connection.Connection[Any, Any], agent: int, *, ours: bool) -> None:
    """Wait for an order of the agent, execute it, and send the outcome; never return.

    `pipe` leads to the agent, and `agent` is its process id. `ours` is False if the agent is a
    worker of a user's Dask cluster, which is never killed.
    """
    workers.die_with(agent, signal.SIGTERM)
    os.set_inheritable(pipe.fileno(), False)
    line = AgentPipe(pipe, agent if ours else None)
    signals.install()
    line.listen()
    try:
        kind, work, packed, processes = line.orders.get()
        if kind == RUN:
            _run(line, work, packed)
        else:
            # A share has nothing to clean up, and a stopped process does not receive a SIGTERM.
            workers.die_with(agent, signal.SIGKILL)
            _share(line, work, packed, processes)
    except ReplayerError as error:
        line.failed(str(error), error)
    except Interrupted as error:
        line.failed(str(signals.interruption() or error), error)
    except BaseException as error:  # noqa: BLE001 - the other host needs to know, whatever it is
        line.failed(f"{type(error).__name__}: {error}", error)
    # The agent ends this process after it has fetched the last message, or if no caller fetches it.
    with signals.shield():
        threading.Event().wait()


def _share(line: AgentPipe, work: str, packed: bytes, processes: int) -> None:
    """Do a share of a pool's jobs; start at the ordered instant, send reports and results.

    `line` is the pipe to the agent, which sends that instant. `work` is the name of the function
    for the jobs, `packed` the jobs as bytes, and `processes` the number of worker processes.
    """
    with WorkerPool(packing.work_of(work), packing.unpack(packed), processes=processes) as pool:
        pool.ready(_READY_SECONDS)
        line.send("ready")
        instant_ns = line.instant.get()
        with _first_in_line():
            _sleep_until(instant_ns)
            opened_ns = pool.open()
        line.send("opened", opened_ns)
        for report in pool.reports(timeout=_READY_SECONDS):
            line.say(report)
        results = pool.results()
        done = (results, pool.first_done_ns, pool.last_done_ns, pool.usage, pool.read_bytes)
        line.send("done", packing.pack(done))


@contextlib.contextmanager
def _first_in_line() -> Iterator[None]:
    """Give this thread real-time priority in the `with` block, if the system allows that.

    Otherwise the thread of a busy host would wait some milliseconds for a processor, and the host's
    jobs would start later than those of other hosts.
    """
    before = os.sched_getscheduler(0)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, before, os.sched_param(0))


def _sleep_until(instant_ns: int) -> None:
    """Sleep until an instant of CLOCK_MONOTONIC; spin for the last 0.2 ms.

    Raises ReplayerError if the instant has passed already.
    """
    left = instant_ns - time.monotonic_ns()
    if left <= 0:
        raise ReplayerError(
            f"the common start was {-left / 1e6:.1f} ms ago when this host heard of it"
        )
    time.sleep(max(0, left - _SPIN_NS) / 1e9)
    while time.monotonic_ns() < instant_ns:
        pass


def _run(line: AgentPipe, work: str, packed: bytes) -> None:
    """Execute a whole run: call the function named `work`, and send its result to the agent.

    `line` is the pipe to the agent. `packed` is the function's first argument as bytes. By its
    second argument, a `ReportLink`, the function sends reports.
    """
    line.send("ready")
    result = packing.work_of(work)(packing.unpack(packed), ReportLink(line))
    line.send("done", packing.pack(result))


def _interrupt(number: int) -> None:
    if number in _SIGNALS:
        os.kill(os.getpid(), number)


class ReportLink:
    """The link from a function that runs here to the host that requested this run."""

    def __init__(self, line: AgentPipe) -> None:
        self._line = line

    def say(self, value: Any) -> None:
        """Send a value as a report to the host that requested the run; reports arrive in order."""
        self._line.say(value)

    def say_bytes(self, data: bytes) -> None:
        """Send bytes as a report to the host that requested the run."""
        self._line.say(data)


class AgentPipe:
    """The pipe to the agent, and the orders that have arrived through it."""

    def __init__(self, pipe: connection.Connection[Any, Any], agent: int | None) -> None:
        """Take the pipe, and the process id of the agent.

        An agent that forwards no heartbeats is killed. If `agent` is None, it is never killed.
        """
        self._pipe = pipe
        self._agent = agent
        self._sending = threading.Lock()
        self._silence = SilenceClock()
        self._running = False
        self.orders: queue.SimpleQueue[tuple[str, str, bytes, int]] = queue.SimpleQueue()
        self.instant: queue.SimpleQueue[int] = queue.SimpleQueue()

    def listen(self) -> None:
        """Start the thread that receives the agent's messages, and one that watches the agent.

        They end this process when the agent is gone or silent.
        """
        for target in (self._listen, self._watch):
            threading.Thread(target=target, daemon=True).start()

    def send(self, *words: Any) -> None:
        """Send one message, the list of `words`, to the agent; do nothing if the agent is gone."""
        with self._sending, contextlib.suppress(OSError):  # it is gone, and this process will end
            self._pipe.send_bytes(msgpack.packb(words))

    def say(self, value: Any) -> None:
        """Send a report, through the agent, to the host that requested the work."""
        self.send("said", packing.pack(value))

    def failed(self, sentence: str, error: BaseException) -> None:
        """Send the agent the reason why there will be no result: a sentence and a traceback."""
        self.send("failed", sentence, "".join(traceback.format_exception(error)))

    def _listen(self) -> None:
        takes: dict[str, Callable[..., object]] = {
            "begin": self._begin,
            "open": self.instant.put,
            "beat": lambda: self.send("alive"),
            "interrupt": _interrupt,
        }
        try:
            while True:
                word, *contents = msgpack.unpackb(self._pipe.recv_bytes())
                self._silence.heard()
                takes[word](*contents)
        except (EOFError, OSError):
            self._leave()

    def _begin(self, kind: str, work: str, packed: bytes, processes: int) -> None:
        self._running = kind == RUN
        self.orders.put((kind, work, packed, processes))

    def _watch(self) -> None:
        """End the agent and this process when no message has arrived for LEASE_SECONDS.

        If the agent is a worker of a user's Dask cluster, only this process is ended.
        """
        while self._silence.look() < LEASE_SECONDS:
            time.sleep(LOOK_SECONDS)
        if os.getppid() == self._agent:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._agent, signal.SIGKILL)
        self._leave()

    def _leave(self) -> None:
        if self._running:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(_GRACE_SECONDS)
        os._exit(1)
