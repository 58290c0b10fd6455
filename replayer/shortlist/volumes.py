"""Limits of Amazon EBS volumes: what a volume of a kind and a size gives, forever and by credits.

The figures are those of "Amazon EBS volume types" in the Amazon EBS User Guide (2025).  Throughput
there is in MiB/s, here in 10^6 bytes a second.  The IOPS and the MiB/s of gp2 follow from its size,
and the MiB/s of io1 and io2 from their IOPS.  A gp3 volume has 3,000 to 80,000 operations and 125
to 2,000 MiB a second, and 1 GiB to 64 TiB: the limits since September 2025 (AWS re:Invent 2025,
STG320), which were 16,000, 1,000 MiB/s and 16 TiB before.  A second of gp3 has at most 0.25 MiB for
each operation.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from replayer.errors import Impossible
from replayer.shortlist.offers import DiskOffer, Supply
from replayer.units import show_size, size

_MIB = (1 << 20) / 1e6
"""10^6 bytes in a MiB."""
_GIB = 1 << 30
_GP2_CREDITS = 5_400_000.0
"""I/O credits of a gp2 volume whose bucket is full."""
_GP2_BURST = 3000.0
_GP2_MOST = 16_000.0
_GP2_SLOW, _GP2_FAST = 170, 334
"""GiB up to which a gp2 volume has 128 MiB/s, and from which on it has 250 MiB/s forever."""


class _Orderable(NamedTuple):
    """The sizes in bytes, the IOPS and the MiB/s with which a kind of volume can be ordered."""

    sizes: tuple[int, int]
    iops: tuple[float, float] | None = None
    """The fewest and the most; None where they follow from the size."""
    per_gib: float = 0.0
    """The most IOPS for each GiB; the fewest can be ordered with any size."""
    mib: tuple[float, float] | None = None
    """The least and the most; None where it follows from the size or the IOPS."""


_GP3_MIB_EACH = 0.25
"""MiB a second that may be ordered for each operation a second."""
_ORDERABLE = {
    "gp2": _Orderable((_GIB, 16 << 40)),
    "gp3": _Orderable((_GIB, 64 << 40), (3000.0, 80_000.0), 500.0, (125.0, 2000.0)),
    "io1": _Orderable((4 * _GIB, 16 << 40), (100.0, 64_000.0), 50.0),
    "io2": _Orderable((4 * _GIB, 64 << 40), (100.0, 256_000.0), 1000.0),
}
_GP3 = (3000.0, 125.0)
"""Operations and MiB a second that a gp3 volume has without a surcharge: the fewest of both."""
_REQUEST = 256 << 10
"""Bytes of the largest request that counts as one on a volume with SSDs."""
_ORDER = re.compile(
    r"(?P<kind>\w+):(?P<size>[^,]+)(?:,(?P<iops>\d+(?:\.\d+)?))?(?:,(?P<mib>\d+(?:\.\d+)?))?"
)


def volume(
    kind: str, bytes_: int, iops: float | None = None, mib: float | None = None, name: str = ""
) -> DiskOffer:
    """Return an EBS volume of the kind gp2, gp3, io1 or io2 as a disk.

    `bytes_` is its size.  `iops` and `mib` (MiB a second) are the rates that were ordered, None for
    the defaults.  Raise Impossible for another kind, for no size, and for io1 or io2 without
    `iops`.
    """
    if kind not in _ORDERABLE:
        raise Impossible(
            f"the limits of a volume of the kind {kind!r} are not known here "
            f"({', '.join(_ORDERABLE)} are): write them into a CSV, see docs/administrator.md"
        )
    if bytes_ <= 0:
        raise Impossible(f"a volume must have a size, such as {kind}:500G")
    if kind in {"io1", "io2"} and not iops:
        raise Impossible(
            f"{_name_volume(kind)} has the IOPS that were ordered: {kind}:500G,10000 has 10,000"
        )
    gib = bytes_ / _GIB
    supplies = _gp2(gib) if kind == "gp2" else _ordered(kind, iops or _GP3[0], mib)
    return DiskOffer(
        name=name or f"{kind} {gib:g} GiB",
        supplies={**supplies, "database": Supply.of(float(bytes_))},
        request_bytes=_REQUEST,
    )


def _gp2(gib: float) -> Mapping[str, Supply]:
    base = min(_GP2_MOST, max(100.0, 3 * gib))
    iops = (
        Supply(baseline=base, burst=_GP2_BURST, credits=_GP2_CREDITS)
        if base < _GP2_BURST
        else Supply.of(base)
    )
    low, high = 128 * _MIB, 250 * _MIB
    if not _GP2_SLOW < gib < _GP2_FAST:
        return {"iops": iops, "mbps": Supply.of(low if gib <= _GP2_SLOW else high)}
    # It has the higher rate while there are credits, which are credits of operations.
    return {"iops": iops, "mbps": Supply(baseline=low, burst=high)}


def _ordered(kind: str, iops: float, mib: float | None) -> Mapping[str, Supply]:
    """Return the supplies of requests and of throughput of a volume for which IOPS are ordered.

    `mib` is the ordered throughput.  If it is None, that of io1 and io2 follows from the IOPS, and
    gp3 has its basic one.
    """
    # An io1 volume has at most 500 MiB/s up to 32,000 IOPS, and above 16 KiB for each operation.
    by_operations = {
        "io1": min(1000.0, max(min(500.0, iops / 4), iops / 64)),
        "io2": min(4000.0, iops * 0.256),
    }
    rate = mib or by_operations.get(kind, _GP3[1])
    return {"iops": Supply.of(iops), "mbps": Supply.of(rate * _MIB)}


def parse_disk(text: str) -> DiskOffer:
    """Return the disk that a text such as `gp3:500G,6000,250` describes: an Amazon EBS volume.

    The parts are kind, size, and the ordered IOPS and MiB a second.  Raise Impossible for any other
    text, and for a volume that cannot be ordered.
    """
    match = _ORDER.fullmatch(text.strip())
    if match is None:
        raise Impossible(
            f"--disk is {text!r}: it must be KIND:SIZE[,IOPS[,MiB/s]], such as gp2:500G "
            f"or gp3:500G,6000,250"
        )
    bytes_ = size(match["size"])
    iops, mib = (None if match[key] is None else float(match[key]) for key in ("iops", "mib"))
    made = volume(match["kind"], bytes_, iops, mib, name=text.strip())
    _check_order(match["kind"], bytes_, iops, mib)
    return made


def _check_order(kind: str, bytes_: int, iops: float | None, mib: float | None) -> None:
    """Raise Impossible if no volume of a kind can be ordered with this size and these rates.

    `iops` and `mib` are a second; None where none were ordered.
    """
    order, of = _ORDERABLE[kind], _name_volume(kind)
    least, most = order.sizes
    if not least <= bytes_ <= most:
        limits = f"{show_size(least)} to {show_size(most)}"
        raise Impossible(f"{of} can be ordered with {limits}, not with {show_size(bytes_)}")
    if order.iops is None:
        if iops is not None:
            raise Impossible(
                f"{of} has the IOPS and MiB/s of its size, and none can be ordered: give "
                f"{kind}:SIZE alone"
            )
        return
    fewest, highest = order.iops
    operations = fewest if iops is None else iops
    highest = max(fewest, min(highest, order.per_gib * bytes_ / _GIB))
    _check_rate(f"{of} of {show_size(bytes_)}", "IOPS", operations, (fewest, highest))
    if mib is None:
        return
    if order.mib is None:
        raise Impossible(
            f"{of} has the MiB/s of its IOPS, and none can be ordered: give {kind}:SIZE,IOPS alone"
        )
    highest = min(order.mib[1], _GP3_MIB_EACH * operations)
    _check_rate(f"{of} with {operations:,g} IOPS", "MiB/s", mib, (order.mib[0], highest))


def _name_volume(kind: str) -> str:
    return f"{'an' if kind.startswith('i') else 'a'} {kind} volume"


def _check_rate(of: str, unit: str, value: float, limits: tuple[float, float]) -> None:
    least, most = limits
    if not least <= value <= most:
        between = f"{least:,g}" if least == most else f"{least:,g} to {most:,g}"
        raise Impossible(f"{of} can be ordered with {between} {unit}, not with {value:,g}")
