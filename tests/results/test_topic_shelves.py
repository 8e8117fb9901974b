"""Topics of a result beyond what is in memory: in a file without a name, a shelf at a time."""

import pytest

from rowcast.core.errors import Code, Error
from rowcast.core.result_limits import RESULT_SHELVES, RESULT_TOPIC_BYTES
from rowcast.results.topic_shelves import TopicShelves, shelf_of

HELD = 10_000
TOPICS = [f"Dog/d{number:05} \u00e4" for number in range(5_000)]


async def test_m5_topics_beyond_a_bound_are_in_a_file_and_each_is_on_its_shelf(tmp_path):
    shelves, most = TopicShelves(str(tmp_path), HELD), 0
    for start in range(0, len(TOPICS), 100):
        await shelves.add(TOPICS[start : start + 100])
        most = max(most, shelves.held_bytes)
    assert 0 < most <= HELD
    assert shelves.count == len(TOPICS)
    assert list(tmp_path.iterdir()) == []
    found = [await shelves.shelf(number) for number in range(RESULT_SHELVES)]
    assert sorted(topic for shelf in found for topic in shelf) == TOPICS
    assert all(shelf_of(topic) == number for number in (0, 7, 255) for topic in found[number])
    assert max(map(len, found)) < len(TOPICS) / 50


async def test_a_topic_is_there_as_often_as_it_was_added(tmp_path):
    shelves = TopicShelves(str(tmp_path), 2 * RESULT_TOPIC_BYTES)
    for _ in range(3):
        await shelves.add(["Dog/a"])
    assert await shelves.shelf(shelf_of("Dog/a")) == ["Dog/a"] * 3


async def test_a_disk_that_takes_no_topics_is_busy(tmp_path):
    shelves = TopicShelves(str(tmp_path / "missing"), HELD)
    await shelves.add(TOPICS[:10])  # in memory
    with pytest.raises(Error, match="cannot be kept until its commit: No such file") as refused:
        await shelves.add(TOPICS)
    assert refused.value.code is Code.BUSY


async def test_discarded_topics_are_not_read_any_more(tmp_path):
    shelves = TopicShelves(str(tmp_path), HELD)
    await shelves.add(TOPICS)
    shelves.discard()
    with pytest.raises(Error, match="discarded meanwhile"):
        await shelves.shelf(0)
    shelves.close()
