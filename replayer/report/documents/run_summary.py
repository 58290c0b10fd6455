"""The summary of runs: facts about them, a line for each step, and remarks."""

from collections.abc import Iterable, Iterator, Sequence

from replayer.analysis import repeats
from replayer.model import Run
from replayer.report.document import Facts, Numbered, Part, Section, Table
from replayer.report.documents import account, step_proof, time_spent
from replayer.report.documents.step_summary import Proof, Remark, RunsSummary, StepSummary, Trust
from replayer.run.display import Sentence, Tone
from replayer.units import show_duration
from replayer.watch import calibration

_TONES = {Trust.YES: Tone.GOOD, Trust.CARE: Tone.UNCLEAR, Trust.NO: Tone.BAD}
_WORDS = {Trust.YES: "yes", Trust.CARE: "care", Trust.NO: "no"}
_MOST_POINTS = 8
"""The largest number of remarks that are shown; the others are folded."""
_MOST_PROOFS = 2
"""The largest number of proofs of a step in the brief table."""
_EXPLAINED = " · replayer help NAME explains each (name)"


def parts(one: RunsSummary, runs: Sequence[Run]) -> Iterator[Part]:
    """Yield the parts of a report on `runs`, whose summary is `one`.

    They are facts, a table of the steps, remarks, and the next command.
    """
    yield Facts(one.about)
    yield steps(one)
    numbers = range(1, len(one.points) + 1)
    control = find_control(runs[0]) if len(runs) == 1 else ""
    yield remarks(one, numbers[:_MOST_POINTS], control)
    if rest := numbered(one, numbers[_MOST_POINTS:]):
        title = f"and {len(rest)} more"
        yield Section(title, [Numbered(rest)], is_folded=True, is_printed=True)
    if one.headline.todo:
        yield Facts([("next", one.headline.todo)])


def steps(one: RunsSummary, *, brief: bool = False) -> Part:
    """Return a table of the steps in a summary of runs, with a row for each.

    With `brief`, for a medium with little room, rows are shorter and the duration is left out.  If
    no step was begun, the result is a sentence.
    """
    if not one.lines:
        return Sentence("no step was begun", Tone.BAD)
    headings: tuple[str, ...] = ("step", "what it did", "result", "took", "proof", "believe?")
    rows = [_row(line, brief=brief) for line in one.lines]
    took = headings.index("took")
    if brief:
        headings, *rows = (row[:took] + row[took + 1 :] for row in (headings, *rows))
    return Table(
        headings,
        rows,
        numbers=() if brief else (took,),
        tones=[_TONES[line.trust] for line in one.lines],
        is_wordy=True,
    )


def _row(line: StepSummary, *, brief: bool) -> tuple[str, ...]:
    return (
        f"{line.name} ({line.kind})" if line.kind and not brief else line.name,
        line.brief.did,
        "\n".join(_results(line)),
        show_duration(line.seconds),
        "\n".join(_brief_proofs(line.proofs) if brief else _proofs(line.proofs)),
        _WORDS[line.trust] + (f" [{','.join(map(str, line.see))}]" if line.see else ""),
    )


def _results(line: StepSummary) -> list[str]:
    if not line.repeats:
        return list(line.figures)
    many = [f"medians of {line.repeats}"] if line.repeats > 1 else []
    bound = ["client-bound"] if line.client_bound else []
    return [*(line.brief.results or line.figures), *many, *bound]


def _proofs(proofs: Iterable[Proof]) -> list[str]:
    signed = [f"{'✓' if proof.good else '✗'} {proof.text}" for proof in proofs]
    return signed or ["nothing to prove"]


def _brief_proofs(proofs: Iterable[Proof]) -> list[str]:
    """Return the first few proofs of a step in their shortest form, bad ones first.

    The proof that the parts of the step's time add up is left out if there is any other proof.
    """
    texts = [proof.brief for proof in sorted(proofs, key=lambda one: one.good) if proof.brief]
    others = [text for text in texts if text != step_proof.CLOSES]
    return list(dict.fromkeys(others or texts))[:_MOST_PROOFS]


def spent(run: Run) -> Section:
    """Return a section with a line for each step on where its time went; empty if none is known."""
    items = [
        (results[0].name, words)
        for results in repeats.by_name(run.steps)
        if (words := time_spent.sentence(account.middle(results) or results[-1]))
    ]
    return Section("Where the time went", [Facts(items)] if items else [])


def remarks(one: RunsSummary, numbers: Sequence[int], more: str, *, brief: bool = False) -> Section:
    """Return a section with the remarks of a summary whose numbers, from 1, are in `numbers`.

    The text `more` is below them.  With `brief`, remarks do not repeat the names of their steps.
    """
    named = any(one.points[number - 1].name for number in numbers)
    title = f"Before you compare{_EXPLAINED if named else ''}"
    shown = Numbered(numbered(one, numbers, brief=brief), more)
    return Section(title, [shown] if numbers or more else [])


def numbered(
    one: RunsSummary, numbers: Iterable[int], *, brief: bool = False
) -> list[tuple[int, Sentence]]:
    """Return (number, remark) for the remarks of a summary whose numbers, from 1, are in `numbers`.

    With `brief`, a remark does not begin with the names of its steps, because the line of each step
    already has the numbers of its remarks.
    """
    return [
        (number, Sentence(_remark(point, one.runs, brief=brief), tone))
        for number in numbers
        for point in [one.points[number - 1]]
        for tone in [Tone.BAD if point.loud else Tone.PLAIN]
    ]


def _remark(point: Remark, runs: int, *, brief: bool) -> str:
    """Return the text of a remark, its anchor in docs/reference.md, and how many runs have it.

    `runs` is the number of all runs; if it is 1, or if one run has the remark, no number is shown.
    With `brief`, the names of the steps at its beginning are left out, unless something was not as
    requested.
    """
    begin = f"{', '.join(point.steps)}: " if brief and not point.loud else ""
    text = point.text.removeprefix(begin) + (f" ({point.name})" if point.name else "")
    if runs < 2 or point.runs < 2:
        return text
    words = "every run" if point.runs == runs else f"{point.runs} of {runs} runs"
    return f"{text} (so or with other numbers in {words})"


def find_control(run: Run) -> str:
    """Return a sentence on whether the machine kept its speed during the run.

    It is "" if the speed is unknown, or if it surely changed, because then a remark reports that.
    A change that is large but may be noise is reported as not known.
    """
    if calibration.moved(run.control):
        return ""
    shares = calibration.shares(run.control)
    wide = {name: share for name, share in shares.items() if abs(share) > calibration.FLOOR}
    if wide:
        words = ", ".join(f"{name} {share:+.0%}" for name, share in wide.items())
        return f"not known whether the machine kept its speed: {words}, which may be noise"
    return f"the machine kept its speed ({', '.join(shares)})" if shares else ""
