"""A signal ends the run wherever Python is when it arrives."""

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

_HANGS = 300.0
"""Seconds after which a script hangs, on however busy a machine."""

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
    time.sleep(600)
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
        over.wait()

thread = threading.Thread(target=give_back)
thread.start()
inside.wait()
try:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(600)
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


def run(script: str, *words: str, own_session: bool = False) -> tuple[int, str, str]:
    """Run a script in a process of its own; return its status and what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", script, *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=_HANGS,
        start_new_session=own_session,
    )
    return done.returncode, done.stdout, done.stderr


def test_one_that_comes_while_another_thread_is_shielded_is_the_main_threads() -> None:
    """It would be raised where that thread's shield ends, and the run would go on."""
    assert run(SHIELDED) == (0, "stopped by SIGTERM True\n", "")


def test_one_that_comes_while_a_plugin_is_imported_waits_until_it_is() -> None:
    """A library's C code may make another fault of it, with a traceback, or go on."""
    assert run(IMPORTING) == (0, "stopped by SIGTERM True\n", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_that_another_thread_takes_is_heard(number: signal.Signals) -> None:
    """The main thread waits for a lock, of which only a signal of its own would wake it."""
    status, out, err = run(ELSEWHERE, str(int(number)))
    assert (status, err) == (0, "")
    assert out.startswith("stopped by ")


def test_what_wakes_the_main_thread_late_is_no_second_one() -> None:
    """On a busy machine it came more than half a second after the first, and ended the process."""
    slow = "signals.install()\nsignals._NUDGES, signals._LATE_SECONDS = (0.6,), 300"
    script = ELSEWHERE.replace("signals.install()", slow)
    assert run(script, str(int(signal.SIGTERM))) == (0, "stopped by SIGTERM\n", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("place", ["call", "finaliser", "callback"])
def test_it_is_not_lost_in_a_finaliser(number: signal.Signals, place: str) -> None:
    """It is raised once, in the main thread's own code, and nothing else is printed."""
    _, out, err = run(SCRIPT, str(int(number)), place, own_session=True)
    asked = "Ctrl-C" if number == signal.SIGINT else number.name
    assert out.splitlines() == [f"stopped by {asked}", "given back"]
    assert err == ""


def test_hangup_is_ignored_under_nohup() -> None:
    """What nohup ignores stays ignored, and SIGTERM still ends it."""
    script = SCRIPT.replace(
        "signals.install()", "signal.signal(signal.SIGHUP, signal.SIG_IGN)\nsignals.install()"
    )
    script = script.replace(
        "    hit()\n    del", "    hit()\n    os.kill(os.getpid(), signal.SIGTERM)\n    del"
    )
    _, out, _ = run(script, str(int(signal.SIGHUP)), "call")
    assert out.splitlines() == ["stopped by SIGTERM", "given back"]


STUCK = """
import ctypes, sys, threading, time
from replayer import signals

stuck = threading.Event()

def tell():
    stuck.wait()
    print("stuck", flush=True)
    while not signals._same_until or time.monotonic() < signals._same_until[0]:
        time.sleep(0.01)
    print("a second one counts", flush=True)

signals.install()
signals._LATE_SECONDS = 2  # a busy machine may be late with what belongs to the first
threading.Thread(target=tell, daemon=True).start()
# From here on no other thread runs before this one waits.
sys.setswitchinterval(1000)
if sys.argv[1] == "shield":
    with signals.shield():
        stuck.set()
        time.sleep(600)
libc = ctypes.CDLL(None)
mutex = ctypes.create_string_buffer(64)
libc.pthread_mutex_lock(mutex)
stuck.set()
libc.pthread_mutex_lock(mutex)  # never returns, not even for a signal
"""
SECOND_ONES = [
    (place, first, second)
    for place in ("shield", "driver")
    for first, second in (("SIGINT", "SIGINT"), ("SIGTERM", "SIGINT"))
]


def test_a_second_one_always_ends() -> None:
    """Half a second after the first, whatever replayer waits for and whoever holds signals back."""
    with contextlib.ExitStack() as stack:
        running = [stack.enter_context(begun(place)) for place, *_ in SECOND_ONES]
        for process, (_, first, _) in zip(running, SECOND_ONES, strict=True):
            assert process.stdout is not None
            assert process.stdout.readline() == "stuck\n"
            for _ in range(2):  # a terminal and a parent both pass it on
                process.send_signal(signal.Signals[first])
        for process, case in zip(running, SECOND_ONES, strict=True):
            assert process.stdout is not None
            assert process.stdout.readline() == "a second one counts\n", case
            assert process.poll() is None, case
            process.send_signal(signal.Signals[case[2]])
            _, err = process.communicate(timeout=_HANGS)
            assert process.returncode == 130, case
            assert err == (
                "replayer: error: ended at once; the next run, or `replayer clean`, gives back "
                "what was taken\n"
            )


@contextlib.contextmanager
def begun(place: str) -> Iterator[subprocess.Popen[str]]:
    """Start a script that waits for ever; kill it at the end."""
    with subprocess.Popen(
        [sys.executable, "-c", STUCK, place],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()
