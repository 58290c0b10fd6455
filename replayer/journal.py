"""Whatever replayer takes from a machine is written down first, to be given back after a kill.

A server, a cgroup, reserved huge pages: before taking it, `take` writes a note into
`<home>/taken/`; after giving it back, `Note.drop` removes the note.  A note whose owner is no
longer alive is a leftover: the module that knows the kind gives it back.
"""

import contextlib
import json
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from replayer import signals
from replayer.errors import Impossible

_OURS = ".made-by-replayer"


@dataclass(frozen=True, slots=True)
class Note:
    """One thing taken: its kind, what is needed to give it back, and who took it."""

    path: Path
    kind: str
    details: Mapping[str, Any]
    owner: str

    @property
    def abandoned(self) -> bool:
        """Tell whether the process that took it is gone."""
        return not alive(self.owner)

    def drop(self) -> None:
        """Forget it: it was given back."""
        self.path.unlink(missing_ok=True)


def home() -> Path:
    """Return replayer's own folder, made if it is not there.

    It is $REPLAYER_HOME, else /var/lib/replayer for root (a server's unprivileged user must be able
    to reach it), else $XDG_DATA_HOME/replayer or ~/.local/share/replayer.
    """
    chosen = os.environ.get("REPLAYER_HOME")
    if chosen:
        folder = Path(chosen).absolute()
    elif os.geteuid() == 0:
        folder = Path("/var/lib/replayer")
    else:
        shared = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
        folder = Path(shared) / "replayer"
    try:
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            # A server's unprivileged user must be able to reach it, whatever the umask.
            folder.chmod(0o755)
            (folder / _OURS).touch()
    except OSError as error:
        raise Impossible(
            f"replayer's own folder {folder} cannot be made ({error.strerror}); "
            f"set REPLAYER_HOME to a folder that you may write"
        ) from error
    return folder


def leave() -> None:
    """Remove replayer's own folder, if nothing of use is left in it and replayer made it."""
    folder = home()
    for part in ("taken", "data", "programs", "elsewhere"):
        with contextlib.suppress(OSError):
            (folder / part).rmdir()
    if [path.name for path in folder.iterdir()] == [_OURS]:
        (folder / _OURS).unlink()
        folder.rmdir()


def take(kind: str, **details: Any) -> Note:
    """Write down that this process is about to take something; the note is on disk on return.

    Call it inside `signals.shield`, and leave that only with the note where it will be found: a
    signal in between would lose it.  `held` does both.
    """
    folder = home() / "taken"
    path = folder / f"{kind}-{uuid.uuid4().hex[:12]}.json"
    owner = identity(os.getpid())
    try:
        folder.mkdir(exist_ok=True)
        draft = path.with_suffix(".new")
        with draft.open("w", encoding="utf-8") as file:
            json.dump({"kind": kind, "owner": owner, "details": details}, file)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
    except OSError as error:
        raise Impossible(f"{folder} cannot be written: {error.strerror}") from error
    return Note(path, kind, details, owner)


@contextlib.contextmanager
def held(kind: str, give_back: Callable[[], object], **details: Any) -> Iterator[None]:
    """Write down what the `with` block takes; at its end, however it ends, give back and forget."""
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


def notes(*kinds: str) -> Iterator[Note]:
    """Yield everything that is taken now, by this process or another, of these kinds or all."""
    for path in sorted((home() / "taken").glob("*.json")):
        with contextlib.suppress(OSError, ValueError, KeyError):
            read = json.loads(path.read_text(encoding="utf-8"))
            if not kinds or read["kind"] in kinds:
                yield Note(path, read["kind"], read["details"], read["owner"])


def identity(pid: int) -> str:
    """Return what tells a process from every other, also after a reboot: boot id, pid, start time.

    Returns "" for a process that is gone or a zombie.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else f"{boot}:{pid}:{fields[19]}"


def pid_of(owner: str) -> int:
    """Return the process id in an identity, 0 for none."""
    return int(owner.split(":")[1]) if owner else 0


def alive(owner: str) -> bool:
    """Tell whether the process with that identity still runs."""
    try:
        return bool(owner) and identity(pid_of(owner)) == owner
    except (IndexError, ValueError):
        return False
