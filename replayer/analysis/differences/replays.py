"""Comparison of two groups of replays of one capture: verdicts on each fingerprint and on all work.

A fingerprint stands for all statements that are the same except for their values.  Its times and
errors are judged like any metric: by a rank test over the units, with p values corrected for all
fingerprints.  Answers do not depend on chance, and need no test.  They diverge if they are the same
in all replays of each side, but differ between the sides.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from replayer.analysis.differences import divergence
from replayer.analysis.differences.comparison import (
    THRESHOLD,
    Comparison,
    MetricRow,
    MetricVerdict,
    judged,
)
from replayer.analysis.differences.samples import Side, counted
from replayer.errors import Impossible
from replayer.model import Better, Measurement, Noun, Replayed, Run, StepResult

ALLOWED = "replay.ran"
"""The value of --allow with which replays are compared although too little of their work ran."""
_MOST = 1000
"""Limit on the fingerprints that are judged: those with the most seconds."""
MOVED = frozenset({MetricVerdict.BETTER, MetricVerdict.WORSE, MetricVerdict.DIFFERS})
_WHOLE = "whole"
_TIME, _ERRORS = "time", "errors"


class Diverging(Noun):
    """A difference between the two sides in the answers to one fingerprint, or in its errors.

    A fingerprint stands for all statements that differ only in their values.
    """

    what: str
    """`errors`, `rows`, `answers`, or `varying` (other rows of a statement that always varies)."""
    base: str
    other: str
    where: str = ""
    """The first place in the capture where the answers diverge; "" if it is not known."""


class FingerprintComparison(Noun):
    """Times, errors and answers of one fingerprint in the replays of both sides.

    A fingerprint stands for all statements that differ only in their values.
    """

    step: str
    fingerprint: str
    text: str
    """The statement without its values."""
    kind: str
    executions: tuple[float, float]
    """Executions per replay, on average: of the base and of the other side."""
    seconds: tuple[float, float]
    """Seconds of all executions of a replay together, on average: of the base and of the other."""
    time: MetricRow | None
    """Seconds per execution; None if the fingerprint takes too little time to be judged."""
    errors: MetricRow | None
    """Percent of executions with an error that does not only follow from an earlier error."""
    diverging: tuple[Diverging, ...] = ()

    @property
    def cost(self) -> float:
        """Return the seconds of the fingerprint's executions in one replay, on the slower side.

        They are an average over the replays of this side.
        """
        return max(self.seconds)

    @property
    def moved(self) -> bool:
        """Return whether the time or the errors of the fingerprint were shown to differ."""
        rows = [row for row in (self.time, self.errors) if row is not None]
        return any(row.verdict in MOVED for row in rows)

    @property
    def diverges(self) -> bool:
        """Return whether the answers diverge, unless the statement is one that always varies."""
        return any(one.what != "varying" for one in self.diverging)


class Compared(Noun):
    """Times, errors and fingerprints of one step in the replays of both sides."""

    step: str
    time: MetricRow | None
    """Mean seconds per execution over the common fingerprints that ran in every replay."""
    errors: MetricRow | None
    """Percent of these executions with an error that does not only follow from an earlier error."""
    fingerprints: tuple[FingerprintComparison, ...]
    """The common fingerprints; those with the most seconds come first."""
    only: tuple[int, int]
    """The numbers of fingerprints that only the base, and only the other side, replayed."""
    left_out: tuple[str, ...] = ()
    """The common fingerprints that did not run in every replay; `time` and `errors` are without
    them."""


class ReplayComparison(Comparison):
    """The comparison of two groups of runs with replays of one capture.

    In addition to a comparison's verdicts on metrics, it has those on each fingerprint.
    """

    replays: tuple[Compared, ...]


class _Replay(NamedTuple):
    """One replay of a step: the id of its run, and the results by fingerprint."""

    run: str
    replayed: tuple[Replayed, ...]


def compare(
    comparison: Comparison,
    base: Side,
    other: Side,
    *,
    allowed: Sequence[str] = (),
    threshold: float = THRESHOLD,
) -> Comparison:
    """Return `comparison` with the results of each fingerprint, if both sides have replays.

    Without common replays it is returned unchanged.  `threshold` is the share below which a
    difference does not matter.  Raises Impossible if less than 95 percent of a replay's work ran,
    or if less than 95 percent is common to both sides.  Neither is checked if `allowed`, the user's
    --allow, contains ALLOWED.
    """
    names = [name for name in _steps(base.runs) if name in _steps(other.runs)]
    if not names:
        return comparison
    if ALLOWED not in allowed:
        for name in names:
            _refuse_partial(name, base, other)
    replays = tuple(_compared(name, comparison, base, other, threshold) for name in names)
    return ReplayComparison(**dict(comparison), replays=replays)


def rows(comparison: Comparison) -> list[MetricRow]:
    """Return all judged rows, of times and errors, of the replays in a comparison.

    Returns [] if there are no replays.
    """
    if not isinstance(comparison, ReplayComparison):
        return []
    judged_rows = [row for one in comparison.replays for row in (one.time, one.errors)]
    for one in (one for compared in comparison.replays for one in compared.fingerprints):
        judged_rows += [one.time, one.errors]
    return [row for row in judged_rows if row is not None]


def _steps(runs: Iterable[Run]) -> list[str]:
    steps = (step.name for run in runs for step in run.steps if step.replayed)
    return list(dict.fromkeys(steps))


def _replays(side: Side, name: str) -> list[_Replay]:
    return [
        _Replay(run.id, step.replayed)
        for run in side.runs
        for step in run.steps
        if step.name == name and step.replayed
    ]


def _refuse_partial(name: str, base: Side, other: Side) -> None:
    """Raise Impossible if less than 95 percent of a replay's work ran, or is common to both sides.

    The replays are those of the step `name`.
    """
    sides = [(side, _replays(side, name)) for side in (base, other)]
    for side, replays in sides:
        for one in replays:
            share = divergence.ran(one.replayed)
            if share < divergence.LEAST_RAN:
                raise Impossible(
                    f"not comparable: only {share:.1%} of the work of {side.name} ran ({one.run}), "
                    f"and {divergence.LEAST_RAN:.0%} is needed; if they are to be compared "
                    f"nevertheless, allow that with --allow {ALLOWED}"
                )
    (_, ours), (_, theirs) = sides
    why = divergence.not_comparable(ours[0].replayed, theirs[0].replayed)
    if why:
        raise Impossible(f"{why}: these are replays of other captures, or of other parts of one")


def _compared(
    name: str, comparison: Comparison, base: Side, other: Side, threshold: float
) -> Compared:
    """Return the comparison of the replays of the step `name`, by all common fingerprints.

    `threshold` is the share below which a difference does not matter.
    """
    sides = _replays(base, name), _replays(other, name)
    known = [_total(replays) for replays in sides]
    common = [one for one in known[0] if one in known[1]]
    # A mean with a slow statement cannot be compared with one without it.
    ran = set.intersection(*(_ran(one) for replays in sides for one in replays))
    weights = {one: known[0][one].planned for one in common if one in ran}
    heavy = sorted(common, key=lambda one: -max(side[one].service_s for side in known))[:_MOST]
    rows = judged(
        *(_as_metrics(side, name, weights, heavy) for side in (base, other)),
        unit=comparison.unit,
        threshold=threshold,
    )
    by_metric = {row.metric: row for row in rows}
    diverging = _diverging(*sides)
    counts = tuple(len(replays) for replays in sides)
    fingerprints = [
        FingerprintComparison(
            step=name,
            fingerprint=one,
            text=known[0][one].text,
            kind=known[0][one].kind,
            executions=_mean(counts, *(side[one].executions for side in known)),
            seconds=_mean(counts, *(side[one].service_s for side in known)),
            time=by_metric.get(f"{one}.{_TIME}"),
            errors=by_metric.get(f"{one}.{_ERRORS}"),
            diverging=tuple(diverging.get(one, ())),
        )
        for one in common
    ]
    return Compared(
        step=name,
        time=by_metric.get(f"{_WHOLE}.{_TIME}"),
        errors=by_metric.get(f"{_WHOLE}.{_ERRORS}"),
        fingerprints=tuple(sorted(fingerprints, key=lambda one: -one.cost)),
        only=(len(known[0]) - len(common), len(known[1]) - len(common)),
        left_out=tuple(one for one in common if one not in ran),
    )


def _ran(replay: _Replay) -> set[str]:
    return {one.fingerprint for one in replay.replayed if one.executions}


def _total(replays: Iterable[_Replay]) -> dict[str, Replayed]:
    """Return fingerprint -> its results, with executions and seconds summed over `replays`."""
    total: dict[str, Replayed] = {}
    for one in (one for replay in replays for one in replay.replayed):
        before = total.get(one.fingerprint)
        total[one.fingerprint] = (
            one
            if before is None
            else before.model_copy(
                update={
                    "planned": before.planned + one.planned,
                    "executions": before.executions + one.executions,
                    "service_s": before.service_s + one.service_s,
                }
            )
        )
    return total


def _mean(counts: tuple[int, ...], base: float, other: float) -> tuple[float, float]:
    return base / counts[0], other / counts[1]


def _as_metrics(side: Side, name: str, weights: Mapping[str, int], heavy: Sequence[str]) -> Side:
    """Return a side whose step `name` has the times and errors of fingerprints as measurements.

    `weights` is fingerprint -> planned executions of the base, for those that ran in every replay;
    `heavy` are the judged fingerprints.
    """
    runs = []
    for run in side.runs:
        # The step's own metrics decide which repeats count.
        kept, _ = counted(run)
        steps = [
            step.model_copy(
                update={
                    "measurements": tuple(_measured(step, weights, heavy)),
                    "steady": None,
                    "series": None,
                }
            )
            for step in kept
            if step.name == name and step.replayed
        ]
        runs.append(run.model_copy(update={"steps": tuple(steps)}))
    return Side(side.name, tuple(runs))


def _measured(
    step: StepResult, weights: Mapping[str, int], heavy: Sequence[str]
) -> Iterator[Measurement]:
    """Yield measurements of a replay: seconds per execution and percent of errors.

    First come those of the whole work, then those of each fingerprint in `heavy`.  `weights` is
    fingerprint -> executions that the base planned, so that both sides have the same work.
    """
    replayed = {one.fingerprint: one for one in step.replayed if one.executions}
    # The work must be the same on both sides: each fingerprint as often as the base planned it.
    known = [
        (one, weights[one.fingerprint]) for one in replayed.values() if one.fingerprint in weights
    ]
    statements = sum(weight for _, weight in known)
    if statements:
        whole = sum(_seconds(one) * weight for one, weight in known)
        errors = sum(_failing(one) * weight for one, weight in known)
        yield _measurement(_WHOLE, _TIME, whole / statements, leading=True)
        yield _measurement(_WHOLE, _ERRORS, errors / statements, leading=True)
    for fingerprint in heavy:
        one = replayed.get(fingerprint)
        if one is not None:
            yield _measurement(fingerprint, _TIME, _seconds(one))
            yield _measurement(fingerprint, _ERRORS, _failing(one))


def _measurement(of: str, what: str, value: float, *, leading: bool = False) -> Measurement:
    unit = "s" if what == _TIME else "%"
    return Measurement(
        metric=f"{of}.{what}", value=value, unit=unit, better=Better.LESS, leading=leading
    )


def _seconds(one: Replayed) -> float:
    return one.service_s / one.executions


def _failing(one: Replayed) -> float:
    return 100 * sum(one.errors.values()) / one.executions


def _diverging(base: Sequence[_Replay], other: Sequence[_Replay]) -> dict[str, list[Diverging]]:
    """Return fingerprint -> divergences of the sides, without answers that vary within a side."""
    unstable = _unstable(base) | _unstable(other)
    diverging: dict[str, list[Diverging]] = {}
    for one in divergence.against_run(other[0].replayed, base[0].replayed):
        fingerprint = one.replayed.fingerprint
        if (fingerprint, _plain(one.what)) not in unstable:
            diverging.setdefault(fingerprint, []).append(
                Diverging(
                    what=one.what,
                    base=one.theirs,
                    other=one.ours,
                    where="" if one.where is None else one.where.words,
                )
            )
    return diverging


def _unstable(replays: Sequence[_Replay]) -> set[tuple[str, str]]:
    """Return each (fingerprint, `errors` or `rows`) that differs among the replays of one side.

    All replays are compared with the first one.  `rows` stands for answers, too.  If the errors
    differ, the pair with `rows` is returned as well.
    """
    return {
        (one.replayed.fingerprint, kind)
        for replay in replays[1:]
        for one in divergence.against_run(replay.replayed, replays[0].replayed)
        for kind in ("errors", "rows")
        if kind == _plain(one.what) or one.what == "errors"
    }


def _plain(what: str) -> str:
    return "errors" if what == "errors" else "rows"
