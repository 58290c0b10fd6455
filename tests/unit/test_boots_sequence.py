"""What comes next after a boot, for everything that a machine can come up as."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from replayer.analysis.differences import boot_plan
from replayer.boots import sequence, ssh_driver
from replayer.boots.sequence import BootObservation, Move
from replayer.boots.state import Attempt, BootsState

OLD, NEW = "6.1.0", "6.12.0"


def begun(*attempts: Attempt) -> BootsState:
    """Return the state of a plan with these boots."""
    return BootsState(
        plan="/p",
        digest="",
        schedule=boot_plan.draw([OLD, NEW], 4),
        folder="/",
        way="grub",
        kernels={OLD: OLD, NEW: NEW},
        arguments={},
        default="0",
        mounts=(),
        command=("replayer",),
        started="",
        began_as=NEW,
        attempts=attempts,
    )


def boot(release: str = OLD, **changes: str) -> Attempt:
    """Return a boot that was asked for."""
    asked = Attempt(turn=1, kernel=release, release=release, asked="", chosen_in="b-0")
    return asked.model_copy(update=changes)


def last(state: BootsState) -> Attempt:
    """Return the last boot."""
    assert state.last is not None
    return state.last


def seen(release: str = OLD, boot_id: str = "b-1", **changes: Any) -> BootObservation:
    """Return what is to be seen after a start."""
    plain = BootObservation(boot_id, release, None, False, frozenset(), NEW, "", "now")
    return plain._replace(**changes)


def test_the_kernel_that_was_asked_for_works() -> None:
    """Its step is due now, on this boot."""
    state, move = sequence.arrived(begun(boot()), seen())

    assert move is Move.WORK
    assert (last(state).outcome, last(state).boot, last(state).came) == ("working", "b-1", OLD)


@pytest.mark.parametrize(
    ("attempt", "what", "outcome", "words"),
    [
        (boot(), seen(NEW), "failed", "panicked, did not come up"),
        (boot(), seen(NEW, untaken=True), "wrong", "did not follow the choice"),
        (boot(), seen("5.4.0"), "wrong", "came up in the place of"),
        (boot(), seen(OLD, "b-0"), "failed", "was to restart into 6.1.0 and did not"),
        (boot(), seen(OLD, missing="/mnt was not mounted"), "failed", "/mnt was not mounted"),
        (boot(NEW), seen(NEW, came=False), "failed", "fell back to its default"),
        (boot(outcome="working", boot="b-1"), seen(NEW, "b-2"), "cut", "restarted by another"),
        (boot(outcome="working", boot="b-1"), seen(OLD, "b-1"), "cut", "replayer was ended"),
    ],
    ids=["panic", "untaken", "other", "no-restart", "mount", "same-kernel", "cut", "killed"],
)
def test_what_came_instead_is_a_failure_with_its_reason(
    attempt: Attempt, what: BootObservation, outcome: str, words: str
) -> None:
    """No step is done on such a boot, and the turn stays due."""
    state, move = sequence.arrived(begun(attempt), what)

    assert move is Move.CHOOSE
    assert last(state).outcome == outcome
    assert words in last(state).reason
    assert state.failures() == 1


def test_a_cut_after_the_run_was_finished_costs_nothing() -> None:
    """What is stored counts, whatever happened to the process that was to say so."""
    cut = boot(outcome="working", boot="b-1")
    state, move = sequence.arrived(begun(cut), seen(NEW, "b-2", finished=frozenset({"b-1"})))

    assert move is Move.CHOOSE
    assert (last(state).outcome, state.failures()) == ("done", 0)


@pytest.mark.parametrize("outcome", ["done", "failed", "wrong", "cut"])
def test_a_boot_that_came_to_its_end_is_not_judged_again(outcome: str) -> None:
    """A cut between the end of one boot and the choice of the next adds no failure."""
    before = begun(boot(outcome=outcome, boot="b-1"))

    assert sequence.arrived(before, seen(NEW, "b-2")) == (before, Move.CHOOSE)


@pytest.mark.parametrize(
    ("outcomes", "words"),
    [
        (["failed", "done", "failed"], ""),
        (["failed", "done", "failed", "cut"], "3 boots failed: because"),
        (["wrong"], ""),
        (["wrong", "done", "wrong"], "a wrong kernel came up 2 times: because"),
    ],
)
def test_three_failures_or_two_wrong_kernels_are_enough(outcomes: list[str], words: str) -> None:
    """What is done in between does not make up for them."""
    attempts = [boot(outcome=one, reason="" if one == "done" else "because") for one in outcomes]

    assert sequence.enough(begun(*attempts)).startswith(words)
    assert bool(sequence.enough(begun(*attempts))) is bool(words)


def test_the_due_turn_is_the_first_that_is_not_done() -> None:
    """The order is the plan's, and after its last turn none is due."""
    state = begun()

    assert [sequence.due(state, done) for done in (0, 1)] == [(1, OLD, OLD), (2, NEW, NEW)]
    assert sequence.due(state, 4) is None


@dataclass
class _Answers:
    """Another machine that answers each request with the next of its answers to that verb."""

    host: str
    answers: dict[str, list[dict[str, object]]]

    def ask(self, verb: str, **_: object) -> dict[str, object]:
        """Return the next answer."""
        return self.answers[verb].pop(0)


def test_a_boot_that_ends_is_not_taken_for_the_one_that_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that lost its power in a step chooses the next kernel in a boot unseen so far."""
    monkeypatch.setattr(ssh_driver, "_POLL_SECONDS", 0.0)
    facts: dict[str, object] = {"release": "b", "came": None, "untaken": False, "lacking": []}
    looks = [{**facts, "boot": "unseen"}, {**facts, "boot": "unseen"}, {**facts, "boot": "new"}]
    machine: Any = _Answers("db1", {"choose": [{"boot": "unseen", "restarts": []}], "look": looks})
    plan = tmp_path / "boots.plan"
    plan.write_text("")
    state = begun(boot())
    driver = ssh_driver.BootDriver(machine, plan, state.schedule, {}, "")

    driver.choose(state, last(state), "")
    assert driver._returned(state).boot == "new"
