"""Give back what an earlier replayer took and could not give back itself, e.g. after a SIGKILL."""

from collections.abc import Callable, Mapping

from replayer import journal
from replayer.conditions import memory_bound
from replayer.errors import ReplayerError
from replayer.journal import Note
from replayer.servers.open import recover as recover_server
from replayer.storage import files

RECOVER: Mapping[str, Callable[[Note], str]] = {
    "files": files.recover,
    "server": recover_server,
    "socket": recover_server,
    "cgroup": memory_bound.recover,
    "hugepages": memory_bound.recover,
    "ballast": memory_bound.recover,
}
"""Kind of note -> the function of the module that takes that kind; it returns what it did."""


def give_back(say: Callable[[str], None]) -> None:
    """Give back everything whose owner is gone, and say each thing in one line."""
    for note in list(journal.notes()):
        if note.abandoned and note.kind in RECOVER:
            try:
                say(f"left by an earlier run: {RECOVER[note.kind](note)}")
            except ReplayerError as error:
                say(f"left by an earlier run, still there: {error}")
