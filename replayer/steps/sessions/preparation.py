"""What is done before the window: tables, settings, memory and what of the tables is in it."""

import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from replayer import __version__, units
from replayer.conditions import memory_bound, temperature
from replayer.conditions.residency import residency
from replayer.engines.connection import Database
from replayer.engines.verbs import Asked
from replayer.errors import Impossible, ReplayerError
from replayer.machine.free_space import free_bytes
from replayer.model import (
    Cold,
    Temperature,
    Verdict,
)
from replayer.run.context import Context
from replayer.steps.sessions.spec import MIB, ServerMemory, Spec, engine_keys
from replayer.tables import pgio
from replayer.tables.pgio import TableSet

_PROCEDURE = Asked("slob/procedure")
_FLUSH = Asked("flush")
_LOADERS = 8
_ORDINARY_SESSIONS = 350
"""More sessions than this need a higher limit of connections."""


@contextlib.contextmanager
def serving(settings: Mapping[str, str], context: Context) -> Iterator[None]:
    """Have the server run with these settings, where it is ours."""
    if context.server.can_stop:
        with context.server.settings(settings):
            yield
        return
    context.findings.note(
        "the server's own settings were left as they are: it is not replayer's own"
    )
    yield


def provide_tables(wanted: TableSet, context: Context) -> list[str]:
    """See to it that the tables are there and as the method needs them; return what was done."""
    notes = []
    with context.database() as database:
        pgio.refuse_foreign(database, wanted)
        flaws = pgio.flaws(database, wanted)
        if flaws:
            seconds = _load(database, wanted, context, flaws[0])
            notes.append(f"the tables were loaded in {seconds:.1f} s ({flaws[0]})")
            flaws = pgio.flaws(database, wanted)
        if flaws:
            raise ReplayerError(f"the layout of the tables is not as it must be: {flaws[0]}")
        for name in wanted.names:
            database.execute(_PROCEDURE, {"table": name})
    return notes


def _load(database: Database, wanted: TableSet, context: Context, why: str) -> float:
    """Drop what there is of the tables and load them; return the seconds."""
    began = time.monotonic()
    context.progress.say(f"loading {wanted.tables} tables of {wanted.rows:,} blocks: {why}")
    pgio.drop(database)
    _check_space(database, wanted, context)
    sessions = min(wanted.tables, max(2, os.cpu_count() or 1), _LOADERS)
    with context.progress.task("load tables", wanted.tables * wanted.rows) as task:
        for rows in pgio.load(database, wanted, sessions, f"replayer {__version__}"):
            task.advance(rows)
    try:
        database.execute(_FLUSH)
    except ReplayerError as error:
        context.progress.say(f"what was loaded may still be written during the run: {error}")
    return time.monotonic() - began


def _check_space(database: Database, wanted: TableSet, context: Context) -> None:
    folder = context.server.data_directory()
    if folder is None:
        return
    # The index takes about 1 percent, vacuum's maps and the log of it less than that.
    needed = int(wanted.tables * wanted.rows * database.engine.block_size * 1.03) + 64 * MIB
    free = free_bytes(folder)
    if free < needed:
        raise Impossible(
            f"loading {wanted.tables} tables of {wanted.rows:,} blocks needs "
            f"{units.show_size(needed)} and {folder} has {units.show_size(free)} free: "
            f"make scale or num_schemas smaller"
        )


def settings_of(spec: Spec, context: Context) -> dict[str, str]:
    """Return the server settings of a run."""
    keys, server = engine_keys(context), ServerMemory.of(context)
    settings = {
        name: setting.value
        for name, setting in keys.settings.items()
        if context.server.version >= setting.since
    }
    settings |= keys.of(spec.memory).settings
    if keys.buffers:
        size = spec.buffers(server.block_size, server.least_buffers)
        settings[keys.buffers.setting] = f"{size >> 10}{keys.buffers.unit}"
    if keys.connections and spec.sessions > _ORDINARY_SESSIONS:
        settings[keys.connections] = str(spec.sessions + 50)
    return settings


@contextlib.contextmanager
def bounded_memory(spec: Spec, context: Context) -> Iterator[memory_bound.Bound | None]:
    """Bound the memory as the keys ask for it, None where they do not."""
    if spec.memory not in memory_bound.KINDS:
        yield None
        return
    limit = spec.limit(ServerMemory.of(context))
    with memory_bound.bound(
        spec.memory, context.server, context.host, limit_bytes=limit, keep_bytes=spec.keep
    ) as taken:
        yield taken


@contextlib.contextmanager
def out_of_memory_told(taken: memory_bound.Bound | None) -> Iterator[None]:
    """Say so when it was the limit that ended the server."""
    try:
        yield
    except ReplayerError as error:
        killed = memory_bound.killed_for_memory(taken) if taken else 0
        if not killed:
            raise
        raise ReplayerError(
            f"the kernel killed {killed} server processes for want of memory in the cgroup: "
            f"set memory_limit higher ({error})"
        ) from error


def bring_to_temperature(spec: Spec, files: Sequence[Path], context: Context) -> Cold:
    """Fill the page cache with the tables, or drop them from it, and measure what was achieved.

    A server of replayer's own has just been restarted, so its buffers hold nothing of them.
    """
    ours = context.server.can_stop
    dropped = Temperature.COLD if ours else Temperature.LUKEWARM
    asked = Temperature.HOT if spec.asked is Verdict.CACHED else dropped
    if not files:
        why, todo = context.server.no_files()
        got = Temperature.UNKNOWN
        return Cold(asked=asked, got=got, method="", proof="", why=why, todo=todo)
    total = sum(file.stat().st_size for file in files) if asked is Temperature.HOT else None
    title = "warm page cache" if asked is Temperature.HOT else "drop page cache"
    with context.progress.task(title, total) as task:
        cold = temperature.make_files(
            asked, files, context.host, others=not ours, done=task.advance
        )
    restarted = "server restarted, " if ours else ""
    return cold.model_copy(update={"method": restarted + cold.method})


def displaced(spec: Spec, files: Sequence[Path]) -> list[str]:
    """Say so if the tables did not stay in the page cache, which explains device reads."""
    if spec.asked is not Verdict.CACHED or not files:
        return []
    share = residency(files).share
    if share is None or share >= temperature.HOT_SHARE:
        return []
    why = "something dropped or displaced the rest meanwhile"
    return [f"only {share:.1%} of the tables was in the page cache at the end: {why}"]
