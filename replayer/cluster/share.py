"""What is known of one client host's part in a pool."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HostShare:
    """One host's part; times are of the clock of the host that holds the pool, None if unknown."""

    name: str
    jobs: int
    start_us: float | None = None
    """How much later than agreed it began, in microseconds."""
    bound_us: float | None = None
    """By how much that may be wrong."""
    drift_ppm: float | None = None
    """By how much its clock ran faster."""
    drift_bound_ppm: float | None = None
    """By how much that may be wrong: much, after a short window."""
    first_s: float | None = None
    """When its first job was done, in seconds since the agreed start."""
    last_s: float | None = None
    """When its last job was done."""
    cores: int | None = None
    cpu_share: float | None = None
    """The share of all its processors' time that was busy, with whatever, while the jobs worked."""
    replayer_cores: float | None = None
    """Processors that its workers used meanwhile."""
    agent_cpu_s: float | None = None
    """CPU seconds that its agent used meanwhile."""
    lost: bool = False
    heard_s: float | None = None
    """When it was last heard, in seconds since the agreed start."""
    error: str = ""
