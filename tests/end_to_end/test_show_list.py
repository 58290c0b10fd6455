"""show and list, as a user types them, on stored results and without a database."""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from replayer import assets, registry
from replayer.capture.action import Action
from replayer.capture.archive import Writer
from replayer.model import Run
from replayer.results import store

TESTS = Path(__file__).parents[1]
FIXTURE = TESTS / "fixtures" / "runs" / f"format-{store.FORMAT}.json"
RUN = "20261120-154500-demo-stock-3f2a"


@pytest.fixture
def results(tmp_path):
    """Return a results folder that holds the fixture's run, which sized nothing."""
    folder = tmp_path / "results"
    folder.mkdir()
    stored = json.loads(FIXTURE.read_text())
    del stored["sizing"]
    (folder / f"{RUN}.json").write_text(store.text(Run.model_validate(stored)))
    return folder


def test_a_requirement_that_cannot_be_read_hides_no_number(results, cli):
    """The run is shown, and a note says that its verdict is not."""
    (results / f"{RUN}.json").write_text(FIXTURE.read_text())
    shown = cli("show", "latest")

    assert "cannot be read: run `replayer size` again" in shown.stderr
    assert "in short" in shown.stdout


@pytest.fixture
def cli(tmp_path):
    """Return a function that runs replayer as a user would, in a folder of its own."""

    def call(*arguments, status=0, **environment):
        kept = {k: v for k, v in os.environ.items() if k not in ("REPLAYER_RESULTS", "COLUMNS")}
        done = subprocess.run(
            [sys.executable, "-m", "replayer", *map(str, arguments)],
            cwd=tmp_path,
            env={**kept, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == status, done.stderr
        assert "Traceback" not in done.stderr
        return done

    return call


def examples(name):
    """Return the command lines in the examples of a command's help."""
    parser = argparse.ArgumentParser()
    registry.load("commands", name).configure(parser)
    return re.findall(r"^  replayer ((?:\S+ )*\S+)", parser.epilog, re.MULTILINE)


@pytest.mark.parametrize("wanted", ["latest", RUN, "20261120", "stock", "results/" + RUN + ".json"])
def test_show_finds_a_run_by_what_people_type(cli, results, wanted):
    """The newest run, an id, its start, a label and a path all show the same report."""
    out = cli("show", wanted).stdout

    assert out.startswith(f"replayer run {RUN}")
    assert "\x1b" not in out
    assert "NOT COLD" in out


def test_show_json_is_the_result_file(cli, results):
    """`--json` prints what is stored, byte for byte, and nothing beside it."""
    done = cli("show", "latest", "--json")

    assert done.stdout == (results / f"{RUN}.json").read_text(encoding="utf-8")
    assert done.stderr == ""


def test_the_results_folder_comes_from_the_environment(cli, results):
    """$REPLAYER_RESULTS is where runs are looked for, unless --results says otherwise."""
    elsewhere = results.rename(results.with_name("elsewhere"))

    assert RUN in cli("show", "latest", REPLAYER_RESULTS=str(elsewhere)).stdout
    assert RUN in cli("list", "runs", "--results", elsewhere, REPLAYER_RESULTS="/nowhere").stdout
    assert "no runs in results" in cli("show", "latest", status=2).stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "is empty"), ("{", "cut off"), ('{"jobs": []}', "not a run of replayer")],
)
def test_a_file_that_is_no_run_is_one_sentence(cli, results, text, said):
    """Whatever is wrong with a file, the answer is one line on stderr and status 2."""
    (results / "bad.json").write_text(text)

    done = cli("show", "results/bad.json", status=2)

    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert said in done.stderr


def test_a_reader_that_stops_reading_is_no_error(results, tmp_path):
    """`replayer show latest --json | head -1` ends in peace."""
    program = f"{shlex.quote(sys.executable)} -m replayer"
    for command in ("show latest", "show latest --json", "list -v"):
        done = subprocess.run(
            ["bash", "-c", f"{program} {command} | head -1; echo ${{PIPESTATUS[0]}}"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert done.stderr == ""
        assert done.stdout.splitlines()[-1] == "0"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["workloads", "engines", "steps", "collectors", "probes"])
def test_list_names_everything_there_is(cli, kind):
    """Each kind lists every file of its folder, with something about it, briefly and at length."""
    names = {"workloads": assets.workloads, "engines": assets.engines}
    expected = sorted(names[kind]() if kind in names else registry.names(kind))

    brief = cli("list", kind).stdout
    found = json.loads(cli("list", kind, "--json").stdout)[kind]
    whole = cli("list", kind, "-v").stdout

    assert [entry["name"] for entry in found] == expected
    assert all(entry["about"] and entry["text"] for entry in found)
    for entry in found:
        assert re.search(rf"^  {entry['name']}\b", brief, re.MULTILINE)
        assert re.search(rf"^{entry['name']}$", whole, re.MULTILINE)
    assert max(map(len, (brief + whole).splitlines())) <= 100


def test_list_without_a_kind_tells_of_all(cli, results):
    """Every kind that has something is named, and the stored runs with what they ran on."""
    out = cli("list").stdout

    assert re.findall(r"^(\w+)", out, re.MULTILINE)[:2] == ["workloads", "engines"]
    assert "  demo " in out
    assert re.search(rf"^{RUN} +6 min 12 s +done +stock +6\.12", out, re.MULTILINE)


def test_list_runs_tells_of_files_that_are_no_runs(cli, results):
    """A file that cannot be read is named with its reason beside the runs, and nothing fails."""
    (results / "broken.json").write_text("{")

    out = cli("list", "runs").stdout
    found = json.loads(cli("list", "runs", "--json").stdout)

    assert "broken.json: it is cut off" in out
    assert [run["id"] for run in found["runs"]] == [RUN]
    assert [Path(bad["path"]).name for bad in found["unreadable"]] == ["broken.json"]


def test_list_runs_never_cuts_an_id(cli, results):
    """An id can be copied from the list, however long the label and the kernel are."""
    text = FIXTURE.read_text(encoding="utf-8")
    long = f"20261120-154501-kernel-compare-{'x' * 20}-0000"
    text = text.replace(RUN, long).replace('"label": "stock"', f'"label": "{"y" * 200}"')
    (results / f"{long}.json").write_text(text)

    out = cli("list", "runs").stdout

    assert long in out
    assert "y" * 8 in out
    assert max(map(len, out.splitlines())) <= 100


def test_list_steps_tells_their_keys(cli):
    """The keys of a step are shown with their type, default and meaning."""
    out = cli("list", "steps", "-v").stdout

    assert re.search(r"^  num_schemas +int, default \d+", out, re.MULTILINE)
    assert re.search(r"^  run_time +duration, default", out, re.MULTILINE)


def test_a_kind_that_is_not_there_is_refused(cli):
    """An unknown kind is status 2, and the kinds that exist are named."""
    assert "workloads" in cli("list", "workload", status=2).stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", ["show", "list"])
def test_the_examples_of_the_help_work(cli, results, tmp_path, command):
    """Every example in the help runs as it is written."""
    with Writer(tmp_path / "monday.replay") as capture:
        capture.add(Action(0, "connect", 0, 0))
        capture.add(Action(0, "simple", 10, 10, "SELECT 1"))
        capture.close()
    found = examples(command)
    assert len(found) > 3
    for line in found:
        arguments = shlex.split(line.partition("  ")[0])
        arguments = [str(results) if word.startswith("/mnt/") else word for word in arguments]
        cli(*arguments)
