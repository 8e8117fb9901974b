"""Scans over branches: the same as brute force, whatever the tree is like (E2)."""

import random

import pytest

from rowcast.core.errors import Error
from rowcast.core.events import PUT, Event
from rowcast.core.tables import Attribute, Table, Type
from rowcast.core.topics import TopicFilter
from rowcast.store import sql_branches, sql_scan
from rowcast.store.sqlite import SqlStore

LEVELS = ["a", "b", "", "$", "a-", "a0", "é", "\U0010ffff", "\x01", "%", "a\x01", "$a"]
DOG = Table("Dog", "Dog", (Attribute("id", Type.ID, primary_key=True),))


def tree(rng, table):
    """Return topics of a random tree with awkward levels."""
    found = ("/".join(rng.choices(LEVELS, k=rng.randint(1, 4))) for _ in range(600))
    return sorted({f"{table.path}/{topic}" if table else topic for topic in found if topic})


def filters(rng, table):
    """Give random filters, most of them with one free level."""
    for _ in range(150):
        levels = rng.choices([*LEVELS, *["+"] * 6], k=rng.randint(1, 4))
        text = "/".join(levels) + rng.choice(["", "/#"])
        try:
            yield TopicFilter(f"{table.path}/{text}" if table and rng.random() < 0.8 else text)
        except Error:  # it is none
            continue


@pytest.mark.heavy
@pytest.mark.parametrize("bushy", [False, True])
@pytest.mark.parametrize("table", [None, DOG], ids=["topics", "table"])
@pytest.mark.parametrize("seed", [1, 2])
def test_e2_scans_select_what_matching_selects(tmp_path, monkeypatch, table, seed, bushy):
    monkeypatch.setattr(sql_branches, "_is_bushy", lambda *_: bushy)
    rng = random.Random(seed)
    store = SqlStore(tmp_path)
    store.open([table] if table else [])
    topics = tree(rng, table)
    store.commit(
        [
            Event(topic, PUT, b"x", None, 1, True, table, seq=n, version=n)
            for n, topic in enumerate(topics, 1)
        ]
    )
    selected = 0
    for wanted in filters(rng, table):
        known = [topic for topic in topics if wanted.matches(topic)]
        for after in ("", rng.choice(topics), rng.choice(known or topics)):
            found = [record.topic for record in store.scan(table, wanted, after, 9_999).records]
            assert [topic for topic in known if topic > after] == found, (wanted.text, after)
            selected += len(found)
    store.close()
    assert selected > 1_000


@pytest.mark.parametrize(
    ("topics", "bushy"),
    [
        ([f"a/{n}/x" for n in range(200)], False),
        ([f"a/{n:03}/{m}" for n in range(20) for m in range(10)], True),
        ([f"b/{n}" for n in range(200)], True),
    ],
)
def test_e2_how_a_tree_is_walked_is_learned_from_the_tree(tmp_path, monkeypatch, topics, bushy):
    store, used = SqlStore(tmp_path), []
    store.open([])
    store.commit([Event(t, PUT, b"x", retain=True, seq=n) for n, t in enumerate(topics, 1)])
    monkeypatch.setattr(sql_scan, "scan_branches", lambda *_: used.append(True) or iter(()))
    store.scan(None, TopicFilter("a/+/nothing"), "", 10)
    store.close()
    assert bushy == bool(used)
