"""Resources that a load used: processors, the data's device, memory, limits of cgroups."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from replayer.engines.connection import Database
from replayer.engines.verbs import VerbName
from replayer.errors import Interrupted, ReplayerError
from replayer.load.server_clock import ClockReading, step_between
from replayer.machine import cgroups, processors
from replayer.machine.cgroups import CgroupUsage, LimitUse
from replayer.machine.processes import CpuSeconds
from replayer.model import Foreign
from replayer.run.context import Context
from replayer.servers import protocol
from replayer.watch import interference
from replayer.watch.ledger import ServerCounters, missed_apart
from replayer.watch.sampler import DeviceDelta

_ACTIVITY = VerbName("mix/activity")
_TICK = os.sysconf("SC_CLK_TCK")
_OF_OTHERS = ("other_databases", "other_statements")
_BUSY = ("usr", "nice", "sys", "irq", "soft", "guest", "gnice")


@dataclass(frozen=True, slots=True)
class Granted:
    """Use of those resources that the server's cgroups limit."""

    stopped: float | None = None
    """The share of periods in which the CPU quota was used up; None if not known."""
    disk: Mapping[str, LimitUse | None] = field(default_factory=dict)
    """Name of a limit of the data's device, such as `read_iops` -> its use, as far as known."""


@dataclass(frozen=True, slots=True)
class MachineUse:
    """Use of the machine's resources over one window; None means not known."""

    seconds: float
    """Length of the window of these figures."""
    processors: int
    busy: float
    """Average number of busy processors, with any work."""
    user: float
    """Average number of processors that were busy in user mode."""
    system: float
    """Average number of processors that were busy in the kernel, interrupts included."""
    steal: float
    """Processors that the hypervisor gave to other machines meanwhile."""
    server_user: float | None
    """Processors that the server's processes used in user mode; None if they are on another
    host."""
    server_system: float | None
    client_user: float
    """Processors that the clients (replayer's processes) used in user mode."""
    client_system: float
    client_processors: float
    """Processors that the clients could use."""
    client_here: bool
    """True if the clients ran on this machine."""
    device: DeviceDelta | None
    """The data's device, used by any process."""
    own: interference.Traffic | None
    """Reads and writes of the server's processes."""
    memory_bytes: int | None
    """Memory in use at the end, without the memory that the kernel can free at once."""
    foreign: Foreign | None = None
    granted: Granted = Granted()

    @property
    def own_read_bytes(self) -> int | None:
        """Return the bytes that the server's processes read from devices; None if not known."""
        return self.own.read_bytes if self.own else None

    @property
    def own_write_bytes(self) -> int | None:
        """Return the bytes that the server's processes wrote to devices; None if not known."""
        return self.own.write_bytes if self.own else None

    @property
    def server(self) -> float | None:
        """Return the average number of processors that the server used; None if not known."""
        if self.server_user is None or self.server_system is None:
            return None
        return self.server_user + self.server_system

    @property
    def client(self) -> float:
        """Return the average number of processors that the clients used."""
        return self.client_user + self.client_system


@dataclass(frozen=True, slots=True)
class Activity:
    """The server's counters between two times of the server's clock; None means not counted.

    `hits` and `reads` are blocks that were and were not in the server's buffers.
    """

    seconds: float
    hits: int
    reads: int
    commits: int | None = None
    wal_bytes: int | None = None
    wal_flushes: int | None = None
    lock_waits: int | None = None
    deadlocks: int | None = None
    temp_bytes: int | None = None
    other_databases: int = 0
    """Blocks that were not in the server's buffers, for other databases of the server.

    It is ledger.UNCOUNTED if a statement for one of these had not ended.
    """
    stepped: float = 0.0
    """Seconds by which the server's clock was set forward meanwhile, below 0 if it was set back.

    If it is not 0, `seconds` are by replayer's clock.
    """

    @property
    def hit_ratio(self) -> float | None:
        """Return the share of blocks found in the server's buffers; None if it read no block."""
        blocks = self.hits + self.reads
        return self.hits / blocks if blocks else None

    def rate(self, counted: str) -> float | None:
        """Return a count per second; None if it is not known.

        `counted` is the name of the field with the count, such as `reads`.
        """
        amount = getattr(self, counted)
        return None if amount is None or self.seconds <= 0 else amount / self.seconds


@dataclass(frozen=True)
class UsageMark:
    """The machine's counters and those of the server's processes, at one end of a window.

    `mark_ns` is the time by the monotonic clock; `times` is processor -> state -> clock ticks.
    """

    mark_ns: int
    times: Mapping[str, dict[str, int]]
    server: CpuSeconds
    accounts: interference.AccountMark


@dataclass(frozen=True)
class Counted:
    """The server's counters at one end of a window: of blocks, and `more` by their names.

    `clock_ns` is the time of the reading by this machine's monotonic clock, and `asked_ns` that of
    the request for it.
    """

    counters: ServerCounters
    more: Mapping[str, Any]
    asked_ns: int
    clock_ns: int

    @property
    def clock(self) -> ClockReading:
        """Return the server's clock, and this machine's before and after its reading."""
        return ClockReading(self.counters.clock, self.asked_ns, self.clock_ns)


def moment(context: Context) -> UsageMark:
    """Read and return the machine's counters and those of the server's processes.

    A mark in the sampler's series is set last: it shows the time of this reading.
    """
    accounts = context.account()
    times = processors.ticks(context.host.read(processors.FILE).encode())
    server = context.server.cpu_seconds()
    return UsageMark(
        mark_ns=context.sampler.mark(),
        times=times,
        server=server,
        accounts=accounts,
    )


def counted(database: Database) -> Counted:
    """Read and return the server's own counters, over the connection `database`.

    Counters that the engine does not have are left out, or 0.
    """
    more: Mapping[str, Any] = {}
    verb = database.engine.verb(_ACTIVITY)
    if verb is not None:
        try:
            more = database.row(verb).reals()
        except Interrupted:
            raise
        except ReplayerError:
            more = {}
    asked_ns = time.monotonic_ns()
    if database.engine.verb(protocol.COUNTERS) is None:
        return Counted(ServerCounters(asked_ns / 1e9, 0, 0), more, asked_ns, asked_ns)
    counters = block_counters(database)
    return Counted(counters, more, asked_ns, time.monotonic_ns())


def block_counters(database: Database) -> ServerCounters:
    """Read and return the server's counters of blocks, and its clock.

    A server that does not count blocks by database has counted those of all of them as its own.
    """
    row = database.row(protocol.COUNTERS)
    return ServerCounters(
        row.real("clock"),
        row.number("hits"),
        row.number("reads"),
        *(
            row.number(name) if name in row else 0
            for name in ("other_databases", "other_statements")
        ),
    )


def activity(
    before: Counted, after: Counted, opened_ns: int, done_ns: int | None = None
) -> Activity:
    """Return what the server counted from `before` to `after`.

    The time over which it counted begins at `opened_ns`, when the clients were started.  It ends at
    `done_ns`, when the last client was done, if that is known: the counters are read later, when
    all clients have reported.  If the server's clock was set meanwhile, the time is by replayer's.
    """
    moved = {
        name: int(after.more[name]) - int(value)
        for name, value in before.more.items()
        if value is not None and after.more.get(name) is not None
    }
    first, last = before.counters, after.counters
    ended_ns = done_ns or after.clock_ns
    stepped = step_between(before.clock, after.clock)
    waited = (opened_ns - before.clock_ns + after.clock_ns - ended_ns) / 1e9
    seconds = (ended_ns - opened_ns) / 1e9 if stepped else last.clock - first.clock - waited
    hits, reads = last.hits - first.hits, last.reads - first.reads
    apart = missed_apart(first, last)
    return Activity(seconds, hits, reads, **moved, other_databases=apart, stepped=stepped)


@dataclass(frozen=True, slots=True)
class ClientUse:
    """CPU seconds that the clients used in `lasted` seconds."""

    user: float
    system: float
    lasted: float
    processors: float
    """Processors that the clients could use: one for each process, at most those of their hosts."""
    here: bool = True
    """True if the clients ran on this machine."""


def use(
    context: Context, before: UsageMark, after: UsageMark, opened_ns: int, client: ClientUse
) -> MachineUse:
    """Return the machine's use from `before` to `after`, per second since the clients' start.

    `opened_ns` is that start by the monotonic clock.  `client` is the CPU that the clients used.
    """
    seconds = (after.mark_ns - max(before.mark_ns, opened_ns)) / 1e9
    # Only the processors that server and clients may use can be their limit.
    allowed = before.accounts.allowed if before.accounts.allowed == after.accounts.allowed else None
    first, last = (processors.together(mark.times, allowed) for mark in (before, after))
    spent = {
        state: max(0, last.get(state, 0) - first.get(state, 0)) / _TICK / seconds
        for state in processors.STATES
    }
    local = context.server.data_directory() is not None
    delta = context.sampler.device_delta(before.mark_ns, after.mark_ns) if local else None
    own = interference.server_moved(before.accounts, after.accounts)
    known = sum(after.server) > 0
    server = after.server.since(before.server)
    memory = context.host.memory_bytes() - context.host.memory("MemAvailable")
    return MachineUse(
        seconds=seconds,
        processors=max(1, len(after.times) - 1) if allowed is None else len(allowed),
        busy=sum(spent[state] for state in _BUSY),
        user=spent["usr"] + spent["nice"] + spent["guest"] + spent["gnice"],
        system=spent["sys"] + spent["irq"] + spent["soft"],
        steal=spent["steal"],
        server_user=server.user / seconds if known else None,
        server_system=server.system / seconds if known else None,
        client_user=client.user / client.lasted,
        client_system=client.system / client.lasted,
        client_processors=client.processors,
        client_here=client.here,
        device=delta,
        own=own,
        memory_bytes=memory or None,
        foreign=interference.between(before.accounts, after.accounts, delta),
        granted=_granted(before.accounts.groups, after.accounts.groups, seconds),
    )


def _granted(
    before: Mapping[str, CgroupUsage], after: Mapping[str, CgroupUsage], seconds: float
) -> Granted:
    first, last = before.get("server"), after.get("server")
    if first is None or last is None:  # the server is on another host
        return Granted()
    share = cgroups.throttled_share(first.throttled, last.throttled)
    return Granted(share, cgroups.limit_uses(first, last, seconds))
