"""A bundle for support: a file with texts about a run and its machine, without secrets."""

import errno
import io
import json
import os
import platform
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from replayer import __version__, journal, trusted_path
from replayer.cli.argv_secrets import SECRET
from replayer.errors import Impossible, ReplayerError
from replayer.machine.host import Host
from replayer.results import store
from replayer.run.checks import preflight
from replayer.units import show_size

_HIDDEN = "***"
_LOG_BYTES = 1 << 20
"""The most bytes that are taken from the end of a server's log."""
_LEAST_SECRET = 4
_URL = re.compile(r"(?<=://)([^\s:/@\"']*):[^\s\"']+(?=@)")
"""The password in a URL with a user: in `postgresql://app:secret@db` it is `secret`."""
_NAMES = r"password|passwd|passfile|passphrase|pwd|secret|token|api_?key|credential"
_ASSIGNED = re.compile(
    rf"(?i)\b([\w.-]{{0,30}}(?:{_NAMES})[\w.-]{{0,30}})"
    r"([\"']?\s*(?:=|:|\bis\b|\bto\b)\s*)(\"[^\"]*\"|'(?:[^']|'')*'|[^\s,;)}\]]+)"
)
"""A word that names a secret, then `=`, `:`, "is" or "to", then the secret.

The word has a largest length, so that a log with a long word is not slow to search."""
_OPTION = re.compile(rf"(?i)(--[\w-]{{0,30}}(?:{_NAMES})[\w-]{{0,30}}\s+)(?!-)\S+")
_PLAIN_JSON = re.compile(r"-?\d|true|false|null|[\[{]")
_IDENTIFIED = re.compile(
    r"(?i)(\b(?:password|identified\s+(?:by|with\s+\S+\s+(?:by|as)))\s*\(?\s*)"
    r"(E?'(?:[^']|'')*'|\"[^\"]*\"|\$(\w*)\$.*?\$\3\$)"
)
_LOGGED = re.compile(r"(?m)^([^\t\n]*?\b(STATEMENT|CONTEXT|QUERY|DETAIL):  )(.*(?:\n\t.*)*)")
"""A message of PostgreSQL's log that may have a statement or its values, with all its lines."""
_WITH_VALUES = re.compile(r"=\(|contains \(|arameters: |\n")
_PLACES = ("PWD", "OLDPWD")
"""Environment variables that hold folders, although their names look like those of secrets."""


@dataclass
class SupportBundle:
    """The texts of a bundle by their names; secrets are removed from each text when it is added."""

    host: Host = field(default_factory=Host)
    texts: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, text: str) -> None:
        """Add a text under a name, with *** in place of passwords and other secrets."""
        self.texts[name] = without_secrets(text)

    def add_run(self, path: Path) -> None:
        """Add the result file at `path`, with only the kind of each statement that a replay ran.

        Raises Impossible for a file that is not a result.
        """
        run = store.load(path)
        # Statements are normalised, but their names may be private; sums stay.
        steps = tuple(
            step.model_copy(
                update={
                    "replayed": tuple(
                        one.model_copy(update={"text": one.kind}) for one in step.replayed
                    )
                }
            )
            for step in run.steps
        )
        self.add("result.json", store.text(run.model_copy(update={"steps": steps})))

    def add_versions(self) -> None:
        """Add the versions of replayer, Python, the kernel and every package."""
        packages = {dist.metadata["Name"]: dist.version for dist in metadata.distributions()}
        lines = [
            f"replayer {__version__}",
            f"Python {platform.python_version()}",
            f"{platform.system()} {platform.release()} {platform.machine()}",
            *(f"{name} {version}" for name, version in sorted(packages.items())),
        ]
        self.add("versions.txt", "".join(f"{line}\n" for line in lines))

    def add_checks(self, case: preflight.Case) -> None:
        """Make the checks of `replayer check` on a machine, and add their results as JSON."""
        try:
            lines = [line._asdict() for line in preflight.run_checks(case)]
            facts = {name: value for name, value in case.facts.items() if name != "kernel.cmdline"}
        finally:
            journal.leave()
        self.add("check.json", json.dumps({"lines": lines, "facts": facts}, indent=1, default=str))

    def add_logs(self) -> None:
        """Add the last MiB of each log of the servers that replayer started here."""
        for path in sorted((journal.home() / "data").glob("*/server.log")):
            try:
                with path.open("rb") as file:
                    size = os.fstat(file.fileno()).st_size
                    file.seek(max(0, size - _LOG_BYTES))
                    text = file.read().decode(errors="replace")
            except OSError as error:
                text = f"cannot be read: {error.strerror}\n"
            self.add_log(path.parent.name, text)

    def add_log(self, name: str, text: str) -> None:
        """Add a server's log without the statements and the values that PostgreSQL marks in it."""
        self.add(f"{name}.log", _LOGGED.sub(_without_values, text))

    def contents(self) -> Iterator[tuple[str, str]]:
        """Yield the name of each text and its size in words, such as 1.20 KiB."""
        for name, text in self.texts.items():
            yield name, show_size(len(text.encode()))

    def write(self, path: Path) -> None:
        """Write the bundle as .tar.gz, readable by its owner; it replaces no file.

        It is written completely or not at all.
        Raises Impossible if the file is there, ReplayerError if it cannot be written.
        """
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            for name, text in self.texts.items():
                data = text.encode(errors="replace")
                about = tarfile.TarInfo(f"replayer-support/{name}")
                about.size, about.mode = len(data), 0o600
                archive.addfile(about, io.BytesIO(data))
        try:
            with trusted_path.Folder(path.parent) as folder:
                handle = folder.create(path.name, 0o600)
                try:
                    with os.fdopen(handle, "wb") as file:
                        file.write(packed.getvalue())
                except BaseException:
                    folder.forget(path.name)
                    raise
        except FileExistsError as error:
            raise Impossible(f"{path} is already there", "give another --output") from error
        except OSError as error:
            todo = "give another --output"
            if error.errno in {errno.ENOSPC, errno.EDQUOT}:
                todo = f"free some space, or {todo}"
            raise ReplayerError(
                f"the bundle {path} cannot be written: {error.strerror}", todo
            ) from error


def without_secrets(text: str) -> str:
    """Return a text with *** for passwords and tokens: in URLs, assignments and the environment."""
    for secret in _secrets_of_environment():
        text = text.replace(secret, _HIDDEN)
    text = _URL.sub(rf"\1:{_HIDDEN}", text)
    text = _OPTION.sub(rf"\1{_HIDDEN}", text)
    text = _IDENTIFIED.sub(rf"\1{_HIDDEN}", text)
    return _ASSIGNED.sub(_assigned, text)


def _without_values(match: re.Match[str]) -> str:
    """Return a matched message of a server's log with *** in place of its statement or values.

    A message of the kind DETAIL that contains no values is returned unchanged.
    """
    if match[2] == "DETAIL" and not _WITH_VALUES.search(match[3]):
        return match[0]
    return f"{match[1]}{_HIDDEN}"


def _assigned(match: re.Match[str]) -> str:
    value = match[3]
    if '"' in match[2] and ":" in match[2] and _PLAIN_JSON.match(value):
        return match[0]
    if match[1].upper() in _PLACES and value.startswith("/"):
        return match[0]
    quote = value[0] if value[0] in "\"'" else ""
    return f"{match[1]}{match[2]}{quote}{_HIDDEN}{quote}"


def _secrets_of_environment() -> list[str]:
    """Return the values of environment variables that hold secrets, judged by their names.

    The longest come first, so that a part of a secret is not replaced before the whole.
    """
    found = {
        value
        for name, value in os.environ.items()
        if SECRET.search(name) and name not in _PLACES and len(value) >= _LEAST_SECRET
    }
    return sorted(found, key=len, reverse=True)
