"""Estimates for a workload: its duration and its number of metrics, from earlier runs.

Only runs of the same or similar steps are used.
"""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

from replayer.analysis.differences import multiple_testing, statistics
from replayer.analysis.differences.samples import is_own, leading
from replayer.analysis.differences.selection import no_column
from replayer.errors import ReplayerError
from replayer.model import Better, Run, Status, StepResult, WorkloadFacts
from replayer.results import store
from replayer.units import show_duration, show_with_noun

_NEWEST = 10
"""Limit on the runs of the same workload that are read, and also on those of other workloads."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """The expected duration of one run of a workload in seconds, and its number of judged metrics.

    A comparison judges the metrics that have a good direction, do not repeat another one, and are
    not about replayer itself.
    """

    workload: str
    seconds: float
    whole: bool
    """False if the time of some steps is not known, so that `seconds` is a lower bound."""
    source: str
    """The run whose duration `seconds` is; "" if `seconds` is the sum of the steps' times."""
    leading: int
    """The number of judged leading metrics."""
    others: int
    """The number of other judged metrics."""
    counted: bool
    """False if the metrics of some steps are not known, so that both numbers are lower bounds."""


@dataclass(frozen=True, slots=True)
class Known:
    """The duration of one execution of a step in seconds, and the run from which it is known.

    The duration is None if neither an earlier run nor the step's keys give it.
    """

    seconds: float | None
    """None if neither an earlier run nor the step's keys give the duration."""
    source: str
    """The run that did the same; "" if it is from the step's keys, which give a lower bound."""


def took(
    spec: Mapping[str, Any],
    runs: Iterable[Run],
    set_to: float,
    before: Sequence[Mapping[str, Any]] = (),
) -> Known:
    """Return the duration of a step from the first run that did the same, else from its keys.

    `spec` has the step's keys.  `runs` are in the order of `earlier`.  `set_to` is the time in
    seconds that the step's keys set, 0 if they set none.  `before` are the steps before it in its
    workload: they make the data that it reads.
    """
    for run in runs:
        if _on_other_data(run, before):
            continue
        seconds = _took([step for step in run.steps if step.status is Status.DONE], spec)
        if seconds is not None:
            return Known(seconds, run.id)
    return Known(set_to or None, "")


def earlier(folders: Iterable[Path], workload: str) -> list[Run]:
    """Return the newest runs in some folders: first those of the workload, then the others.

    `workload` is its name.  Both parts are sorted, the newest first, and have at most ten runs.
    Files and folders that cannot be read are skipped.
    """
    entries: list[store.StoredRun] = []
    for folder in folders:
        with contextlib.suppress(ReplayerError):
            entries += [one for one in store.runs(folder) if isinstance(one, store.StoredRun)]
    entries.sort(key=lambda entry: entry.started, reverse=True)
    same = [entry for entry in entries if entry.workload == workload][:_NEWEST]
    others = [entry for entry in entries if entry.workload != workload][:_NEWEST]
    runs = []
    for entry in (*same, *others):
        try:
            runs.append(store.load(entry.path, no_column))
        except ReplayerError:
            # A plan does not need files that cannot be read.
            continue
    return runs


def expect(asked: WorkloadFacts, runs: Sequence[Run], set_to: Sequence[float]) -> Expectation:
    """Return the expected duration and number of metrics of a workload, from earlier runs.

    `runs` are in the order of `earlier`.  `set_to` has one value for each step: the least seconds
    that it takes by its own keys, or 0 if its time depends on the machine only.
    """
    alike = [_alike(spec, runs) for spec in asked.steps]
    known = [took(spec, runs, 0.0, asked.steps[:number]) for number, spec in enumerate(asked.steps)]
    times = [1 if spec.get("once") else asked.repeat for spec in asked.steps]
    seconds = sum(
        (step.seconds or own) * many for step, own, many in zip(known, set_to, times, strict=True)
    )
    whole_run = next((run for run in runs if _same(run, asked)), None)
    counts = [_counts(steps) for steps in alike]
    return Expectation(
        workload=asked.name,
        seconds=seconds if whole_run is None else _elapsed(whole_run),
        whole=whole_run is not None or all(step.seconds for step in known),
        source=whole_run.id if whole_run else "",
        leading=sum(first for first, _ in counts),
        others=sum(rest for _, rest in counts),
        counted=all(alike),
    )


def _on_other_data(run: Run, before: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether a run read other data than the data that the steps `before` would prepare.

    `before` are the keys of each step.  The data is other if a step that prepares data only once
    had other keys in the run.
    """
    for spec in before:
        made = [step.spec for step in run.steps if step.step == spec.get("step")]
        if spec.get("once") and made and spec not in made:
            return True
    return False


def _same(run: Run, asked: WorkloadFacts) -> bool:
    own = run.workload
    # The time of a resumed run contains its interruption.
    same = own.digest == asked.digest and own.repeat == asked.repeat and not run.resumed
    return same and run.status is Status.DONE and _elapsed(run) > 0


def _elapsed(run: Run) -> float:
    try:
        begin, end = map(datetime.fromisoformat, (run.started, run.finished or ""))
        return (end - begin).total_seconds()
    except (ValueError, TypeError):
        return 0.0


def _alike(spec: Mapping[str, Any], runs: Iterable[Run]) -> list[StepResult]:
    """Return the finished repeats of a step in the first run that did exactly the same.

    `spec` has the step's keys, and `runs` are in the order of `earlier`.  If no run did the same,
    return similar steps of a run: those of the same kind (such as `walk`) and name, else one of the
    same kind.
    """
    rough: list[StepResult] = []
    for run in runs:
        done = [s for s in run.steps if s.status is Status.DONE and s.step == spec.get("step")]
        exact = [step for step in done if step.spec == spec]
        if exact:
            return exact
        rough = rough or [step for step in done if step.name == spec.get("name")] or done[:1]
    return rough


def _took(steps: Sequence[StepResult], spec: Mapping[str, Any]) -> float | None:
    """Return the median seconds of the steps that had exactly the keys `spec`; None without any."""
    exact = [step.elapsed for step in steps if step.spec == spec]
    return median(exact) if exact else None


def _counts(steps: Sequence[StepResult]) -> tuple[int, int]:
    """Return the numbers of leading and of other metrics of a step that a comparison judges.

    `steps` are its repeats.
    """
    judged = {
        m.metric: m
        for step in steps
        for m in step.measurements
        if m.better is not Better.NEITHER and not m.says and not is_own(m.metric)
    }
    first = len(leading(judged.values()) & judged.keys())
    return first, len(judged) - first


def time(expected: Expectation, boots: int) -> str:
    """Return one sentence about the duration of `boots` boots, each with one run of a workload."""
    if not expected.seconds:
        return (
            f"How long {expected.workload} takes is not known: no earlier run of its steps is here."
        )
    one, all_ = show_duration(expected.seconds), show_duration(expected.seconds * boots)
    boot = "The boot" if boots == 1 else "Each boot"
    total = "" if boots == 1 else f", all {boots} boots {all_} without the rebooting"
    if not expected.whole:
        return f"{boot} takes {one} or more{total}: what steps are set to, and what others took."
    known = f"as {expected.source} did" if expected.source else "as its steps did before"
    return f"{boot} takes about {one}{total} ({known})."


def worth(each: int, kernels: int, expected: Expectation | None) -> str:
    """Return one sentence: what a comparison of `each` boots per kernel can show, or needs.

    `kernels` is the number of kernels.  `expected` has the number of metrics; None if not known.
    """
    counts = (expected.leading, expected.others) if expected else (0, 0)
    known = any(counts)
    # A workload without earlier runs is taken to have one leading and one other metric.
    first, rest = counts if known else (1, 1)
    shares = multiple_testing.shares(first, rest)
    smallest = statistics.smallest_p(each, each)
    least = min(shares) * statistics.ALPHA
    if smallest > least:
        needed = statistics.units_to_show(min(shares), 1, each)
        return (
            f"{show_with_noun(each, 'boot')} of each kernel can never show a difference: "
            f"the smallest possible p is {smallest:.2g}, and {least:.2g} is needed; "
            f"{needed * kernels} boots can."
        )
    if expected is None or not known:
        return (
            f"{each} boots of each kernel can show a difference in up to {int(least / smallest)} "
            f"leading metrics at once; no earlier run shows how many the workload has."
        )
    return _enough(each, kernels, expected)


def _enough(each: int, kernels: int, expected: Expectation) -> str:
    """Return one sentence about the metrics for which `each` boots of a kernel are enough.

    `kernels` is the number of kernels, and `expected` has the number of metrics.
    """
    counts = expected.leading, expected.others
    most = "" if expected.counted else " or more"
    total = f"{expected.workload} has {sum(counts)}{most} metrics, {counts[0]} of them leading"
    needed = multiple_testing.units_to_show(*counts)
    if each >= max(needed):
        return f"{total}: {each} boots of each kernel can show a difference in each of them alone."
    if each >= needed[0]:
        return (
            f"{total}: {each} boots of each kernel can show a difference in each leading one "
            f"alone, and in others that differ together; for one of the others alone it takes "
            f"{needed[1] * kernels} boots."
        )
    return (
        f"{total}: {each} boots of each kernel can show a difference in metrics that differ "
        f"together; for a leading one alone it takes {needed[0] * kernels} boots, for one of the "
        f"others {needed[1] * kernels}."
    )
