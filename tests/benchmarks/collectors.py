"""What the collectors that do something beside a step cost it: the same sessions with and without.

Twenty pairs of some seconds each, in one run of sessions: watched and unwatched in turn, where who
is first changes from pair to pair.  Neither the start of the collectors' programs nor their end is
in what is counted, as neither is in a step's window.

The bar: all that watch by default, together, at most 1 % of the RIOPS, physical and cached, and
at most 1 % of one processor for themselves.
"""

import dataclasses
import statistics
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from replayer.engines import engine
from replayer.machine.host import Host
from replayer.model import Series
from replayer.run import step_collectors
from replayer.run.step_recorder import StepRecorder
from replayer.servers.open import Server, open_server
from replayer.steps.sessions import step as sessions
from replayer.watch import active_collectors
from replayer.watch.sampler import Sampler
from tests.benchmarks import Pairs, Row
from tests.benchmarks.sessions import TABLES, spec_of
from tests.known import known
from tests.performed import context_of

NAME = "collectors"
PAIRS = 20
SECONDS = 2.5
"""Of each half of a pair."""
BEGIN_SECONDS = 1.5
"""In which perf and bpftrace come up."""
END_SECONDS = 0.5
STEP_SECONDS = 0.25
"""Of the series that the RIOPS are taken from."""
EDGE_SECONDS = 0.25
"""Of each half on either side, that are not counted: what a slice did is spread over its time."""
MARGIN_SECONDS = 1.5
"""For the start and the end of the collectors' programs; where it is too little, pairs are lost."""
KINDS = ("cached", "direct")
BAR = ">= 0.99"


def run(workdir: Path) -> list[Row]:
    """Return all rows; one server and one set of tables for all of them."""
    with open_server(engine.load("postgres"), data_dir=workdir / "data") as server:
        return [row for kind in KINDS for row in _compared(server, kind, by_default())]


def by_default() -> tuple[str, ...]:
    """Return all active collectors that watch when nobody says otherwise."""
    return tuple(name for name in active_collectors.active() if active_collectors.is_default(name))


@dataclass
class _Turns:
    """Has collectors watch in parts of a run of sessions, once its window has begun."""

    server: Server
    names: tuple[str, ...]
    parts: list[tuple[bool, int, int]] = field(default_factory=list)
    """Whether it was watched, and from when to when."""
    costs: dict[str, list[float]] = field(default_factory=dict)
    """Collector -> the processors that it used itself, of each part."""
    failures: dict[str, str] = field(default_factory=dict)
    _thread: threading.Thread | None = None

    def prepare(self) -> None:
        """Do nothing: nobody watches the edges themselves."""

    def mark(self, clock_ns: int) -> None:
        """Begin at the first edge of the window."""
        del clock_ns
        if self._thread is None:
            self._thread = threading.Thread(target=self._take)
            self._thread.start()

    def end(self) -> None:
        """Wait for the last pair."""
        known(self._thread).join()

    def _take(self) -> None:
        """Do all pairs: watched and unwatched, unwatched and watched, and so on."""
        time.sleep(BEGIN_SECONDS)
        self._watched(1)
        for done in range(2, PAIRS + 1, 2):
            self._counted(2, watched=False)
            # Of this pair and the next: collectors are begun only once for both.
            self._watched(2 if done < PAIRS else 1)

    def _watched(self, halves: int) -> None:
        host = Host()
        device = host.device_of(known(self.server.data_directory()))
        began = time.monotonic()
        with step_collectors.recordings(self.names, host, device, self.server) as recorded:
            recorded.prepare()
            recorded.mark(time.monotonic_ns())
            time.sleep(BEGIN_SECONDS)
            self._counted(halves, watched=True)
            recorded.mark(time.monotonic_ns())
            recorded.end()
        lasted = time.monotonic() - began
        time.sleep(END_SECONDS)
        self.failures |= recorded.failures
        for name, seconds in recorded.costs.items():
            self.costs.setdefault(name, []).append(seconds / lasted)

    def _counted(self, halves: int, *, watched: bool) -> None:
        for _ in range(halves):
            begin_ns = time.monotonic_ns()
            time.sleep(SECONDS)
            self.parts.append((watched, begin_ns, time.monotonic_ns()))


def _compared(server: Server, kind: str, names: tuple[str, ...]) -> list[Row]:
    """Return the ratio of RIOPS with collectors to those without, and what they used themselves."""
    turns = _Turns(server, names)
    series, begin_ns = _sessions(server, kind, turns)
    halves = [
        (watched, _riops(series, (begin - begin_ns) / 1e9, (end - begin_ns) / 1e9))
        for watched, begin, end in turns.parts
        if (end - begin_ns) / 1e9 < series.seconds[-1]
    ]
    both = [dict(pair) for pair in zip(halves[::2], halves[1::2], strict=False)]
    pairs: Pairs = [(pair[True], pair[False]) for pair in both]
    ratios = [watched / plain for watched, plain in pairs]
    row: Row = {
        "what": f"RIOPS watched by {', '.join(names)}; {kind}, {len(pairs)} pairs",
        "against": "the same sessions, unwatched",
        "bar": BAR,
        "ratio": statistics.median(ratios),
        "samples": pairs,
        "error": statistics.stdev(ratios) / len(ratios) ** 0.5,
        "failures": turns.failures,
    }
    cores = {name: statistics.median(shares) for name, shares in turns.costs.items()}
    used: Row = {
        "what": f"processor time of {', '.join(names)}; {kind}",
        "against": "one processor",
        "bar": "<= 0.01",
        "ratio": sum(cores.values()),
        "samples": cores,
    }
    if len(turns.failures) == len(names):
        row["skipped"] = "; ".join(f"{name}: {why}" for name, why in turns.failures.items())
    return [row, used]


def _sessions(server: Server, kind: str, turns: _Turns) -> tuple[Series, int]:
    """Run sessions while there are turns; return their series, and when it begins in ns."""
    host = Host()
    device = host.device_of(known(server.data_directory()))
    begun = (PAIRS // 2 + 1) * (BEGIN_SECONDS + END_SECONDS + MARGIN_SECONDS)
    seconds = BEGIN_SECONDS + begun + 2 * PAIRS * SECONDS
    keys = {**TABLES, "num_threads": 1, "memory": kind, "run_time": f"{seconds}s"}
    with Sampler(host, device, interval=STEP_SECONDS, watcher=turns) as sampler:
        context = dataclasses.replace(context_of(server, host, sampler), findings=StepRecorder())
        sessions.run(spec_of(**keys), context)
        turns.end()
    findings = context.findings
    return known(findings.series), known(findings.window).begin_ns


def _riops(series: Series, begin: float, end: float) -> float:
    """Return the mean of what lies between two times, without their edges."""
    rates = [
        known(rate)
        for second, rate in zip(series.seconds, series.columns["sessions.riops"], strict=True)
        if begin + EDGE_SECONDS + STEP_SECONDS <= second <= end - EDGE_SECONDS
    ]
    return statistics.fmean(rates)
