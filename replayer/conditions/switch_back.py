"""The user's command that switches the machine back after the user's own switching commands.

It is run at the end and at Ctrl-C.  A note in the journal keeps the command, so that the next
command of replayer runs it after a kill.  No other user can write this note.  But after a kill,
and perhaps a boot that emptied /tmp, the program or script that the command runs may belong to
another user.  So if replayer runs as root, it checks the program, the files that the command names
and the command's folder before it runs a command from such a note.  It does not run a command of
which this cannot be checked in full.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from replayer import journal, shell, signals, trusted_path
from replayer.errors import Impossible, ReplayerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from replayer.journal import Note

_KIND = "switch"
NOTES = frozenset({_KIND})
"""Kinds of the journal's notes that `recover` handles."""
_TIMEOUT = 600.0
_OPENS_NO_FOLDER = frozenset({"mount", "umount"})
"""Programs that use no file in the folders that they are given: a database's mount point is its
user's."""
_PLAIN = re.compile(r"[\w@%+=:,./ -]*")
"""A word, or words with spaces between, without a sign that a shell or an interpreter treats."""


_newest: list[str] = []
"""The newest command of --switch that was run; [] before the first one."""


@contextlib.contextmanager
def switched_back(command: str, say: Callable[[str], None]) -> Iterator[None]:
    """Run `command` after the `with` block, however the block ends; do nothing for "".

    Raises Impossible before the block if the command's program does not exist.  Raises
    ReplayerError after the block if the command fails: then its note stays, and the next run of
    replayer tries it again.  If the block itself raised an error, that one is raised, and `say`
    gets the sentence on the command.  So the block should also print the answer.
    """
    _newest.clear()
    if not command:
        yield
        return
    name, *others = _split(command)
    words = [_program(name), *others]
    with signals.shield():
        note = journal.take(_KIND, command=shlex.join(words), folder=str(Path.cwd()))
    try:
        yield
    except BaseException:
        try:
            _run_at_end(note)
        except ReplayerError as error:
            say(str(error))
        raise
    _run_at_end(note)


def _run_at_end(note: Note) -> None:
    """Run the command of a note; raise ReplayerError that the machine is still switched."""
    try:
        with signals.shield():
            _run(note)
    except ReplayerError as error:
        level = f", and is as {_newest[0]!r} left it" if _newest else ""
        raise ReplayerError(
            f"the machine was not switched back{level}: {error}",
            "the next run of replayer, or `replayer clean`, tries it again",
        ) from error


def switch(command: str) -> None:
    """Run a command of --switch; raise ReplayerError as `run_command` does."""
    _newest[:] = [command]
    run_command(command)


def recover(note: Note) -> str:
    """Run the command that a note of the journal has, drop the note, and return a short message.

    Raises ReplayerError if the command fails.  Raises it without running the command if this user
    is root and another user could have changed what the command runs.
    """
    words, folder = shlex.split(note.text("command")), Path(note.text("folder"))
    reason = _changeable(words, folder) if os.geteuid() == 0 else ""
    if reason:
        raise ReplayerError(
            f"{note.text('command')!r} was to switch the machine back, and is not run, as "
            f"{reason}: run it by hand, and remove {note.path}"
        )
    try:
        _run(note)
    except ReplayerError as error:
        # The file that it writes may be gone for good, such as a cgroup's: it can never succeed.
        raise ReplayerError(
            f"{error}; the next run tries it again: if there is nothing to switch back any "
            f"more, remove {note.path}"
        ) from error
    return f"the machine was switched back by {note.text('command')!r}"


def run_command(command: str, folder: Path | None = None) -> None:
    """Run a switching command in a folder; raise ReplayerError if it fails or takes over 600 s.

    Children that the command leaves behind are not waited for, and its output on stdout is not
    kept.  If replayer is killed, the command is killed as well: otherwise it could switch the
    machine after the next replayer has switched it back.
    """
    words = ["/bin/sh", "-c", 'exec "$@" > /dev/null', "sh", *shlex.split(command)]
    # Without a name, so that nothing of it is left after a kill.
    with tempfile.TemporaryFile() as errors:
        process = shell.start(words, output=errors.fileno(), folder=folder, bound=True)
        try:
            is_over = shell.wait_until_ended(process, within=_TIMEOUT)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        errors.seek(0)
        text = errors.read().decode(errors="replace").strip()
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


def _split(command: str) -> list[str]:
    """Return the words of a command; raise Impossible if it has none, or an open quote."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise Impossible(f"--switch-back {command!r} is not a command: {error}") from error
    if not words:
        raise Impossible(f"--switch-back {command!r} is not a command: it has no word")
    return words


def _changeable(words: Sequence[str], folder: Path) -> str:
    """Return how another user could have changed what a command runs; "" if none could.

    A word that can be a program in the language of a shell or of another interpreter counts as
    changeable: the files that it uses cannot be found.
    """
    for word in words:
        if not _PLAIN.fullmatch(word):
            return f"what {word!r} runs cannot be checked"
    return trusted_path.changeable(
        words, folder, opens_folders=Path(words[0]).name not in _OPENS_NO_FOLDER
    )
