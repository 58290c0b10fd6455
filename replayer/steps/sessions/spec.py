"""The keys of the step `sessions`, and the sizes that follow from them and the block size."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from replayer import units
from replayer.engines.engine_spec import SessionsSpec
from replayer.load.arrivals import Arrivals
from replayer.load.mix import WeightedMix
from replayer.load.spec import check_scale, rows_of
from replayer.model import MemoryKind, ReadOrigin, StepSpec
from replayer.run.context import Context
from replayer.tables.pgio import TableSet

MIB = 1 << 20


def _not_given(value: object) -> bool:
    return value is None


class Spec(StepSpec):
    """The keys of the step `sessions`: pgio's names in lower case, and more."""

    num_schemas: int = Field(4, ge=1, le=8192)
    """Number of tables."""
    num_threads: int = Field(2, ge=1, le=4096)
    """Sessions for each table."""
    work_unit: int = Field(255, ge=1, le=1_000_000)
    """Keys, and so blocks, that one SELECT reads."""
    update_pct: int = Field(0, ge=0, le=100)
    """Share of the statements that are UPDATEs, in percent: exactly so many of every 100.  With a
    `rate`, each statement is drawn at random with this share."""
    update_work_unit: int = Field(8, ge=1, le=1_000_000)
    """Keys that one UPDATE changes."""
    scale: Annotated[str | int, AfterValidator(check_scale)] = "1G"
    """Size of each table: bytes with a unit such as 1G, or a bare number of blocks."""
    run_time: units.Duration = Field(120.0, gt=0)
    """Seconds that are measured."""
    rate: float | None = Field(None, gt=0, le=10_000_000, exclude_if=_not_given)
    """Statements a second over all sessions, each with an intended start that is never moved."""
    arrivals: Arrivals = Field("poisson", exclude_if=lambda value: value == "poisson")
    """When the statements of a `rate` arrive: at random (`poisson`), or evenly."""
    resolution: units.Duration = Field(0.0, ge=0, le=1, exclude_if=lambda value: not value)
    """Interval at which clients check which statements are due or answered: 0 is at once.  A
    wake-up for each statement costs more than the statement, so that 2ms halves the clients' CPU
    time; response times get longer by as much."""
    mix: WeightedMix | None = Field(None, exclude_if=_not_given)
    """Kinds of statements, as `point=70 range=10 update=15 insert=4 scan=1`: their weights, and
    `work_unit`, `update_rows`, `insert_bytes`, `hot=20%/80%` (rows / accesses), `cpu=2ms` (of the
    server, for each statement), `hit_ratio=0.97`.  Without it: SELECTs and UPDATEs as above."""
    operations: units.Count | None = Field(None, ge=1)
    """A fixed number of statements for each session, instead of a run time."""
    access: Literal["index", "planner"] = "index"
    """`index` forces an index scan; `planner` plans every statement anew, as pgio does."""
    seed: int = Field(1, ge=0, le=1 << 31)
    """The same seed makes the same tables, and draws the same keys."""
    memory: MemoryKind = "direct"
    """`cached` reads from the page cache; the others are ways to make reads reach the device. With
    `rate` or `mix` it only prepares the memory: the proof shows where the blocks came from."""
    shared_buffers: units.Size | None = Field(None, ge=128 << 10)
    """Bytes of the server's own cache; small by default."""
    memory_limit: units.Size | None = Field(None, ge=16 << 20)
    """Bytes of memory that a cgroup leaves to the server and its page cache."""
    keep: units.Size = Field(1 << 30, ge=64 << 20)
    """Bytes of memory that huge pages or ballast (locked memory) leave free."""

    @property
    def loads(self) -> bool:
        """Return whether clients send the statements, instead of a loop inside the server."""
        return self.rate is not None or self.mix is not None

    def lasts(self) -> float:
        """Return the run time in seconds; 0 if a number of operations is given instead."""
        return self.run_time if self.operations is None else 0.0

    @property
    def sessions(self) -> int:
        """Return the number of sessions."""
        return self.num_schemas * self.num_threads

    @property
    def asked(self) -> ReadOrigin:
        """Return the place that reads are to come from: the page cache, or the device.

        The key `memory` decides.
        """
        return ReadOrigin.CACHED if self.memory == "cached" else ReadOrigin.PHYSICAL

    def rows(self, block_size: int) -> int:
        """Return the number of rows of each table; a row fills one block of `block_size` bytes."""
        return rows_of(self.scale, block_size)

    def tables(self, block_size: int) -> TableSet:
        """Return the tables to read: their number, their rows, and the seed of their contents.

        A row fills one block of `block_size` bytes, so this size gives the rows of a table.
        """
        return TableSet(self.num_schemas, self.rows(block_size), self.seed)

    def bytes(self, block_size: int) -> int:
        """Return the bytes of all tables without their indexes; a block has `block_size` bytes."""
        return self.num_schemas * self.rows(block_size) * block_size

    def buffers(self, block_size: int, least: int = MIB) -> int:
        """Return the size of the server's own cache in bytes.

        Without the key `shared_buffers`, it is 1/16 of the tables, but at most 16 MiB and at least
        8 blocks for each session, because every session holds some of them.  It is never below
        `least` bytes, without which the server does not work.
        """
        if self.shared_buffers is not None:
            return max(least, self.shared_buffers)
        share = self.bytes(block_size) // 16
        return max(least, self.sessions * 8 * block_size, min(16 * MIB, share))

    def needs(self, memory_of: "ServerMemory") -> int:
        """Return the bytes of memory that the server needs: its cache, and memory of its processes.

        Each session adds some memory.  `memory_of` has the needs of the engine's server.
        """
        buffers = self.buffers(memory_of.block_size, memory_of.least_buffers)
        return buffers + memory_of.base + memory_of.per_session * self.sessions

    def limit(self, memory_of: "ServerMemory") -> int:
        """Return the memory limit of a cgroup in bytes.

        It is the key `memory_limit`; without that key it is `needs` plus 40 MiB.
        """
        return self.memory_limit or self.needs(memory_of) + 40 * MIB


@dataclass(frozen=True, slots=True)
class ServerMemory:
    """Memory that an engine's server needs, in bytes, as its engine.toml has it.

    `block_size` is the size of a database block, `least_buffers` the smallest cache with which the
    server works.  `base` is what its processes need without sessions, `per_session` what each
    session adds.
    """

    block_size: int
    least_buffers: int
    base: int
    per_session: int

    @classmethod
    def of(cls, context: Context) -> "ServerMemory":
        """Return the memory needs that the section [sessions] of the engine's engine.toml has."""
        keys = engine_keys(context)
        return cls(
            context.engine.block_size,
            keys.buffers.least if keys.buffers else MIB,
            keys.memory_base,
            keys.memory_per_session,
        )


def engine_keys(context: Context) -> SessionsSpec:
    """Return the section [sessions] of engine.toml: facts about the engine's server."""
    return context.engine.spec.sessions
