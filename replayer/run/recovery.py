"""Return things to the machine that a killed replayer had taken, such as files and settings."""

import time
from collections.abc import Callable

from replayer import journal
from replayer.conditions import kernel_settings, memory_bound, own_group, switch_back
from replayer.errors import ReplayerError
from replayer.journal import Note
from replayer.machine import processes
from replayer.results import draft
from replayer.run.event_stream import event_file
from replayer.servers import log_settings, socket_folder
from replayer.servers import open as server
from replayer.storage import files
from replayer.watch import active_collectors

_TAKERS = (
    draft,
    event_file,
    files,
    kernel_settings,
    log_settings,
    memory_bound,
    own_group,
    active_collectors,
    server,
    socket_folder,
    switch_back,
)
"""Modules that take something from the machine, and write a note in the journal before that.

Each has NOTES, the kinds of its notes, and `recover(note) -> str`, which gives back what one note
describes and returns what was done.
"""

_UNTIL_REBOOT = kernel_settings.NOTES | memory_bound.NOTES | own_group.NOTES
"""Kinds of the notes on things that the kernel keeps in memory: a reboot gives them back.

After it, the same value or name belongs to another program.
"""

_LONGEST_EXIT = 10.0
"""Seconds for the kernel to end a killed process."""
_PAUSE = 0.01

_CLEAN = "`replayer clean` removes the note"


def await_killed() -> None:
    """Wait until processes that were killed, and have a note in the journal, are gone.

    Their threads may keep files open, and locks, for some milliseconds. One that hangs in the
    kernel, such as in a read from a dead disk, is awaited for some seconds only.
    """
    until = time.monotonic() + _LONGEST_EXIT
    while any(_exits(note.owner) for note in journal.notes()) and time.monotonic() < until:
        time.sleep(_PAUSE)


def _exits(owner: str) -> bool:
    return journal.alive(owner) and processes.ends(journal.pid_of(owner))


def give_back(say: Callable[[str], None]) -> None:
    """Give back to the machine everything that a process took which no longer runs.

    Each thing was noted in the journal before it was taken, and is reported in one line. A note
    that cannot be trusted is only reported.
    """
    await_killed()
    for path, reason in journal.unusable():
        say(f"{path} is not a note of replayer's and was left alone ({reason}); {_CLEAN}")
    for note in journal.left():
        try:
            say(f"left by an earlier run: {_given_back(note)}")
        except journal.Untrusted as error:
            say(f"{error}; {_CLEAN}")
        except ReplayerError as error:
            say(f"left by an earlier run, still there: {error}")


def give_back_note(note: Note) -> str:
    """Give back the thing that a note of the journal describes; return a sentence on what was done.

    A note that cannot be trusted is removed, and the thing is left alone.
    """
    try:
        return _given_back(note)
    except journal.Untrusted as error:
        note.drop()
        return f"{error}; the note was removed"


def _given_back(note: Note) -> str:
    taker = next((module for module in _TAKERS if note.kind in module.NOTES), None)
    if taker is None:
        raise journal.Untrusted(note, f"replayer takes nothing that is called {note.kind[:50]!r}")
    if note.kind in _UNTIL_REBOOT and note.of_earlier_boot:
        note.drop()
        return f"the {note.kind} of an earlier boot ended with a reboot"
    done: str = taker.recover(note)
    return done
