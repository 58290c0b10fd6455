"""Counts of a replay's statements and their results, by fingerprint and by second."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from replayer.errors import UNKNOWN_STATE
from replayer.watch.histogram import Latencies, bin_of

if TYPE_CHECKING:
    from array import array

_SECOND = 10**9
_BIN_BITS = 17
"""Bits of a key that hold the bin of a histogram."""
_BINS = 1 << _BIN_BITS
_DENSE = 1 << 16
"""Largest range of keys that is counted without sorting them."""
_STATE = re.compile(r"[0-9A-Z]{5}")
_CODES = 36**5
"""Number of SQLSTATEs: they are stored as numbers in base 36."""
_UNKNOWN = _CODES - 1
"""ZZZZZ, which is not a valid SQLSTATE, stands for an unknown one."""
FIELDS = 11
"""Fields of a record; times are in ns.

Fingerprint, intended start, time at which the session was free for it, begin, end, SQLSTATE, rows,
the log's SQLSTATE, the comparison of its rows with the log's (see `held`), its place (see `where`),
its duration in the log (see `paired`).
A SQLSTATE below 0 is that of an error that only follows from an earlier error.
"""
_FINGERPRINT, _INTENDED, _FREE, _BEGUN, _DONE, _CODE = range(6)
_ROWS, _LOGGED, _HELD, _WHERE, _SOURCE = range(6, FIELDS)
_PART_BITS = 6
_SESSION_BITS = 8
_LAST_SESSION = (1 << _SESSION_BITS) - 1
"""Sessions from this number on are counted together."""
GROUP_BITS = 6
"""Bits of a session's group: times are compared with the log's in 64 groups of sessions.

A session is never in two groups, so that groups are as independent of each other as sessions are.
"""
SAME, OTHERWISE, FOLLOWS = range(3)
"""Results of the comparison of rows with the log's.

SAME: equal.  OTHERWISE: different.  FOLLOWS: different, after an earlier difference in the same
transaction.
"""
_HELD_BITS = 2
_SPREAD = 0x9E3779B97F4A7C15
"""An odd number: different numbers of rows give different multiples of it modulo 2^64."""

Whole = npt.NDArray[np.int64]
_NONE = np.zeros(0, np.int64)


def held(logged: int, how: int) -> int:
    """Return a number of rows in the log and the result of its comparison, packed as one number.

    `how` is SAME, OTHERWISE or FOLLOWS.
    """
    return logged << _HELD_BITS | how


def where(session: int, part: int) -> int:
    """Return the numbers of a session and of a part of the capture's time, packed as one number.

    All sessions from number 255 on are packed as 255.
    """
    return min(session, _LAST_SESSION) << _PART_BITS | part


def paired(source_ns: int, session: int) -> int:
    """Return a duration in the log, in ns, and the group of a session, packed as one number.

    Sessions are put into 64 groups by the lowest bits of their numbers.  A duration below 0, which
    stands for none, gives a number below 0.
    """
    return source_ns << GROUP_BITS | session & (1 << GROUP_BITS) - 1


def number_of(sqlstate: str) -> int:
    """Return a SQLSTATE as a number, 0 for ""; an invalid one counts as XX000."""
    if not sqlstate:
        return 0
    if sqlstate == UNKNOWN_STATE:
        return _UNKNOWN
    return int(sqlstate if _STATE.fullmatch(sqlstate) else "XX000", 36)


def sqlstate_of(number: int) -> str:
    """Return the SQLSTATE, such as 23505, that a number made by `number_of` stands for."""
    if number == _UNKNOWN:
        return UNKNOWN_STATE
    digits = ""
    for _ in range(5):
        number, digit = divmod(number, 36)
        digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[digit] + digits
    return digits


_FOLLOWING = number_of("25P02")
"""SQLSTATE of errors that only follow from an earlier error in the transaction."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Sums by key: a sorted array of different keys, and an array with the sum of each key."""

    keys: Whole = field(default_factory=lambda: _NONE)
    amounts: Whole = field(default_factory=lambda: _NONE)

    @classmethod
    def of(cls, keys: Whole, amounts: Whole | None = None) -> "Counts":
        """Return the sum of `amounts` for each key; without amounts, how often each key occurs."""
        if not len(keys):
            return cls()
        if amounts is None:
            return cls._counted(keys)
        order = np.argsort(keys, kind="stable")
        sorted_keys = keys[order]
        first = np.flatnonzero(np.r_[True, sorted_keys[1:] != sorted_keys[:-1]])
        return cls(sorted_keys[first], np.add.reduceat(amounts[order], first))

    @classmethod
    def _counted(cls, keys: Whole) -> "Counts":
        least = int(keys.min())
        if int(keys.max()) - least > _DENSE:
            unique, counts = np.unique(keys, return_counts=True)
            return cls(unique, counts.astype(np.int64))
        counts = np.bincount(keys - least)
        filled = np.flatnonzero(counts)
        return cls(filled + least, counts[filled].astype(np.int64))

    @classmethod
    def sum(cls, parts: Sequence["Counts"]) -> "Counts":
        """Return the sum of several counts, key by key."""
        return cls.of(
            np.concatenate([_NONE, *(part.keys for part in parts)]),
            np.concatenate([_NONE, *(part.amounts for part in parts)]),
        )

    def chosen(self, fingerprints: frozenset[int]) -> "Counts":
        """Return a copy with the keys of `fingerprints` only.

        The counts must be a histogram: a key has a fingerprint in the bits above the bin.
        """
        wanted = np.isin(self.keys >> _BIN_BITS, np.fromiter(fingerprints, np.int64))
        return Counts(self.keys[wanted], self.amounts[wanted])

    def items(self) -> Iterable[tuple[int, int]]:
        """Return pairs of a key and its amount."""
        return zip(self.keys.tolist(), self.amounts.tolist(), strict=True)


@dataclass(frozen=True, slots=True)
class First:
    """Time and session of the first occurrence of an error or of another difference.

    `session` is the number of the session in the capture.
    """

    seconds: float
    """Time since the start of the replay, in seconds."""
    session: int


_COUNTS = (
    *("service", "response", "lag", "lag_client", "lag_server", "errors", "consequences"),
    *("logged", "here", "there", "others_here", "others_there"),
    *("rows", "hashes", "service_ns", "executions"),
    *("held_rows", "logged_rows", "otherwise", "follows", "by_part", "by_session"),
    *("source", "target", "pairs", "source_ns", "target_ns"),
    *("begun_in", "answered_in", "busy_in", "lag_client_in", "lag_server_in"),
)
_LONGEST = ("longest_client_in", "longest_server_in")


@dataclass(frozen=True, slots=True)
class ReplayCounts:
    """Counts of the statements that ended in a period, in one process or in several.

    A key is one number.  In a histogram it is the fingerprint and, in the lowest bits, the bin.
    For errors it is the fingerprint times _CODES, plus the SQLSTATE.  Counts whose names end in
    `_in` have seconds of the replay as keys.  Times are in ns.
    """

    service: Counts = Counts()
    response: Counts = Counts()
    lag: Counts = Counts()
    """Histogram of the lag: how late statements began."""
    lag_client: Counts = Counts()
    """The part of the lag that replayer caused."""
    lag_server: Counts = Counts()
    """The part of the lag in which the session was busy, or waited for its turn."""
    errors: Counts = Counts()
    consequences: Counts = Counts()
    logged: Counts = Counts()
    here: Counts = Counts()
    """Errors in the replay of statements that succeeded in the log."""
    there: Counts = Counts()
    """Errors in the log of statements that succeeded in the replay."""
    others_here: Counts = Counts()
    """Errors in the replay of statements that have a different error in the log."""
    others_there: Counts = Counts()
    """Errors in the log of the statements that `others_here` counts."""
    rows: Counts = Counts()
    hashes: Counts = Counts()
    service_ns: Counts = Counts()
    executions: Counts = Counts()
    held_rows: Counts = Counts()
    """Rows of the answers whose number of rows is in the log, too."""
    logged_rows: Counts = Counts()
    """Rows in the log of the answers that `held_rows` counts."""
    otherwise: Counts = Counts()
    """Number of answers with another number of rows than the log, as their first difference."""
    follows: Counts = Counts()
    """Number of answers with another number of rows, after a difference in their transaction."""
    by_part: Counts = Counts()
    """Sums over rows and hashes of the answers, modulo 2^64.

    Keys have the fingerprint in the bits above the number of the part of the capture.
    """
    by_session: Counts = Counts()
    """The same sums; keys have the fingerprint in the bits above the number of the session."""
    source: Counts = Counts()
    """Histogram of the durations in the log, of executions that also succeeded in the replay."""
    target: Counts = Counts()
    """Histogram of the service times in the replay of the executions that `source` counts."""
    pairs: Counts = Counts()
    """Number of the executions that `source` counts.

    Keys have the fingerprint in the bits above the session's group (see GROUP_BITS).
    """
    source_ns: Counts = Counts()
    target_ns: Counts = Counts()
    """Sums of the durations in the log, and of the service times, with the keys of `pairs`."""
    begun_in: Counts = Counts()
    answered_in: Counts = Counts()
    busy_in: Counts = Counts()
    lag_client_in: Counts = Counts()
    lag_server_in: Counts = Counts()
    longest_client_in: Mapping[int, int] = field(default_factory=dict)
    longest_server_in: Mapping[int, int] = field(default_factory=dict)
    first: Mapping[tuple[int, int], First] = field(default_factory=dict)
    """Fingerprint and SQLSTATE -> first occurrence of an error that the log does not have.

    The SQLSTATE is below 0 for an error that only the log has, and 0 for other rows than the log's.
    """
    unordered: Mapping[int, int] = field(default_factory=dict)
    """Fingerprint -> how many of its statements did not wait for their place in the order."""
    happened: Mapping[str, int] = field(default_factory=dict)
    """Other events -> how often they happened; replay_statistics.py has their names."""

    @classmethod
    def of(cls, parts: Sequence["ReplayCounts"]) -> "ReplayCounts":
        """Return the sum of counts of several periods or processes.

        The result has the largest of the lags, and the earliest of the first occurrences.
        """
        counts: dict[str, Any] = {
            name: Counts.sum([getattr(part, name) for part in parts]) for name in _COUNTS
        }
        longest: dict[str, Any] = {
            name: _longest([getattr(part, name) for part in parts]) for name in _LONGEST
        }
        unordered: Counter[int] = Counter()
        happened: Counter[str] = Counter()
        first: dict[tuple[int, int], First] = {}
        for part in parts:
            unordered.update(part.unordered)
            happened.update(part.happened)
            for key, one in part.first.items():
                if key not in first or one.seconds < first[key].seconds:
                    first[key] = one
        return cls(**counts, **longest, first=first, unordered=unordered, happened=happened)


def _longest(parts: Sequence[Mapping[int, int]]) -> dict[int, int]:
    longest: dict[int, int] = {}
    for part in parts:
        for second, value in part.items():
            longest[second] = max(value, longest.get(second, 0))
    return longest


def tally(
    records: "array[int]", hashes: "array[int]", begin_ns: int, *, timed: bool
) -> ReplayCounts:
    """Return the counts of records; a record is FIELDS numbers in the order given at FIELDS.

    `hashes` has one number for each record, a hash of its answer, or is empty.  `begin_ns` is the
    begin of the replay on the monotonic clock.  Lags and response times are counted only if `timed`
    is True, which means that the replay runs at a speed above 0.
    """
    rows = np.frombuffer(records, np.int64).reshape(-1, FIELDS)
    if not len(rows):
        return ReplayCounts()
    fingerprint, intended, free = rows[:, _FINGERPRINT], rows[:, _INTENDED], rows[:, _FREE]
    begun, done, code = rows[:, _BEGUN], rows[:, _DONE], rows[:, _CODE]
    service = np.maximum(0, done - begun)
    known = rows[:, _ROWS] >= 0
    fine = code == 0
    own = code > 0
    logged = rows[:, _LOGGED] > 0
    answered = fine & known
    compared = rows[:, _HELD] >= 0
    how = rows[:, _HELD] & ((1 << _HELD_BITS) - 1)
    other = own & logged & (rows[:, _LOGGED] != code) & (rows[:, _LOGGED] != _UNKNOWN)
    return ReplayCounts(
        service=Counts.of((fingerprint << _BIN_BITS) + bin_of(service)),
        errors=Counts.of(fingerprint[own] * _CODES + code[own]),
        consequences=Counts.of(fingerprint[code < 0]),
        logged=Counts.of(fingerprint[logged] * _CODES + rows[logged, _LOGGED]),
        here=_errors(rows, own & ~logged, _CODE),
        there=_errors(rows, fine & logged & (rows[:, _LOGGED] != _FOLLOWING), _LOGGED),
        others_here=_errors(rows, other, _CODE),
        others_there=_errors(rows, other, _LOGGED),
        rows=Counts.of(fingerprint[answered], rows[answered, _ROWS]),
        held_rows=Counts.of(fingerprint[compared], rows[compared, _ROWS]),
        logged_rows=Counts.of(fingerprint[compared], rows[compared, _HELD] >> _HELD_BITS),
        otherwise=Counts.of(fingerprint[compared & (how == OTHERWISE)]),
        follows=Counts.of(fingerprint[compared & (how == FOLLOWS)]),
        **_places(rows, answered, hashes),
        **_pairs(rows, fine & ~logged & (rows[:, _SOURCE] >= 0), service),
        hashes=_hashes(fingerprint, fine, hashes),
        service_ns=Counts.of(fingerprint, service),
        executions=Counts.of(fingerprint),
        **_times(rows, begin_ns),
        **(_lags(intended, free, begun, done, fingerprint, begin_ns) if timed else {}),
    )


def _errors(rows: Whole, chosen: npt.NDArray[np.bool_], column: int) -> Counts:
    """Return how often each SQLSTATE of a column is in the rows that `chosen` marks.

    The counts are separate for each fingerprint.
    """
    return Counts.of(rows[chosen, _FINGERPRINT] * _CODES + rows[chosen, column])


def _hashes(fingerprint: Whole, fine: npt.NDArray[np.bool_], hashes: "array[int]") -> Counts:
    if not len(hashes):
        return Counts()
    # The sums wrap around at 2^64, on purpose.
    return Counts.of(fingerprint[fine], np.frombuffer(hashes, np.int64)[fine])


def _places(rows: Whole, answered: npt.NDArray[np.bool_], hashes: "array[int]") -> dict[str, Any]:
    """Return the counts `by_part` and `by_session`, which show if two replays had the same answers.

    Each answer adds one number, made of its number of rows and of its hash, if there are hashes.
    """
    values = (rows[:, _ROWS] + 1) * np.int64(_SPREAD - (1 << 64))
    if len(hashes):
        values += np.frombuffer(hashes, np.int64)
    values = values[answered]
    fingerprint, places = rows[answered, _FINGERPRINT], rows[answered, _WHERE]
    part = places & ((1 << _PART_BITS) - 1)
    return {
        "by_part": Counts.of((fingerprint << _PART_BITS) + part, values),
        "by_session": Counts.of((fingerprint << _SESSION_BITS) + (places >> _PART_BITS), values),
    }


def _pairs(rows: Whole, chosen: npt.NDArray[np.bool_], service: Whole) -> dict[str, Any]:
    """Return name -> the counts that compare times with the log: `source` to `target_ns`.

    `rows` has one row per statement, with FIELDS columns; `chosen` marks the rows to count.
    `service` has the service time of each row in ns.
    """
    fingerprint, target = rows[chosen, _FINGERPRINT], service[chosen]
    source = rows[chosen, _SOURCE] >> GROUP_BITS
    keys = (fingerprint << GROUP_BITS) + (rows[chosen, _SOURCE] & (1 << GROUP_BITS) - 1)
    return {
        "source": Counts.of((fingerprint << _BIN_BITS) + bin_of(source)),
        "target": Counts.of((fingerprint << _BIN_BITS) + bin_of(target)),
        "pairs": Counts.of(keys),
        "source_ns": Counts.of(keys, source),
        "target_ns": Counts.of(keys, target),
    }


def by_group(counts: Counts) -> dict[int, dict[int, int]]:
    """Return fingerprint -> group of sessions -> amount.

    A key of `counts` has both: the fingerprint's number, and the group in its lowest bits.
    """
    groups: dict[int, dict[int, int]] = {}
    for key, amount in counts.items():
        fingerprint, group = key >> GROUP_BITS, key & (1 << GROUP_BITS) - 1
        groups.setdefault(fingerprint, {})[group] = amount
    return groups


def by_place(counts: Counts, *, session: bool) -> dict[int, dict[int, int]]:
    """Return fingerprint -> place in the capture -> digest of the answers there.

    With `session`, `counts` are `by_session`, and a place is the number of a session.  If not, they
    are `by_part`, and a place is the number of a part of the capture.  A digest is the upper 32
    bits of a sum of 64 bits.
    """
    bits = _SESSION_BITS if session else _PART_BITS
    sums: dict[int, dict[int, int]] = {}
    for key, amount in counts.items():
        fingerprint, place = key >> bits, key & ((1 << bits) - 1)
        sums.setdefault(fingerprint, {})[place] = amount >> 32 & 0xFFFFFFFF
    return sums


def _times(rows: Whole, begin_ns: int) -> dict[str, Any]:
    begun, done = rows[:, _BEGUN] - begin_ns, rows[:, _DONE] - begin_ns
    return {
        "begun_in": Counts.of(begun // _SECOND),
        "answered_in": Counts.of(done // _SECOND),
        "busy_in": _busy(begun, done),
    }


def _busy(begun: Whole, done: Whole) -> Counts:
    """Return second -> nanoseconds in which statements were under way, summed over all sessions.

    `begun` and `done` are the start and the end of each statement in ns.
    """
    last = done // _SECOND
    same = begun // _SECOND == last
    parts = [Counts.of(last[same], (done - begun)[same])]
    long_keys: list[int] = []
    long_times: list[int] = []
    for start, end in zip(begun[~same].tolist(), done[~same].tolist(), strict=True):
        for second in range(start // _SECOND, end // _SECOND + 1):
            long_keys.append(second)
            inside = min(end, (second + 1) * _SECOND) - max(start, second * _SECOND)
            long_times.append(inside)
    parts.append(Counts.of(np.array(long_keys, np.int64), np.array(long_times, np.int64)))
    return Counts.sum(parts)


def _lags(  # noqa: PLR0917 - columns of one table
    intended: Whole, free: Whole, begun: Whole, done: Whole, fingerprint: Whole, begin_ns: int
) -> dict[str, Any]:
    ready = np.clip(free, intended, begun)
    server, client = ready - intended, begun - ready
    second = (begun - begin_ns) // _SECOND
    response = np.maximum(0, done - intended)
    return {
        "response": Counts.of((fingerprint << _BIN_BITS) + bin_of(response)),
        "lag": Counts.of(bin_of(begun - intended)),
        "lag_client": Counts.of(bin_of(client)),
        "lag_server": Counts.of(bin_of(server)),
        "lag_client_in": Counts.of(second, client),
        "lag_server_in": Counts.of(second, server),
        "longest_client_in": _most(second, client),
        "longest_server_in": _most(second, server),
    }


def _most(second: Whole, lag: Whole) -> dict[int, int]:
    first = int(second.min())
    longest = np.zeros(int(second.max()) - first + 1, np.int64)
    np.maximum.at(longest, second - first, lag)
    seen = np.flatnonzero(np.bincount(second - first)) + first
    return dict(zip(seen.tolist(), longest[seen - first].tolist(), strict=True))


def by_fingerprint(histograms: Counts) -> dict[int, Latencies]:
    """Return fingerprint -> its latencies, from counts whose keys have a fingerprint and a bin."""
    owners: Whole = histograms.keys >> _BIN_BITS
    found: Whole = np.unique(owners)
    borders: Whole = np.append(found, np.iinfo(np.int64).max)
    edges = np.searchsorted(owners, borders)
    return {
        int(owner): latencies(
            Counts(histograms.keys[first:last] & (_BINS - 1), histograms.amounts[first:last])
        )
        for owner, first, last in zip(found, edges[:-1], edges[1:], strict=True)
    }


def all_together(histograms: Counts) -> Latencies:
    """Return the latencies of all fingerprints together, from counts that are histograms."""
    return latencies(Counts.of(histograms.keys & (_BINS - 1), histograms.amounts))


def latencies(bins: Counts) -> Latencies:
    """Return the latencies in a histogram: its keys are bins; each stands for its highest value."""
    return Latencies.binned(dict(bins.items()))


def by_code(counts: Counts) -> dict[int, dict[str, int]]:
    """Return fingerprint -> SQLSTATE -> number of errors, from counts such as `errors`."""
    codes: dict[int, dict[str, int]] = {}
    for key, amount in counts.items():
        fingerprint, code = divmod(key, _CODES)
        codes.setdefault(fingerprint, {})[sqlstate_of(code)] = amount
    return codes
