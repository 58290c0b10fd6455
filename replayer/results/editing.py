"""A stored run under another label, with notes, or removed: only what replayer wrote, and no link.

Who writes a run holds it: its process stands in the file, and the folder is locked for as long as
it takes to look who that is.
"""

import contextlib
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from replayer import journal, trusted_path
from replayer.errors import Impossible, NotFound, ReplayerError
from replayer.model import Run, Status
from replayer.results import store
from replayer.trusted_path import Folder


def written_by(writer: str) -> int:
    """Return the process on this machine that writes a run now, by the run's writer; 0 if none."""
    return journal.pid_of(writer) if journal.alive(writer) else 0


def cut(status: str, writer: str) -> bool:
    """Tell whether a run that never ended was killed, as far as this boot of this machine knows."""
    here = journal.identity(os.getpid()).partition(":")[0]
    return (
        status == Status.RUNNING.value
        and writer.partition(":")[0] == here
        and not journal.alive(writer)
    )


def change(path: Path, edit: Callable[[Run], Run]) -> Run:
    """Put what `edit` makes of a stored run in its place, in the newest format, and return it.

    Raises Impossible for a file that is not replayer's own, and while a process writes it.
    """
    with _held(path):
        edited = edit(store.load(path))
        store.save(path, edited)
    return edited


def claim(path: Path) -> Run:
    """Return a stored run that this process goes on writing, which others see from now on.

    Raises Impossible as `change` does.
    """
    writer = journal.identity(os.getpid())
    return change(path, lambda run: run.model_copy(update={"writer": writer}))


def check(path: Path) -> None:
    """Raise Impossible for what `change` and `remove` refuse."""
    with _held(path):
        pass


def remove(path: Path) -> None:
    """Remove a stored run; raises Impossible as `change` does."""
    with _held(path) as folder:
        try:
            folder.forget(path.name)
        except OSError as error:
            raise ReplayerError(f"{path} cannot be removed: {error.strerror}") from error


@contextlib.contextmanager
def _held(path: Path) -> Iterator[Folder]:
    """Keep others from taking a run for as long as the `with` lasts; refuse what is not ours."""
    try:
        folder = trusted_path.Folder(path.parent)
    except OSError as error:
        raise Impossible(f"{path}: {error.strerror}") from error
    with folder:
        # A file system without locks takes one writer at a time all the same, nearly always.
        with contextlib.suppress(OSError):
            fcntl.flock(folder.fd, fcntl.LOCK_EX)
        _refuse(folder, path)
        yield folder


def _refuse(folder: Folder, path: Path) -> None:
    try:
        about = os.stat(path.name, dir_fd=folder.fd, follow_symlinks=False)
    except FileNotFoundError as error:
        raise NotFound(f"the run file {path} is not there") from error
    except (OSError, ValueError) as error:
        raise Impossible(f"{path}: {error}") from error
    kinds = ((stat.S_ISLNK, "a link"), (stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"))
    kind = next((name for is_kind, name in kinds if is_kind(about.st_mode)), "no file")
    if not stat.S_ISREG(about.st_mode):
        raise Impossible(f"{path} is {kind}, and not a result file that replayer wrote: left alone")
    entry = store.summary(path)
    if isinstance(entry, store.Unreadable):
        raise Impossible(f"{path} is left alone: {entry.reason}")
    if path.name != f"{entry.id}.json":
        raise Impossible(
            f"{path} is left alone: replayer would have called the run in it {entry.id}.json"
        )
    if pid := written_by(entry.writer):
        raise Impossible(f"the run {entry.id} is being written by process {pid}: wait for its end")
