"""What a folder in schemas/ says is understood as a whole, or is an error where it is listed."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from replayer import assets
from replayer.engines import connection, engine, verbs
from replayer.errors import Impossible, Skip
from replayer.machine.host import Host
from replayer.run.checks import preflight
from replayer.servers import protocol
from tests.command import Replayer
from tests.known import known


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Return a function that adds files to an engine `mine` that is like postgres."""
    # A folder that is not there has no engines.
    monkeypatch.setenv("REPLAYER_SCHEMAS", f"/nowhere:{tmp_path}")

    def write(name: str = "mine", /, **files: str) -> Path:
        folder = tmp_path / name
        for path, text in {"engine.toml": 'like = "postgres"\n', **files}.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        return folder

    return write


def test_a_folder_of_engines_that_has_none_is_named(
    mine: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is not there, and an engine's own folder in the place of the one above it."""
    folder = mine()

    monkeypatch.setenv("REPLAYER_SCHEMAS", str(folder / "gone"))
    with pytest.raises(Impossible, match=r"SCHEMAS names .*/mine/gone, which is not a folder"):
        engine.load("mine")
    monkeypatch.setenv("REPLAYER_SCHEMAS", str(folder))
    with pytest.raises(Impossible, match=r"/mine, which is an engine: name "):
        engine.load("mine")


def test_what_an_engine_of_ones_own_lacks_is_missing_in_its_own_folder(
    mine: Callable[..., Path],
) -> None:
    """schemas/mine is nowhere: who looks for it would not find it."""
    folder = mine(**{"engine.toml": 'like = "duckdb"\n'})

    with pytest.raises(Skip, match=f"has no claim.sql in {folder}$"):
        engine.load("mine").needs(verbs.VerbName("claim"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[server]\npid_fil = "x"\n', r"\[server\] pid_fil: .*did you mean pid_file\?"),
        ('[sever]\npid_file = "x"\n', r"sever: there is no such section.*did you mean server\?"),
        ('titel = "x"\n', r"titel: there is no such key.*did you mean title\?"),
        ("[sessions.memory.direct]\nsinc = 3\n", r"\[sessions\.memory\.direct\] sinc.*mean since"),
        ("[sessions.memory.direkt]\nsince = 3\n", r"\[sessions\.memory\.direkt\].*'direct'"),
        ("[server.settings.jit]\nvalu = 3\n", r"\[server\.settings\.jit\] valu.*mean value"),
        ("[layouts.rowstor]\nsegment_rows = 6\n", r"\[layouts\.rowstor\] has no rowstor/double"),
        ('layout = "rowstor"\n', r"layout = 'rowstor'.*did you mean rowstore"),
        (
            'wire = "postgresql+psycopg2"\n',
            r"wire = 'postgresql\+psycopg2': there is no wire.*psycopg\?",
        ),
        ('wire = "oracle+cx_oracle"\n', r"wire = 'oracle\+cx_oracle': there is no wire with that"),
        ('like = "postgras"\n', r"like = 'postgras' - did you mean postgres"),
        ("like = 3\n", r"like = 3"),
        ("like = ['postgres']\n", r"like = \['postgres'\]"),
        ("title = 3\n", r"title = 3: should be a valid string"),
        ("title = ['x']\n", r"title: should be a valid string"),
        ('server = "x"\n', r"server = 'x': should be a valid dictionary"),
        ("block_size = 'many'\n", r"block_size = 'many': should be a valid integer"),
        ("block_size = 0\n", r"block_size = 0: should be greater"),
        ("[connect]\nstatements = 'SELECT 1'\n", r"\[connect\] statements = 'SELECT 1'"),
        ("[server]\nusers = [3]\n", r"\[server\.users\] 0 = 3: should be a valid string"),
        ("[server]\nlog_weight = '('\n", r"\[server\] log_weight = '\('.*regular expression"),
        ("[server]\nnew_bytes = 'much'\n", r"\[server\] new_bytes = 'much'"),
        (
            "[server]\nstart = ['{bni}/x']\n",
            r"\[server\.start\] 0.*\{bni\} is not a word.*mean bin",
        ),
        ("[server]\nstop_signals = ['KILL']\n", r"\[server\.stop_signals\] 0 = 'KILL'"),
        (
            "[server.settings]\njit = true\n",
            r"\[server\.settings\] jit.*a text, a number or a table",
        ),
        ("[server]\nprogram = ''\n", r"server: program is missing.*starts = false"),
        ("x = " + "[\n" * 5000 + "]\n" * 5000, r"nested too deeply"),
        ("x = \n", r"Invalid value"),
    ],
)
def test_engine_toml_that_is_not_understood_names_file_key_and_the_right_one(
    mine: Callable[..., Path], text: str, sentence: str
) -> None:
    """Whatever is wrong in it is one sentence, and no traceback."""
    like = "" if "like" in text else 'like = "postgres"\n'
    folder = mine(**{"engine.toml": like + text})
    with pytest.raises(Impossible, match=sentence) as caught:
        engine.checked("mine")

    assert str(caught.value).startswith(f"{folder / 'engine.toml'}: ")
    assert "\n" not in str(caught.value)


def test_engines_that_are_like_each_other_are_refused(mine: Callable[..., Path]) -> None:
    """A circle is an error and no endless recursion."""
    mine("one", **{"engine.toml": 'like = "two"\n'})
    mine("two", **{"engine.toml": 'like = "one"\n'})
    for name in ("one", "two"):
        with pytest.raises(Impossible, match="like = "):
            engine.load(name)


def test_an_error_is_said_of_the_file_that_has_it(mine: Callable[..., Path]) -> None:
    """What is wrong in the engine that another is like is not said of that other one."""
    folder = mine("one", **{"engine.toml": 'like = "postgres"\nblocksize = 1\n'})
    mine("two", **{"engine.toml": 'like = "one"\n'})
    with pytest.raises(Impossible, match="did you mean block_size") as caught:
        engine.load("two")
    assert str(caught.value).startswith(f"{folder}/")


def test_no_engine_has_a_copy_of_a_file_that_it_inherits() -> None:
    """A change of the one would leave the other behind."""
    for name, folder in assets.engines().items():
        like = engine.load(name).spec.like
        own = folder.rglob("*.sql") if like else ()
        parent = assets.engines()[like] if like else folder
        for path in own:
            inherited = parent / path.relative_to(folder)
            assert not inherited.is_file() or path.read_text() != inherited.read_text(), path


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({"table/scann.sql": "SELECT 1"}, "verb table/scann - did you mean table/scan?"),
        ({"evikt.18.sql": "SELECT 1"}, "verb evikt - did you mean evict?"),
        ({"rowstor/grow.sql": "SELECT 1"}, "verb rowstor/grow - did you mean rowstore/grow?"),
        ({"parts/x.sql": "SELECT 1"}, "no verb includes parts/x"),
        ({"wal.sql": "-- include table/cuont\n"}, "not there - did you mean table/count?"),
        ({"wal.sql": "-- include lock\n", "lock.sql": "-- include wal\n"}, "includes it again"),
        ({"version.99.sql": "-- include parts/none\n"}, "it includes parts/none"),
    ],
)  # fmt: skip
def test_a_file_that_nobody_asks_for_is_an_error(
    mine: Callable[..., Path], files: dict[str, str], sentence: str
) -> None:
    """A misspelt verb would else be passed over, and the inherited one used."""
    folder = mine(**files)
    with pytest.raises(Impossible) as caught:
        engine.checked("mine")

    assert sentence in str(caught.value)
    assert str(caught.value).startswith(f"{folder}/")


def test_a_new_layout_is_asked_for(mine: Callable[..., Path]) -> None:
    """A folder with the verb `double` is a layout, and the layouts' verbs are known in it."""
    mine(
        **{"heap/double.sql": "SELECT 1", "heap/grow.sql": "SELECT 1", "heap/bytes.sql": "SELECT 1"}
    )
    assert "heap" in engine.checked("mine").layouts()


def test_an_engine_that_cannot_be_used_is_told_where_engines_are_listed(
    mine: Callable[..., Path], replayer: Replayer, tmp_path: Path
) -> None:
    """`list` and `check` name the file and the key; other engines go on."""
    mine(**{"engine.toml": 'like = "postgres"\n[server]\npid_fil = "x"\n'})
    mine("good")
    for words in (("list", "engines"), ("list", "--json")):
        listed = replayer(*words, status=2)
        told = "".join(listed.err.split())
        assert "pid_fil:thereisnosuchkey-didyoumeanpid_file?" in told
        assert "good" in listed.out
    checked = preflight.engines(preflight.Case(Host(), tmp_path))

    assert checked.answer is preflight.Answer.NO
    assert "pid_fil: there is no such key - did you mean pid_file?" in checked.found


def test_a_run_takes_no_engine_with_a_file_that_no_step_asks_for(
    mine: Callable[..., Path], replayer: Replayer
) -> None:
    """A verb whose name is mistyped would leave the inherited one in its place, unsaid."""
    mine(**{"table/scna.sql": "SELECT 1 AS avg\n"})

    failed = replayer("run", "smoke", "--engine", "mine", "--dry-run", status=2)

    assert "table/scna - did you mean table/scan?" in " ".join(failed.err.split())


def test_a_part_is_the_asked_engines_own(mine: Callable[..., Path]) -> None:
    """An engine's own part goes into a verb that it inherits; its own name is what it hides."""
    mine(
        "one",
        **{
            "table/scan.sql": "SELECT 1 AS avg\n-- include parts/source\n",
            "parts/source.sql": "FROM one",
            "parts/source.18.sql": "FROM newer",
        },
    )
    mine(
        "two",
        **{
            "engine.toml": 'like = "one"\n',
            "parts/source.sql": "FROM two",
            "prepare.sql": "SELECT 'first'\n-- then\n-- include prepare\n",
        },
    )
    one, two = engine.checked("one"), engine.checked("two")

    def statements(asked: engine.Engine, name: str) -> tuple[str, ...]:
        return asked.needs(verbs.VerbName(name)).statements()

    assert statements(one, "table/scan") == ("SELECT 1 AS avg\nFROM one",)
    assert statements(one.at(18), "table/scan") == ("SELECT 1 AS avg\nFROM newer",)
    assert statements(two.at(18), "table/scan") == ("SELECT 1 AS avg\nFROM two",)
    inherited = statements(engine.load("postgres"), "prepare")
    assert statements(two, "prepare") == ("SELECT 'first'", *inherited)
    assert "parts/source" not in two.verbs()


def test_an_included_reason_takes_a_verb_away(mine: Callable[..., Path]) -> None:
    """A verb of nothing but an included comment is not there, and the comment says why."""
    mine(**{"wal.sql": "-- include parts/why", "parts/why.sql": "-- It writes no log.\n"})
    with pytest.raises(Skip, match="It writes no log"):
        engine.checked("mine").needs(verbs.VerbName("wal"))


def test_lines_may_end_as_those_of_windows_do(mine: Callable[..., Path]) -> None:
    """A line of replayer's own, `-- include` or `-- then`, is one there, too."""
    mine(
        **{
            "table/scan.sql": "SELECT 1\r\n-- then\r\nSELECT avg\r\n-- include parts/source\r\n",
            "parts/source.sql": "FROM mine\r\n",
        }
    )

    scan = engine.checked("mine").needs(verbs.VerbName("table/scan"))
    assert scan.statements() == ("SELECT 1", "SELECT avg\nFROM mine")


IMPORTED = """
import importlib, json, pkgutil
import replayer
from replayer import registry
from replayer.engines import verbs

made = set()

class Noticed(verbs.VerbName):
    def __new__(cls, name):
        made.add(name)
        return super().__new__(cls, name)

verbs.VerbName = Noticed
for module in pkgutil.walk_packages(replayer.__path__, "replayer."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
for name in registry.names("collectors"):
    made.update(getattr(registry.load("collectors", name), "VERBS", ()))
print(json.dumps(sorted(made)))
"""


def test_the_verbs_that_sources_declare_are_those_that_modules_make() -> None:
    """No verb escapes the reading of sources: under another name, in another package, or late."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True
    )

    assert protocol.SETTINGS in verbs.declared()
    assert json.loads(done.stdout) == sorted(verbs.declared())


def test_a_layout_may_be_a_link_to_a_folder(mine: Callable[..., Path], tmp_path: Path) -> None:
    """A layout that lies elsewhere has its verbs as one that lies in the engine's folder."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "double.sql").write_text("SELECT 2")
    (mine() / "heap").symlink_to(tmp_path / "elsewhere")
    loaded = engine.checked("mine")

    assert known(loaded.named("heap/double")).statements() == ("SELECT 2",)
    assert "heap/double" in loaded.verbs()


def test_every_declared_verb_is_said_by_some_engine() -> None:
    """A verb that no engine has is a misspelt one."""
    names = [
        (name, loaded.layouts())
        for loaded in map(engine.load, assets.engines())
        for name in loaded.verbs()
    ]
    for asked in verbs.declared():
        assert any(asked.is_for(name, layouts) for name, layouts in names), asked


def test_a_library_is_reached_by_no_url(replayer: Replayer) -> None:
    """What every user of DuckDB types is answered with what to give, and no URL is listed."""
    failed = replayer("run", "smoke", "--engine", "duckdb:///home/me/my.duckdb", status=2)
    listed = json.loads(replayer("list", "engines", "--json").out)["engines"]
    libraries = {one["name"]: one for one in listed if one["wire"] == "inprocess"}

    assert "is a library" in failed.err
    assert "--engine duckdb" in failed.err
    assert libraries.keys() == {"duckdb", "clickhouse"}
    for one in libraries.values():
        assert (one["url"], one["server"]) == ([], "started by replayer")
        assert "URL" not in " ".join(one["cannot do"])


def test_a_scheme_may_be_the_name_of_an_engine_with_a_dash() -> None:
    """`list engines -v` shows it, and SQLAlchemy knows no such scheme."""
    text = "clickhouse-server://me:pass@host:8123/mine"
    url = connection.url_of(text, engine.of_url(text))

    assert (url.drivername, url.username, url.host, url.port, url.database) == (
        "clickhousedb+connect", "me", "host", 8123, "mine",
    )  # fmt: skip


def test_a_check_reads_each_file_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many versions the engine has: a list of all engines is a start, which is short."""
    asked: list[Path] = []
    text = assets.text

    def counted(path: Path) -> str:
        asked.append(path)
        return text(path)

    monkeypatch.setattr(assets, "text", counted)
    engine.checked("postgres")

    files = [path for path in asked if path.suffix == ".sql"]
    assert len(files) > 20
    assert len(files) == len(set(files))
