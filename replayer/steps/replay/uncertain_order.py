"""The rows and tables of a replay whose changes have no certain order: they may end otherwise.

The entry of a statement that is its own transaction comes after its locks are free.  So another
one that waited for them may be logged first.  And a statement that waits for the end of a
transaction may find other rows than one that begins after it.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from replayer.steps.replay.row_keys import RowKey, RowKeys, is_new_row, plain_name

_MOST_NAMED = 10_000
_MOST_OPEN = 50_000
_LOGGED_LATE_NS = 20_000_000
"""Time by which an entry of a busy server may come after the locks of its statement were free."""
_DELETE = re.compile(r"\s*delete\b", re.IGNORECASE)
_ANY = "any of its rows"

Row = tuple[str, RowKey | str | None]
"""A table, and a row of it, _ANY for any row, or None for rows that the text does not show."""


class UncertainOrder:
    """Counts the changes whose order the log does not show, by row or by table."""

    def __init__(self, rows: RowKeys | None = None) -> None:
        self._rows = rows or RowKeys({})
        self._open: dict[Row, tuple[int, bool]] = {}
        """Table and row -> end of the change that ended last, and if it was a transaction."""
        self.pairs: Counter[tuple[str, str]] = Counter()
        """Table and row, in words -> number of such pairs; the row is "" if it is not known."""
        self._replaced: dict[int, set[tuple[str, RowKey | None]]] = {}
        """Session -> tables and rows that its open transaction deleted, or gave other keys."""
        self._last_ns, self._met = 0, False
        """End of the change that ended last, and whether two changes were under way together."""
        self._changed: set[str] = set()
        self._further: set[str] = set()
        """Tables that a statement changes in addition to the one in whose order it is."""

    def add_change(
        self,
        writes: Sequence[str],
        text: str,
        key: RowKey | None,
        times_ns: tuple[int, int],
        *,
        alone: bool,
        session: int = 0,
    ) -> None:
        """Add the next change of tables by a session, from its start to its end in the log."""
        self._met = self._met or times_ns[0] < self._last_ns
        self._last_ns = max(self._last_ns, times_ns[1])
        self._changed.update(map(plain_name, writes))
        self._further.update(map(plain_name, writes[1:]))
        table = plain_name(writes[0])
        numbered = table in self._rows.numbered
        # A new row meets another one only as an error, which is a divergence.
        new = is_new_row(text)
        if not alone and not new and (key is None or _DELETE.match(text)):
            self._replaced.setdefault(session, set()).add((writes[0], key))
        if numbered or table in self._rows.triggered or not new:
            self.add(writes[0], key, *times_ns, alone=alone, numbered=numbered)

    def add(
        self,
        table: str,
        key: RowKey | None,
        start_ns: int,
        end_ns: int,
        *,
        alone: bool,
        numbered: bool = False,
    ) -> None:
        """Add the next change, in the order of their starts; `alone` is its own transaction.

        `key` is None if the row is not known.  A change of a `numbered` table takes its key while
        it runs, and not in the order of the ends.
        """
        known: Row = (table, _ANY if key is None else key)
        whole: Row = (table, None)
        for row in dict.fromkeys((known, whole)):
            before_ns, before_alone = self._open.get(row, (-1, False))
            last_alone = alone if end_ns >= before_ns else before_alone
            near = last_alone and abs(end_ns - before_ns) < _LOGGED_LATE_NS
            late = near or (numbered and key is None)
            if start_ns < before_ns and late and len(self.pairs) < _MOST_NAMED:
                named = key.words if key is not None and row is known else ""
                self.pairs[table, named] += 1
                break
        for row in (known, (table, _ANY) if key is not None else whole):
            before_ns, before_alone = self._open.get(row, (-1, False))
            self._open[row] = max((end_ns, alone), (before_ns, before_alone))
        if len(self._open) > _MOST_OPEN:
            self._open = {r: e for r, e in self._open.items() if e[0] > start_ns}

    def end_transaction(self, session: int, start_ns: int) -> None:
        """Add the end of a transaction, which begins at a time.

        A change that waits for it then finds other rows if they were deleted, or have other keys.
        In a replay it may begin later, and find those that took their place.
        """
        for table, key in self._replaced.pop(session, ()):
            rows: tuple[Row, ...] = ((table, key), (table, None)) if key else ((table, _ANY),)
            if any(self._open.get(row, (-1, False))[0] > start_ns for row in rows):
                self.pairs[table, key.words if key else ""] += 1

    def sentences(self, most: int = 5) -> Iterator[str]:
        """Yield sentences on rows, tables, and what these affect, that may differ at the end."""
        rows = Counter({one: many for one, many in self.pairs.items() if one[1]})
        if rows:
            named = [f"{t} where {row} ({many:,})" for (t, row), many in rows.most_common(most)]
            yield (
                f"the log does not show the order of {rows.total():,} pairs of changes that met in "
                f"one row: {len(rows):,} rows may end with other values than at the source: "
                f"{', '.join(named)}{' ...' if len(rows) > most else ''}"
            )
        tables = Counter({table: many for (table, row), many in self.pairs.items() if not row})
        if tables:
            named = [f"{table} ({many:,})" for table, many in tables.most_common()]
            yield (
                f"the log does not show the order of {tables.total():,} pairs of changes that met "
                f"in a table and whose rows their texts do not show: rows of these tables may end "
                f"with other values, or other keys of a sequence: {', '.join(named)}"
            )
        affected = list(self._affected())
        if affected and self._met:
            yield (
                f"changes by triggers, by foreign keys and of a statement's second table are not "
                f"ordered: rows of these may end with other values: {', '.join(affected)}"
            )

    def _affected(self) -> Iterator[str]:
        for table in sorted(self._changed & self._rows.triggered):
            yield f"what triggers of {table} change"
        for table, child in sorted(set(self._rows.cascades)):
            if table in self._changed:
                yield f"{child} (by {table})"
        yield from sorted(self._further)
