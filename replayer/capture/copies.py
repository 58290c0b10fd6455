"""Names of the tables that COPY FROM STDIN fills.

Logs do not have the data of such a COPY.  A replay takes it from files in a folder that the user
gives; each file has the name of its table.
"""

import re
from urllib.parse import quote

# Possessive: a text of many comments would be tried in as many ways as they can be put together.
_ONE = r"(?>\s|/\*.*?\*/|--[^\n]*\n)"
_GAP, _MAYBE = rf"{_ONE}++", rf"{_ONE}*+"
_NAME = r'("(?:[^"]|"")++"|[^\W\d][\w$]*+)'
_COLUMNS = r"\((?:[^()\"]|\"(?:[^\"]|\"\")*+\")*+\)"
_COPY = re.compile(
    rf"{_MAYBE}copy{_GAP}(?:binary{_GAP})?{_NAME}(?:{_MAYBE}\.{_MAYBE}{_NAME})?"
    rf"(?:{_MAYBE}\.{_MAYBE}{_NAME})?{_MAYBE}(?:{_COLUMNS}{_MAYBE})?from{_GAP}stdin\b",
    re.IGNORECASE | re.DOTALL,
)
_ANY = re.compile(
    rf"\bcopy\b(?:\"[^\"]*\"|(?!\bcopy\b)[^;\"])*?\bfrom{_GAP}stdin\b",
    re.IGNORECASE | re.DOTALL,
)
_LARGE = re.compile(r"[A-Z]+")
_STRANGE = re.compile(r"[%./\\\x00-\x1f\ud800-\udfff]")
SEVERAL = ""
"""The value instead of a table, if the table of the data cannot be known."""


def copied(text: str) -> str | None:
    """Return the table that the COPY FROM STDIN in an SQL text fills; None if it has no such COPY.

    The table is `schema.table`, or `table` if the text has no schema, in the server's spelling.
    Dots and characters that a file name cannot have are written as %2F and the like.  The text may
    have other statements, too.  With several COPY FROM STDIN, or with one that is not understood,
    the result is SEVERAL, which is "".
    """
    if "stdin" not in text.lower():
        return None
    match = _COPY.match(text)
    if match is not None and _ANY.search(text, match.end()) is None:
        return _named(match)
    from replayer.capture.fingerprint import cheap_form  # noqa: PLC0415 - readers parse no SQL

    plain = cheap_form(text, "postgres")
    many = len(_ANY.findall(plain))
    if many != 1:
        return SEVERAL if many else None
    found = [match for part in plain.split(";") if (match := _COPY.match(part)) is not None]
    return _named(found[0]) if found else SEVERAL


def adds_rows(text: str) -> bool:
    """Return whether an SQL text is a COPY FROM STDIN without another statement after it.

    Such a text only adds rows.
    """
    return _COPY.match(text) is not None and ";" not in text.rstrip("; \n")


def _named(match: re.Match[str]) -> str:
    # A name in front of both is that of the database.
    named = [part for part in match.groups() if part]
    return ".".join(_spelled(part) for part in named[-2:])


def _spelled(name: str) -> str:
    # A server that stores UTF-8 makes only the letters of ASCII small.
    plain = name[1:-1].replace('""', '"') if name.startswith('"') else _LARGE.sub(_small, name)
    return _STRANGE.sub(_escaped, plain)


def _small(match: re.Match[str]) -> str:
    return match[0].lower()


def _escaped(match: re.Match[str]) -> str:
    return "%2E" if match[0] == "." else quote(match[0], safe="", errors="surrogatepass")
