"""What gives first: simulated closed networks of queues, and the words of the answer."""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from replayer.analysis.capacity import saturation
from replayer.analysis.capacity.saturation import LevelPoint, Mean, ResourceUse, WaitReason

LEVELS = (1, 2, 4, 8, 16, 32)
LINES = {
    "CPU": WaitReason.CPU,
    "device reads": WaitReason.READS,
    "log flushes": WaitReason.LOG,
    "row locks": WaitReason.LOCKS,
}


def solved(
    demands: Mapping[str, float], sessions: int, think: float = 0.0
) -> tuple[float, float, dict[str, float]]:
    """Return throughput, response and mean queues of a closed network, by mean value analysis.

    Exact for a product-form network of single servers (Reiser and Lavenberg, 1980).
    """
    queues = dict.fromkeys(demands, 0.0)
    throughput = response = 0.0
    for number in range(1, sessions + 1):
        times = {name: demand * (1 + queues[name]) for name, demand in demands.items()}
        response = sum(times.values())
        throughput = number / (response + think)
        queues = {name: throughput * time for name, time in times.items()}
    return throughput, response, queues


def measured(
    demands: Mapping[str, float],
    *,
    seed: int = 1,
    noise: float = 0.01,
    repeats: int = 3,
    levels: Sequence[int] = LEVELS,
    think: float = 0.0,
    **changed: ResourceUse,
) -> list[LevelPoint]:
    """Return the points of a ramp on such a network, with noise as a share, as it is measured."""
    random = np.random.default_rng(seed)
    points = []
    for sessions in levels:
        for _ in range(repeats):
            throughput, response, queues = solved(demands, sessions, think)
            throughput *= random.normal(1, noise)
            uses = {}
            for name, demand in demands.items():
                busy = min(1.0, throughput * demand * random.normal(1, noise / 2))
                uses[name] = ResourceUse(busy, 1.0, "busy", frozenset({LINES[name]}))
            standing = {
                LINES[name]: max(0.0, queue * random.normal(1, 0.1))
                for name, queue in queues.items()
            }
            points.append(
                LevelPoint(
                    sessions,
                    throughput,
                    response,
                    throughput * response * random.normal(1, 0.002),
                    {**uses, **changed},
                    standing,
                )
            )
    return points


@pytest.mark.parametrize("slowest", list(LINES))
def test_slowest_resource_is_named(slowest: str) -> None:
    """The one with the largest demand, 1.5 times the next, in 20 of 20 noisy ramps; its cap too."""
    for seed in range(20):
        demands = {name: 0.001 if name == slowest else 0.0006 for name in LINES}
        found = saturation.first(measured(demands, seed=seed, levels=(*LEVELS, 64)))

        assert found.resource == slowest, found.proof
        assert found.proof.startswith(f"{slowest} ")
        assert found.proof.count("\n") == 0
        lead = found.loads[0]
        assert lead.name == slowest
        assert lead.demand is not None
        assert lead.demand.value == pytest.approx(0.001, rel=0.02)
        assert lead.bound == pytest.approx(1000, rel=0.02)
        assert found.highest.value == pytest.approx(lead.bound, rel=0.1)
        assert found.flat
        assert found.knee in {8, 16, 32}


def test_two_alike_are_unclear() -> None:
    """Two of the same demand saturate together: in 18 of 20 ramps neither is named."""
    answers: Counter[str | None] = Counter()
    for seed in range(20):
        demands = {"CPU": 0.001, "device reads": 0.001, "log flushes": 0.0002}
        found = saturation.first(measured(demands, seed=seed, levels=(*LEVELS, 64)))
        answers[found.resource] += 1
        if found.resource is None:
            assert found.proof.startswith("unclear: ")
            assert "CPU" in found.proof
            assert "device reads" in found.proof

    assert answers[None] >= 18, answers


def test_line_tells_apart_what_is_busy_alike() -> None:
    """One hot row: its holder flushes the log all the time, but the others wait for the row."""
    points = measured({"CPU": 0.0001, "row locks": 0.001})
    made = []
    for point in points:
        locks = point.uses["row locks"]
        flushes = dataclasses.replace(locks, lines=frozenset({WaitReason.LOG}))
        standing = {**point.standing, WaitReason.LOG: min(1.0, locks.busy)}
        uses = {**point.uses, "log flushes": flushes}
        made.append(dataclasses.replace(point, uses=uses, standing=standing))

    found = saturation.first(made)

    assert found.resource == "row locks"
    assert "waited for it" in found.proof


def test_what_is_used_through_a_full_resource_is_held_up_by_that() -> None:
    """The log is busy all the time because the device's writes are limited: these give first."""
    made = []
    for point in measured({"CPU": 0.0001, "log flushes": 0.001}):
        flushes = point.uses["log flushes"]
        both = frozenset({WaitReason.LOG, WaitReason.WRITES})
        writes = dataclasses.replace(flushes, lines=both)
        through = dataclasses.replace(flushes, through=frozenset({"device writes"}))
        uses = {**point.uses, "log flushes": through, "device writes": writes}
        made.append(dataclasses.replace(point, uses=uses))
    idle = [
        dataclasses.replace(
            point,
            uses={
                **point.uses,
                "device writes": dataclasses.replace(point.uses["device writes"], busy=0.1),
            },
        )
        for point in made
    ]

    assert saturation.first(made).resource == "device writes"
    assert saturation.first(idle).resource == "log flushes"


def test_what_others_keep_busy_is_not_what_gives() -> None:
    """All processors are busy with others' work, and the sessions stand at the device."""
    made = [
        dataclasses.replace(
            point,
            uses={
                **point.uses,
                "CPU": ResourceUse(1.99, 2.0, "cores", frozenset({WaitReason.CPU}), own=0.1),
            },
        )
        for point in measured({"CPU": 0.00005, "device reads": 0.001})
    ]

    assert saturation.first(made).resource == "device reads"


def test_knee_of_one_session_is_judged_by_those_beyond() -> None:
    """All that a statement does is done one at a time: with one session nobody waits for it."""
    points = [
        LevelPoint(
            sessions,
            1000.0,
            sessions / 1000,
            float(sessions),
            {"row locks": ResourceUse(float(sessions > 1), 1.0, "", frozenset({WaitReason.LOCKS}))},
            {WaitReason.CPU: 1.0, WaitReason.LOCKS: sessions - 1.0},
        )
        for sessions in (1, 2, 4, 8)
        for _ in range(3)
    ]
    found = saturation.first(points)

    assert found.resource == "row locks", found.proof
    assert found.knee == 1
    assert found.highest.value == 1000


def test_line_for_something_else_is_a_contradiction() -> None:
    """A resource that looks full while the sessions stand elsewhere is not named."""
    points = [
        dataclasses.replace(
            point, standing={WaitReason.INTERNAL: 0.9 * point.sessions, WaitReason.CPU: 0.1}
        )
        for point in measured({"CPU": 0.001, "device reads": 0.0001})
    ]
    found = saturation.first(points)

    assert found.resource is None
    assert "the server's own locks" in found.proof


def test_nothing_is_named_while_throughput_grows() -> None:
    """Four sessions on a machine for a hundred: it grows to the end, and nothing is full."""
    demands = {"CPU": 0.0001, "device reads": 0.0001}
    found = saturation.first(measured(demands, levels=(1, 2, 4), think=0.05))

    assert found.resource is None
    assert "still grows" in found.proof
    assert not found.flat
    assert found.knee == 4


def test_full_resource_is_named_though_throughput_grows() -> None:
    """Group commit: the log is busy all the time from two sessions on, and throughput grows."""
    points = []
    for sessions in (1, 2, 4, 8):
        for repeat in range(3):
            busy = 0.5 if sessions == 1 else 0.97 + 0.005 * repeat
            uses = {
                "log flushes": ResourceUse(busy, 1.0, "busy", frozenset({WaitReason.LOG})),
                "CPU": ResourceUse(0.1 * sessions, 2.0, "cores", frozenset({WaitReason.CPU})),
            }
            standing = {WaitReason.LOG: 0.95 * sessions, WaitReason.CPU: 0.05 * sessions}
            points.append(LevelPoint(sessions, 50.0 * sessions, 0.02, sessions, uses, standing))
    found = saturation.first(points)

    assert found.resource == "log flushes"
    assert not found.flat


def test_device_without_a_known_ceiling_is_named_by_its_line() -> None:
    """Throughput is flat, nothing whose capacity is known is full, and all stand at the device."""
    points = []
    for sessions in LEVELS:
        for _ in range(3):
            throughput, response, _ = solved({"disk": 0.002, "CPU": 0.0001}, sessions)
            uses = {
                "device reads": ResourceUse(
                    throughput * 30, None, "1/s", frozenset({WaitReason.READS})
                ),
                "CPU": ResourceUse(throughput * 0.0001, 2.0, "cores", frozenset({WaitReason.CPU})),
            }
            standing = {WaitReason.READS: 0.95 * sessions}
            in_flight = throughput * response
            points.append(LevelPoint(sessions, throughput, response, in_flight, uses, standing))
    found = saturation.first(points)

    assert found.resource == "device reads"
    assert "ceiling is not known" in found.proof
    assert [load.name for load in found.loads] == ["CPU", "device reads"]


def test_memory_is_held_and_has_no_demand() -> None:
    """It is full from 97 percent on, and no throughput follows from it."""
    memory = ResourceUse(9.0, 10.0, "bytes", frozenset(), held=True)
    found = saturation.first(measured({"CPU": 0.001}, memory=memory))
    full = dataclasses.replace(memory, busy=9.9)
    also = saturation.first(measured({"CPU": 0.0001}, memory=full, think=0.01, levels=(1, 2)))

    assert found.resource == "CPU"
    assert {load.name: load.demand for load in found.loads}["memory"] is None
    assert {load.name: load.bound for load in found.loads}["memory"] is None
    assert also.loads[0].name == "memory"


def test_bound_is_what_others_leave() -> None:
    """Half a core is taken by others: the rest bounds the throughput, and they are in the busy."""
    points = [
        LevelPoint(
            sessions,
            100.0 * min(sessions, 3),
            0.01,
            float(sessions),
            {
                "CPU": ResourceUse(
                    0.5 + 0.5 * min(sessions, 3),
                    2.0,
                    "cores",
                    frozenset({WaitReason.CPU}),
                    own=0.5 * min(sessions, 3),
                )
            },
            {WaitReason.CPU: float(sessions)},
        )
        for sessions in (1, 2, 3, 4)
        for _ in range(3)
    ]
    found = saturation.first(points)

    assert found.resource == "CPU"
    assert "by others" in found.proof
    assert found.loads[0].demand is not None
    assert found.loads[0].demand.value == pytest.approx(0.005)
    assert found.loads[0].bound == pytest.approx(300)


@pytest.mark.parametrize(
    ("throughput", "response", "in_flight", "missed"),
    [(100.0, 0.04, 4.0, 0.0), (100.0, 0.03, 3.0, 0.0), (100.0, 0.04, 3.9, 0.025)],
)
def test_little_counts_sessions_twice(
    throughput: float, response: float, in_flight: float, missed: float
) -> None:
    """Throughput times response, and sessions under way, differ by a share of all sessions."""
    point = LevelPoint(4, throughput, response, in_flight)

    assert point.little == pytest.approx(missed)


def test_one_repeat_has_no_interval() -> None:
    """A single point names what is full, and its interval has no end."""
    point = measured({"CPU": 0.001}, repeats=1, levels=(8,))
    found = saturation.first(point)

    assert found.resource == "CPU"
    assert Mean.of([1.0]).high == float("inf")
    assert "(" not in found.proof.partition(";")[0]
