"""The commands of a WebSocket that begin, change and end replays (M6).

{"id": 1, "op": "replay", "topic": "Sensor/+", "from": "-1h", "to": "-30m", "speed": 10}
    the answer is {"ack": 1, "replay": 1, "cursor": "<cursor>"}; its events have
    "subscription": 1 and "replay": true
{"id": 2, "op": "pause", "replay": 1}
{"id": 3, "op": "resume", "replay": 1}
{"id": 4, "op": "speed", "replay": 1, "speed": 0.5}
{"id": 5, "op": "seek", "replay": 1, "at": "2026-01-02T03:12:00Z"}
{"id": 6, "op": "stop", "replay": 1}
"""

from typing import TYPE_CHECKING, Any

from rowcast.core.errors import Code, Error
from rowcast.doors.http.streams.replay_words import replay_words
from rowcast.features.replay.replays import replays_of

if TYPE_CHECKING:
    from rowcast.doors.http.streams.websocket import Socket

Fields = dict[str, Any]


async def replay(socket: "Socket", fields: Fields) -> None:
    """Begin a replay."""
    topic = fields["topic"]
    if not isinstance(topic, str):
        raise Error(Code.INVALID, f"topic is text, not {type(topic).__name__}")
    socket.check_served(topic)
    number, start = await socket.replay(replay_words(fields), topic)
    # sent in the turn in which the replay starts, before its events
    cursor = socket.kernel.cursor(start.position)
    socket.say({"ack": fields.get("id"), "replay": number, "cursor": cursor})


async def pause(socket: "Socket", fields: Fields) -> Fields:
    """Pause a replay."""
    replays_of(socket.kernel).pause(socket.feed(fields["replay"]), playing=False)
    return {"replay": fields["replay"], "state": "paused"}


async def resume(socket: "Socket", fields: Fields) -> Fields:
    """Go on with a replay."""
    replays_of(socket.kernel).pause(socket.feed(fields["replay"]), playing=True)
    return {"replay": fields["replay"], "state": "playing"}


async def speed(socket: "Socket", fields: Fields) -> Fields:
    """Change the speed of a replay."""
    feed = socket.feed(fields["replay"])
    replays_of(socket.kernel).set_speed(feed, fields["speed"])
    return {"replay": fields["replay"], "speed": feed.playhead.speed}


async def seek(socket: "Socket", fields: Fields) -> Fields:
    """Go on with a replay at another moment."""
    feed = socket.feed(fields["replay"])
    position = await replays_of(socket.kernel).seek(feed, fields["at"])
    return {"replay": fields["replay"], "cursor": socket.kernel.cursor(position)}


async def stop(socket: "Socket", fields: Fields) -> Fields:
    """End a replay."""
    number = fields["replay"]
    if not socket.unsubscribe(number):
        raise Error(Code.NOT_FOUND, f"there is no replay {str(number)[:80]} on this connection")
    return {"replay": number}
