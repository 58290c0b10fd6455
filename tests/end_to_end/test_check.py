"""`replayer check` by the real command line, as root and as an ordinary user."""

import json
import os
import pty
import shutil
import site
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from replayer.machine.host import Host
from replayer.run.checks import preflight
from replayer.run.checks.preflight import Answer, Case
from tests.command import Ended, Replayer

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
ORDINARY = 1234


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return an empty folder that everybody can enter, as the server of root is another user's."""
    path = Path(tempfile.mkdtemp(prefix="replayer-check-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def home(folder: Path) -> Path:
    """Return a folder that does not exist yet, for what replayer writes for itself."""
    return folder / "home"


@pytest.fixture
def check(replayer: Replayer, home: Path) -> Callable[..., Ended]:
    """Return a function that runs `replayer check` with a home that does not exist yet."""

    def call(*words: object, status: int = 0) -> Ended:
        return replayer("check", *words, status=status, REPLAYER_HOME=str(home))

    return call


def answers(done: Ended) -> dict[str, dict[str, str]]:
    """Return name -> line of a check that printed JSON."""
    return {line["name"]: line for line in json.loads(done.out)["lines"]}


def recorded(kernel: str, folder: Path) -> Case:
    """Return what is asked of a recorded machine; only its /proc and /sys are recorded."""
    return Case(Host(FIXTURES / kernel / "first"), folder, workload="slob-cached", seconds=0)


@pytest.mark.slow
def test_check_says_every_line_and_leaves_nothing(
    check: Callable[..., Ended], folder: Path
) -> None:
    """Each line has an answer and words, at most 100 columns wide, plain in a pipe."""
    done = check("--data-dir", folder / "data", "--verbose")
    same = check("--data-dir", folder / "data", "--json")

    assert done.err == ""
    assert "\x1b" not in done.out
    assert max(map(len, done.out.splitlines())) <= 100
    for name, line in answers(same).items():
        assert name in done.out
        assert line["answer"] in ("ok", "limited", "no")
        assert line["found"]
    assert json.loads(same.out)["possible"] is True
    # In a checkout that the server's user cannot enter, trying the server means copying it once.
    left = {path.relative_to(folder).parts[:2] for path in folder.rglob("*") if path.is_file()}
    assert left <= {("home", "programs"), ("home", ".made-by-replayer")}, left


@pytest.mark.slow
def test_check_of_a_folder_with_other_files_is_impossible(
    check: Callable[..., Ended], folder: Path
) -> None:
    """Data that replayer did not make is in the way: exit 2, the reason, and it is untouched."""
    (folder / "theirs").mkdir()
    (folder / "theirs" / "letter.txt").write_text("23")

    done = check("--data-dir", folder / "theirs", status=2)

    assert "letter.txt" in done.out
    assert "impossible here: data folder" in done.out
    assert (folder / "theirs" / "letter.txt").read_text() == "23"


@pytest.mark.slow
def test_check_of_a_folder_that_is_not_there_is_impossible(
    check: Callable[..., Ended], folder: Path
) -> None:
    """A path with a typing error is told, and no folder is made."""
    done = check("--data-dir", folder / "no" / "such" / "folder", "--json", status=2)

    assert answers(done)["data folder"]["answer"] == "no"
    assert json.loads(done.out)["possible"] is False
    assert not (folder / "no").exists()


@pytest.mark.slow
@pytest.mark.root
def test_check_of_a_small_disk_names_both_numbers(
    check: Callable[..., Ended], folder: Path
) -> None:
    """Free space against what the default workload needs: impossible on 16 MiB of memory disk."""
    disk = folder / "disk"
    disk.mkdir()
    mount: list[str | Path] = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", disk]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a file system may not be mounted here")
    try:
        found = answers(check("--data-dir", disk / "data", "--json", status=2))
    finally:
        subprocess.run(["umount", disk], check=True)

    assert found["free space"]["answer"] == "no"
    assert "16.0 MiB free" in found["free space"]["found"]
    assert "GiB" in found["free space"]["found"]
    assert found["device"]["answer"] == "no"
    assert "tmpfs" in found["data folder"]["found"]


@pytest.mark.root
def test_check_as_an_ordinary_user(replayer: Replayer, folder: Path) -> None:
    """Without root the demo can run; what root could do more is said, with what to do instead."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    python = shutil.which(name, path=os.defpath)
    if python is None:
        pytest.skip("no Python of this version that other users may run")
    os.chown(folder, ORDINARY, ORDINARY)
    become = ["setpriv", f"--reuid={ORDINARY}", f"--regid={ORDINARY}", "--clear-groups", python]
    done = replayer.process(
        "check",
        "--json",
        status=None,
        folder=folder,
        command=(*become, "-m", "replayer"),
        HOME=str(folder),
        REPLAYER_HOME=str(folder / "home"),
        PYTHONPATH=os.pathsep.join([str(ROOT), *site.getsitepackages()]),
        PYTHONDONTWRITEBYTECODE="1",
    )
    if "No module named" in done.err:
        pytest.skip("the checkout cannot be entered by other users")
    found = answers(done)

    assert done.status == 0, done.out
    assert found["drop caches"]["answer"] == "limited"
    assert "Permission denied" in found["drop caches"]["found"]
    assert found["huge pages"]["answer"] == found["cgroup"]["answer"] == "no"
    assert "direct" in found["huge pages"]["todo"]
    assert list(folder.iterdir()) == []


@pytest.mark.root
def test_check_as_root_may_drop_caches(folder: Path) -> None:
    """Root may, where the system lets it; nothing is written to the file that drops them."""
    if Host().cannot_write("proc/sys/vm/drop_caches"):
        pytest.skip("drop_caches may not be written here")
    assert preflight.drop_caches(Case(Host(), folder)).answer is Answer.OK

    shutil.copytree(FIXTURES / "proc-5.4" / "first", folder / "machine")
    switch = folder / "machine/proc/sys/vm/drop_caches"
    switch.parent.mkdir(parents=True, exist_ok=True)
    switch.write_text("as it was")
    case = Case(Host(folder / "machine"), folder, workload="slob-cached", seconds=0)
    assert preflight.drop_caches(case).answer is Answer.OK
    assert switch.read_text() == "as it was"


@pytest.mark.slow
@pytest.mark.parametrize(("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_check_on_a_terminal_has_colours_unless_no_color(
    replayer: Replayer, home: Path, folder: Path, environment: dict[str, Any], *, coloured: bool
) -> None:
    """A terminal gets colours; with NO_COLOR it gets none."""
    ours, theirs = pty.openpty()
    replayer.start(
        *("check", "--verbose", "--data-dir", folder / "data"),
        popen={"stdout": theirs, "stderr": None},
        **{"NO_COLOR": None, "FORCE_COLOR": None, **environment},
        TERM="xterm",
        REPLAYER_HOME=str(home),
    )
    os.close(theirs)
    shown = b"".join(iter(lambda: some(ours), b""))
    os.close(ours)

    assert b"drop caches" in shown
    assert (b"\x1b[32m" in shown) is coloured


def some(descriptor: int) -> bytes:
    """Return what a terminal shows next; nothing at its end."""
    try:
        return os.read(descriptor, 4096)
    except OSError:
        return b""


@pytest.mark.slow
def test_check_finds_what_a_killed_replayer_left(check: Callable[..., Ended], home: Path) -> None:
    """A note whose owner is gone is a leftover, and one whose owner lives is another replayer."""
    taken = home / "taken"
    taken.mkdir(parents=True)
    note = {"kind": "hugepages", "owner": "boot:1:1", "details": {}}
    (taken / "hugepages-1.json").write_text(json.dumps(note))

    line = answers(check("--json"))["leftovers"]

    assert line["answer"] == "limited"
    assert "hugepages" in line["found"]
    assert "replayer clean" in line["todo"]
    assert (taken / "hugepages-1.json").exists()


def test_lines_about_a_recorded_machine_that_disturbs(folder: Path) -> None:
    """Powersave governor, swap in use, a slow clock, no pressure: each with what to do."""
    case = recorded("proc-3.10", folder)
    asked = (preflight.governor, preflight.swap, preflight.clock_source, preflight.pressure)
    limited = [ask(case) for ask in asked]

    assert all(line.answer is Answer.LIMITED and line.todo for line in limited)
    assert preflight.virtualisation(case).answer is Answer.OK
    assert preflight.huge_pages(case).answer is Answer.NO
    assert limited[1].found == "100 KiB of 4.00 GiB in use"


def test_lines_about_a_recorded_guest_with_limits(folder: Path) -> None:
    """A cgroup's limit is what counts as memory, and the hypervisor is named."""
    case = recorded("proc-5.4", folder)
    memory = preflight.memory_size(case)

    assert memory.answer is Answer.NO
    assert "4.00 GiB usable" in memory.found
    assert preflight.virtualisation(case).found == "vmware"
    assert preflight.transparent_huge_pages(case).answer is Answer.LIMITED
    assert preflight.other_load(case).answer is Answer.LIMITED


@pytest.mark.slow
def test_every_line_fits_the_screen_in_any_case(folder: Path) -> None:
    """No line of any recorded machine is so long that its name or answer would be cut."""
    for kernel in ("proc-6.18", "proc-5.4", "proc-3.10"):
        for line in preflight.run_checks(recorded(kernel, folder)):
            assert len(line.name) <= 14
            assert len(line.found) <= 200
            assert "\n" not in line.found + line.todo
