"""Sizing by a capture: the search over replays, what ends a trial, and the verdict."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from replayer.errors import Impossible
from replayer.model import (
    Better,
    Foreign,
    Measurement,
    Replayed,
    Run,
    Series,
    Status,
    StepResult,
    StepSpec,
)
from replayer.report.documents import speed as report
from replayer.report.pages import sizing_sheet
from replayer.report.writers import csv_writer, markdown_writer, page_writer
from replayer.results import stored_histogram
from replayer.sizing import capture_sizing
from replayer.sizing.capture_sizing import SpeedOptions
from replayer.sizing.target import Fit
from replayer.steps.replay.spec import Spec
from tests.captured import Capture
from tests.made import altered

FOREIGN = Foreign(cpu_share=0.6, programs=("cc 30%",), read_bytes=None, write_bytes=None)
"""Other programs that disturb a replay."""


def late(column: str) -> Series:
    """Return a series of lags that grow."""
    lags = (0.0, 0.5, 1.0, 2.0, 3.0)
    return Series(started="", seconds=(1, 2, 3, 4, 5), columns={column: lags})


@pytest.fixture
def capture(tmp_path: Path) -> str:
    """Return a capture of 40 s: 2 statements a second, and 20 in each of the seconds 20 to 30."""
    made = Capture().session(1)
    for second in range(40):
        for part in range(20 if 20 <= second < 30 else 2):
            made.runs(1, second + part / 20, "SELECT 1")
    return str(made.write(tmp_path / "a.replay"))


def performed(wanted: Any, spec: Spec, highest: float, **more: Any) -> StepResult:
    """Return what a replay of a machine found that keeps up until a speed, without running it."""
    times = spec.speed
    lags = (0.0,) * 5 if times <= highest else (0.0, 0.5, 1.0, 2.0, 3.0)
    done = {"planned": 1000, "executions": 1000, "kind": "select", "text": "SELECT ?", **more}
    used = ({"resource": "CPU of the machine", "busy": min(2.0, 0.3 * times), "capacity": 2.0,
             "unit": "cores", "own": min(2.0, 0.3 * times), "ceiling": "", "stopped_share": None,
             "lines": "CPU", "through": "", "held": False},
            {"resource": "device writes", "busy": 40 * times, "capacity": 1000.0, "unit": "1/s",
             "own": None, "ceiling": "ceiling given", "stopped_share": None,
             "lines": "device writes", "through": "", "held": False})  # fmt: skip
    numbers = {"replay.elapsed": 10.0, "replay.statements": 20 * times, "replay.at_work": 0.1,
               "replay.response.p99": 5e-3 * times, "replay.lag.server.p99": lags[-1]}  # fmt: skip
    return StepResult(
        step="replay",
        name=spec.name,
        repeat=1,
        status=Status.DONE,
        started="2026-11-20T10:00:00+00:00",
        elapsed=1.0,
        spec=spec.model_dump(mode="json"),
        measurements=tuple(
            Measurement(metric=name, value=number, unit="s", better=Better.NEITHER)
            for name, number in numbers.items()
        ),
        tables={"uses": used, "standing": ({"line": "CPU", "sessions": 1.0},)},
        series=Series(started="", seconds=(1, 2, 3, 4, 5), columns={"replay.lag_server": lags}),
        latency={"response": stored_histogram.encode({round(5e6 * times): 1000})},
        replayed=(Replayed(fingerprint="0" * 16, **done),),
    )


@pytest.fixture
def sized(run_of: Callable[..., Run], capture: str) -> Callable[..., Any]:
    """Return a function that searches on a machine that keeps up until a speed."""

    def size(
        highest: float,
        *,
        errors: Callable[[float], dict[str, int]] = lambda _: {},
        ran: Callable[[float], int] = lambda _: 1000,
        objective: str = "",
        **asked: Any,
    ) -> Any:
        options = SpeedOptions(window=10.0, objective=objective, **asked)
        wanted, workload = capture_sizing.planned(capture, options)
        run = altered(run_of([1.0]), steps=(), sizing=wanted.model_dump(mode="json"))
        spec: StepSpec | None = workload.steps[0]
        while spec is not None:
            assert isinstance(spec, Spec)
            found = performed(
                wanted, spec, highest, errors=errors(spec.speed), executions=ran(spec.speed)
            )
            run = altered(run, steps=(*run.steps, found))
            spec = capture_sizing.following(wanted)(run)
        return report.summary(run)

    return size


def test_the_busiest_window_is_replayed(capture: str) -> None:
    """Its begin and its number of statements, and the hold around it within the capture."""
    wanted, workload = capture_sizing.planned(
        capture, SpeedOptions(window=10.0, growth=1.5, headroom=0.2)
    )

    assert (wanted.begin, wanted.statements) == (20, 200)
    assert wanted.rate == pytest.approx(20 * 1.8)
    (spec,) = workload.steps
    assert isinstance(spec, Spec)
    assert (spec.begin, spec.until) == (20, 30)
    assert spec.speed == pytest.approx(1.8)
    assert wanted.hold is not None
    begin, until = wanted.hold
    assert begin <= 20
    assert until >= 30
    assert capture_sizing.planned(capture, SpeedOptions(window=40.0))[0].hold is None


@pytest.mark.parametrize("highest", [1.3, 3.0, 4.4])
def test_the_highest_speed_is_found_and_held(sized: Callable[..., Any], highest: float) -> None:
    """Within the resolution of 5 percent, with what failed above it, and 1 was held for long."""
    one = sized(highest)

    assert one.verdict.fit is Fit.FITS
    assert highest / 1.06 < one.verdict.multiple <= highest
    assert one.verdict.high >= highest
    assert one.verdict.held.startswith("held for")
    failed = [t for t in capture_sizing.trials(one.speed, one.run) if t.ended == "failed"]
    assert failed
    assert all("ever later" in t.reason for t in failed)


def test_growth_is_part_of_what_is_required(sized: Callable[..., Any]) -> None:
    """Three times the speed with 2 kept up is 0.67 of it, which does not fit."""
    one = sized(2.0, growth=3.0)

    assert one.verdict.fit is Fit.DOES_NOT_FIT
    assert 0.62 < one.verdict.multiple <= 2 / 3
    assert one.verdict.high < 1


def test_errors_that_rise_end_it(sized: Callable[..., Any]) -> None:
    """What fails at a speed and not below is not sustained; what always fails is."""
    rises = sized(99.0, errors=lambda times: {"57014": 50} if times > 2 else {})
    always = sized(99.0, errors=lambda _: {"42P01": 50})

    assert 1.9 < rises.verdict.multiple <= 2
    assert "5.00% of the statements failed" in {
        trial.reason for trial in capture_sizing.trials(rises.speed, rises.run)
    }
    assert always.verdict.multiple > 4
    assert always.verdict.fit is Fit.FITS


def test_work_that_did_not_run_is_not_sustained(sized: Callable[..., Any]) -> None:
    """Below 95 percent of the statements it has failed, however fast it was."""
    one = sized(99.0, ran=lambda times: 940 if times > 1.5 else 1000)

    assert 1.4 < one.verdict.multiple <= 1.5


def test_an_objective_decides_as_well(sized: Callable[..., Any]) -> None:
    """Response times grow with the speed here, and p99=10ms is met until twice the speed."""
    assert 1.9 < sized(99.0, objective="p99=10ms").verdict.multiple <= 2
    assert sized(99.0).verdict.multiple > 4


@pytest.mark.parametrize(("lasts", "objective"), [(0.001, "p99=20ms"), (0.0301, "p99=61ms")])
def test_the_captures_own_times_are_the_objective_where_none_is_given(
    tmp_path: Path, lasts: float, objective: str
) -> None:
    """Twice its p99 in the window, and 20 ms at the least; a log without times has none."""
    made = Capture().session(1)
    for turn in range(80):
        made.runs(1, turn / 10, "SELECT 1", lasts=lasts if turn < 70 else 0.0)
    timed = capture_sizing.planned(
        str(made.write(tmp_path / "a.replay")), SpeedOptions(window=5.0)
    )[0]
    untimed = Capture().session(1)
    for turn in range(80):
        untimed.runs(1, turn / 10, "SELECT 1", lasts=-1e-9)
    silent = capture_sizing.planned(
        str(untimed.write(tmp_path / "b.replay")), SpeedOptions(window=5.0)
    )[0]

    assert timed.objective == objective
    assert timed.by_capture == pytest.approx(lasts)
    assert dict(capture_sizing.facts(timed))["objective"].count(objective) == 1
    assert (silent.objective, silent.by_capture) == ("", None)


def test_the_window_is_that_of_one_database_where_one_is_asked_for(tmp_path: Path) -> None:
    """Sessions of others neither choose the window nor count in it."""
    made = Capture().session(1, database="shop").session(2, database="other")
    for second in range(20):
        made.runs(1, second, "SELECT 1")
        for part in range(9 if second < 5 else 1):
            made.runs(2, second + part / 10, "SELECT 2")
    for part in range(1, 5):
        made.runs(1, 12 + part / 10, "SELECT 1")
    path = str(made.write(tmp_path / "a.replay"))
    one, _ = capture_sizing.planned(path, SpeedOptions(window=5.0, keys={"database": "shop"}))
    every, _ = capture_sizing.planned(path, SpeedOptions(window=5.0))

    assert (every.begin, every.statements) == (0, 50)
    assert one.begin <= 12 < one.begin + 5
    assert one.statements == 9


def test_what_gives_first_and_how_busy_all_was(sized: Callable[..., Any]) -> None:
    """Beyond 6.67 times the speed two processors are full, of which 0.6 are in use at twice it."""
    one = sized(2.0)
    rows = {row.resource: row for row in one.verdict.rows}
    cpu, disk = rows["CPU of the machine"], rows["device writes"]

    assert cpu.required == pytest.approx(0.3)
    assert cpu.here == pytest.approx(2.0)
    assert cpu.multiple == pytest.approx(20 / 3, rel=0.01)
    assert cpu.busy == pytest.approx(0.15 * one.verdict.multiple)
    assert (disk.required, disk.here) == (pytest.approx(40), pytest.approx(1000))
    assert disk.multiple == pytest.approx(25, rel=0.01)
    assert one.verdict.first == ""
    assert one.verdict.proof.startswith("unclear: nothing is full")
    page = page_writer.page(report.document(one))
    assert "CPU of the machine" in page
    assert re.findall('<ul class="quiet"><li>(.*)</li></ul>', page)[0].split("</li><li>") == [
        "busy: at the highest speed that held",
        "device writes: of the ceiling given",
    ]


def test_the_resource_that_is_used_up_gives_first(sized: Callable[..., Any]) -> None:
    """Processors are all busy at what failed: what they allow is what was kept up with."""
    one = sized(3.0, growth=2.5, headroom=0.0)
    rows = {row.resource: row for row in one.verdict.rows}

    assert one.verdict.first == "CPU of the machine"
    assert "% busy" in one.verdict.proof
    assert rows["CPU of the machine"].multiple == one.verdict.multiple
    assert rows["device writes"].multiple > 5 * one.verdict.multiple


def test_a_result_without_uses_has_its_verdict(sized: Callable[..., Any]) -> None:
    """One of an older replayer: no resources, and nothing is said of what gives first."""
    one = sized(2.0)
    steps = tuple(altered(step, tables={}) for step in one.run.steps)
    summary = report.summary(altered(one.run, steps=steps))
    assert summary is not None
    old = summary.verdict

    assert (old.fit, old.rows, old.first, old.proof) == (Fit.FITS, (), "", "")
    assert old.multiple == one.verdict.multiple


def test_a_run_that_was_cut_short_is_unclear(sized: Callable[..., Any]) -> None:
    """What was found until then is shown, and no verdict claimed."""
    one = sized(3.0)
    steps = one.run.steps[:3]
    cut = altered(steps[-1], status=Status.INTERRUPTED, reason="Ctrl-C")
    run = altered(one.run, steps=(*steps[:-1], cut))

    summary = report.summary(run)

    assert summary is not None
    verdict = summary.verdict
    assert verdict.fit is Fit.UNCLEAR
    assert "Ctrl-C" in verdict.reasons[0]


@pytest.mark.parametrize(
    ("changed", "fit", "words"),
    [
        (
            {"status": Status.FAILED, "reason": "the server was lost"},
            Fit.UNCLEAR,
            "server was lost",
        ),
        ({"status": Status.INTERRUPTED, "reason": "Ctrl-C"}, Fit.UNCLEAR, "Ctrl-C"),
        ({"series": late("replay.lag_client")}, Fit.UNCLEAR, "late in the end"),
        ({"series": late("replay.lag_server"), "foreign": FOREIGN}, Fit.UNCLEAR, "(cc 30%); end"),
        ({"series": late("replay.lag_server")}, Fit.DOES_NOT_FIT, "late in the end"),
        ({"foreign": FOREIGN}, Fit.FITS, "held for"),
    ],
)
def test_the_hold_takes_part_in_the_verdict(
    sized: Callable[..., Any], changed: dict[str, Any], fit: Fit, words: str
) -> None:
    """Only what was kept up to its end fits, and only the server's own failure refutes it."""
    one = sized(3.0)
    *steps, hold = one.run.steps
    assert hold.name == capture_sizing.HOLD
    summary = report.summary(altered(one.run, steps=(*steps, altered(hold, **changed))))

    assert summary is not None
    assert summary.verdict.fit is fit
    assert words in summary.verdict.held


def test_a_search_without_its_hold_is_unclear(sized: Callable[..., Any]) -> None:
    """The server was lost between the last trial and the hold."""
    one = sized(3.0)
    summary = report.summary(altered(one.run, steps=one.run.steps[:-1], error="no server"))

    assert summary is not None
    assert summary.verdict.fit is Fit.UNCLEAR
    assert "no server" in summary.verdict.held


def test_void_replays_are_run_again_and_then_given_up(
    capture: str, run_of: Callable[..., Run]
) -> None:
    """A failure while others took the processors decides nothing: the same speed comes again."""
    wanted, workload = capture_sizing.planned(capture, SpeedOptions(window=10.0, objective=""))
    following = capture_sizing.following(wanted)
    sizing = {"steps": (), "sizing": wanted.model_dump(mode="json")}
    run = run_of([1.0]).model_copy(update=sizing)
    spec: StepSpec | None = workload.steps[0]
    for _ in range(3):
        assert isinstance(spec, Spec)
        assert spec.speed == 1
        made = altered(performed(wanted, spec, 0.1), foreign=FOREIGN)
        run = altered(run, steps=(*run.steps, made))
        spec = following(run)
    one = report.summary(run)

    assert [trial.void for trial in capture_sizing.trials(wanted, run)] == [True, True]
    assert "others used 60% of the processors in 2 trials in a row (cc 30%)" in (
        capture_sizing.disturbance(wanted, run)
    )
    assert one is not None
    assert one.verdict.fit is Fit.UNCLEAR
    assert "given up" in one.verdict.headline


def test_every_form_says_the_verdict(sized: Callable[..., Any]) -> None:
    """Page, CSV, Markdown and beside another one."""
    one = sized(3.0)

    sheet = sizing_sheet.sheet(one.run)
    assert one.verdict.reasons[0] in sheet
    assert all(word in sheet for word in ("Yes:", "a.replay", "signature", one.run.id))
    document = report.document(one)
    for form in (page_writer.page, csv_writer.page, markdown_writer.page):
        assert "fits" in form(document)
    both = report.line_up([("a.profile", one.verdict)] * 2)
    page = page_writer.page(replace(document, parts=(*document.parts, both)))
    for words in ("Response time by speed", "Lag of starts by speed", "a.profile", "required"):
        assert words in page


def test_what_is_no_capture_to_size_by_is_refused(tmp_path: Path) -> None:
    """Too short, and windows of no length."""
    short = str(Capture().session(1).runs(1, 0.5, "SELECT 1").write(tmp_path / "s.replay"))

    with pytest.raises(Impossible, match="a capture to size by"):
        capture_sizing.planned(short, SpeedOptions())
    with pytest.raises(Impossible, match="--window"):
        capture_sizing.planned(short, SpeedOptions(window=0.0))


def test_a_capture_over_decades_is_refused(tmp_path: Path) -> None:
    """One wrong stamp in a log makes no table of all seconds of a century."""
    capture = Capture().session(1).runs(1, 0.5, "SELECT 1").runs(1, 3e9, "SELECT 1")

    with pytest.raises(Impossible, match="the clock of its log was wrong"):
        capture_sizing.planned(str(capture.write(tmp_path / "s.replay")), SpeedOptions())
