"""Signing in by SCRAM: known and unknown users are asked alike (D44)."""

import pytest

from memory_users import SECRET, MemoryUsers, ScramClient, ann_and_bob
from rowcast.auth.sasl import ScramExchange
from rowcast.auth.users import User
from rowcast.core.callers import ALL
from rowcast.core.errors import Code, Error


def exchange(users=None, nonce=b"nonce"):
    return ScramExchange(users or ann_and_bob(), SECRET, lambda size: (nonce * size)[:size])


async def asked(client, users=None):
    """Return the exchange after its first step, and what it says."""
    talk = exchange(users)
    step = await talk.step(client.first)
    assert not step.done
    return talk, step.data


async def test_two_steps_tell_who_it_is():
    client = ScramClient("ann", "pencil")
    talk, message = await asked(client)
    step = await talk.step(client.final(message))
    assert step.done
    assert "ann" == step.user.name
    assert client.trusts(step.data)


async def test_a_client_that_says_nothing_is_asked_to_begin():
    talk = exchange()
    assert (b"", False) == ((step := await talk.step(b"")).data, step.done)
    assert (await talk.step(ScramClient("ann", "pencil").first)).data.startswith(b"r=")


async def test_saying_nothing_twice_is_refused():
    talk = exchange()
    await talk.step(b"")
    with pytest.raises(Error, match="first message"):
        await talk.step(b"")


@pytest.mark.parametrize("users", [ann_and_bob(), MemoryUsers(User("eve", ALL))])
@pytest.mark.parametrize("name", ["eve", "mallory"])
async def test_an_unknown_user_is_refused_at_the_end_like_a_wrong_password(name, users):
    client = ScramClient(name, "pencil")
    talk, message = await asked(client, users)
    with pytest.raises(Error, match="the user name or the password is wrong") as caught:
        await talk.step(client.final(message))
    assert Code.UNAUTHENTICATED is caught.value.code


async def test_the_salt_of_an_unknown_user_is_always_the_same_and_its_own():
    def salt(message):
        return message.split(b",")[1]

    eve = [salt((await asked(ScramClient("eve", "x")))[1]) for _ in range(2)]
    mallory = salt((await asked(ScramClient("mallory", "x")))[1])
    assert eve[0] == eve[1]
    assert eve[0] != mallory


async def test_a_name_is_looked_up_as_it_is_kept():
    users = ann_and_bob()
    await asked(ScramClient("a\u00adnn", "pencil"), users)
    assert ["ann"] == users.asked


@pytest.mark.parametrize("name", ["$server", "anonymous", "a" * 300, "a\u0007"])
async def test_a_name_that_nobody_can_have_is_refused(name):
    with pytest.raises(Error) as caught:
        await exchange().step(ScramClient(name, "x").first)
    assert Code.UNAUTHENTICATED is caught.value.code


async def test_the_nonce_is_of_the_randomness_passed_in():
    _, message = await asked(ScramClient("ann", "pencil"))
    assert message.startswith(b"r=rOprNGfwEbeRWgbNEkqObm9uY2Vub25jZW5vbmNlbm9u,")
