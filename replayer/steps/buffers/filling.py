"""Judge whether buffers were full when the share of blocks found in them was measured."""

from collections.abc import Sequence
from typing import NamedTuple

from replayer.units import show_count, show_duration

_STILL = 0.01
"""Buffers count as full if the share of missed blocks falls little from one span to the next.

The share may fall by at most this part of its value in the span before.  If at most this share of
all blocks is missed, buffers count as full that have room left."""
_LEAST_BLOCKS = 1000
"""Blocks of a span: with fewer, a share of 80 % is off by more than 3 points by chance."""


class BlockCounts(NamedTuple):
    """Blocks that were asked of the buffers in `seconds`: found there, and missed."""

    hits: int
    reads: int
    seconds: float

    @property
    def missed(self) -> float:
        """Return the share of blocks that were missed; some must have been asked for."""
        return self.reads / (self.hits + self.reads)


def _sum(windows: Sequence[BlockCounts]) -> BlockCounts:
    return BlockCounts(
        sum(one.hits for one in windows),
        sum(one.reads for one in windows),
        sum(one.seconds for one in windows),
    )


class BufferFilling:
    """The blocks found and missed in successive windows, while buffers of one size fill.

    Windows are joined to spans of 1,000 blocks or more.  Buffers are full when as many blocks were
    read as they hold, or nearly none are missed any more, and a span missed hardly fewer than the
    span before.
    """

    def __init__(self, buffers: int, filled: int = 0) -> None:
        """Begin with `buffers`, the blocks that fit, of which `filled` were read before."""
        self._buffers = buffers
        self._filled = filled
        self._windows: list[BlockCounts] = []

    def add(self, window: BlockCounts) -> None:
        """Add the next window."""
        self._windows.append(window)

    @property
    def seconds(self) -> float:
        """Return the seconds of all windows together."""
        return _sum(self._windows).seconds

    @property
    def hit_share(self) -> float | None:
        """Return the share of blocks that the last span found; None if no block was asked for."""
        span = _sum(self._windows[self._begin(len(self._windows)) :])
        return 1 - span.missed if span.hits + span.reads else None

    @property
    def full(self) -> bool:
        """Return whether the buffers are full, as far as the windows show."""
        return not self.doubt()

    def doubt(self) -> str:
        """Return why the share is not known, or is not that of full buffers; "" if it is."""
        windows = self._windows
        every = _sum(windows)
        asked, lasted = every.hits + every.reads, show_duration(every.seconds)
        if not asked:
            return f"no block was asked for in {lasted}: set rate or longest higher"
        middle = self._begin(len(windows))
        last, before = _sum(windows[middle:]), _sum(windows[self._begin(middle) : middle])
        if min(one.hits + one.reads for one in (last, before)) < _LEAST_BLOCKS:
            return (
                f"only {show_count(asked)} blocks were asked for in {lasted}, and "
                f"{show_count(2 * _LEAST_BLOCKS)} are needed: set rate or longest higher"
            )
        read = self._filled + every.reads
        if read < self._buffers and last.missed > _STILL:
            return (
                f"{show_count(read)} of the {show_count(self._buffers)} blocks that they hold were "
                f"read in {lasted}, and {last.missed:.1%} were still missed: set rate or longest "
                f"higher"
            )
        if before.missed - last.missed > _STILL * max(before.missed, _STILL):
            return (
                f"the share of missed blocks still fell after {lasted}, from {before.missed:.2%} "
                f"to {last.missed:.2%}: set longest higher"
            )
        return ""

    def _begin(self, end: int) -> int:
        """Return the index of the first window of the span that ends before the window `end`."""
        blocks, begin = 0, end
        while begin and blocks < _LEAST_BLOCKS:
            begin -= 1
            blocks += self._windows[begin].hits + self._windows[begin].reads
        return begin
