"""Bytes that passed through the machine's network interfaces since its start."""

FILE = "proc/net/dev"
_SENT = 8
"""The index of the bytes sent among an interface's numbers; the bytes received have index 0."""


def totals(text: bytes) -> tuple[int, int]:
    """Return (bytes received, bytes sent) of all interfaces in /proc/net/dev but the loopback."""
    received = sent = 0
    for line in text.splitlines():
        name, colon, rest = line.partition(b":")
        numbers = rest.split()
        if colon and name.strip() != b"lo" and len(numbers) > _SENT:
            received += int(numbers[0])
            sent += int(numbers[_SENT])
    return received, sent
