"""The proof of a step: how cold its data was, and where the blocks that it read came from."""

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from replayer.analysis.advice import as_asked
from replayer.analysis.repeats import alike, counted, finished, in_part, repeats_of
from replayer.model import Account, Cold, Ledger, ReadOrigin, Status, StepResult, Temperature
from replayer.report.document import Part
from replayer.report.documents import account, step_layout
from replayer.report.documents.combined_words import combine, shape, span
from replayer.report.documents.step_summary import Proof
from replayer.report.sanitize import sanitize, short
from replayer.run.display import Form, Sentence, Tone, Verbatim
from replayer.units import show_size
from replayer.watch.ledger import FOREIGN_FROM

_JUDGED = (Tone.GOOD, Tone.BAD)
BRIEF = 60
"""The most characters of a sentence in the table of steps."""
CLOSES = "account closes"
"""The brief text of an account that closes; it is shown only if a step has no other proof."""
_SEEN = 0.001
"""Bytes of a cold read that did not come from the device are mentioned above this share."""
_MANY_TIMES = 10
_OTHERS = 0.02
"""Other programs are mentioned if they got at least this share of the device's bytes."""


def proofs(results: Sequence[StepResult], forms: Sequence[Form]) -> Iterator[Proof]:
    """Yield the proofs of a step, good and bad; `forms` are those of its finished results.

    A proof that not all finished results have is followed by the number of those that have it.
    """
    done = finished(results)
    colds = [result.cold for result in done if result.cold is not None]
    if colds:
        good = not any(map(as_asked.is_not_cold, done))
        yield Proof(_cold(colds), good, _brief_cold(done, good=good))
    ledgers = [result.ledger for result in done if result.ledger is not None]
    if ledgers:
        good = not any(map(as_asked.is_not_served, done))
        yield Proof(_ledger(ledgers), good, _brief_ledger(done, good=good))
    if done:
        for found in _judged(forms):
            text = in_part(found.text, len(found.places), len(done))
            yield Proof(text, found.good, found.brief)
    yield from _accounts(done)
    for (status, reason), _ in alike(results, lambda r: (r.status, r.reason)):
        if status is not Status.DONE:
            text = f"{status.value}: {sanitize(reason)}"
            yield Proof(text, good=False, brief=status.value)


class _Judgement(NamedTuple):
    """A sentence with a good or a bad tone that a step's module `display` has of some repeats."""

    text: str
    brief: str
    """The same in a few words, with the number of the repeats that have it."""
    good: bool
    places: Sequence[int]
    """The places, from 0, of the repeats that have it; its numbers are their ranges."""


class _Kind(NamedTuple):
    """The key of sentences that are one in a report on several repeats."""

    words: str
    """The shape of their texts, or the text if they have to be equal."""
    good: bool
    about: str


_Sentences = Sequence[tuple[str, _Kind]]
"""The text and the kind of each sentence of a repeat."""


def _judged(forms: Sequence[Form]) -> list[_Judgement]:
    """Return the sentences with a good or a bad tone in the forms of a step's repeats, each once.

    Sentences of several repeats that differ only in numbers are one.  But if a repeat has several
    that do, a number may be the name of what they are about: then only equal ones are one.
    """
    found = [_sentences(form) for form in forms]
    counts = [Counter(kind for _, kind in sentences) for sentences in found]
    several = {kind for each in counts for kind, count in each.items() if count > 1}
    kinds: dict[_Kind, dict[int, str]] = {}
    for place, sentences in enumerate(found):
        for text, kind in sentences:
            key = kind._replace(words=text) if kind in several else kind
            kinds.setdefault(key, {})[place] = text
    judged = [
        _Judgement(span(list(texts.values())), "", kind.good, list(texts))
        for kind, texts in kinds.items()
    ]
    return [one._replace(brief=_brief(forms, found, one)) for one in judged]


def _sentences(form: Form) -> _Sentences:
    """Return the cleaned sentences with a good or a bad tone, each with its kind."""
    judged = (one for one in form.parts if isinstance(one, Sentence) and one.tone in _JUDGED)
    cleaned = ((sanitize(one.text), one) for one in judged)
    kinds = ((text, _Kind(shape(text), one.tone is Tone.GOOD, one.about)) for text, one in cleaned)
    return list(dict.fromkeys(kinds))


def _brief(forms: Sequence[Form], found: Sequence[_Sentences], judged: _Judgement) -> str:
    """Return a judgement in a few words, with the number of the repeats that have it.

    It is the proof in the brief forms of all repeats with a sentence of its tone, which may be
    several; else its text, cut after its numbers are combined.
    """
    have = [any(kind.good is judged.good for _, kind in sentences) for sentences in found]
    briefs = [sanitize(form.brief.proof) for form in forms]
    if all(brief for brief, has in zip(briefs, have, strict=True) if has):
        return combine([brief if has else "" for brief, has in zip(briefs, have, strict=True)])
    return in_part(short(judged.text, BRIEF), len(judged.places), len(forms))


def _accounts(done: Sequence[StepResult]) -> Iterator[Proof]:
    """Yield a proof of the accounts: of the one that closes least if any does not close.

    Otherwise it is the account of the repeat with the median time per operation.
    """
    known = [one.account for one in done if one.account is not None and one.account.session]
    wrong = [one for one in known if not one.closes]
    middle = account.middle(done)
    if wrong:
        worst = _closes(max(wrong, key=lambda one: abs(one.residue_share)))
        text, brief = (in_part(one, len(wrong), len(known)) for one in (worst.text, worst.brief))
        yield Proof(text, good=False, brief=brief)
    elif middle is not None and middle.account is not None and middle.account.session:
        yield _closes(middle.account)


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
    if result.ledger is not None and (own := _own_reads([result.ledger])):
        yield Sentence(own)
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
        had = counted([cold.got.value for cold in colds])
        shares = [cold.resident_share for cold in colds if cold.resident_share is not None]
        ends = dict.fromkeys(f"{share:.1%}" for share in sorted(shares)[:: max(1, len(shares) - 1)])
        resident = " to ".join(ends) or "an unknown share"
        absent = missing(colds)
        when = "at the last look" if absent else "before the clock"
        more = f"; up to {absent:.1%} did not come from the device" if absent else ""
        yield Sentence(f"{had}; {resident} of the files was in memory {when}{more}", Tone.GOOD)
    if ledgers:
        layers = [
            _median([getattr(ledger, name) for ledger in ledgers])
            for name in ("buffer_hits", "page_cache_hits", "device_reads", "ratio")
        ]
        had = counted([ledger.verdict.value for ledger in ledgers])
        yield Verbatim(f"{_layers(layers[:3], had)}{_ratio(layers[3])}", Tone.GOOD)
        if own := _own_reads(ledgers):
            yield Sentence(own)
    for text, same in alike(results, as_asked.other_than_asked):
        if text:
            yield Sentence(f"NOT AS ASKED{_where(same, results)}: {text}", Tone.BAD)
    for found in _judged(list(map(step_layout.of, results))):
        if not found.good:
            same = [results[place] for place in found.places]
            yield Sentence(f"{found.text}{_where(same, results)}", Tone.BAD)


def _where(some: Sequence[StepResult], results: Sequence[StepResult]) -> str:
    """Return words that name some of the results, such as ` in repeats 1, 3`.

    Results of several runs have the same numbers of repeats.  Then it is ` in 2 of 3`.
    """
    numbers = {result.repeat for result in results}
    if len(numbers) == len(results):
        return repeats_of(some)
    return f" in {len(some)} of {len(results)}"


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
        when = "at the last look" if missing([cold]) else "before the clock"
        words.append(
            f"{cold.resident_share:.1%} of {show_size(size)} was in memory {when} ({cold.proof})"
        )
    else:
        words.append("what was in memory before the clock is not known")
    if cold.device_bytes is not None:
        words.append(f"the device delivered {_delivered(cold, cold.device_bytes)}{_shared(cold)}")
    if missing([cold]):
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
    return f"{_layers(layers, ledger.verdict.value)}{_ratio(ledger.ratio)}"


def _layers(layers: Sequence[float | None], verdict: str) -> str:
    """Return a line: reads per second from shared buffers, page cache and device, and `verdict`.

    `layers` has the three rates; None is a rate that is not known.
    """
    names = ("shared-buffer hits", "page-cache hits", "device reads")
    rates = [f"{name} {_per_second(value)}" for name, value in zip(names, layers, strict=True)]
    return f"{' | '.join(rates)} -> {verdict}"


def _ratio(ratio: float | None) -> str:
    """Return the end of the line of layers: the ratio of the step's device reads to its misses."""
    return "" if ratio is None else f" (ratio {ratio:.3f})"


def _own_reads(ledgers: Sequence[Ledger]) -> str:
    """Return a sentence on the step's part of the device's reads, as the median of `ledgers`.

    It is "" if others read next to nothing, and if the ratio is not known.
    """
    known = [
        (one.ratio * one.riops, one.device_reads, one.riops)
        for one in ledgers
        if one.ratio is not None and one.device_reads is not None
    ]
    if not any(reads - own > FOREIGN_FROM * missed for own, reads, missed in known):
        return ""
    part = statistics.median(own for own, _, _ in known)
    return f"the device read for others, too: the ratio is of the step's {_per_second(part)}"


def _not_served(result: StepResult) -> str:
    ledger = result.ledger
    if ledger is None or ledger.asked is None or not as_asked.is_not_served(result):
        return ""
    ratio = "" if ledger.ratio is None else f" ({ledger.ratio:.3f} device reads for each miss)"
    asked, got = ledger.asked.value, ledger.verdict.value
    return f"NOT {asked.upper()}: {as_asked.asked_and_got(asked, got)}{ratio}"


def _per_second(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.0f}/s"


def missing(colds: Iterable[Cold]) -> float:
    """Return the largest share, from 0 to 1, of a cold read's data that no device delivered.

    It is the largest of all records in `colds`, and 0 if it is negligible.
    """
    largest = 0.0
    for cold in colds:
        stored = cold.file_bytes if cold.stored_bytes is None else cold.stored_bytes
        if stored and cold.missing_bytes:
            largest = max(largest, cold.missing_bytes / stored)
    return largest if largest > _SEEN else 0.0


def _brief_cold(done: Sequence[StepResult], *, good: bool) -> str:
    """Return a short proof of how cold or hot the data of a step's finished results was.

    For a cold read, it is the share of the files in memory before, or the share that came from no
    disk.  For a hot read, it is the bytes that came from the disk.  It is "" if a ledger (the
    counts of reads by origin) has the proof.  If not `good`, the result is what differs from the
    request.
    """
    if not good:
        return combine([as_asked.other_temperature(one) for one in done])
    hot = [one.cold for one in done if one.cold and one.cold.asked is Temperature.HOT]
    own = [cold.own_bytes for cold in hot if cold.own_bytes is not None]
    if own and len(own) == len(done) and not any(one.ledger is not None for one in done):
        return f"{show_size(max(own))} from the disk"
    colds = [one.cold for one in done if one.cold and one.cold.asked is Temperature.COLD]
    shares = [cold.resident_share for cold in colds if cold.resident_share is not None]
    if any(one.ledger is not None for one in done) or not shares:
        return ""
    absent = missing(colds)
    return f"{absent:.1%} not from disk" if absent else f"{max(shares):.0%} in memory before"


def _brief_ledger(done: Sequence[StepResult], *, good: bool) -> str:
    """Return a short proof of where blocks came from: device reads per block not in the buffers.

    They are those of all programs if it is not known what the server's processes read.
    If this ratio is not known, the words are `blocks from the buffers` or `disk not counted`.  If
    not `good`, words on what differs from the request are put before it.  If no verdict was asked
    for, as for a mix of statements, the verdict is put before it.
    """
    ledgers = [one.ledger for one in done if one.ledger is not None]
    ratios = [ledger.ratio for ledger in ledgers if ledger.ratio is not None]
    if ratios:
        known = all(one.cold and one.cold.own_bytes is not None for one in done)
        whose = "" if known else " of all programs"
        ratio = f"disk reads/block {statistics.median(ratios):.3f}{whose}"
    else:
        ratio = "blocks from the buffers" if _needed_no_disk(ledgers) else "disk not counted"
    if good:
        origins = counted([ledger.verdict.value for ledger in ledgers])
        alike = len({one.verdict for one in ledgers}) == 1
        # A verdict that was asked for is not news, and other words than a ratio imply it.
        implied = not ratios or all(one.asked is not None for one in ledgers)
        return ratio if alike and implied else f"{origins}: {ratio}"
    return f"{combine([as_asked.other_origin(one) for one in done])}: {ratio}"


def _needed_no_disk(ledgers: Sequence[Ledger]) -> bool:
    """Return whether almost all blocks were in the server's buffers, so that no disk was needed.

    It is True only if, in all ledgers, the device's reads were counted and the verdict is
    "buffered".
    """
    return all(
        ledger.device_reads is not None and ledger.verdict is ReadOrigin.BUFFERED
        for ledger in ledgers
    )


def _cold(colds: Sequence[Cold]) -> str:
    words = counted([cold.got.value for cold in colds])
    shares = [cold.resident_share for cold in colds if cold.resident_share is not None]
    if not shares:
        return f"{words}, what was in memory is not known"
    absent = missing(colds)
    if absent:
        seen = f"{max(shares):.1%} of it in memory at the last look"
        return f"{words}, {seen}, up to {absent:.1%} not from the device"
    return f"{words}, {max(shares):.1%} of it in memory before"


def _ledger(ledgers: Sequence[Ledger]) -> str:
    words = counted([ledger.verdict.value for ledger in ledgers])
    ratios = [ledger.ratio for ledger in ledgers if ledger.ratio is not None]
    if not ratios:
        unknown = "" if _needed_no_disk(ledgers) else ", the device's reads are not known"
        return f"ledger: {words}{unknown}"
    return f"ledger: {words}, {statistics.median(ratios):.3f} reads of the device a block missed"


def _closes(made: Account) -> Proof:
    share = abs(made.residue_share)
    if not made.closes:
        none = made.residue_share > 0
        words = f"{share:.0%} of the time {'not explained' if none else 'counted twice'}"
        return Proof(f"account does not close: {words}", good=False, brief=words)
    if made.rests_on_one:
        return Proof(
            f"account closes, by the kernel's counters alone: samples differ by {made.unsure:.0%} "
            f"of the time"
        )
    words = "not explained" if made.residue_share > 0 else "counted twice"
    return Proof(f"account closes: {share:.1%} of the time {words}", brief=CLOSES)
