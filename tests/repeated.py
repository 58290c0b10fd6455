"""What a test does again while something else on the machine undoes it.

Whoever makes data cold as root drops the page cache of the whole machine, and other tests do: what
was read into memory may be gone a moment later.
"""

from collections.abc import Callable
from typing import TypeVar

_Result = TypeVar("_Result")
_TIMES = 20


def repeat_until(attempt: Callable[[], _Result], holds: Callable[[_Result], bool]) -> _Result:
    """Return the first result that holds, or the last of many, which the test then judges."""
    for _ in range(_TIMES):
        result = attempt()
        if holds(result):
            break
    return result
