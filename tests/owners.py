"""Owners of notes of the journal, for tests that make a leftover."""

import os

from replayer import journal


def ended_owner() -> str:
    """Return an owner that is a process of this boot, and no longer runs."""
    return f"{journal.identity(os.getpid()).partition(':')[0]}:0:1"


def earlier_boot() -> str:
    """Return an owner that is a process of an earlier boot."""
    return "00000000-0000-4000-8000-000000000000:4242:1"
