"""The parts of a report about one step's measured window: its account and its CPU profile.

An account divides the time of the sessions, per operation, into uses such as CPU time and waits.
"""

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
    """A unit of time: its length in seconds, and its name."""

    seconds: float
    name: str


_SCALES = (Scale(1.0, "s"), Scale(1e-3, "ms"), Scale(1e-6, "µs"), Scale(1e-9, "ns"))


def parts(result: StepResult) -> Iterator[Part]:
    """Yield the parts of a report that show the use of a step's time, as far as they are known.

    These are the account (the uses of the sessions' time), the CPU profile, the times of the
    device's requests, the cost of the collectors, and the account's notes.
    """
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
    """Yield a text for each kind of request: upper limits of p50 and p99 of the device's times.

    `seconds` are the rows of the table that the collector block_latency writes, one for each second
    and kind of request.  Each row has a histogram of the times of its requests, in microseconds.
    """
    for kind in dict.fromkeys(str(row["kind"]) for row in seconds):
        requests: Counter[int] = Counter()
        for row in seconds:
            if row["kind"] == kind:
                buckets = (part.partition(":") for part in str(row["histogram"]).split())
                requests.update({int(low): int(count) for low, _, count in buckets})
        if not requests:
            continue
        times = "   ".join(
            f"p{share:g} <= {show_duration(_bucket_end(requests, share / 100) / 1e6)}"
            for share in (50, 99)
        )
        yield f"{kind} {times}   of {show_count(requests.total())} timed"


def _bucket_end(requests: Mapping[int, int], share: float) -> int:
    """Return the upper end of the histogram bucket that contains a quantile of the requests.

    `requests` has the lower end of each bucket, in microseconds -> its number of requests.  The
    upper end, which is returned, is twice the lower end, and 1 at least.  `share` is the quantile,
    from 0 to 1.
    """
    left = share * sum(requests.values())
    for low in sorted(requests):
        left -= requests[low]
        if left <= 0:
            break
    return max(1, 2 * low)


def middle(results: Sequence[StepResult]) -> StepResult | None:
    """Return the repeat with the median time per operation; None if no repeat has an account.

    An account divides the time of the sessions into uses such as CPU time and waits.
    """
    known = [one for one in results if one.account is not None and one.account.operations > 0]
    if not known:
        return None
    times = [whole(one.account) for one in known if one.account is not None]
    return known[times.index(median_low(times))]


def whole(account: Account) -> float:
    """Return sessions * seconds / operations of an account: all sessions' time per operation.

    The result is in seconds; it is 0 if there was no operation.
    """
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
    """Return the largest of the units s, ms, µs and ns in which `seconds` is 1 or more; else ns."""
    return next((scale for scale in _SCALES if seconds >= scale.seconds), _SCALES[-1])


def _little(account: Account) -> Iterator[str]:
    """Yield the terms of a sum: the average number of sessions = sessions on CPU + in each wait.

    This is Little's law.  Very small terms are left out.  The last term is the residue: the
    sessions that the account cannot explain.
    """
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
    """Yield the CPU time per operation of server and client: total, user mode and kernel.

    The times are texts in the unit `scale`.
    """
    for whose, spent in account.cpu.items():
        kernel = sum(seconds for part, seconds in spent.items() if part not in _USER)
        everything, user = sum(spent.values()), sum(spent.values()) - kernel
        shown = [f"{seconds / scale.seconds:.2f}" for seconds in (everything, user, kernel)]
        yield f"{whose} {shown[0]} {scale.name} (user {shown[1]}, kernel {shown[2]})"


def _kernel(account: Account, scale: Scale) -> Iterator[str]:
    """Yield the parts of the server's kernel time per operation, the longest first.

    The times are texts in the unit `scale`.  Parts below 0.05 percent of the server's CPU time are
    left out.  Nothing is yielded if there is only one part.
    """
    spent = account.cpu.get("server", {})
    kernel = {part: seconds for part, seconds in spent.items() if part not in _USER}
    if len(kernel) < 2:
        return
    for part, seconds in sorted(kernel.items(), key=lambda item: -item[1]):
        if seconds >= _LEAST * sum(spent.values()):
            yield f"{part.value} {seconds / scale.seconds:.2f}"


def _waits(waits: Mapping[str, float]) -> Iterator[str]:
    """Yield the longest waits as shares of the sessions' time, then the sum of all other waits.

    `waits` has the name of a wait event -> its share, from 0 to 1.  At most eight are named.
    Shares below 0.05 percent are left out.
    """
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
    """Return the name of a class of processes, such as `server, kernel`, in a shorter form.

    The short form lets two columns fit on the screen.
    """
    if whose == flame.KERNEL_THREADS:
        return "kthreads"
    return whose.replace(", kernel", " k")


def _costs(result: StepResult) -> Iterator[str]:
    # A collector that waits for a window uses nothing in a step that has none.
    used = {name: seconds for name, seconds in result.costs.items() if seconds > 0}
    for name, seconds in sorted(used.items(), key=lambda item: -item[1]):
        share = f" ({seconds / result.elapsed:.1%} of a processor)" if result.elapsed > 0 else ""
        yield f"{name} {show_duration(seconds)}{share}"
