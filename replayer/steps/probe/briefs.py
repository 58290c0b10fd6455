"""A probe in one line: what it did and its results in plain words, for each kind of probe.

The results are taken from the measurements, which a report on several repeats replaces by medians.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from replayer.model import StepResult
from replayer.run.display import Brief
from replayer.units import show, show_duration, show_size

_MOST = 5
"""The most results that are shown; of more, those in the middle are left to the details."""
_FIRST_CACHE = 32 << 10
"""Blocks up to this size stay in the first cache of the processors that run databases."""
_MODES = {
    "seqwr": "sequential writes",
    "seqrd": "sequential reads",
    "rndrd": "random reads",
    "rndwr": "random writes",
    "rndrw": "random reads and writes",
}
_PHASES = {
    "put_block": ("written at ", "bytes/s"),
    "rewrite": ("rewritten at ", "bytes/s"),
    "get_block": ("read at ", "bytes/s"),
    "seeks": ("", "seeks/s"),
}
_OPERATIONS = {"read": "reads", "write": "writes", "mixed": "reads and writes"}


def brief(result: StepResult) -> Brief:
    """Return a probe's result in one line; without results if nothing was measured."""
    words = _OF.get(str(result.spec.get("probe")).replace("-", "_"))
    if words is None:
        return Brief()
    did, results = words(result)
    if len(results) > _MOST:
        results = (*results[: _MOST - 1], results[-1])
    return Brief(
        did,
        results,
        subject=f"{result.name}:" if results else "",
        clause="; ".join(results),
    )


def headline(result: StepResult) -> Sequence[str]:
    """Return the metrics of a probe that the end of a report repeats; none for the usual ones."""
    counts = [str(count) for count in _counts(result, "cpu.events.processes_")]
    if len(counts) > 1:
        return (
            *(f"cpu.events.processes_{count}" for count in (counts[0], counts[-1])),
            f"cpu.scaling.processes_{counts[-1]}",
        )
    return ()


_Words = tuple[str, Sequence[str]]
"""The work of a probe, and its results."""


def _counts(result: StepResult, prefix: str) -> list[int]:
    """Return the numbers that end the names of the metrics that begin with `prefix`, sorted."""
    ends = (
        m.metric.removeprefix(prefix) for m in result.measurements if m.metric.startswith(prefix)
    )
    return sorted(int(end) for end in ends if end.isdecimal())


def _processes(count: int) -> str:
    return f"{count} process{'es' * (count != 1)}"


def _cpu(result: StepResult) -> _Words:
    counts = _counts(result, "cpu.events.processes_")
    results = []
    for place, count in enumerate(counts):
        rate = result.value(f"cpu.events.processes_{count}")
        scaling = result.value(f"cpu.scaling.processes_{count}")
        if rate is not None:
            grown = f", scaling {scaling:.2f}" if place and scaling is not None else ""
            results.append(f"{_processes(count)} {show(rate, 'passes/s')}{grown}")
    return "integer divisions", results


def _memory(result: StepResult) -> _Words:
    """Return the rates in blocks of each size, of the most processes that were measured."""
    rows = result.tables.get("memory", ())
    count = max((int(row["processes"]) for row in rows), default=0)
    results = [
        f"{show_size(size).replace('.00', '')} blocks{_where(size)}: {', '.join(moved)}"
        for size in dict.fromkeys(int(row["block_bytes"]) for row in rows)
        if (moved := list(_moved(result, size, count)))
    ]
    return f"memory, {_processes(count)}", results


def _where(size: int) -> str:
    return " (first cache)" if size <= _FIRST_CACHE else " (beyond the first cache)"


def _moved(result: StepResult, size: int, count: int) -> Iterator[str]:
    shown = show_size(size).replace(" ", "")
    for operation in ("read", "write"):
        rate = result.value(f"memory.{operation}.{shown}.processes_{count}")
        if rate is not None:
            yield f"{operation} {show(rate, 'bytes/s')}"


def _work(result: StepResult) -> str:
    """Return the reads and writes of a probe's first row in words: `4 KiB random reads`."""
    row: Mapping[str, object] = next(iter(result.tables.get("io", ())), {})
    if not row:
        return ""
    size = show_size(float(str(row["block_bytes"]))).replace(".00", "")
    kind = _OPERATIONS.get(str(row["operation"]), "")
    return f"{size} {row['access']} {kind}, depth {row['depth']}"


def _ioping(result: StepResult) -> _Words:
    mean, p99 = (result.value(f"ioping.latency.{name}") for name in ("avg", "p99"))
    if mean is None:
        return _work(result), ()
    tail = [] if p99 is None else [f"p99 {show_duration(p99)}"]
    return _work(result), [f"{show_duration(mean)} on average", *tail]


def _io(result: StepResult) -> _Words:
    rate, p99 = result.value("io.iops"), result.value("io.latency.p99")
    if rate is None:
        return _work(result), ()
    tail = [] if p99 is None else [f"p99 {show_duration(p99)}"]
    return _work(result), [show(rate, "IOPS"), *tail]


def _pg_fsync(result: StepResult) -> _Words:
    rates = (
        (m.metric.removeprefix("pg_fsync."), m.value)
        for m in result.measurements
        if m.metric.startswith("pg_fsync.")
    )
    return "writes, each brought to the disk", [
        f"{method} {show(rate, 'writes/s')}" for method, rate in rates
    ]


def _dd_dsync(result: StepResult) -> _Words:
    done = {"write": "written at", "read": "read back at"}
    rates = ((done[one], result.value(f"dd_dsync.{one}.throughput")) for one in done)
    return "a file with O_DSYNC", [
        f"{words} {show(rate, 'bytes/s')}" for words, rate in rates if rate is not None
    ]


def _orion(result: StepResult) -> _Words:
    small, large = (
        result.value(f"orion.{name}") for name in ("max_small_iops", "max_large_throughput")
    )
    results = [] if small is None else [f"small at most {show(small, 'IOPS')}"]
    if large is not None:
        results.append(f"large at most {show(large, 'bytes/s')}")
    return "small and large requests", results


def _sysbench_fileio(result: StepResult) -> _Words:
    """Return the highest throughput of each mode, of all sizes and numbers of threads."""
    best: dict[str, float] = {}
    for one in result.measurements:
        mode = one.metric.removeprefix("sysbench_fileio.").partition(".")[0]
        best[mode] = max(best.get(mode, 0.0), one.value)
    return "modes by numbers of threads", [
        f"{words} at most {show(best[mode], 'bytes/s')}"
        for mode, words in _MODES.items()
        if mode in best
    ]


def _bonnie(result: StepResult) -> _Words:
    rates = (
        (words, unit, result.value(f"bonnie.{phase}")) for phase, (words, unit) in _PHASES.items()
    )
    return "one large file, then many small ones", [
        f"{words}{show(rate, unit)}" for words, unit, rate in rates if rate is not None
    ]


_OF: Mapping[str, Callable[[StepResult], _Words]] = {
    "bonnie": _bonnie,
    "cpu": _cpu,
    "dd_dsync": _dd_dsync,
    "io": _io,
    "ioping": _ioping,
    "memory": _memory,
    "orion": _orion,
    "pg_fsync": _pg_fsync,
    "sysbench_fileio": _sysbench_fileio,
}
