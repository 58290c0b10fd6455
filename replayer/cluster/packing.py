"""Jobs, reports and results as bytes: plain values, and replayer's dataclasses with their fields.

Nothing is pickled, so data from another host can only become a value. A class is looked up by its
name in replayer's own modules, and must be a dataclass, a NamedTuple or an enum. Only its fields
are set; no constructor is called. Functions are never sent: a work function is requested by its
name, and must have been marked with `workers.distributable`.
"""

from __future__ import annotations

import array
import dataclasses
import datetime as dt
import decimal
import enum
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgpack

from replayer import lazy_import
from replayer.errors import ReplayerError
from replayer.watch.workers import is_distributable

PACKAGES = {"replayer"}
"""Top-level packages whose classes and work functions another host may name."""

_FIELDS, _ENUM, _TUPLE, _SET, _FROZEN, _ARRAY, _NUMPY, _INTEGER, _OTHER, _NAMED = range(10)
_TEXTS: Mapping[str, tuple[type, Callable[[Any], str], Callable[[str], Any]]] = {
    "decimal": (decimal.Decimal, str, decimal.Decimal),
    "datetime": (dt.datetime, dt.datetime.isoformat, dt.datetime.fromisoformat),
    "path": (Path, str, Path),
}
_DTYPES = "biufcSU"
_NUMBER = (int, float)
_PLAIN: Mapping[str, type | tuple[type, ...]] = {
    "int": _NUMBER,
    "float": _NUMBER,
    "bool": int,
    "str": str,
    "bytes": bytes,
}
"""Annotation of a field -> the types that its value may have."""


def pack(value: Any) -> bytes:
    """Return a value as bytes; raise ReplayerError for a type that cannot be sent."""
    try:
        packed: bytes = msgpack.packb(value, default=_encoded, strict_types=True, use_bin_type=True)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ReplayerError(f"this cannot be sent to another host: {error}") from error
    return packed


def unpack(data: bytes) -> Any:
    """Return the value that `pack` turned into these bytes; raise ReplayerError for other bytes."""
    try:
        return msgpack.unpackb(data, ext_hook=_decoded, strict_map_key=False)
    except ReplayerError:
        raise
    except Exception as error:
        raise ReplayerError(
            f"what another host sent is not a message of replayer ({type(error).__name__}: {error})"
        ) from error


def name_of(work: Callable[..., Any]) -> str:
    """Return `module:function`, the name by which another host finds a work function.

    Raises ReplayerError if the function is not marked as distributable.
    """
    if not is_distributable(work):
        raise ReplayerError(
            f"{work.__module__}.{work.__qualname__} cannot be done by another host: it is not "
            f"marked as distributable"
        )
    return f"{work.__module__}:{work.__qualname__}"


def work_of(name: str) -> Callable[..., Any]:
    """Return the work function with the name `module:function`.

    Raises ReplayerError if there is none, or if it is not marked as distributable.
    """
    work = _looked_up(name)
    if not (callable(work) and is_distributable(work)) or isinstance(work, type):
        raise ReplayerError(f"{name} was asked for by another host, and is not work of replayer's")
    named: Callable[..., Any] = work
    return named


def _encoded(value: Any) -> Any:  # noqa: PLR0911 - one line for each kind
    kind = type(value)
    if kind is tuple:
        return msgpack.ExtType(_TUPLE, pack(list(value)))
    if kind in {set, frozenset}:
        return msgpack.ExtType(_SET if kind is set else _FROZEN, pack(list(value)))
    if isinstance(value, int) and kind is int:
        return msgpack.ExtType(_INTEGER, str(value).encode())
    if isinstance(value, enum.Enum):
        return msgpack.ExtType(_ENUM, pack([_name(kind), value.name]))
    if dataclasses.is_dataclass(value):
        fields = [getattr(value, field.name) for field in dataclasses.fields(value)]
        return msgpack.ExtType(_FIELDS, pack([_name(kind), *fields]))
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return msgpack.ExtType(_NAMED, pack([_name(kind), *value]))
    if kind in {dict, MappingProxyType} or isinstance(value, Mapping):
        return dict(value)
    if kind is array.array:
        return msgpack.ExtType(_ARRAY, pack([value.typecode, value.tobytes()]))
    if kind.__module__ == "numpy":
        return _of_numpy(value)
    return _as_text(value)


def _of_numpy(value: Any) -> Any:
    if not hasattr(value, "dtype") or value.dtype.kind not in _DTYPES:
        raise TypeError(f"a {type(value).__name__} of numpy")
    if not value.ndim:
        return value.item()
    return msgpack.ExtType(_NUMPY, pack([value.dtype.str, list(value.shape), value.tobytes()]))


def _as_text(value: Any) -> Any:
    for name, (kind, text, _) in _TEXTS.items():
        if isinstance(value, kind):
            return msgpack.ExtType(_OTHER, pack([name, text(value)]))
    raise TypeError(f"a {type(value).__module__}.{type(value).__qualname__}")


def _decoded(code: int, data: bytes) -> Any:  # noqa: PLR0911 - one line for each kind
    if code == _INTEGER:
        return int(data)
    content = unpack(data)
    if code == _TUPLE:
        return tuple(content)
    if code in {_SET, _FROZEN}:
        return set(content) if code == _SET else frozenset(content)
    if code == _FIELDS:
        return _with_fields(content[0], content[1:])
    if code == _NAMED:
        return _with_items(content[0], content[1:])
    if code == _ENUM:
        return _class(content[0])[content[1]]
    if code == _ARRAY:
        return array.array(content[0], content[1])
    if code == _NUMPY:
        return _to_numpy(*content)
    name, text = content
    return _TEXTS[name][2](text)


def _to_numpy(dtype: str, shape: list[int], data: bytes) -> Any:
    import numpy as np  # noqa: PLC0415 - an agent does without

    kind = np.dtype(dtype)
    if kind.kind not in _DTYPES:
        raise ReplayerError(f"an array of {dtype} came from another host")
    return np.frombuffer(data, kind).reshape(shape).copy()


def _with_fields(name: str, values: list[Any]) -> Any:
    kind = _class(name)
    value = object.__new__(kind)
    for field, content in zip(dataclasses.fields(kind), values, strict=True):
        # It is text only in modules with annotations from __future__.
        declared = getattr(field.type, "__name__", str(field.type))
        if not isinstance(content, _PLAIN.get(declared, object)):
            raise ReplayerError(f"{name} came from another host with a {field.name} of its own")
        object.__setattr__(value, field.name, content)
    return value


def _with_items(name: str, values: list[Any]) -> Any:
    kind = _class(name)
    if len(values) != len(kind._fields):
        raise ReplayerError(f"{name} came from another host, and is not whole")
    return tuple.__new__(kind, values)


def _class(name: str) -> Any:
    kind = _looked_up(name)
    named = isinstance(kind, type) and (
        dataclasses.is_dataclass(kind)
        or issubclass(kind, enum.Enum)
        or (issubclass(kind, tuple) and hasattr(kind, "_fields"))
    )
    if not named:
        raise ReplayerError(f"{name} came from another host, and is not a value of replayer's")
    return kind


def _name(kind: type) -> str:
    if kind.__module__.partition(".")[0] not in PACKAGES:
        raise TypeError(f"a {kind.__module__}.{kind.__qualname__}")
    return f"{kind.__module__}:{kind.__qualname__}"


def _looked_up(name: str) -> Any:
    module, _, qualified = name.partition(":")
    if module.partition(".")[0] not in PACKAGES:
        raise ReplayerError(f"{name} came from another host, and is not part of replayer")
    try:
        value: Any = sys.modules.get(module) or lazy_import.load(module)
        for part in qualified.split("."):
            value = vars(value)[part]
    except (ImportError, KeyError, TypeError, ValueError) as error:
        raise ReplayerError(
            f"{name} came from another host, and is not here: install the same replayer there"
        ) from error
    # A name that a module has only imported does not belong to that module.
    if getattr(value, "__module__", module) != module:
        raise ReplayerError(f"{name} came from another host, and is not part of replayer")
    return value
