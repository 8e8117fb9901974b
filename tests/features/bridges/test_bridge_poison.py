"""Events that a broker never takes, of every kind: they are found, and nothing else waits (H12)."""

from dataclasses import replace
from functools import partial

import pytest
from bridged import reading, server, to

from remote_broker import NEEDS_MOSQUITTO, RemoteBroker
from rowcast.core.topics import TopicFilter

pytestmark = NEEDS_MOSQUITTO
OUT = [{"filter": "u/#", "strip": "u/"}]
"""The topic ``u/`` is an empty one there, which is none."""
KINDS = {
    "malformed topic": ("u/", b"x", "", "5", "a topic must"),
    "too large to be sent": ("u/big", b"x" * 5000, "max_packet_size 2000", "5", "too large"),
    "too large to be taken": ("u/big", b"x" * 5000, "message_size_limit 2000", "5", "0x95"),
    "access list": ("u/shut/1", b"x", "acl_file {}", "5", "not authorized"),
    "makes the broker disconnect": ("u/big", b"x" * 5000, "max_packet_size 2000", "3.1.1",
                                    "closed the connection"),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
async def test_poison_is_found_among_good_ones(tmp_path, monkeypatch, kind):
    """H12, H10: a dead letter that says why; all others arrive, in their order."""
    topic, payload, more, version, said = KINDS[kind]
    monkeypatch.setattr("rowcast.features.bridges.outbox.backoff_seconds", lambda _attempts: 0.01)
    soon = partial(replace, lost_seconds=0.01)
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    rules = tmp_path / "there/rules"
    rules.write_text("topic readwrite free/#\n")
    with RemoteBroker(tmp_path / "there", more.format(rules)) as broker:
        settings = to(broker, version=version) | {"out": OUT}
        here = server(tmp_path / "here", settings, change=soon)
        async with here as world, reading(broker) as reader:
            await world.idle()
            for number in range(30):
                if number == 15:
                    await world.say(topic, payload)
                await world.say(f"u/free/{number % 5}", b"%d" % number)
            await world.until(lambda: world.bridge.dead)
            await world.idle()
            await world.until(lambda: len({said for _, said in reader.heard}) == 30)
            found = await world.kernel.reader.scan(
                None, TopicFilter("$SYS/gateway/b/dead_letters/+"), "", 10
            )
            (letter,) = map(world.kernel.transcoder.value, found.records)
        assert (topic, 5) == (letter["topic"], letter["attempts"])
        assert said in letter["last_error"]
        assert (1, 0) == (world.bridge.dead, world.bridge.dropped)
    for place in range(5):
        mine = [int(said) for name, said in reader.heard if name == f"free/{place}"]
        first = list(dict.fromkeys(mine))
        assert sorted(first) == first
