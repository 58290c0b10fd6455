"""The metric families: their names, and their samples from a run.

There is one sample per step, not one per repeat: a gauge is the median of the repeats that were
done, as in the report.  Words that differ between them are counted: `cold 2 of 3, hot 1 of 3`.  A
metric of a step has the labels `run` and `step`.  All other facts of the run are labels of
replayer_run_info; a query joins this metric `on (run)`.
"""

from __future__ import annotations

import contextlib
import math
from datetime import datetime
from hashlib import blake2b
from statistics import median
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)

from replayer.analysis.repeats import by_name, counted, finished, medians
from replayer.errors import ReplayerError
from replayer.metrics import latency
from replayer.report.documents.series_means import mean
from replayer.report.sanitize import sanitize
from replayer.run.plan import workload as workload_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from replayer.model import Ledger, Run, StepResult

_Family = TypeVar("_Family", bound=Metric)
_LONGEST = 128
"""The most characters of a label's value; Prometheus keeps the value in memory per series."""
_HASH_BYTES = 4


class FamilyKind(NamedTuple):
    """The help text of a metric family, and the names of its labels."""

    about: str
    labels: tuple[str, ...] = ()
    """The labels in addition to `run`."""


INFOS: Mapping[str, FamilyKind] = {
    "replayer_run": FamilyKind("What ran, and where."),
    "replayer_step_cold": FamilyKind(
        "How much of the data was in memory before the clock started: asked for, got, proven by.",
        ("step",),
    ),
    "replayer_step_ledger": FamilyKind(
        "Where the blocks that sessions read came from: asked for, and judged by the counters.",
        ("step",),
    ),
}
GAUGES: dict[str, FamilyKind] = {
    "replayer_run_status": FamilyKind(
        "1 for the status that the run has, 0 for others.", ("status",)
    ),
    "replayer_run_started_timestamp_seconds": FamilyKind("When the run began."),
    "replayer_run_finished_timestamp_seconds": FamilyKind("When it ended."),
    "replayer_run_planned_steps": FamilyKind("Steps of all repeats that the run is to do."),
    "replayer_step_results": FamilyKind(
        "Repeats of a step, by how they ended.", ("step", "status")
    ),
    "replayer_step_elapsed_seconds": FamilyKind(
        "How long a step took, with its preparation: median of the repeats that were done.",
        ("step",),
    ),
    "replayer_step_riops": FamilyKind(
        "Blocks a second that the database did not find in its own buffers.", ("step",)
    ),
    "replayer_step_ledger_reads_per_second": FamilyKind(
        "The ledger: blocks that the database's buffers had, blocks that the page cache had, reads "
        "that the data's disk completed.",
        ("step", "layer"),
    ),
    "replayer_step_ledger_device_bytes_per_second": FamilyKind(
        "What the data's disk delivered in the same window.", ("step",)
    ),
    "replayer_step_ledger_physical_ratio": FamilyKind(
        "The step's reads of the device (estimated, without those of others where known) / RIOPS.",
        ("step",),
    ),
    "replayer_step_resident_ratio": FamilyKind(
        "Share of the data that was in memory before the clock started.", ("step",)
    ),
    "replayer_step_latency_percentile_seconds": FamilyKind(
        "Latency of an operation; only percentiles that at least five operations lie beyond.",
        ("step", "operation", "percentile"),
    ),
    "replayer_step_cpu_ratio": FamilyKind(
        "Share of all processors' time in the measured window.", ("step", "mode")
    ),
    "replayer_step_device_reads_per_second": FamilyKind(
        "Reads of the device in the measured window.", ("step", "device")
    ),
    "replayer_step_device_writes_per_second": FamilyKind(
        "Writes to the device in the measured window.", ("step", "device")
    ),
    "replayer_step_device_read_bytes_per_second": FamilyKind(
        "What the device delivered in the measured window.", ("step", "device")
    ),
    "replayer_step_device_written_bytes_per_second": FamilyKind(
        "What the device was given in the measured window.", ("step", "device")
    ),
    "replayer_step_device_utilization_ratio": FamilyKind(
        "Share of the measured window in which the device had work.", ("step", "device")
    ),
    "replayer_step_device_queue_requests": FamilyKind(
        "Requests that the device had at a time, on average.", ("step", "device")
    ),
    "replayer_step_measured_seconds": FamilyKind("Measurements in seconds.", ("step", "metric")),
    "replayer_step_measured_bytes": FamilyKind("Measurements in bytes.", ("step", "metric")),
    "replayer_step_measured_bytes_per_second": FamilyKind(
        "Measurements in bytes per second.", ("step", "metric")
    ),
    "replayer_step_measured_per_second": FamilyKind(
        "Measurements of how often a second; the metric says what.", ("step", "metric")
    ),
    "replayer_step_measured_ratio": FamilyKind("Measurements that are shares.", ("step", "metric")),
    "replayer_step_measured": FamilyKind(
        "Measurements in other units, and counts.", ("step", "metric", "unit")
    ),
}
_CURRENT = "Of the step under way, at this moment: "
GAUGES |= {
    "replayer_step_running": FamilyKind("1 for the step that is under way.", ("step",)),
    "replayer_step_expected_seconds": FamilyKind(
        "How long a step to come takes, as it took here before or its keys say.", ("step",)
    ),
    "replayer_current_riops": FamilyKind(f"{_CURRENT}blocks that the database missed.", ("step",)),
    "replayer_current_buffer_hits_per_second": FamilyKind(
        f"{_CURRENT}blocks that its buffers had.", ("step",)
    ),
    "replayer_current_lag_seconds": FamilyKind(
        f"{_CURRENT}how far it is behind its own clock.", ("step",)
    ),
    "replayer_current_cpu_ratio": FamilyKind(
        "Share of all processors' time in the second before.", ("mode",)
    ),
    **{
        f"replayer_current_{what}_per_second": FamilyKind(f"{_CURRENT}{what}.", ("step",))
        for what in ("bytes", "files", "rows", "statements", "operations")
    },
    **{
        f"replayer_current_device_{what}_per_second": FamilyKind(
            f"{words} in the second before.", ("device",)
        )
        for what, words in {
            "reads": "Reads of the device",
            "writes": "Writes to the device",
            "read_bytes": "What the device delivered",
            "written_bytes": "What the device was given",
        }.items()
    },
}
COUNTERS: Mapping[str, FamilyKind] = {
    "replayer_run_events": FamilyKind("What a run that is under way reports."),
    "replayer_server_marks": FamilyKind("What the server did by itself meanwhile.", ("kind",)),
}
HISTOGRAM = "replayer_step_latency_seconds"
HISTOGRAMS: Mapping[str, FamilyKind] = {
    HISTOGRAM: FamilyKind("Latency of operations, all repeats together.", ("step", "operation")),
}
_UNITS: Mapping[str, tuple[str, float]] = {
    "s": ("_seconds", 1.0),
    "ms": ("_seconds", 1e-3),
    "us": ("_seconds", 1e-6),
    "bytes": ("_bytes", 1.0),
    "bytes/s": ("_bytes_per_second", 1.0),
    "IOPS": ("_per_second", 1.0),
    "%": ("_ratio", 0.01),
}
"""Unit of a measurement -> end of the family's name, and factor to the base unit."""
_CPU = {
    "cpu.%usr": "user",
    "cpu.%nice": "nice",
    "cpu.%guest": "guest",
    "cpu.%gnice": "guest_nice",
    "cpu.%sys": "system",
    "cpu.%iowait": "iowait",
    "cpu.%irq": "irq",
    "cpu.%soft": "softirq",
    "cpu.%steal": "steal",
    "cpu.%idle": "idle",
}
_KIB = 1024.0
_DEVICE = {
    "diskstats.r/s": ("reads_per_second", 1.0),
    "diskstats.w/s": ("writes_per_second", 1.0),
    "diskstats.rkB/s": ("read_bytes_per_second", _KIB),
    "diskstats.wkB/s": ("written_bytes_per_second", _KIB),
    "diskstats.%util": ("utilization_ratio", 0.01),
    "diskstats.aqu-sz": ("queue_requests", 1.0),
}


def needs(column: str) -> bool:
    """Return whether a column of a run's series is needed for the run's metrics."""
    return column in _CPU or column in _DEVICE


class MetricFamilies:
    """The metric families of the export, with the samples of all runs added so far."""

    def __init__(self) -> None:
        self._infos = _made(InfoMetricFamily, INFOS)
        self._gauges = _made(GaugeMetricFamily, GAUGES)
        self._counters = _made(CounterMetricFamily, COUNTERS)
        self._histograms = _made(HistogramMetricFamily, HISTOGRAMS)

    def all(self) -> Iterator[Metric]:
        """Yield the families that have samples."""
        yield from (family for family in self._every() if family.samples)

    def join(self, others: MetricFamilies) -> None:
        """Add all samples of `others` to these families."""
        for own, other in zip(self._every(), others._every(), strict=True):
            own.samples.extend(other.samples)

    def _every(self) -> Iterator[Metric]:
        for kind in (self._infos, self._gauges, self._counters, self._histograms):
            yield from kind.values()

    def add(self, run: Run) -> None:
        """Add the samples of a run, but not its status and what it does now.

        A value that is unknown, infinite or NaN is left out.
        """
        self._info("replayer_run", [run.id], _about(run))
        for name, stamp in (("started", run.started), ("finished", run.finished or "")):
            self.put(f"replayer_run_{name}_timestamp_seconds", [run.id], _instant(stamp))
        self.put("replayer_run_planned_steps", [run.id], _planned(run))
        for results in by_name(run.steps):
            self._step([run.id, results[0].name], results)

    def _step(self, of: list[str], results: list[StepResult]) -> None:
        for status in dict.fromkeys(result.status for result in results):
            number = sum(result.status is status for result in results)
            self.put("replayer_step_results", [*of, status.value], number)
        done = finished(results)
        if not done:
            return
        took = median(result.elapsed for result in done)
        self.put("replayer_step_elapsed_seconds", of, took)
        self._proof(of, done)
        self._latency(of, done)
        self._watched(of, done)
        for name, labels, value in _measured(done):
            self.put(name, [*of, *labels], value)

    def _proof(self, of: list[str], done: list[StepResult]) -> None:
        colds = [result.cold for result in done if result.cold is not None]
        if colds:
            words = {
                key: counted([str(getattr(cold, key)) for cold in colds])
                for key in ("asked", "got", "proof")
            }
            self._info("replayer_step_cold", of, words)
            self.put("replayer_step_resident_ratio", of, _median(c.resident_share for c in colds))
        ledgers = [result.ledger for result in done if result.ledger is not None]
        if ledgers:
            words = {
                key: counted([str(getattr(ledger, key) or "") for ledger in ledgers])
                for key in ("asked", "verdict", "device")
            }
            self._info("replayer_step_ledger", of, words)
            for name, labels, value in _ledger(ledgers):
                self.put(name, [*of, *labels], value)

    def _latency(self, of: list[str], done: list[StepResult]) -> None:
        for kind, buckets in latency.operations(done).items():
            labels = [*map(_label, of), _label(kind)]
            self._histograms[HISTOGRAM].add_metric(
                labels, list(buckets.counts), buckets.total_seconds
            )
            for percentile, seconds in buckets.percentiles:
                at = [*labels, percentile]
                self.put("replayer_step_latency_percentile_seconds", at, seconds)

    def _watched(self, of: list[str], done: list[StepResult]) -> None:
        for column, mode in _CPU.items():
            self.put("replayer_step_cpu_ratio", [*of, mode], _over(done, column, 0.01))
        devices = [result.series.device for result in done if result.series is not None]
        for column, (name, factor) in _DEVICE.items():
            labels = [*of, (devices and devices[-1]) or ""]
            self.put(f"replayer_step_device_{name}", labels, _over(done, column, factor))

    def put(self, name: str, labels: Iterable[object], value: float | None) -> None:
        """Add a sample to the gauge of this name, if the value is a finite number.

        `labels` are the values of the family's labels in their order, the run's id first.  The
        unit of the value, if it has one, ends the family's name.
        """
        if value is not None and math.isfinite(value):
            self._gauges[name].add_metric([_label(one) for one in labels], value)

    def count(self, name: str, labels: Iterable[object], value: float) -> None:
        """Add a sample to the counter of this name.

        `labels` are the values of the family's labels in their order, the run's id first.
        """
        self._counters[name].add_metric([_label(one) for one in labels], value)

    def _info(self, name: str, labels: Iterable[object], words: Mapping[str, object]) -> None:
        values = {key: _label(value) for key, value in words.items()}
        self._infos[name].add_metric([_label(one) for one in labels], values)


def _made(make: Callable[..., _Family], kinds: Mapping[str, FamilyKind]) -> dict[str, _Family]:
    labelled = {name: ("run", *kind.labels) for name, kind in kinds.items()}
    return {name: make(name, kinds[name].about, labels=of) for name, of in labelled.items()}


def _label(text: object) -> str:
    """Return text of any origin as the value of a label: shortened, and safe for a terminal.

    A value that is not the text itself ends with a hash of the text: two texts that begin alike
    would be one series with two values, which Prometheus refuses.
    """
    words = str(text)
    shown = sanitize(words[:_LONGEST])
    if shown == words:
        return words
    digest = blake2b(words.encode(errors="surrogatepass"), digest_size=_HASH_BYTES).hexdigest()
    return f"{shown[: _LONGEST - len(digest) - 1]}#{digest}"


def _about(run: Run) -> dict[str, object]:
    engine = run.engine
    return {
        "label": run.label,
        "workload": run.workload.name,
        "host": run.host.get("host.name") or "",
        "kernel": run.host.get("kernel.release") or "",
        "cpu": run.host.get("cpu.model") or "",
        "device": run.host.get("device.name") or "",
        "boot": run.host.get("boot.id") or "",
        "engine": engine.name if engine else "",
        "engine_version": engine.version if engine else "",
        "version": run.version,
    }


def _instant(stamp: str) -> float | None:
    with contextlib.suppress(ValueError):
        return datetime.fromisoformat(stamp).timestamp()
    return None


def _planned(run: Run) -> int | None:
    """Return the number of steps that a run's workload has, all repeats included.

    Returns None if the workload needs a capture or a plug-in that is missing here.
    """
    with contextlib.suppress(ReplayerError):
        return len(list(workload_file.turns(workload_file.of_facts(run.workload))))
    return None


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None and math.isfinite(value)]
    return median(known) if known else None


def _ledger(ledgers: list[Ledger]) -> Iterator[tuple[str, list[str], float | None]]:
    """Yield (family, values of labels after run and step, median over the repeats) of the ledgers.

    A ledger counts the reads of a step: from the buffer, the page cache and the device.
    """
    reads = "replayer_step_ledger_reads_per_second"
    yield "replayer_step_riops", [], _median(one.riops for one in ledgers)
    yield reads, ["buffer"], _median(one.buffer_hits for one in ledgers)
    yield reads, ["page_cache"], _median(one.page_cache_hits for one in ledgers)
    yield reads, ["device"], _median(one.device_reads for one in ledgers)
    from_device = _median(one.device_read_bytes for one in ledgers)
    yield "replayer_step_ledger_device_bytes_per_second", [], from_device
    yield "replayer_step_ledger_physical_ratio", [], _median(one.ratio for one in ledgers)


def _measured(done: list[StepResult]) -> Iterator[tuple[str, list[str], float | None]]:
    """Yield (family, further label values, median over the repeats) for each measured metric.

    The labels `run` and `step` come first in each family, and the further values follow them.  Only
    the repeats that were done count.
    """
    for kind in medians(done):
        ending, factor = _UNITS.get(kind.unit, ("", 1.0))
        labels = [kind.metric]
        if not ending and kind.unit.endswith("/s"):
            ending = "_per_second"
        elif not ending:
            labels.append(kind.unit)
        yield f"replayer_step_measured{ending}", labels, kind.value * factor


def _over(done: list[StepResult], column: str, factor: float) -> float | None:
    """Return `factor` times the median of a column's means, one mean for each repeat.

    The column is one of the series of the steps.  Returns None if no repeat has it.
    """
    every = [result.series for result in done if result.series is not None]
    middle = _median(mean(series, column) for series in every if column in series.columns)
    return None if middle is None else middle * factor
