"""What a browser has to complain; `from tests.browser import console`."""

from collections.abc import Callable
from typing import Any

from selenium.webdriver.chrome.webdriver import WebDriver

_Log = Callable[[str], list[dict[str, Any]]]


def console(browser: WebDriver) -> list[dict[str, Any]]:
    """Return what its console was told since it was asked last."""
    log: _Log = browser.get_log
    return log("browser")
