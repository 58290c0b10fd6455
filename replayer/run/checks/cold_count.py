"""The cold count: count a table's rows from disk, and compare four counts of the bytes read."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from replayer.conditions import temperature, underneath
from replayer.conditions.residency import residency
from replayer.engines.connection import Database
from replayer.engines.credentials import redact
from replayer.errors import ReplayerError, one_line
from replayer.machine import stack
from replayer.machine.host import Host
from replayer.model import Temperature
from replayer.run.checks.proof import Finding
from replayer.run.checks.verb_trials import VerbTrials
from replayer.servers import protocol
from replayer.servers.protocol import Server
from replayer.tables import relations
from replayer.units import show_size
from replayer.watch import interference

COUNT, CLOCK, READS, PROCESSES = (
    "table/count reads", "counters, clock", "counters, reads", "/proc against the device"
)  # fmt: skip
"""The names of the four findings of a cold count."""
_READ_SHARE = 0.75
"""The least share of the bytes in the files with rows that a count of all values must read.

The other bytes hold no rows: headers, free pages, the top of an index.  They were 1 to 14 % of the
tables of 98,304 rows of the engines whose proofs are kept."""
_COLD_TRIES = 3
"""The most times that a table's rows are counted, until one count reads enough bytes.

Another program may drop the page cache during a count."""
_BYPASSED = 0.05
"""A server bypasses the page cache if at most this share of a table just written is in it."""
_COUNTED_SHARE = 0.5
"""The server's own counter must show at least this share of the bytes that were read.

A server counts only the pages that it asked for.  Its files also have pages that it reserved."""
_TOO_MANY = 4
"""A server's counter above this multiple of the bytes really read does not count blocks."""
_CLOCK_SECONDS, _CLOCK_SHARE = 0.1, 0.05
_LATE_TRIES, _LATE_SECONDS, _STILL = 16, 0.3, 5
"""A server may update its counters a second late: so they are read up to 16 times, 0.3 s apart.

The reading ends when five times in turn the number of reads did not change."""


class ReadAccounts(NamedTuple):
    """The values of all counters at one time, just before or just after the rows are counted.

    A counter that cannot be read is None. The bytes are those that the server counted as read,
    that its processes read from devices, that the disks delivered, and that are in the page cache.
    """

    clock: float | None
    """The server's own clock, in seconds."""
    asked: float
    answered: float
    """`asked` and `answered`: this machine's clock just before and just after `clock` was read."""
    counted_bytes: int | None
    process_bytes: int | None
    device_bytes: int | None
    cached_bytes: int | None


class ColdCount:
    """A table in the server's data folder, whose rows are counted while none of it is in memory."""

    def __init__(self, server: Server, trials: VerbTrials, folder: Path) -> None:
        self._server, self._trials, self._host = server, trials, Host()
        self._files = relations.files(trials.database, folder)
        self._rows = relations.without_maps(self._files)
        self._disks = underneath.stack_of(self._files, self._host)

    def attempt(self) -> Iterator[Finding]:
        """Count the table's rows with none of it in memory; yield the finding on each counter.

        If too few bytes were read, drop the table from memory and count again, at most three times
        in all.
        """
        around = self._goes_around()
        for _ in range(_COLD_TRIES):
            self._make_cold()
            stored = residency(self._rows).stored_bytes
            before = self._accounts()
            self._trials.attempt("table/count")
            after = self._accounts()
            read = _read(before, after, stored, around=around)
            if read.proven is not False:
                break
        yield read
        yield _clock(before, after)
        yield _reads(before, after, stored)
        yield _processes(before, after)

    def _goes_around(self) -> bool:
        """Return whether the server bypasses the page cache; True if that cannot be measured.

        A server that bypasses the page cache leaves hardly any page of a new table in it.
        """
        share = residency(self._files).share
        return share is None or share <= _BYPASSED

    def _make_cold(self) -> None:
        server, trials = self._server, self._trials
        if server.can_stop:
            trials.database.close()
        temperature.make(Temperature.COLD, server, self._files, self._host)
        if server.can_stop:
            trials.database = Database(server.engine, server.start())
        temperature.forget(self._files)

    def _accounts(self) -> ReadAccounts:
        clock, asked, answered, counted = self._settled()
        pids = interference.pids_of(self._server)
        traffic = interference.server_traffic(self._host, pids[0]) if pids else None
        return ReadAccounts(
            clock,
            asked,
            answered,
            counted,
            traffic.read_bytes if traffic else None,
            stack.read_bytes(self._host, self._disks.disks),
            residency(self._rows).resident_bytes,
        )

    def _settled(self) -> tuple[float | None, float, float, int | None]:
        """Return (server's clock, time asked, time answered, bytes read as the server counts them).

        The counters are read again until the number of reads no longer changes.  The two times are
        of this machine's clock, just before and just after the last reading.  The server's clock
        and the bytes are None if the engine has no SQL file `counters`, or if it fails.
        """
        engine = self._trials.database.engine
        if engine.verb(protocol.COUNTERS) is None:
            return None, 0.0, 0.0, None
        still, latest = 0, -1
        clock, asked, answered = 0.0, 0.0, 0.0
        for _ in range(_LATE_TRIES):
            asked = time.monotonic()
            rows = self._trials.attempt("counters")
            answered = time.monotonic()
            if not rows:
                return None, 0.0, 0.0, None
            clock, reads = rows[0].real("clock"), rows[0].number("reads")
            still = still + 1 if reads == latest else 0
            if still >= _STILL:
                break
            latest = reads
            time.sleep(_LATE_SECONDS)
        return clock, asked, answered, latest * engine.block_size


def attempt(server: Server, trials: VerbTrials, folder: Path | None, why: str) -> Sequence[Finding]:
    """Return the four findings of a cold count, which counts a table's rows from disk.

    Without a folder of the server's files, nothing is counted: each finding is untested, and `why`
    is its reason.  After an error, the error is the reason.
    """
    names = (COUNT, CLOCK, READS, PROCESSES)
    if folder is None:
        return [Finding(name=name, proven=None, found=why) for name in names]
    try:
        return list(ColdCount(server, trials, folder).attempt())
    except (ReplayerError, OSError) as error:
        found = one_line(redact(str(error), trials.database.url), 400)
        return [Finding(name=name, proven=None, found=found) for name in names]


def _read(before: ReadAccounts, after: ReadAccounts, stored: int, *, around: bool) -> Finding:
    device = _moved(before.process_bytes, after.process_bytes)
    grew = _moved(before.cached_bytes, after.cached_bytes)
    if device is None and grew is None:
        return Finding(name=COUNT, proven=None, found="no account of reads is here")
    parts = [f"{show_size(max(0, grew))} came into the page cache"] if grew is not None else []
    parts += [f"the server read {show_size(device)} of the device"] if device is not None else []
    # A server that starts reads its own programs of the device, too: that does not count.
    most = max(grew or 0, (device or 0) if around else 0)
    found = f"of {show_size(stored)} that hold rows {' and '.join(parts)}"
    return Finding(name=COUNT, proven=most >= _READ_SHARE * stored, found=found)


def _clock(before: ReadAccounts, after: ReadAccounts) -> Finding:
    if before.clock is None or after.clock is None:
        return Finding(name=CLOCK, proven=None, found="the engine has no verb `counters`")
    server = after.clock - before.clock
    least, most = after.asked - before.answered, after.answered - before.asked
    found = f"the server's clock moved by {server:.3f} s in {least:.3f} to {most:.3f} s"
    slack = _CLOCK_SECONDS + _CLOCK_SHARE * most
    near = least - slack <= server <= most + slack
    return Finding(name=CLOCK, proven=near, found=found)


def _reads(before: ReadAccounts, after: ReadAccounts, stored: int) -> Finding:
    counted = _moved(before.counted_bytes, after.counted_bytes)
    if counted is None:
        return Finding(name=READS, proven=None, found="the engine has no verb `counters`")
    process = _moved(before.process_bytes, after.process_bytes) or 0
    came = max(_moved(before.cached_bytes, after.cached_bytes) or 0, 0)
    found = (
        f"the server counted {show_size(counted)} of reads, where {show_size(came)} of the table "
        f"came into the page cache and its processes read {show_size(process)} of the device"
    )
    if not came and not process:
        return Finding(name=READS, proven=None, found=f"{found}: nothing to compare with")
    # Past the page cache, a server that was just started also reads its own programs.
    enough = counted >= _COUNTED_SHARE * (came or min(process, stored))
    return Finding(
        name=READS, proven=enough and counted <= _TOO_MANY * (came + process), found=found
    )


def _processes(before: ReadAccounts, after: ReadAccounts) -> Finding:
    process = _moved(before.process_bytes, after.process_bytes)
    device = _moved(before.device_bytes, after.device_bytes)
    if process is None or device is None:
        lacking = "/proc/PID/io of the server" if process is None else "a counter of the device"
        return Finding(name=PROCESSES, proven=None, found=f"there is no {lacking} here")
    found = (
        f"/proc/PID/io has {show_size(process)} of the server, and the device delivered "
        f"{show_size(device)}, to others too"
    )
    if not process:
        return Finding(name=PROCESSES, proven=None, found=found)
    return Finding(name=PROCESSES, proven=device >= _READ_SHARE * process, found=found)


def _moved(first: int | None, last: int | None) -> int | None:
    return None if first is None or last is None else last - first
