"""shortlist: twenty machines by hand arithmetic, bounds of several databases, the clouds' lists."""

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from replayer.errors import Impossible
from replayer.model import Run
from replayer.profiles import csv
from replayer.report.documents.shortlist import document
from replayer.report.writers import markdown_writer
from replayer.results import imported, profile
from replayer.results.profile import ProfileSource, ResourceProfile
from replayer.shortlist import catalogue_file, demands, matching, offers, shortlist
from replayer.shortlist.catalogue_file import COLUMNS
from replayer.shortlist.demands import DemandOptions, Demands
from replayer.shortlist.matching import MachineChoice, Margin
from replayer.shortlist.offers import Catalogue
from replayer.shortlist.volumes import parse_disk
from replayer.sizing import candidate
from replayer.sizing.target import Fit
from tests.command import Replayer
from tests.known import known

START = 1_795_000_000.0
GIB = 1 << 30
FITS, NOT, UNCLEAR = Fit.FITS, Fit.DOES_NOT_FIT, Fit.UNCLEAR


def busy(rate: float, base: float, minutes: int = 20, at: int = 600) -> NDArray[np.float64]:
    """Return a day of minutes at a base, and some minutes at a rate."""
    values = np.full(1440, float(base))
    values[at : at + minutes] = rate
    return values


def made(start: float = START, minutes: int = 1440, **columns: Any) -> ResourceProfile:
    """Return a profile of minutes from a machine with 8 cores and 32 GiB."""
    source = ProfileSource(
        kind="csv", place="made", averaged_seconds=60.0, cores=8, memory_bytes=32 * GIB,
        database_bytes=50 * GIB,
    )  # fmt: skip
    return ResourceProfile(
        source,
        start + 60.0 * (1.0 + np.arange(minutes, dtype=float)),
        np.full(minutes, 60.0),
        {name: np.broadcast_to(np.asarray(v, float), minutes) for name, v in columns.items()},
    )


def day(**other: Any) -> ResourceProfile:
    """Return the day of a shop: 4 cores, 16 GiB, 2,000 requests and 100 MB/s for 20 minutes."""
    columns: dict[str, Any] = {
        "server_cpu_cores": busy(4, 1), "cpu_cores": busy(6, 2), "memory_bytes": 16.0 * GIB,
        "read_iops": busy(1500, 100), "write_iops": busy(500, 50),
        "read_mbps": busy(80, 5), "write_mbps": busy(20, 2),
        "commits": busy(400, 40), "net_in_mbps": 1.0, "net_out_mbps": busy(50, 2),
    }  # fmt: skip
    return made(**{**columns, **other})


MACHINES = """\
# a sample
machine,cores,baseline_cores,cpu_credits,memory,iops,burst_iops,iops_credits,mbps,write_iops,\
disk_size,network_mbps,price_month
m01,8,,,32G,4000,,,200,,100G,100,100
m02,6,,,32G,4000,,,200,,100G,100,90
m03,5,,,32G,4000,,,200,,100G,100,80
m04,3,,,32G,4000,,,200,,100G,100,70
m05,2,,,32G,4000,,,200,,100G,100,60
m06,8,,,12G,4000,,,200,,100G,100,61
m07,8,,,7G,4000,,,200,,100G,100,62
m08,8,,,16G,4000,,,200,,100G,100,63
m09,8,,,32G,1900,,,200,,100G,100,64
m10,8,,,64G,1900,,,200,,100G,100,65
m11,8,,,64G,400,,,200,400,100G,100,66
m12,8,,,32G,300,3000,5400000,200,,100G,100,67
m13,8,,,32G,300,3000,1000000,200,,100G,100,68
m14,8,,,32G,300,1900,5400000,200,,100G,100,69
m15,8,,,32G,4000,,,99,,100G,100,71
m16,8,,,32G,4000,,,200,,40G,100,72
m17,8,,,32G,4000,,,200,,100G,49,73
m18,8,2,200,32G,4000,,,200,,100G,100,74
m19,8,1,20,32G,4000,,,200,,100G,100,75
m20,8,,,32G,,,,200,,100G,100,50
"""
"""Requirement: 4 cores, 16 GiB, 2,000 requests of which 500 write, 100 MB/s, 50 GiB, 50 MB/s."""
BY_HAND = {
    "m01": (FITS, 1.6),  # disk_size and memory are twice, cores 2.0 times, MB/s 2, network 2
    "m02": (FITS, 1.5),  # 6 of 4 cores: the limit of what another core may do
    "m03": (UNCLEAR, 1.25),  # 5 of 4 cores: a core may do less
    "m04": (UNCLEAR, 0.75),  # 3 of 4 cores: a core may do more
    "m05": (NOT, 0.5),  # 2 of 4 cores: not even with 1.5 times the work of one
    "m06": (UNCLEAR, 0.75),  # 12 of 16 GiB: it would read more
    "m07": (NOT, 7 / 16),  # less than half of the memory in use
    "m08": (FITS, 1.0),  # just the memory in use
    "m09": (NOT, 0.95),  # 1,900 of 2,000 requests, and no more memory than the source
    "m10": (UNCLEAR, 0.95),  # twice the source's memory may save reads
    "m11": (NOT, 0.2),  # 500 writes of 400: memory saves none
    "m12": (FITS, 1.5),  # 20 min x 60 x 1,700 = 2.04 M of 5.4 M credits; at 3,000 3.24 M
    "m13": (NOT, None),  # 2.04 M of 1 M credits
    "m14": (NOT, 0.95),  # never 2,000
    "m15": (NOT, 0.99),  # 99 of 100 MB/s
    "m16": (NOT, 0.8),  # 40 of 50 GiB
    "m17": (NOT, 0.98),  # 49 of 50 MB/s
    "m18": (FITS, None),  # 20 min x 2 cores above the base = 40 of 200 credits
    "m19": (NOT, None),  # 20 min x 3 cores = 60 of 20 credits: half as much at most
    "m20": (UNCLEAR, None),  # its requests a second are not in the catalogue
}


def ranked(
    tmp_path: Path, text: str, *profiles: ResourceProfile, **speeds: dict[str, float]
) -> dict[str, MachineChoice]:
    """Return title -> candidate, in the order of the shortlist."""
    path = tmp_path / "machines.csv"
    path.write_text(text, encoding="utf-8")
    catalogue = catalogue_file.load_catalogue(path)
    made = matching.rank(catalogue, gathered(*profiles), speeds)
    return {one.title: one for one in made}


def gathered(*profiles: ResourceProfile, **asked: float) -> Demands:
    """Return what profiles need together."""
    named = {f"{number}.profile": one for number, one in enumerate(profiles)}
    return demands.gather(named, DemandOptions(**asked))


def test_twenty_machines_by_hand_arithmetic(tmp_path: Path) -> None:
    """Verdict and room of each machine are those that a pencil gives; the cheapest fit is first."""
    found = ranked(tmp_path, MACHINES, day())

    assert {name: one.fit for name, one in found.items()} == {
        name: fit for name, (fit, _) in BY_HAND.items()
    }
    for name, (_, times) in BY_HAND.items():
        if times is not None and name != "m01":
            assert known(found[name].multiple) == pytest.approx(times, rel=1e-3), name
    assert list(found)[:5] == ["m08", "m12", "m18", "m02", "m01"]
    order = [one.fit for one in found.values()]
    assert order == sorted(order, key=[FITS, UNCLEAR, NOT].index)


def test_an_empty_database_demands_no_disk(tmp_path: Path) -> None:
    """A profile of before the migration may have one."""
    shop = day()
    source = shop.source.model_copy(update={"database_bytes": 0})
    found = ranked(tmp_path, MACHINES, replace(shop, source=source))
    assert found["m16"].fit is FITS


def test_one_cpu_requirement_is_the_servers_own() -> None:
    """Of 6 busy cores 4 are the server's: these are required, and the rest is named."""
    needed = gathered(day(), growth=1.5, headroom=0.2)

    assert needed.rows["cpu"].required == pytest.approx(4 * 1.5 * 1.2)
    assert any("4 cores of them were the server's" in note for note in needed.notes)


def test_growth_does_not_multiply_memory_and_data() -> None:
    """Requests grow with the load; memory and data do not."""
    needed = gathered(day(), growth=2.0)

    assert needed.rows["iops"].required == 4000
    assert needed.rows["memory"].required == 16 * GIB
    assert needed.rows["database"].required == 50 * GIB


def other(**more: Any) -> ResourceProfile:
    """Return the day of another database, which is busy five hours after the shop."""
    columns: dict[str, Any] = {
        "server_cpu_cores": busy(2, 0.5, at=900), "memory_bytes": 4.0 * GIB,
        "read_iops": busy(900, 10, at=900), "write_iops": busy(100, 10, at=900),
        "read_mbps": busy(9, 1, at=900), "write_mbps": busy(1, 1, at=900),
    }  # fmt: skip
    return made(**{**columns, **more})


def test_databases_on_one_machine_are_added_up_by_time() -> None:
    """Peaks at other times do not add up: 4 + 0.5 cores, not 4 + 2; 2,000 + 20 requests."""
    together = gathered(day(), other())

    assert together.rows["cpu"].required == pytest.approx(4.5)
    assert together.rows["iops"].required == pytest.approx(2020)
    assert together.rows["memory"].required == 20 * GIB
    assert together.rows["database"].required == 100 * GIB
    assert "network, sent, MB" in together.missing


@pytest.mark.parametrize("apart", [0, 3])
def test_two_profiles_of_one_server_are_refused(apart: int) -> None:
    """Each is of all databases of the server, so their sum is twice the load."""

    def of_server(one: ResourceProfile, **facts: str) -> ResourceProfile:
        source = one.source.model_copy(update={"kind": "live", "facts": facts})
        return replace(one, source=source, ends=one.ends + 86400 * apart * (one is not first))

    first, second = day(), day()
    with pytest.raises(Impossible, match="are of one server") as refused:
        gathered(of_server(first, **{"server.id": "a"}), of_server(second, **{"server.id": "a"}))
    assert {"0.profile", "1.profile"} <= set(refused.value.found.split())
    assert refused.value.todo == "give one of them"
    others: list[tuple[dict[str, str], dict[str, str]]] = [
        ({"server.id": "a"}, {"server.id": "b"}), ({}, {}), ({"server.id": "a"}, {}),
    ]  # fmt: skip
    for one, two in others:
        needs = gathered(of_server(first, **one), of_server(second, **two))
        assert needs.rows["cpu"].required == pytest.approx(8)


def test_days_are_laid_over_each_other() -> None:
    """A profile of another day or month is moved by whole days, and that is noted."""
    moved = gathered(day(), other(start=START + 12 * 86400.0))

    assert moved.rows["cpu"].required == pytest.approx(4.5)
    assert any("-12 days" in note for note in moved.notes)


@pytest.mark.parametrize(("days", "apart"), [(14, 13), (7, 13), (7, 24)])
def test_a_peak_that_profiles_share_is_not_laid_a_day_apart(days: int, apart: int) -> None:
    """Two weeks that begin 13 h apart have the peak of both in the same minutes: 10 + 10 cores."""
    peak = 5 * 1440
    one, two = (
        made(START + 60.0 * late, days * 1440, cpu_cores=_steady(days, peak - late))
        for late in (0, 60 * apart)
    )
    assert gathered(one, two).rows["cpu"].least == pytest.approx(20)


def resampled(one: ResourceProfile, minutes: int, late: float = 0.0) -> ResourceProfile:
    """Return a profile with the means over longer rows, moved by some seconds."""
    columns = {name: values.reshape(-1, minutes).mean(1) for name, values in one.columns.items()}
    spans = one.spans.reshape(-1, minutes).sum(1)
    return replace(one, ends=one.ends[minutes - 1 :: minutes] + late, spans=spans, columns=columns)


def without(one: ResourceProfile, first: int, last: int) -> ResourceProfile:
    """Return a profile without the rows from the first to the one before the last."""
    kept = np.r_[0:first, last : one.ends.size]
    columns = {name: values[kept] for name, values in one.columns.items()}
    return replace(one, ends=one.ends[kept], spans=one.spans[kept], columns=columns)


def test_a_database_more_never_lowers_a_need() -> None:
    """For rows of any length, at any offset, with gaps: from the larger need to the sum of both."""
    draw = np.random.default_rng(5)
    for _ in range(30):
        pair = []
        for _ in range(2):
            load: dict[str, Any] = {"cpu_cores": draw.gamma(0.3, 10.0, 1440)}
            load["read_iops"] = draw.gamma(0.3, 100.0, 1440)
            one = made(**load, write_iops=1.0, memory_bytes=1.0 * GIB, commits=1.0)
            one = resampled(one, int(draw.choice([1, 1, 2, 10])), float(draw.choice([0, 0, 30])))
            first = int(draw.integers(1, one.ends.size))
            pair.append(without(one, first, first + int(draw.choice([0, 0, 1, 40]))))
        both, alone = gathered(*pair), [gathered(one).rows for one in pair]
        for name in ("cpu", "iops", "memory"):
            parts = [rows[name].required for rows in alone]
            row = both.rows[name]
            assert max(parts) <= row.least * (1 + 1e-9), name
            assert row.least <= row.required <= sum(parts) * (1 + 1e-6), name


def test_rows_of_other_lengths_give_bounds(tmp_path: Path) -> None:
    """A minute of each hour at 3.6 cores is needed, though no mean of ten minutes shows it."""
    load: dict[str, Any] = {"memory_bytes": 1.0 * GIB, "read_iops": 1.0, "write_iops": 0.0}
    hourly = made(cpu_cores=np.where(np.arange(1440) % 60 == 30, 3.6, 0.1), **load)
    idle = resampled(made(cpu_cores=0.1, **load), 10)
    both = gathered(hourly, idle)

    assert (both.rows["cpu"].least, both.rows["cpu"].required) == pytest.approx((3.6, 3.7))
    assert both.exact is None
    assert any("averages over 60.0 s and 10 min" in note for note in both.notes)
    text = "machine,cores,memory,iops,disk_size\nsmall,1,64G,1000,500G\n"
    assert ranked(tmp_path, text, hourly, idle)["small"].fit is NOT


def test_a_peak_in_the_gap_of_another_database_counts() -> None:
    """Half an hour at 3.6 cores, while the other has no rows: with the other's most at most."""
    load: dict[str, Any] = {"memory_bytes": 1.0 * GIB, "read_iops": 1.0, "write_iops": 0.0}
    peak = made(cpu_cores=busy(3.6, 0.1, minutes=30), **load)
    other_one = made(cpu_cores=busy(0.5, 0.1, minutes=5, at=0), **load)
    whole, lacking = gathered(peak, other_one), gathered(peak, without(other_one, 590, 640))

    assert (whole.rows["cpu"].least, whole.rows["cpu"].required) == pytest.approx((3.7, 3.7))
    assert (lacking.rows["cpu"].least, lacking.rows["cpu"].required) == pytest.approx((3.6, 4.1))
    assert any("has no values" in note for note in lacking.notes)
    assert not any("has no values" in note for note in whole.notes)
    assert lacking.rows["cpu"].title == gathered(peak).rows["cpu"].title == "CPU of the host"


def test_a_gap_alone_does_not_empty_a_bucket(tmp_path: Path) -> None:
    """Four hours at the most would, and they are not known: it is unclear."""
    load: dict[str, Any] = {"cpu_cores": 0.1, "memory_bytes": 1.0 * GIB, "write_iops": 0.0}
    one = made(read_iops=100.0, **load)
    other_one = without(made(read_iops=busy(1500, 100), **load), 700, 940)
    text = (
        "machine,cores,memory,iops,burst_iops,iops_credits,disk_size\n"
        "m,8,64G,300,3000,5400000,500G\n"
    )
    (choice,) = ranked(tmp_path, text, one, other_one).values()

    assert _margin(choice, "iops").fit is UNCLEAR
    assert "without values" in _margin(choice, "iops").words


@pytest.mark.parametrize(
    ("local", "bounds", "remark"),
    [
        ((), (5100, 5100), ""),
        ((0,), (5000, 10_000), "times of 0.profile are local, of a zone that is not known"),
        ((1,), (5000, 10_000), "S_TIME_FORMAT=ISO"),
        ((0, 1), (5100, 5100), "they are taken to be of one zone"),
    ],
)
def test_local_times_are_not_added_to_those_in_utc(
    local: Sequence[int], bounds: tuple[float, float], remark: str, tmp_path: Path
) -> None:
    """The same hour of both is an hour apart in them, if the server is in Central Europe."""
    load: dict[str, Any] = {"cpu_cores": 0.1, "memory_bytes": 1.0 * GIB, "write_iops": 0.0}
    pair = [made(read_iops=busy(5000, 100, 60, at), **load) for at in (600, 540)]
    for place in local:
        text = "time,commits\n2026-11-21 10:00,1\n2026-11-21 10:01,2\n"
        (tmp_path / "local.csv").write_text(text)
        note = csv.read(imported.opened(tmp_path / "local.csv"), ()).notes[0]
        pair[place] = replace(pair[place], notes=(note,))
        profile.save(tmp_path / f"{place}.profile", pair[place])
        pair[place] = profile.load(tmp_path / f"{place}.profile")
    both = gathered(*pair)
    text = "machine,cores,memory,iops,disk_size\nm,8,64G,6000,500G\n"
    (choice,) = ranked(tmp_path, text, *pair).values()

    assert (both.rows["iops"].least, both.rows["iops"].required) == bounds
    assert _margin(choice, "iops").fit is (UNCLEAR if bounds[1] > 6000 else FITS)
    assert any(remark in note for note in both.notes)
    assert any("zone" in note for note in both.notes) is bool(local)


def _steady(days: int, peak: int) -> NDArray[np.float64]:
    values = np.ones(days * 1440)
    values[peak : peak + 30] = 10
    return values


def test_hours_of_other_days_give_bounds_only(tmp_path: Path) -> None:
    """Of an hour of another day the larger peak is needed at least, and both at most."""
    hour = made(
        start=START + 12 * 86400.0, minutes=60, cpu_cores=2.0, memory_bytes=1.0 * GIB,
        read_iops=900.0, write_iops=100.0,
    )  # fmt: skip
    both = gathered(day(), hour)
    assert (both.rows["iops"].least, both.rows["iops"].required) == (2000, 3000)
    text = (
        "machine,cores,memory,iops,disk_size,price_month\n"
        "less,32,256G,1900,500G,1\nbetween,32,256G,2500,500G,1\nmore,32,256G,3000,500G,1\n"
    )
    # The source's memory is smaller, and memory may save reads: 1,900 is not refuted.
    assert [one.fit for one in ranked(tmp_path, text, day(), hour).values()] == [
        FITS, UNCLEAR, UNCLEAR,
    ]  # fmt: skip
    assert any("at most the sum" in note for note in both.notes)


def test_a_shortfall_is_of_the_lower_bound(tmp_path: Path) -> None:
    """Of 10 to 20 cores 6 are too few by any factor, and 9 may do the work of 13; as memory."""
    load = {"cpu_cores": 10.0, "memory_bytes": 10.0 * GIB, "read_iops": 1.0, "write_iops": 1.0}
    one, two = (made(start, 120, **load) for start in (START, START + 12 * 86400.0))
    found = ranked(tmp_path, "machine,cores,memory\nless,6,4G\nm,9,9G\n", one, two)
    verdicts = {name: [row.fit for row in one.margins[:2]] for name, one in found.items()}

    assert verdicts == {"less": [NOT, NOT], "m": [UNCLEAR, UNCLEAR]}
    words = found["m"].margins[0].words
    assert words.startswith("10 cores to 20 cores of 9 cores; a core may do 1.5")


@pytest.mark.parametrize("shared", [2.0, 0.0])
def test_profiles_that_share_too_little_time_give_bounds(shared: float) -> None:
    """Two minutes are less than a window, and both may be idle in them."""
    load = np.where(np.arange(120) >= 118, shared, 2.0)
    one = made(minutes=120, cpu_cores=load, memory_bytes=1.0 * GIB)
    two = made(start=START + 118 * 60.0, minutes=120, cpu_cores=load[::-1], memory_bytes=1.0 * GIB)
    both = gathered(one, two, window=300.0)

    assert (both.rows["cpu"].least, both.rows["cpu"].required) == (2.0, 4.0)
    assert both.exact is None
    assert any("share too little time" in note for note in both.notes)


def test_large_requests_of_a_disk_count_as_several(tmp_path: Path) -> None:
    """Also where its rate is the same at any time: 900 of 1 MB are 13,733 of 64 KiB."""
    text = "machine,disk,cores,memory,iops,request_size\nm1,d1,8,32G,1000,64k\n"
    large = made(
        cpu_cores=2.0, memory_bytes=1.0 * GIB, read_iops=900.0, write_iops=0.0,
        read_mbps=900.0, write_mbps=0.0,
    )  # fmt: skip
    columns = {**large.columns, "read_mbps": large.columns["read_mbps"] / 100}
    small = ResourceProfile(large.source, large.ends, large.spans, columns)
    (of_large,), (of_small,) = (ranked(tmp_path, text, one).values() for one in (large, small))

    assert [row.fit for row in of_large.margins if row.resource == "iops"] == [NOT]
    assert [row.fit for row in of_small.margins if row.resource == "iops"] == [FITS]


def test_requests_of_several_databases_are_counted_apart(tmp_path: Path) -> None:
    """Of 1,400 and of 1,400 counted requests 1,400 are needed at least and 2,800 at most."""
    load = {"cpu_cores": 1.0, "memory_bytes": 1.0 * GIB, "read_iops": 1000.0, "write_iops": 100.0}
    load |= {"read_mbps": 8.192, "write_mbps": 104.8576}
    one, two = (made(start, 120, **load) for start in (START, START + 12 * 86400.0))
    rows = [f"m{many},d,64,64G,{many},256k" for many in (1390, 1410, 2790, 2810)]
    text = "\n".join(["machine,disk,cores,memory,iops,request_size", *rows])
    found = ranked(tmp_path, f"{text}\n", one, two)

    fits = {title[:5]: _margin(choice, "iops").fit for title, choice in found.items()}
    assert fits == {"m1390": NOT, "m1410": UNCLEAR, "m2790": UNCLEAR, "m2810": FITS}


@pytest.mark.parametrize("blocks", [{}, {"blocks_read": 9000.0}])
def test_a_backup_is_in_no_sum_of_several_databases(blocks: dict[str, Any]) -> None:
    """A database whose blocks are all in the page cache, or not counted, does not hide it."""
    saved = made(
        cpu_cores=1.0, memory_bytes=1.0 * GIB, blocks_read=100.0, read_iops=busy(9000, 100),
        write_iops=10.0, read_mbps=busy(900, 0.8), write_mbps=0.1,
    )  # fmt: skip
    cached = made(
        cpu_cores=1.0, memory_bytes=1.0 * GIB, read_iops=5.0, write_iops=200.0, read_mbps=0.1,
        write_mbps=2.0, **blocks,
    )  # fmt: skip

    row = gathered(saved, cached).rows["iops"]
    assert [row.least, row.required] == pytest.approx([315, 315])


@pytest.mark.parametrize("cells", ["110,,", "110,3000,", "110,3000,9000000", "1,110,9000000000"])
def test_a_supply_that_equals_the_requirement_is_enough(tmp_path: Path, cells: str) -> None:
    """100 x 1.1 is 110.00000000000001 for a computer, with credits and without; 1.5 times too."""
    load: dict[str, Any] = {
        "memory_bytes": 1.0 * GIB,
        "read_iops": busy(100, 25),
        "write_iops": 0.0,
    }
    path = tmp_path / "machines.csv"
    path.write_text(
        "machine,cores,baseline_cores,cpu_credits,memory,iops,burst_iops,iops_credits\n"
        f"m,6.6,1,5000,64G,{cells}\n"
    )
    needs = gathered(made(cpu_cores=busy(4, 1), **load), growth=1.1)
    (choice,) = matching.rank(catalogue_file.load_catalogue(path), needs, {})

    assert [_margin(choice, name).fit for name in ("iops", "cpu")] == [FITS, FITS]


def _margin(choice: MachineChoice, resource: str) -> Margin:
    return next(one for one in choice.margins if one.resource == resource)


def test_large_writes_count_as_several_where_writes_have_a_limit(tmp_path: Path) -> None:
    """100 writes of 1 MiB are 400; the prediction's limit keeps how they are counted."""
    load = made(
        cpu_cores=1.0, memory_bytes=1.0 * GIB, read_iops=10.0, write_iops=100.0,
        read_mbps=0.1, write_mbps=104.8576,
    )  # fmt: skip
    text = (
        "machine,disk,cores,memory,iops,burst_iops,iops_credits,write_iops,request_size\n"
        "m,d,8,32G,300,3000,5400000,300,256k\n"
    )
    (choice,) = ranked(tmp_path, text, load).values()

    assert _margin(choice, "write_iops").fit is NOT
    assert known(_margin(choice, "iops").limit).request_bytes == 256 * 1024


@pytest.mark.parametrize(
    ("iops", "mebibytes"), [(1000, 250), (4000, 500), (32_000, 500), (48_000, 750), (64_000, 1000)]
)
def test_the_throughput_of_an_io1_volume(iops: int, mebibytes: float) -> None:
    """As the cloud's guide has it, for requests of 256 KiB."""
    disk = parse_disk(f"io1:2T,{iops}")
    assert disk.supplies["mbps"].burst == pytest.approx(mebibytes * 2**20 / 1e6)


@pytest.mark.parametrize(
    "text",
    ["gp3:1G", "gp3:64T,80000,2000", "gp3:12G,6000,1500", "gp3:8G", "gp2:1G", "gp2:16T",
     "io1:4G,200", "io1:16T,64000", "io2:4G,4000", "io2:64T,256000"],
)  # fmt: skip
def test_a_volume_that_can_be_ordered_is_a_disk(text: str) -> None:
    """The limits themselves may be ordered; the first 3,000 operations of gp3 with any size."""
    assert parse_disk(text).name == text


@pytest.mark.parametrize(
    ("gib", "base", "most"), [(169, 128, 128), (170, 128, 128), (171, 128, 250), (334, 250, 250)]
)
def test_the_throughput_of_a_gp2_volume(gib: int, base: float, most: float) -> None:
    """It bursts above 170 GiB, and has the higher rate forever from 334 GiB on."""
    supply = parse_disk(f"gp2:{gib}G").supplies["mbps"]

    assert (supply.baseline, supply.burst) == pytest.approx((base * 1.048576, most * 1.048576))


def test_probes_of_both_compare_cores(tmp_path: Path) -> None:
    """With speeds of both a core counts as what it does: 3 fast ones fit, 6 slow ones do not."""
    shop = day()
    source = shop.source.model_copy(update={"probes": {"cpu.events.processes_1": 1000.0}})
    probed = ResourceProfile(source, shop.ends, shop.spans, shop.columns)
    speeds = {"m04": {"cpu.events.processes_1": 1400.0}, "m02": {"cpu.events.processes_1": 600.0}}
    found = ranked(tmp_path, MACHINES, probed, **speeds)

    assert (found["m04"].fit, found["m04"].known) == (FITS, "measured")
    assert (found["m02"].fit, found["m02"].known) == (NOT, "measured")
    assert known(found["m02"].multiple) == pytest.approx(6 * 0.6 / 4)
    assert found["m03"].known == "predicted"


@pytest.mark.parametrize(("load", "refused"), [(0.9, False), (1.1, True)])
def test_probes_of_a_busy_machine_are_refused(stored: Run, load: float, *, refused: bool) -> None:
    """Above half a process for each of 2 processors they measured what others left."""
    run = stored.model_copy(update={"host": {"host.load1": load, "cpu.threads": 2}})

    assert ("when it is quiet" in candidate.busy(run)) == refused


def test_disks_of_a_machine_are_its_choices(tmp_path: Path) -> None:
    """The smaller limit of machine and disk counts, and the price is that of both."""
    text = (
        "machine,disk,cores,memory,iops,mbps,disk_size,price_month,disk_price_month\n"
        "m,,8,32G,3000,400,,100,\n,slow,,,1000,300,500G,,10\n,fast,,,9000,300,500G,,50\n"
    )
    found = ranked(tmp_path, text, day())

    assert list(found) == ["m / fast", "m / slow"]
    assert found["m / fast"].fit is FITS
    assert found["m / fast"].price_month == 150
    iops = next(one for one in found["m / fast"].margins if one.resource == "iops")
    assert (iops.here, iops.of) == (3000, "the machine")
    assert found["m / slow"].fit is NOT


@pytest.mark.parametrize(
    ("prices", "known", "headline"),
    [
        ((50, ""), [150, None], "A / d1 is predicted to fit and is the cheapest whose price is"),
        (("", ""), [100, 120], "A / d1 is predicted to fit and is the cheapest (100.00 a month)"),
        ((50, 10), [130, 150], "B / d2 is predicted to fit and is the cheapest (130.00 a month)"),
    ],
)
def test_a_disk_without_a_price_is_not_free(
    tmp_path: Path, prices: tuple[object, object], known: list[float | None], headline: str
) -> None:
    """The sum is not known then; without any disk's price machines are compared without."""
    path = tmp_path / "machines.csv"
    path.write_text(
        "machine,disk,cores,memory,iops,mbps,disk_size,price_month,disk_price_month\n"
        "A,,8,32G,,,,100,\nB,,8,32G,,,,120,\n"
        f"A,d1,,,9000,300,500G,,{prices[0]}\nB,d2,,,9000,300,500G,,{prices[1]}\n"
    )
    asked = DemandOptions()
    made = shortlist.draw_up(
        asked, demands.gather({"shop": day()}, asked), catalogue_file.load_catalogue(path), {},
        profiles=["shop"], catalogues=["machines.csv"],
    )  # fmt: skip

    assert [one.price_month for one in made.candidates] == known
    assert made.headline.startswith(headline)
    assert any("of machines alone" in note for note in made.notes) is (prices == ("", ""))


def test_the_price_of_a_row_includes_its_disk(tmp_path: Path) -> None:
    """Of a machine that is rented with its disk there is no other price."""
    text = (
        "machine,disk,cores,memory,iops,mbps,disk_size,price_month,disk_price_month\n"
        "metal,nvme,8,32G,9000,300,500G,90,\nm,d1,8,32G,9000,300,500G,80,20\n"
    )
    found = ranked(tmp_path, text, day())
    assert [one.price_month for one in found.values()] == [90, 100]


def test_a_machine_with_one_of_several_disks_has_the_price_of_its_row(tmp_path: Path) -> None:
    """In whatever order the rows stand; a row without a disk has the machine's own price."""
    text = (
        "machine,disk,cores,memory,iops,mbps,disk_size,price_month\n"
        "m,d2,8,32G,9000,300,500G,150\nm,d1,8,32G,9000,300,500G,100\n"
        "n,,8,32G,,,,70\nn,d3,,,9000,300,500G,90\n"
    )
    found = ranked(tmp_path, text, day())
    assert {name: one.price_month for name, one in found.items()} == {
        "m / d1": 100, "m / d2": 150, "n / d3": 90,
    }  # fmt: skip


ROWS = "machine,disk,cores,memory,iops,mbps,disk_size,request_size,price_month,disk_price_month"
HOST = "m,,8,32G,,,,,,"
ONE_MACHINE = [
    ((HOST, "m,ssd,,,9000,300,500G,,130,", "m,,,,,,,,100,"), {"m / ssd": 130}),
    ((HOST, "m,a,,,9000,300,500G,,100,", "m,b,,,9000,300,500G,,80,30"),
     {"m / a": 100, "m / b": 110}),
    ((HOST, "m,d,,,9000,300,500G,,,", "m,d,,,,,,,100,"), {"m / d": 100}),
    ((HOST, "m,d,,,9000,300,500G,,100,", "m,d,,,,,,,,30"), {"m / d": 130}),
    ((HOST, ",d,,,9000,300,500G,,,", "m,d,,,,,,,100,"), {"m / d": 100}),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "prices"), ONE_MACHINE)
@pytest.mark.parametrize("files", [1, 3])
def test_the_order_of_rows_changes_no_price(
    tmp_path: Path, rows: tuple[str, ...], prices: dict[str, float], files: int
) -> None:
    """A price of both is of that disk alone, and two rows of one machine and disk are one choice.

    That holds for the rows of one file, and for those of files that are read one after the other.
    """
    for ordered in itertools.permutations(rows):
        texts = ["\n".join(ordered)] if files == 1 else list(ordered)
        parts: list[Catalogue] = []
        for text in texts:
            path = tmp_path / "machines.csv"
            path.write_text(f"{ROWS}\n{text}\n", encoding="utf-8")
            parts.append(catalogue_file.load_catalogue(path, offers.join(parts)))
        found = matching.rank(offers.join(parts), gathered(day()), {})
        assert {one.title: one.price_month for one in found} == prices, ordered
        assert {one.fit for one in found} == {FITS}, ordered


@pytest.mark.parametrize("disk", ["", "d"])
def test_request_size_counts_in_a_row_without_a_disk(tmp_path: Path, disk: str) -> None:
    """900 requests of 1 MB are 13,733 of 64 KiB also if the limits are the machine's."""
    large = made(
        cpu_cores=2.0, memory_bytes=1.0 * GIB, read_iops=900.0, write_iops=0.0,
        read_mbps=900.0, write_mbps=0.0,
    )  # fmt: skip
    (one,) = ranked(tmp_path, f"{ROWS}\nm,{disk},8,32G,1000,,500G,64k,,\n", large).values()

    iops = next(row for row in one.margins if row.resource == "iops")
    assert (iops.fit, round(iops.required)) == (NOT, 13_733)


@pytest.mark.parametrize(
    ("texts", "taken"),
    [
        (("a,1,EUR", "b,2,"), "1 price has no currency in the catalogue (b), and is taken as EUR"),
        (("a,1,EUR\nb,2,",), "1 price has no currency in the catalogue (b), and is taken as EUR"),
        (("a,1,usd", "b,2,USD"), ""),
        (("a,1,EUR", "a,2,"), ""),
        (("a,,EUR\na,2,",), ""),
        (("a,1,", "b,2,"), ""),
    ],
)
def test_a_price_without_a_currency_is_remarked_on(
    tmp_path: Path, texts: tuple[str, ...], taken: str
) -> None:
    """It is not in the currency of another machine only because that has one; USD is usd."""
    parts = []
    for text in texts:
        path = tmp_path / "machines.csv"
        path.write_text(f"machine,price_month,currency\n{text}\n", encoding="utf-8")
        parts.append(catalogue_file.load_catalogue(path))
    asked = DemandOptions()
    one = shortlist.draw_up(
        asked, gathered(day()), offers.join(parts), {}, profiles=["shop"], catalogues=["m.csv"]
    )
    assert [note for note in one.notes if "currency" in note] == ([taken] if taken else [])


@pytest.mark.parametrize("other", ["", "n2,d,8,15G,1000,200,500G,12\n"])
def test_the_answer_names_the_resource_that_refutes(tmp_path: Path, other: str) -> None:
    """Memory of 15.9 of 16 GiB is only unclear; 1,999.4 of 2,000 requests are less than once."""
    path = tmp_path / "machines.csv"
    path.write_text(
        "machine,disk,cores,memory,iops,mbps,disk_size,price_month\n"
        f"n,d,8,15.9G,1999.4,200,500G,10\n{other}"
    )
    asked = DemandOptions()
    one = shortlist.draw_up(
        asked, gathered(day()), catalogue_file.load_catalogue(path), {},
        profiles=["shop"], catalogues=["m.csv"],
    )  # fmt: skip
    first = one.candidates[0]
    begin = "none of 2 machines fits; n / d lacks least: " if other else "n / d does not fit: "

    assert one.headline.startswith(f"{begin}device reads and writes: ")
    assert "0.9997 times" in one.headline
    assert first.why[0].startswith(first.first)
    assert one.prediction("n", "m.shortlist").why[0] == first.why[0]
    assert "99.97% of what is required" in one.prediction("n", "m.shortlist").words
    assert "| 0.9997 |" in markdown_writer.page(document(one))


# The clouds' own tools

AWS = {
    "InstanceTypes": [
        {
            "InstanceType": "m5.2xlarge", "BurstablePerformanceSupported": False,
            "VCpuInfo": {"DefaultVCpus": 8, "DefaultCores": 4, "DefaultThreadsPerCore": 2},
            "MemoryInfo": {"SizeInMiB": 32768},
            "EbsInfo": {"EbsOptimizedSupport": "default", "EbsOptimizedInfo": {
                "BaselineBandwidthInMbps": 2300, "BaselineThroughputInMBps": 287.5,
                "BaselineIops": 12000, "MaximumBandwidthInMbps": 4750,
                "MaximumThroughputInMBps": 593.75, "MaximumIops": 18750}},
            "NetworkInfo": {"NetworkPerformance": "Up to 10 Gigabit", "NetworkCards": [
                {"NetworkCardIndex": 0, "BaselineBandwidthInGbps": 2.5,
                 "PeakBandwidthInGbps": 10.0}]},
        },
        {
            "InstanceType": "t3.2xlarge", "BurstablePerformanceSupported": True,
            "VCpuInfo": {"DefaultVCpus": 8}, "MemoryInfo": {"SizeInMiB": 32768},
            "EbsInfo": {"EbsOptimizedInfo": {"BaselineIops": 4000, "MaximumIops": 15700,
                "BaselineThroughputInMBps": 86.88, "MaximumThroughputInMBps": 347.5}},
        },
        {"InstanceType": "odd", "MemoryInfo": None},
    ]
}  # fmt: skip
AZURE = [
    {
        "resourceType": "virtualMachines", "name": "Standard_D8s_v5", "restrictions": [],
        "family": "standardDSv5Family",
        "capabilities": [
            {"name": "vCPUs", "value": "8"}, {"name": "vCPUsAvailable", "value": "8"},
            {"name": "MemoryGB", "value": "32"}, {"name": "UncachedDiskIOPS", "value": "12800"},
            {"name": "UncachedDiskBytesPerSecond", "value": "304087040"}],
    },
    {
        "resourceType": "disks", "name": "Premium_LRS", "size": "P1", "restrictions": [],
        "capabilities": [
            {"name": "MaxSizeGiB", "value": "4"}, {"name": "MaxIOps", "value": "120"},
            {"name": "MaxBandwidthMBps", "value": "25"}, {"name": "MaxBurstIops", "value": "3500"},
            {"name": "MaxBurstBandwidthMBps", "value": "170"},
            {"name": "BurstCreditBucketSizeInIO", "value": "6084000"},
            {"name": "BurstCreditBucketSizeInGiB", "value": "255"}],
    },
    {"resourceType": "availabilitySets", "name": "Classic", "capabilities": []},
]  # fmt: skip
GOOGLE = [
    {"kind": "compute#machineType", "name": "n2-standard-8", "guestCpus": 8, "memoryMb": 32768,
     "isSharedCpu": False, "zone": "europe-west1-b"},
    {"kind": "compute#machineType", "name": "n2-standard-8", "guestCpus": 8, "memoryMb": 32768,
     "isSharedCpu": False, "zone": "europe-west1-c"},
    {"kind": "compute#machineType", "name": "e2-medium", "guestCpus": 2, "memoryMb": 4096,
     "isSharedCpu": True, "zone": "europe-west1-b"},
]  # fmt: skip


def read(tmp_path: Path, answer: Any) -> Catalogue:
    """Return the catalogue of a tool's answer."""
    path = tmp_path / "answer.json"
    path.write_text(json.dumps(answer), encoding="utf-8")
    return catalogue_file.load_catalogue(path)


def test_amazons_list_is_read_as_it_is(tmp_path: Path) -> None:
    """Limits for EBS last half an hour above the base; a burstable machine's base is not known."""
    catalogue = read(tmp_path, AWS)
    plain, burstable = catalogue.machines

    assert plain.supplies["cpu"].baseline == 8
    assert plain.supplies["memory"].baseline == 32 * GIB
    iops = plain.supplies["iops"]
    assert (iops.baseline, iops.burst, iops.credits) == (12000, 18750, 1800 * 6750)
    assert plain.supplies["mbps"].burst == 593.75
    assert plain.supplies["net_out"].baseline == pytest.approx(312.5)
    assert burstable.supplies["cpu"].baseline is None
    assert any("1 entries" in note for note in catalogue.notes)


def test_a_cloud_machine_needs_a_disk(tmp_path: Path) -> None:
    """Without a volume the machine's own limits prove nothing; with one they decide together."""
    catalogue = read(tmp_path, AWS)
    bare = matching.rank(catalogue, gathered(day()), {})
    assert {one.fit for one in bare} == {UNCLEAR}

    disks = Catalogue(disks=tuple(map(parse_disk, ("gp3:100G", "gp2:100G", "gp2:40G"))))
    found = {
        one.title: one
        for one in matching.rank(offers.join([catalogue, disks]), gathered(day()), {})
    }
    assert found["m5.2xlarge / gp3:100G"].fit is FITS
    assert found["m5.2xlarge / gp2:100G"].fit is FITS
    assert found["m5.2xlarge / gp2:40G"].fit is NOT
    assert found["t3.2xlarge / gp3:100G"].fit is UNCLEAR


def test_azures_and_googles_lists_are_read_as_they_are(tmp_path: Path) -> None:
    """Processors, memory, limits of uncached disks; a disk's buckets; each machine type once."""
    azure = read(tmp_path, AZURE)
    assert azure.machines[0].supplies["mbps"].baseline == pytest.approx(304.08704)
    disk = azure.disks[0]
    assert disk.name == "Premium_LRS P1"
    assert disk.supplies["iops"].credits == 6_084_000
    assert known(disk.supplies["mbps"].credits) == pytest.approx(255 * GIB / 1e6)

    google = read(tmp_path, GOOGLE)
    assert [one.name for one in google.machines] == ["n2-standard-8", "e2-medium"]
    assert google.machines[1].supplies["cpu"].baseline is None


def test_volumes_that_there_are_become_disks(tmp_path: Path) -> None:
    """describe-volumes: gp2 has 3 IOPS a GiB and credits, gp3 and io2 what was ordered."""
    volumes = {"Volumes": [
        {"VolumeId": "vol-1", "VolumeType": "gp2", "Size": 100, "Iops": 300},
        {"VolumeId": "vol-2", "VolumeType": "gp3", "Size": 100, "Iops": 4000, "Throughput": 250},
        {"VolumeId": "vol-3", "VolumeType": "io2", "Size": 100, "Iops": 10000},
        {"VolumeId": "vol-4", "VolumeType": "st1", "Size": 500},
    ]}  # fmt: skip
    catalogue = read(tmp_path, volumes)
    gp2, gp3, io2 = catalogue.disks

    burst = gp2.supplies["iops"]
    assert (burst.baseline, burst.burst, burst.credits) == (300, 3000, 5_400_000)
    assert gp3.supplies["mbps"].baseline == pytest.approx(250 * 1.048576)
    assert io2.supplies["iops"].baseline == 10000
    assert any("vol-4" in note for note in catalogue.notes)


def amazons(
    name: str,
    cores: int = 8,
    *,
    gib: int = 32,
    iops: tuple[int, int] = (12_000, 18_750),
    mbps: tuple[float, float] = (287.5, 593.75),
    shares: bool = False,
) -> dict[str, Any]:
    """Return an entry of describe-instance-types with the fields of Amazon's API reference."""
    ebs = {"BaselineIops": iops[0], "MaximumIops": iops[1],
           "BaselineThroughputInMBps": mbps[0], "MaximumThroughputInMBps": mbps[1]}  # fmt: skip
    return {
        "InstanceType": name, "BurstablePerformanceSupported": shares,
        "VCpuInfo": {"DefaultVCpus": cores}, "MemoryInfo": {"SizeInMiB": gib * 1024},
        "EbsInfo": {"EbsOptimizedInfo": ebs},
        "NetworkInfo": {"NetworkCards": [{"BaselineBandwidthInGbps": 2.5}]},
    }  # fmt: skip


def azures(name: str, cores: int = 8, family: str = "standardDSv5Family", **known: Any) -> Any:
    """Return an entry of list-skus, whose capabilities are texts."""
    known = {"vCPUs": 8, "vCPUsAvailable": cores, "MemoryGB": 32, "UncachedDiskIOPS": 12_800,
             "UncachedDiskBytesPerSecond": 304_087_040, **known}  # fmt: skip
    return {
        "resourceType": "virtualMachines", "name": name, "family": family,
        "capabilities": [{"name": key, "value": str(value)} for key, value in known.items()],
    }  # fmt: skip


def googles(name: str, cores: int = 8, gib: int = 32, *, shares: bool = False) -> dict[str, Any]:
    """Return an entry of machine-types list."""
    return {"name": name, "guestCpus": cores, "memoryMb": gib * 1024, "isSharedCpu": shares}


CLOUDS = {
    "amazon": (
        (amazons("a1"), FITS),
        (amazons("a2", 6), FITS),  # 6 of 4 cores
        (amazons("a3", 4, gib=16), UNCLEAR),  # 4 of 4 cores: a core may do less
        (amazons("a4", 2), NOT),
        (amazons("a5", iops=(1500, 1900)), NOT),  # never 2,000
        (amazons("a6", iops=(1000, 4000)), FITS),  # 1,200 s x 1,000 of 1,800 s x 3,000
        (amazons("a7", mbps=(40, 100)), FITS),  # 1,200 s x 60 MB of 1,800 s x 60
        (amazons("a8", shares=True), UNCLEAR),  # what it may always use is not in the list
    ),
    "azure": (
        (azures("z1"), FITS),
        (azures("z2", 6), FITS),  # two of its eight processors are switched off
        (azures("z3", 2), NOT),
        (azures("z4", MemoryGB=7), NOT),
        (azures("z5", MemoryGB=12), UNCLEAR),  # 12 of 16 GiB: it would read more
        (azures("z6", UncachedDiskIOPS=1999), NOT),
        (azures("z7", family="standardBSFamily"), UNCLEAR),
    ),
    "google": (
        (googles("g1"), FITS),
        (googles("g2", shares=True), UNCLEAR),
        (googles("g3", 2), NOT),
        (googles("g4", gib=7), NOT),
        (googles("g5", gib=16), FITS),
    ),
}
"""Twenty machines with the disk gp3:100G,4000,200, for the requirement of MACHINES."""
PRICES = """\
machine,price_month
g5,55
a6,60
a7,65
a2,70
z2,75
g1,80
z1,85
a1,90
a4,10
z6,20
"""


def test_twenty_machines_of_three_clouds_by_hand_arithmetic(tmp_path: Path) -> None:
    """Each list is read as its tool prints it; the cheapest that fits is first."""
    answers = (
        {"InstanceTypes": [entry for entry, _ in CLOUDS["amazon"]]},
        [entry for entry, _ in CLOUDS["azure"]],
        [entry for entry, _ in CLOUDS["google"]],
    )
    (tmp_path / "prices.csv").write_text(PRICES)
    catalogues = [
        *(read(tmp_path, answer) for answer in answers),
        catalogue_file.load_catalogue(tmp_path / "prices.csv"),
        Catalogue(disks=(parse_disk("gp3:100G,4000,200"),)),
    ]
    ranked_ones = matching.rank(offers.join(catalogues), gathered(day()), {})
    found = {one.title.partition(" / ")[0]: one.fit for one in ranked_ones}

    by_hand = {
        entry.get("InstanceType") or entry["name"]: fit
        for cloud in CLOUDS.values()
        for entry, fit in cloud
    }
    assert len(by_hand) == 20
    assert found == by_hand
    assert list(found)[:8] == ["g5", "a6", "a7", "a2", "z2", "g1", "z1", "a1"]


def test_prices_come_from_another_catalogue(tmp_path: Path) -> None:
    """A CSV adds prices to machines of a cloud's list by their names."""
    prices = tmp_path / "prices.csv"
    prices.write_text("machine;price_hour;currency\nm5.2xlarge;0,5;EUR\n", encoding="utf-8")
    parts = [read(tmp_path, AWS), catalogue_file.load_catalogue(prices)]
    joined = offers.join(parts)

    assert joined.machines[0].price_month == pytest.approx(365)
    assert joined.machines[0].supplies["cpu"].baseline == 8
    assert joined.currency == "EUR"


def test_separators_that_may_be_of_thousands_are_refused_in_a_catalogue(tmp_path: Path) -> None:
    """16,000 and 16.000 are read neither as 16 nor as 16000, unless a number shows which it is."""
    machines = tmp_path / "machines.csv"
    machines.write_text("machine;cores;iops\nm1;4;16,000\n", encoding="utf-8")
    with pytest.raises(Impossible, match=r"numbers such as 16,000, .* thousands or decimals"):
        catalogue_file.load_catalogue(machines)
    machines.write_text("machine;cores;iops\nm1;4;16.000\n", encoding="utf-8")
    with pytest.raises(Impossible, match=r"numbers such as 16.000, .* thousands or decimals"):
        catalogue_file.load_catalogue(machines)
    machines.write_text("machine;price_month;memory\nm1;1.008;16384M\n", encoding="utf-8")
    assert catalogue_file.load_catalogue(machines).machines[0].price_month == 1.008
    machines.write_text("machine;price_month;iops\nm1;1,234;16000\nm2;0,5;1\n", encoding="utf-8")

    assert catalogue_file.load_catalogue(machines).machines[0].price_month == 1.234


@pytest.mark.parametrize(
    ("columns", "cells", "resource", "kept"),
    [
        ("baseline_cores,cpu_credits", "2.4,864", "cpu", (2.4, 8, 864 * 60)),
        ("cores", "8", "cpu", (None, 8, None)),
        ("cpu_credits", "864", "cpu", (None, 8, 864 * 60)),
        ("iops", "5000", "iops", (5000, 15700, 1800 * 11700)),
        ("iops", "20000", "iops", (20000, 20000, 0)),
        ("burst_mbps", "400", "mbps", (86.88, 400, 1800 * 260.62)),
    ],
)
def test_a_csv_adds_a_base_rate_to_what_the_list_has(
    tmp_path: Path, columns: str, cells: str, resource: str, kept: tuple[float | None, ...]
) -> None:
    """A burstable machine keeps its processors if a CSV has its base rate and its credits only."""
    path = tmp_path / "base.csv"
    path.write_text(f"machine,price_month,{columns}\nt3.2xlarge,9\nt3.2xlarge,,{cells}\n")
    amazon = read(tmp_path, AWS)
    added = catalogue_file.load_catalogue(path, amazon)
    one = offers.join([amazon, added]).machines[1].supplies[resource]

    assert (one.baseline, one.burst, one.credits) == pytest.approx(kept)


def test_rows_of_one_machine_add_up(tmp_path: Path) -> None:
    """A later list without the base rate takes nothing of it away."""
    path = tmp_path / "base.csv"
    path.write_text("machine,cores,baseline_cores,cpu_credits\nt3.2xlarge,8,,\nt3.2xlarge,,2.4,9\n")
    parts = [catalogue_file.load_catalogue(path), read(tmp_path, AWS)]
    one = offers.join(parts).machines[0].supplies["cpu"]

    assert (one.baseline, one.burst, one.credits) == (2.4, 8, 540)


WRONG = {
    "a column": ("machine,core\nm,8\n", "there is no column 'core' - did you mean cores?"),
    "a number": ("machine,cores\nm,eight\n", "line 2: cores is 'eight'"),
    "a size": ("machine,memory\nm,16X\n", "line 2: memory is '16X'"),
    "nothing": ("# a remark\n", "it is empty"),
    "no name": ("machine,cores\n,8\n", "line 2: it has neither a machine nor a disk"),
    "a burst": ("machine,iops,burst_iops\nm,300,200\n", "burst_iops is below iops"),
    "a base rate": ("machine,baseline_cores\nm,2\n", "line 2: it has baseline_cores and no cores"),
    "credits": ("machine,iops_credits\nm,2\n", "it has iops_credits and no iops: give iops, or a"),
    "cells": ("machine,cores\nm,8,9\n", "line 2: it has 3 cells for 2 columns"),
    "JSON": ('{"Reservations": []}', "it is JSON, but not of aws"),
    "no JSON": ("[{", "it begins like JSON, and is none from line 1 on"),
    "cut JSON": (json.dumps(AWS)[:300], "save the tool's whole output"),
    "NaN": ('[{"name": "m", "guestCpus": NaN, "memoryMb": 1}]', "1 entries have no readable name"),
    "a huge number": (
        f'[{{"name": "m", "guestCpus": 1{"0" * 400}}}]',
        "1 entries have no readable name",
    ),
    "other shapes": ('[{"resourceType": "disks", "capabilities": {"a": 1}}]', "no disk: its list"),
    "an image": ("\x89PNG", "there is no column"),
}


@pytest.mark.parametrize("words", WRONG)
def test_a_wrong_catalogue_is_one_sentence(tmp_path: Path, words: str) -> None:
    """File, line and column are named, and what it must be."""
    text, sentence = WRONG[words]
    path = tmp_path / "machines.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(Impossible) as raised:
        catalogue_file.load_catalogue(path)
    assert sentence in str(raised.value)


# The command


@pytest.fixture
def listed(replayer: Replayer, tmp_path: Path) -> Callable[..., Any]:
    """Return a function that runs `replayer shortlist` on the shop and the twenty machines."""
    profile.save(tmp_path / "shop.profile", day())
    (tmp_path / "machines.csv").write_text(MACHINES, encoding="utf-8")

    def run(*words: object, status: int = 0) -> Any:
        where = (tmp_path / "shop.profile", "--catalog", tmp_path / "machines.csv")
        return replayer("shortlist", *where, *words, status=status)

    return run


def test_the_answer_is_last_and_the_same_everywhere(
    listed: Callable[..., Any], tmp_path: Path
) -> None:
    """Terminal, JSON and page have the same sentence; the CSV has a row a resource."""
    out = json.loads(listed("--json", "--html", tmp_path / "s.html").out)
    printed = listed("--rows", "3").out

    assert out["headline"].startswith("m08 is predicted to fit and is the cheapest (63.00 a month)")
    assert " ".join(printed.split()).endswith(out["headline"])
    assert "and 17 more" in printed
    assert out["headline"] in (tmp_path / "s.html").read_text(encoding="utf-8")
    assert listed("--markdown", "-").out.startswith("**m08 is predicted to fit")
    rows = listed("--csv", "-").out.splitlines()
    assert len(rows) > 20 * 5
    assert all(column.name in replayer_help(listed) for column in COLUMNS)


def replayer_help(listed: Callable[..., Any]) -> str:
    """Return the help of the command."""
    return str(listed("--help").out)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--disk", "gp9:1G"], "a volume of the kind 'gp9'"),
        (["--disk", "gp3"], "it must be KIND:SIZE"),
        (["--disk", "gp3:500G,1.2.3"], "it must be KIND:SIZE"),
        (["--disk", "gp3:500G,."], "it must be KIND:SIZE"),
        (["--disk", "io2:100G"], "io2:500G,10000"),
        (["--disk", "gp3:900T,3000,200"], "with 1.00 GiB to 64.0 TiB, not with 900 TiB"),
        (["--disk", "gp3:500G,100"], "of 500 GiB can be ordered with 3,000 to 80,000 IOPS"),
        (["--disk", "gp3:500G,0"], "not with 0"),
        (["--disk", "gp3:10G,6000"], "of 10.0 GiB can be ordered with 3,000 to 5,000 IOPS"),
        (["--disk", "gp3:500G,3000,1000"], "with 3,000 IOPS can be ordered with 125 to 750 MiB/s"),
        (["--disk", "gp2:500G,6000,500"], "has the IOPS and MiB/s of its size"),
        (["--disk", "gp2:100T"], "with 1.00 GiB to 16.0 TiB, not with 100 TiB"),
        (["--disk", "io1:100G,64000"], "of 100 GiB can be ordered with 100 to 5,000 IOPS"),
        (["--disk", "io1:16T,64001"], "with 100 to 64,000 IOPS, not with 64,001"),
        (["--disk", "io1:20T,100"], "with 4.00 GiB to 16.0 TiB, not with 20.0 TiB"),
        (["--disk", "io2:100G,999999"], "of 100 GiB can be ordered with 100 to 100,000 IOPS"),
        (["--disk", "io2:1T,256001"], "with 100 to 256,000 IOPS"),
        (["--disk", "io2:3G,100"], "with 4.00 GiB to 64.0 TiB, not with 3.00 GiB"),
        (["--disk", "io1:100G,5000,4000"], "has the MiB/s of its IOPS, and none can be ordered"),
        (["--headroom", "3"], "must be a percentage"),
        (["--catalog", "nope.csv"], "nope.csv is not there"),
        (["--machine-probes", "nowhere"], "no run there has a label"),
        (["--check"], "--check shows past predictions"),
    ],
)
def test_what_cannot_be_listed_is_one_sentence(
    listed: Callable[..., Any], words: list[str], sentence: str
) -> None:
    """A wrong argument ends with status 2 and says what it must be."""
    error = listed(*words, status=2).err.splitlines()[-1]
    assert error.startswith("replayer: error: ")
    assert sentence in error


def test_a_file_too_large_for_a_shortlist_is_called_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was cut and called no shortlist, with the advice to write one."""
    path = tmp_path / "list.json"
    path.write_text("{}" * 10)
    monkeypatch.setattr(shortlist, "_MOST_BYTES", 19)

    with pytest.raises(Impossible, match="too large"):
        shortlist.load_shortlist(path)
