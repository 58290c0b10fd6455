"""The report of an experiment: the answer, then the table of effects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replayer.analysis.differences import finding
from replayer.experiments.answer import NOTHING, OPEN, SHOWN
from replayer.model import Better
from replayer.report.document import Curve, Document, Figure, Section, Table
from replayer.run.display import Sentence

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from replayer.experiments.answer import Effect, ExperimentAnswer, Explained, Share

_HEADINGS = ("effect", "from -> to", "change", "95 % interval", "verdict")
_MOST_INTERACTIONS = 8
_NARROW = 2.0
"""An interval narrower than this number of percents is shown with a digit after the point."""
_CSV = (
    *("metric", "effect", "first", "second", "change", "low", "high"),
    *("p_corrected", "verdict", "settled", "better", "unit"),
)
_LEAST_PERCENT = 3.0
"""The axis of effects extends at least to this percentage in both directions."""
_COLORS: dict[str, int | str] = {
    "worse": "worse",
    "better": "better",
    NOTHING: 0,
    "unclear": 5,
    "shown": 1,
}


def document(answer: ExperimentAnswer) -> Document:
    """Return the report of an experiment: its answer, then charts and a table for each metric."""
    headline, *lead = _sentences(answer)
    return Document(
        f"experiment {answer.plan.id}",
        Sentence(headline),
        [_section(answer, metric) for metric in answer.metrics],
        lead=lead,
        notes=_explained(answer),
        data=[_CSV, *_data(answer)],
    )


def _section(answer: ExperimentAnswer, metric: str) -> Section:
    effects = _listed(answer, metric)
    hidden = len(answer.of_metric(metric)) - len(effects)
    pairs = dict.fromkeys(cell.factors for cell in answer.cells if cell.metric == metric)
    rest = f"{hidden} more interactions were not shown to do anything"
    one = effects[0]
    return Section(
        f"{metric}, {one.unit}, {one.better.value} is better",
        [
            _effects(answer, metric, effects),
            *(_interaction(answer, metric, pair) for pair in pairs),
            Table(_HEADINGS, [_row(answer, effect) for effect in effects], numbers=(2, 3)),
            *([Sentence(rest)] if hidden else []),
        ],
        is_main=True,
    )


def _sentences(answer: ExperimentAnswer) -> Iterator[str]:
    """Yield the sentences of the answer: first, for each metric, one on the effects of the factors.

    Then follow the factors that were not switched, and the blocks of runs that are still needed.
    """
    for metric in answer.metrics:
        yield _answer(answer, metric)
    for words in answer.plan.not_switched:
        yield f"not switched here: {words}"
    for words in answer.unreached:
        yield f"not switched: {words}"
    if not answer.settled:
        more = answer.blocks_to_settle - answer.blocks
        yield (
            f"not every factor is settled within {_exactly(answer)}: about {more} more blocks "
            f"({more * answer.block_runs} runs) would do it; "
            f"`replayer experiment --resume {answer.plan.id}` continues"
        )


def _answer(answer: ExperimentAnswer, metric: str) -> str:
    gap = next((one for one in answer.explained if one.metric == metric), None)
    if gap is not None and gap.gap.low is not None:
        return _explanation(answer, gap)
    mains = _mains(answer, metric)
    shown = [
        f"{e.title} {_levels(answer, e)} does {_size(e.share)} {_interval(e.share)}"
        f"{_average(answer, e)}"
        for e in mains
        if e.verdict == SHOWN
    ]
    rest = _rest(answer, mains)
    words = "; ".join([*shown, *_interactions(answer, metric), *rest])
    none = "" if shown else "no factor was shown to do anything: "
    # A difference of single runs is none to explain.
    apart = "" if gap is None else f"{_apart(answer, gap, turned=False)}. "
    return f"{apart}{metric}: {none}{words}"


def _mains(answer: ExperimentAnswer, metric: str) -> list[Effect]:
    """Return a metric's effects of single factors, without interactions, the largest first."""
    mains = [e for e in answer.of_metric(metric) if not e.interaction]
    return sorted(mains, key=lambda e: -abs(e.share.change))


def _rest(answer: ExperimentAnswer, mains: Sequence[Effect]) -> list[str]:
    """Return words on each effect of a single factor that was not shown."""
    return [
        f"{e.title} {_not_shown(e)} {_interval(e.share)}{_average(answer, e)}"
        for e in mains
        if e.verdict != SHOWN
    ]


def _average(answer: ExperimentAnswer, effect: Effect) -> str:
    """Return words that a factor's effect is an average, if it interacts with other factors.

    They name the factors at whose levels the effect differs; "" if no interaction was shown.
    """
    pairs = dict.fromkeys(c.factors for c in answer.cells if c.metric == effect.metric)
    (factor,) = effect.factors
    others = [one for pair in pairs if factor in pair for one in pair if one != factor]
    return f" on average over the levels of {' and '.join(others)}" if others else ""


def _not_shown(effect: Effect) -> str:
    return "nothing" if effect.verdict == NOTHING else "unclear"


def _explanation(answer: ExperimentAnswer, gap: Explained) -> str:
    """Return a sentence on how far two sides are apart, and how much of that each factor causes.

    The share that no factor explains is at the end.  Percentages without a sign are positive if
    they point in the direction of the difference between the sides.
    """
    turned = gap.gap.change < 0 and _is_apart(gap.gap)
    mains = _mains(answer, gap.metric)
    words = [
        f"{e.title} {_levels(answer, e)} {_does(e, turned=turned)}{_average(answer, e)}"
        for e in mains
        if e.verdict == SHOWN
    ]
    words += _interactions(answer, gap.metric)
    words += _rest(answer, mains)
    words.append(f"not explained {_counted(gap.left, turned=turned)}")
    return f"{_apart(answer, gap, turned=turned)}. {'; '.join(words)}."


def _is_apart(gap: Share) -> bool:
    """Return whether the interval of `gap`, the relative difference of two sides, excludes 0.

    Returns False if there is no interval, as for single runs.
    """
    return gap.low is not None and gap.high is not None and not gap.low <= 0 <= gap.high


def _apart(answer: ExperimentAnswer, gap: Explained, *, turned: bool) -> str:
    base, other = answer.plan.sides
    if not _is_apart(gap.gap):
        doubt = _interval(gap.gap) or "from one run or boot of a side, which shows nothing"
        apart = f"{_size(gap.gap)} {doubt}"
        return f"{other} was not shown to differ from {base} in {gap.metric}: {apart}"
    kind = answer.of_metric(gap.metric)[0]
    bounds = ", ".join(filter(None, (_bounds(gap.gap, turned=turned), gap.metric)))
    how = _direction(kind, rises=not turned)
    change = _plain(gap.gap, gap.gap.change, turned=turned)
    return f"{other} is {change} % {how} than {base} ({bounds})"


def _does(effect: Effect, *, turned: bool) -> str:
    """Return words such as `does 17 % (15 to 19) of it` on a factor's part in a difference.

    If the effect has the opposite direction, the words are `does the opposite`, with its size.
    `turned` is true if the difference itself is negative.
    """
    if (effect.share.change < 0) is turned:
        return f"does {_counted(effect.share, turned=turned)} of it"
    return f"does the opposite, {_size(effect.share)} {_interval(effect.share)}"


def _counted(share: Share, *, turned: bool) -> str:
    """Return a relative change and its interval in percent, without plus signs: `17 % (15 to 19)`.

    With `turned`, all signs are reversed.
    """
    bounds = _bounds(share, turned=turned)
    return f"{_plain(share, share.change, turned=turned)} %{f' ({bounds})' if bounds else ''}"


def _bounds(share: Share, *, turned: bool) -> str:
    if share.low is None or share.high is None:
        return ""
    low, high = (share.high, share.low) if turned else (share.low, share.high)
    return f"{_plain(share, low, turned=turned)} to {_plain(share, high, turned=turned)}"


def _plain(share: Share, value: float, *, turned: bool) -> str:
    """Return a relative change as a number of percent, without a plus sign: 0.17 is `17`.

    `value` is the change, and `turned` reverses its sign.  `share` only decides how many decimals
    there are: one if its interval is narrow.
    """
    text = _percent(-value if turned else value, digits=_digits(share))
    text = text.removesuffix(" %").removeprefix("+")
    return text.removeprefix("-") if not float(text) else text


def _direction(effect: Effect, *, rises: bool) -> str:
    if effect.better is Better.NEITHER:
        return "higher" if rises else "lower"
    return finding.name_direction([effect.unit], worse=rises is (effect.better is Better.LESS))


def _interactions(answer: ExperimentAnswer, metric: str) -> list[str]:
    words = []
    for e in answer.of_metric(metric):
        if not e.interaction or e.verdict != SHOWN:
            continue
        doubt = "" if e.sure else ", if it is this one: others are mixed with it"
        words.append(
            f"{e.title} together {_size(e.share)} {_interval(e.share)} over what each "
            f"does alone{doubt}: {_apiece(answer, e)}"
        )
    return words


def _apiece(answer: ExperimentAnswer, effect: Effect) -> str:
    """Return words on what each factor of an interaction does at each level of the other one.

    What it does at the other's first level is what it does alone.
    """
    first, second = effect.factors
    means = {
        cell.levels: cell.value
        for cell in answer.cells
        if (cell.metric, cell.factors) == (effect.metric, effect.factors)
    }
    one, other = (tuple(dict.fromkeys(levels)) for levels in zip(*means, strict=True))
    changes = (
        (first, second, {at: means[one[1], at] / means[one[0], at] for at in other}),
        (second, first, {at: means[at, other[1]] / means[at, other[0]] for at in one}),
    )
    return ", ".join(
        f"{name} does "
        + " and ".join(f"{_percent(ratio - 1)} at {by} {at}" for at, ratio in ratios.items())
        for name, by, ratios in changes
    )


def _percent(share: float, *, digits: int | None = None) -> str:
    """Return a relative change in percent with its sign, such as -17 % or +0.4 %.

    `digits` is the number of decimals.  None is one decimal below 10 %, else none.
    """
    value = 100 * share
    if digits is None:
        digits = 1 if abs(value) < 10 else 0
    return f"{value:+.{digits}f} %"


def _size(share: Share) -> str:
    """Return a relative change as text in percent, with as many digits as its interval needs."""
    return _percent(share.change, digits=_digits(share))


def _interval(share: Share) -> str:
    """Return the interval of a relative change as text, such as (-19 to -15 %); "" without one."""
    if share.low is None or share.high is None:
        return ""
    low, high = (_percent(one, digits=_digits(share)) for one in (share.low, share.high))
    return f"({low.removesuffix(' %')} to {high})"


def _digits(share: Share) -> int | None:
    """Return 1 as the number of decimals if a share's interval is narrow, else None.

    Without the decimal, both ends of a narrow interval would look equal.  With None, the size of
    the value decides.
    """
    if share.low is None or share.high is None:
        return None
    return 1 if 100 * (share.high - share.low) < _NARROW else None


def _levels(answer: ExperimentAnswer, effect: Effect) -> str:
    """Return the two levels of a factor, such as `128 -> 8192`; "" for an interaction."""
    if effect.interaction:
        return ""
    factor = next(one for one in answer.plan.factors if one.name == effect.factors[0])
    return f"{factor.first} -> {factor.second}"


def _verdict(answer: ExperimentAnswer, effect: Effect) -> str:
    """Return the verdict on an effect in words; the words before a comma decide its colour."""
    if effect.verdict == NOTHING:
        return f"nothing, within {_exactly(answer)}"
    if effect.verdict == OPEN:
        return "unclear"
    if effect.interaction:
        return "shown" if effect.sure else "shown, for one of those mixed with it"
    if effect.better is Better.NEITHER:
        return "shown"
    more = effect.share.change > 0
    return "better" if more is (effect.better is Better.MORE) else "worse"


def _listed(answer: ExperimentAnswer, metric: str) -> list[Effect]:
    """Return a metric's effects in the order of the table: single factors, then interactions.

    All single factors are listed, the largest first.  Of the interactions, those that are proven
    come first.  At most eight interactions are listed, or all proven ones if these are more.
    """
    effects = answer.of_metric(metric)
    mains = [e for e in effects if not e.interaction]
    mixed = sorted(
        (e for e in effects if e.interaction),
        key=lambda e: (e.verdict != SHOWN, -abs(e.share.change)),
    )
    shown = sum(e.verdict == SHOWN for e in mixed)
    mains.sort(key=lambda e: -abs(e.share.change))
    return [*mains, *mixed[: max(_MOST_INTERACTIONS, shown)]]


def _row(answer: ExperimentAnswer, effect: Effect) -> tuple[str, str, str, str, str]:
    """Return the cells of an effect, in the columns of the table of effects."""
    return (
        effect.title,
        _levels(answer, effect),
        _size(effect.share),
        _interval(effect.share).strip("()"),
        _verdict(answer, effect),
    )


def _explained(answer: ExperimentAnswer) -> list[str]:
    """Return sentences on how the effects were measured, and what the numbers mean."""
    mixed = any(e.aliases for e in answer.effects) or not all(e.sure for e in answer.effects)
    how = (
        f"Measured: {answer.runs} runs, {answer.blocks} blocks of {answer.block_runs} "
        f"({answer.design} of {len(answer.plan.factors)} factors), in an order drawn from seed "
        f"{answer.plan.seed}."
    )
    words = [
        how,
        (
            "Change: from the first level to the second, on average over the levels of the other "
            "factors; of an interaction: both from first to second, over what each does alone, "
            "which is with the other one at its first level."
        ),
        (
            f"Intervals: corrected for all {len(answer.effects)} effects (permutations within "
            f"blocks, max-statistic)."
        ),
    ]
    if any(one.seldom for one in answer.plan.factors):
        seldom = ", ".join(one.name for one in answer.plan.factors if one.seldom)
        words.append(f"Whole plots: {seldom} changed seldom, and their intervals allow for it.")
    if mixed:
        words.append(
            "Mixed: this design does not separate some interactions; an experiment with "
            "those factors alone does.  Effects of single factors are not mixed with them."
        )
    return [*words, *answer.notes]


def _exactly(answer: ExperimentAnswer) -> str:
    return f"{100 * answer.plan.within:g} %"


def _data(answer: ExperimentAnswer) -> Iterator[Sequence[object]]:
    """Yield a row of the CSV for each effect: its metric, levels, size, interval and verdict."""
    known = {one.name: (one.first, one.second) for one in answer.plan.factors}
    for e in answer.effects:
        yield (
            *(e.metric, e.title, *(("", "") if e.interaction else known[e.factors[0]])),
            *(e.share.change, e.share.low, e.share.high),
            *(e.p, e.verdict, e.settled, e.better.value, e.unit),
        )


def _effects(answer: ExperimentAnswer, metric: str, listed: Sequence[Effect]) -> Figure:
    """Return a chart of the effects `listed` on a metric, with their intervals, in percent."""
    effects = listed[::-1]
    ends = [100 * end for e in effects for end in (e.share.low or 0.0, e.share.high or 0.0)]
    low, high = min(-_LEAST_PERCENT, *ends), max(_LEAST_PERCENT, *ends)
    room = 0.04 * (high - low)
    within = 100 * answer.plan.within
    of_kind: dict[str, list[Effect]] = {}
    for effect in effects:
        first = _verdict(answer, effect).split(",")[0]
        of_kind.setdefault(first if first in _COLORS else SHOWN, []).append(effect)
    return Figure(
        f"effects-{metric}",
        f"Effects on {metric}, with 95 % intervals ({effects[0].better.value} is better)",
        [_curve(mine, kind) for kind, mine in of_kind.items()],
        x=f"% change from first to second level (shaded: within {within:g} %)",
        axes={
            "height": 160 + 26 * len(effects),
            "range_x": [low - room, high + room],
            "band": [-within, within],
            "categories": [e.title for e in effects],
        },
    )


def _curve(effects: Sequence[Effect], kind: str) -> Curve:
    values = [100 * e.share.change for e in effects]
    pairs = list(zip(effects, values, strict=True))
    error = {
        "type": "data",
        "symmetric": False,
        "array": [100 * (e.share.high or 0.0) - at for e, at in pairs],
        "arrayminus": [at - 100 * (e.share.low or 0.0) for e, at in pairs],
    }
    return Curve(
        kind,
        values,
        [e.title for e in effects],
        kind="points",
        color=_COLORS[kind],
        texts=[f"{_size(e.share)} {_interval(e.share)}" for e in effects],
        style={"error_x": error, "symbol": 0},
    )


def _interaction(answer: ExperimentAnswer, metric: str, pair: tuple[str, str]) -> Figure:
    """Return a chart of the interaction of two factors, with a line for each level of the second.

    If the lines are parallel, the factors do not interact.
    """
    cells = [cell for cell in answer.cells if cell.metric == metric and cell.factors == pair]
    curves = []
    for number, level in enumerate(dict.fromkeys(cell.levels[1] for cell in cells)):
        own = [cell for cell in cells if cell.levels[1] == level]
        x = [f"{pair[0]} {cell.levels[0]}" for cell in own]
        curves.append(Curve(f"{pair[1]} {level}", x, [cell.value for cell in own], color=number))
    return Figure(
        f"interaction-{metric}-{pair[0]}-{pair[1]}",
        f"{pair[0]} x {pair[1]}: lines that are not parallel act together",
        curves,
        y=f"{metric}, {answer.of_metric(metric)[0].unit}",
    )
