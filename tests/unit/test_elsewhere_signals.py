"""A Ctrl-C of a run on another host is passed on to it, whatever its messages are doing then."""

import subprocess
import sys

SCRIPT = """
import contextlib, os, signal
from replayer import signals
from replayer.engines import engine as engines
from replayer.errors import Interrupted
from replayer.run.plan import workload
from replayer.run.remote import caller, framing
from replayer.run.runner import RunRequest

signals.install()

class Running:
    def receive_messages(self, timeout):
        frames = []
        framing.send({"kind": "say", "text": "shown"}, frames.append)
        framing.send({"kind": "ended", "error": None}, frames.append)
        yield from frames

    def interrupt(self, number):
        print("passed on", number)

class Agents:
    names = ()

    @contextlib.contextmanager
    def run(self, work, order, on=""):
        yield Running()

class Screen:
    def say(self, text):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):  # the handler runs in here
            pass
        print(text)

order = RunRequest(
    workload=workload.load("smoke"),
    engine=engines.load("postgres"),
    url="postgresql://app@db/shop",
    watched="db",
)
try:
    list(caller.execute_there(order, Agents(), Screen()))
except Interrupted as error:
    print(error)
"""


def test_one_that_comes_while_a_message_is_shown_is_passed_on() -> None:
    """It ended the run here instead, and what that had to say last was not heard."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["shown", "passed on 2", "stopped by Ctrl-C"]
