"""The conversion of numbers to and from text as users write it: "8k", "30s", "20M".

Sizes are binary (k = 1024 bytes, as in fio and PostgreSQL), counts decimal (M = 1,000,000).  No
other module converts these.
"""

import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, PlainSerializer

from replayer.errors import Impossible

_SIZE: Mapping[str, int | str] = {
    "": 1,
    "b": 1,
    "k": 1 << 10,
    "m": 1 << 20,
    "g": 1 << 30,
    "t": 1 << 40,
}
_TIME: Mapping[str, int | str] = {
    "": 1,
    "ns": "1e-9",
    "us": "1e-6",
    "ms": "1e-3",
    "s": 1,
    "min": 60,
    "m": 60,
    "h": 3600,
}
_COUNT: Mapping[str, int | str] = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000}
# Commas are accepted only between thousands: in half of the world, 1,5 is one and a half.
_NUMBER = r"(\d{1,3}(?:,\d{3})+|\d+(?:_\d+)*)(\.\d+)?"
_WRITTEN = re.compile(rf"\s*{_NUMBER}\s*([a-zA-Z]*)\s*", re.ASCII)
_THOUSANDS = re.compile(r"[1-9]\d{0,2}([.,])\d{3}(\1\d{3})*\s*[a-zA-Z]*", re.ASCII)
_DECIMALS = re.compile(r"\d*([.,])\d+\s*[a-zA-Z]*", re.ASCII)
_SPACES = " '_\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}\N{RIGHT SINGLE QUOTATION MARK}"
# 1.234.567 and 12,34,567, 1.234,5 and 1,234.5, 1 234 and 1 234,5.
_GROUPED = re.compile(
    r"[1-9]\d{0,2}(([.,])\d{2,3}(\2\d{2,3})*\2\d{3}([.,]\d+)?"
    rf"|\.\d{{3}},\d+|,\d{{3}}\.\d+|([{_SPACES}]\d{{3}})+([.,]\d+)?)\s*[a-zA-Z]*",
    re.ASCII,
)
_UNGROUPED = re.compile(r"[1-9]\d{3}", re.ASCII)
# 0.123, 1234.567, 1.5 and 1.2345: no form of thousands, so that no other pattern has to be tried.
_SURE = re.compile(r"(?:0|[1-9]\d{3,})\.\d+|[1-9]\d{0,2}\.(?:\d{1,2}|\d{4,})", re.ASCII)
_REMEDY = "write thousands without separators, decimals with a point, and commas between columns"
_TERM = re.compile(r"[^a-zA-Z]+[a-zA-Z]*")
_MICRO = re.compile("[\N{MICRO SIGN}\N{GREEK SMALL LETTER MU}]s")
_LARGEST = 1 << 60
_LONGEST = 40
_MOST_DECIMALS = 12
_BOUNDS: Mapping[str, float] = {"%": 100.0, "times": 1.0}
"""Unit -> the value that others below it are not rounded to: all of it, or all that is required."""


def size(text: str | float) -> int:
    """Return the bytes of "8k", "1 GiB", "512MB" or 8192; raise Impossible for other text."""
    value, unit = _parse(text, _SIZE, "a size such as 8k, 512M or 1G", endings=("ib", "b"))
    return round(value) if unit > 1 else _whole(value, text)


def has_unit(text: str | float) -> bool:
    """Return whether a number as users write it has a unit behind it: "8k" has one, "8,192" not."""
    parts = _WRITTEN.fullmatch(_plain(text))
    return bool(parts and parts[3])


def duration(text: str | float) -> float:
    """Return the seconds of "30s", "500ms", "1h30min" or 30; raise Impossible for other text."""
    wanted = "a duration such as 500ms, 30s or 5min"
    if isinstance(text, str):
        text = _MICRO.sub("us", text)
    terms = _TERM.findall(str(text))
    if len(terms) < 2 or str(text).rstrip()[-1].isdigit():
        return float(_parse(text, _TIME, wanted)[0])
    parts = (_parse(term, _TIME, wanted, written=text)[0] for term in terms)
    return float(sum(parts, Decimal(0)))


def count(text: str | float) -> int:
    """Return the number in "50331648", "20M" or 6; raise Impossible for other text."""
    return _whole(_parse(text, _COUNT, "a count such as 50331648 or 20M")[0], text)


def _parse(
    text: str | float,
    units: Mapping[str, int | str],
    wanted: str,
    *,
    endings: tuple[str, ...] = (),
    written: str | float | None = None,
) -> tuple[Decimal, Decimal]:
    """Return the value of a text such as "8k" in the base unit, and the factor of its unit.

    `units` has unit -> factor; `endings` are removed from the unit first.  Raises Impossible for
    bad text.  In its message, `wanted` describes the expected form, and `written` is the text to
    quote.
    """
    written = text if written is None else written
    parts = _WRITTEN.fullmatch(_plain(text))
    if parts is None or isinstance(text, bool):
        raise Impossible(f"{written!r} is not {wanted}")
    unit = parts[3].lower()
    for ending in endings:
        if unit.endswith(ending) and unit != ending:
            unit = unit.removesuffix(ending)
            break
    if unit not in units:
        raise Impossible(f"{written!r} has the unit {parts[3]!r}: it must be {wanted}")
    number = re.sub("[_,]", "", parts[1]) + (parts[2] or "")
    value, factor = Decimal(number[:_LONGEST]), Decimal(units[unit])
    if len(number) > _LONGEST or value * factor > _LARGEST:
        raise Impossible(f"{written!r} is larger than any machine: it must be {wanted}")
    return value * factor, factor


def _plain(text: str | float) -> str:
    """Return a float as text without an exponent; return text unchanged."""
    number = isinstance(text, float) and math.isfinite(text)
    return f"{Decimal(str(text)):f}" if number else str(text)


def _whole(value: Decimal, text: str | float) -> int:
    if value != int(value):
        raise Impossible(f"{text!r} is not a whole number")
    return int(value)


def _checked(parse: Callable[[str | float], float]) -> BeforeValidator:
    def before(value: Any) -> float:
        try:
            return parse(value)
        except Impossible as error:
            raise ValueError(str(error)) from error

    return BeforeValidator(before)


def write_size(bytes_: int) -> str:
    """Return bytes exactly, in the form of a workload file: 8k, 1G, 1000."""
    for unit in ("t", "g", "m", "k"):
        if bytes_ and bytes_ % int(_SIZE[unit]) == 0:
            return f"{bytes_ // int(_SIZE[unit])}{unit if unit == 'k' else unit.upper()}"
    return str(bytes_)


def write_duration(seconds: float) -> str:
    """Return seconds exactly, in the form of a workload file: 30s, 0.5s."""
    return f"{Decimal(str(seconds)).normalize():f}s"


def _written(write: Callable[[Any], str]) -> PlainSerializer:
    return PlainSerializer(write, return_type=str, when_used="json")


def show_size(bytes_: float) -> str:
    """Return bytes with a binary unit and three digits: 1.50 GiB."""
    if abs(bytes_) < 1023.5:
        return f"{bytes_:.0f} B"
    value = float(bytes_)
    for unit in ("KiB", "MiB", "GiB"):
        value /= 1024
        # 1023.9 would be shown as 1,024, but 1,024 of this unit are one of the next.
        if abs(value) < 1023.5:
            return f"{three(value)} {unit}"
    return f"{three(value / 1024)} TiB"


def show_duration(seconds: float) -> str:
    """Return seconds in a readable form: 12.3 µs, 4.56 ms, 7.89 s, 3 min 20 s."""
    magnitude = abs(seconds)
    if magnitude >= 119.5:
        sign = "-" if seconds < 0 else ""
        if magnitude < 3599.5:
            minutes, rest = divmod(round(magnitude), 60)
            return f"{sign}{minutes} min {rest:02d} s"
        hours, minutes = divmod(round(magnitude / 60), 60)
        return f"{sign}{hours} h {minutes:02d} min"
    # 999.6 ms is 1.00 s in three digits.
    for limit, factor, unit in (
        (0.9995e-6, 1e9, "ns"),
        (0.9995e-3, 1e6, "µs"),
        (0.9995, 1e3, "ms"),
    ):
        if 0 < magnitude < limit:
            return f"{three(seconds * factor)} {unit}"
    return f"{three(seconds)} s"


def show_count(value: float) -> str:
    """Return a number with separated thousands; below 1000, three digits if it is not whole."""
    if not math.isfinite(value):
        return str(value)
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 1000 else three(value)


def show_with_noun(number: int, noun: str) -> str:
    """Return a number with a noun in the singular or plural, such as `1 run` or `1,200 runs`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def show_rate(value: float) -> str:
    """Return a rate as text: with three digits below 100, else as a whole number."""
    return show_count(round(value)) if value >= 100 else three(value)


def show_or_dash(value: Any, form: Callable[[Any], str]) -> str:
    """Return a value as the function `form` writes it; a dash if the value is None."""
    return "-" if value is None else form(value)


def show(value: float, unit: str) -> str:
    """Return a measured value with its unit as text, such as 1.50 GiB for a value in bytes.

    `unit` is the unit of the value: bytes, s, bytes/s, 1/s or another one.
    """
    if not math.isfinite(value):
        return str(value)
    if unit == "bytes":
        return show_size(value)
    if unit == "s":
        return show_duration(value)
    if unit == "bytes/s":
        return f"{show_count(value / 1e6)} MB/s"
    if unit.startswith("1/"):
        return f"{show_count(value)}{unit[1:]}"
    number = show_below(_BOUNDS.get(unit, -math.inf), value, show_count(value))
    return f"{number} {unit}".rstrip()


def three(value: float) -> str:
    """Return a number with three significant digits and no exponent.

    All digits before the decimal point are kept, even if they are more than three.
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    # Round first: 9.996 becomes 10.0, with one more digit before the point than its logarithm.
    value = float(f"{value:.3g}") if abs(value) < 1000 else value
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(decimals, 12)}f}"


def show_times(value: float) -> str:
    """Return a multiple with three significant digits; one below 1 is never rounded to 1.00."""
    return show_below(1.0, value, three(value))


def show_percent(share: float) -> str:
    """Return a share as a percentage such as 95%; one below 100 % is never rounded to 100%."""
    percent = 100 * share
    return f"{show_below(100.0, percent, f'{percent:.{0 if share >= 0.1 else 1}f}')}%"


def show_below(bound: float, value: float, text: str) -> str:
    """Return a value's `text`, or the value with more digits if it is below the bound it shows.

    So a value is never rounded to a bound that it does not reach.
    """
    decimals = 0
    while value < bound <= float(text.replace(",", "")) and decimals < _MOST_DECIMALS:
        decimals += 1
        text = f"{value:.{decimals}f}"
    return text


class NumberForm(NamedTuple):
    """The description of a kind of number for a list of keys: its name, and how it is printed.

    `show` is the function that makes the text of such a number.
    """

    name: str
    show: Callable[[float], str]


Size = Annotated[int, _checked(size), _written(write_size), NumberForm("size", show_size)]
"""Bytes, written as 8k or 1G in a workload file and in the result of its run."""
Duration = Annotated[
    float,
    _checked(duration),
    _written(write_duration),
    NumberForm("duration", show_duration),
]
"""Seconds, written as 30s or 5min in a workload file, as 30s or 300s in the result of its run."""
Count = Annotated[int, _checked(count), NumberForm("count", show_count)]
"""A number of things, written as 20M or 50331648 in a workload file."""


class NumberSeparators:
    """The separators in the numbers of a file: 1,234 and 1.234 can be a thousand, or decimals.

    A file is of one locale: a number such as 0,5 or 1234,567 shows that all commas are decimal, and
    0.5 that all points are.  Points are decimal, too, in a file with commas between its columns and
    none in its numbers, and in one that has 1234 and no number with a comma.
    """

    def __init__(self, columns: str) -> None:
        """Begin without a number; `columns` is the separator between the columns of the file."""
        self._points_are_decimal = columns == ","
        self._unclear: dict[str, str] = {}
        """A comma or a point -> the first number in which it may separate thousands."""
        self._decimal: set[str] = set()
        self._grouped = ""
        """The first number in which a separator of thousands is certain."""
        self._ungrouped = False
        """True after a number of a thousand or more without a separator of thousands."""

    def plain(self, text: str, *, measured: bool = True) -> str:
        """Return a number of the file with a decimal point in place of a comma.

        `measured` is False for a time: a program that separates thousands writes 2026 and
        1700000000 as they are, so that such a number does not show how others are written.
        """
        if measured and not self._ungrouped:
            self._ungrouped = _UNGROUPED.match(text) is not None
        if text.isdecimal():
            return text
        if _SURE.fullmatch(text):
            self._decimal.add(".")
            return text
        self._points_are_decimal &= "," not in text
        if match := _THOUSANDS.fullmatch(text):
            self._unclear.setdefault(match[1], text)
        elif match := _DECIMALS.fullmatch(text):
            self._decimal.add(match[1])
        if not self._grouped and _GROUPED.fullmatch(text):
            self._grouped = text
        return text.replace(",", ".")

    def check(self, file: str) -> None:
        """Raise Impossible if a number so far may have thousands apart; `file` is named."""
        has_commas = "," in self._decimal or "," in self._unclear
        points = self._points_are_decimal or (self._ungrouped and not has_commas)
        certain = {*self._decimal, *("." if points else "")}
        for separator, name in ((",", "comma"), (".", "point")):
            if separator in self._unclear and separator not in certain:
                raise Impossible(
                    f"{file} has numbers such as {self._unclear[separator][:40]}, and no number "
                    f"that shows if the {name} separates thousands or decimals: {_REMEDY}; or, if "
                    f"these are decimals, write one with four of them, such as 1{separator}2340"
                )
        if self._grouped:
            raise Impossible(
                f"{file} has numbers such as {self._grouped[:40]}, with a separator of thousands: "
                f"{_REMEDY}"
            )
