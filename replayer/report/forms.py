"""The forms in which people know a step's numbers: measure_reads's table, pgio's line.

A function with a step's name returns its form; a step without one is shown as everything else is.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import RenderableType

from replayer.model import Latency, Measurement, StepResult, Verdict
from replayer.report.tables import (
    Flow,
    Sheet,
    cell,
    heading,
    indented,
    line,
    records,
    whole,
)
from replayer.report.words import clean
from replayer.results import histogram
from replayer.units import show_count, show_duration

_LEAF = re.compile(r"(?P<group>.*?)\.?(?P<leaf>p\d+(?:\.\d+)?|[^.]+)")
_CLOSE = re.compile(r"^(p\d\d)(\d+)$")
_PERCENTILES = (50, 95, 99, 99.9)

GLOSSES = {
    "build.elapsed": "all doublings",
    "build.rows_per_second": "over all doublings",
    "build.table_bytes": "on disk",
    "build.wal_bytes": "written to the server's log",
    "flush.elapsed": "by the server, then fsync of every file",
    "walk.throughput": "file bytes over the real time of reading",
    "walk.iops": "reads of the walk; the device's are below",
    "scan.elapsed": "all statements",
    "sessions.riops": "blocks that the server missed in its own buffers",
    "sessions.cache_hits": "blocks that it found there",
    "sessions.device_reads": "reads of the device, all processes",
    "sessions.operations": "work units",
    "sessions.client_cpu": "used by replayer's side of the sessions",
}
"""What a metric counts, where its name does not say it to a stranger."""


@dataclass(frozen=True)
class Form:
    """What is shown first of a result, and which of its contents that already tells."""

    parts: Sequence[RenderableType] = ()
    verbatim: Sequence[RenderableType] = ()
    """Lines that programs look for, shown for every repeat too."""
    metrics: frozenset[str] = frozenset()
    tables: frozenset[str] = frozenset()
    facts: frozenset[str] = frozenset()
    headline: Sequence[str] = ()
    """The metrics that the end of the report repeats; the first two with a direction if none."""


def of(result: StepResult) -> Form:
    """Return the form of a result: its step's own, or an empty one."""
    form = globals().get(f"of_{result.step}")
    found: Form = form(result) if form else Form()
    return found


def of_build(result: StepResult) -> Form:
    """Return the last doubling, which is the CPU benchmark, with what the server used for it."""
    headline = ("build.last_doubling", "build.rows_per_second")
    seconds = result.value("build.last_doubling")
    if seconds is None:
        return Form(headline=headline)
    words = [show_duration(seconds)]
    told = {f"last_doubling.server_{kind}": kind for kind in ("user", "system")}
    used = {kind: result.facts.get(key) for key, kind in told.items()}
    words += [
        f"server {kind} {show_duration(value)}"
        for kind, value in used.items()
        if isinstance(value, int | float)
    ]
    return Form(
        [indented([("last doubling", Flow(words, "   "))])],
        metrics=frozenset({"build.last_doubling"}),
        facts=frozenset(told),
        headline=headline,
    )


def of_flush(result: StepResult) -> Form:
    """Return whether it was proven that nothing dirty is left, in a sentence."""
    get = result.facts.get
    if get("proven") is None:
        return Form()
    buffers, pages, files = get("buffers.dirty"), get("pages.dirty_bytes"), get("files")
    words = [
        f"{_known(buffers)} dirty buffers in the server",
        f"{cell('bytes', pages) if pages is not None else 'unknown'} dirty in the page cache",
        f"in {_known(files)} files",
    ]
    said = "proven clean" if get("proven") else "NOT PROVEN CLEAN"
    style = "green" if get("proven") else "bold red"
    return Form(
        [line(f"{said}: {', '.join(words)}", style)],
        facts=frozenset({"proven", "buffers.dirty", "pages.dirty_bytes", "files"}),
    )


def of_walk(result: StepResult) -> Form:
    """Return threads, times of listing and reading, and entries, as measure_reads prints them."""
    rows, told = [], set()
    for kind in ("list", "read"):
        times = {name: result.value(f"walk.{kind}.{name}") for name in ("user", "system", "real")}
        if times["real"] is None:
            continue
        told |= {f"walk.{kind}.{name}" for name in times}
        cpu = [times["user"], times["system"]]
        total = None if None in cpu else sum(value for value in cpu if value is not None)
        seconds = (times["user"], times["system"], total, times["real"])
        rows.append([f"{kind} files", *("-" if s is None else f"{s:.3f}" for s in seconds)])
    around = [
        [indented([(heading(key), cell(key, result.facts[key]))])] if key in result.facts else []
        for key in ("threads", "directory_entries")
    ]
    sheet = Sheet(["seconds", "user", "system", "total", "real"], rows)
    return Form(
        [*around[0], *([sheet] if rows else []), *around[1]],
        metrics=frozenset(told),
        facts=frozenset({"threads", "directory_entries", "mode", "block_size_bytes"}),
        headline=("walk.throughput", "walk.read.real"),
    )


def of_sessions(result: StepResult) -> Form:
    """Return pgio's line, as it is: programs look for it; and the sessions' shares."""
    # Not part of a padding or a table: those would cut it at the right edge.
    texts = [whole(clean(text)) for lines in result.printed.values() for text in lines]
    rows = result.tables.get("sessions", ())
    done = [row["operations"] for row in rows if isinstance(row.get("operations"), int)]
    each = f"{show_count(min(done))} to {show_count(max(done))} statements each" if done else ""
    shared = [indented([("sessions", f"{len(done)}, {each}")])] if done else []
    # What a buffered run missed says nothing of it.
    buffered = result.ledger is not None and result.ledger.verdict is Verdict.BUFFERED
    first = "cache_hits" if buffered else "riops"
    return Form(
        [*texts, *shared],
        texts,
        tables=frozenset({"sessions"}),
        facts=frozenset({"memory.kind", "block_size_bytes"}),
        headline=(f"sessions.{first}", "sessions.latency.p50", "sessions.latency.p99"),
    )


def percentiles(latency: Latency) -> str | Flow:
    """Return the percentiles of a histogram in nanoseconds."""
    try:
        read = histogram.decode(latency.payload)
    except ValueError as error:
        return str(error)
    values = read.get_percentile_to_value_dict(_PERCENTILES)
    texts = [f"p{p:g} {show_duration(values.get(p, 0) / 1e9)}" for p in _PERCENTILES]
    texts.append(f"max {show_duration(read.get_max_value() / 1e9)}")
    return Flow([*texts, f"({show_count(latency.operations)} operations)"], "   ")


def group(measurement: Measurement) -> str:
    """Return what a metric shares with its neighbours: `latency` of sessions.latency.p99.9."""
    found = _LEAF.fullmatch(_within(measurement))
    return found["group"] if found else ""


def leaf(measurement: Measurement) -> str:
    """Return the last word of a metric: `p99.9` of sessions.latency.p999 or .p99.9."""
    found = _LEAF.fullmatch(_within(measurement))
    return _CLOSE.sub(r"\1.\2", found["leaf"]) if found else measurement.metric


def _within(measurement: Measurement) -> str:
    """Return a metric without the step that begins it."""
    return measurement.metric.partition(".")[2] or measurement.metric


def of_probe(result: StepResult) -> Form:
    """Return a probe's own tables in full, and the lines of the tool whose job it does."""
    verbatim: list[RenderableType] = []
    for name, texts in result.printed.items():
        verbatim.append(line(clean(name), "dim"))
        verbatim += [whole(clean(text)) for text in texts]
    parts: list[RenderableType] = [*verbatim]
    # Every row of `io` is also one of the probe's own table, where it has one.
    hidden = {"io"} if set(result.tables) - {"io", "cross_check"} else set()
    for name, rows in result.tables.items():
        if rows and name not in hidden:
            parts += [line(clean(name.replace("_", " ")), "dim"), records(rows, first=len(rows))]
    return Form(
        parts,
        verbatim,
        tables=frozenset(result.tables),
    )


def _known(value: object) -> str:
    return "an unknown number of" if value is None else clean(cell("", value))
