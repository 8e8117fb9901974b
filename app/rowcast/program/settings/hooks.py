"""Settings of the bundled hooks, each of which is off by default, and of the access list.

The list is no hook but part of the rights; its setting kept the name that it had as one.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from rowcast.core.errors import Error
from rowcast.features.hooks.hook import Hook
from rowcast.features.hooks.logger import Logger
from rowcast.features.hooks.rate_limit import HookRateLimit, RateLimit
from rowcast.features.rights.access_list import AccessRule, Action, Effect
from rowcast.settings.sections import Count, Section


class Access(Section):
    """One rule of the access list; the first that fits decides."""

    effect: Effect
    actions: Annotated[tuple[Action, ...], Field(min_length=1)]
    topics: Annotated[tuple[str, ...], Field(min_length=1)]
    users: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()

    def rule(self) -> AccessRule:
        """Return the rule; raises INVALID for an invalid one."""
        return AccessRule(
            self.effect,
            frozenset(self.actions),
            self.topics,
            frozenset(self.users),
            frozenset(self.clients),
        )


def _followed(rules: tuple[Access, ...]) -> tuple[Access, ...]:
    try:
        _ = [rule.rule() for rule in rules]
    except Error as error:
        raise ValueError(f"cannot be followed: {error.message}") from None
    return rules


class HookRate(Section):
    """How much one caller may do in a second, whatever the door."""

    publishes: Count = Field(
        default=0,
        description="Writes of one caller per second, on all protocols; further ones are refused "
        "(429, 0x97). 0 means no limit.",
    )
    bytes: Count = Field(
        default=0, description="Payload bytes that one caller writes per second; 0 means no limit."
    )
    subscribes: Count = Field(
        default=0, description="Filters that one caller subscribes to per second; 0 means no limit."
    )


class HookSettings(Section):
    """Which hooks are there."""

    acl: Annotated[tuple[Access, ...], AfterValidator(_followed)] = Field(
        default=(),
        description="Rules of the access list. If there are any, whatever no rule allows is "
        "denied.",
    )
    rate: HookRate = HookRate()
    log: Literal["none", "connections", "publishes"] = Field(
        default="none",
        description="What is logged: `none`, `connections` (and subscriptions), or `publishes` "
        "too.",
    )


def bundled(settings: HookSettings) -> Sequence[Hook]:
    """Return the enabled hooks, in the order of their calls."""
    return list(_bundled(settings))


def _bundled(settings: HookSettings) -> Iterator[Hook]:
    if settings.log != "none":
        yield Logger(publishes=settings.log == "publishes")
    rate = settings.rate
    allowance = HookRateLimit(rate.publishes, rate.bytes, rate.subscribes)
    if allowance != HookRateLimit():
        yield RateLimit(allowance)
