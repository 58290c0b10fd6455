"""Each warning is given for its reason, with what to do, and not otherwise."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from replayer.analysis.advice import warnings
from replayer.model import (
    Better,
    Cold,
    EngineFacts,
    Fact,
    Foreign,
    Measurement,
    ReadOrigin,
    Replayed,
    Run,
    Series,
    Status,
    Steadiness,
    StepResult,
    Temperature,
)
from replayer.watch import interference
from tests.fixture_types import RunOf
from tests.known import known
from tests.made import ledger

CALM = {
    "kernel.release": "6.1.0",
    "cpu.governor": "performance",
    "cpu.threads": 8,
    "virtualisation": "none",
    "memory.bytes": 16 << 30,
    "memory.transparent_huge_pages": "madvise",
    "memory.huge_pages": 0,
    "host.load1": 0.1,
    "kernel.clocksource": "tsc",
    "fs.type": "ext4",
    "device.name": "sda",
    "device.read_ahead_kb": 128,
}


REPLAYED = Replayed(
    fingerprint="0" * 16, text="SELECT ?", kind="select", planned=1, executions=1, service_s=1.0
)
FAILED = REPLAYED.model_copy(
    update={"executions": 98, "failed_here": {"42P01": 2}, "consequences": 7}
)


def cold(got: Temperature = Temperature.COLD, size: int = 1 << 30) -> Cold:
    """Return what a step that asked for cold got."""
    return Cold(asked=Temperature.COLD, got=got, method="m", proof="cachestat", file_bytes=size)


def series(seconds: Sequence[float] = (1, 2, 3, 4, 5), /, **columns: float) -> Series:
    """Return a series in which every column has one value throughout."""
    names = {name.replace("__", "."): value for name, value in columns.items()}
    return Series(
        started="2026-11-20T10:00:00+00:00",
        seconds=tuple(map(float, seconds)),
        columns={name: (float(value),) * len(seconds) for name, value in names.items()},
    )


def step(
    name: str = "walk", *, repeat: int = 1, status: Status = Status.DONE, **more: object
) -> StepResult:
    """Return a finished step."""
    plain = {
        "step": name,
        "name": name,
        "repeat": repeat,
        "status": status,
        "started": "2026-11-20T10:00:00+00:00",
        "elapsed": 1.0,
        "spec": {},
        "measurements": (Measurement(metric=f"{name}.x", value=1, unit="s", better=Better.LESS),),
    }
    return StepResult.model_validate({**plain, **more})


@pytest.fixture
def run(run_of: RunOf) -> Callable[..., Run]:
    """Return a function that makes a run of these steps on a calm machine."""

    def make(*steps: StepResult, repeats: int = 10, **facts: Fact | None) -> Run:
        many = [one.model_copy(update={"repeat": n + 1}) for n in range(repeats) for one in steps]
        return run_of([1.0]).model_copy(update={"steps": tuple(many), "host": {**CALM, **facts}})

    return make


def test_nothing_is_said_of_a_sound_run_on_a_calm_machine(run: Callable[..., Run]) -> None:
    """Ten cold, physical, steady repeats on bare metal have no warnings."""
    walk = step(cold=cold(), series=series(diskstats__rkB_s=9e5))
    sessions = step(
        "sessions",
        ledger=ledger(ReadOrigin.PHYSICAL, asked=ReadOrigin.PHYSICAL),
        steady=Steadiness(settled=True, words="steady"),
        series=series(**{"cpu.%idle": 60, "cpu.%steal": 0}),
    )

    assert warnings.on(run(walk, sessions)) == ()


@pytest.mark.parametrize(
    ("facts", "doubted"),
    [
        ({"fs.type": "tmpfs", "device.name": None}, ("writes",)),
        ({"fs.type": "ext4", "device.name": "zram0"}, ("writes",)),
        ({}, ()),
    ],
)
@pytest.mark.parametrize("data", ["/pg/data", None])
def test_a_databases_writes_to_memory_prove_no_disk(
    run: Callable[..., Run], facts: dict[str, Any], doubted: tuple[str, ...], data: str | None
) -> None:
    """Commits there wait for no disk; a database whose data is on an unknown host is not judged."""
    engine = EngineFacts(
        name="x", version="1", place="url", settings={}, facts={"data.directory": data}
    )
    written, read = step("writes", writes=True), step("reads")
    one = run(written, read, **facts).model_copy(update={"engine": engine})
    advice = warnings.unproven_io(one)

    assert (advice.steps if advice else ()) == (doubted if data else ())


def test_the_read_ahead_of_the_datas_disk_is_not_that_of_another(run: Callable[..., Run]) -> None:
    """A step that read another disk is not warned of the data's read-ahead."""
    other = step(cold=cold(), facts={"device.name": "sdb", "device.read_ahead_kb": 128})

    assert warnings.large_read_ahead(run(other, **{"device.read_ahead_kb": 8192})) is None


@pytest.mark.parametrize(
    ("warned", "words", "steps", "facts"),
    [
        ("coldness", "got lukewarm", [step(cold=cold(Temperature.LUKEWARM))], {}),
        (
            "verdict",
            'memory = "direct"',
            [step("s", ledger=ledger(ReadOrigin.CACHED, asked=ReadOrigin.PHYSICAL))],
            {},
        ),
        (
            "verdict",
            "scale smaller",
            [step("s", ledger=ledger(ReadOrigin.MIXED, asked=ReadOrigin.CACHED))],
            {},
        ),
        (
            "verdict",
            "needs a larger scale or fewer buffers",
            [step("s", ledger=ledger(ReadOrigin.BUFFERED, asked=ReadOrigin.CACHED, ratio=None))],
            {},
        ),
        (
            "foreign_processes",
            "up to 48% of the processors meanwhile (yes 31%, sh 17%)",
            [
                step(foreign=Foreign(cpu_share=0.05, programs=("cron 5%",))),
                step("s", foreign=Foreign(cpu_share=0.48, programs=("yes 31%", "sh 17%"))),
            ],
            {},
        ),
        (
            "foreign_processes",
            "as root, outside of containers)",
            [step("s", foreign=Foreign(cpu_share=0.6, programs=(f"{interference.UNSEEN} 60%",)))],
            {},
        ),
        (
            "uncounted",
            "could not be counted",
            [step("s", ledger=ledger(ReadOrigin.UNKNOWN, asked=ReadOrigin.PHYSICAL))],
            {},
        ),
        (
            "unproven_io",
            "the device delivered only 3%",
            [step("s", facts={"storage.unproven": "the device delivered only 3% of the bytes"})],
            {},
        ),
        (
            "client_bound",
            "more than 80% of the processor time of cl1 was used",
            [step("s", tables={"hosts": ({"host": "cl1", "window": "", "cpu_share": 0.81},)})],
            {},
        ),
        (
            "small_tables",
            "the tables (1.00 GiB) fit in the memory (16.0 GiB)",
            [step("s", cold=cold(), ledger=ledger(ReadOrigin.MIXED, asked=ReadOrigin.PHYSICAL))],
            {},
        ),
        (
            "unsteady",
            "s was never steady",
            [step("s", steady=Steadiness(settled=False, words="never steady"))],
            {},
        ),
        (
            "unsteady",
            "whether RIOPS were steady is not known (s was too noisy to tell)",
            [step("s", steady=Steadiness(settled=None, words="too noisy to tell"))],
            {},
        ),
        ("swapping", "swapoff -a", [step(series=series(vmstat__si=30, vmstat__so=30))], {}),
        ("stolen", "up to 7 %", [step(series=series(**{"cpu.%steal": 7}))], {}),
        (
            "foreign_writes",
            "up to 53 MB/s",
            [step(series=series(**{"diskstats.wkB/s": 53000, "diskstats.rkB/s": 900000}))],
            {},
        ),
        (
            "held_back",
            "walk: the CPU quota of a cgroup held back the server in 95% of its periods",
            [step(foreign=Foreign(held_back={"server": 0.95, "replayer": 0.01}))],
            {},
        ),
        (
            "held_back",
            "walk: the server came into a cgroup with a CPU quota meanwhile",
            [step(foreign=Foreign(held_back={"server": None}))],
            {},
        ),
        (
            "disk_limited",
            "walk: 97% of the reads per second that a cgroup allows the server were used",
            [
                step(
                    foreign=Foreign(
                        disk_limits={"server.read_iops": 0.97, "server.read_bytes": 0.5}
                    )
                )
            ],
            {},
        ),
        (
            "disk_limited",
            "walk: the bytes written per second that a cgroup allows replayer were changed",
            [step(foreign=Foreign(disk_limits={"replayer.write_bytes": None}))],
            {},
        ),
        ("late_samples", "10 times", [step(series=series((1, 2, 4.5, 5, 6)))], {}),
        (
            "stood_still",
            "walk: the clock went on for 4.5 s",
            [step(series=series((1, 2, 6.5, 7)))],
            {},
        ),
        ("stood_still", "for 5.0 s", [step(series=series((1, 2, 3, 8)))], {}),
        ("stood_still", "for 5.2 s", [step(series=series((5.2,)))], {}),
        (
            "processor_bound",
            "fewer sessions",
            [
                step(
                    "s",
                    ledger=ledger(ReadOrigin.PHYSICAL, asked=ReadOrigin.PHYSICAL),
                    series=series(**{"cpu.%idle": 1, "cpu.%iowait": 1}),
                )
            ],
            {},
        ),
        (
            "processor_bound",
            "fewer sessions",
            [
                step(
                    "s",
                    ledger=ledger(ReadOrigin.PHYSICAL, asked=ReadOrigin.PHYSICAL),
                    series=series(**{"cpu.%idle": 94, "cpu.%iowait": 0, "allowed_cpu.%idle": 2}),
                )
            ],
            {},
        ),
        (
            "changed_limit",
            "another program changed the limit of memory: 62 MiB at first, 8 GiB at the end",
            [step("sessions", facts={"memory.changed": "62 MiB at first, 8 GiB at the end"})],
            {},
        ),
        ("large_read_ahead", "is 8192", [step(cold=cold())], {"device.read_ahead_kb": 8192}),
        (
            "large_read_ahead",
            "read_ahead_kb of sdb is 8192",
            [step(cold=cold(), facts={"device.name": "sdb", "device.read_ahead_kb": 8192})],
            {},
        ),
        ("emulated", "without KVM: these figures", [], {"cpu.model": "QEMU TCG CPU version 2.5+"}),
        ("governor", "cpupower", [], {"cpu.governor": "powersave"}),
        ("virtualised", "(kvm)", [], {"virtualisation": "kvm"}),
        ("other_load", "3.70", [], {"host.load1": 3.7}),
        (
            "failed_here",
            "replay: 20 statements failed (42P01) that had not in the source, and 70 after them",
            [step("replay", replayed=(REPLAYED, FAILED))],
            {},
        ),
        (
            "own_settings",
            "replay: the server had replayer's own settings, not your target's",
            [step("replay", replayed=(REPLAYED,))],
            {},
        ),
        ("huge_pages_reserved", "2.00 GiB", [], {"memory.huge_pages": 1024}),
        (
            "huge_pages_reserved",
            "cannot use: write 0 into /sys/kernel/mm/hugepages/*/nr_hugepages, which gives",
            [],
            {"memory.huge_pages": 0, "memory.huge_pages_bytes": 8 << 30},
        ),
        ("transparent_huge_pages", "madvise", [], {"memory.transparent_huge_pages": "always"}),
        ("slow_clock", "hpet", [], {"kernel.clocksource": "hpet"}),
        (
            "limited",
            "8.00 GiB of memory and 1.5 CPUs",
            [],
            {"cgroup.memory_limit_bytes": 8 << 30, "cgroup.cpu_limit": 1.5},
        ),
        ("no_device", "on tmpfs", [], {"fs.type": "tmpfs", "device.name": None}),
    ],
)
def test_a_warning_is_given_for_its_reason(
    run: Callable[..., Run], warned: str, words: str, steps: list[StepResult], facts: dict[str, Any]
) -> None:
    """Its reason alone brings it up; it says what was found and what to do, in one sentence."""
    said = warnings.on(run(*steps, **facts))
    (ask,) = [one for one in warnings.every() if one.__name__ == warned]
    subject = run(*steps, **facts)
    own = ask(subject if list(inspect.signature(ask).parameters) == ["run"] else subject.host)

    assert own is not None
    assert own.model_copy(update={"name": warned}) in said
    assert words in str(own)
    assert own.todo
    assert "\n" not in str(own)
    assert not str(own).endswith(".")


def test_every_warning_is_tested() -> None:
    """A new warning without a test fails here."""
    marks = test_a_warning_is_given_for_its_reason.pytestmark
    tested = {case[0] for case in marks[0].args[1]} | {"repeats", "moved", "warming_up"}
    tested |= {"engine_notes", "bystander"}  # in test_lab.py, test_client_hosts.py
    known = {ask.__name__ for kind in ("run", "facts") for ask in warnings._warnings(kind)}

    assert known == tested


@pytest.mark.parametrize(
    "changed",
    [
        {"executions": 9_999, "failed_here": {"40P01": 2}, "consequences": 7},
        {"executions": 9, "errors": {"23505": 9}, "consequences": 9},
    ],
)
def test_few_failures_and_those_of_the_source_are_no_warning(
    run: Callable[..., Run], changed: dict[str, Any]
) -> None:
    """A replay always has some that lose to others, and what failed in the source fails again."""
    replayed = REPLAYED.model_copy(update=changed)

    assert warnings.failed_here(run(step("replay", replayed=(replayed,)))) is None


@pytest.mark.parametrize(
    ("text", "codes", "remedies"),
    [
        ("SELECT ?", ["23505", "42P01"], ["begin from the source's data"]),
        ("SELECT ?", ["40001", "40P01"], ["replay.order=serial"]),
        ("SELECT LO_PUT(?, ?, ?)", ["42704"], ["the key fingerprints"]),
        ("comment on large object ? is ?", ["42704"], ["the key fingerprints"]),
        ("SELECT LO_PUT(?, ?, ?)", ["42883"], ["begin from the source's data"]),
        ("SELECT silo_id FROM t", ["42704"], ["begin from the source's data"]),
        (
            "SELECT lo_get(?)",
            ["40001", "42704", "42P01"],
            ["begin from the source's data", "replay.order=serial", "the key fingerprints"],
        ),
    ],
)
def test_failures_that_no_data_prevents_have_another_remedy(
    run: Callable[..., Run], text: str, codes: list[str], remedies: list[str]
) -> None:
    """Each kind of SQLSTATE has its own, and only the kinds that are there are named."""
    failed = {"executions": 98, "text": text, "failed_here": dict.fromkeys(codes, 2)}
    replayed = REPLAYED.model_copy(update=failed)

    advice = warnings.failed_here(run(step("replay", replayed=(replayed,))))

    assert advice is not None
    every = ["begin from the source's data", "replay.order=serial", "the key fingerprints"]
    assert [one for one in every if one in advice.todo] == remedies
    assert len(advice.todo.split("; ")) == len(remedies)


@pytest.mark.parametrize(
    ("method", "todo"),
    [("server stopped, sync, drop_caches", "stop whatever"), ("POSIX_FADV_DONTNEED", "as root")],
)
def test_what_to_do_for_cold_depends_on_what_was_done(
    run: Callable[..., Run], method: str, todo: str
) -> None:
    """Root's right is not an advice for who had it already."""
    lukewarm = cold(Temperature.LUKEWARM).model_copy(update={"method": method})

    assert todo in known(warnings.coldness(run(step(cold=lukewarm)))).todo


@pytest.mark.parametrize(
    ("repeats", "words"),
    [(1, "one repeat has"), (2, "2 repeats have"), (5, "5 repeats show large"), (10, "")],
)
def test_few_repeats_are_told_by_how_few(run: Callable[..., Run], repeats: int, words: str) -> None:
    """Under three nothing can be told, under ten only large differences."""
    found = warnings.repeats(run(step(), repeats=repeats))

    assert words in str(found or "")
    assert bool(words) == bool(found)


def test_a_step_that_runs_once_needs_no_repeats(run: Callable[..., Run]) -> None:
    """The building of a table is done once in any number of repeats."""
    once = step("build", spec={"once": True})
    subject = run(step(), repeats=10)

    assert warnings.repeats(subject.model_copy(update={"steps": (once, *subject.steps)})) is None


def test_a_step_that_was_skipped_or_failed_gives_no_warning(run: Callable[..., Run]) -> None:
    """What was not measured has nothing to be warned of; its reason is in the report."""
    lost = step(status=Status.SKIPPED, cold=cold(Temperature.HOT))

    assert warnings.on(run(lost)) == ()


def test_a_step_that_writes_is_not_warned_of_writes(run: Callable[..., Run]) -> None:
    """A build writes, and so do sessions with updates."""
    busy = series(**{"diskstats.wkB/s": 500_000, "diskstats.rkB/s": 0})
    build = step("build", writes=True, series=busy)
    updates = step("u", step="sessions", writes=True, series=busy)
    reads = step("r", step="sessions", series=busy)

    assert warnings.foreign_writes(run(build, updates)) is None
    assert known(warnings.foreign_writes(run(reads))).found.startswith("r: ")


def test_gaps_in_a_series_are_no_numbers(run: Callable[..., Run]) -> None:
    """An interval that could not be read is left out of a mean; a column of none is left out."""
    gap = series(**{"cpu.%steal": 7})
    columns = {"cpu.%steal": (None, None, 5.0, None, None), "cpu.%idle": (None,) * 5}
    walk = step(series=gap.model_copy(update={"columns": columns}))

    assert "up to 5 %" in str(warnings.stolen(run(walk)))
    assert warnings.processor_bound(run(walk)) is None


def test_processors_that_may_not_be_used_are_no_limit(run: Callable[..., Run]) -> None:
    """Four are half idle, though all others are busy."""
    asked = ledger(ReadOrigin.PHYSICAL, asked=ReadOrigin.PHYSICAL)
    columns = {"cpu.%idle": 3, "cpu.%iowait": 0, "allowed_cpu.%idle": 50}

    assert warnings.processor_bound(run(step(ledger=asked, series=series(**columns)))) is None


def test_a_run_that_ended_before_its_host_was_known_has_no_host_warnings(run_of: RunOf) -> None:
    """A run that was refused has no facts; nothing is said of a machine that is not known."""
    assert warnings.about({}) == ()
    assert warnings.on(run_of([]).model_copy(update={"steps": (), "host": {}})) == ()


def test_a_gap_before_the_measured_window_is_no_gap_of_it(run: Callable[..., Run]) -> None:
    """To connect may take seconds in which nothing is sampled."""
    gap = series((5, 6, 7, 8))
    whole, later = (step(series=gap.model_copy(update={"window": w})) for w in (None, (5.0, 8.0)))

    assert warnings.stood_still(run(whole)) is not None
    assert warnings.stood_still(run(later)) is None
