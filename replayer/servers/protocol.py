"""The interface of a database server, private or remote."""

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
    """The reason for which the server's files cannot be reached (`why`), and advice (`todo`)."""

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
"""Reads the extensions of a database: rows of `name` and `version`."""
EVICT = VerbName("evict")
BUFFERCACHE = VerbName("buffercache")
"""Reads the schema of the functions that the verbs evict, dirty and buffered need.

Its only row has `schema`, and `allowed`: whether the user may use them.
"""


class Server(Protocol):
    """A database server, and the operations that it allows."""

    kind: Kind
    can_stop: bool
    version: int
    """The server's major version."""
    engine: Engine
    """The engine, for a server of that version."""

    def start(self) -> URL:
        """Start the server if it is stopped, and return the URL of its database.

        A server that still runs with the settings of an ended `settings` block is restarted.
        Raises ReplayerError, with the reason, if it does not start.
        """
        ...

    def url(self) -> URL | None:
        """Return the URL of the database, None if the server is stopped; start nothing."""
        ...

    def settings(self, overrides: Mapping[str, str]) -> AbstractContextManager[URL]:
        """Run the server with these settings on top of its base settings, for the `with` block.

        The block gets the URL of the server's database.  A server that runs with other settings is
        restarted.  At the end, also after an error, the overrides no longer apply: the next use of
        the server restarts it with the earlier settings.  Raises Impossible for a setting that the
        server refuses, Skip if the server is a remote one.
        """
        ...

    def stop(self) -> None:
        """Stop the server; its processes are gone on return.  Raise Skip if it is a remote one."""
        ...

    def evict(self) -> str:
        """Empty the server's own buffers, and return a text that names the method.

        Raises Skip if that is not possible.
        """
        ...

    def data_directory(self) -> Path | None:
        """Return the data directory on this machine, None if it is on another host or not known."""
        ...

    def explain_missing_files(self) -> NoFiles:
        """Return the reason for which `data_directory` returns None, and advice for the user."""
        ...

    def pids(self) -> list[int]:
        """Return the process ids of the server, the main process first.

        Returns [] if they are not known on this machine.
        """
        ...

    def cpu_seconds(self) -> CpuSeconds:
        """Return the CPU seconds of all the server's processes since its start.

        User and system seconds are both 0 if the processes are not known on this machine.
        """
        ...

    def facts(self) -> EngineFacts:
        """Return the server's version, facts on it, and each setting that is not its default."""
        ...

    def list_leftovers(self) -> Mapping[str, Fact]:
        """Return facts (name -> value) on the objects that replayer leaves on a remote server.

        Returns {} for a private server.
        """
        ...

    def read_last_words(self) -> str:
        """Return the last important message in the server's log, "" if it is not known."""
        ...

    def describe_loss(self) -> str:
        """Return how the server ended unexpectedly since the last call, "" if it did not.

        A stop by `stop` is not unexpected.
        """
        ...


def evict(database: Database) -> str:
    """Empty a server's own buffers, and return a text that names the method.

    The engine's SQL file `evict` does it.  Raises Skip if the engine has no such file, if the right
    is missing, or if some buffers are in use and cannot be emptied.
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
    """Make the schema or database for replayer's own objects.

    Raises Impossible with the server's reason: a right or an extension that is missing.
    """
    try:
        database.execute(PREPARE)
    except ReplayerError as error:
        raise Impossible(str(error)) from error


def facts(database: Database, kind: Kind, known: Mapping[str, Fact]) -> EngineFacts:
    """Return the version, settings and facts that a server reports on a connection.

    `known` are facts (name -> value) to add; `kind` is whether the server is private or remote.
    """
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
    settings = read_settings(database, more)
    return EngineFacts(
        name=database.engine.name,
        version=version,
        place=kind,
        settings=settings,
        facts=more,
    )


def read_settings(database: Database, facts: dict[str, Fact]) -> dict[str, str]:
    """Return name -> value, as the server shows it, of the settings that differ from the defaults.

    Those that decide what a number means are always there, such as the size of the buffers.  If the
    user may not read settings, returns {} and adds the fact `settings.unread` to `facts`.
    """
    try:
        rows = database.execute(SETTINGS)
    except Denied as error:
        facts["settings.unread"] = str(error)
        return {}
    return {str(row["name"]): str(row["value"]) for row in rows}
