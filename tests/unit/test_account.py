"""The account of a window: it closes by what was counted, and its residue shows an error."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replayer.analysis.attribution import account as accounts
from replayer.analysis.attribution.account import Split, asleep
from replayer.collectors import Observed, ThreadTimes, WaitSamples
from replayer.machine.processes import CpuSeconds
from replayer.model import Account, Spent
from tests.known import known

SECOND = 10**9


def window(*, sessions: int = 4, seconds: float = 10, operations: float = 1000.0) -> Any:
    """Return a window in which so many blocks were read."""
    return SimpleNamespace(
        begin_ns=7 * SECOND, end_ns=(7 + seconds) * SECOND, operations=operations,
        operation="block", sessions=sessions,
    )  # fmt: skip


def seen(letter: str, wait: str, part: str, seconds: float, *, still: bool = True) -> Observed:
    """Return that threads were seen so for some seconds."""
    return Observed(letter, wait, part, still=still, seconds=seconds)


def watched(
    *observed: Observed,
    ran: float = 0.0,
    queued: float = 0.0,
    user: float | None = None,
    system: float = 0.0,
    sessions: float = 4.0,
    span: float = 40.0,
    **more: Any,
) -> WaitSamples:
    """Return what four sessions were seen at for ten seconds."""
    user = ran - system if user is None else user
    times = ThreadTimes(span=span, ran=ran, queued=queued, user=user, system=system)
    keys = {"whose": "server", "moments": 100, "threads": 4, "observations": 400, **more}
    return WaitSamples(sessions=sessions, observed=observed, times=times, **keys)


def account(
    window: accounts.AccountWindow,
    waits: WaitSamples | None,
    used: Mapping[str, CpuSeconds],
    kernel: Split | None = None,
) -> Account:
    """Return the account of a window, which there is."""
    return known(accounts.account(window, waits, used, kernel))


def parts(made: Account) -> dict[Spent, object]:
    """Return the parts of a session's time as shares of it."""
    whole = made.sessions * made.seconds / made.operations
    return {part: pytest.approx(seconds / whole) for part, seconds in made.session.items()}


def test_an_account_that_closes_has_no_residue() -> None:
    """12 s ran and 4 s queued by the kernel's count, 24 s seen asleep: 40 s of four sessions."""
    made = account(
        window(),
        watched(
            seen("R", "", "", 16.0), seen("D", "IO:DataFileRead", "device", 20.0),
            seen("S", "Client:ClientRead", "client", 3.0), seen("S", "Lock:tuple", "lock", 1.0),
            ran=12.0, queued=4.0, system=9.0,
        ),
        {"server": CpuSeconds(4.0, 10.0), "client": CpuSeconds(1.0, 0.5)},
    )  # fmt: skip

    assert made.residue == pytest.approx(0.0)
    assert parts(made) == {
        Spent.SERVER: 3 / 40, Spent.KERNEL: 9 / 40, Spent.RUN_QUEUE: 0.1, Spent.DEVICE: 0.5,
        Spent.LOCK: 1 / 40, Spent.CLIENT: 3 / 40,
    }  # fmt: skip
    assert made.session[Spent.DEVICE] == pytest.approx(0.02)
    assert made.cpu == {
        "server": {Spent.SERVER: 0.004, Spent.KERNEL: 0.01},
        "client": {Spent.CLIENT: 0.001, Spent.KERNEL: 0.0005},
    }
    assert list(made.waits.items()) == [
        ("IO:DataFileRead", 0.5), ("Client:ClientRead", 3 / 40), ("Lock:tuple", 1 / 40),
    ]  # fmt: skip
    assert made.notes == ()


@pytest.mark.parametrize(("asleep_seconds", "residue"), [(34.0, -0.25), (14.0, 0.25)])
def test_states_that_contradict_the_clocks_are_a_residue_that_is_told(
    asleep_seconds: float, residue: float
) -> None:
    """16 s were run or queued: to be seen asleep for 34 or for 14 of the 40 s was a mistake."""
    made = account(
        window(),
        watched(
            seen("R", "", "", 40 - asleep_seconds),
            seen("S", "Client:ClientRead", "client", asleep_seconds),
            ran=12.0, queued=4.0,
        ),
        {},
    )  # fmt: skip

    assert made.residue_share == pytest.approx(residue)
    assert f"does not close: {residue:+.0%}" in made.notes[0]


State = tuple[str, str, str, bool, float]


@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(
    clocks=st.tuples(st.floats(0, 40), st.floats(0, 40), st.floats(0, 1)),
    sessions=st.floats(0.5, 500),
    operations=st.floats(1, 1e9),
    states=st.lists(
        st.tuples(
            st.sampled_from("RSDT"), st.sampled_from(["IO:WALSync", "Lock:tuple", ""]),
            st.sampled_from(["log", "lock", "device", ""]), st.booleans(), st.floats(0, 10),
        ),
        max_size=12,
    ),
)  # fmt: skip
def test_parts_and_residue_are_all_of_the_sessions_time(
    clocks: tuple[float, float, float], sessions: float, operations: float, states: list[State]
) -> None:
    """Whatever was seen: no sleep is lost or invented by dividing it, and Little's law adds up."""
    ran, queued, system = clocks
    observed = [seen(letter, wait, part, s, still=still) for letter, wait, part, still, s in states]
    slept = sum(one.seconds for one in observed if one.letter != "R")
    kernel = {"server": {Spent.COPY: 3.0, Spent.PAGE_CACHE: 1.0}}

    made = account(
        window(operations=operations),
        watched(*observed, ran=ran, queued=queued, system=ran * system, sessions=sessions),
        {},
        kernel,
    )

    assert sum(asleep(observed).values()) == pytest.approx(slept)
    assert sum(made.session.values()) + made.residue == pytest.approx(sessions * 10 / operations)
    assert made.residue_share == pytest.approx(1 - (ran + queued + slept) / 40, abs=1e-9)


def test_a_thread_that_ran_meanwhile_is_not_taken_at_the_servers_word() -> None:
    """Short reads: a moment later the server says CPU or client, and the sleep was the reads'."""
    slept = asleep(
        [
            seen("D", "IO:DataFileRead", "device", 6.0, still=False),
            seen("D", "IO:WalSync", "log", 2.0, still=False),
            seen("D", "", "", 3.0, still=False),
            seen("D", "Client:ClientRead", "client", 1.0, still=False),
            seen("S", "Client:ClientRead", "client", 5.0),
            seen("S", "", "", 1.0, still=False),
        ]
    )

    assert slept == {
        ("IO:DataFileRead", Spent.DEVICE): pytest.approx(9.0),
        ("IO:WalSync", Spent.LOG): pytest.approx(3.0),
        ("Client:ClientRead", Spent.CLIENT): pytest.approx(6.0),
    }


def test_a_server_without_words_for_the_device_waits_in_the_kernels() -> None:
    """MariaDB says `Sending data` of a thread that sleeps for a page: it is the device."""
    slept = asleep(
        [
            seen("D", "Sending data", "", 7.0, still=False), seen("D", "Commit", "log", 2.0),
            seen("S", "Updating", "", 3.0),
        ]
    )  # fmt: skip

    assert slept == {
        ("Sending data: disk sleep", Spent.DEVICE): 7.0,
        ("Commit", Spent.LOG): 2.0,
        ("Updating: sleep", Spent.OTHER): 3.0,
    }


def test_replayers_own_threads_wait_in_the_kernels_words() -> None:
    """Of threads that no server knows: what sleeps for the disk is the device's."""
    made = account(
        window(),
        watched(
            seen("R", "", "", 10.0), seen("D", "", "", 25.0), seen("S", "", "", 5.0),
            ran=9.0, queued=1.0, system=8.0, whose="replayer",
        ),
        {},
        {"client": {Spent.COPY: 1.0}, "server": {Spent.FAULTS: 1.0}},
    )  # fmt: skip

    assert parts(made) == {
        Spent.SERVER: 1 / 40, Spent.COPY: 8 / 40, Spent.RUN_QUEUE: 1 / 40,
        Spent.DEVICE: 25 / 40, Spent.OTHER: 5 / 40,
    }  # fmt: skip
    assert made.waits == {"disk sleep": 25 / 40, "sleep": 5 / 40}


def test_the_kernels_time_is_split_as_the_profile_says() -> None:
    """Three quarters of the server's kernel samples copied: so did three quarters of its time."""
    made = account(
        window(),
        watched(seen("R", "", "", 40.0), ran=40.0, system=20.0),
        {"server": CpuSeconds(22.0, 24.0)},
        {"server": {Spent.COPY: 75, Spent.ENTRY: 25}},
    )

    assert parts(made) == {Spent.SERVER: 0.5, Spent.COPY: 0.375, Spent.ENTRY: 0.125}
    assert made.cpu["server"] == {
        Spent.SERVER: 0.022, Spent.ENTRY: pytest.approx(0.006), Spent.COPY: pytest.approx(0.018),
    }  # fmt: skip


def test_a_server_elsewhere_has_the_account_that_it_tells_itself() -> None:
    """No thread of it can be seen: its words alone make the parts, and the account says so."""
    waits = WaitSamples(
        whose="server", moments=100, sessions=4.0, missing="it is on another host",
        asked={("IO:DataFileRead", "device"): 1.0, ("", ""): 2.5, ("Lock:tuple", "lock"): 0.5},
    )  # fmt: skip

    made = account(window(), waits, {})

    assert parts(made) == {Spent.SERVER: 0.625, Spent.DEVICE: 0.25, Spent.LOCK: 0.125}
    assert made.residue == pytest.approx(0.0)
    assert made.waits == {"IO:DataFileRead": 0.25, "Lock:tuple": 0.125}
    assert "rests on the server's wait events only (it is on another host)" in made.notes[0]


def test_a_kernel_that_counts_no_queues_leaves_the_states_alone() -> None:
    """What was seen runnable and used no CPU was the run queue; no residue can show an error."""
    made = account(
        window(),
        watched(
            seen("R", "", "", 30.0), seen("S", "Client:ClientRead", "client", 10.0),
            user=8.0, system=4.0, counted=False,
        ),
        {},
    )  # fmt: skip

    assert parts(made) == {
        Spent.SERVER: 0.2, Spent.KERNEL: 0.1, Spent.RUN_QUEUE: 18 / 40, Spent.CLIENT: 0.25,
    }  # fmt: skip
    assert made.residue == pytest.approx(0.0)
    assert "does not count how long a thread waits for a processor" in made.notes[0]


def test_sessions_that_were_not_seen_are_told() -> None:
    """Three of four were at work on average, as where some end before the window does."""
    made = account(window(), watched(seen("R", "", "", 40.0), ran=40.0, sessions=3.0), {})

    assert made.sessions == 3.0
    assert "3.0 of 4 sessions were seen" in made.notes[0]


def test_few_observations_are_told() -> None:
    """Of 12 looks nothing can be said in percent."""
    made = account(window(), watched(seen("R", "", "", 40.0), ran=40.0, observations=12), {})

    assert "rests on 12 observations" in made.notes[0]


def test_without_waits_there_is_the_cpu_alone() -> None:
    """Whoever leaves the collector out has what operations cost, and no word on their time."""
    made = account(window(), None, {"server": CpuSeconds(4.0, 6.0)})

    assert made.session == {}
    assert made.residue_share == 0.0
    assert made.cpu["server"][Spent.KERNEL] == pytest.approx(0.006)
    assert accounts.account(window(), None, {}) is None
    assert accounts.account(window(operations=0.0), watched(ran=1.0), {}) is None


def test_a_window_that_was_too_short_has_no_parts() -> None:
    """Of a walk of 40 ms nobody was seen twice: that is said, and nothing is made of it."""
    waits = WaitSamples(whose="replayer", moments=1, sessions=8.0, asked={("", ""): 8.0})

    made = account(window(), waits, {"client": CpuSeconds(1.0, 1.0)})

    assert made.session == {}
    assert made.residue == 0.0
    assert "too short to look twice" in made.notes[0]


def test_a_trace_says_how_long_it_was_slept_and_looks_for_what() -> None:
    """Looks met 10 of 24 s asleep for the device: the traces have all, and the words are theirs."""
    made = account(
        window(),
        watched(
            seen("R", "IO:DataFileRead", "device", 29.0), seen("S", "Lock:tuple", "lock", 1.0),
            seen("D", "IO:DataFileRead", "device", 7.5), seen("D", "IO:WalSync", "log", 2.5),
            ran=4.0, queued=6.0, traced={"R": 0.3, "D": 0.6, "S": 0.1},
        ),
        {},
    )  # fmt: skip

    assert made.residue_share == pytest.approx(0.05)
    assert parts(made) == {
        Spent.SERVER: 0.1, Spent.RUN_QUEUE: 0.15, Spent.DEVICE: 0.45, Spent.LOG: 0.15,
        Spent.LOCK: 0.1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("ran", "device", "residue"),
    [(12.0, 0.7, 0.0), (26.0, 0.35, 0.0), (2.0, 0.85, 0.1), (34.0, 0.25, -0.1)],
)
def test_the_sleep_is_what_the_kernel_leaves_as_far_as_it_is_borne_out(
    ran: float, device: float, residue: float
) -> None:
    """Looks met a quarter of the time asleep, traces 0.85: between them the exact counters decide.

    What lies beyond both is the residue.
    """
    made = account(
        window(),
        watched(
            seen("R", "IO:DataFileRead", "device", 30.0),
            seen("D", "IO:DataFileRead", "device", 10.0),
            ran=ran, queued=0.0, traced={"R": 0.15, "D": 0.85},
        ),
        {},
    )  # fmt: skip

    assert parts(made)[Spent.DEVICE] == pytest.approx(device)
    assert made.residue_share == pytest.approx(residue)
    assert made.unsure == pytest.approx(0.6)
    assert "rests on the kernel's counters alone" in made.notes[0] or residue


def test_looks_and_traces_that_agree_leave_nothing_unsure() -> None:
    """Then an error of the counters would be a residue, and no note is needed."""
    made = account(
        window(),
        watched(
            seen("R", "IO:DataFileRead", "device", 10.0),
            seen("D", "IO:DataFileRead", "device", 30.0),
            ran=10.0, queued=0.0, traced={"R": 0.2, "D": 0.8},
        ),
        {},
    )  # fmt: skip

    assert made.unsure == pytest.approx(0.05)
    assert not [note for note in made.notes if "kernel's counters" in note]


def test_a_sleep_that_no_look_met_has_the_words_of_those_who_had_just_woken() -> None:
    """In a virtual machine a look comes with the disk's interrupt: all are awake by then."""
    observed = [
        seen("R", "IO:DataFileRead", "device", 30.0, still=False),
        seen("R", "Client:ClientRead", "client", 10.0, still=False),
    ]

    slept = asleep(observed, {"D": 24.0, "S": 2.0})

    assert slept == {
        ("IO:DataFileRead", Spent.DEVICE): pytest.approx(24.0),
        ("Client:ClientRead", Spent.CLIENT): pytest.approx(2.0),
    }
    assert asleep([], {"D": 24.0}) == {("disk sleep", Spent.DEVICE): 24.0}


def test_an_account_of_looks_alone_that_does_not_close_says_why_it_had_no_more() -> None:
    """Half of the sleep was missed: that perf may not trace is told with it, and only then."""
    keys: dict[str, Any] = {"ran": 10.0, "untraced": "perf is not installed"}
    made = account(window(), watched(seen("D", "", "", 20.0), **keys), {})
    closed = account(window(), watched(seen("D", "", "", 30.0), **keys), {})

    assert made.notes[0].endswith(
        "; they slept as long as they were met asleep (perf is not installed)"
    )
    assert closed.notes == ()


@pytest.mark.parametrize(
    ("queued", "share", "cores", "throttled"),
    [
        (20.0, 1.0, 2, 15.0),  # 10 s ran; 3 of 4 threads were runnable, for 2 cores: that costs 5 s
        (20.0, 0.25, 2, 10.0),  # not for longer than the quota was used up
        (4.0, 1.0, 2, 4.0),
        (20.0, 0.0, 2, 0.0),
        (20.0, 1.0, 0, 0.0),
    ],
)
def test_waiting_for_a_cpu_quota_is_a_part_of_its_own(
    queued: float, share: float, cores: int, throttled: float
) -> None:
    """What threads wait for a processor beyond what they share them for is the quota's."""
    seen_at = watched(
        seen("R", "", "", 10.0 + queued), seen("D", "IO:DataFileRead", "device", 30.0 - queued),
        ran=10.0, queued=queued, system=0.0, throttled=share, cores=cores,
    )  # fmt: skip
    made = account(window(), seen_at, {})

    whole = made.sessions * made.seconds / made.operations
    assert made.session.get(Spent.THROTTLED, 0.0) / whole == pytest.approx(throttled / 40)
    assert made.session.get(Spent.RUN_QUEUE, 0.0) / whole == pytest.approx(
        (queued - throttled) / 40
    )
    assert made.session[Spent.DEVICE] / whole == pytest.approx((30.0 - queued) / 40)
