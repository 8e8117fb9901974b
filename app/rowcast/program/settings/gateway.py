"""Settings of the bridges to other brokers, with names and defaults (H18, H19)."""

import ssl
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator

from rowcast.core.errors import Code, Error
from rowcast.core.gateway_limits import GATEWAY_FLYING_MAX
from rowcast.core.topics import SHARE_PREFIX, TopicFilter, check_topic, fits_level
from rowcast.features.bridges.backlog import Caps, Policy
from rowcast.features.bridges.outbox import Rules
from rowcast.features.bridges.plan import Mode, Plan, Route
from rowcast.features.bridges.remote import MQTT_3_1_1, MQTT_5, Remote
from rowcast.program.settings.mistakes import mistake
from rowcast.settings.sections import Count, Number, PlaceOrNone, Section
from rowcast.subscriptions.offered import PREFIXES


def _filter(text: str) -> str:
    try:
        TopicFilter(text)
    except Error as error:
        raise ValueError(error.message) from None
    return text


def _filter_there(text: str) -> str:
    """Check a filter of another broker, also of a shared subscription there."""
    way = _way_of(text)
    _filter(text[len(way) :])
    if way.startswith(SHARE_PREFIX) and not fits_level(way.split("/")[1]):
        raise ValueError("a share needs a name without '+' and '#': $share/<name>/<filter>")
    return text


def _way_of(text: str) -> str:
    """Return what a filter begins with that says how to subscribe; no topic begins so."""
    first, slash, rest = text.partition("/")
    if not slash or first not in PREFIXES:
        return ""
    return f"{first}/{rest.partition('/')[0]}/" if text.startswith(SHARE_PREFIX) else f"{first}/"


def _filter_here(text: str) -> str:
    if _way_of(_filter(text)):
        raise ValueError(f"{text.partition('/')[0]}/ is for filters of in; a bridge sends all once")
    return text


def _part(text: str) -> str:
    try:
        check_topic(text or "/")
    except Error as error:
        raise ValueError(error.message) from None
    return text


def _host(text: str) -> str:
    """Return a valid host; other text may contain a secret, which messages would reveal."""
    if set("@/ ") & set(text):
        raise ValueError(
            "should be a name or an address alone, such as broker.example; who signs in there is "
            "said with username and password, and TLS with tls: true"
        )
    return text


def _synced(text: str) -> str:
    if _filter(text).startswith("$"):
        raise ValueError("topics with $ are the server's own and cannot be kept equal elsewhere")
    return text


Part = Annotated[str, AfterValidator(_part)]
"""A prefix of topics."""


class Carried(Section):
    """What is carried one way: a filter, and how its topics are called on the other side."""

    filter: str
    prefix: Part = ""
    strip: Part = ""
    qos: Literal[0, 1, 2] = 1

    def route(self) -> Route:
        """Return the route."""
        way = _way_of(self.filter)
        topics = TopicFilter(self.filter[len(way) :])
        return Route(topics, self.prefix, self.strip, self.qos, way=way)


class CarriedIn(Carried):
    """The same for the way in, which may be shared with other subscribers there."""

    filter: Annotated[str, AfterValidator(_filter_there)]


class CarriedOut(Carried):
    """The same for the way out, which may tell of changes instead of values."""

    filter: Annotated[str, AfterValidator(_filter_here)]
    feed: Literal["", "row", "statement"] = ""

    @model_validator(mode="after")
    def _whole_tables(self) -> Self:
        if self.feed == "statement" and not TopicFilter(self.filter).path:
            raise ValueError(
                f'feed: statement is of a whole table, as in filter: "Weather/#"; {self.filter!r} '
                "selects something else; feed: row takes any filter"
            )
        return self

    def route(self) -> Route:
        """Return the route."""
        return replace(super().route(), feed=self.feed)


class RemoteBroker(Section):
    """One broker, and what goes there and comes from there."""

    name: Annotated[str, Field(pattern="^[A-Za-z0-9_.-]{1,64}$")]
    host: Annotated[str, Field(min_length=1, repr=False), AfterValidator(_host)]
    port: Annotated[Number, Field(ge=1, le=65_535)] = 1883
    version: Literal["5", "3.1.1"] = "5"
    client_id: Annotated[str, Field(pattern="^[ -~]*$")] = ""
    username: str = ""
    password: str = Field(default="", repr=False)
    tls: bool = False
    certificate_authority: PlaceOrNone = None
    certificate: PlaceOrNone = None
    private_key: PlaceOrNone = None
    keep_alive_seconds: Annotated[Number, Field(ge=1, le=65_535)] = 30
    out: tuple[CarriedOut, ...] = ()
    into: tuple[CarriedIn, ...] = Field(default=(), alias="in")
    sync: tuple[Annotated[str, AfterValidator(_synced)], ...] = ()
    mode: Mode = Mode.HYBRID
    ordering: Literal["strict", "relaxed"] = "strict"
    max_inflight: Annotated[Number, Field(ge=1, le=65_535)] = GATEWAY_FLYING_MAX
    poison_max_attempts: Annotated[Number, Field(ge=1, le=100)] = 5
    outbox_batch_size: Annotated[Number, Field(ge=1, le=10_000)] = 500
    outbox_max_events: Count = 0
    outbox_max_bytes: Count = 0
    outbox_max_age_seconds: Count = 0
    outbox_policy: Policy = Policy.DROP_OLDEST
    dead_letter_retain_days: Annotated[Number, Field(ge=1, le=3_650)] = 30
    reconnect_interval_ms: Annotated[Number, Field(ge=1, le=60_000)] = 5_000
    queue_size: Annotated[Number, Field(ge=64, le=1_048_576)] | None = None
    publish_timeout_ms: Annotated[Number, Field(ge=0, le=60_000)] = 100
    worker_poll_interval_ms: Annotated[Number, Field(ge=1, le=10_000)] = 10

    @model_validator(mode="after")
    def _may_sync(self) -> Self:
        if not self.sync:
            return self
        if self.out:
            raise ValueError(
                "sync and out cannot be together, because a topic is carried once; give the topics "
                "of out to a second broker with another name"
            )
        if self.version != "5" or self.mode is Mode.MEMORY:
            raise ValueError(
                'sync needs version "5", whose properties carry versions, and the mode hybrid or '
                "outbox, which lose nothing at a restart"
            )
        return self

    def _sent(self) -> tuple[Route, ...]:
        """Return the routes of what is published there."""
        synced = (Route(TopicFilter(text), sync=True) for text in self.sync)
        return (*(item.route() for item in self.out), *synced)

    def plan(self) -> Plan:
        """Return the bridge's plan; raises OSError for a certificate that cannot be read."""
        remote = Remote(
            self.host, self.port, MQTT_5 if self.version == "5" else MQTT_3_1_1,
            self.client_id, self.username, self.password,
            self._context(), self.keep_alive_seconds, self.max_inflight,
        )  # fmt: skip
        rules = Rules(
            attempts_max=self.poison_max_attempts,
            held_max=self.outbox_batch_size,
            strict=self.ordering == "strict",
        )
        caps = Caps(
            self.outbox_max_events, self.outbox_max_bytes, self.outbox_max_age_seconds,
            self.outbox_policy,
        )  # fmt: skip
        return Plan(
            self.name, remote,
            self._sent(),
            tuple(item.route() for item in self.into),
            self.mode, rules, caps, self.dead_letter_retain_days,
            self.reconnect_interval_ms / 1000, self.queue_size or 0,
            self.publish_timeout_ms / 1000, self.worker_poll_interval_ms / 1000,
        )  # fmt: skip

    def _context(self) -> ssl.SSLContext | None:
        if not (self.tls or self.certificate_authority or self.certificate):
            return None
        context = ssl.create_default_context(cafile=self.certificate_authority)
        if self.certificate is not None:
            context.load_cert_chain(self.certificate, self.private_key)
        return context


def _named_once(brokers: tuple[RemoteBroker, ...]) -> tuple[RemoteBroker, ...]:
    names = [broker.name for broker in brokers]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"name {', '.join(sorted(twice))} twice; give each a name of its own")
    return brokers


class GatewaySettings(Section):
    """The bridges."""

    brokers: Annotated[tuple[RemoteBroker, ...], AfterValidator(_named_once)] = Field(
        default=(),
        description="Bridges: other brokers, and the topics published there (`out`) and received "
        "from there (`in`).",
    )


def plan_of(given: dict[str, Any]) -> Plan:
    """Return the plan of a broker from a section of the configuration; raises INVALID."""
    try:
        return RemoteBroker.model_validate(given).plan()
    except ValidationError as mistakes:
        said = "; ".join(
            f"{'.'.join(map(str, one['loc'])) or 'it'} {mistake(one, RemoteBroker, secret=True)}"
            for one in mistakes.errors(include_url=False)
        )
        raise Error(Code.INVALID, f"this is no broker: {said}") from None
    except OSError as failure:
        raise Error(Code.INVALID, f"its certificate cannot be read: {failure}") from None


def synced(settings: GatewaySettings) -> tuple[TopicFilter, ...]:
    """Return the topics that are kept equal at other sites."""
    return tuple(TopicFilter(text) for broker in settings.brokers for text in broker.sync)


def plans(settings: GatewaySettings) -> tuple[Plan, ...]:
    """Return the plans of all bridges."""
    return tuple(broker.plan() for broker in settings.brokers)
