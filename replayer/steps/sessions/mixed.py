"""Sessions that send a mix of statements, as fast as the database answers or at a given rate."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import accumulate, pairwise

from replayer.engines.connection import Database
from replayer.load import cpu_burn, other_sessions, server_clock
from replayer.load.level import LevelRequest, LevelResult, measure_level
from replayer.load.mix import WeightedMix
from replayer.model import Better, Cold, Ledger, Series
from replayer.run.context import Context
from replayer.run.step_recorder import MeasuredWindow, StepRecorder
from replayer.steps.sessions.spec import Spec
from replayer.tables.pgio import TableSet
from replayer.units import show_duration, show_with_noun
from replayer.watch import ledger

_TITLE = "sessions"
_FEW_WAITS = 0.05
"""A wait is reported if at least this number of sessions are in it on average."""


def asked_of(spec: Spec, wanted: TableSet) -> LevelRequest:
    """Return the load that the keys of a step describe, as a request to measure it.

    `wanted` are the tables that the statements read and change.
    """
    return LevelRequest(
        sessions=spec.sessions,
        seconds=spec.run_time,
        mix=mix_of(spec),
        tables=wanted,
        rate=spec.rate,
        arrivals=spec.arrivals,
        seed=spec.seed,
        resolution=spec.resolution,
        title=_TITLE,
    )


def mix_of(spec: Spec) -> WeightedMix:
    """Return the mix of statements: the key `mix`, or else one made from the keys for pgio.

    These are `update_pct`, `work_unit` and `update_work_unit`.
    """
    if spec.mix is not None:
        return spec.mix
    return WeightedMix(
        range=100 - spec.update_pct,
        update=spec.update_pct,
        work_unit=spec.work_unit,
        update_rows=spec.update_work_unit,
    )


def measure_mix(spec: Spec, wanted: TableSet, context: Context, database: Database) -> LevelResult:
    """Run the load that the keys of a step describe, and return its measurements.

    `wanted` are the tables that the statements read and change.  If the statements are to burn CPU,
    calibrate first how much work costs that CPU time.
    """
    asked = asked_of(spec, wanted)
    if asked.mix.cpu:
        found = cpu_burn.calibrate(asked, context, database)
        context.findings.note(found.words)
        asked = replace(asked, burn=found.units)
    level = measure_level(asked, context, database)
    context.findings.notes += other_sessions.notes(level.others, level.activity)
    context.findings.notes += server_clock.notes([level.activity.stepped])
    return level


def record_level(spec: Spec, context: Context, level: LevelResult, cold: Cold) -> None:
    """Record the results of a measured load: rates, times, ledger, series, facts and notes.

    `cold` is the state of the caches at its start.
    """
    findings = context.findings
    balance = _balance(context, level)
    _measure_rates(findings, level)
    if level.sustained:
        _measure_times(findings, level)
    _measure_use(findings, level, balance)
    _tell_kinds(findings, level)
    device = level.use.device
    findings.cold = cold.model_copy(
        update={
            "device_bytes": device.read_bytes if device else None,
            "own_bytes": level.use.own_read_bytes,
        }
    )
    findings.ledger = balance
    findings.window = MeasuredWindow(
        begin_ns=level.begin_ns,
        end_ns=level.end_ns,
        operations=level.completed * level.seconds,
        operation="statement",
        sessions=level.asked.sessions,
        whose="server",
    )
    findings.foreign = level.use.foreign
    findings.series = _series(context, level)
    findings.facts |= _facts(level)
    findings.notes += [*_notes(spec, level)]


def _balance(context: Context, level: LevelResult) -> Ledger:
    local = level.use.device is not None
    return ledger.balance(
        None,  # the key `memory` only prepares a mix, which may find blocks in every layer
        level.activity.seconds,
        level.activity.reads,
        level.activity.hits,
        level.use.device,
        context.sampler.device if local else None,
        context.engine.block_size,
        own_bytes=level.use.own_read_bytes,
        own_write_bytes=level.use.own_write_bytes or 0,
        other_databases_blocks=level.activity.other_databases,
    )


def _measure_rates(findings: StepRecorder, level: LevelResult) -> None:
    at_a_rate = level.asked.rate is not None
    if at_a_rate:
        findings.measure("sessions.offered", level.offered, "1/s", Better.NEITHER)
        findings.measure("sessions.begun", level.begun, "1/s", Better.NEITHER)
    # At a sustained rate it equals the rate.
    better = Better.NEITHER if at_a_rate and level.sustained else Better.MORE
    findings.measure("sessions.completed", level.completed, "1/s", better)


def _measure_times(findings: StepRecorder, level: LevelResult) -> None:
    if level.asked.rate is not None:
        findings.percentiles("sessions.response", level.response)
        findings.histogram("response", level.response)
        begun = sum(lag.begun for lag in level.lag)
        mean = sum(lag.mean * lag.begun for lag in level.lag) / max(1, begun)
        longest = max((lag.longest for lag in level.lag), default=0.0)
        findings.measure("sessions.lag.mean", mean, "s", Better.LESS)
        findings.measure("sessions.lag.max", longest, "s", Better.LESS)
    findings.percentiles("sessions.service", level.service)
    findings.histogram("service", level.service)
    for kind, seen in level.service_by_kind.items():
        findings.histogram(kind, seen)


def _measure_use(findings: StepRecorder, level: LevelResult, balance: Ledger) -> None:
    neither = Better.NEITHER
    findings.measure("sessions.riops", balance.riops, "1/s", neither)
    findings.measure("sessions.cache_hits", balance.buffer_hits, "1/s", neither)
    if level.hit_ratio is not None:
        findings.measure("sessions.hit_ratio", 100 * level.hit_ratio, "%", neither)
    if balance.device_reads is not None:
        findings.measure("sessions.device_reads", balance.device_reads, "1/s", neither)
    for name, unit in (("commits", "1/s"), ("wal_bytes", "bytes/s"), ("wal_flushes", "1/s")):
        rate = level.activity.rate(name)
        if rate is not None and level.asked.mix.writes:
            findings.measure(f"sessions.{name}", rate, unit, neither)
    findings.measure("sessions.in_flight", level.in_flight, "sessions", neither)
    cost = _cpu_of_statement(level)
    if cost is not None:
        findings.measure("sessions.statement_cpu", cost, "s", Better.LESS)
    findings.measure("sessions.client_cpu", level.use.client, "cores", Better.LESS)


def _cpu_of_statement(level: LevelResult) -> float | None:
    if level.use.server is None or not level.completed:
        return None
    return level.use.server / level.completed


def _tell_kinds(findings: StepRecorder, level: LevelResult) -> None:
    total = sum(level.counts.values())
    for kind, asked in level.asked.mix.shares.items():
        done = level.counts.get(kind, 0)
        row: dict[str, object] = {
            "kind": kind,
            "asked_share": round(asked, 6),
            "share": round(done / total, 6) if total else 0.0,
            "per_second": round(done / level.seconds, 3),
        }
        seen = level.service_by_kind.get(kind)
        for name, percent in (("p50", 50), ("p99", 99)):
            known = seen is not None and seen.operations and level.sustained
            row[f"service_{name}_s"] = seen.percentile_ns(percent) / 1e9 if known and seen else None
        findings.row("kinds", **row)


def _series(context: Context, level: LevelResult) -> Series:
    done = list(accumulate(level.answers, initial=0))
    points = [(level.opened_ns + second * 10**9, float(many)) for second, many in enumerate(done)]
    series = context.sampler.series(level.begin_ns, level.end_ns, {"sessions.completed": points})
    if level.asked.rate is None:
        return series
    columns = {**series.columns, "sessions.lag": tuple(_lags(level, series.seconds))}
    return series.model_copy(update={"columns": columns})


def _lags(level: LevelResult, ends: tuple[float, ...]) -> Iterator[float | None]:
    """Yield the longest lag in each interval of a series, in seconds; None if no lag is known.

    A lag is the time by which a statement was sent late.  `ends` are the ends of the intervals.  An
    interval has the lags of all seconds that it touches.
    """
    longest = {lag.second: lag.longest for lag in level.lag}
    for begin, end in pairwise((0.0, *ends)):
        seconds = range(int(begin), max(int(begin) + 1, math.ceil(end)))
        known = [longest[second] for second in seconds if second in longest]
        yield max(known) if known else None


def _facts(level: LevelResult) -> Mapping[str, bool | tuple[str, ...]]:
    waits = sorted(level.waits.items(), key=lambda item: -item[1])
    return {
        "sessions.sustained": level.sustained,
        "sessions.waits": tuple(
            f"{wait} {sessions:.2f}" for wait, sessions in waits if sessions >= _FEW_WAITS
        ),
    }


def _notes(spec: Spec, level: LevelResult) -> Iterator[str]:
    if not level.offered:
        yield level.reason
    elif not level.sustained:
        yield (
            f"not sustained: {level.reason}; no percentile is given, as it would grow with the "
            f"length of the window: set rate lower"
        )
    if level.failures:
        were, they = ("was", "it is") if level.failures == 1 else ("were", "they are")
        yield (
            f"{show_with_noun(level.failures, 'statement')} {were} refused for a deadlock or a "
            f"lock that came too late; {they} in no percentile"
        )
    mix = level.asked.mix
    if mix.hit_ratio is not None and level.hit_ratio is not None:
        yield (
            f"{level.hit_ratio:.2%} of the blocks were in the server's buffers, where "
            f"{mix.hit_ratio:.2%} were asked for: shared_buffers, scale and hot set it"
        )
    cost = _cpu_of_statement(level)
    if mix.cpu and cost is not None:
        yield (
            f"a statement cost {show_duration(cost)} of the server's CPU, where "
            f"{show_duration(mix.cpu)} were asked for"
        )
    if spec.mix is not None:
        yield f"not tested by this mix: {'; '.join(mix.untested())}"
