"""All warnings that replayer can give, each in one sentence, with a remedy.

Each public function with the one parameter `run` is a warning about a run; no registration is
needed.  It returns None if there is nothing to report.  Those about a machine are the functions of
`machine_warnings` with the parameter `facts`: `replayer check` calls them before a run, and `on`
after the run.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from replayer import assets
from replayer.analysis.advice import failure_remedies, machine_warnings
from replayer.analysis.advice.as_asked import executions, failures, unproven
from replayer.analysis.advice.machine_warnings import Facts, number_of
from replayer.analysis.advice.step_series import average, count_late, idle_percent, longest_gap
from replayer.analysis.capacity import client_hosts
from replayer.analysis.differences import samples
from replayer.engines import engine
from replayer.model import Advice, Cold, ReadOrigin, Run, Status, StepResult, Temperature
from replayer.units import show_size
from replayer.watch import calibration, interference

_MANY_REPEATS = 10
_FEW_REPEATS = 3
_FOREIGN_CPU = 0.05
"""Share of the time of all processors; a warning is given if other programs use more."""
_HELD_BACK = 0.05
"""Share of a CPU quota's periods; a warning is given if it was used up in more of them."""
_LIMIT_USED = 0.9
"""Share of a cgroup's limit of a disk; a warning is given if more of it was used."""
_LIMITED = {
    "read_iops": "reads per second",
    "write_iops": "writes per second",
    "read_bytes": "bytes read per second",
    "write_bytes": "bytes written per second",
}
"""Limit of a disk, named as in Foreign.disk_limits -> words for it."""
_FAILED = 0.01
"""Share of a replay's statements; a warning is given if more failed that had not in the source."""
LARGE_READ_AHEAD_KB = 1024


def on(run: Run) -> tuple[Advice, ...]:
    """Return all warnings about a finished run: first about its numbers, then about its machine."""
    advice = tuple(_given("run", run))
    return (*advice, *about(run.host)) if run.host else advice


def about(facts: Facts) -> tuple[Advice, ...]:
    """Return all warnings about a machine, from its facts."""
    return tuple(_given("facts", facts))


def every() -> tuple[Callable[[Any], Advice | None], ...]:
    """Return the functions that give warnings: first those about a run, then about a machine.

    The name of each is its anchor in docs/reference.md.
    """
    return (*_warnings("run"), *_warnings("facts"))


def _given(kind: str, about_what: Any) -> Iterator[Advice]:
    for warn in _warnings(kind):
        advice = warn(about_what)
        if advice is not None:
            yield advice.model_copy(update={"name": warn.__name__})


# The numbers of a run


def engine_notes(run: Run) -> Advice | None:
    """Report the notes in an engine's engine.toml, which apply to every number of that engine."""
    if run.engine is None or run.engine.name not in assets.engines():
        return None
    notes = engine.load(run.engine.name).spec.notes
    return Advice(found="; ".join(notes)) if notes else None


def coldness(run: Run) -> Advice | None:
    """Warn of steps that requested data outside of memory (cold) and did not get it."""
    warm = [
        step
        for step in _done(run)
        if step.cold
        and step.cold.asked is Temperature.COLD
        and step.cold.got is not Temperature.COLD
    ]
    if not warm:
        return None
    got = _listed(step.cold.got.value for step in warm if step.cold)
    ways = "; ".join(dict.fromkeys(_colder(step.cold) for step in warm if step.cold))
    return Advice(
        steps=_names(warm),
        found=f"{_steps(warm)} asked for cold data and got {got}, so that a part of it is the "
        f"speed of memory",
        todo=ways,
    )


def _colder(cold: Cold) -> str:
    """Return a remedy for data that was not cold, as an imperative.

    It is the one in the result, or a usual one for results of earlier versions.
    """
    if cold.todo:
        return cold.todo
    if "drop_caches" in cold.method:
        return "stop whatever else reads these files, or take a larger table"
    return "run as root, so that all caches can be dropped"


def verdict(run: Run) -> Advice | None:
    """Warn of sessions whose blocks came from another layer than the one that was requested."""
    wrong = [
        step
        for step in _done(run)
        if step.ledger
        and step.ledger.asked
        and step.ledger.verdict not in (step.ledger.asked, ReadOrigin.UNKNOWN)
    ]
    if not wrong:
        return None
    ways = []
    buffered = [
        step for step in wrong if step.ledger and step.ledger.verdict is ReadOrigin.BUFFERED
    ]
    if buffered:
        ways.append(
            "a run that never leaves the server's own buffers needs a larger scale or fewer "
            "buffers (shared_buffers)"
        )
    asked = {step.ledger.asked for step in wrong if step.ledger and step not in buffered}
    if ReadOrigin.PHYSICAL in asked:
        ways.append(
            'for physical reads use memory = "direct" (of sessions), or tables larger than memory'
        )
    if ReadOrigin.CACHED in asked:
        ways.append(
            "for cached reads make the tables smaller than the free memory (scale smaller, or "
            "fewer rows), and stop what drops the page cache"
        )
    return Advice(
        steps=_names(wrong),
        found=f"{_steps(wrong)}: the ledger shows other reads than asked for",
        todo="; ".join(ways),
    )


def uncounted(run: Run) -> Advice | None:
    """Warn of sessions whose device reads could not be counted."""
    blind = [
        step
        for step in _done(run)
        if step.ledger and step.ledger.asked and step.ledger.verdict is ReadOrigin.UNKNOWN
    ]
    if not blind:
        return None
    return Advice(
        steps=_names(blind),
        found=f"{_steps(blind)}: the device's reads could not be counted, so nothing proves where "
        f"the blocks came from",
        todo="run on the database's own machine, with its data on a local disk",
    )


def unproven_io(run: Run) -> Advice | None:
    """Warn of a probe's reads that no disk is proven to have served, and of writes to memory."""
    doubted = [step for step in _done(run) if unproven(step, run)]
    if not doubted:
        return None
    return Advice(
        steps=_names(doubted),
        found=f"{_steps(doubted)}: {unproven(doubted[0], run)}",
        todo="measure a folder on a local disk, and stop what else reads from that disk",
    )


def client_bound(run: Run) -> Advice | None:
    """Warn of client hosts with busy processors: they may have been the limit."""
    busy = [step for step in _done(run) if client_hosts.bound(step, run)]
    if not busy:
        return None
    hosts = _listed(host for step in busy for host in client_hosts.bound(step, run))
    return Advice(
        steps=_names(busy),
        found=f"{_steps(busy)}: client-bound, as more than {client_hosts.CLIENT_BOUND:.0%} of the "
        f"processor time of {hosts} was used",
        todo="give more client hosts, or larger ones",
    )


def bystander(run: Run) -> Advice | None:
    """Warn of a run that watched a host without the database and without its clients."""
    if not _bystander(run):
        return None
    return Advice(
        found="the database and its clients were on other hosts, so that host, device and "
        "processors in this result are those of one that had no part in it",
        todo="name the database's host with --watch",
    )


def _bystander(run: Run) -> bool:
    facts = run.engine.facts if run.engine is not None else {}
    elsewhere = "data.directory" in facts and facts["data.directory"] is None
    hosts = run.cluster.get("hosts")
    return elsewhere and isinstance(hosts, tuple) and run.host.get("host.name") not in hosts


def failed_here(run: Run) -> Advice | None:
    """Warn of a replay in which over 1 % of the statements failed, though not in the source."""
    failed = [step for step in _done(run) if sum(failures(step)) > _FAILED * executions(step)]
    if not failed:
        return None
    here, after = (sum(counts) for counts in zip(*map(failures, failed), strict=True))
    codes = _listed(code for step in failed for one in step.replayed for code in one.failed_here)
    return Advice(
        steps=_names(failed),
        found=f"{_steps(failed)}: {here:,} statements failed ({codes}) that had not in the source, "
        f"and {after:,} after them in their transactions",
        todo=failure_remedies.remedies(one for step in failed for one in step.replayed),
    )


def own_settings(run: Run) -> Advice | None:
    """Warn of a replay on a server that replayer started: its settings are not the user's."""
    replays = [step for step in _done(run) if step.replayed]
    if run.engine is None or run.engine.place != "private" or not replays:
        return None
    return Advice(
        steps=_names(replays),
        found=f"{_steps(replays)}: the server had replayer's own settings, not your target's",
        todo="replay on the target with --engine URL, or set what differs with --server-set",
    )


def small_tables(run: Run) -> Advice | None:
    """Warn of sessions that were to read from the device, but whose tables fit into memory."""
    memory = number_of(run.host.get("memory.bytes"))
    small = [
        step
        for step in _done(run)
        if step.ledger
        and step.ledger.asked is ReadOrigin.PHYSICAL
        and step.ledger.verdict
        not in (ReadOrigin.PHYSICAL, ReadOrigin.BUFFERED, ReadOrigin.UNKNOWN)
        and step.cold
        and 0 < (step.cold.file_bytes or 0) < memory
    ]
    if not small:
        return None
    size = max(step.cold.file_bytes or 0 for step in small if step.cold)
    return Advice(
        steps=_names(small),
        found=f"{_steps(small)}: the tables ({show_size(size)}) fit in the memory "
        f"({show_size(memory)}), which keeps them",
        todo='set scale higher, or memory = "direct"',
    )


def changed_limit(run: Run) -> Advice | None:
    """Warn of a memory limit that another program changed while a step relied on it."""
    changed = [step for step in _done(run) if "memory.changed" in step.facts]
    if not changed:
        return None
    return Advice(
        steps=_names(changed),
        found=f"{_steps(changed)}: another program changed the limit of memory: "
        f"{changed[0].facts['memory.changed']}",
        todo="run it again without that program",
    )


def repeats(run: Run) -> Advice | None:
    """Warn of too few repeats to distinguish a difference from noise."""
    counts = [
        sum(step.name == name for step in _measured(run))
        for name in {step.name for step in _measured(run)}
        if not any(step.spec.get("once") for step in run.steps if step.name == name)
    ]
    if not counts or min(counts) >= _MANY_REPEATS:
        return None
    if min(counts) < _FEW_REPEATS:
        many = "one repeat has" if min(counts) == 1 else f"{min(counts)} repeats have"
        return Advice(
            found=f"{many} no spread",
            todo=f"before comparing, run with --repeat {_MANY_REPEATS} or several times",
        )
    return Advice(
        found=f"{min(counts)} repeats show large differences only",
        todo=f"--repeat {_MANY_REPEATS} is better for comparing",
    )


def unsteady(run: Run) -> Advice | None:
    """Warn of sessions whose rate had not become steady."""
    watched = [(step.name, step.steady) for step in _done(run) if step.steady is not None]
    found = {
        "RIOPS had not settled": {
            name: rate.words for name, rate in watched if rate.settled is False
        },
        "whether RIOPS were steady is not known": {
            name: rate.words for name, rate in watched if rate.settled is None
        },
    }
    reports = [
        f"{what} ({'; '.join(f'{name} was {text}' for name, text in of.items())})"
        for what, of in found.items()
        if of
    ]
    if not reports:
        return None
    return Advice(
        steps=tuple(dict.fromkeys(name for of in found.values() for name in of)),
        found="; ".join(reports),
        todo="set run_time longer before comparing",
    )


def warming_up(run: Run) -> Advice | None:
    """Report the repeats that comparisons do not count, and the steps that never became steady."""
    reports: dict[str, list[str]] = {}
    for name in dict.fromkeys(step.name for step in run.steps):
        repeats_ = [step for step in _done(run) if step.name == name]
        for words in samples.unsettled(samples.settled(repeats_), len(repeats_)):
            reports.setdefault(words, []).append(name)
    sentence = "; ".join(f"{_listed(names)} {words}" for words, names in reports.items())
    return Advice(found=sentence) if sentence else None


def moved(run: Run) -> Advice | None:
    """Warn of a machine that became faster or slower during the run."""
    shares = [f"{name} {share:+.1%}" for name, share in calibration.moved(run.control).items()]
    if not shares:
        return None
    return Advice(
        found=f"the control, in which no disk or database takes part, moved by more than its own "
        f"noise from before to after the run ({_listed(shares)})",
        todo="the machine changed meanwhile (heat, neighbours), so run again when it is quiet",
    )


def swapping(run: Run) -> Advice | None:
    """Warn of swapping during a step: more than 50 KiB/s."""
    busy = [
        step for step in _done(run) if average(step, "vmstat.si") + average(step, "vmstat.so") > 50
    ]
    if not busy:
        return None
    return Advice(
        steps=_names(busy),
        found=f"{_steps(busy)}: the machine swapped meanwhile, which is device I/O of its own",
        todo="free memory, or run `swapoff -a`",
    )


def stolen(run: Run) -> Advice | None:
    """Warn of processor time that the hypervisor gave to other guests: more than 1 %."""
    robbed = [step for step in _done(run) if average(step, "cpu.%steal") > 1]
    if not robbed:
        return None
    most = max(average(step, "cpu.%steal") for step in robbed)
    return Advice(
        steps=_names(robbed),
        found=f"{_steps(robbed)}: the hypervisor gave up to {most:.0f} % of the processor time to "
        f"other guests",
        todo="repeat at a quieter time, or on a machine of its own",
    )


def held_back(run: Run) -> Advice | None:
    """Warn of a CPU quota that held back the server or replayer in over 5 % of its periods.

    The share is not known if the process came into the quota's cgroup during the window.
    """
    held = [
        (step, _named(whose), share)
        for step in _done(run)
        if step.foreign
        for whose, share in step.foreign.held_back.items()
        if share is None or share > _HELD_BACK
    ]
    if not held:
        return None
    words = [
        f"the CPU quota of a cgroup held back {whose} in {share:.0%} of its periods"
        if share is not None
        else f"{whose} came into a cgroup with a CPU quota meanwhile"
        for _, whose, share in held
    ]
    steps = [step for step, _, _ in held]
    return Advice(
        steps=_names(steps),
        found=f"{_steps(steps)}: {_listed(words)}",
        todo="raise the quota, or compare with an equal one",
    )


def _named(whose: str) -> str:
    return "the server" if whose == "server" else whose


def disk_limited(run: Run) -> Advice | None:
    """Warn of a cgroup's limit on I/O of the data's device of which more than 90 % was used.

    The share is not known if the limit was changed during the window.
    """
    used = [
        (step, limit, share)
        for step in _done(run)
        if step.foreign
        for limit, share in step.foreign.disk_limits.items()
        if share is None or share > _LIMIT_USED
    ]
    if not used:
        return None
    steps = [step for step, _, _ in used]
    words = [_limit_used(limit, share) for _, limit, share in used]
    return Advice(
        steps=_names(steps),
        found=f"{_steps(steps)}: {_listed(words)}",
        todo="raise the limit, or compare with an equal one: the device can do more",
    )


def _limit_used(limit: str, share: float | None) -> str:
    whose, what = limit.split(".")
    limited = f"the {_LIMITED[what]} that a cgroup allows {_named(whose)}"
    # Programs in other groups below the one with the limit may have used a part.
    if share is None:
        return f"{limited} were changed meanwhile"
    return f"{share:.0%} of {limited} were used"


def foreign_writes(run: Run) -> Advice | None:
    """Warn of writes to the device while a step only read: over 1 MB/s and 2 % of the reads."""
    written = [
        step
        for step in _done(run)
        if not step.writes
        and average(step, "diskstats.wkB/s") > max(1000.0, 0.02 * average(step, "diskstats.rkB/s"))
    ]
    if not written:
        return None
    most = max(average(step, "diskstats.wkB/s") for step in written) / 1000
    return Advice(
        steps=_names(written),
        found=f"{_steps(written)}: others wrote to the device as well, up to {most:.0f} MB/s",
        todo="find them with `pidstat -d 1` and stop them",
    )


def foreign_processes(run: Run) -> Advice | None:
    """Warn of other programs that used more than 5 % of the processors during a step."""
    busy = [step for step in _done(run) if _foreign_cpu(step) > _FOREIGN_CPU]
    if not busy or _bystander(run):
        return None
    worst = max(busy, key=_foreign_cpu)
    most = _foreign_cpu(worst)
    programs = ", ".join(worst.foreign.programs) if worst.foreign else ""
    return Advice(
        steps=_names(busy),
        found=f"{_steps(busy)}: other programs used up to {most:.0%} of the "
        f"processors meanwhile{f' ({programs})' if programs else ''}",
        todo="stop them (`pidstat -u 1`"
        f"{', as root, outside of containers' if interference.UNSEEN in programs else ''})",
    )


DISTURBING = (foreign_processes, foreign_writes)
"""The warnings about other programs: a run that has one is not fair to its side of a comparison."""


def _foreign_cpu(step: StepResult) -> float:
    return (step.foreign.cpu_share or 0.0) if step.foreign else 0.0


def stood_still(run: Run) -> Advice | None:
    """Warn of a long time without a sample in the measured window: 3 s and 3 usual intervals."""
    still = [step for step in _done(run) if longest_gap(step)]
    if not still:
        return None
    return Advice(
        steps=_names(still),
        found=f"{_steps(still)}: the clock went on for {max(map(longest_gap, still)):.1f} s in "
        f"which nothing was sampled: a paused virtual machine, halted processes, or far too much "
        f"other work",
        todo="repeat it",
    )


def late_samples(run: Run) -> Advice | None:
    """Warn of gaps in the time series: the machine was too busy to be sampled each second."""
    late = [step for step in _done(run) if count_late(step) and not longest_gap(step)]
    if not late:
        return None
    count = sum(count_late(step) for step in late)
    times = "once" if count == 1 else f"{count} times"
    return Advice(
        steps=_names(late),
        found=f"{_steps(late)}: the machine was too busy to be sampled each second, {times}",
        todo="those intervals are longer, and their rates are right",
    )


def processor_bound(run: Run) -> Advice | None:
    """Warn of reads from the device that were limited by the processors and not by the device."""
    bound = [
        step
        for step in _done(run)
        if step.ledger
        and step.ledger.verdict is ReadOrigin.PHYSICAL
        and (idle := idle_percent(step)) is not None
        and idle < 5
    ]
    if not bound:
        return None
    return Advice(
        steps=_names(bound),
        found=f"{_steps(bound)}: the processors were busy all the time, so RIOPS is their limit "
        f"and not the device's",
        todo="compare with `replayer run` with fewer sessions",
    )


def _read_ahead(run: Run, step: StepResult) -> tuple[Any, float]:
    """Return the name of the disk that a step read, and its read-ahead in KiB, 0 if not known.

    It is the disk of the data, unless the step's own facts name another one.
    """
    facts = step.facts if "device.name" in step.facts else run.host
    return facts.get("device.name"), number_of(facts.get("device.read_ahead_kb"))


def large_read_ahead(run: Run) -> Advice | None:
    """Warn of a read-ahead of 1 MiB or more: it decides the speed of cold sequential reads."""
    large = [
        (step, name, kb)
        for step in _done(run)
        if step.cold
        and step.cold.got in (Temperature.COLD, Temperature.LUKEWARM)
        and step.ledger is None
        and step.spec.get("mode") != "direct"
        for name, kb in [_read_ahead(run, step)]
        if kb >= LARGE_READ_AHEAD_KB
    ]
    if not large:
        return None
    disks = dict.fromkeys(f"read_ahead_kb of {name} is {kb:.0f}" for _, name, kb in large)
    return Advice(
        steps=_names(step for step, _, _ in large),
        found=f"{_steps([step for step, _, _ in large])}: {' and '.join(disks)}, which "
        f"decides cold reads",
        todo="give both machines the same",
    )


# Helpers with which warnings read a run


def _warnings(kind: str) -> Iterator[Callable[[Any], Advice | None]]:
    """Yield the functions that give warnings about a run or about the facts of a machine.

    `kind` is the name of their one parameter, `run` or `facts`.  They are in the order in which
    they are defined, here and in machine_warnings.
    """
    for name, warning in (*globals().items(), *vars(machine_warnings).items()):
        if (
            inspect.isfunction(warning)
            and warning.__module__ in {__name__, machine_warnings.__name__}
            and name not in ("on", "about", "every")
        ):
            parameters = list(inspect.signature(warning).parameters)
            if not name.startswith("_") and parameters == [kind]:
                yield warning


def _done(run: Run) -> list[StepResult]:
    return [step for step in run.steps if step.status is Status.DONE]


def _measured(run: Run) -> list[StepResult]:
    return [step for step in _done(run) if step.measurements]


def _steps(steps: Iterable[StepResult]) -> str:
    return _listed(_names(steps))


def _names(steps: Iterable[StepResult]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(step.name or step.step for step in steps))


def _listed(words: Any) -> str:
    return ", ".join(dict.fromkeys(words))
