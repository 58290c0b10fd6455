r"""Let a machine boot itself by a plan: `python -m tests.kernel_lab boots`.

The machine has Debian with systemd, GRUB, kexec-tools and three of Debian's cloud kernels of its
own, and a kernel that panics at once; replayer, the plan and its runs lie on a second disk.  qemu
starts it once, and nobody touches it until it switches itself off: the plan's unit does its steps.

    python -m tests.kernel_lab boots                     12 boots by kexec, then what was left
    python -m tests.kernel_lab boots --way grub          by GRUB's entry for one boot
    python -m tests.kernel_lab boots --boots 4 --cut 2   the power is cut in the step of boot 2
    python -m tests.kernel_lab boots --panic             a kernel that panics: the plan stops itself
    python -m tests.kernel_lab boots --by ssh            the plan is this machine's, by --via
    python -m tests.kernel_lab boots --job bisect        three kernels, and the last slow on purpose
    python -m tests.kernel_lab boots --job experiment    mitigations=off against auto

`--image DIR` keeps the machine's first disk there, which takes minutes to make, and uses it again.
It needs what the lab needs that it is a part of.
"""

import argparse
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.command import COMMAND
from tests.kernel_lab import __main__ as lab

GUEST = lab.HERE / "guest"
PACKAGES = (
    "dbus,dosfstools,fdisk,grub-pc-bin,grub2-common,iproute2,kexec-tools,kmod,openssh-server,procps,"
    "python3,systemd,systemd-boot,systemd-sysv,udev"
)
PANICS = "6.1.0-99-panics"
"""A kernel whose first program cannot be started, which is a panic."""
UNUSED = (
    "e2scrub_reap.service",
    "getty@tty1.service",
    "kexec-load.service",
    "modprobe@.service",
    "serial-getty@ttyS0.service",
    "systemd-binfmt.service",
    "systemd-fsck-root.service",
    "systemd-journal-flush.service",
    "systemd-logind.service",
    "systemd-modules-load.service",
    "systemd-network-generator.service",
    "systemd-random-seed.service",
    "systemd-sysusers.service",
    "systemd-timesyncd.service",
    "systemd-update-utmp-runlevel.service",
    "systemd-update-utmp.service",
)
"""Services that an emulated machine takes minutes to start."""
ARGUMENTS = " ".join(
    [
        "console=ttyS0 panic=5 net.ifnames=0 mitigations=off loglevel=6 systemd.show_status=1",
        f"clocksource={lab.CLOCKS['tcg']}",
        *(f"systemd.mask={name}" for name in UNUSED),
    ]
)
START_BYTES = 1 << 20
DISK_BYTES = 4 << 30
LAB_BYTES = 4 << 30
SECTOR = 512
SLOW = "mitigations=auto"
"""A word on the command line that costs at each system call: the others have mitigations=off."""
JOBS = {
    "bisect": """\
exec python3 -m replayer bisect ./boots.toml --kernels "$1,$2,$3,$3 {slow}" --runs {boots} \\
    --results /lab/results
""",
    "experiment": """\
begin="./boots.toml --factors mitigations=off:auto --within 30 --for 45min"
[ ! -d /lab/results ] || begin="--resume latest"
exec python3 -m replayer experiment $begin --yes --results /lab/results
""",
}
"""Job -> a shell script that begins it, and that prints its answer at the end."""
ANSWERS = {
    "bisect": rf" {SLOW} is the first that is worse: ",
    "experiment": r": mitigations off -> auto does -\d",
}
"""Job -> what its answer has if it names the cause; what it prints before it begins has not."""
PATIENCE = 1800
"""Seconds without a boot or an end after which the machine is given up."""


def main(words: Sequence[str]) -> int:
    """Do what the words say; return the exit status."""
    args = parsed(words)
    return lab.in_a_folder(lambda folder: perform(args, folder))


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """Return the arguments."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.kernel_lab boots",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--boots", type=int, default=12)
    parser.add_argument("--way", choices=["kexec", "grub"], default="kexec")
    parser.add_argument("--cut", type=int, action="append", default=[], metavar="N")
    parser.add_argument("--panic", action="store_true")
    parser.add_argument("--job", choices=sorted(JOBS))
    parser.add_argument("--by", choices=["itself", "ssh"], default="itself")
    parser.add_argument("--workload", type=Path, default=lab.HERE / "boots.toml", metavar="FILE")
    parser.add_argument("--memory", type=int, default=1536, metavar="MIB")
    parser.add_argument("--cpus", type=int, default=1)
    parser.add_argument("--image", type=Path, metavar="DIR")
    parser.add_argument("--keep", type=Path, metavar="DIR")
    return parser.parse_args(words)


def perform(args: argparse.Namespace, work: Path) -> int:
    """Make the machine, let it run, and look what it did; return the exit status."""
    image = first_disk(args.image or work)
    releases = installed(image.parent / "root")
    # A plan compares the newest of either version.
    planned = [releases[0], PANICS] if args.panic else releases if args.job else releases[1:]
    disk = second_disk(args, work, planned)
    first = work / "machine.raw"
    lab.run("cp", "--sparse=always", image, first)
    guest = Guest(args, work, first, disk)
    begin = time.monotonic()
    try:
        if args.by == "ssh":
            guest.by_ssh()
        else:
            guest.by_itself()
    finally:
        guest.off()
    lab.say(f"{guest.boots()} starts of a kernel in {time.monotonic() - begin:.0f} s")
    if args.by == "itself":
        lab.run("debugfs", "-R", f"rdump / {collected(work)}", disk)
    else:
        shutil.copytree(work / "here", collected(work), dirs_exist_ok=True)
    status = judged(args, work, collected(work))
    if args.keep:
        args.keep.mkdir(exist_ok=True, parents=True)
        shutil.copy(guest.console, args.keep / "console.log")
        for name in (
            *("boots.runs", "before", "after", "home", "status", "start.txt", "outcome"),
            *("results", "answer.txt", "boots.plan"),
        ):
            path = collected(work) / name
            if path.is_dir():
                shutil.copytree(path, args.keep / name, dirs_exist_ok=True)
            elif path.exists():
                shutil.copy(path, args.keep)
        lab.say(f"kept in {args.keep}")
    return status


def collected(work: Path) -> Path:
    """Return the folder for what lies on the second disk."""
    folder = work / "collected"
    folder.mkdir(exist_ok=True)
    return folder


def first_disk(work: Path) -> Path:
    """Return the disk that the machine starts from, made if it is not there."""
    work.mkdir(parents=True, exist_ok=True)
    image = work / "first.raw"
    if image.exists():
        return image
    lab.say("building the machine")
    root = work / "root"
    if not root.exists():
        lab.run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", root)
    install_kernels(work, root)
    install_replayer(root / "opt" / "replayer")
    configure(root)
    draft = image.with_suffix(".new")
    with draft.open("wb") as file:
        file.truncate(DISK_BYTES)
        file.write(partitioned())
    blocks = (DISK_BYTES - START_BYTES) // 4096
    words = ("-q", "-b", 4096, "-d", root, "-E", f"offset={START_BYTES}", draft, blocks)
    lab.run("mkfs.ext4", *words)
    prepare(draft, root)
    draft.rename(image)
    return image


def partitioned() -> bytes:
    """Return a boot sector with one Linux partition from START_BYTES to the end of the disk."""
    begin = START_BYTES // SECTOR
    size = DISK_BYTES // SECTOR - begin
    entry = bytes([0x80, 0xFE, 0xFF, 0xFF, 0x83, 0xFE, 0xFF, 0xFF])
    entry += begin.to_bytes(4, "little") + size.to_bytes(4, "little")
    return bytes(440) + b"LAB!" + bytes(2) + entry + bytes(48) + b"\x55\xaa"


def install_kernels(work: Path, root: Path) -> None:
    """Put Debian's kernels into a root folder, and one that panics."""
    if not (work / "kernels").exists():
        download(work / "kernels")
    modules = root / "usr" / "lib" / "modules"
    modules.mkdir(parents=True, exist_ok=True)
    for package in sorted((work / "kernels").glob("linux-image-*-unsigned")):
        lab.run("cp", "-a", *(package / "boot").iterdir(), root / "boot")
        lab.run("cp", "-a", *(package / "lib" / "modules").iterdir(), modules)
    for folder in modules.iterdir():
        lab.run("chroot", root, "depmod", folder.name)
    oldest = installed(root)[0]
    shutil.copy(root / "boot" / f"vmlinuz-{oldest}", root / "boot" / f"vmlinuz-{PANICS}")
    text = archive("init", b"#!/there/is/no/such/program\n")
    (root / "boot" / f"initrd.img-{PANICS}").write_bytes(text)


def download(folder: Path) -> list[Path]:
    """Return three of Debian's kernels, downloaded: the newest of each version, and an old one."""
    return [*lab.download(folder), *lab.download(folder, lab.PACKAGES[:1], oldest=True)]


def installed(root: Path) -> list[str]:
    """Return the releases of the kernels in a root folder, the oldest first."""
    names = [path.name.removeprefix("vmlinuz-") for path in (root / "boot").glob("vmlinuz-*")]
    return sorted((name for name in names if name != PANICS), key=lab.version)


def archive(name: str, text: bytes) -> bytes:
    """Return an initramfs of one executable (newc, Documentation/driver-api/early-userspace)."""

    def member(name: str, mode: int, text: bytes) -> bytes:
        words = (1, mode, 0, 0, 1, 0, len(text), 0, 0, 0, 0, len(name) + 1, 0)
        head = b"070701" + b"".join(b"%08X" % word for word in words) + name.encode() + b"\0"
        return padded(head) + padded(text)

    def padded(data: bytes) -> bytes:
        return data + bytes(-len(data) % 4)

    return member(name, 0o100755, text) + member("TRAILER!!!", 0, b"")


def install_replayer(target: Path) -> None:
    """Put all that replayer needs into a folder."""
    with tempfile.TemporaryDirectory(prefix="replayer-wheel-") as wheels:
        pip = [sys.executable, "-m", "pip"]
        lab.run(*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", wheels, lab.PROJECT)
        words: list[object] = ["--quiet", "--target", target, f"--python-version={lab.PYTHON}"]
        words += [
            f"--platform=manylinux{tag}_x86_64" for tag in ("2014", "_2_17", "_2_28", "_2_34")
        ]
        words += ["--only-binary=:all:"]
        lab.run(*pip, "install", *words, *Path(wheels).glob("*.whl"))
    # What is tried is the one on the second disk.
    shutil.rmtree(target / "replayer")


def configure(root: Path) -> None:
    """Write what makes a machine of Debian's programs."""
    for name in ("prepare.sh",):
        shutil.copy(GUEST / name, root / "usr" / "local" / "sbin" / name)
    (root / "lab").mkdir(exist_ok=True)
    (root / "etc" / "hostname").write_text("lab\n")
    (root / "etc" / "fstab").write_text(
        "/dev/nvme0n1p1 / ext4 defaults 0 0\n"
        "LABEL=lab /lab ext4 nofail,x-systemd.device-timeout=1h 0 0\n"
    )
    (root / "etc" / "default" / "grub").write_text(
        "GRUB_DEFAULT=0\nGRUB_TIMEOUT=1\nGRUB_TERMINAL=serial\nGRUB_DISABLE_LINUX_UUID=true\n"
        f'GRUB_DISABLE_RECOVERY=true\nGRUB_CMDLINE_LINUX="{ARGUMENTS}"\n'
    )
    units = root / "etc" / "systemd" / "system"
    shutil.copy(GUEST / "lab.service", units)
    wants = units / "multi-user.target.wants"
    wants.mkdir(exist_ok=True)
    with contextlib.suppress(FileExistsError):
        (wants / "lab.service").symlink_to("/etc/systemd/system/lab.service")
    drop_in = units / "replayer-boots.service.d"
    drop_in.mkdir(exist_ok=True)
    (drop_in / "console.conf").write_text(
        "[Service]\nStandardOutput=journal+console\nStandardError=inherit\n"
    )
    (root / "etc" / "ssh" / "sshd_config.d" / "lab.conf").write_text(
        "PermitRootLogin yes\nAuthorizedKeysFile /lab/authorized_keys\nStrictModes no\n"
    )
    network = root / "etc" / "systemd" / "network"
    (network / "eth0.network").write_text("[Match]\nName=eth0\n[Network]\nDHCP=ipv4\n")
    lab.run("chroot", root, "systemctl", "enable", "systemd-networkd")
    for timer in ("apt-daily.timer", "apt-daily-upgrade.timer", "e2scrub_all.timer"):
        lab.run("chroot", root, "systemctl", "disable", timer)


def prepare(image: Path, root: Path) -> None:
    """Install GRUB from inside, as it wants to see its disk."""
    release = installed(root)[0]
    kernel = lab.Kernel(release, root / "boot" / f"vmlinuz-{release}", None)
    log = image.with_name("prepare.log")
    log.unlink(missing_ok=True)
    command = [
        *("qemu-system-x86_64", "-machine", "q35", "-accel", "tcg", "-cpu", "max", "-m", "1024"),
        *("-kernel", kernel.vmlinuz, "-append"),
        "root=/dev/nvme0n1p1 rw console=ttyS0 panic=-1 init=/usr/local/sbin/prepare.sh",
        *("-drive", f"file={image},format=raw,if=none,id=disk"),
        *("-device", "nvme,drive=disk,serial=first", "-nic", "none", "-display", "none"),
        *("-serial", f"file:{log}", "-monitor", "none", "-no-reboot"),
    ]
    subprocess.run([str(word) for word in command], check=True, timeout=PATIENCE)
    if "LAB STATUS 0" not in lab.read(log):
        raise lab.Failed(f"the boot loader was not installed: {lab.tail(log)}")


def second_disk(args: argparse.Namespace, work: Path, releases: Sequence[str]) -> Path:
    """Return the disk with replayer, the workload and the plan on it, on which its runs will be."""
    folder, image = work / "lab", work / "lab.ext4"
    folder.mkdir()
    for name in ("replayer", "workloads", "schemas"):
        shutil.copytree(lab.PROJECT / name, folder / "replayer" / name)
    # The machine, whose Python is 3.11, would compile it at each start, for minutes.
    lab.run(sys.executable, "-m", "compileall", "-q", folder / "replayer")
    shutil.copy(args.workload, folder / "boots.toml")
    shutil.copy(GUEST / "lab.sh", folder)
    (folder / "words").write_text(f"--way {args.way}\n")
    if args.job:
        shutil.copy(lab.HERE / "job.toml", folder / "boots.toml")
        (folder / "job.sh").write_text(job_script(args.job, releases, args.boots))
    if args.by == "ssh":
        (folder / "by-hand").touch()
        lab.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", work / "key")
        shutil.copy(work / "key.pub", folder / "authorized_keys")
    if not args.job:
        words = ["--kernels", ",".join(releases), "--boots", str(args.boots), "./boots.toml"]
        subprocess.run([*COMMAND, "plan", *words], check=True, cwd=folder)
    if args.by == "ssh":
        shutil.copytree(folder, work / "here", ignore=shutil.ignore_patterns("replayer"))
    lab.run("mkfs.ext4", "-q", "-L", "lab", "-d", folder, image, f"{LAB_BYTES >> 20}M")
    return image


class Guest:
    """The machine: it restarts by itself, and is switched off or cut by us."""

    def __init__(self, args: argparse.Namespace, work: Path, first: Path, second: Path) -> None:
        self.args, self.work, self.first, self.second = args, work, first, second
        self.console = work / "console.log"
        self._qemu: subprocess.Popen[bytes] | None = None

    def on(self, *network: str) -> None:
        """Switch it on; what its console says is appended."""
        accelerator = ("-accel", "tcg", "-cpu", "Nehalem")
        words = [
            *("qemu-system-x86_64", "-machine", "q35,sata=off,usb=off", *accelerator),
            *("-nodefaults", "-vga", "none", "-display", "none"),
            *("-smp", self.args.cpus, "-m", self.args.memory),
            *("-drive", f"file={self.first},format=raw,if=none,id=first,cache=writethrough"),
            *("-device", "nvme,drive=first,serial=first,bootindex=1"),
            *("-drive", f"file={self.second},format=raw,if=none,id=second,cache=writethrough"),
            *("-device", "virtio-blk-pci,drive=second"),
            *(network or ("-nic", "none")),
            *("-chardev", f"file,id=console,path={self.console},append=on"),
            *("-serial", "chardev:console", "-monitor", "none"),
        ]
        self._qemu = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL)

    def off(self) -> None:
        """Cut its power."""
        if self._qemu is not None:
            self._qemu.send_signal(signal.SIGKILL)
            self._qemu.wait()
            self._qemu = None

    def boots(self) -> int:
        """Return how many kernels started."""
        return len(re.findall(r"\] Linux version ", lab.read(self.console)))

    def by_itself(self) -> None:
        """Switch it on, cut its power where asked, and wait until it switches itself off."""
        self.on()
        for turn in self.args.cut:
            self.until(rf"turn {turn} of \d+ \(")
            time.sleep(3)
            lab.say(f"the power is cut in turn {turn}")
            self.off()
            self.on()
        self.until(None)
        if "LAB STATUS 0" not in lab.read(self.console):
            raise lab.Failed(lab.tail(self.console))

    def until(self, pattern: str | None) -> None:
        """Wait until the console has a text, or, without one, until the machine is off."""
        spoken, words, boots = time.monotonic(), 0, 0
        while self._qemu is not None and self._qemu.poll() is None:
            text = lab.read(self.console)
            if pattern and re.search(pattern, text):
                return
            if len(text) > words:
                spoken, words = time.monotonic(), len(text)
            if self.boots() > boots:
                boots = self.boots()
                lab.say(f"{time.strftime('%H:%M:%S')} kernel {boots} starts")
            if time.monotonic() - spoken > PATIENCE:
                raise lab.Failed(f"it stands still; {lab.tail(self.console)}")
            time.sleep(1)
        if pattern:
            raise lab.Failed(f"it switched itself off; {lab.tail(self.console)}")

    def by_ssh(self) -> None:
        """Drive it from here, by `boots start --via`, and switch it off."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        nic = f"user,model=virtio-net-pci,hostfwd=tcp:127.0.0.1:{port}-:22"
        config, key = self.work / "ssh_config", self.work / "key"
        config.write_text(
            f"Host lab\nHostName 127.0.0.1\nPort {port}\nUser root\nIdentityFile {key}\n"
            f"StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n"
        )
        self.on("-nic", nic)
        self._until_ssh(config)
        folder = collected(self.work)
        (folder / "before").write_text(self._ssh(config, "/lab/lab.sh look"))
        path = "PYTHONPATH=/lab/replayer:/opt/replayer PYTHONDONTWRITEBYTECODE=1"
        environment = {
            **os.environ,
            "REPLAYER_SSH": f"ssh -F {config}",
            "REPLAYER_REMOTE": f"env {path} python3 -m replayer boots remote",
        }
        words = ["boots", "start", "boots.plan", "--via", "ssh", "lab", "--yes"]
        words += [
            "--way",
            self.args.way,
            "--then",
            f'echo "$REPLAYER_BOOTS_OUTCOME" > {folder}/outcome',
        ]
        done = subprocess.run(
            [*COMMAND, *words], env=environment, cwd=self.work / "here", check=False
        )
        lab.say(f"replayer boots start --via ended with {done.returncode}")
        self._until_ssh(config)
        (folder / "after").write_text(self._ssh(config, "/lab/lab.sh look"))
        (folder / "status").write_text(self._ssh(config, "find /var/lib/replayer | sort"))
        self._ssh(config, "systemctl poweroff", check=False)
        if self._qemu is not None:
            self._qemu.wait(timeout=PATIENCE)

    def _ssh(self, config: Path, command: str, *, check: bool = True) -> str:
        """Return what a command prints there."""
        done = subprocess.run(
            ["ssh", "-F", config, "-o", "BatchMode=yes", "lab", command],
            check=check,
            capture_output=True,
            text=True,
        )
        return done.stdout

    def _until_ssh(self, config: Path) -> None:
        """Wait until it is up and answers."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            with contextlib.suppress(subprocess.CalledProcessError):
                self._ssh(config, "systemctl is-system-running --wait; true")
                return
            time.sleep(5)
        raise lab.Failed(f"it does not answer by ssh; {lab.tail(self.console)}")


def judged(args: argparse.Namespace, work: Path, disk: Path) -> int:
    """Say what the machine did and left; return the exit status."""
    before, after = ((disk / name).read_text() for name in ("before", "after"))
    lab.say((disk / "status").read_text())
    same = before == after
    lab.say("nothing is left: as before" if same else "it is not as it was before:")
    if not same:
        (work / "before").write_text(before)
        (work / "after").write_text(after)
        subprocess.run(["diff", work / "before", work / "after"], check=False)
    if not (disk / "outcome").exists():
        raise lab.Failed("the plan did not come to an end")
    outcome = (disk / "outcome").read_text()
    lab.say(outcome)
    if args.job:
        answer = (disk / "answer.txt").read_text()
        lab.say(answer)
        named = names_cause(args.job, answer)
        return 0 if outcome.startswith("done") and same and named else 1
    wanted = "stopped" if args.panic else "done"
    compared = subprocess.run([*COMMAND, "compare", disk / "boots.plan"], check=False)
    done = outcome.startswith(wanted) and same and (args.panic or compared.returncode == 0)
    return 0 if done else 1


def job_script(job: str, releases: Sequence[str], boots: int) -> str:
    """Return a shell script that begins a job over these kernels, or goes on with it."""
    return f"set -- {' '.join(releases)}\n{JOBS[job].format(slow=SLOW, boots=boots)}"


def names_cause(job: str, answer: str) -> bool:
    """Return whether what a job printed at its end names what is slow on purpose."""
    return re.search(ANSWERS[job], " ".join(answer.split())) is not None
