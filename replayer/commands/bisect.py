"""Find the first of an ordered list that is worse: kernels, builds, commits, or levels of anything.

The search allows for noise. After each run it computes, for each place in the list, the probability
that the change is there. The next run is the one that is expected to give most information. The two
ends are measured first. The search ends if they do not differ by more than 2 percent, or by more
than the noise of one run; a smaller change may still be there.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from replayer import assets, factors, journal
from replayer.cli import run_options
from replayer.conditions import switch_back
from replayer.errors import Impossible, ReplayerError
from replayer.experiments import candidate_search, variant, work_lock
from replayer.experiments.boot_turns import BootJob
from replayer.experiments.candidate_search import CandidateSearch, CommitBuild, SearchCandidate
from replayer.experiments.search_answer import ALIKE, SearchAnswer
from replayer.experiments.variant import RunOptions, Variant, parse_variant
from replayer.machine.host import Host
from replayer.report import files
from replayer.report.documents import search as report
from replayer.report.messages import say, show
from replayer.report.terminal import run_output
from replayer.results import store
from replayer.run.recovery import give_back

if TYPE_CHECKING:
    import argparse

    from replayer.experiments.candidate_search import SearchState
    from replayer.factors import FactorPlace

EPILOG = """\
examples:
  replayer bisect slob-cached --pg-bindirs /opt/pg/17.1/bin,/opt/pg/17.2/bin,/opt/pg/17.3/bin
  replayer bisect storage --switch ./to-{} --over balanced,performance,powersave
  replayer bisect slob-cached --vary pg.shared_buffers={} --over 1GB,2GB,4GB,8GB
  replayer bisect slob-cached --git pg --over A..B --build ./build --bindir inst/bin
  replayer bisect slob-cached --kernels 'vmlinuz-*'
the order of the list matters: its first entry is before the change, its last after it
"""
_FILES = (".toml", ".replay")
_IMAGE = "vmlinuz-"
_BOOT = Path("/boot")
_CANDIDATE = re.compile(r"[-.~]?(?<![a-z])rc(?=\d)")
"""The sign of a release candidate: 6.12.0-rc1, Debian's 6.12~rc1, Ubuntu's 6.12.0-061200rc1."""
_FEWEST = 2
_MOST = 200


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add = parser.add_argument
    add("workload", metavar="WORKLOAD", help="a name from `replayer list workloads`, or a path")
    what = parser.add_argument_group("the candidates: one of these")
    kinds = what.add_mutually_exclusive_group(required=True)
    kinds.add_argument(
        "--kernels", metavar="A,B,…|FILE", help=("releases, a pattern, or a file that lists them")
    )
    kinds.add_argument("--pg-bindirs", metavar="DIR,…", help="folders of server programs")
    kinds.add_argument("--switch", metavar="'CMD {}'", help="a command that switches the machine")
    kinds.add_argument("--vary", metavar="NAME={}", help="a variant as in `replayer ab`")
    kinds.add_argument(
        "--git", metavar="DIR", type=Path, help=("a repository, whose commits are --over GOOD..BAD")
    )
    what.add_argument(
        "--switch-back",
        default="",
        metavar="CMD",
        help="the command that undoes --switch (default: --switch with the first level)",
    )
    what.add_argument("--over", metavar="A,B,…", help="the levels that replace {}, in order")
    what.add_argument(
        "--build", metavar="CMD", help=("the command that builds a commit, run in a clone of it")
    )
    what.add_argument(
        "--bindir",
        metavar="DIR",
        help=("the folder of server programs in the clone, after --build"),
    )
    add(
        "--metric",
        default="",
        metavar="NAME",
        help=("the metric that is compared (default: the first leading one)"),
    )
    add(
        "--runs",
        type=int,
        default=_MOST,
        metavar="N",
        help=f"stop after this number of runs (default: {_MOST})",
    )
    seconds = run_output.seconds
    add("--for", type=seconds, metavar="TIME", dest="time", help="stop after this time, such as 2h")
    run_options.add_run_options(add, programs=False)
    add(
        "--wait-quiet",
        type=seconds,
        default=0.0,
        metavar="TIME",
        help=("before each run, wait until other programs are quiet, for at most this time"),
    )
    add("--resume", action="store_true", help="continue the same search: its stored runs count")
    add("--dry-run", action="store_true", help="only print the candidates")
    add("--json", action="store_true", help="print the finding as JSON")
    files.add_forms(add, "the finding")
    run_options.add_results(add, "results go")


def run(args: argparse.Namespace) -> int:
    """Search for the first candidate that is worse, and print the finding on stdout; return 0."""
    search = _search(args)
    for candidate in search.candidates:
        if not candidate.commit:
            variant.plan_run(search.workload, candidate.variant, search.options)
    state = candidate_search.begin(search)
    if args.dry_run:
        for number, candidate in enumerate(search.candidates, start=1):
            show(f"{number:4}  {candidate.name}")
        return 0
    give_back(say)
    results = search.options.results
    with (
        work_lock.held(results, f".bisect-{search.name}", f"this search in {results}/"),
        switch_back.switched_back(args.switch_back or search.candidates[0].variant.switch, say),
    ):
        _measure(args, search, state)
        return _conclude(args, search, state)


def _measure(args: argparse.Namespace, search: CandidateSearch, state: SearchState) -> None:
    """Make the runs that the search needs; in a search among kernels, only the run of this boot."""
    if args.resume or args.kernels:
        candidate_search.take_up(search, state)
        say(f"{len(state.values)} runs of this search are there already")
    if args.kernels:
        _one_boot(search, state, _job(args, search))
        return
    candidate_search.perform(search, state, say)


def _conclude(args: argparse.Namespace, search: CandidateSearch, state: SearchState) -> int:
    """Print the finding of the search; return the exit status 0.

    Raises the error that ended the search early. Raises Impossible if the first and the last
    candidate count as equal.
    """
    if state.values:
        _tell(args, SearchAnswer.of_state(search, state))
    elif state.reason and state.error is None:
        show(state.reason)
    if state.error is not None:
        raise state.error
    if state.reason == ALIKE:
        raise Impossible(report.alike(SearchAnswer.of_state(search, state)))
    return 0


# The candidates


def _search(args: argparse.Namespace) -> CandidateSearch:
    if args.time is not None and args.kernels:
        raise Impossible("--for is for a search within one boot: give --runs N, the most boots")
    if args.switch_back and not args.switch:
        raise Impossible("--switch-back takes back what --switch does: give that, too")
    if args.runs < 2 * _FEWEST:
        raise Impossible(f"--runs {args.runs}: both ends are measured twice, so 4 at least")
    if args.workload.endswith(_FILES):
        # Each boot begins in another folder.
        args.workload = str(Path(args.workload).absolute())
    data = args.data_dir or journal.place() / "data"
    place = factors.place_at(data, args.engine or "")
    options = RunOptions(store.folder(args.results), run_options.list_run_arguments(args))
    build = _build(args, options.results)
    candidates = _candidates(args, place, build)
    if args.data_dir:
        candidates = candidate_search.with_own_data(candidates, data)
    names = [candidate.name for candidate in candidates]
    if len(names) < _FEWEST or len(set(names)) != len(names):
        raise Impossible(
            f"a search needs two or more different candidates, and {', '.join(names) or 'none'} "
            f"{'is' if len(names) == 1 else 'are'} given"
        )
    digest = variant.digest_work(args.workload, options)
    words = [args.workload, digest, *names, *options.arguments, *_kind(args), args.build or ""]
    return CandidateSearch(
        name=hashlib.sha256("\0".join(words).encode()).hexdigest()[:12],
        workload=args.workload,
        candidates=tuple(candidates),
        place=place,
        options=options,
        metric=args.metric,
        most=args.runs,
        seconds=args.time,
        wait_quiet=args.wait_quiet,
        build=build,
    )


def _kind(args: argparse.Namespace) -> tuple[str, ...]:
    return tuple(str(getattr(args, one) or "") for one in ("switch", "vary", "git", "bindir"))


def _build(args: argparse.Namespace, results: Path) -> CommitBuild | None:
    if args.git is None:
        if args.build or args.bindir:
            raise Impossible("--build and --bindir are for the commits of --git")
        return None
    if not args.build or not args.over:
        raise Impossible("--git needs --over GOOD..BAD and --build CMD")
    return CommitBuild(args.git, args.build, results / "builds")


def _candidates(
    args: argparse.Namespace, place: FactorPlace, build: CommitBuild | None
) -> list[SearchCandidate]:
    if build is not None:
        return [_commit(args, build, one) for one in candidate_search.commits(args.git, args.over)]
    if args.kernels:
        return [
            SearchCandidate(name, Variant(name, switched_by_boot=name))
            for name in _kernels(args.kernels)
        ]
    if args.pg_bindirs:
        folders = run_options.split_names(args.pg_bindirs)
        absent = [one for one in folders if not Path(one).is_dir()]
        if absent:
            raise Impossible(f"--pg-bindirs: there is no folder {absent[0]}")
        return [SearchCandidate(one, Variant(one, ("--pg-bindir", one))) for one in folders]
    template = args.switch or args.vary
    if "{}" not in template or not args.over:
        raise Impossible(f"{template!r} needs a {{}} where the level goes, and --over A,B,… levels")
    if args.switch:
        return [
            SearchCandidate(
                one, parse_variant(shlex.quote(one), place, label=one, switch=args.switch)
            )
            for one in run_options.split_names(args.over)
        ]
    return [
        SearchCandidate(one, parse_variant(candidate_search.fill(template, one), place, label=one))
        for one in run_options.split_names(args.over)
    ]


def _commit(args: argparse.Namespace, build: CommitBuild, commit: str) -> SearchCandidate:
    place = build.place(commit)
    programs = ("--pg-bindir", str(place / args.bindir)) if args.bindir else ()
    return SearchCandidate(commit[:12], Variant(commit[:12], programs), commit)


def _kernels(text: str) -> list[str]:
    """Return the kernel releases that a list with commas, or a file with one in each line, names.

    A name with * stands for the kernels in /boot that it matches, sorted by version, without those
    for repairs.
    """
    file = Path(text)
    lines = assets.text(file).splitlines() if file.is_file() else text.split(",")
    words = [line.strip() for line in lines if line.strip()]
    found: list[str] = []
    for word in words:
        plain = word.removeprefix("/boot/").removeprefix(_IMAGE)
        pattern, *more = plain.split()
        if "*" not in pattern:
            found.append(" ".join([pattern, *more]))
            continue
        images = [
            path.name.removeprefix(_IMAGE)
            for path in _BOOT.glob(f"{_IMAGE}{pattern}")
            if "rescue" not in path.name
        ]
        if not images:
            raise Impossible(f"--kernels {word}: {_BOOT} has no kernel of such a name")
        found += [" ".join([one, *more]) for one in sorted(images, key=_version)]
    return list(dict.fromkeys(found))


def _version(name: str) -> list[tuple[int, str]]:
    """Return the parts of a release, by which releases are sorted.

    A release candidate comes before its release.
    """
    plain = _CANDIDATE.sub("~", name)
    parts = [
        (int(number), "") if number else (-2 if text == "~" else -1, text)
        for number, text in re.findall(r"(\d+)|(~|[^\d~]+)", plain)
    ]
    return [*parts, (-1, "")]


# Kernels: one boot at a time


def _job(args: argparse.Namespace, search: CandidateSearch) -> BootJob:
    """Return the description of a search among kernels for its plan of boots.

    It has the kernels, and the command that continues the search after each boot.
    """
    results = search.options.results.absolute()
    names = [candidate.name for candidate in search.candidates]
    words = ["bisect", args.workload, "--kernels", ",".join(names), "--runs", str(search.most)]
    words += [*search.options.arguments, "--results", str(results)]
    words += ["--metric", search.metric] if search.metric else []
    words += ["--wait-quiet", f"{search.wait_quiet:g}s"] if search.wait_quiet else []
    return BootJob(
        path=search.plan.absolute(),
        kernels=tuple(names),
        words=tuple(words),
        arguments=(search.workload, *search.options.arguments),
    )


def name_next_boot(args: argparse.Namespace) -> str:
    """Return the kernel to boot for the next run of a search among kernels; "" if it is over."""
    search = _search(args)
    state = candidate_search.begin(search)
    candidate_search.take_up(search, state)
    number = _due_boot(search, state)
    return "" if number is None else search.candidates[number].name


def _one_boot(search: CandidateSearch, state: SearchState, job: BootJob) -> None:
    """Do one run of a search among kernels, if this boot has the kernel that is due.

    `job` has the plan of boots, which is written first. After the run, `state.reason` is a sentence
    on the next kernel to boot, or on why the search is over. If the run fails, `state.error` has
    its error.
    """
    job.write()
    names = [candidate.name for candidate in search.candidates]
    number = _due_boot(search, state)
    if number is not None and job.is_here(Host(), names[number], sorted(state.boots)):
        try:
            say(candidate_search.measure_one(search, state, number, say))
        except ReplayerError as error:
            state.error = error
            return
        number = _due_boot(search, state)
    if number is not None:
        state.reason = job.what_next(names[number])


def _due_boot(search: CandidateSearch, state: SearchState) -> int | None:
    """Return the index of the candidate to boot next.

    Returns None if the search is over; `state.reason` then has the reason.
    """
    number = candidate_search.due(state)
    if number is not None and len(state.values) >= search.most:
        state.reason = f"stopped after {search.most} boots"
        return None
    return number


# The finding


def _tell(args: argparse.Namespace, answer: SearchAnswer) -> None:
    """Print the answer, and write it into the files that were asked for."""
    files.tell(args, report.document(answer), lambda: answer.model_dump_json(indent=1))
