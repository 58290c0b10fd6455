"""Find the row that a change is for in its text: changes of different rows need no order.

Only what is certain counts.  A change has a row if its WHERE has nothing but columns of unique
indexes that are equal to numbers or UUIDs, if it sets no such column, and if its table has neither
a trigger nor a rule.  Any other change is one of the whole table.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

_HEAD = re.compile(r"\s*(?:update\s+(?:only\s+)?\S+\s+set\s+|delete\s+from\s+(?:only\s+)?\S+\s*$)")
_UNSURE = re.compile(
    r"[\\#;]|--|/\*|\$\w*\$|\b(?:select|join|with|where|default|using|limit|order|next|nextval)\b"
    r"|\bset\b.*\bfrom\b"
    r"|(?<!\bnow)(?<!\bcoalesce)(?<!\bgreatest)(?<!\bleast)(?<!\blower)(?<!\bupper)(?<!\bconcat)"
    r"(?<=[\w\"`])\s*\(",
    re.DOTALL,
)
"""Parts that a text must not have before its WHERE.

Comments, other tables, and calls of functions: they may have effects, as nextval() has.  MariaDB
takes a sequence's next value without parentheses.
"""
_AND = re.compile(r"\s+and\s+")
_EQUAL = re.compile(
    r"[\s(]*(?:[\w`\"]+\.)*[`\"]?(\w+)[`\"]?\s*=\s*"
    r"(\$[1-9]\d*|-?\d{1,15}|'-?\d{1,15}'|'[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}')[\s);]*"
)
_VALUE = re.compile(r"-?\d{1,15}|[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}")
_MOST_NAMED = 10_000
_MOST_OPEN = 50_000
_LOGGED_LATE_NS = 20_000_000
"""Time by which an entry of a busy server may come after the locks of its statement were free."""


class RowKey(NamedTuple):
    """The row of a change."""

    columns: tuple[str, ...]
    values: tuple[str, ...]

    @property
    def words(self) -> str:
        """Return it as a condition."""
        return " and ".join(f"{c} = {v}" for c, v in zip(self.columns, self.values, strict=True))


class RowKeys:
    """Finds the rows of changes.

    `guarded` has, by table, the columns of its unique indexes; "" among them stands for a table
    with triggers or rules.  Names are in lower case.
    """

    def __init__(self, guarded: Mapping[str, frozenset[str]]) -> None:
        self._guarded = guarded

    def find(
        self, writes: Sequence[str] | None, text: str, parameters: Sequence[str | None]
    ) -> RowKey | None:
        """Return the row that a change of tables `writes` is for; None if it is not certain."""
        if writes is None or len(writes) != 1:
            return None
        columns = self._guarded.get(writes[0].rpartition(".")[2].strip('`"').lower(), frozenset())
        head, where, tail = text.lower().rpartition("where")
        begin = _HEAD.match(head)
        if not where or not columns or "" in columns or begin is None:
            return None
        if head.count("'") % 2 or _UNSURE.search(head):
            return None
        changed = head[begin.end() :]
        if any(re.search(rf"\b{re.escape(column)}\b", changed) for column in columns):
            return None
        return _key(tail, columns, parameters)


def _key(tail: str, columns: frozenset[str], parameters: Sequence[str | None]) -> RowKey | None:
    values: dict[str, str] = {}
    for part in _AND.split(tail):
        equal = _EQUAL.fullmatch(part)
        value = None if equal is None else _plain(equal[2], parameters)
        if equal is None or value is None or equal[1] not in columns or equal[1] in values:
            return None
        values[equal[1]] = value
    names = tuple(sorted(values))
    return RowKey(names, tuple(values[name] for name in names))


def _plain(value: str, parameters: Sequence[str | None]) -> str | None:
    """Return a value in a form that equal values share; None for one that has no such form."""
    if value[0] == "$":
        place = int(value[1:]) - 1
        value = (parameters[place] or "") if place < len(parameters) else ""
    value = value.strip("' ").lower()
    if not _VALUE.fullmatch(value):
        return None
    return value.replace("-", "") if len(value) > 16 else str(int(value))


def guarded_columns(rows: Iterable[tuple[str, str]]) -> dict[str, frozenset[str]]:
    """Return, by table, the columns that the server names in pairs of table and column."""
    columns: dict[str, set[str]] = {}
    for table, column in rows:
        columns.setdefault(table.lower(), set()).add(column.lower())
    return {table: frozenset(names) for table, names in columns.items()}


class UncertainOrder:
    """Counts the changes of one row whose order the log does not show.

    The entry of a statement that is its own transaction comes after its locks are free.  So another
    one that waited for them may be logged first.
    """

    def __init__(self) -> None:
        self._open: dict[tuple[str, RowKey], tuple[int, bool]] = {}
        """Table and row -> end of the change that ended last, and if it was a transaction."""
        self.pairs: Counter[tuple[str, str]] = Counter()
        """Table and row, in words -> number of such pairs."""

    def add(self, table: str, key: RowKey, start_ns: int, end_ns: int, *, alone: bool) -> None:
        """Add the next change, in the order of their starts; `alone` is its own transaction."""
        row = (table, key)
        before_ns, before_alone = self._open.get(row, (-1, False))
        last_alone = alone if end_ns >= before_ns else before_alone
        near = abs(end_ns - before_ns) < _LOGGED_LATE_NS
        if start_ns < before_ns and last_alone and near and len(self.pairs) < _MOST_NAMED:
            self.pairs[table, key.words] += 1
        self._open[row] = (max(end_ns, before_ns), last_alone)
        if len(self._open) > _MOST_OPEN:
            self._open = {r: e for r, e in self._open.items() if e[0] > start_ns}

    def sentence(self, most: int = 5) -> str:
        """Return the rows with the most such pairs, in a sentence; "" if there are none."""
        if not self.pairs:
            return ""
        named = [f"{t} where {row} ({many:,})" for (t, row), many in self.pairs.most_common(most)]
        return (
            f"the log does not show the order of {self.pairs.total():,} pairs of changes that met "
            f"in one row: {len(self.pairs):,} rows may end with other values than at the source: "
            f"{', '.join(named)}{' ...' if len(self.pairs) > most else ''}"
        )
