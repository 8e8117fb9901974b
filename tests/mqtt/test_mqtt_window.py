"""The outbound window: identifiers, limits, and the order to send again (D21)."""

import pytest

from rowcast.core.errors import Code, Error
from rowcast.mqtt.window import PACKET_ID_MAX, Window


def test_identifiers_begin_at_one_and_wrap():
    """D21, MQTT-2.2.1-3."""
    window = Window()
    numbers = [window.next_id() for _ in range(PACKET_ID_MAX + 2)]
    assert numbers == [*range(1, PACKET_ID_MAX + 1), 1, 2]


def test_an_identifier_in_flight_is_never_given():
    """D21, MQTT-2.2.1-3."""
    window = Window()
    for packet_id in (1, 2, 4, PACKET_ID_MAX):
        window.start(packet_id, "x")
    assert [window.next_id() for _ in range(3)] == [3, 5, 6]
    window.latest = PACKET_ID_MAX - 1
    assert window.next_id() == 3


def test_every_identifier_in_flight():
    window = Window()
    for _ in range(PACKET_ID_MAX):
        window.start(window.next_id(), None)
    with pytest.raises(Error) as caught:
        window.next_id()
    assert caught.value.code is Code.BUSY
    window.acknowledge(7)
    assert window.next_id() == 7


def test_full_at_the_receive_maximum():
    """MQTT-3.3.4-7."""
    window = Window(2)
    seen = []
    for _ in range(2):
        seen.append(window.full)
        window.start(window.next_id(), "x")
    assert (seen, window.full, len(window)) == ([False, False], True, 2)
    window.acknowledge(1)
    assert not window.full


def test_acknowledge_gives_the_item_once():
    window = Window()
    window.start(1, "x", 5.0)
    assert [window.acknowledge(1), window.acknowledge(1)] == ["x", None]


def test_order_to_send_again():
    """MQTT-4.4.0-1, MQTT-4.6.0-1."""
    window = Window()
    for item in "abcd":
        window.start(window.next_id(), item, 1.0)
    window.acknowledge(2)
    assert [(packet_id, flight.item) for packet_id, flight in window] == [
        (1, "a"),
        (3, "c"),
        (4, "d"),
    ]


def test_released_go_in_the_order_of_their_pubrecs():
    """MQTT-4.6.0-4."""
    window = Window()
    for item in "abc":
        window.start(window.next_id(), item, 1.0)
    assert [window.release(2, 2.0), window.release(1, 3.0), window.release(9)] == ["b", "a", None]
    assert [(packet_id, flight.released, flight.sent_at) for packet_id, flight in window] == [
        (3, False, 1.0),
        (2, True, 2.0),
        (1, True, 3.0),
    ]
    assert len(window) == 3


def test_sending_again_is_counted():
    window = Window()
    window.start(1, "x", 1.0)
    flight = window.flight(1)
    flight.sent_again(4.0)
    assert (flight.sent_at, flight.retries, window.flight(2)) == (4.0, 1, None)


def test_begin_is_next_id_and_start():
    """D21: the hot path's way; it wraps and passes over what is in flight."""
    window = Window()
    assert [window.begin("a"), window.begin("b")] == [1, 2]
    window.latest = PACKET_ID_MAX
    assert [window.begin("c"), window.begin("d")] == [3, 4]
    window.latest = 0
    assert window.begin("e") == 5
    assert window.acknowledge(1) == "a"


def test_begun_flights_are_seen_as_any_other():
    window = Window()
    window.begin(7)
    window.start(2, 8, 5.0)
    assert [(packet_id, flight.item, flight.sent_at) for packet_id, flight in window] == [
        (1, 7, 0.0),
        (2, 8, 5.0),
    ]
    assert [window.release(1, 6.0), window.acknowledge(1), window.acknowledge(2)] == [7, 7, 8]


class Counted(dict):
    """Counts how often it is asked for a key."""

    asked = 0

    def __contains__(self, key):
        self.asked += 1
        return super().__contains__(key)


@pytest.mark.parametrize("together", [1, 1_000, 2_000])
def test_a_free_identifier_is_found_without_a_look_at_all_others(together):
    """P3, D21: whoever acknowledges its newest messages alone costs the others no time."""
    window = Window()
    for _ in range(PACKET_ID_MAX):
        window.begin("x")
    window._flights = flights = Counted(window._flights)
    for _ in range(4_000 // together):
        newest = [(window.latest - back - 1) % PACKET_ID_MAX + 1 for back in range(together)]
        assert ["x"] * together == [window.acknowledge(number) for number in newest]
        assert sorted(newest) == sorted(window.begin("x") for _ in newest)
    assert (PACKET_ID_MAX, True) == (len(window), flights.asked < 4_000 * 60)
