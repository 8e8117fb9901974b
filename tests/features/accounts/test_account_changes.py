"""Whom a change of users and roles concerns (L8, M9)."""

import random
from dataclasses import replace
from types import SimpleNamespace

import pytest

from rowcast.auth.user_list import UserList
from rowcast.auth.users import Role, User
from rowcast.core.callers import Grants
from rowcast.features.accounts.accounts import ROLES, USERS, Directory
from rowcast.kernel.reauthorization import Reauthorization

READER = Grants(read=True)
ANN, BEN = User("ann", READER), User("ben", READER)
CREW = Role("crew", READER, "n")
LIST = UserList(bytes(32), {"ann": ANN, "ben": BEN}, {"crew": CREW})


def begun(users):
    """Return a directory, its reauthorization, and the rows that are told of."""
    directory = Directory(users, SimpleNamespace(judge=None, is_removed=None), lambda: 0.0)
    reauthorization, rows = Reauthorization(lambda: 0.0), []
    live = SimpleNamespace(changed=lambda path, name, _: rows.append((path, name)))
    directory.begin(SimpleNamespace(reauthorization=reauthorization, live=live))
    return directory, reauthorization, rows


def fingerprint_of(listed):
    """Return what a process knows that starts with a list."""
    (fingerprint,) = begun(SimpleNamespace(listed=listed))[1].rights_in_force
    return fingerprint()


@pytest.mark.parametrize(
    ("after", "altered", "told"),
    [
        (LIST.with_user(replace(ANN, roles=frozenset({"crew"}))), ["ann"], [(USERS, "ann")]),
        (LIST.without_user("ben"), ["ben"], [(USERS, "ben")]),
        (LIST.with_user(User("cleo", READER)), [], [(USERS, "cleo")]),
        (LIST.without_role("crew"), [""], [(ROLES, "crew")]),
    ],
)
def test_m9_what_alters_rights_is_told_by_user_or_of_all(after, altered, told):
    """M9, L8: a role may be anybody's; who is new has read nothing."""
    users = SimpleNamespace(listed=LIST)
    directory, reauthorization, rows = begun(users)
    seen = []
    reauthorization.alterations.append(seen.append)
    users.listed = after
    directory.notify()
    assert (altered, told, 1) == (seen, rows, reauthorization.revision)
    directory.notify()
    assert 1 == reauthorization.revision


@pytest.mark.parametrize("seed", range(5))
def test_m9_rights_after_changes_are_those_of_a_new_start(seed):
    """M9: of what users may read, and not of what they sign in with."""
    chance, users = random.Random(seed), SimpleNamespace(listed=None)
    directory, reauthorization, _ = begun(users)
    (fingerprint,) = reauthorization.rights_in_force
    seen = {fingerprint_of(None): ({}, {})}
    listed = UserList(bytes(32))
    for _ in range(60):
        name, grants = chance.choice("abc"), Grants(read=chance.random() < 0.5)
        roles = frozenset(chance.choices("xy", k=chance.randrange(3)))
        listed = chance.choice(
            [
                listed.with_user(User(name, grants, roles=roles, issue=chance.randrange(9))),
                listed.with_role(Role(name, grants, chance.choice("nm"))),
                listed.without_user(name),
                listed.without_role(name),
            ]
        )
        users.listed = listed
        directory.notify()
        assert fingerprint() == fingerprint_of(listed)
        may = {one.name: (one.grants, one.roles) for one in listed.users.values()}
        known = may, {one.name: one.grants for one in listed.roles.values()}
        assert known == seen.setdefault(fingerprint(), known)
    assert 9 < len(seen)
