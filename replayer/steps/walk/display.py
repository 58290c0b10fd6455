"""Display of a walk (reading all files of a table): threads, seconds and directory entries.

The form is that of MemSQL's script measure_reads.rb.
"""

from collections.abc import Iterator, Sequence
from statistics import median

from replayer.model import StepResult, Temperature
from replayer.run.display import (
    Brief,
    Chart,
    ChartTrace,
    Form,
    OneFact,
    Part,
    Results,
    Sentence,
    TableRows,
    Tone,
)
from replayer.steps.walk.unstored import kind_of_unstored, unstored_bytes
from replayer.units import show, show_count, show_size

_TIMES = ("user", "system", "real")
_PHASES = ("list", "read")
_SOURCES = {
    Temperature.COLD: " from a cold disk",
    Temperature.LUKEWARM: " partly from memory",
    Temperature.HOT: " from memory",
}
_GLOSSES = {
    "walk.throughput": "file bytes over the real time of reading",
    "walk.iops": "reads of the walk; the device's are below",
}


def form(result: StepResult) -> Form:
    """Return the lines of a report on a walk, with the table that measure_reads.rb prints.

    The rows of the table are the listing and the reading of files; its columns are CPU and elapsed
    seconds.
    """
    rows, metrics = [], set()
    for phase in _PHASES:
        times = {name: result.value(f"walk.{phase}.{name}") for name in _TIMES}
        if times["real"] is None:
            continue
        metrics |= {f"walk.{phase}.{name}" for name in times}
        cpu = [times["user"], times["system"]]
        total = None if None in cpu else sum(value for value in cpu if value is not None)
        seconds = (times["user"], times["system"], total, times["real"])
        rows.append([f"{phase} files", *("-" if s is None else f"{s:.3f}" for s in seconds)])
    table = TableRows(["seconds", "user", "system", "total", "real"], rows)
    parts: list[Part] = [OneFact("threads"), table, OneFact("directory_entries")]
    return Form(
        [*parts, *_doubt(result)],
        metrics=frozenset(metrics),
        facts=frozenset({"threads", "directory_entries", "mode", "block_size_bytes"}),
        headline=("walk.throughput", "walk.read.real"),
        glosses=_GLOSSES,
        brief=_brief(result),
    )


def _brief(result: StepResult) -> Brief:
    files, size, rate = (result.value(f"walk.{name}") for name in ("files", "bytes", "throughput"))
    threads = result.facts.get("threads")
    words = [
        "" if files is None else f"{show_count(files)} file{'s' * (files != 1)}",
        f"{threads} thread{'s' * (threads != 1)}" if threads else "",
        "" if result.cold is None else result.cold.got.value,
    ]
    did = ", ".join(filter(None, words))
    if rate is None or size is None:
        return Brief(did)
    source = _SOURCES.get(result.cold.got if result.cold else Temperature.UNKNOWN, "")
    shown = show(rate, "bytes/s")
    unstored = _unstored(result)
    if unstored:
        source = f", of which {unstored},"
    proof = "not the disk's rate" if unstored else ""
    clause = f"{show_size(size)}{source} at {shown}"
    return Brief(did, [shown], proof, subject="Read", clause=clause)


def _doubt(result: StepResult) -> Iterator[Part]:
    """Yield a sentence if the rate of a cold walk counts bytes that no disk stores."""
    unstored, size = _unstored(result), result.value("walk.bytes")
    if unstored and size is not None:
        text = f"NOT THE DISK'S RATE: of {show_size(size)} read, {unstored}, which no disk reads"
        yield Sentence(text, Tone.BAD)


def _unstored(result: StepResult) -> str:
    """Return how many bytes of a cold walk no disk stores, such as `1.48 GiB are holes`.

    Returns "" if they are few.
    """
    cold = result.cold
    unstored = unstored_bytes(cold, result.value("walk.bytes") or 0.0)
    return f"{show_size(unstored)} are {kind_of_unstored(cold)}" if cold and unstored else ""


def charts(sides: Sequence[Results]) -> Iterator[Chart]:
    """Yield one chart with the CPU and elapsed seconds of listing and of reading the files.

    The values are medians over the repeats, for each of the compared `sides`.  Nothing is yielded
    if no side has values.
    """
    traces = [
        ChartTrace(number, "bar", x=list(seconds), y=list(seconds.values()))
        for number, results in enumerate(sides)
        if (seconds := _seconds(results))
    ]
    if traces:
        yield Chart("walk", "walk: seconds, medians of the repeats", traces, y="s")


def _seconds(results: Results) -> dict[str, float]:
    values = {
        f"{phase} {name}": [
            value
            for _, result in results
            if (value := result.value(f"walk.{phase}.{name}")) is not None
        ]
        for phase in _PHASES
        for name in _TIMES
    }
    return {title: median(numbers) for title, numbers in values.items() if numbers}
