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
from datetime import UTC, datetime, timedelta

NAME = "convert"
BYTES = int(os.environ.get("REPLAYER_BENCH_LOG_BYTES", str(1 << 30)))
ROUNDS = 3
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


def run(workdir, seed=1):
    """Return the speed of a conversion for each peer, and its memory for two sizes."""
    log = workdir / "server.csv"
    written = write(log, BYTES, random.Random(seed))
    rows = [_memory(workdir, log, written, seed)]
    if shutil.which("pgbadger") is None:
        return [{**_row(None, ()), "skipped": "pgbadger is not installed: make packages"}, *rows]
    own, theirs = [], []
    for _ in range(ROUNDS):
        own.append(_seconds(_convert(log, workdir / "out.replay"))[0])
        theirs.append(
            _seconds(["pgbadger", "-q", "-j", "1", "-f", "csv", "-x", "json",
                      "-o", str(workdir / "out.json"), str(log)])[0]
        )  # fmt: skip
    ratios = [their / our for our, their in zip(own, theirs, strict=True)]
    return [_row(statistics.median(ratios), ratios), *rows]


def _row(ratio, samples):
    return {
        "what": f"convert, speed with a csvlog of {BYTES / (1 << 20):,.0f} MiB",
        "against": "pgbadger -j 1",
        "bar": ">= 1.5",
        "ratio": ratio,
        "samples": list(samples),
    }


def _memory(workdir, log, written, seed):
    """Return the largest memory of a conversion, of this log and of one four times as long."""
    largest = []
    for times in (0.25, 1):
        part = workdir / "part.csv"
        write(part, int(written * times), random.Random(seed))
        largest.append(_seconds(_convert(part, workdir / "out.replay"))[1])
        part.unlink()
    return {
        "what": "convert, memory at most",
        "against": "300 MiB",
        "bar": "<= 1.0",
        "ratio": max(largest) / MEMORY,
        "samples": [size / MEMORY for size in largest],
    }


def _convert(log, out):
    return [sys.executable, "-m", "replayer", "convert", str(log), "--out", str(out)]


def _seconds(command):
    """Return how long a command took, and the largest memory of its process."""
    begin = time.monotonic()
    started = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(started.pid, 0)
    started.returncode = os.waitstatus_to_exitcode(status)
    assert status == 0, command
    return time.monotonic() - begin, usage.ru_maxrss << 10


def write(path, size, chance):
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


def _logged(number, text, values, client):
    """Return the message and the detail of a statement, bound or not."""
    if client % 2:
        for place, value in enumerate(values, start=1):
            text = text.replace(f"${place}", str(value))
        return f"statement: {text}", ""
    bound = ", ".join(f"${place} = '{value}'" for place, value in enumerate(values, start=1))
    return f"execute P_0_{number}: {text}", f'"Parameters: {bound}"' if values else ""
