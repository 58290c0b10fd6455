"""The report of a profile: what the busiest window needed, and how reliable this is."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from replayer.analysis.profiles import confidence, rolling_windows, usage
from replayer.analysis.profiles.confidence import Confidence
from replayer.analysis.profiles.rolling_windows import PERCENTILES, WindowPercentiles
from replayer.analysis.profiles.usage import (
    NAMED,
    Completeness,
    Grade,
    ProfileWindow,
    Ratios,
    Usage,
)
from replayer.errors import Impossible, NotFound, nearest
from replayer.report.document import (
    Bullets,
    Document,
    Facts,
    Part,
    Section,
    SparkLines,
    Table,
)
from replayer.report.documents.profile_charts import (
    edges,
    exceedance,
    name_length,
    name_resource,
    over_time,
)
from replayer.report.documents.sizing import fitting_size, listed, margin_words
from replayer.report.sanitize import sanitize
from replayer.results.profile import ResourceProfile
from replayer.run.display import Sentence, Tone
from replayer.sizing import requirement
from replayer.sizing.recommendation import RecommendedSize, recommend
from replayer.sizing.requirement import Need, Requirement
from replayer.units import show, show_count, show_duration, show_size

_MOST_TABLES = 8
_MOST_GAPS = 5
_LEVELS = (0.25, 0.5, 0.75, 0.9)
"""Shares of a resource's maximum; the report shows the minutes a day above each of them."""
_TONES = {Grade.WHOLE: Tone.GOOD, Grade.PARTIAL: Tone.UNCLEAR, Grade.POOR: Tone.BAD}
_WATCHED = ("transactions", "cpu", "iops", "mbps", "sessions_active")
_POINTS = 400
_WHOLE_DAY = 0.95
"""A profile that covers this share of a day counts as a whole day."""
_GRADES = {
    Grade.WHOLE: "all that decides is known: enough for a verdict",
    Grade.PARTIAL: "enough for a verdict, which leaves out what is named here",
    Grade.POOR: "too little is known for a verdict that one can rely on",
}
_HEADINGS = ("", *(f"p{p:g}" for p in PERCENTILES), "most", "at")
_LEVEL_HEADINGS = ("", "most", *(f"> {share:.0%}" for share in _LEVELS))
_BY = {"live": "replayer", "iostat": "iostat", "sadf": "sar", "csv": "a CSV"}
_HEADLINED = ("transactions", "server_cpu", "cpu", "iops", "mbps")
_SHORT = {
    "transactions": "transactions/s",
    "server_cpu": "of CPU",
    "cpu": "of the host's CPU",
    "iops": "requests/s of the disk",
    "mbps": "of the disk",
}


class UsageLevel(NamedTuple):
    """The minutes a day in which the use of a resource is above a level."""

    title: str
    unit: str
    level: float
    minutes: float
    whole: float
    """The minutes in which the use is known: those of a day, or fewer in a shorter profile."""


class ProfileSummary(NamedTuple):
    """The content of a report on a profile, before it is put into words."""

    profile: ResourceProfile
    usages: tuple[Usage, ...]
    complete: Completeness
    ratios: Ratios
    moment: ProfileWindow | None
    leading: str
    """The title of the resource that decided which window is the busiest one (`moment`)."""
    levels: tuple[UsageLevel, ...]
    """The levels that the user requested, with the minutes above each."""
    confidence: Confidence
    wanted: Requirement | None
    """The requirement with the margin that the user asked for; None if none follows."""
    reason: str = ""
    """The reason why no requirement follows, with a remedy; "" if one does."""

    @property
    def recommendation(self) -> tuple[RecommendedSize, ...]:
        """Return the resources of a machine that would fit; () if there is no requirement."""
        return () if self.wanted is None else recommend(self.wanted)


def summary(
    profile: ResourceProfile,
    above: Sequence[str] = (),
    *,
    growth: float = 1.0,
    headroom: float = 0.0,
    now: float | None = None,
) -> ProfileSummary:
    """Return the summary of a profile; `above` are levels, such as `read_iops=3000`.

    `growth` is a factor of the load, and `headroom` a share that is added. `now` is in seconds
    since 1970; None is the end of the profile.

    Raises NotFound for an unknown resource, and Impossible for a level that is not a number or for
    a resource that the profile does not have.
    """
    own = requirement.without_others(profile)
    leader = usage.leading(own)
    most = usage.moment(own, leader) if leader else None
    wanted, reason = _wanted(profile, growth, headroom)
    return ProfileSummary(
        profile=profile,
        usages=usage.usages(profile),
        complete=usage.completeness(profile),
        ratios=usage.ratios(profile),
        moment=usage.at(profile, most.begin, most.end) if most else None,
        leading=leader.title if leader else "",
        levels=tuple(_level(profile, text) for text in above),
        confidence=confidence.rate(profile, float(profile.ends[-1]) if now is None else now),
        wanted=wanted,
        reason=reason,
    )


def _wanted(
    profile: ResourceProfile, growth: float, headroom: float
) -> tuple[Requirement | None, str]:
    """Return the requirement that follows from a profile and "", or None and why none follows.

    `growth` is a factor of the load, and `headroom` a share that is added.  Raises Impossible if
    one of the two is out of range.
    """
    requirement.check_margin(growth, headroom)
    try:
        return requirement.of(profile, growth=growth, headroom=headroom), ""
    except Impossible as error:
        return None, str(error)


def _level(profile: ResourceProfile, text: str) -> UsageLevel:
    name, _, number = text.partition("=")
    if name not in NAMED:
        raise NotFound(f"there is no resource {sanitize(name)!r}{nearest(name, NAMED)}")
    try:
        level = float(number)
    except ValueError as error:
        raise Impossible(f"--above is {sanitize(text)!r}: it must be as in {name}=1000") from error
    rows = usage.level_windows(profile, NAMED[name])
    if not rows.shares.any():
        raise Impossible(f"the profile does not know {NAMED[name].title}")
    resource = NAMED[name]
    return UsageLevel(
        resource.title,
        resource.unit,
        level,
        rolling_windows.minutes_above(rows, level),
        rolling_windows.minutes_in_all(rows),
    )


def document(one: ProfileSummary) -> Document:
    """Return the report of a profile: the needs of its busiest window, the use of each resource."""
    complete, profile = one.complete, one.profile
    words = f"Confidence: {one.confidence.words}"
    margin = "" if one.wanted is None else margin_words(one.wanted)
    known = [(part.title, f"{part.share:.1%}", part.without) for part in complete.parts]
    table = Table(("", "known", "where it is not"), known, numbers=(1,))
    parts: list[Part] = [
        Facts(_facts(one)),
        Sentence(f"{complete.grade.value}: {_GRADES[complete.grade]}", _TONES[complete.grade]),
        Bullets(complete.reasons),
        Sentence(_coverage(complete), Tone.QUIET),
        Section(
            "For what share of the time each thing is known",
            [table],
            is_folded=True,
            is_for_page=True,
        ),
        *over_time(profile),
        *(_windows(one.usages, length) for length in rolling_windows.WINDOWS),
        *_moment(one),
        *fitting_size(one.recommendation, f"with {margin}"),
        *listed(words, one.confidence.reasons),
        _minutes(one),
        *_work(one),
        _sparks(one),
    ]
    return Document(
        _title(profile),
        Sentence(_headline(one)),
        parts,
        notes=_notes(profile),
        is_answer_last=True,
        data=list(_data(one)),
    )


def _title(profile: ResourceProfile) -> str:
    """Return the title of the report: engine, version and place of the source."""
    source = profile.source
    what = " ".join(word for word in (source.engine, source.version) if word)
    return " · ".join(word for word in ("profile", what, source.place) if word)


def _facts(one: ProfileSummary) -> list[tuple[str, str]]:
    """Return pairs of label and text about the profile as a whole."""
    profile, source = one.profile, one.profile.source
    begin = profile.ends[0] - profile.spans[0]
    known = profile.seconds / profile.whole_seconds if profile.whole_seconds else 0.0
    machine = [
        show(source.cores, "cores") if source.cores else "",
        f"{show_size(source.memory_bytes)} of memory" if source.memory_bytes else "",
        f"device {source.device}" if source.device else "",
        f"{show_size(source.database_bytes)} of data" if source.database_bytes else "",
    ]
    long = f"{show_duration(profile.whole_seconds)}, {min(known, 1.0):.1%} of it known"
    pairs = [
        ("taken", f"{usage.clock(begin)} to {usage.clock(profile.ends[-1])}"),
        ("of", f"{long}, by {_BY[source.kind]}"),
        ("databases", "all of the server" if source.kind == "live" else ""),
        ("a value is", f"the average of {_averaged(profile)}"),
        ("machine", ", ".join(word for word in machine if word)),
    ]  # fmt: skip
    return [(label, words) for label, words in pairs if words]


def _averaged(profile: ResourceProfile) -> str:
    """Return how long a row is; a row of a twentieth of the time may be longer."""
    usual = profile.source.averaged_seconds
    longest = rolling_windows.quantile(profile.spans, profile.spans, 95.0)
    more = f" to {show_duration(longest)}" if longest > 1.1 * usual else ""
    return f"{show_duration(usual)}{more}"


def _headline(one: ProfileSummary) -> str:
    """Return the answer in a sentence: what the busiest window needed, and how sure this is."""
    wanted = one.wanted
    sure = f"Confidence {one.confidence.words}"
    if wanted is None or one.moment is None:
        return f"Nothing follows from this profile, as {sanitize(one.reason)}. {sure}."
    needs = [need for name in _HEADLINED if (need := wanted.need(name)) is not None]
    words = ", ".join(_needed(need) for need in needs)
    words += (
        " (without what others read there)"
        if any(requirement.OTHERS_READ in one for one in wanted.notes)
        else ""
    )
    when = usage.clock(one.moment.begin)
    why = f": {one.confidence.reasons[0]}" if one.confidence.reasons else ""
    return f"At its busiest ({when}) it needed {words}. {sure}{why}."


def _needed(need: Need) -> str:
    """Return the measured use of a resource in words, such as `400 transactions/s`.

    The use by programs other than the database (`need.others`) is subtracted.
    """
    rate = need.unit == "1/s"
    own = need.measured - need.others
    amount = show_count(own) if rate else show(own, need.unit)
    return f"{amount} {_SHORT[need.name]}"


def _coverage(complete: Completeness) -> str:
    """Return a sentence with the share of the time for which each quantity is known."""
    shares = (f"{part.title} {part.share:.0%}" for part in complete.parts)
    return f"known of the time: {', '.join(shares)}"


def _windows(usages: Sequence[Usage], length: float) -> Section:
    """Return a section with each resource's percentiles over windows of `length` seconds."""
    known = ((one, one.spreads[length]) for one in usages if length in one.spreads)
    rows = [
        [name_resource(one.resource), *_numbers(one, spread), usage.clock(spread.most_end)]
        for one, spread in known
    ]
    table = Table(_HEADINGS, rows, numbers=range(1, len(_HEADINGS)))
    sentences = [Sentence(words, Tone.QUIET) for words in _reasons(usages, length)]
    return Section(f"Windows of {name_length(length)}", [table, *sentences])


def _numbers(one: Usage, spread: WindowPercentiles) -> Iterator[str]:
    form = show_size if one.resource.unit == "bytes" else show_count
    return (form(value) for value in (*spread.percentiles, spread.most))


def _reasons(usages: Sequence[Usage], length: float) -> Iterator[str]:
    """Yield a sentence for each reason why resources have no known windows of `length` seconds."""
    unknown: dict[str, list[str]] = {}
    for one in usages:
        if length in one.unknown:
            unknown.setdefault(one.unknown[length], []).append(name_resource(one.resource))
    for reason, titles in unknown.items():
        which = f"{'; '.join(titles)}: " if len(titles) < len(usages) else ""
        yield f"not known: {which}{reason}"


def _moment(one: ProfileSummary) -> Iterator[Section]:
    """Yield a section with the use of each resource in the busiest window; nothing without one."""
    if one.moment is None:
        return
    begin, end = one.moment.begin, one.moment.end
    values = [(resource, one.moment.value(resource)) for resource in usage.RESOURCES]
    pairs = [
        (resource.title, show(value, resource.unit))
        for resource, value in values
        if value is not None
    ]
    yield Section(
        f"Busiest {name_length(round(end - begin))} by {one.leading}: {usage.clock(begin)} to "
        f"{usage.clock(end)[-8:]}",
        [Facts(pairs)],
    )


def _minutes(one: ProfileSummary) -> Section:
    """Return a section: minutes a day in which each resource exceeds shares of its maximum."""
    of = _period(_known_minutes(one))
    rows = _level_rows(one)
    parts: list[Part] = [
        *exceedance(one.profile, of),
        Table(_LEVEL_HEADINGS, rows, numbers=range(1, len(_LEVEL_HEADINGS))),
        *(Sentence(_describe_level(level)) for level in one.levels),
    ]
    return Section(f"Minutes {of} above a share of the most", parts)


def _describe_level(level: UsageLevel) -> str:
    """Return a sentence with the minutes a day above a level that the user requested."""
    of = _period(level.whole)
    return f"{level.title} above {show(level.level, level.unit)}: {level.minutes:.3g} minutes {of}"


def _period(minutes: float) -> str:
    """Return the words that follow a number of minutes in a text.

    They are `a day` if nearly a whole day is known; if not, for example `of the 4 known`.
    """
    if minutes > usage.DAY / 60 * _WHOLE_DAY:
        return "a day"
    return f"of the {minutes:.3g} known"


def _known_minutes(one: ProfileSummary) -> float:
    """Return how many minutes of a day are known, at most 1,440.

    It is the largest number of all resources, because some resources may be known for a shorter
    time.  It is 0 without resources.
    """
    made = (usage.level_windows(one.profile, each.resource) for each in one.usages)
    return max(map(rolling_windows.minutes_in_all, made), default=0.0)


def _level_rows(one: ProfileSummary) -> list[list[str]]:
    """Return a row for each resource: its maximum, and the minutes a day above shares of it.

    The shares are those in _LEVELS, from 25 to 90 percent.
    """
    rows = []
    for resource in usage.RESOURCES:
        made = usage.level_windows(one.profile, resource)
        if not resource.load or not made.shares.any() or not made.means.max() > 0:
            continue
        most = float(made.means.max())
        minutes = (rolling_windows.minutes_above(made, share * most) for share in _LEVELS)
        rows.append(
            [name_resource(resource), show_count(most), *(show_count(value) for value in minutes)]
        )
    return rows


def _work(one: ProfileSummary) -> Iterator[Section]:
    """Yield a section on the kind of work: reads, request sizes, hit ratio, transactions."""
    ratios = one.ratios
    pairs = [
        ("reads", _joined(_share(ratios.reads_of_requests, "of the device's requests"),
                          _share(ratios.reads_of_bytes, "of its bytes"))),
        ("a request has", _joined(_sized(ratios.read_bytes, "read"),
                                  _sized(ratios.write_bytes, "written"))),
        ("hit ratio", _share(ratios.hit_ratio, "of the blocks are in the server's buffers", 2)),
        ("a transaction is", _transaction(ratios)),
        ("kinds", ", ".join(f"{sanitize(k)} {share:.1%}" for k, share in
                            usage.kinds(one.profile).items())),
        ("working set", _working_set(one.profile)),
        ("tables", _tables(one.profile)),
    ]  # fmt: skip
    if known := [(label, words) for label, words in pairs if words]:
        yield Section("Kind of work", [Facts(known)])


def _joined(*texts: str) -> str:
    return ", ".join(text for text in texts if text)


def _share(value: float | None, of: str, digits: int = 0) -> str:
    return "" if value is None else f"{value:.{digits}%} {of}"


def _sized(value: float | None, what: str) -> str:
    return "" if value is None else f"{show_size(value)} {what}"


def _transaction(ratios: Ratios) -> str:
    return _joined(
        "" if ratios.statements is None else f"{show_count(ratios.statements)} statements",
        "" if ratios.rows_read is None else f"{show_count(ratios.rows_read)} rows read",
        "" if ratios.rows_written is None else f"{show_count(ratios.rows_written)} written",
        "" if ratios.wal_bytes is None else f"{show_size(ratios.wal_bytes)} of log",
        "" if ratios.cpu_seconds is None else f"{show_duration(ratios.cpu_seconds)} of CPU",
        "" if not ratios.rollbacks else f"{ratios.rollbacks:.2%} are rolled back",
    )


def _working_set(profile: ResourceProfile) -> str:
    known = profile.working_set
    if known is None:
        return "not known"
    size = show_size(known.bytes) if known.bytes is not None else "not known"
    return f"{size}: {known.method}"


def _tables(profile: ResourceProfile) -> str:
    used = sorted(profile.tables, key=lambda one: one.blocks_read + one.blocks_hit, reverse=True)
    more = f" and {len(used) - _MOST_TABLES} more" if len(used) > _MOST_TABLES else ""
    names = (f"{one.name} ({show_size(one.bytes)})" for one in used[:_MOST_TABLES])
    return ", ".join(names) + more


def _sparks(one: ProfileSummary) -> Section:
    rows = []
    for resource in (use.resource for use in one.usages if use.resource.name in _WATCHED):
        means, _ = rolling_windows.grid(
            usage.signal(one.profile, resource), edges(one.profile, _POINTS)
        )
        values = [None if np.isnan(mean) else float(mean) for mean in means]
        most = max((value for value in values if value is not None), default=0.0)
        rows.append((name_resource(resource), values, f"to {show_count(most)}"))
    return Section("Over time", [SparkLines(rows)])


def _notes(profile: ResourceProfile) -> list[str]:
    """Return sentences on the gaps of the profile, then its other notes."""
    gaps = [
        f"nothing is known from {usage.clock(gap.begin)} to {usage.clock(gap.end)}: {gap.reason}"
        for gap in profile.gaps[:_MOST_GAPS]
    ]
    more = len(profile.gaps) - _MOST_GAPS
    return [sanitize(note) for note in (*gaps, *([f"and {more:,} more gaps"] if more > 0 else []),
                                     *profile.notes)]  # fmt: skip


def _data(one: ProfileSummary) -> Iterator[Sequence[object]]:
    percentiles = (f"p{p:g}" for p in PERCENTILES)
    yield ("resource", "title", "unit", "window_seconds", *percentiles, "most", "most_end",
           "known_share", "averaged_seconds", "unknown")  # fmt: skip
    for use in one.usages:
        head = (use.resource.name, use.resource.title, use.resource.unit)
        tail = (round(use.share, 6), use.resolution)
        for length in rolling_windows.WINDOWS:
            spread = use.spreads.get(length)
            if spread is None:
                yield (*head, length, "", "", "", "", "", *tail, use.unknown[length])
            else:
                at = usage.clock(spread.most_end)
                yield (*head, length, *spread.percentiles, spread.most, at, *tail, "")


def as_facts(one: ProfileSummary) -> dict[str, Any]:
    """Return the content of the report as plain values for JSON, the headline first."""
    return {
        "headline": _headline(one),
        "source": one.profile.source.model_dump(mode="json"),
        "completeness": {"grade": one.complete.grade.value, "reasons": one.complete.reasons},
        "confidence": one.confidence.model_dump(mode="json"),
        "recommendation": [each.model_dump(mode="json") for each in one.recommendation],
        "requirement": None if one.wanted is None else one.wanted.model_dump(mode="json"),
        "usage": [
            {
                "resource": use.resource.name,
                "unit": use.resource.unit,
                "known_share": use.share,
                "windows": {f"{length:g}": asdict(each) for length, each in use.spreads.items()},
            }
            for use in one.usages
        ],
        "above": [level._asdict() for level in one.levels],
    }
