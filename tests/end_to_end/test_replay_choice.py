"""Filters of a replay: users, applications, fingerprints and tables, and what they leave out."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replayer.errors import Impossible
from replayer.model import Outcome
from replayer.run.context import Context
from replayer.servers.open import Server
from tests.captured import Capture
from tests.replaying import OWN, perform_replay, query
from tests.server_pool import ServerPool
from tests.slow_case import slow

DUMP = """
CREATE TABLE orders (id int); CREATE TABLE log (id int); CREATE TABLE stock (id int);
"""
STATE = (
    "SELECT 'orders', count(*) FROM orders UNION ALL SELECT 'log', count(*) FROM log "
    "UNION ALL SELECT 'stock', count(*) FROM stock"
)
Chosen = Callable[..., tuple[Outcome, dict[str, int]]]


@pytest.fixture
def server(server_pool: ServerPool) -> Server:
    """Return the server that tests share."""
    return server_pool()


def captured() -> Capture:
    """Return three sessions: a shop, which also logs, a report, and one without a name."""
    capture = Capture()
    capture.session(0, user="ann", application="shop").session(1, user="bob", application="report")
    capture.session(2)
    at = 1.0
    for number in range(3):
        for text in (
            *("BEGIN", f"INSERT INTO orders VALUES ({number})", "SELECT count(*) FROM stock"),
            *(f"INSERT INTO log VALUES ({number})", "COMMIT"),
            *("BEGIN", f"INSERT INTO public.stock VALUES ({number})", "COMMIT"),
        ):
            capture.runs(0, at, text)
            at += 0.01
        capture.runs(1, at, f"INSERT INTO log VALUES ({number})")
    capture.runs(1, at + 0.1, "SET work_mem = '4MB'")
    capture.runs(2, at + 0.1, "INSERT INTO stock VALUES (17)")
    capture.runs(2, at + 0.2, "CALL nothing_known()")
    for session in range(3):
        capture.leaves(session, at + 1)
    return capture


@pytest.fixture
def chosen(server: Server, context: Context, tmp_path: Path) -> Chosen:
    """Replay what some keys choose; return what was found, and the rows of each table."""
    file = captured().write(tmp_path / "shop.replay")
    dump = tmp_path / "dump.sql"
    dump.write_text(DUMP)

    def choose(**keys: Any) -> tuple[Outcome, dict[str, int]]:
        outcome = perform_replay(context, file, restore=dump, **keys)
        rows = query(server, STATE, database=OWN)
        return outcome, {str(name): int(count) for name, count in rows}

    return choose


def left_out(outcome: Outcome) -> dict[str, int]:
    """Return why statements were left out, with how many."""
    found = [
        re.fullmatch(r"(\d+) statement(?:s were| was) left out: (.*)", note)
        for note in outcome.notes
    ]
    return {one[2]: int(one[1]) for one in found if one}


@pytest.mark.parametrize(
    ("keys", "rows", "statements"),
    [
        ({"users": "ann"}, {"orders": 3, "log": 3, "stock": 3}, 24),
        slow({"users": ["!ann", "!bob"]}, {"orders": 0, "log": 0, "stock": 1}, 2),
        slow({"applications": "rep*"}, {"orders": 0, "log": 3, "stock": 0}, 4),
        # The transactions of orders are whole: what they log is kept.
        ({"tables": "orders"}, {"orders": 3, "log": 3, "stock": 0}, 15),
        slow({"tables": "shop.orders"}, {"orders": 3, "log": 3, "stock": 0}, 15),
        slow({"tables": "!log"}, {"orders": 0, "log": 0, "stock": 4}, 12),
        slow({"fingerprints": "insert into log*"}, {"orders": 3, "log": 6, "stock": 0}, 19),
        ({"users": "bob", "tables": "LOG"}, {"orders": 0, "log": 3, "stock": 0}, 4),
    ],
)
def test_what_is_chosen_runs_in_whole_transactions(
    chosen: Chosen, keys: dict[str, Any], rows: dict[str, int], statements: int
) -> None:
    """And all the others are counted by the reason, with none lost between the two."""
    outcome, state = chosen(**keys)
    assert state == rows
    assert outcome.facts["replay.planned"] == statements
    assert sum(left_out(outcome).values()) == 24 + 4 + 2 - statements
    assert sum(one.executions for one in outcome.replayed) == statements


@pytest.mark.slow
def test_a_fingerprint_is_chosen_by_the_digits_of_a_report(chosen: Chosen) -> None:
    """As they are in a result file."""
    whole, _ = chosen()
    (one,) = [each for each in whole.replayed if "orders" in each.text]
    outcome, state = chosen(fingerprints=one.fingerprint)
    assert state == {"orders": 3, "log": 3, "stock": 0}
    assert outcome.facts["replay.sessions"] == 1


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"users": "anne"}, "users: .* does not have 'anne' - did you mean ann?"),
        ({"applications": "zzz"}, "'zzz' .there are: shop, report"),
        ({"tables": "order"}, "'order' - did you mean orders?"),
        ({"fingerprints": "delete*"}, "does not have 'delete.*there are: begin, insert into"),
        ({"users": "bob", "tables": "orders"}, "users, tables: nothing of .* is left"),
    ],
)
def test_a_choice_that_leaves_nothing_is_one_sentence(
    chosen: Chosen, keys: dict[str, str], words: str
) -> None:
    """With what there is."""
    with pytest.raises(Impossible, match=words) as told:
        chosen(**keys)
    assert "\n" not in str(told.value)


def test_a_name_among_others_that_is_nowhere_is_noted(chosen: Chosen) -> None:
    """The others are replayed."""
    outcome, state = chosen(tables=["orders", "stok"])
    assert state["orders"] == 3
    assert any("'stok' - did you mean stock?" in note for note in outcome.notes)


def test_a_capture_without_names_says_so(server: Server, context: Context, tmp_path: Path) -> None:
    """As those of logs whose prefix has no %a, and all older ones of MySQL's slow log."""
    file = Capture().session(0).runs(0, 1.0, "SELECT 1").write(tmp_path / "bare.replay")
    with pytest.raises(Impossible, match=r"applications: .* does not hold them"):
        perform_replay(context, file, applications="shop")
