"""Loads whose data is larger than the server's buffers: each level reads other rows."""

from dataclasses import replace

import pytest

from replayer.load.level import measure_level
from replayer.load.spec import ready
from replayer.run.context import Context
from replayer.steps.buffers.spec import Spec
from replayer.steps.buffers.step import run
from replayer.steps.capacity.spec import Spec as Capacity
from replayer.steps.capacity.step import run as search

KEYS: dict[str, object] = {
    "mix": "point=1",
    "num_schemas": 2,
    "scale": "32M",
    "memory": "direct",
    "sessions": 4,
    "rate": 500,
}


@pytest.fixture
def direct(context: Context) -> Context:
    """Return a context whose server may read directly."""
    if context.server.version < 16:
        pytest.skip("direct I/O came with PostgreSQL 16")
    return context


def capacity(**keys: object) -> Capacity:
    """Return a search in buffers of half of the data."""
    named = {"step": "capacity", "name": "capacity", "shared_buffers": "32M"}
    return Capacity.model_validate({**named, **KEYS, **keys})


@pytest.mark.slow
def test_more_is_found_in_larger_buffers(direct: Context) -> None:
    """A quarter of the rows lies in buffers of a quarter; in such of twice the data all do."""
    sizes = {"sizes": ("16M", "128M"), "window": "1s", "longest": "4s"}
    spec = Spec.model_validate({"step": "buffers", "name": "buffers", **sizes, **KEYS})
    run(spec, direct)

    small, large = direct.findings.tables["buffers"]
    # Of the three blocks that a row takes, two are of the index and always found.
    assert small["hit_share"] < 0.85
    assert small["device_reads_per_second"] > 0
    assert large["hit_share"] > 0.97
    assert direct.findings.foreign is not None


@pytest.mark.slow
def test_no_level_reads_what_the_one_before_read(direct: Context) -> None:
    """The hits of a search's trials stay what the buffers' size makes them: keys are drawn anew."""
    spec = capacity(trial="2s", hold="0s", slo="p99=5s", most=1.2, least=0.9, resolution=0.1)
    search(spec, direct)

    shares = [row["hit_share"] for row in direct.findings.tables["trials"]]
    assert len(shares) >= 3
    # A thousand rows of a trial are 8 MiB, which would stay in the buffers for the next one.
    assert max(shares) < 0.93


@pytest.mark.slow
def test_the_same_draw_is_the_same_load(direct: Context) -> None:
    """A number of the same seed gives the same keys again: the second time all are found."""
    shares = []
    with ready(capacity(), 4, direct) as (database, asked, _):
        level = replace(asked, sessions=4, seconds=2.0, rate=500.0)
        for number in (1, 1, 2):
            share = measure_level(level.drawn(number), direct, database).hit_ratio
            assert share is not None
            shares.append(share)
    assert shares[1] > 0.98
    assert shares[2] < 0.93
