"""Fingerprints: equal for equal values, in any order and process."""

import subprocess
import sys
from dataclasses import dataclass

import pytest

from rowcast.core.fingerprint import fingerprint

MADE = """
from rowcast.core.callers import Grants
from rowcast.core.fingerprint import fingerprint
names = [f"user{n}" for n in range(50)]
print(fingerprint({name: (Grants(True), frozenset(names), {"n": None}) for name in set(names)}))
"""


@dataclass
class Place:
    """Something with a member."""

    x: object = 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}),
        ({"a": 1}, {"b": 1}),
        ({1, 2}, {1, 3}),
        ([1, 2], [2, 1]),
        (["a", "b"], ["a,b"]),
        (Place(1), Place(2)),
        ({"a": {"b": ()}}, {"a": {"b": {}}}),
        (1, "1"),
        (None, ""),
    ],
)
def test_what_differs_has_another_one(one, other):
    assert fingerprint(one) != fingerprint(other)


def test_the_order_of_maps_and_sets_does_not_matter():
    assert fingerprint({"a": 1, "b": {3, 4}}) == fingerprint({"b": {4, 3}, "a": 1})


def test_it_is_the_same_in_each_process():
    made = {
        subprocess.run(
            [sys.executable, "-c", MADE],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert 1 == len(made)
