"""The processes of a private server: how they are started, recorded in the journal, and ended."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING

from replayer import journal, shell, signals
from replayer.errors import ReplayerError
from replayer.machine import processes
from replayer.servers import programs, shutdown

if TYPE_CHECKING:
    import subprocess  # noqa: TID251 - for the type of shell.start's value

    from replayer.engines.engine import Engine
    from replayer.journal import Note
    from replayer.servers.server_log import ServerLog
    from replayer.servers.server_socket import ServerSocket
    from replayer.servers.shutdown import Installation

_PAUSE = 0.02
_REFUSED = 5.0
"""Seconds to wait for a server that answers each connection with an error."""
_NOTICE = 1.0
"""Seconds for a wrapper to notice that its server has ended."""


class ServerProcess:
    """The processes of a private server: the main one and its children; none if it is stopped."""

    def __init__(
        self, engine: Engine, installed: Installation, socket: ServerSocket, log: ServerLog
    ) -> None:
        self._engine, self._installed = engine, installed
        self._socket, self._log = socket, log
        self._keys = installed.keys
        self._note: Note | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._identity = ""

    def running(self) -> bool:
        """Return whether the server runs; a server that is shutting down does not count."""
        return journal.alive(self._identity) and not processes.ends(journal.pid_of(self._identity))

    def pids(self, *, ended: bool = False) -> list[int]:
        """Return the ids of the main process and all its children; [] if the server is stopped.

        With `ended`, children that have ended and were not reaped yet are included.
        """
        main = journal.pid_of(self._identity)
        return processes.family(main, ended=ended) if self.running() else []

    def explain_loss(self) -> str:
        """Return a text on how the server ended although replayer did not stop it.

        Returns "" if the server runs, or was not started.
        """
        if not self._identity or self.running():
            return ""
        status = None if self._child is None else self._child.poll()
        if status is not None:
            return _ended(status)
        unknown = "it was killed or crashed: its log does not mention an end"
        return self._log.find_end() or unknown

    def write_down(self) -> None:
        """Record the server in the journal, so that the next replayer can stop it after a kill.

        It may be called before and after the start: a new record replaces the earlier one.
        """
        user = self._installed.user
        with signals.shield():
            before = self._note
            self._note = journal.take(
                "server",
                data=str(self._installed.data),
                programs=str(self._installed.bindir),
                engine=self._engine.name,
                user=list(user) if user else None,
                identity=self._identity,
            )
            if before is not None:
                before.drop()

    def forget(self) -> None:
        """Remove the journal's record of the server, after the server was ended."""
        if self._note is not None:
            self._note.drop()
            self._note = None

    def start(self) -> None:
        """Start the server and wait until it is ready; raise ReplayerError if it is not."""
        if self._keys.stays or self._keys.guest:
            main = self._start_child()
        else:
            self._installed.run(self._keys.start)
            main = shutdown.read_pid(self._installed.pid_file)
        self._identity = journal.identity(main)

    def _start_child(self) -> int:
        """Start a server that stays replayer's child; wait until it is ready.

        Return the id of its main process.
        """
        keys, socket, user = self._keys, self._socket.folder, self._installed.user
        assert socket is not None, "its folder was made before"
        guest = keys.guest
        self._child = shell.start(
            programs.guest_command(keys, self._installed.data, socket, user)
            if guest
            else self._installed.arguments(keys.start),
            # A guest's process gives the rights up by itself, when its library is loaded.
            user=None if guest else user,
            environment=self._installed.environment(),
            output=self._log.path,
            folder=Path("/") if guest else None,
        )
        self._await_child(self._child)
        # The main process may be a child of a wrapper (numactl, a script).
        main = shutdown.read_pid(self._installed.pid_file)
        return main if main in processes.family(self._child.pid) else self._child.pid

    def _await_child(self, child: subprocess.Popen[bytes]) -> None:
        """Wait until the server takes connections; raise ReplayerError if it does not."""
        begin = time.monotonic()
        refused_since, refusal = math.inf, ""
        while time.monotonic() - begin < shutdown.PATIENCE:
            status = child.poll()
            if status is not None:
                raise ReplayerError(_ended(status))
            answer = self._socket.try_to_connect()
            if answer == "":
                return
            if answer is None or self._keys.starting.search(answer):
                refused_since = math.inf
            elif time.monotonic() - refused_since > _REFUSED:
                raise ReplayerError(f"it answers each connection with an error: {answer}")
            else:
                refused_since = min(refused_since, time.monotonic())
            refusal = answer or refusal
            time.sleep(_PAUSE if refused_since == math.inf else 10 * _PAUSE)
        last = f", and its last answer was: {refusal}" if refusal else ""
        raise ReplayerError(f"it took no connection within {shutdown.PATIENCE:.0f} s{last}")

    def end(self) -> None:
        """End all processes of the server, and those that remain of a killed one."""
        self._socket.unwatch()
        if self._child is not None and not self._installed.processes():
            # The child is a wrapper without a server, or an interpreter that is the server itself.
            shutdown.end_child(self._child, self._keys.stop_signals)
        shutdown.end(self._installed, self._identity)
        if self._child is not None:
            shutdown.end_child(self._child, self._keys.stop_signals, after=_NOTICE)
            self._child = None
        self._identity = ""


def _ended(status: int) -> str:
    """Return how a process ended unexpectedly, as text.

    `status` is its exit status, or minus the number of the signal that killed it.
    """
    if status < 0:
        return f"it was killed by {signals.name_of(-status)}"
    return f"it ended with status {status}"
