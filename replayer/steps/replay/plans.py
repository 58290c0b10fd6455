"""Plans of the statements that got slower: EXPLAIN on the replay's server, and on the source.

A statement is only explained, never executed.  It goes alone, by the extended protocol, which takes
one statement at a time, in a transaction that may only read.
"""

import contextlib
import re
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from psycopg import pq

from replayer.capture.action import Action
from replayer.capture.archive import ArchiveReader
from replayer.engines import driver
from replayer.engines.connection import connector_of, url_of
from replayer.errors import ReplayerError
from replayer.run.context import Context
from replayer.steps.replay import replay_target
from replayer.steps.replay.against_source import TABLE, slower

MOST = 10
PLANS = "plans"
_EXPLAINED = frozenset({"select", "insert", "update", "delete", "merge"})
_QUOTED = re.compile(r"'(?:[^']|'')*'")
_NUMBER = re.compile(r"(?<![\w$])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?\b", re.IGNORECASE)
_PROPERTY = re.compile(r"\s*(?!Workers Planned)[A-Z][A-Za-z ]*: ")
"""A line such as `Index Cond: (id = 7)`: lines of nodes have no value, but costs."""
_LIMITS = ("SET statement_timeout = '5s'", "SET lock_timeout = '1s'", "BEGIN READ ONLY")


def record(context: Context, capture: ArchiveReader, url: Any, source: str) -> None:
    """Record the table `plans`: of the ten statements that were slowed most, on each side.

    `url` is that of the database that was replayed into, `source` the URL of the source, "" if it
    is not given.  A plan that a server refuses is a row with its reason.
    """
    if replay_target.is_mysql(context):
        return
    slowed = slower(context.findings.tables.get(TABLE, ()))[:MOST]
    examples = _examples(capture, [row["fingerprint"] for row in slowed])
    if not examples:
        return
    sides = [("here", url)]
    if source:
        sides.append(("in the source", url_of(source, context.engine)))
    explained = [row for row in slowed if row["fingerprint"] in examples]
    for row, (side, where) in product(explained, sides):
        context.findings.row(
            PLANS,
            fingerprint=row["fingerprint"],
            on=side,
            plan=_plan(where, examples[row["fingerprint"]]),
            text=row["text"],
        )


def _examples(capture: ArchiveReader, fingerprints: Sequence[str]) -> dict[str, Action]:
    """Return the first execution of each fingerprint that succeeded; it holds values."""
    wanted = set(fingerprints)
    examples: dict[str, Action] = {}
    for block in capture.blocks() if wanted else ():
        for row in range(len(block)):
            statement = block.statement(row)
            if statement is None or statement.fingerprint.kind not in _EXPLAINED:
                continue
            number = f"{statement.fingerprint.number & (1 << 64) - 1:016x}"
            if number in wanted:
                action = block.action(row)
                if not action.sqlstate:
                    examples[number] = action
                    wanted.discard(number)
        if not wanted:
            break
    return examples


def _plan(url: Any, action: Action) -> str:
    """Return the plan of a statement on a server, or why there is none."""
    try:
        with _connected(url) as connection:
            return _explained(connection, action)
    except ReplayerError as error:
        return f"no plan: {error}"
    except Exception as error:  # noqa: BLE001 - drivers raise errors of many kinds
        return f"no plan: {str(error).splitlines()[0] if str(error) else type(error).__name__}"


@contextlib.contextmanager
def _connected(url: Any) -> Iterator[Any]:
    connector = connector_of(url)
    connection = driver.opened(connector.module, {**connector.arguments, "autocommit": True})
    try:
        for statement in _LIMITS:
            connection.execute(statement)
        yield connection
    finally:
        connection.close()


def _explained(connection: Any, action: Action) -> str:
    """Return the plan with one line for each of its nodes."""
    values = [
        None if value is None else value.encode("utf-8", "surrogateescape")
        for value in action.parameters or ()
    ]
    text = f"EXPLAIN {action.text}".encode("utf-8", "surrogateescape")
    result = connection.pgconn.exec_params(text, values)
    if result.status != pq.ExecStatus.TUPLES_OK:
        message = result.error_message.decode("utf-8", "replace").splitlines()
        return f"no plan: {message[0] if message else 'the server said nothing'}"
    lines = [result.get_value(row, 0) or b"" for row in range(result.ntuples)]
    return without_values(b"\n".join(lines).decode("utf-8", "replace"))


def without_values(plan: str) -> str:
    """Return a plan without the values of its statement, which no result may hold."""
    lines = _QUOTED.sub("?", plan).splitlines()
    return "\n".join(_NUMBER.sub("?", line) if _PROPERTY.match(line) else line for line in lines)
