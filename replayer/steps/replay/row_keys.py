"""The one row that a change is for, found in its text: changes of different rows need no order.

Only what is certain counts.  A change has a row if its WHERE has nothing but columns of unique
indexes that are equal to numbers or UUIDs, if it sets no such column, and if its table has neither
a trigger nor a rule.  New rows of a table need no order among themselves if the table has no unique
index, sequence, trigger or rule.  Any other change is one of the whole table.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from replayer.capture.copies import adds_rows

_HEAD = re.compile(r"\s*(?:update\s+(?:only\s+)?\S+\s+set\s+|delete\s+from\s+(?:only\s+)?\S+\s*$)")
_UNSURE = re.compile(
    r"[\\#;]|--|/\*|\$\w*\$|\b(?:select|join|with|where|default|using|limit|order|next|nextval)\b"
    r"|\bset\b.*\bfrom\b"
    r"|(?<!\bnow)(?<!\bcoalesce)(?<!\bgreatest)(?<!\bleast)(?<!\blower)(?<!\bupper)(?<!\bconcat)"
    r"(?<=[\w\"`])\s*\(",
    re.DOTALL,
)
"""Parts that a text must not have before its WHERE.

They are comments, other tables, and calls of functions, which may have effects, as nextval() has.
MariaDB takes a sequence's next value without parentheses.
"""
_AND = re.compile(r"\s+and\s+")
_EQUAL = re.compile(
    r"[\s(]*(?:[\w`\"]+\.)*[`\"]?(\w+)[`\"]?\s*=\s*"
    r"(\$[1-9]\d*|-?\d{1,15}|'-?\d{1,15}'|'[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}')[\s);]*"
)
_INSERT = re.compile(r"\s*insert\s+into\s+\S+\s*(?:\([^()']*\)\s*)?values\s*(?=\()")
_CONFLICT = re.compile(r"\bon\s+(?:conflict|duplicate)\b")
_VALUE = re.compile(r"-?\d{1,15}|[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}")
_COMMENT = r"/\*(?!m?!)(?:(?!/\*|\*/).)*+\*/"
"""A comment without a comment in it; not one whose text MySQL and MariaDB execute."""
_DASHES = r"--(?=[ \t\r\n])[^\r\n]*+"
"""A comment up to the end of its line, where PostgreSQL ends one at a carriage return, too."""
_COMMENTS_FIRST = re.compile(
    rf"(?:\s|{_COMMENT}|(?:{_DASHES}|#[^\r\n]*+)\r?\n)*+", re.IGNORECASE | re.DOTALL
)
_COMMENTS_LAST = re.compile(
    rf"(?:[^'\"`$#\\/-]++|/(?!\*)|-(?!-)|'[^'\\]*+'|\"[^\"\\]*+\"|`\w++`|\$\d|{_COMMENT})*+"
    rf"(?P<comments>{_DASHES}(?:[\s;]|{_DASHES}|{_COMMENT})*+)",
    re.IGNORECASE | re.DOTALL,
)
"""Comments from the first -- on, after a text whose strings every server reads in the same way."""


class RowKey(NamedTuple):
    """The row that a statement changes: the columns of a unique key and their values."""

    columns: tuple[str, ...]
    values: tuple[str, ...]

    @property
    def words(self) -> str:
        """Return the key as an SQL condition, such as `id = 7`."""
        return " and ".join(f"{c} = {v}" for c, v in zip(self.columns, self.values, strict=True))


class RowKeys:
    """Finds the rows of changes.

    `guarded` is table -> columns of its unique indexes; the column "" marks a table with triggers
    or rules.  Its names are in lower case.  `effects` has triples of a table, a kind of effect that
    its changes have (such as "trigger" or "foreign key"), and the table that the effect changes.
    """

    def __init__(
        self,
        guarded: Mapping[str, frozenset[str]],
        effects: Iterable[tuple[str, str, str]] = (),
    ) -> None:
        self._guarded = guarded
        named = [(table.lower(), effect, affected) for table, effect, affected in effects]
        self._plain = {table for table, effect, _ in named if effect == "none"}
        self.numbered = frozenset(table for table, effect, _ in named if effect == "sequence")
        """Tables whose keys come from a sequence."""
        self.triggered = frozenset(table for table, effect, _ in named if effect == "trigger")
        self.cascades = tuple(
            (table, child.lower()) for table, effect, child in named if effect == "foreign key"
        )
        """Pairs of a table, and a second table whose rows change with it by a foreign key."""
        self.parts = tuple(
            (table, part.lower()) for table, effect, part in named if effect == "partition"
        )
        """Pairs of a table, and one of its partitions."""

    def find(
        self, writes: Sequence[str] | None, text: str, parameters: Sequence[str | None]
    ) -> RowKey | None:
        """Return the one row that a change of the tables `writes` is for; None if not certain.

        `text` is the statement, `parameters` are its values.
        """
        if writes is None or len(writes) != 1:
            return None
        columns = self._guarded.get(plain_name(writes[0]), frozenset())
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

    def appends(self, writes: Sequence[str] | None, text: str) -> bool:
        """Return whether a change only adds rows to one table that takes them in any order.

        That is so if the table has no unique index, sequence, trigger or rule.
        """
        if writes is None or len(writes) != 1:
            return False
        table = plain_name(writes[0])
        # A table in `guarded` has a unique index, or triggers or rules.
        return table in self._plain and table not in self._guarded and is_new_row(text)


def without_outer_comments(text: str) -> str:
    """Return an SQL text without the comments before and after it, as many tools add them.

    Comments remain if servers may read them in different ways.
    """
    first = _COMMENTS_FIRST.match(text)
    begin, end = first.end() if first is not None else 0, len(text)
    if "--" in text and (last := _COMMENTS_LAST.fullmatch(text, begin)) is not None:
        end = last.start("comments")
    # By places, as a copy for each of a million comments would take minutes.
    while text.endswith("*/", begin, closed := _end_of_words(text, begin, end)):
        opened = text.rfind("/*", begin, closed - 2)
        comment = text[opened + 2 : closed - 2].lower()
        if opened < 0 or "*/" in comment or comment.startswith(("!", "m!")):
            break
        end = opened
    return text[begin:end]


def _end_of_words(text: str, begin: int, end: int) -> int:
    """Return the place after the last character that is neither white space nor a semicolon."""
    while end > begin and text[end - 1] in "; \t\r\n":
        end -= 1
    return end


def plain_name(table: str) -> str:
    """Return the name of a table without its schema, in lower case."""
    return table.rpartition(".")[2].strip('`"').lower()


def is_new_row(text: str) -> bool:
    """Return whether a statement only adds rows: an INSERT of plain values, or COPY FROM STDIN."""
    if adds_rows(text):
        return True
    lower = text.lower()
    begin = _INSERT.match(lower)
    if begin is None:
        return False
    values = lower[begin.end() :]
    return not _UNSURE.search(values) and not _CONFLICT.search(values)


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
    """Return a number or UUID in a form that is the same for equal values; None for other values.

    A value such as $1 stands for the parameter of that number.
    """
    if value[0] == "$":
        place = int(value[1:]) - 1
        value = (parameters[place] or "") if place < len(parameters) else ""
    value = value.strip("' ").lower()
    if not _VALUE.fullmatch(value):
        return None
    return value.replace("-", "") if len(value) > 16 else str(int(value))


def guarded_columns(rows: Iterable[tuple[str, str]]) -> dict[str, frozenset[str]]:
    """Return table -> its columns, in lower case; `rows` are pairs (table, column)."""
    columns: dict[str, set[str]] = {}
    for table, column in rows:
        columns.setdefault(table.lower(), set()).add(column.lower())
    return {table: frozenset(names) for table, names in columns.items()}
