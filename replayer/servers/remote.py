"""A database server that another user started, on this machine or on another host."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from replayer import assets
from replayer.engines import credentials, environment, watchdog
from replayer.engines.connection import Database, Row, url_of
from replayer.engines.engine import alike
from replayer.engines.verbs import VerbName
from replayer.errors import Denied, Impossible, ReplayerError, Skip, one_line
from replayer.machine import processes
from replayer.servers import leftovers, lock, protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sqlalchemy.engine import URL

    from replayer.engines.engine import Engine
    from replayer.model import EngineFacts, Fact

_LOCATION = VerbName("location")
_CLAIM = VerbName("claim")
_BACKEND = VerbName("backend")
_PROCESS = re.compile(r"^(?:PID: )?(\d+)\s*$", re.MULTILINE)
"""A process id alone, or in a line of ClickHouse's file `status`."""
_MOST_BYTES = 64 * 1024
"""The most bytes that are read of a file: such a file has a few lines."""
_POOL_TRIES = 3
"""Number of queries in the check for a pooler.

So few that the driver does not prepare the statement, which would then stay in the session.
"""
_PING_SECONDS = 5.0
"""Seconds to wait for an answer on the session that holds the lock.

After that, the server is asked over another connection.
"""


class Remote:
    """A server that is not replayer's own: it is queried, never stopped and never configured."""

    kind: protocol.Kind = "url"
    can_stop = False

    def __init__(self, engine: Engine, url: URL, lock: Database | None = None) -> None:
        """Describe the server at `url`; `engine` has the server's major version.

        `lock` is the connection that holds the server's lock; None if the server is not locked.
        """
        self.engine = engine
        self.version = engine.version or 0
        self._where = url
        self._lock = lock
        self._facts: EngineFacts | None = None
        self.lock_answers: Callable[[float], bool] | None = None
        """Returns whether the session that holds the lock answers within a number of seconds."""
        self._data: tuple[Path, int] | None = None
        self._looked = False
        self._absent = protocol.ELSEWHERE

    def start(self) -> URL:
        """Return the URL of the server's database; a remote server always counts as running."""
        return self._where

    def url(self) -> URL:
        """Return the URL of the server's database."""
        return self._where

    @contextlib.contextmanager
    def settings(self, overrides: Mapping[str, str]) -> Iterator[URL]:
        """Yield the URL if `overrides` is empty, else raise Skip: settings cannot be changed."""
        if overrides:
            raise Skip(
                f"the settings {', '.join(overrides)} of a server that replayer did not start "
                f"cannot be changed"
            )
        yield self._where

    def stop(self) -> None:
        """Raise Skip: a server that replayer did not start is never stopped."""
        raise Skip("the server was not started by replayer, and is never stopped by it")

    def evict(self) -> str:
        """Empty the server's buffers, and return a text that names the method.

        The server's other clients only lose time by that.  Raises Skip if it is not possible.
        """
        with contextlib.closing(Database(self.engine, self._where)) as database:
            return protocol.evict(database)

    def data_directory(self) -> Path | None:
        """Return the server's data directory if it is proven to be on this machine, else None."""
        folder_and_pid = self._found()
        return folder_and_pid[0] if folder_and_pid else None

    def explain_missing_files(self) -> protocol.NoFiles:
        """Return why there is no data directory: it is on another host, or a right is missing."""
        self._found()
        return self._absent

    def pids(self) -> list[int]:
        """Return the server's process ids; [] if they are on another host or cannot be seen."""
        folder_and_pid = self._found()
        return self._family(folder_and_pid, ended=False)

    def cpu_seconds(self) -> processes.CpuSeconds:
        """Return the user and system CPU seconds of the server's processes since its start.

        Both are 0 if the processes are not known on this machine.
        """
        return processes.cpu_seconds(self._family(self._found(), ended=True))

    def locate(self, database: Database) -> None:
        """Find out where the server's data is, over the open connection `database`.

        The result is kept for `data_directory` and `pids`.
        """
        self._found(database)

    def identify(self, database: Database) -> None:
        """Read and keep the server's facts, over the open connection `database`.

        An error is ignored: `facts` then reads them again, and raises the error.
        """
        self.locate(database)
        with contextlib.suppress(ReplayerError):
            self._facts = self._ask_facts(database)

    def facts(self) -> EngineFacts:
        """Return the server's version, facts on it, and each setting that is not its default."""
        if self._facts is None:
            with contextlib.closing(Database(self.engine, self._where)) as database:
                self._facts = self._ask_facts(database)
        return self._facts

    def _ask_facts(self, database: Database) -> EngineFacts:
        data = self._found(database)
        known: dict[str, Fact] = {
            "server.host": self._where.host or str(self._where.query.get("host", "")),
            "data.directory": str(data[0]) if data else None,
            **environment.limits(),
        }
        if data is None:
            known["server.machine"] = (
                "another one, as far as can be seen: host, device and memory are this machine's"
            )
        return protocol.facts(database, self.kind, known)

    def list_leftovers(self) -> dict[str, Fact]:
        """Return facts (name -> value) on replayer's objects on the server; {} if not known."""
        try:
            with contextlib.closing(Database(self.engine, self._where)) as database:
                return leftovers.facts(database)
        except ReplayerError:
            return {}

    def describe_loss(self) -> str:
        """Return a message if this run no longer has the lock on the server; "" if it has.

        Also returns "" if the server does not answer.  Without the lock another run could begin,
        and both would measure each other.
        """
        if self._lock is None or self.lock_answers is None:
            return ""
        if not self.engine.spec.lock.outlives_session and self.lock_answers(_PING_SECONDS):
            return ""
        try:
            with contextlib.closing(Database(self.engine, self._where)) as asking:
                lost = lock.is_lost(asking, self._lock.session)
        except ReplayerError:
            # The server itself does not answer: the step's own error reports that.
            return ""
        if not lost:
            return ""
        return (
            "this run's lock was taken away, or the server ended its session, so that another run "
            "could begin,"
        )

    def read_last_words(self) -> str:
        """Return "": the log of another user's server must not be read."""
        return ""

    def _family(self, folder_and_pid: tuple[Path, int] | None, *, ended: bool) -> list[int]:
        if (
            folder_and_pid is None
            or processes.working_folder(folder_and_pid[1]) != folder_and_pid[0].resolve()
        ):
            return []
        return processes.family(folder_and_pid[1], ended=ended)

    def _found(self, database: Database | None = None) -> tuple[Path, int] | None:
        """Return the data directory and the main process's id (0 if unknown) of the server.

        Returns None if they are not proven to be on this machine.  For the proof, the server
        reports the path of its data and the content of one file that no other server has, and that
        file is read here: the path alone may exist on several hosts.  The server is asked only at
        the first call, over `database` if that is given.
        """
        if not self._looked:
            self._looked = True
            try:
                self._data = self._look(database)
            except Denied as error:
                self._absent = protocol.NoFiles(
                    f"where the server's files are is not known: {error}",
                    "give this user the rights that `replayer check --engine URL` prints",
                )
            except (ReplayerError, OSError, ValueError):
                # The engine has no verb for that, or the server does not answer, or it names what
                # cannot be a path: nothing is proven.
                self._data = None
        return self._data

    def _look(self, database: Database | None) -> tuple[Path, int] | None:
        if database is None:
            with contextlib.closing(Database(self.engine, self._where)) as own:
                return self._look(own)
        row = database.row(_LOCATION)
        for folder in environment.folders(self.engine.name, Path(row["directory"])):
            try:
                here = _beginning(folder / row["file"])
            except PermissionError:
                self._absent = protocol.NoFiles(
                    f"the server's folder {folder} may not be read by this user",
                    "run as root, or as the server's user",
                )
                continue
            except OSError:
                continue
            if here.strip() == str(row["content"]).strip():
                return folder, _process(row, folder)
        return None


def _beginning(path: Path) -> str:
    """Return the first bytes of a regular file, as text; raise OSError if it cannot be read.

    The server names the file, and may be broken or hostile: it can be a device or a pipe.  A file
    without a size, such as /proc/kmsg, may be one of the kernel, which reading changes.
    """
    with assets.open_regular(path) as file:
        if not os.fstat(file.fileno()).st_size:
            raise OSError(f"{path} is empty")
        return (file.read(_MOST_BYTES) or b"").decode(errors="replace")


def _process(row: Mapping[str, Any], folder: Path) -> int:
    """Return the id of the server's main process; 0 if it is not known.

    `row` is the server's answer: it has the id, or the name of the pid file in the data directory
    `folder`.
    """
    process = row["process"]
    if process is None and row.get("pid_file"):
        with contextlib.suppress(OSError):
            process = _beginning(folder / row["pid_file"])
    known = _PROCESS.search(str(process))
    return int(known[1]) if known else 0


class Whereabouts(NamedTuple):
    """The place of a server's data: this machine, another host, or not known."""

    here: bool
    runs: bool
    """True if the server's main process is seen on this machine.

    Data on a disk that several machines share may be here although the server is not.
    """
    proven: bool
    """False if a missing right or a server without an answer leaves the place unknown."""
    why: str
    """The reason for which the data is not here, or not known to be; "" if it is here."""


def whereabouts(engine: Engine, text: str) -> Whereabouts:
    """Return a Whereabouts: whether the data of the server at a URL is on this machine.

    Nothing is changed on the server, and the user is not asked for a password.
    """
    try:
        server = located(engine, text)
    except ReplayerError as error:
        return Whereabouts(here=False, runs=False, proven=False, why=str(error))
    if server.data_directory() is not None:
        return Whereabouts(here=True, runs=bool(server.pids()), proven=True, why="")
    absent = server.explain_missing_files()
    proven = absent == protocol.ELSEWHERE
    return Whereabouts(here=False, runs=False, proven=proven, why=absent.why)


def with_password(engine: Engine, text: str, *, ask: Callable[[str], str] | None = None) -> str:
    """Return the user's URL `text` with a password, so that other hosts can use it.

    If the URL has no password, the password is looked up where the engine's own clients look it up,
    or asked for, and tried on the server.  Raises ReplayerError if that connection fails.
    """
    url = credentials.complete(url_of(text, engine), engine.spec.password)
    if url.password is None:
        title = _title(engine, text)
        with (
            watchdog.watching(watchdog.address(url), f"{title} at {credentials.show(url)}"),
            contextlib.closing(_opened(engine, url, ask, title)) as database,
        ):
            url = database.url.set(password=database.password() or None)
    # Keep the scheme: it may name the engine.
    scheme = text.partition("://")[0]
    return url.set(drivername=scheme).render_as_string(hide_password=False)


@contextlib.contextmanager
def connected(
    engine: Engine,
    text: str,
    *,
    ask: Callable[[str], str] | None = None,
    alone: bool = True,
) -> Iterator[Remote]:
    """Yield the server at a URL, with replayer's schema in its database, locked for this replayer.

    The whole server is locked if `alone`, otherwise its database, if the engine can lock one.  If
    several engines share the URL's scheme, the server itself reports which engine it is.  `ask`
    shows a question and returns a password; None if no user can be asked.  Raises Impossible if the
    server cannot be reached, is too old, is in use by another replayer, or has a schema with
    replayer's name that replayer did not make.
    """
    with _identified(engine, text, ask=ask, begin=True) as database:
        where, title = watchdog.address(database.url), _full_title(database)
        try:
            there = _claimed(database, alone=alone)
        except Denied as error:
            raise Impossible(str(error)) from error
        # The connection that holds the lock stays idle while the server is in use.
        try:
            with lock.keep_alive(database) as answers:
                watchdog.watch(where, title, answers)
                there.lock_answers = answers
                try:
                    yield there
                finally:
                    there.lock_answers = None
                    watchdog.watch(where, title)
        finally:
            lock.release(database)


@contextlib.contextmanager
def emptying(
    engine: Engine, text: str, *, ask: Callable[[str], str] | None = None
) -> Iterator[Database | None]:
    """Yield a connection to the database that contains replayer's objects, to remove them.

    The lock keeps other replayers out meanwhile.  Nothing is created.  Yields None, without a lock,
    if the server has no list of objects that replayer made.  `ask` shows a question and returns a
    password; None if no user can be asked.  Raises Impossible if the server cannot be reached, is
    too old, is in use by another replayer, or has a schema with replayer's name that replayer did
    not make.
    """
    with _identified(engine, text, ask=ask, begin=True) as database:
        engine, url = database.engine, database.url
        _refuse_foreign(database)
        if not leftovers.recorded(database):
            yield None
            return
        # While another replayer measures the machine, nothing is removed in any database.
        lock.take(database, alone=False, why="nothing is removed until its run ends")
        own = engine.spec.connect.database
        try:
            with (
                lock.keep_alive(database),
                contextlib.closing(
                    Database(engine, url.set(database=own) if own else url)
                ) as there,
            ):
                yield there
        finally:
            lock.release(database)


def rights(engine: Engine, text: str, *, ask: Callable[[str], str] | None = None) -> list[Row]:
    """Return the special rights that replayer's SQL for this engine needs, for the user in the URL.

    Each row has `verb` (the SQL file), `what` the right is for, `allowed`, and `grants`: how to get
    the right.  Nothing is created or changed.  `ask` shows a question and returns a password; None
    if no user can be asked.  Raises Impossible if the server cannot be reached or is too old.
    """
    with _identified(engine, text, ask=ask) as database:
        try:
            return database.rights()
        except ReplayerError as error:
            raise Impossible(str(error)) from error


def identified(
    engine: Engine,
    text: str,
    *,
    ask: Callable[[str], str] | None = None,
    query: Mapping[str, str] | None = None,
) -> tuple[Engine, URL]:
    """Return a server's engine with the server's major version, and its URL with the password.

    Nothing is created or changed; `query` has parameters that are added to the URL.  `ask` shows a
    question and returns a password; None if no user can be asked.  Raises Impossible if the server
    cannot be reached or is too old.
    """
    with _identified(engine, text, ask=ask, query=query) as database:
        return database.engine, database.url


def located(engine: Engine, text: str, *, ask: Callable[[str], str] | None = None) -> Remote:
    """Return the server at a URL, after it was checked whether its data is on this machine.

    Nothing is locked, created or changed.  `ask` shows a question and returns a password; None if
    no user can be asked.  Raises Impossible if the server cannot be reached or is too old.
    """
    with _identified(engine, text, ask=ask) as database:
        server = Remote(database.engine, database.url)
        server.locate(database)
    return server


@contextlib.contextmanager
def _identified(
    engine: Engine,
    text: str,
    *,
    ask: Callable[[str], str] | None,
    query: Mapping[str, str] | None = None,
    begin: bool = False,
) -> Iterator[Database]:
    """Yield a connection to the server at a URL; its `engine` is the one that the server reports.

    That engine also has the server's major version.  `query` is added to the URL.  If `begin`, the
    engine's first statements (its [connect] in engine.toml) are executed, but only after the check
    that no pooler is in between: a pooler would pass the session, with the settings that these
    statements made, to other clients.
    """
    url = credentials.complete(url_of(text, engine), engine.spec.password)
    url = url.update_query_dict(dict(query or {}))
    title, where = _title(engine, text), watchdog.address(url)
    with (
        watchdog.watching(where, f"{title} at {credentials.show(url)}"),
        contextlib.ExitStack() as stack,
    ):
        try:
            database = _opened(engine, url, ask, title)
            stack.callback(database.close)
            database.engine = _recognised(database, alike(text, engine))
            _refuse_pool(database)
            database.engine = database.engine.at(_version(database))
            watchdog.watch(where, _full_title(database))
            if begin:
                database.begin()
        except ReplayerError as error:
            raise Impossible(str(error)) from error
        yield database


def _claimed(database: Database, *, alone: bool) -> Remote:
    """Lock the server for this replayer, make replayer's schema on it, and return the server.

    Without `alone`, only the database is locked, if the engine can do that.
    """
    engine, url = database.engine, database.url
    _refuse_foreign(database)
    lock.take(database, alone=alone)
    protocol.prepare(database)
    lock.hold(database)
    own = engine.spec.connect.database
    server = Remote(engine, url.set(database=own) if own else url, database)
    server.identify(database)
    return server


def _title(engine: Engine, text: str) -> str:
    """Return the engine's title; "the server" if other engines may run at the URL as well."""
    return "the server" if len(alike(text, engine)) > 1 else engine.title


def _full_title(database: Database) -> str:
    return f"{database.engine.title} at {credentials.show(database.url)}"


def _opened(engine: Engine, url: URL, ask: Callable[[str], str] | None, title: str) -> Database:
    """Return a new connection, on which the first statements of engine.toml are not executed yet.

    `title` names the server in messages.  If the URL has no password and the server requires one,
    `ask` is called with a question and returns the password.  Raises Impossible if `ask` is None
    then, ReplayerError if the server refuses the connection.
    """
    keys = engine.spec.password
    try:
        return Database(engine, url, first=(), title=title)
    except ReplayerError as error:
        wanted = keys.wanted
        if url.password is not None or not wanted or not wanted.search(str(error)):
            raise
        if ask is None:
            raise Impossible(f"{error}; give a password {keys.ways}") from error
        given = ask(f"password for {credentials.show(url)}: ")
        return Database(engine, url.set(password=given), first=(), title=title)


def _recognised(database: Database, others: list[Engine]) -> Engine:
    """Return the one of the engines `others` that the server itself reports to be.

    If `others` is empty, returns the engine of the connection without a question to the server.
    Raises Impossible if the server reports to be none of them.
    """
    engine = database.engine
    answers: dict[str, str] = {}
    for one in others:
        asked = one.spec.recognise
        if asked is None:
            continue
        statement = asked.statement
        if statement not in answers:
            answers[statement] = _answer(database, statement)
        if asked.pattern.search(answers[statement]):
            return engine if one.name == engine.name else one
    if not others:
        return engine
    raise Impossible(
        f"the server at {credentials.show(database.url)} says that it is "
        f"{' and '.join(answers.values())}, and replayer knows "
        f"{', '.join(one.title for one in others)} there; to use it as one of them, give "
        f"that name in place of the URL's scheme"
    )


def _refuse_pool(database: Database) -> None:
    """Raise Impossible if the connections go through a pooler that does not keep sessions apart.

    Such a pooler (a program between client and server) may execute each transaction in another
    session.  For the test, two connections ask for the server process of their session, a few
    times.  If one of them changes its process, or both have the same one, there is such a pooler.
    A pooler that keeps one session for each client is accepted.  The second connection is not made
    if the server announces the process of a session when a connection is made, and a statement
    runs in that process.

    No setting may be made on the connection before this check: it would stay on sessions that
    other clients get next.
    """
    verb = database.engine.verb(_BACKEND)
    if verb is None or database.value(verb) == database.announced_process():
        return
    with contextlib.closing(Database(database.engine, database.url, first=())) as other:
        pairs = {(database.value(verb), other.value(verb)) for _ in range(_POOL_TRIES)}
    (mine, others), *moved = pairs
    if moved or mine == others:
        raise Impossible(
            f"{credentials.show(database.url)} leads to a pooler that lends out its sessions of "
            f"the server for one transaction each (pool_mode = transaction in pgbouncer), where "
            f"neither replayer's lock nor its settings would last: give the URL of the server "
            f"itself"
        )


def _answer(database: Database, statement: str) -> str:
    """Return the first value that a statement returns, as one line; it describes the server.

    Returns "" if the server refuses the statement or returns no row.
    """
    try:
        rows = database.query(statement)
    except ReplayerError:
        return ""
    return one_line(next(iter(rows[0].values()), "")) if rows else ""


def _version(database: Database) -> int:
    row = database.row(protocol.VERSION)
    major, oldest = row.number("major"), database.engine.spec.server.oldest
    if major < oldest:
        version = one_line(row["version"], 80)
        raise Impossible(
            f"the server is {database.engine.title} {version}: replayer needs {oldest} or later"
        )
    return major


def _refuse_foreign(database: Database) -> None:
    if all(row["ours"] for row in database.execute(_CLAIM)):
        return
    if own := database.engine.spec.connect.database:
        thing, todo = f"server has a database `{own}`", "move what is in it to another database"
    else:
        thing = f"database {database.url.database or ''} has a schema `replayer`"
        todo = "rename that schema, or give another database"
    raise Impossible(f"the {thing} that replayer did not make: {todo}, or use another server")
