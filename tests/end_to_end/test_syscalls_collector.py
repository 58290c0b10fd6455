"""System calls are counted by kind, of whom, in the window and not outside of it."""

import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from replayer import journal
from replayer.collectors import CollectorContext
from replayer.collectors.syscalls import collector, recording
from replayer.collectors.syscalls.numbers import names
from replayer.collectors.syscalls.recording import CallRecording
from replayer.errors import ReplayerError, Skip
from replayer.machine import processes
from replayer.machine.host import Host
from tests.conftest import missing
from tests.waiting import wait_until

READS = """
import os, sys
zero = os.open("/dev/zero", os.O_RDONLY)
for line in sys.stdin:
    for _ in range(int(line)):
        os.pread(zero, 1, 0)
    print("done", flush=True)
"""


def scene(folder: Path, server: Sequence[int] = ()) -> CollectorContext:
    """Return a scene with these processes as the server's."""
    folder.mkdir()
    return CollectorContext(
        Host(), None, folder, lambda: list(server), lambda: processes.family(os.getpid())
    )


@pytest.fixture
def begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., CallRecording]]:
    """Return a function that begins a recording; skip where this machine does not allow it.

    However busy the machine is, bpftrace has the time to begin and to write its edges down.
    """
    monkeypatch.setattr(recording, "_READY_SECONDS", 600.0)
    monkeypatch.setattr(recording, "_EDGE_SECONDS", 600.0)
    monkeypatch.setattr(recording, "_SLACK_NS", 600 * 10**9)
    recordings: list[CallRecording] = []
    if shutil.which("bpftrace") is None:
        missing("bpftrace", "there is no bpftrace (apt-get install bpftrace)")

    def begin(server: Sequence[int] = ()) -> CallRecording:
        try:
            recordings.append(collector.begin(scene(tmp_path / "scene", server)))
        except Skip as skip:
            pytest.skip(str(skip))
        return recordings[-1]

    yield begin
    for one in recordings:
        if one._program.process.poll() is None:
            one._program.process.kill()
            one._program.process.wait()


def test_exactly_the_calls_of_the_window_are_counted(begun: Callable[..., CallRecording]) -> None:
    """A reader's reads before and after the edges are not, those between them are, every one."""
    command = [sys.executable, "-c", READS]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as reader:

        def read(times: int) -> None:
            assert reader.stdout
            print(times, file=reader.stdin, flush=True)
            assert reader.stdout.readline() == "done\n"

        one = begun([reader.pid])
        edges = []
        for times in (7_000, 12_345, 9_000):
            read(times)
            edges.append(time.monotonic_ns())
            one.mark(edges[-1])
            # What was counted is read a moment after the edge.
            wait_until(lambda: len(one._written()) == len(edges))
        one.end()
        assert reader.stdin
        reader.stdin.close()

    rows = one.cut(edges[0], edges[1]).tables["syscalls"]

    counted = {(row["whose"], row["syscall"]): row["calls"] for row in rows}
    assert counted["server", "pread64"] == 12_345
    assert not journal.identity(one._program.process.pid)


def test_a_bpftrace_that_is_killed_in_the_middle_is_told(
    begun: Callable[..., CallRecording],
) -> None:
    """What it had counted died with it: one sentence, at once, and nothing is raised before."""
    one = begun()
    one.mark(begin_ns := time.monotonic_ns())
    wait_until(one._written)
    one._program.process.kill()
    one._program.process.wait()
    one.mark(end_ns := time.monotonic_ns())
    one.end()

    with pytest.raises(ReplayerError, match="was ended in the middle of the step by SIGKILL"):
        one.cut(begin_ns, end_ns)


def test_without_bpftrace_or_its_right_the_reason_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What to install; or what it said itself."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Skip, match=r"^bpftrace is not installed"):
        collector.begin(scene(tmp_path / "first"))
    program = tmp_path / "bpftrace"
    program.write_text("#!/bin/sh\necho 'ERROR: bpftrace needs to run as root'\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(Skip, match=r"cannot count system calls here: ERROR: bpftrace needs"):
        collector.begin(scene(tmp_path / "second"))


def test_numbers_are_the_headers() -> None:
    """Of this machine's headers, where it has some."""
    header = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
    if platform.machine() != "x86_64" or not header.is_file():
        pytest.skip("there is no header of this architecture here")
    known = re.findall(r"#define __NR_(\w+) (\d+)", header.read_text(encoding="ascii"))

    assert {int(number): name for name, number in known}.items() <= names("x86_64").items()
    assert names("aarch64")[67] == "pread64"
    assert names("aarch64")[439] == names("x86_64")[439] == "faccessat2"
