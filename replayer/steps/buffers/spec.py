"""The keys of the step `buffers` in a workload file."""

from typing import Annotated

from pydantic import Field

from replayer import units
from replayer.load.spec import LoadSpec


class Spec(LoadSpec):
    """The keys of the step `buffers`, which measures the hit share of several buffer sizes."""

    rate: float = Field(gt=0, le=10_000_000)
    """Statements a second that all sessions together send."""
    sessions: int = Field(32, ge=1, le=4096)
    """Sessions that send the statements."""
    sizes: tuple[Annotated[units.Size, Field(ge=128 << 10)], ...] = Field(min_length=1)
    """Sizes of the server's buffers in bytes, each measured separately.  The result has the sizes
    that the server shows, which may round them."""
    window: units.Duration = Field(5.0, ge=1)
    """Seconds of one measured window; shares of blocks found in successive ones are compared."""
    longest: units.Duration = Field(60.0, ge=1)
    """Seconds after which a size is recorded, even if the buffers still fill."""

    def lasts(self) -> float:
        """Return the expected seconds of the step, if no size of the buffers takes long to fill."""
        return 3 * self.window * len(self.sizes)
