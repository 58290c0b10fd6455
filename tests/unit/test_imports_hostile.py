"""No file can hang, crash or confuse an import: one sentence at most, in seconds, and no more."""

import json
import os
import random
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from replayer import registry
from replayer.errors import Impossible
from replayer.results import imported, store

FILES = Path(__file__).parents[1] / "fixtures" / "imports"
TOOLS = registry.names("imports")
CASES = 60
NUMBERS = [b"1e999", b"-1", b"NaN", b"9" * 400, b"9" * 5000, b"0", b"1e17", b"", b"1_0", b'"x"']
NUMBER = re.compile(rb"\d+(?:\.\d+)?")


def fixtures(tool):
    """Return the fixtures of a tool, sorted."""
    return sorted(path for path in (FILES / tool).iterdir() if path.is_file())


def mutate(data, draw):
    """Return data with one to three things in it that no tool writes."""
    for _ in range(draw.randint(1, 3)):
        data = draw.choice(MUTATIONS)(data, draw)[: 2 << 20]
    return data


def _spot(data, draw):
    return draw.randrange(len(data) + 1)


def _number(data, draw):
    numbers = list(NUMBER.finditer(data))
    if not numbers:
        return data
    one = draw.choice(numbers)
    return data[: one.start()] + draw.choice(NUMBERS) + data[one.end() :]


def _every_number(data, draw):
    return NUMBER.sub(draw.choice(NUMBERS)[:40], data)


def _cut(data, draw):
    return data[: _spot(data, draw)]


def _drop(data, draw):
    at = _spot(data, draw)
    return data[:at] + data[at + draw.randrange(1, 200) :]


def _repeat_character(data, draw):
    at = _spot(data, draw)
    return data[:at] + data[at : at + 1] * 50_000 + data[at:]


def _repeat_word(data, draw):
    words = data.split()
    word = draw.choice(words) if words else b"."
    at = data.find(word)
    return data[:at] + (word + b" ") * (100_000 // (len(word) + 1)) + data[at:]


def _repeat_line(data, draw):
    lines = data.splitlines(keepends=True) or [b"\n"]
    at = draw.randrange(len(lines))
    return b"".join([*lines[:at], lines[at] * min(600, 200_000 // len(lines[at])), *lines[at:]])


def _join_lines(data, draw):
    return data.replace(b"\n", draw.choice([b" ", b"", b"\r"]))


def _shuffle_lines(data, draw):
    lines = data.splitlines(keepends=True)
    draw.shuffle(lines)
    return b"".join(lines)


def _bytes(data, draw):
    at = _spot(data, draw)
    return data[:at] + draw.randbytes(20).replace(b"\0", b"\1") + data[at:]


def _escape(data, draw):
    at = _spot(data, draw)
    return data[:at] + draw.choice([b"\\ud800", b"\xed\xa0\x80", b"\x1b[2J", b"\0"]) + data[at:]


def _foreign(data, draw):
    other = draw.choice(fixtures(draw.choice(TOOLS))).read_bytes()
    return draw.choice([data + other, other + data, other])


def _twice(data, draw):
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


def read_or_refused(tool, path):
    """Return the runs of a file and the sentences about it."""
    try:
        return registry.load("imports", tool).read(imported.opened(path), "x")
    except Impossible as error:
        return (), (str(error),)


@pytest.mark.parametrize("tool", TOOLS)
def test_every_tool_has_fixtures(tool):
    """An importer without a fixture would be tested by nothing below."""
    assert fixtures(tool)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_changed_file_is_read_or_refused(tool, tmp_path):
    """Of files with chance changes each is a run that can be read again, or one sentence."""
    draw = random.Random(f"replayer {tool}")  # the same cases on every machine
    files = fixtures(tool)
    path = tmp_path / "file"
    for case in range(CASES):
        data = mutate(draw.choice(files).read_bytes(), draw)
        path.write_bytes(data)
        began = time.process_time()
        runs, sentences = read_or_refused(tool, path)
        for run in runs:
            stored = tmp_path / "run.json"
            stored.write_text(store.text(run), encoding="utf-8")
            assert store.load(stored) == run, case
        assert all(len(words) < 1000 and "\n" not in words for words in sentences), case
        assert len(sentences) <= 21
        assert time.process_time() - began < 5, case


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize(
    "data",
    [
        b"." * 50_000,
        b"DBNAME:  x. " * 200_000,
        b"Linux h 5.4 #1 " * 100_000,
        (b"Linux h 5.4 #1 " * 500 + b"\n") * 100,
        b"{\n" * 200_000,
        b'{"a":' * 100_000,
        b'{"a":\n' * 100_000,
        b"[" * 100_000,
        b'{"fio version": "1", "jobs": ' + b"[" * 100_000,
        b" " * 1_000_000 + b"x",
        b"a," * 500_000,
        b"1 " * 500_000,
        b"\n" * 1_000_000,
        bytes(range(1, 256)) * 1000,
    ],
    ids=range(14),
)
def test_a_hostile_file_is_refused_at_once(tool, data, tmp_path):
    """Dots, beginnings without ends, nesting, megabytes in a line: refused within seconds."""
    path = tmp_path / "file"
    path.write_bytes(data)
    began = time.process_time()
    with pytest.raises(Impossible, match=str(path)):
        registry.load("imports", tool).read(imported.opened(path), "")

    assert time.process_time() - began < 5


def import_(*arguments, stdin=None, cwd=None):
    """Return what `replayer import` did as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "replayer", "import", *arguments],
        input=stdin,
        capture_output=True,
        check=False,
        cwd=cwd,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("change", "status"),
    [
        (lambda job: job["read"]["clat_ns"]["bins"].update({"5": -1}), 2),
        (lambda job: job["read"]["clat_ns"]["bins"].update({"5": 10**18}), 2),
        (lambda job: job["read"].update(runtime=10**400), 2),
        (lambda job: job["read"].update(iops=10**30), 2),
    ],
)
def test_impossible_numbers_of_fio_are_told(change, status, tmp_path):
    """A count below zero ended the interpreter; what cannot be is named, and nothing is stored."""
    keys = json.loads((FILES / "fio" / "json-plus.json").read_text())
    change(keys["jobs"][0])
    path = tmp_path / "job.json"
    path.write_text(json.dumps(keys))
    done = import_("fio", path, "--results", tmp_path)

    assert done.returncode == status
    assert b"job seqread cannot be read" in done.stderr
    assert b"Traceback" not in done.stderr
    assert len(list(tmp_path.iterdir())) == 1


def test_an_endless_runtime_of_fio_is_refused(tmp_path):
    """1e999 is a number in JSON: a run with it could not be read again."""
    text = (FILES / "fio" / "json-plus.json").read_text()
    path = tmp_path / "job.json"
    path.write_text(re.sub(r'"(job_)?runtime" : \d+', r'"\1runtime" : 1e999', text))

    with pytest.raises(Impossible, match="no number that a machine has"):
        registry.load("imports", "fio").read(imported.opened(path), "")


def test_standard_input_and_pipes_are_read(tmp_path):
    """`-` and a named pipe hold what a file holds, and make the same run."""
    file = FILES / "sysbench" / "cpu.txt"
    (expected,) = registry.load("imports", "sysbench").read(imported.opened(file), "").runs
    done = import_("sysbench", "-", "--results", tmp_path, stdin=file.read_bytes())
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Timer(0.3, lambda: pipe.write_bytes(file.read_bytes()))
    writer.start()
    source = imported.opened(pipe)
    writer.join()

    assert done.returncode == 0
    assert (tmp_path / f"{expected.id}.json").is_file()
    assert registry.load("imports", "sysbench").read(source, "").runs[0].steps == expected.steps


def test_what_is_no_file_is_refused(tmp_path):
    """A pipe without a writer, a device, a folder, a closed standard input: one sentence each."""
    os.mkfifo(tmp_path / "pipe")
    began = time.monotonic()
    for path in (tmp_path / "pipe", "/dev/zero", tmp_path, tmp_path / "none", "/x" * 5000):
        with pytest.raises(Impossible):
            imported.opened(Path(path))
    closed = subprocess.run(
        f"{sys.executable} -m replayer import fio - <&-",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )

    assert time.monotonic() - began < 30
    assert closed.returncode == 2
    assert "standard input is closed" in closed.stderr


def test_marks_and_other_encodings_are_read(tmp_path):
    """A byte order mark, UTF-16 as PowerShell writes it and carriage returns change nothing."""
    text = (FILES / "sysbench" / "cpu.txt").read_text()
    path = tmp_path / "cpu.txt"
    expected = registry.load("imports", "sysbench").read(
        imported.opened(FILES / "sysbench" / "cpu.txt"), ""
    )
    for data in (
        b"\xef\xbb\xbf" + text.encode(),
        text.encode("utf-16"),
        text.replace("\n", "\r\n").encode(),
    ):
        path.write_bytes(data)
        sheaf = registry.load("imports", "sysbench").read(imported.opened(path), "")
        assert sheaf.runs[0].steps == expected.runs[0].steps
        assert sheaf.unread == ()
    path.write_bytes(b"\x1f\x8b\x08\0\0")
    with pytest.raises(Impossible, match="zcat"):
        imported.opened(path)


def test_what_is_not_understood_is_counted(tmp_path):
    """Twenty lines are named, the others are counted."""
    path = tmp_path / "cpu.txt"
    path.write_text((FILES / "sysbench" / "cpu.txt").read_text() + "what?\n" * 1234)
    unread = registry.load("imports", "sysbench").read(imported.opened(path), "").unread

    assert len(unread) == 21
    assert "1,214 more" in unread[-1]


def test_the_tool_that_fits_is_named(tmp_path):
    """A file of fio given to pgio's import: the sentence says which import reads it."""
    done = import_("pgio", FILES / "fio" / "randrw.json", "--results", tmp_path)

    assert done.returncode == 2
    assert b"`replayer import fio`" in done.stderr


@pytest.mark.parametrize("tool", TOOLS)
def test_no_tool_is_taken_for_another(tool):
    """The beginning of a tool's file has its own sign and no other's."""
    for path in fixtures(tool):
        if tool == "pgio" and path.name.endswith(".out") and path.name != "runit.out":
            continue
        head = imported.opened(path).head
        signs = {name for name in TOOLS if registry.load("imports", name).SIGN.search(head)}
        assert signs == {tool}, path
