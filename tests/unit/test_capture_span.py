"""The part of a log that is copied: what was seen and nothing else, where nobody else can write."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from replayer.capture import span
from replayer.capture.logging_settings import LogLocation
from replayer.errors import Impossible, ReplayerError
from tests.known import known

ATTACKER = 54321
SECRET = b"root's own, and not to be copied\n"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")


@pytest.fixture
def log(tmp_path: Path) -> tuple[LogLocation, Any]:
    """Return a log of which only the end was written meanwhile, and what was there before."""
    (tmp_path / "logs").mkdir()
    path = tmp_path / "logs" / "server.log"
    path.write_bytes(b"before\n")
    place = LogLocation(str(path), path, "", rotated=True)
    before = span.sizes(place)
    path.write_bytes(b"before\nmeanwhile\n")
    return place, before


def mode(path: Path) -> int:
    """Return the permissions of a file or folder."""
    return stat.S_IMODE(path.stat().st_mode)


def test_what_was_written_meanwhile_is_its_owners_alone(
    log: tuple[LogLocation, Any], tmp_path: Path
) -> None:
    """A copy has what was written since, with mode 0600 in a folder of 0700; bytes are counted."""
    place, before = log
    (tmp_path / "logs" / "server.log.new.log").write_bytes(b"x" * (3 << 20))
    out = tmp_path / "out"
    span.check_out(out)

    copied = span.copy_pieces(span.written(place, before), out)

    assert mode(out) == 0o700
    assert (out / "server.log").read_bytes() == b"meanwhile\n"
    assert (out / "server.log.new.log").stat().st_size == 3 << 20
    assert {mode(path) for path in out.iterdir()} == {0o600}
    assert copied == (3 << 20) + len(b"meanwhile\n")


@pytest.mark.parametrize("kind", ["link", "pipe", "file", "folder"])
def test_what_took_the_place_of_a_log_is_not_copied(
    log: tuple[LogLocation, Any], tmp_path: Path, kind: str
) -> None:
    """Something else in its place, after it was seen: one sentence, at once."""
    place, before = log
    pieces = span.written(place, before)
    victim = tmp_path / "victim"
    victim.write_bytes(SECRET)
    here = known(place.here)
    here.rename(tmp_path / "moved")
    if kind == "link":
        here.symlink_to(victim)
    elif kind == "pipe":
        os.mkfifo(here)
    elif kind == "file":
        here.write_bytes(SECRET)
    else:
        here.mkdir()

    with pytest.raises(ReplayerError, match=r"server\.log was replaced") as refused:
        span.copy_pieces(pieces, tmp_path / "out")

    assert "\n" not in str(refused.value)
    assert list((tmp_path / "out").iterdir()) == []


def refused(out: Path) -> Any:
    """Return the sentence with which a folder is refused, before and after the log was written."""
    sentences = []
    for use in (span.check_out, lambda folder: span.copy_pieces([], folder)):
        with pytest.raises(ReplayerError) as error:
            use(out)
        sentences.append(str(error.value))
    assert not any("\n" in sentence for sentence in sentences)
    return sentences[0]


def test_a_folder_that_cannot_be_made_is_named_early(tmp_path: Path) -> None:
    """A folder above it that is missing, or is a file, is one sentence before anything is set."""
    (tmp_path / "file").touch()

    assert "No such file" in refused(tmp_path / "missing" / "out")
    assert str(tmp_path / "file") in refused(tmp_path / "file" / "out")


@pytest.mark.parametrize("kind", ["full", "file", "link to nothing"])
def test_a_folder_that_is_taken_is_refused(tmp_path: Path, kind: str) -> None:
    """Only an empty folder is used again."""
    out = tmp_path / "out"
    if kind == "full":
        out.mkdir()
        (out / "other").touch()
    elif kind == "file":
        out.touch()
    else:
        out.symlink_to(tmp_path / "nothing")

    with pytest.raises(Impossible, match="--out"):
        span.check_out(out)


@needs_root
@pytest.mark.root
@pytest.mark.parametrize("whose", ["theirs", "writable"])
@pytest.mark.parametrize("which", ["out", "above"])
def test_a_folder_of_others_is_refused(tmp_path: Path, which: str, whose: str) -> None:
    """Where somebody else could put a link no log is copied to, and the sentence says who."""
    above = tmp_path / "above"
    out = above / "out"
    out.mkdir(parents=True)
    folder = out if which == "out" else above
    if which == "above":
        out.rmdir()
    if whose == "theirs":
        os.chown(folder, ATTACKER, ATTACKER)
    else:
        folder.chmod(0o777)

    sentence = refused(out)

    assert str(folder) in sentence
    assert ("belongs to" if whose == "theirs" else "can be written by others") in sentence
    assert not out.exists() or list(out.iterdir()) == []


@needs_root
@pytest.mark.root
def test_a_folder_below_a_sticky_one_is_made(log: tuple[LogLocation, Any], tmp_path: Path) -> None:
    """In a folder as /tmp is, a copy is as good as anywhere: nobody can swap what root made."""
    place, before = log
    (tmp_path / "sticky").mkdir()
    (tmp_path / "sticky").chmod(0o1777)
    out = tmp_path / "sticky" / "out"
    span.check_out(out)

    assert span.copy_pieces(span.written(place, before), out)
    assert mode(out) == 0o700
