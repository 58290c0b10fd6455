"""The tables that a load works on, and the server's settings during the load."""

import contextlib
import os
import time
from collections.abc import Iterator, Mapping

from replayer import __version__, units
from replayer.engines.connection import Database
from replayer.engines.engine import Engine
from replayer.engines.verbs import VerbName
from replayer.errors import Impossible, ReplayerError
from replayer.machine.free_space import free_bytes
from replayer.model import MemoryKind
from replayer.run.context import Context
from replayer.tables import pgio
from replayer.tables.pgio import TableSet

_CREATE = VerbName("mix/create")
_FLUSH = VerbName("flush")
_LOADERS = 8
_KNOWN_FROM = 0.05
"""Share of loaded rows from which on the time to load all other rows is estimated."""
_MIB = 1 << 20
_ORDINARY_SESSIONS = 350
"""Number of sessions above which the server needs a higher limit of connections."""
INSERTED = "pgio0"
"""Table for inserts, which exists only during them.  Its name is like those of the other tables."""


def session_settings(
    context: Context, memory: MemoryKind, *, sessions: int, buffers: int | None
) -> dict[str, str]:
    """Return the server settings for many sessions, as name -> value.

    A default of the engine is left out if the user or the workload has a setting of that name.
    `memory` is the kind of reads (`cached` or `direct`), `sessions` the most sessions at a time.
    `buffers` is the size of the server's own cache in bytes; None leaves it as it is.
    """
    keys = context.engine.spec.sessions
    settings = {
        name: setting.value
        for name, setting in keys.settings.items()
        if context.server.version >= setting.since and name not in context.workload.settings
    }
    settings |= keys.of(memory).settings
    if keys.buffers and buffers is not None:
        size = max(keys.buffers.least, buffers)
        settings[keys.buffers.setting] = f"{size >> 10}{keys.buffers.unit}"
    if keys.connections and sessions > _ORDINARY_SESSIONS:
        settings[keys.connections] = str(sessions + 50)
    return settings


def size_of_buffers(shown: Mapping[str, str], engine: Engine) -> int | None:
    """Return the bytes of the server's own cache; None if the server does not show them.

    `shown` is name -> value of its settings, as protocol.read_settings returns them.
    """
    keys = engine.spec.sessions.buffers
    value = shown.get(keys.setting) if keys else None
    return None if value is None else units.size(value)


@contextlib.contextmanager
def serving(settings: Mapping[str, str], context: Context) -> Iterator[None]:
    """Run the server with these settings while the `with` block runs.

    A server that is not replayer's own keeps its settings, and a note reports that.
    """
    if context.server.can_stop:
        with context.server.settings(settings):
            yield
        return
    context.findings.note(
        "the server's own settings were left as they are: it is not replayer's own"
    )
    yield


def provide_tables(wanted: TableSet, context: Context) -> list[str]:
    """Load the tables if they are missing or their layout is not as needed; return notes on that.

    A note is a sentence for the report; the list is empty if nothing was loaded.

    Raises ReplayerError if the layout is still wrong after the load.
    """
    notes = []
    with context.database() as database:
        pgio.refuse_foreign(database, wanted)
        # A killed run may have left this table.
        pgio.drop_one(database, INSERTED)
        flaws = pgio.flaws(database, wanted)
        if flaws:
            seconds = _load(database, wanted, context, flaws[0])
            notes.append(f"the tables were loaded in {seconds:.1f} s ({flaws[0]})")
            flaws = pgio.flaws(database, wanted)
        if flaws:
            raise ReplayerError(f"the layout of the tables is not as it must be: {flaws[0]}")
    return notes


@contextlib.contextmanager
def place_for_inserts(database: Database) -> Iterator[None]:
    """Provide an empty table for inserts for as long as the `with` block lasts."""
    pgio.drop_one(database, INSERTED)
    database.execute(_CREATE, {"table": INSERTED}, name=INSERTED, made_by=f"replayer {__version__}")
    try:
        yield
    finally:
        # If the server is gone, the table stays until the next run drops it.
        with contextlib.suppress(ReplayerError):
            pgio.drop_one(database, INSERTED)


def _load(database: Database, wanted: TableSet, context: Context, why: str) -> float:
    """Drop the existing tables and load them anew; return the seconds that this took.

    `why` is the reason in words, for the progress display.
    """
    began = time.monotonic()
    context.progress.say(f"loading {wanted.tables} tables of {wanted.rows:,} blocks: {why}")
    pgio.drop(database)
    _check_space(database, wanted, context)
    sessions = min(wanted.tables, max(2, os.cpu_count() or 1), _LOADERS)
    with context.progress.task("load tables", wanted.tables * wanted.rows) as task:
        done, every = 0, wanted.tables * wanted.rows
        for rows in pgio.load(database, wanted, sessions, f"replayer {__version__}"):
            done += rows
            task.advance(rows)
            if rows and done >= _KNOWN_FROM * every:
                left = (time.monotonic() - began) * (every / done - 1)
                context.promise_anew(left + context.still(), "loading the tables takes so long")
    try:
        database.execute(_FLUSH)
    except ReplayerError as error:
        context.progress.say(f"what was loaded may still be written during the run: {error}")
    return time.monotonic() - began


def _check_space(database: Database, wanted: TableSet, context: Context) -> None:
    folder = context.server.data_directory()
    if folder is None:
        return
    # The index takes about 1 percent; vacuum's maps and the log of the index take less.
    needed = int(wanted.tables * wanted.rows * database.engine.block_size * 1.03) + 64 * _MIB
    free = free_bytes(folder)
    if free < needed:
        raise Impossible(
            f"loading {wanted.tables} tables of {wanted.rows:,} blocks needs "
            f"{units.show_size(needed)} and {folder} has {units.show_size(free)} free: "
            f"make scale or num_schemas smaller"
        )
