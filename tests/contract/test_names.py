"""A name has one meaning: classes, files, and the sizes that keep them readable."""

import ast
import functools
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from replayer import registry
from tests import architecture

REPLAYER = Path(__file__).resolve().parents[2] / "replayer"
MOST_LINES_OF_A_FILE = 600
MOST_LINES_OF_A_CLASS = 250
MOST_LINES_OF_A_FUNCTION = 60
MOST_ATTRIBUTES = 20
PLUGINS = tuple(REPLAYER / kind.replace(".", "/") for kind in registry.KINDS)
OF_PLUGINS = {"Spec"}
"""Class names that every plug-in of a kind has."""
OF_PACKAGES = {"__init__", "__main__"}
LARGE = {
    "capture/assembly.py:SessionAssembly": "one state machine over the entries of a log",
    "engines/connection.py:Database": "the one control connection",
    "engines/wires/mysql/mysql_connection.py:MySQLConnection": "one protocol",
    "engines/wires/postgres/postgres_connection.py:PostgresConnection": "one protocol",
    "load/clients.py:_Clients": "a loop over sessions whose state is all in it",
    "run/probe_context.py:ProbeContext": "all that a probe may use",
    "servers/data_folder.py:DataFolder": "one folder through its descriptor",
    "storage/io_worker.py:_IoWorker": "one timed loop",
}
"""What is larger than the limits -> what holds it together, and is to be divided: only shrinks."""


@functools.cache
def modules() -> dict[Path, ast.Module]:
    """Return path -> tree of every module; not at import, as each worker of the tests imports."""
    return {path: ast.parse(path.read_text()) for path in sorted(REPLAYER.rglob("*.py"))}


def classes() -> Iterator[tuple[str, ast.ClassDef]]:
    """Yield each class at the top of a module, with its path below replayer/."""
    for path, tree in modules().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                yield f"{path.relative_to(REPLAYER)}:{node.name}", node


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield each function and method, with its path below replayer/."""
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.relative_to(REPLAYER)}:{node.name}", node


def lines(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the length of a class or a function."""
    return (node.end_lineno or 0) - node.lineno + 1


def attributes(node: ast.ClassDef) -> int:
    """Return the number of attributes that a class sets on itself."""
    return len(
        {
            target.attr
            for target in ast.walk(node)
            if isinstance(target, ast.Attribute)
            and isinstance(target.ctx, ast.Store)
            and isinstance(target.value, ast.Name)
            and target.value.id == "self"
        }
    )


def test_a_public_class_name_is_used_once() -> None:
    """A reader who knows the name knows the class."""
    places = defaultdict(list)
    for place, node in classes():
        if not node.name.startswith("_") and node.name not in OF_PLUGINS:
            places[node.name].append(place)

    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_a_file_name_is_used_once_in_a_band() -> None:
    """The same noun may stand at each layer; within one it would be two things."""
    bands = architecture.band_of()
    places = defaultdict(list)
    for path in modules():
        within = path.relative_to(REPLAYER)
        if any(path.is_relative_to(kind) for kind in PLUGINS) or path.stem in OF_PACKAGES:
            continue
        places[bands[within.with_suffix("").parts[0]], path.stem].append(str(within))

    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def protocol_members() -> Iterator[tuple[str, str]]:
    """Yield each method of a Protocol that is not a property, with its Protocol's place."""
    for place, node in classes():
        if not any(isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases):
            continue
        for member in node.body:
            if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef) and not any(
                isinstance(decorator, ast.Name) and decorator.id == "property"
                for decorator in member.decorator_list
            ):
                yield place, member.name


def test_no_member_of_a_protocol_is_a_bare_participle() -> None:
    """Strangers write against them: a hook says what it does."""
    irregular = {
        *("began", "came", "done", "found", "given", "gone", "heard", "held", "kept", "left"),
        *("lost", "made", "met", "said", "seen", "sent", "stood", "taken", "told"),
    }
    bare = [
        f"{place}.{name}"
        for place, name in protocol_members()
        if "_" not in name.strip("_") and (name in irregular or name.endswith("ed"))
    ]

    assert bare == []


def too_large() -> Iterator[str]:
    """Yield what is larger than the limits allow."""
    for path in modules():
        if len(path.read_text().splitlines()) > MOST_LINES_OF_A_FILE:
            yield str(path.relative_to(REPLAYER))
    for place, node in classes():
        if lines(node) > MOST_LINES_OF_A_CLASS or attributes(node) > MOST_ATTRIBUTES:
            yield place
    for place, function in functions():
        if lines(function) > MOST_LINES_OF_A_FUNCTION:
            yield place


def test_files_classes_and_functions_are_small() -> None:
    """What has grown is divided; an exception has its reason, and goes when it is no longer one."""
    assert sorted(too_large()) == sorted(LARGE)
