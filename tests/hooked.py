"""Do something at an edge of a step's tasks; `from tests.hooked import hooked`."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping

from replayer.report.terminal.progress import Silence
from replayer.run.context import Context, Task

Hooks = Mapping[str, Callable[[], object]]


class _Hooked(Silence):
    def __init__(self, begin: Hooks, end: Hooks) -> None:
        self._begin, self._end = begin, end

    @contextlib.contextmanager
    def task(self, title: str, total: float | None = None) -> Iterator[Task]:
        """Call the hooks of a title's first word around the task."""
        word = title.split(maxsplit=1)[0]
        self._begin.get(word, str)()
        with super().task(title, total) as task:
            yield task
        self._end.get(word, str)()


def hooked(context: Context, *, begin: Hooks | None = None, end: Hooks | None = None) -> Context:
    """Return a context that calls functions when a task of that first word begins or has ended.

    Sessions are `connect`ed before the window opens; what `load` or `sessions` begins with is the
    first that is done in the window, and what `load` ends with is the first after it.
    """
    return dataclasses.replace(context, progress=_Hooked(begin or {}, end or {}))
