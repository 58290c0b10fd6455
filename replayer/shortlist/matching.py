"""Prediction of which machines of a catalogue fit, from the supply and demand of each resource.

A burst with credits is judged by the profile over time: the bucket of credits is full at the begin,
use above the baseline empties it, and use below fills it.  Processors are compared by their
measured speeds if those of both machines are known.  Otherwise a core of one machine may do up to
1.5 times the work of a core of the other, and the verdict is unclear if this factor decides it.
"""

import math
from collections.abc import Iterator, Mapping
from statistics import geometric_mean
from typing import Literal, NamedTuple

from replayer.load.cpu_burn import CPU_METRIC, MEMORY_METRIC
from replayer.model import Noun
from replayer.shortlist.demands import ESSENTIAL, Demand, Demands, Load
from replayer.shortlist.offers import Catalogue, DiskOffer, MachineOffer, Supply
from replayer.sizing import target
from replayer.sizing.target import Fit, Limit
from replayer.units import show, show_times, three

_CORES = 1.5
"""A core of one current server may do up to so many times the work of a core of another."""
_MEMORY = 0.5
"""A machine with less than this share of the required memory does not fit.  From this share up to
1 it is unclear: a server with smaller buffers reads more from its disk."""
_ALONE = {
    # resource -> its part that no memory saves
    "iops": "write_iops",
    "mbps": "write_mbps",
    "read_iops": "",
    "read_mbps": "",
}
_FITS = (Fit.FITS, Fit.UNCLEAR, Fit.DOES_NOT_FIT)


class Margin(Noun):
    """One resource of a machine: how much is required, how much there is, and the verdict."""

    resource: str
    title: str
    unit: str
    required: float
    here: float | None
    """The amount that there is; None where the catalogue does not have it.  Processors are counted
    as processors of the source if the speeds of both machines were measured."""
    multiple: float | None
    """The amount that there is over the required one; bursts count as long as credits last."""
    fit: Fit
    words: str
    """The calculation of the verdict, or the reason why it is not clear; without a full stop."""
    of: str = ""
    """The part that limits the resource: the name of the disk, or "the machine"."""
    limit: Limit | None = None
    """The limit, if its baseline and its credits are known; otherwise None."""


class MachineChoice(Noun):
    """A machine with one of its disks, and the verdict on it."""

    machine: str
    disk: str = ""
    fit: Fit
    known: Literal["predicted", "measured"]
    """`measured` if the speeds of its processors and of the source's were measured."""
    first: str
    """Title of the limiting resource; "" if nothing is known."""
    multiple: float | None
    """The amount of that resource here, divided by the required amount; None if not known."""
    price_month: float | None
    margins: tuple[Margin, ...]

    @property
    def title(self) -> str:
        """Return the names of the machine and, after a slash, of its disk."""
        return f"{self.machine} / {self.disk}" if self.disk else self.machine

    @property
    def why(self) -> tuple[str, ...]:
        """Return a sentence for each resource that is not proven to fit, the deciding one first."""
        open_ = [one for one in self.margins if one.fit is not Fit.FITS]
        return tuple(f"{one.title}: {one.words}" for one in sorted(open_, key=_severity))


def _severity(one: Margin) -> tuple[int, float]:
    """Return a sort key: first what does not fit, and of several what has the least room."""
    return -_FITS.index(one.fit), math.inf if one.multiple is None else one.multiple


def rank(
    catalogue: Catalogue, demands: Demands, speeds: Mapping[str, Mapping[str, float]]
) -> tuple[MachineChoice, ...]:
    """Return every machine with every disk that it may have: first those that fit, cheapest first.

    Then follow those with an unclear verdict, and last those that do not fit; of these, the one
    that lacks least comes first.  `speeds` is machine -> metric -> result of an earlier probe of
    processors or memory.
    """
    made = [
        _candidate(
            _Pair(machine, disk, demands, _speed(demands.probes, speeds.get(machine.name, {}))),
            _price(machine, disk, alone=not catalogue.prices_disks),
        )
        for machine in catalogue.machines
        for disk in catalogue.disks_of(machine) or (None,)
    ]
    return tuple(sorted(made, key=_order))


def _order(one: MachineChoice) -> tuple[int, float, float, str]:
    price = math.inf if one.price_month is None else one.price_month
    room = -(one.multiple or 0.0)
    place = _FITS.index(one.fit)
    # Of machines that do not fit, the one that lacks least is of more interest than the cheapest.
    return (place, room, price, one.title) if one.fit is Fit.DOES_NOT_FIT else (
        place, price, room, one.title
    )  # fmt: skip


class _Pair(NamedTuple):
    """A machine, one of its disks, what is required of both, and the speed of its cores."""

    machine: MachineOffer
    disk: DiskOffer | None
    demands: Demands
    speed: float | None


def _candidate(pair: _Pair, price: float | None) -> MachineChoice:
    margins = tuple(_margins(pair))
    known = [one for one in margins if one.multiple is not None]
    # Of those that decide the verdict, the one with the least room.
    first = min(known, key=_severity, default=None)
    return MachineChoice(
        machine=pair.machine.name,
        disk=pair.disk.name if pair.disk else "",
        fit=max((one.fit for one in margins), key=_FITS.index, default=Fit.UNCLEAR),
        known="predicted" if pair.speed is None else "measured",
        first=first.title if first else "",
        multiple=first.multiple if first else None,
        price_month=price,
        margins=margins,
    )


def _price(machine: MachineOffer, disk: DiskOffer | None, *, alone: bool) -> float | None:
    """Return the price of both, None if a part of it is not known; or of the machine `alone`."""
    if disk is not None and disk.with_machine_month is not None:
        return disk.with_machine_month + (disk.price_month or 0.0)
    if disk is None or alone or machine.price_month is None:
        return machine.price_month
    return None if disk.price_month is None else machine.price_month + disk.price_month


def _speed(there: Mapping[str, float], here: Mapping[str, float]) -> float | None:
    """Return how much work a core does `here`, as a multiple of a core `there`; None if unknown.

    Both are metric of a probe -> speed.
    """
    ratios = [
        here[metric] / there[metric]
        for metric in (CPU_METRIC, MEMORY_METRIC)
        if here.get(metric) and there.get(metric)
    ]
    return geometric_mean(ratios) if ratios else None


def _margins(pair: _Pair) -> Iterator[Margin]:
    for name, demand in pair.demands.rows.items():
        judged = [_judged(demand, one, pair) for one in _supplies(name, pair)]
        refuted = any(one.fit is Fit.DOES_NOT_FIT for one in judged)
        lacks_disk = name in {"iops", "mbps"} and pair.machine.needs_disk and pair.disk is None
        if name == "cpu" and judged:
            yield _of_cores(judged[0], pair)
        elif judged and (refuted or not lacks_disk):
            # Of the machine's limit and the disk's, the smaller one counts.
            yield _weighed(
                max(judged, key=lambda one: (_FITS.index(one.fit), -(one.multiple or 0.0))), pair
            )
        elif name in ESSENTIAL or lacks_disk:
            yield _margin(demand, Fit.UNCLEAR, _missing(name))
    for name in ESSENTIAL:
        if name not in pair.demands.rows:
            yield Margin(
                resource=name, title=_TITLES[name], unit="", required=0.0, here=None,
                multiple=None, fit=Fit.UNCLEAR, words="not in each profile, so not compared",
            )  # fmt: skip


_TITLES = {"cpu": "processors", "memory": "memory", "iops": "reads and writes of the disk"}


def _missing(name: str) -> str:
    if name in {"iops", "mbps"}:
        return "no disk is named: give one with --disk gp3:500G, or in a CSV"
    return "the catalogue does not have it"


class _PartSupply(NamedTuple):
    """The supply of one resource by a part: `of` is the disk's name, or "the machine"."""

    of: str
    supply: Supply
    request_bytes: int | None
    """A request of the disk that is larger counts as several; None where each counts as one."""


def _supplies(name: str, pair: _Pair) -> Iterator[_PartSupply]:
    machine, disk, counts = pair.machine, pair.disk, name in target.COUNTED
    of_disk = disk.request_bytes if disk is not None and counts else None
    if name in machine.supplies:
        size = machine.request_bytes or of_disk
        yield _PartSupply("the machine", machine.supplies[name], size if counts else None)
    if disk is not None and name in disk.supplies:
        yield _PartSupply(disk.name, disk.supplies[name], of_disk)


def _margin(demand: Demand, fit: Fit, words: str) -> Margin:
    return Margin(
        resource=demand.name, title=demand.title, unit=demand.unit, required=demand.required,
        here=None, multiple=None, fit=fit, words=words,
    )  # fmt: skip


def _judged(demand: Demand, part: _PartSupply, pair: _Pair) -> Margin:
    """Return the verdict on one resource, by the amount and the credits of a part's supply."""
    if demand.name == "cpu" and pair.speed is not None:
        part = part._replace(supply=_times(part.supply, pair.speed))
    supply = part.supply
    demand = _counted(demand, part.request_bytes, pair)
    made = _margin(demand, Fit.UNCLEAR, "").model_copy(update={"here": supply.burst, "of": part.of})
    if supply.bursts:
        return _of_credits(made, demand, part, pair)
    fit, multiple = _sides(demand, supply.burst)
    needed, here = show(demand.required, demand.unit), show(supply.burst, demand.unit)
    words = f"{needed} of {here}, {show_times(multiple)} times"
    if fit is not Fit.FITS and demand.least < demand.required:
        words = f"{show(demand.least, demand.unit)} to {needed} of {here}"
    return made.model_copy(update={"fit": fit, "multiple": multiple, "words": words})


def _times(supply: Supply, speed: float) -> Supply:
    base, held = supply.baseline, supply.credits
    return Supply(
        baseline=None if base is None else base * speed,
        burst=supply.burst * speed,
        credits=None if held is None else held * speed,
    )


def _sides(demand: Demand, here: float) -> tuple[Fit, float]:
    here *= 1 + target.ROUNDED
    fit = Fit.FITS if here >= demand.required else Fit.UNCLEAR
    return (Fit.DOES_NOT_FIT if here < demand.least else fit), here / demand.required


def _counted(demand: Demand, size: int | None, pair: _Pair) -> Demand:
    """Return the demand with each request of more than `size` bytes counted as several.

    If `size` is None, the demand is returned as it is.
    """
    if size is None:
        return demand
    counted = [
        target.count_requests(need, wanted, profile, size)
        for wanted, profile in (pair.demands.exact and [pair.demands.exact]) or pair.demands.alone
        if (need := wanted.need(demand.name)) is not None
    ]
    required = max(demand.least, sum(counted))
    if pair.demands.exact is not None and demand.least >= demand.required:
        return demand._replace(required=required, least=required)
    return demand._replace(required=required, least=_least_counted(demand, size, pair.demands))


def _least_counted(demand: Demand, size: int, demands: Demands) -> float:
    """Return the largest number of counted requests that any database needs alone."""
    alone = (
        target.count_requests(need, wanted, profile, size)
        for wanted, profile in demands.alone
        if (need := wanted.need(demand.name)) is not None
    )
    return max(demand.least, *alone)


def _of_credits(made: Margin, demand: Demand, part: _PartSupply, pair: _Pair) -> Margin:
    """Return `made` with the verdict on a supply that is higher while credits last.

    If the credits and the load over time are known, the use of credits over time decides.  If not,
    the supply fits if its baseline meets the demand, does not fit if even the higher amount is too
    small, and is unclear in between.
    """
    supply, exact = part.supply, pair.demands.exact
    base = supply.baseline
    fit, multiple = _sides(demand, supply.burst)
    most = show(supply.burst, demand.unit)
    needed = show(demand.required, demand.unit)
    if fit is Fit.DOES_NOT_FIT:
        words = f"{needed} of {most}, which is too little even while it lasts"
        return made.model_copy(update={"fit": fit, "multiple": multiple, "words": words})
    if base is None:
        words = f"{needed} of at most {most}; how much of it there is forever, is not in its list"
        return made.model_copy(update={"words": words})
    limit = Limit(
        resource=demand.name, baseline=base, burst=supply.burst, credits=supply.credits or 0.0,
        request_bytes=part.request_bytes,
    )  # fmt: skip
    if supply.credits is not None and exact is not None:
        verdict = _by_credits(limit, pair.demands, exact)
        return made.model_copy(
            update={"fit": verdict.fit, "multiple": verdict.multiple, "words": verdict.words,
                    "limit": limit}
        )  # fmt: skip
    fit, multiple = _sides(demand, base)
    if fit is Fit.FITS:
        words = f"{needed} of {show(base, demand.unit)}"
        return made.model_copy(update={"fit": fit, "multiple": multiple, "words": words})
    words = f"{needed} over a base of {show(base, demand.unit)}; how long that lasts is not known"
    return made.model_copy(update={"fit": Fit.UNCLEAR, "multiple": multiple, "words": words})


def _by_credits(limit: Limit, demands: Demands, most: Load) -> target.Judgement:
    """Return the verdict on a limit: unclear if only the upper bound `most` does not fit."""
    verdict = target.judge_limit(limit, *most)
    least = demands.known
    if verdict.fit is not Fit.DOES_NOT_FIT or least is None or least is most:
        return verdict
    if target.judge_limit(limit, *least).fit is Fit.DOES_NOT_FIT:
        return verdict
    words = f"{verdict.words}, if a profile without values needs its most then"
    return verdict.model_copy(update={"fit": Fit.UNCLEAR, "words": words})


def _of_cores(one: Margin, pair: _Pair) -> Margin:
    """Return the verdict on processors; `unclear` if it depends on speeds that are not known."""
    if one.multiple is None:
        return one
    if pair.speed is not None:
        words = f"{one.words}; a core does {three(pair.speed)} times as much as at the source"
        return one.model_copy(update={"words": words})
    most = one.multiple * _slack(one, pair)
    enough = one.multiple * (1 + target.ROUNDED) >= _CORES
    if one.fit is Fit.UNCLEAR or most < 1 / _CORES or enough:
        return one
    words = (
        f"{one.words}; a core may do {_CORES:g} times the work of another: probes of both machines "
        f"would decide"
    )
    return one.model_copy(update={"fit": Fit.UNCLEAR, "words": words})


def _weighed(one: Margin, pair: _Pair) -> Margin:
    """Return the verdict; `does not fit` becomes `unclear` if another resource may make up for it.

    More reads of the disk may make up for less memory, and more memory for a slower disk.
    """
    if one.fit is not Fit.DOES_NOT_FIT:
        return one
    if one.resource == "memory":
        if one.multiple is None or one.multiple * _slack(one, pair) < _MEMORY:
            return one
        words = f"{one.words}: with smaller buffers it would read more from its disk"
        return one.model_copy(update={"fit": Fit.UNCLEAR, "words": words})
    if one.resource not in _ALONE or not _larger(pair) or one.here is None:
        return one
    writes = pair.demands.rows.get(_ALONE[one.resource])
    sizes = (part.request_bytes for part in _supplies(one.resource, pair) if part.of == one.of)
    if writes is not None:
        fit, _ = _sides(_counted(writes, next(sizes, None), pair), one.here)
        if fit is Fit.DOES_NOT_FIT:
            return one
    words = f"{one.words}; its memory is larger than at the source, which may save reads"
    return one.model_copy(update={"fit": Fit.UNCLEAR, "words": words})


def _slack(one: Margin, pair: _Pair) -> float:
    """Return the upper bound of what is required over the lower bound; 1 where it is exact."""
    demand = pair.demands.rows[one.resource]
    return demand.required / demand.least


def _larger(pair: _Pair) -> bool:
    """Return whether the machine has more memory than the source; True if either is not known."""
    here, there = pair.machine.supplies.get("memory"), pair.demands.source_memory
    return here is None or there is None or here.burst > there
