"""Bytes that passed through the machine's network interfaces since its start."""

FILE = "proc/net/dev"
_SENT = 8
"""Which number of a line are the bytes sent; the first are those received."""


def totals(text: bytes) -> tuple[int, int]:
    """Return bytes received and sent by all interfaces of /proc/net/dev but the loopback."""
    received = sent = 0
    for line in text.splitlines():
        name, colon, rest = line.partition(b":")
        numbers = rest.split()
        if colon and name.strip() != b"lo" and len(numbers) > _SENT:
            received += int(numbers[0])
            sent += int(numbers[_SENT])
    return received, sent
