"""The results of a replay, recorded for the report: tables, metrics, series, facts and notes."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from replayer.analysis.differences import divergence
from replayer.load import resources, server_clock
from replayer.load.machine_usage import Activity, MachineUse
from replayer.load.resources import Queues
from replayer.model import Better, Cold, Latency, Places, Replayed, Series
from replayer.results.stored_histogram import HIGHEST_NS, encode
from replayer.run.context import Context
from replayer.run.step_recorder import MeasuredWindow, StepRecorder
from replayer.steps.replay import against_source, nondeterministic, uncertain_order
from replayer.steps.replay.replay_counts import (
    Counts,
    ReplayCounts,
    all_together,
    by_code,
    by_fingerprint,
    by_place,
    latencies,
)
from replayer.steps.replay.replay_statistics import (
    GIVEN_UP,
    IMPOSED_FAILURES,
    LOST_SESSIONS,
    NOT_RUN,
    ORDER_TIMEOUTS,
    OUT_OF_TURN,
    REFUSED,
    SHARED,
)
from replayer.steps.replay.schedule import ReplaySchedule
from replayer.steps.replay.spec import Spec
from replayer.units import show_with_noun
from replayer.watch import ledger
from replayer.watch.histogram import Latencies

_WITH_HISTOGRAM = 1000
"""Number of fingerprints, the heaviest first, whose histograms are stored."""
_FEW = 64
"""A lighter fingerprint has its `places` stored if it has at most this number of executions."""
_UNKNOWN_FAILURES = (
    "the log does not say which statements failed: the victim of a deadlock, and what failed "
    "otherwise, was run as any other statement, and may have changed rows here that it did not "
    "change at the source"
)
_NEITHER = Better.NEITHER
_SECOND = 10**9


@dataclass(frozen=True, eq=False)
class ReplayWindow:
    """The measurements of a whole replay, or of its part that ran before it was ended."""

    schedule: ReplaySchedule
    tally: ReplayCounts
    begin_ns: int
    end_ns: int
    """Marks of the sampler at the begin and at the end, in ns of the monotonic clock."""
    opened_ns: int
    """Begin of the replay, when all processes were released, on the same clock."""
    seconds: float
    """Seconds from the begin of the replay until the last action was over."""
    cpu: float
    """CPU time that the worker processes used, in seconds."""
    whole: bool
    """True if the replay ran to its end."""
    use: MachineUse | None = None
    activity: Activity | None = None
    queues: Queues | None = None
    """Waits of the sessions; None if the server could not be asked."""


def record(spec: Spec, context: Context, window: ReplayWindow, cold: Cold) -> None:
    """Record the results of a replay: tables, metrics, series, facts and notes.

    `cold` is the state of the caches at its start.
    """
    findings = context.findings
    schedule, tally = window.schedule, window.tally
    findings.replayed = tuple(_by_fingerprint(spec, schedule, tally))
    against_source.record(context, schedule, tally, window.use)
    _measure(spec, findings, window)
    _measure_lag(findings, tally, timed=spec.speed > 0)
    findings.series = _series(context, window, timed=spec.speed > 0)
    findings.window = MeasuredWindow(
        begin_ns=window.begin_ns,
        end_ns=window.end_ns,
        operations=sum(one.executions for one in findings.replayed),
        operation="statement",
        sessions=min(schedule.at_once, spec.sessions or schedule.at_once),
        whose="server",
    )
    findings.facts |= _facts(spec, window)
    findings.notes += [*_notes(spec, window)]
    for table, times in _unordered(window).most_common():
        named = uncertain_order.UncertainRow(table, "", times, uncertain_order.OUT_OF_TURN)
        findings.row("uncertain_order", **named._asdict())
    _keep_accounts(context, window, cold)
    _record_uses(context, window)


def _by_fingerprint(
    spec: Spec, schedule: ReplaySchedule, tally: ReplayCounts
) -> Iterator[Replayed]:
    """Yield the results of each fingerprint (form of statements), the largest total time first.

    The time is the service time: from sending a statement to its answer.
    """
    executions, service_ns = dict(tally.executions.items()), dict(tally.service_ns.items())
    order = sorted(range(len(schedule.fingerprints)), key=lambda one: -service_ns.get(one, 0))
    heavy = frozenset(order[:_WITH_HISTOGRAM])
    service = by_fingerprint(_of(tally.service, heavy))
    response = by_fingerprint(_of(tally.response, heavy))
    errors, logged = by_code(tally.errors), by_code(tally.logged)
    here, there = by_code(tally.here), by_code(tally.there)
    others = by_code(tally.others_here), by_code(tally.others_there)
    consequences, rows = dict(tally.consequences.items()), dict(tally.rows.items())
    hashes = dict(tally.hashes.items())
    against = {
        name: dict(getattr(tally, name).items())
        for name in ("held_rows", "logged_rows", "otherwise", "follows")
    }
    places = _places(schedule, tally) if spec.verify != "none" else {}
    for place in order:
        fingerprint = schedule.fingerprints[place]
        done = executions.get(place, 0)
        hashed = spec.verify == "hash" and done
        yield Replayed(
            fingerprint=f"{fingerprint.number & (1 << 64) - 1:016x}",
            text=fingerprint.text,
            kind=fingerprint.kind,
            planned=schedule.planned[place],
            executions=done,
            errors=errors.get(place, {}),
            consequences=consequences.get(place, 0),
            logged_errors=logged.get(place, {}),
            failed_here=here.get(place, {}),
            failed_there=there.get(place, {}),
            failed_otherwise=(others[0].get(place, {}), others[1].get(place, {})),
            rows=rows.get(place, 0) if spec.verify != "none" and done else None,
            held_rows=against["held_rows"].get(place),
            logged_rows=against["logged_rows"].get(place),
            rows_otherwise=against["otherwise"].get(place, 0),
            rows_follow=against["follows"].get(place, 0),
            places=places.get(place) if place in heavy or done <= _FEW else None,
            rows_hash=f"{hashes.get(place, 0) & (1 << 64) - 1:016x}" if hashed else None,
            varies=nondeterministic.functions(fingerprint.text),
            service_s=round(service_ns.get(place, 0) / 1e9, 6),
            service=_stored(service.get(place)),
            response=_stored(response.get(place)),
        )


def _places(schedule: ReplaySchedule, tally: ReplayCounts) -> dict[int, Places]:
    """Return index of a fingerprint -> digests of its answers, by part and by session.

    A part is one of the PARTS of equal length into which the capture is divided.
    """
    sessions = by_place(tally.by_session, session=True)
    return {
        fingerprint: Places(part_s=schedule.part_s, parts=parts, sessions=sessions[fingerprint])
        for fingerprint, parts in by_place(tally.by_part, session=False).items()
    }


def _of(histograms: Counts, fingerprints: frozenset[int]) -> Counts:
    """Return a copy of the histograms with the keys of `fingerprints` (indexes) only."""
    return histograms.chosen(fingerprints)


def _stored(times: Latencies | None) -> Latency | None:
    if times is None:
        return None
    return encode({min(ns, HIGHEST_NS): count for ns, count in times.counts().items()})


def _measure(spec: Spec, findings: StepRecorder, window: ReplayWindow) -> None:
    tally, schedule = window.tally, window.schedule
    statements = int(tally.executions.amounts.sum())
    planned = sum(schedule.planned)
    seconds = max(1e-9, window.seconds)
    better = _NEITHER if spec.speed else Better.MORE
    findings.measure("replay.statements", statements / seconds, "1/s", better)
    says = "" if spec.speed else "replay.statements"
    findings.measure("replay.elapsed", seconds, "s", _NEITHER if spec.speed else Better.LESS, says)
    findings.measure("replay.ran", 100 * statements / planned if planned else 0.0, "%", _NEITHER)
    errors = int(tally.errors.amounts.sum())
    findings.measure("replay.errors", errors, "statements", Better.LESS)
    if spec.speed:
        findings.percentiles("replay.response", all_together(tally.response))
        findings.histogram("response", all_together(tally.response))
    service = all_together(tally.service)
    findings.percentiles("replay.service", service)
    findings.histogram("service", service)
    busy = int(tally.busy_in.amounts.sum()) / 1e9 / seconds
    findings.measure("replay.at_work", busy, "sessions", _NEITHER)
    findings.measure("replay.client_cpu", window.cpu / seconds, "cores", Better.LESS)


def _measure_lag(findings: StepRecorder, tally: ReplayCounts, *, timed: bool) -> None:
    if not timed:
        return
    sides = {"": tally.lag, ".client": tally.lag_client, ".server": tally.lag_server}
    for side, bins in sides.items():
        lags = latencies(bins)
        findings.percentiles(f"replay.lag{side}", lags)
        findings.histogram(f"lag{side}", lags)


def _series(context: Context, window: ReplayWindow, *, timed: bool) -> Series:
    """Return the series of the sampler, and columns for statements, sessions at work and lag.

    The lag is in it only if `timed` is True: a replay as fast as possible has no lag.
    """
    answered = dict(window.tally.answered_in.items())
    total, points = 0, [(window.opened_ns, 0.0)]
    for second in range(math.ceil(window.seconds)):
        total += answered.get(second, 0)
        end = min(window.opened_ns + (second + 1) * _SECOND, window.end_ns)
        points.append((end, float(total)))
    series = context.sampler.series(window.begin_ns, window.end_ns, {"replay.statements": points})
    ends = series.seconds
    offset = (window.opened_ns - window.begin_ns) / 1e9
    busy = {second: ns / 1e9 for second, ns in window.tally.busy_in.items()}
    columns = {**series.columns, "replay.at_work": tuple(_by_interval(busy, ends, offset, fmean))}
    if timed:
        for name in ("client", "server"):
            longest = getattr(window.tally, f"longest_{name}_in")
            lags = {second: ns / 1e9 for second, ns in longest.items()}
            columns[f"replay.lag_{name}"] = tuple(_by_interval(lags, ends, offset, max))
    return series.model_copy(update={"columns": columns})


def _by_interval(
    values: Mapping[int, float],
    ends: Sequence[float],
    offset: float,
    combine: Callable[[Sequence[float]], float],
) -> Iterator[float | None]:
    """Yield one value for each interval of a series; None if no value is known for it.

    `values` has a value for each second of the replay.  The values of the seconds that an
    interval touches are combined by `combine`.  `ends` are the ends of the intervals in seconds;
    `offset` is the begin of the replay on the same scale.
    """
    for begin, end in pairwise((0.0, *ends)):
        first = max(0, int(begin - offset))
        seconds = range(first, max(first + 1, math.ceil(end - offset)))
        known = [values[second] for second in seconds if second in values]
        yield combine(known) if known else None


def _facts(spec: Spec, window: ReplayWindow) -> dict[str, str | int | float | bool]:
    happened, schedule = window.tally.happened, window.schedule
    return {
        "replay.speed": spec.speed,
        "replay.order": spec.order,
        "replay.sessions": schedule.sessions,
        "replay.sessions_at_once": schedule.at_once,
        "replay.planned": sum(schedule.planned),
        "replay.whole": window.whole,
        "replay.sessions_lost": happened.get(LOST_SESSIONS, 0),
        "replay.connections_refused": happened.get(REFUSED, 0),
        "replay.order_timeouts": happened.get(ORDER_TIMEOUTS, 0),
        "replay.out_of_turn": happened.get(OUT_OF_TURN, 0),
        "replay.imposed": happened.get(IMPOSED_FAILURES, 0),
        "replay.not_run": happened.get(NOT_RUN, 0),
    }


def _notes(spec: Spec, window: ReplayWindow) -> Iterator[str]:
    happened, schedule = window.tally.happened, window.schedule
    for reason, many in schedule.left_out.items():
        were = "was" if many == 1 else "were"
        yield f"{show_with_noun(many, 'statement')} {were} left out: {reason}"
    if len(schedule.databases) > 1:
        names = ", ".join(schedule.databases[:5])
        yield (
            f"sessions of {len(schedule.databases)} databases ({names}) were replayed in one: "
            f"choose those of one with --database NAME"
        )
    if spec.sessions is not None and spec.sessions < schedule.at_once:
        shared = happened.get(SHARED, 0)
        how = (
            f"shared by transaction ({shared:,} times handed on): settings, temporary tables and "
            f"locks of a session met those of others"
            if shared
            else "each used by one session after the other"
        )
        yield (
            f"{schedule.at_once:,} sessions at a time were captured, and {spec.sessions:,} "
            f"connections were {how}"
        )
    if happened.get(LOST_SESSIONS):
        lost, left = happened[LOST_SESSIONS], happened.get(NOT_RUN, 0)
        yield (
            f"{lost:,} times a session lost its connection and made another one; {left:,} "
            f"statements of the interrupted transactions were not run"
        )
    if happened.get(GIVEN_UP):
        yield f"{happened[GIVEN_UP]:,} sessions got no connection and were given up"
    follow = int(window.tally.follows.amounts.sum())
    if follow:
        yield (
            f"{follow:,} answers had other rows than the log only after something in the same "
            f"transaction ended otherwise"
        )
    if not (schedule.errors_logged or spec.read_only):
        yield _UNKNOWN_FAILURES
    yield from _order_notes(spec, happened, _unordered(window))
    share = divergence.ran(tuple(_planned_and_done(window)))
    if window.whole and share < divergence.LEAST_RAN:
        yield (f"only {share:.1%} of the work ran: this replay is not comparable with another one")


def _unordered(window: ReplayWindow) -> Counter[str]:
    """Return table -> number of statements that changed it without waiting for their turn.

    A statement whose text does not show its tables counts under its text.
    """
    tables: Counter[str] = Counter()
    for place, times in window.tally.unordered.items():
        fingerprint = window.schedule.fingerprints[place]
        changed = (fingerprint.text,) if fingerprint.writes is None else fingerprint.writes
        tables.update(dict.fromkeys(changed, times))
    return tables


def _order_notes(spec: Spec, happened: Mapping[str, int], unordered: Counter[str]) -> Iterator[str]:
    if happened.get(ORDER_TIMEOUTS):
        yield (
            f"{happened[ORDER_TIMEOUTS]:,} statements waited for more than "
            f"{spec.order_timeout:g} s for their place in the order, and went without it"
        )
    if happened.get(OUT_OF_TURN):
        yield (
            f"{happened[OUT_OF_TURN]:,} statements went before their turn: those whose turn it was "
            f"waited in the server for locks of theirs"
        )
    if unordered:
        named = ", ".join(f"{table} ({times:,})" for table, times in unordered.most_common())
        yield f"rows of tables that such statements changed may end with other values: {named}"
    if happened.get(IMPOSED_FAILURES):
        yield (
            f"{happened[IMPOSED_FAILURES]:,} statements that lost to others in the source "
            f"(deadlocks, lock timeouts, cancelled ones), or are a COPY that failed there and has "
            f"no data here, were not run: each failed here in its place, as it did there"
        )


def _planned_and_done(window: ReplayWindow) -> Iterator[Replayed]:
    executions = dict(window.tally.executions.items())
    for place, planned in enumerate(window.schedule.planned):
        done = executions.get(place, 0)
        yield Replayed(fingerprint="", text="", kind="", planned=planned, executions=done)


def _keep_accounts(context: Context, window: ReplayWindow, cold: Cold) -> None:
    """Record where blocks were read from, and what other processes did meanwhile."""
    findings, use, activity = context.findings, window.use, window.activity
    findings.cold = cold
    if use is None:
        return
    findings.foreign = use.foreign
    findings.cold = cold.model_copy(
        update={
            "device_bytes": use.device.read_bytes if use.device else None,
            "own_bytes": use.own_read_bytes,
        }
    )
    if activity is None:
        return
    findings.notes += server_clock.notes([activity.stepped])
    balance = ledger.balance(
        None,
        activity.seconds,
        activity.reads,
        activity.hits,
        use.device,
        context.sampler.device if use.device is not None else None,
        context.engine.block_size,
        own_bytes=use.own_read_bytes,
        own_write_bytes=use.own_write_bytes or 0,
        other_databases_blocks=activity.other_databases,
    )
    findings.ledger = balance
    findings.measure("replay.riops", balance.riops, "1/s", _NEITHER)
    findings.measure("replay.cache_hits", balance.buffer_hits, "1/s", _NEITHER)
    if balance.device_reads is not None:
        findings.measure("replay.device_reads", balance.device_reads, "1/s", _NEITHER)
    for name, unit in (("commits", "1/s"), ("wal_bytes", "bytes/s")):
        rate = activity.rate(name)
        if rate is not None:
            findings.measure(f"replay.{name}", rate, unit, _NEITHER)


def _record_uses(context: Context, window: ReplayWindow) -> None:
    """Record how much of each resource was in use, and in which queues sessions waited."""
    use, findings = window.use, context.findings
    if use is None:
        return
    known = resources.ceilings(context, {}, use.granted)
    memory = context.host.usable_memory_bytes()
    for name, one in resources.uses(use, window.queues, known, memory):
        findings.row(
            "uses",
            resource=name,
            busy=one.busy,
            capacity=one.capacity,
            unit=one.unit,
            own=one.own,
            ceiling=one.ceiling,
            stopped_share=one.stopped,
            lines=", ".join(sorted(one.lines)),
            through=", ".join(sorted(one.through)),
            held=one.held,
        )
    at_work = int(window.tally.busy_in.amounts.sum()) / 1e9 / max(1e-9, window.seconds)
    for line, sessions in resources.standing(window.queues, at_work).items():
        findings.row("standing", line=line.value, sessions=round(sessions, 4))
