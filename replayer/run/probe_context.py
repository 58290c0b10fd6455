"""The objects that a probe (a measurement without a database) works with, such as its files."""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Annotated, Self

from pydantic import Field, model_validator

from replayer.errors import Impossible, one_line
from replayer.machine.host import Host
from replayer.model import Foreign, StepSpec
from replayer.run.client_hosts import ClientHosts
from replayer.run.context import Progress
from replayer.run.event_stream.rates import Rates
from replayer.run.read_proof import ReadProof
from replayer.run.step_recorder import MeasuredWindow, StepRecorder
from replayer.storage import device as devices
from replayer.storage import reference_tools
from replayer.storage.files import Workspace, enough
from replayer.storage.io_job import BlockOrder, IoJob, IoTarget, Sync, ThreadResult
from replayer.storage.io_result import IoResult, summary
from replayer.storage.io_run import IoRun, run_io, run_io_on_hosts
from replayer.units import Count, show_size
from replayer.watch import interference
from replayer.watch.client_pools import LOCAL_CLIENTS, Clients, Pool
from replayer.watch.interference import AccountMark
from replayer.watch.sampler import Sampler

_COMPILED = "compiled"
_MOST_CLIENTS = 64

Parallel = Annotated[int, Field(ge=1, le=4096)]
"""Threads or processes that work at the same time."""


class ProbeSpec(StepSpec):
    """The keys that every probe has; each probe's Spec adds its own."""

    probe: str
    """The name of the probe, as in `replayer list probes`."""
    clients: int = Field(default=1, ge=1, le=_MOST_CLIENTS)
    """Independent clients that start at a common instant, each with its own files."""
    cross_check: bool = False
    """Also run the usual tool for this measurement on the same file, in turn with replayer."""
    device: str = ""
    """A raw block device to work on instead of files; to write on it, give its serial number."""
    i_will_lose_data: str = ""
    """The serial number of `device`, which allows to write on that device."""
    seed: Count = 1
    """Seed of the random order: the same seed visits the same blocks in the same order."""

    @model_validator(mode="after")
    def _only_a_device_is_lost(self) -> Self:
        if self.i_will_lose_data and not self.device:
            raise ValueError(
                "--i-will-lose-data allows to write on a device, and none is named: "
                "name it with --device, or leave this out"
            )
        return self


@dataclass
class ProbeContext:
    """The objects that one probe works with; `workspace` holds its files, and removes them."""

    spec: ProbeSpec
    host: Host
    progress: Progress
    sampler: Sampler
    storage: Path
    findings: StepRecorder
    workspace: Workspace
    clients: Clients = LOCAL_CLIENTS
    """The hosts that are the probe's clients."""
    _points: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    _first_ns: int | None = None
    _first_account: AccountMark | None = None
    _others: list[Foreign] = field(default_factory=list)
    """The work of other programs in each window that was long enough to judge it alone."""
    _loops: set[str] = field(default_factory=set)
    """The loops that did the reads and writes so far: `compiled`, `Python`."""

    @property
    def folder(self) -> Path:
        """Return the folder of this probe's files."""
        return self.workspace.folder

    def files(
        self,
        name: str,
        count: int,
        bytes_each: int,
        *,
        block_size: int,
        filled: bool = True,
        direct: bool = True,
    ) -> list[IoTarget]:
        """Make `count` files of `bytes_each` bytes for each client; return one target per client.

        If the user named a raw device, nothing is made, and that device is every client's target.
        `block_size` is in bytes. If `filled`, the files have data that cannot be compressed, or
        else they are empty. If `direct`, they are read and written with O_DIRECT where that works.
        """
        if self.spec.device:
            return [self._device(block_size)] * self.spec.clients
        whole = count * bytes_each * self.spec.clients
        enough(self.storage, whole)
        title = f"write {show_size(whole)} of files" if filled else "make files"
        with self.progress.task(title, total=whole if filled else None) as task:
            return [
                self.workspace.files(
                    f"{name}-{client}",
                    count,
                    bytes_each,
                    block_size=block_size,
                    filled=filled,
                    direct=direct,
                    wrote=task.advance,
                )
                for client in range(self.spec.clients)
            ]

    @cached_property
    def _proof(self) -> ReadProof:
        return ReadProof(self.host, None if self.spec.device else self.storage)

    def cores(self) -> int:
        """Return how many processors this process may use."""
        return len(os.sched_getaffinity(0))

    def file_system(self) -> str:
        """Return the file system and its device, as ioping shows them: `ext4 vda`."""
        if self.spec.device:
            return "block device"
        mount = self.host.mount_of(self.storage)
        return f"{mount.type} {mount.source}" if mount else "unknown"

    def writable(self, *, writes: bool) -> None:
        """Raise Impossible if the probe writes on a raw device, and must not.

        It may write there only with a single client, on an empty and unused device whose serial
        number the user gave. `writes` is True if the probe writes.
        """
        if self.spec.device and writes:
            if self.spec.clients > 1:
                raise Impossible("only one client can write on a raw device")
            devices.may_write(self.spec.device, self.spec.i_will_lose_data)

    def drop(self, targets: Sequence[IoTarget]) -> None:
        """Drop the targets' files from the page cache, except pages not yet written to disk."""
        for target in targets:
            for path in target.paths:
                fd = os.open(path, os.O_RDONLY)
                try:
                    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                finally:
                    os.close(fd)

    def run_io(self, title: str, jobs: Sequence[IoJob], targets: Sequence[IoTarget]) -> IoRun:
        """Run jobs of reads and writes with a progress bar; return and record their results.

        `targets` has the files of each client; every client does all of the `jobs`.
        """
        marks: list[int] = []
        jobs = [_adapted(job, targets[0]) for job in jobs]
        if any(job.writes for job in jobs):
            self.findings.writes = True
        with _bar(self.progress, title, jobs) as advance, self.window() as begin:

            def opened() -> None:
                begin()
                self._proof.begin()
                marks.append(self.sampler.mark())

            io = self._run_io(title, jobs, targets, watch=advance, opened=opened)
            marks = [marks[-1], self.sampler.mark()]
        if not self.clients.names:
            io = replace(io, idle=_idle(self.sampler, *marks))
        self._record_loops(io)
        self._say_window(jobs, targets, io, marks)
        if self._first_ns is None:
            self._first_ns = marks[0]
        self._count(jobs, io)
        self._prove(jobs, targets, io, marks)
        self.findings.series = self.sampler.series(self._first_ns, marks[1], self._points)
        return io

    @contextmanager
    def window(self) -> Iterator[Callable[[], None]]:
        """Record what other programs did in a measured window, which ends with the `with` block.

        Yields the function that begins it, to be called just before the work starts. Of several
        windows the one that was disturbed most is recorded; those of less than a second count
        together. If the clients are other hosts, nothing is recorded: the work is not done here.
        """
        begun: list[AccountMark] = []

        def begin() -> None:
            begun.append(interference.point(self.host, [], self.sampler.layers))

        yield begin
        if not begun or self.clients.names:
            return
        after = interference.point(self.host, [], self.sampler.layers)
        first = self._first_account = self._first_account or begun[-1]
        if others := interference.judged(begun[-1], after):
            self._others.append(others)
        if self._others:
            self.findings.foreign = interference.busiest(self._others)
        else:
            self.findings.foreign = interference.judged(first, after)

    def _record_loops(self, io: IoRun) -> None:
        """Record which loops did the work of this step so far; add a note if numba refused one.

        There is no fact if all were Python's, as in results of earlier versions.
        """
        for client, results in enumerate(io.by_client):
            self._loops.update(map(_loop, results))
            for refusal in {one_line(one.refusal) for one in results if one.refusal}:
                where = f"{self.client_name(client)}: " if self.clients.names else ""
                self.findings.note(
                    f"{where}the package numba did not compile the loop of reads and writes, so "
                    f"Python ran it: {refusal}"
                )
        if _COMPILED in self._loops:
            self.findings.facts["storage.loop"] = " and ".join(sorted(self._loops, reverse=True))

    def _say_window(
        self, jobs: Sequence[IoJob], targets: Sequence[IoTarget], io: IoRun, marks: Sequence[int]
    ) -> None:
        """Record the probe's measured window (its time and the work done) if it is the only one.

        After a second window, or with client hosts, the findings have no window.
        """
        alone = self._first_ns is None and not self.clients.names
        results = [io.of(place) for place in range(len(jobs))]
        self.findings.window = (
            MeasuredWindow(
                begin_ns=marks[0],
                end_ns=marks[1],
                operations=sum(result.operations for result in results),
                operation="I/O",
                sessions=sum(job.threads for job in jobs) * len(targets),
                whose="replayer",
            )
            if alone
            else None
        )

    def _run_io(
        self,
        title: str,
        jobs: Sequence[IoJob],
        targets: Sequence[IoTarget],
        *,
        watch: Callable[[int], None],
        opened: Callable[[], None],
    ) -> IoRun:
        if not self.clients.names:
            io = run_io(jobs, targets, watch=watch, opened=opened)
            return io if interference.counts_reads(self.host) else replace(io, own_bytes=None)
        used: list[float] = []

        def ended(pool: Pool, shares: Sequence[tuple[int, ThreadResult]]) -> None:
            depth = sum(job.threads for job in jobs)
            hosts = ClientHosts(self.clients, [depth] * len(targets), title)
            done = Counter[int]()
            for client, share in shares:
                done[client] += sum(seen.operations for seen in share.latencies)
            for client, operations in done.items():
                hosts.heard(client, operations)
            seconds = max((job.seconds or 0.0 for job in jobs), default=0.0)
            hosts.record(self.findings, pool.shares, seconds if shares and seconds else None)
            used.extend(share.cpu_share for share in pool.shares if share.cpu_share is not None)

        io = run_io_on_hosts(jobs, targets, self.clients, watch=watch, opened=opened, ended=ended)
        return replace(io, idle=1 - max(used) if used else None)

    def client_name(self, place: int) -> str:
        """Return the name of the client with this index: its host's name, or its number from 1."""
        return self.clients.names[place] if self.clients.names else str(place + 1)

    def io_rows(self, io: IoRun, jobs: Sequence[IoJob], targets: Sequence[IoTarget]) -> None:
        """Add rows for each job to the table `io`: one for each client, and one for all together.

        If the processors or the Python interpreter limited the jobs, and not the storage, add a
        note on that.
        """
        for place, job in enumerate(jobs):
            if len(targets) > 1:
                for client, results in enumerate(io.by_client):
                    self._io_row(self.client_name(client), results[place], job.threads, io)
            whole = "all" if len(targets) > 1 else "1"
            self._io_row(whole, io.of(place), job.threads * len(targets), io)
        self._note_limit(io, " and ".join(map(label, jobs)))

    def _note_limit(self, io: IoRun, what: str) -> None:
        if not io.limit:
            return
        could_be = [one for one in chain(*io.by_client) if one.job.compilable and not one.compiled]
        remedy = (
            ": pip install 'replayer[compiled]' makes the loop machine code"
            if could_be and not any(one.refusal for one in could_be)
            else ": a program without an interpreter may get more"
        )
        if io.limit == "processors" and io.compiled:
            self.findings.note(f"{what}: the processors were the limit, not the storage")
        elif io.limit == "processors":
            self.findings.note(
                f"{what}: the processors were the limit, not the storage, and {io.loop_share:.0%} "
                f"of what these reads and writes took of them was Python's{remedy}"
            )
        else:
            self.findings.note(
                f"{what}: for {io.loop_time:.0%} of its time a thread was in Python, with nothing "
                f"under way{remedy}"
            )

    def _io_row(self, client: str, result: IoResult, depth: int, io: IoRun) -> None:
        job = result.job
        operation = {1.0: "read", 0.0: "write"}.get(job.read_share, "mixed")
        self.findings.row(
            "io",
            access=job.access.value,
            operation=operation,
            client=client,
            block_bytes=job.block_size,
            depth=depth,
            direct=job.direct and not self.findings.facts.get("storage.fallback"),
            iops=result.iops,
            **{"MB/s": result.throughput / 1e6},
            **summary(result.latencies),
            cpu_us=io.cpu_per_operation * 1e6,
            limit=io.limit,
            loop=_loop(result),
        )

    def _device(self, block_size: int) -> IoTarget:
        target = devices.target(self.spec.device)
        self.findings.facts["storage.device"] = devices.name_of(self.spec.device)
        if target.file_bytes < block_size:
            raise Impossible(f"{self.spec.device} is smaller than one block of {block_size} bytes")
        return target

    def _count(self, jobs: Sequence[IoJob], io: IoRun) -> None:
        """Add operations and bytes of each second to the series `probe.iops` and `probe.bytes`."""
        for column, factor in (("iops", lambda _: 1.0), ("bytes", lambda job: job.block_size)):
            points = self._points.setdefault(f"probe.{column}", [])
            total = points[-1][1] if points else 0.0
            steps: dict[int, float] = {}
            for place, job in enumerate(jobs):
                result = io.of(place)
                steps.setdefault(result.begin_ns, 0.0)
                for second, many in enumerate(result.per_second):
                    end = result.begin_ns + int(min(second + 1, result.seconds) * 1e9)
                    steps[end] = steps.get(end, 0.0) + many * factor(job)
            for clock_ns in sorted(steps):
                total += steps[clock_ns]
                points.append((clock_ns, total))

    def _prove(
        self,
        jobs: Sequence[IoJob],
        targets: Sequence[IoTarget],
        io: IoRun,
        marks: Sequence[int],
    ) -> None:
        """Compare the bytes that were asked for with those that the device delivered.

        Of writes, only those to files in memory are in doubt.  Notes are added where the comparison
        is impossible, or where O_DIRECT does not work.
        """
        facts = self.findings.facts
        facts.setdefault("storage.device", self.sampler.device)
        if any(job.direct for job in jobs) and not targets[0].direct:
            facts["storage.fallback"] = "fsync and fadvise instead of O_DIRECT"
            self.findings.note(
                "direct I/O does not work on this mount: each write is followed by fdatasync and "
                "each read is preceded by POSIX_FADV_DONTNEED instead"
            )
        writes = any(job.writes for job in jobs)
        # `_adapted` made jobs drop pages where O_DIRECT does not work.
        if not writes and not all(job.direct or job.drop for job in jobs):
            return
        if writes:
            why = "" if self.clients.names else self._proof.writes_doubt
        elif self.clients.names:
            why = "the reads of the client hosts' devices are not counted, so nothing proves ours"
        else:
            watched = facts["storage.device"] == self.sampler.device
            delta = self.sampler.device_delta(*marks) if watched else None
            why = self._proof.end(io, delta) or self._proof.doubt
        if self._proof.share is not None:
            facts["storage.device_share_of_reads"] = round(self._proof.share, 4)
        if why:
            facts["storage.unproven"] = why
            self.findings.note(why)

    def alternate(
        self,
        what: str,
        program: str,
        unit: str,
        ours: Callable[[], float],
        theirs: Callable[[], float],
        *,
        rounds: int = 2,
    ) -> None:
        """Measure with replayer and with another tool in turn, `rounds` times; compare both.

        `ours` and `theirs` each make one measurement of `what`, in `unit`; `program` is the other
        tool. The medians and their ratio are added to the table `cross_check`. If the tool is not
        installed, only a note is added.
        """
        if reference_tools.installed(program) is None:
            self.findings.note(f"cross-check skipped: {program} is not installed")
            return
        mine: list[float] = []
        other: list[float] = []
        with self.progress.task(f"cross-check with {program}: {what}", total=2 * rounds) as task:
            for _ in range(rounds):
                mine.append(ours())
                task.advance(1)
                other.append(theirs())
                task.advance(1)
        self.compared(what, program, unit, mine, other)

    def compared(
        self, what: str, program: str, unit: str, mine: Sequence[float], other: Sequence[float]
    ) -> None:
        """Add a row to the table `cross_check`: replayer's median, the tool's, and their ratio.

        `mine` are replayer's measurements and `other` those of the tool `program`, in `unit`.
        """
        self.findings.row(
            "cross_check",
            what=what,
            tool=program,
            unit=unit,
            replayer=median(mine),
            peer=median(other),
            ratio=median(mine) / median(other) if median(other) else None,
            rounds=len(mine),
        )


def _idle(sampler: Sampler, begin_ns: int, end_ns: int) -> float | None:
    """Return the idle share of the processors' time between two times, from 0 to 1.

    These are the processors that replayer may use. Time of waiting for I/O counts as idle. The
    times are in ns of the sampler's clock. Returns None if the share is not known.
    """
    series = sampler.series(begin_ns, end_ns)
    allowed = series.columns.get("allowed_cpu.%idle")
    whole_machine = (series.columns.get(f"cpu.%{state}", ()) for state in ("idle", "iowait"))
    idle = [allowed] if allowed is not None else list(whole_machine)
    shares = [None if None in pair else sum(pair) / 100 for pair in zip(*idle, strict=True)]
    ends = series.seconds
    spans = [end - begin for begin, end in zip((0.0, *ends), ends, strict=False)]
    known = [(share, span) for share, span in zip(shares, spans, strict=True) if share is not None]
    whole = sum(span for _, span in known)
    return sum(share * span for share, span in known) / whole if whole else None


def _adapted(job: IoJob, target: IoTarget) -> IoJob:
    """Return the job; a direct job is changed if its files do not allow O_DIRECT.

    The changed job drops the files' pages before it reads, and calls fdatasync after it writes.
    """
    if not job.direct or target.direct:
        return job
    sync = Sync.FDATASYNC if job.writes and job.sync is Sync.NONE else job.sync
    return replace(job, drop=job.read_share > 0, sync=sync)


def _loop(result: IoResult) -> str:
    return _COMPILED if result.compiled else "Python"


def label(job: IoJob) -> str:
    """Return a job in words, such as `8 KiB random reads at depth 4`."""
    kind = {1.0: "reads", 0.0: "writes"}.get(job.read_share, "reads and writes")
    order = "sequential" if job.access is BlockOrder.SHARED else job.access.value
    size = show_size(job.block_size).replace(".00", "")
    return f"{size} {order} {kind} at depth {job.threads}"


@contextmanager
def _bar(progress: Progress, title: str, jobs: Sequence[IoJob]) -> Iterator[Callable[[int], None]]:
    """Show a progress bar while jobs run; yield the function that adds a number of done operations.

    The bar grows with time if every job ends by the clock, or else with the operations.
    """
    seconds = max((job.seconds or 0) + job.warmup for job in jobs)
    by_time = all(job.operations is None for job in jobs)
    total = seconds if by_time else sum(job.operations or 0 for job in jobs)
    with progress.task(title, total=total) as task:
        began = time.monotonic()
        rates = Rates(progress)
        done = 0

        def advance(operations: int) -> None:
            nonlocal done
            done += operations
            spent = time.monotonic() - began
            task.update(done=min(spent, total) if by_time else done)
            if spent > 1:
                task.update(note=f"{done / spent:,.0f} IOPS")
            rates.count({"operations": done})

        yield advance
