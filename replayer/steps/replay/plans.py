"""Plans of the statements that got slower: EXPLAIN on the replay's server, and on the source.

A statement is only explained, never executed.  It is sent in a read-only transaction by the
extended protocol, which takes only one statement at a time.
"""

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from sqlalchemy.engine import URL

from replayer.capture.action import Action
from replayer.capture.archive import ArchiveReader
from replayer.engines import driver, wires
from replayer.engines.connection import connector_of, url_of
from replayer.errors import Impossible, ReplayerError
from replayer.run.context import Context
from replayer.steps.replay import replay_target
from replayer.steps.replay.against_source import TABLE, slower

MOST = 10
PLANS = "plans"
_EXPLAINED = frozenset({"select", "insert", "update", "delete", "merge"})
_QUOTED = re.compile(r"'(?:[^']|'')*'")
_NUMBER = re.compile(r"(?<![\w$])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?\b", re.IGNORECASE)
_PROPERTY = re.compile(r"\s*(?!Workers Planned)[A-Z][A-Za-z ]*: ")
"""Lines of a plan that may show values, such as `Index Cond: (id = 7)`; others show only costs."""
_LIMITS = ("SET statement_timeout = '5s'", "SET lock_timeout = '1s'")
_HERE, _THERE = "here", "in the source"


def check(source: str, context: Context) -> None:
    """Raise Impossible if the URL of the source (the captured server) cannot be used for plans.

    That is so if replayer gets no plans from this engine, or if the URL is not one of PostgreSQL.
    """
    if not _explains(context):
        raise Impossible(
            f"--source: {context.engine.title} explains no statement for a replay yet: leave it out"
        )
    url = url_of(source, context.engine)
    if not source.startswith("postgres"):
        raise Impossible(
            f"--source: the capture is of PostgreSQL, and {url.host or 'the URL'} is asked for "
            f"another wire: give postgresql://USER@HOST/DATABASE"
        )


def record(context: Context, capture: ArchiveReader, url: URL, source: str) -> None:
    """Record the table `plans`: the plans, on each server, of the statements that were slowed most.

    There are at most ten statements.  `url` is the URL of the database of the replay.  `source` is
    the URL of the captured server, or "" if it is not given.  If a server refuses a plan, the row
    has the reason instead.
    """
    if not _explains(context):
        return
    slowed = slower(context.findings.tables.get(TABLE, ()))[:MOST]
    examples = _examples(capture, [row["fingerprint"] for row in slowed])
    if not examples:
        return
    sides = {_HERE: _plans(_HERE, url, examples, context)}
    if source:
        sides[_THERE] = _plans(_THERE, url_of(source, context.engine), examples, context)
    for row, (side, plans) in product(slowed, sides.items()):
        if row["fingerprint"] in plans:
            context.findings.row(
                PLANS,
                fingerprint=row["fingerprint"],
                on=side,
                plan=plans[row["fingerprint"]],
                text=row["text"],
            )


def _explains(context: Context) -> bool:
    return wires.has_own(replay_target.wire_of(context), "explain")


def _examples(capture: ArchiveReader, fingerprints: Sequence[str]) -> dict[str, Action]:
    """Return fingerprint -> its first execution in the capture that succeeded, with its values.

    Fingerprints without such an execution, and kinds that EXPLAIN does not take, are left out.
    """
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


def _plans(side: str, url: URL, examples: Mapping[str, Action], context: Context) -> dict[str, str]:
    """Return fingerprint -> its plan on the server at `url`, or the reason why it has no plan.

    If the server is lost, the other fingerprints are missing, and a note has the reason.  The note
    names the server by `side`.
    """
    plans: dict[str, str] = {}
    try:
        with _connected(url) as connection:
            wire = wires.load(wires.name_of(url.drivername))
            for fingerprint, action in examples.items():
                plans[fingerprint] = _explained(wire, connection, action)
    except Exception as error:  # noqa: BLE001 - drivers raise errors of many kinds
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        context.findings.note(f"the statements that got slower have no plan {side}: {reason}")
    return plans


@contextlib.contextmanager
def _connected(url: URL) -> Iterator[Any]:
    connector = connector_of(url)
    connection = driver.open_connection(connector.wire, {**connector.arguments, "autocommit": True})
    try:
        for statement in _LIMITS:
            with connection.cursor() as cursor:
                cursor.execute(statement)
        yield connection
    finally:
        connection.close()


def _explained(wire: wires.Wire, connection: Any, action: Action) -> str:
    """Return the server's plan of the statement `action`, or the reason why it has none.

    The values of the statement are removed from the plan.
    """
    values = [
        None if value is None else value.encode("utf-8", "surrogateescape")
        for value in action.parameters or ()
    ]
    text = action.text.encode("utf-8", "surrogateescape")
    try:
        lines = wire.explain(connection, text, values)
    except ReplayerError as error:
        return f"no plan: {error}"
    return without_values(b"\n".join(lines).decode("utf-8", "replace"))


def without_values(plan: str) -> str:
    """Return a plan without the values of its statement, which no result may hold."""
    lines = _QUOTED.sub("?", plan).splitlines()
    return "\n".join(_NUMBER.sub("?", line) if _PROPERTY.match(line) else line for line in lines)
