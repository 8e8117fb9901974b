"""A receiver of webhooks on this machine, which may refuse them."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer


class WebhookReceiver(HTTPServer):
    """Remembers what is posted, as (id, body); refuses as long as ``refusing``."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Posted)
        self.taken, self.refused = [], 0
        self.headers = []
        self.refusing = False

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/in"


class _Posted(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        server = self.server
        if server.refusing:
            server.refused += 1
        else:
            server.headers.append(dict(self.headers))
            server.taken.append((self.headers["webhook-id"], json.loads(body)))
        self.send_response(503 if server.refusing else 204)
        self.end_headers()

    def log_message(self, *_):
        """Say nothing."""


@contextmanager
def webhook_receiver():
    """Serve one on a thread."""
    receiver = WebhookReceiver()
    thread = threading.Thread(target=receiver.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield receiver
    finally:
        receiver.shutdown()
        thread.join()
        receiver.server_close()
