"""Tables that COPY FROM STDIN fills, as the names of files with their data.

Logs do not have the data.  A replay takes it from files in a folder that the user gives.
"""

import re
from urllib.parse import quote

_GAP = r"(?:\s|/\*.*?\*/|--[^\n]*\n)"
_NAME = r'("(?:[^"]|"")+"|[^\W\d][\w$]*)'
_BEGIN = re.compile(
    rf"{_GAP}*copy{_GAP}+(?:binary{_GAP}+)?{_NAME}(?:{_GAP}*\.{_GAP}*{_NAME})?{_GAP}*"
    rf"(?:\((?:[^()\"]|\"(?:[^\"]|\"\")*\")*\){_GAP}*)?from{_GAP}+stdin\b",
    re.IGNORECASE | re.DOTALL,
)
_ANY = re.compile(r"\bcopy\b[^;]*?\bfrom\s+stdin\b", re.IGNORECASE | re.DOTALL)
_STRANGE = re.compile(r"[%./\\\x00-\x1f\ud800-\udfff]")
SEVERAL = ""
"""The value instead of a table, if the table of the data cannot be known."""


def copied(text: str) -> str | None:
    """Return the table that a text fills with data from the client; None for any other text.

    The table is `schema.table`, or `table` if the text has no schema, in the server's spelling.
    Dots and characters that a file name cannot have are written as %2F and the like.
    """
    if "stdin" not in text and "STDIN" not in text:
        return None
    match = _BEGIN.match(text)
    if match is not None and len(_ANY.findall(text)) == 1:
        return ".".join(_spelled(part) for part in match.groups() if part)
    from replayer.capture.fingerprint import cheap_form  # noqa: PLC0415 - readers parse no SQL

    return SEVERAL if _ANY.search(cheap_form(text, "postgres")) else None


def _spelled(name: str) -> str:
    plain = name[1:-1].replace('""', '"') if name.startswith('"') else name.lower()
    return _STRANGE.sub(_escaped, plain)


def _escaped(match: re.Match[str]) -> str:
    return "%2E" if match[0] == "." else quote(match[0], safe="", errors="surrogatepass")
