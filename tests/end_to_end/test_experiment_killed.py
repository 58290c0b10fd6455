"""Searches that are killed at drawn moments: all is given back, and no run is lost or twice."""

import contextlib
import json
import random
import re
import subprocess
import time
from collections.abc import Callable
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


def wait_until_run(command: "subprocess.Popen[str]") -> None:
    """Wait for the line about its first run."""
    assert command.stderr is not None
    while not re.search(r"\brun 1\b", line := command.stderr.readline()):
        assert line


def wait_until_server(command: "subprocess.Popen[str]") -> None:
    """Wait until a command has started a server."""

    def started() -> bool:
        assert command.poll() is None
        return any(note.kind == "server" for note in journal.notes())

    wait_until(started)


def killed_and_given_back(
    replayer: Replayer,
    words: tuple[object, ...],
    resumed: tuple[object, ...],
    state: Callable[[], object],
    moments: int,
) -> set[str]:
    """Kill a command at drawn moments, and what resumes it; return the kinds of its notes.

    The first moment is after its first run, the second while a server runs.  After each kill the
    next command must leave the machine in the state of before.
    """
    before, seconds = state(), 0.0
    seen: set[str] = set()
    for moment in range(moments):
        begin = time.monotonic()
        killed = replayer.start(*(resumed if moment else words))
        if moment == 0:
            wait_until_run(killed)
            seconds = time.monotonic() - begin
        elif moment == 1:
            wait_until_server(killed)
        else:
            with contextlib.suppress(subprocess.TimeoutExpired):
                killed.wait(random.Random(moment).uniform(0, 1.5 * seconds))
        killed.kill()
        killed.communicate(timeout=60)
        seen.update(note.kind for note in journal.notes())
        left = taken()
        replayer("run", "./moment.toml", "--without", "all", "--results", "apart")

        wait_until(lambda: not [pid for pid in processes.every() if _is_of(pid, replayer.folder)])
        assert state() == before
        assert [path for path in left if path.exists()] == []
        assert list(journal.notes()) == []
    return seen


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.usefixtures("settings_of_the_machine")
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
    # The first run also makes the data directory.
    replayer.process("run", "./sessions.toml", "--without", "all")
    asked = ("experiment", "./sessions.toml", "--factors", FACTORS, "--within", 99)
    words = (*asked, "--without", "all", "--yes")
    resumed = ("experiment", "--resume", "latest", "--yes")
    seen = killed_and_given_back(replayer, words, resumed, lambda: machine(own_home), MOMENTS)
    answer = json.loads(replayer(*resumed, "--json").out)

    (plan,) = (replayer.folder / "results").glob("*/plan.experiment")
    done = [run for run in map(_read, plan.parent.glob("*.json")) if run["status"] == "done"]
    places = [(run["tags"]["block"], run["tags"]["combination"]) for run in done]
    assert {"kernel-setting", "cgroup", "server"} <= seen
    assert len(places) == len(set(places)) == answer["runs"] == 12


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.usefixtures("settings_of_the_machine")
@pytest.mark.parametrize("command", ["ab", "bisect"])
def test_a_killed_comparison_gives_back_what_it_switched(
    replayer: Replayer,
    own_home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
) -> None:
    """The command of --switch, the server, and of `ab` a factor: at six moments each."""
    level, switch = tmp_path / "level", tmp_path / "switch"
    level.write_text("one")
    switch.write_text(f"#!/bin/sh\nprintf %s $1 > {level}\n")
    switch.chmod(0o755)
    (replayer.folder / "sessions.toml").write_text(WORKLOAD)
    (replayer.folder / "moment.toml").write_text(MOMENT)
    replayer.process("run", "./sessions.toml", "--without", "all", "--results", "apart")
    switching = ("--switch", f"{switch} {{}}")
    kinds = {"switch", "server"}
    sides: tuple[object, ...] = ("--a", "one", "--b", "two", "--runs", 4, "--all")
    affinity, place = factors.load("rq_affinity"), factors.place_at(own_home, "")
    if not affinity.unavailable(place):
        # Neither side has the level of now, so that each run has a note.
        a, b = sorted({"0", "1", "2"} - {affinity.current(place)})[:2]
        kinds.add("kernel-setting")
        sides = (*sides, "--a", f"one rq_affinity={a}", "--b", f"two rq_affinity={b}")
    if command == "bisect":
        kinds = {"switch", "server"}
        sides = ("--over", "one,two,three", "--runs", 6)
    monkeypatch.setenv("REPLAYER_WITHOUT", "all")
    words = (command, "./sessions.toml", *switching, *sides)

    def state() -> object:
        return level.read_text(), machine(own_home)

    seen = killed_and_given_back(replayer, words, (*words, "--resume"), state, 6)
    answer = json.loads(replayer(*words, "--resume", "--json", status=None).out)

    runs = [_read(path) for path in (replayer.folder / "results").glob("*.json")]
    done = [run for run in runs if run["status"] == "done"]
    assert kinds <= seen
    assert state() == ("one", machine(own_home))
    assert len({run["id"] for run in done}) == len(done)
    if command == "ab":
        counted = answer["base"]["runs"], answer["other"]["runs"]
        assert [len(set(one)) for one in counted] == [4, 4]
        assert {run["id"] for run in done} >= {*counted[0], *counted[1]}
    else:
        values = [run["value"] for run in answer["runs"]]
        assert len(set(values)) == len(values) == 6


def _is_of(pid: int, folder: Path) -> bool:
    return str(folder) in processes.arguments(pid)


def _read(path: Path) -> dict[str, Any]:
    run: dict[str, Any] = json.loads(path.read_text())
    return run
