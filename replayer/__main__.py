"""The entry point of replayer: secure the import path before any other module is imported."""

import sys
from collections.abc import Sequence

from replayer import interpreter

if __name__ == "__main__":
    # `python -m` puts the current folder first in sys.path: remove it before any other import.
    interpreter.isolate()


_YOUNG_OBJECTS = 50_000
"""The number of new objects after which Python searches them for garbage; its default is 700."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run replayer with `argv`, or the arguments of this process; return its exit status."""
    if argv is None:
        interpreter.isolate()
        # Import them only now: before, `python -m` would import a signal.py of the current folder.
        import gc  # noqa: PLC0415 - only now
        import signal  # noqa: PLC0415 - only now

        # Modules are hardly ever garbage: searching them while they load takes a sixth of a start.
        gc.set_threshold(_YOUNG_OBJECTS)

        # Nothing was taken from the machine yet.  Ctrl-C while the program loads just ends it,
        # without a traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from replayer.cli import program  # noqa: PLC0415 - only now

    if argv is not None:
        return program.run(argv)
    try:
        return program.run(sys.argv[1:])
    finally:
        # The end of the process gives the modules back; freeing them one by one takes 0.2 s.
        gc.freeze()


if __name__ == "__main__":
    sys.exit(main())
