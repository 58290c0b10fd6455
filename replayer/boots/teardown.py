"""The end of a plan of boots: give back all that was taken from the machine, and report it."""

from __future__ import annotations

import contextlib
import glob
import os
import re
import shlex
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

from replayer import interpreter, journal, shell, trusted_path
from replayer.analysis.differences import boot_plan
from replayer.boots import loaders, sequence, state, systemd_unit
from replayer.errors import Impossible, NotFound, ReplayerError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Literal

    from replayer.boots.state import BootsState
    from replayer.boots.system import System

_THEN_SECONDS = 600.0
_END_SECONDS = 150.0
_LOG = "boots.log"
_PATTERN = re.compile(r"[*?[]")
"""The signs of a shell's pattern for names of files."""


def end(
    system: System,
    inner: trusted_path.Folder,
    current: BootsState,
    phase: Literal["done", "stopped"],
    reason: str = "",
) -> BootsState:
    """End the plan: restore the machine, save the state, and put the log next to the runs.

    `inner` is the folder of the state. `phase` and `reason` describe the end. Returns the plan's
    last state.
    """
    remarks = [reason] if reason else []
    last = current.last
    if last is not None and last.outcome in {"asked", "working"}:
        current = sequence.ended(current, "cut", reason, state.now())
    remarks += _given_back(system, current)
    current = sequence.closed(current, phase, "; ".join(remarks))
    words = f"the plan is {phase}" + (f": {current.reason}" if current.reason else "")
    state.say(inner, words)
    # On a full disk the saved state stays as it was; the service is removed in any case.
    with contextlib.suppress(OSError):
        state.save(inner, current)
    _leave_log(current, state.log(inner))
    return current


def _given_back(system: System, current: BootsState) -> list[str]:
    """Remove the choice for the next boot and the service; return a remark on each failure.

    There is also a remark if the machine's default entry is not the one from before the plan.
    """
    remarks = []
    way = loaders.load(current.way)
    for give_back in (way.clear, systemd_unit.remove):
        try:
            give_back(system)
        except (ReplayerError, OSError) as error:
            remarks.append(str(error))
    with contextlib.suppress(ReplayerError):
        default = way.default(system)
        if default != current.default:
            remarks.append(
                f"the machine's default was {current.default} at the start and is {default} now, "
                f"which another program changed"
            )
    return remarks


def restarts(system: System, current: BootsState) -> bool:
    """Return whether the machine must restart into its default kernel at the end of the plan.

    It must if the plan is done and the running kernel was started by the plan.
    """
    chosen = {attempt.boot for attempt in current.attempts}
    return current.phase == "done" and system.boot in chosen


def then(system: System, inner: trusted_path.Folder, current: BootsState) -> None:
    """Run the user's command for the end of the plan, if there is one; log a failure of it.

    Environment variables give the command the plan, its outcome, and the path of the log.
    """
    if not current.then:
        return
    again = "1" if restarts(system, current) else ""
    log = str(inner.path / state.LOG)
    try:
        check_then(current.then, Path(current.folder))
        _run_then(current, REPLAYER_BOOTS_LOG=log, REPLAYER_BOOTS_RESTARTS=again)
    except ReplayerError as error:
        state.say(inner, f"the command for the end failed: {error}")


def check_then(command: str, folder: Path) -> None:
    """Raise Impossible if another user could have changed what the command for the end runs.

    Root runs it in `folder`, boots after it was given: meanwhile a file that it names may have been
    removed from /tmp, and made again by another user.
    """
    reason = trusted_path.changeable([*_words(command, folder)], folder) if command else ""
    if reason:
        raise Impossible(f"root does not run --then {command!r}, as {reason}")


def _words(command: str, folder: Path) -> Iterator[str]:
    """Yield a shell's text, its words, and the files that the patterns among them stand for.

    Of a pattern, the folder before its first sign is yielded, too, as a file may be made there.
    """
    yield command
    try:
        words = shlex.split(command)
    except ValueError:
        return
    for word in words:
        yield word
        if "://" not in word and (sign := _PATTERN.search(word)):
            yield from glob.iglob(word, root_dir=folder)  # noqa: PTH207 - Path takes no absolute one
            yield str(Path(f"{word[: sign.start()]}x").parent)


def then_here(current: BootsState, lines: Sequence[str]) -> None:
    """Do what is due here at the end of a plan that restarted another machine by ssh.

    The plan's log `lines` are put next to its runs, and the user's command is run, if there is one.
    Raises ReplayerError if the command fails.
    """
    _leave_log(current, "".join(f"{line}\n" for line in lines))
    if current.then:
        log = boot_plan.folder(Path(current.plan)) / _LOG
        _run_then(current, REPLAYER_BOOTS_LOG=str(log))


def _run_then(current: BootsState, **variables: str) -> None:
    environment = {
        **interpreter.given(),
        "REPLAYER_BOOTS_PLAN": current.plan,
        "REPLAYER_BOOTS_OUTCOME": current.phase,
        "REPLAYER_BOOTS_REASON": current.reason,
        **variables,
    }
    words = ["/bin/sh", "-c", current.then]
    shell.run(words, environment=environment, folder=Path(current.folder), timeout=_THEN_SECONDS)


def stop(system: System) -> str:
    """Stop the started plan of boots, and return a sentence on what was done.

    The user's command for the end is run. Raises NotFound if no plan was started.
    """
    try:
        with state.opened() as inner:
            _interrupt(inner)
            with state.locked(inner):
                current, words = _stopped(system, inner)
            if current is not None:
                then(system, inner, current)
            return words
    except NotFound:
        if not systemd_unit.installed(system) and not list(journal.notes(systemd_unit.NOTE)):
            raise
        systemd_unit.remove(system)
        return "the service of a plan of boots was removed; nothing else is known of that plan"


def _stopped(system: System, inner: trusted_path.Folder) -> tuple[BootsState | None, str]:
    """End the plan; return its last state, None if that is damaged, and a sentence for the user."""
    try:
        current = state.load(inner)
    except NotFound:
        raise
    except Impossible as error:
        systemd_unit.remove(system)
        inner.forget("state.json")
        return None, (
            f"the service was removed, but {error}: check whether the boot loader still has a "
            f"choice for the next boot"
        )
    if current.phase != "running":
        systemd_unit.remove(system)
        raise NotFound(f"no plan of boots runs: {current.plan} is {current.phase}")
    current = end(system, inner, current, "stopped", "by replayer boots stop")
    return current, f"{current.plan} was stopped: {current.reason}"


def _interrupt(inner: trusted_path.Folder) -> None:
    """Ask the replayer that works on the plan to end, and wait for that.

    Raises ReplayerError if it does not end within _END_SECONDS.
    """
    pid = state.holder(inner)
    if not pid:
        return
    owner = journal.identity(pid)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _END_SECONDS
    while journal.alive(owner):
        if time.monotonic() > deadline:
            raise ReplayerError(f"process {pid} works on the plan and did not end: end it by hand")
        time.sleep(0.2)


def _leave_log(current: BootsState, text: str) -> None:
    """Put the plan's log next to its runs; do nothing if their disk is gone or full."""
    with (
        contextlib.suppress(OSError, ReplayerError),
        boot_plan.made_folder(Path(current.plan)) as runs,
    ):
        runs.replace(_LOG, text)
