"""The one loop of a plan of boots: choose the next kernel; after the boot judge it and do its step.

The machine is this one (`service`), where each boot starts a new process, or another one that is
driven by ssh (`ssh_driver`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from replayer.analysis.differences import boot_plan
from replayer.boots import sequence, state
from replayer.boots.sequence import Move
from replayer.boots.state import Attempt
from replayer.errors import ReplayerError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from replayer.boots.sequence import BootObservation
    from replayer.boots.state import BootsState

    Say = Callable[[str], None]


class Stop(ReplayerError):
    """The plan cannot go on; the text is the reason."""


class BootedMachine(Protocol):
    """The machine that does a plan: the actions that the loop needs of it."""

    @property
    def title(self) -> str:
        """Return the machine's name for messages, "" for this machine."""
        ...

    def save(self, current: BootsState) -> BootsState:
        """Return the state; save it first, if the boot of the machine ends this process."""
        ...

    def find_due(self, current: BootsState) -> tuple[int, str, str] | None:
        """Return the number, the kernel and the release of the next turn; None after the last."""
        ...

    def list_finished(self, current: BootsState) -> Collection[str]:
        """Return the ids of the boots that have a finished run."""
        ...

    def choose(self, current: BootsState, attempt: Attempt, arguments: str) -> None:
        """Choose the kernel of an attempt for one boot, with these words on its command line."""
        ...

    def do_step(self, current: BootsState) -> str:
        """Do the due step; return why it failed, "" if it did not."""
        ...


def choose_next(
    machine: BootedMachine, current: BootsState, boot: str, say: Say
) -> BootsState | None:
    """Record the next attempt and choose its kernel for one boot; return None after the last turn.

    `boot` is the id of the boot in which the kernel is chosen.  Raises Stop if the plan has failed
    too often.
    """
    enough = sequence.enough(current)
    if enough:
        raise Stop(enough)
    turn = machine.find_due(current)
    if turn is None:
        return None
    number, kernel, release = turn
    attempt = Attempt(
        turn=number, kernel=kernel, release=release, asked=state.now(), chosen_in=boot
    )
    current = machine.save(sequence.asked(current, attempt))
    target = boot_plan.target_of(kernel)
    machine.choose(current, attempt, target.merged(current.arguments.get(release, "")))
    words = filter(None, (machine.title, "restarts into", release, *target.words))
    say(f"{current.schedule.turn(number)}: {' '.join(words)}")
    return current


def judge(
    machine: BootedMachine, current: BootsState, seen: BootObservation, say: Say
) -> BootsState:
    """Judge a boot, and do the step if the right kernel runs; return the state with the outcome."""
    current, move = sequence.arrived(current, seen)
    machine.save(current)
    _report(current, seen, say)
    if move is Move.CHOOSE:
        return current
    reason = machine.do_step(current)
    if not reason and seen.boot not in machine.list_finished(current):
        reason = "the step left no finished run"
    ended = sequence.ended(current, "failed" if reason else "done", reason, state.now())
    current = machine.save(ended)
    _report(current, seen, say)
    return current


def _report(current: BootsState, seen: BootObservation, say: Say) -> None:
    last = current.last
    if last is None:
        return
    title = f"{current.schedule.turn(last.turn)} ({last.kernel})"
    reason = f": {last.reason}" if last.reason else ""
    words = "begins" if last.outcome == "working" else last.outcome
    say(f"{title} {words}{reason} · {seen.release}, boot {seen.boot[:8]}")
