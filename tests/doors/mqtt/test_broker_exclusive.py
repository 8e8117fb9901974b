"""Exclusive subscriptions (D53): who has a filter for itself, and until when."""

from rowcast.doors.mqtt.packets.exclusive import Exclusives


def test_one_client_at_a_time():
    table = Exclusives()
    table.take("a", "x")
    assert [True, False] == [table.may_take("a", name) for name in "xy"]
    assert [False, True] == [table.release("a", name) for name in "yx"]
    assert (True, 0) == (table.may_take("a", "y"), len(table))


def test_only_the_same_text_excludes():
    table = Exclusives()
    table.take("a/b", "x")
    assert table.may_take("a/+", "y")


def test_the_end_of_a_session():
    table = Exclusives()
    for topics, name in (("a", "x"), ("b", "x"), ("b", "x"), ("c", "y")):
        table.take(topics, name)
    table.release("a", "x")
    table.release_all("x")
    table.release_all("nobody")
    assert (1, False, True) == (len(table), table.may_take("c", "x"), table.may_take("b", "y"))
