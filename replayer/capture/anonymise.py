"""Replacement of the values in statements by other values of the same type and length.

Each run of letters or digits in a value is replaced.  Signs, spaces and quotes stay, so that a date
stays a date, an array stays an array and a pattern stays a pattern.  Within one conversion, the
same run is always replaced by the same run.  Two different runs of the same kind never become
equal, unless they are long: they have more than 18 digits, or more possible values than 18 digits
have.  So keys still match each other, and unique values stay unique.  The replacement uses a secret
key, which is made at random for one conversion and is not stored.

Not replaced are: names of tables, columns and sequences; numbers that are no data (LIMIT, positions
in ORDER BY, lengths of types); settings that belong to the server; hints to the planner; words such
as true or day.
"""

import hashlib
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

from replayer.capture.action import Action, language_of
from replayer.capture.copies import copied
from replayer.capture.readings import GAP, possible, sure

_DIGITS, _BITS = "0123456789", "01"
_LOWER, _UPPER = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_HEX: Final = {"lower": _DIGITS + "abcdef", "upper": _DIGITS + "ABCDEF"}
# Replacements for characters outside ASCII: ranges of letters with as many bytes (keys 2, 3 and 4),
# and of bytes that are no UTF-8 (key 0).
_WIDE: Final = {2: (0x0430, 32), 3: (0x4E00, 20_000), 4: (0x20000, 40_000), 0: (0xDC80, 128)}
_SMALL = 1 << 60
"""Number of a run's possible values up to which two different runs never become equal.

The replacement of a run with more possible values is a hash, so equal results are very unlikely.
"""
_ROUNDS = 6
_MOST_KNOWN = 100_000
_LONGEST_KNOWN = 100

_LIMITS: Final = tuple(
    limit for bits in (8, 16, 32, 64) for limit in ((1 << (bits - 1)) - 1, (1 << bits) - 1)
)
"""The largest number of each integer type; a replacement fits the same types as the original."""

_TOKEN: Final = re.compile(
    r"(?P<escape>\\(?:u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2}|[0-7]{3}|.))"
    r"|(?P<uuid>\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b)"
    r"|(?P<stamp>(?<!\d)\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d)?)?(?!\d)"
    r"|(?<![\d:])\d\d:\d\d(?::\d\d)?(?![\d:]))"
    r"(?:\.(?P<fraction>\d+))?(?P<zone>[zZ]\b|[+-]\d\d(?::?\d\d)?(?!\d))?"
    r"|(?P<float>(?<![^\W_])\d+(?:\.\d+)?(?=[eE][+-]?\d+(?![^\W_])))(?P<power>[eE][+-]?\d+)"
    r"|(?P<run>(?:[^\W_]|[^\x00-\x7f])+)",
    re.ASCII | re.DOTALL,
)
_BYTEA = re.compile(r"\\x[0-9a-fA-F]*")
_LITERAL = re.compile(r"(?s)([a-zA-Z&]*)(['\"])(.*?)(['\"]?)")
_PREFIX = re.compile(r"(?<!\w)([xXbB])\Z")
_DOLLAR = re.compile(r"(?s)(\$\w*\$)(.*?)(\$\w*\$)?")
# fmt: off
_KEPT: Final = frozenset((
    "true", "false", "null", "none", "infinity", "nan", "epoch", "today", "now", "tomorrow",
    "yesterday", "microsecond", "microseconds", "millisecond", "milliseconds", "second", "seconds",
    "sec", "secs", "minute", "minutes", "min", "mins", "hour", "hours", "day", "days", "week",
    "weeks", "mon", "mons", "month", "months", "quarter", "year", "years", "decade", "century",
    "millennium", "dow", "doy", "isodow", "isoyear", "hex", "base64", "escape", "utf8", "utc",
    "gmt", "ago", "latin1", "utf8mb4",
))
_KEPT_WHOLE: Final = frozenset(("t", "f", "y", "n", "yes", "no", "on", "off"))
_TYPES = (
    "varchar|char|character|varying|numeric|decimal|dec|bit|float|timestamp|time|interval|binary"
    "|varbinary|tinyint|smallint|mediumint|int|integer|bigint|datetime|nchar|nvarchar|double|year"
)
# fmt: on
_POSITION = re.compile(
    rf"(?:\b(?:limit|offset|first|next|top)\s+|\blimit\s+\d+\s*,\s*"
    rf"|\b(?:order|group)\s+by\s+(?:[\w.\"`]+(?:\s+(?:asc|desc))?\s*,\s*){{0,20}}"
    rf"|\b(?:{_TYPES})\s*\(\s*(?:\d+\s*,\s*)?"
    # The oldest version of MySQL that executes what follows.
    r"|/\*m?!)\Z",
    re.IGNORECASE,
)
_NAMED = re.compile(
    r"(?:\btime\s+zone|->>?|#>>?"
    r"|\b(?:nextval|currval|setval|pg_get_serial_sequence|to_reg\w+|set_config|current_setting)"
    r"\s*\()\s*\Z",
    re.IGNORECASE,
)
_SEARCHED = re.compile(
    r"\b(?:(?:plain|phrase|websearch_)?to_ts\w+|ts_headline)\s*\(\s*\Z", re.IGNORECASE
)
"""Functions of text search whose first argument may be the name of a configuration."""
_CONFIGURATION = re.compile(r"'[\w.]+'(?=\s*(?:::\s*regconfig\s*)?,)")
_CAST_TO_NAME = re.compile(r"\s*::\s*reg", re.IGNORECASE)
_FOR_THE_SERVER: Final = {
    # A name with a dot is a variable of the application, such as the user whose rows it sees.
    "postgres": re.compile(
        r"\s*(?:set\s+(?:(?:session|local)\s+)?+[a-z_]\w*+(?=\s*=|\s+[\w'])"
        r"|(?:reset|show|begin|start)\b|(?:commit|rollback)\b(?!.*\bprepared\b))",
        re.IGNORECASE | re.DOTALL,
    ),
    # These may hold data, and do not match: SET PASSWORD, a SET that names a variable of the user
    # (@name), and MariaDB's SET STATEMENT ... FOR, which has a statement in it.
    "mysql": re.compile(
        r"\s*(?:set\s+(?:(?:global|session|local|persist|persist_only)\s+|@@)?+"
        r"(?!(?:password|statement)\b)[a-z_](?!.*(?:(?<!@)@(?!@)|auth|passw|secret|token))"
        r"|(?:reset|use|begin|start\s+transaction|commit|rollback)\b"
        r"|show\s+(?:(?:global|session|local)\s+)?(?:variables|status)\b(?!.*\bwhere\b)"
        # The pattern of LIKE is of names.
        r"|show\s+(?:extended\s+)?(?:full\s+)?(?:tables|columns|fields|databases|schemas"
        r"|table\s+status|open\s+tables|triggers|events|character\s+set|charset|collation"
        r"|(?:procedure|function)\s+status)\b(?!.*\bwhere\b))",
        re.IGNORECASE | re.DOTALL,
    ),
}
"""Statements whose values belong to the server, not to the data: settings and transactions."""
_VERSIONED = re.compile(r"/\*m?![0-9]*((?:(?!\*/).)*+)\*/", re.IGNORECASE | re.DOTALL)
"""A statement of MySQL or MariaDB that only servers of a version execute."""
_GAP = GAP["postgres"]
_FUNCTION = re.compile(
    rf"{_GAP}create\s+(?:or\s+replace\s+)?(?:function|procedure)\b", re.IGNORECASE
)
_BODY = re.compile(rf"\bas{_GAP}\Z", re.IGNORECASE)
"""The text before the body of a function."""
_CODE: Final = {
    "postgres": re.compile(rf"\bdo{_GAP}(?:language\s+[\w\"']+{_GAP})?\Z", re.IGNORECASE),
    "mysql": re.compile(
        r"\b(?:prepare\s+(?:`[^`]*`|[^\s;]+)\s*from|execute\s+immediate)\s*\Z", re.IGNORECASE
    ),
}
"""The text before a string that is SQL."""
_DATA = frozenset({",", "="})
"""The last character before a string that is no name and no SQL."""
_LANGUAGE = re.compile(r"\blanguage\s*\Z", re.IGNORECASE)
_UNITS: Final = {
    "postgres": re.compile(r"''|.", re.DOTALL),
    "mysql": re.compile(r"\\.|''|\"\"|.", re.DOTALL),
}
"""A character of a string, as it is written."""
_SPACES: Final = {"n": "\n", "r": "\r", "t": "\t"}
_MODE = re.compile(
    rf"{GAP['mysql']}(?:/\*m?![0-9]*\s*)?set\b(?!\s+(?:global|persist))"
    r".*?(?<!global\.)\bsql_mode\s*:?=\s*"
    r"(?P<more>concat\s*\(\s*@@(?:session\.)?sql_mode\s*,\s*)?['\"]?(?P<modes>[\w, ]*)",
    re.IGNORECASE | re.DOTALL,
)
_ANSI: Final = frozenset(("ansi", "ansi_quotes", "db2", "maxdb", "mssql", "oracle", "postgresql"))
"""Modes of MySQL and MariaDB in which a name may be in double quotes, and a string may not."""
_OPTIONS = re.compile(rf"{_GAP}copy\b(?:(?!\bwhere\b|;).)*+", re.IGNORECASE | re.DOTALL)
"""A COPY up to its WHERE or its end; strings in this part are options, and no data."""
_HINT = re.compile(r"/\*\+\s*\w+\s*\([^'\"]*\)\s*\*/")
"""A hint to the planner, which stays: without it the server takes another plan."""
_NEAR = 120


class Anonymiser:
    """A function object that replaces the values in an action; equal values stay equal."""

    def __init__(self, engine: str = "postgres") -> None:
        self._dialect = language_of(engine)
        self._values = ValueReplacer()
        self._quoting: set[int] = set()
        """Sessions that have set a mode in which names are in double quotes."""

    def __call__(self, action: Action) -> Action:
        """Return a copy of an action with the values in its text and parameters replaced."""
        session, text = action.session, action.text
        if text:
            text = self.text(text, names=session in self._quoting)
            if self._dialect == "mysql" and "sql_mode" in action.text.lower():
                self._follow_mode(session, action.text)
        elif action.does == "disconnect":
            self._quoting.discard(session)
        parameters = action.parameters
        if parameters:
            parameters = tuple(None if value is None else self.value(value) for value in parameters)
        return action._replace(text=text, parameters=parameters)

    def _follow_mode(self, session: int, text: str) -> None:
        """Note whether a SET of sql_mode changes what is in the double quotes of its session."""
        if (mode := _MODE.match(text)) is None:
            return
        if _ANSI & set(re.findall(r"\w+", mode["modes"].lower())):
            self._quoting.add(session)
        elif not mode["more"]:
            self._quoting.discard(session)

    def text(self, text: str, *, names: bool = False) -> str:
        """Return a statement's text with its literals replaced, and x for letters in comments.

        With `names`, what MySQL has in double quotes is a name.  If it is not certain what is in a
        string, whatever may be in one is replaced.
        """
        pattern = sure(text, self._dialect)
        if pattern is not None:
            return self._replaced(text, pattern, names=names)
        made = text
        for one in possible(text, self._dialect):
            other = self._replaced(text, one, names=False)
            made = "".join([b if a == c else a for a, b, c in zip(made, other, text, strict=True)])
        return made

    def _replaced(self, text: str, pattern: re.Pattern[str], *, names: bool) -> str:
        """Return a text with the literals and comments replaced that `pattern` finds."""
        kept = self._is_for_the_server(text, pattern)
        options = _OPTIONS.match(text) if copied(text) is not None else None
        defines = self._dialect == "postgres" and _FUNCTION.match(text) is not None

        def replaced(match: re.Match[str]) -> str:
            kind, found = match.lastgroup, match[0]
            if kind == "gap":
                return found if _HINT.fullmatch(found) else re.sub(r"[^\W_]", "x", found)
            if kept or kind not in ("number", "string") or (names and found[0] == '"'):
                return found
            before = text[max(0, match.start() - _NEAR) : match.start()]
            if kind == "number":
                return found if _POSITION.search(before) else self._values.number(found)
            if options and match.start() <= options.end():
                return found
            return self._literal(match, before, defines=defines)

        return pattern.sub(replaced, text)

    def _is_for_the_server(self, text: str, pattern: re.Pattern[str]) -> bool:
        """Return whether a text is one statement whose values belong to the server.

        `pattern` finds the comments, which tools add to all statements.
        """
        # Few of the statements without a comment have one of these.
        if "/*" in text or "--" in text or "#" in text:
            text = pattern.sub(_without_gap, text)
        text = text.strip("; \t\r\n")
        if self._dialect == "mysql" and (versioned := _VERSIONED.fullmatch(text)):
            text = versioned[1]
        return ";" not in text and _FOR_THE_SERVER[self._dialect].match(text) is not None

    def _literal(self, match: re.Match[str], before: str, *, defines: bool) -> str:
        """Return the replacement of a string after the text `before`.

        `defines` is whether the statement defines a function.
        """
        found = match[0]
        # Most strings are in a list or compared: that is quickly seen.
        is_data = before.rstrip()[-1:] in _DATA
        if not is_data and (
            _CODE[self._dialect].search(before) or (defines and _BODY.search(before))
        ):
            return self._code(found)
        named = not is_data and self._is_name(match, before)
        if named or _CAST_TO_NAME.match(match.string, match.end()):
            return found
        # MySQL's scan does not find prefixes.
        prefix = _PREFIX.search(before)
        return self._values.literal(found, prefix[1] if prefix else "")

    def _is_name(self, match: re.Match[str], before: str) -> bool:
        """Return whether a string is the name of a thing of the server, after the text `before`."""
        if _NAMED.search(before) or (self._dialect == "postgres" and _LANGUAGE.search(before)):
            return True
        return bool(_SEARCHED.search(before) and _CONFIGURATION.match(match.string, match.start()))

    def _code(self, literal: str) -> str:
        """Return a string that is SQL with the values in it replaced; names and words stay."""
        dollar = _DOLLAR.fullmatch(literal)
        if dollar:
            return f"{dollar[1]}{self.text(dollar[2])}{dollar[3] or ''}"
        quoted = _LITERAL.fullmatch(literal)
        if quoted is None:
            return self.value(literal)
        prefix, quote, inner, end = quoted.groups()
        units = _UNITS["mysql" if prefix in {"e", "E"} else self._dialect].findall(inner)
        meant = [unit if len(unit) == 1 else _SPACES.get(unit[1], unit[1]) for unit in units]
        made = self.text("".join(meant))
        inner = "".join(
            [unit if a == b else b for unit, a, b in zip(units, meant, made, strict=True)]
        )
        return f"{prefix}{quote}{inner}{end}"

    def value(self, value: str) -> str:
        """Return the replacement of one value without quotes, such as a parameter; `yes` stays."""
        return self._values.replace(value)


def _without_gap(match: re.Match[str]) -> str:
    return " " if match.lastgroup == "gap" else match[0]


class ValueReplacer:
    """A secret key, and the replacement of each value by it."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._known: dict[str, str] = {}
        # More than a day, and not a whole number of days.
        self._shift = timedelta(
            days=400 + secrets.randbelow(1500), seconds=1 + secrets.randbelow(86_399)
        )

    def replace(self, value: str) -> str:
        """Return the replacement of one value without quotes, such as a parameter; `yes` stays."""
        if value.lower() in _KEPT_WHOLE:
            return value
        if _BYTEA.fullmatch(value):
            return value[:2] + self._hex(value[2:])
        return _TOKEN.sub(self._token, value)

    def literal(self, literal: str, before: str) -> str:
        """Return the replacement of a string in quotes; `before` may end with its prefix."""
        dollar = _DOLLAR.fullmatch(literal)
        if dollar:
            return f"{dollar[1]}{self.replace(dollar[2])}{dollar[3] or ''}"
        quoted = _LITERAL.fullmatch(literal)
        if quoted is None:
            return self.replace(literal)
        prefix, quote, inner, end = quoted.groups()
        kind = (prefix or before).lower()
        if kind == "x" and _is_hex(inner):
            inner = self._hex(inner)
        elif kind == "b" and set(inner) <= {"0", "1"}:
            inner = self._mapped(inner, [_BITS] * len(inner), "bits")
        else:
            inner = self.replace(inner)
        return f"{prefix}{quote}{inner}{end}"

    def _token(self, match: re.Match[str]) -> str:
        text = match[0]
        if match["stamp"]:
            fraction = f".{self._places(match['fraction'])}" if match["fraction"] else ""
            return f"{self._moment(match['stamp'])}{fraction}{match['zone'] or ''}"
        if match["escape"]:
            return self._escape(text)
        if match["uuid"]:
            return self._uuid(text)
        return self.number(text) if match["float"] else self._run(text)

    def _run(self, run: str) -> str:
        if run.lower() in _KEPT:
            return run
        known = self._known.get(run)
        if known is None:
            known = self._new(run)
            if len(run) <= _LONGEST_KNOWN:
                if len(self._known) >= _MOST_KNOWN:
                    self._known.clear()
                self._known[run] = known
        return known

    def _new(self, run: str) -> str:
        if run.isascii() and run.isdigit():
            return self._whole(run)
        if len(run) >= 8 and _is_hex(run) and not run.isalpha():
            return self._hex(run)
        return self._mapped(run, [_alphabet(character) for character in run], "word")

    def number(self, number: str) -> str:
        """Return the replacement of a number as SQL has it."""
        if number[:2] in ("0x", "0X"):
            return number[:2] + self._hex(number[2:])
        mantissa, mark, power = _powered(number)
        whole, point, fraction = mantissa.partition(".")
        digits = whole.replace("_", "")
        made = iter(self._run(digits) if digits else "")
        whole = "".join("_" if digit == "_" else next(made) for digit in whole)
        return f"{whole}{point}{self._places(fraction)}{mark}{power}"

    def _places(self, fraction: str) -> str:
        return self._mapped(fraction, [_DIGITS] * len(fraction), "fraction")

    def _whole(self, digits: str) -> str:
        """Return the replacement of a whole number: as many digits, and it fits the same types.

        The types are the integer types of 8 to 64 bits.  Zeros at the beginning of the number stay.
        """
        plain = digits.lstrip("0")
        if len(plain) < len(digits):
            return "0" * (len(digits) - len(plain)) + (self._run(plain) if plain else "")
        if len(digits) > 20:
            return self._mapped(digits, [_DIGITS] * len(digits), "digits")
        low, high = 10 ** (len(digits) - 1), 10 ** len(digits) - 1
        borders = [low, *(limit + 1 for limit in _LIMITS if low <= limit < high), high + 1]
        number = int(digits)
        low, end = next(
            pair for pair in pairwise(sorted(set(borders))) if pair[0] <= number < pair[1]
        )
        return str(low + self._moved(number - low, end - low, f"number {low}"))

    def _hex(self, digits: str) -> str:
        alphabet = _HEX["upper" if digits.isupper() else "lower"]
        plain = digits if digits.isupper() else digits.lower()
        return self._mapped(plain, [alphabet] * len(plain), "hex")

    def _uuid(self, uuid: str) -> str:
        plain = uuid.replace("-", "")
        # The UUID's version and variant stay.
        free = self._hex(plain[:12] + plain[13:16] + plain[17:])
        digits = f"{free[:12]}{plain[12]}{free[12:15]}{plain[16]}{free[15:]}"
        ends = (0, 8, 12, 16, 20, 32)
        return "-".join(digits[begin:end] for begin, end in pairwise(ends))

    def _moment(self, stamp: str) -> str:
        """Return the replacement of a date, a time of day, or a date with a time of day.

        Within one conversion, all of them move by the same random span of time.  A date without a
        time of day moves by the whole days of that span.  A text that is not a valid date only gets
        other digits.
        """
        time_only = stamp[2] == ":"
        try:
            moment = datetime.fromisoformat(f"2000-01-02 {stamp}" if time_only else stamp)
        except ValueError:
            return re.sub(r"\d+", lambda run: self._run(run[0]), stamp)
        shift = timedelta(days=self._shift.days) if len(stamp) == 10 else self._shift
        # A year keeps its four digits.
        moved = moment - shift if moment.year > 1100 else moment + shift
        text = moved.isoformat(sep=stamp[10] if len(stamp) > 10 else " ")
        return text[11:][: len(stamp)] if time_only else text[: len(stamp)]

    def _escape(self, escape: str) -> str:
        r"""Return another escape sequence of the same notation; return one such as \n unchanged."""
        if len(escape) == 2:
            return escape
        number = int.from_bytes(self._draw(f"escape {escape}", 4), "big")
        if escape[1] in "uU":
            return f"\\{escape[1]}{0x4E00 + number % 20_000:0{len(escape) - 2}x}"
        return f"\\x{0x41 + number % 26:02x}" if escape[1] == "x" else f"\\{0o101 + number % 26:o}"

    def _mapped(self, run: str, alphabets: Sequence["str | _Range"], tweak: str) -> str:
        """Return the replacement of the text `run`; its n-th character is of the n-th alphabet.

        `tweak` names the kind of the run.  A run of another kind may get another replacement.
        """
        forms = 1
        for alphabet in alphabets:
            forms *= len(alphabet)
            if forms > _SMALL:
                return self._drawn(run, alphabets, tweak)
        number = 0
        for character, alphabet in zip(run, alphabets, strict=True):
            place = alphabet.find(character)
            number = number * len(alphabet) + (
                place if place >= 0 else ord(character) % len(alphabet)
            )
        shape = ",".join(f"{len(alphabet)}{alphabet[0]}" for alphabet in alphabets)
        number = self._moved(number, forms, f"{tweak} {shape}")
        characters = []
        for alphabet in reversed(alphabets):
            number, place = divmod(number, len(alphabet))
            characters.append(alphabet[place])
        return "".join(reversed(characters))

    def _drawn(self, run: str, alphabets: Sequence["str | _Range"], tweak: str) -> str:
        """Return the replacement of a long `run` of letters or digits, computed from its hash.

        It differs from `run`.  Its n-th character is of the n-th alphabet.  `tweak` names its kind.
        """
        for attempt in range(100):
            places = self._draw(f"{attempt} {tweak} {run}", 3 * len(run))
            drawn = "".join(
                alphabet[int.from_bytes(places[3 * at : 3 * at + 3], "big") % len(alphabet)]
                for at, alphabet in enumerate(alphabets)
            )
            if drawn != run:
                return drawn
        raise AssertionError("a run of many forms is never drawn a hundred times")

    def _moved(self, number: int, count: int, tweak: str) -> int:
        """Return another number from 0 to `count` - 1; two numbers never get the same result.

        The secret key and `tweak` determine an order of these numbers.  The result is the one that
        follows `number` in this order.  If `count` is 1, the number stays the same.
        """
        if count == 1:
            return number
        place = self._permuted(number, count, tweak, range(_ROUNDS))
        return self._permuted((place + 1) % count, count, tweak, range(_ROUNDS - 1, -1, -1))

    def _permuted(self, number: int, count: int, tweak: str, rounds: Sequence[int]) -> int:
        """Return the position of `number` in a permutation of 0 to `count` - 1, or the reverse.

        The secret key and `tweak` determine the permutation, which a Feistel network computes.
        With ascending `rounds` (0 to 5) the result is the position of `number`.  With descending
        ones it is the number at this position.
        """
        half = max(1, ((count - 1).bit_length() + 1) // 2)
        mask = (1 << half) - 1
        while True:
            left, right = number >> half, number & mask
            if rounds[0]:
                left, right = right, left
            for turn in rounds:
                drawn = int.from_bytes(self._draw(f"{tweak} {turn} {right}", 8), "big") & mask
                left, right = right, left ^ drawn
            if rounds[0]:
                left, right = right, left
            number = left << half | right
            if number < count:
                return number

    def _draw(self, what: str, size: int) -> bytes:
        data = what.encode("utf-8", "surrogatepass")
        if size <= 64:
            return hashlib.blake2b(data, digest_size=size, key=self._key).digest()
        return hashlib.shake_256(self._key + data).digest(size)


@dataclass(frozen=True, slots=True)
class _Range:
    """An alphabet of characters with consecutive code points."""

    begin: int
    size: int

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, place: int) -> str:
        return chr(self.begin + place)

    def find(self, character: str) -> int:
        """Return a character's position in the alphabet, from 0; -1 if it is not in it."""
        place = ord(character) - self.begin
        return place if 0 <= place < self.size else -1


def _alphabet(character: str) -> str | _Range:
    for alphabet in (_DIGITS, _LOWER, _UPPER):
        if character in alphabet:
            return alphabet
    width = 0 if 0xD800 <= ord(character) < 0xE000 else len(character.encode())
    return _Range(*_WIDE[width])


def _is_hex(text: str) -> bool:
    return re.fullmatch(r"[0-9a-f]*|[0-9A-F]*", text) is not None


def _powered(number: str) -> tuple[str, str, str]:
    match = re.fullmatch(r"([0-9_.]*)([eE]?)([+-]?[0-9]*)", number)
    assert match is not None, "the scan finds nothing else"
    return match[1], match[2], match[3]
