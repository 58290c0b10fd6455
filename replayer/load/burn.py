"""How much CPU a statement is made to burn in the server, so that it costs what it did elsewhere.

A unit of it is an expression on a row that is read (schemas/*/parts/burn.sql).  What a unit costs
here, and what the mix costs without any, is measured on the target before the window: in CPU
seconds of the server's processes, or in the time of one session where these cannot be seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import geometric_mean

from replayer.engines.connection import Database
from replayer.load.level import Asked, Level, measure_level
from replayer.load.mix import Mix, carried
from replayer.model import StepResult
from replayer.run.context import Context
from replayer.units import show_duration

CPU_METRIC = "cpu.events.processes_1"
"""What the probe `cpu` says of the speed of one core."""
MEMORY_METRIC = "memory.read.1.00MiB.processes_1"
"""What the probe `memory` does."""
_SECONDS = 1.0
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

    @property
    def words(self) -> str:
        """Return what was found, as a sentence for the report."""
        wanted = f"{show_duration(self.wanted_seconds)}{self.carried}"
        if self.bare_seconds is None:
            return (
                f"{wanted} of CPU are burnt for each statement, on top of its own, as the "
                f"server's processes cannot be seen from here"
            )
        bare = show_duration(self.bare_seconds)
        if not self.units:
            return f"a statement costs {bare} of CPU by itself, not less than the {wanted} asked"
        return (
            f"a statement costs {bare} of CPU by itself and burns {self.units:.1f} units of "
            f"{show_duration(self.unit_seconds)} more, to cost {wanted}"
        )


def calibrate(asked: Asked, context: Context, database: Database) -> Burn:
    """Return how much a statement of the mix has to burn to cost `mix.cpu`; takes 4 seconds."""
    wanted, how = cpu_here(asked.mix, context.done)
    one = replace(asked, rate=None, sessions=1, seconds=_SECONDS, title="calibrate the CPU")
    bare = _cost(measure_level(one, context, database))
    point = replace(one, mix=Mix(point=1), seconds=_SECONDS / 2)
    unit = _unit(point, context, database)
    missing = wanted if bare is None else max(0.0, wanted - bare)
    return Burn(missing / unit, unit, bare, wanted, how)


def cpu_here(mix: Mix, done: Sequence[StepResult]) -> tuple[float, str]:
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


def _unit(point: Asked, context: Context, database: Database) -> float:
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


def _cost(level: Level) -> float | None:
    """Return the CPU seconds of the server for each statement, None if they cannot be seen."""
    done = sum(level.counts.values())
    if level.use.server is None or not done:
        return None
    return level.use.server * level.use.seconds / done
