"""Every frozen type that crosses a module border, and so everything that a result file holds.

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
"""What sessions read from: the page cache, or a device in one of four ways."""


class Noun(BaseModel):
    """A frozen record: unknown keys are errors, so that a misspelt one is never passed over."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="null")


class Better(StrEnum):
    """The direction in which a measurement improves."""

    MORE = "more"
    LESS = "less"
    NEITHER = "neither"


class Measurement(Noun):
    """One number that was measured: `<step>.<quantity>`, its unit and its good direction."""

    metric: str
    value: float
    unit: str
    better: Better
    leading: bool = Field(default=False, exclude_if=lambda leads: not leads)
    """One of the numbers that its step is run for: a comparison judges these first.  Where no
    metric of a step says so, its first rate is it, else its first time."""
    says: str = Field(default="", exclude_if=lambda metric: not metric)
    """The metric of the same step that this one repeats in other words, as bytes per second repeat
    the seconds of a fixed number of bytes: a comparison counts both as one."""


class Temperature(StrEnum):
    """How much of the data was in memory before the clock started, in ClickBench's words."""

    COLD = "cold"
    LUKEWARM = "lukewarm"
    HOT = "hot"
    UNKNOWN = "unknown"


class Cold(Noun):
    """The coldness asked for and the one achieved, with its proof."""

    asked: Temperature
    got: Temperature
    method: str
    """What was done: e.g. "server stopped, sync, drop_caches"."""
    proof: str
    """What residency was measured with: cachestat or mincore; "" if it could not be measured."""
    resident_bytes: int | None = None
    file_bytes: int | None = None
    """The files' sizes, each inode once."""
    data_bytes: int | None = None
    """Of those what is neither a hole nor preallocated space that was never written."""
    stored_bytes: int | None = None
    """What the disk delivers for the data, which is less where it is compressed."""
    device_bytes: int | None = None
    """Bytes that the device delivered in the measured window, to whomever."""
    own_bytes: int | None = None
    """Bytes that those who read had from a device in the window (/proc/PID/io)."""
    missing_bytes: int | None = None
    """Of what a cold read needed, what no device gave to those who read."""
    why: str = ""
    """Why `got` is not what was asked for; "" if it is."""
    todo: str = ""
    """What would help."""

    @property
    def resident_share(self) -> float | None:
        """Return resident bytes / bytes of data, or None if they are not known."""
        whole = self.file_bytes if self.data_bytes is None else self.data_bytes
        if self.resident_bytes is None or not whole:
            return None
        return self.resident_bytes / whole


class ReadOrigin(StrEnum):
    """Where the blocks that sessions read came from."""

    BUFFERED = "buffered"
    """Out of the server's own buffers; the others say where those came from that it missed."""
    CACHED = "cached"
    PHYSICAL = "physical"
    MIXED = "mixed"
    UNKNOWN = "unknown"


class Ledger(Noun):
    """The three layers of every read, per second of one window.

    `page_cache_hits = riops - device_read_bytes / block size`, never below 0;
    `ratio = device_reads / riops`.  A layer that could not be counted is None.
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
    """What others did in a window: neither the server's processes nor replayer's.

    None is what could not be counted.
    """

    cpu_share: float | None = None
    """Of the time of all processors: busy, less the server, replayer and the kernel's threads."""
    programs: tuple[str, ...] = ()
    """Those that used most of it, with their shares."""
    read_bytes: int | None = None
    """What the data's device delivered to others."""
    write_bytes: int | None = None
    """What it was given to write by others."""


class Mark(Noun):
    """Something that happened at a second of a series: a checkpoint, an autovacuum."""

    at: float
    kind: str
    text: str


class Series(Noun):
    """What was watched while a step ran.

    `seconds` are the ends of the intervals since the start of the step's window; every column has
    as many values as `seconds`.  A column is `<collector>.<sysstat's name>`, or the step's own,
    such as `sessions.riops`; None marks an interval that could not be read.
    """

    started: str
    seconds: tuple[float, ...] = ()
    columns: dict[str, tuple[float | None, ...]] = Field(default_factory=dict)
    marks: tuple[Mark, ...] = ()
    window: tuple[float, float] | None = None
    """First and last second of the measured window, if it is not the whole series."""
    device: str | None = None
    """The disk that the device's columns are of; None where none was watched, and in results of
    before it was written down, whose disk is that of the run's data."""


class Latency(Noun):
    """Latencies of one kind of operation: an HdrHistogram V2 payload in nanoseconds."""

    payload: str
    operations: int


class Steadiness(Noun):
    """Whether a rate held still while it was measured."""

    settled: bool | None
    """None where there was too little of it to tell."""
    words: str
    """What was seen, to follow "was": e.g. `drifting by +12% from second 10 to 30`."""
    rule: str = ""
    """By what rule it is not settled."""


class Reads(Noun):
    """The reads that a step had of a device, to be held against what a probe had of it."""

    per_second: float
    block_bytes: int
    depth: int
    """How many were under way at a time."""
    access: Literal["random", "sequential"]
    device: str


class Places(Noun):
    """Digests of what was answered, by where that stands in the capture.

    Two replays of one archive answered alike where the digests of a place are the same.
    """

    part_s: float
    """Seconds of the capture that a part of it has."""
    parts: dict[int, int]
    """Number of the part, from 0 -> digest of 32 bits."""
    sessions: dict[int, int]
    """Number of the session -> digest; those from 255 on have one together."""


class Replayed(Noun):
    """What became of the statements of one fingerprint in a replay, of all its sessions together.

    A replay has one for each fingerprint of its work, the heaviest first; two replays of an archive
    are compared by them.  No value of a statement is in it: `text` is the normalised form.
    """

    fingerprint: str
    """16 hexadecimal digits: the server's query id, else the hash of the normalised text."""
    text: str
    kind: str
    """As `replayer show` has it of a capture: select, insert, update, begin, commit, ddl, …"""
    planned: int
    """Statements that were to run: those of the archive within what was asked for."""
    executions: int
    """Of those the ones that were answered, with an error or without."""
    errors: dict[str, int] = Field(default_factory=dict)
    """By SQLSTATE: answers with an error of their own."""
    consequences: int = 0
    """Answers with an error that only follows from an earlier one in the same session, such as
    25P02 in a failed transaction; they are not in `errors`."""
    logged_errors: dict[str, int] = Field(default_factory=dict)
    """By SQLSTATE: errors of the same executions in the log, with their consequences."""
    failed_here: dict[str, int] = Field(default_factory=dict)
    """By SQLSTATE: errors of executions that went well in the log."""
    failed_there: dict[str, int] = Field(default_factory=dict)
    """By SQLSTATE: the log's errors of executions that went well."""
    failed_otherwise: tuple[dict[str, int], dict[str, int]] = ({}, {})
    """By SQLSTATE: errors of executions that have another one in the log, and that other one."""
    rows: int | None = None
    """Rows that were returned or changed, in all answers without an error; None if not counted."""
    rows_hash: str | None = None
    """The sum modulo 2^64 of the hashes of all answers, in hexadecimal; None if not taken."""
    held_rows: int | None = None
    """Rows of the answers whose rows the log has as well; None where it has none."""
    logged_rows: int | None = None
    """The log's rows of the same executions."""
    rows_otherwise: int = 0
    """Of these the answers with other rows than in the log."""
    rows_follow: int = 0
    """And those that had others only after something in the same transaction ended otherwise; they
    are not in `rows_otherwise`."""
    places: Places | None = None
    """Where in the capture what was answered; None if not counted."""
    varies: tuple[str, ...] = ()
    """Why rows and their hash may differ from one replay to the next: `now()`, `nextval()`."""
    service_s: float = 0.0
    """Seconds from the actual starts to the answers, all added up."""
    service: Latency | None = None
    """From the actual start to the answer, errors included; None of the lightest fingerprints."""
    response: Latency | None = None
    """From the intended start to the answer; None at speed 0, where there is none."""


class Spent(StrEnum):
    """Where a session's time or a processor's goes: the parts of an account, as they are shown."""

    SERVER = "server code"
    """User mode of the server."""
    ENTRY = "kernel entry"
    """Entry and exit of system calls and interrupts: mitigations, audit, tracepoints, seccomp."""
    COPY = "copy"
    """Between the kernel and a process."""
    PAGE_CACHE = "page cache"
    """Look-ups, read-ahead, LRU lists, reclaim."""
    FILE_SYSTEM = "file system"
    """With VFS, iomap and direct I/O."""
    BLOCK = "block layer"
    """With the drivers of the devices and of what lies between: dm, md, loop."""
    SCHEDULER = "scheduler"
    """With futexes, wakeups, context switches and timers."""
    FAULTS = "page faults"
    """With page tables, anonymous memory and huge pages."""
    NETWORK = "network"
    """Sockets, as between server and client."""
    LOCKING = "kernel locks"
    """Spinning for the kernel's locks."""
    KERNEL = "other kernel"
    RUN_QUEUE = "run queue"
    """Runnable, and on no processor."""
    THROTTLED = "CPU quota"
    """Runnable, and kept from running as the quota of a cgroup was used up."""
    DEVICE = "device wait"
    """Waits for reads and writes of data."""
    LOG = "log flush"
    """Waits for the log to be durable."""
    LOCK = "lock wait"
    """Waits for rows, tables, buffers, other sessions."""
    CLIENT = "client"
    """The session waits for its client; of CPU seconds: user mode of the client."""
    OTHER = "other waits"


_RESIDUE = 0.1
"""The share of the sessions' time from which on a residue is told."""


class Account(Noun):
    """Where the time of one step's window went; all times are seconds per operation.

    Little's law closes it: the parts of `session` and `residue` add up to
    sessions * seconds / operations.
    """

    operation: str
    """What an operation is, singular: block, statement, MiB, row."""
    operations: float
    sessions: float
    """Under observation, on average."""
    seconds: float
    """Length of the window."""
    session: dict[Spent, float] = Field(default_factory=dict)
    """A session's time per operation."""
    residue: float = 0.0
    """What the parts leave of a session's time; negative where they are more than all of it."""
    unsure: float = 0.0
    """How far looks and traces are apart in how long the sessions slept, as share of their time:
    an error within that is in no residue."""
    cpu: dict[str, dict[Spent, float]] = Field(default_factory=dict)
    """`server`, `client` -> CPU seconds per operation; user mode is SERVER or CLIENT, the kernel is
    split by what it did if there is a profile, else all in KERNEL."""
    waits: dict[str, float] = Field(default_factory=dict)
    """Wait event in the server's words -> share of the sessions' time, the heaviest first."""
    samples: int = 0
    """Observations of a session that it rests on."""
    notes: tuple[str, ...] = ()
    """Sentences: what it could not know."""

    @property
    def residue_share(self) -> float:
        """Return the residue / the time of the sessions; 0 where there was none."""
        whole = self.sessions * self.seconds
        return self.residue * self.operations / whole if whole > 0 else 0.0

    @property
    def closes(self) -> bool:
        """Tell whether the residue is small enough not to be spoken of."""
        return abs(self.residue_share) <= _RESIDUE

    @property
    def rests_on_one(self) -> bool:
        """Tell whether it closes by the kernel's counters, which nothing else bears out."""
        return self.closes and self.unsure > _RESIDUE


PROFILED = ("server", "client", "kernel threads", "others", "replayer")
"""Whose a sample of a profile is; `client` are the processes that sent the operations, `replayer`
its main process and its other programs."""
KERNEL_FRAME = "_[k]"


class StackProfile(Noun):
    """What the processors executed in one window: folded call chains, as flame graphs have them.

    A stack is `class;mode;thread;root;...;leaf`: the class is one of PROFILED, the mode `user` or
    `kernel` by where the leaf is, `thread` the name of the thread, and functions of the kernel
    end in KERNEL_FRAME.
    """

    payload: str
    """Base64 of the zlib-compressed text."""
    samples: int
    """In the window, of processors that were not idle."""
    idle: int = 0
    """Samples of idle processors in the window, which are in no stack."""
    lost: int = 0
    """Samples that the kernel said were lost."""
    outside: int = 0
    """Samples that were recorded outside of the window, and dropped."""
    event: str
    """What was counted: cycles, or cpu-clock."""
    hertz: int
    """Samples a second and processor."""
    seconds: float
    """Length of the window."""
    truncated: str = ""
    """Why it is not whole; "" if it is."""

    @staticmethod
    def packed(stacks: Mapping[str, int]) -> str:
        """Return stacks -> samples as a payload, the same for the same stacks."""
        lines = "".join(f"{stack} {count}\n" for stack, count in sorted(stacks.items()))
        return base64.b64encode(zlib.compress(lines.encode(), 9)).decode("ascii")

    def stacks(self) -> dict[str, int]:
        """Return stack -> samples; ValueError if the payload is not one."""
        try:
            text = zlib.decompress(base64.b64decode(self.payload, validate=True)).decode()
        except (ValueError, zlib.error) as error:
            message = f"a profile's payload cannot be unpacked: {error}"
            raise ValueError(message) from error
        parts = (line.rpartition(" ") for line in text.splitlines())
        return {stack: int(count) for stack, _, count in parts}


class Outcome(Noun):
    """What a step found: whatever it measured, and the proof."""

    measurements: tuple[Measurement, ...] = ()
    cold: Cold | None = None
    ledger: Ledger | None = None
    foreign: Foreign | None = None
    series: Series | None = None
    latency: dict[str, Latency] = Field(default_factory=dict)
    tables: dict[str, tuple[dict[str, Any], ...]] = Field(default_factory=dict)
    """Rows of a table, e.g. `doublings`: one dict per row with the same keys."""
    printed: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Lines as the tool prints them whose job was done, for programs that look for them."""
    facts: dict[str, Fact] = Field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """Sentences for the report: what could not be done or proven, and what to do about it."""
    steady: Steadiness | None = None
    """Of the step's leading rate, where it has one."""
    reads: Reads | None = None
    """None where they did not come from the device, or not all alike."""
    writes: bool = False
    """Whether the step itself wrote to the storage."""
    replayed: tuple[Replayed, ...] = Field(default=(), exclude_if=lambda replayed: not replayed)
    """Of a replay, by fingerprint; () of every other step."""
    account: Account | None = Field(default=None, exclude_if=lambda account: account is None)
    """Where the time of its window went; None where nothing was watched."""
    profile: StackProfile | None = Field(default=None, exclude_if=lambda profile: profile is None)
    costs: dict[str, float] = Field(default_factory=dict, exclude_if=lambda costs: not costs)
    """Collector -> CPU seconds that it used while the step ran."""


class Status(StrEnum):
    """How a step or a run ended."""

    RUNNING = "running"
    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    PARTIAL = "partial"
    """A host that had a part in it was lost; what had been measured by then is there."""


class StepResult(Outcome):
    """One step of one repeat, with how it ended."""

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
    """The database that did the work: what it is and every setting that is not its default."""

    name: str
    version: str
    place: Literal["private", "url"]
    settings: dict[str, str]
    facts: dict[str, Fact] = Field(default_factory=dict)


class WorkloadFacts(Noun):
    """What was asked for, after every override."""

    name: str
    source: str
    digest: str
    repeat: int
    settings: dict[str, str]
    steps: tuple[dict[str, Any], ...]


class Advice(Noun):
    """What was found that touches the numbers, and what to do about it."""

    found: str
    todo: str = ""
    """"" where nothing can be done."""
    steps: tuple[str, ...] = Field(default=(), exclude_if=lambda names: not names)
    """Whose numbers it touches; () where it touches all of them."""

    def __str__(self) -> str:
        """Return both as one sentence."""
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
    """What somebody wrote about it, in their own words."""
    tags: dict[str, str] = Field(default_factory=dict, exclude_if=lambda tags: not tags)
    """What somebody calls it by; a fact `tag.NAME` for those who compare."""
    headline: tuple[Measurement, ...] = Field(default=(), exclude_if=lambda lines: not lines)
    """Of each step that was done the number that it is run for, the median of its repeats: what a
    list tells of a run, and so before its steps."""
    writer: str = Field(default="", exclude_if=lambda writer: not writer)
    """The process that writes it, as journal.identity has it; "" when nobody does any more."""
    resumed: tuple[str, ...] = Field(default=(), exclude_if=lambda stamps: not stamps)
    """When it was taken up again after it had been cut."""
    host: dict[str, Fact]
    engine: EngineFacts | None
    workload: WorkloadFacts
    steps: tuple[StepResult, ...] = ()
    advice: tuple[Advice, ...] = ()
    control: dict[str, tuple[float, ...]] = Field(default_factory=dict)
    """`cpu.before`, `memory.after`, …: short measurements around the run that no disk or database
    takes part in, one of each of `processes`, in calibration.py's units; if they moved, the machine
    changed meanwhile.  Without `processes` all are from one process, whose noise tells nothing."""
    cluster: dict[str, Fact] = Field(default_factory=dict, exclude_if=lambda cluster: not cluster)
    """`hosts`, the sorted names of those whose processes were the clients, and `database`, the host
    on which the run itself worked; {} where all was done on one."""
    sizing: dict[str, Any] | None = Field(default=None, exclude_if=lambda sizing: sizing is None)
    """Of `replayer size`: what was required, as sizing/record.py has it; None of other runs."""


class StepSpec(Noun):
    """The keys that every step of a workload file may have; each step's Spec adds its own."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    step: str
    name: str = ""
    """Told apart by it when a step is used twice; the step's own name if not given."""
    once: bool = False
    """Run in the first repeat only, e.g. the building of a table."""

    def lasts(self) -> float:
        """Return the seconds that its keys make it take at least; 0 if only the machine knows."""
        return 0.0

    @model_validator(mode="before")
    @classmethod
    def _lists(cls, table: Any) -> Any:
        """Take `8` for `[8]` and `"1,4"` for `["1", "4"]` where a key is a list."""
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
    """A workload file that was understood."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    name: str
    source: str
    description: str
    comment: str
    repeat: int = 1
    settings: dict[str, str] = Field(default_factory=dict)
    steps: tuple[StepSpec, ...]
