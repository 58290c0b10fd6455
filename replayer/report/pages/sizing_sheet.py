"""The verdict of a sizing on one printed page (A4): what a manager signs.

It has no script and no chart: question, answer, how sure, the resources, the recommended size, what
was not tested, and by whom it was made, when, and on what machine.
"""

from collections.abc import Iterator, Sequence

from replayer import __version__
from replayer.report.pages.markup import escaped, table
from replayer.report.pages.sizing_page import starred
from replayer.report.terminal import sizing as report
from replayer.report.terminal.sizing import SizingSummary
from replayer.sizing.target import Fit

_ANSWERS = {
    Fit.FITS: "Yes:",
    Fit.DOES_NOT_FIT: "No:",
    Fit.UNCLEAR: "It is not clear:",
    Fit.NOT_TESTED: "It was not tested:",
}
_COLORS = {Fit.FITS: "#00684b", Fit.DOES_NOT_FIT: "#a23b00"}
_MOST = 6
"""The most sentences of a list: the page is one, and `replayer size show` has all of them."""
_MOST_ROWS = 10
_LONGEST = 220
"""Characters of a sentence that are shown."""
_STYLE = """
@page { size: A4; margin: 14mm 16mm; }
* { box-sizing: border-box; }
body { font: 10.5pt/1.35 system-ui, sans-serif; color: #1b1f24; background: #fff;
  max-width: 178mm; margin: 0 auto; padding: 4mm; overflow-wrap: break-word; }
h1 { font-size: 15pt; margin: 0 0 2mm; } h2 { font-size: 11pt; margin: 3.5mm 0 1mm;
  border-bottom: 1px solid #d5dae1; }
p { margin: 1mm 0; } ul { margin: 1mm 0; padding-left: 5mm; } li { margin: 0; }
.answer { font-size: 14pt; font-weight: 700; } .quiet { color: #5a6472; font-size: 8.5pt; }
.scroll { overflow: visible; } table { border-collapse: collapse; font-size: 9pt; width: 100%; }
th, td { text-align: left; padding: .4mm 2mm .4mm 0; border-bottom: 1px solid #d5dae1;
  vertical-align: top; } td.number, th.number { text-align: right; white-space: nowrap; }
.signed { display: flex; gap: 10mm; margin-top: 8mm; } .signed div { flex: 1;
  border-top: 1px solid #1b1f24; font-size: 8.5pt; }
@media print { body { padding: 0; } }
"""


def sheet(one: SizingSummary) -> str:
    """Return the HTML of the page."""
    body = "\n".join(_body(one))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escaped(report.title(one))}</title><style>{_STYLE}</style></head>\n"
        f"<body>\n{body}\n</body></html>\n"
    )


def _body(one: SizingSummary) -> Iterator[str]:
    verdict, wanted = one.verdict, one.sizing.requirement
    source = one.sizing.source or one.sizing.profile
    yield f"<h1>Does {escaped(source)} fit on {escaped(_machine(one))}?</h1>"
    color = _COLORS.get(verdict.fit, "#6b5900")
    yield (
        f'<p class="answer" style="color:{color}">{_ANSWERS[verdict.fit]} '
        f"{escaped(_short(verdict.reasons[0]))}</p>"
    )
    yield from (f"<p>{escaped(_short(words))}</p>" for words in list(report.behind(verdict))[:3])
    yield "<h2>How sure</h2>"
    yield _list(_sure(one))
    if rows := report.resource_rows(verdict):
        yield f"<h2>Resource by resource, with {escaped(report.margin_words(wanted))}</h2>"
        yield table(report.RESOURCE_HEADINGS, rows[:_MOST_ROWS], numbers=range(3, 6))
    if verdict.recommendation:
        yield "<h2>A size that would fit, in cores as at the source</h2>"
        sizes = [row[:2] for row in report.recommended_rows(verdict.recommendation)]
        yield table(report.RECOMMENDED_HEADINGS[:2], sizes)
    changes = [report.changed(change) for change in verdict.changes]
    for heading, texts in (
        ("What would change the answer", changes),
        ("What was not tested", verdict.not_tested),
    ):
        if texts:
            yield f"<h2>{heading}</h2>"
            yield _list(texts)
    yield "<h2>Made</h2>"
    yield _list(_made(one))
    yield '<div class="signed"><div>date</div><div>name</div><div>signature</div></div>'


def _machine(one: SizingSummary) -> str:
    chosen = one.sizing.prediction
    host = one.run.label or str(one.run.host.get("host.name") or "this machine")
    return f"{host} ({chosen.machine})" if chosen is not None else host


def _short(words: str) -> str:
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]}…"


def _list(texts: Sequence[str]) -> str:
    items = [f"<li>{escaped(_short(text))}</li>" for text in texts[:_MOST]]
    if len(texts) > _MOST:
        items.append(f"<li>and {len(texts) - _MOST} more: replayer size show</li>")
    return f"<ul>{''.join(items)}</ul>"


def _sure(one: SizingSummary) -> list[str]:
    verdict = one.verdict
    words = [f"objective: {one.sizing.objective}, from each statement's intended start"]
    if verdict.low is not None:
        high = "no known end" if verdict.high is None else f"{verdict.high:.3g}"
        words.append(f"95 % interval of the multiple: {verdict.low:.3g} to {high}")
    if verdict.held:
        words.append(verdict.held)
    if verdict.confidence is not None:
        words.append(starred(f"the profile: {verdict.confidence.words}"))
        words += verdict.confidence.reasons
    return words


def _made(one: SizingSummary) -> list[str]:
    run, host = one.run, one.run.host
    facts = [
        str(host.get("host.name") or ""),
        f"{host['cpu.threads']} processors" if host.get("cpu.threads") else "",
        str(host.get("cpu.model") or ""),
        f"Linux {host['kernel.release']}" if host.get("kernel.release") else "",
        f"{run.engine.name} {run.engine.version}" if run.engine else "",
    ]
    by = f" by {one.sizing.by}" if one.sizing.by else ""
    return [
        f"{run.started}{by}, run {run.id}, replayer {__version__}",
        f"on {', '.join(filter(None, facts))}",
        f"by the profile {one.sizing.profile}: {dict(report.facts(one.sizing)).get('window', '')}",
    ]
