"""The one line that an agent prints for the process that started it by ssh."""

import contextlib
import json
import os
from typing import Any

MARK = "replayer-agent "
"""The prefix by which the agent's line is found: a login shell may print other lines before it."""
_STDOUT = 1


def print_line(answer: dict[str, Any]) -> None:
    """Print a line of MARK and `answer` as JSON; if no process reads it, ignore the error.

    By MARK the reader finds this line among other output.
    """
    text = f"{MARK}{json.dumps(answer)}\n"
    with contextlib.suppress(OSError):
        os.write(_STDOUT, text.encode())
