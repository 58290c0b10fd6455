"""The page to sign, recommended sizes, stars of a profile, and predictions that were tried."""

from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from replayer.analysis.profiles import confidence
from replayer.model import Run
from replayer.report.documents import sizing
from replayer.report.documents.sizing import SizingSummary
from replayer.report.pages import sizing_sheet
from replayer.report.terminal import console
from replayer.report.writers import terminal_writer
from replayer.results import store
from replayer.results.profile import ProfileSource, ResourceProfile
from replayer.sizing import requirement
from replayer.sizing.prediction import Prediction
from replayer.sizing.recommendation import recommend
from replayer.sizing.record import Sizing
from replayer.sizing.target import Fit
from replayer.sizing.verdict import judge
from tests.command import Replayer
from tests.sizing_runs import of_cpu

GIB = 1 << 30
START = 1_795_000_000.0
DAY = 86400.0


def made(days: float = 8, every: float = 60.0, **columns: Any) -> ResourceProfile:
    """Return a profile that knows all that decides."""
    many = int(days * DAY / every)
    given: dict[str, Any] = {
        "cpu_cores": 6.0, "server_cpu_cores": 3.2, "memory_bytes": 10.0 * GIB,
        "read_iops": 1234.0, "write_iops": 100.0, "read_mbps": 20.0, "write_mbps": 2.0,
        "commits": 100.0, "wal_syncs": 91.0, **columns,
    }  # fmt: skip
    return ResourceProfile(
        ProfileSource(kind="csv", place="shop", averaged_seconds=every),
        START + every * (1.0 + np.arange(many, dtype=float)),
        np.full(many, every),
        {k: np.broadcast_to(np.asarray(v, float), many) for k, v in given.items()},
    )


def late(profile: ResourceProfile, days: float) -> ResourceProfile:
    """Return a profile whose second half comes so many days later."""
    half = len(profile.ends) // 2
    ends = np.concatenate((profile.ends[:half], profile.ends[half:] + days * DAY))
    return replace(profile, ends=ends)


def test_a_recommended_size_is_the_need_rounded_up() -> None:
    """3.2 cores x 1.5 x 1.2 are 6 cores; 10 GiB and a tenth are 11; requests have two digits."""
    sizes = {
        one.resource: one for one in recommend(requirement.of(made(), growth=1.5, headroom=0.2))
    }

    assert sizes["processors"].amount == 6
    assert sizes["memory"].amount == 11 * GIB
    assert sizes["disk, reads and writes"].amount == pytest.approx(2500)
    assert sizes["disk, flushes of the log"].amount == pytest.approx(170)


@pytest.mark.parametrize(
    ("profile", "age", "stars", "words"),
    [
        (made(), 0, 5, ""),
        (made(), 60, 4, "60 days old"),
        (made(), -400, 4, "ends 400 days from now"),
        (late(made(days=0.01), 60), 0, 2, "with rows for 14 min"),
        (late(made(days=8), 4), 0, 4, "not known all the time"),
        (made(days=2), 0, 4, "less than a week"),
        (made(days=0.5), 0, 3, "less than a day"),
        (made(every=600), 0, 4, "averages over up to 10 min"),
        (made(memory_bytes=np.nan), 0, 4, "memory 0%"),
    ],
)
def test_each_missing_star_has_a_reason(
    profile: ResourceProfile, age: float, stars: int, words: str
) -> None:
    """A week of minutes that know all and are new have five stars; each lack takes one."""
    rated = confidence.rate(profile, float(profile.ends[-1]) + age * DAY)

    assert rated.stars == stars
    assert len(rated.reasons) == confidence.MOST - stars
    assert words in " ".join(rated.reasons)
    assert rated.words.startswith("*" * stars + "-" * (5 - stars))


PREDICTION = Prediction(
    shortlist="s.shortlist", made="2026-11-23", machine="m1 / gp3", fit=Fit.FITS,
    known="predicted", first="CPU of the server", multiple=1.4,
)  # fmt: skip


@pytest.fixture
def tried(replayer: Replayer, tmp_path: Path) -> Callable[[Prediction | None], Run]:
    """Return a function that stores a run of `size` that arithmetic refuted, with a prediction."""

    def run(prediction: Prediction | None) -> Run:
        profile = of_cpu(tmp_path / "huge.profile", rate=50, cores=10_000)
        replayer("size", profile, "--results", tmp_path / "results", status=3,
                 REPLAYER_HOME=str(tmp_path / "home"))  # fmt: skip
        path = store.find("latest", tmp_path / "results")
        one = store.load(path)
        record = Sizing.of(one).model_copy(update={"prediction": prediction})
        one = one.model_copy(update={"sizing": record.model_dump(mode="json")})
        store.save(path, one)
        return one

    return run


class _Parts(HTMLParser):
    """The names of a page's elements."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        """Keep the name."""
        self.names.append(tag)


def test_a_prediction_is_set_beside_the_verdict(
    tried: Callable[[Prediction | None], Run], replayer: Replayer, tmp_path: Path
) -> None:
    """A wrong prediction is reported by the verdict, by the sheet and by --check."""
    one = tried(PREDICTION)
    record = Sizing.of(one)
    summary = SizingSummary(record, one, judge(record, one))

    assert summary.verdict.fit is Fit.DOES_NOT_FIT
    assert "The prediction did not hold" in summary.verdict.prediction
    assert "m1 / gp3 was predicted" in console.text(
        terminal_writer.render(sizing.document(summary))
    )
    assert summary.verdict.model_dump()["headline"].startswith("does not fit: ")
    checked = replayer("shortlist", "--check", "--results", tmp_path / "results").out
    assert "0 of 1 decided predictions held" in checked
    assert "did not hold" in checked

    page = sizing_sheet.sheet(one)
    assert "Does made.csv fit on" in page
    assert "size: A4" in page
    assert all(word in page for word in ("signature", "10,000 cores", one.id, record.by or one.id))
    parts = _Parts()
    parts.feed(page)
    assert not {"script", "link", "img"} & set(parts.names)


def test_report_writes_the_sheet(
    tried: Callable[[Prediction | None], Run], replayer: Replayer, tmp_path: Path
) -> None:
    """`report --summary` and `size show --summary` write the same page; --text prints, too."""
    one = tried(None)
    where = ("--results", tmp_path / "results")
    printed = replayer("report", "latest", *where, "--summary", "a.html", "--text").out
    replayer("size", "show", "latest", *where, "--summary", "b.html", status=3)

    assert (tmp_path / "a.html").read_text() == (tmp_path / "b.html").read_text()
    assert one.id in printed


def test_a_prediction_is_undecided_where_one_side_is() -> None:
    """Held and not held are said only where both sides are decided."""
    assert PREDICTION.outcome(Fit.FITS) == "held"
    assert PREDICTION.outcome(Fit.DOES_NOT_FIT) == "did not hold"
    assert PREDICTION.outcome(Fit.UNCLEAR) == "undecided"
