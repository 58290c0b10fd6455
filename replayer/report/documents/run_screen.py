"""A report of a run on one screen, with the answer at the bottom, where a terminal stops.

It has a line for each step: what it did, its result, where its data came from, and whether to
believe it.  It has another line for each step on where its time went.  Remarks and the next
commands follow.
"""

import contextlib
import shlex
from collections.abc import Iterator
from pathlib import Path

from replayer import assets
from replayer.engines import engine
from replayer.errors import ReplayerError
from replayer.model import Run
from replayer.report.document import Document, Facts, Part
from replayer.report.documents import run_summary, step_layout, summary
from replayer.report.documents.step_summary import RunsSummary
from replayer.report.sanitize import NOTE, sanitize, short
from replayer.results import store
from replayer.run.display import Sentence, Tone, Verbatim
from replayer.units import show_size

_MOST_REMARKS = 6
"""The largest number of remarks that are printed; of the others, only the number is printed."""
_FEWEST_REMARKS = 3


def documents(
    run: Run, path: Path | None = None, left: str = "", *, lines: bool = True
) -> list[Document]:
    """Return versions of the report on one screen, each with one remark fewer than the one before.

    `path` is the run's result file, and `left` a sentence on what replayer left on a server.  With
    `lines`, the fixed lines of each step that other programs search for are above the table.
    """
    # The remark on the step that ended the run has its error.
    named = run.model_copy(update={"error": ""}) if summary.reasons_of_end(run) else run
    one = summary.summarise([named])
    above: list[Part] = [
        Sentence(" · ".join(_named(run)), Tone.QUIET),
        *(_verbatim(run) if lines else ()),
        run_summary.steps(one, brief=True),
        run_summary.spent(run),
    ]
    end = Facts([*_end(run, one, path, left)])
    return [
        Document(
            _title(run),
            Sentence(str(one.headline)),
            [],
            answer=[*above, _remarks(one, run, most), end],
            is_answer_last=True,
        )
        for most in range(_MOST_REMARKS, _FEWEST_REMARKS - 1, -1)
    ]


def _title(run: Run) -> str:
    """Return the run in one line: workload, machine, kernel, engine, duration."""
    facts = run.host
    memory = facts.get("memory.bytes")
    machine = [
        str(facts.get("host.name") or ""),
        *summary.surroundings(facts),
        f"{facts['cpu.threads']} CPUs" if facts.get("cpu.threads") else "",
        show_size(memory) if isinstance(memory, int | float) else "",
        str(facts.get("device.name") or ""),
        str(facts.get("fs.type") or ""),
    ]
    kernel = facts.get("kernel.release")
    took = summary.took(run).removeprefix(", ").removeprefix("took ")
    many = summary.repeated(run)
    parts = [
        f"{run.workload.name}{f', {many}' if many else ''}",
        ", ".join(filter(None, machine)),
        f"Linux {kernel}" if kernel else "",
        name_engine(run),
        took,
    ]
    return " · ".join(sanitize(part) for part in parts if part)


def name_engine(run: Run) -> str:
    """Return the engine's title, such as PostgreSQL, and its version; "" without an engine."""
    if run.engine is None:
        return ""
    title = run.engine.name
    with contextlib.suppress(ReplayerError):
        title = engine.load(title).title if title in assets.engines() else title
    return f"{title} {run.engine.version}".rstrip()


def _named(run: Run) -> Iterator[str]:
    """Yield the user's words about the run: its label, tags and notes."""
    if run.label:
        yield f"label {short(run.label)}"
    yield from (short(f"{name}={text}") for name, text in run.tags.items())
    yield from (short(note, NOTE) for note in run.notes)


def _verbatim(run: Run) -> Iterator[Verbatim]:
    for result in run.steps:
        yield from (part for part in step_layout.of(result).verbatim if isinstance(part, Verbatim))


def _remarks(one: RunsSummary, run: Run, most: int) -> Part:
    """Return at most `most` remarks, each with the number by which the lines of steps refer to it.

    Loud remarks (something was not as requested) are never left out, and each step that has remarks
    keeps one: that which most steps have.  Of the others, those about the whole run are left out
    first.
    """
    steps = {number: len(point.steps) for number, point in enumerate(one.points, 1)}
    kept = [number for number in steps if one.points[number - 1].loud]
    for line in one.lines:
        if line.see and not set(line.see) & set(kept):
            kept.append(max(line.see, key=lambda number: steps[number]))
    others = sorted(set(steps).difference(kept), key=lambda number: (not steps[number], number))
    chosen = sorted([*kept, *others][: max(most, len(kept))])
    left = len(one.points) - len(chosen)
    more = [f"and {left} more in the details" if left else "", run_summary.find_control(run)]
    return run_summary.remarks(one, chosen, " · ".join(filter(None, more)), brief=True)


def _end(run: Run, one: RunsSummary, path: Path | None, left: str) -> Iterator[tuple[str, str]]:
    """Yield (label, text): the result file, then the commands for details, page, next step.

    `left`, a sentence on what replayer left on a server, comes before the next step unless it is
    "".  `path` is the run's result file; without it there are no commands.
    """
    where = ""
    if path is not None and path.parent.resolve() != store.folder().resolve():
        where = f" --results {shlex.quote(str(path.parent))}"
    if path is not None:
        yield "result", str(path)
        yield "details", f"replayer show {run.id}{where} --full"
        yield "page", f"replayer report {run.id}{where}"
    if left:
        yield "left", left.removeprefix("left ")
    if one.headline.todo and path is not None:
        # It has one command, or `replayer run ... on what you compare with; then ...`: each of
        # them needs the folder.
        todo = one.headline.todo.replace(" on what you compare", f"{where} on what you compare")
        yield "next", f"{todo}{where}"
