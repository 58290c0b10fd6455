"""The frozen types that modules exchange, and so everything that a result file holds.

A result file is one Run as JSON; store.py keeps the history of its format.
"""

import base64
import zlib
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal, get_origin

from pydantic import BaseModel, ConfigDict, Field, model_validator

Fact = str | int | float | bool | None | tuple[str, ...]
"""One thing known about a host, an engine or a step; its key is dotted: `kernel.release`."""

MemoryKind = Literal["cached", "direct", "cgroup", "hugepages", "ballast"]
"""The memory set-up for a read: through the page cache, or from a device in one of four ways."""


class Noun(BaseModel):
    """A frozen record: an unknown key is an error, so that a misspelt key is never ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="null")


class Better(StrEnum):
    """The direction in which a measurement improves."""

    MORE = "more"
    LESS = "less"
    NEITHER = "neither"


class Measurement(Noun):
    """One measured number: its metric `<step>.<quantity>`, its unit, and which way is better."""

    metric: str
    value: float
    unit: str
    better: Better
    leading: bool = Field(default=False, exclude_if=lambda leads: not leads)
    """True for a number that the step is run for: a comparison judges these first.  If no metric
    of a step is marked so, its first rate leads, else its first time."""
    says: str = Field(default="", exclude_if=lambda metric: not metric)
    """Another metric of the same step with the same information; a comparison counts both as one.
    For example, bytes per second repeat the seconds of a fixed number of bytes."""


class Temperature(StrEnum):
    """The share of the data in memory before the clock started, in ClickBench's words."""

    COLD = "cold"
    LUKEWARM = "lukewarm"
    HOT = "hot"
    UNKNOWN = "unknown"


class Cold(Noun):
    """The requested and the reached temperature (share of the data in memory), with its proof."""

    asked: Temperature
    got: Temperature
    method: str
    """The actions that were taken, e.g. "server stopped, sync, drop_caches"."""
    proof: str
    """The system call that measured residency: cachestat or mincore; "" if none could."""
    resident_bytes: int | None = None
    file_bytes: int | None = None
    """The files' sizes, each inode once."""
    data_bytes: int | None = None
    """`file_bytes` without holes and without preallocated space that was never written."""
    stored_bytes: int | None = None
    """Bytes that the disk delivers for the data: fewer than the data if it is compressed."""
    device_bytes: int | None = None
    """Bytes that the device delivered to all processes in the measured window."""
    own_bytes: int | None = None
    """Bytes that the reading processes got from a device in the window (/proc/PID/io)."""
    missing_bytes: int | None = None
    """Bytes that a cold read needed and that no device delivered to the reading processes."""
    why: str = ""
    """The reason if `got` is not `asked`; "" if it is."""
    todo: str = ""
    """An action that would help to reach `asked`; "" if there is none."""

    @property
    def resident_share(self) -> float | None:
        """Return resident bytes / bytes of data, from 0 to 1; None if one is not known."""
        whole = self.file_bytes if self.data_bytes is None else self.data_bytes
        if self.resident_bytes is None or not whole:
            return None
        return self.resident_bytes / whole


class ReadOrigin(StrEnum):
    """The place that the blocks of a read came from."""

    BUFFERED = "buffered"
    """The server's own buffers.  The other values are origins of blocks not found there."""
    CACHED = "cached"
    PHYSICAL = "physical"
    MIXED = "mixed"
    UNKNOWN = "unknown"


class Ledger(Noun):
    """The reads per second of one window, by the layer that they came from.

    `riops` are the blocks per second that the server did not find in its own buffers.
    `page_cache_hits = riops - device_read_bytes / block size`, never below 0;
    `ratio = device_reads / riops`, of the server alone if known.  A layer not counted is None.
    """

    asked: ReadOrigin | None
    verdict: ReadOrigin
    window_seconds: float
    riops: float
    buffer_hits: float
    page_cache_hits: float | None
    device_reads: float | None
    device_read_bytes: float | None
    ratio: float | None
    device: str | None
    note: str = ""


class Foreign(Noun):
    """The influence of other programs, CPU quotas and I/O limits on a window; None: not counted."""

    cpu_share: float | None = None
    """Share of the time of the processors that the run may use, from 0 to 1: busy time less that of
    the server, replayer and the kernel's threads; in user mode alone where these are not known."""
    programs: tuple[str, ...] = ()
    """The programs that used most of that time, with their shares."""
    read_bytes: int | None = None
    """Bytes that the data's device delivered to other programs."""
    write_bytes: int | None = None
    """Bytes that other programs wrote to the data's device."""
    held_back: dict[str, float | None] = Field(default_factory=dict, exclude_if=lambda of: not of)
    """`server` or `replayer` -> share of its CPU quota's periods that used it up; None: unknown."""
    disk_limits: dict[str, float | None] = Field(default_factory=dict, exclude_if=lambda of: not of)
    """`server.read_iops` and the like, a limit of the data's device by a cgroup -> share of it that
    was used; None if the limit was changed meanwhile."""


class Mark(Noun):
    """An event in a time series, such as a checkpoint or an autovacuum, at the second `at`."""

    at: float
    kind: str
    text: str


class Series(Noun):
    """The time series that collectors recorded while a step ran.

    `seconds` are the ends of the intervals, counted from the start of the step's window.  Every
    column has as many values as `seconds`.  A column's name is `<collector>.<sysstat's name>`, or
    the step's own, such as `sessions.riops`.  None marks an interval that could not be read.
    """

    started: str
    seconds: tuple[float, ...] = ()
    columns: dict[str, tuple[float | None, ...]] = Field(default_factory=dict)
    marks: tuple[Mark, ...] = ()
    window: tuple[float, float] | None = None
    """First and last second of the measured window; None if it is the whole series."""
    device: str | None = None
    """The disk of the device's columns.  None if no disk was watched, and in old results without
    this field: there it is the disk of the run's data."""


class Latency(Noun):
    """Latencies of one kind of operation: an HdrHistogram V2 payload in nanoseconds."""

    payload: str
    operations: int


class Steadiness(Noun):
    """The result of a check that a rate stayed constant while it was measured."""

    settled: bool | None
    """True if the rate stayed constant; None if there are too few values for a verdict."""
    words: str
    """The finding, to follow "was" in a sentence: `drifting by +12% from second 10 to 30`."""
    rule: str = ""
    """The rule that the rate does not meet, if it is not settled."""


class Reads(Noun):
    """The reads that a step got from a device, to compare with those of a probe."""

    per_second: float
    block_bytes: int
    depth: int
    """Reads that were outstanding at one time."""
    access: Literal["random", "sequential"]
    device: str


class Places(Noun):
    """Digests of the server's answers in a replay, which show where two replays differ.

    There is one for each part (a span of time) and for each session of the capture.  If it is the
    same in two replays of one archive, their answers there are the same.
    """

    part_s: float
    """Length of a part in seconds of the capture."""
    parts: dict[int, int]
    """Number of the part, from 0 -> digest of 32 bits."""
    sessions: dict[int, int]
    """Number of the session -> digest; all sessions from 255 on share one digest."""


class Replayed(Noun):
    """The results of all statements of one fingerprint in a replay, over all its sessions.

    A fingerprint stands for statements that differ only in their values.  The values are not kept:
    `text` is the normalised form.  A replay has one Replayed for each, the heaviest first.
    """

    fingerprint: str
    """16 hexadecimal digits: the server's query id, else the hash of the normalised text."""
    text: str
    kind: str
    """The kind of the statements: select, insert, update, begin, commit, ddl, …"""
    planned: int
    """Statements to run: those of the archive that the request of the replay includes."""
    executions: int
    """The planned statements that were answered, with an error or without."""
    errors: dict[str, int] = Field(default_factory=dict)
    """SQLSTATE -> answers with an error that is not a consequence of an earlier one."""
    consequences: int = 0
    """Answers with an error that only follows from an earlier one in the same session, such as
    25P02 in a failed transaction; they are not in `errors`."""
    logged_errors: dict[str, int] = Field(default_factory=dict)
    """SQLSTATE -> errors of the same executions in the log, consequences included."""
    failed_here: dict[str, int] = Field(default_factory=dict)
    """SQLSTATE -> errors in the replay of executions that succeeded in the log."""
    failed_there: dict[str, int] = Field(default_factory=dict)
    """SQLSTATE -> errors in the log of executions that succeeded in the replay."""
    failed_otherwise: tuple[dict[str, int], dict[str, int]] = ({}, {})
    """Two times SQLSTATE -> errors, of executions that failed with one error in the replay and
    with another in the log: first the replay's errors, then the log's."""
    rows: int | None = None
    """Rows that were returned or changed, in all answers without an error; None if not counted."""
    rows_hash: str | None = None
    """The sum modulo 2^64 of the hashes of all answers, in hexadecimal; None if not computed."""
    held_rows: int | None = None
    """Rows of the answers for which the log has a number of rows, too; None if it has none."""
    logged_rows: int | None = None
    """The log's rows of the same executions."""
    rows_otherwise: int = 0
    """Answers, of those counted in `held_rows`, with another number of rows than in the log."""
    rows_follow: int = 0
    """Answers with another number of rows that come after an earlier difference in the same
    transaction; they are not in `rows_otherwise`."""
    places: Places | None = None
    """Digests of the answers by their place in the capture; None if not computed."""
    varies: tuple[str, ...] = ()
    """Reasons why rows and their hash may differ between replays: `now()`, `nextval()`."""
    service_s: float = 0.0
    """Seconds from the actual start to the answer, summed over all executions."""
    service: Latency | None = None
    """From the actual start to the answer, errors included; None for the lightest fingerprints."""
    response: Latency | None = None
    """From the intended start to the answer; None at speed 0, which has no intended starts."""


class Spent(StrEnum):
    """The parts of an account: uses of a session's or a processor's time, in the order shown."""

    SERVER = "server code"
    """User mode of the server."""
    ENTRY = "kernel entry"
    """Entry and exit of system calls and interrupts: mitigations, audit, tracepoints, seccomp."""
    COPY = "copy"
    """Copies between the kernel and a process."""
    PAGE_CACHE = "page cache"
    """Look-ups, read-ahead, LRU lists, reclaim."""
    FILE_SYSTEM = "file system"
    """The file system, with VFS, iomap and direct I/O."""
    BLOCK = "block layer"
    """The block layer, with the drivers of the devices and of the layers between: dm, md, loop."""
    SCHEDULER = "scheduler"
    """The scheduler, with futexes, wakeups, context switches and timers."""
    FAULTS = "page faults"
    """Page faults, with page tables, anonymous memory and huge pages."""
    NETWORK = "network"
    """Sockets, e.g. between server and client."""
    LOCKING = "kernel locks"
    """Spinning for the kernel's locks."""
    KERNEL = "other kernel"
    RUN_QUEUE = "run queue"
    """Runnable, but on no processor."""
    THROTTLED = "CPU quota"
    """Runnable, but not allowed to run, because a cgroup's quota was used up."""
    DEVICE = "device wait"
    """Waits for reads and writes of data."""
    LOG = "log flush"
    """Waits for the log to be durable."""
    LOCK = "lock wait"
    """Waits for rows, tables, buffers, other sessions."""
    CLIENT = "client"
    """The session waits for its client.  In CPU seconds: user mode of the client."""
    OTHER = "other waits"


_RESIDUE = 0.1
"""A residue above this share of the sessions' time is reported."""


class Account(Noun):
    """The time of one step's measured window, split by its uses, in seconds per operation.

    By Little's law, the parts of `session` and `residue` add up to sessions * seconds / operations,
    for the numbers of the window.
    """

    operation: str
    """The name of an operation, singular: block, statement, MiB, row."""
    operations: float
    sessions: float
    """The average number of sessions under observation."""
    seconds: float
    """Length of the window."""
    session: dict[Spent, float] = Field(default_factory=dict)
    """Part -> a session's time in it, per operation."""
    residue: float = 0.0
    """A session's time less all parts; negative if the parts are more than the whole."""
    unsure: float = 0.0
    """The difference between the sampled and the traced time that sessions slept, as share of
    their time: the residue does not show an error of up to this size."""
    cpu: dict[str, dict[Spent, float]] = Field(default_factory=dict)
    """`server`, `client` -> CPU seconds per operation.  User mode is SERVER or CLIENT.  The
    kernel's time is split into parts if there is a profile, else all of it is in KERNEL."""
    waits: dict[str, float] = Field(default_factory=dict)
    """Wait event, with the server's name -> share of the sessions' time, the longest first."""
    samples: int = 0
    """The number of observations of a session that the account is based on."""
    notes: tuple[str, ...] = ()
    """Sentences about facts that the account could not know."""

    @property
    def residue_share(self) -> float:
        """Return the residue as a share of the time of the sessions; 0 if they had no time."""
        whole = self.sessions * self.seconds
        return self.residue * self.operations / whole if whole > 0 else 0.0

    @property
    def closes(self) -> bool:
        """Return whether the parts add up to the whole: the residue is too small to be reported."""
        return abs(self.residue_share) <= _RESIDUE

    @property
    def rests_on_one(self) -> bool:
        """Return whether the parts add up, but `unsure` is too large to be certain of that."""
        return self.closes and self.unsure > _RESIDUE


PROFILED = ("server", "client", "kernel threads", "others", "replayer")
"""The owners of a profile's samples.  `client` are the processes that sent the operations;
`replayer` is its main process and its other programs."""
KERNEL_FRAME = "_[k]"


class StackProfile(Noun):
    """The code that the processors executed in one window: folded call chains for flame graphs.

    A stack is `class;mode;thread;root;...;leaf`.  The class is one of PROFILED.  The mode is
    `user` or `kernel`, depending on the leaf.  `thread` is the name of the thread.  Names of kernel
    functions end in KERNEL_FRAME.
    """

    payload: str
    """Base64 of zlib-compressed lines, each with a stack, a blank and its number of samples."""
    samples: int
    """Samples in the window, of processors that were not idle."""
    idle: int = 0
    """Samples of idle processors in the window; they are in no stack."""
    lost: int = 0
    """Samples that were lost, as the kernel reports them."""
    outside: int = 0
    """Samples that were recorded outside of the window, and dropped."""
    event: str
    """The event that was counted: cycles, or cpu-clock."""
    hertz: int
    """Samples a second and processor."""
    seconds: float
    """Length of the window."""
    truncated: str = ""
    """The reason if the profile is not complete; "" if it is."""

    @staticmethod
    def packed(stacks: Mapping[str, int]) -> str:
        """Encode stack -> samples as a payload; the same stacks give the same payload."""
        lines = "".join(f"{stack} {count}\n" for stack, count in sorted(stacks.items()))
        return base64.b64encode(zlib.compress(lines.encode(), 9)).decode("ascii")

    def stacks(self) -> dict[str, int]:
        """Return stack -> samples; raise ValueError if the payload cannot be decoded."""
        try:
            text = zlib.decompress(base64.b64decode(self.payload, validate=True)).decode()
        except (ValueError, zlib.error) as error:
            message = f"a profile's payload cannot be unpacked: {error}"
            raise ValueError(message) from error
        parts = (line.rpartition(" ") for line in text.splitlines())
        return {stack: int(count) for stack, _, count in parts}


class Outcome(Noun):
    """The outcome of a step: all its measurements, and the checks that support them."""

    measurements: tuple[Measurement, ...] = ()
    cold: Cold | None = None
    ledger: Ledger | None = None
    foreign: Foreign | None = None
    series: Series | None = None
    latency: dict[str, Latency] = Field(default_factory=dict)
    tables: dict[str, tuple[dict[str, Any], ...]] = Field(default_factory=dict)
    """Rows of a table, e.g. `doublings`: one dict per row with the same keys."""
    printed: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Lines in the format of the tool that the step imitates, for programs that parse them."""
    facts: dict[str, Fact] = Field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """Sentences for the report: what could not be done or proven, and what to do about it."""
    steady: Steadiness | None = None
    """Steadiness of the step's leading rate; None if it has none."""
    reads: Reads | None = None
    """The reads from the device; None if they did not come from it, or were of several kinds."""
    writes: bool = False
    """True if the step itself wrote to the storage."""
    replayed: tuple[Replayed, ...] = Field(default=(), exclude_if=lambda replayed: not replayed)
    """Results of a replay, one per fingerprint; () for every other step."""
    account: Account | None = Field(default=None, exclude_if=lambda account: account is None)
    """The account of the window's time; None if nothing was watched."""
    profile: StackProfile | None = Field(default=None, exclude_if=lambda profile: profile is None)
    costs: dict[str, float] = Field(default_factory=dict, exclude_if=lambda costs: not costs)
    """Collector -> CPU seconds that it used while the step ran."""


class Status(StrEnum):
    """The status of a step or a run: running, or how it ended."""

    RUNNING = "running"
    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    PARTIAL = "partial"
    """A host that took part was lost; all measurements up to then are kept."""


class StepResult(Outcome):
    """The result of one step in one repeat; `spec` are the step's keys, `elapsed` its seconds."""

    step: str
    name: str
    repeat: int
    status: Status
    reason: str = ""
    started: str
    elapsed: float
    spec: dict[str, Any]

    def value(self, metric: str) -> float | None:
        """Return the value of a metric of this step, or None if it was not measured."""
        return next((m.value for m in self.measurements if m.metric == metric), None)


class EngineFacts(Noun):
    """The database that did the work: version, facts, and settings that are not the default."""

    name: str
    version: str
    place: Literal["private", "url"]
    settings: dict[str, str]
    facts: dict[str, Fact] = Field(default_factory=dict)


class WorkloadFacts(Noun):
    """The workload of a run, after all overrides of the user."""

    name: str
    source: str
    digest: str
    repeat: int
    settings: dict[str, str]
    steps: tuple[dict[str, Any], ...]


class Advice(Noun):
    """A finding that affects the numbers, and what to do about it."""

    found: str
    todo: str = ""
    """The action to take; "" if there is none."""
    steps: tuple[str, ...] = Field(default=(), exclude_if=lambda names: not names)
    """The steps whose numbers are affected; () for all steps."""
    name: str = Field(default="", exclude_if=lambda name: not name)
    """The warning's name and its anchor in docs/reference.md; "" in earlier results."""

    def __str__(self) -> str:
        """Return finding and action as one sentence."""
        return f"{self.found}: {self.todo}" if self.todo else self.found


class Run(Noun):
    """One call of `replayer run`: a result file."""

    format: int
    id: str
    version: str
    label: str
    started: str
    finished: str | None = None
    status: Status
    error: str = ""
    notes: tuple[str, ...] = Field(default=(), exclude_if=lambda notes: not notes)
    """Free texts that users wrote about the run."""
    tags: dict[str, str] = Field(default_factory=dict, exclude_if=lambda tags: not tags)
    """The user's tags: name -> value.  A comparison sees each as a fact `tag.NAME`."""
    headline: str = Field(default="", exclude_if=lambda headline: not headline)
    """The answer in words, with which the report begins; "" in files older than this field."""
    leading: tuple[Measurement, ...] = Field(default=(), exclude_if=lambda lines: not lines)
    """The leading number of each step that was done, as the median of its repeats.  A list of runs
    shows it, so the field stands before `steps`: the list need not read further."""
    writer: str = Field(default="", exclude_if=lambda writer: not writer)
    """The process that writes the result, as `BOOT_ID:PID:START_TIME`; "" after the run's end.  The
    result of a killed run still has it."""
    resumed: tuple[str, ...] = Field(default=(), exclude_if=lambda stamps: not stamps)
    """The times at which the run was resumed after it had been cut off."""
    host: dict[str, Fact]
    engine: EngineFacts | None
    workload: WorkloadFacts
    steps: tuple[StepResult, ...] = ()
    advice: tuple[Advice, ...] = ()
    control: dict[str, tuple[float, ...]] = Field(default_factory=dict)
    """`cpu.before`, `memory.after`, …: short measurements before and after the run, without disk
    and database, one value per process, in bytes per second; `processes` is the number of
    processes.  If before and after differ, the machine changed during the run.  Without `processes`
    all values are from one process, and their noise proves nothing."""
    cluster: dict[str, Fact] = Field(default_factory=dict, exclude_if=lambda cluster: not cluster)
    """`hosts`: the sorted names of the client hosts.  `database`: the host on which the run itself
    worked.  {} if one host did all."""
    sizing: dict[str, Any] | None = Field(default=None, exclude_if=lambda sizing: sizing is None)
    """Of `replayer size`: the requirement, as in sizing/record.py; None for other runs."""


class StepSpec(Noun):
    """The keys that every step of a workload file may have; each step's Spec adds its own."""

    model_config = ConfigDict(use_attribute_docstrings=True, allow_inf_nan=False)

    step: str
    name: str = ""
    """Distinguishes two uses of one step; the step's own name if not given."""
    once: bool = False
    """Run in the first repeat only, e.g. to build a table."""

    def lasts(self) -> float:
        """Return the seconds that the step takes at least; 0 if its keys do not set a duration."""
        return 0.0

    @model_validator(mode="before")
    @classmethod
    def _lists(cls, table: Any) -> Any:
        """Accept `8` for `[8]` and `"1,4"` for `["1", "4"]` if a key is a list."""
        if not isinstance(table, dict):
            return table
        return {
            key: _listed(value)
            if key in cls.model_fields and get_origin(cls.model_fields[key].annotation) is tuple
            else value
            for key, value in table.items()
        }


def _listed(value: Any) -> Any:
    if isinstance(value, str):
        return [part.strip() for part in value.split(",")] if value.strip() else []
    return [value] if isinstance(value, int | float) else value


class Workload(Noun):
    """A workload file after parsing and validation."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    name: str
    source: str
    description: str
    comment: str
    repeat: int = 1
    engines: tuple[str, ...] = ()
    """Engines on which it runs in turn, unless the user names one; () for the default engine."""
    settings: dict[str, str] = Field(default_factory=dict)
    steps: tuple[StepSpec, ...]
