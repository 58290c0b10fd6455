"""Settings of the kernel that an experiment changes for a while: read, changed, and given back.

Each setting is a file below /proc/sys or /sys.  Before the file is written, a note in the journal
keeps its value.  So the value is given back at the end, at Ctrl-C, and by the next run after a
kill.  What was written is read back, and a kernel that keeps another value is an error.  A value
that another program wrote meanwhile is left as it is, and reported.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from replayer import journal, signals
from replayer.errors import Impossible, ReplayerError
from replayer.machine.host import Host

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from replayer.journal import Note

_KIND = "kernel-setting"
NOTES = frozenset({_KIND})
"""Kinds of the journal's notes that `recover` handles."""
_FILES = re.compile(
    r"(?:proc/sys/(?:vm|kernel)/[a-z_]+"
    r"|sys/kernel/mm/transparent_hugepage/[a-z_]+"
    r"|sys/kernel/debug/sched/[a-z_]+"
    r"|sys/(?:block|class/block)/[A-Za-z0-9_.!-]+/queue/(?:iosched/)?[a-z_]+"
    r"|sys/fs/btrfs/[0-9a-f-]+/bdi/read_ahead_kb"
    r"|sys/devices/system/cpu/smt/control"
    r"|sys/devices/system/cpu/cpu\d+/online"
    r"|sys/devices/system/cpu/cpufreq/policy\d+/scaling_governor"
    r"|sys/devices/system/cpu/cpu\d+/cpuidle/state\d+/disable)"
)
"""The files, below the root, that replayer changes and that a note may name."""
_VALUE = re.compile(r"[A-Za-z0-9_.+-]{1,64}")
_CHOSEN = re.compile(r"[\[(]([^\])]+)[\])]")
_MARKS = str.maketrans("", "", "[]()")


def level(text: str) -> str:
    """Return the level (value in force) in a kernel file's text, as in `always [madvise] never`.

    It is the word in brackets; without brackets, as in the file of a number, it is the whole text.
    """
    chosen = _CHOSEN.search(text)
    return chosen[1] if chosen else text


def choices(text: str) -> tuple[str, ...]:
    """Return the levels that a file offers, as in `always [madvise] never`.

    Returns () if no word is in brackets, as in the file of a number.
    """
    return tuple(text.translate(_MARKS).split()) if _CHOSEN.search(text) else ()


def change(host: Host, name: str, files: Mapping[str, str], also: Sequence[str] = ()) -> None:
    """Write files of the kernel (path below the root -> value), read them back, and keep a note.

    `name` is the name of the setting in messages.  `also` are files whose values the kernel changes
    together with `files`: they are given back, too.  The note stays until `recover`, or until the
    next run if this process was killed.
    Raises Impossible if another replayer has changed one of them, ReplayerError if the kernel
    refuses a value or keeps another; then what was changed is given back.
    """
    _refuse_taken(name, files)
    before = {path: own for path in (*files, *also) if (own := level(host.read(path)))}
    with signals.shield():
        note = journal.take(_KIND, name=name, files=before)
    try:
        for path, value in files.items():
            _write(host, name, path, value)
    except ReplayerError:
        with signals.shield():
            _put_back(host, name, before)
            note.drop()
        raise
    with signals.shield():
        # From now on another value is another program's; until now it may have been the kernel's.
        journal.take(_KIND, name=name, files=before, written=dict(files))
        note.drop()


def recover(note: Note, host: Host | None = None) -> str:
    """Write the earlier values, which a note of the journal has, back into the kernel's files.

    Then the note is dropped, and a short message is returned.  A value that another program wrote
    meanwhile is left as it is, and so is a file that is gone, or of a processor that is offline.
    Both are errors if the note is of this process, because the measurement did not have the level
    that was asked for.
    Raises journal.Untrusted, and changes nothing, for a file that replayer never changes.
    """
    host = host or Host()
    name, files = note.text("name"), _table(note, "files")
    written = _table(note, "written") if "written" in note.details else {}
    now = {path: level(host.read(path)) for path in written}
    foreign = {path: now[path] for path, value in written.items() if now[path] not in ("", value)}
    # A recovery that was killed has put back some already.
    is_foreign = any(files.get(path) != value for path, value in foreign.items())
    # A file that the kernel changed with it belongs to the other program's value, too.
    ours = {path for path in files if path not in foreign and (path in written or not is_foreign)}
    gone = _put_back(host, name, {path: files[path] for path in files if path in ours})
    note.drop()
    is_own = note.owner == journal.identity(os.getpid())
    kept = {path: value for path, value in files.items() if path not in gone}
    if is_foreign or (foreign and is_own):
        what = "was changed by another program meanwhile, and is left as it is"
        kept = foreign
    else:
        what = f"of the kernel was {'' if kept else 'not '}given back"
    parts = [_shown(kept)] if kept else []
    if gone:
        parts.append(f"{_listed(gone)} is gone, or of a processor that is offline")
    message = f"the setting {name} {what} ({'; '.join(parts)})"
    if is_own and (foreign or gone):
        raise ReplayerError(message)
    return message


def _put_back(host: Host, name: str, files: Mapping[str, str]) -> list[str]:
    """Write earlier values into the kernel's files; return the files that show no value any more.

    Raises ReplayerError if the kernel refuses one, after the others.
    """
    refused, gone = [], []
    for path, value in files.items():
        now = level(host.read(path))
        if not now:
            gone.append(path)
        elif now != value:
            try:
                host.write(path, value)
            except OSError as error:
                refused.append(f"/{path} did not take {value} ({error.strerror})")
    if refused:
        raise ReplayerError(f"the setting {name} could not be given back: {'; '.join(refused)}")
    return gone


def own(kinds: frozenset[str] = NOTES) -> list[Note]:
    """Return the journal's notes that this process wrote, in the order in which it wrote them.

    A note records a change that has to be undone; only notes of these `kinds` are returned.
    """
    mine = journal.identity(os.getpid())
    return journal.in_order(note for note in journal.notes(*kinds) if note.owner == mine)


def _write(host: Host, name: str, path: str, value: str) -> None:
    try:
        host.write(path, value)
    except (OSError, UnicodeEncodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not plain text"
        raise ReplayerError(f"{name}={value}: /{path} did not take it ({reason})") from error
    kept = level(host.read(path))
    if kept != value:
        raise ReplayerError(
            f"{name}={value}: the kernel keeps {kept or 'nothing'} in /{path}: give a level that "
            f"it keeps as it is"
        )


def _refuse_taken(name: str, files: Mapping[str, str]) -> None:
    for note in journal.notes(_KIND):
        taken = note.details.get("files")
        shared = isinstance(taken, dict) and set(taken) & set(files)
        if shared and not note.abandoned and note.owner != journal.identity(os.getpid()):
            raise Impossible(
                f"{name} is changed by another replayer (process {journal.pid_of(note.owner)}): "
                f"wait until it has ended"
            )


def _table(note: Note, key: str) -> dict[str, str]:
    """Return the values that a journal's note has under `key`: path of a kernel file -> value.

    Raises Untrusted for content that replayer never writes.
    """
    files = note.details.get(key)
    if not isinstance(files, dict) or not files:
        raise journal.Untrusted(note, "its files are no table")
    for path, value in files.items():
        if not _FILES.fullmatch(path) or not (isinstance(value, str) and _VALUE.fullmatch(value)):
            raise journal.Untrusted(
                note, f"/{str(path)[:200]} is not a setting that replayer changes"
            )
    return files


def _shown(files: Mapping[str, str]) -> str:
    return _listed([f"{path} is {value}" for path, value in files.items()])


def _listed(files: Sequence[str]) -> str:
    few = [f"/{file}" for file in files[:2]]
    more = f", and {len(files) - 2} more files" if len(files) > 2 else ""
    return ", ".join(few) + more
