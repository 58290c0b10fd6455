"""Messages between both ends of a remote run: small ones, and Runs of any size in pieces.

A message is a JSON object, compressed, and cut into frames of at most 1 MiB and one byte. So the
connection can send other things between two frames, such as a sign that this end still works.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import zstandard

from replayer.errors import ReplayerError

FRAME_BYTES = 1 << 20
_MOST_BYTES = 1 << 30
"""The largest size of one message in bytes; the message of a run has a few megabytes."""
_MORE, _LAST = b"+", b"."

Send = Callable[[bytes], None]
"""Sends a frame; may raise OSError if the connection is closed."""


def send(message: Mapping[str, Any], out: Send) -> None:
    """Compress a message, and pass it to `out` in as many frames as it needs."""
    data = zstandard.compress(json.dumps(message).encode(), 1)
    for begin in range(0, len(data), FRAME_BYTES):
        last = begin + FRAME_BYTES >= len(data)
        out((_LAST if last else _MORE) + data[begin : begin + FRAME_BYTES])


class FrameDecoder:
    """The frames (pieces) that have come so far of one message that is not complete yet."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._bytes = 0

    def feed(self, frame: bytes) -> dict[str, Any] | None:
        """Take a frame; return the message if this was its last frame, else None.

        Raises ReplayerError for data that is not a message of replayer, or is too large.
        """
        self._pieces.append(frame[1:])
        self._bytes += len(frame)
        if self._bytes > _MOST_BYTES:
            raise ReplayerError("the host of the database sent more than any run has")
        if frame[:1] == _MORE:
            return None
        data, self._pieces, self._bytes = b"".join(self._pieces), [], 0
        return _unpacked(data)


def _unpacked(data: bytes) -> dict[str, Any]:
    try:
        # `decompress` ignores its limit if the frame declares its size, so that is checked first.
        small = zstandard.frame_content_size(data) <= _MOST_BYTES
        message = json.loads(zstandard.decompress(data, _MOST_BYTES)) if small else None
    except (zstandard.ZstdError, ValueError) as error:
        raise _strange() from error
    if not isinstance(message, dict) or not isinstance(message.get("kind"), str):
        raise _strange()
    return message


def _strange() -> ReplayerError:
    return ReplayerError(
        "the host of the database sent something that is not a message of replayer"
    )
