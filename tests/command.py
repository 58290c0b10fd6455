"""Replayer's command line as tests call it: the fixture `replayer` is one of these.

It is called in this process, which saves each test the start of an interpreter, on a machine that
does not change during a run (tests/still), which saves the wait for one that does not.  Where the
process is the subject (signals, streams, what `ps` shows, workers that must not outlive it) there
is `process`, and `start` for one that goes on.
"""

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from replayer import signals
from replayer.__main__ import main
from replayer.watch import calibration
from tests.still.sitecustomize import still

STILL = Path(__file__).parent / "still"
"""A folder for PYTHONPATH: processes of tests take the machine for one that stays as it is."""
COMMAND = (sys.executable, "-m", "replayer")
_LONGEST = 300.0


@dataclass(frozen=True)
class Ended:
    """A command that ended, and what it printed; unpacks into (out, err)."""

    status: int
    out: str
    err: str

    def __iter__(self) -> Iterator[str]:
        """Yield stdout and stderr."""
        return iter((self.out, self.err))


@dataclass
class Replayer:
    """Runs replayer's commands in a folder; what was started ends with the test."""

    folder: Path
    """The current folder of a command, unless it is given another."""
    environment: Mapping[str, str | None] = field(default_factory=dict)
    """Variables of each command, on top of this process's own; None takes one away."""
    _started: list[subprocess.Popen[str]] = field(default_factory=list)

    def __call__(
        self,
        *words: object,
        status: int | None = 0,
        folder: Path | None = None,
        typed: str = "",
        **environment: str | None,
    ) -> Ended:
        """Run a command in this process and return what it printed.

        Its status must be the one given; None takes any.  `typed` is its stdin.
        """
        streams = io.StringIO(), io.StringIO()
        with self._surroundings(folder or self.folder, typed, environment), _captured(*streams):
            got = _status(words)
        ended = Ended(got, *(stream.getvalue() for stream in streams))
        assert status in (None, got), f"status {got}: {ended.err or ended.out}"
        return ended

    def process(
        self,
        *words: object,
        status: int | None = 0,
        folder: Path | None = None,
        typed: str = "",
        timeout: float = _LONGEST,
        command: tuple[object, ...] = COMMAND,
        **environment: str | None,
    ) -> Ended:
        """Run a command in a process of its own, to its end."""
        done = subprocess.run(
            [str(word) for word in (*command, *words)],
            cwd=folder or self.folder,
            env=self._variables(environment),
            input=typed,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert status in (None, done.returncode), f"status {done.returncode}: {done.stderr}"
        return Ended(done.returncode, done.stdout, done.stderr)

    def start(
        self,
        *words: object,
        folder: Path | None = None,
        command: tuple[object, ...] = COMMAND,
        popen: Mapping[str, Any] | None = None,
        **environment: str | None,
    ) -> "subprocess.Popen[str]":
        """Start a command in a process of its own; it is killed at the end of the test.

        `popen` are further arguments of subprocess.Popen, such as `user` or `stderr`.
        """
        usual = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        started = subprocess.Popen(
            [str(word) for word in (*command, *words)],
            cwd=folder or self.folder,
            env=self._variables(environment),
            text=True,
            **{**usual, **(popen or {})},
        )
        self._started.append(started)
        return started

    def end(self) -> None:
        """Kill what was started and still runs."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
            with contextlib.suppress(ValueError):  # its streams were closed
                process.communicate(timeout=60)

    def _variables(self, environment: Mapping[str, str | None]) -> dict[str, str]:
        asked = {**os.environ, "PYTHONPATH": str(STILL), **self.environment, **environment}
        return {name: value for name, value in asked.items() if value is not None}

    @contextlib.contextmanager
    def _surroundings(
        self, folder: Path, typed: str, environment: Mapping[str, str | None]
    ) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in {**self.environment, **environment}.items():
                if value is None:
                    patch.delenv(name, raising=False)
                else:
                    patch.setenv(name, value)
            patch.chdir(folder)
            patch.setattr(sys, "stdin", io.StringIO(typed))
            # Signals are those of the process of the tests.
            patch.setattr(signals, "install", _nothing)
            # On a busy machine it takes many seconds, and says what it says: busy.
            patch.setattr(calibration, "measure", still)
            yield


def _status(words: tuple[object, ...]) -> int:
    try:
        return main([str(word) for word in words])
    except SystemExit as ended:  # the parser has printed help, or what is wrong
        return ended.code if isinstance(ended.code, int) else 1


@contextlib.contextmanager
def _captured(out: io.StringIO, err: io.StringIO) -> Iterator[None]:
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        yield


def _nothing() -> None:
    """Install nothing."""
