"""Limits of a target that are known and cannot be measured there: `--target FILE`.

A cloud often grants a base rate, and a higher rate for as long as credits last.  Credits are
earned at the base rate while less is used.  A measurement of minutes sees only the higher rate.
For example, a gp2 volume of 100 GiB holds 5.4 million credits: it gives 3,000 IOPS for half an
hour, over a base of 300.  A file of such limits is TOML, all of it optional:

    name = "gp2, 100 GiB"

    [volume]
    baseline_iops = 300
    burst_iops = 3000         # while there are credits
    iops_credits = 5_400_000  # requests above the base rate that a full bucket pays for
    baseline_mbps = 128       # 10^6 bytes a second; burst_mbps and mbps_credits (10^6 bytes) too
    request_size = "256k"     # a larger request counts as several

    [cpu]
    cores = 2                 # the number of cores while there are credits
    baseline_cores = 0.4      # a t3.medium's 20 % of each
    credits = 576             # a credit is a minute of one core

    [memory]
    size = "4G"

    [network]
    baseline_mbps = 32        # burst_mbps and mbps_credits too; of the larger of both directions

Of several files, such as one of a disk and one of an instance, each limit applies.
"""

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from pydantic import AfterValidator, ConfigDict, Field, ValidationError, model_validator

from replayer import assets
from replayer.analysis.profiles import usage
from replayer.analysis.profiles.rolling_windows import Numbers
from replayer.analysis.profiles.usage import NAMED
from replayer.errors import Impossible, nearest
from replayer.model import Noun
from replayer.results.profile import ResourceProfile
from replayer.sizing.requirement import Need, Requirement, without_others
from replayer.units import Size, show, show_duration

_MINUTE = 60.0
COUNTED = frozenset({"iops", "read_iops", "write_iops"})
"""Resources of which a disk may count a large request as several."""
_MOSTLY = 0.95
"""Less than this share of a day, or of the time from the first row to the last, is too little."""
_TIMES = 1e6
"""The largest multiple that is computed; a larger one is reported as this."""
_LARGEST = 1e15
ROUNDED = 1e-6
"""Share by which a limit may be too small: rounding errors of growth and headroom are less than it,
and a profile's file keeps only seven digits of a value."""


def _finite(value: float) -> float:
    if not value <= _LARGEST:
        raise ValueError("it must be a number that a machine has")
    return value


Rate = Annotated[float, Field(gt=0), AfterValidator(_finite)]


class _Strict(Noun):
    model_config = ConfigDict(use_attribute_docstrings=True)

    BUCKETS: ClassVar[tuple[tuple[str, str, str], ...]] = ()
    """The keys of each bucket of credits: its burst rate, its base rate and its credits."""

    @model_validator(mode="after")
    def _complete(self) -> "_Strict":
        for burst, baseline, credits_ in self.BUCKETS:
            rate, base, held = (getattr(self, name) for name in (burst, baseline, credits_))
            if held is not None and (rate is None or base is None):
                raise ValueError(f"{credits_} needs {baseline} and {burst} beside it")
            if rate is not None and base is not None and rate < base:
                raise ValueError(f"{burst} is below {baseline}: it is the rate while credits last")
            if rate is not None and base is not None and rate > base and held is None:
                raise ValueError(f"{burst} needs {credits_}: how long it lasts follows from them")
        return self


class Volume(_Strict):
    """Limits of a target's disk: `baseline` rates forever, `burst` rates while credits last."""

    BUCKETS = (("burst_iops", "baseline_iops", "iops_credits"),
                ("burst_mbps", "baseline_mbps", "mbps_credits"))  # fmt: skip

    baseline_iops: Rate | None = None
    burst_iops: Rate | None = None
    iops_credits: Rate | None = None
    baseline_mbps: Rate | None = None
    burst_mbps: Rate | None = None
    mbps_credits: Rate | None = None
    request_size: Annotated[Size, Field(gt=0)] | None = None


class Cpu(_Strict):
    """Limits of a target's processors: all `cores` while credits last, `baseline_cores` forever."""

    BUCKETS = (("cores", "baseline_cores", "credits"),)

    cores: Rate
    baseline_cores: Rate | None = None
    credits: Rate | None = None


class Memory(_Strict):
    """Size of a target's memory."""

    size: Annotated[Size, Field(gt=0)]


class Network(_Strict):
    """Limits of a target's network: the baseline forever, the burst rate while credits last."""

    BUCKETS = (("burst_mbps", "baseline_mbps", "mbps_credits"),)

    baseline_mbps: Rate | None = None
    burst_mbps: Rate | None = None
    mbps_credits: Rate | None = None


class SizingTarget(_Strict):
    """Known limits of a target (the machine that is sized), as read from its file."""

    name: str = ""
    volume: Volume | None = None
    cpu: Cpu | None = None
    memory: Memory | None = None
    network: Network | None = None


class Fit(StrEnum):
    """The verdict on a machine or one of its resources; `unclear` if neither side is proven."""

    FITS = "fits"
    DOES_NOT_FIT = "does not fit"
    UNCLEAR = "unclear"
    NOT_TESTED = "not tested"
    """Only the verdict on a single need, never on a machine: there is no evidence on that need."""


class Limit(Noun):
    """A rate that may be used forever, and a higher one for as long as credits last."""

    resource: str
    """A name of usage.RESOURCES."""
    baseline: float | None
    """None where it is not known."""
    burst: float
    credits: float = 0.0
    """Credits of a full bucket, in units of the rate times seconds."""
    request_bytes: int | None = None
    """The disk counts a larger request as several; None where each counts as one."""

    @property
    def bursts(self) -> bool:
        """Return whether a higher rate than the baseline may be used while credits last."""
        return self.burst > self.proven

    @property
    def proven(self) -> float:
        """Return the rate that may be used forever: 0 where the baseline is not known."""
        return self.baseline or 0.0

    def lasts(self, rate: float) -> float:
        """Return for how many seconds a full bucket of credits allows `rate`.

        It is infinite for rates up to the baseline, and 0 for rates above the burst rate.
        """
        if rate <= self.proven:
            return math.inf
        return self.credits / (rate - self.proven) if rate <= self.burst else 0.0


class Judgement(Noun):
    """The verdict on whether a known limit of a target meets a requirement."""

    resource: str
    title: str
    unit: str
    required: float | None
    """None where the profile does not know it."""
    limit: Limit
    fit: Fit
    multiple: float | None
    """The multiple of the requirement that the limit allows."""
    words: str
    """The arithmetic, without a full stop."""


def load(path: Path) -> SizingTarget:
    """Return the target in a TOML file; raise Impossible, with the path, if it is invalid."""
    try:
        return SizingTarget.model_validate(assets.toml(path))
    except ValidationError as error:
        raise Impossible(f"{path}: {_explain(error)}") from error


def _explain(error: ValidationError) -> str:
    first = error.errors()[0]
    where = [str(part) for part in first["loc"]]
    section = f"[{'.'.join(where[:-1])}] " if where[:-1] else ""
    key = where[-1] if where else ""
    if first["type"] == "extra_forbidden":
        return f"{section}{key}: there is no such key{nearest(key, _keys(where[:-1]))}"
    if first["type"] == "missing":
        return f"{section}the key {key!r} is missing"
    wanted = str(first["msg"]).removeprefix("Value error, ").removeprefix("Input ")
    return f"{section}{key}: {wanted}"


_SECTIONS: dict[str, type[_Strict]] = {
    "volume": Volume,
    "cpu": Cpu,
    "memory": Memory,
    "network": Network,
}


def _keys(section: list[str]) -> list[str]:
    kind: type[_Strict] = _SECTIONS.get(section[0], SizingTarget) if section else SizingTarget
    return list(kind.model_fields)


def limits(target: SizingTarget) -> tuple[Limit, ...]:
    """Return the limits of a target, each with the name and in the unit of a profile's resource."""
    made = []
    if (disk := target.volume) is not None:
        iops = _limit("iops", disk.baseline_iops, disk.burst_iops, disk.iops_credits)
        made.append(iops and iops.model_copy(update={"request_bytes": disk.request_size}))
        made.append(_limit("mbps", disk.baseline_mbps, disk.burst_mbps, disk.mbps_credits))
    if (cpu := target.cpu) is not None:
        credits_ = None if cpu.credits is None else cpu.credits * _MINUTE
        made.append(_limit("cpu", cpu.baseline_cores or cpu.cores, cpu.cores, credits_))
    if target.memory is not None:
        made.append(_limit("memory", float(target.memory.size), None, None))
    if (net := target.network) is not None:
        rates = (net.baseline_mbps, net.burst_mbps, net.mbps_credits)
        made += [_limit(name, *rates) for name in ("net_in", "net_out")]
    return tuple(one for one in made if one is not None)


def _limit(
    name: str, baseline: float | None, burst: float | None, credits_: float | None
) -> Limit | None:
    most = baseline if burst is None else burst
    if most is None:
        return None
    return Limit(resource=name, baseline=baseline, burst=most, credits=credits_ or 0.0)


def judge(
    target: SizingTarget, requirement: Requirement, profile: ResourceProfile, *, of: str = ""
) -> tuple[Judgement, ...]:
    """Return for each limit of a target the verdict on whether it meets a profile's requirement.

    `of` is the target's name if there are several targets; otherwise it is "".

    The bucket of credits is assumed to be full at the begin of the profile.  The profile's load,
    times growth and headroom, then spends and earns credits.  Time for which the profile has no
    values neither spends nor earns any; the verdict is unclear if that time could change it.
    """
    judged = (judge_limit(limit, requirement, profile) for limit in limits(target))
    return tuple(
        one.model_copy(update={"title": f"{one.title} of {of}"}) if of else one for one in judged
    )


def judge_limit(limit: Limit, requirement: Requirement, profile: ResourceProfile) -> Judgement:
    """Return the verdict on whether one known limit of a target meets a profile's requirement.

    The bucket of credits is assumed to be full at the begin of the profile.
    """
    resource = NAMED[limit.resource]
    name = (
        "server_cpu" if limit.resource == "cpu" and not requirement.need("cpu") else resource.name
    )
    need = requirement.need(name)
    size = limit.request_bytes if name in COUNTED else None
    profile = without_others(profile)
    spent = _spent(profile if size is None else _as_counted(profile, size), name)
    if need is None or not len(spent.demand):
        return _without(limit, f"{resource.title}: not in the profile, so not compared")
    required = need.required if size is None else count_requests(need, requirement, profile, size)
    asked = _asked(required, requirement.factor if resource.load else 1.0, limit)
    if limit.baseline is None and 0 < asked.rate <= limit.burst:
        words = f"{show(asked.rate, resource.unit)} of at most {show(limit.burst, resource.unit)}; "
        return _without(limit, f"{words}for how long is not known, without a base rate", asked.rate)
    multiple = _multiple(limit, asked, spent)
    fit, doubt = _fit(limit, asked, spent, profile, multiple)
    return Judgement(
        resource=limit.resource,
        title=resource.title,
        unit=resource.unit,
        required=asked.rate,
        limit=limit,
        fit=fit,
        multiple=multiple,
        words=_words(limit, resource.unit, asked, spent, doubt),
    )


def _without(limit: Limit, words: str, required: float | None = None) -> Judgement:
    resource = NAMED[limit.resource]
    return Judgement(
        resource=limit.resource, title=resource.title, unit=resource.unit, required=required,
        limit=limit, fit=Fit.UNCLEAR, multiple=None, words=words,
    )  # fmt: skip


class _Asked(NamedTuple):
    """The required rate of a resource, in the resource's unit."""

    rate: float
    factor: float
    """Growth and headroom, by which the profile's rates are multiplied."""


def _asked(required: float, factor: float, limit: Limit) -> _Asked:
    """Return what is asked of a limit; what is above a rate of it by rounding only is that rate.

    `factor` is growth and headroom.
    """
    for rate in (limit.proven, limit.burst):
        if rate < required <= rate * (1 + ROUNDED):
            return _Asked(rate, factor * rate / required)
    return _Asked(required, factor)


@dataclass(frozen=True, eq=False)
class _Spent:
    """A resource's rates over a profile, counted in the way in which they use up credits."""

    demand: Numbers
    seconds: Numbers
    ends: Numbers

    def runs_out(self, limit: Limit, factor: float, *, are_gaps_idle: bool = False) -> float | None:
        """Return when a bucket of credits, full at the begin, is empty; None if it never is.

        The time is in seconds since 1970.  `factor` multiplies the profile's rates.  Time without
        rows earns no credits, unless `are_gaps_idle`.
        """
        gaps = np.diff(self.ends, prepend=self.ends[0] - self.seconds[0]) - self.seconds
        earned = limit.proven * np.maximum(gaps, 0.0) * are_gaps_idle
        change = (limit.proven - factor * self.demand) * self.seconds
        level = np.cumsum(np.column_stack((earned, change)))
        # Credits that are earned while the bucket is full are lost.
        lost = np.maximum.accumulate(np.maximum(level, 0.0))
        empty = np.flatnonzero(limit.credits + level - lost < -1e-6 * limit.credits)
        return float(self.ends[empty[0] // 2]) if empty.size else None


def _spent(profile: ResourceProfile, name: str) -> _Spent:
    rows = usage.signal(profile, NAMED[name])
    return _Spent(demand=rows.values, seconds=rows.lengths, ends=rows.ends)


def _as_counted(profile: ResourceProfile, request_bytes: int) -> ResourceProfile:
    """Return a profile with the disk's reads and writes as a disk counts them.

    The disk counts a request of more than `request_bytes` as several.  Reads and writes are counted
    apart: small reads are not made fewer by large writes.  In rows without bytes, requests have the
    mean size of all others of the profile.
    """
    ratios = usage.ratios(profile)
    columns = dict(profile.columns)
    for kind, size in (("read", ratios.read_bytes), ("write", ratios.write_bytes)):
        requests, megabytes = (profile.column(f"{kind}_{unit}") for unit in ("iops", "mbps"))
        bytes_ = np.where(np.isfinite(megabytes), megabytes * 1e6, requests * (size or 0.0))
        columns[f"{kind}_iops"] = np.maximum(requests, bytes_ / request_bytes)
    return replace(profile, columns=columns)


def count_requests(
    need: Need, requirement: Requirement, profile: ResourceProfile, request_bytes: int
) -> float:
    """Return how many requests a second a profile requires of a disk, as the disk counts them.

    `need` is the requirement's need of one of COUNTED.  The disk counts a request of more than
    `request_bytes` as several.  The windows are formed over counted requests, without those of
    other programs.
    """
    own = need.measured - need.others
    if not own > 0:
        return need.required
    resource = NAMED[need.name]
    most = usage.moment(
        _as_counted(without_others(profile), request_bytes), resource,
        percentile=requirement.percentile, window=requirement.asked_window,
    )  # fmt: skip
    counted = None if most is None else most.value(resource)
    return need.required * max(1.0, (counted or 0.0) / own)


def _fit(
    limit: Limit, asked: _Asked, spent: _Spent, profile: ResourceProfile, multiple: float
) -> tuple[Fit, str]:
    """Return the verdict on a limit, and the reason for a doubt about credits; "" without."""
    if multiple >= 1:
        doubt = _unseen(profile, spent) if asked.rate > limit.proven else ""
        return Fit.UNCLEAR if doubt else Fit.FITS, doubt
    lasts = asked.rate <= limit.burst
    if lasts and spent.runs_out(limit, asked.factor, are_gaps_idle=True) is None:
        return Fit.UNCLEAR, ", unless it was filled again in time that is not known"
    return Fit.DOES_NOT_FIT, ""


def _unseen(profile: ResourceProfile, spent: _Spent) -> str:
    """Return why the profile does not prove how many credits a day spends; "" if it does."""
    whole = profile.whole_seconds
    if whole < _MOSTLY * usage.DAY:
        return "shorter than a day, does not spend: a day may"
    share = float(spent.seconds.sum()) / whole
    if share < _MOSTLY:
        return f"of which only {share:.1%} is known, does not spend: the rest may"
    return ""


def _multiple(limit: Limit, asked: _Asked, spent: _Spent) -> float:
    """Return the highest multiple of the requirement that a limit and its credits allow.

    It is at most a million.
    """
    if asked.rate <= 0:
        return _TIMES
    most = min(_TIMES, limit.burst / asked.rate)
    if (
        limit.baseline is None
        or not limit.bursts
        or spent.runs_out(limit, asked.factor * most) is None
    ):
        return most
    low, high = 0.0, most
    for _ in range(40):
        middle = (low + high) / 2
        if spent.runs_out(limit, asked.factor * middle) is None:
            low = middle
        else:
            high = middle
    return low


def _words(limit: Limit, unit: str, asked: _Asked, spent: _Spent, doubt: str) -> str:
    required = asked.rate
    base, need = show(limit.proven or limit.burst, unit), show(required, unit)
    empty = spent.runs_out(limit, asked.factor) if limit.bursts else None
    at = "" if empty is None else usage.clock(empty)
    when = at and f"would be empty at {at} of the profile{doubt}"
    if required <= limit.proven:
        peaks = f", but at higher peaks a full bucket {when}" if when else ""
        return f"{need} of {base}{peaks}"
    if not limit.bursts:
        return f"{need} of {base}, which is too little"
    if required > limit.burst:
        return f"{need} of {show(limit.burst, unit)}, which is too little even with credits"
    lasts = show_duration(limit.lasts(required))
    held = f"{need} over a base of {base}: a full bucket lasts {lasts} of it"
    if when:
        return f"{held}, and {when}"
    if doubt:
        return f"{held}, which the profile, {doubt}"
    return f"{held}, which the profile never spends"
