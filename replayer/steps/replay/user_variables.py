"""The values of MySQL's user variables, from which a session may prepare statements."""

import re
from typing import TYPE_CHECKING, Final

from replayer.capture.readings import GAP
from replayer.lazy_import import Later

if TYPE_CHECKING:
    from replayer.capture import fingerprint
else:
    # It loads sqlglot, and few texts have to be read so closely.
    fingerprint = Later("replayer.capture.fingerprint")

_GAP = GAP["mysql"]
_STRING = r"'(?:[^'\\]|\\.|'')*+'|\"(?:[^\"\\]|\\.|\"\")*+\""
_SET: Final = re.compile(
    rf"{_GAP}set{_GAP}@([a-z_]\w*){_GAP}:?={_GAP}({_STRING}){_GAP};?{_GAP}",
    re.IGNORECASE | re.DOTALL,
)
_PREPARING: Final = re.compile(
    rf"{_GAP}(?:prepare|execute{_GAP}immediate)\b", re.IGNORECASE | re.DOTALL
)
_NOTED: Final = re.compile(r"@|\b(?:prepare|execute|call)\b", re.IGNORECASE)
"""Texts that may assign a variable, prepare a statement or execute one."""
# These are of the form without values and comments, in small letters.
_PREPARES: Final = re.compile(
    r"(?P<begin>prepare (?P<name>\S+) ?from|execute immediate) ?"
    r"(?:(?P<variable>@[a-z_]\w*)|'\?')(?P<rest> using [^;]*)?"
)
_EXECUTES: Final = re.compile(r"execute (\S+)(?: using [^;]*)?")
_PREPARED: Final = re.compile(r"(?<!deallocate )(?<!drop )\bprepare\b")
_UNSEEN: Final = re.compile(r"\b(?:execute|call)\b|@[`'\"]")
"""Texts that may set a variable without its plain name."""
_ASSIGNS: Final = re.compile(r"@|\b(?:call|into|execute|prepare)\b|\\\w", re.IGNORECASE)
r"""A statement in a string that has none of these sets no variable; \c may be the letter c."""
_MOST_CHARACTERS = 4 << 20
"""Characters of all known names and values together."""


class UserVariables:
    """Follows which string each session has assigned to its user variables, such as @a.

    It knows a value only from a statement that assigns one literal and nothing else, up to the next
    statement that may assign another.
    """

    def __init__(self) -> None:
        self._known: dict[int, dict[str, str]] = {}
        """Session -> variable, such as `@a` -> literal; or prepared statement -> "".

        Only such prepared statements are there as set no variable.
        """
        self._characters = 0

    def resolve(self, session: int, text: str) -> str:
        """Return a PREPARE or EXECUTE IMMEDIATE of a variable with the literal of its value.

        Comments are left out of it.  Any other text, and one whose variable is not known, stays.
        Call it with each statement of a session; `session` is the session's number.
        """
        if assigned := _SET.fullmatch(text):
            self._remember(session, f"@{assigned[1].lower()}", assigned[2])
            return text
        known = self._known.get(session)
        if not (_PREPARING.match(text) if known is None else _NOTED.search(text)):
            return text
        forms = {form.lower() for form in fingerprint.forms(text, "mysql")}
        alone = next(iter(forms)) if len(forms) == 1 else ""
        if prepares := _PREPARES.fullmatch(alone):
            return self._prepare(session, text, prepares)
        executes = _EXECUTES.fullmatch(alone)
        if known and not (executes and _plain(executes[1]) in known):
            self._forget_changed(session, forms)
        return text

    def end(self, session: int) -> None:
        """Forget the variables of a session."""
        for name in list(self._known.get(session, ())):
            self._forget(session, name)
        self._known.pop(session, None)

    def forget_prepared(self, session: int) -> None:
        """Forget which prepared statements of a session set no variable."""
        for name in [name for name in self._known.get(session, ()) if name[0] != "@"]:
            self._forget(session, name)

    def _prepare(self, session: int, text: str, prepares: re.Match[str]) -> str:
        """Return `resolve` of a text that prepares one statement, and note whether that assigns."""
        variable, name = prepares["variable"], prepares["name"]
        value = self._known.get(session, {}).get(variable, "") if variable else text
        # The text itself begins with the words of PREPARE.
        assigns = not value or _ASSIGNS.search(value, 0 if variable else _begin(text))
        if name is None:
            if assigns:
                self.end(session)
        elif assigns:
            self._forget(session, _plain(name))
        else:
            self._remember(session, _plain(name), "")
        return (
            f"{prepares['begin']} {value}{prepares['rest'] or ''}" if variable and value else text
        )

    def _forget_changed(self, session: int, forms: set[str]) -> None:
        """Forget what a statement of a session may change; `forms` are its forms."""
        if any(_UNSEEN.search(form) for form in forms):
            self.end(session)
            return
        if any(_PREPARED.search(form) for form in forms):
            self.forget_prepared(session)
        for name in list(self._known[session]):
            if name[0] == "@" and any(name in form for form in forms):
                self._forget(session, name)

    def _forget(self, session: int, name: str) -> None:
        known = self._known.get(session, {})
        if name in known:
            self._characters -= len(name) + len(known.pop(name))

    def _remember(self, session: int, name: str, value: str) -> None:
        self._forget(session, name)
        size = len(name) + len(value)
        if size > _MOST_CHARACTERS:
            return
        while self._characters + size > _MOST_CHARACTERS:
            self.end(next(iter(self._known)))
        self._characters += size
        self._known.setdefault(session, {})[name] = value


def _begin(text: str) -> int:
    """Return where the string in a PREPARE or EXECUTE IMMEDIATE may begin."""
    match = _PREPARING.match(text)
    return match.end() if match else 0


def _plain(name: str) -> str:
    """Return the name of a prepared statement without quotes."""
    return name.strip("`")
