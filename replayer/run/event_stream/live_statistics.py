"""Live activity, once a second: processors and device, and the messages of the server.

The sampler only copies the kernel's files. A thread of the waiting process reads the newest copy
here, so that the processes that work are not disturbed.
"""

import contextlib
import math
import threading
from collections.abc import Callable, Iterator, Mapping

from replayer import registry
from replayer.collectors import Columns, Sample
from replayer.errors import ReplayerError
from replayer.run.context import Progress
from replayer.run.event_stream import events
from replayer.servers.log_events import Tail
from replayer.servers.open import Server
from replayer.watch.sampler import Sampler

_SECONDS = 1.0
_SHORTEST_NS = 250_000_000
_SHARES = {
    "%usr": "cpu_user",
    "%nice": "cpu_nice",
    "%guest": "cpu_guest",
    "%gnice": "cpu_guest_nice",
    "%sys": "cpu_system",
    "%irq": "cpu_irq",
    "%soft": "cpu_softirq",
    "%steal": "cpu_steal",
    "%iowait": "cpu_iowait",
}
"""Every state of the processors except idle: those of the page add up to what is not idle."""
_RATES = {"r/s": "device_reads", "w/s": "device_writes"}
_KILOBYTES = {"rkB/s": "device_read_bytes", "wkB/s": "device_write_bytes"}


@contextlib.contextmanager
def pulse(sampler: Sampler, server: Server | None, progress: Progress) -> Iterator[None]:
    """Report the activity of machine and server every second until the `with` block ends.

    The reports are events, which `progress` sends to the programs that watch the run.
    """
    ended = threading.Event()
    machine, tail = ActivityMeter(sampler), None if server is None else _tail(server)

    def beat() -> None:
        while not ended.wait(_SECONDS):
            # An error in a report to watchers must never make a step fail.
            with contextlib.suppress(ReplayerError, OSError, ValueError, LookupError):
                tell(machine, tail, progress.tell)

    thread = threading.Thread(target=beat, name="pulse", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def tell(machine: "ActivityMeter", tail: Tail | None, out: Callable[[events.Event], None]) -> None:
    """Report to `out` the machine's activity and the server's messages since the last call.

    Each report is an event. `tail` reads the server's log; it is None if there is no log to read.
    """
    values = machine.values()
    if values:
        out(events.MachineActivity(values=values))
    for event in () if tail is None else tail.fresh():
        when = event.when.isoformat(timespec="milliseconds")
        out(events.ServerMark(when=when, kind=event.kind, text=event.text))


def _tail(server: Server) -> Tail | None:
    try:
        return Tail(server)
    except ReplayerError:
        return None


class ActivityMeter:
    """The activity of processors and device since the last call, from the sampler's copies.

    The sampler copies the kernel's counters every second.
    """

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler
        self._before: dict[str, Sample] = {}

    def values(self) -> dict[str, float | None]:
        """Return live figures of processors and device, named as in events.FIGURES.

        Returns {} at the first call, and if the sampler took no new copy of the counters.
        """
        shares, device = self._columns("cpu"), self._columns("diskstats")
        return {
            **_named(shares, _SHARES, 0.01),
            **_named(device, _RATES, 1.0),
            **_named(device, _KILOBYTES, 1024.0),
        }

    def _columns(self, name: str) -> Columns:
        collector = registry.load("collectors", name)
        newest, before = self._sampler.newest(collector.FILES), self._before.get(name)
        if newest is None:
            return {}
        if before is not None and newest.clock_ns - before.clock_ns < _SHORTEST_NS:
            return {}
        self._before[name] = newest
        if before is None:
            return {}
        columns: Columns = collector.parse([before, newest], self._sampler.device)
        return columns


def _named(columns: Columns, names: Mapping[str, str], scale: float) -> dict[str, float | None]:
    """Return the first value of each column, times `scale`, under its name as a live figure.

    `names` maps a column to the name in events.FIGURES. Other columns, and inf or NaN, are left
    out.
    """
    return events.tidy(
        {
            names[column]: values[0] * scale
            for column, values in columns.items()
            if column in names and math.isfinite(values[0])
        }
    )
