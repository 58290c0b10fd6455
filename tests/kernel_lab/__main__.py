r"""Boot real kernels in a virtual machine in a planned order, measure in each, and compare them.

    python -m tests.kernel_lab                                  Debian's 6.1 against its 6.12
    python -m tests.kernel_lab --boots 2                        only: does it boot, and measure?
    python -m tests.kernel_lab boots --help                     a machine that boots itself
    python -m tests.kernel_lab job --help                       a bisect, or an experiment
    python -m tests.kernel_lab --kernel /boot/vmlinuz-5.15.0-300.el9uek.x86_64,uek.img \
                               --kernel /boot/vmlinuz-5.14.0-427.el9.x86_64,stock.img

The machine has one disk, an ext4 image as NVMe, with Debian and replayer on it and an init that
runs `replayer step` and switches off.  Debian's cloud kernels have ext4 and NVMe built in; they are
downloaded and unpacked, never installed.  A kernel that has them as modules needs an initramfs
after a comma: `dracut --no-hostonly --add-drivers "nvme ext4" uek.img 5.15.0-300.el9uek.x86_64`.
Without KVM the machine is emulated: then its figures say nothing about hardware.

It needs root, qemu-system-x86_64, debootstrap, mkfs.ext4 and debugfs.  What is missing is named,
and nothing is done.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Self

from tests.command import COMMAND

HERE: Path = Path(__file__).parent
PROJECT = HERE.parents[1]
TOOLS = {
    "qemu-system-x86_64": "qemu-system-x86",
    "debootstrap": "debootstrap",
    "mkfs.ext4": "e2fsprogs",
    "debugfs": "e2fsprogs",
}
PACKAGES = (
    r"linux-image-6\.1\.\S*cloud-amd64-unsigned",
    r"linux-image-6\.12\.\S*cloud-amd64-unsigned",
)
CPUS = (
    ("kvm", "host"),
    ("kvm", "host,-arch-capabilities"),
    ("kvm", "max,-arch-capabilities"),
    ("tcg", "max"),
)
EMULATED = "no KVM: the machine is emulated, so its figures say nothing about hardware"
SILENT_SECONDS = 60
"""A machine whose console says nothing for so long, while it starts, stands still."""
MINUTE = 60.0
"""Seconds after which a boot that goes on is reported again."""
TRIES = 3
"""Boots that one turn of the plan may take."""
BOOTS = 12
"""Boots of both kernels together: with fewer, no difference of the lab's metrics can be shown."""
CLOCKS: dict[str, str] = {"kvm": "kvm-clock", "tcg": "hpet"}
"""Accelerator -> the clock source that every kernel gets: one kernel may choose another by itself,
and each reading of a slow one costs a microsecond."""
PYTHON = "3.11"
"""Of Debian 12, which is what the image holds."""


class Kernel(NamedTuple):
    """A kernel to boot."""

    release: str
    vmlinuz: Path
    initramfs: Path | None

    @classmethod
    def of(cls, words: str) -> Self:
        """Return the kernel of `VMLINUZ[,INITRAMFS]`; raise Wrong if a file is not there."""
        paths = [Path(word) for word in words.split(",", 1)]
        absent = [str(path) for path in paths if not path.is_file()]
        if absent:
            raise Wrong(f"{absent[0]} is not there")
        return cls(release(paths[0]), paths[0], paths[1] if len(paths) > 1 else None)


class Machine(NamedTuple):
    """What the kernels are booted in, and how fast that is."""

    accelerator: str
    cpu: str
    start_seconds: float
    """From qemu's start to the first program."""

    def patience(self, boots: Sequence[float]) -> float:
        """Return how many seconds a boot may take, after boots that took so many.

        The first is measured against the machine's start, which is about a fiftieth of a boot.
        """
        return 120 + 4 * max(boots) if boots else 300 + 100 * self.start_seconds


class Failed(Exception):
    """One boot did not come to its end."""


class Missing(Exception):
    """Something that the lab needs is not there: it is skipped."""


class Wrong(Exception):
    """A kernel that was given cannot be booted."""


def main() -> int:
    """Build the image, follow the plan, compare; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.kernel_lab",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--kernel", action="append", default=[], metavar="VMLINUZ[,INITRAMFS]")
    parser.add_argument(
        "--boots",
        type=int,
        default=BOOTS,
        help="in all (default: 12, as many as the plan of the lab's workload wants)",
    )
    parser.add_argument("--workload", type=Path, default=HERE / "lab.toml", metavar="FILE")
    parser.add_argument("--memory", type=int, default=1024, metavar="MIB")
    parser.add_argument("--cpus", type=int, default=2)
    parser.add_argument("--accel", choices=["kvm", "tcg"], help="(default: kvm if it works)")
    parser.add_argument(
        "--timeout", type=int, help="seconds for one boot (default: by the machine's speed)"
    )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="DIR",
        help="where the runs, the page and the logs stay (default: results/kernel-lab-TIME)",
    )
    args = parser.parse_args()
    return in_a_folder(lambda folder: lab(args, folder))


def in_a_folder(work: Callable[[Path], int]) -> int:
    """Do the work in a folder that is removed afterwards; return the exit status.

    SIGTERM ends it as Ctrl-C does, so that no machine goes on without us.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        check()
        with tempfile.TemporaryDirectory(prefix="replayer-lab-") as folder:
            return work(Path(folder))
    except Missing as error:
        say(f"skipped: {error}")
        return 0
    except (Wrong, Failed) as error:
        say(f"error: {error}")
        return 2
    except KeyboardInterrupt:
        say("stopped")
        return 130


def check() -> None:
    """Raise Missing unless everything that the lab needs is there."""
    if os.geteuid() != 0:
        raise Missing("only root can make the image (debootstrap)")
    packages = {package for tool, package in TOOLS.items() if shutil.which(tool) is None}
    if packages:
        raise Missing(f"apt-get install {' '.join(sorted(packages))}")


def lab(args: argparse.Namespace, work: Path) -> int:
    """Do it all in a folder that is removed afterwards."""
    given = args.kernel or [str(path) for path in download(work / "kernels")]
    kernels = {kernel.release: kernel for kernel in map(Kernel.of, given)}
    if len(kernels) < 2:
        raise Wrong(f"two different kernels are compared, and these are {', '.join(kernels)}")
    plan = work / "boots.plan"
    shutil.copy(args.workload, work / "lab.toml")
    # The machine has the workload beside the plan, as it is here.
    words = ["plan", "--kernels", ",".join(kernels), "--boots", str(args.boots), "./lab.toml"]
    subprocess.run([*COMMAND, *words], check=True, cwd=work)
    image = build(work, plan, work / "lab.toml")
    guest = machine(args.accel, image, next(iter(kernels.values())))
    say(f"the machine: {guest.accelerator}, CPU {guest.cpu}, {args.cpus} cores, {args.memory} MiB")
    order = json.loads(plan.read_text())["order"]

    def attempt(kernel: str, title: str, boots: Sequence[float]) -> float:
        patience = args.timeout or guest.patience(boots)
        return boot(args, guest, image, kernels[kernel], title, patience=patience)

    whole = follow(order, attempt)
    run("debugfs", "-R", f"rdump /lab/boots.runs {work}", image)
    status = compare(plan, work / "comparison.html")
    if guest.accelerator == "tcg":
        say(EMULATED)
    keep(args.keep or PROJECT / "results" / f"kernel-lab-{time.strftime('%Y%m%d-%H%M%S')}", work)
    return status if whole else max(status, 1)


def follow(order: Sequence[str], attempt: Callable[[str, str, Sequence[float]], float]) -> bool:
    """Boot each turn's kernel until it has done its step; return whether every turn was done.

    A boot that fails is tried again; `attempt(kernel, title, boots)` returns its seconds or raises
    Failed.  A turn that fails TRIES times ends the plan, since the next one is not due before it.
    Ctrl-C ends it, too: what was measured by then is compared and kept.
    """
    boots: list[float] = []
    try:
        return _turns(order, attempt, boots)
    except KeyboardInterrupt:
        say(f"stopped: {len(boots)} of {len(order)} boots are compared")
        return False


def _turns(
    order: Sequence[str], attempt: Callable[[str, str, Sequence[float]], float], boots: list[float]
) -> bool:
    """Do the turns of `follow`; the seconds of each boot are added to `boots`."""
    for number, kernel in enumerate(order, start=1):
        for tried in range(1, TRIES + 1):
            title = f"{number} {kernel}" + (f", try {tried}" if tried > 1 else "")
            try:
                boots.append(attempt(kernel, title, boots))
            except Failed as error:
                say(f"boot {title} failed: {error}")
                continue
            say(f"boot {title}: {boots[-1]:.0f} s")
            break
        else:
            say(f"{kernel} failed {TRIES} times: {len(boots)} of {len(order)} boots are compared")
            return False
    return True


def compare(plan: Path, page: Path) -> int:
    """Compare what there is; return the exit status."""
    command = [*COMMAND, "compare", str(plan), "--html", str(page)]
    return subprocess.run(command, check=False).returncode


def keep(folder: Path, work: Path) -> None:
    """Copy the plan, the runs, the page and the consoles into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in (work / "boots.plan", *work.glob("comparison.html"), *work.glob("boot-*.log")):
        shutil.copy(path, folder)
    if (work / "boots.runs").is_dir():
        shutil.copytree(work / "boots.runs", folder / "boots.runs", dirs_exist_ok=True)
    say(f"kept in {folder}")


def say(words: object) -> None:
    """Print a line of the conversation."""
    print(words, file=sys.stderr, flush=True)


def machine(wanted: str | None, image: Path, kernel: Kernel) -> Machine:
    """Return a machine in which a kernel really starts here, the truest first.

    Inside some virtual machines KVM opens, and its guests stand still.
    """
    for accelerator, cpu in CPUS:
        if wanted in (None, accelerator):
            seconds = start(accelerator, cpu, image, kernel)
            if seconds is not None:
                return Machine(accelerator, cpu, seconds)
    raise Missing(f"no kernel starts in a machine of qemu with {wanted or 'kvm or tcg'}")


def start(accelerator: str, cpu: str, image: Path, kernel: Kernel) -> float | None:
    """Return the seconds in which a kernel comes to its first program, or None if it does not."""
    log = image.with_name("probe.log")
    log.unlink(missing_ok=True)
    guest = Machine(accelerator, cpu, 0)
    command = machine_command(guest, image, kernel, log, init="/bin/true", snapshot=True)
    begin = time.monotonic()
    # The first process ends at once, so the kernel panics, restarts, and -no-reboot ends it.
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as qemu:
        spoken, words = begin, 0
        while qemu.poll() is None and time.monotonic() - spoken < SILENT_SECONDS:
            time.sleep(0.2)
            if len(read(log)) > words:
                spoken, words = time.monotonic(), len(read(log))
        qemu.kill()
    return time.monotonic() - begin if "Attempted to kill init" in read(log) else None


def machine_command(
    guest: Machine,
    image: Path,
    kernel: Kernel,
    log: Path,
    *,
    init: str,
    cpus: int = 2,
    memory: int = 1024,
    snapshot: bool = False,
    line: str = "",
) -> list[str]:
    """Return qemu's command line; with `snapshot` the image is not changed.

    `line` are more words for the kernel's command line.
    """
    disk = f"file={image},format=raw,if=none,id=disk,cache=none,aio=threads"
    kernel_words = (
        f"root=/dev/nvme0n1 rootfstype=ext4 rw console=ttyS0 panic=-1 "
        f"clocksource={CLOCKS[guest.accelerator]} {line} init={init}"
    )
    words = [
        *("qemu-system-x86_64", "-machine", "q35", "-accel", guest.accelerator, "-cpu", guest.cpu),
        *("-smp", cpus, "-m", memory, "-kernel", kernel.vmlinuz),
        *(("-initrd", kernel.initramfs) if kernel.initramfs else ()),
        "-append",
        kernel_words,
        *("-drive", disk + (",snapshot=on" if snapshot else "")),
        *("-device", "nvme,drive=disk,serial=lab", "-nic", "none", "-display", "none"),
        *("-serial", f"file:{log}", "-monitor", "none", "-no-reboot"),
    ]
    return [str(word) for word in words]


def release(vmlinuz: Path) -> str:
    """Return a kernel's release from the header of its file, as `uname -r` will print it.

    The 16 bits at 0x20e of a bzImage, plus 0x200, are where the words begin (the kernel's own
    Documentation/arch/x86/boot.rst).
    """
    data = vmlinuz.read_bytes()
    if data[0x202:0x206] != b"HdrS":
        raise Wrong(f"{vmlinuz} is not a x86 kernel image (bzImage)")
    begin = int.from_bytes(data[0x20E:0x210], "little") + 0x200
    return data[begin : data.index(b" ", begin)].decode()


def download(
    folder: Path, patterns: Sequence[str] = PACKAGES, *, oldest: bool = False
) -> list[Path]:
    """Return the newest (or oldest) of each of Debian's kernels, downloaded and unpacked."""
    folder.mkdir(exist_ok=True)
    found: list[Path] = []
    for pattern in patterns:
        listed = subprocess.run(
            ["apt-cache", "search", "--names-only", f"^{pattern}$"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split("\n")
        names = sorted((line.split(" ")[0] for line in listed if line), key=version)
        if not names:
            raise Missing(f"apt knows no package {pattern}; give --kernel VMLINUZ twice")
        name = names[0] if oldest else names[-1]
        say(f"downloading {name}")
        run("apt-get", "download", name, cwd=folder)
        (package,) = folder.glob(f"{name}_*.deb")
        run("dpkg-deb", "--extract", package, folder / name)
        found += (folder / name).glob("boot/vmlinuz-*")
    return found


def version(name: str) -> list[int]:
    """Return the numbers in a name, to sort by."""
    return [int(number) for number in re.findall(r"\d+", name)]


def build(work: Path, *files: Path) -> Path:
    """Return an ext4 image with Debian, replayer, these files and the init on it."""
    root, image = work / "root", work / "image.ext4"
    say("building the image")
    run("debootstrap", "--variant=minbase", "--include=python3,iproute2", "bookworm", root)
    wheels = work / "wheels"
    run(
        sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", wheels, PROJECT
    )
    target = root / "opt" / "replayer"
    platforms = [f"--platform=manylinux{tag}_x86_64" for tag in ("2014", "_2_17", "_2_28", "_2_34")]
    run(
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--target",
        target,
        f"--python-version={PYTHON}",
        *platforms,
        "--only-binary=:all:",
        *wheels.glob("*.whl"),
    )
    lab_folder = root / "lab"
    lab_folder.mkdir()
    for path in (*files, HERE / "init.sh"):
        shutil.copy(path, lab_folder)
    (lab_folder / "init.sh").chmod(0o755)
    shutil.rmtree(root / "var" / "cache" / "apt", ignore_errors=True)
    run("mkfs.ext4", "-q", "-d", root, image, "6G")
    shutil.rmtree(root)
    return image


def run(*command: object, cwd: Path | None = None) -> None:
    """Run a program; end with its last words if it fails."""
    done = subprocess.run(
        [str(word) for word in command],
        check=False,
        capture_output=True,
        text=True,
        errors="replace",
        cwd=cwd,
    )
    if done.returncode:
        words = (done.stderr or done.stdout).strip().splitlines()[-3:]
        raise SystemExit(f"{command[0]} failed: {'; '.join(words)}")


def boot(
    args: argparse.Namespace,
    guest: Machine,
    image: Path,
    kernel: Kernel,
    title: str,
    *,
    patience: float,
    line: str = "",
) -> float:
    """Boot the machine once, wait until it switches itself off and return the seconds it took.

    Raises Failed, with the console's last words, after `patience` seconds or if the step failed.
    """
    log = console(image, title)
    begin = time.monotonic()
    shape = {"cpus": args.cpus, "memory": args.memory}
    command = machine_command(guest, image, kernel, log, init="/lab/init.sh", line=line, **shape)
    qemu = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        errors = wait(qemu, log, title, patience)
    except subprocess.TimeoutExpired:
        raise Failed(f"it did not end within {patience:.0f} s; {tail(log)}") from None
    finally:
        with contextlib.suppress(OSError):
            qemu.kill()
        qemu.wait()
    status = re.search(r"LAB STATUS (\d+)", read(log))
    if qemu.returncode or status is None or status[1] != "0":
        raise Failed(f"{errors.decode(errors='replace')} {tail(log)}")
    return time.monotonic() - begin


def wait(qemu: subprocess.Popen[bytes], log: Path, title: str, patience: float) -> bytes:
    """Return what qemu complained of when it has ended; print a line a minute until then.

    Raises subprocess.TimeoutExpired after `patience` seconds.
    """
    begin = time.monotonic()
    while True:
        left = begin + patience - time.monotonic()
        try:
            return qemu.communicate(timeout=max(0.0, min(MINUTE, left)))[1]
        except subprocess.TimeoutExpired:
            if left <= MINUTE:
                raise
            last = read(log).strip().rpartition("\n")[2]
            say(f"boot {title}: {time.monotonic() - begin:.0f} s so far; {last[:100]}")


def console(image: Path, title: str) -> Path:
    """Return the file for what the machine's console says in a boot."""
    return image.with_name(f"boot-{title.replace(' ', '-').replace(',', '')}.log")


def read(log: Path) -> str:
    """Return the machine's console."""
    return log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""


def tail(log: Path) -> str:
    """Return the last lines of the machine's console."""
    return "its last words:\n" + "\n".join(read(log).splitlines()[-30:])


if __name__ == "__main__":
    if sys.argv[1:2] in (["boots"], ["job"]):
        # They are made of this module's parts.
        from tests.kernel_lab import boots, job

        sys.exit((boots if sys.argv[1] == "boots" else job).main(sys.argv[2:]))
    sys.exit(main())
