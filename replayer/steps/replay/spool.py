"""The records of all sessions of a replay, ready to be sent, in a file without a name.

A session's records are in chunks of some hundred records.  Each chunk has the place of the
session's next chunk.  So only one chunk of each session under way is in memory, whatever the
capture's length.  The file is in a folder on disk, because the memory that is left belongs to the
database under test.  Chunks are compressed.  The next chunk is read ahead, so that no session waits
for a disk during the replay.
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
    """A file that takes the records (actions) of sessions in chunks, in any order of sessions."""

    CHUNK = 256

    def __init__(self, folder: Path | None = None) -> None:
        """Create the file in `folder`, or in the folder for temporary files if it is None.

        Raises ReplayerError if it cannot be created.
        """
        self._folder = folder or Path(tempfile.gettempdir())
        try:
            # It has no name: no other user can open it, and nothing is left when the replay ends.
            self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
        except OSError as error:
            raise self._full(error) from error
        self.fd = self._file.fileno()
        self._end = 0
        self._pack = zstandard.ZstdCompressor(level=1).compress

    def write(self, records: Sequence[Record], last: Place = NOWHERE) -> Place:
        """Write one chunk of a session's records, and return its place: offset and length in bytes.

        `last` is the place of the session's last chunk, which gets a link to this one; NOWHERE if
        this is the first.

        Raises ReplayerError if the file cannot be written.
        """
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
        """Write the file to disk now, so that nothing of it is written during the replay."""
        try:
            os.fdatasync(self.fd)
        except OSError as error:
            raise self._full(error) from error

    def close(self) -> None:
        """Close the file, which also deletes it."""
        self._file.close()

    def _full(self, error: OSError) -> ReplayerError:
        return ReplayerError(
            f"the plan of the replay could not be written in {self._folder} ({error.strerror}): it "
            f"takes some tens of bytes there for each action"
        )


def records(fd: int, first: Place) -> Iterator[Record]:
    """Yield the records (actions) of a session, read from the spool one chunk at a time.

    `fd` is the descriptor of the spool, `first` is the place of the session's first chunk in it.
    """
    offset, length = first
    while length:
        chunk = os.pread(fd, _NEXT.size + length, offset)
        offset, length = _NEXT.unpack_from(chunk)
        if length:
            os.posix_fadvise(fd, offset, _NEXT.size + length, os.POSIX_FADV_WILLNEED)
        for plain in marshal.loads(_unpack(chunk[_NEXT.size :])):  # noqa: S302 - written above
            yield Record._make(plain)
