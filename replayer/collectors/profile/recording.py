"""A recording by perf that becomes the profile of a window: how often each call chain was seen."""

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from replayer.collectors import CollectorContext, WindowRecording
from replayer.collectors.profile import stacks
from replayer.collectors.profile.stacks import FoldedStacks, ProcessFamilies
from replayer.errors import ReplayerError
from replayer.machine.perf import Perf
from replayer.model import StackProfile

HERTZ = 99
"""Samples per second; not 100, so that they do not coincide with programs that run 100 times."""
_ENABLED_SECONDS = 0.5
_LOOK_SECONDS = 1.0
_LATE_NS = 100_000_000
_FIELDS = "comm,pid,tid,time,event,ip,sym,dso"


class PerfRecording:
    """One process of `perf record` that samples the call chains of all processors.

    The constructor raises Skip with the reason if perf is missing or may not record.
    """

    def __init__(self, scene: CollectorContext) -> None:
        self._scene = scene
        self._servers: set[int] = set()
        self._looks: list[threading.Thread] = []
        self._unread = ""
        self._perf = Perf(scene.host, scene.folder, ["-g", "-F", str(HERTZ)])

    def prepare(self) -> None:
        """Make perf sample from now on, and count its CPU time as the collector's cost."""
        self._perf.background.charge()
        self._perf.tell("enable", _ENABLED_SECONDS)

    def mark(self, clock_ns: int) -> None:
        """Note, in a separate thread, which process is the server's main process now."""
        del clock_ns  # perf records the same clock itself
        look = threading.Thread(target=self._look, daemon=True)
        look.start()
        self._looks.append(look)

    def end(self) -> float:
        """Stop perf; return the CPU seconds that it used since `prepare`."""
        cost = self._perf.end()
        for look in self._looks:
            look.join(_LOOK_SECONDS)
        return cost

    def cut(self, begin_ns: int, end_ns: int) -> WindowRecording:
        """Return the profile of the window between two instants, in ns of CLOCK_MONOTONIC.

        Raises ReplayerError with the reason if perf recorded nothing usable.
        """
        bad = self._perf.ended_badly
        try:
            folded = self._folded(begin_ns, end_ns)
        except ReplayerError as error:
            raise ReplayerError(bad or str(error)) from error
        if bad and not folded.samples:
            raise ReplayerError(bad)
        if not folded.samples and not folded.idle:
            raise ReplayerError(f"perf took no sample in the window: {self._perf.last_words()}")
        profile = StackProfile(
            payload=StackProfile.packed(folded.stacks),
            samples=folded.samples,
            idle=folded.idle,
            lost=folded.lost,
            outside=folded.outside,
            event=folded.event,
            hertz=HERTZ,
            seconds=round((end_ns - begin_ns) / 1e9, 6),
            truncated=self._truncated(folded, begin_ns, end_ns),
        )
        return WindowRecording(profile=profile, notes=tuple(self._notes(profile, folded)))

    def _look(self) -> None:
        """Note the id of the server's main process, which a restart of the server changes."""
        with contextlib.suppress(ReplayerError, OSError):
            self._servers.update(self._scene.server()[:1])

    def _folded(self, begin_ns: int, end_ns: int) -> FoldedStacks:
        main = os.getpid()
        families = ProcessFamilies(main, frozenset(self._servers), Path(sys.executable).name)
        printed = self._perf.script(
            _FIELDS, "--no-inline", "--show-task-events", wanted=("--show-lost-events",)
        )
        folded = None
        try:
            with printed as lines:
                folded = stacks.folded(lines, begin_ns, end_ns, families)
        except ReplayerError as error:
            if folded is None or not folded.samples:
                raise
            # perf stops at a record that it cannot read: its output before that is correct and
            # complete.
            self._unread = f"perf could read its file no further ({error})"
        return folded

    def _truncated(self, folded: FoldedStacks, begin_ns: int, end_ns: int) -> str:
        bad = self._perf.ended_badly or self._unread
        if folded.last_ns < end_ns - _LATE_NS and (bad or self._perf.is_full()):
            seconds = max(0, folded.last_ns - begin_ns) / 1e9
            return f"{bad or self._perf.limit()}, {seconds:.1f} s after the begin of the window"
        # If perf samples by the clock, it samples every processor, also an idle one.
        if folded.first_ns > begin_ns + _LATE_NS and folded.event.endswith("clock"):
            late = (folded.first_ns - begin_ns) / 1e9
            return f"perf began {late:.1f} s after the begin of the window"
        return ""

    def _notes(self, profile: StackProfile, folded: FoldedStacks) -> Iterator[str]:
        if profile.truncated:
            yield f"the profile is not of the whole window: {profile.truncated}"
        if folded.kernel and not folded.kernel_named:
            yield (
                "the profile has no names of the kernel's functions, so it does not show what the "
                "kernel did: sysctl -w kernel.kptr_restrict=0, or run replayer as root"
            )
