"""The private folder of a server's socket.

It has a short random name, and belongs to the user that runs the server.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import socket
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from replayer import journal, trusted_path
from replayer.errors import Impossible, ReplayerError
from replayer.journal import Untrusted
from replayer.servers import programs

if TYPE_CHECKING:
    from replayer.engines.engine_spec import ServerSpec
    from replayer.journal import Note
    from replayer.servers.programs import Programs

_NAME = re.compile(r"replayer-[0-9a-f]{8}")
_WHAT = "the socket's folder"
_LIMIT = 108
"""Bytes of sun_path in unix(7), with the NUL."""


def make(keys: ServerSpec, server: Programs) -> tuple[Path, Note]:
    """Make a folder for a server's socket, give it to the server's user, and record it.

    Returns its path and the journal's note, with which a later replayer removes it after a kill.
    Raises Impossible if it cannot be made at any place, with the reason for each place.
    """
    refusals = []
    for parent in dict.fromkeys([*map(Path, keys.socket_folders), Path(tempfile.gettempdir())]):
        path = Path(os.path.realpath(parent)) / f"replayer-{secrets.token_hex(4)}"
        if len(os.fsencode(path / keys.socket_name)) >= _LIMIT:
            refusals.append(f"{parent} is too long a path")
            continue
        note = journal.take("socket", path=str(path))
        try:
            with trusted_path.steady(path.parent, _WHAT) as folder:
                folder.make(path.name, 0o700, server.user)
        except (OSError, Impossible) as error:
            note.drop()
            refusals.append(f"{parent}: {getattr(error, 'strerror', '') or error}")
            continue
        if programs.blocked(path, server.user) is None:
            return path, note
        remove(path)
        note.drop()
        refusals.append(f"the server's user cannot enter {parent}")
    raise Impossible(f"there is no folder for the server's socket: {'; '.join(refusals)}")


def empty(path: Path) -> None:
    """Remove all files that a server left in the folder of its socket.

    Raises ReplayerError if `path` is not a folder any more: the server's user may have moved it.
    """
    try:
        _empty(path)
    except OSError as error:
        raise ReplayerError(f"{_WHAT} {path} cannot be used: {error.strerror}") from error


def remove(path: Path) -> None:
    """Remove the folder of a server's socket with all its files; ignore errors.

    A folder that is already gone is such an error.
    """
    with contextlib.suppress(OSError, Impossible):
        _empty(path)
        with trusted_path.steady(path.parent, _WHAT) as parent:
            parent.rmdir(path.name)


def _empty(path: Path) -> None:
    with trusted_path.steady(path.parent, _WHAT) as parent, parent.below(path.name) as folder:
        for name in folder.names():
            folder.forget(name)


NOTES = frozenset({"socket"})
"""Kinds of notes that `recover` handles."""


def recover(note: Note) -> str:
    """Remove the socket's folder that a killed replayer left; return a short message on that.

    Raises Untrusted, and removes nothing, if the path of the note is not a folder of sockets.
    """
    path = note.path_of("path", _NAME)
    try:
        with trusted_path.steady(path.parent, _WHAT) as parent, parent.below(path.name) as folder:
            modes = {name: folder.mode(name) for name in folder.names()}
    except FileNotFoundError:
        modes = {}
    except (OSError, Impossible) as error:
        raise Untrusted(note, f"{path} is not a folder of a socket: {error}") from error
    for name, mode in modes.items():
        if not stat.S_ISSOCK(mode) and not name.endswith(".lock"):
            raise Untrusted(note, f"{path} holds {name!r}, which no server leaves there")
    remove(path)
    note.drop()
    return f"the socket folder {path} was removed"


def listens(folder: Path | None, name: str) -> bool:
    """Return whether a process listens on the socket `name` in a folder.

    Returns True, without a check, if `folder` is None.
    """
    if folder is None:
        return True
    with socket.socket(socket.AF_UNIX) as end:
        end.settimeout(1.0)
        try:
            end.connect(str(folder / name))
        except OSError:
            return False
    return True
