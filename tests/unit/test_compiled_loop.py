"""The loop in machine code does what the loop in Python does, and tells what Python would tell."""

import importlib.util
import itertools
import os
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from replayer import interpreter
from replayer.errors import ReplayerError
from replayer.storage import compiled_loop, io_run, io_worker
from replayer.storage.compiled_loop import CompiledLoop
from replayer.storage.io_job import BlockOrder, IoJob, IoTarget, IoThread, Sync, ThreadResult

BLOCK = 4096
BLOCKS = 512


class Open:
    """A barrier that is open already."""

    def wait(self) -> int:
        """Return the time, in ns of CLOCK_MONOTONIC."""
        return time.monotonic_ns()


def job_of(**keys: Any) -> IoJob:
    """Return a job of some thousand operations, more than one chunk has."""
    plain = {"name": "t", "threads": 1, "block_size": BLOCK, "operations": 9001, "direct": False}
    return IoJob(**{**plain, "huge": False, **keys})


def target_of(file: Path) -> IoTarget:
    """Return a file of zeros as a target."""
    file.write_bytes(bytes(BLOCK * BLOCKS))
    return IoTarget((str(file),), BLOCK * BLOCKS, direct=False)


def done(job: IoJob, target: IoTarget, *, compiled: bool) -> ThreadResult:
    """Return what the only thread of a job did, in this process."""
    thread = IoThread(job, target, 0, compiled=compiled)
    return io_worker.work(thread, Open(), lambda _: None)  # type: ignore[arg-type]


def written(file: Path) -> list[int]:
    """Return the numbers of a file's blocks that are no longer zeros."""
    content = file.read_bytes()
    blocks = [content[at : at + BLOCK] for at in range(0, len(content), BLOCK)]
    return [number for number, block in enumerate(blocks) if any(block)]


@pytest.mark.parametrize("access", [BlockOrder.RANDOM, BlockOrder.ZIPF, BlockOrder.SEQUENTIAL])
@pytest.mark.parametrize("share", [0.0, 1.0, 0.3])
def test_it_reads_and_writes_the_very_blocks_of_the_loop_in_python(
    tmp_path: Path, access: BlockOrder, share: float
) -> None:
    """The operations are those that the same seed gives Python, in the same order."""
    job = job_of(access=access, read_share=share)
    prepared: list[Any] = []
    for compiled in (False, True):
        target = target_of(tmp_path / str(compiled))
        worker = io_worker._IoWorker(IoThread(job, target, 0, compiled=compiled))
        worker.open()
        prepared.append(worker._ready)
        worker.close()
    (_, python, many), (_, machine, again) = prepared
    calls, fds, _, offsets = zip(*itertools.islice(python, many), strict=True)

    assert many == again == len(machine.offsets)
    assert list(offsets) == machine.offsets.tolist()
    assert len(set(fds)) == len(set(machine.fds.tolist())) == 1
    assert [call is not os.preadv for call in calls] == machine.writes.tolist()


@pytest.mark.parametrize("share", [0.0, 1.0, 0.3])
def test_it_does_as_much_as_the_loop_in_python(tmp_path: Path, share: float) -> None:
    """The same blocks of two files are written, and the operations are counted alike."""
    job = job_of(read_share=share, operations=9001)
    files = [tmp_path / "python", tmp_path / "compiled"]
    python, machine = (
        done(job, target_of(file), compiled=compiled)
        for file, compiled in zip(files, (False, True), strict=True)
    )

    assert (python.compiled, machine.compiled) == (False, True)
    assert python.issued == machine.issued
    assert sum(machine.issued) == 9001 == sum(seen.operations for seen in machine.latencies)
    assert bool(written(files[1])) is (share < 1)
    if share in {0.0, 1.0}:
        assert written(files[0]) == written(files[1])


def test_the_blocks_of_several_files_are_its_own(tmp_path: Path) -> None:
    """Each descriptor gets the blocks of its own file."""
    results = []
    for compiled in (False, True):
        folder = tmp_path / str(compiled)
        folder.mkdir()
        paths = [folder / str(number) for number in range(3)]
        for path in paths:
            path.write_bytes(bytes(BLOCK * BLOCKS))
        target = IoTarget(tuple(map(str, paths)), BLOCK * BLOCKS, direct=False)
        done(job_of(operations=300, read_share=0.0), target, compiled=compiled)
        results.append([written(path) for path in paths])

    assert results[0] == results[1]
    assert len(set(map(tuple, results[1]))) == 3


@pytest.mark.parametrize("size", [4096, 16384, 1 << 20])
def test_no_page_is_written_twice(tmp_path: Path, size: int) -> None:
    """A storage that keeps equal pages once, or compresses them, gains nothing."""
    file = tmp_path / "file"
    blocks = (1 << 24) // size
    file.write_bytes(bytes(blocks * size))
    target = IoTarget((str(file),), blocks * size, direct=False)
    keys = {"block_size": size, "read_share": 0.0, "access": BlockOrder.SEQUENTIAL}
    assert done(job_of(**keys, operations=blocks), target, compiled=True).compiled

    content = file.read_bytes()
    pages = [
        content[first + page : first + min(page + 4096, size)]
        for first in range(0, len(content), size)
        for page in range(0, size, 4096)
    ]
    assert len(set(pages)) == len(pages)
    assert all(len(zlib.compress(page)) > 0.97 * len(page) for page in pages[::256])


def test_its_latencies_add_up_to_the_time_that_it_took(tmp_path: Path) -> None:
    """Each end is the begin of the next one: of one chunk, no time is left out or counted twice."""
    job, target = job_of(operations=8000), target_of(tmp_path / "file")
    worker = io_worker._IoWorker(IoThread(job, target, 0, compiled=True))
    worker.open()
    try:
        found = worker.run(time.monotonic_ns(), lambda _: None)
    finally:
        worker.close()

    whole = sum(seen.mean_ns * seen.operations for seen in found.latencies if seen.operations)
    assert found.compiled
    assert whole == pytest.approx(found.last_ns - worker._begin)
    assert list(worker._ends[:8000]) == sorted(worker._ends[:8000])


def test_a_deadline_ends_it(tmp_path: Path) -> None:
    """The result is that of a time limit, and of no operation that ended after it."""
    job = job_of(operations=None, seconds=0.2)
    found = done(job, target_of(tmp_path / "file"), compiled=True)

    assert found.cut
    assert found.last_ns >= found.window_begin_ns + 200_000_000
    assert 0 < found.latencies[0].operations < found.issued[0]


def test_it_leaves_the_interpreter_to_others(tmp_path: Path) -> None:
    """Another thread ends it, which cannot run while this one holds Python's lock."""
    file = tmp_path / "file"
    target, errors = target_of(file), []
    worker = io_worker._IoWorker(
        IoThread(job_of(operations=None, seconds=60), target, 0, compiled=True)
    )
    worker.open()
    started = threading.Event()

    def run() -> None:
        started.set()
        try:
            worker.run(time.monotonic_ns(), lambda _: None)
        except OSError as error:
            errors.append(str(error))

    thread, before = threading.Thread(target=run), sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        thread.start()
        started.wait()
        os.truncate(file, 0)
        thread.join(30)
        ended = not thread.is_alive()
    finally:
        sys.setswitchinterval(before)
        thread.join()
        worker.close()

    assert ended
    assert "fewer bytes than requested were read or written" in errors[0]


def test_a_file_that_was_cut_short_is_told_with_its_offset(tmp_path: Path) -> None:
    """As from the loop in Python, in the same words."""
    file = tmp_path / "file"
    words = set()
    for compiled in (False, True):
        target = target_of(file)
        os.truncate(file, BLOCK * 10 + 100)
        with pytest.raises(ReplayerError, match="offset 40960") as caught:
            done(job_of(access=BlockOrder.SEQUENTIAL), target, compiled=compiled)
        words.add(str(caught.value))
    assert len(words) == 1


def test_an_error_of_the_kernel_has_its_errno(tmp_path: Path) -> None:
    """A descriptor that is not open: EBADF, not the errno of what this thread did before."""
    file = tmp_path / "file"
    target_of(file)
    fd = os.open(file, os.O_RDONLY)
    assert not compiled_loop.refusal()
    loop = CompiledLoop([fd, 1 << 20], [memoryview(bytearray(BLOCK))])
    operations = loop.prepare(np.array([0, 0, 1]), np.zeros(3, dtype=bool), np.array([0, BLOCK, 0]))
    ends = np.zeros(3, dtype=np.int64)
    try:
        assert loop.run(operations, ends, 1 << 62) == (2, 9)
    finally:
        os.close(fd)
    assert 0 < ends[0] <= ends[1]
    assert ends[2] == 0


@pytest.mark.parametrize(
    "keys",
    [
        {"sync": Sync.FSYNC, "read_share": 0.0},
        {"rate": 1e6},
        {"drop": True},
        {"rewrite": True, "read_share": 0.5},
        {"access": BlockOrder.SHARED},
    ],
    ids=lambda keys: next(iter(keys)),
)
def test_what_it_cannot_do_python_does(tmp_path: Path, keys: dict[str, Any]) -> None:
    """Such a job is not compiled although that was asked for, and this is no refusal of numba's."""
    run = io_run.run_io([job_of(**{"operations": 50, **keys})], [target_of(tmp_path / "file")])

    assert not run.compiled
    assert not run.of().refusal
    assert run.of().operations


def test_it_is_used_where_numba_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All threads of a run have it, in processes of their own; without numba none has."""
    target = target_of(tmp_path / "file")
    job = job_of(threads=5, operations=1000)
    found = io_run.run_io([job], [target])
    monkeypatch.setattr(compiled_loop, "installed", lambda: False)
    without = io_run.run_io([job], [target])

    assert (found.compiled, without.compiled) == (True, False)
    assert found.of().operations == without.of().operations == 1000


def test_a_numba_that_does_not_work_leaves_it_to_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numba refuses a newer numpy with an ImportError, when it is imported."""
    tried = []

    def refused() -> Callable[..., Any]:
        tried.append(1)
        raise ImportError("Numba needs NumPy 2.4 or less. Got NumPy 3.0.")

    monkeypatch.setattr(compiled_loop, "_MADE", [])
    monkeypatch.setattr(compiled_loop, "_REFUSED", [])
    monkeypatch.setattr(compiled_loop, "_compile", refused)
    found = done(job_of(), target_of(tmp_path / "file"), compiled=True)

    assert not found.compiled
    assert found.refusal == "ImportError: Numba needs NumPy 2.4 or less. Got NumPy 3.0."
    assert found.issued == (9001, 0)
    again = done(job_of(), target_of(tmp_path / "file"), compiled=True)
    assert again.refusal == found.refusal
    assert len(tried) == 1  # by the first of thousands of threads


def test_numbas_settings_in_the_current_folder_are_not_read(tmp_path: Path) -> None:
    """Whoever can write there would have root write to any file."""
    # numba reads its settings only where this is installed.
    assert importlib.util.find_spec("yaml") is not None
    victim = tmp_path / "victim"
    (tmp_path / ".numba_config.yaml").write_text(f"dump_html: {victim}\nchrome_trace: {victim}2\n")
    program = (
        "from replayer.storage import compiled_loop; assert not compiled_loop.refusal();"
        "import numba, yaml; assert yaml.safe_load('1') == 1; print(numba.config.DUMP_IR)"
    )
    variables = interpreter.safe({**os.environ, "NUMBA_DUMP_IR": "1"})
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path, env=variables, capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert (done.stdout, done.stderr) == ("0\n", "")
    assert [path.name for path in tmp_path.iterdir()] == [".numba_config.yaml"]
