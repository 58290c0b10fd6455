"""Verdicts of `replayer size` against what pgbench reaches in the same limit.

A target is this machine in cgroups of version 1: a share of its processors, of its disk, of its
memory.  The truth is the highest rate that pgbench itself has in them.  A source is a server on
which pgbench keeps the rate that the stronger target holds, and its profile is watched there; it
grows so much that the target is STRENGTHS times as strong as what is required.  A source has no
limits, but where the target's processors are limited: there its own are busy, as `size` advises,
since a statement costs up to a third more CPU at an idle server, and no profile shows that.
`inside` has replayer and the server that it starts in the limit, and pgbench as well; by `url` only
the server is in it.

At least 19 of 20 verdicts are to be right, none may say "fits" falsely, and the multiple is to lie
within 0.8 and 1.25 of the truth in 15 of 20.  `--cases` chooses: `--cases 'cores 0.3,insert'` has
every case with one of these in its name.
"""

import contextlib
import itertools
import os
import re
import statistics
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replayer import shell
from replayer.engines import engine
from replayer.machine.host import Host
from replayer.servers.open import Server, open_server
from tests.benchmarks import Row, programs
from tests.command import Replayer
from tests.sizing_runs import Sized, size

NAME = "truth"
ASKED_FOR = True
"""It wants the machine for itself for half an hour."""
STRENGTHS = (0.7, 1.4)
BUSY = 0.9
"""The share of its processors' time that a source uses where those of its target are limited."""
RIGHT, NEAR, FALSE_FITS = ">= 0.95", ">= 0.75", "<= 0"
CLOSE = (0.8, 1.25)
OBJECTIVE = "p99=700ms"
"""A quota of a third stops all for 67 ms at a time; the truth has no objective at all."""
CLIENTS = 16
WORDS = ("--trial", "2s", "--hold", "2s", "--window", "10s", "--slo", OBJECTIVE,
         "--sessions", str(CLIENTS))  # fmt: skip
WATCHED = 16
"""Seconds of a profile."""
PGBENCH = (2, 5, 5)
"""Seconds of each run in the limit; the first warms up."""
GROUPS = Path("/sys/fs/cgroup")
PERIOD = 100_000
MIB = 1 << 20
INSERT = """\
\\set k random(1, 1000000000)
INSERT INTO grown (k, filler) VALUES (:k, repeat('0123456789abcdef', 64));
"""
REPORT = """\
\\set aid random(1, 390000)
SELECT sum(abalance), max(bid) FROM pgbench_accounts WHERE aid BETWEEN :aid AND :aid + 5000;
"""


@dataclass(frozen=True)
class Work:
    """What pgbench does at the source."""

    words: tuple[str, ...]
    scale: int = 4
    buffers: str = "256MB"
    script: str = ""


WORKS = {
    # A lookup by key costs less CPU the more of them there are: 99 us at 800/s, 13 us at the most.
    "select": Work(("-S",)),
    "report": Work((), script=REPORT),
    # As many branches as clients at least: else they wait for each other's rows, and no load does.
    "tpcb": Work(("-b", "tpcb-like"), scale=2 * CLIENTS),
    "update": Work(("-N",)),
    "insert": Work((), script=INSERT),
    "large": Work(("-S",), scale=20, buffers="32MB"),
}


@dataclass(frozen=True)
class Target:
    """A limit, and what is done in it."""

    work: str
    inside: bool
    limits: Mapping[str, float]
    """`cores`, `memory` in bytes, and limits of the disk as the kernel calls them."""

    @property
    def name(self) -> str:
        """Return what it is called."""
        parts = [f"{key} {value / MIB:g}M" if key in {"memory", "read_bps", "write_bps"}
                 else f"{key} {value:g}" for key, value in self.limits.items()]  # fmt: skip
        return " ".join([*parts, self.work, "inside" if self.inside else "url"])


TARGETS = (
    Target("select", True, {"cores": 0.3}),
    Target("report", False, {"cores": 0.3}),
    Target("report", True, {"cores": 0.8}),
    Target("tpcb", False, {"cores": 0.8}),
    Target("update", True, {"write_iops": 250}),
    Target("update", False, {"write_iops": 250}),
    Target("insert", False, {"write_bps": 2 * MIB}),
    Target("large", True, {"memory": 400 * MIB, "read_iops": 500}),
    Target("large", False, {"memory": 150 * MIB, "read_iops": 500}),
    Target("large", False, {"memory": 150 * MIB, "read_bps": 4 * MIB}),
)


@dataclass(frozen=True)
class Cage:
    """Cgroups of version 1 that limit whatever is in them."""

    groups: tuple[Path, ...]

    @property
    def enter(self) -> tuple[str, ...]:
        """Return the words before a command that have it run inside."""
        moves = "; ".join(f"echo $$ > {group}/cgroup.procs" for group in self.groups)
        return ("sh", "-c", f'{moves}; exec "$@"', "sh")

    def take(self, server: Server) -> None:
        """Move a server's processes; those that it starts later are inside as well."""
        for group, pid in itertools.product(self.groups, server.pids()):
            with contextlib.suppress(ProcessLookupError):
                (group / "cgroup.procs").write_text(str(pid))


@contextlib.contextmanager
def caged(folder: Path, limits: Mapping[str, float]) -> Iterator[Cage]:
    """Yield a cage; `folder` lies on the disk that is limited.

    Raises OSError where there can be none.
    """
    name = f"replayer-truth-{os.getpid()}-{time.monotonic_ns():x}"
    device = Host().device_of(folder)
    number = Path(f"/sys/class/block/{device}/dev").read_text().strip()
    made: list[Path] = []
    try:
        for key, value in limits.items():
            kind = {"cores": "cpu", "memory": "memory"}.get(key, "blkio")
            group = GROUPS / kind / name
            if group not in made:
                group.mkdir()
                made.append(group)
            for file, text in _written(key, value, number):
                (group / file).write_text(text)
        yield Cage(tuple(made))
    finally:
        for group in made:
            _dissolve(group)


def _written(key: str, value: float, number: str) -> Iterator[tuple[str, str]]:
    if key == "cores":
        yield "cpu.cfs_period_us", str(PERIOD)
        yield "cpu.cfs_quota_us", str(round(value * PERIOD))
    elif key == "memory":
        yield "memory.limit_in_bytes", str(round(value))
    else:
        yield f"blkio.throttle.{key}_device", f"{number} {round(value)}"


def _dissolve(group: Path) -> None:
    deadline = time.monotonic() + 60
    while group.is_dir():
        with contextlib.suppress(OSError):
            for pid in (group / "cgroup.procs").read_text().split():
                with contextlib.suppress(OSError):
                    (group.parent / "cgroup.procs").write_text(pid)
            group.rmdir()
        if time.monotonic() > deadline:
            raise RuntimeError(f"{group} could not be removed")
        time.sleep(0.05)


@dataclass
class Bench:
    """The servers, profiles and truths that cases share; both by the name of a target."""

    folder: Path
    profiles: dict[str, Path] = field(default_factory=dict)
    truths: dict[str, float] = field(default_factory=dict)

    @contextlib.contextmanager
    def source(self, name: str) -> Iterator[Server]:
        """Have the server of a work run, with pgbench's tables in it."""
        work, folder = WORKS[name], self.folder / f"source-{name}"
        fresh = not folder.exists()
        with (
            open_server(engine.load("postgres"), data_dir=folder) as server,
            server.settings({"shared_buffers": work.buffers}),
        ):
            if fresh:
                _pgbench(server, "-i", "-q", "-s", str(work.scale))
                _psql(server, "CREATE TABLE grown (k bigint, filler text)")
                _psql(server, "CHECKPOINT")
            yield server

    def rate(self, target: Target) -> float:
        """Return the transactions a second at the source of a target."""
        return self.truth(target) / max(STRENGTHS)

    def profile(self, target: Target) -> Path:
        """Return the profile of the source of a target, watched once."""
        if target.name not in self.profiles:
            path = self.folder / f"{target.name}.profile"
            with self.source(target.work) as server, caged(self.folder, _busy(target)) as cage:
                cage.take(server)
                rate = ("-R", f"{self.rate(target):.1f}", "-T", str(WATCHED + 4))
                with _background(server, *self._words(target.work), *rate):
                    time.sleep(2)
                    url = server.start().render_as_string(hide_password=False)
                    words = ("profile", url, "--for", f"{WATCHED}s", "--out", path)
                    Replayer(self.folder).process(*words)
            self.profiles[target.name] = path
        return self.profiles[target.name]

    def truth(self, target: Target) -> float:
        """Return the transactions a second that pgbench has in a limit at the most."""
        if target.name not in self.truths:
            with self.source(target.work) as server, caged(self.folder, target.limits) as cage:
                self._forget_cache(target)
                cage.take(server)
                if "memory" in target.limits:
                    # As much as it may hold, by itself.
                    _psql(server, "SELECT count(*) FROM pgbench_accounts")
                enter = cage.enter if target.inside else ()
                words = self._words(target.work)
                rates = [_tps(_pgbench(server, *words, "-T", str(seconds), enter=enter))
                         for seconds in PGBENCH]  # fmt: skip
            self.truths[target.name] = statistics.mean(rates[1:])
        return self.truths[target.name]

    def sized(self, target: Target, growth: float) -> dict[str, Any]:
        """Return the verdict on a target that is to do so many times what the source does."""
        made = self.profile(target)
        words = [*WORDS, "--growth", f"{growth:.5f}"]
        if target.work in {"large", "insert"}:
            # The default size takes minutes to load under a limit of writes.
            words += ["--working-set", f"{WORKS[target.work].scale * 15}M"]
        with caged(self.folder, target.limits) as cage:
            self._forget_cache(target)
            if target.inside:
                return _told(size(made, self.folder, *words, cage=cage.enter, data="inside"))
            with self.source(target.work) as server:
                cage.take(server)
                url = server.start().render_as_string(hide_password=False)
                return _told(size(made, self.folder, *words, "--engine", url, data=None))

    def _words(self, name: str) -> tuple[str, ...]:
        work = WORKS[name]
        if not work.script:
            return work.words
        path = self.folder / f"{name}.sql"
        path.write_text(work.script)
        return ("-f", str(path))

    @staticmethod
    def _forget_cache(target: Target) -> None:
        """Have nobody's pages in memory that a limit of it does not count."""
        if "memory" in target.limits:
            subprocess.run(["sync"], check=True)
            Path("/proc/sys/vm/drop_caches").write_text("3")


def _busy(target: Target) -> Mapping[str, float]:
    """Return the limits of a target's source: processors, if those of the target are limited."""
    cores = target.limits.get("cores")
    return {"cores": cores / max(STRENGTHS) / BUSY} if cores else {}


def _told(sized: Sized) -> dict[str, Any]:
    """Return a verdict; one that could not be had is none, with what was said."""
    none = {"fit": "no verdict", "multiple": None, "first": "", "reasons": sized.said.split("\n")}
    return none | sized.verdict


def _where(server: Server) -> list[str]:
    url = server.start()
    host, port = str(url.query["host"]), str(url.query.get("port", 5432))
    return ["-h", host, "-p", port, "-U", str(url.username), str(url.database)]


def _psql(server: Server, statement: str) -> None:
    shell.run([programs(server) / "psql", "-q", *_where(server), "-c", statement])


def _command(server: Server, words: Sequence[str]) -> list[str]:
    pgbench = shell.find("pgbench", programs(server))
    assert pgbench is not None, "pgbench is not installed"
    load = [] if "-i" in words else ["-n", "-M", "prepared", "-c", str(CLIENTS), "-j", "2"]
    return [str(pgbench), *load, *words, *_where(server)]


def _pgbench(server: Server, *words: str, enter: Sequence[str] = ()) -> str:
    done = subprocess.run(
        [*enter, *_command(server, words)], check=True, capture_output=True, text=True
    )
    return done.stdout


@contextlib.contextmanager
def _background(server: Server, *words: str) -> Iterator[None]:
    with subprocess.Popen(
        _command(server, words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as running:
        try:
            yield
        finally:
            running.terminate()


def _tps(printed: str) -> float:
    match = re.search(r"^tps = ([\d.]+)", printed, re.MULTILINE)
    assert match is not None, printed
    return float(match[1])


@dataclass(frozen=True)
class Judged:
    """What one case came to."""

    name: str
    truth: float
    """How many times what is required pgbench had."""
    verdict: Mapping[str, Any]
    seconds: float

    @property
    def right(self) -> bool:
        """Tell whether the verdict is the one that pgbench shows."""
        return bool(self.verdict["fit"] == ("fits" if self.truth >= 1 else "does not fit"))

    @property
    def false_fit(self) -> bool:
        """Tell whether it says of a machine that is too small that it fits."""
        return self.verdict["fit"] == "fits" and self.truth < 1

    @property
    def ratio(self) -> float | None:
        """Return the multiple over the truth."""
        multiple = self.verdict["multiple"]
        return None if multiple is None else multiple / self.truth

    @property
    def near(self) -> bool:
        """Tell whether the multiple is the truth's, about."""
        return self.ratio is not None and CLOSE[0] <= self.ratio <= CLOSE[1]

    def row(self) -> Row:
        """Return the case as a row of the table."""
        verdict = self.verdict
        words = f"pgbench {self.truth:.2f}: {verdict['fit']}"
        if verdict["multiple"] is not None:
            words += f", {verdict['multiple']:.2f}"
        return {
            "what": self.name,
            "against": f"{words}, {verdict['first'] or 'nothing named'} "
                       f"({'right' if self.right else 'WRONG'}, {self.seconds:.0f} s)",
            "bar": "", "ratio": self.ratio, "samples": dict(verdict),
        }  # fmt: skip


def every_case(chosen: str = "") -> list[tuple[str, Target, float]]:
    """Return name, target and strength of the cases in whose name one of `chosen` stands."""
    every = [(f"{target.name} x{strength:g}", target, strength)
             for target, strength in itertools.product(TARGETS, STRENGTHS)]  # fmt: skip
    wanted = chosen.split(",")
    return [case for case in every if any(words.strip() in case[0] for words in wanted)]


def run(workdir: Path, cases: str = "") -> Iterator[Row]:
    """Size every target that is chosen, and hold the verdicts against pgbench."""
    workdir.chmod(0o755)
    bench = Bench(workdir)
    judged: list[Judged] = []
    for name, target, strength in every_case(cases):
        begun = time.monotonic()
        required = bench.truth(target) / strength
        verdict = bench.sized(target, required / bench.rate(target))
        judged.append(Judged(name, strength, verdict, time.monotonic() - begun))
        row = judged[-1].row()
        ratio = "" if row["ratio"] is None else f", {row['ratio']:.2f} of the truth"
        print(f"  {name}: {row['against']}{ratio}", flush=True)
        print(f"    {' | '.join(verdict['reasons'])}", flush=True)
        yield row
    yield from _sums(judged)


def _sums(judged: Sequence[Judged]) -> Iterator[Row]:
    for what, bar, met in (
        (f"right verdicts of {len(judged)}", RIGHT, [one.right for one in judged]),
        ("false fits", FALSE_FITS, [one.false_fit for one in judged]),
        (f"multiples within {CLOSE[0]:g} and {CLOSE[1]:g}", NEAR, [one.near for one in judged]),
    ):
        yield {
            "what": what, "against": "pgbench's highest rate in the same limit", "bar": bar,
            "ratio": sum(met) / max(1, len(met)), "samples": met,
        }  # fmt: skip
