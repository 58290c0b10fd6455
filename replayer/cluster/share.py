"""One client host's share of a pool: its jobs, its clock and its times."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HostShare:
    """One client host's share of a pool; a value is None if it is not known.

    `jobs` is the number of the host's jobs. Times are by the clock of the pool's host.
    """

    name: str
    jobs: int
    start_us: float | None = None
    """The delay of the host's start after the agreed instant, in microseconds."""
    bound_us: float | None = None
    """The greatest possible error of `start_us`, in microseconds."""
    drift_ppm: float | None = None
    """The drift of the host's clock, in parts per million: positive if it runs too fast."""
    drift_bound_ppm: float | None = None
    """The greatest possible error of the drift: large after a short window."""
    first_s: float | None = None
    """The end of the host's first job, in seconds since the agreed start."""
    last_s: float | None = None
    """The end of the host's last job, in seconds since the agreed start."""
    cores: int | None = None
    cpu_share: float | None = None
    """The share (0 to 1) of the host's processor time that all programs used during the jobs."""
    replayer_cores: float | None = None
    """The average number of processors that the host's worker processes used until `last_s`."""
    agent_cpu_s: float | None = None
    """CPU seconds that replayer's agent on the host used during the jobs."""
    lost: bool = False
    """True if the host does not answer any more, its ssh has ended, or its work stood still."""
    heard_s: float | None = None
    """The time of the host's last answer, in seconds since the agreed start."""
    error: str = ""
    """The reason why the host is lost or its work failed; "" if neither."""
