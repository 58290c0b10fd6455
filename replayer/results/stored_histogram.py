"""Latency histograms of result files and of other tools, checked before a library gets them.

The library's C code trusts its input.  It allocates as much as a payload's header asks for, unpacks
zlib without a limit, and ends the interpreter at a negative count.
"""

import base64
import contextlib
import struct
import zlib
from collections.abc import Iterable, Mapping

from hdrh.histogram import HdrHistogram

from replayer.model import Latency

HIGHEST_NS = 3_600_000_000_000
"""The longest latency that a histogram of another tool can hold: an hour."""
_MOST_OPERATIONS = 1 << 53
_MOST_COUNTERS = 1 << 16
"""64 powers of two of 1024 counters each: three digits of every value of 63 bits."""
_EXTERNAL = struct.Struct(">II")
"""The beginning of a payload: cookie, length of the compressed part."""
_HEADER = struct.Struct(">IIIIQQd")
"""The unpacked header: cookie, length, offset, figures, lowest and highest value, ratio."""
_LONGEST_COUNTER = 9
_LARGEST = _HEADER.size + _LONGEST_COUNTER * _MOST_COUNTERS
_LONGEST_TEXT = _LARGEST * 4 // 3 + 1024


def encode(counts: Mapping[int, int]) -> Latency:
    """Return a latency histogram in its stored form, made from latency in nanoseconds -> count.

    Raises ValueError if a latency or a count is negative, a latency is longer than HIGHEST_NS, or
    the counts add up to more operations than any run has.
    """
    histogram = HdrHistogram(1, HIGHEST_NS, 3)
    total = 0
    for nanoseconds, count in counts.items():
        total += count
        if not 0 <= nanoseconds <= HIGHEST_NS:
            raise ValueError(f"a latency of {_short(nanoseconds)} ns is none")
        if count < 0:
            raise ValueError(f"a latency that was seen {_short(count)} times is none")
        if total > _MOST_OPERATIONS:
            raise ValueError("it has more latencies than any run has operations")
        if count:
            histogram.record_value(max(1, nanoseconds), count)
    return Latency(payload=histogram.encode().decode("ascii"), operations=total)


def _short(number: int) -> str:
    return str(number) if abs(number) < 10**18 else f"{'-' * (number < 0)}10^18 or more"


def decode(payload: str) -> HdrHistogram:
    """Return the histogram in a `payload`, which is the text that `encode` stores.

    Raises ValueError if it is not a histogram, if it is larger than one with three digits of any
    value, or if its counts do not fit its header.
    """
    if len(payload) > _LONGEST_TEXT:
        raise ValueError("the histogram is larger than any")
    _check(payload)
    try:
        histogram = HdrHistogram.decode(payload)
    except Exception as error:
        # The library lets through all kinds of errors of its parts.
        raise ValueError("the histogram cannot be read") from error
    # The library's own sum has 32 bits.
    histogram.total_count = sum(histogram.counts)
    return histogram


def _check(payload: str) -> None:
    """Raise ValueError if the library would take more memory or time than a histogram needs."""
    try:
        packed = base64.b64decode(payload)[_EXTERNAL.size :]
        unpacked = zlib.decompressobj().decompress(packed, _LARGEST + 1)
        header = _HEADER.unpack_from(unpacked)
    except (ValueError, zlib.error, struct.error) as error:
        raise ValueError("the histogram cannot be read") from error
    _, _, _, figures, lowest, highest, _ = header
    if not (1 <= figures <= 5 and 1 <= lowest <= highest // 2):
        raise ValueError("the histogram's bounds are none")
    # The format has a power of two of counters for each doubling of the value.
    halves = 1 << (2 * 10**figures - 1).bit_length() - 1
    doublings = max(1, highest.bit_length() - lowest.bit_length() + 2)
    if len(unpacked) > _LARGEST or halves * doublings > _MOST_COUNTERS * 2:
        raise ValueError("the histogram is larger than any")


def merged(payloads: Iterable[str]) -> HdrHistogram | None:
    """Return the sum of all histograms that can be decoded; None if there is none."""
    histograms = []
    for payload in payloads:
        try:
            histograms.append(decode(payload))
        except ValueError:
            continue
    histograms.sort(key=lambda one: one.highest_trackable_value, reverse=True)
    for other in histograms[1:]:
        # Absurdly large counts, and a coarser histogram's last bucket, may not fit.
        with contextlib.suppress(IndexError, OverflowError):
            histograms[0].add(other)
    return histograms[0] if histograms else None
