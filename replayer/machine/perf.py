"""`perf record` beside a step: started, told when to record, stopped, and read."""

import contextlib
import mmap
import os
import select
import shutil
import struct
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

from replayer import shell
from replayer.errors import Impossible, ReplayerError, Skip
from replayer.machine.background import Background
from replayer.machine.host import Host
from replayer.units import show_size

_FILE = "perf.data"
_LOG = "perf.log"
_FIFOS = ("control", "ack")
_SCHEDULER = ["-e", "sched:sched_switch", "-e", "sched:sched_wakeup", "-m", "256"]
"""With 1 MiB of each processor for what it has not read yet."""
_FIRST_NAMESPACE = "pid:[4026531836]"
"""The one that the kernel boots with, include/linux/proc_ns.h."""
_DATA_SECTION = 40
"""Where in the file it stands where the records are, and how many bytes."""
_HEADER = struct.Struct("=IHH")
"""Of a record: its kind, its mode, and its length."""
_OF_BPF = frozenset({17, 18})
"""PERF_RECORD_KSYMBOL and PERF_RECORD_BPF_EVENT."""
_PASSED_OVER = 65
"""PERF_RECORD_HEADER_EVENT_TYPE, which is deprecated."""
_LEAST = 8 << 20
"""What it writes of the processes that are there when it begins, on a machine with many."""
_ROOM = 1 << 16
_LARGEST = 1 << 30
_OF_MEMORY = 0.05
"""Of the memory that is free for use: no more is taken for the file."""
_OF_FILE_SYSTEM = 0.5
_READY_SECONDS = 5.0
_END_SECONDS = 4.0
_SCRIPT_SECONDS = 300.0
_PLAIN = {"LC_ALL": "C", "PERF_CONFIG": "/dev/null", "DEBUGINFOD_URLS": "", "PAGER": "cat"}
"""perf as it comes: nobody's settings, and no look-ups of symbols over the network."""
_INSTALL = "apt-get install linux-perf, or dnf install perf"


class Perf:
    """One `perf record` of all processors."""

    def __init__(self, host: Host, folder: Path, events: Sequence[str]) -> None:
        """Start it with these options; raise Skip with the reason where it cannot record.

        It records when it is told to, if `controlled`, and else all the time.
        """
        program = shell.find("perf")
        if program is None:
            raise Skip(f"perf is not installed ({_INSTALL})")
        self.data = folder / _FILE
        self.ended_badly = ""
        """How it ended by itself, or why it was killed; "" where neither is so."""
        self.largest = _largest(host, folder)
        """Bytes of its file."""
        self._host = host
        self._program = program
        self._folder = folder
        self._options = _options(program, "record")
        self._control = _Control(folder) if "--control" in self._options else None
        self.background = Background(
            [*self._command(), *events], folder / _LOG, environment=_PLAIN, host=host
        )
        try:
            self._wait_until_ready()
        except BaseException:
            self._stop()
            raise

    @property
    def controlled(self) -> bool:
        """Tell whether this perf, of 5.10 or later, can be told when to record."""
        return self._control is not None

    def tell(self, command: str, seconds: float) -> bool:
        """Send `enable` or `disable`, and tell whether it was done within some seconds."""
        if self._control is None:
            return False
        self._control.ask(command)
        return self._control.answered(seconds)

    def end(self) -> float:
        """Stop it; return the CPU seconds that it cost."""
        cost = self.background.cost()
        if self.background.status is not None:
            self.ended_badly = self._why_ended()
        self._stop()
        return cost

    def script(
        self, fields: str, *options: str, wanted: Sequence[str] = ()
    ) -> AbstractContextManager[IO[str]]:
        """Give what it recorded as lines of these fields, with those `wanted` that it knows."""
        known = _options(self._program, "script") if wanted else frozenset()
        with contextlib.suppress(OSError, ValueError):
            mend(self.data)
        arguments: list[str | Path] = [self._program, "script", "-i", self.data, "-F", fields]
        arguments += ["--ns", *options, *(option for option in wanted if option in known)]
        return shell.printed(arguments, environment=_PLAIN, timeout=_SCRIPT_SECONDS)

    def is_full(self) -> bool:
        """Tell whether its file reached its limit."""
        return "size limit reached" in self.background.text()

    def last_words(self) -> str:
        """Return the last lines that it wrote, without those that are of no interest."""
        lines = [line.strip() for line in self.background.text().splitlines() if line.strip()]
        words = [line for line in lines if not line.startswith(("Events ", "[ perf record: "))]
        said_nothing = "it said nothing"
        if self._is_without_room():
            # Nor could it write down what it had to say.
            said_nothing = "no space is left there"
        return "; ".join(words[:3])[:300] or said_nothing

    def limit(self) -> str:
        """Return that its file reached its limit, as part of a sentence."""
        return f"its file reached {show_size(self.largest)}"

    def _command(self) -> list[str | Path]:
        command: list[str | Path] = [self._program, "record", "-a"]
        # The clock of the sampler; and no reading of all that it wrote when it is to end.
        command += ["-k", "mono", "-B", "-N", "-o", self.data]
        if "--max-size" in self._options:
            command.append(f"--max-size={self.largest >> 10}K")
        if self._control is not None:
            command += ["-D", "-1", "--control", self._control.argument]
        return command

    def _wait_until_ready(self) -> None:
        """Wait until perf listens; raise Skip with its reason if it ended instead."""
        end = time.monotonic() + _READY_SECONDS
        if self._control is not None:
            self._control.ask("ping")
        while time.monotonic() < end:
            if self.background.status is not None:
                raise Skip(self._refusal())
            if self._control is not None:
                if self._control.answered(0.02):
                    return
            elif self.data.exists() and self.data.stat().st_size:
                return
            else:
                time.sleep(0.02)

    def _stop(self) -> None:
        if not self.background.stop(_END_SECONDS):
            self.ended_badly = f"perf did not end within {_END_SECONDS:.0f} s and was killed"
        if self._control is not None:
            self._control.close()

    def _why_ended(self) -> str:
        """Return how perf ended by itself, "" where it was at the limit of its file."""
        end = self.background.early_end()
        killed = (self.background.status or 0) < 0
        return f"perf {end}{'' if killed else f': {self.last_words()}'}" if end else ""

    def _refusal(self) -> str:
        """Return why perf does not watch, with what to do."""
        paranoid = self._host.read("proc/sys/kernel/perf_event_paranoid").strip()
        if os.geteuid() and paranoid.lstrip("-").isdigit() and int(paranoid) > 0:
            return (
                f"this user may not watch all processors (kernel.perf_event_paranoid is "
                f"{paranoid}): run replayer as root, or sysctl -w kernel.perf_event_paranoid=0"
            )
        words = self.last_words()
        if self.is_full() or self._is_without_room():
            return f"perf has no room for its file in {self._folder.parent.parent}: {words}"
        return (
            f"perf cannot record here ({words}): a perf of this kernel's version may ({_INSTALL})"
        )

    def _is_without_room(self) -> bool:
        return shutil.disk_usage(self._folder).free < _ROOM


def of_scheduler(host: Host, folder: Path) -> Perf:
    """Return a perf that records the scheduler's events when told to, with its file in a folder.

    Raises Skip or Impossible with the reason where it cannot.
    """
    if host.link("proc/self/ns/pid") not in {"", _FIRST_NAMESPACE}:
        raise Impossible("process ids in here are not the kernel's own")
    perf = Perf(host, folder, _SCHEDULER)
    if not perf.controlled:
        perf.end()
        raise Impossible("this perf cannot be told when to record (it can since 5.10)")
    return perf


def mend(path: Path) -> None:
    """Have perf pass over what a recording tells of BPF programs that came or went meanwhile.

    The kernel counts the length of such a record anew for each event that it is written for, so
    that its end is not where perf looks for the event's number, and perf reads none of the file.
    As a record of a kind that is no longer made every perf passes over it.  The layout of the file
    is that of tools/perf/Documentation/perf.data-file-format.txt.
    """
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as data:
        place, size = struct.unpack_from("=QQ", data, _DATA_SECTION)
        # Of a perf that was killed the size is none.
        end = min(len(data), place + size) if size else len(data)
        while place + _HEADER.size <= end:
            kind, _, length = _HEADER.unpack_from(data, place)
            if length < _HEADER.size:
                return
            if kind in _OF_BPF:
                struct.pack_into("=I", data, place, _PASSED_OVER)
            place += length


class _Control:
    """The two pipes by which a perf of 5.10 or later is told what to do."""

    def __init__(self, folder: Path) -> None:
        self._paths = [folder / name for name in _FIFOS]
        for path in self._paths:
            os.mkfifo(path, 0o600)
        # Both ways, so that neither waits for perf to open its end.
        flags = os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC
        self._to_perf, self._from_perf = (os.open(path, flags) for path in self._paths)
        self.argument = f"fifo:{self._paths[0]},{self._paths[1]}"

    def ask(self, command: str) -> None:
        """Send one command; an answer to an earlier one that came late is none to this."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._from_perf, 64)
        with contextlib.suppress(BlockingIOError):
            os.write(self._to_perf, f"{command}\n".encode())

    def answered(self, seconds: float) -> bool:
        """Wait so long for the answer to what was asked, and tell whether it came."""
        ready, _, _ = select.select([self._from_perf], [], [], seconds)
        return bool(ready and os.read(self._from_perf, 64))

    def close(self) -> None:
        """Let go of both."""
        os.close(self._to_perf)
        os.close(self._from_perf)


def _options(perf: Path, command: str) -> frozenset[str]:
    """Return the options that a command of this perf has."""
    text = ""
    listing: list[str | Path] = [perf, command, "--list-opts"]
    try:
        with shell.printed(listing, environment=_PLAIN, timeout=_READY_SECONDS) as lines:
            text = lines.read()
    except ReplayerError as error:
        # It ends with the status of a wrong usage, after it has listed them.
        if "--verbose" not in text:
            raise Skip(f"{error} ({_INSTALL})") from error
    return frozenset(text.split())


def _largest(host: Host, folder: Path) -> int:
    """Return how many bytes a recording may have."""
    available = host.memory("MemAvailable") or 0
    free = shutil.disk_usage(folder).free
    return max(_LEAST, int(min(_LARGEST, _OF_MEMORY * available, _OF_FILE_SYSTEM * free)))
