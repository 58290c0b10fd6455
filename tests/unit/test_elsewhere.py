"""A run elsewhere, without one: what travels, what is refused, what is left of a lost host."""

import contextlib
import dataclasses
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replayer import assets
from replayer.engines import engine as engines
from replayer.errors import HostLost, Impossible, NotFound, ReplayerError
from replayer.model import Run, Status
from replayer.results import store
from replayer.run.event_stream import events
from replayer.run.plan import workload as workload_file
from replayer.run.remote import executor, framing, order_message
from replayer.run.remote.caller import execute_there, found_database, refuse_other
from replayer.run.remote.progress_proxy import ProgressReceiver, ProgressSender
from replayer.run.runner import RunRequest
from replayer.servers.remote import Whereabouts

URL = "postgresql://app:a-secret@db/shop"


@pytest.fixture
def order() -> RunRequest:
    """Return the order of a run of `smoke` on the host db."""
    return RunRequest(
        workload=workload_file.load("smoke"),
        engine=engines.load("postgres"),
        label="one",
        url=URL,
        watched="db",
    )


def order_facts(order: RunRequest) -> Any:
    """Return what is known of an order's workload."""
    return workload_file.facts(order.workload)


def changed(data: Any, **keys: Any) -> Any:
    """Return a letter with other keys."""
    return json.dumps({**json.loads(data), **keys}).encode()


@settings(max_examples=30, deadline=None)
@given(
    st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists), st.integers(0, 3)
)
def test_messages_arrive_as_they_were_sent(value: Any, mebibytes: int) -> None:
    """Whatever JSON can hold comes out of the frames, of which none is larger than it may be."""
    noise = os.urandom(mebibytes << 20).hex()
    frames: list[bytes] = []
    unpacking = framing.FrameDecoder()
    for number in range(2):
        framing.send(
            {"kind": "run", "number": number, "value": value, "noise": noise}, frames.append
        )
    arrived = [message for message in map(unpacking.feed, frames) if message]

    assert [message["number"] for message in arrived] == [0, 1]
    assert [message["value"] for message in arrived] == [value, value]
    assert arrived[1]["noise"] == noise
    assert max(map(len, frames)) <= framing.FRAME_BYTES + 1


@pytest.mark.parametrize("frame", [b".", b".nonsense", b"", b".\x28\xb5\x2f\xfd"])
def test_frames_of_somebody_else_are_an_error(frame: bytes) -> None:
    """What is not a message is refused in a sentence, not with a trace."""
    with pytest.raises(ReplayerError, match="not a message of replayer"):
        framing.FrameDecoder().feed(frame)


@pytest.mark.parametrize("name", sorted(assets.workloads()))
def test_every_workload_that_ships_is_read_there_as_it_was_written_here(
    order: RunRequest, name: str
) -> None:
    """The digest of the workload at the other end is this one's, unless it is refused here."""
    order = dataclasses.replace(order, workload=workload_file.load(name))
    stays = any(map(order_message.run_here_reason, order.workload.steps))
    try:
        arrived = order_message.read(order_message.written(order))
    except Impossible:
        assert stays
        return

    assert not stays
    assert workload_file.facts(arrived.workload) == order_facts(order)
    assert (arrived.url, arrived.label, arrived.watched, arrived.engine) == (
        URL,
        "one",
        "db",
        order.engine,
    )


def test_who_watches_is_what_was_asked_for_here(order: RunRequest) -> None:
    """Not what the other host's defaults or variables say."""
    for names in ((), ("profile",), ("profile", "waits")):
        asked = dataclasses.replace(order, collectors=names)
        assert order_message.read(order_message.written(asked)).collectors == names


def test_another_version_is_refused_by_name(order: RunRequest) -> None:
    """Both versions are in the sentence, also when the other one's letters have other keys."""
    data = changed(order_message.written(order), version="99.1", also=True)

    with pytest.raises(Impossible, match=r"db has replayer \d.*asks 99\.1"):
        order_message.read(data)


def test_other_schemas_and_workloads_are_refused_with_both_digests(order: RunRequest) -> None:
    """An engine's folder with another file, and a workload that is read differently."""
    data = order_message.written(order)
    mine = json.loads(data)["workload"]

    with pytest.raises(
        Impossible, match=r"schemas of PostgreSQL on db \(digest \w{16}\).*\(0000\)"
    ):
        order_message.read(changed(data, schemas="0000"))
    with pytest.raises(
        Impossible, match=rf"workload smoke on db \(digest {mine['digest']}.*\(beef"
    ):
        order_message.read(changed(data, workload={**mine, "digest": "beef"}))


def test_schemas_differ_by_any_file(
    order: RunRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One more statement in a verb of an engine that the server may be is another digest."""
    before = order_message.schemas(order.engine, URL)
    own = tmp_path / "postgres-of-mine"
    own.mkdir()
    (own / "engine.toml").write_text(
        'like = "postgres"\n[recognise]\nstatement = "SELECT 1"\npattern = "x"\n'
    )
    monkeypatch.setenv("REPLAYER_SCHEMAS", str(tmp_path))
    (own / "flush.sql").write_text("SELECT 1\n")
    one = order_message.schemas(order.engine, URL)
    (own / "flush.sql").write_text("SELECT 2\n")

    assert len({before, one, order_message.schemas(order.engine, URL)}) == 3


@pytest.mark.parametrize(
    "keys", [{"step": "walk", "path": "/etc"}, {"step": "probe", "probe": "cpu"}]
)
def test_what_looks_at_other_files_than_the_servers_is_refused_at_both_ends(
    order: RunRequest, keys: dict[str, str]
) -> None:
    """A folder to walk, and a probe: whoever sends such an order past this end is refused there."""
    data = order_message.written(order)
    bad = workload_file.of_facts(order_facts(order).model_copy(update={"steps": (keys,)}))
    sent = changed(data, workload=workload_file.facts(bad).model_dump(mode="json"))

    with pytest.raises(Impossible, match="cannot be run on db"):
        order_message.written(dataclasses.replace(order, workload=bad))
    with pytest.raises(Impossible, match="cannot be run on db"):
        order_message.read(sent)


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"\xff", b'{"version": "0.1.0"}'])
def test_what_is_no_order_is_refused(data: bytes) -> None:
    """One sentence, whatever it is."""
    with pytest.raises(Impossible, match="not an order of a run"):
        order_message.read(data)


def test_the_password_is_in_no_repr(order: RunRequest) -> None:
    """A letter may be printed."""
    told = repr(order_message.OrderMessage.model_validate_json(order_message.written(order)))

    sent = repr(executor.Sent(order_message.written(order), "a-key"))

    assert "smoke" in told
    assert "secret" not in told + sent
    assert "a-key" not in sent


class Screen:
    """A progress display that notes what it is told."""

    def __init__(self) -> None:
        self.lines: list[tuple[object, ...]] = []

    @contextlib.contextmanager
    def task(self, title: str, total: float | None = None) -> Iterator[Any]:
        """Note the beginning and the end."""
        self.lines.append(("task", title, total))
        yield self
        self.lines.append(("end", title))

    def say(self, text: str) -> None:
        """Note a line."""
        self.lines.append(("say", text))

    def tell(self, event: object) -> None:
        """Note an event."""
        self.lines.append(("tell", event))

    def update(self, **state: object) -> None:
        """Note what has changed."""
        self.lines.append(("update", *state.values()))


def test_progress_is_shown_as_it_is_told_but_not_more_often() -> None:
    """A hundred reports in a second are five; the last one of a task comes with its end."""
    screen, now = Screen(), [0.0]
    sent: list[Mapping[str, Any]] = []
    with ProgressReceiver(screen) as shown:

        def hear(message: Mapping[str, Any]) -> None:
            sent.append(message)
            shown.show(message)

        told = ProgressSender(hear, lambda: now[0])
        # Steps count with numpy, and JSON has none of its numbers.
        with told.task("walk", cast("float", np.int64(100))) as task:
            for number in range(100):
                now[0] += 0.01
                task.advance(cast("float", np.int64(1)))
                assert json.dumps(sent)
                task.update(note=f"file {number}")
        told.say("done")
        told.tell(events.Figures(at="2026-11-22T12:00:00.000+00:00", values={"riops": 1.5}))
        assert json.dumps(sent)
    updates = [line for line in screen.lines if line[0] == "update"]

    assert screen.lines[0] == ("task", "walk", 100.0)
    assert len(updates) in (5, 6)
    assert screen.lines[-4:] == [
        ("update", 100.0, None, "file 99"),
        ("end", "walk"),
        ("say", "done"),
        ("tell", events.Figures(at="2026-11-22T12:00:00.000+00:00", values={"riops": 1.5})),
    ]
    assert shown.last == "walk: file 99"


def test_what_is_open_is_closed_when_the_run_is_gone() -> None:
    """A task of a host that was lost does not stay on the screen."""
    screen = Screen()
    with ProgressReceiver(screen) as shown:
        shown.show({"kind": "task", "number": 0, "title": "walk", "total": None})

    assert screen.lines == [("task", "walk", None), ("end", "walk")]


ELSEWHERE = Whereabouts(here=False, runs=False, proven=True, why="its files are not there")


class There:
    """Agents whose run says what the test wants."""

    names = ("c1", "db", "copy")

    def __init__(
        self, messages: Iterable[Any] = (), error: Exception | None = None, places: Any = None
    ) -> None:
        self.messages, self.error, self.places = messages, error, places or {}

    def passport(self) -> str:
        """Return what leads to the clients."""
        return "passport"

    @contextlib.contextmanager
    def run(self, work: Any, order: Any, on: str = "") -> Iterator[Any]:
        """Run nothing."""
        if work is executor.owns:
            assert order == ("postgres", URL)
            yield There((), places=self.places.get(on, ELSEWHERE))
        else:
            assert order.passport == "passport"
            yield self

    def receive_messages(self, timeout: float) -> Iterator[bytes]:
        """Yield the frames of all messages, and fail."""
        frames: list[bytes] = []
        for message in self.messages:
            framing.send(message, frames.append)
        yield from frames
        if self.error:
            raise self.error

    def result(self) -> Any:
        """Return what is known of a host."""
        return self.places


def told(run: Run, before: int = 0) -> dict[str, Any]:
    """Return the message that a Run comes in, as the other end sends it."""
    new = run.model_copy(update={"steps": run.steps[before:]})
    return {"kind": "run", "before": before, "run": store.text(new)}


def collected(order: RunRequest, agents: Any) -> tuple[list[Run], ReplayerError | None]:
    """Return the Runs of a run elsewhere and the error that it ended with."""
    runs = []
    try:
        for run in execute_there(order, agents, cast("Any", Screen())):
            runs.append(run)  # noqa: PERF402 - what came before an error counts
    except ReplayerError as error:
        return runs, error
    return runs, None


@pytest.fixture
def run(order: RunRequest, run_of: Callable[..., Run]) -> Run:
    """Return a run as the other end has it after its first step."""
    made = run_of([1.0])
    own = {"workload": order_facts(order), "status": Status.RUNNING}
    return made.model_copy(update={**own, "finished": None})


def test_runs_are_put_together_from_what_is_new(order: RunRequest, run: Run) -> None:
    """Each Run has the steps before it, and the id that this host gave it."""
    second = run.steps[0].model_copy(update={"name": "again"})
    last = run.model_copy(update={"steps": (*run.steps, second), "status": Status.DONE})
    said = [told(run.model_copy(update={"steps": ()})), told(run), told(last, 1)]
    runs, error = collected(order, There([*said, {"kind": "ended", "error": None}]))

    assert error is None
    assert [len(one.steps) for one in runs] == [0, 1, 2]
    assert runs[-1].steps == last.steps
    assert runs[-1].status is Status.DONE
    assert {one.id for one in runs} == {runs[0].id}
    assert runs[0].id != run.id
    assert runs[0].label == "one"


def test_a_lost_host_leaves_a_partial_run_with_the_step_that_was_cut(
    order: RunRequest, run: Run
) -> None:
    """What was measured is there, the step under way is partial, and the error is raised."""
    words = [
        {"kind": "task", "number": 0, "title": "flush", "total": 10},
        {"kind": "tasks", "tasks": [[0, {"done": 4, "note": "4 of 10"}]]},
    ]
    lost = HostLost("db has not answered for 4 s")
    runs, error = collected(order, There([told(run), *words], lost))

    assert error is lost
    assert runs[-1].status is Status.PARTIAL
    assert runs[-1].error == "db has not answered for 4 s"
    assert runs[-1].finished
    assert [step.status for step in runs[-1].steps] == [Status.DONE, Status.PARTIAL]
    assert runs[-1].steps[1].name == order.workload.steps[1].name
    assert "flush: 4 of 10" in runs[-1].steps[1].notes[0]
    assert Run.model_validate_json(store.text(runs[-1]), strict=True) is not None


@pytest.mark.parametrize("kind", [Impossible, NotFound, ReplayerError, HostLost])
def test_errors_are_the_same_as_they_would_have_been_here(
    order: RunRequest, kind: type[Exception]
) -> None:
    """Class, sentence, advice and so the exit status."""
    what = {"kind": kind.__name__, "found": "it cannot be", "todo": "do that", "trace": ""}
    runs, error = collected(order, There([{"kind": "ended", "error": what}]))

    assert runs == []
    assert error is not None
    assert type(error) is kind
    assert str(error) == "it cannot be: do that"
    assert error.status == kind.status


@pytest.mark.parametrize(
    "message",
    [
        {"kind": "run", "before": 3, "run": "{}"},
        {"kind": "run", "run": None},
        {"kind": "task"},
        {"kind": "tasks", "tasks": [[7, {}]]},
        {"kind": "exec", "text": "rm"},
        {"kind": "ended"},
        {"kind": "ended", "error": {"kind": "SystemExit", "found": "", "todo": "", "trace": ""}},
    ],
)
def test_nonsense_of_an_agent_is_an_error_in_one_sentence(
    order: RunRequest, run: Run, message: dict[str, Any]
) -> None:
    """An agent that says what no run says ends the run, without a trace."""
    _, error = collected(order, There([told(run), message]))

    assert "what the agent on db sent" in str(error)


def test_a_run_of_another_workload_is_not_taken_for_ours(order: RunRequest, run: Run) -> None:
    """Its digest tells them apart."""
    other = run.workload.model_copy(update={"digest": "beef"})
    runs, error = collected(order, There([told(run.model_copy(update={"workload": other}))]))

    assert runs == []
    assert "not of the run that was asked for" in str(error)


HERE = Whereabouts(here=True, runs=True, proven=True, why="")
SEEN = Whereabouts(here=True, runs=False, proven=True, why="")
UNKNOWN = Whereabouts(here=False, runs=False, proven=False, why="no right")


@pytest.fixture
def not_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the data on another host than this one."""
    monkeypatch.setattr("replayer.servers.remote.whereabouts", lambda *_: ELSEWHERE)


@pytest.mark.parametrize(
    ("places", "host"),
    [
        ({}, ""),
        ({"db": HERE}, "db"),
        ({"db": HERE, "copy": SEEN}, "db"),
        ({"copy": SEEN}, "copy"),
        ({"db": UNKNOWN}, ""),
    ],
)
def test_the_databases_host_is_found_among_the_clients(
    order: RunRequest, not_here: None, places: dict[str, Whereabouts], host: str
) -> None:
    """It is the one with the data, and of several the one on which the server is seen to run."""
    assert found_database(order, There(places=places)) == host


def test_of_two_hosts_with_the_data_one_has_to_be_named(order: RunRequest, not_here: None) -> None:
    """Both are in the sentence."""
    with pytest.raises(Impossible, match="seen on db and copy: name the one"):
        found_database(order, There(places={"db": HERE, "copy": HERE}))


def test_what_has_to_stay_here_is_not_sent_away(order: RunRequest, not_here: None) -> None:
    """A workload with a probe is run on this host, wherever the data is."""
    probes = dataclasses.replace(order, workload=workload_file.load("storage"))

    assert found_database(probes, There(places={"db": HERE})) == ""


def test_a_host_that_is_named_must_not_be_proven_wrong(order: RunRequest) -> None:
    """What cannot be known is believed; what is known to be elsewhere is refused."""
    refuse_other(order, There(places={"": UNKNOWN}))
    with pytest.raises(Impossible, match="db is not the host of the database: its files are not"):
        refuse_other(order, There())
