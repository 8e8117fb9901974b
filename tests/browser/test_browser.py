"""Headless Chromium against the whole program: EventSource and WebSocket as a page uses them.

The address in the snippets, `server`, leads to this machine by a rule of the browser and
through a TLS terminator, for the snippets say `https` and `wss`. They are used here unchanged.
"""

import shutil

import pytest
from playwright.sync_api import sync_playwright
from tls_proxy import TlsProxy, certificate

from serving import PATIENCE_SECONDS, Server
from talking import wipe

CHROMIUM = next(
    (
        path
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (path := shutil.which(name))
    ),
    None,
)
pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--ignore-certificate-errors",
    "--disable-features=LocalNetworkAccessChecks",
]
HEARD = "window.heard = [];"
WEBSOCKET_SNIPPET = """
let ws = new WebSocket('wss://server/my-resource/341');
ws.onmessage = (event) => {
	// received a notification from the server
	let data = JSON.parse(event.data);
};
"""
EVENT_SOURCE_SNIPPET = """
let eventSource = new EventSource('https://server/my-resource/341', { withCredentials: true });
eventSource.onmessage = (event) => {
	// received a notification from the server
	let data = JSON.parse(event.data);
};
"""
LISTENING = """
for (const kind of ['message', 'delete']) {
  {name}.addEventListener(kind, (event) => window.heard.push(JSON.parse(event.data)));
}
"""
"""What the test adds after a snippet, to hear the same events; deletes have a name of their own."""


def run_snippet(page, snippet):
    """Run a snippet as a script of the page's."""
    name = snippet.split()[1]
    page.add_script_tag(content=snippet + LISTENING.replace("{name}", name))


def run(page, statements):
    """Run statements in a page."""
    page.evaluate(f"() => {{ {statements} }}")


@pytest.fixture(scope="module")
def proxy(tmp_path_factory):
    with TlsProxy(certificate(tmp_path_factory.mktemp("tls"), "server")) as listening:
        yield listening


@pytest.fixture(scope="module")
def chromium(proxy):
    rule = f"--host-resolver-rules=MAP server:443 127.0.0.1:{proxy.port}"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS, rule])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    with Server(folder, settings={"http.cors": "https://server", "sse.retry_ms": 100}) as running:
        yield running


@pytest.fixture
def server(process):
    wipe(process)
    return process


@pytest.fixture
def page(chromium, proxy, server):
    """A page of the server's own origin, empty but for the list of what it hears."""
    proxy.target = server.http_port
    opened = chromium.new_page(ignore_https_errors=True)
    opened.set_default_timeout(PATIENCE_SECONDS * 1000)
    opened.route("https://server/empty", lambda route: route.fulfill(body=""))
    opened.goto("https://server/empty")
    opened.evaluate(HEARD)
    yield opened
    opened.close()


def heard(page, count):
    """Return what a page heard, once it is so much; without the mark that ends the records.

    An EventSource gives that mark to listeners for `current` only, a WebSocket to all.
    """
    kept = "window.heard.filter((said) => said.kind !== 'current')"
    page.wait_for_function(f"{kept}.length >= {count}")
    return page.evaluate(kept)


@pytest.mark.parametrize("snippet", [WEBSOCKET_SNIPPET, EVENT_SOURCE_SNIPPET], ids=["ws", "sse"])
def test_a_snippet_hears_the_record_and_its_changes(page, server, snippet):
    """C1, C4: the snippet as it is, on a record that is there already."""
    server.request("PUT", "/my-resource/341", json={"n": 0})
    run_snippet(page, snippet)
    heard(page, 1)
    server.request("PUT", "/my-resource/341", json={"n": 1})
    server.request("POST", "/my-resource/341?retain=false", json={"n": 2})
    server.request("DELETE", "/my-resource/341")
    events = heard(page, 4)
    assert ["snapshot", "put", "message", "delete"] == [event["kind"] for event in events]
    assert [{"n": 0}, {"n": 1}, {"n": 2}] == [event["value"] for event in events[:3]]


def test_both_snippets_hear_the_same(page, server):
    server.request("PUT", "/my-resource/341", json={"n": 0})
    run_snippet(page, EVENT_SOURCE_SNIPPET)
    heard(page, 1)
    run_snippet(page, WEBSOCKET_SNIPPET)
    heard(page, 2)
    server.request("PUT", "/my-resource/341", json={"n": 1})
    one, other = heard(page, 4)[2:]
    assert one == other


COUNTING = """
window.resets = 0;
window.opened = 0;
window.source = new EventSource('https://server/Counter/');
window.source.onopen = () => { window.opened += 1; };
window.source.addEventListener('reset', () => { window.resets += 1; });
window.source.onmessage = (event) => {
  const data = JSON.parse(event.data);
  if (data.kind === 'put') { window.heard.push(data.value.n); }
};
"""


def test_event_source_goes_on_after_a_restart_without_losing_an_event(page, server):
    """C9, M1: the browser sends Last-Event-ID by itself; the log has what it missed."""
    run(page, COUNTING)
    page.wait_for_function("window.opened === 1")
    for n in range(50):
        server.request("PUT", "/Counter/c", json={"n": n})
    heard(page, 50)
    server.stop()
    server.start()
    for n in range(50, 100):  # before the browser is back
        server.request("PUT", "/Counter/c", json={"n": n})
    assert list(range(100)) == heard(page, 100)
    assert 2 == page.evaluate("window.opened")
    assert 0 == page.evaluate("window.resets")


def test_the_timer_example_greets_a_page(page):
    """C6, C7: by WebSocket it also says back what it hears; by SSE nobody speaks."""
    run(
        page,
        """
        window.ws = new WebSocket('wss://server/Example');
        window.ws.onmessage = (event) => window.heard.push(JSON.parse(event.data));
        window.ws.onopen = () => window.ws.send(JSON.stringify({ hello: 1 }));
    """,
    )
    assert {"hello": 1} in heard(page, 2)
    assert {"greeting": "hi again!"} in heard(page, 2)
    run(
        page,
        """
        window.source = new EventSource('https://server/Example');
        window.source.onmessage = (event) => window.heard.push(['sse', JSON.parse(event.data)]);
    """,
    )
    page.wait_for_function("window.heard.some((said) => said[0] === 'sse')")


def test_the_echo_says_again_what_it_hears(page):
    """C5."""
    run(
        page,
        """
        window.ws = new WebSocket('wss://server/Echo');
        window.ws.onmessage = (event) => window.heard.push(JSON.parse(event.data));
        window.ws.onopen = () => [1, 2, 3].forEach((n) => window.ws.send(JSON.stringify(n)));
    """,
    )
    assert [1, 2, 3] == heard(page, 3)


def test_fetch_reads_and_writes(page):
    answer = page.evaluate("""async () => {
        const body = JSON.stringify({ name: 'Rex' });
        const headers = { 'Content-Type': 'application/json' };
        const put = await fetch('/Dog/1', { method: 'PUT', body, headers });
        const get = await fetch('/Dog/1');
        return [put.status, await get.json(), put.headers.get('etag') === get.headers.get('etag')];
    }""")
    assert [201, {"id": "1", "name": "Rex"}, True] == answer


def test_a_foreign_page_may_neither_listen_nor_write(chromium, server):
    """C4: an origin that nobody configured; the server answers, the browser does not tell."""
    foreign = chromium.new_page()
    foreign.route("http://foreign.example/", lambda route: route.fulfill(body=""))
    foreign.goto("http://foreign.example/")
    said = foreign.evaluate(
        """async (url) => {
        const source = new Promise((done) => {
            const events = new EventSource(url + '/Dog/');
            events.onopen = () => done('open');
            events.onerror = () => { events.close(); done('refused'); };
        });
        const socket = new Promise((done) => {
            const ws = new WebSocket(url.replace('http', 'ws') + '/Dog/');
            ws.onopen = () => done('open');
            ws.onerror = () => done('refused');
        });
        const put = fetch(url + '/Dog/1', { method: 'PUT', body: '{"name": "x"}' })
            .then(() => 'open', () => 'refused');
        return Promise.all([source, socket, put]);
    }""",
        server.url,
    )
    foreign.close()
    assert (["refused"] * 3, 404) == (said, server.request("GET", "/Dog/1").status_code)
