"""What a user meets around the commands: help, the manual, completion, progress, time limits."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from replayer import journal, registry
from replayer.analysis.advice import warnings
from replayer.model import Status
from replayer.results import store
from tests.command import Replayer
from tests.conftest import missing
from tests.fixture_types import RunOf
from tests.told import line_with

QUICK = """
repeat = 2
[[step]]
step = "probe"
name = "cpu"
probe = "cpu"
duration = "200ms"
"""
LONG = QUICK.replace("200ms", "60s")


@pytest.fixture
def toml(tmp_path: Path) -> Callable[[str], Path]:
    """Return a function that writes a workload and returns its path."""

    def write(text: str) -> Path:
        path = tmp_path / "w.toml"
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize("words", [[], ["help"]])
def test_alone_it_says_what_one_can_do(replayer: Replayer, words: list[str]) -> None:
    """Three examples that are commands, and every command by its name."""
    out, _ = replayer(*words)
    examples = re.findall(r"^  replayer (\w+)", out, re.MULTILINE)

    assert len(examples) == 3
    assert set(examples) <= set(registry.names("commands"))
    for name in registry.names("commands"):
        assert f"\n  {name} " in out


def test_help_of_a_command_is_its_help(replayer: Replayer) -> None:
    """`help run` and `run --help` print the same, and a name that is not there has a neighbour."""
    assert replayer("help", "run").out == replayer("run", "--help").out
    assert "did you mean run?" in replayer("help", "runn", status=2).err


def test_help_explains_each_warning_of_a_report(replayer: Replayer) -> None:
    """A report names warnings and this command: an installed replayer has no documents with it."""
    for warning in warnings.every():
        assert replayer("help", warning.__name__).out.startswith(f"{warning.__name__}: ")
    assert "did you mean large_read_ahead?" in replayer("help", "large_readahead", status=2).err


def test_the_manual_has_every_option_and_is_sound_roff(replayer: Replayer, tmp_path: Path) -> None:
    """What --help prints of each command stands in it, and roff finds nothing to complain of."""
    page, _ = replayer("help", "--man")
    plain = page.replace("\\-", "-").replace("\\(ga", "`").replace("\\&", "")
    for name in registry.names("commands"):
        assert f'.SS "replayer {name}"' in plain
    for option in ("--dry-run", "--resume", "--fail-if-worse", "--pg-bindir"):
        assert option in plain
    if shutil.which("groff") is None:
        pytest.skip("there is no groff")
    (tmp_path / "replayer.1").write_text(page)
    checked = subprocess.run(
        ["groff", "-ww", "-man", "-Tutf8", "-z", tmp_path / "replayer.1"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert checked.stderr == ""


def completed(script: str, *words: str) -> set[str]:
    """Return what bash would offer for the last of these words."""
    listed = " ".join(f"'{word}'" for word in ("replayer", *words))
    program = (
        f"{script}\nCOMP_WORDS=({listed}); COMP_CWORD={len(words)}\n"
        "fn=$(complete -p replayer | sed 's/.*-F \\([^ ]*\\).*/\\1/')\n"
        '$fn replayer "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"\n'
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_bash_completes_commands_options_and_names(replayer: Replayer) -> None:
    """At a Tab no replayer is started: all that is offered stands in the script."""
    script = replayer("completion", "bash").out

    assert {"run", "runs"} == completed(script, "ru")
    assert "--dry-run" in completed(script, "run", "--d")
    assert "kernel-compare" in completed(script, "run", "kern")
    assert {"list", "show", "rename", "note", "delete"} <= completed(script, "runs", "")
    assert "mariadb" in completed(script, "run", "--engine", "mar")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_know_every_command(replayer: Replayer, shell: str) -> None:
    """Commands and options are in their scripts; the shell checks them where it is installed."""
    script = replayer("completion", shell).out
    for word in (*registry.names("commands"), "dry-run", "resume"):
        assert word in script
    if shutil.which(shell):
        checked = subprocess.run(
            [shell, "-n"], input=script, capture_output=True, text=True, check=False
        )
        assert (checked.returncode, checked.stderr) == (0, "")


def test_fish_completes_what_is_in_the_results(replayer: Replayer, tmp_path: Path) -> None:
    """Fish has another syntax than sh, in which runs, labels and metrics are looked up."""
    fish = shutil.which("fish") or missing("fish", "apt-get install fish")
    (tmp_path / "c.fish").write_text(replayer("completion", "fish").out)
    folder = tmp_path / "results"
    folder.mkdir()
    head = '{\n "label": "stock",\n "metric": "sessions.riops",\n'
    (folder / "20261120-154501-demo.json").write_text(head)

    def offered(line: str) -> list[str]:
        words = [fish, "--no-config", "-c", f"source c.fish; complete -C '{line}'"]
        shown = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert shown.stderr == ""
        return [row.partition("\t")[0] for row in shown.stdout.splitlines()]

    assert {"latest", "20261120-154501-demo", "stock"} <= set(offered("replayer show "))
    assert offered("replayer run kern") == ["kernel-compare"]


@pytest.mark.slow
def test_progress_for_programs_is_json_line_by_line(
    replayer: Replayer, toml: Callable[[str], Path]
) -> None:
    """Each line of stderr is an object: the run, its tasks, its steps, and the run at its end."""
    out, err = replayer("run", toml(QUICK), "--progress", "json", "-q")
    events = [json.loads(line) for line in err.splitlines()]
    steps = [event for event in events if event["event"] == "step"]
    first, last = [event for event in events if event["event"] == "run"]

    assert out == ""
    assert [(step["repeat"], step["status"]) for step in steps] == [(1, "done"), (2, "done")]
    assert any(name.endswith("processes_1") for name in steps[0]["measured"])
    assert (first["status"], last["status"]) == ("running", "done")
    assert store.load(toml("").parent / last["path"]).id == last["id"]
    begun = {event["number"] for event in events if event["event"] == "task"}
    assert begun == {event["number"] for event in events if event["event"] == "end"}
    assert all("at" in event for event in events)


def test_an_error_is_json_too(replayer: Replayer) -> None:
    """Who reads lines of JSON need not know of any other line."""
    _, err = replayer("run", "nosuch", "--progress=json", status=2)

    assert json.loads(err)["status"] == 2


@pytest.mark.slow
def test_verbose_says_what_steps_measured_and_quiet_nothing(
    replayer: Replayer, toml: Callable[[str], Path]
) -> None:
    """-v adds a line for each step; -q leaves where the result is."""
    path = toml(QUICK)
    _, loud = replayer("run", path, "-v")
    out, quiet = replayer("run", path, "-q")

    assert len(re.findall(r"^cpu \(repeat \d\): done; in .*cpu\.", loud, re.MULTILINE)) == 2
    assert out == ""
    assert re.fullmatch(r"result: \S+\n", quiet)
    replayer("run", path, "-q", "-v", status=2)


@pytest.mark.slow
def test_a_time_limit_keeps_what_was_measured(
    replayer: Replayer, toml: Callable[[str], Path], tmp_path: Path
) -> None:
    """The run is interrupted in its step, and --resume has something to go on with.

    Its line of -v does not have the reason, which is the last line.
    """
    _, err = replayer.process("run", toml(LONG), "--timeout", "8s", "-v", status=130)
    (path,) = (tmp_path / "results").glob("*.json")
    run = store.load(path)

    assert err.count("--timeout") == 1
    assert run.status is Status.INTERRUPTED
    assert Status.DONE not in {step.status for step in run.steps}
    for words in ("0s", "soon", "9999999999h"):
        refused = replayer("run", "smoke", "--timeout", words, status=2)
        assert refused.err.startswith("replayer: error: ")


@pytest.fixture
def running(replayer: Replayer, tmp_path: Path) -> Callable[[Path], "subprocess.Popen[str]"]:
    """Return a function that starts a run, and returns it when its file is there."""

    def start(workload: Path) -> "subprocess.Popen[str]":
        started = replayer.start("run", workload, "-q")
        folder = tmp_path / "results"
        while not any(one.stat().st_size for one in folder.glob("2*.json")):
            assert started.poll() is None
            time.sleep(0.05)
        return started

    return start


@pytest.fixture
def watching(replayer: Replayer) -> Callable[[], "subprocess.Popen[str]"]:
    """Return a function that starts to watch a run, and returns it when it does."""

    def start() -> "subprocess.Popen[str]":
        started = replayer.start("watch")
        assert started.stderr
        assert line_with(started.stderr, re.compile("watching"))
        return started

    return start


@pytest.mark.slow
def test_a_run_is_watched_from_elsewhere(
    replayer: Replayer,
    running: Callable[[Path], "subprocess.Popen[str]"],
    toml: Callable[[str], Path],
) -> None:
    """Its steps are told as they come, and at its end it is over; then none is under way."""
    run = running(toml(QUICK.replace("200ms", "2s")))
    out, err = replayer.process("watch")
    run.communicate()

    assert run.returncode == 0
    assert err.count("): done; in ") == 2
    assert "is done" in err
    assert out.strip().endswith(".json")
    assert "no run is under way" in replayer("watch", status=2).err
    assert "is done" in replayer("watch", "latest").err


@pytest.mark.slow
def test_a_run_that_was_killed_ends_the_watching(
    running: Callable[[Path], "subprocess.Popen[str]"],
    watching: Callable[[], "subprocess.Popen[str]"],
    toml: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    """What became of it is said, with what takes it up; the file is left as it was."""
    run = running(toml(LONG))
    (path,) = (tmp_path / "results").glob("2*.json")
    watch = watching()
    run.kill()
    run.communicate()
    before = path.read_bytes()
    _, err = watch.communicate()

    assert watch.returncode == 1
    assert "is gone: `replayer run --resume" in err
    assert path.read_bytes() == before


@pytest.mark.slow
def test_ctrl_c_ends_the_watching_alone(
    running: Callable[[Path], "subprocess.Popen[str]"],
    watching: Callable[[], "subprocess.Popen[str]"],
    toml: Callable[[str], Path],
) -> None:
    """The run that is watched goes on."""
    run = running(toml(LONG))
    watch = watching()
    watch.send_signal(signal.SIGINT)
    watch.communicate()

    assert watch.returncode == 130
    assert run.poll() is None


def test_a_run_of_a_capture_that_is_gone_is_watched_all_the_same(
    replayer: Replayer, tmp_path: Path, run_of: RunOf
) -> None:
    """What the file says is enough."""
    folder = tmp_path / "results"
    folder.mkdir()
    run = run_of([1.0])
    writer = journal.identity(os.getpid())
    store.save(folder / f"{run.id}.json", run.model_copy(update={"writer": writer}))

    assert "is done" in replayer("watch", run.id).err
