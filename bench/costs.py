"""The features whose costs are measured: each with what it is beside, and how it is had.

A feature is measured beside its ``base``, which is another one, so that one difference is seen at
a time: rules beside a user that has signed in, that beside a logged message, and so on to the bare
case. Servers are named by their settings; those with the same name are one process.
"""

import json
from dataclasses import dataclass, field
from typing import Any, Final

SCHEMA = """\
type Plain @table @export { id: ID @primaryKey name: String weight: Float note: String }
type Indexed @table @export {
  id: ID @primaryKey name: String @indexed weight: Float @indexed note: String
}
type Timed @table @export {
  id: ID @primaryKey name: String weight: Float note: String
  created: Date @createdTime updated: Date @updatedTime
}
type Watched @table @export @deadline(after: "10m") {
  id: ID @primaryKey name: String weight: Float note: String
}
type Latest @table @export @deliver(policy: "latest") {
  id: ID @primaryKey name: String weight: Float note: String
}
"""
RULED = """\
type Plain @table @export { id: ID @primaryKey name: String weight: Float note: String }
type Owned @table @export @auth(read: "name == 'Rex'") @auth(roles: ["member"]) {
  id: ID @primaryKey name: String weight: Float note: String
}
type Masked @table @export @auth(roles: ["member"], mask: {note: "last4"}) {
  id: ID @primaryKey name: String weight: Float note: String
}
"""
PASSWORD = "a long secret"
RULES = 10
"""Rules of the server that has some."""


@dataclass(frozen=True, slots=True)
class Had:
    """How a feature is had by two clients, one that writes and one that reads."""

    topic: str = "bench"
    """The first level of what is written; each message has a level of its own below it."""
    version: int = 5
    qos: int = 1
    retain: bool = False
    door: str = "mqtt"
    """Where the reader is: mqtt, sse or ws."""
    transport: str = "tcp"
    """How both speak MQTT: tcp, tls or websocket."""
    accept: str = ""
    share: bool = False
    lasting: bool = False
    user: str = ""
    writer: str = ""
    """Who writes, if that is somebody else."""


@dataclass(frozen=True, slots=True)
class Feature:
    """One row of the table."""

    name: str
    title: str
    base: str
    server: str
    had: Had


@dataclass(frozen=True, slots=True)
class Setup:
    """What a server is started with."""

    settings: dict[str, Any] = field(default_factory=dict)
    schema: str = SCHEMA
    hook: bool = False
    bridge: bool = False
    users: bool = False
    rules: bool = False
    shows: str = ""
    """Rows below ``$SYS`` that there are when it has done what it is measured for."""


HOOKED = "hooks/?calls=gt=0"

SERVERS: dict[str, Setup] = {
    "plain": Setup({"topics.undeclared": "route"}),
    "history": Setup(),
    "tables": Setup(),
    "unlisted": Setup({"slow_subscriptions.top": 0}),
    "tls": Setup({"topics.undeclared": "route"}),
    "users": Setup(users=True),
    "rules": Setup(schema=RULED, users=True, rules=True, shows="rules/"),
    "acl": Setup(
        {
            "hooks.acl": json.dumps(
                [{"effect": "allow", "actions": ["all"], "topics": ["#", "$SYS/#"]}]
            )
        },
    ),
    "rate": Setup({"hooks.rate.publishes": 1_000_000}, shows=HOOKED),
    "hook": Setup(hook=True, shows=HOOKED),
    "bridge": Setup(bridge=True, shows="brokers/?messages_sent=gt=0"),
}
"""By name; ``plain`` comes first: it is what the bridge leads to."""

BARE = "a bare message (MQTT 3.1.1, QoS 0, nothing kept)"
SOCKET = Had(qos=0, transport="websocket")
CBOR, MSGPACK = "application/cbor", "application/x-msgpack"


def stored(topic: str = "Plain", **other: Any) -> Had:
    """Return how a record is had."""
    return Had(topic, retain=True, **other)


WRITTEN_BY_ROOT = stored("Masked", user="ann", writer="root")

FEATURES: Final = (
    Feature("bare", BARE, "", "plain", Had(version=4, qos=0)),
    Feature("mqtt5", "MQTT 5", "bare", "plain", Had(qos=0)),
    Feature("websocket", "MQTT over WebSocket", "mqtt5", "plain", SOCKET),
    Feature("qos1", "QoS 1", "mqtt5", "plain", Had()),
    Feature("qos2", "QoS 2", "qos1", "plain", Had(qos=2)),
    Feature("tls", "TLS", "qos1", "tls", Had(transport="tls")),
    Feature("shared", "a shared subscription", "qos1", "plain", Had(share=True)),
    Feature("session", "a session that stays", "qos1", "plain", Had(lasting=True)),
    Feature("retained", "retained, no table declared", "qos1", "plain", Had(retain=True)),
    Feature("logged", "history (`topics.undeclared: table`)", "qos1", "history", Had()),
    Feature("record", "a record (types checked, retained)", "logged", "tables", stored()),
    Feature("indexed", "two `@indexed`", "record", "tables", stored("Indexed")),
    Feature(
        "times",
        "`@createdTime`, `@updatedTime`",
        "record",
        "tables",
        stored("Timed"),
    ),
    Feature("deadline", "`@deadline`", "record", "tables", stored("Watched")),
    Feature(
        "latest",
        '`@deliver(policy: "latest")`',
        "record",
        "tables",
        stored("Latest"),
    ),
    Feature("cbor", "a reader that wants CBOR", "record", "tables", stored(accept=CBOR)),
    Feature(
        "msgpack",
        "a reader that wants MessagePack",
        "record",
        "tables",
        stored(accept=MSGPACK),
    ),
    Feature("sse", "a reader at SSE", "logged", "tables", Had(door="sse")),
    Feature("ws", "a reader at a WebSocket", "logged", "tables", Had(door="ws")),
    Feature("unlisted", "history, without slow subscriptions", "qos1", "unlisted", Had()),
    Feature("slow", "slow subscriptions listed", "unlisted", "history", Had()),
    Feature("users", "users that signed in", "logged", "users", Had(user="ann")),
    Feature("member", "a record of a user", "users", "users", stored(user="ann")),
    Feature("rules", f"{RULES} rules of `$SYS/rules`", "member", "rules", stored(user="ann")),
    Feature("auth", "`@auth` by record", "rules", "rules", stored("Owned", user="ann")),
    Feature("mask", "a mask, written by an administrator", "rules", "rules", WRITTEN_BY_ROOT),
    Feature("acl", "an access list (`hooks.acl`)", "logged", "acl", Had()),
    Feature("rate", "a rate limit (`hooks.rate.publishes`)", "logged", "rate", Had()),
    Feature("hook", "a hook in Python", "logged", "hook", Had()),
    Feature("bridge", "a bridge to another broker", "logged", "bridge", Had()),
)
