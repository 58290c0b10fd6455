"""What a test knows to be there, though its type says that it may not be."""

from typing import TypeVar

_Value = TypeVar("_Value")


def known(value: _Value | None) -> _Value:
    """Return a value, which is there."""
    assert value is not None
    return value
