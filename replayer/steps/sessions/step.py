"""Run sessions of the SLOB method, as in pgio: random reads of tables with one row per block.

Every session runs a loop inside the server, in slices of 1/4 to 2 seconds.  RIOPS are the blocks
that the server missed in its own buffers, per second of the server's clock.  The ledger shows how
many of them came from the page cache and how many from the device.

With `rate` or `mix`, clients send single statements instead.  They send them as fast as they are
answered, or each at an intended start that is never moved.  So a stall counts in the response time
of all statements that arrived meanwhile.
"""

from collections.abc import Callable, Mapping

from replayer.engines.connection import Database
from replayer.load import dataset, level
from replayer.load.dataset import serving
from replayer.model import Cold
from replayer.run.context import Context
from replayer.run.step_plugin import Footprint, IgnoredKey
from replayer.servers import protocol
from replayer.steps.sessions.feasibility import (
    check_numbers,
    files_of,
    instead_of_direct,
    larger_tables,
    no_direct_reads,
    possible_kind,
    refuse_large,
)
from replayer.steps.sessions.mixed import asked_of, measure_mix, mix_of, record_level
from replayer.steps.sessions.outcome import record
from replayer.steps.sessions.preparation import (
    bounded_memory,
    bring_to_temperature,
    displaced,
    out_of_memory_told,
    provide_tables,
    settings_of,
)
from replayer.steps.sessions.spec import Spec
from replayer.steps.sessions.window import SLICE, measure_window
from replayer.tables.pgio import TableSet

_IN_A_MIX = {
    "update_pct": "has no effect with mix: give the weight `update` in the mix",
    "work_unit": "has no effect with mix: give `work_unit` in the mix",
    "update_work_unit": "has no effect with mix: give `update_rows` in the mix",
}
"""Key that a mix replaces -> the rest of a sentence: it has no effect, and what to give."""


def uses_client_hosts(_spec: Spec) -> bool:
    """Return True: the sessions may be processes of other hosts, which are named by --clients."""
    return True


def describe(spec: Spec) -> str:
    """Return a sentence for users on what the step reads or sends, and what it measures."""
    if spec.loads:
        return "Single statements of clients, as an application sends them"
    if spec.memory == "cached":
        return "Random reads, data in memory: measures processor and kernel"
    return "Random reads, past the memory: measures the disk"


def explain_ignored_keys(spec: Spec) -> Mapping[str, IgnoredKey]:
    """Return key -> reason of each key that a load of clients, or its absence, leaves unused."""
    reasons: dict[str, IgnoredKey] = {}
    if spec.mix is not None:
        reasons |= {key: IgnoredKey(words, "mix") for key, words in _IN_A_MIX.items()}
    if spec.loads:
        reasons["operations"] = IgnoredKey("has no effect with rate or mix: give run_time")
    if spec.loads and spec.access == "planner":
        reasons["access"] = IgnoredKey(
            "= 'planner' has no effect with rate or mix, whose plans are made once: give index"
        )
    if spec.rate is None:
        words = "has no effect without rate, as each statement follows an answer: give rate"
        reasons |= {key: IgnoredKey(words) for key in ("arrivals", "resolution")}
    return reasons


def footprint(spec: Spec, block_size: int) -> Footprint:
    """Return the bytes of the tables on disk, and the part of them that stays in memory.

    All of it stays in memory if the key `memory` is `cached`, and nothing if it is not.
    `block_size` is the size of the database's blocks in bytes.
    """
    size = spec.bytes(block_size)
    return Footprint(spec.tables(block_size), size, size if spec.memory == "cached" else 0)


def check(spec: Spec, context: Context) -> None:
    """Raise Impossible if the step cannot run with these keys here; the message names other ways.

    On a server that is not replayer's own, it raises Skip instead: the other steps go on.  It also
    raises Skip if direct I/O is not possible, and no other way to physical reads can replace it.
    """
    _check_keys(spec, context)
    possible_kind(spec, context)


def _check_keys(spec: Spec, context: Context) -> None:
    # An engine that has no such sessions is no matter of numbers.
    if not spec.loads:
        context.engine.needs(SLICE)
    check_numbers(spec, context.engine.block_size)
    if spec.loads:
        level.check(asked_of(spec, spec.tables(context.engine.block_size)), context.engine)


def run(spec: Spec, context: Context) -> None:
    """Load missing tables, fill or drop the caches as the key `memory` asks, and measure.

    The results of the sessions are recorded in the findings of `context`.
    """
    _check_keys(spec, context)
    spec, instead = possible_kind(spec, context)
    wanted = spec.tables(context.engine.block_size)
    findings = context.findings
    findings.writes = mix_of(spec).writes
    # Load the tables before `serving` sets direct I/O, which would write block by block.
    provide = dataset.provide_tables if spec.loads else provide_tables
    findings.notes += provide(wanted, context)
    refused = no_direct_reads(wanted, context) if spec.memory == "direct" else ""
    if refused:
        spec, instead = instead_of_direct(refused, spec, context)
    settings = settings_of(spec, context)
    with serving(settings, context), context.database() as database:
        files = files_of(database, wanted, context)
        larger = larger_tables(database, wanted)
        refuse_large(spec, files, larger, context)
        findings.notes += larger
        with bounded_memory(spec, context) as taken:
            cold = bring_to_temperature(spec, files, context)
            with out_of_memory_told(taken):
                tell = _measured(spec, wanted, context, database, cold)
            findings.notes += displaced(spec, files, context)
        shown = {row["name"]: row["value"] for row in database.execute(protocol.SETTINGS)}
    tell()
    findings.facts |= {f"settings.{name}": shown[name] for name in settings if name in shown}
    findings.facts |= {
        "memory.kind": spec.memory,
        "block_size_bytes": context.engine.block_size,
    }
    if taken:
        findings.facts |= {"memory.bytes": taken.bytes, "memory.how": taken.how}
    # These notes come before all others.
    findings.notes[:0] = instead


def _measured(
    spec: Spec, wanted: TableSet, context: Context, database: Database, cold: Cold
) -> Callable[[], None]:
    """Run and measure the sessions, and return a function that records the results.

    Memory may be limited during the measurement, so the caller calls that function only after the
    limit is gone.  `wanted` are the tables, `cold` is the state of the caches at the start.
    """
    if spec.loads:
        reached = measure_mix(spec, wanted, context, database)
        return lambda: record_level(spec, context, reached, cold)
    window = measure_window(spec, wanted, context, database)
    return lambda: record(spec, context, window, cold)
