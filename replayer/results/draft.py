"""Drafts of replay files, next to the final file; drafts that a kill leaves are removed later."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from replayer import journal, signals, trusted_path
from replayer.errors import Impossible, ReplayerError
from replayer.journal import Untrusted

if TYPE_CHECKING:
    from collections.abc import Callable

    from replayer.journal import Note

NOTES = ("draft",)
_NAME = re.compile(r"\..+\.([0-9]+)\.new", re.DOTALL)
_MAGIC = b"REPLAY"
_OWNER_ONLY = 0o600


class Draft:
    """A new file that gets its final name when it is complete; write its content to `file`."""

    def __init__(self, path: Path) -> None:
        """Create the draft in the folder of `path`.

        Raises Impossible if it cannot be written, or if `path` is there and is not a replay file
        that belongs to this user: a link, a device, or a file with another content.
        """
        self._target = path.name
        self._name = f".{path.name}.{os.getpid()}.new"
        try:
            self._folder = trusted_path.Folder(path.parent)
        except OSError as error:
            raise Impossible(f"{path} cannot be written: {error.strerror}") from error
        self._note: Note | None = None
        with signals.shield():
            try:
                self._check_replaceable(path)
                # Without a folder for replayer's notes, a log is converted all the same.
                with contextlib.suppress(Impossible):
                    self._note = journal.take(NOTES[0], path=str(self._real() / self._name))
                # The statements of a database are private: only the owner may read the file.
                self.file = os.fdopen(self._folder.create(self._name, _OWNER_ONLY), "wb")
            except OSError as error:
                self._leave()
                raise Impossible(f"{path} cannot be written: {error.strerror}") from error
            except Impossible:
                self._leave()
                raise
        self._open = True

    def _check_replaceable(self, path: Path) -> None:
        kind = self._folder.mode(self._target)
        regular = stat.S_ISREG(kind)
        if kind and not (regular and self._folder.is_ours(self._target, _MAGIC)):
            raise Impossible(
                f"{path} is there already and is not a replay file of this user's: remove it, or "
                f"give another name"
            )

    def publish(self) -> None:
        """Sync the draft to the disk and give it its final name; raise OSError if that fails."""
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()
        with signals.shield():
            self._folder.rename(self._name, self._target)
            self._open = False
            self._leave()

    def abandon(self) -> None:
        """Remove the draft, unless it was published."""
        if not self._open:
            return
        with signals.shield():
            self._open = False
            # On a full disk, closing cannot write the buffer; the file is removed anyway.
            with contextlib.suppress(OSError):
                self.file.close()
            with contextlib.suppress(OSError):
                self._folder.forget(self._name)
            self._leave()

    def _real(self) -> Path:
        """Return the real path of the draft's folder, without links in it."""
        return Path(f"/proc/self/fd/{self._folder.fd}").readlink()

    def _leave(self) -> None:
        if self._note is not None:
            self._note.drop()
        self._folder.close()


def give_back(say: Callable[[str], None]) -> None:
    """Remove the drafts that killed processes left, and report each of them in one line."""
    with contextlib.suppress(Impossible):
        for note in list(journal.notes(*NOTES)):
            if note.abandoned:
                try:
                    say(f"left by an earlier run: {recover(note)}")
                except Untrusted as error:
                    say(f"{error}; `replayer clean` removes the note")
                except ReplayerError as error:
                    say(f"left by an earlier run, still there: {error}")


def recover(note: Note) -> str:
    """Remove the draft that a note (a record in replayer's journal) names, and return a sentence.

    The sentence describes the result.  The process that wrote the draft must have ended.  Raises
    Untrusted if the note names a file that is not a draft of the process that wrote the note.
    """
    path = note.path_of("path", _NAME)
    named = _NAME.fullmatch(path.name)
    if named is None or [named[1]] != note.owner.split(":")[1:2]:
        raise Untrusted(note, "its path is not a draft of its owner's")
    return journal.remove_file(note, path, _MAGIC, "the unfinished replay file")
