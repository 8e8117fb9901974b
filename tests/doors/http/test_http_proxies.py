"""Proxies: whose word about addresses is believed (L11, P3)."""

import pytest

from rowcast.auth.anonymous import is_loopback
from rowcast.program.proxies import behind_proxies

PROXIES = ("10.0.0.1", "10.1.0.0/16", "127.0.0.1")
HERE = "127.0.0.1"
FOR = b"x-forwarded-for"


async def nothing(*_):
    """Answer nothing."""


async def heard(peer, named, trusted=PROXIES):
    """Return the scope as the edge has it."""
    scopes = []

    async def note(scope, _receive, _send):
        scopes.append(scope)

    scope = {"type": "http", "scheme": "http", "client": (peer, 1), "headers": named}
    await behind_proxies(note, trusted)(scope, None, None)
    return scopes[0]


@pytest.mark.parametrize(
    ("peer", "said", "found"),
    [
        pytest.param("10.0.0.1", [b"192.0.2.7"], "192.0.2.7", id="a proxy"),
        pytest.param("10.1.2.3", [b"192.0.2.7"], "192.0.2.7", id="one of a network"),
        pytest.param("::ffff:10.0.0.1", [b"192.0.2.7"], "192.0.2.7", id="IPv4 in IPv6"),
        pytest.param("10.0.0.1", [b"1.1.1.1, 192.0.2.7, 10.1.0.9"], "192.0.2.7", id="the last"),
        pytest.param("10.0.0.1", [b"1.1.1.1", b"192.0.2.7"], "192.0.2.7", id="two headers"),
        pytest.param("10.0.0.1", [b"[2001:db8::7]:99"], "2001:db8::7", id="with a port"),
        pytest.param("192.0.2.9", [b"192.0.2.7"], "192.0.2.9", id="a stranger"),
        pytest.param("10.0.0.1", [b"127.0.0.1"], "10.0.0.1 (forwarded)", id="loopback"),
        pytest.param("10.0.0.1", [b"192.0.2.7, x"], "10.0.0.1 (forwarded)", id="no address"),
        pytest.param("127.0.0.1", [], "127.0.0.1", id="no proxy"),
    ],
)
async def test_p3_who_is_named_says_for_whom_it_asks(peer, said, found):
    scope = await heard(peer, [(FOR, value) for value in said])
    assert found == scope["client"][0]


@pytest.mark.parametrize(
    "name", [FOR, b"x-forwarded-proto", b"x-forwarded-host", b"forwarded", b"x-real-ip", b"via"]
)
@pytest.mark.parametrize("peer", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
async def test_p3_a_proxy_that_nobody_named_makes_nobody_a_caller_of_this_machine(peer, name):
    scope = await heard(peer, [(name, b"127.0.0.1")], ())
    assert not is_loopback(scope["client"][0])


async def test_a_proxy_that_nobody_named_is_told_once(caplog):
    edge = behind_proxies(nothing, ())
    for _ in range(2):
        scope = {"type": "http", "client": (HERE, 1), "headers": [(FOR, b"192.0.2.7")]}
        await edge(scope, None, None)
    assert 1 == caplog.text.count("--set http.trusted_proxies=127.0.0.1")


@pytest.mark.parametrize(("peer", "scheme"), [("10.0.0.1", "https"), ("192.0.2.9", "http")])
async def test_only_who_is_named_says_that_it_was_asked_by_tls(peer, scheme):
    assert scheme == (await heard(peer, [(b"x-forwarded-proto", b"https")]))["scheme"]


async def test_a_request_without_an_address_may_be_forwarded_too():
    scope = {"type": "http", "client": None, "headers": [(FOR, b"127.0.0.1")]}
    await behind_proxies(nothing, ())(scope, None, None)
    assert not is_loopback(scope["client"][0])
