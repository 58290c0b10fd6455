"""Display of the step `capacity`, a search for the highest rate: trials, result, long run."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from replayer.model import StepResult
from replayer.run.display import Chart, ChartTrace, Form, Part, Results, Sentence, TableRows, Tone
from replayer.units import show_count, show_duration, show_or_dash, show_rate, show_times, three

_TONES = {"within": Tone.GOOD, "exceeded": Tone.BAD}
_GLOSSES = {
    "capacity.multiple": "of the required rate; held twice",
    "capacity.rate": "the same in statements",
    "capacity.refused": "of the required rate; failed twice",
}
_PERCENTILES = (("p50_s", "p50"), ("p95_s", "p95"), ("p99_s", "p99"))

Row = Mapping[str, Any]


def form(result: StepResult) -> Form:
    """Return the lines of a report: the trials, and the highest multiple of the required rate.

    After these follow the limiting resource and the long run at the required rate.
    """
    parts: list[Part] = [
        _trials(result.tables.get("trials", ())),
        *_answer(result),
        *_hold(result),
    ]
    return Form(
        parts,
        metrics=frozenset({"capacity.low", "capacity.high"}),
        tables=frozenset({"trials", "hold", "resources"}),
        facts=frozenset(
            name for name in result.facts if name.startswith(("capacity.", "memory.k"))
        ),
        headline=("capacity.multiple", "capacity.rate"),
        glosses=_GLOSSES,
    )


def _trials(rows: Sequence[Row]) -> TableRows:
    headings = [
        *("trial", "times", "asked/s", "done/s", "p50", "p99", "lag"),
        *("CPU", "server", "reads/s", "writes/s", "log", "locks"),
    ]
    return TableRows(
        headings,
        [
            [
                f"{number:>2} {row['ended']}",
                show_times(row["multiple"]),
                show_rate(row["asked_per_second"]),
                show_rate(row["throughput_per_second"]),
                show_or_dash(row["p50_s"], show_duration),
                show_or_dash(row["p99_s"], show_duration),
                show_duration(row["lag_s"]),
                three(row["user_cores"] + row["system_cores"]),
                *(show_or_dash(row[key], show_rate) for key in _NUMBERS),
                show_or_dash(row["log_share"], "{:.0%}".format),
                show_or_dash(row["row_lock_share"], "{:.0%}".format),
            ]
            for number, row in enumerate(rows, 1)
        ],
    )


_NUMBERS = ("server_cores", "reads_per_second", "writes_per_second")


def _answer(result: StepResult) -> Iterator[Sentence]:
    multiple, low, high = (result.value(f"capacity.{name}") for name in ("multiple", "low", "high"))
    rate, objective = (
        result.facts.get(f"capacity.{name}") for name in ("required_per_second", "objective")
    )
    if not isinstance(rate, int | float):
        return
    required = f"the required {show_count(rate)}/s with {objective}"
    given_up = result.facts.get("capacity.gave_up")
    if given_up:
        yield Sentence(f"the search was given up: {given_up}", Tone.BAD)
    if multiple is None and not given_up:
        yield Sentence(_nothing_sure(result.tables.get("trials", ()), required), Tone.BAD)
    elif multiple is not None:
        end = "no end" if high is None else show_times(high)
        ends = f"{show_or_dash(low, show_times)} to {end}"
        clear = "" if result.facts.get("capacity.clear") else "unclear: "
        words = f"{clear}{show_times(multiple)} times {required} (95 % interval {ends})"
        yield Sentence(words, Tone.GOOD if multiple >= 1 and not clear else Tone.BAD)
    if result.facts.get("capacity.proof"):
        yield Sentence(f"limiting resource: {result.facts['capacity.proof']}")


def _nothing_sure(trials: Sequence[Row], required: str) -> str:
    """Return a sentence on a search without a multiple, by the trials that count.

    `required` is the required rate, with its objective.
    """
    ended = {row["ended"] for row in trials} - {"void"}
    if "held" in ended:
        return f"no rate was sustained for sure: {required} is not proven"
    if ended == {"not offered"}:
        return f"no rate could be offered to the server: nothing is known of {required}"
    return f"no rate that was tried held: {required} is out of reach"


def _hold(result: StepResult) -> Iterator[Sentence]:
    held = result.facts.get("capacity.held")
    if not isinstance(held, str):
        return
    rows = result.tables.get("hold", ())
    if rows:
        seconds = show_duration(rows[0]["seconds"])
        why = result.facts.get("capacity.held_why")
        kept = f"{held} the objective" if held in _TONES else held
        words = f"the required rate, held for {seconds}: {kept}"
        yield Sentence(f"{words} ({why})" if why else words, _TONES.get(held, Tone.QUIET))
    else:
        yield Sentence(f"the required rate for long: {held}", Tone.QUIET)


def charts(sides: Sequence[Results]) -> Iterator[Chart]:
    """Yield one chart: response times in ms by the rate of statements.

    It has curves of p50, p95 and p99 for each result of the compared `sides`, from the trials whose
    backlog of statements was worked off.  Nothing is yielded if no side has values.
    """
    traces = [
        ChartTrace(
            side,
            "line",
            [row["throughput_per_second"] for row in rows],
            [row[key] * 1e3 for row in rows],
            [f"{show_times(row['multiple'])} times: {row['ended']}" for row in rows],
            name=name,
            style=style,
        )
        for side, results in enumerate(sides)
        for _, one in results
        if (rows := _sustained(one.tables.get("trials", ())))
        for style, (key, name) in enumerate(_PERCENTILES)
    ]
    if traces:
        yield Chart(
            "capacity",
            "capacity: response time by rate",
            traces,
            "statements per second",
            "ms",
            zero=True,
        )


def _sustained(rows: Sequence[Row]) -> list[Row]:
    known = [row for row in rows if row["p50_s"] is not None]
    return sorted(known, key=lambda row: float(row["throughput_per_second"]))
