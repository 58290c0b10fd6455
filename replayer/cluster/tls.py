"""The certificates by which the processes of one run authenticate each other.

Each process has its own certificate and key. At the other end of a connection it accepts only the
certificates that it was given. An agent is given only those of the processes that may command it,
so no agent can command another. Pickles are refused, except those of plain values.
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
"""A certificate is valid from this long before now: clocks of hosts may be wrong by hours.

It is valid until 15 times as long after now.
"""
_PLAIN = {kind.__name__: kind for kind in (bytes, bytearray, str, int, float, bool, tuple, list)}


@dataclass(frozen=True, slots=True)
class Roles:
    """The certificates and keys of all processes of one run."""

    coordinator: Secret = field(repr=False)
    """Certificate and key of the process that starts the agents and has the scheduler."""
    delegate: Secret = field(repr=False)
    """Certificate and key of a run on the database's host, from where it commands the clients."""
    agents: dict[str, Secret] = field(repr=False)
    """Name of agent -> its certificate and key."""

    def toward(self, agent: str) -> Secret:
        """Return the coordinator's certificate and key, for connections to this agent only."""
        return replace(self.coordinator, authority=self.agents[agent].certificate)

    def delegated(self, agent: str) -> Secret:
        """Return the delegate's certificate and key, for connections to this agent only."""
        return replace(self.delegate, authority=self.agents[agent].certificate)


def new_roles(agents: Iterable[str]) -> Roles:
    """Return new certificates and keys for all processes of a run.

    The coordinator is the process that starts the agents. Its delegate is a run that was sent to
    another host and commands the agents from there. `agents` are the names of the agents.
    """
    coordinator, delegate = new_secret(), new_secret()
    commanding = f"{coordinator.certificate}{delegate.certificate}"
    each = {name: replace(new_secret(), authority=commanding) for name in agents}
    taken = "".join(one.certificate for one in each.values())
    # The scheduler's own process connects to it, too.
    own = replace(coordinator, authority=f"{coordinator.certificate}{taken}")
    return Roles(own, delegate, each)


def new_secret() -> Secret:
    """Return a new self-signed certificate, which cannot sign others, and its key.

    Dask's Security.temporary is not used, because its certificate is valid from now on: a host
    whose clock is behind would refuse it.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    # OpenSSL looks up a trusted certificate by this name.
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
    """Return Dask's security object for a certificate; its key is kept in memory, not on disk.

    For None, the object allows connections without encryption, which are only used on this host.
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
    """Write a text to a new file in memory and return its path, valid in this process only."""
    fd = os.memfd_create("replayer", os.MFD_CLOEXEC)
    os.write(fd, text.encode())
    return f"/proc/self/fd/{fd}"


def without_pickles() -> None:
    """Make distributed refuse every received pickle, except those of plain values.

    Distributed unpickles the contents of any message before it checks the sender and the request.
    Replayer's own messages, and those with which a worker joins a scheduler, have no pickles. A
    scheduler's answers to a client do: they name types such as bytes.
    """
    pickle.loads = _plain


class _Plain(stdlib_pickle.Unpickler):
    """An unpickler that allows only the types of plain values."""

    def find_class(self, module: str, name: str) -> Any:
        """Return a type of plain values, such as `bytes`; raise ValueError for any other name."""
        if module == "builtins" and name in _PLAIN:
            return _PLAIN[name]
        raise ValueError(f"replayer takes no {module}.{name} that another host has pickled")


def _plain(data: bytes, *, buffers: Iterable[Any] = ()) -> Any:
    return _Plain(io.BytesIO(data), buffers=buffers).load()
