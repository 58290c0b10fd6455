"""Workload files: what is understood, and the one sentence for what is not."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from replayer import registry
from replayer.errors import Impossible, NotFound
from replayer.model import StepSpec, Workload
from replayer.run.plan import workload as workload_file

SPECS: dict[str, type[StepSpec]] = {
    f"{kind}.{name}": spec
    for kind in ("steps", "probes")
    for name in registry.names(kind)
    if (spec := getattr(registry.load(kind, name), "Spec", None)) is not None
}


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], str]:
    """Return a function that writes a workload file and returns its path as text."""

    def written(text: str) -> str:
        path = tmp_path / "mine.toml"
        path.write_text(text)
        return str(path)

    return written


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[[step]]\nstep = "walc"', "step 1: there is no step 'walc' - did you mean walk?"),
        (
            '[[step]]\nstep = "walk"\nblocksize = "8k"',
            "(walk): unknown key 'blocksize' - did you mean block_size?",
        ),
        ('[[step]]\nstep = "walk"\nblock_size = "8x"', "(walk): block_size = '8x'"),
        ('[[step]]\nstep = "walk"\nthreads = "many"', "(walk): threads = 'many'"),
        ('[[step]]\nstep = "walk"\nthreads = -1', "(walk): threads = -1"),
        ('[[step]]\nstep = "walk"\nmode = "mnap"', "did you mean mmap?"),
        ('[[step]]\nstep = "walk"\n[[step]]\nstep = "walk"', "second one called 'walk'"),
        ('[[steps]]\nstep = "walk"', "unknown key 'steps' - did you mean step?"),
        ("repeat = 0\n[[step]]\nstep = 'walk'", "repeat = 0"),
        ("repeat = true\n[[step]]\nstep = 'walk'", "repeat = True"),
        ("step = 3", "at least one [[step]]"),
        ("[[step]]\nname = 'walk'", 'step = "walk"'),
        ("[[step]\n", "mine.toml"),
        ("settings = 3\n[[step]]\nstep = 'walk'", "settings must be a table"),
    ],
)
def test_error_names_file_step_key_and_nearest(
    write: Callable[[str], str], text: str, says: str
) -> None:
    """Whatever is wrong in a workload file is one sentence: the file's name and what is right."""
    with pytest.raises(Impossible) as caught:
        workload_file.load(write(text))

    assert "mine.toml" in str(caught.value)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_workload_suggests_the_nearest() -> None:
    """A misspelt name is answered with the nearest one that ships."""
    with pytest.raises(NotFound, match="did you mean smoke"):
        workload_file.load("smoek")


def test_missing_capture_says_so_before_a_run_is_begun(tmp_path: Path) -> None:
    """A mistyped name of a capture leaves no failed run in the results."""
    with pytest.raises(NotFound, match=r"monday\.replay is not there"):
        workload_file.load(str(tmp_path / "monday.replay"))


def test_missing_file_says_so(tmp_path: Path) -> None:
    """A path that is not there is no bundled name."""
    with pytest.raises(NotFound, match="is not there"):
        workload_file.load(str(tmp_path / "none.toml"))


def test_a_folder_is_called_a_folder(tmp_path: Path) -> None:
    """It is there, so it is not refused as missing."""
    (tmp_path / "workloads.toml").mkdir()

    with pytest.raises(NotFound, match="is a folder"):
        workload_file.load(str(tmp_path / "workloads.toml"))


def test_what_is_no_workload_is_named_with_its_path_and_the_remedy(tmp_path: Path) -> None:
    """A file of another kind has the hint; one that ends as a workload has a mistake in it."""
    for name, remedy in (("passwd", "`replayer list workloads`"), ("mine.toml", "column 5)")):
        path = tmp_path / name
        path.write_text("root:x:0\n")
        with pytest.raises(Impossible) as caught:
            workload_file.load(str(path))

        assert str(caught.value).startswith(f"{path}: it is not TOML: ")
        assert str(caught.value).endswith(remedy)


def keys(workload: Workload, name: str) -> list[object]:
    """Return the value of a key of each step."""
    return [dict(spec)[name] for spec in workload.steps]


def test_override_replaces_one_value_by_name_or_by_step(write: Callable[[str], str]) -> None:
    """--set finds a step by its name and all steps of a kind by the kind."""
    text = '[[step]]\nstep="walk"\nname="a"\n[[step]]\nstep="walk"\nname="b"'
    one = workload_file.load(write(text), ["a.threads=7"])
    both = workload_file.load(write(text), ["walk.threads=9", "walk.block_size=64k"])

    assert keys(one, "threads") == [7, keys(one, "threads")[1]]
    assert keys(both, "threads") == [9, 9]
    assert keys(both, "block_size")[0] == 65536


@pytest.mark.parametrize(
    ("given", "sizes", "threads"),
    [
        (["probe.sizes=256M", "probe.threads=4"], (256 << 20,), (4,)),
        (["probe.sizes=256M, 1G", "probe.threads=1,4"], (256 << 20, 1 << 30), (1, 4)),
        (['probe.sizes=["256M"]', "probe.threads=[1, 4]"], (256 << 20,), (1, 4)),
    ],
)
def test_list_is_given_as_one_value_or_with_commas(
    write: Callable[[str], str],
    given: list[str],
    sizes: tuple[int, int] | tuple[int],
    threads: tuple[int, int] | tuple[int],
) -> None:
    """A key that is a list takes what one would type first."""
    workload = workload_file.load(write('[[step]]\nstep="probe"\nprobe="sysbench_fileio"'), given)

    assert keys(workload, "sizes") == [sizes]
    assert keys(workload, "threads") == [threads]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("threads=7", "step.key=value"),
        ("walk.threads", "name=value"),
        ("wakl.threads=7", "did you mean walk?"),
        ("walk.thread=7", "did you mean threads?"),
        ("walk.threads=x", "--set walk.threads=x"),
    ],
)
def test_bad_override_is_named(write: Callable[[str], str], given: str, says: str) -> None:
    """A wrong --set is shown as it was typed, with the nearest right one."""
    with pytest.raises(Impossible) as caught:
        workload_file.load(write('[[step]]\nstep="walk"'), [given])

    assert says in str(caught.value)


@pytest.mark.parametrize("name", sorted(SPECS))
@pytest.mark.parametrize("value", ["inf", "-inf", "nan"])
def test_no_key_takes_a_number_that_a_result_cannot_keep(name: str, value: str) -> None:
    """JSON has no such number, so that a run with it could not be resumed."""
    spec = SPECS[name]
    numbers = [key for key, of in spec.model_fields.items() if "float" in str(of.annotation)]
    for key in numbers:
        with pytest.raises(ValidationError) as caught:
            spec.model_validate({"step": "any", key: float(value)})
        assert key in {error["loc"][0] for error in caught.value.errors() if error["loc"]}


@pytest.mark.parametrize(
    ("keys", "given"),
    [
        (["mix='point=1'"], "update_pct=0"),
        (["mix='point=1'"], "update_pct=50"),
        (["mix='point=1'"], "work_unit=255"),
        (["mix='point=1'"], "update_work_unit=64"),
        (["mix='point=1'"], "operations=9"),
        (["rate=5"], "operations=9"),
        (["mix='point=1'"], "access=planner"),
        (["rate=5"], "access=planner"),
        (["mix='point=1'"], "arrivals=uniform"),
        ([], "arrivals=uniform"),
        ([], "resolution=2ms"),
    ],
)
def test_a_key_without_effect_is_refused(
    write: Callable[[str], str], keys: list[str], given: str
) -> None:
    """Where another key leaves it unused, the sentence has it as typed; in the file as well."""
    name, _, value = given.partition("=")
    text = "\n".join(["[[step]]", "step='sessions'", *keys])
    with pytest.raises(Impossible) as typed:
        workload_file.load(write(text), [f"sessions.{given}"])
    with pytest.raises(Impossible) as written:
        workload_file.load(write(f"{text}\n{name}={value if value.isdigit() else repr(value)}"))

    assert f"(--set sessions.{given}): {name} " in str(typed.value)
    for caught in (typed, written):
        assert " has no effect with" in str(caught.value)


@pytest.mark.parametrize(
    ("keys", "given"),
    [
        ("mix='point=1'", "work_unit=100"),
        ("mix='point=1'", "update_pct=50"),
        ("rate=5", "operations=9"),
        ("rate=5", "access='planner'"),
    ],
)
def test_an_override_is_left_out_of_the_steps_in_which_it_has_no_effect(
    write: Callable[[str], str], keys: str, given: str
) -> None:
    """It is for all steps of a kind, and has an effect in one: only there it is a key."""
    plain, other = "[[step]]\nstep='sessions'\nname='a'", "[[step]]\nstep='sessions'\nname='b'"
    expected = workload_file.load(write(f"{plain}\n{given}\n{other}\n{keys}")).steps
    for text in (f"{plain}\n{other}\n{keys}", f"{plain}\n{given}\n{other}\n{keys}"):
        assert workload_file.load(write(text), [f"sessions.{given}"]).steps == expected
    with pytest.raises(Impossible, match=r"step 2 \(b\) \(--set b\..* has no effect with"):
        workload_file.load(write(f"{plain}\n{other}\n{keys}"), [f"b.{given}"])


@pytest.mark.parametrize("given", ["point=1e200", "point=1 scan=1e101", "compute=1e308"])
def test_a_weight_that_is_too_large_is_refused_in_a_short_sentence(
    write: Callable[[str], str], given: str
) -> None:
    """Its limit is no number of a hundred digits."""
    with pytest.raises(Impossible, match=r" less than or equal to 1e\+100\b") as caught:
        workload_file.load(write("[[step]]\nstep='sessions'"), [f"sessions.mix={given}"])

    assert "000" not in str(caught.value)


def test_a_mix_on_the_command_line_replaces_keys_of_the_file(write: Callable[[str], str]) -> None:
    """What the step is done with is kept, and not what the file had instead of the mix."""
    path = write("[[step]]\nstep='sessions'\nwork_unit=64\nupdate_pct=20")
    workload = workload_file.load(path, ["sessions.mix=point=1"])
    alone = write("[[step]]\nstep='sessions'\nmix='point=1'")

    assert workload.steps == workload_file.load(alone).steps
    assert workload_file.of_facts(workload_file.facts(workload)).steps == workload.steps


def test_step_is_looked_for_beside_one_whose_name_was_set_to_a_number(
    write: Callable[[str], str],
) -> None:
    """A number is not a name, but the error is that of the step that is not there."""
    with pytest.raises(Impossible, match="no step 'sessions'"):
        workload_file.load(write('[[step]]\nstep="walk"'), ["walk.name=16", "sessions.a=1"])


def test_digest_changes_with_what_is_done_and_with_nothing_else(
    write: Callable[[str], str],
) -> None:
    """Two workloads that do the same have the same digest, whatever they are called or say."""
    text = '[[step]]\nstep="walk"\nthreads=5'
    first = workload_file.facts(workload_file.load(write(text)))
    commented = workload_file.facts(
        workload_file.load(write("# a comment\ndescription='x'\n" + text))
    )
    other = workload_file.facts(workload_file.load(write(text), ["walk.threads=6"]))

    assert first.digest == commented.digest
    assert first.digest != other.digest


def test_settings_come_from_file_and_command_line(write: Callable[[str], str]) -> None:
    """--pg-set wins over the file; booleans become on and off."""
    text = '[settings]\njit = false\nshared_buffers="1GB"\n[[step]]\nstep="walk"'
    workload = workload_file.load(write(text), settings=["shared_buffers=2GB"])

    assert workload.settings == {"jit": "off", "shared_buffers": "2GB"}


def test_leave_to_write_on_a_device_needs_a_device(tmp_path: Path) -> None:
    """A serial number without a device is refused, from the command line and from a file."""
    for words in ({"i_will_lose_data": "X"}, {"i_will_lose_data": "X", "device": ""}):
        with pytest.raises(Impossible, match="name it with --device, or leave this out"):
            workload_file.load("storage", probe=words)
    path = tmp_path / "mine.toml"
    path.write_text('[[step]]\nstep = "probe"\nprobe = "ioping"\ni_will_lose_data = "X"\n')
    with pytest.raises(Impossible, match="and none is named"):
        workload_file.load(str(path))
