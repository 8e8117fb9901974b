"""Topics of a result beyond what is in memory: in a file without a name, a shard at a time."""

import pytest

from rowcast.core.errors import Code, Error
from rowcast.core.result_limits import RESULT_SHARDS, RESULT_TOPIC_BYTES
from rowcast.results.topic_shards import TopicShards, shard_of

HELD = 10_000
TOPICS = [f"Dog/d{number:05} \u00e4" for number in range(5_000)]


async def test_m5_topics_beyond_a_bound_are_in_a_file_and_each_is_in_its_shard(tmp_path):
    shards, most = TopicShards(str(tmp_path), HELD), 0
    for start in range(0, len(TOPICS), 100):
        await shards.add(TOPICS[start : start + 100])
        most = max(most, shards.held_bytes)
    assert 0 < most <= HELD
    assert shards.count == len(TOPICS)
    assert list(tmp_path.iterdir()) == []
    found = [await shards.shard(number) for number in range(RESULT_SHARDS)]
    assert sorted(topic for shard in found for topic in shard) == TOPICS
    assert all(shard_of(topic) == number for number in (0, 7, 255) for topic in found[number])
    assert max(map(len, found)) < len(TOPICS) / 50


async def test_a_topic_is_there_as_often_as_it_was_added(tmp_path):
    shards = TopicShards(str(tmp_path), 2 * RESULT_TOPIC_BYTES)
    for _ in range(3):
        await shards.add(["Dog/a"])
    assert await shards.shard(shard_of("Dog/a")) == ["Dog/a"] * 3


async def test_a_disk_that_takes_no_topics_is_busy(tmp_path):
    shards = TopicShards(str(tmp_path / "missing"), HELD)
    await shards.add(TOPICS[:10])  # in memory
    with pytest.raises(Error, match="cannot be kept until its commit: No such file") as refused:
        await shards.add(TOPICS)
    assert refused.value.code is Code.BUSY


async def test_discarded_topics_are_not_read_any_more(tmp_path):
    shards = TopicShards(str(tmp_path), HELD)
    await shards.add(TOPICS)
    shards.discard()
    with pytest.raises(Error, match="discarded meanwhile"):
        await shards.shard(0)
    shards.close()
