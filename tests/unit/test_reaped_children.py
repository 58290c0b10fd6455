"""CPU time of a child that ends during a reading: it moves to its parent, and is never lost."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from replayer.collectors import processes as processes_collector
from replayer.machine import processes, threads
from replayer.machine.host import Host
from replayer.watch import interference

BURNT = 0.2
"""CPU seconds of the child."""
LEAST = 0.18
"""The kernel counts whole ticks of ended children, in user mode and in the kernel."""
PARENT = f"""
import os, signal, sys, time
child = os.fork()
if not child:
    while time.process_time() < {BURNT}: pass
    os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(0)
os.waitpid(child, os.WUNTRACED)
print(child, flush=True)
sys.stdin.readline()
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
print("reaped", flush=True)
sys.stdin.readline()
"""


class Family(NamedTuple):
    """A parent, its child that has used CPU time, and a function that lets it end."""

    parent: int
    child: int
    reap: Callable[[], None]


@pytest.fixture
def family() -> Iterator[Family]:
    """Run a parent with a child that ends, once, when it is asked to."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        sent, shown = parent.stdin, parent.stdout
        assert sent
        assert shown
        child = int(shown.readline())

        def reap() -> None:
            if Path(f"/proc/{child}").exists():
                sent.write("\n")
                sent.flush()
                assert shown.readline() == "reaped\n"

        yield Family(parent.pid, child, reap)
        reap()


def ending(read: Callable[..., Any], family: Family, name: object) -> Callable[..., Any]:
    """Return a function that reads like `read`, and lets the child end before it reads `name`."""

    def reads(what: Any) -> Any:
        if what == name:
            family.reap()
        return read(what)

    return reads


def test_a_reading_of_the_server_has_the_time_of_a_child_that_ends(
    family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parent is read, the child is reaped, and then the child would be read."""
    child = Path(f"/proc/{family.child}")
    side = processes_collector._Side(
        lambda: [family.parent, *([family.child] if child.exists() else [])], reaped=True
    )
    before = side.read()
    assert before["user"] + before["system"] >= LEAST

    hooked = ending(threads.read, family, f"/proc/{family.child}/stat")
    monkeypatch.setattr(threads, "read", hooked)
    after = side.read()

    assert after["user"] + after["system"] >= LEAST
    assert after["user"] + after["system"] <= before["user"] + before["system"] + LEAST / 2


def test_a_mark_of_a_window_has_the_time_of_a_child_that_ends(
    family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the window would have CPU time of other programs that there were not."""
    before = interference.point(Host(), [family.parent])
    real = processes.table

    def table() -> Iterator[processes.Process]:
        for process in real():
            yield process
            if process.pid == family.parent:
                family.reap()

    monkeypatch.setattr(processes, "table", table)
    after = interference.point(Host(), [family.parent])

    # The time of this process is in it, too, and only grows.
    assert after.known >= before.known - BURNT / 2


def test_cpu_seconds_have_the_time_of_a_child_that_ends(
    family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same for the CPU time of a family."""
    before = sum(processes.cpu_seconds([family.parent, family.child]))
    monkeypatch.setattr(processes, "_stat", ending(processes._stat, family, family.child))
    after = sum(processes.cpu_seconds([family.parent, family.child]))

    assert min(before, after) >= LEAST
    assert max(before, after) <= min(before, after) + LEAST / 2
