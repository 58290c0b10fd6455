"""Start programs: the only module that does, always from a list of arguments, never a shell."""

import contextlib
import os
import shutil
import subprocess  # noqa: TID251 - this is the one place
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from replayer import signals
from replayer.errors import ReplayerError

Conversation = subprocess.Popen[bytes]
_BOUND = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    os._exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""
"""What becomes a program that the kernel kills when its parent is gone: PR_SET_PDEATHSIG."""


class User(NamedTuple):
    """Who a program runs as; only root can choose."""

    name: str
    uid: int
    gid: int


def find(program: str, *folders: Path) -> Path | None:
    """Return the program's path: in the given folders first, else on PATH, else None."""
    for folder in folders:
        if os.access(folder / program, os.X_OK):
            return folder / program
    path = shutil.which(program)
    return Path(path) if path else None


def run(
    arguments: Sequence[str | Path],
    *,
    user: User | None = None,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    timeout: float | None = None,
    stdin: IO[bytes] | None = None,
) -> str:
    """Run a program to its end and return what it printed on stdout.

    It gets a session of its own, so that Ctrl-C reaches replayer alone, which then stops in order.
    Its user need not have the right to open `stdin`, which it reads on from where that stands.
    Raises ReplayerError with the last lines of stderr when it fails, is missing or takes too long.
    """
    command = [str(argument) for argument in arguments]
    try:
        done: subprocess.CompletedProcess[str] = subprocess.run(
            command,
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=timeout,
            cwd=folder,
            env=None if environment is None else {**os.environ, **environment},
            start_new_session=True,
            **_identity(user),
        )
    except OSError as error:
        raise ReplayerError(f"{command[0]} could not be started: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise ReplayerError(f"{command[0]} did not end within {timeout:.0f} s") from error
    if done.returncode:
        raise _failure(command, done.returncode, done.stderr or done.stdout)
    return done.stdout


def start(
    arguments: Sequence[str | Path],
    *,
    user: User | None = None,
    environment: Mapping[str, str] | None = None,
    output: Path | None = None,
    folder: Path | None = None,
    passed: Sequence[int] = (),
    bound: bool = False,
) -> Conversation:
    """Start a program that goes on beside replayer, in a session of its own; output is appended.

    It inherits the descriptors that are `passed`, and no others.  One that is `bound`, named by its
    path, is killed when the thread that started it is gone.
    """
    command = [str(argument) for argument in arguments]
    if bound:
        command = [sys.executable, "-I", "-S", "-c", _BOUND, str(os.getpid()), *command]
    try:
        with open(output or os.devnull, "ab") as sink:  # noqa: PTH123 - os.devnull is a str
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=None if environment is None else {**os.environ, **environment},
                start_new_session=True,
                pass_fds=passed,
                **_identity(user),
            )
    except OSError as error:
        raise ReplayerError(f"{command[0]} could not be started: {error.strerror}") from error


@contextlib.contextmanager
def printed(
    arguments: Sequence[str | Path], *, environment: Mapping[str, str], timeout: float
) -> Iterator[IO[str]]:
    """Run a program and give what it prints on stdout, while it runs.

    It is ended at the end of the `with`.  Raises ReplayerError as `run` does, then, not before.
    """
    command = [str(argument) for argument in arguments]
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                errors="replace",
                env={**os.environ, **environment},
                start_new_session=True,
            )
        except OSError as error:
            raise ReplayerError(f"{command[0]} could not be started: {error.strerror}") from error
        late = threading.Timer(timeout, process.kill)
        late.start()
        try:
            with process:
                try:
                    assert process.stdout is not None, "it is a pipe"
                    yield process.stdout
                    process.wait()
                finally:
                    process.kill()
        finally:
            timed_out = not late.is_alive()
            late.cancel()
        if timed_out:
            raise ReplayerError(f"{command[0]} did not end within {timeout:.0f} s")
        if process.returncode:
            errors.seek(0)
            printed_errors = errors.read().decode(errors="replace")
            raise _failure(command, process.returncode, printed_errors)


def ended(process: Conversation, *, within: float) -> bool:
    """Wait so many seconds for its end, and tell whether it came."""
    try:
        process.wait(within)
    except subprocess.TimeoutExpired:
        return False
    return True


def converse(arguments: Sequence[str | Path]) -> Conversation:
    """Start a program that reads what is written to its stdin, in a session of its own."""
    command = [str(argument) for argument in arguments]
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
    except OSError as error:
        raise ReplayerError(f"{command[0]} could not be started: {error.strerror}") from error


def _identity(user: User | None) -> dict[str, Any]:
    if user is None or user.uid == os.geteuid():
        return {}
    return {"user": user.uid, "group": user.gid, "extra_groups": []}


def _failure(command: Sequence[str], status: int, text: str) -> ReplayerError:
    """Return the error of a program that failed: what killed it, or the last that it printed."""
    name = Path(command[0]).name
    if status < 0:
        return ReplayerError(f"{name} was killed by {signals.name_of(-status)}")
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    words = "; ".join(lines[-3:]) or f"it ended with status {status} and printed nothing"
    return ReplayerError(f"{name} failed: {words}")
