"""ioping: requests and statistics, raw lines (-B, -p) and JSON (-J)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from replayer.errors import Impossible
from replayer.imports import ImportResult
from replayer.model import Better, Latency, Measurement, StepResult
from replayer.results import imported, stored_histogram
from replayer.results.imported import (
    ImportedStep,
    ImportSource,
    measured,
    number,
    seconds,
    whole,
    words,
)

SIGN = re.compile(
    r"^--- .{1,200} ioping statistics ---"
    r"|^\d[\d.]{0,12} [KMGkmg]?i?[Bb](?:ytes)? (?:<<<|>>>|from|to) "
    r"|^\d{1,12}(?: \d{1,18}){9}$|\"localtime\": ",
    re.MULTILINE,
)

_BEGIN = re.compile(r"--- (?P<target>.{1,300}) ioping statistics ---")
_REQUEST = re.compile(
    r"(?P<size>\d[\d.]{0,12} ?[KMGkmg]?i?[Bb])(?:ytes)? (?P<way><<<|>>>|from|to) .{1,400}"
    r"(?:request|seq)=\d{1,18} time=(?P<time>\d[\d.]{0,18} ?[a-z]{1,5})"
    r"(?: \((?P<remark>[a-z ]{1,20})\))?"
)
_COMPLETED = re.compile(
    r"\d[\d.]{0,12}(?: ?[kMG])? requests completed in (?P<time>[\d.]{1,20} ?[a-z]{1,5}), "
    r"(?:[\d.]{1,20} ?[KMGkmg]?i?[Bb] (?:read|written)?,? )?"
    r"(?P<iops>\d[\d.]{0,12}(?: ?[kMG])?) iops, (?P<speed>[\d.]{1,12} ?[KMGkmg]?i?[Bb])/s"
)
_SPREAD = re.compile(r"min/avg/max/mdev = (?P<values>[\d. a-z/]{1,120})")
_OTHER = re.compile(r"generated .{1,200} requests in |\^C|ioping |.{1,40} requests (?:failed|too )")
_RAW = re.compile(r"\d{1,18}(?: \d{1,18}){7,9}")
_BETWEEN = 1e-3**0.5
"""The middle, as a ratio, between a time in its own unit and one that is 1000 times too short."""
_ROUNDS = {"k": 1e3, "M": 1e6, "G": 1e9}


@dataclass
class _Statistics:
    """The statistics of one call of ioping, or of one interval of -p."""

    target: str = ""
    metrics: dict[str, tuple[float, str, Better]] = field(default_factory=dict)
    elapsed: float = 0.0
    started: str = ""
    size: int = 0
    way: str = ""
    times: dict[int, int] = field(default_factory=dict)
    """Nanoseconds -> number of requests that took this long."""

    def note(self, size: str | float, way: str, time: float, *, counts: bool) -> None:
        """Add a request of `time` seconds and of `size` bytes; `way` is read or write.

        `counts` is False for the warm-up request, whose time is not used.
        """
        self.size = whole(imported.size(size) if isinstance(size, str) else size)
        self.way = way
        if counts:
            nanoseconds = whole(time * 1e9)
            self.times[nanoseconds] = self.times.get(nanoseconds, 0) + 1

    def sums(self, iops: float, speed: float, times: Mapping[str, float]) -> None:
        """Set the summary: IOPS, `speed` in bytes/s, and `times`, name of a latency -> seconds."""
        self.metrics["iops"] = (iops, "IOPS", Better.MORE)
        self.metrics["throughput"] = (speed, "bytes/s", Better.MORE)
        for name, value in times.items():
            self.metrics[f"latency.{name}"] = (value, "s", Better.LESS)


def read(source: ImportSource, label: str) -> ImportResult:
    """Return a run for each target (file or device); several statistics of it are its repeats.

    `label` is the user's name for the runs.  Raises Impossible if the file has no statistics.
    """
    head = source.data.lstrip()[:2]
    statistics = _objects(source) if head in (b"[{", b"{\n", b"[\n", b"[") else _lines(source)
    steps = [ImportedStep(_step(one), {}) for one in statistics if one.metrics]
    if not steps:
        raise Impossible(f"{source.name} has no statistics of ioping in it")
    return ImportResult(imported.runs(source, "ioping", label, steps), source.unread.all())


def _lines(source: ImportSource) -> list[_Statistics]:
    done: list[_Statistics] = []
    current = _Statistics()
    for at, raw in source.lines():
        line = raw.strip()
        try:
            if _RAW.fullmatch(line):
                done.append(_raw(line))
            elif spread := _SPREAD.fullmatch(line):
                _spread(current, spread["values"])
                done.append(current)
                current = _Statistics()
            elif not _understood(current, line):
                source.unread.line(at, line)
        except ValueError:
            source.unread.line(at, line)
    return done


def _understood(current: _Statistics, line: str) -> bool:
    """Add the values of a line to the current statistics; return whether it is a line of ioping."""
    if begin := _BEGIN.fullmatch(line):
        current.target = words(begin["target"])
    elif request := _REQUEST.fullmatch(line):
        way = "write" if request["way"] in (">>>", "to") else "read"
        counts = request["remark"] != "warmup"
        current.note(request["size"], way, seconds(request["time"]), counts=counts)
    elif completed := _COMPLETED.fullmatch(line):
        current.elapsed = seconds(completed["time"])
        current.sums(_rounded(completed["iops"]), imported.size(completed["speed"]), {})
    else:
        return bool(_OTHER.match(line))
    return True


def _rounded(text: str) -> float:
    """Return the number of a text such as `2.97 k`, which is 2,970."""
    factor = _ROUNDS.get(text[-1:], 1.0)
    return number(text.rstrip("kMG ")) * factor


def _spread(current: _Statistics, text: str) -> None:
    """Add minimum, mean, maximum and deviation from a text such as `1.0 us / 2.0 us / 3 ms / 1 us`.

    They are added to the current statistics in seconds.  If a number has no unit, it has the unit
    of the last one.
    """
    parts = [part.strip() for part in text.split("/")]
    unit = parts[-1].lstrip("0123456789. ")
    times = [seconds(part if part[-1:].isalpha() else part + unit) for part in parts]
    for name, value in zip(("min", "avg", "max", "mdev"), times, strict=True):
        current.metrics[f"latency.{name}"] = (value, "s", Better.LESS)


def _raw(line: str) -> _Statistics:
    """Return the statistics of a line of numbers only, as ioping -p writes it.

    The line has count, time, IOPS, bytes/s, min, mean, max, deviation, and maybe totals.  Times are
    in nanoseconds since ioping 1.0, and in microseconds before: the unit is that in which the time
    is nearer, as a ratio, to count / IOPS.  IOPS are rounded, maybe to 0.
    """
    count, time, iops, speed, *times = map(number, line.split())
    unit = 1e-9 if time * 1e-9 * max(iops, 1) > _BETWEEN * count else 1e-6
    statistics = _Statistics(elapsed=time * unit)
    names = ("min", "avg", "max", "mdev")
    statistics.sums(iops, speed, {n: v * unit for n, v in zip(names, times, strict=False)})
    return statistics


def _objects(source: ImportSource) -> list[_Statistics]:
    done: list[_Statistics] = []
    current = _Statistics()
    for keys in source.documents():
        try:
            if "io" in keys:
                io = keys["io"]
                time = number(io["time"]) * 1e-9
                counts = not io.get("ignored")
                current.note(number(io["size"]), words(io["operation"]), time, counts=counts)
                current.started = current.started or imported.stamp(keys.get("timestamp"))
            else:
                _object(current, keys)
                done.append(current)
                current = _Statistics()
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            source.unread.say(f"an object is not ioping's: {type(error).__name__} {words(error)}")
    return done


def _object(current: _Statistics, keys: Mapping[str, Any]) -> None:
    target, values = keys["target"], keys["stat"]
    current.target = words(f"{target['path']} ({target['fstype']} {target['device']})")
    current.elapsed = number(values["time"]) * 1e-9
    times = {name: number(values[name]) * 1e-9 for name in ("min", "avg", "max", "mdev")}
    current.sums(number(values["iops"]), number(values["bps"]), times)


def _step(one: _Statistics) -> StepResult:
    spec = {"target": one.target, "operation": one.way, "block_size": one.size}
    return imported.step(
        "ioping",
        "ioping",
        elapsed=one.elapsed,
        started=one.started,
        spec={key: value for key, value in spec.items() if value},
        measurements=_measurements(one),
        latency=_latency(one),
    )


def _measurements(one: _Statistics) -> list[Measurement]:
    return [
        measured(f"ioping.{name}", value, unit, better)
        for name, (value, unit, better) in one.metrics.items()
    ]


def _latency(one: _Statistics) -> dict[str, Latency]:
    try:
        return {one.way: stored_histogram.encode(one.times)} if one.times else {}
    except ValueError:
        return {}
