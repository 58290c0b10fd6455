"""An engine is a folder in schemas/: how a database is called, reached and told to do things.

A verb is an SQL file, `<verb>.sql` or `<layout>/<verb>.sql`.  `<verb>.18.sql` replaces it on
servers of major version 18 or later.  `like = "other"` in engine.toml inherits every verb and key.

In a verb file `:name` is a parameter, `{{name}}` an identifier or a number put in as text, and a
line `-- then` separates statements that are executed one by one.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from replayer import assets
from replayer.errors import Impossible, NotFound, ReplayerError, Skip, nearest

_HOLE = re.compile(r"\{\{(\w+)\}\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_SEPARATOR = re.compile(r"^-- then\s*$", re.MULTILINE)
_OWN = ("default", "url_schemes", "recognise", "verified", "unverified")
"""Keys that are not inherited: what is inherited is how to speak, not what an engine is."""


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

        def fill(found: re.Match[str]) -> str:
            if found[1] not in holes:
                raise ReplayerError(f"{self.path}: nothing was given for {{{{{found[1]}}}}}")
            return _safe(found[1], holes[found[1]])

        parts = _SEPARATOR.split(_HOLE.sub(fill, self.text))
        return tuple(part.strip() for part in parts if _says_something(part))


@dataclass(frozen=True)
class Engine:
    """A folder of schemas/, with what it inherits; `version` is the server's major, once known."""

    name: str
    folders: tuple[Path, ...]
    keys: Mapping[str, Any]
    version: int | None = None

    def at(self, version: int) -> "Engine":
        """Return this engine on a server of that major version."""
        return replace(self, version=version)

    @cached_property
    def title(self) -> str:
        """Return the name for people."""
        return str(self.keys.get("title", self.name))

    @property
    def wire(self) -> str:
        """Return the SQLAlchemy scheme, e.g. postgresql+psycopg."""
        return str(self.keys["wire"])

    @property
    def block_size(self) -> int:
        """Return the size of a database block in bytes."""
        return int(self.keys["block_size"])

    def layouts(self) -> list[str]:
        """Return the sorted names of the table layouts: the folders with a double verb."""
        found = {
            path.parent.name for folder in self.folders for path in folder.glob("*/double.sql")
        }
        return sorted(found)

    def verbs(self) -> list[str]:
        """Return the sorted names of all verbs, inherited ones included."""
        found = set()
        for folder in self.folders:
            for path in folder.rglob("*.sql"):
                found.add(
                    re.sub(r"\.\d+$", "", path.relative_to(folder).with_suffix("").as_posix())
                )
        return sorted(found)

    def verb(self, name: str) -> Verb | None:
        """Return the verb for this server's version, or None if the engine does not have it."""
        for folder in self.folders:
            path = self._newest(folder, name)
            if path is not None:
                text = path.read_text(encoding="utf-8")
                # An empty file takes an inherited verb away: the engine cannot do it.
                return Verb(name, path, text) if _says_something(text) else None
        return None

    def since(self, name: str) -> int | None:
        """Return the first major version on which there is the verb, 0 for all, None for none."""
        numbers = {
            int(found[1])
            for folder in self.folders
            for path in folder.glob(f"{name}.*.sql")
            if (found := re.search(r"\.(\d+)\.sql$", path.name))
        }
        versions = (0, *sorted(numbers))
        return next((number for number in versions if self.at(number).verb(name)), None)

    def needs(self, name: str) -> Verb:
        """Return the verb; raise Skip with the reason when the engine does not have it.

        A file of nothing but comments takes a verb away, and the comments are the reason.
        """
        found = self.verb(name)
        if found is None:
            raise Skip(self.why_not(name))
        return found

    def why_not(self, name: str) -> str:
        """Return why the engine does not have a verb, as part of one sentence."""
        paths = (self._newest(folder, name) for folder in self.folders)
        path = next((path for path in paths if path is not None), None)
        said = "" if path is None else _comments(path.read_text(encoding="utf-8"))
        return (
            f"{self.title}: {said}"
            if said
            else f"{self.title} has no {name}.sql in schemas/{self.name}"
        )

    def _newest(self, folder: Path, name: str) -> Path | None:
        plain = folder / f"{name}.sql"
        best: tuple[int, Path | None] = (-1, plain if plain.is_file() else None)
        for path in folder.glob(f"{name}.*.sql"):
            since = path.name.removesuffix(".sql").rsplit(".", 1)[1]
            if since.isdigit() and best[0] < int(since) <= (self.version or 0):
                best = (int(since), path)
        return best[1]


def load(name: str) -> Engine:
    """Return the engine of that name.

    Raises NotFound for a name without a folder, Impossible for an engine.toml that cannot be read.
    """
    known = assets.engines()
    if name not in known:
        raise NotFound(f"there is no engine {name!r}{nearest(name, known)}")
    folder = known[name]
    keys = _toml(folder / "engine.toml")
    parent = keys.pop("like", None)
    if parent is None:
        return Engine(name, (folder,), keys)
    if parent == name or parent not in known:
        raise Impossible(
            f"{folder / 'engine.toml'}: like = {parent!r}{nearest(str(parent), known)}"
        )
    base = load(parent)
    inherited = {key: value for key, value in base.keys.items() if key not in _OWN}
    return Engine(name, (folder, *base.folders), _merge(inherited, keys))


def default() -> str:
    """Return the name of the engine of a run that names none: engine.toml has `default = true`."""
    return next(name for name in assets.engines() if load(name).keys.get("default"))


def of_url(url: str) -> Engine:
    """Return the engine that a URL's scheme names: one that lists it, else an engine's own name.

    Raises NotFound when there is neither.
    """
    scheme = _scheme(url)
    listed, known = _listed(), assets.engines()
    if scheme in listed:
        return listed[scheme]
    if scheme not in known:
        raise NotFound(f"no engine is reached by {scheme}://{nearest(scheme, {*listed, *known})}")
    return load(scheme)


def alike(url: str, chosen: Engine) -> list[Engine]:
    """Return the engines that a server at this URL may turn out to be, by their [recognise].

    They speak on the same wire; a URL whose scheme only names an engine leaves no choice.
    """
    if _scheme(url) not in _listed():
        return []
    return [one for one in _every() if one.wire == chosen.wire and "recognise" in one.keys]


def _scheme(url: str) -> str:
    return url.split(":", 1)[0].split("+", 1)[0]


def _listed() -> dict[str, Engine]:
    return {scheme: one for one in _every() for scheme in one.keys.get("url_schemes", ())}


def _every() -> list[Engine]:
    return [load(name) for name in assets.engines()]


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Impossible(f"{path}: {error}") from error


def _merge(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in own.items():
        old = merged.get(key)
        nested = isinstance(old, Mapping) and isinstance(value, Mapping)
        merged[key] = _merge(old, value) if nested else value  # type: ignore[arg-type]
    return merged


def _safe(hole: str, value: str | int) -> str:
    if isinstance(value, int) or _NAME.fullmatch(value):
        return str(value)
    raise Impossible(f"{value!r} cannot be the {hole} of an SQL statement: it must be a plain name")


def _comments(text: str) -> str:
    lines = (line.strip().removeprefix("--").strip() for line in text.splitlines())
    return " ".join(line for line in lines if line).rstrip(".")


def _says_something(text: str) -> bool:
    lines = (line.strip() for line in text.splitlines())
    return any(line and not line.startswith("--") for line in lines)
