"""A lock on the work of one experiment, so that two terminals do not make its runs twice."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from typing import TYPE_CHECKING

from replayer import journal, trusted_path
from replayer.errors import Impossible

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@contextlib.contextmanager
def held(folder: Path, name: str, what: str) -> Iterator[None]:
    """Hold a lock, the file `name` in `folder`, for the `with` block; then remove the file.

    A missing folder is made.  Raises Impossible if another replayer holds the lock.  The error has
    the id of that process, and calls the work `what`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with trusted_path.Folder(folder) as place:
            fd = _taken(place, name, what)
            try:
                os.write(fd, journal.identity(os.getpid()).encode())
                yield
            finally:
                place.forget(name)
                os.close(fd)
    except PermissionError as error:
        raise Impossible(
            f"{what} cannot be locked: {error.filename or folder} is not yours ({error.strerror})"
        ) from error


def _taken(place: trusted_path.Folder, name: str, what: str) -> int:
    """Lock the file `name` in a folder, and return its descriptor.

    Raises Impossible if another process holds the lock; the message calls the work `what`.
    """
    while True:
        try:
            fd = os.open(name, _FLAGS, 0o600, dir_fd=place.fd)
        except PermissionError:
            raise
        except OSError as error:
            raise _no_lock(place, name, what) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            pid = _holder(fd)
            os.close(fd)
            raise Impossible(
                f"{what} is being worked on by another replayer"
                f"{f' (process {pid})' if pid else ''}: wait until it has ended"
            ) from error
        about = os.fstat(fd)
        # It is written and removed: what another user linked or placed here must stay as it is.
        mine = about.st_uid == os.geteuid() and about.st_nlink <= 1
        if mine and stat.S_ISREG(about.st_mode) and about.st_nlink:
            return fd
        os.close(fd)
        # The one before may have removed it in between: then it is no longer the lock.
        if about.st_nlink:
            raise _no_lock(place, name, what)


def _no_lock(place: trusted_path.Folder, name: str, what: str) -> Impossible:
    return Impossible(
        f"{what} cannot be locked: {place.path / name} is not a lock that this user made; remove "
        f"it, or give another folder with --results"
    )


def _holder(fd: int) -> int:
    """Return the id of the process that holds the lock; 0 if it has not written it."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return journal.pid_of(os.pread(fd, 200, 0).decode())
    return 0
