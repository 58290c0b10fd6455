"""RESULTS/.RUN.events: what a run tells while it lasts, for its owner; removed at its end.

After a kill the next command removes it, by its note in the journal.
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
"""Of the file: at a few hundred bytes a second it grows for a week before nothing more is told."""
_PIECE = 1 << 20


def path_of(result: Path) -> Path:
    """Return where the events of a run are told that is stored there."""
    return result.with_name(f".{result.stem}.events")


class EventFile:
    """The file while it is written; leave the `with` when the run is over."""

    def __init__(self, result: Path) -> None:
        """Make it beside a result; raise OSError or Impossible where it cannot be."""
        path = path_of(result)
        with signals.shield():
            folder = trusted_path.Folder(path.parent)
            try:
                real = Path(f"/proc/self/fd/{folder.fd}").readlink() / path.name
                self._note = journal.take(NOTES[0], path=str(real))
                try:
                    # Left by a process that was killed, of a run that goes on now.
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
            # Who writes may be held up by the disk still, and must not write into whatever file has
            # the number next.
            fd, self._fd = self._fd, -1
            os.close(fd)
            with contextlib.suppress(OSError):
                self._folder.forget(self._name)
            self._note.drop()
            self._folder.close()

    def write(self, data: bytes) -> None:
        """Add some lines."""
        self._size += len(data)
        if self._size <= _MOST_BYTES:
            os.write(self._fd, data)


class Follower:
    """Reads the events of a run that another process tells."""

    def __init__(self, result: Path) -> None:
        self._path = path_of(result)
        self._fd = -1

    @property
    def there(self) -> bool:
        """Tell whether there is such a file that this user may read."""
        if self._fd < 0:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with contextlib.suppress(OSError):
                self._fd = os.open(self._path, flags)
            if self._fd >= 0 and not stat.S_ISREG(os.fstat(self._fd).st_mode):
                self.close()
        return self._fd >= 0

    def fresh(self) -> bytes:
        """Return what was told since the last time."""
        return os.read(self._fd, _PIECE) if self.there else b""

    def close(self) -> None:
        """Let go of the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def recover(note: Note) -> str:
    """Remove the events of a run whose process is gone, and return what was done.

    Raises Untrusted for what is no such file.
    """
    path = note.path_of("path", _NAME)
    return journal.remove_file(note, path, _BEGINNING, "the file of a run's events")


def _forget(folder: trusted_path.Folder, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        if folder.is_ours(name, _BEGINNING):
            folder.forget(name)
