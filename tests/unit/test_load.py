"""Mixes, intended starts, requests and counts of a load, without a server."""

from array import array
from types import SimpleNamespace
from typing import Any, Literal, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

from replayer.engines.wire_session import (
    LOST,
    ConnectionGone,
    DriverStatement,
    Packing,
    WireSession,
    check_refusal,
)
from replayer.lazy_import import Later
from replayer.load import cpu_burn
from replayer.load import mix as mixes
from replayer.load.arrivals import starts
from replayer.load.level import LevelRequest
from replayer.load.mix import WeightedMix
from replayer.load.mix_parts import Hot
from replayer.load.requests import Keys, Requests
from replayer.load.statement_counts import LoadCounts, Tallying
from replayer.model import Better, Measurement, Status, StepResult

stats = Later("scipy.stats")
"""Not imported by the workers that run other tests."""

Numbers = NDArray[Any]
Arrivals = Literal["poisson", "uniform"]

SECOND = 10**9


def drawn(rate: float, seconds: float, arrivals: Arrivals, seed: int = 1) -> Numbers:
    """Return all intended starts of a window."""
    random = np.random.Generator(np.random.PCG64(seed))
    return np.concatenate(list(starts(rate, seconds, arrivals, random)))


@pytest.mark.parametrize("arrivals", ["poisson", "uniform"])
@pytest.mark.parametrize(("rate", "seconds"), [(500, 60), (5000, 1.7), (3.5, 10), (0.2, 3)])
def test_exactly_as_many_arrive_as_the_rate_says(
    arrivals: Arrivals, rate: float, seconds: float
) -> None:
    """Chance decides when, never how many: a rate is held to the statement, in order."""
    times = drawn(rate, seconds, arrivals)

    assert len(times) == round(rate * seconds)
    assert (np.diff(times) >= 0).all()
    assert not len(times) or (times[0] >= 0 and times[-1] < seconds * SECOND)


def test_poisson_arrivals_are_those_of_a_poisson_process() -> None:
    """Gaps are exponential, and counts of short and of long times vary as much as their mean."""
    times = drawn(1000, 200, "poisson")
    gaps = np.diff(times) / SECOND

    assert stats.kstest(gaps, "expon", args=(0, 1e-3)).pvalue > 0.001
    for width in (0.01, 0.1, 1.0):
        counts = np.bincount((times / SECOND / width).astype(int))
        assert counts.var() / counts.mean() == pytest.approx(1, abs=5 * (2 / len(counts)) ** 0.5)


def test_arrivals_depend_on_the_seed_alone() -> None:
    """The same seed gives the same intended starts."""
    assert (drawn(700, 5, "poisson", 3) == drawn(700, 5, "poisson", 3)).all()
    assert (drawn(700, 5, "poisson", 3) != drawn(700, 5, "poisson", 4)).any()


def test_a_mix_is_a_table_or_a_text() -> None:
    """--set takes the same as a workload file; shares are of all weights."""
    table = mix_of(point=70, update=20, insert=10, hot="20%/80%", cpu="2ms")

    assert WeightedMix.model_validate("point=70 update=20,insert=10 hot=20%/80% cpu=2ms") == table
    assert table.shares == {"point": 0.7, "update": 0.2, "insert": 0.1}
    assert table.writes
    assert not WeightedMix(point=1).writes
    assert table.hot_share == (0.2, 0.8)
    assert table.cpu == 0.002
    assert WeightedMix.model_validate(table.model_dump()) == table
    assert str(table.model_dump()) == "point=70 update=20 insert=10 hot=20%/80% cpu=0.002"
    assert WeightedMix(point=1, range=1, work_unit=16).longest == 16
    assert WeightedMix(point=1, work_unit=16).longest == 1


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("", "a mix needs a weight above 0 of one of point"),
        ("point", "'point' must be name=number"),
        ("point=-1", "greater than or equal to 0"),
        ("point=1 pint=2", "pint is unknown - did you mean point"),
        ({"point": 1, "hot": "20/80"}, "such as 20%/80%"),
        ({"point": 1, "hot": "100%/80%"}, "below 100%"),
        ({"point": 1, "cpu": "0s"}, "greater than 0"),
        ({"point": 1, "hit_ratio": 2}, "less than or equal to 1"),
        ("point=inf range=1", "finite number"),
        ("point=1e308 range=1e308", "less than or equal to"),
        ("point=1 cpu=1ms cpu_speed=inf", "finite number"),
    ],
)
def test_a_mix_that_cannot_be_is_refused(given: Any, sentence: str) -> None:
    """What is wrong is said, with what would be right."""
    with pytest.raises(ValidationError, match=sentence):
        WeightedMix.model_validate(given)


def test_what_a_mix_cannot_stand_for_is_named() -> None:
    """Joins and the application's locks always, the CPU where nobody says what it was."""
    assert any("joins" in words for words in WeightedMix(point=1).untested())
    assert any("CPU" in words for words in WeightedMix(point=1).untested())
    assert not any("CPU" in words for words in mix_of(point=1, cpu="1ms").untested())


def test_work_is_carried_by_the_speed_of_a_core() -> None:
    """A core that is half as fast needs twice the time."""
    assert mixes.carried(0.002, 100.0, 50.0) == 0.004


def test_cpu_is_carried_by_the_probes_that_both_machines_ran() -> None:
    """Half the passes and twice the bytes cancel out; without a probe here nothing is carried."""
    values = {cpu_burn.CPU_METRIC: 50.0, cpu_burn.MEMORY_METRIC: 4e9}
    probe = StepResult(
        step="probe", name="p", repeat=1, status=Status.DONE, started="", elapsed=1, spec={},
        measurements=tuple(
            Measurement(metric=metric, value=value, unit="", better=Better.MORE)
            for metric, value in values.items()
        ),
    )  # fmt: skip
    slower = mix_of(point=1, cpu="2ms", cpu_speed=100)
    both = mix_of(point=1, cpu="2ms", cpu_speed=100, memory_speed=2e9)

    assert cpu_burn.cpu_here(slower, [probe])[0] == pytest.approx(0.004)
    assert cpu_burn.cpu_here(both, [probe])[0] == pytest.approx(0.002)
    seconds, words = cpu_burn.cpu_here(slower, [])
    assert seconds == pytest.approx(0.002)
    assert "not carried" in words
    assert cpu_burn.cpu_here(mix_of(point=1, cpu="2ms"), [probe]) == (0.002, "")


@pytest.mark.parametrize(("cpu", "rate"), [("5ms", None), ("0.15s", None), ("0.7s", None),
                                           ("2s", None), ("2s", 0.001)])  # fmt: skip
def test_long_statements_burn_what_is_wanted(
    monkeypatch: pytest.MonkeyPatch, cpu: str, rate: float | None
) -> None:
    """Also those that hardly or never end within a window, and those that are due in none."""
    own, unit = 20e-6, 1e-7

    def measured(asked: LevelRequest, *_: Any) -> Any:
        cost = own + asked.burn * unit
        begun = float(asked.rate is None)
        done = int(asked.seconds / cost * begun)
        return SimpleNamespace(
            asked=asked, seconds=asked.seconds, sustained=True, offered=begun, in_flight=begun,
            counts={"point": done}, service=SimpleNamespace(mean_ns=cost * 1e9 * begun),
            use=SimpleNamespace(server=begun, seconds=asked.seconds),
        )  # fmt: skip

    monkeypatch.setattr(cpu_burn, "measure_level", measured)
    tables: Any = None
    mix = mix_of(point=1, cpu=cpu)
    asked = LevelRequest(sessions=1, seconds=60, rate=rate, mix=mix, tables=tables)
    context: Any = SimpleNamespace(done=())
    found = cpu_burn.calibrate(asked, context, tables)

    assert own + found.units * unit == pytest.approx(found.wanted_seconds, rel=cpu_burn.CLOSE)
    assert found.got_seconds == pytest.approx(found.wanted_seconds, rel=cpu_burn.CLOSE)


def mix_of(**words: Any) -> WeightedMix:
    """Return a mix of what a user writes."""
    return WeightedMix(**words)


def unpacked(payload: bytes) -> list[int]:
    """Return the numbers of a request, each of which has the wire's prefix."""
    cells = [payload[start : start + 12] for start in range(0, len(payload), 12)]
    assert all(cell.startswith(b"len:") for cell in cells)
    return [int.from_bytes(cell[4:], "big", signed=True) for cell in cells]


def requests_of(
    *statements: DriverStatement,
    rows: int = 1000,
    hot: Hot | None = None,
    process: int = 0,
    seed: int = 1,
    number: int = 40_000,
) -> tuple[Numbers, list[list[int]]]:
    """Return the places of many requests, and their parameters as rows of numbers."""
    made = Requests(statements, Keys(rows, hot), process, seed, Packing(">", b"len:"))
    places: list[int] = []
    numbers: list[list[int]] = []
    while len(places) < number:
        for place, payload in made.batch():
            places.append(place)
            numbers.append(unpacked(payload))
    return np.array(places), numbers


def statement(
    kind: str = "range",
    names: tuple[str, ...] = ("first", "last", "burn"),
    weight: float = 1.0,
    span: int = 1,
    burn: float = 0.0,
) -> DriverStatement:
    """Return a statement without a text."""
    return DriverStatement(kind, "", names, weight, span, burn)


def test_requests_come_in_the_proportions_of_their_weights() -> None:
    """Every kind has its share of all statements, within what chance allows."""
    places, _ = requests_of(statement(weight=7), statement(weight=2), statement(weight=1))
    shares = np.bincount(places) / len(places)

    assert shares == pytest.approx([0.7, 0.2, 0.1], abs=0.012)


@pytest.mark.parametrize("span", [1, 7, 1000])
def test_every_key_is_there_and_every_first_key_alike(span: int) -> None:
    """A range lies within the table, from the first key to the last, and none is preferred."""
    _, numbers = requests_of(statement(span=span))
    keys = np.array(numbers)

    assert keys[:, 0].min() == 1
    assert keys[:, 1].max() == 1000
    assert (keys[:, 1] - keys[:, 0] == span - 1).all()
    counts = np.bincount(keys[:, 0])[1:]
    assert len(counts) == 1001 - span
    assert counts.std() <= 1.2 * counts.mean() ** 0.5


def test_hot_rows_get_their_share_of_the_accesses() -> None:
    """20%/80%: one row in five has four of five accesses, and the others share the rest evenly."""
    _, numbers = requests_of(statement(), hot=Hot(0.2, 0.8))
    keys = np.array(numbers)[:, 0]
    counts = np.bincount(keys, minlength=1001)[1:]

    assert (keys <= 200).mean() == pytest.approx(0.8, abs=0.01)
    assert counts.min() > 0
    assert counts[:200].mean() == pytest.approx(16 * counts[200:].mean(), rel=0.05)


def test_inserts_of_all_processes_have_keys_of_their_own() -> None:
    """Keys rise without a gap, those of another process lie elsewhere, and none is negative."""
    one, other = (
        [keys for keys, _ in requests_of(statement("insert", ("first", "last"), span=90),
                                         process=process, number=300)[1]]
        for process in (0, 1)
    )  # fmt: skip

    assert np.diff(one).tolist() == [1] * (len(one) - 1)
    assert not set(one) & set(other)
    assert requests_of(statement("insert", ("last",), span=90))[1][0] == [90]


def test_burn_is_exact_on_average() -> None:
    """Units are whole numbers that chance rounds, so that their mean is what was asked for."""
    _, numbers = requests_of(statement(names=("burn",), burn=2.3))
    units = np.array(numbers)[:, 0]

    assert set(units.tolist()) == {2, 3}
    assert units.mean() == pytest.approx(2.3, abs=0.01)


def test_requests_depend_on_the_seed_and_the_process() -> None:
    """A run can be repeated request by request; processes do not walk in step."""
    same = [requests_of(statement(), number=200)[1] for _ in range(2)]

    assert same[0] == same[1]
    assert same[0] != requests_of(statement(), number=200, process=1)[1]
    assert same[0] != requests_of(statement(), number=200, seed=2)[1]


def test_times_become_counts_and_lags() -> None:
    """Service is from the actual start, response from the intended one, lag is between them."""
    tallying = Tallying(["point", "update"], 2.0)
    begin = 7 * SECOND
    # place, intended, begun, done
    rows = [(0, 0.1, 0.1, 0.2), (1, 0.5, 1.5, 1.9), (0, 1.2, 1.9, 2.5), (-1, 1.3, 1.3, 1.4)]
    flat = [
        number
        for place, *times in rows
        for number in (place, *(begin + round(time * SECOND) for time in times))
    ]
    tallying.add(array("q", flat), begin)
    tally = tallying.finish()

    assert tally.completed == {"point": 1, "update": 1}
    assert {kind: times.operations for kind, times in tally.response.items()} == {
        "point": 2, "update": 1}  # fmt: skip
    assert tally.failed == 1
    # The last one began at 1.9 of a window of 2 s.
    assert tally.busy_ns == round(0.6 * SECOND)
    assert tally.service["point"].total_ns == round(0.7 * SECOND)
    assert tally.service["update"].total_ns == round(0.4 * SECOND)
    assert tally.response["point"].total_ns == round(1.4 * SECOND)
    assert tally.response["update"].most_ns == round(1.4 * SECOND)
    assert tally.begun.tolist() == [2, 1]
    assert tally.lag_ns.tolist() == [SECOND, round(0.7 * SECOND)]
    assert tally.answers.tolist() == [1, 1, 1]


def test_counts_of_processes_are_added() -> None:
    """All processes are one load; one that ended sooner has no answers later."""
    parts = []
    for begun in (1.0, 5.0):
        tallying = Tallying(["point"], 10.0)
        times = [round(second * SECOND) for second in (begun, begun, begun + 0.5)]
        tallying.add(array("q", [0, *times]), 0)
        parts.append(tallying.finish())
    whole = LoadCounts.of(parts)

    assert whole.completed == {"point": 2}
    assert whole.answers.tolist() == [0, 1, 0, 0, 0, 1]
    assert whole.service["point"].operations == 2


@pytest.mark.parametrize(
    ("sqlstate", "code", "refused"),
    [
        *((state, "0", True) for state in ("57014", "42501", "22012", "HY000", "3D000", "25P02")),
        # The server ends the session or itself, or sent no error of its own.
        *((state, "0", False) for state in ("57P01", "57P02", "08S01", "70100", LOST)),
        *((state, state, False) for state in ("25P03", "25P04", "57P05")),
        *(("HY000", code, False) for code in ("3032", "3169", "4031")),
        ("it printed nothing", "0", False),
    ],
)
def test_a_refused_statement_is_not_a_lost_connection(
    sqlstate: str, code: str, *, refused: bool
) -> None:
    """An answer with the server's own error leaves the session there; the error has both."""
    session = cast(
        "WireSession", SimpleNamespace(sqlstate=sqlstate, refusal=lambda: (code, "no such thing"))
    )
    with pytest.raises(ConnectionGone, match="no such thing") as caught:
        check_refusal(session)

    assert caught.value.refused is refused
    assert caught.value.sqlstate == sqlstate
