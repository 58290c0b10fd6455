"""The keys of a step, described for the author of a workload file."""

from collections.abc import Iterable, Iterator
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from replayer.model import StepSpec
from replayer.units import NumberForm, show_count

_BOUNDS = (("ge", "from"), ("gt", "above"), ("le", "to"), ("lt", "below"))


def keys(spec: type[StepSpec]) -> Iterator[dict[str, str | None]]:
    """Yield a dictionary for each key of a step that the class `spec` adds to its base class.

    Its entries are `name`, `type`, `default` and `text`, the docstring.  `default` includes the
    bounds; it is None for a key without bounds that must be given.
    """
    base = spec.__base__
    inherited = base.model_fields if base is not None and issubclass(base, StepSpec) else {}
    for name, field in spec.model_fields.items():
        if name not in inherited:
            yield {
                "name": field.alias or name,
                "type": _kind(field.annotation, field.metadata),
                "default": _default(field),
                "text": " ".join((field.description or "").split()),
            }


def _kind(annotation: Any, metadata: Iterable[Any] = ()) -> str:
    """Return the name of a type for the author of a workload: `int`, `size`, `cold | hot`."""
    written = _written(metadata)
    if written is not None:
        return written.name
    inner = get_args(annotation)
    origin = get_origin(annotation)
    if origin is Annotated:
        return _kind(inner[0], inner[1:])
    if origin in (Union, UnionType):
        return " | ".join(_kind(one) for one in inner if one is not NoneType)
    if origin is Literal:
        return " | ".join(map(str, inner))
    return f"list of {_kind(inner[0])}" if origin is tuple else _plain(annotation)


def _plain(kind: type) -> str:
    if issubclass(kind, Enum):
        return " | ".join(str(one.value) for one in kind)
    return kind.__name__.lower()


def _written(metadata: Iterable[Any]) -> NumberForm | None:
    return next((one for one in metadata if isinstance(one, NumberForm)), None)


def _default(field: FieldInfo) -> str | None:
    """Return a key's default and its bounds as a text; None for a required key without bounds."""
    bounds = " ".join(
        f"{word} {_shown(limit, field)}"
        for bound in field.metadata
        for name, word in _BOUNDS
        if (limit := getattr(bound, name, None)) is not None
    )
    if field.is_required():
        return f"required ({bounds})" if bounds else None
    shown = _shown(field.get_default(call_default_factory=True), field)
    return f"{shown} ({bounds})" if bounds else shown


def _shown(value: Any, field: FieldInfo) -> str:
    """Return a value in a readable form, such as 1.00 GiB for a size of 1073741824."""
    if value is None or value == "":
        return "not set"
    if isinstance(value, tuple):
        return ", ".join(_shown(one, field) for one in value) or "none"
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, bool):
        return str(value).lower()
    written = _written(_metadata(field.annotation, field.metadata))
    if written is not None:
        return written.show(value)
    return show_count(value) if isinstance(value, int) else str(value)


def _metadata(annotation: Any, metadata: Iterable[Any] = ()) -> Iterator[Any]:
    """Yield the metadata of an annotated type, such as its bounds.

    Metadata of types inside `| None` and inside lists is included.
    """
    yield from metadata
    for inner in get_args(annotation):
        yield from _metadata(inner)
        yield from getattr(inner, "__metadata__", ())
