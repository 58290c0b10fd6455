"""The scripts of a page: those that replayer came with, packed, and known to the page's policy."""

import base64
import gzip
import hashlib
from collections.abc import Iterator

import pytest

from replayer.errors import ReplayerError
from replayer.report.pages import scripts


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """Forget what was read before and after a test that changes it."""
    yield
    scripts.plotly.cache_clear()
    scripts._plotly.cache_clear()


def test_plotly_is_packed_whole_and_small() -> None:
    """Unpacked it is the script of the policy's second hash; packed it leaves a page its room."""
    text = gzip.decompress(base64.b64decode(scripts.plotly()))
    named = scripts.allowed().split()[1].removeprefix("'sha256-").rstrip("'")

    assert hashlib.sha256(text).digest() == base64.b64decode(named)
    assert hashlib.sha256(text).hexdigest() == scripts.PLOTLY
    assert len(scripts.plotly()) < 600_000


def test_the_licence_of_plotly_travels_with_it() -> None:
    """Who gets the script gets its licence."""
    assert "Plotly" in scripts.part("plotly/LICENSE")


def test_another_script_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script that is not the one replayer came with makes no page, and it is said what to do."""
    monkeypatch.setattr(scripts, "part", lambda _: "window.other = 1")
    scripts._plotly.cache_clear()
    scripts.plotly.cache_clear()

    with pytest.raises(ReplayerError, match="is not the one that replayer came with: install"):
        scripts.plotly()
