"""The work after each boot of a plan: judge the boot, do its run, start the next kernel."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from replayer import journal, shell, signals, trusted_path
from replayer.analysis.differences import boot_plan
from replayer.boots import loaders, sequence, state, systemd_unit, teardown, turns
from replayer.boots.kernels import KernelEntry
from replayer.boots.sequence import BootObservation
from replayer.boots.turns import Stop
from replayer.errors import Impossible, NotFound, ReplayerError
from replayer.machine.free_space import free_bytes
from replayer.units import show_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from replayer.boots.loaders import BootLoader
    from replayer.boots.state import Attempt, BootsState
    from replayer.boots.system import System
    from replayer.trusted_path import Folder

MOUNT_SECONDS = 600.0
LEAST_BYTES = 64 << 20
"""Free bytes wanted on each disk of the plan: a run is some MiB, system logs need the rest."""
_SETTLE_SECONDS = 300.0
_END_SECONDS = 90.0
_POLL_SECONDS = 1.0
_ERROR = "replayer: error: "
_NEXT_SECONDS = 1200.0
"""The most seconds for a job to name the next kernel; an emulated machine is slow."""


def run_service(system: System) -> None:
    """Do what is due in this boot of the started plan of boots, then restart or end the plan.

    If no plan was started, or if it has ended already, the service is removed. Raises Busy if
    another replayer works on the plan, and ReplayerError if replayer's own folder is not there yet.
    If the plan's state cannot be trusted, removes the service and raises Impossible.
    """
    if not journal.place().is_dir():
        # Its disk may be mounted later: the service is tried again after a failure.
        raise ReplayerError(
            f"replayer's own folder {journal.place()} is not there yet: mount its disk, or end the "
            f"plan with `replayer boots stop`"
        )
    try:
        with state.opened() as inner:
            with state.locked(inner):
                current = state.load(inner)
                if current.phase == "running":
                    current = _gone_on(system, inner, current)
                else:
                    systemd_unit.remove(system)
                    return
            if current.phase == "running":
                current = restart(system, inner, current)
                if current.phase == "running":
                    return
            # The lock is released here: the user's command for the end may start the next plan.
            teardown.then(system, inner, current)
            if teardown.restarts(system, current):
                state.say(inner, "the machine restarts into its default")
                system.call(*plain(system))
    except NotFound:
        systemd_unit.remove(system)
    except state.Busy:
        raise
    except Impossible:
        # A state that is not trusted is not followed: the machine keeps its running kernel.
        systemd_unit.remove(system)
        raise


def _gone_on(system: System, inner: Folder, current: BootsState) -> BootsState:
    """Do the work that is due in this boot, and choose the next kernel; return the new state.

    The state may also be that of a plan that has ended. After an error the plan stops: the machine
    does not restart if the state cannot be saved first.
    """
    try:
        say = functools.partial(state.say, inner)
        seen = _seen(system, current)
        current = turns.judge(_ThisMachine(system, inner), current, seen, say)
        return chosen(system, inner, current)
    except ReplayerError as error:
        return teardown.end(system, inner, state.load(inner), "stopped", str(error))
    except OSError as error:
        reason = f"replayer's own folder cannot be written: {error.strerror}"
        return teardown.end(system, inner, current, "stopped", reason)


def _seen(system: System, current: BootsState) -> BootObservation:
    way = loaders.load(current.way)
    missing = _unmounted(system, current)
    if not missing:
        check_owner(Path(current.plan), Path(current.folder))
    finished = frozenset() if missing else frozenset(_finished(current))
    return BootObservation(
        boot=system.boot,
        release=system.release,
        came=booted_as_chosen(system, way, current.last.release if current.last else ""),
        untaken=bool(way.pending(system)),
        finished=finished,
        default=current.began_as,
        missing=missing,
        now=state.now(),
        lacking=missing_words(system, current.last.kernel if current.last else ""),
    )


def missing_words(system: System, kernel: str) -> tuple[str, ...]:
    """Return the words of the plan's `kernel` that are not on the command line of this boot.

    A kernel of a plan is a release, which such words may follow. They are meant for the command
    line.
    """
    words = boot_plan.target_of(kernel).words if kernel else ()
    return tuple(word for word in words if word not in system.arguments)


def booted_as_chosen(system: System, way: BootLoader, release: str) -> bool | None:
    """Return whether this boot followed the choice of the kernel `release`; None if unknown."""
    with contextlib.suppress(ReplayerError):
        entries = [entry for entry in way.entries(system) if entry.release == release]
        return way.booted_as_chosen(system, (entries or [KernelEntry(release, "")])[0])
    return None


def _unmounted(system: System, current: BootsState) -> str:
    """Wait until the plan's disks are mounted; return a sentence on what is missing, or ""."""
    deadline = time.monotonic() + MOUNT_SECONDS
    while True:
        points = {mount.point for mount in system.host.mounts()}
        missing = [point for point in current.mounts if point not in points]
        if not missing:
            break
        if time.monotonic() > deadline:
            return f"{' and '.join(missing)} was not mounted within {MOUNT_SECONDS:.0f} s"
        time.sleep(_POLL_SECONDS)
    return "" if Path(current.plan).is_file() else f"the plan {current.plan} is not there"


def check_owner(plan: Path, folder: Path) -> None:
    """Raise Impossible if another user can change a plan file, or swap it or the working folder.

    As long as the plan runs, both decide what root does.
    """
    try:
        with trusted_path.steady(plan.parent, "the plan's folder") as above:
            mode = above.mode(plan.name)
            if stat.S_ISREG(mode):
                above.read(plan.name)
    except OSError as error:
        raise Impossible(f"the plan {plan} is not root's own: {error.strerror}") from error
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise Impossible(f"the plan {plan} can be written by others: chmod go-w {plan}")
    try:
        trusted_path.own(folder, "the plan's working folder").close()
    except OSError as error:
        words = f"the plan's working folder {folder} cannot be used: {error.strerror}"
        raise Impossible(words) from error


def _finished(current: BootsState) -> Iterable[str]:
    runs = boot_plan.finished(current.schedule, boot_plan.runs(Path(current.plan)))
    return (str(run.host.get("boot.id")) for run in runs)


def digest(plan: Path) -> str:
    """Return the SHA-256 of a plan file, by which a change is noticed."""
    return hashlib.sha256(plan.read_bytes()).hexdigest()


@dataclass(frozen=True)
class _ThisMachine:
    """The machine on which this process runs, with the methods of `BootedMachine`.

    `inner` is the open folder of the plan's state.
    """

    system: System
    inner: Folder
    title: str = ""

    def save(self, current: BootsState) -> BootsState:
        """Save the plan's state for the process that the next boot starts, and return it."""
        return state.save(self.inner, current)

    def find_due(self, current: BootsState) -> tuple[int, str, str] | None:
        """Return the next turn (one boot of the plan), or None after the last.

        It is a tuple: number of the turn, kernel as the plan names it, installed release. If the
        plan has a job, the job names the kernel. Raises Stop if the plan does not have that kernel.
        """
        done = _done(current)
        if not current.schedule.job:
            return sequence.due(current, done)
        kernel = named_next(current.command, Path(current.plan), Path(current.folder))
        if kernel and kernel not in current.kernels:
            raise Stop(f"the plan's job asks for {kernel}, which is not a kernel of the plan")
        return (done + 1, kernel, current.kernels[kernel]) if kernel else None

    def list_finished(self, current: BootsState) -> frozenset[str]:
        """Return the ids of the boots that have a finished run."""
        return frozenset(_finished(current))

    def choose(self, current: BootsState, attempt: Attempt, arguments: str) -> None:
        """Choose the attempt's kernel for the next boot; raise Stop if that is not possible."""
        try:
            choose(self.system, loaders.load(current.way), attempt.release, arguments)
        except ReplayerError as error:
            raise Stop(
                f"{attempt.release} could not be chosen for the next boot: {error}"
            ) from error

    def do_step(self, current: BootsState) -> str:
        """Do the run that is due in this boot; return why it failed, "" if it did not.

        Raises Stop if the plan file was changed or cannot be read, or if a disk is full.
        """
        try:
            if digest(Path(current.plan)) != current.digest:
                raise Stop(f"the plan {current.plan} was changed after it was started")
        except OSError as error:
            raise Stop(f"the plan {current.plan} cannot be read: {error.strerror}") from error
        _spacious(self.inner, current)
        settle(self.system)
        assert current.last is not None
        words = (*current.command, "step", current.plan)
        reason = run_command(self.inner, current.last.turn, words, Path(current.folder))
        if reason or self.system.boot not in self.list_finished(current):
            _spacious(self.inner, current)
        return reason


def settle(system: System) -> None:
    """Wait at most 300 s until systemd has started all services: they disturb a measurement."""
    if system.systemd:
        # The command fails if one service failed, but such a machine has settled too.
        with contextlib.suppress(ReplayerError):
            system.call("systemctl", "is-system-running", "--wait", timeout=_SETTLE_SECONDS)


def run_command(
    inner: Folder,
    turn: int,
    command: Sequence[str | Path],
    folder: Path,
    *,
    left: Callable[[], bool] = lambda: False,
) -> str:
    """Run `command`, which makes this boot's run, to its end; return why it failed, or "".

    When `left()` returns True, the command is asked once to end, and is killed 90 s later if it
    still runs. `turn` is the number of the boot in the plan. The command's output is kept in the
    folder `inner`; `folder` is its working folder.
    """
    output = inner.path / f"turn-{turn}.txt"
    inner.forget(output.name)
    with shell.running(command, output=output, folder=folder, patience=_END_SECONDS) as process:
        while not shell.wait_until_ended(process, within=_POLL_SECONDS) and not left():
            pass
    if not process.returncode:
        return ""
    text = output.read_text(encoding="utf-8", errors="replace").strip()
    if process.returncode < 0:
        return f"the step was killed by {signals.name_of(-process.returncode)}"
    # Its other output may come after its error, as that is written at once.
    lines = text.splitlines() or ["it printed nothing"]
    errors = [line for line in lines if line.startswith(_ERROR)]
    last = (errors or lines)[-1].removeprefix(_ERROR)
    return f"the step failed with status {process.returncode}: {last}"


def _spacious(inner: Folder, current: BootsState) -> None:
    """Raise Stop if the disk of the plan's state or of its runs has too little free space."""
    runs = boot_plan.folder(Path(current.plan))
    for folder in (inner.path, runs if runs.is_dir() else runs.parent):
        free = free_bytes(folder)
        if free < LEAST_BYTES:
            raise Stop(
                f"the disk of {folder} is full: {show_size(free)} are free, and "
                f"{show_size(LEAST_BYTES)} are wanted for one boot"
            )


def chosen(system: System, inner: Folder, current: BootsState) -> BootsState:
    """Choose the plan's next kernel for one boot and save that; end the plan after its last boot.

    `inner` is the folder of the state. Returns the new state. Raises Stop if the plan has
    failed too often, or if the kernel cannot be chosen.
    """
    say = functools.partial(state.say, inner)
    after = turns.choose_next(_ThisMachine(system, inner), current, system.boot, say)
    return after or teardown.end(system, inner, current, "done")


def named_next(command: Sequence[str], plan: Path, folder: Path) -> str:
    """Return the kernel that a plan's job needs next, "" if the job is over.

    A job is a command, such as `replayer bisect`, that names each next kernel itself. Raises
    ReplayerError, with the job's own message, if the job fails.
    """
    said = shell.run((*command, "step", plan, "--next"), folder=folder, timeout=_NEXT_SECONDS)
    lines = [line for line in said.splitlines() if line.startswith(boot_plan.NEXT)]
    return lines[-1].removeprefix(boot_plan.NEXT) if lines else ""


def _done(current: BootsState) -> int:
    """Return how many turns (boots of the plan) are done: those with a finished run.

    If the plan's file is not there, the number follows from the newest attempt.
    """
    last = current.last
    with contextlib.suppress(ReplayerError, OSError):
        if Path(current.plan).is_file():
            return len(list(_finished(current)))
    return 0 if last is None else last.turn - (last.outcome != "done")


def choose(system: System, way: BootLoader, release: str, arguments: str) -> None:
    """Choose the kernel `release` for the next boot only, by the boot loader `way`.

    `arguments` is the kernel's command line. Raises ReplayerError if the kernel is not installed,
    if the boot loader does not show the choice, or if the choice changed the default.
    """
    entries = [entry for entry in way.entries(system) if entry.release == release]
    if not entries:
        raise ReplayerError("it is not installed any more")
    default = way.default(system)
    way.choose(system, entries[0], arguments)
    if not way.pending(system):
        raise ReplayerError(f"{way.TITLE} took the choice and does not show it")
    if way.default(system) != default:
        way.clear(system)
        raise ReplayerError(f"{way.TITLE} changed the default from {default}")


def restart(system: System, inner: Folder, current: BootsState) -> BootsState:
    """Restart the machine into the chosen kernel; if that fails, end the plan as `stopped`.

    Returns the new state. After such an end the user's command for it is still to be run.
    """
    try:
        way = loaders.load(current.way)
        system.call(*(way.RESTART if system.systemd else plain(system)))
    except ReplayerError as error:
        words = f"the machine could not be restarted: {error}"
        with state.locked(inner):
            return teardown.end(system, inner, current, "stopped", words)
    return current


def plain(system: System) -> tuple[str, ...]:
    """Return the command for a normal restart, after which the machine runs its default kernel."""
    return ("systemctl", "reboot") if system.systemd else ("shutdown", "-r", "now")
