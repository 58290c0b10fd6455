"""The headline of runs: what was measured, and which results can be believed.

The module `display` in the folder of each step provides the words; this module joins them.  A step
that only prepares others (one with `once`) is named only if no other step has a result.
"""

import shlex
from collections.abc import Iterable, Sequence
from pathlib import PurePath

from replayer import assets
from replayer.analysis.advice.headline import Headline
from replayer.model import Run, Status, WorkloadFacts
from replayer.report.documents.step_summary import StepSummary, Trust
from replayer.report.sanitize import NAME, NOTE, sanitize, short

_MOST = 4
"""The largest number of steps whose results are in the headline."""
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
        sure=believed(lines),
        todo=_todo(runs),
    )


def _ending(runs: Sequence[Run]) -> str:
    """Return a sentence on runs that were not finished; "" if all were done or are running."""
    cut = [run for run in runs if run.status not in (Status.DONE, Status.RUNNING)]
    if not cut:
        return ""
    if len(runs) > 1:
        return f"{_number(len(cut)).capitalize()} of {_number(len(runs))} runs did not end well"
    reason = f": {short(cut[0].error, NOTE)}" if cut[0].error else ""
    return f"The run was not finished ({cut[0].status.value}{reason})"


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


def believed(lines: Sequence[StepSummary]) -> str:
    """Return words on how many steps can be believed, which cannot, and which were not done.

    Returns "" without steps, or if the only step was not done.
    """
    if not lines:
        return ""
    trust = [line.trust for line in lines]
    good, care, bad = (trust.count(value) for value in (Trust.YES, Trust.CARE, Trust.NO))
    total = len(lines)
    if total == 1:
        # The headline already has that it was not done.
        return "" if bad and not lines[0].repeats else _ALONE[trust[0]]
    if not good + care:
        return f"none of the {_number(total)} steps can be believed as it is"
    every = "both" if total == len(_BOTH) else f"all {_number(total)}"
    which = every if not bad else f"{_number(good + care)} of {_number(total)}"
    words = f"{which} steps can be believed"
    if care:
        words += f", {_with_care(good, care)}"
    doubted = [line.name for line in lines if line.trust is Trust.NO and line.repeats]
    undone = [line.name for line in lines if line.trust is Trust.NO and not line.repeats]
    if doubted:
        words += f"; {_listed(doubted)} cannot"
    if undone:
        words += f"; {_listed(undone)} {'was' if len(undone) == 1 else 'were'} not done"
    return words


def _with_care(good: int, care: int) -> str:
    """Return words that follow the number of steps to believe, such as `two with care`.

    `care` is the number of steps to believe with care, and `good` the number of the others to
    believe.
    """
    if good:
        return f"{_number(care)} with care"
    return "with care" if care == 1 else f"{'both' if care == len(_BOTH) else 'all'} with care"


def _todo(runs: Sequence[Run]) -> str:
    """Return the next command: finish the run, or run again and compare; "" for several runs."""
    run = runs[-1]
    if run.status not in (Status.DONE, Status.RUNNING):
        return f"replayer run --resume {run.id}"
    if len(runs) > 1:
        return ""
    name = shlex.quote(sanitize(_workload(run.workload)))
    # The end of an id is unique enough, and `compare` takes any unique part of it.
    label = run.label if _can_be_typed(run.label) else ""
    own = label or "-".join(run.id.split("-")[2:]) or run.id
    other = "other" if run.label == "B" else "B"
    return (
        f"replayer run {name} --label {other} on what you compare with; "
        f"then replayer compare {shlex.quote(own)} {other}"
    )


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
