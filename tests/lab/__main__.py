"""Try the compose lab for real: `make lab-test`.

It starts a Docker engine of its own on a data root of its own, makes images from Debian's packages
that stand in for the official ones, hands them to docker-compose.yml through its variables, and
runs `docker compose run --rm replayer run smoke --engine NAME` as the documents say.  At the end
nothing of it is left.  Where no Docker engine can be started it says why and does nothing.

All of it is done with docker-compose 1, and again with the compose plug-in (version 2), which is
taken from the next Debian's package where the machine has none: each reads a file in its own way.

It needs root, dockerd, docker, docker-compose and debootstrap, a Debian mirror and a package index
for pip, about 4 GB of disk and some minutes.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]
_HERE = Path(__file__).parent
_PROJECT = "replayer-lab-test"
_PROGRAMS = ("dockerd", "docker", "docker-compose", "debootstrap")
_ENGINES = ("postgres", "mariadb")
_AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
_HEALTHY_SECONDS = 120
_PLUGIN = "cli-plugins/docker-compose"
_PLUGIN_RELEASE = "trixie"
"""The Debian whose package of docker-compose is the plug-in."""
_KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"


class NotHere(Exception):
    """Why no Docker engine can be had on this machine."""


class Lab:
    """A Docker engine, a compose project in it, and a folder for both."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "docker.sock"
        self.env = {**os.environ, "DOCKER_HOST": f"unix://{self.socket}", "DOCKER_BUILDKIT": "0"}
        self.env.pop("DOCKER_CONTEXT", None)
        self.env["DOCKER_CONFIG"] = str(folder / "docker")
        self.plugin = False
        """Whether compose is the plug-in, version 2, or docker-compose."""
        # One that is installed beside it may be newer than the engine.
        self.docker = "/usr/bin/docker" if Path("/usr/bin/docker").exists() else "docker"

    def start(self) -> None:
        """Start dockerd, and register in what order all is taken down; raise NotHere if it dies."""
        log = (self.folder / "dockerd.log").open("wb")
        self.engine = subprocess.Popen(
            ["dockerd", "--iptables=false", "--ip6tables=false", "--bridge=none",
             f"--data-root={self.folder / 'root'}", f"--exec-root={self.folder / 'exec'}",
             f"--pidfile={self.folder / 'dockerd.pid'}", f"--host=unix://{self.socket}"],
            stdout=log, stderr=log,
        )  # fmt: skip
        for _ in range(60):
            if self.run("info", check=False).returncode == 0:
                return
            if self.engine.poll() is not None:
                break
            time.sleep(0.5)
        last = (self.folder / "dockerd.log").read_text(errors="replace").splitlines()[-1:]
        raise NotHere(f"dockerd does not start: {''.join(last)}")

    def stop(self) -> None:
        """Stop the engine that `start` started, and unmount what it leaves mounted."""
        self.engine.terminate()
        self.engine.wait(60)
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
        left = [line.split()[1] for line in mounts if line.split()[1].startswith(f"{self.folder}/")]
        for path in sorted(left, reverse=True):
            subprocess.run(["umount", path], check=False)

    def run(self, *words: str, check: bool = True, **more: Any) -> Any:
        """Run docker."""
        return self._run([self.docker, *words], check=check, **more)

    def compose(self, *words: str, check: bool = True) -> Any:
        """Run docker compose on the project's file."""
        command = [self.docker, "compose"] if self.plugin else ["docker-compose"]
        env = str(self.folder / "env")
        return self._run(
            [*command, "-p", _PROJECT, "-f", str(_ROOT / "docker-compose.yml"), "--env-file", env,
             *words],
            check=check,
        )  # fmt: skip

    def left(self) -> str:
        """Return the project's containers that run, and the volumes that are there."""
        running = self.run("ps", "--filter", f"label=com.docker.compose.project={_PROJECT}", "-q")
        return str(running.stdout) + str(self.run("volume", "ls", "-q").stdout)

    def _run(self, command: list[str], *, check: bool, **more: Any) -> Any:
        done = subprocess.run(
            command, capture_output=True, text=True, env=self.env, check=False, **more
        )
        if check and done.returncode:
            said = (done.stderr or done.stdout).strip()[-2000:]
            raise RuntimeError(f"{' '.join(command)}: {said}")
        return done


def main() -> int:
    """Do all of it; return 0 if it went well or cannot be tried here."""
    try:
        _check_programs()
        with ExitStack() as stack:
            folder = Path(tempfile.mkdtemp(prefix="replayer-lab-"))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            lab = Lab(folder)
            stack.callback(lambda: lab.stop() if hasattr(lab, "engine") else None)
            lab.start()
            _images(lab)
            _install_plugin(lab)
            for lab.plugin in (False, True):
                _say("the compose plug-in" if lab.plugin else "docker-compose")
                with ExitStack() as project:
                    project.callback(lab.compose, "--profile", "*", "down", "-v", check=False)
                    _run_without_env(lab)
                    for name in _ENGINES:
                        _try(lab, name)
                    _refuse_unknown(lab)
                    _survive_without_helper(lab)
                    _end(lab)
    except NotHere as why:
        print(f"lab-test skipped: {why}")
        return 0
    print("lab-test: all went well")
    return 0


def _check_programs() -> None:
    if os.geteuid() != 0:
        raise NotHere("a Docker engine is started as root")
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if missing:
        raise NotHere(
            f"{', '.join(missing)} not installed (docker.io, docker-compose, debootstrap)"
        )


def _images(lab: Lab) -> None:
    """Make the images that stand in for the official ones, and replayer's own."""
    base = lab.folder / "base"
    _say("debootstrap")
    subprocess.run(
        ["debootstrap", "--variant=minbase", "--include=ca-certificates", "bookworm", str(base)],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    # Packages may come through a proxy whose authority only this machine knows.
    shutil.copy(_AUTHORITIES, base / str(_AUTHORITIES).lstrip("/"))
    with subprocess.Popen(["tar", "-C", str(base), "-c", "."], stdout=subprocess.PIPE) as tar:
        lab.run("import", "-", "lab-base", stdin=tar.stdout)
    shutil.rmtree(base)
    for name in ("postgres", "mariadb", "python"):
        _say(f"image of {name}")
        lab.run("build", "--network", "host", "-t", f"lab-{name}", str(_HERE / name))
    _say("image of replayer")
    lab.run(
        "build", "--network", "host", "--build-arg", "PYTHON_IMAGE=lab-python", "-t",
        "replayer:lab-test", str(_ROOT),
    )  # fmt: skip
    # In the quotes of .env.example, where a $ is not a variable.
    values = {
        "REPLAYER_PASSWORD": f"'{secrets.token_hex(4)}$HOME{secrets.token_hex(4)}'",
        "REPLAYER_IMAGE": "replayer:lab-test",
        "POSTGRES_IMAGE": "lab-postgres",
        "MARIADB_IMAGE": "lab-mariadb",
        "ENGINE_CPUS": "1.5",
        "ENGINE_MEMORY": "3g",
    }
    (lab.folder / "env").write_text("".join(f"{key}={value}\n" for key, value in values.items()))


def _try(lab: Lab, name: str) -> None:
    """Run the smoke workload on one engine, as the documents say, and look at the result."""
    _say(f"{name}: up")
    lab.compose("up", "-d", name)
    _healthy(lab, name)
    _say(f"{name}: run smoke")
    done = lab.compose("run", "--rm", "-T", "replayer", "run", "smoke", "--engine", name, "--json")
    run = json.loads(done.stdout)
    assert run["status"] == "done", run["error"]
    about = run["engine"]
    assert (about["name"], about["place"]) == (name, "url")
    assert about["facts"]["data.directory"].startswith(f"/engines/{name}")
    assert about["facts"]["server.container.cpus"] == "1.5"
    assert about["facts"]["server.container.memory"] == "3g"
    assert run["host"]["container"] not in (None, "none")
    steps = {step["name"]: step for step in run["steps"]}
    assert {steps[step]["status"] for step in ("build", "flush", "walk", "scan")} == {"done"}
    cold = steps["walk"]["cold"]
    assert cold["resident_bytes"] == 0, cold
    assert "POSIX_FADV_DONTNEED" in cold["method"]
    assert cold["got"] == "lukewarm"  # the server was not stopped: that is what was achieved
    for step in steps.values():
        assert step["status"] in {"done", "skipped"}, step["reason"]
        assert step["status"] == "done" or step["reason"]
    secret = (lab.folder / "env").read_text().splitlines()[0].partition("=")[2].strip("'")
    assert secret not in done.stdout + done.stderr
    states = ", ".join(f"{step} {steps[step]['status']}" for step in steps)
    print(f"  {about['version']}: {states}; walk {cold['got']}")
    _documented(lab, "stop")
    assert not lab.run("ps", "-q").stdout, "the documents' stop stops nothing"


def _healthy(lab: Lab, name: str) -> None:
    container = lab.compose("ps", "-q", name).stdout.strip()
    for _ in range(_HEALTHY_SECONDS):
        state = lab.run("inspect", "-f", "{{.State.Health.Status}}", container).stdout.strip()
        if state == "healthy":
            return
        time.sleep(1)
    raise RuntimeError(f"{name} is {state}: {lab.run('logs', container).stdout[-2000:]}")


def _refuse_unknown(lab: Lab) -> None:
    """Run on an engine that is not up: it must be one sentence and exit 2."""
    _say("an engine that is not up")
    done = lab.compose(
        "run", "--rm", "-T", "replayer", "run", "smoke", "--engine", "citus", check=False
    )
    assert done.returncode == 2, done.stderr
    assert "refused a connection" in done.stderr
    assert "Traceback" not in done.stderr


def _survive_without_helper(lab: Lab) -> None:
    """Call the helper: where privileged containers are refused, everything else must go on."""
    _say("drop-caches")
    helper = lab.folder / "env"
    with helper.open("a") as file:
        file.write("BUSYBOX_IMAGE=lab-base\n")
    done = lab.compose("run", "--rm", "-T", "drop-caches", check=False)
    print(f"  {'done' if done.returncode == 0 else 'refused: ' + done.stderr.strip()[-120:]}")
    done = lab.compose("run", "--rm", "-T", "replayer", "list", "runs", "--json")
    runs = json.loads(done.stdout)
    assert len(json.dumps(runs)) > 2


def _run_without_env(lab: Lab) -> None:
    """Run on the PostgreSQL that replayer brings along, with no .env and so with no password."""
    _say("run smoke without .env")
    settings = lab.folder / "env"
    whole = settings.read_text()
    settings.write_text("".join(line for line in whole.splitlines(True) if "_IMAGE=" in line))
    done = lab.compose("run", "--rm", "-T", "replayer", "run", "smoke", "--json")
    settings.write_text(whole)
    assert json.loads(done.stdout)["status"] == "done", done.stderr


def _end(lab: Lab) -> None:
    """Take all down as the documents say: nothing of it may be left."""
    _say("down -v")
    _documented(lab, "down -v")
    assert not lab.left(), f"the documents' down -v leaves {lab.left()}"


def _documented(lab: Lab, ends_with: str) -> None:
    """Run the documents' own line of docker compose that ends so."""
    page = (_ROOT / "docs" / "presenter.md").read_text(encoding="utf-8")
    (line,) = set(re.findall(rf"`docker compose ([^`]*{ends_with})`", page))
    lab.compose(*shlex.split(line))


def _install_plugin(lab: Lab) -> None:
    """Put the compose plug-in, from the next Debian's package, where docker looks for it."""
    plugin = lab.folder / "docker" / _PLUGIN
    plugin.parent.mkdir(parents=True)
    where = Path("/usr/libexec/docker", _PLUGIN)
    if not where.exists():
        where = _from_next_debian(lab.folder / "apt") / str(where).lstrip("/")
    shutil.copy(where, plugin)
    assert lab.run("compose", "version").stdout.startswith("Docker Compose version")


def _from_next_debian(folder: Path) -> Path:
    """Download and unpack the package from the mirror that this machine uses; return where."""
    for name in ("lists/partial", "cache/archives/partial", "root"):
        (folder / name).mkdir(parents=True)
    lines = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(LABEL) $(SITE)", "Created-By: Packages"],
        check=True, capture_output=True, text=True,
    ).stdout.splitlines()  # fmt: skip
    site = next(line.split()[1] for line in lines if line.startswith("Debian "))
    source = f"deb [signed-by={_KEYS}] {site} {_PLUGIN_RELEASE} main\n"
    (folder / "sources.list").write_text(source)
    apart = [
        f"-oDir::Etc::sourcelist={folder}/sources.list", "-oDir::Etc::sourceparts=-",
        f"-oDir::State::lists={folder}/lists", f"-oDir::Cache={folder}/cache",
    ]  # fmt: skip
    for words in (["update", "-qq"], ["download", "-qq", "docker-compose"]):
        subprocess.run(["apt-get", *apart, *words], check=True, cwd=folder)
    (package,) = folder.glob("docker-compose_*.deb")
    subprocess.run(["dpkg-deb", "-x", str(package), str(folder / "root")], check=True)
    return folder / "root"


def _say(what: str) -> None:
    print(f"lab-test: {what}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
