"""One screen about a run, with the answer at its bottom, where a terminal shows it.

It has a line for each step (what it did, its result, its proof, and whether to believe it), a line
on where its time went, what changes a decision, and what to do next.  `run.render` has all the
rest.
"""

import contextlib
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from replayer import assets
from replayer.analysis.advice.headline import Headline
from replayer.engines import engine
from replayer.errors import ReplayerError
from replayer.model import Run, StepResult
from replayer.report.sanitize import NOTE, sanitize, short
from replayer.report.terminal import account, step_layout, summary, time_spent
from replayer.report.terminal.console import WIDTH
from replayer.report.terminal.step_summary import Remark, RunsSummary, StepSummary, Trust
from replayer.report.terminal.tables import Flow, pairs
from replayer.results import store
from replayer.units import show_size
from replayer.watch import calibration

_STYLES = {Trust.YES: "green", Trust.CARE: "yellow", Trust.NO: "bold red"}
_WORDS = {Trust.YES: "yes", Trust.CARE: "care", Trust.NO: "no"}
_HEADINGS = ("step", "what it did", "result", "proof", "believe?")
_MOST_REMARKS = 6
"""The most remarks that are printed in words; the others are counted."""
_FEWEST_REMARKS = 3
_MOST_LINES, _MOST_LINES_NARROW = 45, 60
"""The lines of one screen, with 100 columns and with fewer."""
_EXPLAINED = " · each (name) is explained in docs/reference.md#NAME"
_MOST_PROOFS = 2
_GAP = 2
_LABEL = 9


def render(
    run: Run, path: Path | None = None, left: str = "", *, lines: bool = True
) -> RenderableType:
    """Return one screen about a run.

    `path` is its result file, and `left` a sentence on what replayer left on a server.  With
    `lines`, the lines that programs search for stand above the table.
    """
    one = summary.summarise([run])
    above = (
        Text(_title(run), style="bold"),
        *_named(run),
        *(_verbatim(run) if lines else ()),
        Text(""),
        _table(one.lines),
        *_spent(run),
    )
    below = (*_end(run, one.headline, path, left), *answer(one.headline))
    return _OneScreen(
        [
            Group(*above, *_remarks(one, run, most), *below)
            for most in range(_MOST_REMARKS, _FEWEST_REMARKS - 1, -1)
        ]
    )


@dataclass(frozen=True)
class _OneScreen:
    """The same report with fewer and fewer remarks: the first that one screen holds is printed."""

    choices: Sequence[RenderableType]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the first that fits, else the last."""
        most = _MOST_LINES if options.max_width >= WIDTH else _MOST_LINES_NARROW
        for choice in self.choices[:-1]:
            if len(console.render_lines(choice, options, pad=False)) <= most:
                yield choice
                return
        yield self.choices[-1]


def answer(headline: Headline) -> Iterator[RenderableType]:
    """Yield a headline as the last lines of a report."""
    yield Text("")
    yield Text(sanitize(str(headline)), style="bold", overflow="fold")


def _title(run: Run) -> str:
    """Return the run in one line: workload, machine, kernel, engine, duration."""
    facts = run.host
    memory = facts.get("memory.bytes")
    virtual = [str(facts.get(key) or "") for key in ("virtualisation", "container")]
    machine = [
        str(facts.get("host.name") or ""),
        *(kind for kind in virtual if kind not in ("", "none")),
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
    """Return the engine by its title, such as PostgreSQL, and its version; "" without one."""
    if run.engine is None:
        return ""
    title = run.engine.name
    with contextlib.suppress(ReplayerError):
        title = engine.load(title).title if title in assets.engines() else title
    return f"{title} {run.engine.version}".rstrip()


def _named(run: Run) -> Iterator[RenderableType]:
    """Yield the user's words about the run: label, notes, tags."""
    words = [
        f"label {short(run.label)}" if run.label else "",
        *(short(f"{name}={text}") for name, text in run.tags.items()),
        *(short(note, NOTE) for note in run.notes),
    ]
    if any(words):
        yield Text(" · ".join(filter(None, words)), style="dim", overflow="fold")


def _verbatim(run: Run) -> Iterator[RenderableType]:
    for result in run.steps:
        for part in step_layout.of(result).verbatim:
            yield from step_layout.rendered(part, result)


def _table(lines: Sequence[StepSummary]) -> RenderableType:
    if not lines:
        return Text("no step was begun", style="bold red")
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="dim")
    for heading in _HEADINGS:
        table.add_column(heading, no_wrap=heading == _HEADINGS[-1], overflow="fold")
    for line in lines:
        table.add_row(
            Text(line.name),
            Text(line.brief.did),
            Text("\n".join(_results(line))),
            Text("\n".join(_proofs(line))),
            Text(_trust(line), style=_STYLES[line.trust]),
        )
    return table


def _results(line: StepSummary) -> list[str]:
    if not line.repeats:
        return list(line.figures)
    many = [f"medians of {line.repeats}"] if line.repeats > 1 else []
    bound = ["client-bound"] if line.client_bound else []
    return [*(line.brief.results or line.figures), *many, *bound]


def _proofs(line: StepSummary) -> list[str]:
    """Return the proofs in a few words: bad ones first; that an account closes only if alone."""
    texts = [proof.brief for proof in sorted(line.proofs, key=lambda one: one.good) if proof.brief]
    others = [text for text in texts if text != summary.CLOSES]
    return list(dict.fromkeys(others or texts))[:_MOST_PROOFS]


def _trust(line: StepSummary) -> str:
    return _WORDS[line.trust] + (f" [{','.join(map(str, line.see))}]" if line.see else "")


def _spent(run: Run) -> Iterator[RenderableType]:
    """Yield a line for each step on where its time went."""
    items = [
        (sanitize(results[0].name), sanitize(words))
        for results in summary.by_name(run.steps)
        if (words := time_spent.sentence(_middle(results)))
    ]
    if items:
        yield Text("")
        yield Text("where the time went", style="dim")
        yield pairs([(f"  {name}", words) for name, words in items])


def _middle(results: Sequence[StepResult]) -> StepResult:
    return account.middle(results) or results[-1]


def _remarks(one: RunsSummary, run: Run, most: int) -> Iterator[RenderableType]:
    """Yield what changes a decision, each with the number by which the steps name it.

    Those of the whole run are left out first if there are more than `most`, loud ones never.
    """
    loud = [number for number, point in enumerate(one.points, 1) if point.loud]
    others = [number for number, point in enumerate(one.points, 1) if not point.loud]
    ranked = [*loud, *sorted(others, key=lambda number: not one.points[number - 1].steps)]
    chosen = sorted(ranked[: max(most, len(loud))])
    rows: list[tuple[str, str | Text | Flow]] = [
        (f"  [{number}]", _remark(one.points[number - 1])) for number in chosen
    ]
    left = len(one.points) - len(chosen)
    named = any(one.points[number - 1].name for number in chosen)
    end = [f"and {left} more in the details" if left else "", _control(run)]
    rows += [("", " · ".join(filter(None, end)))] if any(end) else []
    if rows:
        yield Text("")
        yield Text(f"before you compare{_EXPLAINED if named else ''}", style="dim")
        yield pairs(rows)


def _remark(point: Remark) -> Text:
    begin = "" if point.loud else f"{', '.join(point.steps)}: "
    text = Text(point.text.removeprefix(begin), "bold red" if point.loud else "", overflow="fold")
    return text.append(f" ({point.name})", style="dim") if point.name else text


def _control(run: Run) -> str:
    """Return whether the machine kept its speed; "" if it did not, which is a remark, or unknown.

    Values that overlap prove nothing by themselves: noise may hide a large change.
    """
    if calibration.moved(run.control):
        return ""
    shares = calibration.shares(run.control)
    wide = {name: share for name, share in shares.items() if abs(share) > calibration.FLOOR}
    if wide:
        words = ", ".join(f"{name} {share:+.0%}" for name, share in wide.items())
        return f"not known whether the machine kept its speed: {words}, which may be noise"
    return f"the machine kept its speed ({', '.join(shares)})" if shares else ""


def _end(run: Run, headline: Headline, path: Path | None, left: str) -> Iterator[RenderableType]:
    """Yield the result file, and the commands for details, page and what to do next."""
    where = ""
    if path is not None and path.parent.resolve() != store.folder().resolve():
        where = f" --results {shlex.quote(str(path.parent))}"
    items = [
        ("result", str(path) if path is not None else ""),
        ("details", f"replayer show {run.id}{where} --full" if path is not None else ""),
        ("page", f"replayer report {run.id}{where}" if path is not None else ""),
        ("left", left.removeprefix("left ")),
        ("next", f"{headline.todo}{where}" if headline.todo and path is not None else ""),
    ]
    items = [(label, text) for label, text in items if text]
    if items:
        yield Text("")
        yield pairs([(label, sanitize(text)) for label, text in items], _LABEL)
