"""A recording by bpftrace, which counts system calls and prints all counts at each mark."""

import contextlib
import json
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from replayer import shell
from replayer.collectors import CollectorContext, WindowRecording
from replayer.collectors.syscalls.numbers import names
from replayer.errors import ReplayerError, Skip
from replayer.machine import boot_clock
from replayer.machine.background import Background

TABLE = "syscalls"
_EDGE = 0x7E91A7
"""To mark an edge of a window, replayer calls `getpriority` with this process id.

No machine has a process with this id.
"""
_READY = "counting"
_PROGRAM = """
BEGIN {{ printf("{ready}\\n"); }}
tracepoint:raw_syscalls:sys_enter {{ @[pid, args->id] = count(); }}
tracepoint:syscalls:sys_enter_getpriority /args->who == {edge}/ {{
  printf("edge %llu\\n", nsecs); print(@);
}}
END {{ clear(@); }}
"""
_READY_SECONDS = 20.0
_EDGE_SECONDS = 1.0
_SLACK_NS = 50_000_000
"""Counts that are printed later than this after a mark are not those of this mark."""
_MOST_KINDS = 20
_KEYS = {"BPFTRACE_MAP_KEYS_MAX": "65536", "BPFTRACE_MAX_MAP_KEYS": "65536"}
"""Environment of bpftrace: its limit for pairs (process, call), under the old and the new name."""
_INSTALL = "apt-get install bpftrace, or dnf install bpftrace"


@dataclass(frozen=True)
class _Edge:
    """The counts at a mark: (process id, number of the system call) -> calls since the start.

    A mark is the begin or the end of a measured window; the start is that of bpftrace.
    """

    clock_ns: int
    calls: Counter[tuple[int, int]]


class CallRecording:
    """One process of bpftrace that counts the system calls of all processes.

    The constructor raises Skip with the reason if bpftrace is not installed or cannot count.
    """

    def __init__(self, scene: CollectorContext) -> None:
        bpftrace = shell.find("bpftrace")
        if bpftrace is None:
            raise Skip(f"bpftrace is not installed ({_INSTALL})")
        self._scene = scene
        program = scene.folder / "syscalls.bt"
        program.write_text(_PROGRAM.format(ready=_READY, edge=_EDGE), encoding="utf-8")
        self._servers: set[int] = set()
        self._clients: set[int] = set()
        self._looks: list[threading.Thread] = []
        self._boot_clocks: dict[int, int] = {}
        """CLOCK_MONOTONIC of each mark -> its CLOCK_BOOTTIME, in ns."""
        self._edges = 0
        self._early_end = ""
        self._program = Background(
            [bpftrace, "-q", "-f", "json", program],
            scene.folder / "bpftrace.log",
            environment=_KEYS,
        )
        try:
            self._wait_until_ready()
        except BaseException:
            self._program.stop()
            raise

    def mark(self, clock_ns: int) -> None:
        """Make bpftrace print its counts so far, and note the processes of server and clients."""
        # bpftrace records this clock itself, or the one that goes on during a suspend.
        self._boot_clocks[clock_ns] = clock_ns + boot_clock.asleep_ns()
        self._program.charge()
        self._edges += 1
        with contextlib.suppress(OSError):
            os.getpriority(os.PRIO_PROCESS, _EDGE)
        look = threading.Thread(target=self._look, daemon=True)
        look.start()
        self._looks.append(look)

    def end(self) -> float:
        """Stop bpftrace; return the CPU seconds that it used since the first mark."""
        cost = self._program.cost()  # first: an ended program has no cost after `early_end`
        self._early_end = self._program.early_end()
        end = time.monotonic() + (0 if self._early_end else _EDGE_SECONDS)
        while len(self._written()) < self._edges and time.monotonic() < end:
            time.sleep(0.02)
        if not self._early_end:
            cost = self._program.cost()
        self._program.stop()
        for look in self._looks:
            look.join(_EDGE_SECONDS)
        return cost

    def cut(self, begin_ns: int, end_ns: int) -> WindowRecording:
        """Return the table of system calls between two marks, the most frequent first.

        Raises ReplayerError if the counts of a mark are missing, or if no call of the server was
        seen although its processes are known.
        """
        first, last = (self._at(clock_ns) for clock_ns in (begin_ns, end_ns))
        made = last.calls - first.calls
        if self._servers and not any(pid in self._servers for pid, _ in made):
            raise ReplayerError(
                "bpftrace saw no call of the server, as where process ids in here are not the "
                "kernel's own: run replayer outside of the container"
            )
        calls = {whose: self._kinds(made, pids) for whose, pids in self._whose(made).items()}
        rows = [
            {"whose": whose, "syscall": kind, "calls": count}
            for whose, kinds in calls.items()
            for kind, count in kinds.most_common(_MOST_KINDS)
        ]
        return WindowRecording(tables={TABLE: rows})

    def _wait_until_ready(self) -> None:
        end = time.monotonic() + _READY_SECONDS
        while _READY not in self._program.text():
            if self._program.status is not None or time.monotonic() > end:
                raise Skip(f"bpftrace cannot count system calls here: {self._last_words()}")
            time.sleep(0.02)

    def _look(self) -> None:
        """Note the processes of the server and of replayer as they are now."""
        with contextlib.suppress(ReplayerError, OSError):
            servers = self._scene.server()
            self._servers.update(servers)
            self._clients.update(self._scene.own())

    def _whose(self, made: Mapping[tuple[int, int], int]) -> dict[str, set[int]]:
        """Return `server`, `client` and `others` -> ids of their processes in `made`.

        `made` is (process id, number of the system call) -> count.
        """
        everybody = {pid for pid, _ in made}
        own = self._clients - self._servers - {self._program.process.pid}
        return {
            "server": everybody & self._servers,
            "client": everybody & own,
            "others": everybody - self._servers - self._clients,
        }

    def _kinds(self, made: Mapping[tuple[int, int], int], pids: set[int]) -> Counter[str]:
        known = names()
        kinds: Counter[str] = Counter()
        for (pid, number), count in made.items():
            if pid in pids:
                kinds[known.get(number, f"syscall {number}")] += count
        return kinds

    def _at(self, clock_ns: int) -> _Edge:
        """Return the counts at the mark `clock_ns`; raise ReplayerError if they are missing."""
        clocks = (self._boot_clocks.get(clock_ns, clock_ns), clock_ns)
        near = [
            one
            for clock in clocks
            for one in self._written()
            if 0 <= one.clock_ns - clock <= _SLACK_NS
        ]
        if not near and self._early_end:
            raise ReplayerError(f"bpftrace {self._early_end}: {self._last_words()}")
        if not near:
            raise ReplayerError(f"bpftrace did not write its counts: {self._last_words()}")
        return near[0]

    def _written(self) -> Sequence[_Edge]:
        messages: list[dict[str, Any]] = []
        for line in self._program.text().splitlines():
            # The last line may be incomplete, and others are bpftrace's warnings.
            with contextlib.suppress(ValueError):
                messages.append(json.loads(line))
        return [
            _Edge(int(edge[1]), _calls(after["data"]))
            for before, after in pairwise(messages)
            if before.get("type") == "printf"
            and (edge := re.match(r"edge (\d+)", str(before["data"])))
            and after.get("type") == "map"
        ]

    def _last_words(self) -> str:
        lines = [line.strip() for line in self._program.text().splitlines() if "{" not in line]
        # The warning that a limit cannot be raised is no reason: bpftrace goes on without it.
        words = [line for line in lines if line and "RLIMIT_MEMLOCK" not in line]
        return "; ".join(words[-2:])[:300] or "it printed nothing"


def _calls(maps: Mapping[str, Mapping[str, int]]) -> Counter[tuple[int, int]]:
    """Return (process id, number of the call) -> count, from bpftrace's keys `pid,number`."""
    calls: Counter[tuple[int, int]] = Counter()
    for key, count in maps.get("@", {}).items():
        pid, _, number = key.partition(",")
        calls[int(pid), int(number)] = count
    return calls
