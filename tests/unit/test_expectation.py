"""What a plan says before it begins: how long it takes, and whether so many boots suffice."""

from pathlib import Path
from typing import Any

import pytest

from replayer.analysis.advice import estimates
from replayer.model import Better, Measurement, Run, WorkloadFacts
from replayer.results import store
from replayer.run.plan import workload
from tests.fixture_types import RunOf
from tests.made import altered

SPEC = {"step": "sessions", "name": "sessions", "num_threads": 4}


def asked(*specs: dict[str, Any], repeat: int = 1, digest: str = "new") -> WorkloadFacts:
    """Return a workload of these steps."""
    return WorkloadFacts(
        name="demo", source="", digest=digest, repeat=repeat, settings={}, steps=specs or (SPEC,)
    )


def test_a_run_of_the_same_workload_tells_the_time(run_of: RunOf) -> None:
    """The time from start to end of the newest run that did the same as often."""
    run = run_of([1.0])
    expected = estimates.expect(asked(digest="d"), [run], [60.0])

    assert (expected.seconds, expected.whole, expected.source) == (3599.0, True, run.id)
    assert "about 59 min 59 s, all 12 boots 12 h 00 min" in estimates.time(expected, 12)


def test_the_same_steps_tell_it_where_no_run_does(run_of: RunOf) -> None:
    """Steps that were done the same way in another workload count as often as they are asked."""
    once = {"step": "build", "name": "build", "once": True}
    built = run_of([1.0], spec=once)
    built = altered(built, steps=tuple(altered(s, step="build") for s in built.steps))
    expected = estimates.expect(asked(once, SPEC, repeat=5), [run_of([1.0]), built], [0.0, 60.0])

    assert (expected.seconds, expected.whole) == (6.0, True)
    assert "as its steps did" in estimates.time(expected, 1)


def test_what_steps_are_set_to_is_the_least(run_of: RunOf) -> None:
    """Without any run of them: the run time of the sessions, and more."""
    kernel = workload.load("kernel-compare")
    set_to = [spec.lasts() for spec in kernel.steps]
    expected = estimates.expect(workload.facts(kernel), [], set_to)

    assert expected.seconds == 10 * 2 * 300
    assert "1 h 40 min or more" in estimates.time(expected, 12)
    nothing = estimates.expect(asked(), [], [0.0])
    assert "not known" in estimates.time(nothing, 12)


def test_a_step_on_other_data_tells_no_time(run_of: RunOf) -> None:
    """A scan of 98,304 rows does not tell how long the same scan of fifty million takes."""
    built = run_of([1.0])
    small = {"step": "build", "name": "build", "once": True, "rows": 98304}
    steps = (altered(built.steps[0], step="build", spec=small), *built.steps)
    run = altered(built, steps=steps)
    spec = dict(built.steps[0].spec)

    assert estimates.took(spec, [run], 0.0, [small]).source == run.id
    assert estimates.took(spec, [run], 0.0, [{**small, "rows": 50331648}]).seconds is None


def many(run_of: RunOf, count: int) -> Run:
    """Return a run whose step has so many metrics, and as many more that say the same."""
    run = run_of([1.0])
    measurements = tuple(
        Measurement(metric=f"sessions.m{n}{kind}", value=1, unit="", better=better, says=says)
        for n in range(count)
        for kind, better, says in (
            ("", Better.MORE, ""),
            ("inverse", Better.LESS, f"sessions.m{n}"),
            ("count", Better.NEITHER, ""),
        )
    )
    step = altered(run.steps[0], measurements=measurements)
    return altered(run, steps=(step,))


@pytest.mark.parametrize(
    ("each", "metrics", "words"),
    [
        (1, 5, "1 boot of each kernel can never show a difference"),
        (3, 5, "3 boots of each kernel can never show a difference"),
        (
            6,
            5,
            "5 metrics, 1 of them leading: 6 boots of each kernel can show a difference in each",
        ),
        (6, 31, "for one of the others alone it takes 14 boots"),
        (7, 31, "each of them alone"),
    ],
)
def test_a_plan_says_whether_its_boots_suffice_for_its_metrics(
    run_of: RunOf, each: int, metrics: int, words: str
) -> None:
    """It counts the metrics that are judged, those that say the same once."""
    expected = estimates.expect(asked(), [many(run_of, metrics)], [0.0])

    assert (expected.leading, expected.others) == (1, metrics - 1)
    assert words in estimates.worth(each, 2, expected)


def test_a_workload_that_never_ran_has_metrics_that_nobody_counted() -> None:
    """It is said that their number is not known, and what so many boots can show at most."""
    assert "up to 11 leading metrics" in estimates.worth(6, 2, None)
    assert "10 boots can" in estimates.worth(4, 2, None)


def test_earlier_runs_are_the_newest_of_the_workload_first(run_of: RunOf, tmp_path: Path) -> None:
    """Runs of another workload come after it, and files that are none are passed over."""
    runs = [run_of([1.0], workload=name) for name in ("demo", "smoke", "demo", "smoke")]
    for run in runs:
        store.save(tmp_path / f"{run.id}.json", run)
    (tmp_path / "broken.json").write_text("{")

    order = [run.id for run in estimates.earlier([tmp_path], "demo")]
    assert order == [runs[n].id for n in (2, 0, 3, 1)]
    assert estimates.earlier([tmp_path / "none"], "demo") == []
