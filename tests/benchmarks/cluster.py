"""What several hosts cost, by their number: start, memory, CPU, control traffic, spread of starts.

Agents are processes of this machine, started by tests/here_ssh.sh, and nothing else is done: so
these are the costs of control alone.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

from replayer.cluster.hosts import Hosts, connect_hosts
from replayer.storage import spin_worker
from tests.benchmarks import Row
from tests.known import known

NAME = "several hosts"
HOSTS = (1, 2, 4, 8, 16)
MANY = 64
SECONDS = 10.0
ROOT = Path(__file__).resolve().parents[2]


def run(workdir: Path) -> list[Row]:
    """Return the rows: what all numbers of hosts cost, and the shares of what they may cost."""
    os.environ["REPLAYER_SSH"] = str(ROOT / "tests" / "here_ssh.sh")
    print(
        "hosts  started  memory each  CPU each  CPU here    control traffic  spread    bound",
        flush=True,
    )
    return [row for many in (*HOSTS, MANY) for row in _of(many)]


def _of(many: int) -> Iterator[Row]:
    begin = time.monotonic()
    with connect_hosts([f"host{number}" for number in range(many)]) as hosts:
        started = time.monotonic() - begin
        agents = _agents()
        assert len(agents) == many
        memory = max(_pss(pid) for pid in agents)
        before, bytes_before, own = _cpu(agents), _loopback(), time.process_time()
        time.sleep(SECONDS)
        cpu = (_cpu(agents) - before) / SECONDS / many
        own = (time.process_time() - own) / SECONDS
        traffic = (_loopback() - bytes_before) / SECONDS
        window = _window(hosts) if many <= HOSTS[-1] else None
    spread = "       -        -"
    if window:
        spread = f"{window[0]:5.2f} ms {window[1]:5.2f} ms"
    print(
        f"{many:5}  {started:5.1f} s  {memory / 2**20:7.0f} MiB  {cpu:8.2%}  {own:8.2%}  "
        f"{traffic / 1024:9.1f} KiB/s  {spread}",
        flush=True,
    )
    of = f"{many} agents" if many > 1 else "1 agent"
    yield _row(f"idle CPU of {of}, each", "1 % of a core", cpu / 0.01)
    if many == MANY:
        yield _row(f"start of {of}", "30 s", started / 30)
        yield _row(f"memory of each of {of}, the largest", "100 MiB", memory / (100 << 20))
    if window:
        yield _row(f"spread of starts of {of}", "5 ms", window[0] / 5)
        yield _row(f"CPU of {of} in a window, the busiest", "1 % of a core", window[2] / 0.01)


def _row(what: str, against: str, ratio: float) -> Row:
    return {"what": what, "against": against, "bar": "<= 1", "ratio": ratio, "samples": [ratio]}


def _window(hosts: Hosts) -> tuple[float, float, float]:
    """Return the spread of starts and its bound in ms, and the CPU share of the busiest agent."""
    jobs = [spin_worker.SpinWork("cpu", 5.0, 4096)] * len(hosts.names)
    with hosts.pool(spin_worker.work, jobs, processes=len(jobs)) as pool:
        pool.ready(120)
        pool.open()
        pool.results()
        starts = [known(share.start_us) for share in pool.shares]
        bound = sum(sorted(known(share.bound_us) for share in pool.shares)[-2:])
        agent = max(known(share.agent_cpu_s) / known(share.last_s) for share in pool.shares)
    return (max(starts) - min(starts)) / 1e3, bound / 1e3, agent


def _agents() -> list[int]:
    """Return the process ids of the agents that this process has started."""
    own = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue
        if words[-2:-1] == [b"agent"] and b"replayer" in words[-3] and parent == os.getpid():
            own.append(int(folder.name))
    return own


def _pss(pid: int) -> int:
    """Return a process's memory in bytes, with its share of what it shares."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise AssertionError


def _cpu(pids: list[int]) -> float:
    """Return the CPU seconds of processes so far."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _loopback() -> int:
    """Return the bytes that the loopback has carried; others may use it as well."""
    for line in Path("/proc/self/net/dev").read_text().splitlines():
        if line.strip().startswith("lo:"):
            return int(line.split()[1])
    return 0
