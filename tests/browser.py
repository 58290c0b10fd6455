"""A headless Chromium for the pages of reports, and what it has to complain."""

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.chrome.webdriver import WebDriver
from selenium.webdriver.support.ui import WebDriverWait

LONGEST = 300.0
"""Seconds that a page is waited for, on a machine that has much else to do."""
_FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
    "--disable-background-networking --disable-component-update --window-size=1280,1000"
)
_Log = Callable[[str], list[dict[str, Any]]]


@contextlib.contextmanager
def started(chromium: tuple[str, str]) -> Iterator[WebDriver]:
    """Yield a browser that runs, by the paths of Chromium and of its driver."""
    options = Options()
    options.binary_location, driver_path = chromium
    with tempfile.TemporaryDirectory(prefix="replayer-chromium-") as profile:
        for flag in (*_FLAGS.split(), f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = WebDriver(options=options, service=Service(driver_path))
        yield driver
        driver.quit()


def ready(browser: WebDriver) -> WebDriver:
    """Return the browser once the page's charts are drawn."""
    WebDriverWait(browser, LONGEST).until(
        lambda driver: (
            driver.execute_script("return document.documentElement.dataset.ready") == "yes"
        )
    )
    return browser


def console(browser: WebDriver) -> list[dict[str, Any]]:
    """Return what its console was told since it was asked last."""
    log: _Log = browser.get_log
    return log("browser")
