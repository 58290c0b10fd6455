"""A machine as a root folder: its files, its loader's own tools, and a restart that follows them.

`usr/bin/systemctl reboot` there does what firmware, GRUB and kernel do: it follows the environment
block with GRUB's own editor, forgets the choice, and is then another boot of that kernel.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from tests.told import matched
from tests.waiting import wait_until

TESTS = Path(__file__).parent
KERNELS = ("6.1.0-56-cloud-amd64", "6.12.117+deb12-cloud-amd64")
DEFAULT = KERNELS[1]
_MENU = """\
if [ -s $prefix/grubenv ]; then
  load_env
fi
if [ "${{next_entry}}" ] ; then
   set default="${{next_entry}}"
   set next_entry=
   save_env next_entry
   set boot_once=true
else
   set default="{default}"
fi
function savedefault {{
  if [ -z "${{boot_once}}" ]; then
    saved_entry="${{chosen}}"
    save_env saved_entry
  fi
}}
menuentry 'Debian GNU/Linux' --class debian $menuentry_id_option 'gnulinux-simple-1' {{
\tlinux\t/boot/vmlinuz-{newest} root=UUID=1 ro quiet
}}
submenu 'Advanced options for Debian GNU/Linux' $menuentry_id_option 'gnulinux-advanced-1' {{
{entries}}}
"""
_ENTRY = """\
\tmenuentry 'Debian, with Linux {release}' $menuentry_id_option 'gnulinux-{release}-advanced-1' {{
\t\tlinux\t/boot/vmlinuz-{release} root=UUID=1 ro quiet {extra}
\t\tinitrd\t/boot/initrd.img-{release}
\t}}
\tmenuentry '{release} (recovery)' $menuentry_id_option 'gnulinux-{release}-recovery-1' {{
\t\tlinux\t/boot/vmlinuz-{release} root=UUID=1 ro single
\t}}
"""
_SYSTEMCTL = """\
#!/bin/sh
echo "$@" >> {root}/calls
[ -e {root}/refuse ] && [ "$1" = reboot ] && {{ echo "a job is held back" >&2; exit 1; }}
[ "$(cat {root}/interrupt 2>/dev/null)" = "$1" ] && rm {root}/interrupt && {{
    kill -INT $PPID
    exit 0
}}
[ "$1" = reboot ] && exec {python} -m tests.booted {root}
exit 0
"""
_STEP = """\
#!/bin/sh
echo "$@" >> {root}/steps
[ -e {root}/fails ] && {{ echo "replayer: error: the disk is on fire" >&2; exit 1; }}
[ -e {root}/hangs ] && {{ echo $$ > {root}/hangs; exec sleep 600; }}
exec {python} -m tests.booted {root} step "$2" "$3"
"""


class Machine:
    """The root folder of a machine with GRUB."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def made(
        cls,
        root: Path,
        *,
        default: str = "0",
        kernels: Sequence[str] = KERNELS,
        extra: str = "panic=30",
    ) -> Self:
        """Make a machine that runs its default kernel."""
        machine = cls(root)
        for folder in ("boot/grub", "etc/systemd/system", "run/systemd/system", "usr/bin"):
            (root / folder).mkdir(parents=True)
        for release in kernels:
            (root / "boot" / f"vmlinuz-{release}").touch()
            config = "CONFIG_KEXEC_FILE=y\nCONFIG_PANIC_TIMEOUT=0\n"
            (root / "boot" / f"config-{release}").write_text(config)
        entries = "".join(_ENTRY.format(release=one, extra=extra) for one in reversed(kernels))
        newest = kernels[-1]
        machine.menu.write_text(_MENU.format(default=default, newest=newest, entries=entries))
        machine.write("proc/self/mountinfo", "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n")
        machine.runs(newest)
        python = f"env PYTHONPATH={TESTS.parent} {sys.executable} -P"
        for name, text in (("systemctl", _SYSTEMCTL), ("replayer", _STEP)):
            program = root / "usr" / "bin" / name
            program.write_text(text.format(root=shlex.quote(str(root)), python=python))
            program.chmod(0o755)
        for name in ("grub-reboot", "grub-editenv"):
            (root / "usr" / "bin" / name).symlink_to(shutil.which(name) or "")
        return machine

    @property
    def menu(self) -> Path:
        """Return GRUB's menu."""
        return self.root / "boot" / "grub" / "grub.cfg"

    @property
    def unit(self) -> Path:
        """Return the service's file."""
        return self.root / "etc" / "systemd" / "system" / "replayer-boots.service"

    def write(self, path: str, text: str) -> None:
        """Write a file below the root."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def read(self, path: str) -> str:
        """Return a file's text, "" if it is not there."""
        file = self.root / path
        return file.read_text().strip() if file.exists() else ""

    def runs(self, release: str, *words: str) -> None:
        """Be another boot, of that kernel."""
        self.write("proc/sys/kernel/osrelease", f"{release}\n")
        self.write("proc/sys/kernel/random/boot_id", f"{uuid.uuid4()}\n")
        line = f"BOOT_IMAGE=/boot/vmlinuz-{release} root=UUID=1 ro quiet"
        self.write("proc/cmdline", " ".join([line, *words]) + "\n")

    def variables(self) -> dict[str, str]:
        """Return GRUB's environment block.

        grub-editenv writes it in place: it has no content for a moment, which is waited for.
        """
        block = self.root / "boot" / "grub" / "grubenv"
        if not block.exists():
            return {}

        def listed() -> str:
            words = ["grub-editenv", str(block), "list"]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            return "" if done.returncode else f"the list:\n{done.stdout}"

        return dict(line.partition("=")[::2] for line in wait_until(listed).splitlines()[1:])

    def restart(self) -> None:
        """Do what firmware and GRUB do: take the choice for one boot, forget it, start a kernel.

        A kernel that is named in the file `panics` falls back to the default.
        """
        menu = self.menu.read_text()
        name = self.variables().get("next_entry", "")
        if name and not (self.root / "deaf").exists():
            block = self.root / "boot" / "grub" / "grubenv"
            # As the menu's own script does it, which leaves the variable there, empty.
            subprocess.run(["grub-editenv", block, "set", "next_entry="], check=True)
        else:
            name = ""
        default = matched(re.compile(r"/boot/vmlinuz-(\S+)"), menu)[1]
        (release,) = re.findall(r"^gnulinux-advanced-1>gnulinux-(.+)-advanced-1$", name) or [
            default
        ]
        if release in self.read("panics").split():
            release = default
        self.runs(self.read("instead") or release)

    def step(self, plan: Path) -> None:
        """Leave a finished run of this boot in the plan's folder, as `replayer step` does."""
        from replayer.results import store  # noqa: PLC0415 - a restart need not wait for it

        run = store.load(TESTS / "fixtures" / "runs" / f"format-{store.FORMAT}.json")
        release, boot = (
            self.read(f"proc/sys/kernel/{name}") for name in ("osrelease", "random/boot_id")
        )
        host = {**run.host, "kernel.release": release, "boot.id": boot}
        made = run.model_copy(update={"host": host, "id": f"run-{boot}", "label": release})
        folder = plan.with_name(f"{plan.stem}.runs")
        folder.mkdir(exist_ok=True)
        (folder / f"{made.id}.json").write_text(store.text(made))

    def name_next(self, plan: Path) -> None:
        """Print the kernel that a plan's job wants next: the file `nexts` has them in order."""
        done = len(list(plan.with_name(f"{plan.stem}.runs").glob("*.json")))
        left = self.read("nexts").splitlines()[done:]
        print(f"next boot: {left[0]}" if left else "all boots are done")

    def boots(self) -> int:
        """Return how often it restarted."""
        return self.read("calls").split("\n").count("reboot")

    def command(self) -> tuple[list[str], dict[str, str]]:
        """Return what the service has replayer do, and its environment, as its unit has them."""
        text = self.unit.read_text()
        (line,) = re.findall(r"^ExecStart=(.+)$", text, re.MULTILINE)
        assigned = re.findall(r"^Environment=(.+)$", text, re.MULTILINE)
        variables = dict(shlex.split(one)[0].partition("=")[::2] for one in assigned)
        program, *words = shlex.split(line)
        assert program == str(self.root / "usr" / "bin" / "replayer")
        return words, variables


def plan(
    path: Path,
    *,
    boots: int = 4,
    kernels: Sequence[str] = KERNELS,
    arguments: Sequence[str] = ("smoke",),
) -> Path:
    """Write a plan of alternating boots."""
    order = [*kernels, *reversed(kernels)] * boots
    text = {
        "plan": 1,
        "kernels": kernels,
        "order": order[:boots],
        "method": "alternating",
        "arguments": arguments,
    }
    path.write_text(json.dumps(text))
    path.chmod(0o644)
    return path


if __name__ == "__main__":
    os.umask(0o022)
    here = Machine(Path(sys.argv[1]))
    if "--next" in sys.argv:
        here.name_next(Path(sys.argv[3]))
    elif sys.argv[2:]:
        here.step(Path(sys.argv[3]))
    else:
        here.restart()
