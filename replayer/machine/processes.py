"""Running processes: their parents, their folders, and their CPU time.

psutil is not used, because it was measured to be slower: 1.2 to 2 times for `family` and 2 to 11
times for `serving`. It takes 22 ms to import, and it does not report the CPU time of children that
have ended and were not reaped.
"""

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeVar

from replayer import journal, shell
from replayer.errors import ReplayerError
from replayer.shell import User

_TICK = os.sysconf("SC_CLK_TCK")
_EXITING = 0x4
"""PF_EXITING of the kernel's include/linux/sched.h: set before a process's files are closed."""
_PENDING = (b"SigPnd:", b"ShdPnd:")
"""Lines of /proc/PID/status: the signals that wait for the first thread, and for the process."""
_STAT_BYTES = 4096
"""The number of bytes read from /proc/PID/stat; its 52 numbers need about a tenth of them."""
_CPU_CLOCK = 2
"""CPUCLOCK_SCHED of the kernel's include/linux/posix-timers.h."""
_READINGS = 10
_Reading = TypeVar("_Reading")


class CpuSeconds(NamedTuple):
    """CPU time in user mode and in the kernel, in seconds."""

    user: float
    system: float

    def since(self, earlier: "CpuSeconds") -> "CpuSeconds":
        """Return the CPU time that the same processes used since the reading `earlier`.

        The sum is exact. User and system time are only precise to a clock tick, so one of them may
        seem to have decreased. Then it is 0 here, and the other one is the whole sum.
        """
        whole = max(0.0, sum(self) - sum(earlier))
        user = min(max(0.0, self.user - earlier.user), whole)
        return CpuSeconds(user, whole - user)


class Process(NamedTuple):
    """One process, as described by /proc/PID/stat."""

    pid: int
    name: str
    """The name of the program, cut to 15 bytes by the kernel."""
    parent: int
    cpu: float
    """CPU seconds that the process used so far."""
    reaped: float
    """CPU seconds of those of its children that have ended and were reaped."""
    user: float
    """The part of `cpu` in user mode."""
    reaped_user: float
    """The part of `reaped` in user mode."""
    processor: int | None = None
    """The number of the processor on which its first thread ran last; None if not known."""

    def in_user_mode(self) -> "Process":
        """Return this process with the CPU time of user mode only."""
        return self._replace(cpu=self.user, reaped=self.reaped_user)


class _Stat(NamedTuple):
    state: str
    parent: int
    flags: int
    own: CpuSeconds
    reaped: CpuSeconds
    name: str
    processor: int


def family(pid: int, *, ended: bool = False) -> list[int]:
    """Return the ids of a process and of all its descendants, itself first; [] if it is gone.

    If `ended` is true, children that have ended but were not reaped yet are included: their CPU
    time is not yet included in that of their parent.
    """
    if not journal.identity(pid):
        return []
    children: dict[int, list[int]] = {}
    for other in every():
        stat = _stat(other)
        if stat is not None and (ended or stat.state not in "ZX"):
            children.setdefault(stat.parent, []).append(other)
    members = [pid]
    for member in members:
        members.extend(children.get(member, ()))
    return members


def serving(data: Path, programs: Path, user: User | None, word: str = "") -> list[int]:
    """Return the ids of processes that run a program of the folder `programs` on the folder `data`.

    Their working directory is `data`, or an argument is `data` or a path in it. `user` is the user
    that they run as, None for the user of this process.  If `word` is given, only processes with
    `word` in their command line are returned: an interpreter in `programs` may run other programs,
    too.
    """
    uid = os.geteuid() if user is None else user.uid
    home, folder = str(data.resolve()), str(programs.resolve())
    pids = []
    for pid in every():
        if _owner(pid) != uid or _link(pid, "exe", user).rpartition("/")[0] != folder:
            continue
        line = arguments(pid)
        if word in line and (_link(pid, "cwd", user) == home or _names(line, {str(data), home})):
            pids.append(pid)
    return pids


def _names(line: str, folders: set[str]) -> bool:
    """Return whether an argument of a command line is one of the folders, or a path in one.

    The path may follow `-D`, or an option's name and `=`.
    """
    words = line.split("\0")
    paths = [(word, word.removeprefix("-D"), word.partition("=")[2]) for word in words]
    return any(f"{path}/".startswith(f"{one}/") for path in chain(*paths) for one in folders)


def state(pid: int) -> str:
    """Return the kernel's letter for a process's state, such as S or D; "" if it is gone."""
    stat = _stat(pid)
    return stat.state if stat else ""


def started(pid: int) -> float | None:
    """Return when a process was started, in seconds since 1970; None if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        lines = Path("/proc/stat").read_text(encoding="ascii").splitlines()
        boot = next(int(line.split()[1]) for line in lines if line.startswith("btime"))
    except (OSError, StopIteration):
        return None
    return boot + int(text.rpartition(")")[2].split()[19]) / _TICK


def ends(pid: int) -> bool:
    """Return whether a process is gone, just exiting, or killed; a large one takes a while to exit.

    An exiting server closes its connections before it is gone. When a client notices that, this
    function already returns True.
    """
    stat = _stat(pid)
    exits = stat is None or stat.state in "ZX" or bool(stat.flags & _EXITING)
    return exits or _is_killed(pid)


def _is_killed(pid: int) -> bool:
    """Return whether a process has a SIGKILL that it has not acted on yet."""
    try:
        lines = Path(f"/proc/{pid}/status").read_bytes().splitlines()
    except OSError:
        return True
    pending = (int(line.split()[1], 16) for line in lines if line.startswith(_PENDING))
    return any(signals >> (signal.SIGKILL - 1) & 1 for signals in pending)


def waits_for_disk(pid: int) -> bool:
    """Return whether a thread of a process is in an uninterruptible sleep, mostly for a disk."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208
    except OSError:
        return False
    stats = (_stat(f"{pid}/task/{thread}") for thread in threads)
    return any(stat is not None and stat.state == "D" for stat in stats)


def work_done(pid: int) -> tuple[float, tuple[str, ...]]:
    """Return values that change while a process works, to compare them with later ones.

    They are its CPU seconds, and the lines of /proc/PID/io about disk bytes if they are readable.
    """
    stat = _stat(pid)
    try:
        lines = Path(f"/proc/{pid}/io").read_text(encoding="ascii").splitlines()
    except OSError:
        lines = []
    moved = tuple(line for line in lines if line.startswith(("read_bytes", "write_bytes")))
    return sum(stat.own) if stat else 0.0, moved


def working_folder(pid: int) -> Path | None:
    """Return a process's working directory; None if it is gone or may not be inspected."""
    folder = _link(pid, "cwd", None)
    return Path(folder) if folder else None


def every() -> Iterator[int]:
    """Yield the ids of all processes."""
    yield from (int(name) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208


def table() -> Iterator[Process]:
    """Yield every visible process; a process that ends during the reading is left out."""
    for pid in every():
        stat = _stat(pid)
        if stat is not None:
            own, reaped = stat.own, stat.reaped
            yield Process(
                pid,
                stat.name,
                stat.parent,
                sum(own),
                sum(reaped),
                own.user,
                reaped.user,
                stat.processor,
            )


def cpu_seconds(pids: Iterable[int]) -> CpuSeconds:
    """Return the CPU seconds that these processes and their reaped children have used so far.

    The sum of a living process is exact to the nanosecond. Its user and system time, and the time
    of its ended children, are precise to a clock tick, 10 ms. All times are `settled`, and `pids`
    should be a whole `family`.
    """
    asked = tuple(pids)
    stats = settled(
        lambda: {pid: _timed(pid) for pid in asked},
        lambda stats: {pid: stat and stat.reaped for pid, stat in stats.items()},
    )
    parts = [part for used in stats.values() if used for part in (used.own, used.reaped)]
    return CpuSeconds(sum(p.user for p in parts), sum(p.system for p in parts))


def settled(
    read: Callable[[], _Reading], reaped: Callable[[_Reading], Mapping[int, object]]
) -> _Reading:
    """Return what `read` returns, from a call during which no child of the processes was reaped.

    When a child is reaped, its time is added to that of its parent, so that a reading meanwhile
    could have it in neither, or in both. `reaped` returns, of a reading, process id -> CPU time of
    its ended children, so far. `read` is called until all processes of the reading before are there
    with the same times; after 10 calls the last result is returned.
    """
    now = read()
    for _ in range(_READINGS - 1):
        before, now = reaped(now), read()
        if before.items() <= reaped(now).items():
            break
    return now


def _timed(pid: int) -> _Stat | None:
    """Return a process's /proc/PID/stat, with its own CPU time to the nanosecond.

    None if the process is gone. The file itself has whole clock ticks only. For many sessions that
    each do little, that would leave out most of their time.
    """
    stat = _stat(pid)
    try:
        # The clock of another process, computed from its id as clock_getcpuclockid(3) does.
        seconds = time.clock_gettime((~pid << 3) | _CPU_CLOCK)
    except OSError:
        return stat
    ticks = sum(stat.own) if stat else 0.0
    if stat is None or seconds <= ticks:
        return stat
    share = stat.own.user / ticks if ticks else 1.0
    more = seconds - ticks
    own = CpuSeconds(stat.own.user + share * more, stat.own.system + (1 - share) * more)
    return stat._replace(own=own)


def _stat(pid: int | str) -> _Stat | None:
    # A family is found in the files of all processes: without pathlib that takes half the time.
    try:
        file = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = os.read(file, _STAT_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
    finally:
        os.close(file)
    fields = text.rpartition(")")[2].split()
    ticks = [int(value) / _TICK for value in fields[11:15]]
    name = text.partition("(")[2].rpartition(")")[0]
    own, reaped = CpuSeconds(*ticks[:2]), CpuSeconds(*ticks[2:])
    return _Stat(fields[0], int(fields[1]), int(fields[6]), own, reaped, name, int(fields[36]))


def _owner(pid: int) -> int:
    try:
        return os.stat(f"/proc/{pid}").st_uid  # noqa: PTH116 - as in `_stat`
    except OSError:
        return -1


def arguments(pid: int) -> str:
    """Return a process's command line, with a NUL after each word; "" if the process is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


def _link(pid: int, name: str, user: User | None) -> str:
    """Return the target of a link such as /proc/PID/cwd; "" if it cannot be read.

    If this process may not read the link, a helper process of the user `user` reads it.
    """
    path = f"/proc/{pid}/{name}"
    try:
        target = os.readlink(path)  # noqa: PTH115 - as in `_stat`
    except PermissionError:
        if user is None:
            return ""
        # Root in a container may not inspect other users' processes, but those users may.
        try:
            target = shell.run(["readlink", path], user=user, folder=Path("/")).strip()
        except ReplayerError:
            return ""
    except OSError:
        return ""
    return target.removesuffix(" (deleted)")
