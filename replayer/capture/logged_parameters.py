"""Parameters of statements, read from the DETAIL of entries in a PostgreSQL log."""

import re

from replayer.capture.inputs import CUT

CUT_VALUE = "parameters cut by log_parameter_max_length"
NO_VALUES = "parameters that the log does not have"
_VALUE = re.compile(r"\$\d+ = (NULL|'[^']*(?:''[^']*)*')")
_DOTS = "..."
_LONGEST_CHARACTER = 4
"""Bytes of the longest character of any encoding of PostgreSQL."""
_PLACE = re.compile(r"(?<![\w$])\$\d")


class LoggedParameters:
    """A reader of statements' parameters from a PostgreSQL log, all of which have one limit.

    The server cuts a value that has more bytes than the limit, and puts dots at its end.  The
    reader remembers the longest complete value, which the limit allows, to detect cut values.
    """

    def __init__(self) -> None:
        self._longest = 0
        """Bytes of the longest value that was certainly not cut."""

    def read(self, detail: str, text: str) -> tuple[tuple[str | None, ...] | None, str]:
        """Return (parameters, ""), or (None, reason in words) if the log lacks a parameter's value.

        `detail` is the DETAIL of the statement's entry, `text` the statement.  Parameters are
        texts, None for NULL; () if the statement has none.
        """
        at = detail.find("arameters: ")
        if at < 0:
            return (None, NO_VALUES) if has_places(text) else ((), "")
        logged = _VALUE.findall(detail, at + 11)
        if not logged or CUT in detail or not detail.endswith(logged[-1]):
            return None, CUT_VALUE
        values = tuple([_unquoted(value) for value in logged])
        if "...'" not in detail and detail.isascii():
            # Without its two quotes, a logged value has no fewer bytes than the value.
            if max(map(len, logged)) - 2 > self._longest:
                self._longest = max(self._longest, 0, *map(len, filter(None, values)))
            return values, ""
        known = [value for value in values if value is not None]
        whole = [value for value in known if not value.endswith(_DOTS)]
        self._longest = max(self._longest, 0, *map(_bytes, whole))
        if any(self._may_be_cut(value) for value in known):
            return None, CUT_VALUE
        return values, ""

    def _may_be_cut(self, value: str) -> bool:
        """Return whether a value ends with dots that may stand for what the server cut off.

        If the log has a complete value that is longer than the part before the dots, the dots
        belong to the value.  The server cuts before a whole character, so a part may be shorter
        than the limit by 3 bytes.
        """
        return value.endswith(_DOTS) and (
            _bytes(value) - len(_DOTS) + _LONGEST_CHARACTER - 1 >= self._longest
        )


def has_places(text: str) -> bool:
    """Return whether a statement's text has places for parameters, such as $1.

    A $1 in a string, in a comment or in a name is none.
    """
    if _PLACE.search(text) is None:
        return False
    from replayer.capture.readings import SCAN  # noqa: PLC0415 - few texts need it

    found = (match for match in SCAN["postgres"].finditer(text) if match["parameter"])
    return any(_PLACE.match(text, match.start()) for match in found)


def _unquoted(value: str) -> str | None:
    if value == "NULL":
        return None
    return value[1:-1].replace("''", "'") if "''" in value else value[1:-1]


def _bytes(value: str) -> int:
    """Return the number of bytes of a value; a byte that is not UTF-8 is a lone surrogate."""
    return len(value) if value.isascii() else len(value.encode("utf-8", "replace"))
