"""Files for measurements, in a folder that replayer makes and always removes at the end."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import re
import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from replayer import journal, signals, trusted_path
from replayer.errors import Impossible, ReplayerError
from replayer.machine.free_space import free_bytes
from replayer.storage.io_job import MIB, IoTarget
from replayer.units import show_size

if TYPE_CHECKING:
    from collections.abc import Callable

PREFIX = ".replayer-probe-"
_NAME = re.compile(re.escape(PREFIX) + "[0-9a-f]{12}")
_WHAT = "the folder of the files"
_PAGE = 4096
_PATTERN_BYTES = 8 * MIB
_SPARE_BYTES = 16 * MIB
"""Bytes left free: a file system needs some for its metadata."""


NOTES = frozenset({"files"})
"""The kinds of notes in the journal that `recover` handles."""


def recover(note: journal.Note) -> str:
    """Remove the folder of measurement files that a killed replayer left.

    `note` is the journal's entry with the path of the folder; it is removed as well. Returns a
    message about what was done. Raises Untrusted if the path in the note is not that of such a
    folder, or if another user could have changed the folder.
    """
    folder = note.path_of("path", _NAME)
    try:
        with trusted_path.steady(folder.parent, _WHAT) as parent:
            there = bool(parent.mode(folder.name))
            if there:
                with parent.below(folder.name) as made:
                    owner = made.shared()
                if owner:
                    raise journal.Untrusted(note, f"{folder} {owner}")
                parent.remove(folder.name)
    except (FileNotFoundError, NotADirectoryError):
        there = False
    except Impossible as error:
        raise journal.Untrusted(note, str(error)) from error
    except OSError as error:
        raise ReplayerError(
            f"the files in {folder} cannot be removed ({error.strerror}); remove them by hand"
        ) from error
    note.drop()
    return f"the files of a probe in {folder} were {'removed' if there else 'already gone'}"


def check_parent(parent: Path) -> None:
    """Raise Impossible if no folder for files can be made in `parent`; nothing is written."""
    try:
        with trusted_path.steady(parent, _WHAT) as folder:
            reason = trusted_path.refusal(Path(f"/proc/self/fd/{folder.fd}"))
    except OSError as error:
        raise _no_folder(parent, error.strerror) from error
    if reason:
        raise _no_folder(parent, reason)


def _no_folder(parent: Path, reason: str | None) -> Impossible:
    return Impossible(
        f"no folder can be made in {parent}: {reason}; name another one with --data-dir"
    )


def enough(parent: Path, wanted: int) -> None:
    """Raise Impossible if `wanted` bytes and 16 MiB are more than `parent`'s file system has free.

    The 16 MiB must be free in addition. Also raises Impossible if `parent` does not exist.
    """
    free = free_bytes(parent)
    if wanted + _SPARE_BYTES > free:
        raise Impossible(
            f"the files of this probe need {show_size(wanted + _SPARE_BYTES)} and {parent} has "
            f"{show_size(free)} free; ask for less or name another folder with --data-dir"
        )


class Workspace:
    """A new folder for measurements; the end of the `with` block removes it with all its files."""

    def __init__(self, parent: Path) -> None:
        self._parent = trusted_path.real(parent)
        self.folder = self._parent / f"{PREFIX}{secrets.token_hex(6)}"
        self._note: journal.Note | None = None
        self._made = False

    def __enter__(self) -> Self:
        try:
            with signals.shield():
                self._make()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _make(self) -> None:
        self._note = journal.take("files", path=str(self.folder))
        try:
            with trusted_path.steady(self._parent, _WHAT) as parent:
                parent.make(self.folder.name, 0o700)
        except OSError as error:
            raise _no_folder(self._parent, error.strerror) from error
        self._made = True

    def __exit__(self, *exception: object) -> None:
        with signals.shield():
            # If no folder was made, such as below a file, there is nothing to look for.
            with contextlib.nullcontext() if self._made else contextlib.suppress(OSError):
                _remove(self.folder)
            if self._note is not None:
                self._note.drop()

    def files(
        self,
        name: str,
        count: int,
        bytes_each: int,
        *,
        block_size: int,
        filled: bool = True,
        direct: bool = True,
        wrote: Callable[[int], None] = lambda _: None,
    ) -> IoTarget:
        """Make `count` files of `bytes_each` in the subfolder `name`, and return them as a target.

        If `filled`, they contain incompressible data, which is on the disk on return; otherwise
        they are empty. If `direct`, the target is marked for O_DIRECT, provided that this works
        here. `wrote` is called with the length of each piece written, in bytes. Raises Impossible
        if there is no room, or if O_DIRECT works but not with this block size; ReplayerError if
        writing fails.
        """
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        enough(folder, count * bytes_each)
        paths = [folder / f"file.{number}" for number in range(count)]
        direct = direct and direct_works(folder, block_size)
        try:
            for path in paths:
                _create(path, bytes_each if filled else 0, wrote)
        except OSError as error:
            raise ReplayerError(
                f"the {count} files of {show_size(bytes_each)} could not be written to {folder}: "
                f"{error.strerror}"
            ) from error
        return IoTarget(tuple(str(path) for path in paths), bytes_each, direct)

    def empty(self, target: IoTarget) -> None:
        """Truncate the files of a target to zero bytes, so that the next writes allocate blocks.

        The truncation is on the disk on return (fsync). Without that, the file system would write
        its journal and discard blocks during the measurement.
        """
        for path in target.paths:
            os.truncate(path, 0)
        for path in target.paths:
            settle(path)

    def refill(self, target: IoTarget) -> None:
        """Replace each file that is shorter than the target's `file_bytes` with a new, full file.

        The new file has incompressible data, which is on the disk on return.
        """
        for path in map(Path, target.paths):
            if path.stat().st_size < target.file_bytes:
                path.unlink()
                _create(path, target.file_bytes, lambda _: None)

    def forget(self, target: IoTarget) -> None:
        """Remove the files of a target from the disk; a file that is already gone is no error."""
        for path in target.paths:
            Path(path).unlink(missing_ok=True)


def settle(path: Path | str) -> None:
    """Write a file or folder to the disk (fsync), and drop its pages from the page cache."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def direct_works(folder: Path, block_size: int) -> bool:
    """Return whether O_DIRECT works on a file in this folder with this block size.

    Raises Impossible if direct I/O works, but not with this block size.
    """
    if _direct_block(folder, block_size):
        return True
    if block_size % _PAGE and _direct_block(folder, _PAGE):
        raise Impossible(
            f"direct I/O in {folder} does not work with a block size of {block_size} bytes; use a "
            f"multiple of {_PAGE} or direct = false"
        )
    return False


def _direct_block(folder: Path, block_size: int) -> bool:
    path = folder / "direct"
    size = -(-block_size // mmap.PAGESIZE) * mmap.PAGESIZE
    try:
        with mmap.mmap(-1, size) as pages:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600)
            try:
                with memoryview(pages) as whole, whole[:block_size] as block:
                    os.pwritev(fd, [block], block_size)
                    return os.preadv(fd, [block], block_size) == block_size
            finally:
                os.close(fd)
    except OSError as error:
        if error.errno in {errno.EINVAL, errno.EOPNOTSUPP}:
            return False
        raise ReplayerError(f"{folder} cannot be written: {error.strerror}") from error
    finally:
        path.unlink(missing_ok=True)


def _create(path: Path, size: int, wrote: Callable[[int], None]) -> None:
    """Make one file of incompressible data, no two pages of it alike, and write it to the disk.

    `size` is in bytes; 0 makes an empty file. `wrote` is called with the length in bytes of each
    piece written.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        if not size:
            return
        pattern = np.frombuffer(
            os.urandom(min(size + _PAGE, _PATTERN_BYTES)), dtype=np.uint8
        ).copy()
        pages = pattern[: len(pattern) // _PAGE * _PAGE].view(np.uint64)[:: _PAGE // 8]
        written = 0
        while written < size:
            pages += np.uint64(0x9E3779B97F4A7C15)
            piece = pattern.data[: size - written]
            done = os.write(fd, piece)
            written += done
            wrote(done)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def _remove(folder: Path) -> None:
    """Remove a folder with its contents, even if another process removes files meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(folder)
    if folder.exists():
        shutil.rmtree(folder, ignore_errors=True)
