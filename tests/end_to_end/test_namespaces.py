"""The rig of several hosts: each has what a host has, and nothing of it outlives the test."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import namespaces
from tests.namespaces import Host

pytestmark = pytest.mark.root

ROUND_TRIPS = """
import socket, sys, threading, time
sock = socket.create_connection((sys.argv[1], 22), timeout=120)
sock.recv(100)
taken = []
for _ in range(20):
    began = time.perf_counter()
    socket.create_connection((sys.argv[1], 22), timeout=120).close()
    taken.append(time.perf_counter() - began)
print(min(taken))
"""
"""A connection is made in one round trip."""
HOLDING = """
import sys, time
from tests import namespaces
from tests.namespaces import Host
with namespaces.rig("one") as hosts:
    busy = hosts["one"].start("sleep", "1000")
    print(busy.inside, hosts["one"].first, hosts["one"].own, flush=True)
    time.sleep(1000)
"""


@pytest.fixture(scope="module")
def hosts() -> Iterator[dict[str, Host]]:
    """Return four hosts; the clocks of one are ahead by an hour, another is far away."""
    with namespaces.rig(
        "user", "db", "near", "far", clocks={"near": 3600}, delays={"far": 1}
    ) as all_:
        yield all_


def seconds(host: Host, to: str) -> float:
    """Return the shortest round trip from one host to another."""
    return float(host.run("python3", "-I", "-c", ROUND_TRIPS, to).stdout)


def test_each_is_a_host_of_its_own(hosts: dict[str, Host]) -> None:
    """What ssh starts has its host's name, files and processes, and none of another one's."""
    (hosts["db"].own / "only-there").write_text("")
    busy = hosts["near"].start("sleep", "1000")
    asked = "hostname; ls /srv; ps -eo args; env | grep REPLAYER_HOME"
    words = hosts["user"].run("ssh", "db", asked).stdout.splitlines()
    busy.send_signal(signal.SIGKILL)

    assert words[0] == "db"
    assert words[-1] == "REPLAYER_HOME=/srv/replayer"
    assert "only-there" in words
    assert "sleep 1000" not in words
    assert hosts["near"].processes() == {busy.inside: "sleep 1000"}
    assert "only-there" not in hosts["user"].run("ls", "/srv").stdout
    os.kill(busy.inside, signal.SIGKILL)
    busy.wait()


def test_clocks_are_ahead_by_what_was_asked(hosts: dict[str, Host]) -> None:
    """CLOCK_MONOTONIC of one host is an hour ahead of the others', which agree."""
    ask = ("python3", "-I", "-c", "import time; print(time.monotonic())")
    order = ("user", "near", "user", "db", "user")
    first, ahead, between, same, last = (float(hosts[name].run(*ask).stdout) for name in order)

    assert first <= ahead - 3600 <= between <= same <= last


def test_a_far_host_is_a_millisecond_away_each_way(hosts: dict[str, Host]) -> None:
    """No round trip to it takes less than 2 ms, from either end."""
    assert seconds(hosts["user"], "far") >= 0.002
    assert seconds(hosts["far"], "user") >= 0.002


@pytest.mark.quiet
def test_a_far_host_is_no_further_than_was_asked(hosts: dict[str, Host]) -> None:
    """A round trip to it takes 2 ms more than one to a near host, from either end."""
    near = seconds(hosts["user"], "db")

    assert 0.002 <= seconds(hosts["user"], "far") - near <= 0.004
    assert 0.002 <= seconds(hosts["far"], "user") - near <= 0.004


def test_a_cable_that_is_out_and_in_again(hosts: dict[str, Host]) -> None:
    """Nobody answers without it; with it again they do, also through a cable that delays."""
    names = ("near", "far")
    for name in names:
        hosts[name].cut()
    # At the same time, as each waits for a second.
    words = ("ssh", "-o", "ConnectTimeout=1")
    asked = [hosts["user"].start(*words, name, "true", stderr=subprocess.PIPE) for name in names]
    failed = [(one.communicate(timeout=120), one.returncode)[1] for one in asked]
    for name in names:
        hosts[name].mend()

    assert failed == [255, 255]
    for name in names:
        assert hosts["user"].run("ssh", name, "hostname").stdout == f"{name}\n"


def test_a_host_that_hangs_and_goes_on(hosts: dict[str, Host]) -> None:
    """A stopped host takes connections, as its kernel lives, and says nothing until it goes on."""
    hosts["db"].stop()
    silent = ("ssh", "-o", "ConnectTimeout=1", "db", "true")
    failed = hosts["user"].run(*silent, check=False)
    hosts["db"].go_on()

    assert failed.returncode == 255
    assert hosts["user"].run("ssh", "db", "hostname").stdout == "db\n"


def test_nothing_outlives_the_process_that_made_it() -> None:
    """After a SIGKILL its hosts' processes are gone at once, and the next rig sweeps its folder."""
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", HOLDING], stdout=subprocess.PIPE, text=True, cwd=root
    ) as holder:
        assert holder.stdout is not None
        *pids, folder = holder.stdout.readline().split()
        lived = [Path(path).exists() for path in (*(f"/proc/{pid}" for pid in pids), folder)]
        holder.kill()
    deadline = time.monotonic() + 120
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < deadline, "processes of a killed rig live on"
        time.sleep(0.01)

    assert lived == [True, True, True]
    # Another test's next rig may have swept it by now.
    namespaces.sweep()
    assert not Path(folder).parent.exists()


def test_a_host_that_ends_takes_all_with_it() -> None:
    """Its processes are gone when `end` returns, and the others do not mind."""
    with namespaces.rig("one", "two") as hosts:
        busy = hosts["one"].start("sleep", "1000")
        hosts["one"].end()

        assert not Path(f"/proc/{busy.inside}").exists()
        assert hosts["two"].run("hostname").stdout == "two\n"
        busy.wait()
