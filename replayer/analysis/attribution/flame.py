"""Profiles -> the functions that took most time themselves, and trees of callers, per operation.

A sample stands for 1 / hertz seconds of a processor.  Trees are merged over windows: the seconds of
all of them / the operations of all of them, so that a longer window counts for more.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from replayer.model import KERNEL_FRAME, StepResult

UNKNOWN = "[unknown]"
KERNEL_THREADS = "kernel threads"
OTHERS = "others"
REST = "…"
"""What stands for all that is too small to be a frame of its own."""
NODES = 500
"""Frames of a pruned tree, and as many rests at most."""
_LEAST_REST = 0.002
"""A smaller rest, as a share of the whole, is left out."""
_HEAD = 3
"""Parts of a stack before its frames: class, mode, thread."""
_DEEPEST = 120
"""Frames of a stack beyond which its callers are one, as of a recursion."""
_LONGEST = 200
"""Characters of a function's name that are kept."""


class Function(NamedTuple):
    """What a function took itself, without those that it called."""

    name: str
    whose: str
    """Whose process it was: one of PROFILED; `server, kernel` where the kernel worked for it."""
    seconds: float
    """Of a processor; or samples, where they are not scaled."""


@dataclass(slots=True)
class Frame:
    """A function with its callers, and what it and all that it called took."""

    name: str
    whose: str = ""
    base: float = 0.0
    """Seconds per operation on the side that is compared with; 0 where there is none."""
    other: float = 0.0
    calls: dict[str, "Frame"] = field(default_factory=dict)


def functions(stacks: Mapping[str, float]) -> list[Function]:
    """Return what each function took itself, the most first."""
    own: dict[tuple[str, str], float] = defaultdict(float)
    for stack, amount in stacks.items():
        own[_function(stack.split(";"))] += amount
    ordered = sorted(own.items(), key=lambda item: -item[1])
    return [Function(name, whose, amount) for (name, whose), amount in ordered]


def _function(parts: Sequence[str]) -> tuple[str, str]:
    """Return the leaf of a stack, and whose it is."""
    leaf = parts[-1] if len(parts) > _HEAD else UNKNOWN
    kernel = leaf.endswith(KERNEL_FRAME) and parts[0] != KERNEL_THREADS
    return _named(leaf), f"{parts[0]}, kernel" if kernel else parts[0]


def _named(frame: str) -> str:
    name = frame.removesuffix(KERNEL_FRAME)
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}{REST}"


def per_operation(steps: Iterable[StepResult]) -> dict[str, float]:
    """Return stack -> seconds of a processor per operation, of all windows that have a profile.

    {} where none has one that can be read and an account of its operations.
    """
    seconds: dict[str, float] = defaultdict(float)
    operations = 0.0
    for step in steps:
        profile, account = step.profile, step.account
        if profile is None or account is None or not account.operations > 0 or not profile.hertz:
            continue
        try:
            stacks = profile.stacks()
        except ValueError:
            continue
        operations += account.operations
        for stack, samples in stacks.items():
            seconds[stack] += samples / profile.hertz
    return {stack: amount / operations for stack, amount in seconds.items()}


def tree(base: Mapping[str, float], other: Mapping[str, float]) -> Frame:
    """Return the frames of both sides, what each took on either: class, thread, root … leaf."""
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
    """Return how many names two stacks begin with together."""
    for number, (name, same) in enumerate(zip(one, two, strict=False)):
        if name != same:
            return number
    return min(len(one), len(two))


def _add_up(root: Frame) -> None:
    """Add to each frame what all that it called took."""
    frames = [root]
    for frame in frames:
        # The list grows while it is gone through: callers come before what they call.
        frames += frame.calls.values()
    for frame in reversed(frames):
        frame.base += sum(one.base for one in frame.calls.values())
        frame.other += sum(one.other for one in frame.calls.values())


def _short(frames: Sequence[str]) -> Sequence[str]:
    """Return the frames of a stack, the middle of a very deep one as one."""
    if len(frames) <= _DEEPEST:
        return frames
    return (*frames[: _DEEPEST // 2], REST, *frames[-_DEEPEST // 2 :])


class Drawn(NamedTuple):
    """A frame of a pruned tree."""

    name: str
    whose: str
    parent: int | None
    """The number of the frame that called it; None of the root, which is number 0."""
    base: float
    other: float


def pruned(root: Frame, most: int = NODES) -> list[Drawn]:
    """Return the largest frames by what they take on the other side, callers before their calls.

    What a frame calls beyond those is one frame, `…`, if it is worth showing at all.
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
    """A function that took another time itself on one side than on the other, per operation."""

    name: str
    whose: str
    base: float
    other: float


def movers(base: Mapping[str, float], other: Mapping[str, float], most: int = 15) -> list[Mover]:
    """Return the functions whose own time differs most, those that are on one side only as well.

    Those of other programs, which do nothing for an operation, are left out.
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
