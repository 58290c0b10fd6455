"""What comes next after a boot: pure functions of the state and of what is seen.

A boot that was asked for and came is a turn of the plan; anything else is a failure with a reason.
Three failures end the plan, or two boots into a kernel that nobody chose: what goes wrong so often
does not mend itself, and a machine that restarts for ever helps nobody.
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
    """What is to be seen after a start of the machine."""

    boot: str
    release: str
    came: bool | None
    """Whether this boot is the one that was chosen, as far as the way can tell."""
    untaken: bool
    """Whether the choice for one boot is still waiting to be followed."""
    finished: frozenset[str]
    """The ids of the boots that have a finished run."""
    default: str
    """The release that ran when the plan was started."""
    missing: str
    """Why the turn cannot be done although the kernel is right, "" if it can."""
    now: str


class Move(Enum):
    """What is to be done now."""

    WORK = "do the due step"
    CHOOSE = "choose the next kernel, and restart"


def arrived(state: BootsState, seen: BootObservation) -> tuple[BootsState, Move]:
    """Return the state after a boot, with what became of the one before, and what to do."""
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
    """Return the state with a boot that is about to be asked for."""
    return state.model_copy(update={"attempts": (*state.attempts, attempt)})


def working(state: BootsState) -> BootsState:
    """Return the state while the step of the newest boot is done."""
    assert state.last is not None
    return _with(state, state.last.model_copy(update={"outcome": "working"}))


def ended(state: BootsState, outcome: Outcome, reason: str, now: str) -> BootsState:
    """Return the state after the newest boot came to its end."""
    assert state.last is not None
    update = {"outcome": outcome, "reason": reason, "ended": now}
    return _with(state, state.last.model_copy(update=update))


def closed(state: BootsState, phase: str, reason: str) -> BootsState:
    """Return the state of a plan that is over."""
    return state.model_copy(update={"phase": phase, "reason": reason})


def enough(state: BootsState) -> str:
    """Return why the plan is to be stopped, "" if it may go on."""
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
        return "working", ""
    return _another(last, seen)


def _another(last: Attempt, seen: BootObservation) -> tuple[Outcome, str]:
    """Return what it means that another kernel came up than the one that was chosen."""
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
        f"the machine lost its power or was restarted by somebody else in the middle of the step "
        f"of turn {last.turn}"
    )


def _with(state: BootsState, attempt: Attempt) -> BootsState:
    return state.model_copy(update={"attempts": (*state.attempts[:-1], attempt)})


def due(state: BootsState, done: int) -> tuple[int, str, str] | None:
    """Return the next turn's number, its kernel and the release of that; None after the last."""
    if done >= len(state.schedule.order):
        return None
    kernel = state.schedule.order[done]
    return done + 1, kernel, state.kernels[kernel]
