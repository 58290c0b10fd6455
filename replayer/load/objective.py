"""Objectives of response times: `p99=20ms`, or several, `p50=5ms p99.9=200ms`."""

import re
from typing import Annotated, NamedTuple

from pydantic import AfterValidator

from replayer import units
from replayer.errors import Impossible
from replayer.units import show_duration
from replayer.watch.histogram import Latencies

NONE = "none"
"""The text of an option for no objective."""
_GOAL = re.compile(r"p(\d{1,2}(?:\.\d+)?)\s*(?:=|<=?)\s*(\S+)")


class Goal(NamedTuple):
    """A percentile of the response time (`percent`, such as 99), and its upper limit in seconds."""

    percent: float
    seconds: float

    @property
    def words(self) -> str:
        """Return the goal as a user writes it, such as `p99=20.0ms`."""
        return f"p{self.percent:g}={show_duration(self.seconds).replace(' ', '')}"


def goals(text: str) -> tuple[Goal, ...]:
    """Return the goals of an objective; raise Impossible if the text is not an objective."""
    parts = [part for part in re.split(r"[,;]|\s+(?=p\d)", text.strip()) if part.strip()]
    matches = [_GOAL.fullmatch(part.strip()) for part in parts]
    if not parts or None in matches:
        raise Impossible(f"{text!r} is not an objective such as p99=20ms")
    made = [Goal(float(match[1]), units.duration(match[2])) for match in matches if match]
    if any(not goal.seconds or not goal.percent for goal in made):
        raise Impossible(f"{text!r} asks for nothing: an objective is such as p99=20ms")
    return tuple(made)


def given(text: str) -> str:
    """Return the text of an option if it is an objective or NONE; raise Impossible if it is not."""
    if text != NONE:
        goals(text)
    return text


def missed(wanted: tuple[Goal, ...], response: Latencies) -> str:
    """Return the goals that response times miss, such as `p99 30 ms > 20 ms`; "" if none."""
    over = [
        f"p{goal.percent:g} {show_duration(seconds)} > {show_duration(goal.seconds)}"
        for goal in wanted
        if (seconds := response.percentile_ns(goal.percent) / 1e9) > goal.seconds
    ]
    return ", ".join(over)


def _checked(text: str) -> str:
    try:
        goals(text)
    except Impossible as error:
        raise ValueError(str(error)) from error
    return text


Objective = Annotated[str, AfterValidator(_checked)]
"""Goals as written in a workload file."""
