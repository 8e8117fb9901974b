"""The interface of an engine as tests: each class of them is run on every engine.

A test module derives ``EngineConformance`` and gives a fixture ``connect``, a function that opens
one more connection to the same entries; ``first`` is the number of the first one.
"""

import threading

import pytest

from rowcast.core.errors import Code, Error

ALL = 10**9


class EngineConformance:
    """What every engine does."""

    @pytest.fixture
    def engine(self, connect):
        return connect()

    def test_it_is_empty_at_first(self, engine):
        assert engine.bounds() == (1, 0)
        assert engine.read(0, ALL) == []
        assert len(bytes.fromhex(engine.epoch)) == 4

    def test_entries_are_read_in_order_by_every_node(self, engine, connect):
        entries = [bytes([n]) * 100 for n in range(1, 8)]
        for number, data in enumerate(entries, 1):
            engine.append(number, data)
        other = connect()
        assert other.epoch == engine.epoch
        assert other.bounds() == (1, 7)
        for one in (engine, other):
            assert one.read(0, ALL) == entries
            assert one.read(5, ALL) == entries[5:]
            assert one.read(7, ALL) == []
            assert one.read(2, 1) == entries[2:3]
            assert one.read(2, 150) == entries[2:4]

    def test_only_the_next_entry_is_taken(self, engine, connect):
        other = connect()
        engine.append(1, b"a")
        for number in (1, 3, 0):
            for one in (engine, other):
                with pytest.raises(Error) as caught:
                    one.append(number, b"b")
                assert caught.value.code is Code.CONFLICT
        other.append(2, b"c")
        assert engine.read(0, ALL) == [b"a", b"c"]

    def test_of_two_that_append_at_once_one_wins(self, connect):
        nodes = [connect(), connect()]
        won = []

        def append(node, mark):
            for number in range(1, 31):
                try:
                    node.append(number, mark)
                except Error as error:
                    assert error.code is Code.CONFLICT
                else:
                    won.append((number, mark))

        threads = [
            threading.Thread(target=append, args=(node, mark))
            for node, mark in zip(nodes, (b"a", b"b"), strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        stored = nodes[0].read(0, ALL)
        assert [mark for _, mark in sorted(won)] == stored
        assert [number for number, _ in sorted(won)] == list(range(1, len(stored) + 1))

    def test_bytes_of_every_value_and_many_at_once_come_back(self, engine):
        data = bytes(range(256)) * 2000
        engine.append(1, data)
        engine.append(2, b"")
        assert engine.read(0, ALL) == [data, b""]

    def test_too_large_an_entry_is_refused_and_leaves_nothing(self, engine):
        with pytest.raises(Error) as caught:
            engine.append(1, bytes(engine.entry_bytes_max + 1))
        assert caught.value.code is Code.TOO_LARGE
        assert engine.bounds() == (1, 0)
        engine.append(1, b"x")

    def test_the_lease_changes_hands_by_comparison(self, engine, connect):
        other = connect()
        assert engine.lease().version == 0
        mine = engine.take_lease(0, b"node a")
        assert mine.holder == b"node a"
        assert other.lease() == mine
        for one in (engine, other):
            with pytest.raises(Error) as caught:
                one.take_lease(0, b"node b")
            assert caught.value.code is Code.CONFLICT
        theirs = other.take_lease(mine.version, b"node b")
        assert theirs.version > mine.version
        assert engine.lease() == theirs
        again = other.take_lease(theirs.version, b"node b")
        assert again.version > theirs.version

    def test_what_was_let_go_of_is_gone_and_the_rest_is_there(self, engine):
        for number in range(1, 11):
            engine.append(number, b"%d" % number)
        engine.trim(6)
        first, last = engine.bounds()
        assert 1 <= first <= 7
        assert last == 10
        assert engine.read(6, ALL) == [b"7", b"8", b"9", b"10"]
        if first > 1:
            with pytest.raises(Error) as caught:
                engine.read(first - 2, ALL)
            assert caught.value.code is Code.GONE
