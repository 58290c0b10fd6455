"""Limits on the memory that can cache the database's files, so that reads come from the device.

    cgroup     the server's processes go into a memory cgroup with a limit (v1 or v2): the page
               cache that they fill counts against it
    hugepages  free memory is reserved as huge pages, as pgio_reduce_free_memory.sh does
    ballast    free memory is held by a child process that locks it

The memory taken is first recorded (journal), and released when the `with` block ends.
"""

import contextlib
import functools
import mmap
import os
import re
import resource
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from replayer import journal, signals
from replayer.conditions import ballast
from replayer.errors import Impossible, ReplayerError
from replayer.journal import Note
from replayer.machine import processes
from replayer.machine.host import Host
from replayer.model import Advice, MemoryKind
from replayer.units import show_size
from replayer.watch.workers import WorkerPool

if TYPE_CHECKING:
    from replayer.servers.open import Server

KINDS: tuple[MemoryKind, ...] = ("cgroup", "hugepages", "ballast")
"""The ways to limit memory, the one that disturbs least first."""
_HUGE_PAGES = "proc/sys/vm/nr_hugepages"
CHANGED = "memory.changed"
"""The key of the fact that another program changed the memory limit of a step.

Its value is a sentence on that."""
_GROUP = re.compile(r"replayer-\d+-[0-9a-f]+")
_LIMITS_OF_1 = {"memory": "memory.limit_in_bytes", "cpu": "cpu.cfs_quota_us"}
"""Controller -> a file that only its cgroups of version 1 have."""
_LIMITS_OF_2 = ("cpu.max", "cpuset.cpus", "io.max", "memory.high", "memory.max")
"""Files of a cgroup of version 2 that are empty or begin with "max" if there is no limit."""
_LIMIT_FILES = ("memory.limit_in_bytes", "memory.max")
"""The limit's file in a cgroup of version 1, and of version 2."""
_PEAK_FILES = ("memory.max_usage_in_bytes", "memory.peak")
"""The file with the most bytes that the cgroup held so far; version 2 has it since Linux 5.19."""
_OVERSHOOT = 1.05
"""The highest ratio (bytes that a cgroup held / its limit) that the kernel itself may allow.

It exceeds the limit only in need of memory; without such a need the ratio was 1.00 at most."""
_DROP_CACHES = "proc/sys/vm/drop_caches"
_CAP_IPC_LOCK = 1 << 14
_GRANTED_AT_LEAST = 0.9
_PATIENCE = 10.0


class Bound(NamedTuple):
    """A limit in force: its kind, its size, and its description for the result."""

    kind: str
    bytes: int
    """The limit of a cgroup, or the bytes that huge pages or ballast hold."""
    how: str
    group: Path | None = None
    """The folder of a cgroup."""
    holder: int = 0
    """The process that holds the ballast."""
    before: int = 0
    """The number of huge pages that were reserved already, and are not of this limit."""


def refusal(kind: str, host: Host) -> Advice | None:
    """Return the reason why this kind of limit cannot be used on this machine; None if it can.

    `kind` is cgroup, hugepages or ballast.
    """
    checks = {"cgroup": _no_cgroup, "hugepages": _no_huge_pages, "ballast": _no_ballast}
    return checks[kind](host)


@contextlib.contextmanager
def bound(
    kind: str,
    server: "Server",
    host: Host,
    *,
    limit_bytes: int = 0,
    keep_bytes: int = 0,
    changed: Callable[[str], None],
) -> Iterator[Bound]:
    """Limit the memory for caching the database's files until the `with` block ends.

    `limit_bytes` is the limit of a cgroup, `keep_bytes` is the memory that huge pages and ballast
    leave free.  `changed` is called with a sentence if another program changed the limit during the
    block.  Raises Impossible if this kind of limit cannot be used here, ReplayerError if the kernel
    grants less memory than is needed.
    """
    why = refusal(kind, host)
    if why is not None:
        raise Impossible(f"memory = {kind!r} cannot be used here: {why}")
    if kind == "cgroup":
        limited = _cgroup(server, host, limit_bytes)
    elif kind == "hugepages":
        limited = _huge_pages(host, keep_bytes)
    else:
        limited = _ballast(host, keep_bytes)
    with limited as taken:
        yield taken
        if difference := _difference(taken, server, host):
            changed(difference)


def _difference(taken: Bound, server: "Server", host: Host) -> str:
    """Return a text on how the limit differs from the limit `taken` at first; "" if it is equal."""
    if taken.group is not None:
        return _difference_of_group(taken.group, taken.bytes, server)
    if taken.kind == "hugepages":
        pages = (host.number(_HUGE_PAGES) or 0) - taken.before
        now = max(0, pages) * host.memory("Hugepagesize")
        what = "held as huge pages"
    else:
        now, what = _locked_bytes(taken.holder), "locked"
    if now >= taken.bytes:
        return ""
    return f"{show_size(taken.bytes)} were {what} at first, at most {show_size(now)} at the end"


def _difference_of_group(group: Path, limit: int, server: "Server") -> str:
    now, most = _read_first(group, _LIMIT_FILES), _read_first(group, _PEAK_FILES)
    if not now:
        return "the memory cgroup was gone at the end"
    # The kernel keeps whole pages.
    if now != str(limit // mmap.PAGESIZE * mmap.PAGESIZE):
        shown = show_size(int(now)) if now.isdecimal() else now
        return f"the limit of the memory cgroup was {show_size(limit)} at first, {shown} at the end"
    # A limit that was raised and set back leaves what was cached meanwhile.
    if most.isdecimal() and int(most) > _OVERSHOOT * limit:
        return f"the memory cgroup with a limit of {show_size(limit)} held {show_size(int(most))}"
    others = set(server.pids()) - _members(group / "cgroup.procs")
    # A session that ended between the two readings is in no group.
    outside = [pid for pid in others if not processes.ends(pid)]
    return f"{len(outside)} server processes were out of the memory cgroup" if outside else ""


def _read_first(group: Path, names: Sequence[str]) -> str:
    """Return the text of the first file in `names` that the cgroup `group` has; "" for none."""
    for name in names:
        with contextlib.suppress(OSError):
            return (group / name).read_text(encoding="ascii").strip()
    return ""


def recover(note: Note) -> str:
    """Release the memory that a killed replayer took, and return a short message.

    `note` is the journal's record of it.  Raises journal.Untrusted, and changes nothing, if the
    note is on anything that replayer never takes.
    """
    done = _RECOVER[note.kind](note)
    note.drop()
    return done


def _recover_group(note: Note) -> str:
    group, home = note.path_of("group", _GROUP), Path(note.text("home"))
    if group.is_dir():
        for path in (group, home):
            mount = Host().mount_of(path)
            if mount is None or mount.type not in {"cgroup", "cgroup2"}:
                raise journal.Untrusted(note, f"{str(path)[:200]!r} is not a cgroup")
        _dissolve(group, home)
    return f"the cgroup {group} was removed"


def _recover_pages(note: Note) -> str:
    path = Host().path(_HUGE_PAGES)
    if note.text("path") != str(path):
        raise journal.Untrusted(note, "its path is not where the kernel's huge pages are")
    left = _give_back_pages(path, note.number("before"), note.number("pages"))
    return f"reserved huge pages were given back, {left} are left"


def _recover_ballast(note: Note) -> str:
    child, size = note.text("child"), note.number("bytes")
    if journal.alive(child):
        pid = int(child.split(":")[1])
        if _locked_bytes(pid) < size:
            raise journal.Untrusted(note, f"process {pid} has not locked that memory")
        os.kill(pid, signal.SIGKILL)
    return "locked memory was given back"


_RECOVER = {"cgroup": _recover_group, "hugepages": _recover_pages, "ballast": _recover_ballast}
NOTES = frozenset(_RECOVER)
"""Kinds of the journal's notes that `recover` handles."""


def _locked_bytes(pid: int) -> int:
    """Return the bytes that a process of this user has locked in memory, 0 for none."""
    folder = Path(f"/proc/{pid}")
    with contextlib.suppress(OSError):
        if folder.stat().st_uid == os.geteuid():
            for line in (folder / "status").read_text("utf-8", "replace").splitlines():
                if line.startswith("VmLck:"):
                    return int(line.split()[1]) << 10
    return 0


# A cgroup for the server


class GroupTree(NamedTuple):
    """The folder `parent` in which a cgroup can be made, and the version of cgroups (1 or 2) there.

    `home` is the cgroup in which this process is now.
    """

    version: int
    parent: str
    home: str
    lost: str = ""
    """The file of a limit that holds for `home`, but not in a new cgroup in `parent`; "" if none.

    In version 2, a cgroup with processes has none in it, so that `parent` is above `home`."""


def tree(host: Host, controller: str = "memory") -> GroupTree | str:
    """Return the folder in which this process may make a cgroup with the given controller.

    Of several such folders, it is the nearest one, so that the limits of the others still hold.
    Returns the reason as a text if no cgroup can be made.
    """
    folders = list(host.cgroups(controller))
    trees = [folder for folder in folders if host.exists(f"{folder}/{_LIMITS_OF_1[controller]}")]
    version = 1 if trees else 2
    if version == 2:
        trees = [folder for folder in folders if host.exists(f"{folder}/cgroup.controllers")]
        trees = [
            folder
            for folder in trees
            if controller in host.read(f"{folder}/cgroup.subtree_control").split()
        ]
    if not trees:
        return f"there is no cgroup of the {controller} controller to make one in"
    refused = ""
    for folder in trees:
        refused = host.cannot_write(f"{folder}/cgroup.procs")
        if not refused and os.access(host.path(folder), os.W_OK):
            mine = [own for own in folders if host.exists(f"{own}/cgroup.procs")]
            home = trees[0] if version == 1 else mine[0]
            return GroupTree(version, folder, home, _limit_of(host, folders, home, folder))
    return f"no cgroup may be made in {trees[-1]} ({refused or 'Permission denied'})"


def _limit_of(host: Host, folders: Sequence[str], home: str, parent: str) -> str:
    """Return the file of a limit that a cgroup from `home` up to below `parent` has; "" if none.

    `folders` are the cgroups from the lowest to the highest one.
    """
    for folder in folders[folders.index(home) : folders.index(parent)]:
        for name in _LIMITS_OF_2:
            if host.read(f"{folder}/{name}").partition(" ")[0].strip() not in {"", "max"}:
                return f"{folder}/{name}"
    return ""


def is_own_group(path: Path) -> bool:
    """Return whether the cgroup at `path` is one that this process made."""
    return bool(_GROUP.fullmatch(path.name)) and path.name.startswith(f"replayer-{os.getpid()}-")


def group_name() -> str:
    """Return a new unique name for a cgroup, in the form that `recover` accepts."""
    return f"replayer-{os.getpid()}-{time.monotonic_ns():x}"


def _no_cgroup(host: Host) -> Advice | None:
    known = tree(host)
    if isinstance(known, str):
        return Advice(found=known)
    if known.lost:
        return Advice(
            found=f"{known.lost} limits the server, and would not in another cgroup",
            todo="remove that limit, or use another kind of memory",
        )
    return None


@contextlib.contextmanager
def _cgroup(server: "Server", host: Host, limit: int) -> Iterator[Bound]:
    place = tree(host)
    assert not isinstance(place, str), "refusal() was asked"
    if not server.can_stop:
        raise Impossible(
            "memory = 'cgroup' moves the server's processes, and this server is not replayer's own"
        )
    outer = host.memory_limit_bytes()
    if outer is not None and outer < limit:
        raise Impossible(
            f"memory = 'cgroup' was to limit the memory to {show_size(limit)}, and a cgroup above "
            f"leaves {show_size(outer)}: set memory_limit lower"
        )
    group = host.path(f"{place.parent}/{group_name()}")
    home = host.path(place.home)
    back = functools.partial(_dissolve, group, home)
    with journal.held("cgroup", back, group=str(group), home=str(home)):
        _confine(server, group, place.version, limit)
        yield Bound("cgroup", limit, f"memory cgroup v{place.version} {group}", group)


def _confine(server: "Server", group: Path, version: int, limit: int) -> None:
    """Make the cgroup, set its memory limit, and move all processes of the server into it.

    Processes that the server starts during the move are moved, too.  `version` is the version of
    cgroups (1 or 2), and `limit` is in bytes.  Raises ReplayerError if that fails.
    """
    try:
        group.mkdir()
        _set_limit(group, version, limit)
        procs = group / "cgroup.procs"
        deadline = time.monotonic() + _PATIENCE
        while left := set(server.pids()) - _members(procs):
            if time.monotonic() > deadline:
                raise ReplayerError(f"{len(left)} server processes could not be moved to {group}")
            for pid in left:
                _move(pid, procs)
    except OSError as error:
        raise ReplayerError(
            f"the memory cgroup {group} could not be used: {error.strerror}"
        ) from error


def _set_limit(group: Path, version: int, limit: int) -> None:
    if version == 1:
        (group / "memory.limit_in_bytes").write_text(str(limit), encoding="ascii")
        (group / "memory.swappiness").write_text("0", encoding="ascii")
        return
    (group / "memory.max").write_text(str(limit), encoding="ascii")
    if (group / "memory.swap.max").exists():
        (group / "memory.swap.max").write_text("0", encoding="ascii")


def _members(procs: Path) -> set[int]:
    return {int(line) for line in procs.read_text(encoding="ascii").split()}


def _move(pid: int, procs: Path) -> None:
    # A session that ended meanwhile cannot be moved.
    with contextlib.suppress(ProcessLookupError):
        procs.write_text(str(pid), encoding="ascii")


def killed_for_memory(taken: Bound) -> int:
    """Return how many processes the kernel killed because of the cgroup's limit.

    Returns 0 if `taken` is another kind of limit, or if the kernel does not report the number.
    """
    if taken.group is None:
        return 0
    for name in ("memory.events", "memory.oom_control"):
        with contextlib.suppress(OSError):
            lines = (taken.group / name).read_text(encoding="ascii").splitlines()
            counts = dict(line.split() for line in lines)
            return int(counts.get("oom_kill", 0))
    return 0


def _dissolve(group: Path, home: Path) -> None:
    """Move the processes of the cgroup `group` to the cgroup `home`, and remove `group`.

    Does nothing if `group` is gone already.  Raises ReplayerError if it is still there after 10 s.
    """
    deadline = time.monotonic() + _PATIENCE
    while group.is_dir():
        try:
            # Remove the limit first: it could prevent the move back.
            for name in _LIMIT_FILES:
                if (group / name).exists():
                    (group / name).write_text("-1" if "limit" in name else "max", encoding="ascii")
            for pid in _members(group / "cgroup.procs"):
                _move(pid, home / "cgroup.procs")
            group.rmdir()
        except OSError as error:
            if time.monotonic() > deadline:
                raise ReplayerError(
                    f"the cgroup {group} could not be removed: {error.strerror}; "
                    f"remove it with rmdir when its processes have ended"
                ) from error
            time.sleep(0.05)


# Huge pages


def _no_huge_pages(host: Host) -> Advice | None:
    if not host.memory("Hugepagesize"):
        return Advice(found="this kernel has no huge pages")
    for path in (_HUGE_PAGES, _DROP_CACHES):
        refused = host.cannot_write(path)
        if refused:
            return Advice(found=f"/{path} cannot be written ({refused})")
    return None


@contextlib.contextmanager
def _huge_pages(host: Host, keep: int) -> Iterator[Bound]:
    os.sync()
    host.write(_DROP_CACHES, "3")
    size = host.memory("Hugepagesize")
    before = host.number(_HUGE_PAGES) or 0
    free = host.memory("MemFree")
    pages = (free - keep) // size
    if pages < 1:
        raise _nothing_to_take("hugepages", free, keep)
    path = host.path(_HUGE_PAGES)
    note: Note | None = None
    take = functools.partial(journal.take, "hugepages", path=str(path), before=before)
    try:
        with signals.shield():
            note = take(pages=pages)
        host.write(_HUGE_PAGES, str(before + pages))
        granted = (host.number(_HUGE_PAGES) or 0) - before
        if granted < _GRANTED_AT_LEAST * pages:
            raise ReplayerError(
                f"asked for {pages:,} huge pages of {size >> 20} MiB, the kernel granted "
                f"{granted:,}: memory is fragmented, so reboot, or use memory = 'ballast'"
            )
        if granted < pages:
            with signals.shield():
                # The rest was not granted: as many pages more, later, are another program's.
                asked, note = note, take(pages=granted)
                asked.drop()
        how = f"{granted:,} huge pages of {size >> 20} MiB"
        yield Bound("hugepages", granted * size, how, before=before)
    finally:
        if note is not None:
            with signals.shield():
                _give_back_pages(path, before, note.number("pages"))
                note.drop()


def _give_back_pages(path: Path, before: int, pages: int) -> int:
    """Release the `pages` huge pages that replayer reserved; return how many stay reserved.

    The `before` pages, which were reserved before replayer reserved its pages, are kept.  `path` is
    the kernel's file with the number of reserved pages.
    """
    try:
        now = int(path.read_text(encoding="ascii"))
        if now > before:
            path.write_text(str(max(before, now - pages)), encoding="ascii")
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError) as error:
        raise ReplayerError(f"reserved huge pages could not be given back: {error}") from error


def _nothing_to_take(kind: str, free: int, keep: int) -> Impossible:
    return Impossible(
        f"memory = {kind!r} was to leave {keep >> 20:,} MiB free, and only {free >> 20:,} MiB are: "
        f"set keep lower"
    )


# Ballast


def _no_ballast(host: Host) -> Advice | None:
    if host.memory_limit_bytes() is not None:
        return Advice(
            found="replayer runs in a cgroup with a memory limit, so ballast would count against it"
        )
    if _may_lock(host):
        return None
    allowed = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    return Advice(
        found=f"only {allowed >> 10:,} KiB of memory may be locked",
        todo="raise ulimit -l, or give CAP_IPC_LOCK",
    )


def _may_lock(host: Host) -> bool:
    for line in host.read("proc/self/status").splitlines():
        if line.startswith("CapEff:") and int(line.split()[1], 16) & _CAP_IPC_LOCK:
            return True
    return resource.getrlimit(resource.RLIMIT_MEMLOCK)[1] == resource.RLIM_INFINITY


@contextlib.contextmanager
def _ballast(host: Host, keep: int) -> Iterator[Bound]:
    free = host.memory("MemAvailable")
    size = (free - keep) // mmap.PAGESIZE * mmap.PAGESIZE
    if size <= 0:
        raise _nothing_to_take("ballast", free, keep)
    with WorkerPool(ballast.hold, [size], processes=1) as pool:
        # The child dies with replayer anyway; the note lets `replayer clean` know of it.
        child = journal.identity(pool.pids[0])
        with journal.held("ballast", lambda: None, child=child, bytes=size):
            # Touching a page costs about 0.2 us per KiB on a slow machine.
            pool.ready(timeout=60 + size / (256 << 20))
            holder = pool.pids[0]
            how = f"{size >> 20:,} MiB locked by process {holder}"
            yield Bound("ballast", size, how, holder=holder)
