"""Display of a replay: what ran, how late, the heaviest fingerprints, and the divergences."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from replayer.model import Replayed, StepResult
from replayer.results import stored_histogram
from replayer.run.display import (
    Brief,
    Chart,
    ChartTrace,
    Form,
    Part,
    Results,
    Sentence,
    TableRows,
    Tone,
    Verbatim,
)
from replayer.steps.replay import source_display
from replayer.units import show_count, show_duration, show_rate, show_with_noun

_HEAVIEST = 20
_MOST_DIVERGENCES = 20
_WIDTH, _NARROW = 60, 36
_GLOSSES = {
    "replay.statements": "answers a second",
    "replay.ran": "of the statements that were to run",
    "replay.errors": "with an error of their own, not one that follows from another",
    "replay.at_work": "with a statement under way, on average",
    "replay.response": "from the intended start",
    "replay.service": "from the actual start",
    "replay.lag": "from the intended start to the actual one",
    "replay.lag.client": "begun late by replayer's own doing",
    "replay.lag.server": "begun late as the session had no answer yet, or waited for its turn",
    "replay.client_cpu": "used by replayer's side of the sessions",
    "replay.riops": "blocks that the server missed in its own buffers",
    "replay.cache_hits": "blocks that it found there",
}


def form(result: StepResult) -> Form:
    """Return a report's lines: what ran, the statements with most server time, and the divergences.

    A divergence is an answer that differs from the log, or from another run.
    """
    times = "response" if result.value("replay.response.p99") is not None else "service"
    parts = [*sections(result, most=_HEAVIEST, width=_NARROW), *_divergences(result)]
    return Form(
        parts,
        tables=frozenset({"divergences", "uses", "standing", "against_source", "plans"}),
        facts=frozenset({"replay.whole", "replay.planned", "replay.server"}),
        headline=("replay.statements", f"replay.{times}.p50", f"replay.{times}.p99"),
        glosses=_GLOSSES,
        units={"replay.lag_client": "s", "replay.lag_server": "s", "replay.at_work": "sessions"},
        brief=_brief(result, times),
    )


def _brief(result: StepResult, times: str) -> Brief:
    """Return a replay in words: how many statements ran, and how fast the server answered.

    `times` is the name of the times whose 99th percentile is given, such as `response`.
    """
    planned = int(result.facts.get("replay.planned") or 0)  # type: ignore[arg-type]
    done = sum(one.executions for one in result.replayed)
    errors = _errors(result)
    ran = f"{done:,} of {show_with_noun(planned, 'statement')}"
    rate = result.value("replay.statements")
    high = result.value(f"replay.{times}.p99")
    results = [] if rate is None else [f"{show_rate(rate)} statements/s"]
    results += [] if high is None else [f"p99 {show_duration(high)}"]
    whole = bool(result.facts.get("replay.whole"))
    proof = f"{ran} ran, {show_with_noun(errors, 'error')}" if whole else f"cut short: {ran} ran"
    at = f" at {results[0]}" if results else ""
    clause = f"{ran}{at}, {_own_errors(errors)}"
    against = source_display.summarize(result, width=_WIDTH)
    if against.clause:
        results.append(against.result)
        clause += f"; {against.clause}"
    return Brief("a capture's statements again", results, proof, "Replayed", clause)


def _errors(result: StepResult) -> int:
    """Return the number of errors that follow from no other; a median would hide a few."""
    return sum(sum(one.errors.values()) for one in result.replayed)


def _ran(result: StepResult) -> Part:
    planned = int(result.facts.get("replay.planned") or 0)  # type: ignore[arg-type]
    done = sum(one.executions for one in result.replayed)
    errors = _errors(result)
    consequences = sum(one.consequences for one in result.replayed)
    text = f"{done:,} of {show_with_noun(planned, 'statement')} ran, {_own_errors(errors)}"
    if consequences:
        text += f", {consequences:,} with one that follows from it"
    if not result.facts.get("replay.whole"):
        return Sentence(f"{text}: CUT SHORT", Tone.BAD)
    return Sentence(text, Tone.PLAIN if errors else Tone.GOOD)


def _own_errors(errors: int) -> str:
    return f"{errors:,} with an error of {'its' if errors == 1 else 'their'} own"


def _server(result: StepResult) -> Iterator[Part]:
    """Yield the sentence that names the server of the replay, if it is known."""
    server = result.facts.get("replay.server")
    if server:
        yield Sentence(f"on {server}")


def sections(result: StepResult, *, most: int, width: int) -> Iterator[Part]:
    """Yield the lines of a report: the server, the statements that ran, and a table of statements.

    If the log has durations, the table compares up to `most` statements with the log, each cut to
    `width` characters.  If not, it has the statements on which the server worked longest in total.
    """
    yield from _server(result)
    yield _ran(result)
    # Without durations in the log, the heaviest statements of the replay stand alone.
    against = list(_against_source(result, most, width))
    yield from against or _heaviest(result.replayed)


def _against_source(result: StepResult, most: int, width: int) -> Iterator[Part]:
    """Yield a table that compares statements with the log, and the plans of those that got slower.

    Yield nothing if the log has no durations.
    """
    section = source_display.section(result, most=most, width=width)
    if section is None:
        return
    yield Sentence(section.answer, Tone.BAD if section.bad else Tone.PLAIN)
    yield TableRows(section.headings, section.rows)
    if section.left:
        yield Sentence(f"and {show_with_noun(section.left, 'lighter one')}", Tone.QUIET)
    yield from (Sentence(words, Tone.QUIET) for words in section.remarks)
    for one in source_display.plans(result, width=max(width, _WIDTH)):
        yield Sentence(f"plan {one.side}: {one.statement}")
        yield from (Verbatim(f"    {words}") for words in one.plan.splitlines())


def _heaviest(replayed: Sequence[Replayed]) -> Iterator[Part]:
    total = sum(one.service_s for one in replayed)
    rows = [_row(one, total) for one in replayed[:_HEAVIEST] if one.executions]
    if rows:
        headings = ("fingerprint", "executions", "errors", "rows", "time", "share", "p50", "p99")
        yield TableRows(headings, rows)
    left = len(replayed) - _HEAVIEST
    if left > 0:
        yield Sentence(f"and {show_with_noun(left, 'lighter one')}", Tone.QUIET)


def _row(one: Replayed, total: float) -> list[str]:
    return [
        _short(one.text),
        show_count(one.executions),
        show_count(sum(one.errors.values())) if one.errors else "-",
        "-" if one.rows is None else show_count(one.rows),
        show_duration(one.service_s),
        f"{one.service_s / total:.1%}" if total else "-",
        *_percentiles(one),
    ]


def _percentiles(one: Replayed) -> Iterator[str]:
    seen = None if one.service is None else stored_histogram.merged([one.service.payload])
    for share in (50, 99):
        if seen is None:
            yield "-"
        else:
            yield show_duration(seen.get_value_at_percentile(share) / 1e9)


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _WIDTH else f"{words[: _WIDTH - 1]}…"


def _divergences(result: StepResult) -> Iterator[Part]:
    rows = result.tables.get("divergences", ())
    real = [row for row in rows if row["what"] != "varying"]
    for against in dict.fromkeys(row["against"] for row in real):
        own = [row for row in real if row["against"] == against]
        fingerprints = len({row["fingerprint"] for row in own})
        many = show_with_noun(fingerprints, "fingerprint")
        have = "has" if fingerprints == 1 else "have"
        side = "the log" if against == "log" else against
        yield Sentence(
            f"{many} {have} other results than in {side}; the first at {_first(own)}",
            Tone.BAD,
        )
    if real:
        headings = ("ended otherwise", "what", "here", "there", "first at", "in session")
        yield TableRows(headings, [_divergence(row) for row in real[:_MOST_DIVERGENCES]])
    varying = len(rows) - len(real)
    if varying:
        differ = "differs" if varying == 1 else "differ"
        yield Sentence(f"{varying:,} more {differ} only in what varies by itself", Tone.QUIET)


def _first(rows: Sequence[Mapping[str, Any]]) -> str:
    known = [row for row in rows if _since(row) is not None]
    if not known:
        return "no time that is known"
    row = min(known, key=lambda one: _since(one) or 0.0)
    return f"{_at(row)}: {_short(row['text'])}"


def _since(row: Mapping[str, Any]) -> float | None:
    """Return the second of the replay at which a divergence first came.

    If that is not known, return the begin of the part of the capture that has the divergence, in
    seconds since the capture's begin.  Return None if neither is known.
    """
    since = row["first_s"] if row["first_s"] is not None else row.get("from_s")
    return None if since is None else float(since)


def _at(row: Mapping[str, Any]) -> str:
    if row["first_s"] is not None:
        return f"{row['first_s']:.1f} s"
    # Compared with another run, only the part of the capture is known.
    return f"{row['from_s']:.1f} to {row['until_s']:.1f} s of the capture"


def _divergence(row: Mapping[str, Any]) -> list[str]:
    session = row["session"] if row["session"] is not None else row.get("sessions")
    return [
        _short(row["text"]),
        row["what"],
        row["ours"],
        row["theirs"],
        "-" if _since(row) is None else _at(row),
        "-" if session is None else str(session),
    ]


def charts(sides: Sequence[Results]) -> Iterator[Chart]:
    """Yield charts of the answers a second and of the lag, over the seconds of a replay.

    Each chart has the curves of all the results in `sides`, to be compared.
    """
    for name, title, y in (
        ("replay.statements", "replay: answers by time", "per second"),
        ("replay.lag_server", "replay: lag by time, the server's", "s"),
        ("replay.lag_client", "replay: lag by time, replayer's own", "s"),
    ):
        traces = [
            trace
            for side, results in enumerate(sides)
            for run, one in results
            for trace in _trace(side, run, one, name)
        ]
        if traces:
            yield Chart(name.replace(".", "-"), title, traces, "s", y, zero=True)


def _trace(side: int, run: str, one: StepResult, name: str) -> Iterator[ChartTrace]:
    if one.series is None or name not in one.series.columns:
        return
    known = [
        (second, value)
        for second, value in zip(one.series.seconds, one.series.columns[name], strict=True)
        if value is not None
    ]
    if known:
        seconds, values = zip(*known, strict=True)
        yield ChartTrace(side, "line", seconds, values, name=run)
