"""What a run tells while it lasts: lines that a reader of any moment makes a state of."""

import json
import math
import os
import stat
import threading
from collections import Counter
from pathlib import Path

import pytest

from replayer import journal
from replayer.live.view import View
from replayer.machine import processors
from replayer.machine.host import Host
from replayer.model import Status
from replayer.report.terminal.progress import Silence
from replayer.report.terminal.run_output import RunOutput
from replayer.results import store
from replayer.run import recovery
from replayer.run.event_stream import event_file, events
from replayer.run.event_stream.event_file import EventFile, Follower
from replayer.run.event_stream.live_statistics import ActivityMeter
from replayer.run.event_stream.publisher import EventPublisher
from replayer.run.event_stream.rates import Rates
from replayer.watch.sampler import Sampler
from tests.waiting import wait_until

FORMAT_3 = Path(__file__).parents[1] / "fixtures" / "runs" / "format-3.json"

AT = "2026-11-22T12:00:00.000+00:00"


@pytest.fixture
def result(tmp_path: Path) -> Path:
    """Return where a result is."""
    return tmp_path / "20261122-120000-smoke-abcd.json"


def text_of(event: events.Event | None) -> str:
    """Return what was said."""
    assert isinstance(event, events.MessageEvent)
    return event.text


def told() -> list[events.Event]:
    """Return what a run of two steps tells until its second step."""
    planned = [
        events.Planned(number=n, name=name, repeat=1, seconds=2.0)
        for n, name in enumerate(("walk", "scan"), 1)
    ]
    return [
        events.PlannedSteps(at=AT, steps=tuple(planned)),
        events.RunState(at=AT, id="r", path="r.json", status="running"),
        events.Begin(at=AT, name="walk", repeat=1),
        events.TaskBegin(at=AT, number=1, title="walk", total=10.0),
        events.TaskProgress(at=AT, number=1, done=5.0, total=10.0, note="half"),
        events.Figures(at=AT, values={"bytes": 7.0, "nosuch": 1.0}),
        events.TaskEnd(at=AT, number=1, seconds=1.0),
        events.StepEnded(
            at=AT,
            name="walk",
            repeat=1,
            status="done",
            reason="",
            seconds=1.0,
            measured={},
            doubt="asked cold, got lukewarm",
        ),
        events.Begin(at=AT, name="scan", repeat=1),
        events.TaskBegin(at=AT, number=2, title="scan", total=None),
        events.MachineActivity(at=AT, values={"cpu_user": 0.5}),
    ]


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_the_state_is_the_same_in_whatever_pieces_it_comes(size: int) -> None:
    """Lines are cut anywhere by who reads a file that grows; foreign lines are passed over."""
    data = b"".join(map(events.line, told()))
    data = data.replace(b"\n", b'\n{"event": "unheard"}\nnonsense\n', 1)
    reader = events.EventReader()
    heard = [
        event for at in range(0, len(data), size) for event in reader.feed(data[at : at + size])
    ]
    state = reader.state()

    assert heard == told()
    assert [(one.name, one.state, one.seconds, one.doubt) for one in state.steps] == [
        ("walk", "done", 1.0, "asked cold, got lukewarm"),
        ("scan", events.RUNNING, None, ""),
    ]
    assert [(task.title, task.total) for task in state.tasks] == [("scan", None)]
    assert [point.values for point in reader.points] == [{"bytes": 7.0}, {"cpu_user": 0.5}]
    assert state.latest == {"cpu_user": 0.5}


def test_a_long_run_does_not_fill_a_reader() -> None:
    """Of a hundred thousand points there are a thousand, over the whole time, of both kinds."""
    reader = events.EventReader()
    for second in range(20_000):
        at = f"2026-11-22T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}.000"
        reader.take(events.Figures(at=at, values={"riops": float(second)}))
        reader.take(events.MachineActivity(at=at, values={"cpu_user": 0.1}))
        reader.take(events.MessageEvent(at=at, text="x" * 10_000))
    riops = [point.values.get("riops") or 0.0 for point in reader.points if "riops" in point.values]

    assert len(reader.points) <= 1200
    assert riops[-1] > 19_900
    assert riops == sorted(riops)
    assert len(riops) > len(reader.points) / 3
    quarters = Counter(int(second) // 5000 for second in riops)
    assert all(quarters[quarter] > 50 for quarter in range(4))
    assert len(reader.state().model_dump_json()) < 200_000


def test_who_does_not_read_holds_nobody_up() -> None:
    """What a stuck reader does not take is dropped and counted; another one has all of it."""
    whole: list[bytes] = []
    stuck = threading.Event()
    telling = EventPublisher(Silence())
    telling.add(lambda _: stuck.wait())
    telling.add(whole.append)
    for number in range(5000):
        telling.tell(events.MessageEvent(text=str(number)))
        telling.tell(events.MachineActivity(values={"cpu_user": 0.1}))
    dropped = telling.dropped
    stuck.set()
    telling.end()

    assert dropped > 5000
    assert b"".join(whole).count(b'"say"') > 0


def test_an_odd_event_takes_no_other_one_with_it() -> None:
    """A number that JSON cannot hold is null; an event that cannot be written is counted."""
    lines: list[bytes] = []
    telling = EventPublisher(Silence())
    telling.say("hello")
    telling.tell(
        events.StepEnded(
            name="a\udcff", repeat=1, status="done", reason="", seconds=1, measured={"x": math.nan}
        )
    )
    telling.tell(events.MessageEvent.model_construct(text=b"\xff"))
    telling.add(lines.append)
    telling.end()
    said, ended = map(events.parsed, b"".join(lines).splitlines())

    assert isinstance(said, events.MessageEvent)
    assert isinstance(ended, events.StepEnded)
    assert (ended.name, ended.measured) == ("a?", {"x": None})
    assert telling.dropped == 1


def test_a_late_outlet_hears_what_was_before() -> None:
    """The file of the events is there when the run has a place, and the plan was told before."""
    lines: list[bytes] = []
    telling = EventPublisher(Silence())
    with telling.task("first", 3):
        telling.say("hello")
    telling.add(lines.append)
    telling.end()
    heard = [events.parsed(line) for line in b"".join(lines).splitlines()]

    assert [one and one.event for one in heard] == ["task", "say", "end"]


def test_a_resumed_run_with_many_steps_is_shown_whole(tmp_path: Path) -> None:
    """Its plan and itself come before the steps that it had done, whatever its names are."""
    folder = tmp_path / os.fsdecode(b"r\xe9sultats")
    folder.mkdir()
    run = store.load(FORMAT_3).model_copy(update={"status": Status.RUNNING, "label": "a\udcff"})
    steps = tuple(run.steps[0].model_copy(update={"repeat": n}) for n in range(3000))
    path = store.reserve(folder, run)
    plan = events.Planned(number=1, name="last", repeat=9999)
    view = View()
    with RunOutput(Silence()) as output, output.conversation(events.PlannedSteps(steps=(plan,))):
        output.report_steps(run.model_copy(update={"steps": steps}), path)
        view.follow(path)

        def known() -> int:
            view.look()
            return len(view.reader.state().steps)

        wait_until(lambda: known() == len(steps) + 1)
        assert output.telling.dropped == 0
    assert view.reader.run is not None
    assert view.reader.run.label == "a?"
    assert view.path == path


def test_totals_become_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rate is that of the time since the last one, not the mean since the beginning."""
    heard: list[events.Event] = []
    now = [0.0]
    telling = EventPublisher(Silence(), clock=lambda: now[0])
    monkeypatch.setattr(telling, "tell", heard.append)
    rates = Rates(telling, clock=lambda: now[0])
    for seconds, total in ((0.1, 5), (1.0, 10), (3.0, 110)):
        now[0] = seconds
        rates.count({"bytes": total}, behind=0.5)

    assert [isinstance(event, events.Figures) and event.values for event in heard] == [
        {"bytes": 10.0, "behind": 0.5},
        {"bytes": 50.0, "behind": 0.5},
    ]


def test_the_machine_is_told_from_the_samplers_copies(tmp_path: Path) -> None:
    """Shares of processor time are shares, and the device's rates are there where it has one."""
    host = Host()
    with Sampler(host, host.device_of(tmp_path), interval=0.05) as sampler:
        machine = ActivityMeter(sampler)
        values = wait_until(machine.values)

    assert set(values) <= set(events.FIGURES)
    shares = {name: value or 0.0 for name, value in values.items() if name.startswith("cpu_")}
    assert 0 <= sum(shares.values()) <= 1.001
    # Each state of the kernel but idle, and no other.
    assert set(shares) == {name for name in events.FIGURES if name.startswith("cpu_")}
    assert len(shares) == len(processors.STATES) - 1
    assert ("device_reads" in values) == (sampler.device is not None)


def test_events_are_for_their_owner_and_gone_at_the_end(result: Path) -> None:
    """Nobody else reads them, no link is followed, and they do not outlive the run."""
    path = event_file.path_of(result)
    elsewhere = result.with_name("precious")
    elsewhere.write_text("precious")
    with EventFile(result) as file:
        follower = Follower(result)
        file.write(events.line(events.MessageEvent(at=AT, text="one")))
        first = follower.fresh()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    rest = follower.fresh()
    follower.close()
    path.symlink_to(elsewhere)

    assert text_of(events.parsed(first)) == "one"
    assert rest == b""
    assert not Follower(result).there
    with pytest.raises(OSError, match=r"symbolic|links|exists"), EventFile(result):
        pass
    assert elsewhere.read_text() == "precious"


def test_what_comes_after_the_end_is_in_no_other_file(result: Path, tmp_path: Path) -> None:
    """A disk may hold up who writes until the run is over, and another file has the number."""
    with EventFile(result) as file:
        number = file._fd
    other = os.open(tmp_path / "other", os.O_RDWR | os.O_CREAT)
    os.dup2(other, number)
    try:
        with pytest.raises(OSError, match="Bad file descriptor"):
            file.write(b"late")
        assert os.fstat(other).st_size == 0
    finally:
        for one in {other, number}:
            os.close(one)


def test_a_pipe_in_the_place_of_events_is_not_read(result: Path) -> None:
    """Somebody who may write in the folder of results can put one there."""
    os.mkfifo(event_file.path_of(result))
    held = os.open(event_file.path_of(result), os.O_RDWR)
    follower = Follower(result)

    assert not follower.there
    assert follower.fresh() == b""
    os.close(held)


def test_what_has_no_end_is_no_event_and_is_not_kept() -> None:
    """A file without lines costs no more memory than the longest event; what follows is heard."""
    reader = events.EventReader()
    for _ in range(40):
        assert list(reader.feed(bytes(1 << 20))) == []
    assert len(reader._rest) <= 5 << 20
    (heard,) = reader.feed(b"\n" + events.line(events.MessageEvent(at=AT, text="whole")))

    assert text_of(heard) == "whole"


def test_events_of_a_killed_run_are_removed(result: Path) -> None:
    """By the note; what holds no events is left alone."""
    pid = os.fork()
    if not pid:
        EventFile(result).write(events.line(events.MessageEvent(at=AT, text="last words")))
        os._exit(0)
    os.waitpid(pid, 0)
    path = event_file.path_of(result)
    assert path.exists()
    words: list[str] = []
    recovery.give_back(words.append)

    assert not path.exists()
    assert any(str(path) in one and "removed" in one for one in words)
    path.write_text("somebody's")
    note = journal.take("events", path=str(path))
    with pytest.raises(journal.Untrusted):
        event_file.recover(note)
    note.drop()
    assert path.read_text() == "somebody's"


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize(
    "line",
    [
        '{"event": "figures", "values": {"riops": NUMBER}}',
        '{"event": "task", "number": 1, "title": "x", "total": NUMBER}',
        '{"event": "progress", "number": 1, "done": NUMBER, "total": 1, "note": ""}',
        '{"event": "plan", "steps": [{"number": 1, "name": "x", "repeat": 1, "seconds": NUMBER}]}',
    ],
)
def test_what_is_no_number_is_no_event(line: str, number: str) -> None:
    """Inf and NaN in a file of events reach nobody who reads it: neither a page nor a terminal."""
    assert events.parsed(line.replace("NUMBER", "1")) is not None
    assert events.parsed(line.replace("NUMBER", number)) is None
    keys = json.loads(line.replace("NUMBER", number))
    with pytest.raises(ValueError, match="number"):
        events.of_keys(keys)
