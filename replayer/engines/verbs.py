"""Verbs: the operations that replayer needs of engines, and an engine's SQL for each.

Each verb is declared as a constant in the module that uses it.  A verb file that no module uses is
an error, so that a misspelt name is found.  The declared verbs are read from the modules' sources,
because importing all modules takes seconds; a contract test does import them, and compares.
"""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import replayer
from replayer.errors import Impossible, ReplayerError, nearest

_ASKING = ("servers", "tables", "load", "capture", "steps", "sizing", "engines")
"""The packages that use databases."""
_IMPORT = re.compile(
    rf"^from {re.escape(__name__)} import (?:\([^)]*?|.*?)\bVerbName\b(?: as (\w+))?", re.MULTILINE
)
_LIST = re.compile(r"^VERBS\b[^=\n]*=\s*[(\[]([^)\]]*)", re.MULTILINE)
"""Pattern of the list of verbs in a collector, a low layer that cannot import VerbName."""
_QUOTED = r"""["']([^"'\n]+)["']"""
_HOLE = re.compile(r"\{\{(\w+)\}\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_SEPARATOR = re.compile(r"^-- then\s*$", re.MULTILINE)
_WORD = re.compile(r"\{(\w+)\}")


class VerbName(str):
    """The name of a verb: an operation whose SQL an engine provides, such as `table/scan`.

    In `{layout}/double`, `{layout}` stands for the folder of any table layout.  Any other word in
    braces stands for a name that the engine defines.  The method `of` fills them in.  A verb is
    declared by `VerbName("...")` with a string literal: the names are read from the source code.
    """

    __slots__ = ()

    def of(self, **words: str) -> "VerbName":
        """Return the name with its placeholders replaced, as in `of(layout="rowstore")`."""
        return VerbName(self.format(**words))

    def is_for(self, name: str, layouts: list[str]) -> bool:
        """Return whether the SQL file `name` of an engine belongs to this verb.

        `layouts` are the engine's table layouts, which may stand in place of `{layout}`.
        """
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
    """One operation of an engine, with the text of its SQL file."""

    name: str
    path: Path
    text: str

    def statements(self, **holes: str | int) -> tuple[str, ...]:
        """Return the statements with every `{{hole}}` filled.

        A hole takes an integer or a plain identifier, so that no other text ever becomes SQL.
        Raises Impossible for any other value, ReplayerError for a hole without a value.
        """

        def fill(hole: re.Match[str]) -> str:
            if hole[1] not in holes:
                raise ReplayerError(
                    f"{self.path}: nothing was given for {{{{{hole[1]}}}}}{nearest(hole[1], holes)}"
                )
            return _safe(hole[1], holes[hole[1]])

        parts = _SEPARATOR.split(_HOLE.sub(fill, self.text))
        return tuple(part.strip() for part in parts if has_sql(part))


@functools.cache
def declared() -> frozenset[VerbName]:
    """Return the name of every verb that any module uses, read from the modules' source code."""
    return frozenset(map(VerbName, asking()))


@functools.cache
def asking() -> Mapping[str, tuple[str, ...]]:
    """Return name of a declared verb -> the modules that use it, as `package.module`."""
    root = Path(replayer.__file__).parent
    found: dict[str, list[str]] = {}
    for package in (*_ASKING, "collectors"):
        for path in sorted((root / package).rglob("*.py")):
            source = path.read_text(encoding="utf-8")
            module = ".".join(path.relative_to(root).with_suffix("").parts)
            for name in sorted(_named(source, listed=package == "collectors")):
                found.setdefault(name, []).append(module.removesuffix(".__init__"))
    return {name: tuple(modules) for name, modules in found.items()}


def _named(source: str, *, listed: bool) -> set[str]:
    """Return the names of the verbs that a module's source code declares.

    `listed` is True for a collector: it has a list of plain names instead of VerbName objects.
    """
    if listed:
        return {name for one in _LIST.findall(source) for name in re.findall(_QUOTED, one)}
    imported = _IMPORT.search(source)
    if not imported:
        return set()
    called = imported[1] or VerbName.__name__
    return set(re.findall(rf"\b{called}\(\s*{_QUOTED}", source))


def is_declared(name: str, layouts: list[str]) -> bool:
    """Return whether any module uses the SQL file `name` of an engine with these table layouts."""
    if name in declared():
        return True
    return any(asked.is_for(name, layouts) for asked in declared() if "{" in asked)


def names(layouts: list[str]) -> list[str]:
    """Return the sorted names of the SQL files that an engine with these table layouts may have."""
    return sorted(
        {
            asked.replace("{layout}", layout)
            for asked in declared()
            for layout in (layouts or ["rowstore"])
        }
    )


def has_sql(text: str) -> bool:
    """Return whether a text has more than comments."""
    lines = (line.strip() for line in text.splitlines())
    return any(line and not line.startswith("--") for line in lines)


def _safe(hole: str, value: str | int) -> str:
    if isinstance(value, int) or _NAME.fullmatch(value):
        return str(value)
    raise Impossible(f"{value!r} cannot be the {hole} of an SQL statement: it must be a plain name")
