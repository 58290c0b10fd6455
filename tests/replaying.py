"""Replay captures by the step itself, and query the server that they were replayed on.

`from tests.replaying import perform_replay, query, value`.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Protocol

from replayer.engines.connection import Database
from replayer.model import Outcome
from replayer.run.context import Context
from replayer.servers.open import Server
from replayer.steps.replay import step
from replayer.steps.replay.spec import Spec
from tests.captured import Capture
from tests.performed import performed

SOURCE = "replay_source"
"""The database that replays of these tests begin from."""
OWN = "replayer_replay"
"""The database that a replay makes for itself where it restores one."""

Rows = list[tuple[Any, ...]]


class Replay(Protocol):
    """The fixture `replay`."""

    def __call__(self, capture: Capture | Path | str, **keys: object) -> Outcome:
        """Replay a capture, or a file, and return what was found."""
        ...


class Ask(Protocol):
    """The fixture `rows`."""

    def __call__(self, statement: str) -> Rows:
        """Return the rows of a statement in the database that was replayed into."""
        ...


def perform_replay(context: Context, path: Path | str, **keys: object) -> Outcome:
    """Replay a file as fast as the server answers, unless `keys` ask otherwise."""
    texts = {key: str(each) if isinstance(each, Path) else each for key, each in keys.items()}
    asked = {"step": "replay", "file": str(path), "speed": 0, **texts}
    outcome: Outcome = performed(step, Spec.model_validate(asked), context)
    return outcome


def query(server: Server, *statements: str, database: str | None = None) -> Rows:
    """Execute statements, each by itself, and return the rows of the last.

    In replayer's own database unless another one is named.
    """
    url = server.start() if database is None else server.start().set(database=database)
    with closing(Database(server.engine, url, first=())) as connected:
        rows = [connected.query(statement) for statement in statements]
    return [tuple(row.values()) for row in rows[-1]]


@contextmanager
def begun_from(server: Server, *statements: str) -> Iterator[None]:
    """Make the database SOURCE by these statements; remove it, and replayer's own, afterwards."""
    query(server, f"DROP DATABASE IF EXISTS {SOURCE}", f"CREATE DATABASE {SOURCE}")
    query(server, *statements, database=SOURCE)
    yield
    remove_databases(server)


def remove_databases(server: Server) -> None:
    """Remove the database to begin from, and replayer's own."""
    query(
        server,
        f"DROP DATABASE IF EXISTS {OWN} WITH (FORCE)",
        "DELETE FROM replayer_owned WHERE kind = 'database'",
        f"DROP DATABASE IF EXISTS {SOURCE} WITH (FORCE)",
    )


def all_at_once(*works: Callable[[], object]) -> None:
    """Call functions, each in a thread of its own, and return when all have."""
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def named(outcome: Outcome, affected: Mapping[str, tuple[str, str]]) -> set[str]:
    """Return the tables that a report names as without a certain order.

    `affected`: tables whose changes are in no order, and what the JSON has for them.
    """
    rows = outcome.tables.get("uncertain_order", ())
    found = {(str(row["table"]), str(row["reason"])) for row in rows}
    tables = {table for table, reason in found if reason != "trigger"}
    return tables | {table for table, row in affected.items() if row in found}


def value(outcome: Outcome, metric: str) -> float:
    """Return a measurement."""
    return next(m.value for m in outcome.measurements if m.metric == metric)


def whole(outcome: Outcome) -> bool:
    """Tell whether every statement ran, none waited in vain for its place, and none failed."""
    values = value(outcome, "replay.ran"), value(outcome, "replay.errors")
    return (*values, outcome.facts["replay.order_timeouts"]) == (100, 0, 0)
