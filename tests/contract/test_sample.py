"""The sample pages: whole, small, of one file, and silent about where they were made."""

import re
from pathlib import Path

import pytest

from tests.made import drawn_in

ROOT = Path(__file__).resolve().parents[2]
LARGEST = 1_600_000
PAGES = ("run.html", "comparison.html")


@pytest.fixture(params=PAGES)
def page(request: pytest.FixtureRequest) -> str:
    """Return the text of a sample page."""
    name: str = request.param
    return (ROOT / "docs" / "sample" / name).read_text(encoding="utf-8")


def test_a_sample_is_one_small_file(page: str) -> None:
    """At most 1.6 MB, with profiles, and nothing is asked of the network."""
    assert len(page.encode()) <= LARGEST
    assert "default-src 'none'" in page
    assert '"frames":{"labels"' in drawn_in(page)
    # A place of the page itself is asked of nobody.
    assert re.findall(r"""(?:src|href)=["'][^"'#]""", page) == []


def test_a_sample_names_no_place_of_its_maker(page: str) -> None:
    """No home, no temporary folder, no mail address: what is told is the machine's kind."""
    words = page.split("<script", 1)[0] + drawn_in(page)

    places = (
        r"/(?:home|root|work)/[\w./-]*|/tmp/(?!replayer-)[\w./-]*|[\w.]+@[a-z][a-z0-9.-]+\.[a-z]+"
    )
    assert re.findall(places, words) == []


def test_every_step_is_on_the_samples(page: str) -> None:
    """A stranger sees each step's place."""
    titles = re.findall(r"<h2[^>]*>([^<]*)</h2>", page)

    assert {"build", "flush", "walk", "scan", "cached", "physical"} <= set(titles)


def test_the_readme_links_the_samples() -> None:
    """Who reads the first page finds both."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")

    assert all(f"docs/sample/{name}" in readme for name in PAGES)
