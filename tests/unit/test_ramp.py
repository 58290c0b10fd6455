"""A ramp's and a search's keys, and how their results are shown, also those that were cut short."""

from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from replayer.analysis.capacity.capacity_search import SearchTrial
from replayer.analysis.capacity.saturation import LevelPoint
from replayer.analysis.differences.samples import Side
from replayer.load.level import LevelRequest
from replayer.model import Status, StepResult
from replayer.report.documents import run_charts, step_layout
from replayer.report.terminal import console
from replayer.report.terminal.progress import Silence
from replayer.report.writers import terminal_writer
from replayer.run.display import TableRows
from replayer.run.time_promise import NO_PROMISE
from replayer.steps.capacity import outcome
from replayer.steps.capacity import step as capacity
from replayer.steps.capacity.spec import Spec as CapacitySpec
from replayer.steps.ramp import step as ramp
from replayer.steps.ramp.outcome import RampTrial
from replayer.steps.ramp.spec import Spec as RampSpec
from replayer.watch import quiet_machine
from tests.fixture_types import RunOf

LEVEL = {
    "throughput_per_second": 1000.0,
    "p50_s": 0.001,
    "p95_s": 0.002,
    "p99_s": 0.003,
    "user_cores": 1.0,
    "system_cores": 0.5,
    "steal_cores": 0.0,
    "server_cores": 1.0,
    "client_cores": 0.2,
    "reads_per_second": 0.0,
    "writes_per_second": 20.0,
    "misses_per_second": 10.0,
    "flushes_per_second": None,
    "log_share": 0.5,
    "row_lock_share": None,
    "hit_share": 0.99,
    "memory_bytes": 1 << 30,
    "little_share": 0.001,
}


def result_of(step: str, **changed: Any) -> StepResult:
    """Return a result of a step; its contents can be set."""
    plain = {
        "step": step,
        "name": step,
        "repeat": 1,
        "status": Status.DONE,
        "started": "2026-11-20T10:00:00+00:00",
        "elapsed": 1.0,
        "spec": {},
    }
    return StepResult.model_validate({**plain, **changed})


def shown(result: StepResult) -> str:
    """Return what the terminal shows of a result's form."""
    parts = [
        made for one in step_layout.of(result).parts for made in step_layout.parts(one, result)
    ]
    return console.text(terminal_writer.render_parts(parts))


def levels_of(*throughputs: float) -> tuple[dict[str, Any], ...]:
    """Return rows of a ramp's levels 1, 2, 4 ..."""
    return tuple(
        {
            "sessions": 1 << number,
            "repeats": 3,
            **LEVEL,
            "throughput_per_second": value,
            "least_per_second": value * 0.99,
            "most_per_second": value * 1.01,
            "law_per_second": value,
        }
        for number, value in enumerate(throughputs)
    )


@pytest.mark.parametrize("step", ["ramp", "capacity"])
def test_result_that_was_cut_short_at_once_is_shown(step: str) -> None:
    """Nothing was measured: there is nothing to show, and nothing fails."""
    assert shown(result_of(step, status=Status.FAILED)) == ""


def test_curve_has_bars_and_the_answer() -> None:
    """Each level has a line with its bar, and what gives first is a sentence."""
    facts = {"ramp.first": "CPU quota", "ramp.proof": "CPU quota 99.0 % busy", "ramp.flat": True}
    result = result_of("ramp", tables={"levels": levels_of(1000.0, 2000.0)}, facts=facts)
    lines = shown(result).splitlines()

    assert lines[1].split()[:3] == ["1", "#" * 8, "1,000"]
    assert lines[2].split()[:3] == ["2", "#" * 16, "2,000"]
    assert "  limiting resource: CPU quota 99.0 % busy" in lines
    assert any("holds within 0.1%" in line for line in lines)


@pytest.mark.parametrize("step", ["ramp", "capacity"])
def test_a_rate_below_one_a_second_has_its_digits_in_the_table(step: str) -> None:
    """Statements of a minute each are not 0 a second, and 9.5 are not 10."""
    trial = {"ended": "held", "multiple": 1.0, "asked_per_second": 9.54, "lag_s": 0.0}
    tables = {
        "ramp": {"levels": levels_of(0.0371)},
        "capacity": {"trials": ({**LEVEL, **trial, "throughput_per_second": 0.0371},)},
    }
    table = step_layout.of(result_of(step, tables=tables[step])).parts[0]

    assert isinstance(table, TableRows)
    rates = [
        text
        for heading, text in zip(table.headings, table.rows[0], strict=True)
        if heading in {"1/s", "asked/s", "done/s"}
    ]
    assert rates == {"ramp": ["0.0371"], "capacity": ["9.54", "0.0371"]}[step]


def test_trials_of_a_search_are_shown_with_the_interval() -> None:
    """The answer is a sentence with the multiple, the rate, the objective and both ends."""
    row = {
        "multiple": 2.0,
        "asked_per_second": 2000.0,
        "offered_per_second": 2000.0,
        "seconds": 20.0,
        "ended": "held",
        "reason": "",
        "lag_s": 0.01,
        **LEVEL,
    }
    broken = {**row, "ended": "failed", "p50_s": None, "p95_s": None, "p99_s": None}
    measurements = tuple(
        {"metric": f"capacity.{name}", "value": value, "unit": "times", "better": "neither"}
        for name, value in (("multiple", 2.0), ("low", 1.9), ("high", 2.3))
    )
    facts = {
        "capacity.required_per_second": 1000.0,
        "capacity.objective": "p99=20ms",
        "capacity.clear": True,
        "capacity.held": "exceeded",
        "capacity.held_why": "p99 30.0 ms > 20.0 ms",
    }
    tables = {"trials": (row, broken), "hold": (row,)}
    result = result_of("capacity", tables=tables, facts=facts, measurements=measurements)
    text = " ".join(shown(result).split())

    assert "2.00 times the required 1,000/s with p99=20ms (95 % interval 1.90 to 2.30)" in text
    assert "held for 20.0 s: exceeded the objective (p99 30.0 ms > 20.0 ms)" in text
    assert "2 failed" in text


def test_ramp_draws_its_curve_its_times_and_its_uses(run_of: RunOf) -> None:
    """Three charts, with the law as a line of its own."""
    uses = tuple(
        {"sessions": level, "resource": name, "busy_share": 0.5}
        for level in (1, 2)
        for name in ("CPU of the machine", "memory")
    )
    tables = {"levels": levels_of(1000.0, 2000.0), "uses": uses}
    run = run_of([1.0]).model_copy(update={"steps": (result_of("ramp", tables=tables),)})
    side = Side("a", (run,))
    drawn = {chart.name: chart for _, chart in run_charts.of_steps([side])}

    assert set(drawn) == {"ramp", "ramp-times", "ramp-uses"}
    assert [curve.name for curve in drawn["ramp"].curves] == ["a measured", "a scalability law"]
    assert [curve.style["dash"] for curve in drawn["ramp-times"].curves] == [0, 1, 2]
    assert drawn["ramp-uses"].curves[0].y == [50.0, 50.0]


@pytest.mark.parametrize(
    "keys",
    [
        {"levels": (0, 1)},
        {"levels": ()},
        {"repeats": 2},
        {"shortest": "10s", "longest": "5s"},
        {"scale": 0},
    ],
)
def test_ramp_refuses_keys_that_make_no_sense(keys: dict[str, Any]) -> None:
    """No session, no level, fewer than three repeats, an end before the beginning."""
    with pytest.raises(ValidationError):
        RampSpec.model_validate({"step": "ramp", **keys})


@pytest.mark.parametrize(
    "keys", [{}, {"rate": 0}, {"rate": 100, "slo": "fast"}, {"rate": 100, "hold": "0.5s"}]
)
def test_search_refuses_keys_that_make_no_sense(keys: dict[str, Any]) -> None:
    """A rate is required, an objective is percentiles, and a hold is none or a second long."""
    with pytest.raises(ValidationError):
        CapacitySpec.model_validate({"step": "capacity", **keys})


@pytest.mark.parametrize(
    ("ended", "others", "void"),
    [
        (SearchTrial.FAILED, 0.3, 2),
        (SearchTrial.NOT_OFFERED, 0.3, 2),
        (SearchTrial.FAILED, 0.05, 0),
        (SearchTrial.FAILED, None, 0),
        (SearchTrial.HELD, 0.3, 0),
    ],
)
def test_a_search_is_given_up_where_others_are_in_the_way(
    monkeypatch: pytest.MonkeyPatch, ended: SearchTrial, others: float | None, void: int
) -> None:
    """Neither a failure nor clients that are too slow say anything while others are in the way.

    After two such trials in a row it waits for quiet, and is given up without; what held, held.
    """
    foreign = SimpleNamespace(cpu_share=others, programs=("cc 30%",))
    level: Any = SimpleNamespace(use=SimpleNamespace(foreign=foreign), seconds=1.0, offered=100.0)
    nothing: Any = None
    findings = SimpleNamespace(facts={})
    context: Any = SimpleNamespace(
        findings=findings, promise=NO_PROMISE, progress=Silence(), host=nothing
    )
    monkeypatch.setattr(
        capacity,
        "_trial",
        lambda spec, wanted, *_: outcome.CapacityTrial(
            wanted.rate / spec.rate, level, nothing, ended, "why"
        ),
    )
    monkeypatch.setattr(capacity, "record_trial", lambda *_: None)
    monkeypatch.setattr(capacity, "record", lambda *_: None)
    monkeypatch.setattr(quiet_machine, "wait_until_quiet", lambda *_: (0.0, False))
    spec = CapacitySpec.model_validate({"step": "capacity", "rate": 100, "most": 1, "trials": 2})
    asked = LevelRequest(sessions=1, seconds=1.0, mix=nothing, tables=nothing)

    search = capacity._Search(spec, asked, context, nothing)
    search.run()

    assert sum(trial.void for trial in search.trials) == void
    assert {trial.ended for trial in search.trials} == {ended}
    assert ("cc 30%" in str(findings.facts.get("capacity.gave_up"))) == bool(void)


def test_levels_are_sorted_and_each_there_once() -> None:
    """In whatever order they are written."""
    assert RampSpec.model_validate({"step": "ramp", "levels": (4, 1, 4, 2)}).levels == (1, 2, 4)


@pytest.mark.parametrize(
    ("throughputs", "added"),
    [
        ([100, 200, 390, 400, 400, 400], [3, 6]),
        ([100, 200, 300, 600, 1000, 2000], [23]),
        ([100, 100, 100, 90, 80, 70], []),
    ],
)
def test_levels_are_added_around_the_knee(throughputs: list[int], added: list[int]) -> None:
    """In the middle to both neighbours of the first level with nearly all; 1 and 2 have none."""
    no_level: Any = None
    trials = [
        RampTrial(no_level, LevelPoint(1 << number, float(value), 0.01, 1.0), settled=True)
        for number, value in enumerate(throughputs)
    ]

    assert ramp._between(trials) == added
