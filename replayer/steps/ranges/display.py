"""Display of the step `ranges`: ranges per second, the origin of their data, and their latency."""

from replayer.model import ReadOrigin, StepResult
from replayer.run.display import Brief, Form
from replayer.units import show_duration, show_rate, show_size

_SOURCES = {
    ReadOrigin.BUFFERED: " from the engine's buffers",
    ReadOrigin.CACHED: " from memory",
    ReadOrigin.PHYSICAL: " from the disk",
    ReadOrigin.MIXED: " from memory and disk",
}
_GLOSSES = {
    "ranges.completed": "ranges answered within the window",
    "ranges.asked_bytes": "that the server asked the kernel for, each range",
    "ranges.device_bytes": "of them from the device",
    "ranges.server_cpu": "of the server's processes, each range",
    "ranges.client_cpu": "of replayer's side of the sessions, each range",
    "ranges.path": "an empty statement, by the same kind of session",
}


def form(result: StepResult) -> Form:
    """Return a form with explanations of the metrics and a summary, but without special lines.

    The report lists all results of the step as usual.
    """
    return Form(
        headline=("ranges.completed", "ranges.service.p50", "ranges.service.p99"),
        facts=frozenset({"reads.kind"}),
        glosses=_GLOSSES,
        brief=_brief(result),
    )


def _brief(result: StepResult) -> Brief:
    got = result.ledger.verdict if result.ledger is not None else ReadOrigin.UNKNOWN
    source = _SOURCES.get(got, "")
    rate, unit = result.value("ranges.completed"), result.spec.get("work_unit")
    did = f"ranges of {unit} rows{source}"
    if rate is None:
        return Brief(did)
    shown = f"{show_rate(rate)} ranges/s"
    high = result.value("ranges.service.p99")
    results = [shown, *([] if high is None else [f"p99 {show_duration(high)}"])]
    moved = result.value("ranges.device_bytes")
    proof = "" if moved is None else f"{show_size(round(moved))} a range from disk"
    return Brief(did, results, proof, subject="Sessions read", clause=f"{shown}{source}")
