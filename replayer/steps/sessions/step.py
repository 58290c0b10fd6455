"""Sessions of the SLOB method, as pgio runs them: random reads of tables with one row per block.

Every session runs a loop inside the server, in slices of 1/4 to 2 seconds.  RIOPS are the blocks
that the server missed in its own buffers, per second of the server's clock; the ledger says how
many of them came from the page cache and how many from the device.

With `rate` or `mix` clients send single statements instead: as fast as they are answered, or each
at an intended start that is never moved, so that a stall is in the response time of all that came
meanwhile.
"""

from collections.abc import Callable

from replayer.engines.connection import Database
from replayer.load import dataset, level
from replayer.load.dataset import serving
from replayer.model import Cold
from replayer.run.context import Context
from replayer.run.step_plugin import Footprint
from replayer.servers import protocol
from replayer.steps.sessions.feasibility import (
    check_numbers,
    files_of,
    instead_of_direct,
    no_direct_reads,
    possible_kind,
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


def uses_client_hosts(_spec: Spec) -> bool:
    """Return that its sessions may be processes of other hosts."""
    return True


def footprint(spec: Spec, block_size: int) -> Footprint:
    """Return what the tables take, and how much of them a cached run keeps in memory."""
    size = spec.bytes(block_size)
    return Footprint(spec.tables(block_size), size, size if spec.memory == "cached" else 0)


def check(spec: Spec, context: Context) -> None:
    """Raise Impossible for what cannot be done here, naming the ways that remain.

    What somebody else's server does not allow is a Skip, and so is direct I/O where no other way to
    physical reads can take its place: the other steps go on.
    """
    check_numbers(spec, context.engine.block_size)
    if spec.loads:
        level.check(asked_of(spec, spec.tables(context.engine.block_size)), context.engine)
    else:
        context.engine.needs(SLICE)
    possible_kind(spec, context)


def run(spec: Spec, context: Context) -> None:
    """Load the tables if they are not there, bring memory into the state asked for, and measure."""
    check(spec, context)
    spec, instead = possible_kind(spec, context)
    wanted = spec.tables(context.engine.block_size)
    findings = context.findings
    findings.writes = mix_of(spec).writes
    # With the server's ordinary settings: direct I/O would write block by block.
    provide = dataset.provide_tables if spec.loads else provide_tables
    findings.notes += provide(wanted, context)
    refused = no_direct_reads(wanted, context) if spec.memory == "direct" else ""
    if refused:
        spec, instead = instead_of_direct(refused, spec, context)
    settings = settings_of(spec, context)
    with serving(settings, context), context.database() as database:
        files = files_of(database, wanted, context)
        with bounded_memory(spec, context) as taken:
            cold = bring_to_temperature(spec, files, context)
            with out_of_memory_told(taken):
                tell = _measured(spec, wanted, context, database, cold)
            findings.notes += displaced(spec, files)
        shown = {row["name"]: row["value"] for row in database.execute(protocol.SETTINGS)}
    tell()
    findings.facts |= {f"settings.{name}": shown[name] for name in settings if name in shown}
    findings.facts |= {
        "memory.kind": spec.memory,
        "block_size_bytes": context.engine.block_size,
    }
    if taken:
        findings.facts |= {"memory.bytes": taken.bytes, "memory.how": taken.how}
    # First of all that there is to say.
    findings.notes[:0] = instead


def _measured(
    spec: Spec, wanted: TableSet, context: Context, database: Database, cold: Cold
) -> Callable[[], None]:
    """Measure, and return what writes the result down, once the memory is given back."""
    if spec.loads:
        reached = measure_mix(spec, wanted, context, database)
        return lambda: record_level(spec, context, reached, cold)
    window = measure_window(spec, wanted, context, database)
    return lambda: record(spec, context, window, cold)
