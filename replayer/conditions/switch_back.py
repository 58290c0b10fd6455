"""The command that takes back what a user's own switching commands did.

It is run at the end, at Ctrl-C, and by the next command after a kill, as its note in the journal
keeps it.  The note is this user's own, in a folder that no other user can write; its program is
checked once more after a kill, as another user may own it by then.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from replayer import journal, shell, signals, trusted_path
from replayer.errors import Impossible, ReplayerError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from replayer.journal import Note

_KIND = "switch"
NOTES = frozenset({_KIND})
"""Kinds of notes that `recover` handles."""
_TIMEOUT = 600.0


@contextlib.contextmanager
def switched_back(command: str) -> Iterator[None]:
    """Run a command after the `with` block, however it ends; "" is no command.

    Raises Impossible before the block if its program is not there, ReplayerError after it if the
    command fails: then its note stays, and the next command tries again.
    """
    if not command:
        yield
        return
    words = [_program(shlex.split(command)[0]), *shlex.split(command)[1:]]
    with signals.shield():
        note = journal.take(_KIND, command=shlex.join(words), folder=str(Path.cwd()))
    try:
        yield
    finally:
        with signals.shield():
            _run(note)


def recover(note: Note) -> str:
    """Run the command of a note, drop the note, and return a message on that.

    Raises ReplayerError if the command fails, or if another user could have changed its program.
    """
    program = Path(shlex.split(note.text("command"))[0])
    reason = _foreign(program) if os.geteuid() == 0 else ""
    if reason:
        raise ReplayerError(
            f"{note.text('command')!r} was to switch the machine back, and is not run, as "
            f"{reason}: run it by hand, and remove {note.path}"
        )
    _run(note)
    return f"the machine was switched back by {note.text('command')!r}"


def run_command(command: str, folder: Path | None = None) -> None:
    """Run a switching command in a folder; raise ReplayerError if it fails or does not end.

    Children that it leaves behind are not waited for, and what it prints on stdout is not kept.
    """
    words = ["/bin/sh", "-c", 'exec "$@" > /dev/null', "sh", *shlex.split(command)]
    with tempfile.TemporaryDirectory(prefix="replayer-switch-") as scratch:
        errors = Path(scratch) / "errors"
        process = shell.start(words, output=errors, folder=folder)
        try:
            is_over = shell.ended(process, within=_TIMEOUT)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        text = errors.read_text(encoding="utf-8", errors="replace").strip()
    if not is_over:
        raise ReplayerError(f"{command!r} did not end within {_TIMEOUT:.0f} s, and was killed")
    if process.returncode:
        why = f": {text.splitlines()[-1]}" if text else ""
        raise ReplayerError(f"{command!r} failed with status {process.returncode}{why}")


def _run(note: Note) -> None:
    run_command(note.text("command"), Path(note.text("folder")))
    note.drop()


def _program(name: str) -> str:
    """Return the absolute path of a program; raise Impossible if there is none."""
    path = shutil.which(name)
    if path is None:
        raise Impossible(f"there is no program {name} to switch the machine with")
    return str(Path(path).absolute())


def _foreign(program: Path) -> str:
    """Return how another user could have changed a program; "" if none could."""
    try:
        with trusted_path.steady(trusted_path.real(program.parent), "the folder"):
            about = program.stat()
    except (OSError, Impossible) as error:
        return str(error)
    if about.st_uid != 0 or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"{program} can be changed by other users"
    return ""
