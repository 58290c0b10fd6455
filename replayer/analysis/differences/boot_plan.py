"""Boot plans: the order in which to boot kernels, so that drift does not look like a difference.

A plan file is written once and never changed.  Its progress follows from the runs in its folder:
each run contains the kernel and the boot that it is from.
"""

import contextlib
import errno
import json
import os
import random
import stat
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import cycle, islice
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import ValidationError

from replayer import assets, trusted_path
from replayer.analysis.differences.samples import Side
from replayer.analysis.differences.selection import Chosen, Columns, choose, no_column
from replayer.errors import Impossible, ReplayerError
from replayer.machine.boot_line import split_line
from replayer.model import Noun, Run, Status
from replayer.results import store

FORMAT = 2
_FIXED = 1
"""The format of a plan whose order is fixed."""
JOBS = ("ab", "bisect", "experiment")
"""The commands that a plan may name as its job."""
NEXT = "next boot: "
"""Begins the line in which a plan's job names the kernel that it wants next."""


class BootSchedule(Noun):
    """A plan of boots: the order of their kernels, and the arguments of `replayer run` in each."""

    plan: int = _FIXED
    """The format of the plan file."""
    kernels: tuple[str, ...]
    """Releases as `uname -r` prints them, or patterns such as 6.12.*; the first is the base.

    Words after a release are on the kernel's command line: `6.12.9 mitigations=off`."""
    order: tuple[str, ...] = ()
    """The kernel of each boot, in the order of boots; () if the job names each one."""
    method: Literal["alternating", "random", "job"]
    seed: int | None = None
    arguments: tuple[str, ...] = ()
    """The words after `replayer run`."""
    job: tuple[str, ...] = ()
    """The words after `replayer` of the experiment that does each boot's work, and then names the
    kernel of the next boot."""

    def turn(self, number: int) -> str:
        """Return the name of a turn, which is one boot of the plan, such as `turn 2 of 8`.

        `number` is that of the turn, from 1.
        """
        return f"turn {number}" if self.job else f"turn {number} of {len(self.order)}"


class BootTarget(NamedTuple):
    """A kernel of a plan: a release, and words that the kernel's command line must have."""

    release: str
    """The release, or a pattern of releases."""
    words: tuple[str, ...]
    """Words that must be on the kernel's command line."""

    def fits(self, release: str, line: Sequence[str]) -> bool:
        """Return whether a boot is one of this target, by its kernel.

        `release` is the kernel's release, and `line` has the words that it reads on its command
        line.
        """
        named = release == self.release or fnmatchcase(release, self.release)
        return named and set(self.words) <= set(line)

    def merged(self, line: str) -> str:
        """Return a kernel's command line with the target's words, where the kernel reads them.

        Words that the kernel reads with the same keys (the part before `=`) are removed.
        """
        keys = {word.partition("=")[0] for word in self.words}
        words, others = split_line(line)
        kept = [word for word in words if word.partition("=")[0] not in keys]
        return " ".join([*kept, *self.words, *others])


def target_of(kernel: str) -> BootTarget:
    """Return the target that a kernel of a plan names, such as `6.12.9 mitigations=off`.

    It is a release, and the words that must be on the kernel's command line.
    """
    release, *words = kernel.split()
    return BootTarget(release, tuple(words))


def of_job(kernels: Sequence[str], job: Sequence[str], arguments: Sequence[str]) -> BootSchedule:
    """Return a plan without a fixed order: its job names the kernel of each next boot.

    A job is one of the commands `ab`, `bisect` and `experiment`.  `job` has its words after
    `replayer`.  `arguments` has the words after `replayer run` in all of its runs.
    """
    return BootSchedule(
        plan=FORMAT,
        kernels=tuple(kernels),
        method="job",
        job=tuple(job),
        arguments=tuple(arguments),
    )


def draw(kernels: Sequence[str], boots: int, *, seed: int | None = None) -> BootSchedule:
    """Return a plan of `boots` boots: A B B A …, or, with a seed, each round in random order.

    `kernels` are releases, patterns of them, or both with words of the command line.  A round boots
    every kernel once.  So a machine that gets slower or faster over time does so for all kernels.
    Raises Impossible for fewer than two kernels, if one is given twice or is empty, or if they
    cannot share the boots equally.
    """
    names = [kernel.strip() for kernel in kernels]
    if len(set(names)) < 2 or len(set(names)) != len(names) or not all(names):
        raise Impossible(
            f"a plan needs two or more different kernels, such as --kernels 6.1.0-44,6.12.9; "
            f"{','.join(kernels)!r} are {len(set(names) - {''})}"
        )
    if boots < len(names) or boots % len(names):
        raise Impossible(
            f"{boots} boots cannot be shared equally by {len(names)} kernels: "
            f"ask for {max(1, -(-boots // len(names))) * len(names)}"
        )
    if seed is None:
        order = islice(cycle([*names, *reversed(names)]), boots)
        return BootSchedule(kernels=tuple(names), order=tuple(order), method="alternating")
    dice = random.Random(seed)  # noqa: S311 - an order, not a secret
    rounds = [dice.sample(names, len(names)) for _ in range(boots // len(names))]
    order_of_rounds = tuple(kernel for one in rounds for kernel in one)
    return BootSchedule(kernels=tuple(names), order=order_of_rounds, method="random", seed=seed)


def write(path: Path, schedule: BootSchedule) -> None:
    """Write a plan file; raise Impossible if the file exists or cannot be written."""
    try:
        with (
            trusted_path.Folder(path.parent) as folder,
            os.fdopen(folder.create(path.name), "w", encoding="utf-8") as file,
        ):
            json.dump(schedule.model_dump(mode="json"), file, indent=1)
            file.write("\n")
    except FileExistsError as error:
        raise Impossible(
            f"{path} is already there, and a plan is not changed once made: choose another name"
        ) from error
    except OSError as error:
        raise Impossible(f"the plan {path} cannot be written: {error.strerror}") from error


def load(path: Path) -> BootSchedule:
    """Read a plan file; raise Impossible, in one sentence, if it is missing or not a plan."""
    if not os.path.lexists(path):  # Path.exists() would raise for a name that is too long
        raise Impossible(f"there is no plan {path}: `replayer plan` makes one")
    return parse(path, assets.text(path))


def parse(path: Path, text: str) -> BootSchedule:
    """Return the plan in `text`, that of the file `path`; raise Impossible if it is not a plan."""
    try:
        schedule = BootSchedule.model_validate_json(text)
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise Impossible(
            f"{path} is not a plan of boots ({where or 'it'}: {error.errors()[0]['msg'].lower()}); "
            f"`replayer plan` makes one"
        ) from error
    if schedule.plan > FORMAT:
        raise Impossible(f"{path} has plan format {schedule.plan}, this replayer reads {FORMAT}")
    if bool(schedule.order) == bool(schedule.job):
        raise Impossible(
            f"{path} is not a plan of boots: it must have either an order of kernels or a job"
        )
    if not (set(schedule.order) <= set(schedule.kernels) and all(map(str.strip, schedule.kernels))):
        raise Impossible(
            f"{path} is not a plan of boots: its order names kernels that it does not have"
        )
    return schedule


def load_own(path: Path) -> BootSchedule:
    """Read the plan of a job, which is a command that will run after each boot, such as `ab`.

    Raise Impossible if another user can change the file, or if it is not the plan of a job.
    """
    with trusted_path.steady(path.absolute().parent, "the plan's folder") as place:
        try:
            text = place.read(path.name)
            if place.mode(path.name) & (stat.S_IWGRP | stat.S_IWOTH):
                raise PermissionError(errno.EPERM, f"others can write it: chmod go-w {path}")
        except (OSError, UnicodeDecodeError) as error:
            raise Impossible(
                f"{path} is not followed: {getattr(error, 'strerror', error)}; its words are "
                f"commands that will run, so only your own plan is taken"
            ) from error
    schedule = parse(path, text)
    if schedule.job[:1] not in [(name,) for name in JOBS]:
        raise Impossible(f"{path} is not a plan of {' or '.join(JOBS)}")
    return schedule


def load_if_plan(text: str) -> Path | None:
    """Return `text` as a path if it is the path of a readable plan file, else None."""
    path = Path(text)
    try:
        keys = json.loads(assets.text(path))
    except (ReplayerError, ValueError, RecursionError):
        return None
    return path if isinstance(keys, dict) and "plan" in keys and "order" in keys else None


def folder(path: Path) -> Path:
    """Return the folder of a plan's runs, which is next to the plan file `path`.

    For `x.json` it is `x.runs`.
    """
    return path.with_name(f"{path.stem}.runs")


@contextlib.contextmanager
def made_folder(path: Path) -> Iterator[trusted_path.Folder]:
    """Open the folder of the runs of the plan `path` in the `with` block; make it if it is missing.

    Raises Impossible if another user can swap it, and OSError if it cannot be made.
    """
    place = folder(path)
    with (
        trusted_path.steady(place.parent, "the plan's folder") as parent,
        contextlib.suppress(FileExistsError),
    ):
        parent.make(place.name, 0o755)
    with trusted_path.steady(place, "the folder of the plan's runs") as made:
        yield made


def runs(path: Path, columns: Columns = no_column) -> list[Run]:
    """Return the runs of the plan at `path`, sorted by their start, except those without a step.

    `columns` selects the columns of series that are read; by default there are none.
    """
    if not folder(path).is_dir():
        return []
    entries = [e for e in store.runs(folder(path)) if isinstance(e, store.StoredRun)]
    loaded = [store.load(entry.path, columns) for entry in entries]
    return [run for run in loaded if run.steps]


def planned(schedule: BootSchedule, release: str, line: str = "") -> str | None:
    """Return the kernel of the plan that matches a release and a command line, or None.

    `release` and `line` are those of a booted kernel.  If several match, it is the one that names
    the most words of the command line, and among these the one whose release is not a pattern.
    Raises Impossible if several are left.
    """
    words, _ = split_line(line)
    targets = {kernel: target_of(kernel) for kernel in schedule.kernels}
    ranks = {
        kernel: (len(target.words), target.release == release)
        for kernel, target in targets.items()
        if target.fits(release, words)
    }
    fitting = [kernel for kernel, rank in ranks.items() if rank == max(ranks.values())]
    if len(fitting) > 1:
        raise Impossible(f"the kernel {release} fits {' and '.join(fitting)} of the plan")
    return fitting[0] if fitting else None


def planned_for(schedule: BootSchedule, run: Run) -> str | None:
    """Return the kernel of the plan that a run was made with; None if it is not in the plan.

    Raises Impossible if several kernels of the plan match.
    """
    release, line = (str(run.host.get(f"kernel.{key}", "")) for key in ("release", "cmdline"))
    return planned(schedule, release, line)


def finished(schedule: BootSchedule, made: Sequence[Run]) -> list[Run]:
    """Return the runs that count for the plan, in the order of `made`.

    A run counts if it is finished and was made with a kernel of the plan.  Of several in one boot,
    only the first counts.
    """
    boots: set[object] = set()
    kept = []
    for run in made:
        boot = run.host.get("boot.id")
        known = planned_for(schedule, run)
        if run.status is Status.DONE and known and boot not in boots:
            boots.add(boot)
            kept.append(run)
    return kept


def admit(
    schedule: BootSchedule, made: Sequence[Run], release: str, boot: str, line: str = ""
) -> int:
    """Return the number of the turn (boot of the plan) that the present boot may take, from 1.

    `made` are the runs so far.  `release`, `boot` and `line` are the kernel, the id and the
    kernel's command line of the present boot.  Raises Impossible if all turns are done, if the
    boot's id is not known or was used before, or if its kernel is wrong.
    """
    done = len(finished(schedule, made))
    if done == len(schedule.order):
        raise Impossible(
            f"all {done} boots of the plan are done; compare them with replayer compare"
        )
    if not boot:
        raise Impossible("this kernel has no boot id, so boots cannot be distinguished")
    wanted = schedule.order[done]
    if any(run.host.get("boot.id") == boot for run in made):
        raise Impossible(
            f"this boot was used already: a boot counts once, so reboot into {wanted} "
            f"for turn {done + 1} of {len(schedule.order)}"
        )
    if planned(schedule, release, line) != wanted:
        raise Impossible(
            f"turn {done + 1} of {len(schedule.order)} is for {wanted} and this is {release}: "
            f"boot {wanted}"
        )
    return done + 1


def what_next(schedule: BootSchedule, made: Sequence[Run], path: Path) -> str:
    """Return a sentence with the next thing to do for a plan: which kernel to boot, or to compare.

    `made` are the runs so far, and `path` is the plan file.
    """
    done = len(finished(schedule, made))
    total = len(schedule.order)
    if done == total:
        return f"all {total} boots are done; next: replayer compare {path}"
    return f"{done} of {total} boots done; next: boot {schedule.order[done]}, replayer step {path}"


def choose_runs(
    named: Sequence[str],
    where: Path,
    *,
    by: str = "",
    only: Sequence[str] = (),
    columns: Columns = None,
) -> Chosen:
    """Return the groups of runs that the words `named` select.

    A word is a file, a folder, a pattern of files, a label or an id.  Each word gives a group, or
    each value of the fact `by`.  But if the only word names a plan file and `by` is "", each kernel
    of the plan is a group.  Labels and ids are looked up in the folder `where`.  `only` are
    conditions such as workload.name=demo.  `columns` selects the columns of series that are read;
    None means all.  Raises Impossible or NotFound if no run is selected.
    """
    plan = load_if_plan(named[0]) if len(named) == 1 and not by else None
    if plan is not None:
        return chosen(plan, columns)
    return choose(named, where, by=by, only=only, columns=columns)


def chosen(path: Path, columns: Columns = None) -> Chosen:
    """Return the finished runs of the plan file `path`, grouped by the kernels of the plan.

    `columns` selects the columns of series that are read; None means all.  Raises Impossible if a
    kernel has no run, or if the plan is that of a job such as `ab`.
    """
    schedule = load(path)
    if schedule.job:
        raise Impossible(f"{path} is the plan of a `replayer {schedule.job[0]}`, which compares")
    made = finished(schedule, runs(path, columns))
    groups: dict[str, list[Run]] = {kernel: [] for kernel in schedule.kernels}
    for run in made:
        groups[planned_for(schedule, run) or ""].append(run)
    missing = [kernel for kernel, members in groups.items() if not members]
    if missing:
        raise Impossible(
            f"the plan {path} has no finished run of {' and '.join(missing)} yet: "
            f"{what_next(schedule, made, path)}"
        )
    remarks = []
    if len(made) < len(schedule.order):
        remarks.append(f"the plan is not finished: {what_next(schedule, made, path)}")
    sides = [Side(kernel, tuple(members)) for kernel, members in groups.items()]
    return Chosen(sides, remarks, "host.kernel.release")
