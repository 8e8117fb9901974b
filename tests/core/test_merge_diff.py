"""Merge patches as differences: applied, they give the new value (C16, RFC 7396)."""

import random

import pytest

from rowcast.core.merge_diff import NotPatchable, is_same, merge_diff
from rowcast.core.merge_patch import merge_patch


def some(rng, depth=0):
    if depth < 3 and rng.random() < 0.5:
        return {rng.choice("abcd"): some(rng, depth + 1) for _ in range(rng.randrange(5))}
    return rng.choice((None, 0, 1, True, 1.0, "", "x", [], [None], [{"a": None}], 2**60))


@pytest.mark.parametrize("seed", range(20))
def test_a_difference_applied_is_the_new_value(seed):
    """C16: exactly, with numbers and booleans told apart, or there is none."""
    rng = random.Random(seed)
    patched = 0
    for _ in range(500):
        old, new = some(rng), some(rng)
        try:
            patch = merge_diff(old, new)
        except NotPatchable:
            continue
        patched += 1
        assert is_same(merge_patch(old, patch), new), (old, new, patch)
    assert patched > 20


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, {"b": 3}),
        ({"a": 1, "b": 2}, {"a": 1}, {"b": None}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, {"a": {"c": 3}}),
        ({"a": [1, 2]}, {"a": [1, 2, 3]}, {"a": [1, 2, 3]}),
        ({"a": 1}, {"a": True}, {"a": True}),
        ({"a": None}, {"a": None, "b": 1}, {"b": 1}),
        ({}, {}, {}),
    ],
)
def test_it_says_what_has_changed(old, new, patch):
    assert is_same(merge_diff(old, new), patch)


@pytest.mark.parametrize(
    ("old", "new"),
    [(1, {}), ({}, 1), ({}, {"a": None}), ({"a": 1}, {"a": {"b": None}}), ([1], [1])],
)
def test_what_no_patch_can_say(old, new):
    with pytest.raises(NotPatchable):
        merge_diff(old, new)
