"""What bpftrace printed on a real kernel (6.18, bpftrace 0.17), read."""

import json
import time
from pathlib import Path

import pytest

from replayer.collectors import CollectorContext
from replayer.collectors.block_latency import BlockLatency, begin, read_seconds
from replayer.errors import ReplayerError, Skip
from replayer.machine.host import Host

PRINTED = (Path(__file__).parent.parent / "fixtures/bpftrace/0.17.json").read_text()


def test_each_second_has_its_histograms() -> None:
    """The first second had one read of 128 to 255 us, and 913 writes."""
    first, second, *_ = read_seconds(PRINTED)

    assert first.clock_ns == 49594511506861
    assert first.histograms["read"] == {128: 1}
    assert first.histograms["write"] == {
        16: 78, 32: 448, 64: 296, 128: 84, 256: 2, 2048: 3, 4096: 1,
    }  # fmt: skip
    assert second.clock_ns - first.clock_ns == pytest.approx(10**9, rel=0.01)
    assert second.histograms["read"] == {8192: 1, 16384: 2, 32768: 2}


def test_output_that_is_cut_is_read_up_to_there() -> None:
    """A bpftrace that was killed leaves half a line: what is whole before it stays."""
    whole = list(read_seconds(PRINTED))
    cut = list(read_seconds(PRINTED[: PRINTED.rindex('"count"')]))

    assert cut[: len(whole) - 1] == whole[:-1]


def test_it_says_why_it_cannot_watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No disk, no bpftrace, no tracepoints: a reason each, and what there is instead."""
    scene = CollectorContext(Host(tmp_path), "vda", tmp_path, server=list, own=list)
    monkeypatch.setattr("replayer.shell.find", lambda _name: None)
    with pytest.raises(Skip, match=r"bpftrace is not installed .*means of diskstats"):
        begin(scene)
    monkeypatch.setattr("replayer.shell.find", lambda name: Path("/usr/bin") / name)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(Skip, match="needs root"):
        begin(scene)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with pytest.raises(Skip, match="shows no tracepoints"):
        begin(scene)
    with pytest.raises(Skip, match="no block device"):
        begin(CollectorContext(Host(tmp_path), None, tmp_path, server=list, own=list))


def test_a_disk_with_a_slash_in_its_name_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name in /sys has "!" in place of it."""
    monkeypatch.setattr("replayer.shell.find", lambda _name: Path("/bin/true"))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    (tmp_path / "sys/kernel/tracing/events/block/block_rq_issue").mkdir(parents=True)
    disk = tmp_path / "sys/class/block/cciss!c0d0"
    (disk / "mq").mkdir(parents=True)
    (disk / "dev").write_text("104:0\n")
    begin(CollectorContext(Host(tmp_path), "cciss/c0d0", tmp_path, server=list, own=list)).end()

    assert f"args->dev == {104 << 20}" in (tmp_path / "latency.bt").read_text()


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"queue/scheduler": "none\n"}, "md0 has no queue of requests"),
        ({}, "md0 has no queue of requests"),
        ({"mq/0/cpu_list": "0\n", "queue/scheduler": "[none] kyber\n"}, ""),
        ({"queue/scheduler": "noop [deadline] cfq\n"}, ""),
    ],
    ids=["md of an old kernel", "md", "a disk", "a disk of an old kernel"],
)
def test_a_device_without_a_queue_of_requests_is_not_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], reason: str
) -> None:
    """The tracepoints have no request of md, so that its table would be empty without a reason."""
    monkeypatch.setattr("replayer.shell.find", lambda _name: Path("/bin/true"))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    (tmp_path / "sys/kernel/tracing/events/block/block_rq_issue").mkdir(parents=True)
    for name, text in {"dev": "9:0\n", **files}.items():
        path = tmp_path / "sys/class/block/md0" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    scene = CollectorContext(Host(tmp_path), "md0", tmp_path, server=list, own=list)

    if not reason:
        begin(scene).end()
    else:
        with pytest.raises(Skip, match=f"{reason}.*means of diskstats"):
            begin(scene)


def test_seconds_are_found_after_a_suspend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of bpftrace counts the hour that the machine slept, or does not."""
    hour = 3600 * 10**9
    monkeypatch.setattr("time.clock_gettime_ns", lambda _clock: time.monotonic_ns() + hour)
    program = tmp_path / "bpftrace"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    scene = CollectorContext(Host(tmp_path), "vda", tmp_path, server=list, own=list)
    recording = BlockLatency(scene, program, 1)
    recording.end()
    begin_ns = time.monotonic_ns()

    for asleep_ns in (hour, 0, 2 * hour):
        seconds = [
            {"type": "printf", "data": f"{begin_ns + asleep_ns + number * 10**9}\n"}
            for number in range(5)
        ]
        latencies = {"type": "hist", "data": {"@read": [{"min": 64, "max": 127, "count": 5}]}}
        lines = [json.dumps(line) for second in seconds for line in (second, latencies)]
        (tmp_path / "latency.json").write_text("\n".join(lines))
        if asleep_ns > hour:
            with pytest.raises(ReplayerError, match="printed no second of the window"):
                recording.cut(begin_ns, begin_ns + 45 * 10**8)
        else:
            cut = recording.cut(begin_ns, begin_ns + 45 * 10**8)
            assert [row["second"] for row in cut.tables["block_latency.seconds"]] == [1, 2, 3, 4]
