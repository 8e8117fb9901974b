"""Whom a change of users and roles concerns (L8, M9)."""

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
    directory = Directory(users, SimpleNamespace(judge=None, is_removed=None), lambda: 0.0)
    reauthorization, seen, rows = Reauthorization(lambda: 0.0), [], []
    reauthorization.alterations.append(seen.append)
    live = SimpleNamespace(changed=lambda path, name, _: rows.append((path, name)))
    directory.begin(SimpleNamespace(reauthorization=reauthorization, live=live))
    users.listed = after
    directory.tell()
    assert (altered, told, 1) == (seen, rows, reauthorization.revision)
    directory.tell()
    assert 1 == reauthorization.revision
