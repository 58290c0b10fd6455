"""One host asks, a second has the database, two more are its clients: each a network of its own."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import namespaces
from tests.namespaces import Host, Started

Hosts = dict[str, Host]

pytestmark = [pytest.mark.root, pytest.mark.slow]

ENDS_WITHIN = 10.0
"""Seconds, on a machine that has nothing else to do."""
LONGEST = 120.0
UNDER_WAY = re.compile(r"c1 [\d,]+/s, c2 [\d,]+/s")
Results = tuple["subprocess.CompletedProcess[str]", Any]
SMALL = """
description = "the main job, small, and sessions that clients send"
[[step]]
step = "build"
rows = "98304"
segment_rows = 6144
[[step]]
step = "flush"
[[step]]
step = "walk"
cold = "cold"
threads = 8
[[step]]
step = "scan"
cold = "cold"
[[step]]
step = "sessions"
name = "{name}"
memory = "{memory}"
num_schemas = 2
num_threads = 2
scale = "16M"
run_time = "4s"
"""
LONG = """
description = "sessions for a minute"
[[step]]
step = "sessions"
memory = "cached"
num_schemas = 2
num_threads = 2
scale = "16M"
run_time = "60s"
"""
WALK = """
description = "a folder that is none of the database's"
[[step]]
step = "build"
rows = "98304"
segment_rows = 6144
[[step]]
step = "walk"
path = "/etc"
"""


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    """Return the hosts; the clocks of both clients are wrong, by an hour and by a day."""
    names = ("user", "db", "c1", "c2")
    with namespaces.rig(*names, clocks={"c1": 3600, "c2": 86400}) as made:
        yield made


@pytest.fixture(scope="module")
def url(hosts: Hosts) -> str:
    """Return the URL of a server with buffers that are smaller than the tables of the sessions."""
    return namespaces.postgres(hosts["db"], "shared_buffers = 2MB")


@pytest.fixture(scope="module")
def direct_url(hosts: Hosts) -> str:
    """Return the URL of a server that reads around the page cache."""
    settings = ("shared_buffers = 2MB", "debug_io_direct = data", "io_method = sync")
    return namespaces.postgres(hosts["db"], *settings, port=5433)


@pytest.fixture
def run(hosts: Hosts) -> Iterator[Callable[..., Results]]:
    """Return a function that runs replayer on the user's host; nothing may be left of it after.

    It returns what the program printed and the run that is in its file, None without one.
    """

    def call(workload: str, *options: str, check: int | None = None) -> Results:
        before = set(results(hosts))
        done = hosts["user"].run(*command(hosts, workload, *options), check=False)
        assert check is None or done.returncode == check, (done.stdout, done.stderr)
        files = sorted(set(results(hosts)) - before)
        return done, json.loads(files[0].read_text()) if files else None

    yield call
    nothing_left(hosts)


def command(hosts: Hosts, workload: str, *options: str) -> tuple[str, ...]:
    """Return the words of a run of a workload's text, on the user's host."""
    (hosts["user"].own / "asked.toml").write_text(workload)
    return (sys.executable, "-m", "replayer", "run", "/srv/asked.toml", *options)


def results(hosts: Hosts) -> list[Path]:
    """Return the result files on the user's host."""
    return list((hosts["user"].own / "results").glob("*.json"))


def replayers(hosts: Hosts) -> dict[str, list[str]]:
    """Return all processes but the database's, by host."""
    return {
        name: [line for line in host.processes().values() if "postgres" not in line]
        for name, host in hosts.items()
    }


def all_ended(hosts: Hosts, within: float = LONGEST) -> None:
    """Fail when processes of replayer's are left on any host after some seconds."""
    deadline = time.monotonic() + within
    while any(replayers(hosts).values()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert replayers(hosts) == {name: [] for name in hosts}


def nothing_left(hosts: Hosts, within: float = LONGEST) -> None:
    """Fail when processes, files or notes of replayer's are left on any host after some seconds."""
    deadline = time.monotonic() + within
    while any(replayers(hosts).values()) and time.monotonic() < deadline:
        time.sleep(0.1)
    left = {
        name: [
            str(path) for folder in ("tmp", "replayer/taken") for path in files(host.own / folder)
        ]
        for name, host in hosts.items()
    }
    nobody: dict[str, list[str]] = {name: [] for name in hosts}

    assert (replayers(hosts), left) == (nobody, nobody)


def files(folder: Path) -> list[Path]:
    """Return what lies in a folder, but the database's sockets."""
    names = folder.iterdir() if folder.is_dir() else ()
    return [path for path in names if not path.name.startswith(".s.PGSQL")]


def by_name(run: Any) -> dict[str, Any]:
    """Return a run's steps by their names."""
    return {step["name"]: step for step in run["steps"]}


def proven(run: Any) -> None:
    """Demand of a run all that a run beside the database proves."""
    steps = by_name(run)

    assert {step["status"] for step in run["steps"]} == {"done"}, run["steps"]
    assert run["cluster"] == {"hosts": ["c1", "c2"], "database": "db"}
    assert run["engine"]["facts"]["data.directory"].startswith("/srv/postgres-")
    for name in ("walk", "scan"):
        assert (steps[name]["cold"]["got"], steps[name]["cold"]["why"]) == ("cold", "")
        assert steps[name]["cold"]["proof"] in {"cachestat", "mincore"}
    # The walk reads all of every file, a statement what it needs of them.
    full = steps["scan"]["tables"]["statements"][-1]["file_bytes"]
    for name, needed in (("walk", steps["walk"]["cold"]["stored_bytes"]), ("scan", full)):
        assert steps[name]["cold"]["own_bytes"] >= needed * 0.95
        assert steps[name]["cold"]["device_bytes"] >= steps[name]["cold"]["own_bytes"] * 0.95
    assert steps["walk"]["series"]["columns"]["diskstats.rkB/s"]


@pytest.mark.alone  # what others read would be cold that is not proven
def test_main_job_on_four_hosts_has_the_proofs_of_one(
    hosts: Hosts, url: str, run: Callable[..., Results]
) -> None:
    """Cold is proven where the data is, the ledger has the device, and each client its row."""
    options = ("--engine", url, "--clients", "c1,c2", "--watch", "db")
    done, saved = run(SMALL.format(name="cached", memory="cached"), *options, check=0)
    proven(saved)
    sessions = by_name(saved)["cached"]
    rows = sessions["tables"]["hosts"]

    assert sessions["ledger"]["verdict"] == "cached"
    assert sessions["ledger"]["device"] == saved["host"]["device.name"]
    assert sessions["ledger"]["device_reads"] is not None
    assert sessions["foreign"]["cpu_share"] is not None
    assert [row["host"] for row in rows[:2]] == ["c1", "c2"]
    assert namespaces.PASSWORD not in done.stdout + done.stderr + json.dumps(saved)


@pytest.mark.alone  # the device is to be read by these sessions only
def test_physical_reads_are_proven_by_the_databases_device(
    hosts: Hosts, direct_url: str, run: Callable[..., Results]
) -> None:
    """What the sessions of the clients read came from the disk of another host, and is counted."""
    options = ("--engine", direct_url, "--clients", "c1,c2", "--watch", "db")
    _, saved = run(SMALL.format(name="physical", memory="direct"), *options, check=0)
    ledger = by_name(saved)["physical"]["ledger"]

    assert ledger["verdict"] == "physical"
    assert ledger["ratio"] == pytest.approx(1, abs=0.1)


def test_the_databases_host_is_found_where_it_is_a_client_too(
    url: str, run: Callable[..., Results]
) -> None:
    """Nobody said where the database is: of the clients one has its data."""
    workload = LONG.replace("60s", "2s")
    _, saved = run(workload, "--engine", url, "--clients", "c1,db", check=0)

    assert saved["cluster"] == {"hosts": ["c1", "db"], "database": "db"}


def test_without_an_agent_beside_the_data_it_is_as_it_was(
    url: str, run: Callable[..., Results]
) -> None:
    """Files that are on none of the hosts are not walked; the sessions come from the clients."""
    workload = SMALL.format(name="cached", memory="cached")
    _, saved = run(workload, "--engine", url, "--clients", "c1,c2", check=0)
    steps = by_name(saved)

    assert saved["cluster"] == {"hosts": ["c1", "c2"]}
    assert (steps["walk"]["status"], steps["cached"]["status"]) == ("skipped", "done")
    assert "not on this machine" in steps["walk"]["reason"]
    assert steps["cached"]["ledger"]["device"] is None
    assert [row["host"] for row in steps["cached"]["tables"]["hosts"][:2]] == ["c1", "c2"]


@pytest.fixture
def somebodys(hosts: Hosts) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Return the address of a scheduler of Dask's with a worker on a client and on the database."""
    environment = certified(hosts)
    # Not where replayer's leftovers are looked for.
    python = (*environment, "DASK_TEMPORARY_DIRECTORY=/srv", sys.executable, "-m")
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    address = f"tls://{hosts['user'].address}:8786"
    started = [
        hosts["user"].start(
            *python, "distributed.cli.dask_scheduler", "--no-dashboard", "--protocol", "tls",
            "--port", "8786", **quiet,
        ),
        *(
            hosts[name].start(
                *python, "distributed.cli.dask_worker", address, "--no-dashboard", "--no-nanny",
                "--nthreads", "1", "--local-directory", "/srv", **quiet,
            )
            for name in ("db", "c1")
        ),
    ]  # fmt: skip
    yield address, environment
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.inside, signal.SIGKILL)
        process.wait(timeout=LONGEST)


def certified(hosts: Hosts) -> tuple[str, ...]:
    """Write a certificate to every host, and return the words that set Dask's variables for it."""
    secret = pytest.importorskip("replayer.cluster.tls").new_secret()
    for host in hosts.values():
        (host.own / "cert.pem").write_text(secret.certificate)
        (host.own / "key.pem").write_text(secret.key)
    names = ["DASK_DISTRIBUTED__COMM__TLS__CA_FILE=/srv/cert.pem"]
    for role in ("CLIENT", "SCHEDULER", "WORKER"):
        names.append(f"DASK_DISTRIBUTED__COMM__TLS__{role}__CERT=/srv/cert.pem")
        names.append(f"DASK_DISTRIBUTED__COMM__TLS__{role}__KEY=/srv/key.pem")
    return ("env", *names)


def test_a_worker_of_somebodys_cluster_that_has_the_data_watches_it(
    hosts: Hosts, url: str, somebodys: tuple[str, tuple[str, ...]]
) -> None:
    """The run works there, the other worker is the client, and both workers go on afterwards."""
    address, environment = somebodys
    words = command(hosts, LONG.replace("60s", "2s"), "--engine", url, "--cluster", address)
    before, deadline = set(results(hosts)), time.monotonic() + LONGEST
    while True:
        done = hosts["user"].run(*environment, *words, check=False)
        # The workers may not have joined yet.
        files = sorted(set(results(hosts)) - before)
        saved = json.loads(files[-1].read_text()) if files else {"cluster": {}}
        if saved["cluster"].get("database") or time.monotonic() > deadline:
            break
        time.sleep(1)
    left = {
        name: [line for line in lines if "replayer" in line]
        for name, lines in replayers(hosts).items()
    }

    assert done.returncode == 0, done.stderr
    assert saved["cluster"] == {"hosts": [hosts["c1"].address], "database": hosts["db"].address}
    assert saved["engine"]["facts"]["data.directory"] == "/srv/postgres-5432"
    assert [
        sum("dask_worker" in line for line in replayers(hosts)[name]) for name in ("db", "c1")
    ] == [1, 1]
    assert not any("spawn_main" in line for lines in left.values() for line in lines)


@pytest.mark.parametrize(
    ("workload", "words", "sentence"),
    [
        # It is asked, and says where the data is not.
        (LONG, "--engine {} --clients c2 --watch c1", "c1 is not the host of the database"),
        # Only the server's own files are read there.
        (
            WALK,
            "--engine {} --watch db",
            "walk cannot be run on db: path = '/etc' is a folder of the host",
        ),
        # The socket of a private server is on this host.
        (LONG, "--clients c1", "--clients give --engine the URL of a running server"),
    ],
    ids=["no data", "a folder", "private"],
)
def test_hosts_that_cannot_do_it_are_refused(
    url: str, run: Callable[..., Results], workload: str, words: str, sentence: str
) -> None:
    """One sentence, and nothing was begun."""
    done, saved = run(workload, *words.format(url).split(), check=2)

    assert saved is None
    assert sentence in done.stderr


def connected(hosts: Hosts, name: str) -> list[str]:
    """Return the command lines of the database's processes that serve a client."""
    lines = hosts["db"].processes().values()
    return [line for line in lines if f"app postgres {hosts[name].address}(" in line]


@contextlib.contextmanager
def under_way(hosts: Hosts, url: str) -> Iterator[Started]:
    """Give a run whose sessions have been let go, and have said so."""
    words = command(hosts, LONG, "--engine", url, "--clients", "c1,c2", "--watch", "db")
    before = set(results(hosts))
    with (hosts["user"].own / "printed").open("w") as file:
        started = hosts["user"].start(*words, stdout=file, stderr=file)
    try:
        deadline = time.monotonic() + LONGEST
        while not UNDER_WAY.search(printed := (hosts["user"].own / "printed").read_text()):
            assert time.monotonic() < deadline, (printed, replayers(hosts))
            assert started.poll() is None, printed
            time.sleep(0.1)
        started.file = next(iter(set(results(hosts)) - before))
        yield started
    finally:
        if started.poll() is None:
            os.kill(started.inside, signal.SIGKILL)
        started.wait(timeout=LONGEST)


def ended(started: Started, hosts: Hosts) -> tuple[Any, str]:
    """Wait for the end of a run that was disturbed; return its file and what it printed."""
    started.wait(timeout=LONGEST)
    printed = (hosts["user"].own / "printed").read_text()
    return json.loads(started.file.read_text()), printed


def shown_secrets(host: Host) -> list[int]:
    """Return the processes of a host that show the password, in `ps` or in their environment."""
    secret = namespaces.PASSWORD.encode()
    return [
        pid
        for pid in host.processes()
        for shown in ("cmdline", "environ")
        if secret in Path(f"/proc/{pid}/{shown}").read_bytes()
    ]


def pid_of(host: Host, words: str) -> int:
    """Return the process of a host in whose command line some words are."""
    (pid,) = [pid for pid, line in host.processes().items() if words in line]
    return pid


def test_ctrl_c_reaches_the_run_and_its_last_words_are_kept(hosts: Hosts, url: str) -> None:
    """The step was cut short, what it had found by then is in the file, and nothing is left.

    Meanwhile no process of any host shows the password.
    """
    with under_way(hosts, url) as started:
        telling = [host.name for host in hosts.values() if shown_secrets(host)]
        os.kill(started.inside, signal.SIGINT)
        saved, printed = ended(started, hosts)

    assert telling == []
    assert started.returncode == 130, printed
    assert (saved["status"], saved["error"]) == ("interrupted", "stopped by Ctrl-C")
    assert [step["status"] for step in saved["steps"]] == ["interrupted"]
    assert saved["host"]["host.name"]
    nothing_left(hosts)


def lost_client(hosts: Hosts) -> str:
    """Take the cable of a client out for 5 seconds."""
    hosts["c2"].cut()
    time.sleep(5)
    hosts["c2"].mend()
    return "c2"


def lost_database_agent(hosts: Hosts) -> str:
    """Kill the agent on the database's host."""
    os.kill(pid_of(hosts["db"], "replayer agent"), signal.SIGKILL)
    return "db"


def lost_ssh(hosts: Hosts) -> str:
    """Kill the ssh that leads to a client."""
    os.kill(pid_of(hosts["user"], "-- c1 "), signal.SIGKILL)
    return "c1"


def hung_client(hosts: Hosts) -> str:
    """Stop every process of a client."""
    hosts["c1"].stop()
    return "c1"


def cut_database(hosts: Hosts) -> str:
    """Take the cable of the database's host out for 5 seconds."""
    hosts["db"].cut()
    time.sleep(5)
    hosts["db"].mend()
    return "db"


LOSSES = (lost_client, lost_database_agent, lost_ssh, hung_client, cut_database)


@pytest.mark.parametrize("lose", LOSSES)
def test_a_host_that_is_lost_ends_the_run_as_partial(
    hosts: Hosts, url: str, lose: Callable[[Hosts], str]
) -> None:
    """One sentence names the host; what was measured is kept, and nothing is left."""
    with under_way(hosts, url) as started:
        name = lose(hosts)
        try:
            saved, printed = ended(started, hosts)
        finally:
            hosts["c1"].go_on()
    errors = [line for line in printed.splitlines() if "replayer: error:" in line]

    assert started.returncode == 1, printed
    assert (saved["status"], len(errors)) == ("partial", 1), printed
    assert f"the host {name} is lost" in errors[0]
    assert [step["status"] for step in saved["steps"]] == ["partial"]
    assert saved["host"]["host.name"]
    nothing_left(hosts)


@pytest.mark.quiet
@pytest.mark.parametrize("lose", LOSSES)
def test_a_host_that_is_lost_ends_the_run_within_10_s(
    hosts: Hosts, url: str, lose: Callable[[Hosts], str]
) -> None:
    """The loss is told, and 10 seconds after it at the latest nothing is left of the run."""
    with under_way(hosts, url) as started:
        since = time.monotonic()
        lose(hosts)
        try:
            ended(started, hosts)
        finally:
            hosts["c1"].go_on()
    assert time.monotonic() - since < ENDS_WITHIN
    nothing_left(hosts, within=ENDS_WITHIN)


def test_without_the_host_that_asked_all_others_stop(hosts: Hosts, url: str) -> None:
    """Its replayer is killed: no agent, no worker and no statement is left.

    What it told of itself is removed by the next command.
    """
    with under_way(hosts, url) as started:
        os.kill(started.inside, signal.SIGKILL)
        deadline = time.monotonic() + LONGEST
        all_ended(hosts)
        # The server hears of it when a session's slice is over.
        while any(connected(hosts, name) for name in hosts) and time.monotonic() < deadline:
            time.sleep(0.1)
        saved = json.loads(started.file.read_text())

    assert saved["status"] == "running"
    assert not [name for name in hosts if connected(hosts, name)]
    hosts["user"].run(sys.executable, "-m", "replayer", "clean", "--yes")
    nothing_left(hosts)
