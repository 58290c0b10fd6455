"""Disks that hold copies: what is written to an array of software RAID is counted at each of them.

No tool of sysstat shows which disks an array is on, but the bytes in each interval do: together,
the disks read what is read from the array, and write all of it once, twice or more.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations, islice
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_TOLERANCE = 0.05
"""Share of bytes that may differ: an array also writes what it needs itself, such as a bitmap."""
_IMPOSSIBLE = 1e18
"""Bytes per second of no device."""
_MOST_ARRAY_SETS, _MOST_DISK_SETS = 32, 5000
_SETS_OF_A_ROW = 32
"""Limits of the sets that are compared: of many sets, one fits few rows by chance."""
_EQUAL = 0.001
"""Share of bytes; of two sets that fit so well, neither fits better, and no disk with less matters.
"""
_MOST_BLOCKS = 1000
"""Limit of the sums of consecutive rows that are compared, so that a day of seconds is fast."""


class Mirrored(NamedTuple):
    """The devices to add up, so that each write is counted once where that is known."""

    devices: list[str]
    notes: list[str]


class _Match(NamedTuple):
    """Arrays that are on these disks, which hold `copies` of what is written to the arrays."""

    copies: int
    fit: float
    """Minus the share of the bytes that differ."""
    arrays: tuple[str, ...]
    disks: tuple[str, ...]


class BytesMoved:
    """The bytes that each device read and wrote, per second, in each row of a file."""

    def __init__(self) -> None:
        """Begin without a row."""
        self._values: dict[str, tuple[array[float], array[float]]] = {}

    def add(self, moved: Mapping[str, tuple[float, float]], row: int) -> None:
        """Add a row; `moved` has device -> (bytes read, bytes written), per second."""
        for name, values in moved.items():
            if name not in self._values:
                self._values[name] = (array("d"), array("d"))
            for column, value in zip(self._values[name], values, strict=True):
                # A device that a row does not list moved nothing in it.
                column.extend([0.0] * (row - len(column)))
                column[row:] = array("d", [value if 0 <= value < _IMPOSSIBLE else 0.0])

    def total(self, name: str) -> float:
        """Return the bytes that a device read and wrote, per second, added up over the rows."""
        return sum(map(sum, self._values.get(name, ())))

    def mirrored(self, arrays: Sequence[str], disks: Sequence[str]) -> Mirrored:
        """Return `disks`, with arrays in the place of those that hold copies, and notes on it."""
        rows = max((len(columns[0]) for columns in self._values.values()), default=0)
        known = {
            name: np.array([_in_blocks(column, rows) for column in columns])
            for name in (*arrays, *disks)
            if any(map(any, columns := self._values.get(name, ())))
        }
        written = {name: float(values[1].sum()) for name, values in known.items()}
        arrays = [name for name in arrays if written.get(name)]
        moved = {name: values.sum() for name, values in known.items()}
        least = _EQUAL * sum(moved.get(name, 0.0) for name in disks)
        free = [name for name in disks if moved.get(name, 0.0) > least]
        matches = []
        while match := _best(list(_matches(known, arrays, free))):
            matches.append(match)
            arrays = [name for name in arrays if name not in match.arrays]
            free = [name for name in free if name not in match.disks]
        copied = [match for match in matches if match.copies > 1]
        left_out = {name for match in copied for name in match.disks}
        notes = [
            f"the writes of {', '.join(match.disks)} are {match.copies} times those of "
            f"{', '.join(match.arrays)}, as in a RAID1 or RAID10: each is counted once"
            for match in copied
        ]
        devices = [name for name in disks if name not in left_out]
        devices += [name for match in copied for name in match.arrays]
        return Mirrored(devices, [*notes, *_doubts(written, arrays, free, rows)])


def _in_blocks(column: Sequence[float], rows: int) -> Floats:
    padded: Floats = np.pad(column, (0, rows - len(column)))
    sums: Floats = np.add.reduceat(padded, np.arange(0, rows, -(-rows // _MOST_BLOCKS)))
    return sums


def _doubts(
    written: Mapping[str, float], arrays: Sequence[str], disks: Sequence[str], rows: int
) -> Iterator[str]:
    """Yield a note on arrays whose writes may be counted at several of the `disks`."""
    most = sum(written[name] for name in disks)
    doubtful = [
        name for name in arrays if most * _TOLERANCE < written[name] < most * (1 - _TOLERANCE)
    ]
    if doubtful:
        known = ", ".join(f"{written[name] / rows / 1e6:,.3g} with --device {name}"
                          for name in doubtful)  # fmt: skip
        yield (
            f"the bytes do not show which are the disks of {', '.join(doubtful)}: if they hold "
            f"copies, writes are counted several times ({most / rows / 1e6:,.3g} MB/s; {known})"
        )


def _best(matches: Sequence[_Match]) -> _Match | None:
    """Return the match with the most copies of those that fit about as well as the best one.

    Where an array is only written to, a disk and its copy fit as well as one of them alone.
    """
    least = 2 * max((match.fit for match in matches), default=0.0) - _EQUAL
    return max((match for match in matches if match.fit >= least), default=None)


def _matches(
    moved: Mapping[str, Floats], arrays: Sequence[str], disks: Sequence[str]
) -> Iterator[_Match]:
    totals = {name: values.sum(axis=1).tolist() for name, values in moved.items()}
    rows = max((values.shape[1] for values in moved.values()), default=0)
    most = min(_MOST_DISK_SETS, _SETS_OF_A_ROW * rows)
    for some in islice(_sets(arrays), _MOST_ARRAY_SETS):
        read, written = (sum(totals[name][i] for name in some) for i in (0, 1))
        for held in islice(_sets(disks), most):
            read_below, written_below = (sum(totals[name][i] for name in held) for i in (0, 1))
            copies = round(written_below / written)
            allowed = _TOLERANCE * (read + written), _TOLERANCE * copies * written
            off = abs(read_below - read), abs(written_below - copies * written)
            if not 1 <= copies <= len(held) or off[0] > allowed[0] or off[1] > allowed[1]:
                continue
            expected = _added(moved, some) * [[1], [copies]]
            errors = np.abs(_added(moved, held) - expected).sum(axis=1)
            if (errors <= allowed).all():
                yield _Match(copies, -float(errors.sum() / expected.sum()), some, held)


def _added(moved: Mapping[str, Floats], names: Iterable[str]) -> Floats:
    added: Floats = np.sum([moved[name] for name in names], axis=0)
    return added


def _sets(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield all sets of names but the empty one: first those of all, of one, and of all but one."""
    sizes = sorted(range(len(names), 0, -1), key=lambda many: comb(len(names), many))
    return chain.from_iterable(combinations(names, many) for many in sizes)
