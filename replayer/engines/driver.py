"""Raw driver connections for measured work: no SQLAlchemy, importable in milliseconds."""

import functools
import importlib
from dataclasses import dataclass, field
from typing import Any

from replayer.errors import ReplayerError

WIRES = {"postgresql+psycopg": "psycopg", "mysql+pymysql": "pymysql"}
"""The SQLAlchemy scheme of each wire that replayer speaks -> the module of its driver."""
_SOUND_SLEEP = 3600.0


@dataclass(frozen=True, slots=True)
class Connector:
    """All that a worker process needs to connect; it travels through a pipe, never in argv."""

    module: str
    """The driver's module: psycopg or pymysql."""
    arguments: dict[str, Any] = field(repr=False)
    first: tuple[str, ...] = ()
    """Statements that every new connection starts with."""


def connect(connector: Connector, *extra: str) -> Any:
    """Return an autocommit DBAPI connection on which `connector.first` and `extra` were executed.

    Raises ReplayerError in one sentence when the server refuses or is not there.
    """
    driver = importlib.import_module(connector.module)
    try:
        connection = driver.connect(**connector.arguments, autocommit=True)
        with connection.cursor() as cursor:
            for statement in (*connector.first, *extra):
                cursor.execute(statement)
    except driver.Error as error:
        raise ReplayerError(
            f"the database server refused a connection: {explain(error)}"
        ) from error
    return connection


def sleep_soundly(connection: Any) -> None:
    """Have a worker's connection wait for the server without waking up in between.

    psycopg wakes up ten times a second to look for a Ctrl-C, which a worker ignores: with 64 idle
    sessions that alone is more work than all their statements.
    """
    wait = getattr(connection, "wait", None)
    if wait is not None:
        connection.wait = functools.partial(wait, interval=_SOUND_SLEEP)


def driver_error(connector: Connector) -> type[Exception]:
    """Return the driver's base exception class."""
    error: type[Exception] = importlib.import_module(connector.module).Error
    return error


def explain(error: BaseException) -> str:
    """Return a driver's error as part of one sentence: the first line of what the server said."""
    text = str(error.args[-1] if error.args else error).strip() or type(error).__name__
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0].rstrip(".")
