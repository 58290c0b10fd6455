"""docs/reference.md is what the code says, and has an anchor for each warning."""

import re

from replayer.analysis.advice import warnings
from replayer.engines import verb_table
from replayer.metrics.families import MetricFamilies
from tests import documents, reference


def test_every_family_that_is_served_is_in_the_reference() -> None:
    """Whatever its kind: facts, gauges, counters and histograms."""
    text = reference.PAGE.read_text(encoding="utf-8")
    missing = [one.name for one in MetricFamilies()._every() if f"| `{one.name}` |" not in text]

    assert missing == []


def test_the_reference_is_that_of_the_code() -> None:
    """A key, a metric or a warning that changed is written again: `make reference`."""
    assert reference.PAGE.read_text(encoding="utf-8") == reference.page()


def test_the_table_of_verbs_is_that_of_the_code() -> None:
    """A verb, a parameter or a module that changed is written again: `make reference`."""
    assert reference.EXTENDING.read_text(encoding="utf-8") == reference.extending()


def test_what_no_engine_can_leave_out_is_explained() -> None:
    """Who writes an engine that is like none reads what each of its verbs does."""
    begin, end = "## The table and its verbs", "## The verbs"
    told = documents.text_of(reference.EXTENDING).partition(begin)[2].partition(end)[0]
    needed = [verb.name for verb in verb_table.list_verbs() if not verb.may_be_left_out]

    assert len(needed) > 20
    assert [name for name in needed if f"`{name}`" not in told] == []


def test_each_key_of_an_engine_is_explained() -> None:
    """A key without a text is one whose meaning only the code has."""
    keys = documents.text_of(reference.PAGE).partition("## Keys of engine.toml")[2]
    rows = [line for line in keys.partition("\n## ")[0].splitlines() if line.startswith("| `")]

    assert len(rows) > 60
    assert [row for row in rows if row.endswith("|  |")] == []


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
