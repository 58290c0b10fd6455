"""Recordings of the active collectors: they begin and end with a step, and are cut to its window.

An active collector runs its own measurement, such as perf. A collector that fails, or that the
machine does not allow, never harms the step: the collector is left out, and `Recordings.failures`
has the reason.
"""

import contextlib
import os
import re
import shutil
import signal
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Self

from replayer import journal, registry, signals
from replayer.collectors import CollectorContext, Recording, WindowRecording
from replayer.errors import Impossible, NotFound, ReplayerError, nearest
from replayer.journal import Note, Untrusted
from replayer.machine import processes

WITHOUT = "REPLAYER_WITHOUT"
"""The environment variable with names of collectors to leave out, separated by commas."""
ALL = "all"
NOTES = ("watching",)
_MEMORY = Path("/dev/shm")  # noqa: S108 - for a folder of a random name that nobody else may enter
_NAME = re.compile(r"replayer-watching-[0-9a-f]{32}")
_OWNER_ONLY = 0o700


def active() -> list[str]:
    """Return the sorted names of the active collectors, which run a measurement during a step."""
    return [name for name in registry.names("collectors") if _begins(name)]


def chosen(without: Iterable[str] = (), also: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the names of the active collectors that watch a run.

    These are the collectors that watch by default, and those in `also`. The names in `without` and
    in $REPLAYER_WITHOUT are then left out. `all` stands for all active collectors. Raises NotFound
    for an unknown name, and Impossible for a collector that is not active and so always runs.
    """
    asked = set(_checked(also, "--with"))
    left = set(_checked(without, "--without")) | set(_checked(_variable(), f"${WITHOUT}"))
    names = [name for name in active() if name in asked or is_default(name)]
    return tuple(name for name in names if name not in left)


def is_default(name: str) -> bool:
    """Return whether an active collector watches a run even if the user does not request it."""
    return bool(getattr(registry.load("collectors", name), "BY_DEFAULT", True))


def _variable() -> list[str]:
    return [name.strip() for name in os.environ.get(WITHOUT, "").split(",") if name.strip()]


def _checked(names: Iterable[str], option: str) -> Iterator[str]:
    known = active()
    for name in names:
        if name == ALL:
            yield from known
        elif name in known:
            yield name
        elif name in registry.names("collectors"):
            raise Impossible(
                f"{option} {name}: it only copies files of the kernel, as it always does; "
                f"it can be one of {', '.join(known)}"
            )
        else:
            raise NotFound(f"{option} {name}: there is no such collector{nearest(name, known)}")


def _begins(name: str) -> bool:
    return hasattr(registry.load("collectors", name), "begin")


class Recordings:
    """The recordings that the active collectors make of one step.

    The end of the `with` block removes their files.
    """

    def __init__(
        self, names: Sequence[str], scene: Callable[[contextlib.ExitStack, Path], CollectorContext]
    ) -> None:
        """Take the collectors' names, and a function that makes the context of a collector.

        `scene` is called once for each collector, with an ExitStack and the collector's folder, and
        returns the collector's context. Everything that it opens has to be put on the stack, which
        is closed when all collectors have ended.
        """
        self.costs: dict[str, float] = {}
        """Collector -> CPU seconds that it used."""
        self.failures: dict[str, str] = {}
        """Collector, or `<collector>.<part>` -> the reason why there is no recording of it."""
        self._names = names
        self._scene = scene
        self._under_way: dict[str, Recording] = {}
        self._ended: dict[str, Recording] = {}
        self._prepared = False
        self._scenes = contextlib.ExitStack()
        self._files = contextlib.ExitStack()

    def __enter__(self) -> Self:
        if not self._names:
            return self
        # This takes a bounded time, and a signal in between would lose what was begun.
        with signals.shield():
            try:
                folder = self._files.enter_context(_folder())
            except (ReplayerError, OSError) as error:
                self.failures = dict.fromkeys(self._names, str(error))
                return self
            for name in self._names:
                with self.note_failure(name):
                    self._begin(name, folder / name)
        return self

    def __exit__(self, *exception: object) -> None:
        with signals.shield():
            self.end()
            self._files.close()

    def prepare(self) -> None:
        """Let each collector do its slow preparations before the first window begins.

        Only the first call has an effect.
        """
        if self._prepared:
            return
        self._prepared = True
        for name, recording in list(self._under_way.items()):
            with self.note_failure(name):
                getattr(recording, "prepare", lambda: None)()

    def mark(self, clock_ns: int) -> None:
        """Notify all running collectors that a measured window begins or ends at `clock_ns`.

        `clock_ns` is in ns of CLOCK_MONOTONIC.
        """
        for name, recording in list(self._under_way.items()):
            with self.note_failure(name):
                recording.mark(clock_ns)

    def end(self) -> None:
        """Stop the collectors that still run; `seen` can be called until the `with` block ends."""
        with signals.shield():
            while self._under_way:
                name, recording = self._under_way.popitem()
                with self.note_failure(name):
                    self.costs[name] = recording.end()
                    self._ended[name] = recording
            with contextlib.suppress(ReplayerError):
                self._scenes.close()

    def seen(self, begin_ns: int, end_ns: int) -> dict[str, WindowRecording]:
        """Return collector -> its recording between two marks; call it after `end`.

        The marks are in CLOCK_MONOTONIC ns. Collectors that failed are left out.
        """
        views: dict[str, WindowRecording] = {}
        for name in sorted(self._ended.keys() - self.failures.keys()):
            with self.note_failure(name):
                views[name] = self._ended[name].cut(begin_ns, end_ns)
                for part, why in views[name].missing.items():
                    self.failures.setdefault(f"{name}.{part}", why)
        return views

    @contextlib.contextmanager
    def note_failure(self, name: str) -> Iterator[None]:
        """Put an error of the `with` block into `failures` under `name`, instead of raising it."""
        try:
            yield
        except ReplayerError as error:
            self.failures.setdefault(name, str(error))
        except Exception as error:  # noqa: BLE001 - a watcher's failure is only reported
            self.failures.setdefault(name, f"it failed: {type(error).__name__}: {error}")

    def _begin(self, name: str, folder: Path) -> None:
        folder.mkdir(_OWNER_ONLY)
        scene = self._scene(self._scenes, folder)
        self._under_way[name] = registry.load("collectors", name).begin(scene)


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """Make a folder for the collectors' files; it is removed at the end of the `with` block."""
    parent = _MEMORY if os.access(_MEMORY, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())
    path = Path(os.path.realpath(parent)) / f"replayer-watching-{uuid.uuid4().hex}"
    with journal.held(NOTES[0], lambda: shutil.rmtree(path, ignore_errors=True), path=str(path)):
        path.mkdir(_OWNER_ONLY)
        yield path


def recover(note: Note) -> str:
    """End the programs and remove the files that the collectors of a killed replayer left.

    `note` is the journal's entry with the path of their folder. Returns a message about what was
    done. Raises Untrusted if the path in the note is not that of such a folder, or if the folder
    belongs to another user.
    """
    path = note.path_of("path", _NAME)
    ended = _end_programs(path)
    try:
        if path.lstat().st_uid != os.geteuid():
            raise Untrusted(note, f"{path} belongs to another user")
        shutil.rmtree(path)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        raise ReplayerError(f"{path} cannot be removed: {error.strerror}") from error
    note.drop()
    programs = f", and {ended} that watched ended" if ended else ""
    return f"the collectors' folder {path} was removed{programs}"


def _end_programs(path: Path) -> int:
    """Kill this user's programs that have files of a folder among their arguments.

    Returns how many were killed.
    """
    ended = 0
    for pid in processes.every():
        if f"{path}/" in processes.arguments(pid) and _is_own(pid):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                ended += 1
    return ended


def _is_own(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}").stat().st_uid == os.geteuid()
    except OSError:
        return False
