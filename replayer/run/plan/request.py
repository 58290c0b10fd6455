"""The request of a run, built from what the user typed for the engine and its folders."""

import getpass
import sys
from collections.abc import Callable, Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from replayer.engines import engine, environment
from replayer.engines.connection import url_of
from replayer.errors import Impossible
from replayer.model import StepSpec, Workload
from replayer.run import step_plugin
from replayer.run.runner import RunRequest
from replayer.watch import active_collectors


def build_request(
    workload: Workload,
    named: str,
    *,
    label: str = "",
    bindir: Path | None = None,
    data_dir: Path | None = None,
    sizing: Mapping[str, Any] | None = None,
    collectors: Sequence[str] | None = None,
) -> RunRequest:
    """Return the request of a run.

    `named` is the engine: a name, the URL of a server, or "" for the default. `bindir` and
    `data_dir` are the folders of the server's programs and of its data, None for the default ones.
    `sizing` is the purpose of a run that sizes a machine, None for any other run. `collectors`
    names the active collectors that watch the steps; None stands for the default ones. Raises
    NotFound or Impossible for an engine that does not exist.
    """
    url = named if "://" in named else environment.url(named)
    chosen = engine.of_url(named) if "://" in named else engine.load(named or engine.default())
    chosen.check_own()
    return RunRequest(
        workload=workload,
        engine=chosen,
        label=label,
        url=url,
        bindir=bindir,
        data_dir=data_dir,
        ask=asker(),
        sizing=sizing,
        collectors=active_collectors.chosen() if collectors is None else tuple(collectors),
    )


def asker() -> Callable[[str], str] | None:
    """Return a function that asks for a password if a user sits at a terminal, else None."""
    return getpass.getpass if sys.stdin.isatty() and sys.stderr.isatty() else None


def refuse_idle(workload: Workload, options: str) -> None:
    """Raise Impossible if no step of a workload has work that client hosts can do.

    `options` is the option of the command line with which the user named such hosts, for the
    message.
    """
    if any(map(_uses_client_hosts, workload.steps)):
        return
    raise Impossible(
        f"{options}: no step of {workload.name} has sessions that other hosts "
        f"can have (steps are {', '.join(dict.fromkeys(spec.step for spec in workload.steps))}): "
        f"leave the hosts out"
    )


def refuse_loopback(order: RunRequest, hosts: Sequence[str]) -> None:
    """Raise Impossible for a loopback address in the URL if other hosts must connect to the server.

    `hosts` has the names of these hosts. On each of them the address means that host itself.
    """
    if order.url is None or not hosts:
        return
    host = url_of(order.url, order.engine).host or ""
    if not _is_loopback(host):
        return
    said = f"{host} is" if host else "it names no host, so it is"
    raise Impossible(
        f"the clients on {', '.join(hosts)} do not reach the server at this URL: {said} "
        f"another machine for each of them: write the server's name or address in the network"
    )


def _uses_client_hosts(spec: StepSpec) -> bool:
    return step_plugin.load(spec.step).uses_client_hosts(spec)


def _is_loopback(host: str) -> bool:
    if not host or host.startswith("/") or host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
