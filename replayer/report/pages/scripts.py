"""The scripts of a page: its own, and the part of Plotly that draws lines, points and bars.

The package contains Plotly's script, unchanged from npm's registry (`make plotly`), and its
licence, so neither building a wheel nor reading a page needs npm or the network.  In a page, the
script is compressed, like the page's data.  The page's security policy allows only these two
scripts.
"""

import base64
import gzip
import hashlib
import json
from functools import cache
from importlib import resources
from typing import Any

from replayer.errors import ReplayerError

PLOTLY = "99784e3abfb07b142a15e521a439e6d9addceadb3f79553fd24c72774f0649ba"
"""The SHA-256 of plotly-basic.min.js of plotly.js-basic-dist-min 4.1.1."""
_AGAIN = "install replayer again"


def own() -> str:
    """Return the page's own script."""
    return part("page.js")


def allowed() -> str:
    """Return the script sources for a page's security policy: the SHA-256 of both scripts."""
    return " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for text in (own(), _plotly())
    )


@cache
def plotly() -> str:
    """Return Plotly's script, packed; raise ReplayerError if it is missing or changed."""
    return packed(_plotly())


def packed(text: str) -> str:
    """Return text compressed by gzip and encoded in base64, which cannot contain markup."""
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode("ascii")


def data(value: Any) -> str:
    """Return a value as JSON that is compressed by gzip and encoded in base64."""
    return packed(json.dumps(value, separators=(",", ":"), allow_nan=False))


def part(name: str) -> str:
    """Return the text of a file in the folder replayer/report/page."""
    return resources.files("replayer.report").joinpath("page", name).read_text(encoding="utf-8")


@cache
def _plotly() -> str:
    try:
        text = part("plotly/plotly-basic.min.js")
    except OSError as error:
        words = f"the charts of a page need Plotly's script, which is missing: {_AGAIN}"
        raise ReplayerError(words) from error
    if hashlib.sha256(text.encode()).hexdigest() != PLOTLY:
        raise ReplayerError(f"Plotly's script is not the one that replayer came with: {_AGAIN}")
    return text
