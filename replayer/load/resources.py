"""Use and limit of each resource at a level of load, and the queues of its sessions.

This module turns levels into the points of analysis/capacity/saturation.py.  A device's %util does
not show its capacity: %util is the share of time with any request under way, and a device that
works on many requests at a time is not fully busy then.  So the capacity of a device is a limit of
the server's cgroup, a value in the workload file, or the rate that a probe of the same run reached.
Without any of these it is not known.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from replayer.analysis.capacity.saturation import LevelPoint, ResourceUse, WaitReason
from replayer.engines.connection import Database
from replayer.lazy_import import Later
from replayer.load.machine_usage import Granted, MachineUse
from replayer.machine import cgroups
from replayer.model import Status, StepResult
from replayer.run.context import Context
from replayer.units import show_size

if TYPE_CHECKING:
    from replayer.load import level as levels
else:
    # It loads tables and mixes of statements, and a replay has neither.
    levels = Later("replayer.load.level")

MACHINE = "CPU of the machine"
QUOTA = "CPU quota"
CLIENTS = "CPU of the clients"
READS = "device reads"
WRITES = "device writes"
READ_BYTES = "bytes read"
WRITE_BYTES = "bytes written"
LOG = "log flushes"
LOCKS = "row locks"
MEMORY = "memory"

_LINES = (
    (WaitReason.CPU, re.compile(r"CPU")),
    (WaitReason.LOG, re.compile(r"(IO:WAL|LWLock:WALWrite|.*\bcommit)", re.IGNORECASE)),
    (WaitReason.LOCKS, re.compile(r"Lock:")),
    (
        WaitReason.WRITES,
        re.compile(r"IO:(DataFile(Write|Extend|Flush|Sync|ImmediateSync)|BufFileWrite)"),
    ),
    (WaitReason.READS, re.compile(r"(IO:(DataFile|Aio|BufFileRead)|IPC:BufferIO|LWLock:Aio)")),
    (WaitReason.INTERNAL, re.compile(r"(LWLock|BufferPin|IPC):")),
)
"""Pairs of a queue and the pattern of the waits that belong to it; the first match counts."""
_PROCESSORS = frozenset({WaitReason.CPU, WaitReason.CLIENTS, WaitReason.UNTOLD})
"""Queues for the server's processors.  CLIENTS and UNTOLD belong to them because a process that
gets no processor has not yet read the statement that has arrived."""


@dataclass(frozen=True, slots=True)
class DeviceLimit:
    """The capacity of a device (per second) or of a CPU quota (in cores), and its source."""

    most: float
    source: str
    used: float | None = None
    """Use of the device per second, counted by the source of the limit.

    None means that the machine's counters are taken instead.
    """
    own: float | None = None
    """The part of `used` that is the server's own; None if not known."""
    stopped: float | None = None
    """The share of the time in which the limit was used up, if that is counted."""


Ceilings = Mapping[str, DeviceLimit]
"""Resource (READS, WRITES, READ_BYTES, WRITE_BYTES, QUOTA) -> its limit."""


@dataclass(frozen=True, slots=True)
class Queues:
    """The waits of sessions with a statement under way, as averages over all samples."""

    waits: Mapping[str, float]
    """The server's name of a wait -> average number of sessions in it."""
    with_some: Mapping[WaitReason, float]
    """Queue -> the share of samples (0 to 1) in which at least one session stood in it."""


class Waiting:
    """A sum of samples of the waits of a server's sessions."""

    def __init__(self) -> None:
        self._times = 0
        self._sessions: dict[str, float] = {}
        self._with_some: Counter[WaitReason] = Counter()

    def add(self, moment: Mapping[str, float]) -> None:
        """Add one sample: name of a wait in the server -> number of sessions in it at that time."""
        self._times += 1
        for wait, sessions in moment.items():
            self._sessions[wait] = self._sessions.get(wait, 0.0) + sessions
        self._with_some.update({line_of(wait) for wait in moment})

    def queues(self) -> Queues | None:
        """Return the averages over all samples; None if there was no sample."""
        if not self._times:
            return None
        return Queues(
            {wait: sessions / self._times for wait, sessions in self._sessions.items()},
            {line: times / self._times for line, times in self._with_some.items()},
        )


def measure_point(
    asked: "levels.LevelRequest",
    given: Mapping[str, float | None],
    context: Context,
    database: Database,
) -> "tuple[levels.LevelResult, LevelPoint]":
    """Measure a level; return its results, and a point with its use of each resource.

    `given` is resource -> limit per second that the workload file sets, None if it sets none.
    """
    level = levels.measure_level(asked, context, database)
    known = ceilings(context, given, level.use.granted)
    return level, point(level, known, context.host.usable_memory_bytes())


def ceilings(context: Context, given: Mapping[str, float | None], granted: Granted) -> Ceilings:
    """Return resource -> its limit: the lowest of those that are known.

    It may be `given` by the user, be a limit of the server's cgroup, or be found by a probe.
    `granted` has the use of what that cgroup limits.
    """
    candidates = [
        *((name, DeviceLimit(most, "ceiling given")) for name, most in given.items() if most),
        *_limits(context, granted),
        *_probed(context.done, context.sampler.device, context.engine.block_size),
    ]
    tightest: dict[str, DeviceLimit] = {}
    for name, ceiling in candidates:
        if name not in tightest or ceiling.most < tightest[name].most:
            tightest[name] = ceiling
    return tightest


def _limits(context: Context, granted: Granted) -> Iterator[tuple[str, DeviceLimit]]:
    """Yield resource -> limit, as pairs, from the cgroup of the server.

    There are none if the server is on another host.
    """
    pids = context.server.pids()
    if not pids:
        return
    limits = cgroups.limits(context.host, pids[0], context.sampler.layers)
    source = "limit of the server's cgroup"
    if limits.cores:
        yield QUOTA, DeviceLimit(limits.cores, source, stopped=granted.stopped)
    for name, limit, lowest in (
        (READS, "read_iops", limits.read_iops),
        (WRITES, "write_iops", limits.write_iops),
        (READ_BYTES, "read_bytes", limits.read_bytes),
        (WRITE_BYTES, "write_bytes", limits.write_bytes),
    ):
        use = granted.disk.get(limit)
        if lowest and use:
            # Of nested groups, the one with the lowest limit need not be the one reached first.
            yield name, DeviceLimit(use.most, source, use.used, use.own)
        elif lowest:
            yield name, DeviceLimit(lowest, source)


def _probed(
    done: Sequence[StepResult], device: str | None, block_size: int
) -> Iterator[tuple[str, DeviceLimit]]:
    """Yield pairs of a resource (reads or writes) and the highest rate that a probe of it reached.

    Only probes of the same run on this device count, with random direct I/O in blocks of the
    database's size.
    """
    names = {"read": READS, "write": WRITES}
    best: dict[str, DeviceLimit] = {}
    for result in done:
        if result.status is not Status.DONE or result.facts.get("storage.device") != device:
            continue
        for row in result.tables.get("io", ()):
            name = names.get(str(row.get("operation")))
            alike = (row.get("access"), row.get("direct"), row.get("block_bytes")) == (
                "random",
                True,
                block_size,
            )
            rate = row.get("iops")
            if name and alike and rate and (name not in best or rate > best[name].most):
                size = show_size(block_size).replace(".00", "")
                words = f"probe of {size} random {row['operation']}s at depth {row['depth']}"
                best[name] = DeviceLimit(rate, words)
    yield from best.items()


def point(level: "levels.LevelResult", known: Ceilings, memory_bytes: int) -> LevelPoint:
    """Return a level's throughput and its use of each resource.

    That is one point of the curve on which the analysis of the load is based.  `known` has the
    limits of the resources.  `memory_bytes` is the machine's usable memory.
    """
    waiting = Waiting()
    for moment in level.moments:
        waiting.add(moment)
    queues = waiting.queues()
    return LevelPoint(
        sessions=level.asked.sessions,
        throughput=level.completed,
        response=level.service.mean_ns / 1e9,
        # In a closed loop a session begins its next statement when it has the answer of the last
        # one.
        in_flight=level.asked.sessions if level.asked.rate is None else level.in_flight,
        uses=dict(uses(level.use, queues, known, memory_bytes)),
        standing=standing(queues, level.in_flight),
    )


def line_of(wait: str) -> WaitReason:
    """Return the queue to which a wait of the server belongs.

    Wait events have a colon in their names; states, such as MariaDB's `Sending data`, are no waits.
    """
    unknown = WaitReason.OTHER if ":" in wait else WaitReason.UNTOLD
    return next((line for line, known in _LINES if known.match(wait)), unknown)


def uses(
    use: MachineUse, queues: Queues | None, known: Ceilings, memory_bytes: int
) -> Iterator[tuple[str, ResourceUse]]:
    """Yield each resource and its use while a load ran.

    `queues` is None if waits could not be sampled; `memory_bytes` is the machine's usable memory.
    """
    yield from _processors(use, known)
    if use.device is not None and use.device.seconds > 0:
        for name, amount, unit, line in (
            (READS, use.device.reads, "1/s", WaitReason.READS),
            (WRITES, use.device.writes, "1/s", WaitReason.WRITES),
            (READ_BYTES, use.device.read_bytes, "bytes/s", WaitReason.READS),
            (WRITE_BYTES, use.device.write_bytes, "bytes/s", WaitReason.WRITES),
        ):
            ceiling = known.get(name)
            if ceiling is not None or unit == "1/s":
                own = _own_reads(use) if line is WaitReason.READS else None
                yield name, _device(amount / use.device.seconds, ceiling, unit, line, own)
    if queues is not None:
        log, locks = frozenset({WaitReason.LOG, WaitReason.UNTOLD}), frozenset({WaitReason.LOCKS})
        writes = frozenset({WRITES, WRITE_BYTES})
        # A resource that serves one session at a time, such as a log flush or the work on a locked
        # row, is busy while a session stands in its queue.
        flushing, locked = (
            queues.with_some.get(line, 0.0) for line in (WaitReason.LOG, WaitReason.LOCKS)
        )
        yield LOG, ResourceUse(flushing, 1.0, "of the time", log, through=writes)
        yield LOCKS, ResourceUse(locked, 1.0, "of the time", locks)
    if use.memory_bytes is not None and memory_bytes:
        yield (
            MEMORY,
            ResourceUse(
                float(use.memory_bytes), float(memory_bytes), "bytes", frozenset(), held=True
            ),
        )


def _processors(use: MachineUse, known: Ceilings) -> Iterator[tuple[str, ResourceUse]]:
    if use.client_here or use.server is not None:
        yield MACHINE, _machine(use)
    quota = known.get(QUOTA)
    if quota is not None and use.server is not None and quota.most < use.processors:
        yield (
            QUOTA,
            ResourceUse(
                use.server,
                quota.most,
                "cores",
                _PROCESSORS,
                ceiling=quota.source,
                stopped=quota.stopped,
            ),
        )
    clients = frozenset({WaitReason.CLIENTS})
    through = frozenset({MACHINE} if use.client_here else ())
    yield CLIENTS, ResourceUse(use.client, use.client_processors, "cores", clients, through=through)


def _machine(use: MachineUse) -> ResourceUse:
    """Return the use of the processors of this machine, on which the clients or the server run."""
    own = (use.client if use.client_here else 0.0) + (use.server or 0.0)
    # Clock ticks are counted at other times than the window's ends.
    busy = min(float(use.processors), max(own, use.busy + use.steal))
    here = frozenset({WaitReason.CLIENTS}) if use.server is None else _PROCESSORS
    # A server that is throttled by its quota does not wait for the machine's processors.
    held = frozenset({QUOTA})
    return ResourceUse(busy, float(use.processors), "cores", here, own=own, through=held)


def _own_reads(use: MachineUse) -> float | None:
    """Return the server's share of the bytes read from the device; None if not known."""
    if use.own_read_bytes is None or use.device is None or not use.device.read_bytes:
        return None
    return min(1.0, use.own_read_bytes / use.device.read_bytes)


def _device(
    per_second: float, ceiling: DeviceLimit | None, unit: str, line: WaitReason, own: float | None
) -> ResourceUse:
    # A log flush is a write as well: a session that waits for it waits for the device.
    lines = frozenset(
        {line, WaitReason.UNTOLD, *({WaitReason.LOG} if line is WaitReason.WRITES else ())}
    )
    ours = None if own is None else own * per_second
    if ceiling is None:
        return ResourceUse(per_second, None, unit, lines, own=ours)
    busy = per_second if ceiling.used is None else ceiling.used
    # Other groups may use a limit, too: what they used is not needed for the measured work.
    ours = ours if ceiling.own is None else ceiling.own
    ours = None if ours is None else min(ours, busy)
    return ResourceUse(busy, ceiling.most, unit, lines, own=ours, ceiling=ceiling.source)


def standing(queues: Queues | None, in_flight: float) -> dict[WaitReason, float]:
    """Return the average number of sessions in each queue; {} if waits could not be sampled.

    `in_flight` is the number of statements under way.  A statement on which the server does not
    work counts in the queue of the clients.
    """
    if queues is None:
        return {}
    lines = dict.fromkeys(WaitReason, 0.0)
    for wait, sessions in queues.waits.items():
        lines[line_of(wait)] += sessions
    # A session in a state that shows no wait may wait for a lock all the same.
    lines[WaitReason.UNTOLD] = max(0.0, lines[WaitReason.UNTOLD] - lines[WaitReason.LOCKS])
    away = in_flight - sum(lines.values())
    lines[WaitReason.CLIENTS] += max(0.0, away)
    return {line: amount for line, amount in lines.items() if amount}
