"""Differences of two values as a JSON merge patch (RFC 7396).

The inverse of ``merge_patch.py``: what a stream sends in place of a whole value. It knows plain
values only, and no table.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import cast


class NotPatchable(Exception):  # noqa: N818 - an answer: a merge patch cannot say it
    """No merge patch leads from one value to the other."""


def merge_diff(old: object, new: object) -> dict[str, object]:
    """Return the merge patch that makes ``new`` of ``old``; equal values have an empty one.

    Raises NotPatchable where there is none: for values that are no objects, and for members that
    become null, or an object with a null in it, because null in a patch removes a member.
    """
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        raise NotPatchable
    patch: dict[str, object] = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name)
        if name in old and is_same(before, value):
            continue
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            patch[name] = merge_diff(before, value)
        elif has_null(value):
            raise NotPatchable
        else:
            patch[name] = value
    return patch


def has_null(value: object) -> bool:
    """Whether a value is null, or an object with a null in it; lists are taken as they are."""
    if isinstance(value, Mapping):
        return any(map(has_null, value.values()))
    return value is None


def is_same(one: object, other: object) -> bool:
    """Whether two values are written alike: 1, 1.0 and true differ, and so do 1.10 and 1.1."""
    if type(one) is not type(other):
        return False
    if isinstance(one, Mapping):
        others = cast("Mapping[str, object]", other)
        return one.keys() == others.keys() and all(
            is_same(value, others[name]) for name, value in one.items()
        )
    if isinstance(one, list):
        items = cast("list[object]", other)
        return len(one) == len(items) and all(map(is_same, one, items))
    if isinstance(one, float | Decimal):
        return repr(one) == repr(other)  # what is equal may be written with more digits, or a sign
    return one == other
