"""A plug-in is one new file: no other is edited for it to be found, checked, run and shown."""

import json
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from replayer.report.documents import collector_columns
from tests.command import Replayer
from tests.made import drawn_in

ROOT = Path(__file__).resolve().parents[2]

STEP = '''
"""Count to a number, as a toy."""

from replayer.model import Better, Reads, StepSpec
from replayer.run.step_plugin import Footprint


class Spec(StepSpec):
    """The keys of a toy."""

    most: int = 3
    """How far to count."""


def needs_database(_spec):
    return False


def footprint(spec, _block_size):
    return Footprint("toy", spec.most << 40)


def run(spec, context):
    begin = context.sampler.mark()
    found = context.findings
    found.measure("toy.marbles", spec.most, "marbles")
    found.lines("marbles", ["MARBLES: >3<"])
    found.writes = True
    found.reads = Reads(
        per_second=9.0, block_bytes=4096, depth=1, access="random", device="toy0"
    )
    found.series = context.sampler.series(begin, context.sampler.mark())
'''
DISPLAY = '''
"""Marbles, in a sentence."""

from replayer.run.display import Chart, Form, Sentence, ChartTrace


def form(result):
    return Form([Sentence("a toy counted marbles")], glosses={"toy.marbles": "of glass"})


def charts(sides):
    traces = [ChartTrace(n, "bar", x=["marbles"], y=[3.0]) for n, _ in enumerate(sides)]
    yield Chart("toy", "marbles of the toy", traces)
'''
PROBE = '''
"""Rattle a marble, as a toy."""

from replayer.run.probe_context import ProbeSpec


class Spec(ProbeSpec):
    """The keys of a rattle."""

    times: int = 2
    """How often."""


def needs(spec, host):
    return 4096


def run(spec, context):
    context.findings.measure("rattle.loudness", 11.0, "dB")
    row = {"access": "random", "operation": "read", "client": "1", "block_bytes": 4096,
           "depth": 1, "direct": True, "iops": 18.0}
    context.findings.row("io", **row)
    context.findings.facts["storage.device"] = "toy0"
'''
COLLECTOR = '''
"""The load average, as a toy."""

FILES = ("proc/loadavg",)


def parse(samples, device):
    return {"one": [float(s.texts[0].split()[0]) for s in samples[1:]]}
'''
IMPORTER = '''
"""Marbles counted by hand, as a toy."""

import re

from replayer.errors import Impossible
from replayer.imports import ImportResult

SIGN = re.compile("^marbles:")


def read(source, label):
    raise Impossible("marbles are not counted by hand here")
'''
COMMAND = '''
"""Greet the marbles, as a toy."""


def configure(parser):
    parser.add_argument("--often", type=int, default=1)


def run(args):
    print("hello, marbles " * args.often)
    return 0
'''
WORKLOAD = """
description = "a toy"
[[step]]
step = "toy"
[[step]]
step = "probe"
name = "rattle"
probe = "rattle"
"""
FILES = {
    "steps/toy/__init__.py": '"""The step `toy`."""\n',
    "steps/toy/step.py": STEP,
    "steps/toy/display.py": DISPLAY,
    "probes/rattle.py": PROBE,
    "collectors/loadavg.py": COLLECTOR,
    "imports/by_hand.py": IMPORTER,
    "commands/greet.py": COMMAND,
}


DRIVER = """
import json, sys
from pathlib import Path
from replayer.machine.host import Host
from replayer.run.checks.preflight import Case, free_space
from tests.command import Replayer

replayer = Replayer(Path.cwd())
ended = [replayer(*words.split(), status=None) for words in sys.argv[1:]]
room = free_space(Case(Host(), Path("home"), workload="toybox")).found
print(json.dumps({"ended": [(one.status, one.out + one.err) for one in ended], "room": room}))
"""
"""Calls commands in one process, and asks how much room the toys take."""
LISTS = {
    "steps": ["toy", "Count to a number", "most", "How far to count."],
    "probes": ["rattle", "Rattle a marble", "times"],
    "collectors": ["loadavg", "The load average"],
}
COMMANDS = (
    "run toybox",
    *(f"list {kind} -v" for kind in LISTS),
    "--help",
    "greet --often 2",
    "import --help",
    "import by_hand counted.txt",
    "show latest --full",
    "report latest --html toys.html",
)


class Toys(NamedTuple):
    """A copy of replayer with toys, and what its commands printed."""

    folder: Path
    ended: dict[str, tuple[int, str]]
    room: str
    """What `check` says of free space."""

    def printed(self, words: str, status: int = 0) -> str:
        """Return what a command printed; it ended with this status."""
        got, text = self.ended[words]
        assert got == status, text
        return text


@pytest.fixture(scope="module")
def toys(tmp_path_factory: pytest.TempPathFactory) -> Toys:
    """Call a copy of replayer that has a toy of every kind, as files alone."""
    folder = tmp_path_factory.mktemp("toys")
    for name in ("replayer", "schemas", "workloads"):
        shutil.copytree(ROOT / name, folder / name)
    for name, text in FILES.items():
        path = folder / "replayer" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.lstrip())
    (folder / "workloads" / "toybox.toml").write_text(WORKLOAD)
    (folder / "counted.txt").write_text("3 marbles\n")
    (folder / "home").mkdir()
    done = Replayer(folder).process(
        *COMMANDS,
        command=(sys.executable, "-c", DRIVER),
        PYTHONPATH=f"{folder}:{ROOT}",
        REPLAYER_HOME=str(folder / "home"),
        REPLAYER_RESULTS=None,
    )
    said = json.loads(done.out)
    return Toys(folder, dict(zip(COMMANDS, said["ended"], strict=True)), said["room"])


@pytest.mark.parametrize("kind", LISTS)
def test_toys_are_listed(toys: Toys, kind: str) -> None:
    """What there is comes from what lies there."""
    listed = toys.printed(f"list {kind} -v")

    assert [word for word in LISTS[kind] if word not in listed] == []


def test_toy_command_can_be_typed(toys: Toys) -> None:
    """It is in the help, and runs."""
    assert "greet" in toys.printed("--help")
    assert "hello, marbles hello, marbles" in toys.printed("greet --often 2")


def test_toy_importer_can_be_named(toys: Toys) -> None:
    """It is in the help of `import`, and is asked."""
    assert "by_hand" in toys.printed("import --help")
    assert "not counted by hand" in toys.printed("import by_hand counted.txt", status=2)


def test_check_asks_a_toy_how_much_room_it_takes(toys: Toys) -> None:
    """Three tebibytes of marbles: the step said so itself."""
    assert "needs about 3.00 TiB" in toys.room


def test_toys_are_in_the_report(toys: Toys) -> None:
    """The step's own sentence, gloss and lines, the probe's table, the collector's columns."""
    report = toys.printed("show latest --full")

    assert "a toy counted marbles" in report
    assert "of glass" in report
    assert "loadavg over " in report
    assert "loudness" in report
    assert "9 = 50 % of 4 KiB random reads at depth 1" in report


def test_toys_are_in_the_result(toys: Toys) -> None:
    """What a step said is there under the field of its meaning."""
    toys.printed("run toybox")
    (stored,) = (toys.folder / "results").glob("*.json")
    step, _ = json.loads(stored.read_text())["steps"]

    assert step["printed"] == {"marbles": ["MARBLES: >3<"]}
    assert step["writes"] is True
    assert any(name.startswith("loadavg.") for name in step["series"]["columns"])


def test_toys_are_on_the_page(toys: Toys) -> None:
    """The step's own chart, and the collector's columns over time."""
    toys.printed("report latest --html toys.html")
    page = (toys.folder / "toys.html").read_text()

    assert "marbles of the toy" in page
    assert "loadavg one" in drawn_in(page)
    assert collector_columns.is_drawn("loadavg.one")
