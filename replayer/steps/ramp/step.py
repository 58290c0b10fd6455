"""Measure the growth of throughput with the number of sessions, and find the limiting resource.

A level is a number of sessions.  Each session sends its next statement when it has the answer to
the last one.  Every level is measured several times, in random order.  The Universal Scalability
Law is fitted to the levels' means.  The operational laws show which resource saturates first: see
analysis/capacity/scalability.py and analysis/capacity/saturation.py.
"""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count, pairwise

from replayer.analysis.capacity import saturation
from replayer.analysis.differences import steadiness
from replayer.engines.connection import Database
from replayer.load.level import LevelRequest, LevelResult, measure_level
from replayer.load.resources import measure_point
from replayer.load.spec import check_load, ready
from replayer.run.context import Context
from replayer.run.step_plugin import Footprint
from replayer.steps.ramp.outcome import RampTrial, record, record_trial
from replayer.steps.ramp.spec import Spec

HAS_WINDOW = False
"""Every number of sessions has a measured window, so the step as a whole has none."""
_SAMPLE_SECONDS = 0.05


def uses_client_hosts(_spec: Spec) -> bool:
    """Return True: the sessions of a ramp may run on other hosts, which are named by --clients."""
    return True


def footprint(spec: Spec, block_size: int) -> Footprint:
    """Return the bytes of the tables that the statements work on: on disk, and kept in memory.

    `block_size` is the size of the database's blocks in bytes.
    """
    return spec.footprint(block_size)


def check(spec: Spec, context: Context) -> None:
    """Raise Impossible if the tables are too small or too large, Skip if a feature is missing."""
    check_load(spec, context)


def run(spec: Spec, context: Context) -> None:
    """Measure throughput at every number of sessions; record it, and the limiting resource.

    With the key `around_knee`, further numbers are measured around the knee: the fewest sessions
    with nearly the highest throughput.
    """
    check(spec, context)
    with ready(spec, max(spec.levels), context) as (database, plain, _):
        asked = replace(plain, sample_seconds=_SAMPLE_SECONDS)
        # The first measurement would be slow: plans, buffers and the processors' clock warm up.
        warm_up = replace(asked, sessions=spec.levels[len(spec.levels) // 2], title="warm up")
        measure_level(replace(warm_up, seconds=spec.shortest), context, database)
        trials = _measured(spec, asked, context, database)
    record(spec, context, trials)


def _measured(
    spec: Spec, asked: LevelRequest, context: Context, database: Database
) -> list[RampTrial]:
    """Measure all levels (numbers of sessions) in random order; return the results in that order.

    `asked` is the load without its number of sessions, which each measurement sets.  Each level is
    measured `repeats` times.  Levels around the knee (the fewest sessions with nearly the highest
    throughput) are added if the key `around_knee` is true.
    """
    order = random.Random(spec.seed)  # noqa: S311 - an order, no secret
    loads = (asked.drawn(number) for number in count(1))
    first = _shuffled(spec.levels, order)
    trials = [_trial(spec, loads, level, context, database) for level in first]
    between = _between(trials) if spec.around_knee else []
    rest = [*spec.levels] * (spec.repeats - 1) + between * spec.repeats
    trials += [_trial(spec, loads, n, context, database) for n in _shuffled(rest, order)]
    return trials


def _shuffled(levels: Sequence[int], order: random.Random) -> list[int]:
    return order.sample(levels, len(levels))


def _between(trials: Sequence[RampTrial]) -> list[int]:
    """Return numbers of sessions between the knee and the measured numbers next to it.

    The knee is the fewest sessions with nearly the highest throughput.  There is at most one number
    on each side of it: the geometric mean, rounded, if that is not measured already.
    """
    knee = saturation.knee([trial.point for trial in trials])
    levels = sorted(trial.point.sessions for trial in trials)
    at = levels.index(knee)
    near = levels[max(0, at - 1) : at + 2]
    middles = [round(math.sqrt(low * high)) for low, high in pairwise(near)]
    return [level for level in middles if level not in levels]


def _trial(
    spec: Spec, loads: Iterator[LevelRequest], sessions: int, context: Context, database: Database
) -> RampTrial:
    """Measure one number of sessions until the rate is steady; record and return the last try.

    If the rate is not steady, measure again for twice the time, up to the key `longest`.  `loads`
    yields requests that differ only in the rows that the statements read.
    """
    seconds = spec.shortest
    title = f"{sessions} session{'s' if sessions > 1 else ''}"
    while True:
        wanted = replace(next(loads), sessions=sessions, seconds=seconds, title=title)
        # The ceilings are read each time: a server's owner may change its limits meanwhile.
        level, used = measure_point(wanted, spec.given_ceilings, context, database)
        settled = _settled(level)
        if settled or seconds >= spec.longest:
            break
        seconds = min(spec.longest, 2 * seconds)
    trial = RampTrial(level, used, settled)
    record_trial(context.findings, trial)
    return trial


def _settled(level: LevelResult) -> bool:
    """Return whether the number of answers in each second was steady during the measured time."""
    found = steadiness.steady(level.answers[: int(level.seconds)])
    return found.start == 0 and not found.left
