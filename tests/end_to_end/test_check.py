"""`replayer check` by the real command line, as root and as an ordinary user."""

import json
import os
import pty
import shutil
import site
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from replayer.machine.host import Host
from replayer.run import preflight
from replayer.run.preflight import Answer, Case

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
ORDINARY = 1234


@pytest.fixture
def folder():
    """Return an empty folder that everybody can enter, as the server of root is another user's."""
    path = Path(tempfile.mkdtemp(prefix="replayer-check-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def home(folder):
    """Return a folder that does not exist yet, for what replayer writes for itself."""
    return folder / "home"


def check(home, *arguments, python=(sys.executable,), **environment):
    """Run `replayer check`."""
    return subprocess.run(
        [*python, "-m", "replayer", "check", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "REPLAYER_HOME": str(home), **environment},
        check=False,
    )


def answers(done):
    """Return name -> line of a check that printed JSON."""
    return {line["name"]: line for line in json.loads(done.stdout)["lines"]}


def recorded(kernel, folder):
    """Return the lines about a recorded machine, by name; only its /proc and /sys are recorded."""
    case = Case(Host(FIXTURES / kernel / "first"), folder, workload="slob-cached", seconds=0)
    return {line.name: line for line in preflight.lines(case)}


@pytest.mark.slow
def test_check_says_every_line_and_leaves_nothing(home, folder):
    """Each line has an answer and words, at most 100 columns wide, plain in a pipe."""
    done = check(home, "--data-dir", folder / "data")
    same = check(home, "--data-dir", folder / "data", "--json")

    assert done.returncode == same.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100
    for name, line in answers(same).items():
        assert name in done.stdout
        assert line["answer"] in ("ok", "limited", "no")
        assert line["found"]
    assert json.loads(same.stdout)["possible"] is True
    # In a checkout that the server's user cannot enter, trying the server means copying it once.
    left = {path.relative_to(folder).parts[:2] for path in folder.rglob("*") if path.is_file()}
    assert left <= {("home", "programs"), ("home", ".made-by-replayer")}, left


@pytest.mark.slow
def test_check_of_a_folder_with_other_files_is_impossible(home, folder):
    """Data that replayer did not make is in the way: exit 2, the reason, and it is untouched."""
    (folder / "theirs").mkdir()
    (folder / "theirs" / "letter.txt").write_text("23")

    done = check(home, "--data-dir", folder / "theirs")

    assert done.returncode == 2
    assert "letter.txt" in done.stdout
    assert "impossible here: data folder" in done.stdout
    assert (folder / "theirs" / "letter.txt").read_text() == "23"


@pytest.mark.slow
def test_check_of_a_folder_that_is_not_there_is_impossible(home, folder):
    """A path with a typing error is told, and no folder is made."""
    done = check(home, "--data-dir", folder / "no" / "such" / "folder", "--json")

    assert done.returncode == 2
    assert answers(done)["data folder"]["answer"] == "no"
    assert json.loads(done.stdout)["possible"] is False
    assert not (folder / "no").exists()


@pytest.mark.slow
@pytest.mark.root
def test_check_of_a_small_disk_names_both_numbers(home, folder):
    """Free space against what the default workload needs: impossible on 16 MiB of memory disk."""
    disk = folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", disk]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a file system may not be mounted here")
    try:
        found = answers(done := check(home, "--data-dir", disk / "data", "--json"))
    finally:
        subprocess.run(["umount", disk], check=True)

    assert done.returncode == 2
    assert found["free space"]["answer"] == "no"
    assert "16.0 MiB free" in found["free space"]["found"]
    assert "GiB" in found["free space"]["found"]
    assert found["device"]["answer"] == "no"
    assert "tmpfs" in found["data folder"]["found"]


@pytest.mark.root
def test_check_as_an_ordinary_user(folder):
    """Without root the demo can run; what root could do more is said, with what to do instead."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    python = shutil.which(name, path=os.defpath)
    if python is None:
        pytest.skip("no Python of this version that other users may run")
    os.chown(folder, ORDINARY, ORDINARY)
    become = ["setpriv", f"--reuid={ORDINARY}", f"--regid={ORDINARY}", "--clear-groups", python]
    environment = {
        "HOME": str(folder),
        "PYTHONPATH": os.pathsep.join([str(ROOT), *site.getsitepackages()]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = check(folder / "home", "--json", python=become, **environment)
    if "No module named" in done.stderr:
        pytest.skip("the checkout cannot be entered by other users")
    found = answers(done)

    assert done.returncode == 0, done.stdout
    assert found["drop caches"]["answer"] == "limited"
    assert "Permission denied" in found["drop caches"]["found"]
    assert found["huge pages"]["answer"] == found["cgroup"]["answer"] == "no"
    assert "direct" in found["huge pages"]["todo"]
    assert list(folder.iterdir()) == []


@pytest.mark.root
def test_check_as_root_may_drop_caches(home, folder):
    """Root may, where the system lets it; the caches are not dropped by asking."""
    if Host().cannot_write("proc/sys/vm/drop_caches"):
        pytest.skip("drop_caches may not be written here")
    (folder / "cached").write_bytes(bytes(23 << 20))
    os.sync()
    before = Host().memory("Cached")

    found = answers(check(home, "--json"))

    assert found["drop caches"]["answer"] == "ok"
    assert Host().memory("Cached") > before / 10


@pytest.mark.slow
@pytest.mark.parametrize(("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_check_on_a_terminal_has_colours_unless_no_color(home, folder, environment, coloured):
    """A terminal gets colours; with NO_COLOR it gets none."""
    ours, theirs = pty.openpty()
    plain = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    with subprocess.Popen(
        [sys.executable, "-m", "replayer", "check", "--data-dir", str(folder / "data")],
        stdout=theirs,
        env={**plain, "TERM": "xterm", "REPLAYER_HOME": str(home), **environment},
    ):
        os.close(theirs)
        shown = b"".join(iter(lambda: some(ours), b""))
    os.close(ours)

    assert b"drop caches" in shown
    assert (b"\x1b[32m" in shown) is coloured


def some(descriptor):
    """Return what a terminal shows next; nothing at its end."""
    try:
        return os.read(descriptor, 4096)
    except OSError:
        return b""


@pytest.mark.slow
def test_check_finds_what_a_killed_replayer_left(home):
    """A note whose owner is gone is a leftover, and one whose owner lives is another replayer."""
    taken = home / "taken"
    taken.mkdir(parents=True)
    note = {"kind": "hugepages", "owner": "boot:1:1", "details": {}}
    (taken / "hugepages-1.json").write_text(json.dumps(note))

    line = answers(check(home, "--json"))["leftovers"]

    assert line["answer"] == "limited"
    assert "hugepages" in line["found"]
    assert "replayer clean" in line["todo"]
    assert (taken / "hugepages-1.json").exists()


def test_lines_about_a_recorded_machine_that_disturbs(folder):
    """Powersave governor, swap in use, a slow clock, no pressure: each with what to do."""
    found = recorded("proc-3.10", folder)

    limited = ("CPU governor", "swap", "clock source", "pressure")
    assert all(found[name].answer is Answer.LIMITED and found[name].todo for name in limited)
    assert found["virtual"].answer is Answer.OK
    assert found["huge pages"].answer is Answer.NO
    assert found["swap"].found == "100 KiB of 4.00 GiB in use"


def test_lines_about_a_recorded_guest_with_limits(folder):
    """A cgroup's limit is what counts as memory, and the hypervisor is named."""
    found = recorded("proc-5.4", folder)

    assert found["memory"].answer is Answer.NO
    assert "4.00 GiB usable" in found["memory"].found
    assert found["virtual"].found == "vmware"
    assert found["THP"].answer is Answer.LIMITED
    assert found["other load"].answer is Answer.LIMITED


@pytest.mark.slow
def test_every_line_fits_the_screen_in_any_case(folder):
    """No line of any recorded machine is so long that its name or answer would be cut."""
    for kernel in ("proc-6.18", "proc-5.4", "proc-3.10"):
        for line in recorded(kernel, folder).values():
            assert len(line.name) <= 14
            assert len(line.found) <= 200
            assert "\n" not in line.found + line.todo
