"""Counts of system calls that bpftrace printed, and the marks that they belong to."""

import json
import time
from pathlib import Path

import pytest

from replayer.collectors import CollectorContext
from replayer.collectors.syscalls.recording import CallRecording
from replayer.machine.host import Host

HOUR_NS = 3600 * 10**9


@pytest.mark.parametrize("asleep_ns", [0, HOUR_NS])
def test_counts_are_found_after_a_suspend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asleep_ns: int
) -> None:
    """The clock of bpftrace counts the hour that the machine slept, or does not."""
    monkeypatch.setattr("time.clock_gettime_ns", lambda _clock: time.monotonic_ns() + HOUR_NS)
    program = tmp_path / "bpftrace"
    program.write_text("#!/bin/sh\necho counting\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setattr("replayer.shell.find", lambda _name: program)
    recording = CallRecording(
        CollectorContext(Host(tmp_path), "vda", tmp_path, server=list, own=list)
    )
    marks = time.monotonic_ns(), time.monotonic_ns() + 10**9
    for number, mark_ns in enumerate(marks, 1):
        recording.mark(mark_ns)
        edge = {"type": "printf", "data": f"edge {mark_ns + asleep_ns + 1000}\n"}
        counts = {"type": "map", "data": {"@": {"1,0": 5 * number}}}
        with (tmp_path / "bpftrace.log").open("a") as log:
            log.write(f"{json.dumps(edge)}\n{json.dumps(counts)}\n")
    recording.end()

    (row,) = recording.cut(*marks).tables["syscalls"]
    assert (row["whose"], row["calls"]) == ("others", 5)
