"""`replayer experiment` that is killed at drawn moments: all is given back, nothing is lost."""

import contextlib
import json
import random
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from replayer import factors, journal
from replayer.machine import processes
from tests.command import Replayer
from tests.waiting import wait_until

MOMENTS = 10
WORKLOAD = """\
description = "sessions for a moment"

[[step]]
step = "sessions"
name = "sessions"
memory = "cached"
num_schemas = 1
num_threads = 1
scale = "8M"
run_time = "200ms"
"""
MOMENT = """\
description = "divisions for a moment"

[[step]]
step = "probe"
name = "cpu"
probe = "cpu"
threads = [1]
cpu_max_prime = 100
duration = "100ms"
"""
FACTORS = "rq_affinity=1:2,cpu_quota=64:32"


def machine(home: Path) -> dict[str, object]:
    """Return what an experiment changes, as it is now."""
    mounts = Path("/proc/mounts").read_text()
    return {
        "level": factors.load("rq_affinity").current(factors.place_at(home, "")),
        "mounts": [line for line in mounts.splitlines() if "replayer" in line],
        "huge pages": Path("/proc/sys/vm/nr_hugepages").read_text(),
    }


def taken() -> dict[Path, str]:
    """Return the cgroups and the folders of sockets that notes name, with the notes' kinds."""
    places = {"cgroup": "group", "socket": "path"}
    notes = [note for note in journal.notes() if note.kind in places]
    return {Path(note.details[places[note.kind]]): note.kind for note in notes}


def wait_until_run(experiment: "subprocess.Popen[str]") -> None:
    """Wait for the line about its first run."""
    assert experiment.stderr is not None
    while ", run 1 of " not in (line := experiment.stderr.readline()):
        assert line


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.alone
def test_a_kill_at_any_moment_is_made_good_by_the_next_command(
    replayer: Replayer, own_home: Path
) -> None:
    """It stops the server, gives back what was switched, and a resumption counts no run twice."""
    place = factors.place_at(own_home, "")
    for word in FACTORS.split(","):
        reason = factors.load(word.partition("=")[0]).unavailable(place)
        if reason:
            pytest.skip(reason)
    for name, text in (("sessions.toml", WORKLOAD), ("moment.toml", MOMENT)):
        (replayer.folder / name).write_text(text)
    before = machine(own_home)
    # The first run also makes the data directory.
    replayer.process("run", "./sessions.toml", "--without", "all")
    asked = ("experiment", "./sessions.toml", "--factors", FACTORS, "--within", 99)
    words: tuple[object, ...] = (*asked, "--without", "all", "--yes")
    seconds = 0.0
    seen: set[str] = set()
    for moment in range(MOMENTS):
        begin = time.monotonic()
        killed = replayer.start(*words)
        if moment:
            with contextlib.suppress(subprocess.TimeoutExpired):
                killed.wait(random.Random(moment).uniform(0, 1.5 * seconds))
        else:
            wait_until_run(killed)
            seconds = time.monotonic() - begin
        killed.kill()
        killed.communicate(timeout=60)
        seen.update(note.kind for note in journal.notes())
        left = taken()
        replayer("run", "./moment.toml", "--without", "all")

        wait_until(lambda: not [pid for pid in processes.every() if _is_of(pid, replayer.folder)])
        assert machine(own_home) == before
        assert [path for path in left if path.exists()] == []
        assert list(journal.notes()) == []
        words = ("experiment", "--resume", "latest", "--yes")
    answer = json.loads(replayer(*words, "--json").out)

    (plan,) = (replayer.folder / "results").glob("*/plan.experiment")
    done = [run for run in map(_read, plan.parent.glob("*.json")) if run["status"] == "done"]
    places = [(run["tags"]["block"], run["tags"]["combination"]) for run in done]
    assert {"kernel-setting", "cgroup", "server"} <= seen
    assert len(places) == len(set(places)) == answer["runs"] == 12


def _is_of(pid: int, folder: Path) -> bool:
    return str(folder) in processes.arguments(pid)


def _read(path: Path) -> dict[str, Any]:
    run: dict[str, Any] = json.loads(path.read_text())
    return run
