"""Give back what an earlier replayer took and could not give back itself, e.g. after a SIGKILL."""

from collections.abc import Callable, Mapping

from replayer import custody, disk, memory, server
from replayer.custody import Note
from replayer.errors import ReplayerError

RECOVER: Mapping[str, Callable[[Note], str]] = {
    "files": disk.recover,
    "server": server.recover,
    "socket": server.recover,
    "cgroup": memory.recover,
    "hugepages": memory.recover,
    "ballast": memory.recover,
}
"""Kind of note -> the function of the module that takes that kind; it returns what it did."""


def give_back(say: Callable[[str], None]) -> None:
    """Give back everything whose owner is gone, and say each thing in one line."""
    for note in list(custody.notes()):
        if note.abandoned and note.kind in RECOVER:
            try:
                say(f"left by an earlier run: {RECOVER[note.kind](note)}")
            except ReplayerError as error:
                say(f"left by an earlier run, still there: {error}")
