"""Whatever stands in a file or on a command line, replayer answers in a sentence, and soon.

Each case takes something that is right (a workload that ships, a stored run, an engine's folder,
another tool's output, a command's arguments), spoils it in a way that the case's number decides,
and gives it to replayer.  A traceback is a defect, and so is an answer that takes long.
"""

import copy
import json
import random
import re
import shutil
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from replayer import assets, registry
from replayer.__main__ import main

SEED = 8
MOST_SECONDS = 5.0
"""Of CPU: what else the machine does is no matter of a case."""
HANGS_AFTER = 60
STATUSES = {0, 1, 2, 3}
FIXTURES = Path(__file__).parents[1] / "fixtures"

ODD_VALUES: tuple[object, ...] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        2**31,
        2**63,
        2**64,
        -(2**70),
        10**400,
        0.0,
        -0.0,
        1e308,
        5e-324,
    ),
    *(
        "",
        " ",
        "x",
        "\x00",
        "\u2028",
        "\ud800",
        "\u202e",
        "é" * 3,
        "=1+1",
        "a.b",
        "../..",
        "/",
        "%s{}",
    ),
    *(
        "9" * 5000,
        "x" * 5000,
        "inf",
        "nan",
        "1e999",
        "-5",
        "1G",
        "2026-01-01",
        "2026-01-01T00:00:00Z",
    ),
    *([], {}, [[]], [None], [1, "a", {}], {"": ""}, {"a": {"b": {"c": []}}}, [0.5] * 300),
)
ODD_TOML = (
    *(
        "0",
        "-1",
        "1e400",
        "nan",
        "-inf",
        "true",
        '""',
        '"\\u0000"',
        "[]",
        "{}",
        "[[[1]]]",
        "{a.b.c=1}",
    ),
    *("1979-05-27", "07:32:00", "1979-05-27T07:32:00Z", "0x10", "9" * 40, '"' + "x" * 3000 + '"'),
    *(
        "'a'",
        '"1G"',
        '"-1s"',
        '"é"',
        '[1, "a"]',
        '["cold", 1]',
        "{step = 1}",
        "[{}]",
        '"""',
        "1_0",
        "",
    ),
)
ODD_LINES = (
    *("[[step]]", "[step]", "[settings]", "[[settings]]", "step = 1", "step = []", "[[step.step]]"),
    *(
        "name = []",
        "once = 2",
        "repeat = 0",
        "repeat = 1e3",
        "description = {}",
        "a.b.c = 1",
        "like = 5",
    ),
    *(
        "= 1",
        '"" = 1',
        "[",
        "]",
        '"',
        "\x00",
        "\ufeff",
        "[" * 5000,
        "x = " + "[" * 700,
        "x." * 900 + "x = 1",
    ),
    *(
        "[server]",
        "[layouts]",
        "[counters]",
        "cold = 5",
        "wire = []",
        "title = 7",
        "default = 'yes'",
    ),
)
ODD_BYTES = (
    b"\x00",
    b"\xff\xfe",
    b"\xc3",
    b"\x1b[2J",
    b"\r",
    b"\n\n",
    b'"',
    b"}",
    b"]",
    b",",
    b"\xed\xa0\x80",
)
ODD_WORDS = (
    *(
        "",
        " ",
        "-",
        "--",
        "---",
        "-1",
        "0",
        "1e9",
        "nan",
        "inf",
        "latest",
        "x" * 300,
        "x" * 5000,
        "/",
    ),
    *(
        "a=b",
        "=",
        "==",
        "a=",
        "=b",
        ".",
        "..",
        ".=.",
        "a.b=c",
        "a..b=1",
        "walk.threads=8",
        "*",
        "?",
        "[a",
    ),
    *(
        "\udcff",
        "\u202eabc",
        "a\nb",
        "a\tb",
        "/dev/null",
        "/dev/zero",
        "/dev",
        "/proc/self/mem",
        "~",
        "~x/y",
    ),
    *(
        "postgres",
        "postgresql://",
        "mysql://u:p@",
        "://",
        "pgio",
        "fio",
        "demo",
        "smoke",
        "cpu",
        "[[[[[",
    ),
    *(
        "cpu.duration=[" + "[" * 900,
        "cpu.step=5",
        "cpu.name=[1]",
        "cpu.duration={a=1}",
        "cpu.=1",
        ".x=1",
    ),
)


@dataclass(frozen=True)
class Case:
    """One thing to try: what it is made of, and the command lines that are to survive it."""

    name: str
    lines: list[list[str]]
    kept: tuple[Path, ...] = ()


def spoiled_text(dice: random.Random, data: bytes) -> bytes:
    """Return bytes with one to three places changed: bytes, lines, or a piece moved or lost."""
    for _ in range(dice.randint(1, 3)):
        data = dice.choice(CHANGES)(dice, data, *sorted(dice.randint(0, len(data)) for _ in "ab"))
    return data


def _with_numbers_changed(dice: random.Random, data: bytes, *_: object) -> bytes:
    numbers = (b"0", b"-1", b"9" * 30, b"1e999", b"x", b"0.5")
    return re.sub(rb"\d+", lambda _: dice.choice(numbers), data, count=dice.randint(1, 5))


def _with_a_line_changed(dice: random.Random, data: bytes, *_: object) -> bytes:
    lines = data.split(b"\n")
    row = dice.randrange(len(lines))
    lines[row] *= dice.choice((0, 2, 50))
    return b"\n".join(lines)


CHANGES: tuple[Callable[..., bytes], ...] = (
    lambda dice, data, at, to: data[:at] + dice.choice(ODD_BYTES) + data[at:],
    lambda dice, data, at, to: data[:at] + data[to:],
    lambda dice, data, at, to: data[:to] + data[at:],
    lambda dice, data, at, to: data[:at],
    _with_a_line_changed,
    _with_numbers_changed,
)


def spoiled_toml(dice: random.Random, text: str) -> Any:
    """Return TOML with a value replaced, a key misspelt, a line put in, or as any other text."""
    if dice.random() < 0.3:
        return spoiled_text(dice, text.encode("utf-8"))
    lines = text.split("\n")
    for _ in range(dice.randint(1, 3)):
        row = dice.randrange(len(lines))
        key, equals, _ = lines[row].partition("=")
        if equals and dice.random() < 0.6:
            lines[row] = f"{key}= {dice.choice(ODD_TOML)}"
        elif equals and dice.random() < 0.3:
            lines[row] = f"{key.strip()}x = 1"
        else:
            lines.insert(row, dice.choice(ODD_LINES))
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path to everything inside a JSON value."""
    yield path
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, one in inner:
        yield from places(one, (*path, key))


def spoiled_json(dice: random.Random, keys: Any) -> bytes:
    """Return a run with one to three of its values replaced, taken away or put elsewhere."""
    if dice.random() < 0.15:
        return spoiled_text(dice, json.dumps(keys, indent=1).encode())
    keys = copy.deepcopy(keys)
    for _ in range(dice.randint(1, 3)):
        path = dice.choice([path for path in places(keys) if path])
        holder = keys
        for step in path[:-1]:
            holder = holder[step]
        what = dice.random()
        if what < 0.6:
            holder[path[-1]] = dice.choice(ODD_VALUES)
        elif what < 0.75:
            del holder[path[-1]]
        elif what < 0.9 and isinstance(holder, dict):
            holder[str(dice.choice(ODD_VALUES))[:50]] = holder[path[-1]]
        else:
            holder[path[-1]] = nested(dice.choice((3, 200, 5000)))
        if not isinstance(keys, dict):
            break
    return dumped(keys)


def nested(depth: int) -> str:
    """Return a text that stands for a list so deep in lists that no encoder would write it."""
    return f"@@{depth}@@"


def dumped(keys: object) -> bytes:
    """Return a run as JSON, with what stands for deep lists written out."""
    text = json.dumps(keys)
    deep = re.sub(r'"@@(\d+)@@"', lambda found: "[" * int(found[1]) + "]" * int(found[1]), text)
    return deep.encode("utf-8", "surrogatepass")


def workload_case(dice: random.Random, where: Path) -> Case:
    """Return a workload file, planned, with one or two values set on the command line."""
    source = dice.choice(sorted(assets.workloads().values()))
    path = where / f"{source.stem}.toml"
    path.write_bytes(spoiled_toml(dice, source.read_text("utf-8")))
    words = [word for _ in range(dice.randint(0, 2)) for word in ("--set", override(dice))]
    options = ["--kernels", "a,b", "--boots", "12", "--out", str(where / "boots.plan")]
    return Case(source.stem, [["plan", *options, "--", str(path), *words]])


def override(dice: random.Random) -> str:
    """Return what may follow --set, rarely something that is right."""
    step = dice.choice(
        ("walk", "sessions", "build", "cpu", "probe", "", "a.b", dice.choice(ODD_WORDS))
    )
    key = dice.choice(
        ("threads", "step", "name", "once", "duration", "cold", "", dice.choice(ODD_WORDS))
    )
    return f"{step}.{key}={dice.choice((*ODD_TOML, *ODD_WORDS))}"


def result_case(dice: random.Random, where: Path) -> Case:
    """Return two result files, shown, listed, reported in a form, and compared."""
    stored = json.loads((FIXTURES / "runs" / "format-1.json").read_text("utf-8"))
    results = where / "results"
    results.mkdir()
    for name in ("one", "two"):
        (results / f"{name}.json").write_bytes(spoiled_json(dice, stored))
    (results / "right.json").write_bytes(dumped({**stored, "id": "right"}))
    here = ["--results", str(results)]
    form = dice.choice((["--html", str(where / "page.html")], ["--csv", "-"], ["--markdown", "-"]))
    one, two, right = (str(results / f"{name}.json") for name in ("one", "two", "right"))
    lines = (
        ["show", one],
        ["list", "runs", "-v", *here],
        ["report", one, two, *form],
        ["report", two, *form],
        ["compare", right, one],
        ["compare", "--by", "host.kernel.release", str(results)],
        ["show", "latest", *here],
    )
    return Case("result", dice.sample(lines, 2))


def engine_case(dice: random.Random, where: Path) -> Case:
    """Return a folder of engines of which one is spoiled, listed."""
    source = dice.choice(sorted(assets.engines().values()))
    mine = where / "engines" / dice.choice((source.name, "mine"))
    shutil.copytree(source, mine)
    files = [mine / "engine.toml"] * 3 + sorted(mine.rglob("*.sql"))
    path = dice.choice(files)
    data = path.read_text("utf-8")
    toml = path.suffix == ".toml"
    path.write_bytes(spoiled_toml(dice, data) if toml else spoiled_text(dice, data.encode()))
    return Case(source.name, [dice.choice((["list", "engines"], ["list"], ["list", "--json"]))])


def import_case(dice: random.Random, where: Path) -> Case:
    """Return another tool's output, spoiled, imported as that tool's or as another's."""
    tools = registry.names("imports")
    files = [path for path in sorted((FIXTURES / "imports").rglob("*")) if path.is_file()]
    source = dice.choice(files)
    tool = source.parent.name if source.parent.name in tools else dice.choice(tools)
    path = where / source.name
    data = source.read_bytes()
    is_json = source.suffix == ".json" and dice.random() < 0.7
    path.write_bytes(spoiled_json(dice, json.loads(data)) if is_json else spoiled_text(dice, data))
    tool = dice.choice((tool, tool, tool, dice.choice(tools)))
    words = ["import", tool, str(path), "--results", str(where / "results")]
    shown = [["show", "latest", *words[-2:]]] if dice.random() < 0.3 else []
    return Case(f"{tool} {source.name}", [words, *shown])


OPTIONS = {
    "clean": ["--yes", "--data-dir"],
    "compare": [
        "--by",
        "--where",
        "--metric",
        "--allow",
        "--threshold",
        "--fail-if-worse",
        "--json",
    ],
    "import": ["--label", "--results", "--json"],
    "list": ["-v", "--json", "--results"],
    "plan": ["--kernels", "--boots", "--random", "--seed", "--out", "--"],
    "report": ["--by", "--where", "--html", "--csv", "--markdown", "--results"],
    "show": ["--json", "--results"],
    "step": ["--next"],
}


def command_case(dice: random.Random, where: Path) -> Case:
    """Return a command with odd words, where those that would write anything do so in `where`."""
    name = dice.choice((*OPTIONS, *OPTIONS, dice.choice(ODD_WORDS)))
    words = [name]
    for _ in range(dice.randint(0, 6)):
        words.append(
            dice.choice([*OPTIONS.get(name, ()), *OPTIONS["list"], dice.choice(ODD_WORDS)])
        )
    return Case(name, [[word for word in words if "\x00" not in word]])


KINDS: dict[str, tuple[Callable[[random.Random, Path], Case], int]] = {
    "workload": (workload_case, 650),
    "result": (result_case, 450),
    "engine": (engine_case, 100),
    "import": (import_case, 500),
    "command": (command_case, 300),
}


def failure(line: list[str]) -> str:
    """Run a command line in this process; return what is wrong with its end, "" if nothing is."""
    began = time.process_time()
    signal.setitimer(signal.ITIMER_REAL, HANGS_AFTER)
    status: object
    try:
        status = main(line)
    except SystemExit as ended:
        status = ended.code
    except BaseException as error:
        frames = [
            f for f in traceback.extract_tb(error.__traceback__) if "/replayer/" in f.filename
        ]
        return (
            f"{type(error).__name__} at {frames[-1].filename}:{frames[-1].lineno}: {error!s:.150}"
        )
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    took = time.process_time() - began
    if status not in STATUSES:
        return f"status {status!r}"
    return "took long" if took > MOST_SECONDS else ""


class Hung(BaseException):
    """A case did not end; nothing in replayer can take it for an error of a file."""


@pytest.fixture
def _hanging_is_an_error() -> Iterator[None]:
    """Let the alarm of a case that hangs end it."""

    def alarmed(*_: object) -> None:
        raise Hung

    before = signal.signal(signal.SIGALRM, alarmed)
    yield
    signal.signal(signal.SIGALRM, before)


@pytest.mark.slow
@pytest.mark.usefixtures("_hanging_is_an_error")
@pytest.mark.parametrize("kind", KINDS)
def test_spoiled_input_is_answered_in_a_sentence(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No case ends in a traceback, with a status of its own, or late; an error is one line."""
    make, many = KINDS[kind]
    monkeypatch.setenv("REPLAYER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("REPLAYER_RESULTS", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)
    wrong: dict[str, object] = {}
    for number in range(many):
        where = tmp_path / "case"
        where.mkdir()
        case = make(random.Random(f"{SEED}-{kind}-{number}"), where)
        monkeypatch.setenv("REPLAYER_SCHEMAS", str(where / "engines"))
        monkeypatch.chdir(where)
        for line in case.lines:
            reason = failure(line)
            errors = [
                one for one in capsys.readouterr().err.splitlines() if "replayer: error:" in one
            ]
            if reason or len(errors) > 1:
                wrong.setdefault(reason or f"{errors}", f"case {number} ({case.name}): {line}")
        monkeypatch.chdir(tmp_path)
        shutil.rmtree(where)

    assert not wrong, "\n".join(f"{reason}\n    {first}" for reason, first in wrong.items())
