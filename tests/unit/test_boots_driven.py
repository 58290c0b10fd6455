"""A plan of boots by ssh: the machine under test alone, and a driver whose machine is made up."""

import sys
from pathlib import Path

import pytest

from replayer import trusted_path
from replayer.boots import service

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
        reason = service.performed(inner, 1, command, tmp_path, left=(tmp_path / "ready").exists)

    assert (tmp_path / "ended").read_text() == "in order"
    assert reason == "the step failed with status 3: it printed nothing"
