"""A driver's connection, from its first statement to its end."""

from dataclasses import replace

import pytest

from replayer.engines import driver
from replayer.engines.connection import Database
from replayer.errors import ReplayerError
from tests.waiting import wait_until


def test_a_connection_whose_first_statement_fails_is_closed(database: Database) -> None:
    """Also while its error is kept, which has the connection in its traceback."""

    def sessions() -> int:
        return len(
            database.query("SELECT 1 FROM pg_stat_activity WHERE datname = current_database()")
        )

    before = sessions()
    with pytest.raises(ReplayerError) as refused:
        driver.connect(replace(database.connector(), first=("SELECT 1", "nonsense")))

    wait_until(lambda: sessions() == before)
    assert "nonsense" in str(refused.value)
