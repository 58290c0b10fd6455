"""Two kernels compared: right and wrong verdicts over seeded draws, and like with like only."""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from replayer.analysis.differences.cautions import warn_controls
from replayer.analysis.differences.comparison import LIKELY, Comparison, MetricVerdict, compare
from replayer.analysis.differences.environment import Sort
from replayer.analysis.differences.samples import Side, Unit
from replayer.errors import Impossible
from replayer.model import Better, EngineFacts, Measurement, Run, Status, StepResult
from replayer.report.documents.verdict_words import verdict
from tests.fixture_types import RunOf
from tests.known import known
from tests.made import altered, at_once, screen_of


@pytest.fixture
def side(run_of: RunOf) -> Callable[..., Side]:
    """Return a function that makes a side of runs with one repeat each, each in its own boot.

    No side comes after another.
    """

    def make(name: str, values: Sequence[float], **more: Any) -> Side:
        runs = [
            run_of([value], boot=f"{name}{number}", **more) for number, value in enumerate(values)
        ]
        return at_once(Side(name, tuple(runs)))

    return make


def verdicts(comparison: Comparison) -> dict[str, MetricVerdict | None]:
    """Return metric -> verdict."""
    return {row.metric: row.verdict for row in comparison.rows}


def apart(comparison: Comparison) -> set[str]:
    """Return the metrics that came out as better or worse."""
    return {
        m
        for m, v in verdicts(comparison).items()
        if v in (MetricVerdict.BETTER, MetricVerdict.WORSE)
    }


@pytest.fixture
def boots(run_of: RunOf) -> Callable[..., list[Side]]:
    """Return a function that makes runs of a workload with many metrics, one boot each, in order.

    `order` is a letter a boot; `values` is metrics x boots.  The metrics are of `steps` steps, the
    first of each of which leads.
    """

    def make(order: str, values: Any, steps: int = 1) -> list[Side]:
        sides: dict[str, list[Run]] = {name: [] for name in sorted(set(order))}
        each = -(-len(values) // steps)
        for number, name in enumerate(order):
            run = run_of([1.0], boot=f"b{number}", kernel=name)
            made = [
                altered(
                    run.steps[0],
                    name=f"s{step}",
                    measurements=tuple(
                        Measurement(
                            metric=f"sessions.m{metric}",
                            value=values[metric][number],
                            unit="1/s",
                            better=Better.MORE,
                        )
                        for metric in range(step * each, min(len(values), (step + 1) * each))
                    ),
                )
                for step in range(steps)
            ]
            sides[name].append(altered(run, steps=tuple(made)))
        return [Side(name, tuple(runs)) for name, runs in sides.items()]

    return make


ABBA, AABB = "ABBAABBAABBA", "AAAAAABBBBBB"


def test_everything_half_as_fast_is_told_by_six_boots_with_31_metrics(
    boots: Callable[..., list[Side]],
) -> None:
    """6 against 6 boots, 31 metrics, all 50 percent worse: each of them is told to be worse."""
    values = np.exp(np.random.default_rng(1).normal(0, 0.05, (31, 12)))
    values[:, [letter == "B" for letter in ABBA]] *= 0.5
    compared = compare(*boots(ABBA, values, steps=6))

    assert compared.family == 31
    assert set(verdicts(compared).values()) == {MetricVerdict.WORSE}


def test_one_leading_metric_is_told_by_six_boots_among_31(boots: Callable[..., list[Side]]) -> None:
    """The leading metric of one step of six is 50 percent worse and nothing else is: it is told."""
    values = np.exp(np.random.default_rng(2).normal(0, 0.05, (31, 12)))
    values[0, [letter == "B" for letter in ABBA]] *= 0.5
    compared = compare(*boots(ABBA, values, steps=6))

    assert verdicts(compared)["sessions.m0"] is MetricVerdict.WORSE
    assert apart(compared) == {"sessions.m0"}


def saying(says: Sequence[str], side: Side) -> Side:
    """Return a side whose metrics repeat those of these names, in their order."""

    def repeated(step: StepResult) -> StepResult:
        pairs = zip(step.measurements, says, strict=True)
        made = tuple(one.model_copy(update={"says": said}) for one, said in pairs)
        return altered(step, measurements=made)

    return Side(
        side.name,
        tuple(altered(run, steps=tuple(map(repeated, run.steps))) for run in side.runs),
    )


def test_metrics_that_repeat_another_count_once(boots: Callable[..., list[Side]]) -> None:
    """Those that say what another says have its verdict, and no part in the family."""
    values = np.exp(np.random.default_rng(3).normal(0, 0.05, (8, 12)))
    values[:, [letter == "B" for letter in ABBA]] *= 0.5
    says = ("", *["sessions.m0"] * 7)
    sides = [saying(says, side) for side in boots(ABBA, values)]
    compared = compare(*sides)

    assert compared.family == 1
    assert len(apart(compared)) == 8
    assert {row.p_holm for row in compared.rows} == {compared.rows[0].p}


def test_metrics_that_repeat_each_other_in_a_chain_are_compared(
    boots: Callable[..., list[Side]],
) -> None:
    """No step has such, but a result that was edited may."""
    values = np.exp(np.random.default_rng(3).normal(0, 0.05, (3, 12)))
    says = ("", "sessions.m0", "sessions.m1")
    sides = [saying(says, side) for side in boots(ABBA, values)]

    assert len(compare(*sides).rows) == 3


def test_a_drift_is_taken_out_of_boots_that_took_turns(boots: Callable[..., list[Side]]) -> None:
    """10 percent of drift over 12 boots, 1 percent of noise: a true 5 percent is seen in 95 %."""
    random = np.random.default_rng(4)
    drift = np.linspace(1, 0.9, 12)
    slower = np.where([letter == "B" for letter in ABBA], 0.95, 1.0)
    seen = [
        compare(*boots(ABBA, [drift * slower * np.exp(random.normal(0, 0.01, 12))]))
        for _ in range(100)
    ]

    assert sum(bool(apart(one)) for one in seen) >= 95
    assert 0.93 < np.median([one.rows[0].ratio for one in seen]) < 0.97
    assert all("drift of -" in one.rows[0].note for one in seen if one.rows[0].drift)


def test_a_drift_alone_is_no_difference_between_boots_that_took_turns(
    boots: Callable[..., list[Side]],
) -> None:
    """The same drift without any difference is called one in at most 5 percent and 2 more."""
    random = np.random.default_rng(5)
    drift = np.linspace(1, 0.9, 12)
    wrong = [
        bool(apart(compare(*boots(ABBA, [drift * np.exp(random.normal(0, 0.01, 12))]))))
        for _ in range(200)
    ]

    assert sum(wrong) <= 14


def test_boots_that_did_not_take_turns_are_told(boots: Callable[..., list[Side]]) -> None:
    """AAAABBBB is said to be so, ABBA is not, and no drift is taken out where it cannot be told."""
    values = [np.linspace(1, 0.9, 12)]
    after, turns = (compare(*boots(order, values)) for order in (AABB, ABBA))

    assert any("all boots of B came after those of A" in words for words in after.warnings)
    assert after.rows[0].drift is None
    assert (after.turns, after.decides) == (False, False)
    assert not any("came after" in words for words in turns.warnings)
    assert turns.rows[0].drift == pytest.approx(-0.1, abs=0.01)
    assert turns.decides


def test_without_turns_nothing_is_better_or_worse(boots: Callable[..., list[Side]]) -> None:
    """AABB: a drift of 10 percent is unclear, half as fast differs in these runs, never more."""
    random = np.random.default_rng(14)
    drifted, halved = [], []
    for _ in range(40):
        noise = np.exp(random.normal(0, 0.01, (4, 12)))
        drifted.append(compare(*boots(AABB, noise * np.linspace(1, 0.9, 12))))
        noise[:, 6:] *= 0.5
        halved.append(compare(*boots(AABB, noise)))

    for one in (*drifted, *halved):
        assert not apart(one)
        assert not {MetricVerdict.LIKELY_BETTER, MetricVerdict.LIKELY_WORSE} & set(
            verdicts(one).values()
        )
    assert np.mean([MetricVerdict.DIFFERS in verdicts(one).values() for one in drifted]) <= 0.2
    notes = [row.note for one in drifted for row in one.rows]
    assert np.mean(["a drift could make it" in note for note in notes]) >= 0.8
    assert all(set(verdicts(one).values()) == {MetricVerdict.DIFFERS} for one in halved)
    assert "take turns" in halved[0].headline


def test_noise_that_lasts_is_rarely_a_difference_without_turns(
    boots: Callable[..., list[Side]],
) -> None:
    """Each boot resembles the one before it by 0.8, AABB: a rank test alone says so in half."""
    random = np.random.default_rng(15)
    differs, ranked = [], []
    for _ in range(200):
        walk = [0.0]
        for step in random.normal(0, 0.018, 30):
            walk.append(0.8 * walk[-1] + step)
        row = compare(*boots(AABB, [np.exp(walk[-12:])])).rows[0]
        differs.append(row.verdict is MetricVerdict.DIFFERS)
        ranked.append(known(row.p) <= 0.05)

    assert np.mean(ranked) >= 0.35
    assert np.mean(differs) <= 0.5 * np.mean(ranked)


@pytest.mark.parametrize("order", ["AAABBBBBBAAA", "AAAABBBBBBBBAAAA", "AABBBBAAAABBBBAA"])
def test_noise_that_lasts_is_rarely_a_difference_between_blocks(
    boots: Callable[..., list[Side]], order: str
) -> None:
    """Each boot resembles the one before it by 0.8: no verdict, and at most 5 % differ and 4 more.

    Neither side is the later one.
    """
    random = np.random.default_rng(16)
    seen = []
    for _ in range(100):
        walk = [0.0]
        for step in random.normal(0, 0.018, 20 + len(order)):
            walk.append(0.8 * walk[-1] + step)
        seen.append(compare(*boots(order, [np.exp(walk[-len(order) :])])))

    assert not any(map(apart, seen))
    assert sum(one.rows[0].verdict is MetricVerdict.DIFFERS for one in seen) <= 9
    assert not any(one.turns for one in seen)
    assert all("measured in long blocks" in one.warnings[0] for one in seen)


def test_a_machine_that_warms_up_makes_no_difference_between_blocks(
    boots: Callable[..., list[Side]],
) -> None:
    """AAAABBBBBBBBAAAA on a machine that settles over five boots: never better or worse."""
    random = np.random.default_rng(17)
    warm = 0.2 * np.exp(-np.arange(16) / 3)
    seen = [
        compare(*boots("AAAABBBBBBBBAAAA", [np.exp(warm + random.normal(0, 0.01, 16))])).rows[0]
        for _ in range(40)
    ]

    assert {row.verdict for row in seen} == {MetricVerdict.UNCLEAR}


def test_a_control_that_differs_refuses_what_came_one_after_the_other(run_of: RunOf) -> None:
    """In AABB, where the CPU was slower in all of B; in turns it is told beside the verdict."""
    made = [
        run_of([value], boot=f"{n}", control=control(level, level))
        for n, (value, level) in enumerate([(100.0 + i, 100.0) for i in range(6)]
                                           + [(80.0 + i, 90.0) for i in range(6)])
    ]  # fmt: skip
    sides = Side("A", tuple(made[:6])), Side("B", tuple(made[6:]))
    after, turns = compare(*sides), compare(*map(at_once, sides))

    assert after.rows[0].verdict is MetricVerdict.UNCLEAR
    assert "a control differs too" in after.rows[0].note
    assert turns.rows[0].verdict is MetricVerdict.WORSE
    assert any("control" in words for words in turns.warnings)


def test_one_of_many_metrics_that_moves_a_little_is_likely(
    boots: Callable[..., list[Side]],
) -> None:
    """3 percent worse among 25, 6 boots a side: likely, with how many boots can show it."""
    random = np.random.default_rng(16)
    found = []
    for _ in range(40):
        values = np.exp(random.normal(0, 0.008, (25, 12)))
        values[24, [letter == "B" for letter in ABBA]] *= 0.97
        compared = compare(*boots(ABBA, values))
        found.append(compared.rows[-1])
        assert len({row.verdict for row in compared.rows} & LIKELY) <= 2

    likely = [row for row in found if row.verdict is MetricVerdict.LIKELY_WORSE]
    assert len(likely) >= 32
    words = verdict(likely[0], Unit.BOOT)
    assert re.fullmatch(r"likely worse; \d+ boots a side can show it", words)
    assert known(likely[0].more) >= 1
    rest = [row for row in found if row.verdict is MetricVerdict.UNCLEAR]
    assert all("alone it would count, among 25 metrics not" in row.note
               for row in rest if known(row.high) < 1)  # fmt: skip


@pytest.mark.slow
def test_no_interval_without_one_stands_beside_a_bare_unclear(
    boots: Callable[..., list[Side]],
) -> None:
    """A against A, 25 metrics: the row says why, and at most one comparison in five has likely."""
    random = np.random.default_rng(17)
    likely, explained = 0, 0
    for _ in range(60):
        rows = compare(*boots(ABBA, np.exp(random.normal(0, 0.02, (25, 12))))).rows
        likely += bool({row.verdict for row in rows} & LIKELY)
        for row in rows:
            if row.verdict is MetricVerdict.UNCLEAR and not known(row.low) <= 1 <= known(row.high):
                assert "alone it would count" in row.note
                explained += 1

    assert likely <= 15
    assert explained >= 20


def test_two_boots_that_differ_by_themselves_give_no_verdict_on_the_kernel(run_of: RunOf) -> None:
    """One boot of each with ten repeats that differ by the boot alone: never better or worse."""
    random = np.random.default_rng(6)
    seen = set()
    for _ in range(40):
        sides = [
            Side(n, (run_of(random.normal(1000 * random.normal(1, 0.03), 5, 10), boot=n),))
            for n in "AB"
        ]
        seen.add(compare(*sides).rows[0].verdict)

    assert MetricVerdict.DIFFERS in seen
    assert not {MetricVerdict.BETTER, MetricVerdict.WORSE, MetricVerdict.SAME} & seen


def test_values_that_never_vary_are_the_same(run_of: RunOf) -> None:
    """A table of as many bytes in all boots is the same: in three of each, only in these runs."""

    def sides(boots: int) -> list[Side]:
        sizes = {"build.size": [7]}
        return [Side(n, tuple(run_of(boot=f"{n}{i}", **sizes) for i in range(boots))) for n in "AB"]

    few, many = (compare(*map(at_once, sides(boots))) for boots in (3, 4))
    assert verdicts(few)["build.size"] is MetricVerdict.ALIKE
    assert "within 2 % in these runs" in few.headline
    assert "same in these runs" in screen_of(few)
    assert verdicts(many)["build.size"] is MetricVerdict.SAME
    assert "in these runs" not in many.headline


@pytest.mark.parametrize("runs", [2, 3, 4, 8])
def test_only_too_few_runs_are_called_too_few(run_of: RunOf, runs: int) -> None:
    """Eight runs with no error each need no more runs: nothing varied, and it says so."""
    sides = [
        Side(name, tuple(run_of(boot="one", **{"replay.errors": [0]}) for _ in range(runs)))
        for name in "AB"
    ]
    text = " ".join(screen_of(compare(*map(at_once, sides)), full=True).split())

    assert ("at least 4 runs of each side" in text) is (runs < 4)
    assert ("so few runs can never show them" in text) is (runs < 4)
    assert ("no metric with enough runs varied, so nothing was tested" in text) is (runs >= 4)


def test_a_metric_that_few_of_the_runs_have_does_not_make_them_few(run_of: RunOf) -> None:
    """Five runs a side are enough for one that they all have: the headline asks for no four."""
    sides = []
    for name in "AB":
        values = [{"build.size": [7]}] * 3 + [
            {"build.size": [7], "build.seconds": [n]} for n in (2, 3)
        ]
        runs = tuple(run_of(boot="one", **known) for known in values)
        sides.append(at_once(Side(name, runs)))
    compared = compare(*sides)

    assert compared.family == 0
    assert compared.headline.startswith("no difference between A and B was shown: ")
    assert "it takes 4 runs" not in compared.headline


def test_three_against_three_is_unclear(side: Callable[..., Side]) -> None:
    """Three runs a side can never be significant, however far apart, and it says how many would."""
    row = compare(side("A", [100, 101, 102]), side("B", [200, 201, 202])).rows[0]

    assert row.verdict is MetricVerdict.UNCLEAR
    assert row.more == 1


def test_the_answer_has_one_metric_and_one_more_boot_in_the_singular(
    side: Callable[..., Side],
) -> None:
    """A comparison of one metric is not `of 1 metrics`, nor settled by `1 more boots`."""
    same = compare(side("A", [100] * 4), side("B", [100] * 4))
    unclear = compare(side("A", [100, 101, 102]), side("B", [200, 201, 202]))

    assert same.headline == "B is the same as A within 2 %, in 1 metric"
    assert ": 1 unclear of 1 metric;" in unclear.headline
    assert re.search(r"unclear, ~1 more boot\b", screen_of(unclear, width=160))


def test_what_would_settle_many_metrics_counts_their_correction(run_of: RunOf) -> None:
    """Three boots without noise need two more for a leading metric, four for 19 others."""
    names = [f"sessions.m{number}" for number in range(19)]

    def runs(level: float) -> tuple[Run, ...]:
        return tuple(
            run_of([level + i], boot=f"{level + i}", **{name: [level + i] for name in names})
            for i in (0.0, 0.1, 0.2)
        )

    found = compare(Side("A", runs(100)), Side("B", runs(200)))

    assert found.family == 0
    assert {row.more for row in found.rows if row.leading} == {2}
    assert {row.more for row in found.rows if not row.leading} == {4}


def directed(side: Side, better: Sequence[Better]) -> Side:
    """Return a side whose runs have these directions of RIOPS, and rates of another metric."""
    runs = []
    for run, one in zip(side.runs, better, strict=True):
        (step,) = run.steps
        (riops,) = step.measurements
        work = altered(riops, metric="sessions.operations")
        both = (altered(riops, better=one), work)
        steps = (altered(step, measurements=both),)
        runs.append(altered(run, steps=steps))
    return Side(side.name, tuple(runs))


@pytest.mark.parametrize(
    ("base", "other", "said"),
    [
        ([Better.MORE] * 6, [Better.NEITHER] * 6, "0 of 6 results of A, 6 of 6 results of B"),
        ([Better.NEITHER] * 6, [Better.MORE] * 6, "6 of 6 results of A, 0 of 6 results of B"),
        (
            [Better.MORE] * 5 + [Better.NEITHER],
            [Better.MORE] * 6,
            "1 of 6 results of A, 0 of 6 results of B",
        ),
    ],
)
def test_a_metric_that_says_nothing_in_some_results_is_not_judged(
    side: Callable[..., Side], base: list[Better], other: list[Better], said: str
) -> None:
    """As the blocks missed, where buffers had nearly all; the others are, and one of them leads."""
    values = [100.0, 101, 102, 103, 104, 105]
    a, b = side("A", values), side("B", [value / 2 for value in values])

    found = compare(directed(a, base), directed(b, other))

    assert verdicts(found) == {"sessions.riops": None, "sessions.operations": MetricVerdict.WORSE}
    assert {row.metric for row in found.rows if row.leading} == {"sessions.operations"}
    assert f"sessions.riops is not judged: it has no good direction in {said}" in found.warnings


def test_opposite_directions_are_refused(side: Callable[..., Side]) -> None:
    """One of the two is wrong, and nobody knows which."""
    values = [100.0, 101]
    sides = directed(side("A", values), [Better.LESS] * 2), side("B", values)
    with pytest.raises(Impossible, match="less is better"):
        compare(*sides)


@pytest.mark.parametrize("change", [{"unit": "MB/s"}, {"better": Better.LESS}])
def test_units_and_directions_that_differ_within_a_side_are_refused(
    side: Callable[..., Side], change: dict[str, Any]
) -> None:
    """One run of four in another unit: the values cannot be put together, whichever is first."""
    base, other = side("A", [1000.0] * 4), side("B", [1000.0] * 4)
    first, *rest = other.runs
    step = first.steps[0]
    made = tuple(altered(one, **change) for one in step.measurements)
    odd = altered(first, steps=(altered(step, measurements=made),))

    for runs in ((odd, *rest), (*rest, odd)):
        with pytest.raises(Impossible, match="in others of B"):
            compare(base, Side("B", runs))


def test_boots_with_a_shared_offset_make_no_false_verdicts(run_of: RunOf) -> None:
    """Runs share their boot's offset of 3 percent: boots are the unit, and A against A is quiet."""
    random = np.random.default_rng(4)

    def made(name: str) -> Side:
        runs = [
            run_of([mean * (1 + random.normal(0, 0.002))], boot=f"{name}{boot}")
            for boot in range(5)
            for mean in [1000 * (1 + random.normal(0, 0.03))]
            for _ in range(3)
        ]
        return at_once(Side(name, tuple(runs)))

    wrong = 0
    for _ in range(200):
        found = compare(made("A"), made("B"))
        wrong += bool(apart(found))

    assert found.unit is Unit.BOOT
    assert len(found.rows[0].base_values) == 5
    assert wrong <= 10


def test_boots_are_found_different_where_they_are(run_of: RunOf) -> None:
    """Six boots a side that differ by 10 percent with 1 percent between boots are told apart."""
    random = np.random.default_rng(5)
    sides = [
        Side(
            name,
            tuple(
                run_of(
                    random.normal(mean * (1 + random.normal(0, 0.01)), 2, 3), boot=f"{name}{boot}"
                )
                for boot in range(6)
            ),
        )
        for name, mean in (("A", 1000), ("B", 1100))
    ]
    found = compare(*map(at_once, sides))

    assert found.unit is Unit.BOOT
    assert verdicts(found)["sessions.riops"] is MetricVerdict.BETTER
    row = found.rows[0]
    assert known(row.low) <= 1.1 <= known(row.high)


def test_the_unit_is_the_boot_else_the_run_else_the_repeat(run_of: RunOf) -> None:
    """Several boots count as boots, several runs of one boot as runs, one run a side as repeats."""
    one, two = run_of([1, 1, 1], boot="x"), run_of([1, 1, 1], boot="y")
    third, fourth = run_of([1, 1, 1], boot="z"), run_of([1, 1, 1], boot="z")

    assert compare(Side("A", (one, two)), Side("B", (third,))).unit is Unit.BOOT
    assert compare(Side("A", (third, fourth)), Side("B", (one,))).unit is Unit.RUN
    repeats = compare(Side("A", (one,)), Side("B", (two,)))
    assert repeats.unit is Unit.REPEAT
    assert len(repeats.rows[0].base_values) == 3
    assert "run to run" in repeats.worth


def test_unknown_boots_count_as_runs(run_of: RunOf) -> None:
    """Runs that do not say from which boot they are, as imported ones, count each by itself."""
    sides = [Side(n, tuple(run_of([1], host={"boot.id": None}) for _ in range(2))) for n in "AB"]

    assert compare(*sides).unit is Unit.RUN


def test_same_needs_the_interval_within_the_threshold(side: Callable[..., Side]) -> None:
    """A shift of 0.2 percent is the same at 2 percent, and not at 0.1 percent."""
    random = np.random.default_rng(6)
    base, other = (side(n, random.normal(m, 1, 20)) for n, m in (("A", 1000), ("B", 1002)))

    assert compare(base, other).rows[0].verdict is MetricVerdict.SAME
    assert compare(base, other, threshold=0.001).rows[0].verdict is MetricVerdict.BETTER


def test_less_is_better_where_the_metric_says_so(run_of: RunOf) -> None:
    """A p99 that doubled is worse, with a ratio of 2."""
    sides = [
        Side(
            n,
            tuple(
                run_of([1000 + i], boot=f"{n}{i}", **{"sessions.p99": [m + i / 1e4]})
                for i in range(6)
            ),
        )
        for n, m in (("A", 0.1), ("B", 0.2))
    ]
    compared = compare(*map(at_once, sides))
    row = next(row for row in compared.rows if row.metric == "sessions.p99")

    assert (row.verdict, round(known(row.ratio), 2)) == (MetricVerdict.WORSE, 2.0)
    assert row.change == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize(
    ("base", "other", "verdict"),
    [
        ([0.0] * 6, [0.0] * 6, MetricVerdict.SAME),
        ([0.0] * 6, [5.0, 6, 7, 8, 9, 10], MetricVerdict.BETTER),
        ([-5.0, -6, -7, -8, -9, -10], [5.0, 6, 7, 8, 9, 10], MetricVerdict.BETTER),
    ],
)
def test_zero_and_negative_values_have_a_verdict_and_no_ratio(
    side: Callable[..., Side], base: list[float], other: list[float], verdict: MetricVerdict
) -> None:
    """Values without a ratio are still ranked, and the row says why there is none."""
    row = compare(side("A", base), side("B", other)).rows[0]

    assert (row.verdict, row.ratio) == (verdict, None)
    assert "zero or below" in row.note


def test_values_that_are_no_numbers_do_not_count(side: Callable[..., Side]) -> None:
    """NaN and infinity are left out and named."""
    found = compare(side("A", [1, 2, float("nan"), 3]), side("B", [1, 2, 3, float("inf")]))

    assert len(found.rows[0].base_values) == len(found.rows[0].other_values) == 3
    assert sum("does not count" in warning for warning in found.warnings) == 2


def test_warming_repeats_are_kept_but_not_counted(run_of: RunOf) -> None:
    """The first repeats, slower by a third, do not count; the comparison names them."""
    warm = run_of([600, 750, 1000, 1001, 999, 1000, 1002])
    found = compare(Side("A", (warm,)), Side("B", (run_of([1000] * 7),)))

    assert found.rows[0].base_values == (1000, 1001, 999, 1000, 1002)
    assert any("first 2 of 7 repeats" in warning for warning in found.warnings)


def test_a_run_that_never_settles_says_so(run_of: RunOf) -> None:
    """A run whose repeats only rise counts in full, with a warning."""
    found = compare(Side("A", (run_of([100, 200, 300, 400, 500]),)), Side("B", (run_of([1] * 5),)))

    assert any("never settled" in warning for warning in found.warnings)
    assert len(found.rows[0].base_values) == 5


def test_metrics_without_a_direction_have_no_verdict(run_of: RunOf) -> None:
    """A row count is shown, not judged, and no part of the family."""
    sides = [Side(n, (run_of([1, 2, 3, 4], **{"build.rows": [7, 7, 7, 7]}),)) for n in "AB"]
    found = compare(*sides)
    row = next(row for row in found.rows if row.metric == "build.rows")

    assert (row.verdict, found.family) == (None, 1)


def test_only_the_metrics_asked_for_are_compared(run_of: RunOf) -> None:
    """--metric chooses before looking, and so makes the family smaller."""
    sides = [Side(n, (run_of([1, 2, 3], **{"sessions.p99": [1, 2, 3]}),)) for n in "AB"]

    # By its name, by the name that the table shows, and by that of the step, in any case.
    for pattern in ("*.p99", "p99", "P99", "sessions.p99"):
        assert [row.metric for row in compare(*sides, metrics=[pattern]).rows] == ["sessions.p99"]
    with pytest.raises(Impossible, match="no metric like walk"):
        compare(*sides, metrics=["walk.*"])


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"workload": "smoke"}, "workload.name"),
        (
            {"spec": {"step": "sessions", "name": "sessions", "num_threads": 8}},
            "workload.sessions.num_threads",
        ),
        (
            {
                "engine": EngineFacts(
                    name="postgres",
                    version="17.2",
                    place="private",
                    settings={"shared_buffers": "128MB"},
                )
            },
            "engine.version",
        ),
        (
            {
                "engine": EngineFacts(
                    name="postgres",
                    version="18.1",
                    place="private",
                    settings={"shared_buffers": "1GB"},
                )
            },
            "engine.settings.shared_buffers",
        ),
        ({"build.rows": [5, 5, 5]}, "data.sessions.rows"),
    ],
)
def test_unlike_work_is_refused_unless_allowed(
    run_of: RunOf, change: dict[str, Any], key: str
) -> None:
    """Other workloads, settings, versions, row counts: refused by name; allowed, it is listed."""
    rows = {} if "build.rows" not in change else {"build.rows": [4, 4, 4]}
    base, other = Side("A", (run_of([1, 2, 3], **rows),)), Side("B", (run_of([1, 2, 3], **change),))

    with pytest.raises(Impossible, match=f"--allow {key}"):
        compare(base, other)
    found = compare(base, other, allowed=[key])
    assert Sort.EXPLAINS in {d.sort for d in found.differences if d.key == key}


def test_what_a_refusal_says_allows_everything_that_it_refused(run_of: RunOf) -> None:
    """Two engines have dozens of settings of their own: one pattern allows them, as printed."""
    sides = [
        Side(
            name,
            (
                run_of(
                    [1, 2, 3],
                    engine=EngineFacts(
                        name=name,
                        version=name,
                        place="private",
                        settings={f"{name}_{number}": "on" for number in range(9)},
                    ),
                ),
            ),
        )
        for name in ("duckdb", "clickhouse")
    ]
    with pytest.raises(Impossible) as refused:
        compare(*sides)
    words = shlex.split(str(refused.value).partition("allow that with ")[2])

    assert len(words) == 2 * 3
    assert compare(*sides, allowed=words[1::2]).rows


def test_differences_are_sorted_by_what_they_mean(run_of: RunOf) -> None:
    """The kernel was asked for, the scheduler may explain, the boot id is noise."""
    base = Side(
        "A",
        (
            run_of(
                [1],
                kernel="6.1",
                boot="1",
                host={"device.scheduler": "none", "cpu.mhz": 2400.0, "fs.type": "ext4"},
            ),
        ),
    )
    other = Side(
        "B",
        (
            run_of(
                [1],
                kernel="6.12",
                boot="2",
                host={"device.scheduler": "mq-deadline", "cpu.mhz": 2401.0, "fs.type": "ext4"},
            ),
        ),
    )
    sorts = {d.key: d.sort for d in compare(base, other, by="host.kernel.release").differences}

    assert sorts == {
        "host.kernel.release": Sort.ASKED,
        "host.device.scheduler": Sort.EXPLAINS,
        "host.boot.id": Sort.NOISE,
        "host.cpu.mhz": Sort.NOISE,
    }


def test_the_folder_of_a_servers_socket_explains_nothing(run_of: RunOf) -> None:
    """Each server that is started has another one; not even where all settings are allowed."""

    def one(name: str, folder: str) -> Side:
        settings = {"unix_socket_directories": folder, "io_method": name}
        engine = EngineFacts(
            name="postgres", version="18.1", place="private", settings=dict(settings)
        )
        return Side(name, (run_of([1], engine=engine),))

    found = compare(one("A", "/tmp/a"), one("B", "/tmp/b"), allowed=("*",)).differences
    assert {d.key for d in found if d.sort is Sort.EXPLAINS} == {"engine.settings.io_method"}


def test_a_boot_file_in_the_command_line_is_no_difference(run_of: RunOf) -> None:
    """The kernel's file name on its command line differs by nature, mitigations=off does not."""

    def one(name: str, kernel: str, more: str = "") -> Side:
        line = f"BOOT_IMAGE=/vmlinuz-{kernel} root=/dev/vda{more}"
        return Side(name, (run_of([1], kernel=kernel, host={"kernel.cmdline": line}),))

    plain = compare(one("A", "6.1"), one("B", "6.12"))
    off = compare(one("A", "6.1"), one("B", "6.12", " mitigations=off"))

    assert "host.kernel.cmdline" not in {d.key for d in plain.differences}
    assert "host.kernel.cmdline" in {d.key for d in off.differences}


def test_a_run_on_both_sides_is_refused(run_of: RunOf) -> None:
    """A run is not compared with itself."""
    run = run_of([1])

    with pytest.raises(Impossible, match="both sides"):
        compare(Side("A", (run,)), Side("B", (run,)))


def test_an_interrupted_run_counts_with_a_warning(run_of: RunOf) -> None:
    """Finished steps of an interrupted run count, and it is said."""
    found = compare(Side("A", (run_of([1], status=Status.INTERRUPTED),)), Side("B", (run_of([1]),)))

    assert any("interrupted" in warning for warning in found.warnings)


def control(before: float, after: float, spread: float = 1.0) -> dict[str, tuple[float, ...]]:
    """Return a CPU control of six processes before and after a run."""
    off = np.linspace(-spread, spread, 6)
    return {"cpu.before": tuple(before + off), "cpu.after": tuple(after + off), "processes": (6.0,)}


def controlled(run_of: RunOf, *controls: Mapping[str, tuple[float, ...]]) -> list[str]:
    """Return what is said of the control of as many boots, which take turns."""
    runs = [run_of([1], boot=f"{i}", control=one) for i, one in enumerate(controls)]
    compared = compare(Side("A", tuple(runs[::2])), Side("B", tuple(runs[1::2])))
    return [words for words in compared.warnings if "control" in words]


def test_a_control_that_moved_is_told_once(run_of: RunOf) -> None:
    """A CPU that lost a tenth during two of six runs is one sentence; once in many is chance."""
    still, moved = control(100, 100), control(100, 90)

    (sentence,) = controlled(run_of, moved, moved, still, still, still, still)
    assert "2 of 6 runs, by up to -10.0%" in sentence
    assert controlled(run_of, moved, still)
    assert controlled(run_of, moved, *[still] * 11) == []
    assert controlled(run_of, still, still) == []


def test_a_control_that_is_slower_on_one_side_is_told(run_of: RunOf) -> None:
    """Ten percent off in every run of one side is told, and what overlaps is not."""
    fast, slow, wide = control(100, 100), control(90, 90), control(97, 97, spread=5)

    assert ["-10.0% in B" in words for words in controlled(run_of, fast, slow)] == [True]
    assert controlled(run_of, *[fast, slow] * 6)
    assert controlled(run_of, fast, wide) == []


def test_the_control_is_rarely_told_of_by_chance(run_of: RunOf) -> None:
    """Of 200 comparisons of 6 against 6 boots of a noisy machine at most 2 percent speak of it."""
    random = np.random.default_rng(7)
    runs = [run_of([1], boot=f"{number}") for number in range(12)]

    def noisy() -> dict[str, tuple[float, ...]]:
        values = (random.normal(100, 5, (4, 6)) * random.choice([1, 0.9], (4, 6))).tolist()
        keys = ("cpu.before", "cpu.after", "memory.before", "memory.after")
        return {**dict(zip(keys, values, strict=True)), "processes": (6.0,)}

    spoke = 0
    for _ in range(200):
        made = [altered(run, control=noisy()) for run in runs]
        spoke += bool(warn_controls(Side("A", tuple(made[::2])), Side("B", tuple(made[1::2]))))

    assert spoke <= 4


@pytest.mark.parametrize(
    ("base", "other", "by", "words"),
    [
        ("1", "2", "", "replayer 1 made the runs of A, and 2 those of B"),
        ("1", "12", "", "replayer 1 made the runs of A, and 1, 2 those of B"),
        ("12", "21", "", ""),
        ("1", "2", "replayer.version", ""),
    ],
)
def test_versions_of_replayer_that_differ_between_the_sides_are_a_warning(
    run_of: RunOf, base: str, other: str, by: str, words: str
) -> None:
    """It is on the short screen, too; not if both sides have the same, or by what was asked."""
    compared = compare(
        *(
            Side(name, tuple(altered(run_of([1.0]), version=one) for one in versions))
            for name, versions in (("A", base), ("B", other))
        ),
        by=by,
    )

    assert any(warning.startswith("replayer ") for warning in compared.warnings) is bool(words)
    assert words in " ".join(screen_of(compared).split())


def test_an_emulated_processor_is_told(run_of: RunOf) -> None:
    """Figures of a machine that qemu emulates come with what they are worth."""
    host = {"cpu.model": "QEMU TCG CPU version 2.5+"}
    emulated, real = (
        compare(*(Side(n, (run_of([1], host=facts),)) for n in "AB")) for facts in (host, {})
    )

    assert any("nothing about hardware" in warning for warning in emulated.warnings)
    assert not any("nothing about hardware" in warning for warning in real.warnings)
