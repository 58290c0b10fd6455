"""Causes planted on this machine, which an experiment must name with their size, and no other.

Each case plants one cause among eight factors: its two levels make a real difference to a real
workload, those of the other seven cannot.  The truth is a direct A/B of the cause alone, in runs of
its own.  `--cases` chooses cases by words in their names, `--for` bounds each experiment and each
truth in seconds: what was not settled by then counts as skipped, never as met.  It needs root, and
for "huge pages" as many as `sysctl vm.nr_hugepages=900` reserves.
"""

import math
import os
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from replayer import factors, interpreter, journal
from replayer.analysis.differences import comparison
from replayer.analysis.differences.comparison import Comparison, MetricRow
from replayer.analysis.differences.statistics import units_to_differ
from replayer.errors import ReplayerError
from replayer.experiments.answer import SHOWN, Effect, ExperimentAnswer
from replayer.experiments.variant import RunOptions, applied, measure, parse_variant
from replayer.lazy_import import load
from replayer.machine.host import Host
from replayer.model import Run
from replayer.results import store
from tests.benchmarks import Row
from tests.limited import dissolve

NAME = "causes"
ASKED_FOR = True
WITHIN = 20
"""Percent: a cause planted here does more, and every interval is narrower at the end."""
LEAST_PAIRS, TRUE_PAIRS = 4, 6
NOTHINGS = 20
MOST_RUNS = 60
TRIALS = 5
"""Of 3 percent: one alone may be lucky."""
Interval = tuple[float, float, float]
"""A difference of logarithms, and the ends of its interval of 95 percent."""
_PASSES = "cpu.events.processes_1"
_RATE = "io.iops"
_BLKIO = Path("/sys/fs/cgroup/blkio")
_LIMIT = """\
import random, sys
file, disk, level = sys.argv[1:]
with open(file, "w") as group:
    group.write(f"{disk} {float(level) * random.gauss(1, 0.01):.0f}")
"""
"""Sets the most reads a second of a group on a disk, with a noise of 1 percent from run to run."""

_SESSIONS = """\
[[step]]
step = "sessions"
name = "sessions"
memory = "cached"
num_schemas = 1
num_threads = {threads}
scale = "{scale}"
run_time = "1s"
{more}
"""
_BUILD = """\
[[step]]
step = "build"
layout = "{layout}"
rows = "1572864"
segment_rows = 98304
rebuild = false
once = true

[[step]]
step = "flush"
once = true

"""
# A worker is asked for each block by itself, where one read would be cheaper.
_SMALL_READS = """\
[settings]
io_combine_limit = "8kB"
io_max_combine_limit = "8kB"
shared_buffers = "16MB"

"""
_WALK = '[[step]]\nstep = "walk"\ncold = "{cold}"\n{more}\n'
_SCAN = '[[step]]\nstep = "scan"\ncold = "{cold}"\n'
_READS = """\
[[step]]
step = "probe"
name = "io"
probe = "io"
size = "384M"
direct = false
warm_up = "3s"
duration = "1s"
"""
_STREAMS = """\
[[step]]
step = "probe"
name = "io"
probe = "io"
access = "sequential"
block_size = "4k"
depth = 64
files = 64
size = "384M"
warm_up = "0s"
duration = "1s"
"""
_LIMITED = """\
[[step]]
step = "probe"
name = "io"
probe = "io"
size = "128M"
depth = 8
warm_up = "1s"
duration = "3s"
"""
_SPIN = """\
[[step]]
step = "probe"
name = "cpu"
probe = "cpu"
threads = [1]
cpu_max_prime = 4000
duration = "0.3s"
"""

HARMLESS: Mapping[str, str] = {
    "read_ahead_kb": "8192:4096",
    # Both in a cgroup: one process and a whole group get other shares of a busy processor.
    "cpu_quota": "64:32",
    "thp": "madvise:never",
    "io_method": "worker:sync",
    "checksums": "on:off",
    "shared_buffers": "64MB:80MB",
    "memory_limit": "8GiB:6GiB",
    "nr_requests": "256:128",
}
"""Factor -> two levels between which a workload in memory has nothing to notice."""


@dataclass(frozen=True)
class PlantedCause:
    """A workload, the cause that is planted in it, and the seven factors next to it."""

    name: str
    steps: str
    cause: str
    levels: str
    metric: str
    instead: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Factor -> (factor, levels) that takes its place, where the workload would notice it."""

    def factors(self) -> Iterator[str]:
        """Yield the eight factors as words of --factors."""
        for name, levels in HARMLESS.items():
            if name == self.cause:
                yield f"{name}={self.levels}"
            else:
                own, given = self.instead.get(name, (name, levels))
                yield f"{own}={given}"

    def sides(self) -> tuple[str, str]:
        """Return the two variants of the truth."""
        first, second = self.levels.split(":")
        return f"{self.cause}={first}", f"{self.cause}={second}"


_QUIET_LOG = ("pg.wal_sync_method", "fdatasync:fsync")
_SAME_BUFFERS = ("pg.log_line_prefix", "a:b")
_IN_MEMORY = _SESSIONS.format(threads=2, scale="8M", more='shared_buffers = "64M"')
_FROM_FILES = {"checksums": _QUIET_LOG, "shared_buffers": _SAME_BUFFERS}
_NO_SERVER = {
    "read_ahead_kb": ("wbt_lat_usec", "75000:70000"),
    "thp": ("thp_defrag", "madvise:never"),
    "io_method": ("dirty_background_ratio", "10:8"),
    "checksums": ("dirty_ratio", "20:25"),
    "shared_buffers": ("zone_reclaim_mode", "0:1"),
}

CAUSES = (
    PlantedCause("cpu quota", _IN_MEMORY, "cpu_quota", "64:0.3", "sessions.operations"),
    PlantedCause(
        "shared buffers",
        _SESSIONS.format(threads=2, scale="32M", more=""),
        "shared_buffers",
        "1MB:64MB",
        "sessions.operations",
        {"checksums": _QUIET_LOG},
    ),
    PlantedCause("memory", _READS, "memory_limit", "8GiB:256MiB", "io.iops", _NO_SERVER),
    PlantedCause(
        "read-ahead",
        _BUILD.format(layout="columnstore")
        + _WALK.format(cold="cold", more='threads = 1\nblock_size = "16k"'),
        "read_ahead_kb",
        "4096:16",
        "walk.throughput",
        _FROM_FILES,
    ),
    PlantedCause(
        "scheduler",
        _STREAMS,
        "scheduler",
        "none:bfq",
        "io.iops",
        # A disk forgets its number of requests with its scheduler.
        {**_NO_SERVER, "nr_requests": ("scheduler", "none:bfq")},
    ),
    PlantedCause(
        "io_method",
        _SMALL_READS + _BUILD.format(layout="rowstore") + _SCAN.format(cold="hot"),
        "io_method",
        "worker:sync",
        "scan.elapsed",
        _FROM_FILES,
    ),
    PlantedCause(
        "checksums",
        _SESSIONS.format(threads=2, scale="32M", more='shared_buffers = "1M"'),
        "checksums",
        "off:on",
        "sessions.operations",
        {"shared_buffers": _SAME_BUFFERS},
    ),
    PlantedCause(
        "huge pages",
        # It ends before the buffers are full: what small pages cost is the first touch of each.
        _SESSIONS.format(threads=16, scale="1G", more='shared_buffers = "1280M"'),
        "huge_pages",
        "off:on",
        "sessions.riops",
        {
            **_FROM_FILES,
            "thp": ("huge_pages", "off:on"),
            "io_method": ("wbt_lat_usec", "75000:70000"),
        },
    ),
)


@dataclass(frozen=True)
class CausesPlace:
    """Where the runs go, and how long each experiment may take."""

    folder: Path
    seed: int
    seconds: float | None

    def file(self, steps: str) -> Path:
        """Return a workload file of these steps."""
        path = self.folder / "planted.toml"
        path.write_text(f'description = "a planted cause"\n\n{steps}')
        return path

    def replayer(
        self, *words: object, group: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Return what `replayer` printed; raise RuntimeError with its last line if it failed.

        With a control group, it runs there.
        """
        enter = ("sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(group))
        bound = () if self.seconds is None else ("--for", f"{self.seconds:g}s")
        given = (*words, *bound, "--seed", self.seed, "--without", "all", "--json")
        ended = subprocess.run(
            [
                *(enter if group else ()),
                *interpreter.module("replayer"),
                *map(str, given),
                *("--results", str(self.folder)),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if ended.returncode:
            raise RuntimeError(ended.stderr.strip().rpartition("\n")[2])
        return ended

    def experiment(
        self, steps: str, factors: str, metric: str, within: float = WITHIN
    ) -> ExperimentAnswer:
        """Return what an experiment over these factors shows."""
        words = ("--factors", factors, "--metric", metric, "--within", within, "--yes")
        ended = self.replayer("experiment", self.file(steps), *words)
        return ExperimentAnswer.model_validate_json(ended.stdout)

    def truth(self, steps: str, sides: tuple[str, str], metric: str) -> Interval:
        """Return the difference of two variants, in pairs of runs that follow each other."""
        place = factors.place_at(journal.place() / "data", "")
        variants = [parse_variant(side, place) for side in sides]
        options = RunOptions(self.folder / "truth", ("--without", "all"))
        workload, until = str(self.file(steps)), time.monotonic() + (self.seconds or math.inf)
        gaps: list[float] = []
        while len(gaps) < TRUE_PAIRS and (len(gaps) < LEAST_PAIRS or time.monotonic() < until):
            logs = {}
            for number in (0, 1) if len(gaps) % 2 else (1, 0):
                with applied(variants[number], place):
                    run = measure(workload, variants[number], options)
                logs[number] = math.log(_value(run, metric))
            gaps.append(logs[1] - logs[0])
        mean, error = statistics.fmean(gaps), statistics.stdev(gaps) / math.sqrt(len(gaps))
        reach = float(load("scipy.stats").t.ppf(0.975, len(gaps) - 1)) * error
        return mean, mean - reach, mean + reach


def _value(run: Run, metric: str) -> float:
    values = (one for step in run.steps for one in step.measurements if one.metric == metric)
    found = next(values, None)
    if found is None:
        raise RuntimeError(f"no {metric} in {run.id}")
    return float(found.value)


def show(name: str, interval: Interval) -> str:
    """Return a name and a difference of logarithms with its interval, in percent."""
    value, low, high = (f"{math.expm1(one):+.0%}" for one in interval)
    return f"{name} {value} ({low} to {high})"


def named(answer: ExperimentAnswer) -> dict[tuple[str, ...], Interval]:
    """Return the effects that were shown, with their intervals: differences of logarithms."""
    return {one.factors: interval_of(one) for one in answer.effects if one.verdict == SHOWN}


def interval_of(effect: Effect) -> Interval:
    """Return an effect and its interval as differences of logarithms."""
    share = effect.share
    ends = (share.change, share.low, share.high)
    value, low, high = (math.log1p(-1.0 if end is None else end) for end in ends)
    return value, low, high


def tell(name: str, answer: ExperimentAnswer, began: float, more: str = "") -> None:
    """Print the outcome of an experiment in a line, with the load of the machine."""
    found = "; ".join(show(" x ".join(key), at) for key, at in named(answer).items()) or "none"
    print(
        f"{name}: named {found}{more}; {answer.runs} runs, "
        f"{'settled' if answer.settled else 'not settled'}, {time.monotonic() - began:.0f} s, "
        f"load {os.getloadavg()[0]:.0f}",
        flush=True,
    )


def plant(case: PlantedCause, place: CausesPlace) -> list[Row]:
    """Return what an experiment over eight factors shows of a planted cause, next to the truth."""
    began = time.monotonic()
    try:
        true = place.truth(case.steps, case.sides(), case.metric)
        answer = place.experiment(case.steps, ",".join(case.factors()), case.metric)
    except (ReplayerError, RuntimeError) as error:
        return [_skipped(case.name, str(error))]
    tell(case.name, answer, began, show("; truth", true))
    shown = named(answer)
    mine = shown.pop((case.cause,), None)
    if mine is None and not answer.settled:
        return [_row(f"{case.name}: others named", "<= 0", len(shown)), _skipped(case.name, "open")]
    inside = mine is not None and mine[1] <= true[2] and true[1] <= mine[2]
    return [
        _row(f"{case.name}: named", ">= 1", mine is not None),
        _row(f"{case.name}: its interval meets that of the truth", ">= 1", inside),
        _row(f"{case.name}: others named", "<= 0", len(shown)),
    ]


def plant_two(place: CausesPlace) -> list[Row]:
    """Return whether an interaction is named: sessions help only as far as the quota goes."""
    began = time.monotonic()
    words = "cpu_quota=64:0.3,sessions.num_threads=1:4,io_method=worker:sync"
    answer = place.experiment(_IN_MEMORY, words, "sessions.operations")
    tell("interaction", answer, began)
    shown = set(named(answer))
    return [
        _row("interaction: named", ">= 1", ("cpu_quota", "sessions.num_threads") in shown),
        _row("interaction: io_method in any", "<= 0", sum("io_method" in key for key in shown)),
    ]


def plant_nothing(place: CausesPlace) -> list[Row]:
    """Return how many experiments name any of three factors that do nothing."""
    words = "wbt_lat_usec=75000:70000,nr_requests=256:128,zone_reclaim_mode=0:1"
    false = []
    for number in range(NOTHINGS):
        began = time.monotonic()
        own = replace(place, seed=place.seed + number)
        answer = own.experiment(_SPIN, words, _PASSES, 99)
        tell(f"nothing {number + 1}", answer, began)
        false.append(float(bool(named(answer))))
    return [{**_row("nothing: experiments that name any", "<= 1", sum(false)), "samples": false}]


def plant_three_percent(place: CausesPlace) -> list[Row]:
    """Return the runs until a trial of 3 percent is settled, over those of the power calculation.

    The cause is a limit of the disk's reads: the speed of a shared processor has more noise.
    """
    if not (_BLKIO / "cgroup.procs").exists():
        return [_skipped("3 percent", "no control groups of version 1 for disks")]
    group = _BLKIO / f"replayer-bench-{os.getpid()}"
    group.mkdir()
    try:
        trials = [
            _three_percent(replace(place, seed=place.seed + number), group)
            for number in range(TRIALS)
        ]
    finally:
        dissolve(group)
    runs = statistics.median(len(side) for sides, _ in trials for side in sides[:1])
    noise = math.sqrt(
        statistics.fmean(statistics.variance(side) for sides, _ in trials for side in sides)
    )
    error = noise * math.sqrt(2 / runs)
    needed = units_to_differ(math.log(1.03), error, round(runs), round(runs), family=1)
    print(f"3 percent: noise {noise:.1%}, {needed} runs by the power calculation", flush=True)
    if needed is None or not all(row.verdict in comparison.SHOWN for _, row in trials):
        return [_skipped("3 percent", f"noise {noise:.1%}")]
    wrong = sum((row.ratio or 0.0) > 1 for _, row in trials)
    return [
        _row("3 percent: trials with the wrong side faster", "<= 0", wrong),
        _row("3 percent: runs until it is settled, median", "<= 1.5", runs / needed),
    ]


def _three_percent(place: CausesPlace, group: Path) -> tuple[list[list[float]], MetricRow]:
    """Return the logarithms of both sides' values, and what a trial says of them."""
    began = time.monotonic()
    words = (
        *(sys.executable, "-c", _LIMIT, group / "blkio.throttle.read_iops_device"),
        Path(f"/sys/class/block/{Host().device_of(place.folder)}/dev").read_text().strip(),
    )
    ended = place.replayer(
        *("ab", place.file(_LIMITED), "--a", "3090", "--b", "3000", "--runs", MOST_RUNS),
        *("--switch", f"{shlex.join(map(str, words))} {{}}"),
        group=group,
    )
    compared = Comparison.model_validate_json(ended.stdout)
    row = next(one for one in compared.rows if one.metric == _RATE)
    logs = [_logs(one.runs, place.folder) for one in (compared.base, compared.other)]
    print(
        f"3 percent: {row.verdict}, {row.ratio or 0:.3f}, {len(logs[0])} runs of each, "
        f"{time.monotonic() - began:.0f} s, load {os.getloadavg()[0]:.0f}",
        flush=True,
    )
    return logs, row


def _logs(runs: tuple[str, ...], folder: Path) -> list[float]:
    return [math.log(_value(store.load(store.find(run, folder)), _RATE)) for run in runs]


def _row(what: str, bar: str, ratio: float) -> Row:
    return {"what": what, "against": "planted", "bar": bar, "ratio": ratio, "samples": [ratio]}


def _skipped(what: str, reason: str) -> Row:
    return {**_row(what, ">= 1", 0), "ratio": None, "skipped": f"not settled ({reason})"}


def run(workdir: Path, seed: int, cases: str, seconds: float | None) -> list[Row]:
    """Return the rows of the cases that have these words in their names."""
    place = CausesPlace(workdir, seed % (1 << 31), seconds)
    chosen = [case for case in CAUSES if cases in case.name]
    rows = [row for case in chosen for row in plant(case, place)]
    parts = {"interaction": plant_two, "nothing": plant_nothing, "3 percent": plant_three_percent}
    return [*rows, *(row for name, part in parts.items() if cases in name for row in part(place))]
