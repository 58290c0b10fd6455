"""Replayer's own database server: own data directory, own socket, own settings.

The section [server] of engine.toml describes how an engine's server is made, started and stopped;
nothing in this module names an engine.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from replayer import journal, signals
from replayer.engines.connection import Database
from replayer.engines.engine import load
from replayer.engines.verbs import VerbName
from replayer.errors import Impossible, ReplayerError
from replayer.machine import free_space, processes
from replayer.machine.host import Host
from replayer.servers import programs, protocol, settings, shutdown
from replayer.servers.server_log import ServerLog
from replayer.servers.server_process import ServerProcess
from replayer.servers.server_socket import ServerSocket
from replayer.servers.shutdown import Installation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sqlalchemy.engine import URL

    from replayer.engines.engine import Engine
    from replayer.engines.engine_spec import ServerSpec
    from replayer.journal import Note
    from replayer.model import EngineFacts, Fact
    from replayer.servers.data_folder import DataFolder
    from replayer.servers.programs import Programs

_DATABASE = VerbName("database")


class PrivateServer:
    """A server that replayer makes, starts and stops itself.

    The caller holds the lock of the server's data folder.
    """

    kind: protocol.Kind = "private"
    can_stop = True

    def __init__(
        self,
        engine: Engine,
        server_programs: Programs,
        folder: DataFolder,
        *,
        base: Mapping[str, str],
        init: Mapping[str, str],
    ) -> None:
        self.programs = server_programs
        self.version = server_programs.major
        self.engine = engine.at(server_programs.major)
        self._keys = engine.spec.server
        self._folder = folder
        self._installed = Installation(
            self._keys, folder.data, server_programs.folder, server_programs.user
        )
        self._log = ServerLog(folder.log, self._keys)
        title = f"{self.engine.title} on {folder.data}"
        self._socket = ServerSocket(self.engine, server_programs, title)
        self._process = ServerProcess(self.engine, self._installed, self._socket, self._log)
        self._base = dict(base)
        self._init = dict(init)
        self._overrides: dict[str, str] = {}
        self._runs_with: dict[str, str] = {}
        """The overrides that the server was started with."""
        self._prepared = False
        self._lost = ""

    def start(self) -> URL:
        """Start the server, or restart it if its settings changed; return its database's URL.

        Raises ReplayerError, with the reason, if the server does not start.
        """
        self._lost = self._lost or self._gone()
        if self.running() and self._runs_with != self._overrides:
            self.stop()
        if not self.running():
            try:
                self._bring_up()
            except ReplayerError as error:
                gone = self._gone()
                self._lost = self._lost or gone
                self.stop()
                if gone:
                    raise ReplayerError(gone) from error
                raise
            self._runs_with = self._overrides
        return self._socket.url(self._keys.database)

    def url(self) -> URL | None:
        """Return the URL of the server's database, None if the server is stopped."""
        return self._socket.url(self._keys.database) if self.running() else None

    @contextlib.contextmanager
    def settings(self, overrides: Mapping[str, str]) -> Iterator[URL]:
        """Run the server with `overrides` on top of its base settings, for the `with` block."""
        before, self._overrides = self._overrides, self._checked(overrides)
        try:
            yield self.start()
        finally:
            self._overrides = before

    def running(self) -> bool:
        """Return whether the server runs; a server that is shutting down does not count."""
        return self._process.running()

    def stop(self) -> None:
        """Stop the server, and return after all its processes have ended.

        Does nothing if the server is already stopped.  `start` can start it again.
        """
        with signals.shield():
            self._process.end()
            self._process.forget()

    def close(self) -> None:
        """Stop the server and release all resources that were taken for it."""
        with signals.shield():
            self.stop()
            self._socket.close()

    def evict(self) -> str:
        """Empty the server's buffers, and return a text that names the method.

        Raises Skip if that is not possible.
        """
        with contextlib.closing(Database(self.engine, self.start())) as database:
            return protocol.evict(database)

    def data_directory(self) -> Path:
        """Return the server's data directory."""
        return self._folder.data

    def explain_missing_files(self) -> protocol.NoFiles:
        """Return an empty NoFiles: the files of a private server are always reachable."""
        return protocol.NoFiles("", "")

    def pids(self) -> list[int]:
        """Return the process ids of the server, the main process first; [] if it is stopped."""
        return self._process.pids()

    def cpu_seconds(self) -> processes.CpuSeconds:
        """Return the CPU seconds of all the server's processes since its last start."""
        return processes.cpu_seconds(self._process.pids(ended=True))

    def facts(self) -> EngineFacts:
        """Return the server's version, facts on it, and each setting that is not its default."""
        known = {
            "data.directory": str(self._folder.data),
            "server.programs": str(self.programs.folder),
            "server.user": self.programs.user.name if self.programs.user else None,
        }
        with contextlib.closing(Database(self.engine, self.start())) as database:
            return protocol.facts(database, self.kind, known)

    def read_last_words(self) -> str:
        """Return the last important message in the log since the server's start; "" if none."""
        return self._log.read_last_words()

    def list_leftovers(self) -> dict[str, Fact]:
        """Return {}: all the server's data is in a data folder that `replayer clean` removes."""
        return {}

    def describe_loss(self) -> str:
        """Return how the server ended unexpectedly since the last call, "" if it did not."""
        lost, self._lost = self._lost or self._gone(), ""
        return lost

    def _gone(self) -> str:
        how = self._process.explain_loss()
        return f"the database server went away ({how})" if how else ""

    def _checked(self, asked: Mapping[str, str]) -> dict[str, str]:
        """Return the settings `asked` without those that only a new data directory can have.

        Raises Impossible if such a setting has another value than in the existing data directory.
        """
        init, rest = settings.split(self._keys, self.version, asked)
        if any(self._init.get(name) != value for name, value in init.items()):
            raise Impossible(
                f"{', '.join(init)} is chosen when the data directory is made: give it to the "
                f"whole run with --pg-set, not to a step"
            )
        return rest

    def _bring_up(self) -> None:
        """Start the server; make its data directory first if there is none."""
        self._clear_the_way()
        self._process.write_down()
        self._socket.make()
        marker = self._folder.marker()
        made = marker is not None and marker.ready and self._folder.data.is_dir()
        if not made:
            self._make()
        self._launch()
        self._socket.watch()
        if not made:
            with contextlib.closing(self._socket.connect(self._keys.first_database)) as database:
                database.execute(_DATABASE)
        if not self._prepared:
            with contextlib.closing(self._socket.connect(self._keys.database)) as database:
                protocol.prepare(database)
            self._prepared = True
        if not made:
            assert marker is not None, "the folder was claimed before"
            self._folder.write(replace(marker, ready=True))

    def _make(self) -> None:
        """Make the data directory; start from scratch if an earlier attempt was interrupted."""
        data = self._folder.data
        try:
            self._folder.new_data(self.programs.user)
            self._folder.check_space(self._keys.new_bytes)
            more = settings.init_arguments(self._keys, self._init, self.version)
            if not self._keys.guest:
                named = programs.with_a_name(self.engine.title, self._keys, self.programs.user)
                self._installed.run([*named, *self._keys.init, *more])
            keys = self._keys.settings_file
            if keys.included_by:
                self._folder.add_to_data(keys.included_by, keys.include, self.programs.user)
        except (OSError, ValueError) as error:
            raise Impossible(
                f"{data} cannot be made: {getattr(error, 'strerror', '') or error}"
            ) from error

    def _launch(self) -> None:
        """Start the server's processes with the current settings."""
        try:
            self._write_settings()
            self._folder.begin_log(self.programs.user)
        except OSError as error:
            raise ReplayerError(
                f"{self.engine.title} cannot be started: {error.filename}: {error.strerror}"
            ) from error
        try:
            self._process.start()
        except ReplayerError as error:
            raise self._refusal(error) from error
        # Record the server as soon as it is known: after a kill of replayer and of this server, a
        # server that another user starts here must not be taken for this one.
        self._process.write_down()

    def _clear_the_way(self) -> None:
        """End what remains of a killed server, and remove its socket and pid file."""
        self._process.end()
        self._socket.empty()
        # A pid file that is left over names no process of the new server.
        self._folder.forget_data(self._keys.pid_file)

    def _refusal(self, error: ReplayerError) -> ReplayerError:
        """Return the error to raise after the server did not start; `error` is the failed attempt.

        It is Impossible, with the setting's name, if the log names one that the server refused.
        Otherwise it is a ReplayerError with the reason from the log.
        """
        messages = self._log.find_complaints()
        why = self._log.find_reason(error)
        named = settings.named_in(messages, {**self._overrides, **self._base})
        if named is not None:
            name, line = named
            reason = why if line.startswith(("HINT", "DETAIL")) else line
            return Impossible(f"{self.engine.title} refused the setting {name}: {reason}")
        why += free_space.shortage(self._folder.path)
        return ReplayerError(f"{self.engine.title} did not start: {why}")

    def _write_settings(self) -> None:
        memory = Host().usable_memory_bytes()
        asked = {
            **settings.standard(self._keys, self.version, memory),
            **self._base,
            **self._overrides,
            **settings.fixed(
                self._keys, {"socket": self._socket.folder, "data": self._folder.data}
            ),
        }
        name = self._keys.settings_file.path
        self._folder.write_data(name, settings.text(self._keys, asked), self.programs.user)


def main_process(data: Path, server_programs: Programs, keys: ServerSpec) -> int:
    """Return the process id of the server that runs on a data directory, 0 if none runs."""
    server = Installation(keys, data, server_programs.folder, server_programs.user)
    main = shutdown.read_pid(server.pid_file)
    return main if main in server.processes() else 0


def recover(note: Note) -> str:
    """Stop the server that a killed replayer left, and return a short message on that.

    `note` is the journal's record of the server.  The caller holds the lock of its data folder.  A
    server that replayer did not start keeps running.
    """
    keys = _keys_of(note)
    data, bindir = Path(note.text("data")), Path(note.text("programs"))
    user = programs.server_user(keys.users)
    if note.details.get("user") != (list(user) if user else None):
        raise journal.Untrusted(note, "no server runs as its user")
    identity = note.text("identity")
    server = Installation(keys, data, bindir, user)
    left = server.processes()
    main = shutdown.read_pid(server.pid_file)
    if identity and main in left and journal.identity(main) != identity:
        note.drop()
        return f"the server on {data} (process {main}) was not started by replayer, and stays"
    shutdown.end(server, identity)
    note.drop()
    return f"the server on {data} {'was stopped' if left else 'had ended'}"


def _keys_of(note: Note) -> ServerSpec:
    """Return the section [server] of engine.toml for the engine in a journal's note.

    Raises Untrusted if there is no such engine, or if replayer does not start its server.
    """
    try:
        keys = load(note.text("engine")).spec.server
    except Impossible as error:
        raise journal.Untrusted(note, "there is no engine of that name") from error
    if not keys.starts:
        raise journal.Untrusted(note, "its engine starts no server")
    return keys
