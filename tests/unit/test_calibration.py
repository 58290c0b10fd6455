"""The control measurement: short, named, and telling only of moves beyond its own noise."""

import numpy as np
import pytest

from replayer.analysis import warnings
from replayer.watch import calibration


def around(before, after):
    """Return a CPU control with these values of six processes each."""
    return {"cpu.before": tuple(before), "cpu.after": tuple(after), "processes": (6.0,)}


def test_it_measures_every_control_around_a_run():
    """Each control has a value above zero of each process, under its name and when it was."""
    control = calibration.measure("before")

    assert set(control) == {*(f"{name}.before" for name in calibration.NAMES), "processes"}
    for name in calibration.NAMES:
        assert len(control[f"{name}.before"]) == calibration.PROCESSES
        assert min(control[f"{name}.before"]) > 0


@pytest.mark.parametrize("kind", ["bell curve", "two kinds of process", "now and then a half"])
def test_noise_is_rarely_a_move(kind):
    """Whatever processes differ by, at most 2 percent of 2,000 runs are marked."""
    random = np.random.default_rng(1)

    def processes():
        values = random.normal(100, 3, 6)
        if kind == "two kinds of process":
            values *= random.choice([1, 0.85], 6)
        if kind == "now and then a half":
            values *= random.choice([1, 0.5], 6, p=[0.8, 0.2])
        return values

    marked = sum(bool(calibration.moved(around(processes(), processes()))) for _ in range(2000))

    assert marked <= 40


def test_processes_that_differ_more_than_their_samples_are_no_move():
    """Half of the processes get worse memory: it is no move, though ten samples of one would be."""
    before, after = [100.0, 100, 90, 100, 90, 100], [90.0, 90, 100, 90, 100, 90]

    assert calibration.moved(around(before, after)) == {}


def test_a_tenth_is_a_move():
    """A loss of 10 percent with 1 percent of noise is marked, with its sign."""
    random = np.random.default_rng(2)
    moves = calibration.moved(around(random.normal(100, 1, 6), random.normal(90, 1, 6)))

    assert -0.12 < moves["cpu"] < -0.08


def test_a_control_of_one_process_cannot_tell():
    """Ten samples of one process, as results had them, are no measure of its noise."""
    old = {"cpu.before": (100.0,) * 10, "cpu.after": (90.0,) * 10}

    assert calibration.moved(old) == {}


def test_what_was_not_measured_did_not_move():
    """Runs without a control, or with half of one, are not marked."""
    assert calibration.moved({}) == {}
    assert calibration.moved({"cpu.before": (1.0, 2.0)}) == {}
    assert calibration.moved({"cpu.before": (0.0,), "cpu.after": (1.0,)}) == {}


def test_a_run_whose_machine_changed_is_marked(run_of):
    """The advice of a run names the control that moved, and is silent about one that did not."""
    still = {
        f"{name}.{when}": (100.0, 101.0, 99.0)
        for name in calibration.NAMES
        for when in ("before", "after")
    }
    still["processes"] = (6.0,)
    slower = {**still, "cpu.after": (80.0, 81.0, 79.0)}

    assert "cpu -20.0%" in str(warnings.moved(run_of([1.0], control=slower)))
    assert warnings.moved(run_of([1.0], control=still)) is None


def test_a_run_says_which_repeats_warmed_up(run_of):
    """The advice of a run says what a comparison will not count, and what never settled."""
    assert "first 2 of 7 repeats" in str(
        warnings.warming_up(run_of([600.0, 750, 1000, 1001, 999, 1000, 1002]))
    )
    assert "never settled" in str(warnings.warming_up(run_of([1.0, 2, 3, 4, 5])))
    assert warnings.warming_up(run_of([5.0] * 7)) is None
