"""The statements of a mix, one after the other, with their parameters: all drawn from the seed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from replayer.load.mix import Hot

PARAMETERS = ("first", "last", "burn")
"""First and last key of what is read or changed, and units of CPU to burn on each of its rows.

Of an insert: its key, and how many bytes the row has."""
_BATCH = 256
"""Few, as nothing is sent while they are drawn: a fifth of a millisecond."""
_KEYS_PER_STREAM = 1 << 40


@dataclass(frozen=True, slots=True)
class DriverStatement:
    """One statement on one table, as the driver takes it."""

    kind: str
    text: str
    names: tuple[str, ...]
    """Its parameters, in order, of PARAMETERS."""
    weight: float
    span: int
    """Rows by an index that it touches."""
    burn: float
    """Units of CPU that it burns on each row, on average."""


@dataclass(frozen=True, slots=True)
class Keys:
    """Which rows there are, and which of them are hot."""

    rows: int
    hot: Hot | None


Request = tuple[int, bytes]
"""The place of a statement, and its parameters as the wire has them."""


@dataclass(frozen=True, slots=True)
class Packing:
    """How a wire has a parameter, which is a whole number of 8 bytes."""

    order: Literal["<", ">"]
    prefix: bytes = b""
    """What stands before each."""


@dataclass(frozen=True, slots=True)
class StreamPart:
    """What one process has of a stream of statements that several have together.

    The i-th statement of a stream is of its session i modulo their number, and session j belongs to
    the part j modulo their number.  So all parts together send what one process would, whatever
    their number and wherever they are.
    """

    number: int = 0
    of: int = 1
    sessions: int = 1
    """Of the whole stream."""

    def has(self, first: int, amount: int) -> npt.NDArray[np.bool_]:
        """Tell for each of so many statements, from `first` on, whether it is of this part."""
        mine = np.arange(first, first + amount) % self.sessions % self.of == self.number
        return np.asarray(mine)


WHOLE = StreamPart()


class Requests:
    """An endless sequence of requests of one stream, or of a part of it."""

    def __init__(
        self,
        statements: Sequence[DriverStatement],
        keys: Keys,
        stream: int,
        seed: int,
        packing: Packing,
        *,
        part: StreamPart = WHOLE,
    ) -> None:
        self._random = np.random.Generator(np.random.PCG64([seed, stream, 1]))
        self._part = part
        self._drawn = 0
        weights = np.array([statement.weight for statement in statements])
        self._until = np.cumsum(weights / weights.sum())
        self._until[-1] = 1.0
        self._spans = np.array([statement.span for statement in statements])
        self._burns = np.array([statement.burn for statement in statements])
        self._inserts = np.array([statement.kind == "insert" for statement in statements])
        shapes = list(dict.fromkeys(statement.names for statement in statements))
        self._shapes = np.array([shapes.index(statement.names) for statement in statements])
        self._columns = [[PARAMETERS.index(name) for name in names] for names in shapes]
        self._keys = keys
        self._next_key = 1 + stream * _KEYS_PER_STREAM
        self._packing = packing

    def batch(self) -> list[Request]:
        """Return the next requests, the first one last, so that they can be popped."""
        # Of a stream in many parts a batch of one's own takes as many drawings.
        drawn = [self._draw() for _ in range(self._part.of)]
        which, numbers = (np.concatenate(parts[::-1]) for parts in zip(*drawn, strict=True))
        payloads = [b""] * len(which)
        shapes = self._shapes[which]
        for shape, columns in enumerate(self._columns):
            rows = np.flatnonzero(shapes == shape)
            packed = self._packed(numbers[rows][:, columns])
            for row, payload in zip(rows.tolist(), packed, strict=True):
                payloads[row] = payload
        return list(zip(which.tolist(), payloads, strict=True))

    def _draw(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Draw the stream's next requests; return places and numbers of those of this part."""
        which = np.searchsorted(self._until, self._random.random(_BATCH), side="right")
        which = np.minimum(which, len(self._until) - 1)
        numbers = np.empty((_BATCH, len(PARAMETERS)), np.int64)
        spans = self._spans[which]
        numbers[:, 0] = self._first_keys(spans)
        numbers[:, 1] = numbers[:, 0] + spans - 1
        numbers[:, 2] = np.floor(self._burns[which] + self._random.random(_BATCH))
        inserts = self._inserts[which]
        if inserts.any():
            self._number_inserts(numbers, inserts, spans)
        if self._part.of == 1:
            return which, numbers
        mine = self._part.has(self._drawn, _BATCH)[::-1]
        self._drawn += _BATCH
        return which[mine], numbers[mine]

    def _packed(self, numbers: npt.NDArray[np.int64]) -> list[bytes]:
        """Return each row's numbers, packed one behind the other."""
        rows, columns = numbers.shape
        prefix = np.frombuffer(self._packing.prefix, np.uint8)
        cells = np.empty((rows, columns, len(prefix) + 8), np.uint8)
        cells[:, :, : len(prefix)] = prefix
        ordered = np.ascontiguousarray(numbers, f"{self._packing.order}i8")
        cells[:, :, len(prefix) :] = ordered.view(np.uint8).reshape(rows, columns, 8)
        packed, width = cells.tobytes(), columns * cells.shape[2]
        return [packed[row * width : (row + 1) * width] for row in range(rows)]

    def _first_keys(self, spans: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the first key of each request, so that its last is there as well."""
        rows, hot = self._keys.rows, self._keys.hot
        choices = np.maximum(1, rows - spans + 1)
        drawn = self._random.random(_BATCH)
        if hot is None:
            return 1 + (drawn * choices).astype(np.int64)
        hot_rows = max(1, int(rows * hot.rows))
        to_hot = self._random.random(_BATCH) < hot.accesses
        hot_choices = np.minimum(choices, hot_rows)
        cold_choices = np.maximum(1, choices - hot_rows)
        cold = np.minimum(hot_rows + (drawn * cold_choices).astype(np.int64), choices - 1)
        return np.asarray(1 + np.where(to_hot, (drawn * hot_choices).astype(np.int64), cold))

    def _number_inserts(
        self,
        numbers: npt.NDArray[np.int64],
        inserts: npt.NDArray[np.bool_],
        spans: npt.NDArray[np.int64],
    ) -> None:
        """Give inserts keys that rise, each process its own; their span is their bytes."""
        amount = int(inserts.sum())
        numbers[inserts, 0] = np.arange(self._next_key, self._next_key + amount)
        numbers[inserts, 1] = spans[inserts]
        self._next_key += amount
