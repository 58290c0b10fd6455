"""The verdict whether a database fits on a machine, from a requirement and the findings of a run.

The load decides: the interval of the highest sustained multiple of the required rate lies above 1,
below 1, or contains 1.  A known limit of the target, the room on the disk and the device's own
ceilings can only make the verdict worse.  Where neither side is proven, the verdict is `unclear`.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median, median_low
from typing import Any, NamedTuple

from pydantic import computed_field

from replayer.analysis.profiles.confidence import Confidence
from replayer.load import cpu_burn, resources
from replayer.model import Noun, Run, Status, StepResult
from replayer.sizing import demand, needs
from replayer.sizing.findings import Loaded, Remedy, ResourceRow, last, show_multiple
from replayer.sizing.recommendation import RecommendedSize, recommend
from replayer.sizing.record import Sizing
from replayer.sizing.target import Fit, Judgement
from replayer.sizing.what_if import changes
from replayer.units import show_count, show_duration, show_rate, three

_USED: Mapping[str, tuple[str, ...]] = {
    resources.MACHINE: ("server_cores", "client_cores"),
    resources.QUOTA: ("server_cores",),
    resources.READS: ("reads_per_second",),
    resources.WRITES: ("writes_per_second",),
    resources.LOG: ("log_share",),
    resources.LOCKS: ("row_lock_share",),
}
"""Resource -> the columns of a trial that hold how much of it was in use."""


class FitVerdict(Noun):
    """The verdict on whether a database fits on a machine."""

    fit: Fit
    reasons: tuple[str, ...]
    """Reasons for the verdict, one sentence each; the deciding one comes first."""
    multiple: float | None
    """The multiple of the requirement that the deciding load or resource allows; None: unknown."""
    low: float | None
    high: float | None
    """None where no upper end is known."""
    first: str
    """The limiting resource; "" where it is not known."""
    proof: str
    held: str
    """The time for which the required rate was held, and its end, in words; "" where not tried."""
    rows: tuple[ResourceRow, ...]
    changes: tuple[Remedy, ...]
    not_offered: str
    """Load that the clients could not send to the server; "" where they sent all."""
    not_tested: tuple[str, ...]
    """Resources that are not in the profile, or that no load can use."""
    unproven: tuple[str, ...]
    """Differences of the load from the source."""
    source_notes: tuple[str, ...] = ()
    """Notes of the requirement, such as loads at the source that are not required."""
    recommendation: tuple[RecommendedSize, ...] = ()
    """The recommended amount of each resource."""
    confidence: Confidence | None = None
    """The profile's rating in stars."""
    prediction: str = ""
    """The shortlist's prediction and how it came out; "" without one."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def headline(self) -> str:
        """Return the verdict in one line."""
        return f"{self.fit.value}: {self.reasons[0]}"


_OUTCOMES = {"held": "held", "did not hold": "did not hold", "undecided": "is undecided"}
_DONE = 0.9
"""Share of the required rate: a trial below it was limited by the machine."""
_BUSY = 0.8
"""Share of the processors' time: processors of which less is used do not limit the load."""
_DISTURBED = 0.2
"""Share of the processors' time: other processes that use more may be why nothing fits."""


def judge(sizing: Sizing, run: Run) -> FitVerdict:
    """Return the verdict on a machine from a run that sizes it; the run may be unfinished."""
    step = last(run, "capacity")
    load = _undisturbed(_load(sizing, step, run), step, run)
    load = _without_clients(load, step, sizing)
    loaded = tuple(_loaded(sizing, step, load))
    rows = (*_rows(sizing, run, load, loaded), *map(_limited, sizing.judgements))
    decider = _decider(load, rows)
    return FitVerdict(
        fit=decider.fit,
        reasons=tuple(_reasons(decider, load, rows)),
        multiple=decider.multiple,
        low=decider.low,
        high=decider.high,
        first=decider.resource if isinstance(decider, ResourceRow) else decider.first,
        proof=f"{decider.resource}, {decider.proof}"
        if isinstance(decider, ResourceRow)
        else decider.proof,
        held=load.held,
        rows=rows,
        changes=tuple(changes(sizing, run, step, load, loaded, rows=rows)),
        not_offered=load.not_offered,
        not_tested=sizing.requirement.not_tested,
        unproven=(*sizing.unproven, *_burnt(step)),
        source_notes=sizing.requirement.notes,
        recommendation=recommend(sizing.requirement),
        confidence=sizing.confidence,
        prediction=_predicted(sizing, decider.fit),
    )


def _predicted(sizing: Sizing, fit: Fit) -> str:
    """Return the shortlist's prediction and how it came out, in words; "" without a prediction."""
    made = sizing.prediction
    if made is None:
        return ""
    outcome = made.outcome(fit)
    why = f" ({made.why[0]})" if made.why else ""
    return f"{made.words}{why}; measured: {fit.value}. The prediction {_OUTCOMES[outcome]}"


def _burnt(step: StepResult | None) -> Iterator[str]:
    """Yield a sentence on the CPU that a statement was to use, and the CPU that it really used."""
    facts = {} if step is None else step.facts
    wanted, got = facts.get(cpu_burn.WANTED), facts.get(cpu_burn.GOT)
    if isinstance(wanted, float) and isinstance(got, float):
        off = abs(got - wanted) > cpu_burn.CLOSE * wanted
        ending = ", so that what is printed of the CPU is off by as much" if off else ""
        yield (
            f"CPU of a statement: wanted {show_duration(wanted)}, as at the source, got "
            f"{show_duration(got)}{ending}"
        )


def refutations(sizing: Sizing, run: Run | None = None) -> list[str]:
    """Return sentences with the reasons why a machine cannot fit, independent of any load.

    The reason with the smallest multiple of the required amount comes first.  Before a run,
    arithmetic gives the reasons; in a run, the probes that have ended give more.
    """
    rows = needs.refuted(sizing, run, _NO_LOAD)
    rows += [row for row in map(_limited, sizing.judgements) if row.fit is Fit.DOES_NOT_FIT]
    return [row.words for row in sorted(rows, key=lambda row: row.multiple or 0.0)]


def _rows(
    sizing: Sizing, run: Run, load: Loaded, loaded: Sequence[ResourceRow]
) -> Iterator[ResourceRow]:
    """Yield a row for each need, which is the required amount of a resource.

    Then yield a row for each other resource that the load used.
    """
    decided = {row.resource: row for row in needs.rows(sizing, run, load, loaded)}
    covered = {name for row in decided.values() for name in _COVERED.get(row.need, ())}
    yield from decided.values()
    for row in loaded:
        if row.resource not in decided and row.resource not in covered:
            yield row


_COVERED = {
    "cpu": (resources.MACHINE, resources.QUOTA),
    "server_cpu": (resources.MACHINE, resources.QUOTA),
    "read_iops": (resources.READS,),
    "write_iops": (resources.WRITES,),
    "read_mbps": (resources.READ_BYTES,),
    "write_mbps": (resources.WRITE_BYTES,),
}
"""A need -> the resources of the load that measure the same."""


def _decider(load: Loaded, rows: Iterable[ResourceRow]) -> Loaded | ResourceRow:
    """Return what decides the verdict: the load's result or a resource's row, the worst of them.

    Of several that are equally bad, it is the one with the smallest multiple of the requirement.  A
    row that was measured under the load counts only if it is worse than the load's result.  If all
    fit, only rows count whose need grows with the load.
    """
    deciding = [row for row in rows if row.decides and row.fit is not Fit.NOT_TESTED]
    order = (Fit.DOES_NOT_FIT, Fit.UNCLEAR, Fit.FITS)
    worst = min((load.fit, *(row.fit for row in deciding)), key=order.index)
    candidates: list[Loaded | ResourceRow] = [load] if load.fit is worst else []
    candidates += [
        row
        for row in deciding
        if row.fit is worst
        # A row that was measured under the load is already part of the load's own verdict.
        and (row.kind != "load" or load.fit is not worst)
        and (worst is not Fit.FITS or row.grows)
    ]
    # Requests and bytes of one probe are one fact, in two units: the first of the two decides.
    return min(
        candidates, key=lambda one: math.inf if one.multiple is None else round(one.multiple, 2)
    )


_NO_LOAD = Loaded(Fit.UNCLEAR, "no load was put on the database", None, None, None, "", "", "", "")


def _load(sizing: Sizing, step: StepResult | None, run: Run) -> Loaded:
    if step is None or step.status is Status.SKIPPED:
        reason = run.error if step is None else step.reason
        return _NO_LOAD._replace(words=f"{_NO_LOAD.words}{f': {reason}' if reason else ''}")
    first, proof = (_text(step, f"capacity.{name}") for name in ("first", "proof"))
    came_to = _came_to(sizing, step)
    return Loaded(
        fit=came_to.fit,
        words=came_to.words,
        multiple=came_to.multiple,
        low=came_to.low,
        high=came_to.high,
        first="" if first == "unclear" else first,
        proof=proof,
        held=_held(step),
        not_offered=_not_offered(step),
        given_up=_text(step, "capacity.gave_up"),
    )


def _undisturbed(load: Loaded, step: StepResult | None, run: Run) -> Loaded:
    """Return the load's result; `unclear` if it does not fit and others took the processors.

    Others are processes of neither the server nor replayer.  `step` is the search's result.
    """
    if load.fit is not Fit.DOES_NOT_FIT or step is None:
        return load
    if load.first not in {"", resources.MACHINE}:
        return load
    trials = step.tables["trials"]
    # Runs of older versions have no number of processors: their use was that of the whole machine.
    threads = run.host.get("cpu.threads")
    counts = [row.get("processors") or threads for row in trials]
    known = [count for count in counts if isinstance(count, int)]
    if not known:
        return load
    cores, others = median_low(known), median(map(_others, trials))
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


def _without_clients(load: Loaded, step: StepResult | None, sizing: Sizing) -> Loaded:
    """Return the load's result; `unclear` if the machine might fit without replayer's own clients.

    They run on the same machine and use its processors.  The profile's CPU is that of the server
    alone, and its real clients may run on other machines.
    """
    here = sizing.cores
    if load.fit is not Fit.DOES_NOT_FIT or step is None or here is None:
        return load
    if load.low is not None and load.low >= 1:
        # It held for a short time, clients and all: why it did not last is another matter.
        return load
    if load.first not in {"", resources.MACHINE, resources.QUOTA, resources.CLIENTS}:
        return load
    trials = [row for row in step.tables["trials"] if row["ended"] != "void"]
    server, clients = (
        median(float(row[name] or 0.0) for row in trials) if trials else 0.0
        for name in ("server_cores", "client_cores")
    )
    if not server or server + clients < _BUSY * here:
        return load
    done = max(float(row["throughput_per_second"]) for row in trials) / sizing.rate
    alone = (load.high or load.multiple or done) * (server + clients) / server
    if alone < 1:
        return load
    words = (
        f"{load.words}, but replayer's own clients used {three(clients)} of the {three(here)} "
        f"processors meanwhile, and {three(server)} were left for the server: start it here, and "
        f"size it by its URL from another machine"
    )
    return load._replace(fit=Fit.UNCLEAR, words=words)


def _text(step: StepResult, fact: str) -> str:
    value = step.facts.get(fact)
    return value if isinstance(value, str) else ""


class _CameTo(NamedTuple):
    """Result of a search: verdict, words for it, and the sustained multiple with its interval."""

    fit: Fit
    words: str
    multiple: float | None = None
    low: float | None = None
    high: float | None = None


def _came_to(sizing: Sizing, step: StepResult) -> _CameTo:
    """Return the result of the search for the highest rate (`step`): verdict, reason, multiple."""
    multiple, low, high = (step.value(f"capacity.{name}") for name in ("multiple", "low", "high"))
    if multiple is None or low is None:
        return _nothing_held(sizing, step)
    fit, why = _side(step, low, high)
    words = f"{show_multiple(multiple, low, high)}{why}"
    return _CameTo(fit, words, multiple, low, high)


def _side(step: StepResult, low: float, high: float | None) -> tuple[Fit, str]:
    """Return the verdict by the ends of a multiple's interval and by the hold, and words to append.

    The hold is the last part of the search (`step`): it keeps up the required rate for longer.
    """
    if high is not None and high < 1:
        return Fit.DOES_NOT_FIT, ""
    if low < 1:
        return Fit.UNCLEAR, f", which contains what is required{_given_up(step)}"
    if step.status is not Status.DONE:
        return Fit.UNCLEAR, f", and it was not held: {step.status.value}, {step.reason}"
    if _text(step, "capacity.held") == "exceeded":
        why = _text(step, "capacity.held_why")
        return Fit.DOES_NOT_FIT, f" for a short time, but it could not be held: {why}"
    if _text(step, "capacity.held") in _UNDECIDED_HOLDS:
        why = _text(step, "capacity.held_why")
        todo = _UNDECIDED_HOLDS[_text(step, "capacity.held")]
        return (
            Fit.UNCLEAR,
            f" for a short time, and it is unknown whether it can be held: {why}; {todo}",
        )
    return Fit.FITS, ""


def _given_up(step: StepResult) -> str:
    """Return words on why the search (`step`) was given up; "" if it was not."""
    why = _text(step, "capacity.gave_up")
    return f", and the search was given up: {why}; {WAIT}" if why else ""


WAIT = "end what else runs here, or have the search wait for it with --wait 30min"
_UNDECIDED_HOLDS = {
    "disturbed": WAIT,
    "not offered": (
        "it was not sent in time, which shows nothing about the server: leave more processors to "
        "replayer's clients, or size the server by its URL from another machine"
    ),
}
"""Value of the fact capacity.held of a hold that decides nothing -> the action to take."""


def _nothing_held(sizing: Sizing, step: StepResult) -> _CameTo:
    """Return the result of a search (`step`) that found no rate that was surely sustained."""
    trials = [row for row in step.tables.get("trials", ()) if row["ended"] != "void"]
    held = max((row["multiple"] for row in trials if row["ended"] == "held"), default=None)
    failed = [row for row in trials if row["ended"] == "failed"]
    if step.status is not Status.DONE:
        until = "" if held is None else f", when {show_multiple(held)} had held once"
        words = f"the search was cut short ({step.reason or step.status.value}){until}"
        return _CameTo(Fit.UNCLEAR, words)
    if why := _text(step, "capacity.gave_up"):
        until = "" if held is None else f", when {show_multiple(held)} had held once"
        return _CameTo(Fit.UNCLEAR, f"the search was given up: {why}{until}; {WAIT}")
    if not failed:
        return _CameTo(
            Fit.UNCLEAR, "the rate could not be asked of the server: see what was not offered"
        )
    least = min(failed, key=lambda row: float(row["multiple"]))
    words = f"not even {show_multiple(least['multiple'])} was within {sizing.objective}"
    if held is not None:
        return _CameTo(Fit.UNCLEAR, f"no multiple was sustained for sure: {words}")
    return _of_failures(sizing, failed, words)


def _of_failures(sizing: Sizing, failed: Sequence[Mapping[str, Any]], words: str) -> _CameTo:
    """Return the result of a search in which every trial failed: the machine does not fit.

    `failed` are the rows of the trials.  If some of them were at other rates than the required one,
    the result has the text `words`.  If not, its text is made from the trials, and if the server
    did too few statements, its multiple is their number divided by the required number.
    """
    required = [row for row in failed if math.isclose(row["multiple"], 1, rel_tol=1e-3)]
    if len(required) < len(failed) or not required:
        return _CameTo(Fit.DOES_NOT_FIT, words)
    done = median(float(row["throughput_per_second"]) for row in required)
    times = done / sizing.rate
    asked = f"{show_count(sizing.rate)} statements/s that are required"
    reason = next((str(row["reason"]) for row in required if row["reason"]), "")
    many = f"in {len(required)} of {len(required)} trials{f': {reason}' if reason else ''}"
    if times < _DONE:
        did = f"{show_multiple(times)}: {show_rate(done)} of the"
        return _CameTo(Fit.DOES_NOT_FIT, f"{did} {asked} were done {many}", times)
    return _CameTo(Fit.DOES_NOT_FIT, f"the {asked} were not within {sizing.objective} {many}")


def _held(step: StepResult) -> str:
    held, rows = _text(step, "capacity.held"), step.tables.get("hold", ())
    if held in {"within", "exceeded", *_UNDECIDED_HOLDS} and rows:
        seconds = show_duration(rows[0]["seconds"])
        if held == "within":
            return f"held for {seconds} within the objective"
        return f"not held for {seconds}: {_text(step, 'capacity.held_why')}"
    return held


def _not_offered(step: StepResult) -> str:
    rows = [row for row in step.tables.get("trials", ()) if row["ended"] == "not offered"]
    empty = [str(row["reason"]) for row in rows if not row["offered_per_second"]]
    if empty:
        return empty[0]
    if not rows:
        return ""
    least = min(row["asked_per_second"] for row in rows)
    return (
        f"{show_rate(least)} statements/s could not be sent: replayer's own clients had no "
        f"processor time left, so that the server may be able to do more"
    )


_NEEDLESS = "whatever it came to would not change that"


def _reasons(
    decider: Loaded | ResourceRow, load: Loaded, rows: Sequence[ResourceRow]
) -> Iterator[str]:
    """Yield the deciding reason with its numbers, then the other reasons."""
    missing = [row.resource for row in rows if row.fit is Fit.NOT_TESTED]
    untold = f"; not tested: {'; '.join(missing)}" if missing and decider.fit is Fit.FITS else ""
    yield f"{decider.words}{untold}"
    if isinstance(decider, ResourceRow) and load.multiple is None and not load.held:
        yield f"{load.words}" if load.words != _NO_LOAD.words else f"{load.words}: {_NEEDLESS}"
    elif decider is not load:
        yield f"under the load: {load.words}"
    if load.held:
        yield load.held
    if load.given_up and load.fit is Fit.FITS:
        yield f"the search for more was given up: {load.given_up}"
    for row in rows:
        worse = row.decides and row.fit in {Fit.DOES_NOT_FIT, Fit.UNCLEAR}
        if worse and row is not decider and row.kind != "load":
            yield f"{row.resource}: {row.fit.value}, {row.words}"


# Resource by resource


def _loaded(sizing: Sizing, step: StepResult | None, load: Loaded) -> Iterator[ResourceRow]:
    """Yield a row for each resource that the load used: the required amount and the amount here."""
    table = step.tables.get("resources", ()) if step is not None else ()
    trials = step.tables.get("trials", ()) if step is not None else ()

    def demands(name: str) -> list[float]:
        known = (_demand(name, row) for row in trials)
        return [one for one in known if one is not None]

    return demand.rows(table, demands, sizing.rate, load)


def _demand(name: str, trial: Mapping[str, Any]) -> float | None:
    """Return how much of a resource one statement of a trial needed; None if not measured."""
    used = [trial.get(column) for column in _USED.get(name, ())]
    done = trial.get("throughput_per_second") or 0.0
    if not used or not done or None in used:
        return None
    return sum(float(amount) for amount in used if amount is not None) / float(done)


def _limited(judgement: Judgement) -> ResourceRow:
    """Return the row of a resource for the verdict on a known limit of the target."""
    return ResourceRow(
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
