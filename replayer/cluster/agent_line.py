"""The one line that an agent prints for the process that started it by ssh."""

import contextlib
import json
import os
from typing import Any

MARK = "replayer-agent "
"""The prefix of this line: a login shell may print other lines before it."""
_STDOUT = 1


def print_line(answer: dict[str, Any]) -> None:
    """Print the line: the prefix, then `answer` as JSON.  A reader that is gone is not an error."""
    text = f"{MARK}{json.dumps(answer)}\n"
    with contextlib.suppress(OSError):
        os.write(_STDOUT, text.encode())
