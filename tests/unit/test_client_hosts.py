"""A load on several hosts: the statements of one, whatever their clocks, and each one's share."""

import math
import socket
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, Self, cast

import numpy as np
import pytest

from replayer.analysis.advice import warnings
from replayer.analysis.differences import samples
from replayer.analysis.differences.comparison import compare
from replayer.analysis.differences.environment import Sort
from replayer.analysis.differences.samples import Side
from replayer.analysis.differences.selection import choose
from replayer.engines import engine as engines
from replayer.engines.driver import Connector
from replayer.engines.wire_session import DriverStatement, Packing
from replayer.errors import HostLost, Impossible, ReplayerError
from replayer.load import clients, level, timer
from replayer.load.clients import ClientJob
from replayer.load.mix import WeightedMix
from replayer.load.requests import Keys, Requests, StreamPart
from replayer.load.statement_counts import LoadCounts
from replayer.model import EngineFacts, Fact, Foreign, Run, Status
from replayer.report.documents import run_details
from replayer.report.terminal import console
from replayer.report.writers import terminal_writer
from replayer.results import store
from replayer.run import runner
from replayer.run.client_hosts import ClientHosts
from replayer.run.context import Context
from replayer.run.plan import request
from replayer.run.plan import workload as workload_file
from replayer.run.runner import _status
from replayer.run.step_recorder import StepRecorder
from replayer.storage.io_job import BlockOrder, IoJob, IoTarget, ThreadResult
from replayer.storage.io_result import IoResult, overlapped
from replayer.storage.io_run import run_io_on_hosts
from replayer.tables.pgio import TableSet
from replayer.watch import client_pools, workers
from replayer.watch.histogram import Latencies, Recorder
from tests.fixture_types import RunOf
from tests.made import csv_of, markdown_of, page_of

HOUR = 3600 * 10**9
HALF_AN_HOUR = 1800
"""Seconds: no time is as long that is not wrong by what a clock is."""
STATEMENTS = (
    DriverStatement("range", "", ("first", "last"), 5.0, 7, 0.0),
    DriverStatement("insert", "", ("first", "last"), 2.0, 90, 0.0),
)


@dataclass(frozen=True)
class Share:
    """What a pool says of a host, as the hosts' own has it."""

    name: str
    start_us: float | None = 0.0
    bound_us: float | None = 100.0
    drift_ppm: float | None = None
    first_s: float | None = 9.9
    last_s: float | None = 10.1
    cores: int | None = 4
    cpu_share: float | None = 0.3
    replayer_cores: float | None = 1.0
    agent_cpu_s: float | None = 0.01
    lost: bool = False
    heard_s: float | None = None


class Hosts:
    """Clients on hosts of these names, whose pools have these shares."""

    def __init__(self, *names: str, cores: int = 4, shares: Sequence[Any] = ()) -> None:
        self.names, self.cores = names, cores
        self.shares = shares

    def pool(self, work: Any, jobs: Any, *, processes: int, awaited: Any = None) -> Any:
        """Return a pool of these shares."""
        return FakePool(self.shares)


class FakePool:
    """A pool without jobs, which starts 50 ms after it was agreed upon."""

    def __init__(self, shares: Sequence[Any]) -> None:
        self.shares = shares
        self.calls: list[Any] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.calls.append("end")

    def approach(self, lead: float) -> None:
        """Note how long before the start it returns."""
        self.calls.append(lead)

    def open(self) -> int:
        """Start."""
        self.calls.append("open")
        return 7


def job_of(
    part: StreamPart, stream: int = 0, rate: float | None = 700.0, seconds: float = 2.0
) -> ClientJob:
    """Return the job of a part of a stream."""
    names = tuple(("",) for number in range(part.sessions) if number % part.of == part.number)
    return ClientJob(
        number=part.number, stream=stream, part=part, connector=Connector("postgres", {}),
        first=(), names=names, statements=STATEMENTS, settle=(), keys=Keys(1000, None),
        seconds=seconds, rate=rate, arrivals="poisson", resolution=0.0, patience=5.0, seed=3,
    )  # fmt: skip


def sent(job: ClientJob, number: int) -> list[Any]:
    """Return the first statements of a job in the order in which they are sent."""
    requests = Requests(job.statements, job.keys, job.stream, job.seed, Packing(">"), part=job.part)
    ready: list[Any] = []
    order: list[Any] = []
    while len(order) < number:
        ready = ready or requests.batch()
        order.append(ready.pop())
    return order


@pytest.mark.parametrize(("sessions", "parts"), [(16, 2), (16, 3), (5, 5), (7, 2)])
def test_parts_of_a_stream_send_at_each_instant_what_one_process_would(
    sessions: int, parts: int
) -> None:
    """Statement and intended start of every place are the same, whichever host they are on."""
    whole = job_of(StreamPart(0, 1, sessions))
    times = clients.intended_starts(whole)[::-1]
    once = list(zip(times, sent(whole, len(times)), strict=True))

    dealt: list[Any] = []
    for number in range(parts):
        job = job_of(StreamPart(number, parts, sessions))
        own = clients.intended_starts(job)[::-1]
        dealt += zip(own, sent(job, len(own)), strict=True)
        # Each session has as many statements as any other.
        assert len(own) / job.sessions == pytest.approx(len(times) / sessions, abs=1)

    assert len(once) == 1400
    assert sorted(dealt) == once


@pytest.mark.parametrize("hosts", [0, 1, 2, 3, 7, 16, 40])
@pytest.mark.parametrize("rate", [None, 100.0, 50_000.0])
@pytest.mark.parametrize("sessions", [1, 16, 64])
def test_every_host_gets_as_many_jobs_and_every_session_belongs_to_one(
    monkeypatch: pytest.MonkeyPatch, hosts: int, rate: float | None, sessions: int
) -> None:
    """Sessions are dealt evenly to as many hosts as there are sessions; the streams do not move."""
    asked = level.LevelRequest(sessions, 1.0, WeightedMix(range=1), TableSet(1000, 1, 1), rate=rate)
    monkeypatch.setattr(level, "_statements", lambda asked, database: iter(STATEMENTS))
    monkeypatch.setattr(level, "_texts", lambda database, verb, number=0, **_: (str(number),))
    database: Any = SimpleNamespace(connector=lambda: Connector("postgres", {}))
    names = tuple(f"host{number}" for number in range(hosts))
    here = list(level._jobs(asked, database, client_pools.LOCAL_CLIENTS))
    jobs = list(level._jobs(asked, database, Hosts(*names, cores=4 * hosts)))

    assert [job.number for job in jobs] == list(range(len(jobs)))
    dealt = Counter(name for job in jobs for name in job.names)
    assert dealt == {(str(number),): 1 for number in range(1, sessions + 1)}
    assert {(job.stream, job.rate) for job in jobs} == {(job.stream, job.rate) for job in here}
    if not hosts:
        assert jobs == here
    elif math.lcm(hosts, len({job.stream for job in here})) <= sessions:
        by_host = Counter(job.number % hosts for job in jobs)
        assert len(by_host) == hosts
        assert len(set(by_host.values())) == 1
        of_host = [sum(job.sessions for job in jobs[host::hosts]) for host in range(hosts)]
        assert max(of_host) - min(of_host) <= 1


class Echo:
    """A session whose server answers at once."""

    packing = Packing(">")
    sqlstate = ""

    def __init__(self) -> None:
        self._own, self._other = socket.socketpair()

    def fileno(self) -> int:
        """Return the socket."""
        return self._own.fileno()

    def send_prepared(self, place: Any, payload: Any) -> None:
        """Send a statement, of which the answer is there at once."""
        self._other.send(b"x")

    def receive(self) -> bool:
        """Take the answer."""
        self._own.recv(1)
        return True

    def close(self) -> None:
        """Close both ends."""
        self._own.close()
        self._other.close()


def test_a_process_without_a_statement_holds_no_load_up() -> None:
    """It is neither late nor busy; if all processes are so, this is the reason."""
    sessions: list[Any] = [Echo()]
    job = replace(job_of(StreamPart(0, 1, 1), rate=0.02, seconds=20.0), statements=STATEMENTS[:1])
    idle = clients._Clients(job, sessions, print)
    idle.run(time.monotonic_ns())
    idle.close()
    sessions[0].close()
    result = idle.result()
    busy = replace(result, offered=1, ended=12.0)
    counts = LoadCounts.of([result.tally, busy.tally])
    asked = level.LevelRequest(2, 20.0, WeightedMix(range=1), TableSet(1000, 1, 1), rate=0.02)

    assert result.offered == 0
    assert sum(result.cpu) / result.ended < 1
    assert level._unsustained(asked, [busy, result], counts, 1) == ""
    assert level._unsustained(asked, [result], counts, 0).startswith("no statement was drawn: 0.02")


@pytest.mark.parametrize("rate", [None, 500.0])
def test_what_clients_return_and_report_is_of_no_clock(
    monkeypatch: pytest.MonkeyPatch, rate: float | None
) -> None:
    """On a host whose clock is an hour ahead everything is as on one whose clock is ours."""

    def on_a_clock(ahead: int) -> tuple[clients.ClientResult, list[Any]]:
        moved = SimpleNamespace(monotonic_ns=lambda: time.monotonic_ns() + ahead, sleep=time.sleep)

        class Alarm(timer.TimerFd):
            def set(self, clock_ns: int) -> None:
                super().set(clock_ns - ahead)

        with monkeypatch.context() as patch:
            patch.setattr(clients, "time", moved)
            patch.setattr(clients, "TimerFd", Alarm)
            patch.setattr(clients, "_REPORT_NS", 10**8)
            sessions: list[Any] = [Echo(), Echo()]
            reports: list[Any] = []
            job = replace(
                job_of(StreamPart(0, 1, 2), rate=rate, seconds=0.3), statements=STATEMENTS[:1]
            )
            load = clients._Clients(job, sessions, reports.append)
            load.run(moved.monotonic_ns())
            load.close()
            for one in sessions:
                one.close()
        return load.result(), reports

    def with_reports(ahead: int) -> tuple[clients.ClientResult, list[Any]]:
        """Return a load that reported: one that did not get a processor in its 0.3 s did not."""
        tries = (on_a_clock(ahead) for _ in range(20))
        return next(one for one in tries if one[1])

    (result, reports), (other, others) = with_reports(0), with_reports(HOUR)

    for one, points in ((result, reports), (other, others)):
        assert 0 < one.ended < HALF_AN_HOUR
        assert 0 <= one.last_empty < HALF_AN_HOUR
        assert all(0.1 <= point.seconds < HALF_AN_HOUR for point in points)
        assert all(0 <= point.waiting_since < HALF_AN_HOUR for point in points)
        assert one.tally.service["range"].most_ns < HALF_AN_HOUR * 10**9
        assert len(one.tally.answers) < HALF_AN_HOUR
    if rate is not None:
        assert other.offered == result.offered == 150
        both = LoadCounts.of([result.tally, other.tally])
        assert both.begun.tolist() == [2 * many for many in result.tally.begun.tolist()]


def test_shares_are_rows_and_the_worst_start_is_a_fact() -> None:
    """Each host has a row for each window; a spread has the bound of the two least known clocks."""
    findings = StepRecorder()
    shares = [Share("a", -200.0, 300.0), Share("b", 900.0, 40.0), Share("c", 0.0, 50.0)]
    hosts = ClientHosts(Hosts("a", "b", "c"), [2] * 6, "sessions")
    for number in range(6):
        hosts.heard(number, 10 * (number + 1))
    hosts.record(findings, shares, 10.0)
    calm = [replace(share, start_us=0.0, bound_us=1.0) for share in shares]
    hosts.record(findings, calm, 10.0)

    rows = findings.tables["hosts"][:3]
    assert [(row["host"], row["sessions"], row["operations"]) for row in rows] == [
        ("a", 4, 50), ("b", 4, 70), ("c", 4, 90),
    ]  # fmt: skip
    assert sum(row["share"] for row in rows) == pytest.approx(1, abs=1e-5)
    assert findings.facts == {"cluster.start_spread_us": 1100.0, "cluster.start_bound_us": 350.0}
    assert hosts.note(2.0) == "a 25/s, b 35/s, c 45/s"
    assert not findings.notes


def test_what_a_lost_host_had_done_is_kept_and_makes_the_run_partial() -> None:
    """The shares of a window that is cut short are written down; the run is not a failed one."""
    context = Context.__new__(Context)
    context.findings = StepRecorder()
    context.clients = Hosts("a", "b", shares=[Share("a"), Share("b", lost=True, heard_s=3.25)])
    jobs = [SimpleNamespace(sessions=8)] * 2

    def lose() -> NoReturn:
        with context.pool(cast("Any", None), jobs, processes=2, window="load") as (_, hosts):
            hosts.heard(1, 1234)
            raise HostLost("b has not answered for 4 s")

    with pytest.raises(HostLost) as raised:
        lose()

    first, second = context.findings.tables["hosts"]
    assert (first["lost"], second["lost"], second["operations"]) == (False, True, 1234)
    assert second["per_second"] is None
    assert context.findings.notes == [
        "b was last heard 3.2 s after the start, when its sessions had done 1,234 operations"
    ]
    assert _status(raised.value) is Status.PARTIAL


def test_accounts_are_read_just_before_an_agreed_start_and_once_where_there_is_none() -> None:
    """With hosts they are rehearsed, and begun early enough; on one host nothing is done twice."""
    pool: Any = FakePool(())
    read: list[list[Any]] = []

    def accounts() -> int:
        read.append(list(pool.calls))
        time.sleep(0.02)
        return len(read)

    assert client_pools.opened(pool, Hosts("a"), accounts) == (2, 7)
    lead = pool.calls[0]
    assert 0.05 < lead < 5
    assert pool.calls == [lead, "open"]
    assert read == [[], [lead]]

    pool.calls.clear()
    assert client_pools.opened(pool, client_pools.LOCAL_CLIENTS, accounts) == (3, 7)
    assert pool.calls == ["open"]


def row(host: str, **columns: Any) -> Any:
    """Return a host's row in a table of hosts."""
    findings = StepRecorder()
    ClientHosts(Hosts(host), [1], "sessions").record(findings, [Share(host, **columns)], 10.0)
    (only,) = findings.tables["hosts"]
    return only


def with_hosts(run: Run, *rows: Any, **changes: Any) -> Run:
    """Return a run whose first step has these rows of hosts."""
    facts = {"cluster.start_spread_us": 96.0, "cluster.start_bound_us": 100.0}
    step = run.steps[0].model_copy(update={"tables": {"hosts": rows}, "facts": facts})
    return run.model_copy(update={"steps": (step, *run.steps[1:]), **changes})


def test_the_warning_names_hosts_that_were_too_busy_but_not_the_databases_own(
    run_of: RunOf,
) -> None:
    """The server's own host is busy by the server; the others may be what limited."""
    rows = (row("a", cpu_share=0.9), row("db", cpu_share=0.95), row("c", cpu_share=0.5))
    run = with_hosts(run_of([1.0]), *rows, cluster={"hosts": ("a", "c", "db"), "database": "db"})
    advice = warnings.client_bound(run)

    assert advice is not None
    assert "processor time of a was used" in str(advice)
    assert warnings.client_bound(with_hosts(run_of([1.0]), row("c"))) is None


def test_the_last_window_is_shown_and_the_busiest_counts(run_of: RunOf) -> None:
    """A step of many windows shows its last; a host that was busy in an earlier one is told."""
    rows = (
        *(row("a", cpu_share=0.9), row("b", cpu_share=0.1)),
        *(row("a", cpu_share=0.2, last_s=7.0), row("b", cpu_share=0.1, lost=True)),
    )
    run = with_hosts(run_of([1.0]), *rows)
    text = console.text(terminal_writer.render(run_details.document(run)))

    assert "client-bound" in text
    assert "(a 90%)" in text
    assert "the last of 2 windows" in text
    assert "7.00 s" in text
    assert "LOST" in text
    assert "within 96.0 µs of each other, ± 100 µs" in text


def test_the_shares_are_in_every_form_of_the_report(run_of: RunOf) -> None:
    """CSV, Markdown and the page have each host's rate; the sum is beside them."""
    run = with_hosts(run_of([1.0]), row("cl1", cpu_share=0.9), row("cl2"))
    sides = [Side("A", (run,))]

    assert ",hosts.cl1.cpu_share,0.9,of its processors,neither" in csv_of(sides)
    assert "hosts.cl2.agent_cpu_s" in csv_of(sides)
    for text in (markdown_of(sides, None), page_of(sides, None)):
        assert "cl1 90%" in text
        assert "sum" in text
        assert "within 96.0 µs" in text
    assert "Client hosts" not in page_of([Side("A", (run_of([1.0]),))], None)


def test_a_host_with_few_operations_has_its_rate(run_of: RunOf) -> None:
    """One operation in 20 seconds is not 0 a second."""
    rows = ({**row("cl1"), "per_second": 0.05}, {**row("cl2"), "per_second": 4.13})
    run = with_hosts(run_of([1.0]), *rows)
    text = console.text(terminal_writer.render(run_details.document(run)))

    assert all(f" {rate}/s" in text for rate in ("0.0500", "4.13", "4.18"))


@pytest.mark.parametrize(
    "damage",
    [
        *({"host": 0}, {"first_done_s": ""}, {"client_cores": "2026"}, {"start_us": []}),
        *({"cpu_share": "x"}, {"window": None}),
    ],
)
def test_a_damaged_row_of_a_host_is_left_out(run_of: RunOf, damage: dict[str, Any]) -> None:
    """A result file may have been edited; the hosts with whole rows are shown."""
    run = with_hosts(run_of([1.0]), row("cl1"), {}, {**row("cl2"), **damage})
    text = console.text(terminal_writer.render(run_details.document(run)))

    assert warnings.client_bound(run) is None
    assert "cl1" in text
    assert "cl2" not in text
    assert "cl1" in page_of([Side("A", (run,))], None)
    assert "hosts.cl1" in csv_of([Side("A", (run,))])


def test_other_hosts_are_what_else_differed(run_of: RunOf) -> None:
    """Runs from one host and from two are compared, and the hosts stand beside the numbers."""
    two = run_of([1.0, 2.0]).model_copy(update={"cluster": {"hosts": ("a", "b")}})
    found = compare(Side("A", (run_of([1.0, 2.0]),)), Side("B", (two,)))

    (only,) = [one for one in found.differences if one.key == "cluster.hosts"]
    assert (only.sort, only.base, only.other) == (Sort.EXPLAINS, ("-",), ("a, b",))


def test_partial_runs_are_set_aside_and_counted(run_of: RunOf, tmp_path: Path) -> None:
    """Of a folder only whole runs are compared; a partial one that is named is told to be one."""
    partial = run_of([5.0], status=Status.PARTIAL).model_copy(update={"error": "b is lost"})
    for run in (run_of([1.0]), run_of([2.0]), partial):
        store.save(store.reserve(tmp_path, run), run)
    chosen = choose([str(tmp_path)], tmp_path)

    assert len(chosen.sides[0].runs) == 2
    (said,) = chosen.said
    assert "1 run failed, lost a host or measured nothing and is set aside" in said
    assert "b is lost" in said
    assert Status.PARTIAL in {getattr(one, "status", None) for one in store.runs(tmp_path)}
    assert "it is partial: only its finished steps count" in samples.counted(partial)[1]


@pytest.mark.parametrize(
    ("name", "idle"),
    [("demo", False), ("slob-physical", False), ("cold-walk", True), ("pg-fsync", True)],
)
def test_hosts_for_a_workload_without_sessions_are_refused(name: str, *, idle: bool) -> None:
    """What other hosts have no part in is said before anything is begun, with what there is."""
    loaded = workload_file.load(name)
    if not idle:
        request.refuse_idle(loaded, "--clients")
        return
    with pytest.raises(Impossible, match=r"--clients: no step of .* has sessions"):
        request.refuse_idle(loaded, "--clients")


@pytest.mark.parametrize(
    ("url", "refused"),
    [
        ("postgresql://me@localhost/x", True),
        ("postgresql://me@127.0.0.2:5433/x", True),
        ("postgresql://me@[::1]/x", True),
        ("postgresql:///x?host=/run/postgresql", True),
        ("postgresql://me@10.0.0.7/x", False),
        ("postgresql://me@db.example/x", False),
        ("mysql://me@127.0.0.1/x", True),
    ],
)
def test_a_url_that_is_another_machine_for_each_client_is_refused(
    url: str, *, refused: bool
) -> None:
    """A loopback or a socket is reached by the hosts that share it, and by no other."""
    order = runner.RunRequest(workload_file.load("demo"), engines.of_url(url), url=url)
    request.refuse_loopback(order, [])
    if not refused:
        request.refuse_loopback(order, ["a", "b"])
        return
    with pytest.raises(Impossible, match="the clients on a, b do not reach the server"):
        request.refuse_loopback(order, ["a", "b"])


def io_result(begin_s: float, per_second: Sequence[int], seconds: float | None = None) -> IoResult:
    """Return what a host did, in its own window of as many seconds."""
    job = IoJob(name="io", threads=1, block_size=8192, seconds=60.0)
    seen = Recorder()
    seen.add(np.full(sum(per_second), 1000))
    return IoResult(
        job=job, seconds=seconds or float(len(per_second)), reads=seen.recorded(),
        writes=Latencies(), issued_reads=sum(per_second), issued_writes=0,
        per_second=tuple(per_second), begin_ns=round(begin_s * 1e9),
    )  # fmt: skip


def test_hosts_are_summed_over_the_window_in_which_all_of_them_worked() -> None:
    """What one did before the others began or after one had ended is in no sum, but in its own."""
    one, other = io_result(100.0, [100] * 10), io_result(102.0, [50] * 5 + [1000] * 15)
    both = overlapped([one, other])

    assert (both.seconds, both.begin_ns) == (8.0, 102 * 10**9)
    assert both.operations == 800 + 250 + 3000
    assert both.iops == pytest.approx(4050 / 8)
    assert one.iops == 100
    assert both.latencies.operations == 1000 + 15_250
    # Half a second is half of what was done in it.
    shifted = overlapped([one, io_result(100.5, [200] * 10)])
    assert (shifted.seconds, shifted.operations) == (9.5, 950 + 1900)
    with pytest.raises(ReplayerError, match="no time in which all hosts worked"):
        overlapped([one, io_result(111.0, [1])])


def test_instants_of_a_share_are_moved_onto_another_clock() -> None:
    """What is moved there and back is what it was, and nothing but instants is moved."""
    share = ThreadResult(5 * 10**9, 8 * 10**9, True, (3, 0), (Latencies(), Latencies()), (1, 2))
    moved = share.moved(HOUR)

    assert moved.window_begin_ns - share.window_begin_ns == HOUR
    assert moved.last_ns - share.last_ns == HOUR
    assert moved.moved(-HOUR) == share


class Turns(Hosts):
    """Hosts that are this one: a pool deals its jobs to one host after the other."""

    def pool(self, work: Any, jobs: Any, *, processes: int, awaited: Any = None) -> Any:
        """Return a pool of this host."""
        self.jobs = list(jobs)
        return workers.WorkerPool(work, jobs, processes=processes, awaited=awaited)


def test_each_host_reads_its_own_files_and_the_sum_is_of_all(tmp_path: Path) -> None:
    """Threads of a client are all on its host, as many on each, and rates add up."""
    targets = []
    for client in range(2):
        path = tmp_path / f"client{client}"
        path.write_bytes(bytes(1 << 20))
        targets.append(IoTarget((str(path),), 1 << 20, direct=False))
    job = IoJob(name="io", threads=3, block_size=4096, direct=False, operations=300)
    hosts = Turns("a", "b")
    ended: list[Any] = []
    io = run_io_on_hosts(
        [job], targets, hosts, watch=lambda _: None, opened=lambda: None,
        ended=lambda pool, shares: ended.extend(shares),
    )  # fmt: skip

    assert [thread.client for thread in hosts.jobs] == [0, 1] * 3
    assert all(thread.apart for thread in hosts.jobs)
    assert [[one.operations for one in results] for results in io.by_client] == [[300], [300]]
    assert io.of().latencies.operations == 600
    assert [client for client, _ in ended] == [0, 1] * 3
    shared = replace(job, access=BlockOrder.SHARED)
    never: Any = None
    with pytest.raises(Impossible, match="use sequential"):
        run_io_on_hosts([shared], targets, hosts, watch=never, opened=never, ended=never)


@pytest.mark.parametrize(
    ("hosts", "directory", "told"),
    [
        (("a", "b"), None, True),
        (("a", "b"), "/var/lib/data", False),
        (("a", "here"), None, False),
        ((), None, False),
    ],
)
def test_a_host_without_a_part_in_it_is_told_and_not_blamed(
    run_of: RunOf, hosts: tuple[str, ...], directory: str | None, *, told: bool
) -> None:
    """Where neither side is watched, nobody is warned of what others did on this host."""
    facts: dict[str, Fact] = {"data.directory": directory}
    engine = EngineFacts(name="p", version="1", place="url", settings={}, facts=facts)
    run = run_of([1.0], engine=engine, host={"host.name": "here"})
    step = run.steps[0].model_copy(update={"foreign": Foreign(cpu_share=0.5)})
    cluster = {"hosts": hosts} if hosts else {}
    run = run.model_copy(update={"steps": (step,), "cluster": cluster})

    assert (warnings.bystander(run) is not None) is told
    assert (warnings.foreign_processes(run) is None) is told
