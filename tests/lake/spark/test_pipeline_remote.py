"""The connections to servers: a few are kept, and none is left open."""

import gc
import json
import threading
import warnings
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from rowcast.core.errors import Error
from rowcast.core.pipeline_limits import REMOTE_SERVERS_MAX
from rowcast_lake.spark.log_rows import events
from rowcast_lake.spark.options import Options
from rowcast_lake.spark.remote import Remote
from rowcast_lake.spark.sink import Bringer


class Handler(BaseHTTPRequestHandler):
    """Answers every request, and keeps its connection."""

    protocol_version = "HTTP/1.1"
    asked = 0

    def do_GET(self):
        if "_from" in self.path:
            self.send_events()
            return
        body = self.headers.get("authorization", "").encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body) + 2))
        self.end_headers()
        self.wfile.write(b'"%s"' % body)

    def do_POST(self):
        """Be busy twice with a request that is being carried out, then say what became of it."""
        self.rfile.read(int(self.headers["content-length"]))
        Handler.asked += 1
        status, body = (503, b'{"code":"BUSY"}') if Handler.asked < 3 else (200, b'{"written":1}')
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def send_events(self):
        """Be busy first, then send one event and end, then send the rest."""
        Handler.asked += 1
        if Handler.asked == 1:
            self.send_response(503)
            self.send_header("content-length", "0")
            self.end_headers()
            return
        after, last = (int(text.rpartition(":")[2]) for text in self.path.split("&"))
        rows = [b'{"topic":"Dog/1","value":{},"_seq":%d}\n' % n for n in range(after + 1, last + 1)]
        self.send_response(200)
        self.send_header("content-length", str(sum(map(len, rows))))
        self.send_header("connection", "close")  # or the client might ask on it before it knows
        self.end_headers()
        self.wfile.write(b"".join(rows[:1] if Handler.asked == 2 else rows))
        self.close_connection = True

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def url():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_connections_that_are_no_longer_kept_are_closed(url):
    """A job may talk to many servers, and to one with many names."""
    gc.collect()  # what others left
    with warnings.catch_warnings(record=True) as left:
        warnings.simplefilter("always", ResourceWarning)
        for number in range(2 * REMOTE_SERVERS_MAX):
            assert f"Bearer {number}" == Remote(url, f"Bearer {number}").get("/x")
        gc.collect()
    assert [] == left


@pytest.mark.slow
def test_m5_a_commit_that_takes_long_is_asked_for_until_it_is_done(url, tmp_path):
    """M5: as long as the server answers; one that does not is given up as ever."""
    Handler.asked, receipt = 0, tmp_path / "receipt"
    options = Options({"url": url, "table": "Dog", "receipt": str(receipt)})
    Bringer(options, replace=True, patience_seconds=1).commit([], "0badcafe:1")
    assert json.loads(receipt.read_text()) == {"written": 1}
    assert Handler.asked == 3
    gone = Options({"url": "http://127.0.0.1:1", "table": "Dog"})
    with pytest.raises(Error, match="does not answer"):
        Bringer(gone, replace=True, patience_seconds=1).commit([], "0badcafe:1")


@pytest.mark.slow
def test_s13_events_are_asked_for_again_while_the_server_is_busy(url):
    """S13: by the task that reads them, as after a lost connection; each is read once."""
    Handler.asked = 0
    read = events(Remote(url, patience_seconds=5), "/Dog/", "0badcafe", 4, 9)
    assert [row["_seq"] for row in read] == [5, 6, 7, 8, 9]
    assert Handler.asked == 3
    Handler.asked = 0
    with pytest.raises(Error, match="503"):
        list(events(Remote(url, patience_seconds=0), "/Dog/", "0badcafe", 4, 9))
