"""Keep files in the page cache; `from tests.kept_cached import kept_cached`."""

import contextlib
import mmap
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def kept_cached(folder: Path) -> Iterator[None]:
    """Keep what is in a data directory's files in memory, whoever drops the page cache.

    The kernel leaves pages that a process has mapped, and other tests measure cold reads.
    """
    with contextlib.ExitStack() as maps:
        for path in [path for part in ("base", "global") for path in (folder / part).rglob("*")]:
            if path.is_file() and path.stat().st_size:
                with path.open("rb") as file:
                    shared = mmap.MAP_SHARED | mmap.MAP_POPULATE
                    maps.enter_context(mmap.mmap(file.fileno(), 0, shared, mmap.PROT_READ))
        yield
