"""Write a file with O_DSYNC in one or more writes, then read it back (as dd oflag=dsync does)."""

from pydantic import Field, model_validator

from replayer.machine.host import Host
from replayer.run.probe_context import ProbeContext, ProbeSpec
from replayer.storage.io_job import BlockOrder, IoJob
from replayer.storage.io_result import IoResult
from replayer.units import Size, show_size

_LARGEST_WRITE = 1 << 30


class Spec(ProbeSpec):
    """The equivalents of dd's bs= and count=."""

    size: Size = Field(default=1 << 30, ge=512)
    """Size of each client's file: bs= times count=."""
    writes: int = Field(default=1, ge=1)
    """Number of writes of equal size in which the file is written."""
    direct: bool = False
    """Use O_DIRECT as well, as with oflag=dsync,direct."""

    @model_validator(mode="after")
    def _one_system_call(self) -> "Spec":
        if self.size % self.writes:
            raise ValueError(f"{self.size} bytes cannot be written in {self.writes} equal writes")
        if self.size // self.writes > _LARGEST_WRITE:
            raise ValueError("one write can be at most 1 GiB; ask for more writes")
        return self


def needs(spec: Spec, host: Host) -> int:  # noqa: ARG001 - the signature is every probe's
    """Return the size of one client's file, in bytes."""
    return spec.size


def run(spec: Spec, context: ProbeContext) -> None:
    """Write the files, drop them from the page cache, then read them back from the device."""
    context.writable(writes=True)
    if spec.cross_check:
        context.findings.note("cross-check skipped: dd has no fast source of incompressible data")
    block = spec.size // spec.writes
    targets = context.files("dd", 1, spec.size, block_size=block, filled=False, direct=spec.direct)
    if context.findings.facts.get("storage.fallback") is None and not spec.device:
        context.findings.facts["file"] = "new: the first write allocates"
    for operation, share in (("write", 0.0), ("read", 1.0)):
        job = IoJob(
            name=f"{spec.name}: {operation}",
            threads=1,
            block_size=block,
            access=BlockOrder.SEQUENTIAL,
            read_share=share,
            direct=spec.direct,
            dsync=share == 0,
            operations=spec.writes,
            working_set=spec.size,
            seed=spec.seed,
        )
        context.drop(targets)
        io = context.run_io(job.name, [job], targets)
        context.io_rows(io, [job], targets)
        _tell(context, operation, [results[0] for results in io.by_client], io.of())


def _tell(context: ProbeContext, operation: str, clients: list[IoResult], result: IoResult) -> None:
    lines = [_line(one) for one in clients]
    if len(clients) > 1:
        lines.append(f"all: {_line(result)}")
    context.findings.lines(operation, lines)
    context.findings.measure(f"dd_dsync.{operation}.throughput", result.throughput, "bytes/s")


def _line(result: IoResult) -> str:
    """Return a result in the format of dd's last line."""
    decimal = result.bytes / 1e9
    return (
        f"{result.bytes} bytes ({decimal:.1f} GB, {show_size(result.bytes)}) copied, "
        f"{result.seconds:.6g} s, {result.throughput / 1e6:.1f} MB/s"
    )
