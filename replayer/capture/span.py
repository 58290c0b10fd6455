"""The part of a server's log files that was written between two moments."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from typing import IO, TYPE_CHECKING, NamedTuple

from replayer import trusted_path
from replayer.errors import Impossible, ReplayerError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from replayer.capture.logging_settings import LogLocation

_OWNER_ONLY = 0o600
_ALONE = 0o700
_OUT, _ABOVE = "the folder --out", "the folder above --out"
_CHUNK = 1 << 20
Inode = tuple[int, int]


class Piece(NamedTuple):
    """The part of a log file that was added between two moments: its bytes `begin` to `end`.

    `inode` is (device, inode) of the file.
    """

    path: Path
    inode: Inode
    begin: int
    end: int


def sizes(place: LogLocation) -> dict[Inode, int]:
    """Return (device, inode) -> current size in bytes, for the files in a log's folder.

    Returns {} if the log's path on this machine is not known.  Raises ReplayerError if the folder
    cannot be read.
    """
    if place.here is None:
        return {}
    seen = {}
    for path in _beside(place.here.parent):
        about = _about(path)
        if about is not None:
            seen[about.st_dev, about.st_ino] = about.st_size
    return seen


def written(place: LogLocation, before: dict[Inode, int]) -> list[Piece]:
    """Return the parts of a server's log files that were added since an earlier moment.

    `before` is (device, inode) -> size in bytes at that moment, as `sizes` returned it.  Returns []
    if the log's path on this machine is not known.  Raises ReplayerError if the folder cannot be
    read.
    """
    if place.here is None:
        return []
    beside = _beside(place.here.parent) if place.rotated else [place.here]
    pieces = []
    for path in sorted(beside):
        about = _about(path) if path.suffix == place.here.suffix else None
        if about is None:
            continue
        inode = about.st_dev, about.st_ino
        begin = before.get(inode, 0)
        begin = begin if begin <= about.st_size else 0
        if about.st_size > begin:
            pieces.append(Piece(path, inode, begin, about.st_size))
    return pieces


def check_out(folder: Path) -> None:
    """Raise Impossible if `folder` cannot take a copy of a log.

    It must be an empty folder or not exist, and no other user may own it or be able to swap it.
    """
    try:
        if os.path.lexists(folder):
            with trusted_path.own(folder, _OUT) as target:
                taken = bool(target.names())
        else:
            trusted_path.steady(folder.parent, _ABOVE).close()
            taken = False
    except NotADirectoryError:
        taken = True
    except OSError as error:
        raise Impossible(
            f"--out {folder} cannot be used: {error.filename or folder.parent}: {error.strerror}"
        ) from error
    if taken:
        raise Impossible(f"{folder} is there already: --out names a folder that is made, or empty")


def copy_pieces(pieces: list[Piece], folder: Path) -> int:
    """Copy the pieces into files in `folder` that only their owner can read.

    Returns the number of bytes that were copied.  The folder is made if it does not exist.  Raises
    Impossible for a folder that another user owns or could swap, and ReplayerError if the copy
    fails.
    """
    total = 0
    try:
        with trusted_path.steady(folder.parent, _ABOVE) as parent:
            if folder.name and not parent.mode(folder.name):
                parent.make(folder.name, _ALONE)
        with trusted_path.own(folder, _OUT) as target:
            for piece in pieces:
                with _opened(piece) as source:
                    made = target.create(piece.path.name, _OWNER_ONLY)
                    with os.fdopen(made, "wb") as file:
                        total += _copy(piece, source, file)
    except OSError as error:
        raise ReplayerError(
            f"the log could not be copied into {folder}: {error.filename or ''} {error.strerror}"
        ) from error
    return total


def _opened(piece: Piece) -> IO[bytes]:
    """Open the log file of a piece; raise ReplayerError if its path leads to another file now.

    The folder belongs to the server, whose user could put another file there.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        fd = os.open(piece.path, flags)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise _replaced(piece) from error
    about = os.fstat(fd)
    # Another file can get the number of an inode that became free.
    if not stat.S_ISREG(about.st_mode) or (about.st_dev, about.st_ino) != piece.inode:
        os.close(fd)
        raise _replaced(piece)
    return os.fdopen(fd, "rb")


def _replaced(piece: Piece) -> ReplayerError:
    return ReplayerError(f"{piece.path} was replaced while it was captured: copy it yourself")


def _copy(piece: Piece, source: IO[bytes], file: IO[bytes]) -> int:
    source.seek(piece.begin)
    left = piece.end - piece.begin
    while left > 0 and (part := source.read(min(left, _CHUNK))):
        file.write(part)
        left -= len(part)
    return piece.end - piece.begin - left


def free(place: LogLocation) -> int | None:
    """Return the free bytes on the disk that has a server's log; None if they are not known."""
    try:
        return None if place.here is None else shutil.disk_usage(place.here.parent).free
    except OSError:
        return None


def _beside(folder: Path) -> Iterator[Path]:
    try:
        yield from list(folder.iterdir())
    except OSError as error:
        raise ReplayerError(
            f"the log's folder {folder} cannot be read ({error.strerror}): run as root or as the "
            f"server's user, or copy the files yourself"
        ) from error


def _about(path: Path) -> os.stat_result | None:
    try:
        about = path.stat(follow_symlinks=False)
    except OSError:
        return None
    return about if stat.S_ISREG(about.st_mode) else None
