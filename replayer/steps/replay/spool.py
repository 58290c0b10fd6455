"""What all sessions of a replay do, ready to be sent, in a file without a name.

A session's records lie in chunks of some hundred, each of which says where the session's next one
lies: a chunk of each session that is under way is in memory, whatever the capture's length.  The
file lies in a folder and not in memory, of which the database under test gets what is left; it is
packed, and the next chunk is asked for ahead, so that nobody waits for a disk in the middle of it.
"""

import marshal
import os
import struct
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import zstandard

from replayer.errors import ReplayerError
from replayer.steps.replay.work import NOWHERE, Place, Record

_NEXT = struct.Struct("<qq")
_unpack = zstandard.ZstdDecompressor().decompress


class Spool:
    """Takes the records of sessions in any order, and writes them in chunks."""

    CHUNK = 256

    def __init__(self, folder: Path | None = None) -> None:
        """Make the file in a folder, or where temporary files go."""
        self._folder = folder or Path(tempfile.gettempdir())
        try:
            # Nobody else can open it, and whatever ends the replay, nothing is left of it.
            self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
        except OSError as error:
            raise self._full(error) from error
        self.fd = self._file.fileno()
        self._end = 0
        self._pack = zstandard.ZstdCompressor(level=1).compress

    def write(self, records: Sequence[Record], last: Place = NOWHERE) -> Place:
        """Write one chunk, which follows the `last` of its session, and return where it is."""
        packed = self._pack(marshal.dumps([tuple(record) for record in records]))
        place = (self._end, len(packed))
        view = memoryview(_NEXT.pack(*NOWHERE) + packed)
        self._end += len(view)
        try:
            while view:
                view = view[os.write(self.fd, view) :]
            if last != NOWHERE:
                os.pwrite(self.fd, _NEXT.pack(*place), last[0])
        except OSError as error:
            raise self._full(error) from error
        return place

    def flush(self) -> None:
        """Have it on the disk, so that nothing of it is written while the replay runs."""
        try:
            os.fdatasync(self.fd)
        except OSError as error:
            raise self._full(error) from error

    def close(self) -> None:
        """Give it back."""
        self._file.close()

    def _full(self, error: OSError) -> ReplayerError:
        return ReplayerError(
            f"the plan of the replay could not be written in {self._folder} ({error.strerror}): it "
            f"takes some tens of bytes there for each action"
        )


def records(fd: int, first: Place) -> Iterator[Record]:
    """Yield the records of a session, a chunk at a time."""
    offset, length = first
    while length:
        chunk = os.pread(fd, _NEXT.size + length, offset)
        offset, length = _NEXT.unpack_from(chunk)
        if length:
            os.posix_fadvise(fd, offset, _NEXT.size + length, os.POSIX_FADV_WILLNEED)
        for plain in marshal.loads(_unpack(chunk[_NEXT.size :])):  # noqa: S302 - written above
            yield Record._make(plain)
