"""The program: it runs one command, prints its error if it fails, and returns the exit status."""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from replayer import errors, signals
from replayer.cli import argv_secrets, stdio
from replayer.cli.command_parser import parser
from replayer.errors import Impossible, Interrupted

_PRINTED = ("json", "text")
"""Options of commands whose output is on stdout."""
_FORMS = ("summary", "html", "csv", "markdown")
"""Options of commands that name a file for their output; `-` is stdout."""
_WRITTEN = (*_FORMS, "out")
_READ = ("profiles", "file", "source")
"""Arguments of commands that name a file to read, as text; others have a Path."""
_READ_BY_NAME = ("runs", "what", "which", "workload")
"""Arguments that name a file to read, or something by its label, id or name."""


def run(argv: Sequence[str]) -> int:
    """Run replayer with the command-line arguments `argv`, and return its exit status.

    `argv` is without the program's name.  An expected error is printed on stderr as a sentence; a
    defect of replayer raises its exception.
    """
    # Hide secrets before a command's module is loaded, which takes time: `ps` shows arguments.
    arguments = argv_secrets.hidden(argv)
    # Do this before any file is opened: it would get the descriptor of a closed standard stream.
    with stdio.guarded():
        try:
            signals.install()
            return _performed(arguments)
        except BrokenPipeError:
            # The reader of our output went away (`| head`): nothing more can be printed to it.
            return 0
        except (Exception, Interrupted) as error:
            reason = signals.interruption() or errors.expected(error)
            if reason is None:
                raise
            _complain(printable(str(reason)), reason.status, arguments)
            return reason.status


def _performed(arguments: Sequence[str]) -> int:
    try:
        # Without arguments it prints the help.
        args = parser().parse_args(arguments or ["help"])
        _check_stdout(args)
        _check_files(args)
        status: int = args.perform(args)
    except SystemExit:  # the parser has printed the help, or an error
        sys.stdout.flush()
        raise
    sys.stdout.flush()
    return status


def _check_stdout(args: argparse.Namespace) -> None:
    """Raise Impossible if two outputs would be joined on stdout, which no program could read."""
    printed = [f"--{name}" for name in _PRINTED if getattr(args, name, None) is True]
    printed += [f"--{name} -" for name in _FORMS if getattr(args, name, None) == "-"]
    if len(printed) > 1:
        raise Impossible(
            f"{printed[0]} and {printed[1]} both write to stdout: give one of them a file"
        )


def _check_files(args: argparse.Namespace) -> None:
    """Raise Impossible if two outputs are the same file, or if a file to write is to be read, too.

    One of the two would be lost.  Devices and pipes may be named twice.
    """
    read, written = set(_files_to_read(args)), dict[str, str]()
    for name in _WRITTEN:
        wanted = str(getattr(args, name, None) or "-")
        path = os.path.realpath(wanted)
        is_file = os.path.isfile(path)  # noqa: PTH113 - a Path raises for a name that is too long
        if wanted == "-" or (os.path.lexists(path) and not is_file):
            continue
        if path in written:
            raise Impossible(
                f"--{written[path]} and --{name} both write {wanted}: give one of them another file"
            )
        if is_file and path in read:
            raise Impossible(f"--{name} {wanted} is a file that is read here: name another file")
        written[path] = name


def _files_to_read(args: argparse.Namespace) -> Iterator[str]:
    """Yield the real path of each argument that may name a file to read."""
    for name, value in vars(args).items():
        for one in value if isinstance(value, list | tuple) else (value,):
            if isinstance(one, str):
                looks_so = "/" in one or one.endswith((".json", ".toml"))
                is_path = name in _READ or (name in _READ_BY_NAME and looks_so)
            else:
                is_path = isinstance(one, Path)
            if is_path and name not in _WRITTEN:
                yield os.path.realpath(one)


def _complain(sentence: str, status: int, arguments: Sequence[str]) -> None:
    """Print an error on stderr as a sentence, or as JSON if the arguments have `--progress json`.

    With that option, all output on stderr is JSON.  `status` is the exit status, which the JSON
    has, too.
    """
    pairs = zip(("", *arguments), arguments, strict=False)
    if any(pair == ("--progress", "json") or pair[1] == "--progress=json" for pair in pairs):
        sentence = json.dumps({"event": "error", "text": sentence, "status": status})
    else:
        sentence = f"replayer: error: {sentence}"
    print(sentence, file=sys.stderr)  # noqa: T201


def printable(text: str) -> str:
    """Return a text on one line, with a space for each character that is not printable."""
    return "".join(c if c.isprintable() else " " for c in text)
