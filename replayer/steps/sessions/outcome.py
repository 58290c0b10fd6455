"""The results of sessions in a measured window: rates, latencies, ledger, series and notes."""

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from replayer.analysis.differences import steadiness
from replayer.load import server_clock
from replayer.model import Better, Cold, Foreign, Ledger, ReadOrigin, Reads, Series, Steadiness
from replayer.run import step_recorder as findings_of
from replayer.run.context import Context
from replayer.run.step_recorder import StepRecorder
from replayer.steps.sessions.spec import Spec
from replayer.steps.sessions.window import SETTLE, SessionsWindow
from replayer.tables.pgio import SessionResult
from replayer.watch import interference, ledger
from replayer.watch.histogram import Latencies
from replayer.watch.sampler import DeviceDelta

_GRID_SECONDS = 0.25
_NEARLY_ALL = 0.99
"""The tables do not grow if at least this share of the updated rows stayed in their blocks."""


def record(spec: Spec, context: Context, window: SessionsWindow, cold: Cold) -> None:
    """Record the results of the sessions in a measured window.

    `cold` is the state of the caches at its start.
    """
    findings = context.findings
    delta = context.sampler.device_delta(window.begin_ns, window.end_ns)
    local = context.server.data_directory() is not None
    balance = ledger.balance(
        spec.asked,
        window.seconds,
        window.after.reads - window.before.reads,
        window.after.hits - window.before.hits,
        delta if local else None,
        context.sampler.device if local else None,
        context.engine.block_size,
        own_bytes=window.own.read_bytes if window.own else None,
        own_write_bytes=window.own.write_bytes if window.own else 0,
        other_reads_blocks=(window.others.reads or 0) if window.others else 0,
        other_databases_blocks=ledger.missed_apart(window.before, window.after),
    )
    _measure_rates(findings, spec, window, balance)
    _measure_latency(findings, window)
    device_bytes = None if delta is None or not local else delta.read_bytes
    findings.cold = cold.model_copy(
        update={
            "device_bytes": device_bytes,
            "own_bytes": window.own.read_bytes if window.own else None,
        }
    )
    findings.ledger = balance
    findings.window = _watched_window(spec, window, balance)
    findings.foreign = _foreign(window, delta if local else None)
    findings.reads = _physical_reads(spec, context, balance)
    findings.series = _series(context, window)
    for result in window.results:
        findings.row("sessions", **_detail(result))
    _tell(findings, spec, context, window)
    findings.steady = _steadiness(window)
    if findings.steady.settled is False:
        words, rule = findings.steady.words, findings.steady.rule
        findings.note(f"RIOPS were {words} ({rule}): let it run longer")
    findings.notes += [
        *_clock_notes(window),
        *_update_notes(spec, window),
        *_count_notes(context),
        *_others(window),
    ]


def _watched_window(
    spec: Spec, window: SessionsWindow, balance: Ledger
) -> findings_of.MeasuredWindow:
    """Return the measured window with the number of its operations, which are blocks.

    They are the blocks that the server missed in its buffers.  If nearly all blocks were found
    there (the ledger's verdict is BUFFERED), they are the blocks found.  The two operations have
    different names: a missed block takes many times as long, so that a comparison of both would
    mean nothing.
    """
    buffered = balance.verdict is ReadOrigin.BUFFERED
    blocks = balance.buffer_hits if buffered else balance.riops
    return findings_of.MeasuredWindow(
        begin_ns=window.begin_ns,
        end_ns=window.end_ns,
        operations=blocks * window.seconds,
        operation="buffered block" if buffered else "block",
        sessions=spec.sessions,
        whose="server",
    )


_RIOPS = "sessions.riops"
"""The main metric of the step.

A statement reads a fixed number of blocks, so other metrics are multiples of it.
"""


def _foreign(window: SessionsWindow, delta: DeviceDelta | None) -> Foreign | None:
    if window.accounts is None:
        return None
    return interference.between(*window.accounts, delta)


def _physical_reads(spec: Spec, context: Context, balance: Ledger) -> Reads | None:
    """Return the rate, size and depth of the sessions' reads; None if not from the device.

    Each read is of one block.  The depth is the number of sessions.
    """
    if balance.verdict is not ReadOrigin.PHYSICAL or balance.device is None:
        return None
    return Reads(
        per_second=balance.riops,
        block_bytes=context.engine.block_size,
        depth=spec.sessions,
        access="random",
        device=balance.device,
    )


def _measure_rates(
    findings: StepRecorder, spec: Spec, window: SessionsWindow, balance: Ledger
) -> None:
    # With nearly no missed block, the few that were missed measure nothing.
    buffered = balance.verdict is ReadOrigin.BUFFERED
    findings.measure(_RIOPS, balance.riops, "1/s", Better.NEITHER if buffered else Better.MORE)
    findings.measure("sessions.cache_hits", balance.buffer_hits, "1/s", Better.NEITHER)
    if balance.device_reads is not None:
        findings.measure("sessions.device_reads", balance.device_reads, "1/s", Better.NEITHER)
    operations = sum(result.operations for result in window.results)
    per_second = operations / window.seconds
    says = "" if buffered else _RIOPS
    findings.measure("sessions.operations", per_second, "1/s", says=says)
    if spec.operations is not None:
        says = says or "sessions.operations"
        findings.measure("sessions.elapsed", window.seconds, "s", Better.LESS, says=says)


def _measure_latency(findings: StepRecorder, window: SessionsWindow) -> None:
    latencies = _latencies(window.results)
    findings.percentiles("sessions.latency", Latencies.of(latencies.values()))
    cores = window.cpu_seconds / window.seconds
    findings.measure("sessions.client_cpu", cores, "cores", Better.LESS)
    for kind, seen in latencies.items():
        findings.histogram(kind, seen)


def _latencies(results: Sequence[SessionResult]) -> dict[str, Latencies]:
    """Return "select" and "update" -> the latencies of these statements in all sessions."""
    latencies = {}
    for kind in ("select", "update"):
        longest = max(getattr(result, f"{kind}_max") for result in results)
        counts: Counter[int] = Counter()
        for result in results:
            for bucket, amount in getattr(result, kind).items():
                counts[_middle(bucket, longest)] += amount
        # The longest time itself is exact to the microsecond; a histogram bucket is 2 % wide.
        latencies[kind] = replace(Latencies.counted(counts), most_ns=round(longest * 1e9))
    return latencies


def _middle(bucket: int, longest: float) -> int:
    """Return the latency in ns, at least 1, that stands for a bucket of a histogram.

    It is the middle of the bucket, but at most `longest`: the longest latency of all sessions, in
    seconds.
    """
    seconds = (math.exp((bucket + 0.5) / 50) - 1) * 1e-6
    return max(1, round(min(seconds, longest) * 1e9))


def _steadiness(window: SessionsWindow) -> Steadiness:
    """Return whether the rate of missed blocks was steady, by the rules of steadiness.unsteady.

    A window that is too short or too noisy gives a result that leaves it open.
    """
    reads = _progress(window, "reads", 1.0)
    # The last point closes the window, and its interval is not a whole second.
    rates = [other - one for (_, one), (_, other) in itertools.pairwise(reads[:-1])]
    if len(rates) < steadiness.LEAST_SECONDS:
        return Steadiness(settled=None, words=f"too short to judge: {len(rates)} seconds")
    found = steadiness.unsteady(rates)
    if found is not None:
        return Steadiness(settled=False, words=found.words, rule=found.rule)
    if steadiness.hides_change(rates):
        hidden = f"a change of {steadiness.FIFTH:.0%} may hide"
        words = f"too noisy to tell in {len(rates)} seconds: {hidden}"
        return Steadiness(settled=None, words=words)
    return Steadiness(settled=True, words="steady")


def _series(context: Context, window: SessionsWindow) -> Series:
    return context.sampler.series(
        window.begin_ns,
        window.end_ns,
        {
            "sessions.riops": _progress(window, "reads", _GRID_SECONDS),
            "sessions.cache_hits": _progress(window, "hits", _GRID_SECONDS),
        },
    )


def _progress(window: SessionsWindow, counted: str, step: float) -> list[tuple[int, float]]:
    """Return a counter of the server as points in time, `step` seconds apart.

    A point has the time by replayer's clock in ns, and the counter's total since the begin of the
    window.  `counted` is the counter, such as `reads`.

    The server's counter moves only when a session ends a slice (a short piece of its work).  So the
    blocks of a slice are spread evenly over its time.  Then all points are scaled, so that the last
    one is the change of the counter.
    """
    first, seconds = window.before.clock, window.seconds
    bins = [0.0] * max(1, math.ceil(seconds / step))
    for result in window.results:
        for done in result.slices:
            _spread(bins, step, done.began - first, done.ended - first, getattr(done, counted))
    known = sum(bins)
    moved = getattr(window.after, counted) - getattr(window.before, counted)
    ends = [min(seconds, step * number) for number in range(len(bins) + 1)]
    totals = itertools.accumulate(bins, initial=0.0)
    scale = moved / known if known else 0.0
    return [
        (window.opened_ns + round(end * 1e9), total * scale)
        for end, total in zip(ends, totals, strict=True)
    ]


def _spread(bins: list[float], step: float, began: float, ended: float, amount: float) -> None:
    """Add an amount to the bins that the time from `began` to `ended` touches, in proportion.

    Each bin stands for `step` seconds.  `began` and `ended` are seconds since the begin of the
    first bin; time after the last bin counts as part of it.
    """
    last = len(bins) - 1
    if ended <= began:
        bins[min(last, max(0, int(ended / step)))] += amount
        return
    for number in range(min(last, max(0, int(began / step))), min(last, int(ended / step)) + 1):
        end = math.inf if number == last else step * (number + 1)
        inside = min(ended, end) - max(began, step * number)
        bins[number] += amount * max(0.0, inside) / (ended - began)


def pgio_line(name: str, spec: Spec, seconds: float, riops: float, cache_hits: float) -> str:
    """Return the line of results that pgio prints, byte for byte; fractions are cut off.

    `name` is the database, `riops` and `cache_hits` are blocks per second.
    """
    return (
        f"DBNAME:  {name}. {spec.num_schemas} schemas, {spec.num_threads} threads(each). "
        f"Run time: {int(seconds)} seconds. "
        f"RIOPS >{int(riops)}< CACHE_HITS/s >{int(cache_hits)}<"
    )


def _tell(findings: StepRecorder, spec: Spec, context: Context, window: SessionsWindow) -> None:
    """Record the line of results that pgio prints, and further facts of the measured window."""
    riops = ledger.riops(window.before, window.after)
    hits = ledger.cache_hits(window.before, window.after)
    # The name of a private server's database has no meaning; pgio's users look for pgio.
    name = "pgio" if context.server.can_stop else str(context.server.start().database)
    findings.lines("pgio", [pgio_line(name, spec, window.seconds, riops, hits)])
    findings.facts |= {
        "sessions.window_s": round(window.seconds, 3),
        "sessions.first_done_s": round(window.first_done, 3),
        "sessions.last_done_s": round(window.last_done, 3),
        "sessions.slice_s": window.slice_seconds,
        "sessions.plan": window.results[0].plan,
        "sessions.deadlocks": sum(result.deadlocks for result in window.results),
    }
    share = _hot_share(window)
    if share is not None:
        findings.facts["sessions.hot_update_share"] = round(share, 4)


def _detail(result: SessionResult) -> dict[str, Any]:
    """Return one session's row of the table `sessions`: pgio's columns, and more.

    pgio has its columns in the file pgio_session_detail.out.
    """
    return {
        "session": result.number,
        "table": result.table,
        "operations": result.operations,
        "selects": result.selects,
        "updates": result.updates,
        "select_max_s": result.select_max,
        "update_max_s": result.update_max,
        "select_blocks": result.select_blocks,
        "update_blocks": result.update_blocks,
        "deadlocks": result.deadlocks,
        "seconds": round(result.ended - result.began, 6),
    }


def _hot_share(window: SessionsWindow) -> float | None:
    """Return the share of the updated rows that stayed in their blocks; None if not known."""
    updates = window.updates
    return updates.hot / updates.all if updates is not None and updates.all else None


def _update_notes(spec: Spec, window: SessionsWindow) -> list[str]:
    if not spec.update_pct:
        return []
    if window.updates is None:
        return ["counters of updated rows were reset meanwhile: the share of HOT ones is not known"]
    share = _hot_share(window)
    if share is None or share >= _NEARLY_ALL:
        return []
    grown = "the tables grow, and the next run will load them anew"
    return [f"only {share:.0%} of the updated rows stayed in their blocks (HOT): {grown}"]


def _clock_notes(window: SessionsWindow) -> list[str]:
    """Return a note, in a list, if the server's clock was set during the window; [] if not."""
    return [
        f"{note}, and the longest latency and the series may be off by as much"
        for note in server_clock.notes([window.stepped])
    ]


def _count_notes(context: Context) -> list[str]:
    """Return a note, in a list, if the server's counters are updated late; [] if they are not."""
    if context.engine.verb(SETTLE) is None:
        return []
    return ["this server counts late: the counters were read when they stopped moving"]


def _others(window: SessionsWindow) -> list[str]:
    """Return notes on the reads of other sessions in the same database during the window."""
    if window.others is None:
        return []
    moved = [getattr(window.after, n) - getattr(window.before, n) for n in ("reads", "hits")]
    return ledger.other_sessions(window.others, sum(moved), window.seconds)
