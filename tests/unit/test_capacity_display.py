"""What the report of a search for the highest rate claims."""

from typing import Any

from replayer.model import Status, StepResult
from replayer.run.display import Sentence
from replayer.steps.capacity import display

REQUIRED: dict[str, Any] = {
    "capacity.required_per_second": 300.0,
    "capacity.objective": "p99 < 10 ms",
}


def sentences(facts: dict[str, Any]) -> list[str]:
    """Return the sentences of a search with these facts."""
    done = StepResult(
        step="capacity",
        name="capacity",
        repeat=1,
        status=Status.DONE,
        started="2026-11-26T12:00:00+00:00",
        elapsed=1.0,
        spec={},
        facts=facts,
    )
    return [part.text for part in display.form(done).parts if isinstance(part, Sentence)]


def test_a_search_without_a_rate_that_held_calls_the_required_one_out_of_reach() -> None:
    """All its trials were measured."""
    assert sentences(REQUIRED) == [
        "no rate that was tried held: the required 300/s with p99 < 10 ms is out of reach"
    ]


def test_a_search_that_was_given_up_has_its_reason_and_claims_nothing() -> None:
    """Other programs disturbed its trials: that no rate held then proves nothing."""
    why = "others used 21% of the processors in 2 trials in a row"

    assert sentences({**REQUIRED, "capacity.gave_up": why}) == [f"the search was given up: {why}"]
