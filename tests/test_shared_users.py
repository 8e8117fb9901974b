"""Users of a cluster as one node has them: which list wins, the file's or the log's (K17)."""

import asyncio
import logging
from types import SimpleNamespace

import pytest

from rowcast.auth.setup_code import SetupCode
from rowcast.auth.user_list import UserList
from rowcast.auth.users import Role
from rowcast.auth.users_file import UsersFile, change_users, read_users
from rowcast.core.callers import ALL
from rowcast.core.errors import Code, Error
from rowcast.core.facts import Change
from rowcast.program.shared_users import MARK, NAME, OWNER, REPLACED, SharedUsers, sharing
from serving import until

SECRET = b"s" * 32


def with_roles(*names):
    found = UserList(SECRET)
    for name in names:
        found = found.with_role(Role(name, ALL))
    return found


class Node:
    """One node, whose log is a list of what was put in."""

    def __init__(self, folder, log):
        folder.mkdir()
        self.file, self.mark, self.log = folder / "users.json", folder / MARK, log
        self.time, self.error = 0.0, None
        self.users = UsersFile(self.file, clock=self.clock)
        self.users.load()
        self.shared = SharedUsers(self.users, self.file, folder, self.change, 0.001)
        self.facts = {}
        committer = SimpleNamespace(keep=self.keep, on_facts=[])
        facts = SimpleNamespace(committer=committer, facts=self.facts.__setitem__)
        self.shared.install(facts)

    def clock(self):
        self.time += 10.0
        return self.time

    async def change(self, edit):
        await self.users.change(edit, bytes)

    def keep(self, changes, done):
        if self.error is None:
            self.log += changes
        done(self.error)

    def edit(self, *roles):
        change_users(self.file, lambda _: with_roles(*roles), lambda _: SECRET)

    @property
    def roles(self):
        return set(read_users(self.file).roles)

    async def look(self):
        self.shared.on_facts(self.log)
        await self.shared.look()


@pytest.fixture
def nodes(tmp_path):
    log = []
    return [Node(tmp_path / name, log) for name in "ab"]


async def settle(*nodes):
    for _ in range(3):
        for node in nodes:
            await node.look()


async def test_without_users_nothing_is_written(nodes):
    await settle(*nodes)
    assert nodes[0].log == []
    assert not nodes[0].file.exists()
    assert not nodes[0].mark.exists()


async def test_a_change_of_one_file_is_in_all(nodes):
    one, two = nodes
    one.edit("r")
    await settle(one, two)
    assert two.roles == {"r"}
    two.edit("r", "s")
    await settle(one, two)
    assert one.roles == {"r", "s"}
    one.edit()
    await settle(one, two)
    assert two.roles == set()
    assert len(one.log) == 3, "nothing is put in twice"


async def test_a_file_that_is_new_to_the_cluster_is_replaced_and_kept_aside(nodes, caplog):
    one, two = nodes
    one.edit("r")
    await settle(one)
    two.edit("own")
    await settle(two, one)
    assert one.roles == two.roles == {"r"}
    assert set(read_users(two.file.with_name(two.file.name + REPLACED)).roles) == {"own"}
    assert "replace those in" in caplog.text


async def test_a_lost_file_comes_back(nodes):
    one, two = nodes
    one.edit("r")
    await settle(one, two)
    one.file.unlink()
    await settle(one, two)
    assert one.roles == two.roles == {"r"}


async def test_what_was_changed_while_the_node_was_away_is_put_in(nodes):
    one, two = nodes
    one.edit("r")
    await settle(one, two)
    two.edit("r", "away")
    again = SharedUsers(two.users, two.file, two.file.parent, two.change)
    again.install(SimpleNamespace(
        committer=SimpleNamespace(keep=two.keep, on_facts=[]), facts=lambda *_: None
    ))  # fmt: skip
    again.restore([(OWNER, NAME, two.log[-1].value), ("other", NAME, b"x")])
    await again.look()
    await settle(one)
    assert one.roles == {"r", "away"}


async def test_a_log_that_does_not_take_it_is_asked_again(nodes):
    one, two = nodes
    one.error = Error(Code.BUSY, "there is no sequencer")
    one.edit("r")
    await settle(one, two)
    assert not two.file.exists()
    one.error = None
    await settle(one, two)
    assert two.roles == {"r"}


async def test_a_second_change_between_two_looks_is_not_lost(nodes):
    """K17: the node that made the list is not new to it, though it has not looked since."""
    one, two = nodes
    one.edit("r")
    await one.look()
    one.edit("r", "s")
    await settle(one, two)
    assert one.roles == two.roles == {"r", "s"}
    one.edit("r", "s", "t")
    await one.look()
    one.edit("r", "s")  # as it was when file and log were the same last
    await settle(one, two)
    assert one.roles == two.roles == {"r", "s"}


async def test_a_change_while_another_is_on_its_way_is_not_lost(nodes):
    """K17: it is put in when the log has the one before."""
    one, two = nodes
    done, keep = [], one.keep
    for roles, more in ((("r",), ("r", "s")), (("r", "s", "t"), ("r", "s"))):
        one.shared._committer.keep = lambda changes, then: done.append((changes, then))
        one.edit(*roles)
        await one.shared.look()
        one.edit(*more)
        await one.shared.look()
        one.shared._committer.keep = keep
        for changes, then in done:
            one.keep(changes, then)
            await one.look()
        done.clear()
        await settle(one, two)
        assert one.roles == two.roles == {"r", "s"}


async def test_what_the_log_has_taken_is_noted_at_once(nodes):
    """K17: a server that is killed after that knows that it is not new."""
    one = nodes[0]
    await one.shared.start()
    one.edit("r")
    await until(one.mark.exists)
    await one.shared.stop()


async def test_what_is_on_its_way_is_not_put_in_again(nodes):
    one = nodes[0]
    put, done = [], []
    one.shared._committer.keep = lambda changes, then: (put.append(changes), done.append(then))
    one.edit("r")
    await one.shared.look()
    await one.shared.look()
    assert len(put) == 1
    done[0](None)
    await one.shared.look()
    assert len(put) == 1
    assert one.mark.exists()


async def test_a_file_that_changes_meanwhile_is_not_overwritten(nodes, caplog):
    one, two = nodes
    one.edit("r")
    await settle(one, two)
    one.edit("r", "s")
    await settle(one)
    change = two.shared._change

    async def late(edit):
        two.edit("local")
        await change(edit)

    two.shared._change = late
    await two.look()
    assert two.roles == {"local"}
    assert "changed at the same time" in caplog.text
    two.shared._change = change
    await settle(two, one)
    assert one.roles == {"local"}


async def test_a_file_that_cannot_be_written_is_told_once(nodes, caplog):
    one, two = nodes
    one.edit("r")
    await settle(one, two)

    async def refuse(_edit):
        raise Error(Code.INVALID, "cannot be written: Read-only file system")

    change, two.shared._change = two.shared._change, refuse
    one.edit("r", "s")
    await settle(one, two)
    assert caplog.text.count("Read-only file system") == 1
    two.shared._change = change
    await settle(two)
    assert two.roles == {"r", "s"}


async def test_it_looks_by_itself_until_it_is_stopped(nodes):
    one = nodes[0]
    await one.shared.start()
    one.edit("r")
    await until(lambda: one.log)
    await one.shared.stop()
    assert one.log[0][:2] == (OWNER, NAME)
    assert isinstance(one.log[0], Change)


@pytest.mark.parametrize("turns", range(5))
async def test_it_stops_while_the_log_takes_a_list(nodes, turns):
    """Python 3.11's wait_for loses a cancellation that comes with what it waits for."""
    one = nodes[0]
    await one.shared.start()
    await asyncio.sleep(0)
    one.shared._taken.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    async with asyncio.timeout(15):
        await one.shared.stop()


def test_the_setup_code_is_that_of_the_cluster(tmp_path):
    codes = []
    for key in (b"k" * 32, b"k" * 32, b"l" * 32):
        directory = SimpleNamespace(setup_code=SetupCode(), change=None)
        identity = SimpleNamespace(users=UsersFile(tmp_path / "u"), directory=directory)
        config = SimpleNamespace(users_file=tmp_path / "u", data=tmp_path)
        sharing(key).make(SimpleNamespace(config=config, identity=identity))
        codes.append(str(directory.setup_code))
    assert codes[0] == codes[1] != codes[2]
    assert logging.getLogger("rowcast.cluster")
