"""Verdicts on stored results of real runs, beside which the machine had other work."""

from pathlib import Path

import pytest

from replayer.model import Run
from replayer.results import store
from replayer.sizing.record import Sizing
from replayer.sizing.target import Fit
from replayer.sizing.verdict import FitVerdict, judge

FOLDER = Path(__file__).parent.parent / "fixtures" / "sizing"


def recorded(name: str) -> tuple[Sizing, Run, FitVerdict]:
    """Return a stored run that sized a machine, what it was for, and the verdict."""
    run = store.load(FOLDER / f"{name}.json")
    sizing = Sizing.of(run)
    return sizing, run, judge(sizing, run)


@pytest.mark.parametrize("name", ["scans", "split"])
def test_cpu_that_the_load_did_not_burn_is_a_prediction(name: str) -> None:
    """Scans used 0.2 of the 0.8 cores that are required: 3.92 times of that are no proof."""
    sizing, run, verdict = recorded(name)
    (row,) = (row for row in verdict.rows if row.need in {"cpu", "server_cpu"})
    held = [one for one in run.steps[-1].tables["trials"] if one["ended"] == "held"]
    assert row.required is not None
    assert all(one["server_cores"] < 0.9 * row.required * one["multiple"] for one in held)
    assert row.known == "predicted"
    assert row.multiple == pytest.approx((sizing.cores or 0) / row.required)


@pytest.mark.parametrize(("name", "who"), [("scans", "mypy"), ("split", "python")])
def test_a_search_that_others_disturbed_is_unclear_and_names_them(name: str, who: str) -> None:
    """Two void trials in a row above what had held once: no `fits`, and no `does not fit`."""
    _, run, verdict = recorded(name)
    endings = [one["ended"] for one in run.steps[-1].tables["trials"]]
    assert endings[-2:] == ["void", "void"]
    assert verdict.fit is Fit.UNCLEAR
    assert who in verdict.reasons[0]
    assert "had held once" in verdict.reasons[0]


def test_statements_that_were_split_keep_an_objective_that_the_long_ones_cannot() -> None:
    """1.28 s of CPU once a second are 640 statements of 2 ms: p99 13.2 ms, of an objective of 20.

    The long ones took 3.9 to 9.5 s beside each other, at the same rate on the same machine.
    """
    sizing, run, _ = recorded("split")
    required = run.steps[-1].tables["trials"][0]
    assert (required["multiple"], required["ended"]) == (1.0, "held")
    assert required["p99_s"] < 0.02
    assert sizing.rate == pytest.approx(640)
    assert sizing.rate - sizing.compute == pytest.approx(1)


def test_a_scan_in_small_buffers_read_more_and_smaller_requests_than_the_source() -> None:
    """9,589 reads/s where 600 of 130 kB were required: why scans have larger buffers by now."""
    _, run, verdict = recorded("scans")
    required = run.steps[-1].tables["trials"][0]
    assert required["read_bytes_per_second"] / required["reads_per_second"] < 10_000
    (row,) = (row for row in verdict.rows if row.need == "read_mbps")
    # The load had read as much as is required: the search that was given up leaves it unclear.
    assert (row.fit, row.known) == (Fit.UNCLEAR, "measured")
