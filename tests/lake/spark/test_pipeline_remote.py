"""The connections to servers: a few are kept, and none is left open."""

import gc
import threading
import warnings
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from rowcast.core.pipeline_limits import REMOTE_SERVERS_MAX
from rowcast_lake.spark.remote import Remote


class Handler(BaseHTTPRequestHandler):
    """Answers every request, and keeps its connection."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = self.headers.get("authorization", "").encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body) + 2))
        self.end_headers()
        self.wfile.write(b'"%s"' % body)

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
