"""Rows with the verdict on each need of a requirement: measured, predicted, or not tested.

A need is the required amount of one resource.  If arithmetic shows that the machine has too little
of it, nothing is measured.  A need is measured where the load used about as much as the profile
requires.  Where the load used less, the need is compared with a probe's result or with a fact of
the machine; that is a prediction.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

from replayer.load import cpu_burn, resources
from replayer.load.cpu_burn import CPU_METRIC, MEMORY_METRIC
from replayer.load.mix import WeightedMix
from replayer.model import Run, Status, StepResult
from replayer.sizing.findings import Loaded, ResourceRow
from replayer.sizing.record import Sizing
from replayer.sizing.requirement import Need
from replayer.sizing.target import Fit
from replayer.units import show_size

_ENOUGH = 0.9
"""Share of a need: a load that used at least so much of the resource has tested the need."""
_NEAR = 0.1
"""A trial counts as one at the required rate if its multiple is at most so far from 1."""
_SURELY = 0.8
"""Multiple of the requirement: a probe of some seconds that gave less refutes the need."""
_FASTER = 4.0
"""A core may do at most so many times the work of another: a larger ratio is not used."""
_WAKING_SECONDS = 250e-6
"""The most CPU that a statement costs because an idle server wakes up for it, its caches cold.  On
the machine where this was measured, a lookup by key cost 132 us at 400/s and 13 us at 60,000/s."""

_READS, _WRITES = "read", "write"
_ON_DEVICE = {
    # a need -> the operation of a probe, its column, the column of a trial, units of it in one
    "read_iops": (_READS, "iops", "reads_per_second", 1.0),
    "read_mbps": (_READS, "MB/s", "read_bytes_per_second", 1e6),
    "write_iops": (_WRITES, "iops", "writes_per_second", 1.0),
    "write_mbps": (_WRITES, "MB/s", "write_bytes_per_second", 1e6),
}
_RESOURCES = {"read_iops": resources.READS, "write_iops": resources.WRITES}
_BOTH = {"iops": ("read_iops", "write_iops"), "mbps": ("read_mbps", "write_mbps")}
_OF_A_FLUSH = {"write_iops": 3.0, "write_mbps": 3 * 8192 / 1e6}
"""A need -> the most of it that one flush of the log takes."""
_OF_THE_LOAD = frozenset({"transactions", "statements", "sessions_active"})
"""Needs that are the load's own rate."""
LOG_WRITES = "log-writes"
"""The probe that writes as a log is written: it shows nothing of writes to random places."""
AS_THERE = "as-there"
"""The end of the name of a probe whose requests are as large as the source's."""


@dataclass(frozen=True)
class _Known:
    """All that is known of a machine: its facts, the finished steps, and the result of the load."""

    sizing: Sizing
    steps: Sequence[StepResult]
    load: Loaded
    loaded: Mapping[str, ResourceRow]
    """Rows of the resources that the load needed, by resource."""

    @property
    def trials(self) -> Sequence[Mapping[str, Any]]:
        """Return the rows of the trials that count: those with which the machine kept up (held).

        If there are none, all trials count, except those that other programs disturbed (void).
        """
        tables = [step.tables.get("trials", ()) for step in self.steps if step.step == "capacity"]
        counted = tables[-1] if tables else ()
        rows: list[Mapping[str, Any]] = [row for row in counted if row["ended"] != "void"]
        return [row for row in rows if row["ended"] == "held"] or rows

    def had(self, column: str) -> float | None:
        """Return the load's use of a resource at the required rate; None if not known.

        `column` is a column of the table of trials, such as reads_per_second, and gives the unit.
        One statement costs less at a higher rate.  The use is therefore taken from trials at about
        the required rate, and from the hold, which keeps up that rate for longer.  If there are
        none, all trials count.
        """
        near = [row for row in self.trials if abs(float(row["multiple"]) - 1) <= _NEAR]
        shares: list[float] = []
        for rows_of_it in ((*self._hold, *near), self.trials):
            shares = shares or [
                _own(row, column) / float(row["throughput_per_second"])
                for row in rows_of_it
                if row.get(column) is not None and row.get("throughput_per_second")
            ]
        return median(shares) * self.sizing.rate if shares else None

    @property
    def _hold(self) -> Sequence[Mapping[str, Any]]:
        """Return the row of the hold, in which the required rate is kept up for longer, as a list.

        The list is empty if there was no hold, or if the machine did not keep up.
        """
        tables = [step.tables.get("hold", ()) for step in self.steps if step.step == "capacity"]
        return [row for row in (tables[-1] if tables else ()) if row.get("ended") == "held"]

    def probes(self, operation: str) -> list[Mapping[str, Any]]:
        """Return the rows of the device's probes for an operation, `read` or `write`.

        If there are probes with requests as large as the source's, only their rows are returned.
        Probes that write as a log is written are left out.
        """
        known = [
            (step.name, row)
            for step in self.steps
            if step.step == "probe" and step.status is Status.DONE
            for row in step.tables.get("io", ())
            if row.get("operation") == operation and step.name != LOG_WRITES
        ]
        as_there: list[Mapping[str, Any]] = [row for name, row in known if name.endswith(AS_THERE)]
        return as_there or [row for _, row in known]


def _own(trial: Mapping[str, Any], column: str) -> float:
    """Return a trial's value in a `column`, without the share of reads by other programs."""
    others = trial.get("others_read_share") if column.startswith("read") else None
    return float(trial[column]) * (1 - float(others or 0.0))


def rows(
    sizing: Sizing, run: Run | None, load: Loaded, loaded: Sequence[ResourceRow] = ()
) -> Iterator[ResourceRow]:
    """Yield a row with the verdict for each need, from the steps that have ended in a run so far.

    `load` is the result of the search for the highest rate; `loaded` has the rows of the resources
    that this load used.  A need that was not tested has no row if a known limit of the target is
    about the same resource.
    """
    steps = run.steps if run is not None else ()
    known = _Known(sizing, steps, load, {row.resource: row for row in loaded})
    limited = {judgement.resource for judgement in sizing.judgements if judgement.required}
    for need in sizing.requirement.needs:
        if need.required > 0:
            made = _row(need, known)
            # A known limit is more useful than a row without a result.
            if made.fit is not Fit.NOT_TESTED or need.name not in limited:
                yield made


def refuted(sizing: Sizing, run: Run | None, load: Loaded) -> list[ResourceRow]:
    """Return a row for each need that the machine cannot meet, as arithmetic or probes show.

    `run` is None before the sizing's run.  `load` is the result of the load so far.
    """
    return [
        row
        for row in rows(sizing, run, load)
        if row.fit is Fit.DOES_NOT_FIT and row.kind in {"arithmetic", "probe"}
    ]


def _row(need: Need, known: _Known) -> ResourceRow:
    if need.name in {"cpu", "server_cpu"}:
        return _cpu(need, known)
    if need.name in _ON_DEVICE:
        return _on_device(need, known)
    special: Mapping[str, Callable[[Need, _Known], ResourceRow]] = {
        **dict.fromkeys(_BOTH, _both),
        **dict.fromkeys(_OF_THE_LOAD, _of_the_load),
        "wal_syncs": _flushes,
        "wal": _log,
        "memory": _memory,
        "database": _room,
    }
    if need.name in special:
        return special[need.name](need, known)
    return _not_tested(need, "no load and no probe has it")


def _made(  # noqa: PLR0917 - what a row has
    need: Need,
    kind: Literal["load", "probe", "arithmetic", "none"],
    fit: Fit,
    multiple: float | None,
    here: float | None,
    proof: str,
    title: str = "",
) -> ResourceRow:
    return ResourceRow(
        resource=title or (f"{need.title}, MB" if need.unit == "MB/s" else need.title),
        unit=need.unit,
        required=need.required,
        here=here,
        multiple=multiple,
        low=None,
        high=None,
        fit=fit,
        proof=proof,
        kind=kind,
        decides=True,
        need=need.name,
    )


def _not_tested(need: Need, why: str) -> ResourceRow:
    return _made(need, "none", Fit.NOT_TESTED, None, None, why)


def _held_against(  # noqa: PLR0917 - what is held against what
    need: Need,
    kind: Literal["probe", "arithmetic"],
    here: float,
    short: Fit,
    proof: str,
    required: float | None = None,
) -> ResourceRow:
    """Return a row that compares a need with `here`, the amount that the machine has, in its unit.

    `kind` and `proof` are the evidence.  `short` is the verdict if the amount is too small, but a
    probe that gives at least 80 percent of the need makes it unclear.  `required` replaces the
    amount of the need if it is not None.
    """
    multiple = here / (required or need.required)
    sure = 1.0 if kind == "arithmetic" else _SURELY
    fit = Fit.FITS if multiple >= 1 else short if multiple < sure else Fit.UNCLEAR
    return _made(need, kind, fit, multiple, here, proof)


def _measured(need: Need, known: _Known, proof: str, resource: str = "") -> ResourceRow:
    """Return the row of a need that was tested: the load used about as much as is required.

    If the load's result has a row for `resource`, it is that row.  Otherwise the row has the
    verdict of the load as a whole, and `proof` is its evidence in words.
    """
    load, row = known.load, known.loaded.get(resource)
    if row is None or row.multiple is None:
        multiple = load.multiple
        rate = need.unit == "1/s" and multiple is not None
        here = multiple * need.required if rate and multiple is not None else None
        made = _made(need, "load", load.fit, multiple, here, proof)
        return made.model_copy(update={"low": load.low, "high": load.high})
    fit = row.fit if row.fit is Fit.FITS else load.fit
    return row.model_copy(update={"fit": fit, "decides": True, "need": need.name})


# Processors


def _cpu(need: Need, known: _Known) -> ResourceRow:
    sizing = known.sizing
    if need.name == "cpu" and sizing.requirement.need("server_cpu") is not None:
        return _not_tested(need, "the server's share of it is a need of its own")
    required, carried = _carried(need, known)
    had = known.had("server_cores")
    tested = had is not None and had >= _ENOUGH * required
    if sizing.cores is not None:
        here = _held_against(
            need, "arithmetic", sizing.cores, Fit.DOES_NOT_FIT,
            f"processors that a process may use{carried}", required,
        )  # fmt: skip
        if here.fit is Fit.DOES_NOT_FIT and _without_waking(required, known) <= sizing.cores:
            words = f"{here.proof}; {_IDLE}"
            here = here.model_copy(update={"fit": Fit.UNCLEAR, "proof": words})
        if here.fit is Fit.DOES_NOT_FIT or not tested:
            return here
        quota = resources.QUOTA if resources.QUOTA in known.loaded else resources.MACHINE
        return _measured(need, known, "burnt under the load", quota)
    return _cpu_elsewhere(need, known, required)


def _cpu_elsewhere(need: Need, known: _Known, required: float) -> ResourceRow:
    """Return the row for CPU if the server is at a URL: only the load can show its processors.

    `required` is the number of required cores.
    """
    if not known.trials or not known.sizing.requirement.work.cpu_cores:
        return _not_tested(need, "the server's processors cannot be seen from here")
    had = known.had("server_cores")
    if had is not None and had < _ENOUGH * required:
        words = f"the load burnt {had:.3g} cores of them at the required rate"
        cores = _cores_there(known)
        if cores is not None:
            words = f"processors that the server may use; {words}"
            return _held_against(need, "arithmetic", cores, Fit.UNCLEAR, words, required)
        return _made(need, "load", Fit.UNCLEAR, None, None, words)
    return _measured(need, known, "burnt in the statements of the load", resources.QUOTA)


def _cores_there(known: _Known) -> float | None:
    """Return how many processors a server at a URL may use; None if the load did not show them."""
    most = [
        row.here
        for name in (resources.QUOTA, resources.MACHINE)
        if (row := known.loaded.get(name)) is not None and row.here
    ]
    clients = known.had("client_cores") or 0.0
    return max(0.0, min(most) - clients) if most else None


_IDLE = "short statements cost more at an idle source: profile it while it is busy"


def _without_waking(required: float, known: _Known) -> float:
    """Return how many of the `required` cores are needed if statements follow without a gap.

    A server that waits wakes up for each statement, and the profile contains the CPU for that.  The
    busier the source's processors are, the less CPU goes into waking up.
    """
    wanted = known.sizing.requirement
    cpu = wanted.need("server_cpu") or wanted.need("cpu")
    busy = cpu.measured / wanted.cores if cpu is not None and wanted.cores else 0.0
    return required - known.sizing.rate * _WAKING_SECONDS * max(0.0, 1 - busy)


def _carried(need: Need, known: _Known) -> tuple[float, str]:
    """Return (number of cores of this machine that are required, words on their conversion).

    The source's cores are converted by the speeds that probes measured on both machines.  If the
    source has no such speeds, the number stays the same, and the words are "".  If they cannot be
    compared, a core of this machine is assumed to do `_FASTER` times the work.
    """
    speeds = known.sizing.requirement.probes
    there = (speeds.get(CPU_METRIC), speeds.get(MEMORY_METRIC))
    if not any(there):
        return need.required, ""
    mix = WeightedMix(point=1, cpu=need.required, cpu_speed=there[0], memory_speed=there[1])
    here, words = cpu_burn.cpu_here(mix, known.steps)
    if not words or "not carried" in words:
        # A core here may do at most _FASTER times the work of one there.
        return need.required / _FASTER, f", if one did {_FASTER:g} times as much as there"
    return here, f", of which {here:.3g} cores do what {need.required:.3g} did there"


# The device


def _on_device(need: Need, known: _Known) -> ResourceRow:
    operation, _, used, units = _ON_DEVICE[need.name]
    had = known.had(used)
    resource = _RESOURCES.get(need.name, "")
    if had is not None and had >= _ENOUGH * need.required * units:
        return _measured(need, known, "under the load", resource)
    probes = known.probes(operation)
    if not probes:
        if not known.steps:
            return _not_tested(need, "no probe was run, and no load was put on the database")
        if operation == _READS and _absorbed(known) and known.trials:
            return _measured(need, known, _IN_MEMORY)
        return _not_tested(need, "the load had less of it, and no probe was run")
    return _probed(need, known, probes)


def _probed(need: Need, known: _Known, probes: Sequence[Mapping[str, Any]]) -> ResourceRow:
    """Return a row that compares a need with `probes`, rows of results of the device's probes.

    It is for a need of which the load used less than is required.
    """
    operation, column, _, _ = _ON_DEVICE[need.name]
    # Of several request sizes, the largest has the most bytes, and the smallest the most requests.
    best = max(probes, key=lambda row: float(row[column]))
    supply, shared = float(best[column]), _shared(need, known)
    if supply < need.required and _shared_them(need, known):
        return _not_tested(need, _SHARED_FLUSHES)
    short = Fit.UNCLEAR if supply >= _SURELY * (need.required - shared) else Fit.DOES_NOT_FIT
    # The interpreter's part limited such a probe; the database has none.
    if best.get("limit") and best.get("loop") != "compiled":
        short = Fit.UNCLEAR
    if operation == _READS and _larger_memory(known):
        short = Fit.UNCLEAR
        if _absorbed(known) and known.trials and supply < need.required:
            return _measured(need, known, _IN_MEMORY)
    proof = f"probe of {show_size(best['block_bytes'])} at depth {best['depth']}"
    return _held_against(need, "probe", supply, short, proof)


def _shared(need: Need, known: _Known) -> float:
    """Return the amount by which a need shrinks at most if commits share flushes of the log.

    For each flush, a block of the log is written, and blocks of the file system's journal.  The
    amount is in the need's unit; it is 0 for a need that flushes do not change.
    """
    flushes = known.sizing.requirement.need("wal_syncs")
    if flushes is None or need.name not in _OF_A_FLUSH:
        return 0.0
    return flushes.required * _OF_A_FLUSH[need.name]


_SHARED_FLUSHES = "the load had as many commits, and fewer writes: those that wait share a flush"


def _shared_them(need: Need, known: _Known) -> bool:
    """Return whether the load wrote less than is required only because commits shared flushes.

    It is True if the load fits, made as many commits as required with fewer flushes, and the saved
    flushes would have written the missing amount.  If it had as many flushes as required, something
    else was not written.
    """
    requirement = known.sizing.requirement
    flushes, work = requirement.need("wal_syncs"), requirement.work
    _, _, used, units = _ON_DEVICE[need.name]
    had, flushed = known.had(used), known.had("flushes_per_second")
    if known.load.fit is not Fit.FITS or flushes is None or had is None or flushed is None:
        return False
    saved = max(0.0, flushes.required - flushed) * _OF_A_FLUSH.get(need.name, 0.0)
    commits = requirement.factor * (work.update + work.insert)
    enough = had / units + saved >= _ENOUGH * need.required
    return enough and commits >= _ENOUGH * flushes.required


_IN_MEMORY = "what is in use was read from memory, which is larger than at the source"


def _larger_memory(known: _Known) -> bool:
    """Return whether data that the source read from its device may be in this machine's memory.

    It is True if the load's data fits into memory, and if this machine has more memory than the
    source, or one of the two amounts is not known.
    """
    there, here = known.sizing.requirement.memory_bytes, known.sizing.memory_bytes
    return known.sizing.in_memory and (there is None or here is None or here > there)


def _absorbed(known: _Known) -> bool:
    """Return whether the load showed that the data in use is found in this machine's memory."""
    return _larger_memory(known) and known.sizing.requirement.working_set_bytes is not None


def _both(need: Need, known: _Known) -> ResourceRow:
    """Return a row of reads and writes together, which take turns at one device.

    r and w are required of reads and writes; R and W are what the device can do of each alone.  A
    share r / R of the time goes to reads, and a share w / W to writes.  The device therefore allows
    1 / (r / R + w / W) times what is required.
    """
    parts = []
    for name in _BOTH[need.name]:
        one = known.sizing.requirement.need(name)
        if one is not None and one.required > 0:
            parts.append(_row(one, known))
    kinds = {part.kind for part in parts}
    # A part that the load measured has the load's multiple, which another resource may limit: where
    # the load did not hold, that is no arithmetic of the device.
    if kinds == {"load"} or ("load" in kinds and known.load.fit is not Fit.FITS):
        return _measured(need, known, "under the load")
    if not parts or any(part.fit is Fit.NOT_TESTED or not part.multiple for part in parts):
        return _not_tested(need, "reads or writes alone are not known")
    multiple = 1 / sum(1 / part.multiple for part in parts if part.multiple)
    worst = max(parts, key=lambda part: part.fit is not Fit.FITS).fit
    fit = worst if worst is not Fit.FITS else Fit.FITS if multiple >= 1 else Fit.UNCLEAR
    return _made(
        need, "probe", fit, multiple, multiple * need.required,
        "reads and writes, each by itself, that take turns",
    )  # fmt: skip


# The log


def _flushes(need: Need, known: _Known) -> ResourceRow:
    had = known.had("flushes_per_second")
    if had is not None and had >= _ENOUGH * need.required:
        return _measured(need, known, "flushes under the load")
    work, factor = known.sizing.requirement.work, known.sizing.requirement.factor
    if known.trials and factor * (work.update + work.insert) >= _ENOUGH * need.required:
        return _measured(need, known, "as many commits under the load, of which some shared one")
    for step in known.steps:
        for row in step.tables.get("pg_fsync", ()) if step.status is Status.DONE else ():
            here = 1e6 / float(row["usecs_per_op"])
            proof = "probe of flushes, one after the other"
            # Several commits share one flush where flushes are slow.
            return _held_against(need, "probe", here, Fit.UNCLEAR, proof)
    return _not_tested(need, "the load had fewer, and no probe was run")


def _log(need: Need, known: _Known) -> ResourceRow:
    had = known.had("write_bytes_per_second")
    if had is not None and had >= _ENOUGH * need.required * 1e6:
        return _measured(need, known, "bytes written under the load")
    done = [step for step in known.steps if step.name == LOG_WRITES and step.status is Status.DONE]
    probes = [row for step in done for row in step.tables.get("io", ())] or known.probes(_WRITES)
    if not probes:
        return _not_tested(need, "no probe of writes was run")
    here = max(float(row["MB/s"]) for row in probes)
    return _held_against(need, "probe", here, Fit.UNCLEAR, "bytes that a probe of writes had")


# Needs without a load, and needs that are the load


def _of_the_load(need: Need, known: _Known) -> ResourceRow:
    if not known.trials:
        return _not_tested(need, "no load was put on the database")
    return _measured(need, known, "the load's own rate")


def _memory(need: Need, known: _Known) -> ResourceRow:
    here = known.sizing.memory_bytes
    if here is None:
        return _not_tested(need, "the memory of the server's machine cannot be seen from here")
    enough = known.sizing.requirement.working_set_bytes is not None and known.trials
    if here < need.required and enough:
        made = _measured(need, known, "less than at the source, and the load's data were as much")
        return made.model_copy(
            update={"here": float(here), "multiple": here / need.required, "low": None,
                    "high": None}
        )  # fmt: skip
    return _held_against(need, "arithmetic", float(here), Fit.UNCLEAR, "of this machine")


def _room(need: Need, known: _Known) -> ResourceRow:
    here = known.sizing.free_bytes
    if here is None:
        return _not_tested(need, "the disk of the server's machine cannot be seen from here")
    made = _held_against(
        need, "arithmetic", float(here), Fit.DOES_NOT_FIT, "free on the data's disk"
    )
    return made.model_copy(update={"resource": "room for all data"})
