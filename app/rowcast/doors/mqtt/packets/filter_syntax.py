"""Checks of the text of filters."""

from collections.abc import Sequence

from rowcast.core.errors import Code, Error
from rowcast.core.query_topics import QUERY_PREFIX, named_filter
from rowcast.core.replays import is_replay
from rowcast.core.topics import check_wildcards
from rowcast.mqtt.violations import protocol_error


def check_formed(filters: Sequence[str]) -> None:
    """Raise for an invalid topic filter: before MQTT 5, UNSUBACK has no errors.

    It is a protocol violation, which closes the connection (3.1.1: MQTT-4.7.1-2, MQTT-4.7.1-3,
    MQTT-4.7.3-1, MQTT-4.8.0-1). One over a limit of this server is valid, and cannot exist.
    """
    for text in filters:
        if not text:
            raise protocol_error("UNSUBSCRIBE: a topic filter must be one character or longer")
        try:
            check_wildcards(named_filter(text))
        except Error as error:
            raise protocol_error(f"UNSUBSCRIBE: {error.message}") from None


def check_not_query(text: str) -> None:
    """Raise UNSUPPORTED for a live query in a share, or in a stream of the log."""
    if is_replay(text):
        raise Error(
            Code.UNSUPPORTED,
            "a replay is no stream of the log, and has no groups; all who SUBSCRIBE to a shared "
            "replay, $replay/ID/FILTER, get all of it",
            filter=text,
        )
    if text.startswith(QUERY_PREFIX):
        raise Error(
            Code.UNSUPPORTED,
            "a live query is neither shared nor a stream of the log; SUBSCRIBE to it by itself",
            filter=text,
        )
