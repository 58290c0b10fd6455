"""A replay sends no statement that acts on more than the database it may change."""

from collections.abc import Callable, Mapping, Sequence

import pytest

from replayer.capture.action import Action, Fingerprint, LoggedStatement
from replayer.steps.replay import user_variables
from replayer.steps.replay.send_test import SendTest
from replayer.steps.replay.server_wide import SystemSessions, acts_beyond_database
from tests.cpu_time import at_once

BEYOND = {
    "postgres": (
        "SELECT pg_terminate_backend(4711)",
        "select 1; SELECT pg_cancel_backend (7)",
        "WITH a AS (SELECT pid FROM pg_stat_activity) SELECT pg_terminate_backend(pid) FROM a",
        "explain analyze select pg_reload_conf()",
        "select pg_cancel_backend(pg_backend_pid()), pg_cancel_backend(5)",
        "SELECT pg_catalog.pg_stat_reset()",
        "select pg_stat_reset_shared('bgwriter')",
        "select pg_drop_replication_slot('a')",
        "DO $$ BEGIN PERFORM pg_promote(); END $$",
        "ALTER  SYSTEM SET work_mem = '1GB'",
        "/* tool */ drop\ndatabase shop_old",
        "-- tool\nALTER USER ann PASSWORD 'x'",
        "begin; create role bob superuser",
        "COPY t TO PROGRAM 'cat'",
        "copy (select 1) to '/tmp/x'",
        "select lo_export(1, '/tmp/x')",
        'SELECT pg_catalog."pg_terminate_backend" (5)',
        "/* a /* b */ c */ drop database shop_old",
        "/* a */ select /* b */ pg_promote /* c */ ()",
        "-- tool\nDO $$ BEGIN PERFORM pg_cancel_backend(5); END $$",
        "DO $$ BEGIN IF true THEN\nCREATE  ROLE ann; END IF; END $$",
        "select * from dblink('host=other', 'select 1') as t(a int)",
        "ALTER DATABASE other RENAME TO x",
        "alter database other set work_mem = '1GB'",
        "GRANT admin TO app",
        'select 1; revoke "an ""on"" admin", b from app',
        "REVOKE ADMIN OPTION FOR admin FROM app",
        "GRANT ALL PRIVILEGES ON DATABASE other TO app",
        "DO $$ BEGIN GRANT admin TO app; END $$",
        "DROP OWNED BY app",
        "REASSIGN OWNED BY a TO b",
        "CREATE DATABASE other",
        "COMMENT ON DATABASE other IS 'x'",
        "comment on role ann is null",
        "SECURITY LABEL FOR a ON ROLE ann IS 'x'",
        # With standard_conforming_strings off
        "select 'a\\'', pg_terminate_backend(5), 'b'",
        "select 'a\\''; drop database b; select 'c'",
        "select a$b$ from t; drop database b; select 'c$b$'",
    ),
    "mysql": (
        "KILL 5",
        "kill query 5",
        "/*!50000 kill 5 */",
        "# tool\nshutdown",
        "SET GLOBAL a = 1",
        "set sql_mode = '', @@global.a = 1",
        "set persist a = 1",
        "SET PASSWORD = 'x'",
        "flush tables with read lock",
        "drop schema shop_old",
        "GRANT ALL ON shop.* TO 'ann'@'%'",
        "stop replica",
        "select a into outfile '/tmp/x' from t",
        "call mysql.rds_kill(5)",
        "/*M!100401 kill 5 */",
        "SET STATEMENT max_statement_time=5 FOR kill 5",
        "prepare s from 'kill 5'",
        "EXECUTE IMMEDIATE 'SET GLOBAL a = 1';",
        "select 1; kill 5",
        "/* tool */ prepare s from 'kill 5'",
        "select 1; execute immediate 'kill 5'",
        "execute immediate \"execute immediate 'kill 5'\"",
        "execute immediate 'execute immediate ''kill 5'''",
        "execute immediate 'kill\\n5'",
        "execute immediate 'ki' 'll 5'",
        "begin not atomic kill 5; end",
        "if @a = 1 then set global b = 1; end if",
        "a: while 1 do flush logs; end while",
        "begin not atomic execute immediate 'kill 5'; end",
        "ALTER DATABASE other CHARACTER SET utf8mb4",
        "alter schema `other` read only = 1",
        "ALTER INSTANCE DISABLE INNODB REDO_LOG",
        "DELETE FROM mysql.user WHERE user = 'ann'",
        "UPDATE `mysql` . `global_priv` SET priv = '{}'",
        "delete u from shop.ann a join mysql.user u using (user)",
        "select 1; insert into mysql.user values (1)",
        "begin not atomic update mysql.user set a = 1; end",
        "CREATE DATABASE other",
        "CREATE OR REPLACE DATABASE other",
        "create or replace user ann",
        "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (HOST 'x')",
        "drop undo tablespace a",
        "CREATE AGGREGATE FUNCTION f RETURNS STRING SONAME 'f.so'",
        "LOCK INSTANCE FOR BACKUP",
        "backup stage start",
        "set resource group a for 5",
        "STOP ALL SLAVES",
        "lock tables mysql.user write",
        "update performance_schema.setup_consumers set enabled = 'NO'",
        "update `sys`.`sys_config` set value = 1",
        "select 5--1; drop database b",
        "select 5--1 into outfile '/tmp/x'",
        # With NO_BACKSLASH_ESCAPES, and with ANSI_QUOTES
        "select 'C:\\' , 'x' into outfile '/tmp/x'",
        "select 'C:\\'; drop database b; select 'x'",
        'select 1 as "a\\"; drop database b; select 1 as "c"',
        # Comments for servers, or to be skipped by them
        "/*!999999 x */ drop database b",
        "/*!999999 ' */ kill 5 -- '",
        "/*!999999 a /* b */ c */ kill 5",
        "/*!50000 drop */ /*!999999 x */ database b",
        "/*m!999999 x */ kill 5",
        "select 2*/*!50000 3 */ 4; kill 5",
        "/*!1 a*//*!2 b*//*!3 c*//*!4 d*//*!5 e*/; /*!50000 kill*/ /*!50001 5 */",
        "/*!50000 a *//*!50001 b*//*!50002 c*//*!50003 d*//*!50004 e*/; /*M!100401 kill*/ 5",
        "/*!80000 ' */ /*M!100401 kill 5; */ -- '",
        "/*!100001 ' *//*!20000 ; kill 5 -- '*/",
        "".join(f"/*!{number} a */" for number in range(10_000, 99_999)),
        # A text that is not known
        "prepare s from @a",
        "prepare `a b` from 'kill 5'",
        "execute immediate concat('dr', 'op database b')",
        "execute immediate @a using 5",
        "begin not atomic execute immediate @a; end",
        "execute immediate 'select ''a\\''' ; kill 5; select 'b'",
    ),
}
WITHIN = {
    "postgres": (
        "SELECT 'pg_terminate_backend(5)'",
        "insert into t values ('a; drop database b')",
        "select pg_sleep(1), pg_backend_pid()",
        "SELECT pg_terminate_backend( pg_backend_pid() )",
        "select a from t -- ; alter system",
        "select drop_database, pg_stat_reset from t",
        "COPY t FROM STDIN",
        "copy t to stdout",
        "create user mapping for ann server s",
        "/* a /* drop database b */ c */ select 1",
        "create table role (a int)",
        "alter table t add b int; drop table u",
        "DO $$ BEGIN PERFORM 1; END $$",
        "GRANT SELECT, INSERT ON t TO app",
        "grant select (a), update on database_list to app",
        "REVOKE GRANT OPTION FOR ALL PRIVILEGES ON ALL TABLES IN SCHEMA a FROM app",
        "COMMENT ON COLUMN database.role IS 'x'",
        "comment on table t is 'comment on database a is null'",
    ),
    "mysql": (
        "SET autocommit = 0",
        "set @a = 'global'",
        "set session sql_mode = 'global'",
        "insert into kills values ('; kill 5')",
        "create table flush_log (a int)",
        "select kill, flush from t",
        "KILL CONNECTION CONNECTION_ID()",
        "start transaction",
        "call shop.buy(5)",
        "set statement max_statement_time=5 for select 'kill 5' from t",
        "prepare s from 'select a from t where b = ?'",
        "execute s using @a",
        "drop table shop.database_list",
        "replace into t values (1)",
        "begin",
        "insert into t values ('prepare s from ''kill 5''')",
        "begin not atomic update t set kill_it = 5; end",
        "if @a = 1 then select 'kill 5'; end if",
        "/* tool */ execute immediate 'select ''kill 5'''",
        "alter database character set utf8mb4",
        "ALTER DATABASE DEFAULT COLLATE utf8mb4_bin",
        "insert into t values ('update mysql.user')",
        "update mysql_version set a = 1 where shop.mysql.b = 2",
        "select name from mysql.time_zone_name",
        "select 1 from mysql.user; delete from t",
        "create function f() returns int return 1",
        "create table server (database_id int)",
        "lock tables t write, u read",
        "select * from performance_schema.threads",
        "unlock tables",
        "select 5 -- 1; drop database b",
        "select 2*/* ; kill 5 */ 3",
        "insert into t values ('it\\'s, to kill 5; x', 'b')",
        "/*!40101 SET @a = @@b */; /*!50000 select */ 1",
        "".join(f"/*!{number} SET @a = @@b */;" for number in range(40_000, 40_100)),
        "create procedure p() begin prepare s from @a; execute s; end",
        "insert into t values ('/*!1 a*//*!2 b*//*!3 c*//*!4 d*//*!5 e*/; c')",
    ),
}


def _pairs(texts: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    return [(dialect, text) for dialect, some in texts.items() for text in some]


@pytest.mark.parametrize(("dialect", "text"), _pairs(BEYOND))
def test_what_acts_beyond_the_database_is_known(dialect: str, text: str) -> None:
    """However it is written."""
    assert acts_beyond_database(text, dialect)


@pytest.mark.parametrize(("dialect", "text"), _pairs(WITHIN))
def test_what_acts_within_the_database_is_replayed(dialect: str, text: str) -> None:
    """Names, strings and comments do not make it another statement."""
    assert not acts_beyond_database(text, dialect)


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM user",
        "WITH a AS (SELECT 1) UPDATE db SET x=1",
        "SET STATEMENT max_statement_time=1 FOR DELETE FROM user",
        "EXPLAIN ANALYZE DELETE a FROM user a, db b",
    ],
)
@pytest.mark.parametrize(
    "use",
    [
        "USE mysql",
        "use `mysql`;",
        "/* tool */ USE\n MySQL",
        "use sys",
        "use`mysql`",
        "/*!50000 use mysql*/",
        "/*!50000 use*/ mysql",
        "/*M! use mysql */",
        'use "mysql"',
    ],
)
def test_tables_of_the_system_may_be_named_without_their_database(use: str, change: str) -> None:
    """By a session that is in it, and by no other one."""
    system = SystemSessions("mysql")
    assert not system.change(1, use)
    assert system.change(1, change)
    assert not system.change(1, "select user from user")
    assert not system.change(1, "begin")
    assert not system.change(2, change)
    assert not system.change(1, "use shop")
    assert not system.change(1, change)


def test_a_text_of_several_statements_moves_to_the_system_and_back() -> None:
    """Its parts count in their order; what is not sent moves no session."""
    system = SystemSessions("mysql")
    assert system.change(1, "use mysql; delete from user")
    assert not system.change(1, "delete from user")
    assert not system.change(1, "use mysql; select 1; use shop; delete from user")
    assert not system.change(1, "select 'use mysql'; use mysql")
    assert system.change(1, "select 1; begin not atomic delete from user; end")
    system.end(1)
    assert not system.change(1, "delete from user")


def _sending(test: SendTest) -> Callable[..., bool]:
    """Return a function that returns whether a test sends a text of a session."""

    def sent(text: str, session: int = 1) -> bool:
        statement = LoggedStatement(text, Fingerprint(1, "", "other"))
        return not test.refusal(Action(session, "simple", 0, text=text), statement)

    return sent


def test_a_statement_of_a_variable_is_what_was_last_assigned_to_it() -> None:
    """By its own session, and by a literal; else it is not known."""
    test = SendTest("mysql", read_only=False)
    sent = _sending(test)
    assert sent("SET @a = 'select 5'")
    assert sent("prepare s from @A")
    assert not sent("prepare s from @a", session=2)
    assert sent("set @a := 'drop database b'")
    assert not sent("prepare s from @a")
    assert not sent("execute immediate @a using @b")
    assert sent("set @a=\"select 'kill 5'\"")
    assert sent("execute immediate @a")
    for change in ("select b into @a from t", "execute r", "call p()", "set @`a` = 'c'"):
        assert sent("set @a='select 5'")
        assert sent("prepare s from @a")
        assert sent(change)
        assert not sent("prepare s from @a"), change
    assert sent("prepare s from 'select 5 into @a'")
    assert sent("set @a='select 5'")
    assert sent("execute s")
    assert not sent("prepare s from @a")
    assert sent("set @a='select 5'")
    test.end(1)
    assert not sent("prepare s from @a")


@pytest.mark.parametrize(
    "between",
    [
        ("prepare t from 'select 1'", "execute t", "execute `t` using @a", "deallocate prepare t"),
        ("/* tool */ prepare s from @a", "EXECUTE s;"),
        ("insert into u values ('call me @a', 'execute')",),
        ("select 5 -- call it @a",),
        ("execute immediate @a",),
    ],
)
def test_a_variable_stays_known_after_what_does_not_assign_it(between: Sequence[str]) -> None:
    """A prepared statement without variables, or words in strings and comments."""
    sent = _sending(SendTest("mysql", read_only=False))
    assert sent("/* tool */ SET @a = 'select 5'")
    for text in between:
        assert sent(text), text
    assert sent("/* tool */ prepare /* it */ s from @a -- x")
    assert sent("execute s")
    assert sent("prepare s from @a")
    assert not sent("prepare s from @b")


@pytest.mark.parametrize(
    "between",
    [
        ("prepare t from 'select 1 into @a'", "execute t"),
        ("prepare t from 'select 1'; prepare t from 'select 1 into @a'", "execute t"),
        ("prepare t from 'c\\all p()'", "execute t"),
        ("prepare t from 'ca' 'll p()'", "execute t"),
        ("set @c = 'set @a = 1'", "execute immediate @c"),
        ("select '\\' into @a, 'b'",),
        ("/*!50000 set */ @a = 'b'",),
    ],
)
def test_a_variable_is_not_known_after_what_may_assign_it(between: Sequence[str]) -> None:
    """Also in a statement that was prepared before, however its words are written."""
    sent = _sending(SendTest("mysql", read_only=False))
    assert sent("prepare t from 'select 1'")
    assert sent("set @a = 'select 5'")
    for text in between:
        assert sent(text), text
    assert not sent("prepare s from @a")


def test_a_refused_prepare_leaves_the_statement_that_was_prepared_before() -> None:
    """So its text does not show what an EXECUTE of that name assigns."""
    sent = _sending(SendTest("mysql", read_only=False))
    assert sent("set @a = 'select 5'")
    assert sent("prepare t from 'select b into @a from u'")
    assert not sent("prepare t from 'kill 5'")
    assert sent("execute t")
    assert not sent("prepare s from @a")


def test_values_that_are_held_count_and_those_of_the_oldest_session_go_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Values that were overwritten or forgotten need no room."""
    monkeypatch.setattr(user_variables, "_MOST_CHARACTERS", 100)
    sent = _sending(test := SendTest("mysql", read_only=False))
    for session in (1, 2):
        assert sent("set @a = 'select 5'", session)
    for number in range(30):
        assert sent(f"set @b = 'select {number}'", 2)
        assert sent("select 1 into @b", 2)
        assert sent("set @c = 'select 5'", 3)
        test.end(3)
    assert sent("prepare s from @a", 1)
    assert sent(f"set @b = 'select {'5' * 70}'", 2)
    assert not sent("prepare s from @a", 1)
    assert sent("prepare s from @a", 2)
    assert sent(f"set @a = 'select {'5' * 100}'", 2)
    assert not sent("prepare s from @a", 2)


def test_the_system_is_known_behind_a_comment_that_may_be_skipped() -> None:
    """A server of another version executes the USE, or what stands around it."""
    system = SystemSessions("mysql")
    assert not system.change(1, "/*!999999 x */ use mysql")
    assert system.change(1, "delete from user")


@pytest.mark.parametrize("dialect", BEYOND)
def test_a_long_text_is_looked_through_at_once(dialect: str) -> None:
    """In time that grows with its length, whatever it has."""
    for begin, part in (
        ("copy ", " to"),
        ("set ", "a=1, "),
        ("do ", "pg_"),
        ("", ";set a = 1"),
        ("", "/*"),
        ("", "/* */"),
        ("prepare ", "from '"),
        ("prepare s from ", "'a' "),
        ("begin not atomic ", "then if "),
        ("", "execute immediate '"),
        ("", "; update mysql"),
        ("begin not atomic ", "then update mysql "),
        ("do ", "grant a, "),
        ("create function ", "soname_ "),
        ("", "lock mysql "),
        ("", "/*!"),
        ("", "/*!50000 kill */"),
        ("/*!50000 ", "a/* */"),
        ("; '\\'", "''a"),
        ("; '", "\\'"),
        ("; '\\'", 'a"'),
    ):
        with at_once(part):
            acts_beyond_database(begin + part * 100_000, dialect)
