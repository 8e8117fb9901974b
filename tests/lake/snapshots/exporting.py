"""A whole server whose exports are made by a program of the test's own, and a client that asks."""

import asyncio
import sys
from contextlib import asynccontextmanager

from http_clients import http_client
from serving import application, until

EXPORTER = """
import json, os, pathlib, sys
sys.path.insert(0, {folder!r})
from made_up_snapshots import put_snapshot
changes = {changes}
{before}
print(json.dumps(dict(rows=1, of=2, table="Dog")), flush=True)
print("no json")
{after}
put_snapshot(pathlib.Path({root!r}), {seq})
"""


class Exporting:
    """A server, its snapshot store, and what its exporter does."""

    def __init__(self, root, folder, monkeypatch):
        self.root = root
        self.orders = []
        self.before = self.after = ""
        self.seq = 100
        self._folder = folder
        monkeypatch.setattr("rowcast.program.exporting.export_command", self.command)

    def command(self, _config, order):
        self.orders.append(order)
        self.seq += 1
        text = EXPORTER.format(folder=self._folder, root=str(self.root), seq=self.seq,
                               changes=order.changes, before=self.before,
                               after=self.after)  # fmt: skip
        return [sys.executable, "-c", text]

    @asynccontextmanager
    async def running(self, **settings):
        async with application(self.root.parent.parent, settings=settings) as served:
            self.exports, self.kernel = served.features["snapshots"].exports, served.kernel
            base = f"http://127.0.0.1:{served.http_port}/$SYS/snapshots"
            async with http_client(base_url=base) as self.client:
                yield self

    async def ask(self, method, path="", **options):
        return await self.client.request(method, f"/{path}", **options)

    async def status_of(self, path):
        """Ask for a path as it is spelled; a client would tidy it up."""
        url = self.client.base_url
        reader, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        return int(answer.split()[1])

    async def row(self, path):
        return (await self.ask("GET", path)).json()

    async def ended(self, job):
        """Wait for the end of a job, and return its row."""
        await until(lambda: not self.exports.open_jobs)
        return await self.row(job)
