"""Rows and tables that may end with other values, as their changes have no certain order.

A statement that is its own transaction frees its locks before it is logged.  So a second statement
that waited for these locks may be logged first.  And a statement that waits for the end of a
transaction may find other rows than a statement that begins after that end.  A statement whose text
does not show its tables, such as CALL, has no order among the statements that change these tables.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from replayer.steps.replay.row_keys import RowKey, RowKeys, is_new_row, plain_name

_MOST_NAMED = 10_000
_MOST_OPEN = 50_000
_LOGGED_LATE_NS = 20_000_000
"""Longest time, in ns, from the release of a statement's locks to its entry in the log."""
_DELETE = re.compile(r"\s*delete\b", re.IGNORECASE)
_READS = re.compile(r"\b(?:select|join|using)\b|\bset\b.*\bfrom\b", re.IGNORECASE | re.DOTALL)
_READ = re.compile(r"(?:\b(?:from|join|using)\s|,)\s*\(?(?:[\w`\"]+\.)?[`\"]?(\w+)")
"""A name that may be of a table whose rows a statement reads."""
_ANY = "any of its rows"

MET = "changes met"
HIDDEN = "text shows no table"
OUT_OF_TURN = "out of turn"
"""Reasons why a table may end with other values; UncertainOrder._affected has further reasons."""

Row = tuple[str, RowKey | str | None]
"""A table, and a row of it, _ANY for any row, or None for rows that the text does not show."""


class UncertainRow(NamedTuple):
    """A row, table or statement whose changes may lead to other values than at the source."""

    table: str
    """A table; the text of the statement if the text shows no table.

    For the reason "trigger", it is the table that has the trigger.
    """
    row: str
    """The row as an SQL condition; "" if it is not known."""
    pairs: int
    """Number of pairs of changes that met, or of statements; 0 if they are not counted."""
    reason: str


class UncertainOrder:
    """Counts the changes of rows whose order the captured log does not show, by row or by table."""

    def __init__(self, rows: RowKeys | None = None, coarse_ns: int = 0) -> None:
        """Begin with no change; the log's times may be wrong by `coarse_ns` nanoseconds.

        `rows` has facts on the tables of the database; None if they are not known.
        """
        self._rows = rows or RowKeys({})
        self._coarse_ns = coarse_ns
        self._open: dict[Row, tuple[int, bool, int]] = {}
        """Table and row -> facts about the change that ended last.

        They are its end in ns, whether it was its own transaction, and its session.
        """
        self.pairs: Counter[tuple[str, str]] = Counter()
        """Table and row, in words -> number of pairs of changes without a certain order.

        The row is "" if it is not known.
        """
        self._replaced: dict[int, set[tuple[str, RowKey | None]]] = {}
        """Session -> tables and rows that its open transaction deleted, or gave other keys."""
        self._added: dict[int, dict[str, int]] = {}
        """Session -> table -> start of the first statement of its transaction that added rows."""
        self._last: tuple[int, int] = (0, -1)
        """End and session of the change that ended last."""
        self._met = False
        """True if two sessions had changes, or transactions with changes, at the same time."""
        self._changing: set[int] = set()
        """Sessions whose open transaction has changed something."""
        self._reads: dict[str, set[str]] = {}
        """Table -> names in statements that change it; some are tables that these read."""
        self._hidden: Counter[str] = Counter()
        """Statement that does not show its tables -> number of its executions."""
        self._changed: set[str] = set()
        self._further: set[str] = set()
        """Tables that statements change in addition to the table in whose order they run."""

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
        """Add the next change of the tables `writes`, by a session.

        `text` is the statement, `key` is the row, None if it is not known.  `times_ns` are the
        start and end of the change in the log.  `alone` is True if it is its own transaction.
        """
        self._meet(times_ns, alone=alone, session=session)
        self._changed.update(map(plain_name, writes))
        self._further.update(map(plain_name, writes[1:]))
        table = plain_name(writes[0])
        numbered = table in self._rows.numbered
        # A new row meets another one only as an error, which is a divergence.
        new = is_new_row(text)
        if not alone and not new and (key is None or _DELETE.match(text)):
            self._replaced.setdefault(session, set()).add((writes[0], key))
        if not alone and new:
            self._added.setdefault(session, {}).setdefault(writes[0], times_ns[0])
        if numbered or table in self._rows.triggered or not new:
            self.add(writes[0], key, *times_ns, alone=alone, numbered=numbered, session=session)

    def add_form(self, writes: Sequence[str], text: str) -> None:
        """Note the tables that a form of statements reads while it changes the tables `writes`.

        `text` is the normalised text of the statements.  If they read a table that other statements
        change, the values that they write depend on the order.
        """
        if _READS.search(text):
            names = _READ.findall(text.lower())
            self._reads.setdefault(plain_name(writes[0]), set()).update(names)

    def add_hidden(
        self, text: str, times_ns: tuple[int, int], *, alone: bool, session: int = 0
    ) -> None:
        """Add the next statement that may change tables without naming them, such as CALL.

        `times_ns` are its start and end in the log; `alone` is True if it is its own transaction.
        """
        self._meet(times_ns, alone=alone, session=session)
        if text in self._hidden or len(self._hidden) < _MOST_NAMED:
            self._hidden[text] += 1

    def _meet(self, times_ns: tuple[int, int], *, alone: bool, session: int) -> None:
        """Note whether a change may overlap a change of another session: then order matters.

        `times_ns` are its start and end in the log.  `alone` is True if it is its own transaction.
        """
        last_ns, last = self._last
        near_ns = times_ns[0] - (self._coarse_ns if session != last else 0)
        self._met = self._met or near_ns < last_ns or bool(self._changing - {session})
        self._last = max(self._last, (times_ns[1], session))
        if not alone:
            self._changing.add(session)

    def add(
        self,
        table: str,
        key: RowKey | None,
        start_ns: int,
        end_ns: int,
        *,
        alone: bool,
        numbered: bool = False,
        session: int = 0,
    ) -> None:
        """Add a change of a table; changes must come in the order of their starts.

        `key` is the row, None if it is not known.  `alone` is True for a change that is its own
        transaction.  `numbered` is True if the table's keys come from a sequence: a change takes
        its key while it runs, and not in the order of the ends.
        """
        known: Row = (table, _ANY if key is None else key)
        whole: Row = (table, None)
        for row in dict.fromkeys((known, whole)):
            before_ns, before_alone, before = self._open.get(row, (-1, False, session))
            coarse_ns = self._coarse_ns if session != before else 0
            last_alone = alone if end_ns >= before_ns else before_alone
            near = last_alone and abs(end_ns - before_ns) < _LOGGED_LATE_NS + coarse_ns
            late = near or (numbered and key is None)
            if start_ns - coarse_ns < before_ns and late and len(self.pairs) < _MOST_NAMED:
                named = key.words if key is not None and row is known else ""
                self.pairs[table, named] += 1
                break
        for row in (known, (table, _ANY) if key is not None else whole):
            change = (end_ns, alone, session)
            self._open[row] = max(change, self._open.get(row, change))
        if len(self._open) > _MOST_OPEN:
            self._open = {r: e for r, e in self._open.items() if e[0] > start_ns}

    def end_transaction(self, session: int, start_ns: int) -> None:
        """Add the end of a session's transaction, by a statement that starts at `start_ns`.

        If the transaction deleted rows or gave them other keys, a change that waits for its end no
        longer finds them.  In a replay such a change may begin later, and find rows that took their
        place.  And a change of rows that its text does not show may find rows that the transaction
        added.
        """
        self._changing.discard(session)
        for table, since_ns in self._added.pop(session, {}).items():
            end_ns, _, other = self._open.get((table, None), (-1, False, session))
            if other != session and end_ns > since_ns:
                self.pairs[table, ""] += 1
        for table, key in self._replaced.pop(session, ()):
            rows: tuple[Row, ...] = ((table, key), (table, None)) if key else ((table, _ANY),)
            if any(row in self._open and self._open[row][0] > start_ns for row in rows):
                self.pairs[table, key.words if key else ""] += 1

    def sentences(self, most: int = 5) -> Iterator[str]:
        """Yield sentences on the rows and tables that may end with other values than at the source.

        A sentence names at most `most` rows or statements, and all tables.
        """
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
        affected = [words for *_, words in self._affected()]
        if affected and self._met:
            yield (
                f"changes by triggers, by foreign keys, of partitions through their table, of a "
                f"statement's second table and by what a statement reads are not ordered: rows of "
                f"these may end with other values: {', '.join(affected)}"
            )
        if self._hidden and self._met:
            named = [f"{text} ({many:,})" for text, many in self._hidden.most_common(most)]
            yield (
                f"{self._hidden.total():,} statements do not show which tables they change, and "
                f"are ordered among themselves only: rows that they change may end with other "
                f"values: {', '.join(named)}{' ...' if len(self._hidden) > most else ''}"
            )

    def named(self, most: int) -> Iterator[UncertainRow]:
        """Yield the rows, tables and statements that may end with other values than at the source.

        The rows and tables with the most uncertain pairs of changes come first, at most `most` of
        them.  Then, if changes of two sessions may have overlapped, come the tables that change by
        effects of other changes, and at most `most` statements that name no table.
        """
        for (table, row), pairs in self.pairs.most_common(most):
            yield UncertainRow(table, row, pairs, MET)
        if not self._met:
            return
        for table, reason, _ in self._affected():
            yield UncertainRow(table, "", 0, reason)
        for text, many in self._hidden.most_common(most):
            yield UncertainRow(text, "", many, HIDDEN)

    def _affected(self) -> Iterator[tuple[str, str, str]]:
        """Yield each table whose values depend on changes in no certain order, with the reason.

        Each item has the name of the table, the reason (such as "trigger" or "foreign key"), and
        words that name the table in a sentence.
        """
        for table in sorted(self._changed & self._rows.triggered):
            yield table, "trigger", f"what triggers of {table} change"
        for table, child in sorted(set(self._rows.cascades)):
            if table in self._changed:
                yield child, "foreign key", f"{child} (by {table})"
        for table, part in sorted(set(self._rows.parts)):
            if {table, part} <= self._changed:
                yield part, "partition", f"{part} (a part of {table})"
        for table in sorted(self._further):
            yield table, "second table", table
        for table, names in sorted(self._reads.items()):
            read = sorted(names & self._changed - {table})
            if read:
                yield table, "reads", f"{table} (reads {', '.join(read)})"
