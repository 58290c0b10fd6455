"""The house is as its picture says: six bands, no import that points up, no circle."""

from collections.abc import Mapping

import grimp
import pytest

from tests import architecture


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


def test_no_import_points_to_a_band_above() -> None:
    """What lies below knows nothing of what lies above."""
    assert architecture.upward(architecture.imports()) == []


def test_the_picture_is_drawn_from_these_imports() -> None:
    """`make picture` draws it again."""
    assert architecture.PICTURE.read_text() == architecture.drawing()


def test_no_modules_import_each_other() -> None:
    """Neither at run time, nor within a function, nor for types alone."""
    graph = grimp.build_graph("replayer", cache_dir=None)

    assert (
        circles({one: graph.find_modules_directly_imported_by(one) for one in graph.modules}) == []
    )


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
