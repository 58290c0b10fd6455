"""Display of the share of blocks found, by the size of the buffers."""

from collections.abc import Iterator, Sequence

from replayer.model import StepResult
from replayer.run.display import Chart, ChartTrace, Form, Results, WholeTable


def form(result: StepResult) -> Form:
    """Return the form: the table `buffers`, which holds all measurements of the step."""
    metrics = frozenset(one.metric for one in result.measurements)
    return Form(
        [WholeTable("buffers")] if "buffers" in result.tables else [],
        metrics=metrics,
        tables=frozenset({"buffers"}),
    )


def charts(sides: Sequence[Results]) -> Iterator[Chart]:
    """Yield a chart of the share of blocks found by the size of the buffers."""
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
