"""Hypothesis strategies for packets, drawn from the same tables that the codec reads by."""

from hypothesis import strategies as st

from rowcast.mqtt.packets import (
    MQTT_3_1,
    MQTT_3_1_1,
    MQTT_5,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
    Will,
)
from rowcast.mqtt.properties import PROPERTIES, WILL, Wire
from rowcast.mqtt.reasons import REASONS, RETURN_CODES, SUBACK_3, PacketType, Reason

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
NAME = TEXT.filter(lambda text: text and not set(text) & set("+#"))
BYTES = st.binary(max_size=200)
PACKET_ID = st.integers(1, 65_535)
FLAG = st.booleans()
QOS = st.integers(0, 2)

OTHER_VALUES = {
    Wire.BINARY: st.binary(max_size=12),
    Wire.TEXT: TEXT,
    Wire.PAIR: st.tuples(TEXT, TEXT),
}


def _value(item, place):
    one = OTHER_VALUES.get(item.wire, st.integers(item.least, item.most))
    if item.name == "response_topic":
        one = NAME
    if place in item.repeats:
        return st.lists(one, min_size=1, max_size=3).map(tuple)
    return one


def properties(version, place, leave_out=()):
    """Properties that may stand in a packet, or None."""
    if version != MQTT_5:
        return st.none()
    fields = {
        item.name: _value(item, place)
        for item in PROPERTIES
        if place in item.places and item.name not in leave_out
    }
    return st.fixed_dictionaries({}, optional=fields).map(lambda found: found or None)


def publishes(version):
    """PUBLISH packets without Topic Alias and subscription identifiers: legal for either side."""
    foreign = ("topic_alias", "subscription_identifier")
    given = properties(version, PacketType.PUBLISH, foreign)
    qos_0 = st.builds(Publish, NAME, BYTES, st.just(0), FLAG, properties=given)
    others = st.builds(Publish, NAME, BYTES, st.integers(1, 2), FLAG, FLAG, PACKET_ID, given)
    return qos_0 | others


def wills(version):
    """Wills, or None."""
    return st.none() | st.builds(Will, NAME, BYTES, QOS, FLAG, properties(version, WILL))


def connects(version):
    """CONNECT packets."""
    packet = st.builds(
        Connect,
        st.just(version),
        TEXT.filter(bool) if version == MQTT_3_1 else TEXT,
        FLAG,
        st.integers(0, 65_535),
        st.none() | TEXT,
        st.none() | BYTES,
        wills(version),
        properties(version, PacketType.CONNECT, ("authentication_data",)),
    )
    if version == MQTT_5:
        return packet
    return packet.filter(
        lambda it: (
            (it.username is not None or it.password is None)
            and (it.clean_start or it.client_id != "")
        )
    )


def acknowledgements(version):
    """PUBACK, PUBREC, PUBREL and PUBCOMP packets."""
    return st.one_of(
        st.builds(make, PACKET_ID, reasons(version, make.TYPE), properties(version, make.TYPE))
        for make in (Puback, Pubrec, Pubrel, Pubcomp)
    )


def reasons(version, kind):
    """A reason that a packet may carry in a version."""
    if version == MQTT_5:
        return st.sampled_from(sorted(REASONS[kind].values()))
    return st.just(Reason.SUCCESS)


def subscriptions(version):
    """One filter and its options, legal or not as a filter."""
    if version != MQTT_5:
        return st.builds(Subscription, TEXT, QOS)
    return st.builds(Subscription, TEXT, QOS, FLAG, FLAG, QOS)


def to_server(version):
    """Any packet that a client sends within a session."""
    return st.one_of(
        publishes(version),
        acknowledgements(version),
        st.builds(
            Subscribe,
            PACKET_ID,
            st.lists(subscriptions(version), min_size=1, max_size=4).map(tuple),
            properties(version, PacketType.SUBSCRIBE),
        ),
        st.builds(
            Unsubscribe,
            PACKET_ID,
            st.lists(TEXT, min_size=1, max_size=4).map(tuple),
            properties(version, PacketType.UNSUBSCRIBE),
        ),
        st.just(Pingreq()),
    )


def _reason_lists(version, kind):
    table = REASONS[kind] if version == MQTT_5 else SUBACK_3
    return st.lists(st.sampled_from(sorted(table.values())), min_size=1, max_size=4).map(tuple)


def to_client(version):
    """Any packet that a server sends within a session."""
    unsuback_reasons = st.just(())
    if version == MQTT_5:
        unsuback_reasons = _reason_lists(version, PacketType.UNSUBACK)
    return st.one_of(
        publishes(version),
        acknowledgements(version),
        st.builds(
            Suback,
            PACKET_ID,
            _reason_lists(version, PacketType.SUBACK),
            properties(version, PacketType.SUBACK),
        ),
        st.builds(Unsuback, PACKET_ID, unsuback_reasons, properties(version, PacketType.UNSUBACK)),
        st.just(Pingresp()),
    )


def alone(version):
    """Packets that begin or end a connection, or stand outside of a session."""
    refusals = st.sampled_from(RETURN_CODES)
    if version == MQTT_5:
        refusals = reasons(version, PacketType.CONNACK)
    connack = st.builds(
        lambda present, reason, found: Connack(present and not reason, reason, found),
        FLAG if version != MQTT_3_1 else st.just(False),
        refusals,
        properties(version, PacketType.CONNACK),
    )
    disconnect = st.builds(
        Disconnect,
        reasons(version, PacketType.DISCONNECT),
        properties(version, PacketType.DISCONNECT),
    )
    packets = connects(version) | connack | disconnect
    if version != MQTT_5:
        return packets
    auth = st.builds(
        lambda reason, found: Auth(reason, {"authentication_method": "m", **(found or {})}),
        reasons(version, PacketType.AUTH),
        properties(version, PacketType.AUTH),
    )
    return packets | auth


VERSIONS = (MQTT_3_1, MQTT_3_1_1, MQTT_5)


def with_version(make):
    """Pairs of a version and what ``make`` gives for it."""
    # Made here, once: a strategy takes far longer to make than to draw from
    return st.one_of([st.tuples(st.just(version), make(version)) for version in VERSIONS])
