"""RESULTS/.RUN.events: the events of a run that is under way, readable by the file's owner only.

The file is removed when the run ends. If the run is killed, the next run removes
the file. It finds the file by a note in the journal, in which replayer notes all that it must undo.
"""

import contextlib
import os
import re
import stat
from pathlib import Path
from typing import Self

from replayer import journal, signals, trusted_path
from replayer.journal import Note

NOTES = ("events",)
_NAME = re.compile(r"\..+\.events", re.DOTALL)
_BEGINNING = b'{"event"'
_OWNER_ONLY = 0o600
_MOST_BYTES = 256 << 20
"""Largest size of the file in bytes; a few hundred bytes a second reach it after a week."""
_PIECE = 1 << 20


def path_of(result: Path) -> Path:
    """Return the path of the events file of the run that is stored at `result`."""
    return result.with_name(f".{result.stem}.events")


class EventFile:
    """The events file while it is written; leave the `with` block when the run is over."""

    def __init__(self, result: Path) -> None:
        """Make the events file in the folder of the result file `result`.

        Raises OSError or Impossible if it cannot be made.
        """
        path = path_of(result)
        with signals.shield():
            folder = trusted_path.Folder(path.parent)
            try:
                real = Path(f"/proc/self/fd/{folder.fd}").readlink() / path.name
                self._note = journal.take(NOTES[0], path=str(real))
                try:
                    # Left by a killed process of the same run, which is resumed now.
                    _forget(folder, path.name)
                    self._fd = folder.create(path.name, _OWNER_ONLY)
                except BaseException:
                    self._note.drop()
                    raise
            except BaseException:
                folder.close()
                raise
        self._folder, self._name, self._size = folder, path.name, 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        with signals.shield():
            # The writer may still wait for the disk. After the close it must not write into another
            # file that got the same descriptor number.
            fd, self._fd = self._fd, -1
            os.close(fd)
            with contextlib.suppress(OSError):
                self._folder.forget(self._name)
            self._note.drop()
            self._folder.close()

    def write(self, data: bytes) -> None:
        """Append `data`, whole lines of events; drop them if the file would exceed 256 MiB."""
        self._size += len(data)
        if self._size <= _MOST_BYTES:
            os.write(self._fd, data)


class Follower:
    """A reader of the events file that another replayer process writes during its run."""

    def __init__(self, result: Path) -> None:
        self._path = path_of(result)
        self._fd = -1

    @property
    def there(self) -> bool:
        """Open the events file if it is not open yet, and return whether that succeeded.

        It fails if the file does not exist, is not a plain file or may not be read by this user.
        """
        if self._fd < 0:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with contextlib.suppress(OSError):
                self._fd = os.open(self._path, flags)
            if self._fd >= 0 and not stat.S_ISREG(os.fstat(self._fd).st_mode):
                self.close()
        return self._fd >= 0

    @property
    def replaced(self) -> bool:
        """Return whether another file has taken the place of the open one: the run was resumed."""
        if self._fd < 0:
            return False
        try:
            there = self._path.lstat()
        except OSError:
            return False
        return not os.path.samestat(there, os.fstat(self._fd))

    def fresh(self) -> bytes:
        """Return the bytes added to the file since the last call, at most 1 MiB.

        Returns b"" if there are none, or if the file cannot be opened.
        """
        return os.read(self._fd, _PIECE) if self.there else b""

    def close(self) -> None:
        """Close the events file; do nothing if it is not open."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def recover(note: Note) -> str:
    """Remove the events file of a run whose process is gone; return a sentence on what was done.

    `note` is the note on the file in the journal. Raises Untrusted for a file that is not the
    events file of a run.
    """
    path = note.path_of("path", _NAME)
    return journal.remove_file(note, path, _BEGINNING, "the file of a run's events")


def _forget(folder: trusted_path.Folder, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        if folder.is_ours(name, _BEGINNING):
            folder.forget(name)
