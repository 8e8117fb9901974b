"""Users in a file: read again when it changes, replaced as a whole (L2)."""

import json
import logging
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from memory_users import user
from rowcast.auth.authenticator import Authenticator
from rowcast.auth.users import User
from rowcast.auth.users_file import UsersFile, change_users, read_users, remove_user
from rowcast.core.authentication_limits import USERS_FILE_LOOK_SECONDS
from rowcast.core.callers import ALL, Grants
from rowcast.core.errors import Code, Error

ANN, BOB = user("ann"), user("bob", grants=Grants(read=True))


def add(path, one, chance=b"s"):
    before, _ = change_users(path, lambda known: known.with_user(one), lambda size: chance * size)
    return one.name not in before.users


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data" / "users.json"


class Server:
    """The file as a server reads it, and a clock."""

    def __init__(self, path):
        self.now = 0.0
        self.file = UsersFile(path, lambda: self.now)
        self.file.load()

    async def names(self, *names):
        self.now += 1
        return [name for name in names if await self.file.find(name) is not None]


def test_what_is_added_is_there(path):
    assert add(path, ANN)
    assert add(path, BOB)
    assert {"ann": ANN, "bob": BOB} == read_users(path).users


def test_adding_again_changes(path):
    add(path, ANN)
    changed = User("ann", Grants(read=True))
    assert not add(path, changed)
    assert {"ann": replace(changed, issue=1)} == read_users(path).users


def test_what_is_removed_is_gone(path):
    add(path, ANN)
    assert remove_user(path, "ann")
    assert not remove_user(path, "ann")
    assert {} == read_users(path).users


def test_nothing_can_be_removed_without_a_file(path):
    assert not remove_user(path, "ann")
    assert not path.exists()


def test_the_secret_stays(path):
    add(path, ANN)
    add(path, BOB, b"t")
    assert b"s" * 32 == read_users(path).secret


def test_only_the_owner_may_read_it_and_nothing_else_is_left(path):
    old = os.umask(0)
    try:
        add(path, ANN)
        add(path, BOB)
    finally:
        os.umask(old)
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert [path] == list(path.parent.iterdir())


def test_a_file_that_cannot_be_written_is_told_and_left(path):
    add(path, ANN)
    before = path.read_bytes()
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    fresh.mkdir()
    with pytest.raises(Error, match="cannot be written"):
        add(path, BOB)
    assert before == path.read_bytes()


def test_what_a_killed_life_left_refuses_no_change(path):
    """The main process of a container has the same id in each life."""
    add(path, ANN)
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    fresh.write_text("{")
    add(path, BOB)
    assert [path] == list(path.parent.iterdir())


async def test_a_server_without_a_file_has_no_users(path):
    server = Server(path)
    assert await server.file.secret() is None
    assert await server.file.find("ann") is None


async def test_a_server_notices_changes(path):
    server = Server(path)
    add(path, ANN)
    assert ["ann"] == await server.names("ann", "bob")
    assert b"s" * 32 == await server.file.secret()
    add(path, BOB)
    assert ["ann", "bob"] == await server.names("ann", "bob")
    remove_user(path, "ann")
    assert ["bob"] == await server.names("ann", "bob")


async def test_it_looks_once_in_a_second(path):
    add(path, ANN)
    server = Server(path)
    await server.file.find("ann")
    remove_user(path, "ann")
    server.now += 0.4
    assert ANN == await server.file.find("ann")
    server.now += 0.2
    assert await server.file.find("ann") is None


async def test_when_the_file_goes_away_nobody_can_sign_in(path, caplog):
    """It does not open the door for everybody: there still is a secret."""
    add(path, ANN)
    server = Server(path)
    path.unlink()
    assert [] == await server.names("ann")
    assert b"s" * 32 == await server.file.secret()
    assert "nobody can sign in" in caplog.text


async def test_who_is_removed_while_no_file_can_be_opened_is_gone_once_one_can_be(
    path, monkeypatch, caplog
):
    add(path, ANN)
    server = Server(path)
    remove_user(path, "ann")

    def refuse(_path):
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", refuse)
        assert ["ann"] == await server.names("ann")
    assert "cannot be read: Too many open files" in caplog.text
    assert [] == await server.names("ann")


async def test_a_change_that_keeps_size_and_time_is_noticed(path):
    add(path, ANN)
    server = Server(path)
    facts = path.stat()
    path.write_bytes(path.read_bytes().replace(b'"ann"', b'"eve"'))
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert facts.st_size == path.stat().st_size
    assert ["eve"] == await server.names("ann", "eve")


async def test_when_the_file_is_broken_all_stays_as_it_was(path, caplog):
    add(path, ANN)
    server = Server(path)
    path.write_text("{")
    assert ["ann"] == await server.names("ann")
    assert "users stay as they were" in caplog.text
    assert ["ann"] == await server.names("ann")
    assert 1 == caplog.text.count("users stay")


async def test_a_file_that_others_may_read_is_told(path, caplog):
    add(path, ANN)
    path.chmod(0o644)
    with caplog.at_level(logging.WARNING):
        Server(path)
    assert "chmod 600" in caplog.text


KEY = "cw==" * 11
GOOD = {"secret": "c" * 44, "users": {}}


@pytest.mark.parametrize(
    ("tree", "told"),
    [
        ([], "of 'secret', 'users'"),
        ({"users": {}}, "of 'secret', 'users'"),
        ({**GOOD, "more": 1}, "of 'secret', 'users'"),
        ({**GOOD, "users": []}, "of 'secret', 'users'"),
        ({**GOOD, "secret": "cw=="}, "32 bytes"),
        ({**GOOD, "secret": 7}, "32 bytes"),
        ({**GOOD, "secret": "!"}, "32 bytes"),
        ({**GOOD, "users": {"ann": 7}}, "user 'ann'"),
        ({**GOOD, "users": {"ann": {"admin": True}}}, "nothing else"),
        ({**GOOD, "users": {"ann": {"read": 1}}}, "true or false"),
        ({**GOOD, "users": {"ann": {"verifier": "pencil"}}}, "user 'ann': is not SCRAM"),
        ({**GOOD, "users": {"$ann": {}}}, "does not begin"),
        ({**GOOD, "users": {"a\u00adnn": {}}}, "should be written 'ann'"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(path, tree, told):
    path.parent.mkdir()
    path.write_text(json.dumps(tree))
    with pytest.raises(Error, match=r"users\.json: ") as caught:
        UsersFile(path).load()
    assert Code.INVALID is caught.value.code
    assert told in caught.value.message


@pytest.mark.parametrize("data", [b"", b"\xff", b"[" * 100_000])
def test_what_is_not_json_is_told(path, data):
    path.parent.mkdir()
    path.write_bytes(data)
    with pytest.raises(Error, match="is not JSON"):
        read_users(path)


def test_a_directory_in_its_place_is_told(path):
    path.mkdir(parents=True)
    with pytest.raises(Error, match="cannot be read"):
        read_users(path)


def test_a_user_without_a_password_may_have_rights(path):
    """For certificates, L3."""
    add(path, User("sensor", ALL))
    assert User("sensor", ALL) == read_users(path).users["sensor"]


async def test_a_caller_is_known_at_once_only_by_a_file_that_was_just_looked_at(path):
    """L2: the first user of a server shuts out who was anonymous, within the time of a look."""
    server = Server(path)
    known = Authenticator("everywhere", server.file, ("mqtt",))
    before = known.at_once("10.0.0.1", "mqtt", "c")
    await server.file.look()
    looked = known.at_once("10.0.0.1", "mqtt", "c")
    add(path, ANN)
    server.now += USERS_FILE_LOOK_SECONDS
    later = known.at_once("10.0.0.1", "mqtt", "c")
    await server.file.look()
    assert (None, "anonymous", None, None) == (
        before, looked.user, later, known.at_once("10.0.0.1", "mqtt", "c"),
    )  # fmt: skip


async def test_who_asks_before_a_look_is_too_old_has_the_next_one_begin(path):
    """L2: a crowd is known at once all the time, by a file that is never older than before."""
    server = Server(path)
    known = Authenticator("everywhere", server.file, ("mqtt",))
    await server.file.look()
    add(path, ANN)
    server.now += USERS_FILE_LOOK_SECONDS * 0.75
    assert known.at_once("10.0.0.1", "mqtt", "c").user == "anonymous"
    await server.file._ahead
    server.now += USERS_FILE_LOOK_SECONDS * 0.75
    assert (["ann"], True) == (server.file.names, server.file.fresh)
