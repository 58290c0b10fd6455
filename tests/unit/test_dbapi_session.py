"""The session of a driver's cursor, which blocks a thread of its own until the answer is there."""

import os
import socket
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from replayer.engines import dbapi_session
from replayer.engines.dbapi_session import DbapiSession
from replayer.engines.wire_session import DriverStatement


class StuckDriver:
    """A driver that does not notice that its socket was shut down, as no driver should."""

    description = None

    def __init__(self) -> None:
        self.goes_on = threading.Event()

    def cursor(self) -> "StuckDriver":
        """Return the cursor."""
        return self

    def execute(self, text: str, numbers: Sequence[int]) -> None:
        """Hang."""
        self.goes_on.wait(60)

    def close(self) -> None:
        """Close nothing."""


def test_a_statement_that_outlives_its_session_writes_into_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A descriptor's number is soon that of another file."""
    monkeypatch.setattr(dbapi_session, "_END_SECONDS", 0.01)
    driver, before = StuckDriver(), set(threading.enumerate())
    here, there = socket.socketpair()
    with here, there:
        session = DbapiSession(driver, OSError, here.fileno())
        (thread,) = set(threading.enumerate()) - before
        session.prepare([DriverStatement("point", "select 1", (), 1, 1, 0)])
        session.send_prepared(0, b"")
        session.close()
    opened = [os.open(tmp_path / str(number), os.O_CREAT | os.O_RDWR) for number in range(8)]
    driver.goes_on.set()
    thread.join(60)
    sizes = [os.fstat(number).st_size for number in opened]
    for number in opened:
        os.close(number)

    assert not thread.is_alive()
    assert sizes == [0] * 8
