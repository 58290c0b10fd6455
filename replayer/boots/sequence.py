"""The next action after a boot: pure functions of the saved state and of the facts about the boot.

A boot into the chosen kernel is one turn of a plan of boots. Any other boot is a failure with a
reason. The plan ends after three failures, or after two boots into a kernel that was not chosen.
Such an error does not go away by itself, and a machine that restarts for ever is of no use.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from replayer.boots.state import Attempt, BootsState, Outcome

FAILURES = 3
WRONG = 2


class BootObservation(NamedTuple):
    """The facts that are read after a start of the machine.

    `boot` is the id of the boot, `release` the kernel that runs, and `now` the time as ISO 8601.
    """

    boot: str
    release: str
    came: bool | None
    """True if this boot is the one that was chosen; None if the boot loader does not show it."""
    untaken: bool
    """True while the boot loader has not yet followed the choice for one boot."""
    finished: frozenset[str]
    """The ids of the boots that have a finished run."""
    default: str
    """The release that ran when the plan was started."""
    missing: str
    """Why the boot's run cannot be done although the right kernel runs, "" if it can."""
    now: str
    lacking: tuple[str, ...] = ()
    """Words of the due boot that are not on the kernel's command line."""


class Move(Enum):
    """The next action after a boot of a plan."""

    WORK = "do the due step"
    CHOOSE = "choose the next kernel, and restart"


def arrived(state: BootsState, seen: BootObservation) -> tuple[BootsState, Move]:
    """Return the state of the plan after a boot with the facts `seen`, and the next action.

    The state has the boot's outcome, unless the next action is to do the boot's run.
    """
    last = state.last
    if last is None or last.outcome not in {"asked", "working"}:
        return state, Move.CHOOSE
    if last.boot in seen.finished and last.boot:
        return ended(state, "done", "", seen.now), Move.CHOOSE
    if last.outcome == "working":
        return ended(state, "cut", _cut(last, seen), seen.now), Move.CHOOSE
    state = _with(state, last.model_copy(update={"boot": seen.boot, "came": seen.release}))
    outcome, reason = _judged(last, seen)
    if outcome != "working":
        return ended(state, outcome, reason, seen.now), Move.CHOOSE
    if seen.missing:
        return ended(state, "failed", seen.missing, seen.now), Move.CHOOSE
    return working(state), Move.WORK


def asked(state: BootsState, attempt: Attempt) -> BootsState:
    """Return the state with one more attempt: a boot that has not begun yet."""
    return state.model_copy(update={"attempts": (*state.attempts, attempt)})


def working(state: BootsState) -> BootsState:
    """Return the state with the outcome `working` for the newest boot: its run is under way."""
    assert state.last is not None
    return _with(state, state.last.model_copy(update={"outcome": "working"}))


def ended(state: BootsState, outcome: Outcome, reason: str, now: str) -> BootsState:
    """Return the state with this outcome and reason for the newest boot, which ended at `now`."""
    assert state.last is not None
    update = {"outcome": outcome, "reason": reason, "ended": now}
    return _with(state, state.last.model_copy(update=update))


def closed(state: BootsState, phase: str, reason: str) -> BootsState:
    """Return the state with the end of the plan: the phase `done` or `stopped`, and the reason."""
    return state.model_copy(update={"phase": phase, "reason": reason})


def enough(state: BootsState) -> str:
    """Return why the plan must stop because of failed boots, "" if it may go on.

    It must stop after FAILURES boots that failed, or after WRONG boots into a wrong kernel.
    """
    outcomes = Counter(attempt.outcome for attempt in state.attempts)
    last = next((one for one in reversed(state.attempts) if one.reason), None)
    why = f": {last.reason}" if last else ""
    if outcomes["wrong"] >= WRONG:
        return f"a wrong kernel came up {WRONG} times{why}"
    if state.failures() >= FAILURES:
        return f"{FAILURES} boots failed{why}"
    return ""


def _judged(last: Attempt, seen: BootObservation) -> tuple[Outcome, str]:
    if last.chosen_in == seen.boot:
        return "failed", f"the machine was to restart into {last.release} and did not"
    if seen.release == last.release and seen.came is not False:
        if not seen.lacking:
            return "working", ""
        words = " ".join(seen.lacking)
        return "failed", f"{last.release} came up without {words} on its command line"
    return _another(last, seen)


def _another(last: Attempt, seen: BootObservation) -> tuple[Outcome, str]:
    """Return the outcome and its reason for a boot into a kernel that is not the chosen one."""
    if seen.untaken:
        return "wrong", (
            f"{seen.release} came up, as the boot loader did not follow the choice of "
            f"{last.release}"
        )
    if seen.release not in {last.release, seen.default}:
        return "wrong", f"{seen.release} came up in the place of {last.release}"
    return "failed", (
        f"{last.release} panicked, did not come up or was restarted at once: the machine fell back "
        f"to its default, {seen.release}"
    )


def _cut(last: Attempt, seen: BootObservation) -> str:
    if last.boot == seen.boot:
        return f"replayer was ended in the middle of the step of turn {last.turn}"
    return (
        f"the machine lost its power or was restarted by another program or user in the middle of "
        f"the step of turn {last.turn}"
    )


def _with(state: BootsState, attempt: Attempt) -> BootsState:
    return state.model_copy(update={"attempts": (*state.attempts[:-1], attempt)})


def due(state: BootsState, done: int) -> tuple[int, str, str] | None:
    """Return the turn (one boot of the plan) that follows `done` turns; None after the last.

    It is a tuple: number of the turn from 1, kernel as the plan names it, installed release.
    """
    if done >= len(state.schedule.order):
        return None
    kernel = state.schedule.order[done]
    return done + 1, kernel, state.kernels[kernel]
