"""The keys of a look at several sizes of the server's buffers."""

from pydantic import Field

from replayer import units
from replayer.load.spec import LoadSpec


class Spec(LoadSpec):
    """The keys of a look at several sizes of the server's buffers."""

    rate: float = Field(gt=0, le=10_000_000)
    """Statements a second."""
    sessions: int = Field(32, ge=1, le=4096)
    """Sessions that they are sent over."""
    sizes: tuple[units.Size, ...] = Field(min_length=1)
    """Sizes of the buffers, each measured by itself."""
    window: units.Duration = Field(5.0, ge=1)
    """Seconds between two looks at the share of blocks that are found."""
    longest: units.Duration = Field(60.0, ge=1)
    """Seconds after which a size is taken as it is, still filling or not."""

    def lasts(self) -> float:
        """Return the seconds that sizes take which are full soon."""
        return 3 * self.window * len(self.sizes)
