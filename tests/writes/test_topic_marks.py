"""Marks of topics: of one size, never no where one was added, rarely yes where none was."""

from rowcast.writes.topic_marks import TopicMarks

TOPICS = [f"Dog/{number}" for number in range(500)]
OTHERS = [f"Cat/{number}" for number in range(500)]


def test_m5_marks_say_yes_of_each_topic_that_was_added_and_of_few_others():
    marks = TopicMarks(size_bytes=4_096)
    assert not any(map(marks.has, TOPICS))
    for topic in TOPICS:
        marks.add(topic)
    assert all(map(marks.has, TOPICS))
    assert sum(map(marks.has, OTHERS)) < len(OTHERS) / 10
    assert marks.count == len(TOPICS)


def test_marks_that_are_all_taken_say_yes_of_everything():
    marks = TopicMarks(size_bytes=1)
    for topic in TOPICS:
        marks.add(topic)
    assert all(map(marks.has, OTHERS))
