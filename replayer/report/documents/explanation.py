"""Why a metric differs, in words: which part of an operation took longer, and by how much."""

import math
from collections.abc import Iterator, Sequence

from replayer.analysis.attribution.explanation import MARGIN, RESIDUE, AccountPart, PartChange, Why
from replayer.analysis.differences.comparison import Comparison, MetricRow
from replayer.analysis.differences.environment import Difference
from replayer.analysis.differences.finding import show_values
from replayer.analysis.differences.metric_names import name_ratio
from replayer.analysis.differences.samples import Unit
from replayer.report.document import Bullets, Part, Section, Table
from replayer.report.documents.account import Scale, scaled
from replayer.report.documents.verdict_words import name_verdict
from replayer.report.sanitize import sanitize
from replayer.units import three

_TOLD = 0.005
"""A part below this share of the time on both sides is not listed as unchanged."""
_MOST_CAUSES = 6
_NOT_SHOWN = "where the most of it is was not shown"
_MOSTLY = 0.5
"""Parts that moved are enough as an explanation if they are this share of the difference."""


def section(why: Why, comparison: Comparison) -> Section:
    """Return a section on why a step takes longer or shorter on one side of a comparison.

    It has a sentence, possible causes, doubts, and a table of all parts of the time per operation.
    """
    row = next(
        row for row in comparison.rows if (row.step, row.metric) == (why.step, why.metrics[0])
    )
    causes = [_cause(one, comparison) for one in why.may_explain[:_MOST_CAUSES]]
    left = len(why.may_explain) - len(causes)
    causes += [f"and {left} more"] if left else []
    remarks = (
        *(f"may explain: {cause}" for cause in causes),
        *(f"mind: {one}" for one in doubt(why, comparison)),
    )
    parts: list[Part] = [Bullets(remarks)]
    if why.parts:
        headings = _headings(comparison, why)
        parts.append(Table(headings, _rows(why), numbers=range(1, len(headings) - 1)))
    return Section(f"Why: {_judged(row)}: {_account(why, comparison)}", parts)


def summarize(why: Why, comparison: Comparison) -> str:
    """Return a text on which parts of a step's time per operation differ, and by how much."""
    return sanitize(_account(why, comparison))


def doubt(why: Why, comparison: Comparison) -> Iterator[str]:
    """Yield sentences on reasons to doubt the accounts (divisions of a step's time into parts).

    The first reason is that the parts do not add up to the whole time.  The second is that the time
    asleep is known only from the kernel's counters.  The sentence has the number of windows of each
    side that are concerned.
    """
    names = sanitize(comparison.base.name), sanitize(comparison.other.name)
    for words, counts in (
        ("the account does not close", why.open),
        ("the time asleep rests on the kernel's counters alone", why.unsure),
    ):
        if any(counts):
            each = ", ".join(
                f"{count} of {of} windows of {name}"
                for count, of, name in zip(counts, why.windows, names, strict=True)
                if count
            )
            yield f"{words} in {each}"


def explained(comparison: Comparison) -> list[str]:
    """Return the legend of a comparison's explanations as a list of one text; [] if it has none."""
    if not any(why.parts for why in comparison.why):
        return []
    base, other = sanitize(comparison.base.name), sanitize(comparison.other.name)
    scope = "" if comparison.decides else " in these runs"
    return [
        (
            f"Why: a session's time per operation in {other} less that in {base}: + takes longer "
            f"in {other}.  A part is named if a rank test at 5 %, corrected for all parts of the "
            f"step that can matter, shows that it moved{scope}; it is likely if alone it would "
            f"count, and is a quarter of the difference or more; it is unchanged if its interval "
            f"lies within {MARGIN * 100:g} % of an operation's time, and else unclear."
        ),
    ]


def _rows(why: Why) -> list[list[str]]:
    """Return the rows of a table: one for a step's time per operation, and one for each part of it.

    The columns are name, base, other, difference, interval, p value and change.
    """
    parts = [part for part in (why.whole, *why.parts) if part is not None]
    unit = _unit(why)
    return [_row(part, unit, is_whole=part is why.whole) for part in parts]


def _headings(comparison: Comparison, why: Why) -> list[str]:
    """Return the headings of the table of the parts of a step's time.

    They are the unit, the two sides, and statistics.
    """
    names = comparison.base.name, comparison.other.name
    return [f"{_unit(why)[1]} a {why.operation}", *names, "difference", "95 % interval", "p", ""]


def _row(part: AccountPart, unit: Scale, *, is_whole: bool) -> list[str]:
    factor, _ = unit
    return [
        "a session's time" if is_whole else part.part,
        f"{part.base / factor:.3f}",
        f"{part.other / factor:.3f}",
        f"{part.shift / factor:+.3f}",
        ""
        if part.low is None or part.high is None
        else f"{part.low / factor:+.3f} to {part.high / factor:+.3f}",
        "" if part.p is None else "<0.001" if part.p < 0.001 else f"{part.p:.3f}",
        "" if is_whole else part.change.value,
    ]


def _judged(row: MetricRow) -> str:
    """Return a text with a metric's title, its ratio, the ratio's interval and the verdict."""
    verdict = name_verdict(row)
    if row.ratio is None:
        return f"{row.title} {verdict}"
    ends = [name_ratio(end, 2) for end in (row.low, row.high) if end is not None]
    interval = f" ({' to '.join(ends)})" if ends else ""
    return f"{row.title} {name_ratio(row.ratio, 2)}{interval} {verdict}"


def _account(why: Why, comparison: Comparison) -> str:
    if why.reason or why.whole is None:
        return f"no why: {why.reason}"
    factor, name = _unit(why)
    change = _number(why.whole.shift / factor)
    begin = f"{change} {name} a {why.operation} of {three(why.whole.base / factor)}"
    named = _named(why, factor, comparison.unit), _rest(why), _unchanged(why)
    return f"{begin}: {'; '.join(filter(None, named))}"


def _named(why: Why, factor: float, unit: Unit) -> str:
    parts = ", ".join(_moved(part, factor) for part in why.moved)
    if why.explained:
        return parts
    though = f", though these moved: {parts}" if parts else ""
    if why.likely:
        likely = ", ".join(_likely(part, why, factor, unit) for part in why.likely)
        return f"{likely}{though}"
    if why.could_show or why.largest is None:
        return f"no part explains it{though}"
    most = _likely(why.largest, why, factor, unit)
    return f"which part it is was not shown: the most is in {most}{though}"


def _likely(part: AccountPart, why: Why, factor: float, unit: Unit) -> str:
    """Return words on a part whose change is not proven: the change, and if it is likely.

    The words have the p value, and the number of samples that may prove the change, if known.
    `factor` converts the change from seconds to the unit that is shown.
    """
    of = f" of {_number(why.whole.shift / factor)}" if why.whole else ""
    p = "" if part.p is None else f"p {part.p:.2g}"
    how = "likely" if part.change is PartChange.LIKELY else "unclear"
    known = f"{how} ({p})" if p else how
    shown = f"; {part.needed} {unit.value}s a side may show it" if part.needed else ""
    return f"{_moved(part, factor)}{of}, {known}{shown}"


def _rest(why: Why) -> str:
    """Return a remark if the parts proven to have changed explain less than half of a difference.

    It names the parts that are likely to explain the rest, if there are any.  It is "" if those
    parts explain half or more, or if none of them is proven to explain anything.
    """
    whole = why.whole.shift if why.whole else 0.0
    named = sum(part.shift for part in why.moved if part.part != RESIDUE)
    if not why.explained or abs(named) >= _MOSTLY * abs(whole):
        return ""
    likely = [sanitize(part.part) for part in why.likely]
    return f"most of it likely {_listed(likely)}" if likely else _NOT_SHOWN


def _moved(part: AccountPart, factor: float) -> str:
    if part.low is None or part.high is None:
        return f"{part.part} {_number(part.shift / factor)}"
    digits = _digits(part.shift / factor)
    low, high = (f"{end / factor:.{digits}f}" for end in (part.low, part.high))
    return f"{part.part} {part.shift / factor:+.{digits}f} ({low} to {high})"


def _unchanged(why: Why) -> str:
    """Return a text with the parts of a step's time that are proven to be unchanged.

    Small parts are left out.  It is "" if there are no such parts.
    """
    least = _TOLD * (why.whole.base if why.whole else 0.0)
    names = [
        part.part
        for part in why.parts
        if part.change is PartChange.UNCHANGED
        and max(part.base, part.other) >= least
        and part.part != RESIDUE
    ]
    return f"{_listed(names)} unchanged" if names else ""


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _cause(difference: Difference, comparison: Comparison) -> str:
    sides = (difference.base, comparison.base), (difference.other, comparison.other)
    values = [f"{show_values(known)} in {side.name}" for known, side in sides]
    return sanitize(f"{difference.key}: {', '.join(values)}")


def _unit(why: Why) -> Scale:
    return scaled(max(why.whole.base, why.whole.other) if why.whole else 0.0)


def _number(value: float) -> str:
    """Return a number as text with its sign and at least two digits, such as +0.12 or +345."""
    return f"{value:+.{_digits(value)}f}"


def _digits(value: float) -> int:
    if not value or not math.isfinite(value):
        return 1
    return max(0, 1 - math.floor(math.log10(abs(value))))
