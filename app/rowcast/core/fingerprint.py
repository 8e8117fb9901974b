"""Fingerprints: whether a value is as it was, in whichever process, is told by a short text."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from typing import Final

_DIGEST_BYTES: Final = 16


def fingerprint(value: object) -> str:
    """Return 32 hexadecimal digits that differ for values that differ.

    Values are made of maps, sets, sequences and dataclasses, of whatever order maps and sets have;
    anything else is taken by its ``repr``.
    """
    return blake2b(_canonical(value).encode(), digest_size=_DIGEST_BYTES).hexdigest()


def _canonical(value: object) -> str:
    if is_dataclass(value) and not isinstance(value, type):
        return _canonical({field.name: getattr(value, field.name) for field in fields(value)})
    if isinstance(value, Mapping):
        members = sorted(f"{_canonical(key)}:{_canonical(item)}" for key, item in value.items())
        return f"{{{','.join(members)}}}"
    if isinstance(value, AbstractSet):
        return f"<{','.join(sorted(map(_canonical, value)))}>"
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return f"[{','.join(map(_canonical, value))}]"
    return repr(value)
