"""Recording of a source's profile: saved every minute while it is watched, and at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replayer import signals
from replayer.errors import Interrupted, ReplayerError
from replayer.results import profile
from replayer.sizing import source
from replayer.units import show_with_noun

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from replayer.sizing.cost import CpuCost


def record(order: source.ProfileRequest, path: Path, say: Callable[[str], None]) -> tuple[str, str]:
    """Watch a source and save its profile as a new file; return (result, CPU cost) in words.

    The user may end it with Ctrl-C, which is not a failure.  `say` prints messages meanwhile.
    Raise Impossible for a source that cannot be profiled or a file that cannot be made; raise
    ReplayerError where the last part could not be saved.
    """
    watch = source.Watch(order)
    try:
        with profile.ProfileWriter(path, watch.source) as writer:
            say(
                f"profiling {watch.source.place}, with all databases of that server, saved every "
                f"minute in {path}"
            )
            return _Recording(watch, writer, say).run()
    finally:
        watch.close()


class _Recording:
    """One recording: a watched source, and the file to which its profile is saved."""

    def __init__(
        self, watch: source.Watch, writer: profile.ProfileWriter, say: Callable[[str], None]
    ) -> None:
        self._watch = watch
        self._writer = writer
        self._say = say
        self._seconds = 0.0
        self._rows = 0
        self._gaps = 0
        self._refused: ReplayerError | None = None

    def run(self) -> tuple[str, str]:
        """Watch until the time is over or the user stops it; return two sentences.

        They are the result and the CPU cost.  Raise ReplayerError if the last part was not saved.
        """
        try:
            for _ in self._watch.run():
                self._save()
            ended = "the time is over"
        except Interrupted:
            ended = "stopped"
        with signals.shield():
            self._watch.finish()
            self._save()
            if self._refused is not None:
                raise self._refused
            self._writer.describe(self._watch.source)
            gaps = f", {show_with_noun(self._gaps, 'gap')}" if self._gaps else ""
            saved = (
                f"{self._rows:,} rows of {self._seconds:,.0f} s{gaps} are in {self._writer.path}"
            )
            return f"{ended}: {saved}", _sentence(self._watch.cost())

    def _save(self) -> None:
        """Save the unsaved part of the profile; if that fails, try again in the next minute."""
        with signals.shield():
            part = self._watch.unsaved()
            try:
                self._writer.append(part)
            except ReplayerError as error:
                if self._refused is None:
                    self._say(f"{error}: it is tried again each minute")
                self._refused = error
                return
            self._refused = None
            self._watch.saved(part)
            self._seconds += part.seconds
            self._rows += part.ends.size
            self._gaps += len(part.gaps)
            for note in part.notes:
                self._say(f"note: {note}")
            for gap in part.gaps:
                self._say(f"a gap of {gap.end - gap.begin:.1f} s: {gap.reason}")


def _sentence(cost: CpuCost) -> str:
    """Return one sentence with the CPU cost of profiling."""
    seconds = max(cost.seconds, 1e-9)
    own = f"{100 * cost.own / seconds:.2f} % its own"
    if cost.session is None:
        return f"the profiler used of a core: {own}; its session's part cannot be seen from here"
    return (
        f"the profiler used {100 * cost.cores:.2f} % of a core: {own}, "
        f"{100 * cost.session / seconds:.2f} % its session's at the server"
    )
