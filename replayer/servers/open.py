"""The way to a database server: a private one that replayer starts, or a remote one."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

from replayer import journal, trusted_path
from replayer.errors import Impossible
from replayer.servers import data_folder, private, programs, remote, setting_names
from replayer.servers import settings as server_settings
from replayer.servers.data_folder import DataFolder
from replayer.servers.protocol import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from replayer.engines.engine import Engine
    from replayer.engines.engine_spec import ServerSpec
    from replayer.journal import Note

_DATA = re.compile("data")

__all__ = ["Server", "open_server", "recover"]


@contextlib.contextmanager
def open_server(
    engine: Engine,
    *,
    url: str | None = None,
    bindir: Path | None = None,
    data_dir: Path | None = None,
    settings: Mapping[str, str] | None = None,
    ask: Callable[[str], str] | None = None,
    alone: bool = True,
) -> Iterator[Server]:
    """Yield the database server; at the end, stop a private server and release all resources.

    Without `url` it is a private server, which is not started yet: `Server.start` starts it.  `ask`
    asks the user for the password of a server at a URL; None if no user is present.  On a server at
    a URL, other replayers are locked out of the whole server if `alone`, otherwise out of its
    database.  Raises Impossible for a server that cannot be used.
    """
    if url is None:
        with _private(engine, bindir, data_dir, settings or {}) as own:
            yield own
        return
    if settings:
        raise Impossible(
            f"the settings {', '.join(settings)} are for a server that replayer starts: set them "
            f"on the server itself"
        )
    with remote.connected(engine, url, ask=ask, alone=alone) as there:
        yield there


@contextlib.contextmanager
def _private(
    engine: Engine, bindir: Path | None, data_dir: Path | None, settings: Mapping[str, str]
) -> Iterator[private.PrivateServer]:
    keys = engine.spec.server
    if not keys.starts:
        raise Impossible(
            f"{engine.title} is not started by replayer: give --engine the URL of a running server"
        )
    server_programs = programs.find(engine.title, keys, bindir)
    init, base = server_settings.split(keys, server_programs.major, settings)
    setting_names.refuse_mistyped(
        engine.title, keys, server_programs.folder, server_programs.user, base
    )
    path = data_dir or data_folder.standard(engine.name, server_programs.major, init)
    folder = DataFolder(trusted_path.real(path))
    folder.check(server_programs.user)
    made = folder.make()
    with folder.locked():
        folder.claim(engine.name, server_programs.major, init, made=made)
        for note in _leftovers(folder):
            # Notes that cannot be trusted were reported when the command began.
            with contextlib.suppress(journal.Untrusted):
                private.recover(note)
        _refuse_running(folder, server_programs, keys)
        own = private.PrivateServer(engine, server_programs, folder, base=base, init=init)
        try:
            yield own
        finally:
            own.close()


def _leftovers(folder: DataFolder) -> list[Note]:
    """Return the journal's notes on servers that earlier replayers started on this data folder.

    A note is a file that records what has to be undone after a kill.  The caller holds the folder's
    lock, so these replayers have ended.
    """
    return [n for n in journal.notes("server") if n.details.get("data") == str(folder.data)]


def _refuse_running(
    folder: DataFolder, server_programs: programs.Programs, keys: ServerSpec
) -> None:
    """Raise Impossible if a server that replayer did not start runs on its data folder."""
    main = private.main_process(folder.data, server_programs, keys)
    if main:
        raise Impossible(
            f"a server that replayer did not start (process {main}) runs on {folder.data}: stop "
            f"it, or give another --data-dir"
        )


NOTES = frozenset({"server"})
"""Kinds of notes that `recover` handles."""


def recover(note: Note) -> str:
    """Stop the server that a killed replayer left, and return a short message on that.

    `note` is the journal's record of that server.  It is removed if the server is stopped or its
    folder is gone.  Raises ReplayerError if the server cannot be stopped; then the note is kept.
    """
    folder = DataFolder(note.path_of("data", _DATA).parent)
    if not folder.path.is_dir():
        note.drop()
        return f"the data folder {folder.path} of a server is gone"
    if not folder.replayers():
        raise journal.Untrusted(note, f"{folder.path} is not a data folder of replayer's")
    with folder.locked():
        return private.recover(note)
