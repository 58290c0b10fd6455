"""Protection against broken standard streams: closed ones, a lost terminal, a full disk.

Reports go to stdout.  If a report cannot be written, the program ends with a message of one
sentence.  Progress messages go to stderr.  If the reader of stderr is gone, they are dropped, and
the run continues.
"""

import codecs
import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from typing import IO, Any, TextIO, cast

from replayer.errors import ReplayerError

_STANDARD = (("stdin", os.O_WRONLY), ("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY))
"""(stream, mode in which /dev/null replaces it if it is closed).

Reading from stdin and writing to the others must fail as before.
"""

SPELLED = "replayer.spelled"
"""The name of the error handler for characters that a stream cannot encode: µs becomes us."""
_SPELLINGS = {
    "µ": "u", "·": "-", "…": "...", "±": "+-", "─": "-", "│": "|", "├": "+", "└": "+",
    "▁": "1", "▂": "2", "▃": "3", "▄": "4", "▅": "5", "▆": "6", "▇": "7", "█": "8",
}  # fmt: skip
"""Character that reports use -> its replacement if the stream cannot encode it."""


def _spell(error: UnicodeError) -> tuple[str, int]:
    """Return a replacement for characters that a stream cannot encode, and the index after them.

    This is an error handler for Python's codecs.  A character without a known spelling becomes `?`.
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(_SPELLINGS.get(one, "?") for one in lacking), error.end


codecs.register_error(SPELLED, _spell)


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Give the process three open standard streams, and handle failed writes to them.

    In the `with` block, a failed write to stdout raises ReplayerError, or BrokenPipeError if the
    reader of stdout is gone.  A failed write to stderr is ignored.
    """
    _open_closed()
    before = sys.stdout, sys.stderr
    out, err = _Out(sys.stdout), _Err(sys.stderr)
    sys.stdout, sys.stderr = cast("TextIO", out), cast("TextIO", err)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        with contextlib.suppress(ReplayerError, OSError):
            out.flush()
        err.flush()


def _open_closed() -> None:
    """Open /dev/null for each of stdin, stdout and stderr that the process started without.

    Without this, the next file that is opened would get that stream's descriptor.
    """
    for number, (name, flags) in enumerate(_STANDARD):
        try:
            os.fstat(number)
        except OSError:
            # open() returns the lowest free number: this one, as all lower ones are open by now.
            os.open(os.devnull, flags)
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


class _Stream:
    """A wrapper of a text stream that handles failed writes.

    After a failed write, all further output goes to /dev/null, and `_tell` decides about the error.
    """

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            # Characters that the stream cannot encode, e.g. in a label, would end the report.
            reconfigure(errors=SPELLED)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write text, and return the number of characters written."""
        with self._trouble():
            return self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush the buffer of the stream."""
        with self._trouble():
            self._stream.flush()

    @contextlib.contextmanager
    def _trouble(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._give_up()
            self._tell(error)

    def _give_up(self) -> None:
        """Redirect the stream's file descriptor to /dev/null after a failed write.

        Without this, Python would write the rest of the buffer again at exit, and fail again.
        """
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)

    def _tell(self, error: OSError) -> None:
        raise NotImplementedError


class _Out(_Stream):
    def _tell(self, error: OSError) -> None:
        if error.errno == errno.EPIPE:
            raise error
        raise ReplayerError(f"stdout cannot be written: {error.strerror}") from error


class _Err(_Stream):
    def _tell(self, error: OSError) -> None:
        """Ignore the error of a failed write to stderr: no reader is left for a message."""
