"""The answer of a comparison: one story of p, interval and word, and what is left unsaid."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from replayer.analysis.advice import estimates
from replayer.analysis.differences.comparison import (
    LIKELY,
    SHOWN,
    Comparison,
    MetricVerdict,
    compare,
)
from replayer.analysis.differences.metric_names import name_metric
from replayer.analysis.differences.samples import Side
from replayer.model import Better, Fact, Run, Spent, StackProfile
from replayer.report.document import Facts, Table
from replayer.report.documents import comparison, flame_graphs
from replayer.report.documents.comparison_answer import _metrics, answer
from replayer.report.documents.verdict_words import judged, limits, tone_of, verdict
from replayer.results import store
from replayer.run.display import Sentence, Tone
from tests.fixture_types import RunOf
from tests.known import known
from tests.made import USUAL, account, altered, at_once, screen_of

METRICS = 20


def sides_of(run_of: RunOf, factors: Sequence[float], seed: int, boots: int = 6) -> list[Side]:
    """Return two sides that took turns; the other side's metrics are these times the base's."""
    random = np.random.default_rng(seed)

    def runs(name: str, times: Sequence[float]) -> tuple[Run, ...]:
        return tuple(
            run_of(
                [1000 * random.normal(1, 0.05)],
                boot=f"{name}{number}",
                **{
                    f"sessions.m{at}": [1000 * factor * np.exp(random.normal(0, 0.05))]
                    for at, factor in enumerate(times)
                },
            )
            for number in range(boots)
        )

    plain = runs("A", [1.0] * len(factors))
    return [at_once(Side("A", plain)), at_once(Side("B", runs("B", factors)))]


def test_interval_and_word_tell_one_story_in_every_row(run_of: RunOf) -> None:
    """An interval that is printed leaves out 1 if, and only if, the word claims a difference."""
    seen = set()
    for seed in range(12):
        # Where many differ, the correction takes nothing away; where none does, it takes all.
        factors = [*([0.6] * 8 if seed % 2 else []), 0.9, 1.1]
        factors += [1.0] * (METRICS - len(factors))
        for row in compare(*sides_of(run_of, factors, seed)).rows:
            claims = row.verdict in SHOWN | LIKELY
            if limits(row):
                assert claims == (not known(row.low) <= 1 <= known(row.high))
            else:
                assert row.alone
                assert row.verdict is MetricVerdict.UNCLEAR
                assert "alone it would count" in row.note
            assert (known(row.p_holm) <= 0.05) >= (row.verdict in SHOWN)
            assert (tone_of(row) is Tone.BAD) == (row.verdict in SHOWN and row.worse is True)
            assert (tone_of(row) is Tone.GOOD) == (row.verdict in SHOWN and row.worse is False)
            seen.add((row.verdict, row.alone))

    assert {(MetricVerdict.WORSE, False), (MetricVerdict.UNCLEAR, True)} <= seen
    assert any(verdict in LIKELY for verdict, _ in seen)


def test_the_answer_counts_the_same_metrics_as_its_table() -> None:
    """Of two real runs: what stands in the table and below it are the metrics of the headline."""
    demo = store.load(Path(__file__).parents[1] / "fixtures" / "screen" / "demo.json")
    again = altered(demo, id="20261124-191155-demo-c49f")
    compared = compare(Side("A", (demo,)), Side("B", (again,)))
    parts = answer(compared)
    (table,) = (one for one in parts if isinstance(one, Table))
    rest = [one for one in parts if isinstance(one, Sentence)][-1].text
    told = re.search(r"(\d+) unclear of (\d+) metrics", compared.headline)
    screen = screen_of(compared)

    assert told
    assert len(table.rows) + int(rest.split()[0]) == int(told[2])
    assert "\n\n\n" not in screen


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        ("memory.read.1.00MiB.processes_1", "read 1.00MiB processes 1"),
        ("memory.latency.4.00KiB.p99", "latency 4.00KiB p99"),
        ("sessions.latency.p999", "p99.9"),
        ("sessions.latency.p99.9", "p99.9"),
        ("imported.job1.4k.iops", "job1 4k IOPS"),
        ("walk.read_ahead_kb", "read ahead KiB"),
    ],
)
def test_a_number_in_a_metrics_name_keeps_its_point(metric: str, words: str) -> None:
    """Only the dots between the parts of a name become spaces."""
    assert name_metric(metric) == words


def test_what_a_lot_of_runs_could_not_settle_is_said_in_words(run_of: RunOf) -> None:
    """Up to 50 more there is a number, above it none."""
    row = compare(*sides_of(run_of, [1.001], 1)).rows[-1]
    some, many = (altered(row, more=more, note="") for more in (50, 51))

    assert row.verdict is MetricVerdict.UNCLEAR
    assert verdict(some) == "unclear, ~50 more"
    assert verdict(many) == "unclear, cannot be settled by more runs"


@pytest.mark.parametrize(("steps", "outliers"), [(3, 0), (3, 1), (5, 4)])
def test_more_boots_are_no_remedy_for_each_metric_that_has_no_estimate(
    run_of: RunOf, steps: int, outliers: int
) -> None:
    """A boot of some steps is a thousand times as fast: no number of boots settles these."""
    sides = []
    for name, level in (("A", 1000.0), ("B", 1025.0)):
        runs = []
        for number, noise in enumerate((0, 40, -30, 20, -40, 10)):
            run = run_of([1.0], boot=f"{name}{number}")
            (plain,) = run.steps
            own = []
            for at in range(steps):
                far = name == "B" and number == 3 and at < outliers
                value = (1000.0 if far else 1.0) * (level + noise + at)
                rate = altered(plain.measurements[0], value=value)
                own.append(altered(plain, name=f"step{at}", measurements=(rate,)))
            runs.append(altered(run, steps=tuple(own)))
        sides.append(at_once(Side(name, tuple(runs))))
    compared = compare(*sides)
    pairs = [pair for one in answer(compared) if isinstance(one, Facts) for pair in one.pairs]
    (words,) = [str(text) for label, text in pairs if label == "next"]
    settled, _, rest = words.partition("; ")
    named = [row.step for row in compared.rows if row.step in settled]

    assert [row.more is None for row in compared.rows] == [at < outliers for at in range(steps)]
    if not outliers:
        assert re.fullmatch(r"\d+ more boots a side may settle each leading metric .*", words)
        return
    assert "each" not in words
    assert named == [f"step{at}" for at in range(outliers, steps)]
    assert rest.startswith("no practical number of boots is known for step")
    assert len(re.findall(r"step\d", rest)) == min(outliers, 3)
    assert ("and 1 more" in rest) == (outliers == 4)


@pytest.mark.parametrize(("others", "fewest"), [(0, 4), (1, 5), (10, 5)])
def test_as_many_boots_as_it_takes_show_a_difference_and_one_fewer_do_not(
    run_of: RunOf, others: int, fewest: int
) -> None:
    """The headline, the remark and `plan` have the number that the verdicts obey."""
    random = np.random.default_rng(3)

    def compared(boots: int) -> Comparison:
        # The leading metric alone differs.
        sides = {
            name: tuple(
                run_of(
                    [random.normal(level, 1)],
                    boot=f"{name}{number}",
                    **{f"sessions.m{at}": [random.normal(1000, 1)] for at in range(others)},
                )
                for number in range(boots)
            )
            for name, level in (("A", 1000), ("B", 800))
        }
        return compare(*(at_once(Side(name, runs)) for name, runs in sides.items()))

    for boots in (2, 3):
        few = compared(boots)
        assert few.headline.endswith(f"it takes {fewest} boots of each to show one")
        assert f"at least {fewest} boots of each side" in " ".join(screen_of(few).split())
        assert few.rows[0].more == fewest - boots
    expected = estimates.Expectation("demo", 0.0, True, "", 1, others, True)
    for boots in (fewest - 1, fewest):
        shown = compared(boots).rows[0].verdict is MetricVerdict.WORSE
        words = estimates.worth(boots, 2, expected)
        assert shown is (boots == fewest)
        assert ("can never show" in words) is not shown
        assert shown or f"{2 * fewest} boots can" in words


def test_fewer_missed_blocks_are_no_loss_if_more_work_is_done(run_of: RunOf) -> None:
    """Larger buffers: RIOPS is a sixth and four times the work is done, which is faster.

    With the same blocks a work unit on both sides RIOPS leads, as it always did.
    """

    def headline(factor: float) -> str:
        sides = []
        for name, riops, work in (("A", 1000.0, 4.0), ("B", 1000.0 * factor, 16.0)):
            runs = (
                run_of([riops + n], boot=f"{name}{n}", **{"sessions.operations": [work + n / 250]})
                for n in range(6)
            )
            sides.append(at_once(Side(name, tuple(runs))))
        return compare(*sides).headline

    assert headline(1 / 6).startswith("B is faster than A: operations 4.0")
    assert headline(4).startswith("B is faster than A: RIOPS 4.0")


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("step", ["sessions", "a", "b"])
def test_a_headline_of_both_directions_names_a_metric_of_each(
    run_of: RunOf, sign: int, step: str
) -> None:
    """Of many metrics one step's alone is of the other direction, and not the largest change."""
    # Each step has one leading metric and three others, which all differ.
    factors = {"sessions": 1.5, "a": 1.4, "b": 1.3, step: 1 / 1.1}
    sides = []
    for name in "AB":
        runs = []
        for number in range(6):
            run = run_of([1.0], boot=f"{name}{number}")
            (plain,), steps = run.steps, []
            for own, factor in factors.items():
                value = factor**sign * (1000 + number) if name == "B" else 1000.0 + number
                kinds = (
                    altered(plain.measurements[0], metric=f"{own}.m{at}", value=value)
                    for at in range(4)
                )
                steps.append(altered(plain, name=own, measurements=tuple(kinds)))
            runs.append(altered(run, steps=tuple(steps)))
        sides.append(at_once(Side(name, tuple(runs))))
    compared = compare(*sides)
    facts = compared.headline.partition(": ")[2].split(", ")
    ratios = [float(known(re.search(r"\d+\.\d+", fact))[0]) for fact in facts[:-1]]

    assert compared.headline.startswith("B is both faster and slower than A: ")
    assert (ratios[0] > 1) != (ratios[1] > 1)
    assert facts[-1] == "9 more"


def test_replayers_own_work_gets_no_verdict_and_costs_no_correction(run_of: RunOf) -> None:
    """Half the throughput at half the client's processor time: only the first is judged."""
    runs = [
        tuple(
            run_of([level + i], boot=f"{level}{i}", **{"sessions.client_cpu": [level / 100 + i]})
            for i in range(6)
        )
        for level in (1000, 500)
    ]
    compared = compare(*(at_once(Side(name, one)) for name, one in zip("AB", runs, strict=True)))
    own = compared.rows[1]

    assert (own.metric, own.better, own.verdict) == ("sessions.client_cpu", Better.NEITHER, None)
    assert compared.family == 1
    assert compared.headline.startswith("B is slower than A: RIOPS 0.50 (0.50 to 0.50)")
    assert not any("client_cpu" in words for words in compared.warnings)


@pytest.mark.parametrize(
    ("host", "shown"),
    [({"cgroup.version": "2"}, "none"), ({}, "unknown")],
    ids=["looked for", "not looked for"],
)
def test_a_limit_that_is_not_set_is_none(run_of: RunOf, host: dict[str, Fact], shown: str) -> None:
    """It is `unknown` only if nothing tells that limits were looked for, as in an import."""
    plain, limited = (
        tuple(run_of([level + i], boot=f"{level}{i}", host=host | more) for i in range(6))
        for level, more in ((1000, {}), (500, {"cgroup.cpu_limit": 0.6}))
    )
    compared = compare(at_once(Side("full", plain)), at_once(Side("quota", limited)))

    assert compared.headline.endswith(f"suspect: cgroup CPU limit {shown} / 0.6")
    remarks = [pair for one in answer(compared) if isinstance(one, Facts) for pair in one.pairs]
    assert ("suspect", f"cgroup CPU limit: {shown} in full, 0.6 in quota") in remarks


def profiled(side: Side, samples: int, slower: float) -> Side:
    """Return a side whose runs have an account, and a profile with so many samples together."""
    random = np.random.default_rng(samples)
    runs = []
    for number, run in enumerate(side.runs):
        one = account(random, USUAL | {Spent.SERVER: USUAL[Spent.SERVER] + slower})
        mine = samples // len(side.runs) + (number < samples % len(side.runs))
        stacks = {"server;user;postgres;main;f": mine, "others;user;x;main;g": 500}
        payload = StackProfile.packed(stacks)
        profile = StackProfile(
            payload=payload, samples=mine + 500, event="cycles", hertz=99, seconds=one.seconds
        )
        measured = run.steps[0].measurements[0]
        rate = altered(measured, value=one.operations / one.seconds)
        step = altered(run.steps[0], account=one, profile=profile, measurements=(rate,))
        runs.append(altered(run, steps=(step,)))
    return replace(side, runs=tuple(runs))


@pytest.mark.parametrize(
    ("samples", "slower", "drawn"),
    [(30, 4e-6, 1), (29, 4e-6, 0), (3000, 0.0, 0)],
    ids=["differs", "too few samples", "unclear"],
)
def test_functions_are_compared_only_where_a_difference_was_shown(
    run_of: RunOf, samples: int, slower: float, drawn: int
) -> None:
    """No flame graph in red where the step is unclear, or of a few samples; other programs' too."""
    sides = [
        profiled(at_once(Side(name, tuple(run_of([1.0], boot=f"{name}{i}") for i in range(6)))), *w)
        for name, w in (("A", (3000, 0.0)), ("B", (samples, slower)))
    ]
    compared = compare(*sides)
    steps = list(flame_graphs.steps(sides))
    shown = comparison.differing(compared)

    assert bool(shown) == (slower > 0)
    assert len(flame_graphs.differing(compared, steps, shown)) == drawn
    assert len(flame_graphs.too_few(steps, shown)) == (samples < flame_graphs.FEWEST)


@pytest.mark.parametrize("width", [80, 100])
def test_the_answer_fits_one_screen_and_its_last_lines_are_the_headline(
    run_of: RunOf, width: int
) -> None:
    """Forty metrics that all differ: at most 45 lines, and nothing below the headline."""
    compared = compare(*sides_of(run_of, [0.5] * 40, 2))
    text = screen_of(compared, "replayer compare A B", width=width)
    lines = text.splitlines()
    words = " ".join(text.split())

    assert len(lines) <= 45
    assert max(map(len, lines)) <= width
    assert words.endswith(compared.headline)
    assert "page replayer compare A B --html comparison.html" in words


def test_an_answer_without_a_difference_has_what_the_runs_are_made_for(stored: Run) -> None:
    """Steps that only prepare come last: RIOPS cached and physical are not cut for the build's.

    Of a step with two leading metrics, the second one comes after the first of each other step.
    """
    walk = next(one for one in stored.steps if one.name == "walk")
    both = tuple(
        altered(one, leading=one.metric in {"walk.throughput", "walk.iops"})
        for one in walk.measurements
    )
    steps = [altered(walk, measurements=both) if one is walk else one for one in stored.steps]
    plain = altered(stored, steps=tuple(steps), sizing=None)
    runs = [
        altered(plain, id=f"{stored.id}-{number}", started=f"2026-11-20T15:4{number}:00+00:00")
        for number in range(4)
    ]
    compared = compare(Side("A", (runs[0], runs[3])), Side("B", (runs[1], runs[2])))

    assert {row.step for row in compared.rows if row.leading} >= {"build", "flush"}
    assert [(row.step, row.metric) for row in _metrics(compared)] == [
        ("walk", "walk.throughput"),
        ("cached", "sessions.riops"),
        ("physical", "sessions.riops"),
        ("walk", "walk.iops"),
    ]
    assert "once" not in compared.model_dump(mode="json")


def test_a_row_says_why_its_interval_is_not_printed(run_of: RunOf) -> None:
    """What an interval alone would claim stands in the note, beside what takes it away."""
    rows = [
        (row, compared)
        for seed in range(10)
        for compared in [compare(*sides_of(run_of, [1.0] * METRICS, seed))]
        for row in compared.rows
        if row.alone
    ]

    assert rows
    for row, compared in rows:
        assert f"own interval {row.low:.3f} to {row.high:.3f}" in judged(row, compared)
