"""Cold on file systems that hide what they hold: overlay, memory, holes and links."""

import contextlib
import json
import mmap
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from replayer.conditions import temperature
from replayer.conditions.residency import residency
from replayer.machine import page_cache
from replayer.machine.host import Host
from replayer.model import Cold, StepResult, Temperature
from replayer.report.documents import run_details, step_proof
from replayer.report.terminal import console
from replayer.report.writers import terminal_writer
from replayer.results import store
from replayer.run.context import Context
from replayer.servers.open import open_server
from replayer.steps.build import step as build
from replayer.steps.build.spec import Spec as BuildSpec
from replayer.steps.walk import file_listing
from replayer.steps.walk import step as walk
from replayer.steps.walk.spec import Spec
from tests.command import COMMAND
from tests.fixture_types import Surroundings
from tests.known import known
from tests.performed import performed
from tests.repeated import repeat_until

ROOT = os.geteuid() == 0
FILE_BYTES = 4 << 20
MIB = 1 << 20
STRANGER = 1234


@pytest.fixture
def layers(server_home: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Return a folder with the folders of an overlay, and two files in its lowest."""
    folder = server_home / request.node.name.partition("[")[0]
    for name in ("lower", "upper", "work", "point", "results"):
        (folder / name).mkdir(parents=True)
    if Host().device_of(folder) is None:
        pytest.skip("the folder for temporary files is not on a disk")
    for number in range(3):
        (folder / "lower" / f"file-{number}").write_bytes(os.urandom(FILE_BYTES))
    os.sync()
    yield folder
    shutil.rmtree(folder)


@contextlib.contextmanager
def held(files: Iterable[Path]) -> Iterator[None]:
    """Keep all pages of files in memory."""
    with contextlib.ExitStack() as stack:
        for path in files:
            file = stack.enter_context(path.open("rb"))
            view = stack.enter_context(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
            assert sum(view[:: page_cache.PAGE]) > 0
        yield


def walked(
    folder: Path, kind: str, options: str, *, source: str = "", before: str = ""
) -> dict[str, Any]:
    """Walk a mount in a mount namespace of its own, and return the run as it was stored."""
    workload = folder / "walk.toml"
    workload.write_text(
        '# walk\ndescription = "walk"\n[[step]]\nstep = "walk"\nthreads = 4\n'
        f'path = "{folder}/point"\n'
    )
    mounting = f"mount -t {kind} -o {options} {source or kind} {folder}/point"
    command = (
        f"set -e; {mounting}; {before or ':'}; "
        f"{' '.join(COMMAND)} run {workload} --results {folder}/results >&2"
    )
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", command],
        capture_output=True, text=True, check=False, cwd="/",
    )  # fmt: skip
    if "Operation not permitted" in done.stderr or "permission denied" in done.stderr:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    (result,) = (folder / "results").glob("*.json")
    run: dict[str, Any] = json.loads(result.read_text())
    return run


def spec_of(**keys: object) -> Spec:
    """Return a walk from cold."""
    return Spec.model_validate({"step": "walk", "name": "walk", **keys})


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.skipif(not ROOT, reason="only root can mount")
@pytest.mark.parametrize("upper", [True, False])
def test_overlay_is_measured_by_an_instrument_that_sees_it(layers: Path, *, upper: bool) -> None:
    """Cachestat sees nothing of an overlay's files; what is claimed was measured by mincore.

    The device below is found in the upper or the lower folder, so its bytes are counted.
    """
    lower = f"lowerdir={layers}/lower"
    options = (
        f"{lower},upperdir={layers}/upper,workdir={layers}/work"
        if upper
        else f"{lower}:{layers}/upper"
    )
    run = walked(layers, "overlay", options)
    cold = run["steps"][0]["cold"]

    assert (cold["got"], cold["proof"], cold["resident_bytes"]) == ("cold", "mincore", 0)
    assert cold["stored_bytes"] == 3 * FILE_BYTES
    assert cold["own_bytes"] >= 0.95 * cold["stored_bytes"]
    assert cold["device_bytes"] >= cold["own_bytes"]


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.skipif(not ROOT, reason="only root can mount")
def test_overlay_with_everything_in_memory_is_not_cold(layers: Path) -> None:
    """Two of three files are held in memory, below the overlay: the walk is lukewarm, by 67 %."""
    files = sorted((layers / "lower").iterdir())
    options = f"lowerdir={layers}/lower,upperdir={layers}/upper,workdir={layers}/work"
    with held(files[:2]):
        run = walked(layers, "overlay", options)
    cold = run["steps"][0]["cold"]

    assert (cold["asked"], cold["got"]) == ("cold", "lukewarm")
    assert cold["resident_bytes"] == 2 * FILE_BYTES
    assert "66.7 % of the bytes were in the page cache" in cold["why"]
    assert any("stop whatever else reads, maps or locks" in one["todo"] for one in run["advice"])


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.skipif(not ROOT, reason="only root can mount")
def test_a_file_system_in_memory_is_hot_for_its_own_reason(layers: Path) -> None:
    """Nothing can be dropped from tmpfs, whoever asks: that is said, and where to go instead."""
    fill = f"cp {layers}/lower/file-* {layers}/point"
    run = walked(layers, "tmpfs", "size=64m", before=fill)
    cold = run["steps"][0]["cold"]

    assert (cold["asked"], cold["got"]) == ("cold", "hot")
    assert cold["why"] == "the files are on tmpfs, which is memory and nothing else"
    assert cold["todo"] == "give a folder on a disk"
    assert any(one["todo"] == "give a folder on a disk" for one in run["advice"])


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.skipif(not ROOT, reason="only root can mount")
def test_a_walk_of_another_disk_names_that_disk(layers: Path) -> None:
    """The disk that was watched travels with the step: result and report name it, not the data's.

    So does its read-ahead, which is another than that of the disk below the data.
    """
    image = layers / "disk.img"
    image.touch()
    os.truncate(image, 64 * MIB)
    made = subprocess.run(["mkfs.ext4", "-q", "-F", image], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("no file system can be made here")
    fill = f"cp {layers}/lower/file-* {layers}/point; sync"
    run = walked(layers, "ext4", "loop", source=str(image), before=fill)
    (step,) = run["steps"]
    (result,) = (layers / "results").glob("*.json")

    other = step["series"]["device"]
    assert other.startswith("loop")
    assert other != run["host"]["device.name"]
    assert step["facts"]["device.name"] == other
    assert isinstance(step["facts"]["device.read_ahead_kb"], int)
    printed = console.text(
        terminal_writer.render(run_details.document(store.load(result))), width=100
    )
    assert f"device {other} over" in printed
    assert f"device {run['host']['device.name']} over" not in printed


def image_in(folder: Path) -> str:
    """Make a file with an empty ext4 in it, for a loop device, and return its path."""
    image = folder / "disk.img"
    image.touch()
    os.truncate(image, 64 * MIB)
    made = subprocess.run(["mkfs.ext4", "-q", "-F", image], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("no file system can be made here")
    return str(image)


def fill(layers: Path) -> str:
    """Return what puts the files on the mount, and all of the image beneath it into memory."""
    return (
        f"cp {layers}/lower/file-* {layers}/point; chown -R {STRANGER} {layers}/point; sync; "
        f"cat {layers}/*.img > /dev/null 2>&1 || true"
    )


@contextlib.contextmanager
def mounted(layers: Path, image: str) -> Iterator[list[Path]]:
    """Mount an image with three files of an ordinary user's, all of it in memory; yield them."""
    point = layers / "point"
    done = subprocess.run(
        ["sh", "-ec", f"mount -o loop {image} {point}; {fill(layers)}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    try:
        if done.returncode:
            pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
        yield sorted(point.glob("file-*"))
    finally:
        subprocess.run(["umount", point], check=False)


@contextlib.contextmanager
def stranger() -> Iterator[None]:
    """Be an ordinary user."""
    os.seteuid(STRANGER)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.root
@pytest.mark.skipif(not ROOT, reason="only root can mount")
def test_a_loop_device_over_a_file_that_is_in_memory_is_not_cold(layers: Path) -> None:
    """An ordinary user cannot ask about root's file beneath the device: nothing is claimed."""
    image = image_in(layers)
    with mounted(layers, image) as files, stranger():
        cold = temperature.make(Temperature.COLD, None, files, Host())

    assert (cold.got, cold.proof, cold.resident_bytes) == (Temperature.UNKNOWN, "", 0)
    assert f"over {image}, and how much of that is in memory is not known" in cold.why
    assert "run as root" in cold.todo


@pytest.mark.root
@pytest.mark.skipif(not ROOT, reason="only root can mount")
def test_an_ordinary_user_drops_the_own_file_beneath_a_loop_device(layers: Path) -> None:
    """Whose file it is may have it forgotten and ask about it: cold is proven down to the disk."""
    image = image_in(layers)
    os.chown(image, STRANGER, STRANGER)
    with mounted(layers, image) as files, stranger():
        cold = temperature.make(Temperature.COLD, None, files, Host())

    assert (cold.got, cold.why) == (Temperature.COLD, "")


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.skipif(not ROOT, reason="only root can mount")
def test_a_loop_device_over_a_file_that_is_dropped_is_cold(layers: Path) -> None:
    """Root drops the file beneath as well, and the disk beneath delivers what the device does."""
    run = walked(layers, "ext4", "loop", source=image_in(layers), before=fill(layers))
    cold = run["steps"][0]["cold"]

    assert cold["got"] == "cold", cold["why"]
    assert cold["own_bytes"] >= 0.95 * 3 * FILE_BYTES


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.skipif(not ROOT, reason="only root can mount")
def test_what_is_held_of_the_file_beneath_a_loop_device_is_seen(layers: Path) -> None:
    """All of the image is mapped by somebody, where no cache that is dropped loses it: lukewarm."""
    image = image_in(layers)
    hold = (
        "import mmap, sys, time; f = open(sys.argv[1], 'rb'); "
        "m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ); sum(m[::4096]); "
        "print(flush=True); time.sleep(600)"
    )
    held_ = (
        f'{fill(layers)}; python3 -c "{hold}" {image} > {layers}/held & '
        f"trap 'kill $!' EXIT; while [ ! -s {layers}/held ]; do sleep 0.05; done"
    )
    run = walked(layers, "ext4", "loop", source=image, before=held_)
    cold = run["steps"][0]["cold"]

    assert (cold["asked"], cold["got"]) == ("cold", "lukewarm")
    assert cold["resident_bytes"] == 0
    assert f"% of the bytes were in the page cache of {image} beneath loop" in cold["why"]


@pytest.mark.root
@pytest.mark.skipif(not ROOT, reason="only root can mount")
@pytest.mark.parametrize("user", [0, STRANGER])
def test_a_loop_device_over_memory_is_hot(layers: Path, user: int) -> None:
    """Beneath the device is tmpfs, from which nothing can be dropped, whoever asks."""
    memory = Path("/dev/shm") / f"replayer-{layers.name}-{os.getpid()}"
    if (mount := Host().mount_of(memory.parent)) is None or mount.type != "tmpfs":
        pytest.skip("/dev/shm is no tmpfs")
    memory.mkdir()
    try:
        image = image_in(memory)
        os.chown(image, user, user)
        with mounted(layers, image) as files, stranger() if user else contextlib.nullcontext():
            cold = temperature.make(Temperature.COLD, None, files, Host())
    finally:
        shutil.rmtree(memory)

    assert (cold.asked, cold.got) == (Temperature.COLD, Temperature.HOT)
    assert f"over {image} on tmpfs, which is memory and nothing else" in cold.why
    assert cold.todo == "give a folder on a disk"


def test_what_somebody_reads_after_the_proof_is_said(context: Context, layers: Path) -> None:
    """4 % of the walk are read between the proof and the clock: cold by the rule, and said so."""
    more = layers / "lower" / "small"
    more.write_bytes(os.urandom(FILE_BYTES // 8))
    os.sync()

    def read_by_somebody() -> Cold:
        with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as stack:
            real = file_listing.list_files

            def warmed(*args: Any) -> Any:
                stack.enter_context(held([more]))
                return real(*args)

            patch.setattr(walk, "list_files", warmed)
            return known(performed(walk, spec_of(path=layers / "lower", threads=2), context).cold)

    # Where another test drops the page cache, the programs of the walk come from the device, too.
    cold = repeat_until(read_by_somebody, lambda cold: (cold.missing_bytes or 0) > 0)
    step = {"step": "walk", "name": "walk", "repeat": 1, "status": "done", "started": ""}
    result = StepResult.model_validate({**step, "elapsed": 1.0, "spec": {}, "cold": cold})
    words = step_proof._cold_words(result)

    assert cold.got is Temperature.COLD, cold.why
    assert cold.resident_bytes == 0
    missing = known(cold.missing_bytes)
    assert 0 < missing <= 1.02 * FILE_BYTES // 8
    assert "0.0% of 12.5 MiB was in memory at the last look" in words
    assert (
        f"{step_proof._delivered(cold, missing)} did not come from there to those who read" in words
    )


def test_an_instrument_that_sees_nothing_proves_nothing(
    layers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no page that was read is seen, what is not seen is not proof of cold: unknown."""
    blind = lambda _fd, _segments: page_cache.Pages(0, 0, 0)  # noqa: E731
    monkeypatch.setattr("replayer.conditions.residency._proven", {})
    monkeypatch.setattr(page_cache, "cachestat", blind)
    monkeypatch.setattr(page_cache, "mincore", blind)
    files = sorted((layers / "lower").iterdir())
    cold = temperature.make(Temperature.COLD, None, files, Host())

    assert (cold.got, cold.proof, cold.resident_share) == (Temperature.UNKNOWN, "", None)
    assert "sees a page of these files that was just read" in cold.why
    assert "file system below this one" in cold.todo


def test_an_instrument_that_misses_nothing_proves_nothing(
    layers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a page that was dropped is still seen, hot is not claimed: unknown."""

    def flatterer(_fd: int, segments: Sequence[page_cache.FileExtent]) -> page_cache.Pages:
        return page_cache.Pages(sum(segment.length for segment in segments), 0, 0)

    monkeypatch.setattr("replayer.conditions.residency._proven", {})
    monkeypatch.setattr(page_cache, "cachestat", flatterer)
    monkeypatch.setattr(page_cache, "mincore", flatterer)
    files = sorted((layers / "lower").iterdir())
    hot = temperature.make(Temperature.HOT, None, files, Host())

    assert hot.got is Temperature.UNKNOWN
    assert "no page could be dropped" in hot.why


def test_holes_and_preallocated_space_are_not_waited_for(context: Context, layers: Path) -> None:
    """Only what was written is stored: the share, and the device's bytes, are those of that."""
    sparse, preallocated = layers / "lower" / "sparse", layers / "lower" / "preallocated"
    with sparse.open("wb") as file:
        file.seek(32 * MIB)
        file.write(os.urandom(MIB))
    with preallocated.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 24 * MIB)
        file.write(os.urandom(2 * MIB))
    os.sync()
    spec = spec_of(path=layers / "lower", threads=4)
    cold = known(performed(walk, spec, context).cold)

    assert cold.got is Temperature.COLD, cold.why
    assert cold.file_bytes == 3 * FILE_BYTES + 33 * MIB + 24 * MIB
    assert cold.data_bytes == cold.stored_bytes == 3 * FILE_BYTES + 3 * MIB
    assert 0.95 * known(cold.stored_bytes) <= known(cold.own_bytes) < 1.5 * known(cold.stored_bytes)


def test_half_of_what_is_stored_is_half(layers: Path) -> None:
    """A file of 33 MiB with 1 MiB of data, half of that in memory, is half in memory."""
    path = layers / "lower" / "sparse"
    with path.open("wb") as file:
        file.seek(32 * MIB)
        file.write(os.urandom(MIB))
    os.sync()
    half = pytest.approx(0.5, abs=0.02)

    def share_of_half() -> float | None:
        page_cache.forget(path)
        with path.open("rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            for offset in range(0, MIB // 2, page_cache.PAGE):
                os.pread(file.fileno(), 1, 32 * MIB + offset)
            return residency([path]).share

    assert repeat_until(share_of_half, lambda share: share == half) == half


def test_a_file_with_several_names_is_read_once(context: Context, layers: Path) -> None:
    """Hard links are one file on the disk: it is read by one name, and what is said is that."""
    first = layers / "lower" / "file-0"
    for number in range(6):
        os.link(first, layers / "lower" / f"link-{number}")
    spec = spec_of(path=layers / "lower", threads=2)
    outcome = performed(walk, spec, context)
    cold = known(outcome.cold)
    values = {m.metric: m.value for m in outcome.measurements}

    assert (values["walk.files"], values["walk.bytes"]) == (3, 3 * FILE_BYTES)
    assert outcome.facts["directory_entries"] == 9
    assert cold.file_bytes == cold.stored_bytes == 3 * FILE_BYTES
    assert cold.got is Temperature.COLD, cold.why
    assert known(cold.own_bytes) >= 0.95 * values["walk.bytes"]
    assert any(note.startswith("6 names of 24.0 MiB are further names") for note in outcome.notes)


def test_a_table_of_a_server_that_runs_is_walked_cold(
    context: Context, surroundings: Surroundings
) -> None:
    """What a server has in its own buffers no reader of files meets: cold is what these had."""
    keys = {"step": "build", "name": "build", "rows": 3_072, "segment_rows": 384, "rebuild": False}
    performed(build, BuildSpec.model_validate(keys), context)
    with context.database() as database:
        database.query("CHECKPOINT")
        database.query("SELECT count(lastname), sum(id) FROM persons1")
    url = context.server.start().render_as_string(hide_password=False)
    pids = context.server.pids()
    with open_server(context.engine, url=url) as remote:
        if remote.data_directory() is None:
            pytest.skip("the server's folder is not seen from here")
        remote.engine = remote.engine.at(17)  # from 18 on its buffers can be emptied
        cold = known(performed(walk, spec_of(threads=4), surroundings(remote)).cold)

    assert cold.got is Temperature.COLD, cold.why
    assert cold.method.startswith("server not stopped (")
    assert "buffers" not in cold.method
    assert known(cold.own_bytes) >= 0.95 * known(cold.stored_bytes)
    assert pids[0] in context.server.pids()
