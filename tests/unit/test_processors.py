"""The processors that processes may use, from texts of the kernel."""

import pytest

from replayer.machine import processors


@pytest.mark.parametrize(
    ("listed", "online", "offline", "expected"),
    [
        ("0-1", 4, "", {0, 1}),
        ("0-3", 4, "", None),
        # Where more processors are possible than there are, those are allowed, too.
        ("0-127", 4, "4-127", None),
        ("0-1,4-127", 4, "4-127\n", {0, 1}),
        ("1-127", 2, "2-127", {1}),
        # A container's /proc/stat has as many as its cpuset, with numbers from 0: these are all.
        ("4-7,10", 5, "", None),
        ("2-5", 4, "6-127", None),
        # So it is with a CPU quota of four, on a machine whose other processors work.
        ("0-1,4-127", 4, "", None),
        ("0-1,4-127", 4, "8-127", None),
        ("", 4, "4-127", None),
    ],
)
def test_processors_that_do_not_work_are_not_allowed(
    listed: str, online: int, offline: str, expected: set[int] | None
) -> None:
    """A process is restricted if it may not use all that work, whatever else is possible."""
    text = "".join(f"cpu{number} 1 0 1 1\n" for number in range(online))
    times = processors.ticks(f"cpu 1 0 1 1\n{text}".encode())
    status = f"Name:\tx\nCpus_allowed_list:\t{listed}\n"

    assert processors.restricted([status], times, offline) == expected
