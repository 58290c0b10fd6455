"""The results of the step `capacity`, a search for the highest rate, recorded for the report."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from replayer.analysis.capacity import saturation
from replayer.analysis.capacity.capacity_search import Capacity, SearchTrial
from replayer.analysis.capacity.saturation import LevelPoint
from replayer.load import other_sessions, server_clock
from replayer.load.level import LevelResult
from replayer.load.rows import level_columns, resource_columns
from replayer.model import Better
from replayer.run.step_recorder import StepRecorder
from replayer.steps.capacity.spec import Spec
from replayer.units import show_rate, show_with_noun
from replayer.watch.histogram import Latencies

_NEITHER = Better.NEITHER
_HOLDS = {
    SearchTrial.HELD: "within",
    SearchTrial.FAILED: "exceeded",
    SearchTrial.NOT_OFFERED: "not offered",
}
"""End of the long run at the required rate -> value of the fact capacity.held."""
DISTURBED = "disturbed"
"""The result of a long run at the required rate that failed, perhaps because of other programs."""
_DISTURBED = 0.1
"""Share of the time of all processors that other programs use, above which a trial is disturbed."""
_ALMOST = 0.999
"""Factor applied to a multiple before comparing, which allows for rounding errors."""


@dataclass(frozen=True, eq=False)
class CapacityTrial:
    """One attempt to sustain a rate, which is a multiple of the required rate.

    `level` has all that was measured, `point` the numbers from which saturation is judged, and
    `ended` is the result.
    """

    multiple: float
    level: LevelResult
    point: LevelPoint
    ended: SearchTrial
    reason: str
    """The reason why the rate did not hold, "" if it did."""
    void: bool = False
    """The trial does not count, and was run again: it failed while it was disturbed."""

    @property
    def disturbed(self) -> bool:
        """Return whether other programs used so much CPU time that it may explain a failure."""
        others = self.level.use.foreign
        return others is not None and (others.cpu_share or 0.0) > _DISTURBED


def disturbance(trials: Sequence[CapacityTrial]) -> str:
    """Return words on the other programs that used the processors during the given trials."""
    known = [foreign for trial in trials if (foreign := trial.level.use.foreign) is not None]
    most = max((one.cpu_share or 0.0 for one in known), default=0.0)
    programs = ", ".join(known[-1].programs) if known else ""
    return (
        f"others used {most:.0%} of the processors"
        f"{f' in {len(trials)} trials in a row' if len(trials) > 1 else ' meanwhile'}"
        f"{f' ({programs})' if programs else ''}"
    )


def timed(level: LevelResult) -> dict[str, Latencies]:
    """Return name of a group -> response times of those statements that the objective limits.

    The name of the group of statements that read and write is "".  Statements that only burn CPU
    time have their own group: they must not dilute the times of the others.  Scans are left out: a
    scan takes time in proportion to its table, so only its rate must be kept, and the objective
    does not apply to it.
    """
    by_kind = level.response_by_kind
    groups = {
        "": [times for kind, times in by_kind.items() if kind not in _APART],
        "CPU alone: ": [times for kind, times in by_kind.items() if kind == "compute"],
    }
    return {name: Latencies.of(times) for name, times in groups.items() if times}


_APART = frozenset({"scan", "compute"})


def _judged(level: LevelResult) -> Latencies:
    """Return the response times to show for a trial.

    They are those of the group in `timed` that is slower, judged by the 99th percentile, or those
    of all statements if `timed` has no group.
    """
    slower = sorted(timed(level).values(), key=lambda times: times.percentile_ns(99))
    return slower[-1] if slower else level.response


def record_trial(findings: StepRecorder, trial: CapacityTrial) -> None:
    """Record one trial (attempt to sustain a rate) as a row of the table `trials`."""
    findings.row("trials", **_columns(trial))


def _columns(trial: CapacityTrial) -> dict[str, Any]:
    level = trial.level
    times = _judged(level) if level.sustained and level.response.operations else None
    longest = max((lag.longest for lag in level.lag), default=0.0)
    return {
        "multiple": round(trial.multiple, 6),
        "asked_per_second": round(level.asked.rate or 0.0, 3),
        "offered_per_second": round(level.offered, 3),
        "seconds": round(level.seconds, 3),
        "ended": "void" if trial.void else trial.ended.value,
        "reason": trial.reason,
        "lag_s": longest,
        **level_columns(trial.point, level, times),
    }


def record(
    spec: Spec,
    findings: StepRecorder,
    found: Capacity,
    trials: Sequence[CapacityTrial],
    *,
    cut_short: bool = False,
) -> None:
    """Record the result of the search, and the resource that limited the rates not sustained.

    `found` is that result.  `trials` are all that were run, also those that do not count.
    `cut_short` is True if the search ended early, so that a higher rate may be possible.
    """
    if found.accepted is not None:
        findings.measure("capacity.multiple", found.accepted, "times")
        findings.measure(
            "capacity.rate", found.accepted * spec.rate, "1/s", says="capacity.multiple"
        )
        findings.measure("capacity.low", found.low, "times", _NEITHER)
    if found.refused is not None:
        findings.measure("capacity.refused", found.refused, "times", _NEITHER)
        findings.measure("capacity.high", found.high, "times", _NEITHER)
    findings.facts |= {
        "capacity.required_per_second": spec.rate,
        "capacity.objective": spec.slo,
        "capacity.clear": found.clear,
        "capacity.disputed": tuple(f"{multiple:.3f}" for multiple in found.disputed),
    }
    if found.not_offered is not None:
        rate = show_rate(found.not_offered * spec.rate)
        findings.note(f"the clients could not offer {rate}/s: more is not known of the server")
    elif cut_short:
        findings.note("the search was cut short: a higher multiple may have been found after it")
    elif found.refused is None:
        rate = show_rate((found.accepted or 0.0) * spec.rate)
        findings.note(f"up to {rate}/s, the most that was tried, nothing failed: set most higher")
    if not found.clear and not cut_short:
        findings.note(
            "trials of the same rate disagreed between what was accepted and what was refused: "
            "let a trial take longer"
        )
    void = sum(trial.void for trial in trials)
    if void:
        findings.note(
            f"others used the processors in {void} of {len(trials)} trials, which did not hold: "
            f"these do not count"
        )
    _note_refused(findings, trials, "in these trials")
    findings.notes += server_clock.notes(trial.level.activity.stepped for trial in trials)
    findings.notes += other_sessions.notes_of_windows(
        (trial.level.others, trial.level.activity) for trial in trials
    )
    _record_first(findings, found, trials)


def _note_refused(findings: StepRecorder, trials: Sequence[CapacityTrial], where: str) -> None:
    refused = sum(trial.level.failures for trial in trials)
    if refused:
        were, they = ("was", "it is") if refused == 1 else ("were", "they are")
        findings.note(
            f"{show_with_noun(refused, 'statement')} {were} refused {where} for a deadlock or a "
            f"lock that came too late; {they} in no percentile"
        )


def _record_first(findings: StepRecorder, found: Capacity, trials: Sequence[CapacityTrial]) -> None:
    """Record the resource that limited the trials in which the rate was not sustained.

    They are the trials at the lowest rate that the search refused, and above it.
    """
    failed = [trial for trial in trials if trial.ended is SearchTrial.FAILED and not trial.void]
    if not failed:
        return
    wanted = found.refused if found.refused is not None else min(t.multiple for t in failed)
    limit = [t.point for t in failed if t.multiple > _ALMOST * wanted]
    counted = [trial.point for trial in trials if not trial.void]
    judged = saturation.at_limit(counted, limit)
    for load in judged.loads:
        findings.row("resources", **resource_columns(load))
    findings.facts |= {
        "capacity.first": judged.resource or "unclear",
        "capacity.proof": judged.proof,
    }


def record_hold(findings: StepRecorder, trial: CapacityTrial) -> None:
    """Record the numbers of the long run at the required rate, and if it kept the objective.

    The objective is the key `slo`: limits of response times.
    """
    level = trial.level
    findings.row("hold", **_columns(trial))
    _note_refused(findings, [trial], "while the required rate was held")
    findings.facts["capacity.held"] = DISTURBED if trial.void else _HOLDS[trial.ended]
    findings.facts["capacity.held_why"] = (
        f"{trial.reason}, but {disturbance([trial])}" if trial.void else trial.reason
    )
    findings.measure("capacity.hold.completed", level.completed, "1/s", _NEITHER)
    if level.sustained:
        findings.percentiles("capacity.hold.response", level.response)
        findings.histogram("hold", level.response)
