"""What a worker process loads: every process of a pool pays for it, before its jobs are ready."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import replayer

PACKAGE = Path(replayer.__file__).parent
USED = {
    "replayer.load.clients": {"numpy"},
    "replayer.steps.replay.worker": {"numpy", "zstandard"},
    "replayer.storage.io_worker": {"numpy"},
    "replayer.storage.metadata": {"numpy"},
    "replayer.storage.spin_worker": {"numpy"},
}
"""A module with work for a pool -> the libraries that the work uses; others use none."""
PROGRAM = """
import importlib, json, os, sys
for name in sys.argv[1:]:
    if os.fork() == 0:
        importlib.import_module(name)
        found = {module.partition(".")[0] for module in sys.modules} - sys.stdlib_module_names
        print(json.dumps([name, sorted(found)]), flush=True)
        os._exit(0)
    os.wait()
"""


def working() -> Iterator[str]:
    """Yield the modules with a function that a pool calls: its second parameter is a Barrier."""
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        for found in ast.walk(ast.parse(source)) if "Barrier" in source else ():
            if isinstance(found, ast.FunctionDef) and len(found.args.args) > 1:
                annotation = found.args.args[1].annotation
                if isinstance(annotation, ast.Name) and annotation.id == "Barrier":
                    yield ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)


def test_a_worker_loads_only_what_its_work_uses() -> None:
    """No model of a result, no SQLAlchemy: a pool may have hundreds of processes."""
    modules = list(working())
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, *modules], capture_output=True, text=True, check=True
    )
    loaded = {name: set(found) for name, found in map(json.loads, done.stdout.splitlines())}

    assert set(USED) < set(loaded) == set(modules)
    known = {"replayer", "cython_runtime"}  # numpy makes the second one
    assert {
        name: {one for one in found - known if not one.startswith("_")}
        for name, found in loaded.items()
    } == {name: USED.get(name, set()) for name in modules}
