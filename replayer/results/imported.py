"""Shared parts of all imports of other tools' results.

They read files within limits of size and time, parse numbers and time stamps, and make runs.
"""

import codecs
import contextlib
import errno
import hashlib
import io
import json
import math
import os
import re
import stat
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from replayer import __version__
from replayer.errors import Impossible
from replayer.model import (
    Advice,
    Better,
    Fact,
    Latency,
    Measurement,
    Run,
    Series,
    Status,
    StepResult,
    WorkloadFacts,
)
from replayer.results.store import FORMAT

_LARGEST = 256 << 20
_LARGEST_JSON = 32 << 20
"""Limit in bytes; lower than for text, because parsed JSON takes up to thirty times as much."""
_LONGEST_LINE = 4096
_SECONDS = 60.0
"""Seconds of processor time in which the lines of one file must be read."""
_PATIENCE = 3.0
"""Seconds in which a process must begin to write into a named pipe."""
_NAMED = 20
_MOST_BROKEN = 100
"""Number of braces without valid JSON after which reading stops.

There must be a limit: the decoder counts all lines before each error, which is slow.
"""
_HEAD = 64 << 10
_MOST = 1e18
_LONGEST_WORDS = 200

_UNAME = re.compile(
    r"\bLinux (?P<host>\S{1,255}) (?P<release>\d{1,3}\.\d\S{0,100}) (?P<version>#\d.{0,150}?) "
    r"(?P<machine>x86_64|aarch64|ppc64le|s390x)\b"
)
_SYSSTAT = re.compile(r"Linux (?P<release>\d{1,3}\.\d\S{0,100}) \((?P<host>[^)]{1,255})\)\s{1,8}\S")
_OS = re.compile(r"\bPRETTY_NAME=\"?(?P<os>[^\"]{1,200})")


@dataclass(slots=True)
class Unread:
    """Parts of a file that could not be read: all are counted, the first ones are described."""

    name: str
    sentences: list[str] = field(default_factory=list)
    count: int = 0

    def line(self, number: int, text: str) -> None:
        """Count a line that could not be parsed, and describe it."""
        if len(self.sentences) < _NAMED:
            self.say(f"line {number} cannot be read: {quoted(text)}")
        else:
            # A file may be nothing but such lines: to quote them all takes most of its time.
            self.count += 1

    def say(self, sentence: str) -> None:
        """Count another part that could not be read; `sentence` describes it."""
        self.count += 1
        if len(self.sentences) < _NAMED:
            self.sentences.append(f"{self.name}: {sentence}")

    def all(self) -> tuple[str, ...]:
        """Return the sentences about the first parts, and one with the number of all others."""
        more = self.count - len(self.sentences)
        return (*self.sentences, *([f"{self.name}: and {more:,} more"] if more else []))


@dataclass(frozen=True, slots=True)
class ImportSource:
    """The text of another tool's file or of a pipe: read once, UTF-8 without a byte order mark."""

    name: str
    data: bytes
    digest: str
    folder: Path | None
    """The folder of the file; None for a pipe."""
    unread: Unread
    parts: tuple[str, ...] = ()
    """The names in the folder of the files whose text this is, if it is that of several."""

    @property
    def head(self) -> str:
        """Return the beginning of the text, from which the tool can be recognized."""
        return self.data[:_HEAD].decode("utf-8", errors="replace").replace("\r", "\n")

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield (number, text) of each line that is not empty; overlong lines are cut.

        Raises Impossible if reading them takes more than a minute of processor time.
        """
        deadline = time.process_time() + _SECONDS
        stream = io.TextIOWrapper(io.BytesIO(self.data), "utf-8", errors="replace", newline=None)
        for number, line in enumerate(_cut(stream), start=1):
            if len(line) > _LONGEST_LINE:
                self.unread.say(f"line {number} is longer than {_LONGEST_LINE:,} characters")
                line = line[:_LONGEST_LINE]  # noqa: PLW2901 - what follows needs only this much
            if not number % 1024 and time.process_time() > deadline:
                raise Impossible(
                    f"{self.name}: line {number:,} was reached after a minute of work only"
                )
            if line.strip():
                yield number, line

    def documents(self) -> Iterator[dict[str, Any]]:
        """Yield the JSON objects that begin a line or continue a list; skip other text.

        Raises Impossible if the file is too large, if the first object is cut off, or if an object
        is nested too deeply.
        """
        if len(self.data) > _LARGEST_JSON:
            raise Impossible(
                f"{self.name} has {len(self.data)} bytes: as JSON, at most {_LARGEST_JSON} are read"
            )
        text = self.data.decode("utf-8", errors="replace").rstrip()
        begin, complete, broken = _BRACE.search(text), 0, 0
        while begin and broken < _MOST_BROKEN:
            start = end = begin.end() - 1
            try:
                document, end = _DECODER.raw_decode(text, start)
                yield document
                complete += 1
            except json.JSONDecodeError as error:
                reason = _wrong(error, len(text))
                # Go on where the decoder stopped, so that nothing is read twice.
                end = error.pos
                broken += 1
                if not complete and end == len(text):
                    raise Impossible(f"{self.name}: {reason}") from error
                self.unread.say(f"{reason}: {quoted(text[start : start + 80])}")
            except (RecursionError, ValueError) as error:
                raise Impossible(f"{self.name}: its JSON is like no tool's: {error}") from error
            end = max(end, start + 1)
            begin = _NEXT.match(text, end) or _BRACE.search(text, end)

    def beside(self, name: str) -> "ImportSource | None":
        """Return the file with this name in the same folder; None if there is none."""
        if self.folder is None or not (self.folder / name).is_file():
            return None
        return opened(self.folder / name)


_BRACE = re.compile(r"^[ \t\[]{0,80}\{", re.MULTILINE)
_NEXT = re.compile(r"[ \t]{0,80},[ \t]{0,80}\{")
_DECODER = json.JSONDecoder()


def _wrong(error: json.JSONDecodeError, length: int) -> str:
    """Return a sentence about an error in JSON text of this length.

    If a string has no end, the file was cut off.  `error.pos` is then set to `length`.
    """
    if error.pos >= length or error.msg.startswith("Unterminated"):
        error.pos = length
        return "its JSON is cut off in the middle"
    return "a line begins with a brace and is not JSON"


def _cut(stream: io.TextIOWrapper) -> Iterator[str]:
    """Yield lines; of an overlong line, yield only the first _LONGEST_LINE + 1 characters.

    The one extra character shows the caller that the line is too long.
    """
    while line := stream.readline(_LONGEST_LINE + 1):
        rest = line
        while len(rest) > _LONGEST_LINE and not rest.endswith("\n"):
            rest = stream.readline(_LONGEST_LINE + 1)
        yield line.removesuffix("\n")


def opened(path: Path) -> ImportSource:
    """Return the text of a file or of a pipe as an ImportSource; the path `-` is standard input.

    Raises Impossible if the file cannot be read, is not text, or is larger than any tool's report.
    """
    name = "standard input" if str(path) == "-" else _clean(str(path))
    try:
        data, folder = _standard_input() if str(path) == "-" else _file(path, name)
    except OSError as error:
        raise Impossible(f"{name} cannot be read: {error.strerror}") from error
    if len(data) > _LARGEST:
        raise Impossible(f"{name} has more than {_LARGEST} bytes: no tool's report is so large")
    digest = hashlib.sha256(data).hexdigest()[:10]
    return ImportSource(name, _utf8(name, data), digest, folder, Unread(name))


def joined(paths: Sequence[Path]) -> ImportSource:
    """Return the text of files, one after the other, under the name of the first.

    Raises Impossible as `opened` does.
    """
    sources = [opened(path) for path in paths]
    if len(sources) == 1:
        return sources[0]
    data = b"\n".join(source.data for source in sources)
    return replace(
        sources[0],
        data=data,
        digest=hashlib.sha256(data).hexdigest()[:10],
        unread=Unread(f"{sources[0].name} and its {len(sources) - 1} other parts"),
        parts=tuple(path.name for path in paths),
    )


def _standard_input() -> tuple[bytes, None]:
    try:
        return sys.stdin.buffer.read(_LARGEST + 1), None
    except OSError as error:
        if error.errno != errno.EBADF:
            raise
        raise Impossible("standard input is closed, so nothing can be imported from it") from error


def _file(path: Path, name: str) -> tuple[bytes, Path | None]:
    # Without O_NONBLOCK, opening a named pipe without a writer would block for ever.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(handle, "rb", buffering=0) as file:  # noqa: PTH123 - opened above
        mode = os.fstat(handle).st_mode
        if stat.S_ISFIFO(mode):
            return _pipe(handle, name), None
        if not stat.S_ISREG(mode):
            raise Impossible(f"{name} is not a file with a tool's output")
        return _all(file, b""), path.parent


def _pipe(handle: int, name: str) -> bytes:
    """Return all data of a named pipe, after a writer has opened it.

    Raises Impossible if there is no writer within _PATIENCE seconds.
    """
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        try:
            first = os.read(handle, 1 << 16)
        except BlockingIOError:
            first = None
        if first != b"":
            os.set_blocking(handle, True)
            with open(handle, "rb", buffering=0, closefd=False) as file:
                return _all(file, first or b"")
        time.sleep(0.02)
    raise Impossible(f"{name} is a pipe, and nothing was written into it in {_PATIENCE:g} s")


def _all(file: io.FileIO, first: bytes) -> bytes:
    pieces, length = [first], len(first)
    while length <= _LARGEST and (piece := file.read(1 << 20)):
        pieces.append(piece)
        length += len(piece)
    return b"".join(pieces)


def _utf8(name: str, data: bytes) -> bytes:
    """Return text as UTF-8; convert UTF-16 with a byte order mark, which PowerShell writes.

    Raises Impossible for compressed or binary data.
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        data = data.decode("utf-16", errors="replace").encode(errors="replace")
    data = data.removeprefix(codecs.BOM_UTF8)
    if data.startswith(b"\x1f\x8b"):
        raise Impossible(f"{name} is compressed: `zcat FILE | replayer import TOOL -` reads it")
    if b"\0" in data:
        raise Impossible(f"{name} is not text")
    return data


def number(value: object) -> float:
    """Return text or a JSON value as a finite number; raise ValueError for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{quoted(str(value))} is not a number")  # noqa: TRY004 - one error for all
    if isinstance(value, str) and "_" in value:
        raise ValueError(f"{quoted(value)} is not a number")
    try:
        result = float(value)
    except OverflowError:
        result = math.inf
    if not abs(result) <= _MOST:
        raise ValueError(f"{quoted(str(value)[:80])} is not a number that a machine has")
    return result


def whole(value: object) -> int:
    """Return text or a JSON number as an integer, cutting off a fraction.

    Raises ValueError for anything else.
    """
    return int(number(value))


_TIMES = {"ns": 1e-9, "us": 1e-6, "usec": 1e-6, "ms": 1e-3, "s": 1.0, "secs": 1.0, "min": 60.0,
          "hour": 3600.0, "day": 86400.0}  # fmt: skip
_SIZES = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}


def seconds(text: str) -> float:
    """Return `12.3 us`, `4ms` or `1 min` in seconds; raise ValueError for anything else."""
    value = text.strip().rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = text.strip()[len(value) :].strip()
    if unit not in _TIMES:
        raise ValueError(f"{quoted(text)} is not a time")
    return number(value) * _TIMES[unit]


def size(text: str) -> float:
    """Return `4 KiB`, `1.5M` or `80 kb` in bytes; k is 1024; raise ValueError for other text."""
    value = text.strip().rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
    unit = text.strip()[len(value) :].strip().lower().removesuffix("b").removesuffix("i")
    if unit not in _SIZES:
        raise ValueError(f"{quoted(text)} is not a size")
    return number(value) * 1024.0 ** _SIZES[unit]


def stamp(since: object) -> str:
    """Return seconds since 1970 as ISO 8601 in UTC; "" if the value is not a time."""
    with contextlib.suppress(ValueError, OverflowError, OSError):
        when = datetime.fromtimestamp(number(since), UTC)
        return when.isoformat(timespec="milliseconds" if when.microsecond else "seconds")
    return ""


def words(value: object) -> str:
    """Return another tool's text in a form that is safe in a result: one short printable line."""
    text = str(value)
    if len(text) <= _LONGEST_WORDS and text.isascii() and text.isalnum():
        return text
    line = " ".join(_clean(text[: 4 * _LONGEST_WORDS]).split())
    return line if len(line) <= _LONGEST_WORDS else f"{line[: _LONGEST_WORDS - 1]}…"


def _clean(text: str) -> str:
    """Replace control characters, which could steer a terminal, and lone surrogates."""
    valid = text.encode(errors="replace").decode()
    if valid.isprintable():
        return valid
    return "".join(c if c.isprintable() else " " for c in valid)


def quoted(line: str) -> str:
    """Return the start of a line, at most 60 characters, to quote it in a sentence."""
    text = words(line[:400])
    return text if len(text) <= 60 else f"{text[:59]}…"


def host(line: str) -> dict[str, Fact]:
    """Return facts of the machine from a line of `uname -a`, os-release or sysstat; {} if none."""
    facts: dict[str, Fact] = {}
    if line.startswith("Linux ") and (sysstat := _SYSSTAT.match(line)):
        return {"host.name": words(sysstat["host"]), "kernel.release": words(sysstat["release"])}
    if "Linux " in line and (uname := _UNAME.search(line)):
        facts |= {"host.name": words(uname["host"]), "kernel.release": words(uname["release"])}
        facts["kernel.version"] = words(uname["version"])
    if "PRETTY_NAME=" in line and (release := _OS.search(line)):
        facts["os.name"] = words(release["os"])
    return facts


def measured(metric: str, value: float, unit: str, better: Better = Better.MORE) -> Measurement:
    """Return a value of a metric as a Measurement; by default, a higher value is better."""
    return Measurement(metric=metric, value=value, unit=unit, better=better)


def series(started: str, rows: Sequence[tuple[float, Mapping[str, float | None]]]) -> Series | None:
    """Return a series of rows (seconds since the start, name -> value); None without rows.

    If a row does not have a name that others have, its value is None.
    """
    if not rows:
        return None
    names = dict.fromkeys(name for _, values in rows for name in values)
    return Series(
        started=started,
        seconds=tuple(at for at, _ in rows),
        columns={name: tuple(values.get(name) for _, values in rows) for name in names},
    )


def step(
    tool: str,
    name: str,
    *,
    measurements: Iterable[Measurement],
    spec: Mapping[str, Any] | None = None,
    elapsed: float = 0.0,
    started: str = "",
    failure: str = "",
    facts: Mapping[str, Fact] | None = None,
    notes: Sequence[str] = (),
    watched: Series | None = None,
    latency: Mapping[str, Latency] | None = None,
    tables: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
) -> StepResult:
    """Return the result of a step that another tool did; `failure` is the reason if it failed.

    `spec` has the parameters that the tool was given, `elapsed` is the step's duration in seconds,
    and `watched` has values over its time.
    """
    return StepResult(
        step=tool,
        name=name,
        repeat=1,
        status=Status.FAILED if failure else Status.DONE,
        reason=failure,
        started=started,
        elapsed=elapsed,
        spec={**(spec or {}), "step": tool, "name": name},
        measurements=tuple(measurements),
        series=watched,
        latency=dict(latency or {}),
        tables={key: tuple(map(dict, rows)) for key, rows in (tables or {}).items() if rows},
        facts=dict(facts or {}),
        notes=tuple(notes),
    )


class ImportedStep(NamedTuple):
    """A step, and the facts that the imported file has of the step's machine."""

    step: StepResult
    host: Mapping[str, Fact]


def runs(
    source: ImportSource, tool: str, label: str, results: Iterable[ImportedStep]
) -> tuple[Run, ...]:
    """Return a run for each machine and each kind of step; steps of one kind are its repeats.

    Steps are of one kind when their specs are equal.
    """
    groups: dict[str, list[ImportedStep]] = {}
    for result in results:
        kind = json.dumps([result.host, result.step.spec], sort_keys=True, default=str)
        groups.setdefault(kind, []).append(result)
    return tuple(
        run(
            tool,
            source,
            label,
            index,
            steps=[r.step.model_copy(update={"repeat": n}) for n, r in enumerate(members, 1)],
            name=tool if members[0].step.name == tool else f"{tool}-{members[0].step.name}",
            specs=[members[0].step.spec],
            host=members[0].host,
            started=members[0].step.started,
        )
        for index, members in enumerate(groups.values(), start=1)
    )


def told_of_repeats(run: Run) -> Run:
    """Return a run with advice added if it has several repeats and no facts of a machine.

    The advice is that all repeats are assumed to be of one machine.
    """
    if run.workload.repeat < 2 or run.host:
        return run
    sentence = (
        f"the file does not say which machine its {run.workload.repeat} reports are from: they are "
        f"taken as repeats on one; import those of another machine from a file of their own"
    )
    return run.model_copy(update={"advice": (*run.advice, Advice(found=sentence))})


def run(
    tool: str,
    source: ImportSource,
    label: str,
    index: int,
    *,
    steps: Sequence[StepResult],
    name: str,
    specs: Sequence[Mapping[str, Any]],
    host: Mapping[str, Fact] | None = None,
    started: str = "",
    finished: str = "",
    advice: Sequence[Advice] = (),
) -> Run:
    """Return a run of an imported file; `index` is the number of the run in the file.

    `specs` are the parameters of the steps of one repeat.  The run's id has a digest of the file's
    bytes, so that a second import gives the same run.
    """
    failed = [step for step in steps if step.status is Status.FAILED]
    return Run(
        format=FORMAT,
        id=f"import-{tool}-{source.digest}-{index}",
        version=__version__,
        label=label,
        started=started,
        finished=finished,
        status=Status.FAILED if failed else Status.DONE,
        error=failed[0].reason if failed else "",
        host=dict(host or {}),
        engine=None,
        workload=WorkloadFacts(
            name=name,
            source=f"imported from {tool}: {Path(source.name).name}",
            digest="",
            repeat=max((step.repeat for step in steps), default=1),
            settings={},
            steps=tuple(dict(spec) for spec in specs),
        ),
        steps=tuple(steps),
        advice=tuple(advice),
    )
