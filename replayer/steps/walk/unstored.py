"""The bytes that a walk read and that no disk stores: holes, and bytes saved by compression.

A walk reads all bytes of its files, but only the stored ones are proven to come from a disk.
"""

from replayer.model import Cold, Temperature

_STORED_SHARE = 0.95
"""The rate of a cold walk is the disk's if at least this share of the bytes read is stored."""


def unstored_bytes(cold: Cold | None, read_bytes: float) -> float:
    """Return how many of the `read_bytes` of a cold walk no disk stores; 0 if they are few.

    `cold` is the temperature of the files.  The result is 0 as well if they were not cold, because
    nothing is claimed of a disk then, and if the stored bytes are not known.
    """
    if cold is None or cold.got is not Temperature.COLD or cold.stored_bytes is None:
        return 0.0
    if cold.stored_bytes >= _STORED_SHARE * read_bytes:
        return 0.0
    return read_bytes - cold.stored_bytes


def kind_of_unstored(cold: Cold) -> str:
    """Return as words what the unstored bytes of files are."""
    compressed = cold.data_bytes is not None and cold.data_bytes != cold.stored_bytes
    return "holes or saved by compression" if compressed else "holes"
