"""The keys of an engine.toml, as pydantic models that check them.

A key that is not declared here is an error; its message names the file and the nearest valid key.
A value may contain words in braces, such as `{data}`; only those that the key allows are valid.
"""

import re
from collections.abc import Mapping
from string import Formatter
from types import UnionType
from typing import Annotated, Any, Literal, Self, Union, get_args, get_origin

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from replayer import registry
from replayer.engines import guests, wires
from replayer.errors import nearest
from replayer.model import MemoryKind, Noun
from replayer.units import Duration, Size

_Pattern = re.Pattern[str]
_OF_PROGRAM = frozenset({"program", "version", "init", "start"})
"""Keys of a server that is a program, and no guest."""


def _with_words(*words: str) -> AfterValidator:
    """Return a pydantic validator that refuses a text with any other word in braces."""

    def check(text: str) -> str:
        for _, word, _, _ in Formatter().parse(text):
            if word is not None and word not in words:
                allowed = ", ".join(f"{{{one}}}" for one in words)
                raise ValueError(
                    f"{{{word}}} is not a word that can stand here{nearest(word, words)}: {allowed}"
                )
        return text

    return AfterValidator(check)


def _wire(name: str) -> str:
    wires.name_of(name)
    return name


def _unless_false(value: object) -> object:
    return None if value is False else value


_OfServer = Annotated[str, _with_words("bin", "data", "log")]
_Fixed = Annotated[
    Annotated[str, _with_words("data", "socket")] | None, BeforeValidator(_unless_false)
]


class Recognise(Noun):
    """The question to a server which engine it is, if several engines share one URL scheme."""

    statement: str
    """Statement whose first cell is matched with `pattern`."""
    pattern: _Pattern
    """Pattern that finds this engine's name in the first cell of the statement's result."""


class Connect(Noun):
    """Settings with which every connection begins."""

    database: str = ""
    """Database for replayer's own objects, if a schema is not enough."""
    statements: tuple[str, ...] = ()
    """Statements that every connection executes first."""
    query: dict[str, str] = Field(default_factory=dict)
    """Parameters that are added to the URL unless the user gives them."""


class ProfileSpec(Connect):
    """Settings with which every connection of `replayer profile` begins, instead of [connect]."""

    own: tuple[str, ...] = ()
    """Columns of a profile whose numbers include the profiler's own statements."""
    late: bool = False
    """True if a session's work appears in the counters some time after it was done."""


class Password(Noun):
    """Sources of a password that is not in the URL; the first source that has one is used."""

    environment: str = ""
    """Variable with the password."""
    option_files: tuple[str, ...] = ()
    """Option files in MySQL's form."""
    option_groups: tuple[str, ...] = ()
    """Groups of the option files that are read."""
    wanted: _Pattern | None = None
    """Pattern of the server's or the driver's message that a password is missing."""
    ways: str = "in the URL"
    """The place where a password can be given, in the words of messages."""


class Lock(Noun):
    """The lock that keeps other replayers out of a server: when a lost holder is noticed."""

    noticed: Duration = 0.0
    """Seconds after which the server has ended the holder's session if its host is gone; 0 if the
    server may never notice."""
    heard_every: Duration = 0.0
    """Seconds between two heartbeats of the session, which show that its holder lives; 0 is
    never."""
    outlives_session: bool = False
    """True if the lock is a table: a session that answers does not show that the lock is held."""


class LogEvents(Noun):
    """Patterns of the server's log lines that become marks (events) in charts.

    Every key other than `time` and `format` is a kind of event, with the pattern of its lines.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, _Pattern] = Field(init=False)

    time: _Pattern
    """Pattern of the time in UTC at the beginning of a line."""
    format: str
    """Format of the time of a log line, as for strptime."""

    @property
    def kinds(self) -> Mapping[str, _Pattern]:
        """Return kind of event -> the pattern of the log lines that report it."""
        return self.__pydantic_extra__


class SettingsFile(Noun):
    """The file that the server reads its settings from."""

    path: str = ""
    """Path relative to the data directory."""
    head: str = ""
    """First lines of the settings file."""
    included_by: str = ""
    """A file of the data directory to which an `include` line is added."""
    include: str = ""
    """The `include` line that is added to the file `included_by`."""
    line: Annotated[str, _with_words("name", "value")] = ""
    """Form of a setting's line, with `{name}` and `{value}`."""
    escape: dict[str, str] = Field(default_factory=dict)
    """Character of a value -> what is written for it."""


class SettingSpec(Noun):
    """The value of a server setting: a text, a number, or a table of these keys."""

    value: str = ""
    """The value; a setting that is not a table has this key only."""
    since: int = Field(0, ge=0)
    """The first major version that has the setting."""
    most: Size | None = None
    """A size instead of a value; it is limited by a share of the machine's memory."""
    of_memory: float = Field(1.0, gt=0, le=1)
    """The share of the machine's memory to which `most` is limited."""
    unit: str = ""
    """Unit that is written behind the size, which is in MiB."""

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, value: Any) -> Any:
        if isinstance(value, dict | SettingSpec):
            return value
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError("it must be a text, a number or a table")  # noqa: TRY004 - pydantic's
        return {"value": str(value)}

    def text(self, memory_bytes: int) -> str:
        """Return the setting's value as text, on a machine with that much memory (0: not known)."""
        if self.most is None:
            return self.value
        share = int(memory_bytes * self.of_memory) if memory_bytes else self.most
        return f"{min(self.most, share) >> 20}{self.unit}"


class ServerSpec(Noun):
    """The private server that replayer starts itself."""

    starts: bool = True
    """False if replayer does not start this server; the other keys are not needed then."""
    oldest: int = 0
    """The first major version that replayer supports."""
    newest_tried: int | None = None
    """The last major version with which the engine was tried."""
    guest: str = ""
    """A library of engines/guests instead of a program: a process of replayer serves it, so that
    `program`, `version`, `init` and `start` are not needed."""
    program: str = ""
    """The server's program; looked for in `folders` and in PATH."""
    package: str = ""
    """A Python package that contains the programs."""
    package_folder: str = "."
    """The folder of the programs in the Python package `package`."""
    folders: tuple[str, ...] = ()
    """Folders of the system's packages with the programs, as patterns; the highest number first."""
    install: str = ""
    """Advice on how to install the programs if there are none."""
    version: _Pattern = re.compile("^$")
    """Pattern for the output of `program --version`; its first group is the major version."""
    pid_file: str = ""
    """File of the data directory with the number of the server's process."""
    users: tuple[str, ...] = ()
    """Users that may run the server if replayer runs as root; the first that exists is used."""
    new_bytes: Size = 0
    """Bytes of free space that a new data directory needs."""
    log_prefix: _Pattern = re.compile("^")
    """Pattern of the beginning of a log line, which messages leave out."""
    log_weight: _Pattern = re.compile("$^")
    """Pattern of log lines with the reason of a failure."""
    log_note: _Pattern = re.compile("$^")
    """Pattern of log lines about what goes well; they may name settings that are not refused."""
    log_end: _Pattern = re.compile("$^")
    """Pattern of log lines with the reason for which the server itself ended."""
    socket_folders: tuple[str, ...] = ()
    """Folders in which the private socket may lie; the first that can be written is used."""
    socket_name: str = ""
    """File name of the socket."""
    database: str = ""
    """The database that replayer makes and uses, `{database}` in `url`."""
    first_database: str = ""
    """The database that a new server contains."""
    url: Annotated[str, _with_words("database", "socket")] = ""
    """URL of the private server; `{socket}` is the folder of its socket."""
    init: tuple[_OfServer, ...] = ()
    """Command that makes a data directory; `{bin}`, `{data}` and `{log}` are paths."""
    start: tuple[_OfServer, ...] = ()
    """Command that starts the server."""
    stays: bool = False
    """True if the server stays in the foreground."""
    starting: _Pattern = re.compile("$^")
    """Pattern of the server's refusal of connections while it still starts."""
    stop_signals: tuple[Literal["SIGTERM", "SIGINT", "SIGQUIT"], ...] = ("SIGTERM",)
    """Signals that stop the main process; if it hangs after one, the next is sent."""
    release: tuple[tuple[_OfServer, ...], ...] = ()
    """Commands that remove the shared memory of a killed server; the first that works counts."""
    environment: dict[str, _OfServer] = Field(default_factory=dict)
    """Variables of the server's processes."""
    log_events: LogEvents | None = None
    """Lines of the log that become marks in the charts."""
    settings_file: SettingsFile = SettingsFile()
    """The file that the server reads its settings from."""
    list_settings: tuple[_OfServer, ...] = ()
    """The command that prints the names of all settings, so that a mistyped name can be refused."""
    listed_setting: _Pattern = re.compile("$^")
    """Pattern of a line that `list_settings` prints; its first group is the setting's name."""
    abbreviates: bool = False
    """True if the server takes the beginning of a setting's name for the whole of it."""
    fixed: dict[str, _Fixed] = Field(default_factory=dict)
    """Settings that users cannot change; `false` refuses a setting without giving it a value."""
    settings: dict[str, Annotated[SettingSpec | None, BeforeValidator(_unless_false)]] = Field(
        default_factory=dict
    )
    """Settings that replayer chose; `false` drops an inherited one."""
    init_settings: dict[str, dict[str, tuple[str, ...]]] = Field(default_factory=dict)
    """Initial settings of a data directory: name -> value -> arguments of `init`."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        needed = (
            "program", "version", "pid_file", "socket_folders", "socket_name", "database",
            "first_database", "url", "init", "start", "settings_file",
        )  # fmt: skip
        if self.guest and self.guest not in registry.names(guests.KIND):
            known = registry.names(guests.KIND)
            raise ValueError(f"there is no guest {self.guest!r}{nearest(self.guest, known)}")
        if self.guest:
            guests.load(self.guest)  # an incomplete file is an error before a server is started
        own = _OF_PROGRAM if self.guest else frozenset[str]()
        fields = type(self).model_fields
        lacking = [
            name
            for name in needed
            if name not in own and getattr(self, name) == fields[name].default
        ]
        if self.starts and lacking:
            raise ValueError(
                f"{lacking[0]} is missing, without which replayer cannot start a server; "
                f"starts = false says that it starts none"
            )
        return self


class Buffers(Noun):
    """The server's own cache, and the setting for its size."""

    setting: str
    """The setting for the size of the server's own cache."""
    unit: str
    """Unit that is written behind the size."""
    least: Size = 1 << 20
    """Minimum size of the cache with which the server works."""


class SessionMemory(Noun):
    """Server settings for one kind of reads: cached or physical."""

    since: int = 0
    settings: dict[str, str] = Field(default_factory=dict)


class SessionsSpec(Noun):
    """Settings of the step `sessions` on a private server, on top of [server.settings]."""

    connections: str = ""
    """The setting that limits connections."""
    memory_base: Size = 0
    """Bytes of memory that the server's processes need in addition to their buffers."""
    memory_per_session: Size = 0
    """Bytes of memory that each session needs in addition to `memory_base`."""
    buffers: Buffers | None = None
    """The server's own cache, which is made large or small."""
    settings: dict[str, SettingSpec] = Field(default_factory=dict)
    """Settings of every server with sessions."""
    memory: dict[MemoryKind, SessionMemory] = Field(default_factory=dict)
    """Kind of memory (direct, cgroup and others) -> settings that it needs."""

    def of(self, kind: MemoryKind) -> SessionMemory:
        """Return the server settings for reads of this kind, such as cached or direct.

        They are empty if the engine has none for it.
        """
        return self.memory.get(kind, SessionMemory())


class LayoutSpec(Noun):
    """A layout of the build step's table."""

    segment_rows: int = Field(default=98_304, ge=1)
    """Rows of a segment, if the build step names none."""
    most_segment_rows: int | None = None
    """The most rows that a segment can have."""


class EngineSpec(Noun):
    """All keys of an engine.toml, with the inherited ones."""

    title: str = ""
    """The name for display."""
    default: bool = False
    """True for the engine of a run that names none."""
    like: str = ""
    """The engine from which missing verbs and keys are inherited."""
    wire: Annotated[str, AfterValidator(_wire)]
    """SCHEME of the wire (client protocol and driver) that reaches the server."""
    url_schemes: tuple[str, ...] = ()
    """Schemes of URLs for this engine, besides its own name."""
    block_size: int = Field(ge=512)
    """Bytes of a database block."""
    layout: str = ""
    """The layout of a build step that names none."""
    denied: _Pattern | None = None
    """Pattern of the server's message that a right is missing."""
    verified: str = ""
    """The steps that were run on this engine, with the place and the versions."""
    unverified: str = ""
    """The steps that were not run on this engine."""
    cold: str = ""
    """The way in which the engine's data becomes cold, as `list engines -v` prints it."""
    counters: str = ""
    """The counters that the verb `counters` reads, as `list engines -v` prints them."""
    notes: tuple[str, ...] = ()
    """Notes that the report prints for every run."""
    recognise: Recognise | None = None
    connect: Connect = Connect()
    profile: ProfileSpec = ProfileSpec()
    password: Password = Password()
    lock: Lock = Lock()
    server: ServerSpec = ServerSpec(starts=False)
    sessions: SessionsSpec = SessionsSpec()
    layouts: dict[str, LayoutSpec] = Field(default_factory=dict)


OWN = ("like", "default", "url_schemes", "recognise", "verified", "unverified")
"""Keys that are not inherited: the way to use an engine is inherited, its identity is not."""


def explain(error: ValidationError) -> str:
    """Return the first error of an engine.toml as one sentence that names section and key."""
    first = error.errors()[0]
    where = [str(part) for part in first["loc"]]
    section = f"[{'.'.join(where[:-1])}] " if where[:-1] else ""
    key = where[-1] if where else ""
    if first["type"] == "extra_forbidden":
        thing = "section" if isinstance(first["input"], Mapping) and not section else "key"
        return f"{section}{key}: there is no such {thing}{nearest(key, _known(where[:-1]))}"
    if first["type"] == "missing":
        return f"{section}the key {key!r} is missing"
    wanted = str(first["msg"]).removeprefix("Value error, ").removeprefix("Input ")
    value = first["input"]
    shown = f" = {value!r}" if isinstance(value, str | int | float) else ""
    return f"{section}{key}{shown}: {wanted}"


def _known(section: list[str]) -> list[str]:
    """Return the keys that a section of engine.toml may have; `section` is its path of names."""
    kind: Any = EngineSpec
    for name in section:
        fields = getattr(kind, "model_fields", {})
        kind = _inside(
            fields[name].annotation if name in fields else (get_args(kind) or (kind,))[-1]
        )
    return list(getattr(kind, "model_fields", ()))


def _inside(annotation: Any) -> Any:
    """Return the type inside an annotation, without `| None` and metadata."""
    while get_origin(annotation) in {Annotated, Union, UnionType}:
        annotation = get_args(annotation)[0]
    return annotation
