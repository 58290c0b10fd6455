"""The parts of a report about a step's window: the account of its time, and the CPU profile."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import median_low
from typing import Any, NamedTuple

from replayer.analysis.attribution import flame
from replayer.model import Account, Spent, StackProfile, StepResult
from replayer.report.document import Facts, Part, Table, Texts
from replayer.report.sanitize import sanitize
from replayer.run.display import Sentence, Tone
from replayer.units import show_count, show_duration, three

_CPU = frozenset(
    {
        *(Spent.SERVER, Spent.ENTRY, Spent.COPY, Spent.PAGE_CACHE, Spent.FILE_SYSTEM, Spent.BLOCK),
        *(Spent.SCHEDULER, Spent.FAULTS, Spent.NETWORK, Spent.LOCKING, Spent.KERNEL),
    }
)
"""The parts of an account that are time on a processor; a session waits in all other parts."""
_USER = (Spent.SERVER, Spent.CLIENT)
_FUNCTIONS = 20
_WAITS = 8
LATENCY = "block_latency.seconds"
"""The name of the table of the collector block_latency; one line next to the account shows it."""
_LEAST = 0.0005
"""The smallest share that is shown, from 0 to 1."""
_SHOWN = 0.005
"""The smallest number of sessions that is shown: less would be printed as 0.00."""
_LONGEST = 20


class Scale(NamedTuple):
    """A unit of time."""

    seconds: float
    name: str


_SCALES = (Scale(1.0, "s"), Scale(1e-3, "ms"), Scale(1e-6, "µs"), Scale(1e-9, "ns"))


def parts(result: StepResult) -> Iterator[Part]:
    """Yield the account, CPU profile and collectors' costs of a step, as far as it has them."""
    if result.account is not None:
        yield from _account(result.account)
    if result.profile is not None:
        yield from _functions(result.profile)
    for label, texts in (
        ("device, bpftrace", [*_device(result.tables.get(LATENCY, ()))]),
        ("watching cost", [*_costs(result)]),
    ):
        yield Facts([(label, Texts(texts))] if texts else [])
    if result.account is not None:
        for note in result.account.notes:
            yield Sentence(f"note: {note}", Tone.UNCLEAR)


def _device(seconds: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield, for each kind of request, a text with p50 and p99 of the device's times.

    `seconds` are rows of the table of block_latency.
    """
    for kind in dict.fromkeys(str(row["kind"]) for row in seconds):
        requests: Counter[int] = Counter()
        for row in seconds:
            if row["kind"] == kind:
                buckets = (part.partition(":") for part in str(row["histogram"]).split())
                requests.update({int(low): int(count) for low, _, count in buckets})
        times = "   ".join(
            f"p{share:g} <= {show_duration(_bucket_end(requests, share / 100) / 1e6)}"
            for share in (50, 99)
        )
        yield f"{kind} {times}   of {show_count(requests.total())} timed"


def _bucket_end(requests: Mapping[int, int], share: float) -> int:
    """Return the end of the histogram bucket in which that share of the requests is reached.

    A bucket ends at twice its beginning; `requests` has the beginning of each bucket -> count.
    """
    left = share * sum(requests.values())
    for low in sorted(requests):
        left -= requests[low]
        if left <= 0:
            break
    return max(1, 2 * low)


def middle(results: Sequence[StepResult]) -> StepResult | None:
    """Return the repeat with the median time per operation; None if no repeat has an account."""
    known = [one for one in results if one.account is not None and one.account.operations > 0]
    if not known:
        return None
    times = [whole(one.account) for one in known if one.account is not None]
    return known[times.index(median_low(times))]


def whole(account: Account) -> float:
    """Return the time of all sessions per operation, in seconds; 0 if there was no operation."""
    if not account.operations > 0:
        return 0.0
    return account.sessions * account.seconds / account.operations


def _account(account: Account) -> Iterator[Part]:
    yield Sentence(_title(account), Tone.QUIET)
    operation = sanitize(account.operation)[:_LONGEST]
    scale = scaled(whole(account) or sum(sum(spent.values()) for spent in account.cpu.values()))
    rows = (
        ("sessions", Texts([*_little(account)] if account.session else [], " ")),
        (f"CPU a {operation}", Texts([*_cpu(account, scale)])),
        ("server's kernel", Texts([*_kernel(account, scale)])),
        ("waits", Texts([*_waits(account.waits)])),
    )
    yield Facts([(label, shown) for label, shown in rows if shown.texts])


def _title(account: Account) -> str:
    over = f"over {show_duration(account.seconds)}"
    if not account.session:
        return f"where the time went, {over}"
    return (
        f"where the time went: {show_duration(whole(account))} of a session's time a "
        f"{account.operation}, {over}, by {show_count(account.samples)} observations"
    )


def scaled(seconds: float) -> Scale:
    """Return the largest unit, s to ns, in which that many seconds are 1 or more."""
    return next((scale for scale in _SCALES if seconds >= scale.seconds), _SCALES[-1])


def _little(account: Account) -> Iterator[str]:
    """Yield the terms of Little's law: sessions = sum of the average number in each part."""
    scale = account.operations / account.seconds if account.seconds > 0 else 0.0
    on_processor = sum(account.session.get(part, 0.0) for part in _CPU)
    yield f"{three(account.sessions)} ="
    sign = ""
    for name, seconds in (
        ("CPU", on_processor),
        *((part.value, account.session.get(part, 0.0)) for part in Spent if part not in _CPU),
    ):
        if seconds * scale >= _SHOWN:
            yield f"{sign}{name} {seconds * scale:.2f}"
            sign = "+ "
    residue = account.residue * scale
    share = f"{abs(account.residue_share):.1%}"
    yield f"{'-' if residue < 0 else '+'} residue {abs(residue):.2f} ({share})"


def _cpu(account: Account, scale: Scale) -> Iterator[str]:
    """Yield the CPU time per operation of server and client: total, user mode and kernel."""
    for whose, spent in account.cpu.items():
        kernel = sum(seconds for part, seconds in spent.items() if part not in _USER)
        everything, user = sum(spent.values()), sum(spent.values()) - kernel
        shown = [f"{seconds / scale.seconds:.2f}" for seconds in (everything, user, kernel)]
        yield f"{whose} {shown[0]} {scale.name} (user {shown[1]}, kernel {shown[2]})"


def _kernel(account: Account, scale: Scale) -> Iterator[str]:
    """Yield the parts of the server's kernel time, longest first; nothing for a single part."""
    spent = account.cpu.get("server", {})
    kernel = {part: seconds for part, seconds in spent.items() if part not in _USER}
    if len(kernel) < 2:
        return
    for part, seconds in sorted(kernel.items(), key=lambda item: -item[1]):
        if seconds >= _LEAST * sum(spent.values()):
            yield f"{part.value} {seconds / scale.seconds:.2f}"


def _waits(waits: Mapping[str, float]) -> Iterator[str]:
    """Yield the longest waits as shares of the sessions' time, then the sum of all other waits."""
    ordered = sorted(waits.items(), key=lambda item: -item[1])
    for name, share in ordered[:_WAITS]:
        if share >= _LEAST:
            yield f"{name} {share:.1%}"
    rest = sum(share for _, share in ordered[_WAITS:])
    if rest >= _LEAST:
        yield f"{len(ordered) - _WAITS} others {rest:.1%}"


def _functions(profile: StackProfile) -> Iterator[Part]:
    try:
        stacks = profile.stacks()
    except ValueError as error:
        yield Sentence(f"the profile cannot be read: {error}", Tone.UNCLEAR)
        return
    if not stacks:
        return
    total = sum(stacks.values())
    lost = f"; {profile.lost} were lost" if profile.lost else ""
    yield Sentence(
        f"functions, by what they took themselves of {show_count(total)} samples of busy "
        f"processors (k: in the kernel; {profile.event}, {profile.hertz} Hz){lost}",
        Tone.QUIET,
    )
    if profile.truncated:
        yield Sentence(f"the profile is not whole: {profile.truncated}", Tone.UNCLEAR)
    top = flame.functions(stacks)[:_FUNCTIONS]
    rows = [(f"{one.seconds / total:6.1%}", _whose(one.whose), one.name) for one in top]
    yield Table(("share", "of", "function"), rows, numbers=(0,), is_list=True)


def _whose(whose: str) -> str:
    """Return the class of a sample's process in short, so that two columns fit on the screen."""
    if whose == flame.KERNEL_THREADS:
        return "kthreads"
    return whose.replace(", kernel", " k")


def _costs(result: StepResult) -> Iterator[str]:
    # A collector that waits for a window uses nothing in a step that has none.
    used = {name: seconds for name, seconds in result.costs.items() if seconds > 0}
    for name, seconds in sorted(used.items(), key=lambda item: -item[1]):
        share = f" ({seconds / result.elapsed:.1%} of a processor)" if result.elapsed > 0 else ""
        yield f"{name} {show_duration(seconds)}{share}"
