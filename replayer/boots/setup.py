"""The start of a plan: check that the machine can do it, describe what will happen, begin."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from replayer import interpreter, signals, trusted_path
from replayer.analysis.differences import boot_plan
from replayer.boots import kernels, loaders, service, state, systemd_unit, teardown
from replayer.boots.state import BootsState
from replayer.errors import Impossible, Interrupted, NotFound, ReplayerError
from replayer.machine import machine_facts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from replayer.analysis.differences.boot_plan import BootSchedule
    from replayer.boots.kernels import KernelEntry
    from replayer.boots.system import System

_PROGRAM = "usr/bin/replayer"


@dataclass(frozen=True)
class Intent:
    """A checked plan that this machine can do by itself, with all that its start needs.

    `way` is the name of the boot loader, `left` the number of boots that are left, and `then` the
    user's command for the end of the plan. Each boot waits until `mounts`, mount points, are there.
    """

    system: System
    plan: Path
    schedule: BootSchedule
    left: int
    way: str
    entries: Mapping[str, KernelEntry]
    """Kernel as the plan names it -> installed entry."""
    mounts: tuple[str, ...]
    then: str

    def lines(self, time: str) -> Iterator[str]:
        """Yield lines that describe to the user what the plan will do.

        `time` is a sentence about the duration.
        """
        way = loaders.load(self.way)
        names = [
            kernel if kernel.startswith(entry.release) else f"{kernel} ({entry.release})"
            for kernel, entry in self.entries.items()
        ]
        yield f"plan      {self.plan}: {self._left()}"
        yield f"kernels   {', '.join(names)}"
        yield f"way       {way.TITLE}, for one boot at a time"
        yield f"default   {way.default(self.system)}: stays as it is"
        yield (
            f"restarts  {self._restarts()}: one before each boot's step, and one at the end into "
            f"the default; a boot that fails costs one more, three of them end the plan"
        )
        yield f"time      {time}"
        yield "service   replayer-boots, removed at the end; `replayer boots stop` ends it before"
        if self.mounts:
            yield f"waits for {', '.join(self.mounts)} to be mounted"
        if self.then:
            yield f"at end    {self.then}"
        yield from (f"remark    {remark}" for remark in self._remarks())

    def _left(self) -> str:
        if self.schedule.job:
            return f"as many boots as its {self.schedule.job[0]} needs"
        return f"{self.left} of {len(self.schedule.order)} boots are left"

    def _restarts(self) -> str:
        return "at least 2" if self.schedule.job else f"{self.left + 1}"

    def _remarks(self) -> Iterator[str]:
        way = loaders.load(self.way)
        for entry in self.entries.values():
            if way.halts_on_panic(self.system, entry):
                yield (
                    f"{entry.release} would stay halted after a panic until it is restarted by "
                    f"hand: give it panic=30 on its command line"
                )


def intent(
    system: System, plan: Path, *, way: str, then: str, folders: Sequence[Path] = ()
) -> Intent:
    """Check the plan of boots in the file `plan`, and return all that its start needs.

    `way` is the name of the boot loader, "" to choose it here. `then` is the user's command for the
    end of the plan. `folders` are named in the plan's arguments: each boot waits until their disks
    are mounted. Raises Impossible if the plan cannot be started on this machine.
    """
    permit(system)
    path = trusted_path.real(plan)
    service.check_owner(path, Path.cwd())
    teardown.check_then(then, Path.cwd())
    schedule = boot_plan.load(path)
    left = _boots_left(system, schedule, path)
    if not left:
        how = f"replayer {shlex.join(schedule.job)}" if schedule.job else f"replayer compare {plan}"
        raise Impossible(f"all boots of the plan are done: `{how}` shows their results")
    words = any(boot_plan.target_of(kernel).words for kernel in schedule.kernels)
    chosen = loaders.chosen(system, way or ("kexec" if words else ""))
    entries = installed(system, schedule, chosen)
    systemd_unit.check(system)
    mounts = {
        mount.point
        for folder in (path, *folders, state.folder(), *_own_folders())
        if (mount := system.host.mount_of(folder)) is not None and mount.point != "/"
    }
    return Intent(system, path, schedule, left, chosen, entries, tuple(sorted(mounts)), then)


def _boots_left(system: System, schedule: BootSchedule, path: Path) -> int:
    """Return how many boots are left; for a plan with a job, 1 if it needs another boot, else 0.

    A job is a command, such as `replayer bisect`, that names each next kernel itself.
    """
    if schedule.job:
        return int(bool(service.named_next(command(system), path, Path.cwd())))
    return len(schedule.order) - len(boot_plan.finished(schedule, boot_plan.runs(path)))


def _own_folders() -> tuple[Path, ...]:
    """Return paths of the code that runs, of its environment and of its Python."""
    return Path(__file__), Path(sys.executable), Path(os.path.realpath(sys.executable))


def permit(system: System, *, driven: str = "") -> None:
    """Raise Impossible if no plan can be started now: not root, a container, another plan runs.

    `driven` is the name of the folder of a plan that another machine drives, and which goes on: its
    own step does not count.
    """
    if os.geteuid() != 0:
        raise Impossible("only root can choose what a machine starts and restart it: use sudo")
    container = machine_facts.read_facts(system.host).get("container", "none")
    if container != "none":
        raise Impossible(
            f"replayer runs in a container ({container}), which cannot restart its machine: start "
            f"the plan on that"
        )
    try:
        with state.opened() as inner:
            if state.measuring(inner, but=driven):
                raise Impossible(
                    "the step of a plan that another machine drives by ssh runs here now, and a "
                    "restart would end it: wait until that plan is done, or end it there"
                )
            current = state.load(inner)
    except NotFound:
        if systemd_unit.installed(system):
            raise Impossible(
                "the service of another plan is on this machine: `replayer boots stop` removes it"
            ) from None
        return
    if current.phase == "running":
        raise Impossible(
            f"the plan {current.plan} was started already: `replayer boots status` shows its "
            f"progress, `replayer boots stop` ends it"
        )


def installed(system: System, schedule: BootSchedule, name: str) -> dict[str, KernelEntry]:
    """Return kernel as the plan names it -> its installed entry; check that each can be started.

    `name` is the name of the boot loader. Raises Impossible if a kernel is missing or refused, if
    the loader cannot give a kernel the words that the plan wants, or if a kernel is already chosen
    for the next boot.
    """
    way = loaders.load(name)
    with_words = [one for one in schedule.kernels if boot_plan.target_of(one).words]
    if with_words and name != "kexec":
        raise Impossible(
            f"{with_words[0]} has words for the kernel's command line, which {way.TITLE} cannot "
            f"give for one boot: use --way kexec"
        )
    pending = way.pending(system)
    if pending:
        raise Impossible(
            f"{pending} is chosen for the next boot already, which was not this plan: restart, or "
            f"take it back"
        )
    entries = dict(kernels.resolved(schedule, way.entries(system), way.TITLE))
    for entry in entries.values():
        try:
            way.check(system, entry)
        except ReplayerError as error:
            raise Impossible(str(error)) from error
    return entries


def start(intended: Intent) -> None:
    """Begin a plan of boots: make the service, save the state, choose a kernel and restart.

    Raises ReplayerError if the plan ended at once, as after an error in the choice of the kernel.
    """
    system = intended.system
    current = _state(intended)
    begun: BootsState | None = None
    with state.opened(make=True) as inner:
        try:
            # A signal in between would leave a service without a saved state that explains it.
            with state.locked(inner), signals.shield():
                begun = _begun(system, inner, current)
            if begun.phase == "running":
                begun = service.restart(system, inner, begun)
        except Interrupted as error:
            if begun is not None:
                if begun.phase == "running":
                    with state.locked(inner):
                        begun = teardown.end(system, inner, begun, "stopped", str(error))
                teardown.then(system, inner, begun)
            raise
        if begun.phase == "running":
            return
        teardown.then(system, inner, begun)
    raise ReplayerError(f"the plan could not be started: {begun.reason}")


def _begun(system: System, inner: trusted_path.Folder, current: BootsState) -> BootsState:
    """Make the service, save the state and choose the first kernel; return the new state."""
    # Another replayer may have started a plan between the first check and the lock.
    permit(system)
    state.begin_log(inner)
    words = (*current.command, "boots", "continue")
    systemd_unit.install(system, current.plan, words, current.mounts)
    try:
        state.save(inner, current)
    except OSError:
        systemd_unit.remove(system)
        raise
    state.say(inner, f"the plan {current.plan} is started, by {current.way}")
    return _first(system, inner, current)


def _first(system: System, inner: trusted_path.Folder, current: BootsState) -> BootsState:
    try:
        return service.chosen(system, inner, current)
    except ReplayerError as error:
        return teardown.end(system, inner, state.load(inner), "stopped", str(error))
    except OSError as error:
        reason = f"replayer's own folder cannot be written: {error.strerror}"
        return teardown.end(system, inner, state.load(inner), "stopped", reason)


def command(system: System) -> tuple[str, ...]:
    """Return the words of the command that starts replayer on a machine."""
    if system.root != Path("/"):
        return (str(system.path(_PROGRAM)),)
    return tuple(interpreter.module("replayer"))


def _state(intended: Intent) -> BootsState:
    system = intended.system
    return BootsState(
        plan=str(intended.plan),
        digest=service.digest(intended.plan),
        schedule=intended.schedule,
        folder=str(Path.cwd()),
        way=intended.way,
        kernels={kernel: entry.release for kernel, entry in intended.entries.items()},
        arguments={entry.release: entry.arguments for entry in intended.entries.values()},
        default=loaders.load(intended.way).default(system),
        mounts=intended.mounts,
        command=command(system),
        started=state.now(),
        began_as=system.release,
        then=intended.then,
    )
