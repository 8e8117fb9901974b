"""Peers: which addresses are one, and how a stranger's text is kept short (D6, D57)."""

import pytest

from rowcast.core.limits import GUARD_NAME_CHARS_MAX
from rowcast.core.peers import network, short, site


@pytest.mark.parametrize(
    ("address", "peer"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("no:address", "no:address"),
        ("", ""),
    ],
)
def test_a_peer_is_an_address_or_a_network(address, peer):
    assert peer == network(address)


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2::1", "2001:db8:1::/48"),
        ("2001:db8:1:3::1", "2001:db8:1::/48"),
        ("2001:db8:2::1", "2001:db8:2::/48"),
        ("no:address", "no:address"),
        ("", ""),
    ],
)
def test_a_site_is_an_address_or_a_larger_network(address, place):
    assert place == site(address)


def test_a_long_text_is_its_beginning_and_a_digest():
    one, other = (short("x" * 65_000 + last) for last in "ab")
    assert (GUARD_NAME_CHARS_MAX, True) == (len(one), one != other)
    assert "x" == short("x")
