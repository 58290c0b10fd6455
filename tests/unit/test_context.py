"""How long the rest of a repeat takes, by the keys of its steps."""

from types import SimpleNamespace
from typing import cast

from replayer.run.context import Context


def left(*, repeat: int) -> float:
    """Return the seconds that are left before the first step of a repeat."""
    steps = [
        SimpleNamespace(name="first", once=True, lasts=lambda: 60.0),
        SimpleNamespace(name="each", once=False, lasts=lambda: 5.0),
    ]
    workload = SimpleNamespace(steps=steps)
    begun = SimpleNamespace(done=(), repeat=repeat, workload=workload)
    return Context.still(cast("Context", begun))


def test_a_step_of_the_first_repeat_takes_no_time_of_later_ones() -> None:
    """Else a new promise was printed in every repeat, for a step that does not run again."""
    assert left(repeat=1) == 65.0
    assert left(repeat=2) == 5.0
