"""Results that do not count in a comparison: not what was asked, or disturbed on one side only."""

from collections.abc import Callable, Iterator, Sequence

import pytest

from replayer.analysis.differences.comparison import LIKELY, SHOWN, Comparison, MetricVerdict
from replayer.analysis.differences.comparison import compare as compare_sides
from replayer.analysis.differences.doubts import count_results
from replayer.analysis.differences.finding import refuse_unjudged
from replayer.analysis.differences.samples import Side
from replayer.errors import Impossible
from replayer.model import Advice, Foreign, ReadOrigin, Run, Status, StepResult, Temperature
from tests.fixture_types import RunOf
from tests.made import altered, ledger, reached, screen_of, with_step

_VALUES = {"A": 1000.0, "B": 4000.0}
Change = Callable[[Run], Run]


def busy(share: float) -> Change:
    """Return a function that makes other programs use a share of the processors in a run."""
    return lambda run: with_step(run, foreign=Foreign(cpu_share=share, programs=("stress",)))


@pytest.fixture
def compare(run_of: RunOf) -> Callable[..., Comparison]:
    """Return a function that compares boots in the order ABBAABBA..., four times as fast in B.

    `changes` has a list of changes of runs for each side; runs beyond it are as they are.
    """

    def make(
        by: str = "", pairs: int = 4, metrics: Sequence[str] = (), **changes: Sequence[Change]
    ) -> Comparison:
        sides: dict[str, list[Run]] = {"A": [], "B": []}
        for number, name in enumerate(("ABBA" * pairs)[: 2 * pairs]):
            runs = sides[name]
            run = run_of([_VALUES[name] + number], boot=f"b{number}", label=name)
            own = changes.get(name, ())
            runs.append(own[len(runs)](run) if len(runs) < len(own) else run)
        both = (Side(name, tuple(runs)) for name, runs in sides.items())
        return compare_sides(*both, by=by, metrics=metrics)

    return make


def claims(comparison: Comparison) -> bool:
    """Return whether a side is called better, worse, or likely either."""
    return any(row.verdict in SHOWN | LIKELY for row in comparison.rows)


@pytest.mark.parametrize("base", [Temperature.COLD, Temperature.LUKEWARM])
def test_a_side_that_was_not_as_asked_is_not_judged(
    compare: Callable[..., Comparison], base: Temperature
) -> None:
    """Asked cold, all of B hot: no side is claimed, and the screen and the headline report it."""
    compared = compare(A=[reached(base)] * 4, B=[reached(Temperature.HOT)] * 4)

    assert [row.verdict for row in compared.rows] == [MetricVerdict.UNCLEAR]
    assert "sessions is not judged" in compared.headline
    assert "asked cold, got hot, in 4 of 4 runs of B" in compared.headline
    screen = " ".join(screen_of(compared).split())
    assert "believe" in screen
    assert screen.count("asked cold, got hot, in 4 of 4 runs of B") == 2


def test_what_was_asked_of_the_ledger_counts_too(compare: Callable[..., Comparison]) -> None:
    """Asked physical, got cached in all of B."""
    cached = [lambda run: with_step(run, ledger=ledger(ReadOrigin.CACHED))] * 4
    assert not claims(compare(B=cached))


def test_a_comparison_by_what_was_reached_is_judged(compare: Callable[..., Comparison]) -> None:
    """Groups formed by the temperature that the step reached differ by what they are to differ."""
    sides = {"A": [reached(Temperature.COLD)] * 4, "B": [reached(Temperature.HOT)] * 4}

    assert claims(compare(by="sessions.cold", **sides))
    assert not claims(compare(by="label", **sides))


def test_few_results_that_were_not_as_asked_are_left_out(
    compare: Callable[..., Comparison],
) -> None:
    """One of six: it does not count, the others do, and the remark names it."""
    cold, hot = reached(Temperature.COLD), reached(Temperature.HOT)
    compared = compare(pairs=6, A=[cold] * 6, B=[hot, *[cold] * 5])

    assert claims(compared)
    assert len(compared.rows[0].other_values) == 5
    assert any("1 of 6 runs of B, which do not count" in words for words in compared.warnings)


def test_what_is_left_must_have_taken_turns(compare: Callable[..., Comparison]) -> None:
    """Of ABBA four times the first A and the last B do not count: what is left holds for itself."""
    cold, hot = reached(Temperature.COLD), reached(Temperature.HOT)
    compared = compare(pairs=8, A=[hot] * 4 + [cold] * 4, B=[cold] * 4 + [hot] * 4)

    assert compared.turns
    assert [row.verdict for row in compared.rows] == [MetricVerdict.DIFFERS]
    assert "in these runs" in compared.headline


@pytest.mark.parametrize(("base", "other"), [(0.0, 0.6), (0.06, 0.6)])
def test_a_side_that_other_programs_disturbed_is_not_judged(
    compare: Callable[..., Comparison], base: float, other: float
) -> None:
    """All of B, much more than A: no side is claimed, and the headline names the programs."""
    compared = compare(A=[busy(base)] * 4, B=[busy(other)] * 4)

    assert not claims(compared)
    assert "other programs used up to 60% of the processors" in compared.headline


def test_other_programs_on_both_sides_alike_are_a_remark(
    compare: Callable[..., Comparison],
) -> None:
    """As strong on both sides: the difference is claimed, and the remark counts the runs."""
    advice = Advice(name="foreign_processes", found="other programs", steps=("sessions",))
    runs = [
        lambda run, share=share: altered(busy(share)(run), advice=(advice,))
        for share in (0.2, 0.5, 0.3, 0.4)
    ]
    compared = compare(A=runs, B=runs)

    assert claims(compared)
    assert "4 of 4 runs of A, 4 of 4 of B: other programs" in compared.warnings


def test_a_warning_of_one_side_is_a_remark_and_that_of_both_is_none(
    compare: Callable[..., Comparison],
) -> None:
    """A quota that held back B is reported next to the claim; a read-ahead of both sides is not."""
    both = Advice(name="large_read_ahead", found="read_ahead_kb is 8192")
    one = Advice(name="held_back", found="the CPU quota held back replayer", steps=("sessions",))
    compared = compare(
        A=[lambda run: altered(run, advice=(both,))] * 4,
        B=[lambda run: altered(run, advice=(both, one))] * 4,
    )

    assert claims(compared)
    assert compared.warnings == ("0 of 4 runs of A, 4 of 4 of B: the CPU quota held back replayer",)


UNKNOWN = [
    reached(Temperature.UNKNOWN),
    reached(Temperature.HOT),
    lambda run: with_step(run, ledger=ledger(ReadOrigin.UNKNOWN)),
]


@pytest.mark.parametrize("change", UNKNOWN)
def test_what_all_results_of_both_sides_reached_is_judged_with_a_remark(
    compare: Callable[..., Comparison], change: Change
) -> None:
    """As on a server whose files replayer cannot see: nothing is known of any run."""
    compared = compare(A=[change] * 4, B=[change] * 4)

    assert claims(compared)
    assert not compared.unjudged
    assert any("in all runs of both sides" in words for words in compared.warnings)


def test_one_disturbed_repeat_of_a_run_is_left_out_and_the_others_count(run_of: RunOf) -> None:
    """10 repeats a side in one run each: 9 against 10, though the file warns of the step."""
    base, other = (run_of([level + n / 10 for n in range(10)]) for level in (100.0, 200.0))
    advice = Advice(name="foreign_processes", found="sessions: others", steps=("sessions",))
    steps = (
        altered(step, foreign=Foreign(cpu_share=0.2 if step.repeat == 3 else 0.0))
        for step in base.steps
    )
    base = altered(base, steps=tuple(steps), advice=(advice,))
    compared = compare_sides(Side("A", (base,)), Side("B", (other,)))

    assert not compared.unjudged
    assert [len(compared.rows[0].base_values), len(compared.rows[0].other_values)] == [9, 10]
    assert any("in 1 of 10 repeats of A, which do not" in words for words in compared.warnings)


@pytest.mark.parametrize(
    ("base", "other"),
    [([0.049] * 6, [0.051] * 6), ([0.06] * 4 + [0.04] * 2, [0.06] + [0.04] * 5)],
)
def test_loads_that_are_nearly_alike_are_even_whatever_the_limit_of_the_warning(
    compare: Callable[..., Comparison], base: Sequence[float], other: Sequence[float]
) -> None:
    """Some are below 5 %, some above: no result is left out."""
    compared = compare(pairs=6, A=[busy(one) for one in base], B=[busy(one) for one in other])

    assert claims(compared)
    assert len(compared.rows[0].base_values) == len(compared.rows[0].other_values) == 6


def test_a_warning_without_a_name_is_that_of_its_sentence(
    compare: Callable[..., Comparison],
) -> None:
    """A is of an earlier version: both sides have the warning, so it explains nothing."""
    named = Advice(name="large_read_ahead", found="read_ahead_kb is 8192")
    unnamed = Advice(found="read_ahead_kb is 4096")
    compared = compare(
        A=[lambda run: altered(run, advice=(unnamed,))] * 4,
        B=[lambda run: altered(run, advice=(named,))] * 4,
    )

    assert not [words for words in compared.warnings if "read_ahead" in words]


def two_steps(run: Run, shares: tuple[float, float]) -> Run:
    """Return a run with a second step, walk, and the shares of other programs in both steps."""
    steps = tuple(
        altered(run.steps[0], name=name, foreign=Foreign(cpu_share=share))
        for name, share in zip(("sessions", "walk"), shares, strict=True)
    )
    advice = Advice(
        name="foreign_processes",
        found="other programs",
        steps=tuple(step.name for step in steps if (step.foreign or Foreign()).cpu_share),
    )
    return altered(run, steps=steps, advice=(advice,))


def test_an_even_disturbance_of_a_step_is_reported_next_to_an_uneven_one_of_another(
    compare: Callable[..., Comparison],
) -> None:
    """Both sides disturbed in sessions, B alone in walk: both are reported."""
    compared = compare(
        A=[lambda run: two_steps(run, (0.3, 0.0))] * 4,
        B=[lambda run: two_steps(run, (0.3, 0.3))] * 4,
    )

    assert compared.unjudged.keys() == {"walk"}
    assert "4 of 4 runs of A, 4 of 4 of B: other programs" in compared.warnings


def with_scan(run: Run, **changes: object) -> Run:
    """Return a run with a second step, scan, of which the result has other values."""
    (step,) = run.steps
    (rate,) = step.measurements
    scan = {"name": "scan", "measurements": (altered(rate, metric="scan.rate", value=1.0),)}
    return altered(run, steps=(step, altered(step, **{**scan, **changes})))


def without_scan(run: Run) -> Run:
    """Return a run that was cut off before its second step."""
    return altered(run, status=Status.INTERRUPTED, error="its time was over")


SKIPPED = {"status": Status.SKIPPED, "reason": "no such index", "measurements": ()}
MISSING: list[tuple[Change, str]] = [
    (lambda run: with_scan(run, **SKIPPED), "no such index"),
    (lambda run: with_scan(run, status=Status.FAILED), "failed"),
    (lambda run: with_scan(run, measurements=()), "nothing was measured"),
    (without_scan, "its time was over"),
    (lambda run: run, "the step is not part of them"),
]


@pytest.mark.parametrize(("change", "why"), MISSING)
@pytest.mark.parametrize("side", ["A", "B"])
def test_a_step_that_one_side_has_no_result_of_is_not_judged(
    compare: Callable[..., Comparison], change: Change, why: str, side: str
) -> None:
    """The headline says it with the reason, once, and the gate does not pass."""
    both = {"A": [with_scan] * 4, "B": [with_scan] * 4}
    compared = compare(**{**both, side: [change] * 4})

    assert compared.unjudged == {"scan": f"no result in 4 of 4 runs of {side}: {why}"}
    assert compared.headline.endswith(f"; scan is not judged ({compared.unjudged['scan']})")
    assert not any(words.startswith("only ") for words in compared.warnings)
    with pytest.raises(Impossible, match=f"scan is not judged .no result in 4 of 4.*{why}"):
        refuse_unjudged(compared)


def test_a_step_without_results_whose_metrics_are_left_out_is_no_matter(
    compare: Callable[..., Comparison],
) -> None:
    """With --metric for another step only, there is nothing about it to judge."""
    lacking = [lambda run: with_scan(run, **SKIPPED)] * 4
    others, own = (
        compare(A=[with_scan] * 4, B=lacking, metrics=metrics)
        for metrics in (["sessions.*"], ["sessions.*", "scan.rate"])
    )

    assert not others.unjudged
    assert own.unjudged.keys() == {"scan"}
    refuse_unjudged(others)


def test_a_step_that_some_runs_have_no_result_of_is_judged_with_a_remark(
    compare: Callable[..., Comparison],
) -> None:
    """The remark has the count and the reason, and that the others may be the faster ones."""
    lacking = [lambda run: with_scan(run, **SKIPPED)] * 2
    compared = compare(A=[with_scan] * 4, B=[*lacking, with_scan, with_scan])

    assert not compared.unjudged
    assert (
        "scan: no result in 2 of 4 runs of B: no such index; those that have one may be the "
        "faster ones"
    ) in compared.warnings


def test_a_step_that_no_run_has_a_result_of_is_a_remark(
    compare: Callable[..., Comparison],
) -> None:
    """Skipped everywhere: there is nothing to judge.  One that measures nothing is no matter."""
    skipped, prepares = (
        [lambda run, changes=changes: with_scan(run, **changes)] * 4
        for changes in (SKIPPED, {"measurements": ()})
    )
    compared = compare(A=skipped, B=skipped)

    assert not compared.unjudged
    assert compared.warnings == ("scan: no result in any run of either side: no such index",)
    assert not compare(A=prepares, B=prepares).warnings


def test_runs_of_several_workloads_need_not_all_have_a_step(
    compare: Callable[..., Comparison],
) -> None:
    """A run that was done, and was not to do the step, lacks nothing."""
    some = [with_scan, with_scan, lambda run: run, lambda run: run]
    compared = compare(A=some, B=some)

    assert not compared.unjudged
    assert not [words for words in compared.warnings if "no result" in words]


class CountedSteps(tuple[StepResult, ...]):
    """Steps that count how often they are gone through."""

    __slots__ = ()
    passes: list[int] = []  # noqa: RUF012 - one list for all

    def __iter__(self) -> Iterator[StepResult]:
        """Return an iterator of the steps."""
        self.passes.append(len(self))
        return super().__iter__()


def test_the_time_to_count_results_does_not_grow_with_steps_times_steps(run_of: RunOf) -> None:
    """The steps of a run are gone through once or twice, not once for each of 20 steps."""
    run = run_of([1.0])
    steps = [altered(run.steps[0], name=f"s{n}", foreign=Foreign(cpu_share=0.3)) for n in range(20)]
    run = altered(run, steps=CountedSteps(steps))
    CountedSteps.passes.clear()
    count_results(Side("A", (run,)), Side("B", (run,)))

    assert len(CountedSteps.passes) <= 4
