"""A table of all verbs, with the parameters and columns of each, its users, engines without it.

A verb is an operation for which engines have an SQL file each.  Its users are modules of replayer.
The columns are declared here; `replayer check --prove` and a test compare them with real rows.  All
else is read from the modules' sources and from the engines' SQL files.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from replayer import assets
from replayer.engines import engine, verbs
from replayer.engines.engine import Engine
from replayer.errors import ReplayerError

_COMMENT = re.compile(r"--.*$", re.MULTILINE)
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]\w*)")
_HOLE = re.compile(r"\{\{(\w+)\}\}")
_SUMS = ("rows", "id_sum", "lastname_sum")

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "buffercache": ("schema", "allowed"),
    "buffered": ("bytes",),
    "claim": ("ours",),
    "counters": ("clock", "hits", "reads"),
    "dirty": ("dirty",),
    "evict": ("kept", "how"),
    "extensions": ("name", "version"),
    "files": ("path",),
    "holder": ("session", "name", "account", "address", "since", "heard"),
    "location": ("directory", "file", "content", "process"),
    "lock": ("locked",),
    "lock_database": ("locked",),
    "mix/ended": ("ended",),
    "mix/others": ("pid", "began", "hits", "reads", "quiet", "in_transaction", "ours"),
    "mix/waits": ("wait", "sessions"),
    "mix/workers": (
        "parallel_hits", "parallel_reads", "vacuum_hits", "vacuum_reads", "hits", "reads",
        "launched",
    ),
    "replay/effects": ("table_name", "effect", "affected"),
    "replay/guarded": ("table_name", "column_name"),
    "rights": ("verb", "what", "allowed", "grants"),
    "settings": ("name", "value"),
    "slob/files": ("path",),
    "slob/slice": (
        "window_left", "updates_left", "selects", "updates", "deadlocks", "began", "ended",
        "reads", "hits", "select_max", "update_max", "select_histogram", "update_histogram",
    ),
    "slob/tables": ("name", "ours", "made_as"),
    "slob/updates": ("updated", "hot"),
    "table/count": _SUMS,
    "table/doublings": ("doubling", "rows", "seconds", "table_bytes", "wal_bytes"),
    "table/found": ("name", "ours"),
    "table/segments": ("segment", "doubling", "first_row", "rows"),
    "table/state": ("layout", "compression", "segment_rows", "rows_wanted", "doubling", "rows"),
    "version": ("version", "major"),
    "{layout}/compressions": ("name",),
    "{layout}/estimate": ("table_bytes", "wal_bytes"),
    "{layout}/locks": ("needed", "available", "setting", "value"),
}  # fmt: skip
"""Verb -> the columns that replayer reads by name from its rows.

For a verb that is not a key here, replayer reads no row, or only the first column.
"""


@dataclass(frozen=True)
class VerbEntry:
    """One verb (an operation for which engines have SQL files), and what such a file must do."""

    name: str
    asked_by: tuple[str, ...]
    """Modules that use the verb, without `replayer.` in their names."""
    parameters: tuple[str, ...]
    """`:name` parameters and `{{name}}` identifiers that engines' files use."""
    columns: tuple[str, ...]
    lacking: tuple[str, ...]
    """Engines that leave the verb out; none if every engine has it."""

    @property
    def may_be_left_out(self) -> bool:
        """Return whether at least one engine does not have an SQL file for this verb."""
        return bool(self.lacking)


def pattern_of(name: str) -> str:
    """Return the name by which modules declare an SQL file (verb), with placeholders in braces.

    For rowstore/double this is `{layout}/double`.  A name that is not declared is returned
    unchanged.
    """
    declared = verbs.declared()
    if name in declared:
        return name
    rest = name.partition("/")[2]
    pattern = "{layout}/" + ("store_{compression}" if rest.startswith("store_") else rest)
    return pattern if pattern in declared else name


def list_verbs() -> list[VerbEntry]:
    """Return an entry for every verb (operation that engines have SQL files for), sorted by name.

    Engines that cannot be read are left out of the entries.
    """
    engines = [*_readable()]
    asking = verbs.asking()
    return [_entry(name, asking[name], engines) for name in sorted(asking)]


def _readable() -> Sequence[Engine]:
    engines = []
    for name in assets.engines():
        try:
            engines.append(engine.checked(name))
        except ReplayerError:
            # `replayer list engines` reports it.
            continue
    return engines


def _entry(name: str, asked_by: tuple[str, ...], engines: Sequence[Engine]) -> VerbEntry:
    texts: list[str] = []
    lacking: list[str] = []
    for one in engines:
        files = [file for file in one.verbs() if pattern_of(file) == name]
        known = [verb for verb in map(one.newest, files) if verb is not None]
        texts += [_COMMENT.sub("", verb.text) for verb in known]
        lacking += [] if known else [one.name]
    names = {f":{word}" for text in texts for word in _PARAMETER.findall(_unquoted(text))}
    holes = {f"{{{{{word}}}}}" for text in texts for word in _HOLE.findall(text)}
    return VerbEntry(
        name, asked_by, (*sorted(names), *sorted(holes)), COLUMNS.get(name, ()), tuple(lacking)
    )


def _unquoted(text: str) -> str:
    """Return SQL without its quoted texts, which may hold a colon."""
    return re.sub(r"'[^']*'", "''", text)
