"""The page of a profile in a real browser: drawn over the time of day, and nothing injected."""

from collections.abc import Iterator

import numpy as np
import pytest
from selenium import webdriver

from replayer.report.documents import profile as report
from replayer.report.writers import page_writer
from replayer.results.profile import (
    Gap,
    ProfileSource,
    ResourceProfile,
    StatementUse,
    TableUse,
    WorkingSet,
)
from tests.browser import console, ready, started
from tests.end_to_end.test_report_html import EVIL

START = 1_795_000_000.0
SECONDS = 4 * 3600


@pytest.fixture(scope="module")
def opened(
    chromium: tuple[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[webdriver.Chrome]:
    """Return headless Chromium with the page of a profile open, ready."""
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(
        page_writer.page(report.document(report.summary(profile(), ["cpu=2"]))), encoding="utf-8"
    )
    with started(chromium) as driver:
        driver.get(f"file://{path}")
        yield ready(driver)


def profile() -> ResourceProfile:
    """Return a profile of four hours of seconds with a gap, whose every text tries to be markup."""
    at = np.arange(SECONDS, dtype=float)
    rate = 100 + 50 * np.sin(at / 600)
    rate[7000] = 5000
    kept = (at < 8000) | (at >= 9000)
    columns = dict.fromkeys(("commits", "read_iops", "write_iops", "read_mbps", "blocks_hit"), rate)
    columns |= {"cpu_cores": rate / 50, "memory_bytes": rate * 1e7, "blocks_read": rate / 10}
    return ResourceProfile(
        ProfileSource(kind="live", engine=EVIL, version=EVIL, place=EVIL, device=EVIL, cores=4,
               averaged_seconds=1.0),
        START + 1 + at[kept],
        np.ones(int(kept.sum())),
        {name: values[kept] for name, values in columns.items()},
        gaps=(Gap(begin=START + 8000, end=START + 9000, reason=EVIL),),
        tables=(TableUse(name=EVIL, bytes=1 << 30, blocks_hit=5.0),),
        statements=(StatementUse(kind=EVIL, calls=1.0, share=1.0),),
        working_set=WorkingSet(bytes=1 << 30, method=EVIL),
        notes=(EVIL,),
    )  # fmt: skip


@pytest.mark.slow
def test_the_series_is_drawn_over_the_time_of_day_with_its_peak_and_its_gap(
    opened: webdriver.Chrome,
) -> None:
    """The second at 5,000 is on the line of the most, the gap is a hole and no line through it."""
    x, lines = opened.execute_script(
        "const g = document.getElementById('series');"
        "return [g.layout.xaxis.type, g.data.map(t => [t.name, t.x[0], t.y])]"
    )
    by_name = {name: (first, values) for name, first, values in lines}
    first, most = by_name["transactions, per s, most"]
    means = by_name["transactions, per s"][1]

    assert x == "date"
    assert first == pytest.approx(1000 * (START + 10))
    assert max(value for value in most if value is not None) == pytest.approx(5000, rel=1e-4)
    assert max(value for value in means if value is not None) < 1000
    assert 95 <= sum(value is None for value in means) <= 105
    assert by_name["events"][1] == [0]


@pytest.mark.slow
def test_the_curve_of_levels_is_drawn(opened: webdriver.Chrome) -> None:
    """A line for each resource that decides, falling as the level rises."""
    traces = opened.execute_script(
        "return document.getElementById('levels').data.map(t => [t.name, t.x, t.y])"
    )

    assert [name for name, *_ in traces][:2] == ["transactions, per s", "CPU of the host, cores"]
    for _, minutes, shares in traces:
        assert minutes == sorted(minutes, reverse=True)
        assert shares == sorted(shares)


@pytest.mark.slow
def test_the_browser_has_nothing_to_complain_and_nothing_is_injected(
    opened: webdriver.Chrome,
) -> None:
    """No console message, no request, no element out of a text; each text is there as it is."""
    hacked, elements, words, asked = opened.execute_script(
        "return [window.hacked, document.querySelectorAll('img, b, [onerror]').length,"
        "document.body.innerText, performance.getEntriesByType('resource').length]"
    )

    assert console(opened) == []
    assert hacked is None
    assert elements == 0
    assert words.count(EVIL) >= 4
    assert asked == 0


@pytest.mark.slow
def test_the_tables_say_what_the_terminal_says(opened: webdriver.Chrome) -> None:
    """Percentiles of each window, the busiest minute, minutes above the level asked for."""
    words = opened.execute_script("return document.body.innerText")

    for part in ("Windows of 1 s", "Windows of 10 min", "Busiest 1 min by transactions",
                 "CPU of the host above 2 cores:", "is not tested", "hit ratio"):  # fmt: skip
        assert part in words
