"""Statements that act on more than the replayed database: no replay sends them.

They end other sessions, stop or configure the server, change its users, its replication, its
statistics or its files, execute programs, or alter or drop whole databases.  The number of a
session or of a log in the source's statement means another one here.  Who lets a replay change a
database names that database only.  A session may end itself.

The text of a statement decides, however it is written.  The body of a called function, and a text
that a statement puts together, are not visible here.
"""

import re
from typing import TYPE_CHECKING, Final

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
_BEGIN = r"(?:\A|;) ?(?:/\*![0-9]* ?)?(?:set statement [^;]*? for )?"
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
_TEXT = re.compile(rf"(?:{_BEGIN}|{_INNER})(?:prepare [^ ;]+ from|execute immediate)\b")
"""Begin of a statement of MySQL that executes a text."""
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
_EXECUTED = re.compile(r"/\*![0-9]*|\*/")
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
        inside = session in self._inside
        low = text.lower()
        if self._dialect != "mysql" or (not inside and "use" not in low):
            return False
        # The server executes what is in comments such as /*!50000 use mysql */.
        form = _EXECUTED.sub(" ", fingerprint.cheap_form(_with_executed(low), "mysql"))
        for part in " ".join(form.split()).split(";"):
            if used := _USE.match(part):
                # With ANSI_QUOTES a name may be in the quotes of a string, which are empty here.
                inside = used[1] in _OWN or (not used[1].isidentifier() and "mysql" in low)
            elif inside and not _READS.match(part):
                return True
        (self._inside.add if inside else self._inside.discard)(session)
        return False

    def end(self, session: int) -> None:
        """Forget a session that has ended."""
        self._inside.discard(session)


def acts_beyond_database(text: str, dialect: str) -> bool:
    """Return whether an SQL text has a statement that acts on more than one database.

    Such statements end other sessions, configure the server or write files, for example.
    `dialect` is "postgres" or "mysql".
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
        return _acts_in_mysql(low)
    forms = [fingerprint.cheap_form(low, dialect)]
    if low.count("/*") > 1:
        forms.append(fingerprint.cheap_form(_without_comments(low), dialect))
    # The body of DO is a string.
    code = " ".join(low.split()) if _DO.match(forms[0]) else ""
    return any(_STATEMENTS[dialect].search(one) or _FUNCTIONS.search(one) for one in forms) or bool(
        _IN_CODE.search(code) or _FUNCTIONS.search(code)
    )


def _acts_in_mysql(low: str) -> bool:
    """Return `acts_beyond_database` of a text of MySQL or MariaDB in small letters."""
    low = _with_executed(low)
    form = fingerprint.cheap_form(low, "mysql")
    if _STATEMENTS["mysql"].search(form):
        return True
    if _COMPOUND.search(form) and _IN_COMPOUND.search(form):
        return True
    if not _TEXT.search(form):
        return False
    found = (match["string"] for match in fingerprint.SCAN["mysql"].finditer(low))
    texts = [_ESCAPED.sub(_meant, text[1:-1]) for text in found if text]
    # Strings that stand next to each other are one.
    return any(acts_beyond_database(text, "mysql") for text in {*texts, "".join(texts)})


def _with_executed(low: str) -> str:
    """Return a text in which comments that only MariaDB executes are those that all execute."""
    return low.replace("/*m!", "/*!")


def _meant(escaped: re.Match[str]) -> str:
    return " " if escaped[1] else escaped[2] or escaped[3]


def _without_comments(text: str) -> str:
    """Return a text without comments; those in other comments are removed first."""
    for _ in range(_DEEPEST):
        text, count = _NESTED.subn(" ", text)
        if not count:
            break
    return text
