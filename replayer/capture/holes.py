"""Runs of zeros in a log, which a power failure leaves in blocks that were not yet on the disk."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

HOLE = "\ud800\0"
"""The mark at the end of a line that a hole cut off; decoded text never contains it."""
SPOOLED = b"\xff\0\n"
"""The bytes that stand for a hole in a temporary file that is read backwards."""
LOST = "statements cut by a hole of zeros in the log"
_NAMED = 5
_PARTS = re.compile(rb"\0+|[^\0]+")


@dataclass(slots=True)
class Holes:
    """The positions of the holes (runs of zeros) in the text of a log."""

    first: list[tuple[int, int]] = field(default_factory=list)
    """(offset in the text, length) of the first holes, both in bytes."""
    count: int = 0
    zeros: int = 0
    """Total bytes of all holes."""

    def add(self, offset: int, length: int) -> None:
        """Count a hole; `offset` and `length` are in bytes of the text."""
        self.count += 1
        self.zeros += length
        if len(self.first) < _NAMED:
            self.first.append((offset, length))

    def sentences(self, name: str) -> Iterator[str]:
        """Yield a sentence for each of the first holes, and one sentence for all others.

        `name` is the name of the log file for these sentences.
        """
        for offset, length in self.first:
            yield (
                f"{name}: {length:,} zeros from byte {offset:,} of its text on, as a power failure "
                f"leaves them: what stood there is lost"
            )
        if more := self.count - len(self.first):
            zeros = self.zeros - sum(length for _, length in self.first)
            yield f"{name}: and {more:,} more holes of {zeros:,} zeros together"


def without_holes(pieces: Iterable[bytes], holes: Holes, shortest: int) -> Iterator[bytes]:
    """Yield the bytes of a text, with b"" instead of each run of `shortest` or more zero bytes.

    `pieces` are the consecutive parts of the text.  Such a run is a hole, and is added to `holes`.
    It may extend over several pieces.
    """
    offset = zeros = 0
    for piece in pieces:
        if not zeros and b"\0" not in piece:
            offset += len(piece)
            if piece:
                yield piece
            continue
        for part in _PARTS.findall(piece):
            if part[0]:
                if zeros:
                    yield _run(holes, offset, zeros, shortest)
                    zeros = 0
                yield part
            else:
                zeros += len(part)
            offset += len(part)
    if zeros:
        yield _run(holes, offset, zeros, shortest)


def _run(holes: Holes, end: int, zeros: int, shortest: int) -> bytes:
    """Return b"" for a run of at least `shortest` zeros, and add it to `holes`; else the zeros.

    `zeros` is the number of zeros, and `end` the offset in bytes at which the run ends.
    """
    if zeros < shortest:
        return bytes(zeros)
    holes.add(end - zeros, zeros)
    return b""
