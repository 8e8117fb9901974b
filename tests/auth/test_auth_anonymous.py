"""Callers without a name: this machine only, unless the operator decides otherwise."""

import pytest

from app.auth.anonymous import anonymous_from, is_loopback
from app.core.callers import ALL, NONE


@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.9.10", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("::1%lo", True),
        ("::ffff:10.0.0.1", False),
        ("10.0.0.1", False),
        ("0.0.0.0", False),
        ("fe80::1%eth0", False),
        ("localhost", False),
        ("127.0.0.1.example", False),
        ("", False),
    ],
)
def test_what_is_this_machine(peer, expected):
    assert expected == is_loopback(peer)


@pytest.mark.parametrize(
    ("policy", "near", "far"),
    [("loopback", ALL, NONE), ("everywhere", ALL, ALL), ("nobody", NONE, NONE)],
)
def test_who_is_accepted(policy, near, far):
    rule = anonymous_from(policy)
    assert (near, far) == (rule("127.0.0.1", "mqtt").grants, rule("10.0.0.1", "mqtt").grants)


def test_a_caller_knows_where_it_comes_from():
    caller = anonymous_from("loopback")("10.0.0.1", "http")
    assert ("anonymous", "http", "10.0.0.1", "") == (
        caller.user, caller.door, caller.peer, caller.client_id,
    )  # fmt: skip
