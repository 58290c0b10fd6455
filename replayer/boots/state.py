"""The state of a started plan: one file in a folder that only its owner can write.

It is written before every restart, so that replayer knows after the boot which kernel was due.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from pydantic import ValidationError

from replayer import journal, trusted_path
from replayer.analysis.differences.boot_plan import BootSchedule  # noqa: TC001 - pydantic reads the annotation
from replayer.errors import Impossible, NotFound
from replayer.model import Noun

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FORMAT = 1
DRIVEN = "driven-"
"""Begins the name of the folder of a plan that another machine drives, in that of started plans."""
LOG = "log"
_STATE, _LOCK = "state.json", "lock"
_OWNER_ONLY = 0o600

Outcome = Literal["asked", "working", "done", "failed", "wrong", "cut"]


class Busy(Impossible):
    """The error that is raised if another replayer works on the started plan of boots."""


class Attempt(Noun):
    """One boot: the kernel that was asked for, the kernel that came up, and the outcome.

    `turn` is the number of the boot in the plan, from 1. `asked` and `ended` are times as `now`
    returns them. `reason` is why the boot failed, "" if it did not. Strings are "" until known.
    """

    turn: int
    kernel: str
    """The kernel as the plan names it."""
    release: str
    """The kernel as the machine names it."""
    asked: str
    chosen_in: str
    """The id of the boot that ran when this kernel was chosen for the next one."""
    outcome: Outcome = "asked"
    boot: str = ""
    came: str = ""
    """The release that came up."""
    ended: str = ""
    reason: str = ""


class BootsState(Noun):
    """The state of a plan that was started, with all of its boots.

    `way` is the name of the boot loader, `then` the user's command for the end of the plan.
    """

    format: int = FORMAT
    plan: str
    digest: str
    """SHA-256 of the plan file."""
    schedule: BootSchedule
    folder: str
    """The working folder at the start: the plan's arguments may name files below it."""
    way: str
    kernels: dict[str, str]
    """The plan's kernel -> the installed release."""
    arguments: dict[str, str]
    """Release -> the kernel's command line in the boot loader when the plan was started."""
    default: str
    mounts: tuple[str, ...]
    """Mount points of the disks that the plan needs."""
    command: tuple[str, ...]
    """The words of the command that starts replayer."""
    started: str
    began_as: str
    """The release that ran at the start."""
    then: str = ""
    phase: Literal["running", "done", "stopped"] = "running"
    reason: str = ""
    attempts: tuple[Attempt, ...] = ()

    @property
    def last(self) -> Attempt | None:
        """Return the newest boot, None before the first."""
        return self.attempts[-1] if self.attempts else None

    def failures(self) -> int:
        """Return how many boots of the plan failed, were cut short, or started a wrong kernel."""
        return sum(one.outcome in {"failed", "wrong", "cut"} for one in self.attempts)


def now() -> str:
    """Return the current time as the state holds it: ISO 8601, UTC, whole seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def folder() -> Path:
    """Return the folder of started plans, which need not exist."""
    return journal.home() / "boots"


@contextlib.contextmanager
def opened(*, make: bool = False) -> Iterator[trusted_path.Folder]:
    """Open the folder of started plans during the `with` block; `make` makes it if it is missing.

    Raises NotFound if there is none, and Impossible if another user can write in it.
    """
    with trusted_path.own(journal.home(), "replayer's own folder") as home:
        if make:
            with contextlib.suppress(FileExistsError):
                home.make(folder().name, 0o700)
    try:
        inner = trusted_path.own(folder(), "the folder of started plans")
    except FileNotFoundError as error:
        raise NotFound("no plan of boots was started on this machine") from error
    except OSError as error:
        raise Impossible(f"{folder()} cannot be used: {error.strerror}") from error
    with inner:
        yield inner


@contextlib.contextmanager
def locked(inner: trusted_path.Folder) -> Iterator[None]:
    """Hold the lock on the plan's state in the `with` block.

    Raises Busy if another replayer holds it.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(_LOCK, flags, _OWNER_ONLY, dir_fd=inner.fd)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise Busy(f"another replayer{_who(inner)} works on the started plan") from error
        os.ftruncate(fd, 0)
        os.write(fd, journal.identity(os.getpid()).encode())
        try:
            yield
        finally:
            # Emptied, so that the name of this process is gone: it lives on after an error, and
            # `replayer boots stop` must not stop it.
            os.ftruncate(fd, 0)
    finally:
        os.close(fd)


def hold(driven: trusted_path.Folder) -> None:
    """Lock the folder of a driven plan until it is closed: its step runs in this boot."""
    fcntl.flock(driven.fd, fcntl.LOCK_EX)


def measuring(inner: trusted_path.Folder, *, but: str = "") -> bool:
    """Return whether the step of a driven plan runs now, except of the one with the folder `but`.

    `inner` is the folder of started plans.
    """
    for name in inner.names():
        if name.startswith(DRIVEN) and name != but:
            with inner.below(name) as driven:
                try:
                    fcntl.flock(driven.fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return True
    return False


def holder(inner: trusted_path.Folder) -> int:
    """Return the id of the process that holds the lock on the state, 0 if none does."""
    with contextlib.suppress(OSError, ValueError):
        owner = inner.read(_LOCK)
        return journal.pid_of(owner) if journal.alive(owner) else 0
    return 0


def _who(inner: trusted_path.Folder) -> str:
    pid = holder(inner)
    return f" (process {pid})" if pid else ""


def load(inner: trusted_path.Folder) -> BootsState:
    """Return the state that `save` wrote into the folder `inner`.

    Raises NotFound if there is none, Impossible if it is damaged or belongs to another user.
    """
    path = inner.path / _STATE
    try:
        state = BootsState.model_validate_json(inner.read(_STATE))
    except FileNotFoundError as error:
        raise NotFound("no plan of boots was started on this machine") from error
    except ValidationError as error:
        raise Impossible(f"{path} is damaged{_STOP}") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise Impossible(f"{path} is not believed ({reason}){_STOP}") from error
    if state.format > FORMAT:
        raise Impossible(f"{path} is of a newer replayer{_STOP}")
    return state


_STOP = ": `replayer boots stop` takes back what a plan took"


def save(inner: trusted_path.Folder, state: BootsState) -> BootsState:
    """Write the state to its file in the folder `inner`, completely or not at all; return it.

    The file is on the disk when the function returns.
    """
    inner.replace(_STATE, state.model_dump_json(indent=1) + "\n", _OWNER_ONLY)
    os.fsync(inner.fd)
    return state


def say(inner: trusted_path.Folder, words: str) -> None:
    """Append the time and `words` as a line to the plan's log; print it for the system's log."""
    line = f"{now()} {words}"
    print(line, flush=True)  # noqa: T201 - a unit's output
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    # The plan goes on if the disk is full and the log cannot grow: the line is printed.
    with contextlib.suppress(OSError):
        fd = os.open(LOG, flags, _OWNER_ONLY, dir_fd=inner.fd)
        with os.fdopen(fd, "a", encoding="utf-8") as file:
            file.write(f"{line}\n")


def log(inner: trusted_path.Folder) -> str:
    """Return the text of the log of the plan, "" if there is none."""
    with contextlib.suppress(OSError, ValueError):
        return inner.read(LOG)
    return ""


def begin_log(inner: trusted_path.Folder) -> None:
    """Remove the log of an earlier plan, and the output files of its runs."""
    for name in inner.names():
        if name == LOG or name.startswith("turn-"):
            inner.forget(name)
