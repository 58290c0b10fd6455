"""What was measured is never lost: a full disk, a closed terminal, streams that take nothing."""

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command import COMMAND, Replayer
from tests.slow_case import slow

TWO_PROBES = """
[[step]]
step = "probe"
name = "one"
probe = "cpu"
duration = "0.2s"
threads = 1

[[step]]
step = "probe"
name = "two"
probe = "cpu"
duration = "0.2s"
threads = 1
"""


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    """Return a workload of two short probes, which need no server."""
    path = tmp_path / "two.toml"
    path.write_text(TWO_PROBES)
    return path


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """Return a file system of two pages: it takes the first result of a run and not the last."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8k", "none", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a file system may not be mounted here")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.slow
@pytest.mark.root
def test_on_a_full_disk_the_run_is_printed_and_kept_elsewhere(
    workload: Path, small: Path, replayer: Replayer, tmp_path: Path
) -> None:
    """The report is whole, the file lies in $TMPDIR, and the last sentence says where and why."""
    other = tmp_path / "other"
    other.mkdir()
    ended = replayer.process("run", workload, "--results", small, status=1, TMPDIR=str(other))

    (kept,) = other.glob("*/*.json")
    run = json.loads(kept.read_text())
    assert [(step["name"], step["status"]) for step in run["steps"]] == [
        ("one", "done"),
        ("two", "done"),
    ]
    assert run["status"] == "done"
    # "..., both with care." beside other programs.
    assert "Both steps can be believed" in ended.out
    assert re.search(r"^two +", ended.out, re.MULTILINE)
    last = ended.err.splitlines()[-1]
    assert last.startswith("replayer: error: the result ")
    assert "No space left on device" in last
    assert last.endswith(f"the run is in {kept}")
    replayer("show", kept)


@pytest.mark.slow
def test_a_report_that_cannot_be_printed_is_said_and_the_run_is_kept(
    workload: Path, replayer: Replayer, tmp_path: Path
) -> None:
    """With a stdout that takes nothing the run is stored, and stderr says both."""
    results = tmp_path / "results"
    with Path("/dev/full").open("w") as full:
        running = replayer.start("run", workload, "--results", results, popen={"stdout": full})
        _, said = running.communicate(timeout=300)

    (kept,) = results.glob("*.json")
    assert running.returncode == 1
    assert f"result: {kept}" in said.splitlines()
    assert said.splitlines()[-1] == (
        "replayer: error: stdout cannot be written: No space left on device"
    )


CASES = {
    "stdout is full": (">/dev/full", 1, "stdout cannot be written: No space left on device"),
    "stdout is closed": (">&-", 1, "stdout cannot be written: Bad file descriptor"),
    "stderr is full": ("2>/dev/full", 0, ""),
    "stderr is closed": ("2>&-", 0, ""),
    "stdin is closed": ("<&-", 0, ""),
    "all are closed": ("<&- >&- 2>&-", 1, ""),
    "the reader went away": ("| true", 0, ""),
}


@pytest.mark.slow
@pytest.mark.parametrize("words", [["list"], ["list", "--json"], ["--version"], ["run", "--help"]])
@pytest.mark.parametrize("case", CASES)
def test_streams_that_take_nothing_are_one_sentence(case: str, words: list[str]) -> None:
    """A command whose streams are closed or full ends with a status and at most one sentence."""
    redirected, status, sentence = CASES[case]
    command = f"set -o pipefail; {shutil.which('env')} {' '.join([*COMMAND, *words])} {redirected}"
    ended = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, check=False, timeout=300
    )

    assert ended.returncode == status
    assert ended.stderr == (f"replayer: error: {sentence}\n" if sentence else "")


@pytest.mark.parametrize("words", [["list"], ["show", "nothing-there"]])
def test_a_terminal_that_is_gone_is_no_traceback(words: list[str], tmp_path: Path) -> None:
    """Where reading and writing fail with EIO, replayer ends by itself with its own status."""
    ours, theirs = pty.openpty()
    traced = tmp_path / "written"
    program = (
        "import sys, traceback\n"
        f"log = open({str(traced)!r}, 'w')\n"
        "sys.excepthook = lambda *error: traceback.print_exception(*error, file=log)\n"
        "from replayer.__main__ import main\n"
        f"sys.exit(main({words!r}))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    ) as running:
        os.close(theirs)
        os.close(ours)
        status = running.wait(timeout=300)

    assert status in (1, 2)
    assert traced.read_text() == ""


FIRST, LATE = "replayer.commands.run", "rich.live"
"""Modules that a command loads at the begin and towards the end."""
LOADING = """
import os, signal, sys
class Hit:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            for _ in range(int(sys.argv[2])):
                os.kill(os.getpid(), signal.SIGINT)
            open("hit", "a").write(name)
from replayer.__main__ import main
sys.meta_path.insert(0, Hit())
sys.exit(main(["run", "no-such-workload", "--results", "results"]))
"""


@pytest.mark.parametrize(
    ("module", "times", "redirected"),
    [
        (FIRST, 1, ""),
        slow(FIRST, 2, "2>&-"),
        slow(FIRST, 1, "2>/dev/full"),
        (LATE, 2, ""),
        slow(LATE, 1, "2>&-"),
        slow(LATE, 2, "2>/dev/full"),
    ],
)
def test_ctrl_c_while_modules_are_loaded_is_one_sentence(
    module: str, times: int, redirected: str, replayer: Replayer
) -> None:
    """Ctrl-C while a command's modules are imported is status 130; a second one may end it."""
    script = replayer.folder / "loading.py"
    script.write_text(LOADING)
    shell = f"exec {sys.executable} {script} {module} {times} {redirected}"
    ended = replayer.process(
        command=("bash", "-c", shell), status=None, PYTHONPATH=str(Path(__file__).parents[2])
    )

    assert (replayer.folder / "hit").read_text() == module
    sentence = "" if redirected else "replayer: error: stopped by Ctrl-C\n"
    if times == 1:
        assert (ended.status, ended.err) == (130, sentence)
    else:
        assert ended.status in (130, -signal.SIGINT)
        assert ended.err in ("", sentence)
