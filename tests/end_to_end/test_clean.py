"""`replayer clean`, on what real replayers made and left."""

import os
import pty
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from replayer import journal
from replayer.machine import processes
from replayer.servers import data_folder
from replayer.servers.data_folder import DataFolder


def clean(*arguments, **options):
    """Run `replayer clean` without a terminal, and return what it said and its exit status."""
    return subprocess.run(
        [sys.executable, "-m", "replayer", "clean", *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
        **options,
    )


def clean_on_a_terminal(answer):
    """Run `replayer clean` on a terminal, give an answer, and return its exit status."""
    ours, theirs = pty.openpty()
    try:
        with subprocess.Popen(
            [sys.executable, "-m", "replayer", "clean"],
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as asked:
            os.write(ours, answer.encode())
            asked.communicate(timeout=60)
            return asked.returncode
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.fixture
def elsewhere():
    """Return a folder outside of replayer's home that the server's user can enter."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def claimed(path):
    """Make a data folder of replayer's, with a file where the server's data would be."""
    folder = DataFolder(path)
    folder.claim("postgres", 18, {}, made=folder.make())
    folder.data.mkdir()
    (folder.data / "file").write_bytes(b"x" * 100_000)
    return folder


def test_without_a_terminal_it_lists_and_removes_nothing(own_home, elsewhere):
    """The list has every folder with its size, and exit status 2 says what to do."""
    inside = claimed(data_folder.standard("postgres", 18, {}))
    outside = claimed(elsewhere / "data")
    done = clean()

    assert done.returncode == 2
    for folder in (inside, outside):
        [line] = [line for line in done.stdout.splitlines() if line.endswith(str(folder.path))]
        assert "KiB" in line
        assert (folder.data / "file").exists()
    assert "--yes" in done.stderr
    assert "\n" not in done.stderr.strip()


def test_everything_goes_but_results(made_home, elsewhere, holder):
    """Data, copied programs and what a killed replayer left are gone; nobody else's file is."""
    other = holder()
    server = int(other.said.split()[1])
    other.kill()
    other.wait()
    [socket] = [note.details["path"] for note in journal.notes("socket")]
    outside = claimed(elsewhere / "data")
    copy = made_home / "programs" / "some-copy"
    copy.mkdir(parents=True)
    (made_home / "results").mkdir()
    (made_home / "results" / "run.json").touch()
    done = clean("--yes")

    assert done.returncode == 0, done.stderr
    assert processes.family(server) == []
    assert not Path(socket).exists()
    assert not outside.path.exists()
    assert elsewhere.is_dir()
    left = sorted(path.relative_to(made_home) for path in made_home.rglob("*"))
    assert left == [Path("results"), Path("results/run.json")]


def test_a_home_that_replayer_made_goes_too(own_home):
    """Nothing at all is left of a replayer that only looked."""
    own_home.rmdir()
    claimed(data_folder.standard("postgres", 18, {}))
    assert clean("--yes").returncode == 0
    assert not own_home.exists()

    assert clean().returncode == 0
    assert not own_home.exists()
    own_home.mkdir()


def test_nothing_is_removed_while_a_replayer_runs(made_home, holder):
    """What is in use is refused with the process id, and nothing else is touched either."""
    other = holder()
    unused = claimed(data_folder.standard("postgres", 17, {}))
    done = clean("--yes")

    assert done.returncode == 2
    assert f"replayer runs (process {other.pid})" in done.stderr
    assert unused.data.is_dir()
    assert processes.family(int(other.said.split()[1]))
    refused = clean("--yes", "--data-dir", Path(other.said.split()[2]).parent)
    assert refused.returncode == 2
    assert f"in use by another replayer (process {other.pid})" in refused.stderr


def test_a_folder_that_is_in_use_without_a_server_is_refused(own_home):
    """A replayer that has not started its server yet keeps its folder."""
    folder = claimed(data_folder.standard("postgres", 18, {}))
    with folder.locked():
        done = clean("--yes")

    assert done.returncode == 2
    assert f"in use by another replayer (process {os.getpid()})" in done.stderr
    assert folder.data.is_dir()


def test_one_folder_only(own_home, elsewhere):
    """--data-dir removes that folder's data and no other."""
    inside = claimed(data_folder.standard("postgres", 18, {}))
    outside = claimed(elsewhere)
    done = clean("--yes", "--data-dir", elsewhere)

    assert done.returncode == 0, done.stderr
    assert list(outside.path.iterdir()) == []
    assert inside.data.is_dir()


def test_a_folder_that_is_not_replayers_is_refused(own_home, elsewhere):
    """Somebody else's files are never removed, whatever was asked."""
    (elsewhere / "precious").touch()
    done = clean("--yes", "--data-dir", elsewhere)

    assert done.returncode == 2
    assert "was not made by replayer" in done.stderr
    assert (elsewhere / "precious").exists()


@pytest.mark.parametrize(
    ("answer", "status", "left"), [("y\n", 0, False), ("n\n", 1, True), ("\n", 1, True)]
)
def test_on_a_terminal_it_asks(own_home, answer, status, left):
    """Only a yes removes."""
    folder = claimed(data_folder.standard("postgres", 18, {}))

    assert clean_on_a_terminal(answer) == status
    assert folder.data.is_dir() is left


HELD = """
import os, signal, sys
from replayer import journal, signals
from replayer.errors import Interrupted
signals.install()
take = journal.take
def struck(kind, **details):
    note = take(kind, **details)
    os.kill(os.getpid(), signal.SIGTERM)
    for _ in range(1000):
        pass
    return note
journal.take = struck
try:
    with journal.held("cgroup", lambda: print("given back"), group="g", home="h"):
        print("held")
except Interrupted:
    print(len(list(journal.notes())), "notes")
"""


def test_what_is_held_in_the_moment_of_a_signal_is_given_back(own_home):
    """The signal waits for the note to be in somebody's hands; the block is not begun."""
    done = subprocess.run([sys.executable, "-c", HELD], check=True, capture_output=True, text=True)
    assert (done.stdout.splitlines(), done.stderr) == (["given back", "0 notes"], "")


STRUCK = """
import os, signal, sys
from replayer import __main__, journal
take = journal.take
def struck(kind, **details):
    note = take(kind, **details)
    if kind == sys.argv[1]:
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(1000):  # the signal is met in here, before anybody holds the note
            pass
    return note
journal.take = struck
sys.exit(__main__.main(["run", sys.argv[2], "--results", sys.argv[3]]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["files", "socket", "server"])
def test_what_is_taken_in_the_moment_of_a_signal_is_given_back(made_home, tmp_path, kind):
    """A signal between the taking and the line that keeps hold of it leaves nothing behind."""
    path = tmp_path / "w.toml"
    probe = 'step="probe"\nprobe="io"\nsize="1M"\nduration="1s"\n'
    path.write_text("[[step]]\n" + (probe if kind == "files" else 'step="build"\nrows="6"\n'))
    done = subprocess.run(
        [sys.executable, "-c", STRUCK, kind, str(path), str(tmp_path)],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.returncode == 130, done.stderr
    assert "replayer: error: stopped by SIGTERM" in done.stderr.splitlines()
    assert "Traceback" not in done.stderr
    assert list((made_home / "taken").iterdir()) == []
