"""docker-compose.yml: valid, no password in it, pinned images, a service for each engine."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from replayer import assets
from replayer.engines import engine, environment

_ROOT = Path(__file__).parents[2]
_FILE = _ROOT / "docker-compose.yml"
_DASHBOARD = {"metrics", "prometheus", "grafana"}
_TOOLS = {"replayer", "drop-caches", *_DASHBOARD}
_PROFILES = {"drop-caches": "cold", **dict.fromkeys(_DASHBOARD, "dashboard")}
_OWN_HEALTHCHECK = {"singlestore"}
"""Its image carries one, which asks the aggregator and the leaf."""


@pytest.fixture(scope="module")
def text() -> str:
    """Return the compose file without its comments."""
    return re.sub(r"(?m)(^|\s)#.*$", "", _FILE.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def services(text: str) -> dict[str, str]:
    """Return name -> the lines of each service, by its indentation."""
    body = re.search(r"(?ms)^services:\n(.*?)^volumes:", text)
    assert body is not None
    parts = re.split(r"(?m)^  ([\w-]+):\n", body[1])[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_a_service_for_each_engine(services: dict[str, str]) -> None:
    """Every engine with a server of its own has a service, and nothing else is there but tools.

    One that is a library runs in replayer's container.
    """
    shipped = {
        name
        for name, path in assets.engines().items()
        if path.is_relative_to(_ROOT) and not _is_library(name)
    }
    assert set(services) == shipped | _TOOLS


def _is_library(name: str) -> bool:
    return bool(engine.load(name).spec.server.guest)


def test_every_service_is_behind_a_profile(services: dict[str, str]) -> None:
    """`docker compose up` alone starts nothing; an engine's profile has its name."""
    for name, body in services.items():
        (profile,) = re.findall(r"profiles: \[([\w-]+)\]", body)
        assert profile == _PROFILES.get(name, name)


def test_images_are_pinned_and_replaceable(services: dict[str, str]) -> None:
    """Every image is a variable, whose default has a tag that is a version, never `latest`."""
    for body in services.values():
        ((variable, image),) = re.findall(r"image: \$\{(\w+):-([^}]+)\}", body)
        assert variable.endswith("_IMAGE")
        _, _, tag = image.rpartition(":")
        assert tag != "latest"
        assert re.match(r"v?\d+\.\d+", tag) or image == "replayer:lab"
    assert re.search(r"PYTHON_IMAGE:-python:\d+\.\d+\.\d+-slim", services["replayer"])


def test_no_password_is_written_down(text: str) -> None:
    """Every password comes from a variable, which the example leaves empty and quotes."""
    found = re.findall(r"(?m)^\s*(\w*(?:PASS|PASSWORD|PWD)\w*): *(.*)$", text)
    assert len(found) >= len(assets.engines())
    for name, value in found:
        assert value == "${REPLAYER_PASSWORD:-}", name
    assert "@" not in "".join(re.findall(r"://[^@\s]*:[^@\s]*@", text))
    example = (_ROOT / ".env.example").read_text(encoding="utf-8")
    assert re.search(r"(?m)^REPLAYER_PASSWORD=''$", example)
    ignored = (_ROOT / ".gitignore").read_text(encoding="utf-8").split()
    assert "/.env" in ignored


def test_every_variable_is_in_the_example(text: str) -> None:
    """Whatever can be set is in .env.example, and nothing else is."""
    used = set(re.findall(r"\$\{(\w+)", text))
    example = (_ROOT / ".env.example").read_text(encoding="utf-8")
    assert set(re.findall(r"(?m)^#? ?([A-Z]\w*)=", example)) == used


def test_engines_have_healthchecks_volumes_and_limits(services: dict[str, str]) -> None:
    """Every engine is asked whether it is up, keeps its data in named volumes, can be limited."""
    for name in set(services) - _TOOLS:
        body = services[name]
        assert ("healthcheck:" in body) != (name in _OWN_HEALTHCHECK), name
        assert "<<: *engine" in body
        assert re.search(rf"\b{name}:/", body), f"{name} has a volume of its name"


def test_replayer_finds_every_engine(
    services: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replayer service is told each engine's URL and files, which it may only read."""
    body = services["replayer"]
    told = dict(re.findall(r"(REPLAYER_(?:URL|FILES)_\w+): (\S+)", body))
    for name in set(services) - _TOOLS:
        for variable, value in told.items():
            monkeypatch.setenv(variable, value)
        url = environment.url(name)
        assert url is not None
        assert f"@{name}/" in url
        candidates = list(environment.folders(name, Path("/x/y")))
        mounted = told[f"REPLAYER_FILES_{name.upper().replace('-', '_')}"]
        assert candidates[0] == Path("/x/y")
        assert Path(mounted, "y") in candidates
        assert Path(mounted) in candidates
    mounts = re.findall(r"- ([\w-]+):(/\S+)", body)
    assert all(path.endswith(":ro") for _, path in mounts if path.startswith("/engines"))
    assert "cap_drop: [ALL]" in body
    assert "privileged" not in body


@pytest.mark.parametrize("name", ["postgres", "citus", "mariadb", "mysql"])
def test_a_service_has_the_settings_of_its_engine(
    name: str, text: str, services: dict[str, str]
) -> None:
    """The lab's server works as the one that replayer starts itself, setting by setting."""
    server = engine.load(name).spec.server
    assert server is not None
    postgres = re.search(r"(?ms)^x-postgres-settings:.*?(?=^services:)", text)
    assert postgres is not None
    body = postgres[0] if "*postgres-settings" in services[name] else services[name]
    pairs = re.findall(r"^ +- (?:--)?([a-z][\w-]*)=(\S+)$", body, re.MULTILINE)
    given = {setting.replace("-", "_"): value for setting, value in pairs}
    buffers = engine.load(name).spec.sessions.buffers
    assert buffers is not None
    assert given.pop(buffers.setting).startswith("${ENGINE_BUFFERS:-1G")
    wanted = {setting: spec.value for setting, spec in server.settings.items() if spec is not None}
    assert wanted.pop(buffers.setting) == ""

    assert given == wanted
    # What `pg_ctl` is told is for the program that starts the server, not for the server.
    flags = {word for word in server.start if server.stays and re.fullmatch(r"--[\w-]+", word)}
    assert flags == set(re.findall(r"^ +- (--[\w-]+)$", body, re.MULTILINE))


def test_a_clickhouse_server_is_asked_with_the_settings_of_the_library() -> None:
    """HTTP has no session: what chdb is set to goes along with each statement to a server."""
    given = engine.load("clickhouse-server").spec.connect.query
    wanted = engine.load("clickhouse").spec.server.settings

    assert {name.removeprefix("ch_"): value for name, value in given.items()} == {
        name: spec.value for name, spec in wanted.items() if spec is not None
    }


def test_mysql_is_of_the_version_that_was_verified(services: dict[str, str]) -> None:
    """The image has the major version that was tried: MySQL 8 and 9 differ in their defaults."""
    image = re.search(r"MYSQL_IMAGE:-mysql:(\d+)\.", services["mysql"])
    server = engine.load("mysql").spec.server
    assert image is not None
    assert server is not None
    assert int(image[1]) == server.newest_tried


def test_only_the_helper_is_privileged(services: dict[str, str]) -> None:
    """The one service with all rights runs once, on demand, without a network."""
    assert [name for name, body in services.items() if "privileged: true" in body] == [
        "drop-caches"
    ]
    assert "network_mode: none" in services["drop-caches"]


@pytest.mark.parametrize("compose", ["docker-compose", "plug-in"])
@pytest.mark.parametrize("password", ["x", "pa$word", "$$HOME #1"])
def test_compose_takes_it(tmp_path: Path, compose: str, password: str) -> None:
    """`config` accepts every profile, and a password in the example's quotes arrives unchanged."""
    command = [*_compose(compose), "--env-file", str(tmp_path / "env")]
    example = (_ROOT / ".env.example").read_text(encoding="utf-8")
    (tmp_path / "env").write_text(example.replace("PASSWORD=''", f"PASSWORD='{password}'"))
    names = (*assets.engines(), "replayer", "cold", "dashboard")
    profiles = [f"--profile={name}" for name in names]
    done = _run([*command, *profiles, "config"])

    assert done.returncode == 0, done.stderr
    (shown,) = set(re.findall(r"(?m)^ *\w*(?:PASS|PASSWORD|PWD): (.*)$", done.stdout))
    assert shown.strip("'\"").replace("$$", "$") == password


@pytest.mark.parametrize("compose", ["docker-compose", "plug-in"])
def test_no_password_is_needed_without_a_server(tmp_path: Path, compose: str) -> None:
    """Without `.env` compose takes the file: the run that brings its own PostgreSQL needs none."""
    (tmp_path / "none").touch()
    done = _run([*_compose(compose), "--env-file", str(tmp_path / "none"), "config"])

    assert done.returncode == 0, done.stderr


def _compose(kind: str) -> list[str]:
    docker, old = shutil.which("docker"), shutil.which("docker-compose")
    if kind == "plug-in" and docker and _run([docker, "compose", "version"]).returncode == 0:
        return [docker, "compose", "-f", str(_FILE)]
    if kind == "docker-compose" and old:
        return [old, "-f", str(_FILE)]
    pytest.skip(f"no {kind} here: `make lab-test` brings both")


def _run(command: list[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=_ROOT)
