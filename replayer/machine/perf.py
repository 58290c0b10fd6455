"""`perf record` during a step: start it, enable and disable it, stop it, and read its file."""

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
"""The scheduler's events, with a buffer of 1 MiB per processor for events not read yet."""
_AT_ONCE = "--no-bpf-event"
"""With this option perf ends at once; else it waits for a thread that wakes once a second."""
_FIRST_NAMESPACE = "pid:[4026531836]"
"""The pid namespace that the kernel boots with, include/linux/proc_ns.h."""
_DATA_SECTION = 40
"""The place, in bytes, in the file's header with the offset and the length of the records."""
_HEADER = struct.Struct("=IHH")
"""The header of a record: its kind, its mode, and its length."""
_OF_BPF = frozenset({17, 18})
"""PERF_RECORD_KSYMBOL and PERF_RECORD_BPF_EVENT."""
_PASSED_OVER = 65
"""PERF_RECORD_HEADER_EVENT_TYPE, a deprecated kind of record that every perf ignores."""
_LEAST = 8 << 20
"""The least limit of the file, in bytes: about what perf writes first for many processes."""
_ROOM = 1 << 16
_LARGEST = 1 << 30
_OF_MEMORY = 0.05
"""The greatest size of the file, as a share of the available memory."""
_OF_FILE_SYSTEM = 0.5
_READY_SECONDS = 5.0
_END_SECONDS = 4.0
_SCRIPT_SECONDS = 300.0
_PLAIN = {"LC_ALL": "C", "PERF_CONFIG": "/dev/null", "DEBUGINFOD_URLS": "", "PAGER": "cat"}
"""perf's environment: no settings of the user, and no search for symbols over the network."""
_INSTALL = "apt-get install linux-perf, or dnf install perf"


class Perf:
    """One process of `perf record` that watches all processors, and the file that it records to."""

    def __init__(
        self, host: Host, folder: Path, events: Sequence[str], *, wanted: Sequence[str] = ()
    ) -> None:
        """Start perf with its recording in `folder`; raise Skip if it cannot record.

        `events` are the options that choose the events. Options of `wanted` are added if this perf
        knows them. If perf is `controlled`, it records only while it is enabled, otherwise all the
        time.
        """
        program = shell.find("perf")
        if program is None:
            raise Skip(f"perf is not installed ({_INSTALL})")
        self.data = folder / _FILE
        self.ended_badly = ""
        """The sentence on why perf failed or had to be killed; "" if neither."""
        self.largest = _largest(host, folder)
        """The greatest size of the recording, in bytes."""
        self._host = host
        self._program = program
        self._folder = folder
        self._options = _options(program, "record")
        self._control = _Control(folder) if "--control" in self._options else None
        known = (option for option in wanted if option in self._options)
        self.background = Background(
            [*self._command(), *events, *known], folder / _LOG, environment=_PLAIN
        )
        try:
            self._wait_until_ready()
        except BaseException:
            self._stop()
            raise

    @property
    def controlled(self) -> bool:
        """Return whether this perf (5.10 or later) can be enabled and disabled."""
        return self._control is not None

    def tell(self, command: str, seconds: float) -> bool:
        """Send `enable` or `disable`; return whether perf confirmed it within `seconds`."""
        if self._control is None:
            return False
        self._control.ask(command)
        return self._control.answered(seconds)

    def end(self) -> float:
        """Stop perf; return the CPU seconds that it used since `background.charge()`."""
        cost = self.background.cost()
        if self.background.status is not None:
            self.ended_badly = self._why_ended()
        self._stop()
        return cost

    def script(
        self, fields: str, *options: str, wanted: Sequence[str] = ()
    ) -> AbstractContextManager[IO[str]]:
        """Return a context with the lines of `perf script` for this recording.

        `fields` are the printed fields, separated by commas; `options` are further options of perf
        script. Options of `wanted` are added if this perf knows them.
        """
        known = _options(self._program, "script") if wanted else frozenset()
        with contextlib.suppress(OSError, ValueError):
            mend(self.data)
        arguments: list[str | Path] = [self._program, "script", "-i", self.data, "-F", fields]
        arguments += ["--ns", *options, *(option for option in wanted if option in known)]
        return shell.printed(arguments, environment=_PLAIN, timeout=_SCRIPT_SECONDS)

    def is_full(self) -> bool:
        """Return whether the recording reached its greatest size."""
        return "size limit reached" in self.background.text()

    def last_words(self) -> str:
        """Return the first three messages of perf as one line, without its usual progress messages.

        If there are none, a sentence with that fact is returned.
        """
        lines = [line.strip() for line in self.background.text().splitlines() if line.strip()]
        words = [line for line in lines if not line.startswith(("Events ", "[ perf record: "))]
        said_nothing = "it printed nothing"
        if self._is_without_room():
            # Without space it could not write its messages either.
            said_nothing = "no space is left there"
        return "; ".join(words[:3])[:300] or said_nothing

    def limit(self) -> str:
        """Return the words `its file reached` and its greatest size, as the begin of a sentence."""
        return f"its file reached {show_size(self.largest)}"

    def _command(self) -> list[str | Path]:
        command: list[str | Path] = [self._program, "record", "-a"]
        # Use the clock of the sampler, and do not read all that was written when it ends.
        command += ["-k", "mono", "-B", "-N", "-o", self.data]
        if "--max-size" in self._options:
            command.append(f"--max-size={self.largest >> 10}K")
        if self._control is not None:
            command += ["-D", "-1", "--control", self._control.argument]
        return command

    def _wait_until_ready(self) -> None:
        """Wait until perf is ready, at most 5 s; raise Skip with the reason if it ended instead."""
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
        """Return how perf failed by itself, as a sentence; "" if it ended with status 0.

        Status 0 means that the recording reached its greatest size.
        """
        end = self.background.early_end()
        killed = (self.background.status or 0) < 0
        return f"perf {end}{'' if killed else f': {self.last_words()}'}" if end else ""

    def _refusal(self) -> str:
        """Return a sentence with the reason why perf does not record, and with a remedy."""
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
    """Start a perf that records the scheduler's events and can be enabled and disabled; return it.

    Its recording is in `folder`. Raises Skip or Impossible with the reason if that is not possible.
    """
    if host.link("proc/self/ns/pid") not in {"", _FIRST_NAMESPACE}:
        raise Impossible("process ids in here are not the kernel's own")
    perf = Perf(host, folder, _SCHEDULER, wanted=[_AT_ONCE])
    if not perf.controlled:
        perf.end()
        raise Impossible(
            "this perf cannot be switched on and off while it runs (it can since 5.10)"
        )
    return perf


def mend(path: Path) -> None:
    """Change a recording so that perf skips the records about BPF programs.

    The kernel writes a wrong length into such a record if several events are recorded. Then perf
    does not find the event's number at the record's end, and rejects the whole file. This function
    gives such records a deprecated kind, which every perf skips. The layout of the file is that of
    tools/perf/Documentation/perf.data-file-format.txt.
    """
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as data:
        place, size = struct.unpack_from("=QQ", data, _DATA_SECTION)
        # If perf was killed, the size is 0.
        end = min(len(data), place + size) if size else len(data)
        while place + _HEADER.size <= end:
            kind, _, length = _HEADER.unpack_from(data, place)
            if length < _HEADER.size:
                return
            if kind in _OF_BPF:
                struct.pack_into("=I", data, place, _PASSED_OVER)
            place += length


class _Control:
    """The two named pipes that control a perf of 5.10 or later."""

    def __init__(self, folder: Path) -> None:
        self._paths = [folder / name for name in _FIFOS]
        for path in self._paths:
            os.mkfifo(path, 0o600)
        # Both are opened for reading and writing, so that no end waits for the other.
        flags = os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC
        self._to_perf, self._from_perf = (os.open(path, flags) for path in self._paths)
        self.argument = f"fifo:{self._paths[0]},{self._paths[1]}"

    def ask(self, command: str) -> None:
        """Send one command to perf; first discard a late answer to an earlier command."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._from_perf, 64)
        with contextlib.suppress(BlockingIOError):
            os.write(self._to_perf, f"{command}\n".encode())

    def answered(self, seconds: float) -> bool:
        """Return whether perf's answer to a command came within `seconds`."""
        ready, _, _ = select.select([self._from_perf], [], [], seconds)
        return bool(ready and os.read(self._from_perf, 64))

    def close(self) -> None:
        """Close both pipes."""
        os.close(self._to_perf)
        os.close(self._from_perf)


def _options(perf: Path, command: str) -> frozenset[str]:
    """Return the options of a command, such as `record`, of this perf.

    Raises Skip if perf does not list them.
    """
    text = ""
    listing: list[str | Path] = [perf, command, "--list-opts"]
    try:
        with shell.printed(listing, environment=_PLAIN, timeout=_READY_SECONDS) as lines:
            text = lines.read()
    except ReplayerError as error:
        # It lists them, and then ends with the status of a wrong usage.
        if "--verbose" not in text:
            raise Skip(f"{error} ({_INSTALL})") from error
    return frozenset(text.split())


def _largest(host: Host, folder: Path) -> int:
    """Return the greatest size of a recording in `folder`, in bytes.

    It depends on the available memory and on the free space of the file system.
    """
    available = host.memory("MemAvailable") or 0
    free = shutil.disk_usage(folder).free
    return max(_LEAST, int(min(_LARGEST, _OF_MEMORY * available, _OF_FILE_SYSTEM * free)))
