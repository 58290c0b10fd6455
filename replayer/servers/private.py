"""Replayer's own database server: own data directory, own socket, own settings.

The section [server] of engine.toml describes how an engine's server is made, started and stopped;
nothing in this module names an engine.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from replayer import journal, shell, signals, units
from replayer.engines import driver, watchdog
from replayer.engines.connection import Database, connector_of, url_of
from replayer.engines.engine import load
from replayer.engines.verbs import VerbName
from replayer.errors import Impossible, Interrupted, ReplayerError
from replayer.machine import processes
from replayer.machine.host import Host
from replayer.servers import programs, protocol, settings, shutdown, socket_folder
from replayer.servers.shutdown import Installation

if TYPE_CHECKING:
    import subprocess  # noqa: TID251 - for the type of shell.start's value
    from collections.abc import Iterator, Mapping, Sequence

    from sqlalchemy.engine import URL

    from replayer.engines.engine import Engine
    from replayer.engines.engine_spec import ServerSpec
    from replayer.journal import Note
    from replayer.model import EngineFacts, Fact
    from replayer.servers.data_folder import DataFolder
    from replayer.servers.programs import Programs

_DATABASE = VerbName("database")
_PAUSE = 0.02
_REFUSED = 5.0
"""Seconds to wait for a server that answers each connection with an error."""
_NOTICE = 1.0
"""Seconds for a wrapper to notice that its server has ended."""
_TIGHT = 16 << 20


class PrivateServer:
    """A server that replayer makes, starts and stops itself; the lock of its folder is held."""

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
        self._base = dict(base)
        self._init = dict(init)
        self._overrides: dict[str, str] = {}
        self._runs_with: dict[str, str] = {}
        """The overrides that the server was started with."""
        self._socket: Path | None = None
        self._socket_note: Note | None = None
        self._server_note: Note | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._identity = ""
        self._prepared = False
        self._asking: tuple[str, Any] | None = None
        self._lost = ""

    def start(self) -> URL:
        """Start the server if it is stopped, and return the URL of its database."""
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
        return self._url(self._keys.database)

    def url(self) -> URL | None:
        """Return the URL of the server's database, None if the server is stopped."""
        return self._url(self._keys.database) if self.running() else None

    @contextlib.contextmanager
    def settings(self, overrides: Mapping[str, str]) -> Iterator[URL]:
        """Run the server with these overrides for as long as the `with` block lasts."""
        before, self._overrides = self._overrides, self._checked(overrides)
        try:
            yield self.start()
        finally:
            self._overrides = before

    def running(self) -> bool:
        """Return whether the server runs; a server that is shutting down does not count."""
        main = journal.pid_of(self._identity)
        return journal.alive(self._identity) and not processes.ends(main)

    def stop(self) -> None:
        """Stop the server; its processes are gone on return.  A server that is stopped stays so."""
        with signals.shield():
            self._end()
            self._identity = ""
            if self._server_note is not None:
                self._server_note.drop()
                self._server_note = None

    def close(self) -> None:
        """Stop the server and release all resources that were taken for it."""
        with signals.shield():
            self.stop()
            if self._socket is not None:
                socket_folder.remove(self._socket)
                self._socket = None
            if self._socket_note is not None:
                self._socket_note.drop()
                self._socket_note = None

    def evict(self) -> str:
        """Empty the server's buffers."""
        with contextlib.closing(Database(self.engine, self.start())) as database:
            return protocol.evict(database)

    def data_directory(self) -> Path:
        """Return the server's data directory."""
        return self._folder.data

    def explain_missing_files(self) -> protocol.NoFiles:
        """Return an empty NoFiles: the files of a private server are always reachable."""
        return protocol.NoFiles("", "")

    def pids(self) -> list[int]:
        """Return the server's main process and all its children; [] if it is stopped."""
        return processes.family(journal.pid_of(self._identity)) if self.running() else []

    def cpu_seconds(self) -> processes.CpuSeconds:
        """Return the CPU seconds of all the server's processes since its last start."""
        main = journal.pid_of(self._identity)
        return processes.cpu_seconds(processes.family(main, ended=True) if self.running() else [])

    def facts(self) -> EngineFacts:
        """Return facts on the server, and every setting that is not its default."""
        known = {
            "data.directory": str(self._folder.data),
            "server.programs": str(self.programs.folder),
            "server.user": self.programs.user.name if self.programs.user else None,
        }
        with contextlib.closing(Database(self.engine, self.start())) as database:
            return protocol.facts(database, self.kind, known)

    def read_last_words(self) -> str:
        """Return the last important message in the server's log since its last start."""
        messages = self._said()
        return (_weighty(messages, self._keys) or messages or [""])[-1]

    def list_leftovers(self) -> dict[str, Fact]:
        """Return {}: its data is in replayer's own folder, which `replayer clean` removes."""
        return {}

    def describe_loss(self) -> str:
        """Return how the server ended unexpectedly since the last call, "" if it did not."""
        lost, self._lost = self._lost or self._gone(), ""
        return lost

    def _gone(self) -> str:
        if not self._identity or self.running():
            return ""
        return f"the database server went away ({self._why_gone()})"

    def _why_gone(self) -> str:
        """Return how a server ended without a request: its exit status or its log's message."""
        status = None if self._child is None else self._child.poll()
        if status is not None:
            return _ended(status)
        ends = [line for line in self._said() if self._keys.log_end.search(line)]
        return ends[-1] if ends else "it was killed or crashed: its log does not mention an end"

    def _checked(self, asked: Mapping[str, str]) -> dict[str, str]:
        """Return a step's settings; raise Impossible for one that needs a new data directory."""
        init, rest = settings.split(self._keys, self.version, asked)
        if any(self._init.get(name) != value for name, value in init.items()):
            raise Impossible(
                f"{', '.join(init)} is chosen when the data directory is made: give it to the "
                f"whole run with --pg-set, not to a step"
            )
        return rest

    def _url(self, database: str) -> URL:
        text = self._keys.url.format(database=database, socket=self._socket)
        return url_of(text, self.engine)

    def _bring_up(self) -> None:
        """Start the server; make its data directory first if there is none."""
        self._clear_the_way()
        self._write_down()
        if self._socket is None:
            # A signal is handled only when both are stored where `close` finds them.
            with signals.shield():
                self._socket, self._socket_note = socket_folder.make(self._keys, self.programs)
        marker = self._folder.marker()
        made = marker is not None and marker.ready and self._folder.data.is_dir()
        if not made:
            self._make()
        self._launch()
        self._watch()
        if not made:
            with contextlib.closing(self._connect("first_database")) as database:
                database.execute(_DATABASE)
        if not self._prepared:
            with contextlib.closing(self._connect("database")) as database:
                protocol.prepare(database)
            self._prepared = True
        if not made:
            assert marker is not None, "the folder was claimed before"
            self._folder.write(replace(marker, ready=True))

    def _watch(self) -> None:
        """Register the server with the watchdog; it detects a halted process or a hanging disk."""
        url = self._url(self._keys.first_database)
        title = f"{self.engine.title} on {self._folder.data}"
        watchdog.watch(watchdog.address(url), title, self._hears)

    def _hears(self, seconds: float) -> bool:
        """Return whether the server answers on the watchdog's own connection within that time."""
        if self._asking is None:
            try:
                url = self._url(self._keys.first_database)
                connector = connector_of(url)
                self._asking = connector.wire, driver.connect(connector)
            except ReplayerError:
                return False
        return driver.answers(self._asking[0], self._asking[1], seconds)

    def _unwatch(self) -> None:
        if self._socket is not None:
            watchdog.forget(watchdog.address(self._url(self._keys.first_database)))
        if self._asking is not None:
            driver.end(*self._asking)
            self._asking = None

    def _connect(self, which: Literal["database", "first_database"]) -> Database:
        return Database(self.engine, self._url(getattr(self._keys, which)))

    def _make(self) -> None:
        """Make the data directory; start from scratch if an earlier attempt was interrupted."""
        data = self._folder.data
        try:
            self._folder.new_data(self.programs.user)
            self._folder.check_space(self._keys.new_bytes)
            more = settings.init_arguments(self._keys, self._init, self.version)
            if not self._keys.guest:
                self._installed.run([*self._with_a_name(), *self._keys.init, *more])
            keys = self._keys.settings_file
            if keys.included_by:
                self._folder.add_to_data(keys.included_by, keys.include, self.programs.user)
        except (OSError, ValueError) as error:
            raise Impossible(
                f"{data} cannot be made: {getattr(error, 'strerror', '') or error}"
            ) from error

    def _with_a_name(self) -> list[str]:
        """Return a command prefix that runs a program under a user name, if this user has no name.

        Some programs refuse a user id without an entry in /etc/passwd.  In a user namespace the id
        gets another user's name, and the files that the program makes still belong to this user.
        """
        if self.programs.user is not None or programs.has_name(os.geteuid()):
            return []
        other = programs.ordinary_user(self._keys.users)
        unshare = shell.find("unshare")
        if other is None or unshare is None:
            raise Impossible(
                f"the user id {os.geteuid()} has no name, and {self.engine.title} wants one: add "
                f"it to /etc/passwd, or run replayer as another user"
            )
        return [
            str(unshare), "--user", f"--map-user={other.uid}", f"--map-group={other.gid}", "--",
        ]  # fmt: skip

    def _launch(self) -> None:
        """Start the server's processes with the current settings."""
        try:
            self._write_settings()
            self._folder.begin_log(self.programs.user)
        except OSError as error:
            raise ReplayerError(
                f"{self.engine.title} cannot be started: {error.filename}: {error.strerror}"
            ) from error
        self._identity = self._started()
        # Record the server as soon as it is known: after a kill of replayer and of this server, a
        # server that another user starts here must not be taken for this one.
        self._write_down()

    def _clear_the_way(self) -> None:
        """End what remains of a killed server, and remove its socket and pid file."""
        self._end()
        self._identity = ""
        if self._socket is not None:
            socket_folder.empty(self._socket)
        # A pid file that is left over names no process of the new server.
        self._folder.forget_data(self._keys.pid_file)

    def _started(self) -> str:
        """Start the server, wait until it is ready, and return its main process's identity."""
        try:
            if self._keys.stays or self._keys.guest:
                return self._started_beside()
            self._installed.run(self._keys.start)
        except ReplayerError as error:
            raise self._refusal(error) from error
        return journal.identity(shutdown.read_pid(self._installed.pid_file))

    def _started_beside(self) -> str:
        """Start a server that stays replayer's child, and wait until it takes connections."""
        keys, socket = self._keys, self._socket
        assert socket is not None, "its folder was made before"
        guest = keys.guest
        self._child = shell.start(
            programs.guest_command(keys, self._folder.data, socket, self.programs.user)
            if guest
            else self._installed.arguments(keys.start),
            # A guest's process gives the rights up by itself, when its library is loaded.
            user=None if guest else self.programs.user,
            environment=self._installed.environment(),
            output=self._folder.log,
            folder=Path("/") if guest else None,
        )
        begin = time.monotonic()
        refused_since, refusal = math.inf, ""
        while time.monotonic() - begin < shutdown.PATIENCE:
            status = self._child.poll()
            if status is not None:
                raise ReplayerError(_ended(status))
            answer = self._answer()
            if answer == "":
                return journal.identity(self._main_beside(self._child.pid))
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

    def _main_beside(self, child: int) -> int:
        """Return the server's main process; it may be a child of a wrapper (numactl, a script)."""
        main = shutdown.read_pid(self._installed.pid_file)
        return main if main in processes.family(child) else child

    def _answer(self) -> str | None:
        """Try to connect; return "", the server's error, or None if no process listens."""
        if self._socket is not None and not (self._socket / self._keys.socket_name).exists():
            return None
        try:
            self._connect("first_database").close()
        except Interrupted:
            raise
        except ReplayerError as error:
            listens = socket_folder.listens(self._socket, self._keys.socket_name)
            return str(error) if listens else None
        return ""

    def _write_down(self) -> None:
        """Record the server that is about to run, or runs, in place of the earlier record."""
        with signals.shield():
            before = self._server_note
            self._server_note = journal.take(
                "server",
                data=str(self._folder.data),
                programs=str(self.programs.folder),
                engine=self.engine.name,
                user=list(self.programs.user) if self.programs.user else None,
                identity=self._identity,
            )
            if before is not None:
                before.drop()

    def _refusal(self, error: ReplayerError) -> ReplayerError:
        """Return why the server did not start, with the setting that it refused."""
        messages = self._said()
        why = _reason(messages, self._keys, error)
        named = settings.named_in(messages, {**self._overrides, **self._base})
        if named is not None:
            name, line = named
            reason = why if line.startswith(("HINT", "DETAIL")) else line
            return Impossible(f"{self.engine.title} refused the setting {name}: {reason}")
        free = self._folder.free_bytes()
        if free < _TIGHT:
            why += f" (only {units.show_size(free)} are free in {self._folder.path})"
        return ReplayerError(f"{self.engine.title} did not start: {why}")

    def _said(self) -> list[str]:
        return _messages(self._folder.log, self._keys)

    def _end(self) -> None:
        self._unwatch()
        if self._child is not None and not self._installed.processes():
            # The child is a wrapper without a server, or an interpreter that is the server itself.
            shutdown.end_child(self._child, self._keys.stop_signals)
        shutdown.end(self._installed, self._identity)
        if self._child is not None:
            shutdown.end_child(self._child, self._keys.stop_signals, after=_NOTICE)
            self._child = None

    def _write_settings(self) -> None:
        memory = Host().usable_memory_bytes()
        asked = {
            **settings.standard(self._keys, self.version, memory),
            **self._base,
            **self._overrides,
            **settings.fixed(self._keys, {"socket": self._socket, "data": self._folder.data}),
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

    The caller holds the lock of its data folder.  A server that replayer did not start keeps
    running.
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
    """Return how to stop the server of a note; raise Untrusted if no engine describes it."""
    try:
        keys = load(note.text("engine")).spec.server
    except Impossible as error:
        raise journal.Untrusted(note, "there is no engine of that name") from error
    if not keys.starts:
        raise journal.Untrusted(note, "its engine starts no server")
    return keys


def _messages(log: Path, keys: ServerSpec) -> list[str]:
    """Return a log's lines without their time stamps; [] if there is none."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    lines = (" ".join(keys.log_prefix.sub("", raw).split()) for raw in text.splitlines())
    return [line for line in lines if line]


def _weighty(messages: Sequence[str], keys: ServerSpec) -> list[str]:
    return [line for line in messages if keys.log_weight.search(line)]


def _reason(messages: Sequence[str], keys: ServerSpec, error: ReplayerError) -> str:
    """Return why a server did not start: its log's reason, or its last line and the observation."""
    weighty = _weighty(messages, keys)
    if weighty:
        return weighty[-1]
    last = f"; the last line of its log is: {messages[-1]}" if messages else ""
    return f"{str(error).rstrip('.')}{last}"


def _ended(status: int) -> str:
    """Return how a process ended unexpectedly, as text."""
    if status < 0:
        return f"it was killed by {signals.name_of(-status)}"
    return f"it ended with status {status}"
