"""Callers without a name: this machine only, unless the operator decides otherwise."""

import pytest

from rowcast.auth.anonymous import STRANGER, anonymous_from, is_loopback
from rowcast.core.callers import ALL, NONE

NEAR = ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1", "::1%lo"]
FAR = [
    "::ffff:10.0.0.1", "10.0.0.1", "0.0.0.0", "fe80::1%eth0", "localhost", "127.0.0.1.example", "",
]  # fmt: skip


@pytest.mark.parametrize("peer", NEAR)
def test_this_machine_is_near(peer):
    assert is_loopback(peer)


@pytest.mark.parametrize("peer", FAR)
def test_all_else_is_far(peer):
    assert not is_loopback(peer)


@pytest.mark.parametrize(
    ("policy", "near", "far"),
    [("loopback", ALL, NONE), ("everywhere", ALL, STRANGER), ("nobody", NONE, NONE)],
)
def test_who_is_accepted(policy, near, far):
    rule = anonymous_from(policy)
    assert (near, far) == (rule("127.0.0.1", "mqtt").grants, rule("10.0.0.1", "mqtt").grants)


def test_a_caller_knows_where_it_comes_from():
    caller = anonymous_from("loopback")("10.0.0.1", "http")
    assert ("anonymous", "http", "10.0.0.1", "") == (
        caller.user, caller.door, caller.peer, caller.client_id,
    )  # fmt: skip
