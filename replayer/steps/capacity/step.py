"""The highest multiple of a required rate that is sustained within an objective, and its hold.

Statements arrive at a rate, whether the database is ready or not.  The multiple is doubled, then
bisected (analysis/capacity/capacity_search.py), the accepted one is run again, and at last the
required rate is held for long.  What the result has of it:

facts         capacity.clear (false: trials disagreed near the end), capacity.disputed,
              capacity.first, capacity.proof (what gave first at the refused rate),
              capacity.gave_up (who was in the way of one trial after the other), capacity.held
              (`within`, `exceeded` or why it was not held), capacity.held_why
measurements  capacity.multiple, capacity.low and capacity.high (its 95 percent interval),
              capacity.refused, capacity.rate; capacity.hold.*
tables        trials (every one, in order), resources
"""

import time
from dataclasses import replace

from replayer.analysis.capacity import capacity_search
from replayer.analysis.capacity.capacity_search import SearchLimits, SearchTrial
from replayer.engines.connection import Database
from replayer.errors import Interrupted, ReplayerError
from replayer.load.level import LevelRequest, LevelResult, measure_level
from replayer.load.objective import Goal, goals, missed
from replayer.load.resources import measure_point
from replayer.load.spec import check_load, ready
from replayer.run.context import Context
from replayer.run.step_plugin import Footprint
from replayer.steps.capacity.outcome import (
    CapacityTrial,
    disturbance,
    record,
    record_hold,
    record_trial,
    timed,
)
from replayer.steps.capacity.spec import Spec
from replayer.units import show_count, show_duration

HAS_WINDOW = False
"""Every trial has one of its own."""
_SAMPLE_SECONDS = 0.1
_WARM_UP_SECONDS = 5.0
_BUSY_CLIENTS = 0.9
_MOST_VOID = 2
"""Trials in a row that others disturbed, upon which a search is given up."""
_TWICE = 2
_DONE = 0.9
"""Of what was asked: less than that is not held."""
_FAR = 1.5
"""So many times the objective is no matter of noise."""
_LONGER = 1.25
"""Of the time that was told for a search, from which on it ends where only a verdict is wanted."""
_ALMOST = 0.999
"""A multiple of 1 that arithmetic made a little less."""


def uses_client_hosts(_spec: Spec) -> bool:
    """Return that its sessions may be processes of other hosts."""
    return True


def footprint(spec: Spec, block_size: int) -> Footprint:
    """Return what the tables take."""
    return spec.footprint(block_size)


def check(spec: Spec, context: Context) -> None:
    """Raise Impossible or Skip for what cannot be done here."""
    check_load(spec, context)


def run(spec: Spec, context: Context) -> None:
    """Search the highest rate, then hold the one that is required."""
    check(spec, context)
    with ready(spec, spec.sessions, context, rate=spec.rate) as (database, plain):
        asked = replace(
            plain,
            sessions=spec.sessions,
            arrivals=spec.arrivals,
            sample_seconds=_SAMPLE_SECONDS,
        )
        required = replace(asked, rate=spec.rate, title="the required rate")
        warm_up = replace(required, seconds=min(_WARM_UP_SECONDS, spec.trial), title="warm up")
        measure_level(warm_up, context, database)
        search = _Search(spec, asked, context, database)
        search.run()
        if spec.hold and search.accepted:
            hold = replace(required, seconds=spec.hold).drawn(len(search.trials) + 1)
            held = _trial(spec, hold, context, database)
            record_hold(context.findings, held)
    if not spec.hold:
        context.findings.facts["capacity.held"] = "not asked for"
    elif not search.accepted:
        context.findings.facts["capacity.held"] = "not held: the required rate was not sustained"


class _GaveUp(Exception):
    """Others were in the way of one trial after the other."""


class _Search:
    """The trials of a search, which is written down when it has ended."""

    def __init__(
        self, spec: Spec, asked: LevelRequest, context: Context, database: Database
    ) -> None:
        self._spec = spec
        self._asked = asked
        self._context = context
        self._database = database
        self._limits = SearchLimits(
            resolution=spec.resolution, least=spec.least, most=spec.most, trials=spec.trials
        )
        self._began = time.monotonic()
        self._waited = 0.0
        """Seconds of trials that were void, for which somebody said to wait."""
        self.trials: list[CapacityTrial] = []

    @property
    def accepted(self) -> bool:
        """Tell whether the required rate held once at least."""
        return any(t.ended is SearchTrial.HELD and t.multiple > _ALMOST for t in self.trials)

    def run(self) -> None:
        """Search, and write down what was found."""
        spec, findings = self._spec, self._context.findings
        try:
            found = capacity_search.search(self._run_one, self._limits, self._enough)
        except _GaveUp as error:
            findings.facts["capacity.gave_up"] = str(error)
            self._record_so_far()
        except (ReplayerError, Interrupted):
            # What held until then is worth minutes, and says what the machine can do at least.
            self._record_so_far()
            raise
        else:
            record(spec, findings, found, self.trials)

    def _record_so_far(self) -> None:
        counted = [(trial.multiple, trial.ended) for trial in self.trials if not trial.void]
        if counted:
            found = capacity_search.so_far(counted, self._limits)
            record(self._spec, self._context.findings, found, self.trials, cut_short=True)

    def _run_one(self, multiple: float) -> SearchTrial:
        """Run one multiple until a trial of it counts; raise _GaveUp where none does."""
        void, began = 0, time.monotonic()
        while (trial := self._run_once(multiple)).void:
            void += 1
            self._waited += time.monotonic() - began
            began = time.monotonic()
            if void >= _MOST_VOID and self._waited >= self._spec.wait:
                raise _GaveUp(disturbance(self.trials[-void:]))
        return trial.ended

    def _run_once(self, multiple: float) -> CapacityTrial:
        spec = self._spec
        title = f"{multiple:.2f} times the required rate"
        wanted = replace(
            self._asked, rate=multiple * spec.rate, seconds=spec.trial, title=title
        ).drawn(len(self.trials) + 1)
        trial = _trial(spec, wanted, self._context, self._database)
        # A failure then says nothing of the machine, nor of the clients; a success does.
        failed = trial.ended is not SearchTrial.HELD and trial.level.offered > 0
        trial = replace(trial, void=failed and trial.disturbed)
        self.trials.append(trial)
        record_trial(self._context.findings, trial)
        return trial

    def _enough(self) -> bool:
        """Tell whether nothing that is still to be tried would change the verdict."""
        if not self.trials[-1].level.offered:
            # Of a lower rate there are even fewer.
            return True
        if not self._spec.decide:
            return False
        told = self._spec.lasts() - self._spec.hold
        most = _LONGER * told + self._waited
        if time.monotonic() - self._began > most:
            return True
        required = [t for t in self.trials if not t.void and _ALMOST < t.multiple < 2 - _ALMOST]
        return len(required) >= _TWICE and all(self._far_off(trial) for trial in required)

    def _far_off(self, trial: CapacityTrial) -> bool:
        """Tell whether a trial failed by so much that it is no matter of noise."""
        if trial.ended is not SearchTrial.FAILED:
            return False
        level = trial.level
        if level.completed < _DONE * level.offered:
            return True
        return bool(_over(_loose(self._spec.slo), level))


def _loose(objective: str) -> tuple[Goal, ...]:
    """Return goals so much easier that one who misses them misses the objective for sure."""
    return tuple(goal._replace(seconds=_FAR * goal.seconds) for goal in goals(objective))


def _trial(spec: Spec, wanted: LevelRequest, context: Context, database: Database) -> CapacityTrial:
    """Measure a rate, and tell whether it held."""
    level, used = measure_point(wanted, spec.given_ceilings, context, database)
    ended, reason = outcome_of(spec.slo, level)
    return CapacityTrial((wanted.rate or 0.0) / spec.rate, level, used, ended, reason)


def outcome_of(objective: str, level: LevelResult) -> tuple[SearchTrial, str]:
    """Return how a trial ended, and why if it did not hold.

    Held is done: what was asked of the server was answered within the window, but for a tenth, and
    within the objective.
    """
    if not level.offered:
        rate = show_count(round(level.asked.rate or 0.0, 3))
        seconds = show_duration(level.seconds)
        return SearchTrial.NOT_OFFERED, (
            f"no statement was drawn: {rate}/s for {seconds} are none, let a trial take longer"
        )
    asked, done = (round(rate * level.seconds) for rate in (level.offered, level.completed))
    if not level.sustained:
        clients = level.use.client >= _BUSY_CLIENTS * level.clients
        return SearchTrial.NOT_OFFERED if clients else SearchTrial.FAILED, level.reason
    if done + level.failures + 1 < _DONE * asked:
        return SearchTrial.FAILED, (
            f"{done:,} of {asked:,} statements were done within {show_duration(level.seconds)}"
        )
    over = _over(goals(objective), level)
    return (SearchTrial.FAILED, over) if over else (SearchTrial.HELD, "")


def _over(wanted: tuple[Goal, ...], level: LevelResult) -> str:
    """Return which goals a level misses, "" if none."""
    over = [(name, missed(wanted, times)) for name, times in timed(level).items()]
    return ", ".join(f"{name}{words}" for name, words in over if words)
