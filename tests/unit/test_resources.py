"""What a server calls a wait, and what is known of a device's ceiling."""

import os
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from replayer.analysis.capacity.saturation import WaitReason
from replayer.load import machine_usage, resources, server_clock
from replayer.load.machine_usage import (
    ClientUse,
    Counted,
    Granted,
    MachineUse,
    UsageMark,
    activity,
)
from replayer.load.rows import level_columns
from replayer.machine.cgroups import LimitUse
from replayer.machine.host import Host
from replayer.machine.processes import CpuSeconds
from replayer.machine.processors import ticks
from replayer.model import Status, StepResult
from replayer.run.context import Context
from replayer.watch.interference import AccountMark, Traffic
from replayer.watch.ledger import ServerCounters
from replayer.watch.sampler import DeviceDelta

TICK = os.sysconf("SC_CLK_TCK")
SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("wait", "line"),
    [
        ("CPU", WaitReason.CPU),
        ("IO:DataFileRead", WaitReason.READS),
        ("IO:AioIoCompletion", WaitReason.READS),
        ("IPC:BufferIO", WaitReason.READS),
        ("IO:DataFileExtend", WaitReason.WRITES),
        ("IO:DataFileWrite", WaitReason.WRITES),
        ("IO:WalSync", WaitReason.LOG),
        ("IO:WALSync", WaitReason.LOG),
        ("IO:WALWrite", WaitReason.LOG),
        ("LWLock:WALWrite", WaitReason.LOG),
        ("LWLock:WALInsert", WaitReason.INTERNAL),
        ("LWLock:BufferContent", WaitReason.INTERNAL),
        ("BufferPin:BufferPin", WaitReason.INTERNAL),
        ("Lock:transactionid", WaitReason.LOCKS),
        ("Lock:tuple", WaitReason.LOCKS),
        ("Lock:row", WaitReason.LOCKS),
        ("Timeout:VacuumDelay", WaitReason.OTHER),
        ("Sending data", WaitReason.UNTOLD),
        ("Updating", WaitReason.UNTOLD),
        ("Commit", WaitReason.LOG),
        ("waiting for handler commit", WaitReason.LOG),
    ],
)
def test_wait_is_a_line(wait: str, line: WaitReason) -> None:
    """PostgreSQL's wait events of 13 to 18, whose case changed in 17, and MariaDB's lock."""
    assert resources.line_of(wait) is line


def probe(operation: str, depth: int, iops: float, **changed: object) -> dict[str, Any]:
    """Return a row of the table `io` of a probe."""
    plain = {
        "access": "random",
        "operation": operation,
        "direct": True,
        "block_bytes": 8192,
        "depth": depth,
        "iops": iops,
    }
    return {**plain, **changed}


def result_of(rows: Sequence[dict[str, Any]], **changed: object) -> StepResult:
    """Return the result of a probe of vda."""
    plain: dict[str, Any] = {
        "step": "probe",
        "name": "probe",
        "repeat": 1,
        "status": Status.DONE,
        "started": "2026-11-20T10:00:00+00:00",
        "elapsed": 1.0,
        "spec": {},
        "facts": {"storage.device": "vda"},
        "tables": {"io": tuple(rows)},
    }
    return StepResult(**{**plain, **changed})


def context(host: Host, done: Sequence[StepResult]) -> Context:
    """Return a context with a server in cgroups, and what was done before."""
    made = SimpleNamespace(
        host=host,
        done=done,
        sampler=SimpleNamespace(device="vda", layers=("vda",)),
        engine=SimpleNamespace(block_size=8192),
        server=SimpleNamespace(pids=lambda: [77]),
    )
    return cast("Context", made)


def test_ceiling_is_the_most_of_the_probes_and_the_least_of_all(tmp_path: Path) -> None:
    """Of depths the deepest counts; a limit below it, or one that is given, counts before it."""
    done = [
        result_of([probe("read", 1, 4000), probe("read", 16, 59000), probe("write", 16, 30000)]),
        result_of([probe("read", 16, 99000, access="sequential")]),
        result_of([probe("read", 16, 99000, block_bytes=4096)]),
        result_of([probe("read", 16, 99000, direct=False)]),
        result_of([probe("read", 16, 99000)], facts={"storage.device": "vdb"}),
        result_of([probe("read", 16, 99000)], status=Status.FAILED),
    ]
    granted = Granted(disk={"read_iops": LimitUse(480.0, 500.0, 70.0)})
    free = resources.ceilings(context(Host(tmp_path), done), {}, granted)
    given = resources.ceilings(context(Host(tmp_path), done), {resources.READS: 100.0}, Granted())
    (tmp_path / "proc/77").mkdir(parents=True)
    (tmp_path / "proc/self").mkdir()
    (tmp_path / "proc/77/cgroup").write_text("0::/db\n")
    (tmp_path / "proc/self/mountinfo").write_text("30 23 0:26 / /cg rw - cgroup2 cgroup2 rw\n")
    (tmp_path / "cg/db").mkdir(parents=True)
    (tmp_path / "cg/db/io.max").write_text("254:0 rbps=max wbps=max riops=500 wiops=max\n")
    (tmp_path / "cg/db/cpu.max").write_text("50000 100000\n")
    (tmp_path / "sys/class/block/vda").mkdir(parents=True)
    (tmp_path / "sys/class/block/vda/dev").write_text("254:0\n")
    limited = resources.ceilings(context(Host(tmp_path), done), {}, granted)
    unknown = resources.ceilings(context(Host(tmp_path), done), {}, Granted())

    assert {name: one.most for name, one in free.items()} == {
        resources.READS: 59000,
        resources.WRITES: 30000,
    }
    assert free[resources.READS].source == "probe of 8 KiB random reads at depth 16"
    assert given[resources.READS].most == 100
    assert limited[resources.READS].most == 500
    assert (limited[resources.READS].used, limited[resources.READS].own) == (480, 70)
    assert (unknown[resources.READS].most, unknown[resources.READS].used) == (500, None)
    assert free[resources.READS].used is None
    assert "cgroup" in limited[resources.READS].source
    assert limited[resources.QUOTA].most == 0.5
    assert limited[resources.WRITES].most == 30000


def test_reads_that_others_did_are_not_of_the_load() -> None:
    """Of a device's reads a statement needed those that the server itself did, by their bytes."""
    device = DeviceDelta(seconds=2.0, reads=2000, read_bytes=16_384_000, writes=10, write_bytes=1)
    used = MachineUse(
        seconds=2.0, processors=2, busy=1.0, user=0.8, system=0.2, steal=0.0, server_user=0.5,
        server_system=0.1, client_user=0.1, client_system=0.0, client_processors=1.0,
        client_here=True, device=device, own=Traffic(4_096_000, 0), memory_bytes=None,
    )  # fmt: skip
    reads = dict(resources.uses(used, None, {}, 0))[resources.READS]
    assert (reads.busy, reads.own) == (1000, 250)


@pytest.mark.parametrize(
    ("counted", "by_bytes", "own"),
    [
        (500.0, 3_584_000, 500),  # what the kernel counts for the server's group
        (500.0, None, 500),
        (None, 4_096_000, 875),  # else the server's share of the bytes
        (None, 32_768_000, 3500),
        (None, None, None),
    ],
)
def test_what_siblings_used_of_a_limit_is_not_of_the_load(
    counted: float | None, by_bytes: int | None, own: float | None
) -> None:
    """A slice may read 5,000 blocks a second: the server reads 500 of them, siblings 3,000."""
    device = DeviceDelta(seconds=1.0, reads=3500, read_bytes=16_384_000, writes=70, write_bytes=1)
    used = MachineUse(
        seconds=1.0, processors=2, busy=1.0, user=0.8, system=0.2, steal=0.0, server_user=0.5,
        server_system=0.1, client_user=0.1, client_system=0.0, client_processors=1.0,
        client_here=True, device=device, memory_bytes=None,
        own=None if by_bytes is None else Traffic(by_bytes, 0),
    )  # fmt: skip
    limit = resources.DeviceLimit(5000.0, "limit of the server's cgroup", 3500.0, counted)
    writes = resources.DeviceLimit(100.0, "limit of the server's cgroup", 70.0, 10.0)
    known = {resources.READS: limit, resources.WRITES: writes}
    found = dict(resources.uses(used, None, known, 0))

    reads = found[resources.READS]
    assert (reads.busy, reads.capacity, reads.own) == (3500, 5000, own)
    assert (found[resources.WRITES].busy, found[resources.WRITES].own) == (70, 10)


@pytest.mark.parametrize(
    ("step", "notes"),
    [
        (0.0, []),
        (3600.0, ["the server's clock was set forward by 3,600 s meanwhile: "]),
        (-60.0, ["the server's clock was set back by 60.0 s meanwhile: "]),
    ],
)
def test_a_clock_that_is_set_changes_no_rate_of_a_load(step: float, notes: list[str]) -> None:
    """The clients worked from second 1 to 11; the server's clock was set in between."""
    second = 10**9
    before = Counted(ServerCounters(1e9, 0, 0), {"wal_bytes": 0}, 0, 0)
    counters = ServerCounters(1e9 + 12 + step, 0, 100_000)
    after = Counted(counters, {"wal_bytes": 50_000}, 12 * second, 12 * second)
    moved = activity(before, after, second, 11 * second)

    assert moved.rate("reads") == pytest.approx(10_000)
    assert moved.rate("wal_bytes") == pytest.approx(5_000)
    assert moved.stepped == pytest.approx(step)
    found = server_clock.notes([0.0, moved.stepped])
    assert [note.split("the rates")[0] for note in found] == notes


@pytest.mark.parametrize(
    ("allowed", "busy", "processors"),
    [(None, 8.0, 64), (frozenset(range(4)), 4.0, 4), (frozenset(range(60, 64)), 0.0, 4)],
)
def test_the_processors_are_those_that_server_and_clients_may_use(
    tmp_path: Path, allowed: frozenset[int] | None, busy: float, processors: int
) -> None:
    """Of 64, the first eight are busy all the time: four of them are the limit of a cpuset."""

    def mark(seconds: int) -> UsageMark:
        busy = {f"cpu{n}": (seconds if n < 8 else 0) * TICK for n in range(64)}
        lines = [f"{name} {spent} 0 0 9 0 0 0 0 0 0" for name, spent in busy.items()]
        text = "\n".join([f"cpu {8 * seconds * TICK} 0 0 9 0 0 0 0 0 0", *lines])
        accounts = AccountMark(float(seconds), 0.0, 0.0, processors, allowed=allowed)
        return UsageMark(seconds * SECOND, ticks(text.encode()), CpuSeconds(0.0, 0.0), accounts)

    made = SimpleNamespace(
        host=Host(tmp_path),
        server=SimpleNamespace(data_directory=lambda: None),
    )
    used = machine_usage.use(
        cast("Context", made), mark(1), mark(3), 1 * SECOND, ClientUse(0.5, 0.5, 2.0, 4)
    )
    uses = dict(resources.uses(used, None, {}, 0))

    level: Any = SimpleNamespace(
        use=used, activity=SimpleNamespace(rate=lambda _: None), hit_ratio=None
    )
    point: Any = SimpleNamespace(throughput=1.0, uses=uses, little=1.0)
    row = level_columns(point, level, None)

    assert (used.busy, used.processors) == (busy, processors)
    assert (row["user_cores"], row["processors"]) == (busy, processors)
    machine = uses[resources.MACHINE]
    assert (machine.busy, machine.capacity) == (max(0.5, busy), processors)
