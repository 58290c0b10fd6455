"""Memory is really bounded on this machine, and really given back: at the end and after a kill."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from replayer import factors, journal
from replayer.conditions import memory_bound
from replayer.conditions.residency import residency
from replayer.engines.connection import Database
from replayer.errors import Impossible, ReplayerError
from replayer.experiments.variant import applied, parse_variant
from replayer.machine import page_cache
from replayer.machine.host import Host
from replayer.model import ReadOrigin
from replayer.run import recovery
from replayer.run.context import Context
from replayer.servers.open import Server
from replayer.steps.sessions import step as sessions
from replayer.steps.sessions.spec import Spec
from tests.known import known
from tests.performed import performed
from tests.waiting import wait_until

MIB = 1 << 20
HOST = Host()


def needs(kind: str) -> None:
    """Skip a test on a machine that cannot bound memory that way."""
    why = memory_bound.refusal(kind, HOST)
    if why:
        pytest.skip(f"{kind}: {why}")


def group_of(pid: int | str) -> str:
    """Return the lines of a process's cgroups."""
    return Path(f"/proc/{pid}/cgroup").read_text()


def locked_bytes(pid: int) -> int:
    """Return how much memory a process has locked."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmLck:"))


def left_by_killed(code: str) -> list[str]:
    """Run Python that takes something and says `taken`, kill it with SIGKILL, return its output."""
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    said = child.stdout.readline()
    assert said.startswith("taken"), said
    child.kill()
    child.wait()
    child.stdout.close()
    return said.split()[1:]


def test_cgroup_confines_the_server_and_lets_it_go(server: Server, database: Database) -> None:
    """All processes of the server, also new ones, are in the group, and afterwards home again."""
    needs("cgroup")
    before = {pid: group_of(pid) for pid in server.pids()}
    with memory_bound.bound(
        "cgroup", server, HOST, limit_bytes=256 * MIB, changed=pytest.fail
    ) as taken:
        group = Path(taken.how.rpartition(" ")[2])
        inside = {int(pid) for pid in (group / "cgroup.procs").read_text().split()}
        limits = [group / name for name in ("memory.limit_in_bytes", "memory.max")]
        limit = next(int(path.read_text()) for path in limits if path.exists())
        session = database.query("SELECT pg_backend_pid() AS pid")[0]["pid"]

        assert inside == set(server.pids())
        assert session in inside
        assert limit == 256 * MIB
        assert len(list(journal.notes("cgroup"))) == 1

    assert not group.exists()
    assert {pid: group_of(pid) for pid in before} == before
    assert list(journal.notes("cgroup")) == []


def test_cgroup_bounds_the_page_cache(server: Server, database: Database, tmp_path: Path) -> None:
    """A file that is read inside the group stays in the page cache only as far as the limit."""
    needs("cgroup")
    large = known(server.data_directory()) / "large-file"
    large.write_bytes(os.urandom(MIB) * 96)
    large.chmod(0o644)
    try:
        page_cache.forget(large)
        with memory_bound.bound("cgroup", server, HOST, limit_bytes=48 * MIB, changed=pytest.fail):
            database.query("SELECT length(pg_read_binary_file('large-file', 0, 1))")
            for offset in range(0, 96 * MIB, 4 * MIB):
                database.query(
                    f"SELECT length(pg_read_binary_file('large-file', {offset}, {4 * MIB}))"
                )
            resident = residency([large]).resident_bytes
    finally:
        large.unlink()

    assert resident is not None
    assert resident <= 48 * MIB


@pytest.mark.parametrize("change", ["higher", "higher and back", "moved", "gone"])
def test_a_cgroup_that_another_program_changed_is_told(
    server: Server, database: Database, change: str
) -> None:
    """A higher limit, or a server process outside of it, would have cached more than is said."""
    needs("cgroup")
    notes: list[str] = []
    with memory_bound.bound(
        "cgroup", server, HOST, limit_bytes=64 * MIB, changed=notes.append
    ) as taken:
        group = known(taken.group)
        limits = [group / name for name in ("memory.limit_in_bytes", "memory.max")]
        limit = next(path for path in limits if path.exists())
        home = Path(next(journal.notes("cgroup")).text("home"))
        if change.startswith("higher"):
            limit.write_text(str(512 * MIB))
        if change == "higher and back":
            database.query("SELECT length(repeat('x', 200 << 20))")
            _set_back(limit)
        if change == "moved":
            (home / "cgroup.procs").write_text(str(server.pids()[0]))
        while change == "gone" and group.exists():
            for pid in (group / "cgroup.procs").read_text().split():
                (home / "cgroup.procs").write_text(pid)
            with contextlib.suppress(OSError):  # a process was started meanwhile
                group.rmdir()

    [note] = notes
    shown = {
        "higher": "64.0 MiB at first, 512 MiB at the end",
        "higher and back": "with a limit of 64.0 MiB held",
        "moved": "1 server processes were out of",
        "gone": "was gone at the end",
    }
    assert shown[change] in note


def _set_back(limit: Path) -> None:
    """Set a limit of 64 MiB again, for which the kernel must take memory back first."""

    def set_back() -> bool:
        with contextlib.suppress(OSError):
            limit.write_text(str(64 * MIB))
        return limit.read_text().strip() == str(64 * MIB)

    wait_until(set_back)


def test_cgroup_is_given_back_at_an_error(server: Server) -> None:
    """Whatever happens inside, the group is gone afterwards."""
    needs("cgroup")
    with (
        contextlib.suppress(RuntimeError),
        memory_bound.bound(
            "cgroup", server, HOST, limit_bytes=256 * MIB, changed=pytest.fail
        ) as taken,
    ):
        raise RuntimeError

    assert not Path(taken.how.rpartition(" ")[2]).exists()
    assert list(journal.notes("cgroup")) == []


def test_killed_replayer_leaves_a_cgroup_that_is_given_back(server_home: Path) -> None:
    """After a SIGKILL the next command moves the server's processes home and removes the group."""
    needs("cgroup")
    (pid, group) = left_by_killed(
        """
        import subprocess, time
        from replayer.conditions import memory_bound as memory
        from replayer.machine.host import Host
        class Place:
            can_stop = True
            child = subprocess.Popen(["sleep", "60"])
            def pids(self):
                return [self.child.pid]
        with memory.bound("cgroup", Place(), Host(), limit_bytes=64 << 20, changed=print) as taken:
            print("taken", Place.child.pid, taken.how.split()[-1], flush=True)
            time.sleep(60)
        """
    )
    try:
        assert Path(group).is_dir()
        said: list[str] = []
        recovery.give_back(said.append)

        assert any(group in text for text in said)
        assert not Path(group).exists()
        assert group_of(pid) == group_of(os.getpid())
    finally:
        os.kill(int(pid), signal.SIGKILL)


@pytest.mark.alone
def test_huge_pages_are_reserved_and_given_back(server: Server) -> None:
    """Free memory becomes huge pages, and as many as before are there afterwards."""
    needs("hugepages")
    before = HOST.memory("HugePages_Total")
    HOST.write("proc/sys/vm/drop_caches", "1")
    keep = HOST.memory("MemFree") - 64 * MIB
    with memory_bound.bound(
        "hugepages", server, HOST, keep_bytes=keep, changed=pytest.fail
    ) as taken:
        during = HOST.memory("HugePages_Total")

        assert during > before
        assert taken.bytes == (during - before) * HOST.memory("Hugepagesize")

    assert HOST.memory("HugePages_Total") == before
    assert list(journal.notes("hugepages")) == []


@pytest.mark.alone
def test_killed_replayer_leaves_huge_pages_that_are_given_back(server_home: Path) -> None:
    """After a SIGKILL the next command gives the reserved pages back."""
    needs("hugepages")
    before = HOST.memory("HugePages_Total")
    left_by_killed(
        """
        import time
        from replayer.conditions import memory_bound as memory
        from replayer.machine.host import Host
        host = Host()
        host.write("proc/sys/vm/drop_caches", "1")
        keep = host.memory("MemFree") - (64 << 20)
        with memory.bound("hugepages", None, host, keep_bytes=keep, changed=print):
            print("taken", flush=True)
            time.sleep(60)
        """
    )
    assert HOST.memory("HugePages_Total") > before
    said: list[str] = []
    recovery.give_back(said.append)

    assert any("huge pages were given back" in text for text in said)
    assert HOST.memory("HugePages_Total") == before


@pytest.mark.alone
def test_ballast_is_locked_and_given_back(server: Server) -> None:
    """The memory is held by one child, locked, and free again when it is gone."""
    needs("ballast")
    keep = HOST.memory("MemAvailable") - 64 * MIB
    with memory_bound.bound("ballast", server, HOST, keep_bytes=keep, changed=pytest.fail) as taken:
        child = int(taken.how.split()[-1])
        locked = locked_bytes(child)

        assert locked >= taken.bytes > 0

    assert not journal.identity(child)
    assert list(journal.notes("ballast")) == []


@pytest.mark.alone
@pytest.mark.parametrize(
    ("kind", "of_others"), [("hugepages", 0), ("hugepages", 40), ("ballast", 0)]
)
def test_memory_that_another_program_gave_back_is_told(
    server: Server, kind: str, of_others: int
) -> None:
    """The page cache could grow by what is no longer held, which the report must not hide.

    Huge pages that were reserved before are not of what is held.
    """
    needs(kind)
    with _reserved(of_others):
        _gives_back(server, kind)


@contextlib.contextmanager
def _reserved(pages: int) -> Iterator[None]:
    """Reserve huge pages in the `with` block, as another program does."""
    before = HOST.memory("HugePages_Total")
    if pages:
        HOST.write("proc/sys/vm/nr_hugepages", str(before + pages))
    try:
        yield
    finally:
        if pages:
            HOST.write("proc/sys/vm/nr_hugepages", str(before))


def _gives_back(server: Server, kind: str) -> None:
    notes: list[str] = []
    HOST.write("proc/sys/vm/drop_caches", "1")
    before = HOST.memory("HugePages_Total")
    free = HOST.memory({"hugepages": "MemFree", "ballast": "MemAvailable"}[kind])
    with memory_bound.bound(
        kind, server, HOST, keep_bytes=free - 64 * MIB, changed=notes.append
    ) as taken:
        if kind == "hugepages":
            HOST.write("proc/sys/vm/nr_hugepages", str(before))
        else:
            os.kill(taken.holder, signal.SIGKILL)
            wait_until(lambda: not journal.identity(taken.holder))

    [note] = notes
    assert re.fullmatch(r".*B were (held as huge pages|locked) at first, .* at the end", note)


@pytest.mark.alone
def test_killed_replayer_takes_its_ballast_along(server_home: Path) -> None:
    """The child that holds the memory dies with replayer, and the note is cleared away."""
    needs("ballast")
    (child,) = left_by_killed(
        """
        import time
        from replayer.conditions import memory_bound as memory
        from replayer.machine.host import Host
        if __name__ == "__main__":
            host = Host()
            keep = host.memory("MemAvailable") - (32 << 20)
            with memory.bound("ballast", None, host, keep_bytes=keep, changed=print) as taken:
                print("taken", taken.how.split()[-1], flush=True)
                time.sleep(60)
        """
    )
    wait_until(lambda: not journal.identity(int(child)))
    recovery.give_back(lambda _: None)

    assert list(journal.notes("ballast")) == []


@pytest.mark.parametrize("kind", ["hugepages", "ballast"])
def test_more_than_there_is_cannot_be_kept_free(server: Server, kind: str) -> None:
    """Leaving more memory free than the machine has is an impossible request; nothing is taken."""
    needs(kind)
    with (
        pytest.raises(Impossible, match="set keep lower"),
        memory_bound.bound(kind, server, HOST, keep_bytes=1 << 50, changed=pytest.fail),
    ):
        pass
    assert list(journal.notes(kind)) == []


def test_ordinary_user_is_told_why() -> None:
    """Without the rights, each kind says what is missing."""
    code = """
        import json, os
        from replayer.conditions import memory_bound as memory
        from replayer.machine.host import Host
        if not os.geteuid():
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        print(json.dumps({kind: str(memory.refusal(kind, Host()) or "") for kind in memory.KINDS}))
    """
    said = subprocess.check_output([sys.executable, "-c", textwrap.dedent(code)], text=True)
    reasons = json.loads(said)

    assert reasons["hugepages"] == "/proc/sys/vm/nr_hugepages cannot be written (Permission denied)"
    assert reasons["cgroup"]
    assert reasons["ballast"]


def spec_of(**keys: object) -> Spec:
    """Return a small spec of sessions."""
    small = {"num_schemas": 2, "num_threads": 1, "scale": 1024, "work_unit": 255, "run_time": "1s"}
    return Spec.model_validate({"step": "sessions", "name": "sessions", **small, **keys})


def test_step_in_a_cgroup_reads_from_the_device(context: Context) -> None:
    """With a limit on the server the blocks come from the device, as the ledger proves."""
    needs("cgroup")
    spec = spec_of(memory="cgroup", memory_limit="32M", scale="64M")
    outcome = performed(sessions, spec, context)
    assert outcome.ledger
    assert outcome.ledger.ratio
    assert outcome.ledger.verdict in (ReadOrigin.PHYSICAL, ReadOrigin.MIXED)
    assert outcome.ledger.ratio > 0.7
    assert outcome.facts["memory.kind"] == "cgroup"


def test_too_small_a_cgroup_is_refused_before_the_kernel_kills(context: Context) -> None:
    """A limit that the server's own processes exceed is refused with what they need."""
    needs("cgroup")
    with pytest.raises(Impossible, match="alone need about"):
        sessions.check(spec_of(memory="cgroup", memory_limit="20M", scale="64M"), context)
    with pytest.raises(Impossible, match=r"set memory_limit lower or scale higher; what remains"):
        sessions.check(spec_of(memory="cgroup", memory_limit="20M"), context)


def test_a_lower_limit_above_is_an_error(server: Server) -> None:
    """The kernel would leave less memory than the limit that is reported."""
    needs("cgroup")
    place = factors.place_at(Path("/tmp"), "")
    with (
        applied(parse_variant("memory_limit=2GiB", place), place),
        pytest.raises(Impossible, match=r"limit the memory to 4.00 GiB, and .* leaves 2.00 GiB"),
        memory_bound.bound("cgroup", server, HOST, limit_bytes=4 << 30, changed=pytest.fail),
    ):
        pass
    assert list(journal.notes("cgroup")) == []


def test_unknown_limit_is_an_error_and_leaves_nothing(server: Server) -> None:
    """A limit that the kernel refuses leaves no group behind."""
    needs("cgroup")
    with (
        pytest.raises(ReplayerError, match="could not be used"),
        memory_bound.bound("cgroup", server, HOST, limit_bytes=-5, changed=pytest.fail),
    ):
        pass
    assert list(journal.notes("cgroup")) == []
