"""A requirement and what a run found -> whether the database fits, and what gives first.

The load decides: the interval of the highest multiple of the required rate that was sustained lies
above 1, below it, or holds it.  A limit that is known of the target, the room on the disk and the
device's own ceilings can only take away from that.  What is not shown either way is `unclear`.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from statistics import median
from typing import Any

from replayer.load import burn, resources
from replayer.model import Noun, Run, Status, StepResult
from replayer.sizing import demand
from replayer.sizing.changes import changes
from replayer.sizing.findings import Change, Loaded, Row, last
from replayer.sizing.record import Sizing
from replayer.sizing.requirement import Requirement
from replayer.sizing.target import Fit, Judgement
from replayer.units import show_count, show_duration, show_size, three

_USED: Mapping[str, tuple[str, ...]] = {
    resources.MACHINE: ("server_cores", "client_cores"),
    resources.QUOTA: ("server_cores",),
    resources.READS: ("reads_per_second",),
    resources.WRITES: ("writes_per_second",),
    resources.LOG: ("log_share",),
    resources.LOCKS: ("row_lock_share",),
}
"""Resource -> the columns of a trial that say how much of it was in use."""


class Verdict(Noun):
    """Whether a database fits on a machine."""

    fit: Fit
    reasons: tuple[str, ...]
    """The first says it in one line."""
    multiple: float | None
    """The highest multiple of the requirement that all that decides allows."""
    low: float | None
    high: float | None
    """None where it has no end that is known."""
    first: str
    """What gives first, "" where that is not known."""
    proof: str
    held: str
    """How long the required rate was held, and how that ended; "" where it was not tried."""
    rows: tuple[Row, ...]
    changes: tuple[Change, ...]
    not_offered: str
    """What the clients could not ask of the server, "" where they could."""
    not_tested: tuple[str, ...]
    """What was not in the profile, or no load can do."""
    unproven: tuple[str, ...]
    """What the load does otherwise than the source."""


_DISTURBED = 0.2
"""Of the processors' time: from here on, what others used may be why it does not fit."""


def judge(sizing: Sizing, run: Run) -> Verdict:
    """Return the verdict on a run that sized a machine, as far as it has come."""
    step = last(run, "capacity")
    load = _undisturbed(_load(sizing, step, run), step, run)
    rows = tuple(
        chain(
            _loaded(sizing, step, load),
            _probed(sizing.requirement, run, step),
            _arithmetic(sizing),
            map(_limited, sizing.judgements),
        )
    )
    fits = [load.fit, *(row.fit for row in rows if row.decides)]
    least = _least(load, rows)
    return Verdict(
        fit=_worst(fits),
        reasons=tuple(_reasons(load, rows)),
        multiple=least.multiple,
        low=least.low,
        high=least.high,
        first=least.resource if isinstance(least, Row) else least.first,
        proof=least.proof,
        held=load.held,
        rows=rows,
        changes=tuple(changes(sizing, run, step, load, rows)),
        not_offered=load.not_offered,
        not_tested=sizing.requirement.not_tested,
        unproven=(*sizing.unproven, *_burnt(step)),
    )


def _burnt(step: StepResult | None) -> Iterator[str]:
    """Yield what a statement was to cost of CPU, and what it cost."""
    facts = {} if step is None else step.facts
    wanted, got = facts.get(burn.WANTED), facts.get(burn.GOT)
    if isinstance(wanted, float) and isinstance(got, float):
        off = abs(got - wanted) > burn.CLOSE * wanted
        ending = ", so that what is said of the CPU is off by as much" if off else ""
        yield (
            f"CPU of a statement: wanted {show_duration(wanted)}, as at the source, got "
            f"{show_duration(got)}{ending}"
        )


def _worst(fits: Iterable[Fit]) -> Fit:
    order = (Fit.DOES_NOT_FIT, Fit.UNCLEAR, Fit.FITS)
    return min(fits, key=order.index)


def _least(load: Loaded, rows: Iterable[Row]) -> Loaded | Row:
    """Return what allows the least of all that decides; the load where nothing allows less."""
    fewer = [row for row in rows if row.decides and row.multiple is not None]
    lowest = min(fewer, key=lambda row: row.multiple or 0.0, default=None)
    most = math.inf if load.multiple is None else load.multiple
    if lowest is None or lowest.multiple is None or lowest.multiple >= min(most, 1.0):
        return load
    return lowest


def _load(sizing: Sizing, step: StepResult | None, run: Run) -> Loaded:
    if step is None or step.status is Status.SKIPPED:
        reason = run.error if step is None else step.reason
        why = f": {reason}" if reason else ""
        words = f"no load was put on the database{why}"
        return Loaded(Fit.UNCLEAR, words, None, None, None, "", "", "", "")
    multiple, low, high = (step.value(f"capacity.{name}") for name in ("multiple", "low", "high"))
    first, proof = (_text(step, f"capacity.{name}") for name in ("first", "proof"))
    fit, words = _fit(sizing, step, multiple, low, high)
    return Loaded(
        fit=fit,
        words=words,
        multiple=multiple,
        low=low,
        high=high,
        first="" if first == "unclear" else first,
        proof=proof,
        held=_held(step),
        not_offered=_not_offered(step),
    )


def _undisturbed(load: Loaded, step: StepResult | None, run: Run) -> Loaded:
    """Return what the load came to; nothing is said against a machine that others were using."""
    cores = run.host.get("cpu.threads")
    if load.fit is not Fit.DOES_NOT_FIT or step is None or not isinstance(cores, int):
        return load
    if load.first not in {"", resources.MACHINE}:
        return load
    others = median(_others(row) for row in step.tables["trials"])
    if others <= _DISTURBED * cores:
        return load
    words = (
        f"{load.words}, but others used {three(others)} of the {cores} processors meanwhile: end "
        f"what else runs here and size it again"
    )
    return load._replace(fit=Fit.UNCLEAR, words=words)


def _others(trial: Mapping[str, Any]) -> float:
    """Return the processors that neither the server nor replayer used in a trial."""
    busy = float(trial["user_cores"]) + float(trial["system_cores"])
    return max(0.0, busy - float(trial["server_cores"] or busy) - float(trial["client_cores"]))


def _text(step: StepResult, fact: str) -> str:
    value = step.facts.get(fact)
    return value if isinstance(value, str) else ""


def _fit(
    sizing: Sizing,
    step: StepResult,
    multiple: float | None,
    low: float | None,
    high: float | None,
) -> tuple[Fit, str]:
    """Return what the load says, and why."""
    trials = step.tables.get("trials", ())
    if multiple is None or low is None:
        return _nothing_held(sizing, step, trials)
    ends = f"{three(low)} to {'no known end' if high is None else three(high)}"
    words = f"{three(multiple)} times what is required, 95 % interval {ends}"
    if high is not None and high < 1:
        return Fit.DOES_NOT_FIT, words
    if low < 1:
        return Fit.UNCLEAR, f"{words}, which holds 1"
    if step.status is not Status.DONE:
        return Fit.UNCLEAR, f"{words}, and it was not held: {step.status.value}, {step.reason}"
    if _text(step, "capacity.held") == "exceeded":
        why = _text(step, "capacity.held_why")
        return Fit.DOES_NOT_FIT, f"{words} for short, but it could not be held: {why}"
    return Fit.FITS, words


def _nothing_held(
    sizing: Sizing, step: StepResult, trials: Sequence[Mapping[str, Any]]
) -> tuple[Fit, str]:
    ended = {str(row["ended"]) for row in trials}
    if step.status is not Status.DONE:
        held = max((row["multiple"] for row in trials if row["ended"] == "held"), default=None)
        until = "" if held is None else f", when {three(held)} times what is required had held once"
        words = f"the search was cut short ({step.reason or step.status.value}){until}"
        return Fit.UNCLEAR, words
    if "failed" not in ended:
        return Fit.UNCLEAR, "the rate could not be asked of the server: see what was not offered"
    least = min(row["multiple"] for row in trials if row["ended"] == "failed")
    words = f"not even {three(least)} times what is required was within {sizing.objective}"
    if "held" in ended:
        return Fit.UNCLEAR, f"no multiple was sustained for sure: {words}"
    return Fit.DOES_NOT_FIT, words


def _held(step: StepResult) -> str:
    held, rows = _text(step, "capacity.held"), step.tables.get("hold", ())
    if held in {"within", "exceeded"} and rows:
        seconds = show_duration(rows[0]["seconds"])
        if held == "within":
            return f"held for {seconds} within the objective"
        return f"not held for {seconds}: {_text(step, 'capacity.held_why')}"
    return held


def _not_offered(step: StepResult) -> str:
    rows = [row for row in step.tables.get("trials", ()) if row["ended"] == "not offered"]
    if not rows:
        return ""
    least = min(row["asked_per_second"] for row in rows)
    return (
        f"{show_count(round(least))} statements/s could not be sent: replayer's own clients had no "
        f"processor time left, so that the server may be able to do more"
    )


def _reasons(load: Loaded, rows: Iterable[Row]) -> Iterator[str]:
    yield load.words
    if load.held:
        yield load.held
    for row in rows:
        if row.decides and row.fit is not Fit.FITS and row.resource != load.first:
            yield f"{row.resource}: {row.proof}"


# Resource by resource


def _loaded(sizing: Sizing, step: StepResult | None, load: Loaded) -> Iterator[Row]:
    """Yield what the load needed of each resource."""
    table = step.tables.get("resources", ()) if step is not None else ()
    trials = step.tables.get("trials", ()) if step is not None else ()

    def demands(name: str) -> list[float]:
        known = (_demand(name, row) for row in trials)
        return [one for one in known if one is not None]

    return demand.rows(table, demands, sizing.rate, load)


def _demand(name: str, trial: Mapping[str, Any]) -> float | None:
    """Return what one statement of a trial needed of a resource."""
    used = [trial.get(column) for column in _USED.get(name, ())]
    done = trial.get("throughput_per_second") or 0.0
    if not used or not done or None in used:
        return None
    return sum(float(amount) for amount in used if amount is not None) / float(done)


_PROBES = (
    # a need, the probe's step, its column, what it is called, whether too little decides
    ("read_iops", "reads", "iops", "device reads, as at the source", False),
    ("write_iops", "writes", "iops", "device writes, as at the source", True),
    ("mbps", "large-reads", "MB/s", "device bytes, as at the source", False),
)


def _probed(requirement: Requirement, run: Run, step: StepResult | None) -> Iterator[Row]:
    """Yield what the source's device did, beside what a probe had of this one.

    What the load itself read of the device is not asked twice; what was read at the source may be
    in memory here, so that too little for it decides nothing.
    """
    direct = step is not None and step.facts.get("memory.kind") == "direct"
    for name, probe, column, title, decides in _PROBES:
        need, had = requirement.need(name), _row_of_probe(run, probe)
        if need is None or had is None or not need.required or (direct and not decides):
            continue
        multiple = float(had[column]) / need.required
        short = Fit.DOES_NOT_FIT if decides else Fit.UNCLEAR
        yield Row(
            resource=title,
            unit=need.unit,
            required=need.required,
            here=float(had[column]),
            multiple=multiple,
            low=None,
            high=None,
            fit=Fit.FITS if multiple >= 1 else short,
            proof=f"probe of {show_size(had['block_bytes'])} at depth {had['depth']}",
            kind="probe",
            decides=decides,
        )


def _row_of_probe(run: Run, name: str) -> Mapping[str, Any] | None:
    for step in run.steps:
        if step.step == "probe" and step.name == name and step.status is Status.DONE:
            return next(iter(step.tables.get("io", ())), None)
    return None


def _arithmetic(sizing: Sizing) -> Iterator[Row]:
    """Yield what needs no load: room for the data, memory."""
    for name, there, title, decides, words in (
        ("database", sizing.free_bytes, "room for all data", True, "free on the data's disk"),
        ("memory", sizing.memory_bytes, "memory, as at the source", False, "of this machine"),
    ):
        need = sizing.requirement.need(name)
        if need is None or there is None or not need.required:
            continue
        enough = there >= need.required
        short = Fit.DOES_NOT_FIT if decides else Fit.UNCLEAR
        yield Row(
            resource=title,
            unit="bytes",
            required=need.required,
            here=float(there),
            multiple=there / need.required,
            low=None,
            high=None,
            fit=Fit.FITS if enough else short,
            proof=words,
            kind="arithmetic",
            decides=decides,
        )


def _limited(judgement: Judgement) -> Row:
    """Return a limit that is known of the target."""
    return Row(
        resource=f"{judgement.title}, by --target",
        unit=judgement.unit,
        required=judgement.required,
        here=judgement.limit.baseline,
        multiple=judgement.multiple,
        low=None,
        high=None,
        fit=judgement.fit,
        proof=judgement.words,
        kind="target",
        decides=judgement.required is not None,
    )
