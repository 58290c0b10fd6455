"""Several hosts on this machine; `from tests.namespaces import rig`.

    with rig("user", "db", "client1", clocks={"client1": 3600}, delays={"db": 1.0}) as hosts:
        hosts["user"].run("ssh", "client1", "hostname")

A host is a set of namespaces: a network of its own on a bridge that all share, an own process
tree, /srv, /run, /dev/shm, System V memory and host name, where asked for its own clocks
(CLOCK_MONOTONIC and CLOCK_BOOTTIME), and OpenSSH's sshd on port 22.  Names lead to addresses by
/etc/hosts, and plain `ssh NAME` works in each of them, as root.  What replayer writes for itself,
temporary files and results lie below the host's own /srv.

Everything dies with the process that made it, also when that is killed: each host's first process
gets the kernel's signal upon the end of its parent, and with a first process its whole process tree
goes, its mounts and its network devices.  What is left then is a folder, swept by the next rig.
"""

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from replayer import journal
from replayer.engines import engine as engines
from replayer.servers import programs
from tests.conftest import missing

_PREFIX = "replayer-rig-"
_NETWORK = "10.137.0"
_NEEDED = ("unshare", "nsenter", "setpriv", "ip", "ssh", "ssh-keygen")
_SSHD = "/usr/sbin/sshd"
_WIRE = Path(__file__).with_name("wire.py")
_HELD = ("setpriv", "--pdeathsig", "KILL", "unshare", "--fork", "--kill-child=SIGKILL", "--pid")
_START = """
set -e
hostname {name}
mount --bind {own} /srv
mount --bind {rig}/hosts /etc/hosts
mount --bind {rig}/ssh_config /etc/ssh/ssh_config
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -m 755 /run/sshd /run/lock
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
ip link set lo up
trap '' CHLD
echo ready
exec sleep infinity
"""
"""The last line's process reaps every orphan of the host, as it ignores the ends of children."""
_SWITCH = """
set -e
ip link add br0 type bridge
ip link set br0 up
echo ready
exec sleep infinity
"""
_SSH_CONFIG = """
Host *
  IdentityFile {rig}/key
  IdentitiesOnly yes
  UserKnownHostsFile {rig}/known_hosts
  StrictHostKeyChecking yes
"""
_SSHD_CONFIG = """
Port 22
HostKey {rig}/host_key
AuthorizedKeysFile {rig}/key.pub
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
PrintMotd no
MaxStartups 100
PidFile none
SetEnv {environment}
"""
_ENVIRONMENT = {
    "REPLAYER_HOME": "/srv/replayer",
    "REPLAYER_RESULTS": "/srv/results",
    "TMPDIR": "/srv/tmp",
}
PASSWORD = "not-in-any-log"


class Started(subprocess.Popen[Any]):
    """A command of a host that goes on."""

    inside = 0
    """Its own process, a child of this one, which enters the host; 0 if it has ended already."""
    file: Path
    """Where a run that was started has its result."""


class Host:
    """One host of a rig."""

    switch: int

    def __init__(self, name: str, number: int, folder: Path, held: "subprocess.Popen[str]") -> None:
        self.name = name
        self.address = f"{_NETWORK}.{number}"
        self.port = f"p{number}"
        """The other end of its cable, in the switch."""
        self.own = folder / name
        """Its /srv, seen from outside."""
        self.held = held
        self.first = _child(held.pid)

    def command(self, *words: object, user: str | None = None) -> list[str]:
        """Return what runs a command in this host."""
        enter = ["nsenter", "--target", self.first, "--all"]
        change = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups"] if user else []
        variables = [
            "env",
            "-C",
            "/srv",
            *(f"{name}={value}" for name, value in _ENVIRONMENT.items()),
        ]
        return [str(word) for word in (*enter, *change, *variables, *words)]

    def run(
        self,
        *words: object,
        user: str | None = None,
        check: bool = True,
        timeout: float = 300,
        **options: Any,
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command to its end and return it, with what it printed."""
        usual = {"capture_output": True, "text": True}
        done: subprocess.CompletedProcess[str] = subprocess.run(
            self.command(*words, user=user), **{**usual, **options}, check=False, timeout=timeout
        )
        assert not check or done.returncode == 0, (words, done.returncode, done.stdout, done.stderr)
        return done

    def start(self, *words: object, user: str | None = None, **options: Any) -> Started:
        """Start a command; `inside` is its own process, a child of what is returned."""
        started = Started(self.command(*words, user=user), **options)
        deadline = time.monotonic() + 120
        inside = 0
        while started.poll() is None and not (inside := _child(started.pid, missing=0)):
            assert time.monotonic() < deadline, f"{words} did not start"
            time.sleep(0.001)
        started.inside = inside if started.poll() is None else 0
        return started

    def processes(self) -> dict[int, str]:
        """Return the command lines of all processes but the first and sshd, by their pid outside.

        A process that has ended and was not waited for has no command line, and is left out.
        """
        lines = {pid: _words(pid) for pid in self._all() if pid != self.first}
        return {
            pid: shlex.join(words)
            for pid, words in lines.items()
            if words and words[0] != _SSHD and not words[0].startswith("sshd: ")
        }

    def cut(self) -> None:
        """Take the host's cable out."""
        self._switched("set", self.port, "down")

    def mend(self) -> None:
        """Put the cable in again."""
        self._switched("set", self.port, "up")

    def stop(self) -> None:
        """Stop every process of the host but the first, as if the host hung."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let them all go on."""
        self._signal(signal.SIGCONT)

    def end(self) -> None:
        """Kill everything in the host at once, as if its power were cut."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.first, signal.SIGKILL)
        _wait(self.held)

    def _switched(self, *words: object) -> None:
        call("nsenter", "--target", self.switch, "--net", "ip", "link", *words)

    def _signal(self, number: int) -> None:
        for pid in self._all():
            if pid != self.first:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)

    def _all(self) -> list[int]:
        mine = _namespace(self.first)
        every = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
        return [pid for pid in every if mine and _namespace(pid) == mine]


@contextlib.contextmanager
def rig(
    *names: str, clocks: Mapping[str, int] | None = None, delays: Mapping[str, float] | None = None
) -> Iterator[dict[str, Host]]:
    """Yield hosts by name; `clocks` says by how many whole seconds whose clocks are ahead.

    `delays` says whose cable takes how many milliseconds each way.  Skips where that is impossible.
    """
    needed()
    sweep()
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-{_age()}-", dir="/tmp"))
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder)
        folder.chmod(0o755)
        _write_files(folder, names)
        switch = _held("--net", script=_SWITCH)
        stack.callback(_ended, switch)
        hosts: dict[str, Host] = {}
        for number, name in enumerate(names, 1):
            hosts[name] = host = _host(name, number, folder, (clocks or {}).get(name, 0))
            stack.callback(host.end)
            host.switch = _child(switch.pid)
            stack.enter_context(_cable(host, (delays or {}).get(name, 0)))
        for host in hosts.values():
            _sshd(host, folder)
        yield hosts


def needed() -> None:
    """Skip, or fail if it is required, where a rig cannot be made."""
    if os.geteuid():
        pytest.skip("only root can make network namespaces")
    absent = [one for one in _NEEDED if shutil.which(one) is None]
    if absent:
        missing(absent[0], "the rig of several hosts needs it")
    if not Path(_SSHD).is_file():
        missing("openssh-server", f"{_SSHD} is not there")


def sweep() -> None:
    """Remove the folders of rigs whose process is gone."""
    for folder in Path("/tmp").glob(f"{_PREFIX}*-*-*"):
        _, _, pid, age, _ = folder.name.split("-", 4)
        if _age(int(pid)) != age:
            shutil.rmtree(folder, ignore_errors=True)


def postgres(host: Host, *settings: str, port: int = 5432, password: str = PASSWORD) -> str:
    """Start a PostgreSQL in a host, which takes connections from all others; return its URL."""
    engine = engines.load("postgres")
    own = programs.find(engine.title, engine.spec.server)
    assert own.user is not None, "root has another user serve"
    user, data = own.user.name, f"/srv/postgres-{port}"
    outside = host.own / f"postgres-{port}"
    outside.mkdir()
    shutil.chown(outside, user)
    (host.own / "password").write_text(password)
    host.run(
        own.folder / "initdb", "-D", data, "-U", "app", "--no-sync", "--locale=C", "-E", "UTF8",
        "--auth-local=trust", "--auth-host=scram-sha-256", "--pwfile=/srv/password", user=user,
    )  # fmt: skip
    with (outside / "pg_hba.conf").open("a") as rules:
        rules.write("host all all all scram-sha-256\n")
    with (outside / "postgresql.conf").open("a") as file:
        file.write(f"port = {port}\nlisten_addresses = '*'\nunix_socket_directories = '/srv/tmp'\n")
        file.writelines(f"{one}\n" for one in settings)
    started = host.run(
        own.folder / "pg_ctl", "start", "-w", "-s", "-D", data, "-l", f"{data}/log", user=user,
        capture_output=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    assert started.returncode == 0, (outside / "log").read_text()
    return f"postgresql://app:{password}@{host.name}:{port}/postgres"


def mariadb(host: Host, port: int = 3306, password: str = PASSWORD) -> str:
    """Start a MariaDB in a host, which takes connections from all others; return its URL."""
    engine = engines.load("mariadb")
    own = programs.find(engine.title, engine.spec.server)
    assert own.user is not None, "root has another user serve"
    user, data = own.user.name, f"/srv/mariadb-{port}"
    outside = host.own / f"mariadb-{port}"
    outside.mkdir()
    shutil.chown(outside, user)
    host.run(
        own.folder / "../bin/mariadb-install-db", "--no-defaults", f"--datadir={data}",
        f"--basedir={own.folder}/..", "--auth-root-authentication-method=normal",
        "--skip-test-db", user=user,
    )  # fmt: skip
    (outside / "init.sql").write_text(f"GRANT ALL ON *.* TO app IDENTIFIED BY '{password}';\n")
    host.run(
        "setsid", "--fork", own.folder / "mariadbd", "--no-defaults", f"--datadir={data}",
        f"--port={port}",
        "--socket=/srv/tmp/mariadb.sock", f"--log-error={data}/log.err", "--skip-name-resolve",
        f"--init-file={data}/init.sql", "--skip-log-bin", user=user,
        capture_output=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 120
    log = outside / "log.err"
    while not log.is_file() or "ready for connections" not in log.read_text(errors="replace"):
        assert time.monotonic() < deadline, log.read_text() if log.is_file() else "no log"
        time.sleep(0.1)
    return f"mariadb://app:{password}@{host.address}:{port}/mysql"


def call(*words: object, **options: Any) -> str:
    """Run a command of this machine's and return what it printed."""
    done: subprocess.CompletedProcess[str] = subprocess.run(
        [str(w) for w in words], capture_output=True, text=True, check=False, **options
    )
    assert done.returncode == 0, (words, done.returncode, done.stderr)
    return done.stdout


def _write_files(folder: Path, names: tuple[str, ...]) -> None:
    for name in ("key", "host_key"):
        call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", folder / name)
    kind, public, _ = (folder / "host_key.pub").read_text().split()
    (folder / "known_hosts").write_text(f"* {kind} {public}\n")
    addresses = [f"{_NETWORK}.{number} {name}\n" for number, name in enumerate(names, 1)]
    (folder / "hosts").write_text("127.0.0.1 localhost\n" + "".join(addresses))
    (folder / "ssh_config").write_text(_SSH_CONFIG.format(rig=folder))
    environment = " ".join(f"{name}={value}" for name, value in _ENVIRONMENT.items())
    (folder / "sshd_config").write_text(_SSHD_CONFIG.format(rig=folder, environment=environment))


def _host(name: str, number: int, folder: Path, seconds: int) -> Host:
    own = folder / name
    (own / "tmp").mkdir(parents=True)
    (own / "tmp").chmod(0o1777)
    clock = ["--time", f"--monotonic={seconds}", f"--boottime={seconds}"] if seconds else []
    script = _START.format(name=name, own=own, rig=folder)
    kinds = ("--mount", "--mount-proc", "--uts", "--ipc", "--net")
    return Host(name, number, folder, _held(*kinds, *clock, script=script))


def _held(*kinds: str, script: str) -> "subprocess.Popen[str]":
    """Return the process that holds new namespaces, once its script says that it is ready."""
    held = subprocess.Popen(
        [*_HELD, *kinds, "--", "sh", "-c", script],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert held.stdout is not None
    assert held.stderr is not None
    if held.stdout.readline() != "ready\n":
        held.kill()
        pytest.skip(f"no namespaces can be made here: {held.communicate()[1].strip()}")
    held.stderr.close()
    return held


def _ended(held: "subprocess.Popen[str]") -> None:
    held.kill()
    _wait(held)


def _wait(held: "subprocess.Popen[str]") -> None:
    held.wait(timeout=120)
    if held.stdout is not None:
        held.stdout.close()


@contextlib.contextmanager
def _cable(host: Host, milliseconds: float) -> Iterator[None]:
    """Lead a host's eth0 to the switch: by a pair of devices, or through what delays each frame."""
    if not milliseconds:
        host._switched(
            "add", host.port, "type", "veth", "peer", "name", "eth0", "netns", host.first
        )
        _plugged(host)
        yield
        return
    between = (host.first, host.switch, host.port, milliseconds)
    words = ("setpriv", "--pdeathsig", "KILL", sys.executable, "-I", _WIRE, *between)
    wire = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, text=True)
    try:
        assert wire.stdout is not None
        assert wire.stdout.readline() == "ready\n", "the cable that delays did not start"
        _plugged(host)
        yield
    finally:
        _ended(wire)


def _plugged(host: Host) -> None:
    host._switched("set", host.port, "master", "br0", "up")
    inside = ("nsenter", "--target", host.first, "--net", "ip")
    call(*inside, "address", "add", f"{host.address}/24", "dev", "eth0")
    call(*inside, "link", "set", "eth0", "up")


def _sshd(host: Host, folder: Path) -> None:
    """Start sshd in a host, and return when it listens."""
    with (folder / f"{host.name}.sshd").open("ab") as log:
        call(*host.command(_SSHD, "-f", folder / "sshd_config", "-E", log.name))


def _child(pid: int, missing: int | None = None) -> int:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(children[0]) if children or missing is None else missing


def _words(pid: int) -> list[str]:
    with contextlib.suppress(OSError):
        line = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").rstrip("\0")
        return line.split("\0") if line else []
    return []


def _namespace(pid: int) -> str:
    with contextlib.suppress(OSError):
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    return ""


def _age(pid: int | None = None) -> str:
    """Return when a process began, in ticks of this boot; "" if it is gone."""
    return journal.identity(pid or os.getpid()).rpartition(":")[2]
