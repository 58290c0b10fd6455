"""How much CPU a statement is made to burn in the server, so that it costs what it did elsewhere.

A unit of it is an expression on a row that is read (schemas/*/parts/burn.sql).  A statement costs
several times as much where the server is woken up for each as where one follows the other, so that
it is measured at the rate at which it is to cost that, over all sessions, and the units are
corrected until it does: in CPU seconds of the server's processes.  Where these cannot be seen, the
time of one session says what a unit costs.
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
"""What the probe `cpu` says of the speed of one core."""
MEMORY_METRIC = "memory.read.1.00MiB.processes_1"
"""What the probe `memory` does."""
WANTED, GOT = "load.cpu_wanted_seconds", "load.cpu_got_seconds"
"""Facts of a result: the CPU that a statement was to cost, and that it cost."""
_SECONDS = 1.0
_AT_A_RATE = 3.0
_MOST_SECONDS = 10.0
_STATEMENTS = 300
"""So many at least are measured, if they come within _MOST_SECONDS."""
_PATIENCE = 0.5
_HALVINGS = 6
_ROUNDS = 5
CLOSE = 0.05
"""How far what was got may be from what is wanted, as a share."""
_TRY = 64
"""Units of the first look at what one costs."""
_TRIAL = 0.005
"""CPU seconds a statement that a unit is measured with: more than a statement's own by far."""


@dataclass(frozen=True, slots=True)
class Burn:
    """What was found out before the window."""

    units: float
    """For each statement."""
    unit_seconds: float
    bare_seconds: float | None
    """CPU of the server for a statement of the mix by itself; None if it cannot be seen."""
    wanted_seconds: float
    carried: str = ""
    """How the CPU of another machine became that of this one, "" if it is as given."""
    got_seconds: float | None = None
    """CPU of the server for a statement with these units; None if it cannot be seen."""
    rate: float | None = None
    """Statements a second at which both were measured; None where one follows the other."""

    @property
    def facts(self) -> dict[str, Fact]:
        """Return what was wanted and what was got, as a result has it."""
        return {WANTED: self.wanted_seconds, GOT: self.got_seconds}

    @property
    def words(self) -> str:
        """Return what was wanted and what was got, as a sentence for the report."""
        wanted = f"{show_duration(self.wanted_seconds)}{self.carried}"
        if self.bare_seconds is None or self.got_seconds is None:
            return (
                f"{wanted} of CPU are burnt for each statement, on top of its own, as the "
                f"server's processes cannot be seen from here"
            )
        bare, got = show_duration(self.bare_seconds), show_duration(self.got_seconds)
        at = "" if self.rate is None else f" at {show_count(round(self.rate, 1))}/s"
        if not self.units:
            more = self.bare_seconds > (1 + CLOSE) * self.wanted_seconds
            ending = ", which needs more CPU than is required" if more else ""
            return f"a statement costs {bare} of CPU by itself{at}, wanted {wanted}{ending}"
        return (
            f"CPU of a statement{at}: wanted {wanted}, got {got}; {bare} are its own, and it burns "
            f"{self.units:.1f} units of {show_duration(self.unit_seconds)}"
        )


def calibrate(asked: LevelRequest, context: Context, database: Database) -> Burn:
    """Return how much a statement of the mix has to burn to cost `mix.cpu`.

    That is measured at `mix.cpu_rate`, else at the rate that is asked, and in a closed loop of one
    session where none is; at half of that, or half again, where it is not sustained.  Takes some
    10 seconds, 30 at most unless statements are seldom.
    """
    wanted, how = cpu_here(asked.mix, context.done)
    closed = replace(asked, rate=None, sessions=1, seconds=_SECONDS, title="calibrate the CPU")
    # What came before, such as the load of the tables, has time to settle meanwhile.
    unit = _unit(replace(closed, mix=WeightedMix(point=1), seconds=_SECONDS / 2), context, database)
    one = closed if asked.rate is None else _at_a_rate(asked)
    level = _sustained(one, context, database)
    bare = _cost(level)
    missing = wanted if bare is None else max(0.0, wanted - bare)
    units = missing / unit
    first = Burn(units, unit, bare, wanted, how, bare, level.asked.rate)
    if bare is None or not units:
        return first
    rounds = list(_rounds(first, level.asked, context, database))
    return min(rounds, key=lambda one: abs((one.got_seconds or 0.0) - wanted))


def _at_a_rate(asked: LevelRequest) -> LevelRequest:
    """Return the level at which a statement's CPU is measured."""
    rate = asked.mix.cpu_rate or asked.rate
    assert rate is not None, "it is asked of loads that have one"
    return replace(
        asked,
        rate=rate,
        seconds=min(_MOST_SECONDS, max(_AT_A_RATE, _STATEMENTS / rate)),
        patience=_PATIENCE,
        # What asks for waits is no statement's.
        sample_seconds=2 * _MOST_SECONDS,
        title="calibrate the CPU",
    )


def _sustained(asked: LevelRequest, context: Context, database: Database) -> LevelResult:
    """Measure a level, and half of its rate, and again half of that, until one is sustained."""
    level = measure_level(asked, context, database)
    for _ in range(_HALVINGS):
        if level.sustained or level.asked.rate is None:
            break
        level = measure_level(replace(asked, rate=level.asked.rate / 2), context, database)
    return level


def _rounds(
    first: Burn, asked: LevelRequest, context: Context, database: Database
) -> Iterator[Burn]:
    """Yield what was got with units that come closer to what is wanted, until it is that."""
    now = first
    wanted, bare = first.wanted_seconds, first.bare_seconds or 0.0
    for _ in range(_ROUNDS):
        level = _sustained(replace(asked, burn=now.units), context, database)
        asked = level.asked
        got = _cost(level) or 0.0
        now = replace(now, got_seconds=got, rate=asked.rate)
        yield now
        if abs(got - wanted) <= CLOSE * wanted:
            return
        # What a unit costs here may be more than in one hot session; less than half is noise.
        unit = max(first.unit_seconds / 2, (got - bare) / now.units)
        now = replace(now, units=(wanted - bare) / unit, unit_seconds=unit)


def cpu_here(mix: WeightedMix, done: Sequence[StepResult]) -> tuple[float, str]:
    """Return the CPU seconds of a statement on this machine, and how they were carried to it.

    `done` are the steps before: the probes of those speeds that the mix has of its own machine, of
    which the geometric mean of the ratios counts.
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
    """Return the seconds that a unit costs, of reads of one row with some and with many."""
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
    """Return the CPU seconds of the server for each statement, None if they cannot be seen."""
    done = sum(level.counts.values())
    if level.use.server is None or not done:
        return None
    return level.use.server * level.use.seconds / done
