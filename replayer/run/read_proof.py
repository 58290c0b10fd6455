"""The proof that a probe's reads came from a disk and its writes went to one, not to memory."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from replayer.conditions import underneath
from replayer.machine import stack
from replayer.machine.host import Host
from replayer.machine.page_cache import PAGE
from replayer.machine.stack import Stack
from replayer.storage.io_job import IoJob
from replayer.storage.io_run import IoRun
from replayer.watch.sampler import DeviceDelta

_ENOUGH_FROM_DEVICE = 0.98
_FOREIGN_FROM = 1.25
"""From this ratio of delivered to needed bytes on, the device also served other programs."""


class _Run(NamedTuple):
    """Bytes that one run asked for, and bytes that were delivered for it, by the lowest count."""

    asked: int
    delivered: int
    shared: int
    """The highest of the counts without which nothing is proven and that count all programs."""


class ReadProof:
    """Bytes that a probe's runs asked for, and bytes that were delivered from disks for them.

    `storage` is the folder of the probe's files. It is None if the probe reads a raw device: then
    the proof is about that device, not about what is beneath it.
    """

    def __init__(self, host: Host, storage: Path | None) -> None:
        self._host = host
        self._below = Stack() if storage is None else stack.beneath(host, [storage])
        self._first: int | None = None
        self._runs: list[_Run] = []

    def begin(self) -> None:
        """Read the counters of the disks beneath loop devices, at the begin of a run."""
        self._first = underneath.disk_bytes(self._below, self._host)

    def end(self, io: IoRun, delta: DeviceDelta | None) -> str:
        """Add a run that has just ended; return why it proves nothing, or "" if it may prove.

        `delta` is what the device did meanwhile, None if that was not counted.
        """
        if delta is None:
            return "the device's reads could not be counted, so nothing proves ours"
        for layer in (*self._below.memory, *self._below.hidden):
            return f"the files are on {layer}, which may be in memory, so nothing proves ours"
        own = [] if io.own_bytes is None else [io.own_bytes]
        shared = [] if own else [delta.read_bytes]
        if self._below.files:
            last = underneath.disk_bytes(self._below, self._host)
            if self._first is None or last is None:
                return "the reads of the disks could not be counted, so nothing proves ours"
            shared.append(last - self._first)
        asked = _asked(io)
        # More than one run asked for does not prove the reads of another.
        delivered = min(asked, *own, *shared, delta.read_bytes)
        self._runs.append(_Run(asked, delivered, max(shared, default=0)))
        return ""

    @property
    def writes_doubt(self) -> str:
        """Return why writes to the files wait for no disk, "" if nothing shows that."""
        for layer in self._below.memory:
            return (
                f"the files are on {layer}, which is memory, so writes and syncs wait for no disk"
            )
        return ""

    @property
    def share(self) -> float | None:
        """Return the delivered share of the bytes that all runs read; None without such runs.

        It is that of the lowest count: reads of other programs can only raise a higher one.
        """
        return self._of_asked([run.delivered for run in self._runs])

    @property
    def doubt(self) -> str:
        """Return why the reads of all runs together are not proven, "" if they are."""
        share, shared = self.share, self._of_asked([run.shared for run in self._runs])
        if share is None or shared is None:
            return ""
        whose = "the disks beneath the device" if self._below.files else "the device"
        if share < _ENOUGH_FROM_DEVICE:
            return (
                f"{whose} delivered only {share:.0%} of the bytes that were read: the rest came "
                f"from a cache on this machine"
            )
        if shared > _FOREIGN_FROM:
            return (
                f"{whose} delivered {shared:.1f} times the bytes that were read, and how much of "
                f"that was for other programs is not known, so nothing proves ours"
            )
        return ""

    def _of_asked(self, amounts: Sequence[int]) -> float | None:
        asked = sum(run.asked for run in self._runs)
        return sum(amounts) / asked if asked else None


def _asked(io: IoRun) -> int:
    """Return the bytes that a run read: whole pages if it read through the page cache."""
    return sum(
        result.issued_reads * _moved(result.job) for results in io.by_client for result in results
    )


def _moved(job: IoJob) -> int:
    return -(-job.block_size // PAGE) * PAGE if job.drop else job.block_size
