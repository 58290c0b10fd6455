"""The metrics of a run that change without its file: its status, and what it does now.

The events that a run writes have what it does.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from replayer.model import Status
from replayer.results import editing
from replayer.run.event_stream.event_file import Follower
from replayer.run.event_stream.events import (
    RUNNING,
    EventReader,
    Figures,
    MachineActivity,
    ServerMark,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from replayer.metrics.families import MetricFamilies
    from replayer.model import Run
    from replayer.run.event_stream.events import RunSnapshot

_STEP = {
    "riops": "replayer_current_riops",
    "hits": "replayer_current_buffer_hits_per_second",
    "bytes": "replayer_current_bytes_per_second",
    "files": "replayer_current_files_per_second",
    "rows": "replayer_current_rows_per_second",
    "statements": "replayer_current_statements_per_second",
    "operations": "replayer_current_operations_per_second",
    "behind": "replayer_current_lag_seconds",
}
_MODES = {
    "cpu_user": "user",
    "cpu_nice": "nice",
    "cpu_guest": "guest",
    "cpu_guest_nice": "guest_nice",
    "cpu_system": "system",
    "cpu_irq": "irq",
    "cpu_softirq": "softirq",
    "cpu_steal": "steal",
    "cpu_iowait": "iowait",
}
_DEVICE = {
    "device_reads": "replayer_current_device_reads_per_second",
    "device_writes": "replayer_current_device_writes_per_second",
    "device_read_bytes": "replayer_current_device_read_bytes_per_second",
    "device_write_bytes": "replayer_current_device_written_bytes_per_second",
}


_OLD = 10.0
"""Seconds after which a figure is too old to export, as its step does something else now."""


class MetricSample(NamedTuple):
    """A sample of a metric: its family, its labels in addition to `run`, and its value.

    If the value is None, there is no sample.
    """

    family: str
    labels: tuple[str, ...]
    value: float | None


class RunMetrics:
    """The status and live metrics of one run, from its events read so far; counters only grow."""

    def __init__(self, result: Path) -> None:
        self._result = result
        self._follower: Follower | None = None
        self._reader = EventReader()
        self._heard = 0
        self._marks: Counter[str] = Counter()
        self._told = ""
        """ISO 8601 time of the last event with figures of a step; "" before the first one."""
        self._active = ""
        """ISO 8601 time of the last event with the machine's activity; "" before the first one."""

    def add(self, families: MetricFamilies, run: Run) -> None:
        """Read the new events of the run, and add its status and current samples to `families`.

        For a run that has ended or was killed, only its status and its counters are added.  The
        status of a killed run is `interrupted`.
        """
        running = run.status is Status.RUNNING
        if self._follower is not None and self._follower.replaced:
            self.close()
        if running and self._follower is None:
            self._follower, self._reader = Follower(self._result), EventReader()
        self._read()
        state = self._reader.state()
        killed = _is_killed(run, state)
        for status in Status:
            is_own = status is (Status.INTERRUPTED if killed else run.status)
            families.put("replayer_run_status", (run.id, status.value), float(is_own))
        if not running:
            self.close()
        elif self._heard and not killed:
            fresh, active = _fresh(self._told), _fresh(self._active)
            for family, labels, value in _now(state, fresh=fresh, active=active):
                families.put(family, (run.id, *labels), value)
        if self._heard:
            families.count("replayer_run_events", (run.id,), self._heard)
        for kind, number in self._marks.items():
            families.count("replayer_server_marks", (run.id, kind), number)

    def close(self) -> None:
        """Close the run's file of events, if it is open."""
        if self._follower is not None:
            self._follower.close()
            self._follower = None

    def _read(self) -> None:
        # If the file of events cannot be read any more, export what was read before.
        with contextlib.suppress(OSError):
            while self._follower is not None and (data := self._follower.fresh()):
                for event in self._reader.feed(data):
                    self._heard += 1
                    if isinstance(event, ServerMark):
                        self._marks[event.kind] += 1
                    elif isinstance(event, Figures):
                        self._told = event.at
                    elif isinstance(event, MachineActivity):
                        self._active = event.at


def _is_killed(run: Run, state: RunSnapshot) -> bool:
    """Return whether a run was killed: its process is not seen here, and writes no events.

    The process of a run in another container is not seen, but its events come.
    """
    return editing.cut(run.status.value, run.writer) and not _fresh(state.at)


def _fresh(stamp: str) -> bool:
    with contextlib.suppress(ValueError, TypeError):
        return (datetime.now(UTC) - datetime.fromisoformat(stamp)).total_seconds() < _OLD
    return False


def _now(state: RunSnapshot, *, fresh: bool, active: bool) -> Iterator[MetricSample]:
    """Yield samples of the current figures of the running steps, the processors and the device.

    If `fresh` is False, the figures of steps are too old, and their value is None; if `active` is
    False, so are those of processors and device.  The time in seconds that each step is expected
    to take is yielded, too.
    """
    names = dict.fromkeys(step.name for step in state.steps if step.state == RUNNING)
    latest = state.latest
    machine = latest if active else {}
    for name in names:
        yield MetricSample("replayer_step_running", (name,), 1.0)
        for figure, family in _STEP.items():
            yield MetricSample(family, (name,), latest.get(figure) if fresh else None)
    for step in state.steps:
        # A step takes equally long in each repeat: one sample is enough.
        if step.repeat == 1:
            yield MetricSample("replayer_step_expected_seconds", (step.name,), step.expected)
    for figure, mode in _MODES.items():
        yield MetricSample("replayer_current_cpu_ratio", (mode,), machine.get(figure))
    for figure, family in _DEVICE.items():
        yield MetricSample(family, (state.device,), machine.get(figure))
