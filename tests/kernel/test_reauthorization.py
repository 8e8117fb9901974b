"""Access: who may stay is judged anew (L5, L8, C28)."""

import asyncio
from dataclasses import replace

import pytest

from build import ANN, Server, code_of
from rowcast.core.callers import NONE, SERVER
from rowcast.core.errors import Code, Error
from rowcast.core.topics import TopicFilter
from rowcast.kernel.reauthorization import renew
from rowcast.subscriptions.subscription import SubscribedFilter, Subscription
from serving import PATIENCE_SECONDS


async def test_l8_who_listens_hears_of_each_change():
    room, heard = Server(), []
    access = room.kernel.reauthorization
    access.listen(lambda: heard.append(access.revision))
    access.changed()
    access.changed()
    assert [1, 2] == heard


async def test_the_server_itself_is_not_judged():
    room = Server()

    def nobody(caller):
        raise Error(Code.DENIED, "away")

    room.kernel.reauthorization.judges.append(nobody)
    assert SERVER is room.kernel.reauthorization.current(SERVER)
    assert Code.DENIED == code_of(room.kernel.reauthorization.current, ANN)


async def test_l5_the_end_of_a_token_is_a_change():
    room, over = Server(), asyncio.Event()
    access = room.kernel.reauthorization
    access.listen(over.set)
    access.expect(replace(ANN, until=room.kernel.now() + 10_000_000))  # the first does not win
    access.expect(replace(ANN, until=room.kernel.now()))
    await asyncio.wait_for(over.wait(), PATIENCE_SECONDS)
    access.stop()


async def test_l8_a_reader_without_the_right_is_told():
    room = Server()
    subscription = Subscription(room.kernel.reader)
    room.kernel.watch(subscription, SubscribedFilter(TopicFilter("a/#")), ANN)
    with pytest.raises(Error) as refused:
        renew(room.kernel, subscription, replace(ANN, grants=NONE))
    assert Code.DENIED is refused.value.code
    assert ANN is subscription.caller
    again = replace(ANN)
    renew(room.kernel, subscription, again)
    assert again is subscription.caller
