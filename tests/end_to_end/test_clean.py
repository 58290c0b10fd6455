"""`replayer clean`, on what real replayers made and left."""

import os
import pty
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from replayer import journal
from replayer.machine import processes
from replayer.servers import data_folder
from replayer.servers.data_folder import DataFolder
from tests.command import Replayer
from tests.fixture_types import Holder


def answered(replayer: Replayer, answer: str) -> int:
    """Run `replayer clean` on a terminal, give an answer, and return its exit status."""
    ours, theirs = pty.openpty()
    try:
        asked = replayer.start("clean", popen={"stdin": theirs})
        os.write(ours, answer.encode())
        asked.communicate(timeout=600)
        return asked.returncode
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """Return a folder outside of replayer's home that the server's user can enter."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def claimed(path: Path) -> DataFolder:
    """Make a data folder of replayer's, with a file where the server's data would be."""
    folder = DataFolder(path)
    folder.claim("postgres", 18, {}, made=folder.make())
    folder.data.mkdir()
    (folder.data / "file").write_bytes(b"x" * 100_000)
    return folder


def test_without_a_terminal_it_lists_and_removes_nothing(
    own_home: Path, elsewhere: Path, replayer: Replayer
) -> None:
    """The list has every folder with its size, and exit status 2 says what to do."""
    inside = claimed(data_folder.standard("postgres", 18, {}))
    outside = claimed(elsewhere / "data")
    done = replayer("clean", status=2)

    for folder in (inside, outside):
        [line] = [line for line in done.out.splitlines() if line.endswith(str(folder.path))]
        assert "KiB" in line
        assert (folder.data / "file").exists()
    assert "--yes" in done.err
    assert "\n" not in done.err.strip()


def test_everything_goes_but_results(
    made_home: Path, elsewhere: Path, holder: Holder, replayer: Replayer
) -> None:
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
    replayer("clean", "--yes")

    assert processes.family(server) == []
    assert not Path(socket).exists()
    assert not outside.path.exists()
    assert elsewhere.is_dir()
    left = sorted(path.relative_to(made_home) for path in made_home.rglob("*"))
    assert left == [Path("results"), Path("results/run.json")]


def test_what_cannot_be_given_back_keeps_nothing_else(own_home: Path, replayer: Replayer) -> None:
    """A command that was to switch the machine back fails; the data goes, and the note is named."""
    folder = claimed(data_folder.standard("postgres", 18, {}))
    taking = "from replayer import journal; journal.take('switch', command='false', folder='/')"
    subprocess.run([sys.executable, "-c", taking], check=True)
    [note] = journal.left()
    done = replayer("clean", "--yes", status=1)

    assert not folder.path.exists()
    assert note.path.exists()
    assert "1 of 2 were removed; 'false' failed with status 1" in done.err
    assert done.err.strip().endswith(f"remove {note.path}")
    note.drop()


def test_a_home_that_replayer_made_goes_too(own_home: Path, replayer: Replayer) -> None:
    """Nothing at all is left of a replayer that only looked."""
    own_home.rmdir()
    claimed(data_folder.standard("postgres", 18, {}))
    replayer("clean", "--yes")
    assert not own_home.exists()

    replayer("clean")
    assert not own_home.exists()
    own_home.mkdir()


def test_nothing_is_removed_while_a_replayer_runs(
    made_home: Path, holder: Holder, replayer: Replayer
) -> None:
    """What is in use is refused with the process id, and nothing else is touched either."""
    other = holder()
    unused = claimed(data_folder.standard("postgres", 17, {}))
    done = replayer("clean", "--yes", status=2)

    assert f"replayer runs (process {other.pid})" in done.err
    assert unused.data.is_dir()
    assert processes.family(int(other.said.split()[1]))
    used = Path(other.said.split()[2]).parent
    refused = replayer("clean", "--yes", "--data-dir", used, status=2)
    assert f"in use by another replayer (process {other.pid})" in refused.err


def test_a_folder_that_is_in_use_without_a_server_is_refused(
    own_home: Path, replayer: Replayer
) -> None:
    """A replayer that has not started its server yet keeps its folder."""
    folder = claimed(data_folder.standard("postgres", 18, {}))
    with folder.locked():
        done = replayer("clean", "--yes", status=2)

    assert f"in use by another replayer (process {os.getpid()})" in done.err
    assert folder.data.is_dir()


def test_one_folder_only(own_home: Path, elsewhere: Path, replayer: Replayer) -> None:
    """--data-dir removes that folder's data and no other."""
    inside = claimed(data_folder.standard("postgres", 18, {}))
    outside = claimed(elsewhere)
    replayer("clean", "--yes", "--data-dir", elsewhere)

    assert list(outside.path.iterdir()) == []
    assert inside.data.is_dir()


def test_a_folder_that_is_not_replayers_is_refused(
    own_home: Path, elsewhere: Path, replayer: Replayer
) -> None:
    """Somebody else's files are never removed, whatever was asked."""
    (elsewhere / "precious").touch()
    done = replayer("clean", "--yes", "--data-dir", elsewhere, status=2)

    assert "was not made by replayer" in done.err
    assert (elsewhere / "precious").exists()


@pytest.mark.parametrize(
    ("answer", "status", "left"), [("y\n", 0, False), ("n\n", 1, True), ("\n", 1, True)]
)
def test_on_a_terminal_it_asks(
    own_home: Path, answer: str, status: int, *, left: bool, replayer: Replayer
) -> None:
    """Only a yes removes."""
    folder = claimed(data_folder.standard("postgres", 18, {}))

    assert answered(replayer, answer) == status
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


def test_what_is_held_in_the_moment_of_a_signal_is_given_back(
    own_home: Path, replayer: Replayer
) -> None:
    """The signal waits for the note to be in somebody's hands; the block is not begun."""
    done = replayer.process(command=(sys.executable, "-c", HELD))
    assert (done.out.splitlines(), done.err) == (["given back", "0 notes"], "")


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
def test_what_is_taken_in_the_moment_of_a_signal_is_given_back(
    made_home: Path, tmp_path: Path, kind: str, replayer: Replayer
) -> None:
    """A signal between the taking and the line that keeps hold of it leaves nothing behind."""
    path = tmp_path / "w.toml"
    probe = 'step="probe"\nprobe="io"\nsize="1M"\nduration="1s"\n'
    path.write_text("[[step]]\n" + (probe if kind == "files" else 'step="build"\nrows="6"\n'))
    struck = (sys.executable, "-c", STRUCK, kind, path, tmp_path)
    done = replayer.process(command=struck, status=130)

    assert "replayer: error: stopped by SIGTERM" in done.err.splitlines()
    assert list((made_home / "taken").iterdir()) == []
