"""What a statement is: values do not matter, none is kept, kinds and tables are right."""

import gc
import string
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from replayer.capture import fingerprint, readings
from replayer.capture.action import Fingerprint
from replayer.capture.fingerprint import Fingerprints, cheap_form
from tests.cpu_time import at_once


def _of(text: str, engine: str = "postgres", query_id: int = 0) -> Fingerprint:
    return Fingerprints(engine).statement(text, query_id).fingerprint


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("select * from t where a = 5", "SELECT *  FROM t\nWHERE a=-17 -- why"),
        ("select 'a', E'b\\'c', $$d$$, $x$ $$ $x$", "select '', 'it''s', 'x', U&'y'"),
        ("select a from t where b in (1, 2)", "select a from t where b in (7)"),
        ("select a from t where b in ($1, $2, $3)", "select a from t where b in ('x','y')"),
        ("insert into t values (1, 'a'), (2, 'b')", "insert into t values (3, 'c')"),
        ("insert into t values (1, now()), (2, now())", "insert into t values (3, now())"),
        ("select $1", "select 1.5e-7"),
        ("select /* trace 17 */ 0x1F", "select 5 /* trace 18 */;"),
        ("select a from t limit 10", "select a from t limit 20"),
        (
            r"select a from t where b = 'C:\'' and c = 'x'",
            "select a from t where b = '' and c = ''",
        ),
    ],
)
def test_statements_that_differ_in_values_have_one_fingerprint(one: str, other: str) -> None:
    """Also in white space, comments, the case of words, and the length of lists."""
    assert _of(one) == _of(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("select a from t1", "select a from t2"),
        ('select a from "t-1"', 'select a from "t-2"'),
        ("select a from t where b is null", "select a from t where b = 5"),
        ("select a from t", "select a from t for update"),
        ("select min(1, 2)", "select min(1, 2, 3)"),
        ("begin", "commit"),
    ],
)
def test_statements_of_another_form_have_another(one: str, other: str) -> None:
    """Names of tables, locks and NULL are no values."""
    assert _of(one).number != _of(other).number


def test_two_minuses_of_mysql_are_a_comment_only_before_a_blank() -> None:
    """Else the number after them is negative, and the statement goes on."""
    assert "WHERE" in _of("update t set a = 9--1 where b = 4", "mysql").text
    assert _of("select a--1", "mysql") != _of("select a -- 1", "mysql")
    assert _of("select a --", "mysql") == _of("select a --\t, b\n", "mysql")
    assert _of("select a--1") == _of("select a")


def test_a_dollar_after_a_letter_belongs_to_its_name() -> None:
    """So no string begins there."""
    form = cheap_form("select a$b$c, $b$x$b$ from t where y = 'z$b$'", "postgres")
    assert form == "select a$b$c, '?' from t where y = '?'"


def test_quotes_are_those_of_the_engine() -> None:
    """A double-quoted word is a name in PostgreSQL and a string in MySQL."""
    assert '"b"' in _of('select a from t where "b" = 5').text
    assert _of('select a from t where b = "x"', "mysql") == _of(
        "select a from t where b = 'it\\'s -- #'", "mysql"
    )
    assert _of("insert into t values (x'ff', _binary 'b', n'c', @d)", "mysql") == _of(
        "insert into t values ('a', 'b', 'c', @d)", "mysql"
    )
    assert "@d" in _of("set @d = 5", "mysql").text
    assert "`a b`" in cheap_form("select `a b` from t # x", "mysql")


# fmt: off
_STATEMENTS = [
    ("select 1", "select", (), ""),
    ("SELECT pg_sleep(1), nextval('s'), count(*) from t", "select", (), ""),
    ("select my_own(1) from t", "select", None, ""),
    ("select a from public.t join u using (a) for update", "select", ("t", "u"), ""),
    ("with x as (select 1) select * from x", "select", (), ""),
    ("with x as (delete from old returning *) insert into new select * from x", "insert",
     ("new", "old"), ""),
    ("with x as (select 1) update t set a = 1 from x", "update", ("t",), ""),
    ("insert into s.t (a) values (1) on conflict do nothing", "insert", ("t",), ""),
    ('update only "T" set a = f(1)', "update", ("t",), ""),
    ("delete from t using u where t.a = u.a", "delete", ("t",), ""),
    ("copy s.t (a) from stdin (format csv) where a > 1", "copy", ("t",), ""),
    ("COPY BINARY t FROM STDIN", "copy", ("t",), ""),
    ("copy binary from stdin", "copy", ("binary",), ""),
    ("copy t to stdout", "copy", (), ""),
    ("copy (select a from t) to stdout", "copy", (), ""),
    ("COPY (DELETE FROM t RETURNING *) TO STDOUT", "copy", ("t",), ""),
    ("merge into t using u on t.a = u.a when matched then delete", "merge", ("t",), ""),
    ("BEGIN ISOLATION LEVEL SERIALIZABLE", "begin", (), "begin"),
    ("start transaction read only", "begin", (), "begin"),
    ("START_REPLICATION SLOT x", "other", (), ""),
    ("END", "commit", (), "end"),
    ("abort", "rollback", (), "end"),
    ("rollback to a", "rollback", (), ""),
    ("savepoint a", "other", (), ""),
    ("set search_path to a, b", "set", (), ""),
    ("truncate t, u", "ddl", ("t", "u"), ""),
    ("alter table t add b int default 5", "ddl", ("t",), ""),
    ("create index i on t (a)", "ddl", ("t",), ""),
    ("create function f() returns int language sql as 'select 1'", "ddl", None, ""),
    ("copy t from stdin", "copy", ("t",), ""),
    ("copy t to stdout", "copy", (), ""),
    ("copy (select 1) to stdout", "copy", (), ""),
    ("call p(1)", "call", None, ""),
    ("do $$ begin perform 1; end $$", "call", None, ""),
    ("lock table t", "other", None, ""),
    ("vacuum t", "other", (), ""),
    ("update t set a = 1; delete from u", "update", ("t", "u"), ""),
    ("update t set ???", "update", ("t",), ""),
    ("", "other", (), ""),
]
_MYSQL = [
    ("replace into `s`.`t` values (1)", "insert", ("t",), ""),
    ('insert ignore into t values ("x")', "insert", ("t",), ""),
    ("update t join u on t.a = u.a set t.b = 5", "update", ("t",), ""),
    ("update t, u set t.b = 5, u.b = 6 where t.a = u.a", "update", ("t", "u"), ""),
    ("update t as x join s.u as y on x.a = y.a set y.b = 5", "update", ("u",), ""),
    ("update t join u using (a) set b = 5, t.c = 6", "update", ("t", "u"), ""),
    ("update t join u using (a) join v using (a) set u.b = v.b", "update", ("u",), ""),
    ("delete t from t join u on t.a = u.a", "delete", ("t",), ""),
    ("select a from t for share", "select", ("t",), ""),
    ("load data infile 'x' into table t", "copy", ("t",), ""),
    ("use s", "set", (), ""),
    ("call p()", "call", None, ""),
    ("BEGIN", "begin", (), "restart"),
    ("start slave", "begin", (), ""),
    ("set autocommit=0", "set", (), "manual"),
    ("SET @@session.autocommit = ON;", "set", (), "automatic"),
    ("SET @@local.autocommit = 1", "set", (), "automatic"),
    ("SET autocommit=1 /* a comment */", "set", (), "automatic"),
    ("/* mysql-connector */ SET autocommit = /* on */ 1", "set", (), "automatic"),
    ("set names utf8, autocommit=1", "set", (), "automatic"),
    ("set autocommit=0, names utf8", "set", (), "manual"),
    ("set global autocommit=0", "set", (), ""),
    ("insert into t values (1); set autocommit=1", "insert", ("t",), "automatic"),
    ("set autocommit=0; set autocommit=1", "set", (), "automatic"),
    ("set @a='autocommit=1', autocommit=0", "set", (), "manual"),
    ("set @a=0, autocommit=1", "set", (), "automatic"),
    ("lock tables t write, u read", "other", None, "end"),
    ("unlock tables", "other", (), ""),
    ("analyze local table t", "other", (), "end"),
    ("flush tables", "other", (), "end"),
    ("drop table t", "ddl", ("t",), "end"),
    ("create temporary table t (a int)", "ddl", ("t",), ""),
    ("drop temporary table if exists t", "ddl", ("t",), ""),
    ("create or replace temporary table t (a int)", "ddl", ("t",), ""),
    ("create table temporary (a int)", "ddl", ("temporary",), "end"),
]
# fmt: on


@pytest.mark.parametrize(
    ("engine", "text", "kind", "writes", "bounds"),
    [("postgres", *each) for each in _STATEMENTS] + [("mysql", *each) for each in _MYSQL],
)
def test_what_a_statement_does(
    engine: str, text: str, kind: str, writes: tuple[str, ...] | None, bounds: str
) -> None:
    """Its kind, the tables that it changes, and what it means for the transaction."""
    form = _of(text, engine)
    assert (form.kind, form.writes, form.bounds) == (kind, writes, bounds)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('SAVEPOINT "s140123_x1"', "savepoint s2"),
        ("RELEASE SAVEPOINT a1", 'release savepoint "b 2"'),
        ("ROLLBACK TO SAVEPOINT a1", "rollback to savepoint b"),
        (
            'DECLARE "_django_curs_1_7" NO SCROLL CURSOR FOR SELECT a FROM t WHERE b = 5',
            "declare c2 no scroll cursor for select a from t where b = 6",
        ),
        ('FETCH 2000 FROM "_django_curs_1_7"', "fetch 10 from c"),
        ("MOVE FORWARD ALL IN c1", "move forward all in c2"),
        ("FETCH NEXT c1", "fetch next c2"),
        ("CLOSE c1", 'CLOSE "c2"'),
        ("DEALLOCATE pdo_stmt_00000001", "DEALLOCATE pdo_stmt_00000002"),
        ("SAVEPOINT _E_1;select a from t;release _E_1", "SAVEPOINT _E_2;select a from t;release b"),
    ],
)
@pytest.mark.parametrize("engine", ["postgres", "mysql"])
def test_a_name_that_a_client_makes_up_is_no_form(engine: str, one: str, other: str) -> None:
    """Names of savepoints, cursors and prepared statements do not fill the memory of forms."""
    forms = [_of(text.lower(), engine) for text in (one, other)]

    assert forms[0] == forms[1]
    assert forms[0] == _of(cheap_form(forms[0].text.replace("?", "'?'"), engine), engine)
    assert not any(name in forms[0].text for name in ("curs_", "c1", "a1", "pdo", "s140", "_e_"))


def test_all_and_the_end_of_a_transaction_are_no_names() -> None:
    """CLOSE ALL closes every cursor, and a ROLLBACK without a savepoint ends the transaction."""
    for one, other in [
        ("close all", "close a"), ("deallocate all", "deallocate a"), ("rollback", "rollback to a"),
        ("fetch all from c", "fetch c"), ("rollback to a", "rollback prepared 'a'"),
    ]:  # fmt: skip
        assert _of(one).number != _of(other).number


_READ_IN_BRACKETS = """
select count(*) filter (where a), sum(b) over (partition by c), pg_catalog.lower(d), "left"(i, 1),
 cast(e as numeric(3, 2)), f::varchar(10), coalesce(g, (h)), $1::timestamp(3), array(select 1),
 row(1, 2), extract(day from a), interval '1 day'
from t as u(a, b) join lateral unnest($1) with ordinality v(a, b) using (a)
where (c, d) in ((1, 2)) and e = any($2) or not (exists (select 1))
group by grouping sets ((a), (b)) limit (1)
"""
_UNPARSED = [
    ("with x as (insert into a(v) values (1, now()) returning id) select id from x", ("a",)),
    ("with x as (update only s.accounts set v = 1 returning id) select 1", ("accounts",)),
    ("with x as (delete from a), y as (merge into b using x on c when matched then delete) table x",
     ("a", "b")),
    ("with x as (insert into a(v) values (1) on conflict (v) do update set v = 2) select v from x",
     ("a",)),
    ("select do_transfer($1, $2)", None),
    ('select app."doTransfer" ($1)', None),
    ("with x(a, b) as (select f(1), 2) select a from x", None),
    ("explain (analyze, buffers) update t set a = 1", ("t",)),
    ("explain analyze select f(1)", None),
    ("explain update t set a = 1", ()),
    ("declare c cursor for select f(1)", None),
    ("select a into b from t", None),
    ("with x(a, b) as (select 1, 2), y(c) as not materialized (select 3) select a, c from x", ()),
    (_READ_IN_BRACKETS, ()),
    ("select * from json_to_recordset('x') as x(a int), generate_series(1, 2) y(b)", ()),
]  # fmt: skip


@pytest.mark.parametrize(("text", "writes"), _UNPARSED)
def test_what_a_select_changes_is_known_without_the_parser(
    text: str, writes: tuple[str, ...] | None
) -> None:
    """A text that is too long for it, or that comes too late, is not taken for a read."""
    form = fingerprint.describe(cheap_form(text, "postgres"), "postgres", parsed=False)

    assert form.writes == writes
    assert form.kind == ("other" if "explain" in text else "select")


def test_what_a_statement_changes_is_the_same_with_the_parser_and_without_it() -> None:
    """Or it is not known."""
    for text in [*(one[0] for one in _STATEMENTS), *(one[0] for one in _UNPARSED)]:
        cheap = cheap_form(text, "postgres")
        parsed, worded = (
            fingerprint.describe(cheap, "postgres", parsed=way) for way in (True, False)
        )
        assert worded.kind == parsed.kind
        if parsed.kind in {"select", "other"} and worded.writes is not None:
            assert worded.writes == parsed.writes


def test_a_statement_that_is_too_long_for_the_parser_is_no_read() -> None:
    """Its WITH is searched for what it changes."""
    rows = ", ".join(f"(now(), ${number})" for number in range(2_000))
    text = f"with x as (insert into a(v, w) values {rows} returning id) select id from x"

    form = _of(text)

    assert len(cheap_form(text, "postgres")) > fingerprint._PARSED
    assert (form.kind, form.writes) == ("select", ("a",))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("with x as (insert into a(v) select 1 returning v) update t set a = 1", "update"),
        ("with x as (select (a) from t) delete from t", "delete"),
        ("with recursive x as (select 1 union (select 2)) select * from x", "select"),
    ],
)
def test_the_kind_of_a_statement_with_with_is_that_of_its_main_part(text: str, kind: str) -> None:
    """Also without the parser."""
    for parsed in (True, False):
        assert fingerprint.describe(text, "postgres", parsed=parsed).kind == kind


def test_the_case_of_letters_is_no_form_without_the_parser() -> None:
    """But that of a name in quotes is, and that of a table of MySQL may be."""

    def number(text: str, engine: str = "postgres") -> int:
        return fingerprint.describe(cheap_form(text, engine), engine, parsed=False).number

    assert number("SELECT A FROM t") == number("select a from T")
    assert number('select "A" from t') != number('select "a" from t')
    assert number("select a from `T`", "mysql") != number("select a from `t`", "mysql")


@pytest.mark.parametrize(
    ("text", "kind", "writes"),
    [
        (r"select 'x\'as a into zq7 from t where b='y'", "select", None),
        (
            r"with d as (select 'x\'as a), e as (delete from t returning 'y') select 1",
            "select",
            None,
        ),
        (r"with d as (select 'x\'as a) delete from zq7 where b='y'", "delete", None),
        (r"update t set a = 'x\'where b='y'", "update", ("t",)),
        (r"select 'x\'as a from zq7 where b='y'", "select", ()),
    ],
)
def test_a_statement_keeps_what_it_does_where_its_strings_are_not_certain(
    text: str, kind: str, writes: tuple[str, ...] | None
) -> None:
    """A table that may be a value is not known, and is no part of the fingerprint."""
    form = _of(text)
    assert (form.kind, form.writes) == (kind, writes)
    assert "zq7" not in form.text
    assert form.number != _of("select 'x'").number


def test_a_text_ends_its_transaction_where_its_strings_are_not_certain() -> None:
    """By the usual way to read them."""
    assert fingerprint.ends_transaction(r"select 'x\'as a; commit; select 'y'", "postgres")
    assert "u" in fingerprint.tables_of(r"select 'x\'as a from u where b='y'", "postgres")


def test_the_servers_query_id_is_the_number_where_it_is_logged() -> None:
    """It is that of one of several statements in one text, and of none there."""
    known = Fingerprints()
    assert known.statement("select 1", 17).fingerprint.number == 17
    assert known.statement("select 2", 17).fingerprint.text == "SELECT ?"
    assert known.statement("select 2", 18).fingerprint.number == 18
    assert known.statement("select 1; select 2", 17).fingerprint.number != 17
    assert known.statement("select 3").fingerprint.number == 17


@pytest.mark.parametrize(
    "text",
    ["BEGIN /*request='{}'*/", "/*{}*/ commit", "rollback -- {}", "set a = '{}'", "savepoint s{}",
     "declare c{} cursor for select 1", "create table t (a int) /*{}*/", "call p({})"],
)  # fmt: skip
def test_the_servers_query_id_of_a_utility_statement_is_not_its_form(text: str) -> None:
    """In PostgreSQL 14 and 15 it is a hash of the text, with its comments and its values."""
    known = Fingerprints()
    forms = {
        known.statement(text.format(number), number + 100).fingerprint.number
        for number in [*range(20), *range(20)]
    }

    assert forms == {_of(text.format(7)).number}
    assert not known._ids


_secret = st.text(string.ascii_letters + string.digits + " -/*$;\"'\\?", min_size=3, max_size=12)


@settings(max_examples=300, deadline=None)
@given(_secret, st.sampled_from(["postgres", "mysql"]), st.booleans())
@example("a'", "postgres", True)
@example("\\'b", "mysql", True)
def test_no_value_is_in_a_normalised_text(
    secret: str,
    engine: str,
    cut: bool,  # noqa: FBT001 - hypothesis gives it by its place
) -> None:
    """Whatever a string holds, and where a text was cut in the middle of it."""
    mark = "Zq7" + secret
    doubled = mark.replace("'", "''")
    if engine == "mysql":
        doubled = doubled.replace("\\", "\\\\")
    text = f"update t set a = '{doubled}' where b = 98765432 and c = '{doubled}'"
    text = text[: 20 + len(doubled) // 2] if cut else text
    form = _of(text, engine)
    assert "Zq7" not in form.text
    assert "98765432" not in form.text


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60), st.sampled_from(["postgres", "mysql"]))
def test_any_text_has_a_fingerprint(text: str, engine: str) -> None:
    """And the same one each time."""
    assert _of(text, engine) == _of(text, engine)


def test_memory_is_bounded_and_what_comes_too_late_is_still_told_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Beyond the forms that are remembered, the cheap form is the text."""
    monkeypatch.setattr(fingerprint, "_MOST_FORMS", 10)
    monkeypatch.setattr(fingerprint, "_MOST_TEXTS", 5)
    known = Fingerprints()
    forms = [known.statement(f"select a from t{number} where b = {number}") for number in range(50)]
    assert len({each.fingerprint.number for each in forms}) == 50
    assert len(known._forms) == 10
    assert len(known._texts) <= 5
    assert forms[40].fingerprint.text == "select a from t40 where b = ?"


def test_trees_are_forgotten_where_garbage_is_not_collected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in a conversion, which switches the search for circles off."""
    monkeypatch.setattr(fingerprint, "_COLLECTED", 50)
    known = Fingerprints()
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        for number in range(2 * fingerprint._COLLECTED):
            known.statement(f"select a, b from t{number} join u on t.a = u.a where c in (1, 2)")
        assert len(gc.get_objects()) - before < 10 * len(known._forms)
    finally:
        gc.enable()


def test_quotes_between_dollars_take_no_longer_than_the_text() -> None:
    """Where other quotes are not certain, and the dollars do not end or a word follows them."""
    tags = [f"$a{number}$" for number in range(8_000)]
    for end in ([], [f"{tag}x" for tag in reversed(tags)]):
        with at_once(end):
            readings.sure(" ".join(["select '\\' ,", *tags, *end]), "postgres")


@pytest.mark.parametrize(
    ("rest", "certain"),
    [
        ("$a$it's$a$", True),
        ("$$ $ $$, 'a'", True),
        ("$a$ $b$", False),
        ("$a$b$a$as c", False),
        ("$a$b$a$as c, $$d$$", False),
        ("$$$", False),
    ],
)
def test_a_text_is_certain_only_if_its_strings_end(rest: str, *, certain: bool) -> None:
    """Also those between dollars."""
    assert (readings.sure(f"select '\\', {rest}", "postgres") is not None) is certain


def test_a_long_text_costs_no_more_than_its_length() -> None:
    """A megabyte of quotes, brackets or digits is done in a moment."""
    deep = ("(" * 19_000, "not " * 4_000, "a and (" * 2_000, "case when " * 1_800)
    for text in (
        *deep,
        "'" * 1_000_001,
        "(" * 1_000_000,
        "$" * 1_000_000,
        "1," * 500_000,
        "/*" * 500_000,
    ):
        for engine in ("postgres", "mysql"):
            begun = time.process_time()
            _of(f"select {text}", engine)
            assert time.process_time() - begun < 5
