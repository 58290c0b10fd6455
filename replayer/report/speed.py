"""Whether a machine keeps up with a capture, on at most 100 columns, as CSV, Markdown or a page."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.text import Text

from replayer.model import Run
from replayer.report import csv, markdown, sizing
from replayer.report.markup import document, escaped, table
from replayer.report.tables import Sheet, bullets, indented, line
from replayer.report.words import clean
from replayer.sizing import speed
from replayer.sizing.speed import Speed, Trial
from replayer.sizing.verdict import Verdict
from replayer.units import show_count, show_duration, three

_HEADINGS = ("times", "ended", "asked/s", "done/s", "p99", "lag p99", "why")


class Summary(NamedTuple):
    """All that reports say of a machine that was sized by a capture."""

    speed: Speed
    run: Run
    verdict: Verdict


def summary(run: Run) -> Summary | None:
    """Return what a run found that sized a machine by a capture; None of any other."""
    wanted = Speed.of(run)
    return None if wanted is None else Summary(wanted, run, speed.judge(wanted, run))


def beginning(wanted: Speed) -> Group:
    """Return what is required, and what will be done."""
    length = show_duration(wanted.window / wanted.required)
    stages = [f"warm up, then search the highest speed: some 8 replays of up to {length}"]
    if wanted.hold is not None:
        held = show_duration((wanted.hold[1] - wanted.hold[0]) / wanted.required)
        stages.append(f"hold the required speed for {held}, if it is sustained")
    return Group(
        _rule(f"what is required · {clean(wanted.capture)}"),
        indented((label, clean(words)) for label, words in speed.facts(wanted)),
        _rule("what will be done"),
        indented((f"{number}.", words) for number, words in enumerate(stages, 1)),
    )


def render(one: Summary) -> Group:
    """Return the verdict for the terminal, the answer first."""
    verdict = one.verdict
    parts: list[RenderableType] = [
        _rule(title(one)),
        line(sizing.headline(verdict), sizing.STYLES[verdict.fit]),
        *(line(clean(words)) for words in sizing.behind(verdict)),
        "",
        line("what is required", "bold"),
        indented((label, clean(words)) for label, words in speed.facts(one.speed)),
    ]
    rows = trial_rows(one)
    if rows:
        parts += ["", line("the trials, the slowest first", "bold"), Sheet(_HEADINGS, rows)]
    if verdict.unproven:
        parts += ["", line("what this leaves open", "bold")]
        parts.append(bullets((clean(words), "") for words in verdict.unproven))
    return Group(*parts)


def _rule(text: str) -> Rule:
    return Rule(Text(text, style="bold"), align="left", style="dim")


def title(one: Summary) -> str:
    """Return what was sized by what."""
    host = clean(one.run.host.get("host.name") or "this machine")
    engine = one.run.engine
    server = f"{engine.name} {engine.version}" if engine else ""
    words = ("size", one.speed.capture, one.speed.source, host, server)
    return " · ".join(clean(word) for word in words if word)


def trial_rows(one: Summary) -> list[list[str]]:
    """Return each trial as text, the slowest first."""
    trials = sorted(speed.trials(one.speed, one.run), key=lambda trial: trial.multiple)
    return [_trial(one.speed, trial) for trial in trials]


def _trial(wanted: Speed, trial: Trial) -> list[str]:
    step = trial.step
    done, p99, lag = (
        step.value(f"replay.{name}") for name in ("statements", "response.p99", "lag.p99")
    )
    return [
        three(trial.multiple),
        trial.ended.value,
        show_count(round(trial.multiple * wanted.rate, 1)),
        "-" if done is None else show_count(round(done, 1)),
        "-" if p99 is None else show_duration(p99),
        "-" if lag is None else show_duration(lag),
        clean(trial.reason),
    ]


def as_csv(one: Summary) -> str:
    """Return a row for the total, then one of each trial."""
    verdict = one.verdict
    rows: list[Sequence[object]] = [
        _HEADINGS,
        ("" if verdict.multiple is None else verdict.multiple, verdict.fit.value, one.speed.rate,
         "", "", "", "; ".join(verdict.reasons)),
    ]  # fmt: skip
    return csv.written([*rows, *trial_rows(one)])


def as_markdown(one: Summary) -> str:
    """Return the verdict for a ticket."""
    return "\n\n".join(_markdown(one)) + "\n"


def _markdown(one: Summary) -> Iterator[str]:
    verdict = one.verdict
    yield f"**{markdown.plain(sizing.headline(verdict))}**"
    words = [title(one), *sizing.behind(verdict)]
    yield "\n".join(f"- {markdown.plain(text)}" for text in words)
    pairs = [[label, text] for label, text in speed.facts(one.speed)]
    yield markdown.table(["what is required", ""], pairs)
    if rows := trial_rows(one):
        yield markdown.table(_HEADINGS, rows)
    yield "\n".join(f"- {markdown.plain(text)}" for text in verdict.unproven)


def page(one: Summary) -> str:
    """Return the page of a verdict."""
    verdict = one.verdict
    head = [f'<p class="verdict">{escaped(sizing.headline(verdict))}</p>']
    head += [f"<p>{escaped(words)}</p>" for words in sizing.behind(verdict)]
    head.append(f'<p class="quiet">run {escaped(one.run.id)}, {escaped(one.run.started)}</p>')
    body = ["<h2>What is required</h2>", table(["", ""], speed.facts(one.speed))]
    if rows := trial_rows(one):
        body += ["<h2>Trials</h2>", table(_HEADINGS, rows, numbers=[0, 2, 3, 4, 5])]
    if verdict.unproven:
        items = "".join(f"<li>{escaped(words)}</li>" for words in verdict.unproven)
        body.append(f"<h2>What this leaves open</h2><ul>{items}</ul>")
    return document(title(one), head="\n".join(head), body=body, drawn=[], series=[])


def beside(verdicts: Sequence[tuple[str, Verdict]]) -> Group:
    """Return verdicts on one machine beside each other, by what each of them is."""
    rows = [
        [clean(name), one.fit.value, _times(one), clean(one.first or one.proof or "-")]
        for name, one in verdicts
    ]
    return Group("", line("beside each other", "bold"), Sheet(_BESIDE, rows, left=2))


_BESIDE = ("sized by", "verdict", "times what is required", "first to give")


def _times(one: Verdict) -> str:
    if one.multiple is None or one.low is None:
        return "-"
    high = "-" if one.high is None else three(one.high)
    return f"{three(one.multiple)} ({three(one.low)} to {high})"
