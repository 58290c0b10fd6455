"""The recorder into which a step or a probe writes its measurements while it works.

Everything that was written stays if the step is cut short by an error.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from replayer.model import (
    Account,
    Better,
    Cold,
    Fact,
    Foreign,
    Latency,
    Ledger,
    Measurement,
    Outcome,
    Reads,
    Replayed,
    Series,
    StackProfile,
    Steadiness,
)
from replayer.results.stored_histogram import HIGHEST_NS, encode

if TYPE_CHECKING:
    from replayer.watch.histogram import Latencies

PERCENTILES = {"p50": 50, "p95": 95, "p99": 99, "p999": 99.9}
"""The end of a metric's name -> percent."""


@dataclass(frozen=True)
class MeasuredWindow:
    """The time in which a step measured, its begin and its end, and the work done in that time.

    The account of the step, which shows for what the sessions used their time, covers this window.
    """

    begin_ns: int
    """`begin_ns` and `end_ns`: marks of the sampler, in nanoseconds of the sampler's clock."""
    end_ns: int
    operations: float
    operation: str
    """The name of one operation, singular: block, statement, MiB, row."""
    sessions: int
    """Sessions, threads or clients that worked at the same time."""
    whose: Literal["server", "replayer"]
    """The owner of the threads that did the work: a server's sessions, or replayer itself."""


@dataclass
class StepRecorder:
    """The findings of a step so far (all that it measured); `outcome` returns them for a result.

    `tables` is name -> rows. `printed` is name -> lines that the report prints unchanged. `writes`
    is True if the step wrote to the storage. `costs` is collector -> CPU seconds that it used.
    """

    measurements: list[Measurement] = field(default_factory=list)
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    latency: dict[str, Latency] = field(default_factory=dict)
    printed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    facts: dict[str, Fact] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    cold: Cold | None = None
    ledger: Ledger | None = None
    foreign: Foreign | None = None
    series: Series | None = None
    steady: Steadiness | None = None
    reads: Reads | None = None
    writes: bool = False
    replayed: tuple[Replayed, ...] = ()
    window: MeasuredWindow | None = None
    """None if a step has many windows, or none."""
    account: Account | None = None
    profile: StackProfile | None = None
    costs: dict[str, float] = field(default_factory=dict)

    def measure(
        self, metric: str, value: float, unit: str, better: Better = Better.MORE, says: str = ""
    ) -> None:
        """Add one measured number; `metric` is its name `<step>.<quantity>`, like `scan.elapsed`.

        `better` shows if more or less of it is better. `says` names another metric of the step with
        the same information: a comparison counts both as one.
        """
        self.measurements.append(
            Measurement(metric=metric, value=value, unit=unit, better=better, says=says)
        )

    def row(self, table: str, /, **columns: Any) -> None:
        """Add a row to a table; all rows of a table have the same columns."""
        self.tables.setdefault(table, []).append(columns)

    def lines(self, name: str, lines: Sequence[str]) -> None:
        """Add lines under a name, which the report prints unchanged.

        They have the form in which another tool would print the same numbers.
        """
        self.printed[name] = tuple(lines)

    def note(self, sentence: str) -> None:
        """Add a sentence for the report, unless the same sentence is there already."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def histogram(self, kind: str, latencies: "Latencies") -> None:
        """Add a histogram of the latencies of one kind of operation, if there are any."""
        counts: Counter[int] = Counter()
        for nanoseconds, count in latencies.counts().items():
            counts[min(nanoseconds, HIGHEST_NS)] += count
        if counts:
            self.latency[kind] = encode(counts)

    def percentiles(self, metric: str, latencies: "Latencies") -> None:
        """Add percentiles and the maximum of latencies as measurements, in seconds.

        Their names begin with `metric`, such as `<metric>.max`.
        """
        for name, share in PERCENTILES.items():
            self.measure(f"{metric}.{name}", latencies.percentile_ns(share) / 1e9, "s", Better.LESS)
        self.measure(f"{metric}.max", latencies.most_ns / 1e9, "s", Better.LESS)

    def outcome(self) -> Outcome:
        """Return all that was recorded as the Outcome that a result file keeps."""
        return Outcome(
            measurements=tuple(self.measurements),
            cold=self.cold,
            ledger=self.ledger,
            foreign=self.foreign,
            series=self.series,
            latency=dict(self.latency),
            tables={name: tuple(rows) for name, rows in self.tables.items()},
            printed=dict(self.printed),
            facts=dict(self.facts),
            notes=tuple(self.notes),
            steady=self.steady,
            reads=self.reads,
            writes=self.writes,
            replayed=self.replayed,
            account=self.account,
            profile=self.profile,
            costs=dict(self.costs),
        )
