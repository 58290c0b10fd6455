"""The runner: ever more complete runs in the order of the workload, and nothing is lost."""

import io
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import pytest

from replayer.analysis.differences import environment
from replayer.engines import engine as engines
from replayer.errors import Impossible, Interrupted, ReplayerError, Skip
from replayer.journal import home
from replayer.machine import machine_facts
from replayer.machine.host import Host
from replayer.model import Better, Fact, Run, Status, StepSpec, Workload
from replayer.report.terminal.progress import Lines
from replayer.run import runner, step_plugin
from replayer.run.context import Context
from replayer.run.plan import resume
from replayer.watch import calibration
from tests.toy_step import toy_step

Step = Callable[[StepSpec, Context], None]


@pytest.fixture
def run_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., tuple[list[Run], BaseException | None]]:
    """Return a function that runs these steps, which need no database, and lists what was yielded.

    A step is a function of (spec, context), under its name; `checks` are theirs.
    """
    # It is measured for a second and has tests of its own.
    monkeypatch.setattr(calibration, "measure", lambda when, before: {f"cpu.{when}": (1.0,)})

    def perform(
        steps: Mapping[str, Step],
        *,
        checks: Mapping[str, Step] | None = None,
        once: Collection[str] = (),
        repeat: int = 1,
        **asked: Any,
    ) -> tuple[list[Run], BaseException | None]:
        def load(name: str) -> step_plugin.Step:
            checked = {"check": checks[name]} if checks and name in checks else {}
            return toy_step(steps[name], **checked)

        monkeypatch.setattr(step_plugin, "load", load)
        specs = tuple(StepSpec(step=name, name=name, once=name in once) for name in steps)
        workload = Workload(
            name="toy", source="toy.toml", description="", comment="", repeat=repeat, steps=specs
        )
        order = runner.RunRequest(workload, engines.load(engines.default()), **asked)
        yielded, failure = [], None
        try:
            for run in runner.execute(order, Lines(io.StringIO())):
                yielded.append(run)  # noqa: PERF402 - what came before an error counts
        except (ReplayerError, Interrupted) as error:
            failure = error
        return yielded, failure

    return perform


def measures(value: float) -> Step:
    """Return a step that measures a number."""

    def run(spec: StepSpec, context: Context) -> None:
        context.findings.measure(f"{spec.name}.number", value, "1/s", Better.MORE)

    return run


def ends_with(error: BaseException, value: float | None = None) -> Step:
    """Return a step that ends so, after it has measured a number if one is given."""

    def run(spec: StepSpec, context: Context) -> None:
        if value is not None:
            measures(value)(spec, context)
        raise error

    return run


def test_every_step_is_yielded_when_it_is_done(
    run_steps: Callable[..., tuple[list[Run], BaseException | None]],
) -> None:
    """Whoever saves each run that is yielded has every step but the one that is under way."""
    yielded, failure = run_steps({"a": measures(1), "b": measures(2)})

    assert failure is None
    assert [len(run.steps) for run in yielded] == [0, 0, 1, 2, 2]
    assert [bool(run.host) for run in yielded] == [False, True, True, True, True]
    assert [run.status for run in yielded] == [Status.RUNNING] * 4 + [Status.DONE]
    assert len({run.id for run in yielded}) == 1
    assert yielded[-1].finished
    assert set(yielded[-1].control) == {"cpu.before", "cpu.after"}


def test_steps_come_in_order_and_once_means_once(
    run_steps: Callable[..., tuple[list[Run], BaseException | None]],
) -> None:
    """Each repeat runs every step in the workload's order; one that is `once` only the first."""
    yielded, _ = run_steps({"build": measures(1), "walk": measures(2)}, once={"build"}, repeat=3)
    done = [(step.name, step.repeat) for step in yielded[-1].steps]

    assert done == [("build", 1), ("walk", 1), ("walk", 2), ("walk", 3)]


def test_a_step_that_cannot_be_done_is_skipped_and_the_rest_runs(
    run_steps: Callable[..., tuple[list[Run], BaseException | None]],
) -> None:
    """The reason stands in the result, and the run is done."""
    yielded, failure = run_steps({"a": ends_with(Skip("no disk here")), "b": measures(2)})
    first, second = yielded[-1].steps

    assert failure is None
    assert (first.status, first.reason) == (Status.SKIPPED, "no disk here")
    assert second.value("b.number") == 2
    assert yielded[-1].status is Status.DONE


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ReplayerError("the disk is gone"), Status.FAILED),
        (Interrupted("stopped by SIGTERM"), Status.INTERRUPTED),
    ],
)
def test_what_a_step_measured_before_it_failed_is_kept(
    run_steps: Callable[..., tuple[list[Run], BaseException | None]],
    error: BaseException,
    status: Status,
) -> None:
    """The last run has the failed step with its reason and its numbers, and no step after it."""
    yielded, failure = run_steps({"a": measures(1), "b": ends_with(error, 7), "c": measures(3)})
    last = yielded[-1]

    assert failure is error
    assert (last.status, last.error) == (status, str(error))
    assert [(step.name, step.status) for step in last.steps] == [("a", Status.DONE), ("b", status)]
    assert last.steps[1].value("b.number") == 7
    assert last.steps[1].reason == str(error)


def test_what_is_impossible_is_said_before_anything_is_done(
    run_steps: Callable[..., tuple[list[Run], BaseException | None]],
) -> None:
    """The last step's check ends the run before the first step begins."""

    def check(_spec: StepSpec, _context: Context) -> None:
        raise Impossible("there is no such disk")

    begun = []
    yielded, failure = run_steps(
        {"a": lambda spec, _context: begun.append(spec.name), "b": measures(1)}, checks={"b": check}
    )

    assert begun == []
    assert isinstance(failure, Impossible)
    assert (yielded[-1].status, yielded[-1].steps) == (Status.FAILED, ())


def test_a_run_that_ends_before_its_first_step_keeps_its_folder(
    run_steps: Callable[..., tuple[list[Run], BaseException | None]], tmp_path: Path
) -> None:
    """If it is resumed, its probes are to be on the disk that was asked for."""
    stopped = {"a": ends_with(Interrupted("stopped by SIGINT"))}
    yielded, _ = run_steps({"a": measures(1)}, checks=stopped, data_dir=tmp_path)

    assert yielded[-1].status is Status.INTERRUPTED
    assert resume.data_folder(yielded[-1]) == tmp_path.resolve()


def test_a_check_that_skips_waits_for_its_turn(
    run_steps: Callable[..., tuple[list[Run], BaseException | None]],
) -> None:
    """What cannot be done is no reason not to begin: the step is skipped when it is due."""

    def check(_spec: StepSpec, _context: Context) -> None:
        raise Skip("not here")

    yielded, failure = run_steps(
        {"a": measures(1), "b": ends_with(Skip("not here"))}, checks={"b": check}
    )

    assert failure is None
    assert [step.status for step in yielded[-1].steps] == [Status.DONE, Status.SKIPPED]


def test_a_bug_is_no_failed_step(
    run_steps: Callable[..., tuple[list[Run], BaseException | None]],
) -> None:
    """An error that nobody foresaw keeps its traceback: nothing is made up for it."""
    with pytest.raises(ZeroDivisionError):
        run_steps({"a": lambda _spec, _context: 1 / 0})


def test_a_run_is_told_by_what_its_steps_are_run_for(
    run_steps: Callable[..., tuple[list[Run], BaseException | None]],
) -> None:
    """The median of each step's leading number, what is made once last; cut steps have none."""
    steps = {"build": measures(5), "walk": measures(2), "scan": ends_with(Skip("no"))}
    yielded, _ = run_steps(steps, once={"build"}, repeat=2)

    assert [(m.metric, m.value) for m in yielded[-1].leading] == [
        ("walk.number", 2.0),
        ("build.number", 5.0),
    ]


def test_notes_and_tags_stand_in_the_run_from_its_beginning(
    run_steps: Callable[..., tuple[list[Run], BaseException | None]],
) -> None:
    """Who lists runs while one is under way finds it by them."""
    yielded, _ = run_steps({"a": measures(1)}, notes=("why",), tags={"disk": "nvme"})

    assert {(run.notes, run.tags["disk"]) for run in yielded} == {(("why",), "nvme")}


_OWN_WORDS = frozenset({"host.name", "boot.id", "fs.mount_point", "device.name"})
"""Facts whose change is another machine or disk, which has words of its own."""
_MOVING = frozenset({"host.uptime_s", "host.load1", "memory.available_bytes", "cpu.mhz"})
"""Facts that differ between any two moments of one machine."""
_UNTRIED = frozenset({"host.load5", "host.load15", "data.directory"})


@pytest.fixture
def cut_run(
    run_steps: Callable[..., tuple[list[Run], BaseException | None]],
    monkeypatch: pytest.MonkeyPatch,
) -> Run:
    """Return a run that was cut after its first repeat of two, on a machine that does not change.

    Other tests may change this one meanwhile.
    """
    facts = machine_facts.read_facts(Host(), home())
    monkeypatch.setattr(machine_facts, "read_facts", lambda _host, _data: dict(facts))
    yielded, _ = run_steps({"a": measures(1)}, repeat=2)
    return yielded[2]


def changed(value: Fact) -> Fact:
    """Return another value of a fact: twice a number, another text."""
    return 2 * value + 1 if isinstance(value, int | float) else f"not {value}"


def test_a_run_goes_on_after_what_changes_by_itself(
    run_steps: Callable[..., tuple[list[Run], BaseException | None]], cut_run: Run
) -> None:
    """Load, uptime, free memory and the clock rate of a moment make it no other machine."""
    then = {key: changed(cut_run.host[key]) for key in _MOVING & cut_run.host.keys()}
    before = cut_run.model_copy(update={"host": {**cut_run.host, **then}})
    yielded, failure = run_steps({"a": measures(1)}, repeat=2, resumed=before)

    assert then
    assert failure is None
    assert [step.repeat for step in yielded[-1].steps] == [1, 2]


def test_a_run_does_not_go_on_after_another_fact_of_the_machine_changed(
    run_steps: Callable[..., tuple[list[Run], BaseException | None]], cut_run: Run
) -> None:
    """Each is named with both values and the remedy, and nothing is measured or stored."""
    facts = cut_run.host.keys() - _MOVING - _OWN_WORDS - _UNTRIED
    assert {"kernel.release", "cpu.allowed", "vm.swappiness", "fs.options"} <= facts
    for key in sorted(facts):
        then = changed(cut_run.host[key])
        before = cut_run.model_copy(update={"host": {**cut_run.host, key: then}})
        yielded, failure = run_steps({"a": measures(1)}, repeat=2, resumed=before)

        assert yielded == []
        assert isinstance(failure, Impossible)
        was, now = (environment.facts(run)[f"host.{key}"] for run in (before, cut_run))
        assert f"host.{key} was {was} and is {now}: set the machine" in str(failure)


@pytest.mark.parametrize(
    ("key", "now", "shown"),
    [
        ("cpu.governor", "powersave", "-"),
        ("cgroup.cpu_limit", 2.0, "none"),
        ("device.read_ahead_kb", 4096, "-"),
    ],
)
def test_a_fact_that_was_not_there_before_is_a_change(
    cut_run: Run, key: str, now: Fact, shown: str
) -> None:
    """A limit that was not set, and what could not be read, are named as such."""
    then = {name: value for name, value in cut_run.host.items() if name != key}
    before = cut_run.model_copy(update={"host": then})

    resume.refuse_other_host(before, then)
    with pytest.raises(Impossible, match=f"{key} was {shown} and is "):
        resume.refuse_other_host(before, {**then, key: now})


def test_of_many_changes_the_first_are_named_and_the_rest_is_counted(cut_run: Run) -> None:
    """The sentence does not grow with the number of settings."""
    numbered = {f"vm.setting{number}": 1 for number in range(8)}
    before = cut_run.model_copy(update={"host": {**cut_run.host, **numbered}})
    now = {**cut_run.host, **dict.fromkeys(numbered, 2)}

    with pytest.raises(Impossible, match=r"setting2 was 1 and is 2; 5 more facts differ: set"):
        resume.refuse_other_host(before, now)
