"""Call chains of real kernels are work of the right kind, whatever their functions are called.

The chains of tests/fixtures/call-chains.txt are as `perf script` prints them on kernels from 4.18
to 6.18, or as their source calls: the leaf first, without the frames of the program.
"""

from collections.abc import Iterator
from pathlib import Path

from replayer.analysis.attribution import kernel_stacks
from replayer.model import KERNEL_FRAME, Spent, StackProfile

FIXTURE = Path(__file__).parents[1] / "fixtures" / "call-chains.txt"


def chains() -> Iterator[tuple[str, Spent]]:
    """Yield the chains of the fixture, each with the part of an account that it belongs to."""
    words: dict[str, str] = {}
    spent = None
    for line in FIXTURE.read_text().splitlines():
        if line.startswith("["):
            spent = Spent(line.strip("[]"))
        elif spent is None and " = " in line:
            word, _, chain = line.partition(" = ")
            words[word] = chain.format(**words)
        elif spent is not None and line:
            yield line.format(**words), spent


CASES = list(chains())
COPIES = [chain for chain, spent in CASES if spent is Spent.COPY]


def frames(chain: str) -> list[str]:
    """Return a chain of the kernel from the root on, below two functions of a program."""
    kernel = [f"{name}{KERNEL_FRAME}" for name in reversed(chain.split(" < ")) if name]
    return ["main", "__libc_pread", *kernel]


def test_a_chain_is_work_of_its_kind() -> None:
    """By the first function from the leaf on that says what it is for."""
    assert [(chain, kernel_stacks.classify(frames(chain))) for chain, _ in CASES] == CASES


def test_every_part_of_the_kernels_time_has_its_chains() -> None:
    """Those that are shown of a server's kernel time, and other work of the kernel."""
    kernels = list(Spent)[list(Spent).index(Spent.ENTRY) : list(Spent).index(Spent.KERNEL) + 1]

    assert {spent for _, spent in CASES} == set(kernels)


def test_functions_of_programs_say_nothing_of_the_kernels_work() -> None:
    """A program may call its own functions as the kernel calls its."""
    assert (
        kernel_stacks.classify(["tcp_sendmsg", "schedule", f"unheard_of{KERNEL_FRAME}"])
        is Spent.KERNEL
    )
    assert kernel_stacks.classify(["tcp_sendmsg"]) is Spent.KERNEL


def test_samples_are_summed_by_whose_they_are_and_user_mode_is_left_out() -> None:
    """The whole of the kernel's samples is there, none is counted twice."""
    stacks = {
        ";".join(["server", "kernel", "postgres", *frames(COPIES[0])]): 7,
        ";".join(["server", "kernel", "postgres", *frames(COPIES[1])]): 5,
        ";".join(["server", "kernel", "postgres", *frames("nvme_irq")]): 3,
        ";".join(["client", "kernel", "python", *frames("tcp_sendmsg")]): 2,
        "server;user;postgres;main": 100,
    }
    profile = StackProfile(
        payload=StackProfile.packed(stacks), samples=117, event="cycles", hertz=99, seconds=1
    )

    assert kernel_stacks.kernel_samples(profile) == {
        "server": {Spent.COPY: 12, Spent.BLOCK: 3},
        "client": {Spent.NETWORK: 2},
    }
