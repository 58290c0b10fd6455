"""The candidate machine, which a sizing tests: facts that are read before the sizing begins."""

import os
from pathlib import Path

from replayer import journal
from replayer.engines import engine, environment
from replayer.load.cpu_burn import CPU_METRIC, MEMORY_METRIC
from replayer.machine.free_space import free_bytes, nearest_folder
from replayer.machine.host import Host
from replayer.model import Run, Status
from replayer.servers import data_folder, programs
from replayer.servers.data_folder import DataFolder
from replayer.sizing.sizing_plan import CandidateMachine

_BUSY = 0.5
"""Load average per processor before a run: above it, the run's probes are not compared."""


def seen(
    host: Host, named: str, *, bindir: Path | None = None, data_dir: Path | None = None
) -> CandidateMachine:
    """Return the facts of the candidate machine, on which this process runs.

    `named` is an engine, the URL of a server, or "" for the default engine.  With a URL, also one
    from the environment, memory, disk and processors are None: the server may be on another host.
    `bindir` is the folder of the server's programs and `data_dir` that of its data; None means the
    usual ones.  Raises NotFound or Impossible for an engine that does not exist, or for a folder
    that cannot be used.
    """
    url = named if "://" in named else environment.url(named)
    chosen = engine.of_url(named) if "://" in named else engine.load(named or engine.default())
    if url is not None:
        return CandidateMachine(chosen.block_size, None, None, own_server=False)
    keys = chosen.spec.server
    major = programs.find(chosen.title, keys, bindir).major if data_dir is None else 0
    # This is asked for a dry run, too: nothing is made.
    usual = journal.place() / "data" / data_folder.standard_name(chosen.name, major, {})
    folder = data_dir or usual
    path = Path(os.path.realpath(folder))
    nearest = nearest_folder(path)
    return CandidateMachine(
        block_size=chosen.block_size,
        memory_bytes=host.usable_memory_bytes(),
        free_bytes=free_bytes(nearest) + _taken(DataFolder(path)),
        own_server=True,
        where=str(nearest),
        cores=_cores(host),
    )


def _cores(host: Host) -> float:
    """Return the number of processors that a server started here may use."""
    allowed = len(os.sched_getaffinity(0))
    return min(allowed, host.cpu_limit() or allowed)


def probed(run: Run) -> dict[str, float]:
    """Return metric -> value, as the probes of processors and memory measured them in a run."""
    return {
        one.metric: one.value
        for step in run.steps
        if step.step == "probe" and step.status is Status.DONE
        for one in step.measurements
        if one.metric in (CPU_METRIC, MEMORY_METRIC)
    }


def busy(run: Run) -> str:
    """Return a sentence if other work may have disturbed a run's probes of processors, else "".

    It may have if the load average before the run was above half the number of processors.
    """
    load, threads = run.host.get("host.load1"), run.host.get("cpu.threads")
    if not isinstance(load, int | float) or not isinstance(threads, int):
        return ""
    if load <= _BUSY * threads:
        return ""
    return (
        f"the probes of {run.label or run.id} began at a load average of {load:.3g} on {threads} "
        f"processors, so that they measured what others left: run `replayer run cpu` again there "
        f"when it is quiet"
    )


def _taken(folder: DataFolder) -> int:
    """Return the bytes on disk of the tables in a data folder that replayer made; 0 for any other.

    New tables will replace these tables, so that their space counts as free.
    """
    if not folder.replayers():
        return 0
    taken = 0
    for place, _, names in os.walk(folder.data / "base"):
        for name in names:
            try:
                taken += Path(place, name).lstat().st_blocks * 512
            except OSError:
                # A file that went away takes no space.
                continue
    return taken
