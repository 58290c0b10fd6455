"""The reference of keys, metrics and warnings, written from the code as docs/reference.md.

    python -m tests.reference             # writes the page
    make reference                        # the same

A key has its text, its type and its bounds from the plug-in's Spec.  A metric of a result has its
unit and its direction from the call that records it.  A warning has the anchor of its function's
name, which a report names behind the warning: `tests/contract/test_reference.py`.
"""

import ast
import inspect
import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic.fields import FieldInfo

from replayer import registry
from replayer.analysis.advice import warnings
from replayer.engines import engine_spec, verb_table
from replayer.metrics import families
from replayer.model import Noun, StepSpec
from replayer.run import step_recorder
from replayer.run.plan.step_keys import keys
from replayer.run.plan.workload import TOP_KEYS

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference.md"
EXTENDING = ROOT / "docs" / "extending.md"
_BEGIN, _END = "<!-- verbs -->", "<!-- end of verbs -->"
_HEAD = """\
# Reference

This page is made from the code: `make reference`.

- [Keys of a workload](#keys-of-a-workload): what its file takes beside the keys of steps
- [Keys of steps](#keys-of-steps) and [of probes](#keys-of-probes): what `--set` and a workload take
- [Keys of engine.toml](#keys-of-enginetoml): what an engine of your own can say
- [Metrics of a result](#metrics-of-a-result): what `compare --metric` takes
- [Metrics for Prometheus](#metrics-for-prometheus): what `replayer metrics` serves
- [Warnings](#warnings): what a report says below its numbers, one anchor each
"""
_SECTIONS: dict[str, type[Noun]] = {
    "": engine_spec.EngineSpec,
    "recognise.": engine_spec.Recognise,
    "connect.": engine_spec.Connect,
    "profile.": engine_spec.ProfileSpec,
    "password.": engine_spec.Password,
    "lock.": engine_spec.Lock,
    "server.": engine_spec.ServerSpec,
    "server.settings_file.": engine_spec.SettingsFile,
    "server.settings.NAME.": engine_spec.SettingSpec,
    "sessions.": engine_spec.SessionsSpec,
    "sessions.buffers.": engine_spec.Buffers,
    "layouts.NAME.": engine_spec.LayoutSpec,
}
"""Section of an engine.toml -> the keys that it may have."""
_TABLES = {name.rpartition(".NAME.")[0] or name.rstrip(".") for name in _SECTIONS}
"""Keys that are sections, with rows of their own."""
_DIRECTIONS = {"MORE": "more is better", "LESS": "less is better", "NEITHER": "neither"}


def page() -> str:
    """Return the page's Markdown."""
    parts = [
        _HEAD,
        "## Keys of a workload\n",
        _table(("key", "what it is"), [(f"`{key}`", text) for key, text in TOP_KEYS.items()]),
        "## Keys of steps\n",
        "Every step also takes these:\n",
        _key_table(StepSpec),
        *_plugins("steps"),
        "## Keys of probes\n",
        *_plugins("probes"),
        *_engine_keys(),
        *_results(),
        *_prometheus(),
        *_warnings(),
    ]
    return "\n".join(parts)


def _plugins(kind: str) -> Iterator[str]:
    for name in registry.names(kind):
        spec = registry.plugin(kind, name).Spec
        about = registry.about(kind, name).partition("\n\n")[0]
        yield f"### {name}\n\n{_cell(about)}\n"
        yield _key_table(spec)


def _key_table(spec: type[StepSpec]) -> str:
    rows = [
        (f"`{key['name']}`", key["type"], key["default"] or "required", key["text"])
        for key in keys(spec)
        if key["name"] != "step"
    ]
    return _table(("key", "type", "default", "what it is"), rows)


def _engine_keys() -> Iterator[str]:
    yield "## Keys of engine.toml\n"
    yield (
        "A key of an engine that another is `like` is inherited, but for "
        f"{', '.join(f'`{name}`' for name in engine_spec.OWN)}.\n"
    )
    rows = [
        (f"`{section}{name}`", _default(field), texts.get(name, ""))
        for section, kind in _SECTIONS.items()
        for texts in (_texts(kind),)
        for name, field in kind.model_fields.items()
        if f"{section}{name}" not in _TABLES
    ]
    yield _table(("key", "default", "what it is"), rows)


def _texts(kind: type) -> dict[str, str]:
    """Return key -> the text below it in the code."""
    parents = _texts(kind.__mro__[1]) if kind.__mro__[1] is engine_spec.Connect else {}
    (body,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(body, ast.ClassDef)
    return parents | {
        one.target.id: str(two.value.value)
        for one, two in itertools.pairwise(body.body)
        if isinstance(one, ast.AnnAssign)
        and isinstance(one.target, ast.Name)
        and isinstance(two, ast.Expr)
        and isinstance(two.value, ast.Constant)
    }


def _default(field: FieldInfo) -> str:
    """Return a key's default, "" for an empty one."""
    if field.is_required():
        return "required"
    plain = field.default if isinstance(field.default, str | int | float) else ""
    return f"`{str(plain).lower() if isinstance(plain, bool) else plain}`" if plain != "" else ""


def _results() -> Iterator[str]:
    yield "## Metrics of a result\n"
    yield "`<...>` stands for a part of the name that the workload decides.\n"
    found = {
        metric: (f"`{metric}`", unit.replace("<unit>", "its own") or "a ratio", direction)
        for kind in ("steps", "probes")
        for path in sorted((ROOT / "replayer" / kind).rglob("*.py"))
        for metric, unit, direction in recorded(path)
    }
    yield _table(("metric", "unit", "direction"), [found[name] for name in sorted(found)])


def recorded(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield (metric, unit, direction) of each call in a module that records a measurement."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        metric = _text(node.args[0], constants)
        if _called(node) == "measure" and len(node.args) > 2 and "." in metric:
            better = node.args[3] if len(node.args) > 3 else None
            yield metric, _text(node.args[2], constants), _direction(better, constants)
        elif _called(node) == "percentiles":
            for name in step_recorder.PERCENTILES:
                yield f"{metric}.{name}", "s", _DIRECTIONS["LESS"]


def _called(node: ast.Call) -> str:
    """Return the name of the called function or method."""
    return ast.unparse(node.func).rpartition(".")[2]


def _text(node: ast.expr, constants: dict[str, ast.expr]) -> str:
    """Return a text that stands in the code, with `<name>` for what is filled in."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part, constants) for part in node.values)
    if isinstance(node, ast.Name) and node.id in constants:
        return _text(constants[node.id], constants)
    inner = node.value if isinstance(node, ast.FormattedValue) else node
    return f"<{ast.unparse(inner).rpartition('.')[2]}>"


def _direction(better: ast.expr | None, constants: dict[str, ast.expr]) -> str:
    if better is None:
        return _DIRECTIONS["MORE"]
    if isinstance(better, ast.Name) and better.id in constants:
        better = constants[better.id]
    named = ast.unparse(better).rpartition(".")[2].strip("_").upper()
    return _DIRECTIONS.get(named, "depends on the step's keys")


def _prometheus() -> Iterator[str]:
    yield "## Metrics for Prometheus\n"
    groups = (families.INFOS, families.GAUGES, families.COUNTERS, families.HISTOGRAMS)
    rows = [
        (f"`{name}`", ", ".join(family.labels) or "", family.about)
        for group in groups
        for name, family in group.items()
    ]
    yield _table(("family", "labels besides `run`", "what it is"), rows)


def _warnings() -> Iterator[str]:
    yield "## Warnings\n"
    yield (
        "A report names a warning's anchor behind it. A warning gives the remedy with its own "
        "figures.\n"
    )
    for warning in warnings.every():
        text = inspect.cleandoc(warning.__doc__ or "")
        # The anchor has the name of the function: no change of a title breaks a link.
        yield f"### {warning.__name__}\n\n{_cell(text)}\n"


def _table(titles: tuple[str, ...], rows: Sequence[tuple[str | None, ...]]) -> str:
    lines = [titles, tuple("---" for _ in titles), *rows]
    return "".join(f"| {' | '.join(map(_cell, line))} |\n" for line in lines)


def _cell(text: str | None) -> str:
    """Return a text on one line, with nothing that Markdown takes for the end of a cell."""
    flat = re.sub(r"\s+", " ", text or "").strip()
    return flat.replace("|", "\\|")


def extending() -> str:
    """Return docs/extending.md with its table of verbs as the code has it."""
    before, _, rest = EXTENDING.read_text(encoding="utf-8").partition(_BEGIN)
    _, _, after = rest.partition(_END)
    lines = ["| verb | asked by | parameters | columns | left out by |", "|---|---|---|---|---|"]
    for verb in verb_table.list_verbs():
        cells = (verb.asked_by, verb.parameters, verb.columns, verb.lacking or ("none",))
        lines.append(f"| `{verb.name}` | {' | '.join(', '.join(cell) for cell in cells)} |")
    table = "\n".join(lines)
    return f"{before}{_BEGIN}\n{table}\n{_END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    EXTENDING.write_text(extending(), encoding="utf-8")
