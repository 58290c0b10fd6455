"""Selection of what a replay runs, by the keys users, applications, fingerprints and tables.

The keys users and applications choose sessions.  The keys fingerprints and tables choose
statements.  A chosen statement is replayed with its whole transaction.  A transaction in which a
name after ! matches is left out, whatever else is in it.  A statement that sets up its session
outside of a transaction is always kept.  The capture is read twice: only the last statement of a
transaction may show whether the transaction is replayed.
"""

import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from replayer.capture.action import Action, CommitPlace, Fingerprint, LoggedSession, LoggedStatement
from replayer.capture.block import Block
from replayer.errors import Impossible, one_line
from replayer.lazy_import import Later
from replayer.steps.replay.spec import Spec
from replayer.steps.replay.transaction_walk import TransactionWalk

if TYPE_CHECKING:
    from replayer.capture import fingerprint
else:
    # Its parser of SQL takes long to load, and a replay of all statements needs none.
    fingerprint = Later("replayer.capture.fingerprint")

_MOST_NAMED = 5
_MOST_SHOWN = 60
_OTHER, _KEPT, _EXCLUDED = 0, 1, 2
"""Ranks of a transaction: not chosen, chosen, excluded; the larger number wins."""
_EVERYWHERE = frozenset({"begin", "commit", "rollback"})


@dataclass(frozen=True)
class Names:
    """The names in one key of the step: those to keep, and those to leave out (written after !).

    `key` is the key's name, such as "users".  Names may have the wildcards * and ?.
    """

    key: str
    kept: tuple[str, ...]
    excluded: tuple[str, ...]

    @classmethod
    def of(cls, key: str, asked: Sequence[str], change: Callable[[str], str] = str) -> "Names":
        """Return the names that a key of the step gives: those to keep, and those to leave out.

        `asked` are the values of the key.  `change` is applied to each name, without its !.
        """
        kept = tuple(change(one) for one in asked if not one.startswith("!"))
        excluded = tuple(change(one[1:]) for one in asked if one.startswith("!"))
        return cls(key, kept, excluded)

    def __bool__(self) -> bool:
        return bool(self.kept or self.excluded)

    def rank(self, names: Iterable[str], matches: Callable[[str, str], bool]) -> int:
        """Return how this key judges something that has the names `names`.

        _EXCLUDED: a name to leave out matches.  _KEPT: a name to keep matches, or the key has no
        name to keep.  _OTHER: no name matches.  `matches` takes one of `names` and a name of the
        key.
        """
        known = list(names)
        if any(matches(name, one) for one in self.excluded for name in known):
            return _EXCLUDED
        if not self.kept or any(matches(name, one) for one in self.kept for name in known):
            return _KEPT
        return _OTHER


@dataclass
class _Seen:
    """The names of one kind (such as users) in a capture, each with its number of statements.

    They show whether a name in a key of the step is wrong: then it matches none of them.
    """

    names: Counter[str] = field(default_factory=Counter)

    def unmatched(self, asked: Iterable[str], matches: Callable[[str, str], bool]) -> Iterator[str]:
        """Yield those of the names `asked` that match no name of the capture, each with a hint.

        A name is in quotes.  Its hint is the most similar name of the capture, or some of its names
        if none is similar.
        """
        for one in asked:
            if not any(matches(name, one) for name in self.names):
                yield f"{one!r}{self._nearest(one)}"

    def _nearest(self, asked: str) -> str:
        names = [name for name in self.names if name]
        close = difflib.get_close_matches(asked, names, n=1, cutoff=0.6)
        if close:
            return f" - did you mean {_short(close[0])}?"
        return f" (there are: {self.most_common(_short)})" if names else " (there are none)"

    def most_common(self, shown: Callable[[str], str] = str) -> str:
        """Return the names with the most statements as words, such as `a, b and 3 more`."""
        known = [shown(name) for name, _ in self.names.most_common(_MOST_NAMED) if name]
        more = len([name for name in self.names if name]) - len(known)
        return ", ".join(known) + (f" and {more:,} more" if more > 0 else "")


class Choice:
    """Decides for each action whether it is replayed, and counts the statements left out.

    First call `look` with the whole capture, then `keeps` for each action.
    """

    def __init__(self, spec: Spec, wire: str) -> None:
        self._spec, self._wire = spec, wire
        self._users = Names.of("users", spec.users)
        self._applications = Names.of("applications", spec.applications)
        self._fingerprints = Names.of("fingerprints", spec.fingerprints, _folded)
        self._tables = Names.of("tables", spec.tables, _folded)
        self._seen = {key: _Seen() for key in ("users", "applications", "fingerprints", "tables")}
        self._ranks: dict[int, int] = {}
        """Number of a fingerprint -> its rank."""
        self._marks = bytearray()
        """Rank of each transaction, in the order in which the transactions begin."""
        self._walk = TransactionWalk()
        self._working: set[int] = set()
        """Sessions with at least one transaction that is replayed."""
        self._left_out: Counter[str] = Counter()

    @property
    def asked(self) -> bool:
        """Return whether the step has one of the keys that choose.

        They are users, applications, fingerprints and tables.
        """
        return any(True for _ in self._keys())

    def look(self, blocks: Iterable[Block]) -> None:
        """Read the whole capture, and decide which of its transactions are replayed.

        Raise Impossible if none is.
        """
        for block in blocks:
            for session in block.sessions:
                self._walk.describe(session)
            for row in range(len(block)):
                self._look_at(block.action(row), block.statement(row), block.place(row))
        self._walk = TransactionWalk()
        if _KEPT not in self._marks:
            raise Impossible(self._nothing())

    def _look_at(
        self, action: Action, statement: LoggedStatement | None, place: CommitPlace
    ) -> None:
        session = self._walk.session(action)
        number, _ = self._walk.transaction(action, statement, place)
        if number >= len(self._marks):
            self._marks.append(_OTHER)
        if statement is None:
            return
        self._seen["users"].names[session.user] += 1
        self._seen["applications"].names[session.application] += 1
        rank = self._rank(statement)
        if not self._reason(session) and statement.fingerprint.kind not in _EVERYWHERE:
            self._marks[number] = max(self._marks[number], rank)
            if rank == _KEPT:
                self._working.add(session.number)

    def _rank(self, statement: LoggedStatement) -> int:
        """Return how the keys tables and fingerprints judge a statement.

        The result is _OTHER, _KEPT or _EXCLUDED.  A transaction gets that result of its statements
        which is the last in this order.
        """
        form = statement.fingerprint
        rank = self._ranks.get(form.number)
        if rank is None:
            rank = _KEPT
            if self._tables:
                names = _tables(statement, self._wire)
                self._seen["tables"].names.update(names)
                rank = self._tables.rank(names, _matches_table)
            if self._fingerprints:
                names = (f"{form.number & (1 << 64) - 1:016x}", _folded(form.text))
                self._seen["fingerprints"].names[names[1]] += 1
                other = self._fingerprints.rank(names, _matches)
                rank = _EXCLUDED if _EXCLUDED in {rank, other} else min(rank, other)
            self._ranks[form.number] = rank
        return rank

    def keeps(self, action: Action, statement: LoggedStatement | None, place: CommitPlace) -> bool:
        """Return whether an action is replayed.

        Actions must come in the same order as they came to `look`.
        """
        session = self._walk.session(action)
        number, alone = self._walk.transaction(action, statement, place)
        reason = self._reason(session)
        if statement is None:
            return not reason and session.number in self._working
        setting = statement.fingerprint.kind == "set" and alone
        chosen = setting or self._marks[number] == _KEPT
        if not reason and not (chosen and session.number in self._working):
            reason = self._why_not(statement)
        if reason:
            self._left_out[reason] += 1
        return not reason

    def describe(self, session: LoggedSession) -> None:
        """Store the description of a session (user, application): call it before its actions."""
        self._walk.describe(session)

    def left_out(self) -> Mapping[str, int]:
        """Return reason -> number of statements left out."""
        return self._left_out

    def notes(self) -> Iterator[str]:
        """Yield a sentence for each key that has a name which is not in the capture."""
        for names, matches in self._keys():
            missing = list(self._seen[names.key].unmatched((*names.kept, *names.excluded), matches))
            if missing:
                yield f"{names.key}: the capture does not have {'; '.join(missing[:_MOST_NAMED])}"

    def _keys(self) -> Iterator[tuple[Names, Callable[[str, str], bool]]]:
        for names in (self._users, self._applications, self._fingerprints):
            if names:
                yield names, _matches
        if self._tables:
            yield self._tables, _matches_table

    def _reason(self, session: LoggedSession) -> str:
        """Return why the keys users and applications leave out a session; "" if they do not."""
        for names, name, what in (
            (self._users, session.user, "user"),
            (self._applications, session.application, "application"),
        ):
            if names and names.rank([name], _matches) != _KEPT:
                shown = f" ({one_line(name, _MOST_SHOWN)})" if name else ""
                return f"they are of another {what}{shown}" if name else f"no {what} is known"
        return ""

    def _why_not(self, statement: LoggedStatement) -> str:
        """Return why the keys tables and fingerprints leave out the transaction of a statement."""
        keys = " and ".join(names.key for names in (self._tables, self._fingerprints) if names)
        unknown = statement.fingerprint.kind == "call" and not _tables(statement, self._wire)
        if self._tables and unknown:
            return "their text does not name the tables that they use"
        return f"their transactions have no statement that {keys} choose, or one that is excluded"

    def _nothing(self) -> str:
        """Return the error sentence for a choice that leaves nothing to replay."""
        file = self._spec.file
        for names, matches in self._keys():
            seen = self._seen[names.key]
            if names.key in {"users", "applications"} and not any(seen.names):
                return (
                    f"{names.key}: {file} does not hold them, as its log does not name any: leave "
                    f"the key out"
                )
            missing = list(seen.unmatched(names.kept, matches))
            if names.kept and len(missing) == len(names.kept):
                return f"{names.key}: {file} does not have {'; '.join(missing[:_MOST_NAMED])}"
        asked = ", ".join(names.key for names, _ in self._keys())
        there = "; ".join(
            f"{names.key}: {self._seen[names.key].most_common(_short)}" for names, _ in self._keys()
        )
        return f"{asked}: nothing of {file} is left to replay ({there})"


def _tables(statement: LoggedStatement, wire: str) -> tuple[str, ...]:
    """Return the names of the tables that a statement reads or changes.

    A name has its schema if the statement has it.  `wire` is the name of the client protocol, which
    decides how the text is read.
    """
    form: Fingerprint = statement.fingerprint
    names = fingerprint.tables_of(statement.text, wire)
    last = {name.rpartition(".")[2] for name in names}
    return (*names, *(name for name in form.writes or () if name not in last))


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def _matches(name: str, asked: str) -> bool:
    return name == asked or fnmatchcase(name, asked)


def _matches_table(name: str, asked: str) -> bool:
    """Return whether the table `name` matches `asked`, a name that may have * and ?.

    If one of the two has no schema, only the names without it are compared.
    """
    schema, _, table = asked.rpartition(".")
    own_schema, _, own_table = name.rpartition(".")
    if schema and own_schema and not _matches(own_schema, schema):
        return False
    return _matches(own_table, table)


def _short(name: str) -> str:
    return one_line(name, _MOST_SHOWN)
