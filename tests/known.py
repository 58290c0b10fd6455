"""What may be missing in general and is there in a test; `from tests.known import known`."""

from typing import TypeVar

_Thing = TypeVar("_Thing")


def known(thing: _Thing | None) -> _Thing:
    """Return what must be there."""
    assert thing is not None
    return thing
