"""Processes of other programs that keep processors busy: neither replayer's nor a server's."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

_STEADY = """
import os, time
os.nice(5)
end = time.monotonic() + 300
while time.monotonic() < end:
    pass
"""


@contextlib.contextmanager
def burners() -> Iterator[None]:
    """Keep every processor busy with a niced process until the `with` block ends.

    They are no descendants of this process, in which a test may run replayer itself.
    """
    script = 'for i in $(seq $2); do "$0" -c "$1" >/dev/null & echo $!; done'
    started = subprocess.run(
        ["/bin/sh", "-c", script, sys.executable, _STEADY, str(os.cpu_count() or 1)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    try:
        yield
    finally:
        for pid in started.stdout.split():
            os.kill(int(pid), signal.SIGKILL)
