"""Plain passwords: same work for everybody, remembered, bounded (L2, L11)."""

import asyncio

import pytest

from memory_users import SECRET, ann_and_bob, user
from rowcast.auth.hash_queue import HashQueue
from rowcast.auth.passwords import Passwords
from rowcast.core.errors import Code, Error


class Runner:
    """Runs a check at once, or holds it; keeps how many there were."""

    def __init__(self):
        self.runs = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, call, password):
        self.runs += 1
        await self.gate.wait()
        return call(password)


class Door:
    def __init__(self, turns=None, **limits):
        self.users = ann_and_bob()
        self.runner = Runner()
        self.passwords = Passwords(self.users, b"key", self.runner, turns, **limits)

    async def enter(self, name, password):
        return (await self.passwords.user(name, password, SECRET)).name

    async def refused(self, name, password):
        with pytest.raises(Error) as caught:
            await self.enter(name, password)
        return caught.value


async def test_the_right_password_enters():
    assert "ann" == await Door().enter("ann", b"pencil")


async def test_it_is_checked_in_a_thread_by_default():
    checked = Passwords(ann_and_bob(), b"key")
    assert "bob" == (await checked.user("bob", b"eraser", SECRET)).name


@pytest.mark.parametrize(
    ("name", "password", "runs"),
    [
        pytest.param("ann", b"eraser", 1, id="wrong"),
        pytest.param("ann", b"Pencil", 1, id="another case"),
        pytest.param("Ann", b"pencil", 1, id="another name"),
        pytest.param("eve", b"pencil", 1, id="unknown: the same work"),
        pytest.param("ann", b"", 0, id="empty password"),
        pytest.param("", b"pencil", 0, id="empty name"),
        pytest.param("ann", b"pencil\0", 0, id="NUL"),
        pytest.param("ann\0", b"pencil", 0, id="NUL in the name"),
        pytest.param("ann", b"\xff", 0, id="not UTF-8"),
        pytest.param("ann", b"x" * 1025, 0, id="very long"),
        pytest.param("a" * 256, b"pencil", 0, id="very long name"),
        pytest.param("$server", b"pencil", 0, id="the server's own name"),
        pytest.param("anonymous", b"pencil", 0, id="nobody's name"),
    ],
)
async def test_anything_else_is_refused_alike(name, password, runs):
    door = Door()
    error = await door.refused(name, password)
    assert (Code.UNAUTHENTICATED, "the user name or the password is wrong") == (
        error.code, error.message,
    )  # fmt: skip
    assert runs == door.runner.runs


async def test_the_same_text_in_another_spelling_enters():
    door = Door()
    door.users.add(user("zo\u00eb", "p\u00e4ss"))
    assert "zo\u00eb" == await door.enter("zoe\u0308", "pa\u0308ss".encode())


async def test_a_reconnect_costs_no_hashing():
    door = Door()
    for _ in range(3):
        await door.enter("ann", b"pencil")
    assert 1 == door.runner.runs


async def test_a_wrong_password_is_never_remembered():
    door = Door()
    await door.enter("ann", b"pencil")
    await door.refused("ann", b"eraser")
    await door.refused("ann", b"eraser")
    assert 3 == door.runner.runs


async def test_a_changed_password_is_asked_for_at_once():
    door = Door()
    await door.enter("ann", b"pencil")
    door.users.add(user("ann", "crayon"))
    await door.refused("ann", b"pencil")
    assert "ann" == await door.enter("ann", b"crayon")


async def test_a_removed_user_does_not_enter():
    door = Door()
    await door.enter("ann", b"pencil")
    del door.users.users["ann"]
    assert Code.UNAUTHENTICATED is (await door.refused("ann", b"pencil")).code


async def test_the_oldest_is_forgotten_when_too_many_are_remembered():
    door = Door(remembered_max=1)
    for name, password in (("ann", b"pencil"), ("bob", b"eraser"), ("ann", b"pencil")):
        await door.enter(name, password)
    assert 3 == door.runner.runs


async def test_so_many_are_checked_at_once_and_so_many_wait():
    door = Door(HashQueue(at_once=2, waiting_max=2, draw=lambda _below: 0))
    door.runner.gate.clear()
    entering = [asyncio.create_task(door.enter("ann", b"pencil")) for _ in range(4)]
    for _ in range(5):
        await asyncio.sleep(0)
    assert 2 == door.runner.runs
    late = asyncio.create_task(door.enter("bob", b"eraser"))
    for _ in range(5):
        await asyncio.sleep(0)
    door.runner.gate.set()
    answers = await asyncio.gather(*entering, late, return_exceptions=True)
    assert ["ann", "ann", Code.BUSY, "ann", "bob"] == [getattr(x, "code", x) for x in answers]
