"""Commands for the system's ssh, and the search for replayer on the other host."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path


def words() -> list[str]:
    """Return the words of the ssh command: $REPLAYER_SSH, or the system's ssh, and options.

    With these options ssh never asks the user for a password.
    """
    command = shlex.split(os.environ.get("REPLAYER_SSH", "ssh"))
    return [*command, "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"]


def remote(command: str, variable: str) -> str:
    """Return the shell command that runs a command of replayer on another host.

    It works in sh, csh and fish. If the environment variable `variable` is set on this host, its
    value is returned instead. Otherwise the shell command looks for replayer on the other host: it
    tries `replayer` in the folder of this host's Python, then Python at this path if it has
    replayer installed, then `replayer` in PATH.
    """
    own = os.environ.get(variable, "")
    if own:
        return own
    python = shlex.quote(str(Path(sys.executable).absolute()))
    has = "import importlib.util as u, sys; sys.exit(u.find_spec('replayer') is None)"
    beside = shlex.quote(str(Path(sys.executable).absolute().with_name("replayer")))
    script = (
        f"test -x {beside} && exec {beside} {command}; "
        f"if test -x {python} && {python} -P -c {shlex.quote(has)}; "
        f"then exec {python} -P -m replayer {command}; fi; "
        f"if command -v replayer >/dev/null; then exec replayer {command}; fi; "
        f"echo 'there is no replayer there: install it, or say in ${variable} how it is "
        f"started' >&2; exit 127"
    )
    return f"exec sh -c {shlex.quote(script)}"
