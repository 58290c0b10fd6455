r"""Patterns that find the strings, comments and numbers of an SQL text, for each reading of quotes.

The settings of a session decide how a server reads a backslash in a string: standard_conforming_
strings of PostgreSQL, NO_BACKSLASH_ESCAPES and ANSI_QUOTES in the sql_mode of MySQL.  A log may not
have them: the server's configuration may.  The readings differ only where a backslash stands before
a quote, and then a text that is SQL under one of them is nearly never SQL under another.
"""

import functools
import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

_DEEPEST = 8
_INSIDE = r"(?:[^*/]++|\*(?!/)|/(?!\*)|<>)*+"
_NESTED = functools.reduce(
    # One that is nested more deeply counts as a comment up to the end of the text.
    lambda inner, _: rf"/\*{_INSIDE.replace('<>', inner)}(?:\*/|\Z)",
    range(_DEEPEST),
    r"/\*.*",
)
"""A comment of PostgreSQL, in which there may be others; /*! begins an ordinary one."""
_DASHES = r"--(?:(?=[\x00-\x20\x7f])[^\n]*|\Z)"
"""A comment of MySQL: without a blank after it, -- is the difference of a negative number."""
_COMMENT = rf"#[^\n]*|{_DASHES}|/\*(?![mM]?!).*?(?:\*/|\Z)"
_VERSIONED = r"/\*(?P<version>[mM]?![0-9]{0,6})"
"""Begin of a comment of MySQL or MariaDB that servers of that version, and later ones, execute."""
_COMMENTED = r"/\*(?:[^*/]++|\*(?!/)|/(?!\*)|/\*(?:[^*]++|\*(?!/))*+(?:\*/|\Z))*+(?:\*/|\Z)"
"""Such a comment as a server reads that does not execute it: with one comment in it."""
STRING: Final = r"'[^']*(?:''[^']*)*(?:'|\Z)"
_ESCAPED = r"'[^'\\]*(?:(?:\\.|'')[^'\\]*)*(?:'|\\?\Z)"
_DOUBLE, _DOUBLE_ESCAPED = STRING.replace("'", '"'), _ESCAPED.replace("'", '"')
# The regex engine searches in C for a pattern that begins with a set of characters. So the pattern
# checks what may not stand before a number only after the number's first digit.
NUMBER: Final = (
    r"[0-9](?<![\w$][0-9])"
    r"(?:(?<=0)[xX][0-9a-fA-F]+|[0-9_]*(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?)(?!\w)"
)
# After a letter or a digit, $ is a part of a name.
_DOLLAR = r"(?<![\w$])\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?(?:\$(?P=tag)\$|\Z)"


def _postgres(string: str) -> re.Pattern[str]:
    return re.compile(
        rf"(?P<gap>--[^\n]*|{_NESTED})|(?P<kept>{_DOUBLE})|(?P<parameter>\$[0-9]+)"
        rf"|(?P<string>\b[eE]{_ESCAPED}|(?:\b(?:[bBxXnN]|[uU]&))?{string}|{_DOLLAR})"
        rf"|(?P<number>{NUMBER})",
        re.DOTALL,
    )


def _mysql(single: str, double: str, comment: str = _COMMENT) -> re.Pattern[str]:
    return re.compile(
        rf"(?P<gap>{comment})|(?P<minus>--)|(?P<kept>`[^`]*(?:`|\Z)|\?)"
        rf"|(?P<string>{single}|{double})|(?P<number>{NUMBER})",
        re.DOTALL,
    )


def _closed(pattern: str) -> str:
    """Return a pattern of strings or comments without those that the text's end cuts off."""
    return pattern.replace(r"|\\?\Z", "").replace(r"|\Z", "")


def _whole(strings: str, names: str, comments: str) -> re.Pattern[str]:
    """Return a pattern that matches the whole of a text whose quotes are those of SQL.

    Each string ends, no word follows one without a space, and no backslash is outside of one.
    """
    return re.compile(
        rf"(?:{comments}|(?>{_closed(strings)})(?!\w)|{names}|\w[\w$]*+|\\N\b|[^\w'\"`\\])*+",
        re.DOTALL,
    )


_MYSQL = (
    (_ESCAPED, _DOUBLE_ESCAPED),
    # ANSI_QUOTES, NO_BACKSLASH_ESCAPES
    (_ESCAPED, _DOUBLE),
    (STRING, _DOUBLE),
)
_GAPS = rf"{_COMMENT}|{_COMMENTED}"
GAP: Final = {
    # Possessive, as the comments of a text may otherwise be divided in many ways.
    "postgres": rf"(?s:\s|--[^\n]*|{_closed(_NESTED)})*+",
    "mysql": rf"(?s:\s|{_closed(_COMMENT)})*+",
}
"""SQL dialect -> pattern of the white space and comments between two words, or of nothing.

It does not match a comment without an end, nor one whose text servers of MySQL execute.
"""
READINGS: Final = {
    "postgres": (_postgres(STRING), _postgres(_ESCAPED)),
    "mysql": tuple(_mysql(*quotes) for quotes in _MYSQL),
}
"""SQL dialect -> patterns that find each value, comment and quoted name; the usual one is first."""
_WITHOUT = tuple(_mysql(*quotes, _GAPS) for quotes in _MYSQL)
"""Patterns for MySQL in which the comments that have a version are comments."""
SCAN: Final = {dialect: patterns[0] for dialect, patterns in READINGS.items()}
"""SQL dialect -> the usual one of its patterns."""
_WITH_MARKS = tuple(
    re.compile(rf"{_VERSIONED}|(?P<end>\*/)|{_COMMENT}|`[^`]*(?:`|\Z)|{single}|{double}", re.DOTALL)
    for single, double in _MYSQL
)
_VERSION = re.compile(_VERSIONED)
_SKIPPED = re.compile(_COMMENTED, re.DOTALL)
_MOST_TEXTS = 16
"""Texts that are always made of one by the versions in its comments."""
_MOST_CHARACTERS = 4 << 20
"""Characters of more such texts together."""
_FOREIGN = range(50_700, 100_000)
"""Versions of MySQL whose comments MariaDB skips."""
_PLAIN_NAMES, _TICKS = r'"[^"]*+"', "`[^`]*+`"
_WHOLE: Final = {
    **{
        pattern: _whole(
            # Those between dollars are replaced before.
            rf"\b[eE]{_ESCAPED}|{string}",
            _PLAIN_NAMES,
            rf"--[^\n]*|{_NESTED}",
        )
        for pattern, string in zip(READINGS["postgres"], (STRING, _ESCAPED), strict=True)
    },
    **{
        pattern: _whole("|".join(quotes), _TICKS, comments)
        for patterns, comments in ((READINGS["mysql"], _COMMENT), (_WITHOUT, _GAPS))
        for pattern, quotes in zip(patterns, _MYSQL, strict=True)
    },
}


def is_doubtful(text: str, dialect: str) -> bool:
    """Return whether the readings of an SQL text may differ in where its strings are."""
    return "\\'" in text or (dialect == "mysql" and '\\"' in text)


def sure(text: str, dialect: str) -> re.Pattern[str] | None:
    """Return the pattern by which an SQL text is to be read; None if that is not certain.

    It is certain if the text is SQL under one of the readings only.
    """
    doubtful = is_doubtful(text, dialect)
    if not doubtful and not (dialect == "mysql" and _executed(text)):
        return SCAN[dialect]
    patterns = READINGS[dialect] if doubtful else (SCAN[dialect],)
    whole = [one for one in patterns if _is_whole(text, one)]
    if not whole or (len(whole) > 1 and len({tuple(_spans(text, one)) for one in whole}) > 1):
        return None
    return whole[0]


def _is_whole(text: str, pattern: re.Pattern[str]) -> bool:
    if "$" in text and "tag" in pattern.groupindex:
        text = pattern.sub(_in_quotes, text)
    return _WHOLE[pattern].fullmatch(text) is not None


def _in_quotes(match: re.Match[str]) -> str:
    """Return an empty string in quotes for one between dollars, without its end if it has none."""
    tag, found = match["tag"], match[0]
    if tag is None:
        return found
    mark = f"${tag}$"
    return "''" if found.endswith(mark) and len(found) >= 2 * len(mark) else "'"


def possible(text: str, dialect: str) -> Sequence[re.Pattern[str]]:
    """Return the patterns under one of which an SQL text may be read, whatever it then is."""
    patterns = READINGS[dialect] if is_doubtful(text, dialect) else (SCAN[dialect],)
    # Under any of them the server may execute the comments that have a version, or not.
    with_versions = dialect == "mysql" and _executed(text)
    return (*patterns, *_WITHOUT[: len(patterns)]) if with_versions else patterns


def hidden(text: str, dialect: str) -> Iterator[tuple[int, int]]:
    """Yield (begin, end) of each part that is a string or a comment under a possible reading."""
    spans = sorted(
        match.span()
        for pattern in possible(text, dialect)
        for match in pattern.finditer(text)
        if match.lastgroup in {"gap", "string"}
    )
    begin = end = 0
    for one, other in spans:
        if one >= end:
            if end > begin:
                yield begin, end
            begin = one
        end = max(end, other)
    if end > begin:
        yield begin, end


def executed(text: str, dialect: str) -> Sequence[str]:
    """Return an SQL text as each server may execute it: with its comments that have a version.

    A server executes those up to its own version, by its maker, and the others are comments.  For
    each choice there is a text without these comments.  The result is empty if there are too many
    for the length of the text.
    """
    if dialect != "mysql" or not _executed(text):
        return [text]
    scans = _WITH_MARKS if is_doubtful(text, dialect) else _WITH_MARKS[:1]
    # A part of a string for one server may be a comment for the next.
    versions = {match["version"] for match in _VERSION.finditer(text.lower())}
    most = max(_MOST_TEXTS, _MOST_CHARACTERS // len(text))
    choices = _choices(versions) if len(versions) < most else ()
    if not 0 < len(choices) <= most:
        return []
    texts = {_unversioned(text, scan, chosen): None for scan in scans for chosen in choices}
    return [*texts]


def _choices(versions: AbstractSet[str]) -> AbstractSet[frozenset[str]]:
    """Return which of the versions in a text's comments a server executes, for each server.

    The source is https://mariadb.com/kb/en/comment-syntax/.  Old versions of MySQL read no more
    than five digits.  A server may also execute none, as where the comments are in another one.
    """
    numbers = {one: int(one.lstrip("m!") or 0) for one in versions}
    mysql = {one: number for one, number in numbers.items() if one[0] == "!"}
    makers = (
        mysql,
        {one: int(one[1:6] or 0) for one in mysql},
        {one: number for one, number in numbers.items() if one[0] == "m" or number not in _FOREIGN},
        # MariaDB before these versions of MySQL
        {one: number for one, number in numbers.items() if number < _FOREIGN.start},
    )
    return {frozenset()} | {
        frozenset(one for one, number in maker.items() if number <= own)
        for maker in makers
        for own in maker.values()
    }


def _unversioned(text: str, scan: re.Pattern[str], versions: AbstractSet[str]) -> str:
    """Return a text without its comments that have a version, or, of `versions`, their begins."""
    parts, at, inside = [], 0, False
    while (match := scan.search(text, at)) is not None:
        parts.append(text[at : match.start()])
        at, part = match.end(), match[0]
        if match.lastgroup == "version":
            inside = match[1].lower() in versions
            skipped = None if inside else _SKIPPED.match(text, match.start())
            at, part = skipped.end() if skipped else at, " "
        elif match.lastgroup == "end":
            # Outside of such a comment, the first character is a multiplication.
            at, part = (at, " ") if inside else (match.start() + 1, "*")
            inside = False
        parts.append(part)
    return "".join([*parts, text[at:]])


def _executed(text: str) -> bool:
    """Return whether a text has a comment that some servers of MySQL or MariaDB execute."""
    return "/*!" in text or "/*m!" in text.lower()


def _spans(text: str, pattern: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    return (match.span() for match in pattern.finditer(text) if match.lastgroup == "string")
