"""`replayer boots` on a machine that is a root folder, with GRUB's own tools and its restarts.

What only a real machine can show - kexec, GRUB itself, a panic, a cut - is the kernel lab's:
`python -m tests.kernel_lab boots`.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replayer import journal
from replayer.analysis.differences import boot_plan
from replayer.boots import responder, ssh_driver, system
from replayer.errors import Impossible
from tests import booted
from tests.booted import DEFAULT, KERNELS, Machine
from tests.command import Ended, Replayer
from tests.conftest import missing
from tests.small_disk import small_disk
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root chooses what a machine starts"),
]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, own_home: Path) -> Iterator[Machine]:
    """Return a machine below a root of its own, which replayer takes for the one it runs on."""
    if shutil.which("grub-reboot") is None:
        missing("grub2-common", "there is no grub-reboot")
    with tempfile.TemporaryDirectory(prefix="replayer-root-", dir="/tmp") as folder:
        made = Machine.made(Path(folder).resolve())
        monkeypatch.setenv("REPLAYER_BOOTS_ROOT", str(made.root))
        yield made


@pytest.fixture
def plan(machine: Machine) -> Path:
    """Return a plan of two boots."""
    return booted.plan(machine.root / "boots.plan", boots=2)


class Boots:
    """Calls `replayer boots`, and is the service of the machine."""

    def __init__(self, replayer: Replayer, machine: Machine) -> None:
        self._replayer, self._machine = replayer, machine

    def __call__(self, *words: object, status: int | None = 0) -> Ended:
        """Run `replayer boots`."""
        return self._replayer("boots", *words, status=status)

    def service(self, status: int = 0) -> Ended:
        """Do what the service does after a boot, in the environment that its unit gives it."""
        words, variables = self._machine.command()
        environment: dict[str, Any] = {**dict.fromkeys(os.environ), **variables}
        return self._replayer(*words, status=status, **environment)

    def unattended(self, most: int = 20) -> str:
        """Let the service run after each boot until the plan has removed it; return its words."""
        text = ""
        for _ in range(most):
            if not self._machine.unit.exists():
                return text
            text += self.service().out
        raise AssertionError(text)


@pytest.fixture
def boots(replayer: Replayer, machine: Machine) -> Boots:
    """Return what calls `replayer boots` on the machine."""
    return Boots(replayer, machine)


@contextlib.contextmanager
def serving(machine: Machine) -> Iterator["subprocess.Popen[bytes]"]:
    """Give the service of a machine as a process of its own."""
    words, variables = machine.command()
    quiet = subprocess.DEVNULL
    command = [sys.executable, "-m", "replayer", *words]
    with subprocess.Popen(command, env=variables, stdout=quiet, stderr=quiet) as service:
        yield service


def left(machine: Machine) -> list[str]:
    """Return what a plan left on the machine: service, links, notes, a choice for one boot."""
    files = sorted(path.name for path in (machine.root / "etc").rglob("*") if not path.is_dir())
    kinds = [note.kind for note in journal.notes()]
    return files + kinds + [name for name in machine.variables() if name == "next_entry"]


_THEN = 'cat >> {}.then < "$REPLAYER_BOOTS_LOG"'
"""A command for the end of a plan: it keeps the log."""


def _ended(plan: Path) -> list[str]:
    """Return the ends of the plan in the log that `_THEN` kept, without their times."""
    lines = Path(f"{plan}.then").read_text().splitlines()
    return [line.partition(" ")[2] for line in lines if " the plan is stopped" in line]


def test_a_plan_is_done_by_itself_and_leaves_nothing(machine: Machine, boots: Boots) -> None:
    """Each turn has its kernel, the default comes up at the end, and all is as it was before."""
    plan = booted.plan(machine.root / "boots.plan")
    menu = machine.menu.read_bytes()
    boots(
        "start",
        plan,
        "--yes",
        "--then",
        f'echo "$REPLAYER_BOOTS_OUTCOME $REPLAYER_BOOTS_PLAN" > {plan}.then',
    )
    text = boots.unattended()

    runs = [json.loads(path.read_text()) for path in plan.with_name("boots.runs").glob("*.json")]
    assert sorted(run["host"]["kernel.release"] for run in runs) == sorted([*KERNELS, *KERNELS])
    assert len({run["host"]["boot.id"] for run in runs}) == 4
    assert machine.boots() == 5
    assert left(machine) == []
    assert machine.menu.read_bytes() == menu
    assert machine.read("proc/sys/kernel/osrelease") == DEFAULT
    assert Path(f"{plan}.then").read_text() == f"done {plan}\n"
    assert "the plan is done" in text
    assert "the plan is done" in (plan.with_name("boots.runs") / "boots.log").read_text()
    assert "is done" in boots("status").out


def test_it_says_what_it_will_do_and_wants_yes(machine: Machine, boots: Boots, plan: Path) -> None:
    """Restarts, way, default and time are told before anything is written."""
    done = boots("start", plan, status=2)

    assert "--yes" in done.err
    assert re.search(r"^restarts +3:", done.out, re.MULTILINE)
    assert re.search(r"^default +Debian GNU/Linux: stays", done.out, re.MULTILINE)
    assert "by grub-reboot" in done.out
    assert left(machine) == []
    assert machine.boots() == 0
    assert not (journal.home() / "boots").exists()


def test_a_kernel_that_panics_counts_as_failed_and_ends_the_plan(
    machine: Machine, boots: Boots, plan: Path
) -> None:
    """The machine falls back to its default each time; after three failures it stays there."""
    machine.write("panics", KERNELS[0])
    boots("start", plan, "--yes")
    text = boots.unattended()

    assert text.count(f"{KERNELS[0]} panicked, did not come up") == 4
    assert "the plan is stopped: 3 boots failed" in text
    assert machine.boots() == 3
    assert machine.read("proc/sys/kernel/osrelease") == DEFAULT
    assert left(machine) == []


@pytest.mark.parametrize(
    ("file", "text"),
    [("deaf", "did not follow the choice"), ("instead", "came up in the place of")],
)
def test_a_wrong_kernel_twice_ends_the_plan(
    machine: Machine, boots: Boots, plan: Path, file: str, text: str
) -> None:
    """A loader that does not follow the choice, or follows another, is not asked a third time."""
    machine.write(file, "6.6.6-other")
    boots("start", plan, "--yes")
    if file == "deaf":
        machine.runs("6.6.6-other")
    said = boots.unattended()

    assert text in said
    assert "the plan is stopped: a wrong kernel came up 2 times" in said
    assert machine.boots() == 2
    assert left(machine) == []


def test_power_that_is_cut_in_a_step_costs_that_boot_only(
    machine: Machine, boots: Boots, plan: Path
) -> None:
    """The turn is done again on another boot, and the cut one is in the log."""
    boots("start", plan, "--yes")
    machine.write("hangs", "")
    with serving(machine) as service:
        step = _written(machine.root / "hangs")
        service.kill()
        os.kill(int(step), signal.SIGKILL)
    (machine.root / "hangs").unlink()
    machine.restart()
    text = boots.unattended()

    assert (
        "lost its power or was restarted by another program or user in the middle of the step"
        in text
    )
    assert "the plan is done" in text
    assert machine.boots() == 4
    assert left(machine) == []


def _written(path: Path) -> str:
    """Wait for a file to have a text, and return that."""
    return wait_until(lambda: path.exists() and path.read_text()) or ""


def test_a_step_that_fails_thrice_ends_the_plan_with_its_words(
    machine: Machine, boots: Boots, plan: Path
) -> None:
    """What the step said is the reason, in the log and in the status."""
    machine.write("fails", "")
    boots("start", plan, "--yes")
    text = boots.unattended()

    assert (
        "the plan is stopped: 3 boots failed: the step failed with status 1: the disk is on fire"
        in text
    )
    assert "the disk is on fire" in boots("status").out
    assert left(machine) == []


def test_stop_in_the_middle_of_a_step(machine: Machine, boots: Boots, plan: Path) -> None:
    """The step ends in order, the service is gone, and the next boot is the default's."""
    boots("start", plan, "--yes", "--then", _THEN.format(plan))
    machine.write("hangs", "")
    with serving(machine) as service:
        step = int(_written(machine.root / "hangs"))
        done = boots("stop")
        service.wait(timeout=120)

    assert "was stopped" in done.out
    assert not journal.identity(step)
    assert left(machine) == []
    assert "is stopped: by replayer boots stop" in boots("status").out
    assert _ended(plan) == ["the plan is stopped: by replayer boots stop"]
    boots("stop", status=2)


def test_stop_takes_the_choice_for_the_next_boot_back(
    machine: Machine, boots: Boots, plan: Path
) -> None:
    """A machine that was about to restart starts its default instead."""
    machine.write("refuse", "")
    done = boots("start", plan, "--yes", "--then", _THEN.format(plan), status=1)

    reason = "the machine could not be restarted: systemctl failed: a job is held back"
    assert f"the plan could not be started: {reason}" in done.err
    assert _ended(plan) == [f"the plan is stopped: {reason}"]
    assert left(machine) == []


@pytest.mark.parametrize("call", ["daemon-reload", "reboot"])
def test_ctrl_c_while_a_plan_begins_takes_everything_back(
    replayer: Replayer, machine: Machine, plan: Path, call: str
) -> None:
    """The machine restarted into the first kernel with the next restart, and went on by itself."""
    machine.write("interrupt", call)
    started = replayer.start("boots", "start", plan, "--yes", "--then", _THEN.format(plan))
    _, err = started.communicate()

    assert "stopped by Ctrl-C" in err
    assert left(machine) == []
    assert machine.boots() == (call == "reboot")
    assert _ended(plan) == ["the plan is stopped: stopped by Ctrl-C"]


def test_replayers_own_folder_is_waited_for(
    machine: Machine, boots: Boots, plan: Path, own_home: Path
) -> None:
    """Its disk may be mounted after the service was started: the plan goes on then."""
    boots("start", plan, "--yes")
    away = own_home.with_name(f"{own_home.name}-away")
    own_home.rename(away)
    assert "is not there yet" in boots.service(status=1).err
    assert not own_home.exists()
    assert machine.unit.exists()
    away.rename(own_home)
    boots.unattended()
    assert machine.read("steps")


def test_a_second_start_is_refused(machine: Machine, boots: Boots, plan: Path) -> None:
    """One machine does one plan at a time; the first goes on undisturbed."""
    boots("start", plan, "--yes")
    done = boots("start", plan, "--yes", status=2)

    assert "was started already" in done.err
    assert machine.boots() == 1
    boots.unattended()
    boots("start", booted.plan(machine.root / "next.plan"), "--yes")
    boots("stop")


def test_a_plan_that_was_changed_is_not_followed(
    machine: Machine, boots: Boots, plan: Path
) -> None:
    """What root does for days is what was said at the start."""
    boots("start", plan, "--yes")
    booted.plan(plan, boots=4)
    text = boots.unattended()

    assert "was changed after it was started" in text
    assert not machine.read("steps")
    assert left(machine) == []


@pytest.mark.parametrize("harm", ["garbage", "link", "another's", "writable"])
def test_a_state_that_is_not_believed_starts_nothing(
    machine: Machine, boots: Boots, plan: Path, harm: str
) -> None:
    """The service removes itself and says why; stop cleans up as well."""
    boots("start", plan, "--yes")
    state = journal.home() / "boots" / "state.json"
    if harm == "garbage":
        state.write_text("{")
    elif harm == "link":
        state.rename(machine.root / "elsewhere.json")
        state.symlink_to(machine.root / "elsewhere.json")
    elif harm == "another's":
        os.chown(state, 65534, 65534)
    else:
        state.parent.chmod(0o777)
    done = boots.service(status=2)

    assert "Traceback" not in done.err
    assert not machine.unit.exists()
    assert not machine.read("steps")
    assert machine.boots() == 1
    state.parent.chmod(0o700)
    assert boots("stop", status=None).status in {0, 2}
    # Where nothing tells any more which loader it was, the name that GRUB left empty stays.
    assert left(machine) in ([], ["next_entry"])
    assert not machine.variables().get("next_entry")


def test_the_service_writes_through_no_link(machine: Machine, boots: Boots, plan: Path) -> None:
    """A link that waits where the unit goes is not followed, and what is not replayer's stays."""
    victim = machine.root / "victim"
    victim.write_text("precious")
    machine.unit.symlink_to(victim)
    done = boots("start", plan, "--yes", status=2)

    assert "was not made by replayer" in done.err
    assert victim.read_text() == "precious"
    machine.unit.unlink()


@contextlib.contextmanager
def changeable(plan: Path, part: str, working: Path) -> Iterator[None]:
    """Let another user change a plan's file, its folder or its working folder, in the block."""
    if part == "file":
        os.chown(plan, 65534, 65534)
    elif part == "mode":
        plan.chmod(0o666)
    folder = {"folder": plan.parent, "working folder": working}.get(part)
    if folder is not None:
        folder.chmod(0o777)
    yield
    if folder is not None:
        folder.chmod(0o755)


_PARTS = ["file", "folder", "mode", "working folder"]


@pytest.mark.parametrize("part", _PARTS)
def test_a_plan_that_somebody_else_could_change_is_refused(
    machine: Machine, boots: Boots, replayer: Replayer, part: str
) -> None:
    """Root follows no plan that another user can write."""
    (machine.root / "plans").mkdir()
    plan = booted.plan(machine.root / "plans" / "boots.plan")
    with changeable(plan, part, replayer.folder):
        done = boots("start", plan, "--yes", status=2)

    assert (f"the plan's {part} " if "folder" in part else f"the plan {plan} ") in done.err
    assert machine.boots() == 0
    assert left(machine) == []


@pytest.mark.parametrize("part", _PARTS)
def test_a_plan_that_somebody_else_can_change_after_its_start_is_not_followed(
    machine: Machine, boots: Boots, replayer: Replayer, part: str
) -> None:
    """A boot may empty the folder in which it was."""
    (machine.root / "plans").mkdir()
    plan = booted.plan(machine.root / "plans" / "boots.plan")
    boots("start", plan, "--yes")
    with changeable(plan, part, replayer.folder):
        text = boots.unattended()

    words = f"the plan's {part} " if "folder" in part else f"the plan {plan} "
    assert f"the plan is stopped: {words}" in text
    assert not machine.read("steps")
    assert left(machine) == []


@pytest.mark.parametrize(
    "words",
    [
        "cd /;sh '{shared}/done.sh'|cat",
        'sh "{shared}/my tools/done.sh"',
        "sh {shared}/d*.sh",
        "sh {folder}/th?irs/*.sh",
    ],
)
def test_a_command_for_the_end_that_somebody_else_could_place_is_refused(
    machine: Machine, boots: Boots, plan: Path, words: str
) -> None:
    """A path in the shell's text: a boot may empty /tmp, and another user may make it again."""
    shared, theirs = machine.root / "shared", machine.root / "theirs"
    shared.mkdir()
    shared.chmod(0o1777)
    theirs.mkdir()
    (theirs / "done.sh").touch()
    os.chown(theirs / "done.sh", 65534, 65534)
    command = words.format(shared=shared, folder=machine.root)
    done = boots("start", plan, "--yes", "--then", command, status=2)

    assert f"root does not run --then {command!r}, as" in done.err
    assert machine.boots() == 0
    assert left(machine) == []


def test_a_command_for_the_end_that_somebody_else_has_changed_is_not_run(
    machine: Machine, boots: Boots, plan: Path
) -> None:
    """The plan is done; what would run at its end was looked at again."""
    script, ran = machine.root / "done.sh", machine.root / "ran"
    script.write_text(f"touch {ran}\n")
    boots("start", plan, "--yes", "--then", f"mail me@example.org </dev/null; sh {script}")
    os.chown(script, 65534, 65534)
    text = boots.unattended()

    assert "the plan is done" in text
    assert "the command for the end failed: root does not run --then" in text
    assert not ran.exists()
    assert left(machine) == []


def test_kernels_that_are_not_installed_are_named(machine: Machine, boots: Boots) -> None:
    """The plan's kernel and what there is stand in one sentence."""
    other = booted.plan(machine.root / "other.plan", kernels=(KERNELS[0], "6.18.1-mine"))
    done = boots("start", other, "--yes", status=2)

    assert "the plan's kernel 6.18.1-mine is not installed" in done.err
    assert all(kernel in done.err for kernel in KERNELS)


def test_a_machine_without_any_way_says_why_of_each(
    machine: Machine, boots: Boots, plan: Path
) -> None:
    """No loader, no kexec: the reasons stand there, and what to do by hand."""
    machine.menu.unlink()
    done = boots("start", plan, "--yes", status=2)

    for name in ("grub:", "grub2_bls:", "systemd_boot:", "kexec:", "replayer step"):
        assert name in done.err
    assert "\n" not in done.err.strip()


def test_a_choice_of_somebody_else_is_not_overwritten(
    machine: Machine, boots: Boots, plan: Path
) -> None:
    """An entry that is chosen for the next boot already is named, and stays."""
    block = machine.root / "boot" / "grub" / "grubenv"
    subprocess.run(["grub-editenv", block, "set", "next_entry=memtest"], check=True)
    done = boots("start", plan, "--yes", status=2)

    assert "memtest is chosen for the next boot already" in done.err
    assert machine.variables() == {"next_entry": "memtest"}


@pytest.mark.slow
def test_a_disk_that_is_not_mounted_yet_is_waited_for(
    machine: Machine, boots: Boots, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step begins when the disk of the plan is there."""
    disk = machine.root / "disk"
    disk.mkdir()
    own = booted.plan(disk / "boots.plan")
    root = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
    there = f"{root}2 1 8:2 / {disk} rw - ext4 /dev/sdb1 rw\n"
    machine.write("proc/self/mountinfo", there)
    said = boots("start", own, "--yes").out
    machine.write("proc/self/mountinfo", root)
    with serving(machine) as service:
        time.sleep(3)
        assert not machine.read("steps")
        machine.write("proc/self/mountinfo", there)
        assert service.wait(timeout=120) == 0

    assert f"waits for {disk} to be mounted" in said
    assert machine.read("steps")
    boots("stop")


def test_a_full_disk_ends_the_plan_at_once(machine: Machine, boots: Boots) -> None:
    """Nothing is measured that could not be kept, and the machine does not restart again."""
    with small_disk("size=8m") as disk:
        boots("start", booted.plan(disk / "boots.plan"), "--yes")
        text = boots.unattended()

    assert f"the plan is stopped: the disk of {disk} is full" in text
    assert machine.boots() == 1
    assert not machine.read("steps")
    assert left(machine) == []


@pytest.mark.slow
def test_two_services_at_a_time_do_not_disturb_each_other(
    machine: Machine, boots: Boots, plan: Path
) -> None:
    """The second is refused, and the first goes on to the end."""
    boots("start", plan, "--yes")
    machine.write("hangs", "")
    with serving(machine) as service:
        step = int(_written(machine.root / "hangs"))
        second = boots.service(status=2)
        (machine.root / "hangs").unlink()
        os.kill(step, signal.SIGTERM)
        assert service.wait(timeout=120) == 0

    assert f"another replayer (process {service.pid}) works on the started plan" in second.err
    assert machine.unit.exists()
    assert "the plan is done" in boots.unattended()


def test_a_reinstalled_default_is_told(machine: Machine, boots: Boots, plan: Path) -> None:
    """Somebody else who changes the default meanwhile is not corrected, and is named."""
    boots("start", plan, "--yes")
    machine.menu.write_text(machine.menu.read_text().replace('default="0"', 'default="1"'))
    text = boots.unattended()

    assert "the machine's default was Debian GNU/Linux at the start and is Advanced options" in text


@pytest.mark.slow
def test_clean_removes_nothing_of_a_plan_that_runs(
    replayer: Replayer, machine: Machine, boots: Boots, plan: Path
) -> None:
    """`replayer clean` says what ends it; afterwards it removes the record, too."""
    replayer.process("boots", "start", plan, "--yes")
    refused = replayer("clean", "--yes", status=2)
    boots("stop")
    replayer("clean", "--yes")

    assert "replayer boots stop" in refused.err
    assert not (journal.home() / "boots").exists()


@pytest.mark.slow
def test_a_run_beside_it_leaves_the_service_alone(
    replayer: Replayer, machine: Machine, boots: Boots, plan: Path
) -> None:
    """What a plan took lasts longer than its process: no later command gives it back."""
    replayer.process("boots", "start", plan, "--yes")
    replayer("run", "no-such-workload", status=2)

    assert machine.unit.exists()
    assert [note.kind for note in journal.notes()] == ["boots"]
    boots("stop")


@pytest.fixture
def by_ssh(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Let this machine stand for another one that ssh reaches."""
    monkeypatch.setattr(ssh_driver, "_POLL_SECONDS", 0.05)
    monkeypatch.setenv("REPLAYER_SSH", str(booted.TESTS / "here_ssh.sh"))
    monkeypatch.setenv("REPLAYER_REMOTE", f"{sys.executable} -m replayer boots remote")
    with tempfile.TemporaryDirectory(prefix="replayer-here-", dir="/tmp") as folder:
        yield booted.plan(Path(folder) / "boots.plan", boots=2)


@pytest.mark.slow
def test_a_plan_of_another_machine_is_driven_by_ssh(
    machine: Machine, boots: Boots, by_ssh: Path
) -> None:
    """Its runs come here, it restarts into its default, and nothing of the plan stays there."""
    then = f'{{ echo "$REPLAYER_BOOTS_OUTCOME"; cat; }} > {by_ssh}.then < "$REPLAYER_BOOTS_LOG"'
    boots("start", by_ssh, "--via", "ssh", "db1", "--yes", "--then", then)

    runs = by_ssh.with_name("boots.runs").glob("*.json")
    kernels = [json.loads(path.read_text())["host"]["kernel.release"] for path in runs]
    assert sorted(kernels) == sorted(KERNELS)
    assert machine.boots() == 3
    assert machine.read("proc/sys/kernel/osrelease") == DEFAULT
    assert left(machine) == []
    assert not list((journal.home() / "boots").iterdir())
    outcome, *log = Path(f"{by_ssh}.then").read_text().splitlines()
    assert outcome == "done"
    assert log == (by_ssh.with_name("boots.runs") / "boots.log").read_text().splitlines()
    assert log[-1].endswith("the plan is done")
    again = boots("start", by_ssh, "--via", "ssh", "db1", "--yes", status=2)
    assert "all boots of the plan are done" in again.err


@pytest.mark.slow
def test_another_machine_that_was_made_anew_gets_the_earlier_runs(
    machine: Machine, boots: Boots, by_ssh: Path
) -> None:
    """A plan that was stopped goes on with its due turn on a machine that knows nothing of it."""
    machine.write("instead", KERNELS[0])
    stopped = boots("start", by_ssh, "--via", "ssh", "db1", "--yes", status=1)
    (machine.root / "instead").unlink()
    shutil.rmtree(journal.home() / "boots")
    done = boots("start", by_ssh, "--via", "ssh", "db1", "--yes")

    assert "a wrong kernel came up 2 times" in stopped.out
    assert "1 of 2 boots are left" in done.out
    assert "turn 2 of 2" in done.out
    assert "turn 1" not in done.out


def test_another_machine_that_does_not_answer_is_one_sentence(
    machine: Machine, boots: Boots, by_ssh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What ssh says is the reason, and nothing was begun."""
    monkeypatch.setenv("REPLAYER_SSH", "sh -c 'echo no route to host >&2; exit 255'")
    done = boots("start", by_ssh, "--via", "ssh", "db1", "--yes", status=1)

    assert done.err.strip() == "replayer: error: db1 did not answer: no route to host"


def test_ctrl_c_takes_the_choice_on_another_machine_back(
    replayer: Replayer, machine: Machine, by_ssh: Path
) -> None:
    """The next restart of that machine started the kernel of the plan; the end is in order."""
    machine.write("refuse", "")
    then = f'cat > {by_ssh}.then < "$REPLAYER_BOOTS_LOG"'
    driver = replayer.start(
        "boots", "start", by_ssh, "--via", "ssh", "db1", "--yes", "--then", then
    )
    wait_until(lambda: machine.variables().get("next_entry") and machine.boots())
    driver.send_signal(signal.SIGINT)
    out, err = driver.communicate()

    assert driver.returncode == 130
    assert "the plan is stopped: stopped by Ctrl-C" in out
    assert "stopped by Ctrl-C" in err
    assert left(machine) == []
    assert "the plan is stopped: stopped by Ctrl-C" in Path(f"{by_ssh}.then").read_text()


def test_a_driven_plan_that_is_only_shown_leaves_nothing(
    machine: Machine, boots: Boots, by_ssh: Path
) -> None:
    """Without --yes, and if the machine refuses the plan, its disk is as it was before."""
    shown = boots("start", by_ssh, "--via", "ssh", "db1", status=2)
    machine.write("boot/grub/grub.cfg", "")
    refused = boots("start", by_ssh, "--via", "ssh", "db1", "--yes", status=1)

    assert "nothing was started" in shown.err
    assert "there is no menu boot/grub/grub.cfg" in refused.err
    assert not (journal.home() / "boots").exists()


def test_no_other_plan_restarts_a_machine_in_a_driven_step(
    replayer: Replayer, machine: Machine, boots: Boots, plan: Path, by_ssh: Path
) -> None:
    """Another driver that begins or goes on, and a plan of the machine's own, are refused."""
    other = booted.plan(by_ssh.with_name("other.plan"), boots=4)
    asked = {"plan": "driven-other", "way": "grub", "release": KERNELS[0], "arguments": ""}
    machine.write("hangs", "")
    driver = replayer.start("boots", "start", by_ssh, "--via", "ssh", "db1", "--yes")
    step = int(_written(machine.root / "hangs"))
    refused = [
        boots("start", plan, "--yes", status=2).err,
        boots("start", other, "--via", "ssh", "db1", status=1).err,
    ]
    with pytest.raises(Impossible) as error:
        responder._choose(system.this(), asked)
    restarts = machine.boots()
    driver.send_signal(signal.SIGINT)
    driver.communicate()
    with contextlib.suppress(ProcessLookupError):
        os.kill(step, signal.SIGKILL)

    for words in (*refused, str(error.value)):
        assert "the step of a plan that another machine drives by ssh runs here now" in words
    assert restarts == 1
    assert left(machine) == []


def test_an_init_script_where_there_is_no_systemd(
    machine: Machine, boots: Boots, plan: Path
) -> None:
    """The script is linked in the run levels, starts the same words, and goes at the end."""
    shutil.rmtree(machine.root / "run" / "systemd")
    for folder in ("etc/init.d", "etc/rc2.d", "etc/rc5.d"):
        (machine.root / folder).mkdir(parents=True)
    (machine.root / "usr" / "bin" / "shutdown").symlink_to(
        machine.root / "usr" / "bin" / "systemctl"
    )
    boots("start", plan, "--yes")
    script = machine.root / "etc" / "init.d" / "replayer-boots"

    assert (machine.root / "etc" / "rc2.d" / "S99replayer-boots").resolve() == script
    assert os.access(script, os.X_OK)
    assert subprocess.run(["sh", "-n", script], check=False).returncode == 0
    assert "boots continue" in script.read_text()
    boots("stop")
    assert left(machine) == []


@pytest.mark.slow
def test_a_job_names_each_next_boot(machine: Machine, boots: Boots) -> None:
    """The order is known only to the job; at its end the machine is as it was before."""
    order = [KERNELS[0], KERNELS[1], KERNELS[1]]
    machine.write("nexts", "\n".join(order))
    plan = machine.root / "boots.plan"
    boot_plan.write(plan, boot_plan.of_job(KERNELS, ("bisect", "smoke"), ("smoke",)))
    plan.chmod(0o644)

    begun = boots("start", plan, "--yes")
    text = boots.unattended()

    assert "as many boots as its bisect needs" in begun.out
    runs = [json.loads(path.read_text()) for path in plan.with_name("boots.runs").glob("*.json")]
    assert sorted(run["host"]["kernel.release"] for run in runs) == sorted(order)
    assert [text.count(f"turn {turn}: restarts into {one}") for turn, one in enumerate(order, 1)][
        1:
    ] == [1, 1]
    assert machine.boots() == 4
    assert left(machine) == []
    assert "the plan is done" in text


def test_words_for_the_command_line_need_kexec(machine: Machine, boots: Boots) -> None:
    """GRUB chooses an entry of its menu as it is: nothing is started."""
    machine.write("nexts", f"{KERNELS[0]} nosmt")
    plan = machine.root / "boots.plan"
    job = boot_plan.of_job([KERNELS[0], f"{KERNELS[0]} nosmt"], ("bisect", "smoke"), ("smoke",))
    boot_plan.write(plan, job)
    plan.chmod(0o644)

    refused = boots("start", plan, "--yes", "--way", "grub", status=2)

    assert "use --way kexec" in refused.err
    assert left(machine) == []
