"""What a start costs: seconds of processor time of commands that measure nothing, and of a replay.

The replay is of 24 statements that take no time, on a server of replayer's own, which is started
and stopped: all that replayer adds to what it measures.
"""

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from replayer.results import store
from tests.benchmarks import Row
from tests.captured import Capture

NAME = "start"
SAMPLES = 5
FIXTURE = Path(__file__).parents[1] / "fixtures" / "runs" / f"format-{store.FORMAT}.json"
BARS = {
    "--version": 0.5,
    "--help": 0.5,
    "help": 0.5,
    "list": 0.5,
    "list workloads": 0.5,
    "list engines": 0.5,
    "list steps": 0.5,
    "list runs": 0.5,
    "runs list": 0.5,
    "show latest": 0.5,
    "compare stock uek": 1.0,
    "run smoke --dry-run": 1.0,
    "check": 1.5,
}

REPLAY_BAR = 2.0


def run(workdir: Path) -> list[Row]:
    """Return a row for each command, with its seconds as the ratio."""
    _results(workdir)
    rows = [_row(workdir, words, bar) for words, bar in BARS.items()]
    return [*rows, _row(workdir, _replay(workdir), REPLAY_BAR)]


def _replay(folder: Path) -> str:
    """Return the words that replay 24 statements; the first replay makes the server's data."""
    capture = Capture()
    for session in range(4):
        capture.session(session)
        for number in range(6):
            capture.runs(session, 0.01 * number, f"SELECT {number} + {session}")
    capture.write(folder / "few.replay")
    return "run few.replay --without all --data-dir data --quiet"


def _row(workdir: Path, words: str, bar: float) -> Row:
    samples = [_sample(workdir, words) for _ in range(SAMPLES + 1)][1:]  # the first one compiles
    return {
        "what": f"replayer {words}: processor time",
        "against": "1 s",
        "bar": f"<= {bar}",
        "ratio": statistics.median(samples),
        "samples": samples,
    }


def _sample(workdir: Path, words: str) -> float:
    """Return the processor time of a command and of its children, in seconds."""
    process = subprocess.Popen(
        [sys.executable, "-m", "replayer", *words.split()],
        cwd=workdir,
        env={**os.environ, "REPLAYER_RESULTS": str(workdir)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, words
    return used.ru_utime + used.ru_stime


def _results(folder: Path) -> None:
    """Store a run of each of two labels."""
    stored = json.loads(FIXTURE.read_text())
    del stored["sizing"]
    for number, label in enumerate(("stock", "uek")):
        began = f"2026-11-20T15:45:0{number}+00:00"
        stored |= {"id": f"20261120-15450{number}-demo-{label}-3f2a", "label": label}
        stored |= {"started": began}
        (folder / f"{stored['id']}.json").write_text(json.dumps(stored, indent=1))
