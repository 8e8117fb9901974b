"""Which changes of nodes are refused, and what is done for the others (K12)."""

from types import SimpleNamespace

import pytest

from rowcast.core.errors import Code, Error
from rowcast.engines.server_status import ServerStatus
from rowcast.program.node_changes import BEHIND_MAX, NodeChanges

HEAD = 1000


class Group:
    """Stands for the servers of the nodes: those of ``keepers`` have the log.

    As a real one does, it may keep the lease at other servers than the log.
    """

    def __init__(self, servers, keepers):
        self.servers = dict.fromkeys(servers, True)
        self.keepers = dict.fromkeys(keepers, True)
        self.lease = {}
        self.done = []
        self.steps = True

    def look(self):
        return ServerStatus(
            dict(self.servers), [dict(self.keepers), self.lease or dict(self.keepers)]
        )

    def list(self, nodes):
        self.done.append("".join(nodes))

    def copy_to(self, count):
        self.done.append(count)
        spare = [name for name in self.servers if name not in self.keepers]
        for name in spare[: max(0, count - len(self.keepers))]:
            self.keepers[name] = self.steps
        if self.lease:
            self.lease["b"] = self.steps
        while len(self.keepers) > count:
            self.keepers.popitem()

    def remove(self, node):
        self.done.append(f"-{node}")
        self.servers.pop(node, None)
        self.keepers.pop(node, None)


def at(name):
    """Return the address of a node."""
    return f"10.0.0.1:{6000 + ord(name)}"


class World:
    """Node ``a`` numbers, and the others follow; ``d`` waits."""

    def __init__(self, nodes="abc", servers=None, keepers="abc"):
        self.sent = {name: HEAD for name in nodes if name != "a"}
        self.links = SimpleNamespace(sent=lambda: dict(self.sent), connected=lambda: self.sent)
        self.group = Group(servers or nodes, keepers)
        addresses = {name: at(name) for name in nodes}
        self.changes = NodeChanges(
            self.group, addresses, self.links, lambda: HEAD, "a", step_seconds=0.0
        )

    def stop(self, name):
        """Stop a node with its server."""
        del self.sent[name]
        self.group.servers[name] = self.group.keepers[name] = False
        return self

    async def join(self, name):
        await self.changes.join(name, at(name))

    async def refused(self, doing, words, code=Code.CONFLICT):
        """Check that a change is refused, and that nothing was done."""
        before = dict(self.changes.nodes)
        with pytest.raises(Error, match=words) as caught:
            await doing
        assert caught.value.code is code
        assert (self.group.done, self.changes.nodes) == ([], before)


async def test_a_node_joins_that_has_started():
    world = World(servers="abcd")
    assert "no node of this cluster" in world.links.check_node("d")
    await world.join("d")
    assert world.group.done == ["abcd", 3]
    assert not world.links.check_node("d")
    world.sent["d"] = HEAD
    world.group.servers["e"] = True
    await world.join("e")
    assert world.group.done[2:] == ["abcde", 5]
    assert sorted(world.group.keepers) == list("abcde")
    await World(servers="abcd").join("c")  # again: nothing new, and checked like the first time


async def test_a_node_leaves_that_is_stopped():
    world = World("abcd").stop("c")
    await world.changes.leave("c")
    assert world.group.done == ["abd", "-c", 3]
    assert sorted(world.group.keepers) == list("abd")
    assert world.links.check_node("c")
    world = World().stop("b")
    await world.changes.leave("b")
    assert world.group.done == ["ac", "-b", 3]
    world.group.servers["d"] = True
    await world.join("d")
    assert sorted(world.group.keepers) == list("acd")
    world = World("abcde", keepers="abcde").stop("e")
    await world.changes.leave("e")
    assert world.group.done == ["abcd", "-e", 3]


async def test_what_was_begun_is_ended_when_it_is_asked_again():
    world = World("abcd").stop("c")
    del world.changes.nodes["c"]  # it was taken from the list, and its server is still there
    await world.changes.leave("c")
    assert world.group.done == ["abd", "-c", 3]


async def test_a_removal_without_an_answer_is_made_again(monkeypatch):
    """Its server would stay in the group, whose changes are refused while one is missing."""
    world = World("abcd").stop("c")
    remove, lost = world.group.remove, [Error(Code.BUSY, "no answer")]

    def fail_once(node):
        if lost:
            raise lost.pop()
        remove(node)

    monkeypatch.setattr(world.group, "remove", fail_once)
    with pytest.raises(Error, match="no answer"):
        await world.changes.leave("c")
    await world.changes.leave("c")
    assert sorted(world.group.servers) == list("abd")
    await world.changes.leave("c")
    assert world.group.done == ["abd", "-c", 3, 3]


async def test_nothing_changes_while_another_node_is_missing_or_behind():
    def with_c(**change):
        world = World(servers="abcd")
        vars(world.group)[change.pop("of")]["c"] = False
        return world

    for world in (with_c(of="servers"), with_c(of="keepers"), World(servers="abcd").stop("c")):
        await world.refused(world.join("d"), "node c is missing")
        world.stop("b")
        await world.refused(world.changes.leave("b"), "node c is missing")
    world = World(servers="abcd")
    world.sent["b"] = HEAD - BEHIND_MAX - 1
    await world.refused(world.join("d"), "101 batches behind")
    world = World(servers="abcd")
    del world.sent["b"]
    await world.refused(world.join("d"), "node b is missing: it is not connected")
    world = World(servers="abcde")
    world.group.servers["e"] = False
    await world.refused(world.join("d"), "node e is missing")


async def test_what_makes_no_sense_is_refused():
    world = World()
    await world.refused(world.join("d"), "node d is not there; start it")
    await world.refused(world.changes.join("d", "nowhere"), "NAME=HOST:PORT", Code.INVALID)
    await world.refused(world.changes.join("d", at("b")), f"{at('b')} is the address of node b")
    await world.refused(world.changes.join("b", "10.0.0.9:6222"), f"node b is listed at {at('b')}")
    await world.refused(world.changes.leave("x"), "no node 'x'", Code.NOT_FOUND)
    await world.refused(world.changes.leave("a"), "node a is the sequencer; stop it")
    await world.refused(world.changes.leave("b"), "node b runs; stop it first")
    del world.sent["b"]
    await world.refused(world.changes.leave("b"), "node b runs; stop it first")
    world = World("ab").stop("b")
    await world.refused(world.changes.leave("b"), "2 nodes must remain")
    world = World("abcde", servers="abcdef", keepers="abcde")
    await world.refused(world.join("f"), "5 nodes at most")


async def test_copies_that_are_not_in_step_are_told():
    world = World("abcd", servers="abcde")
    world.group.steps = False
    with pytest.raises(Error, match="are not in step") as caught:
        await world.join("e")
    assert caught.value.code is Code.BUSY
    assert "e" in world.changes.nodes


async def test_who_asks_again_is_told_that_a_node_has_left():
    world = World("abcd", servers="abcd").stop("d")
    world.group.lease, world.group.steps = dict.fromkeys("abc", True), False
    for _ in range(2):
        with pytest.raises(Error, match="wanted: 3, at: a, b, c, behind: b"):
            await world.changes.leave("d")
    world.group.steps = True
    await world.changes.leave("d")
    assert list(world.changes.nodes) == ["a", "b", "c"]


async def test_the_lease_may_be_at_other_servers_than_the_log():
    world = World("abcde").stop("e")
    world.group.lease = dict.fromkeys("abd", True)
    await world.changes.leave("e")
    assert world.group.done == ["abcd", "-e", 3]


async def test_nodes_without_a_vote_neither_join_nor_leave():
    world = World()
    changes = NodeChanges(None, {"a": "h:1"}, world.links, lambda: HEAD, "a")
    assert not world.links.check_node("x")
    for doing in (changes.join("b", "h:1"), changes.leave("a")):
        with pytest.raises(Error, match="no vote for the log") as caught:
            await doing
        assert caught.value.code is Code.INVALID
