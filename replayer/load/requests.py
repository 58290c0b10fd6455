"""The statements of a mix, one after the other, with their parameters: all drawn from the seed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from replayer.load.mix import KINDS, Hot

PARAMETERS = ("first", "last", "burn")
"""First and last key of what is read or changed, and units of CPU to burn on each of its rows.

Of an insert: its key, and how many bytes the row has."""
_BATCH = 128
"""Few, as nothing is sent while they are drawn."""
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


Request = tuple[int, list[bytes]]
"""The place of a statement, and its parameters as 8 bytes each."""


class Requests:
    """An endless sequence of requests of one process."""

    def __init__(
        self, statements: Sequence[Statement], keys: Keys, process: int, seed: int, order: str
    ) -> None:
        """Draw them; `order` is how the wire has the bytes of a number, > or <."""
        self._random = np.random.Generator(np.random.PCG64([seed, process, 1]))
        weights = np.array([statement.weight for statement in statements])
        self._until = np.cumsum(weights / weights.sum())
        self._until[-1] = 1.0
        self._spans = np.array([statement.span for statement in statements])
        self._burns = np.array([statement.burn for statement in statements])
        inserts = [statement.kind == "insert" for statement in statements]
        self._inserts = np.array(inserts)
        places = [[PARAMETERS.index(name) * 8 for name in one.names] for one in statements]
        self._slices = [[slice(place, place + 8) for place in own] for own in places]
        self._keys = keys
        self._next_key = 1 + process * _KEYS_PER_PROCESS
        self._order = np.dtype(f"{order}i8")

    def batch(self) -> Iterator[Request]:
        """Yield the next requests; an iterator is to be used up before the next is asked for."""
        which = np.searchsorted(self._until, self._random.random(_BATCH), side="right")
        which = np.minimum(which, len(self._until) - 1)
        numbers = np.empty((_BATCH, len(PARAMETERS)), self._order)
        spans = self._spans[which]
        numbers[:, 0] = self._first_keys(spans)
        numbers[:, 1] = numbers[:, 0] + spans - 1
        numbers[:, 2] = np.floor(self._burns[which] + self._random.random(_BATCH))
        inserts = self._inserts[which]
        if inserts.any():
            self._number_inserts(numbers, inserts, spans)
        packed = numbers.tobytes()
        rows = [packed[at : at + 24] for at in range(0, len(packed), 24)]
        slices = self._slices
        places: list[int] = which.tolist()
        for place, row in zip(places, rows, strict=True):
            yield place, [row[part] for part in slices[place]]

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


def kind_places(statements: Sequence[Statement]) -> list[int]:
    """Return the place in KINDS of each statement's kind."""
    return [KINDS.index(statement.kind) for statement in statements]
