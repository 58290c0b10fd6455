"""Display of a build: the time of its last doubling, and a chart of all doublings.

The last doubling makes half of all rows, and serves as a benchmark of the CPU.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from replayer.model import StepResult
from replayer.run.display import Brief, Chart, ChartTrace, Form, Labelled, Results
from replayer.units import show, show_count, show_duration, show_rate, show_size

_HEADLINE = ("build.last_doubling", "build.rows_per_second")
_GLOSSES = {
    "build.elapsed": "all doublings",
    "build.rows_per_second": "over all doublings",
    "build.table_bytes": "on disk",
    "build.wal_bytes": "written to the server's log",
}
_SERVER = {f"last_doubling.server_{kind}": kind for kind in ("user", "system")}


def form(result: StepResult) -> Form:
    """Return the line of a report on the last doubling: its seconds and the server's CPU time."""
    seconds = result.value("build.last_doubling")
    if seconds is None:
        return Form(headline=_HEADLINE, glosses=_GLOSSES, brief=_brief(result))
    used = {kind: result.facts.get(key) for key, kind in _SERVER.items()}
    texts = [
        show_duration(seconds),
        *(
            f"server {kind} {show_duration(value)}"
            for kind, value in used.items()
            if isinstance(value, int | float)
        ),
    ]
    return Form(
        [Labelled("last doubling", texts)],
        metrics=frozenset({"build.last_doubling"}),
        facts=frozenset(_SERVER),
        headline=_HEADLINE,
        glosses=_GLOSSES,
        brief=_brief(result),
    )


def _brief(result: StepResult) -> Brief:
    rows, size, rate = (
        result.value(f"build.{name}") for name in ("rows", "table_bytes", "rows_per_second")
    )
    if rows is None:
        return Brief("filled a table by doubling it")
    if result.facts.get("reused"):
        found = [show_size(size)] if size else []
        return Brief(f"kept the {show_count(rows)} rows of an earlier build", found)
    did = f"{show_count(rows)} rows by doubling"
    if rate is None:
        return Brief(did)
    shown = f"{show_rate(rate)} rows/s"
    # DuckDB's rows are in its log until a checkpoint: a table of 0 bytes is not a result.
    results = [f"{shown}, {show_size(size)}" if size else shown]
    return Brief(did, results, subject="Built", clause=f"{show_count(rows)} rows at {shown}")


def charts(sides: Sequence[Results]) -> Iterator[Chart]:
    """Yield one chart: rows per second of each doubling, by the rows of the table after it.

    It has a curve for each result of the compared `sides`.  Nothing is yielded if no side has
    values.
    """
    traces = [
        _trace(number, run, rows)
        for number, results in enumerate(sides)
        for run, result in results
        if (rows := _doublings(result))
    ]
    if traces:
        title = "build: rows per second of every doubling"
        axes = {"x": "rows afterwards", "y": "rows/s"}
        yield Chart("doublings", title, traces, **axes, zero=True, log_x=True)


def _doublings(result: StepResult) -> list[Mapping[str, Any]]:
    return [
        row
        for row in result.tables.get("doublings", ())
        if row.get("doubling") and row.get("rows_per_second")
    ]


def _trace(side: int, run: str, rows: Sequence[Mapping[str, Any]]) -> ChartTrace:
    return ChartTrace(
        side,
        "line",
        x=[row["rows"] for row in rows],
        y=[row["rows_per_second"] for row in rows],
        texts=[f"{run}: {_doubling(row)}" for row in rows],
    )


def _doubling(row: Mapping[str, Any]) -> str:
    size = show(row["table_bytes"], "bytes") if row.get("table_bytes") else ""
    seconds = show(row["seconds"], "s") if row.get("seconds") else ""
    return f"doubling {row['doubling']} {seconds} {size}"
