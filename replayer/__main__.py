"""The entry point of replayer: secure the import path before any other module is imported."""

import sys
from collections.abc import Sequence

from replayer import interpreter

if __name__ == "__main__":
    # `python -m` puts the current folder first in sys.path: remove it before any other import.
    interpreter.isolate()


def main(argv: Sequence[str] | None = None) -> int:
    """Run replayer with `argv`, or the arguments of this process; return its exit status."""
    if argv is None:
        interpreter.isolate()
        # Import it only now: before, `python -m` would import a signal.py of the current folder.
        import signal  # noqa: PLC0415

        # Nothing was taken from the machine yet.  Ctrl-C while the program loads just ends it,
        # without a traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from replayer import program  # noqa: PLC0415 - only now

    return program.run(sys.argv[1:] if argv is None else argv)


if __name__ == "__main__":
    sys.exit(main())
