"""Check whether the key `memory` is possible on this machine, and which values remain if not."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from replayer import units
from replayer.conditions import memory_bound
from replayer.conditions.residency import residency
from replayer.engines.connection import Database
from replayer.errors import Impossible, Skip
from replayer.model import MemoryKind
from replayer.run.context import Context
from replayer.servers import protocol
from replayer.steps.sessions.mixed import mix_of
from replayer.steps.sessions.spec import ServerMemory, Spec, engine_keys
from replayer.tables import pgio, relations
from replayer.tables.pgio import TableSet

_PAGE_CACHE_SHARE = 0.85
_ROOM = 16 << 20
"""Bytes that a proposed memory limit leaves to the page cache; the limit is a multiple of them."""
_TIMES_LIMIT = 16
"""Proposed tables are so many times the memory limit that at most 1 read in 16 is from memory."""


def possible_kind(spec: Spec, context: Context) -> tuple[Spec, list[str]]:
    """Return the keys with a value of `memory` that is possible here, and notes if it was replaced.

    Only the value `direct` is replaced, and only on replayer's own server.  Raises Impossible for
    another value that is not possible there.  On a server that is not replayer's own, raises Skip.
    """
    refused = _refused(spec.memory, spec, context)
    if not refused:
        return spec, []
    if spec.memory == "direct" and context.server.can_stop:
        return instead_of_direct(refused, spec, context)
    error = _impossible(refused, spec, context)
    raise error if context.server.can_stop else Skip(str(error))


def instead_of_direct(refused: str, spec: Spec, context: Context) -> tuple[Spec, list[str]]:
    """Return the keys with another value of `memory` than `direct`, and a note on it.

    The other value makes reads reach the device by a limit on memory.  The first possible one is
    taken.  `refused` is the reason against `direct`.  Raises Skip, with all reasons, if no value is
    possible.
    """
    reasons = [f"memory = 'direct': {refused}"]
    for kind in memory_bound.KINDS:
        other = spec.model_copy(update={"memory": kind})
        reason = _refused(kind, other, context)
        if not reason:
            return other, [f"{'; '.join(reasons)}; it was done with memory = {kind!r} instead"]
        reasons.append(f"memory = {kind!r}: {reason}")
    raise Skip("; ".join([*reasons, *_larger(spec, context)]))


def _larger(spec: Spec, context: Context) -> list[str]:
    """Return advice, in a list: two keys that make the tables larger than the memory of a cgroup.

    Return [] if a cgroup cannot bound the memory on this host.
    """
    if memory_bound.refusal("cgroup", context.host) is not None:
        return []
    server = ServerMemory.of(context)
    limit = -(-(spec.needs(server) + _ROOM) // _ROOM) * _ROOM
    table = max(spec.bytes(server.block_size), _TIMES_LIMIT * limit) // spec.num_schemas
    name = spec.name or spec.step
    keys = f"--set {name}.memory_limit={limit >> 20}M --set {name}.scale={table >> 20}M"
    return [f"to do it with larger tables: {keys}"]


def _impossible(refused: str, spec: Spec, context: Context) -> Impossible:
    others = [kind for kind in get_args(MemoryKind) if kind != spec.memory]
    ways = [kind for kind in others if not _refused(kind, spec, context)]
    remain = f"what remains: {', '.join(ways)}" if ways else "no other way remains"
    return Impossible(f"memory = {spec.memory!r}: {refused}; {remain}")


def check_numbers(spec: Spec, block_size: int) -> None:
    """Raise Impossible if the tables are smaller than one work unit, or have too many rows.

    A work unit is the largest number of rows that one statement touches.  `block_size` is in bytes;
    each row fills one block.
    """
    rows = spec.rows(block_size)
    longest = mix_of(spec).longest
    if rows < longest:
        raise Impossible(
            f"scale = {spec.scale!r} is {rows:,} blocks, less than one work unit of {longest:,}"
        )
    if rows > pgio.MOST_ROWS:
        raise Impossible(
            f"scale = {spec.scale!r} is {rows:,} blocks for each table, and at most "
            f"{pgio.MOST_ROWS:,} can be: use more tables (num_schemas)"
        )


def _refused(kind: MemoryKind, spec: Spec, context: Context) -> str:
    """Return why a value of the key `memory` cannot be used here; "" if it can."""
    if not context.server.can_stop:
        return _lacking(kind, context)
    if kind == "cached":
        return _no_cached(spec.bytes(context.engine.block_size), context)
    if kind == "direct":
        return _no_direct(context)
    return _no_bound(kind, spec, context) or str(memory_bound.refusal(kind, context.host) or "")


def _lacking(kind: MemoryKind, context: Context) -> str:
    """Return what a server that is not replayer's own lacks for a value of the key `memory`.

    Return "" if it lacks nothing.
    """
    wanted = engine_keys(context).of(kind).settings
    if kind in memory_bound.KINDS or (kind == "direct" and not wanted):
        return "it needs a restart of the server, and this server is not replayer's own"
    if not wanted:
        return ""
    with context.database() as database:
        shown = {row["name"]: row["value"] for row in database.execute(protocol.SETTINGS)}
    for name, value in wanted.items():
        if shown.get(name) != value:
            return (
                f"it needs {name} = {value}, which this server does not have, and only its owner "
                f"can change that"
            )
    return ""


def _no_cached(tables: int, context: Context) -> str:
    """Return why tables of so many bytes cannot stay in the page cache; "" if they can."""
    usable = context.host.usable_memory_bytes()
    if not usable or tables <= _PAGE_CACHE_SHARE * usable:
        return ""
    return (
        f"the tables are {units.show_size(tables)}, more than fits into the page cache of a "
        f"machine with {units.show_size(usable)} of memory"
    )


def _no_bound(kind: str, spec: Spec, context: Context) -> str:
    server = ServerMemory.of(context)
    tables = spec.bytes(server.block_size)
    left = spec.limit(server) if kind == "cgroup" else spec.keep
    if left >= tables:
        key = "memory_limit" if kind == "cgroup" else "keep"
        return (
            f"it would leave {units.show_size(left)}, where all {units.show_size(tables)} of the "
            f"tables fit in: set {key} lower or scale higher"
        )
    if kind == "cgroup" and left < spec.needs(server):
        return (
            f"memory_limit is {units.show_size(left)}, and the server's processes alone need about "
            f"{units.show_size(spec.needs(server))}"
        )
    return ""


def _no_direct(context: Context) -> str:
    keys = engine_keys(context)
    if "direct" not in keys.memory:
        return f"{context.engine.title} has no direct I/O setting in its engine.toml"
    since = keys.of("direct").since
    if context.server.version < since:
        return (
            f"direct I/O came with {context.engine.title} {since}, "
            f"and this one is {context.server.version}"
        )
    return ""


def no_direct_reads(wanted: TableSet, context: Context) -> str:
    """Return the file system's reason to refuse direct I/O for the tables; "" if it allows it."""
    with context.database() as database:
        files = files_of(database, wanted, context)
    for file in files[:1]:
        try:
            os.close(os.open(file, os.O_RDONLY | os.O_DIRECT))
        except OSError as error:
            return f"the file system refuses direct I/O ({error.strerror}) for {file}"
    return ""


def no_room(files: Sequence[Path], context: Context) -> str:
    """Return why the files of the tables cannot stay in the page cache; "" if they can.

    They may be far larger than the key `scale`, if an earlier run loaded them.
    """
    return _no_cached(residency(files).file_bytes, context)


def refuse_large(
    spec: Spec, files: Sequence[Path], larger: Sequence[str], context: Context
) -> None:
    """Raise Skip if the tables are to stay in the page cache, and their files are too large for it.

    `larger` is the result of `larger_tables`.  A server that is not replayer's own is not refused,
    as it may have the tables in its buffers.
    """
    reason = no_room(files, context) if spec.memory == "cached" else ""
    if reason and context.server.can_stop:
        raise Skip(
            f"memory = 'cached': {'; '.join([reason, *larger])}: use another folder (--data-dir), "
            f"or another value of memory"
        )


def larger_tables(database: Database, wanted: TableSet) -> list[str]:
    """Return a note, in a list, if an earlier run loaded the tables with more rows than wanted."""
    rows = pgio.loaded_rows(database, wanted)
    if rows <= wanted.rows:
        return []
    note = (
        f"an earlier run loaded the tables with {rows:,} rows each, and the sessions use the "
        f"{wanted.rows:,} of scale, which lie scattered among them"
    )
    return [note]


def files_of(database: Database, wanted: TableSet, context: Context) -> list[Path]:
    """Return every file of the tables and their indexes; [] if they are not on this host."""
    folder = context.server.data_directory()
    if folder is None:
        return []
    return [
        file
        for name in wanted.names
        for file in relations.files(database, folder, pgio.FILES, name=name)
    ]
