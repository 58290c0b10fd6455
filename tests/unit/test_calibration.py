"""The control measurement: short, named, and telling only of moves beyond its own noise."""

import numpy as np

from replayer.analysis import warnings
from replayer.watch import calibration


def test_it_measures_every_control_around_a_run():
    """Each control has samples above zero, under its name and when it was measured."""
    found = calibration.measure("before")

    assert set(found) == {f"{name}.before" for name in calibration.NAMES}
    assert all(len(samples) == 10 and min(samples) > 0 for samples in found.values())


def test_noise_is_rarely_a_move():
    """With 3 percent of noise and nothing else, at most 2 percent of 1,000 runs are marked."""
    random = np.random.default_rng(1)
    marked = sum(
        bool(
            calibration.moved(
                {f"cpu.{when}": random.normal(100, 3, 12).tolist() for when in ("before", "after")}
            )
        )
        for _ in range(1000)
    )

    assert marked <= 20


def test_a_tenth_is_a_move():
    """A loss of 10 percent with 1 percent of noise is marked, with its sign."""
    random = np.random.default_rng(2)
    found = calibration.moved(
        {
            "cpu.before": random.normal(100, 1, 12).tolist(),
            "cpu.after": random.normal(90, 1, 12).tolist(),
        }
    )

    assert -0.12 < found["cpu"] < -0.08


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
    slower = {**still, "cpu.after": (80.0, 81.0, 79.0)}

    assert "cpu -20.0%" in warnings.moved(run_of([1.0], control=slower))
    assert warnings.moved(run_of([1.0], control=still)) == ""


def test_a_run_says_which_repeats_warmed_up(run_of):
    """The advice of a run says what a comparison will not count, and what never settled."""
    assert "first 2 of 7 repeats" in warnings.warming_up(
        run_of([600.0, 750, 1000, 1001, 999, 1000, 1002])
    )
    assert "never settled" in warnings.warming_up(run_of([1.0, 2, 3, 4, 5]))
    assert warnings.warming_up(run_of([5.0] * 7)) == ""
