"""The hooks that the manual shows, as they stand there (docs/python.md)."""

import re

import pytest

from house import ROOT
from rowcast.core.callers import ALL, Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import MESSAGE, Event
from rowcast.core.topics import TopicFilter
from rowcast.features.hooks.hooks import COLLECTING, Hooks
from rowcast.subscriptions.subscribed_filters import SubscribedFilter

BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs/python.md").read_text(), re.DOTALL)
CAT, ANN, GUEST = (Caller(name, ALL, "mqtt", name) for name in ("cat", "ann", "guest"))


@pytest.fixture
def hooks():
    """The hooks of the chapter's example, collected as of a file in resources/."""
    (block,) = [text for text in BLOCKS if "class Kennel(Hook)" in text]
    collected = Hooks()
    token = COLLECTING.set(collected)
    try:
        exec(compile(block, "docs/python.md", "exec"), {"__name__": "kennel"})
    finally:
        COLLECTING.reset(token)
    return collected


def test_a_filter_is_judged_and_changed(hooks):
    """G4: what the table of methods says of on_subscribe."""
    asked = SubscribedFilter(TopicFilter("Dog/#"))
    with pytest.raises(Error, match="cats do not watch the dogs"):
        hooks.subscribe(CAT, asked)
    assert False is hooks.subscribe(ANN, asked)
    renamed = SubscribedFilter(TopicFilter("dogs"))
    assert (True, "Dog/#") == (hooks.subscribe(ANN, renamed), renamed.filter)


def test_what_no_filter_is_refused(hooks):
    with pytest.raises(Error) as caught:
        SubscribedFilter(TopicFilter("a")).filter = "a/#/b"
    assert Code.INVALID is caught.value.code
    assert hooks.subscribe(ANN, SubscribedFilter(TopicFilter("a"))) is False


async def test_writes_and_deliveries_are_as_shown(hooks):
    with pytest.raises(Error, match="cats do not write about dogs"):
        hooks.publish(CAT, Event("Dog/1", MESSAGE, b"x"))
    assert None is hooks.publish(ANN, Event("Dog/1", MESSAGE, b""))
    assert b'"something happened"' == hooks.deliver(GUEST, Event("a", MESSAGE, b"x")).payload
