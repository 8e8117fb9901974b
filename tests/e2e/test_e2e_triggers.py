"""Functions and webhooks for events, of the real program over kills (G23, G24)."""

import random

import pytest

from serving import Server, wait_until
from webhook_receiver import webhook_receiver

pytestmark = pytest.mark.slow

SCHEMA = """
type Order @table @export { id: ID @primaryKey n: Int }
type Total @table @export { id: ID @primaryKey n: Int }
type Entry @table @export { id: ID @primaryKey n: Int }
"""
CODE = '''
from rowcast import on, server

local = server.client("books")


@on("Order/+")
async def book(event):
    """Two writes for each order: an entry, and a message that says so."""
    n = local.value(event)["n"]
    await local.publish(f"Entry/{n}", {"n": n}, retain=True)
    await local.publish("booked", str(n))
'''
ROUNDS = 4
ORDERS = 40
"""In each round."""


def test_effects_of_a_trigger_are_there_once_over_kills(tmp_path):
    """G23: what it writes is marked; and a webhook gets each event, at least once, in order."""
    rng = random.Random(7)
    code = tmp_path / "resources"
    code.mkdir()
    (code / "books.py").write_text(CODE)
    with webhook_receiver() as receiver:
        hook = f'[{{"name":"ops","topics":["Order/+"],"url":"{receiver.url}","secret":"s"}}]'
        settings = {"triggers.webhooks": hook}
        with Server(tmp_path, SCHEMA, code, settings) as server:
            for count in range(ROUNDS):
                receiver.refusing = count == 1
                for n in range(count * ORDERS, (count + 1) * ORDERS):
                    server.request("PUT", f"/Order/{n}", json={"n": n}).raise_for_status()
                    if n % ORDERS == rng.randrange(ORDERS):
                        break
                server.kill()
                server.start()
            receiver.refusing = False
            server.request("PUT", "/Order/last", json={"n": 10**6}).raise_for_status()
            wait_until(lambda: has(server, f"/Entry/{10**6}"), "the trigger has come to the end")
            orders = server.request("GET", "/Order/?sort(n)&limit(1000)").json()
            wait_until(lambda: receiver.taken[-1:] and last(receiver) == 10**6, "all is posted")
            numbers = [order["n"] for order in orders]
            entries = server.request("GET", "/Entry/?sort(n)&limit(1000)").json()
            assert numbers == [entry["n"] for entry in entries]
            assert numbers == [int(row["value"]) for row in history(server, "/booked")]
            once = dict(receiver.taken)
            assert numbers == [body["data"]["value"]["n"] for body in once.values()]
            assert all("Webhook-Signature" in headers for headers in named(receiver))
            rows = {row["id"]: row for row in server.request("GET", "/$SYS/triggers/").json()}
            assert {"books.book", "ops"} == set(rows)
            assert [] == server.request("GET", "/$SYS/trigger_failures/").json()


def has(server, path):
    return server.request("GET", path).status_code == 200


def last(receiver):
    return receiver.taken[-1][1]["data"]["value"]["n"]


def named(receiver):
    return [{name.title() for name in headers} for headers in receiver.headers]


def history(server, path):
    return server.request("GET", f"{path}?last=1000").json()
