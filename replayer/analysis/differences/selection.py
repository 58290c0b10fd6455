"""Selection of runs by words on a command line: a file, a folder, a pattern, a label or an id."""

import glob
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from replayer.analysis.differences.environment import MISSING, facts, resolve
from replayer.analysis.differences.samples import Side, without_copies
from replayer.errors import Impossible, nearest
from replayer.model import Run, Status
from replayer.results import editing, store
from replayer.results.tags import NOT_COUNTED
from replayer.units import show_with_noun

_MOST_NAMED = 3
_NOT_SOUND = frozenset({Status.FAILED, Status.PARTIAL})
Columns = Callable[[str], bool] | None
"""A function that returns whether a column of series, given by its name, is needed; None for all.
"""


def no_column(_name: str) -> bool:
    """Return False: used as a filter of columns, this means that no column of series is read."""
    return False


@dataclass
class Chosen:
    """The runs that a user selected, in groups, and sentences about the selection.

    `by` is the fact by which they were grouped; "" if each word gave a group.
    """

    sides: list[Side] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    """Sentences about skipped files and about runs that do not count."""
    by: str = ""


def choose(
    words: Sequence[str],
    where: Path,
    *,
    by: str = "",
    only: Sequence[str] = (),
    columns: Columns = None,
) -> Chosen:
    """Return a group of runs for each word, or, with `by`, one for each value of that fact.

    A word is a file, a folder, a pattern of files, a label or an id.  `where` is the folder in
    which labels and ids are looked up.  `by` is a fact, or `fact=base,other`.  `only` are
    conditions such as workload.name=demo.  `columns` selects the columns of series that are read;
    None means all.  Raises Impossible or NotFound, in one sentence, for a word without any run, a
    condition that no run meets, and a fact that no run has.
    """
    chosen = Chosen()
    # One group is compared with nothing, so that runs which measured nothing can be reported too.
    alone = len(words) == 1 and not by
    for word in words:
        files = _files(word, where, chosen.said)
        loaded = [store.load(path, columns) for path in files or [store.find(word, where)]]
        # A word for a single run means this run, even if it failed.  A word for many runs means
        # those that measured something.
        loaded = _once(word, loaded, chosen.said)
        single = not files or (alone and len(loaded) == 1)
        ended = _ended(word, loaded, chosen.said, single=single)
        sound = ended if single else _sound(word, ended, chosen.said, alone=alone)
        runs = _only(sound, only)
        if not runs:
            raise Impossible(f"no run of {word} has {' and '.join(only)}")
        chosen.sides.append(Side(_named(word, runs), tuple(runs)))
    return _grouped(chosen, by) if by else chosen


def _files(word: str, where: Path, remarks: list[str]) -> list[Path]:
    """Return the files of a word that stands for many runs: a folder, a pattern or a label.

    Return [] if the word is none of these.  `where` is the folder in which labels are looked up.
    Sentences about skipped files are added to `remarks`.
    """
    path = Path(word)
    if os.path.isdir(path):  # noqa: PTH112 - a Path raises below a folder of another user
        return _of_folder(path, remarks)
    if any(sign in word for sign in "*?["):
        matching = sorted(Path(name) for name in glob.glob(word))  # noqa: PTH207 - absolute too
        if matching:
            return matching
    if os.path.isfile(path):  # noqa: PTH113 - a Path raises below a folder of another user
        return []
    listed = [entry for entry in store.runs(where) if isinstance(entry, store.StoredRun)]
    return [entry.path for entry in listed if word and entry.label == word]


def _once(word: str, runs: Sequence[Run], remarks: list[str]) -> list[Run]:
    """Return each run once; a sentence about copies of run files is added to `remarks`.

    `word` is the user's word for the runs, with which the sentence begins.
    """
    kept = without_copies(runs)
    copies = len(runs) - len(kept)
    if copies:
        remarks.append(
            f"{word}: {copies} of {len(runs)} files are copies of others, and each run counts once"
        )
    return kept


def _ended(word: str, runs: Sequence[Run], remarks: list[str], *, single: bool) -> list[Run]:
    """Return the runs that have ended; a sentence about those under way is added to `remarks`.

    `word` is the user's word for the runs.  It is not known whether a run that another machine or
    boot did not finish is still under way.  Such a run is taken if the word names this run alone
    (`single`), and left out otherwise.  Raises Impossible if no run is left.
    """
    growing = [
        run
        for run in runs
        if run.status is Status.RUNNING
        and (
            editing.written_by(run.writer)
            if single
            else not editing.cut(run.status.value, run.writer)
        )
    ]
    if not growing:
        return list(runs)
    sentence = (
        f"{word}: {_count(growing)} {_are(growing)} under way and left out "
        f"({_some(run.id for run in growing)})"
    )
    if len(growing) == len(runs):
        raise Impossible(f"{sentence}, so that nothing is left to compare: wait for the end")
    remarks.append(sentence)
    return [run for run in runs if run not in growing]


def _sound(word: str, runs: Sequence[Run], remarks: list[str], *, alone: bool) -> list[Run]:
    """Return the runs that did not fail and measured something.

    `word` is the user's word for the runs.  Runs that `ab` or `experiment` tagged as not counted
    are left out, unless all are tagged.  Sentences about the runs left out are added to `remarks`.
    If no run is left, all are returned if the group is `alone`; otherwise Impossible is raised.
    """
    spoilt = [run for run in runs if NOT_COUNTED in run.tags]
    if spoilt and len(spoilt) < len(runs):
        remarks.append(
            f"{word}: {_count(spoilt)} {_are(spoilt)} set aside, as `ab` or `experiment` did not "
            f"count {'it' if len(spoilt) == 1 else 'them'} ({_some(run.id for run in spoilt)})"
        )
        runs = [run for run in runs if run not in spoilt]
    sound = [run for run in runs if run.status not in _NOT_SOUND and _measured(run)]
    if len(sound) == len(runs):
        return sound
    if alone and not sound:
        return list(runs)
    lost = [run for run in runs if run not in sound]
    partial = any(run.status is Status.PARTIAL for run in lost)
    how = "failed, lost a host" if partial else "failed"
    sentence = (
        f"{word}: {_count(lost)} {how} or measured nothing and {_are(lost)} set aside "
        f"({_some(f'{run.id}: {run.error or run.status.value}' for run in lost)})"
    )
    if not sound:
        raise Impossible(f"{sentence}, so that nothing is left to compare")
    remarks.append(sentence)
    return sound


def _measured(run: Run) -> bool:
    return any(step.status is Status.DONE and step.measurements for step in run.steps)


def _count(runs: Sequence[Run]) -> str:
    return show_with_noun(len(runs), "run")


def _are(runs: Sequence[Run]) -> str:
    return "is" if len(runs) == 1 else "are"


def _some(words: Iterable[str]) -> str:
    """Return the first three of `words` and the number of the others, as `a; b; c; and 2 more`."""
    listed = list(words)
    rest = f"; and {len(listed) - _MOST_NAMED} more" if len(listed) > _MOST_NAMED else ""
    return "; ".join(listed[:_MOST_NAMED]) + rest


def _of_folder(folder: Path, remarks: list[str]) -> list[Path]:
    entries = store.runs(folder)
    bad = [entry for entry in entries if isinstance(entry, store.Unreadable)]
    runs = [entry.path for entry in entries if isinstance(entry, store.StoredRun)]
    if bad:
        named = _some(f"{one.path.name}: {one.reason}" for one in bad)
        remarks.append(f"{folder}: {len(bad)} files are no runs and were passed over ({named})")
    if not runs:
        raise Impossible(remarks[-1] if bad else f"the folder {folder} holds no runs of replayer")
    return runs


def _only(runs: Sequence[Run], conditions: Iterable[str]) -> list[Run]:
    kept = list(runs)
    for condition in conditions:
        key, sign, value = condition.partition("=")
        if not sign:
            raise Impossible(
                f"{condition!r} is not a condition: it must be such as workload.name=demo"
            )
        name = resolve(key, runs)
        kept = [run for run in kept if facts(run).get(name, MISSING) == value]
    return kept


def _named(word: str, runs: Sequence[Run]) -> str:
    """Return the name of a side: the label that all of its runs have, if there is one.

    Otherwise it is the id of a single run, the name of a folder, or the user's word.
    """
    labels = {run.label for run in runs}
    if len(labels) == 1 and (label := min(labels)):
        return label
    path = Path(word)
    return runs[0].id if len(runs) == 1 else (path.resolve().name if path.is_dir() else word)


def _grouped(chosen: Chosen, by: str) -> Chosen:
    """Return the runs of all groups in new groups: one for each value of a fact, earliest first.

    `by` is a fact, or `fact=base,other`, which also gives the order.  Raises NotFound or Impossible
    if no run has the fact or one of these values.
    """
    key, _, wanted = by.partition("=")
    runs = sorted((run for side in chosen.sides for run in side.runs), key=lambda run: run.started)
    unique = without_copies(runs)
    name = resolve(key, unique)
    groups: dict[str, list[Run]] = {}
    for run in unique:
        groups.setdefault(facts(run).get(name, MISSING), []).append(run)
    if wanted:
        asked = [value.strip() for value in wanted.split(",")]
        for value in asked:
            if value not in groups:
                raise Impossible(f"no run has {name} {value!r}{nearest(value, groups)}")
        groups = {value: groups[value] for value in asked}
    elif len(groups) > 2 and MISSING in groups:
        # One of only two groups stays: it may have the runs with the default of a setting.
        strange = groups.pop(MISSING)
        chosen.said.append(
            f"{_count(strange)} without {name} {_are(strange)} set aside "
            f"({_some(run.id for run in strange)})"
        )
    sides = [Side(value, tuple(members)) for value, members in groups.items()]
    return Chosen(sides, chosen.said, name)


def pair(chosen: Chosen) -> tuple[Side, Side]:
    """Return the two groups as the base and the other side of a comparison.

    If they have the same name, (A) and (B) are appended.  Raises Impossible unless there are
    exactly two groups.
    """
    sides = chosen.sides
    if len(sides) == 2:
        base, other = sides
        if base.name == other.name:
            base, other = Side(f"{base.name} (A)", base.runs), Side(f"{other.name} (B)", other.runs)
        return base, other
    if chosen.by:
        values = ", ".join(side.name for side in sides[:8])
        say = "only one value" if len(sides) == 1 else f"{len(sides)} values"
        raise Impossible(
            f"the runs have {say} of {chosen.by} ({values}) and two are compared: "
            f"choose them with --by {chosen.by}=BASE,OTHER"
        )
    given = "1 was" if len(sides) == 1 else f"{len(sides)} were"
    raise Impossible(
        f"two groups are compared and {given} given: name two files, folders or labels, "
        f"or one folder and --by host.kernel"
    )
