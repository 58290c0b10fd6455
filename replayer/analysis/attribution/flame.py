"""Functions by their own time and call trees, from stack profiles, in seconds per operation.

A profile's sample stands for 1 / hertz seconds of a processor.  Trees of several windows are
merged: the sum of their seconds is divided by the sum of their operations, so a longer window has
more weight.
"""

import contextlib
import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from replayer.model import KERNEL_FRAME, StepResult

UNKNOWN = "[unknown]"
KERNEL_THREADS = "kernel threads"
OTHERS = "others"
REST = "…"
"""Name of the frame that stands for all frames that are too small to show."""
NODES = 500
"""Limit on the frames of a pruned tree, and also on its frames with the name REST."""
_LEAST_REST = 0.002
"""A frame with the name REST is left out if it is a smaller share of the whole than this."""
_HEAD = 3
"""Parts of a stack before its frames: class, mode, thread."""
_DEEPEST = 120
"""Limit on the frames of a stack; in a deeper one, as by recursion, the middle is one frame."""
_LONGEST = 200
"""Characters of a function's name that are kept."""


class Function(NamedTuple):
    """The own time of a function in a stack profile, without the functions that it called.

    It is in seconds of a processor, or a number of samples if they are not scaled.
    """

    name: str
    whose: str
    """Class of the process, one of PROFILED; `server, kernel` if the kernel worked for it."""
    seconds: float
    """Seconds of a processor, or a number of samples if they are not scaled."""


@dataclass(slots=True)
class Frame:
    """A node of a call tree: a function in its chain of callers, with all that it called.

    It has the function's time, callees included, on both sides of a comparison, in seconds of a
    processor per operation.
    """

    name: str
    whose: str = ""
    base: float = 0.0
    """Seconds per operation on the base side, callees included; 0 if there is no base side."""
    other: float = 0.0
    """The same on the other side."""
    calls: dict[str, "Frame"] = field(default_factory=dict)


def functions(stacks: Mapping[str, float]) -> list[Function]:
    """Return the own time of each function, the largest first.

    `stacks` is folded call chain, such as `server;user;postgres;main;f` -> seconds, or samples.  A
    function's own time is that of the stacks that end in it, in the same unit.
    """
    own: dict[tuple[str, str], float] = defaultdict(float)
    for stack, amount in stacks.items():
        own[_function(stack.split(";"))] += amount
    ordered = sorted(own.items(), key=lambda item: -item[1])
    return [Function(name, whose, amount) for (name, whose), amount in ordered]


def _function(parts: Sequence[str]) -> tuple[str, str]:
    """Return the name of a stack's leaf, the function that ran, and the class of its process.

    The class is, for example, `server`, or `server, kernel` if the kernel worked for the server.
    """
    leaf = parts[-1] if len(parts) > _HEAD else UNKNOWN
    kernel = leaf.endswith(KERNEL_FRAME) and parts[0] != KERNEL_THREADS
    return _named(leaf), f"{parts[0]}, kernel" if kernel else parts[0]


def _named(frame: str) -> str:
    name = frame.removesuffix(KERNEL_FRAME)
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}{REST}"


def per_operation(steps: Iterable[StepResult]) -> dict[str, float]:
    """Return stack -> seconds of a processor per operation, over the windows of all `steps`.

    A stack is a folded call chain.  Windows without a readable profile or without an account of
    operations do not count.  Return {} if no window counts.
    """
    seconds: dict[str, float] = defaultdict(float)
    total = 0.0
    for operations, hertz, stacks in _profiles(steps):
        total += operations
        for stack, samples in stacks.items():
            seconds[stack] += samples / hertz
    return {stack: amount / total for stack, amount in seconds.items()}


def count_samples(steps: Iterable[StepResult]) -> int:
    """Return the number of samples in the stack profiles of `steps`, as `per_operation` uses them.

    Samples of other programs are left out: they do nothing for an operation.
    """
    return round(
        sum(
            samples
            for _, _, stacks in _profiles(steps)
            for stack, samples in stacks.items()
            if stack.partition(";")[0] != OTHERS
        )
    )


def _profiles(steps: Iterable[StepResult]) -> Iterator[tuple[float, float, Mapping[str, float]]]:
    """Yield (operations, samples per second, stack -> samples) of each step with a stack profile.

    Steps without an account of operations, or with a profile that cannot be decoded, are left out.
    """
    for step in steps:
        profile, account = step.profile, step.account
        if profile is None or account is None or not account.operations > 0 or not profile.hertz:
            continue
        with contextlib.suppress(ValueError):
            yield account.operations, profile.hertz, profile.stacks()


def tree(base: Mapping[str, float], other: Mapping[str, float]) -> Frame:
    """Return the root of one call tree for both sides of a comparison, with the times of each side.

    `base` and `other` are folded call chain -> seconds per operation.  The levels of the tree are:
    all, class of the process, thread, root of the stack, … leaf.
    """
    path = [Frame("all")]
    before: Sequence[str] = ()
    # In order, a stack shares most of its frames with the one before it.
    for stack in sorted(base.keys() | other.keys()):
        names = _names(stack)
        del path[1 + _shared(before, names) :]
        for name in names[len(path) - 1 :]:
            whose = "kernel" if name.endswith(KERNEL_FRAME) else names[0]
            path.append(path[-1].calls.setdefault(name, Frame(_named(name), whose)))
        path[-1].base += base.get(stack, 0.0)
        path[-1].other += other.get(stack, 0.0)
        before = names
    _add_up(path[0])
    return path[0]


def _names(stack: str) -> Sequence[str]:
    parts = stack.split(";")
    return (parts[0], *parts[_HEAD - 1 : _HEAD], *_short(parts[_HEAD:]))


def _shared(one: Sequence[str], two: Sequence[str]) -> int:
    """Return the number of functions at their roots that two stacks have in common."""
    for number, (name, same) in enumerate(zip(one, two, strict=False)):
        if name != same:
            return number
    return min(len(one), len(two))


def _add_up(root: Frame) -> None:
    """Add to each frame of a call tree the times of all frames that it called, directly or not."""
    frames = [root]
    for frame in frames:
        # The list grows during the loop, so callers come before the frames that they call.
        frames += frame.calls.values()
    for frame in reversed(frames):
        frame.base += sum(one.base for one in frame.calls.values())
        frame.other += sum(one.other for one in frame.calls.values())


def _short(frames: Sequence[str]) -> Sequence[str]:
    """Return the frames of a stack; of more than 120, one frame `…` replaces the middle."""
    if len(frames) <= _DEEPEST:
        return frames
    return (*frames[: _DEEPEST // 2], REST, *frames[-_DEEPEST // 2 :])


class Drawn(NamedTuple):
    """A frame of a call tree that was reduced to its largest frames, so that it can be drawn.

    `base` and `other` are its times on both sides of a comparison, callees included, in seconds of
    a processor per operation.
    """

    name: str
    whose: str
    parent: int | None
    """The number of the frame that called it; None for the root, which has number 0."""
    base: float
    other: float


def pruned(root: Frame, most: int = NODES) -> list[Drawn]:
    """Return the `most` largest frames of a call tree, callers before callees, to draw them.

    The size of a frame is its time on the other side, callees included; frames without any are left
    out.  The callees of a frame for which there is no room are summed up as one frame, `…`, if they
    are at least 0.2 percent of the whole.
    """
    kept: list[Drawn] = []
    waiting: list[tuple[float, int, Frame, int | None]] = [(-root.other, 0, root, None)]
    count = 1
    dropped: dict[int, list[float]] = {}
    while waiting:
        _, _, frame, parent = heapq.heappop(waiting)
        if len(kept) >= most:
            rest = dropped.setdefault(parent or 0, [0.0, 0.0])
            rest[0] += frame.base
            rest[1] += frame.other
            continue
        kept.append(Drawn(frame.name, frame.whose, parent, frame.base, frame.other))
        number = len(kept) - 1
        for one in frame.calls.values():
            if one.other > 0:
                heapq.heappush(waiting, (-one.other, count, one, number))
                count += 1
    least = _LEAST_REST * root.other
    rests = [
        Drawn(REST, "", parent, below, above)
        for parent, (below, above) in dropped.items()
        if above >= least
    ]
    return [*kept, *rests]


class Mover(NamedTuple):
    """A function whose own time differs between the two sides of a comparison.

    `base` and `other` are its times in seconds of a processor per operation, without callees.
    """

    name: str
    whose: str
    base: float
    other: float


def movers(base: Mapping[str, float], other: Mapping[str, float], most: int = 15) -> list[Mover]:
    """Return the `most` functions whose own time differs most, the largest difference first.

    `base` and `other` are folded call chain -> seconds per operation, of the two sides.  A function
    that is on one side only counts, too.  Functions of other programs are left out, as these do
    nothing for an operation.
    """
    below, above = (
        {
            (one.name, one.whose): one.seconds
            for one in functions(side)
            if one.whose.partition(",")[0] != OTHERS
        }
        for side in (base, other)
    )
    both = [Mover(*key, below.get(key, 0.0), above.get(key, 0.0)) for key in {**below, **above}]
    both.sort(key=lambda one: -abs(one.other - one.base))
    return [one for one in both[:most] if one.base != one.other]
