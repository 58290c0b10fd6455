"""What an engine is told: which verbs there are, and one in an engine's own words.

Each verb is declared where it is asked for, as a constant of that module.  A verb file that nobody
asks for is an error, so that a misspelt one is not passed over.  Which verbs there are is read from
the modules' sources, as importing all of them takes seconds; a contract test does, and compares.
"""

import functools
import re
from dataclasses import dataclass
from pathlib import Path

import replayer
from replayer.errors import Impossible, ReplayerError

_ASKING = ("servers", "tables", "load", "capture", "steps", "sizing", "engines")
"""The packages that talk to databases."""
_IMPORT = re.compile(
    rf"^from {re.escape(__name__)} import (?:\([^)]*?|.*?)\bVerbName\b(?: as (\w+))?", re.MULTILINE
)
_LIST = re.compile(r"^VERBS\b[^=\n]*=\s*[(\[]([^)\]]*)", re.MULTILINE)
"""The verbs of a collector, which lies too low to know what a verb is."""
_QUOTED = r"""["']([^"'\n]+)["']"""
_HOLE = re.compile(r"\{\{(\w+)\}\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_SEPARATOR = re.compile(r"^-- then\s*$", re.MULTILINE)
_WORD = re.compile(r"\{(\w+)\}")


class VerbName(str):
    """The name of a verb that engines are asked for, such as `table/scan` or `{layout}/double`.

    `{layout}` stands for the folder of any table layout, and any other word in braces for what the
    engine itself names so; `of` puts it in.  A call with a text in quotes declares a verb.
    """

    __slots__ = ()

    def of(self, **words: str) -> "VerbName":
        """Return the verb of one layout, or of another thing that the name has braces for."""
        return VerbName(self.format(**words))

    def is_for(self, name: str, layouts: list[str]) -> bool:
        """Tell whether a verb file of that name, in an engine with these layouts, is asked for."""
        if "{" not in self:
            return self == name
        words = {"layout": "|".join(map(re.escape, layouts)) or "$^"}
        parts = _WORD.split(self)
        pattern = "".join(
            f"(?:{words.get(part, '[a-z0-9_]+')})" if number % 2 else re.escape(part)
            for number, part in enumerate(parts)
        )
        return re.fullmatch(pattern, name) is not None


@dataclass(frozen=True)
class Verb:
    """One thing that an engine can be told to do, in its own words."""

    name: str
    path: Path
    text: str

    def statements(self, **holes: str | int) -> tuple[str, ...]:
        """Return the statements with every `{{hole}}` filled.

        A hole takes a whole number or a plain identifier, so that nothing else ever becomes SQL.
        Raises Impossible for a value that is neither, ReplayerError for a hole left open.
        """

        def fill(hole: re.Match[str]) -> str:
            if hole[1] not in holes:
                raise ReplayerError(f"{self.path}: nothing was given for {{{{{hole[1]}}}}}")
            return _safe(hole[1], holes[hole[1]])

        parts = _SEPARATOR.split(_HOLE.sub(fill, self.text))
        return tuple(part.strip() for part in parts if has_sql(part))


@functools.cache
def declared() -> frozenset[VerbName]:
    """Return every verb that any module asks for, without importing the modules."""
    root = Path(replayer.__file__).parent
    found: set[str] = set()
    for package in _ASKING:
        for path in (root / package).rglob("*.py"):
            source = path.read_text(encoding="utf-8")
            if imported := _IMPORT.search(source):
                called = imported[1] or VerbName.__name__
                found.update(re.findall(rf"\b{called}\(\s*{_QUOTED}", source))
    for path in (root / "collectors").rglob("*.py"):
        for listed in _LIST.findall(path.read_text(encoding="utf-8")):
            found.update(re.findall(_QUOTED, listed))
    return frozenset(map(VerbName, found))


def is_declared(name: str, layouts: list[str]) -> bool:
    """Tell whether a verb file of that name, in an engine with these layouts, is asked for."""
    return any(asked.is_for(name, layouts) for asked in declared())


def names(layouts: list[str]) -> list[str]:
    """Return all verbs as an engine with these layouts would call its files."""
    return sorted(
        {
            asked.replace("{layout}", layout)
            for asked in declared()
            for layout in (layouts or ["rowstore"])
        }
    )


def has_sql(text: str) -> bool:
    """Tell whether there is more in a text than comments."""
    lines = (line.strip() for line in text.splitlines())
    return any(line and not line.startswith("--") for line in lines)


def _safe(hole: str, value: str | int) -> str:
    if isinstance(value, int) or _NAME.fullmatch(value):
        return str(value)
    raise Impossible(f"{value!r} cannot be the {hole} of an SQL statement: it must be a plain name")
