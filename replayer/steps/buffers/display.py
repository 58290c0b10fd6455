"""Display of the step `buffers`: the share of blocks found in server buffers of each size."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from replayer.model import StepResult
from replayer.run.display import (
    Brief,
    Chart,
    ChartTrace,
    Form,
    Results,
    Sentence,
    TableRows,
    Tone,
)
from replayer.units import show_below, show_or_dash, show_rate, show_size, show_with_noun

_MOST = 3
"""The number of sizes that an answer names; of more, it names the smallest and the largest."""

Row = Mapping[str, Any]


def form(result: StepResult) -> Form:
    """Return the lines of a report: a row for each size, and why a share is not to be relied on."""
    metrics = frozenset(one.metric for one in result.measurements)
    rows = result.tables.get("buffers", ())
    doubts = [
        Sentence(f"{name}: {doubt}", Tone.BAD, about=name)
        for row in rows
        if (doubt := _doubt(row))
        for name in [f"buffers of {show_size(row['buffers_bytes'])}"]
    ]
    return Form(
        [_table(rows), *doubts] if rows else [],
        metrics=metrics,
        tables=frozenset({"buffers"}),
        brief=_brief(result, rows),
    )


def _doubt(row: Row) -> str:
    """Return why the share of a row is not that of full buffers; "" if it is."""
    # Results of earlier versions have no reason.
    return "" if row["full"] else row.get("doubt") or "they were still filling"


def _table(rows: Sequence[Row]) -> TableRows:
    headings = ["buffers", "blocks found", "done/s", "device reads/s", "seconds", "full"]
    return TableRows(
        headings,
        [
            [
                show_size(row["buffers_bytes"]),
                show_or_dash(row["hit_share"], _percent),
                show_rate(row["completed_per_second"]),
                show_or_dash(row["device_reads_per_second"], show_rate),
                f"{row['seconds']:.0f}",
                "yes" if row["full"] else "not proven",
            ]
            for row in rows
        ],
    )


def _percent(share: float) -> str:
    percent = 100 * share
    return f"{show_below(100.0, percent, f'{percent:.4g}')} %"


def _brief(result: StepResult, rows: Sequence[Row]) -> Brief:
    if not rows:
        return Brief()
    ends = rows if len(rows) <= _MOST else (rows[0], rows[-1])
    did = f"{show_with_noun(len(rows), 'size')} of the server's buffers"
    return Brief(
        did,
        [f"{_found(result, row)} in {show_size(row['buffers_bytes'])}" for row in ends[-2:]],
        "" if all(row["full"] for row in rows) else "not proven full",
        subject="Blocks found:",
        clause=", ".join(
            f"{_found(result, row)} with buffers of {show_size(row['buffers_bytes'])}"
            f"{'' if row['full'] or row['hit_share'] is None else ' (not proven full)'}"
            for row in ends
        ),
    )


def _found(result: StepResult, row: Row) -> str:
    """Return the share of blocks found in buffers of a row's size, as text.

    It is the measurement, which of repeats is the median, and the row's own share without one.
    """
    size = show_size(row["buffers_bytes"]).replace(" ", "")
    measured = result.value(f"buffers.hit_ratio.{size}")
    share = row["hit_share"] if measured is None else measured / 100
    return "not known" if share is None else _percent(share)


def charts(sides: Sequence[Results]) -> Iterator[Chart]:
    """Yield one chart: percent of blocks found in the server's buffers, by their size in MiB.

    It has a curve for each result of the compared `sides`.  Nothing is yielded if no side has
    values.
    """
    traces = [
        ChartTrace(
            side,
            "line",
            [row["buffers_bytes"] / (1 << 20) for row in rows],
            [100 * row["hit_share"] for row in rows],
        )
        for side, results in enumerate(sides)
        for _, one in results
        if (rows := [row for row in one.tables.get("buffers", ()) if row["hit_share"] is not None])
    ]
    if traces:
        title = "buffers: blocks found by the size of the buffers"
        yield Chart("buffers", title, traces, "MiB", "%", log_x=True)
