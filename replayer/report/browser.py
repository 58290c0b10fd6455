"""Open an HTML page in the user's browser, from a private temporary file."""

import os
import tempfile
import webbrowser
from pathlib import Path

from replayer.errors import ReplayerError

_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")


def open_page(page: str) -> str:
    """Write a page into a new private file and open it; return a sentence with its path.

    The browser may read the file after this process has ended, so the file is not removed.  No
    browser is started without a display or as root.  Raises ReplayerError if the file cannot be
    written.
    """
    try:
        handle, name = tempfile.mkstemp(prefix="replayer-report-", suffix=".html")
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
            file.write(page)
    except OSError as error:
        words = f"the page cannot be written into {tempfile.gettempdir()}: {error.strerror}"
        raise ReplayerError(words, "give a file with --html") from error
    if _may_open() and webbrowser.open(Path(name).as_uri()):
        return f"given to the browser: {name}"
    return f"written: {name}; no browser can be opened from here: open this file in one"


def _may_open() -> bool:
    # A browser that root starts would read foreign pages as root.
    return os.geteuid() != 0 and any(os.environ.get(name) for name in _DISPLAYS)
