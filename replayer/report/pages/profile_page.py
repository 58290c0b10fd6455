"""The HTML page of a profile: one file that opens from disk and needs no network."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from replayer.analysis.profiles import rolling_windows, usage
from replayer.analysis.profiles.usage import NAMED
from replayer.report.pages import column_encoding
from replayer.report.pages.charts import Chart, Trace, word
from replayer.report.pages.markup import (
    Drawn,
    document,
    escaped,
    figures,
    identified,
    table,
    watched,
)
from replayer.report.pages.sizing_page import starred
from replayer.report.terminal import profile as report
from replayer.report.terminal.profile import ProfileSummary
from replayer.report.terminal.sizing import RECOMMENDED_HEADINGS, margin_words, recommended_rows
from replayer.results.profile import ResourceProfile

_POINTS = 2000
"""The most points of a line."""
_GAPS = 200
_PANEL = 150
"""Pixels of height of a panel of the series."""
_PANELS = (
    # (title of the panel, its resources)
    ("per second", ("transactions", "statements")),
    ("cores", ("cpu", "server_cpu", "steal")),
    ("device, 1/s", ("read_iops", "write_iops")),
    ("device, MB/s", ("read_mbps", "write_mbps")),
    ("blocks/s", ("blocks", "blocks_read")),
    ("log, MB/s", ("wal",)),
    ("sessions", ("sessions", "sessions_active", "sessions_waiting")),
    ("memory, bytes", ("memory",)),
    ("network, MB/s", ("net_in", "net_out")),
)
_DECIDING = ("transactions", "cpu", "iops", "mbps", "net_out", "sessions_active")
_APART = 0.02
"""A line of largest values is drawn if it is above the mean by this share of the maximum."""
_SEVERAL = 1.5
"""A point of so many rows' length has several in it."""
_SHORTEST = 0.02
"""A level is drawn if it is exceeded for at least that many minutes a day."""


def page(one: ProfileSummary) -> str:
    """Return the HTML page of a profile."""
    drawn = identified(("levels", chart) for chart in _charts(one))
    entry = _entry(one.profile)
    body = [
        *_complete(one),
        *(_series(entry) if entry["panels"] else ()),
        *_windows(one),
        *_recommended(one),
        *_moment(one),
        *_levels(one, drawn),
        *_work(one),
        *_notes(one.profile),
    ]
    return document(
        report.title(one.profile),
        head=_head(one),
        body=body,
        drawn=drawn,
        series=[entry] if entry["panels"] else [],
    )


def _head(one: ProfileSummary) -> str:
    complete = one.complete
    words = f"{complete.grade.value}: {report.GRADES[complete.grade]}"
    lines = [f'<p class="verdict">{escaped(starred(report.headline(one)))}</p>']
    lines += [f"<p>{escaped(words)}</p>"]
    lines += [f'<p class="quiet">{escaped(f"{a}: {b}")}</p>' for a, b in report.facts(one)]
    return "\n".join(lines)


def _complete(one: ProfileSummary) -> Iterator[str]:
    if one.complete.reasons:
        yield "<h2>What is not in it, and what that means</h2>"
        yield _list(one.complete.reasons)
    yield "<details><summary>For what share of the time each thing is known</summary>"
    rows = [[part.title, f"{part.share:.1%}", part.without] for part in one.complete.parts]
    yield table(["", "known", "where it is not"], rows, numbers=[1])
    yield "</details>"


def _list(texts: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{escaped(text)}</li>' for text in texts)}</ul>"


def _series(entry: dict[str, Any]) -> Iterator[str]:
    yield from watched("Over time", hidden=True)
    if entry["length"] > 1:
        words = f"Each point is of {report.show_length(round(entry['length']))}."
        yield f'<p class="quiet">{escaped(words)}</p>'


def _windows(one: ProfileSummary) -> Iterator[str]:
    yield "<h2>Percentiles over windows</h2>"
    for length in rolling_windows.WINDOWS:
        yield f"<h3>{escaped(f'Windows of {report.show_length(length)}')}</h3>"
        rows = report.spreads(one.usages, length)
        if rows:
            yield table(report.HEADINGS, rows, numbers=range(1, 5))
        for words in report.reasons(one.usages, length):
            yield f'<p class="quiet">{escaped(words)}</p>'


def _moment(one: ProfileSummary) -> Iterator[str]:
    if one.moment is not None:
        words = report.busiest(one)
        yield f"<h2>{escaped(words[0].upper() + words[1:])}</h2>"
        yield table(["", "mean"], report.moment_pairs(one.moment), numbers=[1])


def _recommended(one: ProfileSummary) -> Iterator[str]:
    if one.wanted is not None and one.recommendation:
        yield f"<h2>{escaped(f'A size that would fit, with {margin_words(one.wanted)}')}</h2>"
        yield table(RECOMMENDED_HEADINGS, recommended_rows(one.recommendation), numbers=[1])
    if one.confidence.reasons:
        yield f"<h2>{escaped(starred(f'Confidence: {one.confidence.words}'))}</h2>"
        yield _list(one.confidence.reasons)


def _levels(one: ProfileSummary, drawn: Sequence[Drawn]) -> Iterator[str]:
    of = report.period(report.known_minutes(one))
    yield f"<h2>{escaped(f'Minutes {of} above a level')}</h2>"
    yield from figures(drawn, "levels")
    yield table(report.LEVEL_HEADINGS, report.level_rows(one), numbers=range(1, 6))
    if one.levels:
        yield _list([report.asked(level) for level in one.levels])


def _work(one: ProfileSummary) -> Iterator[str]:
    pairs = report.work_pairs(one)
    if pairs:
        yield "<h2>Kind of work</h2>"
        yield table(["", ""], pairs)


def _notes(profile: ResourceProfile) -> Iterator[str]:
    notes = report.notes_of(profile)
    if notes:
        yield "<h2>What to know about it</h2>"
        yield _list(notes)


def _charts(one: ProfileSummary) -> Iterator[Chart]:
    traces: list[Trace] = []
    for name in _DECIDING:
        made = usage.level_windows(one.profile, NAMED[name])
        levels, minutes = rolling_windows.exceedance(made)
        if not levels or not levels[-1] > 0:
            continue
        points = [(m, 100 * v / levels[-1]) for v, m in zip(levels, minutes, strict=True)]
        points = [point for point in points if point[0] >= _SHORTEST]
        if len(points) > 1:
            traces.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": word(report.titled(NAMED[name])),
                    "x": [minutes for minutes, _ in points],
                    "y": [level for _, level in points],
                    "color": len(traces),
                    "dash": len(traces),
                }
            )
    if traces:
        of = report.period(report.known_minutes(one))
        yield {
            "id": "levels",
            "title": f"For how many minutes {of} it is above so much of its most",
            "traces": traces,
            "layout": {"x": f"minutes {of}", "y": "% of its most", "zero": True, "log_x": True},
        }


def _entry(profile: ResourceProfile) -> dict[str, Any]:
    """Return the series in the form that the page's script draws, over the time of day."""
    edges = report.edges(profile, _POINTS)
    panels = [(title, list(_lines(profile, edges, names))) for title, names in _PANELS]
    panels = [(title, lines) for title, lines in panels if lines]
    begin = float(edges[0])
    return {
        "side": "",
        "run": "",
        "step": "profile",
        "repeat": 1,
        "epoch": 1000 * begin,
        "height": _PANEL * max(3, len(panels)),
        "length": float(edges[1] - edges[0]),
        "times": column_encoding.times((edges[1:] - begin).tolist()),
        "window": None,
        "marks": [[gap.begin - begin, "gap", word(gap.reason)] for gap in profile.gaps[:_GAPS]],
        "panels": [{"title": title, "stacked": False, "lines": lines} for title, lines in panels],
    }


def _lines(
    profile: ResourceProfile, edges: rolling_windows.Numbers, names: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield a line of each resource's means, and one of its largest values if that differs.

    Where a point is no longer than a row of the profile there is no other value in it.
    """
    several = edges[1] - edges[0] > _SEVERAL * profile.source.averaged_seconds
    for color, name in enumerate(names):
        means, most = rolling_windows.grid(usage.signal(profile, NAMED[name]), edges)
        if np.isnan(means).all():
            continue
        title = report.titled(NAMED[name])
        yield {"name": word(title), "color": color, **column_encoding.column(means)}
        if several and np.nanmax(most - means) > _APART * np.nanmax(most):
            line = {"name": word(f"{title}, most"), "color": color, "dash": 2}
            yield {**line, **column_encoding.column(most)}
