"""The one line that an agent prints, for the process that started it by ssh."""

import contextlib
import json
import os
from typing import Any

MARK = "replayer-agent "
"""The line begins with it: a login shell may print other lines."""
_STDOUT = 1


def print_line(answer: dict[str, Any]) -> None:
    """Print the line: `answer` as JSON; a reader that is gone is no error."""
    text = f"{MARK}{json.dumps(answer)}\n"
    with contextlib.suppress(OSError):
        os.write(_STDOUT, text.encode())
