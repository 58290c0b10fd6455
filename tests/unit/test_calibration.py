"""The control measurement: short, named, and telling only of moves beyond its own noise."""

import os
import subprocess
import sys
from collections.abc import Iterable

import numpy as np
import pytest

from replayer.analysis.advice import warnings
from replayer.watch import calibration
from tests.fixture_types import RunOf


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure again at once, as others let go of the processors."""
    monkeypatch.setattr(calibration, "_paused", lambda: True)
    monkeypatch.setattr(calibration, "_CONFIRMED_AFTER", 0.0)


def around(before: Iterable[float], after: Iterable[float]) -> dict[str, tuple[float, ...]]:
    """Return a CPU control with these values of six processes each."""
    return {"cpu.before": tuple(before), "cpu.after": tuple(after), "processes": (6.0,)}


def test_it_measures_every_control_around_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each control has a value above zero of each process, under its name and when it was."""
    monkeypatch.setattr(calibration, "_TRIES", 1)
    control = calibration.measure("before")

    assert set(control) == {*(f"{name}.before" for name in calibration.NAMES), "processes"}
    for name in calibration.NAMES:
        assert len(control[f"{name}.before"]) == calibration.PROCESSES
        assert min(control[f"{name}.before"]) > 0


@pytest.mark.parametrize("kind", ["bell curve", "two kinds of process", "now and then a half"])
def test_noise_is_rarely_a_move(kind: str) -> None:
    """Whatever processes differ by, at most 2 percent of 2,000 runs are marked."""
    random = np.random.default_rng(1)

    def processes() -> np.ndarray:
        values = random.normal(100, 3, 6)
        if kind == "two kinds of process":
            values *= random.choice([1, 0.85], 6)
        if kind == "now and then a half":
            values *= random.choice([1, 0.5], 6, p=[0.8, 0.2])
        return values

    marked = sum(bool(calibration.moved(around(processes(), processes()))) for _ in range(2000))

    assert marked <= 40


def test_processes_that_differ_more_than_their_samples_are_no_move() -> None:
    """Half of the processes get worse memory: no move, though ten samples of one would be."""
    before, after = [100.0, 100, 90, 100, 90, 100], [90.0, 90, 100, 90, 100, 90]

    assert calibration.moved(around(before, after)) == {}


def test_a_tenth_is_a_move() -> None:
    """A loss of 10 percent with 1 percent of noise is marked, with its sign."""
    random = np.random.default_rng(2)
    moves = calibration.moved(around(random.normal(100, 1, 6), random.normal(90, 1, 6)))

    assert -0.12 < moves["cpu"] < -0.08


def values(value: float) -> list[dict[str, float]]:
    """Return what a process measured, six times."""
    return [dict.fromkeys(calibration.NAMES, value + number / 100) for number in range(6)]


def test_values_that_others_disturbed_are_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was measured while others used the processors does not count, if there is better."""
    rounds = iter([(values(50.0), 0.9), (values(100.0), 0.01), (values(70.0), 0.0)])
    monkeypatch.setattr(calibration, "_round", lambda: next(rounds))

    assert calibration.measure("before")["cpu.before"][0] == 100.0


def test_a_machine_that_stays_busy_is_measured_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Four times disturbed: the values of the least disturbance are kept."""
    rounds = iter([(values(50.0 + others), others) for others in (0.9, 0.4, 0.6, 0.8)])
    monkeypatch.setattr(calibration, "_round", lambda: next(rounds))

    assert calibration.measure("before")["cpu.before"][0] == 50.4


def test_a_machine_that_others_keep_busy_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """While they go on there is nothing better to be had, and each try would cost them as much."""
    rounds = iter([(values(50.0), 0.9)])
    monkeypatch.setattr(calibration, "_round", lambda: next(rounds))
    monkeypatch.setattr(calibration, "_paused", lambda: False)

    assert calibration.measure("before")["cpu.before"][0] == 50.0


def test_others_are_noticed_on_this_machine() -> None:
    """A busy loop of another's process is told from the control's own."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            _, others = calibration._round()
        finally:
            busy.kill()

    assert others > 0.5 / (os.cpu_count() or 1)


@pytest.mark.parametrize(("later", "move"), [(100.0, False), (70.0, True)])
def test_a_move_is_one_that_lasts(
    monkeypatch: pytest.MonkeyPatch, later: float, *, move: bool
) -> None:
    """What is gone a second later was not there during the run; what stays was."""
    rounds = iter([(values(v), 0.0) for v in (100.0, 70.0, *[later] * 3)])
    monkeypatch.setattr(calibration, "_round", lambda: next(rounds))
    before = calibration.measure("before")
    after = calibration.measure("after", before)

    assert bool(calibration.moved({**before, **after})) is move


def test_a_control_of_one_process_cannot_tell() -> None:
    """Ten samples of one process, as results had them, are no measure of its noise."""
    old = {"cpu.before": (100.0,) * 10, "cpu.after": (90.0,) * 10}

    assert calibration.moved(old) == {}


def test_what_was_not_measured_did_not_move() -> None:
    """Runs without a control, or with half of one, are not marked."""
    assert calibration.moved({}) == {}
    assert calibration.moved({"cpu.before": (1.0, 2.0)}) == {}
    assert calibration.moved({"cpu.before": (0.0,), "cpu.after": (1.0,)}) == {}


def test_a_run_whose_machine_changed_is_marked(run_of: RunOf) -> None:
    """The advice of a run names the control that moved, and is silent about one that did not."""
    still: dict[str, tuple[float, ...]] = {
        f"{name}.{when}": (100.0, 101.0, 99.0)
        for name in calibration.NAMES
        for when in ("before", "after")
    }
    still["processes"] = (6.0,)
    slower = {**still, "cpu.after": (80.0, 81.0, 79.0)}

    assert "cpu -20.0%" in str(warnings.moved(run_of([1.0], control=slower)))
    assert warnings.moved(run_of([1.0], control=still)) is None


def test_a_run_says_which_repeats_warmed_up(run_of: RunOf) -> None:
    """The advice of a run says what a comparison will not count, and what never settled."""
    assert "first 2 of 7 repeats" in str(
        warnings.warming_up(run_of([600.0, 750, 1000, 1001, 999, 1000, 1002]))
    )
    assert "never settled" in str(warnings.warming_up(run_of([1.0, 2, 3, 4, 5])))
    assert warnings.warming_up(run_of([5.0] * 7)) is None
