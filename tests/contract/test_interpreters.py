"""No interpreter that replayer starts imports what somebody has planted where it was called."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from replayer import interpreter, metrics
from replayer.boots import setup
from replayer.boots.system import System
from replayer.cluster import child_process
from tests.slow_case import slow

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(sys.executable).with_name("replayer")
PLANTED = """
import posix, sys
fd = posix.open({witness!r}, posix.O_WRONLY | posix.O_APPEND | posix.O_CREAT, 0o666)
posix.write(fd, f"{{__name__}} in {{' '.join(sys.orig_argv)}}\\n".encode())
posix.close(fd)
"""
CUSTOM = ("sitecustomize", "usercustomize")
SERVED = ("--live", "127.0.0.1:0", "--metrics", "127.0.0.1:0")
OTHERS = ("msgpack", "numpy", "pydantic", "tornado", "psycopg", "pymysql")
UNCALIBRATED = """
import sys
from replayer.__main__ import main
from replayer.watch import calibration
calibration.measure = lambda when, before=None: {}
if __name__ == "__main__":
    sys.exit(main())
"""
"""As the installed script, but it does not wait for a machine that others use."""
COORDINATOR = """
from replayer.cluster.hosts import connect_hosts
from replayer.storage import spin_worker
jobs = [spin_worker.SpinWork("cpu", 0.1, 4096)] * 2
with connect_hosts(["there"]) as hosts, hosts.pool(spin_worker.work, jobs, processes=2) as pool:
    pool.ready(120)
    pool.open()
    pool.results()
"""


class Trap:
    """A folder with a module of every name that an interpreter may look for, and who was caught."""

    def __init__(self, folder: Path, witness: Path) -> None:
        self.folder, self._witness = folder, witness
        library = sorted(sys.stdlib_module_names - set(sys.builtin_module_names))
        for name in (*library, *CUSTOM, *OTHERS):
            self.plant(folder / f"{name}.py")

    def plant(self, path: Path) -> None:
        """Write a module that notes who imports it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PLANTED.format(witness=str(self._witness)))

    def caught(self) -> list[str]:
        """Return who has imported what so far, and forget it."""
        if not self._witness.exists():
            return []
        lines = self._witness.read_text().splitlines()
        self._witness.unlink()
        return lines


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    """Return a folder in which everything is planted."""
    folder = tmp_path / "here"
    folder.mkdir()
    folder.chmod(0o1777)
    return Trap(folder, tmp_path / "witness")


def environment(trap: Trap, **more: str) -> dict[str, str]:
    """Return the variables of a caller who wants root to run what is planted, as sudo leaves them.

    Sudo takes PYTHONPATH, PYTHONHOME and PYTHONUSERBASE away, also with -E.
    """
    home = trap.folder.parent / "home"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = home / ".local" / "lib" / version / "site-packages"
    for name in CUSTOM:
        trap.plant(packages / f"{name}.py")
    (packages / "planted.pth").write_text("import usercustomize\n")
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    startup = {"PYTHONSTARTUP": str(trap.folder / "ast.py"), "PYTHONINSPECT": ""}
    return {**plain, "HOME": str(home), "REPLAYER_WITHOUT": "all", **startup, **more}


def call(trap: Trap, *words: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command in the folder in which everything is planted."""
    done = subprocess.run(
        [str(word) for word in words], cwd=trap.folder, env=environment(trap, **variables),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    caught = trap.caught()
    assert not caught, f"{len(caught)} modules of somebody else's ran: {caught[:3]}"
    return done


def probe(trap: Trap, *words: str) -> tuple[str, ...]:
    """Return the words of a short run of workers."""
    results = str(trap.folder.parent / "results")
    return ("run", "cpu", "--set", "cpu.duration=0.2s", "--results", results, *words)


def test_trap_catches(trap: Trap) -> None:
    """A plain interpreter in that folder falls into it: what follows can be seen."""
    with pytest.raises(AssertionError, match="json in"):
        call(trap, sys.executable, "-c", "import json")


@pytest.mark.parametrize("flag", ["", slow("-I"), slow("-E")])
def test_nothing_planted_runs(trap: Trap, flag: str) -> None:
    """Neither workers nor the processes of --live and --metrics look here, nor at home.

    A process that ignores Python's variables has no child that follows them.
    """
    script = trap.folder.parent / "replayer"
    script.write_text(UNCALIBRATED)
    found = {"PYTHONPATH": str(trap.folder), "PYTHONPYCACHEPREFIX": str(trap.folder)}
    called = [sys.executable, *flag.split(), script, *probe(trap, *SERVED)]
    done = call(trap, *called, **(found if flag else {}))
    assert done.returncode == 0, done.stderr
    assert "live: http" in done.stderr


@pytest.mark.slow
def test_python_m_replayer_imports_nothing_from_the_current_folder(trap: Trap) -> None:
    """Of `python -m replayer` only what Python itself imports first can be found there.

    The processes of the control find nothing there either.
    """
    loaded = subprocess.run(
        [sys.executable, "-P", "-c", "import runpy, sys; print(*sys.modules)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in loaded.stdout.split():
        (trap.folder / f"{name}.py").unlink(missing_ok=True)
    done = call(trap, sys.executable, "-m", "replayer", *probe(trap, *SERVED))
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_agents_import_nothing_from_where_they_are_started(trap: Trap) -> None:
    """The command for another host, its agent and the workers of that: all in the trap."""
    ssh = {"REPLAYER_SSH": str(ROOT / "tests" / "here_ssh.sh")}
    done = call(trap, sys.executable, "-P", "-c", COORDINATOR, **ssh)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "words",
    [
        setup.command(System(Path("/"))),
        interpreter.module(child_process.__name__),
        interpreter.module(metrics.__name__),
        interpreter.module("replayer.live"),
    ],
    ids=["boots", "agent", "metrics", "live"],
)
def test_modules_are_started_safely(trap: Trap, words: list[str]) -> None:
    """Each interpreter that is started by its module's name finds replayer, and nothing planted."""
    call(trap, *words, "no-such-argument")


def test_users_own_command_has_the_users_own_variables(trap: Trap, tmp_path: Path) -> None:
    """What a plan of boots runs at its end is the user's, and so are the variables of it."""
    program = (
        "import os; os.environ.pop('OPENBLAS_NUM_THREADS', 0);"
        "before = {**os.environ}; from replayer import interpreter as i; i.isolate();"
        "i.isolate(); after = {**os.environ, **i.given()};"
        "assert 'PYTHONSTARTUP' not in os.environ and os.environ['PATH'] == '/bin';"
        "assert after.pop('PYTHONSAFEPATH') == '' == after.pop('OPENBLAS_NUM_THREADS');"
        "assert after == before, (after, before)"
    )
    done = call(trap, sys.executable, "-P", "-c", program, PATH=":/bin:here", PYTHONPATH="")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("asked", "told"), [(None, "1 1"), ("", "1 1"), ("2", "2")])
def test_numpy_makes_no_threads_unless_the_user_asks(asked: str | None, told: str) -> None:
    """A pool may have hundreds of processes, each of which would make one for each processor."""
    child = (
        "import os, numpy; threads = len(os.listdir('/proc/self/task'));"
        "print(os.environ['OPENBLAS_NUM_THREADS'], threads)"
    )
    program = (
        "from replayer import interpreter; interpreter.isolate(); import subprocess, sys;"
        "subprocess.run([sys.executable, *sys.argv[1:]])"
    )
    given = {**os.environ, "OPENBLAS_NUM_THREADS": asked or ""}
    if asked is None:
        del given["OPENBLAS_NUM_THREADS"]
    printed = subprocess.check_output(
        [sys.executable, "-P", "-c", program, "-c", child], env=given, text=True
    )

    assert printed.startswith(told)


def test_programs_are_not_looked_for_in_the_current_folder(trap: Trap) -> None:
    """A PATH with an empty folder, which is the current one, does not make root run what is there.

    `replayer check` looks for every program that replayer may use.
    """
    for name in ("fio", "perf", "readlink", "ssh", "id", "cat", "psql"):
        program = trap.folder / name
        program.write_text(f"#!/bin/sh\necho {name} >> {shlex.quote(str(trap._witness))}\n")
        program.chmod(0o755)
    call(trap, SCRIPT, "check", PATH=f":{os.environ['PATH']}")
