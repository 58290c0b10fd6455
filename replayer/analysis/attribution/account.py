"""The account of a window: where its time went, by Little's law over the sessions that worked.

The total time is sessions times seconds.  The kernel reports exactly, in nanoseconds, how long a
session's thread ran and how long it waited for a processor: its schedstat, read at the start and
the end of its observation.  Sleep is measured in two other ways: by sampling the state of threads,
and by short traces of the scheduler.  Neither uses schedstat.  So an error in a measurement appears
in the residue, which is the time that is in no part.  For example, if all running threads were seen
as asleep, the account would not close.

In a virtual machine both measurements of sleep are wrong, in opposite directions.  A sampler gets
its processor at the moment when the disk has finished something.  So it finds too many threads
awake: it saw 36 % of the time as sleep for eight sessions that slept 65 %.  A trace keeps
processors from being halted.  So woken threads run at once, and wait for the disk instead: it saw
83 %.  Therefore the sleep is the time that schedstat leaves over, if that is between the two
measurements, else the nearer of them.  Its parts are those of the traces.  If the two are far
apart, the account reports that it rests on schedstat alone.  This was checked by the length of the
disk's own queue: it was 5.1, and by this method 5.2 sessions waited for the disk.

The reason why a thread slept is the wait event that the server reports, if the thread slept all
the time while the server was asked.  If it did not, its waits are short: the state and the wait
event may belong to different waits.  Its sleep is then divided like the wait events of all such
threads.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Protocol

from replayer.collectors import Observed, ThreadTimes, WaitSamples
from replayer.machine.processes import CpuSeconds
from replayer.model import Account, Spent

_UNSEEN = 0.1
"""If more than this share of the sessions was not seen, a note reports it."""
_FEW = 100
"""With fewer observations than this, a note warns that shares in percent are uncertain."""
_UNWATCHED = "what its sessions waited for was not watched"
_SHORT = "the window was too short to look twice at what its threads waited for"
_RUNS = "R"
_DISK = "D"
_OF_DISK = frozenset({"device", "log"})
_PARTS = {
    "device": Spent.DEVICE,
    "log": Spent.LOG,
    "lock": Spent.LOCK,
    "client": Spent.CLIENT,
}
_DISK_SLEEP = "disk sleep"
_SLEEP = "sleep"

Split = Mapping[str, Mapping[Spent, float]]
"""Class of a profile (`server`, `client`) -> part -> kernel time, in any unit; {} if not known."""
_Waits = dict[tuple[str, Spent], float]
"""(name of the wait, part of the account) -> seconds."""


class AccountWindow(Protocol):
    """A measured window and the operations in it, from which an account of its time is made."""

    @property
    def begin_ns(self) -> int:
        """Return when the window began (its first mark), in nanoseconds of the sampler's clock."""
        ...

    @property
    def end_ns(self) -> int:
        """Return when the window ended (its last mark), in nanoseconds of the sampler's clock."""
        ...

    @property
    def operations(self) -> float:
        """Return the number of operations, such as blocks read, that were done in the window."""
        ...

    @property
    def operation(self) -> str:
        """Return the name of one operation, singular, such as `block` or `statement`."""
        ...

    @property
    def sessions(self) -> int:
        """Return the number of sessions that worked at the same time."""
        ...


def account(
    window: AccountWindow,
    waits: WaitSamples | None,
    used: Mapping[str, CpuSeconds],
    kernel: Split | None = None,
) -> Account | None:
    """Return the account of a window: where the time of its sessions went, per operation.

    `waits` are the samples of the server's sessions or of replayer threads.  `used` is `server` or
    `client` -> CPU seconds.  `kernel` is the split of their kernel time by a stack profile; None
    without one.  Returns None if no operation was done, if the window has no duration, or if
    `waits` is None and `used` is empty.
    """
    seconds = (window.end_ns - window.begin_ns) / 1e9
    if window.operations <= 0 or seconds <= 0 or (waits is None and not used):
        return None
    kernel = kernel or {}
    cpu = {whose: _cpu(whose, spent, window.operations, kernel) for whose, spent in used.items()}
    if waits is None or (waits.times is None and waits.whose == "replayer"):
        why = _UNWATCHED if waits is None else _SHORT
        return Account(
            operation=window.operation,
            operations=window.operations,
            sessions=0.0 if waits is None else waits.sessions,
            seconds=seconds,
            cpu=cpu,
            notes=(why,),
        )
    shares, names, unsure = _shares(waits, kernel)
    whole = waits.sessions * seconds / window.operations
    made = Account(
        operation=window.operation,
        operations=window.operations,
        sessions=waits.sessions,
        seconds=seconds,
        session={part: shares[part] * whole for part in Spent if shares.get(part)},
        residue=(1.0 - sum(shares.values())) * whole,
        unsure=unsure,
        cpu=cpu,
        waits=dict(sorted(names.items(), key=lambda item: -item[1])),
        samples=waits.observations or waits.moments,
    )
    return made.model_copy(update={"notes": tuple(_notes(window, waits, made))})


def _cpu(whose: str, spent: CpuSeconds, operations: float, kernel: Split) -> dict[Spent, float]:
    """Return part of an account -> CPU seconds per operation of the server or the client.

    `whose` is `server` or `client`, and `spent` its CPU seconds.  `kernel` divides its kernel time
    into parts; without an entry for `whose`, all kernel time is in the part KERNEL.
    """
    user = Spent.SERVER if whose == "server" else Spent.CLIENT
    parts = {user: spent.user, **_divided(spent.system, kernel.get(whose, {}))}
    return {part: parts[part] / operations for part in Spent if parts.get(part)}


def _divided(amount: float, weights: Mapping[Spent, float]) -> dict[Spent, float]:
    """Return part of an account -> its portion of an amount of kernel time, by the weights.

    `amount` is in any unit, and the portions have the same.  If the weights are all 0 or missing,
    the whole amount is in the part KERNEL.
    """
    whole = sum(weights.values())
    if whole <= 0:
        return {Spent.KERNEL: amount}
    return {part: amount * weight / whole for part, weight in weights.items()}


def _shares(
    waits: WaitSamples, kernel: Split
) -> tuple[dict[Spent, float], dict[str, float], float]:
    """Return part of an account -> share of the sessions' time, wait -> share of it, and a doubt.

    The doubt is the share of time by which two measurements of sleep differ, for Account.unsure.
    `kernel` divides the kernel time of `server` and `client` into parts.
    """
    if waits.times is None or waits.times.span <= 0:
        return *_told(waits), 0.0
    shares = _ran(waits, waits.times, kernel)
    slept, unsure = _sleep(waits, waits.times, awake=sum(shares.values()))
    names: dict[str, float] = defaultdict(float)
    for (name, part), seconds in slept.items():
        share = seconds / waits.times.span
        shares[part] = shares.get(part, 0.0) + share
        names[name] += share
    return shares, names, unsure


def _sleep(waits: WaitSamples, times: ThreadTimes, awake: float) -> tuple[_Waits, float]:
    """Return (wait, part of an account) -> seconds of sleep, and a doubt, for Account.unsure.

    The doubt is the share of time by which samples and traces of the sleep differ, 0 where only one
    can be used.  `awake` is the share of the sessions' time in which they ran or waited for a
    processor.
    """
    looked = asleep(waits.observed)
    if waits.traced is None:
        return looked, 0.0
    traced = asleep(waits.observed, _traced(waits.traced, times.span))
    sums = sum(looked.values()), sum(traced.values())
    if not waits.counted or not sums[1]:
        return traced, 0.0
    left = (1.0 - awake) * times.span
    whole = min(max(left, min(sums)), max(sums))
    slept = {key: seconds * whole / sums[1] for key, seconds in traced.items()}
    return slept, (max(sums) - min(sums)) / times.span


def _ran(waits: WaitSamples, times: ThreadTimes, kernel: Split) -> dict[Spent, float]:
    """Return part of an account -> share of the sessions' time, for the time without sleep.

    In this time they ran, or waited for a processor.  `kernel` divides the kernel time of `server`
    and `client` into parts.
    """
    cpu = times.user + times.system
    ran, queued = times.ran / times.span, times.queued / times.span
    if not waits.counted:
        # Samples only show that a thread is runnable: time beyond its CPU time was the run queue.
        runnable = sum(one.seconds for one in waits.observed if one.letter == _RUNS) / times.span
        ran = min(cpu / times.span, runnable)
        queued = runnable - ran
    kept = _throttled(waits, ran, queued)
    in_kernel = times.system / cpu if cpu > 0 else 0.0
    split = kernel.get("server" if waits.whose == "server" else "client", {})
    return {
        **_divided(ran * in_kernel, split),
        Spent.SERVER: ran * (1 - in_kernel),
        Spent.RUN_QUEUE: queued - kept,
        Spent.THROTTLED: kept,
    }


def _throttled(waits: WaitSamples, ran: float, queued: float) -> float:
    """Return the share of time in which threads waited for the next period of a CPU quota.

    The kernel counts it as waiting for a processor.  As long as the quota lasts, the runnable
    threads share the processors, and wait for each other in proportion to how long they run.
    Waiting beyond that is due to the quota; it is at most the share of periods that used it up.
    `ran` and `queued` are the shares of time in which threads ran and waited for a processor.
    """
    if not waits.throttled or not waits.cores:
        return 0.0
    runnable = (ran + queued) * waits.sessions
    sharing = ran * max(0.0, runnable / waits.cores - 1)
    return min(max(0.0, queued - sharing), waits.throttled)


def _told(waits: WaitSamples) -> tuple[dict[Spent, float], dict[str, float]]:
    """Return part of an account -> share of the sessions' time, and wait -> share of it.

    Both are from the server's wait events alone.  A session without a wait event counts as working
    in the server.
    """
    shares: dict[Spent, float] = defaultdict(float)
    names: dict[str, float] = defaultdict(float)
    for (wait, part), sessions in waits.asked.items():
        share = sessions / waits.sessions if waits.sessions else 0.0
        spent = _PARTS.get(part, Spent.OTHER if part else Spent.SERVER)
        shares[spent] += share
        if part:
            names[wait] += share
    return shares, names


def _traced(traced: Mapping[str, float], span: float) -> dict[str, float]:
    """Return sleeping state of a thread -> seconds in it.

    A state is the kernel's letter, S or D.  `traced` is state -> share of `span` seconds.
    """
    return {letter: share * span for letter, share in traced.items() if letter != _RUNS}


def asleep(observed: Iterable[Observed], traced: Mapping[str, float] | None = None) -> _Waits:
    """Return (wait, part of an account) -> seconds in which threads slept, from samples of them.

    `traced` is state of a thread (S or D) -> seconds of sleep, as traces measured it.  If it is
    given, the time in each state is taken from it, and the samples only divide it into waits.
    """
    seen = list(observed)
    slept: _Waits = defaultdict(float)
    letters = {one.letter for one in seen} - {_RUNS}
    for letter in letters if traced is None else traced:
        waits = _slept(seen, letter)
        whole = sum(waits.values())
        scale = 1.0 if traced is None else traced[letter] / whole if whole else 0.0
        for key, seconds in waits.items():
            slept[key] += seconds * scale
    return {key: seconds for key, seconds in slept.items() if seconds > 0}


def _slept(seen: list[Observed], letter: str) -> _Waits:
    """Return (wait, part of an account) -> seconds of the samples in one sleeping state.

    `letter` is the kernel's letter for the state, S or D.  If no sample has this state, the shares
    of likely waits are returned in place of seconds: they add up to 1.
    """
    slept: _Waits = defaultdict(float)
    devices = any(one.part == "device" for one in seen)
    sure = [one for one in seen if one.letter == letter and one.still]
    loose = [one for one in seen if one.letter == letter and not one.still]
    for one in sure:
        slept[_name(one), _part(one)] += one.seconds
    likely = [one for one in loose if _fits(one, devices=devices)] or sure
    unsure = sum(one.seconds for one in loose)
    if not sure and not loose:
        # No thread was seen in this state: take the wait events of threads that had just left it.
        words = [replace(one, letter=letter) for one in seen if one.part]
        fitting = [one for one in words if (one.part in _OF_DISK) == (letter == _DISK)]
        likely = fitting or [one for one in words if _fits(one, devices=devices)]
        unsure = 1.0
    for (name, part), share in _distribution(likely, letter):
        slept[name, part] += unsure * share
    return slept


def _fits(one: Observed, *, devices: bool) -> bool:
    """Return whether a thread's state is possible with the wait event that the server reports.

    `devices` is True if the server reports some waits for a device.  Sleep in the disk state does
    not fit a thread without a wait event then.
    """
    if one.letter == _DISK:
        return one.part in _OF_DISK or not (one.part or devices)
    return bool(one.part)


def _distribution(likely: list[Observed], letter: str) -> Iterator[tuple[tuple[str, Spent], float]]:
    whole = sum(one.seconds for one in likely)
    if whole <= 0:
        nothing = Observed(letter, "", "", still=True, seconds=0.0)
        yield (_name(nothing), _part(nothing)), 1.0
    for one in likely if whole > 0 else ():
        yield (_name(one), _part(one)), one.seconds / whole


def _part(one: Observed) -> Spent:
    if one.letter == _DISK:
        return Spent.LOG if one.part == "log" else Spent.DEVICE
    return _PARTS.get(one.part, Spent.OTHER)


def _name(one: Observed) -> str:
    """Return the name of a thread's wait: the server's name for it, if it fits the kernel's state.

    In other cases it is `sleep` or `disk sleep`, by the kernel's state of the thread.  If the wait
    has a name but belongs to no part of an account, the name and a colon come before that.
    """
    if one.part and (one.letter != _DISK or one.part in _OF_DISK):
        return one.wait
    asleep = _DISK_SLEEP if one.letter == _DISK else _SLEEP
    return f"{one.wait}: {asleep}" if one.wait and not one.part else asleep


def _notes(window: AccountWindow, waits: WaitSamples, made: Account) -> Iterator[str]:
    """Yield sentences about the limits of the account `made`, such as few observations."""
    if waits.times is None:
        why = f" ({waits.missing})" if waits.missing else ""
        yield (
            f"the account rests on the server's wait events only{why}: the rest counts as its "
            f"code, though it may have been the kernel's or the run queue, and no residue can show "
            f"an error"
        )
    elif not waits.counted:
        yield (
            "this kernel does not count how long a thread waits for a processor "
            "(/proc/PID/schedstat): the run queue is what was seen runnable and used no CPU, and "
            "no residue can show an error"
        )
    elif waits.missing:
        yield f"what the sessions waited for is not known by name: {waits.missing}"
    if not made.closes:
        met = f"; they slept as long as they were met asleep ({waits.untraced})"
        yield (
            f"the account does not close: {made.residue_share:+.0%} of the sessions' time is in "
            f"{'none' if made.residue > 0 else 'two'} of its parts{met if waits.untraced else ''}"
        )
    elif made.rests_on_one:
        yield (
            f"the time asleep rests on the kernel's counters alone: looks and traces, "
            f"which would show an error in them, are {made.unsure:.0%} of their time apart"
        )
    if abs(waits.sessions - window.sessions) > _UNSEEN * window.sessions:
        yield (
            f"{waits.sessions:.1f} of {window.sessions} sessions were seen at work on average: the "
            f"account is of those"
        )
    if made.samples < _FEW:
        yield f"the account rests on {made.samples} observations, which is few"
