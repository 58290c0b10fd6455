"""The proof that a probe's reads came from a disk, and not from a cache on this machine."""

from collections.abc import Sequence
from pathlib import Path

from replayer.conditions import underneath
from replayer.machine import stack
from replayer.machine.host import Host
from replayer.machine.stack import Stack
from replayer.storage.io_run import IoRun
from replayer.watch.sampler import DeviceDelta

_ENOUGH_FROM_DEVICE = 0.98


class ReadProof:
    """Bytes that a probe's runs asked for, and bytes that were delivered from disks for them.

    `storage` is the folder of the probe's files. It is None if the probe reads a raw device: then
    the proof is about that device, not about what is beneath it.
    """

    def __init__(self, host: Host, storage: Path | None) -> None:
        self._host = host
        self._below = Stack() if storage is None else stack.beneath(host, [storage])
        self._first: int | None = None
        self._runs: list[tuple[int, int]] = []
        """For each run: bytes asked for, bytes delivered."""

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
        delivered = [delta.read_bytes]
        if self._below.files:
            last = underneath.disk_bytes(self._below, self._host)
            if self._first is None or last is None:
                return "the reads of the disks could not be counted, so nothing proves ours"
            delivered.append(last - self._first)
        self._runs.append((_asked(io), min(delivered)))
        return ""

    @property
    def share(self) -> float | None:
        """Return the delivered share of the bytes that all runs read; None without such runs."""
        asked, delivered = _sums(self._runs)
        return delivered / asked if asked else None

    @property
    def doubt(self) -> str:
        """Return why the reads of all runs together are not proven, "" if they are."""
        share = self.share
        if share is None or share >= _ENOUGH_FROM_DEVICE:
            return ""
        whose = "the disks beneath the device" if self._below.files else "the device"
        return (
            f"{whose} delivered only {share:.0%} of the bytes that were read: the rest came from a "
            f"cache on this machine"
        )


def _asked(io: IoRun) -> int:
    return sum(
        result.issued_reads * result.job.block_size
        for results in io.by_client
        for result in results
    )


def _sums(runs: Sequence[tuple[int, int]]) -> tuple[int, int]:
    return sum(asked for asked, _ in runs), sum(delivered for _, delivered in runs)
