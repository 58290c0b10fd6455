"""The part of a report about client hosts: what share of a step's work each of them did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from replayer.analysis.capacity import client_hosts
from replayer.analysis.capacity.client_hosts import BOUND, SPREAD, Row
from replayer.report.document import Part, Section, Table
from replayer.run.display import Sentence, Tone
from replayer.units import show_count, show_duration, show_or_dash, show_rate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from replayer.analysis.differences.samples import Side
    from replayer.model import Run, StepResult

FACTS = frozenset({SPREAD, BOUND})
_HEADINGS = (
    *("host", "sessions", "rate", "share", "start (ms)", "1st done", "last done"),
    *("busy", "cores", "agent"),
)


def parts(result: StepResult, run: Run) -> Iterator[Part]:
    """Yield a table of the client hosts that took part in a step, and sentences on it.

    Nothing is yielded if the result of the step has no data about client hosts.
    """
    if not client_hosts.host_rows(result):
        return
    if words := client_hosts.bound_words(result, run):
        yield Sentence(words, Tone.BAD)
    yield Sentence(_title(result), Tone.QUIET)
    yield Table(_HEADINGS, _rows(result), numbers=range(1, len(_HEADINGS)))
    if spread := _start(result):
        yield Sentence(spread, Tone.QUIET)


def sections(sides: Sequence[Side]) -> Iterator[Section]:
    """Yield one section with the client hosts of each side's last run; nothing without any."""
    last = [side.runs[-1] for side in sides if side.runs]
    steps = [
        Section(f"{step.name}, {run.id}", [*parts(step, run)])
        for run in last
        for step in run.steps
        if client_hosts.host_rows(step)
    ]
    if steps:
        yield Section("Client hosts", steps)


def _title(result: StepResult) -> str:
    """Return the title of a step's table of client hosts: the name of the last measured window.

    It is "" if the result has no data about client hosts.
    """
    last, windows = client_hosts.last_window(result)
    many = f", the last of {windows} windows" if windows > 1 else ""
    return f"client hosts: {last[0]['window']}{many}" if last else ""


def _rows(result: StepResult) -> list[list[str]]:
    """Return a row for each host in the last window, and a row with their sum if there are several.

    The columns are those of _HEADINGS. `busy` is the busy share of the host's processors.  `cores`
    is the number of processors that replayer's clients used.  `agent` is the CPU time of the agent
    that controls the clients.
    """
    last, _ = client_hosts.last_window(result)
    return [*map(_row, last), *([_sum(last)] if len(last) > 1 else [])]


def _start(result: StepResult) -> str:
    """Return a sentence on how far apart in time the hosts started; "" if this is not known."""
    spread, bound = result.facts.get(SPREAD), result.facts.get(BOUND)
    if not isinstance(spread, int | float) or not isinstance(bound, int | float):
        return ""
    times = f"{show_duration(spread / 1e6)} of each other, ± {show_duration(bound / 1e6)}"
    return f"the hosts started within {times}"


def _row(row: Row) -> list[str]:
    last = "LOST" if row.get("lost") else show_or_dash(row.get("last_done_s"), show_duration)
    busy, cores = row.get("cpu_share"), row.get("cores")
    of = f" of {show_count(cores)}" if cores else ""
    return [
        row["host"],
        show_or_dash(row.get("sessions"), _count),
        show_or_dash(row.get("per_second"), _rate),
        show_or_dash(row.get("share"), "{:.1%}".format),
        _late(row.get("start_us"), row.get("bound_us")),
        show_or_dash(row.get("first_done_s"), show_duration),
        last,
        show_or_dash(busy, f"{{:.0%}}{of}".format),
        show_or_dash(row.get("client_cores"), "{:.2f}".format),
        show_or_dash(row.get("agent_cpu_s"), show_duration),
    ]


def _sum(last: Sequence[Row]) -> list[str]:
    first, end = _known(last, "first_done_s"), _known(last, "last_done_s")
    return [
        "sum",
        show_or_dash(sum(_known(last, "sessions")), _count),
        show_or_dash(_total(last, "per_second"), _rate),
        show_or_dash(_total(last, "share"), "{:.1%}".format),
        "",
        show_or_dash(min(first, default=None), show_duration),
        show_or_dash(max(end, default=None), show_duration),
        "",
        show_or_dash(_total(last, "client_cores"), "{:.2f}".format),
        show_or_dash(_total(last, "agent_cpu_s"), show_duration),
    ]


def _known(last: Sequence[Row], key: str) -> list[float]:
    return [row[key] for row in last if row.get(key) is not None]


def _total(last: Sequence[Row], key: str) -> float | None:
    """Return the sum of the values with the key `key` in all rows, one row for each client host.

    Returns None if the value of one host is not known.
    """
    known = _known(last, key)
    return sum(known) if len(known) == len(last) else None


def _count(value: float) -> str:
    return show_count(round(value))


def _rate(value: float) -> str:
    return f"{show_rate(value)}/s"


def _late(start_us: Any, bound_us: Any) -> str:
    if start_us is None:
        return "-"
    late = f"{start_us / 1e3:+.2f}"
    return late if bound_us is None else f"{late} ±{bound_us / 1e3:.2f}"
