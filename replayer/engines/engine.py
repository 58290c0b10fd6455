"""Engines: folders in schemas/ that describe how a database is named, reached and used.

A verb is an SQL file, `<verb>.sql` or `<layout>/<verb>.sql`.  `<verb>.18.sql` replaces it on
servers of major version 18 or later.  `like = "other"` in engine.toml inherits every verb and key.

In a verb file `:name` is a parameter, and `{{name}}` is an identifier or a number that is inserted
as text.  A line `-- then` separates statements that are executed one by one.  A line `-- include
NAME` is replaced by the text of NAME.sql.  That file is looked up as a verb is: first in the engine
in use, so that an engine can have its own version of a part of an inherited verb.  A file that
includes its own name gets the file that it overrides.  `parts/` contains files that are only
included.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from replayer import assets, own_plugins
from replayer.engines import verbs
from replayer.engines.engine_spec import OWN, EngineSpec, explain
from replayer.engines.verbs import Verb, VerbName, has_sql
from replayer.errors import Impossible, NotFound, Skip, nearest

_INCLUDE = re.compile(r"^[ \t]*-- include (\S+)[ \t]*$", re.MULTILINE)
_SINCE = re.compile(r"\.(\d+)\.sql$")
_PARTS = "parts/"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,40}")


@dataclass(frozen=True)
class Engine:
    """A kind of database, as a folder of schemas/ and the folders that it inherits describe it.

    The first of `folders` is its own.  `version` is the server's major version, None if not known.
    """

    name: str
    folders: tuple[Path, ...]
    spec: EngineSpec
    version: int | None = None

    def at(self, version: int) -> "Engine":
        """Return a copy of this engine, for servers of the major version `version`."""
        return replace(self, version=version)

    @cached_property
    def title(self) -> str:
        """Return the engine's name for display, such as PostgreSQL."""
        return self.spec.title or self.name

    @property
    def wire(self) -> str:
        """Return the scheme of the engine's URLs for SQLAlchemy, such as postgresql+psycopg."""
        return self.spec.wire

    @property
    def block_size(self) -> int:
        """Return the size of a database block in bytes."""
        return self.spec.block_size

    def layouts(self) -> list[str]:
        """Return the sorted names of the engine's table layouts, such as rowstore.

        A layout is a folder with double.sql, the SQL that doubles a table.  A folder with grow.sql
        counts too, if engine.toml lists it in [layouts].
        """
        doubled = {path.parent.name for one in self.folders for path in one.glob("*/double.sql")}
        grown = {path.parent.name for one in self.folders for path in one.glob("*/grow.sql")}
        return sorted(doubled | (grown & self.spec.layouts.keys()))

    def verbs(self) -> list[str]:
        """Return the sorted names of the engine's SQL files (verbs), inherited ones included."""
        return sorted(name for name in self._files if not name.startswith(_PARTS))

    def verb(self, name: VerbName) -> Verb | None:
        """Return the verb (one operation and its SQL) for the version of this engine's server.

        Returns None if the engine does not have it.
        """
        return self.named(name)

    def named(self, name: str) -> Verb | None:
        """Return the verb of a name for this server's version, None if the engine has none.

        Unlike `verb`, it takes any text as the name.
        """
        return self._find(name, self.version or 0)

    def newest(self, name: str) -> Verb | None:
        """Return the verb (operation and its SQL) of a name; None if no server version has it.

        If several versions have it, it is the verb for the newest one.
        """
        known = [verb for number in self._versions if (verb := self._find(name, number))]
        return known[-1] if known else None

    def _find(self, name: str, version: int) -> Verb | None:
        files = self._files_on(version, name)
        if not files:
            return None
        text = self._text(name, version)
        # A file without SQL removes an inherited verb: the engine does not support it.
        return Verb(name, files[0], text) if has_sql(text) else None

    def since(self, name: str) -> int | None:
        """Return the first major version of the server for which the engine has a verb (SQL file).

        Returns 0 if the verb is for all versions, None if the engine does not have it.
        """
        return next((number for number in self._versions if self._find(name, number)), None)

    def needs(self, name: VerbName) -> Verb:
        """Return the verb (operation and its SQL); raise Skip if the engine does not have it.

        An SQL file with only comments removes an inherited verb, and these comments are the reason.
        """
        verb = self.verb(name)
        if verb is None:
            raise Skip(self.why_not(name))
        return verb

    def optional(self, name: VerbName) -> Verb | None:
        """Return the verb (operation and its SQL), or None if its SQL file has no statement.

        Raises Skip if there is no such file.
        """
        verb = self.verb(name)
        if verb is None and not self._files_on(self.version or 0, name):
            raise Skip(self.why_not(name))
        return verb

    def why_not(self, name: VerbName) -> str:
        """Return why the engine does not have a verb (an SQL file), as part of a sentence."""
        version = self.version or 0
        known = self._files_on(version, name)
        reason = _comments(self._text(name, version)) if known else ""
        return (
            f"{self.title}: {reason}"
            if reason
            else f"{self.title} has no {name}.sql in {self._place}"
        )

    @property
    def _place(self) -> str:
        """Return the folder in which the engine's own files are, as messages name it."""
        return str(self.folders[0]) if self._is_own else f"schemas/{self.name}"

    @property
    def _is_own(self) -> bool:
        return self.folders[0].parent in assets.own_schemas()

    def check(self) -> None:
        """Raise Impossible if the engine's folder has a file that cannot be used.

        That is a file that no module uses, that no other file includes, or that cannot be read.
        The engine.toml was checked when it was loaded.  An inherited engine is checked separately.
        """
        layouts = self.layouts()
        self._check_layouts(layouts)
        for version in self._versions:
            for name in self.verbs():
                self._find(name, version)
        paths = [path for files in self._files.values() for _, path in files]
        included = {name for path in paths for name in _INCLUDE.findall(self._read(path))}
        for name, _, path in _sql_files(self.folders[0]):
            if name.startswith(_PARTS) and name not in included:
                raise Impossible(f"{path}: no verb includes {name}{nearest(name, included)}")
            if not name.startswith(_PARTS) and not verbs.is_declared(name, layouts):
                known = nearest(name, verbs.names(layouts))
                raise Impossible(f"{path}: no step uses the verb {name}{known}")

    def check_own(self) -> None:
        """Raise Impossible if an engine in a user's folder has a file that cannot be used.

        Replayer's own engines pass without a check: tests check them.
        """
        if self._is_own:
            self.check()

    def _check_layouts(self, layouts: list[str]) -> None:
        path = self.folders[0] / "engine.toml"
        for name in self.spec.layouts:
            if name not in layouts:
                raise Impossible(
                    f"{path}: [layouts.{name}] has no {name}/double.sql and no {name}/grow.sql"
                )
        if self.spec.layout not in {"", *layouts}:
            raise Impossible(
                f"{path}: layout = {self.spec.layout!r} has no {self.spec.layout}/double.sql"
                f"{nearest(self.spec.layout, layouts)}"
            )

    @cached_property
    def _versions(self) -> list[int]:
        """Return 0 and each major version from which on an SQL file is replaced, sorted."""
        return sorted({0, *(number for files in self._files.values() for number, _ in files)})

    def _text(
        self, name: str, version: int, place: int = 0, above: tuple[tuple[str, int], ...] = ()
    ) -> str:
        """Return the text of an SQL file, with included files in place of its `-- include` lines.

        `place` is an index of `_files_on`: 0 is the file in force, 1 is the file that it overrides.
        `above` are the files that are just being included, to find a file that includes itself.
        """
        path = self._files_on(version, name)[place]
        here = (*above, (name, place))

        def part(line: re.Match[str]) -> str:
            wanted = line[1]
            # Including its own name means the file that it overrides.
            one = (wanted, place + 1 if wanted == name else 0)
            if len(self._files_on(version, wanted)) <= one[1]:
                known = nearest(wanted, self._files)
                raise Impossible(f"{path}: it includes {wanted}, which is not there{known}")
            if one in here:
                raise Impossible(f"{path}: it includes {wanted}, which includes it again")
            return self._text(wanted, version, one[1], here).rstrip("\n")

        return _INCLUDE.sub(part, self._read(path))

    def _files_on(self, version: int, name: str) -> Sequence[Path]:
        """Return the SQL files with a name for a server's version; each overrides the next ones."""
        return [path for number, path in self._files.get(name, ()) if number <= version]

    def _read(self, path: Path) -> str:
        """Return the text of a file, and keep it: each file is needed for several versions.

        Lines end with a newline alone, also where an editor of Windows wrote the file.
        """
        if path not in self._texts:
            self._texts[path] = assets.text(path).replace("\r\n", "\n")
        return self._texts[path]

    @cached_property
    def _texts(self) -> dict[Path, str]:
        """Return path -> text of the files that `_read` has read so far."""
        return {}

    @cached_property
    def _files(self) -> Mapping[str, Sequence[tuple[int, Path]]]:
        """Return name of an SQL file -> (first server version, path) of each file with that name.

        The files are sorted so that each comes before those that it overrides.
        """
        known: dict[str, list[tuple[int, Path]]] = {}
        for folder in self.folders:
            for name, number, path in _sql_files(folder):
                known.setdefault(name, []).append((number, path))
        return known


def load(name: str) -> Engine:
    """Return the engine of that name.

    Raises NotFound for a name without a folder, Impossible for an engine.toml that is unreadable or
    has invalid content.
    """
    return _load(name, assets.engines())


def _load(name: str, known: Mapping[str, Path]) -> Engine:
    folders, table = _inherited(name, (), known)
    return Engine(name, folders, _spec(folders[0] / "engine.toml", table))


def _inherited(
    name: str, heirs: tuple[str, ...], known: Mapping[str, Path]
) -> tuple[tuple[Path, ...], Mapping[str, Any]]:
    """Return the folders of an engine and of all engines that it inherits, and their merged keys.

    `known` is name -> folder of every engine.  `heirs` are the engines that inherit this one, so
    that an engine which inherits itself is found.
    """
    if name not in known:
        url = "; a server that runs is given as a URL, such as postgresql://user@host/database"
        end = f"{url}{assets.useless_schemas()}"
        raise NotFound(f"there is no engine {name!r}{nearest(name, known)}{end}")
    path = known[name] / "engine.toml"
    own = _read_keys(path)
    parent = own.get("like")
    if parent is None:
        return (known[name],), own
    others = known.keys() - {name, *heirs}
    if not isinstance(parent, str) or parent not in others:
        raise Impossible(f"{path}: like = {parent!r}{nearest(str(parent), others)}")
    folders, table = _inherited(parent, (*heirs, name), known)
    # An error in that file is reported for that file, not for the inheriting one.
    _spec(folders[0] / "engine.toml", table)
    inherited = {key: value for key, value in table.items() if key not in OWN}
    return (known[name], *folders), _merge(inherited, own)


def _read_keys(path: Path) -> Mapping[str, Any]:
    """Return the keys of an engine.toml, which may be commands.

    For root, raises Impossible if another user could change a file of a user's own engine.
    """
    if os.geteuid() == 0 and path.parent.parent in assets.own_schemas():
        own_plugins.trust(path.parent, "the engine")
    return assets.toml(path)


def checked(name: str) -> Engine:
    """Return the engine of that name after checking all its files.

    Raises NotFound if there is no such engine, Impossible if a file of it cannot be used.
    """
    loaded = load(name)
    loaded.check()
    return loaded


def default() -> str:
    """Return the default engine's name: its engine.toml has `default = true`.

    Raises Impossible if no engine has that; the message includes the first unreadable engine.toml.
    """
    unread = ""
    known = assets.engines()
    for name in known:
        try:
            if _load(name, known).spec.default:
                return name
        except Impossible as error:
            # An unreadable folder of the user is no reason to refuse another engine.
            unread = unread or f" ({error})"
    raise Impossible(f"no engine.toml has default = true{unread}: name an engine with --engine")


def of_url(url: str) -> Engine:
    """Return the engine for a URL, by the URL's scheme.

    It is the engine that lists the scheme in engine.toml, else the engine with that name.  Raises
    NotFound if there is neither.  Raises Impossible for an engine that is a library, such as
    DuckDB: replayer serves it itself, and it has no URL.
    """
    scheme = _scheme(url)
    listed, known = _listed(), assets.engines()
    if scheme in listed:
        return listed[scheme]
    if not _SCHEME.fullmatch(scheme):
        # Not quoted: the text there may be a password.
        raise NotFound("the part before :// in the database's URL is not the name of an engine")
    if scheme not in known:
        unread = next((f"; {error}" for _, error in _each() if error), "")
        near = nearest(scheme, {*listed, *known})
        raise NotFound(f"no engine is reached by {scheme}://{near}{unread}")
    named = load(scheme)
    if named.spec.server.guest:
        raise Impossible(
            f"{named.title} is a library, which replayer serves itself and no URL reaches: give "
            f"--engine {scheme}, and --data-dir for another folder of its data"
        )
    return named


def alike(url: str, chosen: Engine) -> list[Engine]:
    """Return the engines that may run at a URL, because several engines share its protocol.

    `chosen` is the engine to which the URL's scheme belongs.  The engines in the result have the
    same driver, and a section [recognise], by which the server is asked for its engine.  The
    result is [] if the URL's scheme is the name of one engine.
    """
    if _scheme(url) not in _listed():
        return []
    return [one for one in _every() if one.wire == chosen.wire and one.spec.recognise is not None]


def _scheme(url: str) -> str:
    return url.split(":", 1)[0].split("+", 1)[0]


def _listed() -> dict[str, Engine]:
    return {scheme: one for one in _every() for scheme in one.spec.url_schemes}


def _every() -> list[Engine]:
    """Return all engines that can be read; an engine with an error is left out."""
    return [one for one, _ in _each() if one is not None]


def _each() -> Iterator[tuple[Engine | None, str]]:
    """Yield (engine, "") for each engine that can be read, (None, error) for any other."""
    known = assets.engines()
    for name in known:
        try:
            yield _load(name, known), ""
        except Impossible as error:
            yield None, str(error)


def _spec(path: Path, table: Mapping[str, Any]) -> EngineSpec:
    try:
        return EngineSpec.model_validate(table)
    except ValidationError as error:
        raise Impossible(f"{path}: {explain(error)}") from error


def _merge(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in own.items():
        old = merged.get(key)
        nested = isinstance(old, Mapping) and isinstance(value, Mapping)
        merged[key] = _merge(old, value) if nested else value  # type: ignore[arg-type]
    return merged


def _sql_files(folder: Path) -> list[tuple[str, int, Path]]:
    """Return every SQL file of an engine's folder, sorted by version, newest first.

    An entry is the name (the path without .18 and .sql), the first version (0 for all), the path.
    """
    found = []
    # A layout may be a link to a folder, which rglob does not follow.
    for path in {*folder.rglob("*.sql"), *folder.glob("*/*.sql")}:
        number = _SINCE.search(path.name)
        name = _SINCE.sub(".sql", path.relative_to(folder).as_posix()).removesuffix(".sql")
        found.append((name, int(number[1]) if number else 0, path))
    return sorted(found, key=lambda one: (one[0], -one[1], one[2]))


def _comments(text: str) -> str:
    lines = (line.strip().removeprefix("--").strip() for line in text.splitlines())
    return " ".join(line for line in lines if line).rstrip(".")
