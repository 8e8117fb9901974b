"""The guard: limits, rates, offences and bans (D6, D56, D57), with a clock of the test."""

import pytest

from rowcast.core.limits import BAN_PEER_FACTOR, GUARD_ENTRIES_MAX, GUARD_NAME_CHARS_MAX
from rowcast.doors.mqtt.connections.guard import GuardSettings, LoginThrottle
from rowcast.mqtt.reasons import Reason

NOBODY = "anonymous"


class Clock:
    now = 1_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def reason(refusal):
    return refusal.reason if refusal is not None else None


def test_without_limits_everybody_may_come(clock):
    guard = LoginThrottle(GuardSettings(), clock)
    assert {None} == {guard.enter("10.0.0.1") for _ in range(1_000)}
    for _ in range(1_000):
        guard.dropped("10.0.0.1", "c", NOBODY)
    answer = guard.identify("10.0.0.1", "c", NOBODY)
    assert (1_000, [], None) == (guard.connections, guard.bans, answer)


def test_the_most_connections(clock):
    """D6."""
    guard = LoginThrottle(GuardSettings(connections_max=2), clock)
    answers = [reason(guard.enter(f"10.0.0.{number}")) for number in range(3)]
    assert [None, None, Reason.QUOTA_EXCEEDED] == answers
    guard.exit("10.0.0.0")
    assert guard.enter("10.0.0.9") is None
    assert {Reason.QUOTA_EXCEEDED: 1} == guard.refusals


def test_another_server_is_named_when_there_is_one(clock):
    """D46, D6."""
    guard = LoginThrottle(GuardSettings(connections_max=1, full=Reason.USE_ANOTHER_SERVER), clock)
    answers = [reason(guard.enter("10.0.0.1")) for _ in range(2)]
    assert [None, Reason.USE_ANOTHER_SERVER] == answers


def test_a_server_that_is_being_emptied(clock):
    """D46: nobody is taken any more, and it is told whether to come back."""
    guard = LoginThrottle(GuardSettings(sent_away=Reason.SERVER_MOVED), clock)
    assert Reason.SERVER_MOVED == reason(guard.enter("10.0.0.1"))


def test_a_peers_share(clock):
    """D6: others are not touched by it, and a share comes back."""
    guard = LoginThrottle(GuardSettings(connections_per_peer_max=1), clock)
    assert [None, Reason.QUOTA_EXCEEDED] == [reason(guard.enter("10.0.0.1")) for _ in range(2)]
    assert guard.enter("10.0.0.2") is None
    guard.exit("10.0.0.1")
    assert guard.enter("10.0.0.1") is None


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("no:address", "no:address", True),
    ],
)
def test_which_addresses_are_one_peer(clock, first, second, same):
    """D6, D57: an IPv6 peer is its /64 network."""
    guard = LoginThrottle(GuardSettings(connections_per_peer_max=1), clock)
    guard.enter(first)
    assert same == (guard.enter(second) is not None)


def test_no_address_has_no_share(clock):
    """A socket without addresses: only what is for all holds."""
    settings = GuardSettings(connections_per_peer_max=1, connects_per_peer_per_second=1, drops=1)
    guard = LoginThrottle(settings, clock)
    assert [None] * 3 == [guard.enter("") for _ in range(3)]
    guard.dropped("", "c", NOBODY)
    guard.exit("")
    assert [("client", "c")] == [(ban.kind, ban.name) for ban in guard.bans]


def test_connects_a_second(clock):
    """D57: 0x9F, and after a while again."""
    guard = LoginThrottle(GuardSettings(connects_per_second=2), clock)
    answers = [reason(guard.enter(f"10.0.0.{number}")) for number in range(3)]
    assert [None, None, Reason.CONNECTION_RATE_EXCEEDED] == answers
    clock.now += 0.5
    assert guard.enter("10.0.0.4") is None


def test_connects_a_second_of_one_peer(clock):
    """D57: one that is over its own rate does not use up everybody's."""
    settings = GuardSettings(connects_per_second=3, connects_per_peer_per_second=1)
    guard = LoginThrottle(settings, clock)
    assert [None, *[Reason.CONNECTION_RATE_EXCEEDED] * 9] == [
        reason(guard.enter("10.0.0.1")) for _ in range(10)
    ]
    assert [None, None] == [guard.enter(f"10.0.0.{number}") for number in (2, 3)]
    clock.now += 1
    assert guard.enter("10.0.0.1") is None


def test_a_slow_rate_is_remembered_long_enough(clock):
    guard = LoginThrottle(GuardSettings(connects_per_peer_per_second=0.1), clock)
    assert guard.enter("10.0.0.1") is None
    clock.now += 9
    assert guard.enter("10.0.0.1") is not None
    clock.now += 10
    assert guard.enter("10.0.0.1") is None


def test_a_flapping_client_is_banned_for_a_while(clock):
    """D56: N drops in T seconds, 0x8A for B seconds, then again."""
    guard = LoginThrottle(GuardSettings(drops=3, within_seconds=10, ban_seconds=60), clock)
    for _ in range(2):
        guard.dropped("10.0.0.1", "flapper", NOBODY)
    assert guard.identify("10.0.0.1", "flapper", NOBODY) is None
    guard.dropped("10.0.0.2", "flapper", NOBODY)
    assert Reason.BANNED == reason(guard.identify("10.0.0.3", "flapper", NOBODY))
    assert (None, None) == (guard.identify("10.0.0.1", "other", NOBODY), guard.enter("10.0.0.1"))
    assert (1, {Reason.BANNED: 1}) == (guard.banned, guard.refusals)
    clock.now += 60
    assert (None, []) == (guard.identify("10.0.0.3", "flapper", NOBODY), guard.bans)


def test_drops_that_are_far_apart_are_none(clock):
    guard = LoginThrottle(GuardSettings(drops=3, within_seconds=10), clock)
    for _ in range(20):
        guard.dropped("10.0.0.1", "c", NOBODY)
        clock.now += 5.1
    assert 0 == guard.banned


def test_a_peer_that_flaps_under_many_names(clock):
    """D56."""
    guard = LoginThrottle(GuardSettings(drops=2), clock)
    for number in range(2 * BAN_PEER_FACTOR):
        guard.dropped("10.0.0.1", f"c{number}", NOBODY)
    assert Reason.BANNED == reason(guard.identify("10.0.0.1", "other", NOBODY))
    assert guard.identify("10.0.0.2", "other", NOBODY) is None


def test_p3_whoever_flaps_without_a_name_shuts_no_user_out(clock):
    """Neither by the user's client id nor at its address; users are counted each by itself."""
    guard = LoginThrottle(GuardSettings(drops=1), clock)
    for number in range(99):
        guard.dropped("10.0.0.1", f"c{number}", NOBODY)
        guard.dropped("10.0.0.1", "meter", NOBODY)
        guard.dropped("10.0.0.1", "meter", "ben")
    assert guard.enter("10.0.0.1") is None
    assert guard.identify("10.0.0.1", "meter", "ann") is None
    assert Reason.BANNED == reason(guard.identify("10.0.0.9", "meter", "ben"))


@pytest.mark.slow
def test_a_flood_from_many_addresses_never_makes_it_grow(clock):
    """D57: a hundred thousand peers, each with its own client id of 64 KiB at its worst."""
    settings = GuardSettings(connects_per_peer_per_second=1, drops=1)
    guard = LoginThrottle(settings, clock)
    for number in range(GUARD_ENTRIES_MAX + 1_000):
        peer = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
        guard.enter(peer)
        guard.exit(peer)
        guard.dropped(peer, f"client {number}", NOBODY)
    tables = (guard._peer_rates, guard._drops, guard._bans)
    assert all(len(table) <= GUARD_ENTRIES_MAX for table in tables)
    assert {} == guard._by_peer


def test_a_long_client_id_is_kept_short_and_not_mixed_up(clock):
    guard = LoginThrottle(GuardSettings(drops=1), clock)
    guard.dropped("10.0.0.1", "x" * 65_000 + "a", NOBODY)
    (ban,) = guard.bans
    assert GUARD_NAME_CHARS_MAX == len(ban.name)
    assert guard.identify("10.0.0.1", "x" * 65_000 + "b", NOBODY) is None
    assert guard.identify("10.0.0.1", "x" * 65_000 + "a", NOBODY) is not None


def test_a_ban_is_told_to_the_operator(clock, caplog):
    """D56: visible."""
    LoginThrottle(GuardSettings(drops=1), clock).dropped("10.0.0.1", "flapper", NOBODY)
    assert "client flapper is banned for 300 s" in caplog.text
