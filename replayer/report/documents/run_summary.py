"""The summary of runs: what they ran on, a line for each step, and what to know about it."""

from collections.abc import Iterator

from replayer.report.document import Facts, Numbered, Part, Section, Table
from replayer.report.terminal.step_summary import Remark, RunsSummary, StepSummary, Trust
from replayer.run.display import Sentence, Tone
from replayer.units import show_duration

TONES = {Trust.YES: Tone.GOOD, Trust.CARE: Tone.UNCLEAR, Trust.NO: Tone.BAD}
_WORDS = {Trust.YES: "yes", Trust.CARE: "care", Trust.NO: "no"}
_MOST_POINTS = 8
"""The most remarks that are shown; the others are folded."""


def parts(one: RunsSummary) -> Iterator[Part]:
    """Yield the parts of a summary."""
    yield Facts(one.about)
    yield steps(one)
    points = [Sentence(_remark(point, one.runs), _tone(point)) for point in one.points]
    if not points:
        return
    few: list[Part] = [Numbered(points[:_MOST_POINTS])]
    rest = points[_MOST_POINTS:]
    if rest:
        numbered = Numbered(rest, first=_MOST_POINTS + 1)
        few.append(Section(f"and {len(rest)} more", [numbered], is_folded=True, is_printed=True))
    yield Section("What to know about these numbers", few)


def steps(one: RunsSummary) -> Part:
    """Return the table of the steps."""
    if not one.lines:
        return Sentence("No step was begun.", Tone.BAD)
    return Table(
        ("step", "what it did", "result", "took", "proof", "believe?"),
        [_row(line) for line in one.lines],
        numbers=(3,),
        tones=[TONES[line.trust] for line in one.lines],
        is_wordy=True,
    )


def _row(line: StepSummary) -> tuple[str, ...]:
    return (
        f"{line.name} ({line.kind})" if line.kind else line.name,
        line.brief.did,
        "\n".join(results(line)),
        show_duration(line.seconds),
        "\n".join(f"{'✓' if proof.good else '✗'} {proof.text}" for proof in line.proofs)
        or "nothing to prove",
        believe(line),
    )


def results(line: StepSummary) -> list[str]:
    """Return the main results of a step, and what to know to read them."""
    if not line.repeats:
        return list(line.figures)
    many = [f"medians of {line.repeats}"] if line.repeats > 1 else []
    bound = ["client-bound"] if line.client_bound else []
    return [*(line.brief.results or line.figures), *many, *bound]


def believe(line: StepSummary) -> str:
    """Return whether to believe a step, with the numbers of the remarks on it."""
    return _WORDS[line.trust] + (f" [{','.join(map(str, line.see))}]" if line.see else "")


def _tone(point: Remark) -> Tone:
    return Tone.BAD if point.loud else Tone.PLAIN


def _remark(point: Remark, runs: int) -> str:
    """Return a remark, its anchor in docs/reference.md, and how many of several runs have it."""
    name = f" ({point.name})" if point.name else ""
    if runs < 2 or point.runs < 2:
        return f"{point.text}{name}"
    words = "every run" if point.runs == runs else f"{point.runs} of {runs} runs"
    return f"{point.text}{name} (so or with other numbers in {words})"
