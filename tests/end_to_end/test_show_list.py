"""show and list, as a user types them, on stored results and without a database."""

import json
import re
import shlex
from pathlib import Path

import pytest

from replayer import assets, registry
from replayer.capture.action import Action
from replayer.capture.archive import ArchiveWriter
from replayer.cli import command_parser
from replayer.model import Run
from replayer.report.documents import run_details
from replayer.report.terminal import console
from replayer.report.writers import terminal_writer
from replayer.results import store
from tests.command import COMMAND, Replayer

TESTS = Path(__file__).parents[1]
FIXTURE = TESTS / "fixtures" / "runs" / f"format-{store.FORMAT}.json"
RUN = "20261120-154500-demo-stock-3f2a"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Return a results folder that holds the fixture's run, which sized nothing."""
    folder = tmp_path / "results"
    folder.mkdir()
    stored = json.loads(FIXTURE.read_text())
    del stored["sizing"]
    (folder / f"{RUN}.json").write_text(store.text(Run.model_validate(stored)))
    return folder


def test_a_requirement_that_cannot_be_read_hides_no_number(
    results: Path, replayer: Replayer
) -> None:
    """The run is shown, and a note says that its verdict is not."""
    (results / f"{RUN}.json").write_text(FIXTURE.read_text())
    shown = replayer("show", "latest")

    assert "cannot be read: run `replayer size` again" in shown.err
    assert "what it did" in shown.out


def examples(name: str) -> list[str]:
    """Return the command lines in the examples of a command's help."""
    parser = dict(command_parser.every(command_parser.parser()))[f"replayer {name}"]
    assert parser.epilog
    return re.findall(r"^  replayer ((?:\S+ )*\S+)", parser.epilog, re.MULTILINE)


@pytest.mark.parametrize("wanted", ["latest", RUN, "20261120", "stock", "results/" + RUN + ".json"])
def test_show_finds_a_run_by_what_people_type(
    replayer: Replayer, results: Path, wanted: str
) -> None:
    """The newest run, an id, its start, a label and a path all show the same report."""
    brief, out = replayer("show", wanted).out, replayer("show", wanted, "--full").out

    assert f"replayer show {RUN} --full" in brief
    assert out.startswith(f"replayer run {RUN}")
    assert "\x1b" not in brief + out
    assert "asked cold, got lukewarm" in brief
    assert "NOT COLD" in out
    remark = re.compile(r"^  \[(\d+)\] +(\S+ \S+)", re.MULTILINE)
    assert set(remark.findall(brief)) & set(remark.findall(out))
    assert not re.search(r"^  - +\S", out, re.MULTILINE)
    assert out.splitlines()[-1] == brief.splitlines()[-1]


def test_nothing_is_lost_behind_full(replayer: Replayer, results: Path) -> None:
    """`--full` has every line of the report that was printed before there was one screen."""
    stored = store.load(results / f"{RUN}.json")
    before = console.text(
        terminal_writer.render(run_details.document(stored, Path("results") / f"{RUN}.json"))
    ).splitlines()
    out = replayer("show", RUN, "--full").out.splitlines()

    assert out[: len(before)] == before


def test_show_json_is_the_result_file(replayer: Replayer, results: Path) -> None:
    """`--json` prints what is stored, byte for byte, and nothing beside it."""
    done = replayer("show", "latest", "--json")

    assert done.out == (results / f"{RUN}.json").read_text(encoding="utf-8")
    assert done.err == ""


def test_the_results_folder_comes_from_the_environment(replayer: Replayer, results: Path) -> None:
    """$REPLAYER_RESULTS is where runs are looked for, unless --results says otherwise."""
    elsewhere = results.rename(results.with_name("elsewhere"))

    assert RUN in replayer("show", "latest", REPLAYER_RESULTS=str(elsewhere)).out
    assert RUN in replayer("list", "runs", "--results", elsewhere, REPLAYER_RESULTS="/nowhere").out
    assert "no runs in results" in replayer("show", "latest", status=2).err


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "is empty"), ("{", "cut off"), ('{"jobs": []}', "not a run of replayer")],
)
def test_a_file_that_is_no_run_is_one_sentence(
    replayer: Replayer, results: Path, text: str, said: str
) -> None:
    """Whatever is wrong with a file, the answer is one line on stderr and status 2."""
    (results / "bad.json").write_text(text)

    done = replayer("show", "results/bad.json", status=2)

    assert done.out == ""
    assert done.err.count("\n") == 1
    assert said in done.err


def test_a_reader_that_stops_reading_is_no_error(replayer: Replayer, results: Path) -> None:
    """`replayer show latest --json | head -1` ends in peace."""
    program = shlex.join(COMMAND)
    started = [
        replayer.start(command=("bash", "-c", f"{program} {words} | head -1; echo $PIPESTATUS"))
        for words in ("show latest", "show latest --json", "list -v")
    ]
    for shell in started:
        out, err = shell.communicate()
        assert err == ""
        assert out.splitlines()[-1] == "0"


@pytest.mark.parametrize("kind", ["workloads", "engines", "steps", "collectors", "probes"])
def test_list_names_everything_there_is(replayer: Replayer, kind: str) -> None:
    """Each kind lists every file of its folder, with something about it, briefly and at length."""
    names = {"workloads": assets.workloads, "engines": assets.engines}
    expected = sorted(names[kind]() if kind in names else registry.names(kind))

    brief = replayer("list", kind).out
    found = json.loads(replayer("list", kind, "--json").out)[kind]
    whole = replayer("list", kind, "-v").out

    assert [entry["name"] for entry in found] == expected
    assert all(entry["about"] and entry["text"] for entry in found)
    for entry in found:
        assert re.search(rf"^  {entry['name']}\b", brief, re.MULTILINE)
        assert re.search(rf"^{entry['name']}$", whole, re.MULTILINE)
    assert max(map(len, (brief + whole).splitlines())) <= 100


def test_list_without_a_kind_tells_of_all(replayer: Replayer, results: Path) -> None:
    """Every kind that has something is named, and the stored runs with what they ran on."""
    out = replayer("list").out

    assert re.findall(r"^(\w+)", out, re.MULTILINE)[:2] == ["workloads", "engines"]
    assert "  demo " in out
    assert re.search(rf"^{RUN} .*6\.12\S* +stock +done", out, re.MULTILINE)


def test_list_tells_of_all_else_beside_results_that_cannot_be_read(
    replayer: Replayer, tmp_path: Path
) -> None:
    """Only the lists of runs and of their metrics need them."""
    (tmp_path / "results").write_text("no folder")
    told = replayer("list")

    assert "smoke" in told.out
    assert "cannot be read: Not a directory" in told.err
    assert "Not a directory" in replayer("list", "runs", status=2).err


def test_list_runs_tells_of_files_that_are_no_runs(replayer: Replayer, results: Path) -> None:
    """A file that cannot be read is named with its reason beside the runs, and nothing fails."""
    (results / "broken.json").write_text("{")

    out, err = replayer("list", "runs")
    found = json.loads(replayer("list", "runs", "--json").out)

    assert "broken.json: it is cut off" in err
    assert RUN in out
    assert [run["id"] for run in found["runs"]] == [RUN]
    assert [Path(bad["path"]).name for bad in found["unreadable"]] == ["broken.json"]


def test_list_runs_never_cuts_an_id(replayer: Replayer, results: Path) -> None:
    """An id can be copied from the list, however long the label and the kernel are."""
    text = FIXTURE.read_text(encoding="utf-8")
    long = f"20261120-154501-kernel-compare-{'x' * 20}-0000"
    text = text.replace(RUN, long).replace('"label": "stock"', f'"label": "{"y" * 200}"')
    (results / f"{long}.json").write_text(text)

    piped, out = replayer("list", "runs").out, replayer("list").out

    assert long in piped
    assert long in out
    assert "y" * 8 in out
    assert max(map(len, out.splitlines())) <= 100


def test_list_steps_tells_their_keys(replayer: Replayer) -> None:
    """The keys of a step are shown with their type, default and meaning."""
    out = replayer("list", "steps", "-v").out

    assert re.search(r"^  num_schemas +int, default \d+", out, re.MULTILINE)
    assert re.search(r"^  run_time +duration, default", out, re.MULTILINE)


def test_a_kind_that_is_not_there_is_refused(replayer: Replayer) -> None:
    """An unknown kind is status 2, and the kinds that exist are named."""
    assert "workloads" in replayer("list", "workload", status=2).err


@pytest.mark.slow
@pytest.mark.parametrize("command", ["show", "list"])
def test_the_examples_of_the_help_work(
    replayer: Replayer, results: Path, tmp_path: Path, command: str
) -> None:
    """Every example in the help runs as it is written."""
    with ArchiveWriter(tmp_path / "monday.replay") as capture:
        capture.add(Action(0, "connect", 0, 0))
        capture.add(Action(0, "simple", 10, 10, "SELECT 1"))
        capture.close()
    found = examples(command)
    assert len(found) > 3
    for line in found:
        arguments = shlex.split(line.partition("  ")[0])
        arguments = [str(results) if word.startswith("/mnt/") else word for word in arguments]
        replayer(*arguments)
