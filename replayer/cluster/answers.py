"""The forms that an agent's answers may have, and the check of each answer before it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from replayer.cluster.remote_calls import HostDescription
from replayer.cluster.reply import InvalidReply
from replayer.errors import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

_Shown = Annotated[str, AfterValidator(one_line)]
_Bytes = list[bytes] | tuple[bytes, ...]


class _Answer(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)


class _About(_Answer):
    version: _Shown
    digest: _Shown
    python: _Shown
    kernel: _Shown
    hostname: _Shown
    boot_id: _Shown
    machine: _Shown
    cores: int = Field(ge=1)
    memory_bytes: int = Field(ge=0)
    free_bytes: int = Field(ge=0)
    uid: int = Field(ge=0)
    may_drop_caches: bool
    may_make_cgroups: bool
    addresses: list[_Shown] | tuple[_Shown, ...]
    realtime_ns: int
    monotonic_ns: int


class _Ping(_Answer):
    ns: int


class _Begun(_Answer):
    child: int = Field(ge=1)


class _Opened(_Answer):
    opened: int


class _Piece(_Answer):
    piece: bytes
    size: int = Field(alias="bytes", ge=0, le=1 << 32)


class _Nothing(_Answer):
    """An answer without contents: it only shows that the call was done."""


class _Silent(_Answer):
    child: Literal[0]


class _Beat(_Answer):
    child: int = Field(ge=0)
    state: Literal["none", "preparing", "ready", "working", "done", "failed"]
    sentence: _Shown
    trace: str
    opened: int
    reports: _Bytes
    first: int = Field(ge=0)
    more: bool
    silent: float = Field(ge=0)
    cpu_share: float | None
    agent_cpu: float | None


_ANSWERS: Mapping[str, TypeAdapter[Any]] = {
    "about": TypeAdapter(_About),
    "ping": TypeAdapter(_Ping),
    "begin": TypeAdapter(_Begun),
    "open": TypeAdapter(_Opened),
    "collect": TypeAdapter(_Piece),
    "beat": TypeAdapter(_Beat | _Silent),
    "interrupt": TypeAdapter(_Nothing),
    "end": TypeAdapter(_Nothing),
}


def checked(op: str, answer: object) -> dict[str, Any]:
    """Return an agent's answer to the call `op` as plain values, after its form was checked.

    This is {"error": sentence} if the agent reports that the call failed. Raises InvalidReply if
    the answer does not have the form that this call requires.
    """
    if isinstance(answer, dict) and "error" in answer:
        return {"error": one_line(answer["error"])}
    try:
        plain: dict[str, Any] = _ANSWERS[op].validate_python(answer).model_dump(by_alias=True)
    except ValidationError as error:
        raise InvalidReply(f"what it answered to {op!r} is not an answer of replayer's") from error
    return plain


def about(answer: Mapping[str, Any]) -> HostDescription:
    """Return the checked answer to the call "about" as the host's description of itself."""
    return HostDescription(**{**answer, "addresses": tuple(answer["addresses"])})
