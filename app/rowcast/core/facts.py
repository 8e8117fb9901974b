"""Facts: small durable values that belong to an owner, such as a session's subscriptions.

A fact changes in the same transaction as the events it goes with. Who the owners are, and what
their values mean, is for the kernel and its features.
"""

from typing import NamedTuple


class Change(NamedTuple):
    """A change of one durable fact: ``value`` is what the owner's ``name`` is from now on.

    None removes the fact; an empty name with None removes all that the owner has.
    """

    owner: str
    name: str
    value: bytes | None
