"""The one loop of a plan of boots: choose the next kernel; after the boot judge it and do its run.

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
    """An error after which a plan of boots cannot go on; its text is the reason."""


class BootedMachine(Protocol):
    """The actions that the loop of a plan needs of the machine that restarts."""

    @property
    def title(self) -> str:
        """Return the machine's name for messages, "" for this machine."""
        ...

    def save(self, current: BootsState) -> BootsState:
        """Save the plan's state if the next boot ends this process; return the state."""
        ...

    def find_due(self, current: BootsState) -> tuple[int, str, str] | None:
        """Return the next turn (one boot of the plan); None after the last.

        It is a tuple: number of the turn, kernel as the plan names it, installed release.
        """
        ...

    def list_finished(self, current: BootsState) -> Collection[str]:
        """Return the ids of the boots that have a finished run."""
        ...

    def choose(self, current: BootsState, attempt: Attempt, arguments: str) -> None:
        """Choose the attempt's kernel for one boot, with `arguments` as its command line."""
        ...

    def do_step(self, current: BootsState) -> str:
        """Do the run that is due in this boot; return why it failed, "" if it did not."""
        ...


def choose_next(
    machine: BootedMachine, current: BootsState, boot: str, say: Say
) -> BootsState | None:
    """Choose the plan's next kernel for one boot; return the state with the new attempt.

    Returns None after the last boot of the plan.  `boot` is the id of the boot that runs now.
    `say` is called with a line of text about the choice.  Raises Stop if the plan has failed too
    often.
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
    """Judge a boot by the facts in `seen`, and do its run if the right kernel runs.

    Returns the state with the outcome.  `say` is called with a line of text for each event.
    """
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
