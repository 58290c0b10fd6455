"""The highest multiple of a required rate that is sustained within an objective, and its hold.

Statements arrive at a rate, whether the database is ready or not.  The multiple is doubled, then
bisected (analysis/capacity_search.py), the accepted one is run again, and at last the required rate
is held for long.  What the result has of it:

facts         capacity.clear (false: trials disagreed near the end), capacity.disputed,
              capacity.first, capacity.proof (what gave first at the refused rate), capacity.held
              (`within`, `exceeded` or why it was not held), capacity.held_why
measurements  capacity.multiple, capacity.low and capacity.high (its 95 percent interval),
              capacity.refused, capacity.rate; capacity.hold.*
tables        trials (every one, in order), resources
"""

from collections.abc import Sequence
from dataclasses import replace

from replayer.analysis import capacity_search
from replayer.analysis.capacity_search import Limits
from replayer.analysis.capacity_search import Trial as Ended
from replayer.engines.connection import Database
from replayer.errors import Interrupted, ReplayerError
from replayer.load.level import Asked, Level, measure_level
from replayer.load.objective import goals, missed
from replayer.load.resources import measure_point
from replayer.load.spec import check_load, ready
from replayer.run.context import Context
from replayer.run.footprint import Footprint
from replayer.steps.capacity.outcome import Trial, record, record_hold, record_trial
from replayer.steps.capacity.spec import Spec

HAS_WINDOW = False
"""Every trial has one of its own."""
_SAMPLE_SECONDS = 0.1
_WARM_UP_SECONDS = 5.0
_BUSY_CLIENTS = 0.9
_MOST_VOID = 2
"""A rate is tried so often again where others were in the way; then what it came to counts."""
_ALMOST = 0.999
"""A multiple of 1 that arithmetic made a little less."""


def on_client_hosts(_spec: Spec) -> bool:
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
        trials = _searched(spec, asked, context, database)
        accepted = any(t.ended is Ended.HELD and t.multiple > _ALMOST for t in trials)
        if spec.hold and accepted:
            hold = replace(required, seconds=spec.hold).drawn(len(trials) + 1)
            held = _trial(spec, hold, context, database)
            record_hold(context.findings, held)
    if not spec.hold:
        context.findings.facts["capacity.held"] = "not asked for"
    elif not accepted:
        context.findings.facts["capacity.held"] = "not held: the required rate was not sustained"


def _searched(spec: Spec, asked: Asked, context: Context, database: Database) -> Sequence[Trial]:
    """Return the trials of a search, which is written down when it has ended."""
    trials: list[Trial] = []

    def run_once(multiple: float) -> Trial:
        title = f"{multiple:.2f} times the required rate"
        wanted = replace(asked, rate=multiple * spec.rate, seconds=spec.trial, title=title)
        return _trial(spec, wanted.drawn(len(trials) + 1), context, database)

    def run_one(multiple: float) -> Ended:
        for attempt in range(_MOST_VOID + 1):
            trial = run_once(multiple)
            # A failure then says nothing of the machine, nor of the clients; a success does.
            disturbed = trial.ended is not Ended.HELD and trial.disturbed
            trials.append(replace(trial, void=disturbed and attempt < _MOST_VOID))
            record_trial(context.findings, trials[-1])
            if not trials[-1].void:
                break
        return trial.ended

    limits = Limits(
        resolution=spec.resolution, least=spec.least, most=spec.most, trials=spec.trials
    )
    try:
        found = capacity_search.search(run_one, limits)
    except (ReplayerError, Interrupted):
        # What held until then is worth minutes, and says what the machine can do at least.
        counted = [(trial.multiple, trial.ended) for trial in trials if not trial.void]
        if counted:
            found = capacity_search.so_far(counted, limits)
            record(spec, context.findings, found, trials, cut_short=True)
        raise
    record(spec, context.findings, found, trials)
    return trials


def _trial(spec: Spec, wanted: Asked, context: Context, database: Database) -> Trial:
    """Measure a rate, and tell whether it held."""
    level, used = measure_point(wanted, spec.given_ceilings, context, database)
    ended, reason = _ended(spec, level)
    return Trial((wanted.rate or 0.0) / spec.rate, level, used, ended, reason)


def _ended(spec: Spec, level: Level) -> tuple[Ended, str]:
    """Return how a trial ended, and why if it did not hold."""
    if not level.sustained:
        clients = level.use.client >= _BUSY_CLIENTS * level.clients
        return Ended.NOT_OFFERED if clients else Ended.FAILED, level.reason
    over = missed(goals(spec.slo), level.response)
    return (Ended.FAILED, over) if over else (Ended.HELD, "")
