"""The lock on an experiment's work, in a folder where another user may have placed its name."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from replayer.errors import Impossible
from replayer.experiments import work_lock

PLACED: dict[str, Callable[[Path, Path], object]] = {
    "hard link": lambda lock, kept: os.link(kept, lock),
    "link": lambda lock, kept: lock.symlink_to(kept),
    "pipe": lambda lock, _: os.mkfifo(lock),
    "folder": lambda lock, _: lock.mkdir(),
}


@pytest.mark.parametrize("kind", PLACED)
def test_what_was_placed_as_a_lock_is_neither_written_nor_removed(
    tmp_path: Path, kind: str
) -> None:
    """Its owner may have linked a file of this user's."""
    kept, lock = tmp_path / "kept", tmp_path / ".lock"
    kept.write_text("kept")
    PLACED[kind](lock, kept)

    with (
        pytest.raises(Impossible, match="not a lock that this user made"),
        work_lock.held(tmp_path, lock.name, "this trial"),
    ):
        raise AssertionError
    assert kept.read_text() == "kept"
    assert os.path.lexists(lock)


def test_a_lock_that_a_kill_left_is_taken_and_a_held_one_is_not(tmp_path: Path) -> None:
    """The sentence names the process that holds it; the file goes with the work."""
    (tmp_path / ".lock").write_text("left")

    with work_lock.held(tmp_path, ".lock", "this trial"):
        with (
            pytest.raises(Impossible, match=rf"another replayer \(process {os.getpid()}\)"),
            work_lock.held(tmp_path, ".lock", "this trial"),
        ):
            raise AssertionError
        assert (tmp_path / ".lock").exists()
    assert not (tmp_path / ".lock").exists()
