"""What can be bounded on recorded machines, and what is given back after a kill."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from replayer import journal
from replayer.conditions import memory_bound, own_group
from replayer.errors import ReplayerError
from replayer.machine.host import Host
from tests.known import known

if TYPE_CHECKING:
    from replayer.servers.open import Server


def machine(root: Path, files: Mapping[str, str]) -> Host:
    """Write a machine's files below a folder and return it as a host."""
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return Host(root)


V2 = {
    "proc/self/cgroup": "0::/user.slice/work\n",
    "proc/self/mountinfo": "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
    "sys/fs/cgroup/cgroup.controllers": "cpu memory pids",
    "sys/fs/cgroup/cgroup.subtree_control": "cpu memory",
    "sys/fs/cgroup/cgroup.procs": "",
    "sys/fs/cgroup/user.slice/cgroup.controllers": "memory",
    "sys/fs/cgroup/user.slice/cgroup.subtree_control": "memory",
    "sys/fs/cgroup/user.slice/cgroup.procs": "",
    "sys/fs/cgroup/user.slice/work/cgroup.controllers": "memory",
    "sys/fs/cgroup/user.slice/work/cgroup.subtree_control": "",
    "sys/fs/cgroup/user.slice/work/cgroup.procs": "77",
}
V1 = {
    "proc/self/cgroup": "4:memory:/work\n0::/\n",
    "proc/self/mountinfo": (
        "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
    ),
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
    "sys/fs/cgroup/memory/cgroup.procs": "",
    "sys/fs/cgroup/memory/work/memory.limit_in_bytes": "9223372036854771712",
    "sys/fs/cgroup/memory/work/cgroup.procs": "77",
    "sys/fs/cgroup/unified/cgroup.controllers": "",
    "sys/fs/cgroup/unified/cgroup.procs": "",
}


def test_cgroup_v2_is_made_where_memory_is_delegated(tmp_path: Path) -> None:
    """A group needs a parent that hands the memory controller down; it is made in the nearest."""
    host = machine(tmp_path, V2)
    found = memory_bound.tree(host)
    assert not isinstance(found, str)

    assert memory_bound.refusal("cgroup", host) is None
    assert (found.version, found.parent) == (2, "/sys/fs/cgroup/user.slice")
    assert found.home == "/sys/fs/cgroup/user.slice/work"


def test_cgroup_v2_without_delegation_is_refused_with_the_reason(tmp_path: Path) -> None:
    """In a container without the memory controller nothing can be bounded by a cgroup."""
    bare = {path: "" if "subtree_control" in path else text for path, text in V2.items()}

    assert "no cgroup of the memory controller" in str(
        memory_bound.refusal("cgroup", machine(tmp_path, bare))
    )


def test_cgroup_v1_is_found_beside_an_empty_v2(tmp_path: Path) -> None:
    """A hybrid machine has its memory controller in version 1."""
    found = memory_bound.tree(machine(tmp_path, V1))
    assert not isinstance(found, str)

    assert (found.version, found.parent) == (1, "/sys/fs/cgroup/memory/work")
    assert found.home == "/sys/fs/cgroup/memory/work"


@pytest.mark.parametrize(
    ("file", "text", "refused"),
    [
        ("work/cpu.max", "50000 100000", True),
        ("work/cpu.max", "max 100000", False),
        ("work/io.max", "8:0 rbps=1048576 wbps=max riops=max wiops=max", True),
        ("work/memory.max", "1073741824", True),
        ("work/memory.max", "max", False),
        ("memory.max", "1073741824", False),
    ],
)
def test_cgroup_v2_beside_a_limited_one_would_end_its_limits(
    tmp_path: Path, file: str, text: str, *, refused: bool
) -> None:
    """What holds above the new cgroup still holds in it; what holds beside it would not."""
    host = machine(tmp_path, {**V2, f"sys/fs/cgroup/user.slice/{file}": text})

    why = str(memory_bound.refusal("cgroup", host) or "")
    assert (f"/sys/fs/cgroup/user.slice/{file}" in why) == refused
    assert ("limits replayer" in own_group.refusal(host, "memory")) == refused


def test_second_limit_of_cgroup_v2_is_set_beside_the_first(
    tmp_path: Path, server_home: Path
) -> None:
    """A second cgroup beside the first would end the first one's limits."""
    mine = f"user.slice/{memory_bound.group_name()}"
    moved = {
        "proc/self/cgroup": f"0::/{mine}\n",
        f"sys/fs/cgroup/{mine}/cgroup.controllers": "cpu memory",
        f"sys/fs/cgroup/{mine}/cgroup.subtree_control": "",
        f"sys/fs/cgroup/{mine}/cgroup.procs": "77",
        f"sys/fs/cgroup/{mine}/cpu.max": "50000 100000",
        f"sys/fs/cgroup/{mine}/memory.max": "max",
    }
    host = machine(tmp_path / "root", {**V2, **moved})

    own_group.confine(host, "memory", {1: {}, 2: {"memory.max": "1073741824"}})

    assert host.memory_limit_bytes() == 1 << 30
    assert host.cpu_limit() == 0.5
    assert list(journal.notes("cgroup")) == []
    with pytest.raises(ReplayerError, match="cannot limit the memory"):
        own_group.confine(host, "memory", {1: {}, 2: {"io.max": "8:0 rbps=1048576"}})


def test_machine_without_huge_pages_is_refused(tmp_path: Path) -> None:
    """A kernel without huge pages has none to reserve."""
    host = machine(tmp_path, {"proc/meminfo": "MemTotal: 1000 kB\n"})

    assert str(memory_bound.refusal("hugepages", host)) == "this kernel has no huge pages"


def test_ballast_is_refused_where_it_would_count_against_replayer_itself(tmp_path: Path) -> None:
    """Inside of a limited cgroup, locked memory takes away the database's own."""
    limited = {**V1, "sys/fs/cgroup/memory/work/memory.limit_in_bytes": str(1 << 30)}

    assert "limit" in known(memory_bound.refusal("ballast", machine(tmp_path, limited))).found


class Backends:
    """A server of which one session ends after its processes are listed."""

    def __init__(self) -> None:
        self.session = subprocess.Popen(["sleep", "600"])

    def pids(self) -> list[int]:
        """Return this process as the main one, and the session, which ends then."""
        listed = [os.getpid(), self.session.pid]
        self.end()
        return listed

    def end(self) -> None:
        """End the session."""
        self.session.kill()
        self.session.wait()


def test_a_session_that_ends_is_not_out_of_the_cgroup(tmp_path: Path) -> None:
    """It is listed by the server, and then no longer by the group; the others are counted."""
    limit = 64 << 20
    for name, text in (("memory.max", f"{limit}\n"), ("cgroup.procs", f"{os.getpid()}\n")):
        (tmp_path / name).write_text(text)

    assert memory_bound._difference_of_group(tmp_path, limit, cast("Server", Backends())) == ""

    (tmp_path / "cgroup.procs").write_text("")
    told = memory_bound._difference_of_group(tmp_path, limit, cast("Server", Backends()))
    assert told.startswith("1 server processes")


@pytest.mark.parametrize(
    ("now", "left"), [(500, 100), (520, 120), (300, 100), (100, 100), (50, 50)]
)
def test_recovered_huge_pages_never_fall_below_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server_home: Path, now: int, left: int
) -> None:
    """Only what replayer added is given back, also when others added or took some meanwhile."""
    path = tmp_path / "nr_hugepages"
    path.write_text(str(now))
    monkeypatch.setattr(memory_bound, "_HUGE_PAGES", str(path).lstrip("/"))
    note = journal.take("hugepages", path=str(path), before=100, pages=400)

    assert f"{left} are left" in memory_bound.recover(note)
    assert int(path.read_text()) == left
    assert list(journal.notes("hugepages")) == []


class FewPages(Host):
    """A machine whose kernel grants 19 of 20 huge pages that it is asked for."""

    def write(self, path: str, text: str) -> None:
        """Write a text, or how many huge pages are granted."""
        granted = str(int(text) * 19 // 20) if path == memory_bound._HUGE_PAGES else text
        super().write(path, granted)


def test_huge_pages_of_another_program_are_not_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server_home: Path
) -> None:
    """The kernel granted fewer than asked: only these are replayer's, here and after a kill."""
    memory = "MemFree: 2097152 kB\nHugepagesize: 2048 kB\nHugePages_Total: 0\n"
    pages = "proc/sys/vm/nr_hugepages"
    machine(tmp_path, {"proc/meminfo": memory, pages: "0", "proc/sys/vm/drop_caches": "0"})
    host = FewPages(tmp_path)
    monkeypatch.setattr(memory_bound, "Host", lambda: host)
    with memory_bound._huge_pages(host, keep=48 << 20) as taken:
        assert taken.bytes == 950 << 21
        host.path(pages).write_text("1150")
        (note,) = journal.notes("hugepages")
        assert "200 are left" in memory_bound.recover(note)
        host.path(pages).write_text("1150")

    assert host.read(pages) == "200"
    assert list(journal.notes("hugepages")) == []


def test_recovering_what_is_gone_is_fine(tmp_path: Path, server_home: Path) -> None:
    """A cgroup that somebody else removed, and a ballast that died, are simply forgotten."""
    group = journal.take("cgroup", group=str(tmp_path / "replayer-1-ab"), home=str(tmp_path))
    child = journal.take("ballast", child="boot:999999999:1", bytes=1)

    assert "removed" in memory_bound.recover(group)
    assert "given back" in memory_bound.recover(child)
    assert list(journal.notes("cgroup", "ballast")) == []


def test_huge_pages_that_cannot_be_given_back_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server_home: Path
) -> None:
    """A file that is not a number is an error in one sentence, and the note stays."""
    monkeypatch.setattr(memory_bound, "_HUGE_PAGES", str(tmp_path / "missing").lstrip("/"))
    note = journal.take("hugepages", path=str(tmp_path / "missing"), before=0, pages=4)

    with pytest.raises(ReplayerError, match="could not be given back"):
        memory_bound.recover(note)
    assert len(list(journal.notes("hugepages"))) == 1
    note.drop()
