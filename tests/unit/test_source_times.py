"""Statements against their source: who is a witness, what chance shows, and what is allowed for."""

from collections import Counter

import numpy as np
import pytest

from replayer.analysis.differences.comparison import MetricVerdict
from replayer.analysis.differences.source_times import (
    SourceVerdict,
    TimesOfGroups,
    compare_with_source,
)
from replayer.model import Spent, Status, StepResult
from replayer.steps.replay import source_display
from replayer.steps.replay.plans import without_values
from tests.made import account

GROUPS = 64


def drawn(
    random: np.random.Generator,
    *,
    sessions: int = 12,
    factor: float = 1.0,
    way: float = 0.0,
    executions: int = 60,
    mean: float = 1e-3,
) -> TimesOfGroups:
    """Return times of sessions that differ by themselves, each alike on both sides."""
    counts, source, target = (np.zeros(GROUPS) for _ in range(3))
    counts[:sessions] = executions
    for one in range(sessions):
        own = mean * float(random.lognormal(0, 0.5))
        source[one] = own * float(random.lognormal(0, 0.7, executions).sum())
        target[one] = factor * own * float(random.lognormal(0, 0.7, executions).sum())
        target[one] += way * executions
    return TimesOfGroups(counts, source, target)


def verdicts(times: dict[int, TimesOfGroups], **more: float) -> dict[int, SourceVerdict]:
    """Return the verdicts by fingerprint."""
    return dict(compare_with_source(times, **more).verdicts)  # type: ignore[arg-type]


def test_equal_servers_differ_in_few_of_many_comparisons() -> None:
    """A false alarm in at most one of twenty families of ten statements: here, of 60."""
    random = np.random.default_rng(1)
    families = [verdicts({n: drawn(random) for n in range(10)}) for _ in range(60)]
    alarms = Counter(
        any(one.verdict in {MetricVerdict.WORSE, MetricVerdict.BETTER} for one in family.values())
        for family in families
    )
    assert alarms[True] <= 5
    assert any(one.verdict is MetricVerdict.SAME for one in families[0].values())


def test_a_planted_statement_is_named_each_time_and_no_other() -> None:
    """Three times as slow, among nine that are equal."""
    random = np.random.default_rng(2)
    for _ in range(20):
        told = verdicts({n: drawn(random, factor=3 if n == 4 else 1) for n in range(10)})
        assert [n for n, one in told.items() if one.verdict is MetricVerdict.WORSE] == [4]
        assert told[4].low is not None
        assert told[4].high is not None
        assert told[4].low < 3 < told[4].high


def test_the_longer_way_of_rows_is_no_slower_statement() -> None:
    """A statement of 0.1 ms whose answer takes 0.2 ms more here, where that of BEGIN takes 0.1."""
    random = np.random.default_rng(7)
    for _ in range(20):
        times = {
            0: drawn(random, mean=1e-5, way=1e-4, executions=600),
            1: drawn(random, mean=1e-4, way=2e-4, executions=600),
            2: drawn(random, mean=1e-4, way=2e-4, executions=600, factor=20),
        }
        told = verdicts(times, idle=[0])  # type: ignore[arg-type]
        assert told[1].verdict is not MetricVerdict.WORSE
        assert told[2].verdict is MetricVerdict.WORSE


@pytest.mark.parametrize("sessions", [1, 3, 5])
def test_executions_of_few_sessions_are_few_witnesses(sessions: int) -> None:
    """However many executions they are, and however much slower, they prove nothing."""
    random = np.random.default_rng(3)
    times = {n: drawn(random, sessions=sessions, executions=5000) for n in range(2)}
    times[2] = drawn(random, sessions=sessions, executions=5000, factor=10)
    told = verdicts(times)
    assert told[2].verdict in {MetricVerdict.UNCLEAR, MetricVerdict.LIKELY_WORSE}
    assert told[2].sessions == sessions


def test_the_way_to_the_server_makes_no_statement_slower() -> None:
    """A log does not count it: BEGIN shows how long it takes."""
    random = np.random.default_rng(4)
    times = {0: drawn(random, mean=1e-5, way=4e-4), 1: drawn(random, mean=1e-4, way=4e-4)}
    told = verdicts(times, idle=[0])  # type: ignore[arg-type]
    assert all(one.verdict is not MetricVerdict.WORSE for one in told.values())
    assert told[1].ratio is not None
    assert told[1].ratio > 3
    slower = verdicts({**times, 2: drawn(random, mean=1e-3, way=4e-4, factor=4)}, idle=[0])  # type: ignore[arg-type]
    assert slower[2].verdict is MetricVerdict.WORSE


def test_what_other_programs_explain_is_not_the_servers() -> None:
    """With half the processors gone, all is slower by two to three; the dropped index is not."""
    random = np.random.default_rng(5)
    times = {n: drawn(random, factor=2.5) for n in range(5)}
    times[5] = drawn(random, factor=80)
    told = verdicts(times, foreign_share=0.5)
    assert {told[n].verdict for n in range(5)} == {MetricVerdict.DIFFERS}
    assert told[5].verdict is MetricVerdict.WORSE


def test_a_plan_holds_no_value_of_its_statement() -> None:
    """What a server prints of conditions is values; costs and names stay."""
    plan = (
        "Index Scan using t_7_idx on t7  (cost=0.29..8.31 rows=1 width=10)\n"
        "  Index Cond: ((id = 17) AND (name = 'it''s 42'::text))\n"
        "  Filter: ((price > -1.5e3) AND (c7 = ANY ('{1,2}'::integer[])))"
    )
    assert without_values(plan) == (
        "Index Scan using t_7_idx on t7  (cost=0.29..8.31 rows=1 width=10)\n"
        "  Index Cond: ((id = ?) AND (name = ?::text))\n"
        "  Filter: ((price > ?) AND (c7 = ANY (?::integer[])))"
    )


@pytest.mark.parametrize(("queue", "named"), [(0.6, True), (0.02, False)])
def test_an_equal_plan_that_waits_for_a_processor_is_told_as_that(
    queue: float,
    named: bool,  # noqa: FBT001
) -> None:
    """Only where the plan is the same on both servers, and only if it is much of the time."""
    parts = {Spent.SERVER: 0.2, Spent.RUN_QUEUE: queue, Spent.CLIENT: 3.0}
    slowed = [{"fingerprint": one} for one in ("equal", "other")]
    plans = [
        {"fingerprint": one, "text": one, "on": side, "plan": plan}
        for one, side, plan in (
            ("equal", "here", "Index Scan  (cost=1..2)"),
            ("equal", "there", "Index Scan  (cost=3..4)"),
            ("other", "here", "Seq Scan  (cost=1..2)"),
            ("other", "there", "Index Scan  (cost=1..2)"),
        )
    ]
    result = StepResult(
        step="replay",
        name="replay",
        repeat=1,
        elapsed=1.0,
        spec={},
        started="2026-11-23T10:00:00+00:00",
        status=Status.DONE,
        account=account(np.random.default_rng(1), parts),
        tables={"plans": tuple(plans)},
    )
    equal = result.model_copy(update={"tables": {source_display.TABLE: ({"verdict": "unclear"},)}})
    summarized = source_display.summarize(equal, width=40)
    assert summarized.result == "none of 1 slower than in the source"
    shown = source_display.plans(result, width=40)
    words = [one.plan for one in shown if one.plan.startswith("the same plan: ")]

    assert len(words) == 1
    assert ("run queue" in words[0]) is named
    cause = source_display.name_cause(result, slowed)
    assert cause.startswith("; 1 of them with the same plan") is named
