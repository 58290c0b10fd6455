"""Read every file of a table with many threads, after proof that none of it is in memory.

It imitates MemSQL's measure_reads.rb: list the files, then read each of them with the next free
thread of 50.  If the table is one large file, the threads read ranges of it, so that all of them
work.  The database takes no part, so the numbers are the kernel's: many files, page cache,
read-ahead, device.
"""

import os

from replayer.conditions import temperature, underneath
from replayer.errors import Impossible
from replayer.run.context import Context
from replayer.run.step_recorder import MeasuredWindow
from replayer.steps.walk.file_listing import files_of, folders_of, list_files, need_direct
from replayer.steps.walk.outcome import (
    device_reads,
    facts_of,
    foreign_notes,
    latencies_of,
    measure_walk,
    notes_of,
)
from replayer.steps.walk.reading import read_files, watched_disk
from replayer.steps.walk.spec import Spec
from replayer.watch import interference
from replayer.watch.interference import Traffic


def needs_database(spec: Spec) -> bool:
    """Return True if a table's files are read, False if the key `path` names a folder to read."""
    return spec.path is None


def run_here_reason(spec: Spec) -> str:
    """Return the reason why only the host where replayer was called can run the step.

    The reason is that the key `path` names a folder of this host.  Returns "" if a table's files
    are read: the database's host can do that.
    """
    return (
        f"path = {str(spec.path)!r} is a folder of the host that replayer is called on, and of "
        f"another one only the database's files are read"
        if spec.path is not None
        else ""
    )


def check(spec: Spec, _context: Context) -> None:
    """Raise Impossible if the key `path` is given, and is no absolute path of a readable folder."""
    if spec.path is None:
        return
    if not spec.path.is_absolute():
        raise Impossible(f"walk: path = {str(spec.path)!r} must begin with a slash")
    try:
        os.scandir(spec.path).close()
    except OSError as error:
        raise Impossible(
            f"walk: the folder {spec.path} cannot be read: {error.strerror}"
        ) from error


def run(spec: Spec, context: Context) -> None:
    """Read all files with many threads, and record the time, the throughput and the latencies.

    Before that, the files are dropped from memory or read into it, as the key `cold` asks, and
    listed.
    """
    check(spec, context)
    files = files_of(spec, context)
    server = context.database_server if spec.path is None else None
    with watched_disk(spec, context) as sampler:
        if spec.mode == "direct":
            need_direct(files)
        with context.progress.task(f"walk: making {spec.cold.value}"):
            cold = temperature.make(spec.cold, server, files, context.host, server_reads=False)
        listing = list_files(folders_of(spec, files), None if spec.path else set(files))
        below = underneath.stack_of(files, context.host)
        pids = interference.pids_of(server)
        before = interference.point(context.host, pids, sampler.layers)
        first = underneath.disk_bytes(below, context.host)
        reading = read_files(spec, context, sampler, listing)
        last = underneath.disk_bytes(below, context.host)
        after = interference.point(context.host, pids, sampler.layers)
        delta = sampler.device_delta(reading.begin_ns, reading.end_ns)
        series = sampler.series(
            reading.begin_ns, reading.end_ns, cumulative={"walk.bytes": reading.points}
        )
    own_bytes = reading.own_bytes if interference.counts_reads(context.host) else None
    cold = temperature.finish(
        cold,
        delta.read_bytes if delta else None,
        own_bytes,
        disk_bytes=None if first is None or last is None else last - first,
    )
    own = Traffic(own_bytes, 0) if own_bytes is not None else None
    findings = context.findings
    findings.cold, findings.series = cold, series
    findings.foreign = interference.between(before, after, delta, own)
    findings.window = MeasuredWindow(
        begin_ns=reading.begin_ns,
        end_ns=reading.end_ns,
        operations=reading.bytes / (1 << 20),
        operation="MiB",
        sessions=spec.threads,
        whose="replayer",
    )
    measure_walk(findings, listing, reading)
    findings.histogram("block", latencies_of(reading.hauls))
    findings.facts |= facts_of(spec, listing, reading)
    findings.notes += [*notes_of(spec, files, listing, reading, cold), *foreign_notes(cold, delta)]
    findings.reads = device_reads(spec, reading, cold, sampler.device)
