r"""Let a job choose each boot, made from here: `python -m tests.kernel_lab job experiment`.

It is done as one does it by hand, by `replayer step PLAN` after each boot.  The machine has no boot
loader and no systemd, so that a boot takes a third of the time of one of `boots --job`.

    python -m tests.kernel_lab job bisect          three kernels, and the last slow on purpose
    python -m tests.kernel_lab job experiment      mitigations=off against auto

`--image DIR` keeps the machine's disk and kernels there: a job that was stopped goes on from it.
"""

import argparse
import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from replayer.analysis.differences import boot_plan
from tests.kernel_lab import __main__ as lab
from tests.kernel_lab import boots

GUEST = lab.Machine("tcg", "Nehalem", 0.0)
"""A processor of Intel's with the flaws that cost most to mitigate."""
LINE = "mitigations=off"
"""On the command line of a boot for which the job does not ask for anything else."""
MOST = 40
"""Boots after which a job that goes on is given up."""
PATIENCE = 900.0


def main(words: Sequence[str]) -> int:
    """Do what the words say; return the exit status."""
    args = parsed(words)
    return lab.in_a_folder(lambda folder: perform(args, folder))


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """Return the arguments."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.kernel_lab job",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("job", choices=sorted(boots.JOBS))
    parser.add_argument("--boots", type=int, default=12, help="the most of a bisect (default: 12)")
    parser.add_argument("--memory", type=int, default=1024, metavar="MIB")
    parser.add_argument("--cpus", type=int, default=1)
    parser.add_argument("--image", type=Path, metavar="DIR")
    parser.add_argument("--keep", type=Path, metavar="DIR")
    return parser.parse_args(words)


def perform(args: argparse.Namespace, work: Path) -> int:
    """Boot what the job names until it is done; return the exit status."""
    image = disk(args, args.image or work)
    found = map(lab.Kernel.of, map(str, image.parent.glob("kernels/*/boot/vmlinuz-*")))
    kernels = {kernel.release: kernel for kernel in found}
    due, number = max(kernels, key=lab.version), 0
    while due and number < MOST:
        number += 1
        due = once(args, image, kernels, f"{number} {due}", due)
    lab.run("debugfs", "-R", f"rdump /lab {work}", image)
    answer = (work / "lab" / "answer.txt").read_text()
    lab.say(answer)
    if args.keep:
        keep(args.keep, work, image.parent)
    return 0 if not due and boots.names_cause(args.job, answer) else 1


def disk(args: argparse.Namespace, folder: Path) -> Path:
    """Return the machine's disk in a folder; if it is not there, make it and get its kernels."""
    folder.mkdir(parents=True, exist_ok=True)
    image = folder / "image.ext4"
    if image.exists():
        return image
    found = map(lab.Kernel.of, map(str, boots.download(folder / "kernels")))
    releases = sorted((kernel.release for kernel in found), key=lab.version)
    script = folder / "job.sh"
    script.write_text(boots.job_script(args.job, releases, args.boots))
    shutil.copy(lab.HERE / "job.toml", folder / "boots.toml")
    return lab.build(folder, script, folder / "boots.toml")


def once(
    args: argparse.Namespace, image: Path, kernels: dict[str, lab.Kernel], title: str, due: str
) -> str:
    """Boot a kernel with its words; return the kernel that the job names next, "" at its end."""
    target = boot_plan.target_of(due)
    log, line = lab.console(image, title), target.merged(LINE)
    kernel = kernels[target.release]
    for tried in range(1, lab.TRIES + 1):
        try:
            took = lab.boot(args, GUEST, image, kernel, title, patience=PATIENCE, line=line)
            lab.say(f"{time.strftime('%H:%M:%S')} boot {title}: {took:.0f} s")
            return next_kernel(lab.read(log))
        except lab.Failed as error:
            lab.say(f"boot {title}, try {tried}, failed: {error}")
    raise lab.Failed(f"{due} failed {lab.TRIES} times")


def next_kernel(text: str) -> str:
    """Return the kernel that a console names as the next to boot, "" if all are done."""
    named = re.findall(rf"^LAB NEXT {boot_plan.NEXT}(.*?)\s*$", text, re.MULTILINE)
    return named[-1] if named else ""


def keep(folder: Path, work: Path, consoles: Path) -> None:
    """Copy the results, the answer and the consoles into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for log in consoles.glob("boot-*.log"):
        shutil.copy(log, folder)
    shutil.copytree(work / "lab" / "results", folder / "results", dirs_exist_ok=True)
    shutil.copy(work / "lab" / "answer.txt", folder)
    lab.say(f"kept in {folder}")
