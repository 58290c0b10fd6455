"""Sequential output and input, rewrite, seeks, and many small files (as bonnie++ does)."""

import contextlib
import socket
from dataclasses import dataclass, field

from pydantic import Field

from replayer.machine.host import Host
from replayer.run.probe_context import ProbeContext, ProbeSpec
from replayer.storage import reference_tools
from replayer.storage.io_job import BlockOrder, IoJob, IoTarget, Sync
from replayer.storage.io_run import IoRun
from replayer.storage.metadata import Entries, Handled, handle
from replayer.units import Duration, Size
from replayer.watch.histogram import Latencies

ON_DEVICE = False
_VERSION = "1.98"
_FILES_UNIT = 1024
_PHASES = ("putc", "put_block", "rewrite", "getc", "get_block", "seeks")
_VERBS = ("create", "stat", "delete")


class Spec(ProbeSpec):
    """bonnie++'s own parameters."""

    size: Size | None = Field(default=None, ge=1 << 20)
    """Size of each client's file; twice the memory if not given, so that the cache cannot hold
    it."""
    chunk: Size = Field(default=8192, ge=512, le=16 << 20)
    """Bytes of each block."""
    files: int = Field(default=16, ge=0, le=10_000)
    """Files to create, look up and delete, in units of 1024; 0 for none."""
    seekers: int = Field(default=5, ge=1, le=1024)
    """Threads that seek at a time."""
    seeks: int = Field(default=8192, ge=1)
    """Seeks of all seekers together; one block in ten is written back."""
    per_char: Duration = Field(default=3.0, ge=0)
    """Seconds of output and input a byte at a time; 0 for none."""


@dataclass
class _Line:
    """One client's results for the table; `values` is phase -> (rate, percent of CPU, latencies).

    The rate is in KiB/s, for seeks in seeks/s, and for many small files in files/s.
    """

    size: int
    values: dict[str, tuple[float, float, Latencies]] = field(default_factory=dict)


def needs(spec: Spec, host: Host) -> int:
    """Return the size of one client's file, in bytes."""
    return spec.size or 2 * host.memory_bytes()


def run(spec: Spec, context: ProbeContext) -> None:
    """Run every phase that `spec` asks for, and add bonnie++'s table of these phases."""
    size = needs(spec, context.host)
    if size < 2 * context.host.memory_bytes():
        context.findings.note(
            "the file is smaller than twice the memory, so that input and seeks may come from the "
            "page cache: leave the size out to have it right"
        )
        if spec.cross_check:
            context.findings.note(
                "of a file that fits into memory the cross-check tells mostly what each program "
                "costs the processor"
            )
    targets = context.files("bonnie", 1, size, block_size=spec.chunk, filled=False, direct=False)
    lines = [_Line(size) for _ in targets]
    total = _Line(size)
    try:
        _blocks(spec, context, targets, lines, total)
        for target in targets:
            context.workspace.forget(target)
        if spec.files:
            _entries(spec, context, lines, total)
    finally:
        _print(spec, context, lines, total)
    if spec.cross_check:
        _cross_check(spec, context, size)


def _blocks(
    spec: Spec, context: ProbeContext, targets: list[IoTarget], lines: list[_Line], total: _Line
) -> None:
    """Run the phases on one large file for each client: single bytes, blocks and seeks.

    The results are added to `lines` and `total`.
    """
    for phase in _PHASES:
        job = _job(spec, phase, targets[0].file_bytes)
        if job is None:
            continue
        context.drop(targets)
        io = context.run_io(f"{spec.name}: {phase}", [job], targets)
        if phase == "putc":
            for target in targets:
                context.workspace.empty(target)
        for line, results in zip(lines, io.by_client, strict=True):
            result = results[0]
            rate = result.iops if phase == "seeks" else result.throughput / 1024
            line.values[phase] = (rate, _percent(io, len(lines)), result.latencies)
        _add(context, total, phase, io)


def _add(context: ProbeContext, total: _Line, phase: str, io: IoRun) -> None:
    result = io.of()
    rate = result.iops if phase == "seeks" else result.throughput / 1024
    total.values[phase] = (rate, _percent(io, 1), result.latencies)
    if phase == "seeks":
        context.findings.measure("bonnie.seeks", rate, "seeks/s")
    else:
        context.findings.measure(f"bonnie.{phase}", result.throughput, "bytes/s")


def _percent(io: IoRun, clients: int) -> float:
    """Return the processor time of a phase per client, as a percentage of the phase's duration."""
    result = io.of()
    return 100 * (io.user_seconds + io.system_seconds) / result.seconds / clients


def _job(spec: Spec, phase: str, size: int) -> IoJob | None:
    """Return the I/O job of a phase; None if `spec` does not ask for this phase."""
    name = f"{spec.name}: {phase}"
    blocks = size // spec.chunk
    if phase in {"putc", "getc"}:
        if not spec.per_char:
            return None
        return IoJob(
            name=name,
            threads=1,
            block_size=1,
            access=BlockOrder.SEQUENTIAL,
            read_share=float(phase == "getc"),
            direct=False,
            seconds=spec.per_char,
            seed=spec.seed,
        )
    if phase == "seeks":
        return IoJob(
            name=name,
            threads=spec.seekers,
            block_size=spec.chunk,
            read_share=0.9,
            rewrite=True,
            direct=False,
            operations=spec.seeks,
            seed=spec.seed,
        )
    writes = phase != "get_block"
    return IoJob(
        name=name,
        threads=1,
        block_size=spec.chunk,
        access=BlockOrder.SEQUENTIAL,
        read_share=0.0 if writes else 1.0,
        rewrite=phase == "rewrite",
        finish=Sync.FSYNC if writes else Sync.NONE,
        direct=False,
        operations=blocks,
        seed=spec.seed,
    )


def _entries(spec: Spec, context: ProbeContext, lines: list[_Line], total: _Line) -> None:
    """Create, look up and delete many files in sequential, then in random order.

    The results are added to `lines` and `total`.
    """
    many = spec.files * _FILES_UNIT
    for order in ("seq", "ran"):
        clients = []
        for client in range(len(lines)):
            folder = context.folder / f"{order}-{client}"
            folder.mkdir()
            clients.append(Entries(str(folder), many, order == "ran", spec.seed + client))
        for verb in _VERBS:
            title = f"{spec.name}: {verb} {many} files, {order}"
            with context.progress.task(title), context.window() as opened:
                handled = handle(verb, clients, opened)
            _keep(context, lines, total, f"{order}_{verb}", handled)


def _keep(
    context: ProbeContext, lines: list[_Line], total: _Line, phase: str, handled: Handled
) -> None:
    for line, rate in zip(lines, handled.by_client, strict=True):
        line.values[phase] = (rate, handled.cpu_percent / len(lines), handled.latencies)
    rate = handled.operations / handled.seconds
    total.values[phase] = (rate, handled.cpu_percent, handled.latencies)
    context.findings.measure(f"bonnie.{phase}", rate, "files/s")


def _print(spec: Spec, context: ProbeContext, lines: list[_Line], total: _Line) -> None:
    """Add bonnie++'s table and CSV line to the findings: for each client, and for all together."""
    host = socket.gethostname().partition(".")[0]
    for client, line in enumerate(lines, 1):
        name = host if len(lines) == 1 else f"{host}.{client}"
        context.findings.lines(
            f"table {client}" if len(lines) > 1 else "table", _table(spec, name, line)
        )
        context.findings.lines(
            f"csv {client}" if len(lines) > 1 else "csv", [_csv(spec, name, line)]
        )
    if len(lines) > 1:
        context.findings.lines("table all", _table(spec, f"{host}.all", total))
        context.findings.lines("csv all", [_csv(spec, f"{host}.all", total)])


def _table(spec: Spec, name: str, line: _Line) -> list[str]:
    """Return one client's results as the lines of bonnie++'s table."""
    indent = " " * 20
    version = f"Version {_VERSION}"
    rows = [
        f"{version:<20}------Sequential Output------ --Sequential Input- --Random-",
        f"{indent}-Per Chr- --Block-- -Rewrite- -Per Chr- --Block-- --Seeks--",
        f"{'Name:Size etc':<20}" + " /sec %CP " * 5 + " /sec %CP",
        f"{name[:14]:<14}{_mib(line.size):>5} " + " ".join(_pair(line, p) for p in _PHASES),
        f"{'Latency':<20}" + " ".join(f"{_latency(line, p):>9}" for p in _PHASES),
    ]
    if spec.files:
        both = [f"{order}_{verb}" for order in ("seq", "ran") for verb in _VERBS]
        rows += [
            f"{version:<20}------Sequential Create------ --------Random Create--------",
            f"{name[:18]:<20}-Create-- --Stat--- -Delete-- -Create-- --Stat--- -Delete--",
            f"{'files':>19} " + " /sec %CP " * 5 + " /sec %CP",
            f"{spec.files:>19} " + " ".join(_pair(line, p, of_files=True) for p in both),
            f"{'Latency':<20}" + " ".join(f"{_latency(line, p):>9}" for p in both),
        ]
    return rows


def _pair(line: _Line, phase: str, *, of_files: bool = False) -> str:
    """Return a phase's rate in five characters and its %CP in three, in bonnie++'s format."""
    if phase not in line.values:
        return f"{'':>5} {'':>3}"
    rate, percent, _ = line.values[phase]
    if of_files or phase == "seeks":
        shown = f"{rate:.0f}" if rate < 99_999 else f"{rate / 1e3:.0f}k"
        return f"{shown:>5} {percent:>3.0f}"
    return f"{_kib(rate):>5} {percent:>3.0f}"


def _kib(rate: float) -> str:
    """Return a rate in KiB/s in bonnie++'s format, such as 2044k (KiB/s) or 358m (MiB/s)."""
    return f"{rate:.0f}k" if rate < 9999 else f"{rate / 1024:.0f}m"


def _mib(size: int) -> str:
    return f"{size >> 30}G" if size >= 10 << 30 else f"{size >> 20}M"


def _latency(line: _Line, phase: str) -> str:
    """Return a phase's longest latency in bonnie++'s format, such as 512us; "" if not run."""
    if phase not in line.values:
        return ""
    us = line.values[phase][2].most_ns / 1e3
    for limit, factor, unit in ((99_999, 1, "us"), (99_999_000, 1e3, "ms")):
        if us < limit:
            return f"{us / factor:.0f}{unit}"
    return f"{us / 1e6:.0f}s"


def _csv(spec: Spec, name: str, line: _Line) -> str:
    """Return a client's results in bonnie++'s CSV format 1.98; phases not run are empty."""
    verbs = [f"{order}_{verb}" for order in ("seq", "ran") for verb in _VERBS]
    head = [
        _VERSION, f"replayer {_VERSION}", name, "1", str(spec.seed), _mib(line.size), "",
        str(spec.chunk), str(spec.seekers),
    ]  # fmt: skip
    shape = [str(spec.files or ""), "", "", "", ""]
    blocks, files = ([_csv_pair(line, p) for p in group] for group in (_PHASES, verbs))
    latencies = [_latency(line, phase) for phase in (*_PHASES, *verbs)]
    return ",".join([*head, *blocks, *shape, *files, *latencies])


def _csv_pair(line: _Line, phase: str) -> str:
    if phase not in line.values:
        return ","
    rate, percent, _ = line.values[phase]
    return f"{rate:.0f},{percent:.0f}"


def _cross_check(spec: Spec, context: ProbeContext, size: int) -> None:
    """Run the block phases by bonnie++ and by replayer, in turn, and compare the results."""
    folder = context.folder / "peer"
    folder.mkdir()
    ours: dict[str, list[float]] = {}
    theirs: dict[str, list[float]] = {}
    phases = ("put_block", "rewrite", "get_block")
    if reference_tools.installed("bonnie++") is None:
        context.findings.note("cross-check skipped: bonnie++ is not installed")
        return
    for _ in range(2):
        target, *_ = context.files(
            "check", 1, size, block_size=spec.chunk, filled=False, direct=False
        )
        for phase in phases:
            job = _job(spec, phase, size)
            assert job is not None
            # The page cache is not dropped here: bonnie++ does not drop it either.
            io = context.run_io(f"{spec.name}: {phase}", [job], [target])
            ours.setdefault(phase, []).append(io.of().throughput / 1024)
        context.workspace.forget(target)
        fields = reference_tools.bonnie(folder, size=size, chunk=spec.chunk, files=0)
        for phase in phases:
            with contextlib.suppress(ValueError):  # +++++: too short for bonnie++ to trust
                theirs.setdefault(phase, []).append(float(fields[phase]))
    for phase in phases:
        if not theirs[phase]:
            context.findings.note(
                f"bonnie++ finds {phase} too short to measure: ask for a larger size"
            )
            continue
        context.compared(phase, "bonnie++", "KiB/s", ours[phase], theirs[phase])
