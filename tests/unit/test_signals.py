"""A signal ends the run wherever Python is when it arrives."""

import signal
import subprocess
import sys
import time

import pytest

SCRIPT = """
import os, signal, sys, time, weakref
from replayer import signals
from replayer.errors import Interrupted

signals.install()
number = int(sys.argv[1])

class Thing:
    def __del__(self, place=sys.argv[2]):
        if place == "finaliser":
            hit()

def hit(_ref=None):
    os.kill(os.getpid(), number)
    for _ in range(1000):  # the handler runs in here, where nothing can be raised
        pass

thing = Thing()
if sys.argv[2] == "callback":
    ref = weakref.ref(thing, hit)
try:
    if sys.argv[2] == "call":
        hit()
    del thing
    time.sleep(20)
except Interrupted as error:
    print(error)
    os.kill(os.getpid(), number)  # a second one does not break the giving back
    print("given back")
"""


ELSEWHERE = """
import signal, sys, threading
from replayer import signals
from replayer.errors import Interrupted

signals.install()
number = int(sys.argv[1])
begun, never = threading.Event(), threading.Event()

def take():
    begun.wait()
    threading.Event().wait(0.2)  # by then the main thread waits for a lock
    signal.pthread_kill(threading.get_ident(), number)
    threading.Event().wait()

threading.Thread(target=take, daemon=True).start()
begun.set()
try:
    never.wait()
except Interrupted as error:
    print(error)
"""


SHIELDED = """
import os, signal, threading, time
from replayer import signals
from replayer.errors import Interrupted

signals.install()
inside, over = threading.Event(), threading.Event()

def give_back():
    with signals.shield():
        inside.set()
        over.wait(5)

thread = threading.Thread(target=give_back)
thread.start()
inside.wait()
try:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(10)
except Interrupted as error:
    print(error, thread.is_alive())
over.set()
thread.join()
"""

IMPORTING = """
import importlib, os, signal, sys
from replayer import registry, signals
from replayer.errors import Interrupted

signals.install()
imported = importlib.import_module

def hit(name, package=None):
    importlib.import_module = imported  # a second signal would end the process at once
    os.kill(os.getpid(), signal.SIGTERM)
    for _ in range(1000):  # the handler runs in here
        pass
    return imported(name, package)

importlib.import_module = hit
try:
    registry.load("commands", "list")
except Interrupted as error:
    print(error, "replayer.commands.list" in sys.modules)
"""


def test_one_that_comes_while_another_thread_is_shielded_is_the_main_threads():
    """It would be raised where that thread's shield ends, and the run would go on."""
    done = subprocess.run(
        [sys.executable, "-c", SHIELDED], capture_output=True, text=True, check=False, timeout=30
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "stopped by SIGTERM True\n", "")


def test_one_that_comes_while_a_plugin_is_imported_waits_until_it_is():
    """A library's C code may make another fault of it, with a traceback, or go on."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORTING], capture_output=True, text=True, check=False, timeout=20
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "stopped by SIGTERM True\n", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_that_another_thread_takes_is_heard(number):
    """The main thread waits for a lock, of which only a signal of its own would wake it."""
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(int(number))],
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("stopped by ")


def test_what_wakes_the_main_thread_late_is_no_second_one():
    """On a busy machine it came more than half a second after the first, and ended the process."""
    slow = "signals.install()\nsignals._NUDGES, signals._LATE_SECONDS = (0.8,), 10"
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE.replace("signals.install()", slow), str(signal.SIGTERM)],
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "stopped by SIGTERM\n", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("place", ["call", "finaliser", "callback"])
def test_it_is_not_lost_in_a_finaliser(number, place):
    """It is raised once, in the main thread's own code, and nothing else is printed."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(int(number)), place],
        capture_output=True,
        text=True,
        timeout=15,
        check=False,
        start_new_session=True,
    )
    asked = "Ctrl-C" if number == signal.SIGINT else number.name
    assert done.stdout.splitlines() == [f"stopped by {asked}", "given back"]
    assert done.stderr == ""


def test_hangup_is_ignored_under_nohup():
    """What nohup ignores stays ignored, and SIGTERM still ends it."""
    script = SCRIPT.replace(
        "signals.install()", "signal.signal(signal.SIGHUP, signal.SIG_IGN)\nsignals.install()"
    )
    script = script.replace(
        "    hit()\n    del", "    hit()\n    os.kill(os.getpid(), signal.SIGTERM)\n    del"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(int(signal.SIGHUP)), "call"],
        capture_output=True,
        text=True,
        timeout=15,
        check=False,
    )
    assert done.stdout.splitlines() == ["stopped by SIGTERM", "given back"]


STUCK = """
import ctypes, signal, sys, time
from replayer import signals

signals.install()
print("ready", flush=True)
if sys.argv[1] == "shield":
    with signals.shield():
        time.sleep(60)
libc = ctypes.CDLL(None)
mutex = ctypes.create_string_buffer(64)
libc.pthread_mutex_lock(mutex)
libc.pthread_mutex_lock(mutex)  # never returns, not even for a signal
"""


@pytest.mark.parametrize("place", ["shield", "driver"])
@pytest.mark.parametrize("numbers", [("SIGINT", "SIGINT"), ("SIGTERM", "SIGINT")])
def test_a_second_one_always_ends(place, numbers):
    """Half a second after the first, whatever replayer waits for and whoever holds signals back."""
    with subprocess.Popen(
        [sys.executable, "-c", STUCK, place],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as stuck:
        assert stuck.stdout.readline() == "ready\n"
        first, second = (signal.Signals[number] for number in numbers)
        time.sleep(0.3)  # for the way from that line into the wait
        stuck.send_signal(first)
        stuck.send_signal(first)  # a terminal and a parent both pass it on
        with pytest.raises(subprocess.TimeoutExpired):
            stuck.wait(timeout=1.5)  # on a busy machine half a second is longer
        stuck.send_signal(second)
        try:
            assert stuck.wait(timeout=5) == 130
        finally:
            stuck.kill()
        assert stuck.stderr.read().splitlines() == [
            "replayer: error: ended at once; the next command gives back what was taken"
        ]
