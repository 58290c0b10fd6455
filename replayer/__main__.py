"""Where replayer begins: what must be true before anything else of it is imported."""

import sys
from collections.abc import Sequence

from replayer import interpreter

if __name__ == "__main__":
    # `python -m` has the current folder first in its path: nothing else is imported before.
    interpreter.isolate()


def main(argv: Sequence[str] | None = None) -> int:
    """Run replayer with these arguments, or the process's own, and return its exit status."""
    if argv is None:
        interpreter.isolate()
        # Only now: under `python -m` the current folder's would be imported.
        import signal  # noqa: PLC0415

        # Nothing was taken yet: Ctrl-C while the program loads ends it, and without a traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from replayer import program  # noqa: PLC0415 - only now

    return program.run(sys.argv[1:] if argv is None else argv)


if __name__ == "__main__":
    sys.exit(main())
