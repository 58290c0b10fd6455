"""The database on which a replay runs: one that replayer made, or one that may be changed."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import tarfile
from collections import Counter
from pathlib import Path
from typing import IO, TYPE_CHECKING

from replayer import shell
from replayer.engines import wires
from replayer.engines.connection import Database, connector_of
from replayer.engines.verbs import VerbName
from replayer.engines.wire_session import SessionLogin
from replayer.errors import Impossible, ReplayerError, Skip, one_line
from replayer.servers import programs
from replayer.tables import cleanup
from replayer.units import show_with_noun

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sqlalchemy.engine import URL

    from replayer.capture.action import LoggedSession
    from replayer.engines.wires import DumpForm, Wire
    from replayer.run.context import Context
    from replayer.shell import User
    from replayer.steps.replay.spec import Spec

_OBJECTS = VerbName("replay/tables")
_KNOWN = VerbName("replay/known")
_CREATE = VerbName("replay/create")
_DROP = VerbName("replay/drop")
_ROLES = VerbName("replay/roles")
_OWN = cleanup.REPLAYS
_TELLING = (
    *("shared_buffers", "wal_level", "fsync", "synchronous_commit", "autovacuum"),
    *("max_parallel_workers_per_gather", "innodb_buffer_pool_size"),
    "innodb_flush_log_at_trx_commit",
)
"""Settings of PostgreSQL and MySQL servers that influence times most."""
_EMPTY = "template0"
_SETTING = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_MOST_OF_A_DUMP = 16
_MOST_NAMED = 5


def check(spec: Spec, context: Context) -> None:
    """Raise Impossible for a database that may not be changed, Skip if no replay is possible."""
    context.engine.needs(_OBJECTS)
    wire = wire_of(context)
    if not wire.LANGUAGE:
        raise Skip(f"{context.engine.title}: its wire {wire.SCHEME} replays no capture")
    server = context.server
    if server.can_stop or spec.restore:
        return
    url = server.start()
    if wire.ANY_DATABASE:
        _check_named(spec)
        return
    if spec.i_will_change and spec.i_will_change != url.database:
        raise Impossible(
            f"--i-will-change {spec.i_will_change}: the URL's database is {url.database}"
        )
    if spec.read_only or spec.i_will_change:
        return
    with contextlib.closing(Database(context.engine, url, first=())) as database:
        objects = database.number(_OBJECTS)
    if objects:
        raise Impossible(
            f"the database {url.database} has {objects:,} tables, views and sequences that "
            f"replayer did not make, and a replay changes what is in it: allow that with "
            f"--i-will-change {url.database}, or begin from a copy with the key restore"
        )


def describe(context: Context) -> str:
    """Return words for a report: the server of a replay, and the settings that matter most."""
    server = context.server
    facts = server.facts()
    known = [f"{name} {facts.settings[name]}" for name in _TELLING if name in facts.settings]
    settings = f" ({', '.join(known)})" if known else ""
    title = f"{context.engine.title} {facts.version}"
    if server.can_stop:
        return (
            f"{title} that replayer started, with replayer's settings{settings}: they are not your "
            f"target's, which --engine URL replays on; --server-set NAME=VALUE changes one"
        )
    url = server.start()
    where = url.host or "this host"
    return f"{title} on {where}, database {url.database}, with its own settings{settings}"


def wire_of(context: Context) -> Wire:
    """Return the wire of the server: the module for its client protocol."""
    return wires.load(wires.name_of(context.engine.wire))


def _check_named(spec: Spec) -> None:
    """Raise Impossible if the user has not allowed changes on a server of several databases.

    A session there may use any database: the URL names only the one in which it begins.
    """
    if not spec.read_only and not spec.i_will_change:
        raise Impossible(
            "a replay changes what is in the server's databases: allow that with --i-will-change "
            "and the name of the one to begin in, or begin from a copy with the key restore"
        )


@contextlib.contextmanager
def opened(spec: Spec, context: Context) -> Iterator[Database]:
    """Prepare the database that a replay uses, and yield a connection to it.

    If the key `restore` is given, it is one that replayer makes anew, with the contents that this
    key names.  If not, it is replayer's own on a server that replayer started.  On any other server
    it is the one that the key `i_will_change` names, or else that of the URL.
    """
    url = context.server.start()
    if spec.restore or context.server.can_stop:
        with contextlib.closing(Database(context.engine, url)) as control:
            _make_own(spec, context, control)
        url = url.set(database=_OWN)
        if spec.restore and not _is_template(spec.restore):
            with context.progress.task(f"restore {Path(spec.restore).name}"):
                _load(Path(spec.restore), url, context)
    elif spec.i_will_change:
        url = url.set(database=spec.i_will_change)
    with contextlib.closing(Database(context.engine, url, first=())) as database:
        yield database


def reopened(context: Context, url: URL) -> Database:
    """Start the server if it was stopped, and return a new connection to the database at `url`."""
    context.server.start()
    return Database(context.engine, url, first=())


def _is_template(restore: str) -> bool:
    """Return whether the key `restore` has the name of a database, and not a path."""
    return "/" not in restore and not Path(restore).exists()


def _make_own(spec: Spec, context: Context, control: Database) -> None:
    """Create replayer's own database anew; without the key `restore`, keep it if it exists.

    `control` is a connection to another database of the server.  Raises Impossible if a database of
    that name is not replayer's, or if the server cannot copy the database to restore.
    """
    known = control.execute(_KNOWN, name=_OWN)
    if known and not known[0]["ours"]:
        raise Impossible(f"the server has a database {_OWN} that replayer did not make: rename it")
    if known and not spec.restore:
        return
    template = spec.restore if spec.restore and _is_template(spec.restore) else _EMPTY
    if template != _EMPTY and "{{template}}" not in context.engine.needs(_CREATE).text:
        raise Impossible(
            f"restore = {spec.restore!r}: there is no such file, and {context.engine.title} makes "
            f"no copy of a database by itself: give a dump"
        )
    holes = {"database": _OWN, "template": template}
    with context.progress.task(f"make the database {_OWN} from {template}"):
        control.execute(_DROP, holes)
        control.execute(_CREATE, holes, name=_OWN)


def _load(dump: Path, url: URL, context: Context) -> None:
    """Load a dump into the database at `url`; raise ReplayerError if the loading program fails.

    Raises Impossible for an unsuitable dump, and Skip if the program is not installed.

    A dump is a program: its loader runs the shell commands in it.  So the loader never runs as
    root if the server is replayer's own.  The user who runs it need not be able to open the dump.
    """
    own = getattr(context.server, "programs", None)
    user, folders = (None, []) if own is None else (own.user, [own.folder])
    with contextlib.ExitStack() as opened:
        file = None if dump.is_dir() else opened.enter_context(_opened(dump))
        form: DumpForm = "folder" if file is None else "plain" if _is_plain(file) else "archive"
        loader = wire_of(context).make_loader(form, connector_of(url).arguments)
        if loader is None:
            raise Impossible(f"restore = {str(dump)!r} is a folder, and a dump is one file")
        program = next(filter(None, (shell.find(one, *folders) for one in loader.programs)), None)
        if program is None:
            names = " or ".join(loader.programs)
            raise Skip(
                f"{names} loads the dump, and is not installed: install the server's clients"
            )
        if file is None:
            _check_entered(dump, user)
        shell.run(
            [program, *loader.words, *([dump.absolute()] if file is None else [])],
            user=user,
            # That user may not be able to enter the folder in which replayer was started.
            folder=None if user is None else Path("/"),
            stdin=file,
            environment=loader.environment,
        )


def _opened(dump: Path) -> IO[bytes]:
    """Open a dump file without a buffer, so that the program that loads it reads all of it."""
    try:
        fd = os.open(dump, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError as error:
        raise Impossible(
            f"restore = {str(dump)!r}: there is no such file, folder or database"
        ) from error
    except OSError as error:
        raise Impossible(f"restore = {str(dump)!r}: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise Impossible(f"restore = {str(dump)!r}: it is neither a file nor a folder")
    return os.fdopen(fd, "rb", buffering=0)


def _check_entered(dump: Path, user: User | None) -> None:
    """Raise Impossible if the user who loads a dump that is a folder cannot enter it."""
    closed = programs.blocked(dump, user)
    if user is not None and closed is not None:
        raise Impossible(
            f"restore = {str(dump)!r}: {user.name}, who runs the server and loads the dump, cannot "
            f"enter {closed}: open it to that user, or give a dump that is one file (pg_dump "
            f"--format=custom)"
        )


def _is_plain(file: IO[bytes]) -> bool:
    """Return True if a dump is plain SQL, False for an archive; leave the file at its beginning."""
    plain = not file.read(_MOST_OF_A_DUMP).startswith(b"PGDMP")
    file.seek(0)
    plain = plain and not tarfile.is_tarfile(file)
    file.seek(0)
    return plain


class Conninfo:
    """Makes the conninfo (connection string) with which a captured session connects in the replay.

    The connection has the application name and the settings of the session.  It has the session's
    user, too, if the URL's user may take on that role.
    """

    def __init__(self, spec: Spec, database: Database) -> None:
        self._ours = str(database.url.username or "")
        self._wire = wires.load(wires.name_of(database.engine.wire))
        self._arguments = connector_of(database.url).arguments
        self._spec = spec
        self._roles = _roles(database)
        self._as_ours: Counter[str] = Counter()

    def __call__(self, session: LoggedSession) -> str:
        """Return the conninfo (connection string) of a session."""
        role = ""
        if session.user in self._roles and session.user != self._ours:
            role = session.user
        elif session.user not in {"", self._ours}:
            self._as_ours[session.user] += 1
        spec = self._spec
        return self._wire.make_conninfo(
            self._arguments,
            SessionLogin(
                application=session.application,
                settings=tuple(_settable(session.settings, spec)),
                role=role,
                read_only=spec.read_only,
                timeout=spec.statement_timeout,
            ),
        )

    def note(self) -> str:
        """Return a sentence on sessions that ran as another user than captured, "" if none did."""
        if not self._as_ours:
            return ""
        named = [
            f"{one_line(user)} {many:,}" for user, many in self._as_ours.most_common(_MOST_NAMED)
        ]
        more = len(self._as_ours) - _MOST_NAMED
        named += [f"{more:,} more users"] if more > 0 else []
        many = self._as_ours.total()
        return (
            f"{show_with_noun(many, 'session')} of other users ({', '.join(named)}) "
            f"{'was' if many == 1 else 'were'} replayed as {self._ours or 'another one'}, who may "
            f"not take on their roles here"
        )


def _settable(settings: Iterable[tuple[str, str]], spec: Spec) -> Iterator[tuple[str, str]]:
    """Yield the captured settings that have valid names.

    With `read_only`, those that change the role are left out.
    """
    for name, value in settings:
        who = name.lower() in {"role", "session_authorization"}
        if _SETTING.fullmatch(name) and not (who and spec.read_only):
            yield name, value


def _roles(database: Database) -> frozenset[str]:
    try:
        return frozenset(str(row["name"]) for row in database.execute(_ROLES))
    except ReplayerError:
        return frozenset()
