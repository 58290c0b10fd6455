"""Measure the share of blocks that the server finds in its buffers, for several sizes of these.

The same load runs on the server with buffers of each size, until the share of blocks found no
longer changes.  The curve shows what more memory would gain, or what less memory would cost.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from replayer.engines.connection import Database
from replayer.errors import Skip
from replayer.load.level import LevelRequest, LevelResult, measure_level
from replayer.load.spec import check_load, ready
from replayer.model import Better
from replayer.run.context import Context
from replayer.run.step_plugin import Footprint
from replayer.steps.buffers.spec import Spec
from replayer.units import show_size

HAS_WINDOW = False
"""Every size of the buffers has measured windows, so the step as a whole has none."""
_STILL = 0.01
"""Buffers count as full if the share of missed blocks falls little from window to window.

The share may fall by at most this part of its value in the window before."""


def footprint(spec: Spec, block_size: int) -> Footprint:
    """Return the bytes of the tables that the statements work on: on disk, and kept in memory.

    `block_size` is the size of the database's blocks in bytes.
    """
    return spec.footprint(block_size)


def check(spec: Spec, context: Context) -> None:
    """Raise Impossible for tables of unsuitable size.

    Raise Skip if the engine lacks a feature, or if replayer cannot set the server's buffers.
    """
    check_load(spec, context)
    if not context.server.can_stop or context.engine.spec.sessions.buffers is None:
        raise Skip("the size of the server's buffers is not replayer's to set")


def run(spec: Spec, context: Context) -> None:
    """Run the load with each size of the server's buffers, and record the share of blocks found."""
    check(spec, context)
    for size in sorted(set(spec.sizes)):
        sized = spec.model_copy(update={"shared_buffers": size})
        with ready(sized, spec.sessions, context, rate=spec.rate) as (database, plain):
            asked = replace(
                plain, rate=spec.rate, sessions=spec.sessions, title=f"buffers of {show_size(size)}"
            )
            _measure(spec, asked, size, context, database)


def _measure(
    spec: Spec, asked: LevelRequest, size: int, context: Context, database: Database
) -> None:
    """Measure one size of the buffers in one measured window after the other; record the last one.

    `size` is in bytes, `asked` is the load.  Stop when the share of blocks found no longer changes,
    or when the seconds of the key `longest` have passed.
    """
    seconds, before = 0.0, 1.0
    for level in _levels(spec, asked, context, database):
        seconds += level.seconds
        missed = 1 - (level.hit_ratio or 0.0)
        full = seconds > level.seconds and before - missed <= _STILL * max(before, _STILL)
        if full or seconds >= spec.longest:
            break
        before = missed
    device = level.use.device
    context.findings.row(
        "buffers",
        buffers_bytes=size,
        hit_share=round(1 - missed, 6),
        completed_per_second=round(level.completed, 3),
        device_reads_per_second=(
            None if device is None else round(device.reads / max(1e-9, device.seconds), 3)
        ),
        seconds=round(seconds, 3),
        full=full,
    )
    name = f"buffers.hit_ratio.{show_size(size).replace(' ', '')}"
    context.findings.measure(name, 100 * (1 - missed), "%", Better.NEITHER)
    if not full:
        context.findings.note(
            f"buffers of {show_size(size)} were still filling after {seconds:.0f} s: more would be "
            f"found in them later, set longest higher"
        )


def _levels(
    spec: Spec, asked: LevelRequest, context: Context, database: Database
) -> Iterator[LevelResult]:
    for number in count(1):
        yield measure_level(replace(asked, seconds=spec.window).drawn(number), context, database)
