"""The guard: limits, rates, offences and bans (FEATURES D6, D56, D57), with a clock of the test."""

import pytest

from app.broker.connections.guard import Guard, GuardSettings
from app.core.limits import BAN_PEER_FACTOR, GUARD_ENTRIES_MAX, GUARD_NAME_CHARS_MAX
from app.mqtt.reasons import Reason


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
    guard = Guard(GuardSettings(), clock)
    assert {None} == {guard.enter("10.0.0.1") for _ in range(1_000)}
    for _ in range(1_000):
        guard.dropped("10.0.0.1", "c")
        guard.failed("10.0.0.1", "c")
    assert (1_000, [], None) == (guard.connections, guard.bans, guard.identify("10.0.0.1", "c"))


def test_the_most_connections(clock):
    """D6."""
    guard = Guard(GuardSettings(connections_max=2), clock)
    answers = [reason(guard.enter(f"10.0.0.{number}")) for number in range(3)]
    assert [None, None, Reason.QUOTA_EXCEEDED] == answers
    guard.exit("10.0.0.0")
    assert guard.enter("10.0.0.9") is None
    assert {Reason.QUOTA_EXCEEDED: 1} == guard.refusals


def test_another_server_is_named_when_there_is_one(clock):
    """D46, D6."""
    guard = Guard(GuardSettings(connections_max=1, full=Reason.USE_ANOTHER_SERVER), clock)
    answers = [reason(guard.enter("10.0.0.1")) for _ in range(2)]
    assert [None, Reason.USE_ANOTHER_SERVER] == answers


def test_a_server_that_is_being_emptied(clock):
    """D46: nobody is taken any more, and it is told whether to come back."""
    guard = Guard(GuardSettings(sent_away=Reason.SERVER_MOVED), clock)
    assert Reason.SERVER_MOVED == reason(guard.enter("10.0.0.1"))


def test_a_peers_share(clock):
    """D6: others are not touched by it, and a share comes back."""
    guard = Guard(GuardSettings(connections_per_peer_max=1), clock)
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
    guard = Guard(GuardSettings(connections_per_peer_max=1), clock)
    guard.enter(first)
    assert same == (guard.enter(second) is not None)


def test_no_address_has_no_share(clock):
    """A socket without addresses: only what is for all holds."""
    settings = GuardSettings(connections_per_peer_max=1, connects_per_peer_per_second=1, drops=1)
    guard = Guard(settings, clock)
    assert [None] * 3 == [guard.enter("") for _ in range(3)]
    guard.dropped("", "c")
    guard.exit("")
    assert [("client", "c")] == [(ban.kind, ban.name) for ban in guard.bans]


def test_connects_a_second(clock):
    """D57: 0x9F, and after a while again."""
    guard = Guard(GuardSettings(connects_per_second=2), clock)
    answers = [reason(guard.enter(f"10.0.0.{number}")) for number in range(3)]
    assert [None, None, Reason.CONNECTION_RATE_EXCEEDED] == answers
    clock.now += 0.5
    assert guard.enter("10.0.0.4") is None


def test_connects_a_second_of_one_peer(clock):
    """D57: one that is over its own rate does not use up everybody's."""
    settings = GuardSettings(connects_per_second=3, connects_per_peer_per_second=1)
    guard = Guard(settings, clock)
    assert [None, *[Reason.CONNECTION_RATE_EXCEEDED] * 9] == [
        reason(guard.enter("10.0.0.1")) for _ in range(10)
    ]
    assert [None, None] == [guard.enter(f"10.0.0.{number}") for number in (2, 3)]
    clock.now += 1
    assert guard.enter("10.0.0.1") is None


def test_a_slow_rate_is_remembered_long_enough(clock):
    guard = Guard(GuardSettings(connects_per_peer_per_second=0.1), clock)
    assert guard.enter("10.0.0.1") is None
    clock.now += 9
    assert guard.enter("10.0.0.1") is not None
    clock.now += 10
    assert guard.enter("10.0.0.1") is None


def test_a_flapping_client_is_banned_for_a_while(clock):
    """D56: N drops in T seconds, 0x8A for B seconds, then again."""
    guard = Guard(GuardSettings(drops=3, within_seconds=10, ban_seconds=60), clock)
    for _ in range(2):
        guard.dropped("10.0.0.1", "flapper")
    assert guard.identify("10.0.0.1", "flapper") is None
    guard.dropped("10.0.0.2", "flapper")
    assert Reason.BANNED == reason(guard.identify("10.0.0.3", "flapper"))
    assert (None, None) == (guard.identify("10.0.0.1", "other"), guard.enter("10.0.0.1"))
    assert (1, {Reason.BANNED: 1}) == (guard.banned, guard.refusals)
    clock.now += 60
    assert (None, []) == (guard.identify("10.0.0.3", "flapper"), guard.bans)


def test_drops_that_are_far_apart_are_none(clock):
    guard = Guard(GuardSettings(drops=3, within_seconds=10), clock)
    for _ in range(20):
        guard.dropped("10.0.0.1", "c")
        clock.now += 5.1
    assert 0 == guard.banned


def test_a_peer_that_flaps_under_many_names(clock):
    """D56: it is refused before anything is kept for it."""
    guard = Guard(GuardSettings(drops=2), clock)
    for number in range(2 * BAN_PEER_FACTOR):
        assert guard.enter("10.0.0.1") is None
        guard.exit("10.0.0.1")
        guard.dropped("10.0.0.1", f"c{number}")
    assert (Reason.BANNED, 0) == (reason(guard.enter("10.0.0.1")), guard.connections)
    assert guard.enter("10.0.0.2") is None


def test_failed_logins(clock):
    """D56: nobody is locked out by what others try in its name from elsewhere."""
    guard = Guard(GuardSettings(failed_logins=3, ban_seconds=60), clock)
    for _ in range(3):
        guard.failed("10.0.0.66", "victim")
    assert Reason.BANNED == reason(guard.identify("10.0.0.66", "victim"))
    assert guard.identify("10.0.0.1", "victim") is None
    assert [("at", "10.0.0.66 victim", 60)] == [
        (ban.kind, ban.name, ban.seconds_left) for ban in guard.bans
    ]


def test_failed_logins_under_many_names(clock):
    guard = Guard(GuardSettings(failed_logins=3), clock)
    for number in range(3 * BAN_PEER_FACTOR):
        guard.failed("10.0.0.66", f"c{number}")
    assert Reason.BANNED == reason(guard.enter("10.0.0.66"))
    assert ["failed logins"] == [ban.why for ban in guard.bans]


def test_a_flood_from_many_addresses_never_makes_it_grow(clock):
    """D57: a hundred thousand peers, each with its own client id of 64 KiB at its worst."""
    settings = GuardSettings(connects_per_peer_per_second=1, drops=1, failed_logins=1)
    guard = Guard(settings, clock)
    for number in range(GUARD_ENTRIES_MAX + 1_000):
        peer = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
        guard.enter(peer)
        guard.exit(peer)
        guard.dropped(peer, f"client {number}")
        guard.failed(peer, f"client {number}")
    tables = (guard._peer_rates, guard._drops, guard._failures, guard._bans)
    assert all(len(table) <= GUARD_ENTRIES_MAX for table in tables)
    assert {} == guard._by_peer


def test_a_long_client_id_is_kept_short_and_not_mixed_up(clock):
    guard = Guard(GuardSettings(drops=1), clock)
    guard.dropped("10.0.0.1", "x" * 65_000 + "a")
    (ban,) = guard.bans
    assert GUARD_NAME_CHARS_MAX == len(ban.name)
    assert guard.identify("10.0.0.1", "x" * 65_000 + "b") is None
    assert guard.identify("10.0.0.1", "x" * 65_000 + "a") is not None


def test_a_ban_is_told_to_the_operator(clock, caplog):
    """D56: visible."""
    Guard(GuardSettings(drops=1), clock).dropped("10.0.0.1", "flapper")
    assert "client flapper is banned for 300 s" in caplog.text


GUESSING = GuardSettings(failed_logins=3, within_seconds=60, ban_seconds=300)


def tries(guard, clock, address, seconds):
    """Return how many tries as ann are let through in so many seconds."""
    let = 0
    for _ in range(seconds):
        clock.now += 1
        if not guard.seconds_banned(address, "user ann"):
            guard.guessed(address, "user ann")
            let += 1
    return let


def test_l11_at_an_address_that_is_known_for_a_user_it_is_slowed_down_and_not_banned(clock):
    """Whoever guesses beside ann gets no more tries than by waiting for bans, and ann some."""
    guard = Guard(GUESSING, clock)
    guard.succeeded("10.0.0.1", "user ann")
    assert 4 <= tries(guard, clock, "10.0.0.1", 300) <= 7
    assert [] == [ban for ban in guard.bans if ban.kind == "at"]
    clock.now += 200
    assert 0 == guard.seconds_banned("10.0.0.1", "user ann")
    assert 3 == tries(guard, clock, "10.0.0.2", 300)  # which is not known: a ban
    assert ["at"] == [ban.kind for ban in guard.bans]


def test_l11_who_guesses_from_everywhere_does_not_keep_the_user_out(clock):
    guard = Guard(GUESSING, clock)
    guard.succeeded("10.0.0.1", "user ann")
    for number in range(3 * BAN_PEER_FACTOR):
        guard.guessed(f"192.0.2.{number}", "user ann")
    fresh = [f"198.51.100.{number}" for number in range(100)]
    let = [address for address in fresh if not guard.seconds_banned(address, "user ann")]
    assert fresh[:1] == let
    assert 100 == round(guard.seconds_banned(fresh[1], "user ann"))
    clock.now += 100
    assert 0 == guard.seconds_banned(fresh[1], "user ann")
    assert [0] * 9 == [guard.seconds_banned("10.0.0.1", "user ann") for _ in range(9)]
    assert 0 == guard.seconds_banned(fresh[2], "user ben")


def test_l11_what_is_known_of_users_is_bounded(clock):
    guard = Guard(GUESSING, clock)
    for number in range(GUARD_ENTRIES_MAX + 500):
        guard.succeeded(f"10.0.{number >> 8}.{number & 255}", "user ann")
        guard.guessed_as(f"user {number}")
    brakes = guard._brakes
    assert GUARD_ENTRIES_MAX == len(brakes._known) == len(brakes._failures)
    never = Guard(GuardSettings(), clock)
    never.succeeded("10.0.0.1", "user ann")
    for _ in range(1_000):
        never.guessed("10.0.0.1", "user ann")
    assert 0 == never.seconds_banned("10.0.0.1", "user ann")
