"""Steps of tests: a function behind the face of a step."""

from collections.abc import Callable
from typing import Any, cast

from replayer.model import StepSpec
from replayer.run.step_plugin import Step


def toy_step(run: Callable[..., Any], **members: Any) -> Step:
    """Return a step without a database that does what a function of (spec, context) does."""
    known = {"run": run, "needs_database": lambda _spec: False, **members}
    namespace = {
        name: staticmethod(member) if callable(member) else member for name, member in known.items()
    }
    return cast("Step", type("Toy", (Step,), {"Spec": StepSpec, **namespace})())
