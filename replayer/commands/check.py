"""Show what this machine allows, and what to do about the rest.

Each check is a real attempt that does no harm; nothing is guessed. No file of yours is written, and
the machine's caches are not dropped. Some attempts write a small file, and drop this file alone
from the page cache; everything that is made for an attempt is removed.

With --prove it tests an engine on a server: each of its SQL files, called verbs, and each property
that its engine.toml claims.

Exit status: 0, also if something is limited; 2 if `replayer run` itself is impossible here; with
--prove 1 if a verb failed or a property was refuted.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from replayer import journal
from replayer.engines import engine
from replayer.errors import Impossible
from replayer.machine.host import Host
from replayer.report import files
from replayer.report.messages import say
from replayer.report.sanitize import sanitize
from replayer.report.terminal import console
from replayer.run.checks import preflight

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Sequence

    from rich.console import RenderableType

    from replayer.run.checks.preflight import Case, PreflightLine
    from replayer.run.checks.proof import EngineProof

EPILOG = """\
examples:
  replayer check
  replayer check --data-dir /mnt/nvme/replayer
  replayer check --json
  replayer check --engine postgresql://me@db.example/bench    my rights on that server, too
  replayer check --prove --engine mariadb --out proof.json    every verb, on a small table
  replayer check --clients app1,app2 --engine postgresql://me@db.example/bench
"""
_IMPOSSIBLE = 2
_OK = preflight.Answer.OK
_RIGHTS = "server rights"
_PREPARE = "prepare"
"""The verb (an SQL file of an engine) without which no workload can run on a server."""
_STYLES = {"ok": "green", "limited": "yellow", "no": "red"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="the folder on the disk under test, as for `replayer run`",
    )
    parser.add_argument(
        "--engine",
        metavar="URL",
        help=(
            "a running server: show the rights of its user, and those that are missing; with "
            "--prove also the name of an engine, whose server is then started"
        ),
    )
    parser.add_argument(
        "--clients",
        metavar="HOST,…",
        help=(
            "hosts, named as for ssh: check replayer, the clock, rights, and the link to the server"
        ),
    )
    parser.add_argument(
        "--prove",
        action="store_true",
        help="try every verb of the engine on a small table of its own, which is removed again",
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        help="with --prove: the file for the proof, as JSON, or as Markdown if it ends in .md",
    )
    parser.add_argument(
        "--files",
        type=Path,
        metavar="DIR",
        help=(
            "with --prove: the data directory, on this machine, of a server at a URL, if it is "
            "not found"
        ),
    )
    parser.add_argument(
        "--pg-bindir",
        "--bindir",
        type=Path,
        metavar="DIR",
        dest="bindir",
        help="with --prove: the folder with the server's programs",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("-v", "--verbose", action="store_true", help="show every line")


def run(args: argparse.Namespace) -> int:
    """Make every check and print the results on stdout; return the exit status.

    With --prove it tests an engine instead.
    """
    if args.prove:
        return _prove(args)
    for option in ("out", "files", "bindir"):
        if getattr(args, option):
            raise Impossible(f"--{option} is for a proof: add --prove")
    case = preflight.Case(Host(), args.data_dir)
    url = args.engine or ""
    try:
        rights = [*_rights(url)]
        lines = [*_local(case, url), *rights, *_clients(args)]
    finally:
        journal.leave()
    blocking = [line for line in lines if line.needed and line.answer is preflight.Answer.NO]
    if args.json:
        print(_as_json(case, lines, possible=not blocking))  # noqa: T201
    else:
        show = _every if args.verbose else _shown
        console.write(*show(case, lines, blocking, url))
    return _IMPOSSIBLE if blocking else 0


def _prove(args: argparse.Namespace) -> int:
    """Test an engine on a server, and print the result (the proof) or write it into a file.

    Each SQL file of the engine, called a verb, is run, and each property that the engine's file
    claims is checked. Returns 0, or 1 if a verb failed or a property was refuted. Raises Impossible
    if the server cannot be used, or has a table with the name of the test's table.
    """
    from replayer.run import recovery  # noqa: PLC0415 - few checks prove an engine
    from replayer.run.checks import proof, prove  # noqa: PLC0415 - the same
    from replayer.run.plan.request import asker  # noqa: PLC0415 - the same
    from replayer.servers.open import open_server  # noqa: PLC0415 - the same

    if args.clients:
        raise Impossible("--clients is of hosts, and --prove of an engine: leave one out")
    asked = args.engine or engine.default()
    url = asked if "://" in asked else None
    chosen = engine.of_url(asked) if url else engine.checked(asked)
    if url and args.bindir:
        raise Impossible("--bindir is for a server that replayer starts, and --engine has a URL")
    # A Path raises below a folder of another user.
    if args.files and not (url and os.path.isdir(args.files)):  # noqa: PTH112
        raise Impossible(
            f"--files {args.files}: give a folder of this machine, and with --engine the URL of "
            f"the server whose data directory it is"
        )
    recovery.give_back(say)
    try:
        with open_server(
            chosen, url=url, bindir=args.bindir, data_dir=args.data_dir, ask=asker()
        ) as server:
            made = prove.prove(server, say, args.files)
    finally:
        journal.leave()
    as_json = made.model_dump_json(indent=1) + "\n"
    if args.out:
        files.put(args.out, proof.as_markdown(made) if args.out.endswith(".md") else as_json)
    if args.json and args.out != "-":
        print(as_json, end="")  # noqa: T201
    elif args.out != "-":
        console.write(*_proven(made))
    return 0 if made.holds else 1


def _proven(made: EngineProof) -> Iterator[RenderableType]:
    """Yield the parts of an engine's test to print.

    In this order: the verdict, the properties of the engine, the verbs (SQL files) that failed, the
    properties that its files mark as not verified, and the rights that the user lacks.
    """
    from replayer.run.checks import proof  # noqa: PLC0415 - few checks prove an engine

    yield Text(sanitize(proof.verdict_of(made)), style="bold" if made.holds else "bold red")
    yield Text("")
    words = {True: "yes", False: "no", None: "?"}
    styles = {True: "green", False: "red", None: "yellow"}
    yield _grid(
        (words[one.proven], styles[one.proven], one.name, one.found) for one in made.findings
    )
    failed = [one for one in made.trials if one.outcome is proof.TrialOutcome.FAILED]
    if failed:
        yield Text("")
        yield _grid(("failed", "red", one.file or one.verb, one.reason) for one in failed)
    if made.marks:
        yield Text("")
        yield _grid(
            (words[one.proven], styles[one.proven], one.file, f"{one.asks} -> {one.found}")
            for one in made.marks
        )
    for right in made.missing_rights:
        yield Text(sanitize(f"missing right: {right}"), style="yellow")


def _grid(rows: Iterable[tuple[str, str, str, str]]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for status, style, name, words in rows:
        table.add_row(Text(status, style=style), Text(sanitize(name)), Text(sanitize(words)))
    return table


def _local(case: Case, url: str) -> list[PreflightLine]:
    """Return the results of the checks of this machine, one line each.

    For a server at a URL none of them is marked as needed: only a server that replayer starts on
    this machine needs them.
    """
    lines = [*preflight.run_checks(case)]
    return [line._replace(needed=False) for line in lines] if url else lines


def _rights(url: str) -> Iterator[PreflightLine]:
    """Yield a line for each special right of the database user that replayer can use on a server.

    Without a URL it yields nothing. Raises Impossible if `url` is the name of an engine instead.
    """
    if not url:
        return
    from replayer.servers import remote  # noqa: PLC0415 - few checks ask a server

    if "://" not in url:
        raise Impossible(f"--engine {url}: check asks a running server, so give its URL")
    for right in remote.rights(engine.of_url(url), url):
        allowed = bool(right["allowed"])
        answer = preflight.Answer.OK if allowed else preflight.Answer.LIMITED
        words = f"this database user may {'' if allowed else 'not '}{right['what']}"
        needed = right["verb"] == _PREPARE
        if needed and not allowed:
            answer = preflight.Answer.NO
        todo = "" if allowed else right["grants"]
        yield preflight.PreflightLine(_RIGHTS, answer, words, todo, needed=needed)


def _clients(args: argparse.Namespace) -> Sequence[PreflightLine]:
    """Return the results of the checks of the client hosts in --clients, one line each."""
    if not args.clients:
        return []
    from replayer.run.checks import host_check  # noqa: PLC0415 - few checks ask other hosts

    names = [name.strip() for name in args.clients.split(",")]
    if not all(names):
        raise Impossible(f"--clients {args.clients} is not a list of hosts: HOST,HOST")
    url = args.engine or ""
    return host_check.check_hosts(names, engine.of_url(url) if url else None, url)


def _as_json(case: Case, lines: Sequence[PreflightLine], *, possible: bool) -> str:
    shown = [line._asdict() for line in lines]
    answer = {"possible": possible, "data_dir": str(case.data), "lines": shown}
    return json.dumps(answer, indent=1)


def _shown(
    case: Case, lines: Sequence[PreflightLine], blocking: Sequence[PreflightLine], url: str
) -> Iterator[RenderableType]:
    """Yield the short form of the results of the checks, as parts to print.

    First come the lines in `blocking`, which make a run impossible, then those with something to
    improve. The names of all other checks follow in one line. The verdict is last.
    """
    yield Text(f"what this machine allows, with the data in {sanitize(case.data)}", style="bold")
    worth = [line for line in lines if line.answer is not _OK and line not in blocking]
    fine = [line for line in lines if line.answer is _OK]
    for title, group in (("in the way", blocking), ("worth doing", worth)):
        if group:
            yield Text("")
            yield Text(title, style="bold red" if group is blocking else "bold")
            yield _table(group)
    if fine:
        yield Text("")
        names = ", ".join(dict.fromkeys(line.name for line in fine))
        many = "1 more is" if len(fine) == 1 else f"{len(fine)} more are"
        yield Text(f"{many} fine (-v shows what was found): {sanitize(names)}", style="dim")
    yield Text("")
    verdict = _verdict(case, lines, blocking, url)
    yield Text(sanitize(verdict), style="bold red" if blocking else "bold")


def _every(
    case: Case, lines: Sequence[PreflightLine], blocking: Sequence[PreflightLine], url: str
) -> Iterator[RenderableType]:
    """Yield the long form of the results of the checks: every line in order, and the verdict."""
    yield Text(f"what this machine allows, with the data in {sanitize(case.data)}", style="bold")
    yield Text("")
    yield _table(lines)
    yield Text("")
    verdict = _verdict(case, lines, blocking, url)
    yield Text(sanitize(verdict), style="bold red" if blocking else "bold")


def _table(lines: Sequence[PreflightLine]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for line in lines:
        words = Text(sanitize(line.found))
        if line.todo:
            words.append(f"\n-> {sanitize(line.todo)}", style="dim")
        status = Text(line.answer.value, style=_STYLES[line.answer.value])
        table.add_row(status, Text(line.name), words)
    return table


def _verdict(
    case: Case, lines: Sequence[PreflightLine], blocking: Sequence[PreflightLine], url: str
) -> str:
    where = f" --engine {_plain(url)}" if url else ""
    if blocking:
        found = "; ".join(dict.fromkeys(f"{line.name}: {line.found}" for line in blocking))
        return f"`replayer run{where}` is impossible here: {found}"
    less = sum(line.answer is not _OK for line in lines)
    rest = f"; {less} of {len(lines)} lines are not ok" if less else ""
    lost = [line.found for line in lines if line.name == _RIGHTS and line.answer is not _OK]
    if lost:
        rest = f"; steps that need these rights are skipped: {'; '.join(lost)}"
    return f"`replayer run {case.workload}{where}` can run here{rest}"


def _plain(url: str) -> str:
    """Return a URL without its secrets."""
    from replayer.engines import credentials  # noqa: PLC0415 - few checks ask a server
    from replayer.engines.connection import url_of  # noqa: PLC0415 - the same

    return credentials.show(url_of(url, engine.of_url(url)))
