"""Every collector reads every recorded /proc; the ones that ship say what sysstat says."""

import math
from pathlib import Path
from types import ModuleType

import pytest

from replayer import registry
from replayer.collectors import (
    Columns,
    Sample,
    allowed_cpu,
    cpu,
    diskstats,
    interrupts,
    meminfo,
    pressure,
    schedstat,
    softirqs,
    vmstat,
)
from replayer.machine import interrupts as counters_of
from replayer.machine import processors
from replayer.machine.diskstats import DiskCounters, counters, moved
from replayer.watch import active_collectors

COPIED = [name for name in registry.names("collectors") if name not in active_collectors.active()]
FIXTURES = Path(__file__).parent.parent / "fixtures"
KERNELS = sorted(path.name for path in FIXTURES.glob("proc-*"))
SECOND = 1_000_000_000


def recorded(collector: ModuleType, kernel: str, *, seconds: float = 1.0) -> list[Sample]:
    """Return the two samples of a collector's files that were recorded on a kernel."""
    clocks = {"first": 0, "second": int(seconds * SECOND)}
    return [
        Sample(
            clock, tuple((FIXTURES / kernel / when / file).read_bytes() for file in collector.FILES)
        )
        for when, clock in clocks.items()
    ]


def device(kernel: str) -> str:
    """Return the disk of a recorded machine."""
    return "vda" if kernel == "proc-6.18" else "sda"


def only(columns: Columns) -> dict[str, float]:
    """Return the columns of one interval as plain numbers."""
    assert {len(values) for values in columns.values()} == {1}
    return {name: values[0] for name, values in columns.items()}


def recordings() -> list[tuple[str, str]]:
    """Return each collector with each kernel of which its files were recorded."""
    return [
        (name, kernel)
        for name in COPIED
        for kernel in KERNELS
        if all(
            (FIXTURES / kernel / "first" / file).exists()
            for file in registry.load("collectors", name).FILES
        )
    ]


@pytest.mark.parametrize(("name", "kernel"), recordings())
def test_every_collector_reads_every_kernel(name: str, kernel: str) -> None:
    """Two samples make one value in each column, finite and not negative; one makes none."""
    collector = registry.load("collectors", name)
    samples = recorded(collector, kernel)
    columns = only(collector.parse(samples, device(kernel)))

    assert columns
    assert all(math.isfinite(value) and value >= 0 for value in columns.values())
    one = collector.parse(samples[:1], device(kernel))
    assert all(len(values) == 0 for values in one.values())


def test_every_collector_has_a_recording() -> None:
    """One that no recorded kernel has would be tested by nothing."""
    assert {name for name, _ in recordings()} == set(COPIED)


def test_diskstats_of_a_kernel_without_discards_wraps_at_32_bits() -> None:
    """Linux 3.10 has 11 counters; those that passed 2^32 moved by what is left and what is new."""
    row = only(diskstats.parse(recorded(diskstats, "proc-3.10"), "sda"))

    assert row["r/s"] == 13
    assert row["rrqm/s"] == 13
    assert row["rkB/s"] == 1297 / 2
    assert row["r_await"] == 299 / 13
    assert row["rareq-sz"] == 1297 / 2 / 13
    assert row["w/s"] == 11
    assert row["wkB/s"] == 37 / 2
    assert row["%wrqm"] == 100 * 17 / 28
    assert row["await"] == (299 + 41) / 24
    assert row["areq-sz"] == (1297 + 37) / 2 / 24
    assert row["aqu-sz"] == pytest.approx(0.097)
    assert row["%util"] == pytest.approx(44.3)
    assert not {"d/s", "f/s"} & row.keys()


def test_diskstats_takes_the_disk_or_the_dm_device_never_both() -> None:
    """dm-0 lies on sda: each has its own line, and only the one asked for is counted."""
    row = only(diskstats.parse(recorded(diskstats, "proc-3.10"), "dm-0"))

    assert row["r/s"] == 23
    assert row["rkB/s"] == 184
    assert row["r_await"] == 113 / 23
    assert row["w_await"] == 29 / 7
    assert row["%util"] == pytest.approx(33.1)


def test_diskstats_of_a_kernel_with_discards_counts_them_in_areq() -> None:
    """Since Linux 4.18 discards are counted, and areq-sz and await are over them too."""
    row = only(diskstats.parse(recorded(diskstats, "proc-5.4", seconds=2), "sda"))

    assert row["r/s"] == 11.5
    assert row["d/s"] == 3.5
    assert row["dkB/s"] == 13 / 4
    assert row["d_await"] == 13 / 7
    assert row["areq-sz"] == (368 + 94 + 13) / 2 / (23 + 11 + 7)
    assert row["await"] == (161 + 53 + 13) / 41
    assert "f/s" not in row


def test_diskstats_of_a_new_kernel_counts_23_mib() -> None:
    """The recorded second in which 23 MiB of a file were read shows them, and the flushes too."""
    row = only(diskstats.parse(recorded(diskstats, "proc-6.18"), "vda"))

    assert row["rkB/s"] == 23 * 1024 + 12
    assert row["dkB/s"] == 23 * 1024
    assert row["f/s"] == 1


def test_diskstats_does_not_mistake_a_replaced_device_for_a_wrap() -> None:
    """Counters that fall from a small value were set back: the interval has no numbers."""
    before = DiskCounters(*range(100, 111))
    after = DiskCounters(*range(50, 61))

    assert moved(before, after) is None
    later = moved(before, before._replace(reads=123))
    assert later is not None
    assert later.reads == 23


def test_the_paths_of_a_disk_are_added_up_if_it_counts_nothing_itself() -> None:
    """Before Linux 6.4 an NVMe disk with several paths has zeros; a newer one counts itself."""
    paths = (
        b"   0    0 nvme0c0n1 300 0 6000 9 20 0 160 4 1 8 13\n"
        b"   0    0 nvme0c1n1 100 0 2000 3 0 0 0 0 0 2 3\n"
        b"   0    0 nvme0c1n2 7 0 7 7 7 7 7 7 7 7 7\n"
        b" 259    5 nvme1n1 9 9 9 9 9 9 9 9 9 9 9\n"
    )
    silent = b" 259    1 nvme0n1 0 0 0 0 0 0 0 0 0 0 0\n"
    own = b" 259    1 nvme0n1 390 0 8000 12 20 0 160 4 1 9 16\n"
    no_paths = b" 259    1 nvme1n1 0 0 0 0 0 0 0 0 0 0 0\n"

    assert (
        counters(paths + silent, "nvme0n1")
        == (400, 0, 8000, 12, 20, 0, 160, 4, 1, 10, 16) + (None,) * 6
    )
    assert (known := counters(paths + own, "nvme0n1")) is not None
    assert known.reads == 390
    assert counters(no_paths, "nvme1n1") == DiskCounters(*[0] * 11)
    assert counters(paths, "nvme0n1") is None


def test_times_that_are_not_counted_are_not_zero() -> None:
    """Before Linux 5.9 md counts requests and sectors only; a disk that was never used counts."""
    lines = {
        "first": b"9 0 md0 0 0 0 0 0 0 0 0 0 0 0\n8 0 sda 0 0 0 0 0 0 0 0 0 0 0\n",
        "used": b"9 0 md0 100 0 1600 0 50 0 800 0 0 0 0\n8 0 sda 9 0 72 1 0 0 0 0 0 1 1\n",
        "later": b"9 0 md0 900 0 9600 0 60 0 880 0 0 0 0\n8 0 sda 9 0 72 1 0 0 0 0 0 1 1\n",
    }
    samples = [Sample(n * SECOND, (text,)) for n, text in enumerate(lines.values())]
    raid, disk = (diskstats.parse(samples, name) for name in ("md0", "sda"))
    times = {"r_await", "w_await", "await", "aqu-sz", "%util"}

    assert (raid["r/s"], raid["wkB/s"]) == ([100, 800], [400, 40])
    assert {name for name, row in raid.items() if all(map(math.isnan, row))} == times
    assert not any(math.isnan(value) for row in disk.values() for value in row)
    assert (disk["r_await"], disk["%util"]) == ([1 / 9, 0], [0.1, 0])


def test_diskstats_without_a_device_has_no_columns() -> None:
    """Data on tmpfs or NFS has no block device, and another disk's numbers are not shown for it."""
    samples = recorded(diskstats, "proc-5.4")

    assert diskstats.parse(samples, None) == {}
    assert diskstats.parse(samples, "nvme0n1") == {}
    assert diskstats.parse(samples, "sd") == {}


def test_cpu_shares_take_guest_time_out_of_user_time() -> None:
    """Shares are of all time, and guest time, which the kernel adds to user, is shown by itself."""
    row = only(cpu.parse(recorded(cpu, "proc-5.4"), None))
    total = 127 + 3 + 31 + 11 + 7 + 2 + 19

    assert row["%usr"] == pytest.approx(100 * (127 - 17) / total)
    assert row["%nice"] == 0
    assert row["%guest"] == pytest.approx(100 * 17 / total)
    assert row["%gnice"] == pytest.approx(100 * 3 / total)
    assert row["%steal"] == pytest.approx(100 * 19 / total)
    assert sum(row[name] for name in row if name != "%busiest") == pytest.approx(100)
    assert row["%busiest"] == 100


def test_cpu_busiest_is_one_processor() -> None:
    """One busy processor of four is seen, though all together are mostly idle."""
    row = only(cpu.parse(recorded(cpu, "proc-3.10"), None))

    assert row["%busiest"] == 100
    assert row["%idle"] == pytest.approx(100 * 199 / 395)


def test_cpu_counts_idle_time_that_steps_back_as_none() -> None:
    """proc(5) warns that idle and iowait may decrease; no share gets negative or above 100."""
    before = processors.ticks(b"cpu  100 0 0 1000 500 0 0 0 0 0\n")["cpu"]
    after = processors.ticks(b"cpu  137 0 0 1063 499 0 0 0 0 0\n")["cpu"]

    shares = cpu.shares(before, after)

    assert shares["usr"] == 37
    assert shares["iowait"] == 0
    assert sum(shares.values()) == 100


def test_cpu_counters_that_stand_still_give_no_shares() -> None:
    """As under gVisor: a machine is not idle, nor busy, because its kernel counts no time."""
    first, _ = recorded(cpu, "proc-5.4")
    row = only(cpu.parse([first, first._replace(clock_ns=SECOND)], None))

    assert all(map(math.isnan, row.values()))


def test_idle_time_of_allowed_processors_is_known_if_they_are_not_all() -> None:
    """Of two, the second is allowed; where both are, or it is not known, `cpu` has it."""
    samples = recorded(allowed_cpu, "proc-5.4")
    first, last = (processors.ticks(sample.texts[0])["cpu1"] for sample in samples)
    spent = {state: last[state] - first[state] for state in processors.STATES}

    def idle(*statuses: bytes, offline: bytes = b"\n") -> Columns:
        pairs = zip(samples, statuses, strict=True)
        texts = [sample._replace(texts=(sample.texts[0], text, offline)) for sample, text in pairs]
        return allowed_cpu.parse(texts, None)

    second, both, four = (b"Cpus_allowed_list:\t%s\n" % text for text in (b"1", b"0-1", b"2-3"))
    (share,) = allowed_cpu.parse(samples, None)["%idle"]
    assert share == pytest.approx(100 * (spent["idle"] + spent["iowait"]) / sum(spent.values()))
    assert idle(second, second) == {"%idle": [share]}
    assert idle(both, both) == idle(four, four) == idle(b"", b"") == {}
    assert math.isnan(idle(second, both)["%idle"][0])
    # As with `isolcpus` where 128 processors are possible: those that do not work are allowed, too.
    possible = b"Cpus_allowed_list:\t1-127\n"
    assert idle(possible, possible, offline=b"2-127\n") == {"%idle": [share]}


def test_cpu_that_comes_online_is_left_out_of_its_first_interval() -> None:
    """A processor without a first sample has no share, and stops nothing."""
    samples = [
        Sample(0, (b"cpu  0 0 0 100\ncpu0 0 0 0 100\n",)),
        Sample(SECOND, (b"cpu  23 0 0 177\ncpu0 23 0 0 177\ncpu1 900 0 0 1\n",)),
    ]

    assert only(cpu.parse(samples, None))["%busiest"] == 23


def test_vmstat_prints_what_procps_prints() -> None:
    """Every column of one recorded second, by hand; r is without the reader itself."""
    row = only(vmstat.parse(recorded(vmstat, "proc-3.10"), None))

    total = 101 + 11 + 53 + 199 + 23 + 3 + 5
    assert {name: row[name] for name in ("r", "b", "swpd", "free", "buff", "cache")} == {
        "r": 5,
        "b": 2,
        "swpd": 107,
        "free": 39999983,
        "buff": 200000,
        "cache": 20300000,
    }
    assert [row[name] for name in ("si", "so", "bi", "bo")] == [19 * 4, 23 * 4, 719, 331]
    assert [row["in"], row["cs"]] == [997, 1993]
    assert row["us"] == pytest.approx(100 * 112 / total)
    assert row["sy"] == pytest.approx(100 * 61 / total)
    assert row["id"] == pytest.approx(100 * 199 / total)
    assert row["wa"] == pytest.approx(100 * 23 / total)
    assert row["st"] == 0


def test_vmstat_rates_are_per_second_of_the_real_interval() -> None:
    """An interval that took 2 s because the machine was busy halves the rates, not the memory."""
    row = only(vmstat.parse(recorded(vmstat, "proc-3.10", seconds=2), None))

    assert row["bi"] == 359.5
    assert row["cs"] == 996.5
    assert row["free"] == 39999983


def test_meminfo_has_no_column_for_what_the_kernel_does_not_say() -> None:
    """MemAvailable came with Linux 3.14: before, it is absent and not 0."""
    old = only(meminfo.parse(recorded(meminfo, "proc-3.10"), None))
    new = only(meminfo.parse(recorded(meminfo, "proc-5.4"), None))

    assert "MemAvailable" not in old
    assert new["MemAvailable"] == 6000000
    assert old["Dirty"] == 653
    assert old["Active(file)"] == 9000000
    assert old["HugePages_Free"] == 61


def test_pressure_share_is_that_of_the_interval() -> None:
    """23 ms of stall in one second are 2.3 %, whatever the kernel's ten-second average says."""
    row = only(pressure.parse(recorded(pressure, "proc-5.4"), None))

    assert row["%scpu"] == pytest.approx(2.3)
    assert row["%sio"] == pytest.approx(43.1)
    assert row["%fio"] == pytest.approx(12.7)
    assert row["%smem"] == 0
    assert row["%scpu-10"] == 1.5
    assert row["%fio-10"] == 1.5
    assert "%fcpu" not in row


def test_interrupts_of_a_devices_queues_are_one_source() -> None:
    """13 and 29 of two queues of one disk are 42; what never came is not a column, as acpi here."""
    row = only(interrupts.parse(recorded(interrupts, "proc-5.4", seconds=2), None))

    assert row["nvme0/s"] == 21
    assert row["LOC/s"] == 225
    assert row["TLB/s"] == 1.5
    assert row["eth0/s"] == 0
    assert not {"acpi/s", "ERR/s", "NMI/s"} & row.keys()
    assert row["%busiest"] == pytest.approx(100 * (13 + 251) / (42 + 450 + 3))


def test_a_processor_that_comes_online_brings_no_interrupts_of_earlier() -> None:
    """Its counts are those since the machine's start; a source that is new counts from 0."""
    before = {"LOC": {"CPU0": 100}}
    after = {"LOC": {"CPU0": 150, "CPU1": 90_000}, "nvme0": {"CPU0": 10, "CPU1": 5}}

    assert counters_of.rates([0, 10**9], [before, after]) == {
        "LOC/s": [50.0],
        "nvme0/s": [10.0],
        "%busiest": [100.0],
    }


def test_interrupts_of_a_new_kernel_are_named_by_their_devices() -> None:
    """A recorded virtual machine: its disk, its network, and the processors' own."""
    row = only(interrupts.parse(recorded(interrupts, "proc-6.18"), None))

    assert {"virtio1/s", "virtio3-rx/s", "LOC/s", "RES/s", "CAL/s", "TLB/s"} <= row.keys()
    assert 50 <= row["%busiest"] <= 100


@pytest.mark.parametrize(
    ("handler", "source"),
    [
        ("nvme12q128", "nvme12"), ("eth0-TxRx-3", "eth0"), ("ens5-Tx-Rx-0", "ens5"),
        ("virtio2-output.0", "virtio2"), ("mpt3sas0-msix12", "mpt3sas0"), ("ttyS0", "ttyS0"),
        ("mlx5_comp12@pci:0000:01:00.0", "mlx5@pci:0000:01:00.0"), ("eth0", "eth0"),
    ],
)  # fmt: skip
def test_a_queue_has_the_name_of_its_device(handler: str, source: str) -> None:
    """Drivers number their queues in many ways; the number of a device stays."""
    text = f"      CPU0\n 77:  9  PCI-MSI 5-edge  {handler}\n"

    assert counters_of.table(text.encode()) == {source: {"CPU0": 9}}


def test_interrupts_that_share_a_line_are_counted_once() -> None:
    """`ehci, nouveau` on one line is one source, called by the first."""
    text = b"      CPU0  CPU1\n 18:  2  5  IO-APIC 18-fasteoi  ehci_hcd:usb1, nouveau\n"

    assert counters_of.table(text) == {"ehci_hcd:usb1": {"CPU0": 2, "CPU1": 5}}


def test_the_quietest_processor_is_that_with_the_fewest_interrupts_of_devices() -> None:
    """1,500 and 47 of two processors' devices count; their timers do not."""
    text = (FIXTURES / "proc-5.4/first/proc/interrupts").read_bytes()

    assert counters_of.quietest(text, {0, 1}) == 1
    assert counters_of.quietest(text.replace(b"    700 ", b"  99999 "), {0, 1}) == 0
    assert counters_of.quietest(text, {0}) == 0
    assert counters_of.quietest(b"", {5, 3}) == 3


def test_softirqs_have_the_kernels_names() -> None:
    """Rates are of all processors together."""
    row = only(softirqs.parse(recorded(softirqs, "proc-5.4"), None))

    assert row["TIMER/s"] == 198
    assert row["BLOCK/s"] == 42
    assert row["NET_RX/s"] == 0
    assert "HI/s" not in row
    assert row["%busiest"] == pytest.approx(100 * 126 / 240)


def test_schedstat_says_how_many_ran_and_how_many_waited() -> None:
    """0.7 and 0.9 s of running in 2 s are 0.8 tasks; 1.5 and 0.25 s of waiting 0.875."""
    row = only(schedstat.parse(recorded(schedstat, "proc-5.4", seconds=2), None))

    assert row == {
        "running": pytest.approx(0.8),
        "waiting": pytest.approx(0.875),
        "waiting-busiest": pytest.approx(0.75),
        "timeslices/s": 200,
    }
