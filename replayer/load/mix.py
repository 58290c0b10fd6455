"""Mixes of statements: the kinds, their proportions, and the CPU that each should cost.

A mix is a table of a workload file, or the same as a text, which is how `--set` takes it: `point=70
range=10 update=15 insert=4 scan=1 hot=20%/80%`.
"""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    field_validator,
    model_serializer,
    model_validator,
)

from replayer import units
from replayer.errors import nearest
from replayer.load.mix_parts import KINDS, Hot
from replayer.model import Noun

_WRITING = frozenset({"update", "insert"})
_HOT = re.compile(r"(\d+(?:\.\d+)?)\s*%\s*/\s*(\d+(?:\.\d+)?)\s*%")

UNTESTED = (
    "joins, sorts and temporary files",
    "locks that the application takes, beyond those of its updates",
    "transactions of more than one statement",
)
"""Features of real workloads that a mix never represents."""

_MOST_WEIGHT = 1e100
"""Limit on a weight, above all counters of a source: it keeps the sum of all weights finite."""


def _check_weight(weight: float) -> float:
    # The message of pydantic's own limit has all digits of the number.
    if weight > _MOST_WEIGHT:
        raise ValueError(f"should be less than or equal to {_MOST_WEIGHT:g}")
    return weight


Weight = Annotated[float, Field(ge=0), AfterValidator(_check_weight)]
"""A weight of a kind of statement."""


class WeightedMix(Noun):
    """Weights of the kinds of statements, and the amount of work of one statement of each kind."""

    model_config = ConfigDict(use_attribute_docstrings=True, allow_inf_nan=False)

    point: Weight = 0.0
    """Weight of reads of one row by its key."""
    range: Weight = 0.0
    """Weight of reads of `work_unit` rows by an index."""
    update: Weight = 0.0
    """Weight of updates of `update_rows` rows, committed one by one."""
    insert: Weight = 0.0
    """Weight of inserts of one row into a separate table, committed one by one."""
    scan: Weight = 0.0
    """Weight of sequential scans of a whole table."""
    compute: Weight = 0.0
    """Weight of statements that read no row, and only burn the CPU of `cpu`."""
    work_unit: int = Field(default=255, ge=1, le=1_000_000)
    """Rows, and so blocks, of one range read."""
    update_rows: int = Field(default=1, ge=1, le=1_000_000)
    """Rows that an update changes."""
    insert_bytes: int = Field(default=200, ge=1, le=4000)
    """Bytes of an inserted row, in addition to its two numbers."""
    hot: str = ""
    """Share of the rows / share of all accesses that go to them, such as 20%/80%."""
    cpu: units.Duration | None = Field(default=None, gt=0)
    """CPU time of the server that a statement is to cost; the missing part is burnt in it."""
    cpu_rate: float | None = Field(default=None, gt=0)
    """Statements/s at which `cpu` was measured: the higher the rate, the less each statement costs.
    The mix is made to cost `cpu` at that rate, or at the step's rate if it is not given."""
    cpu_speed: float | None = Field(default=None, gt=0)
    """Passes/s of one core where `cpu` was measured, by the probe `cpu`.  If the workload has that
    probe before this step, `cpu` is converted to this machine's speed."""
    memory_speed: float | None = Field(default=None, gt=0)
    """Bytes/s that one core read where `cpu` was measured, by the probe `memory` in blocks of 1
    MiB; used as `cpu_speed` is."""
    hit_ratio: float | None = Field(default=None, ge=0, le=1)
    """Share of the blocks that the source finds in its buffers; printed next to the share
    measured."""

    @model_validator(mode="before")
    @classmethod
    def _of_text(cls, value: Any) -> Any:
        table = _table(value) if isinstance(value, str) else value
        if not isinstance(table, Mapping):
            # A TypeError would not be reported by pydantic as the user's error.
            raise ValueError(f"{value!r} is not a mix: give a table or a text, as point=70 scan=1")  # noqa: TRY004
        unknown = [name for name in table if name not in cls.model_fields] if table else []
        if unknown:
            raise ValueError(f"{unknown[0]} is unknown{nearest(unknown[0], cls.model_fields)}")
        return table

    @model_serializer
    def _as_text(self) -> str:
        """Return this mix as a text such as `point=70 scan=1`, which can be read again."""
        fields = type(self).model_fields
        values = {name: getattr(self, name) for name in fields}
        return " ".join(
            f"{name}={_written(value)}"
            for name, value in values.items()
            if value != fields[name].default
        )

    @field_validator("hot")
    @classmethod
    def _shares(cls, text: str) -> str:
        if text:
            _hot(text)
        return text

    @model_validator(mode="after")
    def _some(self) -> "WeightedMix":
        if not self.total:
            raise ValueError(f"a mix needs a weight above 0 of one of {', '.join(KINDS)}")
        return self

    @property
    def weights(self) -> Mapping[str, float]:
        """Return kind of statement -> its weight, of the kinds with a weight above 0."""
        given = {kind: float(getattr(self, kind)) for kind in KINDS}
        return {kind: weight for kind, weight in given.items() if weight}

    @property
    def total(self) -> float:
        """Return the sum of all weights."""
        return sum(self.weights.values())

    @property
    def shares(self) -> Mapping[str, float]:
        """Return kind of statement -> its share of all statements (0 to 1)."""
        return {kind: weight / self.total for kind, weight in self.weights.items()}

    @property
    def writes(self) -> bool:
        """Return whether the mix has statements that write: updates or inserts."""
        return not _WRITING.isdisjoint(self.weights)

    @property
    def hot_share(self) -> Hot | None:
        """Return the share of the rows that is used more often; None if all rows are used alike."""
        return _hot(self.hot) if self.hot else None

    @property
    def longest(self) -> int:
        """Return the largest number of rows that one statement touches by an index."""
        lengths = {"range": self.work_unit, "update": self.update_rows}
        return max([1, *(lengths[kind] for kind in self.weights if kind in lengths)])

    @property
    def words(self) -> str:
        """Return the proportions in words, such as `70 point + 30 scan`."""
        parts = [f"{share:.3g} {kind}" for kind, share in self._percent()]
        return " + ".join(parts)

    def _percent(self) -> Iterator[tuple[str, str | float]]:
        for kind, share in self.shares.items():
            yield kind, 100 * share

    def untested(self) -> tuple[str, ...]:
        """Return phrases that name the features of a real load that this mix does not represent."""
        unknown = () if self.cpu else ("the CPU that a statement costs beyond finding its rows",)
        return (*UNTESTED, *unknown)


def carried(cpu_seconds: float, speed_there: float, speed_here: float) -> float:
    """Return the CPU seconds on this machine of work that took `cpu_seconds` on another one.

    The speeds are those of one core of each, measured by the same probe: higher is faster.
    """
    return cpu_seconds * speed_there / speed_here


def _table(text: str) -> dict[str, str]:
    pairs = [word.partition("=") for word in re.split(r"[\s,]+", text.strip()) if word]
    wrong = next((name for name, equals, number in pairs if not equals or not number), None)
    if wrong is not None:
        raise ValueError(f"{wrong!r} must be name=number, as in point=80 update=20")
    return {name: number for name, _, number in pairs}


def _written(value: float | str) -> str:
    """Return a value as text that is read again as the same value, without an exponent."""
    return value if isinstance(value, str) else f"{Decimal(str(value)).normalize():f}"


def _hot(text: str) -> Hot:
    match = _HOT.fullmatch(text.strip())
    if match is None:
        raise ValueError("it must be a share of the rows / of the accesses, such as 20%/80%")
    rows, accesses = (float(share) / 100 for share in match.groups())
    if not (0 < rows < 1 and 0 < accesses <= 1):
        raise ValueError("the rows must be above 0% and below 100%, the accesses at most 100%")
    return Hot(rows, accesses)
