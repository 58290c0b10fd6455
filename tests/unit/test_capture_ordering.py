"""What an action waits for: ranks and turns by the order of ends, and never a circle."""

import random
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replayer.capture import ordering
from replayer.capture.action import UNKNOWN, Action, Does
from replayer.capture.fingerprint import Fingerprints
from replayer.capture.ordering import CommitOrder

_SQL = (
    *("BEGIN", "COMMIT", "ROLLBACK", "COMMIT AND CHAIN", "ROLLBACK TO SAVEPOINT a"),
    *("select a from t", "update t set a = 1", "delete from u", "select f()"),
    *("select a from t for update", "insert into t values (1)"),
)


def _places(actions: Iterable[Action], engine: str = "postgres") -> Any:
    fingerprints, order = Fingerprints(engine), CommitOrder()
    places = []
    for action in actions:
        form = fingerprints.statement(action.text).fingerprint if action.text else None
        end = action.start_ns + max(0, action.duration_ns)
        places.append(order.place(action, end, form))
    return places, order


_TICK = 10**7
"""Nanoseconds: more than the stamps of logs are apart."""


def _simple(session: int, start: int, duration: int, text: str) -> Action:
    does: Does = "simple" if text else "disconnect"
    return Action(session, does, start * _TICK, duration * _TICK, text)


def test_a_transaction_needs_those_that_had_ended_when_it_began() -> None:
    """Its first action counts them; the others need nothing more; its end has a rank."""
    places, order = _places(
        [
            _simple(1, 0, 10, "update t set a = 1"),
            _simple(2, 5, 10, "BEGIN"),
            _simple(3, 11, 6, "select 1"),
            _simple(2, 18, 2, "update t set a = 2"),
            _simple(2, 21, 2, "COMMIT"),
            _simple(1, 30, 1, "update u set a = 3"),
        ]
    )
    assert [place.needs for place in places] == [0, 0, 1, UNKNOWN, UNKNOWN, 3]
    assert [place.ends for place in places] == [0, UNKNOWN, 1, UNKNOWN, 2, 3]
    assert [(place.chain, place.turn) for place in places] == [
        (1, 0),
        (UNKNOWN, UNKNOWN),
        (UNKNOWN, UNKNOWN),
        (1, 1),
        (UNKNOWN, UNKNOWN),
        (2, 0),
    ]
    assert (order.transactions, order.chains) == (4, 3)


def test_who_ended_within_a_stamp_before_may_have_ended_after() -> None:
    """A lock that is let go lets another one end, whose entry may be the first of the two."""
    places, _ = _places(
        [
            Action(1, "simple", 0, 10 * _TICK, "select pg_advisory_lock(1)"),
            Action(2, "simple", 10 * _TICK + 500_000, 1000, "select pg_advisory_unlock(1)"),
            Action(3, "simple", 10 * _TICK + 2_000_000, 1000, "select 1"),
        ]
    )

    assert [place.needs for place in places] == [0, 0, 2]


def test_advisory_locks_are_asked_for_in_turns_and_let_go_in_none() -> None:
    """By all the ways to ask for one; what is in no table has a chain of its own."""
    asking = ("pg_advisory_lock(1)", "pg_try_advisory_xact_lock_shared(1, 2)", "get_lock('a', 1)")
    texts = [f"select {call}" for call in (*asking, "pg_advisory_unlock(1)", "pg_sleep(1)")]
    places, order = _places([_simple(1, n, 0, text) for n, text in enumerate(texts)])

    assert [(one.chain, one.turn) for one in places] == [(1, 0), (1, 1), (1, 2), (-1, -1), (-1, -1)]
    assert order.chains == 2


def test_a_session_that_leaves_ends_its_transaction() -> None:
    """Without an open one, its end ends nothing."""
    places, _ = _places(
        [
            _simple(1, 0, 1, "BEGIN"),
            _simple(1, 2, 1, "update t set a = 1"),
            _simple(1, 4, 0, ""),
            _simple(2, 5, 0, ""),
        ]
    )
    assert [place.ends for place in places] == [UNKNOWN, UNKNOWN, 0, UNKNOWN]


@pytest.mark.parametrize(
    ("engine", "texts", "ends"),
    [
        ("postgres", ["BEGIN", "BEGIN", "COMMIT"], [UNKNOWN, UNKNOWN, 0]),
        ("mysql", ["BEGIN", "BEGIN", "COMMIT"], [UNKNOWN, 0, 1]),
        ("mysql", ["BEGIN", "create table t (a int)", "select 1"], [UNKNOWN, 0, 1]),
        ("postgres", ["BEGIN", "COMMIT AND CHAIN", "select 1", "END"], [UNKNOWN, 0, UNKNOWN, 1]),
        ("postgres", ["BEGIN", "ROLLBACK TO SAVEPOINT a", "ROLLBACK"], [UNKNOWN, UNKNOWN, 0]),
        ("postgres", ["BEGIN; update t set a = 1", "COMMIT"], [UNKNOWN, 0]),
        ("postgres", ["BEGIN; update t set a = 1; COMMIT", "select 1"], [0, 1]),
        ("postgres", ["BEGIN", "PREPARE TRANSACTION 'x'", "COMMIT PREPARED 'x'"], [UNKNOWN, 0, 1]),
        (
            "mysql",
            ["SET autocommit = 0", "select 1", "select 2", "COMMIT", "select 3"],
            [0, UNKNOWN, UNKNOWN, 1, UNKNOWN],
        ),
        ("mysql", ["SET autocommit=0", "select 1", "SET autocommit=1", "select 2"], [0, -1, 1, 2]),
    ],
)
def test_where_a_transaction_ends(engine: str, texts: list[str], ends: list[int]) -> None:
    """In each engine's own way."""
    places, _ = _places([_simple(1, n * 10, 1, text) for n, text in enumerate(texts)], engine)
    assert [place.ends for place in places] == ends


@st.composite
def _histories(draw: st.DrawFn) -> list[Action]:
    free: dict[Any, Any] = {}
    actions = []
    for _ in range(draw(st.integers(1, 80))):
        session = draw(st.integers(0, 6))
        begin = free.get(session, 0) + draw(st.integers(0, 30))
        duration = draw(st.integers(0, 60))
        free[session] = begin + duration
        actions.append(_simple(session, begin, duration, draw(st.sampled_from((*_SQL, "")))))
    return sorted(actions, key=lambda each: each.start_ns + each.duration_ns)


@settings(deadline=None, max_examples=100)
@given(_histories(), st.integers())
def test_who_keeps_all_places_never_waits_for_ever(actions: list[Action], seed: int) -> None:
    """Sessions that run by their places, in any other order, all come to their end."""
    places, order = _places(actions)
    waiting: dict[Any, Any] = {}
    for number, action in enumerate(actions):
        waiting.setdefault(action.session, []).append(number)
    ended = [False] * order.transactions
    turns = [0] * order.chains
    draw = random.Random(seed)
    while waiting:
        able = []
        for session, numbers in waiting.items():
            place = places[numbers[0]]
            if all(ended[: max(0, place.needs)]) and (
                place.chain == UNKNOWN or turns[place.chain] == place.turn
            ):
                able.append(session)
        assert able, "everybody waits"
        session = draw.choice(able)
        place = places[waiting[session].pop(0)]
        if place.ends != UNKNOWN:
            assert not ended[place.ends]
            ended[place.ends] = True
        if place.chain != UNKNOWN:
            turns[place.chain] += 1
        if not waiting[session]:
            del waiting[session]


def test_of_old_ends_some_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where what ended long ago is asked for, the answer is a little too small, never too large."""
    monkeypatch.setattr(ordering, "_MOST_ENDS", 64)
    places, _ = _places([_simple(number, number * 10, 1, "select 1") for number in range(1000)])
    assert [place.needs for place in places] == list(range(1000))

    order = CommitOrder()
    form = Fingerprints().statement("select 1").fingerprint
    for number in range(1000):
        order.place(_simple(1, number * 10, 1, "x"), (number * 10 + 1) * _TICK, form)
    for number in (0, 17, 500, 900, 980, 999):
        needs = order.place(_simple(2, number * 10, 1, "x"), 20_000 * _TICK, form).needs
        assert number - 64 < needs <= number
        if number > 940:
            assert needs == number
