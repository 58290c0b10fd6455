"""Find the highest multiple of a required rate that is sustained; then hold the required rate.

A rate is sustained if the response times stay within an objective.  Statements arrive at a rate,
whether the database is ready or not.  The multiple is doubled until it is too high; then the
interval is halved again and again (analysis/capacity/capacity_search.py).  The accepted multiple is
run again.  At last the required rate is held for a long time.  The result has:

facts         capacity.clear (false: trials disagreed near the end), capacity.disputed,
              capacity.first, capacity.proof (the limiting resource at the refused rate),
              capacity.gave_up (the programs that disturbed one trial after the other),
              capacity.held (`within`, `exceeded`, `disturbed`, `not offered` or why it was not
              held), capacity.held_why
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
from replayer.run.time_promise import NO_PROMISE, TimePromise
from replayer.steps.capacity.outcome import (
    CapacityTrial,
    disturbance,
    record,
    record_hold,
    record_trial,
    timed,
)
from replayer.steps.capacity.spec import Spec
from replayer.units import show_duration, show_times
from replayer.watch import interference, quiet_machine

HAS_WINDOW = False
"""Every trial (attempt to sustain a rate) has a measured window; the step as a whole has none."""
_SAMPLE_SECONDS = 0.1
_WARM_UP_SECONDS = 5.0
_BUSY_CLIENTS = 0.9
_MOST_VOID = 2
"""Disturbed trials in a row after which a search waits for a quiet machine."""
_TWICE = 2
_DONE = 0.9
"""Share of the offered statements that must be answered in time for a rate to be sustained."""
_FAR = 1.5
"""A response time beyond this multiple of its limit is not explained by noise."""
_LONGER = 1.25
"""With the key `decide`, a search ends at this multiple of its announced time."""
_ALMOST = 0.999
"""A multiple above this counts as 1, which allows for rounding errors."""


def uses_client_hosts(_spec: Spec) -> bool:
    """Return True: the sessions of this step may run on other hosts, named by --clients."""
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
    """Search for the highest rate; then hold the required rate, if the search could sustain it."""
    check(spec, context)
    with ready(spec, spec.sessions, context, rate=spec.rate) as (database, plain, _):
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
            held = replace(held, void=held.ended is not SearchTrial.HELD and held.disturbed)
            record_hold(context.findings, held)
    if not spec.hold:
        context.findings.facts["capacity.held"] = "not asked for"
    elif not search.accepted:
        context.findings.facts["capacity.held"] = "not held: the required rate was not sustained"


class _GaveUp(Exception):
    """Raised to end a search because other programs disturbed one trial after the other."""


class _Search:
    """One search for the highest rate: its trials, and the time that it may take.

    `asked` is the load without its rate, which each trial sets.  The result is recorded when the
    search ends, even by an error.
    """

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
        """Seconds of void trials and of waiting for a quiet machine.

        The key `wait` limits them.  The time limit of `decide` does not count them."""
        self.trials: list[CapacityTrial] = []
        own = context.promise is NO_PROMISE
        self._promise = TimePromise(spec.lasts()) if own else context.promise
        self._later = 0.0 if own else max(0.0, context.still() - spec.lasts())
        """Seconds of the steps after this one."""

    @property
    def accepted(self) -> bool:
        """Return whether the required rate, or a higher one, was sustained at least once."""
        return any(t.ended is SearchTrial.HELD and t.multiple > _ALMOST for t in self.trials)

    def run(self) -> None:
        """Search for the highest rate, and record the result."""
        spec, findings = self._spec, self._context.findings
        self._promise_anew("what came before the search took so long")
        try:
            found = capacity_search.search(self._run_one, self._limits, self._enough)
        except _GaveUp as error:
            findings.facts["capacity.gave_up"] = str(error)
            self._record_so_far()
        except (ReplayerError, Interrupted):
            # The trials so far took minutes, and show what the machine can do at least.
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
        """Measure a multiple of the required rate, until a trial is undisturbed; return its result.

        A trial that fails while other programs disturb it does not count.  Raise _GaveUp if they
        disturb for too long.
        """
        void, began = 0, time.monotonic()
        while (trial := self._run_once(multiple)).void:
            void += 1
            self._lose(time.monotonic() - began)
            if void % _MOST_VOID == 0:
                self._wait_until_quiet(disturbance(self.trials[-void:]))
            began = time.monotonic()
        return trial.ended

    def _left(self) -> float:
        """Return the seconds that the run still needs: for the search, the hold and later steps.

        The hold is the long run at the required rate, with which this step ends.
        """
        counted = sum(not trial.void for trial in self.trials)
        return self._spec.search_lasts(counted) + self._spec.hold + self._later

    def _promise_anew(self, why: str) -> None:
        if words := self._promise.renewed(self._left(), why):
            self._context.progress.say(words)

    def _lose(self, seconds: float) -> None:
        """Count seconds that were lost because of other programs.

        Seconds that the key `wait` allows are added to the promised time of the run.
        """
        given = min(seconds, max(0.0, self._spec.wait - self._waited))
        self._promise.postpone(given)
        self._waited += seconds

    def _wait_until_quiet(self, why: str) -> None:
        """Wait until other programs use little CPU time; raise _GaveUp if that takes too long.

        The key `wait` limits the waiting.  Without the key, the limit is the time that is left
        before the run would break its promised time.
        """
        spec, context = self._spec, self._context
        most = spec.wait - self._waited if spec.wait else self._promise.spare(self._left())
        if most <= 0:
            raise _GaveUp(why)
        limit = show_duration(max(1.0, float(round(most))))
        context.progress.say(f"{why}: waiting until they are done, for up to {limit}")
        with context.progress.task("wait for a quiet machine", most) as task:
            waited, quiet = quiet_machine.wait_until_quiet(
                context.host,
                most,
                lambda: interference.pids_of(context.server),
                lambda past, share: task.update(done=past, note=f"others use {share:.0%}"),
            )
        self._lose(waited)
        if not quiet:
            raise _GaveUp(f"{why}, and did not end within {show_duration(round(waited, 1))}")

    def _run_once(self, multiple: float) -> CapacityTrial:
        spec = self._spec
        number = len(self.trials) + 1
        title = f"trial {number}: {show_times(multiple)} times the required rate"
        wanted = replace(
            self._asked, rate=multiple * spec.rate, seconds=spec.trial, title=title
        ).drawn(number)
        trial = _trial(spec, wanted, self._context, self._database)
        # A failure of a disturbed trial is not due to the machine or the clients; a success counts.
        failed = trial.ended is not SearchTrial.HELD and trial.level.offered > 0
        trial = replace(trial, void=failed and trial.disturbed)
        self.trials.append(trial)
        record_trial(self._context.findings, trial)
        self._tell(trial)
        return trial

    def _tell(self, trial: CapacityTrial) -> None:
        """Print the result of a trial, and the elapsed and the promised time of the run.

        If the promised time can no longer be kept, print a new one.
        """
        ended = "void, others disturbed it" if trial.void else trial.ended.value
        words = f"trial {len(self.trials)}: {show_times(trial.multiple)} times: {ended}"
        self._context.progress.say(f"{words} ({self._promise.progress})")
        self._promise_anew("the search takes more trials than usual")

    def _enough(self) -> bool:
        """Return whether to end the search now.

        It ends if the last rate was so low that no statement was sent.  With the key `decide`, it
        also ends when its time is over, or when every trial of the required rate, at least two,
        failed by far.
        """
        if not self.trials[-1].level.offered:
            # A lower rate offers even fewer statements.
            return True
        if not self._spec.decide:
            return False
        most = _LONGER * self._spec.search_lasts() + self._waited
        if time.monotonic() - self._began > most:
            return True
        if self._promise.spare(self._spec.trial + self._spec.hold + self._later) < 0:
            return True
        required = [t for t in self.trials if not t.void and _ALMOST < t.multiple < 2 - _ALMOST]
        return len(required) >= _TWICE and all(self._far_off(trial) for trial in required)

    def _far_off(self, trial: CapacityTrial) -> bool:
        """Return whether a trial failed by so much that random variation cannot be the reason."""
        if trial.ended is not SearchTrial.FAILED:
            return False
        level = trial.level
        if level.completed < _DONE * level.offered:
            return True
        return bool(_over(_loose(self._spec.slo), level))


def _loose(objective: str) -> tuple[Goal, ...]:
    """Return the objective's limits of response times, 1.5 times as large.

    A measurement beyond these limits has failed, whatever the noise.
    """
    return tuple(goal._replace(seconds=_FAR * goal.seconds) for goal in goals(objective))


def _trial(spec: Spec, wanted: LevelRequest, context: Context, database: Database) -> CapacityTrial:
    """Measure the rate of the load `wanted`; return the trial, with its result and the reason."""
    level, used = measure_point(wanted, spec.given_ceilings, context, database)
    ended, reason = outcome_of(spec.slo, level)
    return CapacityTrial((wanted.rate or 0.0) / spec.rate, level, used, ended, reason)


def outcome_of(objective: str, level: LevelResult) -> tuple[SearchTrial, str]:
    """Return (result of a trial, the reason why its rate was not sustained or "" if it was).

    A rate is sustained if its backlog was worked off, nine tenths of the offered statements were
    answered within the measured window, and the response times are within `objective`, such as
    "p99=20ms".  The result is NOT_OFFERED if replayer's clients were too slow, or if no statement
    was due.
    """
    if not level.offered:
        return SearchTrial.NOT_OFFERED, level.reason
    asked, done = (round(rate * level.seconds) for rate in (level.offered, level.completed))
    if not level.sustained:
        clients = level.use.client >= _BUSY_CLIENTS * level.clients
        return SearchTrial.NOT_OFFERED if clients else SearchTrial.FAILED, level.reason
    if done + 1 < _DONE * asked:
        refused = f", and {level.failures:,} were refused" if level.failures else ""
        within = f"within {show_duration(level.seconds)}"
        return SearchTrial.FAILED, f"{done:,} of {asked:,} statements were done {within}{refused}"
    over = _over(goals(objective), level)
    return (SearchTrial.FAILED, over) if over else (SearchTrial.HELD, "")


def _over(wanted: tuple[Goal, ...], level: LevelResult) -> str:
    """Return in words the limits that the response times of a trial exceed; "" if there are none.

    `wanted` are the limits of percentiles, `level` has the response times.
    """
    over = [(name, missed(wanted, times)) for name, times in timed(level).items()]
    return ", ".join(f"{name}{words}" for name, words in over if words)
