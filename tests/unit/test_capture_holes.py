"""Runs of zeros in a log, as a power failure leaves them: the rest is read, their cost is said.

A hole is put over what stood in a log, as a file system does that had no time to write a block.
"""

import gzip
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from replayer.capture import conversion, holes, inputs
from replayer.capture.archive import ArchiveReader
from replayer.capture.capture_summary import CaptureSummary
from replayer.errors import Impossible
from tests.unit.test_capture_convert import as_json, as_stderr, row

COUNT = 40
TEXT = "SELECT {number}, 'ä\"€,\n  2026-01-01',\n\t{number}"


def _postgres(layout: Callable[[str], str]) -> str:
    begin = "duration: 5.000 ms  statement: "
    texts = [TEXT.format(number=number) for number in range(COUNT)]
    return layout("".join(row(1 + at, begin + one) for at, one in enumerate(texts)))


def _syslog() -> str:
    """Return stderr in the envelope of syslog, each line with the number of its message."""
    lines = []
    for number in range(COUNT):
        parts = (f"LOG:  duration: 5.000 ms  statement: {TEXT.format(number=number)}").split("\n")
        lines += [
            f"2026-05-16T05:11:{number:02}.5+00:00 host postgres[77]: [{number}-{at}] "
            f"{'[77] ann@shop ' if at == 1 else '#011'}{part}\n"
            for at, part in enumerate(parts, 1)
        ]
    return "".join(lines)


def _general() -> str:
    return "".join(
        f"2026-11-22T03:00:{number:02}.000001Z\t    8 Query\t{TEXT.format(number=number)}\n"
        for number in range(COUNT)
    )


def _slow() -> str:
    return "".join(
        f"# Time: 2026-11-22T03:00:{number:02}.500000Z\n"
        "# User@Host: anna[anna] @ localhost []  Id:     8\n"
        "# Query_time: 0.010000  Lock_time: 0.000010 Rows_sent: 3  Rows_examined: 100\n"
        f"SET timestamp={1795316400 + number};\n{TEXT.format(number=number)};\n"
        for number in range(COUNT)
    )


LOGS: dict[str, str] = {
    "csv": _postgres(str),
    "json": _postgres(as_json),
    "stderr": _postgres(as_stderr),
    "syslog": _syslog(),
    "general": _general(),
    "slow": _slow(),
}


def _converted(folder: Path, data: bytes, name: str = "a.log") -> tuple[CaptureSummary, list[str]]:
    """Return the summary and the texts of a log."""
    (folder / name).write_bytes(data)
    wish = conversion.ConversionRequest([str(folder / name)], folder / "out.replay")
    made = conversion.convert(conversion.planned(wish), wish, lambda _: None)
    with ArchiveReader(wish.out) as reader:
        return made.summary, [one.text for one in reader.actions() if one.text]


def _punched(data: bytes, *places: tuple[int, int]) -> bytes:
    for start, length in places:
        length = min(length, len(data) - start)  # noqa: PLW2901 - no hole is longer than its log
        data = data[:start] + bytes(length) + data[start + length :]
    return data


def _hit(data: bytes, start: int, length: int) -> int:
    """Return how many statements have a byte in a part of a log, or stand next to it."""
    places = [data.index(f"SELECT {number}, ".encode()) for number in range(COUNT)]
    begins, ends = [0, 0, *places], [*places[1:], len(data)]
    return sum(
        begin < start + length and end > start for begin, end in zip(begins, ends, strict=False)
    )


@pytest.mark.parametrize("layout", LOGS)
def test_a_hole_costs_what_stood_there_and_is_named(tmp_path: Path, layout: str) -> None:
    """Anywhere, of any length, also in the middle of a character: no other text is lost or made."""
    data = LOGS[layout].encode()
    every = [TEXT.format(number=number) for number in range(COUNT)]
    for length in (16, 300, len(data) // 3):
        for start in range(0, len(data) - length + 1, len(data) // 23 + 1):
            summary, texts = _converted(tmp_path, _punched(data, (start, length)))
            named = [one for one in summary.damage if f"{length:,} zeros" in one]
            lost = [text for text in every if text not in texts]
            cut = summary.skipped.get(holes.LOST, 0)

            assert [text for text in every if text in texts] == texts
            assert len(named) == 1, (start, length, summary.damage)
            assert f"from byte {start:,} " in named[0]
            assert cut <= 1
            assert len(lost) <= _hit(data, start, length)


@pytest.mark.parametrize("layout", LOGS)
def test_holes_at_both_ends_and_between(tmp_path: Path, layout: str) -> None:
    """Several, of which one is larger than what is read at once."""
    log = LOGS[layout].encode()
    middle = log.index(b"SELECT 20, ") + 3
    rest = log[middle:]
    large = (3 << 20) + 17
    data = bytes(5000) + log[:middle] + bytes(large) + rest + bytes(999)

    summary, texts = _converted(tmp_path, data)

    every = [TEXT.format(number=number) for number in range(COUNT)]
    missing = [text for text in every if text not in texts]
    assert every[20] in missing
    assert set(missing) <= {every[20], every[-1]}
    assert summary.skipped[holes.LOST] == len(missing)
    expected = [(0, 5000), (5000 + middle, large), (len(data) - 999, 999)]
    assert [
        any(f"{length:,} zeros from byte {offset:,} " in one for one in summary.damage)
        for offset, length in expected
    ] == [True] * 3


def test_a_hole_in_a_log_with_the_newest_line_first(tmp_path: Path) -> None:
    """Exports are so, and are read from their end."""
    lines = LOGS["json"].encode().splitlines(keepends=True)
    log = b"".join(reversed(lines))
    place = log.index(b"SELECT 7, ") + 4
    summary, texts = _converted(tmp_path, _punched(log, (place, 20)))
    assert texts == [TEXT.format(number=number) for number in range(COUNT) if number != 7]
    assert summary.skipped == {holes.LOST: 1}
    assert f"20 zeros from byte {place:,} " in summary.damage[0]


@pytest.mark.parametrize("layout", ["csv", "json", "stderr"])
def test_a_single_zero_in_a_log_of_postgres_is_a_hole(tmp_path: Path, layout: str) -> None:
    """None of its texts can have one."""
    log = LOGS[layout].encode()
    place = log.index(b"SELECT 7, ") + 4
    summary, texts = _converted(tmp_path, _punched(log, (place, 1)))
    assert len(texts) == COUNT - 1
    assert summary.skipped == {holes.LOST: 1}


def test_a_few_zeros_in_a_log_of_mysql_are_a_text(tmp_path: Path) -> None:
    """A client can send them."""
    log = LOGS["general"].encode().replace(b"SELECT 7, '", b"SELECT 7, '\0\0\0")
    summary, texts = _converted(tmp_path, log)
    assert len(texts) == COUNT
    assert "SELECT 7, '\0\0\0ä" in texts[7]
    assert not summary.damage


def test_a_statement_of_which_a_hole_took_the_end_does_not_run_shorter(tmp_path: Path) -> None:
    """What looks whole at the end of a line may have had a WHERE in the next one."""
    text = row(1, "duration: 5.000 ms  statement: DELETE FROM t\n WHERE id = 1") + row(
        2, "duration: 5.000 ms  statement: SELECT 2"
    )
    log = as_stderr(text).encode()
    start = log.index(b"\n\t WHERE") + 1
    summary, texts = _converted(tmp_path, _punched(log, (start, len("\t WHERE id = 1\n"))))
    assert texts == ["SELECT 2"]
    assert summary.skipped == {holes.LOST: 1}


@pytest.mark.parametrize("layout", ["csv", "general"])
def test_holes_of_packed_logs_and_pipes_are_named_too(tmp_path: Path, layout: str) -> None:
    """By their place in the text."""
    log = LOGS[layout].encode()
    middle = log.index(b"SELECT 20, ") + 3
    data = bytes(70_000) + log[:middle] + bytes(100_000) + log[middle:]
    plain = _converted(tmp_path, data)
    assert _converted(tmp_path, gzip.compress(data), "b.log.gz")[1] == plain[1]
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(data,))
    writer.start()
    wish = conversion.ConversionRequest([str(tmp_path / "pipe")], tmp_path / "out.replay")
    made = conversion.convert(conversion.planned(wish), wish, lambda _: None)
    writer.join()
    assert [one.partition(": ")[2] for one in made.summary.damage] == [
        one.partition(": ")[2] for one in plain[0].damage
    ]
    assert made.summary.statements == plain[0].statements == COUNT - 1


def test_zeros_without_an_end_are_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log is looked for behind so many, and no more."""
    monkeypatch.setattr(inputs, "_LONGEST_HOLE", 1 << 20)
    with pytest.raises(Impossible, match="zeros"):
        _converted(tmp_path, bytes(3 << 20))
    with pytest.raises(Impossible, match="not text"):
        _converted(tmp_path, bytes(1 << 10))
