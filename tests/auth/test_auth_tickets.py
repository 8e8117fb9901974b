"""Tickets: once, within seconds, bounded (C27)."""

import pytest

from rowcast.auth.tickets import Tickets
from rowcast.core.authentication_limits import TICKET_SECONDS
from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error

ANN = Caller("ann", door="http", peer="10.0.0.1", roles=frozenset({"r"}))


class World:
    """Tickets, a clock, and chance that never repeats."""

    def __init__(self, **limits):
        self.now = 1000.0
        self.drawn = 0
        self.tickets = Tickets(lambda: self.now, self.chance, **limits)

    def chance(self, size):
        self.drawn += 1
        return self.drawn.to_bytes(size)

    def refusal(self, ticket):
        with pytest.raises(Error) as caught:
            self.tickets.take(ticket, "", "ws")
        return caught.value.code


def test_a_ticket_stands_once_for_who_asked():
    world = World()
    ticket, until = world.tickets.make(ANN)
    assert until - world.now == TICKET_SECONDS <= 30
    caller = world.tickets.take(ticket, "10.0.0.2", "ws")
    assert ("ann", {"r"}, "10.0.0.2", "ws") == (
        caller.user, caller.roles, caller.peer, caller.door,
    )  # fmt: skip
    assert Code.UNAUTHENTICATED is world.refusal(ticket)


def test_a_ticket_is_over_in_seconds():
    world = World()
    ticket, _ = world.tickets.make(ANN)
    world.now += TICKET_SECONDS
    assert Code.UNAUTHENTICATED is world.refusal(ticket)


@pytest.mark.parametrize("ticket", ["", "x", "A" * 43, "\ud800"])
def test_anything_else_is_none(ticket):
    assert Code.UNAUTHENTICATED is World().refusal(ticket)


def test_their_number_is_bounded_and_old_ones_make_room():
    world = World(tickets_max=3)
    for _ in range(3):
        world.tickets.make(ANN)
    with pytest.raises(Error) as caught:
        world.tickets.make(ANN)
    assert Code.BUSY is caught.value.code
    world.now += TICKET_SECONDS
    world.tickets.make(ANN)
    assert 1 == len(world.tickets)


def test_one_user_does_not_take_all_of_them():
    """C27: who asks for tickets and shows none keeps nobody else from having one."""
    world = World(of_user_max=2)
    first, _ = world.tickets.make(ANN)
    world.tickets.make(ANN)
    with pytest.raises(Error) as caught:
        world.tickets.make(ANN)
    assert Code.BUSY is caught.value.code
    world.tickets.make(Caller("bob"))
    world.tickets.take(first, "", "ws")
    world.tickets.make(ANN)
    world.now += TICKET_SECONDS
    for _ in range(2):
        world.tickets.make(ANN)
    assert 2 == len(world.tickets)
