"""Dask's configuration for a benchmark: what is on by default there, and wrong here, with why.

`configured()` is called before anything of distributed is imported: some of its modules read their
settings while they are imported.
"""

import datetime as dt
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distributed.security import Security

CONNECT_SECONDS = 5.0
CALL_SECONDS = 4.0
"""A host that has not answered for so long is lost."""
LEASE_SECONDS = 8.0
"""An agent that was not beaten for so long ends itself, and what it started."""
START_SECONDS = 30.0
_OUTLIVES = dt.timedelta(days=2)
"""A certificate holds from before now to after: clocks of hosts may be wrong by hours."""

DASK: Mapping[str, Any] = {
    # Whatever a user's own ~/.config/dask preloads has no place in a measurement.
    "distributed.scheduler.preload": [],
    "distributed.worker.preload": [],
    # A job that failed is not done again in silence, nor by another host.
    "distributed.scheduler.allowed-failures": 0,
    "distributed.scheduler.work-stealing": False,
    "distributed.comm.retry.count": 0,
    # Leases are replayer's own: seconds, where this would be minutes.
    "distributed.scheduler.worker-ttl": None,
    "distributed.scheduler.idle-timeout": None,
    "distributed.scheduler.active-memory-manager.start": False,
    # These sample stacks every 10 ms and the interpreter's lock every ms, in the measured window.
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.admin.system-monitor.disk": False,
    "distributed.admin.system-monitor.host-cpu": False,
    "distributed.admin.system-monitor.interval": "1h",
    "distributed.admin.system-monitor.log-length": 1,
    "distributed.admin.tick.interval": "1h",
    "distributed.admin.tick.cycle": "1h",
    "distributed.admin.log-length": 100,
    "distributed.admin.low-level-log-length": 10,
    "distributed.diagnostics.nvml": False,
    # Pages over plain HTTP, for anybody who asks.
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    # Memory is what the jobs need; nothing is to be spilled to a disk under test, paused or ended.
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
    "distributed.worker.use-file-locking": False,
    # Never compressed (results are small, and it takes CPU), never without TLS.
    "distributed.comm.compression": False,
    "distributed.comm.require-encryption": True,
    "distributed.comm.tls.min-version": 1.3,
    "distributed.comm.timeouts.connect": f"{CONNECT_SECONDS} s",
    # Dask refuses less than 11 s; replayer's own time-outs are shorter.
    "distributed.comm.timeouts.tcp": "11s",
    "distributed.deploy.lost-worker-timeout": "1s",
}
LOGGING = {"distributed": "critical", "tornado": "critical", "asyncio": "critical"}
"""Losses are told in a sentence, by replayer."""


def configured() -> None:
    """Set all this for the process; what a user has set for Dask otherwise stays."""
    import dask.config  # noqa: PLC0415 - the core runs without Dask

    dask.config.set({**DASK, "logging": LOGGING})


@dataclass(frozen=True, slots=True)
class Secret:
    """The certificate of one run and its key: whoever has both belongs to it."""

    certificate: str = field(repr=False)
    key: str = field(repr=False)


def new_secret() -> Secret:
    """Return a new certificate, signed by itself.

    Dask's Security.temporary makes one that begins to hold now, by this host's clock.
    """
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "replayer")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("replayer")]), critical=False)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _OUTLIVES)
        .not_valid_after(now + _OUTLIVES * 15)
        .sign(key, hashes.SHA256())
    )
    return Secret(
        certificate.public_bytes(serialization.Encoding.PEM).decode(),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode(),
    )


def security(secret: Secret) -> "Security":
    """Return Dask's object for it; the key is in memory, and in no folder for temporary files."""
    from distributed.security import Security  # noqa: PLC0415

    certificate, key = (_in_memory(text) for text in (secret.certificate, secret.key))
    roles = ("client", "scheduler", "worker")
    return Security(
        require_encryption=True,
        tls_ca_file=certificate,
        tls_min_version=ssl.TLSVersion.TLSv1_3,
        **{f"tls_{role}_cert": certificate for role in roles},
        **{f"tls_{role}_key": key for role in roles},
    )


def _in_memory(text: str) -> str:
    """Return the path of a file that only this process has, and nobody can list."""
    fd = os.memfd_create("replayer", os.MFD_CLOEXEC)
    os.write(fd, text.encode())
    return f"/proc/self/fd/{fd}"


def without_pickles() -> None:
    """Have distributed refuse every pickle that arrives.

    It unpickles what any message holds before it looks at who asks for what; replayer's own
    messages, and those with which a worker joins a scheduler, have none.
    """
    from distributed.protocol import pickle  # noqa: PLC0415

    pickle.loads = _refused


def _refused(*_: object, **__: object) -> Any:
    raise ValueError("replayer unpickles nothing that another host sends")
