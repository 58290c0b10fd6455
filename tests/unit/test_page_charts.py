"""The charts of a comparison's page: sorted, cut where one would hide all others, and overlaid."""

import re
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram

from replayer.analysis.differences.comparison import Comparison, MetricVerdict, compare
from replayer.analysis.differences.finding import name_row
from replayer.analysis.differences.samples import Side
from replayer.model import Latency, Run, Series
from replayer.report.document import Curve
from replayer.report.documents import percentiles, ratio_chart, run_charts
from tests.fixture_types import RunOf
from tests.known import known
from tests.made import at_once

ORDER = [MetricVerdict.WORSE, MetricVerdict.BETTER, MetricVerdict.UNCLEAR, MetricVerdict.SAME]


def two(
    run_of: RunOf,
    other: Mapping[str, float],
    base: Mapping[str, float] | None = None,
    boots: int = 6,
) -> tuple[Side, Side]:
    """Return two sides of as many boots, whose metrics are these times those of the base."""
    random = np.random.default_rng(5)
    base = base or dict.fromkeys(other, 1000.0)

    def runs(name: str, factors: Mapping[str, float]) -> tuple[Run, ...]:
        return tuple(
            run_of(
                [1000.0],
                boot=f"{name}{number}",
                **{
                    metric: [base[metric] * factor * random.normal(1, 0.002)]
                    for metric, factor in factors.items()
                },
            )
            for number in range(boots)
        )

    plain = dict.fromkeys(other, 1.0)
    return at_once(Side("A", runs("a", plain))), at_once(Side("B", runs("b", other)))


@pytest.fixture
def compared(run_of: RunOf) -> Comparison:
    """Return a comparison in which metrics are better, worse, the same and wildly worse."""
    factors = {
        "sessions.operations": 1.2,
        "sessions.cache_hits": 0.7,
        "walk.real": 1.1,
        "sessions.latency.p50": 1.0,
        "sessions.latency.p99": 60.0,
    }
    return compare(*two(run_of, factors))


def test_the_ratios_are_sorted_worst_first_and_right_is_worse(compared: Comparison) -> None:
    """From the top: worse, better, then what was not shown; each worse one lies right of 1."""
    chart = known(ratio_chart.intervals(compared))
    of_title = {name_row(row, compared): row for row in compared.rows}
    rows = [of_title[title] for title in reversed(chart.axes["categories"])]
    places = [ORDER.index(known(row.verdict)) for row in rows]
    at = {
        title: (place, trace.name)
        for trace in chart.curves
        if trace.name != "beyond the axis"
        for title, place in zip(trace.y, trace.x, strict=True)
    }

    assert places == sorted(places)
    assert {"worse", "better"} <= {name for _, name in at.values()}
    assert all(place > 1 for place, name in at.values() if name == "worse")
    assert all(place < 1 for place, name in at.values() if name == "better")
    assert "right is worse" in chart.title


def test_red_is_worse_and_green_better_and_nothing_else(compared: Comparison) -> None:
    """The colours of worse and better are those of no other verdict, and of no side."""
    chart = known(ratio_chart.intervals(compared))
    colors = {trace.name: trace.color for trace in chart.curves}
    red, green = colors.pop("worse"), colors.pop("better")

    assert (red, green) == ("worse", "better")
    assert all(isinstance(color, int) for color in colors.values())


def test_the_same_fact_has_the_same_place_whatever_it_is_measured_by(run_of: RunOf) -> None:
    """A rate that halves and a time that doubles are as far to the right of 1."""
    halved = compare(*two(run_of, {"sessions.operations": 0.5, "walk.p99": 2.0}))
    chart = known(ratio_chart.intervals(halved))
    (worse,) = [trace for trace in chart.curves if trace.name == "worse"]

    assert worse.x == pytest.approx([2.0, 2.0], rel=0.02)
    assert all(left > 0 and right > 0 for left, right in _errors(worse))


def _errors(trace: Curve) -> list[tuple[float, float]]:
    return list(
        zip(trace.style["error_x"]["arrayminus"], trace.style["error_x"]["array"], strict=True)
    )


def test_a_ratio_far_out_is_a_mark_at_the_edge_with_its_value(compared: Comparison) -> None:
    """60 times as much does not stretch the axis: all others are seen, and it is told in words."""
    chart = known(ratio_chart.intervals(compared))
    low, high = (10**end for end in chart.axes["range_x"])
    (beyond,) = [trace for trace in chart.curves if trace.name == "beyond the axis"]
    ratios = [ratio for trace in chart.curves if trace is not beyond for ratio in trace.x]

    assert high < 5
    assert all(low < ratio < high for ratio in ratios)
    place = next(i for i, title in enumerate(beyond.y) if "p99" in title)
    assert float(beyond.texts[place]) == pytest.approx(60, rel=0.02)
    assert low < beyond.x[place] < high


def test_the_headline_says_how_much_and_in_which_direction(run_of: RunOf) -> None:
    """It names the leading metric with its interval, the largest other, and slower or faster."""
    slower = {"sessions.riops": 0.5, "sessions.latency.p99": 2.6}
    faster = {metric: 1 / factor for metric, factor in slower.items()}
    worse, better = (compare(*two(run_of, factors)).headline for factors in (slower, faster))

    assert re.match(r"B is slower than A: RIOPS 0\.50 \(0\.\d+ to 0\.\d+\), p99 2\.6 times", worse)
    assert re.match(
        r"B is faster than A: RIOPS 2\.0 \(\d\.\d+ to \d\.\d+\), p99 0\.38 times", better
    )


def test_the_headline_of_both_ways_claims_neither(compared: Comparison) -> None:
    """Where one metric is better and another worse, neither word stands alone."""
    assert compared.headline.startswith("B is both faster and slower than A: ")


def test_nothing_shown_is_said_to_be_nothing_shown(run_of: RunOf) -> None:
    """Two sides that are the same by the same work are neither better nor worse."""
    sides = two(run_of, {"sessions.operations": 1.0}, boots=2)

    words = compare(*sides).headline
    assert words.startswith("no difference between A and B was shown")
    assert words.endswith("it takes 4 boots of each to show one")


def watched(run: Run, values: Sequence[float], begin: float = 5.0) -> Run:
    """Return the run with a series of its sessions, whose window begins later than its samples."""
    seconds = tuple(float(second) for second in range(1, len(values) + 1 + int(begin)))
    column = (*(9e9 for _ in range(int(begin))), *values)
    series = Series(
        started="2026-11-20T10:00:00+00:00",
        seconds=seconds,
        columns={"sessions.riops": column},
        window=(begin, begin + len(values)),
    )
    steps = tuple(step.model_copy(update={"series": series}) for step in run.steps)
    return run.model_copy(update={"steps": steps})


def test_sides_are_overlaid_second_by_second(run_of: RunOf) -> None:
    """For each second of the window the median of a side's runs, within 10 and 90 % of them."""
    rows = np.random.default_rng(2).normal(1000, 100, (9, 20))
    sides = [
        Side("A", tuple(watched(run_of([1.0]), row.tolist()) for row in rows)),
        Side("B", tuple(watched(run_of([1.0]), (2 * row).tolist(), begin=2.0) for row in rows)),
    ]
    ((name, chart),) = run_charts.overlays(sides)
    low, high, middle, *others = chart.curves

    assert name == "sessions"
    assert middle.x == list(range(1, 21))
    assert np.allclose(middle.y, np.median(rows, axis=0), rtol=1e-3)
    assert np.allclose(low.y, np.quantile(rows, 0.1, axis=0), rtol=1e-3)
    assert np.allclose(high.y, np.quantile(rows, 0.9, axis=0), rtol=1e-3)
    assert high.style["fill"] == "tonexty"
    assert np.allclose(others[2].y, 2 * np.median(rows, axis=0), rtol=1e-3)


def test_windows_of_unequal_length_and_gaps_overlay_what_half_of_them_have(run_of: RunOf) -> None:
    """A second is drawn if at least half of the runs have it; a shorter run moves no other."""
    values = [[100.0] * 10, [100.0] * 10, [300.0] * 4]
    sides = [
        Side(name, tuple(watched(run_of([1.0]), row) for row in values)) for name in ("A", "B")
    ]
    ((_, chart),) = run_charts.overlays(sides)

    assert chart.curves[2].x == list(range(1, 11))
    assert chart.curves[2].y == [100.0] * 10


def test_one_side_is_not_overlaid(run_of: RunOf) -> None:
    """Without a second side, or where it has no series, there is no such chart."""
    side = Side("A", (watched(run_of([1.0]), [1.0] * 9),))

    assert list(run_charts.overlays([side])) == []
    assert list(run_charts.overlays([side, Side("B", (run_of([1.0]),))])) == []


@pytest.mark.parametrize(
    ("count", "last"), [(0, None), (9, None), (10, 0.0), (100, 90.0), (1000, 99.0), (6000, 99.75)]
)
def test_percentiles_are_drawn_as_far_as_ten_observations_support(
    count: int, last: float | None
) -> None:
    """Beyond the last percentile that is drawn there are ten observations or more."""
    shares = percentiles.supported(count)

    assert (shares[-1] if shares else None) == last


def test_no_latency_is_drawn_beyond_what_its_count_supports(run_of: RunOf) -> None:
    """500 operations say nothing of the 99.9th percentile."""
    histogram = HdrHistogram(1, 10**11, 3)
    for value in range(500):
        histogram.record_value(1000 + value)
    latency = Latency(payload=histogram.encode().decode(), operations=500)
    run = run_of([1.0])
    steps = tuple(step.model_copy(update={"latency": {"read": latency}}) for step in run.steps)
    side = Side("A", (run.model_copy(update={"steps": steps}),))
    ((_, chart),) = run_charts.latencies([side])

    assert chart.curves[0].texts[-1] == "p97.5"


def test_the_stack_of_the_processors_is_all_that_is_not_idle(run_of: RunOf) -> None:
    """Every state in which time was spent is a line of its own, and they add up to the rest."""
    shares = {"usr": 24.0, "nice": 40.0, "sys": 16.0, "irq": 1.0, "soft": 3.0, "steal": 9.0}
    shares |= {"guest": 2.0, "iowait": 1.0, "idle": 4.0, "gnice": 0.0}
    columns: dict[str, tuple[float | None, ...]]
    columns = {f"cpu.%{state}": (share, share) for state, share in shares.items()}
    run = run_of([1.0])
    made = Series(started="2026-01-01T00:00:00+00:00", seconds=(1.0, 2.0), columns=columns)
    run = run.model_copy(update={"steps": (run.steps[0].model_copy(update={"series": made}),)})
    (chart,) = run_charts.series([Side("A", (run,))])
    ((_, stacked, lines),) = [panel for panel in chart.series[0].panels if panel[0] == "CPU, %"]

    assert stacked
    assert len(lines) == 8
    assert sum(values[0] or 0.0 for _, values in lines) == 100 - shares["idle"]
