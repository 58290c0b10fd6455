"""Runs of well-known benchmark tools on replayer's files, for comparison.

The functions take the same parameters as replayer's own measurements, so that both can be compared.
sysbench accepts only whole seconds, so these are rounded up.
"""

from __future__ import annotations

import json
import math
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from replayer import shell
from replayer.errors import ReplayerError, one_line
from replayer.storage.files import settle

_GRACE_SECONDS = 60.0
SMALL_PAGES = "the cross-check has buffers on small pages on both sides, as fio has them"
_MIXED = {"rw", "randrw"}
_PG_NEXT = "two 8kB"
"""A part of the title of pg_test_fsync's second table."""


@dataclass(frozen=True, slots=True)
class ReferenceResult:
    """The results of a benchmark tool such as fio: IOPS, bytes per second, and latencies in ns."""

    iops: float = 0.0
    throughput: float = 0.0
    mean_ns: float = 0.0
    p99_ns: float = 0.0
    """The 99th percentile of latencies; 0 if reads and writes are mixed, or if it is not known."""
    cpu_per_operation: float = 0.0
    """CPU seconds of the tool per operation."""
    lines: tuple[str, ...] = ()
    """The lines of the tool's output that contain its results."""


def installed(program: str) -> Path | None:
    """Return the path of `program` in PATH, /usr/sbin or /usr/local/bin; None if it is in none."""
    return shell.find(program, Path("/usr/sbin"), Path("/usr/local/bin"))


def _program(name: str) -> Path:
    path = installed(name)
    if path is None:
        raise ReplayerError(f"{name} is not installed")
    return path


def fio(
    path: str,
    *,
    mode: str,
    block_size: int,
    jobs: int,
    seconds: float,
    size: int,
    warmup: float = 0.0,
    direct: bool = True,
    dsync: bool = False,
    read_percent: int = 50,
    regions: bool = False,
    huge: bool = False,
) -> ReferenceResult:
    """Run fio with its engine psync on the file `path`, with `jobs` threads; return its results.

    `mode` is fio's --rw, such as randread. `size` and `block_size` are in bytes. `direct` and
    `dsync` open the file with O_DIRECT and O_DSYNC. The run lasts `warmup` and `seconds`; only the
    latter are measured. `regions` gives each thread its own part of the file. `huge` puts fio's
    buffers on huge pages, which the user must have reserved. `read_percent` is for the modes rw and
    randrw, whose results are those of reads and writes together.
    """
    part = size // jobs // block_size * block_size
    arguments: list[str | Path] = [
        _program("fio"),
        "--name=peer",
        f"--filename={path}",
        f"--size={part if regions else size}",
        f"--rw={mode}",
        f"--bs={block_size}",
        f"--direct={int(direct)}",
        "--ioengine=psync",
        "--thread",
        f"--numjobs={jobs}",
        "--group_reporting",
        "--time_based",
        # fio cuts off decimals of seconds.
        f"--runtime={round(1000 * seconds)}ms",
        f"--ramp_time={round(1000 * warmup)}ms",
        "--output-format=json",
        *([f"--offset_increment={part}"] if regions else []),
        *(["--iomem=shmhuge"] if huge else []),
        *(["--sync=dsync"] if dsync else []),
        *([f"--rwmixread={read_percent}"] if mode in _MIXED else []),
    ]
    printed = shell.run(arguments, timeout=seconds + warmup + _GRACE_SECONDS)
    job = _fio_job(printed)
    names = ("read", "write") if mode in _MIXED else ("write" if "write" in mode else "read",)
    sides = [job[name] for name in names]
    operations = max(1, sum(side["total_ios"] for side in sides))
    busy = (job["usr_cpu"] + job["sys_cpu"]) / 100 * jobs * seconds
    times = sum(side["clat_ns"]["mean"] * side["total_ios"] for side in sides)
    return ReferenceResult(
        iops=sum(side["iops"] for side in sides),
        throughput=sum(side["bw_bytes"] for side in sides),
        mean_ns=times / operations,
        p99_ns=0.0 if mode in _MIXED else sides[0]["clat_ns"]["percentile"]["99.000000"],
        cpu_per_operation=busy / operations,
    )


def _fio_job(printed: str) -> dict[str, Any]:
    """Return the first job in the JSON that fio printed; raise ReplayerError if there is none."""
    if "{" not in printed:
        raise ReplayerError(f"fio printed no result: {one_line(printed[-200:])}")
    job: dict[str, Any] = json.loads(printed[printed.index("{") :])["jobs"][0]
    return job


def ioping(
    path: str,
    *,
    write: bool,
    size: int,
    block_size: int,
    count: int,
    interval: float,
    direct: bool = False,
) -> ReferenceResult:
    """Run ioping on the file `path` for `count` requests, and a first one that does not count.

    `write` overwrites the file (ioping's -WWW). `size` is the part of the file in use and
    `block_size` the size of a request, in bytes. `interval` is in seconds, from one request to the
    next. Returns the results, with `p99_ns` 0.
    """
    arguments: list[str | Path] = [
        _program("ioping"),
        *(["-WWW"] if write else []),
        *(["-D"] if direct else []),
        *("-B", "-c", str(count + 1), "-i", f"{interval}s"),
        *("-s", str(block_size), "-S", str(size)),
        path,
    ]
    printed = shell.run(arguments, timeout=count * (interval + 1) + _GRACE_SECONDS)
    fields = [float(word) for word in printed.split()]
    # requests, their time (ns), iops, bytes/s, min, avg, max, mdev (ns), all requests, all time
    return ReferenceResult(
        iops=fields[2], throughput=fields[3], mean_ns=fields[5], lines=(printed.strip(),)
    )


def sysbench_fileio(
    folder: Path,
    *,
    mode: str,
    files: int,
    size: int,
    block_size: int,
    threads: int,
    seconds: float,
) -> ReferenceResult:
    """Run sysbench fileio with direct I/O and without fsync; return its results.

    `folder` was made by replayer, and is empty or has files of an earlier run. `mode` is sysbench's
    --file-test-mode, such as rndrd. `size` is the size of all files together, in bytes. sysbench
    uses only its own file names, so it makes its own files there.  They are written to the disk
    before sysbench reads or overwrites them; in the mode seqwr it makes them anew.
    """
    common: list[str | Path] = [
        _program("sysbench"),
        "fileio",
        f"--file-num={files}",
        f"--file-total-size={size}",
        f"--file-block-size={block_size}",
        "--file-extra-flags=direct",
        "--file-fsync-freq=0",
        "--file-fsync-end=off",
    ]
    if mode == "seqwr":
        for path in folder.iterdir():
            path.unlink()
        settle(folder)
    elif not _whole(folder, files, size // files):
        shell.run([*common, "prepare"], folder=folder, timeout=600)
        for path in folder.iterdir():
            settle(path)
    run = [f"--file-test-mode={mode}", f"--threads={threads}", f"--time={math.ceil(seconds)}"]
    ours = ["--rand-type=uniform", "--events=0", "run"]
    printed = shell.run([*common, *run, *ours], folder=folder, timeout=seconds + _GRACE_SECONDS)
    return ReferenceResult(
        iops=_number(printed, r"reads/s:\s+([\d.]+)") + _number(printed, r"writes/s:\s+([\d.]+)"),
        throughput=(1 << 20)
        * (
            _number(printed, r"read, MiB/s:\s+([\d.]+)")
            + _number(printed, r"written, MiB/s:\s+([\d.]+)")
        ),
        mean_ns=1e6 * _number(printed, r"avg:\s+([\d.]+)"),
    )


def _whole(folder: Path, files: int, bytes_each: int) -> bool:
    """Return whether sysbench's `files` files are all in `folder`, with at least `bytes_each`."""
    paths = [folder / f"test_file.{number}" for number in range(files)]
    return all(path.exists() and path.stat().st_size >= bytes_each for path in paths)


def clear(folder: Path) -> None:
    """Remove a folder and the files in it, as sysbench leaves them; it has no subfolders."""
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def sysbench_cpu(*, threads: int, seconds: float, max_prime: int) -> float:
    """Run sysbench cpu; return its events per second.

    An event is a search for the primes up to `max_prime`.
    """
    printed = shell.run(
        [_program("sysbench"), "cpu", f"--threads={threads}", f"--time={math.ceil(seconds)}",
         f"--cpu-max-prime={max_prime}", "--events=0", "run"],
        timeout=seconds + _GRACE_SECONDS,
    )  # fmt: skip
    return _number(printed, r"events per second:\s+([\d.]+)")


def sysbench_memory(*, operation: str, block_size: int, threads: int, seconds: float) -> float:
    """Run sysbench memory, sequential, each thread on its own block; return bytes per second.

    `operation` is `read` or `write`, and `block_size` is in bytes.
    """
    printed = shell.run(
        [_program("sysbench"), "memory", f"--threads={threads}", f"--time={math.ceil(seconds)}",
         f"--memory-block-size={block_size}", f"--memory-oper={operation}",
         "--memory-scope=local", "--memory-total-size=1P", "run"],
        timeout=seconds + _GRACE_SECONDS,
    )  # fmt: skip
    return _number(printed, r"\(([\d.]+) MiB/sec\)") * (1 << 20)


def pg_test_fsync(program: Path, folder: Path, *, seconds: int) -> dict[str, float]:
    """Run PostgreSQL's pg_test_fsync; return sync method -> 8 kB writes per second.

    A method is, for example, `fdatasync`. `folder` gets the file that is written, and the output.
    `seconds` is the duration of the test of each method. The tool is stopped after its first table:
    its other tests take four times as long. Raises ReplayerError if it ends before, or takes too
    long.
    """
    output = folder / "printed"
    output.write_bytes(b"")
    words: list[str | Path] = [program, "-s", str(seconds), "-f", folder / "file"]
    with shell.running(words, output=output, patience=_GRACE_SECONDS) as child:
        deadline = time.monotonic() + 10 * seconds + _GRACE_SECONDS
        while _PG_NEXT not in (printed := output.read_text("utf-8", "replace")):
            if child.poll() is not None or time.monotonic() > deadline:
                raise ReplayerError(f"pg_test_fsync failed: {printed[-200:].strip()}")
            time.sleep(0.1)
    first = printed.partition(_PG_NEXT)[0]
    return {name: float(rate) for name, rate in re.findall(r"(\w+)\s+([\d.]+) ops/sec", first)}


def bonnie(folder: Path, *, size: int, chunk: int, files: int) -> dict[str, Any]:
    """Run bonnie++ in a folder; return name of field -> its text, from the CSV line that it prints.

    `size` of the file and `chunk` (the size of a request) are in bytes; `files` is bonnie++'s -n.
    The key `csv` of the result has the whole line. bonnie++ is given 16 MiB as the size of memory,
    so that it accepts a small file and prints all its results. Raises ReplayerError if it fails or
    prints no such line.
    """
    mib = 1 << 20
    arguments: list[str | Path] = [_program("bonnie++"), "-d", folder, "-q", "-f"]
    arguments += ["-s", f"{size // mib}:{chunk}", "-r", "16", "-n", str(files)]
    if os.geteuid() == 0:
        arguments += ["-u", "root"]
    printed = shell.run(arguments, timeout=3600)
    line = next((line for line in printed.splitlines() if line.count(",") > 30), None)
    if line is None:
        raise ReplayerError(f"bonnie++ printed no result: {one_line(printed[-200:])}")
    return {"csv": line, **dict(zip(BONNIE_FIELDS, line.split(","), strict=False))}


_BONNIE_FIELDS = (
    "format_version bonnie_version name concurrency seed file_size file_chunk_size_text "
    "io_chunk_size seeker_count "
    "putc putc_cpu put_block put_block_cpu rewrite rewrite_cpu getc getc_cpu get_block "
    "get_block_cpu seeks seeks_cpu num_files max_size min_size num_dirs file_chunk_size "
    "seq_create seq_create_cpu seq_stat seq_stat_cpu seq_del seq_del_cpu ran_create "
    "ran_create_cpu ran_stat ran_stat_cpu ran_del ran_del_cpu putc_latency put_block_latency "
    "rewrite_latency getc_latency get_block_latency seeks_latency seq_create_latency "
    "seq_stat_latency seq_del_latency ran_create_latency ran_stat_latency "
    "ran_del_latency"
)
BONNIE_FIELDS = tuple(_BONNIE_FIELDS.split())
"""The names of bonnie++ 1.98's CSV fields; the value `+++++` means that a time is too short."""


def _number(text: str, pattern: str) -> float:
    match = re.search(pattern, text)
    if match is None:
        raise ReplayerError(f"the tool's output has no figure like {pattern!r}")
    return float(match[1])
