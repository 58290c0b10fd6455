"""The process in which the work of an agent is done: a share of a pool, or a whole run.

The agent itself only talks, so that it answers however busy its host's work is.  This process ends
with its agent: by the kernel's signal when that dies, and by itself when that has not passed on a
beat for some seconds, be it stopped or cut off; a stopped agent it ends, too.

What passes through the pipe is msgpack, one list for each message.  A share is `work(job, barrier,
report)` of every job, in a WorkerPool; a run is `work(order, Elsewhere)`.
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
from replayer.errors import Interrupted, ReplayerError
from replayer.watch import workers
from replayer.watch.workers import WorkerPool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing import connection

SHARE, RUN = "share", "run"
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What the host that coordinates may send."""
_SPIN_NS = 200_000
"""Little: where several agents share a host, they would wait for each other."""
_READY_SECONDS = 3600.0
"""Who coordinates decides how long it waits."""
_GRACE_SECONDS = 1.5
"""What a run gets to give back what it took, once nobody waits for it any more."""
_LOOK_SECONDS = 0.25


def main(pipe: connection.Connection[Any, Any], agent: int, *, ours: bool) -> None:
    """Be the process: wait for what to do, do it, and say how it went.

    An agent that is not ours, a worker of somebody's cluster, is never ended.
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
            # It has nothing to give back, and when it is stopped it does not hear a SIGTERM.
            workers.die_with(agent, signal.SIGKILL)
            _share(line, work, packed, processes)
    except ReplayerError as error:
        line.failed(str(error), error)
    except Interrupted as error:
        line.failed(str(signals.interruption() or error), error)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the other host must hear of it
        line.failed(f"{type(error).__name__}: {error}", error)
    # The agent ends this process when its last words have been fetched, or nobody fetches them.
    with signals.shield():
        threading.Event().wait()


def _share(line: AgentPipe, work: str, packed: bytes, processes: int) -> None:
    """Do a share of a pool's jobs."""
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
    """Have this thread get a processor at once when it wakes, where that is allowed.

    On a busy host it would wait some milliseconds for one, and its workers would start later than
    those of other hosts.
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
    """Sleep until that instant of CLOCK_MONOTONIC, the last moment wide awake."""
    left = instant_ns - time.monotonic_ns()
    if left <= 0:
        raise ReplayerError(
            f"the common start was {-left / 1e6:.1f} ms ago when this host heard of it"
        )
    time.sleep(max(0, left - _SPIN_NS) / 1e9)
    while time.monotonic_ns() < instant_ns:
        pass


def _run(line: AgentPipe, work: str, packed: bytes) -> None:
    """Do a whole run, whose function says what there is to say through `Elsewhere`."""
    line.send("ready")
    result = packing.work_of(work)(packing.unpack(packed), Elsewhere(line))
    line.send("done", packing.pack(result))


def _interrupt(number: int) -> None:
    if number in _SIGNALS:
        os.kill(os.getpid(), number)


class Elsewhere:
    """What a run's function has of the host that asked for it."""

    def __init__(self, line: AgentPipe) -> None:
        self._line = line

    def say(self, value: Any) -> None:
        """Send a value there; they arrive in order."""
        self._line.say(value)

    def say_bytes(self, data: bytes) -> None:
        """Send bytes there."""
        self._line.say(data)


class AgentPipe:
    """The pipe to the agent, and what has arrived by it."""

    def __init__(self, pipe: connection.Connection[Any, Any], agent: int | None) -> None:
        """`agent` is the process to end when it no longer passes beats on."""
        self._pipe = pipe
        self._agent = agent
        self._sending = threading.Lock()
        self._heard = time.monotonic()
        self._running = False
        self.orders: queue.SimpleQueue[tuple[str, str, bytes, int]] = queue.SimpleQueue()
        self.instant: queue.SimpleQueue[int] = queue.SimpleQueue()

    def listen(self) -> None:
        """Take in what the agent says from now on, and end with it."""
        for target in (self._listen, self._watch):
            threading.Thread(target=target, daemon=True).start()

    def send(self, *words: Any) -> None:
        """Send one message to the agent."""
        with self._sending, contextlib.suppress(OSError):  # it is gone, and so will this be
            self._pipe.send_bytes(msgpack.packb(words))

    def say(self, value: Any) -> None:
        """Send something that the host which coordinates wants to hear."""
        self.send("said", packing.pack(value))

    def failed(self, sentence: str, error: BaseException) -> None:
        """Say why there will be no result."""
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
                self._heard = time.monotonic()
                takes[word](*contents)
        except (EOFError, OSError):
            self._leave()

    def _begin(self, kind: str, work: str, packed: bytes, processes: int) -> None:
        self._running = kind == RUN
        self.orders.put((kind, work, packed, processes))

    def _watch(self) -> None:
        """End everything when nobody has been heard for the length of a lease."""
        while time.monotonic() - self._heard < LEASE_SECONDS:
            time.sleep(_LOOK_SECONDS)
        if os.getppid() == self._agent:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._agent, signal.SIGKILL)
        self._leave()

    def _leave(self) -> None:
        if self._running:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(_GRACE_SECONDS)
        os._exit(1)
