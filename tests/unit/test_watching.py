"""What watches beside a step: chosen by name, cut to the window, and never in the step's way."""

import contextlib
import io
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from replayer import journal, registry
from replayer.collectors import WindowRecording, processes
from replayer.collectors.waits import collector as waits
from replayer.collectors.waits import switches
from replayer.engines import engine as engines
from replayer.errors import Impossible, NotFound, ReplayerError, Skip
from replayer.machine.processes import CpuSeconds
from replayer.model import Run, Spent, StackProfile, Status, StepSpec, Workload
from replayer.report.terminal.progress import Lines
from replayer.run import recovery, runner, step_collectors, step_plugin
from replayer.run.step_recorder import MeasuredWindow
from replayer.watch import active_collectors, calibration
from tests.known import known
from tests.toy_step import toy_step


class Recorder:
    """A recording that notes what is asked of it, and fails where it is told to."""

    def __init__(self, scene: Any, calls: list[Any], fails: str = "") -> None:
        self.scene, self.calls, self.fails = scene, calls, fails
        self.marks: list[int] = []

    def told(self, what: str) -> None:
        """Note a call, or fail in it."""
        self.calls.append(what)
        if self.fails == what:
            raise RuntimeError("a bug in it")

    def mark(self, clock_ns: int) -> None:
        """Be told of an edge."""
        self.marks.append(clock_ns)
        self.told("mark")

    def end(self) -> float:
        """Stop."""
        self.told("end")
        return 0.25

    def cut(self, begin_ns: int, end_ns: int) -> WindowRecording:
        """Return what was seen."""
        self.told("cut")
        assert {begin_ns, end_ns} <= set(self.marks)
        second = 10**9
        return WindowRecording(
            columns={"marbles": [(begin_ns - second, 0.0), (end_ns + second, 600.0)]},
            tables={"glass": [{"colour": "green"}]},
            notes=("a marble rolled away",),
        )


@pytest.fixture
def collectors(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that puts active collectors, by name, beside one that only copies."""
    copied = ["cpu"]
    real_names, real_load = registry.names, registry.load
    monkeypatch.delenv("REPLAYER_WITHOUT", raising=False)

    def put(**modules: Any) -> None:
        def names(kind: str) -> Sequence[str]:
            return sorted([*copied, *modules]) if kind == "collectors" else real_names(kind)

        def load(kind: str, name: str) -> Any:
            if kind == "collectors" and name in modules:
                return modules[name]
            return real_load(kind, name)

        monkeypatch.setattr(registry, "names", names)
        monkeypatch.setattr(registry, "load", load)

    return put


def recorder(calls: list[Any], fails: str = "", **more: Any) -> Any:
    """Return a collector module whose recordings note what is asked of them."""

    def begin(scene: Any) -> Recorder:
        calls.append(("folder", scene.folder, stat.S_IMODE(scene.folder.stat().st_mode)))
        return Recorder(scene, calls, fails)

    return SimpleNamespace(begin=begin, **more)


@pytest.fixture
def perform(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    """Return a function that runs steps under the collectors and returns the last run."""
    monkeypatch.setattr(calibration, "measure", lambda when, before: {f"cpu.{when}": (1.0,)})

    def do(step: Callable[..., None], *, repeat: int = 1, has_window: bool = True) -> Run:
        toy = toy_step(step, HAS_WINDOW=has_window)
        monkeypatch.setattr(step_plugin, "load", lambda _name: toy)
        workload = Workload(
            name="toy", source="toy.toml", description="", comment="", repeat=repeat,
            steps=(StepSpec(step="toy", name="toy"),),
        )  # fmt: skip
        order = runner.RunRequest(workload, engines.load(engines.default()))
        runs: list[Run] = []
        with contextlib.suppress(ReplayerError):
            for run in runner.execute(order, Lines(io.StringIO())):
                runs.append(run)  # noqa: PERF402 - what came before an error counts
        return runs[-1]

    return do


def windowed(_spec: Any, context: Any, error: Exception | None = None) -> None:
    """Be a step with a window of a fifth of a second, and a series of it."""
    begin = context.sampler.mark()
    time.sleep(0.2)
    end = context.sampler.mark()
    context.findings.series = context.sampler.series(begin, end)
    context.findings.window = MeasuredWindow(begin, end, 100, "marble", 1, "replayer")
    if error is not None:
        raise error


def test_what_was_seen_of_the_window_is_in_the_result(
    collectors: Callable[..., None], perform: Callable[..., Run]
) -> None:
    """Counters are rates of the series, rows are tables, and what it cost is there."""
    calls: list[Any] = []
    collectors(toy=recorder(calls))

    (step,) = perform(windowed).steps

    series = known(step.series)
    seconds = series.seconds[-1]
    assert series.columns["toy.marbles"][0] == pytest.approx(600 / (seconds + 2), rel=0.01)
    assert step.tables["glass"] == ({"colour": "green"},)
    assert step.costs == {"toy": 0.25}
    assert step.notes == ("a marble rolled away",)
    assert calls[1:] == ["mark", "mark", "end", "cut"]


def test_what_the_kernel_did_is_told_by_the_profile_of_the_same_window(
    collectors: Callable[..., None], perform: Callable[..., Run]
) -> None:
    """CPU time from one collector, split by the call chains of another; all of it is kept."""
    stacks = {
        "server;kernel;t;main;do_syscall_64_[k];vfs_read_[k];_copy_to_iter_[k]": 3,
        "server;kernel;t;main;do_syscall_64_[k];vfs_read_[k];ext4_file_read_iter_[k]": 1,
        "client;kernel;t;main;do_syscall_64_[k];tcp_recvmsg_[k]": 5,
    }
    profile = StackProfile(
        payload=StackProfile.packed(stacks), samples=9, event="cycles", hertz=99, seconds=0.2
    )

    class Both(Recorder):
        def cut(self, begin_ns: int, end_ns: int) -> WindowRecording:
            return WindowRecording(profile=profile, used={"server": CpuSeconds(2.0, 4.0)})

    collectors(toy=SimpleNamespace(begin=lambda scene: Both(scene, [])))

    (step,) = perform(windowed).steps

    assert known(step.account).cpu == {
        "server": pytest.approx({Spent.SERVER: 0.02, Spent.COPY: 0.03, Spent.FILE_SYSTEM: 0.01})
    }


def test_what_takes_time_to_begin_is_not_in_the_window(
    collectors: Callable[..., None], perform: Callable[..., Run]
) -> None:
    """It is told before the first edge, once, however many there are."""
    calls: list[Any] = []
    edges: list[int] = []
    toy = recorder(calls)
    begin = toy.begin

    def begun(scene: Any) -> Any:
        recording = begin(scene)

        def prepare() -> None:
            calls.append("prepare")
            edges.append(time.monotonic_ns())

        recording.prepare = prepare
        return recording

    def step(_spec: Any, context: Any) -> None:
        edges.extend(context.sampler.mark() for _ in range(3))

    collectors(toy=SimpleNamespace(begin=begun))
    perform(step)

    assert calls[1:] == ["prepare", "mark", "mark", "mark", "end"]
    assert len(edges) == 4
    assert edges == sorted(edges)


def test_its_folder_is_nobody_elses_and_gone_afterwards(
    collectors: Callable[..., None], perform: Callable[..., Run]
) -> None:
    """While it lasts it is written down, so that it is removed after a kill, too."""
    calls: list[Any] = []
    notes: list[journal.Note] = []
    toy = recorder(calls)
    begin = toy.begin

    def begun(scene: Any) -> Any:
        notes.extend(journal.notes("watching"))
        return begin(scene)

    toy.begin = begun
    collectors(toy=toy)

    perform(windowed)

    _, folder, mode = calls[0]
    assert mode == 0o700
    assert not folder.parent.exists()
    assert [note.details["path"] for note in notes] == [str(folder.parent)]
    assert not list(journal.notes("watching"))


@pytest.mark.parametrize("place", ["mark", "end", "cut"])
def test_one_that_fails_harms_neither_step_nor_its_neighbour(
    collectors: Callable[..., None], perform: Callable[..., Run], place: str
) -> None:
    """What it failed with is said once for a run of two repeats; the other one is kept."""
    calls: list[Any] = []
    others: list[Any] = []
    collectors(broken=recorder(calls, fails=place), toy=recorder(others))

    run = perform(windowed, repeat=2)

    assert run.status is Status.DONE
    assert all("toy.marbles" in known(step.series).columns for step in run.steps)
    assert not any("broken.marbles" in known(step.series).columns for step in run.steps)
    assert "end" in calls
    said = [note for step in run.steps for note in step.notes if "broken" in note]
    assert said == ["broken was not watched: it failed: RuntimeError: a bug in it"]


def test_what_cannot_be_kept_harms_no_step(
    collectors: Callable[..., None], perform: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither columns that are none nor an account that fails."""
    toy = recorder([])
    begin = toy.begin

    def begun(scene: Any) -> Any:
        recording = begin(scene)
        nonsense: Any = [("a", "b")] * 2
        recording.cut = lambda _begin, _end: WindowRecording(columns={"marbles": nonsense})
        return recording

    def fails(*_args: Any) -> NoReturn:
        raise ZeroDivisionError("no marbles")

    collectors(toy=SimpleNamespace(begin=begun))
    monkeypatch.setattr(step_collectors, "account", fails)

    run = perform(windowed)

    assert run.status is Status.DONE
    assert any("toy was not watched: it failed" in note for note in run.steps[0].notes)
    assert any("ZeroDivisionError: no marbles" in note for note in run.steps[0].notes)


def test_one_that_the_machine_does_not_allow_is_told_with_its_reason(
    collectors: Callable[..., None], perform: Callable[..., Run]
) -> None:
    """Once for a run, in the words of the collector."""

    def begin(_scene: Any) -> NoReturn:
        raise Skip("there are no marbles here")

    collectors(toy=SimpleNamespace(begin=begin))

    run = perform(windowed, repeat=2)

    notes = [note for step in run.steps for note in step.notes]
    assert notes == ["toy was not watched: there are no marbles here"]


def test_a_step_that_fails_after_its_window_keeps_what_was_seen(
    collectors: Callable[..., None], perform: Callable[..., Run]
) -> None:
    """What was measured by then is kept, and so is this."""
    collectors(toy=recorder([]))

    run = perform(lambda spec, context: windowed(spec, context, ReplayerError("lost")))

    assert run.status is Status.FAILED
    assert run.steps[0].tables["glass"]


def test_a_step_without_a_window_is_ended_and_not_cut(
    collectors: Callable[..., None], perform: Callable[..., Run]
) -> None:
    """And one that never has one is not watched at all."""
    calls: list[Any] = []
    collectors(toy=recorder(calls))

    perform(lambda _spec, context: context.sampler.mark())
    assert calls[1:] == ["mark", "end"]
    calls.clear()
    perform(lambda _spec, _context: None, has_window=False)
    assert not calls


def test_who_watches_by_default_takes_a_hundredth_of_a_processor_in_all() -> None:
    """Each bounds what it takes; what one takes for itself is not the others' to spend."""
    shares = (waits._SHARE, switches._SHARE, processes._SHARE)

    assert sum(shares) <= 0.01


def test_who_watches_is_chosen_by_name(
    collectors: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By default all but those that say otherwise; fewer by option and variable, more by option."""
    collectors(a=recorder([]), b=recorder([], BY_DEFAULT=False), c=recorder([]))

    assert active_collectors.chosen() == ("a", "c")
    assert active_collectors.chosen(without=["a"], also=["b"]) == ("b", "c")
    assert active_collectors.chosen(without=["all"]) == ()
    monkeypatch.setenv("REPLAYER_WITHOUT", "c,b")
    assert active_collectors.chosen(also=["b"]) == ("a",)


def test_a_name_that_is_none_is_an_error_in_one_sentence(collectors: Callable[..., None]) -> None:
    """With the nearest right one; a collector that only copies files cannot be left out."""
    collectors(profile=recorder([]))

    with pytest.raises(NotFound, match="did you mean profile"):
        active_collectors.chosen(without=["profil"])
    with pytest.raises(Impossible, match="only copies files"):
        active_collectors.chosen(without=["cpu"])


def test_what_a_killed_replayer_left_is_given_back() -> None:
    """Its folder is removed, and the program that writes there is ended, nobody else's."""
    code = (
        "import contextlib, subprocess, sys, os, time\n"
        "from replayer.watch import active_collectors\n"
        "stack = contextlib.ExitStack()\n"
        "folder = stack.enter_context(active_collectors._folder())\n"
        "watcher = [sys.executable, '-c', 'import time; time.sleep(99)', f'{folder}/x']\n"
        "print(folder, subprocess.Popen(watcher, start_new_session=True).pid, flush=True)\n"
        "time.sleep(99)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
    ) as replayer:
        assert replayer.stdout is not None
        folder, pid = replayer.stdout.readline().split()
        replayer.kill()
    lines: list[str] = []
    assert os.path.isdir(folder)  # noqa: PTH112

    recovery.give_back(lines.append)

    assert not os.path.exists(folder)  # noqa: PTH110
    assert len([line for line in lines if folder in line and "1 that watched ended" in line]) == 1
    # Whoever has become its parent takes note of its end in its own time.
    assert journal.identity(int(pid)) == "" or ended_within(int(pid), 120)
    assert not list(journal.notes("watching"))


def ended_within(pid: int, seconds: float) -> bool:
    """Tell whether a process ends within some seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not journal.identity(pid):
            return True
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    return False
