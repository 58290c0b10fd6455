"""Totals of a capture, counted block by block while the file is written."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from replayer import __version__
from replayer.capture.action import DOES, UNKNOWN, Fingerprint, Kind
from replayer.capture.block import Block, Integers
from replayer.capture.capture_summary import ActionSource, CaptureSummary, FingerprintWork

_LISTED = 200
_MOST_FORMS = 40_000
_MOST_COPIED = 10_000
_MOST_OPEN = 100_000
_MINUTE_NS = 60_000_000_000
_CONNECT, _DISCONNECT = DOES.index("connect"), DOES.index("disconnect")


@dataclass(slots=True)
class _Sum:
    """Totals of one fingerprint so far."""

    form: Fingerprint
    statements: int = 0
    nanoseconds: int = 0
    longest: int = 0
    timed: int = 0
    rows: int = 0
    errors: int = 0

    @property
    def weight(self) -> tuple[int, int]:
        """Return (total nanoseconds, number of statements), by which fingerprints are sorted."""
        return self.nanoseconds, self.statements


@dataclass(slots=True)
class WriteCounts:
    """Counts of the actions that were written so far, such as those by kind and by fingerprint."""

    begin_ns: int | None = None
    end_ns: int = 0
    actions: int = 0
    statements: int = 0
    nanoseconds: int = 0
    sessions: int = 0
    began_before: int = 0
    at_once: int = 0
    errors: int = 0
    kinds: Counter[Kind] = field(default_factory=Counter)
    minutes: Counter[int] = field(default_factory=Counter)
    forms: dict[int, _Sum] = field(default_factory=dict)
    forgotten: int = 0
    copies: Counter[str] = field(default_factory=Counter)
    """Table -> number of COPY FROM STDIN statements that fill it."""
    open: dict[int, None] = field(default_factory=dict)

    def add(self, block: Block) -> None:
        """Add the actions of a block, a part of the replay file, to all counts."""
        columns = block.columns
        begin = int(columns.start_ns.min())
        self.begin_ns = begin if self.begin_ns is None else min(begin, self.begin_ns)
        ends = columns.start_ns + np.maximum(columns.duration_ns, 0)
        self.end_ns = max(self.end_ns, int(ends.max()))
        self.actions += len(block)
        self.errors += int((columns.sqlstate != _empty(block.sqlstates)).sum())
        self._sessions(block)
        worked = np.flatnonzero(columns.statement != UNKNOWN)
        self.statements += len(worked)
        self.nanoseconds += int(np.maximum(columns.duration_ns[worked], 0).sum())
        minutes, counts = np.unique(columns.start_ns[worked] // _MINUTE_NS, return_counts=True)
        self.minutes.update(dict(zip(minutes.tolist(), counts.tolist(), strict=True)))
        self._forms(block, worked)

    def _sessions(self, block: Block) -> None:
        self.began_before += sum(session.began_before for session in block.sessions)
        sessions, does = block.columns.session, block.columns.does
        first = np.unique(sessions, return_index=True)[1]
        events = np.union1d(first, np.flatnonzero(does == _DISCONNECT))
        for row in events.tolist():
            session = int(sessions[row])
            if session not in self.open and does[row] != _DISCONNECT:
                self.open[session] = None
                self.sessions += 1
            if does[row] == _DISCONNECT:
                if session not in self.open:
                    self.sessions += 1
                self.open.pop(session, None)
            self.at_once = max(self.at_once, len(self.open))
        if len(self.open) > _MOST_OPEN:
            for session in list(self.open)[: _MOST_OPEN // 2]:
                del self.open[session]

    def _forms(self, block: Block, worked: Integers) -> None:
        if not len(worked):
            return
        columns = block.columns
        form, forms = block.forms()
        sums = [self._sum(each) for each in forms]
        which = form[columns.statement[worked]]
        duration = columns.duration_ns[worked]
        rows = columns.rows[worked]
        failed = columns.sqlstate[worked] != _empty(block.sqlstates)
        size = len(sums)
        longest = np.zeros(size, np.int64)
        np.maximum.at(longest, which, duration)
        table = zip(
            sums,
            np.bincount(which, minlength=size).tolist(),
            np.bincount(which, np.maximum(duration, 0), size).tolist(),
            np.bincount(which, duration >= 0, size).tolist(),
            np.bincount(which, np.maximum(rows, 0), size).tolist(),
            np.bincount(which, failed, size).tolist(),
            longest.tolist(),
            strict=True,
        )
        for sum_, count, nanoseconds, timed, returned, errors, most in table:
            self.kinds[sum_.form.kind] += count
            sum_.statements += count
            sum_.nanoseconds += int(nanoseconds)
            sum_.timed += int(timed)
            sum_.rows += int(returned)
            sum_.errors += int(errors)
            sum_.longest = max(sum_.longest, most)

    def _sum(self, form: Fingerprint) -> _Sum:
        known = self.forms.get(form.number)
        if known is None:
            if len(self.forms) >= _MOST_FORMS:
                self._forget()
            known = self.forms[form.number] = _Sum(form)
        return known

    def _forget(self) -> None:
        """Forget the half of the fingerprints with the least total time, to limit the memory."""
        order = sorted(self.forms, key=lambda number: self.forms[number].weight)
        for number in order[: len(order) // 2]:
            del self.forms[number]
        self.forgotten += len(order) // 2

    def summary(
        self,
        source: ActionSource,
        *,
        skipped: Mapping[str, int],
        damage: Sequence[str],
        late: int,
        transactions: int,
        chains: int,
    ) -> CaptureSummary:
        """Return the summary of the capture: all counts so far, and the facts that are passed.

        The parameters become the summary's fields of the same names.
        """
        begin = self.begin_ns or 0
        minute, most = max(
            self.minutes.items(), key=lambda each: (each[1], -each[0]), default=(0, 0)
        )
        heaviest = sorted(self.forms.values(), key=lambda each: each.weight, reverse=True)
        return CaptureSummary(
            replayer=__version__,
            source=source,
            begin_ns=begin,
            span_ns=max(0, self.end_ns - begin),
            actions=self.actions,
            statements=self.statements,
            sessions=self.sessions,
            sessions_began_before=self.began_before,
            sessions_at_once=self.at_once,
            copies=dict(self.copies.most_common(_MOST_COPIED)),
            kinds=dict(self.kinds.most_common()),
            skipped=dict(skipped),
            damage=tuple(damage),
            seconds=self.nanoseconds / 1e9,
            errors=self.errors,
            late=late,
            transactions=transactions,
            chains=chains,
            busiest_minute_ns=max(0, minute * _MINUTE_NS),
            busiest_minute_statements=most,
            fingerprints=len(self.forms) + self.forgotten,
            heaviest=tuple(map(_work, heaviest[:_LISTED])),
        )


def _empty(sqlstates: Sequence[str]) -> int:
    return sqlstates.index("") if "" in sqlstates else UNKNOWN


def _work(sum_: _Sum) -> FingerprintWork:
    return FingerprintWork(
        fingerprint=sum_.form.number,
        text=sum_.form.text,
        kind=sum_.form.kind,
        statements=sum_.statements,
        seconds=sum_.nanoseconds / 1e9,
        longest_seconds=sum_.longest / 1e9,
        timed=sum_.timed,
        rows=sum_.rows,
        errors=sum_.errors,
    )
