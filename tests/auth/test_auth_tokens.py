"""Tokens: our own, those of others, and everything that only looks like one (L5)."""

import json
from base64 import urlsafe_b64encode
from dataclasses import replace

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from hypothesis import given
from hypothesis import strategies as st

from memory_users import SECRET, MemoryUsers, user
from rowcast.auth.authenticator import Authenticator, Credentials
from rowcast.auth.keys import Keys
from rowcast.auth.tokens import ForeignIssuer, Tokens, is_token
from rowcast.auth.users import Role
from rowcast.core.authentication_limits import TOKEN_BYTES_MAX, TOKENS_CACHED_MAX
from rowcast.core.callers import ALL, NONE, Caller, Grants
from rowcast.core.errors import Code, Error

NOW = 1_700_000_000.0
KEY = "0123456789abcdef0123456789abcdef"
PRIVATE = ec.generate_private_key(ec.SECP256R1())
RSA = rsa.generate_private_key(65_537, 2048)
EDWARDS = ed25519.Ed25519PrivateKey.generate()


def pem(private):
    public = private.public_key()
    return public.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def keys(**given):
    made = Keys(**given)
    made.load()
    return made


class World:
    """Tokens, and a clock."""

    def __init__(self, foreign=None):
        self.now = NOW
        self.tokens = Tokens(lambda: self.now, foreign)

    def read(self, token, secret=SECRET):
        return self.tokens.read(token if isinstance(token, bytes) else token.encode(), secret)

    def refusal(self, token, secret=SECRET):
        with pytest.raises(Error) as caught:
            self.read(token, secret)
        assert Code.UNAUTHENTICATED is caught.value.code
        return caught.value.message


def elsewhere(key=KEY, algorithm="HS256", headers=None, **claims):
    said = {"iss": "them", "sub": "zoe", "exp": NOW + 60, "aud": "us"} | claims
    said = {name: value for name, value in said.items() if value is not None}
    return jwt.encode(said, key, algorithm, headers=headers)


THEM = ForeignIssuer(keys(secret=KEY), "them", "us")


def test_our_own_token_names_user_and_issue():
    world = World()
    token, until = world.tokens.make(replace(user("ann"), issue=7), SECRET, 60)
    read = world.read(token)
    assert ("ann", NOW + 60, "", 7) == (read.user, until, read.issuer, read.issue)
    assert is_token(token.encode())
    world.now += 60
    assert "over" in world.refusal(token)


def test_our_own_token_is_worth_nothing_with_another_secret():
    token, _ = World().tokens.make(user("ann"), SECRET, 60)
    assert "not signed" in World().refusal(token, b"x" * 32)
    assert "no other issuer" in World().refusal(token, None)


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"exp": NOW}, "over"),
        ({"exp": None}, "no 'exp'"),
        ({"exp": "soon"}, "no time"),
        ({"exp": True}, "no time"),
        ({"exp": 1e400}, "no time"),
        ({"exp": 10**400}, "no time"),
        ({"exp": 1e15}, "no time"),
        ({"nbf": NOW + 1}, "not valid yet"),
        ({"iat": NOW + 1}, "not valid yet"),
        ({"nbf": []}, "no time"),
        ({"iss": "us"}, "issuer"),
        ({"iss": None}, "no 'iss'"),
        ({"aud": "others"}, "audience"),
        ({"aud": None}, "no 'aud'"),
        ({"sub": None}, "no user"),
        ({"sub": "$server"}, "cannot be"),
        ({"sub": "anonymous"}, "cannot be"),
        ({"sub": ""}, "cannot be"),
        ({"key": "x" * 32}, "not signed"),
        ({"algorithm": "HS512", "key": KEY * 2}, "algorithm"),
        ({"algorithm": "none", "key": None}, "algorithm"),
    ],
)
def test_l5_what_is_wrong_about_a_foreign_token_is_told(claims, words):
    token = elsewhere(**claims)
    told = World(THEM).refusal(token)
    assert words in told
    assert token not in told


def test_the_clock_may_be_off_a_little():
    world = World(replace(THEM, leeway_seconds=30))
    token = elsewhere(exp=NOW - 29, nbf=NOW + 29)
    assert NOW + 1 == world.read(token).until
    world.now += 1
    assert "over" in world.refusal(token)  # it was found right before


@pytest.mark.parametrize(
    ("private", "algorithm"),
    [(PRIVATE, "ES256"), (RSA, "RS256"), (RSA, "PS512"), (EDWARDS, "EdDSA")],
)
def test_a_public_key_in_a_file(tmp_path, private, algorithm):
    file = tmp_path / "key.pem"
    file.write_bytes(pem(private))
    world = World(replace(THEM, keys=keys(key_file=file)))
    assert "jwt:zoe" == world.read(elsewhere(private, algorithm)).user
    confused = urlsafe_b64encode(b'{"alg":"HS256"}').rstrip(b"=")  # RFC 8725, 3.1
    body = urlsafe_b64encode(json.dumps({"sub": "zoe", "exp": NOW + 9}).encode()).rstrip(b"=")
    forged = (
        jwt.api_jws.PyJWS()
        .get_algorithm_by_name("HS256")
        .sign(confused + b"." + body, pem(private))
    )
    token = b".".join((confused, body, urlsafe_b64encode(forged).rstrip(b"=")))
    assert "algorithm" in world.refusal(token)


def test_a_set_of_keys(tmp_path):
    file = tmp_path / "jwks.json"

    def publish(**privates):
        listed = [
            jwt.algorithms.ECAlgorithm.to_jwk(one.public_key(), as_dict=True)
            | {"kid": kid, "alg": "ES256"}
            for kid, one in privates.items()
        ]
        file.write_text(json.dumps({"keys": [*listed, {"kty": "nonsense"}, 7]}))

    other = ec.generate_private_key(ec.SECP256R1())
    publish(a=PRIVATE, b=other)
    world = World(replace(THEM, keys=keys(jwks_file=file)))
    token = elsewhere(other, "ES256", {"kid": "b"})
    assert "jwt:zoe" == world.read(token).user
    assert "not signed" in world.refusal(elsewhere(other, "ES256", {"kid": "a"}))
    assert "not signed" in world.refusal(elsewhere(other, "ES256", {"kid": "c"}))
    assert "not signed" in world.refusal(elsewhere(other, "ES256"))
    publish(a=PRIVATE, c=ec.generate_private_key(ec.SECP256R1()))
    world.tokens.foreign.keys.look()
    assert "not signed" in world.refusal(token)  # what was found right is forgotten
    file.write_text("{")
    world.tokens.foreign.keys.look()
    assert "jwt:zoe" == world.read(elsewhere(PRIVATE, "ES256", {"kid": "a"})).user


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"secret": "short"}, "at least 32 bytes"),
        ({"secret": KEY, "algorithms": ("RS256",)}, "none of the keys"),
    ],
)
def test_keys_that_are_none_are_told(given, words):
    with pytest.raises(Error, match=words) as caught:
        Keys(**given).load()
    assert Code.INVALID is caught.value.code
    assert "short" not in caught.value.message


@pytest.mark.parametrize("text", ["-----BEGIN PUBLIC KEY-----\nx\n-----END PUBLIC KEY-----", "{}"])
def test_files_of_keys_that_are_none_are_told(tmp_path, text):
    file = tmp_path / "key"
    file.write_text(text)
    absent = tmp_path / "absent"
    for paths in ({"key_file": file}, {"jwks_file": file}, {"key_file": absent}):
        with pytest.raises(Error):
            Keys(**paths).load()


@pytest.mark.parametrize(
    ("claim", "names", "roles"),
    [
        (["a", "admin", 7, ""], {}, {"a"}),
        ("a b", {}, {"a", "b"}),
        (["a", "x"], {"x": "admin"}, {"admin"}),
        ({"a": 1}, {}, set()),
        (["r" * 65], {}, set()),
    ],
)
def test_roles_are_read_from_the_claim(claim, names, roles):
    foreign = replace(THEM, roles_claim="realm.roles", role_names=names)
    assert roles == World(foreign).read(elsewhere(realm={"roles": claim})).roles


def test_a_token_is_bounded_and_so_is_what_is_remembered():
    world = World(THEM)
    assert "at most" in world.refusal(b"e" * (TOKEN_BYTES_MAX + 1))
    for number in range(TOKENS_CACHED_MAX + 2):
        world.tokens._right[number.to_bytes(4)] = None
        if len(world.tokens._right) == TOKENS_CACHED_MAX:
            break
    world.read(elsewhere())
    assert TOKENS_CACHED_MAX == len(world.tokens._right)


GOOD = elsewhere()
OWN = World().tokens.make(user("ann"), SECRET, 60)[0]


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode()))
def test_anything_is_refused_with_a_sentence(data):
    World(THEM).refusal(data)


@given(st.sampled_from([GOOD, OWN]), st.data())
def test_a_damaged_token_is_refused_or_the_same(token, data):
    """Base64 has padding and passes over what is none of its letters: that may be the same."""
    raw = list(token.encode())
    how = data.draw(st.sampled_from(["cut", "flip", "insert", "double"]))
    at = data.draw(st.integers(0, len(raw) - 1))
    if how == "cut":
        del raw[at:]
    elif how == "flip":
        raw[at] ^= 1 << data.draw(st.integers(0, 7))
    elif how == "insert":
        raw.insert(at, data.draw(st.integers(0, 255)))
    else:
        raw *= 2
    try:
        read = World(THEM).read(bytes(raw))
    except Error as error:
        assert Code.UNAUTHENTICATED is error.code
    else:
        assert at > token.rindex(".")
        assert read.user in {"jwt:zoe", "ann"}


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@pytest.mark.heavy
@given(st.dictionaries(st.sampled_from(["alg", "kid", "typ", "crit", "b64", "jwk"]), JSONS), JSONS)
def test_any_header_and_claims_are_refused_unsigned(header, claims):
    parts = [json.dumps(one).encode() for one in (header | {"alg": "HS256"}, claims)]
    data = b".".join(urlsafe_b64encode(part).rstrip(b"=") for part in parts) + b"."
    World(THEM).refusal(data)


@pytest.mark.parametrize(
    "header",
    [
        {"kid": "../../../../dev/null"},
        {"kid": "/etc/passwd"},
        {"kid": "a' OR '1'='1"},
        {"kid": ["a"]},
        {"kid": {"$ref": "#"}},
        {"kid": "k" * 5_000},
        {"jku": "http://127.0.0.1:1/keys"},
        {"x5u": "file:///etc/passwd"},
        {"jwk": {"kty": "oct", "k": "eA"}},
        {"crit": ["exp"]},
        {"b64": False, "crit": ["b64"]},
        {"alg": "none"},
        {"alg": "None"},
        {"alg": ["HS256"]},
        {"alg": None},
    ],
)
def test_l5_a_header_leads_to_no_other_key(tmp_path, header):
    """RFC 8725, 3.10: who forged it signs with a key of its own, or with none at all."""
    file = tmp_path / "jwks.json"
    listed = [
        jwt.algorithms.ECAlgorithm.to_jwk(one.public_key(), as_dict=True) | {"kid": kid}
        for kid, one in {"a": PRIVATE, "b": ec.generate_private_key(ec.SECP256R1())}.items()
    ]
    file.write_text(json.dumps({"keys": listed}))
    said = {"iss": "them", "sub": "zoe", "exp": NOW + 60, "aud": "us"}
    parts = [json.dumps(one).encode() for one in ({"alg": "HS256", "typ": "JWT"} | header, said)]
    signed = b".".join(urlsafe_b64encode(part).rstrip(b"=") for part in parts)
    own = jwt.api_jws.PyJWS().get_algorithm_by_name("HS256").sign(signed, b"x")
    world = World(replace(THEM, keys=keys(jwks_file=file)))
    for signature in (own, b""):
        world.refusal(signed + b"." + urlsafe_b64encode(signature).rstrip(b"="))


def test_l5_a_token_in_a_token_is_none():
    inner = elsewhere()
    header = urlsafe_b64encode(b'{"alg":"HS256","cty":"JWT"}').rstrip(b"=")
    signed = header + b"." + urlsafe_b64encode(inner.encode()).rstrip(b"=")
    signature = jwt.api_jws.PyJWS().get_algorithm_by_name("HS256").sign(signed, KEY.encode())
    World(THEM).refusal(signed + b"." + urlsafe_b64encode(signature).rstrip(b"="))


def test_a_key_of_another_kind_leaves_the_others(tmp_path):
    """RFC 7517, 5: keys that are not understood are passed over."""
    known = jwt.algorithms.ECAlgorithm.to_jwk(PRIVATE.public_key(), as_dict=True)
    bitcoin = ec.generate_private_key(ec.SECP256K1()).public_key()
    others = [
        jwt.algorithms.ECAlgorithm.to_jwk(bitcoin, as_dict=True) | {"kid": "k"},
        {"kty": "OKP", "crv": "X25519", "x": "eA", "kid": "x"},
        {"kty": "EC", "crv": "P-256", "x": 7, "y": None, "kid": "n"},
        {"kty": "RSA", "n": "", "e": "AQAB", "kid": "r"},
        {"kty": "oct", "k": "eA", "kid": "o"},
    ]
    file = tmp_path / "jwks.json"
    file.write_text(json.dumps({"keys": [*others, known | {"kid": "good"}]}))
    world = World(replace(THEM, keys=keys(jwks_file=file)))
    assert "jwt:zoe" == world.read(elsewhere(PRIVATE, "ES256", {"kid": "good"})).user
    for kid in ("k", "x", "n", "r", "o"):
        world.refusal(elsewhere(PRIVATE, "ES256", {"kid": kid}))


def test_deep_json_is_refused():
    deep = urlsafe_b64encode(b"[" * 3_000).rstrip(b"=")
    World(THEM).refusal(deep + b"." + deep + b".")


# -- what callers become of them -------------------------------------------------------------------


def authenticator(users, foreign=None, now=lambda: NOW, grants=NONE):
    tokens = Tokens(now, foreign)
    return Authenticator("nobody", users, ("mqtt",), tokens=tokens, foreign_grants=grants, now=now)


async def test_a_foreign_user_has_what_its_roles_grant():
    users = MemoryUsers(user("ann"))
    users.roles = {"crew": Role("crew", Grants(read=True))}
    known = authenticator(users, THEM)
    caller = await known.identify(Credentials(token=elsewhere(roles=["crew"], site="n").encode()))
    assert ("jwt:zoe", Grants(read=True), {"crew"}, "n") == (
        caller.user, caller.grants, caller.roles, caller.claims["site"],
    )  # fmt: skip
    assert NOW + 60 == caller.until
    users.roles = {}
    assert NONE == known.judge(caller).grants


LOCAL = replace(THEM, user_prefix="")


async def test_a_foreign_token_has_nothing_of_a_user_of_the_same_name():
    """Who may name users elsewhere makes no administrators here, trusted to name them or not."""
    users = MemoryUsers(replace(user("zoe"), roles=frozenset({"admin"})))
    for trusted in (THEM, LOCAL):
        known = authenticator(users, trusted)
        caller = await known.identify(Credentials(token=elsewhere().encode()))
        assert (NONE, frozenset()) == (caller.grants, caller.roles)


async def test_a_user_that_is_disabled_is_let_in_by_no_issuer_that_names_it():
    """Where an issuer is trusted to name this server's users."""
    users = MemoryUsers(user("zoe"))
    known = authenticator(users, LOCAL)
    caller = await known.identify(Credentials(token=elsewhere().encode()))
    users.add(replace(user("zoe"), disabled=True))
    with pytest.raises(Error) as caught:
        known.judge(caller)
    assert Code.DENIED is caught.value.code
    with pytest.raises(Error):
        await known.identify(Credentials(token=elsewhere().encode()))


@pytest.mark.parametrize(
    ("issuer", "prefix", "user"),
    [
        ("them", "jwt:", "jwt:zoe"),
        ("them", "corp:", "corp:zoe"),
        ("them", "", "zoe"),
        ("", "jwt:", "jwt:https%3A%2F%2Fa.example:zoe"),
        ("", "", "zoe"),
    ],
)
def test_the_issuer_is_part_of_who_somebody_is(issuer, prefix, user):
    """Any of them, where any is believed; none, where it names this server's users."""
    world = World(replace(THEM, issuer=issuer, user_prefix=prefix))
    assert user == world.read(elsewhere(iss=issuer or "https://a.example")).user


@pytest.mark.parametrize("name", [None, "zoe", "jwt:zoe"])
async def test_a_token_comes_with_its_name_as_it_is_said_or_as_it_is_here(name):
    known = authenticator(MemoryUsers(), THEM)
    caller = await known.identify(Credentials(name, elsewhere().encode(), door="mqtt"))
    assert "jwt:zoe" == caller.user


def test_a_caller_kept_from_before_gets_the_issuer_into_its_name():
    """A delayed write of somebody of the same name elsewhere is not one of the user here."""
    known = authenticator(MemoryUsers(user("zoe", grants=ALL)), THEM)
    caller = known.judge(Caller("zoe", NONE, "delayed", issuer="them"))
    assert ("jwt:zoe", NONE) == (caller.user, caller.grants)
    assert caller is known.judge(caller)


@pytest.mark.parametrize("name", ["\uff52\uff4f\uff4f\uff54", "ro\u00adot", "\u24e1oot"])
@pytest.mark.parametrize("foreign", [THEM, LOCAL])
def test_a_name_that_is_read_as_another_is_nobodys(name, foreign):
    """Full-width letters, a soft hyphen, a circled letter: prepared, each is the user root."""
    assert "another name" in World(foreign).refusal(elsewhere(sub=name))


async def test_l8_a_token_of_ours_ends_with_what_it_was_made_for():
    users = MemoryUsers(user("ann"))
    known = authenticator(users)
    ann = await known.identify(Credentials("ann", b"pencil"))
    token = (await known.token(ann, 60))[0].encode()
    shown = await known.identify(Credentials(token=token))
    assert (ALL, NOW + 60) == (shown.grants, shown.until)
    assert shown is known.judge(shown)
    shorter = (await known.token(replace(shown, until=NOW + 5), 60))[1]
    assert NOW + 5 == shorter  # a token begets no longer one
    users.add(replace(user("ann"), issue=1))
    for check in (known.judge, lambda caller: None):
        with pytest.raises(Error):
            check(shown) or await known.identify(Credentials(token=token))


async def test_without_users_and_issuers_no_token_is_taken():
    known = authenticator(MemoryUsers())
    with pytest.raises(Error, match="no users and no trusted issuers"):
        await known.identify(Credentials(token=GOOD.encode()))


async def test_beside_a_trusted_issuer_a_name_without_users_is_nobodys():
    known = Authenticator("everywhere", MemoryUsers(), tokens=Tokens(lambda: NOW, THEM))
    with pytest.raises(Error, match="show a token"):
        await known.identify(Credentials("ann", b"x", door="http"))


async def test_a_trusted_issuer_closes_the_door_like_users_do():
    known = authenticator(MemoryUsers(), THEM)
    with pytest.raises(Error, match="sign in"):
        await known.identify(Credentials(door="mqtt", peer="127.0.0.1"))
    caller = await known.identify(Credentials(None, elsewhere().encode(), door="mqtt"))
    assert "jwt:zoe" == caller.user
