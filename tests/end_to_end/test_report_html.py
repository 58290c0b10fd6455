"""The HTML report in a real browser: opened from disk, every chart drawn, nothing injected."""

import base64
import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.chrome.webdriver import WebDriver as Chrome
from selenium.webdriver.support.ui import WebDriverWait

from replayer.analysis.differences.comparison import compare
from replayer.analysis.differences.samples import Side
from replayer.model import (
    Better,
    Latency,
    Mark,
    Measurement,
    Run,
    Series,
    Spent,
    StackProfile,
    StepResult,
)
from replayer.report.documents import percentiles, run_charts
from replayer.report.pages import column_encoding, scripts
from replayer.report.pages.markup import document, figure
from replayer.report.sanitize import sanitize
from replayer.results import store
from replayer.units import show
from tests.browser import LONGEST, console, ready, started
from tests.fixture_types import RunOf
from tests.known import known
from tests.made import USUAL, account, altered, ledger, page_of

EVIL = "</script><img src=x onerror='window.hacked=1'><b onmouseover=\"window.hacked=1\">evil"
FIXTURES = Path(__file__).parents[1] / "fixtures" / "runs"


def latency(seed: int) -> Latency:
    """Return a histogram of 500 latencies."""
    histogram = HdrHistogram(1, 10**11, 3)
    for value in np.random.default_rng(seed).lognormal(13, 0.5, 500):
        histogram.record_value(int(value))
    return Latency(payload=histogram.encode().decode(), operations=500)


def series(seconds: int, level: float = 1000.0) -> Series:
    """Return a series of so many seconds, with a checkpoint in its middle."""
    ramp = np.linspace(0, 1, seconds)
    columns = {
        "sessions.riops": level + ramp,
        "diskstats.r/s": level - ramp,
        "diskstats.w/s": 5 + ramp,
        "cpu.%usr": 20 + ramp,
        "cpu.%sys": 30 + ramp,
        "cpu.%iowait": 10 + ramp,
    }
    return Series(
        started="2026-11-20T10:00:00+00:00",
        seconds=tuple(float(i + 1) for i in range(seconds)),
        columns={name: tuple(values.tolist()) for name, values in columns.items()},
        marks=(Mark(at=seconds / 2, kind="checkpoint", text=f"complete {EVIL}"),),
        window=(1.0, float(seconds)),
    )


def done(step: str, **more: object) -> StepResult:
    """Return what a step left that is called what it is."""
    spec = {"step": step, "name": step}
    plain = {**spec, "spec": spec, "repeat": 1, "status": "done", "started": "", "elapsed": 1.0}
    return StepResult.model_validate({**plain, **more})


def full(run: Run, seconds: int = 30) -> Run:
    """Return a run whose steps have everything that a page shows."""
    steps = [
        altered(
            step,
            series=series(seconds),
            ledger=ledger(page_cache_hits=10.0, device_reads=990.0, ratio=0.99),
            latency={"select": latency(step.repeat)},
        )
        for step in run.steps
    ]
    rows = tuple(
        {
            "doubling": i,
            "rows": 6 * 2**i,
            "rows_per_second": 1000.0 * i,
            "seconds": 0.1,
            "table_bytes": 8192,
        }
        for i in range(6)
    )
    steps.append(done("build", tables={"doublings": rows}))
    times = tuple(
        Measurement(metric=f"walk.{what}.{kind}", value=1.5, unit="s", better=Better.LESS)
        for what in ("list", "read")
        for kind in ("user", "system", "real")
    )
    steps.append(done("walk", measurements=times))
    return altered(run, steps=tuple(steps))


@pytest.fixture(scope="module")
def browser(chromium: tuple[str, str]) -> Iterator[Chrome]:
    """Return headless Chromium, once for all tests of this module."""
    with started(chromium) as driver:
        yield driver


@pytest.fixture
def sides(run_of: RunOf) -> list[Side]:
    """Return two sides of 4 runs with 3 repeats, with names that try to be markup."""
    return [
        Side(
            name,
            tuple(
                full(
                    run_of(
                        [level + i + r for r in range(3)],
                        label=name,
                        boot=f"{name}{i}",
                        kernel=kernel,
                        host={"host.name": EVIL},
                    )
                )
                for i in range(4)
            ),
        )
        for name, kernel, level in (("stock", "6.1", 1000), (f"uek {EVIL}", "6.12", 1200))
    ]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the page of a comparison is, once it is made."""
    return tmp_path_factory.mktemp("page") / "page.html"


@pytest.fixture
def opened(browser: Chrome, sides: list[Side], page: Path) -> Chrome:
    """Return the browser with the page of a comparison open, ready."""
    if not page.exists():
        page.write_text(page_of(sides, compare(*sides)), encoding="utf-8")
    return _open(browser, page)


def _open(browser: Chrome, path: Path) -> Chrome:
    if browser.current_url != f"file://{path}":
        browser.get(f"file://{path}")
    return ready(browser)


@pytest.fixture
def left(browser: Chrome) -> Iterator[None]:
    """Leave the page after the test, which changes it."""
    yield
    browser.get("about:blank")


def points(browser: Chrome) -> dict[str, list[int]]:
    """Return chart id -> points in the data of each of its traces; what is folded is opened."""
    browser.execute_script("document.querySelectorAll('details').forEach(one => one.open = true)")
    WebDriverWait(browser, LONGEST).until(
        lambda driver: driver.execute_script(
            "return [...document.querySelectorAll('.chart')].every(one => one.data)"
        )
    )
    found: dict[str, list[int]] = browser.execute_script(
        "return Object.fromEntries([...document.querySelectorAll('.chart')]"
        ".map(g => [g.id, g.data.map(t => t.x.length)]))"
    )
    return found


def test_every_chart_is_drawn_with_the_right_number_of_points(opened: Chrome) -> None:
    """Each chart has as many points, lines and bars on the screen as there are in the runs."""
    drawn = points(opened)
    n = len(percentiles.supported(12 * 500))
    on_screen = opened.execute_script(
        "return Object.fromEntries([...document.querySelectorAll('.chart')].map(g => [g.id, "
        "[g.querySelectorAll('path.point').length, g.querySelectorAll('.bars .point path').length,"
        " g.querySelectorAll('path.js-line').length]]))"
    )

    assert sum(drawn["ratios"]) == on_screen["ratios"][0] == 5
    assert sum(drawn["answer"]) == on_screen["answer"][0] > 0
    assert drawn["overlay-sessions"] == [29] * 6
    assert drawn["repeats-sessions"] == [12, 12]
    assert on_screen["repeats-sessions"][0] == 24
    assert drawn["latency-sessions"] == [n, n]
    assert on_screen["latency-sessions"][0] == 2 * n
    assert drawn["ledger"] == [2, 2, 2]
    assert on_screen["ledger"][1] == 6
    assert drawn["doublings"] == [5] * 8
    assert drawn["walk"] == [6, 6]
    assert drawn["series"] == [30] * 6 + [1]


def test_the_values_on_the_charts_are_those_of_the_runs(opened: Chrome, sides: list[Side]) -> None:
    """RIOPS per repeat are exact; the packed series are within a 65,534th of their range."""
    shown = opened.execute_script("return document.getElementById('repeats-sessions').data[1].y")
    line = opened.execute_script("return document.getElementById('series').data[0].y")
    first = known(sides[0].runs[0].steps[0].series).columns["sessions.riops"]

    assert shown == [
        m.value for run in sides[1].runs for s in run.steps[:3] for m in s.measurements
    ]
    assert np.allclose(line, [known(value) for value in first], atol=1e-4)


def test_the_browser_has_nothing_to_complain_and_asks_no_network(opened: Chrome) -> None:
    """No console message, no request, and no button that would send a chart away."""
    asked = opened.execute_script("return performance.getEntriesByType('resource').length")
    buttons = opened.execute_script(
        "return [...document.querySelectorAll('.modebar-btn')].map(b => b.dataset.title)"
    )

    assert console(opened) == []
    assert asked == 0
    assert not [title for title in buttons if "hare" in title or "loud" in title]


def test_strings_of_a_run_are_text_and_nothing_else(opened: Chrome) -> None:
    """Markup in labels, host names and marks is shown as it is, in tables, charts and hovers."""
    opened.execute_script(
        "const g = document.getElementById('series');"
        "Plotly.Fx.hover(g, [{curveNumber: 6, pointNumber: 0}], g._fullLayout._subplots.cartesian)"
    )
    found = opened.execute_script(
        "return [window.hacked, document.querySelectorAll('img, b, [onerror]').length, "
        "document.title, document.querySelector('#repeats-sessions .legend').textContent]"
    )
    opened.execute_script("Plotly.Fx.unhover(document.getElementById('series'))")

    assert found[0] is None
    assert found[1] == 0
    assert EVIL in found[2]
    assert EVIL in found[3]


@pytest.fixture
def stored() -> Run:
    """Return the run of the newest result format's fixture."""
    return store.load(FIXTURES / f"format-{store.FORMAT}.json")


SEEN_FIRST = (
    "const seen = e => { const r = e.getBoundingClientRect();"
    " return r.top >= 0 && r.bottom <= window.innerHeight && r.width > 0; };"
)


@pytest.mark.slow
def test_the_summary_of_a_run_fits_one_screen(
    browser: Chrome, stored: Run, tmp_path: Path, left: None
) -> None:
    """At 1400 x 900 what was run, every step with its figure and all points are seen at once."""
    path = tmp_path / "run.html"
    path.write_text(page_of([Side("run", (stored,))], None), encoding="utf-8")
    size = {"width": 1400, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    _open(browser, path)
    look = (
        f"{SEEN_FIRST} return [...document.querySelectorAll("
        "'header :is(.about div, .steps tr, .points li)')].map(e => [seen(e), e.innerText])"
    )
    seen = browser.execute_script(look)
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    assert [text for shown, text in seen if not shown] == []
    assert len(seen) >= 8 + 1 + len(stored.steps)


def test_each_step_has_its_place_and_no_chart_is_a_single_point(
    browser: Chrome, stored: Run, tmp_path: Path, left: None
) -> None:
    """Build, flush, walk, scan and sessions each have a section; a chart has two points or more."""
    path = tmp_path / "run.html"
    path.write_text(page_of([Side("run", (stored,))], None), encoding="utf-8")
    _open(browser, path)
    places = [one.text for one in browser.find_elements("css selector", "h2")]
    names = run_charts.step_names([Side("run", (stored,))])

    assert {"build", "flush", "walk", "cached", "physical"} <= set(names)
    assert [place for place in places if place in names] == names
    assert min(sum(counts) for counts in points(browser).values()) > 1


@pytest.mark.slow
def test_the_next_repeat_is_drawn(opened: Chrome, left: None) -> None:
    """The buttons and the list go through the series of all repeats."""
    count = opened.execute_script("return document.getElementById('series-choice').length")
    opened.execute_script("document.getElementById('series-on').click()")
    chosen = opened.execute_script("return document.getElementById('series-choice').value")

    assert count == 2 * 4 * 3
    assert chosen == "1"
    assert points(opened)["series"][0] == 30


@pytest.mark.slow
def test_a_table_can_be_copied(opened: Chrome) -> None:
    """The button copies a table's cells, tab and newline between them."""
    text = opened.execute_script(
        "let text = ''; document.execCommand = () => {"
        " text = document.activeElement.value; return true; };"
        "[...document.querySelectorAll('button.copy')].find(b => "
        "b.nextElementSibling.textContent.includes('host.kernel.release')).click();"
        "delete document.execCommand; return text;"
    )

    assert text.splitlines()[0].split("\t")[0] == "fact"
    assert "host.kernel.release\t6.1\t6.12" in text


HOSTILE = (
    EVIL,
    "<svg onload=window.hacked=1>",
    "javascript:window.hacked=1",
    "\x1b]0;owned\x07\x1b[2J\x1b[31m\u202e",
    "x" * 10_000,
    "<b>" * 3_400,
    "\u6f22" * 10_000,
)


def hostile(run_of: RunOf, number: int, text: str) -> Side:
    """Return a side whose label, note, tag and error are this text."""
    run = full(run_of([100.0 + number] * 2, label=text, boot=f"b{number}"), seconds=5)
    changes = {"notes": (text,), "tags": {"disk": text}, "error": text}
    return Side(text, (run.model_copy(update=changes),))


@pytest.mark.slow
def test_labels_notes_and_tags_may_be_anything(
    browser: Chrome, run_of: RunOf, tmp_path: Path, left: None
) -> None:
    """HTML, escape sequences and 10,000 characters are text: nothing runs, nothing is too wide."""
    sides = [hostile(run_of, number, text) for number, text in enumerate(HOSTILE)]
    two = (sides[0], sides[4])
    path = tmp_path / "hostile.html"
    for text in (page_of(sides, None), page_of(two, compare(*two))):
        path.write_text(text, encoding="utf-8")
        for width in (1400, 390):
            browser.get("about:blank")
            size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            _open(browser, path)
            seen = browser.execute_script(
                "return [window.hacked ?? null, document.documentElement.scrollWidth,"
                " document.querySelectorAll("
                "  'img, b, [onerror], [onload], [href]:not([href^=\"#\"])').length,"
                " document.querySelector('h1').getBoundingClientRect().height,"
                " document.body.innerText.match(/[\\x1b\\x07\\u202e]/)]"
            )

            assert console(browser) == []
            assert seen[0] is None
            assert seen[1] <= width
            assert seen[2] == 0
            assert seen[3] < 900
            assert seen[4] is None
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.slow
def test_axes_have_prefixes_of_si_and_none_on_units_that_have_one(
    browser: Chrome, run_of: RunOf, tmp_path: Path, left: None
) -> None:
    """Billions of bytes are GB/s and not B, and milliseconds get no second prefix."""
    path = tmp_path / "axes.html"
    charts = [
        {
            "id": name,
            "title": name,
            "traces": [{"type": "scatter", "x": [1, 2], "y": values, "color": 0}],
            "layout": {"x": "repeat", "y": unit, "zero": True, "log_y": log},
        }
        for name, unit, values, log in (
            ("rate", "bytes/s", [1.2e9, 2.5e9], False),
            ("time", "ms", [1e-4, 20.0], True),
            ("part", "us a block", [2500.0, 7500.0], False),
        )
    ]
    body = map(figure, charts)
    path.write_text(
        document("axes", head="", body=body, charts=charts, series=[]), encoding="utf-8"
    )
    _open(browser, path)
    shown: dict[str, list[str]] = browser.execute_script(
        "const charts = [...document.querySelectorAll('.chart')];"
        "return Object.fromEntries(charts.map((chart) => [chart.id, "
        " [...chart.querySelectorAll('.ytick text, .ytitle')].map((one) => one.textContent)]))"
    )

    assert any(re.fullmatch(r"[\d.]+GB/s", text) for text in shown["rate"])
    assert not any(re.search(r"\dB$", text) for text in shown["rate"])
    assert not any(re.search(r"[kmµn]$", text) for text in shown["time"])
    assert "µs a block" in shown["part"]
    assert not any(re.search(r"\dk$", text) for text in shown["part"])


@pytest.mark.slow
def test_the_line_of_no_change_is_at_the_middle_of_its_band(
    browser: Chrome, tmp_path: Path, left: None
) -> None:
    """It is at 1 for ratios, which have a log axis, and at 0 for percents."""
    path = tmp_path / "bands.html"
    charts = [
        {
            "id": name,
            "title": name,
            "traces": [{"type": "scatter", "x": [0.5, 2], "y": ["a", "b"], "color": 0}],
            "layout": {"x": "", "y": "", "band": band, "log_x": log},
        }
        for name, band, log in (("ratios", [0.98, 1.02], True), ("percents", [-2, 2], False))
    ]
    body = map(figure, charts)
    path.write_text(
        document("bands", head="", body=body, charts=charts, series=[]), encoding="utf-8"
    )
    _open(browser, path)
    lines: dict[str, float] = browser.execute_script(
        "return Object.fromEntries([...document.querySelectorAll('.chart')].map((chart) =>"
        " [chart.id, chart.layout.shapes.find((shape) => shape.type === 'line').x0]))"
    )

    assert lines == {"ratios": 1, "percents": 0}


def settled(browser: Chrome, look: Callable[[], Any], done: Callable[[Any], bool]) -> Any:
    """Return what the page shows once it is as expected, or what it shows in the end."""
    # A change of the scheme reaches the page as an event, after the command that made it.
    with contextlib.suppress(TimeoutException):
        WebDriverWait(browser, LONGEST, poll_frequency=0.05).until(lambda _: done(look()))
    return look()


@pytest.mark.slow
def test_it_fits_a_phone_and_follows_light_and_dark(opened: Chrome, left: None) -> None:
    """At 390 pixels only a table's own frame scrolls; the scheme changes ground and palette."""

    def emulate(**features: str) -> None:
        opened.execute_cdp_cmd(
            "Emulation.setEmulatedMedia",
            {"features": [{"name": name, "value": value} for name, value in features.items()]},
        )

    def look() -> Any:
        return opened.execute_script(
            "return [getComputedStyle(document.body).backgroundColor, "
            "document.getElementById('repeats-sessions').data[0].line.color]"
        )

    opened.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True},
    )
    opened.refresh()
    ready(opened)
    widths = opened.execute_script(
        "return [document.documentElement.scrollWidth, window.innerWidth]"
    )
    opened.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    emulate(**{"prefers-color-scheme": "dark"})
    dark = settled(opened, look, lambda seen: seen[1] == "#56b4e9")
    emulate(**{"prefers-color-scheme": "light"})
    light = settled(opened, look, lambda seen: seen[1] == "#0072b2")

    assert widths[0] <= widths[1] == 390
    assert dark[0] != light[0]
    assert dark[1] == "#56b4e9"
    assert light == ["rgb(255, 255, 255)", "#0072b2"]


@pytest.mark.slow
def test_it_prints_light_and_as_wide_as_paper(opened: Chrome, left: None) -> None:
    """In the dark, a page is printed in the light palette at a paper's width, and is dark after."""
    dark = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", dark)
    colour = "return document.getElementById('repeats-sessions').data[0].line.color"
    settled(opened, lambda: opened.execute_script(colour), lambda seen: seen == "#56b4e9")
    look = (
        "const g = document.getElementById('repeats-sessions');"
        "return [g.layout.width ?? null, g.data[0].line.color]"
    )
    during = opened.execute_script(f"window.dispatchEvent(new Event('beforeprint')); {look}")
    after = opened.execute_script(f"window.dispatchEvent(new Event('afterprint')); {look}")
    pdf = base64.b64decode(opened.execute_cdp_cmd("Page.printToPDF", {})["data"])
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})

    assert during == [700, "#0072b2"]
    assert after == [None, "#56b4e9"]
    assert pdf.startswith(b"%PDF")


FUNCTIONS = ("ExecInterpExpr", EVIL, "a" * 10_000, "%{label}<extra>", "\x1b[31m\u202ered", "$&\"'`")


def watched(side: Side, slower: Mapping[Spent, float], seed: int) -> Side:
    """Return a side whose steps have accounts and profiles, with functions named to attack."""
    random = np.random.default_rng(seed)
    runs = []
    for run in side.runs:
        parts = {part: time + slower.get(part, 0.0) for part, time in USUAL.items()}
        one = account(random, parts)
        stacks = {
            f"server;user;postgres;main;{name.replace(';', ',')}": 100 + number
            for number, name in enumerate(FUNCTIONS)
        }
        stacks["server;kernel;postgres;main;do_syscall_64_[k];trace_sys_enter_[k]"] = (
            50 if not slower else 400
        )
        stacks[f"client;user;python;main;only_{len(slower)}"] = 80
        made = StackProfile(
            payload=StackProfile.packed(stacks),
            samples=sum(stacks.values()),
            event="cycles",
            hertz=99,
            seconds=one.seconds,
        )
        rate = altered(run.steps[0].measurements[0], value=one.operations / one.seconds)
        step = altered(run.steps[0], account=one, profile=made, measurements=(rate,))
        runs.append(altered(run, steps=(step,)))
    return Side(side.name, tuple(runs))


@pytest.fixture(scope="module")
def why_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the page of an explained comparison is, once it is made."""
    return tmp_path_factory.mktemp("why") / "why.html"


@pytest.fixture
def explained(browser: Chrome, run_of: RunOf, why_page: Path, left: None) -> Chrome:
    """Return the browser with a comparison open whose second side enters the kernel more often."""
    if why_page.exists():
        return _open(browser, why_page)
    plain = [
        Side(name, tuple(run_of([1.0], boot=f"{name}{i}") for i in range(6)))
        for name in ("stock", f"uek {EVIL}")
    ]
    sides = [watched(plain[0], {}, 1), watched(plain[1], {Spent.ENTRY: 2e-6}, 2)]
    why_page.write_text(page_of(sides, compare(*sides)), encoding="utf-8")
    return _open(browser, why_page)


def flame_of(browser: Chrome, begin: str) -> list[tuple[str, str, float]]:
    """Return label, colour and width of every frame seen of the graph whose id begins so."""
    found: list[tuple[str, str, float]] = browser.execute_script(
        "const g = document.querySelector(`.flame[id^=${arguments[0]}]`);"
        "return [...g.querySelectorAll('.frame:not([hidden])')].map(f => [f.textContent, "
        "getComputedStyle(f).backgroundColor, f.getBoundingClientRect().width])",
        begin,
    )
    return found


@pytest.mark.slow
def test_flame_graphs_and_their_difference_are_drawn(explained: Chrome) -> None:
    """Every frame of each; what got slower is the reddest, and the legend says which way."""
    frames = flame_of(explained, "flame-sessions-stock")
    assert len(frames) == 16
    assert len({colour for _, colour, _ in frames}) == 4

    labels = [label for label, _, _ in flame_of(explained, "difference-sessions")]
    red = explained.execute_script(
        "const [g] = document.querySelectorAll('.flame[id^=difference-sessions]');"
        "return Object.fromEntries([...g.querySelectorAll('.frame')].map("
        "f => [f.textContent, Number(/longer\\D+(\\d+)%/.exec(f.style.background)?.[1] ?? 0)]))"
    )
    body = explained.find_element("tag name", "main").text
    assert red["trace_sys_enter"] == 100
    assert max(red[label] for label in red if label.startswith(("Exec", "aaa"))) < 50
    assert "trace_sys_enter" in labels
    assert "only_0" not in labels
    assert f"µs a block, uek {EVIL} less stock" in body
    assert f"Red: takes longer per block in uek {EVIL} than in stock." in body
    assert "kernel entry +2." in body
    assert any(line.startswith("only_0 client 0") for line in body.splitlines())


@pytest.mark.slow
def test_frames_are_as_wide_as_what_they_took_and_a_click_widens_one(explained: Chrome) -> None:
    """Widths are shares of the whole; the chosen frame is as wide as the page, others go."""
    frames = flame_of(explained, "flame-sessions-stock")
    wide = {label: width for label, _, width in frames}
    whole = max(wide.values())
    explained.execute_script(
        "[...document.querySelectorAll('.flame[id^=flame-sessions-stock] .frame')]"
        ".find(f => f.textContent === 'trace_sys_enter').click()"
    )
    after = flame_of(explained, "flame-sessions-stock")

    # 100 to 105 samples of each function, 50 of the kernel's, 80 of the client's.
    samples = sum(100 + number for number in range(len(FUNCTIONS))) + 50 + 80
    assert wide["trace_sys_enter"] == pytest.approx(whole * 50 / samples, abs=1)
    assert wide["ExecInterpExpr"] == pytest.approx(whole * 100 / samples, abs=1)
    assert {label: width for label, _, width in after}["trace_sys_enter"] == pytest.approx(whole)
    assert "ExecInterpExpr" not in {label for label, _, _ in after}


def test_functions_named_to_attack_are_text_in_flame_graphs(explained: Chrome) -> None:
    """Nothing runs, nothing is asked of the network, nothing to complain, and the page is small."""
    seen = explained.execute_script(
        "return [window.hacked, document.querySelectorAll('img, b, [onerror]').length, "
        "performance.getEntriesByType('resource').length, "
        "document.getElementById('data').textContent.length]"
    )
    labels = [label for label, _, _ in flame_of(explained, "flame-sessions-stock")]

    assert seen[:3] == [None, 0, 0]
    assert seen[3] < 30_000
    assert console(explained) == []
    assert max(map(len, labels)) <= 250
    assert sanitize(EVIL) in labels
    assert not any("\x1b" in label for label in labels)


@pytest.mark.slow
def test_flame_graphs_fit_a_phone(explained: Chrome) -> None:
    """At 390 pixels nothing is wider than the page."""
    explained.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True},
    )
    explained.refresh()
    ready(explained)
    widths = explained.execute_script(
        "return [document.documentElement.scrollWidth, window.innerWidth, "
        "document.querySelector('.flame[id^=difference] .frames').getBoundingClientRect().width]"
    )
    explained.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    assert widths[0] <= widths[1] == 390
    assert 300 < widths[2] <= 390


LARGEST = 1_600_000
"""Bytes of a page."""


@pytest.mark.slow
def test_a_thousand_repeats_of_ten_minutes_stay_under_1_6_mb(
    browser: Chrome, run_of: RunOf, tmp_path: Path
) -> None:
    """1,000 repeats with 600 s of series make a page under 1.6 MB with all repeats in it."""
    random = np.random.default_rng(3)
    run = run_of([1000.0 + i % 7 for i in range(1000)])
    ten_minutes = series(600)
    steps = [
        altered(
            step,
            series=altered(
                ten_minutes,
                columns={
                    name: tuple(random.normal(1000, 50, 600).tolist())
                    for name in ten_minutes.columns
                },
            ),
        )
        for step in run.steps
    ]
    text = page_of([Side("all", (altered(run, steps=tuple(steps)),))], None)
    path = tmp_path / "page.html"
    path.write_text(text, encoding="utf-8")
    opened = _open(browser, path)

    assert len(text.encode()) < LARGEST
    assert points(opened)["repeats-sessions"] == [1000]
    assert opened.execute_script("return document.getElementById('series-choice').length") == 1000
    assert points(opened)["series"][0] >= 30


def test_the_policy_of_a_page_names_its_two_scripts_and_nothing_else(opened: Chrome) -> None:
    """No source is allowed but these hashes, so that what is injected as a script does not run."""
    policy = opened.execute_script(
        "return document.querySelector('meta[http-equiv]').content.split('; ')"
    )
    ran = opened.execute_script(
        "const s = document.createElement('script'); s.textContent = 'window.other = 1';"
        "document.body.append(s); s.remove(); return window.other ?? null"
    )
    console(opened)  # its complaint about that script

    assert policy[0] == "default-src 'none'"
    assert policy[1] == f"script-src {scripts.allowed()}"
    assert "unsafe" not in policy[1]
    assert policy[1].count("sha256-") == 2
    assert ran is None


@pytest.mark.slow
def test_a_browser_that_unpacks_nothing_says_so_and_shows_all_tables(
    browser: Chrome, tmp_path: Path, run_of: RunOf, left: None
) -> None:
    """Where packed text cannot be read, a sentence says what is missing; the tables are there."""
    path = tmp_path / "old.html"
    path.write_text(page_of([Side("one", (run_of([1.0, 2.0]),))], None), encoding="utf-8")
    script = {"source": "delete window.DecompressionStream"}
    made = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", script)
    browser.get(f"file://{path}")
    browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", made)
    words = "return document.getElementById('charts-missing').innerText"
    seen = settled(browser, lambda: browser.execute_script(words), bool)

    assert seen == "The charts of this page want a browser of 2023 or later."
    assert browser.execute_script("return document.querySelectorAll('table').length") > 1


def test_a_packed_column_gives_its_values_back() -> None:
    """Any column survives packing to a 65,534th of its range, gaps stay gaps."""
    random = np.random.default_rng(1)
    values = [*random.normal(1000, 50, 999), None]
    made = column_encoding.column(values)
    whole = np.frombuffer(base64.b64decode(made["data"]), dtype="<u2")
    back = made["low"] + made["step"] * whole[:-1]

    assert whole[-1] == 65535
    assert np.abs(back - np.array(values[:-1], dtype=float)).max() <= made["step"] / 2 * 1.01


@pytest.mark.parametrize("values", [[], [None, None], [7.0], [3.0, 3.0, None]])
def test_odd_columns_pack_too(values: list[float | None]) -> None:
    """Empty, unknown and constant columns have a finite form."""
    made = column_encoding.column(values)

    assert made["step"] > 0
    assert len(base64.b64decode(made["data"])) == 2 * len(values)


def test_means_of_intervals_skip_gaps() -> None:
    """Binning by 2 averages what is known and keeps a bin without values a gap."""
    found = column_encoding.binned([1.0, 3.0, None, 5.0, None, None, 7.0], 2)

    assert np.array_equal(found, [2.0, 5.0, np.nan, 7.0], equal_nan=True)


NAMES = (
    *("a&b", "a<b", "a>b", "a&lt;b", "a-b", 'a"b', "a'b", "a`b", "a b", "a/b", "a\\b", "a#b"),
    *("</script><script>window.hacked=1</script>", "<!--", "]]>", "</textarea><img src=x>"),
    *(
        "one\u2028two\u2029three",
        "tab\tand\nline",
        "\u202eturned",
        "\u6f22\u5b57",
        "\U0001f4be",
        "é",
    ),
    *(
        "__proto__",
        "constructor",
        "%{x}",
        "$1",
        "${x}",
        "<extra>",
        "1e5",
        "2026-01-01",
        "-1",
        "--2",
    ),
    *("series", "data", "walk", "=1+1", "x" * 300, EVIL),
)


def named(run: Run, names: Sequence[str]) -> Run:
    """Return the run with two repeats of a step of each name, which shows in every chart."""
    one = full(run).steps[0]
    steps = [altered(one, name=name, repeat=repeat) for name in names for repeat in (1, 2)]
    return altered(run, steps=tuple(steps))


@pytest.mark.slow
def test_a_step_may_be_called_anything(
    browser: Chrome, run_of: RunOf, tmp_path: Path, left: None
) -> None:
    """Whatever steps are called, each has its charts, rows and series, and its name is text."""
    sides = [
        Side(name, tuple(named(run_of([level, level], boot=f"{name}{i}"), NAMES) for i in range(4)))
        for name, level in (("stock", 1000), ("a&b <i>", 1100))
    ]
    path = tmp_path / "names.html"
    path.write_text(page_of(sides, compare(*sides)), encoding="utf-8")
    _open(browser, path)

    drawn = points(browser)
    titles = browser.execute_script(
        "return [...document.querySelectorAll('h3')].map(h => h.textContent)"
    )
    places = browser.execute_script(
        "return [...document.querySelectorAll('h2')].map(h => h.textContent)"
    )
    listed = browser.execute_script(
        "return [...document.getElementById('series-choice').options].map(o => o.text)"
    )
    evil = browser.execute_script(
        "return [window.hacked ?? null, document.querySelectorAll('img, i, [onerror]').length]"
    )

    shown = [sanitize(name) for name in NAMES]
    assert console(browser) == []
    assert evil == [None, 0]
    assert sum(name.startswith("repeats-") for name in drawn) == len(NAMES)
    assert sum(name.startswith("latency-") for name in drawn) == len(NAMES)
    assert all(drawn.values())
    assert {f"{name}: latency by percentile" for name in shown} <= set(titles)
    assert set(shown) <= set(places)
    assert len(listed) == len(NAMES) * 2 * 4 * 2
    wanted = {
        " ".join(f"stock: {name}, repeat 1 ({sides[0].runs[0].id})".split()) for name in shown
    }
    assert wanted <= set(listed)


def test_what_is_copied_is_no_formula_in_a_spreadsheet(
    browser: Chrome, run_of: RunOf, tmp_path: Path, left: None
) -> None:
    """A cell of text that begins as a formula does is copied after a '; a number as it is."""
    sides = [Side(name, (run_of([-5.0, -5.0]),)) for name in ("=1+1", "+x", "-y", "@z", "fine")]
    path = tmp_path / "copied.html"
    path.write_text(page_of(sides, None), encoding="utf-8")
    _open(browser, path)

    text = browser.execute_script(
        "let text = ''; document.execCommand = () => {"
        " text = document.activeElement.value; return true; };"
        "document.querySelector('details').open = true;"
        "document.querySelector('details button.copy').click(); return text;"
    )

    rows = [line.split("\t") for line in text.splitlines()[1:]]
    assert {row[1] for row in rows} == {"'=1+1", "'+x", "'-y", "'@z", "fine"}
    assert {row[2] for row in rows} == {show(-5.0, "1/s")}
