"""The report of a replay file, at most 100 columns wide, without any value of a statement."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule

from replayer.capture.capture_summary import ActionSource, CaptureSummary, FingerprintWork
from replayer.report.sanitize import lines, sanitize
from replayer.report.terminal.tables import INDENT, NumberTable, bullets, indented, line, pairs
from replayer.units import show_count, show_duration, show_size

SHOWN = 20
"""The most fingerprints that are shown; the JSON has more."""
_LONGEST = 280
"""The most characters of a text that are shown."""
_LOGS = 3
_HEADINGS = ("", "kind", "statements", "time", "share", "mean", "longest", "rows", "errors")


def render(summary: CaptureSummary, path: Path) -> Group:
    """Return the report of a replay file for the terminal."""
    return Group(
        Rule(_title(summary.source), align="left", style="bold"),
        indented(facts(summary, path)),
        *_heaviest(summary),
        *_missing(summary),
    )


def facts(summary: CaptureSummary, path: Path) -> list[tuple[str, str]]:
    """Return pairs of label and text about the capture as a whole."""
    seconds = summary.span_ns / 1e9
    rate = f", {show_count(summary.statements / seconds)} a second" if seconds else ""
    rows = [
        ("file", f"{sanitize(path)}, {show_size(path.stat().st_size)}"),
        ("logs", _logs(summary.source)),
        ("begin", _clock(summary.begin_ns) if summary.actions else ""),
        ("span", show_duration(seconds) if summary.actions else ""),
        ("sessions", _sessions(summary)),
        ("statements", f"{summary.statements:,}{rate}"),
        ("busiest minute", _busiest(summary)),
        ("kinds", lines(f"{count:,} {kind}" for kind, count in summary.kinds.items())),
        ("transactions", f"{summary.transactions:,}"),
        ("errors", _errors(summary)),
        ("values", "anonymised" if summary.source.anonymised else ""),
    ]
    return [(label, words) for label, words in rows if words]


def _title(source: ActionSource) -> str:
    what = " ".join(word for word in (source.engine, source.server_version) if word)
    return " · ".join(("capture", sanitize(what)))


def _logs(source: ActionSource) -> str:
    more = len(source.logs) - _LOGS
    return lines(source.logs[:_LOGS]) + (f" and {more:,} more" if more > 0 else "")


def _sessions(summary: CaptureSummary) -> str:
    before = summary.sessions_began_before
    return f"{summary.sessions:,}, at most {summary.sessions_at_once:,} at once" + (
        f"; {before:,} began before the log" if before else ""
    )


def _errors(summary: CaptureSummary) -> str:
    if summary.errors:
        return f"{summary.errors:,}"
    return "none" if summary.source.errors_logged else "not in the log"


def _busiest(summary: CaptureSummary) -> str:
    count = summary.busiest_minute_statements
    if not count:
        return ""
    return f"{count:,} statements, {_clock(summary.busiest_minute_ns)}"


def _clock(moment_ns: int) -> str:
    """Return a time in UTC as text; "unknown" if datetime cannot represent it, in a bad file."""
    try:
        moment = datetime.fromtimestamp(moment_ns // 1_000_000_000, UTC)
    except (ValueError, OverflowError, OSError):
        return "unknown"
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _heaviest(summary: CaptureSummary) -> Iterator[RenderableType]:
    shown = summary.heaviest[:SHOWN]
    if not shown:
        return
    yield ""
    timed = any(work.timed for work in shown)
    by = "time" if timed else "number, as the log has no durations"
    of = f"{len(shown)} of {summary.fingerprints:,}" if len(shown) < summary.fingerprints else "all"
    yield line(f"the heaviest statements by {by} ({of})", "bold")
    rows = [_row(place, work, summary.seconds) for place, work in enumerate(shown, 1)]
    used = [column for column in range(len(_HEADINGS)) if any(row[column] for row in rows)]
    headings = [_HEADINGS[column] for column in used]
    cells = [[row[column] for column in used] for row in rows]
    yield NumberTable(headings, cells, numbers=range(2, len(headings)))
    yield ""
    texts = pairs((f"{place}", _text(work)) for place, work in enumerate(shown, 1))
    yield Padding(texts, (0, 0, 0, INDENT), expand=False)


def _row(place: int, work: FingerprintWork, total: float) -> list[str]:
    timed = bool(work.timed)
    return [
        f"{place}",
        work.kind,
        f"{work.statements:,}",
        show_duration(work.seconds) if timed else "",
        f"{100 * work.seconds / total:.1f} %" if timed and total else "",
        show_duration(work.seconds / work.timed) if timed else "",
        show_duration(work.longest_seconds) if timed else "",
        f"{work.rows:,}" if work.rows else "",
        f"{work.errors:,}" if work.errors else "",
    ]


def _text(work: FingerprintWork) -> str:
    text = sanitize(work.text)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _missing(summary: CaptureSummary) -> Iterator[RenderableType]:
    missing = [(f"{count:,} {reason}", "yellow") for reason, count in summary.skipped.items()]
    if summary.copies:
        words = f"the data of {sum(summary.copies.values()):,} COPY FROM STDIN"
        missing.append((words, "yellow"))
    if summary.sessions_began_before:
        words = f"what {summary.sessions_began_before:,} sessions had set before the log began"
        missing.append((words, "yellow"))
    damage = [(sentence, "yellow") for sentence in summary.damage]
    for title, items in (("in the log and not in it", missing), ("damaged", damage)):
        if items:
            yield ""
            yield line(title, "bold")
            yield bullets((sanitize(words), style) for words, style in items)
