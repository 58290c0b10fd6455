"""The certificates by which the processes of one run know each other, and what they refuse.

Each process has a pair of its own, and takes at the other end only the certificates that it was
given: an agent those of who commands it, so that no agent can command another.
"""

import datetime as dt
import functools
import io
import os
import pickle as stdlib_pickle
import secrets
import ssl
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from distributed.protocol import pickle
from distributed.security import Security

from replayer.cluster.dask_settings import Secret

_OUTLIVES = dt.timedelta(days=2)
"""A certificate holds from before now to after: clocks of hosts may be wrong by hours."""
_PLAIN = {kind.__name__: kind for kind in (bytes, bytearray, str, int, float, bool, tuple, list)}


@dataclass(frozen=True, slots=True)
class Roles:
    """The pairs of one run."""

    coordinator: Secret = field(repr=False)
    """Of the process that starts the agents, and of the scheduler in it."""
    delegate: Secret = field(repr=False)
    """Of a run that is sent to the host of the database, and commands the clients from there."""
    agents: dict[str, Secret] = field(repr=False)
    """By the name of an agent."""

    def toward(self, agent: str) -> Secret:
        """Return the coordinator's pair for a connection to one agent, and to no other."""
        return replace(self.coordinator, authority=self.agents[agent].certificate)

    def delegated(self, agent: str) -> Secret:
        """Return the delegate's pair for a connection to one agent, and to no other."""
        return replace(self.delegate, authority=self.agents[agent].certificate)


def new_roles(agents: Iterable[str]) -> Roles:
    """Return new pairs for a coordinator and its agents."""
    coordinator, delegate = new_secret(), new_secret()
    commanding = f"{coordinator.certificate}{delegate.certificate}"
    each = {name: replace(new_secret(), authority=commanding) for name in agents}
    taken = "".join(one.certificate for one in each.values())
    # The scheduler is spoken to by its own process, too.
    own = replace(coordinator, authority=f"{coordinator.certificate}{taken}")
    return Roles(own, delegate, each)


def new_secret() -> Secret:
    """Return a new certificate, signed by itself, which can sign no other.

    Dask's Security.temporary makes one that begins to hold now, by this host's clock.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    # OpenSSL looks for a certificate that it trusts by this name.
    title = f"replayer {secrets.token_hex(8)}"
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, title)])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("replayer")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
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


@functools.cache
def security(secret: Secret | None) -> Security:
    """Return Dask's object for it; the key is in memory, and in no folder for temporary files.

    None is no encryption, which is for processes of this host.
    """
    if secret is None:
        return Security(require_encryption=False)
    certificate, key = (_in_memory(text) for text in (secret.certificate, secret.key))
    roles = ("client", "scheduler", "worker")
    return Security(
        require_encryption=True,
        tls_ca_file=secret.authority or secret.certificate,
        tls_min_version=ssl.TLSVersion.TLSv1_3,
        **{f"tls_{role}_cert": certificate for role in roles},
        **{f"tls_{role}_key": key for role in roles},
    )


@functools.cache
def _in_memory(text: str) -> str:
    """Return the path of a file that only this process has, and nobody can list."""
    fd = os.memfd_create("replayer", os.MFD_CLOEXEC)
    os.write(fd, text.encode())
    return f"/proc/self/fd/{fd}"


def without_pickles() -> None:
    """Have distributed refuse every pickle that arrives, but of plain values.

    It unpickles what any message holds before it looks at who asks for what; replayer's own
    messages, and those with which a worker joins a scheduler, have none.  Those with which a
    scheduler answers a client name types such as bytes.
    """
    pickle.loads = _plain


class _Plain(stdlib_pickle.Unpickler):
    """Reads a pickle that names nothing but types of plain values."""

    def find_class(self, module: str, name: str) -> Any:
        """Return such a type; raises ValueError for anything else."""
        if module == "builtins" and name in _PLAIN:
            return _PLAIN[name]
        raise ValueError(f"replayer takes no {module}.{name} that another host has pickled")


def _plain(data: bytes, *, buffers: Iterable[Any] = ()) -> Any:
    return _Plain(io.BytesIO(data), buffers=buffers).load()
