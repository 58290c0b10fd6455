"""The answer of a comparison: one story of p, interval and word, and what is left unsaid."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from replayer.analysis.differences.comparison import LIKELY, SHOWN, MetricVerdict, compare
from replayer.analysis.differences.samples import Side
from replayer.model import Better, Fact, Run, Spent, StackProfile
from replayer.report.document import Facts, Table
from replayer.report.documents import comparison, flame_graphs
from replayer.report.documents.comparison_answer import answer
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


def test_what_a_lot_of_runs_could_not_settle_is_said_in_words(run_of: RunOf) -> None:
    """Up to 50 more there is a number, above it none."""
    row = compare(*sides_of(run_of, [1.001], 1)).rows[-1]
    some, many = (altered(row, more=more, note="") for more in (50, 51))

    assert row.verdict is MetricVerdict.UNCLEAR
    assert verdict(some) == "unclear, ~50 more"
    assert verdict(many) == "unclear, cannot be settled by more runs"


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
