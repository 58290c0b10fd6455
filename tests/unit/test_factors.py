"""Factors: what can be switched is switched, read back, and given back in every case."""

import errno
import itertools
import json
import os
import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest

from replayer import factors, journal
from replayer.conditions import kernel_settings, memory_bound
from replayer.errors import Impossible, NotFound, ReplayerError
from replayer.experiments.variant import RunOptions as Options
from replayer.experiments.variant import Variant, applied, parse_variant, run_arguments
from replayer.factors import FactorPlace, cpu_quota
from replayer.machine.host import Host
from replayer.run.recovery import give_back
from tests.owners import earlier_boot, ended_owner


@pytest.fixture
def place(settings_of_the_machine: None) -> FactorPlace:
    """Return this machine with the disk of /tmp, for PostgreSQL, for one test at a time."""
    return factors.place_at(Path("/tmp"), "")


def another(place: FactorPlace, name: str) -> tuple[str, str]:
    """Return the level of a factor now, and another that can be set; skip if there is none."""
    factor = factors.load(name)
    reason, now = factor.unavailable(place), factor.current(place)
    if reason or now is None:
        pytest.skip(f"{name}: {reason}")
    return now, "1" if now != "1" else "2"


def test_every_factor_describes_itself_here(place: FactorPlace) -> None:
    """It can be switched or gives a reason; its level now is one of those that it offers."""
    for name in factors.names():
        factor = factors.load(name)
        reason, levels, now = factor.unavailable(place), factor.levels(place), factor.current(place)

        assert factor.SCOPE in ("machine", "server", "table", "boot")
        assert "\n" not in reason, name
        if factor.SCOPE == "machine" and not reason:
            assert now is not None, name
            assert not levels or now in levels, name
        if factor.SCOPE in ("server", "table"):
            assert factor.run_arguments("x")[0] == "--pg-set"


@pytest.mark.root
@pytest.mark.parametrize("name", ["rq_affinity", "cpu_set", "cpu_quota"])
def test_a_level_is_set_and_given_back(place: FactorPlace, name: str) -> None:
    """In the block it is read back from the kernel; after it all is as before."""
    before, level = another(place, name)
    if name == "cpu_set":
        level = str(max(os.sched_getaffinity(0)))

    with applied(parse_variant(f"{name}={level}", place), place):
        assert factors.load(name).current(place) == level
        assert list(kernel_settings.own()) or name != "rq_affinity"

    assert factors.load(name).current(place) == before
    assert [note for note in journal.notes() if note.kind in ("kernel-setting", "cpu-set")] == []


@pytest.mark.root
def test_a_level_that_the_kernel_changes_is_refused(place: FactorPlace) -> None:
    """It is not taken for what was asked for, and what was there before is there again."""
    before, _ = another(place, "read_ahead_kb")

    with (
        pytest.raises(ReplayerError, match=r"the kernel keeps 4 in .*read_ahead_kb"),
        applied(Variant("odd", levels=(("read_ahead_kb", "6"),)), place),
    ):
        pass

    assert factors.load("read_ahead_kb").current(place) == before


def change_within(place: FactorPlace, level: str, path: Path, foreign: str) -> None:
    """Write another value to a factor's file while an experiment has set its level."""
    with applied(parse_variant(f"rq_affinity={level}", place), place):
        path.write_text(foreign)


@pytest.mark.root
def test_a_level_that_another_program_changed_is_left_and_reported(place: FactorPlace) -> None:
    """The run that had it fails; after a kill the next command reports it."""
    before, level = another(place, "rq_affinity")
    (path,) = Path("/").glob(f"{place.disk}/queue/rq_affinity".lstrip("/"))
    foreign = next(one for one in "012" if one not in (before, level))
    messages: list[str] = []
    try:
        with pytest.raises(ReplayerError, match=rf"another program meanwhile.*is {foreign}\)"):
            change_within(place, level, path, foreign)
        path.write_text(before)
        kernel_settings.change(place.host, "rq_affinity", {str(path).lstrip("/"): level})
        (left,) = kernel_settings.own()
        left.path.write_text(left.path.read_text().replace(left.owner, ended_owner()))
        path.write_text(foreign)
        give_back(messages.append)

        assert "rq_affinity was changed by another program" in messages[0]
        assert path.read_text().strip() == foreign
        assert kernel_settings.own() == []
    finally:
        path.write_text(before)


@pytest.mark.parametrize(
    "word",
    [
        *("cpu_quota=nan", "cpu_quota=inf", "cpu_quota=-1", "cpu_quota=1e308"),
        *("memory_limit=1e308", "memory_limit=-5", "memory_limit=1MiB", "memory_limit=nan"),
        *("cpu_set=-1", "cpu_set=0-", "cpu_set=x", "cpu_set="),
    ],
)
def test_a_level_that_no_machine_has_is_refused_when_it_is_read(
    place: FactorPlace, word: str
) -> None:
    """It is found before anything is set, run or written."""
    name, _, level = word.partition("=")
    if factors.load(name).unavailable(place):
        pytest.skip(f"{name} cannot be switched here")
    with pytest.raises(Impossible, match=r"must be|no size|such as"):
        factors.check_level(name, place, level)


def test_a_processor_that_does_not_exist_is_not_left_out(place: FactorPlace) -> None:
    """The kernel takes 0,8191 for 0: then the run has another level than its tag says."""
    with (
        pytest.raises(Impossible, match=r"0,8191 cannot be chosen"),
        applied(parse_variant("cpu_set=0,8191", place), place),
    ):
        pass


@pytest.mark.root
def test_a_second_level_that_fails_gives_the_first_one_back(place: FactorPlace) -> None:
    """What was set before an error does not stay."""
    before, level = another(place, "rq_affinity")

    with (
        pytest.raises(ReplayerError, match="nr_requests=none"),
        applied(Variant("x", levels=(("rq_affinity", level), ("nr_requests", "none"))), place),
    ):
        pass

    assert factors.load("rq_affinity").current(place) == before


@pytest.mark.root
def test_a_limit_that_does_not_last_until_all_are_set_is_not_in_force(place: FactorPlace) -> None:
    """Whatever changed it: the command of --switch here, another factor elsewhere."""
    if reason := factors.load("cpu_quota").unavailable(place):
        pytest.skip(reason)
    above = place.host.path(next(place.host.cgroups("cpu")))
    files = " ".join(
        f"{above}/replayer-{os.getpid()}-*/{name}" for name in ("cpu.cfs_quota_us", "cpu.max")
    )
    raised = f"for file in {files}; do test ! -e $file || echo 150000 > $file; done"
    switch = shlex.join(["sh", "-c", raised])

    with (
        pytest.raises(Impossible, match=r"cpu_quota=0.5 is not in force next to .*keeps 1.5"),
        applied(Variant("x", levels=(("cpu_quota", "0.5"),), switch=switch), place),
    ):
        pass


@pytest.mark.root
@pytest.mark.parametrize("name", ["scheduler", "nr_requests"])
def test_what_the_kernel_resets_with_a_setting_is_given_back_as_well(
    place: FactorPlace, name: str
) -> None:
    """Another scheduler resets the queue's length and forgets its own settings."""
    factor = factors.load(name)
    reason = factor.unavailable(place)
    levels = factor.levels(place) or ("64", "65")
    others = [level for level in levels if level != factor.current(place)]
    if reason or not others:
        pytest.skip(reason or "this disk has one scheduler")
    queue = Path(f"{place.disk}/queue")
    paths = [queue / one for one in ("scheduler", "nr_requests", "wbt_lat_usec")]
    paths += sorted(queue.glob("iosched/*"))
    usual = {path: path.read_text() for path in queue.glob("iosched/[af]*_[bd]*")}
    try:
        for path in usual:
            path.write_text("77")
        before = {path: path.read_text() for path in paths if path.exists()}

        with applied(parse_variant(f"{name}={others[0]}", place), place):
            assert factor.current(place) == others[0]

        assert {path: path.read_text() for path in before if path.exists()} == before
    finally:
        for path, text in usual.items():
            path.write_text(text)


@pytest.mark.parametrize("names", [("1", "2"), ("2", "1")])
def test_what_a_kill_left_of_two_settings_is_given_back_the_newest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, str]
) -> None:
    """The length of a queue is that of the first scheduler, not of the one that was set for it."""
    files = {"scheduler": "none", "nr_requests": "64"}
    paths = {name: f"sys/block/vdx/queue/{name}" for name in files}
    for name, text in files.items():
        path = tmp_path / paths[name]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setenv("REPLAYER_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(kernel_settings, "Host", lambda: Host(tmp_path))
    before = {paths["scheduler"]: "mq-deadline", paths["nr_requests"]: "256"}
    written = {paths["scheduler"]: "none"}
    left = [
        journal.take("kernel-setting", name="scheduler", files=before, written=written),
        # It was killed before it knew what it wrote.
        journal.take("kernel-setting", name="nr_requests", files={paths["nr_requests"]: "128"}),
    ]
    for name, note, when in zip(names, left, (1, 2), strict=True):
        note.path.write_text(note.path.read_text().replace(note.owner, ended_owner()))
        path = note.path.rename(note.path.with_name(f"{name}.json"))
        os.utime(path, (when, when))
    give_back(lambda _: None)

    assert {path: (tmp_path / path).read_text() for path in before} == before
    assert list(journal.notes()) == []


def test_a_note_of_an_earlier_boot_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reboot ended what the kernel had in memory; a value that is there now is not replayer's."""
    settings, pages = "sys/block/vdx/queue/read_ahead_kb", "proc/sys/vm/nr_hugepages"
    for name in (settings, pages):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("4096")
    monkeypatch.setenv("REPLAYER_HOME", str(tmp_path / "home"))
    for module in (kernel_settings, memory_bound):
        monkeypatch.setattr(module, "Host", lambda: Host(tmp_path))
    notes = [
        journal.take("kernel-setting", name="a", files={settings: "8"}, written={settings: "4096"}),
        journal.take("hugepages", path=str(tmp_path / pages), before=0, pages=4096),
        journal.take("files", path="/"),
    ]
    for note in notes:
        note.path.write_text(note.path.read_text().replace(note.owner, earlier_boot()))
    messages: list[str] = []
    give_back(messages.append)

    assert [(tmp_path / name).read_text() for name in (settings, pages)] == ["4096", "4096"]
    assert sum("ended with a reboot" in message for message in messages) == 2
    # Folders survive a reboot: this note is read, and not believed.
    assert [note.kind for note in journal.notes()] == ["files"]


class Processors(Host):
    """A machine whose processors' governors are files, of which some are offline."""

    def __init__(self, root: Path, *online: int) -> None:
        super().__init__(root)
        self.online = set(online)
        for number in range(3):
            path = root / self.file(number)
            path.parent.mkdir(parents=True)
            path.write_text("powersave")

    def file(self, number: int) -> str:
        """Return the path of a processor's governor, below the root."""
        return f"sys/devices/system/cpu/cpufreq/policy{number}/scaling_governor"

    def governors(self) -> list[str]:
        """Return what is in the files of all processors."""
        return [(self.root / self.file(number)).read_text() for number in range(3)]

    def _refuses(self, path: str) -> bool:
        return path not in map(self.file, self.online)

    def read(self, path: str) -> str:
        """Return a file's text: "" for a processor that is offline, as the kernel gives EBUSY."""
        return "" if self._refuses(path) else super().read(path)

    def write(self, path: str, text: str) -> None:
        """Write a text, or raise EBUSY for a processor that is offline."""
        if self._refuses(path):
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        super().write(path, text)


@pytest.fixture
def processors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Processors:
    """Return a machine of three processors of which the first is offline."""
    monkeypatch.setenv("REPLAYER_HOME", str(tmp_path / "home"))
    return Processors(tmp_path / "machine", 1, 2)


def test_a_processor_that_is_offline_is_left_out(processors: Processors) -> None:
    """Its file exists, and can be neither read nor written; the others are switched."""
    place, governor = FactorPlace(host=processors), factors.load("governor")
    assert governor.unavailable(place) == ""

    governor.set_level(place, "performance")
    assert processors.governors() == ["powersave", "performance", "performance"]

    (note,) = kernel_settings.own()
    assert "was given back" in kernel_settings.recover(note, processors)
    assert processors.governors() == ["powersave"] * 3

    processors.online = set()
    assert "cannot be read" in governor.unavailable(place)
    with pytest.raises(Impossible, match="cannot be switched here"):
        governor.set_level(place, "performance")
    assert list(journal.notes()) == []


@pytest.mark.parametrize("is_own", [True, False], ids=["own", "left"])
@pytest.mark.parametrize("is_written", [True, False], ids=["written", "begun"])
def test_a_processor_that_goes_offline_is_named_and_keeps_no_note(
    processors: Processors, *, is_own: bool, is_written: bool
) -> None:
    """No other program changed it: the others are given back, and the run learns of it."""
    factors.load("governor").set_level(FactorPlace(host=processors), "performance")
    (note,) = kernel_settings.own()
    text = json.loads(note.path.read_text())
    if not is_own:
        text["owner"] = ended_owner()
    if not is_written:
        del text["details"]["written"]
    note.path.write_text(json.dumps(text))
    (note,) = journal.notes()
    processors.online.remove(2)
    try:
        message = kernel_settings.recover(note, processors)
    except ReplayerError as error:
        assert is_own
        message = str(error)
    else:
        assert not is_own

    assert "was given back" in message
    assert "another program" not in message
    assert f"/{processors.file(2)} is gone, or of a processor that is offline" in message
    assert processors.governors() == ["powersave", "powersave", "performance"]
    assert list(journal.notes()) == []


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"etc/passwd": "1"}, "not a setting that replayer changes"),
        ({"proc/sys/kernel/../../etc/x": "1"}, "not a setting that replayer changes"),
        ({"proc/sys/vm/swappiness": "1\n2"}, "not a setting that replayer changes"),
        ({}, "no table"),
        ("proc/sys/vm/swappiness", "no table"),
    ],
)
def test_a_note_on_any_other_file_is_not_believed(files: object, reason: str) -> None:
    """Nothing is written because of a note that replayer cannot have made."""
    note = journal.take("kernel-setting", name="x", files=files)
    try:
        with pytest.raises(journal.Untrusted, match=reason):
            kernel_settings.recover(note)
    finally:
        note.drop()


def test_no_quota_below_a_quota_is_an_error_that_says_so(
    place: FactorPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cgroup above has one, which replayer cannot lift: `none` is no wrong number."""
    monkeypatch.setattr(cpu_quota, "current", lambda _: "1.5")

    with pytest.raises(ReplayerError, match=r"cpu_quota=none: a cgroup above leaves 1\.5 only"):
        cpu_quota.set_level(place, "none")


def test_a_recorded_machine_is_read_below_its_root(tmp_path: Path) -> None:
    """Words in brackets are levels, a number has none, and processors may differ."""
    files = {
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
        "sys/kernel/debug/sched/preempt": "none (voluntary) full\n",
        "sys/devices/system/cpu/cpufreq/policy0/scaling_governor": "powersave\n",
        "sys/devices/system/cpu/cpufreq/policy1/scaling_governor": "performance\n",
        "proc/sys/vm/dirty_ratio": "0\n",
        "proc/sys/vm/dirty_bytes": "1048576\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    place = FactorPlace(host=Host(tmp_path))

    assert factors.load("thp").levels(place) == ("always", "madvise", "never")
    assert factors.load("preempt").current(place) == "voluntary"
    assert factors.load("governor").current(place) == "mixed"
    assert factors.load("dirty_ratio").unavailable(place) == (
        "/proc/sys/vm/dirty_bytes is 1048576, and takes its place"
    )
    assert factors.load("read_ahead_kb").unavailable(place) == (
        "the folder for the data is on no disk, or on several"
    )


@pytest.mark.parametrize(
    ("version", "files", "reason"),
    [
        ("1", ("cg/db/memory.swappiness",), "/cg/db/memory.swappiness is in force"),
        ("1", ("cg/db/memory.swappiness", "cg/db/release_agent"), ""),
        ("1", ("cg/db/memory.swappiness", "proc/sys/vm/force_cgroup_v2_swappiness"), ""),
        ("2", ("cg/db/memory.max",), ""),
    ],
    ids=["a group of version 1", "the root of version 1", "forced", "version 2"],
)
def test_swappiness_is_switched_only_where_the_machines_is_in_force(
    tmp_path: Path, version: str, files: tuple[str, ...], reason: str
) -> None:
    """A memory cgroup of version 1 has its own, unless it is the root or the kernel forces one."""
    line, kind = {"1": ("4:memory", "cgroup"), "2": ("0:", "cgroup2")}[version]
    texts = {
        "proc/sys/vm/swappiness": "60\n",
        "proc/self/cgroup": f"{line}:/db\n",
        "proc/self/mountinfo": f"30 23 0:26 / /cg rw - {kind} cgroup rw,memory\n",
        **dict.fromkeys(files, "1\n"),
    }
    found = _unavailable("swappiness", tmp_path, texts)
    assert found.startswith(reason)
    assert bool(found) is bool(reason)


def _unavailable(factor: str, root: Path, texts: Mapping[str, str]) -> str:
    """Return why a factor is unavailable on a machine with these files; `root` is its folder."""
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return factors.load(factor).unavailable(FactorPlace(host=Host(root)))


class ThreadedHost(Host):
    """A machine of two cores with two threads each; cpu0 and cpu2 are the first ones.

    As the kernel does, it takes all second threads offline, and brings all processors up.
    """

    def write(self, path: str, text: str) -> None:
        """Write a file, and change the processors if it is that of the threads."""
        super().write(path, text)
        if path.endswith("smt/control"):
            for number in (1, 3) if text == "off" else (1, 2, 3):
                super().write(CPU.format(number), "0" if text == "off" else "1")


CPU = "sys/devices/system/cpu/cpu{}/online"


@pytest.mark.parametrize(
    ("now", "online"),
    [("on", "111"), ("on", "110"), ("on", "011"), ("off", "010"), ("off", "000")],
)
def test_processors_are_as_before_after_their_threads_were_switched(
    tmp_path: Path, now: str, online: str
) -> None:
    """Also those that were taken offline by hand, which the kernel brings up with the threads."""
    files = {"sys/devices/system/cpu/smt/control": now}
    files |= {CPU.format(number): text for number, text in enumerate(online, 1)}
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    place = FactorPlace(host=ThreadedHost(tmp_path))
    other = "off" if now == "on" else "on"
    try:
        factors.load("smt").set_level(place, other)
        assert factors.load("smt").current(place) == other
    finally:
        for note in kernel_settings.own():
            kernel_settings.recover(note, place.host)

    assert {name: (tmp_path / name).read_text() for name in files} == files


@pytest.mark.parametrize(
    ("version", "group", "reason"),
    [
        ("1", {"docker/cpuset.cpus": "0-3\n"}, "the cpuset /cg/docker would lose the processors"),
        ("1", {"docker/cpuset.cpus": "\n"}, ""),
        ("2", {"docker/cpuset.cpus": "0-3\n"}, ""),
    ],
    ids=["a cpuset of version 1", "none is set", "version 2"],
)
def test_threads_are_not_switched_where_a_cpuset_would_lose_them(
    tmp_path: Path, version: str, group: dict[str, str], reason: str
) -> None:
    """Version 1 takes an offline processor out of each cpuset but the root, and never back."""
    line, kind = {"1": ("4:cpuset", "cgroup"), "2": ("0:", "cgroup2")}[version]
    own = {"1": "cpuset.effective_cpus", "2": "cpuset.cpus.effective"}[version]
    files = {
        "sys/devices/system/cpu/smt/control": "on\n",
        "proc/self/cgroup": f"{line}:/\n0::/\n",
        "proc/self/mountinfo": (
            f"30 23 0:26 / /cg rw - {kind} cgroup rw,cpuset\n"
            "31 23 0:27 / /unified rw - cgroup2 cgroup rw\n"
        ),
        f"cg/{own}": "0-3\n",
        **{f"cg/{name}": text for name, text in group.items()},
    }
    found = _unavailable("smt", tmp_path, files)
    assert found.startswith(reason)
    assert bool(found) is bool(reason)


def test_huge_pages_that_nothing_reserved_are_refused(tmp_path: Path) -> None:
    """MariaDB would take small pages in silence, and PostgreSQL would not start."""
    pool = tmp_path / "proc/sys/vm/nr_hugepages"
    pool.parent.mkdir(parents=True)
    pool.write_text("0\n")

    with pytest.raises(Impossible, match="huge_pages=on needs huge pages, and this machine has"):
        factors.need_huge_pages("huge_pages=on", Host(tmp_path))
    pool.write_text("512\n")
    factors.need_huge_pages("huge_pages=on", Host(tmp_path))


@pytest.mark.parametrize(
    ("text", "kind", "sentence"),
    [
        ("rq_afinity=1", NotFound, "there is no factor 'rq_afinity' - did you mean rq_affinity?"),
        ("shared", Impossible, "'shared' is not a part of a variant"),
        ("--data-dir x", Impossible, "a variant cannot have --data-dir"),
        ("--set", Impossible, "--set has no value"),
        ("io_method=worker io_method=sync", Impossible, "sets io_method twice"),
        ("huge_pages=try pg.huge_pages=off", Impossible, "sets huge_pages twice"),
        ("--set walk.threads=1 walk.threads=2", Impossible, "sets walk.threads twice"),
        ("THP=never", NotFound, "there is no factor 'THP' - did you mean thp?"),
        ("io_method=wrker", Impossible, "no level 'wrker' - did you mean worker?"),
        ("large_pages=ON", Impossible, "postgres has no such setting"),
        ("'x", Impossible, "a quote that is not closed"),
    ],
)
def test_a_wrong_variant_is_one_sentence(
    place: FactorPlace, text: str, kind: type[Exception], sentence: str
) -> None:
    """It names the word, and the nearest right one."""
    with pytest.raises(kind, match=sentence.replace("?", r"\?")):
        parse_variant(text, place)


def test_a_variant_becomes_arguments_of_a_run(place: FactorPlace) -> None:
    """A size of the server's cache also reaches sessions, which set it by a key of their own."""
    own = parse_variant("pg.shared_buffers=1GB io_method=worker sessions.num_threads=2", place)
    words = run_arguments("slob-cached", own, Options(Path("r")))
    pairs = list(itertools.pairwise(words))

    assert ("--pg-set", "shared_buffers=1GB") in pairs
    assert ("--set", "sessions.shared_buffers=1GiB") in pairs
    assert ("--pg-set", "io_method=worker") in pairs
    assert ("--set", "sessions.num_threads=2") in pairs
    assert ("--tag", "io_method=worker") in pairs


def test_a_switching_command_gets_each_level(place: FactorPlace, tmp_path: Path) -> None:
    """It is run in the block, as a list of words; the level is one word of it."""
    file = tmp_path / "a b"
    own = parse_variant(f"'{file}'", place, switch="touch {}")

    with applied(own, place):
        assert file.exists()
    with pytest.raises(Impossible, match="needs a level"):
        parse_variant("", place, switch="touch {}")
    with pytest.raises(Impossible, match=r"has no \{\}"):
        parse_variant("x", place, switch="touch")
