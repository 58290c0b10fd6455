"""Bytes that passed through the machine's network interfaces since the machine's start."""

from replayer.machine.host import Host

_FILE = "proc/net/dev"
_SENT = 8
"""The index of the bytes sent among an interface's numbers; the bytes received have index 0."""


def totals(host: Host) -> tuple[int, int]:
    """Return (bytes received, bytes sent) of all network devices so far.

    Raises OSError if /proc/net/dev cannot be read.  Bonds, bridges, VLANs and the interfaces of
    containers count what passes through a device once more, so they are left out.  So is a device
    whose bytes another device counts as well, as Azure's virtual interface does with its fast path.
    A container may have no device: then all interfaces but the loopback count.
    """
    counted: dict[str, tuple[int, int]] = {}
    for line in host.path(_FILE).read_text("ascii", "replace").splitlines():
        name, colon, rest = line.partition(":")
        numbers = rest.split()
        if colon and name.strip() != "lo" and len(numbers) > _SENT:
            counted[name.strip()] = int(numbers[0]), int(numbers[_SENT])
    devices = {
        name: n
        for name, n in counted.items()
        if host.exists(f"sys/class/net/{name}/device")
        # A bond is a master, too, but no device.
        and not host.exists(f"sys/class/net/{name}/master/device")
    }
    used = (devices or counted).values()
    return sum(received for received, _ in used), sum(sent for _, sent in used)
