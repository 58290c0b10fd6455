"""Preparation of the step `sessions`: tables, server settings, memory limit, page cache."""

import contextlib
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from replayer.conditions import memory_bound, temperature
from replayer.conditions.residency import residency
from replayer.engines.verbs import VerbName
from replayer.errors import ReplayerError
from replayer.load import dataset
from replayer.model import Cold, ReadOrigin, Temperature
from replayer.run.context import Context
from replayer.steps.sessions.feasibility import no_room
from replayer.steps.sessions.spec import ServerMemory, Spec
from replayer.tables.pgio import TableSet

_PROCEDURE = VerbName("slob/procedure")


def provide_tables(wanted: TableSet, context: Context) -> list[str]:
    """Load the tables that are missing or unsuitable; create the stored procedures of the sessions.

    A session works by calling such a procedure, one for each table.  Returns a sentence for the
    report in a list if tables were loaded; [] if all were there.
    """
    notes = dataset.provide_tables(wanted, context)
    with context.database() as database:
        for name in wanted.names:
            database.execute(_PROCEDURE, {"table": name})
    return notes


def settings_of(spec: Spec, context: Context) -> dict[str, str]:
    """Return name -> value of the server settings with which the sessions are to be measured."""
    server = ServerMemory.of(context)
    size = spec.buffers(server.block_size, server.least_buffers)
    return dataset.session_settings(context, spec.memory, sessions=spec.sessions, buffers=size)


@contextlib.contextmanager
def bounded_memory(spec: Spec, context: Context) -> Iterator[memory_bound.Bound | None]:
    """Limit the memory of the server or of the host during the `with` block, and yield the limit.

    Yield None if the value of the key `memory` needs no limit.
    """
    if spec.memory not in memory_bound.KINDS:
        yield None
        return
    with memory_bound.bound(
        spec.memory,
        context.server,
        context.host,
        limit_bytes=spec.limit(ServerMemory.of(context)),
        keep_bytes=spec.keep,
        changed=partial(context.findings.facts.__setitem__, memory_bound.CHANGED),
    ) as taken:
        yield taken


@contextlib.contextmanager
def out_of_memory_told(taken: memory_bound.Bound | None) -> Iterator[None]:
    """Replace a ReplayerError of the `with` block if the kernel killed the server for memory.

    The new ReplayerError names the memory limit as the reason.  `taken` is the limit; None if there
    is none, and then every error is raised unchanged.
    """
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
    """Fill the page cache with the tables, or drop them from it; return the state reached.

    `files` are the files of the tables; [] if they are on another host, and then nothing is done.
    replayer's own server has just been restarted, so its buffers hold nothing of the tables.
    """
    ours = context.server.can_stop
    dropped = Temperature.COLD if ours else Temperature.LUKEWARM
    asked = Temperature.HOT if spec.asked is ReadOrigin.CACHED else dropped
    if not files:
        why, todo = context.server.explain_missing_files()
        got = Temperature.UNKNOWN
        return Cold(asked=asked, got=got, method="", proof="", why=why, todo=todo)
    total = residency(files).file_bytes if asked is Temperature.HOT else None
    title = "warm page cache" if asked is Temperature.HOT else "drop page cache"
    with context.progress.task(title, total) as task:
        cold = temperature.make_files(
            asked, files, context.host, others=not ours, done=task.advance
        )
    restarted = "server restarted, " if ours else ""
    return cold.model_copy(update={"method": restarted + cold.method})


def displaced(spec: Spec, files: Sequence[Path], context: Context) -> list[str]:
    """Return a note, in a list, if the tables did not stay in the page cache.

    `files` are the files of the tables.  The note explains why there were reads from the device.
    Return [] if the tables stayed in the page cache, or were not meant to be there.
    """
    if spec.asked is not ReadOrigin.CACHED or not files:
        return []
    share = residency(files).share
    if share is None or share >= temperature.HOT_SHARE:
        return []
    why = no_room(files, context) or "something dropped or displaced the rest meanwhile"
    return [f"only {share:.1%} of the tables was in the page cache at the end: {why}"]
