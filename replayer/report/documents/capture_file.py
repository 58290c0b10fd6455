"""The report of a capture file; it shows no value (constant) of a statement."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from replayer.capture.capture_summary import ActionSource, CaptureSummary, FingerprintWork
from replayer.report.document import Bullets, Facts, Numbered, Part, Section, Table
from replayer.run.display import Sentence, Tone
from replayer.units import show_count, show_duration, show_size, show_with_noun

SHOWN = 20
"""The largest number of fingerprints that are shown; the JSON has more."""
_LONGEST = 280
"""The most characters of a text that are shown."""
_LOGS = 3
_HEADINGS = ("", "kind", "statements", "time", "share", "mean", "longest", "rows", "errors")


def parts(summary: CaptureSummary, path: Path) -> Iterator[Part]:
    """Yield the parts of the report on the capture file at `path`, whose summary is `summary`.

    They are facts, the statements that took most time, and what is missing in the file.
    """
    yield Section(_title(summary.source), [Facts(_facts(summary, path))], is_main=True)
    yield from _heaviest(summary)
    yield from _missing(summary)


def _facts(summary: CaptureSummary, path: Path) -> list[tuple[str, str]]:
    """Return pairs of label and text about the capture as a whole."""
    seconds = summary.span_ns / 1e9
    rate = f", {show_count(summary.statements / seconds)} a second" if seconds else ""
    rows = [
        ("file", f"{path}, {show_size(path.stat().st_size)}"),
        ("logs", _logs(summary.source)),
        ("begin", _clock(summary.begin_ns) if summary.actions else ""),
        ("span", show_duration(seconds) if summary.actions else ""),
        ("sessions", _sessions(summary)),
        ("statements", f"{summary.statements:,}{rate}"),
        ("busiest minute", _busiest(summary)),
        ("kinds", ", ".join(f"{count:,} {kind}" for kind, count in summary.kinds.items())),
        ("transactions", f"{summary.transactions:,}"),
        ("errors", _errors(summary)),
        ("values", "anonymised" if summary.source.anonymised else ""),
    ]
    return [(label, words) for label, words in rows if words]


def _title(source: ActionSource) -> str:
    return f"capture · {' '.join(filter(None, (source.engine, source.server_version)))}"


def _logs(source: ActionSource) -> str:
    more = len(source.logs) - _LOGS
    return ", ".join(source.logs[:_LOGS]) + (f" and {more:,} more" if more > 0 else "")


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
    return f"{show_with_noun(count, 'statement')}, {_clock(summary.busiest_minute_ns)}"


def _clock(moment_ns: int) -> str:
    """Return a time, in ns since 1970, as text in UTC.

    It is "unknown" if datetime cannot represent the time, as in a damaged file.
    """
    try:
        moment = datetime.fromtimestamp(moment_ns // 1_000_000_000, UTC)
    except (ValueError, OverflowError, OSError):
        return "unknown"
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _heaviest(summary: CaptureSummary) -> Iterator[Part]:
    shown = summary.heaviest[:SHOWN]
    if not shown:
        return
    timed = any(work.timed for work in shown)
    by = "time" if timed else "number, as the log has no durations"
    of = f"{len(shown)} of {summary.fingerprints:,}" if len(shown) < summary.fingerprints else "all"
    rows = [_row(place, work, summary.seconds) for place, work in enumerate(shown, 1)]
    used = [column for column in range(len(_HEADINGS)) if any(row[column] for row in rows)]
    headings = [_HEADINGS[column] for column in used]
    cells = [[row[column] for column in used] for row in rows]
    table = Table(headings, cells, numbers=range(2, len(headings)))
    yield Section(f"the heaviest statements by {by} ({of})", [table])
    texts = [(place, Sentence(_text(work))) for place, work in enumerate(shown, 1)]
    yield Section("their texts", [Numbered(texts)])


def _row(place: int, work: FingerprintWork, total: float) -> list[str]:
    timed = bool(work.timed)
    return [
        f"[{place}]",
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
    return work.text if len(work.text) <= _LONGEST else f"{work.text[:_LONGEST]}…"


def _missing(summary: CaptureSummary) -> Iterator[Part]:
    missing = [f"{count:,} {reason}" for reason, count in summary.skipped.items()]
    if summary.copies:
        missing.append(f"the data of {sum(summary.copies.values()):,} COPY FROM STDIN")
    if before := summary.sessions_began_before:
        missing.append(f"what {before:,} sessions had set before the log began")
    yield Section("in the log and not in it", [Bullets(missing, Tone.UNCLEAR)])
    yield Section("damaged", [Bullets(summary.damage, Tone.UNCLEAR)])
