"""The proof of a step: how cold its data was, and where the blocks that it read came from."""

import statistics
from collections.abc import Iterator, Sequence

from replayer.analysis.advice import as_asked
from replayer.model import Cold, StepResult
from replayer.report.document import Part
from replayer.report.documents import summary
from replayer.run.display import Sentence, Tone, Verbatim
from replayer.units import show_size

_MANY_TIMES = 10
_OTHERS = 0.02
"""Other programs are mentioned if they got at least this share of the device's bytes."""


def of_result(result: StepResult) -> Iterator[Part]:
    """Yield sentences on how cold a result's data was, and where the blocks that it read came from.

    If this is not as requested, a sentence with a bad tone follows.
    """
    for kind, words, wrong in (
        (Sentence, _cold_words(result), _not_cold(result)),
        (Verbatim, _ledger_words(result), _not_served(result)),
    ):
        if words:
            yield kind(words, Tone.PLAIN if wrong else Tone.GOOD)
        if wrong:
            yield Sentence(wrong, Tone.BAD)
    if result.ledger is not None and result.ledger.note:
        yield Sentence(result.ledger.note, Tone.QUIET)


def of_repeats(results: Sequence[StepResult]) -> Iterator[Part]:
    """Yield sentences that summarise the repeats: how cold their data was, where blocks came from.

    The rates of each origin (shared buffers, page cache, device) are medians of the repeats.  For
    repeats that are not as requested, a sentence with a bad tone follows.
    """
    colds = [result.cold for result in results if result.cold is not None]
    ledgers = [result.ledger for result in results if result.ledger is not None]
    if colds:
        had = summary.counted([cold.got.value for cold in colds])
        shares = [cold.resident_share for cold in colds if cold.resident_share is not None]
        ends = dict.fromkeys(f"{share:.1%}" for share in sorted(shares)[:: max(1, len(shares) - 1)])
        resident = " to ".join(ends) or "an unknown share"
        missing = summary.missing(colds)
        when = "at the last look" if missing else "before the clock"
        more = f"; up to {missing:.1%} did not come from the device" if missing else ""
        yield Sentence(f"{had}; {resident} of the files was in memory {when}{more}", Tone.GOOD)
    if ledgers:
        layers = [
            _median([getattr(ledger, name) for ledger in ledgers])
            for name in ("buffer_hits", "page_cache_hits", "device_reads", "ratio")
        ]
        had = summary.counted([ledger.verdict.value for ledger in ledgers])
        yield Verbatim(_layers(layers[:3], had, layers[3]), Tone.GOOD)
    for text, same in summary.alike(results, as_asked.other_than_asked):
        if text:
            yield Sentence(f"NOT AS ASKED{summary.repeats_of(same)}: {text}", Tone.BAD)


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _cold_words(result: StepResult) -> str:
    cold = result.cold
    if cold is None:
        return ""
    words = [f"{cold.got.value}, asked {cold.asked.value}"]
    size = cold.file_bytes if cold.data_bytes is None else cold.data_bytes
    if cold.resident_share is not None and size is not None:
        when = "at the last look" if summary.missing([cold]) else "before the clock"
        words.append(
            f"{cold.resident_share:.1%} of {show_size(size)} was in memory {when} ({cold.proof})"
        )
    else:
        words.append("what was in memory before the clock is not known")
    if cold.device_bytes is not None:
        words.append(f"the device delivered {_delivered(cold, cold.device_bytes)}{_shared(cold)}")
    if summary.missing([cold]):
        words.append(
            f"{_delivered(cold, cold.missing_bytes or 0)} did not come from there to those who "
            f"read: it was in memory by then, or in another cache"
        )
    if cold.method:
        words.append(f"by: {cold.method}")
    return "; ".join(words)


def _delivered(cold: Cold, size: int) -> str:
    """Return a number of bytes as text, with its ratio to the bytes of the files on the disk.

    The ratio is in percent, or `N times as much` if it is 10 or more.  It is left out if the files
    have no bytes.
    """
    stored = cold.file_bytes if cold.stored_bytes is None else cold.stored_bytes
    if not stored:
        return show_size(size)
    share = size / stored
    times = f"{share:.0%}" if share < _MANY_TIMES else f"{share:,.0f} times as much"
    return f"{show_size(size)} ({times})"


def _shared(cold: Cold) -> str:
    """Return words on how many of the device's bytes went to the processes that read for the step.

    Returns "" if programs outside the step got almost none of the bytes, or if this is not known.
    """
    own, device = cold.own_bytes, cold.device_bytes
    if own is None or device is None or device - own < _OTHERS * device:
        return ""
    return f", {_delivered(cold, own)} of it to those who read"


def _not_cold(result: StepResult) -> str:
    cold = result.cold
    if cold is None or not as_asked.is_not_cold(result):
        return ""
    share = "" if cold.resident_share is None else f", {cold.resident_share:.1%} was in memory"
    why = f": {cold.why}" if cold.why else ""
    got = as_asked.asked_and_got(cold.asked, cold.got)
    return f"NOT {cold.asked.value.upper()}: {got}{share}{why}"


def _ledger_words(result: StepResult) -> str:
    ledger = result.ledger
    if ledger is None:
        return ""
    layers = (ledger.buffer_hits, ledger.page_cache_hits, ledger.device_reads)
    return _layers(layers, ledger.verdict.value, ledger.ratio)


def _layers(layers: Sequence[float | None], verdict: str, ratio: float | None) -> str:
    """Return a line: reads per second from shared buffers, page cache and device, and `verdict`.

    `layers` has the three rates; None is a rate that is not known.  `ratio` is device reads / all
    reads, and is left out if it is None.
    """
    names = ("shared-buffer hits", "page-cache hits", "device reads")
    rates = [f"{name} {_per_second(value)}" for name, value in zip(names, layers, strict=True)]
    end = "" if ratio is None else f" (ratio {ratio:.3f})"
    return f"{' | '.join(rates)} -> {verdict}{end}"


def _not_served(result: StepResult) -> str:
    ledger = result.ledger
    if ledger is None or ledger.asked is None or not as_asked.is_not_served(result):
        return ""
    ratio = "" if ledger.ratio is None else f" ({ledger.ratio:.3f} device reads for each miss)"
    asked, got = ledger.asked.value, ledger.verdict.value
    return f"NOT {asked.upper()}: {as_asked.asked_and_got(asked, got)}{ratio}"


def _per_second(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.0f}/s"
