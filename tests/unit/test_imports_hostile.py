"""No file can hang, crash or confuse an import: one sentence at most, in seconds, and no more."""

import json
import os
import random
import re
import shlex
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from replayer import registry
from replayer.errors import Impossible
from replayer.imports import ImportResult
from replayer.model import Run
from replayer.results import imported, store
from tests.command import COMMAND, Replayer
from tests.cpu_time import at_once

FILES = Path(__file__).parents[1] / "fixtures" / "imports"
TOOLS = registry.names("imports")
CASES = 60
NUMBERS = [b"1e999", b"-1", b"NaN", b"9" * 400, b"9" * 5000, b"0", b"1e17", b"", b"1_0", b'"x"']
NUMBER = re.compile(rb"\d+(?:\.\d+)?")


def fixtures(tool: str) -> list[Path]:
    """Return the fixtures of a tool, sorted."""
    return sorted(path for path in (FILES / tool).iterdir() if path.is_file())


def mutate(data: bytes, draw: random.Random) -> bytes:
    """Return data with one to three things in it that no tool writes."""
    for _ in range(draw.randint(1, 3)):
        data = draw.choice(MUTATIONS)(data, draw)[: 2 << 20]
    return data


def _spot(data: bytes, draw: random.Random) -> int:
    return draw.randrange(len(data) + 1)


def _number(data: bytes, draw: random.Random) -> bytes:
    numbers = list(NUMBER.finditer(data))
    if not numbers:
        return data
    one = draw.choice(numbers)
    return data[: one.start()] + draw.choice(NUMBERS) + data[one.end() :]


def _every_number(data: bytes, draw: random.Random) -> bytes:
    return NUMBER.sub(draw.choice(NUMBERS)[:40], data)


def _cut(data: bytes, draw: random.Random) -> bytes:
    return data[: _spot(data, draw)]


def _drop(data: bytes, draw: random.Random) -> bytes:
    at = _spot(data, draw)
    return data[:at] + data[at + draw.randrange(1, 200) :]


def _repeat_character(data: bytes, draw: random.Random) -> bytes:
    at = _spot(data, draw)
    return data[:at] + data[at : at + 1] * 50_000 + data[at:]


def _repeat_word(data: bytes, draw: random.Random) -> bytes:
    words = data.split()
    word = draw.choice(words) if words else b"."
    at = data.find(word)
    return data[:at] + (word + b" ") * (100_000 // (len(word) + 1)) + data[at:]


def _repeat_line(data: bytes, draw: random.Random) -> bytes:
    lines = data.splitlines(keepends=True) or [b"\n"]
    at = draw.randrange(len(lines))
    return b"".join([*lines[:at], lines[at] * min(600, 200_000 // len(lines[at])), *lines[at:]])


def _join_lines(data: bytes, draw: random.Random) -> bytes:
    return data.replace(b"\n", draw.choice([b" ", b"", b"\r"]))


def _shuffle_lines(data: bytes, draw: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    draw.shuffle(lines)
    return b"".join(lines)


def _bytes(data: bytes, draw: random.Random) -> bytes:
    at = _spot(data, draw)
    return data[:at] + draw.randbytes(20).replace(b"\0", b"\1") + data[at:]


def _escape(data: bytes, draw: random.Random) -> bytes:
    at = _spot(data, draw)
    return data[:at] + draw.choice([b"\\ud800", b"\xed\xa0\x80", b"\x1b[2J", b"\0"]) + data[at:]


def _foreign(data: bytes, draw: random.Random) -> bytes:
    other = draw.choice(fixtures(draw.choice(TOOLS))).read_bytes()
    return draw.choice([data + other, other + data, other])


def _twice(data: bytes, draw: random.Random) -> bytes:
    return data * draw.randint(2, 30)


MUTATIONS = [
    _number,
    _number,
    _every_number,
    _cut,
    _drop,
    _repeat_character,
    _repeat_word,
    _repeat_line,
    _join_lines,
    _shuffle_lines,
    _bytes,
    _escape,
    _foreign,
    _twice,
]


def read(tool: str, path: Path) -> ImportResult:
    """Return what the import of a tool makes of a file."""
    sheaf: ImportResult = registry.load("imports", tool).read(imported.opened(path), "")
    return sheaf


def read_or_refused(tool: str, path: Path) -> tuple[Sequence[Run], Sequence[str]]:
    """Return the runs of a file and the sentences about it."""
    try:
        return read(tool, path)
    except Impossible as error:
        return (), (str(error),)


@pytest.mark.parametrize("tool", TOOLS)
def test_every_tool_has_fixtures(tool: str) -> None:
    """An importer without a fixture would be tested by nothing below."""
    assert fixtures(tool)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_changed_file_is_read_or_refused(tool: str, tmp_path: Path) -> None:
    """Of files with chance changes each is a run that can be read again, or one sentence."""
    draw = random.Random(f"replayer {tool}")  # the same cases on every machine
    files = fixtures(tool)
    path = tmp_path / "file"
    for case in range(CASES):
        data = mutate(draw.choice(files).read_bytes(), draw)
        path.write_bytes(data)
        with at_once(case):
            runs, sentences = read_or_refused(tool, path)
        for run in runs:
            stored = tmp_path / "run.json"
            stored.write_text(store.text(run), encoding="utf-8")
            assert store.load(stored) == run, case
        assert all(len(words) < 1000 and "\n" not in words for words in sentences), case
        assert len(sentences) <= 21


HOSTILE = (
    b"." * 50_000,
    b"DBNAME:  x. " * 200_000,
    b"Linux h 5.4 #1 " * 100_000,
    (b"Linux h 5.4 #1 " * 500 + b"\n") * 100,
    b"{\n" * 50_000,
    b'{"a":' * 100_000,
    b'{"a":\n' * 30_000,
    b"[" * 100_000,
    b'{"fio version": "1", "jobs": ' + b"[" * 100_000,
    b" " * 1_000_000 + b"x",
    b"a," * 500_000,
    b"1 " * 500_000,
    b"\n" * 200_000,
    bytes(range(1, 256)) * 1000,
)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_hostile_file_is_refused_at_once(tool: str, tmp_path: Path) -> None:
    """Dots, beginnings without ends, nesting, megabytes in a line: refused within seconds."""
    path = tmp_path / "file"
    for data in HOSTILE:
        path.write_bytes(data)
        with at_once(data[:20]), pytest.raises(Impossible, match=str(path)):
            read(tool, path)


@pytest.mark.parametrize(
    "change",
    [
        lambda job: job["read"]["clat_ns"]["bins"].update({"5": -1}),
        lambda job: job["read"]["clat_ns"]["bins"].update({"5": 10**18}),
        lambda job: job["read"].update(runtime=10**400),
        lambda job: job["read"].update(iops=10**30),
    ],
)
def test_impossible_numbers_of_fio_are_told(
    replayer: Replayer, change: Callable[[dict[str, Any]], object], tmp_path: Path
) -> None:
    """A count below zero ended the interpreter; what cannot be is named, and nothing is stored."""
    keys = json.loads((FILES / "fio" / "json-plus.json").read_text())
    change(keys["jobs"][0])
    path = tmp_path / "job.json"
    path.write_text(json.dumps(keys))
    done = replayer.process("import", "fio", path, "--results", tmp_path, status=2)

    assert "job seqread cannot be read" in done.err
    assert len(list(tmp_path.iterdir())) == 1


def test_an_endless_runtime_of_fio_is_refused(tmp_path: Path) -> None:
    """1e999 is a number in JSON: a run with it could not be read again."""
    text = (FILES / "fio" / "json-plus.json").read_text()
    path = tmp_path / "job.json"
    path.write_text(re.sub(r'"(job_)?runtime" : \d+', r'"\1runtime" : 1e999', text))

    with pytest.raises(Impossible, match="not a number that a machine has"):
        read("fio", path)


def test_standard_input_and_pipes_are_read(
    replayer: Replayer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`-` and a named pipe hold what a file holds, and make the same run."""
    file = FILES / "sysbench" / "cpu.txt"
    (expected,) = read("sysbench", file).runs
    words = ("import", "sysbench", "-", "--results", tmp_path)
    replayer.process(*words, typed=file.read_text())
    assert (tmp_path / f"{expected.id}.json").is_file()

    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    monkeypatch.setattr(imported, "_PATIENCE", 600.0)
    writer = threading.Thread(target=pipe.write_bytes, args=(file.read_bytes(),))
    writer.start()
    (run,) = read("sysbench", pipe).runs
    writer.join()
    assert run.steps == expected.steps


def test_what_is_no_file_is_refused(
    replayer: Replayer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe without a writer, a device, a folder, a closed standard input: one sentence each."""
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(imported, "_PATIENCE", 0.1)
    for path in (tmp_path / "pipe", "/dev/zero", tmp_path, tmp_path / "none", "/x" * 5000):
        with pytest.raises(Impossible):
            imported.opened(Path(path))
    shell = ("bash", "-c", f"{shlex.join(COMMAND)} import fio - <&-")

    assert "standard input is closed" in replayer.process(command=shell, status=2).err


def test_marks_and_other_encodings_are_read(tmp_path: Path) -> None:
    """A byte order mark, UTF-16 as PowerShell writes it and carriage returns change nothing."""
    text = (FILES / "sysbench" / "cpu.txt").read_text()
    path = tmp_path / "cpu.txt"
    expected = read("sysbench", FILES / "sysbench" / "cpu.txt")
    for data in (
        b"\xef\xbb\xbf" + text.encode(),
        text.encode("utf-16"),
        text.replace("\n", "\r\n").encode(),
    ):
        path.write_bytes(data)
        sheaf = read("sysbench", path)
        assert sheaf.runs[0].steps == expected.runs[0].steps
        assert sheaf.unread == ()
    path.write_bytes(b"\x1f\x8b\x08\0\0")
    with pytest.raises(Impossible, match="zcat"):
        imported.opened(path)


def test_what_is_not_understood_is_counted(tmp_path: Path) -> None:
    """Twenty lines are named, the others are counted."""
    path = tmp_path / "cpu.txt"
    path.write_text((FILES / "sysbench" / "cpu.txt").read_text() + "what?\n" * 1234)
    unread = read("sysbench", path).unread

    assert len(unread) == 21
    assert "1,214 more" in unread[-1]


def test_the_tool_that_fits_is_named(replayer: Replayer) -> None:
    """A file of fio given to pgio's import: the sentence says which import reads it."""
    refused = replayer("import", "pgio", FILES / "fio" / "randrw.json", status=2)

    assert "`replayer import fio`" in refused.err


@pytest.mark.parametrize("tool", TOOLS)
def test_no_tool_is_taken_for_another(tool: str) -> None:
    """The beginning of a tool's file has its own sign and no other's."""
    for path in fixtures(tool):
        if tool == "pgio" and path.name.endswith(".out") and path.name != "runit.out":
            continue
        head = imported.opened(path).head
        signs = {name for name in TOOLS if registry.load("imports", name).SIGN.search(head)}
        assert signs == {tool}, path
