"""The results of a ramp, recorded for the report: levels, scalability law, limiting resource.

A ramp measures throughput at several numbers of sessions.  Each number is a level.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from replayer.analysis.capacity import saturation, scalability
from replayer.analysis.capacity.saturation import LITTLE, LevelPoint, Saturation
from replayer.analysis.capacity.scalability import Estimate, Scalability
from replayer.errors import ReplayerError
from replayer.load import other_sessions, server_clock
from replayer.load.level import LevelResult
from replayer.load.rows import level_columns, resource_columns
from replayer.model import Better
from replayer.run.context import Context
from replayer.run.step_recorder import StepRecorder
from replayer.steps.ramp.spec import Spec
from replayer.units import show_with_noun
from replayer.watch import interference
from replayer.watch.histogram import Latencies

_FOREIGN_CPU = 0.05
_NEITHER = Better.NEITHER


@dataclass(frozen=True, eq=False)
class RampTrial:
    """One measurement of a level (number of sessions); `settled` is True if the rate was steady.

    `level` has all that was measured, `point` the numbers from which saturation is judged.
    """

    level: LevelResult
    point: LevelPoint
    settled: bool


def record_trial(findings: StepRecorder, trial: RampTrial) -> None:
    """Record one measurement of a level (number of sessions) as a row of the table `trials`."""
    level = trial.level
    findings.row(
        "trials",
        sessions=level.asked.sessions,
        seconds=round(level.seconds, 3),
        steady=trial.settled,
        **level_columns(trial.point, level, level.service),
    )


def record(spec: Spec, context: Context, trials: Sequence[RampTrial]) -> None:
    """Record the results of a ramp, from all measurements of all levels (numbers of sessions).

    These are a row for each level, the scalability law that fits them, and the limiting resource.
    """
    findings = context.findings
    points = [trial.point for trial in trials]
    found = saturation.first(points)
    law = _law(spec, findings, trials)
    for sessions, same in _by_level(trials):
        findings.row("levels", **_level_row(sessions, same, law))
        for name, share in _busy(same).items():
            findings.row("uses", sessions=sessions, resource=name, busy_share=share)
    for load in found.loads:
        findings.row("resources", **resource_columns(load))
    if law is not None:
        _record_law(findings, law)
    _measure(findings, trials, found)
    if known := [trial.level.use.foreign for trial in trials if trial.level.use.foreign]:
        # The limits of cgroups are among the resources that a ramp reports.
        limits: dict[str, Any] = {"held_back": {}, "disk_limits": {}}
        findings.foreign = interference.busiest(known).model_copy(update=limits)
    findings.facts |= {
        "ramp.first": found.resource or "unclear",
        "ramp.proof": found.proof,
        "ramp.flat": found.flat,
        "ramp.waits": tuple(_waits(trials, found.knee)),
    }
    findings.notes += [*_notes(trials, found)]
    findings.notes += server_clock.notes(trial.level.activity.stepped for trial in trials)
    findings.notes += other_sessions.notes_of_windows(
        (trial.level.others, trial.level.activity) for trial in trials
    )


def _by_level(trials: Sequence[RampTrial]) -> list[tuple[int, list[RampTrial]]]:
    levels = sorted({trial.point.sessions for trial in trials})
    return [(level, [t for t in trials if t.point.sessions == level]) for level in levels]


def _law(spec: Spec, findings: StepRecorder, trials: Sequence[RampTrial]) -> Scalability | None:
    """Return the scalability law that fits the mean throughput of each level (number of sessions).

    If none fits, add a note with the reason, and return None.
    """
    means = [
        (level, fmean(trial.point.throughput for trial in same))
        for level, same in _by_level(trials)
    ]
    try:
        return scalability.fit(
            [level for level, _ in means], [mean for _, mean in means], seed=spec.seed
        )
    except ReplayerError as error:
        findings.note(str(error))
        return None


def _level_row(sessions: int, same: Sequence[RampTrial], law: Scalability | None) -> dict[str, Any]:
    """Return the row of one level (number of sessions) in the table `levels`: means of its repeats.

    `same` are the repeats. The row also has the statements per second that `law` predicts for this
    number of sessions, None without a law.
    """
    service = Latencies.of(trial.level.service for trial in same)
    rows = [level_columns(trial.point, trial.level, service) for trial in same]
    throughputs = [trial.point.throughput for trial in same]
    return {
        "sessions": sessions,
        "repeats": len(same),
        **{key: _mean([row[key] for row in rows]) for key in rows[0]},
        "least_per_second": round(min(throughputs), 3),
        "most_per_second": round(max(throughputs), 3),
        "law_per_second": None if law is None else round(law.throughput(sessions), 3),
    }


def _busy(same: Sequence[RampTrial]) -> dict[str, float]:
    """Return resource -> share of its capacity that was used, from 0 to 1.

    A share is the mean over `same`, the repeats of one number of sessions.  Resources of unknown
    capacity are left out.
    """
    names = dict.fromkeys(name for trial in same for name in trial.point.uses)
    shares = {
        name: [
            share
            for trial in same
            if name in trial.point.uses
            and (share := trial.point.uses[name].utilization) is not None
        ]
        for name in names
    }
    return {name: round(fmean(known), 4) for name, known in shares.items() if known}


def _mean(values: Sequence[Any]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _record_law(findings: StepRecorder, law: Scalability) -> None:
    estimates: Mapping[str, Estimate | None] = {
        "scale": law.scale,
        "contention": law.contention,
        "coherency": law.coherency,
        "peak": law.peak,
    }
    for name, estimate in estimates.items():
        if estimate is not None:
            high = None if estimate.high == float("inf") else estimate.high
            row = {"value": estimate.value, "low": estimate.low, "high": high}
            findings.row("scalability", coefficient=name, **row)
    findings.measure("ramp.contention", law.contention.value, "", _NEITHER)
    findings.measure("ramp.coherency", law.coherency.value, "", _NEITHER)
    if law.peak is not None:
        findings.measure("ramp.peak", law.peak.value, "sessions", _NEITHER)


def _measure(findings: StepRecorder, trials: Sequence[RampTrial], found: Saturation) -> None:
    findings.measure("ramp.throughput", found.highest.value, "1/s")
    findings.measure("ramp.knee", found.knee, "sessions", _NEITHER)
    at_knee = [trial for trial in trials if trial.point.sessions == found.knee]
    service = Latencies.of(trial.level.service for trial in at_knee)
    findings.percentiles("ramp.knee.service", service)
    findings.histogram("knee.service", service)
    lead = found.loads[0] if found.loads else None
    if lead is not None and lead.name == found.resource and lead.bound is not None:
        findings.measure("ramp.bound", lead.bound, "1/s", _NEITHER)


def _waits(trials: Sequence[RampTrial], knee: int) -> Iterator[str]:
    """Yield texts `NAME SESSIONS` on the waits in the server, the wait of most sessions first.

    SESSIONS is the average number of sessions in the wait NAME; waits below 0.05 are left out.  The
    average is over all levels with at least `knee` sessions, the fewest with nearly the highest
    throughput.
    """
    flat = [trial.level for trial in trials if trial.point.sessions >= knee]
    names = {name for level in flat for name in level.waits}
    means = {name: fmean(level.waits.get(name, 0.0) for level in flat) for name in names}
    for name, mean in sorted(means.items(), key=lambda item: -item[1]):
        if mean >= 0.05:
            yield f"{name} {mean:.2f}"


def _notes(trials: Sequence[RampTrial], found: Saturation) -> Iterator[str]:
    missed = max((trial.point for trial in trials), key=lambda point: point.little)
    if missed.little > LITTLE:
        yield (
            f"Little's law is missed by {missed.little:.1%} at {missed.sessions} sessions: "
            f"throughput, times and sessions do not belong together there"
        )
    restless = sorted({trial.point.sessions for trial in trials if not trial.settled})
    if restless:
        numbers = ", ".join(map(str, restless))
        yield f"not steady within the longest time at {numbers} sessions: set longest higher"
    if not found.flat:
        yield (
            f"throughput still grows at {found.knee} sessions, the most that were measured: "
            f"set levels higher"
        )
    shares = [t.level.use.foreign.cpu_share or 0.0 for t in trials if t.level.use.foreign]
    disturbed = sum(share > _FOREIGN_CPU for share in shares)
    if disturbed:
        yield (
            f"others used up to {max(shares):.0%} of the processors' time in {disturbed} of "
            f"{len(trials)} measurements"
        )
    failures = sum(trial.level.failures for trial in trials)
    if failures:
        were = "was" if failures == 1 else "were"
        many = f"{show_with_noun(failures, 'statement')} {were}"
        yield f"{many} refused for a deadlock or a lock that came too late"
