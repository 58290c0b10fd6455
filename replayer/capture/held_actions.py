"""Actions of a replay file that its reader holds back, because blocks of the file overlap."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from replayer.capture.block import Block


@dataclass(frozen=True, slots=True)
class HeldActions:
    """Actions held back by a reader, as later blocks may overlap; `numbers` are their blocks."""

    block: Block
    numbers: NDArray[np.int64]

    @classmethod
    def of(cls, block: Block, number: int) -> "HeldActions":
        """Return all actions of a block, which has this number in its file."""
        return cls(block, np.full(len(block), number))

    def joined(self, block: Block, number: int) -> "HeldActions":
        """Return these actions merged with those of the block `number`: by start, then by block."""
        both = self.block + block
        numbers = np.concatenate((self.numbers, np.full(len(block), number)))
        order = np.lexsort((numbers, both.columns.start_ns))
        return HeldActions(both.chosen(order), numbers[order])

    def split(self, begin: int, number: int) -> "tuple[Block | None, HeldActions | None]":
        """Return (actions before the next block, the later ones), each None if there are none.

        `begin` and `number` are the start and the number of the next block.
        """
        starts = self.block.columns.start_ns
        low, high = (int(np.searchsorted(starts, begin, side)) for side in ("left", "right"))
        count = low + int(np.searchsorted(self.numbers[low:high], number))
        if count == len(self.block):
            return self.block, None
        rest = HeldActions(self.block.chosen(slice(count, None)).compact(), self.numbers[count:])
        return (self.block.chosen(slice(0, count)) if count else None), rest
