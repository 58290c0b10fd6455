"""The values of MySQL's user variables, from which a session may prepare statements."""

import re
from typing import Final

_STRING = r"'(?:[^'\\]|\\.|'')*+'|\"(?:[^\"\\]|\\.|\"\")*+\""
_SET: Final = re.compile(rf"\s*set\s+@(\w+)\s*:?=\s*({_STRING})\s*;?\s*", re.IGNORECASE | re.DOTALL)
_PREPARES: Final = re.compile(
    r"(\s*(?:prepare\s+\S+\s+from|execute\s+immediate)\s*)@(\w+)(\s*;?\s*|\s+using\b.*)",
    re.IGNORECASE | re.DOTALL,
)
_UNSEEN = re.compile(r"\b(?:execute|call)\b|@[`'\"]", re.IGNORECASE)
"""Texts that may set a variable without its plain name."""
_MOST_CHARACTERS = 4 << 20
"""Characters of all known values together."""


class UserVariables:
    """Follows which string each session has assigned to its user variables, such as @a.

    It knows a value only from a statement that assigns one literal and nothing else, up to the next
    statement that may assign another.
    """

    def __init__(self) -> None:
        self._values: dict[int, dict[str, str]] = {}
        self._characters = 0

    def resolve(self, session: int, text: str) -> str:
        """Return a PREPARE or EXECUTE IMMEDIATE of a variable with the literal of its value.

        Any other text, and one whose variable is not known, stays.  Call it with each statement of
        a session; `session` is the session's number.
        """
        known = self._values.get(session)
        if known is None and "@" not in text:
            return text
        if prepares := _PREPARES.fullmatch(text):
            value = (known or {}).get(prepares[2].lower())
            return f"{prepares[1]} {value}{prepares[3]}" if value else text
        if assigned := _SET.fullmatch(text):
            self._remember(session, assigned[1].lower(), assigned[2])
        elif known and _UNSEEN.search(text):
            self.end(session)
        elif known and "@" in text:
            low = text.lower()
            for name in [name for name in known if f"@{name}" in low]:
                del known[name]
        return text

    def end(self, session: int) -> None:
        """Forget the variables of a session."""
        self._values.pop(session, None)

    def _remember(self, session: int, name: str, value: str) -> None:
        self._characters += len(value)
        if self._characters > _MOST_CHARACTERS:
            self._values.clear()
            self._characters = len(value)
        self._values.setdefault(session, {})[name] = value
