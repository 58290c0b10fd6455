"""Fingerprints of SQL statements: normalised text, kind and changed tables, but no values.

Texts are normalised twice.  A scan by patterns makes the cheap form, in which '?' stands for each
string and 0 for each number.  Then the parser sqlglot makes the final form from the cheap one, so
the final form can contain no value.  Parsing is slow, so its result is cached with the cheap form
as the key: captures of millions of statements have few forms.
"""

import gc
import hashlib
import logging
import re
from collections.abc import Iterator, Sequence
from typing import Final

import sqlglot
from sqlglot import exp

from replayer.capture.action import Bounds, Fingerprint, Kind, LoggedStatement, language_of
from replayer.capture.functions import changes_nothing
from replayer.capture.readings import NUMBER, STRING, hidden, is_doubtful, possible, sure
from replayer.capture.statement_words import UNTIED, changed_by_words, kind_by_words

_SHOWN = 2_000
"""Characters of a normalised text that are kept."""
_PARSED = 20_000
"""The longest cheap form, in characters, that is given to sqlglot."""
_MOST_FORMS = 20_000
"""Forms that are given to sqlglot and remembered; later forms keep their cheap form."""
_MOST_PARSED = 4 << 20
"""Characters of all forms given to sqlglot, which needs some 10 us for each character."""
_COLLECTED = 500
_MOST_TEXTS = 50_000
_MOST_CHARACTERS = 16 << 20
"""Characters of all remembered texts together."""
_LONGEST_TEXT = 100_000
"""Longer texts are not remembered."""
_LONGEST_KEY = 500

_NUMBERS = re.compile(NUMBER)
_PARAMETERS = re.compile(r"\$[0-9]+")
_TAGGED = re.compile(r"\$(?:[^\W\d]\w*)?\$")
_PREFIXED = re.compile(r"[eEbBxXnN&](?<=\W[eEbBxXnN&])'")
_STRINGS = re.compile(STRING)
_INTRODUCED = re.compile(r"\b(?:[bBxXnN]|_[a-z0-9]+ ?)'\?'")
"""A string of MySQL with its prefix: its character set, or the form in which it is written."""
_REPLACED: Final = {
    # Without the space, sqlglot takes it for a comment.
    "minus": "- -",
    "gap": " ",
    "string": "'?'",
    "parameter": "$1",
    "number": "0",
}
_ONE = r"(?:'\?'|[-+]?0|\$1|\?|[nN][uU][lL][lL]|[tT][rR][uU][eE]|[fF][aA][lL][sS][eE])"
_LIST = re.compile(
    r"([(\[](?:(?<=\W[iI][nN] \()|(?<=\W[iI][nN]\()|(?<=[yY]\[)) ?"
    rf"{_ONE})(?: ?, ?{_ONE})+ ?(?=[)\]])"
)
_MADE_UP = re.compile(
    r"(?:savepoint|release|rollback|declare|fetch|move|close|deallocate)\b", re.IGNORECASE
)
_MADE_UP_NAME = re.compile(
    r"((?:\A|;) ?(?:savepoint|release(?: savepoint)?+|declare|close|deallocate(?: prepare)?+"
    r"|rollback(?: work| transaction)?+ to(?: savepoint)?+"
    r"|(?:fetch|move)(?: (?:next|prior|first|last|forward|backward|absolute|relative))?+"
    r"(?: [-+]?0| all)?+(?: from| in)?+) )(?!all\b)(?:(?:\"[^\"]*\")+|`[^`]*`|[^\W\d][\w$]*)",
    re.IGNORECASE,
)
"""A name that clients make up for a savepoint, a cursor or a prepared statement."""
_ROWS = re.compile(r"\b(values ?)(\([^()]*\))(?: ?, ?\([^()]*\))+", re.IGNORECASE)

_TABLE = re.compile(
    r"\b(?:from|join|into|update|table|copy|only|truncate|merge into) "
    r"(?!only\b|select\b|table\b)((?:[\w$]+|\"[^\"]+\"|`[^`]+`)(?:\.(?:[\w$]+|\"[^\"]+\"|`[^`]+`))?)",
    re.IGNORECASE,
)
_IDENTIFIED: Final[frozenset[Kind]] = frozenset(("select", "insert", "update", "delete", "merge"))
_AUTOCOMMIT = re.compile(
    r"(?:\s*set\s|.*,)\s*(?:@@|session\s+|local\s+)*(?:session\.|local\.)?autocommit\s*:?=\s*(\w+)",
    re.IGNORECASE | re.DOTALL,
)
"""A SET in its cheap form, also of several variables."""
_COMMITTING = re.compile(
    r"\s*(?:lock tables?\b|(?:analyze|check|optimize|repair) (?:\w+ )?tables?\b|flush |reset )",
    re.IGNORECASE,
)
"""Statements of administration before which MySQL and MariaDB commit."""
_SWITCHES = re.compile(r"\bautocommit\s*:?=", re.IGNORECASE)
_SWITCHED = re.compile(r"\bautocommit\s*:?=\s*(?:/\*.*?\*/\s*)*\Z", re.IGNORECASE | re.DOTALL)
"""The text before the value of autocommit."""
_LONGEST_SET = 1000
"""Longer texts, in characters, are not searched for a SET of autocommit."""

# sqlglot logs each statement that it cannot read; the cheap form is good enough for those.
logging.getLogger("sqlglot").setLevel(logging.CRITICAL)


class Fingerprints:
    """A cache that makes the fingerprints of one capture's statements; its memory is bounded."""

    def __init__(self, engine: str = "postgres") -> None:
        self._dialect = language_of(engine)
        self._texts: dict[str, LoggedStatement] = {}
        self._characters = 0
        self._forms: dict[str | bytes, Fingerprint] = {}
        self._form_characters = 0
        self._ids: dict[int, Fingerprint] = {}
        self._numbered: dict[int, Fingerprint] = {}
        """Number of the form (the hash of its text) -> fingerprint with the server's query id."""

    def statement(self, text: str, query_id: int = 0) -> LoggedStatement:
        """Return an SQL text with its fingerprint; equal texts may share one object.

        `query_id` is the server's id for statements that differ only in their values; 0 if the log
        has none.
        """
        known = self._texts.get(text)
        if known is not None:
            form = known.fingerprint
            if not query_id or query_id == form.number or not _is_identified(form):
                return known
        statement = LoggedStatement(text, self._fingerprint(text, query_id))
        if len(text) <= _LONGEST_TEXT:
            if len(self._texts) >= _MOST_TEXTS or self._characters > _MOST_CHARACTERS:
                self._texts.clear()
                self._characters = 0
            self._texts[text] = statement
            self._characters += len(text)
        return statement

    def _fingerprint(self, text: str, query_id: int) -> Fingerprint:
        # The query id of a text with several statements is that of one of them.
        if not query_id or ";" in text.rstrip("; \n"):
            form = self._form(text)
            # The log may have no query id for a statement that failed.
            return self._numbered.get(form.number, form)
        known = self._ids.get(query_id)
        if known is None:
            form = self._form(text)
            if not _is_identified(form):
                return form
            known = Fingerprint(query_id, form.text, form.kind, form.writes, form.bounds)
            if len(self._ids) < _MOST_FORMS:
                self._ids[query_id] = known
                self._numbered.setdefault(form.number, known)
        return known

    def _form(self, text: str) -> Fingerprint:
        cheap, certain = _read(text, self._dialect)
        if certain:
            return self.of_form(cheap)
        return _agreed(cheap, [self.of_form(one) for one in forms(text, self._dialect)])

    def of_form(self, cheap: str) -> Fingerprint:
        """Return the fingerprint of an SQL text of which `cheap` is the form, as of `forms`."""
        key = cheap if len(cheap) <= _LONGEST_KEY else _digest(cheap, 16)
        known = self._forms.get(key)
        if known is None:
            if (unnamed := _unnamed(cheap)) != cheap:
                return self.of_form(unnamed)
            room = len(self._forms) < _MOST_FORMS and self._form_characters < _MOST_PARSED
            known = describe(cheap, self._dialect, parsed=room)
            if room:
                self._forms[key] = known
                self._form_characters += len(cheap)
                if not len(self._forms) % _COLLECTED:
                    # Parsed trees have reference cycles, and a conversion turns automatic
                    # collection off.
                    gc.collect()
        return known


def _is_identified(form: Fingerprint) -> bool:
    """Return whether the server's query id is the same for all statements of a form.

    In PostgreSQL 14 and 15, the id of any other statement is a hash of its text, with its comments
    and values.
    """
    return form.kind in _IDENTIFIED and form.text[:8].lower() != "declare "


def cheap_form(text: str, dialect: str) -> str:
    """Return an SQL text with '?' for each string, 0 for each number, and one value for each list.

    `dialect` is "postgres" or "mysql".  Comments are left out, each run of white space becomes one
    space, and each parameter of PostgreSQL becomes $1.  If it is not certain where the strings are,
    whatever may be in one is left out.
    """
    return _read(text, dialect)[0]


def _read(text: str, dialect: str) -> tuple[str, bool]:
    """Return the form of an SQL text, as of `cheap_form`, and whether its strings are certain."""
    certain = True
    switches = dialect == "mysql" and len(text) <= _LONGEST_SET and _SWITCHES.search(text)
    if switches or _hard(text, dialect):
        pattern, change = sure(text, dialect), _replaced_but_switches if switches else _replaced
        certain = pattern is not None
        text = pattern.sub(change, text) if pattern else _masked(text, dialect)
    else:
        if "'" in text:
            text = _STRINGS.sub("'?'", text)
        text = _NUMBERS.sub("0", text)
        if "$" in text:
            text = _PARAMETERS.sub("$1", text)
    return _shortened(text, dialect), certain


def forms(text: str, dialect: str) -> list[str]:
    """Return the forms of an SQL text, as of `cheap_form`, under each way to read its quotes."""
    return [form_of(text, dialect, pattern) for pattern in possible(text, dialect)]


def _certain_forms(text: str, dialect: str) -> list[str]:
    """Return the one form of an SQL text; if that is not certain, all of them, as of `forms`."""
    cheap, certain = _read(text, dialect)
    return [cheap] if certain else forms(text, dialect)


def form_of(text: str, dialect: str, pattern: re.Pattern[str]) -> str:
    """Return the form of an SQL text, as of `cheap_form`, whose parts are what `pattern` finds."""
    return _shortened(pattern.sub(_replaced, text), dialect)


def _shortened(text: str, dialect: str) -> str:
    """Return a text without values, with one space for white space and one value for each list."""
    if dialect == "mysql" and "'?'" in text:
        text = _INTRODUCED.sub("'?'", text)
    text = " ".join(text.split())
    if "," in text:
        text = _LIST.sub(r"\1", text)
        if "), (" in text or "),(" in text:
            text = _ROWS.sub(r"\1\2", text)
    return text.rstrip("; ")


def _unnamed(cheap: str) -> str:
    """Return a form with '?' for each name that clients make up, such as that of a savepoint."""
    if ";" in cheap or _MADE_UP.match(cheap):
        return _MADE_UP_NAME.sub(r"\1'?'", cheap)
    return cheap


def _masked(text: str, dialect: str) -> str:
    """Return a text with '?' for each part that may be in a string, and 0 for each number."""
    parts, at = [], 0
    for begin, end in hidden(text, dialect):
        parts += [_NUMBERS.sub("0", text[at:begin]), "'?'"]
        at = end
    return "".join([*parts, _NUMBERS.sub("0", text[at:])])


def _hard(text: str, dialect: str) -> bool:
    """Return whether simple patterns would misread an SQL text, so that the slower SCAN is needed.

    Such a text has, for example, comments or strings with a prefix.
    """
    if "--" in text or "/*" in text:
        return True
    if dialect == "mysql":
        return "\\" in text or '"' in text or "#" in text or _strange("`", text)
    return (
        is_doubtful(text, dialect)
        or ("'" in text and _PREFIXED.search(text) is not None)
        or ("$" in text and _TAGGED.search(text) is not None)
        or _strange('"', text)
    )


def _strange(quote: str, text: str) -> bool:
    """Return whether a name between `quote` characters in an SQL text is no plain identifier."""
    return quote in text and not all(map(str.isidentifier, text.split(quote)[1::2]))


def _replaced(match: re.Match[str]) -> str:
    return _REPLACED.get(match.lastgroup or "", match[0])


def _replaced_but_switches(match: re.Match[str]) -> str:
    """Return what stands for a part of a text; the value of autocommit, 0 or 1, stays as it is.

    It decides where transactions end.
    """
    is_kept = match[0] in {"0", "1"} and _SWITCHED.search(match.string, 0, match.start())
    return match[0] if is_kept else _replaced(match)


def describe(cheap: str, dialect: str, *, parsed: bool = True) -> Fingerprint:
    """Return the fingerprint of an SQL text whose values `cheap_form` has replaced.

    With `parsed` False, patterns find the kind and the tables, and the parser sqlglot is not used.
    """
    trees = _trees(cheap, dialect) if parsed and len(cheap) <= _PARSED else ()
    parts = [part for part in cheap.split(";") if part.strip()]
    kinds = [kind_by_words(part) for part in parts] or ["other"]
    bounds = _folded(
        [_bounds(part, kind, dialect) for part, kind in zip(parts, kinds, strict=False)]
    )
    if trees:
        writes = _together([_writes(tree, _kind_of(tree, kinds[0])) for tree in trees])
        kind = _kind_of(trees[0], kinds[0])
        text = "; ".join(_normalised(tree, dialect) for tree in trees)
    else:
        writes = _together(
            [
                changed_by_words(part, kind, dialect)
                for part, kind in zip(parts, kinds, strict=False)
            ]
        )
        text = _NUMBERS.sub("?", cheap.replace("'?'", "?").replace("$1", "?"))
        kind = kinds[0]
    number = _number(text if trees else _case_folded(text, dialect))
    return Fingerprint(number, _cut(text), kind, writes, bounds)


def _case_folded(text: str, dialect: str) -> str:
    """Return a text in which the case of letters is the same where it means nothing.

    In MySQL, the case of a table's name may mean something.
    """
    if dialect != "postgres" or text.islower():
        return text
    parts = text.split('"')
    parts[::2] = [part.lower() for part in parts[::2]]
    return '"'.join(parts)


def _number(text: str) -> int:
    return int.from_bytes(_digest(text, 8), "big", signed=True)


def _agreed(cheap: str, ways: Sequence[Fingerprint]) -> Fingerprint:
    """Return the fingerprint of a text of which it is not certain where its strings are.

    `cheap` is its form, which has nothing that may be a value.  `ways` are the fingerprints of the
    text for each way to read it; the first is the usual one, and decides what is no name.  Tables
    are known only if they are the same in all of them: a name in one may be a value in the next.
    """
    usual = ways[0]
    writes = usual.writes if all(one.writes == usual.writes for one in ways) else None
    text = _NUMBERS.sub("?", cheap.replace("'?'", "?").replace("$1", "?"))
    # The same text is left of statements that do other things.
    number = _number(f"{text} {usual.kind} {usual.bounds} {writes}")
    return Fingerprint(number, _cut(text), usual.kind, writes, usual.bounds)


def ends_transaction(text: str, dialect: str) -> bool:
    """Return whether an SQL text ends a transaction; `dialect` is "postgres" or "mysql"."""
    cheap = _certain_forms(text, dialect)[0]
    return describe(cheap, dialect, parsed=False).bounds in {"end", "restart"}


def _cut(text: str) -> str:
    """Return the first 2,000 characters of a text; bytes that are not UTF-8 are replaced."""
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return shown.encode("utf-8", "replace").decode()


def _digest(text: str, size: int) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).digest()


def _trees(cheap: str, dialect: str) -> Sequence[exp.Expression]:
    try:
        trees = sqlglot.parse(cheap, dialect=dialect)
    except Exception:  # noqa: BLE001 - whatever error, the cheap form remains
        return ()
    if any(tree is None or tree.find(exp.Command) or _misread(tree) for tree in trees):
        return ()
    return [tree for tree in trees if isinstance(tree, exp.Expression)]


def _misread(tree: exp.Expr) -> bool:
    """Return whether sqlglot took a statement for another one.

    It takes the word BINARY of an old COPY BINARY for a table's name, the name that `_unnamed`
    replaces for an alias, and that of a savepoint for a quoted name.
    """
    if isinstance(tree, exp.Copy):
        return bool(tree.this.name.lower() == "binary")
    if isinstance(tree, exp.Rollback):
        return tree.args.get("savepoint") is not None
    return isinstance(tree, exp.Alias)


def _normalised(tree: exp.Expression, dialect: str) -> str:
    def general(node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
            return exp.var("?")
        # A parameter of MySQL is a variable; NULL and TRUE change what a statement means.
        if isinstance(node, exp.Literal) or (
            isinstance(node, exp.Parameter) and dialect == "postgres"
        ):
            return exp.var("?")
        if isinstance(node, exp.In | exp.Values) and node.expressions:
            node.set("expressions", node.expressions[:1])
        if isinstance(node, exp.Identifier) and not node.quoted and dialect == "postgres":
            node.set("this", node.name.lower())
        return node

    # Without copies: the tree is not needed any more.
    return tree.transform(general, copy=False).sql(dialect, comments=False, copy=False)


def _kind_of(tree: exp.Expression, kind: Kind) -> Kind:
    """Return `kind`, or, if the parsed statement begins with WITH, the kind of its main part."""
    if tree.args.get("with_") is None and tree.args.get("with") is None:
        return kind
    for family, name in _FAMILIES.items():
        if isinstance(tree, family):
            return name
    return kind


_FAMILIES: Final[dict[type[exp.Expr], Kind]] = {
    exp.Insert: "insert",
    exp.Update: "update",
    exp.Delete: "delete",
    exp.Merge: "merge",
    exp.Select: "select",
}


def _bounds(part: str, kind: Kind, dialect: str) -> Bounds:
    words = part.lower().split()
    if kind == "begin" and _opens(words):
        # If a transaction is open, PostgreSQL continues it, and MySQL commits it.
        return "begin" if dialect == "postgres" else "restart"
    if kind in ("commit", "rollback") and "to" not in words and words[1:2] != ["prepared"]:
        return "restart" if "chain" in words and "no" not in words else "end"
    # In MySQL and MariaDB a temporary table is no reason to commit.
    commits = dialect == "mysql" and (
        (kind == "ddl" and not _of_temporary(words)) or _COMMITTING.match(part) is not None
    )
    if words[:2] == ["prepare", "transaction"] or commits:
        return "end"
    switched = _AUTOCOMMIT.match(part) if kind == "set" and dialect == "mysql" else None
    if switched:
        return "manual" if switched[1].lower() in ("0", "off", "false") else "automatic"
    return ""


def _of_temporary(words: Sequence[str]) -> bool:
    """Return whether a statement makes or drops a temporary table; `words` are in lower case."""
    made = words[1:4] == ["or", "replace", "temporary"] or words[1:2] == ["temporary"]
    return made and words[0] in {"create", "drop"}


def _opens(words: Sequence[str]) -> bool:
    """Return whether a statement with BEGIN or START as its first word begins a transaction.

    `words` are the words of the statement in lower case.  START SLAVE, for example, does not begin
    a transaction.
    """
    return words[0] == "begin" or words[1:2] == ["transaction"]


def _folded(bounds: Sequence[Bounds]) -> Bounds:
    """Return the effect of an SQL text on its session's transaction.

    `bounds` are the effects of the single statements in the text.  The result is "" if no
    statement has an effect.
    """
    told = [bound for bound in bounds if bound]
    if not told:
        return ""
    if told[-1] in ("begin", "restart") and "end" in told:
        return "restart"
    return told[-1]


def _together(writes: Sequence[tuple[str, ...] | None]) -> tuple[str, ...] | None:
    names: dict[str, None] = {}
    for tables in writes:
        if tables is None:
            return None
        names.update(dict.fromkeys(tables))
    return tuple(names)


def _writes(tree: exp.Expression, kind: Kind) -> tuple[str, ...] | None:
    """Return the tables that a parsed statement changes or whose rows it locks; None if unknown.

    The result is () if there are none.  Names are in lower case, without schemas.
    """
    if kind in UNTIED:
        return ()
    if kind == "ddl":
        return _defined(tree)
    if kind == "call":
        return None
    names: dict[str, None] = {}
    for node in tree.walk():
        if isinstance(node, exp.Insert | exp.Update | exp.Delete | exp.Merge | exp.Copy):
            names.update(dict.fromkeys(_targets(node)))
        elif isinstance(node, exp.Select) and (node.args.get("locks") or node.args.get("into")):
            names.update(dict.fromkeys([table.name.lower() for table in node.find_all(exp.Table)]))
    if not names and any(not changes_nothing(call.name) for call in tree.find_all(exp.Anonymous)):
        return None
    return tuple(names)


def _targets(node: exp.Expression) -> list[str]:
    if isinstance(node, exp.Copy) and not node.args.get("kind"):
        return []
    listed = node.args.get("tables")
    if listed:
        return [table.name.lower() for table in listed]
    if isinstance(node, exp.Update) and isinstance(node.this, exp.Table) and _joins(node):
        return _set_tables(node)
    target = node.this.find(exp.Table) if isinstance(node.this, exp.Expression) else None
    return [target.name.lower()] if target else []


def _joins(node: exp.Update) -> bool:
    """Return whether an UPDATE joins several tables, as MySQL allows."""
    return bool(node.this.args.get("joins"))


def _set_tables(node: exp.Update) -> list[str]:
    """Return the tables of an UPDATE with joins of which it may set a column, in lower case."""
    tables = {one.alias_or_name.lower(): one.name.lower() for one in node.this.find_all(exp.Table)}
    owners = {
        column.table.lower()
        for one in node.expressions
        if isinstance(column := one.this, exp.Column)
    }
    # A column without a table may be of any of them.
    return [name for alias, name in tables.items() if alias in owners or not owners <= {*tables}]


def tables_of(text: str, engine: str) -> tuple[str, ...]:
    """Return the tables that an SQL text names, in lower case, with the schemas that it names.

    For a text that cannot be parsed, return the names that follow words such as FROM and JOIN.  If
    it is not certain where its strings are, return the names under each way to read it.
    """
    dialect = language_of(engine)
    found = (_named(cheap, dialect) for cheap in _certain_forms(text, dialect))
    return tuple(dict.fromkeys(name for names in found for name in names))


def _named(cheap: str, dialect: str) -> Iterator[str]:
    """Yield the tables that a text without values names, as of `tables_of`."""
    trees = _trees(cheap, dialect) if len(cheap) <= _PARSED else ()
    if not trees:
        yield from (_unquoted(name) for name in _TABLE.findall(cheap))
    for tree in trees:
        own = {one.alias_or_name.lower() for one in tree.find_all(exp.CTE)}
        for table in tree.find_all(exp.Table):
            name = table.name.lower()
            if name and (table.db or name not in own):
                yield f"{table.db.lower()}.{name}" if table.db else name


def _unquoted(name: str) -> str:
    return name.replace("`", "").replace('"', "").lower()


def _defined(tree: exp.Expression) -> tuple[str, ...] | None:
    if isinstance(tree, exp.TruncateTable):
        return tuple(table.name.lower() for table in tree.expressions)
    if isinstance(tree, exp.Create) and tree.kind not in ("TABLE", "INDEX", "VIEW"):
        return None
    table = tree.find(exp.Table)
    return (table.name.lower(),) if table else None
