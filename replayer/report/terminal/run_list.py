"""The list of stored runs: one line each, as wide as the terminal, in plain text."""

import shutil
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from rich.cells import cell_len, set_cell_size

from replayer.analysis.differences.metric_names import split_name
from replayer.cli.stdio import SPELLED
from replayer.report.sanitize import sanitize
from replayer.results import run_listing
from replayer.results.store import StoredRun, Unreadable
from replayer.units import show, show_duration

_HEADINGS = ("id", "date", "took", "workload", "engine", "kernel", "label", "status", "headline")
_WIDEST = (0, 16, 12, 20, 20, 32, 24, 11, 160)
"""Maximum width of each column; longer text is cut.  0 means no limit: an id is never cut, because
users select a run by it."""
_GIVES_WAY = ("date", "workload", "took", "engine", "kernel")
"""Columns to drop, in this order, if not all fit; an id contains date and workload in short."""
_LEAST = 16
_CUT_FIRST = {"headline": 30, "kernel": 16}
"""Columns to cut to these widths, in this order, before any column is dropped."""
_FEW = 5
_GAP = "  "
_MOST = 256
"""Characters of a text that are looked at; a label may have any length, and is cut much shorter."""


def write(
    entries: Sequence[StoredRun | Unreadable],
    where: Path,
    *,
    every: bool,
    paths: bool = False,
    metric: str = "",
) -> None:
    """Print a list of runs on stdout, and on stderr what is not in the list and why.

    `where` is the folder of the results. With `every`, failed runs are listed too. With `paths`,
    the paths of the runs' files follow the list. `metric` is the metric by which the runs are
    sorted: its value is put before each headline.
    """
    stored = [one for one in entries if isinstance(one, StoredRun)]
    others = [one for one in entries if not isinstance(one, StoredRun)]
    kept, left = run_listing.without_failed(stored, every=every)
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    lines = [*rows(kept, columns, metric)]
    if not kept:
        lines = [f"there are no such runs in {sanitize(where)}/"]
    if paths:
        lines += [sanitize(one.path) for one in kept]
    encoding = sys.stdout.encoding or "utf-8"
    text = "".join(f"{line}\n" for line in lines)
    sys.stdout.write(text.encode(encoding, SPELLED).decode(encoding))
    notes = [left] if left else []
    notes += [f"{sanitize(one.path.name)}: {sanitize(one.reason)}" for one in others[:_FEW]]
    if len(others) > _FEW:
        notes.append(f"and {len(others) - _FEW} more files that are no runs")
    for note in notes:
        print(note, file=sys.stderr)  # noqa: T201


def rows(runs: Sequence[StoredRun], width: int | None, metric: str = "") -> Iterator[str]:
    """Yield a heading and a line for each run, at most `width` columns wide; None is no limit.

    `metric` is the name of a metric whose value is put before each headline; "" for none.
    """
    table = [_HEADINGS, *(_row(run, metric) for run in runs)]
    widths = [_width(table, number) for number in range(len(_HEADINGS))]
    kept = [number for number in range(len(_HEADINGS)) if any(row[number] for row in table[1:])]
    if width is not None:
        kept = _fitting(kept, widths, width)
    for row in table:
        yield _GAP.join(_sized(row[number], widths[number]) for number in kept).rstrip()


def _width(table: Sequence[Sequence[str]], number: int) -> int:
    longest = max(_cells(row[number]) for row in table)
    return min(longest, _WIDEST[number] or longest)


def _cells(text: str) -> int:
    return len(text) if text.isascii() else cell_len(text)


def _fitting(kept: list[int], widths: list[int], room: int) -> list[int]:
    """Return the indices of those of the columns `kept` that fit into a line; cut their `widths`.

    `room` is the width of the line in characters. `widths` is changed in place. The columns of
    `_CUT_FIRST` are cut first, then the others from the last to the first. The id is never cut.
    Columns are dropped only if this does not suffice.
    """
    first = {_HEADINGS.index(name): most for name, most in _CUT_FIRST.items()}
    least = [min(width, first.get(number, width)) for number, width in enumerate(widths)]
    for name in _GIVES_WAY:
        if _needed(kept, least) <= room:
            break
        kept = [number for number in kept if _HEADINGS[number] != name]
    for number, most in [*first.items(), *((number, _LEAST) for number in reversed(kept[1:]))]:
        over = _needed(kept, widths) - room
        if over > 0 and number in kept:
            widths[number] = max(min(widths[number], most), widths[number] - over)
    return kept


def _needed(kept: Sequence[int], widths: Sequence[int]) -> int:
    return sum(widths[number] for number in kept) + len(_GAP) * (len(kept) - 1)


def _sized(text: str, width: int) -> str:
    """Return a text padded or cut to `width` columns; a text that was cut ends in an ellipsis."""
    if text.isascii() and len(text) <= width:
        return text.ljust(width)
    if _cells(text) <= width:
        return set_cell_size(text, width)
    return f"{set_cell_size(text, width - 1)}…"


def _row(run: StoredRun, metric: str) -> tuple[str, ...]:
    texts = (
        run.started[:16].replace("T", " "),
        _took(run),
        run.workload,
        run.engine,
        run.kernel,
        run.label,
        run_listing.state(run),
        _headline(run, metric),
    )
    return (sanitize(run.id), *(sanitize(text[:_MOST]) for text in texts))


def _took(run: StoredRun) -> str:
    try:
        began, ended = (datetime.fromisoformat(text) for text in (run.started, run.finished))
        seconds = (ended - began).total_seconds()
        # The clock was set back meanwhile.
        return show_duration(seconds) if seconds >= 0 else "-"
    except (ValueError, TypeError):
        return "-"


def _headline(run: StoredRun, metric: str) -> str:
    """Return a run's headline in one line; if its file has none, its main metrics.

    If `metric` is given, its value stands before the headline.
    """
    leading = [(name, show(number, unit)) for name, number, unit in run.leading]
    answer = run.headline or "; ".join(
        f"{' '.join(split_name(name))} {text}" for name, text in leading
    )
    return "; ".join([*(f"{name} {text}" for name, text in leading if name == metric), answer])
