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
_KEYS_PER_PROCESS = 1 << 40


@dataclass(frozen=True, slots=True)
class Statement:
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


class Requests:
    """An endless sequence of requests of one process."""

    def __init__(
        self, statements: Sequence[Statement], keys: Keys, process: int, seed: int, packing: Packing
    ) -> None:
        self._random = np.random.Generator(np.random.PCG64([seed, process, 1]))
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
        self._next_key = 1 + process * _KEYS_PER_PROCESS
        self._packing = packing

    def batch(self) -> list[Request]:
        """Return the next requests."""
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
        payloads = [b""] * _BATCH
        shapes = self._shapes[which]
        for shape, columns in enumerate(self._columns):
            rows = np.flatnonzero(shapes == shape)
            packed = self._packed(numbers[rows][:, columns])
            for row, payload in zip(rows.tolist(), packed, strict=True):
                payloads[row] = payload
        return list(zip(which.tolist(), payloads, strict=True))

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
