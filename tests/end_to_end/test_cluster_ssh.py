"""Agents behind OpenSSH, on hosts that have networks and clocks of their own."""

import json
import sys
import time

import pytest

from tests import cluster_jobs, namespaces

pytestmark = [pytest.mark.root, pytest.mark.slow]

HOUR = 3600
CLIENTS = ("c1", "c2", "c3", "c4")
PYTHON = ("env", f"PYTHONPATH={cluster_jobs.ROOT}", sys.executable, "-c")
HOME = ("env", "REPLAYER_HOME=/run/replayer")
PROGRAM = """
import json, sys, time
from replayer.cluster.hosts import connected
from replayer.storage import spin
clients = sys.argv[1].split(",")
with connected(clients) as hosts:
    offsets = {name: hosts.offset(name) for name in clients}
    jobs = [spin.Work("cpu", 0.5, 4096)] * len(clients)
    starts = []
    for _ in range(3):
        with hosts.pool(spin._work, jobs, processes=len(jobs)) as pool:
            pool.ready(60)
            pool.open()
            pool.results()
            starts.append([share.start_us for share in pool.shares])
print(json.dumps({
    "offsets": {name: (one.ns, one.bound_ns) for name, one in offsets.items()},
    "starts": starts,
}))
"""


@pytest.fixture(scope="module")
def hosts():
    """Return hosts of which two have other clocks, all clients a millisecond away each way."""
    clocks = {"c1": HOUR, "c3": 24 * HOUR}
    with namespaces.rig(
        "user", *CLIENTS, clocks=clocks, delays=dict.fromkeys(CLIENTS, 1.0)
    ) as made:
        yield made


def test_clocks_are_found_and_all_start_together(hosts):
    """The offset that was injected lies within the bound, and starts within 5 ms of each other."""
    printed = hosts["user"].run(*PYTHON, PROGRAM, ",".join(CLIENTS), timeout=120).stdout
    found = json.loads(printed.splitlines()[-1])

    injected = {"c1": HOUR, "c3": 24 * HOUR}
    for name, (ns, bound_ns) in found["offsets"].items():
        assert abs(ns - injected.get(name, 0) * 10**9) <= bound_ns, name
        assert 1_000_000 <= bound_ns < 10_000_000, "half of a round trip of two milliseconds"
    # Whoever else uses this machine's few processors may hold one of the hosts up.
    assert min(max(starts) - min(starts) for starts in found["starts"]) < 5_000, found
    _nothing_left(hosts)


def test_check_tells_of_each_host(hosts):
    """What is there, and in one sentence what is not."""
    words = (
        *HOME,
        sys.executable,
        "-m",
        "replayer",
        "check",
        "--json",
        "--clients",
        "c1,nowhere",
    )
    done = hosts["user"].run(*words, check=False, timeout=120)
    lines = {line["name"]: line for line in json.loads(done.stdout)["lines"]}

    assert done.returncode == 2
    assert lines["c1"]["answer"] == "ok"
    assert "the same as here" in lines["c1"]["found"]
    assert "its time of day is the same" in lines["c1: clock"]["found"]
    assert lines["nowhere"]["answer"] == "no"
    assert "nowhere" in lines["nowhere"]["found"]
    _nothing_left(hosts)


def test_check_measures_the_way_to_the_database(hosts):
    """A round trip over two cables that take a millisecond each way is four, and a little."""
    url = namespaces.postgres(hosts["c2"])
    words = (
        *HOME,
        sys.executable,
        "-m",
        "replayer",
        "check",
        "--json",
        "--engine",
        url,
    )
    done = hosts["user"].run(*words, "--clients", "c1", check=False, timeout=120)
    lines = {line["name"]: line for line in json.loads(done.stdout)["lines"]}

    found = lines["c1: database"]["found"]
    assert "a round trip takes" in found
    assert "/s come by one connection" in found
    assert namespaces.PASSWORD not in done.stdout + done.stderr


def _nothing_left(hosts):
    end = time.monotonic() + 10
    while any(host.processes() for host in hosts.values()) and time.monotonic() < end:
        time.sleep(0.1)
    assert not {name: left for name, host in hosts.items() if (left := host.processes())}
