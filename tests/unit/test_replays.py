"""Two groups of replays compared: fingerprints that moved, none that did not, what diverged."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from replayer.analysis.differences import replays
from replayer.analysis.differences.comparison import MetricRow, MetricVerdict, compare
from replayer.analysis.differences.environment import Sort
from replayer.analysis.differences.samples import Side
from replayer.errors import Impossible
from replayer.model import Replayed, Run
from replayer.report.documents import replays as report
from replayer.report.terminal import console
from replayer.report.writers import terminal_writer
from tests.fixture_types import RunOf
from tests.made import altered, at_once, markdown_of, page_of

APART = {MetricVerdict.BETTER, MetricVerdict.WORSE}


def one(number: int, seconds: float, **more: Any) -> Replayed:
    """Return what became of a fingerprint that was executed 100 times unless `more` says so."""
    text = f"SELECT * FROM t{number} WHERE id = ?"
    known: dict[str, Any] = {
        "planned": 100,
        "executions": 100,
        "rows": 100,
        "kind": "select",
        "text": text,
    }
    return Replayed(fingerprint=f"{number:016x}", **{**known, "service_s": seconds, **more})


@pytest.fixture
def side(run_of: Callable[..., Run]) -> Callable[..., Side]:
    """Return a function that makes a side of these replays, each in a run and a boot of its own."""

    def make(name: str, *replayed: Iterable[Replayed]) -> Side:
        runs = []
        for number, fingerprints in enumerate(replayed):
            run = run_of([1000.0], boot=f"{name}{number}")
            step = altered(run.steps[0], step="replay", name="replay", replayed=tuple(fingerprints))
            runs.append(altered(run, steps=(step,)))
        return at_once(Side(name, tuple(runs)))

    return make


def there(row: MetricRow | None) -> MetricRow:
    """Return a row that is there."""
    assert row is not None
    return row


def held(base: Side, other: Side, **more: Any) -> replays.ReplayComparison:
    """Return the comparison of the replays of two sides."""
    compared = replays.compare(compare(base, other), base, other, **more)
    assert isinstance(compared, replays.ReplayComparison)
    return compared


def noisy(
    random: np.random.Generator,
    times: Iterable[float],
    factors: dict[int, float] | None = None,
    **more: Any,
) -> list[Replayed]:
    """Return fingerprints whose times are these, each with noise of 3 percent."""
    return [
        one(number, (factors or {}).get(number, 1.0) * seconds * random.lognormal(0, 0.03), **more)
        for number, seconds in enumerate(times)
    ]


def test_what_moved_is_named_and_nothing_else(side: Callable[..., Side]) -> None:
    """Of 30 fingerprints 2 take other times: these alone, in their directions, dearest first."""
    random = np.random.default_rng(1)
    times = random.uniform(0.1, 10, 30)
    times[3], times[7] = 9.0, 0.5
    base = side("old", *(noisy(random, times) for _ in range(8)))
    other = side("new", *(noisy(random, times, {3: 1.5, 7: 0.6}) for _ in range(8)))

    (compared,) = held(base, other).replays

    moved = {f.fingerprint: there(f.time).verdict for f in compared.fingerprints if f.moved}
    assert moved == {f"{3:016x}": MetricVerdict.WORSE, f"{7:016x}": MetricVerdict.BETTER}
    costs = [f.cost for f in compared.fingerprints]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] == pytest.approx(13.5, rel=0.1)
    (row,) = [there(f.time) for f in compared.fingerprints if f.fingerprint == f"{3:016x}"]
    assert row.low is not None
    assert row.high is not None
    assert row.low < 1.5 < row.high
    assert row.base == pytest.approx(0.09, rel=0.05)


def test_the_same_replayed_twice_has_hardly_ever_a_verdict(side: Callable[..., Side]) -> None:
    """A/A over 40 comparisons of 10 fingerprints: at most 5 percent have any false verdict."""
    random = np.random.default_rng(2)
    times = random.uniform(0.1, 10, 10)
    false = 0
    for _ in range(40):
        base, other = (side(name, *(noisy(random, times) for _ in range(5))) for name in ("a", "b"))
        (compared,) = held(base, other).replays
        rows = [compared.time, *(f.time for f in compared.fingerprints)]
        false += any(there(row).verdict in APART for row in rows)
        assert not any(f.diverging for f in compared.fingerprints)

    # Of 40 with a chance of 5 percent each, more than 6 are rarer than 1 in 100.
    assert false <= 6


def test_the_whole_is_of_the_same_work(side: Callable[..., Side]) -> None:
    """All 20 percent slower is worse in total, also where one side ran a little less of it."""
    random = np.random.default_rng(3)
    times = [1.0] * 10
    slower = dict.fromkeys(range(10), 1.2)
    base = side("old", *(noisy(random, times) for _ in range(6)))
    other = side("new", *(noisy(random, times, slower, executions=97, rows=97) for _ in range(6)))

    (compared,) = held(base, other).replays

    assert there(compared.time).verdict is MetricVerdict.WORSE
    assert there(compared.time).ratio == pytest.approx(1.2 / 0.97, rel=0.03)


def test_the_whole_is_without_what_one_side_did_not_run(side: Callable[..., Side]) -> None:
    """Ten reports that never came to run make nothing faster, and they are named."""
    random = np.random.default_rng(3)
    fast = [
        one(0, 0.99 * random.lognormal(0, 0.03), planned=990, executions=990) for _ in range(16)
    ]
    slow = one(1, 100.0, planned=10, executions=10)
    none = one(1, 0.0, planned=10, executions=0)
    base = side("old", *([each, slow] for each in fast[:8]))
    other = side("new", *([each, none] for each in fast[8:]))

    comparison = held(base, other)

    assert there(comparison.replays[0].time).verdict not in APART
    printed = console.text(terminal_writer.render_parts(report.sections(comparison)))
    assert "did not run in every replay: SELECT * FROM t1" in " ".join(printed.split())


def test_errors_are_judged_beside_times(side: Callable[..., Side]) -> None:
    """A fingerprint that fails now is worse by its errors, and is answered otherwise."""
    random = np.random.default_rng(4)
    base = side("old", *(noisy(random, [1.0, 2.0]) for _ in range(6)))
    failing = [
        [one(0, random.lognormal(0, 0.03), errors={"40001": 20 + n}), noisy(random, [1, 2.0])[1]]
        for n in range(6)
    ]

    (compared,) = held(base, side("new", *failing)).replays

    by = {f.fingerprint: f for f in compared.fingerprints}
    assert there(by[f"{0:016x}"].errors).verdict is MetricVerdict.WORSE
    assert there(by[f"{1:016x}"].errors).verdict is MetricVerdict.SAME
    assert there(compared.errors).verdict is MetricVerdict.WORSE


@pytest.mark.parametrize(
    ("theirs", "ours", "what"),
    [
        ([{"rows": 100}] * 2, [{"rows": 99}] * 2, ["rows"]),
        ([{"rows": 100}] * 2, [{"rows": 99, "varies": ("now()",)}] * 2, ["varying"]),
        ([{"rows": 100}, {"rows": 101}], [{"rows": 99}] * 2, []),
        ([{"rows_hash": "aa"}] * 2, [{"rows_hash": "ab"}] * 2, ["answers"]),
        ([{}] * 2, [{"errors": {"23505": 1}}] * 2, ["errors"]),
        ([{}] * 2, [{"errors": {"23505": 1}}, {}], []),
        ([{}] * 2, [{}] * 2, []),
    ],
)
def test_answers_diverge_where_each_side_is_sure_of_its_own(
    side: Callable[..., Side],
    theirs: list[dict[str, Any]],
    ours: list[dict[str, Any]],
    what: list[str],
) -> None:
    """What a side answers differently from replay to replay is no divergence of the sides."""
    base = side("old", *([one(0, 1.0, **more)] for more in theirs))
    other = side("new", *([one(0, 1.0, **more)] for more in ours))

    (compared,) = held(base, other).replays

    assert [each.what for each in compared.fingerprints[0].diverging] == what


def test_too_little_work_is_not_compared(side: Callable[..., Side]) -> None:
    """Below 95 percent on a side there is a sentence in place of verdicts, unless it is allowed."""
    base = side("old", [one(0, 1.0)])
    other = side("new", [one(0, 1.0, executions=94)])

    with pytest.raises(Impossible, match=r"not comparable: only 94\.0% of the work of new"):
        held(base, other)
    with pytest.raises(Impossible, match="other captures"):
        held(base, side("else", [one(1, 1.0)]))
    assert held(base, other, allowed=["replay.ran"]).replays


def placed(side: Side, path: str, capture: str) -> Side:
    """Return a side whose capture lies at a path and is this one."""
    (run,) = side.runs
    step = altered(run.steps[0], facts={"replay.capture": capture})
    work = altered(run.workload, steps=({"step": "replay", "file": path},))
    return Side(side.name, (altered(run, steps=(step,), workload=work),))


def test_captures_are_known_by_what_is_in_them(side: Callable[..., Side]) -> None:
    """The same capture at another path is the same work; another one at the same path is not."""
    here, there = side("here", [one(0, 1.0)]), side("there", [one(0, 1.0)])
    same = compare(placed(here, "/a/m.replay", "12"), placed(there, "/b/m.replay", "12"))

    assert not [d for d in same.differences if d.sort is Sort.REFUSED]
    with pytest.raises(Impossible, match=r"replay\.capture"):
        compare(placed(here, "/a/m.replay", "12"), placed(there, "/a/m.replay", "34"))


def test_runs_without_a_replay_are_compared_as_before(run_of: RunOf) -> None:
    """Nothing is added to a comparison of other steps."""
    base, other = (Side(name, (run_of([1.0]), run_of([1.0]))) for name in ("a", "b"))
    compared = compare(base, other)

    assert replays.compare(compared, base, other) is compared
    assert not report.sections(compared)


def test_reports_show_what_moved_and_what_diverged(side: Callable[..., Side]) -> None:
    """Screen, page and Markdown name the fingerprint, both numbers of rows, and the whole."""
    random = np.random.default_rng(5)
    base = side("old", *(noisy(random, [1.0, 2.0, 3.0]) for _ in range(8)))
    slower = [noisy(random, [1.0, 2.0, 3.0], {1: 2.0}, rows=7) for _ in range(8)]
    other = side("new", *slower)
    compared = held(base, other)

    pages = [
        console.text(terminal_writer.render_parts(report.sections(compared))),
        page_of([base, other], compared),
        markdown_of([base, other], compared),
    ]

    for page in pages:
        for words in ("t1 WHERE", "100 rows", "7 rows", "nswered otherwise", "the whole"):
            assert words in page.replace("\\", "").replace("&nbsp;", " "), words
        assert "ingerprints that moved" in page
