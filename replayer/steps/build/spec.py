"""The keys of the step `build` in a workload file."""

from pydantic import Field

from replayer import units
from replayer.model import StepSpec


class Spec(StepSpec):
    """The keys of the step `build`, which makes the table by doubling six rows."""

    rows: units.Count = Field(50_331_648, ge=1)
    """Least number of rows: the table begins with six, and is doubled until it has so many."""
    layout: str | None = None
    """Layout of the table: columnstore, or rowstore for comparison; the engine's default if not
    given."""
    sessions: int | None = Field(None, ge=1, le=1024)
    """Sessions that build; one for each core if not given."""
    segment_rows: units.Count | None = Field(None, ge=1)
    """Rows of a segment, a part of the table: 6 times a power of 2; the engine's choice if not
    given."""
    compression: str | None = None
    """lz4, pglz or none, where the layout compresses; the best that the server has if not given."""
    rebuild: bool = True
    """Build again even if the whole table is there; false uses it as it is."""
