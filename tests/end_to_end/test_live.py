"""The page that follows a run: who may look, what is seen of it late, and that nothing can be done.

The process of the page is the real one; what it follows is told here, or by a real run.
"""

import asyncio
import contextlib
import http.client
import json
import math
import os
import re
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.message import Message
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait
from tornado.httpserver import HTTPServer

from replayer.cli import argv_secrets
from replayer.cli.bind_address import Address, bound, parsed
from replayer.errors import Impossible
from replayer.live import server as live_server
from replayer.live.access import PageAccess
from replayer.live.launcher import Live, refuse_open
from replayer.live.view import View
from replayer.model import Run, Status
from replayer.results import store
from replayer.run.event_stream import events
from replayer.run.event_stream.event_file import EventFile
from replayer.run.event_stream.publisher import run_state, step_end
from tests.browser import console
from tests.command import Replayer
from tests.told import line_with, matched
from tests.waiting import wait_until

LINK = re.compile(r"http://([^/]+):(\d+)/\?token=(\S+)")
EVIL = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>\x1b[31m\u202e"
QUICK = """
repeat = 2
[[step]]
step = "probe"
name = "cpu"
probe = "cpu"
duration = "1s"
"""
TOKEN = "correct-horse-battery"
FIXTURE = Path(__file__).parents[1] / "fixtures" / "runs" / f"format-{store.FORMAT}.json"


class Browser:
    """A client with a cookie, as a browser has it."""

    def __init__(self, link: str) -> None:
        self.host, port, self.token = matched(LINK, link).groups()
        self.port, self.cookie = int(port), ""

    def ask(self, path: str = "/", method: str = "GET", **headers: str) -> tuple[int, Message, str]:
        """Return the status, the headers and the text of an answer."""
        with contextlib.closing(self.connected()) as connection:
            connection.request(method, path, headers=self.with_cookie(headers))
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read().decode()

    def connected(self) -> http.client.HTTPConnection:
        """Return a connection."""
        return http.client.HTTPConnection(self.host, self.port, timeout=120)

    def with_cookie(self, headers: dict[str, str]) -> dict[str, str]:
        """Return headers with the cookie among them."""
        return headers | ({"Cookie": self.cookie} if self.cookie else {})

    def open(self) -> tuple[int, Message]:
        """Open the link; return the answer's status and headers."""
        status, headers, _ = self.ask(f"/?token={self.token}")
        self.cookie = (headers["Set-Cookie"] or "").partition(";")[0]
        return status, headers

    @contextlib.contextmanager
    def messages(self) -> Iterator[Iterator[Any]]:
        """Give what the page is told, message by message."""
        connection = self.connected()
        connection.request("GET", "/events", headers=self.with_cookie({}))
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        try:
            yield (json.loads(line[6:]) for line in answer if line.startswith(b"data: "))
        finally:
            connection.close()

    def first(self) -> Any:
        """Return the first message."""
        with self.messages() as messages:
            return next(messages)


def message_with(messages: Iterator[Any], condition: Callable[[Any], object]) -> Any:
    """Return the first message of which something is so."""
    return next(message for message in messages if condition(message))


class Told(NamedTuple):
    """A run under way, the place of its result, and a function that tells its events."""

    run: Run
    result: Path
    tell: Callable[..., None]


@contextlib.contextmanager
def telling(folder: Path) -> Iterator[Told]:
    """Give a run that is under way in its first step of two."""
    run = store.load(FIXTURE).model_copy(update={"status": Status.RUNNING, "label": EVIL * 200})
    result = folder / f"{run.id}.json"
    store.save(result, run)
    with EventFile(result) as file:

        def tell(*what: events.Event) -> None:
            file.write(b"".join(map(events.line, what)))

        planned = [events.Planned(number=n, name=f"s{n}", repeat=1) for n in (1, 2)]
        tell(events.PlannedSteps(steps=tuple(planned)), run_state(run, result))
        tell(events.Begin(name="s1", repeat=1), events.Figures(values={"riops": 5.0}))
        yield Told(run, result, tell)


@contextlib.contextmanager
def followed(told: Told) -> Iterator[tuple[Live, list[str]]]:
    """Follow the run that is told; give what does it, and the links as they are said."""
    said: list[str] = []
    with Live(parsed("", "--live"), None, said.append) as live:
        live.follow(told.result)
        wait_until(lambda: said)
        yield live, said


@contextlib.contextmanager
def chosen(address: str, told: Told) -> Iterator[tuple[Live, int]]:
    """Follow the run that is told, with a chosen token; give what does it, and its port."""
    said: list[str] = []
    with Live(parsed(address, "--live"), TOKEN, said.append) as live:
        live.follow(told.result)
        link = wait_until(lambda: said)[0]
        assert TOKEN not in link
        yield live, int(matched(LINK, link)[2])


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Told]:
    """Return a run under way of this test's own."""
    with telling(tmp_path) as told:
        yield told


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Told, Browser]]:
    """Return a run that stays under way, and a client that has opened the link of its page."""
    with telling(tmp_path_factory.mktemp("shared")) as told, followed(told) as (_, links):
        one = Browser(links[0])
        assert one.open()[0] == 200
        yield told, one


@pytest.fixture
def browser(shared: tuple[Told, Browser]) -> Browser:
    """Return the client of the shared page."""
    return shared[1]


def test_a_link_opens_one_browser_and_the_next_link_the_next(told: Told) -> None:
    """A used or wrong token is refused; who has a cookie may reload, with or without the link."""
    with followed(told) as (_, links):
        first, thief = Browser(links[0]), Browser(links[0])
        status, headers = first.open()
        cookie = headers["Set-Cookie"]

        assert (status, thief.open()[0]) == (200, 403)
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert first.ask("/")[0] == 200
        assert first.ask(f"/?token={first.token}")[0] == 200
        assert thief.ask("/events")[0] == 403
        thief.token = "x" * 32
        assert thief.open()[0] == 403
        second = Browser(wait_until(lambda: links[1:])[0])
        assert second.open()[0] == 200
        assert second.first()["state"] == first.first()["state"]


def test_a_page_that_is_killed_is_told_and_one_that_ends_with_its_run_is_not(told: Told) -> None:
    """The run goes on without it."""
    with followed(told) as (live, said):
        live._process.kill()
        wait_until(lambda: said[1:])
        live.follow(told.result)
        live.stay(0)
    assert said[1:] == [
        "the page of --live was ended by another program: the run continues without it"
    ]

    with followed(told) as (live, said):
        live.stay(0)
    assert len(said) == 1


def test_who_looks_on_has_an_end_that_is_told_late_and_the_report(told: Told) -> None:
    """On a busy machine the last events are written after the run's process lets the page go.

    The report is the page of `report --html`, and its policy lets its own scripts run in the frame.
    Then the page ends, and its port is free.
    """
    run, result, tell = told
    whole = run.model_copy(update={"status": Status.DONE, "finished": run.started})
    with followed(told) as (live, links):
        browser, pipe = Browser(links[0]), os.fstat(live._orders).st_ino
        browser.open()
        with browser.messages() as messages:
            message_with(messages, lambda one: one["state"]["run"])
            leaving = threading.Thread(target=live.stay, args=(0,))
            leaving.start()
            # Its end of the pipe is closed when it has seen that ours is.
            wait_until(lambda: f"pipe:[{pipe}]" not in open_files(live._process.pid))
            store.save(result, whole)
            tell(*map(step_end, whole.steps), run_state(whole, result))
            message_with(messages, lambda one: one["state"]["run"]["status"] == "done")
            status, headers, text = browser.ask("/report")
        leaving.join()
        with pytest.raises(OSError, match=r"refused"):
            browser.ask("/")

    assert status == 200
    assert run.id in text
    assert "script-src 'sha256-" in headers["Content-Security-Policy"]
    assert "frame-ancestors 'self'" in headers["Content-Security-Policy"]
    assert len(links) in {1, 2}


def open_files(pid: int) -> set[str]:
    """Return what the descriptors of a process lead to; nothing once it has ended."""
    files = set()
    with contextlib.suppress(OSError):
        for path in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                files.add(str(path.readlink()))
    return files


def test_a_browser_that_left_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page knows at once that it left, not when it would next be told something."""
    monkeypatch.setattr(live_server, "_QUIET_SECONDS", math.inf)

    async def leave() -> None:
        listening = bound(Address("127.0.0.1", 0), "--live")
        listening.setblocking(False)
        access = PageAccess(Address(*listening.getsockname()), "a-token-long-enough", loopback=True)
        rooms = live_server.Rooms(View(), access, lambda: None)
        server = HTTPServer(live_server.application(rooms))
        server.add_socket(listening)
        _, browser = await asyncio.open_connection(*listening.getsockname())
        host, cookie = f"127.0.0.1:{listening.getsockname()[1]}", access.opened(access._token)
        words = f"GET /events HTTP/1.1\r\nHost: {host}\r\nCookie: {access.cookie}={cookie}\r\n\r\n"
        browser.write(words.encode())
        await asyncio.to_thread(wait_until, lambda: rooms.readers)
        browser.close()
        await asyncio.to_thread(wait_until, lambda: not rooms.readers)
        # `stop` leaves the socket open, and its warning would fail whichever test runs then.
        server.stop()
        listening.close()
        await server.close_all_connections()

    asyncio.run(leave())


def test_a_crowd_of_connections_takes_no_more_than_its_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Connections that send nothing are refused from a number on; a place that is free is given.

    Without that, a server that is out of files tries to accept the next one without a pause.
    """
    monkeypatch.setattr(live_server, "_MOST_CONNECTIONS", 4)

    async def crowd() -> None:
        listening = bound(Address("127.0.0.1", 0), "--live")
        listening.setblocking(False)
        access = PageAccess(Address(*listening.getsockname()), None, loopback=True)
        server = live_server.server_of(live_server.Rooms(View(), access, lambda: None))
        server.add_socket(listening)
        ends = [await asyncio.open_connection(*listening.getsockname()) for _ in range(5)]
        assert await ends[4][0].read() == b""
        ends[0][1].close()
        await asyncio.to_thread(wait_until, lambda: server._open < 4)
        ends.append(await asyncio.open_connection(*listening.getsockname()))
        ends[5][1].write(b"GET / HTTP/1.1\r\nHost: evil\r\n\r\n")
        assert b"403" in await ends[5][0].readline()
        server.stop()
        listening.close()
        for _, end in ends:
            end.close()
            await end.wait_closed()
        await server.close_all_connections()

    asyncio.run(crowd())


@pytest.mark.parametrize("body", ["Content-Length: 100", "Transfer-Encoding: chunked"])
def test_a_connection_that_keeps_its_body_back_is_closed(
    monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    """It would hold a place for ever, also without access."""
    monkeypatch.setattr(live_server, "_IDLE_SECONDS", 0.2)

    async def wait() -> None:
        listening = bound(Address("127.0.0.1", 0), "--live")
        listening.setblocking(False)
        access = PageAccess(Address(*listening.getsockname()), None, loopback=True)
        server = live_server.server_of(live_server.Rooms(View(), access, lambda: None))
        server.add_socket(listening)
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        writer.write(f"POST / HTTP/1.1\r\nHost: evil\r\n{body}\r\n\r\n".encode())
        try:
            assert await asyncio.wait_for(reader.read(), 20) == b""
        finally:
            server.stop()
            listening.close()
            writer.close()
            await server.close_all_connections()

    asyncio.run(wait())


def test_only_what_reads_is_answered_and_only_by_its_own_name(browser: Browser) -> None:
    """Any other method, Host or place is refused, with a sentence and without a trace."""
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"):
        assert browser.ask("/", method)[0] == 405
        assert browser.ask("/events", method)[0] == 405
    for host in ("evil.example", f"evil.example:{browser.port}", "127.0.0.1:1", ""):
        status, _, text = browser.ask("/", Host=host)
        assert status in {400, 403}
        assert "Traceback" not in text
    assert browser.ask("/", Host=f"localhost:{browser.port}")[0] == 200
    for path in ("/nosuch", "/../etc/passwd", "/page/live.js", "/events/x", "/%00"):
        assert browser.ask(path)[0] in {400, 404}
    assert browser.ask("/report")[0] == 404


def test_the_page_may_load_and_run_nothing_but_its_own(browser: Browser) -> None:
    """Its policy names the page's own script; nothing in it is from elsewhere."""
    _, headers, text = browser.ask("/")
    policy = headers["Content-Security-Policy"]
    nonce = matched(re.compile(r"script-src 'nonce-([^']+)'"), policy)[1]

    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert set(re.findall(r'nonce="([^"]*)"', text)) == {nonce}
    assert nonce not in browser.ask("/")[2]
    assert not re.search(r"(src|href)=\"?(https?:)?//", text)
    assert headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "no-referrer"


def test_who_comes_late_sees_what_was_and_then_what_comes(shared: tuple[Told, Browser]) -> None:
    """A reader of any moment has all steps and points, and hears the next ones, as others do."""
    (run, result, tell), browser = shared
    with browser.messages() as early, browser.messages() as other:
        message_with(early, lambda one: one["points"])
        tell(events.MachineActivity(values={"cpu_user": 0.5}))
        step = events.StepEnded(
            name="s1", repeat=1, status="done", reason="", seconds=1.0, measured={}, proof="cold"
        )
        tell(step, events.Begin(name="s2", repeat=1), events.MessageEvent(text="halfway"))
        for messages in (early, other):
            last = message_with(messages, lambda one: "halfway" in words_said(one))
            states = [step["state"] for step in last["state"]["steps"]]
            assert states == ["done", "running"]
    late = browser.first()

    assert late["whole"]
    assert [point["values"] for point in late["points"]] == [{"riops": 5.0}, {"cpu_user": 0.5}]
    assert [(one["name"], one["state"], one["proof"]) for one in late["state"]["steps"]] == [
        ("s1", "done", "cold"),
        ("s2", "running", ""),
    ]
    assert late["state"]["run"]["path"] == str(result)
    assert late["state"]["run"]["id"] == run.id


def words_said(message: Any) -> list[str]:
    """Return what was said to the people who watch, as a message has it."""
    return [said["text"] for said in message["state"]["said"]]


def test_long_and_hostile_words_are_cut_and_harmless(shared: tuple[Told, Browser]) -> None:
    """A label of ten thousand characters is a line, and nothing in it steers or hides."""
    (_, _, tell), browser = shared
    tell(events.MessageEvent(text=EVIL * 500), events.MessageEvent(text="after it"))
    with browser.messages() as messages:
        last = message_with(messages, lambda one: "after it" in words_said(one))
    said = words_said(last)
    words = [last["state"]["run"]["label"], said[said.index("after it") - 1]]

    for text in words:
        assert 20 < len(text) < 2000
        assert text.isprintable()
    assert EVIL[:20] in words[0]
    assert EVIL[:20] not in browser.ask("/")[2]


@pytest.mark.slow
def test_a_browser_that_reads_nothing_holds_nobody_up(shared: tuple[Told, Browser]) -> None:
    """While one takes no byte, another hears all; what waits for the first does not grow."""
    (_, _, tell), browser = shared
    stuck = socket.create_connection((browser.host, browser.port))
    stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    request = f"GET /events HTTP/1.1\r\nHost: {browser.host}:{browser.port}\r\n"
    stuck.sendall(f"{request}Cookie: {browser.cookie}\r\n\r\n".encode())
    with stuck, browser.messages() as messages:
        for number in range(40):
            marks = [
                events.ServerMark(when=events.now(), kind="k", text=f"{number} {'x' * 300}")
                for _ in range(20)
            ]
            tell(*marks, events.MessageEvent(text=f"round {number}"))
            next(one for one in messages if f"round {number}" in words_said(one))
    assert browser.ask("/")[0] == 200


def test_one_browser_with_many_pages_keeps_no_other_out(told: Told) -> None:
    """Of 40 pages with one cookie a few follow the run, and the next browser does as well."""
    with followed(told) as (_, links), contextlib.ExitStack() as stack:
        greedy = Browser(links[0])
        greedy.open()
        statuses = []
        for _ in range(40):
            connection = stack.enter_context(contextlib.closing(greedy.connected()))
            connection.request("GET", "/events", headers=greedy.with_cookie({}))
            statuses.append(connection.getresponse().status)
        other = Browser(wait_until(lambda: links[1:])[0])
        other.open()

        assert {200, 503} == set(statuses), statuses
        # A browser opens six connections to a host, and each of these pages keeps one.
        assert statuses.count(200) < 6
        assert other.first()


def test_a_token_that_was_chosen_opens_any_browser(told: Told) -> None:
    """Those who know it may look, as often as they like; it is not printed.

    A browser without it is advised to use it, and not the newest link: there is only one.
    """
    with chosen("127.0.0.1:0", told) as (_, port):
        link = f"http://127.0.0.1:{port}/?token="
        clients = [Browser(f"{link}{token}") for token in (TOKEN, TOKEN, "x" * 20)]
        assert [one.open()[0] for one in clients] == [200, 200, 403]
        words = clients[2].ask()[2]
    assert "open it again with the token that was chosen" in words
    assert "newest" not in words


def test_an_address_that_is_taken_is_refused(replayer: Replayer, tmp_path: Path) -> None:
    """Before anything is done, in one sentence that says what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        _, err = replayer("run", "smoke", "--live", f"127.0.0.1:{port}", status=2)

    assert "another program listens there" in err
    assert err.count("\n") == 1
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--live", "0.0.0.0:0"], "--live-token"),
        (["--live", "0.0.0.0:0", "--live-token", "short"], "16 or more"),
        (["--live", "127.0.0.1:99999"], "not a port"),
        (["--live", "no.such.name.invalid"], "no such address"),
        (["--live-for", "5m"], "give that too"),
        (["--live", "--live-for", "soon"], "soon"),
    ],
)
def test_what_cannot_be_served_is_refused(
    replayer: Replayer, words: list[str], reason: str, tmp_path: Path
) -> None:
    """In one sentence that says what to do, and nothing is left of it."""
    _, err = replayer("run", "smoke", *words, status=2)

    assert reason in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("", "127.0.0.1", 0),
        ("8080", "127.0.0.1", 8080),
        (":8080", "127.0.0.1", 8080),
        ("localhost", "localhost", 0),
        ("localhost:1", "localhost", 1),
        ("[::1]:8080", "::1", 8080),
        ("::1", "::1", 0),
        ("fe80::1%eth0", "fe80::1%eth0", 0),
    ],
)
def test_an_address_is_read_as_people_write_it(text: str, host: str, port: int) -> None:
    """With and without a port, names, numbers, and those with colons in them."""
    assert parsed(text, "--live") == Address(host, port)


def test_others_reach_it_only_with_a_token() -> None:
    """Loopback is what only this host reaches, by whatever name."""
    refuse_open(parsed("127.0.0.3", "--live"), None)
    refuse_open(parsed("localhost", "--live"), None)
    for text in ("0.0.0.0", "[::]:80", "192.0.2.1"):
        with pytest.raises(Impossible, match="--live-token"):
            refuse_open(parsed(text, "--live"), None)


@pytest.mark.parametrize("words", [["--live-token", "{}"], ["--live-token={}"]])
def test_a_token_is_nothing_that_ps_shows(words: list[str]) -> None:
    """It is taken out of the command line before anything is done, and known all the same."""
    token = TOKEN
    shown = argv_secrets.hidden(["run", "--live", *[word.format(token) for word in words]])

    assert token not in " ".join(shown)
    assert argv_secrets.revealed(shown[-1].rpartition("=")[2]) == token


# A real run


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    """Return a quick workload's path."""
    path = tmp_path / "w.toml"
    path.write_text(QUICK)
    return path


@pytest.fixture
def chrome(chromium: list[str]) -> Iterator[webdriver.Chrome]:
    """Return headless Chromium."""
    options = Options()
    options.binary_location, driver_path = chromium
    with tempfile.TemporaryDirectory(prefix="replayer-chromium-") as profile:
        for flag in ("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = webdriver.Chrome(options=options, service=Service(driver_path))
        yield driver
        driver.quit()


@pytest.mark.slow
def test_a_page_shows_every_state_of_the_processors_and_knows_when_it_is_refused(
    told: Told, chrome: webdriver.Chrome
) -> None:
    """At work is all that is neither idle nor waiting for I/O; a refused page is a last state."""
    link = f"http://127.0.0.1:%d/?token={TOKEN}"
    page = WebDriverWait(chrome, 180)
    shares = {"cpu_user": 0.2, "cpu_nice": 0.3, "cpu_guest": 0.01, "cpu_guest_nice": 0.0}
    shares |= {"cpu_system": 0.1, "cpu_irq": 0.02, "cpu_softirq": 0.03, "cpu_steal": 0.15}
    with chosen("127.0.0.1:0", told) as (live, port):
        chrome.get(link % port)
        page.until(lambda _: chrome.find_elements("css selector", "#steps li.running"))
        activity = events.MachineActivity(values={**shares, "cpu_iowait": 0.1})
        told.tell(*[activity.model_copy(update={"at": events.now()}) for _ in range(6)])
        page.until(lambda _: "at work" in chrome.find_element("id", "tiles").text)
        tiles, keys = (chrome.find_element("id", name).text for name in ("tiles", "charts"))
        live._process.kill()
    assert "81%\nprocessors at work, 15% of it stolen" in tiles
    assert all(name in keys for name in ("niced", "guests", "soft interrupts", "stolen"))
    assert "guests, niced" not in keys

    with chosen(f"127.0.0.1:{port}", told):
        page.until(lambda _: "does not ask again" in chrome.find_element("id", "gone").text)
        assert "with the token that was chosen" in chrome.find_element("id", "gone").text
        assert chrome.find_element("id", "status").text == "running, last known"
        clocks = [chrome.find_element("id", "left").text]
        chrome.execute_async_script("setTimeout(arguments[0], 2500)")
        clocks.append(chrome.find_element("id", "left").text)
        assert clocks[0] == clocks[1]
        assert chrome.find_element("id", "tiles").text == ""


@pytest.mark.slow
def test_lines_and_areas_end_with_the_step_that_they_are_of(
    told: Told, chrome: webdriver.Chrome
) -> None:
    """Nothing is drawn from the last value of a step to the first one of the next."""
    start = datetime.now(UTC)

    def at(seconds: int) -> str:
        return (start + timedelta(seconds=seconds)).isoformat()

    def figures(second: int) -> list[events.Event]:
        machine = events.MachineActivity(at=at(second), values={"cpu_user": 0.5})
        return [events.Figures(at=at(second), values={"riops": 9.0}), machine]

    end = events.StepEnded(
        at=at(3), name="s1", repeat=1, status="done", reason="", seconds=3.0, measured={}
    )
    begin = events.Begin(at=at(4), name="s2", repeat=1)
    first, second = (
        [one for n in seconds for one in figures(n)] for seconds in ((1, 2, 3), (5, 6))
    )
    with chosen("127.0.0.1:0", told) as (_, port):
        chrome.get(f"http://127.0.0.1:{port}/?token={TOKEN}")
        told.tell(*first, end, begin, *second, *figures(7))
        page = WebDriverWait(chrome, 180)
        page.until(lambda _: _values_drawn(chrome, "polygon.area.k0") == [3, 3])

        # The first step has a figure from before the test.
        assert _values_drawn(chrome, "polyline.line.k0") == [4, 3]


def _values_drawn(chrome: webdriver.Chrome, drawn: str) -> list[int]:
    """Return the number of values of each line, or area, of one kind in the charts."""
    script = "return [...document.querySelectorAll(arguments[0])].map((one) => one.points.length)"
    points = chrome.execute_script(script, f"#charts {drawn}")
    # An area goes back along the axis.
    return [number - 2 if drawn.startswith("polygon") else number for number in points]


@pytest.mark.slow
def test_a_run_that_has_ended_has_its_headline_and_what_can_be_believed(
    told: Told, chrome: webdriver.Chrome
) -> None:
    """The marks of the steps are the report's, and a list without a line is not shown."""
    rate = events.Number(
        metric="build.rows_per_second", value=85041.0, unit="rows/s", text="85,041 rows/s"
    )
    doubtful, wrong = (
        events.StepEnded(
            name=name, repeat=1, status="done", reason="", seconds=3.0, measured={}, figures=(rate,)
        )
        for name in ("s1", "s2")
    )
    answer = {"headline": "It read a lot.", "believed": {"s1": "with care", "s2": "no"}}
    state = run_state(told.run, told.result).model_copy(update={"status": "done", **answer})
    with chosen("127.0.0.1:0", told) as (_, port):
        chrome.get(f"http://127.0.0.1:{port}/?token={TOKEN}")
        page = WebDriverWait(chrome, 180)
        page.until(lambda _: chrome.find_elements("css selector", "#steps li.running"))
        assert not chrome.find_element("id", "headline").is_displayed()
        told.tell(doubtful, wrong, state)
        page.until(lambda _: chrome.find_element("id", "headline").text == "It read a lot.")
        marks = [one.text for one in chrome.find_elements("css selector", "#steps .mark")]
        figures = [one.text for one in chrome.find_elements("css selector", "#steps .figure")]
        lists = chrome.find_elements("css selector", ".lists > div")
        assert not any(one.is_displayed() for one in lists)

    assert marks == ["!", "✗"]
    assert figures == ["85,041 rows/s", "85,041 rows/s"]


@pytest.mark.slow
def test_a_real_run_is_seen_in_a_browser_to_its_report(
    replayer: Replayer, workload: Path, chrome: webdriver.Chrome, tmp_path: Path
) -> None:
    """Its steps and figures come by themselves, nothing in its label runs, then the report."""
    label = f"{EVIL}{'y' * 10_000}"
    running = replayer.start(
        "run", workload, "--live", "--live-for", "10m", "--label", label, "--note", EVIL
    )
    chrome.get(matched(LINK, line_with(running.stderr, LINK))[0])
    wait = WebDriverWait(chrome, 180)
    wait.until(lambda _: chrome.find_elements("css selector", "#steps li.done"))
    chrome.refresh()
    wait.until(lambda _: len(chrome.find_elements("css selector", "#steps li.done")) == 2)
    wait.until(lambda _: chrome.find_elements("css selector", "iframe"))
    shown = chrome.find_element("id", "title").text
    headline = chrome.find_element("id", "headline").text
    chrome.switch_to.frame(chrome.find_element("css selector", "iframe"))
    wait.until(lambda _: chrome.find_elements("css selector", "h1"))
    report = chrome.page_source
    hacked = [chrome.execute_script("return window.hacked")]
    chrome.switch_to.default_content()
    hacked.append(chrome.execute_script("return window.hacked"))
    errors = [one["message"] for one in console(chrome) if one["level"] == "SEVERE"]
    (path,) = (tmp_path / "results").glob("2*.json")

    assert hacked == [None, None]
    assert "<script>" in shown
    assert len(shown) < 2000
    assert store.load(path).id in report
    assert headline == store.load(path).headline
    assert errors == []
    assert "token" not in chrome.current_url
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=120)
    assert running.returncode == 0


@pytest.mark.slow
def test_who_looks_on_has_the_report_before_the_page_ends(
    replayer: Replayer, workload: Path, chrome: webdriver.Chrome
) -> None:
    """Without a terminal the page ends with the run, but not in the middle of its report."""
    # Long enough for a browser on a busy machine to be there before the end.
    workload.write_text(QUICK.replace('"1s"', '"10s"'))
    running = replayer.start("run", workload, "--live")
    chrome.get(matched(LINK, line_with(running.stderr, LINK))[0])
    wait = WebDriverWait(chrome, 180)
    wait.until(lambda _: chrome.find_elements("css selector", "iframe"))
    chrome.switch_to.frame(chrome.find_element("css selector", "iframe"))
    wait.until(lambda _: chrome.find_elements("css selector", "h1"))
    running.communicate(timeout=120)
    errors = [one["message"] for one in console(chrome) if one["level"] == "SEVERE"]

    assert running.returncode == 0
    assert not [one for one in errors if "/report" in one or "Security" in one]


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_the_page_goes_when_the_run_is_stopped(
    replayer: Replayer, workload: Path, how: signal.Signals
) -> None:
    """After Ctrl-C and after a kill nobody listens any more, and no process is left."""
    workload.write_text(QUICK.replace('"1s"', '"60s"'))
    running = replayer.start("run", workload, "--live", "--live-for", "10m")
    browser = Browser(line_with(running.stderr, LINK))
    browser.open()
    with browser.messages() as messages:
        message_with(messages, lambda one: one["state"]["tasks"])
        children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
        pages = [pid for pid in children if b"replayer.live" in _arguments(pid)]
        running.send_signal(how)
        running.communicate(timeout=120)

    assert len(pages) == 1
    wait_until(lambda: not _arguments(pages[0]))
    with pytest.raises(OSError, match=r"refused|reset"):
        browser.ask("/")


def _arguments(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.slow
def test_what_a_killed_run_told_is_removed_by_the_next_command(
    replayer: Replayer, own_home: Path, workload: Path, tmp_path: Path
) -> None:
    """The file is there while the run is, and not longer than until somebody comes by."""
    workload.write_text(QUICK.replace('"1s"', '"60s"'))
    running = replayer.start("run", workload, "-q")
    results = tmp_path / "results"
    (path,) = wait_until(lambda: list(results.glob(".*.events")))
    running.kill()
    running.communicate(timeout=60)
    assert path.exists()
    replayer("clean", "--yes")
    assert not path.exists()
