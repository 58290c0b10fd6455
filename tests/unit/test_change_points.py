"""Change points are tested for truth: seeded series with and without changes of their level."""

import numpy as np
import pytest
from numpy.typing import NDArray

from replayer.analysis.history import boot_units, change_points, metric_history
from replayer.analysis.history.metric_history import (
    HistoryChange,
    HistoryLevel,
    HistoryPoint,
    MetricHistory,
    RunHistory,
)
from replayer.commands import history as command
from replayer.errors import Worse
from replayer.model import Better
from replayer.report.documents import history as report
from tests.benchmarks import history

Floats = NDArray[np.float64]


def series(size: int, *steps: tuple[int, float], seed: int = 1) -> Floats:
    """Return values with noise 1 around 100, moved from each place on by so much."""
    values = np.random.default_rng(seed).normal(100, 1, size)
    for place, by in steps:
        values[place:] += by
    return values


def metric(values: Floats, boots: list[str]) -> MetricHistory:
    """Return the history of a metric, of which less is better, before it is searched."""
    points = [
        HistoryPoint(run=str(at), when=at, value=value, fact="", boot=boot)
        for at, (value, boot) in enumerate(zip(values.tolist(), boots, strict=True))
    ]
    return MetricHistory(
        name="m",
        unit="",
        better=Better.LESS,
        workload="w",
        work="",
        engine="",
        machine="",
        points=tuple(points),
    )


def searched(values: Floats, boots: list[str]) -> MetricHistory:
    """Return the history of a metric with its changes, as `replayer history` prints it."""
    return metric_history._with_changes(metric(values, boots), lambda _: None, "", 0.02, 1)


@pytest.mark.parametrize("size", [20, 100])
def test_a_series_without_a_change_is_rarely_divided(size: int) -> None:
    """Of 200 series at most 2 percent are, where 1 percent is promised."""
    divided = sum(bool(change_points.find(series(size, seed=seed))) for seed in range(200))

    assert divided <= 4


@pytest.mark.parametrize("alike", [0.5, 0.8])
@pytest.mark.parametrize("size", [40, 100])
def test_runs_that_resemble_those_before_them_are_no_change(size: int, alike: float) -> None:
    """Of 100 series without a change at most 5 percent are divided, at the promised most."""
    random = np.random.default_rng(1)
    divided = sum(bool(change_points.find(history.plain(size, alike, random))) for _ in range(100))

    assert divided <= 5


@pytest.mark.parametrize(
    ("boots", "runs", "noise"), [(8, 10, 0.003), (6, 10, 0.005), (12, 5, 0.01), (20, 5, 0.003)]
)
def test_boots_that_differ_are_no_change(boots: int, runs: int, noise: float) -> None:
    """Of 60 series whose boots vary by 2 percent at most 3 are divided: 5 percent are promised."""
    random = np.random.default_rng(1)
    drawn = [history.booted(boots, runs, noise, random) for _ in range(60)]

    assert sum(bool(change_points.find(values, of)) for values, of in drawn) <= 3


@pytest.mark.parametrize(("boots", "runs", "varies"), [(20, 5, 0.0), (40, 5, 0.02), (40, 1, 0.01)])
def test_a_change_is_found_in_runs_of_many_boots(boots: int, runs: int, varies: float) -> None:
    """Of 20 changes at least 14 are, at a boot near them; one of alike boots is at its very run."""
    random = np.random.default_rng(3)
    near = 2 * runs if varies else 0
    found = 0
    for _ in range(20):
        values, of = history.booted(boots, runs, 0.003, random, varies=varies)
        place = len(values) // 2
        values[place:] *= 0.95
        found += any(abs(at - place) <= near for at in change_points.find(values, of))

    assert found >= 14


def test_a_boot_of_each_run_changes_nothing() -> None:
    """Nor do boots that are not known: all are as strong as runs of no known boot."""
    values = series(60, (30, 4.0))
    expected = change_points.find(values)

    assert expected
    assert change_points.find(values, [f"boot-{number}" for number in range(60)]) == expected
    assert change_points.find(values, [""] * 60) == expected


@pytest.mark.parametrize(("change", "noise"), history.CHANGES)
def test_a_change_of_three_times_the_noise_is_found_with_twenty_runs_a_side(
    change: float, noise: float
) -> None:
    """Of 20 changes at least 18 are found at their place."""
    random = np.random.default_rng(2)

    assert sum(history.is_found(change, noise, (20, 20), random) for _ in range(20)) >= 18


@pytest.mark.parametrize("sides", [*history.LASTED, (10, 8, 12)])
def test_a_level_that_lasted_for_a_time_is_found_however_long(sides: history.Sides) -> None:
    """Of 20 levels of 30 times the noise, among three metrics, at least 18 begin and end."""
    random = np.random.default_rng(8)

    assert sum(history.is_found(*history.LASTED_CHANGE, sides, random, 3) for _ in range(20)) >= 18


@pytest.mark.parametrize(
    "steps",
    [
        [(60, -5.0)],
        [(60, -5.0), (90, 5.0)],
        [(60, 5.0), (68, -5.0)],
        [(117, -10.0)],
        [(40, 20.0), (80, 20.0)],
    ],
    ids=["a step", "down and up", "for eight runs", "the last three", "two steps up"],
)
def test_changes_of_five_times_the_noise_are_found(steps: list[tuple[int, float]]) -> None:
    """Each is found within a run or two of its place, and no other is."""
    found = change_points.find(series(120, *steps))

    assert len(found) == len(steps)
    assert all(abs(at - place) <= 2 for at, (place, _) in zip(found, steps, strict=True))


@pytest.mark.parametrize("place", [0, 1, 60, 118, 119])
def test_one_wild_run_is_no_change(place: int) -> None:
    """Not at an end, either."""
    values = series(120)
    values[place] -= 1000

    assert change_points.find(values) == []


def test_steps_of_a_count_without_noise_are_changes() -> None:
    """Values that are mostly equal have a change where they are no longer."""
    values = np.array([10.0] * 20 + [9.0] * 20)

    assert change_points.find(values) == [20]
    assert change_points.find(np.full(40, 10.0)) == []


def test_a_long_series_is_searched_at_few_places_and_still_divided_at_the_right_one() -> None:
    """Of 5,000 runs the change is found within three, however coarse the first search is."""
    (found,) = change_points.find(series(5000, (3333, -4.0)))

    assert abs(found - 3333) <= 3


@pytest.mark.slow
def test_the_more_series_are_searched_together_the_stronger_a_change_must_be() -> None:
    """What is shown among 20 series is shown alone as well, and not the other way round."""
    alone = sum(bool(change_points.find(series(60, (30, 1.7), seed=s))) for s in range(40))
    among = sum(
        bool(change_points.find(series(60, (30, 1.7), seed=s), family=20)) for s in range(40)
    )

    assert 0 < among < alone


@pytest.mark.parametrize("alike", [0.0, 0.5, 0.8])
def test_the_interval_of_a_change_holds_its_size_where_runs_resemble_each_other(
    alike: float,
) -> None:
    """Of 200 at least 84 percent do, where 95 are aimed at; of independent runs at least 92."""
    random = np.random.default_rng(6)
    held = 0
    for _ in range(200):
        values = 100 * np.exp(0.01 * history.plain(60, alike, random))
        values[30:] *= 1.1
        found = metric_history.resembling_ratio(values[:30].tolist(), values[30:].tolist())
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 1.1 <= found.high

    assert held >= (168 if alike else 184)


def test_the_interval_of_a_change_counts_boots_where_boots_differ() -> None:
    """Of 60 changes at least 54 lie in their interval; with runs as units, 20 or so would."""
    random = np.random.default_rng(7)
    held = 0
    for _ in range(60):
        values, of = history.booted(16, 10, 0.003, random)
        values[80:] *= 1.1
        one = metric(values, of)
        starts = boot_units.starts(values, of)
        change = metric_history._change(one, (0, 80, 160), starts, lambda _: None, "")
        assert change.low is not None
        assert change.high is not None
        held += change.low <= 0.1 <= change.high

    assert held >= 54


@pytest.mark.parametrize("better", [Better.MORE, Better.LESS])
def test_a_change_is_worse_in_the_direction_of_its_share(better: Better) -> None:
    """Of skewed values the medians rise from 100 to 101, though most pairs of runs fall."""
    values = np.array([100.0, 200.0] * 5 + [100.0] + [101.0, 90.0] * 5 + [101.0])
    one = metric(values, [""] * 22).model_copy(update={"better": better})
    change = metric_history._change(one, (0, 11, 22), range(22), lambda _: None, "")

    assert change.share is not None
    assert change.share < 0
    assert change.worse is (better is Better.MORE)


@pytest.mark.parametrize("better", Better)
def test_a_change_of_0_is_neither_worse_nor_better(better: Better) -> None:
    """Most pairs of runs are equal, though the level changed."""
    values = np.array([100.0] * 11 + [100.0] * 8 + [90.0] * 3)
    one = metric(values, [""] * 22).model_copy(update={"better": better})
    change = metric_history._change(one, (0, 11, 22), range(22), lambda _: None, "")

    assert (change.share, change.worse) == (0, None)


@pytest.mark.parametrize(("boots", "doubtful"), [((1, 5), True), ((5, 2), True), ((3, 3), False)])
def test_a_change_of_few_boots_on_a_side_is_a_doubt(
    boots: tuple[int, int], *, doubtful: bool
) -> None:
    """One or two boots may differ from the others by chance; runs of unknown boots show nothing."""
    before, after = (HistoryLevel(median=1.0, runs=20, boots=count) for count in boots)
    change = HistoryChange(
        at=20,
        run="r",
        when=0.0,
        before=before,
        after=after,
        share=0.1,
        low=None,
        high=None,
        worse=True,
    )

    assert change.may_be_boots is doubtful
    assert ("another boot alone may do this" in report._caution(change)) is doubtful


def long_boot(alike: float, by: float, random: np.random.Generator) -> tuple[Floats, list[str]]:
    """Return ten boots of three runs, and one of 100 runs with a change from its 51st on."""
    values, of = history.booted(10, 3, 0.003, random)
    runs = 1000 * np.exp(random.normal(0, 0.02) + 0.003 * history.plain(100, alike, random))
    runs[50:] *= 1 + by
    return np.append(values, runs), [*of, *["long"] * 100]


def test_a_change_inside_of_a_long_boot_is_found_at_its_run() -> None:
    """Another boot cannot be its cause; its size is that between the runs of this boot."""
    values, of = long_boot(0.0, 0.3, np.random.default_rng(4))

    (change,) = searched(values, of).changes

    assert (change.at, change.in_boot, change.may_be_boots) == (80, True, False)
    assert change.low is not None
    assert change.high is not None
    assert 0.29 < change.low < change.high < 0.31
    assert report._caution(change) == ""


def test_a_long_boot_whose_runs_resemble_each_other_has_no_change() -> None:
    """Of 60 series at most 3 are divided, with and without other boots."""
    random = np.random.default_rng(5)
    drawn = [long_boot(0.8, 0.0, random) for _ in range(60)]

    assert sum(bool(change_points.find(values, of)) for values, of in drawn) <= 3
    assert sum(bool(change_points.find(values[30:], of[30:])) for values, of in drawn) <= 3


FEW = [(5, 20), (6, 20), (8, 10), (10, 10)]


@pytest.mark.parametrize(("boots", "runs"), FEW)
def test_a_change_among_few_boots_is_named_and_never_fails_a_job(boots: int, runs: int) -> None:
    """A step of 30 percent where boots vary by 1 is shown with a caution, as it is not proven."""
    random = np.random.default_rng(3)
    for _ in range(10):
        values, of = history.booted(boots, runs, 0.003, random, varies=0.01)
        place = (boots // 2 + 1) * runs
        values[place:] *= 1.3
        found = searched(values, of)
        (change,) = found.changes

        assert (change.at, change.is_proven, change.may_be_boots) == (place, False, True)
        assert f"{boots} boots are too few to prove a change" in report._caution(change)
        traced = RunHistory(fact="", runs=len(values), series=(found,))
        assert report._headline(traced).startswith("a change that is not proven: m +")
        command._fail_if_worse(traced, 0.0)

    proven = found.model_copy(update={"changes": (change.model_copy(update={"is_proven": True}),)})
    with pytest.raises(Worse):
        command._fail_if_worse(traced.model_copy(update={"series": (proven,)}), 0.0)


@pytest.mark.parametrize(("boots", "runs"), [(4, 20), *FEW])
def test_few_boots_without_a_change_are_unclear(
    capsys: pytest.CaptureFixture[str], boots: int, runs: int
) -> None:
    """Of 60 series at most 3 name a change; the others have too few boots to show one."""
    random = np.random.default_rng(1)
    found = [searched(*history.booted(boots, runs, 0.003, random)) for _ in range(60)]
    plain = [one for one in found if not one.changes and one.boots]

    assert sum(bool(one.changes) for one in found) <= 3
    assert len(plain) >= 50
    for one in plain:
        title = report._metric(one).title
        assert f"{boots} boots are too few to show a change, which needs 11" in title
        assert "no change" not in title
    traced = RunHistory(fact="", runs=boots * runs, series=tuple(plain))
    command._fail_if_worse(traced, 0.0)
    assert "--fail-if-worse does not judge this" in capsys.readouterr().err
    assert report._headline(traced).endswith(f"; unclear: {len(plain)} of {len(plain)} metrics")


def test_boots_that_are_enough_show_a_change_or_none() -> None:
    """Eleven boots are the fewest that prove one; only then a title has "no change"."""
    values, of = history.booted(11, 10, 0.003, np.random.default_rng(3), varies=0.01)
    assert report._metric(searched(values, of)).title.endswith(", no change")

    values[50:] *= 1.3
    (change,) = searched(values, of).changes
    assert (change.at, change.is_proven) == (50, True)
