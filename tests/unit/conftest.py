"""Fixtures of the unit tests: golden texts, the run of the newest format's fixture."""

from pathlib import Path

import pytest

from replayer.results import store

TESTS = Path(__file__).parents[1]


@pytest.fixture
def stored():
    """Return the run of the newest result format's fixture."""
    return store.load(TESTS / "fixtures" / "runs" / f"format-{store.FORMAT}.json")


@pytest.fixture
def golden(request):
    """Return a function that compares a text with tests/golden/NAME.

    `pytest --update-golden` rewrites the files instead.
    """

    def compare(text, name):
        path = TESTS / "golden" / name
        if request.config.getoption("--update-golden"):
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8")

    return compare
