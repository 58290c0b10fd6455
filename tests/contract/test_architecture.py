"""The house is as its picture says: six bands, no import that points up, no circle."""

import ast
import functools
import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import psycopg.connection
import pymysql.connections
import pymysql.cursors
import pytest

from tests import architecture

REPLAYER = Path(__file__).resolve().parents[2] / "replayer"
WIRES = REPLAYER / "engines" / "wires"
DRIVERS = (psycopg.connection, pymysql.connections, pymysql.cursors)


class Plain(NamedTuple):
    """A named tuple, whose documented members begin with _ too."""


def circles(imported: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules that import each other, by Tarjan's algorithm."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        order[module] = lowest[module] = len(order)
        stack.append(module)
        for other in sorted(imported[module]):
            if other not in order:
                visit(other)
                lowest[module] = min(lowest[module], lowest[other])
            elif other in stack:
                lowest[module] = min(lowest[module], order[other])
        if lowest[module] == order[module]:
            at = stack.index(module)
            group = stack[at:]
            del stack[at:]
            if len(group) > 1:
                found.append(sorted(group))

    for module in sorted(imported):
        if module not in order:
            visit(module)
    return found


def test_every_room_stands_in_one_band() -> None:
    """A new folder or module of the root is put into the picture."""
    assert set(architecture.band_of()) == set(architecture.imports())


def test_few_modules_lie_loose_at_the_root() -> None:
    """What is not for the whole house lies in a room."""
    loose = {path.stem for path in REPLAYER.glob("[!_]*.py")}
    assert len(loose) <= 12, loose


def test_no_import_points_to_a_band_above() -> None:
    """What lies below knows nothing of what lies above."""
    assert architecture.upward(architecture.imports()) == []


def test_the_picture_is_drawn_from_these_imports() -> None:
    """`make picture` draws it again."""
    assert architecture.PICTURE.read_text() == architecture.drawing()


def test_no_modules_import_each_other() -> None:
    """Neither at run time, nor within a function, nor for types alone."""
    graph = architecture.graph()
    imported = {one: graph.find_modules_directly_imported_by(one) for one in graph.modules}

    assert circles(imported) == []


@pytest.mark.parametrize(
    ("imported", "expected"),
    [
        ({"a": {"b"}, "b": set()}, []),
        ({"a": {"b"}, "b": {"a"}}, [["a", "b"]]),
        ({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}, [["a", "b", "c"]]),
    ],
)
def test_a_circle_is_found(imported: dict[str, set[str]], expected: list[list[str]]) -> None:
    """The check of this file can fail."""
    assert circles(imported) == expected


@functools.cache
def privates() -> set[str]:
    """Return the names of the private members of the drivers' connections and cursors."""
    names = set()
    for driver in DRIVERS:
        for node in ast.walk(ast.parse(inspect.getsource(driver))):
            if isinstance(node, ast.FunctionDef):
                names.add(node.name)
            elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self":
                names.add(node.attr)
    return {name for name in names if name[0] == "_" and name[:2] != "__"} - set(dir(Plain))


def touched(source: str) -> Iterator[str]:
    """Yield each use of a private member of a driver: by a dot, or by its name as a text."""
    own, names = {"self", "cls"}, privates()
    if names.isdisjoint(re.findall(r"\w+", source)):
        return  # most modules need not be parsed
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in names:
            if ast.unparse(node.value) not in own:
                yield ast.unparse(node)
        elif isinstance(node, ast.Constant) and node.value in names:
            yield str(node.value)


def test_private_members_of_drivers_are_used_by_wires_alone() -> None:
    """Each protocol lies in its folder of engines/wires, which a new release of a driver is for."""
    used = {path: list(touched(path.read_text())) for path in sorted(REPLAYER.rglob("*.py"))}

    assert {path: uses for path, uses in used.items() if uses and WIRES not in path.parents} == {}
    assert sum(map(len, used.values())) > 5, "what is looked for is found in the wires"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("connection._sock.fileno()", ["connection._sock"]),
        ("self._made._force_close()", ["self._made._force_close"]),
        ("getattr(pg, '_read_packet')()", ["_read_packet"]),
        ("self._sock = 1\nrow._replace(a=1)\nconnection.close()", []),
    ],
)
def test_a_private_member_is_found(source: str, expected: list[str]) -> None:
    """The check of this file can fail."""
    assert list(touched(source)) == expected
