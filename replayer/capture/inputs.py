"""Log files as users have them: files, folders, pipes, compressed or not, rotated, cut off.

Text is decoded as UTF-8; bytes that are not UTF-8 become lone surrogates (surrogateescape).
Only a few megabytes of a file are in memory, whatever its size and however long its lines.  A hole
is a run of zeros where a power failure lost data that was not yet on the disk.  A hole ends the
line before it, which then ends with HOLE; the text after it is another line.
"""

import bz2
import codecs
import contextlib
import errno
import lzma
import os
import stat
import tempfile
import time
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Protocol

import zstandard

from replayer.capture.holes import HOLE, SPOOLED, Holes, without_holes
from replayer.errors import Impossible

_BLOCK = 1 << 20
_PIECE = 1 << 10
"""Compressed bytes that are decompressed at once; they become at most some 40 MB of text."""
_HEAD = 256 << 10
LONGEST_LINE = 4 << 20
"""Characters of the longest line; of a longer one only the beginning is kept, with CUT after it."""
_KEPT = 64 << 10
_MOST_HOLES = 64
"""Holes allowed in the beginning of a log; a file with more is a program, or data."""
_CONTINUED = bytes(range(0x80, 0xC0))
"""Bytes with which no character of UTF-8 begins."""
_LONGEST_HOLE = 256 << 20
"""Bytes of zeros at the beginning of a log after which the search for text ends."""
CUT = "\0"
"""The mark of a place where a text was cut; no log contains this character."""
_PATIENCE = 10.0
"""Seconds within which another process must begin to write into a named pipe."""
_OTHERS = {
    b"PK\x03\x04": "a zip archive",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
    codecs.BOM_UTF16_LE: "text in UTF-16",
    codecs.BOM_UTF16_BE: "text in UTF-16",
    b"REPLAY": "a replay file already: `replayer run` replays it",
}


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


_FORMATS: dict[bytes, tuple[str, Callable[[], _Decompressor]]] = {
    b"\x1f\x8b": ("gzip", lambda: zlib.decompressobj(31)),
    b"BZh": ("bzip2", bz2.BZ2Decompressor),
    b"\x28\xb5\x2f\xfd": ("zstd", lambda: zstandard.ZstdDecompressor().decompressobj()),
    b"\xfd7zXZ\0": ("xz", lzma.LZMADecompressor),
}
_BROKEN = (zlib.error, OSError, zstandard.ZstdError, lzma.LZMAError, EOFError, ValueError)


@dataclass(slots=True, eq=False)
class Input:
    """One file or pipe; a pipe can be read only once, but its head may be read before that."""

    name: str
    """The name for messages: the file name without folders."""
    path: Path | None
    """The path; None for standard input."""
    size: int = 0
    """Bytes of the file on disk, maybe compressed; 0 for a pipe."""
    damage: str = ""
    """The place and the reason, in words, where reading had to stop; "" if it had not."""
    not_utf8: int = 0
    """Lines with bytes that are not UTF-8."""
    unfinished: bool = False
    """True if the file ends in the middle of a line."""
    holes: Holes = field(default_factory=Holes)
    """The runs of zeros in the text that was read."""
    shortest_hole: int = 1
    """Bytes of the shortest hole; fewer zeros are text, as clients of MySQL can send them."""
    _pipe: IO[bytes] | None = None
    _first: bytearray = field(default_factory=bytearray, repr=False)

    def head(self) -> str:
        """Return the beginning of the text (about 256 KiB), decompressed and without holes.

        It serves to detect the form of the log.  Raises Impossible if the file is not text.
        """
        holes = Holes()
        with contextlib.closing(self._pieces(lambda _: None, keep=True)) as pieces:
            data = bytearray()
            for piece in without_holes(_bounded(pieces, self.name), holes, 1):
                data += piece or b"\n"
                if len(data) >= _HEAD or holes.count > _MOST_HOLES:
                    break
        if holes.count > _MOST_HOLES or (holes.count and not data.strip()):
            raise Impossible(f"{self.name} is not text, so it is not a log")
        return data.decode("utf-8", "surrogateescape").lstrip("\n").removeprefix("\ufeff")

    def blocks(self, advance: Callable[[int], None]) -> Iterator[str]:
        """Yield the text in pieces of about a megabyte, cut anywhere.

        The piece HOLE stands for a hole: a run of zeros, where text was lost.  `advance` is called
        with the number of bytes of each piece of the file that was read.
        """
        decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        first, holed = True, False
        for data in _gathered(self._whole(advance)):
            if not data:
                # Drop the bytes of a character that the hole cut apart.
                decoder.reset()
                holed = True
                yield HOLE
                continue
            text = decoder.decode(data.lstrip(_CONTINUED) if holed else data)
            holed = False
            if first:
                text, first = text.removeprefix("\ufeff"), False
            if not text.isascii():
                self.not_utf8 += _undecoded(text)
            yield text
        if rest := decoder.decode(b"", final=True):
            yield rest

    def lines(self, advance: Callable[[int], None]) -> Iterator[list[str]]:
        """Yield lists of many lines each, without the line ends.

        Of a line of more than 4 million characters, the beginning is kept, with CUT at its end.  A
        line that a hole (a lost part) cut off ends with HOLE, and is the last line of its list.
        `advance` is called with the number of bytes of each piece of the file that was read.
        """
        held, dropping, windows = "", False, False
        first = True
        for block in self.blocks(advance):
            if block == HOLE:
                yield [held + HOLE]
                held, dropping = "", False
                continue
            pieces = block.split("\n")
            if first:
                windows, first = len(pieces) > 1 and pieces[0].endswith("\r"), False
            if not dropping:
                pieces[0] = held + pieces[0]
                if len(pieces[0]) > LONGEST_LINE:
                    pieces[0], dropping = pieces[0][:_KEPT] + CUT, True
            else:
                pieces[0] = held
            held = pieces.pop()
            if pieces:
                dropping = False
                yield [line.removesuffix("\r") for line in pieces] if windows else pieces
        self.unfinished = bool(held)
        if held:
            yield [held]

    def backwards(self, advance: Callable[[int], None]) -> Iterator[list[str]]:
        """Yield lists of many lines each, from the last line of the file to the first.

        It is for logs with the newest line first, an order that exports often have.  `advance` is
        called with the number of bytes of each piece of the file that was read.
        """
        with tempfile.TemporaryFile() as spool:
            for data in self._whole(advance):
                spool.write(data or SPOOLED)
            held, dropping = b"", False
            for start in range((spool.tell() - 1) // _BLOCK * _BLOCK, -1, -_BLOCK):
                spool.seek(start)
                pieces = (spool.read(_BLOCK) + held).split(b"\n")
                spool.truncate(start)
                if dropping and len(pieces) == 1:
                    continue
                if dropping:
                    # It is the beginning of the line that was cut.
                    pieces.pop()
                held, dropping = pieces[0], False
                yield [_unspooled(one) for one in reversed(pieces[1:])]
                if len(held) > LONGEST_LINE:
                    yield [CUT]
                    held, dropping = b"", True
            if not dropping:
                yield [_unspooled(held)]

    def written(self) -> datetime | None:
        """Return the time of the last write to the file; None for a pipe."""
        if self.path is None or not self.size:
            return None
        return datetime.fromtimestamp(self.path.stat().st_mtime, UTC)

    def close(self) -> None:
        """Close a pipe that was not read to its end."""
        if self._pipe is not None:
            self._pipe.close()

    def _whole(self, advance: Callable[[int], None]) -> Iterator[bytes]:
        """Yield the contents in pieces, decompressed, with b"" for each hole (run of zeros).

        `advance` is called with the number of bytes of each piece of the file that was read.
        """
        self.holes = Holes()
        return without_holes(self._pieces(advance), self.holes, self.shortest_hole)

    def _pieces(
        self, advance: Callable[[int], None], *, keep: bool = False
    ) -> Generator[bytes, None, None]:
        """Yield the contents in pieces, decompressed; if they break off, set `damage`.

        `advance` is called with the number of bytes of each piece that was read, compressed or not.
        With `keep`, bytes that are read from a pipe are stored, so that they can be read again.
        Raises Impossible for a file of another kind, such as a zip archive.
        """
        raw = self._raw(advance, keep=keep)
        try:
            first = next(raw, b"")
            for sign, what in _OTHERS.items():
                if first.startswith(sign):
                    raise Impossible(f"{self.name} is {what}")
            for sign, (title, make) in _FORMATS.items():
                if first.startswith(sign):
                    yield from self._decompressed(_chained(first, raw), title, make)
                    return
            yield from _chained(first, raw)
        finally:
            raw.close()

    def _decompressed(
        self, raw: Iterable[bytes], title: str, make: Callable[[], _Decompressor]
    ) -> Iterator[bytes]:
        one, taken, made = make(), 0, 0
        begun = False
        for block in raw:
            for start in range(0, len(block), _PIECE):
                piece = block[start : start + _PIECE]
                while piece:
                    if one.eof:
                        one = make()
                    try:
                        data = one.decompress(piece)
                    except _BROKEN:
                        self.damage = _broken(title, taken + start, made)
                        return
                    made += len(data)
                    begun = True
                    if data:
                        yield data
                    piece = one.unused_data if one.eof else b""
                    if not piece.strip(b"\0"):
                        # Tapes and block devices are padded with zeros.
                        piece = b""
            taken += len(block)
        if begun and not one.eof:
            self.damage = _broken(title, taken, made)

    def _raw(
        self, advance: Callable[[int], None], *, keep: bool = False
    ) -> Generator[bytes, None, None]:
        """Yield the blocks of the file as they are stored, compressed or not.

        `advance` is called with the number of bytes of each.  With `keep`, the blocks of a pipe are
        stored, so that they can be read again.
        """
        handle, first = self._open()
        try:
            if first:
                advance(len(first))
                yield bytes(first)
            while block := self._block(handle):
                if keep and self._pipe is not None:
                    self._first += block
                advance(len(block))
                yield block
        finally:
            if self._pipe is None:
                handle.close()

    def _open(self) -> tuple[IO[bytes], bytes | bytearray]:
        """Return the handle to read from, and the bytes already read from it."""
        if self._pipe is not None:
            return self._pipe, self._first
        try:
            handle, first = _opened(self)
        except OSError as error:
            raise Impossible(f"{self.name} cannot be read: {error.strerror}") from error
        if self.path is None or not stat.S_ISREG(os.fstat(handle.fileno()).st_mode):
            self._pipe, self._first = handle, bytearray(first)
        return handle, first

    def _block(self, handle: IO[bytes]) -> bytes:
        try:
            return handle.read(_BLOCK)
        except OSError as error:
            self.damage = f"it cannot be read further: {error.strerror}"
            return b""


def listed(names: Sequence[str]) -> list[Input]:
    """Return the inputs (files and pipes) that `names` mean, each file once.

    A folder stands for the files in it, and "-" for standard input.  Raises Impossible for a name
    that does not exist, and if there is no file at all.
    """
    inputs: dict[object, Input] = {}
    for name in names:
        for one in _expanded(name):
            key: object = "-"
            if one.path is not None:
                about = one.path.stat()
                key = (about.st_dev, about.st_ino)
            inputs.setdefault(key, one)
    if not inputs:
        raise Impossible(f"there is no file in {', '.join(names)}")
    return list(inputs.values())


def _expanded(name: str) -> Iterator[Input]:
    if name == "-":
        yield Input("standard input", None)
        return
    path = Path(name)
    try:
        about = path.stat()
        if not stat.S_ISDIR(about.st_mode):
            yield Input(_shown(path), path, about.st_size if stat.S_ISREG(about.st_mode) else 0)
            return
        for one in sorted(path.iterdir()):
            # Do not follow links: a user who may write into a folder of logs could expose other
            # users' files.
            about = one.lstat()
            if stat.S_ISREG(about.st_mode) and about.st_size and not one.name.startswith("."):
                yield Input(_shown(one), one, about.st_size)
    except OSError as error:
        raise Impossible(f"{name} cannot be read: {error.strerror}") from error


def _shown(path: Path) -> str:
    """Return the file's name with bytes that are not UTF-8 replaced."""
    return os.fsencode(path.name).decode("utf-8", "replace")


def _opened(source: Input) -> tuple[IO[bytes], bytes]:
    if source.path is None:
        return _standard_input(), b""
    # Without O_NONBLOCK the open of a named pipe without a writer would wait forever.
    number = os.open(source.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    handle = open(number, "rb", buffering=0)  # noqa: PTH123, SIM115 - opened above
    mode = os.fstat(number).st_mode
    if stat.S_ISREG(mode):
        return handle, b""
    if not stat.S_ISFIFO(mode):
        handle.close()
        raise Impossible(f"{source.name} is not a file with a log")
    return handle, _begun(handle, source.name)


def _standard_input() -> IO[bytes]:
    try:
        return open(0, "rb", buffering=0, closefd=False)
    except OSError as error:
        if error.errno == errno.EBADF:
            raise Impossible("standard input is closed, so there is no log in it") from error
        raise


def _begun(handle: IO[bytes], name: str) -> bytes:
    """Return the first bytes from a named pipe; wait for a writer at its other end.

    Raises Impossible if nothing was written within 10 seconds; `name` is the pipe's name for the
    message.
    """
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        try:
            first = os.read(handle.fileno(), 1 << 16)
        except BlockingIOError:
            first = b""
        if first:
            os.set_blocking(handle.fileno(), True)
            return first
        time.sleep(0.02)
    handle.close()
    raise Impossible(f"{name} is a pipe, and nothing was written into it in {_PATIENCE:g} s")


def _chained(first: bytes, others: Iterable[bytes]) -> Iterator[bytes]:
    if first:
        yield first
    yield from others


def _gathered(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the pieces joined to about a megabyte each; an empty piece stays alone.

    An empty piece stands for a hole (a lost part) in the text.
    """
    data = bytearray()
    for piece in pieces:
        if not piece:
            if data:
                yield bytes(data)
                data.clear()
            yield piece
            continue
        if not data and len(piece) >= _BLOCK:
            yield piece
            continue
        data += piece
        if len(data) >= _BLOCK:
            yield bytes(data)
            data.clear()
    if data:
        yield bytes(data)


def _bounded(pieces: Iterable[bytes], name: str) -> Iterator[bytes]:
    """Yield the pieces; raise Impossible as soon as they have more than 256 MiB.

    The pieces are the beginning of a log, which is read until text is found.  A log may begin with
    up to 256 MiB of zeros.  `name` is the file's name for the message.
    """
    seen = 0
    for piece in pieces:
        yield piece
        seen += len(piece)
        if seen > _LONGEST_HOLE:
            raise Impossible(
                f"{name} begins with more than {_LONGEST_HOLE >> 20} MiB of zeros: it is not a log"
            )


def _unspooled(line: bytes) -> str:
    """Return the text of a line from the temporary file that is used to read lines backwards.

    The text ends with HOLE if a hole cut the line off.
    """
    if line.endswith(SPOOLED[:-1]):
        return line.removesuffix(SPOOLED[:-1]).decode("utf-8", "surrogateescape") + HOLE
    return line.decode("utf-8", "surrogateescape")


def _undecoded(text: str) -> int:
    """Return the number of lines in `text` that have bytes which are not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return sum(1 for line in text.split("\n") if _lone(line))
    return 0


def _lone(line: str) -> bool:
    try:
        line.encode()
    except UnicodeEncodeError:
        return True
    return False


def _broken(title: str, taken: int, made: int) -> str:
    return (
        f"its {title} is damaged or cut at byte {taken:,}: {made:,} bytes of text before that were "
        f"read"
    )
