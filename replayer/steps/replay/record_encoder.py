"""Encoding of the actions of a capture as the records of a replay, ready to be sent."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from replayer.capture.action import (
    UNKNOWN,
    Action,
    CommitPlace,
    Fingerprint,
    LoggedStatement,
)
from replayer.engines import wires
from replayer.engines.wire_session import encode_text
from replayer.steps.replay.copy_files import FAILS
from replayer.steps.replay.replay_counts import number_of
from replayer.steps.replay.spec import Spec
from replayer.steps.replay.work import (
    CONNECT,
    DISCONNECT,
    EXTENDED,
    FED,
    FORGETS,
    IMPOSED,
    IN_ORDER,
    NAMED,
    PARTS,
    WHOLE,
    Prepared,
    Record,
)

_SECOND = 10**9
# A normalised text has DISCARD ALL as `discard AS all`.
_FORGETS = re.compile(r"(?:\A|;)\s*(?:deallocate|discard\s+(?:as\s+)?all)\b", re.IGNORECASE)
_NOTHING = r"(?:\s|/\*.*?\*/)*+"
_FORGETS_ONE = re.compile(
    rf"{_NOTHING}deallocate\s+(?:prepare\s+)?(?!all\b)"
    rf"(?:(?P<plain>[^\W\d][\w$]*)|\"(?P<quoted>(?:[^\"]|\"\")+)\"){_NOTHING};?{_NOTHING}",
    re.IGNORECASE | re.DOTALL,
)
_INTO = re.compile(r"\binto\b", re.IGNORECASE)
_ORDERED = re.compile(r"\border\s+by\b", re.IGNORECASE)
_COUNTED = frozenset({"select", "insert", "update", "delete"})


@dataclass(slots=True)
class PlannedForm:
    """A fingerprint (form of statements), and facts that are the same for all its statements."""

    fingerprint: Fingerprint
    place: int
    """Index of the fingerprint among all of the replay: records have it as `fingerprint`."""
    flags: int
    """Flags of all its records, such as IN_ORDER."""
    is_counted: bool
    """True if logs and servers count its rows in the same way."""
    planned: int = 0
    """Number of its statements that are to run."""


class RecordEncoder:
    """Makes the records of a replay from the actions of a capture.

    It also collects the fingerprints and the prepared statements that the records use.
    """

    def __init__(self, spec: Spec, wire: wires.Wire, span_ns: int) -> None:
        self.forms: dict[int, PlannedForm] = {}
        """The number of a fingerprint -> its form, in the order of their places."""
        self.part_ns = span_ns // PARTS + 1
        """Length of each of the PARTS of the capture, in ns."""
        self._spec, self._wire = spec, wire
        self._binds = wires.has_own(wire, "encode_values")
        self._prepared: dict[tuple[str, str], int] = {}

    def prepared(self) -> Iterator[Prepared]:
        """Yield the named prepared statements of the records, in the order of their numbers.

        Those that a record only removes have no text.
        """
        return (Prepared(encode_text(name), encode_text(text)) for name, text in self._prepared)

    def encode(
        self,
        action: Action,
        statement: LoggedStatement | None,
        place: CommitPlace,
        start_ns: int,
        feed: int,
    ) -> Record:
        """Return the record of an action that starts `start_ns` after the start of the replay.

        `statement` is None for connecting and disconnecting.  `place` is the place of the action in
        the commit order.  `feed` is the result of CopyFiles.feed for the statement.

        Some statements that failed in the log are made to fail again: if `feed` is FAILS, and if
        another session, a timeout or an operator ended them.  The latter needs a key `order` other
        than "none".
        """
        if statement is None:
            does = CONNECT if action.does == "connect" else DISCONNECT
            return Record(does, -1, b"", start_ns, -1, place.ends, -1, -1, 0, -1, 0, -1, 0)
        record = self._encode_statement(action, statement, place, start_ns)
        seconds = action.duration_ns / _SECOND
        if feed == FAILS or (
            self._spec.order != "none" and self._wire.is_by_others(action.sqlstate, seconds)
        ):
            return self._impose(record, action, statement.fingerprint)
        return record if feed < 0 else record._replace(flags=record.flags | (feed + 1) << FED)

    def _encode_statement(
        self, action: Action, statement: LoggedStatement, place: CommitPlace, start_ns: int
    ) -> Record:
        chain, turn = place.chain, place.turn
        if self._spec.order != "commit":
            chain = turn = UNKNOWN
        form = self.forms.get(statement.fingerprint.number) or self._add(statement.fingerprint)
        form.planned += 1
        flags = form.flags
        values = action.parameters or ()
        named = -1
        if action.does == "simple" or not self._binds:
            does, payload = WHOLE, self._wire.encode_query(statement.text)
        elif action.name:
            does, payload = NAMED, self._wire.encode_values(values)
            known = (action.name, statement.text)
            named = self._prepared.setdefault(known, len(self._prepared))
        else:
            does, payload = WHOLE, self._wire.encode_bound(statement.text, values)
        flags |= 0 if action.does == "simple" else EXTENDED
        if flags & FORGETS and (one := _FORGETS_ONE.fullmatch(statement.text)):
            name = one["plain"].lower() if one["plain"] else one["quoted"].replace('""', '"')
            named = self._prepared.setdefault((name, ""), len(self._prepared))
        logged = number_of(action.sqlstate)
        rows = action.rows if form.is_counted else UNKNOWN
        part = min(PARTS - 1, action.start_ns // self.part_ns)
        source_ns = UNKNOWN if action.sqlstate else action.duration_ns
        return Record(
            *(does, form.place, payload, start_ns, place.needs, place.ends),
            *(chain, turn, logged, named, flags, rows, part, source_ns),
        )

    def _impose(self, record: Record, action: Action, fingerprint: Fingerprint) -> Record:
        """Return a copy of the record that sends a substitute for a statement that failed.

        The substitute leaves the transaction in the state in which the failed statement left it.
        The failed statement itself is not sent: it could succeed in the replay, or make another
        session fail.  The substitute is sent at the time of the failure.  It does not wait for
        other changes of its table.
        """
        begins, ends = fingerprint.kind == "begin", fingerprint.kind == "commit"
        payload = self._wire.encode_failure(action.sqlstate, begins=begins, ends=ends)
        end = record.start_ns + round(max(0, action.duration_ns) / (self._spec.speed or 1))
        return record._replace(
            does=WHOLE, payload=payload, start_ns=end, chain=UNKNOWN, turn=UNKNOWN, named=-1,
            flags=record.flags & ~(EXTENDED | FORGETS) | IMPOSED,
        )  # fmt: skip

    def _add(self, fingerprint: Fingerprint) -> PlannedForm:
        ordered = IN_ORDER if _ORDERED.search(fingerprint.text) else 0
        forgets = FORGETS if self._binds and _FORGETS.search(fingerprint.text) else 0
        into = fingerprint.kind == "select" and _INTO.search(fingerprint.text)
        is_counted = fingerprint.kind in _COUNTED and not into
        form = PlannedForm(fingerprint, len(self.forms), ordered | forgets, is_counted)
        self.forms[fingerprint.number] = form
        return form
