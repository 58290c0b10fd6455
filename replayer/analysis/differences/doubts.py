"""Doubts about the results of a comparison: which do not count, and which steps are not judged.

A single run is not believed where a step did not read what was asked of it, such as a cold read
that was hot.  A comparison does not count such results either, unless all results of both sides
reached the same.  Nor does it count results that other programs disturbed, if they disturbed one
side more than the other: then they may be all that the sides differ by.  A disturbance of both
sides alike is only reported.  If no result of a side would be left, all of its results are shown,
and the step is not judged.  Nor is a step that has results on one side only.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from replayer.analysis.advice import as_asked, warnings
from replayer.analysis.differences import statistics
from replayer.analysis.differences.samples import Side
from replayer.model import Advice, Run, Status, StepResult

_DISTURBING = {warning.__name__: warning for warning in warnings.DISTURBING}
_NOT_AS_ASKED = "as_asked"
_FACTOR = 2.0
"""Other programs disturbed both sides alike if the sides' mean levels differ by this at most.

And no rank test shows that they disturbed the runs of one side more strongly."""
_TOO_LITTLE = 0.02
"""Means that differ by this at most are alike in any case: it is 2 percent of the processors."""
_REPORTED = frozenset({"coldness", "verdict", "unsteady", "warming_up", "moved", "repeats"})
"""Warnings about a run that a comparison judges by itself, and reports in its own words."""
_NOTHING = "nothing was measured"
_NUMBER = re.compile(r"\d[\d.,]*")
_Results = Sequence[tuple[Run, StepResult]]
"""The finished results of one step on one side, each with its run."""


@dataclass(frozen=True)
class CountedResults:
    """Both sides of a comparison, with the results that count."""

    base: Side
    other: Side
    unjudged: Mapping[str, str]
    """Name of a step -> why its metrics are not judged."""
    remarks: tuple[str, ...]
    """Sentences on results that do not count, and on warnings about the runs."""


@dataclass
class _Found:
    """The consequences of the doubts about the results of all steps."""

    unjudged: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    uneven: dict[str, set[str]] = field(default_factory=dict)
    """Doubt -> the steps where it makes a difference between the sides."""
    left_out: set[int] = field(default_factory=set)
    """The id() of each result that does not count."""


def count_results(base: Side, other: Side, by: str = "") -> CountedResults:
    """Return both sides with the results that count, the steps that are not judged, and remarks.

    `by` is the fact by which the groups were formed.  If that is what a step reached, such as
    walk.cold, the comparison is about it, and no result is left out for it.
    """
    found = _Found()
    _find_missing((base, other), found)
    steps = _by_step(base), _by_step(other)
    for name in steps[0]:
        if name not in steps[1]:
            continue
        sides: list[tuple[str, _Results]]
        sides = [(base.name, steps[0][name]), (other.name, steps[1][name])]
        for doubt in (_NOT_AS_ASKED, *_DISTURBING):
            if doubt != _NOT_AS_ASKED or by not in {f"{name}.cold", f"{name}.verdict"}:
                _examine(name, doubt, sides, found)
    remarks = (*(f"{name}: {why}" for name, why in found.unjudged.items()), *found.remarks)
    base, other = (_without(side, found.left_out) for side in (base, other))
    warned = _warned(base, other, found.uneven)
    return CountedResults(base, other, found.unjudged, (*remarks, *warned))


def leave_out_other_reads(runs: Sequence[Run]) -> tuple[list[Run], dict[str, str]]:
    """Return the runs without results that did not read as requested, and step -> a sentence.

    As in a comparison, such results count if all results of the step reached the same.
    """
    side, remarks, left_out = Side("", tuple(runs)), dict[str, str](), set[int]()
    for name, results in _by_step(side).items():
        own = {id(step): why for _, step in results if (why := as_asked.other_than_asked(step))}
        if not own:
            continue
        many = f"{next(iter(own.values()))}, in {_share(results, own)}"
        if _are_alike(results):
            remarks[name] = f"{name}: {many}"
            continue
        remarks[name] = f"{name}: {many}, which do not count"
        left_out.update(own)
    return list(_without(side, left_out).runs), remarks


def find_other_reads(runs: Sequence[Run]) -> tuple[set[str], dict[str, str]]:
    """Return the ids of runs in which a step did not read as in most, and step -> why.

    Results that read as requested are alike.  If as many did not, these are the others.
    """
    others, remarks = set[str](), dict[str, str]()
    for name, results in _by_step(Side("", tuple(runs))).items():
        whys = [as_asked.other_than_asked(step) for _, step in results]
        states = [_state(step) if why else () for (_, step), why in zip(results, whys, strict=True)]
        most = max(sorted(dict.fromkeys(states), key=bool), key=states.count)
        own = {
            id(step): why or "read as asked, and most did not"
            for (_, step), why, state in zip(results, whys, states, strict=True)
            if state != most
        }
        if own:
            why = next(iter(own.values()))
            remarks[name] = f"{name}: {why}, in {_share(results, own)}, which do not count"
            others.update(run.id for run, step in results if id(step) in own)
    return others, remarks


def _find_missing(sides: Sequence[Side], found: _Found) -> None:
    """Add to `found` the steps that have no result in runs of a side, and why.

    A step that no run of one side has a result of is not judged.  If only some runs have none, or
    no run of either side has one, that is a remark.
    """
    runs = [[(run, _reasons(run)) for run in side.runs] for side in sides]
    for name in dict.fromkeys(name for side in runs for _, known in side for name in known):
        reasons = [[known.get(name, _cut_off(run)) for run, known in side] for side in runs]
        missing = [[why for why in side if why] for side in reasons]
        if not any("" in side for side in reasons):
            # A step without measurements, such as one that prepares, has nothing to compare.
            why = next((why for side in missing for why in side if why != _NOTHING), "")
            found.remarks += [f"{name}: no result in any run of either side: {why}"] if why else []
            continue
        for side, all_, own in zip(sides, reasons, missing, strict=True):
            first = own[0] if own else "the step is not part of them"
            if "" not in all_:
                many = f"{len(all_)} of {len(all_)} runs of {side.name}"
                found.unjudged[name] = f"no result in {many}: {first}"
            elif own:
                many = f"{len(own)} of {len(all_)} runs of {side.name}"
                found.remarks.append(
                    f"{name}: no result in {many}: {first}; those that have one may be the faster "
                    f"ones"
                )


def _reasons(run: Run) -> dict[str, str]:
    """Return name of a step -> why the run has no result of it; "" if it has one."""
    reasons: dict[str, str] = {}
    for step in run.steps:
        why = step.reason or step.status.value
        if step.status is Status.DONE:
            measured = any(math.isfinite(m.value) for m in step.measurements)
            why = "" if measured else _NOTHING
        reasons[step.name] = why and reasons.get(step.name, why)
    return reasons


def _cut_off(run: Run) -> str | None:
    """Return why a run did not come to a step; None if it was done, and never had the step."""
    if run.status is Status.DONE:
        return None
    return run.error or f"the run is {run.status.value}"


def _by_step(side: Side) -> dict[str, list[tuple[Run, StepResult]]]:
    """Return name of a step -> the finished results of a side, with their runs."""
    steps: dict[str, list[tuple[Run, StepResult]]] = {}
    for run in side.runs:
        for step in run.steps:
            if step.status is Status.DONE:
                steps.setdefault(step.name, []).append((run, step))
    return steps


def _examine(name: str, doubt: str, sides: list[tuple[str, _Results]], found: _Found) -> None:
    """Add to `found` what a doubt about the results of a step leads to.

    `sides` has the name of each side and its results of the step; those that do not count are
    removed.
    """
    reasons = [
        {id(step): why for run, step in results if (why := _doubted(run, step, doubt))}
        for _, results in sides
    ]
    if not any(reasons):
        return
    if doubt == _NOT_AS_ASKED:
        if _are_alike([one for _, results in sides for one in results]):
            why = next(iter(reasons[0].values()))
            found.remarks.append(f"{name}: {why}, in all runs of both sides")
            return
    elif _is_even(*(_levels(results, doubt) for _, results in sides)):
        return
    found.uneven.setdefault(doubt, set()).add(name)
    for at, ((side, results), own) in enumerate(zip(tuple(sides), reasons, strict=True)):
        if not own:
            continue
        why = f"{next(iter(own.values()))}, in {_share(results, own)} of {side}"
        if len(own) == len(results):
            found.unjudged[name] = "; ".join(filter(None, (found.unjudged.get(name), why)))
            continue
        found.remarks.append(f"{name}: {why}, which do not count")
        found.left_out.update(own)
        sides[at] = side, [(run, step) for run, step in results if id(step) not in own]


def _doubted(run: Run, step: StepResult, doubt: str) -> str:
    """Return why a result is in doubt, as text; "" if it is not.

    `doubt` is _NOT_AS_ASKED, or the name of a warning about other programs.  Such a warning in the
    result file is about all repeats of a step; where the repeat's own share is known, that decides.
    """
    if doubt == _NOT_AS_ASKED:
        return as_asked.other_than_asked(step)
    stored = next((one for one in run.advice if one.name == doubt), None)
    if stored is None or _cpu_share(step, doubt) is not None:
        stored = _DISTURBING[doubt](run.model_copy(update={"steps": (step,)}))
    if stored is None or (stored.steps and step.name not in stored.steps):
        return ""
    return stored.found.removeprefix(f"{', '.join(stored.steps)}: ")


def _cpu_share(step: StepResult, doubt: str) -> float | None:
    """Return the share of the processors that other programs used, if that is the doubt."""
    return step.foreign.cpu_share if doubt == "foreign_processes" and step.foreign else None


def _state(step: StepResult) -> tuple[object, ...]:
    """Return what a step was to read and what it read, which is comparable between results."""
    cold, ledger = step.cold, step.ledger
    return (
        *((cold.asked, cold.got) if cold else ()),
        *((ledger.asked, ledger.verdict) if ledger else ()),
    )


def _are_alike(results: _Results) -> bool:
    """Return whether the same was asked of all results, and all of them reached the same."""
    return len({_state(step) for _, step in results}) == 1


def _is_even(base: Sequence[float], other: Sequence[float]) -> bool:
    """Return whether other programs disturbed the runs of both sides alike, by their levels."""
    low, high = sorted(map(fmean, (base, other)))
    if high - low <= _TOO_LITTLE:
        return True
    return high <= _FACTOR * low and statistics.rank_test(base, other) > statistics.ALPHA


def _levels(results: _Results, doubt: str) -> list[float]:
    """Return for each run how strongly other programs disturbed its results of a step.

    It is the share of the processors that they used, also below the limit of the warning, if that
    is the doubt and known; else 1 if the results are in doubt, and 0 if they are not.
    """
    levels: dict[str, float] = {}
    for run, step in results:
        share = _cpu_share(step, doubt)
        level = float(bool(_doubted(run, step, doubt))) if share is None else share
        levels[run.id] = max(level, levels.get(run.id, 0.0))
    return list(levels.values())


def _share(results: _Results, doubted: Mapping[int, str]) -> str:
    """Return how many of the results are `doubted` (by id), in runs; in repeats if runs have both.

    For example: `2 of 6 runs`.
    """
    runs = {run.id for run, step in results if id(step) in doubted}
    if runs & {run.id for run, step in results if id(step) not in doubted}:
        return f"{len(doubted)} of {len(results)} repeats"
    return f"{len(runs)} of {len({run.id for run, _ in results})} runs"


def _without(side: Side, left_out: set[int]) -> Side:
    """Return a side without the results that do not count, which are known by their id()."""
    if not left_out:
        return side
    kept = (
        run.model_copy(update={"steps": tuple(s for s in run.steps if id(s) not in left_out)})
        for run in side.runs
    )
    return Side(side.name, tuple(kept))


def _warned(base: Side, other: Side, uneven: Mapping[str, set[str]]) -> Iterator[str]:
    """Yield the warnings about the runs of both sides, with the number of runs that have each.

    Those in equal shares of the runs are left out, as they explain no difference, unless other
    programs disturbed the runs.  So are those whose steps are all in `uneven`, which has the name
    of a warning -> the steps about which it was reported before.
    """
    sides = _by_warning(base, other)
    for key in dict.fromkeys(key for side in sides for key in side):
        counts = [len(side.get(key, ())) for side in sides]
        alike = counts[0] * len(other.runs) == counts[1] * len(base.runs)
        steps = {step for side in sides for one in side.get(key, ()) for step in one.steps}
        if (key in uneven and steps <= uneven[key]) or (alike and key not in _DISTURBING):
            continue
        first, second = (
            f"{count} of {len(side.runs)}"
            for count, side in zip(counts, (base, other), strict=True)
        )
        advice = next(side[key][0] for side in reversed(sides) if key in side)
        yield f"{first} runs of {base.name}, {second} of {other.name}: {advice.found}"


def _by_warning(*sides: Side) -> list[dict[str, list[Advice]]]:
    """Return for each side: name of a warning -> the warnings of this kind that its runs have.

    Results of earlier versions have no names.  There the name is that of a warning with the same
    sentence, without its numbers, else that sentence.
    """
    names = {
        _NUMBER.sub("", one.found): one.name
        for side in sides
        for run in side.runs
        for one in run.advice
        if one.name
    }
    all_found: list[dict[str, list[Advice]]] = []
    for side in sides:
        found: dict[str, list[Advice]] = {}
        for run in side.runs:
            for name, one in {_named(one, names): one for one in run.advice}.items():
                if name not in _REPORTED:
                    found.setdefault(name, []).append(one)
        all_found.append(found)
    return all_found


def _named(advice: Advice, names: Mapping[str, str]) -> str:
    """Return the name of a warning; `names` is a sentence without its numbers -> its name."""
    sentence = _NUMBER.sub("", advice.found)
    return advice.name or names.get(sentence, sentence)
