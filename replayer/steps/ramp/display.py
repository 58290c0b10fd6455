"""Display of a ramp: throughput by the number of sessions, and the limiting resource."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from replayer.model import StepResult
from replayer.run.display import Chart, ChartTrace, Form, Part, Results, Sentence, TableRows, Tone
from replayer.units import show_duration, show_or_dash, show_rate, three

_WIDTH = 16
_GLOSSES = {
    "ramp.throughput": "from the knee on",
    "ramp.knee": "the first level with 95 % of the highest throughput",
    "ramp.bound": "1 / demand of the limiting resource",
    "ramp.contention": "share of the work that is done one at a time",
    "ramp.coherency": "cost of agreeing, between each two sessions",
    "ramp.peak": "where the law has its highest throughput",
}
_PERCENTILES = (("p50_s", "p50"), ("p95_s", "p95"), ("p99_s", "p99"))

Row = Mapping[str, Any]


def form(result: StepResult) -> Form:
    """Return the lines of a report: a row for each number of sessions, and the limiting resource.

    In between are the coefficients of the Universal Scalability Law, and the use of each resource.
    """
    first, proof = result.facts.get("ramp.first"), result.facts.get("ramp.proof")
    tone = Tone.BAD if first == "unclear" else Tone.GOOD
    answer = [Sentence(f"limiting resource: {proof}", tone)] if proof else []
    parts: list[Part] = [
        _curve(result.tables.get("levels", ())),
        _coefficients(result.tables.get("scalability", ())),
        _resources(result.tables.get("resources", ())),
        *answer,
        *_little(result.tables.get("levels", ())),
    ]
    done = {"levels", "scalability", "resources"} if "levels" in result.tables else set()
    return Form(
        parts,
        metrics=frozenset({"ramp.contention", "ramp.coherency", "ramp.peak"}),
        tables=frozenset({*done, "trials", "uses"} if done else ()),
        facts=frozenset({"ramp.first", "ramp.proof", "ramp.flat", "memory.kind"}),
        headline=("ramp.throughput", "ramp.knee"),
        glosses=_GLOSSES,
    )


def _curve(rows: Sequence[Row]) -> TableRows:
    most = max((row["throughput_per_second"] for row in rows), default=0.0)
    headings = [
        *("sessions", "1/s", "range", "law", "p50", "p99"),
        *("CPU", "server", "clients", "reads/s", "writes/s", "flushes/s", "log", "locks"),
    ]
    shown = [
        [
            f"{row['sessions']:>4} {_bar(row['throughput_per_second'], most)}",
            show_rate(row["throughput_per_second"]),
            f"{_range(row):.1%}",
            show_or_dash(row["law_per_second"], show_rate),
            show_duration(row["p50_s"]),
            show_duration(row["p99_s"]),
            three(row["user_cores"] + row["system_cores"]),
            show_or_dash(row["server_cores"], show_rate),
            three(row["client_cores"]),
            show_or_dash(row["reads_per_second"], show_rate),
            show_or_dash(row["writes_per_second"], show_rate),
            show_or_dash(row["flushes_per_second"], show_rate),
            show_or_dash(row["log_share"], "{:.0%}".format),
            show_or_dash(row["row_lock_share"], "{:.0%}".format),
        ]
        for row in rows
    ]
    return TableRows(headings, shown)


def _little(rows: Sequence[Row]) -> list[Part]:
    if not rows:
        return []
    most = max(row["little_share"] for row in rows)
    return [
        Sentence(f"Little's law, sessions = throughput x time, holds within {most:.1%}", Tone.QUIET)
    ]


def _bar(value: float, most: float) -> str:
    return "#" * max(1, round(_WIDTH * value / most)) if most > 0 and value > 0 else ""


def _range(row: Row) -> float:
    spread: float = row["most_per_second"] - row["least_per_second"]
    mean: float = row["throughput_per_second"]
    return spread / mean if mean else 0.0


def _coefficients(rows: Sequence[Row]) -> TableRows:
    headings = ["scalability law", "value", "95 % from", "to"]
    return TableRows(
        headings,
        [
            [
                row["coefficient"],
                _small(row["value"]),
                _small(row["low"]),
                "unbounded" if row["high"] is None else _small(row["high"]),
            ]
            for row in rows
        ],
    )


def _small(value: float) -> str:
    return three(value) if value >= 0.001 or value == 0 else f"{value:.2e}"


def _resources(rows: Sequence[Row]) -> TableRows:
    headings = ["resource", "busy", "95 % from", "to", "allows at most", "ceiling"]
    return TableRows(
        headings,
        [
            [
                row["resource"],
                *(
                    show_or_dash(row[f"{end}_share"], "{:.1%}".format)
                    for end in ("busiest", "low", "high")
                ),
                show_or_dash(row["bound_per_second"], lambda value: f"{show_rate(value)}/s"),
                row["ceiling"] or "-",
            ]
            for row in rows
        ],
    )


def charts(sides: Sequence[Results]) -> Iterator[Chart]:
    """Yield up to three charts with the number of sessions on the x axis.

    They show throughput with the fitted scalability law, the times of statements in ms, and the use
    of each resource in percent.  Each has the curves of all the results in `sides`, to be compared.
    """
    runs = [(side, one) for side, results in enumerate(sides) for _, one in results]
    curve = [trace for side, one in runs for trace in _curves(side, one.tables)]
    if not curve:
        return
    yield Chart("ramp", "ramp: throughput by sessions", curve, "sessions", "per second", zero=True)
    times = [
        ChartTrace(
            side,
            "line",
            [row["sessions"] for row in one.tables["levels"]],
            [row[key] * 1e3 for row in one.tables["levels"]],
            name=name,
            style=style,
        )
        for side, one in runs
        if "levels" in one.tables
        for style, (key, name) in enumerate(_PERCENTILES)
    ]
    yield Chart("ramp-times", "ramp: time of a statement by sessions", times, "sessions", "ms")
    uses = [trace for side, one in runs for trace in _uses(side, one.tables)]
    if uses:
        yield Chart(
            "ramp-uses", "ramp: how busy each resource is", uses, "sessions", "%", zero=True
        )


def _curves(side: int, tables: Mapping[str, Sequence[Row]]) -> Iterator[ChartTrace]:
    rows = tables.get("levels", ())
    sessions = [row["sessions"] for row in rows]
    if rows:
        measured = [row["throughput_per_second"] for row in rows]
        yield ChartTrace(side, "line", sessions, measured, name="measured")
    if rows and rows[0]["law_per_second"] is not None:
        law = [row["law_per_second"] for row in rows]
        yield ChartTrace(side, "line", sessions, law, name="scalability law", style=1)


def _uses(side: int, tables: Mapping[str, Sequence[Row]]) -> Iterator[ChartTrace]:
    rows = tables.get("uses", ())
    names = dict.fromkeys(row["resource"] for row in rows)
    for style, name in enumerate(names):
        own = [row for row in rows if row["resource"] == name]
        sessions = [row["sessions"] for row in own]
        yield ChartTrace(
            side, "line", sessions, [100 * r["busy_share"] for r in own], name=name, style=style
        )
