"""Settings of retained messages: ``retainer.*``, and their former names."""

import logging
import re
from types import MappingProxyType
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field

from rowcast.core.durations import parse_duration
from rowcast.core.limits import (
    CONFIG_NUMBER_MAX,
    RETAINED_DELIVERY_RATE,
    RETAINED_PAGE_RECORDS,
    RETAINED_PAYLOAD_BYTES_MAX,
)
from rowcast.features.retained.retain_rules import RetainRules
from rowcast.schema.sizes import parse_size
from rowcast.settings.sections import Count, Number, Section, nothing

log = logging.getLogger("rowcast")

_BACKENDS: Final = "retainer.backends."
_BUILT_IN: Final = "built_in_database"
_OTHER_BACKEND: Final = (
    "retained messages have one backend, built_in_database: they are records of the store, which "
    "each node of a cluster has, and cluster.engine names what keeps their log"
)
_COPIES: Final = "each node of a cluster has all retained messages, and cluster.peers are its nodes"
_OPTIONS: Final = MappingProxyType(
    {
        "n_shards": "one log numbers all writes, so retained messages are not divided into shards",
        "n_sites": _COPIES,
        "replication_factor": _COPIES,
        "replication_options": _COPIES,
        "index_specs": "filters with wildcards need no index that is declared",
        "storage_type": "retained messages are on disk",
    }
)
"""Options of EMQX's stores, at ``backend``, a backend or its ``ds``, and what is here instead."""

_RATE: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?) ?/ ?([0-9]{0,6}(?:ms|[smh]))")
_UNLIMITED: Final = ("infinity", "unlimited", "disabled")


def otherwise(name: str) -> str:
    """Return what is here instead of a setting of another store; empty for any other name."""
    inside = name.removeprefix(_BACKENDS) if name.startswith(_BACKENDS) else ""
    if inside and inside.partition(".")[0] != _BUILT_IN:
        return _OTHER_BACKEND
    option = name.rpartition(".")[2]
    return _OPTIONS.get(option, "") if inside or name.startswith("retainer.backend.") else ""


def _read(value: object) -> object:
    """Parse a value; words for "no limit" become 0."""
    value = value.strip() if isinstance(value, str) else value
    none = nothing(value) is None or (isinstance(value, str) and value.lower() in _UNLIMITED)
    return 0 if none else value


def _duration(value: object) -> object:
    value = _read(value)
    seconds = parse_duration(value) if isinstance(value, str) else value
    if seconds is None or seconds is True:
        raise ValueError("should be a time such as 15m, or a number of seconds")
    return seconds


def _size(value: object) -> object:
    value = _read(value)
    size = parse_size(value) if isinstance(value, str) else value
    if size is None or size is True:
        raise ValueError("should be a size such as 512KiB, or a number of bytes")
    return size


def _rate(value: object) -> object:
    value = _read(value)
    if isinstance(value, str):
        found = _RATE.fullmatch(value)
        if found is None:
            return value  # pydantic reports that it is no number
        unit = found[2]
        seconds = parse_duration(unit if unit[0].isdigit() else f"1{unit}")
        if not seconds:
            raise ValueError("should be a rate such as 1000/s, or a number for a second")
        return float(found[1]) / seconds
    if value is True:
        raise ValueError("should be a rate such as 1000/s, or a number for a second")
    return value


_Positive = Field(ge=0, le=CONFIG_NUMBER_MAX)
Duration = Annotated[Annotated[float, _Positive], BeforeValidator(_duration)]
Size = Annotated[Count, BeforeValidator(_size)]
Rate = Annotated[Annotated[float, _Positive], BeforeValidator(_rate)]


class BackendOptions(Section):
    """What is passed through to the store of one backend (E13)."""

    url: str = Field(
        default="",
        description="URL of the database. `store.url` takes precedence, because log and retained "
        "messages share a database.",
    )


class BuiltInDatabase(Section):
    """The one backend there is: the store."""

    enabled: bool = Field(
        default=True,
        description="Whether retained messages are stored. There is no other backend.",
    )
    ds: BackendOptions = BackendOptions()


class Backends(Section):
    """Who keeps retained messages, by name."""

    built_in_database: BuiltInDatabase = BuiltInDatabase()


class FormerBackend(Section):
    """How the backend was named before there could be several."""

    type: Literal["", "built_in_database"] = Field(
        default="",
        description="Former setting of the backend; `retainer.backends.built_in_database.enabled` "
        "takes precedence.",
    )


class RetainerSettings(Section):
    """Retained messages of topics that no table declares."""

    enabled: bool = Field(
        default=True,
        description="Whether retained messages of undeclared topics are stored and delivered; if "
        "not, a retained publish there is refused.",
    )
    msg_expiry_interval: Duration = Field(
        default=0,
        description="Expiry of retained messages whose sender sets none, such as `15m`; 0: they "
        "do not expire.",
    )
    msg_expiry_interval_override: Duration = Field(
        default=0,
        description="Longest expiry, whatever the sender sets; 0 or `disabled` means no limit.",
    )
    allow_never_expire: bool = Field(
        default=True,
        description="Whether messages without expiry are exempt from "
        "`retainer.msg_expiry_interval_override`.",
    )
    msg_clear_interval: Duration = Field(
        default=0,
        description="Interval of an additional search for expired messages, such as `1m`. They "
        "are deleted when they expire, even with 0.",
    )
    max_payload_size: Size = Field(
        default=RETAINED_PAYLOAD_BYTES_MAX,
        description="Largest retained message, such as `512KiB`; 0: only the limits of all "
        "messages apply.",
    )
    max_retained_messages: Count = Field(
        default=0, description="Number of retained messages; 0 means no limit."
    )
    delivery_rate: Rate = Field(
        default=RETAINED_DELIVERY_RATE,
        description="Retained messages sent to one subscriber per second, such as `1000/s`; 0 or "
        "`infinity` means no limit.",
    )
    batch_read_number: Annotated[Number, Field(ge=1, le=10_000)] = Field(
        default=RETAINED_PAGE_RECORDS,
        description="Retained messages read at a time for one subscriber, for all its filters "
        "together; fewer if their payloads reach 1 MiB.",
    )
    max_publish_rate: Rate = Field(
        default=0,
        description="Retained messages accepted per second, such as `500/s`; 0 or `infinity` "
        "means no limit.",
    )
    stop_publish_clear_msg: bool = Field(
        default=False,
        description="Whether the empty message that clears a retained message is withheld from "
        "MQTT subscribers.",
    )
    backends: Backends = Backends()
    backend: FormerBackend = FormerBackend()

    @property
    def keeps(self) -> bool:
        """Whether retained messages are stored; warns of an ignored backend."""
        if self.backend.type and "backends" in self.model_fields_set:
            log.warning("retainer.backend.type is ignored, because retainer.backends is set")
        return self.enabled and self.backends.built_in_database.enabled

    @property
    def rules(self) -> RetainRules:
        """The rules for the kernel."""
        return RetainRules(
            enabled=self.keeps,
            expiry_seconds=self.msg_expiry_interval,
            expiry_override_seconds=self.msg_expiry_interval_override,
            allow_never_expire=self.allow_never_expire,
            payload_bytes_max=self.max_payload_size,
            messages_max=self.max_retained_messages,
            publish_rate=self.max_publish_rate,
        )
