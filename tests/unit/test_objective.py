"""Objectives as they are written, and what misses them."""

import pytest

from replayer.errors import Impossible
from replayer.load.objective import goals, missed
from replayer.watch.histogram import Latencies

TIMES = Latencies.counted({1_000_000: 980, 50_000_000: 20})
"""98 percent take 1 ms, the others 50."""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("p99=20ms", ((99, 0.020),)),
        ("p99 <= 20ms", ((99, 0.020),)),
        ("p50=5ms p99.9=1s", ((50, 0.005), (99.9, 1.0))),
        ("p50<5ms, p95=10ms", ((50, 0.005), (95, 0.010))),
    ],
)
def test_objective_is_percentiles_and_times(
    text: str, expected: tuple[tuple[float, float], ...]
) -> None:
    """One or several, with spaces or commas between them."""
    assert goals(text) == expected


@pytest.mark.parametrize(
    "text", ["", "20ms", "p99", "p99=", "p999=1s", "p99=soon", "p99=0", "p0=1"]
)
def test_what_is_no_objective_is_refused_in_words(text: str) -> None:
    """The sentence has an example."""
    with pytest.raises(Impossible):
        goals(text)


def test_missed_goals_are_told_with_both_times() -> None:
    """The 98 percent keep to 2 ms, the 99th does not."""
    assert not missed(goals("p95=2ms p99=60ms"), TIMES)
    assert missed(goals("p95=2ms p99=20ms"), TIMES).startswith("p99 50.0 ms > 20.0 ms")
