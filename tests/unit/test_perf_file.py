"""Records of BPF programs in perf's file, whose lengths the kernel counts wrongly."""

import struct
from pathlib import Path

import pytest

from replayer.machine.perf import mend

COMM, SAMPLE, KSYMBOL, BPF_EVENT, PASSED_OVER = 3, 9, 17, 18, 65
KINDS = (COMM, KSYMBOL, SAMPLE, BPF_EVENT, KSYMBOL, SAMPLE)


def file_of(kinds: tuple[int, ...], path: Path, *, size: int | None = None) -> Path:
    """Write a file of such records, each with its kind as content, and return its path."""
    records = b"".join(
        struct.pack("=IHHQ", kind, 0, 16 + 8 * (kind == KSYMBOL), kind)
        + bytes(8 * (kind == KSYMBOL))
        for kind in kinds
    )
    header = (
        b"PERFILE2" + bytes(32) + struct.pack("=QQ", 64, len(records) if size is None else size)
    )
    path.write_bytes(header.ljust(64, b"\0") + records + struct.pack("=IHHQ", KSYMBOL, 0, 16, 1))
    return path


def kinds_of(path: Path) -> list[int]:
    """Return the kinds of all records, the one behind the section of records among them."""
    data, place, kinds = path.read_bytes(), 64, []
    while place < len(data):
        kind, _, length = struct.unpack_from("=IHH", data, place)
        kinds.append(kind)
        place += length
    return kinds


def test_they_are_passed_over_and_nothing_else_is_changed(tmp_path: Path) -> None:
    """Of all others each byte is as before, and what follows upon the records as well."""
    path = file_of(KINDS, tmp_path / "perf.data")
    before = path.read_bytes()

    mend(path)

    assert kinds_of(path) == [COMM, PASSED_OVER, SAMPLE, PASSED_OVER, PASSED_OVER, SAMPLE, KSYMBOL]
    pairs = zip(before, path.read_bytes(), strict=True)
    changed = [at for at, (old, new) in enumerate(pairs) if old != new]
    assert len(changed) == 3


def test_of_a_perf_that_was_killed_all_is_read(tmp_path: Path) -> None:
    """It wrote no size of its records: they go up to the end of the file."""
    path = file_of(KINDS, tmp_path / "perf.data", size=0)

    mend(path)

    assert KSYMBOL not in kinds_of(path)


@pytest.mark.parametrize("left", [56, 64, 70, 100])
def test_a_file_that_is_cut_is_mended_as_far_as_it_goes(tmp_path: Path, left: int) -> None:
    """And one whose records make no sense is left as it is."""
    path = file_of(KINDS, tmp_path / "perf.data")
    path.write_bytes(path.read_bytes()[:left])

    mend(path)

    assert path.stat().st_size == left
