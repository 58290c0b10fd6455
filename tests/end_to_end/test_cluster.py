"""Agents are real processes, started by an ssh that leads to this host: tests/here_ssh.sh."""

import asyncio
import contextlib
import dataclasses
import importlib
import json
import os
import pickle
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import numpy as np
import pytest

from replayer.cluster import hosts as hosts_module
from replayer.cluster import pool as pool_module
from replayer.cluster.hosts import connected, rejoined
from replayer.cluster.settings import Secret
from replayer.engines.driver import Connector
from replayer.errors import HostLost, Impossible, ReplayerError
from replayer.watch.workers import Counter, WorkerPool
from tests import cluster_jobs

distributed = pytest.importorskip("distributed")
tls = pytest.importorskip("replayer.cluster.tls")

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("first", "second", "third", "fourth")
MARK = "REPLAYER_TEST_MARK"


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """Agree on a start that is near: two agents hear of it at once."""
    monkeypatch.setattr(pool_module, "_AHEAD_SECONDS", 0.5)


@pytest.fixture
def family(monkeypatch):
    """Have agents started on this host, and give a function that lists all their processes."""
    mark = uuid.uuid4().hex
    monkeypatch.setenv("REPLAYER_SSH", str(ROOT / "tests" / "here_ssh.sh"))
    monkeypatch.setenv("REPLAYER_AGENT", cluster_jobs.AGENT)
    monkeypatch.setenv(MARK, mark)
    yield lambda: members(mark)
    end = time.monotonic() + 5
    while members(mark) and time.monotonic() < end:
        time.sleep(0.05)
    left = members(mark)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert not left, "processes were left"


@pytest.fixture(scope="module")
def pair():
    """Return two hosts, for tests that leave them as they were."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REPLAYER_SSH", str(ROOT / "tests" / "here_ssh.sh"))
        patch.setenv("REPLAYER_AGENT", cluster_jobs.AGENT)
        with connected(NAMES[:2]) as hosts:
            yield hosts


def members(mark):
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


def agents(family):
    """Return the processes that are agents."""
    return [pid for pid, words in family().items() if words.endswith("-m tests.cluster_jobs")]


def children(family, agent):
    """Return the process in which an agent works."""
    return [
        pid for pid, words in family().items() if "child_process" in words and _parent(pid) == agent
    ]


def _parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.parametrize("many", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_a_pool_over_hosts_does_the_same_as_one_on_this_host(family, many):
    """Job by job the results are the same, in the same order, and their instants on this clock."""
    jobs = [(number, 1000 + number) for number in range(7)]
    with WorkerPool(cluster_jobs.draw, jobs, processes=2) as pool:
        pool.open()
        here = pool.results()
    with connected(NAMES[:many]) as hosts, hosts.pool(cluster_jobs.draw, jobs, processes=4) as pool:
        opened = pool.open()
        reports = [report for report in pool.reports() if report is not None]
        there = pool.results()
        now = time.monotonic_ns()
        shares = pool.shares

    assert [one.number for one in there] == [one.number for one in here]
    assert all(np.array_equal(a.draws, b.draws) for a, b in zip(there, here, strict=True))
    assert sorted(report.number for report in reports) == list(range(7))
    bound = max(share.bound_us for share in shares) * 1000
    assert all(opened - bound <= one.at_ns <= now + bound for one in [*there, *reports])
    assert [share.name for share in shares] == list(NAMES[:many])
    assert sum(share.jobs for share in shares) == 7
    assert all(abs(share.start_us) < 20_000 for share in shares)
    assert opened <= pool.first_done_ns + bound
    assert pool.first_done_ns <= pool.last_done_ns <= now + bound
    assert family() == {}


def _worked(pool):
    pool.open()
    return pool.results()


def test_a_failing_job_ends_the_pool_with_its_sentence(pair):
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


def test_a_job_that_shares_memory_cannot_travel(pair):
    """It is refused before anything has been started on another host."""
    with (
        pytest.raises(ReplayerError, match="cannot be sent to another host"),
        pair.pool(cluster_jobs.draw, [(0, Counter())], processes=1),
    ):
        pass
    with pytest.raises(ReplayerError, match="not marked as distributable"):
        pair.pool(cluster_jobs.not_marked, [1], processes=1)


def _killed_agent(family):
    os.kill(agents(family)[0], signal.SIGKILL)


def _killed_child(family):
    os.kill(children(family, agents(family)[0])[0], signal.SIGKILL)


def _stopped_agent(family):
    os.kill(agents(family)[0], signal.SIGSTOP)


def _stopped_child(family):
    os.kill(children(family, agents(family)[0])[0], signal.SIGSTOP)


HARM = {
    "killed agent": _killed_agent,
    "killed child": _killed_child,
    "stopped agent": _stopped_agent,
    "stopped child": _stopped_child,
}


def _harmed(family, harm, times):
    for _ in range(times):
        with connected(NAMES[:2]) as hosts:
            with hosts.pool(cluster_jobs.wait_for_ever, list(range(4)), processes=4) as pool:
                pool.open()
                next(report for report in pool.reports() if report is not None)
                begun = time.monotonic()
                HARM[harm](family)
                with pytest.raises(ReplayerError) as failure:
                    list(pool.reports())
            shares = pool.shares
        took = time.monotonic() - begun

        assert took < 10
        assert "\n" not in str(failure.value)
        assert any(name in str(failure.value) for name in NAMES[:2])
        if harm != "killed child":
            assert isinstance(failure.value, HostLost)
            assert [share.lost for share in shares].count(True) == 1
            assert all(share.heard_s is not None for share in shares)
        end = time.monotonic() + max(0, 10 - took)
        while family() and time.monotonic() < end:
            time.sleep(0.05)
        assert family() == {}, "nothing is left within 10 s"


@pytest.mark.parametrize("harm", [name for name in HARM if name != "stopped child"])
def test_a_lost_part_ends_the_pool_and_leaves_nothing(family, harm):
    """Within 10 s there is one sentence that names the host, and no process any more."""
    _harmed(family, harm, 1)


@pytest.mark.slow
@pytest.mark.parametrize("harm", HARM)
def test_a_lost_part_leaves_nothing_five_times(family, harm):
    """The same, five times each."""
    _harmed(family, harm, 5)


COORDINATOR = """
from replayer.cluster.hosts import connected
from tests import cluster_jobs
with connected(["first", "second"]) as hosts:
    with hosts.pool(cluster_jobs.wait_for_ever, [0, 1, 2, 3], processes=4) as pool:
        pool.open()
        print("open", flush=True)
        for _ in pool.reports():
            pass
"""


def _coordinator_killed(family, times):
    for _ in range(times):
        coordinator = subprocess.Popen(
            [sys.executable, "-c", COORDINATOR], stdout=subprocess.PIPE, cwd=ROOT
        )
        assert coordinator.stdout.readline() == b"open\n"
        assert len(family()) >= 6
        coordinator.kill()
        coordinator.wait()
        coordinator.stdout.close()
        end = time.monotonic() + 10
        while family() and time.monotonic() < end:
            time.sleep(0.05)

        assert family() == {}


def test_agents_end_with_their_coordinator(family):
    """Killed as it may be, nothing of it is left within 10 s."""
    _coordinator_killed(family, 1)


@pytest.mark.slow
def test_agents_end_with_their_coordinator_five_times(family):
    """The same, five times."""
    _coordinator_killed(family, 5)


def test_a_run_elsewhere_says_fails_and_returns(family):
    """What it says arrives in order, then its result, or its sentence."""
    with connected([], watch="db") as hosts:
        with hosts.run(cluster_jobs.say_and_return, [1, "two", b"three"]) as there:
            assert [value for value in there.said() if value is not None] == [1, "two", b"three"]
            assert there.result() == 3
        with hosts.run(cluster_jobs.say_and_return, ["fail"]) as there:
            said = there.said()
            assert next(value for value in said if value is not None) == "fail"
            with pytest.raises(ReplayerError, match="this was to fail"):
                next(said)


def test_a_run_elsewhere_stops_in_order_when_asked(family):
    """Ctrl-C reaches it, and it still says what it gave back."""
    with connected([], watch="db") as hosts, hosts.run(cluster_jobs.say_and_wait, "on") as there:
        said = there.said()
        assert next(value for value in said if value is not None) == "on"
        there.interrupt()
        rest = []
        with pytest.raises(ReplayerError, match="Ctrl-C"):
            rest.extend(said)

    assert "gave back what was taken" in rest, "what was said before the error is not lost with it"


def test_a_passport_leads_to_the_same_agents(pair):
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


def test_who_only_keeps_an_agent_alive_asks_once_a_second(pair, monkeypatch):
    """While another process's jobs work there, and say something twice a second."""
    answers = []
    member = pair.members[0]
    monkeypatch.setattr(member, "_take_in", answers.append)
    jobs = [0, 1]
    with (
        rejoined(pair.passport()) as again,
        again.pool(cluster_jobs.wait_for_ever, jobs, processes=2) as pool,
    ):
        pool.open()
        answers.clear()
        time.sleep(3)

        assert 1 <= len(answers) <= 5


def test_another_replayer_is_refused(family, monkeypatch):
    """Where the other host's files differ, nothing is done there."""
    other = dataclasses.replace(hosts_module.own(), digest="0123456789abcdef")
    monkeypatch.setattr(hosts_module, "own", lambda: other)

    with pytest.raises(ReplayerError, match="install the same on both"), connected(["first"]):
        pass


def test_a_host_that_ssh_does_not_reach_is_told_in_one_sentence(family, monkeypatch):
    """The words of ssh are in it."""
    monkeypatch.setenv("REPLAYER_SSH", "sh -c 'echo no route to nowhere >&2; exit 255'")

    with pytest.raises(ReplayerError, match=r"first.*no route to nowhere"), connected(["first"]):
        pass


def test_a_host_is_no_option_of_ssh():
    """What looks like an option would be one."""
    with pytest.raises(Impossible), connected(["-oProxyCommand=touch /tmp/harm"]):
        pass


def test_an_agent_that_nobody_called_says_so():
    """In one sentence, and with a status that tells."""
    done = subprocess.run(
        [sys.executable, "-m", "replayer", "agent"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert "is started by replayer itself" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_password_is_nowhere_but_in_the_pipe(family):
    """Not in a command line, an environment, a log or a text of any process of the run."""
    secret = f"s3cret{uuid.uuid4().hex}"
    connector = Connector("psycopg", {"password": secret})
    with (
        connected(NAMES[:2]) as hosts,
        hosts.pool(cluster_jobs.wait_for_ever, [connector] * 4, processes=4) as pool,
    ):
        pool.open()
        key = hosts.passport().clients[0][2].key.splitlines()[2]
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
def _opened(file):
    """Tell whether a pickle was loaded: it would make this file."""
    assert not file.exists()
    yield file
    assert not file.exists(), "a pickle was loaded"


class _Touch:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_an_agent_runs_no_function_but_replayers(family, tmp_path):
    """With the right certificate, too: every handler of Dask's workers is gone, and its pickles."""
    with connected(["first"]) as hosts, _opened(tmp_path / "harm") as harm:
        address = hosts.members[0].address
        secret = hosts.passport().clients[0][2]

        async def tried():
            arguments = tls.security(secret).get_connection_args("client")
            there = distributed.rpc(address, connection_args=arguments, timeout=2)
            touch = pickle.dumps(_Touch(harm))
            to_pickle = sys.modules["distributed.protocol.serialize"].ToPickle
            answers = []
            for handler, content in {
                "run": {"function": touch, "args": touch, "kwargs": touch},
                "run_coroutine": {"function": touch},
                "plugin-add": {"plugin": touch, "name": "p"},
                "upload_file": {"filename": "x.py", "data": b"import os"},
                "update_data": {"data": {"x": to_pickle(_Touch(harm))}},
                "actor_execute": {"actor": "x", "function": "y"},
                "get_data": {"keys": ["x"]},
                "dump_state": {},
                "replayer": {"call": "begin", "arguments": {"kind": "share", "work": "os:mkdir"}},
            }.items():
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
        with hosts.pool(cluster_jobs.draw, [(0, 1)], processes=1) as pool:
            pool.open()
            assert len(pool.results()) == 1, "the agent still works"


def test_the_scheduler_takes_no_clients(family, tmp_path):
    """Dask's Client with the right certificate can run, submit and register nothing."""
    with connected(["first"]):
        security, scheduler = _cluster().security, _cluster().scheduler.address

        async def tried():
            async with asyncio.timeout(8):
                client = distributed.Client(
                    scheduler,
                    security=security,
                    asynchronous=True,
                    timeout=2,
                )
                return await client

        with pytest.raises((OSError, TimeoutError, ValueError)):
            asyncio.run(tried())


def _cluster():
    return next(one for one in distributed.SpecCluster._instances if one.status.name == "running")


def test_plain_tcp_and_foreign_certificates_are_refused(family):
    """Neither gets a byte of an answer from an agent or the scheduler."""
    with connected(["first"]) as hosts:
        address = hosts.members[0].address
        host, _, port = address.removeprefix("tls://").rpartition(":")
        with socket.create_connection((host, int(port)), 3) as plain:
            plain.sendall(b"\x00" * 64)
            plain.settimeout(3)
            with contextlib.suppress(ConnectionResetError):
                assert not plain.recv(1 << 16).startswith(b"\x00\x00\x00"), "no frame of Dask's"

        async def tried():
            foreign = tls.security(tls.new_secret())
            there = distributed.rpc(
                address, connection_args=foreign.get_connection_args("client"), timeout=2
            )
            return await asyncio.wait_for(there.identity(), 5)

        with pytest.raises((OSError, TimeoutError)):
            asyncio.run(tried())


INTERRUPTED = """
from replayer import signals
from replayer.cluster.hosts import connected
signals.install()
print("begun", flush=True)
with connected(["first", "second"]):
    pass
"""


def test_ctrl_c_ends_the_start_of_agents(family, tmp_path):
    """Also while an ssh hangs: within seconds, and nothing goes on."""
    hanging = tmp_path / "ssh"
    hanging.write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\nexec sleep 60\n")
    hanging.chmod(0o755)
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "REPLAYER_SSH": str(hanging)},
    )
    while not (tmp_path / "asked").exists():
        time.sleep(0.05)
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)

    assert time.monotonic() - begun < 20
    assert b"stopped by Ctrl-C" in errors


@pytest.fixture
def orders(monkeypatch):
    """Return what each agent is told by ssh, as root of its host can see it, by its name."""
    launch = importlib.import_module("replayer.cluster.launch")
    told = {}
    plain = launch.SshAgent._order

    def order(agent):
        data = plain(agent)
        told[agent._name] = json.loads(data)
        return data

    monkeypatch.setattr(launch.SshAgent, "_order", order)
    return told


def _asked(address, secret):
    """Ask an agent what it is, with a pair of somebody's."""

    async def tried():
        arguments = tls.security(secret).get_connection_args("client")
        there = distributed.rpc(address, connection_args=arguments, timeout=2)
        try:
            return await asyncio.wait_for(there.replayer(call="about", arguments={}), 5)
        finally:
            await there.close_rpc()

    return asyncio.run(tried())


def test_an_agent_cannot_command_another(family, orders):
    """All that root has on one client leads to no other, and takes nobody's place."""
    with connected(["first", "second"]) as hosts:
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


def test_an_agent_is_no_coordinator():
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


def _shaken(context, end):
    with contextlib.suppress(OSError), end:
        context.wrap_socket(end, server_side=True)
