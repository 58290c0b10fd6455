"""What a user meets around the commands: help, the manual, completion, progress, time limits."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from replayer import journal, registry
from replayer.model import Status
from replayer.results import store
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
def toml(tmp_path):
    """Return a function that writes a workload and returns its path."""

    def write(text):
        path = tmp_path / "w.toml"
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize("words", [[], ["help"]])
def test_alone_it_says_what_one_can_do(cli, words):
    """Three examples that are commands, and every command by its name."""
    out, _ = cli(*words)
    examples = re.findall(r"^  replayer (\w+)", out, re.MULTILINE)

    assert len(examples) == 3
    assert set(examples) <= set(registry.names("commands"))
    for name in registry.names("commands"):
        assert f"\n  {name} " in out


def test_help_of_a_command_is_its_help(cli):
    """`help run` and `run --help` print the same, and a name that is not there has a neighbour."""
    assert cli("help", "run")[0] == cli("run", "--help")[0]
    assert "did you mean run?" in cli("help", "runn", status=2)[1]


def test_the_manual_has_every_option_and_is_sound_roff(cli, tmp_path):
    """What --help prints of each command stands in it, and roff finds nothing to complain of."""
    page, _ = cli("help", "--man")
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


@pytest.fixture(scope="module")
def completions():
    """Return what is printed for each shell."""
    command = [sys.executable, "-m", "replayer", "completion"]
    return {
        shell: subprocess.run([*command, shell], capture_output=True, text=True, check=True).stdout
        for shell in ("bash", "zsh", "fish")
    }


def completed(script, *words):
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


def test_bash_completes_commands_options_and_names(completions):
    """At a Tab no replayer is started: all that is offered stands in the script."""
    script = completions["bash"]

    assert {"run", "runs"} == completed(script, "ru")
    assert "--dry-run" in completed(script, "run", "--d")
    assert "kernel-compare" in completed(script, "run", "kern")
    assert {"list", "show", "rename", "note", "delete"} <= completed(script, "runs", "")
    assert "mariadb" in completed(script, "run", "--engine", "mar")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_know_every_command(completions, shell):
    """Commands and options are in their scripts; the shell checks them where it is installed."""
    for word in (*registry.names("commands"), "dry-run", "resume"):
        assert word in completions[shell]
    if shutil.which(shell):
        checked = subprocess.run(
            [shell, "-n"], input=completions[shell], capture_output=True, text=True, check=False
        )
        assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.slow
def test_progress_for_programs_is_json_line_by_line(cli, toml):
    """Each line of stderr is an object: the run, its tasks, its steps, and the run at its end."""
    out, err = cli("run", toml(QUICK), "--progress", "json", "-q")
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


def test_an_error_is_json_too(cli):
    """Who reads lines of JSON need not know of any other line."""
    _, err = cli("run", "nosuch", "--progress=json", status=2)

    assert json.loads(err)["status"] == 2


@pytest.mark.slow
def test_verbose_says_what_steps_measured_and_quiet_nothing(cli, toml):
    """-v adds a line for each step; -q leaves where the result is."""
    path = toml(QUICK)
    _, loud = cli("run", path, "-v")
    out, quiet = cli("run", path, "-q")

    assert len(re.findall(r"^cpu \(repeat \d\): done; in .*cpu\.", loud, re.MULTILINE)) == 2
    assert out == ""
    assert re.fullmatch(r"result: \S+\n", quiet)
    cli("run", path, "-q", "-v", status=2)


@pytest.mark.slow
def test_a_time_limit_keeps_what_was_measured(cli, toml, tmp_path):
    """The run is interrupted in its step, and --resume has something to go on with."""
    began = time.monotonic()
    _, err = cli("run", toml(LONG), "--timeout", "8s", status=130)
    (path,) = (tmp_path / "results").glob("*.json")

    assert time.monotonic() - began < 60
    assert "--timeout" in err
    assert store.load(path).status is Status.INTERRUPTED
    for words in ("0s", "soon", "9999999999h"):
        assert cli("run", "smoke", "--timeout", words, status=2)[1].startswith("replayer: error: ")


def until(condition):
    """Wait until something is so."""
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
def test_a_run_is_watched_from_elsewhere(cli, start, toml, tmp_path):
    """Its steps are told as they come, and at its end it is over; then none is under way."""
    path = toml(QUICK.replace("200ms", "2s"))
    running = start("run", path, "-q")
    folder = tmp_path / "results"
    until(lambda: any(one.stat().st_size for one in folder.glob("2*.json")))
    out, err = cli("watch")
    running.communicate(timeout=120)

    assert running.returncode == 0
    assert err.count("): done; in ") == 2
    assert "is done" in err
    assert out.strip().endswith(".json")
    assert "no run is under way" in cli("watch", status=2)[1]
    assert "is done" in cli("watch", "latest")[1]


@pytest.mark.slow
def test_a_run_that_was_killed_ends_the_watching(cli, start, toml, tmp_path):
    """What became of it is said, with what takes it up; the file is left as it was."""
    running = start("run", toml(LONG), "-q")
    folder = tmp_path / "results"
    until(lambda: any(one.stat().st_size for one in folder.glob("2*.json")))
    (path,) = folder.glob("2*.json")
    watching = start("watch")
    assert line_with(watching.stderr, re.compile("watching"))
    running.kill()
    running.communicate(timeout=60)
    before = path.read_bytes()
    _, err = watching.communicate(timeout=60)

    assert watching.returncode == 1
    assert "is gone: `replayer run --resume" in err
    assert path.read_bytes() == before


@pytest.mark.slow
def test_ctrl_c_ends_the_watching_alone(start, toml, tmp_path):
    """The run that is watched goes on."""
    running = start("run", toml(LONG), "-q")
    folder = tmp_path / "results"
    until(lambda: any(one.stat().st_size for one in folder.glob("2*.json")))
    watching = start("watch")
    assert line_with(watching.stderr, re.compile("watching"))
    watching.send_signal(signal.SIGINT)
    watching.communicate(timeout=60)

    assert watching.returncode == 130
    assert running.poll() is None


def test_a_run_of_a_capture_that_is_gone_is_watched_all_the_same(cli, tmp_path, run_of):
    """What the file says is enough."""
    folder = tmp_path / "results"
    folder.mkdir()
    run = run_of([1.0])
    writer = journal.identity(os.getpid())
    store.save(folder / f"{run.id}.json", run.model_copy(update={"writer": writer}))

    assert "is done" in cli("watch", run.id)[1]
