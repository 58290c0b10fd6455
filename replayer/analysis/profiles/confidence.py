"""The confidence in a profile (a server's use of resources over time): none to five stars.

Each missing star has a reason.  Azure Migrate rates an assessment by the share of data points that
are there.  Here there is a star for each of five conditions: the resources that decide a verdict
are known nearly all the time; the profile covers a day; it covers a week; its values are averages
over a minute or less; it is not old.
"""

from collections.abc import Iterator

from replayer.analysis.profiles import rolling_windows, usage
from replayer.analysis.profiles.rolling_windows import MINUTE
from replayer.analysis.profiles.usage import DAY, NAMED
from replayer.model import Noun
from replayer.results.profile import ResourceProfile
from replayer.units import show_duration

MOST = 5
_ENOUGH = 0.95
"""The share of the time for which a resource must be known; also the share of a day or week."""
_WEEK = 7
_OLD = 30
"""A profile that ended more days ago than this is old: the end of a month is after it."""
_AHEAD = 1
"""Days that a profile may end in the future, because it may have local times."""
_DECIDING = (
    # Columns of which any one is enough.
    ("cpu_cores", "server_cpu_cores"),
    ("memory_bytes",),
    ("read_iops",),
    ("write_iops",),
    ("read_mbps",),
    ("commits", "statements"),
)
_TITLES = ("CPU", "memory", "reads", "writes", "bytes of the device", "transactions")


class Confidence(Noun):
    """The number of stars, 0 to 5, that a profile gets, and the reasons for the missing ones.

    A profile is a server's use of resources over time.
    """

    stars: int
    """From 0 to MOST."""
    reasons: tuple[str, ...]
    """The reason for each missing star."""

    @property
    def words(self) -> str:
        """Return the stars as text, such as `***-- 3 of 5 stars`."""
        return f"{'*' * self.stars}{'-' * (MOST - self.stars)} {self.stars} of {MOST} stars"


def rate(profile: ResourceProfile, now: float) -> Confidence:
    """Return the number of stars that a profile gets, with the reason for each missing one.

    `now` is the present time in seconds since 1970, because an old profile loses a star.
    """
    reasons = tuple(_reasons(profile, now))
    return Confidence(stars=MOST - len(reasons), reasons=reasons)


def _reasons(profile: ResourceProfile, now: float) -> Iterator[str]:
    gaps = [
        f"{title} {share:.0%}"
        for title, names in zip(_TITLES, _DECIDING, strict=True)
        if (share := max(map(profile.coverage, names))) < _ENOUGH
    ]
    if gaps:
        yield f"not known all the time: {', '.join(gaps)}"
    known = float(profile.spans.sum())
    # A time of which less than half is known does not count as seen.
    days = min(profile.whole_seconds, 2 * known) / DAY
    length = show_duration(profile.whole_seconds)
    if 2 * known < profile.whole_seconds:
        length += f" with rows for {show_duration(known)}"
    if days < _ENOUGH:
        yield f"it is of {length}: less than a day, whose busiest hour may not be in it"
    if days < _WEEK * _ENOUGH:
        yield f"it is of {length}: less than a week, whose busiest day may not be in it"
    coarse = _longest(profile)
    if coarse > MINUTE * 1.1:
        yield f"values are averages over up to {show_duration(coarse)}: peaks in it are not known"
    age = (now - float(profile.ends[-1])) / DAY
    if age > _OLD:
        yield f"it is {age:.0f} days old: the load may have changed"
    elif age < -_AHEAD:
        yield f"it ends {-age:.0f} days from now: a clock was wrong, so its age is not known"


def _longest(profile: ResourceProfile) -> float:
    """Return the longest time, in seconds, over which the values of a main resource are averaged.

    The main resources are CPU, reads, writes and transactions.  Longer averages are left out if
    they cover 5 percent of the time at most.  Returns 0 if none of the resources is known.
    """
    names = ("cpu", "server_cpu", "read_iops", "write_iops", "transactions")
    known = [rolling_windows.coarsest(usage.signal(profile, NAMED[name])) for name in names]
    return max((seconds for seconds in known if seconds == seconds), default=0.0)  # noqa: PLR0124
