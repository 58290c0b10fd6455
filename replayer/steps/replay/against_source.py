"""Comparison of each statement's times at the captured server with its times in the replay."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from replayer.analysis.differences.comparison import MetricVerdict
from replayer.analysis.differences.source_times import (
    DISTURBED_SHARE,
    SourceComparison,
    SourceVerdict,
    TimesOfGroups,
    compare_with_source,
)
from replayer.engines import login
from replayer.load.machine_usage import MachineUse
from replayer.model import Replayed
from replayer.run.context import Context
from replayer.steps.replay.replay_counts import (
    GROUP_BITS,
    ReplayCounts,
    by_fingerprint,
    by_group,
)
from replayer.steps.replay.schedule import ReplaySchedule
from replayer.watch.histogram import Latencies

TABLE = "against_source"
_MOST = 500
"""Largest number of fingerprints in the table."""
_IDLE = frozenset({"begin", "set"})
"""Kinds of statements that take a server almost no time."""
_SLOWED = frozenset({MetricVerdict.WORSE, MetricVerdict.LIKELY_WORSE})


def record(
    context: Context, schedule: ReplaySchedule, tally: ReplayCounts, use: MachineUse | None
) -> None:
    """Record the table `against_source`, which compares each statement's times with the log.

    Nothing is recorded if the log has no durations.  `tally` are the counts of the replay, `use` is
    the use of the machine meanwhile; None if it is not known.

    The statements that are slower than in the log, or probably slower, come first, in the order of
    their added seconds.  All other statements follow, in the order of their total seconds in the
    log or in the replay, whichever is larger.
    """
    times = _times(tally)
    if not times:
        return
    foreign = (use.foreign.cpu_share if use and use.foreign else None) or 0.0
    idle = [place for place in times if schedule.fingerprints[place].kind in _IDLE]
    compared = compare_with_source(
        times, idle=idle, foreign_share=foreign, remote=_is_remote(context)
    )
    findings = context.findings
    findings.facts["replay.source.way_s"] = round(compared.way_s, 9)
    if compared.common is not None:
        findings.facts["replay.source.common"] = round(compared.common, 4)
    if foreign >= DISTURBED_SHARE:
        findings.facts["replay.source.disturbed_share"] = round(foreign, 4)
    replayed = {one.fingerprint: one for one in findings.replayed}
    source, target = by_fingerprint(tally.source), by_fingerprint(tally.target)
    for place in _ordered(times, compared)[:_MOST]:
        number = f"{schedule.fingerprints[place].number & (1 << 64) - 1:016x}"
        findings.row(
            TABLE,
            **_columns(replayed[number], times[place], compared.verdicts[place]),
            **dict(_percentiles("source_", source[place])),
            **dict(_percentiles("", target[place])),
        )


def slower(table: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return those rows of the table `against_source` whose statements were shown to be slower."""
    return [row for row in table if row["verdict"] == MetricVerdict.WORSE.value]


def _times(tally: ReplayCounts) -> dict[int, TimesOfGroups]:
    """Return index of a fingerprint in the plan -> its times that can be compared with the log.

    They are of the executions that also have a time in the log, in seconds, summed by group of
    sessions.  Returns {} if there are none.
    """
    source, target = by_group(tally.source_ns), by_group(tally.target_ns)
    return {
        place: TimesOfGroups(
            _column(groups), _column(source[place]) / 1e9, _column(target[place]) / 1e9
        )
        for place, groups in by_group(tally.pairs).items()
    }


def _column(groups: Mapping[int, int]) -> "np.ndarray[Any, np.dtype[np.float64]]":
    column = np.zeros(1 << GROUP_BITS)
    column[list(groups)] = list(groups.values())
    return column


def _is_remote(context: Context) -> bool:
    """Return whether the server is on another host, as far as its URL shows it."""
    host = str(context.server.start().host or "")
    return not (context.server.can_stop or login.is_here(host))


def _ordered(times: Mapping[int, TimesOfGroups], compared: SourceComparison) -> list[int]:
    def rank(place: int) -> tuple[bool, float]:
        source, target = times[place].totals
        slowed = compared.verdicts[place].verdict in _SLOWED
        return not slowed, -(target - source if slowed else max(source, target))

    return sorted(times, key=rank)


def _columns(one: Replayed, times: TimesOfGroups, verdict: SourceVerdict) -> dict[str, Any]:
    """Return the row of a fingerprint for the table `against_source`, but without percentiles.

    Seconds are totals over the executions that succeeded both in the log and in the replay.
    """
    return {
        "fingerprint": one.fingerprint,
        "kind": one.kind,
        "verdict": verdict.verdict.value,
        "executions": one.executions,
        "compared": int(times.executions.sum()),
        "witnesses": verdict.sessions,
        "source_total_s": round(float(times.source_s.sum()), 6),
        "total_s": round(float(times.target_s.sum()), 6),
        "ratio": _rounded(verdict.ratio),
        "low": _rounded(verdict.low),
        "high": _rounded(verdict.high),
        "p": _rounded(verdict.p),
        "source_rows": one.logged_rows,
        "rows": one.held_rows if one.logged_rows is not None else one.rows,
        "source_errors": sum(one.logged_errors.values()),
        "errors": sum(one.errors.values()) + one.consequences,
        "why": verdict.why,
        "text": one.text,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def _percentiles(side: str, times: Latencies) -> Iterator[tuple[str, float]]:
    for share in (50, 99):
        yield f"{side}p{share}_s", times.percentile_ns(share) / 1e9
