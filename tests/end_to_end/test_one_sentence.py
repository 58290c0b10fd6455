"""What a user or a machine can cause is one sentence: each of these was once a traceback."""

import dataclasses
import errno
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from replayer import journal, shell, signals, trusted_path
from replayer.errors import Impossible, Interrupted, ReplayerError, expected
from replayer.results import store
from replayer.servers.open import Server
from tests.command import COMMAND, Replayer
from tests.fixture_types import RunOf
from tests.sizing_runs import of_cpu
from tests.waiting import wait_until

HIT_WHILE_INSTALLING = """
import os, signal, threading
from replayer.__main__ import main

start = threading.Thread.start

def hit(thread):
    start(thread)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread.start = hit
raise SystemExit(main(["list", "workloads"]))
"""
"""Replayer's program, interrupted in the middle of the installation of its signal handlers."""
HIT_BEFORE = """
import os, signal, sys

class Hit:
    def find_spec(self, name, path=None, target=None, hit=sys.argv.pop()):
        if name == hit:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Hit())
from replayer.__main__ import main
sys.argv[1:] = ["list", "workloads"]
main()
"""
"""Replayer's program, interrupted before a module is loaded that it begins with."""


def test_a_duration_in_which_nothing_can_end_is_refused(replayer: Replayer) -> None:
    """A probe of which not one pass ended within its time has no rate."""
    set_keys = ("--set", "cpu.duration=1us", "--set", "cpu.cpu_max_prime=1000000")
    done = replayer("run", "cpu", *set_keys, "--set", "cpu.threads=1", status=1)

    assert "ended one pass within 1.00 µs: give a longer duration" in done.err


@pytest.mark.parametrize("mix", ["5", "true", "[1, 2]"])
def test_a_mix_of_another_type_is_refused(replayer: Replayer, mix: str) -> None:
    """A mix is a table or a text; what it is instead is quoted."""
    (replayer.folder / "odd.toml").write_text(
        f'description = "odd"\n[[step]]\nstep = "sessions"\nmix = {mix}\n'
    )
    done = replayer("run", "./odd.toml", "--dry-run", status=2)

    assert "is not a mix: give a table or a text" in done.err


@pytest.mark.parametrize(
    "command",
    [
        "compare none other", "history", "size none.profile", "ab smoke --a x=1 --b x=2",
        "profile show none.profile", "shortlist none.profile",
        "bisect smoke --kernels none", "experiment smoke",
    ],
)  # fmt: skip
@pytest.mark.parametrize("first", ["--json", "--html -"])
def test_two_outputs_are_not_joined_on_stdout(replayer: Replayer, command: str, first: str) -> None:
    """No program could read them; this is known before any file that a command names is looked up.

    One of them may be stdout if the other is a file.
    """
    words = [*command.split(), "--csv", "-", *first.split()]
    done = replayer(*words, status=2)

    assert done.out == ""
    assert done.err == (
        f"replayer: error: {first} and --csv - both write to stdout: give one of them a file\n"
    )
    words[words.index("--csv") + 1] = "out.csv"
    assert "stdout" not in replayer(*words, status=2).err


@pytest.mark.parametrize("form", ["--csv", "--summary"])
def test_a_text_and_a_form_are_not_joined_on_stdout(replayer: Replayer, form: str) -> None:
    """The text of `report` is printed, too."""
    done = replayer("report", "none", "--text", form, "-", status=2)

    assert f"--text and {form} - both write to stdout" in done.err


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("report --html {a} {b}", "{a} is a stored run: name another file"),
        ("report {a} --html page.html --csv {b}", "{b} is a stored run: name another file"),
        ("report {a} --csv {a}", "--csv {a} is a file that is read here: name another file"),
        ("report {a} --csv linked", "--csv linked is a file that is read here: name another file"),
        ("compare {a} {b} --markdown {c}", "{c} is a stored run: name another file"),
        ("metrics {a} --out {b}", "{b} is a stored run: name another file"),
        ("report {a} --csv cut.json", "cut.json is a stored run: name another file"),
        ("metrics {a} --out {a}", "--out {a} is a file that is read here: name another file"),
        (
            "shortlist x.profile --catalog m.csv --csv ./m.csv",
            "--csv ./m.csv is a file that is read here: name another file",
        ),
        (
            "report {a} --html out --csv ./out",
            "--html and --csv both write ./out: give one of them another file",
        ),
        (
            "report {a} --html old.html --markdown linked.html",
            "--html and --markdown both write linked.html: give one of them another file",
        ),
    ],
)
def test_no_output_replaces_a_stored_run_or_what_is_read(
    replayer: Replayer, run_of: RunOf, command: str, reason: str
) -> None:
    """`--html g/*.json` names the first of the files by a slip: a run cannot be measured again."""
    folder = replayer.folder
    for name in "abc":
        store.save(folder / f"{name}.json", run_of([1.0, 2.0], label=name))
    for name in ("m.csv", "x.profile", "old.html"):
        (folder / name).write_text(name)
    (folder / "cut.json").write_bytes((folder / "c.json").read_bytes()[:300])
    (folder / "linked").symlink_to("a.json")
    (folder / "linked.html").symlink_to("old.html")
    names = {name: f"{name}.json" for name in "abc"}
    before = {path: path.read_bytes() for path in folder.iterdir()}
    done = replayer(*command.format(**names).split(), status=2)

    assert done.err.splitlines()[-1] == f"replayer: error: {reason.format(**names)}"
    assert {path: path.read_bytes() for path in before} == before


def test_an_earlier_output_is_replaced(replayer: Replayer, run_of: RunOf) -> None:
    """A page, a CSV and metrics are made again in their places; a device may be named twice."""
    path = replayer.folder / "a.json"
    store.save(path, run_of([1.0, 2.0], label="a"))
    outputs = [replayer.folder / name for name in ("page.html", "rows.csv", "run.prom")]
    for wanted in outputs:
        wanted.write_text("of before")
    html, csv, prom = outputs
    replayer("report", path, "--html", html, "--csv", csv)
    replayer("metrics", path, "--out", prom)
    replayer("report", path, "--html", "/dev/null", "--csv", "/dev/null")
    for _ in range(2):
        # The name of the run is no path, although a file of this name is there the second time.
        replayer("report", "a", "--results", replayer.folder, "--html", "a")

    assert all("of before" not in wanted.read_text() for wanted in outputs)


@pytest.mark.parametrize(
    "row",
    [
        {"doubling": 1, "rows_per_second": 10.0},
        {"doubling": 1, "rows_per_second": 10.0, "rows": 12, "seconds": "a second"},
        {"doubling": 1, "rows_per_second": 10.0, "rows": 12, "table_bytes": [1]},
    ],
)
def test_a_result_that_somebody_edited_is_shown_without_what_cannot_be_read(
    replayer: Replayer, run_of: RunOf, row: dict[str, object]
) -> None:
    """Terminal and page say that a step's numbers are not as it writes them, and show the rest."""
    path = replayer.folder / "edited.json"
    store.save(path, run_of([1.0]))
    run = json.loads(path.read_text())
    run["steps"][0] |= {"step": "build", "tables": {"doublings": [row]}}
    path.write_text(json.dumps(run))
    shown = replayer("show", path, "--full")
    replayer("report", path, "--html", "page.html")

    assert "are not as the step build writes them" in " ".join(shown.out.split())
    assert (replayer.folder / "page.html").stat().st_size


def test_ctrl_c_while_the_handlers_are_installed_is_one_sentence() -> None:
    """A signal that comes before the installation is over is raised where it is caught."""
    done = subprocess.run(
        [sys.executable, "-c", HIT_WHILE_INSTALLING], capture_output=True, text=True, check=False
    )

    assert done.returncode == Interrupted.status
    assert done.stderr == "replayer: error: stopped by Ctrl-C\n"


@pytest.mark.parametrize("module", ["replayer.cli.program", "replayer.signals", "argparse"])
def test_ctrl_c_before_the_handlers_are_installed_ends_without_a_word(module: str) -> None:
    """Nothing was taken by then: the signal ends the process, and no traceback is printed."""
    done = subprocess.run(
        [sys.executable, "-c", HIT_BEFORE, module], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGRTMIN + 3])
def test_a_program_that_was_killed_is_named_with_the_signal(number: int) -> None:
    """A child that something killed said nothing, and is not called one that failed."""
    with pytest.raises(ReplayerError) as killed:
        shell.run(["sh", "-c", f"kill -{int(number)} $$"])

    assert str(killed.value) == f"sh was killed by {signals.name_of(number)}"


def test_a_program_that_hangs_ends_with_what_it_has_started(tmp_path: Path) -> None:
    """A child of a script holds the script's output open: it does not prolong the limit."""
    ended = tmp_path / "ended"
    with pytest.raises(ReplayerError, match="sh did not end within 1 s"):
        shell.run(["sh", "-c", f"(sleep 10; touch {ended}) & wait"], timeout=1)

    assert not ended.exists()


def test_a_program_that_failed_without_a_word_is_told_by_its_status() -> None:
    """Where nothing was printed the status is what is known."""
    with pytest.raises(ReplayerError, match="false failed: it ended with status 1 and printed"):
        shell.run(["false"])


def test_a_killed_server_is_not_told_by_the_last_line_of_its_log(server: Server) -> None:
    """What a session was refused before has nothing to do with the server's end."""
    url = server.start()
    with pytest.raises(ReplayerError):
        shell.run(["psql", url.render_as_string().replace("/replayer?", "/nowhere?"), "-c", ""])
    os.kill(server.pids()[0], signal.SIGKILL)
    wait_until(lambda: not server.pids())

    assert server.describe_loss() == (
        "the database server went away (it was killed or crashed: its log does not mention an end)"
    )


def test_a_machine_without_another_thread_is_one_sentence() -> None:
    """A limit of memory or of processes is the machine's, and no defect of replayer's."""
    refused = RuntimeError("can't start new thread")

    assert "pids.max" in str(expected(refused))
    assert expected(RuntimeError("another")) is None


def test_a_folder_that_was_removed_is_not_needed_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With absolute paths it does not matter that the current folder is gone."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    trusted_path.Folder(tmp_path).close()


@pytest.mark.parametrize("below", [True, False])
def test_an_error_of_the_system_names_the_folder(tmp_path: Path, *, below: bool) -> None:
    """What is done below a folder's descriptor fails under a bare name: the folder is told too."""
    (tmp_path / "taken").mkdir()

    def fail() -> None:
        with trusted_path.Folder(tmp_path) as folder:
            if below:
                folder.make("taken", 0o755)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match=r"File exists|No space left") as failed:
        fail()

    error = expected(failed.value)
    assert error is not None
    assert str(tmp_path / ("taken" if below else "")) in str(error)


@pytest.mark.parametrize(
    "words",
    [
        ("convert", "a.log", "--out", "-"),
        ("plan", "--kernels", "a,b", "--boots", "2", "--out", "-"),
        ("profile", "--from", "a.log", "--out", "-"),
        ("support", "--output", "-"),
    ],
)
def test_a_file_that_is_not_for_stdout_is_not_called_minus(
    tmp_path: Path, words: tuple[str, ...], replayer: Replayer
) -> None:
    """Where `-` is not stdout it is refused: it is stdout with the options of reports."""
    (tmp_path / "a.log").touch()

    _, err = replayer(*words, status=2)

    assert f"{words[-2]}: this is not written to stdout: give the name of a file" in err
    assert not (tmp_path / "-").exists()


def test_a_data_folder_that_is_a_file_is_refused_before_a_run_is_stored(
    replayer: Replayer, tmp_path: Path
) -> None:
    """Nothing was begun: there is no run to resume, and nothing to give back."""
    (tmp_path / "file").touch()

    _, err = replayer("run", "pg-fsync", "--data-dir", "file", status=2)

    assert "no folder can be made in file: Not a directory; name another one with --data-dir" in err
    assert list((tmp_path / "results").glob("*.json")) == []
    assert list(journal.notes("files")) == []


def closed_folder(above: Path) -> tuple[Path, tuple[str, ...]]:
    """Return a folder that may not be entered, and replayer's command without root's powers."""
    folder = above / "closed"
    folder.mkdir(mode=0)
    if os.geteuid() != 0:
        return folder, COMMAND
    os.chown(folder, 1234, 1234)
    powerless = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
    if subprocess.run([*powerless, "true"], check=False).returncode:
        pytest.skip("setpriv cannot give up root's powers here")
    return folder, (*powerless, *COMMAND)


def test_a_data_folder_that_may_not_be_entered_is_refused_before_a_run_is_stored(
    replayer: Replayer, tmp_path: Path
) -> None:
    """The same is so for one that would lie in it; `check` has a line for it."""
    folder, command = closed_folder(tmp_path)
    for wanted in (folder, folder / "x"):
        there = ("--data-dir", wanted)
        ran = replayer.process("run", "pg-fsync", *there, status=2, command=command)
        checked = replayer.process("check", "--json", *there, status=None, command=command)
        found = {line["name"]: line["answer"] for line in json.loads(checked.out)["lines"]}

        assert f"no folder can be made in {wanted}: Permission denied" in ran.err
        assert list((tmp_path / "results").glob("*.json")) == []
        assert found["data folder"] == "no"
    assert list(journal.notes("files")) == []


@pytest.mark.parametrize("workload", ["pg-fsync", "smoke"])
@pytest.mark.parametrize("option", ["--data-dir", "--results", "REPLAYER_HOME"])
def test_a_dry_run_refuses_the_folders_that_the_run_would(
    replayer: Replayer, tmp_path: Path, workload: str, option: str
) -> None:
    """One that may not be entered and one that is a file, and the other folders stay unmade."""
    folder, command = closed_folder(tmp_path)
    (tmp_path / "file").touch()
    before = sorted(tmp_path.iterdir())
    reasons = {
        folder / "x": "Permission denied|cannot enter",
        tmp_path / "file": "[Nn]ot a (di|fo)",
    }
    for wanted, reason in reasons.items():
        words: tuple[object, ...] = ("run", workload, "--dry-run", option, wanted)
        called = replayer
        if option == "REPLAYER_HOME":
            words = words[:3]
            called = dataclasses.replace(replayer, environment={option: str(wanted)})
        done = called.process(*words, status=2, command=command)

        assert done.err.count("replayer: error: ") == 1
        assert re.search(reason, done.err), done.err
        assert option in done.err or option == "--data-dir", done.err
        assert str(wanted) in done.err
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("option", ["--data-dir", "--results"])
def test_a_dry_run_of_a_sizing_refuses_the_folders_that_the_run_would(
    replayer: Replayer, tmp_path: Path, option: str
) -> None:
    """One that may not be written, and one in it, are refused with the option that helps."""
    folder, command = closed_folder(tmp_path)
    os.chown(folder, os.geteuid(), os.getegid())
    made = of_cpu(tmp_path / "x.profile", rate=5, cores=0.001)
    for mode, wanted in ((0o555, folder / "x"), (0o000, folder / "x"), (0o000, folder / "x" / "y")):
        folder.chmod(mode)
        # Without --data-dir, `size` looks for a server's programs first.
        words = ("size", made, "--dry-run", "--data-dir", tmp_path / "data", option, wanted)
        done = replayer.process(*words, status=2, command=command)

        assert done.err.count("replayer: error: ") == 1
        assert re.search("Permission denied|cannot enter", done.err), done.err
        assert re.search(f"give .*{option}", done.err), done.err
        assert str(wanted) in done.err
    folder.chmod(0o700)


@pytest.mark.parametrize("words", [(), ("--dry-run",)])
def test_a_sizing_that_no_step_can_change_uses_no_data_folder(
    replayer: Replayer, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """More cores than a machine has do not fit, also with a data folder that is closed."""
    folder, command = closed_folder(tmp_path)
    made = of_cpu(tmp_path / "x.profile", rate=5, cores=10_000)
    places = ("--data-dir", folder / "x", "--results", tmp_path / "results")
    status = 0 if words else 3
    done = replayer.process("size", made, *places, *words, status=status, command=command)

    assert "does not fit" in " ".join(done.out.split())


@pytest.mark.parametrize(
    ("mode", "sentence"),
    [
        (0o000, "you, who cannot enter {0} on the way to {0}/x: give a --data-dir outside of it"),
        (0o111, "data folder {0}/x cannot be made: {0} cannot be opened: {1}: {2} --data-dir"),
    ],
    ids=["not entered", "not opened"],
)
def test_a_closed_folder_above_the_data_is_named_with_what_its_user_can_do(
    replayer: Replayer, tmp_path: Path, mode: int, sentence: str
) -> None:
    """A folder of another user is not opened by `chmod`, and one that is missing is not read."""
    folder, command = closed_folder(tmp_path)
    os.chown(folder, os.geteuid(), os.getegid())
    folder.chmod(mode)
    words = ("run", "smoke", "--dry-run", "--data-dir", folder / "x")
    done = replayer.process(*words, status=2, command=command)
    folder.chmod(0o700)

    assert sentence.format(folder, "Permission denied", "give another") in done.err
    assert "chmod" not in done.err


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.EMFILE, "ulimit -n"), (errno.ENFILE, "sysctl fs.file-max"),
        (errno.ENOSPC, "free some space"), (errno.EDQUOT, "free some space"),
        (errno.EACCES, "set REPLAYER_HOME to a folder that you may write"),
    ],
)  # fmt: skip
def test_a_home_that_cannot_be_used_has_the_remedy_of_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, remedy: str
) -> None:
    """Another folder is none for a limit of open files; a dry run says the same of a folder."""

    def refuse(path: Path, _: str) -> trusted_path.Folder:
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setenv("REPLAYER_HOME", str(tmp_path / "home"))
    for function, cannot, use in (
        ("steady", "made", journal.home),
        ("own", "used", journal.home),
        ("own", "used", journal.check_home),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(trusted_path, function, refuse)
            with pytest.raises(Impossible) as raised:
                use()

        assert f"/home cannot be {cannot} ({os.strerror(number)}); " in str(raised.value)
        assert remedy in str(raised.value)


@pytest.mark.parametrize("name", ["closed/x", "closed/x/y", "file/x", "none/x"])
def test_a_file_to_write_that_cannot_be_is_refused_before_a_log_is_read(
    replayer: Replayer, tmp_path: Path, name: str
) -> None:
    """The folder may not be entered, is a file or is missing: another name is the remedy."""
    _, command = closed_folder(tmp_path)
    (tmp_path / "file").touch()
    words = ("convert", tmp_path / "file", "--out", tmp_path / name)
    done = replayer.process(*words, status=2, command=command)

    reason = "Permission denied|Not a directory|No such file or directory"
    assert re.search(rf"{tmp_path / name} cannot be written: ({reason}): give another", done.err)


def test_a_comparison_below_a_closed_folder_names_the_file(
    replayer: Replayer, tmp_path: Path
) -> None:
    """It is a run that cannot be read, as for `show`."""
    folder, command = closed_folder(tmp_path)
    done = replayer.process("compare", folder / "x", folder / "y", status=2, command=command)

    assert f"the run file {folder / 'x'} cannot be read: Permission denied" in done.err


def test_a_dry_run_of_several_engines_needs_no_folder_yet(
    replayer: Replayer, tmp_path: Path
) -> None:
    """A run makes the one of --data-dir, and in it one for each engine."""
    words = ("run", "columnstores", "--dry-run", "--data-dir")
    replayer(*words, tmp_path / "new")
    refused = replayer(*words, tmp_path / "none" / "new", status=2)

    assert f"data folder {tmp_path}/none/new cannot be made: {tmp_path}/none is not there" in (
        refused.err
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "name"), [("run", "w.toml"), ("run", "w.replay"), ("show", "r.json")]
)
def test_a_pipe_in_place_of_a_file_is_not_called_missing(
    replayer: Replayer, tmp_path: Path, words: str, name: str
) -> None:
    """It is there: what is refused is its kind, and what is not there is still called so."""
    missing = replayer(words, name if words == "run" else f"./{name}", status=2)
    os.mkfifo(tmp_path / name)
    pipe = replayer(words, tmp_path / name, status=2)

    assert f"{name} is not there" in missing.err
    assert f"{tmp_path / name} is a pipe or a device, and no file" in pipe.err


@pytest.mark.parametrize(
    ("words", "ending"),
    [
        ("run", ".toml"), ("run", ".replay"), ("show", ".json"), ("show", ".profile"),
        ("report", ".json"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_looked_up_is_not_called_missing(
    replayer: Replayer, tmp_path: Path, words: str, ending: str
) -> None:
    """The system's reason is reported, as for a folder that this user may not enter."""
    for name, reason in (("x" * 300, "File name too long"), ("loop", "Too many levels of")):
        path = f"{tmp_path}/{name}{ending}"
        if name == "loop":
            Path(path).symlink_to(path)
        ended = replayer(words, path, status=2)

        assert f"{name}{ending} cannot be read: {reason}" in ended.err
