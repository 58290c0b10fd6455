"""One client host's share of a pool: its jobs, its clock and its times."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HostShare:
    """One host's share; times are of the clock of the pool's host, None if unknown."""

    name: str
    jobs: int
    start_us: float | None = None
    """The delay of its start after the agreed instant, in microseconds."""
    bound_us: float | None = None
    """The greatest possible error of that delay, in microseconds."""
    drift_ppm: float | None = None
    """The drift of its clock, in parts per million: positive if it ran faster than the pool's."""
    drift_bound_ppm: float | None = None
    """The greatest possible error of the drift: large after a short window."""
    first_s: float | None = None
    """The end of its first job, in seconds since the agreed start."""
    last_s: float | None = None
    """The end of its last job, in seconds since the agreed start."""
    cores: int | None = None
    cpu_share: float | None = None
    """The busy share of all its processors while the jobs worked, whatever the cause."""
    replayer_cores: float | None = None
    """The average number of processors that its workers used meanwhile."""
    agent_cpu_s: float | None = None
    """CPU seconds that its agent used meanwhile."""
    lost: bool = False
    heard_s: float | None = None
    """The time of its last answer, in seconds since the agreed start."""
    error: str = ""
