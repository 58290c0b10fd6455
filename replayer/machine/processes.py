"""Running processes: their parents, their folders, and their CPU time.

psutil is not used, by measurement: it takes 1.2 to 2 times as long for a family and 2 to 11 times
for the processes that serve a folder. It takes 22 ms to import, and has no accounts of children
that ended and were not reaped.
"""

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from replayer import journal, shell
from replayer.errors import ReplayerError
from replayer.shell import User

_TICK = os.sysconf("SC_CLK_TCK")
_EXITING = 0x4
"""PF_EXITING of the kernel's include/linux/sched.h: set before a process's files are closed."""
_STAT_BYTES = 4096
"""Bytes that are read of a process's stat: one page, of which 52 numbers need a tenth."""
_CPU_CLOCK = 2
"""CPUCLOCK_SCHED of the kernel's include/linux/posix-timers.h."""


class CpuSeconds(NamedTuple):
    """CPU time in user mode and in the kernel, in seconds."""

    user: float
    system: float

    def since(self, earlier: "CpuSeconds") -> "CpuSeconds":
        """Return what was used after `earlier`, an account of the same processes.

        The sum is exact. Its parts are to a clock tick, so that one could seem to have shrunk by a
        tick: it is zero then, and the other part is the sum.
        """
        whole = max(0.0, sum(self) - sum(earlier))
        user = min(max(0.0, self.user - earlier.user), whole)
        return CpuSeconds(user, whole - user)


class Process(NamedTuple):
    """One process, as /proc/PID/stat has it."""

    pid: int
    name: str
    """The name of its program, cut to 15 bytes by the kernel."""
    parent: int
    cpu: float
    """CPU seconds that it used so far."""
    reaped: float
    """CPU seconds of its reaped children."""


class _Stat(NamedTuple):
    state: str
    parent: int
    flags: int
    own: CpuSeconds
    reaped: CpuSeconds
    name: str


def family(pid: int, *, ended: bool = False) -> list[int]:
    """Return a living process and all its descendants, itself first; [] when it is gone.

    With `ended`, children that ended and were not reaped yet are included: their CPU time is in no
    other process's account.
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
    """Return the living processes that run a program of that folder on that data directory.

    They work in the data directory, or were started with it as an argument and will change to it.
    `user` is the user that they run as, None for the user of this process.  `word` is part of their
    command line: an interpreter runs other programs, too.
    """
    uid = os.geteuid() if user is None else user.uid
    home, folder = str(data.resolve()), str(programs.resolve())
    pids = []
    for pid in every():
        if _owner(pid) != uid or _link(pid, "exe", user).rpartition("/")[0] != folder:
            continue
        line = arguments(pid)
        if word in line and (_link(pid, "cwd", user) == home or str(data) in line):
            pids.append(pid)
    return pids


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
    """Return whether a process is gone or exiting; the exit of a large one takes a while.

    A server that exits closes its connections first: a client that noticed this gets True here.
    """
    stat = _stat(pid)
    return stat is None or stat.state in "ZX" or bool(stat.flags & _EXITING)


def waits_for_disk(pid: int) -> bool:
    """Return whether a thread of a process is in an uninterruptible wait, that is, for a disk."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208
    except OSError:
        return False
    stats = (_stat(f"{pid}/task/{thread}") for thread in threads)
    return any(stat is not None and stat.state == "D" for stat in stats)


def work_done(pid: int) -> tuple[float, tuple[str, ...]]:
    """Return values that grow while a process works: CPU seconds, and disk bytes if readable."""
    stat = _stat(pid)
    try:
        lines = Path(f"/proc/{pid}/io").read_text(encoding="ascii").splitlines()
    except OSError:
        lines = []
    moved = tuple(line for line in lines if line.startswith(("read_bytes", "write_bytes")))
    return sum(stat.own) if stat else 0.0, moved


def working_folder(pid: int) -> Path | None:
    """Return the folder that a process works in; None if it is gone or may not be inspected."""
    folder = _link(pid, "cwd", None)
    return Path(folder) if folder else None


def every() -> Iterator[int]:
    """Yield the ids of all processes."""
    yield from (int(name) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208


def table() -> Iterator[Process]:
    """Yield every visible process; one that ends meanwhile is skipped."""
    for pid in every():
        stat = _stat(pid)
        if stat is not None:
            yield Process(pid, stat.name, stat.parent, sum(stat.own), sum(stat.reaped))


def cpu_seconds(pids: Iterable[int]) -> CpuSeconds:
    """Return the CPU seconds that these processes and their reaped children have used so far.

    The sum of a living process is exact to the nanosecond. Its user and system parts, and the time
    of its ended children, are exact to a clock tick, 10 ms. Give it a whole `family`: a child that
    ends moves its time from its own account to its parent's, so the accounts are read again until
    no time moved.
    """
    asked = tuple(pids)
    before: list[_Stat | None] = []
    for _ in range(10):
        now = [_timed(pid) for pid in asked]
        unmoved = [s and s.reaped for s in now] == [s and s.reaped for s in before]
        before = now
        if unmoved:
            break
    parts = [part for used in before if used for part in (used.own, used.reaped)]
    return CpuSeconds(sum(p.user for p in parts), sum(p.system for p in parts))


def _timed(pid: int) -> _Stat | None:
    """Return a process's account, with its own CPU time taken from its clock.

    With many sessions that each do little, unfinished ticks would otherwise be most of their time.
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
    return _Stat(fields[0], int(fields[1]), int(fields[6]), own, reaped, name)


def _owner(pid: int) -> int:
    try:
        return os.stat(f"/proc/{pid}").st_uid  # noqa: PTH116 - as in `_stat`
    except OSError:
        return -1


def arguments(pid: int) -> str:
    """Return a process's command line, its words ended by NULs; "" if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


def _link(pid: int, name: str, user: User | None) -> str:
    """Return the target of a process's link, "" if the process is gone or a zombie.

    If this process may not read the link, it is read as `user`.
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
