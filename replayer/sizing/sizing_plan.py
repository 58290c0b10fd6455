"""Requirement -> the steps that find out whether a machine meets it, and how long they take.

The load is the source's mix at the required rate, on as much data as the source has in use.  Memory
decides how much of the data is read from the device, as it would for the database itself:

in memory       the data in use fits into memory: read from the buffers and the page cache
beyond memory   the data does not fit: direct I/O, with buffers for the part that memory would hold
device only     the profile has device reads but no block reads: as many device reads are made here
"""

import math
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from pydantic import ValidationError

from replayer.analysis.capacity.capacity_search import USUAL_TRIALS
from replayer.errors import Impossible
from replayer.load.cpu_burn import CPU_METRIC, MEMORY_METRIC
from replayer.load.mix import WeightedMix
from replayer.load.objective import goals
from replayer.model import StepSpec, Workload
from replayer.run import step_plugin
from replayer.sizing.needs import AS_THERE, LOG_WRITES
from replayer.sizing.requirement import Requirement
from replayer.tables.pgio import MOST_ROWS
from replayer.units import show_count, show_duration, show_size, write_duration

NAME = "size"
"""Name of the workload."""
_MIB = 1 << 20
_GIB = 1 << 30
_LEAST_SET = 64 * _MIB
_UNKNOWN_SET = _GIB
"""Data in use where nothing is known of it."""
_LEAST_BUFFERS = 16 * _MIB
_ALL_MISSED = 32
"""Size of the data divided by that of the buffers, if each read is to miss the buffers."""
_SCAN_BUFFERS = 128 * _MIB
"""PostgreSQL lets a session pin no more than its share of the buffers, and reads no more blocks at
once than it may pin.  With fewer buffers than this, and connections for all sessions, a scan reads
block by block."""
_MOSTLY_MISSED = 16
_BUFFERS_SHARE = 1 / 4
"""Share of memory for the server's buffers, next to the page cache: the advice of PostgreSQL's
manual."""
_CACHED_SHARE = 0.7
"""Share of memory that data in use may take."""
_BESIDE_BUFFERS = 288 * _MIB
"""Memory that replayer's own processes, and the server without its buffers, take of a small limit
in which all of them are.  A limit of 400 MiB with 256 MiB of buffers had the kernel kill replayer.
"""
_LOG_ROOM = _GIB
_ROOM_SHARE = 0.93
_TABLES = 4
_LEAST_ROWS = 1024
_SESSIONS = 32
_MOST_SESSIONS = 512
_TRIAL_SECONDS = 20.0
_LONGEST_TRIAL = 120.0
_STATEMENTS_A_TRIAL = 2000
"""Enough statements for a percentile of them to mean something."""
_BEFORE = 25.0
"""Seconds until the first trial: the sessions connect, CPU is calibrated, the load warms up."""
_MOST_RATE = 10_000_000
_CPU_SHARE = 0.1
"""Share of the objective's shortest time: a statement burns CPU for at most so long."""
_LEAST_CPU = 0.001
"""Seconds of CPU that a statement may always burn: shorter ones cost clients more than that."""
_PROBE_SECONDS = 5.0
"""Seconds of a probe; a probe is as long as a trial, if that is shorter."""
_DEEPEST = 64
_DEEP = 32
_SCAN_BLOCK = 128 << 10
_PAGE = 4096
"""The smallest request of a device."""
_WRITTEN_A_SECOND = 200e6
"""Bytes of a probe's file that are written in a second, approximately."""
_LOADED_A_SECOND = 60e6
"""Bytes of tables that are loaded in a second, approximately: used only for the estimate shown."""


class Residence(StrEnum):
    """The place from which the load reads its data."""

    MEMORY = "in memory"
    BEYOND = "beyond memory"
    DEVICE = "device only"


class CandidateMachine(NamedTuple):
    """Facts of the candidate machine; None where this host cannot see them."""

    block_size: int
    """Block size of the engine."""
    memory_bytes: int | None
    free_bytes: int | None
    """Free bytes on the data's disk, including the space that replayer's own tables take there."""
    own_server: bool
    """True if replayer starts the server, so that replayer chooses its settings."""
    where: str = ""
    """The data's folder."""
    cores: float | None = None
    """Processors that a process may use."""


class SizingOptions(NamedTuple):
    """The user's options of a sizing that are not in the requirement; times are in seconds."""

    objective: str = "p99=20ms"
    hold: float = 600.0
    trial: float | None = None
    sessions: int | None = None
    working_set: int | None = None
    """Bytes, in place of the profile's."""
    resolution: float = 0.05
    seed: int = 1
    settings: Mapping[str, str] = {}
    wait: float = 0.0
    """Seconds for which disturbed trials are run again."""


class Data(NamedTuple):
    """The tables of the load, and where they are read from."""

    wanted: int
    """Bytes in use at the source."""
    tables: int
    rows: int
    """Rows of each table, one in each block."""
    residence: Residence
    buffers: int | None
    """Bytes of the server's own cache; None to leave it as configured."""
    unproven: tuple[str, ...]

    def size(self, block_size: int) -> int:
        """Return the bytes of all tables, with one row in each block of `block_size` bytes."""
        return self.tables * self.rows * block_size


class Stage(NamedTuple):
    """One stage of the plan: its description, and its approximate time in seconds."""

    words: str
    seconds: float


class SizingPlan(NamedTuple):
    """The plan of a sizing: its workload, its stages and their time."""

    workload: Workload
    data: Data
    mix: WeightedMix
    rate: float
    """Statements a second that are required."""
    stages: tuple[Stage, ...]

    @property
    def compute(self) -> float:
        """Return how many of the required statements a second only burn CPU."""
        return self.rate * self.mix.shares.get("compute", 0.0)

    @property
    def seconds(self) -> float:
        """Return the seconds that all stages take, approximately."""
        return sum(stage.seconds for stage in self.stages)


def planned(
    requirement: Requirement, options: SizingOptions, machine: CandidateMachine, source: str = ""
) -> SizingPlan:
    """Return the plan that tests a machine for a requirement; `source` is the profile's file.

    Raise Impossible, in one sentence, for a requirement that no load can be made of, or data for
    which there is no room.
    """
    data = _data(requirement, options, machine)
    mix, rate = _split(*_load(requirement, data), options.objective)
    data = data._replace(unproven=(*data.unproven, *_of_times(mix, options.objective)))
    sessions = _sessions(requirement, options)
    tables = [
        *_carriers(requirement, mix),
        *(
            _probes(requirement, data, mix, machine, sessions, options)
            if machine.own_server
            else ()
        ),
        _capacity(data, mix, rate, sessions, options),
        *_curve(data, mix, rate, sessions, options, machine),
    ]
    steps = tuple(map(spec_of, tables))
    workload = Workload(
        name=NAME,
        source=source or NAME,
        description="whether a database fits on this machine",
        comment="",
        settings=dict(options.settings),
        steps=steps,
    )
    return SizingPlan(
        workload, data, mix, rate, tuple(_stages(steps, data, machine, rate, options))
    )


def _data(requirement: Requirement, options: SizingOptions, machine: CandidateMachine) -> Data:
    wanted = options.working_set or requirement.working_set_bytes
    device_only = requirement.work.hit_ratio is None and machine.own_server
    size = wanted or _UNKNOWN_SET
    if device_only:
        size = max(size, _MOSTLY_MISSED * _device_buffers(requirement))
        size = max(size, _ALL_MISSED * _LEAST_BUFFERS)
    size = max(size, _LEAST_SET)
    room = _room(machine)
    if room is not None and options.working_set and size > room:
        raise Impossible(
            f"a working set of {show_size(size)} was asked for, and {machine.where} has room for "
            f"{show_size(room)}: ask for less, or name a larger disk with --data-dir"
        )
    made = size if room is None else min(size, room)
    residence, buffers = _residence(size, made / size, machine, device_only=device_only)
    if residence is Residence.DEVICE:
        buffers = _device_buffers(requirement)
    blocks = made // machine.block_size
    tables = max(_TABLES, math.ceil(blocks / MOST_ROWS))
    return Data(
        wanted=wanted or size,
        tables=tables,
        rows=max(_LEAST_ROWS, _longest(requirement), blocks // tables),
        residence=residence,
        buffers=None if "shared_buffers" in options.settings else buffers,
        unproven=(
            *_of_size(requirement, machine, wanted, size, made),
            *_of_reads(residence, machine),
        ),
    )


def _device_buffers(requirement: Requirement) -> int:
    """Return the bytes of the server's buffers for a load whose reads must all reach the device."""
    return _SCAN_BUFFERS if requirement.work.scanned_blocks else _LEAST_BUFFERS


def _longest(requirement: Requirement) -> int:
    return max(requirement.work.work_unit, requirement.work.update_rows)


def _room(machine: CandidateMachine) -> int | None:
    """Return the bytes that tables may take; None where free space cannot be read.

    Raise Impossible if there is too little space for any load.
    """
    if machine.free_bytes is None:
        return None
    room = int((machine.free_bytes - _LOG_ROOM) * _ROOM_SHARE)
    if room < _LEAST_SET:
        raise Impossible(
            f"{machine.where} has {show_size(machine.free_bytes)} free, too little for a load of "
            f"{show_size(_LEAST_SET)} and {show_size(_LOG_ROOM)} of log: name a larger disk with "
            f"--data-dir"
        )
    return room


def _residence(
    size: int, part: float, machine: CandidateMachine, *, device_only: bool
) -> tuple[Residence, int | None]:
    """Return (where `size` bytes of data are read, bytes of the server's buffers or None).

    `part` is the share of the data that fits on the disk.  The buffers are None if replayer does
    not set them.
    """
    if not machine.own_server or machine.memory_bytes is None:
        return Residence.MEMORY, None
    if device_only:
        return Residence.DEVICE, _LEAST_BUFFERS
    memory = machine.memory_bytes
    buffers = _rounded(memory * _BUFFERS_SHARE)
    if size <= _CACHED_SHARE * (memory - buffers):
        return Residence.MEMORY, buffers
    most = min(_CACHED_SHARE * memory, memory - _BESIDE_BUFFERS)
    return Residence.BEYOND, _rounded(max(0.0, most * part))


def _rounded(size: float) -> int:
    """Return `size` bytes rounded down to 1 or 1.5 times a power of two, but at least 16 MiB."""
    digit = 1 << max(20, int(size).bit_length() - 2)
    return max(_LEAST_BUFFERS, int(size) // digit * digit)


def _of_size(
    requirement: Requirement, machine: CandidateMachine, wanted: int | None, size: int, made: int
) -> Iterator[str]:
    """Yield sentences on what the load cannot prove because of the size of its data.

    In bytes, `wanted` is the data in use (None: not known), `size` the data to load, and `made` the
    part of it that has room on the disk.
    """
    if wanted is None:
        yield (
            f"how much data is in use is not known ({requirement.working_set_method}): "
            f"{show_size(size)} stand for it, and hits in larger or smaller memory are not proven"
        )
    elif made < wanted:
        yield (
            f"{show_size(wanted)} are in use and {machine.where} has room for {show_size(made)}: "
            f"the load works on {made / wanted:.0%} of it, with as much less memory where it is "
            f"larger than memory, so that how the disk does over its whole size is not proven"
        )
    elif requirement.working_set_bytes and wanted < requirement.working_set_bytes:
        yield (
            f"{show_size(requirement.working_set_bytes)} are in use at the source and "
            f"{show_size(wanted)} were asked for: what the rest needs of memory is not proven"
        )


def _of_reads(residence: Residence, machine: CandidateMachine) -> Iterator[str]:
    """Yield sentences on what the load cannot prove because of the way in which it reads data."""
    if residence is Residence.BEYOND:
        yield (
            "what is in use is larger than memory: direct I/O, with buffers in the place of the "
            "page cache, reads what memory would not hold"
        )
    if residence is Residence.DEVICE:
        yield (
            "blocks and hits are not in the profile: each read of its device is one of the device "
            "here, whatever of it this machine's memory would hold"
        )
    if not machine.own_server:
        yield "the server is not replayer's own: its buffers and settings are what they are"


def _load(requirement: Requirement, data: Data) -> tuple[WeightedMix, float]:
    """Return the load's mix (proportions of statements) and its required statements a second.

    Raise Impossible for a requirement without work, or with too high a rate.
    """
    rate = requirement.rate(data.rows)
    if not rate > 0:
        raise Impossible(
            f"the profile has no reads, writes or transactions in its busiest "
            f"{show_duration(requirement.window)}, so that no load can be made of it: profile the "
            f"database itself, with `replayer profile URL`"
        )
    if rate > _MOST_RATE:
        raise Impossible(
            f"the profile requires {show_count(rate)} statements/s, more than the "
            f"{show_count(_MOST_RATE)}/s that replayer can ask for: size by a part of it, with a "
            f"smaller --growth, and look at the multiple"
        )
    mix = requirement.work.mix(data.rows)
    speeds = {
        "cpu_speed": requirement.probes.get(CPU_METRIC),
        "memory_speed": requirement.probes.get(MEMORY_METRIC),
    }
    known = {name: speed for name, speed in speeds.items() if speed and mix.cpu}
    return mix.model_copy(update=known), rate


def _split(mix: WeightedMix, rate: float, objective: str) -> tuple[WeightedMix, float]:
    """Return a mix and its rate a second, changed so that a statement's CPU fits the objective.

    The remaining CPU is burnt by separate statements, which read and write nothing.
    """
    most = _most_cpu(objective)
    if mix.cpu is None or mix.cpu <= most:
        return mix, rate
    times = mix.cpu / most
    split = {
        "compute": mix.total * (times - 1),
        "cpu": most,
        "cpu_rate": None if mix.cpu_rate is None else mix.cpu_rate * times,
    }
    return mix.model_copy(update=split), rate * times


def _most_cpu(objective: str) -> float:
    """Return how many seconds of CPU one statement may burn at most to keep to the objective."""
    shortest = min(goal.seconds for goal in goals(objective))
    return max(_LEAST_CPU, _CPU_SHARE * shortest)


def _of_times(mix: WeightedMix, objective: str) -> Iterator[str]:
    """Yield sentences on SQL statements that the objective excludes or that hardly keep to it."""
    if mix.scan:
        yield (
            "a scan takes as long as its table is large: scans have to be kept up with, and the "
            "objective is not for them"
        )
    shortest = min(goal.seconds for goal in goals(objective))
    if mix.cpu is not None and mix.cpu > 1.01 * _CPU_SHARE * shortest:
        yield (
            f"a statement alone takes {show_duration(mix.cpu)} of CPU, {mix.cpu / shortest:.0%} of "
            f"the objective {objective}, which is hardly met next to other work"
        )


def _sessions(requirement: Requirement, options: SizingOptions) -> int:
    if options.sessions is not None:
        return options.sessions
    active = requirement.need("sessions_active")
    wanted = math.ceil(2 * active.required) if active else 0
    return min(_MOST_SESSIONS, max(_SESSIONS, wanted))


def _carriers(requirement: Requirement, mix: WeightedMix) -> Iterator[dict[str, Any]]:
    """Yield keys of probe steps that compare a core with the source's, if it was probed there."""
    if mix.cpu and requirement.probes.get(CPU_METRIC):
        yield {"step": "probe", "name": "cpu", "probe": "cpu", "threads": [1], "duration": "3s"}
    if mix.cpu and requirement.probes.get(MEMORY_METRIC):
        yield {
            "step": "probe",
            "name": "memory",
            "probe": "memory",
            "block_sizes": ["1M"],
            "operations": ["read"],
            "threads": [1],
            "duration": "2s",
        }


def _probes(  # noqa: PLR0917 - what decides whether they matter
    requirement: Requirement,
    data: Data,
    mix: WeightedMix,
    machine: CandidateMachine,
    sessions: int,
    options: SizingOptions,
) -> Iterator[dict[str, Any]]:
    """Yield the keys of probe steps that measure the device's limits, if the load uses it."""
    seconds = min(_PROBE_SECONDS, options.trial or _PROBE_SECONDS)
    size = min(_GIB, max(_LEAST_SET, data.size(machine.block_size)))
    probe = {
        "step": "probe",
        "probe": "io",
        "block_size": machine.block_size,
        "depth": min(_DEEPEST, sessions),
        "size": size,
        "duration": write_duration(seconds),
        "warm_up": "1s",
    }
    own = machine.block_size
    for operation, matters in (
        ("read", data.residence is not Residence.MEMORY),
        ("write", mix.writes),
    ):
        there = _request_size(requirement, operation, own)
        if matters and there != own:
            yield {**probe, "name": f"{operation}s", "operation": operation}
        if there is not None:
            name = f"{operation}s-{AS_THERE}"
            # Use the depth at which a device gives the most.
            depth = min(_DEEPEST, max(_DEEP, sessions))
            yield {**probe, "name": name, "operation": operation, "block_size": there,
                   "depth": depth}  # fmt: skip
    large = {"access": "sequential", "block_size": _SCAN_BLOCK, "depth": 8}
    # Large requests may belong to scans, which are not random.
    if (_request_size(requirement, "read", own) or 0) > own:
        yield {**probe, **large, "name": f"large-reads-{AS_THERE}"}
    if mix.writes and requirement.need("wal") is not None:
        # A log is written sequentially, and more of it at a time if more commits wait.
        yield {**probe, **large, "operation": "write", "name": LOG_WRITES}
    if mix.writes:
        yield {
            "step": "probe",
            "name": "log",
            "probe": "pg_fsync",
            "methods": ["fdatasync"],
            "duration": write_duration(min(3.0, seconds)),
        }


def _request_size(requirement: Requirement, operation: str, block_size: int) -> int | None:
    """Return the bytes of the source's mean request, as a power of two; None where it had none.

    A request about as large as a block of the database counts as one block.
    """
    requests, bytes_ = (requirement.need(f"{operation}_{unit}") for unit in ("iops", "mbps"))
    if requests is None or not requests.measured:
        return None
    mean = block_size if bytes_ is None else bytes_.measured * 1e6 / requests.measured
    if block_size / 2 <= mean <= 2 * block_size:
        return block_size
    return int(min(_MIB, max(_PAGE, 1 << round(math.log2(max(1.0, mean))))))


def _under(
    data: Data, mix: WeightedMix, rate: float, sessions: int, options: SizingOptions
) -> dict[str, Any]:
    """Return the keys of a step that runs the load: rate, mix, tables, sessions, buffers."""
    return {
        "rate": rate,
        "mix": mix,
        "num_schemas": data.tables,
        "scale": data.rows,
        "sessions": sessions,
        "seed": options.seed,
        "memory": "cached" if data.residence is Residence.MEMORY else "direct",
        "shared_buffers": data.buffers,
    }


def _capacity(
    data: Data, mix: WeightedMix, rate: float, sessions: int, options: SizingOptions
) -> dict[str, Any]:
    # Statements that read and write nothing do not count for the length of a trial.
    own = rate * (1 - mix.shares.get("compute", 0.0))
    trial = options.trial or min(_LONGEST_TRIAL, max(_TRIAL_SECONDS, _STATEMENTS_A_TRIAL / own))
    if trial >= 1 and rate * trial < 1:
        raise Impossible(
            f"the profile requires {rate:.2g} statements/s, less than one in a trial of "
            f"{show_duration(trial)}: ask for longer ones with --trial {math.ceil(20 / rate)}s"
        )
    return {
        **_under(data, mix, rate, sessions, options),
        "step": "capacity",
        "name": "capacity",
        "slo": options.objective,
        "trial": trial,
        "resolution": options.resolution,
        "hold": options.hold,
        "decide": True,
        "wait": options.wait,
    }


def _curve(  # noqa: PLR0917 - what a load is made of
    data: Data,
    mix: WeightedMix,
    rate: float,
    sessions: int,
    options: SizingOptions,
    machine: CandidateMachine,
) -> Iterator[dict[str, Any]]:
    """Yield the keys of a step that measures hits in smaller buffers, if data exceeds memory."""
    if data.residence is not Residence.BEYOND or data.buffers is None or not machine.own_server:
        return
    sizes = [size for part in (4, 2) if (size := data.buffers // part) >= _LEAST_BUFFERS]
    if sizes:
        load = _under(data, mix, rate, sessions, options)
        yield {**load, "step": "buffers", "name": "buffers", "sizes": [*sizes, data.buffers]}


def spec_of(table: dict[str, Any]) -> StepSpec:
    """Return a workload's step from its table of keys; raise Impossible for a wrong key."""
    kind = step_plugin.load(table["step"]).spec_of(table)
    try:
        return kind.model_validate(table)
    except ValidationError as error:
        first = error.errors()[0]
        wanted = str(first["msg"]).removeprefix("Value error, ").removeprefix("Input ")
        key = ".".join(map(str, first["loc"]))
        raise Impossible(f"{table['name']}: {key}: {wanted}") from error


def _stages(
    steps: tuple[StepSpec, ...],
    data: Data,
    machine: CandidateMachine,
    rate: float,
    options: SizingOptions,
) -> Iterator[Stage]:
    probes = [step for step in steps if step.step == "probe"]
    if probes:
        names = ", ".join(step.name for step in probes)
        seconds = sum(_lasts(step) + _written(step) for step in probes)
        yield Stage(f"probe this machine: {names}", seconds)
    size = data.size(machine.block_size)
    yield Stage(
        f"load {data.tables} tables of {show_size(size / data.tables)}, {data.residence.value}, "
        f"unless they are there",
        size / _LOADED_A_SECOND,
    )
    capacity = next(step for step in steps if step.step == "capacity")
    trial = float(capacity.model_dump()["trial"])
    yield Stage(
        f"search the highest multiple of {show_count(rate)} statements/s within "
        f"{options.objective}: some {USUAL_TRIALS} trials of {show_duration(trial)}",
        capacity.lasts() - options.hold + _BEFORE,
    )
    if options.hold:
        yield Stage("hold the required rate, if it is sustained", options.hold)
    curve = next((step for step in steps if step.step == "buffers"), None)
    if curve is not None:
        yield Stage("hits in smaller buffers, for what more memory would do", curve.lasts())


def _lasts(step: StepSpec) -> float:
    """Return the seconds that a probe takes, approximately."""
    methods = getattr(step, "methods", None)
    duration = float(getattr(step, "duration", 0.0) or 0.0)
    return step.lasts() or duration * (len(methods) if methods else 1)


def _written(step: StepSpec) -> float:
    """Return the seconds that a probe takes to write its file and to begin, approximately."""
    size = getattr(step, "size", None)
    return 1.0 + float(size or 0) / _WRITTEN_A_SECOND
