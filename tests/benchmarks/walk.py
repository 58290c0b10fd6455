"""The cold walk against fio: psync reads of the same files, block size and number of threads.

fio reports each thread's CPU time in whole milliseconds, rounded down, which loses up to 0.1 s of
50 threads; so its CPU seconds are those of the whole process less those of a run of the same job
file that stops after one read of each thread.
"""

import json
import os
import random
import resource
import shutil
import statistics
import subprocess
from pathlib import Path

from replayer.conditions import temperature
from replayer.machine.host import Host
from replayer.steps.walk import step as walk
from replayer.steps.walk.spec import Spec
from replayer.watch.sampler import Sampler
from tests.benchmarks import Row
from tests.known import known
from tests.performed import context_of, performed

NAME = "walk"
FILES = 1_500
TOTAL_BYTES = 1 << 30
SAMPLES = 5
GRAIN = 128 << 10
"""File sizes are multiples of it, as fio leaves out a last block that is not whole."""


Found = dict[str, tuple[list[float], list[float]]]


def tree(folder: Path) -> None:
    """Make files of random bytes, of about 0.25 to 1.1 MB."""
    folder.mkdir()
    draw = random.Random(1)
    shares = [draw.uniform(0.35, 1.65) for _ in range(FILES)]
    for number, share in enumerate(shares):
        blocks = max(1, round(share * TOTAL_BYTES / sum(shares) / GRAIN))
        (folder / f"segment-{number:05d}").write_bytes(os.urandom(blocks * GRAIN))
    os.sync()


def ours(folder: Path, spec: Spec, workdir: Path) -> tuple[float, float, float]:
    """Walk once; return MB/s, CPU seconds and bytes."""
    host = Host()
    with Sampler(host, host.device_of(folder)) as sampler:
        here = context_of(None, host, sampler, workdir)
        outcome = performed(walk, spec, here)
    cold = known(outcome.cold)
    assert cold.got == cold.asked, cold.why
    found = {m.metric: m.value for m in outcome.measurements}
    cpu = found["walk.read.user"] + found["walk.read.system"]
    return found["walk.throughput"] / 1e6, cpu, found["walk.bytes"]


def job_file(folder: Path, spec: Spec, path: Path, *more: str) -> None:
    """Write a job file whose threads share the files as evenly as can be."""
    files = [entry.path for entry in os.scandir(folder)]
    lines = ["[global]", "ioengine=psync", "rw=read", "thread", "invalidate=0", *more]
    lines += [f"bs={spec.block_size}", "file_service_type=sequential"]
    for number in range(spec.threads):
        lines += [f"[thread{number}]", f"filename={':'.join(files[number :: spec.threads])}"]
    path.write_text("\n".join(lines) + "\n")


def fio(folder: Path, spec: Spec, workdir: Path, *more: str) -> tuple[float, float, float]:
    """Run fio once from cold; return MB/s, CPU seconds of the process and bytes."""
    path = workdir / "walk.fio"
    job_file(folder, spec, path, *more)
    temperature.drop([entry.path for entry in os.scandir(folder)], Host())
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = subprocess.run(
        ["fio", "--output-format=json", path], capture_output=True, text=True, check=True
    ).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    jobs = [job["read"] for job in json.loads(said)["jobs"]]
    read = sum(job["io_bytes"] for job in jobs)
    seconds = max(1, *(job["runtime"] for job in jobs)) / 1e3
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return read / seconds / 1e6, cpu, read


def samples(folder: Path, spec: Spec, workdir: Path) -> Found:
    """Return MB/s and CPU seconds of both, measured in turn."""
    found: Found = {"ours": ([], []), "fio": ([], [])}
    for _ in range(SAMPLES):
        speed, cpu, read = ours(folder, spec, workdir)
        peer_speed, peer_cpu, peer_read = fio(folder, spec, workdir)
        assert read == peer_read
        found["ours"][0].append(speed)
        found["ours"][1].append(cpu)
        found["fio"][0].append(peer_speed)
        found["fio"][1].append(peer_cpu - fio(folder, spec, workdir, "number_ios=1")[1])
    return found


def run(workdir: Path) -> list[Row]:
    """Return the rows of the table: shares of fio's MB/s and of its CPU seconds."""
    what = f"cold walk, {FILES:,} files, read mode, 50 threads"
    against = "fio psync, same files, block size, threads"
    rows: list[Row] = [
        {"what": f"{what}: MB/s", "against": against, "bar": ">= 0.95", "unit": "MB/s"},
        {"what": f"{what}: CPU seconds", "against": against, "bar": "<= 1.2", "unit": "s"},
    ]
    if shutil.which("fio") is None:
        return [
            {**row, "ratio": None, "samples": {}, "skipped": "fio is not there"} for row in rows
        ]
    folder = workdir / "files"
    tree(folder)
    found = samples(
        folder, Spec.model_validate({"step": "walk", "name": "walk", "path": folder}), workdir
    )
    shutil.rmtree(folder)
    for which, row in enumerate(rows):
        medians = {who: statistics.median(values[which]) for who, values in found.items()}
        row["ratio"] = medians["ours"] / medians["fio"]
        row["samples"] = {who: values[which] for who, values in found.items()}
    return rows
