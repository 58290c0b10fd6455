"""The database server: one that replayer starts itself, or one that is already there.

How an engine's server is made, started and stopped is said by [server] in its engine.toml; nothing
here names an engine.
"""

import contextlib
import os
import re
import secrets
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from replayer import custody, datafolder, processes, programs, shell, signals, units
from replayer.custody import Note
from replayer.database import Database, url_of
from replayer.datafolder import DataFolder
from replayer.engine import Engine, load
from replayer.errors import Impossible, NotFound, ReplayerError, Skip, nearest
from replayer.model import EngineFacts
from replayer.programs import Programs
from replayer.shell import User

if TYPE_CHECKING:
    import subprocess  # noqa: TID251 - the type of what shell.start returned

    from sqlalchemy.engine import URL

_SETTING = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_PAUSE = 0.02
_PATIENCE = 600.0
"""Seconds that a start or a stop may take: a crash recovery or a checkpoint of a large cluster."""
_ORPHANS = 15.0
"""Seconds that processes without a main process are given to end by themselves."""
_SOCKET_LIMIT = 108
"""Bytes of sun_path in unix(7), with the NUL."""


class Place(Protocol):
    """Where the database is, and what can be done to its server."""

    kind: Literal["private", "url"]
    can_stop: bool
    version: int
    """The server's major version."""
    engine: Engine
    """The engine at that version."""

    def start(self, settings: Mapping[str, str] | None = None) -> "URL":
        """Start the server if it is stopped, and return the URL of its database.

        `settings` become the overrides on top of the base settings, with a restart if they differ
        from the current ones; None keeps the current ones.
        """
        ...

    def stop(self) -> None:
        """Stop the server; its processes are gone on return.  Raise Skip if it is not ours."""
        ...

    def data_directory(self) -> Path | None:
        """Return where the server's files are on this machine, None if they are elsewhere."""
        ...

    def pids(self) -> list[int]:
        """Return the server's main process and all its children; [] if it is stopped."""
        ...

    def cpu_seconds(self) -> processes.CpuSeconds:
        """Return the CPU seconds of all the server's processes since its start."""
        ...

    def facts(self) -> EngineFacts:
        """Return what the server is, and every setting that is not its default."""
        ...

    def last_words(self) -> str:
        """Return the last thing of weight that the server said, "" if it is not known."""
        ...


class PrivateServer:
    """A server of replayer's own: own data directory, own socket, own settings."""

    kind: Literal["private", "url"] = "private"
    can_stop = True

    def __init__(
        self,
        engine: Engine,
        found: Programs,
        folder: DataFolder,
        *,
        base: Mapping[str, str],
        init: Mapping[str, str],
    ) -> None:
        self.programs = found
        self.version = found.major
        self.engine = engine.at(found.major)
        self._keys: Mapping[str, Any] = engine.keys["server"]
        self._folder = folder
        self._base = dict(base)
        self._init = dict(init)
        self._overrides: dict[str, str] = {}
        self._socket: Path | None = None
        self._socket_note: Note | None = None
        self._server_note: Note | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._identity = ""
        self._prepared = False

    def start(self, settings: Mapping[str, str] | None = None) -> "URL":
        """Start the server if it is stopped, and return the URL of its database."""
        wanted = self._overrides if settings is None else self._checked(settings)
        if self.running():
            if wanted == self._overrides:
                return self._url(self._keys["database"])
            self.stop()
        before, self._overrides = self._overrides, wanted
        try:
            self._bring_up()
        except ReplayerError:
            self._overrides = before
            raise
        return self._url(self._keys["database"])

    def running(self) -> bool:
        """Tell whether the server that this place started still runs."""
        return custody.alive(self._identity)

    def stop(self) -> None:
        """Stop the server; its processes are gone on return, and a stopped one stays stopped."""
        with signals.shield():
            self._end()
            self._identity = ""
            if self._server_note is not None:
                self._server_note.drop()
                self._server_note = None

    def close(self) -> None:
        """Stop the server and give back all that was taken for it."""
        with signals.shield():
            self.stop()
            if self._socket is not None:
                shutil.rmtree(self._socket, ignore_errors=True)
                self._socket = None
            if self._socket_note is not None:
                self._socket_note.drop()
                self._socket_note = None

    def data_directory(self) -> Path:
        """Return the server's data directory."""
        return self._folder.data

    def pids(self) -> list[int]:
        """Return the server's main process and all its children; [] if it is stopped."""
        return processes.family(self._main()) if self.running() else []

    def cpu_seconds(self) -> processes.CpuSeconds:
        """Return the CPU seconds of all the server's processes since its start."""
        members = processes.family(self._main(), ended=True) if self.running() else []
        return processes.cpu_seconds(members)

    def facts(self) -> EngineFacts:
        """Return what the server is, and every setting that is not its default."""
        facts = {
            "data.directory": str(self._folder.data),
            "server.programs": str(self.programs.folder),
            "server.user": self.programs.user.name if self.programs.user else "",
        }
        return _facts(self, facts)

    def last_words(self) -> str:
        """Return the last thing of weight in the server's log since its last start."""
        return _last_words(self._said(), self._keys)

    def _main(self) -> int:
        return int(self._identity.split(":")[1])

    def _url(self, database: str) -> "URL":
        text = self._keys["url"].format(database=database, socket=self._socket)
        return url_of(text, self.engine)

    def _checked(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Return a step's settings; raise Impossible for one that only a new data directory has."""
        init, rest = split(self._keys, self.version, settings)
        if any(self._init.get(name) != value for name, value in init.items()):
            raise Impossible(
                f"{', '.join(init)} is chosen when the data directory is made: give it to the "
                f"whole run with --pg-set, not to a step"
            )
        return rest

    def _bring_up(self) -> None:
        self._clear_the_way()
        if self._socket is None:
            self._socket, self._socket_note = _socket_folder(self._keys, self.programs)
        if not self._is_made():
            self._make()
        self._launch()
        if not self._prepared:
            self._prepare()

    def _clear_the_way(self) -> None:
        """Wait for what a killed server left, so that nothing of it meets the new one."""
        if self._server_note is not None:
            self._server_note.drop()
        self._end()
        for left in self._socket.iterdir() if self._socket else ():
            left.unlink(missing_ok=True)
        _remove_stale(self._folder.data / self._keys["pid_file"])

    def _is_made(self) -> bool:
        marker = self._folder.marker()
        return marker is not None and marker.ready and self._folder.data.is_dir()

    def _make(self) -> None:
        """Make the data directory, from the beginning if an earlier attempt was cut short."""
        data = self._folder.data
        try:
            if data.exists():
                shutil.rmtree(data)
            self._folder.check_space(units.size(self._keys["new_bytes"]))
            data.mkdir(mode=0o700)
            self._hand_over(data)
            arguments = [*self._keys["init"]]
            for name, value in self._init.items():
                arguments += _versioned(self._keys["init_settings"][name], value, self.version)
            self._run(arguments)
            self._write_settings()
            self._include_settings()
        except OSError as error:
            raise Impossible(f"{data} cannot be made: {error.strerror or error}") from error
        self._launch()
        with contextlib.closing(
            Database(self.engine, self._url(self._keys["first_database"]))
        ) as d:
            d.execute("database")
        self._prepare()
        marker = self._folder.marker()
        assert marker is not None, "the folder was claimed before"
        self._folder.write(replace(marker, ready=True))

    def _prepare(self) -> None:
        with contextlib.closing(
            Database(self.engine, self._url(self._keys["database"]))
        ) as database:
            database.execute("prepare")
        self._prepared = True

    def _launch(self) -> None:
        """Start the server's processes with the settings as they are now."""
        if self.running():
            return
        log = self._folder.log
        try:
            self._write_settings()
            if log.exists():
                log.replace(log.with_name(f"{log.name}.1"))
            log.touch(mode=0o600)
            self._hand_over(log)
        except OSError as error:
            raise ReplayerError(
                f"{self.engine.title} cannot be started: {error.filename}: {error.strerror}"
            ) from error
        self._server_note = custody.take("server", **self._taken())
        self._identity = self._started()
        # Known now: a server that somebody else starts here after a kill of both is not this one.
        first, self._server_note = self._server_note, custody.take("server", **self._taken())
        first.drop()

    def _started(self) -> str:
        """Start the server, wait until it is ready, and return its main process's identity."""
        try:
            if self._keys.get("stays"):
                return self._started_beside()
            self._run(self._keys["start"])
            main = _pid(self._folder.data / self._keys["pid_file"])
        except ReplayerError as error:
            refusal = self._refusal(str(error))
            self.stop()
            raise refusal from error
        return custody.identity(main)

    def _started_beside(self) -> str:
        """Start a server that stays replayer's child, and wait until it takes connections."""
        self._child = shell.start(
            self._filled(self._keys["start"]),
            user=self.programs.user,
            environment=self._keys.get("environment"),
            output=self._folder.log,
        )
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            if self._child.poll() is not None:
                raise ReplayerError("it ended at once")
            try:
                Database(self.engine, self._url(self._keys["first_database"])).close()
            except ReplayerError:
                time.sleep(_PAUSE)
            else:
                return custody.identity(self._child.pid)
        raise ReplayerError(f"it took no connection within {_PATIENCE:.0f} s")

    def _taken(self) -> dict[str, Any]:
        return {
            "data": str(self._folder.data),
            "programs": str(self.programs.folder),
            "program": self.programs.program,
            "engine": self.engine.name,
            "user": list(self.programs.user) if self.programs.user else None,
            "identity": self._identity,
        }

    def _refusal(self, error: str) -> ReplayerError:
        """Return why the server did not start, naming the setting that it did not like."""
        said = self._said()
        why = _last_words(said, self._keys) or error
        for name in {**self._overrides, **self._base}:
            for line in said:
                if re.search(rf"""(^|["'\s]){re.escape(name)}($|["'\s:=])""", line):
                    weighty = why if line.startswith(("HINT", "DETAIL")) else line
                    return Impossible(f"{self.engine.title} refused the setting {name}: {weighty}")
        return ReplayerError(f"{self.engine.title} did not start: {why}")

    def _said(self) -> list[str]:
        try:
            text = self._folder.log.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return []
        prefix = re.compile(self._keys.get("log_prefix", "^"))
        lines = (prefix.sub("", line).strip() for line in text.splitlines())
        return [line for line in lines if line]

    def _end(self) -> None:
        user, folder = self.programs.user, self.programs.folder
        _end(self._keys, self._folder.data, folder, user, self._identity)
        if self._child is not None:
            self._child.wait()
            self._child = None

    def _filled(self, arguments: Sequence[str]) -> list[str]:
        return _filled(arguments, self._folder.data, self.programs.folder, self._socket)

    def _run(self, arguments: Sequence[str]) -> None:
        shell.run(
            self._filled(arguments),
            user=self.programs.user,
            environment=self._keys.get("environment"),
            folder=Path("/"),
            timeout=_PATIENCE + 30,
        )

    def _settings(self) -> dict[str, str]:
        """Return all settings that the server is started with: ours, the run's, the step's."""
        ours = {name: _value(value) for name, value in self._keys.get("settings", {}).items()}
        fixed = {
            name: str(value).format(socket=self._socket)
            for name, value in self._keys.get("fixed", {}).items()
            if value is not False
        }
        return {**ours, **self._base, **self._overrides, **fixed}

    def _write_settings(self) -> None:
        said = self._keys["settings_file"]
        lines = [said["head"]] if "head" in said else []
        for name, value in self._settings().items():
            safe = "".join(said.get("escape", {}).get(c, c) for c in value)
            lines.append(said["line"].format(name=name, value=safe))
        path = self._folder.data / said["path"]
        path.write_text("\n".join([*lines, ""]), encoding="utf-8")
        path.chmod(0o600)
        self._hand_over(path)

    def _include_settings(self) -> None:
        said = self._keys["settings_file"]
        if "included_by" in said:
            with (self._folder.data / said["included_by"]).open("a", encoding="utf-8") as file:
                file.write(f"\n{said['include']}\n")

    def _hand_over(self, path: Path) -> None:
        """Give something that replayer just made to the server's user."""
        if self.programs.user is not None:
            os.chown(path, self.programs.user.uid, self.programs.user.gid)


class Remote:
    """A server that somebody else started, on this machine or another."""

    kind: Literal["private", "url"] = "url"
    can_stop = False

    def __init__(self, engine: Engine, url: str) -> None:
        self._where = url_of(url, engine)
        with contextlib.closing(Database(engine, self._where)) as database:
            row = database.execute("version")[0]
            self.version = int(row["major"])
            oldest = engine.keys.get("server", {}).get("oldest", 0)
            if self.version < oldest:
                raise Impossible(
                    f"the server is {engine.title} {row['version']}: replayer needs {oldest} or "
                    f"later"
                )
            self.engine = engine.at(self.version)
            claims = database.execute("claim")
        if any(not claim["ours"] for claim in claims):
            raise Impossible(
                f"the database {self._where.database} has a schema `replayer` that replayer did "
                f"not make: use another database, or rename that schema"
            )
        self._prepared = False
        self._data: Path | None = None
        self._looked = False

    def start(self, settings: Mapping[str, str] | None = None) -> "URL":
        """Return the URL; raise Skip for settings, which only the server's owner can change."""
        if settings:
            raise Skip(
                f"the settings {', '.join(settings)} of a server that is not ours cannot be changed"
            )
        if not self._prepared:
            with contextlib.closing(Database(self.engine, self._where)) as database:
                database.execute("prepare")
            self._prepared = True
        return self._where

    def stop(self) -> None:
        """Raise Skip: a server that replayer did not start is never stopped."""
        raise Skip("the server was not started by replayer, and is never stopped by it")

    def close(self) -> None:
        """Give nothing back: nothing was taken."""

    def data_directory(self) -> Path | None:
        """Return the server's data directory if it is proven to be on this machine, else None."""
        return None

    def pids(self) -> list[int]:
        """Return the server's processes, if they are on this machine."""
        return []

    def cpu_seconds(self) -> processes.CpuSeconds:
        """Return the CPU seconds of the server's processes, if they are on this machine."""
        return processes.cpu_seconds(self.pids())

    def facts(self) -> EngineFacts:
        """Return what the server is, and every setting that is not its default."""
        return _facts(self, {"server.host": self._where.host or ""})

    def last_words(self) -> str:
        """Return "": the log of somebody else's server is not ours to read."""
        return ""


@contextlib.contextmanager
def open_place(
    engine: Engine,
    *,
    url: str | None = None,
    bindir: Path | None = None,
    data_dir: Path | None = None,
    settings: Mapping[str, str] | None = None,
) -> Iterator[Place]:
    """Yield the database's place; at the end a private server is stopped and all is given back.

    Nothing is started yet: `Place.start` does.  Raises Impossible for what cannot be.
    """
    if url is not None:
        if settings:
            raise Impossible(
                f"the settings {', '.join(settings)} are for a server that replayer starts; set "
                f"them on the server itself"
            )
        yield Remote(engine, url)
        return
    with _private(engine, bindir, data_dir, settings or {}) as place:
        yield place


@contextlib.contextmanager
def _private(
    engine: Engine, bindir: Path | None, data_dir: Path | None, settings: Mapping[str, str]
) -> Iterator[PrivateServer]:
    keys = engine.keys.get("server")
    if keys is None:
        raise Impossible(
            f"{engine.title} is not started by replayer: give --engine the URL of a running server"
        )
    found = programs.find(engine.title, keys, bindir)
    init, base = split(keys, found.major, settings)
    path = data_dir.absolute() if data_dir else datafolder.standard(engine.name, found.major, init)
    folder = DataFolder(path)
    folder.check_reach(found.user)
    made = folder.make()
    with folder.locked():
        folder.claim(engine.name, found.major, init, made=made)
        _give_back_leftovers(folder)
        place = PrivateServer(engine, found, folder, base=base, init=init)
        try:
            yield place
        finally:
            place.close()


def split(
    keys: Mapping[str, Any], major: int, settings: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the settings that make a data directory, and the rest, with their names normalised.

    Raises Impossible for a name that is no name, a value of several lines, or a setting that
    replayer sets itself.
    """
    init: dict[str, str] = {}
    rest: dict[str, str] = {}
    for given, value in settings.items():
        name = given.strip().lower()
        if not _SETTING.fullmatch(name):
            raise Impossible(f"{given!r} is no name of a server setting")
        if any(ord(c) < 32 for c in value):
            raise Impossible(f"the value of {name} has a line break or a control character in it")
        if name in keys.get("fixed", {}):
            raise Impossible(f"the setting {name} cannot be changed: replayer sets it itself")
        if name in keys.get("init_settings", {}):
            _versioned(keys["init_settings"][name], value, major, name)
            init[name] = value
        else:
            rest[name] = value
    return init, rest


def recover(note: Note) -> str:
    """Give back what an earlier replayer left, and return what was done in a few words.

    Raises ReplayerError if it cannot be given back; the note is kept then.
    """
    if note.kind == "socket":
        path = Path(note.details["path"])
        shutil.rmtree(path, ignore_errors=True)
        note.drop()
        return f"socket folder {path} removed"
    folder = DataFolder(Path(note.details["data"]).parent)
    if not folder.path.is_dir():
        note.drop()
        return f"the data folder {folder.path} of a server is gone"
    with folder.locked():
        return _recover_server(note)


def _give_back_leftovers(folder: DataFolder) -> None:
    """Stop the server that a killed replayer left on a data folder; its lock is held."""
    for note in list(custody.notes("server")):
        if note.abandoned and Path(note.details["data"]) == folder.data:
            _recover_server(note)


def _recover_server(note: Note) -> str:
    keys = load(note.details["engine"]).keys["server"]
    data, identity = Path(note.details["data"]), note.details["identity"]
    user = User(*note.details["user"]) if note.details["user"] else None
    main = _pid(data / keys["pid_file"])
    ours = processes.serving(data, Path(note.details["programs"]), user)
    if identity and main in ours and custody.identity(main) != identity:
        note.drop()
        return f"the server on {data} (process {main}) was not started by replayer, and stays"
    _end(keys, data, Path(note.details["programs"]), user, identity)
    note.drop()
    return f"server on {data} {'stopped' if ours else 'had ended'}"


def _end(
    keys: Mapping[str, Any], data: Path, bindir: Path, user: User | None, identity: str
) -> None:
    """Stop the server on a data directory and wait until every process of it is gone.

    Processes that outlive their killed main process end by themselves when they notice; those that
    are too busy to notice are ended.
    """
    asked = ""
    begin = time.monotonic()
    while left := processes.serving(data, bindir, user):
        waited = time.monotonic() - begin
        known = int(identity.split(":")[1]) if custody.alive(identity) else 0
        main = known or _pid(data / keys["pid_file"])
        if main in left and custody.identity(main) != asked:
            asked = custody.identity(main)
            _ask_to_stop(keys, data, bindir, user, main)
        elif main not in left and waited > _ORPHANS:
            hard = waited > 2 * _ORPHANS
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL if hard else signal.SIGTERM)
        elif waited > _PATIENCE:
            raise ReplayerError(
                f"the server on {data} did not stop within {_PATIENCE:.0f} s (process {left[0]})"
            )
        time.sleep(_PAUSE)


def _ask_to_stop(
    keys: Mapping[str, Any], data: Path, bindir: Path, user: User | None, main: int
) -> None:
    if "stop" in keys:
        # It fails when the server ends meanwhile, and the caller looks for itself anyway.
        with contextlib.suppress(ReplayerError):
            shell.run(
                _filled(keys["stop"], data, bindir, None),
                user=user,
                environment=keys.get("environment"),
                folder=Path("/"),
                timeout=_PATIENCE + 30,
            )
    else:
        with contextlib.suppress(ProcessLookupError):
            os.kill(main, signal.Signals[keys.get("stop_signal", "SIGTERM")])


def _filled(arguments: Sequence[str], data: Path, bindir: Path, socket: Path | None) -> list[str]:
    words = {"bin": bindir, "data": data, "log": DataFolder(data.parent).log, "socket": socket}
    return [argument.format(**words) for argument in arguments]


def _pid(path: Path) -> int:
    """Return the process id in the first line of a pid file, 0 if there is none."""
    try:
        return int(path.read_text(encoding="utf-8", errors="replace").split("\n", 1)[0])
    except (OSError, ValueError):
        return 0


def _remove_stale(path: Path) -> None:
    """Remove the pid file of a server that is gone; its number may be another process's by now."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


def _socket_folder(keys: Mapping[str, Any], found: Programs) -> tuple[Path, Note]:
    """Make a short private folder for the server's socket, and write it down."""
    refusals = []
    for parent in dict.fromkeys([*map(Path, keys["socket_folders"]), Path(tempfile.gettempdir())]):
        path = parent / f"replayer-{secrets.token_hex(4)}"
        if len(os.fsencode(path / keys["socket_name"])) >= _SOCKET_LIMIT:
            refusals.append(f"{parent} is too long a path")
            continue
        note = custody.take("socket", path=str(path))
        try:
            path.mkdir(mode=0o700)
            if found.user is not None:
                os.chown(path, found.user.uid, found.user.gid)
        except OSError as error:
            note.drop()
            refusals.append(f"{parent}: {error.strerror}")
            continue
        if programs.blocked(path, found.user) is None:
            return path, note
        path.rmdir()
        note.drop()
        refusals.append(f"the server's user cannot enter {parent}")
    raise Impossible(f"there is no folder for the server's socket: {'; '.join(refusals)}")


def _versioned(choices: Mapping[str, Any], value: str, major: int, name: str = "") -> list[str]:
    """Return the arguments of a choice: of `<value>.NN` for the newest NN up to this version."""
    values = sorted({choice.split(".")[0] for choice in choices})
    if value not in values:
        raise NotFound(f"{name} cannot be {value!r}{nearest(value, values)}")
    newest = max(
        (
            int(since)
            for base, _, since in (c.partition(".") for c in choices)
            if base == value and since and int(since) <= major
        ),
        default=None,
    )
    return list(choices[value if newest is None else f"{value}.{newest}"])


def _value(value: Any) -> str:
    """Return a setting of engine.toml as text; a table is a size bounded by the memory."""
    if not isinstance(value, Mapping):
        return str(value)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    most = min(units.size(value["most"]), int(memory * value["of_memory"]))
    return f"{most >> 20}{value['unit']}"


def _last_words(said: Sequence[str], keys: Mapping[str, Any]) -> str:
    weighty = [line for line in said if re.search(keys.get("log_weight", "$^"), line)]
    return (weighty or list(said) or [""])[-1]


def _facts(place: Place, facts: Mapping[str, str]) -> EngineFacts:
    with contextlib.closing(Database(place.engine, place.start())) as database:
        version = str(database.execute("version")[0]["version"])
        settings = {str(r["name"]): str(r["value"]) for r in database.execute("settings")}
    return EngineFacts(
        name=place.engine.name,
        version=version,
        place=place.kind,
        settings=settings,
        facts=dict(facts),
    )
