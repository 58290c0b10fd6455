"""Conversion of many strings to two byte strings (texts and lengths), and back with checks."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_NONE = -1


@dataclass(frozen=True, slots=True)
class Strings:
    """Strings, some of which may be None, as one text and the length of each in characters."""

    text: str
    lengths: NDArray[np.int32]
    offsets: NDArray[np.int64]
    """Position in the text at which each string begins."""

    @classmethod
    def of(cls, values: Sequence[str | None]) -> "Strings":
        """Return these values as one Strings object."""
        lengths = np.fromiter(
            (_NONE if value is None else len(value) for value in values), np.int32, len(values)
        )
        return cls("".join(filter(None, values)), lengths, _offsets(lengths))

    @classmethod
    def unpack(cls, text: bytes, lengths: bytes) -> "Strings":
        """Return the strings from the result of `pack`; raise ValueError if the two do not fit."""
        characters = text.decode("utf-8", "surrogatepass")
        each = np.frombuffer(lengths, "<i4")
        if (each < _NONE).any() or np.maximum(each, 0).sum(dtype=np.int64) != len(characters):
            raise ValueError("lengths do not fit their text")
        return cls(characters, each, _offsets(each))

    def pack(self) -> tuple[bytes, bytes]:
        """Return (the text, the lengths) as bytes: UTF-8, and 32-bit integers, -1 for None."""
        return self.text.encode("utf-8", "surrogatepass"), self.lengths.astype("<i4").tobytes()

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> str | None:
        length = int(self.lengths[index])
        if length == _NONE:
            return None
        begin = int(self.offsets[index])
        return self.text[begin : begin + length]

    def part(self, begin: int, end: int) -> tuple[str | None, ...]:
        """Return the strings from index `begin` to index `end` - 1; None for a value of NULL."""
        lengths, offsets = self.lengths[begin:end].tolist(), self.offsets[begin:end].tolist()
        return tuple(
            None if length == _NONE else self.text[offset : offset + length]
            for offset, length in zip(offsets, lengths, strict=True)
        )

    def __add__(self, other: "Strings") -> "Strings":
        lengths = np.concatenate((self.lengths, other.lengths))
        return Strings(self.text + other.text, lengths, _offsets(lengths))


def _offsets(lengths: NDArray[np.int32]) -> NDArray[np.int64]:
    sizes = np.maximum(lengths, 0).astype(np.int64)
    return np.cumsum(sizes) - sizes
