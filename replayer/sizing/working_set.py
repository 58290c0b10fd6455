"""Estimate of the data in use, from how often the blocks of each relation were accessed."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from replayer.results.profile import TableUse, WorkingSet

_WHOLE = 0.9
"""Share of a relation's rows: a scan that reads so many counts as one of the whole relation."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A heap, an index or a TOAST relation of `table`, and its counters: totals or increases."""

    table: str
    heap: bool
    bytes: float
    tuples: float
    blocks_hit: float
    blocks_read: float
    tuples_scanned: float
    """Rows that sequential scans read."""
    tuples_read: float
    tuples_written: float

    def since(self, before: "Relation") -> "Relation | None":
        """Return the counters' increases since `before`; None if a reset lies in between."""
        done = {name: getattr(self, name) - getattr(before, name) for name in _DONE}
        return None if min(done.values()) < 0 else replace(self, **done)

    def with_more(self, more: "Relation") -> "Relation":
        """Return `more`, this relation at a later time, with the counters of both added up."""
        return replace(more, **{name: getattr(self, name) + getattr(more, name) for name in _DONE})


_DONE = ("blocks_hit", "blocks_read", "tuples_scanned", "tuples_read", "tuples_written")


@dataclass(slots=True)
class Relations:
    """The increases of each relation's counters while it was watched, summed over the readings."""

    _last: dict[str, Relation] = field(default_factory=dict)
    _done: dict[str, Relation] = field(default_factory=dict)
    _readings: int = 0

    def read(self, totals: Mapping[str, Relation]) -> None:
        """Add the increases of each relation's counters since the previous reading.

        `totals` is the id of a relation -> the relation with its counters now.  The counters of a
        relation that did not exist at the previous reading began at 0.
        """
        for number, relation in totals.items():
            before = self._last.get(number)
            if before is None and not self._readings:
                continue
            since = relation if before is None else relation.since(before)
            if since is not None:
                known = self._done.get(number)
                self._done[number] = since if known is None else known.with_more(since)
        self._last = {**self._last, **totals}
        self._readings += 1

    def done(self) -> list[Relation]:
        """Return the relations of which blocks were accessed, with their counters' increases."""
        return [one for one in self._done.values() if one.blocks_hit + one.blocks_read > 0]


def tables(relations: Iterable[Relation]) -> tuple[TableUse, ...]:
    """Return the use of each table, a sum over its relations; most block accesses come first."""
    uses: dict[str, TableUse] = {}
    for one in relations:
        use = uses.get(one.table, TableUse(name=one.table, bytes=0))
        uses[one.table] = TableUse(
            name=one.table,
            bytes=use.bytes + int(one.bytes),
            blocks_hit=use.blocks_hit + one.blocks_hit,
            blocks_read=use.blocks_read + one.blocks_read,
            tuples_read=use.tuples_read + (one.tuples_read if one.heap else 0),
            tuples_written=use.tuples_written + (one.tuples_written if one.heap else 0),
        )
    return tuple(sorted(uses.values(), key=lambda use: -use.blocks_hit - use.blocks_read))


def estimated(
    relations: Iterable[Relation], block_bytes: int, cache_bytes: float, seconds: float
) -> WorkingSet:
    """Return an estimate of the data in use: the bytes of distinct blocks that were accessed.

    `cache_bytes` is the size of the server's buffers; the blocks were accessed within `seconds`.
    A accesses that fall on N blocks at random touch N (1 - exp(-A / N)) of them (the occupancy
    problem).  A scan of a whole relation touches all.  A touched block was either in the server's
    buffers at the begin or was read later, so that the sum of both is an upper bound.
    """
    known = list(relations)
    touched = sum(_touched(one, block_bytes) for one in known)
    bound = cache_bytes + block_bytes * sum(one.blocks_read for one in known)
    bounded = bound < touched
    return WorkingSet(
        bytes=int(min(touched, bound)),
        method=(
            f"blocks of {len(known):,} tables and indexes that were touched in {seconds:,.0f} s, "
            "if accesses fall on the blocks of each at random: N(1 - exp(-A/N)) of N blocks by A "
            "accesses, all by a whole scan"
            + (
                "; bounded by the server's own buffers and all that was read into them"
                if bounded
                else ""
            )
            + "; accesses that prefer some blocks touch fewer"
        ),
    )


def _touched(relation: Relation, block_bytes: int) -> float:
    """Return the estimated bytes of a relation's distinct blocks that were accessed.

    `block_bytes` is the size of a block.
    """
    blocks = relation.bytes / block_bytes
    accesses = relation.blocks_hit + relation.blocks_read
    if relation.heap and relation.tuples_scanned >= _WHOLE * max(1.0, relation.tuples):
        return relation.bytes
    # A relation whose size is not known yet has at least the blocks that were read of it.
    blocks = max(blocks, min(accesses, relation.blocks_read))
    return block_bytes * blocks * -math.expm1(-accesses / blocks) if blocks else 0.0
