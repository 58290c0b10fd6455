"""Conversion of a csvlog, as PostgreSQL 18 writes it of pgbench's load, against `pgbadger -j 1`.

Peers are measured in alternation on the same file; the memory of a conversion is that of its whole
process at its largest, for a log and for one that is four times as long.
"""

import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.benchmarks import Row

NAME = "convert"
BYTES = int(os.environ.get("REPLAYER_BENCH_LOG_BYTES", str(1 << 30)))
ROUNDS = int(os.environ.get("REPLAYER_BENCH_ROUNDS", "1"))
"""Of a gigabyte, one: pgBadger takes some five minutes for it."""
MEMORY = 300 << 20
SCRIPT = (
    ("BEGIN;", ""),
    ("UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2;", "da"),
    ("SELECT abalance FROM pgbench_accounts WHERE aid = $1;", "a"),
    ("UPDATE pgbench_tellers SET tbalance = tbalance + $1 WHERE tid = $2;", "dt"),
    ("UPDATE pgbench_branches SET bbalance = bbalance + $1 WHERE bid = $2;", "db"),
    ("INSERT INTO pgbench_history (tid, bid, aid, delta) VALUES ($1, $2, $3, $4);", "tbad"),
    ("END;", ""),
)
BEGIN = datetime(2026, 5, 16, 5, tzinfo=UTC)


def run(workdir: Path, seed: int = 1) -> list[Row]:
    """Return the speed of a conversion for each peer, and its memory for two sizes."""
    log, part = workdir / "server.csv", workdir / "part.csv"
    write(part, BYTES // 4, random.Random(seed))
    memory = [_convert(part, workdir)[1]]
    part.unlink()
    write(log, BYTES, random.Random(seed))
    own, theirs = [], []
    for _ in range(ROUNDS):
        seconds, most = _convert(log, workdir)
        own.append(seconds)
        memory.append(most)
        if shutil.which("pgbadger") is not None:
            theirs.append(_badger(log, workdir))
    if not theirs:
        speed = {**_row(None, ()), "skipped": "pgbadger is not installed: make packages"}
    else:
        ratios = [their / our for our, their in zip(own, theirs, strict=True)]
        speed = _row(statistics.median(ratios), ratios)
    return [speed, _memory(memory)]


def _row(ratio: float | None, samples: Sequence[float]) -> Row:
    return {
        "what": f"convert, speed with a csvlog of {BYTES / (1 << 20):,.0f} MiB",
        "against": "pgbadger -j 1",
        "bar": ">= 1.5",
        "ratio": ratio,
        "samples": list(samples),
    }


def _memory(largest: list[int]) -> Row:
    return {
        "what": "convert, memory at most",
        "against": "300 MiB",
        "bar": "<= 1.0",
        "ratio": max(largest) / MEMORY,
        "samples": [size / MEMORY for size in largest],
    }


def _convert(log: Path, workdir: Path) -> tuple[float, int]:
    """Return the seconds and the largest memory of a conversion."""
    out = workdir / "out.replay"
    return _seconds([sys.executable, "-m", "replayer", "convert", str(log), "--out", str(out)])


def _badger(log: Path, workdir: Path) -> float:
    """Return the seconds that pgBadger took."""
    words = ["--pid-dir", str(workdir), "-q", "-j", "1", "-f", "csv", "-x", "json"]
    return _seconds(["pgbadger", *words, "-o", str(workdir / "out.json"), str(log)])[0]


def _seconds(command: list[str]) -> tuple[float, int]:
    """Return how long a command took, and the largest memory of its process."""
    begin = time.monotonic()
    started = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(started.pid, 0)
    started.returncode = os.waitstatus_to_exitcode(status)
    assert status == 0, command
    return time.monotonic() - begin, usage.ru_maxrss << 10


def write(path: Path, size: int, chance: random.Random) -> int:
    """Write a csvlog of eight sessions of pgbench -M prepared, and half of them -M simple."""
    line = microseconds = written = 0
    with path.open("w") as file:
        while written < size:
            client = chance.randrange(8)
            values = {
                "d": chance.randrange(-5000, 5000),
                "a": chance.randrange(1, 1_000_000),
                "t": chance.randrange(1, 100),
                "b": chance.randrange(1, 10),
            }
            for number, (text, names) in enumerate(SCRIPT):
                line += 1
                microseconds += chance.randrange(20, 200)
                stamp = BEGIN + timedelta(microseconds=microseconds)
                message, detail = _logged(number, text, [values[one] for one in names], client)
                written += file.write(
                    f'{stamp:%Y-%m-%d %H:%M:%S}.{stamp.microsecond // 1000:03} UTC,"postgres",'
                    f'"bench",{1000 + client},"[local]",6a07f9f{client}.{1000 + client:x},{line},'
                    f'"UPDATE",2026-05-16 04:59:00 UTC,{client}/{line},{line},LOG,00000,'
                    f'"duration: {chance.random() * 2:.3f} ms  {message}",{detail},,,,,,,,"b",'
                    f'"client backend",,{7_000_000_000_000_000_000 + number}\n'
                )
    return written


def _logged(number: int, text: str, values: list[int], client: int) -> tuple[str, str]:
    """Return the message and the detail of a statement, bound or not."""
    if client % 2:
        for place, value in enumerate(values, start=1):
            text = text.replace(f"${place}", str(value))
        return f"statement: {text}", ""
    bound = ", ".join(f"${place} = '{value}'" for place, value in enumerate(values, start=1))
    return f"execute P_0_{number}: {text}", f'"Parameters: {bound}"' if values else ""
