"""Agents are real processes, started by an ssh that leads to this host: tests/here_ssh.sh."""

import asyncio
import contextlib
import dataclasses
import importlib
import json
import os
import pickle
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from replayer.cluster import hosts as hosts_module
from replayer.cluster import member as member_module
from replayer.cluster import pool as pool_module
from replayer.cluster.dask_settings import LEASE_SECONDS, Secret
from replayer.cluster.hosts import Hosts, connect_hosts, rejoined
from replayer.cluster.remote_calls import BEAT_SECONDS
from replayer.cluster.silence import LOOK_SECONDS
from replayer.engines.driver import Connector
from replayer.errors import HostLost, Impossible, ReplayerError
from replayer.watch.client_pools import Pool
from replayer.watch.workers import Counter, WorkerPool
from tests import cluster_jobs
from tests.command import Replayer
from tests.halting import go_on, halt
from tests.known import known
from tests.slow_case import slow
from tests.told import line_with
from tests.waiting import wait_until

distributed = pytest.importorskip("distributed")
launch = pytest.importorskip("replayer.cluster.launch")
tls = pytest.importorskip("replayer.cluster.tls")

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("first", "second", "third", "fourth")
MARK = "REPLAYER_TEST_MARK"
ENDS_WITHIN = 10.0
LONGEST = 120.0
"""Seconds of any wait: a machine with more to do takes longer, and that is not a failure."""

Family = Callable[[], dict[int, str]]
"""Lists the processes of a test by pid, with their command lines."""


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agree on a start that is near: two agents hear of it at once."""
    monkeypatch.setattr(pool_module, "_AHEAD_SECONDS", 0.5)


@pytest.fixture
def family(monkeypatch: pytest.MonkeyPatch) -> Iterator[Family]:
    """Have agents started on this host, and give a function that lists all their processes."""
    mark = uuid.uuid4().hex
    monkeypatch.setenv("REPLAYER_SSH", str(ROOT / "tests" / "here_ssh.sh"))
    monkeypatch.setenv("REPLAYER_AGENT", cluster_jobs.AGENT)
    monkeypatch.setenv(MARK, mark)
    yield lambda: members(mark)
    left = left_after(LONGEST, lambda: members(mark))
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert not left, "processes were left"


@pytest.fixture(scope="module")
def pair() -> Iterator[Hosts]:
    """Return two hosts and that of a database, for tests that leave them as they were."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REPLAYER_SSH", str(ROOT / "tests" / "here_ssh.sh"))
        patch.setenv("REPLAYER_AGENT", cluster_jobs.AGENT)
        with connect_hosts(NAMES[:2], watch="db") as hosts:
            yield hosts


def left_after(seconds: float, family: Family) -> dict[int, str]:
    """Wait until no process is there any more; return those that are after some seconds."""
    deadline = time.monotonic() + seconds
    while (left := family()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def members(mark: str) -> dict[int, str]:
    """Return pid -> command line of the processes that have inherited the mark, but this one."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            marked = f"{MARK}={mark}".encode() in (folder / "environ").read_bytes()
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
            words = line.decode(errors="replace").strip()
            own = "resource_tracker" in words and _parent(folder.name) == os.getpid()
            if marked and words and not own and int(folder.name) != os.getpid():
                found[int(folder.name)] = words
    return found


def agents(family: Family) -> list[int]:
    """Return the processes that are agents."""
    return [pid for pid, words in family().items() if words.endswith("-m tests.cluster_jobs")]


def children(family: Family, agent: int) -> list[int]:
    """Return the process in which an agent works."""
    return [
        pid for pid, words in family().items() if "child_process" in words and _parent(pid) == agent
    ]


def _parent(pid: int | str) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.parametrize("many", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_a_pool_over_hosts_does_the_same_as_one_on_this_host(family: Family, many: int) -> None:
    """Job by job the results are the same, in the same order, and their instants on this clock."""
    jobs = [(number, 1000 + number) for number in range(7)]
    with WorkerPool(cluster_jobs.draw, jobs, processes=2) as pool:
        pool.open()
        here = pool.results()
    with (
        connect_hosts(NAMES[:many]) as hosts,
        hosts.pool(cluster_jobs.draw, jobs, processes=4) as far,
    ):
        opened = far.open()
        reports = [report for report in far.reports() if report is not None]
        there = far.results()
        now = time.monotonic_ns()
        shares = far.shares

    assert [one.number for one in there] == [one.number for one in here]
    assert all(np.array_equal(a.draws, b.draws) for a, b in zip(there, here, strict=True))
    assert sorted(report.number for report in reports) == list(range(7))
    bound = max(share.bound_us or 0.0 for share in shares) * 1000
    assert all(opened - bound <= one.at_ns <= now + bound for one in [*there, *reports])
    assert [share.name for share in shares] == list(NAMES[:many])
    assert sum(share.jobs for share in shares) == 7
    starts = [share.start_us for share in shares if share.start_us is not None]
    assert len(starts) == many
    assert all(-bound <= start * 1000 <= now - opened + bound for start in starts)
    assert far.first_done_ns is not None
    assert far.last_done_ns is not None
    assert opened <= far.first_done_ns + bound
    assert far.first_done_ns <= far.last_done_ns <= now + bound
    assert left_after(LONGEST, family) == {}


@pytest.mark.quiet
def test_hosts_start_within_20_ms_of_what_was_agreed(pair: Hosts) -> None:
    """On a machine that has nothing else to do."""
    with pair.pool(cluster_jobs.draw, [(0, 1), (1, 2)], processes=2) as pool:
        _worked(pool)
    assert all(abs(known(share.start_us)) < 20_000 for share in pool.shares)


def _worked(pool: Pool) -> list[Any]:
    pool.open()
    return pool.results()


def test_a_failing_job_ends_the_pool_with_its_sentence(pair: Hosts) -> None:
    """The error names the host, keeps the job's sentence, and the hosts can work again.

    A job that fails at once can have failed before its host answers that it has begun. Of two
    hosts that have one job one has no share.
    """
    with (
        pytest.raises(ReplayerError, match="second: this job was to fail"),
        pair.pool(cluster_jobs.one_raises, [0, 1], processes=2) as pool,
    ):
        _worked(pool)
    with pair.pool(cluster_jobs.draw, [(0, 1)], processes=2) as pool:
        pool.open()
        assert pool.results()[0].number == 0
        assert [share.name for share in pool.shares] == ["first"]


def test_a_job_that_shares_memory_cannot_travel(pair: Hosts) -> None:
    """It is refused before anything has been started on another host."""
    with (
        pytest.raises(ReplayerError, match="cannot be sent to another host"),
        pair.pool(cluster_jobs.draw, [(0, Counter())], processes=1),
    ):
        pass
    with pytest.raises(ReplayerError, match="not marked as distributable"):
        pair.pool(cluster_jobs.not_marked, [1], processes=1)


def _killed_agent(family: Family) -> None:
    os.kill(agents(family)[0], signal.SIGKILL)


def _killed_child(family: Family) -> None:
    os.kill(children(family, agents(family)[0])[0], signal.SIGKILL)


def _stopped_agent(family: Family) -> None:
    os.kill(agents(family)[0], signal.SIGSTOP)


def _stopped_child(family: Family) -> None:
    os.kill(children(family, agents(family)[0])[0], signal.SIGSTOP)


HARM = {
    "killed agent": _killed_agent,
    "killed child": _killed_child,
    "stopped agent": _stopped_agent,
    "stopped child": _stopped_child,
}


def _harmed(family: Family, harm: str, within: float) -> None:
    with connect_hosts(NAMES[:2]) as hosts:
        with hosts.pool(cluster_jobs.wait_for_ever, list(range(4)), processes=4) as pool:
            pool.open()
            next(report for report in pool.reports() if report is not None)
            begun = time.monotonic()
            HARM[harm](family)
            with pytest.raises(ReplayerError) as failure:
                list(pool.reports())
        shares = pool.shares
    took = time.monotonic() - begun

    assert took < within
    assert "\n" not in str(failure.value)
    assert any(name in str(failure.value) for name in NAMES[:2])
    if harm != "killed child":
        assert isinstance(failure.value, HostLost)
        assert [share.lost for share in shares].count(True) == 1
        assert all(share.heard_s is not None for share in shares)
    assert left_after(max(0.0, within - took), family) == {}


@pytest.mark.parametrize("harm", [slow(harm) if "child" in harm else harm for harm in HARM])
def test_a_lost_part_ends_the_pool_and_leaves_nothing(family: Family, harm: str) -> None:
    """There is one sentence that names the host, and then no process any more."""
    _harmed(family, harm, LONGEST)


@pytest.mark.quiet
@pytest.mark.parametrize("harm", HARM)
def test_a_lost_part_leaves_nothing_within_10_s_five_times(family: Family, harm: str) -> None:
    """The same, five times each, and soon where the machine has nothing else to do."""
    for _ in range(5):
        _harmed(family, harm, ENDS_WITHIN)


COORDINATOR = """
import time
from replayer.cluster.hosts import connect_hosts
from tests import cluster_jobs
from tests.told import line_with
with connect_hosts(["first", "second"]) as hosts:
    with hosts.pool(cluster_jobs.wait_for_ever, [0, 1, 2, 3], processes=4) as pool:
        pool.open()
        print("open", flush=True)
        for report in pool.reports():
            if report is not None:
                print("heard", time.monotonic_ns(), flush=True)
"""


def _coordinator_killed(family: Family, within: float) -> None:
    command = [sys.executable, "-c", COORDINATOR]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as coordinator:
        line_with(coordinator.stdout, re.compile("^open$"))
        assert len(family()) >= 6
        coordinator.kill()

    assert left_after(within, family) == {}


@pytest.mark.slow
def test_agents_end_with_their_coordinator(family: Family) -> None:
    """Killed as it may be, nothing of it is left."""
    _coordinator_killed(family, LONGEST)


@pytest.mark.quiet
def test_agents_end_within_10_s_of_their_coordinator_five_times(family: Family) -> None:
    """The same, five times, and soon where the machine has nothing else to do."""
    for _ in range(5):
        _coordinator_killed(family, ENDS_WITHIN)


def test_a_machine_that_stands_still_loses_no_host(family: Family) -> None:
    """A paused virtual machine runs no process: none of them can take another for silent."""
    command = [sys.executable, "-c", COORDINATOR]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as coordinator:
        line_with(coordinator.stdout, re.compile("^open$"))
        before = list(family())
        halt(before)
        time.sleep(LEASE_SECONDS + 1)
        went_on = time.monotonic_ns()
        go_on(before)
        while int(line_with(coordinator.stdout, re.compile("^heard")).split()[1]) < went_on:
            pass
        time.sleep(3 * LOOK_SECONDS)
        assert set(family()) == set(before)
        coordinator.kill()

    assert left_after(LONGEST, family) == {}


def test_a_run_elsewhere_says_fails_and_returns(pair: Hosts) -> None:
    """What it says arrives in order, then its result, or its sentence."""
    with pair.run(cluster_jobs.say_and_return, [1, "two", b"three"]) as there:
        assert [value for value in there.receive_messages() if value is not None] == [
            1,
            "two",
            b"three",
        ]
        assert there.result() == 3
    with pair.run(cluster_jobs.say_and_return, ["fail"]) as there:
        said = there.receive_messages()
        assert next(value for value in said if value is not None) == "fail"
        with pytest.raises(ReplayerError, match="this was to fail"):
            next(said)


def test_a_run_elsewhere_stops_in_order_when_asked(pair: Hosts) -> None:
    """Ctrl-C reaches it, and it still says what it gave back."""
    with pair.run(cluster_jobs.say_and_wait, "on") as there:
        said = there.receive_messages()
        assert next(value for value in said if value is not None) == "on"
        there.interrupt()
        rest: list[Any] = []
        with pytest.raises(ReplayerError, match="Ctrl-C"):
            rest.extend(said)

    assert "gave back what was taken" in rest, "what was said before the error is not lost with it"


def test_a_passport_leads_to_the_same_agents(pair: Hosts) -> None:
    """Another process may use the clients, and they go on when it has ended."""
    passport = pair.passport()
    assert "PRIVATE" not in repr(passport)
    for _ in range(2):
        with (
            rejoined(passport) as again,
            again.pool(cluster_jobs.draw, [(0, 1), (1, 2)], processes=2) as pool,
        ):
            pool.open()
            assert [one.number for one in pool.results()] == [0, 1]


def test_who_only_keeps_an_agent_alive_asks_once_a_second(
    pair: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another process's jobs work there, and say something every half second.

    Each question is held back for that long where there is nothing to say to who asks.
    """
    answers: list[float] = []
    jobs = [0, 1]
    with (
        rejoined(pair.passport()) as again,
        again.pool(cluster_jobs.wait_for_ever, jobs, processes=2) as pool,
    ):
        pool.open()
        reports = pool.reports()
        next(report for report in reports if report is not None)
        monkeypatch.setattr(
            pair.members[0], "_take_in", lambda _answer: answers.append(time.monotonic())
        )
        while len(answers) < 2:
            next(reports)
        first, second = answers[:2]

    assert second - first >= BEAT_SECONDS


@pytest.mark.slow
def test_another_replayer_is_refused(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the other host's files differ, nothing is done there."""
    other = dataclasses.replace(member_module.own(), digest="0123456789abcdef")
    monkeypatch.setattr(hosts_module, "own", lambda: other)

    with pytest.raises(ReplayerError, match="install the same on both"), connect_hosts(["first"]):
        pass


def test_a_host_that_ssh_does_not_reach_is_told_in_one_sentence(
    family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The words of ssh are in it."""
    monkeypatch.setenv("REPLAYER_SSH", "sh -c 'echo no route to nowhere >&2; exit 255'")

    with (
        pytest.raises(ReplayerError, match=r"first.*no route to nowhere"),
        connect_hosts(["first"]),
    ):
        pass


def test_a_host_is_no_option_of_ssh() -> None:
    """What looks like an option would be one."""
    with pytest.raises(Impossible), connect_hosts(["-oProxyCommand=touch /tmp/harm"]):
        pass


def test_an_agent_that_nobody_called_says_so(replayer: Replayer) -> None:
    """In one sentence, and with a status that tells."""
    _, err = replayer.process("agent", status=2)

    assert "is started by replayer itself" in err
    assert len(err.splitlines()) == 1


def test_a_password_is_nowhere_but_in_the_pipe(family: Family) -> None:
    """Not in a command line, an environment, a log or a text of any process of the run."""
    secret = f"s3cret{uuid.uuid4().hex}"
    connector = Connector("postgres", {"password": secret})
    with (
        connect_hosts(NAMES[:2]) as hosts,
        hosts.pool(cluster_jobs.wait_for_ever, [connector] * 4, processes=4) as pool,
    ):
        pool.open()
        pair_of_first = hosts.passport().clients[0][2]
        assert pair_of_first is not None
        key = pair_of_first.key.splitlines()[2]
        shown = [repr(hosts), repr(pool), repr(hosts.passport()), repr(pool.shares)]
        seen = []
        for pid in [os.getpid(), *family()]:
            for file in ("cmdline", "environ"):
                with contextlib.suppress(OSError):
                    seen.append(Path(f"/proc/{pid}/{file}").read_bytes())

    assert len(seen) > 8
    for word in (secret, key):
        assert not any(word.encode() in text for text in seen)
        assert not any(word in text for text in shown)


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[Path]:
    """Tell whether a pickle was loaded: it would make this file."""
    assert not file.exists()
    yield file
    assert not file.exists(), "a pickle was loaded"


class _Touch:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., None], tuple[str]]:
        return os.mkdir, (str(self.path),)


def test_an_agent_runs_no_function_but_replayers(pair: Hosts, tmp_path: Path) -> None:
    """With the right certificate, too: every handler of Dask's workers is gone, and its pickles."""
    with _opened(tmp_path / "harm") as harm:
        address = pair.members[0].address
        secret = pair.passport().clients[0][2]

        async def tried() -> list[Any]:
            arguments = tls.security(secret).get_connection_args("client")
            there = distributed.rpc(address, connection_args=arguments, timeout=2)
            touch = pickle.dumps(_Touch(harm))
            to_pickle = sys.modules["distributed.protocol.serialize"].ToPickle
            answers: list[Any] = []
            asked: dict[str, dict[str, Any]] = {
                "run": {"function": touch, "args": touch, "kwargs": touch},
                "run_coroutine": {"function": touch},
                "plugin-add": {"plugin": touch, "name": "p"},
                "upload_file": {"filename": "x.py", "data": b"import os"},
                "update_data": {"data": {"x": to_pickle(_Touch(harm))}},
                "actor_execute": {"actor": "x", "function": "y"},
                "get_data": {"keys": ["x"]},
                "dump_state": {},
                "replayer": {"call": "begin", "arguments": {"kind": "share", "work": "os:mkdir"}},
            }
            for handler, content in asked.items():
                try:
                    answers.append(await asyncio.wait_for(getattr(there, handler)(**content), 3))
                except Exception as error:
                    answers.append(error)
            with contextlib.suppress(Exception):
                await there.close_rpc()
            return answers

        *others, own = asyncio.run(tried())

        # No handler: nothing is answered, or the message could not even be read.
        assert all(one is None or isinstance(one, Exception) for one in others), others
        assert "error" in own
        with pair.pool(cluster_jobs.draw, [(0, 1)], processes=1) as pool:
            assert len(_worked(pool)) == 1, "the agent still works"


def test_the_scheduler_takes_no_clients(pair: Hosts) -> None:
    """Dask's Client with the right certificate can run, submit and register nothing."""
    security, scheduler = _cluster().security, _cluster().scheduler.address

    async def tried() -> Any:
        async with asyncio.timeout(8):
            return await distributed.Client(
                scheduler, security=security, asynchronous=True, timeout=2
            )

    with pytest.raises((OSError, TimeoutError, ValueError)):
        asyncio.run(tried())


def _cluster() -> Any:
    return next(one for one in distributed.SpecCluster._instances if one.status.name == "running")


def test_plain_tcp_and_foreign_certificates_are_refused(pair: Hosts) -> None:
    """Neither gets a byte of an answer from an agent or the scheduler."""
    foreign = tls.security(tls.new_secret()).get_connection_args("client")

    async def tried(address: str) -> Any:
        there = distributed.rpc(address, connection_args=foreign, timeout=2)
        return await asyncio.wait_for(there.identity(), 5)

    for address in (pair.members[0].address, _cluster().scheduler.address):
        host, _, port = address.removeprefix("tls://").rpartition(":")
        with socket.create_connection((host, int(port)), LONGEST) as plain:
            plain.sendall(b"\x00" * 64)
            with contextlib.suppress(ConnectionResetError):
                assert not plain.recv(1 << 16).startswith(b"\x00\x00\x00"), "no frame of Dask's"
        with pytest.raises((OSError, TimeoutError)):
            asyncio.run(tried(address))


INTERRUPTED = """
from replayer import signals
from replayer.cluster.hosts import connect_hosts
signals.install()
print("begun", flush=True)
with connect_hosts(["first", "second"]):
    pass
"""


@pytest.mark.slow
def test_ctrl_c_ends_the_start_of_agents(family: Family, tmp_path: Path) -> None:
    """Also while an ssh hangs, which is not waited for, and nothing goes on."""
    hanging = tmp_path / "ssh"
    hanging.write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\nexec sleep 1000\n")
    hanging.chmod(0o755)
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "REPLAYER_SSH": str(hanging)},
    )
    wait_until((tmp_path / "asked").exists)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=LONGEST)

    assert b"stopped by Ctrl-C" in errors


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return what each agent is told by ssh, as root of its host can see it, by its name."""
    launch = importlib.import_module("replayer.cluster.launch")
    told: dict[str, Any] = {}
    plain = launch.SshAgent._order

    def order(agent: Any) -> bytes:
        data: bytes = plain(agent)
        told[agent._name] = json.loads(data)
        return data

    monkeypatch.setattr(launch.SshAgent, "_order", order)
    return told


def _asked(address: str, secret: Secret | None) -> Any:
    """Ask an agent what it is, with a pair of somebody's."""

    async def tried() -> Any:
        arguments = tls.security(secret).get_connection_args("client")
        there = distributed.rpc(address, connection_args=arguments, timeout=2)
        try:
            return await asyncio.wait_for(there.replayer(call="about", arguments={}), 5)
        finally:
            await there.close_rpc()

    return asyncio.run(tried())


def test_an_agent_cannot_command_another(family: Family, orders: dict[str, Any]) -> None:
    """All that root has on one client leads to no other, and takes nobody's place."""
    with connect_hosts(["first", "second"]) as hosts:
        first, second = hosts.members
        stolen = orders["first"]
        everything = "".join(stolen[name] for name in ("certificate", "authority")) + "".join(
            orders["second"][name] for name in ("certificate", "authority")
        )
        pair = Secret(stolen["certificate"], stolen["key"], everything)
        assert "PRIVATE" not in everything
        for address in (first.address, second.address):
            with pytest.raises((OSError, TimeoutError)):
                _asked(address, pair)
        assert "version" in _asked(second.address, hosts.passport().clients[1][2])
        # Neither is the one taken for the other, whatever address it says it has.
        with pytest.raises((OSError, TimeoutError)):
            _asked(second.address, hosts.passport().clients[0][2])


def test_an_agent_is_no_coordinator() -> None:
    """An agent obeys nobody who has the place, and not the key, of the one who has started it."""
    roles = tls.new_roles(["a", "b"])
    theirs = dataclasses.replace(roles.agents["b"], authority="")
    server = tls.security(theirs).get_listen_args("scheduler")["ssl_context"]
    agent = tls.security(roles.agents["a"]).get_connection_args("worker")["ssl_context"]
    server.verify_mode = ssl.CERT_NONE
    ends = socket.socketpair()
    thread = threading.Thread(target=_shaken, args=(server, ends[0]), daemon=True)
    thread.start()
    with pytest.raises(ssl.SSLError, match="verify failed"), ends[1]:
        agent.wrap_socket(ends[1])
    thread.join()


def _shaken(context: ssl.SSLContext, end: socket.socket) -> None:
    with contextlib.suppress(OSError), end:
        context.wrap_socket(end, server_side=True)


def sockets() -> set[str]:
    """Return the sockets that this process has open."""
    opened = set()
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            opened.add(str(path.readlink()))
    return {name for name in opened if name.startswith("socket:")}


@pytest.mark.usefixtures("family")
@pytest.mark.filterwarnings("ignore:Exception ignored:pytest.PytestUnraisableExceptionWarning")
def test_a_machine_too_busy_to_close_in_time_keeps_no_socket_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without any time at all for it, what is open is cut."""
    before = sockets()
    monkeypatch.setattr(launch, "_CLOSE_SECONDS", 0.0)
    with connect_hosts(NAMES[:1]):
        assert sockets() - before
    assert not sockets() - before
