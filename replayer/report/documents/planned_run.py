"""The forecast of a run in words: its steps with their disk space and time, and the total."""

from collections.abc import Iterator

from replayer.report.document import Facts, Part, Section, Texts
from replayer.run.display import Sentence
from replayer.run.plan.forecast import Disk, Forecast, StepForecast
from replayer.units import show_duration, show_size


def parts(forecast: Forecast) -> Iterator[Part]:
    """Yield the forecast of one run: its steps in the order in which they run, then the total."""
    title = f"{forecast.workload}, {forecast.server}"
    yield Section(title, [Facts([("data", _disk(forecast.disk))])], is_main=True)
    for part in forecast.parts:
        title = f"{part.name}{_times(part, forecast.repeat)}"
        yield Section(title, [Facts([*_lines(part)])], is_named=True)
    yield Section("in all", [Sentence(f"{_bytes(forecast)}, {_time(forecast)}")])


def _times(part: StepForecast, repeat: int) -> str:
    if repeat == 1:
        return ""
    return f" · {part.times} times" if part.times > 1 else " · once"


def _lines(part: StepForecast) -> Iterator[tuple[str, str | Texts]]:
    yield "does", part.about
    if part.keys:
        yield "set to", Texts([f"{key} = {value}" for key, value in part.keys.items()], gap="  ")
    if part.disk_bytes:
        yield "disk", f"up to {show_size(part.disk_bytes)}"
    yield "time", _known(part)


def _known(part: StepForecast) -> str:
    known = part.known
    if known.seconds is None:
        return "not known: no earlier run of it is here"
    one = show_duration(known.seconds)
    total = f", {show_duration(known.seconds * part.times)} in all" if part.times > 1 else ""
    if known.source:
        return f"about {one}{total} (as in {known.source})"
    return f"{one} or more{total} (what its keys say)"


def _disk(disk: Disk) -> str:
    kind = f"{disk.file_system} on {disk.device}" if disk.device else disk.file_system
    free = "" if disk.free_bytes is None else f"{show_size(disk.free_bytes)} free"
    more = ", ".join(filter(None, (kind, free)))
    return f"{disk.where} ({more})" if more else disk.where


def _bytes(forecast: Forecast) -> str:
    if not forecast.disk_bytes:
        return "no data of its own on the disk"
    size = f"up to {show_size(forecast.disk_bytes)} on the disk"
    free = forecast.disk.free_bytes
    if free is not None and free < forecast.disk_bytes:
        return f"{size}, and only {show_size(free)} are free: give --data-dir on a larger disk"
    return size


def _time(forecast: Forecast) -> str:
    expected = forecast.expected
    if not expected.seconds:
        return "for how long is not known: no earlier run of its steps is here"
    about = "about " if expected.whole else ""
    more = "" if expected.whole else " or more"
    source = f" (as {expected.source} took)" if expected.source else ""
    return f"{about}{show_duration(expected.seconds)}{more}{source}"
