"""Measure the machine without a database: storage, processors or memory.

`probe` names the plug-in, whose own keys follow: `replayer list probes -v`.  Every probe also has
the keys `clients`, `cross_check`, `device`, `i_will_lose_data` and `seed`: see `replayer run
--help`.
"""

from contextlib import AbstractContextManager
from typing import Any

from replayer import probes
from replayer.errors import Impossible, NotFound
from replayer.machine.host import Host
from replayer.model import StepSpec
from replayer.run.context import Context
from replayer.run.probe_context import ProbeContext, ProbeSpec
from replayer.run.step_plugin import Footprint
from replayer.storage import device
from replayer.storage.files import Workspace, check_parent, enough
from replayer.watch.client_pools import LOCAL_CLIENTS
from replayer.watch.sampler import Sampler

Spec = ProbeSpec
OPTIONS = frozenset({"clients", "cross_check", "device", "i_will_lose_data"})


def needs_database(_spec: StepSpec) -> bool:
    """Return False: a probe never needs a database."""
    return False


def run_here_reason(_spec: StepSpec) -> str:
    """Return the error words for a run on another host: a probe must be started on that host."""
    return "a probe measures a host that has no part in it: run it there"


def uses_client_hosts(spec: ProbeSpec) -> bool:
    """Return whether the hosts named by --clients can take part, each with files of the probe."""
    return probes.load(spec.probe).ON_HOSTS and not spec.device


def spec_of(table: dict[str, Any]) -> type[StepSpec]:
    """Return the class with the keys of the probe that the step's table names.

    `table` is the step's table in the workload file.  Raise NotFound for a probe that does not
    exist, or for a table without one.
    """
    name = table.get("probe")
    if not isinstance(name, str):
        raise NotFound('a probe step needs a line such as probe = "orion"')
    return probes.load(name).Spec


def footprint(spec: ProbeSpec, _block_size: int) -> Footprint:
    """Return the bytes of the probe's files on disk; 0 if it works on a device.

    Several probes of a workload need the space only once: each removes its files before the next
    probe begins.
    """
    needs = 0 if spec.device else probes.load(spec.probe).needs(spec, Host())
    return Footprint("files of probes", spec.clients * needs)


def check(spec: ProbeSpec, context: Context) -> None:
    """Raise Impossible if the probe's files cannot be made, or if the disk has too little space.

    Also raise Impossible if the probe cannot use the device that the key `device` names.  Nothing
    is written by this check.
    """
    probe = probes.load(spec.probe)
    spec = _dealt(spec, context)
    needs = probe.needs(spec, context.host)
    check_parent(context.storage)
    if needs and not spec.device:
        enough(context.storage, spec.clients * needs)
    if spec.device:
        if not probe.ON_DEVICE or not needs:
            raise Impossible(f"{spec.name}: the probe {spec.probe} does not work on a device")
        device.target(spec.device)


def run(spec: ProbeSpec, context: Context) -> None:
    """Run the probe, and record its results; its files are in a new folder, which is removed."""
    spec = _dealt(spec, context)
    with Workspace(context.storage) as workspace, _watching(spec, context) as sampler:
        probe_context = ProbeContext(
            spec=spec,
            host=context.host,
            progress=context.progress,
            sampler=sampler,
            storage=context.storage,
            findings=context.findings,
            workspace=workspace,
            clients=context.clients if uses_client_hosts(spec) else LOCAL_CLIENTS,
        )
        probes.load(spec.probe).run(spec, probe_context)


def _dealt(spec: ProbeSpec, context: Context) -> ProbeSpec:
    """Return the probe's keys; if client hosts take part, `clients` becomes the number of them.

    Client hosts are those named by --clients.  Raise Impossible if the keys contradict them, such
    as another number of clients.
    """
    hosts = context.clients.names
    if not hosts or not uses_client_hosts(spec):
        return spec
    if spec.clients not in {1, len(hosts)}:
        raise Impossible(
            f"{spec.name}: clients = {spec.clients} where the {len(hosts)} hosts of --clients are "
            f"its clients: leave one of the two out"
        )
    if spec.cross_check:
        raise Impossible(
            f"{spec.name}: --cross-check runs another tool on this host, and the clients are "
            f"others: leave one of the two out"
        )
    return spec.model_copy(update={"clients": len(hosts)})


def _watching(spec: ProbeSpec, context: Context) -> AbstractContextManager[Sampler]:
    """Return a context manager that yields the sampler of the disk that the probe uses.

    A sampler copies the kernel's counters every second.  The disk is the one that the key `device`
    names, or else that of the probe's files.
    """
    if spec.device:
        return context.watching(device.name_of(spec.device))
    return context.watching(context.host.device_of(context.storage), context.storage)
