"""pgio's line, as it is: programs look for it; and the sessions' shares."""

from replayer.model import StepResult, Verdict
from replayer.run.display import Form, Labelled, Part, Verbatim
from replayer.units import show_count

_GLOSSES = {
    "sessions.riops": "blocks that the server missed in its own buffers",
    "sessions.cache_hits": "blocks that it found there",
    "sessions.device_reads": "reads of the device, all processes",
    "sessions.operations": "work units",
    "sessions.client_cpu": "used by replayer's side of the sessions",
}


def form(result: StepResult) -> Form:
    """Return the lines and how evenly the sessions worked."""
    lines: list[Part] = [Verbatim(text) for texts in result.printed.values() for text in texts]
    rows = result.tables.get("sessions", ())
    done = [row["operations"] for row in rows if isinstance(row.get("operations"), int)]
    each = f"{show_count(min(done))} to {show_count(max(done))} statements each" if done else ""
    shares: list[Part] = [Labelled("sessions", [f"{len(done)}, {each}"])] if done else []
    # What a buffered run missed says nothing of it.
    buffered = result.ledger is not None and result.ledger.verdict is Verdict.BUFFERED
    first = "cache_hits" if buffered else "riops"
    return Form(
        [*lines, *shares],
        lines,
        tables=frozenset({"sessions"}),
        facts=frozenset({"memory.kind", "block_size_bytes"}),
        headline=(f"sessions.{first}", "sessions.latency.p50", "sessions.latency.p99"),
        glosses=_GLOSSES,
        charted_alone=True,
    )
