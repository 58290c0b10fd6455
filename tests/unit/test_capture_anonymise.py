"""Anonymised values: of the same type and length, equal where they were, and nothing is left."""

import re
from datetime import datetime

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from replayer.capture.action import Action
from replayer.capture.anonymise import Anonymiser
from replayer.capture.fingerprint import Fingerprints
from tests.cpu_time import at_once

_letters = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=30)
_values = st.text(st.characters(codec="utf-8", exclude_characters="\\'\0"), max_size=60)


def _runs(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text)


@settings(max_examples=300, deadline=None)
@given(_values)
def test_length_and_signs_are_kept_and_equal_stays_equal(value: str) -> None:
    """So are the bytes of each character, and the same holds in a text and in a parameter."""
    made = Anonymiser()
    other = made.value(value)
    assert len(other) == len(value)
    assert len(other.encode()) == len(value.encode())
    assert made.value(value) == other
    assert re.sub(r"[^\W_]|[^\x00-\x7f]", "x", other) == re.sub(r"[^\W_]|[^\x00-\x7f]", "x", value)
    assert made.text(f"select '{value}'") == f"select '{other}'"


@settings(max_examples=200, deadline=None)
@given(st.text("abcXYZ0123456789äé漢", min_size=6, max_size=30), st.booleans())
def test_nothing_of_a_value_is_left(
    secret: str,
    quoted: bool,  # noqa: FBT001 - hypothesis gives it by its place
) -> None:
    """Neither in the text nor in the parameters, nor in a comment, whatever stands around it."""
    assume(any(character.isalpha() for character in secret))
    made = Anonymiser()
    text = f"select '{secret}', \"a\" /* {secret} */ from t -- {secret}"
    action = Action(
        1, "extended", 0, 5, text, "n", (f"x {secret}, {secret}" if quoted else secret,)
    )
    after = made(action)
    assert secret not in after.text
    assert after.parameters is not None
    assert secret not in str(after.parameters[0])
    assert len(after.text) == len(text)
    assert after[:4] == action[:4]
    assert after.name == "n"


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10**19), st.integers(0, 10**19))
def test_numbers_stay_numbers_that_fit_their_types(one: int, other: int) -> None:
    """As many digits, no leading zero, different ones differ, and no type is too small."""
    made = Anonymiser()
    after = made.text(f"select {one}, -{one}, '{one}'")
    (first, second, third) = re.findall(r"\d+", after)
    assert first == second == third == made.value(str(one))
    assert len(first) == len(str(one))
    assert str(int(first)) == first
    for bits in (7, 8, 15, 16, 31, 32, 63, 64):
        assert (one < 1 << bits) <= (int(first) < 1 << bits)
    assert (one == other) == (first == made.value(str(other)))
    if one > 0:
        assert first != str(one)


def test_no_two_values_of_a_kind_become_one_and_none_stays() -> None:
    """All of a few thousand: unique keys are unique afterwards."""
    made = Anonymiser()
    for values in (
        [str(number) for number in range(1, 5_000)],
        [f"{number:04}" for number in range(1, 5_000)],
        [f"user{number}" for number in range(3_000)],
        [f"{number:08x}-1111-4111-8111-111111111111" for number in range(2_000)],
    ):
        after = [made.value(value) for value in values]
        assert len(set(after)) == len(values)
        assert not any(map(str.__eq__, after, values))


def test_another_conversion_has_another_key() -> None:
    """What one file says tells nothing of another one."""
    assert Anonymiser().value("somebody's name") != Anonymiser().value("somebody's name")


@pytest.mark.parametrize(
    "stamp",
    ["2024-02-29", "2024-02-29 23:59:59", "2024-02-29T23:59:59.123456+02", "0001-01-01",
     "9999-12-31", "23:59", "23:59:59.5"],
)  # fmt: skip
def test_dates_and_times_stay_such(stamp: str) -> None:
    """Of the same form, and another moment."""
    after = Anonymiser().value(stamp)
    assert after != stamp
    assert re.sub(r"\d", "0", after) == re.sub(r"\d", "0", stamp)
    datetime.fromisoformat(f"2000-01-01 {after}" if after[2] == ":" else after)


def test_time_between_two_moments_is_kept() -> None:
    """All moments of a conversion move by the same time."""
    made = Anonymiser()
    one, other = (
        datetime.fromisoformat(made.value(stamp))
        for stamp in ("2024-02-28 10:00:00", "2024-03-01 12:30:00")
    )
    assert (other - one).total_seconds() == (2 * 24 + 2.5) * 3600


@pytest.mark.parametrize(
    ("value", "form"),
    [
        ("{1,22,NULL,true}", r"\{\d,\d\d,NULL,true\}"),
        ('{"name": "Anna", "ok": false, "n": 1.5e10}',
         r'\{"[a-z]{4}": "[A-Z][a-z]{3}", "[a-z]{2}": false, "[a-z]": \d\.\de10\}'),
        ("\\xdeadbeef00", r"\\x[0-9a-f]{10}"),
        ("3 days 04:05:06", r"\d days \d\d:\d\d:\d\d"),
        ("123e4567-e89b-42d3-a456-426614174000",
         r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}"),
        ("Anna.Smith@example.org", r"[A-Z][a-z]{3}\.[A-Z][a-z]{4}@[a-z]{7}\.[a-z]{3}"),
        ("%anna_%", r"%[a-z]{4}_%"),
        ("t", "t"),
        ("", ""),
        ("0", "0"),
        ("-1.50", r"-\d\.\d\d"),
        ("a\udcffb", "[a-z][\udc80-\udcff][a-z]"),
    ],
)  # fmt: skip
def test_values_keep_their_type(value: str, form: str) -> None:
    """Arrays, JSON, bytes, intervals, identifiers, addresses, patterns, truth."""
    assert re.fullmatch(form, Anonymiser().value(value))


@pytest.mark.parametrize(
    ("engine", "text", "form"),
    [
        ("postgres", "select a from t where b = 17 order by 1, 2 limit 10 offset 5",
         r"select a from t where b = \d\d order by 1, 2 limit 10 offset 5"),
        ("postgres", "select nextval('s'), 't'::regclass, x->>'key', a at time zone 'Asia/Aden'",
         r"select nextval\('s'\), 't'::regclass, x->>'key', a at time zone 'Asia/Aden'"),
        ("postgres", "select date_trunc('month', a), x::varchar(20), E'a\\nb\\x41' from t1",
         r"select date_trunc\('month', a\), x::varchar\(20\), E'[a-z]\\n[a-z]\\x[45].' from t1"),
        ("postgres", "copy t from stdin (format 'csv', null 'NA', quote 'x') where a = 'abc'",
         r"copy t from stdin \(format 'csv', null 'NA', quote 'x'\) where a = '(?!abc)[a-z]{3}'"),
        ("postgres", "set search_path = 'abc'", r"set search_path = 'abc'"),
        ("postgres", "set app.user = 'abcdef'", r"set app.user = '(?!abcdef)[a-z]{6}'"),
        ("postgres", "SET LOCAL app.user TO 'abcdef'",
         r"SET LOCAL app.user TO '(?!abcdef)[a-z]{6}'"),
        ("postgres", "set session \"app.user\" = 'abcdef'",
         r"set session \"app.user\" = '(?!abcdef)[a-z]{6}'"),
        ("postgres", "set local/**/app.user = 'abcdef'",
         r"set local/\*\*/app.user = '(?!abcdef)[a-z]{6}'"),
        ("postgres", "set app /* */ .user = 'abcdef'",
         r"set app /\* \*/ .user = '(?!abcdef)[a-z]{6}'"),
        ("postgres", "set time zone 'abcdef'", r"set time zone 'abcdef'"),
        ("postgres", "commit/**/prepared 'abcdef'", r"commit/\*\*/prepared '(?!abcdef)[a-z]{6}'"),
        ("postgres", "select /*+ abcdef, 'ghi' */ 1", r"select /\*\+ xxxxxx, 'xxx' \*/ \d"),
        ("mysql", "set statement a = 1 for select 'abcdef'",
         r"set statement a = \d for select '(?!abcdef)[a-z]{6}'"),
        ("postgres", "set local lock_timeout = '5s'", r"set local lock_timeout = '5s'"),
        ("postgres", "commit /* abcdef */", r"commit /\* xxxxxx \*/"),
        ("postgres", "select set_config('app.user', 'abcdef', true), current_setting('app.user')",
         (r"select set_config\('app.user', '(?!abcdef)[a-z]{6}', true\), "
          r"current_setting\('app.user'\)")),
        ("postgres", "commit prepared 'abcdef'", r"commit prepared '(?!abcdef)[a-z]{6}'"),
        ("postgres", "select /*+ SeqScan(abcdef) */ 1", r"select /\*\+ SeqScan\(abcdef\) \*/ \d"),
        ("mysql", "set @@session.sql_mode = 'abcdef'", r"set @@session.sql_mode = 'abcdef'"),
        ("mysql", "set @a = 'abcdef'", r"set @a = '(?!abcdef)[a-z]{6}'"),
        ("mysql", "set global x = 1, @a = 'abcdef'",
         r"set global x = \d, @a = '(?!abcdef)[a-z]{6}'"),
        ("mysql", "set password = 'abcdef'", r"set password = '(?!abcdef)[a-z]{6}'"),
        ("mysql", "insert /*!80000 into */ t values (17)",
         r"insert /\*!80000 into \*/ t values \(\d\d\)"),
        ("postgres", "alter role x password 'abcd'", r"alter role x password '(?!abcd)[a-z]{4}'"),
        ("postgres", "do $$ begin insert into t values (12345); end $$",
         r"do \$\$ begin insert into t values \((?!12345)\d{5}\); end \$\$"),
        ("postgres", "select $1, $2, $q$abcdef$q$, X'1F', B'011'",
         r"select \$1, \$2, \$q\$(?!abcdef)[a-z]{6}\$q\$, X'(?!1F)[0-9A-F]{2}', B'(?!011)[01]{3}'"),
        ("postgres", "select to_tsvector('english', 'abcdef'), to_tsquery('abcdef')",
         r"select to_tsvector\('english', '(?!abcdef)[a-z]{6}'\), to_tsquery\('(?!abc)[a-z]{6}'\)"),
        ("postgres", "select regexp_replace('abcdef', 'abcdef', '')",
         r"select regexp_replace\('(?!abcdef)[a-z]{6}', '(?!abcdef)[a-z]{6}', ''\)"),
        ("postgres", "do /* x */ language 'plpgsql' 'begin insert into t values (''abcdef''); end'",
         (r"do /\* x \*/ language 'plpgsql' "
         r"'begin insert into t values \(''(?!abcdef)[a-z]{6}''\); end'")),
        ("postgres", "create or replace function f() returns int language sql as 'select 12345'",
         r"create or replace function f\(\) returns int language sql as 'select (?!12345)\d{5}'"),
        ("postgres", "create view v as select $$abcdef$$",
         r"create view v as select \$\$(?!abcdef)[a-z]{6}\$\$"),
        ("postgres", "select a$b$c from t where y='abcdef' and z=$b$abcdef$b$",
         r"select a\$b\$c from t where y='(?!abcd)[a-z]{6}' and z=\$b\$(?!abcd)[a-z]{6}\$b\$"),
        ("mysql", "insert into t values (1) /*M!100100 , (12345,'abcdef') */",
         r"insert into t values \(\d\) /\*M!100100 , \((?!12345)\d{5},'(?!abcdef)[a-z]{6}'\) \*/"),
        ("mysql", "update t set a=12345--54321 where b=1 --\nabcdef",
         r"update t set a=(?!12345)\d{5}--(?!54321)\d{5} where b=\d --\nabcdef"),
        ("mysql", "prepare s from 'insert into t(a) values (\\'abcdef\\', \"abcdef\", ?)'",
         (r"prepare s from 'insert into t\(a\) values \(\\'(?!abcdef)[a-z]{6}\\', "
         r"\"(?!abcdef)[a-z]{6}\", \?\)'")),
        ("mysql", "start slave user='abcdef' password='abcdef'",
         r"start slave user='(?!abcdef)[a-z]{6}' password='(?!abcdef)[a-z]{6}'"),
        ("mysql", "set session wsrep_sst_auth='abcdef'",
         r"set session wsrep_sst_auth='(?!abcdef)[a-z]{6}'"),
        ("mysql", "show tables like 'abcdef'", r"show tables like 'abcdef'"),
        ("mysql", "SHOW FULL COLUMNS FROM t LIKE 'abc%'", r"SHOW FULL COLUMNS FROM t LIKE 'abc%'"),
        ("mysql", "show table status from s like 'abc'", r"show table status from s like 'abc'"),
        ("mysql", "show tables where a = 'abcdef'", r"show tables where a = '(?!abcdef)[a-z]{6}'"),
        ("mysql", "show grants for 'abcdef'", r"show grants for '(?!abcdef)[a-z]{6}'"),
        ("mysql", "show variables like 'abcdef'", r"show variables like 'abcdef'"),
        ("mysql", "select \"abcdef\", `b`, 'it\\'s', x'1f', 0x1F # abc",
         r"select \"(?!abcdef)[a-z]{6}\", `b`, '[a-z]{2}\\'[a-z]', x'[0-9a-f]{2}', 0x.. # xxx"),
    ],
)  # fmt: skip
def test_what_is_no_value_stays(engine: str, text: str, form: str) -> None:
    """Positions, limits, names, units, lengths of types, settings of the server."""
    after = Anonymiser(engine).text(text)
    assert re.fullmatch(form, after), after
    assert len(after) == len(text)


@pytest.mark.parametrize(
    "form",
    [
        "/*xx='xxxx',x='@'*/ {}",
        "/*x*/\n/* x ; x */ {}",
        "-- x'x\n{}",
        "{} /* xxxx='xx' */;",
        "{}; -- xxx",
        *("/*x*/{:x}", "{:x} /*x*/"),
    ],
)
@pytest.mark.parametrize(
    ("engine", "text"),
    [
        ("postgres", "SET search_path TO 'abc_d'"),
        ("postgres", "set statement_timeout = '5s'"),
        ("postgres", "SET SESSION default_transaction_isolation = 'serializable'"),
        ("postgres", "set local lock_timeout to 5000"),
        ("postgres", "copy t from stdin with (format 'csv', null 'NA')"),
        ("mysql", "SET SESSION sql_mode='STRICT_TRANS_TABLES'"),
        ("mysql", "set net_write_timeout = 600000"),
        ("mysql", "/*!40101 SET NAMES 'utf8mb4' */"),
        ("mysql", "show tables like 'abcdef'"),
    ],
)
def test_settings_stay_whatever_comments_tools_add(engine: str, text: str, form: str) -> None:
    """Before them, after them and between their words."""
    commented = form.replace("{:x}", text.replace(" ", " /*x'x@*/ ")).replace("{}", text)

    assert Anonymiser(engine).text(commented) == commented


@pytest.mark.parametrize("comment", ["", "/*x*/ ", "-- x\n", "/*!40101 set a = 1 */ "])
@pytest.mark.parametrize(
    ("engine", "text"),
    [
        ("postgres", "set app.user = 'abcdef'"),
        ("postgres", "set a = 1 /*; '*/; insert into t values ('abcdef')"),
        ("mysql", "set @a = 'abcdef'"),
        ("mysql", "/*!40101 set @a = 'abcdef' */"),
        ("mysql", "/*! set a = 1 */ insert into t values ('abcdef') /* x */"),
        ("mysql", "set a = 1 # x\n; insert into t values ('abcdef')"),
    ],
)
def test_data_is_replaced_whatever_comments_tools_add(engine: str, text: str, comment: str) -> None:
    """Also where a setting is in the comment, or next to it."""
    assert "abcdef" not in Anonymiser(engine).text(comment + text)


@settings(max_examples=200, deadline=None)
@given(_values, st.integers(0, 10**6), st.sampled_from(["postgres", "mysql"]))
def test_a_statement_keeps_its_fingerprint(value: str, number: int, engine: str) -> None:
    """Anonymised or not, it is the same work."""
    text = f"update t set a = '{value}', b = {number} where c in ({number}, 5) and d = '{number}'"
    known = Fingerprints(engine)
    after = Anonymiser(engine).text(text)
    assert known.statement(after).fingerprint == known.statement(text).fingerprint


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=80), st.sampled_from(["postgres", "mysql"]))
@example("0_ 1_000_000 1__2_ 1_e5 1.5_", "postgres")
def test_any_text_can_be_anonymised(text: str, engine: str) -> None:
    """Whatever it is; its length stays."""
    made = Anonymiser(engine)
    assert len(made.text(text)) == len(text)
    assert len(made.value(text)) == len(text)


def test_comments_of_postgresql_are_hidden_to_their_end() -> None:
    """They may be in each other, and /*! begins one like any other; any of them takes no time."""
    comments = ("/*! alice */", "/* a /* b */ alice */", "/* /* */ alice", "/* " * 20 + "*/ alice")
    made = Anonymiser()
    hidden = [made.text(f"select 5 {comment}") for comment in comments]
    assert not any("alice" in text for text in hidden)
    assert made.text("select /*/**/*/ alice") == "select /*/**/*/ alice"
    assert "alice" in Anonymiser("mysql").text("select /*! alice */")

    with at_once("comments"):
        for text in ("/* a " * 100_000, "/*" + "*" * 500_000, "/*" * 7 + " x*/ " * 100_000):
            made.text(text)


def test_a_copy_of_many_options_takes_no_time() -> None:
    """Each option was looked for from the beginning of its text: 20 s for 100 kB."""
    options = "NULL 'a', " * 10_000

    with at_once("options"):
        hidden = Anonymiser().text(f"COPY t FROM STDIN ({options}NULL 'b') WHERE v = 'secret'")

    assert options in hidden
    assert "secret" not in hidden


@pytest.mark.parametrize("engine", ["postgres", "mysql"])
@pytest.mark.parametrize(
    "text",
    [
        r"insert into t values (8,'C:\'), (90,'Hidden, Secret')",
        r"insert into t values ('O\'Hidden','Secret')",
        r"insert into t values ('Hidden\', '; Secret -- \')",
        r"select 'Hidden\' , 'x', Secret, '",
        r"select 'Hidden\'' , ' Secret ' , 'x\'' /* Hidden */",
    ],
)
def test_nothing_of_a_string_is_left_however_the_session_reads_its_quotes(
    engine: str, text: str
) -> None:
    """Neither in the text nor in the fingerprint, with or without escapes by backslashes."""
    form = Fingerprints(engine).statement(text).fingerprint.text
    hidden = Anonymiser(engine).text(text)
    for kept in (form.lower(), hidden.lower()):
        assert "hidden" not in kept
        assert "secret" not in kept
    assert len(hidden) == len(text)


def test_names_stay_in_the_double_quotes_of_a_session_with_ansi_quotes() -> None:
    """From its SET of the mode on, and in no other session; else they may be strings."""
    made = Anonymiser("mysql")

    def after(text: str, session: int = 1) -> str:
        return made(Action(session, "simple", 0, text=text)).text

    text = "insert into \"tab\" values ('abcdef')"
    assert "tab" not in after(text)
    for mode in ("'ANSI_QUOTES'", "concat(@@sql_mode, ',ansi')", "concat(@@sql_mode, ',x')"):
        after(f"/*!40101 set session sql_mode = {mode} */")
        assert 'into "tab" values' in after(text)
        assert "abcdef" not in after(text)
    assert "tab" not in after(text, session=2)
    for mode in ("''", "@a", "default", "replace(@@sql_mode, 'ANSI', '')"):
        after("/* tool */ set @@sql_mode=ansi")
        assert "tab" in after(text)
        after(f"set sql_mode={mode}")
        assert "tab" not in after(text)
    after("set global sql_mode='ANSI'")
    after("insert into t values (\"set sql_mode='ansi'\")")
    assert "tab" not in after(text)
    after("set sql_mode='ANSI'")
    made(Action(1, "disconnect", 0))
    assert "tab" not in after(text)


def test_a_text_of_many_quotes_takes_no_time() -> None:
    """Whatever is before them."""
    for text in (
        "'\\'" + "''a" * 20_000,
        "'" + "\\'" * 100_000,
        "'\\'" + "/*!1 '*/" * 20_000,
        "create function f() as " + "as ''" * 20_000,
        "set sql_mode=" + " a" * 100_000,
    ):
        for engine in ("postgres", "mysql"):
            with at_once(text[:30]):
                Anonymiser(engine)(Action(1, "simple", 0, text=text))
