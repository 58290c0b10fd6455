"""The sampler: exact windows, honest intervals, and failures that are data."""

import math
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from replayer import registry
from replayer.machine.host import Host
from replayer.watch import active_collectors
from replayer.watch.sampler import DeviceDelta, Sampler, rates
from tests.known import known as there
from tests.waiting import wait_until

SECOND = 1_000_000_000
RECORDED = Path(__file__).parent.parent / "fixtures" / "proc-5.4" / "first"


class Still(Sampler):
    """A sampler whose thread takes no samples of its own."""

    def _watch(self) -> None:
        """End at once."""


class Machine:
    """A recorded machine whose clock and disk move when the test says so."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = 7 * SECOND
        for part in ("proc", "sys/devices/system/cpu"):
            shutil.copytree(RECORDED / part, folder / part)
        self.disk(0)

    def clock(self) -> int:
        """Return the time in nanoseconds."""
        return self.now

    def disk(self, reads: int) -> None:
        """Write the totals of a disk that has read so many blocks of 8 KiB."""
        line = (
            f"   8       0 sda {reads} 0 {reads * 16} {reads} 3 0 3 1 0 {reads} {reads} 0 0 0 0\n"
        )
        (self.folder / "proc/diskstats").write_text(line)

    def passes(self, seconds: float, reads: int) -> None:
        """Let time pass until the disk has read so much in total."""
        self.now += int(seconds * SECOND)
        self.disk(reads)

    def sampler(self, device: str | None = "sda", interval: float = 1.0) -> Still:
        """Return a sampler of this machine that samples at marks only."""
        return Still(Host(self.folder), device, interval=interval, clock=self.clock)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Return a machine that stands still."""
    return Machine(tmp_path)


def test_device_delta_is_exactly_what_happened_between_two_marks(machine: Machine) -> None:
    """23 reads of 8 KiB between the marks are 23, whatever was read before and after."""
    with machine.sampler() as sampler:
        machine.passes(0.3, 1000)
        begin = sampler.mark()
        machine.passes(2.5, 1023)
        end = sampler.mark()
        machine.passes(1, 5000)
        sampler.mark()

        assert sampler.device_delta(begin, end) == DeviceDelta(
            seconds=2.5, reads=23, read_bytes=23 * 8192, writes=0, write_bytes=0
        )


def test_device_delta_is_none_where_it_cannot_be_exact(machine: Machine) -> None:
    """Without a device, with a time that is not a mark, or after the device was replaced: None."""
    with machine.sampler() as sampler:
        machine.passes(1, 500)
        begin = sampler.mark()
        machine.passes(1, 17)
        end = sampler.mark()

        assert sampler.device_delta(begin, end) is None
        assert sampler.device_delta(begin - 1, begin) is None

    with machine.sampler(device=None) as sampler:
        begin = sampler.mark()
        machine.passes(1, 999)

        assert sampler.device_delta(begin, sampler.mark()) is None


def test_a_device_whose_counting_is_off_has_no_delta(machine: Machine) -> None:
    """Zeros of a device that does not count are no proof; some count although it is off."""
    switch = machine.folder / "sys/block/sda/queue/iostats"
    switch.parent.mkdir(parents=True)
    switch.write_text("0\n")
    with machine.sampler() as sampler:
        begin = sampler.mark()
        machine.passes(1, 0)
        still = sampler.mark()

        assert sampler.device_delta(begin, still) is None
        assert str(switch.relative_to(machine.folder)) in sampler.failures()["diskstats"]

        machine.passes(1, 7)
        counted = sampler.device_delta(still, sampler.mark())
        assert counted is not None
        assert counted.reads == 7

    switch.write_text("1\n")
    with machine.sampler() as sampler:
        begin = sampler.mark()
        machine.passes(1, 7)

        assert sampler.device_delta(begin, sampler.mark()) is not None
        assert not sampler.failures()


def test_series_has_the_columns_of_every_collector(machine: Machine) -> None:
    """Each collector that has columns here is in the series, and all rows are of equal length."""
    with machine.sampler() as sampler:
        begin = sampler.mark()
        for second in range(1, 4):
            machine.passes(1, 23 * second)
            end = sampler.mark()
        series = sampler.series(begin, end)

    copied = {
        name for name in registry.names("collectors") if name not in active_collectors.active()
    }
    assert {name.split(".")[0] for name in series.columns} == copied
    assert series.seconds == (1, 2, 3)
    assert {len(values) for values in series.columns.values()} == {3}
    assert series.columns["diskstats.r/s"] == (23, 23, 23)


def test_series_shows_a_late_sample_as_a_long_interval(machine: Machine) -> None:
    """A sample that came 2.5 s late makes an interval of 3.5 s with the rate of those 3.5 s."""
    with machine.sampler() as sampler:
        begin = sampler.mark()
        machine.passes(1, 7)
        sampler.mark()
        machine.passes(3.5, 14)
        end = sampler.mark()
        series = sampler.series(begin, end)

    assert series.seconds == (1, 4.5)
    assert series.columns["diskstats.r/s"] == (7, 2)


def test_series_joins_an_interval_that_is_too_short_to_read(machine: Machine) -> None:
    """Marks 0.1 s apart do not make a rate of 0.1 s; nothing of what happened is lost by that."""
    with machine.sampler() as sampler:
        begin = sampler.mark()
        for seconds, reads in ((0.1, 10), (0.9, 20), (1.0, 30), (0.9, 40), (0.1, 50)):
            machine.passes(seconds, reads)
            end = sampler.mark()
        series = sampler.series(begin, end)

    assert series.seconds == (1, 2, 3)
    assert series.columns["diskstats.r/s"] == (20, 10, 20)


def test_series_over_hundreds_of_samples_is_whole(machine: Machine) -> None:
    """What was packed to save memory comes back: all 300 intervals, and exact marks."""
    with machine.sampler() as sampler:
        begin = sampler.mark()
        for second in range(1, 301):
            machine.passes(1, second * second)
            end = sampler.mark()
            with sampler._lock:
                sampler._copies.pack()
        series = sampler.series(begin, end)

        assert len(sampler._copies._packs) > 3
        assert there(sampler.device_delta(begin, end)).reads == 90_000
        last = sampler.device_delta(begin + 99 * SECOND, begin + 100 * SECOND)
        assert there(last).reads == 199

    assert series.seconds == tuple(range(1, 301))
    assert series.columns["diskstats.r/s"] == tuple(2 * second - 1 for second in range(1, 301))
    assert {len(values) for values in series.columns.values()} == {300}


def test_step_counters_become_rates_of_the_same_intervals(machine: Machine) -> None:
    """A step's total is interpolated onto the sample times, as steps do not count on the second."""
    with machine.sampler() as sampler:
        begin = sampler.mark()
        for second in (1, 2):
            machine.passes(1, second)
            end = sampler.mark()
        points = [(begin + int(at * SECOND), at * at) for at in (0, 0.5, 1.5, 2)]
        series = sampler.series(begin, end, {"sessions.riops": points})

    assert series.columns["sessions.riops"] == (1.25, 2.75)


def test_rates_of_what_was_not_counted_are_unknown() -> None:
    """Before the first and after the last point nothing is known; a covered part counts alone."""
    points = [(10 * SECOND, 0.0), (16 * SECOND, 60.0)]

    assert known(rates(points, [n * SECOND for n in (0, 8, 12, 18, 30)])) == [None, 10, 10, None]
    assert known(rates([], [0, SECOND])) == [None]
    assert known(rates([(5, 1.0)], [0, SECOND])) == [None]


def known(values: Sequence[float]) -> list[float | None]:
    """Return values with None for nan."""
    return [None if math.isnan(value) else value for value in values]


def test_a_missing_file_is_a_failure_that_is_told(machine: Machine) -> None:
    """Without PSI, pressure says why, has no columns, and the others go on."""
    shutil.rmtree(machine.folder / "proc/pressure")
    with machine.sampler() as sampler:
        begin = sampler.mark()
        machine.passes(1, 23)
        series = sampler.series(begin, sampler.mark())

        assert set(sampler.failures()) == {"pressure"}
        assert "/proc/pressure/cpu cannot be read: No such file" in sampler.failures()["pressure"]

    assert series.columns["diskstats.r/s"] == (23,)
    assert not [name for name in series.columns if name.startswith("pressure.")]


def test_a_collector_that_fails_is_told_and_stops_nothing(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception in a collector's parser becomes one line; the other columns are there."""

    def broken(samples: Any, device: Any) -> Any:
        message = "7 is not a prime here"
        raise ValueError(message)

    monkeypatch.setattr(registry.load("collectors", "meminfo"), "parse", broken)
    with machine.sampler() as sampler:
        begin = sampler.mark()
        machine.passes(1, 23)
        series = sampler.series(begin, sampler.mark())

        assert "7 is not a prime here" in sampler.failures()["meminfo"]

    assert "vmstat.free" in series.columns
    assert "meminfo.MemFree" not in series.columns


def test_garbage_in_a_file_is_told_and_stops_nothing(machine: Machine) -> None:
    """A /proc that says what no kernel says fails the collectors that read it, and only those."""
    (machine.folder / "proc/stat").write_bytes(b"\xff\x00 cpu cpu\n")
    with machine.sampler() as sampler:
        begin = sampler.mark()
        machine.passes(1, 23)
        series = sampler.series(begin, sampler.mark())

        assert set(sampler.failures()) == {"cpu", "vmstat"}

    assert series.columns["diskstats.r/s"] == (23,)


def test_an_interval_that_could_not_be_read_is_none(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that fails once leaves None at both intervals beside it; the rest has its numbers."""
    with machine.sampler() as sampler:
        begin = sampler.mark()
        read = sampler._read
        for second in range(1, 6):
            machine.passes(1, 23 * second)
            fails = second == 3
            monkeypatch.setattr(
                sampler, "_read", lambda file, fails=fails: None if fails else read(file)
            )
            end = sampler.mark()
        series = sampler.series(begin, end)

    assert series.columns["diskstats.r/s"] == (23, 23, None, None, 23)


def test_the_thread_takes_samples_by_itself_on_whole_intervals(machine: Machine) -> None:
    """Samples come n intervals after the mark; a late one is stamped late and moves no other."""
    script = [7, 7, *[8] * 4, 9, 9, 11.3, 11.3, *[12] * 4]
    moments = iter(int(moment * SECOND) for moment in script)
    done = threading.Event()

    def clock() -> int:
        now = next(moments, None)
        if now is None:
            done.set()
        return now or 12 * SECOND

    with Sampler(Host(machine.folder), "sda", interval=1.0, clock=clock) as sampler:
        assert done.wait(120)

    copies = [copy.clock_ns / SECOND for copy in sampler._copies.walk(0, 99 * SECOND)]
    assert copies == [7, 8, 11.3, 12]
    assert sampler._due_ns == 13 * SECOND


def test_the_thread_watches_this_machine(tmp_path: Path) -> None:
    """On the real /proc every collector that this kernel has delivers, from the thread alone."""
    with Sampler(Host(), Host().device_of(tmp_path), interval=0.02) as sampler:
        begin = sampler.mark()
        wait_until(lambda: len(list(sampler._copies.walk(begin, begin + 3600 * SECOND))) > 5)
        end = sampler.mark()
        series = sampler.series(begin, end)

    assert len(series.seconds) > 2
    free = series.columns["vmstat.free"][0]
    assert free is not None
    assert free > 0
    assert set(sampler.failures()) <= {"pressure", "schedstat"}
    assert sampler.cpu_seconds > 0
    assert not sampler._open
