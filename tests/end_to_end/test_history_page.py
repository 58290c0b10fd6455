"""The page of a history in a real browser: its runs, a line for each kernel, and zoom."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from selenium.webdriver.chrome.webdriver import WebDriver as Chrome

from replayer.analysis.history.metric_history import (
    HistoryChange,
    HistoryLevel,
    HistoryPoint,
    MetricHistory,
    RunHistory,
)
from replayer.model import Better
from replayer.report.documents import history as report
from replayer.report.writers import page_writer
from tests.browser import console, ready, started
from tests.waiting import wait_until

RUNS, AT = 2000, 1400
KERNEL = 140
"""The number of runs of one kernel."""
SHORT, TURNS = 500, 20
"""The runs of the second series, and how many of the newest are of two kernels in turns."""
BEGIN, EVERY = 1_767_225_600.0, 3600.0
WIDE, PHONE = (1400, 900), (390, 844)
PLACE = """
const g = document.getElementById(arguments[0]), size = g._fullLayout._size;
g.scrollIntoView({block: 'center'});
const box = g.getBoundingClientRect();
return [box.left + size.l, box.top + size.t, size.w, size.h]
"""
RANGE = "return document.getElementById('history').layout.xaxis.range.map(Date.parse)"
END = """
const g = document.getElementById('history--2'), axis = g._fullLayout.xaxis;
return axis.l2p(g.data[0].x.at(-1)) / axis._length
"""
COLOUR = "return document.getElementById('history').data[0].marker.color"
SEEN = """
const g = document.getElementById('history'), axis = g._fullLayout.xaxis;
const inside = at => at >= axis.r2l(axis.range[0]) && at <= axis.r2l(axis.range[1]);
return [g.layout.annotations.filter(a => inside(a.x)).length,
        [...g.querySelectorAll('.annotation')].filter(a => a.getClientRects().length).length]
"""


def history() -> RunHistory:
    """Return a history of a run an hour, with a new kernel every week and one change."""
    values = np.random.default_rng(5).normal(2e8, 2e6, RUNS)
    values[AT:] *= 0.95
    points = tuple(
        HistoryPoint(
            run=f"20260101-{number:06d}-demo-0000",
            when=BEGIN + EVERY * number,
            value=float(value),
            fact=f"6.12.{number // KERNEL}",
            boot=f"boot-{number}",
        )
        for number, value in enumerate(values)
    )
    levels = [
        HistoryLevel(median=float(np.median(part)), runs=part.size, boots=part.size)
        for part in (values[:AT], values[AT:])
    ]
    change = HistoryChange(
        at=AT, run=points[AT].run, when=points[AT].when, before=levels[0], after=levels[1],
        share=-0.05, low=-0.051, high=-0.049, worse=True,
    )  # fmt: skip
    one = MetricHistory(
        name="walk.throughput", unit="bytes/s", better=Better.MORE, workload="demo", work="",
        engine="postgres", machine="db1", points=points, changes=(change,),
    )  # fmt: skip
    last = [
        point.model_copy(update={"fact": f"7.0.{number % 2}"})
        for number, point in enumerate(points[-TURNS:])
    ]
    few = (*points[-SHORT:-TURNS], *last)
    turns = one.model_copy(update={"points": few, "changes": ()})
    return RunHistory(fact="host.kernel.release", runs=RUNS, series=(one, turns))


@pytest.fixture(scope="module")
def browser(chromium: tuple[str, str]) -> Iterator[Chrome]:
    """Return headless Chromium, once for all tests of this module."""
    with started(chromium) as driver:
        yield driver


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of the history."""
    path = tmp_path_factory.mktemp("page") / "history.html"
    path.write_text(page_writer.page(report.document(history())), encoding="utf-8")
    return path


@pytest.fixture(params=[WIDE, PHONE], ids=["wide", "phone"])
def opened(browser: Chrome, page: Path, request: pytest.FixtureRequest) -> Iterator[Chrome]:
    """Return the browser with the page open in a window of a size."""
    width, height = request.param
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(f"file://{page}")
    yield ready(browser)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def mouse(browser: Chrome, kind: str, x: float, y: float, **more: Any) -> None:
    """Do what a mouse does, at a place of the window."""
    event = {"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1, **more}
    browser.execute_cdp_cmd("Input.dispatchMouseEvent", event)


def drag(browser: Chrome, first: float, last: float, chart: str = "history") -> None:
    """Drag over a chart, from one share of its width to another."""
    left, top, width, height = browser.execute_script(PLACE, chart)
    y = top + height / 2
    mouse(browser, "mouseMoved", left + first * width, y, button="none")
    mouse(browser, "mousePressed", left + first * width, y)
    for step in range(1, 11):
        mouse(browser, "mouseMoved", left + (first + step * (last - first) / 10) * width, y)
    mouse(browser, "mouseReleased", left + last * width, y)


@pytest.mark.slow
def test_a_drag_zooms_in_and_the_chart_stays_so_when_it_is_drawn_again(opened: Chrome) -> None:
    """Seen is what was dragged over, with its kernels, and the same in the dark."""
    whole = opened.execute_script(RANGE)
    drag(opened, 0.25, 0.5)
    zoomed = opened.execute_script(RANGE)
    lines = opened.execute_script(SEEN)
    dark = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", dark)
    wait_until(lambda: opened.execute_script(COLOUR) == "#56b4e9")
    in_the_dark = opened.execute_script(RANGE)

    span = whole[1] - whole[0]
    assert [(end - whole[0]) / span for end in zoomed] == pytest.approx([0.25, 0.5], abs=0.02)
    assert 0 < lines[0] < RUNS / KERNEL - 1
    assert lines[0] == lines[1]
    assert in_the_dark == zoomed
    assert console(opened) == []


@pytest.mark.slow
def test_a_pointer_on_a_run_shows_which_it_is(opened: Chrome) -> None:
    """Its id and its kernel, as text, within the window."""
    text, left, right = opened.execute_script(
        "const g = document.getElementById('history');"
        "Plotly.Fx.hover(g, [{curveNumber: 0, pointNumber: 5}]);"
        "const label = g.querySelector('.hoverlayer'), box = label.getBoundingClientRect();"
        "return [label.textContent, box.left, box.right - window.innerWidth]"
    )

    assert "20260101-000005-demo-0000" in text
    assert "6.12.0" in text
    assert "<" not in text
    assert left >= 0 >= right


def names(browser: Chrome, chart: str) -> list[tuple[float, float]]:
    """Return the left and the right end of each name of a kernel on a chart, in their order."""
    found = browser.execute_script(
        "const g = document.getElementById(arguments[0]);"
        "const all = [...g.querySelectorAll('.annotation-text')];"
        "const boxes = all.map(one => one.getBoundingClientRect());"
        "return boxes.map(one => [one.left, one.right])",
        chart,
    )
    return sorted(map(tuple, found))


@pytest.mark.slow
def test_every_run_is_a_point_and_every_kernel_a_line(opened: Chrome) -> None:
    """Nothing is wider than the window, and no name of a kernel lies on another one."""
    drawn, lines, widths = opened.execute_script(
        "const g = document.getElementById('history');"
        "return [g.querySelectorAll('path.point').length, g.layout.shapes.length,"
        " [document.documentElement.scrollWidth, window.innerWidth]]"
    )
    named = names(opened, "history")

    assert drawn == RUNS
    assert widths[0] <= widths[1]
    assert lines == len(named) == (RUNS - 1) // KERNEL
    assert all(one[1] <= two[0] + 1 for one, two in pairwise(named))


@pytest.mark.slow
def test_names_that_have_no_room_are_seen_when_zoomed_in(opened: Chrome) -> None:
    """Kernels in turns have a line a run: the names of a few are there, and more of the nearer."""
    few = names(opened, "history--2")
    for before in (0.1, 0.5):
        end = opened.execute_script(END)
        drag(opened, end - before, end + 0.01, "history--2")
    more = names(opened, "history--2")

    assert 0 < len(few) < SHORT // KERNEL + TURNS
    assert len(more) > len(few) - SHORT // KERNEL
    assert all(one[1] <= two[0] + 1 for one, two in [*pairwise(few), *pairwise(more)])
