"""Fixtures of the unit tests: golden texts, the run of the newest format's fixture."""

from pathlib import Path

import pytest

from replayer.model import Run
from replayer.results import store
from tests.fixture_types import Compare

TESTS = Path(__file__).parents[1]


@pytest.fixture
def stored() -> Run:
    """Return the run of the newest result format's fixture."""
    return store.load(TESTS / "fixtures" / "runs" / f"format-{store.FORMAT}.json")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Compare:
    """Return a function that compares a text with tests/golden/NAME.

    `pytest --update-golden` rewrites the files instead.
    """

    def compare(text: str, name: str) -> None:
        path = TESTS / "golden" / name
        if request.config.getoption("--update-golden"):
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8")

    return compare
