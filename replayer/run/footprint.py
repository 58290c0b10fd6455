"""What a step's data takes, as the step says before it runs."""

from typing import NamedTuple


class Footprint(NamedTuple):
    """The data of one step; two steps on the same data take its room once."""

    data: object
    """What tells this data from other data; equal for the same."""
    disk_bytes: int
    """At most, with what is written beside it meanwhile."""
    cached_bytes: int = 0
    """What of it is to stay in the page cache."""
