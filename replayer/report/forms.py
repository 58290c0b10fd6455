"""The forms in which people know a step's numbers: measure_reads's table, pgio's line.

A function with a step's name returns its form; a step without one is shown as everything else is.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import RenderableType

from replayer.model import Latency, Measurement, StepResult
from replayer.report.tables import Flow, Sheet, indented, whole
from replayer.report.words import clean
from replayer.units import show_count, show_duration

_LEAF = re.compile(r"(?P<group>.*?)\.?(?P<leaf>p\d+(?:\.\d+)?|[^.]+)")
_CLOSE = re.compile(r"^(p\d\d)(\d+)$")
_PERCENTILES = (50, 95, 99, 99.9)


@dataclass(frozen=True)
class Form:
    """What is shown first of a result, and which of its contents that already tells."""

    parts: Sequence[RenderableType] = ()
    verbatim: Sequence[RenderableType] = ()
    """Lines that programs look for, shown for every repeat too."""
    metrics: frozenset[str] = frozenset()
    tables: frozenset[str] = frozenset()
    facts: frozenset[str] = frozenset()


def of(result: StepResult) -> Form:
    """Return the form of a result: its step's own, or an empty one."""
    form = globals().get(f"of_{result.step}")
    found: Form = form(result) if form else Form()
    return found


def of_build(result: StepResult) -> Form:
    """Return the last doubling, which is the CPU benchmark, with what the server used for it."""
    seconds = result.value("build.last_doubling")
    if seconds is None:
        return Form()
    words = [show_duration(seconds)]
    told = {f"last_doubling.server_{kind}": kind for kind in ("user", "system")}
    for key, kind in told.items():
        used = result.facts.get(key)
        if isinstance(used, int | float):
            words.append(f"{kind} {show_duration(used)}")
    parts = [indented([("last doubling", Flow(words, "   "))])]
    return Form(parts, metrics=frozenset({"build.last_doubling"}), facts=frozenset(told))


def of_walk(result: StepResult) -> Form:
    """Return the times of listing and reading as measure_reads prints them."""
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
    sheet = Sheet(["seconds of", "user", "system", "total", "real"], rows)
    return Form(parts=[sheet] if rows else [], metrics=frozenset(told))


def of_sessions(result: StepResult) -> Form:
    """Return pgio's line, as it is: programs look for it; and the sessions' shares."""
    found = {key: text for key, text in result.facts.items() if _is_pgio(text)}
    # Not part of a padding or a table: those would cut it at the right edge.
    texts = [whole(clean(text)) for text in found.values()]
    rows = result.tables.get("sessions", ())
    done = [row["operations"] for row in rows if isinstance(row.get("operations"), int)]
    each = f"{show_count(min(done))} to {show_count(max(done))} statements each" if done else ""
    shared = [indented([("sessions", f"{len(done)}, {each}")])] if done else []
    return Form([*texts, *shared], texts, facts=frozenset(found), tables=frozenset({"sessions"}))


def percentiles(latency: Latency) -> str | Flow:
    """Return the percentiles of a histogram in nanoseconds."""
    from hdrh.histogram import HdrHistogram

    try:
        read = HdrHistogram.decode(latency.payload)
    except Exception:  # noqa: BLE001 - the library raises whatever its parts do
        return "the histogram cannot be read"
    told = [f"p{p:g} {show_duration(read.get_value_at_percentile(p) / 1e9)}" for p in _PERCENTILES]
    told.append(f"max {show_duration(read.get_max_value() / 1e9)}")
    return Flow([*told, f"({show_count(latency.operations)} operations)"], "   ")


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


def _is_pgio(text: object) -> bool:
    return isinstance(text, str) and text.startswith("DBNAME:")
