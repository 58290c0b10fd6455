"""Bytes of the network: those of devices, each once."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from replayer.machine import network
from replayer.machine.host import Host

DEV = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo
    lo: 7000     7    0    0    0     0          0         0     7000      7    0    0    0
  eth0: 1000     7    0    0    0     0          0         0      100      7    0    0    0
  eth1:  200     7    0    0    0     0          0         0       20      7    0    0    0
 bond0: 1200     7    0    0    0     0          0         0      120      7    0    0    0
veth7a1:  300     7    0    0    0     0          0         0       30      7    0    0    0
"""


@pytest.mark.parametrize(
    ("devices", "masters", "total"),
    [
        (("eth0", "eth1"), {}, (1200, 120)),
        (("eth0", "eth1"), {"eth0": "bond0", "eth1": "bond0"}, (1200, 120)),
        (("eth0", "eth1"), {"eth1": "eth0"}, (1000, 100)),
        ((), {}, (2700, 270)),
    ],
    ids=["devices", "members of a bond", "a fast path below a device", "no device"],
)
def test_what_passes_a_device_counts_once(
    tmp_path: Path, devices: tuple[str, ...], masters: Mapping[str, str], total: tuple[int, int]
) -> None:
    """A bond has it again, and so have a container and a device above another one.

    In a container there may be no device.
    """
    (tmp_path / "proc/net").mkdir(parents=True)
    (tmp_path / "proc/net/dev").write_text(DEV)
    for name in devices:
        (tmp_path / "sys/class/net" / name / "device").mkdir(parents=True)
    for name, master in masters.items():
        (tmp_path / "sys/class/net" / master).mkdir(exist_ok=True)
        (tmp_path / "sys/class/net" / name / "master").symlink_to(f"../{master}")

    assert network.totals(Host(tmp_path)) == total
