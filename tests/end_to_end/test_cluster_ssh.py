"""Agents behind OpenSSH, on hosts that have networks and clocks of their own."""

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests import cluster_jobs, namespaces
from tests.namespaces import Host
from tests.waiting import wait_until

pytestmark = [pytest.mark.root, pytest.mark.slow]

HOUR = 3600
CLIENTS = ("c1", "c2", "c3", "c4")
PYTHON = ("env", f"PYTHONPATH={cluster_jobs.ROOT}", sys.executable, "-c")
HOME = ("env", "REPLAYER_HOME=/run/replayer")
PROGRAM = """
import json, sys, time
from replayer.cluster.hosts import connect_hosts
from replayer.storage import spin_worker
clients = sys.argv[1].split(",")
with connect_hosts(clients) as hosts:
    offsets = {name: hosts.offset(name) for name in clients}
    jobs = [spin_worker.SpinWork("cpu", 0.5, 4096)] * len(clients)
    starts = []
    for _ in range(3):
        with hosts.pool(spin_worker.work, jobs, processes=len(jobs)) as pool:
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
def hosts() -> Iterator[dict[str, Host]]:
    """Return hosts of which two have other clocks, all clients a millisecond away each way."""
    clocks = {"c1": HOUR, "c3": 24 * HOUR}
    with namespaces.rig(
        "user", *CLIENTS, clocks=clocks, delays=dict.fromkeys(CLIENTS, 1.0)
    ) as made:
        yield made


@pytest.fixture(scope="module")
def found(hosts: dict[str, Host]) -> Any:
    """Return the offsets of all clients, and when the jobs of three pools began on each."""
    printed = hosts["user"].run(*PYTHON, PROGRAM, ",".join(CLIENTS)).stdout
    return json.loads(printed.splitlines()[-1])


def test_clocks_are_found(hosts: dict[str, Host], found: Any) -> None:
    """The offset that was injected lies within the bound."""
    injected = {"c1": HOUR, "c3": 24 * HOUR}
    for name, (ns, bound_ns) in found["offsets"].items():
        assert abs(ns - injected.get(name, 0) * 10**9) <= bound_ns, name
        assert bound_ns >= 1_000_000, "half of a round trip of two milliseconds"
    assert [len(starts) for starts in found["starts"]] == [len(CLIENTS)] * 3
    _nothing_left(hosts)


@pytest.mark.quiet
def test_clocks_are_found_closely_and_all_start_together(found: Any) -> None:
    """The bound is not much more than half a round trip, and starts lie within 5 ms."""
    assert all(bound_ns < 10_000_000 for _, bound_ns in found["offsets"].values())
    assert min(max(starts) - min(starts) for starts in found["starts"]) < 5_000, found


def test_check_tells_of_each_host(hosts: dict[str, Host]) -> None:
    """What is there, and in one sentence what is not."""
    words = (*HOME, sys.executable, "-m", "replayer", "check", "--json", "--clients", "c1,nowhere")
    done = hosts["user"].run(*words, check=False)
    lines = {line["name"]: line for line in json.loads(done.stdout)["lines"]}

    assert done.returncode == 2
    assert lines["c1"]["answer"] == "ok"
    assert "the same as here" in lines["c1"]["found"]
    assert "its time of day is the same" in lines["c1: clock"]["found"]
    assert lines["nowhere"]["answer"] == "no"
    assert "nowhere" in lines["nowhere"]["found"]
    _nothing_left(hosts)


def test_check_measures_the_way_to_the_database(hosts: dict[str, Host]) -> None:
    """A round trip over two cables that take a millisecond each way is four, and a little."""
    url = namespaces.postgres(hosts["c2"])
    words = (*HOME, sys.executable, "-m", "replayer", "check", "--json", "--engine", url)
    done = hosts["user"].run(*words, "--clients", "c1", check=False)
    lines = {line["name"]: line for line in json.loads(done.stdout)["lines"]}

    found = lines["c1: database"]["found"]
    assert "a round trip takes" in found
    assert "/s come by one connection" in found
    assert namespaces.PASSWORD not in done.stdout + done.stderr


def _nothing_left(hosts: dict[str, Host]) -> None:
    wait_until(lambda: not any(host.processes() for host in hosts.values()))
