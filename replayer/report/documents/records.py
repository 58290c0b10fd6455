"""Rows and facts of a result as parts of a document; the end of a key shows its unit."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from replayer.report.document import Table, Texts
from replayer.units import show_count, show_duration, show_size

_SUFFIXES = {
    # end of a key -> (the heading has this instead, the function that formats the values)
    "_per_second": ("/s", show_count),
    "_bytes": ("", show_size),
    "_seconds": ("", show_duration),
    "_s": ("", show_duration),
    "_size": (" size", show_size),
    "_share": (" share", lambda value: f"{value:.1%}"),
    "_ns": ("", lambda value: show_duration(value / 1e9)),
    "_ms": ("", lambda value: show_duration(value / 1e3)),
    "_us": ("", lambda value: show_duration(value / 1e6)),
    # PostgreSQL's views use this name for milliseconds; replayer's tables do not use it.
    "_time": (" time", lambda value: show_duration(value / 1e3)),
    "_percent": ("", lambda value: f"{value:.1f} %"),
}
_WHOLE = {"bytes": show_size, "seconds": show_duration, "elapsed": show_duration}


def records(rows: Sequence[Mapping[str, Any]], *, first: int = 3, last: int = 7) -> Table:
    """Return rows as a table; of many rows, only the first `first` and the last `last` are shown.

    The last word of a key is its unit (`table_bytes`, `elapsed_ns`), as in a result file.
    """
    keys = list(dict.fromkeys(key for row in rows for key in row))
    words = [key for key in keys if any(isinstance(row.get(key), str) for row in rows)]
    keys = words + [key for key in keys if key not in words]
    shown = [[cell(key, row.get(key)) for key in keys] for row in rows]
    if len(shown) > first + last + 1:
        shown[first:-last] = [["…"] * len(keys)]
    return Table([heading(key) for key in keys], shown, numbers=range(len(words), len(keys)))


def condensed(rows: Sequence[Mapping[str, Any]], most: int = 3) -> list[Texts]:
    """Return a line for each of the `most` rows with the largest values, in descending order.

    A line has the texts of its row, and the numbers that are not 0.  If there are more rows, a last
    line has their count and refers to the result file.
    """
    ordered = sorted(rows, key=_largest, reverse=True)
    lines_ = []
    for row in ordered[:most]:
        words = " ".join(value for value in row.values() if isinstance(value, str))
        numbers = [
            f"{heading(key)} {cell(key, value)}"
            for key, value in row.items()
            if not isinstance(value, str) and value
        ]
        lines_.append(Texts([*([words] if words else []), *numbers], "   "))
    if len(ordered) > most:
        lines_.append(Texts([f"and {len(ordered) - most} more in the result file"]))
    return lines_


def _largest(row: Mapping[str, Any]) -> float:
    return max((value for value in row.values() if isinstance(value, int | float)), default=0.0)


def heading(key: str) -> str:
    """Return a column's heading: `rows_per_second` is rows/s, `table_bytes` is table."""
    for suffix, (words, _) in _SUFFIXES.items():
        if key.endswith(suffix) and key != suffix:
            return key.removesuffix(suffix).replace("_", " ") + words
    return key.replace("_", " ")


def cell(key: str, value: Any) -> str:
    """Return a value as text, in the unit that the end of its key names; "-" for None."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float) or not math.isfinite(value):
        return str(value)
    if key in _WHOLE:
        return _WHOLE[key](value)
    for suffix, (_, form) in _SUFFIXES.items():
        if key.endswith(suffix):
            return form(value)
    return show_count(value)
