"""The report of a comparison of replays: totals, statements that changed, and different answers."""

from collections.abc import Iterator, Sequence

from replayer.analysis.differences.comparison import Comparison, MetricRow, MetricVerdict
from replayer.analysis.differences.metric_names import name_ratio
from replayer.analysis.differences.replays import (
    MOVED,
    Compared,
    FingerprintComparison,
    ReplayComparison,
)
from replayer.report.document import Part, Section, Table
from replayer.report.documents import verdict_words as report
from replayer.report.sanitize import sanitize
from replayer.run.display import Sentence
from replayer.units import show_count, show_duration, show_with_noun

_HEAVIEST = 20
_MOST_SHOWN = 200
WIDTH = 32
_NAMED = 3
_WORDS = 2
"""Columns of words at the left of a table: the fingerprint and the verdict."""
_HEADINGS = ("fingerprint", "verdict", "executions", "time", "ratio", "95 % interval", "p")


def sections(comparison: Comparison, *, width: int = WIDTH) -> list[Section]:
    """Return a section for each replay step of a comparison; [] if it is not one of replays.

    The normalised text of a statement (its fingerprint) is cut to `width` characters.
    """
    if not isinstance(comparison, ReplayComparison):
        return []
    return [_section(one, comparison, width) for one in comparison.replays]


def _section(compared: Compared, comparison: ReplayComparison, width: int) -> Section:
    fingerprints = compared.fingerprints
    moved = [one for one in fingerprints if one.moved]
    diverging = [one for one in fingerprints if one.diverges]
    parts: list[Part] = [
        Sentence(words) for words in _sentences(compared, comparison, len(diverging), width)
    ]
    if moved:
        rows = [row for one in moved[:_MOST_SHOWN] for row in _moves(one, width)]
        parts.append(_table("Fingerprints that moved, what costs most first", _HEADINGS, rows))
    steady = [one for one in fingerprints if not one.moved][:_HEAVIEST]
    if steady:
        rows = [_row(one, one.time, width) for one in steady]
        title = "The heaviest others" if moved else "The heaviest fingerprints"
        parts.append(_table(title, _HEADINGS, rows))
    if diverging:
        names = (sanitize(comparison.base.name), sanitize(comparison.other.name))
        rows = [row for one in diverging[:_MOST_SHOWN] for row in _divergences(one, width)]
        headings = ("fingerprint", "what", *names, "first")
        parts.append(_table("Answered otherwise", headings, rows))
    return Section(f"{compared.step}: every fingerprint", parts, is_main=True)


def _table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Section:
    numbers = range(_WORDS, len(headings))
    return Section(title, [Table(headings, rows, numbers=numbers)])


def _sentences(
    compared: Compared, comparison: ReplayComparison, diverging: int, width: int
) -> Iterator[str]:
    yield f"the whole: {_whole(compared)}"
    if compared.left_out:
        yield _left_out(compared, width)
    yield _counted(compared, diverging)
    varying = sum(1 for one in compared.fingerprints if one.diverging and not one.diverges)
    if varying:
        differ = "differs" if varying == 1 else "differ"
        yield f"{varying:,} more {differ} only in what varies by itself, such as now() or nextval()"
    for side, only in zip((comparison.base, comparison.other), compared.only, strict=True):
        if only:
            many = f"{show_with_noun(only, 'fingerprint')} {'was' if only == 1 else 'were'}"
            yield f"{many} replayed by {sanitize(side.name)} only"
    light = sum(one.time is None for one in compared.fingerprints)
    if light:
        is_ = "is" if light == 1 else "are"
        yield f"{show_with_noun(light, 'fingerprint')} {is_} too light to be judged"


def _whole(compared: Compared) -> str:
    """Return the verdicts on the time and on the errors of the replay as a whole."""
    words = []
    if compared.time is not None:
        words.append(f"time {_judged(compared.time)}")
    if compared.errors is not None:
        words.append(f"errors {_judged(compared.errors)}")
    return "; ".join(words) or "nothing to judge"


def _left_out(compared: Compared, width: int) -> str:
    """Return a sentence that names what the whole is without; the first ones, if it is much."""
    texts = [
        short(one.text, width)
        for one in compared.fingerprints
        if one.fingerprint in compared.left_out
    ]
    more = f"; and {len(texts) - _NAMED:,} more" if len(texts) > _NAMED else ""
    return (
        f"the whole is without what did not run in every replay: {'; '.join(texts[:_NAMED])}{more}"
    )


def _judged(row: MetricRow) -> str:
    ratio = "" if row.ratio is None else f", {name_ratio(row.ratio)} times"
    between = report.limits(row)
    return f"{report.verdict(row)}{ratio}{f' ({between})' if between else ''}"


def _counted(compared: Compared, diverging: int) -> str:
    verdicts = [one.time.verdict for one in compared.fingerprints if one.time is not None]
    counts = [(verdict.value, verdicts.count(verdict)) for verdict in MetricVerdict]
    words = ", ".join(f"{count:,} {word}" for word, count in counts if count) or "none judged"
    errors = sum(
        one.errors is not None
        and one.errors.verdict in {MetricVerdict.WORSE, MetricVerdict.DIFFERS}
        for one in compared.fingerprints
    )
    more = f"; {errors:,} with other errors" if errors else ""
    return (
        f"{show_with_noun(len(compared.fingerprints), 'fingerprint')}, by their time: "
        f"{words}{more}; "
        f"{diverging or 'none'} answered otherwise"
    )


def _moves(one: FingerprintComparison, width: int) -> Iterator[list[str]]:
    if one.time is not None and one.time.verdict is not None:
        yield _row(one, one.time, width)
    if one.errors is not None and one.errors.verdict in MOVED:
        yield _row(one, one.errors, width)


def _row(one: FingerprintComparison, row: MetricRow | None, width: int) -> list[str]:
    executions = show_count(round(max(one.executions)))
    seconds = " / ".join(show_duration(part) for part in one.seconds)
    if row is None:
        return [short(one.text, width), "", executions, seconds, "", "", ""]
    of_errors = row.metric.endswith(".errors")
    return [
        short(one.text, width),
        report.verdict(row),
        executions,
        f"{row.base:.2f} / {row.other:.2f} % errors" if of_errors else seconds,
        name_ratio(row.ratio),
        report.limits(row),
        "" if row.p_holm is None else f"{row.p_holm:.3f}",
    ]


def _divergences(one: FingerprintComparison, width: int) -> Iterator[list[str]]:
    for each in one.diverging:
        if each.what != "varying":
            yield [short(one.text, width), each.what, each.base, each.other, each.where or "-"]


def short(text: str, width: int) -> str:
    """Return a statement's normalised text on one line, cut to `width` characters."""
    words = sanitize(" ".join(text.split()))
    return words if len(words) <= width else f"{words[: width - 1]}…"
