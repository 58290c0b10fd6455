"""Calibration of CPU burning: make a statement cost the server a given CPU time.

Burnt CPU is counted in units: an expression that is evaluated for each row read
(schemas/*/parts/burn.sql).  A statement costs several times as much CPU if the server has to wake
up for each one as if statements follow each other without a gap.  So the cost is measured at the
intended rate, over all sessions, and the number of units is corrected until the cost is right, in
CPU seconds of the server's processes.  If that rate is not sustained, the statements of the
calibration follow each other without a gap, as they then do in the measured window, too.  If the
server's processes cannot be seen, the service time of one session gives the cost of a unit.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import geometric_mean

from replayer.engines.connection import Database
from replayer.load.level import LevelRequest, LevelResult, measure_level
from replayer.load.mix import WeightedMix, carried
from replayer.model import Fact, StepResult
from replayer.run.context import Context
from replayer.units import show_count, show_duration

CPU_METRIC = "cpu.events.processes_1"
"""Metric of the probe `cpu`: the speed of one core."""
MEMORY_METRIC = "memory.read.1.00MiB.processes_1"
"""Metric of the probe `memory`: the read bandwidth of one core."""
WANTED, GOT = "load.cpu_wanted_seconds", "load.cpu_got_seconds"
"""Facts of a result: the CPU that a statement should cost, and the CPU that it did cost."""
_SECONDS = 1.0
_AT_A_RATE = 3.0
_MOST_SECONDS = 10.0
_STATEMENTS = 300
"""Minimum number of statements to measure, if they come within _MOST_SECONDS."""
_PATIENCE = 0.5
_HALVINGS = 6
_LONG = 0.0005
"""CPU seconds of a statement below which waking up the server may be most of its cost."""
_ROUNDS = 5
CLOSE = 0.05
"""Tolerated relative difference between the CPU got and the CPU wanted."""
_FEW = CLOSE / 5
"""Share of a level's statements that may be under way at its end and not count."""
_TRY = 64
"""Units per statement of the first, rough measurement of a unit's cost."""
_TRIAL = 0.005
"""CPU seconds that a statement burns to measure a unit: far more than it costs by itself."""


@dataclass(frozen=True, slots=True)
class Burn:
    """The result of the calibration: the units to burn for each statement, and their measured cost.

    A unit is an expression that the server evaluates for each row that it reads.  The cost is the
    server's CPU seconds for one statement.
    """

    units: float
    """Units for each statement."""
    unit_seconds: float
    bare_seconds: float | None
    """Server CPU seconds of a statement of the mix without burning; None if they cannot be seen."""
    wanted_seconds: float
    carried: str = ""
    """Words on the conversion of CPU seconds from another machine to this one; "" for none."""
    got_seconds: float | None = None
    """Server CPU seconds of a statement with these units; None if they cannot be seen."""
    rate: float | None = None
    """Statements a second at which the CPU seconds were measured; None in a closed loop."""

    @property
    def facts(self) -> dict[str, Fact]:
        """Return the CPU wanted and the CPU got, as facts of a result."""
        return {WANTED: self.wanted_seconds, GOT: self.got_seconds}

    @property
    def words(self) -> str:
        """Return the CPU wanted and the CPU got as a sentence for the report."""
        wanted = f"{show_duration(self.wanted_seconds)}{self.carried}"
        if self.bare_seconds is None or self.got_seconds is None:
            return (
                f"{wanted} of CPU are burnt for each statement, on top of its own, as the "
                f"server's processes cannot be seen from here"
            )
        bare, got = show_duration(self.bare_seconds), show_duration(self.got_seconds)
        at = "" if self.rate is None else f" at {show_count(self.rate)}/s"
        if not self.units:
            more = self.bare_seconds > (1 + CLOSE) * self.wanted_seconds
            ending = ", which needs more CPU than is required" if more else ""
            return f"a statement costs {bare} of CPU by itself{at}, wanted {wanted}{ending}"
        return (
            f"CPU of a statement{at}: wanted {wanted}, got {got}; {bare} are its own, and it burns "
            f"{self.units:.1f} units of {show_duration(self.unit_seconds)}"
        )


def calibrate(asked: LevelRequest, context: Context, database: Database) -> Burn:
    """Return the units that a statement of the mix must burn to cost `mix.cpu`.

    For a request without a rate, the cost is measured in a closed loop of one session.  Otherwise
    it is measured at `mix.cpu_rate`, or at the rate of the request if the mix has none.  If that
    rate is not sustained, all sessions are measured in a closed loop.  Statements of little CPU are
    measured at half of the rate instead, and at half of that if necessary: at the source, a part of
    their CPU was for waking up the server.  The calibration takes about 10 seconds, and at most 30
    unless statements are rare.
    """
    wanted, how = cpu_here(asked.mix, context.done)
    closed = replace(asked, rate=None, sessions=1, seconds=_SECONDS, title="calibrate the CPU")
    # Work that came before, such as loading the tables, has time to settle meanwhile.
    unit = _unit(replace(closed, mix=WeightedMix(point=1), seconds=_SECONDS / 2), context, database)
    one = closed if asked.rate is None else _at_a_rate(asked)
    level = _sustained(one, wanted, context, database)
    bare = _cost(level)
    missing = wanted if bare is None else max(0.0, wanted - bare)
    units = missing / unit
    first = Burn(units, unit, bare, wanted, how, bare, level.asked.rate)
    if bare is None or not units:
        return first
    rounds = list(_rounds(first, level.asked, context, database))
    return min(rounds, key=lambda one: abs((one.got_seconds or 0.0) - wanted))


def _at_a_rate(asked: LevelRequest) -> LevelRequest:
    """Return a request like `asked`, but at the rate at which a statement's CPU is measured."""
    rate = asked.mix.cpu_rate or asked.rate
    assert rate is not None, "it is asked of loads that have one"
    return replace(
        asked,
        rate=rate,
        seconds=min(_MOST_SECONDS, max(_AT_A_RATE, _STATEMENTS / rate)),
        patience=_PATIENCE,
        # The query that samples waits costs CPU that belongs to no statement: this is never due.
        sample_seconds=2 * _MOST_SECONDS,
        title="calibrate the CPU",
    )


def _sustained(
    asked: LevelRequest, wanted: float, context: Context, database: Database
) -> LevelResult:
    """Measure a level; if its rate is not sustained, measure it again at a lower one or at none.

    Return the last result.  The rate is halved, up to _HALVINGS times, if a statement is to cost
    less CPU than _LONG.  If not, or if no statement is due at that rate, the level is measured
    without a rate.  `wanted` is the CPU that a
    statement is to cost, in seconds.
    """
    level = measure_level(asked, context, database)
    for _ in range(_HALVINGS):
        if level.asked.rate is None or (level.sustained and level.offered):
            break
        lower = None if wanted >= _LONG or not level.offered else level.asked.rate / 2
        level = measure_level(replace(asked, rate=lower), context, database)
    return level


def _rounds(
    first: Burn, asked: LevelRequest, context: Context, database: Database
) -> Iterator[Burn]:
    """Measure again and again, and correct the number of units each time, until the cost is right.

    Yield the result of each measurement.  End when the cost is close enough, or after _ROUNDS of
    them.
    """
    now = first
    wanted, bare = first.wanted_seconds, first.bare_seconds or 0.0
    for _ in range(_ROUNDS):
        level = _sustained(replace(asked, burn=now.units), wanted, context, database)
        if level.asked.rate != asked.rate:
            # Its own part was measured at a rate that the burning statement does not keep.
            bare = _cost(measure_level(replace(level.asked, burn=0.0), context, database)) or bare
            if bare >= wanted:
                yield replace(now, units=0.0, bare_seconds=bare, got_seconds=bare,
                              rate=level.asked.rate)  # fmt: skip
                return
        asked = level.asked
        got = _cost(level) or 0.0
        now = replace(now, bare_seconds=bare, got_seconds=got, rate=asked.rate)
        yield now
        if abs(got - wanted) <= CLOSE * wanted:
            return
        # A unit may cost more here than in one hot session; less than half of that is noise.
        unit = max(first.unit_seconds / 2, (got - bare) / now.units)
        now = replace(now, units=(wanted - bare) / unit, unit_seconds=unit)


def cpu_here(mix: WeightedMix, done: Sequence[StepResult]) -> tuple[float, str]:
    """Return the CPU seconds of a statement on this machine, and a note on the conversion.

    The mix may have speeds of the machine where its CPU was measured.  `done` are the results of
    the earlier steps.  If probes among them measured the same speeds here, the CPU seconds are
    multiplied by the geometric mean of the ratios of the speeds there to the speeds here.
    """
    cpu = mix.cpu or 0.0
    speeds = [
        (there, here)
        for metric, there in ((CPU_METRIC, mix.cpu_speed), (MEMORY_METRIC, mix.memory_speed))
        if there is not None and (here := _probed(done, metric))
    ]
    if not speeds:
        known = mix.cpu_speed or mix.memory_speed
        return cpu, " (not carried: no probe of this machine's cores was run)" if known else ""
    there, here = (geometric_mean(values) for values in zip(*speeds, strict=True))
    return carried(cpu, there, here), (
        f" (where {show_duration(cpu)} were measured a core does {there / here:.2f} times as much)"
    )


def _probed(done: Sequence[StepResult], metric: str) -> float | None:
    values = (step.value(metric) for step in reversed(done))
    return next((value for value in values if value is not None), None)


def _unit(point: LevelRequest, context: Context, database: Database) -> float:
    """Return the seconds that a unit of CPU burning costs.

    They are found by statements that read one row and burn no, few or many units.
    """
    none = measure_level(point, context, database)
    few = measure_level(replace(point, burn=_TRY), context, database)
    rough = max(1e-9, (few.service.mean_ns - none.service.mean_ns) / 1e9 / _TRY)
    units = max(1.0, _TRIAL / rough)
    many = measure_level(replace(point, burn=units, seconds=_SECONDS), context, database)
    cost, cost_of_none = _cost(many), _cost(none)
    if cost is None or cost_of_none is None:
        return max(1e-9, (many.service.mean_ns - none.service.mean_ns) / 1e9 / units)
    return max(1e-9, (cost - cost_of_none) / units)


def _cost(level: LevelResult) -> float | None:
    """Return the server's CPU seconds for each statement; None if they are not known.

    If many statements, by comparison, are under way at the window's end, each statement counts by
    its part within the window: the server used CPU for this part, too.
    """
    done = float(sum(level.counts.values()))
    if level.in_flight > _FEW * done and level.service.mean_ns:
        done = level.in_flight * level.seconds / (level.service.mean_ns / 1e9)
    if level.use.server is None or not done:
        return None
    return level.use.server * level.use.seconds / done
