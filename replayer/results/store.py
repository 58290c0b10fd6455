"""Runs as JSON files: the history of the format, upgrades, atomic writes, and the search for runs.

The history of the format, newest first; every format that was ever released still loads.

3   `headline` is the answer in words; the leading metrics moved from there to `leading`
2   a step's `printed`, `steady`, `reads` and `writes` are fields, and no longer facts whose keys
    end in .line, .lines, .steady or storage.writes; a piece of advice is `found` and `todo`;
    a series has the `device` that was watched; `cpu.events` are passes/s, not events/s;
    a ledger may be `buffered`; a step has `foreign`; `cold` has what is stored and what read it
1   the first: one Run (model.py), key for key
"""

import contextlib
import errno
import functools
import json
import math
import os
import re
import reprlib
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import repeat
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from replayer import __version__, assets, trusted_path, units
from replayer.errors import Impossible, NotFound, ReplayerError, nearest
from replayer.model import Measurement, Run, Series, Status, StepResult
from replayer.results import upgrades

FORMAT = 3
"""The format that this replayer writes; to raise it, add a line above, an upgrade, a fixture."""

_UPGRADES: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = {
    1: upgrades.from_1,
    2: upgrades.from_2,
}
"""N -> the function that turns a dict of format N into one of format N + 1."""

_IN_WORDS = 3
"""The first format whose `headline` is words and not metrics."""
_PART = 3
"""The fewest characters that a part from the middle of an id must have to find a run."""
_NAMED = 3
_SHORT_HEAD = 8 * 1024
_HEAD = 32 * 1024
"""Bytes of a file that are read for a list: the keys before `steps` fit into them."""
_LAST = 16
_LARGEST = 1 << 30
"""Limit on a run's bytes, far above any run so far; a larger file does not fit into memory."""
_LISTED = ("format", "id", "label", "started", "status", "workload")
_HOST = b'\n "host": {\n'
_HOST_END = b"\n }"
_KERNEL = b'  "kernel.release": '
_STEPS = b'\n "steps":'
"""The text after the head of a file that `save` wrote; no JSON string has a line break like it."""
_COLUMNS = b'\n    "columns": {\n'
_COLUMNS_END = b"\n    }"
_COLUMN = b'     "'
_WIDTH = 100
_HUGE = re.compile(rb"[eE]\+?\d{3}")
"""A number that may be too large for a float; pydantic takes such a number for infinity."""
_NOT_FINITE = "it holds a number that is not finite (NaN or Infinity)"


@dataclass(frozen=True, slots=True)
class StoredRun:
    """The summary of a stored run for lists, read from the head of its file."""

    path: Path
    id: str
    label: str
    started: str
    finished: str
    status: str
    workload: str
    repeat: int
    kernel: str
    engine: str
    notes: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    leading: tuple[tuple[str, float, str], ...] = ()
    """(metric, value, unit) of each leading metric; () in files that are older than this field."""
    headline: str = ""
    """The answer in words; "" in files that are older than this field."""
    writer: str = ""
    """The process that writes the run; "" if the run has ended."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file in a results folder that is not a run, and the reason."""

    path: Path
    reason: str


def folder(chosen: str | Path | None = None) -> Path:
    """Return the folder of results: the chosen one, else $REPLAYER_RESULTS, else ./results."""
    return Path(chosen or os.environ.get("REPLAYER_RESULTS") or "results")


def folder_to_read(chosen: Path | None) -> Path:
    """Return the folder of results; raise NotFound if a folder was chosen and is not there."""
    where = folder(chosen)
    try:
        where.stat()
    except OSError as error:
        # Other errors are reported when the folder is read.
        if chosen is not None and error.errno == errno.ENOENT:
            raise NotFound(f"the folder of results {where} is not there") from error
    return where


def identify(started: datetime, workload: str, label: str = "") -> str:
    """Return a new run's id, such as 20261120-154500-demo-stock-3f2a: a safe file name.

    It has the start in UTC, the workload, the label and random digits.
    """
    words = (_safe(workload, 60), _safe(label, 40), secrets.token_hex(2))
    return "-".join([f"{started.astimezone(UTC):%Y%m%d-%H%M%S}", *filter(None, words)])


def reserve(where: str | Path, run: Run) -> Path:
    """Create the run's file before anything is measured; return its path.

    The folder is made if its parent exists.  Raises Impossible if the file cannot be written.
    """
    where = Path(where)
    path = where / f"{run.id}.json"
    try:
        _make(where)
        with trusted_path.Folder(where) as results:
            os.close(results.create(path.name, 0o666))
    except FileExistsError as error:
        what = f"{path} is already there" if where.is_dir() else f"{where} is a file, not a folder"
        raise Impossible(f"the result cannot be stored: {what}") from error
    except OSError as error:
        raise Impossible(
            f"the result cannot be stored in {where}: {error.strerror}; "
            f"give a folder that you may write with --results"
        ) from error
    try:
        save(path, run)
    except ReplayerError as error:
        path.unlink(missing_ok=True)
        raise Impossible(str(error)) from error
    return path


def save(path: str | Path, run: Run) -> None:
    """Write a run atomically: a reader sees the old file or the new one, even after a power cut.

    The new file has the rights of the old one.  Raises ReplayerError if it cannot be written.
    """
    path = Path(path)
    try:
        with trusted_path.Folder(path.parent) as results:
            results.renew(path.name, text(run), draft=f".{path.name}.{os.getpid()}.new")
            # Some file systems cannot sync a folder; the name is then as safe as they make it.
            with contextlib.suppress(OSError):
                os.fsync(results.fd)
    except OSError as error:
        raise ReplayerError(f"the result {path} cannot be written: {error.strerror}") from error


def _make(where: Path) -> None:
    """Make the folder of results if it is missing; its parent must exist.

    Raises OSError if that fails: FileExistsError if there is a file of this name, and no folder.
    """
    if not where.is_dir():
        try:
            with trusted_path.Folder(where.parent) as parent:
                os.mkdir(where.name, dir_fd=parent.fd)
        except FileExistsError:
            # Another run may have made it just now.
            if not where.is_dir():
                raise


def text(run: Run) -> str:
    """Return a run as JSON, with one measurement or table row per line.

    Measurements that are not finite are left out, with a note.
    """
    finite = run.model_copy(update={"steps": tuple(map(_finite, run.steps))})
    lines = "".join(_pretty(finite.model_dump(mode="json"), 0)) + "\n"
    # A label that is not in the locale's encoding has bytes that JSON cannot hold.
    return lines.encode(errors="replace").decode()


def load(path: str | Path, wanted: Callable[[str], bool] | None = None) -> Run:
    """Read a run file of any format that was ever released.

    With `wanted`, columns of series may be left out if `wanted(name)` is false.  Series are nearly
    all of a file, so this is much faster for a caller that reads hundreds of files.
    Raises NotFound if the file is not there.  Raises Impossible if it is cut off, not a run, of a
    newer format, or if a field is wrong.  The error is one sentence that names the file.
    """
    path = Path(path)
    data = content(path)
    if wanted is not None:
        data = _thinned(data, wanted)
    keys = _json(path, data)
    version = _format(path, keys)
    if version < FORMAT:
        for number in range(version, FORMAT):
            # A dict that is not a run stays as it is: the model below reports best what is wrong.
            with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
                keys = _UPGRADES[number](keys)
        data = json.dumps(keys).encode()
    try:
        run = Run.model_validate_json(data, strict=True)
    except ValidationError as error:
        raise Impossible(f"{path}: {_explain(error)}") from error
    _check_values(path, run)
    return run


def find(wanted: str, where: str | Path) -> Path:
    """Return the file of a run, found by path, id, label, unique part of an id, or "latest".

    If several runs have the label, the newest is taken.  Raises NotFound if there is no such
    run, Impossible if several ids have this start or part.
    """
    where = Path(where)
    if "/" in wanted or wanted.endswith(".json"):
        if os.path.isdir(wanted):  # noqa: PTH112 - a Path raises for a name that is too long
            raise NotFound(
                f"{wanted} is a folder; give a run file, or name the folder with --results"
            )
        if not os.path.isfile(wanted):  # noqa: PTH113 - a Path raises for a name that is too long
            raise NotFound(f"the run file {wanted} {assets.absence(wanted)}")
        return Path(wanted)
    known = {name.removesuffix(".json"): where / name for name in names(where)}
    if wanted in known:
        return known[wanted]
    listed = [entry for entry in runs(where) if isinstance(entry, StoredRun)]
    if wanted == "latest" and listed:
        return _latest(listed)
    labelled = [entry.path for entry in listed if wanted and entry.label == wanted]
    if labelled:
        return labelled[-1]
    begin = [name for name in known if wanted and name.startswith(wanted)]
    parts = begin or [name for name in known if len(wanted) >= _PART and wanted in name]
    if len(parts) > 1:
        some = ", ".join(sorted(parts)[:3]) + (", …" if len(parts) > 3 else "")
        place = "the start" if begin else "a part"
        raise Impossible(f"{wanted!r} is {place} of {len(parts)} runs in {where}: {some}")
    if parts:
        return known[parts[0]]
    if not listed:
        raise NotFound(none_in(where))
    raise NotFound(f"there is no run or label {wanted!r} in {where}/{_near(wanted, listed)}")


def none_in(where: str | Path, asked: str = "") -> str:
    """Return that a folder has no runs, or none as `asked`, and which files cannot be read."""
    bad = [f"{one.path.name}: {one.reason}" for one in runs(where) if isinstance(one, Unreadable)]
    more = "" if len(bad) <= _NAMED else f"; and {len(bad) - _NAMED} more"
    unread = f" that can be read ({'; '.join(bad[:_NAMED])}{more})" if bad else ""
    return (
        f"there are no runs{asked} in {where}/{unread}: `replayer run` makes one, "
        f"--results names another folder"
    )


def _latest(listed: Sequence[StoredRun]) -> Path:
    """Return the newest run's file; runs that ended before any step was done come last."""
    for entry in reversed(listed):
        cut = entry.status in {Status.FAILED.value, Status.PARTIAL.value}
        if not cut or not lost(entry.path):
            return entry.path
    return listed[-1].path


def lost(path: Path) -> bool:
    """Return whether a run has no step that was done; False if its file is unreadable."""
    with contextlib.suppress(ReplayerError):
        return not any(step.status is Status.DONE for step in load(path).steps)
    return False


def runs(where: str | Path) -> list[StoredRun | Unreadable]:
    """Return the runs in a folder, sorted by their start; files that are no runs come first.

    Only the heads of files are read, so thousands of files take only a second or two.  Raises
    Impossible if the folder cannot be read.
    """
    where = Path(where)
    entries = [summary(where / name) for name in sorted(names(where))]
    return sorted(entries, key=_when)


def names(where: str | Path) -> list[str]:
    """Return the names of files in a folder that may be runs; [] if there is no folder.

    Raises Impossible if it cannot be read: its runs would seem missing.
    """
    try:
        # Names that begin with a dot are drafts.
        return [name for name in os.listdir(where) if name.endswith(".json") and name[0] != "."]  # noqa: PTH208 - ten thousand Paths take a tenth of a second
    except FileNotFoundError:
        return []
    except OSError as error:
        raise Impossible(f"the results in {where} cannot be read: {error.strerror}") from error


def with_text(where: str | Path, text: str, most: int = 100) -> Iterator[Run]:
    """Yield those of the `most` newest runs whose files contain a text, newest first.

    Files that cannot be read are skipped.
    """
    newest = [entry.path for entry in runs(where) if isinstance(entry, StoredRun)][-most:]
    for path in reversed(newest):
        with contextlib.suppress(ReplayerError, OSError):
            if text.encode() in content(path):
                yield load(path)


def _when(entry: StoredRun | Unreadable) -> tuple[datetime, str]:
    earliest = datetime.min.replace(tzinfo=UTC)
    if isinstance(entry, Unreadable):
        return earliest, entry.path.name
    try:
        when = datetime.fromisoformat(entry.started)
    except ValueError:
        return earliest, entry.id
    return when if when.tzinfo else when.replace(tzinfo=UTC), entry.id


def summary(path: Path) -> StoredRun | Unreadable:
    """Return the summary of a run from the head of its file, or Unreadable with the reason."""
    return _summarised(path, lambda: _head(path, _listed))


def headed(where: str | Path, only: str = "") -> Iterator[tuple[StoredRun, dict[str, Any]]]:
    """Yield (summary, keys before `steps` in the file) for each run in a folder.

    These keys include all facts of the host.  Files that are no runs are left out.  With `only`,
    only the file of this name is read.
    """
    where = Path(where)
    for name in [only] if only else sorted(names(where)):
        path = where / name
        kept: dict[str, Any] = {}
        one = _summarised(path, functools.partial(_kept, path, kept))
        if isinstance(one, StoredRun):
            yield one, kept


def leading_metrics(keys: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the leading metrics (main results of steps) from a file's keys, of any format."""
    version = int(keys.get("format", FORMAT))
    return list(keys.get("leading" if version >= _IN_WORDS else "headline", ()))


def _kept(path: Path, kept: dict[str, Any]) -> dict[str, Any]:
    kept.update(_head(path, lambda start: start))
    return kept


def _summarised(path: Path, read: Callable[[], dict[str, Any]]) -> StoredRun | Unreadable:
    try:
        keys = read()
        version = _format(path, keys)
        engine, workload = keys.get("engine"), keys["workload"]
        leading = leading_metrics(keys)
        if not all(math.isfinite(m["value"]) for m in leading):
            return Unreadable(path, _NOT_FINITE)
        return StoredRun(
            path=path,
            id=str(keys["id"]),
            label=str(keys["label"]),
            started=str(keys["started"]),
            finished=str(keys.get("finished") or ""),
            status=Status(keys["status"]).value,
            workload=str(workload["name"]),
            repeat=int(workload.get("repeat", 1)),
            kernel=str(keys["host"].get("kernel.release") or ""),
            engine=f"{engine.get('name')} {engine.get('version')}" if engine else "",
            notes=tuple(map(str, keys.get("notes", ()))),
            tags={str(name): str(value) for name, value in keys.get("tags", {}).items()},
            headline=str(keys.get("headline", "")) if version >= _IN_WORDS else "",
            leading=tuple((str(m["metric"]), float(m["value"]), str(m["unit"])) for m in leading),
            writer=str(keys.get("writer", "")),
        )
    except Impossible as error:
        return Unreadable(path, str(error).removeprefix(f"{path}: "))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return Unreadable(path, "it is not a run of replayer")


def _head(path: Path, shortened: Callable[[bytes], bytes]) -> dict[str, Any]:
    """Return the keys of a run file that come before `steps`, without reading its series.

    `shortened` may leave out a part of the head before it is parsed.  If that fails, all of the
    file is parsed.  Raises Impossible if it is not a whole JSON object.
    """
    try:
        start, last = _ends(path)
    except OSError as error:
        raise Impossible(f"{path}: {error.strerror}") from error
    end, whole = start.find(_STEPS), last.rstrip().endswith(b"}")
    with contextlib.suppress(ValueError):
        if end > 0:
            keys = from_json(shortened(start[:end]).rstrip(b",") + b"}", allow_inf_nan=False)
        else:
            keys = from_json(start, allow_partial=True, allow_inf_nan=False)
            whole = whole and "steps" in keys
        if whole and isinstance(keys, dict) and set(_LISTED) <= set(keys):
            return keys
    # The file is cut off, foreign, edited by hand or has a very long head: parse all of it.
    return _json(path, content(path))


def _listed(head: bytes) -> bytes:
    """Return a head without the facts of the host, which take most of the time to parse.

    Only the kernel is kept, as lists show nothing else of the host.  A head that is not laid out as
    `save` does it is returned unchanged.
    """
    begin = head.find(_HOST) + len(_HOST)
    end = head.find(_HOST_END, begin)
    kernel = head.find(_KERNEL, begin, end)
    if begin < len(_HOST) or end < 0 or kernel < 0:
        return head
    line = head[kernel : head.find(b"\n", kernel)].rstrip(b",")
    return head[:begin] + line + head[end:]


def _ends(path: Path) -> tuple[bytes, bytes]:
    """Return (first bytes, last bytes) of a file; raise OSError if it is not a regular file."""
    handle = assets.regular(path)
    try:
        start = os.pread(handle, _SHORT_HEAD, 0)
        if _STEPS not in start:
            start = os.pread(handle, _HEAD, 0)
        return start, os.pread(handle, _LAST, max(0, os.fstat(handle).st_size - _LAST))
    finally:
        os.close(handle)


def content(path: Path) -> bytes:
    """Return the bytes of a whole file.

    A folder may hold other files, too.  So this raises Impossible for a large file that does not
    begin like a run, or that is larger than any run.
    Raises NotFound if the file is missing, Impossible if it cannot be read.
    """
    try:
        with assets.open_regular(path) as file:
            start = file.read(_HEAD)
            if len(start) == _HEAD and not start.lstrip().startswith(b"{"):
                raise Impossible(f"{path}: it is not a run of replayer")
            size = os.fstat(file.fileno()).st_size
            if size > _LARGEST:
                raise Impossible(f"{path}: it has {units.show_size(size)}, which no run has")
            return start + file.read()
    except FileNotFoundError as error:
        raise NotFound(f"the run file {path} is not there") from error
    except OSError as error:
        raise Impossible(f"{path}: {error.strerror}") from error


def _thinned(data: bytes, wanted: Callable[[str], bool]) -> bytes:
    """Return a file's bytes without the columns of series that are not wanted.

    Bytes that are not laid out as `save` does it are returned unchanged.
    """
    parts = []
    at = 0
    while (column := data.find(_COLUMNS, at)) >= 0:
        begin = column + len(_COLUMNS)
        end = data.find(_COLUMNS_END, begin)
        lines = [line.removesuffix(b",") for line in data[begin : max(end, begin)].split(b"\n")]
        if not all(line.startswith(_COLUMN) and line.endswith(b"]") for line in lines):
            return data
        kept = [line for line in lines if wanted(line.split(b'"', 2)[1].decode(errors="replace"))]
        parts += [data[at:begin], b",\n".join(kept)]
        at = end
    return b"".join([*parts, data[at:]])


def _json(path: Path, data: bytes) -> dict[str, Any]:
    if not data.strip():
        raise Impossible(f"{path}: it is empty, so not a run of replayer")
    try:
        keys = from_json(data, allow_inf_nan=False)
        if _HUGE.search(data):
            json.dumps(keys, allow_nan=False)
    except ValueError as error:
        raise Impossible(f"{path}: {_no_json(str(error), data)}") from error
    if not isinstance(keys, dict):
        raise Impossible(f"{path}: it is not a run of replayer")
    return keys


def _no_json(error: str, data: bytes) -> str:
    if error.startswith("EOF"):
        return "it is cut off in the middle, so its end is lost"
    with contextlib.suppress(ValueError, RecursionError):
        json.loads(data)
        place = error.partition(" at")[2]
        return _NOT_FINITE + (f":{place}" if place else "")
    return f"it is not JSON ({error})"


def _format(path: Path, keys: Mapping[str, Any]) -> int:
    """Return the format number in `keys`; raise Impossible for a newer format, or for no run."""
    version = keys.get("format")
    if type(version) is not int or version < 1 or not {"id", "host", "workload"} <= set(keys):
        raise Impossible(f"{path}: it is not a run of replayer")
    if version > FORMAT:
        raise Impossible(
            f"{path}: it has format {version}, this replayer {__version__} reads up to {FORMAT}: "
            f"upgrade replayer"
        )
    return version


def _explain(error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        return f"the key {where} is unknown to format {FORMAT} of replayer {__version__}"
    if first["type"] == "missing":
        return f"the key {where} is missing"
    wanted = first["msg"].removeprefix("Input ")
    return f"{where} {wanted}, and is {reprlib.repr(first['input'])[:60]}"


def _check_values(path: Path, run: Run) -> None:
    """Raise Impossible for values that no run can have measured, although their types are right."""
    for number, step in enumerate(run.steps):
        for m in step.measurements:
            # 1e999 is a number in JSON, and infinite here.
            if not math.isfinite(m.value):
                raise Impossible(f"{path}: steps.{number}: {m.metric} is not a finite number")
        if step.series is not None:
            _check_series(f"{path}: steps.{number}.series", step.series)


def _check_series(where: str, series: Series) -> None:
    for name, values in series.columns.items():
        if len(values) != len(series.seconds):
            raise Impossible(
                f"{where}: the column {name} has {len(values)} values for "
                f"{len(series.seconds)} seconds"
            )


def _finite(step: StepResult) -> StepResult:
    """Return a step without measurements that are not finite, with a note about them.

    A JSON file cannot hold such numbers.
    """
    bad = [m for m in step.measurements if not math.isfinite(m.value)]
    if not bad:
        return step
    kept: tuple[Measurement, ...] = tuple(m for m in step.measurements if m not in bad)
    names = ", ".join(m.metric for m in bad)
    note = f"{names} is not a finite number and was left out"
    return step.model_copy(update={"measurements": kept, "notes": (*step.notes, note)})


def _pretty(value: Any, depth: int) -> Iterator[str]:
    """Yield JSON that diff and less show well: short records and lists of numbers on one line."""
    inner = list(value.values()) if isinstance(value, dict) else value
    deep = isinstance(inner, list) and any(isinstance(one, dict | list) for one in inner)
    line = "" if deep else json.dumps(value, ensure_ascii=False)
    if line and (not isinstance(value, dict) or depth + len(line) <= _WIDTH):
        yield line
        return
    names = [json.dumps(key) + ": " for key in value] if isinstance(value, dict) else repeat("")
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    yield opening
    for number, (name, one) in enumerate(zip(names, inner, strict=False)):
        yield f"{',' if number else ''}\n{' ' * (depth + 1)}{name}"
        yield from _pretty(one, depth + 1)
    yield f"\n{' ' * depth}{closing}"


def _safe(words: str, longest: int) -> str:
    """Return words as part of a file name: ASCII letters, digits, dots and dashes."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", words).strip("-.")[:longest].rstrip("-.")


def _near(wanted: str, listed: Sequence[StoredRun]) -> str:
    names = {"latest", *(name for entry in listed for name in (entry.id, entry.label) if name)}
    # Ids are long, so a list of all of them would not help.
    close = nearest(wanted, names)
    return close if close.startswith(" -") else "; `replayer list runs` names them"
