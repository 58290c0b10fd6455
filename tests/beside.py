"""Programs that run beside a test; `from tests.beside import beside`."""

import contextlib
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator


@contextlib.contextmanager
def beside(command: str, many: int = 1) -> Iterator[None]:
    """Run shell commands beside a test that are no children of it, and end them."""
    # Not a session's leader by itself, so that setsid keeps the process id.
    one = f"setsid sh -c {shlex.quote(command)} >/dev/null 2>&1 & echo $!"
    script = f"for i in $(seq {many}); do {one}; done"
    said = subprocess.run(["sh", "-c", script], stdout=subprocess.PIPE, text=True, check=True)
    try:
        yield
    finally:
        for pid in map(int, said.stdout.split()):
            os.killpg(pid, signal.SIGKILL)
