"""Events that a hook has made wrong: refused with a sentence, and the log stays readable (G12)."""

import asyncio

import pytest

from build import ANN, Code, Server
from rowcast.core.errors import Error
from rowcast.core.events import PUT, Event
from rowcast.features.hooks.hook import Hook
from rowcast.features.hooks.hooks import Hooks
from serving import PROMPT_SECONDS

MISTAKES = [
    ({"payload": "text"}, "payload is bytes, and not of type str"),
    ({"payload": None}, "payload is bytes, and not None"),
    ({"content_type": 5}, "content_type is text or None, and not 5"),
    ({"qos": 3}, "qos is 0, 1 or 2, and not 3"),
    ({"qos": True}, "qos is 0, 1 or 2, and not True"),
    ({"qos": 1.0}, "qos is 0, 1 or 2, and not of type float"),
    ({"kind": "upsert"}, "kind is put, patch, delete or message, and not of type str"),
    ({"client": None}, "client is text, and not None"),
    ({"properties": {1: "x"}}, "properties is a map whose names are text, or None, and not of"),
    ({"expires_at": None}, "expires_at is seconds since 1970, or 0 for never, and not None"),
]


def returned(facts):
    """Return a hook that gives another event instead of one."""

    class Returning(Hook):
        def on_publish_received(self, caller, event):
            return event.changed(**facts)

    return Returning()


def set_there(facts):
    """Return a hook that changes the event itself, and waits."""

    class Setting(Hook):
        async def on_publish(self, caller, event):
            for name, value in facts.items():
                setattr(event, name, value)

    return Setting()


@pytest.mark.parametrize("made", [returned, set_there])
@pytest.mark.parametrize(("facts", "words"), MISTAKES)
async def test_g12_an_event_that_a_log_cannot_have_is_a_mistake(facts, words, made, caplog):
    hooks = Hooks()
    hooks.add(made(facts))
    server = Server(hooks=hooks)
    with pytest.raises(Error) as refused:
        async with asyncio.timeout(PROMPT_SECONDS):
            await server.kernel.write(Event("a/b", PUT, b"x", qos=1, retain=True), ANN)
    assert refused.value.code is Code.INTERNAL
    told = f"it made an event whose {words}", "TypeError"  # raised by a compiled event itself
    assert any(one in caplog.text for one in told)
    assert [] == server.store.read(0, 1)
