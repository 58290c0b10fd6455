"""stdin, stdout and stderr as a shell, a terminal or a full disk may leave them.

Reports go to stdout and must arrive: where they cannot, that is an error of one sentence.  What is
told meanwhile goes to stderr, where nobody may listen any more: that never ends a run.
"""

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from typing import IO, Any, TextIO, cast

from replayer.errors import ReplayerError

_STANDARD = (("stdin", os.O_WRONLY), ("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY))
"""How /dev/null takes the place of what is closed: reading and writing must fail as before."""


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Give the process three standard streams, whose failures are replayer's own errors.

    Inside, writing to a stdout that takes nothing raises ReplayerError, or BrokenPipeError where
    its reader went away; a stderr that takes nothing is passed over.
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
    """Open /dev/null in the place of each that is closed: the next file would take its number."""
    for number, (name, flags) in enumerate(_STANDARD):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is taken, and those below are open by now.
            os.open(os.devnull, flags)
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


class _Stream:
    """A text stream that passes everything on, and knows what to do when it takes nothing."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            # A label in another alphabet must not end a report on an ASCII terminal.
            reconfigure(errors="replace")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write text, and return how much of it."""
        with self._trouble():
            return self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Bring what was written to where it goes."""
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
        """Let what is still in the buffer go nowhere: at its end Python would try once more."""
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
        """Say nothing: there is nobody to say it to."""
