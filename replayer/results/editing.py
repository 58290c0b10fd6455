"""Changes to stored runs: label, notes, tags, removal.  Only files that replayer wrote, no links.

The process that writes a run owns the run: the run's file names this process.  The folder is locked
while a file is checked and changed, so that two processes cannot take the same run.
"""

import contextlib
import fcntl
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from replayer import journal, trusted_path
from replayer.errors import Impossible, NotFound, ReplayerError
from replayer.model import Run, Status
from replayer.results import store
from replayer.trusted_path import Folder


def written_by(writer: str) -> int:
    """Return the pid of the process that a run's `writer` names; 0 if it does not run here.

    It does not if it has ended, or is one of another machine. The pid of a process in another
    container is the one that it has there.
    """
    return journal.pid_of(writer) if journal.at_work(writer) else 0


def cut(status: str, writer: str) -> bool:
    """Return whether a run was killed before its end, by the `status` and `writer` in its file.

    This is known only of runs of the current boot of this machine; for other runs, return False.
    """
    here = journal.identity(os.getpid()).partition(":")[0]
    return (
        status == Status.RUNNING.value
        and writer.partition(":")[0] == here
        and not journal.at_work(writer)
    )


def change(path: Path, edit: Callable[[Run], Run]) -> Run:
    """Replace a stored run by what `edit` returns for it, in the newest format; return the result.

    Raises NotFound if the file is not there, Impossible if it is not a result file of replayer or
    if a process still writes it.
    """
    with _held(path):
        edited = edit(store.load(path))
        store.save(path, edited)
    return edited


def claim(path: Path) -> Run:
    """Make this process the writer of a stored run; return the run in the newest format.

    While this process lives, others cannot change or remove the run.  Raises NotFound if the file
    is not there, Impossible if replayer did not write it, or if another process still does.
    """
    writer = journal.identity(os.getpid())
    return change(path, lambda run: run.model_copy(update={"writer": writer}))


def check(path: Path) -> None:
    """Raise NotFound if a run's file is not there, Impossible if it must not be changed.

    It must not if replayer did not write it, or if a process still writes it.
    """
    with _held(path):
        pass


def refuse_replacing(path: Path) -> None:
    """Raise Impossible if a file is a stored run, which a report must not replace.

    One that cannot be read counts, too: it is of a newer replayer, or was cut short.
    """
    if path.is_file() and (
        _begins_as_run(path) or isinstance(store.summary(path), store.StoredRun)
    ):
        raise Impossible(f"{path} is a stored run: name another file")


def _begins_as_run(path: Path) -> bool:
    with contextlib.suppress(OSError), path.open("rb") as file:
        return re.match(rb'\s*\{\s*"format":', file.read(64)) is not None
    return False


def remove(path: Path) -> None:
    """Remove the file of a stored run.

    Raises NotFound if it is not there, Impossible if replayer did not write it or if a process
    still writes it, and ReplayerError if the system refuses to remove it.
    """
    with _held(path) as folder:
        try:
            folder.forget(path.name)
        except OSError as error:
            raise ReplayerError(f"{path} cannot be removed: {error.strerror}") from error


@contextlib.contextmanager
def _held(path: Path) -> Iterator[Folder]:
    """Lock the folder of a run's file for the `with` block, and yield that folder.

    Raises NotFound if the file is not there, Impossible if replayer did not write it, or if a
    process still writes it.
    """
    try:
        folder = trusted_path.Folder(path.parent)
    except OSError as error:
        raise Impossible(f"{path}: {error.strerror}") from error
    with folder:
        # Some file systems have no locks.  Two writers at the same instant are rare there, too.
        with contextlib.suppress(OSError):
            fcntl.flock(folder.fd, fcntl.LOCK_EX)
        _refuse(folder, path)
        yield folder


def _refuse(folder: Folder, path: Path) -> None:
    """Raise NotFound or Impossible unless a file is a result of replayer that no process writes."""
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
