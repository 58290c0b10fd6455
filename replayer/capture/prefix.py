"""Prefixes of PostgreSQL's log lines: given as log_line_prefix, or found from the lines.

A prefix that is found from lines may have times, process numbers, session ids, `user@database` and
`name=value`, with any characters between them.
"""

import contextlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from replayer.capture.stamps import STAMP, ZONE
from replayer.errors import Impossible

SEVERITIES = ("LOG", "ERROR", "FATAL", "PANIC", "WARNING", "NOTICE", "INFO")
PARTS = ("DETAIL", "HINT", "QUERY", "CONTEXT", "STATEMENT", "LOCATION", "BACKTRACE")
_LEVEL = rf"(?P<severity>{'|'.join(SEVERITIES)}|DEBUG[1-5]?|{'|'.join(PARTS)}):\s{{1,2}}"
_FIRST = re.compile(rf"(?<![A-Za-z]){_LEVEL}")
_STATEMENTS = re.compile(
    r"(?:[0-9A-Z]{5}: )?(?:duration: [\d.]+ ms|statement: |execute |connection )"
)
_WORD = re.compile(r"(?<![%\w])[A-Za-z_][\w.-]*(?![\w.=-]| =)")
_MOST_SAMPLES = 2000
_ENOUGH = 0.5
"""The share of lines with a severity that a prefix must fit."""
_PADDED = "%9p"
_PADDED_AT_LEAST = 0.05
"""The share of lines that begin with blanks if the prefix begins with a padded process."""

_ESCAPES = {
    "a": ("application", r".*?"),
    "u": ("user", r".*?"),
    "d": ("database", r".*?"),
    "r": ("remote", r"[^\s(]*(?:\(\d+\))?"),
    "h": ("remote", r"\S*?"),
    "L": ("", r"\S*?"),
    "b": ("", r".*?"),
    "p": ("process", r"\d+"),
    "P": ("", r"\d*"),
    "t": ("time", rf"{STAMP}(?:\.\d+)?(?: {ZONE})?"),
    "m": ("time", rf"{STAMP}(?:\.\d+)?(?: {ZONE})?"),
    "n": ("epoch", r"\d{9,11}\.\d{3}"),
    "i": ("", r".*?"),
    "e": ("sqlstate", r"[0-9A-Z]{5}"),
    "c": ("session", r"[0-9a-f]{1,16}\.[0-9a-f]{1,8}"),
    "l": ("number", r"\d+"),
    "s": ("", rf"(?:{STAMP}(?: {ZONE})?)?"),
    "v": ("vxid", r"(?:-?\d+/\d+)?"),
    "x": ("", r"\d*"),
    "Q": ("query_id", r"-?\d+"),
}
_NAMES = "ud"
_WORDS_BEFORE = re.compile(r"%-?\d*[abi] \Z")
"""An escape whose value may have several words: they are no part of the name that follows it."""
_FIRST_BLANK = re.compile(r"(?:%[a-zA-Z])*(\t|\s|%-?\d)")
"""The beginning of a prefix that may begin with a blank, as fields may be empty or padded."""
_FINE = "mn"
"""The escapes of a time with its fraction of a second."""
FIELDS = (
    *("severity", "time", "epoch", "process", "session", "user", "database", "application"),
    *("remote", "sqlstate", "number", "query_id", "vxid"),
)

_KEYS = {
    **dict.fromkeys(("user", "usr", "u", "username", "user_name", "dbuser"), "%u"),
    **dict.fromkeys(("db", "database", "d", "dbname", "datname", "database_name"), "%d"),
    **dict.fromkeys(("app", "appli", "application", "application_name", "appname", "a"), "%a"),
    **dict.fromkeys(("client", "host", "h", "remote", "r", "remote_host", "rhost", "ip"), "%r"),
    **dict.fromkeys(("pid", "p", "process"), "%p"),
    **dict.fromkeys(("queryid", "query_id", "qid"), "%Q"),
    **dict.fromkeys(("sqlstate", "state", "err", "sql_error_code", "error_code", "e"), "%e"),
    **dict.fromkeys(("session", "sess", "session_id", "sid", "c"), "%c"),
    **dict.fromkeys(("line", "l", "line_num"), "%l"),
    **dict.fromkeys(("tx", "txid", "xid", "x", "trx"), "%x"),
    **dict.fromkeys(("vxid", "v", "vtx"), "%v"),
    **dict.fromkeys(("cmd", "tag", "ps", "command", "i"), "%i"),
    **dict.fromkeys(("backend", "backend_type", "b", "type"), "%b"),
    **dict.fromkeys(("start", "session_start", "s"), "%s"),
}
_WORDED = {key: escape for key, escape in _KEYS.items() if escape in {"%a", "%b", "%i"}}
"""Keys whose values may have several words, such as PostgreSQL JDBC Driver."""


def _any_of(keys: Iterable[str]) -> str:
    return "|".join(sorted(keys, key=len, reverse=True))


_IS = r"(?:=| = |: )"
_VALUE = r"(?:\[unknown\]|\[local\]|[^\s,\]\|;)]*+)"
_TAGS = (
    *("SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "BEGIN", "COMMIT", "ROLLBACK", "PARSE"),
    *("BIND", "EXECUTE", "FETCH", "COPY", "SET", "SHOW", "CALL", "DO", "CREATE", "ALTER", "DROP"),
    *("TRUNCATE", "VACUUM", "ANALYZE", "SAVEPOINT", "RELEASE", "PREPARE", "DEALLOCATE", "START"),
    *("EXPLAIN", "DECLARE", "CLOSE", "MOVE", "LOCK", "DISCARD", "RESET", "CHECKPOINT", "LOAD"),
    *("LISTEN", "UNLISTEN", "NOTIFY", "GRANT", "REVOKE", "REASSIGN", "COMMENT", "SECURITY"),
    *("CLUSTER", "REINDEX", "REFRESH", "IMPORT", "idle", "authentication", "startup"),
    *("initializing", "client backend", "parallel worker"),
)
"""First words of the values of %i, and values of %b: both may follow an application's name."""
_MORE = (
    rf"(?: (?!(?:{'|'.join(_TAGS)})\b|\w+ = |(?:{_any_of(_KEYS)}): )"
    r"(?:[^\W\d][\w.+]*+|-)(?=[\s,\]|;)]|:(?![0-9a-f:])|\Z))*+"
)
"""Further words of a value, which stand before a separator, another part or the end.

A host's IPv6 address, which may begin with letters and a colon, is another part.
"""
_UP_TO_KEY = rf"(?:[^=\[]|\[(?!\d+\]))*?(?=[,|;] ?(?:{_any_of(_KEYS)}){_IS})"
"""A value up to the separator before the next key."""
_TOKENS = re.compile(
    rf"(?P<m>{STAMP}\.\d{{1,6}}(?: {ZONE})?)|(?P<t>{STAMP}(?: {ZONE})?)"
    r"|(?P<n>\b\d{10}\.\d{3}\b)"
    rf"|(?P<worded>\b(?:{_any_of(_WORDED)}){_IS})(?:{_UP_TO_KEY}|{_VALUE}{_MORE})"
    rf"|(?P<key>\b(?:{_any_of(_KEYS)}){_IS}){_VALUE}"
    r"|(?P<c>\b[0-9a-f]{8}\.[0-9a-f]{1,8}\b)|(?P<l>(?<=\[)\d+(?=-\d+\]))"
    r"|(?P<ud>(?:\[unknown\]|[\w.$-]*)@(?:\[unknown\]|[\w.$-]*)"
    rf"(?P<app>/(?:\[unknown\]|[\w.$-]*+){_MORE})?)"
    r"|(?P<r>\[local\]|(?:\d{1,3}\.){3}\d{1,3}(?:\(\d+\))?|(?=[0-9a-f]*:[0-9a-f:]*:)[0-9a-f:]{3,39}"
    r"(?:\(\d+\))?|[\w.-]+\(\d+\))"
    r"|(?P<v>\b\d+/\d+\b)|(?P<e>\b(?:00000|[0-9A-Z]{2}[0-9A-Z]{3})\b(?<!\d{5})|\b00000\b)"
    r"|(?P<p>\d+)"
)


@dataclass(frozen=True, slots=True)
class Prefix:
    """The prefix of a log's lines, and the positions of the prefix's fields."""

    template: str
    """The prefix in the form of log_line_prefix."""
    pattern: re.Pattern[str]
    places: tuple[int, ...]
    """For each of FIELDS, the index among the pattern's groups; -1 if it is not there."""
    coarse: bool
    """True if its stamps have whole seconds only."""

    def has(self, field: str) -> bool:
        """Return whether the prefix has this one of FIELDS, such as session or database."""
        return self.places[FIELDS.index(field)] >= 0


def compiled(template: str, *, timed: bool = True, known: bool = False) -> Prefix:
    """Return the Prefix that matches lines written with the log_line_prefix `template`.

    Pass `timed=False` if the times of the lines are not in the prefix, but in text around it, such
    as syslog's.  Pass `known=True` if their processes are in that text.  Raises Impossible for a
    prefix that lacks the time, or both process and session, unless that text has them.
    """
    parts, optional, at, is_fine = [], 0, 0, False
    seen: set[str] = set()
    # Blanks at the end of the prefix are not required, as logs lose blanks on the way.
    while at < len(template.rstrip()):
        match = re.compile(r"%(-?\d*)([a-zA-Z%])").match(template, at)
        if match is None:
            parts.append(re.escape(template[at]))
            at += 1
            continue
        at = match.end()
        width, escape = match.groups()
        if escape == "q":
            parts.append("(?:")
            optional += 1
        else:
            after_words = _WORDS_BEFORE.search(template, 0, match.start()) is not None
            parts.append(_fragment(escape, seen, padded=bool(width), after_words=after_words))
            is_fine = is_fine or escape in _FINE
    parts += (")?" * optional, rf"\s*?{_LEVEL}")
    pattern = re.compile(_beginning(template) + "".join(parts))
    _check(template, seen, timed=timed, known=known)
    places = tuple(pattern.groupindex.get(field, 0) - 1 for field in FIELDS)
    return Prefix(template, pattern, places, coarse=not is_fine)


def _beginning(template: str) -> str:
    """Return a pattern of no text that fits at the beginning of a message, not of a later line.

    A server begins each further line of a message with a tab.  Copies of a log may have blanks
    instead of it, and syslog breaks long lines at a blank.
    """
    blank = _FIRST_BLANK.match(template)
    if blank is None:
        return r"(?!\s)"
    return "" if blank[1] == "\t" else r"(?!\t)"


def _check(template: str, seen: set[str], *, timed: bool, known: bool) -> None:
    if timed and not {"time", "epoch"} & seen:
        raise Impossible(
            f"lines that begin with {template!r} have no time: a log to be replayed needs %m in "
            f"log_line_prefix"
        )
    if not known and not {"process", "session"} & seen:
        raise Impossible(
            f"lines that begin with {template!r} do not name their session: a log to be replayed "
            f"needs %p or %c in log_line_prefix"
        )


def _fragment(escape: str, seen: set[str], *, padded: bool, after_words: bool) -> str:
    """Return the pattern of an escape; add the field that it is to `seen`.

    Pass `after_words=True` if only a blank separates it from a value that may have several words.
    """
    if escape == "%":
        return "%"
    if escape not in _ESCAPES:
        raise Impossible(f"log_line_prefix has no %{escape}")
    field, pattern = _ESCAPES[escape]
    if after_words and escape in _NAMES:
        pattern = r"\S*?"
    space = r"\s*?" if padded else ""
    if not field or field in seen:
        return f"{space}(?:{pattern}){space}"
    seen.add(field)
    return f"{space}(?P<{field}>{pattern}){space}"


def guessed(lines: Iterable[str], *, timed: bool = True, known: bool = False) -> Prefix | None:
    """Return the prefix that most lines have before their severity, such as LOG or ERROR.

    Lines without a severity are ignored, as are those that continue a message.  Of prefixes that
    fit as many lines, it is the one with the fewest different applications.  Returns None if no
    prefix fits half of the lines.  Pass `timed=False` if the times of the lines are in text around
    them, such as syslog's, and `known=True` if their processes are.  Raises Impossible if the
    fitting prefix lacks the time, or both process and session, unless that text has them.
    """
    beginnings = [
        (line[: match.start()], line[match.end() : match.end() + 20])
        for line in lines
        if not line.startswith("\t") and (match := _FIRST.search(line[:500])) is not None
    ]
    beginnings = beginnings[:_MOST_SAMPLES]
    # Lines of the server's own processes have empty fields, from which no escape can be recognised.
    telling = [begin for begin, message in beginnings if _STATEMENTS.match(message)]
    every = [begin for begin, _ in beginnings]
    padded = _is_padded(telling)
    if padded:
        telling = [begin.lstrip() for begin in telling]
    elif not all(begin[:1].isspace() for begin in telling):
        # The others continue a message: the blank stands for the tab, or syslog broke a line there.
        telling, every = (
            [begin for begin in begins if not begin[:1].isspace()] for begins in (telling, every)
        )
    problem: Impossible | None = None
    best: tuple[int, int, Prefix] | None = None
    templates = Counter(map(_template, telling or every)).most_common(20)
    if padded:
        templates = [(_pad(template), many) for template, many in templates]
    # A word that differs in other lines, such as a program's name, is not part of the prefix.
    wider = [_WORD.sub("%i", template) for template, _ in templates[:3]]
    for template in dict.fromkeys([*(template for template, _ in templates), *wider]):
        try:
            one = _of_server_too(compiled(template, timed=timed, known=known), every,
                                  timed=timed, known=known)  # fmt: skip
        except Impossible as error:
            problem = problem or error
            continue
        fit = *_fit(one, every), one
        if best is None or fit[:2] > best[:2]:
            best = fit
    if best is not None and best[0] >= _ENOUGH * len(every):
        return best[2]
    if problem is not None:
        raise problem
    return None


def _is_padded(telling: Sequence[str]) -> bool:
    """Return whether the beginnings of lines begin with a process that is padded, as by `%6p`.

    Then some begin with blanks and some do not, and both have the same fields.
    """
    templates = [_template(begin.lstrip()) for begin in telling]
    blank = [begin[:1].isspace() for begin in telling]
    same = {template for template, is_blank in zip(templates, blank, strict=True) if not is_blank}
    found = sum(
        is_blank and template.startswith("%p") and template in same
        for template, is_blank in zip(templates, blank, strict=True)
    )
    # A value of a statement may have some lines of a log.
    return found >= max(_PADDED_AT_LEAST * len(telling), 2)


def _pad(template: str) -> str:
    """Return a prefix whose first field, the process, may have blanks before it."""
    return template.replace("%p", _PADDED, 1)


def _fits(one: Prefix, begin: str) -> re.Match[str] | None:
    """Return the match of a prefix with the beginning of a line, None if it does not fit."""
    return one.pattern.match(f"{begin}LOG:  ")


def _fit(one: Prefix, beginnings: list[str]) -> tuple[int, int]:
    """Return (how many beginnings of lines a prefix fits, minus the number of applications there).

    The tag of %i, for example, makes several applications of one if it is taken for a part of the
    name.  For a prefix without an application, each line counts as one.
    """
    matches = [match for begin in beginnings if (match := _fits(one, begin)) is not None]
    if not one.has("application"):
        return len(matches), -len(matches)
    return len(matches), -len({match["application"] for match in matches})


def _of_server_too(one: Prefix, beginnings: list[str], *, timed: bool, known: bool) -> Prefix:
    """Return the prefix `one`, changed so that it also fits lines of the server's own processes.

    The prefix of such a line ends where a log_line_prefix has %q.  If some of the `beginnings` of
    lines fit only the first part of the prefix, %q is inserted after this part.  If `timed`, that
    part is not empty, as it has the time.
    """
    padded = one.template.startswith(_PADDED)
    begins = [begin.lstrip() for begin in beginnings] if padded else beginnings
    templates = (_template(begin).rstrip() for begin in begins if not _fits(one, begin))
    others = {
        template
        for template in (_pad(each) if padded else each for each in templates)
        if one.template.startswith(template) and (template or not timed)
    }
    for template in sorted(others, key=len):
        stop = len(template)
        with contextlib.suppress(Impossible):
            return compiled(
                f"{one.template[:stop]}%q{one.template[stop:]}", timed=timed, known=known
            )
    return one


def _template(begin: str) -> str:
    """Return a log_line_prefix that fits the beginning of a line: %m for a time, for example."""
    seen: set[str] = set()

    def escape(match: re.Match[str]) -> str:
        kind = match.lastgroup or ""
        if (begin := match["worded"] or match["key"]) is not None:
            return f"{begin}{_KEYS[begin.rstrip('=: ')]}"
        if match["ud"] is not None:
            return "%u@%d/%a" if match["app"] is not None else "%u@%d"
        if kind == "p" and "p" in seen:
            return "%x"
        seen.add(kind)
        return f"%{kind}"

    return _TOKENS.sub(escape, begin.replace("%", "%%"))
