"""The client hosts of a step: each host's rate while the step runs, and its share in the result.

The step gets these facts and this table:

facts   cluster.start_spread_us: the largest difference of the hosts' starts, in microseconds
        cluster.start_bound_us: the greatest possible error of that, in microseconds
tables  hosts, a row for each host of each window
"""

from collections.abc import Sequence

from replayer.analysis.capacity.client_hosts import BOUND, SPREAD, TABLE
from replayer.run.step_recorder import StepRecorder
from replayer.units import show_count
from replayer.watch.client_pools import Clients, ClientShare


class ClientHosts:
    """The hosts that do the jobs of one pool of processes, and the progress of each job."""

    def __init__(self, clients: Clients, sessions: Sequence[int], window: str) -> None:
        """Take the number of sessions of each job, in the order of jobs, and the window's name.

        Rows of the table `hosts` get the name of the window, which is the measured time.
        """
        self._names = clients.names
        self._window = window
        self._sessions = list(sessions)
        self._done: dict[int, float] = {}

    def __bool__(self) -> bool:
        return bool(self._names)

    def heard(self, job: int, done: float) -> None:
        """Store that the job with the index `job` has done `done` operations so far."""
        self._done[job] = done

    def note(self, seconds: float) -> str:
        """Return each host's operations per second over `seconds`: `db1 12,345/s, db2 12,101/s`."""
        per_second = {name: self._sum(name) / max(1e-9, seconds) for name in self._working()}
        return ", ".join(f"{name} {rate:,.0f}/s" for name, rate in per_second.items())

    def record(
        self, findings: StepRecorder, shares: Sequence[ClientShare], seconds: float | None
    ) -> None:
        """Record each host's share in the work of a window, and a note for each host that was lost.

        A window is a measured time; `seconds` is its length, or None if it was cut short. Without
        client hosts, `shares` is empty and nothing is recorded.
        """
        if not shares:
            return
        total = sum(self._done.values())
        for share in shares:
            done = self._sum(share.name)
            findings.row(
                TABLE,
                window=self._window,
                host=share.name,
                sessions=sum(self._sessions[job] for job in self._jobs(share.name)),
                operations=round(done),
                per_second=round(done / seconds, 3) if seconds else None,
                share=round(done / total, 6) if total else None,
                start_us=_rounded(share.start_us, 1),
                bound_us=_rounded(share.bound_us, 1),
                drift_ppm=_rounded(share.drift_ppm, 3),
                first_done_s=_rounded(share.first_s, 6),
                last_done_s=_rounded(share.last_s, 6),
                cores=share.cores,
                cpu_share=_rounded(share.cpu_share, 4),
                client_cores=_rounded(share.replayer_cores, 3),
                agent_cpu_s=_rounded(share.agent_cpu_s, 3),
                lost=share.lost,
                heard_s=_rounded(share.heard_s, 3),
            )
        _record_start(findings, shares)
        for share in shares:
            if share.lost:
                when = "" if share.heard_s is None else f" {share.heard_s:.1f} s after the start"
                findings.note(
                    f"{share.name} was last heard{when}, when its sessions had done "
                    f"{show_count(round(self._sum(share.name)))} operations"
                )

    def _working(self) -> Sequence[str]:
        return self._names[: len(self._sessions)]

    def _jobs(self, name: str) -> range:
        return range(self._names.index(name), len(self._sessions), len(self._names))

    def _sum(self, name: str) -> float:
        return sum(self._done.get(job, 0.0) for job in self._jobs(name))


def _record_start(findings: StepRecorder, shares: Sequence[ClientShare]) -> None:
    starts = [share.start_us for share in shares if share.start_us is not None]
    bounds = sorted(share.bound_us for share in shares if share.bound_us is not None)
    if not starts:
        return
    for key, value in ((SPREAD, max(starts) - min(starts)), (BOUND, sum(bounds[-2:]))):
        before = findings.facts.get(key)
        worst = max(value, before) if isinstance(before, int | float) else value
        findings.facts[key] = round(worst, 1)


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
