"""Probes with the real command on real files: results, cross-checks, clients, and every failure."""

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from replayer.errors import Impossible
from replayer.machine import processes
from replayer.machine.host import Host
from replayer.storage import device, reference_tools
from replayer.storage.files import PREFIX
from tests.burner import burners
from tests.command import Ended, Replayer
from tests.small_disk import disk_in_a_file, small_disk

ROOT = os.geteuid() == 0
SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/uio.h>
typedef ssize_t (*call)(int, const struct iovec *, int, off_t, int);
ssize_t preadv2(int file, const struct iovec *parts, int many, off_t offset, int flags) {
    static int calls = 0;
    if (calls++ < atoi(getenv("FAIL_AFTER")))
        return ((call)dlsym(RTLD_NEXT, "preadv2"))(file, parts, many, offset, flags);
    errno = atoi(getenv("FAIL_WITH"));
    return -1;
}
ssize_t preadv64v2(int file, const struct iovec *parts, int many, off_t offset, int flags) {
    return preadv2(file, parts, many, offset, flags);
}
ssize_t preadv(int file, const struct iovec *parts, int many, off_t offset) {
    return preadv2(file, parts, many, offset, 0);
}
ssize_t preadv64(int file, const struct iovec *parts, int many, off_t offset) {
    return preadv2(file, parts, many, offset, 0);
}
/* The compiled loop reads with it; so does the sampler, but no blocks. */
typedef ssize_t (*plain)(int, void *, size_t, off_t);
ssize_t pread(int file, void *block, size_t size, off_t offset) {
    static int calls = 0;
    if (size != 8192 || calls++ < atoi(getenv("FAIL_AFTER")))
        return ((plain)dlsym(RTLD_NEXT, "pread"))(file, block, size, offset);
    errno = atoi(getenv("FAIL_WITH"));
    return -1;
}
"""


Process = subprocess.Popen[str]
Write = Callable[..., Path]
_Found = TypeVar("_Found")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Return a folder for the probe's files that must be empty after the test."""
    folder = tmp_path / "disk"
    folder.mkdir()
    yield folder
    assert list(folder.iterdir()) == []


@pytest.fixture
def small() -> Iterator[Path]:
    """Return a mounted file system of 96 MiB; nothing of a probe may be left on it."""
    with small_disk("size=96m") as folder:
        yield folder
        assert list(folder.glob(f"{PREFIX}*")) == []


@pytest.fixture
def workload(tmp_path: Path) -> Write:
    """Return a function that writes a workload of probes and returns its path."""

    def write(*tables: str) -> Path:
        path = tmp_path / "probes.toml"
        steps = [f'[[step]]\nstep = "probe"\n{table}\n' for table in tables]
        path.write_text("".join(steps))
        return path

    return write


@pytest.fixture
def start(replayer: Replayer) -> Callable[..., Process]:
    """Return a function that starts `replayer run`; what still runs at the end is killed."""

    def begin(path: Path, folder: Path) -> Process:
        return replayer.start("run", path, "--data-dir", folder, "--json")

    return begin


@pytest.fixture
def run(replayer: Replayer) -> Callable[..., tuple[int, Any, str]]:
    """Return a function that runs a workload to its end: status, result, stderr."""

    def finish(
        path: Path, folder: Path, *options: str, process: bool = False, **environment: str
    ) -> tuple[int, Any, str]:
        words = ("run", path, "--data-dir", folder, *options, "--json")
        there = dataclasses.replace(replayer, environment=environment)
        call: Callable[..., Ended] = there.process if process else there
        done = call(*words, status=None)
        return done.status, json.loads(done.out) if done.out else None, done.err

    return finish


def values(step: dict[str, Any]) -> dict[str, float]:
    """Return metric -> value of a step of a result."""
    return {m["metric"]: m["value"] for m in step["measurements"]}


def eventually(found: Callable[[], _Found], process: Process) -> _Found:
    """Wait until a function returns something true, and return that; the process must go on."""
    while not (result := found()):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)
    return result


def last_words(stderr: str) -> str:
    """Return the error that a command ended with; there must be one, without a traceback."""
    assert "Traceback" not in stderr
    (line,) = [line for line in stderr.splitlines() if line.startswith("replayer: error: ")]
    return line.removeprefix("replayer: error: ")


@pytest.mark.slow
def test_every_storage_probe_runs_and_says_it_in_its_tools_words(
    workload: Write, run: Callable[..., tuple[int, Any, str]], disk: Path
) -> None:
    """Each probe works on real files, finds what its tool finds, and leaves nothing behind."""
    path = workload(
        'probe = "io"\nname = "io"\nsize = "8M"\nfiles = 2\ndepth = 3\namount = "184k"\n',
        'probe = "orion"\nname = "orion"\nsize = "8M"\nsmall = [1, 2]\nlarge = [1]\n'
        'duration = "200ms"\nwarm_up = 0',
        'probe = "sysbench_fileio"\nname = "sb"\nsizes = ["4M"]\nfile_num = 4\nthreads = [2]\n'
        'time = "150ms"',
        'probe = "ioping"\nname = "ping"\noperation = "write"\ncount = 7\ninterval = "1ms"\n'
        'size = "1M"',
        'probe = "dd_dsync"\nname = "dd"\nsize = "4M"\nwrites = 2',
        'probe = "bonnie"\nname = "bonnie"\nsize = "4M"\nfiles = 1\nseeks = 50\nper_char = "50ms"',
        'probe = "pg_fsync"\nname = "log"\nduration = "150ms"',
    )

    status, result, stderr = run(path, disk)
    steps = {step["name"]: step for step in result["steps"]}

    assert (status, result["status"]) == (0, "done"), stderr
    assert result["engine"] is None
    assert steps["io"]["latency"]["io.latency"]["operations"] == 23
    summary = steps["orion"]["printed"]["summary"]
    assert summary[0].startswith("Maximum Large MBPS=")
    assert summary[0].endswith("@ Small=0 and Large=1")
    assert [row["depth"] for row in steps["orion"]["tables"]["io"]] == [1, 2, 1]
    csv = steps["sb"]["printed"]["csv"]
    assert csv[0] == "name,size,mode,threads,MB/s,requests/s,min,avg,max,95th"
    assert [line.split(",")[2] for line in csv[1:]] == ["seqwr", "seqrd", "rndrd", "rndwr", "rndrw"]
    printed = steps["ping"]["printed"]["print"]
    assert printed[1].startswith("7 requests completed in ")
    assert printed[2].startswith("generated 8 requests in ")
    assert printed[3].startswith("min/avg/max/mdev = ")
    assert steps["dd"]["printed"]["write"][0].startswith("4194304 bytes (")
    line = steps["bonnie"]["printed"]["csv"][0]
    assert line.count(",") == len(reference_tools.BONNIE_FIELDS) - 1
    assert "twice the memory" in " ".join(steps["bonnie"]["notes"])
    assert values(steps["bonnie"])["bonnie.ran_delete"] > 0
    assert set(values(steps["log"])) == {
        f"pg_fsync.{method}" for method in ("open_datasync", "fdatasync", "fsync")
    }


@pytest.mark.slow
def test_blocks_that_direct_io_cannot_move_are_refused_only_with_direct_io(
    workload: Write, run: Callable[..., tuple[int, Any, str]], disk: Path
) -> None:
    """An odd block goes through the page cache; past it, it is an error with what to do."""
    odd = 'probe = "io"\nname = "io"\nsize = "1M"\nblock_size = 1000\namount = "50k"\n'
    cached = workload(
        odd + "direct = false",
        'probe = "bonnie"\nsize = "4M"\nchunk = 1000\nfiles = 0\nper_char = 0',
    )
    _, result, stderr = run(cached, disk)
    assert [step["status"] for step in result["steps"]] == ["done", "done"], stderr
    assert result["steps"][0]["latency"]["io.latency"]["operations"] == 51

    status, result, stderr = run(workload(odd), disk)
    assert (status, result) == (2, None)
    assert "use a multiple of 4096 or direct = false" in last_words(stderr)


@pytest.mark.slow
def test_processor_and_memory_probes_need_no_files(
    workload: Write, run: Callable[..., tuple[int, Any, str]], disk: Path
) -> None:
    """Passes and bytes are counted on one and on all cores; nothing is written.

    No word or unit is sysbench's: its loops are others, and so are its figures.
    """
    path = workload(
        'probe = "cpu"\nname = "cpu"\nduration = "200ms"\nthreads = [1, 2]',
        'probe = "memory"\nname = "memory"\nduration = "100ms"\nthreads = [1]',
    )

    status, result, stderr = run(path, disk)
    processors, memory = result["steps"]

    assert status == 0, stderr
    assert [row["processes"] for row in processors["tables"]["cpu"]] == [1, 2]
    assert processors["tables"]["cpu"][0]["scaling"] == 1
    assert len(memory["tables"]["memory"]) == 4
    assert all(row["MiB/s by numpy"] > 0 for row in memory["tables"]["memory"])
    rates = [m for m in processors["measurements"] if m["metric"].startswith("cpu.events.")]
    assert {m["unit"] for m in rates} == {"passes/s"}
    assert "events/s" not in json.dumps(result["steps"])


def test_every_probe_notices_the_work_of_other_programs(
    workload: Write, run: Callable[..., tuple[int, Any, str]], disk: Path
) -> None:
    """They are in its one window, or in all of its short ones: a remark is on its figures."""
    path = workload(
        'probe = "cpu"\nname = "cpu"\nduration = "1s"\nthreads = [1]',
        'probe = "cpu"\nname = "short"\nduration = "300ms"\nthreads = [1]',
        'probe = "memory"\nname = "memory"\nduration = "300ms"\nthreads = [1]',
        'probe = "ioping"\nname = "ping"\nduration = "1500ms"\nsize = "1M"',
    )
    with burners():
        status, result, stderr = run(path, disk)

    assert status == 0, stderr
    (advice,) = [one for one in result["advice"] if one["name"] == "foreign_processes"]
    assert set(advice["steps"]) == {"cpu", "short", "memory", "ping"}


@pytest.mark.slow
def test_clients_are_printed_each_and_as_their_sum(
    workload: Write, run: Callable[..., tuple[int, Any, str]], disk: Path
) -> None:
    """Three clients with files of their own: each has its row, and the sum is their sum."""
    path = workload('probe = "io"\nname = "io"\nsize = "2M"\nduration = "300ms"\nwarm_up = 0')

    status, result, stderr = run(path, disk, "--set", "io.clients=3")
    rows = result["steps"][0]["tables"]["io"]

    assert status == 0, stderr
    assert [(row["client"], row["depth"]) for row in rows] == [
        ("1", 1), ("2", 1), ("3", 1), ("all", 3),
    ]  # fmt: skip
    assert rows[3]["iops"] == pytest.approx(sum(row["iops"] for row in rows[:3]))
    assert values(result["steps"][0])["io.iops"] == rows[3]["iops"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tool", "table"),
    [
        ("fio", 'probe = "io"\nsize = "4M"\nduration = "1s"\nwarm_up = 0'),
        ("fio", 'probe = "io"\noperation = "mixed"\ndsync = true\nsize = "4M"\nduration = 1'),
        ("ioping", 'probe = "ioping"\ncount = 5\ninterval = "1ms"\nsize = "1M"'),
        (
            "sysbench",
            'probe = "sysbench_fileio"\nsizes = "4M"\nmodes = "rndrd"\nthreads = 1\ntime = "1s"',
        ),
    ],
)
def test_cross_check_runs_the_tool_in_turn(
    workload: Write, run: Callable[..., tuple[int, Any, str]], disk: Path, tool: str, table: str
) -> None:
    """Both figures and their ratio are in the result; the tool's own files are gone as well."""
    if reference_tools.installed(tool) is None:
        pytest.skip(f"{tool} is not installed")

    status, result, stderr = run(workload(f"{table}\ncross_check = true"), disk)
    rows = result["steps"][0]["tables"]["cross_check"]

    assert status == 0, stderr
    assert rows[0]["tool"] == tool
    assert rows[0]["rounds"] == 2
    assert rows[0]["ratio"] == pytest.approx(rows[0]["replayer"] / rows[0]["peer"])


@pytest.mark.slow
def test_cross_check_without_the_tool_is_said(
    workload: Write, run: Callable[..., tuple[int, Any, str]], disk: Path, tmp_path: Path
) -> None:
    """A tool that is not installed is a note, not a failure."""
    path = workload('probe = "ioping"\ncount = 3\ninterval = 0\nsize = "1M"\ncross_check = true')
    nothing = tmp_path / "bin"
    nothing.mkdir()

    if Path("/usr/sbin/ioping").exists() or Path("/usr/local/bin/ioping").exists():
        pytest.skip("ioping is where it is always found")
    status, result, stderr = run(path, disk, PATH=str(nothing))

    assert status == 0, stderr
    assert "cross-check skipped: ioping is not installed" in result["steps"][0]["notes"]


ORION = (
    'probe = "orion"\nname = "orion"\nsize = "8M"\nsmall = [1, 2, 3, 4, 5, 6]\nlarge = [1]\n'
    'duration = "400ms"\nwarm_up = 0'
)


def workers_of(pid: int) -> int:
    """Return how many worker processes a replayer has."""
    return sum(b"spawn_main" in command_of(child) for child in processes.family(pid)[1:])


def command_of(pid: int) -> bytes:
    """Return a process's arguments, b"" if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_probe_keeps_its_finished_rows(
    workload: Write,
    start: Callable[..., Process],
    disk: Path,
    tmp_path: Path,
    number: signal.Signals,
) -> None:
    """Ctrl-C ends with 130; the points that were done are in the result, the files are gone."""
    process = start(workload(ORION), disk)
    # A compiled loop has no more processes than processors: with two at work, depth 1 is done.
    eventually(lambda: workers_of(process.pid) >= 2, process)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=300)
    result = json.loads(stdout)

    assert process.returncode == 130
    assert "Traceback" not in stderr
    assert result["steps"][0]["status"] == "interrupted"
    assert 1 <= len(result["steps"][0]["tables"]["io"]) < 7
    assert result["steps"][0]["printed"]["summary"][0].startswith("Maximum Small IOPS=")
    assert list(disk.iterdir()) == []


@pytest.mark.slow
def test_files_of_a_killed_replayer_are_removed_by_the_next_command(
    workload: Write,
    start: Callable[..., Process],
    run: Callable[..., tuple[int, Any, str]],
    disk: Path,
) -> None:
    """SIGKILL leaves files; their note tells the next command, which removes them."""
    process = start(workload(ORION), disk)
    eventually(lambda: list(disk.glob(f"{PREFIX}*/orion-0/file.0")), process)
    process.kill()
    process.communicate()
    left = list(disk.iterdir())

    table = 'probe = "cpu"\nduration = "50ms"\nthreads = [1]'
    status, _, stderr = run(workload(table), disk)

    assert len(left) == 1
    assert status == 0
    assert f"the files of a probe in {left[0]} were removed" in stderr


def test_file_deleted_under_the_run_ends_it_with_one_sentence(
    workload: Write, run: Callable[..., tuple[int, Any, str]], disk: Path
) -> None:
    """Figures of a file that is gone are not kept, and say so at once, not at the end."""
    path = workload('probe = "io"\nname = "io"\nsize = "4M"\nduration = "24h"')
    over = threading.Event()

    def delete() -> None:
        while not over.wait(0.01):
            for file in files_in_use(disk):
                file.unlink()

    deleting = threading.Thread(target=delete)
    deleting.start()
    try:
        status, result, stderr = run(path, disk)
    finally:
        over.set()
        deleting.join()

    assert status == 1
    assert "was deleted by another program while it was in use" in last_words(stderr)
    assert result["steps"][0]["status"] == "failed"


def files_in_use(disk: Path) -> list[Path]:
    """Return the files of a probe that its workers, children of this process, have open."""
    opened = set()
    for worker in processes.family(os.getpid())[1:]:
        with contextlib.suppress(OSError):
            opened |= {one.readlink() for one in Path(f"/proc/{worker}/fd").iterdir()}
    return sorted(opened & set(disk.glob(f"{PREFIX}*/io-0/file.*")))


@pytest.fixture
def shim(tmp_path: Path) -> Path:
    """Return a library that lets reads fail after so many, where it can be compiled."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler for the fault injection")
    source, library = tmp_path / "shim.c", tmp_path / "shim.so"
    source.write_text(SHIM)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


@pytest.mark.slow
@pytest.mark.parametrize("fault", [(5, "Input/output error"), (122, "quota exceeded")])
def test_faults_of_the_storage_keep_what_was_finished(
    workload: Write,
    run: Callable[..., tuple[int, Any, str]],
    disk: Path,
    shim: Path,
    fault: tuple[int, str],
) -> None:
    """EIO or a quota in the middle: one sentence, finished steps kept, files removed."""
    # Every process counts its own calls.
    path = workload(
        'probe = "io"\nname = "short"\nsize = "8M"\namount = "800k"\nblock_size = "8k"',
        'probe = "io"\nname = "long"\nsize = "8M"\namount = "80M"\nblock_size = "8k"',
    )
    number, name = fault
    faults = {"LD_PRELOAD": str(shim), "FAIL_AFTER": "1000", "FAIL_WITH": str(number)}

    status, result, stderr = run(path, disk, process=True, **faults)

    assert status == 1
    assert name in last_words(stderr)
    assert [step["status"] for step in result["steps"]] == ["done", "failed"]
    assert result["steps"][0]["latency"]["io.latency"]["operations"] == 100


def test_disk_that_is_too_small_is_refused_with_both_numbers(
    workload: Write, run: Callable[..., tuple[int, Any, str]], small: Path
) -> None:
    """Free space is checked before anything is written."""
    status, result, stderr = run(workload('probe = "io"\nsize = "1G"'), small)

    assert status == 2
    assert "need 1.02 GiB" in last_words(stderr)
    assert "has 96.0 MiB free" in last_words(stderr)
    # What cannot be done leaves no result.
    assert result is None


@pytest.mark.slow
def test_without_direct_io_the_result_says_what_was_done_instead(
    workload: Write, run: Callable[..., tuple[int, Any, str]], tmp_path: Path
) -> None:
    """A mount without O_DIRECT is measured with fsync and fadvise, and never called direct."""
    folder = tmp_path / "ram"
    folder.mkdir()
    if not ROOT or subprocess.run(["mount", "-t", "ramfs", "none", folder], check=False).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        path = workload('probe = "io"\nsize = "1M"\noperation = "mixed"\namount = "200k"')
        status, result, stderr = run(path, folder)
    finally:
        subprocess.run(["umount", folder], check=True)
    step = result["steps"][0]

    assert status == 0, stderr
    assert step["facts"]["storage.fallback"] == "fsync and fadvise instead of O_DIRECT"
    assert any("direct I/O does not work on this mount" in note for note in step["notes"])
    assert [row["direct"] for row in step["tables"]["io"]] == [False]


@pytest.mark.slow
@pytest.mark.alone  # what others read meanwhile would count for the disk beneath
def test_reads_from_a_disk_in_a_file_that_is_in_memory_are_not_proven(
    workload: Write, run: Callable[..., tuple[int, Any, str]], tmp_path: Path
) -> None:
    """The loop device delivers every byte, and the disk beneath it none."""
    path = workload('probe = "io"\nsize = "8M"\nduration = "200ms"\nwarm_up = 0')
    with disk_in_a_file(tmp_path) as folder:
        status, result, stderr = run(path, folder)
    step = result["steps"][0]

    assert status == 0, stderr
    assert step["facts"]["storage.device_share_of_reads"] < 0.5
    assert any("disks beneath the device delivered only" in note for note in step["notes"])


@pytest.mark.slow
@pytest.mark.parametrize("block", ["4k", "512"])
def test_reads_that_drop_pages_are_proven_too(
    workload: Write, run: Callable[..., tuple[int, Any, str]], disk: Path, small: Path, block: str
) -> None:
    """A ping through the page cache is from the disk, but not in a file system in memory."""
    if Host().device_of(disk) is None:
        pytest.skip("the folder is on no disk")
    path = workload(
        f'probe = "ioping"\nsize = "4M"\nblock_size = "{block}"\ncount = 200\ninterval = 0'
    )
    _, real, _ = run(path, disk)
    status, result, stderr = run(path, small)
    proven, step = real["steps"][0], result["steps"][0]

    assert status == 0, stderr
    assert proven["facts"]["storage.device_share_of_reads"] >= 0.98
    assert "storage.unproven" not in proven["facts"]
    assert "could not be counted, so nothing proves ours" in step["facts"]["storage.unproven"]
    assert "can be believed with care" in result["headline"]


@pytest.mark.parametrize(
    "probe", ['"pg_fsync"\nmethods = ["fdatasync"]', '"io"\nsize = "1M"\noperation = "mixed"']
)
def test_writes_to_a_file_system_in_memory_prove_no_disk(
    workload: Write, run: Callable[..., tuple[int, Any, str]], small: Path, disk: Path, probe: str
) -> None:
    """A sync that waits for no disk is believed with care, and one of a disk as it is."""
    path = workload(f'probe = {probe}\nduration = "100ms"')
    _, real, _ = run(path, disk)
    status, result, stderr = run(path, small)

    assert status == 0, stderr
    assert "tmpfs, which is memory" in result["steps"][0]["facts"]["storage.unproven"]
    assert "can be believed with care" in result["headline"]
    assert "storage.unproven" not in real["steps"][0]["facts"]


@pytest.mark.slow
def test_disk_that_fills_up_meanwhile_ends_the_run(
    workload: Write, start: Callable[..., Process], small: Path
) -> None:
    """Somebody else takes the space while the probe writes: one sentence, everything removed."""
    path = workload(
        'probe = "ioping"\nname = "ping"\nsize = "1M"\ncount = 3\ninterval = 0',
        'probe = "bonnie"\nname = "bonnie"\nsize = "64M"\nfiles = 0\nper_char = "1s"',
    )
    process = start(path, small)
    eventually(lambda: list(small.glob(f"{PREFIX}*/bonnie-0/file.0")), process)
    with contextlib.suppress(OSError), (small / "ballast").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 20))
    stdout, stderr = process.communicate(timeout=300)

    assert process.returncode == 1
    assert "No space left on device; free some space" in last_words(stderr)
    assert [step["status"] for step in json.loads(stdout)["steps"]] == ["done", "failed"]


@pytest.mark.slow
def test_read_only_file_system_is_refused(
    workload: Write, run: Callable[..., tuple[int, Any, str]], small: Path
) -> None:
    """No folder can be made there: exit 2 with the reason, before anything is measured."""
    subprocess.run(["mount", "-o", "remount,ro", small], check=True)

    status, _, stderr = run(workload('probe = "ioping"\nsize = "1M"'), small)

    assert status == 2
    assert "Read-only file system" in last_words(stderr)


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Callable[..., tuple[str, Path]]]:
    """Return a function that makes a loop device of 24 MiB and returns its path and its file."""
    if not ROOT or not Path("/dev/loop-control").exists():
        pytest.skip("loop devices need root")
    made: list[str] = []

    def make(content: bytes = b"") -> tuple[str, Path]:
        file = tmp_path / f"disk-{len(made)}.img"
        file.write_bytes(content)
        os.truncate(file, 24 << 20)
        done = subprocess.run(
            ["losetup", "--find", "--show", file], capture_output=True, text=True, check=False
        )
        if done.returncode:
            pytest.skip("loop devices are not allowed here")
        made.append(done.stdout.strip())
        return made[-1], file

    yield make
    for name in made:
        subprocess.run(["losetup", "--detach", name], check=True)


@pytest.mark.slow
def test_device_is_read_without_more_ado(
    loop: Callable[..., tuple[str, Path]],
    workload: Write,
    run: Callable[..., tuple[int, Any, str]],
    disk: Path,
) -> None:
    """Reading a raw device needs its name only, and does not change a byte of it."""
    name, file = loop(os.urandom(1 << 20))
    before = file.read_bytes()
    path = workload(f'probe = "io"\ndevice = "{name}"\nduration = "200ms"\nwarm_up = 0')

    status, result, stderr = run(path, disk)

    assert status == 0, stderr
    step = result["steps"][0]
    assert step["facts"]["storage.device"] == Path(name).name
    assert file.read_bytes() == before
    # What was watched meanwhile is that device, not the one below the data, and it is proven.
    assert step["series"]["device"] == Path(name).name
    assert step["facts"]["device.name"] == Path(name).name
    assert step["facts"]["storage.device_share_of_reads"] == pytest.approx(1, abs=0.05)
    assert sum(step["series"]["columns"]["diskstats.r/s"]) > 0


@pytest.mark.slow
def test_device_is_written_only_by_its_serial_and_never_at_its_ends(
    loop: Callable[..., tuple[str, Path]],
    workload: Write,
    run: Callable[..., tuple[int, Any, str]],
    disk: Path,
) -> None:
    """The wrong serial is refused; the right one writes, but not the first and last MiB."""
    name, file = loop()
    table = f'probe = "io"\ndevice = "{name}"\noperation = "write"\namount = "20M"\n'
    refused, _, stderr = run(workload(table), disk)
    also_refused, _, _ = run(workload(f'{table}i_will_lose_data = "123"'), disk)
    untouched = file.read_bytes()

    status, _, told = run(workload(f'{table}i_will_lose_data = "{file}"'), disk)
    written = file.read_bytes()

    assert (refused, also_refused) == (2, 2)
    assert "--i-will-lose-data" in last_words(stderr)
    assert untouched == bytes(24 << 20)
    assert status == 0, told
    assert written[: 1 << 20] == written[-1 << 20 :] == bytes(1 << 20)
    assert written[1 << 20 : -1 << 20].count(0) < (22 << 20) * 0.7


def test_device_that_anybody_uses_is_never_written(
    loop: Callable[..., tuple[str, Path]], tmp_path: Path
) -> None:
    """Data, a signature, a mount, a partition: each is told, whatever serial is given."""
    name, file = loop(b"text" * 100)
    with pytest.raises(Impossible, match="holds data in its first MiB"):
        device.may_write(name, str(file))

    subprocess.run(["mkfs.ext4", "-q", "-F", name], check=True)
    with pytest.raises(Impossible, match="has the signature of ext"):
        device.may_write(name, str(file))

    mount = tmp_path / "mount"
    mount.mkdir()
    subprocess.run(["mount", name, mount], check=True)
    try:
        with pytest.raises(Impossible, match=f"is mounted on {mount}"):
            device.may_write(name, str(file))
    finally:
        subprocess.run(["umount", mount], check=True)


def test_swap_is_never_written(loop: Callable[..., tuple[str, Path]]) -> None:
    """Swap that is only prepared is a signature already."""
    if shutil.which("mkswap") is None:
        pytest.skip("mkswap is not installed")
    name, file = loop()
    subprocess.run(["mkswap", name], check=True, capture_output=True)

    with pytest.raises(Impossible, match="has the signature of swap"):
        device.may_write(name, str(file))


def test_what_is_no_device_is_refused(tmp_path: Path) -> None:
    """A plain file's name where a device is asked for is a mistake, told as one."""
    file = tmp_path / "file"
    file.write_text("x")

    with pytest.raises(Impossible, match="is not a block device"):
        device.target(str(file))
    with pytest.raises(Impossible, match="cannot be used"):
        device.target(str(tmp_path / "missing"))


@pytest.mark.slow
def test_the_folder_of_a_probe_is_its_own(
    workload: Write, start: Callable[..., Process], disk: Path
) -> None:
    """Nobody else can look into the folder or the files while they are there."""
    process = start(workload('probe = "io"\nsize = "4M"\nduration = "60s"'), disk)
    (file,) = eventually(lambda: list(disk.glob(f"{PREFIX}*/io-0/file.0")), process)

    assert stat.S_IMODE(file.parents[1].stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=300)


@pytest.mark.slow
def test_two_probes_at_once_do_not_meet(
    workload: Write, start: Callable[..., Process], disk: Path
) -> None:
    """Two replayers on one folder have files of their own and both end well."""
    path = workload('probe = "io"\nsize = "4M"\nduration = "500ms"\nwarm_up = 0')

    processes = [start(path, disk) for _ in range(2)]
    waiting = [threading.Thread(target=process.communicate) for process in processes]
    for thread in waiting:
        thread.start()
    for thread in waiting:
        thread.join()

    assert [process.returncode for process in processes] == [0, 0]
