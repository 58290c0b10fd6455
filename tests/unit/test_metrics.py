"""What of a run becomes a metric: the report's numbers, in base units, by names that are valid."""

import contextlib
import math
import os
import random
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import permutations
from pathlib import Path
from typing import IO, Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from replayer import journal
from replayer.errors import Impossible
from replayer.metrics import address, latency, run_files, serving, textfile
from replayer.metrics.families import MetricFamilies
from replayer.model import Better, Cold, Measurement, ReadOrigin, Run, Status, StepResult
from replayer.report.documents.series_means import mean
from replayer.results import store, stored_histogram
from replayer.results.store import FORMAT
from replayer.run.event_stream import event_file, events
from tests.made import altered

OPEN_TEXT: Callable[[Collector], bytes] = openmetrics.generate_latest
OPEN_FAMILIES: Callable[[str], Iterator[Metric]] = text_string_to_metric_families
Samples = Mapping[tuple[str, frozenset[tuple[str, str]]], float]
"""What was exported, by name and labels."""
FIXTURE = Path(__file__).parents[1] / "fixtures" / "runs" / f"format-{FORMAT}.json"


@pytest.fixture(scope="module")
def stored() -> Run:
    """Return the run of the fixture."""
    return store.load(FIXTURE)


class _Of(Collector):
    def __init__(self, *runs: Run) -> None:
        self.runs = runs

    def collect(self) -> Iterable[Metric]:
        families = MetricFamilies()
        for run in self.runs:
            families.add(run)
        return list(families.all())


def exported(*runs: Run) -> Samples:
    """Return (name, labels) -> value, as a reader of OpenMetrics has it that checks the format."""
    registry = CollectorRegistry()
    registry.register(_Of(*runs))
    generate_latest(registry)
    text = OPEN_TEXT(registry).decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in OPEN_FAMILIES(text)
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    """Return the one sample of that name that has these labels."""
    (found,) = (
        number
        for (family, pairs), number in samples.items()
        if family == name and labels.items() <= dict(pairs).items()
    )
    return found


def status_in(samples: Samples) -> str:
    """Return the status of the one run whose metrics these are: each other status has 0."""
    name = "replayer_run_status"
    having = {dict(pairs)["status"]: one for (of, pairs), one in samples.items() if of == name}
    assert having.keys() == set(Status)
    (own,) = (status for status, one in having.items() if one == 1)
    assert sum(having.values()) == 1
    return own


def step_of(run: Run, repeat: int, **changes: Any) -> StepResult:
    """Return a step of the run that was measured, as another repeat."""
    step = next(s for s in run.steps if s.ledger is not None and s.status is Status.DONE)
    return step.model_copy(update={"repeat": repeat, **changes})


def test_all_measurements_are_exported_as_the_report_has_them(stored: Run) -> None:
    """Each number of each step stands there once, by the name that it has in the result file."""
    samples = exported(stored)
    for step in (s for s in stored.steps if s.status is Status.DONE):
        for one in step.measurements:
            (number,) = (
                number
                for (name, pairs), number in samples.items()
                if name.startswith("replayer_step_measured")
                and {"step": step.name, "metric": one.metric}.items() <= dict(pairs).items()
            )
            assert number == pytest.approx(one.value * (0.01 if one.unit == "%" else 1), rel=1e-12)
        took = value(samples, "replayer_step_elapsed_seconds", step=step.name)
        assert took == pytest.approx(step.elapsed, rel=1e-12)


def test_words_of_repeats_that_differ_are_counted(stored: Run) -> None:
    """The gauges are medians of all repeats: the words next to them are not of the last alone."""
    plain = step_of(stored, 1)
    assert plain.ledger is not None
    steps = []
    for number, (got, verdict) in enumerate(
        [("hot", "cached"), ("hot", "cached"), ("cold", "physical")], 1
    ):
        ledger = plain.ledger.model_copy(update={"verdict": ReadOrigin(verdict)})
        cold = Cold.model_validate({"asked": "cold", "got": got, "method": "", "proof": "fincore"})
        steps.append(step_of(stored, number, cold=cold, ledger=ledger))
    for order in permutations(steps):
        samples = exported(stored.model_copy(update={"steps": order}))
        infos = {name: dict(pairs) for name, pairs in samples if name.endswith("_info")}
        cold_, ledger_ = (infos[f"replayer_step_{name}_info"] for name in ("cold", "ledger"))

        assert sorted(cold_["got"].split(", ")) == ["cold 1 of 3", "hot 2 of 3"]
        assert sorted(ledger_["verdict"].split(", ")) == ["cached 2 of 3", "physical 1 of 3"]
        assert (cold_["asked"], cold_["proof"]) == ("cold", "fincore")


def test_ledger_cpu_and_device_are_the_reports(stored: Run) -> None:
    """The ledger's layers, and the collectors' means over the window, in base units."""
    samples = exported(stored)
    step = step_of(stored, 1)
    assert step.ledger is not None
    assert step.series is not None
    of = {"step": step.name}
    assert value(samples, "replayer_step_riops", **of) == step.ledger.riops
    name = "replayer_step_ledger_reads_per_second"
    assert value(samples, name, layer="buffer", **of) == step.ledger.buffer_hits
    assert value(samples, name, layer="page_cache", **of) == step.ledger.page_cache_hits
    assert value(samples, name, layer="device", **of) == step.ledger.device_reads
    user = value(samples, "replayer_step_cpu_ratio", mode="user", **of)
    assert user == pytest.approx((mean(step.series, "cpu.%usr") or math.nan) / 100)
    read = value(samples, "replayer_step_device_read_bytes_per_second", **of)
    assert read == pytest.approx((mean(step.series, "diskstats.rkB/s") or math.nan) * 1024)


def test_repeats_are_one_sample_their_median(stored: Run) -> None:
    """However often a step is repeated it has as many series, and only what was done counts."""
    values = (300.0, 100.0, 200.0)
    steps = [
        step_of(
            stored,
            repeat,
            elapsed=number,
            latency={},
            measurements=(Measurement(metric="a.b", value=number, unit="s", better=Better.LESS),),
        )
        for repeat, number in enumerate(values, 1)
    ]
    failed = step_of(stored, 4, status=Status.FAILED, elapsed=1e9, latency={})
    one = exported(stored.model_copy(update={"steps": tuple(steps[:1])}))
    all_ = exported(stored.model_copy(update={"steps": (*steps, failed)}))

    assert value(all_, "replayer_step_measured_seconds", metric="a.b") == 200.0
    assert value(all_, "replayer_step_elapsed_seconds") == 200.0
    assert value(all_, "replayer_step_results", status="done") == 3
    assert value(all_, "replayer_step_results", status="failed") == 1
    assert len(all_) == len(one) + 1


def test_counters_never_go_backwards(stored: Run) -> None:
    """With each repeat that is added no bucket, count or sum of a histogram gets smaller."""
    before: Samples = {}
    for many in range(1, 4):
        steps = tuple(step_of(stored, repeat) for repeat in range(1, many + 1))
        samples = exported(stored.model_copy(update={"steps": steps}))
        counters = {
            key: number
            for key, number in samples.items()
            if key[0].endswith(("_bucket", "_count", "_sum"))
        }
        assert counters
        assert set(before) <= set(counters)
        assert all(counters[key] >= number for key, number in before.items())
        before = counters


def test_buckets_hold_what_was_measured(stored: Run) -> None:
    """A bucket has the operations that took no longer than it says, to three digits."""
    drawn = random.Random(13)
    spans = [int(drawn.lognormvariate(13, 2)) + 1 for _ in range(5000)]
    counts = {span: spans.count(span) for span in set(spans)}
    step = step_of(stored, 1, latency={"select": stored_histogram.encode(counts)})
    buckets = latency.operations([step])["select"]

    assert dict(buckets.counts)["+Inf"] == len(spans)
    assert buckets.total_seconds == pytest.approx(sum(spans) / 1e9, rel=1e-3)
    for bound, number in buckets.counts:
        limit = float(bound) * 1e9
        assert sum(span < limit * 0.999 for span in spans) <= number
        assert number <= sum(span <= limit * 1.001 for span in spans)
    for percentile, seconds in buckets.percentiles:
        rank = sorted(spans)[math.ceil(len(spans) * float(percentile) / 100) - 1]
        assert seconds == pytest.approx(rank / 1e9, rel=2e-3)


@pytest.mark.parametrize(
    ("operations", "last"), [(10, "50"), (100, "95"), (499, "95"), (500, "99"), (50_000, "99.99")]
)
def test_a_percentile_needs_operations_beyond_it(stored: Run, operations: int, last: str) -> None:
    """What so few operations do not support is not exported."""
    step = step_of(stored, 1, latency={"select": stored_histogram.encode({1000: operations})})

    assert latency.operations([step])["select"].percentiles[-1][0] == last


def test_a_histogram_that_cannot_be_read_is_left_out(stored: Run) -> None:
    """The rest of the step is exported all the same."""
    step = step_of(stored, 1)
    bad = {kind: one.model_copy(update={"payload": "x"}) for kind, one in step.latency.items()}
    run = stored.model_copy(update={"steps": (step.model_copy(update={"latency": bad}),)})
    names = {name for name, _ in exported(run)}

    assert "replayer_step_riops" in names
    assert not any("latency_" in name for name in names)


@pytest.mark.parametrize("names", [("x" * 128 + "1", "x" * 128 + "2"), ("a\tb", "a b"),
                                   ("\x1b" * 40, "\x1b" * 41)])  # fmt: skip
def test_two_steps_whose_names_are_shown_alike_are_two_series(
    stored: Run, names: tuple[str, str]
) -> None:
    """Names of steps that are cut, or cleaned for a terminal, still tell them apart."""
    steps = tuple(altered(stored.steps[0], name=name) for name in names)
    families = MetricFamilies()
    families.add(altered(stored, steps=steps))
    series = [
        (sample.name, tuple(sorted(sample.labels.items())))
        for family in families.all()
        for sample in family.samples
    ]

    assert len(series) == len(set(series))


@pytest.mark.parametrize(
    "label", ['<b onclick="x">', "a\x1b[31mb", "x" * 10_000, 'q"\\\n', "\udcff", "ü \u202e"]
)
def test_labels_are_short_and_steer_nothing(stored: Run, label: str) -> None:
    """Whatever a label has in it, the export is valid, and shows no more of it than a line."""
    samples = exported(stored.model_copy(update={"label": label}))
    (shown,) = (dict(pairs)["label"] for name, pairs in samples if name == "replayer_run_info")

    assert 0 < len(shown) <= 128
    assert shown.isprintable()


def test_what_is_no_number_is_left_out(stored: Run) -> None:
    """Infinity and NaN have no sample, nor a stamp that is none."""
    odd = tuple(
        Measurement(metric=f"a.{number}", value=number, unit="s", better=Better.LESS)
        for number in (math.inf, math.nan, 1.0)
    )
    step = step_of(stored, 1, measurements=odd)
    samples = exported(stored.model_copy(update={"steps": (step,), "started": "?"}))

    assert value(samples, "replayer_step_measured_seconds") == 1.0
    assert "replayer_run_started_timestamp_seconds" not in {name for name, _ in samples}


@pytest.mark.parametrize("public", [False, True])
@pytest.mark.parametrize(
    "wrong", ["65536", "127.0.0.1:x", "127.0.0.1:65536", "[::1:1", "127.0.0.1:-1", "no.invalid:1"]
)
def test_what_is_no_address_is_refused(wrong: str, *, public: bool) -> None:
    """One sentence says what it must be."""
    with pytest.raises(Impossible, match=r"--listen .*127\.0\.0\.1") as refused:
        address.listening(wrong, "--listen", public=public)

    assert "\n" not in str(refused.value)


def test_others_are_let_in_only_if_it_is_asked_for() -> None:
    """An address that others reach wants --metrics-public."""
    with pytest.raises(Impossible, match="--metrics-public"):
        address.listening("0.0.0.0:0", "--metrics", public=False)
    address.listening("0.0.0.0:0", "--metrics", public=True).close()


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:9464", "200"),
        ("localhost", "200"),
        ("[::1]:9464", "200"),
        ("evil.example:9464", "403"),
        ("127.0.0.1.evil.example", "403"),
        ("a:b:c", "403"),
    ],
)
def test_a_name_of_the_web_gets_nothing_from_loopback(host: str, status: str) -> None:
    """A page whose name was made to lead here reads nothing with its visitor's browser."""
    answers: list[object] = []

    def application(_environ: object, start: Callable[..., object]) -> list[bytes]:
        start("200 OK", [])
        return [b""]

    guarded = serving.guarded(application, loopback=True)

    def start(line: str, _headers: object, _error: object = None) -> Callable[[bytes], object]:
        answers.append(line[:3])
        return answers.append

    guarded({"HTTP_HOST": host}, start)

    assert answers == [status]


@pytest.fixture
def under_way(stored: Run, tmp_path: Path) -> Iterator[tuple[Path, IO[bytes]]]:
    """Return the file of a run under way, with an open file of events."""
    path = tmp_path / "run.json"
    store.save(path, stored.model_copy(update={"status": Status.RUNNING}))
    with event_file.path_of(path).open("wb", buffering=0) as told:
        yield path, told


def tell(told: IO[bytes], *some: events.Event) -> None:
    """Write events as a run does."""
    told.write(b"".join(map(events.line, some)))


def asked(registry: CollectorRegistry) -> Samples:
    """Return (name, labels) -> value of what a registry exports now."""
    text = OPEN_TEXT(registry).decode()
    families = OPEN_FAMILIES(text)
    return {(s.name, frozenset(s.labels.items())): s.value for f in families for s in f.samples}


def test_a_crowd_of_connections_takes_no_more_than_its_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Connections that send nothing are refused from a number on, and do not use up all files."""
    monkeypatch.setattr(serving, "_MOST", threading.active_count() + 2)
    listener = socket.create_server(("127.0.0.1", 0))
    with serving.server_of(listener, CollectorRegistry()) as server, contextlib.ExitStack() as ends:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        ends.callback(server.shutdown)
        crowd = [
            ends.enter_context(socket.create_connection(listener.getsockname(), timeout=60))
            for _ in range(6)
        ]

        assert crowd[-1].recv(1) == b""


def test_a_request_that_comes_byte_by_byte_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """All its bytes have one deadline, and a client that is too late is not worth a word."""
    monkeypatch.setattr(serving._Handler, "timeout", 0.5)
    listener = socket.create_server(("127.0.0.1", 0))
    with serving.server_of(listener, CollectorRegistry()) as server, contextlib.ExitStack() as ends:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        ends.callback(server.shutdown)
        slow = ends.enter_context(socket.create_connection(listener.getsockname(), timeout=0.05))
        until = time.monotonic() + 20
        answer = None
        while answer is None and time.monotonic() < until:
            try:
                slow.sendall(b"G")
                answer = slow.recv(1)
            except TimeoutError:
                continue
            except ConnectionError:
                answer = b""

        assert answer == b""
    assert capfd.readouterr().err == ""


def test_an_answer_that_fails_is_not_reported_on_stderr(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Stderr belongs to the run, and the client has gone."""

    def application(_environ: object, _start: object) -> list[bytes]:
        raise TimeoutError

    monkeypatch.setattr(serving, "make_wsgi_app", lambda _registry: application)
    listener = socket.create_server(("127.0.0.1", 0))
    with serving.server_of(listener, CollectorRegistry()) as server, contextlib.ExitStack() as ends:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        ends.callback(server.shutdown)
        client = ends.enter_context(socket.create_connection(listener.getsockname(), timeout=60))
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        while client.recv(1 << 16):
            pass
    assert capfd.readouterr().err == ""


def test_what_a_run_tells_is_exported_while_it_runs(under_way: tuple[Path, IO[bytes]]) -> None:
    """Figures of the step under way, of processors and device; a step that ended has none."""
    path, told = under_way
    registry = run_files.registry(run_files.Named((path,)))
    tell(
        told,
        events.PlannedSteps(steps=(events.Planned(number=1, name="a", repeat=1, seconds=7.5),)),
        events.Begin(name="a", repeat=1, device="vda"),
        events.Figures(values={"riops": 12.0, "hits": None}),
        events.MachineActivity(values={"cpu_user": 0.25, "cpu_steal": 0.5, "device_reads": 3.0}),
    )
    running = asked(registry)
    ended = events.StepEnded(name="a", repeat=1, status="done", reason="", seconds=1.0, measured={})
    tell(told, ended)
    over = asked(registry)

    assert value(running, "replayer_current_riops", step="a") == 12.0
    assert value(running, "replayer_step_running", step="a") == 1.0
    assert value(running, "replayer_step_expected_seconds", step="a") == 7.5
    assert value(running, "replayer_current_cpu_ratio", mode="user") == 0.25
    assert value(running, "replayer_current_cpu_ratio", mode="steal") == 0.5
    assert value(running, "replayer_current_device_reads_per_second", device="vda") == 3.0
    names = {name for name, _ in running}
    assert "replayer_current_buffer_hits_per_second" not in names
    assert not {"replayer_current_riops", "replayer_step_running"} & {name for name, _ in over}


def test_a_figure_that_is_old_is_not_of_this_moment(under_way: tuple[Path, IO[bytes]]) -> None:
    """A step that tells none any more does something else, such as its account."""
    path, told = under_way
    registry = run_files.registry(run_files.Named((path,)))
    old = (datetime.now(UTC) - timedelta(seconds=60)).isoformat()
    tell(
        told,
        events.Begin(name="a", repeat=1),
        events.Figures(at=old, values={"riops": 12.0}),
        events.MachineActivity(at=old, values={"cpu_user": 0.25, "device_reads": 3.0}),
    )
    names = {name for name, _ in asked(registry)}

    assert "replayer_step_running" in names
    assert not {name for name in names if name.startswith("replayer_current_")}


@pytest.mark.parametrize(("age", "shown"), [(0, True), (60, False)])
def test_a_run_that_was_killed_has_no_running_step(
    stored: Run, under_way: tuple[Path, IO[bytes]], age: int, *, shown: bool
) -> None:
    """A run's process is gone, and so are its events; one in another container still writes."""
    path, told = under_way
    boot, _, start = journal.identity(os.getpid()).split(":")
    unseen = f"{boot}:{2**22 + 1}:{start}"
    store.save(path, stored.model_copy(update={"status": Status.RUNNING, "writer": unseen}))
    registry = run_files.registry(run_files.Named((path,)))
    last = (datetime.now(UTC) - timedelta(seconds=age)).isoformat()
    tell(told, events.Begin(at=last, name="a", repeat=1))

    samples = asked(registry)
    assert ("replayer_step_running" in {name for name, _ in samples}) is shown
    assert status_in(samples) == (Status.RUNNING if shown else Status.INTERRUPTED)


def test_the_status_of_a_run_follows_its_process_and_its_file(stored: Run, tmp_path: Path) -> None:
    """A run that was killed writes its file no more: its status is no longer that of the file."""
    path = tmp_path / f"{stored.id}.json"
    own = journal.identity(os.getpid())
    gone = own.rpartition(":")[0] + ":1"
    registry = run_files.registry(run_files.Named((path,)))
    found = []
    for status, writer in (
        (Status.RUNNING, own),
        (Status.RUNNING, gone),
        (Status.RUNNING, "other:1:1"),
        (Status.FAILED, ""),
        (Status.DONE, ""),
    ):
        store.save(path, altered(stored, status=status, writer=writer))
        found.append(status_in(asked(registry)))

    assert found == ["running", "interrupted", "running", "failed", "done"]


def test_a_run_that_is_resumed_after_a_kill_has_figures_again(
    under_way: tuple[Path, IO[bytes]],
) -> None:
    """Nothing showed the exporter that the run was over: its events are in another file now."""
    path, told = under_way
    registry = run_files.registry(run_files.Named((path,)))
    tell(told, events.Begin(name="a", repeat=1))
    asked(registry)
    event_file.path_of(path).unlink()
    with event_file.path_of(path).open("wb", buffering=0) as anew:
        tell(anew, events.Begin(name="b", repeat=1))
        samples = asked(registry)

    assert value(samples, "replayer_step_running", step="b") == 1


def test_counters_of_events_go_on_when_the_run_ends_or_is_taken_up(
    stored: Run, under_way: tuple[Path, IO[bytes]]
) -> None:
    """They only grow, however the lines come; when the run is over its figures are gone."""
    path, told = under_way
    registry = run_files.registry(run_files.Named((path,)))
    mark = events.ServerMark(when="", kind="checkpoint", text="")
    counts = []
    for status in (Status.RUNNING, Status.DONE, Status.RUNNING):
        store.save(path, stored.model_copy(update={"status": status}))
        line = events.line(mark)
        told.write(b"no event\n" + line[:9])
        asked(registry)
        told.write(line[9:] + events.line(events.MachineActivity(values={"cpu_user": 1.0})))
        samples = asked(registry)
        counts.append(value(samples, "replayer_server_marks_total", kind="checkpoint"))
        shown = "replayer_current_cpu_ratio" in {name for name, _ in samples}
        assert shown is (status is Status.RUNNING)

    assert counts == sorted(counts)
    assert counts[0] == 1


def test_a_pipe_is_written_into_and_stays(tmp_path: Path) -> None:
    """Its reader gets the text; no file takes the name of the pipe."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        textfile.put(str(pipe), "a 1\n")
        assert os.read(reader, 100) == b"a 1\n"
    finally:
        os.close(reader)

    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a device")
def test_a_full_device_refuses_the_text_and_stays(tmp_path: Path) -> None:
    """It is an error in one sentence, and the node is the device that it was."""
    node = tmp_path / "full"
    try:
        os.mknod(node, stat.S_IFCHR | 0o600, os.makedev(1, 7))
    except PermissionError:
        pytest.skip("no device can be made here")

    with pytest.raises(Impossible, match=r"full cannot be written: No space left"):
        textfile.put(str(node), "a 1\n")

    assert node.is_char_device()
    assert list(tmp_path.iterdir()) == [node]


@pytest.mark.parametrize("there", [True, False])
def test_the_target_of_a_link_is_replaced_whole(tmp_path: Path, *, there: bool) -> None:
    """The link stays one, and the file to which it points is another, new file."""
    (tmp_path / "other").mkdir()
    target = tmp_path / "other" / "x.prom"
    before = 0
    if there:
        target.write_text("before")
        before = target.stat().st_ino
    link = tmp_path / "x.prom"
    link.symlink_to(target)

    textfile.put(str(link), "a 1\n")

    assert link.is_symlink()
    assert target.read_text() == "a 1\n"
    assert target.stat().st_ino != before
    assert list(target.parent.iterdir()) == [target]
