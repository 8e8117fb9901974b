"""Imports to whole servers, killed under way and through workers: a row is one event (S19, B17)."""

import re

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rowcast.schema import parse_schema
from rowcast_client import SyncRowcast
from rowcast_lake.commands.import_requests import ImportRequests, Patience, Place
from rowcast_lake.commands.importing import Sender
from rowcast_lake.snapshots.importing import Importer
from serving import SCHEMA, Server, rowcast, wait_until

ROWS = 5_000
BATCHES = 5
COUNTER = next(table for table in parse_schema(SCHEMA).tables if table.name == "Counter")


@pytest.fixture
def server(tmp_path):
    with Server(tmp_path) as running:
        yield running


class Killing(httpx.BaseTransport):
    """The way to a server that is killed after it wrote a batch, before the client hears of it."""

    def __init__(self, server, at):
        self.server, self.at = server, at
        self.inner = httpx.HTTPTransport()
        self.count = 0

    def handle_request(self, request):
        self.count += 1
        request.url = request.url.copy_with(port=self.server.http_port)
        answer = self.inner.handle_request(request)
        if self.count in self.at:
            assert 204 == answer.status_code
            self.server.kill()
            raise httpx.ReadError("connection reset by peer")
        return answer

    def wait(self, _seconds):
        """Start the server again, in place of waiting."""
        self.server.start()

    def close(self):
        self.inner.close()


def test_s19_b17_a_server_that_is_killed_twice_has_each_row_once(server, tmp_path):
    """S19, B17: the records of the killed batches keep the events that they had."""
    path, topics = file_of_rows(tmp_path)
    wire = Killing(server, {2, 5})
    with SyncRowcast(server.url, transport=wire) as client:
        requests = ImportRequests(client, Patience(attempts=3), wire.wait)
        sender = Sender(requests, COUNTER, Place.start())
        sender.send(Importer(COUNTER).parts(path))
    assert (ROWS, BATCHES + 2) == (sender.rows, wire.count)
    assert topics == topics_of(server.url)


def file_of_rows(folder):
    """Write a file of counters; return it, and the topics of its rows."""
    path, numbers = folder / "rows.parquet", range(ROWS)
    columns = {"id": [f"{number:05}" for number in numbers], "n": list(numbers)}
    pq.write_table(pa.table(columns), path)
    return path, [f"Counter/{name}" for name in columns["id"]]


def topics_of(url):
    """Return the topics of all events of the counters, in the order of the log."""
    with SyncRowcast(url) as client:
        events, query = [], "from=0&limit=1000"
        while query:
            page = client.history("Counter/", query)
            events += [event["topic"] for event in page.events]
            query = page.next
    return events


def test_s19_k1_an_import_through_workers_has_each_row_once(tmp_path):
    """S19, K1: the server has all that the command says, and the workers, once they follow."""
    path, topics = file_of_rows(tmp_path)
    settings = {"workers.count": 2, "workers.http_port": 0, "workers.mqtt_port": 0}
    with Server(tmp_path, settings=settings) as server:
        port = re.search(r"  2 workers +http://[\d.]+:(\d+)/", server.log)[1]
        url = f"http://127.0.0.1:{port}"
        place = ("import", "Counter", path, "--schema", server.schema_file)
        done = rowcast(*place, "--url", url)
        assert (0, str(ROWS)) == (done.returncode, done.stdout.strip()), done.stderr
        assert topics == topics_of(server.url)
        last = f"/{topics[-1]}"
        assert {"id": topics[-1][-5:], "n": ROWS - 1} == server.request("GET", last).json()
        wait_until(lambda: topics == topics_of(url), "the workers have all rows")
        refused = rowcast("import", "Dog", path, "--schema", server.schema_file, "--url", url)
        assert 1 == refused.returncode
        assert topics == topics_of(server.url)
