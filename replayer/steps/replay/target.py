"""Where a replay goes: a database that replayer made for it, or one that may be changed."""

from __future__ import annotations

import contextlib
import json
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

from psycopg.conninfo import make_conninfo

from replayer import shell
from replayer.engines.connection import Database, connector_of
from replayer.engines.verbs import Asked
from replayer.errors import Impossible, ReplayerError, Skip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from sqlalchemy.engine import URL

    from replayer.capture.action import Session
    from replayer.run.context import Context
    from replayer.steps.replay.spec import Spec

_OBJECTS = Asked("replay/tables")
_KNOWN = Asked("replay/known")
_CREATE = Asked("replay/create")
_DROP = Asked("replay/drop")
_ROLES = Asked("replay/roles")
_OWN = "replayer_replay"
"""The database that replayer makes for replays."""
_EMPTY = "template0"
_NOT_OF_LIBPQ = frozenset({"autocommit", "context", "row_factory", "cursor_factory"})
_MOST_OF_A_DUMP = 16


def check(spec: Spec, context: Context) -> None:
    """Raise Impossible for a database that may not be changed, Skip where no replay is possible."""
    context.engine.needs(_OBJECTS)
    server = context.server
    if server.can_stop or spec.restore:
        return
    url = server.start()
    if is_mysql(context):
        _check_named(spec)
        return
    if spec.i_will_change and spec.i_will_change != url.database:
        raise Impossible(
            f"--i-will-change {spec.i_will_change}: the URL's database is {url.database}"
        )
    if spec.read_only or spec.i_will_change:
        return
    with contextlib.closing(Database(context.engine, url, first=())) as database:
        objects = int(database.value(_OBJECTS))
    if objects:
        raise Impossible(
            f"the database {url.database} has {objects:,} tables, views and sequences that "
            f"replayer did not make, and a replay changes what is in it: allow that with "
            f"--i-will-change {url.database}, or begin from a copy with the key restore"
        )


def is_mysql(context: Context) -> bool:
    """Tell whether the server speaks MySQL's language."""
    return context.engine.wire.startswith("mysql")


def _check_named(spec: Spec) -> None:
    """Raise Impossible where a server on which a session may use any database is not to be changed.

    What the URL names is not more than the first of them.
    """
    if not spec.read_only and not spec.i_will_change:
        raise Impossible(
            "a replay changes what is in the server's databases: allow that with --i-will-change "
            "and the name of the one to begin in, or begin from a copy with the key restore"
        )


@contextlib.contextmanager
def opened(spec: Spec, context: Context) -> Iterator[Database]:
    """Make the database what a replay is to begin from, and connect to it."""
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
    """Connect to the database again, after its server was stopped."""
    context.server.start()
    return Database(context.engine, url, first=())


def _is_template(restore: str) -> bool:
    """Tell whether it is the name of a database and no path."""
    return "/" not in restore and not Path(restore).exists()


def _make_own(spec: Spec, context: Context, control: Database) -> None:
    """Make a database of replayer's own anew; without `restore` the one that is there stays."""
    known = control.execute(_KNOWN, name=_OWN)
    if known and not known[0]["ours"]:
        raise Impossible(f"the server has a database {_OWN} that replayer did not make: rename it")
    if known and not spec.restore:
        return
    template = spec.restore if spec.restore and _is_template(spec.restore) else _EMPTY
    if template != _EMPTY and is_mysql(context):
        raise Impossible(
            f"restore = {spec.restore!r}: there is no such file, and {context.engine.title} makes "
            f"no copy of a database by itself: give a dump"
        )
    holes = {"database": _OWN, "template": template}
    with context.progress.task(f"make the database {_OWN} from {template}"):
        control.execute(_DROP, holes)
        control.execute(_CREATE, holes, name=_OWN)


def _load(dump: Path, url: URL, context: Context) -> None:
    """Load a dump into a database; raise ReplayerError with the program's words."""
    if not dump.exists():
        raise Impossible(f"restore = {str(dump)!r}: there is no such file, folder or database")
    arguments = dict(connector_of(url).arguments)
    password = arguments.pop("password", None)
    if is_mysql(context):
        _load_mysql(dump, arguments, str(password or ""), context)
        return
    where = make_conninfo(**_of_libpq(arguments))
    name = "psql" if _is_plain(dump) else "pg_restore"
    program = _program(name, context)
    words: list[str | Path]
    if name == "psql":
        words = ["-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", dump, "-d", where]
    else:
        words = ["--no-owner", "--no-privileges", "--exit-on-error", "-d", where, dump]
    shell.run([program, *words], environment={"PGPASSWORD": str(password)} if password else None)


def _load_mysql(
    dump: Path, arguments: Mapping[str, object], password: str, context: Context
) -> None:
    program = next(
        (found for name in ("mariadb", "mysql") if (found := _found(name, context))), None
    )
    if program is None:
        raise Skip("neither mariadb nor mysql is installed, which load the dump")
    options = {
        "host": "host",
        "port": "port",
        "user": "user",
        "unix_socket": "socket",
        "database": "database",
    }
    words = [f"--{ours}={arguments[name]}" for name, ours in options.items() if name in arguments]
    shell.run(
        [program, "--no-defaults", *words, f"--execute=source {dump.absolute()}"],
        environment={"MYSQL_PWD": password} if password else None,
    )


def _is_plain(dump: Path) -> bool:
    if dump.is_dir():
        return False
    try:
        with dump.open("rb") as file:
            return not file.read(_MOST_OF_A_DUMP).startswith(b"PGDMP") and not tarfile.is_tarfile(
                dump
            )
    except OSError as error:
        raise Impossible(f"restore = {str(dump)!r}: {error.strerror}") from error


def _program(name: str, context: Context) -> Path:
    program = _found(name, context)
    if program is None:
        raise Skip(f"{name} is not installed, which loads the dump: install PostgreSQL's clients")
    return program


def _found(name: str, context: Context) -> Path | None:
    programs = getattr(context.server, "programs", None)
    return shell.find(name, *([programs.folder] if programs is not None else []))


def _of_libpq(arguments: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in arguments.items() if name not in _NOT_OF_LIBPQ}


def conninfo(spec: Spec, database: Database) -> Callable[[Session], str]:
    """Return what makes of a captured session how its own connection is opened.

    Its application's name and its settings are its own; its user where the URL's user may become
    that one.
    """
    if database.engine.wire.startswith("mysql"):
        return _for_mysql(spec, database)
    return _for_libpq(spec, database)


def _for_mysql(spec: Spec, database: Database) -> Callable[[Session], str]:
    arguments = {
        name: value
        for name, value in connector_of(database.url).arguments.items()
        if isinstance(value, str | int | float | bool | dict)
    }
    first = [f"SET SESSION {name} = {value}" for name, value in _limits(spec, database)]
    if spec.read_only:
        first.append("SET SESSION TRANSACTION READ ONLY")

    def of(session: Session) -> str:
        del session
        return json.dumps({**arguments, "first": first})

    return of


def _limits(spec: Spec, database: Database) -> Iterator[tuple[str, str]]:
    if not spec.statement_timeout:
        return
    if database.engine.name.startswith("mysql"):
        yield "max_execution_time", str(round(spec.statement_timeout * 1e3))
    else:
        yield "max_statement_time", f"{spec.statement_timeout:g}"


def _for_libpq(spec: Spec, database: Database) -> Callable[[Session], str]:
    arguments = _of_libpq(connector_of(database.url).arguments)
    roles = _roles(database)
    given = str(arguments.pop("options", ""))
    ours = []
    if spec.statement_timeout:
        ours.append(("statement_timeout", f"{round(spec.statement_timeout * 1e3)}ms"))
    if spec.read_only:
        ours.append(("default_transaction_read_only", "on"))

    def of(session: Session) -> str:
        settings = [*session.settings, *ours]
        if session.user in roles and session.user != database.url.username:
            settings.append(("role", session.user))
        options = " ".join([given, *_options(settings)]).strip()
        application = session.application or "replayer"
        more = {"application_name": application, **({"options": options} if options else {})}
        return make_conninfo(**{**arguments, **more})

    return of


def _options(settings: Iterable[tuple[str, str]]) -> Iterator[str]:
    for name, value in settings:
        escaped = value.replace("\\", "\\\\").replace(" ", "\\ ")
        yield f"-c {name}={escaped}"


def _roles(database: Database) -> frozenset[str]:
    try:
        return frozenset(str(row["name"]) for row in database.execute(_ROLES))
    except ReplayerError:
        return frozenset()
