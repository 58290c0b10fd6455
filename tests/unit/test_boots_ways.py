"""Each way to start a kernel once, on the files that its loader reads and by its own tools.

grubby, grub2-reboot and firmware variables are not in Debian or not here: of these, what is tried
is what replayer reads and the words that it gives them.
"""

import errno
import io
import json
import os
import shutil
from pathlib import Path

import pytest

from replayer import factors, registry
from replayer.analysis.differences import boot_plan
from replayer.boots import kernels, loaders, responder, service, systemd_unit
from replayer.boots.kernels import KernelEntry
from replayer.boots.system import System
from replayer.errors import Impossible, NotFound, ReplayerError
from replayer.factors import FactorPlace
from tests.booted import DEFAULT, KERNELS, Machine
from tests.conftest import missing

UEK = ("5.15.0-300.163.18.el9uek.x86_64", "5.14.0-427.13.1.el9_4.x86_64")
VENDOR = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return an empty root folder."""
    return tmp_path.resolve()


def program(root: Path, name: str, script: str) -> None:
    """Put a program into a root folder."""
    path = root / "usr" / "bin" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def write(root: Path, path: str, text: str) -> None:
    """Write a file below a root folder."""
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.fixture
def debian(root: Path) -> Machine:
    """Return a machine with GRUB's menu and tools."""
    if shutil.which("grub-reboot") is None:
        missing("grub2-common", "there is no grub-reboot")
    return Machine.made(root)


@pytest.fixture
def oracle(root: Path) -> System:
    """Return a machine with BLS entries, whose GRUB tools are Debian's under Red Hat's names."""
    if shutil.which("grub-editenv") is None:
        missing("grub2-common", "there is no grub-editenv")
    editor = shutil.which("grub-editenv")
    block = root / "boot" / "grub2" / "grubenv"
    program(root, "grub2-editenv", f'exec {editor} "$@"')
    program(root, "grub2-reboot", f'exec {editor} {block} set next_entry="$2"')
    write(root, "boot/grub2/grub.cfg", 'if [ "${next_entry}" ]; then\nfi\ninsmod blscfg\nblscfg\n')
    write(root, "proc/self/mountinfo", "1 0 8:1 / / rw - xfs /dev/sda1 rw\n")
    for release in (*UEK, "0-rescue-4f"):
        text = f"title Oracle Linux ({release})\nversion {release}\nlinux /vmlinuz-{release}\n"
        text += f"initrd /initramfs-{release}.img\noptions root=/dev/sda3 ro $kernelopts\n"
        write(root, f"boot/loader/entries/4f0c-{release}.conf", text)
    system = System(root)
    system.call("grub2-editenv", block, "create")
    system.call(
        "grub2-editenv", block, "set", f"saved_entry=4f0c-{UEK[0]}", "kernelopts=quiet panic=9"
    )
    return system


def test_every_way_has_the_face_of_one() -> None:
    """A new way that lacks a function is found here, not after the first boot."""
    face = [name for name in vars(loaders.BootLoader) if not name.startswith("_")]
    for name in registry.names(loaders.KIND):
        module = loaders.load(name)
        assert all(callable(getattr(module, one)) for one in face)
        assert module.TITLE
        assert module.RESTART
        assert isinstance(module.PREFERENCE, int)


def test_grub_chooses_by_the_path_of_identifiers(debian: Machine) -> None:
    """The entry that names its kernel is taken, none for repairs, and only for the next boot."""
    system, grub = System(debian.root), loaders.load("grub")
    entries = {entry.release: entry for entry in reversed(grub.entries(system))}
    chosen = entries[KERNELS[0]]

    assert grub.refusal(system) == ""
    assert set(entries) == set(KERNELS)
    assert "panic=30" in chosen.arguments
    assert not grub.halts_on_panic(system, chosen)
    before = grub.default(system)
    grub.choose(system, chosen, "")
    wanted = f"gnulinux-advanced-1>gnulinux-{KERNELS[0]}-advanced-1"
    assert debian.variables() == {"next_entry": wanted}
    assert (grub.pending(system), grub.booted_as_chosen(system, chosen)) == (wanted, False)
    debian.restart()
    assert system.release == KERNELS[0]
    assert (grub.pending(system), grub.booted_as_chosen(system, chosen)) == ("", None)
    assert grub.default(system) == before == "Debian GNU/Linux"
    debian.restart()
    assert system.release == DEFAULT


@pytest.mark.parametrize(
    ("path", "text", "words"),
    [
        ("boot/grub/grub.cfg", "menuentry x {\n linux /boot/vmlinuz-6.1\n}\n", "does not ask for"),
        ("boot/grub/grub.cfg", "menuentry x {\n}\n", "has no kernels"),
        ("proc/cmdline", "root=/dev/sda1 ro\n", "not started by GRUB"),
        ("proc/self/mountinfo", "1 0 0:9 / / rw - btrfs /dev/sda1 rw\n", "is btrfs"),
        ("sys/dev/block/8:1/dm/uuid", "LVM-abcd\n", "is on LVM"),
        ("sys/dev/block/8:1/dm/uuid", "part2-LVM-abcd\n", "is on LVM"),
        ("sys/dev/block/8:1/md/level", "raid1\n", "is on software RAID"),
        ("sys/devices/md127/md/level", "raid1\n", "is on software RAID"),
    ],
    ids=["old-menu", "no-kernels", "not-grub", "btrfs", "lvm", "part", "md", "md-part"],
)
def test_grub_is_refused_where_a_choice_would_stay(
    debian: Machine, path: str, text: str, words: str
) -> None:
    """Above all where GRUB cannot write its block: a kernel that panics would come up for ever."""
    debian.write("sys/devices/md127/md127p2/partition", "2\n")
    debian.write(path, text)
    disk = debian.root / "sys/dev/block/8:1"
    if not disk.exists():
        disk.parent.mkdir(parents=True)
        disk.symlink_to("../../devices/md127/md127p2")

    assert words in loaders.load("grub").refusal(System(debian.root))


def test_a_kernel_that_would_stand_still_after_a_panic_is_known(root: Path) -> None:
    """By its command line, else by what it was built with."""
    write(root, "boot/config-6.1", "CONFIG_PANIC_TIMEOUT=0\n")
    write(root, "boot/config-6.2", "CONFIG_PANIC_TIMEOUT=10\n")
    system = System(root)

    assert kernels.halts_on_panic(system, KernelEntry("6.1", "a"))
    assert not kernels.halts_on_panic(system, KernelEntry("6.1", "a", "ro panic=5"))
    assert kernels.halts_on_panic(system, KernelEntry("6.2", "a", "panic=0"))
    assert not kernels.halts_on_panic(system, KernelEntry("6.2", "a"))


def test_bls_entries_are_chosen_by_their_files_names(oracle: System) -> None:
    """None for rescue; the saved entry is the default before and after."""
    bls = loaders.load("grub2_bls")
    entries = bls.entries(oracle)

    assert bls.refusal(oracle) == ""
    assert loaders.chosen(oracle) == "grub2_bls"
    assert [entry.release for entry in entries] == sorted(UEK)
    assert entries[0].arguments == "root=/dev/sda3 ro quiet panic=9"
    assert bls.default(oracle) == f"4f0c-{UEK[0]}"
    bls.choose(oracle, entries[0], "")
    assert bls.pending(oracle) == f"4f0c-{UEK[1]}"
    assert bls.default(oracle) == f"4f0c-{UEK[0]}"
    bls.clear(oracle)
    bls.clear(oracle)
    assert bls.pending(oracle) == ""


def variable(root: Path, name: str, text: str) -> None:
    """Set a variable of the firmware."""
    file = root / "sys" / "firmware" / "efi" / "efivars" / f"{name}-{VENDOR}"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"\x06\0\0\0" + f"{text}\0".encode("utf-16-le"))


def test_systemd_boot_is_known_by_its_variables(root: Path) -> None:
    """Entries are bootctl's, and the one that was started tells whether it is the chosen one."""
    way, system = loaders.load("systemd_boot"), System(root)
    listed = [
        {
            "type": "type1",
            "id": "deb-6.1.conf",
            "linux": "/m/6.1/linux",
            "version": "6.1",
            "options": "ro",
        },
        {"type": "type1", "id": "uki.efi", "version": "6.12", "options": "quiet panic=3"},
        {"type": "auto", "id": "auto-reboot-to-firmware-setup", "title": "Reboot"},
    ]
    write(root, "list.json", json.dumps(listed))
    program(
        root, "bootctl", f'[ "$1" = list ] && exec cat {root}/list.json; echo "$@" > {root}/asked'
    )

    assert "not started by systemd-boot" in way.refusal(system)
    variable(root, "LoaderInfo", "systemd-boot 252.39")
    assert way.refusal(system) == ""
    assert [entry.release for entry in way.entries(system)] == ["6.1", "6.12"]
    assert loaders.chosen(system) == "systemd_boot"
    entry = way.entries(system)[0]
    way.choose(system, entry, "")
    assert (root / "asked").read_text() == "set-oneshot deb-6.1.conf\n"
    variable(root, "LoaderEntryOneShot", "deb-6.1.conf")
    assert way.pending(system) == "deb-6.1.conf"
    way.clear(system)
    assert (root / "asked").read_text() == "set-oneshot \n"
    variable(root, "LoaderEntrySelected", "uki.efi")
    assert way.booted_as_chosen(system, entry) is False
    write(root, "list.json", "deb-6.1.conf\n")
    assert "not JSON" in way.refusal(system)


@pytest.fixture
def kexec(root: Path) -> System:
    """Return a machine whose kexec writes down its words, and may be refused."""
    for path in ("run/systemd/system", "boot"):
        (root / path).mkdir(parents=True)
    for release in KERNELS:
        write(root, f"boot/vmlinuz-{release}", "")
    write(root, f"boot/initrd.img-{KERNELS[0]}", "")
    write(root, "proc/cmdline", "BOOT_IMAGE=/vmlinuz-6 root=/dev/vda1 ro panic=0 quiet\n")
    write(root, "sys/kernel/kexec_loaded", "0\n")
    refuse = (
        f"[ -e {root}/refuse ] && {{ echo 'kexec_file_load failed: Required key' >&2; exit 255; }}"
    )
    loaded = f'case "$1" in --load) echo 1;; *) echo 0;; esac > {root}/sys/kernel/kexec_loaded'
    program(root, "kexec", f'echo "$@" >> {root}/calls; {refuse}; {loaded}')
    return System(root)


def test_kexec_gives_each_kernel_its_words_for_that_boot(kexec: System) -> None:
    """This kernel's command line without the loader's part, a panic that restarts, and a mark."""
    way = loaders.load("kexec")
    entry = way.entries(kexec)[0]
    way.check(kexec, entry)

    assert way.refusal(kexec) == ""
    assert way.pending(kexec) == ""
    way.choose(kexec, entry, entry.arguments)
    assert way.pending(kexec)
    words = (kexec.root / "calls").read_text().splitlines()[-1]
    assert words.endswith("--command-line=root=/dev/vda1 ro quiet panic=30 replayer.boots=kexec")
    assert f"--initrd {kexec.root}/boot/initrd.img-{KERNELS[0]}" in words
    assert way.booted_as_chosen(kexec, entry) is False
    write(kexec.root, "proc/cmdline", "root=/dev/vda1 ro panic=30 replayer.boots=kexec\n")
    assert way.booted_as_chosen(kexec, entry) is True
    assert way.entries(kexec)[0].arguments == "root=/dev/vda1 ro"


def test_words_for_the_first_process_are_not_the_kernels(kexec: System) -> None:
    """What comes after `--` is no word that the kernel got, and replayer puts none there."""
    way, both = loaders.load("kexec"), (KERNELS[0], f"{KERNELS[0]} nosmt quiet")
    write(kexec.root, "proc/cmdline", "BOOT_IMAGE=/vmlinuz-6 ro quiet panic=0 -- panic=5 nosmt\n")
    entry = way.entries(kexec)[0]
    way.choose(kexec, entry, boot_plan.target_of(both[1]).merged(entry.arguments))

    words = (kexec.root / "calls").read_text().splitlines()[-1].partition("--command-line=")[2]
    assert words == "ro nosmt quiet panic=30 replayer.boots=kexec -- panic=5 nosmt"
    schedule = boot_plan.of_job(both, ("bisect",), ())
    assert boot_plan.planned(schedule, KERNELS[0], words) == both[1]
    assert boot_plan.planned(schedule, KERNELS[0], entry.arguments) == both[0]
    assert service.missing_words(kexec, both[1]) == ("nosmt",)
    assert kernels.halts_on_panic(kexec, KernelEntry("6.1", "a", "panic=0 -- panic=5"))
    assert factors.word_on_line(FactorPlace(host=kexec.host), "panic", "") == "0"


def test_a_driven_machine_reports_the_words_that_its_boot_lacks(
    kexec: System, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its driver judges a boot without the words of its kernel as this machine itself would."""
    write(kexec.root, "proc/cmdline", "root=/dev/vda1 ro panic=30 quiet replayer.boots=kexec\n")
    write(kexec.root, "proc/sys/kernel/osrelease", f"{KERNELS[0]}\n")
    write(kexec.root, "proc/sys/kernel/random/boot_id", "b1\n")
    asked = {"verb": "look", "way": "kexec", "release": KERNELS[0]}
    asked["kernel"] = f"{KERNELS[0]} quiet nosmt"
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{json.dumps(asked)}\n"))

    responder.answer(kexec)

    line = capsys.readouterr().out.strip().removeprefix(responder.MARK)
    assert json.loads(line)["lacking"] == ["nosmt"]


def test_a_driven_machine_answers_where_its_files_fail(
    kexec: System, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without an answer, its driver would take it for lost and wait until it comes back."""

    def full(*_: object) -> dict[str, str]:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/a/plan")

    monkeypatch.setitem(responder._VERBS, "runs", full)
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{json.dumps({'verb': 'runs'})}\n"))

    responder.answer(kexec)

    line = capsys.readouterr().out.strip().removeprefix(responder.MARK)
    assert json.loads(line)["error"] == "the system refused: /a/plan: No space left on device"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", "secure boot"),
        ("sys/kernel/security/lockdown", "the kernel's lockdown"),
        ("nothing", "cannot be loaded for kexec"),
    ],
)
def test_kexec_that_is_refused_says_why(kexec: System, path: str, words: str) -> None:
    """Secure boot and lockdown are named, and what else there is to do."""
    write(kexec.root, path, "none [integrity] confidentiality\x01")
    write(kexec.root, "refuse", "")
    way = loaders.load("kexec")

    with pytest.raises(ReplayerError, match=words) as refused:
        way.check(kexec, way.entries(kexec)[0])
    assert "Required key" in str(refused.value)


@pytest.mark.parametrize(
    ("path", "text", "words"),
    [
        ("proc/sys/kernel/kexec_load_disabled", "1", "only a restart undoes"),
        ("proc/cmdline", "ro nosmt panic=30 replayer.boots=kexec\n", "earlier plan, whose words"),
        (f"boot/config-{KERNELS[0]}", "CONFIG_SMP=y\n", "could not start the next"),
    ],
)
def test_kexec_is_refused_where_the_kernel_has_none(
    kexec: System, path: str, text: str, words: str
) -> None:
    """This kernel's switch and command line, and the next kernel's configuration."""
    write(kexec.root, path, text)
    way = loaders.load("kexec")
    reason = way.refusal(kexec)
    if not reason:
        with pytest.raises(ReplayerError) as refused:
            way.check(kexec, way.entries(kexec)[0])
        reason = str(refused.value)

    assert words in reason


def test_patterns_are_resolved_to_one_kernel_each(debian: Machine) -> None:
    """A pattern that fits two kernels, or none, is not a kernel to boot."""
    entries = [
        KernelEntry("6.1.0-44", "a"),
        KernelEntry("6.1.0-45", "b"),
        KernelEntry("6.12.9", "c"),
    ]
    two = boot_plan.draw(["6.1.*", "6.12.*"], 2)
    one = boot_plan.draw(["6.1.0-45", "6.12.*"], 2)

    with pytest.raises(Impossible, match=r"6\.1\.0-44 and 6\.1\.0-45"):
        kernels.resolved(two, entries, "GRUB")
    with pytest.raises(NotFound, match="not installed: GRUB has none"):
        kernels.resolved(one, [], "GRUB")
    found = kernels.resolved(one, entries, "GRUB")
    assert {kernel: entry.name for kernel, entry in found.items()} == {
        "6.1.0-45": "b",
        "6.12.*": "c",
    }


def test_the_service_gets_no_secret_and_quotes_its_words() -> None:
    """Its file can be read by everybody; systemd expands $ and %."""
    variables = {
        "PATH": "/bin",
        "REPLAYER_HOME": "/a b/%h",
        "REPLAYER_DB_PASSWORD": "x",
        "PGPASSWORD": "y",
        "LANG": "a\nExecStart=/bin/sh",
    }

    assert systemd_unit.kept(variables) == {"PATH": "/bin", "REPLAYER_HOME": "/a b/%h"}
    text = systemd_unit._unit(
        "/p%p\nExecStart=/bin/evil", ["/a $b", 'q"'], systemd_unit.kept(variables), ["/mnt/a b"]
    )
    assert r" mnt-a\x20b.mount" in text
    assert 'Environment="REPLAYER_HOME=/a b/%%h"' in text
    assert 'ExecStart="/a $$b" "q\\""' in text
    assert "\nExecStart=/bin/evil" not in text


def test_this_machine_is_never_restarted_by_a_test(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Below another root, programs of the machine itself are not found."""
    monkeypatch.setenv("REPLAYER_BOOTS_ROOT", str(tmp_path))
    from replayer.boots import system  # noqa: PLC0415 - read when it is called

    with pytest.raises(ReplayerError, match="no program sh on this machine"):
        system.this().call("sh", "-c", "true")
    assert system.this().root == Path(tmp_path)
