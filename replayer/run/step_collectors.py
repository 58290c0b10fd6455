"""The link between the runner and the active collectors, which watch the server or the kernel.

An active collector, such as perf, runs while a step runs. The step has no code for that: it only
stores its measured window in its findings. The recordings of that window are added there.
"""

import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from replayer.analysis.attribution import kernel_stacks
from replayer.analysis.attribution.account import account
from replayer.collectors import CollectorContext, WindowRecording
from replayer.engines import connection
from replayer.engines.connection import Database
from replayer.engines.verbs import VerbName
from replayer.errors import ReplayerError, Skip
from replayer.machine import processes
from replayer.machine.host import Host
from replayer.run.step_recorder import MeasuredWindow, StepRecorder
from replayer.servers.open import Server
from replayer.watch.active_collectors import Recordings
from replayer.watch.sampler import columns_of

_AT_ONCE = 1.0
"""A query that fails within so many seconds had lost its connection, and is tried once more.

A query that fails later had a slow server."""


def recordings(
    names: Sequence[str], host: Host, device: str | None, server: Server | None
) -> Recordings:
    """Return a context manager in whose `with` block the collectors in `names` record one step.

    `device` is the name of the disk that the step uses, None if it is not known. `server` is None
    in a run without a database.
    """
    watchers: set[int] = set()

    def scene(opened: contextlib.ExitStack, folder: Path) -> CollectorContext:
        ask = (
            None
            if server is None
            else opened.enter_context(contextlib.closing(_Asking(server, watchers)))
        )
        return CollectorContext(
            host=host,
            device=device,
            folder=folder,
            server=lambda: server.pids() if server is not None else [],
            own=lambda: processes.family(os.getpid()),
            ask=ask,
            control=connection.sessions,
            watching=watchers.copy,
            opening=connection.opening,
        )

    return Recordings(names, scene)


def keep(findings: StepRecorder, watched: Recordings) -> None:
    """Add what the collectors recorded to a step's findings, and the CPU seconds that each used.

    Recordings, and the account made of them, are added only if the step has a measured window.
    """
    findings.costs |= {name: round(cost, 6) for name, cost in sorted(watched.costs.items())}
    if findings.window is None:
        return
    seen = watched.seen(findings.window.begin_ns, findings.window.end_ns)
    for name, one in seen.items():
        with watched.note_failure(name):
            _add(findings, findings.window, name, one)
    waits = next((one.waits for one in seen.values() if one.waits is not None), None)
    used = {whose: cpu for one in seen.values() for whose, cpu in one.used.items()}
    with watched.note_failure("account"):
        kernel = kernel_stacks.kernel_samples(findings.profile) if findings.profile else {}
        findings.account = account(findings.window, waits, used, kernel)


def _add(findings: StepRecorder, window: MeasuredWindow, name: str, seen: WindowRecording) -> None:
    findings.profile = seen.profile or findings.profile
    for sentence in seen.notes:
        findings.note(sentence)
    for table, rows in seen.tables.items():
        for row in rows:
            findings.row(table, **row)
    if findings.series is not None and seen.columns:
        points = {f"{name}.{column}": points for column, points in seen.columns.items()}
        more = columns_of(points, window.begin_ns, findings.series.seconds)
        columns = {**findings.series.columns, **more}
        findings.series = findings.series.model_copy(update={"columns": columns})


class _Asking:
    """A collector's connection to the server, which executes the engine's SQL files by their names.

    The connection is opened at the first query, and opened again if it was lost.
    """

    def __init__(self, server: Server, watchers: set[int]) -> None:
        """Take the server, and a set that contains this connection's id while it is open."""
        self._server = server
        self._watchers = watchers
        self._database: Database | None = None
        self._statements: dict[str, Sequence[str]] = {}
        """Verb (name of an SQL file) -> its statements, kept because finding them takes long."""
        self._closed = False

    def __call__(self, name: str) -> Sequence[Mapping[str, Any]]:
        """Execute an SQL file of the engine by its name (a verb), and return its rows.

        If the connection was lost, try once more on a new one. Raises Skip if the engine has no
        such file, and ReplayerError if the query fails, the server does not run, or `close` was
        called.
        """
        before, began = self._database, time.monotonic()
        try:
            return self._tried(name)
        except Skip:
            raise
        except ReplayerError:
            # A step may have restarted the server since the last query, which ended the connection.
            if before is None or time.monotonic() - began > _AT_ONCE:
                raise
            return self._tried(name)

    def _tried(self, name: str) -> Sequence[Mapping[str, Any]]:
        try:
            return self._rows(name)
        except Skip:
            raise
        except ReplayerError:
            self._leave()
            raise

    def _rows(self, name: str) -> Sequence[Mapping[str, Any]]:
        database = self._connected()
        if name not in self._statements:
            self._statements[name] = database.engine.needs(VerbName(name)).statements()
        rows: Sequence[Mapping[str, Any]] = []
        for statement in self._statements[name]:
            rows = database.fetch(statement, verb=name)
            if not rows:
                # Each statement except the last shows whether there is anything for the next to
                # read.
                break
        return rows

    def close(self) -> None:
        """Close the connection; a query that another thread waits for fails at once."""
        self._closed = True
        if self._database is not None:
            with contextlib.suppress(ReplayerError):
                self._database.cut()
        self._leave()

    def _connected(self) -> Database:
        if self._closed:
            raise ReplayerError("the step is over")
        if self._database is None:
            url = self._server.url()
            if url is None:
                raise ReplayerError("the server does not run")
            engine = self._server.engine
            first = engine.spec.profile.statements
            self._database = Database(engine, url, first=first)
            self._watchers.add(self._database.session)
        return self._database

    def _leave(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            database.close()
            self._watchers.discard(database.session)
