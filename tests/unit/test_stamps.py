"""The year of stamps that have none, from the time at which their file was written."""

from datetime import UTC, datetime

import pytest

from replayer.capture.stamps import Yearless


@pytest.mark.parametrize(
    ("written", "stamp", "year"),
    [
        ("2026-11-20T10:00", "Nov 20 09:00:00", 2026),
        ("2026-11-20T10:00", "Nov 21 05:00:00", 2026),
        ("2026-11-20T10:00", "Nov 22 05:00:00", 2025),
        ("2026-01-31T20:00", "Feb  1 05:00:00", 2026),
        ("2026-12-31T20:00", "Jan  1 05:00:00", 2027),
        ("2026-12-31T20:00", "Dec  5 05:00:00", 2026),
        ("2027-01-01T01:00", "Dec 31 23:00:00", 2026),
    ],
)
def test_the_first_stamp_is_of_the_last_such_day(written: str, stamp: str, year: int) -> None:
    """Local time may be a day ahead of UTC, also at the end of a month or a year."""
    clock = Yearless(datetime.fromisoformat(written).replace(tzinfo=UTC))

    assert datetime.fromtimestamp(clock.ns(stamp) / 1e9, UTC).year == year


def test_the_year_goes_on_within_a_file() -> None:
    """A January after a December is of the next year."""
    clock = Yearless(datetime(2027, 1, 2, tzinfo=UTC))
    years = [
        datetime.fromtimestamp(clock.ns(stamp) / 1e9, UTC).year
        for stamp in ("Dec 31 23:59:59", "Jan  1 00:00:01")
    ]

    assert years == [2026, 2027]
