"""A block: some thousand actions of a replay file as columns, packed to bytes and unpacked.

An action is a connect, a statement or a disconnect of one session.  Values that repeat (texts of
statements, names, error codes) are stored once in a block.  These values and the parameters are
its words.  A block never refers to another block, so that each block can be read alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from operator import attrgetter
from typing import NamedTuple, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from replayer.capture.action import (
    DOES,
    UNKNOWN,
    Action,
    Bounds,
    CommitPlace,
    Fingerprint,
    Kind,
    LoggedSession,
    LoggedStatement,
)
from replayer.capture.strings import Strings

Integers = NDArray[np.int64]
_T = TypeVar("_T")

_KINDS: tuple[Kind, ...] = get_args(Kind)
_BOUNDS: tuple[Bounds, ...] = get_args(Bounds)
_WIDTHS = (np.int8, np.int16, np.int32, np.int64)
_MOST = 1 << 24
"""A number of parameters of one action that no writer makes: it shows a damaged block."""


class ActionRow(NamedTuple):
    """One action (connect, statement or disconnect) of a session, before it is put into a block.

    `does` is an index in DOES.  `needs`, `ends`, `chain` and `turn` are its CommitPlace.
    """

    start_ns: int
    session: int
    does: int
    duration_ns: int
    rows: int
    needs: int
    ends: int
    chain: int
    turn: int
    statement: LoggedStatement | None
    name: str
    sqlstate: str
    parameters: tuple[str | None, ...] | None
    length: int
    """Characters of its text, name and parameters."""


@dataclass(frozen=True, slots=True)
class ActionColumns:
    """The fields of many actions: one array of numbers for each field, one element for each action.

    The actions are in the order of their starts.  Texts are in the Block; columns such as
    `statement` hold indexes of the Block's texts.
    """

    start_ns: Integers
    session: Integers
    does: Integers
    """Index in DOES."""
    duration_ns: Integers
    rows: Integers
    needs: Integers
    ends: Integers
    chain: Integers
    turn: Integers
    statement: Integers
    """Index in the block's statements, UNKNOWN for a connect or disconnect."""
    name: Integers
    """Index in the block's names."""
    sqlstate: Integers
    """Index in the block's sqlstates."""
    parameters: Integers
    """Number of parameters; UNKNOWN if the parameters of the action are None."""

    def __len__(self) -> int:
        return len(self.start_ns)

    def __getitem__(self, rows: slice | Integers) -> "ActionColumns":
        return ActionColumns(*(getattr(self, name)[rows] for name in COLUMNS))

    def pack(self) -> dict[str, bytes]:
        """Return name of a column -> its bytes, with integers as narrow as the values allow."""
        return {name: _narrow(getattr(self, name)) for name in COLUMNS}

    @classmethod
    def unpack(cls, packed: Mapping[str, bytes]) -> "ActionColumns":
        """Return the columns from the result of `pack`.

        Raises ValueError or KeyError for invalid bytes.
        """
        columns = cls(*(_wide(packed[name]) for name in COLUMNS))
        if len({len(getattr(columns, name)) for name in COLUMNS}) != 1:
            raise ValueError("columns differ in length")
        _check(columns.does, 0, len(DOES))
        _check(columns.parameters, UNKNOWN, _MOST)
        return columns


COLUMNS = tuple(field.name for field in fields(ActionColumns))


def _narrow(values: Integers) -> bytes:
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    for width in _WIDTHS:
        limits = np.iinfo(width)
        if limits.min <= low and high <= limits.max:
            break
    little = values.astype(np.dtype(width).newbyteorder("<"))
    return bytes([little.itemsize]) + little.tobytes()


def _wide(packed: bytes) -> Integers:
    width = packed[0] if packed else 0
    if width not in {1, 2, 4, 8}:
        raise ValueError("a column has no width")
    return np.frombuffer(packed, f"<i{width}", offset=1).astype(np.int64)


def _check(values: Integers, least: int, limit: int) -> None:
    if len(values) and (int(values.min()) < least or int(values.max()) >= limit):
        raise ValueError("a number is out of its bounds")


@dataclass(frozen=True, slots=True)
class Block:
    """Actions in the order of their starts, and the texts to which their columns refer."""

    columns: ActionColumns
    statements: tuple[LoggedStatement, ...]
    names: tuple[str, ...]
    sqlstates: tuple[str, ...]
    values: Strings
    """Parameters of all actions, one after another."""
    first_value: Integers
    """Index of the first parameter of each action in `values`."""
    sessions: tuple[LoggedSession, ...]
    """The sessions whose first action is in this block, and possibly others."""

    def __len__(self) -> int:
        return len(self.columns)

    def statement(self, row: int) -> LoggedStatement | None:
        """Return the statement of the action number `row`; None for a connect or disconnect."""
        index = int(self.columns.statement[row])
        return None if index == UNKNOWN else self.statements[index]

    def parameters(self, row: int) -> tuple[str | None, ...] | None:
        """Return the parameters of the action number `row`, as text, None for NULL.

        Returns () for an extended query without parameters.  Returns None for any other action
        without parameters, and if they are unknown.
        """
        count = int(self.columns.parameters[row])
        if count == UNKNOWN:
            return None
        begin = int(self.first_value[row])
        return self.values.part(begin, begin + count)

    def place(self, row: int) -> CommitPlace:
        """Return the place of the action number `row` in the commit order."""
        columns = self.columns
        numbers = (columns.needs, columns.ends, columns.chain, columns.turn)
        return CommitPlace(*(int(column[row]) for column in numbers))

    def action(self, row: int) -> Action:
        """Return the action number `row`; its query id is 0, because blocks do not store it."""
        columns, statement = self.columns, self.statement(row)
        return Action(
            session=int(columns.session[row]),
            does=DOES[columns.does[row]],
            start_ns=int(columns.start_ns[row]),
            duration_ns=int(columns.duration_ns[row]),
            text=statement.text if statement else "",
            name=self.names[columns.name[row]],
            parameters=self.parameters(row),
            sqlstate=self.sqlstates[columns.sqlstate[row]],
            rows=int(columns.rows[row]),
        )

    def forms(self) -> tuple[Integers, tuple[Fingerprint, ...]]:
        """Return (index of the fingerprint of each of `statements`, the distinct fingerprints)."""
        return _by_identity([statement.fingerprint for statement in self.statements])

    def chosen(self, rows: slice | Integers) -> "Block":
        """Return a block with the actions `rows` only; it keeps the texts of all actions."""
        return replace(self, columns=self.columns[rows], first_value=self.first_value[rows])

    def compact(self) -> "Block":
        """Return the same actions in a block without texts and parameters that no action uses."""
        return Block.of(list(self._rows()), self.sessions)

    def _rows(self) -> Iterable[ActionRow]:
        for row in range(len(self)):
            action, place = self.action(row), self.place(row)
            yield ActionRow(
                action.start_ns,
                action.session,
                int(self.columns.does[row]),
                action.duration_ns,
                action.rows,
                *place,
                self.statement(row),
                action.name,
                action.sqlstate,
                action.parameters,
                0,
            )

    @classmethod
    def of(cls, rows: Sequence[ActionRow], sessions: Iterable[LoggedSession] = ()) -> "Block":
        """Return a block of these rows, which must be in the order of their starts."""
        *numbers, statements, names, sqlstates, parameters, _ = zip(*rows, strict=True)
        statement, texts = _by_identity(statements)
        name, known_names = _interned(names)
        sqlstate, states = _interned(sqlstates)
        counts = np.fromiter(
            (UNKNOWN if values is None else len(values) for values in parameters),
            np.int64,
            len(rows),
        )
        arrays = [np.array(column, np.int64) for column in numbers]
        columns = ActionColumns(*[*arrays, statement, name, sqlstate, counts])
        values = Strings.of(list(chain.from_iterable(filter(None, parameters))))
        return cls(columns, texts, known_names, states, values, _first(counts), tuple(sessions))

    def pack(self) -> tuple[dict[str, bytes], dict[str, bytes]]:
        """Return (columns, words), each as name -> bytes.

        The words are all parts of the block but its columns: texts, parameters and sessions.
        """
        form, forms = self.forms()
        words = {
            **_packed("statement", [each.text for each in self.statements]),
            "statement.form": form.astype("<i4").tobytes(),
            **_pack_forms(forms),
            **_packed("name", self.names),
            **_packed("sqlstate", self.sqlstates),
            **_named("value", self.values.pack()),
            **_pack_sessions(self.sessions),
        }
        return self.columns.pack(), words

    @classmethod
    def unpack(cls, columns: ActionColumns, words: Mapping[str, bytes]) -> "Block":
        """Return the block with these columns; unpack its texts and parameters from `words`.

        `words` is name -> bytes, as `pack` returns it.  Raises ValueError or KeyError for invalid
        bytes.
        """
        forms = _unpack_forms(words)
        texts = _unpacked("statement", words)
        form = np.frombuffer(words["statement.form"], "<i4").astype(np.int64)
        if len(form) != len(texts):
            raise ValueError("a statement has no form")
        _check(form, 0, len(forms))
        statements = tuple(
            LoggedStatement(text, forms[number])
            for text, number in zip(texts, form.tolist(), strict=True)
        )
        names, states = _unpacked("name", words), _unpacked("sqlstate", words)
        values = _strings("value", words)
        _check(columns.statement, UNKNOWN, len(statements))
        _check(columns.name, 0, len(names))
        _check(columns.sqlstate, 0, len(states))
        if int(np.maximum(columns.parameters, 0).sum()) != len(values):
            raise ValueError("parameters are missing")
        first = _first(columns.parameters)
        return cls(columns, statements, names, states, values, first, _unpack_sessions(words))

    def __add__(self, other: "Block") -> "Block":
        """Return a block with the actions of this block, followed by those of the other."""
        shifts = {
            "statement": len(self.statements),
            "name": len(self.names),
            "sqlstate": len(self.sqlstates),
        }
        columns = {
            name: np.concatenate(
                (getattr(self.columns, name), _shifted(getattr(other.columns, name), shifts, name))
            )
            for name in COLUMNS
        }
        first = np.concatenate((self.first_value, other.first_value + len(self.values)))
        return Block(
            ActionColumns(**columns),
            self.statements + other.statements,
            self.names + other.names,
            self.sqlstates + other.sqlstates,
            self.values + other.values,
            first,
            self.sessions + other.sessions,
        )


def _shifted(values: Integers, shifts: Mapping[str, int], name: str) -> Integers:
    return np.where(values == UNKNOWN, UNKNOWN, values + shifts[name]) if name in shifts else values


def _first(counts: Integers) -> Integers:
    sizes = np.maximum(counts, 0)
    return np.cumsum(sizes) - sizes


def _interned(values: Sequence[str]) -> tuple[Integers, tuple[str, ...]]:
    """Return (index of each value among the distinct values, the distinct values)."""
    kept: dict[str, int] = {}
    indexes = [kept.setdefault(value, len(kept)) for value in values]
    return np.array(indexes, np.int64), tuple(kept)


def _by_identity(values: Sequence[_T | None]) -> tuple[Integers, tuple[_T, ...]]:
    """Return (index of each object among the distinct objects, these objects).

    Equal objects count as one only if they are the same object.  None has the index UNKNOWN, and is
    not among the objects.
    """
    kept = {id(None): 0}
    indexes = np.array([kept.setdefault(id(value), len(kept)) for value in values], np.int64)
    firsts = np.unique(indexes, return_index=True)[1].tolist()
    objects = (values[first] for first in firsts)
    return indexes - 1, tuple(value for value in objects if value is not None)


def _named(name: str, packed: tuple[bytes, bytes]) -> dict[str, bytes]:
    return {f"{name}.text": packed[0], f"{name}.lengths": packed[1]}


def _packed(name: str, values: Sequence[str | None]) -> dict[str, bytes]:
    return _named(name, Strings.of(values).pack())


def _strings(name: str, words: Mapping[str, bytes]) -> Strings:
    return Strings.unpack(words[f"{name}.text"], words[f"{name}.lengths"])


def _optional(name: str, words: Mapping[str, bytes]) -> tuple[str | None, ...]:
    strings = _strings(name, words)
    return strings.part(0, len(strings))


def _unpacked(name: str, words: Mapping[str, bytes]) -> tuple[str, ...]:
    values = _optional(name, words)
    if None in values:
        raise ValueError("a word is missing")
    return tuple(value for value in values if value is not None)


def _pack_forms(forms: Sequence[Fingerprint]) -> dict[str, bytes]:
    return {
        **_packed("form", [form.text for form in forms]),
        **_packed("form.writes", [_listed(form.writes) for form in forms]),
        "form.number": np.array([form.number for form in forms], "<i8").tobytes(),
        "form.kind": bytes(_KINDS.index(form.kind) for form in forms),
        "form.bounds": bytes(_BOUNDS.index(form.bounds) for form in forms),
    }


def _unpack_forms(words: Mapping[str, bytes]) -> tuple[Fingerprint, ...]:
    numbers = np.frombuffer(words["form.number"], "<i8").tolist()
    parts = zip(
        numbers,
        _unpacked("form", words),
        words["form.kind"],
        _optional("form.writes", words),
        words["form.bounds"],
        strict=True,
    )
    return tuple(
        Fingerprint(number, text, _nth(_KINDS, kind), _unlisted(writes), _nth(_BOUNDS, bounds))
        for number, text, kind, writes, bounds in parts
    )


def _nth(known: Sequence[_T], index: int) -> _T:
    if index >= len(known):
        raise ValueError("a number stands for nothing")
    return known[index]


def _listed(texts: Sequence[str] | None) -> str | None:
    """Return texts as one text, each with a NUL at its end; None for None.

    Names in PostgreSQL and MySQL never contain a NUL.
    """
    return None if texts is None else "".join(f"{text.replace(chr(0), '')}\0" for text in texts)


def _unlisted(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(text.split("\0")[:-1])


def _pack_sessions(sessions: Sequence[LoggedSession]) -> dict[str, bytes]:
    settings = [_listed(tuple(chain.from_iterable(session.settings))) for session in sessions]
    words = {
        f"session.{name}": list(map(attrgetter(name), sessions))
        for name in ("user", "database", "application")
    }
    return {
        "session.number": np.array([session.number for session in sessions], "<i8").tobytes(),
        "session.before": bytes(session.began_before for session in sessions),
        **{
            key: value
            for name, texts in words.items()
            for key, value in _packed(name, texts).items()
        },
        **_packed("session.settings", settings),
    }


def _unpack_sessions(words: Mapping[str, bytes]) -> tuple[LoggedSession, ...]:
    parts = zip(
        np.frombuffer(words["session.number"], "<i8").tolist(),
        *(_unpacked(f"session.{name}", words) for name in ("user", "database", "application")),
        _optional("session.settings", words),
        words["session.before"],
        strict=True,
    )
    return tuple(
        LoggedSession(
            number, user, database, application, _pairs(_unlisted(settings)), bool(before)
        )
        for number, user, database, application, settings, before in parts
    )


def _pairs(texts: Sequence[str] | None) -> tuple[tuple[str, str], ...]:
    words = texts or ()
    return tuple(zip(words[::2], words[1::2], strict=False))
