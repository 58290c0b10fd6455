"""perf beside a step: cut to the window, told whose work it was, and never in anybody's way."""

import contextlib
import copy
import ctypes
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from replayer import journal
from replayer.collectors import CollectorContext, WindowRecording
from replayer.collectors.profile import collector, recording
from replayer.collectors.profile.recording import PerfRecording
from replayer.engines import engine as engines
from replayer.errors import ReplayerError, Skip
from replayer.machine import perf as perfs
from replayer.machine import processes
from replayer.machine.host import Host
from replayer.model import PROFILED, StackProfile
from replayer.report.terminal.progress import Lines
from replayer.run import recovery, runner
from replayer.run.plan import workload
from replayer.watch import calibration
from tests.command import Replayer
from tests.conftest import missing
from tests.small_disk import small_disk
from tests.told import line_with
from tests.waiting import wait_until

SECOND = 10**9
_PR_SET_PDEATHSIG = 1
MODES = {"user", "kernel"}
SERVER, CLIENT, _, OTHERS, REPLAYER = PROFILED


@pytest.fixture(scope="module")
def perf() -> Path:
    """Return the path of perf; skip, or fail if it is required, where it is not."""
    path = shutil.which("perf")
    if path is None:
        missing("linux-perf", "there is no perf (apt-get install linux-perf)")
    return Path(path)


@pytest.fixture(scope="module", autouse=True)
def patience() -> Iterator[None]:
    """Give perf all the time that it needs on a busy machine."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in (
            (perfs, "_READY_SECONDS"),
            (perfs, "_END_SECONDS"),
            (recording, "_ENABLED_SECONDS"),
            (recording, "_LOOK_SECONDS"),
        ):
            patch.setattr(module, name, 600.0)
        yield


@contextlib.contextmanager
def recorder(folder: Path, server: Sequence[int] = ()) -> Iterator[PerfRecording]:
    """Yield a recording of this process and a server, in a new folder; none is left."""
    folder.mkdir(0o700)
    scene = CollectorContext(
        host=Host(),
        device=None,
        folder=folder,
        server=lambda: list(server),
        own=lambda: processes.family(os.getpid()),
    )
    begun = collector.begin(scene)
    try:
        yield begun
    finally:
        if begun._perf.background.process.poll() is None:
            begun._perf.background.process.kill()
            begun._perf.background.process.wait()


@pytest.fixture
def begun(perf: Path, tmp_path: Path) -> Iterator[Callable[[], PerfRecording]]:
    """Return a function that begins a recording, which is ended after the test."""
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(recorder(tmp_path / "scene"))


@contextlib.contextmanager
def running(*command: object, **how: Any) -> Iterator[int]:
    """Yield the process id of a program, which is killed at the end, or with these tests."""
    words = [str(word) for word in command]
    # No other thread of a test takes a lock that this one system call would wait for.
    with subprocess.Popen(words, preexec_fn=_end_with_parent, **how) as process:  # noqa: PLW1509
        try:
            yield process.pid
        finally:
            process.kill()


def _end_with_parent() -> None:
    """Have the kernel kill this process if its parent is killed."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def window(recorder: PerfRecording, seconds: float) -> tuple[int, int]:
    """Have a window of some seconds, and return its edges."""
    recorder.prepare()
    begin_ns = time.monotonic_ns()
    recorder.mark(begin_ns)
    time.sleep(seconds)
    end_ns = time.monotonic_ns()
    recorder.mark(end_ns)
    return begin_ns, end_ns


def work(*pids: int, seconds: float = 0.2) -> None:
    """Work for some seconds, and until each of the processes did so as well."""
    own = os.getpid()
    ends = {pid: sum(processes.cpu_seconds([pid])) + seconds for pid in (own, *pids)}
    while any(sum(processes.cpu_seconds([pid])) < end for pid, end in ends.items()):
        assert not any(map(processes.ends, pids)), "somebody else ended one of them"


@dataclass(frozen=True)
class Recorded:
    """One recording that has ended, and the edges of its window."""

    one: PerfRecording
    prepared_ns: int
    begin_ns: int
    end_ns: int

    def seen(self, *, data: Path | None = None, program: Path | None = None) -> WindowRecording:
        """Return what it saw by another file than its own, or if another program reads that."""
        one, one._perf = copy.copy(self.one), copy.copy(self.one._perf)
        one._perf.data = data or one._perf.data
        one._perf._program = program or one._perf._program
        return one.cut(self.begin_ns, self.end_ns)


@pytest.fixture(scope="module")
def recorded(perf: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    """Return a recording in which everybody worked before it, in its window and after that.

    The server reads all the time, the client counts, and so does somebody else.
    """
    reads = "import os\nf = os.open('/dev/zero', 0)\nwhile True: os.read(f, 1 << 20)"
    with (
        running("postgres", "-c", reads, executable=sys.executable) as server,
        # A copy of the interpreter under another name is not a worker of replayer's.
        running("python", "-c", "while True: pass", executable=sys.executable) as client,
        running("sh", "-c", "until false; do :; done") as other,
        recorder(tmp_path_factory.mktemp("recorded") / "scene", [server]) as one,
    ):
        work(server)
        prepared_ns = time.monotonic_ns()
        one.prepare()
        one.mark(begin_ns := time.monotonic_ns())
        work(server, client, other)
        one.mark(end_ns := time.monotonic_ns())
        work(seconds=0.05)
        one.end()
        yield Recorded(one, prepared_ns, begin_ns, end_ns)


def profile_of(seen: WindowRecording) -> StackProfile:
    """Return the profile, which there must be."""
    assert seen.profile is not None
    return seen.profile


def by(profile: StackProfile, *places: int) -> dict[tuple[str, ...], int]:
    """Return samples by some parts of the stacks, such as 0 for whose they are."""
    samples: dict[tuple[str, ...], int] = {}
    for stack, count in profile.stacks().items():
        parts = stack.split(";")
        key = tuple(parts[place] for place in places)
        samples[key] = samples.get(key, 0) + count
    return samples


def stamps(perf: Path, data: Path) -> list[int]:
    """Return the times of all samples of a recording in ns, as perf prints them."""
    command: list[str | Path] = [perf, "script", "-i", data, "-F", "time", "-G", "--ns"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [int(stamp.strip().rstrip(":").replace(".", "")) for stamp in text.split()]


def test_no_sample_is_from_outside_of_the_window(
    recorded: Recorded, perf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every sample that perf has a time of within the window is counted, and no other."""
    # A machine may be halted for that long in the middle.
    monkeypatch.setattr(recording, "_LATE_NS", 60 * SECOND)
    profile = profile_of(recorded.seen())

    times = stamps(perf, recorded.one._perf.data)
    inside = [stamp for stamp in times if recorded.begin_ns <= stamp <= recorded.end_ns]
    assert profile.samples + profile.idle == len(inside) > 0
    assert profile.outside == len(times) - len(inside) > 0
    # It did not sample before it was to, so that a long preparation costs nothing.
    assert min(times) >= recorded.prepared_ns
    # Nor more often, so that it costs next to nothing.
    seconds = (recorded.end_ns - recorded.begin_ns) / SECOND
    assert len(inside) <= (recording.HERTZ * seconds + 1) * (os.cpu_count() or 1)
    assert profile.truncated == ""


def test_it_is_told_whose_work_it_was(recorded: Recorded) -> None:
    """The server's processes, replayer's workers, its other programs, and everybody else."""
    samples = by(profile_of(recorded.seen()), 0)

    assert all(samples[whose,] > 0 for whose in (SERVER, CLIENT, OTHERS, REPLAYER))


def test_system_calls_are_of_the_kernel(recorded: Recorded) -> None:
    """Whoever reads all the time is in the kernel, in functions that have a name."""
    profile = profile_of(recorded.seen())

    assert by(profile, 0, 1)[SERVER, "kernel"] > 0
    kernel = [stack for stack in profile.stacks() if stack.startswith("server;kernel")]
    assert any("vfs_read_[k]" in stack for stack in kernel)


@pytest.mark.slow
def test_the_shares_of_functions_are_those_of_a_perf_of_ones_own(
    perf: Path, begun: Callable[[], PerfRecording], tmp_path: Path
) -> None:
    """Of the time that was not idle, within 3 points, for every function of the two."""
    data = tmp_path / "own.data"
    command: list[str | Path] = [perf, "record", "-a", "-g", "-F", "997", "-k", "mono"]
    with contextlib.ExitStack() as stack:
        for load in ("sha256sum /dev/zero", "gzip -c /dev/zero", "cat /dev/zero"):
            process = stack.enter_context(
                subprocess.Popen(load.split(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            )
            stack.callback(process.kill)
        one = begun()
        own = stack.enter_context(
            subprocess.Popen([*command, "-o", data], stderr=subprocess.DEVNULL)
        )
        stack.callback(own.kill)
        time.sleep(1)
        begin_ns, end_ns = window(one, 20.0)
        one.end()
        own.send_signal(signal.SIGINT)
        own.wait(20)
        ours = profile_of(one.cut(begin_ns, end_ns))
        # Read as ours is, so that what is compared is what was sampled.
        one._perf.data = data
        theirs = profile_of(one.cut(begin_ns, end_ns))

    shares, own_shares = (
        {leaf: count / profile.samples for (leaf,), count in by(profile, -1).items()}
        for profile in (ours, theirs)
    )
    apart = {
        leaf: abs(shares.get(leaf, 0) - own_shares.get(leaf, 0))
        for leaf in shares.keys() | own_shares.keys()
    }
    assert theirs.samples > 5 * ours.samples
    assert max(own_shares.values()) > 0.03
    assert max(apart.values()) < 0.03, apart


@pytest.mark.quiet
def test_it_costs_next_to_nothing(begun: Callable[[], PerfRecording]) -> None:
    """Perf itself is on a processor for less than half a percent of the window."""
    one = begun()
    with running(sys.executable, "-c", "while True: pass"):
        window(one, 1.0)

        assert 0 <= one.end() < 0.01 * (os.cpu_count() or 1)


def test_perf_that_is_killed_in_the_middle_is_told(begun: Callable[[], PerfRecording]) -> None:
    """What it had until then is kept with the reason, or the reason is all there is."""
    one = begun()
    one.prepare()
    one.mark(begin_ns := time.monotonic_ns())
    work()
    one._perf.background.process.kill()
    wait_until(lambda: one._perf.background.status is not None)
    time.sleep(0.2)
    one.mark(end_ns := time.monotonic_ns())
    one.end()

    try:
        seen = one.cut(begin_ns, end_ns)
    except ReplayerError as error:
        reason = str(error)
    else:
        reason = profile_of(seen).truncated
        assert any(reason in note for note in seen.notes)
    assert "perf was ended in the middle of the step by SIGKILL" in reason


@pytest.mark.slow
@pytest.mark.root
def test_bpf_programs_that_come_and_go_do_not_make_it_unreadable(
    perf: Path, tmp_path: Path
) -> None:
    """As one of bpftrace's, beside a perf of two events, of which the kernel writes the lengths."""
    bpftrace = shutil.which("bpftrace")
    if bpftrace is None:
        missing("bpftrace", "there is no bpftrace (apt-get install bpftrace)")
    chains, events = ["-g", "-F", "99"], ["-e", "sched:sched_switch", "-e", "sched:sched_wakeup"]
    recorders = []
    for number, options in enumerate((chains, events, chains)):
        (tmp_path / str(number)).mkdir()
        recorders.append(perfs.Perf(Host(), tmp_path / str(number), options))
    for one in recorders:
        one.tell("enable", 600.0)
    program = "tracepoint:sched:sched_switch { @ = count(); } interval:ms:50 { exit(); }"
    for _ in range(2):
        subprocess.run([bpftrace, "-e", program], capture_output=True, check=True, timeout=600)
    for one in recorders:
        one.end()

    with recorders[1].script("time,event") as lines:
        assert sum("sched_switch" in line for line in lines) > 100


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.7, 0.999])
def test_a_file_that_is_cut_is_one_sentence_or_a_part(
    recorded: Recorded, share: float, tmp_path: Path
) -> None:
    """Whatever is left of it: samples of the window, or why there are none."""
    data = Path(shutil.copy(recorded.one._perf.data, tmp_path / "perf.data"))
    os.truncate(data, int(data.stat().st_size * share))

    try:
        profile, reason = profile_of(recorded.seen(data=data)), "perf"
    except ReplayerError as error:
        profile, reason = None, str(error)

    assert profile is None or profile.samples + profile.idle > 0
    assert "perf" in reason
    assert "\n" not in reason


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
@pytest.mark.parametrize("room", ["64k", "1m"])
def test_a_file_system_that_is_full_is_told(
    perf: Path, room: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before perf has begun or in the middle: it writes what it can, and no step is harmed."""
    monkeypatch.setattr(recording, "HERTZ", 4999)
    with small_disk(f"size={room}") as disk:
        folder = disk / "replayer" / "profile"
        folder.parent.mkdir()
        try:
            with recorder(folder) as one:
                one.prepare()
                one.mark(begin_ns := time.monotonic_ns())
                # It keeps a processor busy: one that sleeps has no samples.
                while one._perf.background.status is None:
                    pass
                time.sleep(0.2)
                one.mark(end_ns := time.monotonic_ns())
                one.end()
                reason = profile_of(one.cut(begin_ns, end_ns)).truncated
        except ReplayerError as error:
            reason = str(error)

    assert re.search("perf has no room|No space left on device|no space is left", reason)
    assert "\n" not in reason


@pytest.mark.slow
def test_a_recording_at_its_limit_says_from_when_on(
    recorded: Recorded, begun: Callable[[], PerfRecording], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So much memory is taken for it and no more."""
    # It begins with all processes that there are.
    largest = (1 << 20) + 2 * recorded.one._perf.data.stat().st_size
    monkeypatch.setattr(recording, "HERTZ", 4999)
    monkeypatch.setattr(perfs, "_largest", lambda _host, _folder: largest >> 10 << 10)
    one = begun()
    one.prepare()
    one.mark(begin_ns := time.monotonic_ns())
    while not one._perf.is_full():  # which keeps a processor busy: one that sleeps has no samples
        pass
    # Only then is no further sample taken, however late perf gets a processor.
    assert one._perf.background.process.wait(60) is not None
    time.sleep(0.2)
    one.mark(end_ns := time.monotonic_ns())
    one.end()

    seen = one.cut(begin_ns, end_ns)

    lasts = (end_ns - begin_ns) / SECOND
    truncated = profile_of(seen).truncated
    limit = re.match(r"its file reached \d+\.\d+ MiB, (\d+\.\d) s after", truncated)
    assert limit, truncated
    assert 0 <= float(limit[1]) <= lasts + 0.1
    assert len(seen.notes) == 1
    assert one._perf.data.stat().st_size < largest + (1 << 20)


def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Put a program called perf before all others."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "perf").write_text(text)
    (folder / "perf").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_without_perf_the_reason_is_what_to_install(
    begun: Callable[[], PerfRecording], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Packages are called differently, so both names are told."""
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(Skip, match=r"^perf is not installed \(apt-get install linux-perf"):
        begun()


def test_a_perf_that_is_not_of_this_kernel_is_told_in_its_words(
    begun: Callable[[], PerfRecording], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Ubuntu's wrapper says it."""
    text = "#!/bin/sh\necho 'WARNING: perf not found for kernel 6.8.0-1'>&2\nexit 2\n"
    programs(tmp_path, monkeypatch, text)

    with pytest.raises(Skip, match="perf not found for kernel"):
        begun()


def test_a_perf_that_the_kernel_refuses_is_told_in_its_words(
    perf: Path, begun: Callable[[], PerfRecording], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that is too old for it."""
    text = (
        f'#!/bin/sh\n[ "$2" = --list-opts ] && exec {perf} "$@"\n'
        "echo 'Error: The sys_perf_event_open() syscall returned with 22 (Invalid argument)'>&2\n"
        "exit 255\n"
    )
    programs(tmp_path, monkeypatch, text)

    with pytest.raises(Skip, match=r"Invalid argument.*a perf of this kernel's version"):
        begun()


@pytest.mark.slow
def test_a_perf_without_control_records_all_and_is_cut_all_the_same(
    perf: Path, begun: Callable[[], PerfRecording], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It came with 5.10; enterprise distributions have older ones."""
    text = (
        f'#!/bin/sh\n[ "$2" = --list-opts ] || exec {perf} "$@"\n'
        "echo --verbose --all-cpus --freq --clockid\nexit 129\n"
    )
    programs(tmp_path, monkeypatch, text)
    one = begun()
    work()
    one.prepare()
    one.mark(begin_ns := time.monotonic_ns())
    work()
    one.mark(end_ns := time.monotonic_ns())
    one.end()

    profile = profile_of(one.cut(begin_ns, end_ns))

    inside = [stamp for stamp in stamps(perf, one._perf.data) if begin_ns <= stamp <= end_ns]
    assert profile.samples + profile.idle == len(inside) > 0
    assert profile.outside > 0


def script(path: Path, text: str) -> Path:
    """Make a program of a shell's script."""
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(0o755)
    return path


def test_a_kernel_that_hides_its_names_is_told(
    perf: Path, recorded: Recorded, tmp_path: Path
) -> None:
    """As with kptr_restrict, where perf has addresses and no names; whose time it was is kept."""
    text = (
        f'[ "$1" = script ] || exec {perf} "$@"\n'
        f"{perf} \"$@\" | sed -E 's/^(\\s*ffff[0-9a-f]{{12}}) .*/\\1 [unknown] ([unknown])/'\n"
    )

    seen = recorded.seen(program=script(tmp_path / "perf", text))

    assert by(profile_of(seen), 0, 1)[SERVER, "kernel"] > 0
    assert any("sysctl -w kernel.kptr_restrict=0" in note for note in seen.notes)


def test_a_file_that_perf_gives_up_at_is_a_profile_up_to_there(
    perf: Path, recorded: Recorded, tmp_path: Path
) -> None:
    """As perf 6.1 ends at a record whose length it does not believe."""
    text = (
        f'[ "$1" = script ] && [ "$2" = -i ] || exec {perf} "$@"\n'
        f'lines=$({perf} "$@" | wc -l)\n{perf} "$@" | head -n $((lines / 2))\n'
        "echo '0x1b0ba8 [0x78]: failed to process type: 17 [Bad address]' >&2\nexit 242\n"
    )

    profile = profile_of(recorded.seen(program=script(tmp_path / "perf", text)))

    assert profile.samples + profile.idle > 0
    told = re.match(
        r"perf could read its file no further \(.*Bad address.*\), (\d+\.\d) s after the begin",
        profile.truncated,
    )
    assert told, profile.truncated
    assert float(told[1]) <= profile.seconds + 0.1


def test_an_ordinary_user_is_told_what_to_set(perf: Path, tmp_path: Path) -> None:
    """Where the kernel lets only root watch all processors."""
    paranoid = Path("/proc/sys/kernel/perf_event_paranoid").read_text(encoding="ascii").strip()
    if os.geteuid() or int(paranoid) < 1:
        pytest.skip("this needs root, and a kernel that refuses others")
    folder = tmp_path / "scene"
    folder.mkdir()
    os.chown(folder, 65534, 65534)
    script = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from replayer.collectors import CollectorContext\n"
        "from replayer.collectors.profile import collector\n"
        "from replayer.errors import Skip\n"
        "from replayer.machine.host import Host\n"
        f"os.chdir({str(folder)!r})\n"
        "os.setuid(65534)\n"
        "sys.executable = '/usr/bin/python3'\n"
        "try:\n"
        "    collector.begin(CollectorContext(Host(), None, Path(), list, list)).end()\n"
        "except Skip as skip:\n"
        "    print(skip)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )

    assert f"kernel.perf_event_paranoid is {paranoid}" in done.stdout, done.stderr
    assert "sysctl -w kernel.perf_event_paranoid=0" in done.stdout


def test_perf_ends_with_a_replayer_that_is_killed(perf: Path) -> None:
    """At once, by the kernel; its folder is removed by the next command."""
    code = (
        "import contextlib, os, time\n"
        "from replayer.machine.host import Host\n"
        "from replayer.run import step_collectors\n"
        "with step_collectors.recordings(('profile',), Host(), None, None) as watched:\n"
        "    watched.prepare()\n"
        "    print(watched._under_way['profile']._perf.background.process.pid, flush=True)\n"
        "    time.sleep(99)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as replayer:
        assert replayer.stdout
        pid = int(replayer.stdout.readline())
        folders = [note.details["path"] for note in journal.notes("watching")]
        assert journal.identity(pid)
        replayer.kill()

    wait_until(lambda: not journal.identity(pid))
    assert len(folders) == 1
    recovery.give_back(lambda _line: None)
    assert not Path(folders[0]).exists()


@pytest.mark.slow
def test_ctrl_c_in_the_middle_leaves_nothing(
    perf: Path, made_home: Path, replayer: Replayer
) -> None:
    """No perf, no folder, no note; the run is kept as interrupted."""
    before = set(Path("/dev/shm").glob("replayer-watching-*"))
    run = replayer.start(
        *("run", "smoke", "--results", "results", "--set", "cached.run_time=30s"),
        popen={"stdout": None, "start_new_session": True},
        REPLAYER_WITHOUT=None,
    )
    line_with(run.stderr, re.compile("^cached: [0-9]"))
    watchers = [p for p in processes.family(run.pid) if "perf" in processes.arguments(p)]
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=600)

    assert run.returncode == 130
    # The profile's, and the one that traces how long threads sleep.
    assert len(watchers) == 2
    assert not any(journal.identity(pid) for pid in watchers)
    assert set(Path("/dev/shm").glob("replayer-watching-*")) == before
    assert not list(journal.notes("watching"))


@pytest.mark.slow
def test_a_run_has_the_profile_of_a_step_with_a_window(
    perf: Path, made_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the sessions: the server's reads, in user mode and in the kernel."""
    # It waits until others leave the processors alone, and has tests of its own.
    monkeypatch.setattr(calibration, "measure", lambda when, before: {f"cpu.{when}": (1.0,)})
    smoke = workload.load("smoke")
    steps = tuple(step for step in smoke.steps if step.name == "cached")
    order = runner.RunRequest(
        smoke.model_copy(update={"steps": steps}),
        engines.load(engines.default()),
        collectors=("profile",),
    )
    *_, run = runner.execute(order, Lines(io.StringIO()))
    (cached,) = run.steps

    assert cached.profile is not None
    assert {mode for whose, mode in by(cached.profile, 0, 1) if whose == SERVER} == MODES
    assert 2.0 <= cached.profile.seconds <= cached.elapsed
    assert "profile" in cached.costs
    assert not any("profile" in note for note in cached.notes)
    assert run.model_validate_json(run.model_dump_json()) == run
