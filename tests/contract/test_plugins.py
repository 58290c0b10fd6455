"""Every plug-in, workload and schema keeps its contract: a new one is tested by existing."""

import inspect
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from replayer import assets, registry
from replayer.cli.command_parser import parser
from replayer.engines import engine
from replayer.errors import Impossible
from replayer.model import StepSpec
from replayer.run.plan import workload as workload_file
from tests.command import Replayer

EVERY = [(kind, name) for kind in registry.KINDS for name in registry.names(kind)]


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_plugin_says_what_it_is_for(kind: str, name: str) -> None:
    """A plug-in without a docstring cannot be listed; it is read as Python would."""
    about = registry.load(kind, name).__doc__ or ""

    assert about.strip()
    assert registry.about(kind, name) == inspect.cleandoc(about)


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_plugin_keeps_to_the_face_of_its_kind(kind: str, name: str) -> None:
    """It has what each of its kind must have, nothing misspelt, and takes the face's parameters."""
    assert registry.plugin(kind, name)


TOY = """
'A toy.'
from replayer.model import StepSpec
class Spec(StepSpec): pass
def run(spec, context): pass
{more}
"""


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ("def neds_database(spec): return False", "did you mean needs_database?"),
        ("HAS_WINDOWS = False", "did you mean HAS_WINDOW?"),
        ("def check(spec): pass", "takes (spec) where it must take (spec, context)"),
        ("check = 3", "check is not a function"),
        ("del run", "has no run"),
        ("del Spec", "has no Spec"),
        ("del Spec, run", "has no Spec and no run"),
    ],
)
def test_a_wrong_member_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, more: str, sentence: str
) -> None:
    """It names the step, the member, and the nearest one that there is."""
    toy = ModuleType("replayer.steps.toy")
    exec(TOY.format(more=more), vars(toy))
    monkeypatch.setattr(registry, "load", lambda *_: toy)

    with pytest.raises(Impossible, match=f"step toy.*{re.escape(sentence)}"):
        registry.plugin.__wrapped__("steps", "toy")


def test_a_step_has_a_default_for_what_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parameters that a module does not use may begin with an underscore."""
    toy = ModuleType("replayer.steps.toy")
    exec(TOY.format(more="def needs_database(_spec): return False"), vars(toy))
    monkeypatch.setattr(registry, "load", lambda *_: toy)
    step = registry.plugin.__wrapped__("steps", "toy")

    assert step.needs_database(None) is False
    assert step.uses_client_hosts(None) is False
    assert step.run_here_reason(None) == ""
    assert step.footprint(None, 8192) is None
    assert step.spec_of({}) is step.Spec


@pytest.mark.parametrize("name", registry.names("steps"))
def test_step_has_spec_and_run(name: str) -> None:
    """A step's keys are declared, described by a default or required, and start from StepSpec."""
    module = registry.load("steps", name)

    assert callable(module.run)
    assert hasattr(module, "spec_of") or issubclass(module.Spec, StepSpec)


@pytest.mark.parametrize("name", registry.names("collectors"))
def test_collector_reads_files_or_records(name: str) -> None:
    """It names files below the root and parses, and so starts nothing; or it begins a recording."""
    module = registry.load("collectors", name)

    assert hasattr(module, "FILES") is not hasattr(module, "begin")
    if hasattr(module, "begin"):
        assert callable(module.begin)
        return
    assert module.FILES
    assert all(not path.startswith("/") for path in module.FILES)
    assert callable(module.parse)


@pytest.mark.parametrize("name", sorted(assets.workloads()))
def test_workload_is_understood_and_says_what_it_imitates(name: str) -> None:
    """A workload that ships can be planned, and has a comment and a description."""
    workload = workload_file.load(name)

    assert workload.comment
    assert workload.description
    assert workload.steps
    assert max(map(len, workload.comment.splitlines())) <= 100


@pytest.mark.parametrize("name", sorted(assets.engines()))
def test_engine_can_be_loaded_and_every_hole_is_known(name: str) -> None:
    """An engine's files are all asked for, and its verb files become statements."""
    loaded = engine.checked(name)

    assert loaded.title
    for verb_name in loaded.verbs():
        verb = loaded.named(verb_name)
        if verb is not None:
            holes = set(re.findall(r"\{\{(\w+)\}\}", verb.text))
            assert verb.statements(**dict.fromkeys(holes, "x"))


@pytest.mark.parametrize("name", registry.names("commands"))
def test_command_help_has_examples_that_parse(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every command's help ends with examples, and the parser takes each of them."""
    with pytest.raises(SystemExit) as done:
        parser().parse_args([name, "--help"])
    text = capsys.readouterr().out

    assert done.value.code == 0
    examples = re.findall(r"^  replayer (.+)$", text, re.MULTILINE)
    assert examples
    for line in examples:
        words = line.split("  ")[0].split()
        parser().parse_args(words)


IMPORTED = """
import sys
from replayer.__main__ import main
for words in sys.argv[1:]:
    try:
        main(words.split())
    except SystemExit:
        pass
    print(*sys.modules, file=sys.stderr)
"""


def test_only_the_command_that_was_asked_for_is_imported(replayer: Replayer) -> None:
    """Help of replayer itself loads no command and nothing heavy; a command no other command."""
    asked = ("--help", "show --help", "import --help")
    done = replayer.process(*asked, command=(sys.executable, "-c", IMPORTED))
    lines = [line.split() for line in done.err.splitlines()]

    prefix = "replayer.commands."
    commands = [
        [name.removeprefix(prefix) for name in modules if name.startswith(prefix)]
        for modules in lines
    ]
    assert commands == [[], ["show"], ["show", "import_"]]
    assert ["pydantic" in modules for modules in lines] == [False, True, True]
    assert not {"numpy", "scipy", "sqlalchemy"} & set(lines[-1])


def test_help_names_every_command_with_what_it_is_for() -> None:
    """The list of commands is read from the files' docstrings, whole."""
    text = " ".join(parser().format_help().split())

    for name in registry.names("commands"):
        about = (registry.load("commands", name).__doc__ or "").partition("\n")[0].rstrip(".")
        assert f"{name} {about}" in text


def test_every_import_inside_a_function_says_why() -> None:
    """One that is not at the top has its reason in words, on its line or in a comment above."""
    without = []
    for path in sorted(Path(registry.__file__).parent.rglob("*.py")):
        lines = path.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines):
            reason = line.partition("# noqa: PLC0415")[2].strip(" -")
            above = lines[number - 1].strip()
            if "PLC0415" in line and not reason and not above.startswith("# "):
                without.append(f"{path.name}:{number + 1}")

    assert not without
