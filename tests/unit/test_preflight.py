"""The preflight check: each line says how much is possible, what was found and what to do."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from replayer.machine.host import Host
from replayer.model import Series
from replayer.run.checks import preflight
from replayer.run.checks.preflight import Answer, Case
from replayer.run.plan import footprint, workload
from replayer.watch.sampler import Sampler
from tests.known import known

FIXTURES = Path(__file__).parents[1] / "fixtures"
MACHINES = ("proc-3.10", "proc-5.4", "proc-6.18")


@pytest.fixture
def recorded(tmp_path: Path) -> Callable[..., Case]:
    """Return a function that makes a case of a recorded machine, its data in an empty folder."""

    def make(name: str, **files: str) -> Case:
        root = tmp_path / name
        if files:
            shutil.copytree(FIXTURES / name / "first", root)
            for path, text in files.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
        else:
            root = FIXTURES / name / "first"
        return Case(Host(root=root), data_dir=tmp_path / "data", workload="smoke", seconds=0.05)

    return make


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    "question",
    [
        preflight.governor,
        preflight.swap,
        preflight.transparent_huge_pages,
        preflight.clock_source,
        preflight.virtualisation,
        preflight.container,
        preflight.pressure,
        preflight.read_ahead,
        preflight.device,
        preflight.huge_pages,
    ],
)
def test_every_line_says_something_of_every_machine(
    recorded: Callable[..., Case], machine: str, question: Callable[[Case], preflight.PreflightLine]
) -> None:
    """A line that is not ok says what was found; one that can be mended says what to do."""
    line = question(recorded(machine))

    assert line.name
    assert line.found
    assert line.answer is not Answer.NO or line.todo


def test_free_space_is_compared_with_what_the_workload_writes(
    recorded: Callable[..., Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workload's own tables decide: a disk that cannot hold them is a NO that is needed."""
    case = recorded("proc-6.18")
    wanted = case.tables[0]

    assert wanted > 0
    assert preflight.free_space(case).answer is Answer.OK
    larger = Case(case.host, data_dir=case.data_dir, workload="demo")
    assert larger.tables[0] > wanted
    monkeypatch.setattr(Case, "tables", (1 << 60, 0))
    line = preflight.free_space(Case(case.host, data_dir=case.data_dir))
    assert (line.answer, line.needed) == (Answer.NO, True)
    assert "--data-dir" in line.todo


def test_memory_is_compared_with_what_is_to_be_cached(
    recorded: Callable[..., Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cached sessions of more than the memory holds are a NO, with the key to lower."""
    case = recorded("proc-6.18")
    monkeypatch.setattr(Case, "tables", (0, case.host.usable_memory_bytes() * 2))
    line = preflight.memory_size(case)

    assert (line.answer, line.needed) == (Answer.NO, True)
    assert "scale" in line.todo


def test_swap_in_use_is_told(recorded: Callable[..., Case]) -> None:
    """How much of it is in use is said, with the way to keep it out."""
    meminfo = (FIXTURES / "proc-6.18/first/proc/meminfo").read_text().splitlines()
    kept = [line for line in meminfo if not line.startswith("Swap")]
    text = "\n".join([*kept, "SwapTotal: 2048 kB", "SwapFree: 1024 kB"]) + "\n"
    line = preflight.swap(recorded("proc-6.18", **{"proc/meminfo": text}))

    assert line.answer is Answer.LIMITED
    assert "1.00 MiB of 2.00 MiB" in line.found
    assert "swapoff" in line.todo


def test_load_that_is_not_counted_is_not_known(recorded: Callable[..., Case]) -> None:
    """A recorded /proc stands still, and no disk is known below the data: neither is at rest."""
    line = preflight.other_load(recorded("proc-6.18", **{"proc/loadavg": "0.01 0.02 0.03 1/9 9"}))

    assert line.answer is Answer.LIMITED
    assert line.found == "CPU: not known, device: not known, load average 0.01"
    assert line.todo == "look for other work with `pidstat -ud 1`"


@pytest.mark.parametrize(("disk", "shown"), [(0.2, "0 % busy"), (9.0, "9 % busy")])
def test_load_is_that_of_the_processors_and_the_device(
    recorded: Callable[..., Case], monkeypatch: pytest.MonkeyPatch, disk: float, shown: str
) -> None:
    """Both are known; one that is busy is named, and the line is not ok."""
    states = {f"cpu.%{state}": (0.5,) for state in (*preflight._BUSY_STATES, "idle")}
    columns: dict[str, tuple[float | None, ...]] = {**states, "diskstats.%util": (50.0, disk)}
    monkeypatch.setattr(Sampler, "series", lambda *_: Series(started="", columns=columns))
    line = preflight.other_load(recorded("proc-6.18", **{"proc/loadavg": "0.01 0.02 0.03 1/9 9"}))

    assert line.found == f"CPU 4 % busy, device {shown}, load average 0.01"
    assert line.answer is (Answer.OK if disk < 1 else Answer.LIMITED)


def test_a_machine_without_pressure_says_how_to_get_it(recorded: Callable[..., Case]) -> None:
    """Linux 3.10 has none."""
    assert preflight.pressure(recorded("proc-3.10")).answer is Answer.LIMITED
    assert preflight.pressure(recorded("proc-5.4")).answer is Answer.OK


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EDQUOT, "free some space"),
        (errno.EACCES, "that you may write"),
        (errno.EROFS, "that you may write"),
    ],
)
def test_what_no_file_could_be_made_for_is_not_known(
    recorded: Callable[..., Case], monkeypatch: pytest.MonkeyPatch, number: int, remedy: str
) -> None:
    """A full disk says nothing about its file system: another one is not the remedy."""

    def refuse(_: int) -> None:
        raise OSError(number, os.strerror(number))

    case = recorded("proc-6.18")
    monkeypatch.setattr(os, "fsync", refuse)
    monkeypatch.setattr(Host, "cannot_write", lambda *_: "Permission denied")
    for question in (preflight.direct_reads, preflight.drop_caches, preflight.residency_proof):
        line = question(case)

        reason = f"not known: no file could be made in {case.here} ({os.strerror(number)})"
        assert line.found.endswith(reason)
        assert remedy in line.todo
        assert line.answer is Answer.NO
    assert list(case.here.iterdir()) == []


def test_a_file_system_without_direct_reads_is_to_be_another(
    recorded: Callable[..., Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file was made, and its read is refused."""

    def refuse(*_: object) -> int:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(os, "preadv", refuse)
    line = preflight.direct_reads(recorded("proc-6.18"))

    assert line.found == "O_DIRECT: Invalid argument"
    assert "ext4 or xfs" in line.todo


def test_the_nearest_folder_that_exists_is_asked(server_home: Path) -> None:
    """A data folder that is still to be made is judged by where it will be made."""
    # The server's user can pass through there.
    folder = server_home / "nearest"
    folder.mkdir(mode=0o755)
    case = Case(Host(), data_dir=folder / "a")

    assert case.here == folder
    assert preflight.data_folder(case).answer is Answer.OK
    assert list(folder.iterdir()) == []


def test_a_folder_of_somebody_elses_is_refused_and_left_alone(tmp_path: Path) -> None:
    """What is not replayer's is named, and nothing in it changes."""
    precious = tmp_path / "precious"
    precious.write_text("mine")
    line = preflight.data_folder(Case(Host(), data_dir=tmp_path))

    assert (line.answer, line.needed) == (Answer.NO, True)
    assert precious.read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_every_question_is_asked_once() -> None:
    """A line is a public function with `case`: being there is all it takes."""
    names = [question.__name__ for question in preflight._questions()]

    assert len(names) == len(set(names))
    assert {"server", "free_space", "drop_caches", "leftovers"} <= set(names)
    assert names[0] == "server"


def test_room_of_probes_is_that_of_the_largest() -> None:
    """A probe's files are gone when the next one's are made."""
    case = Case(Host(), workload="storage")
    sizes = [
        known(footprint.estimate(spec, 8192)).disk_bytes for spec in workload.load("storage").steps
    ]

    assert min(sizes) < max(sizes) == case.tables[0]


def test_without_perf_it_is_told_how_sleep_is_known(
    recorded: Callable[..., Case], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The account still has looks; what to install, and what to expect, is said."""
    monkeypatch.setenv("PATH", str(tmp_path))

    line = preflight.sleep(recorded(MACHINES[0]))

    assert line.answer is Answer.LIMITED
    assert line.found.startswith("sessions sleep as long as they are met asleep: perf is not")
    assert "may not close" in line.todo
