"""Display of the step `sessions`: pgio's line and statements by session, or results of a load.

pgio's line is printed as pgio prints it, because programs search for it.
"""

from collections.abc import Iterator

from replayer.model import ReadOrigin, StepResult
from replayer.run.display import Brief, Form, Labelled, Part, Sentence, TableRows, Tone, Verbatim
from replayer.units import show, show_count, show_duration, show_rate

_SOURCES = {
    ReadOrigin.BUFFERED: " from the server's buffers",
    ReadOrigin.CACHED: " from memory",
    ReadOrigin.PHYSICAL: " from the disk",
    ReadOrigin.MIXED: " from memory and disk",
}
_GLOSSES = {
    "sessions.riops": "blocks that the server missed in its own buffers",
    "sessions.cache_hits": "blocks that it found there",
    "sessions.device_reads": "reads of the device, all processes",
    "sessions.operations": "work units",
    "sessions.client_cpu": "used by replayer's side of the sessions",
}
_OF_A_LOAD = {
    **{metric: words for metric, words in _GLOSSES.items() if metric != "sessions.operations"},
    "sessions.hit_ratio": "of the blocks were in the server's buffers",
    "sessions.statement_cpu": "of the server's processes, for each statement",
    "sessions.in_flight": "with a statement under way, on average",
    "sessions.completed": "statements answered within the window",
    "sessions.offered": "intended starts within the window",
    "sessions.begun": "of those, begun sooner or later",
}
_LOAD = ("sessions.offered", "sessions.begun", "sessions.completed")


def form(result: StepResult) -> Form:
    """Return the lines of a report: pgio's lines and statements by session, or results of a load.

    A load is a mix of statements that clients send.
    """
    return _load(result) if "sessions.sustained" in result.facts else _slices(result)


def _slices(result: StepResult) -> Form:
    lines: list[Part] = [Verbatim(text) for texts in result.printed.values() for text in texts]
    rows = result.tables.get("sessions", ())
    done = [row["operations"] for row in rows if isinstance(row.get("operations"), int)]
    each = f"{show_count(min(done))} to {show_count(max(done))} statements each" if done else ""
    shares: list[Part] = [Labelled("sessions", [f"{len(done)}, {each}"])] if done else []
    # With buffered blocks, the few missed blocks are not meaningful.
    buffered = result.ledger is not None and result.ledger.verdict is ReadOrigin.BUFFERED
    first = "cache_hits" if buffered else "riops"
    return Form(
        [*lines, *shares],
        lines,
        tables=frozenset({"sessions"}),
        facts=frozenset({"memory.kind", "block_size_bytes"}),
        headline=(f"sessions.{first}", "sessions.latency.p50", "sessions.latency.p99"),
        glosses=_GLOSSES,
        brief=_brief(result, first),
    )


def _brief(result: StepResult, first: str) -> Brief:
    """Return a summary of reads by the SLOB method: blocks a second, and where they came from.

    `first` is the metric with the blocks a second: `riops`, or `cache_hits` if nearly all blocks
    were in the server's buffers.
    """
    got = result.ledger.verdict if result.ledger is not None else ReadOrigin.UNKNOWN
    sessions = result.account.sessions if result.account is not None else None
    many = f", {sessions:.0f} sessions" if sessions else ""
    did = f"random reads{_SOURCES.get(got, '')}{many}"
    rate = result.value(f"sessions.{first}")
    if rate is None:
        return Brief(did)
    shown = f"{show_rate(rate)} blocks/s"
    times = _times(result, "latency")
    clause = f"{shown}{_SOURCES.get(got, '')}"
    return Brief(did, [shown, *times], subject="Sessions read", clause=clause)


def _times(result: StepResult, kind: str) -> list[str]:
    """Return the median and the 99th percentile of some times as one text, in a list.

    `kind` is the metric with these times, such as `latency`.  Return [] if they were not measured.
    """
    median, high = (result.value(f"sessions.{kind}.{name}") for name in ("p50", "p99"))
    if median is None or high is None:
        return []
    return [f"p50 {show_duration(median)} · p99 {show_duration(high)}"]


def _brief_load(result: StepResult, times: str) -> Brief:
    """Return a summary of a load: statements a second, and whether the rate was sustained.

    `times` is the metric whose median and 99th percentile are given, such as `response`.
    """
    rate, offered = (result.value(f"sessions.{name}") for name in ("completed", "offered"))
    at = "" if offered is None else f" that arrive at {show(offered, '1/s')}"
    did = f"a mix of statements{at}"
    if rate is None:
        return Brief(did)
    shown = f"{show_rate(rate)} statements/s"
    sustained = bool(result.facts.get("sessions.sustained"))
    proof = "" if offered is None else "sustained" if sustained else "not sustained"
    results = [shown, *_times(result, times)]
    return Brief(did, results, proof, subject="The database answered", clause=shown)


def _load(result: StepResult) -> Form:
    at_a_rate = result.value("sessions.offered") is not None
    verdict: list[Part] = [_verdict(result)] if at_a_rate else []
    times = "response" if at_a_rate else "service"
    return Form(
        [*verdict, *_kinds(result)],
        verdict,
        metrics=frozenset(_LOAD) if at_a_rate else frozenset(),
        tables=frozenset({"kinds"}),
        facts=frozenset({"memory.kind", "block_size_bytes", "sessions.sustained"}),
        headline=("sessions.completed", f"sessions.{times}.p50", f"sessions.{times}.p99"),
        glosses=_OF_A_LOAD,
        units={"sessions.lag": "s"},
        brief=_brief_load(result, times),
    )


def _verdict(result: StepResult) -> Part:
    """Return a line on the rate: statements asked, begun and answered, and if it was sustained."""
    offered, begun, completed = (show(result.value(name) or 0.0, "1/s") for name in _LOAD)
    sustained = bool(result.facts.get("sessions.sustained"))
    words = "sustained" if sustained else "NOT SUSTAINED"
    text = f"{offered} asked, {begun} begun, {completed} answered in the window: {words}"
    return Sentence(text, Tone.GOOD if sustained else Tone.BAD)


def _kinds(result: StepResult) -> Iterator[Part]:
    """Yield a table of the kinds of statements in the mix: shares, rates and service times."""
    rows = result.tables.get("kinds", ())
    if rows:
        headings = ("statements", "asked", "share", "per second", "service p50", "p99")
        yield TableRows(headings, [_kind(row) for row in rows])


def _kind(row: dict[str, object]) -> list[str]:
    shares = [_percent(row.get(name)) for name in ("asked_share", "share")]
    times = [_duration(row.get(f"service_{name}_s")) for name in ("p50", "p99")]
    rate = row.get("per_second")
    return [
        str(row.get("kind", "")),
        *shares,
        show_count(rate) if isinstance(rate, int | float) else "-",
        *times,
    ]


def _percent(share: object) -> str:
    return f"{share:.2%}" if isinstance(share, int | float) else "-"


def _duration(seconds: object) -> str:
    return show_duration(seconds) if isinstance(seconds, int | float) else "-"
