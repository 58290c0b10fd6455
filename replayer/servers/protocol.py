"""The server of the database: what can be done with it, whoever started it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from replayer.engines.verbs import VerbName
from replayer.errors import Denied, Impossible, Interrupted, ReplayerError, Skip, one_line
from replayer.model import EngineFacts

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from sqlalchemy.engine import URL

    from replayer.engines.connection import Database
    from replayer.engines.engine import Engine
    from replayer.machine.processes import CpuSeconds
    from replayer.model import Fact


class NoFiles(NamedTuple):
    """Why the server's files cannot be reached, and what to do about that."""

    why: str
    todo: str


ELSEWHERE = NoFiles(
    "the server's data files are not on this machine", "run replayer on the server's machine"
)
Kind = Literal["private", "url"]

PREPARE = VerbName("prepare")
VERSION = VerbName("version")
SETTINGS = VerbName("settings")
COUNTERS = VerbName("counters")
_EXTENSIONS = VerbName("extensions")
"""What a database has beside the server itself: `name` and `version`."""
EVICT = VerbName("evict")
BUFFERCACHE = VerbName("buffercache")
"""The schema of what `evict`, `dirty` and `buffered` need, and whether this user may."""


class Server(Protocol):
    """Where the database is, and what can be done with it."""

    kind: Kind
    can_stop: bool
    version: int
    """The server's major version."""
    engine: Engine
    """The engine at that version."""

    def start(self) -> URL:
        """Start the server if it is stopped, and return the URL of its database.

        One that runs with settings that were given back is started anew.
        """
        ...

    def url(self) -> URL | None:
        """Return the URL of its database as it is now, and start nothing; None if it is stopped."""
        ...

    def settings(self, overrides: Mapping[str, str]) -> AbstractContextManager[URL]:
        """Run the server with these on top of its base settings for as long as the `with` lasts.

        It is started anew where it has others.  They are given back at the end, also after an
        error: whoever needs the server next starts it with those before.  Raises Impossible for a
        setting that the server refuses, Skip where the server is not ours.
        """
        ...

    def stop(self) -> None:
        """Stop the server; its processes are gone on return.  Raise Skip if it is not ours."""
        ...

    def evict(self) -> str:
        """Empty the server's own buffers, and return how; raise Skip where that cannot be done."""
        ...

    def data_directory(self) -> Path | None:
        """Return where the server's files are on this machine, None if they are elsewhere."""
        ...

    def no_files(self) -> NoFiles:
        """Return why there is no data directory, where there is none."""
        ...

    def pids(self) -> list[int]:
        """Return the server's main process and all its children; [] if none is known here."""
        ...

    def cpu_seconds(self) -> CpuSeconds:
        """Return the CPU seconds of all the server's processes since its start.

        Both are 0 when no process of it is known here.
        """
        ...

    def facts(self) -> EngineFacts:
        """Return what the server is, and every setting that is not its default."""
        ...

    def left(self) -> Mapping[str, Fact]:
        """Return facts of what replayer leaves there after a run; {} of a server of its own."""
        ...

    def last_words(self) -> str:
        """Return the last thing of weight that the server said, "" if it is not known."""
        ...

    def lost(self) -> str:
        """Return how the server went away since this was last asked, "" if it did not.

        A server that was stopped by `stop` did not go away.
        """
        ...


def evict(database: Database) -> str:
    """Empty a server's own buffers with its verb `evict`, and return how.

    Raises Skip when the engine has none, the right is missing, or some buffers stay.
    """
    verb = database.engine.needs(EVICT)
    where = database.engine.verb(BUFFERCACHE)
    rows = database.execute(where) if where is not None else [{"schema": ""}]
    if not rows:
        raise Skip("the server lacks the extension that empties its buffers")
    try:
        row = database.row(verb, {"schema": str(rows[0]["schema"])})
    except Interrupted:
        raise
    except ReplayerError as error:
        raise Skip(f"its buffers cannot be emptied: {error}") from error
    if row["kept"]:
        raise Skip(f"{row['kept']} of its buffers are in use and cannot be emptied")
    return f"its buffers emptied by {row['how']}"


def prepare(database: Database) -> None:
    """Make the schema or database that replayer's own things lie in.

    Raises Impossible with the server's reason: a right or an extension that is missing.
    """
    try:
        database.execute(PREPARE)
    except ReplayerError as error:
        raise Impossible(str(error)) from error


def facts(database: Database, kind: Kind, known: Mapping[str, Fact]) -> EngineFacts:
    """Return what a server is, asked over a connection, with what is known of it besides."""
    version = one_line(database.row(VERSION)["version"])
    newest = database.engine.spec.server.newest_tried
    extensions = database.engine.verb(_EXTENSIONS)
    rows = [] if extensions is None else database.execute(extensions)
    more = {
        **known,
        **{f"extension.{one_line(row['name'])}": one_line(row["version"]) for row in rows},
    }
    if newest is not None and (database.engine.version or 0) > newest:
        more["server.newer_than_tried"] = True
    settings = _settings(database, more)
    return EngineFacts(
        name=database.engine.name,
        version=version,
        place=kind,
        settings=settings,
        facts=more,
    )


def _settings(database: Database, facts: dict[str, Fact]) -> dict[str, str]:
    """Return the settings that are not the defaults; where they may not be seen say so."""
    try:
        rows = database.execute(SETTINGS)
    except Denied as error:
        facts["settings.unread"] = str(error)
        return {}
    return {str(row["name"]): str(row["value"]) for row in rows}
