"""Where the time went, on the terminal: sums that hold, at any width, whatever is named how."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pytest
from rich.cells import cell_len

from replayer.analysis.attribution import flame
from replayer.model import Account, Run, Spent, StackProfile, StepResult
from replayer.report.document import Part
from replayer.report.documents import account as account_report
from replayer.report.terminal import console
from replayer.report.writers import terminal_writer
from tests.known import known
from tests.made import account, altered

EVIL = [
    "<script>alert(1)</script>",
    "\"'&=cmd|",
    "\x1b]0;owned\x07\x1b[2J",
    "x" * 10_000,
    "名" * 90,
]


@pytest.fixture
def cached(stored: Run) -> StepResult:
    """Return the step of the fixture that has an account, a profile and costs."""
    return next(step for step in stored.steps if step.account is not None)


def shown(step: StepResult, width: int = 100) -> str:
    """Return what the terminal shows of a step's account."""
    return text_of(account_report.parts(step), width)


def text_of(parts: Iterable[Part], width: int = 100) -> str:
    """Return what the terminal shows of parts of a document."""
    return console.text(terminal_writer.render_parts(parts), width=width)


def profile(stacks: Mapping[str, int], **changes: Any) -> StackProfile:
    """Return a profile of these stacks."""
    made = {
        "payload": StackProfile.packed(stacks),
        "samples": sum(stacks.values()),
        "event": "cycles",
        "hertz": 99,
        "seconds": 5.0,
    }
    return StackProfile(**{**made, **changes})


def test_the_sessions_are_the_sum_of_where_they_were(cached: StepResult) -> None:
    """Little's law, with the residue: as rounded as it is shown."""
    law = known(re.search(r"sessions +(.*?)\(", " ".join(shown(cached).split())))[1]
    whole, *parts = (float(number) for number in re.findall(r"[\d.]+", law))

    assert whole == 4.0
    assert sum(parts) == pytest.approx(whole, abs=0.02)


def test_a_residue_below_zero_is_taken_away() -> None:
    """Parts that are more than all of the time are shown to be."""
    random = np.random.default_rng(1)
    one = account(random)
    more = altered(one, residue=-0.1 * 14e-6)
    text = text_of(account_report._account(more))

    assert re.search(r"- residue 0\.\d\d \(\d+\.\d%\)", text)


def test_cpu_is_split_by_whose_and_by_what_the_kernel_did(cached: StepResult) -> None:
    """User and kernel of server and client; the server's kernel time adds up."""
    text = " ".join(shown(cached).split())
    server = re.search(r"server ([\d.]+) µs \(user ([\d.]+), kernel ([\d.]+)\)", text)
    whole, user, kernel = map(float, known(server).groups())
    split = known(re.search(r"server's kernel (.*?) waits", text))[1]

    assert user + kernel == pytest.approx(whole, abs=0.02)
    assert "client 1.92 µs (user 1.42" in text
    assert sum(map(float, re.findall(r"\d+\.\d+", split))) == pytest.approx(kernel, abs=0.05)


def test_shares_of_functions_are_of_all_samples(cached: StepResult) -> None:
    """Each function once, the heaviest first, together all there is if there are few."""
    text = shown(cached)
    shares = [float(share) for share in re.findall(r"(\d+\.\d)%  \w", text.split("Hz")[1])]

    assert sum(shares) == pytest.approx(100, abs=1.5)
    assert "16.0%  server k  _copy_to_iter" in text
    assert "_[k]" not in text


@pytest.mark.parametrize("width", [60, 80, 100])
def test_hostile_functions_steer_nothing_and_widen_nothing(cached: StepResult, width: int) -> None:
    """Markup, quotes, escape sequences, 10,000 characters and wide ones, as names of all kinds."""
    stacks = {f"server;user;{name};main;{name}": 10 + n for n, name in enumerate(EVIL)}
    stacks |= {f"{name};kernel;t;main;{name}_[k]": 5 + n for n, name in enumerate(EVIL)}
    waits = dict.fromkeys(EVIL, 0.1)
    hostile = altered(known(cached.account), waits=waits, operation=EVIL[3], notes=tuple(EVIL))
    text = shown(altered(cached, profile=profile(stacks), account=hostile), width)

    assert max(map(cell_len, text.splitlines())) <= width
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f]", text)
    assert "\\x1b]0;owned\\x07" in text


def test_a_profile_that_cannot_be_read_is_said(cached: StepResult) -> None:
    """In a sentence, and the rest is shown."""
    text = shown(altered(cached, profile=profile({}, payload="no base 64")))

    assert "the profile cannot be read: " in text
    assert "where the time went" in text


def test_what_the_profile_lacks_is_said(cached: StepResult) -> None:
    """Lost samples and why it is not whole."""
    damaged = profile({"server;user;t;f": 3}, lost=7, truncated="perf was killed")
    text = shown(altered(cached, profile=damaged))

    assert "; 7 were lost" in " ".join(text.split())
    assert "the profile is not whole: perf was killed" in text


def test_an_account_of_nothing_is_shown_without_a_division() -> None:
    """No operations, no time, no sessions: what there is, and no error."""
    empty = Account(operation="block", operations=0, sessions=0, seconds=0)
    cpu = altered(empty, cpu={"server": {Spent.SERVER: 3e-6, Spent.KERNEL: 1e-6}})

    assert "where the time went, over 0 s" in console.text(
        terminal_writer.render_parts(account_report._account(empty))
    )
    text = text_of(account_report._account(cpu))
    assert "CPU a block       server 4.00 µs (user 3.00, kernel 1.00)" in text


def test_the_middle_repeat_is_shown(cached: StepResult) -> None:
    """Of repeats, the one whose operations took the middle time; those without one do not count."""
    repeats = [
        altered(
            cached, repeat=number, account=altered(known(cached.account), operations=operations)
        )
        for number, operations in enumerate((100, 900, 300), start=1)
    ]
    without = altered(cached, repeat=4, account=None)

    assert known(account_report.middle([*repeats, without])).repeat == 3
    assert account_report.middle([without]) is None


def test_functions_are_told_apart_by_whose_they_are() -> None:
    """The same name in the server, its client and the kernel is three functions."""
    stacks = {
        "server;user;postgres;main;memcpy": 5,
        "server;user;postgres;main;other;memcpy": 2,
        "client;user;python;main;memcpy": 3,
        "server;kernel;postgres;main;memcpy_[k]": 4,
        "others;user;sshd": 1,
    }

    assert flame.functions(stacks) == [
        ("memcpy", "server", 7),
        ("memcpy", "server, kernel", 4),
        ("memcpy", "client", 3),
        ("[unknown]", "others", 1),
    ]


def test_a_tree_adds_up_at_each_frame(cached: StepResult) -> None:
    """What a frame took is at least what all that it called took; the root took everything."""
    stacks = flame.per_operation([cached])
    root = flame.tree({}, stacks)
    waiting = [root]
    while waiting:
        frame = waiting.pop()
        called = sum(one.other for one in frame.calls.values())
        assert called <= frame.other * (1 + 1e-9)
        waiting += frame.calls.values()

    account_, seconds = known(cached.account), sum(known(cached.profile).stacks().values()) / 99
    assert root.other == pytest.approx(seconds / account_.operations)
    assert set(root.calls) == {"server", "client", "kernel threads", "others", "replayer"}


def test_a_collector_that_used_nothing_has_no_cost(cached: StepResult) -> None:
    """In a step without a window a collector that waits for one is not printed with 0 s."""
    costs = {"waits": 0.0, "block_latency": 0.0}

    assert "watching cost" not in shown(cached.model_copy(update={"costs": costs}))
    some = shown(cached.model_copy(update={"costs": {**costs, "profile": 0.25}}))
    assert "profile 250 ms" in some
    assert "waits 0 s" not in some


def test_windows_are_merged_by_their_operations(cached: StepResult) -> None:
    """Twice the same window is the same time per operation, and one without a profile is none."""
    once, twice = flame.per_operation([cached]), flame.per_operation([cached, cached])

    assert once == pytest.approx(twice)
    assert flame.per_operation([altered(cached, profile=None)]) == {}


def test_a_pruned_tree_keeps_the_largest_and_its_sums() -> None:
    """Of 5,000 frames at most as many as asked; callers come before what they call."""
    random = np.random.default_rng(2)
    stacks = {
        f"server;user;t;main;{';'.join(f'f{n}' for n in random.integers(0, 9, 6))}": float(
            random.integers(1, 100)
        )
        for _ in range(5000)
    }
    root = flame.tree({}, stacks)
    drawn = flame.pruned(root, 300)
    kept = [one for one in drawn if one.name != flame.REST]

    assert len(kept) == 300
    assert len(drawn) <= 600
    assert all(one.parent is None or one.parent < n for n, one in enumerate(drawn))
    for number, one in enumerate(drawn):
        called = sum(child.other for child in drawn if child.parent == number)
        assert called <= one.other * (1 + 1e-9)


def test_a_recursion_without_end_is_cut_in_its_middle() -> None:
    """A stack of 10,000 frames is a branch of 120, root and leaf kept."""
    deep = ";".join(["server", "user", "t", "main", *["f"] * 10_000, "leaf"])
    root = flame.tree({}, {deep: 1.0})
    depth, frame = 0, root
    while frame.calls:
        frame = next(iter(frame.calls.values()))
        depth += 1

    assert depth < 130
    assert frame.name == "leaf"


def test_what_moved_most_counts_functions_of_one_side_as_well() -> None:
    """Gone, come, and slower: by the size of the difference; what is the same is not among them."""
    base = {"server;user;t;gone": 3.0, "server;user;t;slower": 1.0, "server;user;t;same": 9.0}
    base["others;user;gzip;main"] = 7.0
    other = {"server;user;t;come": 2.0, "server;user;t;slower": 1.5, "server;user;t;same": 9.0}

    assert flame.movers(base, other) == [
        ("gone", "server", 3.0, 0.0),
        ("come", "server", 0.0, 2.0),
        ("slower", "server", 1.0, 1.5),
    ]


def test_the_devices_times_are_those_of_all_seconds(cached: StepResult) -> None:
    """Two seconds with 90 and 8 reads of up to 128 us and two of up to 4096: p99 is the latter."""
    seconds = (
        {"second": 1.0, "kind": "read", "timed": 91, "histogram": "64:90 2048:1"},
        {"second": 1.0, "kind": "write", "timed": 1, "histogram": "0:1"},
        {"second": 2.0, "kind": "read", "timed": 9, "histogram": "64:8 2048:1"},
    )
    step = altered(cached, tables={"block_latency.seconds": seconds})

    words = " ".join(shown(step).split())
    assert "device, bpftrace read p50 <= 128 µs p99 <= 4.10 ms of 100 timed" in words
    assert "write p50 <= 1.00 µs p99 <= 1.00 µs of 1 timed" in words

    empty = ({"second": 1.0, "kind": "read", "timed": 0, "histogram": ""},)
    assert "timed" not in shown(altered(cached, tables={"block_latency.seconds": empty}))
