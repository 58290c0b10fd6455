"""What an experiment answers: from the runs of complete blocks to sentences, tables and a page."""

import csv
import io
import json
import re
from collections.abc import Sequence

import numpy as np
import pytest

from replayer.analysis.differences.doubts import count_results
from replayer.analysis.differences.samples import Side
from replayer.errors import Impossible, NotFound, ReplayerError
from replayer.experiments.answer import SHOWN, ExperimentAnswer, analyse, check_metrics, is_settled
from replayer.experiments.experiment import ExperimentPlan, TwoLevels
from replayer.experiments.factor_choice import find_factors, gaps_of, parse_factors
from replayer.experiments.reached_settings import check_kept, shared_settings
from replayer.factors import FactorPlace
from replayer.model import EngineFacts, Run, Temperature
from replayer.report.documents.experiment import document
from replayer.report.terminal import console
from replayer.report.writers import csv_writer, page_writer, terminal_writer
from tests.fixture_types import RunOf
from tests.made import drawn_in, reached

PLACE = FactorPlace()


def plan_of(*names: str, **changes: object) -> ExperimentPlan:
    """Return a plan over factors with the levels `low` and `high`."""
    factors = tuple(TwoLevels(name=name, first="low", second="high") for name in names)
    plan = ExperimentPlan(id="e1", workload="demo", factors=factors, seed=1, within=0.02)
    return plan.model_copy(update=changes)


def answer_of(run_of: RunOf, plan: ExperimentPlan, **shares: float) -> ExperimentAnswer:
    """Return the answer to runs in which factors change the RIOPS by these shares.

    `both` is what the first two factors do together, over what each does alone.
    """
    random = np.random.default_rng(3)
    design = plan.design()
    logs = random.normal(0, 0.003, (4, design.size))
    both = shares.pop("both", 0.0)
    for name, share in shares.items():
        logs += design.column([name]) * np.log1p(share) / 2
    if both:
        logs += design.column([one.name for one in plan.factors[:2]]) * np.log1p(both) / 4
    blocks = [[run_of([float(value)]) for value in 1000 * np.exp(block)] for block in logs]
    return analyse(plan, design, blocks)


def test_the_answer_comes_first(run_of: RunOf) -> None:
    """What does it, with its levels and interval; then what does nothing."""
    answer = answer_of(run_of, plan_of("a", "b"), a=-0.17)
    lines = console.text(terminal_writer.render(document(answer))).splitlines()
    said = " ".join(lines[1:4])

    assert "a low -> high does -17." in said
    assert "b nothing (" in said
    assert answer.settled
    assert not any("--resume" in line for line in lines)


def test_an_interaction_is_shown_as_the_change_over_what_each_does_alone(run_of: RunOf) -> None:
    """Its size is that of the two levels together, and its means are on the page."""
    answer = answer_of(run_of, plan_of("a", "b", "c"), a=0.1, both=0.06)
    found = next(one for one in answer.effects if one.factors == ("a", "b"))

    assert found.verdict == SHOWN
    assert found.share.low is not None
    assert found.share.high is not None
    assert found.share.low <= 0.06 <= found.share.high
    assert [cell.levels for cell in answer.cells] == [
        ("low", "low"),
        ("low", "high"),
        ("high", "low"),
        ("high", "high"),
    ]
    assert "a x b: lines that are not parallel act together" in drawn_in(
        page_writer.page(document(answer))
    )


def test_what_each_does_at_the_levels_of_the_other_is_printed_with_an_interaction(
    run_of: RunOf,
) -> None:
    """Two that double the metric together, and do nothing alone, are 41 % each only on average."""
    answer = answer_of(run_of, plan_of("a", "b"), a=2**0.5 - 1, b=2**0.5 - 1, both=1.0)
    text = document(answer).headline.text
    average = r"b low -> high does \+4\d\S* % \([^)]*\) on average over the levels of a"
    alone = r"[+-]0\.\d % at {0} low and \+(99|100|101)\S* % at {0} high"

    assert re.search(average, text)
    assert re.search(r"a x b together \+\S+ % \([^)]*\) over what each does alone: a does ", text)
    assert re.search(f"a does {alone.format('b')}, b does {alone.format('a')}$", text)
    assert "average over" not in document(answer_of(run_of, plan_of("a", "b"), a=0.4)).headline.text


def test_what_factors_leave_of_a_difference_is_said(run_of: RunOf) -> None:
    """18 % less, of which a factor does 17 %: the rest is not explained, with its interval."""
    base = Side("stock", tuple(run_of([1000.0 + step], label="stock") for step in (-4, 0, 4, 2)))
    other = Side("uek", tuple(run_of([820.0 + step], label="uek") for step in (-4, 0, 4, 2)))
    plan = plan_of("a", "b", sides=("stock", "uek"), gaps=gaps_of(count_results(base, other)))
    answer = answer_of(run_of, plan, a=-0.17)
    rest = answer.explained[0].left

    assert rest.low is not None
    assert rest.high is not None
    assert rest.low <= 0.82 / 0.83 - 1 <= rest.high
    sentence = document(answer).headline.text
    assert re.fullmatch(
        r"uek is 18\.0 % slower than stock \(17\.\d to 18\.\d, sessions.riops\)\. a low -> high "
        r"does 1[67]\.\d % \(16\.\d to 17\.\d\) of it; b nothing \(-\d\.\d to \+\d\.\d %\); "
        r"not explained 1\.\d % \(-?\d\.\d to \d\.\d\)\.",
        sentence,
    )


@pytest.mark.parametrize(("change", "words"), [(1.2, " % faster"), (1.0, "not shown to differ")])
def test_a_factor_that_does_the_opposite_of_a_difference_is_no_part_of_it(
    run_of: RunOf, change: float, words: str
) -> None:
    """Sides that are faster, or alike, are called that, and the factor keeps its sign."""
    values = (-4, 0, 4, 2)
    base = Side("stock", tuple(run_of([1000.0 + step], label="stock") for step in values))
    other = Side("uek", tuple(run_of([1000.0 * change - step], label="uek") for step in values))
    plan = plan_of("a", "b", sides=("stock", "uek"), gaps=gaps_of(count_results(base, other)))
    sentence = document(answer_of(run_of, plan, a=-0.17)).headline.text

    assert words in sentence
    assert "a low -> high does the opposite, -17." in sentence


def test_one_run_of_each_side_shows_no_difference_to_explain(run_of: RunOf) -> None:
    """Without an interval, nothing is called slower, and nothing is left to be explained."""
    base, other = Side("stock", (run_of([1000.0]),)), Side("uek", (run_of([950.0]),))
    plan = plan_of("a", sides=("stock", "uek"), gaps=gaps_of(count_results(base, other)))
    sentence = document(answer_of(run_of, plan, a=-0.17)).headline.text

    assert sentence.startswith(
        "uek was not shown to differ from stock in sessions.riops: -5.0 % from one run or boot of "
        "a side, which shows nothing. sessions.riops: a low -> high does -17 % ("
    )
    assert "not explained" not in sentence


def test_a_setting_that_a_step_sets_itself_is_no_factor_that_does_nothing(run_of: RunOf) -> None:
    """Both levels ran with one value: the answer has a sentence on it, next to `nothing`."""
    variants = [("--pg-set", f"work_mem={one}") for one in ("4MB", "8MB")]
    runs = {
        of: [_with_fact(run_of([1.0]), value) for value in values]
        for of, values in (("step", ("4MB", "4MB")), ("variant", ("4MB", "8MB")))
    }
    said = {
        of: shared_settings(list(zip(variants, made, strict=True))) for of, made in runs.items()
    }

    assert said["step"] == ["sessions sets work_mem itself: every run had 4MB in it"]
    assert said["variant"] == []
    engine = EngineFacts(name="mariadb", version="11", place="private", settings={"aio": "OFF"})
    with pytest.raises(ReplayerError, match="aio=ON was not in force: the server had OFF"):
        check_kept(run_of([1.0], engine=engine), {"aio": "ON", "size": "1GB"})
    plan = plan_of("pg.work_mem")
    answer = answer_of(run_of, plan).model_copy(update={"unreached": tuple(said["step"])})
    assert f"not switched: {said['step'][0]}" in document(answer).lead


def _with_fact(run: Run, value: str) -> Run:
    """Return a run whose step reports a setting of its server."""
    (step,) = run.steps
    facts = {**step.facts, "settings.work_mem": value}
    return run.model_copy(update={"steps": (step.model_copy(update={"facts": facts}),)})


def test_forms_have_the_same_effects(run_of: RunOf) -> None:
    """JSON, CSV and the table on the terminal, also at 80 columns."""
    answer = answer_of(run_of, plan_of("a", "pg.b", "c"), a=0.05)
    rows = list(csv.DictReader(io.StringIO(csv_writer.page(document(answer)))))
    keys = json.loads(answer.model_dump_json())

    assert [row["effect"] for row in rows] == [one.title for one in answer.effects]
    assert [float(row["change"]) for row in rows] == [e["share"]["change"] for e in keys["effects"]]
    narrow = console.text(terminal_writer.render(document(answer)), width=80)
    assert max(map(len, narrow.splitlines())) <= 80
    assert "pg.b" in narrow
    narrowest = console.text(terminal_writer.render(document(answer)), width=50)
    assert "low -> high" in narrowest


def test_factors_come_from_what_differs_between_two_sides(run_of: RunOf) -> None:
    """At the levels that were found; what has no factor here is named with the reason."""
    sides = []
    for method, pages in (("worker", "madvise"), ("sync", "madvise")):
        engine = EngineFacts(
            name="postgres",
            version="18",
            place="private",
            settings={"io_method": method, "shared_buffers": "16MB"},
        )
        host = {"memory.transparent_huge_pages": pages, "cpu.model": f"of {method}"}
        # The server's setting reaches the step, whose value of it is no factor that is missing.
        (step,) = (run := run_of([1.0], engine=engine, host=host)).steps
        step = step.model_copy(update={"facts": {**step.facts, "settings.io_method": method}})
        sides.append(Side(method, (run.model_copy(update={"steps": (step,)}),)))

    chosen = find_factors(sides[0], sides[1], PLACE)

    assert chosen.factors == (TwoLevels(name="pg.io_method", first="worker", second="sync"),)
    assert chosen.refused == (
        "host.cpu.model (of worker -> of sync): there is no factor that switches it",
    )


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("nope", "there is no factor 'nope'"),
        ("pg.work_mem", "has no known levels: write pg.work_mem=FIRST:SECOND"),
        ("pg.work_mem=1MB", "has not two different levels"),
        ("pg.work_mem=1MB:1MB", "has not two different levels"),
        ("switch=a:b", "needs its command"),
        ("io_method=worker:nope", "has no level 'nope'"),
    ],
)
def test_factors_that_cannot_be_are_refused(word: str, reason: str) -> None:
    """In one sentence, before anything is run."""
    with pytest.raises(Impossible, match=reason.replace("(", r"\(")):
        parse_factors([word], PLACE)


def test_a_factor_gets_levels_of_its_own() -> None:
    """Without levels the first and the last one, and a note says which these are."""
    chosen = parse_factors(["io-method"], PLACE)

    assert chosen.factors == (TwoLevels(name="io_method", first="worker", second="sync"),)
    assert chosen.notes == ("io_method: levels worker and sync, as none were given",)
    with pytest.raises(Impossible, match="twice"):
        parse_factors(["io_method", "io_method=sync:worker"], PLACE)
    with pytest.raises(NotFound):
        parse_factors(["io_methods"], PLACE)


def test_a_metric_that_is_not_there_is_named_with_those_that_are(run_of: RunOf) -> None:
    """One sentence with the metrics that can be judged."""
    with pytest.raises(Impossible, match=r"no metric matches walk\.\* \(there are: sessions.riops"):
        answer_of(run_of, plan_of("a", metrics=("walk.*",)), a=0.1)


def test_runs_without_a_metric_in_common_are_refused_as_that(run_of: RunOf) -> None:
    """As soon as two of the first block have none, and not as if a value were not above zero."""
    runs = [run_of(**{f"sessions.at_{number}": [1.0]}) for number in (1, 2)]

    check_metrics(plan_of("a"), runs[:1])
    with pytest.raises(Impossible, match=r"sessions\.at_1 is not in every run, and is left out;"):
        check_metrics(plan_of("a"), runs)
    with pytest.raises(Impossible, match=r"sessions\.riops is not above zero in every run"):
        check_metrics(plan_of("a"), [run_of([1.0]), run_of([0.0])])


def test_results_that_were_not_as_asked_are_no_effect(run_of: RunOf) -> None:
    """Of a cold step, the runs of one level were hot: a comparison does not judge that, either."""
    plan = plan_of("a")
    levels = {Temperature.COLD: 1000.0, Temperature.HOT: 4000.0}
    blocks = [[reached(got)(run_of([one])) for got, one in levels.items()] for _ in range(6)]
    words = r"sessions: asked cold, got hot, in 6 of 12 runs, which do not count; sessions\.riops"

    with pytest.raises(Impossible, match=f"{words} is not in every run, and is left out"):
        analyse(plan, plan.design(), blocks)
    cold, hot = zip(*blocks, strict=True)
    both = count_results(Side("stock", cold), Side("uek", hot))
    assert gaps_of(both) == {}
    assert "sessions: asked cold, got hot, in 6 of 6 runs of uek" in both.remarks


def blocks_of(
    run_of: RunOf, count: int, odd: Sequence[int], most: Temperature, other: Temperature
) -> list[list[Run]]:
    """Return blocks of two runs; in those of the numbers `odd` the second run read otherwise."""
    got = [other if number in odd else most for number in range(count)]
    return [
        [reached(most)(run_of([1000.0 + n])), reached(one)(run_of([1100.0 + n]))]
        for n, one in enumerate(got)
    ]


@pytest.mark.parametrize("most", [Temperature.COLD, Temperature.LUKEWARM])
def test_a_run_that_alone_read_otherwise_costs_only_its_block(
    run_of: RunOf, most: Temperature
) -> None:
    """One of 40 ends no experiment: the other 19 blocks are judged."""
    plan = plan_of("a")
    other = Temperature.LUKEWARM if most is Temperature.COLD else Temperature.COLD
    blocks = blocks_of(run_of, 20, [3], most, other)
    answer = analyse(plan, plan.design(), blocks)

    assert (answer.blocks, answer.runs) == (19, 38)
    assert "in 1 of 40 runs, which do not count, with their blocks, 1 of 20" in answer.notes[0]
    assert answer.effects == analyse(plan, plan.design(), blocks[:3] + blocks[4:]).effects
    assert is_settled(plan, plan.design(), blocks)
    check_metrics(plan, [run for block in blocks[2:4] for run in block])


def test_too_many_runs_that_read_otherwise_are_named(run_of: RunOf) -> None:
    """With half of the fewest blocks the experiment goes on; there is no answer from them."""
    plan = plan_of("a")
    least = plan.design().least_blocks()
    odd = range(least // 2)
    blocks = blocks_of(run_of, least, odd, Temperature.COLD, Temperature.HOT)

    assert not is_settled(plan, plan.design(), blocks)
    with pytest.raises(Impossible) as caught:
        analyse(plan, plan.design(), blocks)
    sentence = str(caught.value)
    assert "in the folder e1: " in sentence
    assert all(blocks[number][1].id in sentence for number in odd)
    with pytest.raises(Impossible):
        is_settled(plan, plan.design(), blocks[: least - 1])


def test_results_that_were_all_alike_are_judged_with_a_remark(run_of: RunOf) -> None:
    """Where nothing can be made cold, all are as warm."""
    plan = plan_of("a")
    lukewarm = reached(Temperature.LUKEWARM)
    blocks = [[lukewarm(run_of([1000.0 + n])), lukewarm(run_of([1100.0 + n]))] for n in range(6)]
    answer = analyse(plan, plan.design(), blocks)

    assert answer.effects[0].verdict == SHOWN
    assert answer.notes == ("sessions: asked cold, got lukewarm, in 12 of 12 runs",)
