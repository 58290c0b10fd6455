"""Programs that run next to replayer end with it, at whatever moment a signal comes."""

import subprocess
import sys
from pathlib import Path

import pytest

from replayer import shell
from replayer.errors import ReplayerError
from replayer.machine.background import Background
from tests.waiting import wait_until

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


@pytest.mark.parametrize("signal", ["KILL", "TERM", "SEGV"])
def test_a_program_with_children_that_a_signal_ends_is_reported_so(signal: str) -> None:
    """The process that watches over it ends by the same signal."""
    with pytest.raises(ReplayerError, match=f"SIG{signal}"):
        shell.run(["/bin/sh", "-c", f"kill -{signal} $$"], bound=True)
    with pytest.raises(ReplayerError, match="status 9"):
        shell.run(["/bin/sh", "-c", "exit 9"], bound=True)


def test_the_cost_of_a_program_is_that_of_all_its_threads(tmp_path: Path) -> None:
    """The first thread of this one only waits."""
    burning = (
        "import threading\ndef burn():\n  while True: pass\nthreading.Thread(target=burn).start()"
    )
    program = Background([sys.executable, "-c", burning], tmp_path / "log")
    try:
        program.charge()
        wait_until(lambda: program.cost() > 0.2)
    finally:
        program.stop(within=0.0)


def test_a_program_that_does_not_end_is_killed_at_the_end_of_the_block(tmp_path: Path) -> None:
    """SIGTERM is not the last word: no block leaves a program behind."""
    stubborn = "import signal; signal.signal(15, signal.SIG_IGN); print(flush=True); signal.pause()"
    output = tmp_path / "output"
    with shell.running([sys.executable, "-c", stubborn], output=output, patience=0.1) as program:
        while not output.exists() or not output.read_text():
            assert not shell.wait_until_ended(program, within=0.01)

    assert program.returncode == -9
