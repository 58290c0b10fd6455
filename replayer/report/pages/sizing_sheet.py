"""The verdict on a machine on one printed page (A4), for a manager to sign.

It has no script and no chart. It has the question, the answer, how sure that is, the resources, the
recommended size, what was not tested, and a line on its maker, time and machine.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from replayer import __version__
from replayer.model import Run
from replayer.report.documents import sizing as report
from replayer.report.documents import speed as speed_report
from replayer.report.documents.sizing import SizingSummary
from replayer.report.documents.speed import SpeedSummary
from replayer.report.pages.markup import table
from replayer.report.writers.page_writer import escaped
from replayer.sizing import capture_sizing
from replayer.sizing.record import Sizing
from replayer.sizing.target import Fit
from replayer.sizing.verdict import FitVerdict, judge
from replayer.units import show_times

_ANSWERS = {
    Fit.FITS: "Yes:",
    Fit.DOES_NOT_FIT: "No:",
    Fit.UNCLEAR: "It is not clear:",
    Fit.NOT_TESTED: "It was not tested:",
}
_COLORS = {Fit.FITS: "#00684b", Fit.DOES_NOT_FIT: "#a23b00"}
_MOST = 6
"""The most sentences of a list: there is only one page; `replayer size show` prints all."""
_MOST_ROWS = 10
_LONGEST = 220
"""The most characters of a sentence that are shown."""
_STYLE = """
@page { size: A4; margin: 14mm 16mm; }
* { box-sizing: border-box; }
body { font: 10pt/1.3 system-ui, sans-serif; color: #1b1f24; background: #fff;
  max-width: 178mm; margin: 0 auto; padding: 4mm; overflow-wrap: break-word; }
h1 { font-size: 13pt; margin: 0 0 2mm; } h2 { font-size: 11pt; margin: 3.5mm 0 1mm;
  border-bottom: 1px solid #d5dae1; }
p { margin: 1mm 0; } ul { margin: 1mm 0; padding-left: 5mm; } li { margin: 0; }
.answer { font-size: 12pt; font-weight: 700; } .quiet { color: #5a6472; font-size: 8.5pt; }
.scroll { overflow: visible; } table { border-collapse: collapse; font-size: 9pt; width: 100%; }
th, td { text-align: left; padding: .4mm 2mm .4mm 0; border-bottom: 1px solid #d5dae1;
  vertical-align: top; } td.number, th.number { text-align: right; white-space: nowrap; }
.signed { display: flex; gap: 10mm; margin-top: 8mm; break-inside: avoid; } .signed div { flex: 1;
  border-top: 1px solid #1b1f24; font-size: 8.5pt; }
@media (max-width: 600px) { table { font-size: 7.5pt; }
  td.number, th.number { white-space: normal; } }
@media print { body { padding: 0; } }
"""


class SizingSheet(NamedTuple):
    """The content of the printed page on a machine that was sized by a profile or a capture."""

    title: str
    source: str
    machine: str
    verdict: FitVerdict
    sure: list[str]
    margin: str
    """The growth and the headroom, in words."""
    headings: Sequence[str]
    rows: list[list[str]]
    """A row for each resource."""
    made: list[str]
    """Lines on the time, the person, the machine and the source of the sizing."""


def sheet(run: Run) -> str:
    """Return the HTML of the page for a run; raise Impossible if the run did not size a machine."""
    by_capture = speed_report.summary(run)
    if by_capture is not None:
        return _html(_of_capture(by_capture))
    record = Sizing.of(run)
    return _html(_of_profile(SizingSummary(record, run, judge(record, run))))


def _of_profile(one: SizingSummary) -> SizingSheet:
    record = one.sizing
    window = dict(report.facts(record)).get("window", "")
    return SizingSheet(
        title=report.title(one),
        source=record.source or record.profile,
        machine=_machine(one.run, record.prediction.machine if record.prediction else ""),
        verdict=one.verdict,
        sure=_sure(f"{record.objective}, from each statement's intended start", one.verdict),
        margin=report.margin_words(record.requirement),
        headings=report.RESOURCE_HEADINGS,
        rows=report.resource_rows(one.verdict),
        made=_made(one.run, record.by, f"by the profile {record.profile}: {window}"),
    )


def _of_capture(one: SpeedSummary) -> SizingSheet:
    speed = one.speed
    facts = dict(capture_sizing.facts(speed))
    window = f"{facts['window']}, {facts['statements']}"
    return SizingSheet(
        title=speed_report.title(one),
        source=speed.source or speed.capture,
        machine=_machine(one.run),
        verdict=one.verdict,
        sure=_sure(facts["objective"], one.verdict),
        margin=f"growth {speed.growth:g}, headroom {speed.headroom:.0%}",
        headings=speed_report.RESOURCE_HEADINGS,
        rows=speed_report.resource_rows(one.verdict),
        made=_made(one.run, speed.by, f"by the capture {speed.capture}: {window}"),
    )


def _html(one: SizingSheet) -> str:
    body = "\n".join(_body(one))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escaped(one.title)}</title><style>{_STYLE}</style></head>\n"
        f"<body>\n{body}\n</body></html>\n"
    )


def _body(one: SizingSheet) -> Iterator[str]:
    verdict = one.verdict
    yield f"<h1>Does {escaped(one.source)} fit on {escaped(one.machine)}?</h1>"
    color = _COLORS.get(verdict.fit, "#6b5900")
    yield (
        f'<p class="answer" style="color:{color}">{_ANSWERS[verdict.fit]} '
        f"{escaped(_short(verdict.reasons[0]))}</p>"
    )
    yield from (f"<p>{escaped(_short(words))}</p>" for words in list(report.behind(verdict))[:3])
    yield "<h2>How sure</h2>"
    yield _list(one.sure)
    if one.rows:
        yield f"<h2>Resource by resource, with {escaped(one.margin)}</h2>"
        yield table(one.headings, one.rows[:_MOST_ROWS], numbers=range(3, len(one.headings)))
    if verdict.recommendation:
        yield "<h2>A size that would fit, in cores as at the source</h2>"
        # Side by side, as one below the other would take a second page.
        sizes = verdict.recommendation
        yield table([one.resource for one in sizes], [[one.shown for one in sizes]])
    for heading, texts in (
        ("What would change the answer", [report.changed(change) for change in verdict.changes]),
        ("What was not tested", verdict.not_tested or verdict.unproven),
    ):
        if texts:
            yield f"<h2>{heading}</h2>"
            yield _list(texts)
    yield "<h2>Made</h2>"
    yield _list(one.made)
    yield '<div class="signed"><div>date</div><div>name</div><div>signature</div></div>'


def _machine(run: Run, chosen: str = "") -> str:
    host = run.label or str(run.host.get("host.name") or "this machine")
    return f"{host} ({chosen})" if chosen else host


def _short(words: str) -> str:
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]}…"


def _list(texts: Sequence[str]) -> str:
    items = [f"<li>{escaped(_short(text))}</li>" for text in texts[:_MOST]]
    if len(texts) > _MOST:
        items.append(f"<li>and {len(texts) - _MOST} more: replayer size show</li>")
    return f"<ul>{''.join(items)}</ul>"


def _sure(objective: str, verdict: FitVerdict) -> list[str]:
    words = [f"objective: {objective}"]
    if verdict.low is not None:
        end = "on, no end was found" if verdict.high is None else f"to {show_times(verdict.high)}"
        words.append(f"95 % interval of the multiple: from {show_times(verdict.low)} {end}")
    if verdict.confidence is not None:
        words.append(f"the profile: {verdict.confidence.words}")
        words += verdict.confidence.reasons
    return words


def _made(run: Run, by: str, source: str) -> list[str]:
    host = run.host
    facts = [
        str(host.get("host.name") or ""),
        f"{host['cpu.threads']} processors" if host.get("cpu.threads") else "",
        str(host.get("cpu.model") or ""),
        f"Linux {host['kernel.release']}" if host.get("kernel.release") else "",
        f"{run.engine.name} {run.engine.version}" if run.engine else "",
    ]
    return [
        f"{run.started}{f' by {by}' if by else ''}, run {run.id}, replayer {__version__}",
        f"on {', '.join(filter(None, facts))}",
        source,
    ]
