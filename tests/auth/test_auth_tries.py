"""Tries: guessing is slow, and whoever has the right password gets in (L11, P3)."""

import pytest

from rowcast.auth.tries import LoginAttempt, LoginRateLimit
from rowcast.core.errors import Code, Error
from rowcast.core.limits import GUARD_ENTRIES_MAX

FEW, SECONDS, WIDE = 3, 300, 10
HOME, AWAY, ELSEWHERE = "10.0.0.1", "192.0.2.7", "198.51.100.9"


class World:
    """Tries at a time of the test's; nobody's password is wrong unless it is said."""

    def __init__(self, failures=FEW, **limits):
        self.now = 1_000.0
        self.tries = LoginRateLimit(failures, SECONDS, lambda: self.now, WIDE, **limits)
        self.made = 0

    def trial(
        self, user="ann", peer=HOME, device="HTTP", secret=None, *, foreign=False, is_user=True
    ):
        self.made += 1
        secret = str(self.made).encode() if secret is None else secret
        return LoginAttempt(user, peer, device, foreign, secret, is_user)

    def lets(self, *facts, right=False, is_user=True, **more):
        """Tell whether a try is let through; when it is, it is right or wrong."""
        try:
            attempt = self.tries.begin(self.trial(*facts, is_user=is_user, **more))
        except Error as error:
            assert (Code.BUSY, True) == (error.code, error.detail["rate"])
            return False
        with attempt:
            if right:
                attempt.succeeded()
            else:
                attempt.failed(is_user=is_user)
        return True

    def guess(self, times, *facts, **more):
        """Return how many of so many wrong passwords are let through."""
        return sum(self.lets(*facts, **more) for _ in range(times))


@pytest.fixture
def world():
    return World()


def test_p3_wrong_names_slow_nobody_else_down(world):
    for number in range(1_000):
        assert world.lets(f"nobody {number}", is_user=False)
    assert world.lets("ann", right=True)


def test_l11_guesses_of_one_name_at_one_address_are_slowed_down(world):
    assert FEW == world.guess(99)
    world.now += SECONDS / FEW
    assert 1 == world.guess(99)
    assert world.lets("ben")


def test_a_refusal_says_how_long(world):
    world.guess(FEW)
    with pytest.raises(Error) as caught:
        world.tries.begin(world.trial())
    assert 100 == caught.value.detail["retry_after_seconds"]
    with pytest.raises(Error):
        world.tries.check(world.trial())


def test_p3_who_is_slowed_down_gets_in_after_a_moment(world):
    world.guess(99)
    world.now += SECONDS / FEW
    assert world.lets(right=True)
    assert all(world.lets(right=True) for _ in range(99))


def test_p3_where_a_user_has_signed_in_no_guess_from_elsewhere_is_felt(world):
    world.lets(right=True)
    for number in range(999):
        world.lets("ann", f"192.0.2.{number}")
    assert not world.lets("ann", AWAY, right=True)
    assert world.lets(right=True)
    assert world.lets(device="client new", right=True)


def test_p3_a_device_that_has_signed_in_is_not_slowed_down_by_its_neighbours(world):
    """Behind one address: who guesses does not know the client id, or does not speak MQTT."""
    world.lets(device="client meter", right=True)
    assert FEW * WIDE == world.guess(99, device="HTTP")
    assert not world.lets(device="client other", right=True)
    assert world.lets(device="client meter", right=True)


def test_l11_where_a_user_has_signed_in_its_own_guesses_are_slowed_down_too(world):
    world.lets(right=True)
    assert FEW * WIDE == world.guess(99)
    world.now += SECONDS / FEW / WIDE
    assert 1 == world.guess(99)


def test_l11_many_addresses_guess_no_faster_than_a_wide_lane(world):
    assert FEW * WIDE == sum(world.lets("ann", f"192.0.2.{n}") for n in range(255))
    assert not world.lets("ann", ELSEWHERE)
    assert world.lets("ben", ELSEWHERE)


def test_l11_one_address_that_tries_everybody_is_slowed_down(world):
    """Only those who are users count, and those who have signed in there do not notice."""
    world.lets("ann", right=True)
    assert FEW * WIDE == sum(world.lets(f"user {n}") for n in range(99))
    assert not world.lets("zoe", right=True)
    assert world.lets("ann", right=True)
    assert world.lets("zoe", AWAY, right=True)


def test_l11_who_says_to_be_a_page_guesses_no_faster_than_others(world):
    """Any program can send Sec-Fetch-Site: what comes so is counted as strangers' tries are."""
    many = [world.lets("ann", f"192.0.2.{n}", foreign=True) for n in range(255)]
    assert FEW * WIDE == sum(many)
    assert FEW * WIDE == sum(world.lets(f"user {n}", foreign=True) for n in range(99))
    assert world.lets("zoe", right=True)


def test_p3_what_pages_send_slows_nothing_down_but_pages(world):
    for number in range(99):
        world.lets("ann", f"192.0.2.{number}", foreign=True)
        world.lets(f"user {number}", foreign=True)
    assert world.lets("ann", right=True)
    assert world.lets("zoe", AWAY, right=True)
    assert FEW == world.guess(99, "user 1")


def test_l11_names_that_are_nobodys_make_no_room_for_more_guesses():
    world = World(entries_max=8)
    assert FEW == world.guess(99)
    for number in range(99):
        world.lets(f"nobody {number}", is_user=False)
    assert 0 == world.guess(99)


def test_l11_names_that_are_nobodys_are_slowed_down_as_users_are(world):
    """Else the answers would tell who there is."""
    assert FEW == world.guess(99, "nobody", is_user=False)


def test_many_users_that_come_back_at_once_from_one_address_are_all_let_in(world):
    attempts = [world.tries.begin(world.trial(f"user {number}")) for number in range(999)]
    for attempt in attempts:
        with attempt:
            attempt.succeeded()


def test_a_try_that_is_made_many_times_at_once_is_one(world):
    """A page that opens twenty streams with the same password, or a thousand equal devices."""
    trials = [world.trial(secret=b"same") for _ in range(99)]
    attempts = [world.tries.begin(trial) for trial in trials]
    for attempt in attempts:
        with attempt:
            attempt.failed(is_user=True)
    assert FEW - 1 == world.guess(99)


def test_a_wrong_try_counts_whoever_of_its_equals_goes_away(world):
    for _ in range(FEW):
        one, other = (world.tries.begin(world.trial(secret=b"same")) for _ in range(2))
        with one:
            pass
        with other:
            other.failed(is_user=True)
        world.made += 1
    assert 0 == world.guess(99)


def test_a_try_that_is_never_found_out_does_not_count(world):
    for _ in range(99):
        with world.tries.begin(world.trial()):
            pass
    assert FEW == world.guess(99)


def test_tries_whose_secret_is_not_known_are_each_their_own(world):
    """SCRAM: the server learns no password."""
    first = [world.tries.begin(world.trial(secret=b"")) for _ in range(FEW)]
    assert not world.lets(secret=b"")
    for attempt in first:
        with attempt:
            pass
    assert world.lets(secret=b"")


def test_p3_what_a_foreign_page_tries_is_felt_by_nobody_else(world):
    assert FEW == world.guess(99, foreign=True)
    assert FEW == world.guess(99)
    world.lets("ben", right=True, foreign=True)
    assert not world.tries.knows(world.trial("ben"))


def test_an_ipv6_network_is_one_address(world):
    assert FEW == sum(world.lets("ann", f"2001:db8::{number}") for number in range(1, 99))


def test_where_a_user_has_signed_in_is_forgotten_after_a_time():
    world = World(known_seconds=60)
    world.lets(right=True)
    assert world.tries.knows(world.trial())
    world.now += 60
    assert not world.tries.knows(world.trial())


def test_what_is_remembered_of_strangers_is_bounded():
    world = World(entries_max=50)
    for number in range(999):
        peer = f"10.0.{number // 250}.{number % 250}"
        world.lets(f"user {number}", peer)
        world.lets(f"user {number}", peer, right=True)
    tries = world.tries
    assert (50, 50, 50) == (len(tries._addresses), len(tries._devices), len(tries._budgets))
    assert {} == tries._under_way
    assert GUARD_ENTRIES_MAX == LoginRateLimit()._budgets.entries_max


def test_without_a_limit_nothing_is_counted_or_remembered():
    world = World(failures=0)
    assert 999 == world.guess(999)
    world.lets(right=True)
    assert not world.tries.knows(world.trial())


def test_what_is_slowed_down_is_told(world, caplog):
    world.guess(FEW)
    assert [("at 10.0.0.1 ann", 100.0)] == list(world.tries.slowed)
    assert "slowed down for a while: at 10.0.0.1 ann: failed logins" in caplog.text
    world.now += SECONDS
    assert [] == list(world.tries.slowed)
