"""Memory read and written by numpy in small and large blocks, on one to all cores.

numpy's vector loops process the same block again and again.  A tool whose loop moves a word or a
byte at a time, such as sysbench memory, has other figures, from 0.2 to 5 times these.
"""

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import Field

from replayer.run.probe_context import Parallel, ProbeContext, ProbeSpec
from replayer.storage import reference_tools
from replayer.storage.spin import spin
from replayer.storage.spin_worker import SpinWork
from replayer.units import Duration, Size, show_size

_Block = Annotated[Size, Field(ge=64, le=1 << 30, multiple_of=8)]


class Spec(ProbeSpec):
    """The blocks, the operations on them, and their duration."""

    block_sizes: tuple[_Block, ...] = Field(default=(1 << 10, 1 << 20), min_length=1)
    """Sizes of the block that each process reads or writes, multiples of 8 bytes; one row for
    each."""
    operations: tuple[Literal["read", "write"], ...] = Field(
        default=("read", "write"), min_length=1
    )
    """Reading the block, writing it, or both: one row for each."""
    duration: Duration = Field(default=3.0, gt=0)
    """Seconds for each row."""
    threads: tuple[Parallel, ...] = ()
    """Numbers of processes; one and all cores if not given."""


def run(spec: Spec, context: ProbeContext) -> None:
    """Measure each block size with each operation and each number of processes.

    Each process works on its own block, over and over.
    """
    counts = spec.threads or tuple(sorted({1, context.cores()}))
    for block in spec.block_sizes:
        for operation in spec.operations:
            for many in counts:
                work = SpinWork(kind=operation, seconds=spec.duration, limit=block)
                what = f"{operation} {show_size(block)} {many} processes"
                title = f"{spec.name}: {what}"
                with context.progress.task(title), context.window() as opened:
                    rate = _rate(work, many, opened)
                context.findings.row(
                    "memory",
                    operation=operation,
                    block_bytes=block,
                    processes=many,
                    **{"MiB/s by numpy": rate / (1 << 20)},
                )
                name = f"memory.{operation}.{show_size(block).replace(' ', '')}.processes_{many}"
                context.findings.measure(name, rate, "bytes/s")
                if spec.cross_check:
                    _cross_check(context, what, work, many)
    if spec.cross_check:
        context.findings.note(
            "the cross-check holds numpy's vector loops against sysbench's as compiled, "
            "which may have left reads out: the ratio says little about this machine"
        )
    if spec.clients > 1:
        context.findings.note("several clients are for storage: the memory was measured once")


def _cross_check(context: ProbeContext, what: str, work: SpinWork, many: int) -> None:
    """Run sysbench memory and the probe's own work in turn, and compare the rates.

    `what` names the measurement, and `many` is the number of processes.
    """

    def theirs() -> float:
        return reference_tools.sysbench_memory(
            operation=work.kind, block_size=work.limit, threads=many, seconds=work.seconds
        ) / (1 << 20)

    context.alternate(what, "sysbench", "MiB/s", lambda: _rate(work, many) / (1 << 20), theirs)


def _rate(work: SpinWork, many: int, opened: Callable[[], None] | None = None) -> float:
    result = spin(work, many, opened)
    return result.bytes / result.seconds
