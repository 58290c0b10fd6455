"""Two kernels compared: right and wrong verdicts over seeded draws, and like with like only."""

import numpy as np
import pytest

from replayer.analysis.comparison import Side, Unit, Verdict, compare
from replayer.analysis.difference import Sort
from replayer.errors import Impossible
from replayer.model import EngineFacts, Status


@pytest.fixture(autouse=True)
def fewer_resamples(monkeypatch):
    """Thousands of comparisons with fewer resamples each: the interval only gets rougher."""
    monkeypatch.setattr("replayer.analysis.statistics.RESAMPLES", 400)
    monkeypatch.setattr("replayer.analysis.statistics.ratio.__kwdefaults__", {"resamples": 400})


@pytest.fixture
def side(run_of):
    """Return a function that makes a side of runs with one repeat each."""

    def make(name, values, **more):
        return Side(name, tuple(run_of([value], **more) for value in values))

    return make


def verdicts(comparison):
    """Return metric -> verdict."""
    return {row.metric: row.verdict for row in comparison.rows}


def test_a_against_a_is_rarely_called_different(side):
    """Ten runs against ten of the same machine: better or worse in at most 5 percent of 1,000."""
    random = np.random.default_rng(1)
    wrong = 0
    for _ in range(1000):
        found = compare(*(side(name, random.normal(1000, 30, 10)) for name in "AB"))
        wrong += verdicts(found)["sessions.riops"] in (Verdict.BETTER, Verdict.WORSE)

    assert wrong <= 50


def test_the_family_of_all_metrics_is_rarely_called_different(run_of):
    """With 8 metrics, any of them comes out as different in at most 5 percent of 2,000 draws."""
    random = np.random.default_rng(2)
    names = [f"sessions.m{number}" for number in range(7)]
    wrong = 0
    for _ in range(2000):
        sides = [
            Side(
                name,
                (
                    run_of(
                        random.normal(1000, 10, 8),
                        **{metric: random.normal(50, 1, 8) for metric in names},
                    ),
                ),
            )
            for name in "AB"
        ]
        found = compare(*sides)
        wrong += bool({Verdict.BETTER, Verdict.WORSE} & set(verdicts(found).values()))

    assert found.family == 8
    assert wrong <= 100


def test_a_shift_of_three_percent_is_found(side):
    """10 against 10 runs, 1 percent of noise: a true 3 percent is found in 95 percent of draws."""
    random = np.random.default_rng(3)
    found = 0
    for _ in range(400):
        base, other = (side(n, random.normal(m, 10, 10)) for n, m in (("A", 1000), ("B", 970)))
        found += verdicts(compare(base, other))["sessions.riops"] is Verdict.WORSE

    assert found >= 380


def test_three_against_three_is_unclear(side):
    """Three runs a side can never be significant, however far apart, and it says how many would."""
    row = compare(side("A", [100, 101, 102]), side("B", [200, 201, 202])).rows[0]

    assert row.verdict is Verdict.UNCLEAR
    assert row.more == 1


def test_what_would_settle_many_metrics_counts_their_correction(run_of):
    """Three runs without noise need one more for one metric, and three more for twenty."""
    names = [f"sessions.m{number}" for number in range(19)]

    def runs(level):
        return tuple(
            run_of([level + i], **{name: [level + i] for name in names}) for i in (0.0, 0.1, 0.2)
        )

    found = compare(Side("A", runs(100)), Side("B", runs(200)))

    assert found.family == 0
    assert {row.more for row in found.rows} == {3}


def test_boots_with_a_shared_offset_make_no_false_verdicts(run_of):
    """Runs share their boot's offset of 3 percent: boots are the unit, and A against A is quiet."""
    random = np.random.default_rng(4)

    def boots(name):
        return Side(
            name,
            tuple(
                run_of([mean * (1 + random.normal(0, 0.002))], boot=f"{name}{boot}")
                for boot in range(5)
                for mean in [1000 * (1 + random.normal(0, 0.03))]
                for _ in range(3)
            ),
        )

    wrong = 0
    for _ in range(300):
        found = compare(boots("A"), boots("B"))
        wrong += verdicts(found)["sessions.riops"] in (Verdict.BETTER, Verdict.WORSE)

    assert found.unit is Unit.BOOT
    assert len(found.rows[0].base_values) == 5
    assert wrong <= 15


def test_boots_are_found_different_where_they_are(run_of):
    """Six boots a side that differ by 10 percent with 1 percent between boots are told apart."""
    random = np.random.default_rng(5)
    sides = [
        Side(
            name,
            tuple(
                run_of(
                    random.normal(mean * (1 + random.normal(0, 0.01)), 2, 3), boot=f"{name}{boot}"
                )
                for boot in range(6)
            ),
        )
        for name, mean in (("A", 1000), ("B", 1100))
    ]
    found = compare(*sides)

    assert found.unit is Unit.BOOT
    assert verdicts(found)["sessions.riops"] is Verdict.BETTER
    assert found.rows[0].low <= 1.1 <= found.rows[0].high


def test_the_unit_is_the_boot_else_the_run_else_the_repeat(run_of):
    """Several boots count as boots, several runs of one boot as runs, one run a side as repeats."""
    one, two = run_of([1, 1, 1], boot="x"), run_of([1, 1, 1], boot="y")
    third, fourth = run_of([1, 1, 1], boot="z"), run_of([1, 1, 1], boot="z")

    assert compare(Side("A", (one, two)), Side("B", (third,))).unit is Unit.BOOT
    assert compare(Side("A", (third, fourth)), Side("B", (one,))).unit is Unit.RUN
    repeats = compare(Side("A", (one,)), Side("B", (two,)))
    assert repeats.unit is Unit.REPEAT
    assert len(repeats.rows[0].base_values) == 3
    assert "run to run" in repeats.worth


def test_unknown_boots_count_as_runs(run_of):
    """Runs that do not say from which boot they are, as imported ones, count each by itself."""
    sides = [Side(n, tuple(run_of([1], host={"boot.id": None}) for _ in range(2))) for n in "AB"]

    assert compare(*sides).unit is Unit.RUN


def test_same_needs_the_interval_within_the_threshold(side):
    """A shift of 0.2 percent is the same at 2 percent, and not at 0.1 percent."""
    random = np.random.default_rng(6)
    base, other = (side(n, random.normal(m, 1, 20)) for n, m in (("A", 1000), ("B", 1002)))

    assert compare(base, other).rows[0].verdict is Verdict.SAME
    assert compare(base, other, threshold=0.001).rows[0].verdict is Verdict.BETTER


def test_less_is_better_where_the_metric_says_so(run_of):
    """A p99 that doubled is worse, with a ratio of 2."""
    sides = [
        Side(n, tuple(run_of([1000 + i], **{"sessions.p99": [m + i / 1e4]}) for i in range(6)))
        for n, m in (("A", 0.1), ("B", 0.2))
    ]
    row = next(row for row in compare(*sides).rows if row.metric == "sessions.p99")

    assert (row.verdict, round(row.ratio, 2)) == (Verdict.WORSE, 2.0)
    assert row.change == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize(
    ("base", "other", "verdict"),
    [
        ([0.0] * 6, [0.0] * 6, Verdict.SAME),
        ([0.0] * 6, [5.0, 6, 7, 8, 9, 10], Verdict.BETTER),
        ([-5.0, -6, -7, -8, -9, -10], [5.0, 6, 7, 8, 9, 10], Verdict.BETTER),
    ],
)
def test_zero_and_negative_values_have_a_verdict_and_no_ratio(side, base, other, verdict):
    """Values without a ratio are still ranked, and the row says why there is none."""
    row = compare(side("A", base), side("B", other)).rows[0]

    assert (row.verdict, row.ratio) == (verdict, None)
    assert "zero or below" in row.note


def test_values_that_are_no_numbers_do_not_count(side):
    """NaN and infinity are left out and named."""
    found = compare(side("A", [1, 2, float("nan"), 3]), side("B", [1, 2, 3, float("inf")]))

    assert len(found.rows[0].base_values) == len(found.rows[0].other_values) == 3
    assert sum("does not count" in warning for warning in found.warnings) == 2


def test_warming_repeats_are_kept_but_not_counted(run_of):
    """The first repeats, slower by a third, do not count; the comparison names them."""
    warm = run_of([600, 750, 1000, 1001, 999, 1000, 1002])
    found = compare(Side("A", (warm,)), Side("B", (run_of([1000] * 7),)))

    assert found.rows[0].base_values == (1000, 1001, 999, 1000, 1002)
    assert any("first 2 of 7 repeats" in warning for warning in found.warnings)


def test_a_run_that_never_settles_says_so(run_of):
    """A run whose repeats only rise counts in full, with a warning."""
    found = compare(Side("A", (run_of([100, 200, 300, 400, 500]),)), Side("B", (run_of([1] * 5),)))

    assert any("never settled" in warning for warning in found.warnings)
    assert len(found.rows[0].base_values) == 5


def test_metrics_without_a_direction_have_no_verdict(run_of):
    """A row count is shown, not judged, and no part of the family."""
    sides = [Side(n, (run_of([1, 2, 3, 4], **{"build.rows": [7, 7, 7, 7]}),)) for n in "AB"]
    found = compare(*sides)
    row = next(row for row in found.rows if row.metric == "build.rows")

    assert (row.verdict, found.family) == (None, 1)


def test_only_the_metrics_asked_for_are_compared(run_of):
    """--metric chooses before looking, and so makes the family smaller."""
    sides = [Side(n, (run_of([1, 2, 3], **{"sessions.p99": [1, 2, 3]}),)) for n in "AB"]

    assert [row.metric for row in compare(*sides, metrics=["*.p99"]).rows] == ["sessions.p99"]
    with pytest.raises(Impossible, match="no metric like walk"):
        compare(*sides, metrics=["walk.*"])


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"workload": "smoke"}, "workload.name"),
        (
            {"spec": {"step": "sessions", "name": "sessions", "num_threads": 8}},
            "workload.sessions.num_threads",
        ),
        (
            {
                "engine": EngineFacts(
                    name="postgres",
                    version="17.2",
                    place="private",
                    settings={"shared_buffers": "128MB"},
                )
            },
            "engine.version",
        ),
        (
            {
                "engine": EngineFacts(
                    name="postgres",
                    version="18.1",
                    place="private",
                    settings={"shared_buffers": "1GB"},
                )
            },
            "engine.settings.shared_buffers",
        ),
        ({"build.rows": [5, 5, 5]}, "data.sessions.rows"),
    ],
)
def test_unlike_work_is_refused_unless_allowed(run_of, change, key):
    """Other workloads, settings, versions, row counts: refused by name; allowed, it is listed."""
    rows = {} if "build.rows" not in change else {"build.rows": [4, 4, 4]}
    base, other = Side("A", (run_of([1, 2, 3], **rows),)), Side("B", (run_of([1, 2, 3], **change),))

    with pytest.raises(Impossible, match=f"--allow {key}"):
        compare(base, other)
    found = compare(base, other, allowed=[key])
    assert Sort.EXPLAINS in {d.sort for d in found.differences if d.key == key}


def test_differences_are_sorted_by_what_they_mean(run_of):
    """The kernel was asked for, the scheduler may explain, the boot id is noise."""
    base = Side(
        "A",
        (
            run_of(
                [1],
                kernel="6.1",
                boot="1",
                host={"device.scheduler": "none", "cpu.mhz": 2400.0, "fs.type": "ext4"},
            ),
        ),
    )
    other = Side(
        "B",
        (
            run_of(
                [1],
                kernel="6.12",
                boot="2",
                host={"device.scheduler": "mq-deadline", "cpu.mhz": 2401.0, "fs.type": "ext4"},
            ),
        ),
    )
    sorts = {d.key: d.sort for d in compare(base, other, by="host.kernel.release").differences}

    assert sorts == {
        "host.kernel.release": Sort.ASKED,
        "host.device.scheduler": Sort.EXPLAINS,
        "host.boot.id": Sort.NOISE,
        "host.cpu.mhz": Sort.NOISE,
    }


def test_a_boot_file_in_the_command_line_is_no_difference(run_of):
    """The kernel's file name on its command line differs by nature, mitigations=off does not."""

    def one(name, kernel, more=""):
        line = f"BOOT_IMAGE=/vmlinuz-{kernel} root=/dev/vda{more}"
        return Side(name, (run_of([1], kernel=kernel, host={"kernel.cmdline": line}),))

    plain = compare(one("A", "6.1"), one("B", "6.12"))
    off = compare(one("A", "6.1"), one("B", "6.12", " mitigations=off"))

    assert "host.kernel.cmdline" not in {d.key for d in plain.differences}
    assert "host.kernel.cmdline" in {d.key for d in off.differences}


def test_a_run_on_both_sides_is_refused(run_of):
    """A run is not compared with itself."""
    run = run_of([1])

    with pytest.raises(Impossible, match="both sides"):
        compare(Side("A", (run,)), Side("B", (run,)))


def test_an_interrupted_run_counts_with_a_warning(run_of):
    """Finished steps of an interrupted run count, and it is said."""
    found = compare(Side("A", (run_of([1], status=Status.INTERRUPTED),)), Side("B", (run_of([1]),)))

    assert any("interrupted" in warning for warning in found.warnings)


def test_a_control_that_moved_is_told(run_of):
    """A CPU that lost a tenth from before to after marks the run, and a slower one the side."""
    steady = {"cpu.before": (100.0, 101, 99, 100), "cpu.after": (100.0, 101, 99, 100)}
    moved = {"cpu.before": (100.0, 101, 99, 100), "cpu.after": (90.0, 91, 89, 90)}
    slow = {"cpu.before": (80.0, 81, 79, 80), "cpu.after": (80.0, 81, 79, 80)}

    def warnings(a, b):
        sides = Side("A", (run_of([1], control=a),)), Side("B", (run_of([1], control=b),))
        return " ".join(compare(*sides).warnings)

    assert "moved by -10.0%" in warnings(moved, steady)
    assert "-20.0% in B" in warnings(steady, slow)
    assert "control" not in warnings(steady, steady)


def test_an_emulated_processor_is_told(run_of):
    """Figures of a machine that qemu emulates come with what they are worth."""
    host = {"cpu.model": "QEMU TCG CPU version 2.5+"}
    emulated, real = (
        compare(*(Side(n, (run_of([1], host=facts),)) for n in "AB")) for facts in (host, {})
    )

    assert any("nothing about hardware" in warning for warning in emulated.warnings)
    assert not any("nothing about hardware" in warning for warning in real.warnings)
