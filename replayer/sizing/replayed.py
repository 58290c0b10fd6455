"""Use of resources by replays of a capture, and the resource that limits the speed."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from replayer.analysis.capacity import saturation
from replayer.analysis.capacity.saturation import LevelPoint, ResourceUse, Saturation, WaitReason
from replayer.load.rows import resource_columns
from replayer.model import StepResult
from replayer.sizing import demand
from replayer.sizing.findings import Loaded, ResourceRow


class Used(NamedTuple):
    """Use of resources by replays of a capture: all, the failed, and the fastest that kept up.

    A point is the throughput, response time and use of resources of one replay.
    """

    points: Sequence[LevelPoint]
    """Points of all replays that count."""
    refused: Sequence[LevelPoint]
    """Points of the lowest speed that failed, and of higher speeds that failed."""
    highest: Sequence[LevelPoint]
    """Points of the highest speed with which the server kept up."""

    @property
    def judged(self) -> Saturation | None:
        """Return how busy each resource was, and which one limits the speed; None if not known."""
        if self.refused:
            return saturation.at_limit(self.points, self.refused)
        return saturation.at_highest(self.points, self.highest) if self.highest else None


def points(steps: Sequence[StepResult]) -> list[LevelPoint]:
    """Return throughput, response time and use of resources of each replay that recorded them."""
    known = (_point(step) for step in steps)
    return [point for point in known if point is not None]


def _point(step: StepResult) -> LevelPoint | None:
    used = step.tables.get("uses", ())
    done, at_work = (step.value(f"replay.{name}") for name in ("statements", "at_work"))
    if not used or not done or at_work is None:
        return None
    lines = step.tables.get("standing", ())
    return LevelPoint(
        sessions=int(step.facts.get("replay.sessions_at_once") or 1),  # type: ignore[arg-type]
        throughput=done,
        response=at_work / done,
        in_flight=at_work,
        uses={str(row["resource"]): _use(row) for row in used},
        standing={WaitReason(row["line"]): float(row["sessions"]) for row in lines},
    )


def _use(row: Mapping[str, Any]) -> ResourceUse:
    return ResourceUse(
        busy=row["busy"],
        capacity=row["capacity"],
        unit=row["unit"],
        lines=frozenset(map(WaitReason, filter(None, row["lines"].split(", ")))),
        own=row["own"],
        ceiling=row["ceiling"],
        stopped=row["stopped_share"],
        through=frozenset(filter(None, row["through"].split(", "))),
        held=row["held"],
    )


def rows(used: Used, rate: float, load: Loaded) -> Iterator[ResourceRow]:
    """Yield a row for each resource: what `rate` statements a second need, and the supply here.

    `load` is the result of the search for the highest speed.
    """
    judged = used.judged
    if judged is None:
        return
    table = [resource_columns(one) for one in judged.loads]
    held = saturation.at_highest(used.points, used.highest).loads if used.highest else ()
    busy = {one.name: one.busiest.value for one in held if one.busiest is not None}

    def demands(name: str) -> list[float]:
        known = [(one.uses[name], one.throughput) for one in used.points if name in one.uses]
        return [(use.busy if use.own is None else use.own) / done for use, done in known]

    yield from demand.rows(table, demands, rate, load, busy)
