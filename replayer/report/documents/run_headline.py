"""The headline of runs: what was measured, and which results can be believed.

The module `display` in the folder of each step provides the words; this module joins them.  A step
that only prepares others (one with `once`) is named only if no other step has a result.
"""

import shlex
from collections.abc import Iterable, Sequence
from pathlib import PurePath

from replayer import __version__, assets
from replayer.analysis.advice.headline import Headline
from replayer.model import Run, Status, WorkloadFacts
from replayer.report.documents.step_summary import StepSummary, Trust
from replayer.report.sanitize import NAME, NOTE, sanitize, short
from replayer.results import editing, run_listing

_MOST = 4
"""The largest number of steps whose results are in the headline, or that are named as not done."""
_ALONE = {
    Trust.YES: "it can be believed",
    Trust.CARE: "it can be believed with care",
    Trust.NO: "it cannot be believed as it is",
}
_BOTH = (1, 2)
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def headline(runs: Sequence[Run], lines: Sequence[StepSummary]) -> Headline:
    """Return the headline of some runs, from the summaries of their steps.

    The headline of a single run that sized a machine is the verdict that is stored with it.
    """
    if len(runs) == 1 and runs[0].sizing is not None and runs[0].headline:
        return Headline(what=sanitize(runs[0].headline))
    return Headline(
        what=". ".join(filter(None, [_ending(runs), *_results(lines)])) or "No step was done",
        sure=believed(lines, _missing(runs, lines)),
        todo=_todo(runs),
    )


def _ending(runs: Sequence[Run]) -> str:
    """Return a sentence on runs that were not finished; "" if all were done.

    Of several runs, those that may still be under way are not counted.
    """
    if len(runs) > 1:
        cut = [run for run in runs if _is_cut(run)]
        many = f"{_number(len(cut)).capitalize()} of {_number(len(runs))} runs"
        return f"{many} did not end well" if cut else ""
    if runs[0].status is Status.DONE:
        return ""
    if _is_cut(runs[0]):
        reason = f": {short(runs[0].error, NOTE)}" if runs[0].error else ""
        return f"The run was not finished ({run_listing.state(runs[0])}{reason})"
    if editing.written_by(runs[0].writer):
        return "The run is under way"
    return "The run was not finished (running on another machine, or cut off by a restart)"


def _is_cut(run: Run) -> bool:
    """Return whether a run is known to have ended before its last step: it failed, or was killed.

    It is False for a run that may still be under way.
    """
    return run_listing.state(run) not in (Status.DONE, Status.RUNNING)


def _missing(runs: Sequence[Run], lines: Sequence[StepSummary]) -> list[str]:
    """Return the names of the steps of runs that were not finished of which no run has a result.

    Those of a run that sizes a machine are not known before they begin.
    """
    known = {line.name for line in lines}
    planned = [
        sanitize(str(table.get("name") or table.get("step") or ""))
        for run in runs
        if run.status is not Status.DONE and run.sizing is None
        for table in run.workload.steps
    ]
    return [name for name in dict.fromkeys(planned) if name not in known]


def _results(lines: Sequence[StepSummary]) -> list[str]:
    """Return a sentence, without a full stop, for each kind of result and for what is left out."""
    done = [line for line in lines if line.repeats]
    own = [line for line in done if not line.once]
    chosen = _with_results(own) or _with_results(done) or own or done
    sentences: dict[str, list[str]] = {}
    for line in chosen[:_MOST]:
        subject, clause = line.brief.subject, line.brief.clause
        if not clause:
            subject, clause = f"{line.name}:", _result(line)
        sentences.setdefault(subject, []).append(clause)
    named = [f"{subject} {_listed(clauses)}" for subject, clauses in sentences.items()]
    return [*named, *_left_out(len(chosen) - _MOST)]


def _with_results(lines: Sequence[StepSummary]) -> list[StepSummary]:
    """Return the steps that have words for a headline, or a metric for which they are run."""
    return [line for line in lines if line.brief.clause or line.measured]


def _result(line: StepSummary) -> str:
    """Return the main figures of a step; if it has none, what it did."""
    return ", ".join(line.figures[:2]) or line.brief.did or "done"


def _left_out(count: int) -> list[str]:
    """Return a list of one sentence on the steps that a headline does not name.

    `count` is their number; the list is empty if it is 0 or less.
    """
    if count <= 0:
        return []
    words = "step was" if count == 1 else "steps were"
    return [f"{_number(count).capitalize()} more {words} measured"]


def believed(lines: Sequence[StepSummary], missing: Sequence[str] = ()) -> str:
    """Return words on how many steps can be believed, which cannot, and which were not done.

    `missing` are the names of the steps without a result.  Returns "" without steps, if the only
    step was not done, or if no step was done and some have no result.
    """
    # The headline already has that none was done.
    if not any(line.repeats for line in lines) and (missing or len(lines) < len(_BOTH)):
        return ""
    trust = [line.trust for line in lines]
    good, care = trust.count(Trust.YES), trust.count(Trust.CARE)
    total = len(lines) + len(missing)
    if total == 1:
        return _ALONE[trust[0]]
    if not good + care:
        none = f"none of the {_number(total)} steps can be believed as it is"
        return f"{none}{_not_done(missing)}"
    every = "both" if total == len(_BOTH) else f"all {_number(total)}"
    which = every if good + care == total else f"{_number(good + care)} of {_number(total)}"
    words = f"{which} steps can be believed"
    if care:
        words += f", {_with_care(good, care)}"
    doubted = [line.name for line in lines if line.trust is Trust.NO and line.repeats]
    undone = [line.name for line in lines if line.trust is Trust.NO and not line.repeats]
    if doubted:
        words += f"; {_listed(doubted)} cannot"
    return f"{words}{_not_done([*undone, *missing])}"


def _not_done(names: Sequence[str]) -> str:
    """Return a clause that names the steps that were not done, at most four; "" for none."""
    if not names:
        return ""
    left = len(names) - _MOST
    named = [*names[:_MOST], *([f"{_number(left)} more"] if left > 0 else [])]
    return f"; {_listed(named)} {'was' if len(names) == 1 else 'were'} not done"


def _with_care(good: int, care: int) -> str:
    """Return words that follow the number of steps to believe, such as `two with care`.

    `care` is the number of steps to believe with care, and `good` the number of the others to
    believe.
    """
    if good:
        return f"{_number(care)} with care"
    return "with care" if care == 1 else f"{'both' if care == len(_BOTH) else 'all'} with care"


def _todo(runs: Sequence[Run]) -> str:
    """Return the next command: finish or follow the run, or run again and compare.

    Returns "" for several runs, and for a run of which it is not known whether it is under way.
    """
    run = runs[-1]
    if _is_cut(run) and _has_steps_left(run):
        return f"replayer run --resume {run.id}" if _can_be_resumed(run) else ""
    if len(runs) > 1:
        return ""
    if run.status is Status.RUNNING and not _is_cut(run):
        return f"replayer watch {run.id}" if editing.written_by(run.writer) else ""
    name = shlex.quote(sanitize(_workload(run.workload)))
    # The end of an id is unique enough, and `compare` takes any unique part of it.
    label = run.label if _can_be_typed(run.label) else ""
    own = label or "-".join(run.id.split("-")[2:]) or run.id
    other = "other" if run.label == "B" else "B"
    return (
        f"replayer run {name} --label {other} on what you compare with; "
        f"then replayer compare {shlex.quote(own)} {other}"
    )


def _has_steps_left(run: Run) -> bool:
    """Return whether a run has not done, or skipped, every repeat of each of its steps."""
    whole = [step for step in run.steps if step.status in {Status.DONE, Status.SKIPPED}]
    return run.sizing is not None or len(whole) < run.workload.repeat * len(run.workload.steps)


def _can_be_resumed(run: Run) -> bool:
    """Return whether `run --resume` would accept a run, by what its file has."""
    own = run.sizing is None and not run.cluster and not run.id.startswith("import-")
    return own and run.version == __version__


def _can_be_typed(label: str) -> bool:
    """Return whether a command takes a label as it is printed: not cut, escaped or an option."""
    return len(label) <= NAME and sanitize(label) == label and not label.startswith("-")


def _workload(facts: WorkloadFacts) -> str:
    """Return the argument that `replayer run` takes for a workload: its name, or the user's file.

    A workload that ships with replayer has its name: its file may have another path on another
    machine.
    """
    path = PurePath(facts.source)
    ships = path.is_absolute() and path.parent.name == "workloads"
    if (ships and facts.name in assets.workloads()) or not path.suffix:
        return facts.name
    return facts.source


def _number(count: int) -> str:
    return _NUMBERS[count] if count < len(_NUMBERS) else str(count)


def _listed(words: Iterable[str]) -> str:
    """Return words as a list in a sentence: `a`, `a and b`, `a, b and c`."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
