"""Hashes of passwords: argon2id at the least that is recommended (L2)."""

import pytest

from memory_users import SECRET, MemoryUsers, cheap_passwords, user
from rowcast.auth.hashes import Hash, decoy_hash, make_hash, read_hash
from rowcast.auth.passwords import Passwords, keep_password
from rowcast.auth.users import User
from rowcast.core.callers import ALL
from rowcast.core.errors import Error

SALT = b"0123456789abcdef"
PENCIL = make_hash("pencil", SALT)


def test_a_hash_is_that_of_its_password_only():
    assert PENCIL.matches("pencil")
    assert not PENCIL.matches("Pencil")
    assert make_hash("pencil", SALT[::-1]) != PENCIL


def test_it_costs_what_is_recommended():
    """OWASP: argon2id with at least 19 MiB, two rounds and one lane."""
    assert PENCIL.text.startswith("$argon2id$v=19$m=19456,t=2,p=1$")


def test_it_is_read_as_it_was_written():
    assert PENCIL == read_hash(str(PENCIL))


@pytest.mark.parametrize("text", ["", "pencil", "$argon2i$v=19$m=8,t=1,p=1$a$b", PENCIL.text * 9])
def test_what_is_none_is_told_without_repeating_it(text):
    with pytest.raises(Error) as caught:
        read_hash(text)
    assert "pencil" not in caught.value.message


def test_a_damaged_hash_matches_nothing():
    assert not Hash(PENCIL.text[:-5]).matches("pencil")
    assert not Hash("$argon2id$").matches("pencil")


def test_a_decoy_looks_like_any_and_is_always_the_same():
    decoy = decoy_hash("eve", SECRET)
    assert decoy == decoy_hash("eve", SECRET) != decoy_hash("bob", SECRET)
    assert PENCIL.text.rsplit("$", 2)[0] == decoy.text.rsplit("$", 2)[0]
    assert len(PENCIL.text) == len(decoy.text)
    assert not decoy.matches("pencil")


def test_scram_is_kept_beside_it_if_wanted():
    verifier, hashed = keep_password("pencil", bytes, scram=True, iterations=4096)
    assert verifier.matches("pencil")
    assert hashed.matches("pencil")
    assert keep_password("pencil", bytes, scram=False)[0] is None


class Counter:
    """Runs checks, and keeps of what kind they were."""

    def __init__(self):
        self.kinds = []

    async def __call__(self, call, password):
        self.kinds.append(type(call.__self__).__name__)
        return call(password)


async def checks(users, *names):
    """Return what was computed for each name with a wrong password."""
    counter = Counter()
    known = cheap_passwords(users, counter)
    for name in names:
        with pytest.raises(Error, match="wrong"):
            await known.user(name, b"nonsense", SECRET)
    return counter.kinds


NEW = User("ann", ALL, None, PENCIL)


async def test_l11_an_unknown_name_costs_the_work_of_a_wrong_password():
    assert ["Hash", "Hash"] == await checks(MemoryUsers(NEW), "ann", "eve")
    assert ["Verifier", "Verifier"] == await checks(MemoryUsers(user("bob")), "bob", "eve")


@pytest.mark.slow
async def test_l11_where_users_differ_unknown_names_do_too():
    names = [f"nobody{number}" for number in range(20)]
    kinds = await checks(MemoryUsers(NEW, user("bob")), *names)
    assert {"Hash", "Verifier"} == set(kinds)
    assert kinds == await checks(MemoryUsers(NEW, user("bob")), *names)  # each always the same


async def test_a_right_password_is_not_hashed_again():
    counter = Counter()
    known = Passwords(MemoryUsers(NEW), b"key", counter)
    for _ in range(2):
        assert NEW is await known.user("ann", b"pencil", SECRET)
    assert ["Hash"] == counter.kinds
