"""Choose among the machines of a catalogue by profiles, before renting one.

Each machine, with each disk that it may have, is compared with the needs of one database, or of
several on one machine. The list shows for each: fits, does not fit, or unclear; the resource that
limits first; the margin of each resource; the price per month. This is a prediction by arithmetic:
`replayer size` measures on the machine. Nothing is fetched from a network: the catalogue is a CSV,
or the output of a cloud's own tool.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from replayer import units
from replayer.errors import Impossible, NotFound, ReplayerError
from replayer.report import files
from replayer.report.documents import shortlist as report
from replayer.report.documents.shortlist import PastPrediction
from replayer.report.sanitize import sanitize
from replayer.report.terminal import console
from replayer.report.writers import terminal_writer
from replayer.results import profile, store
from replayer.shortlist import catalogue_file, demands, offers, shortlist
from replayer.shortlist.catalogue_file import COLUMNS
from replayer.shortlist.demands import DemandOptions
from replayer.shortlist.volumes import parse_disk
from replayer.sizing import candidate
from replayer.sizing.record import Sizing
from replayer.sizing.requirement import parse_share
from replayer.sizing.verdict import judge

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from replayer.results.profile import ResourceProfile
    from replayer.shortlist.offers import Catalogue
    from replayer.shortlist.shortlist import Shortlist

EPILOG = """\
examples:
  replayer shortlist prod.profile --catalog machines.csv --growth 1.5 --headroom 30%
  replayer shortlist shop.profile crm.profile --catalog machines.csv --html shortlist.html
  replayer shortlist prod.profile --catalog aws.json --disk gp3:500G,6000,250 --disk gp2:500G
  replayer shortlist prod.profile --catalog aws.json --catalog prices.csv --out prod.shortlist
  replayer shortlist prod.profile --catalog m.csv --source-probes src.json --machine-probes probes/
  replayer size prod.profile --from-shortlist prod.shortlist --machine m6g.large
  replayer shortlist --check

catalogues:
  aws ec2 describe-instance-types > aws.json     also describe-volumes: disks that there are
  az vm list-skus --location westeurope > az.json
  gcloud compute machine-types list --format json > gcloud.json
  a CSV with any of these columns (of several catalogues, a later one adds to a machine of the
  same name: prices, disks):

"""
_MOST_RUNS = 500


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    width = max(len(column.name) for column in COLUMNS)
    rows = (f"    {column.name:{width}}  {column.meaning}\n" for column in COLUMNS)
    parser.epilog = EPILOG + "".join(rows)
    add = parser.add_argument
    add("profiles", nargs="*", metavar="PROFILE",
        help="the profiles of the databases that shall share one machine")  # fmt: skip
    add("--check", action="store_true",
        help=(
            "show whether past predictions held: those of runs with `size --from-shortlist`"
        ))  # fmt: skip
    add(
        "--results",
        type=Path,
        metavar="DIR",
        help=("with --check: the folder of those runs (default: ./results)"),
    )
    add("--json", action="store_true", help="print the shortlist as JSON instead of the report")
    files.add_forms(
        add,
        "the machines",
        html="write one self-contained page",
        csv="write every resource of every machine (- is stdout)",
    )
    add("--out", metavar="FILE", help="store the shortlist for `size --from-shortlist`")
    add("--rows", default=str(report.ROWS), metavar="N", help="machines on the terminal "
        f"(default: {report.ROWS})")  # fmt: skip
    add = parser.add_argument_group("the catalogue").add_argument
    add("--catalog", type=Path, action="append", default=[], metavar="FILE", dest="catalogues",
        help="a file of machines and disks; may be repeated")  # fmt: skip
    add("--disk", action="append", default=[], metavar="KIND:SIZE[,IOPS[,MiB/s]]", dest="disks",
        help="an Amazon volume that each machine may have: gp2, gp3, io1 or io2")  # fmt: skip
    add = parser.add_argument_group("the requirement").add_argument
    add(
        "--growth",
        type=float,
        default=1.0,
        metavar="TIMES",
        help=("the factor by which the load may grow, such as 1.5"),
    )
    add(
        "--headroom",
        default="0%",
        metavar="PERCENT",
        help=("the spare capacity to keep, such as 30%%"),
    )
    add("--percentile", type=float, default=100.0, metavar="P",
        help=(
            "use this percentile of the windows instead of the busiest one, such as 99"
        ))  # fmt: skip
    add("--window", type=units.duration, default="1min", metavar="TIME",
        help="the length of a window (default: 1min)")  # fmt: skip
    add = parser.add_argument_group("the speed of a core").add_argument
    add("--source-probes", type=Path, metavar="RESULT",
        help="a result of `replayer run cpu` at the source")  # fmt: skip
    add("--machine-probes", type=Path, metavar="DIR",
        help=(
            "a folder with results of `replayer run cpu --label MACHINE` on such machines"
        ))  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Print a shortlist of machines, or with --check whether past predictions held; return 0."""
    if args.check:
        return _check(args)
    if not args.profiles or not args.catalogues:
        raise Impossible(
            "a shortlist needs a profile and a catalogue: `replayer shortlist prod.profile "
            "--catalog machines.csv`"
        )
    rows = units.count(args.rows)
    one = _drawn_up(args)
    files.tell(
        args,
        report.document(one, rows),
        lambda: one.model_dump_json(indent=1),
        others={"out": lambda: f"{one.model_dump_json(indent=1)}\n"},
    )
    return 0


def _drawn_up(args: argparse.Namespace) -> Shortlist:
    asked = DemandOptions(
        growth=args.growth,
        headroom=parse_share(args.headroom),
        percentile=args.percentile,
        window=args.window,
    )
    needed = demands.gather(_profiles(args.profiles), asked)
    if args.source_probes is not None:
        run = store.load(args.source_probes)
        if why := candidate.busy(run):
            raise Impossible(why)
        probes = candidate.probed(run)
        if not probes:
            raise Impossible(
                f"{args.source_probes}: it has no probe of processors: `replayer run cpu` at the "
                f"source makes one"
            )
        needed = needed._replace(probes=probes)
    speeds = {} if args.machine_probes is None else shortlist.machine_speeds(args.machine_probes)
    return shortlist.draw_up(
        asked,
        needed,
        _catalogue(args),
        speeds,
        profiles=[Path(name).name for name in args.profiles],
        catalogues=[path.name for path in args.catalogues],
    )


def _profiles(names: list[str]) -> dict[str, ResourceProfile]:
    if len(set(names)) < len(names):
        raise Impossible("a profile is named twice: each database of the machine is named once")
    return {name: profile.load(Path(name)) for name in names}


def _catalogue(args: argparse.Namespace) -> Catalogue:
    parts: list[Catalogue] = []
    for path in args.catalogues:
        parts.append(catalogue_file.load_catalogue(path, offers.join(parts)))
    disks = offers.Catalogue(disks=tuple(parse_disk(text) for text in args.disks))
    return offers.join([*parts, disks])


def _check(args: argparse.Namespace) -> int:
    """Print for each prediction that a run has tested whether it was right; return 0.

    A prediction is a shortlist's answer to whether a database fits on a machine.
    """
    if args.profiles or args.catalogues:
        raise Impossible("--check shows past predictions: it takes no profile and no catalogue")
    where = store.folder_to_read(args.results)
    past = list(_past(where))
    if not past:
        raise NotFound(
            f"there is no prediction that was tried in {sanitize(str(where))}: `replayer size "
            f"prod.profile --from-shortlist FILE --machine NAME` on that machine makes one"
        )
    console.write(terminal_writer.render(report.check(past)))
    return 0


def _past(where: Path) -> Iterator[PastPrediction]:
    for one in store.with_text(where, '"prediction"', most=_MOST_RUNS):
        try:
            record = Sizing.of(one)
        except ReplayerError:
            continue
        if record.prediction is not None:
            verdict = judge(record, one)
            yield PastPrediction(
                one.id, record.prediction, verdict.fit, verdict.first, verdict.multiple
            )
