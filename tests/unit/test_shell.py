"""Programs that run next to replayer end with it, at whatever moment a signal comes."""

import subprocess
import sys
from pathlib import Path

from replayer import shell

STRUCK = """
import os, signal
from pathlib import Path
from replayer import shell, signals
from replayer.errors import Interrupted
signals.install()
start = shell.start
def struck(*words, **others):
    program = start(*words, **others)
    print(program.pid)
    os.kill(os.getpid(), signal.SIGTERM)
    for _ in range(1000):  # the signal is met in here, before the program is known to anybody
        pass
    return program
shell.start = struck
try:
    with shell.running(["/bin/sleep", "600"], output=Path(os.devnull), patience=60):
        print("begun")
except Interrupted as error:
    print(error)
"""


def test_a_signal_while_a_program_starts_does_not_leave_it_running() -> None:
    """The step of a plan went on so, when the plan was stopped in the moment of its start."""
    words = [sys.executable, "-c", STRUCK]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    pid, said = done.stdout.splitlines()

    assert said == "stopped by SIGTERM"
    assert not Path("/proc", pid).exists()


def test_a_program_that_does_not_end_is_killed_at_the_end_of_the_block(tmp_path: Path) -> None:
    """SIGTERM is not the last word: no block leaves a program behind."""
    stubborn = "import signal; signal.signal(15, signal.SIG_IGN); print(flush=True); signal.pause()"
    output = tmp_path / "output"
    with shell.running([sys.executable, "-c", stubborn], output=output, patience=0.1) as program:
        while not output.exists() or not output.read_text():
            assert not shell.ended(program, within=0.01)

    assert program.returncode == -9
