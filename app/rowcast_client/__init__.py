"""Rowcast in Python: read, write and watch records, each event once over lost connections.

    from rowcast_client import Rowcast

    async with Rowcast("http://127.0.0.1:9926") as rows:  # user= and password=, or token= as well
        await rows.put("Dog/1", {"name": "Rex"})
        dog = await rows.get("Dog/1")  # .value, .cursor
        await rows.patch("Dog/1", {"age": 3}, if_match=dog.cursor)  # or a Problem
        async for event in rows.subscribe("Dog/#"):
            print(event.kind, event.topic, event.value)

``Socket`` has subscriptions, writes and a will on one WebSocket, ``Presence`` a record that says
whether a program is there. ``SyncRowcast``, ``SyncSocket`` and ``SyncPresence`` are the same
without asyncio. ``format="cbor"`` or ``"msgpack"`` keeps dates, decimals and bytes as such. A lost
connection is reopened, with exponential backoff and jitter, and resumes at the cursor: no event is
lost or delivered twice. Skipped events are reported by an event ``gap``; after ``reset`` the stream
starts over: ``snapshot`` events, then ``current``.
"""

from rowcast_client.asynchronous import Rowcast, Subscription
from rowcast_client.blocking import SyncRowcast, SyncSubscription
from rowcast_client.blocking_websocket import SyncPresence, SyncSocket, SyncSocketSubscription
from rowcast_client.bounds import SocketBounds
from rowcast_client.calls import Answer, HistoryReads, Page, Written
from rowcast_client.events import Event
from rowcast_client.link import Will
from rowcast_client.presence import Presence
from rowcast_client.problem import Problem
from rowcast_client.websocket import Socket, SocketSubscription

__all__ = [
    "Answer",
    "Event",
    "HistoryReads",
    "Page",
    "Presence",
    "Problem",
    "Rowcast",
    "Socket",
    "SocketBounds",
    "SocketSubscription",
    "Subscription",
    "SyncPresence",
    "SyncRowcast",
    "SyncSocket",
    "SyncSocketSubscription",
    "SyncSubscription",
    "Will",
    "Written",
]
