"""The kernel lab goes on after a boot that failed, and waits as long as its machine is slow."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.command import Replayer
from tests.kernel_lab import __main__ as kernel_lab
from tests.kernel_lab.__main__ import BOOTS, HERE, TRIES, Failed, Machine, follow, wait
from tests.kernel_lab.boots import PANICS, installed, names_cause
from tests.kernel_lab.job import next_kernel


def attempts(
    *outcomes: float | None,
) -> tuple[Callable[[str, str, Sequence[float]], float], list[str]]:
    """Return an attempt that meets these outcomes in turn, and the list of kernels it was for."""
    kernels: list[str] = []
    left = list(outcomes)

    def attempt(kernel: str, _title: str, _boots: Sequence[float]) -> float:
        kernels.append(kernel)
        outcome = left.pop(0)
        if outcome is None:
            raise Failed("it panicked")
        return outcome

    return attempt, kernels


def test_a_failed_boot_is_tried_again() -> None:
    """The turn of a boot that failed is still due, so its kernel is booted once more."""
    attempt, kernels = attempts(50.0, None, 60.0, 55.0)

    assert follow(["a", "b", "a"], attempt) is True
    assert kernels == ["a", "b", "b", "a"]


def test_a_kernel_that_never_boots_ends_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    """No later turn is due before it: what there is is compared, and how much that is is said."""
    attempt, kernels = attempts(50.0, *[None] * TRIES)

    assert follow(["a", "b", "b", "a"], attempt) is False
    assert kernels == ["a"] + ["b"] * TRIES
    assert "1 of 4 boots are compared" in capsys.readouterr().err


def test_what_was_measured_before_ctrl_c_is_compared(capsys: pytest.CaptureFixture[str]) -> None:
    """It ends the boots, and not what follows them."""

    def attempt(kernel: str, _title: str, _boots: Sequence[float]) -> float:
        if kernel == "b":
            raise KeyboardInterrupt
        return 50.0

    assert follow(["a", "b", "b", "a"], attempt) is False
    assert "1 of 4 boots are compared" in capsys.readouterr().err


@pytest.mark.parametrize(("start", "boots"), [(2.0, []), (30.0, []), (2.0, [40.0, 900.0])])
def test_patience_follows_the_machine(start: float, boots: list[float]) -> None:
    """A machine that starts slowly, or took long before, is waited for in proportion."""
    patience = Machine("tcg", "max", start).patience(boots)

    assert patience > (3 * max(boots) if boots else 50 * start)
    assert patience < 30 * 60 or max([start, *boots]) > 10


def test_its_boots_can_show_a_difference(replayer: Replayer, tmp_path: Path) -> None:
    """By its own plan's words, as many boots as it makes by itself are not too few."""
    words = ("plan", "--kernels", "6.1.0-1,6.12.0-1", "--boots", BOOTS, "--out", tmp_path / "plan")
    printed = replayer(*words, "--", HERE / "lab.toml", folder=tmp_path).out
    assert "can show a difference" in printed
    assert "can never show" not in printed


def test_a_boot_that_takes_long_is_reported_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each minute a line says how long it has taken, with the console's last line."""
    monkeypatch.setattr(kernel_lab, "MINUTE", 0.05)
    log = tmp_path / "console"
    log.write_text("first\nsystemd: started\n")
    command = [sys.executable, "-c", "import time; time.sleep(0.5)"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as guest:
        assert wait(guest, log, "3 uek", patience=60) == b""
    assert "boot 3 uek: 0 s so far; systemd: started" in capsys.readouterr().err

    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as guest:
        with pytest.raises(subprocess.TimeoutExpired):
            wait(guest, log, "4 uek", patience=0.1)
        guest.kill()


def test_a_job_is_judged_by_what_it_names() -> None:
    """The levels that are printed before the first boot are no answer, and a wrong one is none."""
    begun = "experiment x: mitigations off -> auto; all combinations, blocks of 2 runs"
    found = "cached.iops: mitigations off -> auto does -61 % (-64 to -57 %)"
    none = "cached.iops: no factor was shown to do anything: mitigations unclear (-9 to +3 %)"
    assert names_cause("experiment", f"{begun}\n{found}")
    assert not names_cause("experiment", f"{begun}\n{none}")
    # The terminal breaks the sentence.
    worse = "6.12.0-1 mitigations=auto is the first that is\nworse: cached.iops -61 % (99 % sure)"
    assert names_cause("bisect", worse)
    assert not names_cause("bisect", worse.replace("worse", "better"))
    assert not names_cause("bisect", worse.replace(" mitigations=auto", ""))


def test_kernels_are_in_the_order_of_their_versions(tmp_path: Path) -> None:
    """The oldest comes first, whatever the order of their letters, and the broken one is none."""
    (tmp_path / "boot").mkdir()
    for name in ("6.12.9-1", "6.1.0-100", "6.1.0-56", PANICS):
        (tmp_path / "boot" / f"vmlinuz-{name}").touch()
    assert installed(tmp_path) == ["6.1.0-56", "6.1.0-100", "6.12.9-1"]


def test_a_console_names_the_next_kernel() -> None:
    """With its words for the command line; a serial console ends its lines by both signs."""
    text = "booting\r\nLAB NEXT next boot: 6.12.0-1 mitigations=auto\r\nLAB STATUS 0\r\n"
    assert next_kernel(text) == "6.12.0-1 mitigations=auto"
    assert not next_kernel("LAB NEXT all boots are done\r\nLAB STATUS 0\r\n")
