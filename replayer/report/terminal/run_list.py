"""A list of stored runs: a line for each, as wide as the terminal, plain text and quickly made."""

from collections.abc import Iterator, Sequence

from rich.cells import cell_len, set_cell_size

from replayer.report.sanitize import sanitize
from replayer.results import editing
from replayer.results.store import StoredRun
from replayer.units import show

_HEADINGS = ("id", "date", "workload", "engine", "kernel", "label", "status", "headline")
_WIDEST = (0, 16, 20, 20, 32, 24, 11, 60)
"""Of each column: what is wider is cut; an id, by which a run is asked for, never is."""
_GIVES_WAY = ("date", "workload", "engine", "kernel")
"""Columns that go where all do not fit, in this order: an id says the first two in its own way."""
_LEAST = 16
_GAP = "  "
_MOST = 256
"""Characters that are looked at of what is cut far below: a label may have any number."""


def rows(runs: Sequence[StoredRun], width: int | None) -> Iterator[str]:
    """Yield a heading and a line for each run, at most so many columns wide; None: as it comes."""
    table = [_HEADINGS, *map(_row, runs)]
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
    """Return the columns that fit; the last one, and then the widest, get what room there is."""
    for name in _GIVES_WAY:
        if _needed(kept, widths) <= room:
            return kept
        kept = [number for number in kept if _HEADINGS[number] != name]
    for number in reversed(kept[1:]):
        over = _needed(kept, widths) - room
        if over > 0:
            widths[number] = max(min(widths[number], _LEAST), widths[number] - over)
    return kept


def _needed(kept: Sequence[int], widths: Sequence[int]) -> int:
    return sum(widths[number] for number in kept) + len(_GAP) * (len(kept) - 1)


def _sized(text: str, width: int) -> str:
    """Return a text that takes so many columns, with a mark where it was cut."""
    if text.isascii() and len(text) <= width:
        return text.ljust(width)
    if _cells(text) <= width:
        return set_cell_size(text, width)
    return f"{set_cell_size(text, width - 1)}…"


def _row(run: StoredRun) -> tuple[str, ...]:
    texts = (
        run.started[:16].replace("T", " "),
        run.workload,
        run.engine,
        run.kernel,
        run.label,
        state(run),
        headline(run),
    )
    return (sanitize(run.id), *(sanitize(text[:_MOST]) for text in texts))


def state(run: StoredRun) -> str:
    """Return how a run ended; of one whose process was killed that."""
    if run.writer and editing.cut(run.status, run.writer):
        return "killed"
    return run.status


def headline(run: StoredRun) -> str:
    """Return what a run's steps are run for, in one line."""
    return "; ".join(f"{metric} {show(number, unit)}" for metric, number, unit in run.headline)
