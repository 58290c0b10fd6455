"""Temperatures of data: make files cold or hot, and measure how much is in the page cache."""

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from replayer.conditions import underneath
from replayer.conditions.residency import Residency, prove, residency
from replayer.conditions.underneath import Underneath
from replayer.errors import ReplayerError, Skip
from replayer.machine import page_cache
from replayer.machine.host import Host
from replayer.model import Cold, Temperature
from replayer.servers.protocol import Server
from replayer.units import show_size

COLD_SHARE = 0.001
"""Data are cold if at most this share of the bytes is in memory.  A stopping server, or the proof
itself, may touch a page or two of a large table: that does not make the table lukewarm."""
HOT_SHARE = 0.999
"""Data are hot if at least this share of the bytes is in memory."""
DEVICE_SHARE = 0.95
"""A read is cold if at least this share of the bytes came from the device."""
_FOREIGN_FROM = 1.25
"""From this ratio of delivered to needed bytes on, the device also served other programs."""
_OWN_TODO = "run as root, or stop what else reads from this device"
_TRIES = 3
_WARMERS = 4
_DROP_CACHES = "proc/sys/vm/drop_caches"
_EVERYTHING = "3"


@dataclass(frozen=True, slots=True)
class _Judgement:
    """The measured temperature of files.

    `why` is the reason if it is not the temperature asked for, `todo` is advice on that.
    """

    got: Temperature
    why: str = ""
    todo: str = ""


def make(
    asked: Temperature,
    server: Server | None,
    files: Sequence[str | Path],
    host: Host,
    *,
    server_reads: bool = True,
) -> Cold:
    """Bring files to a temperature; return the temperature that was measured then.

    cold: the server is stopped, or its buffers are emptied if it is not replayer's; everything is
    written out, and caches are dropped.  lukewarm: the same, but the server keeps running and its
    buffers stay.  hot: every file is read into memory.  unknown: nothing is done.  If the right to
    a part of this is missing, the other parts are done; `method` and `why` of the result name them.

    `server` is None for files that belong to no server.  `server_reads` is False if processes other
    than the server will read the files: then what is in the server's own buffers does not count.
    """
    prove(files)
    if asked is Temperature.HOT:
        warm(files)
        return _judge(asked, ("every file read",), residency(files), files, host, others=True)
    if asked is Temperature.UNKNOWN:
        return _judge(asked, ("left as found",), residency(files), files, host, others=True)
    steps: list[str] = []
    others = server is not None
    if server is not None and asked is Temperature.COLD:
        steps, others = _without_buffers(server, server_reads=server_reads)
    below = underneath.stack_of(files, host)
    for _ in range(_TRIES):
        dropped = drop(files, host)
        underneath.forget(below)
        measured = residency(files)
        if measured.share is None or measured.share <= COLD_SHARE:
            break
    if _drop_all(host) == "":
        # The proof has opened every file: directory entries and inodes are in memory again.
        dropped += ", proven, dropped again"
    return _judge(asked, (*steps, dropped), measured, files, host, others=others)


def _without_buffers(server: Server, *, server_reads: bool) -> tuple[list[str], bool]:
    """Stop a server; if that is not allowed, empty its buffers, so that they hold no data.

    The buffers are not emptied if `server_reads` is False, because no server process will read the
    files.  Returns the steps that were done, as text, and whether the buffers may still hold data
    that counts.
    """
    try:
        server.stop()
    except Skip as skip:
        steps = [f"server not stopped ({skip})"]
    else:
        return ["server stopped"], False
    if not server_reads:
        return steps, False
    try:
        return [*steps, server.evict()], False
    except Skip as no_way:
        return [*steps, f"its buffers not emptied ({no_way})"], True


def make_files(
    asked: Temperature,
    files: Sequence[str | Path],
    host: Host,
    *,
    others: bool,
    done: Callable[[int], None] = lambda _bytes: None,
) -> Cold:
    """Bring files to a temperature while a server runs; return the temperature measured afterwards.

    If `asked` is HOT, every file is read into the page cache.  Otherwise every file is dropped from
    it.  `others` is True if the server may hold some of the data in its own buffers; it is False
    for a server that has just been started.  `done` is called after each file that was read, with
    its number of bytes.
    """
    prove(files)
    below = underneath.stack_of(files, host)
    for _ in range(2):  # another process may drop the page cache, or fill it, in these seconds
        if asked is Temperature.HOT:
            warm(files, done)
            step = "every file read"
        else:
            step = forget(files)
            underneath.forget(below)
        measured = residency(files)
        share = 0.0 if measured.share is None else measured.share
        if share >= HOT_SHARE if asked is Temperature.HOT else share <= COLD_SHARE:
            break
    return _judge(asked, (step,), measured, files, host, others=others)


def drop(files: Iterable[str | Path], host: Host) -> str:
    """Write changed pages to the disk, and drop data from the page cache.

    If the user has the right, all caches of the machine are dropped, otherwise only those of the
    files.  Returns a short text on the method.
    """
    refused = _drop_all(host)
    if not refused:
        return "sync, drop_caches"
    return f"{forget(files)} (drop_caches: {refused}; directory entries and inodes stay in memory)"


def forget(files: Iterable[str | Path]) -> str:
    """Drop each file from the page cache, and return a short text on the result.

    The user needs only the right to open the files.
    """
    unread = 0
    for path in files:
        try:
            page_cache.forget(path)
        except FileNotFoundError:
            continue
        except OSError:
            unread += 1
    left = f", but {unread} of them could not be opened" if unread else ""
    return f"fdatasync and POSIX_FADV_DONTNEED of every file{left}"


def warm(files: Iterable[str | Path], done: Callable[[int], None] = lambda _bytes: None) -> None:
    """Read all files into the page cache; skip a file that has vanished.

    `done` is called with the bytes of each file.  Raises ReplayerError with the name of a file that
    cannot be read.
    """
    with ThreadPoolExecutor(_WARMERS) as pool:
        # Consume the results here: the first failure must be raised here.
        for read_bytes in pool.map(_load, files):
            done(read_bytes)


def finish(
    cold: Cold,
    device_bytes: float | None,
    own_bytes: int | None = None,
    *,
    needed_bytes: int | None = None,
    disk_bytes: int | None = None,
) -> Cold:
    """Return a copy of `cold`, the temperature before a read, corrected after that read.

    It stays cold only if the bytes came from a device, and hot only if they did not.  During the
    read, `device_bytes` were read from the device by any process, and `own_bytes` by the reading
    processes; None means not counted.  Without `own_bytes`, `device_bytes` is used instead.
    `needed_bytes` is the amount read, if that was not all of the files.  Of it, no device has to
    deliver more than is on the disk: a server also counts reads of pages that were reserved and
    never written.  `disk_bytes` is the amount that the disks beneath the device delivered, if the
    device itself is not a disk.
    """
    known = cold.model_copy(
        update={
            "device_bytes": None if device_bytes is None else int(device_bytes),
            "own_bytes": own_bytes,
        }
    )
    delivered = device_bytes if own_bytes is None else own_bytes
    on_disk = _expected(cold)
    read = on_disk if needed_bytes is None else needed_bytes
    expected = min(read, on_disk)
    if cold.got is Temperature.HOT and cold.asked is Temperature.HOT and delivered is not None:
        return _still_hot(known, delivered, whose="the device" if own_bytes is None else "")
    if cold.got is not Temperature.COLD or delivered is None:
        return known
    known = known.model_copy(update={"missing_bytes": max(0, round(expected - delivered))})
    # A server without a cache may read what is on the disk several times.
    if own_bytes is None and delivered > _FOREIGN_FROM * max(read, expected):
        return known.model_copy(
            update={
                "got": Temperature.UNKNOWN,
                "why": f"the device delivered {show_size(delivered)} where {show_size(expected)} "
                f"were needed, and how much of that was for those who read is not known",
                "todo": _OWN_TODO,
            }
        )
    if delivered >= DEVICE_SHARE * expected:
        return _down_to_disks(known, expected, disk_bytes)
    return known.model_copy(
        update={
            "got": Temperature.LUKEWARM,
            "why": _short(expected, delivered, device_bytes, own=own_bytes is not None),
            "todo": "stop whatever else reads these files, or what caches below them",
        }
    )


def _still_hot(cold: Cold, delivered: float, whose: str) -> Cold:
    """Return `cold` if nearly no bytes came from the device, else a copy that is not hot.

    `delivered` is the number of bytes from the device.  `whose` is "" if it counts the reading
    processes only: then the copy is lukewarm.  Otherwise `whose` is the device, and `delivered`
    counts all processes: then the copy is unknown.
    """
    if delivered <= (1 - DEVICE_SHARE) * _expected(cold):
        return cold
    amount = f"{show_size(delivered)} of {show_size(_expected(cold))}"
    if whose:
        return cold.model_copy(
            update={
                "got": Temperature.UNKNOWN,
                "why": f"{whose} delivered {amount}, and how much of that was for those who read "
                f"is not known",
                "todo": _OWN_TODO,
            }
        )
    return cold.model_copy(
        update={
            "got": Temperature.LUKEWARM,
            "why": f"those who read had {amount} from the device, although all was in the page "
            f"cache before: it was dropped meanwhile, or they read around it",
            "todo": "stop what drops the page cache, or have them read through it",
        }
    )


def _down_to_disks(cold: Cold, expected: int, disk_bytes: int | None) -> Cold:
    """Return `cold` if the disks beneath a virtual device (such as a loop device) sent the bytes.

    Otherwise, returns a copy that is lukewarm.  `disk_bytes` is what the disks delivered; None if
    there are no such disks: then `cold` is returned.
    """
    if disk_bytes is None or disk_bytes >= DEVICE_SHARE * expected:
        return cold
    return cold.model_copy(
        update={
            "got": Temperature.LUKEWARM,
            "missing_bytes": expected - disk_bytes,
            "why": (
                f"the disks beneath the device delivered {show_size(disk_bytes)} of "
                f"{show_size(expected)}: the rest was in memory beneath it"
            ),
            "todo": "give a folder on a disk",
        }
    )


def _expected(cold: Cold) -> int:
    return (cold.file_bytes or 0) if cold.stored_bytes is None else cold.stored_bytes


def _short(expected: int, delivered: float, device_bytes: float | None, *, own: bool) -> str:
    """Return a sentence on a read for which too few bytes came from the device, and why.

    `expected` bytes were needed, and `delivered` bytes came from the device.  `own` is True if
    `delivered` counts the reading processes only; `device_bytes` counts all processes.
    """
    wanted = show_size(expected)
    elsewhere = "came from a cache that is not the page cache, or is stored compressed"
    if not own:
        return f"the device delivered {show_size(delivered)} of {wanted}: the rest {elsewhere}"
    others = (
        f", though the device delivered {show_size(device_bytes)} in all"
        if device_bytes is not None and device_bytes >= DEVICE_SHARE * expected
        else ""
    )
    return (
        f"the reading processes had {show_size(delivered)} of {wanted} from the device{others}: "
        f"another program read the rest into memory after the proof, or it {elsewhere}"
    )


def _judge(
    asked: Temperature,
    steps: Sequence[str],
    measured: Residency,
    files: Sequence[str | Path],
    host: Host,
    *,
    others: bool,
) -> Cold:
    """Return the temperature of files, from the share of their data that is in memory.

    `measured` has that share.  `others` is True if a running server may hold data of the files in
    its own buffers.  `steps` are the steps that were done before, as text.
    """
    judgement = _judgement(measured, others=others)
    judgement = _looked_beneath(judgement, measured, files, host)
    if judgement.got is not asked:
        judgement = _explained(judgement, asked, measured, host)
    elif asked is not Temperature.UNKNOWN:
        judgement = _Judgement(asked)
    return Cold(
        asked=asked,
        got=judgement.got,
        method=", ".join(steps),
        proof=measured.method if judgement.got is not Temperature.UNKNOWN else "",
        resident_bytes=measured.resident_bytes if measured.sees else None,
        file_bytes=measured.file_bytes,
        data_bytes=measured.data_bytes,
        stored_bytes=measured.stored_bytes,
        why=judgement.why,
        todo=judgement.todo,
    )


def _judgement(measured: Residency, *, others: bool) -> _Judgement:
    share = measured.share
    if share is None or (share <= COLD_SHARE and not measured.sees):
        return _unmeasured(measured)
    if share >= HOT_SHARE:
        return _Judgement(Temperature.HOT) if measured.misses else _held(measured)
    if share > COLD_SHARE:
        return _Judgement(Temperature.LUKEWARM)
    if others:
        return _Judgement(
            Temperature.LUKEWARM,
            "the server was not stopped, and has a cache of its own",
            "let replayer start the server itself, which it can stop (--engine NAME)",
        )
    return _Judgement(Temperature.COLD)


def _unmeasured(measured: Residency) -> _Judgement:
    if measured.resident_bytes is None:
        return _Judgement(Temperature.UNKNOWN, measured.why, "run as root or as the files' owner")
    if not measured.data_bytes:
        why = "the files are holes only" if measured.file_bytes else "the files have no bytes"
        return _Judgement(Temperature.UNKNOWN, why, "read files that have data in them")
    todo = "name a folder on the file system below this one, or one on a local disk"
    return _Judgement(Temperature.UNKNOWN, measured.why, todo)


def _held(measured: Residency) -> _Judgement:
    return _Judgement(
        Temperature.UNKNOWN,
        f"{measured.method} reports that all is in memory, and no page could be dropped to "
        f"test that report",
        "stop the programs that map or lock these files",
    )


def _looked_beneath(
    judgement: _Judgement, measured: Residency, files: Sequence[str | Path], host: Host
) -> _Judgement:
    """Return `judgement`, corrected if the files are in memory beneath their file system.

    Such memory is a device that is memory itself, or the page cache of the file in which a loop
    device stores its data.  The judgement is unknown if the data in such memory cannot be counted.
    """
    below = underneath.stack_of(files, host)
    if below.memory and not (below.disks or below.hidden):
        names = " and ".join(below.memory)
        return _Judgement(
            Temperature.HOT,
            f"the files are on {names}, which is memory and nothing else",
            "give a folder on a disk",
        )
    if judgement.got is not Temperature.COLD:
        return judgement
    if below.memory or below.hidden:
        names = " and ".join((*below.memory, *below.hidden))
        return _Judgement(
            Temperature.UNKNOWN,
            f"the files are on {names}, and what of them is in memory there cannot be counted here",
            "give a folder on a local disk",
        )
    return _served(underneath.look(files, below), measured) or judgement


def _served(known: Underneath, measured: Residency) -> _Judgement | None:
    """Return the judgement if memory beneath loop devices holds the files' data, else None.

    `known` is the amount of data in that memory.  The judgement is lukewarm; if the amount is not
    known, it is unknown.
    """
    if known.why:
        return _Judgement(Temperature.UNKNOWN, known.why, "run as root, or give a folder on a disk")
    if known.resident_bytes <= COLD_SHARE * measured.data_bytes:
        return None
    names = " and ".join(known.files)
    if not known.exact:
        return _Judgement(
            Temperature.UNKNOWN,
            f"{show_size(known.resident_bytes)} of {names} are in memory, and how much of that is "
            f"of these files is not known",
            "run as root, or give a folder on a disk",
        )
    share = 100 * known.resident_bytes / measured.data_bytes
    return _Judgement(
        Temperature.LUKEWARM,
        f"{share:.3g} % of the bytes were in the page cache of {names}",
        "run as root, so that all caches can be dropped, or give a folder on a disk",
    )


def _explained(
    judgement: _Judgement, asked: Temperature, measured: Residency, host: Host
) -> _Judgement:
    """Return the judgement with a reason and advice, for files without the temperature `asked` for.

    A judgement that already has a reason is returned unchanged, except for lukewarm files that were
    to be hot: its reason is only about their not being cold.
    """
    # A cache of the server, which keeps data from being cold, is no reason for its not being hot.
    lost = asked is Temperature.HOT and judgement.got is Temperature.LUKEWARM
    if judgement.why and not lost:
        return judgement
    why = f"{100 * (measured.share or 0):.3g} % of the bytes were in the page cache"
    if asked is Temperature.HOT:
        todo = "stop what drops the page cache, or take less data than there is memory"
    elif host.cannot_write(_DROP_CACHES):
        todo = "run as root, so that all caches can be dropped"
    else:
        todo = "stop whatever else reads, maps or locks these files"
    return _Judgement(judgement.got, why, todo)


def _drop_all(host: Host) -> str:
    """Drop all caches of the machine; return "", or the system's error if it refuses."""
    refused = host.cannot_write(_DROP_CACHES)
    if refused:
        return refused
    os.sync()
    try:
        host.write(_DROP_CACHES, _EVERYTHING)
    except OSError as error:
        return str(error.strerror)
    return ""


def _load(path: str | Path) -> int:
    """Read a file into the page cache and return its size in bytes."""
    try:
        return page_cache.load(path)
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise ReplayerError(f"{path} could not be read: {error.strerror}") from error
