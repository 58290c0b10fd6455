"""What takes no longer than it may, whatever else the machine does."""

import contextlib
import time
from collections.abc import Iterator


@contextlib.contextmanager
def at_once(what: object) -> Iterator[None]:
    """Assert that something takes no more than a hundred times what a loop takes just now."""
    began = time.process_time()
    yield
    passed = time.process_time() - began
    if passed > 0.5:
        began = time.process_time()
        sum(range(2_000_000))
        assert passed < 100 * (time.process_time() - began), what
