"""Limits of this process and of all programs that it starts: a new cgroup, or a set of processors.

Each limit has a note in the journal.  A set of processors ends with its process; a cgroup is
removed at the end, or by the next run after a kill.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from replayer import journal, signals
from replayer.conditions import memory_bound
from replayer.errors import Impossible, ReplayerError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from replayer.journal import Note
    from replayer.machine.host import Host

_CPU_SET = "cpu-set"
_SHOWN = 16
NOTES = frozenset({_CPU_SET})
"""Kinds of the journal's notes that `recover` handles; memory_bound handles those on cgroups."""


def refusal(host: Host, controller: str) -> str:
    """Return the reason why no cgroup with this controller can be made here, "" if one can.

    A controller is a name such as `memory` or `cpu`.
    """
    place = memory_bound.tree(host, controller)
    if isinstance(place, str):
        return place
    if place.lost and not memory_bound.is_own_group(Path(place.home)):
        return f"{place.lost} limits replayer, and would not in another cgroup"
    return ""


def confine(host: Host, controller: str, limits: Mapping[int, Mapping[str, str]]) -> None:
    """Move this process into a new cgroup with limits.

    `limits` is the version of cgroups (1 or 2) -> {file of the cgroup: text to write}.  Programs
    that this process starts from now on are in the cgroup, too.  If it is already in a cgroup of
    version 2 that it made, that one gets these limits, too.  Raises Impossible if no cgroup can be
    made here, ReplayerError if the kernel refuses; then the cgroup is removed again.
    """
    place = memory_bound.tree(host, controller)
    why = refusal(host, controller)
    if why or isinstance(place, str):
        raise Impossible(f"the {controller} cannot be limited here: {why}")
    home = host.path(place.home)
    if place.version == 2 and memory_bound.is_own_group(home):
        # In a second cgroup, the limits of the first would end.
        try:
            _set_limits(home, limits[2])
        except OSError as error:
            raise ReplayerError(
                f"{home} cannot limit the {controller}: {error.strerror}"
            ) from error
        return
    group = host.path(f"{place.parent}/{memory_bound.group_name()}")
    with signals.shield():
        note = journal.take("cgroup", group=str(group), home=str(home))
    try:
        group.mkdir()
        _set_limits(group, limits[place.version])
        (group / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
    except OSError as error:
        with signals.shield():
            memory_bound.recover(note)
        raise ReplayerError(f"the cgroup {group} could not be used: {error.strerror}") from error


def _set_limits(group: Path, limits: Mapping[str, str]) -> None:
    for file, text in limits.items():
        # Not write_text, which would ask for a file that is missing to be made.
        with (group / file).open("r+b", buffering=0) as limit:
            limit.write(text.encode("ascii"))


def choose_processors(numbers: Collection[int]) -> None:
    """Let this process, and all that it starts from now on, run on the processors `numbers` only.

    Raises Impossible for processors that do not exist or are not allowed.
    """
    before = sorted(os.sched_getaffinity(0))
    # The kernel takes a set of which one processor exists, and leaves out the others.
    if not numbers or not set(numbers) <= set(before):
        raise Impossible(
            f"the processors {_few(sorted(numbers))} cannot be chosen: this process may use "
            f"{_few(before)}"
        )
    with signals.shield():
        note = journal.take(_CPU_SET, before=",".join(map(str, before)))
    try:
        os.sched_setaffinity(0, numbers)
    except OSError as error:
        note.drop()
        raise Impossible(
            f"the processors {_few(sorted(numbers))} cannot be chosen: {error.strerror}"
        ) from error


def _few(numbers: Sequence[int]) -> str:
    shown = ",".join(map(str, numbers[:_SHOWN]))
    return f"{shown},…" if len(numbers) > _SHOWN else shown


def recover(note: Note) -> str:
    """Let this process use its earlier processors again, drop the note, and return a short message.

    `note` is the journal's record of these processors.  If it is of another process, it is only
    dropped: the choice ended with that process.
    """
    text = note.text("before")
    if not all(part.isdecimal() for part in text.split(",")):
        raise journal.Untrusted(note, "its processors are no numbers")
    if note.owner == journal.identity(os.getpid()):
        os.sched_setaffinity(0, [int(part) for part in text.split(",")])
    note.drop()
    return "a choice of processors ended with its process"
