"""The part of a server's log files that was written from one moment to another."""

from __future__ import annotations

import os
import shutil
import stat
from typing import TYPE_CHECKING, NamedTuple

from replayer.errors import Impossible, ReplayerError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from replayer.capture.settings import Place

_OWNER_ONLY = 0o600
_CHUNK = 1 << 20
Inode = tuple[int, int]


class Piece(NamedTuple):
    """What of a file was written since."""

    path: Path
    begin: int
    end: int


def sizes(place: Place) -> dict[Inode, int]:
    """Return how long the files of a log's folder are now, by device and inode."""
    if place.here is None:
        return {}
    seen = {}
    for path in _beside(place.here.parent):
        about = _about(path)
        if about is not None:
            seen[about.st_dev, about.st_ino] = about.st_size
    return seen


def written(place: Place, before: dict[Inode, int]) -> list[Piece]:
    """Return what was written since `before`, in files of the log as it is now."""
    if place.here is None:
        return []
    beside = _beside(place.here.parent) if place.rotated else [place.here]
    pieces = []
    for path in sorted(beside):
        about = _about(path) if path.suffix == place.here.suffix else None
        if about is None:
            continue
        begin = before.get((about.st_dev, about.st_ino), 0)
        begin = begin if begin <= about.st_size else 0
        if about.st_size > begin:
            pieces.append(Piece(path, begin, about.st_size))
    return pieces


def check_out(folder: Path) -> None:
    """Raise Impossible for a folder that has something in it, or is none."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Impossible(f"{folder} is there already: --out names a folder that is made, or empty")


def copied(pieces: list[Piece], folder: Path) -> int:
    """Copy what was written into files of a folder that are their owner's alone; return bytes."""
    total = 0
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for piece in pieces:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            target = os.open(folder / piece.path.name, flags, _OWNER_ONLY)
            with piece.path.open("rb") as source, os.fdopen(target, "wb") as file:
                source.seek(piece.begin)
                left = piece.end - piece.begin
                while left > 0 and (part := source.read(min(left, _CHUNK))):
                    file.write(part)
                    left -= len(part)
                    total += len(part)
    except OSError as error:
        raise ReplayerError(
            f"the log could not be copied into {folder}: {error.filename or ''} {error.strerror}"
        ) from error
    return total


def free(place: Place) -> int | None:
    """Return the bytes that are free where a log is written; None where that is not seen."""
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
