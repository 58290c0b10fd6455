"""Answer the requests of `replayer boots --via ssh`, on the machine under test.

Another machine drives the plan of boots: its replayer, the driver, starts this program by ssh for
each request. The request is a line of JSON on stdin. The answer is a line of JSON on stdout, after
a mark, because a login shell may print lines before it. A step runs only as long as stdin is open,
so that it ends when its driver ends.
"""

from __future__ import annotations

import contextlib
import json
import re
import select
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replayer import trusted_path
from replayer.analysis.differences import boot_plan
from replayer.boots import loaders, service, setup, state
from replayer.errors import Impossible, ReplayerError, expected

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from replayer.boots.system import System

MARK = "REPLAYER-BOOTS "
PLAN = "boots.plan"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,200}")


def answer(system: System) -> None:
    """Read a request from stdin, do it, and print the answer: its result, or an error.

    If the result has a command to restart the machine, it is run after that.
    """
    try:
        request = json.loads(sys.stdin.readline())
        reply = _VERBS[request["verb"]](system, request)
    except (ReplayerError, OSError) as error:
        reply = {"error": str(expected(error) or error)}
    except (ValueError, KeyError, TypeError) as error:
        reply = {"error": f"this is not a request to replayer: {type(error).__name__} {error}"}
    print(f"\n{MARK}{json.dumps(reply)}", flush=True)  # noqa: T201 - the answer
    if reply.get("restarts"):
        with contextlib.suppress(ReplayerError):
            system.call(*reply["restarts"])


def _begin(system: System, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts about this machine that the plan in the request depends on.

    Nothing is stored. Among the facts are the boot loader, its default entry, and the installed
    kernel for each kernel of the plan. Raises ReplayerError for a plan that this machine cannot do.
    """
    setup.permit(system)
    schedule = boot_plan.parse(Path(PLAN), request["text"])
    name = loaders.chosen(system, request["way"])
    entries = setup.installed(system, schedule, name)
    way = loaders.load(name)
    return {
        "way": name,
        "title": way.TITLE,
        "default": way.default(system),
        "kernels": {kernel: entry.release for kernel, entry in entries.items()},
        "arguments": {entry.release: entry.arguments for entry in entries.values()},
        "still": [one.release for one in entries.values() if way.halts_on_panic(system, one)],
        "boot": system.boot,
        "release": system.release,
    }


def _look(system: System, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts about this boot, from which the driver judges whether the boot succeeded.

    They are: the id of the boot, the kernel's release, whether it is the chosen kernel (None if not
    known), whether the choice is still pending, and the words of the plan's kernel that are missing
    on the command line.
    """
    way = loaders.load(request["way"])
    return {
        "boot": system.boot,
        "release": system.release,
        "came": service.booted_as_chosen(system, way, request["release"]),
        "untaken": bool(way.pending(system)),
        "lacking": list(service.missing_words(system, request["kernel"])),
    }


def _choose(system: System, request: Mapping[str, Any]) -> dict[str, Any]:
    """Choose a kernel for the next boot only; return this boot and the command that restarts it.

    The caller runs that command after it has printed the answer. Raises Impossible if another plan
    runs.
    """
    setup.permit(system, driven=request["plan"])
    way = loaders.load(request["way"])
    service.choose(system, way, request["release"], request["arguments"])
    restarts = way.RESTART if system.systemd else service.plain(system)
    return {"boot": system.boot, "restarts": list(restarts)}


def _step(system: System, request: Mapping[str, Any]) -> dict[str, Any]:
    """Do the run that is due in this boot; return why it failed, "" if it did not.

    As long as it runs, no other plan restarts the machine. Raises Impossible if another plan runs.
    """
    service.settle(system)
    setup.permit(system, driven=request["plan"])
    with _opened(request) as folder:
        state.hold(folder)
        words = [*setup.command(system), "step", str(folder.path / PLAN)]
        reason = service.run_command(folder, request["turn"], words, folder.path, left=_alone)
    return {"reason": reason}


def _alone() -> bool:
    """Return whether the driver is gone.

    It sends nothing after its request, so that stdin becomes readable only when it is closed.
    """
    return bool(select.select([sys.stdin], [], [], 0)[0])


def _runs(_: System, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return file name -> text of the plan's runs, without those that the request has as known."""
    with _opened(request) as folder:
        where = boot_plan.folder(folder.path / PLAN)
        paths = [path for path in sorted(where.glob("*.json")) if path.name not in request["known"]]
        return {"runs": {path.name: path.read_text(encoding="utf-8") for path in paths}}


def _give(_: System, request: Mapping[str, Any]) -> dict[str, Any]:
    """Store the files of the plan, and the runs in the request that this machine does not have.

    These are from an earlier installation of this machine, whose disk was erased since.
    """
    with _opened(request, make=True) as folder:
        for name, text in request["files"].items():
            folder.replace(_checked(name), text)
        name = boot_plan.folder(Path(PLAN)).name
        with contextlib.suppress(FileExistsError):
            folder.make(name, 0o755)
        with folder.below(name) as runs:
            known = set(runs.names())
            for run, text in request["runs"].items():
                if run not in known:
                    runs.replace(_checked(run), text)
    return {}


def _end(system: System, request: Mapping[str, Any]) -> dict[str, Any]:
    """Remove the choice for the next boot; return the default entry, and a command to restart.

    The command is empty if the request asks for no restart. If the plan is done, its folder is
    removed, too. Raises Impossible if the machine is to be restarted and another plan runs.
    """
    if request["restart"]:
        setup.permit(system, driven=request["plan"])
    way = loaders.load(request["way"])
    way.clear(system)
    if request["done"]:
        with state.opened() as folder:
            folder.remove(_checked(request["plan"]))
    return {
        "default": way.default(system),
        "restarts": list(service.plain(system)) if request["restart"] else [],
    }


_VERBS = {
    "begin": _begin,
    "look": _look,
    "choose": _choose,
    "step": _step,
    "runs": _runs,
    "give": _give,
    "end": _end,
}


@contextlib.contextmanager
def _opened(request: Mapping[str, Any], *, make: bool = False) -> Iterator[trusted_path.Folder]:
    """Open, for the `with` block, the folder of the plan that `request` names.

    Another machine drives this plan. With `make` the folder is made if it does not exist.
    """
    name = _checked(request["plan"])
    with state.opened(make=make) as folder:
        if make:
            with contextlib.suppress(FileExistsError):
                folder.make(name, 0o755)
        with trusted_path.own(folder.path / name, "the folder of a driven plan") as inner:
            yield inner


def _checked(name: str) -> str:
    """Return the name; raise Impossible for a path or anything else that is not a plain name."""
    if not _NAME.fullmatch(name):
        raise Impossible(f"{name[:100]!r} is not a name of a plan or a run")
    return name
