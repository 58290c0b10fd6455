"""Words and tables for the comparison of a replay with the captured server (its source)."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from replayer.analysis.differences.comparison import MetricVerdict
from replayer.analysis.differences.source_times import allowed_factor
from replayer.model import Spent, StepResult
from replayer.units import show_count, show_duration, show_with_noun

TABLE, PLANS = "against_source", "plans"
_SLOWER = (MetricVerdict.WORSE.value, MetricVerdict.LIKELY_WORSE.value)
_NAMED = 3
_COSTS = re.compile(r"  \(cost=[^)]*\)")
_SAME = "the same plan"
_NOT_KNOWN = "it waits for something here, or this machine is slower"
_QUEUED = 0.2
"""Waits for a processor are named if they are at least this share of the time in statements."""
_HEADINGS = (
    *("statement", "verdict", "executions", "p50 source", "p50", "p99 source", "p99"),
    *("total source", "total", "ratio", "95 % interval", "p", "rows", "errors"),
)


class SourceSection(NamedTuple):
    """The comparison of a replay with its source (the captured server), in words and as a table."""

    answer: str
    bad: bool
    """True if the answer is that statements got slower."""
    remarks: tuple[str, ...]
    headings: tuple[str, ...]
    rows: list[list[str]]
    left: int
    """Number of lighter statements that are not in the table."""


class SourceSummary(NamedTuple):
    """The comparison of a replay with its source in a few words; "" if the log had no durations."""

    result: str
    """For a table: `1 of 6 slower than in the source`."""
    clause: str
    """For the headline, with the statement that was slowed most."""


class SlowedPlan(NamedTuple):
    """The plan of a statement that got slower, on the server `side`: "here" or "in the source"."""

    statement: str
    side: str
    plan: str


def section(result: StepResult, *, most: int, width: int) -> SourceSection | None:
    """Return the comparison of a replay with the captured server; None if its log has no durations.

    The table has at most `most` statements, each cut to `width` characters.  Those that got slower
    come first.
    """
    table = result.tables.get(TABLE, ())
    if not table:
        return None
    slower = [row for row in table if row["verdict"] == MetricVerdict.WORSE.value]
    return SourceSection(
        answer=_answer(table, slower, width) + name_cause(result, slower),
        bad=bool(slower),
        remarks=tuple(_remarks(result, table)),
        headings=_HEADINGS,
        rows=[_row(row, width) for row in table[:most]],
        left=max(0, len(table) - most),
    )


def summarize(result: StepResult, *, width: int) -> SourceSummary:
    """Return how many statements are slower than in the source, and which one slowed down most.

    The text of that statement is cut to `width` characters.
    """
    table = result.tables.get(TABLE, ())
    slower = [row for row in table if row["verdict"] == MetricVerdict.WORSE.value]
    if not table:
        return SourceSummary("", "")
    if not slower:
        clause = "no statement was shown to be slower than in the source"
        share = result.facts.get("replay.source.disturbed_share")
        if isinstance(share, float):
            clause += f", where other programs used {share:.0%} of the processors"
        return SourceSummary(f"none of {len(table):,} slower than in the source", clause)
    many = f"{len(slower):,} of {len(table):,}"
    of = f"{len(slower):,} of {show_with_noun(len(table), 'statement')}"
    worst = f"{shorten(slower[0]['text'], width)} ({slower[0]['ratio']:.3g} times)"
    one, more = "is slower than in the source:", "are slower than in the source, most of all"
    clause = f"{of} {one if len(slower) == 1 else more} {worst}"
    return SourceSummary(f"{many} slower than in the source", clause)


def plans(result: StepResult, *, width: int) -> list[SlowedPlan]:
    """Return the plans of the statements that got slower, the most slowed first.

    A plan that is the same on the second server is not shown again.  Statements are cut to `width`
    characters.
    """
    shown: list[SlowedPlan] = []
    last: dict[str, str] = {}
    for row in result.tables.get(PLANS, ()):
        shape = _COSTS.sub("", row["plan"])
        same = last.get(row["fingerprint"]) == shape
        last[row["fingerprint"]] = shape
        plan = f"{_SAME}: {name_wait(result) or _NOT_KNOWN}" if same else row["plan"]
        shown.append(SlowedPlan(shorten(row["text"], width), row["on"], plan))
    return shown


def name_wait(result: StepResult) -> str:
    """Return words with the share of the statements' time that was spent waiting for a processor.

    Return "" if the share is below a fifth, or not known.
    """
    spent = {} if result.account is None else result.account.session
    whole = sum(seconds for part, seconds in spent.items() if part is not Spent.CLIENT)
    share = spent.get(Spent.RUN_QUEUE, 0.0) / whole if whole > 0 else 0.0
    if share < _QUEUED:
        return ""
    return f"{share:.0%} of the time in statements was waiting for a processor (run queue)"


def _with_the_same_plan(result: StepResult) -> set[str]:
    """Return the fingerprints whose plan, apart from its costs, is the same on both servers."""
    shapes: dict[str, list[str]] = {}
    for row in result.tables.get(PLANS, ()):
        shapes.setdefault(row["fingerprint"], []).append(_COSTS.sub("", row["plan"]))
    return {one for one, plans in shapes.items() if len(plans) > 1 and len(set(plans)) == 1}


def shorten(text: str, width: int) -> str:
    """Return a statement on one line of at most `width` characters."""
    words = " ".join(text.split())
    return words if len(words) <= width else f"{words[: width - 1]}…"


def _answer(
    table: Sequence[Mapping[str, Any]], slower: Sequence[Mapping[str, Any]], width: int
) -> str:
    counts = {
        verdict.value: sum(row["verdict"] == verdict.value for row in table)
        for verdict in MetricVerdict
    }
    others = ", ".join(
        f"{many:,} {verdict}"
        for verdict, many in counts.items()
        if many and verdict != MetricVerdict.WORSE.value
    )
    if not slower:
        return f"no statement was shown to be slower than in the source: {others}"
    named = "; ".join(
        f"{shorten(row['text'], width)} ({row['ratio']:.3g} times, {_added(row)})"
        for row in slower[:_NAMED]
    )
    more = f" and {len(slower) - _NAMED:,} more" if len(slower) > _NAMED else ""
    rest = f"; {others}" if others else ""
    many = f"{len(slower):,} of {show_with_noun(len(table), 'statement')}"
    many += f" {'is' if len(slower) == 1 else 'are'} slower than in the source"
    return f"{many}: {named}{more}{rest}"


def name_cause(result: StepResult, slower: Sequence[Mapping[str, Any]]) -> str:
    """Return words on slow statements with the same plan on both servers: a wait for a processor.

    `slower` are the rows of the table `against_source` with statements that got slower.  Return ""
    if none of these has the same plan, or the wait was short or is not known.
    """
    same = _with_the_same_plan(result) & {row["fingerprint"] for row in slower}
    words = name_wait(result)
    if not same or not words:
        return ""
    return f"; {len(same):,} of them with the same plan on both servers: {words}"


def _added(row: Mapping[str, Any]) -> str:
    return f"{show_duration(row['total_s'] - row['source_total_s'])} more"


def _remarks(result: StepResult, table: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    facts = result.facts
    share = facts.get("replay.source.disturbed_share")
    if isinstance(share, float):
        yield (
            f"other programs used {share:.0%} of this machine's processors meanwhile: only what is "
            f"off by more than {allowed_factor(share):.1f} times, which that cannot explain, is "
            f"called worse or better; end them, and replay again"
        )
    common = facts.get("replay.source.common")
    if isinstance(common, float):
        yield f"the middle statement took {common:.2f} times as long as in the source"
    way = facts.get("replay.source.way_s")
    if isinstance(way, float) and way > 0:
        yield (
            f"of each execution up to {show_duration(way)} may be the way to the server and back, "
            f"which a log does not count: the intervals allow for it"
        )
    for why in dict.fromkeys(row["why"] for row in table if row["why"]):
        many = sum(row["why"] == why for row in table)
        if not why.startswith("other programs"):
            yield f"{many:,} without a verdict: {why}"


def _row(row: Mapping[str, Any], width: int) -> list[str]:
    limits = "-" if row["low"] is None else f"{row['low']:.3g} to {row['high']:.3g}"
    rows = "-" if row["rows"] is None else show_count(row["rows"])
    if row["source_rows"] is not None and row["source_rows"] != row["rows"]:
        rows = f"{rows} ({show_count(row['source_rows'])})"
    errors = show_count(row["errors"])
    if row["source_errors"] != row["errors"]:
        errors = f"{errors} ({show_count(row['source_errors'])})"
    return [
        shorten(row["text"], width),
        row["verdict"],
        show_count(row["executions"]),
        *(show_duration(row[key]) for key in ("source_p50_s", "p50_s", "source_p99_s", "p99_s")),
        *(show_duration(row[key]) for key in ("source_total_s", "total_s")),
        "-" if row["ratio"] is None else f"{row['ratio']:.3g}",
        limits,
        "-" if row["p"] is None else "<0.001" if row["p"] < 0.001 else f"{row['p']:.3f}",
        rows,
        errors,
    ]
