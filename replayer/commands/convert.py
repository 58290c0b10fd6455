"""Convert logs of a server into a file that can be replayed.

PostgreSQL's csvlog, jsonlog, stderr and syslog are recognized by their beginnings. So are the logs
of RDS, Cloud SQL, CloudNativePG and Heroku, and the slow and general logs of MySQL and MariaDB.
They may be compressed. Rotated files may be given in any order, or as their folder. Statements that
cannot be replayed are counted by reason. The file contains the statements of users, so only its
owner can read it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replayer.capture import conversion
from replayer.cli import run_options
from replayer.report.messages import note, say, show
from replayer.report.sanitize import sanitize
from replayer.report.terminal import progress
from replayer.results import draft
from replayer.units import show_duration, show_size, show_with_noun

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from replayer.capture.capture_summary import CaptureSummary

EPILOG = """\
examples:
  replayer convert postgresql-2026-05-16.csv --out monday.replay
  replayer convert /var/log/postgresql --out week.replay
  replayer convert postgresql.log.1.gz postgresql.log --prefix %t:%r:%u@%d:[%p]: --out it.replay
  zcat *.gz | replayer convert - --out all.replay --anonymise
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add = parser.add_argument
    add("logs", nargs="+", metavar="LOG", help="files, folders of them, or - for stdin")
    add(
        "--out",
        type=run_options.file_path,
        required=True,
        metavar="FILE",
        help="the replay file to write; an older one is replaced, no other file",
    )
    add("--prefix", metavar="P", help="the server's log_line_prefix, if it is not recognized")
    add("--anonymise", action="store_true", help=(
        "replace values in statements and parameters by others of the same type and length; equal"
        " values get equal replacements"
    ))  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Write the replay file; report what is in it, what is not, and where logs are damaged."""
    wish = conversion.ConversionRequest(
        names=args.logs,
        out=args.out,
        prefix=args.prefix,
        anonymise=args.anonymise,
    )
    plan = conversion.planned(wish)
    with progress.conversation() as told:
        draft.give_back(told.say)
        title = plan.inputs[0].name if len(plan.inputs) == 1 else f"{len(plan.inputs):,} logs"
        with told.task(sanitize(f"converting {title}"), plan.size) as task:
            made = conversion.convert(plan, wish, task.advance)
    for sentence in made.notes:
        note(sentence)
    for sentence in made.summary.damage:
        say(f"damaged: {sentence}")
    _show(args.out, made.summary)
    return 0


def _show(out: Path, summary: CaptureSummary) -> None:
    """Print what the replay file contains, and how many statements were left out, by the reason."""
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in summary.kinds.items())
    span = show_duration(summary.span_ns / 1e9)
    statements = show_with_noun(summary.statements, "statement")
    sessions = show_with_noun(summary.sessions, "session")
    what = f"{statements} of {sessions} in {span}"
    lines = [f"{out}  {show_size(out.stat().st_size)}", f"{what}: {kinds}"]
    lines += [f"not in it: {count:,} {reason}" for reason, count in summary.skipped.items()]
    if summary.sessions_began_before:
        lines.append(
            f"{show_with_noun(summary.sessions_began_before, 'session')} began before the log: "
            f"what they had set and prepared is not in it"
        )
    for line in lines:
        show(line)
