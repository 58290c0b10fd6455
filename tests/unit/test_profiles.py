"""profiles of other tools: their numbers in our units, gaps where nothing is known."""

import cProfile
import json
import random
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from replayer import registry
from replayer.analysis.profiles import usage
from replayer.errors import Impossible, NotFound
from replayer.report.documents import profile as report
from replayer.report.writers import csv_writer, markdown_writer, page_writer
from replayer.results import imported, profile
from replayer.results.profile import ResourceProfile
from tests.unit.test_imports_hostile import mutate

FILES = Path(__file__).parents[1] / "fixtures" / "profiles"
TOOLS = registry.names("profiles")
EVERY = [(tool, path) for tool in TOOLS for path in sorted((FILES / tool).iterdir())]
CASES = 60


def read(
    tool: str, path: Path, devices: Sequence[str] = ()
) -> tuple[ResourceProfile, Sequence[str]]:
    """Return the profile of a file, and the sentences about what was not understood."""
    file = imported.opened(path)
    return registry.load("profiles", tool).read(file, devices), file.unread.all()


def written(tmp_path: Path, text: str | bytes, name: str = "file") -> Path:
    """Return where a text was written."""
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def csv(tmp_path: Path, text: str, **how: Sequence[str]) -> tuple[ResourceProfile, Sequence[str]]:
    """Return the profile of a CSV, and what was said."""
    return read("csv", written(tmp_path, text), **how)


@pytest.mark.parametrize("tool", TOOLS)
def test_every_tool_has_fixtures(tool: str) -> None:
    """A tool without a fixture would be tested by nothing below."""
    assert list((FILES / tool).iterdir())


@pytest.mark.parametrize(("tool", "path"), EVERY)
def test_a_file_is_known_by_its_beginning_and_by_no_other_tool(tool: str, path: Path) -> None:
    """Nobody has to say which tool a file is of."""
    head = imported.opened(path).head
    known = [name for name in TOOLS if registry.load("profiles", name).SIGN.search(head)]

    assert known == [tool]


@pytest.mark.parametrize(("tool", "path"), EVERY)
def test_a_profile_of_a_file_can_be_saved_read_and_shown(
    tool: str, path: Path, tmp_path: Path
) -> None:
    """Whatever comes from a file is a profile like replayer's own."""
    made, _ = read(tool, path)
    profile.save(tmp_path / "x.profile", made)
    loaded = profile.load(tmp_path / "x.profile")
    one = report.summary(loaded)

    assert loaded.ends.size == made.ends.size
    assert csv_writer.page(report.document(one))
    assert markdown_writer.page(report.document(one))
    assert "<h2" in page_writer.page(report.document(one))


def test_iostats_numbers_are_those_of_its_report() -> None:
    """r/s as it stands, kB of 1,024 bytes as MB of a million, percent as processors."""
    made, unread = read("iostat", FILES / "iostat" / "extended.txt")
    text = (FILES / "iostat" / "extended.txt").read_text(encoding="utf-8")
    last = [line for line in text.splitlines() if line.startswith("vda")][-1].split()
    cpu = re.findall(r"avg-cpu:.*\n +(\S+) +(\S+) +(\S+)", text)[-1]

    assert not unread
    assert made.source.cores == 2
    assert made.source.device == "vda"
    assert made.ends.size == 3  # the first of four reports is since the boot
    assert made.columns["read_iops"][-1] == float(last[1])
    assert made.columns["read_mbps"][-1] == pytest.approx(float(last[2]) * 1024 / 1e6)
    assert made.columns["write_iops"][-1] == float(last[7])
    assert made.columns["read_await_ms"][-1] == float(last[5])
    assert made.columns["cpu_cores"][-1] == pytest.approx(sum(map(float, cpu)) / 50)


def test_iostats_text_and_json_of_the_same_reports_are_the_same_profile(tmp_path: Path) -> None:
    """Made of one another, they differ in no value."""
    made, _ = read("iostat", FILES / "iostat" / "json.json")
    cut = (FILES / "iostat" / "json.json").read_text(encoding="utf-8")
    shorter, unread = read("iostat", written(tmp_path, cut[: int(len(cut) * 0.8)]))

    assert set(made.columns) == set(read("iostat", FILES / "iostat" / "extended.txt")[0].columns)
    # Cut off in the middle, as by a kill: what stands before is taken.
    assert shorter.ends.size == made.ends.size - 1
    assert len(unread) == 1
    assert "cut off" in unread[0]


IOSTAT = """Linux 6.1.0 (db1) \t{date} \t_x86_64_\t(8 CPU)

{stamps}"""
REPORT = """{stamp}
Device            r/s     rkB/s     w/s     wkB/s
{devices}

"""


def iostat(
    stamps: Sequence[str], date: str = "11/21/2026", devices: str = "sda  {i}.00 8.00 1.00 1.00"
) -> str:
    """Return what iostat prints at these stamps; the first report is since the boot."""
    return listed(stamps, [devices.format(i=i) for i in range(len(stamps))], date)


def listed(stamps: Sequence[str], devices: Sequence[str], date: str = "11/21/2026") -> str:
    """Return what iostat prints at these stamps, with the lines of devices of each report."""
    each = zip(stamps, devices, strict=True)
    text = "".join(REPORT.format(stamp=stamp, devices=lines) for stamp, lines in each)
    return IOSTAT.format(date=date, stamps=text)


@pytest.mark.parametrize(
    ("date", "stamps"),
    [
        (
            "11/30/2026",
            ["11/30/2026 11:59:58 PM", "11/30/2026 11:59:59 PM", "12/01/2026 12:00:00 AM"],
        ),
        ("30/11/26", ["30/11/26 23:59:58", "30/11/26 23:59:59", "01/12/26 00:00:00"]),
        ("30.11.2026", ["30.11.2026 23:59:58", "30.11.2026 23:59:59", "01.12.2026 00:00:00"]),
        (
            "2026-11-30",
            ["2026-11-30T23:59:58+0000", "2026-11-30T23:59:59+0000", "2026-12-01T00:00:00+0000"],
        ),
        ("11/30/2026", ["Time: 11:59:58 PM", "Time: 11:59:59 PM", "Time: 12:00:00 AM"]),
    ],
)  # fmt: skip
def test_midnight_is_passed_in_every_locale(date: str, stamps: list[str], tmp_path: Path) -> None:
    """The night from November to December is a second long, however its dates are written."""
    made, _ = read("iostat", written(tmp_path, iostat(stamps, date)))

    assert usage.clock(made.ends[-1]) == "2026-12-01 00:00:00"
    assert np.diff(made.ends).tolist() == [1.0]


@pytest.mark.parametrize(
    "stamp",
    [
        "11/21/2026 10:00:0{} AM",
        "11/21/2026 10:00:0{} am",
        "11/21/2026 10:00:0{} a.m.",
        "21/11/26 10:00:0{} AM IST",
        "21/11/26 10:00:0{} CET",
        "21/11/26 10:00:0{} +0100",
        "2026-11-21T10:00:0{}+0100",
        "Time: 10:00:0{} AM",
        "Zeit: 10:00:0{}",
        "Heure : 10:00:0{}",
    ],
)
def test_a_time_of_every_known_form_is_read(stamp: str, tmp_path: Path) -> None:
    """With AM or PM, with a zone, with a word before it."""
    text = iostat([stamp.format(i) for i in range(3)])
    made, unread = read("iostat", written(tmp_path, text))

    assert not unread
    assert usage.clock(made.ends[-1])[:10] == "2026-11-21"
    assert np.diff(made.ends).tolist() == [1.0]


@pytest.mark.parametrize(
    "stamp",
    [
        "Sat 21 Nov 2026 10:00:0{}",
        "Sat 21 Nov 2026 10:00:0{} CET",
        "21 Nov 2026 10:00:0{} AM IST",
        "Saturday 21 Nov 2026 10:00:0{} AM IST",
        "Saturday, 21 November 2026 Time: 10:00:0{} AM",
    ],
)
def test_a_time_with_names_of_the_day_and_the_month_is_read(stamp: str, tmp_path: Path) -> None:
    """A profile and an import agree on it, also where an older report was of devices."""
    text = iostat([stamp.format(i) for i in range(3)], devices="sda {i}.00 8.00 1.00 1.00 0 0 0 0")
    path = written(tmp_path, text.replace("wkB/s\n", "wkB/s await aqu-sz svctm %util\n"))
    made, unread = read("iostat", path)
    opened = imported.opened(path)
    (run,) = registry.load("imports", "iostat").read(opened, "").runs

    assert not unread
    assert not opened.unread.all()
    assert usage.clock(made.ends[-1])[:10] == "2026-11-21"
    assert np.diff(made.ends).tolist() == [1.0]
    assert run.steps[0].elapsed == 2


UNKNOWN_TIMES = {
    # language of the country -> the stamps of iostat -t there
    "el_GR": ["27/11/2026 11:59:59 πμ", "27/11/2026 12:00:00 μμ", "27/11/2026 01:00:00 μμ"],
    "hi_IN": ["27/11/26 11:59:59 पूर्वाह्न IST", "27/11/26 12:00:00 अपराह्न IST"],
    "ta_IN": ["27/11/26 காலை 11:59:59 IST", "27/11/26 மாலை 12:00:00 IST"],
    "ar_AE": ["27 نوفمبر, 2026 +04 11:59:59 ص", "27 نوفمبر, 2026 +04 12:00:00 م"],
    "sq_AL": ["27.11.26 11:59:59.PD CET", "27.11.26 12:00:00.MD CET"],
    "fil_PH": ["11/27/26 11:59:59 N.U.", "11/27/26 12:00:00 N.H."],
    "ja_JP": ["2026年11月27日 09時00分00秒", "2026年11月27日 09時00分01秒"],
    "zh_CN": ["2026年11月27日 09时00分00秒", "2026年11月27日 09时00分01秒"],
    "ko_KR": ["2026년 11월 27일 09시 00분 00초", "2026년 11월 27일 09시 00분 01초"],
    "fi_FI": ["27.11.2026 13.30.32", "27.11.2026 13.30.33"],
    "nb_NO": ["27. nov. 2026 kl. 13.30 +0100", "27. nov. 2026 kl. 13.30 +0100"],
    "fa_IR": [f"05/09/06 {hour}:30:3{n}" for n, hour in enumerate(["\u06f1\u06f3"] * 2)],
}


@pytest.mark.parametrize("devices", [[], ["sda"]])
@pytest.mark.parametrize("country", UNKNOWN_TIMES)
def test_a_time_of_an_unknown_form_is_refused_as_that(
    country: str, devices: Sequence[str], tmp_path: Path
) -> None:
    """Neither the afternoon is taken for the morning, nor is the file called one without times."""
    stamps = UNKNOWN_TIMES[country]
    path = written(tmp_path, iostat(stamps))
    with pytest.raises(
        Impossible, match=r"has times in a form that is not known, such as .*LC_ALL"
    ):
        read("iostat", path, devices)
    (run,) = registry.load("imports", "iostat").read(imported.opened(path), "").runs

    assert run.steps[0].series is None
    assert run.steps[0].elapsed == 0
    assert any("`LC_ALL=C iostat -t`" in note for note in run.steps[0].notes)
    assert {one.metric.partition(".sda.")[0] for one in run.steps[0].measurements} == {"iostat"}


def test_a_clock_that_is_set_back_is_a_gap_and_no_negative_time(tmp_path: Path) -> None:
    """Rows go on after it, and the reason is named."""
    stamps = [f"11/21/2026 10:00:{s:02}" for s in (10, 11, 12, 13, 5, 6, 7)]
    made, _ = read("iostat", written(tmp_path, iostat(stamps)))

    assert np.diff(made.ends).tolist() == [1.0] * 5
    assert len(made.gaps) == 1
    assert "set back by 8 s" in made.gaps[0].reason


def test_the_hour_in_autumn_that_comes_twice_is_two_hours(tmp_path: Path) -> None:
    """Local times that go back by an hour are counted on, and it is said."""
    times = [f"2026-10-25 02:{m:02}:00" for m in range(60)] * 2
    rows = "\n".join(f"{time},{i}" for i, time in enumerate(times))
    made, _ = csv(tmp_path, f"time,read_iops\n{rows}\n")

    assert made.ends.size == 120
    assert np.diff(made.ends).tolist() == [60.0] * 119
    assert made.columns["read_iops"].tolist() == list(range(120))
    assert any("end of summer time" in note for note in made.notes)


def test_the_hour_in_spring_that_is_not_there_is_a_gap(tmp_path: Path) -> None:
    """Nothing is known of it, which is not the same as nothing done."""
    times = [f"2026-03-29 01:{m:02}:00" for m in range(60)]
    times += [f"2026-03-29 03:{m:02}:00" for m in range(60)]
    rows = "\n".join(f"{time},5" for time in times)
    made, _ = csv(tmp_path, f"time,read_iops\n{rows}\n")

    assert made.seconds == 120 * 60
    assert [round(gap.end - gap.begin) for gap in made.gaps] == [3600]


def _of_instances(late: float, hours: int = 24 * 7, *, sort: bool, stated: bool) -> str:
    """Return the CSV of two instances, of which the second is `late` seconds behind the first."""
    rows = [
        (3600 * (hour + 1) + late * number, number) for hour in range(hours) for number in range(2)
    ]
    rows.sort(key=(lambda row: row[0]) if sort else (lambda row: row[1]))
    lines = [
        (f"{end - 3600:.0f}," if stated else "") + f"{end:.0f},{(1000, 3000)[number]}"
        for end, number in rows
    ]
    head = "begin,time,read_iops" if stated else "time,read_iops"
    return "\n".join([head, *lines, ""])


@pytest.mark.parametrize("sort", [True, False])
@pytest.mark.parametrize("hours", [6, 24 * 7])
@pytest.mark.parametrize(
    ("late", "stated"), [(2.0, True), (1800.0, True), (3500.0, True), (0.0, True), (0.0, False)]
)
def test_rows_of_several_instances_are_refused(
    late: float, hours: int, *, stated: bool, sort: bool, tmp_path: Path
) -> None:
    """Of two that overlap, the load is the sum: neither is cut to seconds, and none is dropped."""
    with pytest.raises(Impossible, match="of several instances") as refused:
        csv(tmp_path, _of_instances(late, hours, sort=sort, stated=stated))
    assert "export one of them" in refused.value.todo


@pytest.mark.parametrize("stated", [True, False])
@pytest.mark.parametrize("jitter", [0.0, 1.0, 5.0])
def test_rows_that_are_there_twice_or_overlap_by_jitter_are_read(
    jitter: float, *, stated: bool, tmp_path: Path
) -> None:
    """The same rows again add nothing, and stamps are rounded."""
    late = [jitter * (hour % 2) for hour in range(48)]
    rows = [
        (f"{3600 * (hour + 1) - jitter:.0f}," if stated else "")
        + f"{3600 * (hour + 2) + late[hour] * stated:.0f},{hour}"
        for hour in range(48)
    ]
    head = "begin,time,read_iops" if stated else "time,read_iops"
    made, _ = csv(tmp_path, "\n".join([head, *rows, *rows, ""]))

    assert made.columns["read_iops"].tolist() == list(range(48))
    assert any("48 rows have the time of another one" in note for note in made.notes)


@pytest.mark.parametrize("stated", [True, False])
@pytest.mark.parametrize("turned", [True, False])
def test_an_hour_that_comes_twice_is_not_of_several_instances(
    *, stated: bool, turned: bool, tmp_path: Path
) -> None:
    """Where it cannot be counted on: a clock was set back by an hour, or the newest is first."""
    minutes = [*range(300), *range(240, 600)]
    rows = [
        (f"{60 * minute}," if stated else "") + f"{60 * (minute + 1)},{i}"
        for i, minute in enumerate(minutes)
    ]
    head = "begin,time,read_iops" if stated else "time,read_iops"
    made, _ = csv(tmp_path, "\n".join([head, *(rows[::-1] if turned else rows), ""]))

    assert made.seconds == 600 * 60
    assert any("60 rows have the time of another one" in note for note in made.notes)


def test_iostat_without_times_is_refused_with_what_to_do(tmp_path: Path) -> None:
    """A profile without a clock is none."""
    text = iostat(["", "", ""])
    with pytest.raises(Impossible, match="has no times: record it with `iostat -x -t -y 1`"):
        read("iostat", written(tmp_path, text))


def test_partitions_volumes_and_loops_are_counted_once(tmp_path: Path) -> None:
    """sda1's requests are sda's, and dm-0's were counted at sda; one device alone can be taken."""
    devices = "\n".join(
        f"{name}  10.00 8.00 1.00 1.00"
        for name in ("sda", "sda1", "nvme0n1", "nvme0n1p1", "dm-0", "md127", "loop3", "vg-root")
    )
    path = written(
        tmp_path, iostat(["11/21/2026 10:00:10", "11/21/2026 10:00:11"], devices=devices)
    )

    assert read("iostat", path)[0].columns["read_iops"].tolist() == [20.0]
    assert read("iostat", path)[0].source.device == "sda+nvme0n1"
    assert read("iostat", path, ["dm-0"])[0].columns["read_iops"].tolist() == [10.0]
    with pytest.raises(NotFound, match="no device 'sdb' - did you mean"):
        read("iostat", path, ["sdb"])


def test_a_multipath_device_is_counted_at_its_paths(tmp_path: Path) -> None:
    """`iostat -N` writes a name that an administrator chose, which the kernel gives to no disk."""
    devices = "\n".join(f"{name}  10.00 8.00 1.00 1.00" for name in ("sda", "sdb", "mpatha", "ora"))
    stamps = ["11/21/2026 10:00:10", "11/21/2026 10:00:11"]
    made, _ = read("iostat", written(tmp_path, iostat(stamps, devices=devices)))

    assert made.columns["read_iops"].tolist() == [20.0]
    assert "taken of the devices sda, sdb, mpatha, ora: sda, sdb" in made.notes


def moving(tmp_path: Path, *rows: Mapping[str, tuple[float, float]]) -> Path:
    """Return a file of iostat whose devices read and wrote so many kB per second in each row."""
    stamps = [f"11/21/2026 10:00:{second:02}" for second in range(len(rows) + 1)]
    lists = [
        "\n".join(f"{n} {kb[0] / 8:.2f} {kb[0]:.2f} {kb[1] / 8:.2f} {kb[1]:.2f}"
                  for n, kb in row.items())
        for row in (rows[0], *rows)
    ]  # fmt: skip
    return written(tmp_path, listed(stamps, lists))


ARRAYS = {
    # what a machine has -> kB read and written per second by each device in each row, and the
    # devices that count each write once
    "RAID1 below LVM": (
        [
            {"nvme0n1": (900, 800), "nvme1n1": (700, 804), "md0": (1600, 800), "dm-0": (1600, 800)},
            {"nvme0n1": (100, 90), "nvme1n1": (110, 90), "md0": (210, 90), "dm-0": (210, 90)},
        ],
        "md0",
    ),
    "RAID1, written only": (
        [
            {"sda": (0, 800), "sdb": (0, 800), "sdc": (0, 70), "md0": (0, 800)},
            {"sda": (0, 100), "sdb": (0, 100), "sdc": (0, 900), "md0": (0, 100)},
        ],
        "sdc+md0",
    ),
    "RAID10 next to a disk of its own": (
        [
            {"sda": (40, 30), "sdb": (10, 500), "sdc": (20, 500), "sdd": (30, 300),
             "sde": (45, 300), "md127": (105, 800), "md126": (0, 0)},
            {"sda": (40, 730), "sdb": (10, 100), "sdc": (20, 100), "sdd": (30, 600),
             "sde": (45, 600), "md127": (105, 700), "md126": (0, 0)},
        ],
        "sda+md127",
    ),
    "two RAID1 on partitions of the same disks": (
        [
            {"sda": (50, 150), "sdb": (60, 150), "md0": (10, 50), "md1": (100, 100)},
            {"sda": (70, 750), "sdb": (10, 750), "md0": (20, 700), "md1": (60, 50)},
        ],
        "md0+md1",
    ),
    "RAID0 over two RAID1": (
        [
            {"sda": (10, 50), "sdb": (20, 50), "sdc": (30, 40), "sdd": (9, 40),
             "md0": (30, 50), "md1": (39, 40), "md2": (69, 90)},
            {"sda": (10, 80), "sdb": (20, 80), "sdc": (30, 60), "sdd": (9, 60),
             "md0": (30, 80), "md1": (39, 60), "md2": (69, 140)},
        ],
        "md2",
    ),
}  # fmt: skip


@pytest.mark.parametrize("machine", ARRAYS)
def test_a_write_to_a_mirror_is_counted_once(machine: str, tmp_path: Path) -> None:
    """Which disks an array is on is in no file; the bytes of each interval show it."""
    rows, devices = ARRAYS[machine]
    path = moving(tmp_path, *rows)
    made, unread = read("iostat", path)
    once, _ = read("iostat", path, devices.split("+"))

    assert not unread
    assert made.source.device == devices
    assert {name: values.tolist() for name, values in made.columns.items()} == {
        name: values.tolist() for name, values in once.columns.items()
    }
    assert any("times those of md" in note for note in made.notes)


def test_times_that_a_kernel_does_not_count_of_md_are_not_known(tmp_path: Path) -> None:
    """Kernels before 5.9 show 0 ms for each request of md, and an empty queue."""
    heads = "Device r/s rkB/s w/s wkB/s r_await w_await aqu-sz"
    lists = [
        f"sda {100 + i} 800 200 1600 5 7 1.9\nsdb {150 + i} 1200 200 1600 6 8 2.5\n"
        f"md0 {250 + 2 * i} 2000 200 1600 0 0 0"
        for i in range(4)
    ]
    text = listed([f"11/21/2026 10:00:0{i}" for i in range(4)], lists)
    path = written(tmp_path, re.sub("^Device.*", heads, text, flags=re.MULTILINE))
    untimed = {"read_await_ms", "write_await_ms", "queue_depth"}

    for wanted in ((), ("md0",)):
        made, _ = read("iostat", path, wanted)
        assert made.source.device == "md0"
        assert not untimed & made.columns.keys()
        assert any("does not time the requests of md" in note for note in made.notes)
    assert untimed <= read("iostat", path, ("sda",))[0].columns.keys()


def test_a_volume_that_moves_more_than_its_disks_is_no_disk(tmp_path: Path) -> None:
    """ZFS reads from its cache what its disks do not read."""
    row = {"sda": (80.0, 10.0), "sdb": (80.0, 10.0), "zd0": (4000.0, 20.0)}
    made, _ = read("iostat", moving(tmp_path, row))

    assert made.source.device == "sda+sdb"


def test_disks_of_a_raid0_are_counted_without_a_doubt(tmp_path: Path) -> None:
    """They write each byte once; a disk next to them is no copy."""
    row = {"sda": (10.0, 300.0), "sdb": (20.0, 250.0), "sdc": (0.0, 900.0), "md0": (30.0, 550.0)}
    made, _ = read("iostat", moving(tmp_path, row))

    assert made.source.device == "sda+sdb+sdc"
    assert not any("--device" in note for note in made.notes)


def test_disks_of_an_array_that_cannot_be_told_are_a_note(tmp_path: Path) -> None:
    """A RAID5 reads what it needs for the parity; both sums and the option are named."""
    row = {"sda": (900.0, 700.0), "sdb": (800.0, 600.0), "sdc": (850.0, 650.0), "md0": (200.0, 1e3)}
    made, _ = read("iostat", moving(tmp_path, row))
    (note,) = [note for note in made.notes if "--device md0" in note]

    assert made.source.device == "sda+sdb+sdc"
    assert f"{made.columns['write_mbps'][0]:.3g} MB/s; 1.02 with --device md0" in note


def test_sars_devices_have_a_mirror_by_numbers(tmp_path: Path) -> None:
    """Major 9 is software RAID."""
    reads = {"dev8-0": 300.0, "dev8-16": 500.0, "dev9-0": 800.0}
    made = sadf(tmp_path, [reads] * 2, write_kb=dict.fromkeys(reads, 800.0))

    assert made.source.device == "dev9-0"
    assert made.columns["write_mbps"].tolist() == pytest.approx([0.8192] * 2)


@pytest.mark.parametrize(
    "name", ["scinia", "VxVM3000", "VxDMP1", "oracleasm/DATA1", "dm-3", "vg-data", "md0"]
)
def test_a_device_with_more_bytes_than_the_disks_is_not_on_top_of_them(
    name: str, tmp_path: Path
) -> None:
    """Its disk has a name that the kernel gives to none, or is not listed at all."""
    path = moving(tmp_path, {name: (400.0, 400.0), "sda": (8.0, 8.0)})
    question = rf"which of {name}, sda are disks, .*: name the disks with --device$"
    with pytest.raises(Impossible, match=question):
        read("iostat", path)
    made, _ = read("iostat", path, [name])
    below, _ = read("iostat", moving(tmp_path, {name: (40.0, 40.0), "sda": (41.0, 41.0)}))

    assert made.columns["read_iops"].tolist() == [50]
    assert below.source.device == "sda"


def test_a_disk_of_the_network_is_a_disk(tmp_path: Path) -> None:
    """What is below an nbd is on another machine; a loop or zram may be served by memory."""
    idle = {"loop0": (9e3, 0.0), "zram0": (9e3, 9e3)}
    row = {**idle, "sda": (8.0, 8.0), "nbd0": (80.0, 8.0), "nbd0p1": (80.0, 8.0)}
    made, _ = read("iostat", moving(tmp_path, row))

    assert made.source.device == "sda+nbd0"
    assert made.columns["read_iops"].tolist() == [11]
    assert sadf(tmp_path, [{"dev43-0": 90.0, "dev8-0": 1.0}]).source.device == "dev43-0+dev8-0"


@pytest.mark.parametrize("devices", [[], ["sda"]])
def test_idle_time_is_in_a_profile_though_iostat_omits_idle_disks(
    devices: Sequence[str], tmp_path: Path
) -> None:
    """With -z and without it, the same minute is the same profile; a wait of no request is none."""
    stamps = [f"11/21/2026 10:00:{second:02}" for second in range(60)]
    whole = [f"sda {1000 * (second == 1)} 0 0 0\nsdb 0 0 0 0" for second in range(60)]
    short = [re.sub(r"^sd. 0 0 0 0\n?", "", one, flags=re.MULTILINE) for one in whole]
    made, omitted = (
        read("iostat", written(tmp_path, listed(stamps, one)), devices)[0] for one in (whole, short)
    )

    assert omitted.ends.tolist() == made.ends.tolist()
    assert np.median(omitted.columns["read_iops"]) == 0
    for name, values in made.columns.items():
        assert omitted.columns[name].tolist() == values.tolist()
    assert [any("58 intervals list none" in n for n in one.notes) for one in (made, omitted)] == [
        False, True
    ]  # fmt: skip


def test_a_disk_that_was_connected_late_has_no_load_before(tmp_path: Path) -> None:
    """Before, it is not known: no report lists it, and all later ones do."""
    stamps = [f"11/21/2026 10:00:{second:02}" for second in range(5)]
    lists = [*["sda 1 0 0 0"] * 3, *["sda 1 0 0 0\nsdb 7 0 0 0"] * 2]
    made, _ = read("iostat", written(tmp_path, listed(stamps, lists)), ["sdb"])

    assert made.columns["read_iops"].tolist() == pytest.approx([np.nan] * 2 + [7] * 2, nan_ok=True)


def sadf(
    tmp_path: Path,
    disks: Sequence[Mapping[str, float] | None],
    devices: Sequence[str] = (),
    network: Mapping[str, float] | None = None,
    write_kb: Mapping[str, float] | None = None,
) -> ResourceProfile:
    """Return the profile of sar's intervals of a second, whose disks read so many kB in it.

    `write_kb` are the kB a second that disks write, 0 for others.

    `network` are the kB a second of each interface in both directions.  None among `disks` is an
    interval in which sar did not record disks.
    """
    intervals: list[dict[str, Any]] = []
    wkb = dict(write_kb or {})
    for second, rates in enumerate(disks):
        stamp = {"date": "2026-11-21", "time": f"10:00:{second:02}", "utc": 1, "interval": 1}
        intervals.append({"timestamp": stamp})
        if rates is not None:
            intervals[-1]["disk"] = [
                {"disk-device": name, "rkB": kb, "wkB": wkb.get(name, 0.0), "aqu-sz": 1.0}
                for name, kb in rates.items()
            ]
        if network is not None:
            ports = [{"iface": name, "rxkB": kb, "txkB": kb} for name, kb in network.items()]
            intervals[-1]["network"] = {"net-dev": ports}
    host = {"nodename": "db1", "number-of-cpus": 2, "file-date": "2026-11-21"}
    text = json.dumps({"sysstat": {"hosts": [{**host, "statistics": intervals}]}})
    return read("sadf", written(tmp_path, text), devices)[0]


@pytest.mark.parametrize(
    ("names", "taken"),
    [
        (["dev8-0", "dev8-16", "dev9-0", "dev7-1", "dev11-0"], "dev8-0+dev8-16"),
        (["dev8-0", "dev8-1", "dev8-16"], "dev8-0+dev8-16"),
        (["dev202-1"], "dev202-1"),
        (["dev252-0", "dev252-16", "dev9-127"], "dev252-0+dev252-16"),
    ],
)
def test_disks_that_sar_names_by_numbers_are_counted_once(
    names: Sequence[str], taken: str, tmp_path: Path
) -> None:
    """A RAID (major 9), a loop device (7) and a partition are not added to the disks."""
    made = sadf(tmp_path, [dict.fromkeys(names, 1000.0)] * 2)

    assert made.source.device == taken
    assert made.columns["read_mbps"][0] == pytest.approx(1.024 * len(taken.split("+")))
    assert len(names) == len(taken.split("+")) or any(names[-1] in note for note in made.notes)


@pytest.mark.parametrize("names", [["dev8-0", "dev253-0"], ["dev252-0", "dev253-0"]])
def test_numbers_that_may_be_volumes_are_refused(names: Sequence[str], tmp_path: Path) -> None:
    """253 is the major of virtio's disks on one machine, and of volumes on another."""
    with pytest.raises(Impossible, match=r"dev253-0 are disks, .*: name the disks with --device"):
        sadf(tmp_path, [dict.fromkeys(names, 1000.0)] * 2)
    made = sadf(tmp_path, [dict.fromkeys(names, 1000.0)] * 2, names[:1])

    assert made.columns["read_mbps"].tolist() == pytest.approx([1.024, 1.024])


def test_a_disk_that_is_missing_in_intervals_of_sar_can_be_chosen(tmp_path: Path) -> None:
    """Connected late, it has no load before; omitted as idle (-z), it has 0."""
    late = sadf(tmp_path, [*[{"sda": 1.0}] * 3, *[{"sda": 1.0, "sdb": 1e4}] * 4], ["sdb"])
    idle = sadf(tmp_path, [{}, {"sdb": 1e4}, {"sda": 1.0}, {}, None, {}], ["sdb"])

    assert late.columns["read_mbps"].tolist() == pytest.approx(
        [np.nan] * 3 + [10.24] * 4, nan_ok=True
    )
    assert idle.columns["read_mbps"].tolist() == pytest.approx(
        [0, 10.24, 0, 0, np.nan, 0], nan_ok=True
    )
    with pytest.raises(NotFound, match="no device 'sdc' - did you mean"):
        sadf(tmp_path, [{"sda": 1.0}] * 2, ["sdc"])


@pytest.mark.parametrize(
    ("names", "taken"),
    [
        (["lo", "eth0", "eth1", "bond0", "bond0.100", "br0", "tun0", "wg0"], "eth0, eth1"),
        (["lo", "ens3f0np0", "eno1", "team0", "vnet0", "virbr0", "eno1.7"], "ens3f0np0, eno1"),
        (["bond0", "bond0.100", "br0"], "bond0"),
        (["lan", "tap0"], "lan"),
    ],
)
def test_a_byte_of_the_network_is_counted_once(
    names: Sequence[str], taken: str, tmp_path: Path
) -> None:
    """What a bond, a VLAN, a bridge or a tunnel carries is counted at the ports below it, too."""
    made = sadf(tmp_path, [None] * 2, network=dict.fromkeys(names, 1000.0))
    others = ", ".join(name for name in names if name != "lo")

    assert made.columns["net_in_mbps"][0] == pytest.approx(1.024 * len(taken.split(", ")))
    assert f"taken of the interfaces {others}: {taken}" in made.notes


def test_sars_activities_are_one_profile() -> None:
    """CPU, memory, devices and network of one recording, and a start of the machine as a gap."""
    made, unread = read("sadf", FILES / "sadf" / "several.json")

    assert not unread
    assert {"cpu_cores", "memory_bytes", "read_iops", "write_mbps", "net_in_mbps"} <= set(
        made.columns
    )
    assert made.columns["cpu_cores"][0] == pytest.approx((59.69 + 14.80) / 50)
    assert made.columns["write_iops"][0] == 7902
    assert made.columns["write_mbps"][0] == pytest.approx(503140 * 1024 / 1e6)
    # MemTotal was 24,684,092 kB, which sar does not write; avail was 23,761,592.
    assert made.source.memory_bytes == pytest.approx(24684092 * 1024, rel=0.005)
    assert made.columns["memory_bytes"][0] == pytest.approx((24636396 - 23761592) * 1024, rel=1e-4)
    assert [gap.reason for gap in made.gaps] == ["the machine was started"]


@pytest.mark.parametrize(("key", "known"), [("cpu-load-all", True), ("cpu", False)])
def test_the_cpu_of_older_sysstat_is_read_or_its_lack_is_noted(
    key: str, *, known: bool, tmp_path: Path
) -> None:
    """With -A and -u ALL it is under another key, with interrupts apart."""
    text = (FILES / "sadf" / "several.json").read_text(encoding="utf-8")
    names = text.replace('"cpu-load"', f'"{key}"').replace('"user"', '"usr"')
    older = re.sub(r'"system": 14.80', '"sys": 4.00, "irq": 6.00, "soft": 4.80', names)
    made, _ = read("sadf", written(tmp_path, older))

    assert ("cpu_cores" in made.columns) is known
    assert any("the CPU is not known" in note for note in made.notes) is not known
    if known:
        assert made.columns["cpu_cores"][0] == pytest.approx((59.69 + 14.80) / 50)
        assert made.columns["cpu_system"][0] == pytest.approx(14.80 / 50)


@pytest.mark.parametrize(
    ("zone", "zoned"),
    [('"utc": 1', True), ('"tz": "UTC"', True), ('"utc": 0', False), ('"tz": "CET"', False)],
)
def test_times_of_sadf_in_utc_have_a_zone(zone: str, *, zoned: bool, tmp_path: Path) -> None:
    """Every sysstat writes UTC, unless it is given -t or -T; the newest writes the zone's name."""
    text = (FILES / "sadf" / "several.json").read_text(encoding="utf-8").replace('"utc": 1', zone)
    made, _ = read("sadf", written(tmp_path, text))

    assert any("in which zone" in note for note in made.notes) is not zoned
    assert [gap.reason for gap in made.gaps] == ["the machine was started"]


def test_the_files_of_several_days_behind_each_other_are_one_profile(tmp_path: Path) -> None:
    """`cat` of what sadf wrote of each day is read as a whole, with the night as a gap."""
    text = (FILES / "sadf" / "several.json").read_text(encoding="utf-8")
    later = text.replace("2026-11-21", "2026-11-22")
    made, unread = read("sadf", written(tmp_path, text + later))

    assert not unread
    assert made.ends.size == 22
    assert [gap.reason for gap in made.gaps].count("the machine was started") == 2
    assert sum("no rows for" in gap.reason for gap in made.gaps) == 1


def test_a_csv_of_a_database_keeps_the_busiest_minute_of_an_hour() -> None:
    """An hour at 58 MB/s with a minute at 413 has both: the minute, and the mean."""
    made, unread = read("csv", FILES / "csv" / "awr.csv")
    hour = made.columns["read_mbps"][:60]

    assert made.ends.size == 240
    assert hour.max() == 413.0
    assert hour.mean() == pytest.approx(58.0)
    assert made.columns["cpu_cores"][:60].max() == pytest.approx(16 * 0.48)
    assert any("end of summer time" in note for note in made.notes)
    assert "snap_id" in unread[0]


def test_a_clouds_csv_is_sorted_without_doubles_and_with_its_gaps() -> None:
    """Rows come in any order; empty cells and missing rows are not known."""
    made, _ = read("csv", FILES / "csv" / "cloudwatch.csv")

    assert np.all(np.diff(made.ends) > 0)
    assert made.columns["read_iops"][:2].tolist() == [1101.9, 1204.2]
    assert np.isnan(made.columns["read_iops"][3])
    assert made.columns["cpu_cores"][0] == pytest.approx(8 * 0.382)
    assert made.columns["memory_bytes"][0] == 34359738368 - 9126805504
    assert len(made.gaps) == 1
    assert sum("sorted" in note or "another one" in note for note in made.notes) == 2


def test_cells_that_are_no_number_are_counted(tmp_path: Path) -> None:
    """A row without a time is named; a cell without a number is not known."""
    made, unread = read("csv", FILES / "csv" / "epoch.csv")

    assert made.columns["commits"][:2].tolist() == [10, 11]
    assert np.isnan(made.columns["commits"][2])
    assert "line 5 cannot be read" in unread[0]
    assert "2 cells are no number" in unread[1]


@pytest.mark.parametrize("delimiter", ["\t", ";"])
@pytest.mark.parametrize(
    "numbers", [["1,234", "12,345", "999"], ["1,234,567", "1"], ["1,500", "1.5"]]
)
def test_commas_that_may_be_of_thousands_are_refused(
    numbers: Sequence[str], delimiter: str, tmp_path: Path
) -> None:
    """1,234 is read neither as 1234 nor as 1.234, unless another number shows which it is."""
    rows = [f"{60 * i}{delimiter}{number}\n" for i, number in enumerate(numbers)]
    text = f"time{delimiter}read_iops\n" + "".join(rows)

    with pytest.raises(Impossible, match=f"numbers such as {numbers[0]}, .* thousands or decimals"):
        csv(tmp_path, text)


@pytest.mark.parametrize(
    ("shown", "value"), [("0,123", 0.123), ("1234,567", 1234.567), ("2,5", 2.5)]
)
def test_a_decimal_comma_shows_what_the_others_are(
    shown: str, value: float, tmp_path: Path
) -> None:
    """A file is of one locale: what is a decimal comma in one column is one in all."""
    made, unread = csv(tmp_path, f"time;commits;read_iops\n0;1,234;{shown}\n60;7;1\n")

    assert not unread
    assert made.columns["commits"].tolist() == [1.234, 7]
    assert made.columns["read_iops"].tolist() == [value, 1]


def numbered(tmp_path: Path, delimiter: str, numbers: Sequence[str]) -> list[float]:
    """Return the reads a second of a CSV with these numbers, each between quotes."""
    rows = [f'{60 * i}{delimiter}"{number}"\n' for i, number in enumerate(numbers)]
    made, unread = csv(tmp_path, f"time{delimiter}read_iops\n" + "".join(rows))
    assert not unread
    return [float(value) for value in made.columns["read_iops"]]


@pytest.mark.parametrize(
    ("delimiter", "numbers"),
    [
        (";", ["900", "950", "1.234", "980", "990", "1.500", "970"]),
        ("\t", ["1.234", "12.345"]),
        (";", ["900", "1.234,5"]), (";", ["0,5", "1.234,5"]), (";", ["0,5", "1.234"]),
        (",", ["900", "1,234.5"]), (",", ["0.5", "1,234.5"]), (",", ["0.5", "1,234"]),
        (",", ["0,5", "1.234"]), (",", ["1.234.567"]), (",", ["12,34,567.8", "1"]),
        (";", ["0,5", "1 234"]), (";", ["0,5", "1\u202f234,5"]), (",", ["900", "1'234.5"]),
    ],
)  # fmt: skip
def test_a_separator_of_thousands_is_refused_and_not_lost(
    delimiter: str, numbers: Sequence[str], tmp_path: Path
) -> None:
    """It is in the busiest rows: read as decimals or left out, these would be the quietest."""
    with pytest.raises(Impossible, match=r"numbers such as .*thousands.*: write thousands without"):
        numbered(tmp_path, delimiter, numbers)


@pytest.mark.parametrize(
    ("delimiter", "numbers", "values"),
    [
        (",", ["1.234", "2.345"], [1.234, 2.345]),
        (";", ["1.234", "0.5"], [1.234, 0.5]),
        ("\t", ["1.234", "1234.567"], [1.234, 1234.567]),
        (",", ["1,234", "0,5"], [1.234, 0.5]),
        (";", ["0.5", "2,5"], [0.5, 2.5]),
    ],
)
def test_decimals_are_read_where_the_file_shows_what_they_are(
    delimiter: str, numbers: Sequence[str], values: Sequence[float], tmp_path: Path
) -> None:
    """By another number, or as commas are between the columns and in no number."""
    assert numbered(tmp_path, delimiter, numbers) == values


@pytest.mark.parametrize("minutes", [1, 5])
def test_a_busiest_minute_is_kept_though_its_mean_is_empty(minutes: int, tmp_path: Path) -> None:
    """In rows of one minute, too, in which a known mean is that minute."""
    rows = "".join(
        f"{60 * minutes * i},{mean},{most}\n"
        for i, (mean, most) in enumerate([("10", 90), ("", 80), ("10", 70)])
    )
    made, _ = csv(tmp_path, f"time,read_iops,read_iops_max\n{rows}")
    busiest = made.columns["read_iops"][::minutes]

    assert busiest.tolist() == ([10, 80, 10] if minutes == 1 else [90, 80, 70])


@pytest.mark.parametrize(
    ("cores", "known"),
    [(["2", "", ""], [2, 2, 2]), (["", "2", ""], [2, 2, 2]), (["2", "", "4"], [2, 2, 4]),
     (["4", "2", ""], [4, 2, 2]), (["2", "2", "2"], [2, 2, 2])],
)  # fmt: skip
@pytest.mark.parametrize("turned", [False, True])
def test_a_machine_keeps_its_cores_and_its_memory_in_rows_without_them(
    cores: Sequence[str], known: Sequence[int], *, turned: bool, tmp_path: Path
) -> None:
    """They are those of the row before, in the order of time, and a note names them."""
    rows = [f"{60 * i},40,{one},{one},1\n" for i, one in enumerate(cores)]
    header = "time,cpu_percent,cores,memory_total_bytes,memory_free_bytes\n"
    made, _ = csv(tmp_path, header + "".join(reversed(rows) if turned else rows))

    assert made.columns["cpu_cores"].tolist() == pytest.approx([0.4 * one for one in known])
    assert made.columns["memory_bytes"].tolist() == [one - 1 for one in known]
    assert sum("is empty in some rows" in note for note in made.notes) == 2 * ("" in cores)


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_a_measured_number_shows_that_thousands_are_not_separated(
    delimiter: str, tmp_path: Path
) -> None:
    """5203 is in no file that writes 1234 as 1.234, so that all points are decimal."""
    text = (
        "time;cpu_cores;memory_bytes;read_iops\n1700000000;1.234;17179869184;5203\n"
        "1700000060;2.100;17179869184;4120\n"
    )
    made, unread = csv(tmp_path, text.replace(";", delimiter))

    assert not unread
    assert made.columns["cpu_cores"].tolist() == [1.234, 2.1]
    assert made.columns["read_iops"].tolist() == [5203, 4120]


@pytest.mark.parametrize(
    "text",
    [
        "time;cpu_cores\n1700000000;1.234\n1700000060;2.100\n",
        "time;seconds;cpu_cores\n1700000000;3600;1.234\n1700003600;3600;2.100\n",
        "begin;seconds;cpu_cores\n2026-11-21T10:00;3600;1.234\n2026-11-21T11:00;3600;2.100\n",
        # Points separate thousands where commas are decimal.
        "time;cpu_cores;read_iops\n0;0,5;5203\n60;1.234;4120\n",
        "time;cpu_cores;read_iops\n0;1,234;5203\n60;1.234;4120\n",
        # Here the commas separate them.
        "time;cpu_cores;read_iops\n0;1,234;5203\n60;2,100;4120\n",
    ],
)
def test_a_time_and_a_comma_leave_open_what_points_are(text: str, tmp_path: Path) -> None:
    """The remedy has both ways: without separators, or one number that shows what they are."""
    with pytest.raises(Impossible, match=r"numbers such as 1[.,]234, .* such as 1[.,]2340$"):
        csv(tmp_path, text)


def test_more_free_memory_than_there_is_is_left_out(tmp_path: Path) -> None:
    """A row that contradicts itself says nothing, least of all that no memory was in use."""
    text = "time,commits,memory_total_bytes,memory_free_bytes\n0,1,8,2\n60,1,8,9\n120,1,8,3\n"
    made, unread = csv(tmp_path, text)

    assert made.columns["memory_bytes"].tolist() == pytest.approx([6, np.nan, 5], nan_ok=True)
    assert "1 rows have more free memory" in unread[0]


@pytest.mark.parametrize(
    "times",
    [
        ["1795219200", "1795219260"],
        ["1795219200000", "1795219260000"],
        ["1795219200000000", "1795219260000000"],
        ["1795219200000000000", "1795219260000000000"],
        ["20261121000000", "20261121000100"],
        ["20261121000000.0", "20261121000100.0"],
        ["202611210000", "202611210001"],
        ["2026-11-21T00:00:00Z", "2026-11-21T00:01:00Z"],
        ["2026-11-21 01:00:00+01:00", "2026-11-21 01:01:00+01:00"],
        ["2026-11-21 00:00", "2026-11-21 00:01"],
    ],
)
def test_times_may_be_written_as_people_do(times: list[str], tmp_path: Path) -> None:
    """ISO with and without a zone, digits of a date, seconds and parts of them since 1970."""
    made, _ = csv(tmp_path, f"time,commits\n{times[0]},1\n{times[1]},2\n")

    assert [usage.clock(end) for end in made.ends] == ["2026-11-21 00:00:00", "2026-11-21 00:01:00"]
    assert made.spans.tolist() == [60.0, 60.0]


@pytest.mark.parametrize(
    ("times", "words"),
    [
        (["46346.0", "46346.0416666667"], "such as 46346, as Excel counts days since 1900"),
        (["46346", "46347"], "such as 46346, as Excel counts days since 1900"),
        (["20261399000000", "20261399000100"], "such as 20261399000000, which is no time from"),
        (["2026112710", "2026112711"], "such as 2026112710, which is no time from 1990"),
        (["441763200", "441763260"], "such as 441763200, which is no time from 1990"),
        (["9999999999999", "9999999999999"], "such as 9999999999999, which is no time from"),
    ],
)
@pytest.mark.parametrize("header", ["time,seconds", "begin,seconds"])
def test_numbers_that_are_no_times_are_refused_in_a_sentence(
    header: str, times: list[str], words: str, tmp_path: Path
) -> None:
    """None of them is taken for a time in 1976 or in 2612."""
    rows = "\n".join(f"{time},3600,{i}" for i, time in enumerate(times))
    with pytest.raises(Impossible, match=f"{re.escape(words)}.*: write them as 2026-11-27"):
        csv(tmp_path, f"{header},commits\n{rows}\n")


def test_days_without_separators_are_dates(tmp_path: Path) -> None:
    """They have no zone, as others without one."""
    made, _ = csv(tmp_path, "time,seconds,commits\n20261120,86400,1\n20261121,86400,2\n")

    assert [usage.clock(end) for end in made.ends] == ["2026-11-20 00:00:00", "2026-11-21 00:00:00"]
    assert any("in which zone" in note for note in made.notes)


def test_seconds_from_an_unknown_begin_are_a_note(tmp_path: Path) -> None:
    """Even if there are as many of them as Excel has days, not all are days since 1990."""
    rows = "\n".join(f"{second},1" for second in range(0, 40000, 1000))
    made, _ = csv(tmp_path, f"time,commits\n{rows}\n")

    assert made.ends.size == 40
    assert any("such as 0, without a date" in note for note in made.notes)


def test_begins_are_turned_into_ends(tmp_path: Path) -> None:
    """What a cloud calls the time of a value is where its interval begins."""
    made, _ = csv(tmp_path, "begin,commits\n600,1\n660,2\n")

    assert made.ends.tolist() == [660.0, 720.0]


def test_gaps_between_begins_are_those_between_ends(tmp_path: Path) -> None:
    """Rows and gaps of the same hours are the same, whether a row has its begin or its end."""
    hours = [0, 1, 2, 3, 8, 9, 10, 11]
    by_begin, _ = csv(tmp_path, "begin,commits\n" + "".join(f"{3600 * h},1\n" for h in hours))
    by_end, _ = csv(tmp_path, "time,commits\n" + "".join(f"{3600 * (h + 1)},1\n" for h in hours))

    assert by_begin.ends.tolist() == by_end.ends.tolist()
    assert by_begin.gaps == by_end.gaps
    assert [(gap.begin, gap.end) for gap in by_begin.gaps] == [(4 * 3600, 8 * 3600)]


def test_a_row_lasts_until_the_next_one_begins(tmp_path: Path) -> None:
    """For hours of which one or two are split, with a gap or without: as with the lengths."""
    draw = random.Random(11)
    for _ in range(20):
        hours: list[list[int]] = [[3600] for _ in range(24)]
        # The row before a gap is taken to be a usual one, and so is the last.
        for hour in draw.sample([*range(12), *range(13, 23)], draw.choice([1, 2])):
            hours[hour] = draw.choice([[900, 2700], [1800, 1800], [600, 3000]])
        gap = 86_400 * draw.choice([0, 1])
        begins = [
            3600 * i + gap * (i > 12) + sum(hours[i][:n])
            for i in range(24)
            for n in range(len(hours[i]))
        ]
        lengths = [one for hour in hours for one in hour]
        rates = [draw.choice([100, 8000]) for _ in lengths]
        rows = list(zip(begins, lengths, rates, strict=True))
        with_lengths, _ = csv(
            tmp_path, "begin,seconds,commits\n" + "".join(f"{b},{s},{r}\n" for b, s, r in rows)
        )
        alone, _ = csv(tmp_path, "begin,commits\n" + "".join(f"{b},{r}\n" for b, _, r in rows))

        assert alone.ends.tolist() == with_lengths.ends.tolist()
        assert alone.spans.tolist() == with_lengths.spans.tolist()
        assert alone.mean("commits") == pytest.approx(with_lengths.mean("commits"))
        assert len(alone.gaps) == bool(gap)


def test_a_begin_without_a_length_is_not_taken_for_an_end(tmp_path: Path) -> None:
    """Where the other rows have a length."""
    made, said = csv(tmp_path, "begin,seconds,commits\n600,60,1\n660,,2\n720,60,3\n")

    assert made.ends.tolist() == [660.0, 780.0]
    assert [one for one in said if "660,,2" in one]


def test_one_row_needs_its_length(tmp_path: Path) -> None:
    """How long it is an average of cannot be guessed."""
    with pytest.raises(Impossible, match="one row only"):
        csv(tmp_path, "time,commits\n600,1\n")
    made, _ = csv(tmp_path, "time,seconds,commits\n600,300,1\n")

    assert made.seconds == 300.0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("time,foo\n1,2\n", "no value of anything"),
        ("zeit,commits\n1,2\n", "no column named time or begin"),
        ("time,commits\n", "no row"),
        ("time,commits\nnever,2\n", "no row"),
        ("", "no column named time"),
    ],
)
def test_a_csv_that_is_none_is_refused_in_a_sentence(text: str, words: str, tmp_path: Path) -> None:
    """It names the file and what is missing."""
    with pytest.raises(Impossible, match=words) as refused:
        csv(tmp_path, text)
    assert str(tmp_path) in str(refused.value)


@pytest.mark.parametrize(
    ("seconds", "devices", "words"),
    [
        (7, "sda  10.00 80.00 5.00 40.00", "which has 6.00 s: profile the source for longer"),
        (90, "sda  0.00 0.00 0.00 0.00", "nothing was read, written, committed or computed"),
    ],
)
def test_the_report_has_the_reason_why_no_size_follows(
    tmp_path: Path, seconds: int, devices: str, words: str
) -> None:
    """A profile of some seconds has a load, and too few of them; an idle one has none."""
    stamps = [f"11/21/2026 10:{s // 60:02}:{s % 60:02}" for s in range(seconds)]
    made, _ = read("iostat", written(tmp_path, iostat(stamps, devices=devices)))

    assert words in report.as_facts(report.summary(made))["headline"]


@pytest.mark.parametrize("tool", TOOLS)
def test_a_changed_file_is_read_or_refused(tool: str, tmp_path: Path) -> None:
    """Of files with chance changes each is a profile that can be kept and shown, or a sentence."""
    draw = random.Random(f"replayer profile {tool}")  # the same cases on every machine
    files = [path for name, path in EVERY if name == tool]
    path = tmp_path / "file"
    kept = 0
    for case in range(CASES):
        path.write_bytes(mutate(draw.choice(files).read_bytes(), draw))
        try:
            made, unread = read(tool, path)
        except Impossible:
            continue
        assert len(unread) <= 21
        profile.save(tmp_path / f"{case}.profile", made)
        one = report.summary(profile.load(tmp_path / f"{case}.profile"))
        assert csv_writer.page(report.document(one))
        kept += 1
    assert kept


def reports(folder: Path, many: int) -> Path:
    """Write so many reports of three devices, one a second, as iostat prints them."""
    stamps = [f"11/21/2026 {s // 3600:02}:{s // 60 % 60:02}:{s % 60:02}" for s in range(many)]
    devices = "\n".join(f"{name}  {{i}}.00 8.00 1.00 1.00" for name in ("sda", "sdb", "sdc"))
    return written(folder, iostat(stamps, devices=devices))


@pytest.mark.quiet
def test_a_day_of_seconds_is_read_in_time(tmp_path: Path) -> None:
    """86,400 reports of three devices, as text, within the minute of work that a file may take."""
    many = 4000
    path = reports(tmp_path, many)

    begin = time.process_time()
    made, _ = read("iostat", path)

    assert made.ends.size == many - 1
    assert (time.process_time() - begin) * 86400 / many < 45


def test_twice_as_many_reports_are_twice_the_work(tmp_path: Path) -> None:
    """Counted in calls of functions: no report is looked at again for those after it."""
    calls = []
    for many in (200, 400):
        path = reports(tmp_path, many)
        counted = cProfile.Profile()
        made, _ = counted.runcall(read, "iostat", path)
        assert made.ends.size == many - 1
        calls.append(sum(entry.callcount for entry in counted.getstats()))

    assert calls[1] < 2.1 * calls[0]
