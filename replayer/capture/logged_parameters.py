"""Parameters of statements, read from the DETAIL of entries in a PostgreSQL log."""

import re

from replayer.capture.inputs import CUT

CUT_VALUE = "parameters cut by log_parameter_max_length"
NO_VALUES = "parameters that the log does not have"
_VALUE = re.compile(r"\$\d+ = (NULL|'[^']*(?:''[^']*)*')")
_PLACE = re.compile(r"(?<![\w$])\$\d")


class LoggedParameters:
    """A reader of statements' parameters from a PostgreSQL log.

    It remembers the longest complete value of the log, to detect values that the server cut.
    """

    def __init__(self) -> None:
        self._longest = 0

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
        longest = max(map(len, logged))
        if "...'" in detail:
            if self._cut(logged):
                return None, CUT_VALUE
        elif longest > self._longest:
            self._longest = longest
        return tuple([_unquoted(value) for value in logged]), ""

    def _cut(self, logged: list[str]) -> bool:
        """Return whether the server cut a value in the log; it puts dots at the end of such a one.

        `logged` are the values of one statement with their quotes.  If the log has a complete value
        that is longer than the part before the dots, the dots belong to the value.
        """
        whole = [len(value) for value in logged if not value.endswith("...'")]
        self._longest = max(self._longest, *whole, 0)
        return any(len(value) - 3 >= self._longest for value in logged if value.endswith("...'"))


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
