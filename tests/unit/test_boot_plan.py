"""A plan of boots: a fair order, turns that only the right boot takes, runs by kernel."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replayer.analysis.differences import boot_plan
from replayer.errors import Impossible
from replayer.model import Run, Status
from replayer.results import store
from tests.fixture_types import RunOf

KERNELS = ("6.1.0", "6.12.*")


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """Return the path of a plan of four boots of two kernels."""
    path = tmp_path / "boots.plan"
    boot_plan.write(path, boot_plan.draw(KERNELS, 4))
    return path


def made(run_of: Callable[..., Run], *boots: tuple[str, str], **more: Any) -> list[Run]:
    """Return runs of these (kernel, boot id)."""
    return [run_of([1.0], kernel=kernel, boot=boot, **more) for kernel, boot in boots]


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
@pytest.mark.parametrize("kernels", [2, 3, 5])
def test_every_round_has_every_kernel_once(kernels: int, seed: int | None) -> None:
    """Whatever the order, a drift over the boots meets every kernel in every round."""
    names = [f"k{number}" for number in range(kernels)]
    order = boot_plan.draw(names, kernels * 4, seed=seed).order

    assert len(order) == kernels * 4
    for begin in range(0, len(order), kernels):
        assert sorted(order[begin : begin + kernels]) == names


def test_the_mean_position_of_two_kernels_is_the_same() -> None:
    """A B B A: with a linear drift both kernels lose the same."""
    order = boot_plan.draw(["a", "b"], 8).order
    at = {name: [i for i, kernel in enumerate(order) if kernel == name] for name in "ab"}

    assert sum(at["a"]) == sum(at["b"])


def test_a_seed_is_an_order() -> None:
    """The same seed gives the same plan, another seed another one."""
    orders = {seed: boot_plan.draw(["a", "b", "c"], 12, seed=seed).order for seed in range(8)}

    assert boot_plan.draw(["a", "b", "c"], 12, seed=5).order == orders[5]
    assert len(set(orders.values())) > 1


@pytest.mark.parametrize(
    ("kernels", "boots", "words"),
    [
        (["a"], 4, "two or more different kernels"),
        (["a", "a"], 4, "two or more different kernels"),
        (["a", " "], 4, "two or more different kernels"),
        (["a", "b"], 5, "ask for 6"),
        (["a", "b", "c"], 2, "ask for 3"),
        (["a", "b"], 0, "ask for 2"),
    ],
)
def test_an_unfair_plan_is_refused(kernels: list[str], boots: int, words: str) -> None:
    """Kernels that cannot be told apart or have unequal numbers of boots are no plan."""
    with pytest.raises(Impossible, match=words):
        boot_plan.draw(kernels, boots)


def test_a_plan_is_read_as_it_was_written(plan: Path) -> None:
    """What was drawn is what is read; a second one of that name is refused and changes nothing."""
    before = plan.read_bytes()

    assert boot_plan.load(plan) == boot_plan.draw(KERNELS, 4)
    with pytest.raises(Impossible, match="already there"):
        boot_plan.write(plan, boot_plan.draw(["x", "y"], 2))
    assert plan.read_bytes() == before


def test_a_plan_that_is_not_there_says_what_makes_one(tmp_path: Path) -> None:
    """Whoever mistypes its name learns that it is missing, and of the command."""
    with pytest.raises(Impossible, match=r"there is no plan .*nothing: `replayer plan` makes one"):
        boot_plan.load(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"plan": 99}, "this replayer reads 2"),
        ({"order": []}, "either an order of kernels or a job"),
        ({"order": ["6.6.6"]}, "order names kernels"),
        ({"order": 3}, "order"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_bad_plan_is_named(plan: Path, change: dict[str, Any], words: str) -> None:
    """A plan that this replayer cannot follow is one sentence that says where it is wrong."""
    plan.write_text(json.dumps({**json.loads(plan.read_text()), **change}))

    with pytest.raises(Impossible, match=words):
        boot_plan.load(plan)


def test_a_job_that_others_can_write_is_not_run(tmp_path: Path) -> None:
    """Its words are commands; a umask that lets others write does not make it so."""
    path, before = tmp_path / "job.plan", os.umask(0)
    try:
        boot_plan.write(path, boot_plan.of_job(KERNELS, ("ab", "smoke"), ()))
    finally:
        os.umask(before)
    assert boot_plan.load_own(path).job == ("ab", "smoke")

    path.chmod(0o666)
    with pytest.raises(Impossible, match="chmod go-w"):
        boot_plan.load_own(path)


@pytest.mark.parametrize(
    ("release", "kernel"),
    [("6.1.0", "6.1.0"), ("6.12.9-amd64", "6.12.*"), ("6.1.01", None), ("5.4", None)],
)
def test_a_release_is_one_of_the_kernels(release: str, kernel: str | None) -> None:
    """A release stands for itself, or for the one pattern that it fits."""
    assert boot_plan.planned(boot_plan.draw(KERNELS, 2), release) == kernel


def test_a_release_that_fits_two_patterns_is_refused() -> None:
    """Which of the two kernels it is cannot be guessed."""
    with pytest.raises(Impossible, match="fits"):
        boot_plan.planned(boot_plan.draw(["6.*", "6.1.*"], 2), "6.1.5")


def test_turns_go_to_the_right_kernel_and_to_a_new_boot(run_of: RunOf) -> None:
    """The first turn is the first kernel's; then the other's, on another boot; in the end none."""
    plan = boot_plan.draw(KERNELS, 2)

    assert boot_plan.admit(plan, [], "6.1.0", "b1") == 1
    with pytest.raises(Impossible, match=r"is for 6\.1\.0 and this is 6\.12\.9"):
        boot_plan.admit(plan, [], "6.12.9", "b1")
    first = made(run_of, ("6.1.0", "b1"))
    assert boot_plan.admit(plan, first, "6.12.9", "b2") == 2
    with pytest.raises(Impossible, match="used already"):
        boot_plan.admit(plan, first, "6.12.9", "b1")
    both = made(run_of, ("6.1.0", "b1"), ("6.12.9", "b2"))
    with pytest.raises(Impossible, match="all 2 boots"):
        boot_plan.admit(plan, both, "6.1.0", "b3")
    with pytest.raises(Impossible, match="boot id"):
        boot_plan.admit(plan, [], "6.1.0", "")


def test_a_failed_run_takes_no_turn_but_uses_up_its_boot(run_of: RunOf) -> None:
    """The machine is not fresh any more, so the same kernel is due on another boot."""
    plan = boot_plan.draw(KERNELS, 2)
    failed = made(run_of, ("6.1.0", "b1"), status=Status.FAILED)

    assert boot_plan.finished(plan, failed) == []
    with pytest.raises(Impossible, match="used already"):
        boot_plan.admit(plan, failed, "6.1.0", "b1")
    assert boot_plan.admit(plan, failed, "6.1.0", "b2") == 1


def test_two_runs_of_one_boot_are_one_turn(run_of: RunOf) -> None:
    """The boot is the unit: what ran twice on one counts once."""
    plan = boot_plan.draw(KERNELS, 4)
    runs = made(run_of, ("6.1.0", "b1"), ("6.1.0", "b1"), ("6.12.9", "b2"))

    assert [run.host["boot.id"] for run in boot_plan.finished(plan, runs)] == ["b1", "b2"]


def test_a_plans_runs_are_grouped_by_its_kernels(plan: Path, run_of: RunOf) -> None:
    """The first kernel is the base; what is not done yet is said; no run of one is refused."""
    folder = boot_plan.folder(plan)
    folder.mkdir()
    with pytest.raises(Impossible, match="no finished run of"):
        boot_plan.chosen(plan)
    for run in made(run_of, ("6.1.0", "b1"), ("6.12.9", "b2"), ("5.4.0", "b3")):
        store.save(folder / f"{run.id}.json", run)
    chosen = boot_plan.chosen(plan)

    assert [(side.name, len(side.runs)) for side in chosen.sides] == [("6.1.0", 1), ("6.12.*", 1)]
    assert "2 of 4 boots done" in chosen.said[0]
    assert f"boot {boot_plan.load(plan).order[2]}" in chosen.said[0]


def test_words_on_the_command_line_tell_boots_of_one_kernel_apart() -> None:
    """The kernel of the plan with most of its words on the line is meant, whatever the order."""
    kernels = ("6.12.9", "6.12.9 mitigations=off", "6.12.9 mitigations=off nosmt")
    schedule = boot_plan.of_job(kernels, ("experiment", "--resume", "x"), ())

    for line, number in (("ro", 0), ("nosmt", 0), ("mitigations=off ro", 1)):
        assert boot_plan.planned(schedule, "6.12.9", line) == kernels[number]
    assert boot_plan.planned(schedule, "6.12.9", "nosmt mitigations=off") == kernels[2]
    assert boot_plan.planned(schedule, "6.1.0", "mitigations=off") is None
    line = boot_plan.target_of(kernels[1]).merged("ro mitigations=auto quiet")
    assert line == "ro quiet mitigations=off"
