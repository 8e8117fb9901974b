"""SCRAM-SHA-256 on the server's side (RFC 5802, RFC 7677; D44)."""

from base64 import b64decode, b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_users import ScramClient
from rowcast.auth.scram import Challenge, read_client_first
from rowcast.auth.verifier import make_verifier
from rowcast.core.errors import Code, Error

SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
VERIFIER = make_verifier("pencil", SALT, 4096)
NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def challenge(first=FIRST, verifier=VERIFIER):
    return Challenge(read_client_first(first), verifier, NONCE)


def refused(call, *arguments):
    with pytest.raises(Error) as caught:
        call(*arguments)
    return caught.value


def test_the_example_of_rfc_7677():
    asked = challenge()
    assert SERVER_FIRST == asked.message
    assert SERVER_FINAL == asked.judge(FINAL)


@pytest.mark.parametrize("header", ["n,,", "y,,", "n,a=ann,", "y,a=ann,"])
def test_a_client_of_our_own_is_accepted_and_trusts_the_server(header):
    client = ScramClient("ann", "pencil", header=header)
    asked = challenge(client.first)
    assert client.trusts(asked.judge(client.final(asked.message)))


def test_a_wrong_password_is_unauthenticated():
    client = ScramClient("ann", "pen")
    asked = challenge(client.first)
    error = refused(asked.judge, client.final(asked.message))
    assert (Code.UNAUTHENTICATED, "the user name or the password is wrong") == (
        error.code, error.message,
    )  # fmt: skip


def test_a_name_is_unescaped():
    assert "a,b=c" == read_client_first(b"n,,n=a=2Cb=3Dc,r=x").username


def test_an_unknown_optional_extension_is_taken():
    """RFC 5802, 5.1: what is not known is ignored, but it is signed."""
    assert "ann" == read_client_first(b"n,,n=ann,r=x,z=1").username


@pytest.mark.parametrize(
    ("first", "told"),
    [
        (b"", "first message should be"),
        (b"n", "first message should be"),
        (b"n,", "first message should be"),
        (b"n,,", "n=<name>,r=<nonce>"),
        (b"n,,r=x", "n=<name>,r=<nonce>"),
        (b"n,,n=ann", "n=<name>,r=<nonce>"),
        (b"n,,r=x,n=ann", "n=<name>,r=<nonce>"),
        (b"n,,n=,r=x", "a name is not empty"),
        (b"n,,n=a=2,r=x", "a name is not empty"),
        (b"n,,n=a=2c,r=x", "a name is not empty"),
        (b"n,,n=a\0,r=x", "a name is not empty"),
        (b"n,,n=ann,r=", "nonce"),
        (b"n,,n=ann,r=\x20", "nonce"),
        ("n,,n=ann,r=\u00e9".encode(), "nonce"),
        (b"n,a=bob,n=ann,r=x", "somebody else"),
        (b"n,bob,n=ann,r=x", "somebody else"),
        (b"n,,m=1,n=ann,r=x", "mandatory extension"),
        (b"p=tls-unique,,n=ann,r=x", "channel binding"),
        (b"x,,n=ann,r=x", "begin with"),
        (b"\xff", "UTF-8"),
        (b"n,,n=" + b"a" * 5000 + b",r=x", "at most"),
    ],
)
def test_a_broken_first_message_is_told(first, told):
    error = refused(read_client_first, first)
    assert Code.INVALID is error.code
    assert told in error.message


PROOF = FINAL.rpartition(b",")[2]
ECHO = FINAL.split(b",")[1]


@pytest.mark.parametrize(
    ("final", "told"),
    [
        (b"", "second message should be"),
        (b"c=biws," + ECHO, "second message should be"),
        (b"," + PROOF, "second message should be"),
        (ECHO + b"," + PROOF, "second message should be"),
        (b"c=biws," + PROOF, "second message should be"),
        (b"c=eSws," + ECHO + b"," + PROOF, "repeat the first message's header"),
        (b"c=!," + ECHO + b"," + PROOF, "base64"),
        (b"c=biws,r=rOprNGfwEbeRWgbNEkqO," + PROOF, "repeat the nonce"),
        (b"c=biws," + ECHO + b"x," + PROOF, "repeat the nonce"),
        ("c=biws,r=\u00e9,".encode() + PROOF, "repeat the nonce"),
        (b"c=biws," + ECHO + b",m=1," + PROOF, "mandatory extension"),
        (b"c=biws," + ECHO + b",p=!", "base64"),
        (b"c=biws," + ECHO + b",p=", "32 bytes"),
        (b"c=biws," + ECHO + b",p=AAAA", "32 bytes"),
        (b"c=biws," + ECHO + b"," + PROOF + b",z=1", "base64"),
        (b"\xff", "UTF-8"),
        (b"x" * 5000, "at most"),
    ],
)
def test_a_broken_second_message_is_told(final, told):
    error = refused(challenge().judge, final)
    assert Code.INVALID is error.code
    assert told in error.message


def test_a_proof_is_worth_nothing_for_another_nonce():
    client = ScramClient("ann", "pencil")
    final = client.final(challenge(client.first).message)
    other = Challenge(read_client_first(client.first), VERIFIER, "other")
    assert Code.INVALID is refused(other.judge, final).code


PARTS = st.lists(
    st.sampled_from(["n", "y", ",", ",,", "n=", "r=", "a=", "m=", "p=", "c=", "biws", "=2C", "x"])
).map("".join)


@given(st.binary() | PARTS.map(str.encode) | st.text().map(lambda text: f"n,,{text}".encode()))
def test_no_bytes_break_the_first_reader(data):
    try:
        first = read_client_first(data)
    except Error as error:
        assert Code.INVALID is error.code
    else:
        assert data.decode() == first.header + first.bare


@given(
    st.binary()
    | PARTS.map(str.encode)
    | st.binary(min_size=32, max_size=32).map(
        lambda proof: b"c=biws," + ECHO + b",p=" + b64encode(proof)
    )
)
def test_no_bytes_but_the_proof_are_accepted(data):
    error = refused(challenge().judge, data)
    assert error.code in {Code.INVALID, Code.UNAUTHENTICATED}
