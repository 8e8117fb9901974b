"""Credentials become a Caller, or a refusal with a sentence (L1, L2, L3)."""

from dataclasses import replace

import pytest

from memory_users import MemoryUsers, ScramClient, ann_and_bob, cheap_passwords, user
from rowcast.auth.authenticator import Authenticator, Credentials
from rowcast.auth.keys import Keys
from rowcast.auth.tokens import ForeignIssuer, Tokens
from rowcast.auth.users import User
from rowcast.core.callers import ADMIN, ALL, Caller, Grants
from rowcast.core.errors import Code, Error

NEAR, FAR = "127.0.0.1", "10.0.0.1"
READ = Grants(read=True)
FACTS = ("user", "grants", "door", "client_id", "peer", "roles", "claims", "issuer", "until")


def authenticator(policy="loopback", users=None, required=("mqtt",)):
    return Authenticator(policy, ann_and_bob() if users is None else users, required)


def certificate(name):
    return {"subject": ((("organizationName", "Acme"),), (("commonName", name),))}


def shown(username=None, password=None, peer=NEAR, door="mqtt", **more):
    return Credentials(username, password, peer=peer, door=door, client_id="c", **more)


async def refusal(known, credentials):
    with pytest.raises(Error) as caught:
        await known.identify(credentials)
    return caught.value


async def test_a_near_caller_without_a_name_is_anonymous():
    caller = await Authenticator("loopback").identify(shown())
    assert ("anonymous", ALL, "mqtt", "c", NEAR) == (
        caller.user, caller.grants, caller.door, caller.client_id, caller.peer,
    )  # fmt: skip


@pytest.mark.parametrize("users", [None, MemoryUsers()])
@pytest.mark.parametrize(("policy", "peer"), [("loopback", FAR), ("nobody", NEAR)])
async def test_a_far_caller_without_a_name_is_refused(policy, peer, users):
    """L1: a fresh install refuses anonymous callers from outside."""
    error = await refusal(Authenticator(policy, users, ("mqtt",)), shown(peer=peer))
    assert Code.DENIED is error.code
    assert "sign in" in error.message


@pytest.mark.parametrize("users", [None, MemoryUsers(), ann_and_bob()])
@pytest.mark.parametrize("required", [(), ("mqtt",)])
@pytest.mark.parametrize("policy", ["loopback", "everywhere", "nobody"])
@pytest.mark.parametrize("peer", [NEAR, FAR])
async def test_who_shows_nothing_is_known_at_once_as_after_waiting(policy, users, required, peer):
    """L1: the same caller, or none where it is refused, which counts as one refusal."""
    known = Authenticator(policy, users, required)
    found = known.at_once(peer, "mqtt", "c")
    assert 0 == known.failures
    if found is None:
        assert Code.DENIED is (await refusal(known, shown(peer=peer))).code
    else:
        waited = await known.identify(shown(peer=peer))
        assert [getattr(waited, name) for name in FACTS] == [getattr(found, name) for name in FACTS]


async def test_without_users_a_name_and_password_mean_nothing():
    caller = await authenticator(users=MemoryUsers()).identify(shown("ann", b"x"))
    assert "anonymous" == caller.user


async def test_a_user_has_its_own_rights():
    known = authenticator()
    ann = await known.identify(shown("ann", b"pencil", peer=FAR))
    bob = await known.identify(shown("bob", b"eraser"))
    assert ("ann", ALL, FAR, "c") == (ann.user, ann.grants, ann.peer, ann.client_id)
    assert ("bob", READ, NEAR, "c") == (bob.user, bob.grants, bob.peer, bob.client_id)


@pytest.mark.parametrize("policy", ["loopback", "everywhere"])
@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("ann", b"eraser"),
        ("eve", b"pencil"),
        ("ann", None),
        (None, b"pencil"),
        ("", b""),
        ("", None),
    ],
)
async def test_whoever_shows_something_wrong_is_no_anonymous_caller(policy, name, password):
    error = await refusal(authenticator(policy, required=()), shown(name, password))
    assert Code.UNAUTHENTICATED is error.code


@pytest.mark.parametrize(
    ("required", "policy", "door", "peer", "accepted"),
    [
        pytest.param(("mqtt",), "everywhere", "mqtt", NEAR, False, id="requireAuthentication"),
        pytest.param(("mqtt",), "everywhere", "http", FAR, True, id="another door"),
        pytest.param((), "loopback", "mqtt", NEAR, True, id="not required, near"),
        pytest.param((), "loopback", "mqtt", FAR, False, id="not required, far"),
        pytest.param((), "everywhere", "mqtt", FAR, True, id="not required, everywhere"),
        pytest.param((), "nobody", "mqtt", NEAR, False, id="not required, nobody"),
    ],
)
async def test_with_users_callers_without_a_name(required, policy, door, peer, accepted):
    """L1: requireAuthentication, and where it is not set, security.anonymous."""
    known = authenticator(policy, required=required)
    if accepted:
        assert "anonymous" == (await known.identify(shown(peer=peer, door=door))).user
    else:
        assert Code.DENIED is (await refusal(known, shown(peer=peer, door=door))).code


async def test_users_that_come_later_are_in_force_at_once():
    users = MemoryUsers()
    known = authenticator(users=users)
    await known.identify(shown())
    users.add(user("ann"))
    assert Code.DENIED is (await refusal(known, shown())).code


async def test_refusals_are_counted():
    """L9."""
    known = authenticator()
    await known.identify(shown("ann", b"pencil"))
    await refusal(known, shown("ann", b"x"))
    await refusal(known, shown())
    assert 2 == known.failures


# -- changed while it is proved --------------------------------------------------------------------

CHANGES = {
    "fewer rights": user("ann", "pencil", READ),
    "a new password": replace(user("ann", "eraser"), issue=1),
    "disabled": replace(user("ann", "pencil"), disabled=True),
    "removed": None,
}
ENDS = {
    "a new password": Code.UNAUTHENTICATED,
    "disabled": Code.DENIED,
    "removed": Code.UNAUTHENTICATED,
}


def change(users, to):
    users.users.pop("ann")
    if to is not None:
        users.add(to)


def changed_during(users, to):
    """Return a check of passwords during which ann changes."""

    async def run(call, password):
        change(users, to)
        return call(password)

    return run


async def by_password(known, _users):
    return await known.identify(shown("ann", b"pencil"))


async def by_exchange(known, users):
    """Sign in by SCRAM; ann changes before she answers."""
    exchange, client = await known.exchange("SCRAM-SHA-256"), ScramClient("ann", "pencil")
    asked = await exchange.step(client.first)
    change(users, users.next)
    step = await exchange.step(client.final(asked.data))
    return known.caller(step.user, shown())


@pytest.mark.parametrize("way", [by_password, by_exchange])
@pytest.mark.parametrize("what", CHANGES)
async def test_l8_who_changes_while_it_signs_in_is_as_it_became(way, what):
    """L8: a check waits for a thread, and an exchange for its client, which may wait for days."""
    users = MemoryUsers(user("ann"), user("bob"))
    users.next = CHANGES[what]
    known = authenticator(users=users)
    known._passwords = cheap_passwords(users, changed_during(users, users.next))
    if what in ENDS:
        with pytest.raises(Error) as caught:
            await way(known, users)
        assert ENDS[what] is caught.value.code
    else:
        assert READ == (await way(known, users)).grants


async def test_l8_a_password_that_was_replaced_meanwhile_gives_no_token():
    """L8: else an old password would give a token that counts as one of the new password."""
    users = ann_and_bob()
    known = authenticator(users=users)
    ann = await known.identify(shown("ann", b"pencil"))
    users.add(CHANGES["a new password"])
    with pytest.raises(Error, match="was changed"):
        await known.token(ann, 60)


# -- certificates ----------------------------------------------------------------------------------


DATA = Grants(read=True, write=True)


@pytest.mark.parametrize("peer", [NEAR, FAR])
async def test_p3_without_users_a_certificate_is_a_name_and_no_administrator(peer):
    """Its authority vouches for the name; what that may do is data, from this machine too."""
    known = authenticator(users=MemoryUsers())
    caller = await known.identify(shown(peer=peer, certificate=certificate("sensor")))
    assert ("sensor", DATA, frozenset(), peer) == (
        caller.user, caller.grants, caller.roles, caller.peer,
    )  # fmt: skip


async def test_p3_beside_a_trusted_issuer_a_certificate_is_no_administrator():
    """Also where names mean something because tokens of others are taken."""
    tokens = Tokens(lambda: 0.0, ForeignIssuer(Keys()))
    known = Authenticator("loopback", MemoryUsers(), ("mqtt",), tokens=tokens)
    caller = await known.identify(shown(certificate=certificate("sensor")))
    assert (DATA, frozenset()) == (caller.grants, caller.roles)


def test_p3_who_administered_by_a_certificate_before_does_so_no_more():
    """A will or a delayed write may be kept with the rights of an earlier version."""
    known = authenticator(users=MemoryUsers())
    kept = Caller("sensor", ALL, "delayed", roles=frozenset({ADMIN}))
    caller = known.judge(kept)
    assert (DATA, frozenset()) == (caller.grants, caller.roles)


def test_a_certificate_without_users_stays_who_it_is():
    """The same caller, so that its writes stay in order."""
    caller = Caller("sensor", DATA, "mqtt")
    assert caller is authenticator(users=MemoryUsers()).judge(caller)


async def test_with_users_a_certificate_is_one_of_them():
    known = authenticator(users=MemoryUsers(User("sensor", READ), user("ann")))
    caller = await known.identify(shown("sensor", certificate=certificate("sensor")))
    assert ("sensor", READ) == (caller.user, caller.grants)


@pytest.mark.parametrize(
    ("facts", "name", "told"),
    [
        (certificate("stranger"), None, "no user's"),
        (certificate("ann"), "bob", "another than the certificate's"),
        (certificate("anonymous"), None, "the certificate's name"),
        (certificate("$server"), None, "the certificate's name"),
        (certificate("\uff41\uff4e\uff4e"), None, "'ann' is another name"),  # full-width ann
        (certificate("a\u00adnn"), None, "the certificate's name"),  # not printable
        ({"subject": ()}, None, "the certificate's name"),
        ({"issuer": ()}, None, "the certificate's name"),
    ],
)
async def test_a_certificate_of_nobody_is_refused(facts, name, told):
    error = await refusal(authenticator("everywhere", required=()), shown(name, certificate=facts))
    assert Code.DENIED is error.code
    assert told in error.message


async def test_a_rule_says_which_user_a_certificate_is():
    """L3: `mqtt.mTLS.user`; the other rules are tried in test_auth_certificates."""
    known = Authenticator("loopback", ann_and_bob(), ("mqtt",), certificate_user="bob")
    assert "bob" == (await known.identify(shown(certificate=certificate("sensor")))).user


async def test_a_rule_may_say_that_certificates_name_nobody():
    """L3: then they only open the door, and users sign in as without them."""
    known = Authenticator("loopback", ann_and_bob(), ("mqtt",), certificate_user="")
    error = await refusal(known, shown(certificate=certificate("bob")))
    assert "a user name and a password are needed; sign in" == error.message


async def test_a_password_goes_before_a_certificate():
    known = authenticator()
    caller = await known.identify(shown("bob", b"eraser", certificate=certificate("ann")))
    assert "bob" == caller.user
    error = await refusal(known, shown("bob", b"x", certificate=certificate("bob")))
    assert Code.UNAUTHENTICATED is error.code


async def test_a_connection_whose_certificate_was_not_verified_has_none():
    assert "anonymous" == (await Authenticator().identify(shown(certificate={}))).user


# -- exchanges -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "users"),
    [("PLAIN", None), ("scram-sha-256", None), ("SCRAM-SHA-256", MemoryUsers())],
)
async def test_no_other_exchange_is_offered(method, users):
    assert await authenticator(users=users).exchange(method) is None
    assert await Authenticator().exchange(method) is None


async def test_scram_is_offered_with_a_nonce_of_chance():
    known = authenticator()
    client = ScramClient("ann", "pencil")
    talks = [await known.exchange("SCRAM-SHA-256") for _ in range(2)]
    said = [(await talk.step(client.first)).data for talk in talks]
    assert said[0] != said[1]


async def test_p3_networks_of_one_site_wait_for_each_other(monkeypatch):
    """Else one customer of IPv6, who has 65,536 of them, would push everybody out of the queue."""
    known, lanes = authenticator(), []

    async def user(name, password, secret, lane):
        lanes.append(lane)
        raise Error(Code.UNAUTHENTICATED, "wrong")

    monkeypatch.setattr(known._passwords, "user", user)
    for network in range(9):
        await refusal(known, shown("ann", b"x", peer=f"2001:db8:0:{network}::1"))
    assert {"other 2001:db8::/48"} == set(lanes)
