"""Wait until something is true, instead of for a time that is guessed."""

import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")
_LONGEST = 600.0
"""Seconds: no limit of what is tested, but of a test that hangs."""


def wait_until(condition: Callable[[], Result]) -> Result:
    """Return what a condition returns as soon as that is true."""
    end = time.monotonic() + _LONGEST
    while not (result := condition()):
        assert time.monotonic() < end, f"it did not happen within {_LONGEST:.0f} s"
        time.sleep(0.02)
    return result
