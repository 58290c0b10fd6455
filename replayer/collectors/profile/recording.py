"""perf while it records: started, told when to sample, stopped, and read."""

import contextlib
import os
import select
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from replayer import shell
from replayer.collectors import Scene, Seen
from replayer.collectors.profile import stacks
from replayer.collectors.profile.stacks import Families, Folded
from replayer.errors import ReplayerError, Skip
from replayer.machine import processes
from replayer.model import Profile
from replayer.units import show_size

HERTZ = 99
"""Not 100, so that it does not beat with what wakes up at round times."""
_FILE = "perf.data"
_LOG = "perf.log"
_FIFOS = ("control", "ack")
_LEAST = 8 << 20
"""What it writes of the processes that are there when it begins, on a machine with many."""
_ROOM = 1 << 16
_LARGEST = 1 << 30
_OF_MEMORY = 0.05
"""Of the memory that is free for use: no more is taken for the file."""
_OF_FILE_SYSTEM = 0.5
_READY_SECONDS = 5.0
_ENABLED_SECONDS = 0.5
_END_SECONDS = 4.0
_LOOK_SECONDS = 1.0
_SCRIPT_SECONDS = 300.0
_LATE_NS = 100_000_000
_PLAIN = {"LC_ALL": "C", "PERF_CONFIG": "/dev/null", "DEBUGINFOD_URLS": "", "PAGER": "cat"}
"""perf as it comes: nobody's settings, and no look-ups of symbols over the network."""
_INSTALL = "apt-get install linux-perf, or dnf install perf"
_FIELDS = "comm,pid,tid,time,event,ip,sym,dso"


class PerfRecording:
    """One `perf record`."""

    def __init__(self, scene: Scene) -> None:
        perf = shell.find("perf")
        if perf is None:
            raise Skip(f"perf is not installed ({_INSTALL})")
        self._perf = perf
        self._scene = scene
        self._data = scene.folder / _FILE
        self._log = scene.folder / _LOG
        self._options = _options(perf, "record")
        self._largest = _largest(scene)
        self._servers: set[int] = set()
        self._looks: list[threading.Thread] = []
        self._spent_before: float | None = None
        self._ended_badly = ""
        self._control = _Control(scene.folder) if "--control" in self._options else None
        self._process = shell.start(
            self._command(), environment=_PLAIN, output=self._log, bound=True
        )
        try:
            self._wait_until_ready()
        except BaseException:
            self._stop()
            raise

    def prepare(self) -> None:
        """Have it sample from now on."""
        self._spent_before = self._spent()
        if self._control is not None:
            self._control.ask("enable")
            self._control.answered(_ENABLED_SECONDS)

    def mark(self, clock_ns: int) -> None:
        """Look who the server is now."""
        del clock_ns  # perf notes the same clock itself
        look = threading.Thread(target=self._look, daemon=True)
        look.start()
        self._looks.append(look)

    def end(self) -> float:
        """Stop perf; return the CPU seconds that it used since the first mark."""
        spent = 0.0 if self._spent_before is None else self._spent() - self._spent_before
        if self._process.poll() is not None:
            self._ended_badly = self._why_ended()
        self._stop()
        for look in self._looks:
            look.join(_LOOK_SECONDS)
        return max(0.0, spent)

    def cut(self, begin_ns: int, end_ns: int) -> Seen:
        """Return the stacks of a window; raise ReplayerError where perf left nothing of use."""
        try:
            folded = self._folded(begin_ns, end_ns)
        except ReplayerError as error:
            raise ReplayerError(self._ended_badly or str(error)) from error
        if self._ended_badly and not folded.samples:
            raise ReplayerError(self._ended_badly)
        if not folded.samples and not folded.idle:
            raise ReplayerError(f"perf took no sample in the window: {self._last_words()}")
        profile = Profile(
            payload=Profile.packed(folded.stacks),
            samples=folded.samples,
            idle=folded.idle,
            lost=folded.lost,
            outside=folded.outside,
            event=folded.event,
            hertz=HERTZ,
            seconds=round((end_ns - begin_ns) / 1e9, 6),
            truncated=self._truncated(folded, begin_ns, end_ns),
        )
        return Seen(profile=profile, notes=tuple(self._notes(profile, folded)))

    def _command(self) -> list[str | Path]:
        command: list[str | Path] = [self._perf, "record", "-a", "-g", "-F", str(HERTZ)]
        # The clock of the sampler; and no reading of all that it wrote when it is to end.
        command += ["-k", "mono", "-B", "-N", "-o", self._data]
        if "--max-size" in self._options:
            command.append(f"--max-size={self._largest >> 10}K")
        if self._control is not None:
            command += ["-D", "-1", "--control", self._control.argument]
        return command

    def _wait_until_ready(self) -> None:
        """Wait until perf listens; raise Skip with its reason if it ended instead."""
        end = time.monotonic() + _READY_SECONDS
        if self._control is not None:
            self._control.ask("ping")
        while time.monotonic() < end:
            if self._process.poll() is not None:
                raise Skip(self._refusal())
            if self._control is not None:
                if self._control.answered(0.02):
                    return
            elif self._data.exists() and self._data.stat().st_size:
                return
            else:
                time.sleep(0.02)

    def _look(self) -> None:
        """Note the server's main process as it is now."""
        with contextlib.suppress(ReplayerError, OSError):
            self._servers.update(self._scene.server()[:1])

    def _spent(self) -> float:
        """Return the seconds that perf was on a processor."""
        text = self._scene.host.read(f"proc/{self._process.pid}/schedstat")
        if text:
            return int(text.split()[0]) / 1e9
        return sum(processes.cpu_seconds([self._process.pid]))

    def _stop(self) -> None:
        with contextlib.suppress(OSError):
            self._process.send_signal(signal.SIGINT)
        if not shell.ended(self._process, within=_END_SECONDS):
            self._process.kill()
            self._process.wait()
            self._ended_badly = f"perf did not end within {_END_SECONDS:.0f} s and was killed"
        if self._control is not None:
            self._control.close()

    def _why_ended(self) -> str:
        """Return how perf ended by itself, "" where it was at the limit of its file."""
        status = self._process.returncode
        if status < 0:
            return f"perf was ended in the middle of the step by {signal.Signals(-status).name}"
        if status:
            return f"perf ended in the middle of the step: {self._last_words()}"
        return ""

    def _refusal(self) -> str:
        """Return why perf does not watch, with what to do."""
        paranoid = self._scene.host.read("proc/sys/kernel/perf_event_paranoid").strip()
        if os.geteuid() and paranoid.lstrip("-").isdigit() and int(paranoid) > 0:
            return (
                f"this user may not watch all processors (kernel.perf_event_paranoid is "
                f"{paranoid}): run replayer as root, or sysctl -w kernel.perf_event_paranoid=0"
            )
        words = self._last_words()
        if self._is_full() or shutil.disk_usage(self._scene.folder).free < _ROOM:
            return f"perf has no room for its file in {self._scene.folder.parent.parent}: {words}"
        return (
            f"perf cannot record here ({words}): a perf of this kernel's version may ({_INSTALL})"
        )

    def _last_words(self) -> str:
        """Return the last lines that perf wrote, without those that are of no interest."""
        try:
            text = self._log.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return "it said nothing"
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        words = [line for line in lines if not line.startswith(("Events ", "[ perf record: "))]
        said_nothing = "it said nothing"
        if shutil.disk_usage(self._scene.folder).free < _ROOM:
            # Nor could it write down what it had to say.
            said_nothing = "no space is left there"
        return "; ".join(words[:3])[:300] or said_nothing

    def _folded(self, begin_ns: int, end_ns: int) -> Folded:
        main = os.getpid()
        families = Families(main, frozenset(self._servers), Path(sys.executable).name)
        arguments: list[str | Path] = [
            self._perf, "script", "-i", self._data, "-F", _FIELDS, "--ns", "--no-inline",
            "--show-task-events",
        ]  # fmt: skip
        if "--show-lost-events" in _options(self._perf, "script"):
            arguments.append("--show-lost-events")
        with shell.printed(arguments, environment=_PLAIN, timeout=_SCRIPT_SECONDS) as lines:
            return stacks.folded(lines, begin_ns, end_ns, families)

    def _truncated(self, folded: Folded, begin_ns: int, end_ns: int) -> str:
        if folded.last_ns < end_ns - _LATE_NS and (self._ended_badly or self._is_full()):
            seconds = max(0, folded.last_ns - begin_ns) / 1e9
            why = self._ended_badly or f"its file reached {show_size(self._largest)}"
            return f"{why}, {seconds:.1f} s after the begin of the window"
        # By the clock every processor is sampled, also one that is idle.
        if folded.first_ns > begin_ns + _LATE_NS and folded.event.endswith("clock"):
            late = (folded.first_ns - begin_ns) / 1e9
            return f"perf began {late:.1f} s after the begin of the window"
        return ""

    def _is_full(self) -> bool:
        with contextlib.suppress(OSError):
            return "size limit reached" in self._log.read_text(encoding="utf-8", errors="replace")
        return False

    def _notes(self, profile: Profile, folded: Folded) -> Iterator[str]:
        if profile.truncated:
            yield f"the profile is not of the whole window: {profile.truncated}"
        if folded.kernel and not folded.kernel_named:
            yield (
                "the profile has no names of the kernel's functions, so it cannot tell what the "
                "kernel did: sysctl -w kernel.kptr_restrict=0, or run replayer as root"
            )


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
        """Send one command."""
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


def _largest(scene: Scene) -> int:
    """Return how many bytes the recording may have."""
    available = scene.host.memory("MemAvailable") or 0
    free = shutil.disk_usage(scene.folder).free
    return max(_LEAST, int(min(_LARGEST, _OF_MEMORY * available, _OF_FILE_SYSTEM * free)))
