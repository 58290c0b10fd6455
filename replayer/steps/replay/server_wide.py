"""Statements that act on more than the replayed database: no replay sends them.

They end other sessions, stop or configure the server, change its users, its replication, its
statistics or its files, execute programs, or alter or drop whole databases.  The number of a
session or of a log in the source's statement means another one here.  Who lets a replay change a
database names that database only.  A session may end itself.

The text of a statement decides, however it is written.  The body of a called function is not
visible here.  A text that a statement of MySQL executes, and that is not known, may do anything.
"""

import re
from typing import TYPE_CHECKING, Final

from replayer.capture import readings
from replayer.lazy_import import Later

if TYPE_CHECKING:
    from replayer.capture import fingerprint
else:
    # It loads sqlglot, and few texts have to be read so closely.
    fingerprint = Later("replayer.capture.fingerprint")

_NAMES = r"(?:[\w$&]|\"[^\"]*\")++(?: ?, ?(?:[\w$&]|\"[^\"]*\")++)*+"
_POSTGRES = (
    r"alter system|(?:create|alter|drop) (?:role|user(?! mapping)|group|tablespace|subscription)"
    r"|(?:create|alter|drop) database|copy [^;]*(?:\bto|\bprogram) '|(?:drop|reassign) owned by"
    r"|(?:comment|security label(?: for \w+)?) on (?:database|role|tablespace|subscription)\b"
    # A privilege on an object of the database has another word after ON, or the object's name.
    rf"|(?:grant|revoke) (?:\w+ option for )?{_NAMES}"
    r"(?: privileges)? (?:to|from|on (?:database|tablespace|parameter)) "
)
_MYSQL = (
    r"kill(?! (?:query |connection )?connection_id ?\()"
    r"|shutdown|restart|flush|reset|purge|clone|binlog|(?:un)?install|grant|revoke"
    r"|change (?:master|replication)"
    r"|(?:start|stop) (?:slave|replica|group_replication|all (?:slaves|replicas))"
    r"|(?:create(?: or replace)?|alter|drop|rename) (?:user|role|server|(?:undo )?tablespace"
    r"|logfile group|spatial reference system)|set (?:password|default)"
    r"|(?:create(?: or replace)?|drop) (?:database|schema)|(?:create|alter|drop|set) resource group"
    r"|create (?:or replace )?(?:aggregate )?function [^;]*\bsoname|(?:un)?lock instance|backup"
    # Without a name it is the session's own database.
    r"|alter (?:database|schema)(?! (?:default|character|charset|collate|encryption|comment)\b)"
    r"|alter instance"
    r"|set [^;]*\b(?:global|persist|persist_only)\b|call (?:mysql|sys)\."
)
_SYSTEM = r"(?<![\w$.])`?(?:mysql|performance_schema|sys)`? ?\."
"""The begin of the name of one of MySQL's own tables, which have the users and the settings."""
_BEGIN = r"(?:\A|;) ?(?:set statement [^;]*? for )?"
_STATEMENTS: Final = {
    "postgres": re.compile(rf"{_BEGIN}(?:{_POSTGRES})"),
    "mysql": re.compile(
        rf"{_BEGIN}(?:(?:{_MYSQL})\b"
        r"|(?:insert|replace|update|delete|with|load|truncate|create|alter|drop|rename|lock"
        r"|analyze|check|optimize|repair)\b[^;]*?"
        rf"{_SYSTEM})|\binto (?:outfile|dumpfile)\b"
    ),
}
"""SQL dialect -> pattern of such statements, in the form in which values and comments are replaced.

In this form, all white space is one space, and all letters are small.
"""
_FUNCTIONS = re.compile(
    r"\b(?:pg_(?:terminate|cancel)_backend(?! ?\( ?pg_backend_pid ?\()"
    r"|pg_reload_conf|pg_rotate_logfile|pg_promote"
    r"|pg_switch_(?:wal|xlog)|pg_create_restore_point|pg_(?:start|stop)_backup"
    r"|pg_backup_(?:start|stop)|pg_(?:wal|xlog)_replay_(?:pause|resume)|pg_\w*replication_\w+"
    r"|pg_logical_slot_get_\w+|pg_stat_reset\w*|pg_stat_statements_reset"
    r"|pg_log_backend_memory_contexts|pg_file_\w+|lo_(?:im|ex)port|dblink\w*)\"? ?\("
)
_NESTED = re.compile(r"/\*(?:(?!/\*|\*/).)*\*/", re.DOTALL)
"""The innermost of PostgreSQL's comments, which may be in each other."""
_COMPOUND = re.compile(
    rf"{_BEGIN}(?:\w+ ?: ?)?(?:begin not atomic|if|case|loop|while|repeat|for)\b"
)
"""Statements of MariaDB that have other statements in them, outside of stored programs."""
_INNER = r"\b(?:atomic|begin|then|else|do|loop|repeat) "
"""The words before a statement in a compound statement."""
_IN_COMPOUND = re.compile(rf"(?:; ?|{_INNER})(?:{_MYSQL})\b|{_SYSTEM}")
_EXECUTES = rf"(?:{_BEGIN}|{_INNER})(?:prepare (?:`[^`]*`|[^ ;]+) ?from|execute immediate)\b"
_TEXT = re.compile(_EXECUTES)
"""Begin of a statement of MySQL that executes a text."""
_UNKNOWN = re.compile(rf"{_EXECUTES} ?+(?!'\?'(?: ?'\?')* ?(?:;|\Z|using\b))")
"""Begin of such a statement whose text is not only strings."""
_STORED = re.compile(r" ?create\b[^;]*?\bbegin\b.*\bend\b[^;]*")
"""The definition of a stored program: its statements run when it is called."""
_ESCAPED = re.compile(r"\\([nrt])|\\(.)|(['\"])\3", re.DOTALL)
"""A character that is escaped in a string of MySQL: white space, another one, or a quote."""
_IN_CODE = re.compile(rf"\b(?:{_POSTGRES})")
_DEEPEST = 100
_DO = re.compile(r"[\s(]*do\b")
_RARE: Final = {
    "postgres": re.compile(
        r"[\s(]*(?:alter|create|drop|copy|do|grant|revoke|reassign|comment|security|/\*|--)"
    ),
    "mysql": re.compile(
        r"[\s(]*(?:kill|shutdown|restart|flush|reset|purge|clone|binlog|install|uninstall|grant"
        r"|revoke|change|start|stop|create|alter|drop|rename|set|call|prepare|execute|lock|unlock"
        r"|backup|/\*|--|#)"
    ),
}
_PARTS: Final = {
    "postgres": ("pg_", "lo_", "dblink"),
    "mysql": ("outfile", "dumpfile", "mysql", "performance_schema", "sys.", "sys`"),
}
_USE = re.compile(r" ?use(?: |(?=`))`?([^`; ]+)")
_READS = re.compile(
    r"[ (]*(?:select|show|(?:explain|desc|describe)(?! analyze)|set(?! statement)|do|help|values"
    r"|table|begin(?! not)|start|commit|rollback|savepoint|release|\Z)"
)
"""Statements that change no table, and those of transactions."""
_OWN: Final = {"mysql", "performance_schema", "sys"}
"""MySQL's own databases."""


class SystemSessions:
    """Follows which sessions are in one of MySQL's own databases, by their USE statements.

    There a table that is named without its database is the server's: `DELETE FROM user` deletes
    users.  It knows only the statements that a replay sends.
    """

    def __init__(self, dialect: str) -> None:
        """Begin; only sessions of the `dialect` "mysql" can be in such a database."""
        self._dialect = dialect
        self._inside: set[int] = set()

    def change(self, session: int, text: str) -> bool:
        """Return whether a statement of a session may change a table of such a database.

        If not, it counts as sent.  `session` is the session's number.
        """
        before = session in self._inside
        low = text.lower()
        if self._dialect != "mysql" or (not before and "use" not in low):
            return False
        after = [_followed(form, low, inside=before) for form in _mysql_forms(low)]
        # Without a form, there are too many ways to read the text.
        if not after or any(changes for changes, _ in after):
            return True
        (self._inside.add if any(inside for _, inside in after) else self._inside.discard)(session)
        return False

    def end(self, session: int) -> None:
        """Forget a session that has ended."""
        self._inside.discard(session)


def _followed(form: str, low: str, *, inside: bool) -> tuple[bool, bool]:
    """Return (whether a text changes a table of the system, whether its session is then in there).

    `low` is the text in small letters, `form` its form without values.  `inside` is whether the
    session is in such a database before.
    """
    for part in form.split(";"):
        if used := _USE.match(part):
            # With ANSI_QUOTES a name may be in the quotes of a string, which are empty here.
            inside = used[1] in _OWN or (not used[1].isidentifier() and "mysql" in low)
        elif inside and not _READS.match(part):
            return True, inside
    return False, inside


def acts_beyond_database(text: str, dialect: str) -> bool:
    """Return whether an SQL text has a statement that acts on more than one database.

    Such statements end other sessions, configure the server or write files, for example.
    `dialect` is "postgres" or "mysql".  A text that a server may read in several ways, by its
    settings or its version, acts on more if it does so in any of them.
    """
    low = text.lower()
    rare = (
        _RARE[dialect].match(low)
        or any(part in low for part in _PARTS[dialect])
        or ";" in low.rstrip("; \n")
    )
    if not rare:
        return False
    if dialect == "mysql":
        texts = readings.executed(low, dialect)
        return not texts or any(_acts_in_mysql(one) for one in texts)
    forms = fingerprint.forms(low, dialect)
    if low.count("/*") > 1:
        forms += fingerprint.forms(_without_comments(low), dialect)
    # The body of DO is a string.
    code = " ".join(low.split()) if any(map(_DO.match, forms)) else ""
    return any(_STATEMENTS[dialect].search(one) or _FUNCTIONS.search(one) for one in forms) or bool(
        _IN_CODE.search(code) or _FUNCTIONS.search(code)
    )


def _mysql_forms(low: str) -> list[str]:
    """Return the forms of a text of MySQL in small letters, for each way to read it."""
    texts = readings.executed(low, "mysql")
    return [form for text in texts for form in fingerprint.forms(text, "mysql")]


def _acts_in_mysql(low: str) -> bool:
    """Return `acts_beyond_database` of a text in small letters without versions in comments."""
    for pattern in readings.possible(low, "mysql"):
        form = fingerprint.form_of(low, "mysql", pattern)
        if _STATEMENTS["mysql"].search(form):
            return True
        if _COMPOUND.search(form) and _IN_COMPOUND.search(form):
            return True
        if _UNKNOWN.search(form) and not _STORED.fullmatch(form):
            return True
        if _TEXT.search(form) and _executes_beyond(low, pattern):
            return True
    return False


def _executes_beyond(low: str, pattern: re.Pattern[str]) -> bool:
    """Return whether a string in a text of MySQL, executed as SQL, acts beyond the database."""
    found = (match["string"] for match in pattern.finditer(low))
    strings = [text[1:-1] for text in found if text]
    escaped = [_ESCAPED.sub(_meant, text) for text in strings]
    # Strings that stand next to each other are one.
    texts = {*strings, *escaped, "".join(strings), "".join(escaped)}
    return any(acts_beyond_database(text, "mysql") for text in texts)


def _meant(escaped: re.Match[str]) -> str:
    return " " if escaped[1] else escaped[2] or escaped[3]


def _without_comments(text: str) -> str:
    """Return a text without comments; those in other comments are removed first."""
    for _ in range(_DEEPEST):
        text, count = _NESTED.subn(" ", text)
        if not count:
            break
    return text
