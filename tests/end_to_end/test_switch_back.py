"""What a killed command left to be switched back, where another user can change what would run."""

import contextlib
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from replayer import journal, registry
from replayer.conditions import switch_back
from replayer.errors import Impossible, ReplayerError
from replayer.experiments import variant as variant_module
from replayer.experiments.variant import RunOptions, Variant
from replayer.machine import processes
from replayer.model import Run
from replayer.results import store
from replayer.run.plan import run_words
from tests.fixture_types import RunOf
from tests.made import altered
from tests.waiting import wait_until

FOREIGN = 65534


@pytest.mark.root
@pytest.mark.parametrize("place", ["script", "=script", "folder", "missing", "link", "own"])
def test_root_runs_nothing_that_another_user_could_have_placed(
    own_home: Path, tmp_path: Path, place: str
) -> None:
    """A script that is an argument, a file of its folder, one that is gone; its own is run."""
    done, script, folder = tmp_path / "done", tmp_path / "on.sh", tmp_path
    script.write_text(f"touch {shlex.quote(str(done))}\n")
    if place in {"script", "=script"}:
        os.chown(script, FOREIGN, FOREIGN)
    if place == "folder":
        folder = tmp_path / "theirs"
        folder.mkdir()
        os.chown(folder, FOREIGN, FOREIGN)
    if place == "missing":
        script = tmp_path / "shared" / "on.sh"
        script.parent.mkdir()
        script.parent.chmod(0o1777)
    if place == "link":
        theirs = tmp_path / "theirs"
        theirs.mkdir()
        script.rename(theirs / "on.sh")
        script.symlink_to(theirs / "on.sh")
        os.chown(theirs, FOREIGN, FOREIGN)
    name = f"--file={script}" if place == "=script" else str(script)
    words = ["/bin/sh", *(["-c", f". {script}"] if place == "=script" else []), name]
    note = journal.take("switch", command=shlex.join(words), folder=str(folder))

    if place == "own":
        assert "switched back" in switch_back.recover(note)
    else:
        with pytest.raises(ReplayerError, match="run it by hand"):
            switch_back.recover(note)
    assert done.exists() == (place == "own")
    assert note.path.exists() == (place != "own")
    note.drop()


@pytest.mark.root
@pytest.mark.parametrize(
    "words",
    [
        "sh -c 'sh {theirs}/on.sh 1'",
        "sh -c 'cd {theirs} && ./on.sh'",
        "sh -c 'cd {theirs}\nsh on.sh'",
        "sh -c '. $HOME/on.sh'",
        """python3 -c "exec(open('{theirs}/on.sh').read())" """,
        "make -C{theirs} on",
        "make -C {theirs} on",
        "env -C.. sh on.sh",
        "sh -c 'sh theirs.sh'",
        "python3 -I{theirs} theirs",
        "env '--file={theirs}/its own/on.sh'",
        "env '-C{theirs}/its own'",
        "env --file={theirs}/a,b/on.sh",
        "mount -o remount,noatime {theirs}/a,b/on.sh",
    ],
)
def test_root_runs_no_command_of_which_not_all_can_be_checked(
    own_home: Path, tmp_path: Path, words: str
) -> None:
    """Paths within a word, folders in which a program looks, and programs of a shell."""
    theirs, folder = tmp_path / "theirs", tmp_path / "theirs" / "own"
    folder.mkdir(parents=True)
    (folder / "theirs.sh").touch()
    os.chown(folder / "theirs.sh", FOREIGN, FOREIGN)
    for name in ("its own", "a,b"):
        (theirs / name).mkdir()
        (theirs / name / "on.sh").touch()
        os.chown(theirs / name, FOREIGN, FOREIGN)
    # Only what is in these two is another user's.
    theirs.chmod(0o755 if "/its own" in words or "/a,b" in words else 0o1777)
    note = journal.take("switch", command=words.format(theirs=theirs), folder=str(folder))

    with pytest.raises(ReplayerError, match=f"is not run, as .*run it by hand.* {note.path}$"):
        switch_back.recover(note)
    note.drop()


@pytest.mark.root
def test_a_mount_point_may_be_of_the_user_of_a_database(tmp_path: Path) -> None:
    """Root mounts it again, and uses no file in it; another program may."""
    point = tmp_path / "data"
    point.mkdir()
    os.chown(point, FOREIGN, FOREIGN)
    words = ["-o", "remount,noatime", str(point)]

    assert switch_back._changeable(["mount", *words], tmp_path) == ""
    assert f"{point} belongs to" in switch_back._changeable(["make", *words], tmp_path)


@pytest.mark.root
@pytest.mark.parametrize(
    "words",
    [
        "true -w 'net.ipv4.tcp_rmem=4096 87380 6291456'",
        "true -c all frequency-set -g performance",
        "sh -c 'sh {own}/on.sh' -o /dev/null",
        "tee -a --output-error=warn {own}/out",
    ],
)
def test_root_runs_a_command_whose_files_are_its_own(
    own_home: Path, tmp_path: Path, words: str
) -> None:
    """Values with spaces are no paths, and a device is not run."""
    (tmp_path / "on.sh").touch()
    note = journal.take("switch", command=words.format(own=tmp_path), folder=str(tmp_path))

    assert "switched back" in switch_back.recover(note)


def test_a_command_that_fails_again_says_how_it_is_not_tried_any_more(own_home: Path) -> None:
    """What it wrote to may be gone, such as a cgroup: it would fail before every run, for ever."""
    note = journal.take("switch", command="/bin/sh -c 'exit 3'", folder="/")

    with pytest.raises(ReplayerError, match=f"status 3.*: if .* remove {note.path}$"):
        switch_back.recover(note)
    note.drop()


@pytest.mark.parametrize("command", [" ", "sh 'open", "no-such-program"])
def test_a_command_that_cannot_be_run_is_refused_before_the_first_run(
    own_home: Path, command: str
) -> None:
    """It has no word, an open quote, or no program; no note is left of it."""
    with pytest.raises(Impossible), switch_back.switched_back(command, print):
        raise AssertionError

    assert not list(journal.notes())


def test_an_error_is_not_hidden_by_the_command_that_switches_back(own_home: Path) -> None:
    """The earlier error is raised, the other one is printed, and the next command tries again."""
    printed: list[str] = []

    def measure() -> None:
        with switch_back.switched_back("false", printed.append):
            switch_back.switch("true two")
            raise KeyError

    with pytest.raises(KeyError):
        measure()
    (sentence,) = printed
    assert "was not switched back, and is as 'true two' left it: " in sentence
    assert "`replayer clean`, tries it again" in sentence
    (note,) = journal.notes()
    note.drop()


LEVELS = ("--switch", "true {}", "--switch-back", "false")


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("ab", "--a", "one", "--b", "two", "--runs", "3"), "no difference between"),
        (("bisect", "--over", "one,two"), "two is the first that is worse"),
        (("experiment", "--factors", "switch=one:two", "--yes"), "does -50"),
    ],
)
def test_the_answer_is_printed_before_the_command_that_switches_back_fails(
    own_home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    run_of: RunOf,
    *,
    words: tuple[str, ...],
    answer: str,
) -> None:
    """Only then an error names the level of the machine."""

    def measure(_workload: str, variant: Variant, options: RunOptions) -> Run:
        run = run_of([500.0 if "two" in variant.switch else 1000.0], label=variant.label)
        run = altered(run, tags=dict(options.tags))
        store.save(options.results / f"{run.id}.json", run)
        return run

    monkeypatch.setattr(variant_module, "measure", measure)
    command, *others = words
    more = (*others, *LEVELS, "--results", str(tmp_path / "results"))
    with pytest.raises(ReplayerError, match=r"not switched back, and is as 'true (one|two)' left"):
        registry.plugin("commands", command).run(run_words.parse(("cpu", *more), command))
    (note,) = journal.notes()
    note.drop()
    assert answer in " ".join(capsys.readouterr().out.split())


def test_a_command_that_switches_ends_with_a_replayer_that_is_killed(tmp_path: Path) -> None:
    """Else it would switch the machine after the next command has switched it back."""
    begun, gate, late = (tmp_path / name for name in ("begun", "gate", "late"))
    os.mkfifo(gate)
    (tmp_path / "script").write_text(f"echo $$ > {begun}\nread word < {gate}\ntouch {late}\n")
    words = "from replayer.conditions import switch_back; switch_back.run_command('sh script')"
    process = subprocess.Popen([sys.executable, "-c", words], cwd=tmp_path)
    pid = int(wait_until(lambda: begun.exists() and begun.read_text().strip()))
    process.kill()
    process.wait()
    with contextlib.suppress(OSError):  # nothing reads it
        opened = os.open(gate, os.O_WRONLY | os.O_NONBLOCK)
        os.write(opened, b"on\n")
        os.close(opened)
    wait_until(lambda: pid not in processes.every())

    assert not late.exists()
