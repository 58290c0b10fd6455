"""Checks of this machine, one line each: a thing is tried, without harm, and not guessed.

Each public function here whose only parameter is `case` is a check, and returns one line. It is
found by that parameter: no list names the checks. The lines are shown in the order of this file. If
a check that is `needed` has the answer no, the default workload cannot run here.
"""

import contextlib
import errno
import inspect
import mmap
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from replayer import assets, journal, shell, trusted_path
from replayer.analysis.advice import machine_warnings, warnings
from replayer.conditions import memory_bound
from replayer.conditions.residency import Residency, residency
from replayer.engines import engine
from replayer.errors import ReplayerError
from replayer.machine import machine_facts, page_cache, perf
from replayer.machine.free_space import free_bytes, nearest_folder
from replayer.machine.host import Host
from replayer.model import Advice, Fact
from replayer.run.plan import footprint
from replayer.run.plan import workload as workload_file
from replayer.servers import data_folder as data_folders
from replayer.servers import programs
from replayer.servers.programs import Programs
from replayer.units import show_size
from replayer.watch.sampler import Sampler

_MIB = 1 << 20
_LONG_PATH = 50
_BUSY_STATES = ("usr", "nice", "sys", "irq", "soft", "steal", "guest", "gnice")
_BUSY_CPU = 10.0
_BUSY_DEVICE = 5.0
_TOOLS = {"fio": "fio", "iostat": "sysstat", "hyperfine": "hyperfine"}
"""Program -> its Debian package, for `make bench`."""


class Answer(StrEnum):
    """The answer of a check: the degree to which the thing that was tried is possible."""

    OK = "ok"
    LIMITED = "limited"
    NO = "no"


class PreflightLine(NamedTuple):
    """One check's result: how far a thing is possible, what was found, and what to do about it."""

    name: str
    answer: Answer
    found: str
    todo: str = ""
    needed: bool = False
    """True if the default workload is impossible without the thing that was tried."""


@dataclass(frozen=True)
class Case:
    """The subject of the checks: a machine, and the folder on the disk under test.

    `data_dir` is that folder as the user named it, None for the default one.  `workload` is the
    name of the workload whose needs are compared with the machine.
    """

    host: Host
    data_dir: Path | None = None
    workload: str = "demo"
    seconds: float = 1.0
    """Seconds for which the machine is watched for other load."""

    @cached_property
    def engine(self) -> engine.Engine:
        """Return the default engine, which a run uses if the user names none."""
        return engine.load(engine.default())

    @cached_property
    def server(self) -> Programs | ReplayerError:
        """Return the server's programs; if there are none, return the error with the reason."""
        try:
            return programs.find(self.engine.title, self.engine.spec.server)
        except ReplayerError as error:
            return error

    @cached_property
    def data(self) -> Path:
        """Return the absolute path of the data folder, which need not exist yet."""
        return Path(os.path.realpath(self.data_dir or journal.home() / "data"))

    @cached_property
    def here(self) -> Path:
        """Return the nearest existing folder at or above the data folder."""
        return nearest_folder(self.data)

    @cached_property
    def facts(self) -> dict[str, Fact]:
        """Return name -> value of the facts of the machine and of the data folder's disk."""
        return machine_facts.read_facts(self.host, self.data)

    @cached_property
    def tables(self) -> tuple[int, int]:
        """Return two estimates in bytes of the data of `workload`: on disk, and in the page cache.

        Steps use the page cache one after the other, so the second number is the largest need of
        any step.
        """
        steps = workload_file.load(self.workload).steps
        taken = [footprint.estimate(spec, self.engine.block_size) for spec in steps]
        prints = [one for one in taken if one is not None]
        return footprint.disk_bytes(prints), max((one.cached_bytes for one in prints), default=0)


def run_checks(case: Case) -> Iterator[PreflightLine]:
    """Make all checks in the order of this file, one at a time, and yield the line of each."""
    for ask in _questions():
        yield ask(case)


# Needed by the default workload


def server(case: Case) -> PreflightLine:
    """Look for an installed database server that replayer can start."""
    if isinstance(case.server, ReplayerError):
        return _refused("server", case.server)
    chosen = case.server
    who = f", run by the user {chosen.user.name}" if chosen.user else ""
    where = chosen.folder
    if len(str(where)) > _LONG_PATH:
        where = Path("…", *where.parts[-3:])
    return PreflightLine(
        "server", Answer.OK, f"{case.engine.title} {chosen.version} in {where}{who}"
    )


def engines(case: Case) -> PreflightLine:
    """Read every engine's folder, so that an error in a user's engine is found before a run."""
    del case
    names = list(assets.engines())
    try:
        for name in names:
            engine.checked(name)
    except ReplayerError as error:
        todo = "mend it, or take it out of REPLAYER_SCHEMAS"
        return PreflightLine("engines", Answer.NO, str(error), todo)
    return PreflightLine("engines", Answer.OK, f"{len(names)} are known: {', '.join(names)}")


def data_folder(case: Case) -> PreflightLine:
    """Check that the data folder is usable, and write a temporary file there."""
    try:
        if case.data_dir is not None:
            _usable(data_folders.DataFolder(trusted_path.real(case.data_dir)), case)
        with tempfile.NamedTemporaryFile(dir=case.here, prefix=".replayer-check-"):
            pass
    except ReplayerError as error:
        return _refused("data folder", error)
    except OSError as error:
        return PreflightLine(
            "data folder",
            Answer.NO,
            f"{case.here} cannot be written: {error.strerror}",
            "give a --data-dir that you may write",
            needed=True,
        )
    kind = case.facts.get("fs.type", "an unknown file system")
    device = case.facts.get("device.name")
    where = f"{kind} on {device}" if device else str(kind)
    return PreflightLine("data folder", Answer.OK, f"{case.data} ({where})")


def free_space(case: Case) -> PreflightLine:
    """Compare the free space on the data's disk with the space that the workload needs."""
    free = free_bytes(case.here)
    needed = case.tables[0]
    finding = f"{show_size(free)} free, `run {case.workload}` needs about {show_size(needed)}"
    if free >= needed:
        return PreflightLine("free space", Answer.OK, finding)
    todo = "give --data-dir on a larger disk, or lower rows and scale with --set"
    return PreflightLine("free space", Answer.NO, finding, todo, needed=True)


def direct_reads(case: Case) -> PreflightLine:
    """Try a read with O_DIRECT in the data folder: a disk read that bypasses the page cache.

    The default workload needs such reads, in sessions and in walks.
    """
    direct = case.engine.spec.sessions.memory.get("direct")
    since = direct.since if direct else 0
    try:
        with _trial_file(case.here) as file:
            refused = _direct(file)
    except _NoFile as error:
        return error.line("direct I/O", needed=True)
    if refused:
        todo = "give --data-dir on ext4 or xfs, or use memory = cgroup"
        return PreflightLine("direct I/O", Answer.NO, f"O_DIRECT: {refused}", todo, needed=True)
    if isinstance(case.server, Programs) and case.server.major < since:
        finding = f"O_DIRECT works, but {case.engine.title} {case.server.version} has no use for it"
        todo = f"use version {since} or later, or memory = cgroup"
        return PreflightLine("direct I/O", Answer.LIMITED, finding, todo, needed=True)
    return PreflightLine("direct I/O", Answer.OK, "O_DIRECT reads work in the data folder")


# Cold and cached reads


def memory_size(case: Case) -> PreflightLine:
    """Compare the usable memory with the bytes that the workload wants in the page cache."""
    usable, wanted = case.host.usable_memory_bytes(), case.tables[1]
    finding = f"{show_size(usable)} usable, cached sessions of `run {case.workload}` want "
    finding += show_size(wanted)
    limit = machine_warnings.limited(case.facts)
    if wanted > 0.85 * usable:
        todo = "lower scale with --set cached.scale=…"
        return PreflightLine("memory", Answer.NO, finding, todo, needed=True)
    return PreflightLine(
        "memory", Answer.LIMITED if limit else Answer.OK, finding, str(limit or "")
    )


def drop_caches(case: Case) -> PreflightLine:
    """Open drop_caches for writing; if refused, try to drop a single file from the page cache."""
    refused = case.host.cannot_write("proc/sys/vm/drop_caches")
    if not refused:
        return PreflightLine("drop caches", Answer.OK, "may be written: true cold reads")
    finding = f"/proc/sys/vm/drop_caches: {refused}"
    try:
        with _trial_file(case.here) as file:
            left = _forgetting(file)
    except _NoFile as error:
        line = error.line("drop caches")
        return line._replace(found=f"{finding}; whether a file can be forgotten is {line.found}")
    if left is None or left:
        todo = "run as root, in a container with --privileged"
        return PreflightLine(
            "drop caches", Answer.NO, f"{finding}; a file cannot be forgotten either", todo
        )
    finding += "; files are forgotten one by one (fadvise) instead, with proof"
    return PreflightLine("drop caches", Answer.LIMITED, finding, "run as root to drop everything")


def residency_proof(case: Case) -> PreflightLine:
    """Test whether the system shows which pages of a file in the data folder are in memory."""
    try:
        with _trial_file(case.here) as file:
            seen = _seen(file)
    except _NoFile as error:
        return error.line("page cache")
    if isinstance(seen, str):
        todo = "give a --data-dir on a local disk: nothing can be proven to be cold here"
        return PreflightLine("page cache", Answer.NO, seen, todo)
    if seen.method == "cachestat":
        return PreflightLine(
            "page cache", Answer.OK, "cachestat shows the pages in memory, and which are dirty"
        )
    why = "is blind here" if page_cache.has_cachestat() else "is not there (Linux 6.5)"
    finding = f"cachestat {why}: mincore shows the pages in memory, but not which are dirty"
    return PreflightLine("page cache", Answer.LIMITED, finding)


def cgroup(case: Case) -> PreflightLine:
    """Check whether the memory of a server can be limited, with its page cache, by a cgroup."""
    version = case.facts.get("cgroup.version", "?")
    return _bounding(case, "cgroup", f"version {version}: the server's page cache can be limited")


def huge_pages(case: Case) -> PreflightLine:
    """Check whether free memory can be set aside as huge pages: the page cache then gets less."""
    reserved = machine_warnings.huge_pages_reserved(case.facts)
    line = _bounding(case, "hugepages", "free memory can be set aside as huge pages")
    return line._replace(answer=Answer.LIMITED, todo=str(reserved)) if reserved else line


def locked_memory(case: Case) -> PreflightLine:
    """Check whether free memory can be locked: less of it is then left for the page cache."""
    return _bounding(case, "ballast", "free memory can be locked away")


# Counters


def device(case: Case) -> PreflightLine:
    """Look for the disk below the data, whose reads and writes the kernel counts."""
    name = case.facts.get("device.name")
    if not name:
        advice = machine_warnings.no_device(case.facts)
        todo = advice.todo if advice else ""
        return PreflightLine("device", Answer.NO, "no single disk is known below the data", todo)
    stack = case.facts.get("device.stack")
    model = case.facts.get("device.model")
    parts = (model, f"scheduler {case.facts.get('device.scheduler')}", stack)
    return PreflightLine(
        "device", Answer.OK, f"{name}: " + ", ".join(str(part) for part in parts if part)
    )


def read_ahead(case: Case) -> PreflightLine:
    """Report the read-ahead of the data's device; limited if it is large or not known."""
    kb = case.facts.get("device.read_ahead_kb")
    if not isinstance(kb, int):
        return PreflightLine("read-ahead", Answer.LIMITED, "not known")
    if kb >= warnings.LARGE_READ_AHEAD_KB:
        todo = "it decides cold sequential reads: give both machines the same"
        return PreflightLine("read-ahead", Answer.LIMITED, f"{kb} KiB", todo)
    return PreflightLine("read-ahead", Answer.OK, f"{kb} KiB")


def pressure(case: Case) -> PreflightLine:
    """Check whether the kernel records how long tasks wait for CPU, memory and I/O."""
    if case.host.read("proc/pressure/io"):
        return PreflightLine(
            "pressure", Answer.OK, "stall times of CPU, memory and I/O are recorded"
        )
    todo = "boot with psi=1, if the kernel has it"
    return PreflightLine(
        "pressure", Answer.LIMITED, "no pressure stall information (/proc/pressure)", todo
    )


def sleep(case: Case) -> PreflightLine:
    """Check whether the kernel can trace when sessions sleep, for the account of their time."""
    try:
        with tempfile.TemporaryDirectory(prefix="replayer-check-") as folder:
            perf.of_scheduler(case.host, Path(folder)).end()
    except (ReplayerError, OSError) as error:
        finding = f"sessions sleep as long as they are met asleep: {error}"
        todo = "the account of their time may not close, above all in a virtual machine"
        return PreflightLine("sleep", Answer.LIMITED, finding, todo)
    return PreflightLine(
        "sleep", Answer.OK, "sleep of sessions is traced, in addition to samples of them"
    )


# Disturbances


def governor(case: Case) -> PreflightLine:
    """Report the CPU frequency governor; limited if the clock frequency follows the load."""
    name = case.facts.get("cpu.governor")
    text = str(name) if name else "none here: the processor's clock is not set by this kernel"
    return _warned("CPU governor", text, machine_warnings.governor(case.facts))


def swap(case: Case) -> PreflightLine:
    """Report the size of swap space and its used part; limited if there is any swap space."""
    total, free = case.host.memory("SwapTotal"), case.host.memory("SwapFree")
    if not total:
        return PreflightLine("swap", Answer.OK, "none")
    finding = f"{show_size(total - free)} of {show_size(total)} in use"
    return PreflightLine(
        "swap", Answer.LIMITED, finding, "`swapoff -a` keeps it out of the measurement"
    )


def other_load(case: Case) -> PreflightLine:
    """Watch the load of CPU and device for `case.seconds`; limited if other work is seen.

    It is limited, too, if the load of one of them is not known.
    """
    with Sampler(case.host, case.host.device_of(case.data)) as sampler:
        begin = sampler.mark()
        threading.Event().wait(case.seconds)
        watched = sampler.series(begin, sampler.mark()).columns
    cpu = _last_sum(watched, *(f"cpu.%{state}" for state in _BUSY_STATES))
    disk = _last_sum(watched, "diskstats.%util")
    load = case.host.load()
    finding = f"CPU{_busy(cpu)}, device{_busy(disk)}"
    finding += f", load average {load[0]:.2f}" if load else ""
    is_busy = (cpu or 0.0) >= _BUSY_CPU or (disk or 0.0) >= _BUSY_DEVICE
    if is_busy or machine_warnings.other_load(case.facts):
        todo = "stop what else runs (`pidstat -ud 1` shows it), or wait"
    else:
        todo = "look for other work with `pidstat -ud 1`" if None in (cpu, disk) else ""
    return PreflightLine("other load", Answer.LIMITED if todo else Answer.OK, finding, todo)


def transparent_huge_pages(case: Case) -> PreflightLine:
    """Report the setting of transparent huge pages; limited if they are used for all memory."""
    setting = str(case.facts.get("memory.transparent_huge_pages", "not in this kernel"))
    return _warned("THP", setting, machine_warnings.transparent_huge_pages(case.facts))


def clock_source(case: Case) -> PreflightLine:
    """Report the clock source with which everything is timed; limited if reading it is slow."""
    source = str(case.facts.get("kernel.clocksource", "not known"))
    return _warned("clock source", source, machine_warnings.slow_clock(case.facts))


def virtualisation(case: Case) -> PreflightLine:
    """Look for a hypervisor; limited if this is a virtual machine."""
    hypervisor = str(case.facts.get("virtualisation", "not known"))
    return _warned("virtual", hypervisor, machine_warnings.virtualised(case.facts))


def container(case: Case) -> PreflightLine:
    """Look for a container around this process; limited if there is one."""
    kind = case.facts.get("container")
    if kind in (None, "none"):
        return PreflightLine("container", Answer.OK, "none")
    todo = "caches and devices are the host's: drop caches and watch for other load there too"
    return PreflightLine("container", Answer.LIMITED, str(kind), todo)


# Other programs and leftovers


def other_servers(case: Case) -> PreflightLine:
    """List the other installed versions of the server, which --pg-bindir could name."""
    mine = case.server.folder if isinstance(case.server, Programs) else None
    versions = [_version(case, folder) for folder in _folders(case) if folder != mine]
    text = "; ".join(filter(None, versions))
    return PreflightLine("other servers", Answer.OK, text or "none for --pg-bindir")


def bench_tools(case: Case) -> PreflightLine:
    """Look for the programs fio, iostat and hyperfine; `make bench` compares replayer with them."""
    del case
    missing = [package for program, package in _TOOLS.items() if shell.find(program) is None]
    if not missing:
        return PreflightLine("bench tools", Answer.OK, ", ".join(_TOOLS.values()))
    finding = f"missing: {', '.join(missing)} (only `make bench` uses them)"
    return PreflightLine(
        "bench tools", Answer.LIMITED, finding, f"apt-get install {' '.join(missing)}"
    )


def leftovers(case: Case) -> PreflightLine:
    """Look for things that another replayer process uses now, or left behind when it was killed."""
    del case
    notes = list(journal.notes())
    left = [note.kind for note in notes if note.abandoned]
    held = [note.kind for note in notes if not note.abandoned]
    if left:
        finding = f"an earlier replayer was killed and left: {', '.join(sorted(left))}"
        todo = "`replayer clean` gives it back, and so does the next run"
        return PreflightLine("leftovers", Answer.LIMITED, finding, todo)
    if held:
        finding = f"another replayer runs now and holds: {', '.join(sorted(held))}"
        return PreflightLine(
            "leftovers", Answer.LIMITED, finding, "wait for it: two runs disturb each other"
        )
    return PreflightLine("leftovers", Answer.OK, "none")


# The trials


def _questions() -> Iterator[Callable[[Case], PreflightLine]]:
    for name, question in list(globals().items()):
        own = inspect.isfunction(question) and question.__module__ == __name__ and name[0] != "_"
        if (
            own
            and name != "run_checks"
            and list(inspect.signature(question).parameters) == ["case"]
        ):
            yield question


def _last_sum(columns: Mapping[str, Sequence[float | None]], *names: str) -> float | None:
    """Return the sum of the last values of these columns; None if one of them is not known."""
    values = [(columns.get(name) or (None,))[-1] for name in names]
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(names) else None


def _busy(percent: float | None) -> str:
    return ": not known" if percent is None else f" {percent:.0f} % busy"


def _warned(name: str, finding: str, advice: Advice | None) -> PreflightLine:
    return (
        PreflightLine(name, Answer.LIMITED, finding, advice.todo)
        if advice
        else PreflightLine(name, Answer.OK, finding)
    )


def _refused(name: str, error: ReplayerError) -> PreflightLine:
    return PreflightLine(name, Answer.NO, error.found, error.todo, needed=True)


def _usable(folder: data_folders.DataFolder, case: Case) -> None:
    """Raise Impossible if a run would refuse this data folder; change nothing in it."""
    server = case.server if isinstance(case.server, Programs) else None
    folder.check(server.user if server else None)
    if folder.path.exists():
        folder.make()
    marker = folder.marker()
    if server and marker and (marker.engine, marker.major) != (case.engine.name, server.major):
        folder.claim(case.engine.name, server.major, marker.init, made=False)


def _bounding(case: Case, kind: str, finding: str) -> PreflightLine:
    name = {"cgroup": "cgroup", "hugepages": "huge pages", "ballast": "locked memory"}[kind]
    refusal = memory_bound.refusal(kind, case.host)
    if refusal is None:
        return PreflightLine(name, Answer.OK, f"{finding} (memory = {kind})")
    other = "memory = direct needs no rights at all"
    todo = f"{refusal.todo}; or {other}" if refusal.todo else other
    return PreflightLine(name, Answer.NO, refusal.found, todo)


class _NoFile(ReplayerError):
    """No file could be made to try a thing with, so that the answer of its check is not known."""

    def line(self, name: str, *, needed: bool = False) -> PreflightLine:
        """Return the line of the check called `name`."""
        return PreflightLine(name, Answer.NO, f"not known: {self.found}", self.todo, needed)


@contextlib.contextmanager
def _trial_file(folder: Path) -> Iterator[str]:
    """Yield the path of a file of 1 MiB in a folder, on the disk; raise _NoFile without one."""
    with contextlib.ExitStack() as ends:
        try:
            file = ends.enter_context(
                tempfile.NamedTemporaryFile(dir=folder, prefix=".replayer-check-", buffering=0)
            )
            # A disk that becomes full takes a part, and refuses the rest.
            rest = bytes(range(256)) * (_MIB // 256)
            while rest:
                rest = rest[file.write(rest) :]
            os.fsync(file.fileno())
        except OSError as error:
            todo = "give a --data-dir that you may write"
            if error.errno in {errno.ENOSPC, errno.EDQUOT}:
                todo = "free some space, or give --data-dir on another disk"
            found = f"no file could be made in {folder} ({error.strerror})"
            raise _NoFile(found, todo) from error
        yield file.name


def _direct(file: str) -> str:
    """Return "" if a file can be read with O_DIRECT, else the system's reason."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_DIRECT)
        try:
            with mmap.mmap(-1, 8192) as buffer:
                if os.preadv(descriptor, [buffer], 8192) != 8192:
                    return "a read was cut short"
        finally:
            os.close(descriptor)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _forgetting(file: str) -> int | None:
    """Return the bytes of a file still in memory after a drop; None if that is not known."""
    try:
        page_cache.forget(file)
        return residency([file]).resident_bytes
    except OSError:
        return None


def _seen(file: str) -> Residency | str:
    """Return how much of a file is in memory; if nothing can measure that here, the reason."""
    try:
        measured = residency([file])
    except OSError as error:
        return error.strerror or str(error)
    if measured.resident_bytes is None or not measured.sees:
        return measured.why
    if not measured.misses:
        return "what was read there cannot be dropped from memory"
    return measured


def _folders(case: Case) -> Iterator[Path]:
    for pattern in case.engine.spec.server.folders:
        yield from sorted(Path("/").glob(pattern.lstrip("/")))


def _version(case: Case, folder: Path) -> str:
    try:
        version = shell.run([folder / case.engine.spec.server.program, "--version"], timeout=20)
    except ReplayerError:
        return ""
    return f"{version.strip()} in {folder}"
