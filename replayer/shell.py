"""The only module that starts programs: always from a list of arguments, never by a shell."""

import contextlib
import os
import shutil
import signal
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
"""Python code that asks the kernel to kill its process when the parent is gone (PR_SET_PDEATHSIG),
and then becomes the wanted program by exec."""
_BOUND_WITH_CHILDREN = """
import ctypes, os, signal, subprocess, sys
signal.signal(signal.SIGTERM, lambda *_: os.killpg(0, signal.SIGKILL))
ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    os._exit(1)
status = subprocess.call(sys.argv[2:])
if status < 0:
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
    if -status not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
sys.exit(status)
"""
"""Python code that runs a program as its child, for a program that starts others.  It kills its
whole process group when its parent is gone, except a program that left the group by setsid.  If a
signal ends the program, this code ends itself by the same, without a core (PR_SET_DUMPABLE)."""


class User(NamedTuple):
    """The user that a program runs as; only root can choose another user."""

    name: str
    uid: int
    gid: int


def find(program: str, *folders: Path) -> Path | None:
    """Return a program's path: from the given folders first, then from PATH; None if not found."""
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
    bound: bool = False,
) -> str:
    """Run a program to its end and return its output on stdout.

    The program gets its own session.  So Ctrl-C reaches only replayer, which then stops in order.
    The program reads `stdin` from its current position; the program's `user` needs no right to open
    that file.  `environment` is added to the variables of this process.  `timeout` is in seconds,
    None for no limit.  A `bound` program is killed, together with the programs that it started,
    when the thread that called this function is gone.  Raises ReplayerError, with the last lines of
    stderr, if the program fails, is missing or takes too long.
    """
    command = [str(argument) for argument in arguments]
    bind = [sys.executable, "-I", "-S", "-c", _BOUND_WITH_CHILDREN, str(os.getpid())]
    try:
        with subprocess.Popen(
            [*bind, *command] if bound else command,
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            cwd=folder,
            env=None if environment is None else {**os.environ, **environment},
            start_new_session=True,
            **_identity(user),
        ) as process:
            output, errors = _outputs(process, timeout)
    except OSError as error:
        raise ReplayerError(f"{command[0]} could not be started: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise ReplayerError(f"{command[0]} did not end within {timeout:.0f} s") from error
    if process.returncode:
        raise _failure(command, process.returncode, errors or output)
    return output


def _outputs(process: subprocess.Popen[str], timeout: float | None) -> tuple[str, str]:
    """Return a program's output on stdout and on stderr, after it has ended.

    On a timeout, or another error, the program is killed, with the programs that it started.
    """
    try:
        return process.communicate(timeout=timeout)
    except BaseException:
        # A child of it, such as the `sleep` of a script, holds the pipes open as well.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        raise


def start(
    arguments: Sequence[str | Path],
    *,
    user: User | None = None,
    environment: Mapping[str, str] | None = None,
    output: Path | int | None = None,
    folder: Path | None = None,
    passed: Sequence[int] = (),
    bound: bool = False,
) -> Conversation:
    """Start a program that runs in parallel with replayer, in its own session; return it.

    Its stdout and stderr are appended to the file `output`, a path or a descriptor; None discards
    them.  `environment` is added to the variables of this process.  The program inherits only the
    descriptors in `passed`.  A `bound` program must be named by its path; the kernel kills it when
    the thread that started it is gone.  Raises ReplayerError if it cannot be started.
    """
    command = [str(argument) for argument in arguments]
    if bound:
        command = [sys.executable, "-I", "-S", "-c", _BOUND, str(os.getpid()), *command]
    try:
        sink = os.devnull if output is None else output
        with open(sink, "ab", closefd=not isinstance(sink, int)) as file:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
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
def running(
    arguments: Sequence[str | Path],
    *,
    output: Path | int,
    folder: Path | None = None,
    bound: bool = False,
    patience: float,
) -> Iterator[Conversation]:
    """Run a program in parallel with the `with` block; end it with the block if it still runs.

    Its stdout and stderr are appended to `output`, a path or a descriptor.  The kernel kills a
    `bound` program when the thread that started it is gone.  At the end of the block the program
    gets SIGTERM, and SIGKILL if it has not ended `patience` seconds later.  A signal that reaches
    replayer while the program starts does not leave it running.
    """
    process = None
    try:
        with signals.shield():
            process = start(arguments, output=output, folder=folder, bound=bound)
        yield process
    finally:
        if process is not None and process.poll() is None:
            with signals.shield():
                process.terminate()
                if not wait_until_ended(process, within=patience):
                    process.kill()
                    process.wait()


@contextlib.contextmanager
def printed(
    arguments: Sequence[str | Path], *, environment: Mapping[str, str], timeout: float
) -> Iterator[IO[str]]:
    """Run a program and yield its stdout as a text file, while the program runs.

    The end of the `with` block waits for the end of the program; an exception in the block kills
    it.  It is also killed `timeout` seconds after its start.  `environment` is added to the
    variables of this process.  Raises ReplayerError if the program cannot be started, and, at the
    end of the block, if it failed or was killed for the time.
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


def wait_until_ended(process: Conversation, *, within: float) -> bool:
    """Wait up to `within` seconds for the end of a program; return whether it has ended."""
    try:
        process.wait(within)
    except subprocess.TimeoutExpired:
        return False
    return True


def converse(arguments: Sequence[str | Path]) -> Conversation:
    """Start a program in its own session, with pipes to its stdin, stdout and stderr.

    Raises ReplayerError if it cannot be started.
    """
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
    """Return the error of a failed program: the signal that killed it, or its last lines."""
    name = Path(command[0]).name
    if status < 0:
        return ReplayerError(f"{name} was killed by {signals.name_of(-status)}")
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    words = "; ".join(lines[-3:]) or f"it ended with status {status} and printed nothing"
    return ReplayerError(f"{name} failed: {words}")
