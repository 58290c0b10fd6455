"""units: quantities as people write them, and numbers as people read them."""

import math
import random
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from replayer import units
from replayer.errors import Impossible


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8k", 8192),
        ("8K", 8192),
        ("8 kB", 8192),
        ("8KiB", 8192),
        ("512M", 512 << 20),
        ("512MB", 512 << 20),
        ("1G", 1 << 30),
        ("1 GiB", 1 << 30),
        ("2t", 2 << 40),
        ("7", 7),
        ("7 B", 7),
        (" 7 ", 7),
        (8192, 8192),
        (8192.0, 8192),
        ("1.5k", 1536),
        ("0.3G", 322122547),
        ("1,048,576", 1 << 20),
        ("1_048_576", 1 << 20),
        ("9007199254740993", 9007199254740993),
        (0, 0),
    ],
)
def test_size_reads_what_people_write(text: str | float, expected: int) -> None:
    """Every common way to write a size gives its exact bytes, binary units throughout."""
    assert units.size(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30s", 30),
        ("30", 30),
        (30, 30),
        (0.5, 0.5),
        (1e-7, 1e-7),
        (1e16, 1e16),
        ("500ms", 0.5),
        ("250 us", 250e-6),
        ("250 µs", 250e-6),
        ("1ms250\N{GREEK SMALL LETTER MU}s", 1250e-6),
        ("80ns", 80e-9),
        ("5min", 300),
        ("5m", 300),
        ("1h", 3600),
        ("1h30min", 5400),
        ("3 min 20 s", 200),
        ("1.5min", 90),
    ],
)
def test_duration_reads_what_people_write(text: str | float, expected: float) -> None:
    """Every common way to write a duration gives its seconds."""
    assert units.duration(text) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("50331648", 50331648), ("20M", 20_000_000), ("6", 6), ("1.5k", 1500), ("2G", 2 * 10**9)],
)
def test_count_is_decimal(text: str, expected: int) -> None:
    """Counts have decimal units: 20M rows are 20,000,000."""
    assert units.count(text) == expected


@pytest.mark.parametrize("parse", [units.size, units.duration, units.count])
@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "k", "-1", -1, "1e3", "nan", math.nan, math.inf, True, None, "0x10", "٣"),
        *("1,5", "1,5k", "1_", "_1", "1__0", "1 2", "1..2", ".5", "1k k", "8 parsecs"),
        *("9" * 5000, "1000000000000t"),
    ],
)
def test_what_is_no_quantity_is_refused_in_one_sentence(
    parse: Callable[[Any], float], text: Any
) -> None:
    """Whatever is ambiguous or absurd is an Impossible with an example, never another number."""
    with pytest.raises(Impossible) as refused:
        parse(text)

    assert "such as" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("parse", "text"), [(units.size, "1.5"), (units.count, "1.2345678M")])
def test_a_part_of_a_byte_or_a_row_is_refused(parse: Callable[[str], float], text: str) -> None:
    """A fraction of what cannot be divided is an error, not rounded in silence."""
    with pytest.raises(Impossible, match="not a whole number"):
        parse(text)


@pytest.mark.parametrize("text", ["5min30", "5 min 3 parsecs"])
def test_a_duration_of_several_parts_needs_all_its_units(text: str) -> None:
    """A part without a unit, or with a wrong one, is refused with the whole text."""
    with pytest.raises(Impossible, match=text):
        units.duration(text)


def test_a_shown_size_can_be_read_back() -> None:
    """Showing and reading back loses no more than the digits shown, for any magnitude."""
    draw = random.Random(1)
    for _ in range(3000):
        value = 2 ** draw.uniform(0, 50)

        assert units.size(units.show_size(value)) == pytest.approx(value, rel=0.0051, abs=0.51)


def test_a_shown_duration_can_be_read_back() -> None:
    """Three digits up to two minutes, then whole seconds, then whole minutes."""
    draw = random.Random(1)
    for _ in range(3000):
        value = 10 ** draw.uniform(-8, 6)

        error = 30.01 if value >= 3599 else 0.501 if value >= 119 else 0.0051 * value
        assert units.duration(units.show_duration(value)) == pytest.approx(value, abs=error)


def test_shown_sizes_are_never_a_thousand_of_the_next_unit() -> None:
    """1,024 KiB is shown as 1.00 MiB, at every border between two units."""
    for border in (1 << 10, 1 << 20, 1 << 30, 1 << 40):
        for value in (border * 0.9999, border, border * 1.0001):
            number, unit = units.show_size(value).split()
            assert float(number.replace(",", "")) < 1024, (value, unit)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, "0 s"),
        (12.3e-6, "12.3 µs"),
        (8e-7, "800 ns"),
        (4.56e-3, "4.56 ms"),
        (0.99951, "1.00 s"),
        (0.99949, "999 ms"),
        (7.89, "7.89 s"),
        (9.996, "10.0 s"),
        (119.4, "119 s"),
        (119.6, "2 min 00 s"),
        (200, "3 min 20 s"),
        (3599.7, "1 h 00 min"),
        (7260, "2 h 01 min"),
        (-200, "-3 min 20 s"),
    ],
)
def test_durations_are_shown_in_the_unit_that_fits(value: float, expected: str) -> None:
    """Three digits in the right unit, and no 60 seconds or 1,000 milliseconds by rounding."""
    assert units.show_duration(value) == expected


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (1536, "bytes", "1.50 KiB"),
        (200, "bytes", "200 B"),
        (0.25, "s", "250 ms"),
        (405.6e6, "bytes/s", "406 MB/s"),
        (393232.4, "blocks/s", "393,232 blocks/s"),
        (393232.4, "1/s", "393,232/s"),
        (31.25, "reads/s", "31.2 reads/s"),
        (12, "files", "12 files"),
        (0.5, "", "0.500"),
        # All of it, and all that is required, is only what is no less.
        (99.996, "%", "99.996 %"),
        (100.0, "%", "100 %"),
        (-1234.0, "%", "-1,234 %"),
        (0.9996, "times", "0.9996 times"),
        (1.0004, "times", "1.00 times"),
        (math.nan, "s", "nan"),
        (math.inf, "rows", "inf"),
    ],
)
def test_a_measurement_is_shown_in_its_units_form(value: float, unit: str, expected: str) -> None:
    """Bytes, seconds and bytes/s have forms of their own; every other unit follows its number."""
    assert units.show(value, unit) == expected


@pytest.mark.parametrize(
    ("number", "words"), [(0, "0 more runs"), (1, "1 more run"), (1200, "1,200 more runs")]
)
def test_a_noun_after_one_is_in_the_singular(number: int, words: str) -> None:
    """All other numbers have it in the plural, and thousands are separated."""
    assert units.show_with_noun(number, "more run") == words


def test_three_digits_are_three_digits() -> None:
    """A number below 1,000 is shown with exactly three significant digits and no exponent."""
    draw = random.Random(2)
    for _ in range(3000):
        value = 10 ** draw.uniform(-6, 2.9995)

        text = units.three(value)

        assert len(text.replace(".", "").lstrip("0")) == 3, (value, text)
        assert float(text) == pytest.approx(value, rel=0.0051)


def test_a_large_number_keeps_all_its_digits() -> None:
    """Thousands are separated, and no digit before the point is rounded away."""
    assert units.show_count(50331648) == "50,331,648"
    assert units.three(1234567) == "1,234,567"


def test_sizes_and_durations_are_written_into_results_as_people_write_them() -> None:
    """A spec's JSON holds `8k` and `30s`, which mean exactly what was given when read again."""

    class Spec(BaseModel):
        block: units.Size
        time: units.Duration
        limit: units.Size | None = None
        rows: units.Count = 6

    spec = Spec.model_validate({"block": "8 KiB", "time": "0.5min", "limit": "1.5G", "rows": "20M"})
    written = spec.model_dump(mode="json")

    assert written == {"block": "8k", "time": "30s", "limit": "1536M", "rows": 20_000_000}
    assert Spec(**written) == spec
    assert Spec(block=1000, time=0.1).model_dump(mode="json")["block"] == "1000"
    assert Spec(block=0, time=1e-7).model_dump() == {
        "block": 0,
        "time": 1e-7,
        "limit": None,
        "rows": 6,
    }


def test_writing_a_size_or_duration_loses_nothing() -> None:
    """Whatever is written is read back exactly."""
    draw = random.Random(3)
    for _ in range(2000):
        bytes_ = draw.getrandbits(draw.randint(0, 50)) << draw.randint(0, 9)
        seconds = 10 ** draw.uniform(-9, 9)

        assert units.size(units.write_size(bytes_)) == bytes_
        assert units.duration(units.write_duration(seconds)) == seconds


@pytest.mark.parametrize(
    ("value", "times", "percent"),
    [
        (0.95, "0.950", "95%"),
        (0.9997, "0.9997", "99.97%"),
        (0.999, "0.999", "99.9%"),
        (1.0, "1.00", "100%"),
        (1.0004, "1.00", "100%"),
        (0.0123, "0.0123", "1.2%"),
    ],
)
def test_a_multiple_below_1_is_not_rounded_to_it(value: float, times: str, percent: str) -> None:
    """`does not fit` next to 1.00 or 100% contradicts itself."""
    assert (units.show_times(value), units.show_percent(value)) == (times, percent)


class Unused:
    """A pattern that no number may be compared with."""

    def fullmatch(self, text: str) -> None:
        """Fail with the number."""
        raise AssertionError(f"{text} can only be a decimal")


def test_a_number_that_can_only_be_a_decimal_is_compared_with_one_pattern(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Most cells of a file are such numbers, or whole.

    The patterns that are not tried agree: such a number is a decimal, and has no thousands apart.
    """
    heads, tails = ("0", "7", "42", "999", "1234", "17179869184"), range(1, 9)
    plain = [f"{head}.{'1234567890'[:digits]}" for head in heads for digits in tails]
    sure = [one for one in plain if one[0] == "0" or len(one.partition(".")[0]) > 3] + [
        one for one in plain if len(one.partition(".")[2]) != 3
    ]
    for number in sure:
        assert units._DECIMALS.fullmatch(number)
        assert not units._THOUSANDS.fullmatch(number)
        assert not units._GROUPED.fullmatch(number)
    for name in ("_THOUSANDS", "_DECIMALS", "_GROUPED"):
        monkeypatch.setattr(units, name, Unused())
    for number in sure:
        separators = units.NumberSeparators(";")
        assert separators.plain(number) == number
        assert separators._decimal == {"."}
