"""target: limits that cannot be measured take part in the verdict, credits with arithmetic."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from replayer.errors import Impossible
from replayer.results.profile import ProfileSource, ResourceProfile
from replayer.sizing import requirement, target
from replayer.sizing.target import Fit, Judgement, Limit, SizingTarget
from tests.known import known

START = 1_795_000_000.0
GP2 = """
name = "gp2, 100 GiB"
[volume]
baseline_iops = 300
burst_iops = 3000
iops_credits = 5_400_000
"""


def loaded(tmp_path: Path, text: str) -> SizingTarget:
    """Return the target of a text."""
    path = tmp_path / "target.toml"
    path.write_text(text, encoding="utf-8")
    return target.load(path)


def profile(minutes: int = 1440, **columns: Any) -> ResourceProfile:
    """Return a profile of minutes."""
    return ResourceProfile(
        ProfileSource(kind="live", averaged_seconds=60.0),
        START + 60.0 * (1.0 + np.arange(minutes, dtype=float)),
        np.full(minutes, 60.0),
        {name: np.broadcast_to(np.asarray(v, float), minutes) for name, v in columns.items()},
    )


def judged(tmp_path: Path, text: str, one: ResourceProfile, **how: Any) -> dict[str, Judgement]:
    """Return name -> judgement of a profile by a target."""
    made = target.judge(loaded(tmp_path, text), requirement.of(one, **how), one)
    return {judgement.resource: judgement for judgement in made}


def busy(minutes: int, rate: float, base: float = 100.0, many: int = 1440) -> NDArray[np.float64]:
    """Return reads a second: a base, and a rate for so many minutes from the 600th on."""
    values = np.full(many, base)
    values[600 : 600 + minutes] = rate
    return values


def test_a_gp2_volume_bursts_for_half_an_hour() -> None:
    """5.4 million credits at 3,000 over a base of 300 are 2,000 s."""
    gp2 = Limit(resource="iops", baseline=300, burst=3000, credits=5_400_000)

    assert gp2.lasts(3000) == 2000
    assert gp2.lasts(300) == float("inf")
    assert gp2.lasts(3001) == 0


@pytest.mark.parametrize(
    ("minutes", "rate", "fit"),
    [(20, 3000, Fit.FITS), (40, 3000, Fit.DOES_NOT_FIT), (5, 3100, Fit.DOES_NOT_FIT),
     (1, 299, Fit.FITS)],
)  # fmt: skip
def test_credits_last_as_long_as_they_do(minutes: int, rate: int, fit: Fit, tmp_path: Path) -> None:
    """Twenty minutes at 3,000 IOPS fit a gp2 of 100 GiB, forty do not, and 3,100 never do."""
    one = profile(read_iops=busy(minutes, rate), write_iops=0.0)
    made = judged(tmp_path, GP2, one)["iops"]

    assert made.fit is fit
    assert (known(made.multiple) >= 1) is (fit is Fit.FITS)
    assert made.required == max(rate, 100)


def test_growth_empties_the_bucket(tmp_path: Path) -> None:
    """What fits today does not with 1.15 times the load, and the multiple says so beforehand."""
    one = profile(read_iops=busy(38, 2500), write_iops=0.0)
    today = judged(tmp_path, GP2, one)["iops"]
    later = judged(tmp_path, GP2, one, growth=1.15)["iops"]

    assert today.fit is Fit.FITS
    assert later.fit is Fit.DOES_NOT_FIT
    assert 1 < known(today.multiple) < 1.15
    assert later.multiple == pytest.approx(known(today.multiple) / 1.15, rel=1e-3)
    assert "would be empty at" in later.words


def test_peaks_above_the_required_percentile_spend_credits_too(tmp_path: Path) -> None:
    """The 95th percentile is below the base; 25 minutes at 2,900 empty the bucket all the same."""
    one = profile(read_iops=busy(25, 2900, base=250.0), write_iops=0.0)
    text = GP2.replace("5_400_000", "1_000_000")
    made = judged(tmp_path, text, one, percentile=95.0)["iops"]
    kept = judged(tmp_path, GP2, one, percentile=95.0)["iops"]

    assert made.fit is Fit.DOES_NOT_FIT
    assert made.words.startswith("250/s of 300/s, but at higher peaks a full bucket would be empty")
    assert (kept.fit, kept.words) == (Fit.FITS, "250/s of 300/s")


def by_the_minute(demand: NDArray[np.float64], baseline: float, credits_: float) -> bool:
    """Return whether a bucket ever is empty, minute by minute."""
    level = credits_
    for rate in demand:
        level = min(credits_, level + (baseline - rate) * 60)
        if level < 0:
            return True
    return False


def test_the_bucket_is_that_of_a_loop_over_the_minutes(tmp_path: Path) -> None:
    """Against earning and spending minute by minute, for loads of every kind."""
    draw = random.Random(7)
    both = set()
    for _ in range(60):
        demand = np.array([draw.choice([0, 100, 400, draw.uniform(0, 3000)]) for _ in range(300)])
        text = GP2.replace("5_400_000", str(draw.choice([10_000, 100_000, 3_000_000])))
        one = profile(300, read_iops=demand, write_iops=0.0)
        made = judged(tmp_path, text, one)["iops"]
        limit = made.limit
        empty = by_the_minute(demand, known(limit.baseline), limit.credits)
        assert (made.fit is Fit.DOES_NOT_FIT) is empty
        both.add(empty)
    assert both == {True, False}


def test_a_profile_of_an_hour_cannot_prove_that_credits_last(tmp_path: Path) -> None:
    """What a day does to the bucket is not known, so it is unclear; below the base it fits."""
    hour = profile(60, read_iops=1000.0, write_iops=0.0)
    short = profile(10, read_iops=1000.0, write_iops=0.0)
    below = profile(10, read_iops=200.0, write_iops=0.0)

    assert judged(tmp_path, GP2, hour)["iops"].fit is Fit.UNCLEAR
    assert judged(tmp_path, GP2, short)["iops"].fit is Fit.UNCLEAR
    assert judged(tmp_path, GP2, below)["iops"].fit is Fit.FITS


def test_large_requests_count_as_several(tmp_path: Path) -> None:
    """A gp2 counts 256 KiB at a time: 100 reads of 1 MiB a second are 400."""
    one = profile(read_iops=100.0, write_iops=0.0, read_mbps=104.8576, write_mbps=0.0)
    text = GP2 + 'request_size = "256k"\n'

    assert judged(tmp_path, text, one)["iops"].required == pytest.approx(400)
    assert judged(tmp_path, GP2, one)["iops"].required == 100


@pytest.mark.parametrize("lacking", ["rows", "cells"])
@pytest.mark.parametrize(("known_minutes", "fit"), [(40, Fit.UNCLEAR), (1300, Fit.UNCLEAR),
                                                   (1400, Fit.FITS)])  # fmt: skip
def test_a_day_with_gaps_cannot_prove_that_credits_last(
    known_minutes: int, fit: Fit, lacking: str, tmp_path: Path
) -> None:
    """Rows at the begin and at the end of a day show nothing about the time between them."""
    half = known_minutes // 2
    is_known = (np.arange(1440) < half) | (np.arange(1440) >= 1440 - half)
    reads = np.where(np.arange(1440) < 20, 2000.0, 100.0)
    one = profile(read_iops=np.where(is_known, reads, np.nan), write_iops=0.0)
    if lacking == "rows":
        columns = {name: values[is_known] for name, values in one.columns.items()}
        one = replace(one, ends=one.ends[is_known], spans=one.spans[is_known], columns=columns)
    made = judged(tmp_path, GP2, one)["iops"]

    assert made.fit is fit
    assert (f"only {known_minutes / 1440:.1%} is known" in made.words) is (fit is Fit.UNCLEAR)


@pytest.mark.parametrize(("gap", "fit"), [(0, Fit.DOES_NOT_FIT), (10, Fit.DOES_NOT_FIT),
                                          (600, Fit.UNCLEAR)])  # fmt: skip
def test_a_gap_may_fill_the_bucket_again(gap: int, fit: Fit, tmp_path: Path) -> None:
    """Twice 25 minutes at 3,000 are too much, unless hours between them were idle."""
    reads = np.full(1440, 100.0)
    reads[:50] = 3000.0
    one = profile(read_iops=reads, write_iops=0.0)
    late = 60.0 * gap * (np.arange(1440) >= 25)
    made = judged(tmp_path, GP2, replace(one, ends=one.ends + late))["iops"]

    assert made.fit is fit
    assert ("not known" in made.words) is (fit is Fit.UNCLEAR)


ROUNDED_LOADS = [
    (3000, 1.1, 0.0), (100, 1.1, 0.0), (1000, 1.15, 0.2), (700, 1.1, 0.1), (3, 1.1, 0.3),
    (4.4, 1.5, 0.0), (250, 1.2, 0.35),
]  # fmt: skip


@pytest.mark.parametrize(("measured", "growth", "headroom"), ROUNDED_LOADS)
@pytest.mark.parametrize("limit", ["base alone", "base of a burst", "burst"])
def test_a_limit_that_equals_the_requirement_is_enough(
    measured: float, growth: float, headroom: float, limit: str, tmp_path: Path
) -> None:
    """3,000 x 1.1 is 3300.0000000000005 for a computer; a limit that lacks a thousandth is less."""
    with_credits = "burst_iops = {burst}\niops_credits = 9e12\n"
    text = {
        "base alone": "baseline_iops = {0}\n",
        "base of a burst": "baseline_iops = {0}\n" + with_credits.format(burst=9e9),
        "burst": "baseline_iops = 2.5\n" + with_credits.format(burst="{0}"),
    }[limit]
    one = profile(read_iops=busy(20, measured, measured / 4), write_iops=0.0)
    asked = float(f"{measured * growth * (1 + headroom):.10g}")
    fits, less = (
        judged(tmp_path, "[volume]\n" + text.format(rate), one, growth=growth, headroom=headroom)
        for rate in (asked, asked * 0.999)
    )

    assert fits["iops"].fit is Fit.FITS
    assert known(fits["iops"].multiple) >= 1
    assert "too little" not in fits["iops"].words
    assert "too little" in less["iops"].words or limit == "base of a burst"


LARGE_REQUESTS = """
[volume]
baseline_iops = 1300
request_size = "256k"
"""


def test_small_reads_and_large_writes_are_counted_apart(tmp_path: Path) -> None:
    """1,000 reads of 8 KiB are 1,000, and 100 writes of 1 MiB are 400 more."""
    one = profile(read_iops=1000.0, write_iops=100.0, read_mbps=8.192, write_mbps=104.8576)
    made = judged(tmp_path, LARGE_REQUESTS, one, growth=1.5)["iops"]

    assert made.required == pytest.approx(1400 * 1.5)
    assert made.fit is Fit.DOES_NOT_FIT


@pytest.mark.parametrize("empty", [0, 1, 700, 1439])
def test_a_row_without_bytes_changes_nothing(empty: int, tmp_path: Path) -> None:
    """500 reads of 1 MiB a second are 2,000 whether or not each minute has its bytes."""
    bytes_ = np.full(1440, 524.288)
    bytes_[empty] = np.nan
    one = profile(read_iops=500.0, write_iops=0.0, read_mbps=bytes_, write_mbps=0.0)
    made = judged(tmp_path, LARGE_REQUESTS, one)["iops"]

    assert made.required == pytest.approx(2000)
    assert made.fit is Fit.DOES_NOT_FIT


def test_windows_are_of_counted_requests(tmp_path: Path) -> None:
    """Five seconds with many small reads do not make the large ones of the minute any fewer."""
    reads, megabytes = np.full(600, 400.0), np.full(600, 419.4304)
    reads[300:305], megabytes[300:305] = 5000.0, 40.96
    one = profile(600, read_iops=reads, write_iops=0.0, read_mbps=megabytes, write_mbps=0.0)
    one = replace(one, ends=START + 1.0 + np.arange(600.0), spans=np.ones(600))

    for window in (1.0, 10.0, 60.0):
        counted = np.maximum(reads, megabytes * 1e6 / 2**18)
        means = np.convolve(counted, np.ones(int(window)) / window, "valid")
        made = judged(tmp_path, LARGE_REQUESTS, one, window=window)["iops"]
        assert made.required == pytest.approx(means.max())


def test_every_kind_of_limit_takes_part(tmp_path: Path) -> None:
    """CPU with credits, memory, network, throughput; what the profile lacks is unclear."""
    text = """
    [volume]
    baseline_mbps = 100
    [cpu]
    cores = 2
    baseline_cores = 0.4
    credits = 576
    [memory]
    size = "4G"
    [network]
    baseline_mbps = 10
    """
    one = profile(
        read_mbps=80.0, write_mbps=30.0, cpu_cores=busy(120, 1.9, 0.2), memory_bytes=5.0 * 2**30,
        net_in_mbps=1.0,
    )  # fmt: skip
    made = judged(tmp_path, text, one)

    assert made["mbps"].fit is Fit.DOES_NOT_FIT
    assert made["cpu"].fit is Fit.FITS
    assert made["memory"].fit is Fit.DOES_NOT_FIT
    assert made["net_in"].fit is Fit.FITS
    assert made["net_in"].multiple == pytest.approx(10)
    assert made["net_out"].fit is Fit.UNCLEAR
    assert "not in the profile" in made["net_out"].words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[volume]\nbaseline_iosp = 1\n", r"\[volume\] baseline_iosp: .* mean baseline_iops"),
        ("[disk]\nx = 1\n", "disk: there is no such key"),
        ("[cpu]\nbaseline_cores = 1\n", r"\[cpu\] the key 'cores' is missing"),
        ("[volume]\nbaseline_iops = 0\n", "greater than 0"),
        ("[volume]\nbaseline_iops = inf\n", "a number that a machine has"),
        ("[volume]\nbaseline_iops = nan\n", "greater than 0"),
        ("[volume]\nburst_iops = 5\niops_credits = 5\n", "needs baseline_iops"),
        ("[volume]\nbaseline_iops = 9\nburst_iops = 5\n", "burst_iops is below baseline_iops"),
        ("[volume]\nbaseline_iops = 1\nburst_iops = 5\n", "burst_iops needs iops_credits"),
        ('[memory]\nsize = "much"\n', "a size such as 8k"),
        ("[memory", "target.toml"),
        ("volume = 3\n", "volume: "),
    ],
)  # fmt: skip
def test_a_target_that_is_wrong_is_refused_in_a_sentence(
    text: str, words: str, tmp_path: Path
) -> None:
    """Which names the file, the section and the key."""
    with pytest.raises(Impossible, match=words) as refused:
        loaded(tmp_path, text)
    assert "target.toml" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "column"),
    [("[volume]\nburst_iops = 3000\n", "read_iops"), ("[volume]\nburst_mbps = 3000\n", "read_mbps"),
     ("[network]\nburst_mbps = 3000\n", "net_in_mbps")],
)  # fmt: skip
@pytest.mark.parametrize(
    ("rate", "fit"), [(2000.0, Fit.UNCLEAR), (3001.0, Fit.DOES_NOT_FIT), (0.0, Fit.FITS)]
)
def test_a_burst_without_a_base_rate_proves_no_fit(
    text: str, column: str, rate: float, fit: Fit, tmp_path: Path
) -> None:
    """For how long a rate below the burst is given is not known; one above it never is."""
    columns: dict[str, Any] = {column.replace("read", "write"): 0.0, column: rate, "commits": 1.0}
    one = profile(**columns)
    (made,) = (each for each in judged(tmp_path, text, one).values() if "not in" not in each.words)

    assert made.fit is fit
    assert made.required == rate
    assert ("base rate" in made.words) is (fit is Fit.UNCLEAR)


def test_a_target_that_says_nothing_limits_nothing(tmp_path: Path) -> None:
    """An empty file is a target without limits."""
    assert target.limits(loaded(tmp_path, "")) == ()


def test_a_backup_by_others_spends_no_credits(tmp_path: Path) -> None:
    """Of two hours at 2,900 reads, a server that missed 100 blocks did a small part."""
    one = profile(read_iops=busy(120, 2900), read_mbps=busy(120, 290, 0.8), write_iops=50.0,
                  write_mbps=0.5, blocks_read=100.0)  # fmt: skip
    counted = GP2 + 'request_size = "4k"\n'
    for text, required in ((GP2, 150), (counted, 100 * 2 + 0.5e6 / 4096)):
        made = judged(tmp_path, text, one)["iops"]
        assert made.required == pytest.approx(required)
        assert made.fit is Fit.FITS
