"""The states as tests: what every store does with changes of durable facts."""

import pytest
from store_cases import DOG, NUMBER

from rowcast.core.errors import Code, Error
from rowcast.core.events import PUT
from rowcast.store.store import Change


def put(owner, name, value):
    return Change(owner, name, value)


def remove(owner, name=""):
    return Change(owner, name, None)


class StateConformance:
    """Facts beside the log, in its transactions."""

    def test_a_new_store_has_no_facts(self, store):
        assert [] == store.states("")

    def test_facts_alone_are_committed(self, store):
        assert [] == store.commit((), [put("s/a", "position", b"7")])
        assert ([("s/a", "position", b"7")], 0) == (store.states(""), store.head())

    def test_facts_come_by_owner_and_name(self, store):
        changes = [put(owner, name, b"x") for owner in ("s/b", "s/a", "s/é") for name in ("2", "1")]
        store.commit((), changes)
        expected = [(owner, name) for owner in ("s/a", "s/b", "s/é") for name in ("1", "2")]
        assert expected == [fact[:2] for fact in store.states("s/")]

    def test_single_facts_are_found_by_owner_and_name(self, store):
        """E26: how a tombstone is asked for."""
        store.commit((), [put("o", "n", b"1"), put("o", "m", b"2"), put("p", "n", b"3")])
        wanted = [("o", "n"), ("p", "n"), ("p", "m"), ("q", "n")]
        assert {("o", "n"): b"1", ("p", "n"): b"3"} == store.facts(wanted)
        assert {} == store.facts([])

    def test_the_last_change_of_a_fact_wins(self, store):
        store.commit((), [put("o", "n", b"1"), put("o", "m", b"1"), put("o", "n", b"2")])
        assert [("o", "m", b"1"), ("o", "n", b"2")] == store.states("o")
        store.commit(
            (), [put("o", "n", b"3"), remove("o", "n"), remove("o", "m"), put("o", "m", b"4")]
        )
        assert [("o", "m", b"4")] == store.states("o")

    def test_what_is_removed_is_gone(self, store):
        store.commit((), [put("o", "n", b"1"), put("p", "n", b"1")])
        store.commit((), [remove("o", "n"), remove("o", "never there"), remove("nobody", "n")])
        assert [("p", "n", b"1")] == store.states("")

    def test_an_owner_that_is_removed_may_begin_anew(self, store):
        store.commit((), [put("o", "old", b"1"), put("o", "kept", b"1"), put("oo", "n", b"1")])
        store.commit(
            (), [put("o", "brief", b"2"), remove("o"), put("o", "kept", b"3"), remove("x")]
        )
        assert [("o", "kept", b"3"), ("oo", "n", b"1")] == store.states("")
        store.commit((), [remove("o"), put("o", "brief", b"2"), remove("o", "brief")])
        assert [("oo", "n", b"1")] == store.states("")

    def test_an_empty_value_is_a_fact(self, store):
        store.commit((), [put("o", "n", b"")])
        assert [("o", "n", b"")] == store.states("o")

    @pytest.mark.parametrize(
        "prefix", ["%", "_", "a%", "\0", "\U0010ffff", "é", "s/\uffff", "x" * 9000]
    )
    def test_a_prefix_means_itself(self, store, prefix):
        others = ["a", "b%", "s/a", "e", "xxx", "\U0001f415"]
        mine = [prefix, f"{prefix}/1", f"{prefix}\U0010ffff", f"{prefix}%"]
        store.commit((), [put(owner, "n\0%", b"\0") for owner in [*others, *mine]])
        assert sorted(mine) == [fact[0] for fact in store.states(prefix)]
        assert sorted([*others, *mine]) == [fact[0] for fact in store.states("")]

    def test_facts_are_there_after_a_restart(self, place, store, writer):
        store.commit([writer.event("t", PUT)], [put("o", "n", b"\xff\x00"), put("o", "", b"1")])
        expected = [("o", "", b"1"), ("o", "n", b"\xff\x00")]
        assert expected == place.start().states("o")

    def test_an_event_that_fails_leaves_no_fact(self, store, writer):
        """All or none: a message and what is remembered of it are one."""
        store.commit((), [put("o", "n", b"old")])
        bad = writer.event("deep/Number/07", PUT, table=NUMBER)
        with pytest.raises(Error) as caught:
            store.commit([writer.event("t", PUT), bad], [put("o", "n", b"new"), remove("p")])
        assert Code.INVALID is caught.value.code
        assert [("o", "n", b"old")] == store.states("")

    def test_facts_and_events_go_in_together(self, store, writer):
        existed = store.commit([writer.value(DOG, "a", {})], [put("o", "n", b"1")])
        assert ([False], 1, [("o", "n", b"1")]) == (existed, store.head(), store.states("o"))

    def test_many_changes_in_one_commit(self, store):
        owners = [f"s/{number % 500}" for number in range(10_000)]
        changes = [put(owner, str(number), b"%d" % number) for number, owner in enumerate(owners)]
        store.commit((), changes)
        assert 10_000 == len(store.states("s/"))
        gone = [remove(owner, str(number)) for number, owner in enumerate(owners[:5_000])]
        store.commit((), [*gone, *(remove(owner) for owner in owners[:250])])
        left = store.states("s/")
        assert 2_500 == len(left)
        assert {f"s/{number}" for number in range(250, 500)} == {owner for owner, _, _ in left}
        assert all(name.encode() == value for _, name, value in left)
