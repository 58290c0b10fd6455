"""Stored histograms are bounded before they are decoded, and keep what was put into them."""

import base64
import struct
import tracemalloc
import zlib

import pytest
from hdrh.histogram import HdrHistogram

from replayer.model import Latency
from replayer.report.documents import step_layout
from replayer.results import stored_histogram
from tests.known import known


def payload(
    body: bytes = b"\2",
    *,
    figures: int = 3,
    lowest: int = 1,
    highest: int = 3_600_000_000_000,
    cookie: int = 0x1C849313,
) -> str:
    """Return a payload with this header and these counters."""
    packed = zlib.compress(
        struct.pack(">IIIIQQd", cookie, len(body), 0, figures, lowest, highest, 1.0) + body
    )
    return base64.b64encode(struct.pack(">II", 0x1C849314, len(packed)) + packed).decode()


def test_what_is_encoded_is_decoded() -> None:
    """Values keep three digits, counts are exact, also above the library's 32 bits."""
    latency = stored_histogram.encode({100: 3_000_000_000, 5_000_000: 2_000_000_000})
    decoded = stored_histogram.decode(latency.payload)

    assert latency.operations == decoded.total_count == 5_000_000_000
    assert decoded.get_value_at_percentile(50) == 100
    assert decoded.get_value_at_percentile(99) == pytest.approx(5_000_000, rel=1e-3)


@pytest.mark.parametrize(
    "counts", [{5: -1}, {-5: 1}, {5: 1 << 63}, {10**13: 1}, {5: 1 << 53, 6: 1}, {10**400: 10**400}]
)
def test_counts_that_no_run_has_are_refused(counts: dict[int, int]) -> None:
    """Below zero, beyond an hour, more than 2^53: a ValueError, and the interpreter lives."""
    with pytest.raises(ValueError, match=r"is none|more latencies than any run"):
        stored_histogram.encode(counts)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "é",
        "A" * 4_000_000,
        payload(bytes(64 << 20)),
        payload(figures=5, highest=(1 << 64) - 1),
        payload(figures=0),
        payload(figures=1 << 31),
        payload(lowest=0),
        payload(lowest=1 << 62, highest=1 << 62),
        payload(b"\xff" * 9),
        payload(b"\3" * 60_000),
        payload(cookie=1),
    ],
    ids=range(13),
)
def test_a_hostile_histogram_is_refused_in_little_memory(text: str) -> None:
    """A zlib bomb, a header of many gigabytes, broken counters: one sentence, below 16 MB."""
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="histogram"):
            stored_histogram.decode(text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 16 << 20
    assert "histogram" in str(step_layout.percentiles(Latency(payload=text, operations=1)))


def test_histograms_of_other_bounds_add_up() -> None:
    """A coarser histogram and one that cannot be read do not stop the others."""
    coarse = HdrHistogram(1, 1 << 20, 2)
    coarse.record_value(1000, 3)
    texts = [coarse.encode().decode(), "x", stored_histogram.encode({1000: 2, 10**12: 1}).payload]
    merged = known(stored_histogram.merged(texts))

    assert merged.get_total_count() == 6
    assert merged.get_max_value() >= 10**12
    assert stored_histogram.merged(["x"]) is None
