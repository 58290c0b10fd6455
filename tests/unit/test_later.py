"""later: a module is imported when it is needed, and a signal waits until it is there."""

import subprocess
import sys
from pathlib import Path

import pytest

from replayer.lazy_import import Later

INTERRUPTED = """
import os, signal, sys
from replayer import signals
from replayer.errors import Interrupted
from replayer.lazy_import import Later

signals.install()
slow = Later("slow")
try:
    print(slow.value)
except Interrupted as error:
    print(error, sys.modules["slow"].value)
"""


def test_a_module_is_imported_when_a_name_of_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To stand for a module costs nothing; what is in it is the module's own."""
    (tmp_path / "needed_later.py").write_text("things = []\n")
    monkeypatch.syspath_prepend(tmp_path)
    needed = Later("needed_later")
    assert not hasattr(needed, "__wrapped__")  # what inspectors ask is not use of it
    assert "needed_later" not in sys.modules

    needed.things.append(1)

    assert sys.modules.pop("needed_later").things == [1]
    with pytest.raises(AttributeError, match="nothing"):
        _ = needed.nothing
    del sys.modules["needed_later"]


def test_a_signal_waits_until_the_module_is_there(tmp_path: Path) -> None:
    """A library's C code may make another fault of it, with a traceback, or go on."""
    (tmp_path / "slow.py").write_text(
        "import os, signal\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "for _ in range(1000):  # the handler runs in here\n"
        "    pass\n"
        "value = 3\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "stopped by SIGTERM 3\n", "")
