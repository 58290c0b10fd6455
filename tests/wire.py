"""A network cable that delays: wire.py PID-OF-A-HOST PID-OF-THE-SWITCH PORT MILLISECONDS.

Makes eth0 in the host and the port in the switch, both as TAP devices, and carries each frame from
one to the other after that time, in either direction.  It ends with its parent, and the devices
with it.
"""

import collections
import contextlib
import ctypes
import fcntl
import os
import select
import struct
import sys
import time
from pathlib import Path
from typing import NoReturn

_CLONE_NEWNET = 0x40000000
_TUNSETIFF = 0x400454CA
_TAP_WITHOUT_HEADER = 0x1002
_LONGEST = 65536
_PR_SET_TIMERSLACK = 29
_LIBC = ctypes.CDLL(None, use_errno=True)


def device(pid: int, name: str) -> int:
    """Make a TAP device in the network of a process and return its descriptor."""
    with Path(f"/proc/{pid}/ns/net").open("rb") as network:
        if _LIBC.setns(network.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"the network of process {pid} cannot be entered")
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tap, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _TAP_WITHOUT_HEADER))
    return tap


def carry(one: int, other: int, seconds: float) -> NoReturn:
    """Carry frames for as long as this process lives."""
    ends = {one: other, other: one}
    under_way: collections.deque[tuple[float, int, bytes]] = collections.deque()
    while True:
        wait = max(0.0, under_way[0][0] - time.monotonic()) if under_way else None
        readable, _, _ = select.select(ends, (), (), wait)
        for end in readable:
            under_way.append((time.monotonic() + seconds, ends[end], received(end)))
        while under_way and under_way[0][0] <= time.monotonic():
            _, end, frame = under_way.popleft()
            send(end, frame)


def received(end: int) -> bytes:
    """Return a frame, b"" where the device is down."""
    try:
        return os.read(end, _LONGEST)
    except OSError:
        time.sleep(0.001)  # or else this would go round and round until it is up again
        return b""


def send(end: int, frame: bytes) -> None:
    """Pass a frame on; one that the device does not take is lost, as on any cable."""
    with contextlib.suppress(OSError):
        os.write(end, frame)


if __name__ == "__main__":
    # The kernel may wake a sleeper 50 µs late; here a microsecond.
    _LIBC.prctl(_PR_SET_TIMERSLACK, 1000, 0, 0, 0)
    host, switch, port, milliseconds = sys.argv[1:]
    taps = device(int(host), "eth0"), device(int(switch), port)
    print("ready", flush=True)
    carry(*taps, float(milliseconds) / 1000)
