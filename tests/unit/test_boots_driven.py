"""A plan of boots by ssh: the machine under test alone, and a driver whose machine is made up."""

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replayer import trusted_path
from replayer.analysis.differences import boot_plan
from replayer.boots import service
from replayer.boots.ssh_driver import BootDriver
from replayer.errors import Interrupted

KERNELS = ("6.1.0", "6.12.0")
FACTS: dict[str, Any] = {
    "kernels": {kernel: kernel for kernel in KERNELS},
    "arguments": {},
    "boot": "b-0",
    "release": KERNELS[1],
    "way": "grub",
    "default": "0",
}

_STEP = """\
import pathlib, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
folder = pathlib.Path(sys.argv[1])
(folder / "ready").touch()
signal.sigwait({signal.SIGTERM})
again = signal.sigtimedwait({signal.SIGTERM}, 1.0)
(folder / "ended").write_text("pressed" if again else "in order")
sys.exit(3)
"""
"""A step that takes a second to give back what it took, and notes a second SIGTERM in that time."""


def test_a_step_without_its_driver_has_the_time_to_give_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second SIGTERM ends replayer at once, so the step gets one."""
    monkeypatch.setattr(service, "_POLL_SECONDS", 0.05)
    command = (sys.executable, "-c", _STEP, tmp_path)
    with trusted_path.own(tmp_path, "the folder of a driven plan") as inner:
        reason = service.run_command(inner, 1, command, tmp_path, left=(tmp_path / "ready").exists)

    assert (tmp_path / "ended").read_text() == "in order"
    assert reason == "the step failed with status 3: it printed nothing"


class Remote:
    """Another machine, to which requests of one verb fail; it keeps the verbs that were asked."""

    host = "db1"

    def __init__(self, verb: str, fail: Callable[[], None]) -> None:
        self.verbs: list[str] = []
        self._failing, self._fail = verb, fail

    def ask(self, verb: str, **_: object) -> dict[str, Any]:
        """Return the answer to a request."""
        self.verbs.append(verb)
        if verb == self._failing:
            self._fail()
        answers: dict[str, dict[str, Any]] = {
            "give": {},
            "runs": {"runs": {}},
            "choose": {"boot": "b-0", "restarts": []},
            "end": {"default": "0", "restarts": []},
        }
        return answers[verb]


def full() -> None:
    """Fail as a full disk does."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/a/run")


def interrupted() -> None:
    """Fail as after Ctrl-C."""
    raise Interrupted("stopped by Ctrl-C")


@pytest.mark.parametrize(
    ("verb", "fail", "reason"),
    [
        ("look", interrupted, "stopped by Ctrl-C"),
        ("choose", interrupted, "stopped by Ctrl-C"),
        ("look", full, "the system refused: /a/run: No space left on device"),
    ],
)
def test_whatever_ends_a_driven_plan_takes_the_choice_back(
    tmp_path: Path, verb: str, fail: Callable[[], None], reason: str
) -> None:
    """The machine would start the plan's kernel with its next restart, whenever that is."""
    plan = tmp_path / "boots.plan"
    plan.write_text("")
    remote: Any = Remote(verb, fail)
    lines: list[str] = []
    driver = BootDriver(remote, plan, boot_plan.draw(KERNELS, 2), {}, "")

    ended = driver.follow(FACTS, lines.append)

    assert remote.verbs[-2:] == [verb, "end"]
    assert (ended.phase, ended.reason) == ("stopped", reason)
    assert lines[-1].endswith(f"the plan is stopped: {reason}")
