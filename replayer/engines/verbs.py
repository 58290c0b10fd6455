"""What an engine is told: which verbs there are, and one in an engine's own words.

Each verb is declared where it is asked for, as a constant of that module.  A verb file that nobody
asks for is an error, so that a misspelt one is not passed over.
"""

import functools
import importlib
import pkgutil
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import replayer
from replayer import registry
from replayer.errors import Impossible, ReplayerError

_ASKING = ("servers", "tables", "load", "capture", "steps", "sizing")
"""The packages that talk to databases; a contract test holds that no other declares a verb."""
_HOLE = re.compile(r"\{\{(\w+)\}\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_SEPARATOR = re.compile(r"^-- then\s*$", re.MULTILINE)
_WORD = re.compile(r"\{(\w+)\}")
_declared: set["Asked"] = set()


class Asked(str):
    """The name of a verb that engines are asked for, such as `table/scan` or `{layout}/double`.

    `{layout}` stands for the folder of any table layout, and any other word in braces for what the
    engine itself names so; `of` puts it in.
    """

    __slots__ = ()

    def __new__(cls, name: str) -> Self:
        """Declare a verb."""
        asked = super().__new__(cls, name)
        _declared.add(asked)
        return asked

    @classmethod
    def named(cls, name: str) -> "Asked":
        """Return a verb by a name that was declared elsewhere."""
        return super().__new__(cls, name)

    def of(self, **words: str) -> "Asked":
        """Return the verb of one layout, or of another thing that the name has braces for."""
        return super().__new__(Asked, self.format(**words))

    def is_for(self, name: str, layouts: list[str]) -> bool:
        """Tell whether a verb file of that name, in an engine with these layouts, is asked for."""
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
def declared() -> frozenset[Asked]:
    """Return every verb that any module asks for; imports the modules that may."""
    for package in _ASKING:
        folder = Path(replayer.__file__).parent / package
        for module in pkgutil.walk_packages([str(folder)], f"replayer.{package}."):
            importlib.import_module(module.name)
    for name in registry.names("collectors"):
        # They lie too low to know what a verb is.
        for verb in getattr(registry.load("collectors", name), "VERBS", ()):
            Asked(verb)
    return frozenset(_declared)


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
