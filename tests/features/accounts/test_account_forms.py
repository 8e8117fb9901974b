"""What is written about users and roles, and what becomes of it (L10)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowcast.auth.hashes import Hash
from rowcast.auth.user_list import UserList, list_of, tree_of
from rowcast.auth.users import Role, User
from rowcast.core.callers import NONE, Grants
from rowcast.core.errors import Code, Error
from rowcast.features.accounts.forms import UserChange, checked, role_edit, user_members

ADMIN = User("ann", NONE, roles=frozenset({"admin"}))
USUAL = Grants(read=True, write=True)
LIST = UserList(bytes(32), {"ann": ADMIN}, {"crew": Role("crew", Grants(read=True), "n")})


def change(name, value, **more):
    return UserChange(name, user_members(name, value), **more).edit(LIST).users[name]


def refusal(call, *arguments, **more):
    with pytest.raises(Error) as caught:
        call(*arguments, **more)
    return caught.value


def test_a_new_user_may_read_and_write():
    assert User("ben", USUAL, created="now", issue=7) == change("ben", {}, at="now", issue=7)


@pytest.mark.parametrize(
    ("value", "grants"),
    [
        ({"grants": {"read": False}}, Grants(write=True)),
        ({"write": False}, Grants(read=True)),
        (
            {"grants": {"write": True}, "write": False, "administer": True},
            Grants(True, False, True),
        ),
    ],
)
def test_grants_are_said_in_one_or_each_for_itself(value, grants):
    assert grants == change("ben", value).grants


def test_a_put_replaces_and_a_patch_merges():
    before = UserChange("ben", {"roles": ["crew"], "attributes": {"a": 1, "b": 2}}).edit(LIST)
    patch = {"attributes": {"a": None, "c": 3}, "disabled": True}
    ben = UserChange("ben", patch, merges=True).edit(before).users["ben"]
    assert ({"crew"}, {"b": 2, "c": 3}, True) == (ben.roles, ben.attributes, ben.disabled)
    ben = UserChange("ben", {}).edit(before).users["ben"]
    assert (frozenset(), {}, False) == (ben.roles, ben.attributes, ben.disabled)


def test_a_password_stays_until_it_is_replaced_or_removed():
    first = UserChange("ben", {"password": "x"}, (None, Hash("$argon2id$1"))).edit(LIST)
    kept = UserChange("ben", {"roles": []}).edit(first).users["ben"]
    assert (Hash("$argon2id$1"), 0) == (kept.hashed, kept.issue)
    other = (
        UserChange("ben", {"password": "y"}, (None, Hash("$argon2id$2"))).edit(first).users["ben"]
    )
    assert 1 == other.issue
    gone = UserChange("ben", {"password": None}, merges=True).edit(first).users["ben"]
    assert (None, 1) == (gone.check, gone.issue)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "a user is a map"),
        ({"pasword": "x"}, 'did you mean "password"'),
        ({"password": 1}, "should be a text"),
        ({"roles": "admin"}, "a list"),
        ({"roles": ["a/b"]}, "a role is named"),
        ({"roles": [""]}, "a role is named"),
        ({"roles": ["r"] * 65}, "at most 64"),
        ({"attributes": []}, "a map"),
        ({"attributes": {"a": "x" * 20_000}}, "at most"),
        ({"disabled": "yes"}, "'disabled' should be true or false"),
        ({"grants": {"fly": True}}, "'grants' should be"),
        ({"read": 1}, "'read' should be true or false"),
    ],
)
def test_what_is_wrong_about_a_user_is_told(value, words):
    error = refusal(change, "ben", value)
    assert Code.INVALID is error.code
    assert words in error.message


def test_who_is_not_there_is_not_patched():
    assert Code.NOT_FOUND is refusal(change, "ben", {}, merges=True).code
    assert Code.NOT_FOUND is refusal(role_edit, "new", {}, LIST, merges=True).code


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("admin", {}, Code.CONFLICT),
        ("a+b", {}, Code.INVALID),
        ("new", [], Code.INVALID),
        ("new", {"note": 1}, Code.INVALID),
        ("new", {"roles": []}, Code.INVALID),
    ],
)
def test_what_is_wrong_about_a_role_is_told(name, value, code):
    assert code is refusal(role_edit, name, value, LIST, merges=False).code


def test_a_role_is_replaced_or_merged():
    merged = role_edit("crew", {"write": True}, LIST, merges=True).roles["crew"]
    assert (USUAL, "n") == (merged.grants, merged.note)
    replaced = role_edit("crew", {"write": True}, LIST, merges=False).roles["crew"]
    assert (Grants(write=True), "") == (replaced.grants, replaced.note)


def test_somebody_can_always_administer():
    nobody = UserList(bytes(32))
    ben = User("ben", USUAL)
    assert Code.CONFLICT is refusal(checked, nobody, nobody.with_user(ben)).code
    assert Code.CONFLICT is refusal(checked, LIST, LIST.without_user("ann")).code
    both = LIST.with_user(User("ben", Grants(administer=True)))
    assert "ann" not in checked(both, both.without_user("ann")).users


NAMES = st.text("abcdef", min_size=1, max_size=5)
USERS = st.builds(
    User,
    NAMES,
    st.builds(Grants, st.booleans(), st.booleans(), st.booleans()),
    roles=st.frozensets(NAMES, max_size=3),
    attributes=st.dictionaries(NAMES, st.integers() | st.lists(NAMES, max_size=2), max_size=3),
    disabled=st.booleans(),
    created=NAMES,
    issue=st.integers(0, 2**40),
)


@pytest.mark.heavy
@given(st.lists(USERS, max_size=4), st.lists(st.builds(Role, NAMES, note=NAMES), max_size=3))
def test_the_file_holds_all_there_is(users, roles):
    known = UserList(bytes(32))
    for user in users:
        known = known.with_user(user)
    for role in roles:
        known = known.with_role(role)
    assert known == list_of(tree_of(known))
