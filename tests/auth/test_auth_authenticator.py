"""Credentials become a Caller, or a refusal with a sentence."""

import pytest

from app.auth.authenticator import Authenticator, Credentials
from app.core.callers import ALL
from app.core.errors import Code, Error


async def test_a_near_caller_without_a_name_is_anonymous():
    credentials = Credentials(client_id="c", peer="127.0.0.1", door="mqtt")
    caller = await Authenticator("loopback").identify(credentials)
    assert ("anonymous", ALL, "mqtt", "c", "127.0.0.1") == (
        caller.user, caller.grants, caller.door, caller.client_id, caller.peer,
    )  # fmt: skip


@pytest.mark.parametrize(("policy", "peer"), [("loopback", "10.0.0.1"), ("nobody", "127.0.0.1")])
async def test_a_far_caller_without_a_name_is_refused(policy, peer):
    """L1: a fresh install refuses anonymous callers from outside."""
    with pytest.raises(Error, match="sign in") as caught:
        await Authenticator(policy).identify(Credentials(peer=peer))
    assert Code.DENIED is caught.value.code
