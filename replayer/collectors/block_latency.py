"""Latency of the data's device: a histogram of its reads and writes each second, by bpftrace.

bpftrace watches the kernel's tracepoints `block_rq_issue` and `block_rq_complete`. The latency is
that of the device: from the instant at which a request was given to the device's driver until its
end, without the time in the queue before. About one request of sixteen is timed, chosen by its
place on the device, because timing has a cost: the kernel needed 1.2 us for a timed request, and
0.12 us for a skipped one. Buckets are powers of two, in microseconds. If bpftrace cannot work, the
collector diskstats still has the mean time of each second.

The table is `block_latency.seconds`. Its rows are the seconds that lie entirely in the window.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from replayer import shell
from replayer.collectors import CollectorContext, WindowRecording
from replayer.errors import ReplayerError, Skip
from replayer.machine import boot_clock
from replayer.machine.background import Background

_INSTALL = "apt-get install bpftrace, or dnf install bpftrace"
_INSTEAD = "of its latency there are the means of diskstats, a second each"
_TRACEPOINTS = (
    "sys/kernel/tracing/events/block/block_rq_issue",
    "sys/kernel/debug/tracing/events/block/block_rq_issue",
)
_KINDS = ("read", "write")
_EACH = 16
"""One request out of this many is timed."""
_MINOR_BITS = 20
"""The bits of the minor number in a device's number, include/linux/kdev_t.h."""
_PROGRAM = """
tracepoint:block:block_rq_issue
/args->dev == DEVICE && ((args->sector * 2654435761) >> 16) % EACH == 0/
{ @at[args->sector] = nsecs; }
tracepoint:block:block_rq_complete
/args->dev == DEVICE && ((args->sector * 2654435761) >> 16) % EACH == 0 && @at[args->sector]/
{
  $us = (nsecs - @at[args->sector]) / 1000;
  if (strncmp("R", args->rwbs, 1) == 0) { @read = hist($us); }
  if (strncmp("W", args->rwbs, 1) == 0) { @write = hist($us); }
  delete(@at[args->sector]);
}
interval:s:1
{ printf("%llu\\n", nsecs); print(@read); print(@write); clear(@read); clear(@write); }
END { clear(@at); clear(@read); clear(@write); }
"""
_PERCENTILES = {"p50_us": 0.5, "p99_us": 0.99}
_END_SECONDS = 2.0
_WINDOW_NS = 2_000_000_000
"""A window that is longer has at least one whole second."""
_ASLEEP_NS = 100_000_000
"""A shorter suspend since the machine's start makes no difference."""

Histogram = Mapping[int, int]
"""Lowest microseconds of a bucket -> requests."""


class Second(NamedTuple):
    """bpftrace's output at the end of a second.

    `clock_ns` is that end, in ns of bpftrace's clock, and `histograms` is `read` or `write` ->
    histogram of the requests' latencies.
    """

    clock_ns: int
    histograms: dict[str, Histogram]


def begin(scene: CollectorContext) -> "BlockLatency":
    """Start bpftrace, and return the recording; raise Skip with the reason if it cannot watch."""
    program = shell.find("bpftrace")
    if program is None:
        raise Skip(f"bpftrace is not installed ({_INSTALL}); {_INSTEAD}")
    if scene.device is None:
        raise Skip("the data is on no block device, or on several")
    if os.geteuid() != 0:
        raise Skip(f"bpftrace needs root; {_INSTEAD}")
    if not any(scene.host.exists(path) for path in _TRACEPOINTS):
        raise Skip(f"this kernel shows no tracepoints of the block layer; {_INSTEAD}")
    return BlockLatency(scene, program, _number(scene, scene.device))


def _number(scene: CollectorContext, device: str) -> int:
    """Return a disk's device number as the kernel's tracepoints print it.

    Raises Skip if /sys does not have it, or if the tracepoints never have this device.
    """
    folder = f"sys/class/block/{device.replace('/', '!')}"
    # Before Linux 5.0 a queue of requests may have a scheduler instead of the folder.
    is_queue = scene.host.exists(f"{folder}/mq") or (
        scene.host.read(f"{folder}/queue/scheduler") not in ("", "none")
    )
    if scene.host.exists(f"{folder}/dev") and not is_queue:
        raise Skip(
            f"the device {device} has no queue of requests that could be timed, as md, dm and NVMe "
            f"multipath have none; {_INSTEAD}"
        )
    major, _, minor = scene.host.read(f"{folder}/dev").strip().partition(":")
    if not (major.isdigit() and minor.isdigit()):
        raise Skip(f"the device {device} has no number in /sys; {_INSTEAD}")
    return (int(major) << _MINOR_BITS) | int(minor)


class BlockLatency:
    """A process of bpftrace that times a disk's requests, and the file that it writes.

    `number` is the disk's device number as the kernel's tracepoints have it.
    """

    def __init__(self, scene: CollectorContext, program: Path, number: int) -> None:
        script = scene.folder / "latency.bt"
        text = _PROGRAM.replace("DEVICE", str(number)).replace("EACH", str(_EACH))
        script.write_text(text, encoding="ascii")
        self._output = scene.folder / "latency.json"
        command: list[str | Path] = [
            program,
            "-B",
            "line",
            "-f",
            "json",
            "-o",
            self._output,
            script,
        ]
        self._began_ns, self._asleep_ns = time.monotonic_ns(), boot_clock.asleep_ns()
        self._program = Background(command, scene.folder / "latency.log")
        self._early_end = ""

    def mark(self, clock_ns: int) -> None:
        """Count bpftrace's CPU time as the collector's cost from the first mark on."""
        del clock_ns
        self._program.charge()

    def end(self) -> float:
        """Stop bpftrace; return the CPU seconds of its process since the first mark.

        The time that its program in the kernel took at each request is not included.
        """
        cost = self._program.cost()  # first: an ended program has no cost after `early_end`
        self._early_end = self._program.early_end()
        self._program.stop(_END_SECONDS)
        return cost

    def cut(self, begin_ns: int, end_ns: int) -> WindowRecording:
        """Return the table of the seconds that lie entirely between two marks.

        Raises ReplayerError with bpftrace's message if it printed no second at all, or none of a
        window that has one.
        """
        seconds = self._seconds()
        if not seconds:
            why = self._early_end or "timed nothing"
            raise ReplayerError(f"bpftrace {why} ({self._why()}); {_INSTEAD}")
        inside = [
            after
            for before, after in pairwise(seconds)
            if begin_ns <= before.clock_ns and after.clock_ns <= end_ns
        ]
        if not inside and end_ns - begin_ns > _WINDOW_NS:
            why = self._early_end or "printed no second of the window"
            raise ReplayerError(f"bpftrace {why}; {_INSTEAD}")
        rows = [row for second in inside for row in _rows(second, begin_ns)]
        cut = f"the device's latency is not of the whole window: bpftrace {self._early_end}"
        return WindowRecording(
            tables={"block_latency.seconds": rows} if rows else {},
            notes=(cut,) if self._early_end else (),
        )

    def _seconds(self) -> list[Second]:
        """Return the printed seconds; their ends are in ns of CLOCK_MONOTONIC."""
        text = self._output.read_text(encoding="utf-8") if self._output.exists() else ""
        seconds = list(read_seconds(text))
        late = seconds[0].clock_ns - self._began_ns if seconds else 0
        if self._asleep_ns < _ASLEEP_NS or late < self._asleep_ns / 2:
            return seconds
        return [one._replace(clock_ns=one.clock_ns - self._asleep_ns) for one in seconds]

    def _why(self) -> str:
        lines = self._program.text().splitlines()
        words = [line.strip() for line in lines if line.strip() and "RLIMIT_MEMLOCK" not in line]
        return words[0] if words else "it printed nothing"


def read_seconds(text: str) -> Iterator[Second]:
    """Yield each second from `text`, the output of bpftrace with `-f json`; ignore other lines."""
    latest: Second | None = None
    for line in text.splitlines():
        try:
            message = json.loads(line)
        except ValueError:
            continue
        if message.get("type") == "printf":
            if latest is not None:
                yield latest
            latest = Second(int(message["data"]), {})
        elif message.get("type") == "hist" and latest is not None:
            for name, buckets in message["data"].items():
                latest.histograms[name.removeprefix("@")] = _histogram(buckets)
    if latest is not None:
        yield latest


def _histogram(buckets: list[dict[str, int]]) -> Histogram:
    return {one.get("min", 0): one["count"] for one in buckets if one["count"]}


def _rows(second: Second, begin_ns: int) -> Iterator[dict[str, Any]]:
    for kind in _KINDS:
        histogram = second.histograms.get(kind, {})
        if histogram:
            yield {
                "second": round((second.clock_ns - begin_ns) / 1e9, 3),
                "kind": kind,
                "timed": sum(histogram.values()),
                **{name: _at_most(histogram, share) for name, share in _PERCENTILES.items()},
                "longest_us": _ceiling(max(histogram)),
                "histogram": " ".join(f"{low}:{count}" for low, count in sorted(histogram.items())),
            }


def _at_most(histogram: Histogram, share: float) -> int:
    """Return the latency that a share of the requests did not exceed, in microseconds.

    `share` is 0 to 1, such as 0.99. The result is rounded up to the end of its bucket.
    """
    left = share * sum(histogram.values())
    for low in sorted(histogram):
        left -= histogram[low]
        if left <= 0:
            return _ceiling(low)
    return _ceiling(max(histogram))


def _ceiling(low: int) -> int:
    """Return the upper end of the bucket that begins at `low`, both in microseconds."""
    return max(1, 2 * low)
