"""The free space on the file system of a folder."""

import os
from pathlib import Path

from replayer.errors import Impossible
from replayer.units import show_size

NO_LIMIT = 1 << 62
_TIGHT = 16 << 20


def nearest_folder(path: Path) -> Path:
    """Return the nearest existing folder at or above an absolute path that this user can see."""
    while not os.path.isdir(path):  # noqa: PTH112 - a Path raises below a folder of another user
        path = path.parent
    return path


def free_bytes(folder: Path) -> int:
    """Return the bytes that an ordinary user may still write on the disk of an existing folder.

    Returns NO_LIMIT if the file system does not count its blocks, such as ramfs. Raises Impossible
    if the folder cannot be used.
    """
    try:
        about = os.statvfs(folder)
    except OSError as error:
        raise Impossible(
            f"{folder} cannot be used for files: {error.strerror}; make the folder or name another "
            f"one with --data-dir"
        ) from error
    return about.f_bavail * about.f_frsize if about.f_blocks else NO_LIMIT


def shortage(folder: Path) -> str:
    """Return the free bytes as words that follow an error; "" if the disk is not nearly full."""
    try:
        free = free_bytes(folder)
    except Impossible:
        return ""
    return f" (only {show_size(free)} are free in {folder})" if free < _TIGHT else ""
