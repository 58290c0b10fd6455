"""List workloads, engines, plug-ins, stored runs and their metrics.

Without KIND it prints a short list of all kinds except metrics and verbs (SQL files of engines).
"""

from __future__ import annotations

import contextlib
import json
import sys
import tomllib
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.text import Text

from replayer import assets, factors, journal, registry
from replayer.cli import run_options
from replayer.engines import engine, verb_table
from replayer.engines.verbs import VerbName
from replayer.errors import Impossible, ReplayerError
from replayer.lazy_import import Later
from replayer.model import Better, StepSpec
from replayer.report.messages import note
from replayer.report.sanitize import sanitize
from replayer.report.terminal import console, factor_list, run_list
from replayer.report.terminal.tables import indented, line, pairs
from replayer.results import run_listing, store
from replayer.results.store import StoredRun
from replayer.run.plan.step_keys import keys

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from rich.console import RenderableType

    from replayer.engines.engine import Engine
    from replayer.model import StepResult
    from replayer.report.documents import step_layout
    from replayer.results.store import Unreadable
else:
    # It loads histograms, for metrics alone.
    step_layout = Later("replayer.report.documents.step_layout")

Entry = dict[str, Any]
"""One listed thing: `name`, `about` (one line), `text`, `keys` of a plug-in, and other lists."""

EPILOG = """\
examples:
  replayer list
  replayer list workloads -v        what each imitates, and which number to look at
  replayer list steps -v            the keys of each step
  replayer list factors             what an experiment can switch here, and its level now
  replayer list engines -v          wire, layouts, verbs, what cannot be done, what was verified
  replayer list verbs               what an engine of your own must answer, and who asks it
  replayer list runs --results /mnt/shared/results
  replayer list runs --json
  replayer list metrics             the names that --metric and --sort take
"""
_ALONE = ("metrics", "verbs")
"""Kinds that are listed only if KIND is given."""
_SHOWN_APART = ("name", "about", "text", "keys", "left out by")
"""Parts of an entry that are printed in their own way, or only in JSON."""
_COLD_AT_URL = "cold at a URL"
_NEEDED = {
    "build": VerbName("table/create"),
    "walk": VerbName("files"),
    "sessions": VerbName("slob/slice"),
    "ranges": VerbName("table/range"),
    "rate, ramp, capacity, buffers": VerbName("mix/session"),
    "replay": VerbName("replay/tables"),
    _COLD_AT_URL: VerbName("evict"),
    "capture": VerbName("capture/about"),
    "profile": VerbName("profile/about"),
}
"""Step or command -> the verb that it needs: on an engine without that verb it is skipped."""
_FEW_RUNS = 10
_RUNS_READ = 20
"""The newest runs whose metrics are listed."""
_FEW_REASONS = 5


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "kind",
        nargs="?",
        metavar="KIND",
        choices=[*_things(), "runs", *_ALONE],
        help=", ".join([*_things(), "runs", *_ALONE]) + " (default: all but metrics and verbs)",
    )
    parser.add_argument("--all", action="store_true", help="also list failed runs")
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="print the whole description of each"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    run_options.add_results(parser.add_argument)


def run(args: argparse.Namespace) -> int:
    """Print the lists on stdout; raise Impossible if an engine cannot be used."""
    where = store.folder_to_read(args.results)
    kinds = [args.kind] if args.kind else _readable([*_things(), "runs"], where)
    details = args.verbose or args.json
    things = {
        kind: _metrics(where)
        if kind == "metrics"
        else _entries(kind, details=details, alone=bool(args.kind))
        for kind in kinds
        if kind != "runs"
    }
    runs = store.runs(where) if "runs" in kinds else []
    if args.json:
        sys.stdout.write(_as_json(things, runs, with_runs="runs" in kinds))
        _refuse_unusable(things)
        return 0
    if args.kind == "runs":
        # As wide as the terminal, and without a limit in a pipe, like `replayer runs list`.
        run_list.write(runs, where, every=args.all, paths=args.verbose)
        return 0
    parts: list[RenderableType] = []
    for kind, entries in things.items():
        if entries or args.kind:
            verbose = args.verbose or kind == "verbs"
            parts += _list(kind, entries, verbose=verbose, titled=not args.kind)
    if "runs" in kinds:
        parts += _runs(runs, where, args)
    console.write(*parts)
    _refuse_unusable(things)
    return 0


def _refuse_unusable(things: Mapping[str, list[Entry]]) -> None:
    errors = [
        entry["error"] for entries in things.values() for entry in entries if "error" in entry
    ]
    if errors:
        raise Impossible("; ".join(dict.fromkeys(errors)))


def _things() -> list[str]:
    return ["workloads", "engines", *(kind for kind in registry.KINDS if kind != "commands")]


def _entries(kind: str, *, details: bool, alone: bool) -> list[Entry]:
    if kind == "workloads":
        return [_workload(name, path) for name, path in assets.workloads().items()]
    if kind == "engines":
        return _engines(details=details)
    if kind == "verbs":
        return [*_verbs()]
    entries = [_plugin(kind, name, details=details) for name in registry.names(kind)]
    if kind == "factors" and alone:
        # On the disk of replayer's data folder, with the default engine.
        place = factors.place_at(journal.place() / "data", "")
        return [{**entry, **factors.describe(entry["name"], place)} for entry in entries]
    return entries


def _workload(name: str, path: Path) -> Entry:
    source = path.read_text(encoding="utf-8", errors="replace")
    text = _comment(source)
    try:
        about = str(tomllib.loads(source).get("description", "")) or text.partition("\n")[0]
    except ValueError as error:
        about = f"cannot be read: {error}"
    return {"name": name, "about": about, "text": text, "path": str(path)}


def _engines(*, details: bool) -> list[Entry]:
    """Return an entry for each engine; that of an unusable one has the reason as its `error`.

    Without `details` the entry of a usable engine has only its name and title.
    """
    usable: list[Engine] = []
    unusable: list[Entry] = []
    for name in assets.engines():
        try:
            usable.append(engine.checked(name))
        except ReplayerError as error:
            unusable.append(_unusable(name, error))
    if not details:
        return [*({"name": one.name, "about": one.title} for one in usable), *unusable]
    every = {verb for one in usable for verb in one.verbs()}
    return [*(_engine(one, every) for one in usable), *unusable]


def _unusable(name: str, error: ReplayerError) -> Entry:
    return {"name": name, "about": "cannot be used", "text": "", "error": str(error)}


def _engine(one: Engine, every: set[str]) -> Entry:
    """Return the facts about an engine to list; `every` are the names of all engines' verbs.

    A verb is an SQL file of an engine. `missing` in the result has the verbs that the engine lacks,
    except those for a layout of the data that the engine does not have.
    """
    has_url = not one.spec.server.guest
    since = {verb: one.since(verb) for verb in sorted(every)}
    layouts = one.layouts()
    all_layouts = {verb.partition("/")[0] for verb in every if verb.endswith("/double")}
    others = {f"{layout}/" for layout in all_layouts if layout not in layouts}
    return {
        "name": one.name,
        "about": one.title,
        "text": _comment((one.folders[0] / "engine.toml").read_text(encoding="utf-8")),
        "wire": one.wire,
        "like": ", ".join(folder.name for folder in one.folders[1:]),
        "server": ", or ".join(
            [
                *(["started by replayer"] if one.spec.server.starts else []),
                *(["one at a URL"] if has_url else []),
            ]
        ),
        "url": [f"{scheme}://" for scheme in dict.fromkeys([*one.spec.url_schemes, one.name])]
        if has_url
        else [],
        "layouts": layouts,
        "cold": _line(one.spec.cold),
        "counters": _line(one.spec.counters),
        "verbs": [
            f"{verb} (from {number} on)" if number else verb
            for verb, number in since.items()
            if number is not None
        ],
        "cannot do": _cannot_do(one),
        "missing": [
            verb
            for verb, number in since.items()
            if number is None and not verb.startswith(tuple(others))
        ],
        "verified": _line(one.spec.verified),
        "not verified": _line(one.spec.unverified),
    }


def _cannot_do(one: Engine) -> list[str]:
    """Return the names of the steps and commands that an engine cannot do, each with the reason."""
    reasons: dict[str, list[str]] = {}
    for name, needed in _NEEDED.items():
        if one.since(needed) is None and not (name == _COLD_AT_URL and one.spec.server.guest):
            reasons.setdefault(one.why_not(needed), []).append(name)
    return [f"{', '.join(names)} ({reason})" for reason, names in reasons.items()]


def _verbs() -> Iterator[Entry]:
    """Yield an entry for each verb, which is an SQL file of an engine."""
    for verb in verb_table.list_verbs():
        yield {
            "name": verb.name,
            "about": f"asked by {', '.join(verb.asked_by)}",
            "text": "",
            "parameters": list(verb.parameters),
            "columns": list(verb.columns),
            "may be left out": f"yes, as {', '.join(verb.lacking)} do"
            if verb.may_be_left_out
            else "no",
            "left out by": list(verb.lacking),
        }


def _line(text: str) -> str:
    return " ".join(text.split())


def _plugin(kind: str, name: str, *, details: bool) -> Entry:
    """Return the facts about a plug-in to list.

    With `details`, a step or a probe also has the keys that it takes. Only these need an import of
    the plug-in, which may be slow.  If its file cannot be read, the reason is its `error`.
    """
    try:
        text = registry.about(kind, name)
    except Impossible as error:
        return _unusable(name, error)
    entry: Entry = {"name": name, "about": text.partition("\n")[0].rstrip("."), "text": text}
    if details and kind in ("steps", "probes"):
        entry["keys"] = list(keys(registry.load(kind, name).Spec))
    return entry


def _comment(source: str) -> str:
    """Return the comment at the beginning of a TOML file."""
    lines = []
    for text_line in source.splitlines():
        if not text_line.startswith("#"):
            break
        lines.append(text_line.removeprefix("#").removeprefix(" ").rstrip())
    return "\n".join(lines)


def _list(
    kind: str, entries: list[Entry], *, verbose: bool, titled: bool
) -> Iterator[RenderableType]:
    if titled:
        yield Text(kind, style="bold")
    if not entries:
        yield Text(f"there are no {kind}")
    if kind == "factors" and not titled and not verbose:
        yield from factor_list.render(entries)
        return
    if not verbose:
        yield pairs((f"  {sanitize(entry['name'])}", sanitize(entry["about"])) for entry in entries)
        yield from [Text("")] if titled else []
        return
    for entry in entries:
        yield Text(sanitize(entry["name"]), style="bold")
        yield from _details(entry)
        yield Text("")
    if kind == "steps":
        yield Text("every step also takes", style="bold")
        yield indented(_key_items(key for key in keys(StepSpec) if key["name"] != "step"))


def _details(entry: Entry) -> Iterator[RenderableType]:
    """Yield the full description of one listed thing, such as an engine or a step, as lines."""
    if entry["about"] not in entry["text"]:
        yield line(sanitize(entry["about"]))
    for text in _sentences(entry["text"]):
        yield line(sanitize(text))
    items = _key_items(entry.get("keys", ()))
    for name, value in entry.items():
        if name not in _SHOWN_APART and value:
            shown = ", ".join(value) if isinstance(value, list) else str(value)
            items.append((name, sanitize(shown)))
    if items:
        yield indented(items)


def _key_items(described: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return (name, type, default and meaning) of each key of a step or a probe, cleaned."""
    items = []
    for key in described:
        default = "required" if key["default"] is None else f"default {key['default']}"
        words = ", ".join(filter(None, [key["type"], default]))
        items.append((sanitize(key["name"]), sanitize(f"{words}. {key['text']}".strip())))
    return items


def _sentences(text: str) -> list[str]:
    """Return the lines of a text, after broken lines were joined again.

    Each line of the result ends with a full stop or a colon, or at the end of a paragraph.
    """
    sentences: list[str] = []
    for text_line in text.splitlines():
        if sentences and sentences[-1] and text_line and not sentences[-1].endswith((".", ":")):
            sentences[-1] += f" {text_line.strip()}"
        else:
            sentences.append(text_line)
    return sentences


def _runs(
    runs: list[StoredRun | Unreadable], where: Path, args: argparse.Namespace
) -> Iterator[RenderableType]:
    """Yield one line for each of the newest runs in the folder `where`, after a title.

    Lines about files that are no runs, and about failed runs that are left out, come last.
    """
    verbose = args.verbose
    stored = [one for one in runs if isinstance(one, StoredRun)]
    others = [one for one in runs if not isinstance(one, StoredRun)]
    whole, left = run_listing.without_failed(stored, every=args.all)
    few = whole if verbose else whole[-_FEW_RUNS:]
    count = f", the last {len(few)} of {len(whole)}" if len(few) < len(whole) else ""
    yield Text(f"runs in {sanitize(where)}/{count}", style="bold")
    if few:
        rows = run_list.rows(few, console.screen().width)
        yield from (Text(row, no_wrap=True, overflow="ignore") for row in rows)
    else:
        yield Text("  none")
    shown = others if verbose else others[:_FEW_REASONS]
    for one in shown:
        yield Text(f"{sanitize(one.path.name)}: {sanitize(one.reason)}", style="yellow")
    if len(shown) < len(others):
        yield Text(f"and {len(others) - len(shown)} more files that are no runs", style="yellow")
    if left:
        yield Text(left, style="yellow")


def _readable(kinds: list[str], where: Path) -> list[str]:
    """Return the kinds of things without those of results, if the folder `where` cannot be read."""
    try:
        store.names(where)
    except Impossible as error:
        note(str(error))
        return [kind for kind in kinds if kind not in {"runs", "metrics"}]
    return kinds


def _metrics(where: Path) -> list[Entry]:
    """Return an entry for each metric of the newest stored runs, sorted by name."""
    entries: dict[str, Entry] = {}
    whole = [one for one in store.runs(where) if isinstance(one, StoredRun)]
    for one in whole[-_RUNS_READ:]:
        with contextlib.suppress(ReplayerError):
            for step in store.load(one.path, wanted=lambda _: False).steps:
                entries |= {entry["name"]: entry for entry in _metrics_of(step)}
    return [entries[name] for name in sorted(entries)]


def _metrics_of(step: StepResult) -> Iterator[Entry]:
    glosses = step_layout.of(step).glosses
    for m in step.measurements:
        name = " ".join(filter(None, (step_layout.group(m), step_layout.leaf(m))))
        better = "" if m.better is Better.NEITHER else f"{m.better.value} is better"
        words = [f"{name}, of {step.step}", m.unit, better, glosses.get(m.metric, "")]
        text = "; ".join(filter(None, words))
        yield {"name": m.metric, "about": text, "text": text}


def _as_json(
    things: dict[str, list[Entry]], runs: list[StoredRun | Unreadable], *, with_runs: bool
) -> str:
    listing: dict[str, list[Any]] = {**things}
    if with_runs:
        listing["runs"] = [asdict(one) for one in runs if isinstance(one, StoredRun)]
        listing["unreadable"] = [asdict(one) for one in runs if not isinstance(one, StoredRun)]
    return json.dumps(listing, indent=1, default=str) + "\n"
