"""Display of the step `buffers`: the share of blocks found in server buffers of each size."""

from collections.abc import Iterator, Sequence

from replayer.model import StepResult
from replayer.run.display import Chart, ChartTrace, Form, Results, WholeTable


def form(result: StepResult) -> Form:
    """Return the lines of a report: the table `buffers`, which has all measurements of the step."""
    metrics = frozenset(one.metric for one in result.measurements)
    return Form(
        [WholeTable("buffers")] if "buffers" in result.tables else [],
        metrics=metrics,
        tables=frozenset({"buffers"}),
    )


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
        if (rows := one.tables.get("buffers", ()))
    ]
    if traces:
        title = "buffers: blocks found by the size of the buffers"
        yield Chart("buffers", title, traces, "MiB", "%", log_x=True)
