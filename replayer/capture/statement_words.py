"""The kind of an SQL statement and the tables that it changes, by its words: it is not parsed.

The text of a statement is its form, which has no values and no comments.  This is for statements
that the parser sqlglot does not know, and for those that are too long or too many for it.
"""

import functools
import re
from collections.abc import Iterator
from typing import Final

import sqlglot

from replayer.capture.action import Kind
from replayer.capture.functions import changes_nothing

UNTIED: Final[frozenset[Kind]] = frozenset(("begin", "commit", "rollback", "set"))
"""Kinds of statements that change no table."""

_KINDS: Final[dict[str, Kind]] = {
    **dict.fromkeys(("select", "values", "table", "declare"), "select"),
    **dict.fromkeys(("insert", "replace"), "insert"),
    "update": "update",
    "delete": "delete",
    "merge": "merge",
    **dict.fromkeys(("begin", "start"), "begin"),
    **dict.fromkeys(("commit", "end"), "commit"),
    **dict.fromkeys(("rollback", "abort"), "rollback"),
    **dict.fromkeys(
        ("create", "alter", "drop", "truncate", "comment", "grant", "revoke", "rename"), "ddl"
    ),
    **dict.fromkeys(("reindex", "refresh", "cluster", "import"), "ddl"),
    **dict.fromkeys(("copy", "load"), "copy"),
    **dict.fromkeys(("call", "do", "execute"), "call"),
    **dict.fromkeys(("set", "reset", "use", "discard"), "set"),
}
_WORD = re.compile(r"[\s(]*(\w+)")
_MAIN = re.compile(r"\(|\)(?: ?(select|insert|update|delete|merge)\b)?", re.IGNORECASE)
"""A bracket, with the word after it that may begin the main part of a statement with WITH."""
_TARGET = re.compile(
    r"\b(?:insert(?: ignore)? into|replace(?: into)?"
    r"|(?<!\bdo )(?<!\bkey )(?<!\bthen )update(?: only)?|delete from(?: only)?"
    r"|merge into|truncate(?: table)?(?: only)?|copy(?: binary(?! from\b))?"
    r"|alter table(?: if exists)?(?: only)?|into table) ([\w.\"`$]+)",
    re.IGNORECASE,
)
_NAME = r"(?:[\w$]++|\"[^\"]++\"|`[^`]++`)"
_CHANGED = re.compile(
    r"[()] ?(?:insert into|update(?: only)?|delete from(?: only)?|merge into(?: only)?) "
    rf"({_NAME}(?:\.{_NAME})?)",
    re.IGNORECASE,
)
"""A part of a statement with WITH that changes a table; a bracket is before it."""
_LOCKED = re.compile(r"\bfor (?:no key )?(?:update|share|key share)\b|^lock ", re.IGNORECASE)
_INTO = re.compile(r"\binto (?!outfile\b|dumpfile\b|[@:])", re.IGNORECASE)
"""SELECT INTO of a table, as PostgreSQL has it."""
_COPY_OUT = re.compile(r"\bto (?:stdout|program|'\?')", re.IGNORECASE)
_COPIED_QUERY = re.compile(r"\s*copy ?\((.*)\) ?to\b", re.IGNORECASE)
"""COPY of a query's rows, which may be those that an INSERT, UPDATE or DELETE returns."""
_EXPLAINED = re.compile(
    r"\s*explain (?:\((?=[^()]*?\banaly[sz]e\b)[^()]*+\)|analy[sz]e(?: verbose)?) ?", re.IGNORECASE
)
"""The beginning of an EXPLAIN that runs its statement."""
_CALLED = re.compile(
    r"(?<![\w$.\"`@:])(?<!\bas )(?<!\binto )(?<!:: )(?<!\))(?<!\) )(?<!\bordinality )"
    rf"(?:{_NAME}\.)*+({_NAME}) ?"
    r"\((?![^()]*\) as (?:not )?(?:materialized )?"
    r"\( ?(?:select|insert|update|delete|merge|with|values|table)\b)",
    re.IGNORECASE,
)
"""A name before a bracket, which is neither a type nor a name with a list of columns."""
_LISTED = """
    against all and any array as between binary bernoulli by conflict cube cursor div distinct
    else end escape except exists filter first for from group having ilike in index intersect
    interval is join key lateral like limit materialized mod next not of offset on only operator
    or over ordinality partition range recursive regexp repeatable returning rlike rollup rows
    select set sets similar some straight_join system then to union using values varying when
    where with within xor
"""
_BEFORE_BRACKETS = frozenset(_LISTED.split())
"""Words of SQL that may stand before a bracket and are no function."""


def kind_by_words(part: str) -> Kind:
    """Return the kind of a statement, by its first word; with WITH, by that of its main part."""
    word = _WORD.match(part)
    first = word[1].lower() if word else ""
    return _KINDS.get(_main_word(part) if first == "with" else first, "other")


def _main_word(part: str) -> str:
    """Return the first word, in lower case, of the main part of a statement with WITH."""
    depth = 0
    for match in _MAIN.finditer(part):
        depth += 1 if match[0] == "(" else -1
        if match[1] and not depth:
            return match[1].lower()
    return "select"


def changed_by_words(part: str, kind: Kind, dialect: str) -> tuple[str, ...] | None:
    """Return the tables that a statement changes, found by patterns without parsing it.

    `part` is the statement's text, `kind` the one that `kind_by_words` finds, and `dialect` is
    "postgres" or "mysql".  The names are without schemas.  Returns () for a statement that changes
    no table, and None if the tables are unknown.
    """
    inner = _COPIED_QUERY.match(part) if kind == "copy" else None
    if inner is not None:
        part, kind = inner[1], kind_by_words(inner[1])
    elif kind == "other" and (explained := _EXPLAINED.match(part)) is not None:
        part = part[explained.end() :]
        kind = kind_by_words(part)
    if kind in UNTIED or (kind == "copy" and _COPY_OUT.search(part)):
        return ()
    if kind == "other":
        return None if _LOCKED.search(part) else ()
    if kind == "select":
        return _changed_by_select(part, dialect)
    return _plain(_TARGET.findall(part)) or None


def _changed_by_select(part: str, dialect: str) -> tuple[str, ...] | None:
    """Return the tables that a SELECT changes, as of `changed_by_words`.

    It may change some within WITH, lock rows, make a table, or call a function.
    """
    if _LOCKED.search(part):
        return None
    changed = _plain(_CHANGED.findall(part))
    if changed:
        return changed
    known = _functions(dialect)
    unknown = any(name not in known and not changes_nothing(name) for name in _called(part))
    return None if unknown or _INTO.search(part) else ()


def _called(part: str) -> Iterator[str]:
    """Yield the functions that a statement calls, in lower case, without schemas."""
    for name in _CALLED.findall(part):
        plain = name.strip('"`').lower()
        if plain not in _BEFORE_BRACKETS:
            yield plain


@functools.cache
def _functions(dialect: str) -> frozenset[str]:
    """Return the functions that sqlglot knows, in lower case; none of them changes a table."""
    parser = sqlglot.Dialect.get_or_raise(dialect).parser_class
    return frozenset(name.lower() for name in (*parser.FUNCTIONS, *parser.FUNCTION_PARSERS))


def _plain(names: list[str]) -> tuple[str, ...]:
    """Return tables' names in lower case, each once, without their schemas and without quotes."""
    bare = (name.replace("`", '"').rsplit(".", 1)[-1].strip('"').lower() for name in names)
    return tuple(dict.fromkeys(bare))
