"""Measure the share of blocks that the server finds in its buffers, for several sizes of these.

The same load runs on the server with buffers of each size, until they are full and the share of
blocks found no longer changes.  The curve shows what more memory would gain, or what less memory
would cost.
"""

from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import count

from replayer.engines.connection import Database
from replayer.errors import Impossible, ReplayerError, Skip
from replayer.load.level import LevelRequest, LevelResult, measure_level
from replayer.load.spec import ServerBuffers, check_load, ready
from replayer.model import Better
from replayer.run.context import Context
from replayer.run.step_plugin import Footprint
from replayer.steps.buffers.filling import BlockCounts, BufferFilling
from replayer.steps.buffers.spec import Spec
from replayer.units import show_size, write_size
from replayer.watch import interference

HAS_WINDOW = False
"""Every size of the buffers has measured windows, so the step as a whole has none."""


def footprint(spec: Spec, block_size: int) -> Footprint:
    """Return the bytes of the tables that the statements work on: on disk, and kept in memory.

    `block_size` is the size of the database's blocks in bytes.
    """
    return spec.footprint(block_size)


def check(spec: Spec, context: Context) -> None:
    """Raise Impossible for tables of unsuitable size, and for buffers with which no server works.

    Raise Skip if the engine lacks a feature, or if replayer cannot set the server's buffers.
    """
    check_load(spec, context)
    keys = context.engine.spec.sessions.buffers
    if not context.server.can_stop or keys is None:
        raise Skip("the size of the server's buffers is not replayer's to set")
    if min(spec.sizes) < keys.least:
        raise Impossible(
            f"sizes has {write_size(min(spec.sizes))}, and {context.engine.title} needs buffers of "
            f"{write_size(keys.least)}: leave out what is smaller"
        )


def run(spec: Spec, context: Context) -> None:
    """Run the load with each size of the server's buffers, and record the share of blocks found."""
    check(spec, context)
    measured: set[int] = set()
    for size in sorted(set(spec.sizes)):
        sized = spec.model_copy(update={"shared_buffers": size})
        with ready(sized, spec.sessions, context, rate=spec.rate) as (database, plain, buffers):
            held = _size_held(size, buffers, measured, context)
            if held in measured:
                continue
            measured.add(held)
            asked = replace(
                plain, rate=spec.rate, sessions=spec.sessions, title=f"buffers of {show_size(held)}"
            )
            filling = BufferFilling(held // context.engine.block_size, buffers.filled)
            level = _measure(spec, asked, filling, context, database)
            _record(held, level, filling, context)


def _size_held(
    size: int, buffers: ServerBuffers, measured: Collection[int], context: Context
) -> int:
    """Return the bytes of the server's buffers, with a note if they are not the `size` asked for.

    `measured` are the sizes before.  Raises ReplayerError if the server does not show its size.
    """
    held = buffers.bytes
    if held is None:
        raise ReplayerError(
            f"buffers of {write_size(size)} were asked for, and the server does not show its size: "
            f"no share of blocks is known for it"
        )
    if held != size:
        once = ", which were measured already" if held in measured else ""
        context.findings.note(
            f"for buffers of {write_size(size)}, the server made some of {write_size(held)}{once}"
        )
    return held


def _measure(
    spec: Spec, asked: LevelRequest, filling: BufferFilling, context: Context, database: Database
) -> LevelResult:
    """Measure one window of the load `asked` after the other, and return the last one.

    Stop when the buffers are full, or when the seconds of the key `longest` have passed.  `filling`
    counts the blocks of all windows.
    """
    seconds = 0.0
    for level in _levels(spec, asked, context, database):
        filling.add(BlockCounts(level.activity.hits, level.activity.reads, level.seconds))
        windows = [one for one in (context.findings.foreign, level.use.foreign) if one]
        context.findings.foreign = interference.busiest(windows) if windows else None
        seconds += level.seconds
        if filling.full or seconds >= spec.longest:
            return level
    raise AssertionError


def _record(size: int, level: LevelResult, filling: BufferFilling, context: Context) -> None:
    """Record the share of blocks found in buffers of `size` bytes, and `level`, the last window."""
    device, share, doubt = level.use.device, filling.hit_share, filling.doubt()
    context.findings.row(
        "buffers",
        buffers_bytes=size,
        hit_share=None if share is None else round(share, 6),
        completed_per_second=round(level.completed, 3),
        device_reads_per_second=(
            None if device is None else round(device.reads / max(1e-9, device.seconds), 3)
        ),
        seconds=round(filling.seconds, 3),
        full=not doubt,
        doubt=doubt,
    )
    if share is not None:
        name = f"buffers.hit_ratio.{show_size(size).replace(' ', '')}"
        context.findings.measure(name, 100 * share, "%", Better.NEITHER)


def _levels(
    spec: Spec, asked: LevelRequest, context: Context, database: Database
) -> Iterator[LevelResult]:
    for number in count(1):
        yield measure_level(replace(asked, seconds=spec.window).drawn(number), context, database)
