"""docs/reference.md is what the code says, and has an anchor for each warning."""

import re

from replayer.analysis.advice import warnings
from tests import documents, reference


def test_the_reference_is_that_of_the_code() -> None:
    """A key, a metric or a warning that changed is written again: `make reference`."""
    assert reference.PAGE.read_text(encoding="utf-8") == reference.page()


def test_the_table_of_verbs_is_that_of_the_code() -> None:
    """A verb, a parameter or a module that changed is written again: `make reference`."""
    assert reference.EXTENDING.read_text(encoding="utf-8") == reference.extending()


def test_each_warning_has_an_anchor_of_its_own() -> None:
    """Names of keys and steps are headings, too: none takes the anchor of a warning."""
    names = [warning.__name__ for warning in warnings.every()]
    headings = re.findall("(?m)^### (.*)", reference.PAGE.read_text(encoding="utf-8"))
    assert len(names) > 20
    assert set(names) <= documents.anchors(reference.PAGE)
    assert len(headings) == len(set(headings))


def test_metrics_are_found_in_the_code() -> None:
    """Those of the main job, with unit and direction."""
    page = reference.PAGE.read_text(encoding="utf-8")
    for line in (
        "| `walk.throughput` | bytes/s | more is better |",
        "| `build.last_doubling` | s | less is better |",
        "| `sessions.latency.p99` | s | less is better |",
    ):
        assert line in page
