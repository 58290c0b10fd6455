"""Requests of a mix: a sequence of statements and parameters, all drawn from the seed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from replayer.engines.wire_session import DriverStatement, Packing
from replayer.load.mix_parts import Hot

PARAMETERS = ("first", "last", "burn")
"""First and last key of the rows read or changed, and units of CPU to burn on each of them.

For an insert: its key, and the number of bytes of the row."""
_BATCH = 256
"""Requests of a batch: few, because nothing is sent while they are drawn (0.2 milliseconds)."""
_KEYS_PER_STREAM = 1 << 40


@dataclass(frozen=True, slots=True)
class Keys:
    """The number of rows of each table, and the share of them that is used more often.

    `hot` is None if all rows are used alike.
    """

    rows: int
    hot: Hot | None


Request = tuple[int, bytes]
"""The index of a statement, and its parameters in the wire's format."""


@dataclass(frozen=True, slots=True)
class StreamPart:
    """The part of a stream of statements that one process sends, if several processes share it.

    It is part `number` (from 0) of `of` parts.  The statements of a stream go to its sessions in
    turn, and the sessions to the parts in turn.  So all parts together send exactly what one
    process would, for any number of parts and wherever they run.
    """

    number: int = 0
    of: int = 1
    sessions: int = 1
    """Sessions of the whole stream."""

    def has(self, first: int, amount: int) -> npt.NDArray[np.bool_]:
        """Return an array that is True for each statement that belongs to this part.

        It is about the `amount` statements of the stream that begin with number `first`.
        """
        mine = np.arange(first, first + amount) % self.sessions % self.of == self.number
        return np.asarray(mine)


WHOLE = StreamPart()


class Requests:
    """An endless random sequence of statements with parameters: one stream, or a part of it."""

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
        """Return the next requests in reverse order, so that the caller can pop them.

        A request is the index of a statement, and its packed parameters.
        """
        # With n parts, draw n batches: a batch of this part then has as many requests.
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
        """Draw the next requests of the whole stream, and return those of this part as two arrays.

        The first has the index of each statement, the second has a row with its parameters.
        """
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
        """Return each row of `numbers` as the bytes that the client protocol sends for it."""
        rows, columns = numbers.shape
        prefix = np.frombuffer(self._packing.prefix, np.uint8)
        cells = np.empty((rows, columns, len(prefix) + 8), np.uint8)
        cells[:, :, : len(prefix)] = prefix
        ordered = np.ascontiguousarray(numbers, f"{self._packing.order}i8")
        cells[:, :, len(prefix) :] = ordered.view(np.uint8).reshape(rows, columns, 8)
        packed, width = cells.tobytes(), columns * cells.shape[2]
        return [packed[row * width : (row + 1) * width] for row in range(rows)]

    def _first_keys(self, spans: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the first key of each request, low enough that its last key exists as well.

        `spans` is the number of keys of each request, which follow one another.
        """
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
        """Set the parameters of the requests that insert a row: its key, and its number of bytes.

        The keys rise, and no two streams have the same.  `inserts` marks the requests, and `spans`
        has the bytes.
        """
        amount = int(inserts.sum())
        numbers[inserts, 0] = np.arange(self._next_key, self._next_key + amount)
        numbers[inserts, 1] = spans[inserts]
        self._next_key += amount
