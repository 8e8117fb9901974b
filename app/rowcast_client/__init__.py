"""Rowcast in Python: read, write and watch records, each event once over lost connections.

    from rowcast_client import Rowcast

    async with Rowcast("http://127.0.0.1:9926") as rows:  # user= and password=, or token= as well
        await rows.put("Dog/1", {"name": "Rex"})
        dog = await rows.get("Dog/1")  # .value, .cursor
        await rows.patch("Dog/1", {"age": 3}, if_match=dog.cursor)  # or a Problem
        async for event in rows.subscribe("Dog/#"):
            print(event.kind, event.topic, event.value)

``SyncRowcast`` is the same without asyncio. ``format="cbor"`` or ``"msgpack"`` keeps dates,
decimals and bytes what they are. A lost connection is made again, after a pause that grows and has
a random part, and goes on at the cursor: nothing is lost or comes twice. What was not passed on is
an event ``gap``; after ``reset`` all begins anew: ``snapshot`` events, then ``current``.
"""

from rowcast_client.asynchronous import Rowcast, Subscription
from rowcast_client.blocking import SyncRowcast, SyncSubscription
from rowcast_client.calls import Answer, HistoryReads, Page, Written
from rowcast_client.events import Event
from rowcast_client.problem import Problem

__all__ = [
    "Answer",
    "Event",
    "HistoryReads",
    "Page",
    "Problem",
    "Rowcast",
    "Subscription",
    "SyncRowcast",
    "SyncSubscription",
    "Written",
]
