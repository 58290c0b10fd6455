"""How the system's ssh is called, and how replayer is found on the other side."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path


def words() -> list[str]:
    """Return the ssh to use: $REPLAYER_SSH, or the one of the system; it asks for nothing."""
    command = shlex.split(os.environ.get("REPLAYER_SSH", "ssh"))
    return [*command, "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"]


def remote(command: str, variable: str) -> str:
    """Return what the other host's shell is to do for a command of replayer's: sh, csh or fish.

    `variable`, if it is set on this host, says how `replayer` with that command is started there;
    else it is the `replayer` that lies beside the Python of the same path, that Python, if it has a
    replayer, or what PATH has.
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
