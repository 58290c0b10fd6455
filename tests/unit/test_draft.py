"""A replay file's draft: nothing of it is left, however its writer ends, and nothing else goes."""

import contextlib
import json
import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from replayer import journal
from replayer.capture.action import Action
from replayer.capture.archive import ArchiveReader, ArchiveWriter
from replayer.errors import Interrupted
from replayer.results import draft
from replayer.run import recovery
from tests.command import Replayer
from tests.waiting import wait_until

LINES = (
    "2026-05-16 05:11:10.000 UTC [7] ann@shop LOG:  "
    "duration: 1.000 ms  statement: SELECT 'some of many words'\n"
) * 20_000


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give replayer a home of this test's own."""
    home = tmp_path / "home"
    monkeypatch.setenv("REPLAYER_HOME", str(home))
    yield home
    home.chmod(0o755)


def drafts(folder: Path) -> list[str]:
    """Return the names of what is hidden in a folder."""
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


def converting(replayer: Replayer) -> subprocess.Popen[str]:
    """Convert a log that does not end, and return the process when there is a draft."""
    process = replayer.start(
        *("convert", "-", "--prefix", "%m [%p] %u@%d ", "--out", "a.replay"),
        popen={"stdin": subprocess.PIPE, "stderr": subprocess.DEVNULL},
    )
    assert process.stdin
    process.stdin.write(LINES)
    process.stdin.flush()
    wait_until(lambda: drafts(replayer.folder) or process.poll() is not None)
    assert process.poll() is None
    return process


@pytest.mark.parametrize("following", ["convert", "clean"])
def test_what_a_kill_left_is_removed_by_the_next_command(
    tmp_path: Path, following: str, replayer: Replayer
) -> None:
    """The draft goes, and that is said; `replayer clean` is one such command, too."""
    process = converting(replayer)
    process.kill()
    process.wait()
    assert drafts(tmp_path) == [f".a.replay.{process.pid}.new"]
    assert not (tmp_path / "a.replay").exists()
    (tmp_path / "a.log").write_text(LINES)
    words = ["a.log", "--out", "a.replay"] if following == "convert" else ["--yes"]

    _, err = replayer(following, *words)

    assert drafts(tmp_path) == []
    assert "the unfinished replay file" in err
    assert list(journal.notes()) == []
    assert (tmp_path / "a.replay").exists() is (following == "convert")


def test_who_ends_leaves_neither_draft_nor_note(tmp_path: Path) -> None:
    """After a file that was written, one that was given up, and one whose folder is not there."""
    action = Action(1, "simple", 10**18, 5, "select 1")
    with ArchiveWriter(tmp_path / "a.replay") as writer:
        (note,) = journal.notes()
        assert note.text("path") == str(tmp_path / drafts(tmp_path)[0])
        writer.add(action)
        writer.close()
    with pytest.raises(Interrupted), ArchiveWriter(tmp_path / "b.replay"):
        raise Interrupted("stopped")

    assert drafts(tmp_path) == []
    assert list(journal.notes()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_without_a_home_a_log_is_converted_all_the_same(tmp_path: Path, own_home: Path) -> None:
    """Where no note can be made there is none."""
    own_home.mkdir(mode=0o500)
    with ArchiveWriter(tmp_path / "a.replay") as writer:
        writer.close()

    assert (tmp_path / "a.replay").exists()


def test_a_home_that_is_a_file_hinders_no_conversion(tmp_path: Path, own_home: Path) -> None:
    """Where no note can be made there is none, and none is looked for."""
    own_home.touch()
    said: list[str] = []
    draft.give_back(said.append)
    with ArchiveWriter(tmp_path / "a.replay") as writer:
        writer.close()

    with ArchiveReader(tmp_path / "a.replay") as reader:
        assert reader.summary.actions == 0
    assert said == []


def left_by(pid: int, path: Path) -> None:
    """Write the note that a process which is gone would have left."""
    note = journal.take("draft", path=str(path))
    fields = json.loads(note.path.read_text())
    note.path.write_text(json.dumps({**fields, "owner": f"gone:{pid}:1"}))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (".a.replay.7.new", b"something else"),
        (".a.replay.8.new", b"REPLAY1\n"),
        ("a.replay", b"REPLAY1\n"),
        (".a.replay.7.new", "linked"),
        (".a.replay.7.new", "link"),
        (".a.replay.7.new", "pipe"),
    ],
)
def test_nothing_but_a_draft_is_removed(tmp_path: Path, name: str, content: bytes | str) -> None:
    """What has not its name, its owner or its beginning stays, and the note is not believed."""
    path = tmp_path / name
    other = tmp_path / "other"
    other.write_bytes(b"REPLAY1\n")
    if content == "pipe":
        os.mkfifo(path)
    elif content == "link":
        path.symlink_to(other)
    elif content == "linked":
        path.hardlink_to(other)
    else:
        assert isinstance(content, bytes)
        path.write_bytes(content)
    left_by(7, path)
    said: list[str] = []

    recovery.give_back(said.append)
    draft.give_back(said.append)

    assert ["is not believed" in line for line in said] == [True, True]
    assert os.path.lexists(path)


def test_a_draft_that_is_gone_costs_only_its_note(tmp_path: Path) -> None:
    """Somebody removed it, or its folder: that is said, and forgotten."""
    left_by(7, tmp_path / ".a.replay.7.new")
    left_by(7, tmp_path / "none" / ".a.replay.7.new")
    said: list[str] = []

    draft.give_back(said.append)

    assert ["already gone" in line for line in said] == [True, True]
    assert list(journal.notes()) == []


def test_ctrl_c_leaves_nothing(tmp_path: Path, replayer: Replayer) -> None:
    """Within a conversion: neither a draft nor a note."""
    process = converting(replayer)
    process.send_signal(signal.SIGINT)
    process.wait(600)

    assert drafts(tmp_path) == []
    assert list(journal.notes()) == []


def test_only_an_older_replay_file_is_replaced(tmp_path: Path, replayer: Replayer) -> None:
    """Any other file, a link, a pipe or a device stays what it is, and the refusal names it."""
    (tmp_path / "a.log").write_text(LINES[:1000])
    precious = tmp_path / "precious.txt"
    precious.write_text("important")
    (tmp_path / "link").symlink_to(precious)
    os.mkfifo(tmp_path / "pipe")
    taken = {"precious.txt": "important", "link": "", "pipe": ""}
    if os.geteuid() == 0:
        with contextlib.suppress(PermissionError):
            os.mknod(tmp_path / "null", stat.S_IFCHR | 0o600, os.makedev(1, 3))
            taken["null"] = ""
    before = {name: os.lstat(tmp_path / name) for name in taken}

    for name in taken:
        _, err = replayer("convert", "a.log", "--out", name, status=2)
        assert f"{name} is there already and is not a replay file of this user's" in err
    for _ in range(2):
        replayer("convert", "a.log", "--out", "a.replay")

    assert {name: os.lstat(tmp_path / name).st_ino for name in taken} == {
        name: about.st_ino for name, about in before.items()
    }
    assert precious.read_text() == "important"
    assert drafts(tmp_path) == []
    assert list(journal.notes()) == []
