"""Facts of the environment, and the parts of an account of time that they are known to move.

A comparison lists such facts, if they differ between its sides, as `may explain`.
"""

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from replayer.analysis.differences.environment import Difference, Sort, step_setting
from replayer.model import Spent

KERNELS = frozenset(
    {
        *(Spent.ENTRY, Spent.COPY, Spent.PAGE_CACHE, Spent.FILE_SYSTEM, Spent.BLOCK),
        *(Spent.SCHEDULER, Spent.FAULTS, Spent.NETWORK, Spent.LOCKING, Spent.KERNEL),
    }
)
KERNEL = "kernel"
"""Name of the sum of the kernel's parts, used if some accounts have no profile to divide it."""
_SPEED = KERNELS | {Spent.SERVER} | {Spent.RUN_QUEUE, Spent.CLIENT}
_READS = frozenset({Spent.DEVICE, Spent.PAGE_CACHE, Spent.FILE_SYSTEM, Spent.BLOCK})
_QUEUE = frozenset({Spent.DEVICE, Spent.LOG, Spent.BLOCK, Spent.SCHEDULER})
_PAGES = frozenset({Spent.FAULTS, Spent.SERVER, Spent.COPY, Spent.PAGE_CACHE, Spent.KERNEL})
_PLACES = frozenset({Spent.RUN_QUEUE, Spent.SCHEDULER, Spent.LOCK, Spent.LOCKING, Spent.CLIENT})
_QUOTA = _PLACES | {Spent.THROTTLED}
_DURABLE = frozenset({Spent.LOG, Spent.DEVICE, Spent.LOCK, Spent.FILE_SYSTEM, Spent.BLOCK})
_FILES = frozenset({*_READS, Spent.LOG, Spent.KERNEL})
_MEMORY = frozenset({*_READS, Spent.COPY, Spent.FAULTS, Spent.SERVER, Spent.ENTRY})

# Mitigations of a processor also slow down indirect calls, and flush its caches.
_CAUSES: tuple[tuple[str, frozenset[Spent]], ...] = (
    ("host.kernel.mitigations.*", _SPEED),
    ("host.kernel.cmdline", frozenset(Spent)),
    ("host.kernel.preemption", _SPEED),
    ("host.kernel.clocksource", _SPEED),
    ("host.kernel.numa_balancing", _PAGES),
    ("host.cpu.governor", _SPEED),
    ("host.cpu.frequency_driver", _SPEED),
    ("host.cpu.boost", _SPEED),
    ("host.cpu.max_mhz", _SPEED),
    ("host.cpu.mhz", _SPEED),
    ("host.cpu.idle_driver", _SPEED | _QUEUE),
    ("host.cpu.model", _SPEED),
    ("host.cpu.microcode", _SPEED),
    ("host.cpu.smt", _SPEED | _PLACES),
    ("host.cpu.cores", _PLACES),
    ("host.cpu.threads", _PLACES),
    ("host.cpu.allowed", _PLACES),
    ("host.cgroup.cpu_limit", _QUOTA),
    ("host.cgroup.memory_limit_bytes", _MEMORY),
    ("host.memory.bytes", _MEMORY),
    ("host.memory.transparent_huge_pages*", _PAGES),
    ("host.memory.huge_page*", _PAGES),
    ("host.vm.*", _MEMORY | _DURABLE),
    ("host.device.scheduler", _QUEUE),
    ("host.device.nr_requests", _QUEUE),
    ("host.device.read_ahead_kb", _READS),
    ("host.device.*", _QUEUE | _READS),
    ("host.fs.*", _FILES),
    ("*.settings.synchronous_commit", _DURABLE),
    ("*.settings.*sync*", _DURABLE),
    ("*.settings.commit_*", _DURABLE),
    ("*.settings.full_page_writes", _DURABLE),
    ("*.settings.wal_*", _DURABLE),
    ("*.settings.innodb_flush_*", _DURABLE | _READS),
    ("*.settings.huge_pages", _PAGES),
    ("*.settings.shared_buffers", _MEMORY),
    ("*.settings.*buffer_pool*", _MEMORY),
    ("*.settings.*io_*", _READS | {Spent.ENTRY, Spent.SCHEDULER}),
)
"""(pattern of facts, parts of an account that they are known to move); the first match counts."""
_SERVERS = "engine.*"
"""Pattern of facts that have an effect on the server's work only."""
_SERVERS_SETTINGS = "engine.settings."
_WITHOUT_SERVER = frozenset({"walk", "probe"})
"""Kinds of steps that read and write files themselves, without the server."""


def may_explain(
    differences: Iterable[Difference], parts: Iterable[str], kind: str = "", step: str = ""
) -> tuple[Difference, ...]:
    """Return those `differences` of the environment that may have changed some parts of an account.

    `parts` are the names of the parts, such as `page cache`; without any, all parts are meant.
    `kind` is the kind of the step that has the account, such as `walk`.  `step` is its name:
    settings that other steps made are left out.  Facts by which the groups were formed are left
    out, as these are what the comparison is about.
    """
    named = set(parts)
    if KERNEL in named:
        named |= KERNELS
    return tuple(
        one
        for one in _in_effect(tuple(differences), step)
        if one.sort is Sort.EXPLAINS
        and (works := _works_on(one.key))
        and (not named or named & works)
        and not (kind in _WITHOUT_SERVER and _of_server(one.key))
    )


def _in_effect(differences: Sequence[Difference], step: str) -> Iterator[Difference]:
    """Yield those `differences` of the environment that were in effect in the step named `step`.

    The step's own settings replace the server's.  Settings that other steps made are left out.  If
    `step` is "", settings of all steps are kept, and a setting of the server is left out if any
    step has its own value of it.
    """
    own = {found for one in differences if (found := step_setting(one.key))}
    overridden = {name for of, name in own if step in {"", of}}
    for one in differences:
        found = step_setting(one.key)
        if found is None and one.key.removeprefix(_SERVERS_SETTINGS) in overridden:
            continue
        if found is None or step in {"", found[0]}:
            yield one


def _of_server(key: str) -> bool:
    return fnmatchcase(key, _SERVERS) or step_setting(key) is not None


def _works_on(key: str) -> frozenset[str]:
    return next((parts for fact, parts in _CAUSES if fnmatchcase(key, fact)), frozenset())
