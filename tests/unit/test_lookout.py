"""replay.lookout: queries for lock waits go on after one that failed."""

import sqlite3
from functools import partial
from typing import Any, Self

import pytest

from replayer.engines import driver
from replayer.steps.replay.lookout import Lookout
from replayer.steps.replay.work import Blocked
from tests.waiting import wait_until


class Job:
    """The part of a job that a lookout reads."""

    blocked = Blocked(None, "SELECT who, whom FROM waits")  # type: ignore[arg-type]


class Cursor(sqlite3.Cursor):
    """A cursor that ends with its block, as those of the drivers do."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Connection(sqlite3.Connection):
    """A connection to a real, though small, database."""

    def cursor(self, *_: Any) -> Any:
        """Return a cursor."""
        return Cursor(self)


def test_a_query_that_fails_does_not_end_the_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost connection, and a row without a number, give no pairs; the next query has them."""
    tables = iter(["VALUES (1, 2)", "VALUES (1, NULL)", "VALUES (3, 4)"])

    def connect(*_: object) -> Connection:
        connection = sqlite3.connect(":memory:", factory=Connection)
        if (rows := next(tables)) != "VALUES (1, 2)":
            connection.execute(
                f"CREATE TABLE waits AS SELECT column1 who, column2 whom FROM ({rows})"
            )
        return connection

    monkeypatch.setattr(driver, "connect_worker", connect)
    lookout = Lookout(Job())  # type: ignore[arg-type]
    answers: list[list[tuple[int, int]]] = []

    def answered(number: int) -> bool:
        answers.extend(pairs for _, pairs in lookout.answers())
        return len(answers) == number

    for number in range(1, 5):
        lookout.ask()
        wait_until(partial(answered, number))
    lookout.close()

    assert answers == [[], [], [(3, 4)], [(3, 4)]]
