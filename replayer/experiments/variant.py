"""One variant of an experiment: parsed from words, applied to the machine, and measured as a run.

A variant is written as on the command line of `replayer ab`:

    pg.shared_buffers=1GB        a setting of the server (`server.` and `mysql.` as well)
    walk.threads=8               a key of a step, as `--set` takes it
    read_ahead_kb=128            a factor of `replayer list factors`
    --pg-bindir DIR              an option of `replayer run`
    balanced                     with `--switch CMD`: the word that replaces {} in the command
"""

from __future__ import annotations

import contextlib
import re
import shlex
import tempfile
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from replayer import factors, interpreter, shell, signals
from replayer.analysis.differences import boot_plan
from replayer.conditions import kernel_settings, memory_bound, own_group, switch_back
from replayer.engines import engine
from replayer.errors import Impossible, ReplayerError
from replayer.experiments.reached_settings import check_kept, refuse_unreached, settings_of
from replayer.machine.boot_line import split_line
from replayer.results import editing, store
from replayer.results.tags import NOT_COUNTED
from replayer.run.plan import run_words
from replayer.run.plan import workload as workload_file
from replayer.run.plan.request import build_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from replayer.factors import FactorPlace
    from replayer.journal import Note
    from replayer.model import Run
    from replayer.results.store import StoredRun
    from replayer.run.runner import RunRequest

_SERVER = ("pg.", "server.", "mysql.")
_OPTIONS = frozenset(
    {
        *("--set", "--pg-set", "--server-set", "--pg-bindir", "--bindir", "--engine"),
        *("--without", "--with"),
    }
)
"""Options of `replayer run` that a variant may have, each with one value."""
_SERVER_OPTIONS = frozenset({"--pg-set", "--server-set"})
_PROGRAMS = frozenset({"--pg-bindir", "--bindir"})
_MAKES_DATA = _PROGRAMS | {"--engine"}
_TAKERS: dict[str, Callable[[Note], str]] = {
    **dict.fromkeys(kernel_settings.NOTES, kernel_settings.recover),
    **dict.fromkeys(own_group.NOTES, own_group.recover),
    "cgroup": memory_bound.recover,
}
"""Kind of a journal's note on a change that a factor made -> the function that undoes it."""
_HOLE = "{}"
_STOPS_WITHIN = 60.0
_TAG = re.compile(r"[^A-Za-z0-9_.-]")


@dataclass(frozen=True)
class Variant:
    """One variant of an experiment: the arguments of its runs, and the levels during these runs."""

    label: str
    arguments: tuple[str, ...] = ()
    """The arguments of `replayer run` for the variant's runs."""
    levels: tuple[tuple[str, str], ...] = ()
    """(factor, level) of each factor that is set; those of a server are in `arguments`, too."""
    switch: str = ""
    """The command that switches the machine to the variant, its level filled in; "" for none."""
    switched_by_boot: str = ""
    """The kernel that the runs need, as a plan of boots names it; "" if `levels` decide it."""

    def boot_kernel(self, release: str) -> str | None:
        """Return the kernel that the runs need, as a plan of boots names it; None for any boot.

        `release` is the kernel for a variant that needs a boot and names no kernel.
        """
        levels = dict(self.of_scope("boot"))
        if not levels:
            return self.switched_by_boot or None
        words = [
            word for name, level in levels.items() for word in factors.load(name).boot_words(level)
        ]
        return " ".join([levels.get("kernel", release), *words])

    def of_scope(self, *scopes: str) -> tuple[tuple[str, str], ...]:
        """Return (factor, level) of the variant's factors that have one of these scopes.

        The scope of a factor is the part to make anew for another level: nothing (`machine`), the
        `server`, its `table`, or the `boot`.
        """
        return tuple(pair for pair in self.levels if factors.load(pair[0]).SCOPE in scopes)


@dataclass(frozen=True)
class RunOptions:
    """Options that the runs of all variants have in common."""

    results: Path
    """The folder for the results."""
    arguments: tuple[str, ...] = ()
    """More arguments of `replayer run`, before those of the variant."""
    tags: tuple[tuple[str, str], ...] = ()
    """(name, value) of more tags of each run."""


def parse_variant(text: str, place: FactorPlace, *, label: str = "", switch: str = "") -> Variant:
    """Return the variant that a text describes; "" is the machine and the workload as they are.

    `label` is the name of its runs (default: the text). `place` is the machine, disk and engine on
    which the levels must be possible. `switch` is a command with {} in it; then one word of the
    text without `=` is the level for it.
    Raises NotFound for a factor that does not exist, Impossible for a word that cannot be
    understood and for a level that cannot be set here, each in one sentence.
    """
    arguments: list[str] = []
    levels: list[tuple[str, str]] = []
    command = ""
    words = iter(_words(text))
    for word in words:
        if word.startswith("--"):
            arguments += _option(word, next(words, None))
        elif "=" in word:
            more, level = _assigned(word, place)
            arguments += more
            levels += level
        elif switch and not command:
            command = fill_switch(switch, word)
        else:
            raise _no_word(word, switch)
    if switch and not command:
        raise Impossible(
            f"--switch {switch!r} needs a level for each variant, and {text!r} has none: give it a "
            f"word, as in --a balanced --b performance"
        )
    _refuse_twice([name for name, _ in levels])
    _refuse_twice(_settings(arguments))
    return Variant(label or text or "as it is", tuple(arguments), tuple(levels), command)


def with_absolute_paths(text: str) -> str:
    """Return the text of a variant in which a relative folder of programs is an absolute path.

    Raises Impossible if the text has a quote that is not closed.
    """
    given = _words(text)
    words = list(given)
    for number, (before, word) in enumerate(zip(["", *given], given, strict=False)):
        name, sign, folder = word.partition("=")
        if name in _PROGRAMS and sign:
            words[number] = f"{name}={Path(folder).absolute()}"
        elif before in _PROGRAMS:
            words[number] = str(Path(word).absolute())
    return text if words == given else shlex.join(words)


@contextlib.contextmanager
def applied(variant: Variant, place: FactorPlace) -> Iterator[None]:
    """Set the machine's levels of a variant for the `with` block, and restore the machine after it.

    Every change has a note in the journal, so that it is undone even after a kill. The command of
    --switch is run, but not undone here: `switched_back` around all runs does that. Raises
    Impossible for a level that needs another boot.
    """
    before = {note.path for note in _taken()}
    try:
        _refuse_other_boot(variant, place)
        machine = sorted(variant.of_scope("machine"), key=_others_changed, reverse=True)
        kept = []
        for name, level in machine:
            factors.load(name).set_level(place, level)
            kept.append(factors.load(name).current(place))
        if variant.switch:
            switch_back.switch(variant.switch)
        _read_back(machine, kept, place)
        yield
    finally:
        _give_back([note for note in _taken() if note.path not in before])


def _others_changed(level: tuple[str, str]) -> int:
    """Return how many other kernel settings change when this (factor, level) is set.

    The factors with the highest numbers are set first, so that their side effects are overwritten.
    """
    file = factors.load(level[0]).FILE
    return 0 if file is None else len(file.also)


def _read_back(
    levels: Sequence[tuple[str, str]], first: Sequence[str | None], place: FactorPlace
) -> None:
    """Check, after all levels were set, that each factor of the machine still has its level.

    `first` are the factors' values just after each of them was set.  Raises Impossible if setting
    one factor has changed another one.
    """
    for (name, level), before in zip(levels, first, strict=True):
        kept = factors.load(name).current(place)
        if kept != before:
            raise Impossible(
                f"{name}={level} is not in force next to "
                f"{' '.join(f'{one}={other}' for one, other in levels if one != name)}: the kernel "
                f"keeps {kept}"
            )


def check_levels(variants: Sequence[Variant], place: FactorPlace) -> None:
    """Set the machine's levels of each variant once, and restore the machine at once.

    So a level that this machine refuses is reported before any run. Switching commands are not run,
    and levels that need a boot are left out.
    """
    for levels in dict.fromkeys(variant.of_scope("machine") for variant in variants):
        with applied(Variant("", levels=levels), place):
            pass


def measure(workload: str, variant: Variant, options: RunOptions) -> Run:
    """Perform one run of a variant in a new process, and return the stored result.

    The machine must have the variant's levels already (`applied`). The levels become tags of the
    run. Raises ReplayerError, with the run's own message, if the run fails; it is Impossible if the
    run was refused.
    """
    return store.load(_perform(run_arguments(workload, variant, options)))


def measure_applied(
    workload: str, variant: Variant, options: RunOptions, place: FactorPlace
) -> Run:
    """Set the levels of a variant, perform one run of it, and restore the machine.

    Raises ReplayerError if the run fails, if another program changed a level meanwhile, or if the
    server did not use a level that it was given. A run that was stored is then marked as one that
    does not count.
    """
    run = None
    try:
        with applied(variant, place):
            run = measure(workload, variant, options)
        check_kept(run, _named_settings(variant))
    except ReplayerError:
        if run is not None:
            refuse(options.results, run)
        raise
    return run


def _named_settings(variant: Variant) -> dict[str, str]:
    """Return name -> value of the server's settings that the variant's factors set."""
    named = {factors.load(name).SETTING for name, _ in variant.of_scope("server")}
    names = {setting.name for setting in named if setting is not None}
    return {name: own for name, own in settings_of(variant.arguments).items() if name in names}


def refuse(folder: Path, run: Run, why: str = "yes") -> None:
    """Mark a stored run that does not count: comparisons and resumed experiments leave it out.

    `folder` has the run's file. `why` becomes the value of the tag `not-counted`.
    """
    mark = {NOT_COUNTED: why}
    editing.change(
        folder / f"{run.id}.json",
        lambda stored: stored.model_copy(update={"tags": {**stored.tags, **mark}}),
    )


def is_refused(stored: StoredRun) -> bool:
    """Return whether a stored run is marked as one that does not count, such as a disturbed one."""
    return NOT_COUNTED in stored.tags


def run_arguments(workload: str, variant: Variant, options: RunOptions) -> list[str]:
    """Return the arguments of `replayer` for one run of a variant."""
    tags = [*variant.levels, *options.tags]
    given = [part for name, value in tags for part in ("--tag", f"{_TAG.sub('_', name)}={value}")]
    common = [*options.arguments, *variant.arguments]
    return [
        *("run", workload, *common, *_reaching_steps(workload, common)),
        *("--label", variant.label, *given, "--results", str(options.results)),
        *("--progress", "none", "--quiet"),
    ]


def plan_run(workload: str, variant: Variant, options: RunOptions) -> RunRequest:
    """Return the request of one run of a variant.

    Raises the errors of `replayer run`, and Impossible for settings of a server if no step of the
    workload uses a server.
    """
    asked = run_words.parse(run_arguments(workload, variant, options)[1:])
    request = build_request(
        run_words.workload_of(asked),
        asked.engine or "",
        label=variant.label,
        bindir=asked.bindir,
        data_dir=asked.data_dir,
    )
    if asked.settings and not request.needs_database:
        raise Impossible(
            f"the setting {asked.settings[0]} is of a database server, and {request.workload.name} "
            f"uses none: it cannot make a difference"
        )
    refuse_unreached(request, settings_of(variant.arguments))
    return request


def digest_work(workload: str, options: RunOptions) -> str:
    """Return a digest of the work that a run of a workload does now.

    It identifies a trial or a search: if the workload's file was edited since, the older runs
    belong to another one. Raises the errors of `replayer run`.
    """
    return workload_file.facts(plan_run(workload, Variant(""), options).workload).digest


def with_own_data(variants: Sequence[Variant], folder: Path) -> tuple[Variant, ...]:
    """Return the variants, each with a data folder below `folder` if they cannot share one.

    A data folder is made for one engine, version and set of initial settings.
    """
    keys = [
        (own.of_scope("table"), [text for text in own.arguments if text in _MAKES_DATA])
        for own in variants
    ]
    alone = any(key != keys[0] for key in keys) or any(options for _, options in keys)
    if not alone:
        return tuple(variants)
    return tuple(
        replace(own, arguments=(*own.arguments, "--data-dir", str(folder / f"variant-{number}")))
        for number, own in enumerate(variants, 1)
    )


def _reaching_steps(workload: str, arguments: Sequence[str]) -> list[str]:
    """Return --set arguments that pass the size of the server's cache on to the steps.

    Some steps set that size themselves by their key shared_buffers, whatever the server was started
    with. A key that `arguments` already set is left out.
    """
    pairs = list(pairwise(arguments))
    sizes = [text.partition("=") for option, text in pairs if option in _SERVER_OPTIONS]
    named = next((text for option, text in reversed(pairs) if option == "--engine"), "")
    own = engine.of_url(named) if "://" in named else engine.load(named or engine.default())
    buffers = own.spec.sessions.buffers
    given = {text.partition("=")[0] for option, text in pairs if option == "--set"}
    return [
        part
        for name, _, value in sizes
        if buffers is not None and name.strip() == buffers.setting
        for spec in workload_file.load(workload).steps
        if "shared_buffers" in type(spec).model_fields
        and not given & {f"{step}.shared_buffers" for step in (spec.name, spec.step)}
        for part in ("--set", f"{spec.name}.shared_buffers={_binary(value)}")
    ]


def _binary(size: str) -> str:
    """Return a size as replayer writes it, such as 8MiB for the server's 8MB or 8M.

    Both are the same size, as the server's units are powers of 1024.
    """
    return re.sub(r"(?i)([kmgt])b?$", lambda unit: f"{unit[1].upper()}iB", size.strip())


def _perform(arguments: Sequence[str]) -> Path:
    """Run `replayer` with these arguments, and return the path of its result."""
    # Without a name, so that nothing of it is left after a kill.
    with tempfile.TemporaryFile() as output:
        words = [*interpreter.module("replayer"), *arguments]
        with shell.running(
            words, output=output.fileno(), bound=True, patience=_STOPS_WITHIN
        ) as process:
            status = process.wait()
        output.seek(0)
        lines = output.read().decode(errors="replace").splitlines()
    results = [line.removeprefix("result: ") for line in lines if line.startswith("result: ")]
    if status == Impossible.status:
        raise Impossible(_why(lines, status))
    if status or not results:
        raise ReplayerError(_why(lines, status))
    return Path(results[-1])


def _why(lines: Sequence[str], status: int) -> str:
    """Return the reason why a run failed: its last error message, or how its process ended."""
    if status < 0:
        return f"a run was killed by {signals.name_of(-status)}"
    last = next((line for line in reversed(lines) if line.startswith("replayer")), "")
    for prefix in ("replayer run: error: ", "replayer: error: "):
        last = last.removeprefix(prefix)
    return last or f"a run ended with status {status}, and printed no result"


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise Impossible(f"the variant {text!r} has a quote that is not closed") from error


def _option(word: str, value: str | None) -> tuple[str, ...]:
    name, sign, inside = word.partition("=")
    if name not in _OPTIONS:
        raise Impossible(
            f"a variant cannot have {name}: it takes {', '.join(sorted(_OPTIONS))}; options of all "
            f"runs stand outside of --a and --b"
        )
    given = inside if sign else value
    if given is None:
        raise Impossible(f"the variant's option {name} has no value")
    return name, given


def _assigned(word: str, place: FactorPlace) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Return the arguments of `replayer run` for NAME=VALUE, and the level that it sets.

    The second is a tuple with (factor, level) if NAME is a factor, else ().
    """
    name, _, value = word.partition("=")
    for prefix in _SERVER:
        if name.startswith(prefix):
            return ("--pg-set", f"{name.removeprefix(prefix)}={value}"), ()
    plain = factors.plain_name(name)
    if "." in plain:
        return ("--set", word), ()
    factors.check_level(name, place, value)
    return factors.load(plain).run_arguments(value), ((plain, value),)


def fill_switch(switch: str, level: str) -> str:
    """Return the command of --switch with its {} replaced by a level.

    Raises Impossible if it has no {}.
    """
    if _HOLE not in switch:
        raise Impossible(f"--switch {switch!r} has no {{}} where the level goes")
    return switch.replace(_HOLE, shlex.quote(level))


def _no_word(word: str, switch: str) -> Impossible:
    if switch:
        return Impossible(f"the variant has a second word {word!r}, and --switch takes one level")
    return Impossible(
        f"{word!r} is not a part of a variant: it must be NAME=VALUE, as in pg.shared_buffers=1GB, "
        f"walk.threads=8 or read_ahead_kb=128"
    )


def _settings(arguments: Sequence[str]) -> list[str]:
    """Return the names of all settings of the server and keys of steps in arguments of a run."""
    return [
        text.partition("=")[0].strip()
        for option, text in pairwise(arguments)
        if option in {"--set", *_SERVER_OPTIONS}
    ]


def _refuse_twice(names: Sequence[str]) -> None:
    """Raise Impossible if a name occurs twice, because only its last level would be in force."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise Impossible(f"the variant sets {', '.join(twice)} twice: give it one level")


def _refuse_other_boot(variant: Variant, place: FactorPlace) -> None:
    wanted = variant.boot_kernel("*")
    if wanted is None:
        return
    release, line = (
        place.host.read(f"proc/{name}") for name in ("sys/kernel/osrelease", "cmdline")
    )
    if not boot_plan.target_of(wanted).fits(release, split_line(line)[0]):
        levels = " ".join(f"{name}={level}" for name, level in variant.of_scope("boot"))
        raise Impossible(
            f"{levels} needs another boot: this one is {release} with {line or 'no words'}"
        )


def _taken() -> list[Note]:
    return kernel_settings.own(frozenset(_TAKERS))


def _give_back(notes: Sequence[Note]) -> None:
    """Undo the changes that the notes describe, the newest first; then raise the first error."""
    failures: list[ReplayerError] = []
    with signals.shield():
        for note in reversed(notes):
            try:
                _TAKERS[note.kind](note)
            except ReplayerError as error:
                failures.append(error)
    if failures:
        raise failures[0]
