"""What may be missing, or another kind, in general, and is not in a test.

`from tests.known import known, quantity`.
"""

from typing import TypeVar

from replayer.model import Fact

_Thing = TypeVar("_Thing")


def known(thing: _Thing | None) -> _Thing:
    """Return what must be there."""
    assert thing is not None
    return thing


def quantity(fact: Fact) -> float:
    """Return a fact that is a number."""
    assert isinstance(fact, int | float)
    return fact
