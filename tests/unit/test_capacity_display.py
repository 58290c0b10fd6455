"""What the report of a search for the highest rate claims."""

from typing import Any

import pytest

from replayer.model import Better, Measurement, Status, StepResult
from replayer.run.display import Form, Sentence
from replayer.steps.capacity import display

REQUIRED: dict[str, Any] = {
    "capacity.required_per_second": 300.0,
    "capacity.objective": "p99 < 10 ms",
}


TRIAL = {
    **dict.fromkeys(("p50_s", "p99_s", "server_cores", "reads_per_second", "writes_per_second")),
    **dict.fromkeys(("multiple", "asked_per_second", "throughput_per_second", "lag_s"), 1.0),
    **dict.fromkeys(("user_cores", "system_cores", "log_share", "row_lock_share"), 0.1),
}


def searched(facts: dict[str, Any], *trials: str, **found: float) -> Form:
    """Return the display of a search with these facts and metrics, whose trials ended so."""
    done = StepResult(
        step="capacity",
        name="capacity",
        repeat=1,
        status=Status.DONE,
        started="2026-11-26T12:00:00+00:00",
        elapsed=1.0,
        spec={},
        facts=facts,
        tables={"trials": tuple({**TRIAL, "ended": ended} for ended in trials)},
        measurements=tuple(
            Measurement(metric=f"capacity.{name}", value=value, unit="times", better=Better.NEITHER)
            for name, value in found.items()
        ),
    )
    return display.form(done)


def sentences(facts: dict[str, Any], *trials: str, **found: float) -> list[str]:
    """Return the sentences of a search with these facts and metrics, whose trials ended so."""
    parts = searched(facts, *trials, **found).parts
    return [part.text for part in parts if isinstance(part, Sentence)]


@pytest.mark.parametrize(
    ("trials", "words"),
    [
        (("failed", "void", "not offered"), "no rate that was tried held: {} is out of reach"),
        (("held",), "no rate was sustained for sure: {} is not proven"),
        (("held", "failed"), "no rate was sustained for sure: {} is not proven"),
        (("not offered", "void"), "no rate could be offered to the server: nothing is known of {}"),
    ],
)
def test_the_required_rate_is_out_of_reach_only_if_a_trial_failed_and_none_held(
    trials: tuple[str, ...], words: str
) -> None:
    """A search that was cut short, or whose clients were too slow, has refuted nothing."""
    assert sentences(REQUIRED, *trials) == [words.format("the required 300/s with p99 < 10 ms")]


def test_a_search_without_a_rate_that_held_calls_the_required_one_out_of_reach() -> None:
    """All its trials were measured."""
    assert sentences(REQUIRED) == [
        "no rate that was tried held: the required 300/s with p99 < 10 ms is out of reach"
    ]


def test_a_search_that_was_given_up_has_its_reason_and_claims_nothing() -> None:
    """Other programs disturbed its trials: that no rate held then proves nothing."""
    why = "others used 21% of the processors in 2 trials in a row"

    assert sentences({**REQUIRED, "capacity.gave_up": why}) == [f"the search was given up: {why}"]


def test_a_multiple_below_1_is_never_printed_as_1() -> None:
    """In red, 1.00 times the required rate contradicts itself; nor does its interval hold it."""
    facts = {**REQUIRED, "capacity.clear": True}
    found = {"multiple": 0.9966, "low": 0.9951, "high": 0.9972}

    assert sentences(facts, **found) == [
        "0.997 times the required 300/s with p99 < 10 ms (95 % interval 0.995 to 0.997)"
    ]
    assert sentences(facts, multiple=0.9999, low=0.9998, high=0.99996) == [
        "0.9999 times the required 300/s with p99 < 10 ms (95 % interval 0.9998 to 0.99996)"
    ]
