"""Quantities as people write them, "8k" "30s" "20M" <-> numbers: the only place that does.

Sizes are binary (k = 1024 bytes, as in fio and PostgreSQL), counts decimal (M = 1,000,000).
"""

import math
import re
from typing import Annotated

from pydantic import BeforeValidator

from replayer.errors import Impossible

_SIZE = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_TIME = {"us": 1e-6, "ms": 1e-3, "": 1.0, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}
_COUNT = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000}
_WRITTEN = re.compile(r"\s*(\d[\d_,]*(?:\.\d+)?)\s*([a-zA-Z]*)\s*")
_LARGEST = 1 << 60


def size(text: str | float) -> int:
    """Return bytes of "8k", "1 GiB", "512MB" or 8192; raise Impossible for anything else."""
    return _whole(_parse(text, _SIZE, "a size such as 8k, 512M or 1G", ("ib", "b")), text)


def duration(text: str | float) -> float:
    """Return seconds of "30s", "500ms", "5min" or 30; raise Impossible for anything else."""
    return _parse(text, _TIME, "a duration such as 500ms, 30s or 5min", ())


def count(text: str | float) -> int:
    """Return the number in "50331648", "20M" or 6; raise Impossible for anything else."""
    return _whole(_parse(text, _COUNT, "a count such as 50331648 or 20M", ()), text)


def _parse(
    text: str | float,
    units: dict[str, float] | dict[str, int],
    wanted: str,
    endings: tuple[str, ...],
) -> float:
    if isinstance(text, bool):
        raise Impossible(f"{text!r} is not {wanted}")
    found = _WRITTEN.fullmatch(str(text))
    if found is None:
        raise Impossible(f"{text!r} is not {wanted}")
    unit = found[2].lower()
    for ending in endings:
        if unit.endswith(ending) and unit != ending:
            unit = unit.removesuffix(ending)
            break
    if unit not in units:
        raise Impossible(f"{text!r} has the unit {found[2]!r}: it must be {wanted}")
    value = float(found[1].replace("_", "").replace(",", "")) * units[unit]
    if value > _LARGEST:
        raise Impossible(f"{text!r} is larger than any machine: it must be {wanted}")
    return value


def _whole(value: float, text: str | float) -> int:
    if value != int(value):
        raise Impossible(f"{text!r} is not a whole number")
    return int(value)


def _checked(parse: object) -> BeforeValidator:
    def before(value: object) -> object:
        try:
            return parse(value)  # type: ignore[operator]
        except Impossible as error:
            raise ValueError(str(error)) from error

    return BeforeValidator(before)


Size = Annotated[int, _checked(size)]
"""Bytes, written as 8k or 1G in a workload file."""
Duration = Annotated[float, _checked(duration)]
"""Seconds, written as 30s or 5min in a workload file."""
Count = Annotated[int, _checked(count)]
"""A number of things, written as 20M or 50331648 in a workload file."""


def show_size(bytes_: float) -> str:
    """Return bytes with a binary unit and three digits: 1.50 GiB."""
    value, unit = float(bytes_), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{int(value)} B" if unit == "B" else f"{three(value)} {unit}"


def show_duration(seconds: float) -> str:
    """Return seconds as people read them: 12.3 us, 4.56 ms, 7.89 s, 3 min 20 s."""
    magnitude = abs(seconds)
    if magnitude >= 120:
        minutes, rest = divmod(round(seconds), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"
    for limit, factor, unit in ((1e-3, 1e6, "us"), (1.0, 1e3, "ms")):
        if 0 < magnitude < limit:
            return f"{three(seconds * factor)} {unit}"
    return f"{three(seconds)} s"


def show_count(value: float) -> str:
    """Return a number with thousands separated, and decimals only where they say something."""
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 1000 else three(value)


def show(value: float, unit: str) -> str:
    """Return a measured value in its unit's own form."""
    if not math.isfinite(value):
        return str(value)
    if unit == "bytes":
        return show_size(value)
    if unit == "s":
        return show_duration(value)
    if unit == "bytes/s":
        return f"{value / 1e6:,.1f} MB/s"
    return f"{show_count(value)} {unit}".rstrip()


def three(value: float) -> str:
    """Return a number with three significant digits and no exponent."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(decimals, 9)}f}"
