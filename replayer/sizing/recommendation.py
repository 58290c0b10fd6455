"""Size of a machine that would meet a requirement: cores, memory, disk and network.

Cores are counted as cores of the source's machine: only a probe or a load shows how much work a
core of another machine does.  Cores are rounded up to whole ones, memory to GiB, rates to 2 digits.
"""

import math
from collections.abc import Iterator

from replayer.model import Noun
from replayer.sizing.requirement import Need, Requirement
from replayer.units import show

_GIB = 1 << 30
_MEMORY_ROOM = 1.1
"""Memory of a machine over the memory in use: the kernel and the page cache take the rest."""


class RecommendedSize(Noun):
    """The amount that a machine should have of one resource."""

    resource: str
    amount: float
    """The amount in `unit`, rounded up; the room on the disk is not rounded."""
    unit: str
    words: str
    """The calculation of the amount, in words."""

    @property
    def shown(self) -> str:
        """Return the amount with its unit."""
        return show(self.amount, self.unit)


def recommend(wanted: Requirement) -> tuple[RecommendedSize, ...]:
    """Return the amount of each resource that a machine should have to meet the requirement.

    Growth and headroom are included.  Resources that are not in the profile are left out.
    """
    return tuple(_sizes(wanted))


def _sizes(wanted: Requirement) -> Iterator[RecommendedSize]:
    cpu = wanted.need("server_cpu") or wanted.need("cpu")
    if cpu is not None:
        cores = math.ceil(cpu.required - 1e-9)
        yield _size("processors", cores, "core" if cores == 1 else "cores", cpu.arithmetic)
    memory = wanted.need("memory")
    if memory is not None:
        gib = math.ceil(memory.required * _MEMORY_ROOM / _GIB)
        words = f"{memory.arithmetic} in use, and a tenth for the kernel and its cache"
        yield _size("memory", float(gib * _GIB), "bytes", words)
    if wanted.database_bytes:
        words = "the data as it is: growth of the data is not in it"
        yield _size("disk, room", float(wanted.database_bytes), "bytes", words)
    for name, title in _DISK.items():
        need = wanted.need(name)
        if need is not None and need.required > 0:
            yield _size(title, _round_up(need), need.unit, need.arithmetic)


_DISK = {
    "iops": "disk, reads and writes",
    "mbps": "disk, bytes",
    "wal_syncs": "disk, flushes of the log",
    "net_out": "network, sent",
}


def _size(resource: str, amount: float, unit: str, words: str) -> RecommendedSize:
    return RecommendedSize(resource=resource, amount=float(amount), unit=unit, words=words)


def _round_up(need: Need) -> float:
    """Return the required amount of a need in its unit, rounded up to two significant digits."""
    step = float(10.0 ** (math.floor(math.log10(need.required)) - 1))
    return math.ceil(need.required / step - 1e-9) * step
