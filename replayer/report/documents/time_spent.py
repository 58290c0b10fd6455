"""The uses of a step's time in one line of plain words, such as `60% CPU · 30% other waits`.

They are taken from the step's account, which divides the time of its sessions into parts.
"""

from collections.abc import Iterator

from replayer.analysis.attribution import flame
from replayer.model import Account, Spent, StackProfile, StepResult
from replayer.units import three

_WAITS = {
    Spent.RUN_QUEUE: "waiting for a processor",
    Spent.THROTTLED: "held back by a CPU quota",
    Spent.DEVICE: "waiting for the disk",
    Spent.LOG: "waiting for the log on disk",
    Spent.LOCK: "waiting for locks",
    Spent.CLIENT: "waiting for the client",
    Spent.OTHER: "other waits",
}
_USER = (Spent.SERVER, Spent.CLIENT)
_LEAST = 0.03
"""The smallest share that is named."""
_MOST = 3
_EXPLAINED = 0.1
"""The CPU time is broken down if it is at least this share of a step's time."""
_KERNEL = 0.4
"""The kernel's parts are named if they are at least this share of the CPU time."""
_FUNCTION = 0.15
"""The longest function is named if it has at least this share of the CPU samples."""
_LONGEST = 40
_FEW = 30
"""With fewer samples, no function is named, and the number of samples is mentioned."""


def sentence(result: StepResult) -> str:
    """Return one line with the largest shares of a step's time, the largest first.

    At most three shares are named, each of at least 3 percent.  If the waits were not observed, the
    line has the CPU time only, as a number of cores.  Returns "" if the step's time was not
    watched: then its `account` is None.
    """
    made = result.account
    if made is None:
        return ""
    whole = made.sessions * made.seconds
    if not made.session or not whole > 0:
        return _cores(made)
    scale = made.operations / whole
    waits = [(made.session.get(part, 0.0) * scale, words) for part, words in _WAITS.items()]
    cpu = sum(seconds for part, seconds in made.session.items() if part not in _WAITS) * scale
    shares = [(cpu, f"CPU{_busy(result, made) if cpu >= _EXPLAINED else ''}"), *waits]
    if not made.closes:
        words = "not explained" if made.residue_share > 0 else "counted twice"
        shares.append((abs(made.residue_share), words))
    named = sorted((pair for pair in shares if pair[0] >= _LEAST), key=lambda pair: -pair[0])
    few = [f"from {made.samples} samples only"] if made.samples < _FEW else []
    return " · ".join([*(f"{share:.0%} {words}" for share, words in named[:_MOST]), *few])


def _cores(made: Account) -> str:
    """Return the CPU time, as a number of cores, of a step whose waits were not observed."""
    seconds = sum(sum(spent.values()) for spent in made.cpu.values()) * made.operations
    return f"CPU of {three(seconds / made.seconds)} cores" if made.seconds > 0 and seconds else ""


def _busy(result: StepResult, made: Account) -> str:
    """Return words in parentheses on what used much of the CPU time: the kernel or a function.

    It is "" if neither the kernel nor a single function used enough of it.
    """
    words = [*_kernel(made), *_function(result.profile)]
    return f" ({words[0]})" if words else ""


def _kernel(made: Account) -> Iterator[str]:
    spent = made.cpu.get("server") or made.cpu.get("client") or {}
    kernel = {part: seconds for part, seconds in spent.items() if part not in _USER}
    total = sum(spent.values())
    if not total > 0 or sum(kernel.values()) < _KERNEL * total or len(kernel) < _FEW_PARTS:
        return
    first, second = sorted(kernel, key=lambda part: -kernel[part])[:_FEW_PARTS]
    share = sum(kernel.values()) / total
    yield f"{share:.0%} of that in the kernel: {first.value}, {second.value}"


_FEW_PARTS = 2


def _function(profile: StackProfile | None) -> Iterator[str]:
    if profile is None:
        return
    try:
        stacks = profile.stacks()
    except ValueError:
        return
    # Clients and other programs are left out if the server did the work.
    servers = {stack: count for stack, count in stacks.items() if stack.startswith("server;")}
    stacks = servers or stacks
    total = sum(stacks.values())
    if total < _FEW:
        return
    for one in flame.functions(stacks)[:1]:
        if one.seconds >= _FUNCTION * total and one.name != flame.UNKNOWN:
            yield f"{one.seconds / total:.0%} of that in {one.name[:_LONGEST]}"
