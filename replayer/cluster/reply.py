"""Read and check the answer of a program that ssh started on another host: one line of JSON."""

from __future__ import annotations

import json
import os
import select
import time
from typing import Any

from replayer.errors import ReplayerError, one_line

_MOST_CHATTER = 4 << 20
"""The most bytes that a login shell may print before the answer."""
_MOST = 256 << 20
_PIECE = 1 << 16


class InvalidReply(ReplayerError):
    """The error that is raised if received data is not a valid answer of replayer."""


class Reply(dict[str, Any]):
    """The answer of a program on another host, as a dict; a missing key raises InvalidReply."""

    def __missing__(self, key: str) -> Any:
        raise InvalidReply(
            f"the answer has no {key!r}, so that no replayer of this version gave it"
        )


def read(fd: int, mark: bytes, seconds: float | None) -> Reply | None:
    """Read `fd` until a line that begins with `mark`; return the JSON object after the mark.

    Returns None if the input ends before that, or after `seconds`; for None there is no time limit.
    Raises InvalidReply if the line contains no JSON object, or if too many bytes came.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    begun, passed, marked = bytearray(), 0, False
    while True:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        if left == 0.0 or not select.select([fd], [], [], left)[0]:
            return None
        piece = os.read(fd, _PIECE)
        if not piece:
            return None
        seen = len(begun) if marked else 0
        begun += piece
        if not marked:
            place = 0 if begun.startswith(mark) else begun.find(b"\n" + mark) + 1
            marked = begun.startswith(mark, place)
            # Of other output, keep only the last line: it may still become an answer.
            done = place if marked else begun.rfind(b"\n") + 1
            passed += done
            del begun[:done]
        end = begun.find(b"\n", seen) if marked else -1
        if end >= 0:
            return _parsed(bytes(begun[len(mark) : end]))
        if len(begun) + passed > (_MOST if marked else _MOST_CHATTER):
            raise InvalidReply(
                f"it sent {len(begun) + passed:,} bytes that are no answer of replayer's"
            )


def _parsed(line: bytes) -> Reply:
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        raise InvalidReply(
            f"it answered {one_line(line.decode(errors='replace')[:60])!r}, which is none"
        )
    return Reply(answer)
