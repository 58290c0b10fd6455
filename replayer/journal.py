"""The journal: notes of everything that replayer takes from a machine, so that a kill loses none.

Replayer takes a server, a cgroup or reserved huge pages.  Before that, `take` writes a note into
`<home>/taken/`.  After giving it back, `Note.drop` removes the note.  A note whose owner is no
longer alive is a leftover: the module that knows its kind gives the thing back.

A note is trusted only if this user wrote it, in a folder that no other user can write.  A path in
it is trusted only if its form and name are such as replayer makes.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replayer import signals, trusted_path
from replayer.errors import Impossible, ReplayerError

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Iterator, Mapping

_OURS = ".made-by-replayer"
_HOME = "replayer's own folder"
_LASTING = "lasting"


class Untrusted(ReplayerError):
    """A note with content that replayer never writes: nothing is removed because of it."""

    def __init__(self, note: Note, reason: str) -> None:
        super().__init__(f"the note {note.path} is not believed ({reason}), and nothing was done")


@dataclass(frozen=True, slots=True)
class Note:
    """One thing that replayer took from the machine, such as a cgroup, a setting or a server.

    The note has its kind, the details with which it is given back, and the process that took it.
    `path` is the note's file.  `owner` is the process as `BOOT_ID:PID:START_TIME`, or the mark
    "lasting" if the thing stays taken after its process ends.
    """

    path: Path
    kind: str
    details: Mapping[str, Any]
    owner: str
    space: str = ""
    """The process id namespace of the owner, as the kernel names it; "" if it is not known."""

    @property
    def lasting(self) -> bool:
        """Return whether the thing stays taken after its process ends, such as across a reboot."""
        return self.owner == _LASTING

    @property
    def abandoned(self) -> bool:
        """Return whether the process that took the thing is gone; False for a lasting note."""
        return not self.lasting and not alive(self.owner) and not self.held_elsewhere

    @property
    def of_earlier_boot(self) -> bool:
        """Return whether the machine was booted since the note; False for a lasting note."""
        return not self.lasting and not _of_this_boot(self.owner)

    @property
    def held_elsewhere(self) -> bool:
        """Return whether a process of another pid namespace took the thing, and still runs.

        Such a process, for example in another container with the same folder of notes, cannot be
        seen from here, but it holds a lock on the note's file. In this namespace the lock proves
        nothing: a child of a killed process holds it until its exec.
        """
        elsewhere = _of_this_boot(self.owner) and self.space != namespace()
        return elsewhere and _is_locked(self.path)

    def drop(self) -> None:
        """Remove the note's file and its lock; call this after the thing was given back."""
        self.path.unlink(missing_ok=True)
        if (held := _locked.pop(self.path, None)) is not None:
            os.close(held)

    def text(self, name: str) -> str:
        """Return the detail called `name`; raise Untrusted if it is missing or not text."""
        value = self.details.get(name)
        if not isinstance(value, str):
            raise Untrusted(self, f"its {name} is not text")
        return value

    def number(self, name: str) -> int:
        """Return the detail called `name`; raise Untrusted if it is not an int of 0 or more."""
        value = self.details.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise Untrusted(self, f"its {name} is not a count")
        return value

    def path_of(self, name: str, pattern: re.Pattern[str]) -> Path:
        """Return the detail called `name` as an absolute path, without a link in it.

        The path's last name must match `pattern`: a name that replayer makes.  Raises Untrusted for
        any other path.
        """
        path = Path(self.text(name))
        try:
            straight = path.is_absolute() and os.path.realpath(path.parent) == str(path.parent)
        except (OSError, ValueError):
            straight = False
        if not straight or not pattern.fullmatch(path.name) or path.is_symlink():
            raise Untrusted(self, f"its {name} {str(path)[:200]!r} is none that replayer makes")
        return path


def home() -> Path:
    """Return the folder for replayer's data, such as /var/lib/replayer; make it if missing.

    Raises Impossible if it cannot be made, or if another user could write in it.
    """
    folder = place()
    try:
        if not folder.is_dir():
            _make(folder)
        # It holds notes, copied programs and data, and replayer trusts all of them.
        trusted_path.own(folder, _HOME).close()
    except OSError as error:
        raise _unusable(folder, error.strerror, error.errno) from error
    return folder


def check_home() -> None:
    """Raise Impossible if replayer's folder cannot be used or made; unlike `home`, make nothing."""
    folder = there = place()
    while not os.path.lexists(there):
        there = there.parent
    if reason := trusted_path.refusal(there):
        raise _unusable(folder, reason)
    if there == folder:
        try:
            trusted_path.own(folder, _HOME).close()
        except OSError as error:
            raise _unusable(folder, error.strerror, error.errno) from error


def _unusable(folder: Path, reason: str | None, number: int | None = None) -> Impossible:
    """Return the error that the folder cannot be used; `number` is that of the system's error."""
    todo = "set REPLAYER_HOME to a folder that you may write"
    if number == errno.EMFILE:
        todo = "allow this process more open files with `ulimit -n`"
    elif number == errno.ENFILE:
        todo = "allow this machine more open files with `sysctl fs.file-max`"
    elif number in {errno.ENOSPC, errno.EDQUOT}:
        todo = "free some space, or set REPLAYER_HOME to a folder on another disk"
    cannot = "used" if os.path.lexists(folder) else "made"
    return Impossible(f"replayer's own folder {folder} cannot be {cannot} ({reason}); {todo}")


def place() -> Path:
    """Return the path of the folder for replayer's data, which need not exist yet.

    It is $REPLAYER_HOME if that is set.  For root it is /var/lib/replayer, because a server's
    unprivileged user must be able to reach it.  Else it is $XDG_DATA_HOME/replayer or
    ~/.local/share/replayer.
    """
    chosen = os.environ.get("REPLAYER_HOME")
    if chosen:
        return Path(chosen).absolute()
    return Path("/var/lib/replayer") if os.geteuid() == 0 else _shared() / "replayer"


def _make(folder: Path) -> None:
    for missing in (path for path in reversed(folder.parents) if not path.is_dir()):
        with trusted_path.steady(missing.parent, "the folder") as above:
            os.mkdir(missing.name, dir_fd=above.fd)
    with trusted_path.steady(folder.parent, "the folder") as parent:
        # A server's unprivileged user must be able to reach it, whatever the umask is.
        with contextlib.suppress(FileExistsError):
            parent.make(folder.name, 0o755)
        with parent.below(folder.name) as made, contextlib.suppress(FileExistsError):
            os.close(made.create(_OURS))


def _shared() -> Path:
    """Return the folder in which this user's programs keep their data.

    It is $XDG_DATA_HOME or ~/.local/share.  Raises Impossible if the user has no home folder.
    """
    try:
        return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    except RuntimeError as error:
        raise Impossible(
            "this user has no home folder: set REPLAYER_HOME to a folder that you may write"
        ) from error


def leave() -> None:
    """Remove the folder for replayer's data, if replayer made it and it has only empty folders."""
    folder = home()
    for part in ("taken", "data", "programs", "elsewhere"):
        with contextlib.suppress(OSError):
            (folder / part).rmdir()
    if [path.name for path in folder.iterdir()] == [_OURS]:
        (folder / _OURS).unlink()
        folder.rmdir()


def take(kind: str, *, lasting: bool = False, **details: Any) -> Note:
    """Write a note that this process is about to take something; the note is on disk on return.

    `kind` names what is taken, such as "cgroup", and `details` are what giving it back needs.  If
    this process is killed, a later one reads the note and gives the thing back.

    A lasting note does not become a leftover when its process ends: only the code that took the
    thing gives it back.

    Call this inside `signals.shield`, and store the note before you leave the shield: a signal in
    between would lose it.  `held` does both.  Raises Impossible if the note cannot be written.
    """
    path = home() / "taken" / f"{kind}-{uuid.uuid4().hex[:12]}.json"
    owner = _LASTING if lasting else identity(os.getpid())
    try:
        with (
            contextlib.suppress(FileExistsError),
            trusted_path.own(path.parent.parent, _HOME) as folder,
        ):
            folder.make(path.parent.name, 0o755)
        with trusted_path.own(path.parent, _HOME) as taken:
            fields = {"kind": kind, "owner": owner, "space": namespace(), "details": details}
            note = json.dumps(fields)
            taken.replace(path.name, note, draft=path.with_suffix(".new").name)
            if not lasting:
                _lock(taken, path)
    except OSError as error:
        raise Impossible(f"{path.parent} cannot be written: {error.strerror}") from error
    return Note(path, kind, details, owner, namespace())


_locked: dict[Path, int] = {}
"""Path of each note of this process -> the descriptor that locks it until the process ends."""


def _lock(taken: trusted_path.Folder, path: Path) -> None:
    """Lock the file `path` of a note, in the folder `taken`, until the note is dropped.

    The end of this process also unlocks it.  On a file system without locks it stays unlocked.
    """
    fd = os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=taken.fd)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH)
    except OSError:
        os.close(fd)
    else:
        _locked[path] = fd


def _is_locked(path: Path) -> bool:
    """Return whether a process holds the lock of a note."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(fd)
    return False


@contextlib.contextmanager
def held(kind: str, give_back: Callable[[], object], **details: Any) -> Iterator[None]:
    """Note that a thing is taken from the machine for the `with` block; then call `give_back`.

    `kind` and `details` are the content of the note, a file from which a later process gives the
    thing back if this one is killed.  However the block ends, `give_back` is called, and the note
    is then removed.
    """
    note: Note | None = None
    try:
        with signals.shield():
            note = take(kind, **details)
        yield
    finally:
        if note is not None:
            with signals.shield():
                give_back()
                note.drop()


def remove_file(note: Note, path: Path, beginning: bytes, what: str) -> str:
    """Remove a file that a killed replayer left, and its note; return a sentence about that.

    The file must be empty or start with `beginning`.  `what` names the file in the sentence, before
    its path.  Raises Untrusted for any other file, ReplayerError if the file cannot be removed.
    """
    try:
        with trusted_path.Folder(path.parent) as folder:
            if not folder.is_ours(path.name, beginning):
                raise Untrusted(note, f"{str(path)[:200]!r} is not {what}")
            folder.forget(path.name)
        done = "removed"
    except (FileNotFoundError, NotADirectoryError):
        done = "already gone"
    except Impossible as error:
        raise Untrusted(note, str(error)) from error
    except OSError as error:
        raise ReplayerError(
            f"{what} {path} cannot be removed ({error.strerror}): remove it by hand"
        ) from error
    note.drop()
    return f"{what} {path} was {done}"


def notes(*kinds: str) -> Iterator[Note]:
    """Yield the notes on things taken from the machine, by any process; by default of all kinds.

    Files in the notes' folder that are not valid notes are skipped.
    """
    for note, _ in _every():
        if note is not None and (not kinds or note.kind in kinds):
            yield note


def in_order(notes: Iterable[Note]) -> list[Note]:
    """Return notes in the order in which they were written, without those whose file is gone."""
    found: list[tuple[int, Note]] = []
    for note in notes:
        with contextlib.suppress(FileNotFoundError):
            found.append((note.path.stat().st_mtime_ns, note))
    return [note for _, note in sorted(found, key=lambda pair: pair[0])]


def left() -> list[Note]:
    """Return the notes on things whose taker is a process that is gone, the newest first.

    The things are given back in this order, because a later change may depend on an earlier one:
    the length of a disk's queue belongs to the I/O scheduler that was set before.
    """
    return in_order(note for note in notes() if note.abandoned)[::-1]


def unusable() -> Iterator[tuple[Path, str]]:
    """Yield each file in the notes' folder that is not a valid note of this user, and why."""
    yield from ((path, reason) for note, (path, reason) in _every() if note is None)


def forget(path: Path) -> None:
    """Remove a file, such as one that is not a valid note, from the folder of notes."""
    with trusted_path.own(path.parent, _HOME) as taken:
        taken.remove(path.name)


def _every() -> Iterator[tuple[Note | None, tuple[Path, str]]]:
    """Yield a pair for each file in the folder of notes: the note, and a pair of path and reason.

    The reason is "" for a valid note.  For any other file the note is None, and the reason
    describes why the file is not valid.
    """
    folder = home() / "taken"
    try:
        taken = trusted_path.own(folder, _HOME)
    except FileNotFoundError:
        return
    except OSError as error:
        raise Impossible(f"{folder} cannot be read: {error.strerror}") from error
    with taken:
        for name in taken.names():
            if name.endswith(".json"):
                with contextlib.suppress(FileNotFoundError):
                    yield _note(taken, name)


def _note(taken: trusted_path.Folder, name: str) -> tuple[Note | None, tuple[Path, str]]:
    path = taken.path / name
    try:
        text = taken.read(name)
        fields = json.loads(text)
        kind, details, owner = fields["kind"], fields["details"], fields["owner"]
        space = str(fields.get("space", ""))
    except FileNotFoundError:
        raise
    except OSError as error:
        return None, (path, error.strerror or str(error))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None, (path, "it is not in the format of a note")
    if not (isinstance(kind, str) and isinstance(details, dict) and isinstance(owner, str)):
        return None, (path, "it is not in the format of a note")
    return Note(path, kind, details, owner, space), (path, "")


def identity(pid: int) -> str:
    """Return `BOOT_ID:PID:START_TIME`, which identifies a process even after a reboot.

    Returns "" if the process is gone or a zombie.  A killed process whose first thread is a zombie
    still exists as long as it has other threads: they keep its files open, and their locks.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return ""
    gone = fields[0] in "ZX" and int(fields[17]) <= 1
    return "" if gone else f"{boot}:{pid}:{fields[19]}"


def pid_of(owner: str) -> int:
    """Return the process id in an `owner`, `BOOT_ID:PID:START_TIME`; 0 if it is empty."""
    return int(owner.split(":")[1]) if owner else 0


def namespace() -> str:
    """Return the process id namespace of this process, such as `pid:[4026531836]`."""
    return os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - the link's text is not a path


def _of_this_boot(owner: str) -> bool:
    return owner.partition(":")[0] == identity(os.getpid()).partition(":")[0]


def alive(owner: str) -> bool:
    """Return whether the process `owner`, given as `BOOT_ID:PID:START_TIME`, still runs."""
    try:
        return bool(owner) and identity(pid_of(owner)) == owner
    except (IndexError, ValueError):
        return False


def at_work(owner: str) -> bool:
    """Return whether the process `owner` still runs, here or in another container.

    `owner` is `BOOT_ID:PID:START_TIME`.  A process of another process id namespace cannot be seen,
    but it holds the locks of the notes that it has in the same folder for replayer's data.
    """
    if alive(owner):
        return True
    with contextlib.suppress(Impossible):
        return any(note.owner == owner and note.held_elsewhere for note in notes())
    return False
