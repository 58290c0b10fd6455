"""What `perf script` prints is folded: by whose it is, by where it ran, and only of the window."""

import pytest

from replayer.collectors.profile.stacks import FoldedStacks, ProcessFamilies, folded

SECOND = 10**9
FAMILIES = ProcessFamilies(main=100, servers=frozenset({200}), interpreter="python3.11")
TREE = """\
swapper     0/0     0.000000000: PERF_RECORD_FORK(1:1):(0:0)
init     0/0     0.000000000: PERF_RECORD_COMM: init:1/1
swapper     0/0     0.000000000: PERF_RECORD_FORK(2:2):(0:0)
kthreadd     0/0     0.000000000: PERF_RECORD_COMM: kthreadd:2/2
kthreadd     0/0     0.000000000: PERF_RECORD_FORK(30:30):(2:2)
kworker/1:2-eve     0/0     0.000000000: PERF_RECORD_COMM: kworker/1:2-eve:30/30
init     0/0     0.000000000: PERF_RECORD_FORK(100:100):(1:1)
replayer     0/0     0.000000000: PERF_RECORD_COMM: replayer:100/100
replayer     0/0     0.000000000: PERF_RECORD_FORK(150:150):(100:100)
pg_ctl     0/0     0.000000000: PERF_RECORD_COMM exec: pg_ctl:150/150
pg_ctl     0/0     0.000000000: PERF_RECORD_FORK(200:200):(150:150)
postgres     0/0     0.000000000: PERF_RECORD_COMM exec: postgres:200/200
init     0/0     0.000000000: PERF_RECORD_FORK(300:300):(1:1)
cron job     0/0     0.000000000: PERF_RECORD_COMM: cron job:300/300
replayer   100/100     1.000000000: PERF_RECORD_FORK(110:110):(100:100)
python   110/110     1.000000000: PERF_RECORD_COMM exec: python:110/110
python   110/110     1.000000000: PERF_RECORD_FORK(110:111):(110:110)
replayer   100/100     1.000000000: PERF_RECORD_FORK(120:120):(100:100)
perf   120/120     1.000000000: PERF_RECORD_COMM exec: perf:120/120
postgres   200/200     2.000000000: PERF_RECORD_FORK(210:210):(200:200)
"""


def sample(
    pid: int,
    seconds: float,
    *frames: str,
    thread: str = "thread",
    tid: int | None = None,
    event: str = "cpu-clock:ppp",
) -> str:
    """Return a sample as perf prints it: the leaf first."""
    lines = [f"{thread}  {pid}/{tid or pid}  {seconds:.9f}: {event}: "]
    return "\n".join([*lines, *(f"\t{frame}" for frame in frames), "", ""])


KERNEL = "ffffffff81b2c3d0 vfs_read ([kernel.kallsyms])"
USER = "    559c502dd980 main (/usr/lib/postgresql/15/bin/postgres)"


def fold(*samples: str, begin: float = 10.0, end: float = 20.0) -> FoldedStacks:
    """Fold samples after the tree of processes."""
    lines = (TREE + "".join(samples)).splitlines(keepends=True)
    return folded(lines, round(begin * SECOND), round(end * SECOND), FAMILIES)


@pytest.mark.parametrize(
    ("pid", "whose"),
    [
        (100, "replayer"),
        (110, "client"),
        (120, "replayer"),
        (200, "server"),
        (210, "server"),
        (300, "others"),
        (1, "others"),
        (999, "others"),
        (30, "kernel threads"),
    ],
)
def test_a_process_is_told_by_its_ancestors(pid: int, whose: str) -> None:
    """The server's first, though replayer started it; of replayer's own those that work."""
    (stack,) = fold(sample(pid, 15, USER)).stacks

    assert stack.split(";")[0] == whose


def test_threads_are_their_process_and_keep_their_name() -> None:
    """Work queues of the kernel are one each, whatever processor they are of."""
    whole = fold(
        sample(110, 15, USER, thread="python", tid=111),
        sample(30, 15, KERNEL, thread="kworker/1:2-eve"),
    )

    assert set(whole.stacks) == {
        "client;user;python;main",
        "kernel threads;kernel;kworker;vfs_read_[k]",
    }


def test_the_root_comes_first_and_the_leaf_says_the_mode() -> None:
    """A system call's stack is of the kernel, and so are its frames from the entry on."""
    (stack,) = fold(sample(210, 15, KERNEL, USER, thread="postgres")).stacks

    assert stack == "server;kernel;postgres;main;vfs_read_[k]"


def test_edges_are_in_the_window_and_no_nanosecond_more() -> None:
    """What lies outside is counted as that, and is in no stack."""
    whole = fold(*(sample(210, at, USER) for at in (9.999999999, 10, 20, 20.000000001)))

    assert (whole.samples, whole.outside) == (2, 2)
    assert (whole.first_ns, whole.last_ns) == (10 * SECOND, 20 * SECOND)


def test_an_idle_processor_is_no_sample_but_its_interrupts_are() -> None:
    """By the clock idle processors are sampled, too."""
    idle = "ffffffff81b2c3d0 pv_native_safe_halt ([kernel.kallsyms])"
    busy = "ffffffff81000c82 asm_sysvec_apic_timer_interrupt ([kernel.kallsyms])"
    whole = fold(
        sample(0, 15, idle, thread="swapper"), sample(0, 16, KERNEL, busy, idle, thread="swapper")
    )

    assert (whole.samples, whole.idle) == (1, 1)
    assert next(iter(whole.stacks)).startswith("kernel threads;kernel;interrupts while idle;")


def test_functions_without_a_name_are_one_frame_of_their_library() -> None:
    """However many follow each other: unwinding without frame pointers makes many."""
    libc = "    7f5038740b24 [unknown] (/usr/lib/libc.so.6 (deleted))"
    nowhere = "    1 [unknown] ([unknown])"
    (stack,) = fold(sample(300, 15, libc, libc, nowhere, nowhere, libc)).stacks

    assert stack == "others;user;thread;[libc.so.6];[unknown];[libc.so.6]"


def test_names_of_templates_and_modules_are_whole() -> None:
    """A semicolon would end a frame."""
    template = "    1 std::map<int, f<(a)1> >::find(int) const (/opt/my db/bin/mariadbd)"
    module = "ffffffffc0123456 ext4_read;x ([ext4])"
    (stack,) = fold(sample(210, 15, module, template)).stacks

    assert stack.split(";")[3:] == ["std::map<int, f<(a)1> >::find(int) const", "ext4_read:x_[k]"]


def test_a_thread_may_be_called_what_it_likes() -> None:
    """With blanks, digits and slashes."""
    (stack,) = fold(sample(300, 15, USER, thread="a 1/2 b; c")).stacks

    assert stack == "others;user;a 1/2 b: c;main"


def test_the_kernels_functions_without_names_are_noticed() -> None:
    """As kptr_restrict has it."""
    hidden = "ffffffff81b2c3d0 [unknown] ([unknown])"
    whole = fold(sample(210, 15, hidden), sample(210, 16, USER))

    assert (whole.kernel, whole.kernel_named) == (1, 0)


def test_lost_samples_and_the_event_are_told() -> None:
    """In what perf calls them."""
    lost = "perf   120/120    15.000000000: PERF_RECORD_LOST lost 23\n"
    whole = fold(sample(210, 14, USER, event="cycles:P"), lost)

    assert (whole.lost, whole.event) == (23, "cycles")


def test_nothing_is_nothing() -> None:
    """An empty recording has no samples."""
    assert folded([], 0, 1, FAMILIES).samples == 0
